/* Tensors from nothing: constants, ranges, the identity matrix. */
#include "tensor/core/node.h"

#include <assert.h>
#include <math.h>

struct bell_tensor *
bell_scalar(struct bell_context *ctx, double value)
{
    struct bell_tensor *t;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    t = tensor_new(ctx, __func__, tn_float(ctx, UOP_F64, value));
    if (!(tensor_at(t)->flags & TENSOR_ERROR))
        tensor_at(t)->flags |= TENSOR_WEAK;
    return t;
}

struct bell_tensor *
bell_scalar_int(struct bell_context *ctx, int64_t value)
{
    struct bell_tensor *t;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    t = tensor_new(ctx, __func__, tn_int(ctx, UOP_I64, value));
    if (!(tensor_at(t)->flags & TENSOR_ERROR))
        tensor_at(t)->flags |= TENSOR_WEAK;
    return t;
}

/* ---- constants ---- */

/* `value` in every element. Constants have one NaN: the other sign is one of
 * bits. */
static const struct uop *
full_of(struct bell_context *ctx, enum uop_dtype dtype, double value,
        const int64_t *shape, uint32_t ndim)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[dtype];
    enum uop_dtype as = info->size_bytes == 1   ? UOP_U8
                        : info->size_bytes == 2 ? UOP_U16
                        : info->size_bytes == 4 ? UOP_U32
                                                : UOP_U64;
    uint64_t sign = 1ull << (8 * info->size_bytes - 1);
    const struct uop *bits;

    assert(dtype != UOP_VOID);
    if (!isnan(value) || !signbit(value) || !info->is_float ||
        !info->has_minus_zero)
        return tn_full(ctx, tn_const(ctx, dtype, value), shape, ndim);
    bits = tn_int(ctx, as, (int64_t)(uop_float_bits(dtype, value) | sign));
    return tn_broadcast(ctx, tn_bitcast(ctx, bits, dtype), shape, ndim);
}

static struct bell_tensor *
make_full(const char *call, struct bell_context *ctx, const int64_t *shape,
          uint32_t ndim, double value, enum bell_dtype dtype)
{
    enum uop_dtype type;

    if (!tensor_context_check(call, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, call, dtype, UOP_F32);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, call, shape, ndim))
        return ctx->error_tensor;
    return tensor_new(ctx, call, full_of(ctx, type, value, shape, ndim));
}

struct bell_tensor *
bell_full(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
          double value, enum bell_dtype dtype)
{
    return make_full(__func__, ctx, shape, ndim, value, dtype);
}

struct bell_tensor *
bell_zeros(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
           enum bell_dtype dtype)
{
    return make_full(__func__, ctx, shape, ndim, 0, dtype);
}

struct bell_tensor *
bell_ones(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
          enum bell_dtype dtype)
{
    return make_full(__func__, ctx, shape, ndim, 1, dtype);
}

bool
tensor_fits_int(struct bell_context *ctx, const char *call, int64_t value,
                enum uop_dtype dtype)
{
    struct uop_bounds bounds = uop_dtype_bounds(dtype);

    if (uop_dtype_infos[dtype].is_float || dtype == UOP_BOOL ||
        uop_dtype_infos[dtype].size_bytes == 8)
        return true;
    if (value <= bounds.max &&
        value >= (bounds.min < 0 ? bounds.min : -bounds.max))
        return true;
    tensor_fail(ctx, call, BELL_BAD_VALUE,
                "%lld does not fit %s, %lld to %lld: convert a tensor to wrap",
                (long long)value, uop_dtype_infos[dtype].name,
                (long long)bounds.min, (long long)bounds.max);
    return false;
}

bool
tensor_fits_number(const char *call, const struct bell_tensor *number,
                   enum uop_dtype dtype)
{
    const struct tensor *t = tensor_at(number);
    const struct uop *c = t->uop;

    return !(t->flags & TENSOR_WEAK) || c->op != UOP_CONST || tn_is_float(c) ||
           tensor_fits_int(t->ctx, call, c->arg.i, dtype);
}

struct bell_tensor *
bell_full_int(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
              int64_t value, enum bell_dtype dtype)
{
    const struct uop *c;
    enum uop_dtype type;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_I64);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, __func__, shape, ndim))
        return ctx->error_tensor;
    if (!tensor_fits_int(ctx, __func__, value, type))
        return ctx->error_tensor;
    c = type == UOP_BOOL ? tn_int(ctx, type, value != 0)
                         : tn_int(ctx, type, value);
    return tensor_new(ctx, __func__, tn_full(ctx, c, shape, ndim));
}

static struct bell_tensor *
make_full_like(const char *call, struct bell_tensor *x, double value,
               enum bell_dtype dtype)
{
    struct bell_tensor *out;

    if (!tensor_takes(call, x, &out))
        return out;
    if (dtype == BELL_DEFAULT)
        dtype = bell_dtype_of(x);
    return make_full(call, tensor_at(x)->ctx, tensor_at(x)->shape->d,
                     tensor_at(x)->shape->n, value, dtype);
}

struct bell_tensor *
bell_full_like(struct bell_tensor *x, double value, enum bell_dtype dtype)
{
    return make_full_like(__func__, x, value, dtype);
}

struct bell_tensor *
bell_zeros_like(struct bell_tensor *x, enum bell_dtype dtype)
{
    return make_full_like(__func__, x, 0, dtype);
}

struct bell_tensor *
bell_ones_like(struct bell_tensor *x, enum bell_dtype dtype)
{
    return make_full_like(__func__, x, 1, dtype);
}

/* ---- ranges ---- */

static bool
is_whole_number(double v)
{
    return fabs(v) < 0x1p63 && v == trunc(v);
}

static double
last_step(double start, double step, int64_t n)
{
    return start + step * (double)(n ? n - 1 : 0);
}

/* start + i * step for i < n, in int64. */
static const struct uop *
make_int_steps(struct bell_context *ctx, int64_t start, int64_t step, int64_t n,
               enum uop_dtype dtype)
{
    const struct uop *u = tn_iota(ctx, 1, 0, n, UOP_I64);

    if (step != 1)
        u = tn_mul(ctx, u, tn_int(ctx, UOP_I64, step));
    if (start != 0)
        u = tn_add(ctx, u, tn_int(ctx, UOP_I64, start));
    return tn_cast(ctx, u, dtype);
}

/* start + i * step for i < n, in int64; or, where a number is not whole, in
 * float64 for wide dtypes and in float32 for others, and then rounded. */
static const struct uop *
make_steps(struct bell_context *ctx, double start, double step, int64_t n,
           enum uop_dtype dtype)
{
    const struct uop *u;
    bool whole = is_whole_number(start) && is_whole_number(step) &&
                 is_whole_number(last_step(start, step, n));
    enum uop_dtype wide = UOP_F32;

    assert(n >= 0);
    if (whole)
        return make_int_steps(ctx, (int64_t)start, (int64_t)step, n, dtype);
    if (dtype == UOP_F64 || (uop_dtype_infos[dtype].is_int &&
                             uop_dtype_infos[dtype].size_bytes >= 4))
        wide = UOP_F64;
    u = tn_iota(ctx, 1, 0, n, wide);
    if (step != 1)
        u = tn_mul_c(ctx, u, step);
    if (start != 0)
        u = tn_add_c(ctx, u, start);
    return tn_cast(ctx, u, dtype);
}

struct bell_tensor *
bell_arange(struct bell_context *ctx, double start, double stop, double step,
            enum bell_dtype dtype)
{
    enum uop_dtype type;
    double n;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type =
        is_whole_number(start) && is_whole_number(stop) && is_whole_number(step)
            ? UOP_I64
            : UOP_F32;
    type = tensor_dtype_arg(ctx, __func__, dtype, type);
    if (type == UOP_VOID)
        return ctx->error_tensor;
    n = ceil((stop - start) / step);
    if (type == UOP_BOOL || step == 0 || !(n >= 0) || n > (double)TN_MAX_NUMEL)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%s from %g to %g by %g: the step must lead from "
                           "start to end, and the dtype not be bool",
                           uop_dtype_infos[type].name, start, stop, step);
    if (uop_dtype_infos[type].is_int &&
        !(fabs(start) < 0x1p63 &&
          fabs(last_step(start, step, (int64_t)n)) < 0x1p63))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%s from %g to %g: int64 ends before 2^63",
                           uop_dtype_infos[type].name, start, stop);
    return tensor_new(ctx, __func__,
                      make_steps(ctx, start, step, (int64_t)n, type));
}

struct bell_tensor *
bell_arange_int(struct bell_context *ctx, int64_t start, int64_t stop,
                int64_t step, enum bell_dtype dtype)
{
    uint64_t n = 0, each = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    enum uop_dtype type;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_I64);
    if (type == UOP_VOID)
        return ctx->error_tensor;
    if (step > 0 && start < stop)
        n = ((uint64_t)stop - (uint64_t)start - 1) / each + 1;
    if (step < 0 && start > stop)
        n = ((uint64_t)start - (uint64_t)stop - 1) / each + 1;
    if (type == UOP_BOOL || step == 0 || (start != stop && n == 0) ||
        n > TN_MAX_NUMEL)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%s from %lld to %lld by %lld: the step must lead "
                           "from start to end, and the dtype not be bool",
                           uop_dtype_infos[type].name, (long long)start,
                           (long long)stop, (long long)step);
    return tensor_new(ctx, __func__,
                      make_int_steps(ctx, start, step, (int64_t)n, type));
}

struct bell_tensor *
bell_linspace(struct bell_context *ctx, double start, double stop,
              int64_t steps, enum bell_dtype dtype)
{
    const struct uop *i, *u, *back;
    enum uop_dtype type, wide;
    double step;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_F32);
    if (type == UOP_VOID)
        return ctx->error_tensor;
    if (type == UOP_BOOL || steps < 0 || steps > TN_MAX_NUMEL ||
        !isfinite(start) || !isfinite(stop))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%lld steps of %s from %g to %g: expected 0 steps "
                           "or more, finite ends, and not bool",
                           (long long)steps, uop_dtype_infos[type].name, start,
                           stop);
    /* Counted from both ends, so that both are met exactly. */
    wide = type == UOP_F32 || uop_dtype_is_small(type) ? UOP_F32 : UOP_F64;
    step = steps > 1 ? (stop - start) / (double)(steps - 1) : 0;
    i = tn_iota(ctx, 1, 0, steps, UOP_I64);
    u = tn_add_c(ctx, tn_mul_c(ctx, tn_cast(ctx, i, wide), step), start);
    back = tn_sub(ctx, tn_int(ctx, UOP_I64, steps - 1), i);
    back = tn_mul_c(ctx, tn_cast(ctx, back, wide), -step);
    back = tn_add_c(ctx, back, steps > 1 ? stop : start);
    u = tn_where(ctx, tn_lt(ctx, i, tn_int(ctx, UOP_I64, (steps + 1) / 2)), u,
                 back);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, type));
}

struct bell_tensor *
bell_eye(struct bell_context *ctx, int64_t n, int64_t m, enum bell_dtype dtype)
{
    int64_t shape[2] = {n, m};
    enum uop_dtype type;
    const struct uop *u;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_F32);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, __func__, shape, 2))
        return ctx->error_tensor;
    u = tn_eq(ctx, tn_iota(ctx, 2, 0, n, UOP_I64),
              tn_iota(ctx, 2, 1, m, UOP_I64));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, type));
}

struct bell_tensor *
bell_one_hot(struct bell_tensor *x, int64_t num_classes)
{
    const struct uop *u, *index;
    struct bell_tensor *out;
    struct bell_context *ctx;
    uint32_t rank;

    if (!tensor_takes(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    if (!uop_dtype_infos[tensor_at(x)->dtype].is_int || num_classes < 0 ||
        num_classes > TN_MAX_NUMEL || rank + 1 > BELL_MAX_RANK)
        return tensor_fail(
            ctx, __func__,
            !uop_dtype_infos[tensor_at(x)->dtype].is_int ? BELL_BAD_DTYPE
            : rank + 1 > BELL_MAX_RANK                   ? BELL_BAD_SHAPE
                                                         : BELL_BAD_VALUE,
            "%s %s into %lld classes: expected integers, 0 classes or more, "
            "and fewer than %d axes",
            DTYPE_OF(x), SHAPE_OF(x), (long long)num_classes, BELL_MAX_RANK);
    if (!tensor_check_range(__func__, x, "class", (int)rank, 0, num_classes,
                            TENSOR_IGNORE_NONE))
        return ctx->error_tensor;
    index = tn_cast(ctx, tn_unsqueeze(ctx, tensor_node(x), rank), UOP_I64);
    u = tn_eq(ctx, index, tn_iota(ctx, rank + 1, rank, num_classes, UOP_I64));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, UOP_I64));
}
