/* The calls of linalg.h: arguments, batches, gradients. The work is done in
 * factor.c, on (batch, rows, columns).
 *
 * Gradients are the textbooks' formulas in results and calls, as those of a
 * bell_custom: they have gradients themselves. A function with several results
 * has them as rows of one node.
 */
#include "doorbell/linalg.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/ops/elementwise.h"
#include "tensor/ops/factor.h"
#include "tensor/core/rules.h"
#include "tensor/ops/matmul.h"

/* ---- arguments ---- */

/* A call's matrices as one batch. */
struct matrices {
    struct bell_context *ctx;
    const struct uop *u; /* (batch, rows, columns); float32 or float64 */
    enum uop_dtype dtype;
    uint32_t rank;
    int64_t d[TN_MAX_RANK]; /* the tensor's sizes */
    int64_t batch, m, n;
    bool empty; /* has no elements */
};

/* What halves and integers are computed in; *dtype what they come out as. */
static const struct uop *
as_linalg_float(struct bell_context *ctx, const struct uop *u,
                enum uop_dtype *dtype)
{
    *dtype = tensor_wide_dtype(*dtype);
    if (!uop_dtype_infos[*dtype].is_float)
        *dtype = UOP_F32;
    return tn_widen(ctx, tn_cast(ctx, u, *dtype));
}

/* The sizes of `u`, whose last two are the matrices'. */
static void
measure_matrix(struct matrices *a)
{
    a->rank = tn_rank(a->ctx, a->u);
    memcpy(a->d, tn_shape(a->ctx, a->u)->d, a->rank * sizeof(*a->d));
    a->m = a->d[a->rank - 2];
    a->n = a->d[a->rank - 1];
    a->batch = dim_product(a->ctx->dims, a->d, a->rank - 2);
    a->empty = a->batch == 0 || a->m == 0 || a->n == 0;
    a->u = tn_reshape(a->ctx, a->u, (const int64_t[]){a->batch, a->m, a->n}, 3);
}

/* Checks that x is matrices that are not too large; `square`: rows and columns
 * agree. False with *out set. */
static bool
take_matrices(const char *call, struct bell_tensor *x, bool square,
              struct matrices *out_a, struct bell_tensor **out)
{
    struct matrices a = {0};
    const struct uop_dims *shape;

    if (!tensor_takes(call, x, out))
        return false;
    a.ctx = tensor_at(x)->ctx;
    *out = a.ctx->error_tensor;
    shape = tensor_at(x)->shape;
    if (shape->n < 2 ||
        (square && shape->d[shape->n - 1] != shape->d[shape->n - 2])) {
        tensor_fail(a.ctx, call, BELL_BAD_SHAPE, "%s: %s", SHAPE_OF(x),
                    shape->n < 2 ? "a matrix has two axes"
                                 : "the matrix is not square");
        return false;
    }
    if (!tensor_plain_axes(call, x, 3u << (shape->n - 2),
                           "matrices are of plain sizes", out))
        return false;
    if (shape->d[shape->n - 1] > BELL_MAX_MATRIX ||
        shape->d[shape->n - 2] > BELL_MAX_MATRIX) {
        tensor_fail(a.ctx, call, BELL_BAD_SIZE,
                    "%s: matrices of up to %d x %d are possible", SHAPE_OF(x),
                    BELL_MAX_MATRIX, BELL_MAX_MATRIX);
        return false;
    }
    a.dtype = tensor_node(x)->dtype;
    a.u = as_linalg_float(a.ctx, tensor_node(x), &a.dtype);
    if (tn_bad(a.u)) {
        *out = tensor_new(a.ctx, call, a.u);
        return false;
    }
    measure_matrix(&a);
    *out_a = a;
    return true;
}

/* u, (batch, m, n), as the call's result: with the batch's axes and `dtype`. */
static struct bell_tensor *
give(const char *call, const struct matrices *a, const struct uop *u,
     enum uop_dtype dtype)
{
    int64_t d[TN_MAX_RANK];

    if (tn_bad(u))
        return tensor_new(a->ctx, call, u);
    memcpy(d, a->d, (a->rank - 2) * sizeof(*d));
    d[a->rank - 2] = tn_size(a->ctx, u, 1);
    d[a->rank - 1] = tn_size(a->ctx, u, 2);
    u = tn_reshape(a->ctx, u, d, a->rank);
    return tensor_new(a->ctx, call, tn_cast(a->ctx, u, dtype));
}

/* Zeros (batch, m, n), for what has no elements. */
static const struct uop *
nothing(const struct matrices *a, int64_t m, int64_t n)
{
    const int64_t d[3] = {a->batch, m, n};

    return tn_full(a->ctx, tn_num(a->ctx, a->u, 0), d, 3);
}

/* ---- gradients ---- */

typedef bell_status backward_fn(struct bell_context *ctx, void *user,
                                struct bell_tensor *const *in, uint32_t n_in,
                                struct bell_tensor *out,
                                struct bell_tensor *grad,
                                struct bell_tensor **out_grads);

static const struct uop *
with_gradient(struct bell_context *ctx, const char *call, const struct uop *u,
              backward_fn *backward, const struct uop *a, const struct uop *b)
{
    const struct bell_custom_desc desc = {
        .struct_size = sizeof(desc), .name = call, .backward = backward};
    const struct uop *in[2] = {a, b};

    return tensor_custom_node(ctx, u, &desc, in, b ? 2 : 1);
}

/* S = L^-T phi(L^T G) L^-1, phi the lower triangle with half the diagonal; its
 * symmetric part. */
static bell_status
cholesky_back(struct bell_context *ctx, void *user,
              struct bell_tensor *const *in, uint32_t n_in,
              struct bell_tensor *out, struct bell_tensor *grad,
              struct bell_tensor **out_grads)
{
    struct bell_tensor *phi = bell_matmul(bell_t(out), grad), *s;

    (void)ctx;
    (void)user;
    (void)in;
    (void)n_in;
    phi = bell_mul_scalar(bell_add(bell_tril(phi, 0), bell_tril(phi, -1)), 0.5);
    s = bell_solve_triangular(bell_t(out), phi, true, false);
    s = bell_t(bell_solve_triangular(bell_t(out), bell_t(s), true, false));
    out_grads[0] = bell_mul_scalar(bell_add(s, bell_t(s)), 0.5);
    return BELL_OK;
}

/* The gradients of T X = B: G_B = T^-T G, G_T = -G_B X^T. */
static bell_status
substitute_back(struct bell_context *ctx, void *user,
                struct bell_tensor *const *in, uint32_t n_in,
                struct bell_tensor *out, struct bell_tensor *grad,
                struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)n_in;
    out_grads[1] = bell_solve_triangular(bell_t(in[0]), grad, true, false);
    out_grads[0] =
        bell_tril(bell_neg(bell_matmul(out_grads[1], bell_t(out))), 0);
    return BELL_OK;
}

static bell_status
solve_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
           struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)n_in;
    out_grads[1] = bell_solve(bell_t(in[0]), grad);
    out_grads[0] = bell_neg(bell_matmul(out_grads[1], bell_t(out)));
    return BELL_OK;
}

/* (<G, C> C - C G^T C) / det, C the cofactors. */
static bell_status
cofactors_back(struct bell_context *ctx, void *user,
               struct bell_tensor *const *in, uint32_t n_in,
               struct bell_tensor *out, struct bell_tensor *grad,
               struct bell_tensor **out_grads)
{
    struct bell_tensor *det, *u;

    (void)ctx;
    (void)user;
    (void)n_in;
    u = bell_sum(bell_mul(grad, out), BELL_DIMS(1, 2), true);
    u = bell_mul(u, out);
    u = bell_sub(u, bell_matmul(bell_matmul(out, bell_t(grad)), out));
    det = bell_unsqueeze(bell_unsqueeze(bell_det(in[0]), -1), -1);
    out_grads[0] = bell_div(u, det);
    return BELL_OK;
}

/* u^n, n >= 1. */
static const struct uop *
power(struct bell_context *ctx, const struct uop *u, int64_t n)
{
    const struct uop *out = NULL;

    for (; n > 0; n /= 2) {
        if (n % 2)
            out = out ? tn_mul(ctx, out, u) : u;
        u = tn_mul(ctx, u, u);
    }
    return out ? out : tn_num(ctx, u, 1);
}

/* det A^-T, of a matrix whose QR has no diagonal element of 0: one that is less
 * than a rounding error is put in its place. */
static struct bell_tensor *
cofactors(const char *call, struct bell_tensor *x)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    const struct uop *a = tensor_node(x), *scale = tn_scale(ctx, a), *u, *det;
    const struct uop *least, *diagonal, *zero;
    struct tn_reflected made;
    int64_t n = tn_size(ctx, a, 2);

    made = tn_reflect(ctx, tn_fdiv(ctx, a, scale), tn_unit_matrix(ctx, a, n));
    if (tn_bad(made.r))
        return tensor_new(ctx, call, made.r);
    zero = tn_num(ctx, a, 0);
    least = tn_num(ctx, a, a->dtype == UOP_F64 ? 0x1p-53 : 0x1p-24);
    least = tn_where(ctx, tn_lt(ctx, made.r, zero), tn_neg(ctx, least), least);
    u = tn_where(ctx, tn_lt(ctx, tn_abs(ctx, made.r), tn_abs(ctx, least)),
                 least, made.r);
    u = tn_where(ctx, tn_is_diagonal(ctx, n, n, 0), u, made.r);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
    diagonal = tn_unsqueeze(ctx, tn_diagonal(ctx, u, n), 2);
    det = tn_accumulate(ctx, UOP_MUL, diagonal, 1u << 1);
    det = tn_mul(ctx, tn_mul(ctx, det, made.sign), power(ctx, scale, n - 1));
    u = tn_substitute(ctx, tn_flip(ctx, u, 1u << 1 | 1u << 2),
                      tn_flip(ctx, made.b, 1u << 1));
    u = tn_mul(ctx, tn_swap(ctx, tn_flip(ctx, u, 1u << 1), 1, 2), det);
    u = tn_where(ctx, tn_eq(ctx, det, zero), zero, u);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
    return tensor_new(ctx, call,
                      with_gradient(ctx, call, u, cofactors_back, a, NULL));
}

static bell_status
det_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
         struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_mul(grad, cofactors("bell_det", in[0]));
    return BELL_OK;
}

/* A row of a determinant's sign and logarithm: g_log A^-T. */
static bell_status
slogdet_back(struct bell_context *ctx, void *user,
             struct bell_tensor *const *in, uint32_t n_in,
             struct bell_tensor *out, struct bell_tensor *grad,
             struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)n_in;
    (void)out;
    out_grads[0] =
        bell_mul(bell_narrow(grad, 2, 1, 1), bell_t(bell_inv(in[0])));
    return BELL_OK;
}

/* P the pseudo-inverse, of constant rank:
 * -P^T G P^T + (I - A P) G^T P P^T + P^T P G^T (I - P A). */
static bell_status
pinv_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
          uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
          struct bell_tensor **out_grads)
{
    struct bell_tensor *a = in[0], *pt = bell_t(out), *gt = bell_t(grad);
    struct bell_tensor *sum, *u;

    (void)ctx;
    (void)user;
    (void)n_in;
    sum = bell_neg(bell_matmul(bell_matmul(pt, grad), pt));
    u = bell_matmul(bell_matmul(gt, out), pt);
    u = bell_sub(u, bell_matmul(a, bell_matmul(out, u)));
    sum = bell_add(sum, u);
    u = bell_matmul(pt, bell_matmul(out, gt));
    u = bell_sub(u, bell_matmul(bell_matmul(u, out), a));
    out_grads[0] = bell_add(sum, u);
    return BELL_OK;
}

/* The same of a symmetric A. */
static bell_status
symmetric_pinv_back(struct bell_context *ctx, void *user,
                    struct bell_tensor *const *in, uint32_t n_in,
                    struct bell_tensor *out, struct bell_tensor *grad,
                    struct bell_tensor **out_grads)
{
    struct bell_tensor *g;

    BELL_TRY(pinv_back(ctx, user, in, n_in, out, grad, &g));
    out_grads[0] = bell_mul_scalar(bell_add(g, bell_t(g)), 0.5);
    return BELL_OK;
}

/* M = R G_R^T - G_Q^T Q; (G_Q + Q (tril M + (tril_-1 M)^T)) R^-T. */
static bell_status
qr_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
        struct bell_tensor **out_grads)
{
    int64_t m = bell_size(in[0], 1), n = bell_size(in[0], 2);
    struct bell_tensor *q = bell_narrow(out, 1, 0, m);
    struct bell_tensor *r = bell_narrow(out, 1, m, n);
    struct bell_tensor *gq = bell_narrow(grad, 1, 0, m);
    struct bell_tensor *gr = bell_narrow(grad, 1, m, n), *s;

    (void)ctx;
    (void)user;
    (void)n_in;
    s = bell_sub(bell_matmul(r, bell_t(gr)), bell_matmul(bell_t(gq), q));
    s = bell_add(bell_tril(s, 0), bell_t(bell_tril(s, -1)));
    s = bell_add(gq, bell_matmul(q, s));
    s = bell_solve_triangular(r, bell_t(s), true, false);
    out_grads[0] = bell_t(s);
    return BELL_OK;
}

/* A nonzero x / y, else 0. Gradients that are 0 have no part in what is not
 * differentiable. */
static struct bell_tensor *
divide_nonzero(struct bell_tensor *x, struct bell_tensor *y)
{
    struct bell_tensor *zero = bell_zeros_like(x, BELL_DEFAULT);
    struct bell_tensor *none = bell_eq(x, zero);

    y = bell_where(none, bell_ones_like(x, BELL_DEFAULT), y);
    return bell_where(none, zero, bell_div(x, y));
}

/* F o (U^T G_U - G_U^T U), F_ij = 1 / (s_j^2 - s_i^2). */
static struct bell_tensor *
svd_turn(struct bell_tensor *u, struct bell_tensor *gu, struct bell_tensor *s)
{
    struct bell_tensor *t = bell_matmul(bell_t(u), gu);
    struct bell_tensor *squares = bell_square(s);

    return divide_nonzero(bell_sub(t, bell_t(t)),
                          bell_sub(squares, bell_t(squares)));
}

/* (I - U U^T) G_U / s */
static struct bell_tensor *
svd_rest(struct bell_tensor *u, struct bell_tensor *gu, struct bell_tensor *s)
{
    struct bell_tensor *along = bell_matmul(u, bell_matmul(bell_t(u), gu));

    return divide_nonzero(bell_sub(gu, along), s);
}

/* (U (J S + S K + diag G_S) + rest_U) V^T. V is square: it has no rest. */
static bell_status
svd_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
         struct bell_tensor **out_grads)
{
    int64_t m = bell_size(in[0], 1), n = bell_size(in[0], 2);
    struct bell_tensor *u = bell_narrow(out, 1, 0, m);
    struct bell_tensor *v = bell_narrow(out, 1, m, n);
    struct bell_tensor *s = bell_narrow(out, 1, m + n, 1);
    struct bell_tensor *gu = bell_narrow(grad, 1, 0, m);
    struct bell_tensor *gv = bell_narrow(grad, 1, m, n);
    struct bell_tensor *gs = bell_narrow(grad, 1, m + n, 1), *core;

    (void)user;
    (void)n_in;
    core = bell_add(bell_mul(svd_turn(u, gu, s), s),
                    bell_mul(bell_t(s), svd_turn(v, gv, s)));
    core = bell_add(core, bell_mul(gs, bell_eye(ctx, n, n, bell_dtype_of(s))));
    core = bell_matmul(u, core);
    if (m > n)
        core = bell_add(core, svd_rest(u, gu, s));
    out_grads[0] = bell_matmul(core, bell_t(v));
    return BELL_OK;
}

/* V (diag G_values + (V^T G_V - G_V^T V) / 2 E) V^T, E_ij = values_j -
 * values_i; V above the values. */
static bell_status
eigh_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
          uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
          struct bell_tensor **out_grads)
{
    int64_t n = bell_size(in[0], 1);
    struct bell_tensor *v = bell_narrow(out, 1, 0, n);
    struct bell_tensor *values = bell_narrow(out, 1, n, 1);
    struct bell_tensor *gv = bell_narrow(grad, 1, 0, n);
    struct bell_tensor *gs = bell_narrow(grad, 1, n, 1), *core;

    (void)user;
    (void)n_in;
    core = bell_matmul(bell_t(v), gv);
    core = bell_mul_scalar(bell_sub(core, bell_t(core)), 0.5);
    core = divide_nonzero(core, bell_sub(values, bell_t(values)));
    core = bell_add(core, bell_mul(gs, bell_eye(ctx, n, n, bell_dtype_of(v))));
    out_grads[0] = bell_matmul(bell_matmul(v, core), bell_t(v));
    return BELL_OK;
}

/* ---- calls ---- */

struct bell_tensor *
bell_cholesky(struct bell_tensor *x, bool upper)
{
    struct bell_tensor *out;
    const struct uop *u;
    struct matrices a;

    if (!take_matrices(__func__, x, true, &a, &out))
        return out;
    if (a.empty)
        return give(__func__, &a, a.u, a.dtype);
    if (upper)
        a.u = tn_swap(a.ctx, a.u, 1, 2);
    u = tn_cholesky(a.ctx, a.u);
    u = with_gradient(a.ctx, __func__, u, cholesky_back, a.u, NULL);
    if (upper)
        u = tn_swap(a.ctx, u, 1, 2);
    return give(__func__, &a, u, a.dtype);
}

/* Size `i` of `rank` axes that u's are the last of. */
static int64_t
size_from_right(const struct bell_context *ctx, const struct uop *u,
                uint32_t rank, uint32_t i)
{
    uint32_t n = tn_rank(ctx, u);

    assert(i < rank);
    return i + n < rank ? 1 : tn_size(ctx, u, i + n - rank);
}

/* The batches of a and b broadcast; false where they do not. */
static bool
join_batches(struct matrices *a, struct matrices *b)
{
    struct bell_context *ctx = a->ctx;
    uint32_t n = tn_rank(ctx, a->u), m = tn_rank(ctx, b->u);
    uint32_t rank = n > m ? n : m, i;
    int64_t d[TN_MAX_RANK], e[TN_MAX_RANK];

    for (i = 0; i < rank; i++) {
        d[i] = size_from_right(ctx, a->u, rank, i);
        e[i] = size_from_right(ctx, b->u, rank, i);
        if (i + 2 >= rank || d[i] == e[i])
            continue;
        if (d[i] != 1 && e[i] != 1)
            return false;
        d[i] = e[i] = d[i] == 1 ? e[i] : d[i];
    }
    a->u = tn_broadcast(ctx, a->u, d, rank);
    b->u = tn_broadcast(ctx, b->u, e, rank);
    return true;
}

/* Takes b for a system of x: both in their common dtype, their batches
 * broadcast. Where vectors are allowed and b is of them, *is_vector is set and
 * they are columns. */
static bool
take_system(const char *call, struct bell_tensor *x, struct bell_tensor *b,
            bool *is_vector, struct matrices *out_a, struct matrices *out_b,
            struct bell_tensor **out)
{
    struct bell_tensor *both[2] = {x, b};
    const struct uop_dims *xs, *bs;
    struct matrices a, c = {0};
    bool vector = false;
    uint32_t n;

    if (!tensor_takes2(call, x, b, out) ||
        !take_matrices(call, x, true, &a, out))
        return false;
    *out = a.ctx->error_tensor;
    xs = tensor_at(x)->shape;
    bs = tensor_at(b)->shape;
    if (is_vector)
        *is_vector = vector =
            bs->n == 1 || (bs->n == xs->n - 1 &&
                           memcmp(bs->d, xs->d, bs->n * sizeof(*bs->d)) == 0);
    c.ctx = a.ctx;
    a.dtype = c.dtype = tensor_result_dtype(both, 2, NULL);
    a.u = as_linalg_float(a.ctx, tn_cast(a.ctx, tensor_node(x), a.dtype),
                          &a.dtype);
    c.u = as_linalg_float(c.ctx, tn_cast(c.ctx, tensor_node(b), c.dtype),
                          &c.dtype);
    if (vector)
        c.u = tn_unsqueeze(c.ctx, c.u, bs->n);
    if (tn_bad(a.u) || tn_bad(c.u)) {
        *out = tensor_new(a.ctx, call, &uop_failed);
        return false;
    }
    n = tn_rank(c.ctx, c.u);
    if (!tensor_plain_axes(call, b,
                           bs->n && !vector ? 3u << (bs->n - 1) >> 1 : 0,
                           "matrices are of plain sizes", out))
        return false;
    if (n < 2 || tn_size(c.ctx, c.u, n - 2) != a.n || !join_batches(&a, &c)) {
        tensor_fail(a.ctx, call, BELL_BAD_SHAPE,
                    "%s and %s do not make systems of equations", SHAPE_OF(x),
                    SHAPE_OF(b));
        return false;
    }
    if (tn_bad(a.u) || tn_bad(c.u)) {
        *out = tensor_new(a.ctx, call, &uop_failed);
        return false;
    }
    measure_matrix(&a);
    measure_matrix(&c);
    *out_a = a;
    *out_b = c;
    return true;
}

struct bell_tensor *
bell_solve_triangular(struct bell_tensor *triangle, struct bell_tensor *b,
                      bool upper, bool unit)
{
    const uint32_t rows = 1u << 1, both = 1u << 1 | 1u << 2;
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    struct matrices a, c;

    if (!take_system(__func__, triangle, b, NULL, &a, &c, &out))
        return out;
    ctx = a.ctx;
    if (c.empty)
        return give(__func__, &c, c.u, c.dtype);
    if (unit)
        a.u = tn_where(ctx, tn_is_diagonal(ctx, a.n, a.n, 0),
                       tn_num(ctx, a.u, 1), a.u);
    if (upper) {
        a.u = tn_flip(ctx, a.u, both);
        c.u = tn_flip(ctx, c.u, rows);
    }
    u = tn_substitute(ctx, a.u, c.u);
    u = with_gradient(ctx, __func__, u, substitute_back, a.u, c.u);
    return give(__func__, &c, upper ? tn_flip(ctx, u, rows) : u, c.dtype);
}

/* x of a x = c: r x = q^T c, from the last row up. */
static const struct uop *
solve(struct bell_context *ctx, const char *call, const struct uop *a,
      const struct uop *c)
{
    struct tn_reflected made = tn_reflect(ctx, a, c);
    const struct uop *u;

    u = tn_substitute(ctx, tn_flip(ctx, made.r, 1u << 1 | 1u << 2),
                      tn_flip(ctx, made.b, 1u << 1));
    return with_gradient(ctx, call, tn_flip(ctx, u, 1u << 1), solve_back, a, c);
}

struct bell_tensor *
bell_solve(struct bell_tensor *x, struct bell_tensor *b)
{
    struct bell_tensor *out;
    struct matrices a, c;
    const struct uop *u;
    bool is_vector;

    if (!take_system(__func__, x, b, &is_vector, &a, &c, &out))
        return out;
    u = c.empty ? c.u : solve(a.ctx, __func__, a.u, c.u);
    u = tn_reshape(a.ctx, u, c.d, c.rank);
    if (is_vector)
        u = tn_squeeze(a.ctx, u, tn_axis_bit(c.rank - 1));
    return tensor_new(a.ctx, __func__, tn_cast(a.ctx, u, c.dtype));
}

struct bell_tensor *
bell_inv(struct bell_tensor *x)
{
    struct bell_tensor *out;
    struct matrices a;
    const struct uop *u;

    if (!take_matrices(__func__, x, true, &a, &out))
        return out;
    u = a.empty ? a.u
                : solve(a.ctx, __func__, a.u, tn_unit_matrix(a.ctx, a.u, a.n));
    return give(__func__, &a, u, a.dtype);
}

/* R's diagonal (batch, n, 1) of a, and the sign of Q's determinant. */
static const struct uop *
reflect_diagonal(const struct matrices *a, const struct uop **out_sign)
{
    struct tn_reflected made = tn_reflect(a->ctx, a->u, nothing(a, a->n, 0));

    *out_sign = made.sign;
    if (tn_bad(made.r))
        return made.r;
    return tn_unsqueeze(a->ctx, tn_diagonal(a->ctx, made.r, a->n), 2);
}

struct bell_tensor *
bell_det(struct bell_tensor *x)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u, *sign;
    struct matrices a;

    if (!take_matrices(__func__, x, true, &a, &out))
        return out;
    ctx = a.ctx;
    if (a.empty) { /* of no rows: 1 */
        u = tn_full(ctx, tn_num(ctx, a.u, 1), a.d, a.rank - 2);
        return tensor_new(ctx, __func__, tn_cast(ctx, u, a.dtype));
    }
    u = reflect_diagonal(&a, &sign);
    if (tn_bad(u))
        return tensor_new(ctx, __func__, u);
    u = tn_mul(ctx, tn_accumulate(ctx, UOP_MUL, u, 1u << 1), sign);
    u = with_gradient(ctx, __func__, u, det_back, a.u, NULL);
    u = tn_reshape(ctx, u, a.d, a.rank - 2);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, a.dtype));
}

void
bell_slogdet(struct bell_tensor *x, struct bell_tensor **out_sign,
             struct bell_tensor **out_log)
{
    struct bell_tensor **const room[] = {out_sign, out_log};
    const struct uop *u, *sign, *size;
    struct bell_context *ctx;
    struct bell_tensor *out;
    struct matrices a;
    int i;

    if (!tensor_has_room(__func__, x, room, ARRAY_LEN(room)))
        return;
    if (!take_matrices(__func__, x, true, &a, &out)) {
        *out_sign = *out_log = out;
        return;
    }
    ctx = a.ctx;
    if (a.empty) {
        u = tn_cast(ctx, tn_iota(ctx, 3, 2, 2, UOP_I64), a.u->dtype);
        u = tn_sub(ctx, tn_num(ctx, a.u, 1), u);
        u = tn_expand(ctx, u, (const int64_t[]){a.batch, 1, 2});
    } else {
        u = reflect_diagonal(&a, &sign);
        size = tn_abs(ctx, u);
        /* u / |u|, 0 of 0 */
        u = tn_fdiv(ctx, u,
                    tn_where(ctx, tn_eq(ctx, size, tn_num(ctx, size, 0)),
                             tn_num(ctx, size, 1), size));
        u = tn_accumulate(ctx, UOP_MUL, u, 1u << 1);
        size = tn_sum(ctx, tn_log(ctx, size), 1u << 1);
        u = tn_add(ctx, tn_pad_axis(ctx, tn_mul(ctx, u, sign), 2, 0, 1),
                   tn_pad_axis(ctx, size, 2, 1, 0));
        u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
        u = with_gradient(ctx, __func__, u, slogdet_back, a.u, NULL);
    }
    for (i = 0; i < 2; i++) {
        size = tn_shrink_axis(ctx, u, 2, i, i + 1);
        size = tn_reshape(ctx, size, a.d, a.rank - 2);
        *room[i] = tensor_new(ctx, __func__, tn_cast(ctx, size, a.dtype));
    }
}

/* q above r, of (batch, m, n) with m >= n. */
static const struct uop *
qr_rows(const struct matrices *a, const char *call, const struct uop *u)
{
    struct bell_context *ctx = a->ctx;
    struct tn_factors made = tn_qr(ctx, u, false);
    const struct uop *q;

    if (tn_bad(made.r))
        return made.r;
    q = tn_add(ctx, tn_pad_axis(ctx, made.q, 1, 0, tn_size(ctx, u, 2)),
               tn_pad_axis(ctx, made.r, 1, a->m, 0));
    q = tn_wrap(ctx, UOP_CONTIGUOUS, q);
    return with_gradient(ctx, call, q, qr_back, u, NULL);
}

void
bell_qr(struct bell_tensor *x, struct bell_tensor **out_q,
        struct bell_tensor **out_r)
{
    struct bell_tensor **const room[] = {out_q, out_r};
    const struct uop *u, *q, *r;
    struct bell_context *ctx;
    struct bell_tensor *out;
    struct matrices a;
    int64_t k;

    if (!tensor_has_room(__func__, x, room, ARRAY_LEN(room)))
        return;
    if (!take_matrices(__func__, x, false, &a, &out)) {
        *out_q = *out_r = out;
        return;
    }
    ctx = a.ctx;
    k = a.m < a.n ? a.m : a.n;
    if (a.empty) {
        q = nothing(&a, a.m, k);
        r = nothing(&a, k, a.n);
    } else {
        u = qr_rows(&a, __func__, tn_shrink_axis(ctx, a.u, 2, 0, k));
        q = tn_shrink_axis(ctx, u, 1, 0, a.m);
        r = tn_shrink_axis(ctx, u, 1, a.m, a.m + k);
        if (a.n > k) /* the columns that are too many: R of them is Q^T a */
            r = tn_add(
                ctx, tn_pad_axis(ctx, r, 2, 0, a.n - k),
                tn_pad_axis(ctx,
                            tn_matmul(ctx, tn_swap(ctx, q, 1, 2),
                                      tn_shrink_axis(ctx, a.u, 2, k, a.n)),
                            2, k, 0));
    }
    *out_q = give(__func__, &a, q, a.dtype);
    *out_r = give(__func__, &a, r, a.dtype);
}

/* u, (batch, 1, n), as the call's result of one axis less. */
static struct bell_tensor *
give_row(const char *call, const struct matrices *a, const struct uop *u)
{
    int64_t d[TN_MAX_RANK];

    if (tn_bad(u))
        return tensor_new(a->ctx, call, u);
    memcpy(d, a->d, (a->rank - 2) * sizeof(*d));
    d[a->rank - 2] = tn_size(a->ctx, u, 2);
    u = tn_cast(a->ctx, tn_reshape(a->ctx, u, d, a->rank - 1), a->dtype);
    return tensor_new(a->ctx, call, u);
}

/* A call's singular values: of the matrices, or of their transposes where those
 * are taller. Nodes as in tn_singular. */
struct singular {
    struct matrices a;
    bool wide;
    const struct uop *u, *s, *v;
};

/* The custom node has u above v above s; of a full u the columns that are more
 * are not in it. */
static bool
take_singular(const char *call, struct bell_tensor *x, bool full,
              struct singular *out_made, struct bell_tensor **out)
{
    const struct uop *whole, *rows, *parts[3];
    struct tn_singular made;
    struct singular f = {0};
    struct bell_context *ctx;
    int64_t m, n;

    if (!take_matrices(call, x, false, &f.a, out))
        return false;
    ctx = f.a.ctx;
    f.wide = f.a.m < f.a.n;
    m = f.wide ? f.a.n : f.a.m;
    n = f.wide ? f.a.m : f.a.n;
    if (f.a.empty) {
        f.u = nothing(&f.a, m, n);
        if (full) /* any basis */
            f.u = tn_unit_matrix(ctx, f.u, m);
        f.s = nothing(&f.a, 1, n);
        f.v = nothing(&f.a, n, n);
        *out_made = f;
        return true;
    }
    whole = f.wide ? tn_swap(ctx, f.a.u, 1, 2) : f.a.u;
    made = tn_svd(ctx, whole, full);
    if (tn_bad(made.u)) {
        *out = tensor_new(ctx, call, made.u);
        return false;
    }
    parts[0] = tn_shrink_axis(ctx, made.u, 2, 0, n);
    parts[1] = made.v;
    parts[2] = made.s;
    rows = tn_wrap(ctx, UOP_CONTIGUOUS, tn_join(ctx, parts, 3, 1));
    rows = with_gradient(ctx, call, rows, svd_back, whole, NULL);
    f.u = tn_shrink_axis(ctx, rows, 1, 0, m);
    f.v = tn_shrink_axis(ctx, rows, 1, m, m + n);
    f.s = tn_shrink_axis(ctx, rows, 1, m + n, m + n + 1);
    if (full && m > n) {
        parts[0] = f.u;
        parts[1] =
            tn_wrap(ctx, UOP_DETACH, tn_shrink_axis(ctx, made.u, 2, n, m));
        f.u = tn_join(ctx, parts, 2, 2);
    }
    *out_made = f;
    return true;
}

static void
give_svd(const char *call, struct bell_tensor *x, bool full,
         struct bell_tensor **out_u, struct bell_tensor **out_s,
         struct bell_tensor **out_vh)
{
    struct bell_tensor **const room[] = {out_u, out_s, out_vh};
    struct bell_tensor *out;
    struct singular f;

    if (!tensor_has_room(call, x, room, ARRAY_LEN(room)))
        return;
    if (!take_singular(call, x, full, &f, &out)) {
        *out_u = *out_s = *out_vh = out;
        return;
    }
    *out_u = give(call, &f.a, f.wide ? f.v : f.u, f.a.dtype);
    *out_s = give_row(call, &f.a, f.s);
    *out_vh =
        give(call, &f.a, tn_swap(f.a.ctx, f.wide ? f.u : f.v, 1, 2), f.a.dtype);
}

void
bell_svd(struct bell_tensor *x, struct bell_tensor **out_u,
         struct bell_tensor **out_s, struct bell_tensor **out_vh)
{
    give_svd(__func__, x, false, out_u, out_s, out_vh);
}

void
bell_svd_full(struct bell_tensor *x, struct bell_tensor **out_u,
              struct bell_tensor **out_s, struct bell_tensor **out_vh)
{
    give_svd(__func__, x, true, out_u, out_s, out_vh);
}

struct bell_tensor *
bell_svdvals(struct bell_tensor *x)
{
    struct bell_tensor *out;
    struct singular f;

    if (!take_singular(__func__, x, false, &f, &out))
        return out;
    return give_row(__func__, &f.a, f.s);
}

/* The eigenvectors above the values; false after a failure, with *out set. */
static bool
take_eigen(const char *call, struct bell_tensor *x, bool upper,
           struct matrices *out_a, const struct uop **out_rows,
           struct bell_tensor **out)
{
    const struct uop *u, *whole;
    struct tn_eigen made;
    struct matrices a;

    if (!take_matrices(call, x, true, &a, out))
        return false;
    *out_a = a;
    *out_rows = nothing(&a, a.n + 1, a.n);
    if (a.empty)
        return true;
    u = tn_lt(a.ctx, tn_iota(a.ctx, 3, 1, a.n, UOP_I64),
              tn_iota(a.ctx, 3, 2, a.n, UOP_I64));
    if (upper)
        u = tn_swap(a.ctx, u, 1, 2);
    whole = tn_where(a.ctx, u, tn_swap(a.ctx, a.u, 1, 2), a.u);
    made = tn_eigh(a.ctx, whole);
    u = tn_add(a.ctx, tn_pad_axis(a.ctx, made.v, 1, 0, 1),
               tn_pad_axis(a.ctx, made.values, 1, a.n, 0));
    u = tn_wrap(a.ctx, UOP_CONTIGUOUS, u);
    *out_rows = with_gradient(a.ctx, call, u, eigh_back, a.u, NULL);
    return true;
}

void
bell_eigh(struct bell_tensor *x, bool upper, struct bell_tensor **out_values,
          struct bell_tensor **out_v)
{
    struct bell_tensor **const room[] = {out_values, out_v};
    const struct uop *rows;
    struct bell_tensor *out;
    struct matrices a;

    if (!tensor_has_room(__func__, x, room, ARRAY_LEN(room)))
        return;
    if (!take_eigen(__func__, x, upper, &a, &rows, &out)) {
        *out_values = *out_v = out;
        return;
    }
    *out_values =
        give_row(__func__, &a, tn_shrink_axis(a.ctx, rows, 1, a.n, a.n + 1));
    *out_v =
        give(__func__, &a, tn_shrink_axis(a.ctx, rows, 1, 0, a.n), a.dtype);
}

struct bell_tensor *
bell_eigvalsh(struct bell_tensor *x, bool upper)
{
    const struct uop *rows;
    struct bell_tensor *out;
    struct matrices a;

    if (!take_eigen(__func__, x, upper, &a, &rows, &out))
        return out;
    return give_row(__func__, &a, tn_shrink_axis(a.ctx, rows, 1, a.n, a.n + 1));
}

/* ---- ranks and pseudo-inverses ---- */

/* Singular values as of tn_svd, a matrix that is symmetric or not; u and v are
 * of a, not of its transpose. */
static bool
take_ranked(const char *call, struct bell_tensor *x, bool hermitian,
            struct singular *out_made, struct bell_tensor **out)
{
    const struct uop *rows, *t;

    if (!hermitian) {
        if (!take_singular(call, x, false, out_made, out))
            return false;
        if (out_made->wide) {
            t = out_made->u;
            out_made->u = out_made->v;
            out_made->v = t;
        }
        return true;
    }
    if (!take_eigen(call, x, false, &out_made->a, &rows, out))
        return false;
    out_made->u = tn_shrink_axis(out_made->a.ctx, rows, 1, 0, out_made->a.n);
    out_made->v = out_made->u;
    out_made->s = tn_shrink_axis(out_made->a.ctx, rows, 1, out_made->a.n,
                                 out_made->a.n + 1);
    return true;
}

/* Which values of (batch, 1, k), of which there are some, count. */
static const struct uop *
counts(const struct matrices *a, const struct uop *s, double rtol)
{
    struct bell_context *ctx = a->ctx;
    const struct uop *size = tn_abs(ctx, s), *most;

    if (rtol < 0)
        rtol = (double)(a->m > a->n ? a->m : a->n) *
               (s->dtype == UOP_F64 ? 0x1p-52 : 0x1p-23);
    most = tn_reduce(ctx, UOP_MAX, size, 1u << 2);
    return tn_lt(ctx, tn_mul(ctx, most, tn_num(ctx, most, rtol)), size);
}

struct bell_tensor *
bell_pinv(struct bell_tensor *x, double rtol, bool hermitian)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u, *zero;
    struct singular f = {0};
    struct matrices *a = &f.a;

    if (!take_ranked(__func__, x, hermitian, &f, &out))
        return out;
    ctx = a->ctx;
    if (a->empty)
        return give(__func__, a, nothing(a, a->n, a->m), a->dtype);
    zero = tn_num(ctx, f.s, 0);
    u = counts(a, f.s, rtol);
    u = tn_where(ctx, tn_or(ctx, u, tn_isnan(ctx, f.s)),
                 tn_recip(ctx, tn_where(ctx, u, f.s, tn_num(ctx, f.s, NAN))),
                 zero);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, tn_mul(ctx, f.v, u));
    u = tn_matmul(ctx, u, tn_swap(ctx, f.u, 1, 2));
    u = with_gradient(ctx, __func__, tn_wrap(ctx, UOP_CONTIGUOUS, u),
                      hermitian ? symmetric_pinv_back : pinv_back, a->u, NULL);
    return give(__func__, a, u, a->dtype);
}

struct bell_tensor *
bell_matrix_rank(struct bell_tensor *x, double rtol, bool hermitian)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    struct singular f = {0};

    if (!take_ranked(__func__, x, hermitian, &f, &out))
        return out;
    ctx = f.a.ctx;
    if (f.a.empty)
        u = tn_full(ctx, tn_int(ctx, UOP_I64, 0), f.a.d, f.a.rank - 2);
    else
        u = tn_reshape(ctx,
                       tn_sum(ctx,
                              tn_cast(ctx, counts(&f.a, f.s, rtol), UOP_I64),
                              1u << 2),
                       f.a.d, f.a.rank - 2);
    return tensor_new(ctx, __func__, u);
}
