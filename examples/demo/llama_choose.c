/* The next token, from its logits. */
#include "examples/demo/llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

bell_status
llama_chooser_init(size_t n, double temperature, double top_p, uint64_t seed,
                   struct llama_chooser *out)
{
    struct llama_chooser chooser = {
        .temperature = temperature, .top_p = top_p, .rng = {seed}, .n = n};

    chooser.logits = host_calloc(n, sizeof(*chooser.logits));
    chooser.by_rank = host_calloc(n, sizeof(*chooser.by_rank));
    if (!chooser.logits || !chooser.by_rank) {
        llama_chooser_fini(&chooser);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu logits", n);
    }
    *out = chooser;
    return BELL_OK;
}

void
llama_chooser_fini(struct llama_chooser *chooser)
{
    host_free(chooser->logits);
    host_free(chooser->by_rank);
    memset(chooser, 0, sizeof(*chooser));
}

static int
by_probability(const void *a, const void *b, void *user)
{
    const float *p = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    if (p[i] != p[j])
        return p[i] > p[j] ? -1 : 1;
    return (i > j) - (i < j);
}

/* Logits become probabilities, not normalised: the greatest is 1. */
static double
exponentiate(struct llama_chooser *chooser)
{
    float *p = chooser->logits, max = p[0];
    double sum = 0;
    size_t i;

    for (i = 1; i < chooser->n; i++)
        max = fmaxf(max, p[i]);
    for (i = 0; i < chooser->n; i++) {
        p[i] = (float)exp(((double)p[i] - (double)max) / chooser->temperature);
        sum += (double)p[i];
    }
    return sum;
}

/* Draws one token by its probability from the most likely ones, at least one,
 * whose sum is top_p of all. */
static int32_t
draw(struct llama_chooser *chooser)
{
    const float *p = chooser->logits;
    uint32_t *by_rank = chooser->by_rank;
    double sum = exponentiate(chooser), kept = 0, at;
    size_t n, i;

    for (i = 0; i < chooser->n; i++)
        by_rank[i] = (uint32_t)i;
    if (chooser->top_p < 1)
        qsort_r(by_rank, chooser->n, sizeof(*by_rank), by_probability,
                chooser->logits);
    for (n = 0; n < chooser->n && (n == 0 || kept < chooser->top_p * sum); n++)
        kept += (double)p[by_rank[n]];
    at = rng_uniform(&chooser->rng) * kept;
    for (i = 0; i + 1 < n && at >= (double)p[by_rank[i]]; i++)
        at -= (double)p[by_rank[i]];
    return (int32_t)by_rank[i];
}

/* The likeliest is found on the device: one number comes back, -1 where a logit
 * is not finite. */
static BELL_MUST_CHECK bell_status
find_likeliest(struct bell_tensor *logits, int64_t *out_token)
{
    struct bell_tensor *likeliest = bell_argmax(logits, 0, false);
    struct bell_tensor *is_good =
        bell_all(bell_isfinite(logits), BELL_NO_DIMS, false);

    return bell_item_i64(
        bell_where(is_good, likeliest,
                   bell_full_like(likeliest, -1, BELL_DEFAULT)),
        out_token);
}

bell_status
llama_choose(struct llama_chooser *chooser, struct bell_tensor *logits,
             int32_t *out_token)
{
    int64_t token;
    size_t i;

    if (chooser->temperature == 0) {
        BELL_TRY(find_likeliest(logits, &token));
        *out_token = (int32_t)token;
        if (token >= 0)
            return BELL_OK;
    }
    BELL_TRY(bell_read(logits, chooser->logits,
                       chooser->n * sizeof(*chooser->logits)));
    for (i = 0; i < chooser->n; i++) {
        if (!isfinite(chooser->logits[i]))
            return bell_fail(BELL_E_IO,
                             "the model gives token %zu the "
                             "logit %g: its weights are damaged",
                             i, (double)chooser->logits[i]);
    }
    *out_token = draw(chooser);
    return BELL_OK;
}
