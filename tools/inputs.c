/* Inputs of an expression: made up or read. */
#include "tools/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/files.h"
#include "tensor/runtime/ir.h"
#include "tools/shape.h"

static bell_status
make_tensor(struct bell_context *ctx, const char *text, bool has_values,
            struct bell_tensor **out_tensor)
{
    int64_t shape[BELL_MAX_RANK];
    enum bell_dtype dtype;
    uint32_t ndim;

    BELL_TRY(tool_parse_shape(text, shape, &ndim, &dtype));
    if (!has_values || tensor_device_is_null(ctx))
        *out_tensor = bell_empty(ctx, shape, ndim, dtype);
    else if (dtype >= BELL_FLOAT16)
        *out_tensor = bell_rand(ctx, shape, ndim, dtype);
    else
        *out_tensor =
            bell_cast(bell_randint(ctx, 0, 10, shape, ndim, BELL_INT64), dtype);
    return bell_realize1(*out_tensor);
}

/* Where FILE:NAME has its colon, behind an ending of files of several tensors;
 * NULL: it is a file of one. */
static const char *
find_name(const char *path)
{
    static const char *const ends[] = {
        ".gguf:", ".onnx:", ".safetensors:", ".json:",
        ".npz:",  ".pth:",  ".pt:",          ".bin:"};
    const char *found;
    size_t i;

    for (i = 0; i < ARRAY_LEN(ends); i++) {
        found = strstr(path, ends[i]);
        if (found)
            return found + strlen(ends[i]) - 1;
    }
    return NULL;
}

/* The file's path ends before `colon`, where there is one. */
static BELL_MUST_CHECK bell_status
open_input(const char *path, const char *colon, struct bell_file **out_file)
{
    char *copy = host_strdup(path);
    bell_status status;

    if (!copy)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a path");
    if (colon)
        copy[colon - path] = '\0';
    status = bell_file_open(copy, out_file);
    host_free(copy);
    return status;
}

static BELL_MUST_CHECK bell_status
load_tensor(struct bell_context *ctx, const char *path, const char *colon,
            struct bell_tensor **out_tensor)
{
    struct bell_file *file;
    uint32_t n;

    BELL_TRY(open_input(path, colon, &file));
    n = bell_file_count(file);
    if (!colon && n != 1) {
        bell_file_close(file);
        return bell_fail(BELL_E_INVALID, "%s: has %u tensors; write FILE:NAME",
                         path, n);
    }
    *out_tensor = bell_file_tensor(ctx, file, colon ? colon + 1 : NULL);
    bell_file_close(file);
    return bell_context_status(ctx);
}

bell_status
tool_read_input(struct bell_context *ctx, const char *text, bool has_values,
                struct bell_tensor **out_tensor)
{
    if (tool_is_shape(text))
        return make_tensor(ctx, text, has_values, out_tensor);
    BELL_TRY(tool_check_file(text));
    return load_tensor(ctx, text, find_name(text), out_tensor);
}

bell_status
tool_make_input(struct bell_context *ctx, const char *spec, bool has_values,
                char *name, struct eval_input *out_input)
{
    const char *equals = strchr(spec, '=');

    if (!equals || equals == spec || (size_t)(equals - spec) >= TOOL_INPUT_NAME)
        return bell_fail(BELL_E_INVALID,
                         "--in %s: expected name=2x3:float32 or name=FILE",
                         spec);
    memset(name, 0, TOOL_INPUT_NAME);
    memcpy(name, spec, (size_t)(equals - spec));
    out_input->name = name;
    if (tool_read_input(ctx, equals + 1, has_values, &out_input->tensor) !=
        BELL_OK) {
        bell_error_prefix("--in %s", spec);
        return bell_error_last()->status;
    }
    return BELL_OK;
}
