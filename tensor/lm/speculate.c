/* Several tokens in a run: a smaller model proposes, the model checks them
 * together.
 *
 * src: "Fast Inference from Transformers via Speculative Decoding" (2022), for
 * likeliest tokens.
 */
#include "tensor/lm/session.h"

#include <string.h>

#include "base/alloc.h"

/* Feeds the sequence with what is to be checked: the token that is known to
 * follow, and n that the draft thinks likeliest behind it. */
static BELL_MUST_CHECK bell_status
propose(struct bell_lm_session *s, struct bell_lm_session *draft,
        uint32_t sequence, uint32_t n)
{
    struct lm_sequence *q = &s->sequences[sequence];
    int32_t token;
    uint32_t i;

    BELL_TRY(bell_lm_choose(s, sequence, NULL, &token));
    BELL_TRY(bell_lm_feed(s, sequence, &token, 1));
    BELL_TRY(bell_lm_feed_text(draft, sequence, q->tokens, q->n, NULL));
    for (i = 0; i < n; i++) {
        BELL_TRY(bell_lm_run(draft));
        BELL_TRY(bell_lm_choose(draft, sequence, NULL, &token));
        BELL_TRY(bell_lm_feed(s, sequence, &token, 1));
        if (i + 1 < n)
            BELL_TRY(bell_lm_feed(draft, sequence, &token, 1));
    }
    return BELL_OK;
}

/* Computes the n tokens from `from` on, and keeps those that the model itself
 * would have chosen. */
static BELL_MUST_CHECK bell_status
verify(struct bell_lm_session *s, uint32_t sequence, size_t from, size_t n,
       int32_t *likeliest)
{
    struct lm_sequence *q = &s->sequences[sequence];
    struct bell_tensor *results[3];
    size_t n_kept = 1;

    BELL_TRY(lm_session_run_all(s, sequence, likeliest, results));
    while (n_kept < n && q->tokens[from + n_kept] == likeliest[n_kept - 1])
        n_kept++;
    BELL_TRY(bell_lm_rewind(s, sequence, from + n_kept));
    lm_session_take(s, sequence, results, (int64_t)n_kept - 1);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_pair(const struct bell_lm_session *s, const struct bell_lm_session *draft,
           uint32_t sequence, uint32_t n_draft)
{
    uint32_t k;

    if (draft == s || draft->lm->config.n_tokens != s->lm->config.n_tokens ||
        draft->ctx != s->ctx || draft->n_sequences != s->n_sequences)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_speculate: the draft has %lld tokens and %u "
                         "sequences, the session %lld and %u; it must be "
                         "another session, these must be equal, and the "
                         "context must be one",
                         (long long)draft->lm->config.n_tokens,
                         draft->n_sequences, (long long)s->lm->config.n_tokens,
                         s->n_sequences);
    if (n_draft < 1 || n_draft >= s->chunk)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_speculate: %u tokens of a draft; expected 1 "
                         "to %lld",
                         n_draft, (long long)s->chunk - 1);
    for (k = 0; k < s->n_sequences; k++) {
        if (k != sequence && s->sequences[k].n != s->sequences[k].n_done)
            return bell_fail(BELL_BAD_STATE,
                             "bell_lm_speculate: sequence %u was fed; "
                             "bell_lm_run comes first",
                             k);
    }
    return BELL_OK;
}

/* Without what was proposed, should that fail half way. */
static BELL_MUST_CHECK bell_status
speculate(struct bell_lm_session *s, struct bell_lm_session *draft,
          uint32_t sequence, uint32_t n_draft, int32_t *likeliest)
{
    struct lm_sequence *q = &s->sequences[sequence];
    size_t from = q->n;
    bell_status status;

    BELL_TRY(bell_scope_begin(s->ctx));
    status = propose(s, draft, sequence, n_draft);
    if (status == BELL_OK)
        status = verify(s, sequence, from, (size_t)n_draft + 1, likeliest);
    if (status != BELL_OK && q->n_done <= from)
        q->n = from;
    if (status != BELL_OK) {
        bell_scope_end(s->ctx);
        return status;
    }
    return bell_scope_end(s->ctx);
}

bell_status
bell_lm_speculate(struct bell_lm_session *session,
                  struct bell_lm_session *draft, uint32_t sequence,
                  uint32_t n_draft, int32_t *out_tokens, size_t *out_n)
{
    struct lm_sequence *q;
    int32_t *likeliest;
    bell_status status;
    size_t from;

    BELL_TRY(lm_session_find(__func__, session, sequence, &q));
    if (!lm_session_is_live(__func__, draft))
        return bell_error_last()->status;
    if (!out_tokens || !out_n)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_lm_speculate: a result is NULL");
    BELL_TRY(check_pair(session, draft, sequence, n_draft));
    from = q->n;
    likeliest = host_calloc((size_t)n_draft + 1, sizeof(*likeliest));
    if (!likeliest)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u tokens",
                         n_draft);
    status = speculate(session, draft, sequence, n_draft, likeliest);
    host_free(likeliest);
    BELL_TRY(status);
    *out_n = q->n - from;
    memcpy(out_tokens, q->tokens + from, *out_n * sizeof(*out_tokens));
    return BELL_OK;
}
