/* Data in and out, realising, assignment. */
#include "tensor/core/tensor_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/entry.h"
#include "tensor/core/rules.h"
#include "tensor/core/node.h"
#include "tensor/core/trace.h"

/* What kernels take a tensor's first element to be aligned to. */

/* The graph takes its own reference with the node; the one from creating is
 * dropped in any case. */
const struct uop *
tensor_leaf(struct bell_context *ctx, const char *call, enum uop_dtype dtype,
            const int64_t *shape, uint32_t ndim, const void *data)
{
    uint64_t n = (uint64_t)dims_numel(ctx->dims, shape, ndim);
    bool holds = data && n > 1 && tensor_device_is_mesh(ctx);
    struct tensor_buffer *buf;
    const struct uop *u;

    if ((holds
             ? tensor_buffer_create_held(ctx, dtype, n, data, NULL, NULL, &buf)
             : tensor_buffer_create(ctx, dtype, n, &buf)) != BELL_OK) {
        tensor_fail_last(ctx, call);
        return NULL;
    }
    if (data && buf->size_bytes && !holds &&
        tensor_buffer_write(buf, data, buf->size_bytes) != BELL_OK) {
        tensor_buffer_release(buf);
        tensor_fail_last(ctx, call);
        return NULL;
    }
    if (data)
        tensor_note_range(buf, data);
    u = tensor_buffer_node(ctx, buf, uop_dims(&ctx->graph, shape, ndim));
    tensor_buffer_release(buf);
    return u;
}

static bool
add_feed(struct tensor_trace *trace, uint32_t size_bytes,
         struct bell_optimizer *opt, uint32_t group)
{
    assert(size_bytes <= TENSOR_FEED_BYTES);
    if (host_grow((void **)&trace->feeds, &trace->cap_feeds, trace->n_feeds + 1,
                  sizeof(*trace->feeds)) != 0)
        return false;
    trace->feeds[trace->n_feeds++] =
        (struct tensor_feed){opt, group, size_bytes};
    return true;
}

const struct uop *
tensor_feed_leaf(struct bell_context *ctx, const char *call,
                 enum uop_dtype dtype, int64_t n, const void *data,
                 struct bell_optimizer *opt, uint32_t group)
{
    struct tensor_trace *trace = ctx->trace;
    struct tensor_buffer *buf;
    const struct uop *u;

    if (!trace)
        return tensor_leaf(ctx, call, dtype, &n, 1, data);
    if (trace->keep)
        return trace->keep(trace->keep_user, opt, group);
    if (tensor_stand_in(ctx, dtype, (uint64_t)n, TENSOR_FEED,
                        (uint32_t)trace->n_feeds, NULL, &buf) != BELL_OK) {
        tensor_fail_last(ctx, call);
        return NULL;
    }
    if (!add_feed(trace, (uint32_t)buf->size_bytes, opt, group)) {
        tensor_buffer_release(buf);
        tensor_fail(ctx, call, BELL_E_NO_MEMORY, "out of memory for a feed");
        return NULL;
    }
    u = tensor_buffer_node(ctx, buf, uop_dims(&ctx->graph, &n, 1));
    tensor_buffer_release(buf);
    return u;
}

struct bell_tensor *
tensor_from_bytes(struct bell_context *ctx, const char *call,
                  enum uop_dtype dtype, const int64_t *shape, uint32_t ndim,
                  const void *data)
{
    const struct uop *u = tensor_leaf(ctx, call, dtype, shape, ndim, data);

    return u ? tensor_new(ctx, call, u) : ctx->error_tensor;
}

struct bell_tensor *
bell_from_data(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
               enum bell_dtype dtype, const void *data)
{
    enum uop_dtype type;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_F32);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, __func__, shape, ndim))
        return ctx->error_tensor;
    if (!data && dims_most(ctx->dims, shape, ndim) > 0)
        return tensor_fail(ctx, __func__, BELL_BAD_MISSING, "data is NULL");
    return tensor_from_bytes(ctx, __func__, type, shape, ndim, data);
}

struct bell_tensor *
bell_from_blob(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
               enum bell_dtype dtype, void *data, void (*release)(void *user),
               void *user)
{
    struct tensor_buffer *buf;
    struct bell_tensor *t;
    enum uop_dtype type;
    const struct uop *u;
    uint32_t align;
    int64_t n;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_F32);
    if (type == UOP_VOID || !tensor_shape_arg(ctx, __func__, shape, ndim))
        return ctx->error_tensor;
    n = tn_product(shape, ndim);
    if (!data && n > 0)
        return tensor_fail(ctx, __func__, BELL_BAD_MISSING, "data is NULL");
    align = tensor_device_blob_align(ctx, uop_dtype_infos[type].size_bytes);
    if ((uintptr_t)data % align)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "data at %p is not aligned to %u bytes", data,
                           align);
    if (n == 0) {
        t = tensor_from_bytes(ctx, __func__, type, shape, ndim, NULL);
        if (release && !(tensor_at(t)->flags & TENSOR_ERROR))
            release(user);
        return t;
    }
    if (tensor_buffer_create_blob(ctx, type, (uint64_t)n, data, &buf) !=
        BELL_OK)
        return tensor_fail_last(ctx, __func__);
    if ((uintptr_t)data % TENSOR_BLOB_ALIGN)
        buf->n_kept++; /* for ever: never written in place */
    u = tensor_buffer_node(ctx, buf, uop_dims(&ctx->graph, shape, ndim));
    t = tensor_new(ctx, __func__, u);
    if (!(tensor_at(t)->flags & TENSOR_ERROR)) {
        buf->release = release;
        buf->release_user = user;
    }
    tensor_buffer_release(buf);
    return t;
}

/* A tensor of `ctx` with the values of a buffer of another context's, queued on
 * both devices. BELL_E_UNSUPPORTED: it takes the host. */
static bell_status
send_to(struct bell_tensor *t, struct bell_context *ctx, const char *call,
        struct bell_tensor **out)
{
    struct tensor_buffer *from, *to;
    bell_status status;
    const struct uop *u;

    BELL_TRY(tensor_get_buffer(call, t, &from));
    if (!from->device_mem)
        return tensor_fail_gone(call);
    BELL_TRY(tensor_buffer_create(ctx, from->dtype, from->n_elems, &to));
    status = tensor_buffer_send(to, from);
    if (status == BELL_OK) {
        u = tensor_buffer_node(ctx, to,
                               uop_dims(&ctx->graph, tensor_at(t)->shape->d,
                                        tensor_at(t)->shape->n));
        *out = tensor_new(ctx, call, u);
    }
    tensor_buffer_release(to);
    return status;
}

/* The same by the host, which waits. */
static struct bell_tensor *
read_to(struct bell_tensor *t, struct bell_context *ctx, const char *call)
{
    struct bell_tensor *out;
    void *values = host_alloc(bell_nbytes(t) + 1);

    if (!values)
        return tensor_fail(ctx, call, BELL_E_NO_MEMORY,
                           "out of memory for %llu bytes",
                           (unsigned long long)bell_nbytes(t));
    if (bell_read(t, values, bell_nbytes(t)) != BELL_OK)
        out = tensor_fail_last(ctx, call);
    else
        out = tensor_from_bytes(ctx, call, tensor_at(t)->dtype,
                                tensor_at(t)->shape->d, tensor_at(t)->shape->n,
                                values);
    host_free(values);
    return out;
}

static struct bell_tensor *
copy_to(struct bell_tensor *t, struct bell_context *ctx)
{
    static const char call[] = "bell_to";
    struct bell_error_hold hold;
    struct bell_tensor *out;
    bell_status status;

    if (!tensor_context_check(call, ctx))
        return NULL;
    if (tensor_usable(call, t) != BELL_OK)
        return tensor_fail_told(ctx);
    if (tensor_at(t)->ctx == ctx)
        return tensor_new(ctx, call, tensor_node(t));
    if (!tensor_check(call, t, &out))
        return ctx->error_tensor;
    if (bell_nbytes(t) == 0 || tensor_at(t)->ctx->trace || ctx->trace)
        return read_to(t, ctx, call);
    bell_error_hold(&hold);
    status = send_to(t, ctx, call, &out);
    if (status == BELL_OK)
        return out;
    if (status != BELL_E_UNSUPPORTED)
        return tensor_fail_last(ctx, call);
    bell_error_release(&hold);
    return read_to(t, ctx, call);
}

/* Its shell is inside the tensor's context; this one is entered, too. */
struct bell_tensor *
bell_to(struct bell_tensor *t, struct bell_context *ctx)
{
    struct try_lock_owner *owner;
    struct bell_tensor *out;

    if (!entry_take(__func__, ctx, &owner))
        return entry_error(ctx);
    out = copy_to(t, ctx);
    entry_leave(ctx, owner);
    return out;
}

struct bell_tensor *
bell_empty(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
           enum bell_dtype dtype)
{
    enum uop_dtype type;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_F32);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, __func__, shape, ndim))
        return ctx->error_tensor;
    return tensor_from_bytes(ctx, __func__, type, shape, ndim, NULL);
}

struct bell_tensor *
bell_empty_like(struct bell_tensor *x, enum bell_dtype dtype)
{
    struct bell_tensor *out;

    if (!tensor_check(__func__, x, &out))
        return out;
    if (dtype == BELL_DEFAULT)
        dtype = bell_dtype_of(x);
    return bell_empty(tensor_at(x)->ctx, tensor_at(x)->shape->d,
                      tensor_at(x)->shape->n, dtype);
}

bell_status
tensor_fail_gone(const char *call)
{
    return bell_fail_at(call, BELL_BAD_STATE,
                        "%s: a tensor is of a function that was captured, and "
                        "no output of it: it has no value",
                        call);
}

/* ---- realising ---- */

/* A bell_scalar becomes a tensor like any other. */
static bell_status
settle_scalar(struct bell_tensor *t)
{
    const struct uop *u = tensor_node(t);

    if (tn_bad(u)) {
        tensor_at(t)->ctx->graph.failed = false;
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a scalar");
    }
    tensor_set_node(t, u);
    return BELL_OK;
}

/* Whether a call can take them: together, and as tensors that are no longer
 * scalars. */
static bell_status
settle_list(const char *call, struct bell_tensor *const *tensors, size_t n)
{
    size_t i;

    if (n && !tensors)
        return bell_fail_at(call, BELL_BAD_MISSING,
                            "%s: the list of tensors is NULL", call);
    for (i = 0; i < n; i++) {
        BELL_TRY(tensor_usable(call, tensors[i]));
        if (tensor_at(tensors[i])->ctx != tensor_at(tensors[0])->ctx)
            return bell_fail_at(call, BELL_BAD_CONTEXT,
                                "%s: tensors 0 and %zu are of different "
                                "contexts",
                                call, i);
        if (tensor_at(tensors[i])->flags & TENSOR_WEAK)
            BELL_TRY(settle_scalar(tensors[i]));
    }
    return BELL_OK;
}

/* Is one of them a variable by a name of its own for another's value
 * (tensor_own_variable)? */
static bool
has_own_names(struct bell_tensor *const *tensors, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (tensor_at(tensors[i])->flags & TENSOR_REQUIRES_GRAD &&
            tensor_at(tensors[i])->uop->op == UOP_DETACH)
            return true;
    }
    return false;
}

/* Variables that were realized to the memory of another get their own. */
static bell_status
part_variables(const char *call, struct bell_tensor *const *tensors, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (tensor_at(tensors[i])->flags & TENSOR_REQUIRES_GRAD &&
            tensor_is_anothers(tensors[i], tensor_at(tensors[i])->uop))
            BELL_TRY(tensor_own_memory(call, tensors[i]));
    }
    return BELL_OK;
}

bell_status
tensor_realize_list(const char *call, struct bell_tensor *const *tensors,
                    size_t n)
{
    struct bell_context *ctx;
    bell_status status;
    bool named;

    BELL_TRY(settle_list(call, tensors, n));
    if (n == 0)
        return BELL_OK;
    ctx = tensor_at(tensors[0])->ctx;
    named = has_own_names(tensors, n);
    status = tensor_realize(ctx, tensors, n);
    if (status == BELL_OK && named)
        status = part_variables(call, tensors, n);
    if (status != BELL_OK) {
        bell_error_frame(call);
        return status;
    }
    tensor_collect(ctx);
    return BELL_OK;
}

bell_status
bell_realize(struct bell_tensor *const *tensors, size_t n)
{
    return tensor_realize_list(__func__, tensors, n);
}

bell_status
bell_realize1(struct bell_tensor *t)
{
    return tensor_realize_list(__func__, &t, 1);
}

bell_status
bell_compile(struct bell_tensor *const *tensors, size_t n)
{
    BELL_TRY(settle_list(__func__, tensors, n));
    if (n)
        BELL_TRY(tensor_compile(tensor_at(tensors[0])->ctx, tensors, n));
    return BELL_OK;
}

bell_status
tensor_get_buffer(const char *call, struct bell_tensor *t,
                  struct tensor_buffer **out_buf)
{
    BELL_TRY(tensor_usable(call, t));
    if (!bell_is_realized(t))
        BELL_TRY(tensor_realize_list(call, &t, 1));
    *out_buf = tensor_buffer_of(t);
    if (!*out_buf)
        return bell_fail(BELL_E_INTERNAL, "%s: a realized tensor has no buffer",
                         call);
    if ((*out_buf)->n_elems != tensor_numel(t))
        return bell_fail_at(call, BELL_BAD_STATE,
                            "%s: a tensor of shape %s was made when that was "
                            "%llu elements, not %llu",
                            call, SHAPE_OF(t),
                            (unsigned long long)(*out_buf)->n_elems,
                            (unsigned long long)tensor_numel(t));
    return (*out_buf)->held || (*out_buf)->held_by
               ? tensor_buffer_settle(*out_buf)
               : BELL_OK;
}

bell_status
bell_read(struct bell_tensor *t, void *dst, size_t size_bytes)
{
    struct tensor_buffer *buf;

    BELL_TRY(tensor_usable(__func__, t));
    if (size_bytes != bell_nbytes(t))
        return bell_fail(BELL_BAD_SIZE,
                         "bell_read: %zu bytes of room for a tensor of shape "
                         "%s, %s, which has %llu",
                         size_bytes, SHAPE_OF(t),
                         bell_dtype_name(bell_dtype_of(t)),
                         (unsigned long long)bell_nbytes(t));
    if (size_bytes == 0)
        return BELL_OK;
    if (!dst)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_read: the room for %zu bytes is NULL",
                         size_bytes);
    if (tensor_at(t)->ctx->trace)
        return bell_fail(BELL_BAD_STATE,
                         "bell_read: in a function that is captured: the "
                         "tensor of shape %s has no value yet; make it an "
                         "output",
                         SHAPE_OF(t));
    BELL_TRY(tensor_get_buffer(__func__, t, &buf));
    if (!buf->device_mem)
        return tensor_fail_gone(__func__);
    return tensor_buffer_read(buf, dst, size_bytes);
}

/* Element i of raw data. Floats exactly; U64 as its bits in *out_i. */
static void
decode_element(enum uop_dtype dtype, const uint8_t *raw, size_t i,
               double *out_f, int64_t *out_i)
{
    size_t size = uop_dtype_infos[dtype].size_bytes;
    uint64_t bits = 0;

    assert(uop_dtype_infos[dtype].size_bytes > 0);
    memcpy(&bits, raw + i * size, size);
    if (!uop_dtype_infos[dtype].is_float) {
        *out_i = uop_wrap_int(dtype, (int64_t)bits);
        return;
    }
    *out_f = uop_float_value(dtype, bits);
    if (isnan(*out_f) && uop_dtype_infos[dtype].has_minus_zero)
        *out_f = copysign(*out_f, bits >> (8 * size - 1) ? -1 : 1);
}

/* Truncates, saturates; NaN is 0. */
static int64_t
int_from_float(double v)
{
    if (isnan(v))
        return 0;
    if (v >= 0x1p63)
        return INT64_MAX;
    return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static bell_status
read_converted(const char *call, struct bell_tensor *t, size_t n, double *dst_f,
               int64_t *dst_i)
{
    enum uop_dtype dtype;
    uint8_t *raw;
    size_t i, size_bytes;
    bell_status status;

    assert(!dst_f || !dst_i);
    BELL_TRY(tensor_usable(call, t));
    if (n != tensor_numel(t))
        return bell_fail_at(call, BELL_BAD_SIZE,
                            "%s: room for %zu elements of a tensor of shape "
                            "%s, which has %llu",
                            call, n, SHAPE_OF(t),
                            (unsigned long long)tensor_numel(t));
    if (n && !dst_f && !dst_i)
        return bell_fail_at(call, BELL_BAD_MISSING,
                            "%s: the room for %zu elements is NULL", call, n);
    dtype = (enum uop_dtype)bell_dtype_of(t);
    size_bytes = bell_nbytes(t);
    raw = host_alloc(size_bytes);
    if (!raw)
        return bell_fail_at(call, BELL_E_NO_MEMORY,
                            "%s: out of memory for %zu bytes", call,
                            size_bytes);
    status = bell_read(t, raw, size_bytes);
    for (i = 0; status == BELL_OK && i < n; i++) {
        bool is_float = uop_dtype_infos[dtype].is_float;
        double f = 0;
        int64_t v = 0;
        decode_element(dtype, raw, i, &f, &v);
        if (dst_f)
            dst_f[i] = is_float           ? f
                       : dtype == UOP_U64 ? (double)(uint64_t)v
                                          : (double)v;
        else
            dst_i[i] = is_float ? int_from_float(f) : v;
    }
    host_free(raw);
    return status;
}

bell_status
bell_read_f64(struct bell_tensor *t, double *dst, size_t n)
{
    return read_converted(__func__, t, n, dst, NULL);
}

bell_status
bell_read_i64(struct bell_tensor *t, int64_t *dst, size_t n)
{
    return read_converted(__func__, t, n, NULL, dst);
}

bell_status
bell_item_f64(struct bell_tensor *t, double *out_value)
{
    return read_converted(__func__, t, 1, out_value, NULL);
}

bell_status
bell_item_i64(struct bell_tensor *t, int64_t *out_value)
{
    return read_converted(__func__, t, 1, NULL, out_value);
}

/* ---- assignment ---- */

struct bell_tensor *
bell_assign(struct bell_tensor *t, struct bell_tensor *value)
{
    struct bell_tensor *out;
    const struct uop *u;

    if (!tensor_check2(__func__, t, value, &out))
        return out;
    u = tensor_node(value);
    if (tensor_at(t)->shape != tensor_at(value)->shape)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_SHAPE,
                           "a value of shape %s to a tensor of shape %s: the "
                           "shapes must be equal",
                           SHAPE_OF(value), SHAPE_OF(t));
    if (!tn_bad(u) && tensor_at(t)->dtype != u->dtype)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_DTYPE,
                           "a value of %s to a tensor of %s: the dtypes must "
                           "be equal; see bell_cast",
                           DTYPE_OF(value), DTYPE_OF(t));
    /* of two variables the second stays one of its own */
    if (tensor_at(t)->flags & TENSOR_REQUIRES_GRAD)
        u = tensor_own_variable(t, u);
    if (tn_bad(u))
        return tensor_new(tensor_at(t)->ctx, __func__, u);
    tensor_set_node(t, u);
    if (!(tensor_at(t)->flags & TENSOR_ASSIGNED)) {
        tensor_at(t)->flags |= TENSOR_ASSIGNED;
        tensor_at(t)->ctx->n_assigned++;
    }
    return t;
}

bell_status
bell_write(struct bell_tensor *t, const void *data, size_t size_bytes)
{
    struct bell_tensor *fresh;
    bell_status status;

    BELL_TRY(tensor_usable(__func__, t));
    if (size_bytes != bell_nbytes(t))
        return bell_fail(BELL_BAD_SIZE,
                         "bell_write: %zu bytes to a tensor of shape %s, %s, "
                         "which has %llu",
                         size_bytes, SHAPE_OF(t), DTYPE_OF(t),
                         (unsigned long long)bell_nbytes(t));
    if (size_bytes && !data)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_write: the data of %zu bytes is NULL",
                         size_bytes);
    if (tensor_at(t)->flags & TENSOR_WEAK)
        return bell_fail(BELL_BAD_STATE,
                         "bell_write: a bell_scalar cannot be written");
    fresh = bell_from_data(tensor_at(t)->ctx, tensor_at(t)->shape->d,
                           tensor_at(t)->shape->n,
                           (enum bell_dtype)tensor_at(t)->dtype, data);
    status = tensor_report(tensor_at(t)->ctx);
    if (status == BELL_OK)
        tensor_set_node(t, tensor_at(fresh)->uop);
    bell_tensor_release(fresh);
    return status;
}
