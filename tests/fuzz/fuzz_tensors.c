/* Every tensor of a file. */
#include "tests/fuzz/fuzz_tensors.h"

#include <stdint.h>
#include <stdlib.h>

#include "doorbell/files.h"

/* What one input may have in memory. */
#define TENSOR_MAX (1u << 20)

void
fuzz_touch(const void *data, size_t size_bytes)
{
    volatile uint8_t sum = 0;
    size_t k;

    for (k = 0; k < size_bytes; k++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[k]);
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
        fuzz_touch(data, entry->size_bytes);
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

bool
fuzz_tensors_check(struct bell_context *ctx, const char *path)
{
    struct bell_file *file;
    uint32_t i;

    if (bell_file_open(path, &file) != BELL_OK) {
        if (!bell_error_last()->message[0])
            abort();
        return false;
    }
    (void)!bell_scope_begin(ctx);
    for (i = 0; i < bell_file_count(file) && i < 64; i++)
        check_tensor(ctx, file, bell_file_at(file, i));
    (void)!bell_scope_end(ctx);
    bell_file_close(file);
    return true;
}
