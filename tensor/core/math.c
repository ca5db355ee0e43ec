/* Exact and approximate math: words, and what a context allows. */
#include "tensor/core/tensor_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/env.h"

static const struct {
    const char *word;
    uint32_t bit; /* of enum bell_math */
} words[] = {
    {"exact", BELL_MATH_EXACT},
    {"tf32", BELL_MATH_TF32},
    {"approx", BELL_MATH_APPROX},
};

#define ALL_MATH ((uint32_t)(BELL_MATH_TF32 | BELL_MATH_APPROX))

/* The row of the first `len` bytes of `text`; ARRAY_LEN(words): none. */
static size_t
find_math_word(const char *text, size_t len)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(words); i++) {
        if (strlen(words[i].word) == len &&
            memcmp(words[i].word, text, len) == 0)
            break;
    }
    return i;
}

bell_status
bell_math_parse(const char *text, uint32_t *out_math)
{
    uint32_t math = 0;
    bool is_exact = false;
    size_t len, i;

    if (!text || !out_math)
        return bell_fail(BELL_BAD_MISSING, "bell_math_parse: %s is NULL",
                         text ? "the result" : "the text");
    for (;; text += len + 1) {
        len = strcspn(text, ",");
        i = find_math_word(text, len);
        if (i == ARRAY_LEN(words))
            return bell_fail(
                BELL_BAD_NAME,
                "unknown word '%.*s'; known: exact, tf32, approx; or "
                "tf32,approx",
                len < 40 ? (int)len : 40, text);
        math |= words[i].bit;
        is_exact |= words[i].bit == BELL_MATH_EXACT;
        if (!text[len])
            break;
    }
    if (is_exact && math)
        return bell_fail(BELL_BAD_VALUE,
                         "math that is exact is neither tf32 nor approx");
    *out_math = math;
    return BELL_OK;
}

bell_status
tensor_math_init(struct bell_context *ctx)
{
    const char *text = env_get("BELL_MATH");

    if (!text || !*text)
        return BELL_OK;
    if (bell_math_parse(text, &ctx->math) != BELL_OK) {
        bell_error_prefix("BELL_MATH");
        return BELL_E_INVALID;
    }
    return BELL_OK;
}

bell_status
bell_context_set_math(struct bell_context *ctx, uint32_t math)
{
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (math & ~ALL_MATH)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_context_set_math: 0x%x has bits besides "
                         "BELL_MATH_TF32 (0x%x) and BELL_MATH_APPROX (0x%x)",
                         math, (unsigned)BELL_MATH_TF32,
                         (unsigned)BELL_MATH_APPROX);
    if (math == ctx->math)
        return BELL_OK;
    BELL_TRY(tensor_device_set_math(ctx, math));
    ctx->math = math;
    return BELL_OK;
}

uint32_t
bell_context_device_math(const struct bell_context *ctx)
{
    return tensor_context_check(__func__, ctx) ? tensor_device_math(ctx) : 0;
}

uint32_t
bell_context_math(const struct bell_context *ctx)
{
    return tensor_context_check(__func__, ctx) ? ctx->math : 0;
}
