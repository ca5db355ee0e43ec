/* Dtypes by name. Alone in its file: doorbell-run has it without the
 * tensors. */
#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "base/status.h"
#include "doorbell/functions.h"

enum bell_dtype
bell_dtype_find(const char *name)
{
    static const struct {
        const char *name;
        enum bell_dtype dtype;
    } others[] = {
        {"half", BELL_FLOAT16},   {"float", BELL_FLOAT32},
        {"double", BELL_FLOAT64}, {"short", BELL_INT16},
        {"int", BELL_INT32},      {"long", BELL_INT64},
    };
    int dtype;
    size_t i;

    if (!name) {
        (void)bell_fail(BELL_BAD_MISSING, "bell_dtype_find: the name is NULL");
        return BELL_DEFAULT;
    }
    for (dtype = BELL_BOOL; dtype < BELL_DTYPE_COUNT; dtype++) {
        if (strcmp(bell_dtype_name((enum bell_dtype)dtype), name) == 0)
            return (enum bell_dtype)dtype;
    }
    for (i = 0; i < ARRAY_LEN(others); i++) {
        if (strcmp(others[i].name, name) == 0)
            return others[i].dtype;
    }
    return BELL_DEFAULT;
}
