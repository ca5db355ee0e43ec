/* DLPack's structures from tensors, and tensors from them. */
#include "doorbell/dlpack.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/files/array.h"
#include "tensor/core/tensor_internal.h"

#define ALIGN_BYTES 256u

static const struct {
    uint8_t code, bits;
    enum bell_dtype dtype;
} dl_types[] = {
    {BELL_DL_BOOL, 8, BELL_BOOL},
    {BELL_DL_INT, 8, BELL_INT8},
    {BELL_DL_UINT, 8, BELL_UINT8},
    {BELL_DL_INT, 16, BELL_INT16},
    {BELL_DL_UINT, 16, BELL_UINT16},
    {BELL_DL_INT, 32, BELL_INT32},
    {BELL_DL_UINT, 32, BELL_UINT32},
    {BELL_DL_INT, 64, BELL_INT64},
    {BELL_DL_UINT, 64, BELL_UINT64},
    {BELL_DL_FLOAT, 16, BELL_FLOAT16},
    {BELL_DL_BFLOAT, 16, BELL_BFLOAT16},
    {BELL_DL_FLOAT, 32, BELL_FLOAT32},
    {BELL_DL_FLOAT, 64, BELL_FLOAT64},
    {BELL_DL_E4M3FN, 8, BELL_FLOAT8_E4M3FN},
    {BELL_DL_E5M2, 8, BELL_FLOAT8_E5M2},
    {BELL_DL_E4M3FNUZ, 8, BELL_FLOAT8_E4M3FNUZ},
    {BELL_DL_E5M2FNUZ, 8, BELL_FLOAT8_E5M2FNUZ},
};

/* ---- in ---- */

static BELL_MUST_CHECK bell_status
check_view(const struct bell_dl_tensor *view, struct host_array *array)
{
    size_t i;

    if (view->device.kind != BELL_DL_CPU &&
        view->device.kind != BELL_DL_CUDA_HOST &&
        view->device.kind != BELL_DL_ROCM_HOST)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "memory of device kind %d, which the host cannot "
                         "read; copy it to the CPU first",
                         (int)view->device.kind);
    for (i = 0; i < ARRAY_LEN(dl_types); i++) {
        if (dl_types[i].code == view->dtype.code &&
            dl_types[i].bits == view->dtype.bits && view->dtype.lanes == 1)
            array->dtype = dl_types[i].dtype;
    }
    if (array->dtype == BELL_DEFAULT)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "elements of code %u with %u bits in %u lanes are of "
                         "no dtype of ours",
                         view->dtype.code, view->dtype.bits, view->dtype.lanes);
    if (view->ndim < 0 || view->ndim > BELL_MAX_RANK ||
        (view->ndim && !view->shape))
        return bell_fail(BELL_BAD_SHAPE, "%d axes, of %d at most",
                         (int)view->ndim, BELL_MAX_RANK);
    array->ndim = (uint32_t)view->ndim;
    for (i = 0; i < array->ndim; i++) {
        array->shape[i] = view->shape[i];
        if (view->shape[i] < 0)
            return bell_fail(BELL_BAD_SHAPE, "axis %zu has the size %lld", i,
                             (long long)view->shape[i]);
    }
    BELL_TRY(host_array_size(array));
    if (array->n_elems && !view->data)
        return bell_fail(BELL_BAD_MISSING, "%llu elements without data",
                         (unsigned long long)array->n_elems);
    return BELL_OK;
}

static struct bell_tensor *
copy_view(struct bell_context *ctx, const struct bell_dl_tensor *view,
          struct host_array *array)
{
    const uint8_t *data =
        array->n_elems ? (const uint8_t *)view->data + view->byte_offset : NULL;
    struct bell_tensor *t;
    uint8_t *bytes;
    size_t k;

    if (!view->strides && array->dtype != BELL_BOOL)
        return bell_from_data(ctx, array->shape, array->ndim, array->dtype,
                              data);
    array->data = bytes = host_alloc(array->size_bytes + 1);
    if (!bytes)
        return tensor_fail(ctx, "bell_from_dlpack", BELL_E_NO_MEMORY,
                           "out of memory for %zu bytes", array->size_bytes);
    if (view->strides)
        host_array_gather(array, data, view->strides, false);
    else if (array->size_bytes)
        memcpy(bytes, data, array->size_bytes);
    for (k = 0; array->dtype == BELL_BOOL && k < array->size_bytes; k++)
        bytes[k] = bytes[k] != 0;
    t = bell_from_data(ctx, array->shape, array->ndim, array->dtype, bytes);
    host_array_fini(array);
    return t;
}

static struct bell_tensor *
take_view(struct bell_context *ctx, const struct bell_dl_tensor *view)
{
    struct host_array array = {.dtype = BELL_DEFAULT};

    if (!tensor_context_check("bell_from_dlpack", ctx))
        return NULL;
    if (check_view(view, &array) != BELL_OK)
        return tensor_fail_last(ctx, "bell_from_dlpack");
    return copy_view(ctx, view, &array);
}

struct bell_tensor *
bell_from_dlpack(struct bell_context *ctx, struct bell_dl_managed *managed)
{
    struct bell_tensor *t;

    if (!managed)
        return tensor_context_check(__func__, ctx)
                   ? tensor_fail(ctx, __func__, BELL_BAD_MISSING,
                                 "the managed tensor is NULL")
                   : NULL;
    t = take_view(ctx, &managed->tensor);
    if (managed->deleter)
        managed->deleter(managed);
    return t;
}

struct bell_tensor *
bell_from_dlpack_versioned(struct bell_context *ctx,
                           struct bell_dl_managed_versioned *managed)
{
    struct bell_tensor *t;

    if (!managed)
        return tensor_context_check(__func__, ctx)
                   ? tensor_fail(ctx, __func__, BELL_BAD_MISSING,
                                 "the managed tensor is NULL")
                   : NULL;
    /* of another major version only the deleter stays where it is */
    if (managed->version.major != BELL_DL_MAJOR)
        t = tensor_context_check(__func__, ctx)
                ? tensor_fail(ctx, __func__, BELL_E_UNSUPPORTED,
                              "DLPack of version %u.%u; 1.x is read",
                              managed->version.major, managed->version.minor)
                : NULL;
    else
        t = take_view(ctx, &managed->tensor);
    if (managed->deleter)
        managed->deleter(managed);
    return t;
}

/* ---- out ---- */

/* What both kinds of managed tensors own. */
struct copy {
    struct bell_dl_managed plain;
    struct bell_dl_managed_versioned versioned;
    int64_t shape[BELL_MAX_RANK], strides[BELL_MAX_RANK];
    void *data; /* owned */
};

static void
free_copy(struct copy *copy)
{
    host_free(copy->data);
    host_free(copy);
}

static void
delete_plain(struct bell_dl_managed *self)
{
    free_copy(self->owner);
}

static void
delete_versioned(struct bell_dl_managed_versioned *self)
{
    free_copy(self->owner);
}

static void
fill_view(struct copy *copy, struct bell_tensor *t,
          struct bell_dl_tensor *out_view)
{
    uint32_t ndim = bell_ndim(t), i;
    int64_t stride = 1;

    memset(out_view, 0, sizeof(*out_view));
    for (i = 0; dl_types[i].dtype != bell_dtype_of(t); i++)
        ;
    out_view->dtype.code = dl_types[i].code;
    out_view->dtype.bits = dl_types[i].bits;
    out_view->dtype.lanes = 1;
    out_view->device.kind = BELL_DL_CPU;
    out_view->data = copy->data;
    out_view->ndim = (int32_t)ndim;
    out_view->shape = copy->shape;
    out_view->strides = copy->strides;
    for (i = ndim; i-- > 0;) {
        copy->shape[i] = bell_shape(t)[i];
        copy->strides[i] = stride;
        stride *= copy->shape[i] ? copy->shape[i] : 1;
    }
}

static BELL_MUST_CHECK bell_status
make_copy(const char *call, struct bell_tensor *t, struct copy **out_copy)
{
    struct copy *copy;
    bell_status status;

    BELL_TRY(tensor_usable(call, t));
    copy = host_calloc(1, sizeof(*copy));
    if (copy)
        copy->data = host_aligned(ALIGN_BYTES, bell_nbytes(t) + ALIGN_BYTES);
    if (!copy || !copy->data) {
        host_free(copy);
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %llu bytes",
                         call, (unsigned long long)bell_nbytes(t));
    }
    status = bell_read(t, copy->data, bell_nbytes(t));
    if (status != BELL_OK) {
        free_copy(copy);
        return status;
    }
    *out_copy = copy;
    return BELL_OK;
}

bell_status
bell_to_dlpack(struct bell_tensor *t, struct bell_dl_managed **out_managed)
{
    struct copy *copy;

    if (!out_managed)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_to_dlpack: the result is NULL");
    BELL_TRY(make_copy(__func__, t, &copy));
    fill_view(copy, t, &copy->plain.tensor);
    copy->plain.owner = copy;
    copy->plain.deleter = delete_plain;
    *out_managed = &copy->plain;
    return BELL_OK;
}

bell_status
bell_to_dlpack_versioned(struct bell_tensor *t,
                         struct bell_dl_managed_versioned **out_managed)
{
    struct copy *copy;

    if (!out_managed)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_to_dlpack_versioned: the result is NULL");
    BELL_TRY(make_copy(__func__, t, &copy));
    fill_view(copy, t, &copy->versioned.tensor);
    copy->versioned.version.major = BELL_DL_MAJOR;
    copy->versioned.version.minor = BELL_DL_MINOR;
    copy->versioned.flags = BELL_DL_WAS_COPIED;
    copy->versioned.owner = copy;
    copy->versioned.deleter = delete_versioned;
    *out_managed = &copy->versioned;
    return BELL_OK;
}
