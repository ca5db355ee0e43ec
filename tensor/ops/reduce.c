/* Reductions: sums, extremes, moments, norms, softmax. */
#include "tensor/ops/reduce.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/ops/elementwise.h"
#include "tensor/core/rules.h"

/* ---- the frame of a reduction call ---- */

struct reduction {
    struct bell_context *ctx;
    const struct uop *u;
    uint32_t mask;
    bool keepdim;
};

static bool
begin_reduction(const char *call, struct bell_tensor *x, const int64_t *axes,
                uint32_t n_axes, bool keepdim, bool needs_float,
                struct reduction *r, struct bell_tensor **out)
{
    if (!tensor_takes(call, x, out))
        return false;
    r->ctx = tensor_at(x)->ctx;
    r->u = tensor_wide_node(x);
    r->keepdim = keepdim;
    *out = tensor_at(x)->ctx->error_tensor;
    if (!tensor_axes(tensor_at(x)->ctx, call, axes, n_axes,
                     tensor_at(x)->shape->n, &r->mask))
        return false;
    if (tn_bad(r->u)) {
        *out = tensor_new(tensor_at(x)->ctx, call, r->u);
        return false;
    }
    if (needs_float && !tn_is_float(r->u)) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_DTYPE,
                    "of %s; a float dtype is needed, see bell_cast",
                    uop_dtype_infos[r->u->dtype].name);
        return false;
    }
    return true;
}

static struct bell_tensor *
end_reduction(const char *call, const struct reduction *r, const struct uop *u)
{
    if (!r->keepdim && !tn_bad(u))
        u = tn_squeeze(r->ctx, u, r->mask);
    return tensor_new(r->ctx, call, u);
}

static const struct uop *
to_float(struct bell_context *ctx, const struct uop *u)
{
    return tn_is_float(u) || tn_bad(u) ? u : tn_cast(ctx, u, UOP_F32);
}

int64_t
tn_reduced_count(const struct bell_context *ctx, const struct uop *u,
                 uint32_t axis_mask)
{
    int64_t d[TN_MAX_RANK];
    uint32_t n = 0, i;

    assert(tn_bad(u) || tn_rank(ctx, u) == 0 || /* has axis 0, by Python */
           (axis_mask & ~tn_axes_below(tn_rank(ctx, u))) == 0);
    for (i = 0; i < tn_rank(ctx, u); i++) {
        if (axis_mask & 1u << i)
            d[n++] = tn_size(ctx, u, i);
    }
    return dims_most(ctx->dims, d, n);
}

/* ---- sums and products ---- */

/* A reduction by one op: of sums and products, of the truth (on bool ADD is
 * or, MUL is and), of extremes. */
enum reduction_kind {
    OF_NUMBERS,
    OF_TRUTH,
    OF_EXTREMES,
};

static struct bell_tensor *
reduce_call(const char *call, struct bell_tensor *x, const int64_t *axes,
            uint32_t n_axes, bool keepdim, enum reduction_kind kind,
            enum uop_op op)
{
    struct bell_tensor *out;
    struct reduction r;

    if (!begin_reduction(call, x, axes, n_axes, keepdim, false, &r, &out))
        return out;
    if (kind == OF_NUMBERS) {
        if (!tn_is_float(r.u))
            r.u = tn_cast(r.ctx, r.u, UOP_I64);
        return end_reduction(call, &r, tn_accumulate(r.ctx, op, r.u, r.mask));
    }
    if (kind == OF_TRUTH)
        r.u = tn_bool(r.ctx, r.u);
    else if (tn_reduced_count(r.ctx, r.u, r.mask) == 0)
        return tensor_fail(r.ctx, call, BELL_BAD_SHAPE,
                           "over no elements, of shape %s", SHAPE_OF(x));
    else if (tensor_at(x)->dtype == UOP_BOOL)
        op = op == UOP_MAX ? UOP_ADD : UOP_MUL;
    return end_reduction(call, &r, tn_reduce(r.ctx, op, r.u, r.mask));
}

#define REDUCTION(name, kind, op)                                              \
    struct bell_tensor *name(struct bell_tensor *x, const int64_t *axes,       \
                             uint32_t n_axes, bool keepdim)                    \
    {                                                                          \
        return reduce_call(__func__, x, axes, n_axes, keepdim, kind, op);      \
    }
REDUCTION(bell_sum, OF_NUMBERS, UOP_ADD)
REDUCTION(bell_prod, OF_NUMBERS, UOP_MUL)
REDUCTION(bell_any, OF_TRUTH, UOP_ADD)
REDUCTION(bell_all, OF_TRUTH, UOP_MUL)
REDUCTION(bell_max, OF_EXTREMES, UOP_MAX)
REDUCTION(bell_min, OF_EXTREMES, UOP_MIN)

struct bell_tensor *
bell_count_nonzero(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes)
{
    struct bell_tensor *out;
    struct reduction r;

    if (!begin_reduction(__func__, x, axes, n_axes, false, false, &r, &out))
        return out;
    r.u = tn_cast(r.ctx, tn_bool(r.ctx, r.u), UOP_I64);
    return end_reduction(__func__, &r, tn_sum(r.ctx, r.u, r.mask));
}

/* Place of the first extreme along an axis, the least of the places that hold
 * it; the axis stays with size 1. */
static const struct uop *
first_extreme(struct bell_context *ctx, const struct uop *u, uint32_t at,
              enum uop_op op)
{
    uint32_t rank = tn_rank(ctx, u);
    int64_t n = tn_size(ctx, u, at);
    enum uop_dtype type;
    const struct uop *hit, *place, *last;
    int64_t most = n, least;

    assert(op == UOP_MAX || op == UOP_MIN);
    if (dim_is_expr(n))
        dim_bounds(ctx->dims, n, &least, &most);
    type = most < (int64_t)1 << 31 ? UOP_I32 : UOP_I64;
    last = dim_is_expr(n)
               ? tn_cast(ctx, tn_count(ctx, dim_sub(ctx->dims, n, 1)), type)
               : tn_int(ctx, type, n - 1);
    if (u->dtype == UOP_BOOL)
        u = tn_cast(ctx, u, UOP_U8);
    hit = tn_eq(ctx, u, tn_reduce(ctx, op, u, tn_axis_bit(at)));
    if (tn_is_float(u))
        hit = tn_or(ctx, hit, tn_isnan(ctx, u));
    place = tn_where(ctx, hit, tn_iota(ctx, rank, at, n, type), last);
    place = tn_reduce(ctx, UOP_MIN, place, tn_axis_bit(at));
    return tn_cast(ctx, place, UOP_I64);
}

/* x along an axis that has elements, which is *out_at; NULL after a failure of
 * `call`, with *out set. Without axes x has one of size 1. */
static const struct uop *
begin_extreme(const char *call, struct bell_tensor *x, int axis, int *out_at,
              struct bell_tensor **out)
{
    const struct uop *u;

    if (!tensor_takes(call, x, out))
        return NULL;
    *out = tensor_at(x)->ctx->error_tensor;
    *out_at = 0;
    u = tensor_wide_node(x);
    if (axis == BELL_FLAT) {
        u = tn_flat(tensor_at(x)->ctx, u);
    } else {
        *out_at =
            tensor_axis(tensor_at(x)->ctx, call, axis, tensor_at(x)->shape->n);
        if (*out_at < 0)
            return NULL;
        if (tensor_at(x)->shape->n == 0)
            u = tn_unsqueeze(tensor_at(x)->ctx, u, 0);
    }
    if (!tn_bad(u) && tn_size(tensor_at(x)->ctx, u, (uint32_t)*out_at) == 0) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "over no elements, of shape %s", SHAPE_OF(x));
        return NULL;
    }
    if (tn_bad(u))
        *out = tensor_new(tensor_at(x)->ctx, call, u);
    return tn_bad(u) ? NULL : u;
}

/* The axis that was begun with goes, or stays. */
static const struct uop *
end_extreme(struct bell_tensor *x, int axis, int at, bool keepdim,
            const struct uop *u)
{
    int64_t ones[BELL_MAX_RANK];
    uint32_t i;

    if (axis == BELL_FLAT && keepdim) {
        for (i = 0; i < tensor_at(x)->shape->n; i++)
            ones[i] = 1;
        return tn_reshape(tensor_at(x)->ctx, u, ones, tensor_at(x)->shape->n);
    }
    return keepdim && tensor_at(x)->shape->n
               ? u
               : tn_squeeze(tensor_at(x)->ctx, u, tn_axis_bit(at));
}

static struct bell_tensor *
extreme_place(const char *call, struct bell_tensor *x, int axis, bool keepdim,
              enum uop_op op)
{
    struct bell_tensor *out;
    const struct uop *u;
    int at;

    u = begin_extreme(call, x, axis, &at, &out);
    if (!u)
        return out;
    u = first_extreme(tensor_at(x)->ctx, u, (uint32_t)at, op);
    return tensor_new(tensor_at(x)->ctx, call,
                      end_extreme(x, axis, at, keepdim, u));
}

/* The value is taken from its place: there the gradient goes. */
static void
extreme_at(const char *call, struct bell_tensor *x, int axis, bool keepdim,
           enum uop_op op, struct bell_tensor **out_values,
           struct bell_tensor **out_indices)
{
    struct bell_tensor **const room[] = {out_values, out_indices};
    const struct uop *u, *place, *value;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int at;

    if (!tensor_has_room(call, x, room, ARRAY_LEN(room)))
        return;
    u = begin_extreme(call, x, axis, &at, &out);
    *out_values = *out_indices = out;
    if (!u)
        return;
    ctx = tensor_at(x)->ctx;
    place = first_extreme(ctx, u, (uint32_t)at, op);
    value = tn_gather(ctx, u, (uint32_t)at, place);
    *out_values =
        tensor_new(ctx, call, end_extreme(x, axis, at, keepdim, value));
    *out_indices =
        tensor_new(ctx, call, end_extreme(x, axis, at, keepdim, place));
}

void
bell_max_at(struct bell_tensor *x, int axis, bool keepdim,
            struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    extreme_at(__func__, x, axis, keepdim, UOP_MAX, out_values, out_indices);
}

void
bell_min_at(struct bell_tensor *x, int axis, bool keepdim,
            struct bell_tensor **out_values, struct bell_tensor **out_indices)
{
    extreme_at(__func__, x, axis, keepdim, UOP_MIN, out_values, out_indices);
}

struct bell_tensor *
bell_argmax(struct bell_tensor *x, int axis, bool keepdim)
{
    return extreme_place(__func__, x, axis, keepdim, UOP_MAX);
}

struct bell_tensor *
bell_argmin(struct bell_tensor *x, int axis, bool keepdim)
{
    return extreme_place(__func__, x, axis, keepdim, UOP_MIN);
}

/* ---- moments ---- */

/* sum / n, as a product where n is a number. */
static const struct uop *
mean_of_sum(struct bell_context *ctx, const struct uop *sum,
            const struct uop *n)
{
    if (tn_bad(sum) || tn_bad(n))
        return &uop_failed;
    if (n->op == UOP_CONST)
        return tn_mul_c(ctx, sum, 1 / n->arg.f);
    return tn_mul(ctx, sum, tn_recip(ctx, n));
}

/* Half dtypes are added, divided and only then rounded. */
const struct uop *
tn_mean(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask)
{
    enum uop_dtype dtype = u->dtype;
    const struct uop *n;

    assert(tn_bad(u) || tn_is_float(u));
    if (tn_bad(u))
        return u;
    u = tn_widen(ctx, u);
    n = tn_count_axes(ctx, u, axis_mask, u->dtype);
    u = tn_reduce(ctx, UOP_ADD, u, axis_mask);
    return tn_cast(ctx, mean_of_sum(ctx, u, n), dtype);
}

/* In two passes, from the mean: the difference of the mean square and the
 * squared mean cancels. n - correction of 0 or less gives infinity or NaN, not
 * an error. */
const struct uop *
tn_var(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask,
       double correction)
{
    enum uop_dtype dtype = u->dtype;
    const struct uop *d, *n;
    double rest;

    assert(tn_bad(u) || tn_is_float(u));
    if (tn_bad(u))
        return u;
    u = tn_widen(ctx, u);
    n = tn_count_axes(ctx, u, axis_mask, u->dtype);
    /* a quotient: the mean of equal numbers is that number */
    d = tn_fdiv(ctx, tn_reduce(ctx, UOP_ADD, u, axis_mask), n);
    d = tn_sub(ctx, u, d);
    d = tn_reduce(ctx, UOP_ADD, tn_mul(ctx, d, d), axis_mask);
    if (tn_bad(d) || tn_bad(n))
        return &uop_failed;
    if (n->op == UOP_CONST) {
        rest = n->arg.f - correction;
        d = tn_mul_c(ctx, d, 1 / (rest > 0 ? rest : 0));
    } else {
        n = tn_max(ctx, tn_add_c(ctx, n, -correction), tn_num(ctx, n, 0));
        d = mean_of_sum(ctx, d, n);
    }
    return tn_cast(ctx, d, dtype);
}

struct bell_tensor *
bell_mean(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes,
          bool keepdim)
{
    struct bell_tensor *out;
    struct reduction r;

    if (!begin_reduction(__func__, x, axes, n_axes, keepdim, true, &r, &out))
        return out;
    return end_reduction(__func__, &r, tn_mean(r.ctx, r.u, r.mask));
}

/* sum^(1/p); at 0 its gradient is 0 instead of infinite. */
static const struct uop *
root_of_sum(struct bell_context *ctx, const struct uop *sum, double p)
{
    const struct uop *zero, *none, *base;

    if (tn_bad(sum))
        return sum;
    zero = tn_num(ctx, sum, 0);
    none = tn_eq(ctx, sum, zero);
    base = tn_where(ctx, none, tn_num(ctx, sum, 1), sum);
    base = p == 2 ? tn_sqrt(ctx, base)
                  : tn_alu2(ctx, UOP_POW, base, tn_num(ctx, sum, 1 / p));
    /* of a negative order the root is that of the sum, infinite perhaps */
    return p > 0 ? tn_where(ctx, none, zero, base)
                 : tn_alu2(ctx, UOP_POW, sum, tn_num(ctx, sum, 1 / p));
}

/* u in a dtype in which the squares of all its numbers can be added: PyTorch's
 * on a CPU. Float16's fit float32; devices without float64 have no more. */
static const struct uop *
sum_widely(struct bell_context *ctx, const struct uop *u)
{
    bool is_narrow = u->dtype == UOP_F16 || !tensor_device_has_f64(ctx);

    return tn_cast(ctx, tn_widen(ctx, u),
                   is_narrow && u->dtype != UOP_F64 ? UOP_F32 : UOP_F64);
}

static struct bell_tensor *
spread_call(const char *call, struct bell_tensor *x, const int64_t *axes,
            uint32_t n_axes, bool keepdim, double correction, bool root)
{
    struct bell_tensor *out;
    struct reduction r;
    const struct uop *u;

    if (!begin_reduction(call, x, axes, n_axes, keepdim, true, &r, &out))
        return out;
    u = tn_var(r.ctx, sum_widely(r.ctx, r.u), r.mask, correction);
    if (root)
        u = root_of_sum(r.ctx, u, 2);
    return end_reduction(call, &r, tn_cast(r.ctx, u, r.u->dtype));
}

struct bell_tensor *
bell_var(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes,
         bool keepdim, double correction)
{
    return spread_call(__func__, x, axes, n_axes, keepdim, correction, false);
}

struct bell_tensor *
bell_std(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes,
         bool keepdim, double correction)
{
    return spread_call(__func__, x, axes, n_axes, keepdim, correction, true);
}

/* ---- norms ---- */

/* The common norms without pow. For p = 0 it is the count of what is not zero.
 * Halves give float32. */
const struct uop *
tn_norm(struct bell_context *ctx, const struct uop *u, double p, uint32_t mask)
{
    const struct uop *a, *y;

    assert(tn_bad(u) || tn_is_float(u));
    u = tn_widen(ctx, u);
    a = tn_abs(ctx, u);
    if (p == 0) {
        y = tn_cast(ctx, tn_bool(ctx, u), u->dtype);
        return tn_sum(ctx, y, mask);
    }
    if (isinf(p))
        return tn_reduce(ctx, p > 0 ? UOP_MAX : UOP_MIN, a, mask);
    if (p == 1)
        return tn_sum(ctx, a, mask);
    if (p == 2)
        return root_of_sum(ctx, tn_sum(ctx, tn_mul(ctx, u, u), mask), p);
    y = tn_alu2(ctx, UOP_POW, a, tn_const(ctx, u->dtype, p));
    if (p < 1) { /* at 0 the slope is infinite: 0 instead */
        const struct uop *zero = tn_num(ctx, a, 0), *none = tn_eq(ctx, a, zero);
        const struct uop *rest = tn_where(ctx, none, tn_num(ctx, a, 1), a);
        rest = tn_alu2(ctx, UOP_POW, rest, tn_const(ctx, u->dtype, p));
        y = tensor_surrogate(ctx, y, tn_where(ctx, none, zero, rest));
    }
    return root_of_sum(ctx, tn_sum(ctx, y, mask), p);
}

/* The root of a sum that is 0 is not one of a negative order, and nothing has
 * neither a maximum nor a minimum. */
static bool
has_norm(const char *call, const struct reduction *r,
         const struct bell_tensor *x, double p)
{
    if (isnan(p)) {
        tensor_fail(r->ctx, call, BELL_BAD_VALUE,
                    "the order is %g over shape %s; expected a number", p,
                    SHAPE_OF(x));
        return false;
    }
    if ((p < 0 || isinf(p)) && tn_reduced_count(r->ctx, r->u, r->mask) == 0) {
        tensor_fail(r->ctx, call, BELL_BAD_VALUE,
                    "of order %g over no elements, of shape %s; an order from "
                    "0 on is needed, and not infinity",
                    p, SHAPE_OF(x));
        return false;
    }
    return true;
}

struct bell_tensor *
bell_norm(struct bell_tensor *x, double p, const int64_t *axes, uint32_t n_axes,
          bool keepdim)
{
    const struct uop *norm;
    struct bell_tensor *out;
    struct reduction r;

    if (!begin_reduction(__func__, x, axes, n_axes, keepdim, true, &r, &out))
        return out;
    if (!has_norm(__func__, &r, x, p))
        return r.ctx->error_tensor;
    norm = tn_norm(r.ctx, r.u, p, r.mask);
    return end_reduction(__func__, &r, tn_cast(r.ctx, norm, r.u->dtype));
}

struct bell_tensor *
bell_normalize(struct bell_tensor *x, double p, int axis, double eps)
{
    const int64_t list = axis;
    const struct uop *norm;
    struct bell_tensor *out;
    struct reduction r;

    if (!begin_reduction(__func__, x, &list, 1, true, true, &r, &out))
        return out;
    if (!has_norm(__func__, &r, x, p))
        return r.ctx->error_tensor;
    norm = tn_norm(r.ctx, r.u, p, r.mask);
    if (tn_bad(norm))
        return end_reduction(__func__, &r, norm);
    norm = tn_max(r.ctx, norm, tn_const(r.ctx, norm->dtype, eps));
    norm = tn_fdiv(r.ctx, tn_widen(r.ctx, r.u), norm);
    return end_reduction(__func__, &r, tn_cast(r.ctx, norm, r.u->dtype));
}

/* ---- softmax ---- */

/* u minus its maximum, which is taken as given: it shifts numerator and
 * denominator alike, so no gradient flows through it. */
static const struct uop *
shift_by_max(struct bell_context *ctx, const struct uop *u, uint32_t mask)
{
    const struct uop *m = tn_reduce(ctx, UOP_MAX, u, mask);

    assert(tn_bad(u) || tn_rank(ctx, u) == 0 ||
           (mask & ~tn_axes_below(tn_rank(ctx, u))) == 0);
    return tn_sub(ctx, u, tn_wrap(ctx, UOP_DETACH, m));
}

const struct uop *
tn_softmax(struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_SOFTMAX, .p = {axis}};
    enum uop_dtype dtype = u->dtype;
    const struct uop *e;

    if (tn_bad(u)) /* which has no axis */
        return u;
    assert(tn_is_float(u) && axis < tn_rank(ctx, u));
    rule.a = u = tn_widen(ctx, u);
    e = tn_exp(ctx, shift_by_max(ctx, u, tn_axis_bit(axis)));
    /* one division a row */
    e = tn_mul(ctx, e, tn_recip(ctx, tn_sum(ctx, e, tn_axis_bit(axis))));
    return tn_cast(ctx, tensor_rule_add(ctx, e, &rule), dtype);
}

/* Not the logarithm of a softmax: what is far below the maximum would be
 * log(0). */
const struct uop *
tn_log_softmax(struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    enum uop_dtype dtype = u->dtype;
    const struct uop *shifted, *sum;

    if (tn_bad(u))
        return u;
    assert(tn_is_float(u) && axis < tn_rank(ctx, u));
    shifted = shift_by_max(ctx, tn_widen(ctx, u), tn_axis_bit(axis));
    sum = tn_sum(ctx, tn_exp(ctx, shifted), tn_axis_bit(axis));
    return tn_cast(ctx, tn_sub(ctx, shifted, tn_log(ctx, sum)), dtype);
}

const struct uop *
tn_log_base(struct bell_context *ctx, const struct uop *m)
{
    const struct uop *most, *some;

    if (tn_bad(m))
        return m;
    most = tn_num(ctx, m, m->dtype == UOP_F64 ? DBL_MAX : (double)FLT_MAX);
    m = tn_wrap(ctx, UOP_DETACH, m);
    some = tn_lt(ctx, tn_num(ctx, m, -(double)INFINITY), m);
    return tn_where(ctx, some, tn_min(ctx, m, most), tn_num(ctx, m, 0));
}

const struct uop *
tn_logsumexp(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask)
{
    enum uop_dtype dtype = u->dtype;
    const struct uop *m, *sum;

    assert(tn_bad(u) || tn_is_float(u));
    u = tn_widen(ctx, u);
    m = tn_log_base(ctx, tn_reduce(ctx, UOP_MAX, u, axis_mask));
    sum = tn_sum(ctx, tn_exp(ctx, tn_sub(ctx, u, m)), axis_mask);
    return tn_cast(ctx, tn_add(ctx, tn_log(ctx, sum), m), dtype);
}

struct bell_tensor *
bell_logsumexp(struct bell_tensor *x, const int64_t *axes, uint32_t n_axes,
               bool keepdim)
{
    struct bell_tensor *out;
    struct reduction r;

    if (!begin_reduction(__func__, x, axes, n_axes, keepdim, false, &r, &out))
        return out;
    r.u = to_float(r.ctx, r.u);
    return end_reduction(__func__, &r, tn_logsumexp(r.ctx, r.u, r.mask));
}

typedef const struct uop *along_axis_fn(struct bell_context *ctx,
                                        const struct uop *u, uint32_t axis);

/* A call along one axis; a tensor without axes has one of size 1. */
static struct bell_tensor *
along_axis(const char *call, struct bell_tensor *x, int axis,
           along_axis_fn *build)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int at;

    if (!tensor_takes(call, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    at = tensor_axis(ctx, call, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return ctx->error_tensor;
    u = to_float(ctx, tensor_wide_node(x));
    if (tensor_at(x)->shape->n == 0) {
        u = build(ctx, tn_unsqueeze(ctx, u, 0), 0);
        return tensor_new(ctx, call, tn_squeeze(ctx, u, 1));
    }
    return tensor_new(ctx, call, build(ctx, u, (uint32_t)at));
}

static const struct uop *
soft_min(struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    return tn_softmax(ctx, tn_neg(ctx, u), axis);
}

#define ALONG_AXIS(name, build)                                                \
    struct bell_tensor *name(struct bell_tensor *x, int axis)                  \
    {                                                                          \
        return along_axis(__func__, x, axis, build);                           \
    }
ALONG_AXIS(bell_softmax, tn_softmax)
ALONG_AXIS(bell_log_softmax, tn_log_softmax)
ALONG_AXIS(bell_softmin, soft_min)
