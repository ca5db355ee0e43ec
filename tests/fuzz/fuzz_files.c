/* libFuzzer target: files of tensors of every format, and arrays that are read
 * alone. Whatever the bytes, opening ends in an error or in tensors that can be
 * read to their last byte. */
#include <stdint.h>
#include <stdlib.h>

#include "doorbell/files.h"
#include "tensor/files/idx.h"
#include "tensor/files/npy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_tensors.h"

/* Sizes agree, and all of the data can be read. */
static void
check_array(struct host_array *array)
{
    uint64_t n = 1;
    uint32_t i;

    if (array->ndim > BELL_MAX_RANK)
        abort();
    for (i = 0; i < array->ndim; i++)
        n *= (uint64_t)array->shape[i];
    if (n != array->n_elems ||
        n * bell_dtype_size(array->dtype) != array->size_bytes)
        abort();
    fuzz_touch(array->data, array->size_bytes);
    host_array_fini(array);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bell_context *ctx;
    static struct fuzz_file file;
    struct host_array array;

    if (!ctx && bell_context_create("CPU", &ctx) != BELL_OK)
        abort();
    fuzz_file_write(&file, data, size);
    if (fuzz_tensors_check(ctx, file.path))
        fuzz_accept();
    if (npy_parse(data, size, &array) == BELL_OK)
        check_array(&array);
    if (idx_parse(data, size, &array) == BELL_OK)
        check_array(&array);
    return 0;
}
