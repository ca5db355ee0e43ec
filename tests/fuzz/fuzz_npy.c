/* libFuzzer target: .npy and IDX files. Whatever the bytes, reading ends in
 * an error or in an array whose parts fit together. */
#include <stdint.h>
#include <stdlib.h>

#include "tensor/files/idx.h"
#include "tensor/files/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sizes agree, and all of the data can be read. */
static void
check_array(enum bell_dtype dtype, const int64_t *shape, uint32_t ndim,
            uint64_t n_elems, size_t size_bytes, const void *data)
{
    volatile uint8_t sum = 0;
    uint64_t n = 1;
    uint32_t i;
    size_t k;

    if (ndim > BELL_MAX_RANK)
        abort();
    for (i = 0; i < ndim; i++)
        n *= (uint64_t)shape[i];
    if (n != n_elems || n * bell_dtype_size(dtype) != size_bytes)
        abort();
    for (k = 0; k < size_bytes; k++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[k]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host_array npy;
    struct host_array idx;

    if (npy_parse(data, size, &npy) == BELL_OK) {
        check_array(npy.dtype, npy.shape, npy.ndim, npy.n_elems, npy.size_bytes,
                    npy.data);
        host_array_fini(&npy);
    }
    if (idx_parse(data, size, &idx) == BELL_OK) {
        check_array(idx.dtype, idx.shape, idx.ndim, idx.n_elems, idx.size_bytes,
                    idx.data);
        host_array_fini(&idx);
    }
    return 0;
}
