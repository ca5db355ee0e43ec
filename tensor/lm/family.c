/* The families of models that are known. tests/lm/compare.py holds each to its
 * makers' code. src: docs/gguf.md of the ggml project, for names of
 * architectures.
 */
#include "tensor/lm/lm_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"

static const struct lm_family families[] = {
    {.gguf = "llama",
     .hf = "llama",
     .flags = LM_NEIGHBOURS | LM_WINDOW | LM_RENORMALIZE,
     .rope_base = 10000},
    {.gguf = NULL, .hf = "mistral", .flags = LM_WINDOW, .rope_base = 10000},
    {.gguf = NULL,
     .hf = "mixtral",
     .flags = LM_WINDOW | LM_EXPERTS | LM_RENORMALIZE,
     .rope_base = 1000000},
    {.gguf = "qwen2", .hf = "qwen2", .rope_base = 10000},
    {.gguf = "qwen3", .hf = "qwen3", .flags = LM_QK_NORM, .rope_base = 10000},
    {.gguf = "qwen3moe",
     .hf = "qwen3_moe",
     .flags = LM_QK_NORM | LM_EXPERTS,
     .rope_base = 10000},
    {.gguf = "gemma",
     .hf = "gemma",
     .flags = LM_NORM_PLUS_ONE | LM_SCALE_EMBED | LM_TIED,
     .act = LM_GELU_TANH,
     .rope_base = 10000},
    {.gguf = "gemma2",
     .hf = "gemma2",
     .flags =
         LM_NORM_PLUS_ONE | LM_SCALE_EMBED | LM_SANDWICH | LM_WINDOW | LM_TIED,
     .act = LM_GELU_TANH,
     .period = 2,
     .rope_base = 10000,
     .n_layers_by_width = 46},
    {.gguf = "gemma3",
     .hf = "gemma3_text",
     .flags = LM_NORM_PLUS_ONE | LM_SCALE_EMBED | LM_SANDWICH | LM_QK_NORM |
              LM_WINDOW | LM_TIED,
     .act = LM_GELU_TANH,
     .period = 6,
     .rope_base = 1000000,
     .rope_local_base = 10000,
     .n_layers_by_width = 62},
    {.gguf = "phi3",
     .hf = "phi3",
     .flags = LM_FUSED | LM_WINDOW,
     .rope_base = 10000},
    {.gguf = "olmo2",
     .hf = "olmo2",
     .flags = LM_POST_NORM | LM_QK_NORM_ALL,
     .rope_base = 10000},
    {.gguf = "granite",
     .hf = "granite",
     .flags = LM_NEIGHBOURS | LM_SCALES,
     .rope_base = 10000},
    {.gguf = "gpt-oss",
     .hf = "gpt_oss",
     .flags =
         LM_SINKS | LM_EXPERTS | LM_CLAMPED_GLU | LM_WINDOW | LM_RENORMALIZE,
     .period = 2,
     .rope_base = 150000},
};

const struct lm_family *
lm_family_gguf(const char *name, size_t n_bytes)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(families); i++) {
        if (families[i].gguf && strlen(families[i].gguf) == n_bytes &&
            memcmp(families[i].gguf, name, n_bytes) == 0)
            return &families[i];
    }
    return NULL;
}

const struct lm_family *
lm_family_hf(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(families); i++) {
        if (families[i].hf && strcmp(families[i].hf, name) == 0)
            return &families[i];
    }
    return NULL;
}

void
lm_family_names(bool is_gguf, char *text, size_t size_bytes)
{
    size_t i, at = 0;

    text[0] = '\0';
    for (i = 0; i < ARRAY_LEN(families) && at < size_bytes; i++) {
        const char *name = is_gguf ? families[i].gguf : families[i].hf;

        if (name)
            at += (size_t)snprintf(text + at, size_bytes - at, "%s%s",
                                   at ? ", " : "", name);
    }
}
