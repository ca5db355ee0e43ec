/* libFuzzer target: ONNX models. Whatever the bytes, opening ends in an error
 * that says why or in a model, and calling it with ones in an error or in
 * outputs; they are not computed. */
#include <stdint.h>
#include <stdlib.h>

#include "doorbell/onnx.h"
#include "tests/fuzz/fuzz.h"

#define MAX_VALUES 8
#define MAX_ELEMS  4096

/* Ones of the input's dtype, sizes that the model does not say being 2; NULL:
 * it has no such tensor, or a large one. */
static struct bell_tensor *
make_input(struct bell_context *ctx, const struct bell_onnx_value *v)
{
    int64_t shape[BELL_MAX_RANK], n = 1;
    uint32_t i;

    if (v->dtype == BELL_DEFAULT)
        return NULL;
    for (i = 0; i < v->ndim; i++) {
        shape[i] = v->dims[i].size >= 0 ? v->dims[i].size : 2;
        if (shape[i] > MAX_ELEMS || (n *= shape[i]) > MAX_ELEMS)
            return NULL;
    }
    return bell_ones(ctx, shape, v->ndim, v->dtype);
}

static void
call_model(struct bell_context *ctx, struct bell_onnx *model)
{
    struct bell_tensor *in[MAX_VALUES], *out[MAX_VALUES];
    uint32_t n_in = bell_onnx_n_inputs(model), i;

    if (n_in > MAX_VALUES || bell_onnx_n_outputs(model) > MAX_VALUES)
        return;
    for (i = 0; i < n_in; i++) {
        in[i] = make_input(ctx, bell_onnx_input(model, i));
        if (!in[i])
            return;
    }
    if (bell_onnx_call(ctx, model, in, out) != BELL_OK &&
        !bell_error_last()->message[0])
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bell_context *ctx;
    static struct fuzz_file file;
    struct bell_onnx *model;

    if (!ctx && bell_context_create("CPU", &ctx) != BELL_OK)
        abort();
    fuzz_file_write(&file, data, size);
    if (bell_onnx_open(ctx, file.path, &model) != BELL_OK) {
        if (!bell_error_last()->message[0])
            abort();
        return 0;
    }
    fuzz_accept();
    if (bell_scope_begin(ctx) != BELL_OK)
        abort();
    call_model(ctx, model);
    (void)!bell_scope_end(ctx);
    bell_onnx_close(model);
    return 0;
}
