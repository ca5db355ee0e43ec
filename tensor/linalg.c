/* The calls of linalg.h: arguments, batches, gradients. The work is done in
 * factor.c, on (batch, rows, columns).
 *
 * Gradients are the textbooks' formulas in results and calls, as those of a
 * bell_custom: they have gradients themselves. A function with several results
 * has them as rows of one node.
 */
#include "doorbell/linalg.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/elementwise.h"
#include "tensor/factor.h"
#include "tensor/gradient.h"
#include "tensor/matmul.h"

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
as_float(struct bell_context *ctx, const struct uop *u, enum uop_dtype *dtype)
{
    *dtype = tensor_wide_dtype(*dtype);
    if (!uop_dtype_infos[*dtype].is_float)
        *dtype = UOP_F32;
    return tn_widen(ctx, tn_cast(ctx, u, *dtype));
}

/* The sizes of `u`, whose last two are the matrices'. */
static void
measure(struct matrices *a)
{
    a->rank = tn_rank(a->ctx, a->u);
    memcpy(a->d, tn_shape(a->ctx, a->u)->d, a->rank * sizeof(*a->d));
    a->m = a->d[a->rank - 2];
    a->n = a->d[a->rank - 1];
    a->batch = tn_product(a->d, a->rank - 2);
    a->empty = a->batch == 0 || a->m == 0 || a->n == 0;
    a->u = tn_reshape(a->ctx, a->u, (const int64_t[]){a->batch, a->m, a->n}, 3);
}

/* Checks that x is matrices, with no more than max_less of the lesser of rows and
 * columns and max_more of the greater; `square`: both agree. False with *out
 * set. */
static bool
take_matrices(const char *call, struct bell_tensor *x, bool square,
              int64_t max_less, int64_t max_more, struct matrices *out_a,
              struct bell_tensor **out)
{
    struct matrices a = {0};
    const struct uop_dims *shape;
    int64_t less, more;

    if (!tensor_check(call, x, out))
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
    less = more = shape->d[shape->n - 1];
    if (shape->d[shape->n - 2] < less)
        less = shape->d[shape->n - 2];
    else
        more = shape->d[shape->n - 2];
    if (less > max_less || more > max_more) {
        tensor_fail(a.ctx, call, BELL_BAD_SIZE,
                    "%s: matrices of up to %lld x %lld are possible",
                    SHAPE_OF(x), (long long)max_more, (long long)max_less);
        return false;
    }
    a.dtype = tensor_node(x)->dtype;
    a.u = as_float(a.ctx, tensor_node(x), &a.dtype);
    if (tn_bad(a.u)) {
        *out = tensor_new(a.ctx, call, a.u);
        return false;
    }
    measure(&a);
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

/* Of T X = B: G_B = T^-T G, G_T = -G_B X^T. */
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

/* g det A^-T */
static bell_status
det_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
         struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)n_in;
    out_grads[0] = bell_mul(bell_mul(grad, out), bell_t(bell_inv(in[0])));
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

/* F o (U^T G_U - G_U^T U), F_ij = 1 / (s_j^2 - s_i^2), 0 on the diagonal. */
static struct bell_tensor *
svd_turn(struct bell_tensor *u, struct bell_tensor *gu, struct bell_tensor *s)
{
    struct bell_tensor *f, *t = bell_square(s), *unit;
    int64_t n = bell_size(s, 2);

    unit = bell_eye(bell_context_of(u), n, n, BELL_BOOL);
    f = bell_sub(t, bell_t(t));
    f = bell_where(
        unit, bell_zeros_like(f, BELL_DEFAULT),
        bell_reciprocal(bell_where(unit, bell_ones_like(f, BELL_DEFAULT), f)));
    t = bell_matmul(bell_t(u), gu);
    return bell_mul(f, bell_sub(t, bell_t(t)));
}

/* (I - U U^T) G_U / s */
static struct bell_tensor *
svd_rest(struct bell_tensor *u, struct bell_tensor *gu, struct bell_tensor *s)
{
    struct bell_tensor *along = bell_matmul(u, bell_matmul(bell_t(u), gu));

    return bell_div(bell_sub(gu, along), s);
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

/* ---- calls ---- */

struct bell_tensor *
bell_cholesky(struct bell_tensor *x, bool upper)
{
    struct bell_tensor *out;
    const struct uop *u;
    struct matrices a;

    if (!take_matrices(__func__, x, true, BELL_MAX_MATRIX, BELL_MAX_MATRIX, &a,
                       &out))
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
            int64_t max, bool *is_vector, struct matrices *out_a,
            struct matrices *out_b, struct bell_tensor **out)
{
    struct bell_tensor *both[2] = {x, b};
    const struct uop_dims *xs, *bs;
    struct matrices a, c = {0};
    bool vector = false;
    uint32_t n;

    if (!tensor_check2(call, x, b, out) ||
        !take_matrices(call, x, true, max, max, &a, out))
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
    a.u = as_float(a.ctx, tn_cast(a.ctx, tensor_node(x), a.dtype), &a.dtype);
    c.u = as_float(c.ctx, tn_cast(c.ctx, tensor_node(b), c.dtype), &c.dtype);
    if (vector)
        c.u = tn_unsqueeze(c.ctx, c.u, bs->n);
    if (tn_bad(a.u) || tn_bad(c.u)) {
        *out = tensor_new(a.ctx, call, &uop_failed);
        return false;
    }
    n = tn_rank(c.ctx, c.u);
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
    measure(&a);
    measure(&c);
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

    if (!take_system(__func__, triangle, b, BELL_MAX_MATRIX, NULL, &a, &c,
                     &out))
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

    if (!take_system(__func__, x, b, BELL_MAX_MATRIX, &is_vector, &a, &c, &out))
        return out;
    u = c.empty ? c.u : solve(a.ctx, __func__, a.u, c.u);
    u = tn_reshape(a.ctx, u, c.d, c.rank);
    if (is_vector)
        u = tn_squeeze(a.ctx, u, 1u << (c.rank - 1));
    return tensor_new(a.ctx, __func__, tn_cast(a.ctx, u, c.dtype));
}

struct bell_tensor *
bell_inv(struct bell_tensor *x)
{
    struct bell_tensor *out;
    struct matrices a;
    const struct uop *u;

    if (!take_matrices(__func__, x, true, BELL_MAX_MATRIX, BELL_MAX_MATRIX, &a,
                       &out))
        return out;
    u = a.empty ? a.u
                : solve(a.ctx, __func__, a.u, tn_unit_matrix(a.ctx, a.u, a.n));
    return give(__func__, &a, u, a.dtype);
}

struct bell_tensor *
bell_det(struct bell_tensor *x)
{
    struct tn_reflected made;
    struct bell_context *ctx;
    struct bell_tensor *out;
    struct matrices a;
    const struct uop *u;

    if (!take_matrices(__func__, x, true, BELL_MAX_MATRIX, BELL_MAX_MATRIX, &a,
                       &out))
        return out;
    ctx = a.ctx;
    if (a.empty) { /* of no rows: 1 */
        u = tn_full(ctx, tn_num(ctx, a.u, 1), a.d, a.rank - 2);
        return tensor_new(ctx, __func__, tn_cast(ctx, u, a.dtype));
    }
    made = tn_reflect(ctx, a.u, nothing(&a, a.n, 0));
    if (tn_bad(made.r))
        return tensor_new(ctx, __func__, made.r);
    u = tn_accumulate(ctx, UOP_MUL, tn_diagonal(ctx, made.r, a.n), 1u << 1);
    u = tn_mul(ctx, tn_unsqueeze(ctx, u, 2), made.sign);
    u = with_gradient(ctx, __func__, u, det_back, a.u, NULL);
    u = tn_reshape(ctx, u, a.d, a.rank - 2);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, a.dtype));
}

/* q above r, of (batch, m, n) with m >= n. */
static const struct uop *
qr_rows(const struct matrices *a, const char *call, const struct uop *u)
{
    struct bell_context *ctx = a->ctx;
    struct tn_factors made = tn_qr(ctx, u);
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
    if (!take_matrices(__func__, x, false, BELL_MAX_MATRIX, BELL_MAX_MATRIX, &a,
                       &out)) {
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

/* u above v above s, of (batch, m, n) with m >= n. */
static const struct uop *
svd_rows(struct bell_context *ctx, const char *call, const struct uop *a)
{
    struct tn_singular made = tn_svd(ctx, a);
    const struct uop *u;
    int64_t m, n;

    if (tn_bad(made.u))
        return made.u;
    m = tn_size(ctx, a, 1);
    n = tn_size(ctx, a, 2);
    u = tn_add(ctx, tn_pad_axis(ctx, made.u, 1, 0, n + 1),
               tn_pad_axis(ctx, made.v, 1, m, 1));
    u = tn_add(ctx, u, tn_pad_axis(ctx, made.s, 1, m + n, 0));
    u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
    return with_gradient(ctx, call, u, svd_back, a, NULL);
}

void
bell_svd(struct bell_tensor *x, struct bell_tensor **out_u,
         struct bell_tensor **out_s, struct bell_tensor **out_vh)
{
    struct bell_tensor **const room[] = {out_u, out_s, out_vh};
    const struct uop *all, *left, *right, *s;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t more, k, d[TN_MAX_RANK];
    struct matrices a;
    bool wide;

    if (!tensor_has_room(__func__, x, room, ARRAY_LEN(room)))
        return;
    if (!take_matrices(__func__, x, false, BELL_MAX_SINGULAR, BELL_MAX_MATRIX,
                       &a, &out)) {
        *out_u = *out_s = *out_vh = out;
        return;
    }
    ctx = a.ctx;
    wide = a.m < a.n;
    more = wide ? a.n : a.m;
    k = wide ? a.m : a.n;
    if (a.empty) {
        left = nothing(&a, more, k);
        right = nothing(&a, k, k);
        s = nothing(&a, 1, k);
    } else {
        all = svd_rows(ctx, __func__, wide ? tn_swap(ctx, a.u, 1, 2) : a.u);
        left = tn_shrink_axis(ctx, all, 1, 0, more);
        right = tn_shrink_axis(ctx, all, 1, more, more + k);
        s = tn_shrink_axis(ctx, all, 1, more + k, more + k + 1);
    }
    *out_u = give(__func__, &a, wide ? right : left, a.dtype);
    *out_vh =
        give(__func__, &a, tn_swap(ctx, wide ? left : right, 1, 2), a.dtype);
    memcpy(d, a.d, (a.rank - 2) * sizeof(*d));
    d[a.rank - 2] = k;
    s = tn_cast(ctx, tn_reshape(ctx, s, d, a.rank - 1), a.dtype);
    *out_s = tensor_new(ctx, __func__, s);
}
