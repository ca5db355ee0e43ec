/* Arrays of files. */
#include "tensor/files/array.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

void
host_array_fini(struct host_array *array)
{
    host_free(array->data);
    memset(array, 0, sizeof(*array));
}

bell_status
host_array_size(struct host_array *array)
{
    uint64_t n = 1;
    bool zero = false;
    uint32_t i;

    for (i = 0; i < array->ndim; i++)
        zero |= array->shape[i] == 0;
    for (i = 0; i < array->ndim && !zero; i++) {
        if (__builtin_mul_overflow(n, (uint64_t)array->shape[i], &n) ||
            n > SIZE_MAX / 16)
            return bell_fail(BELL_E_IO, "more elements than memory can hold");
    }
    array->n_elems = zero ? 0 : n;
    array->size_bytes = (size_t)array->n_elems * bell_dtype_size(array->dtype);
    return BELL_OK;
}

bell_status
host_array_copy(struct host_array *array, const void *src, bool swap)
{
    size_t size = bell_dtype_size(array->dtype), k, b;
    uint8_t *data = host_alloc(array->size_bytes + 1);

    if (!data)
        return bell_fail(BELL_E_NO_MEMORY,
                         "an array of %zu bytes: out of memory",
                         array->size_bytes);
    array->data = data;
    memcpy(data, src, array->size_bytes);
    for (k = 0; swap && k < array->n_elems; k++, data += size) {
        for (b = 0; b < size / 2; b++) {
            uint8_t byte = data[b];
            data[b] = data[size - 1 - b];
            data[size - 1 - b] = byte;
        }
    }
    return BELL_OK;
}

void
host_array_gather(const struct host_array *array, const void *src,
                  const int64_t *strides, bool swap)
{
    size_t size = bell_dtype_size(array->dtype), k, b;
    int64_t idx[BELL_MAX_RANK] = {0}, at = 0;
    uint8_t *dst = array->data;
    uint32_t i;

    for (k = 0; k < array->n_elems; k++, dst += size) {
        const uint8_t *element = (const uint8_t *)src + at * (int64_t)size;
        for (b = 0; b < size; b++)
            dst[b] = element[swap ? size - 1 - b : b];
        for (i = array->ndim; i-- > 0;) {
            at += strides[i];
            if (++idx[i] < array->shape[i])
                break;
            at -= strides[i] * array->shape[i];
            idx[i] = 0;
        }
    }
}

bell_status
host_array_read(const char *path, host_array_parse_fn *parse,
                struct host_array *out_array)
{
    struct file_bytes file;
    bell_status status;

    BELL_TRY(file_read(path, &file));
    status = parse(file.data, file.size_bytes, out_array);
    if (status != BELL_OK)
        bell_error_prefix("%s", path);
    file_bytes_fini(&file);
    return status;
}
