/* Opening models, and what they are. */
#include "tensor/lm/lm_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/once.h"
#include "tensor/core/tensor_internal.h"

bool
lm_is_open(const char *call, const struct bell_lm *lm)
{
    if (lm && once_is(lm, TENSOR_IS_LM) && lm->is_open)
        return true;
    (void)!bell_fail_at(call, lm ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the model %s", call,
                        lm ? "was closed" : "is NULL");
    return false;
}

/* ---- tokenizers ---- */

/* The one beside the weights, if there is one. */
static BELL_MUST_CHECK bell_status
open_beside(const char *folder, struct bell_tokenizer **out)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    char path[4096];
    struct stat st;
    size_t i;

    for (i = 0; i < 2; i++) {
        if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) <
                (int)sizeof(path) &&
            stat(path, &st) == 0)
            return bell_tokenizer_open(path, out);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
open_tokenizer(struct bell_lm *lm, const struct lm_source *s,
               const struct bell_lm_options *options)
{
    const char *text;
    size_t n;

    if (options && options->tokenizer)
        return bell_tokenizer_open(options->tokenizer, &lm->tokenizer);
    if (s->json)
        return open_beside(s->path, &lm->tokenizer);
    if (!bell_file_str(s->file, "tokenizer.ggml.model", &text, &n))
        return BELL_OK;
    return bell_tokenizer_of_file(s->file, &lm->tokenizer);
}

/* ---- opening ---- */

static BELL_MUST_CHECK bell_status
load_model(struct bell_lm *lm, struct lm_source *s,
           const struct bell_lm_options *options)
{
    BELL_TRY(lm_config_read(s, &lm->config));
    BELL_TRY(lm_check_keys(s, &lm->config));
    BELL_TRY(open_tokenizer(lm, s, options));
    return lm_weights_load(lm->ctx, s, &lm->config, &lm->weights);
}

bell_status
bell_lm_open(struct bell_context *ctx, const char *path,
             const struct bell_lm_options *options, struct bell_lm **out_lm)
{
    struct lm_source source = {0};
    struct bell_lm *lm;
    bell_status status;

    if (!path || !out_lm)
        return bell_fail(BELL_BAD_MISSING, "bell_lm_open: %s is NULL",
                         path ? "the result" : "the path");
    *out_lm = NULL;
    if (options && options->struct_size < sizeof(*options))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_open: the options' struct_size is %u, "
                         "expected at least %zu",
                         options->struct_size, sizeof(*options));
    if (!tensor_context_check(__func__, ctx))
        return bell_error_last()->status;
    lm = once_alloc(sizeof(*lm), TENSOR_IS_LM, ctx);
    if (!lm)
        return bell_fail(BELL_E_NO_MEMORY, "bell_lm_open: out of memory");
    lm->is_open = true;
    lm->ctx = ctx;
    status = lm_source_open(path, &source);
    if (status == BELL_OK)
        status = load_model(lm, &source, options);
    lm_source_close(&source);
    if (status != BELL_OK) {
        bell_lm_close(lm);
        bell_error_frame(__func__);
        return status;
    }
    *out_lm = lm;
    return BELL_OK;
}

void
bell_lm_close(struct bell_lm *lm)
{
    if (!lm || !lm_is_open(__func__, lm))
        return;
    lm_weights_fini(&lm->weights, lm->config.n_layers);
    lm_config_fini(&lm->config);
    bell_tokenizer_close(lm->tokenizer);
    once_end(lm, sizeof(*lm));
}

/* ---- facts ---- */

void
bell_lm_get_info(const struct bell_lm *lm, struct bell_lm_info *out_info)
{
    struct bell_lm_info info = {0};
    uint32_t size;

    if (!out_info)
        return;
    size = out_info->struct_size;
    if (lm_is_open(__func__, lm)) {
        const struct lm_config *c = &lm->config;

        info = (struct bell_lm_info){
            .n_layers = (uint32_t)c->n_layers,
            .family = c->from_json || !c->family->gguf ? c->family->hf
                                                       : c->family->gguf,
            .n_tokens = c->n_tokens,
            .context = c->context,
            .size = c->dim,
            .n_heads = (uint32_t)c->n_heads,
            .n_kv_heads = (uint32_t)c->n_kv,
            .n_experts = (uint32_t)c->n_experts,
            .n_used_experts = (uint32_t)c->n_used,
            .token_bytes = lm->weights.token_bytes,
        };
    }
    if (size > sizeof(info))
        size = sizeof(info);
    info.struct_size = out_info->struct_size;
    memcpy(out_info, &info, size);
}

const struct bell_tokenizer *
bell_lm_tokenizer(const struct bell_lm *lm)
{
    return lm_is_open(__func__, lm) ? lm->tokenizer : NULL;
}
