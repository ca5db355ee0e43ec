/* Contexts of the verbs: which device, which math. */
#include "doorbell/tensor.h"
#include "tensor/runtime/ir.h"
#include "tools/tools.h"

int
tool_check_math(bool json, const char *verb, const char *words)
{
    uint32_t math;

    if (!words || bell_math_parse(words, &math) == BELL_OK)
        return TOOL_GO_ON;
    return tool_usage(json, "%s: --math: %s", verb, bell_error_last()->message);
}

bell_status
tool_open_context(const char *device, const char *math,
                  struct bell_context **out_ctx)
{
    struct bell_context *ctx;
    bell_status status = BELL_OK;
    uint32_t bits;

    if (math)
        BELL_TRY(bell_math_parse(math, &bits));
    BELL_TRY(bell_context_create(device, &ctx));
    if (!device)
        tool_tell_passed_over(tensor_device(ctx));
    if (math)
        status = bell_context_set_math(ctx, bits);
    if (status != BELL_OK) {
        bell_context_destroy(ctx);
        return status;
    }
    *out_ctx = ctx;
    return BELL_OK;
}

const char *
tool_math_words(uint32_t math)
{
    static const char *const names[] = {"exact", "tf32", "approx",
                                        "tf32,approx"};

    return names[math & (BELL_MATH_TF32 | BELL_MATH_APPROX)];
}
