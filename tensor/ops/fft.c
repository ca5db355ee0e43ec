/* Discrete Fourier transforms as products with small matrices.
 *
 * Within, complex numbers lie as planes: (batch, 2, n), real parts first. A
 * length that has a divisor d of at most MAX_RADIX is done in two: d-point
 * transforms, which are one product with a (2 d, 2 d) matrix of real numbers,
 * a turn of each number, and transforms of length n / d. One that has none is
 * a product of its own up to MAX_DIRECT, and beyond that a convolution
 * (Bluestein), done by transforms of a power of two.
 *
 * Angles are reduced as integers and computed in float64, or without that to
 * an eighth of a turn and in float32.
 */
#include "doorbell/fft.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tensor/ops/fft.h"
#include "tensor/ops/matmul.h"

#define MAX_RADIX  64
#define MAX_DIRECT 256
/* The longest transform: squares of places fit in int64_t. */
#define MAX_LENGTH ((int64_t)1 << 30)

#define PI 3.14159265358979323846

/* ---- tables ---- */

static const struct uop *
times_int(struct bell_context *ctx, const struct uop *u, int64_t c)
{
    return tn_mul(ctx, u, tn_int(ctx, UOP_I64, c));
}

/* cos(2 pi at / n) of integers 0 <= at < n, n a multiple of 4, where there is
 * no float64: at is a number of quarter turns and the rest, an eighth at most,
 * so that little of the angle is lost when it becomes float32. */
static const struct uop *
cos_of_eighth(struct bell_context *ctx, const struct uop *at, int64_t n)
{
    const struct uop *one = tn_int(ctx, UOP_I64, 1), *turns, *x, *u, *is_odd;

    assert(n % 4 == 0);
    turns = tn_alu2(ctx, UOP_IDIV, tn_add_c(ctx, at, (double)(n / 8)),
                    tn_int(ctx, UOP_I64, n / 4));
    x = tn_sub(ctx, at, times_int(ctx, turns, n / 4));
    x = tn_mul_c(ctx, tn_cast(ctx, x, UOP_F32), 2 * PI / (double)n);
    is_odd = tn_eq(ctx, tn_and(ctx, turns, one), one);
    u = tn_where(ctx, is_odd, tn_sin(ctx, x), tn_cos(ctx, x));
    /* -sin after one quarter, -cos after two */
    turns = tn_alu2(ctx, UOP_SHR, tn_add(ctx, turns, one), one);
    turns = tn_eq(ctx, tn_and(ctx, turns, one), one);
    return tn_where(ctx, turns, tn_neg(ctx, u), u);
}

/* cos(2 pi at / n) of integers, in memory of its own. */
static const struct uop *
make_cos(struct bell_context *ctx, const struct uop *at, int64_t n,
         enum uop_dtype dtype)
{
    const struct uop *u =
        tn_alu2(ctx, UOP_FLOORMOD, at, tn_int(ctx, UOP_I64, n));

    if (dtype == UOP_F32 && !tensor_device_has_f64(ctx)) {
        u = cos_of_eighth(ctx, u, n);
    } else {
        u = tn_mul_c(ctx, tn_cast(ctx, u, UOP_F64), 2 * PI / (double)n);
        u = tn_cast(ctx, tn_cos(ctx, u), dtype);
    }
    return tn_wrap(ctx, UOP_CONTIGUOUS, u);
}

/* The matrix of an n-point transform of planes, (2 n, n_planes * n): out (p, k)
 * of in (q, j) is cos, -sin (p = 0, q = 1) or sin (1, 0) of the angle, all of
 * which are cos of quarter turns more or less. */
static const struct uop *
make_matrix(struct bell_context *ctx, int64_t n, int64_t n_planes, int sign,
            enum uop_dtype dtype)
{
    const struct uop *p = tn_iota(ctx, 4, 0, 2, UOP_I64);
    const struct uop *k = tn_iota(ctx, 4, 1, n, UOP_I64);
    const struct uop *q = tn_iota(ctx, 4, 2, n_planes, UOP_I64);
    const struct uop *j = tn_iota(ctx, 4, 3, n, UOP_I64);
    const struct uop *at = times_int(ctx, tn_mul(ctx, k, j), 4 * sign), *u;
    const int64_t d[4] = {2, n, n_planes, n};

    at = tn_add(ctx, at, times_int(ctx, tn_sub(ctx, q, p), n));
    at = tn_broadcast(ctx, at, d, 4);
    u = make_cos(ctx, at, 4 * n, dtype);
    return tn_merge_axes(ctx, tn_merge_axes(ctx, u, 2, 2), 0, 2);
}

/* x turned by 2 pi at / n, where `at` is (rows, columns) and x is
 * (batch, 2, rows, columns). */
static const struct uop *
turn(struct bell_context *ctx, const struct uop *x, const struct uop *at,
     int64_t n)
{
    const struct uop *p = tn_iota(ctx, 3, 0, 2, UOP_I64), *quarter, *c, *s;

    if (tn_bad(x) || tn_bad(at))
        return &uop_failed;
    assert(tn_rank(ctx, x) == 4);
    at = times_int(ctx, at, 4);
    c = make_cos(ctx, at, 4 * n, x->dtype);
    /* + pi / 2 in plane 0: -sin; - pi / 2 in plane 1: sin */
    quarter = tn_sub(ctx, tn_int(ctx, UOP_I64, n), times_int(ctx, p, 2 * n));
    s = make_cos(ctx, tn_add(ctx, tn_unsqueeze(ctx, at, 0), quarter), 4 * n,
                 x->dtype);
    return tn_add(ctx, tn_mul(ctx, x, c),
                  tn_mul(ctx, tn_flip(ctx, x, 1u << 1), s));
}

/* ---- transforms of (batch, planes, n) to (batch, 2, n) ---- */

static const struct uop *
reshape4(struct bell_context *ctx, const struct uop *u, int64_t a, int64_t b,
         int64_t c, int64_t d)
{
    return tn_reshape(ctx, u, (const int64_t[]){a, b, c, d}, 4);
}

static const struct uop *
reshape3(struct bell_context *ctx, const struct uop *u, int64_t a, int64_t b,
         int64_t c)
{
    return tn_reshape(ctx, u, (const int64_t[]){a, b, c}, 3);
}

static const struct uop *
direct(struct bell_context *ctx, const struct uop *x, int sign)
{
    int64_t batch = tn_size(ctx, x, 0), planes = tn_size(ctx, x, 1),
            n = tn_size(ctx, x, 2);
    const struct uop *w = make_matrix(ctx, n, planes, sign, x->dtype);

    x = tn_reshape(ctx, x, (const int64_t[]){batch, planes * n}, 2);
    x = tn_matmul(ctx, x, tn_swap(ctx, w, 0, 1));
    return tn_bad(x) ? x : reshape3(ctx, x, batch, 2, n);
}

/* Cooley and Tukey: of j = (n / d) j1 + j2 and k = k1 + d k2. */
static const struct uop *
split(struct bell_context *ctx, const struct uop *x, int64_t d, int sign)
{
    int64_t batch = tn_size(ctx, x, 0), planes = tn_size(ctx, x, 1),
            n = tn_size(ctx, x, 2), rest = n / d;
    const struct uop *w = make_matrix(ctx, d, planes, sign, x->dtype), *at;

    x = tn_matmul(ctx, w, reshape3(ctx, x, batch, planes * d, rest));
    if (tn_bad(x))
        return x;
    x = reshape4(ctx, x, batch, 2, d, rest);
    at = tn_mul(ctx, tn_iota(ctx, 2, 0, d, UOP_I64),
                tn_iota(ctx, 2, 1, rest, UOP_I64));
    x = turn(ctx, x, times_int(ctx, at, sign), n);
    if (tn_bad(x))
        return x;
    x = reshape3(ctx, tn_swap(ctx, x, 1, 2), dim_mul(ctx->dims, batch, d), 2,
                 rest);
    x = tn_fourier(ctx, x, sign);
    if (tn_bad(x))
        return x;
    x = reshape4(ctx, x, batch, d, 2, rest);
    x = tn_permute(ctx, x, (const int64_t[]){0, 2, 3, 1});
    return reshape3(ctx, x, batch, 2, n);
}

/* x times h, (1, 2, n). */
static const struct uop *
multiply(struct bell_context *ctx, const struct uop *x, const struct uop *h)
{
    const struct uop *re = tn_shrink_axis(ctx, h, 1, 0, 1);
    const struct uop *im = tn_shrink_axis(ctx, h, 1, 1, 2);
    const struct uop *p = tn_iota(ctx, 3, 1, 2, x->dtype);

    /* -im for plane 0, im for plane 1 */
    im = tn_mul(ctx, im, tn_add_c(ctx, tn_mul_c(ctx, p, 2), -1));
    return tn_add(ctx, tn_mul(ctx, x, re),
                  tn_mul(ctx, tn_flip(ctx, x, 1u << 1), im));
}

/* j k = (j^2 + k^2 - (k - j)^2) / 2: a turn, a convolution with e^(-+ i pi
 * j^2 / n), a turn. */
static const struct uop *
bluestein(struct bell_context *ctx, const struct uop *x, int sign)
{
    int64_t batch = tn_size(ctx, x, 0), n = tn_size(ctx, x, 2), m = 1;
    const struct uop *j = tn_iota(ctx, 1, 0, n, UOP_I64), *at, *far, *h, *one;

    while (m < 2 * n - 1)
        m *= 2;
    at = tn_reshape(ctx, tn_mul(ctx, j, j), (const int64_t[]){1, n}, 2);
    /* the filter: place i is of j = i, or i - m */
    far = tn_iota(ctx, 1, 0, m, UOP_I64);
    far = tn_min(ctx, far, tn_sub(ctx, tn_int(ctx, UOP_I64, m), far));
    far = tn_reshape(ctx, tn_mul(ctx, far, far), (const int64_t[]){1, m}, 2);
    one = tn_sub(ctx, tn_int(ctx, UOP_I64, 1), tn_iota(ctx, 4, 1, 2, UOP_I64));
    h = tn_broadcast(ctx, tn_cast(ctx, one, x->dtype),
                     (const int64_t[]){1, 2, 1, m}, 4);
    h = turn(ctx, h, times_int(ctx, far, -sign), 2 * n);
    if (tn_bad(h))
        return h;
    h = tn_wrap(ctx, UOP_CONTIGUOUS,
                tn_fourier(ctx, reshape3(ctx, h, 1, 2, m), -1));
    x = turn(ctx, reshape4(ctx, x, batch, 2, 1, n), times_int(ctx, at, sign),
             2 * n);
    if (tn_bad(x) || tn_bad(h))
        return &uop_failed;
    x = tn_pad_axis(ctx, reshape3(ctx, x, batch, 2, n), 2, 0, m - n);
    x = tn_fourier(ctx, x, -1);
    if (tn_bad(x))
        return x;
    x = tn_fourier(ctx, multiply(ctx, x, h), 1);
    if (tn_bad(x))
        return x;
    x = tn_mul_c(ctx, tn_shrink_axis(ctx, x, 2, 0, n), 1 / (double)m);
    x = turn(ctx, reshape4(ctx, x, batch, 2, 1, n), times_int(ctx, at, sign),
             2 * n);
    return tn_bad(x) ? x : reshape3(ctx, x, batch, 2, n);
}

/* The divisor nearest to the square root, or 1. */
static int64_t
pick_radix(int64_t n)
{
    int64_t d, best = 1;

    for (d = 2; d <= MAX_RADIX && d * d <= n; d++) {
        if (n % d == 0)
            best = d;
    }
    for (d = MAX_RADIX; d * d > n && best == 1 && d > 1; d--) {
        if (n % d == 0)
            best = d;
    }
    return best;
}

const struct uop *
tn_fourier(struct bell_context *ctx, const struct uop *x, int sign)
{
    int64_t n, d;

    if (tn_bad(x))
        return x;
    n = tn_size(ctx, x, 2);
    if (n <= MAX_RADIX)
        return direct(ctx, x, sign);
    d = pick_radix(n);
    if (d > 1)
        return split(ctx, x, d, sign);
    if (n <= MAX_DIRECT)
        return direct(ctx, x, sign);
    if (tn_size(ctx, x, 1) == 1)
        x = tn_pad_axis(ctx, x, 1, 0, 1);
    return bluestein(ctx, x, sign);
}

/* The elements that are not given are conjugates of the others: x[n - k]. */
const struct uop *
tn_fourier_real(struct bell_context *ctx, const struct uop *u, int64_t n)
{
    int64_t n_back = n - (n / 2 + 1);
    const struct uop *back, *p;

    if (tn_bad(u))
        return u;
    if (n_back > 0) {
        back = tn_flip(ctx, tn_shrink_axis(ctx, u, 2, 1, n_back + 1), 4);
        p = tn_iota(ctx, 3, 1, 2, u->dtype);
        back = tn_mul(ctx, back, tn_add_c(ctx, tn_mul_c(ctx, p, -2), 1));
        u = tn_add(ctx, tn_pad_axis(ctx, u, 2, 0, n_back),
                   tn_pad_axis(ctx, back, 2, n - n_back, 0));
    }
    u = tn_fourier(ctx, u, 1);
    return tn_bad(u) ? u : tn_shrink_axis(ctx, u, 1, 0, 1);
}

/* ---- calls ---- */

struct fft {
    struct bell_context *ctx;
    const struct uop *u; /* of float32 or float64; the axis last, or before the
                          * pairs */
    enum uop_dtype dtype;
    uint32_t rank, axis; /* of the axes that count */
    int64_t n;           /* 0: to be found */
    double scale;
};

/* The factor of the transform of length n in this direction. */
static bool
find_scale(const char *norm, int sign, int64_t n, double *out)
{
    bool is_forward = norm && strcmp(norm, "forward") == 0;

    if (norm && strcmp(norm, "ortho") == 0) {
        *out = 1 / sqrt((double)n);
        return true;
    }
    if (norm && !is_forward && strcmp(norm, "backward") != 0)
        return false;
    *out = is_forward == (sign < 0) ? 1 / (double)n : 1;
    return true;
}

/* Checks the arguments; the axis goes to the end. `n_pairs` is 1 where x is
 * complex, `halved`: of x's size - 1 come 2. False with *out set. */
static bool
begin(const char *call, struct bell_tensor *x, int64_t n, int axis,
      const char *norm, int sign, uint32_t n_pairs, bool halved,
      struct fft *out_f, struct bell_tensor **out)
{
    struct fft f = {.n = n};
    int at;

    if (!tensor_takes(call, x, out))
        return false;
    f.ctx = tensor_at(x)->ctx;
    f.rank = tensor_at(x)->shape->n;
    *out = f.ctx->error_tensor;
    if (n_pairs && (f.rank == 0 || tensor_at(x)->shape->d[f.rank - 1] != 2)) {
        tensor_fail(f.ctx, call, BELL_BAD_SHAPE,
                    "%s: the last axis of complex numbers is 2, real and "
                    "imaginary part",
                    SHAPE_OF(x));
        return false;
    }
    f.rank -= n_pairs;
    if (f.rank == 0) {
        tensor_fail(f.ctx, call, BELL_BAD_SHAPE, "%s: no axis to transform",
                    SHAPE_OF(x));
        return false;
    }
    at = tensor_axis(f.ctx, call, axis, f.rank);
    if (at < 0)
        return false;
    f.axis = (uint32_t)at;
    if (!tensor_plain_axes(call, x, tn_axis_bit(at),
                           "a transform is for one size", out))
        return false;
    if (n == 0) {
        int64_t size = tensor_at(x)->shape->d[at];
        f.n = halved ? 2 * (size - 1) : size;
    }
    if (f.n < 1 || f.n > MAX_LENGTH) {
        tensor_fail(f.ctx, call, BELL_BAD_SIZE,
                    "%s: a transform of %lld numbers; 1 to %lld are possible",
                    SHAPE_OF(x), (long long)f.n, (long long)MAX_LENGTH);
        return false;
    }
    if (!find_scale(norm, sign, f.n, &f.scale)) {
        tensor_fail(f.ctx, call, BELL_BAD_VALUE,
                    "norm '%s'; backward, forward and ortho are known", norm);
        return false;
    }
    f.u = tensor_node(x);
    f.dtype = tensor_wide_dtype(f.u->dtype);
    if (!uop_dtype_infos[f.dtype].is_float)
        f.dtype = UOP_F32;
    f.u = tn_widen(f.ctx, tn_cast(f.ctx, f.u, f.dtype));
    f.u = tn_move_axis(f.ctx, f.u, f.axis, f.rank - 1);
    if (tn_bad(f.u)) {
        *out = tensor_new(f.ctx, call, f.u);
        return false;
    }
    *out_f = f;
    return true;
}

/* Complex numbers as planes, the axis cut or filled to `size`. */
static const struct uop *
to_planes(const struct fft *f, int64_t size)
{
    struct bell_context *ctx = f->ctx;
    int64_t have = tn_size(ctx, f->u, f->rank - 1);
    const struct uop *u = tn_pad_axis(ctx, f->u, f->rank - 1, 0, size - have);

    if (tn_bad(u))
        return u;
    u = reshape3(ctx, u, dim_divide(ctx->dims, tn_elems(ctx, u), 2 * size),
                 size, 2);
    return tn_swap(ctx, u, 1, 2);
}

/* (batch, planes, size) as the call's result: scaled, the axis back in its
 * place; one plane is real. */
static struct bell_tensor *
finish(const char *call, const struct fft *f, const struct uop *u)
{
    struct bell_context *ctx = f->ctx;
    int64_t d[TN_MAX_RANK + 1];
    bool is_complex;
    uint32_t rank = f->rank;

    if (tn_bad(u))
        return tensor_new(ctx, call, u);
    is_complex = tn_size(ctx, u, 1) == 2;
    memcpy(d, tn_shape(ctx, f->u)->d, (rank - 1) * sizeof(*d));
    d[rank - 1] = tn_size(ctx, u, 2);
    d[rank] = 2;
    if (f->scale != 1)
        u = tn_mul_c(ctx, u, f->scale);
    u = tn_reshape(ctx, tn_swap(ctx, u, 1, 2), d, rank + is_complex);
    if (tn_bad(u))
        return tensor_new(ctx, call, u);
    u = tn_move_axis(ctx, u, rank - 1, f->axis);
    return tensor_new(ctx, call, tn_cast(ctx, u, f->dtype));
}

static struct bell_tensor *
transform_complex(const char *call, struct bell_tensor *x, int64_t n, int axis,
                  const char *norm, int sign)
{
    struct bell_tensor *out;
    struct fft f;

    if (!begin(call, x, n, axis, norm, sign, 1, false, &f, &out))
        return out;
    return finish(call, &f, tn_fourier(f.ctx, to_planes(&f, f.n), sign));
}

struct bell_tensor *
bell_fft(struct bell_tensor *x, int64_t n, int axis, const char *norm)
{
    return transform_complex(__func__, x, n, axis, norm, -1);
}

struct bell_tensor *
bell_ifft(struct bell_tensor *x, int64_t n, int axis, const char *norm)
{
    return transform_complex(__func__, x, n, axis, norm, 1);
}

struct bell_tensor *
bell_rfft(struct bell_tensor *x, int64_t n, int axis, const char *norm)
{
    struct bell_tensor *out;
    const struct uop *u;
    struct fft f;

    if (!begin(__func__, x, n, axis, norm, -1, 0, false, &f, &out))
        return out;
    if (f.rank == BELL_MAX_RANK)
        return tensor_fail(f.ctx, __func__, BELL_BAD_SHAPE,
                           "%s: the result has one axis too many", SHAPE_OF(x));
    u = tn_pad_axis(f.ctx, f.u, f.rank - 1, 0,
                    f.n - tn_size(f.ctx, f.u, f.rank - 1));
    if (!tn_bad(u))
        u = reshape3(f.ctx, u, dim_divide(f.ctx->dims, tn_elems(f.ctx, u), f.n),
                     1, f.n);
    u = tn_fourier(f.ctx, u, -1);
    if (!tn_bad(u))
        u = tn_shrink_axis(f.ctx, u, 2, 0, f.n / 2 + 1);
    return finish(__func__, &f, u);
}

struct bell_tensor *
bell_irfft(struct bell_tensor *x, int64_t n, int axis, const char *norm)
{
    struct bell_tensor *out;
    struct fft f;

    if (!begin(__func__, x, n, axis, norm, 1, 1, true, &f, &out))
        return out;
    return finish(__func__, &f,
                  tn_fourier_real(f.ctx, to_planes(&f, f.n / 2 + 1), f.n));
}
