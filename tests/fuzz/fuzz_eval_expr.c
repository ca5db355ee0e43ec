/* libFuzzer target: expressions. Whatever the bytes, evaluation ends in a
 * tensor or in an error that lies within the text. Nothing is computed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/tensor.h"
#include "tools/eval/eval_expr.h"
#include "tests/fuzz/fuzz.h"

/* One context for all inputs; each has a scope of its own. */
static struct bell_context *ctx;

static void
evaluate(const char *text)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const int64_t i[] = {2, 0, 1};
    struct eval_input inputs[] = {
        {"x", bell_from_data(ctx, BELL_DIMS(2, 3), BELL_FLOAT32, x)},
        {"i", bell_from_data(ctx, BELL_DIMS(3), BELL_INT64, i)},
    };
    struct bell_tensor *t = NULL;
    size_t at = SIZE_MAX;
    bell_status status = eval_expr(ctx, text, inputs, 2, &t, &at);

    if (status == BELL_OK ? !t || bell_is_error(t) : at > strlen(text))
        abort();
    if (status == BELL_OK)
        fuzz_accept();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (!ctx && bell_context_create("CPU", &ctx) != BELL_OK)
        return 0; /* built without a compiler */
    text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (bell_scope_begin(ctx) == BELL_OK) {
        evaluate(text);
        if (bell_scope_end(ctx) != BELL_OK)
            abort(); /* every failure was reported already */
    }
    free(text);
    return 0;
}
