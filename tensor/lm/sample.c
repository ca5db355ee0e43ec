/* The choice of a token by its logits. */
#include "tensor/lm/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A number in [0, 1), by splitmix64. */
static double
next_uniform(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static BELL_MUST_CHECK bell_status
check_sampling(const struct bell_lm_sampling *p)
{
    if (p->struct_size < sizeof(*p))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_choose: struct_size is %u, expected at least "
                         "%zu",
                         p->struct_size, sizeof(*p));
    if (!(p->temperature >= 0) || !(p->top_p >= 0 && p->top_p <= 1) ||
        !(p->min_p >= 0 && p->min_p <= 1) || !(p->repetition_penalty >= 0) ||
        isinf(p->temperature) || isinf(p->repetition_penalty))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_choose: temperature %g, top_p %g, min_p %g, "
                         "repetition_penalty %g; expected numbers from 0, and "
                         "up to 1 for top_p and min_p",
                         p->temperature, p->top_p, p->min_p,
                         p->repetition_penalty);
    return BELL_OK;
}

/* Each token once, however often it occurs. */
static void
punish(float *scores, const struct lm_sequence *q, const float *logits,
       const struct bell_lm_sampling *p)
{
    size_t begin =
        p->penalty_last && p->penalty_last < q->n ? q->n - p->penalty_last : 0;
    float penalty = (float)p->repetition_penalty;
    size_t i;

    for (i = begin; i < q->n; i++) {
        float x = logits[q->tokens[i]];

        scores[q->tokens[i]] = x > 0 ? x / penalty : x * penalty;
    }
}

static int
by_score(const void *a, const void *b, void *user)
{
    const float *p = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    if (p[i] != p[j])
        return p[i] > p[j] ? -1 : 1;
    return (i > j) - (i < j);
}

/* Draws one of the n tokens by_rank, whose weights are exponentials; they are
 * cut behind those that the bounds allow. */
static int32_t
draw(struct bell_lm_session *s, struct lm_sequence *q, size_t n,
     const struct bell_lm_sampling *p)
{
    const uint32_t *by_rank = s->by_rank;
    double most = (double)s->scores[by_rank[0]], sum = 0, kept = 0, at;
    size_t i, n_kept;

    if (p->top_k && p->top_k < n)
        n = p->top_k;
    for (i = 0; i < n; i++) {
        float *x = &s->scores[by_rank[i]];

        *x = (float)exp(((double)*x - most) / p->temperature);
        sum += (double)*x;
    }
    for (n_kept = 0; n_kept < n; n_kept++) {
        double x = (double)s->scores[by_rank[n_kept]];

        if (n_kept > 0 &&
            ((p->top_p > 0 && p->top_p < 1 && kept >= p->top_p * sum) ||
             x < p->min_p))
            break;
        kept += x;
    }
    at = next_uniform(&q->random) * kept;
    for (i = 0; i + 1 < n_kept && at >= (double)s->scores[by_rank[i]]; i++)
        at -= (double)s->scores[by_rank[i]];
    return (int32_t)by_rank[i];
}

static BELL_MUST_CHECK bell_status
check_finite(const float *logits, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return bell_fail(BELL_E_IO,
                             "the model gives token %zu the logit %g: its "
                             "weights are damaged",
                             i, (double)logits[i]);
    }
    return BELL_OK;
}

/* The tokens that may be chosen, in any order. */
static size_t
list_allowed(struct bell_lm_session *s, size_t n, const uint8_t *allowed)
{
    size_t i, n_allowed = 0;

    for (i = 0; i < n; i++) {
        if (!allowed || allowed[i / 8] >> (i % 8) & 1)
            s->by_rank[n_allowed++] = (uint32_t)i;
    }
    return n_allowed;
}

bell_status
bell_lm_choose(struct bell_lm_session *session, uint32_t sequence,
               const struct bell_lm_sampling *sampling, int32_t *out_token)
{
    static const struct bell_lm_sampling likeliest = {sizeof(likeliest),
                                                      .temperature = 0};
    const struct bell_lm_sampling *p = sampling ? sampling : &likeliest;
    struct bell_lm_session *s = session;
    struct lm_sequence *q;
    const float *logits;
    size_t n, i;
    bool punishes;

    BELL_TRY(lm_session_find(__func__, s, sequence, &q));
    if (!out_token)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_lm_choose: the result is NULL");
    BELL_TRY(check_sampling(p));
    n = (size_t)s->lm->config.n_tokens;
    punishes = p->repetition_penalty > 0 && p->repetition_penalty != 1;
    if (p->temperature == 0 && !punishes && !p->allowed) {
        int32_t token;

        BELL_TRY(lm_session_likeliest(s, sequence, &token));
        if (token >= 0) {
            *out_token = token;
            return BELL_OK;
        }
    }
    BELL_TRY(lm_session_read(s, sequence, &logits));
    BELL_TRY(check_finite(logits, n));
    memcpy(s->scores, logits, n * sizeof(*s->scores));
    if (punishes)
        punish(s->scores, q, logits, p);
    n = list_allowed(s, n, p->allowed);
    if (n == 0)
        return bell_fail(BELL_BAD_VALUE, "bell_lm_choose: no token is allowed");
    if (p->temperature == 0) {
        uint32_t best = s->by_rank[0];

        for (i = 1; i < n; i++) {
            if (s->scores[s->by_rank[i]] > s->scores[best])
                best = s->by_rank[i];
        }
        *out_token = (int32_t)best;
        return BELL_OK;
    }
    qsort_r(s->by_rank, n, sizeof(*s->by_rank), by_score, s->scores);
    *out_token = draw(s, q, n, p);
    return BELL_OK;
}

bell_status
bell_lm_seed(struct bell_lm_session *session, uint32_t sequence, uint64_t seed)
{
    if (!lm_session_is_live(__func__, session))
        return bell_error_last()->status;
    if (sequence >= session->n_sequences)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_seed: sequence %u; the session has %u",
                         sequence, session->n_sequences);
    session->sequences[sequence].random = seed;
    return BELL_OK;
}
