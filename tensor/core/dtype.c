/* dtypes and their promotion, facts of tensors, checks of shape and axis
 * arguments.
 */
#include "tensor/core/tensor_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "tensor/core/node.h"

/* The public enumeration is the IR's, with BELL_DEFAULT for VOID. */
_Static_assert(BELL_DEFAULT == (int)UOP_VOID, "dtype");
_Static_assert(BELL_BOOL == (int)UOP_BOOL, "dtype");
_Static_assert(BELL_INT8 == (int)UOP_I8, "dtype");
_Static_assert(BELL_UINT8 == (int)UOP_U8, "dtype");
_Static_assert(BELL_INT16 == (int)UOP_I16, "dtype");
_Static_assert(BELL_UINT16 == (int)UOP_U16, "dtype");
_Static_assert(BELL_INT32 == (int)UOP_I32, "dtype");
_Static_assert(BELL_UINT32 == (int)UOP_U32, "dtype");
_Static_assert(BELL_INT64 == (int)UOP_I64, "dtype");
_Static_assert(BELL_UINT64 == (int)UOP_U64, "dtype");
_Static_assert(BELL_FLOAT16 == (int)UOP_F16, "dtype");
_Static_assert(BELL_BFLOAT16 == (int)UOP_BF16, "dtype");
_Static_assert(BELL_FLOAT32 == (int)UOP_F32, "dtype");
_Static_assert(BELL_FLOAT64 == (int)UOP_F64, "dtype");
_Static_assert(BELL_FLOAT8_E4M3FN == (int)UOP_F8E4M3, "dtype");
_Static_assert(BELL_FLOAT8_E5M2 == (int)UOP_F8E5M2, "dtype");
_Static_assert(BELL_FLOAT8_E4M3FNUZ == (int)UOP_F8E4M3Z, "dtype");
_Static_assert(BELL_FLOAT8_E5M2FNUZ == (int)UOP_F8E5M2Z, "dtype");
_Static_assert(BELL_DTYPE_COUNT == (int)UOP_DTYPE_COUNT, "dtype");

const char *
bell_dtype_name(enum bell_dtype dtype)
{
    if ((unsigned)dtype >= BELL_DTYPE_COUNT)
        return "?";
    return dtype == BELL_DEFAULT ? "default" : uop_dtype_infos[dtype].name;
}

size_t
bell_dtype_size(enum bell_dtype dtype)
{
    return (unsigned)dtype < BELL_DTYPE_COUNT
               ? uop_dtype_infos[dtype].size_bytes
               : 0;
}

enum bell_dtype
bell_promote(enum bell_dtype a, enum bell_dtype b)
{
    if ((unsigned)a >= BELL_DTYPE_COUNT || (unsigned)b >= BELL_DTYPE_COUNT ||
        a == BELL_DEFAULT || b == BELL_DEFAULT)
        return BELL_DEFAULT;
    return (enum bell_dtype)tensor_promote((enum uop_dtype)a,
                                           (enum uop_dtype)b);
}

/* 0 bool, 1 integer, 2 float. */
static int
find_category(enum uop_dtype dtype)
{
    return uop_dtype_infos[dtype].is_float ? 2 : uop_dtype_infos[dtype].is_int;
}

/* The smallest that holds both; of U64 with a signed one there is none, and it
 * is F64, as in NumPy. */
static enum uop_dtype
promote_ints(enum uop_dtype a, enum uop_dtype b)
{
    const struct uop_dtype_info *x = &uop_dtype_infos[a];
    const struct uop_dtype_info *y = &uop_dtype_infos[b];

    assert(x->is_int && y->is_int);
    if (x->is_signed == y->is_signed)
        return x->size_bytes >= y->size_bytes ? a : b;
    if (!x->is_signed)
        return promote_ints(b, a);
    if (x->size_bytes > y->size_bytes)
        return a;
    switch (y->size_bytes) {
    case 1:
        return UOP_I16;
    case 2:
        return UOP_I32;
    case 4:
        return UOP_I64;
    default:
        return UOP_F64;
    }
}

enum uop_dtype
tensor_promote(enum uop_dtype a, enum uop_dtype b)
{
    int cat_a = find_category(a), cat_b = find_category(b);

    assert(a < UOP_DTYPE_COUNT && b < UOP_DTYPE_COUNT);
    if (a == b)
        return a;
    if (cat_a != cat_b)
        return cat_a > cat_b ? a : b;
    if (cat_a == 1)
        return promote_ints(a, b);
    if (uop_dtype_infos[a].size_bytes != uop_dtype_infos[b].size_bytes)
        return uop_dtype_infos[a].size_bytes > uop_dtype_infos[b].size_bytes
                   ? a
                   : b;
    return UOP_F32; /* two formats of one size */
}

/* Standing in promotion: 2 has axes, 1 shape (), 0 a bell_scalar. */
static int
find_standing(const struct bell_tensor *t)
{
    return tensor_at(t)->flags & TENSOR_WEAK ? 0
           : tensor_at(t)->shape->n          ? 2
                                             : 1;
}

/* Three standings: numbers of the program, tensors without axes, tensors. A
 * lower one decides only by its category, as in PyTorch: adding a float64
 * scalar to a float32 tensor stays float32. */
enum uop_dtype
tensor_result_dtype(struct bell_tensor *const *tensors, uint32_t n,
                    bool *out_weak)
{
    enum uop_dtype best[3] = {UOP_VOID, UOP_VOID, UOP_VOID}, result = UOP_VOID;
    uint32_t i;
    int s;

    for (i = 0; i < n; i++) {
        enum uop_dtype dtype = tensor_at(tensors[i])->dtype;
        s = find_standing(tensors[i]);
        best[s] = best[s] == UOP_VOID ? dtype : tensor_promote(best[s], dtype);
    }
    if (out_weak)
        *out_weak = best[1] == UOP_VOID && best[2] == UOP_VOID;
    if (best[1] == UOP_VOID && best[2] == UOP_VOID)
        return best[0];
    if (best[0] == UOP_F64)
        best[0] = UOP_F32; /* the default, where it decides */
    for (s = 2; s >= 0; s--) {
        if (best[s] == UOP_VOID)
            continue;
        if (result == UOP_VOID ||
            find_category(best[s]) > find_category(result))
            result = best[s];
    }
    return result;
}

enum uop_dtype
tensor_dtype_arg(struct bell_context *ctx, const char *call,
                 enum bell_dtype dtype, enum uop_dtype otherwise)
{
    if (dtype == BELL_DEFAULT)
        return otherwise;
    if ((unsigned)dtype < BELL_DTYPE_COUNT)
        return (enum uop_dtype)dtype;
    tensor_fail(ctx, call, BELL_BAD_DTYPE, "%d is not a dtype", (int)dtype);
    return UOP_VOID;
}

/* ---- shapes and axes ---- */

char *
tensor_shape_str(const int64_t *d, uint32_t n, char *buf, size_t size_bytes)
{
    return tensor_sizes_str(NULL, d, n, buf, size_bytes);
}

char *
tensor_sizes_str(const struct dim_table *dims, const int64_t *d, uint32_t n,
                 char *buf, size_t size_bytes)
{
    char size[64];
    size_t at = 0;
    uint32_t i;

    assert(size_bytes > 0);
    at += (size_t)snprintf(buf, size_bytes, "(");
    for (i = 0; i < n && at < size_bytes; i++) {
        if (dims)
            dim_print(dims, d[i], size, sizeof(size));
        else
            snprintf(size, sizeof(size), "%" PRId64, d[i]);
        at += (size_t)snprintf(buf + at, size_bytes - at, "%s%s", i ? ", " : "",
                               size);
    }
    if (at < size_bytes)
        snprintf(buf + at, size_bytes - at, n == 1 ? ",)" : ")");
    return buf;
}

/* A scalar takes axis 0 and -1 as if it had one axis, as NumPy's reductions
 * do. */
int
tensor_axis(struct bell_context *ctx, const char *call, int64_t axis,
            uint32_t rank)
{
    int64_t n = rank ? rank : 1;

    assert(rank <= TN_MAX_RANK);
    if (axis < -n || axis >= n) {
        tensor_fail(ctx, call, BELL_BAD_AXIS,
                    "axis %lld of a tensor of %u axes; expected %d to %d",
                    (long long)axis, rank, (int)-n, (int)n - 1);
        return -1;
    }
    return (int)(axis < 0 ? axis + n : axis);
}

/* No axes given means all of them. */
bool
tensor_axes(struct bell_context *ctx, const char *call, const int64_t *axes,
            uint32_t n_axes, uint32_t rank, uint32_t *out_mask)
{
    uint32_t mask = 0, i;

    assert(rank <= TN_MAX_RANK);
    if (n_axes && !axes) {
        tensor_fail(ctx, call, BELL_BAD_MISSING, "the list of axes is NULL");
        return false;
    }
    for (i = 0; i < n_axes; i++) {
        int axis = tensor_axis(ctx, call, axes[i], rank);
        if (axis < 0)
            return false;
        if (mask & 1u << axis) {
            tensor_fail(ctx, call, BELL_BAD_AXIS, "axis %d is listed twice",
                        axis);
            return false;
        }
        mask |= 1u << axis;
    }
    if (n_axes == 0)
        mask = (uint32_t)((1ull << rank) - 1);
    *out_mask = mask;
    return true;
}

bool
tensor_shape_arg(struct bell_context *ctx, const char *call, const int64_t *d,
                 uint32_t n)
{
    char text[TENSOR_SHAPE_STR];

    if (!tensor_takes_shape(ctx, call, d, n))
        return false;
    if (!dims_in(d, n))
        return true;
    tensor_fail(ctx, call, BELL_BAD_SHAPE,
                "shape %s; sizes of symbols are not for this function",
                tensor_sizes_str(ctx->dims, d, n, text, sizeof(text)));
    return false;
}

bool
tensor_takes_shape(struct bell_context *ctx, const char *call, const int64_t *d,
                   uint32_t n)
{
    char text[TENSOR_SHAPE_STR];
    int64_t min, max;
    uint32_t i;

    if (n > BELL_MAX_RANK) {
        tensor_fail(ctx, call, BELL_BAD_SHAPE, "%u axes, more than %d", n,
                    BELL_MAX_RANK);
        return false;
    }
    if (n && !d) {
        tensor_fail(ctx, call, BELL_BAD_MISSING, "the shape is NULL");
        return false;
    }
    for (i = 0; i < n; i++) {
        if (d[i] < 0) {
            tensor_fail(ctx, call, BELL_BAD_SHAPE,
                        "shape %s has a negative "
                        "size",
                        tensor_sizes_str(ctx->dims, d, n, text, sizeof(text)));
            return false;
        }
        if (!dim_is_expr(d[i]))
            continue;
        if (!dims_known(ctx->dims, d[i])) {
            tensor_fail(ctx, call, BELL_BAD_SHAPE,
                        "the shape has a size that is not one of this context");
            return false;
        }
        dim_bounds(ctx->dims, d[i], &min, &max);
        if (min < 1) {
            tensor_fail(ctx, call, BELL_BAD_SHAPE,
                        "shape %s: a size can be less than 1",
                        tensor_sizes_str(ctx->dims, d, n, text, sizeof(text)));
            return false;
        }
    }
    if (dims_most(ctx->dims, d, n) < 0) {
        tensor_fail(ctx, call, BELL_BAD_SHAPE, "shape %s is too large",
                    tensor_sizes_str(ctx->dims, d, n, text, sizeof(text)));
        return false;
    }
    return true;
}

/* ---- facts ---- */

struct bell_context *
bell_context_of(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    return t ? t->ctx : NULL;
}

/* For any thread: what it looks at never changes. */
bool
bell_is_error(const struct bell_tensor *handle)
{
    const struct tensor *t = handle_find(handle);

    return !t || t->ctx->error_tensor == handle;
}

enum bell_dtype
bell_dtype_of(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    if (!t)
        return BELL_DEFAULT;
    if (t->flags & TENSOR_WEAK && t->dtype == UOP_F64)
        return BELL_FLOAT32;
    return (enum bell_dtype)t->dtype;
}

uint32_t
bell_ndim(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    return t ? t->shape->n : 0;
}

/* False, and a failure of the context: a size is none. */
static bool
has_numbers(const char *call, const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_at(handle);

    if (!(t->flags & TENSOR_VARIES))
        return true;
    tensor_fail(t->ctx, call, BELL_BAD_STATE,
                "of a tensor of shape %s: bell_dims and bell_dim_at give sizes "
                "of symbols",
                SHAPE_OF(handle));
    return false;
}

const int64_t *
bell_shape(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    return t && has_numbers(__func__, handle) ? t->shape->d : NULL;
}

int64_t
bell_size(const struct bell_tensor *handle, int axis)
{
    const struct tensor *t = tensor_asked(__func__, handle);
    int n = t ? (int)t->shape->n : 0;

    if (axis < -n || axis >= n)
        return -1;
    axis = axis < 0 ? axis + n : axis;
    return !dim_is_expr(t->shape->d[axis]) || has_numbers(__func__, handle)
               ? t->shape->d[axis]
               : -1;
}

uint64_t
tensor_numel(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_at(handle);

    return dims_numel(t->ctx->dims, t->shape->d, t->shape->n);
}

uint64_t
bell_numel(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    if (t && t->ctx->trace && t->flags & TENSOR_VARIES) {
        tensor_fail(t->ctx, __func__, BELL_BAD_STATE,
                    "of shape %s in a function that is captured, which is for "
                    "all values: bell_dim_value gives a size as a tensor",
                    SHAPE_OF(handle));
        return 0;
    }
    return t ? tensor_numel(handle) : 0;
}

uint64_t
bell_nbytes(const struct bell_tensor *handle)
{
    return bell_numel(handle) * bell_dtype_size(bell_dtype_of(handle));
}

bool
bell_is_realized(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    return t && !(t->flags & TENSOR_ERROR) && tensor_buffer_of(handle) != NULL;
}
