/* libFuzzer target: files of tensors of every format, and arrays that are read
 * alone. Whatever the bytes, opening ends in an error or in tensors that can be
 * read to their last byte. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "doorbell/files.h"
#include "tensor/files/idx.h"
#include "tensor/files/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What one input may have in memory. */
#define TENSOR_MAX (1u << 20)

static void
touch(const void *data, size_t size_bytes)
{
    volatile uint8_t sum = 0;
    size_t k;

    for (k = 0; k < size_bytes; k++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[k]);
}

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
    touch(array->data, array->size_bytes);
    host_array_fini(array);
}

/* A tensor of the entry's shape, or an error; what is repeated or in blocks is
 * not computed. */
static void
check_tensor(struct bell_context *ctx, const struct bell_file *file,
             const struct bell_file_entry *entry)
{
    const void *data = bell_file_data(file, entry->name);
    struct bell_tensor *t;
    static uint8_t values[TENSOR_MAX];

    if (data)
        touch(data, entry->size_bytes);
    if (entry->size_bytes > TENSOR_MAX)
        return;
    t = bell_file_tensor(ctx, file, entry->name);
    if (!bell_is_error(t)) {
        if (bell_ndim(t) != entry->ndim || bell_dtype_of(t) != entry->dtype)
            abort();
        if (bell_is_realized(t) &&
            bell_read(t, values, bell_nbytes(t)) != BELL_OK)
            abort();
    }
    (void)!bell_context_status(ctx);
}

static void
check_file(struct bell_context *ctx, const char *path)
{
    struct bell_file *file;
    uint32_t i;

    if (bell_file_open(path, &file) != BELL_OK)
        return;
    (void)!bell_scope_begin(ctx);
    for (i = 0; i < bell_file_count(file) && i < 64; i++)
        check_tensor(ctx, file, bell_file_at(file, i));
    (void)!bell_scope_end(ctx);
    bell_file_close(file);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bell_context *ctx;
    static int fd = -1;
    struct host_array array;
    char path[32];

    if (!ctx && bell_context_create("CPU", &ctx) != BELL_OK)
        abort();
    if (fd < 0)
        fd = memfd_create("file", 0);
    if (fd < 0 || ftruncate(fd, 0) != 0 ||
        pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    check_file(ctx, path);
    if (npy_parse(data, size, &array) == BELL_OK)
        check_array(&array);
    if (idx_parse(data, size, &array) == BELL_OK)
        check_array(&array);
    return 0;
}
