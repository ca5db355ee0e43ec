/* Inputs that a tool makes up. */
#include "tools/inputs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/functions.h"
#include "tensor/runtime/ir.h"

static bell_status
parse_shape(const char *spec, const char *text, int64_t *shape,
            uint32_t *out_ndim, enum bell_dtype *out_dtype)
{
    uint32_t ndim = 0;
    char *end;

    while (isdigit((unsigned char)*text)) {
        if (ndim == BELL_MAX_RANK)
            return bell_fail(BELL_E_INVALID, "--in %s: more than %d axes", spec,
                             BELL_MAX_RANK);
        shape[ndim++] = strtoll(text, &end, 10);
        text = *end == 'x' ? end + 1 : end;
    }
    *out_ndim = ndim;
    *out_dtype = BELL_FLOAT32;
    if (*text == ':')
        *out_dtype = bell_dtype_find(text + 1);
    else if (*text)
        return bell_fail(BELL_E_INVALID, "--in %s: not name=2x3:float32", spec);
    if (*out_dtype == BELL_DEFAULT)
        return bell_fail(BELL_E_INVALID, "--in %s: no dtype '%s'", spec,
                         text + 1);
    return BELL_OK;
}

bell_status
tool_make_input(struct bell_context *ctx, const char *spec, bool has_values,
                char *name, struct eval_input *out_input)
{
    const char *equals = strchr(spec, '=');
    int64_t shape[BELL_MAX_RANK];
    struct bell_tensor *t;
    enum bell_dtype dtype;
    uint32_t ndim;

    if (!equals || equals == spec || (size_t)(equals - spec) >= TOOL_INPUT_NAME)
        return bell_fail(BELL_E_INVALID, "--in %s: not name=2x3:float32", spec);
    BELL_TRY(parse_shape(spec, equals + 1, shape, &ndim, &dtype));
    memset(name, 0, TOOL_INPUT_NAME);
    memcpy(name, spec, (size_t)(equals - spec));
    if (!has_values || tensor_device_is_null(ctx))
        t = bell_empty(ctx, shape, ndim, dtype);
    else if (dtype >= BELL_FLOAT16)
        t = bell_rand(ctx, shape, ndim, dtype);
    else
        t = bell_cast(bell_randint(ctx, 0, 10, shape, ndim, BELL_INT64), dtype);
    *out_input = (struct eval_input){name, t};
    return bell_realize1(t);
}
