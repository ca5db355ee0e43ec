/* Sequences of tokens, and the cache of what the model made of them.
 *
 * A run writes the same slots for all sequences, so that the cache is written
 * and read as one slice whose place is a symbol. Where a sequence has fewer
 * tokens than the longest, its first slots of the run are gaps: which token a
 * slot has is in `places`, and gaps are masked.
 */
#include "tensor/lm/session.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/once.h"
#include "tensor/core/tensor_internal.h"

#define CONTEXT_MAX ((int64_t)1 << 20)
#define CHUNK_MAX   ((int64_t)1 << 16)
#define CHUNK       128

bool
lm_session_is_live(const char *call, const struct bell_lm_session *session)
{
    if (session && once_is(session, TENSOR_IS_LM_SESSION) && session->is_live)
        return lm_is_open(call, session->lm);
    (void)!bell_fail_at(call, session ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the session %s", call,
                        session ? "was destroyed" : "is NULL");
    return false;
}

/* ---- the captured function ---- */

/* in[]: tokens and places (sequences, n); out[]: logits (sequences, m, tokens),
 * the likeliest token of each, -1 where a logit is not finite, and the hidden
 * states. m: 1, the last. */
static bell_status
run_step_of(struct bell_lm_session *s, bool all, struct bell_tensor *const *in,
            struct bell_tensor **out)
{
    struct bell_tensor *likeliest, *is_good;

    BELL_TRY(lm_decode(s->lm, &s->cache, s->past_dim, in[0], in[1], all,
                       &out[0], &out[2]));
    likeliest = bell_cast(bell_argmax(out[0], 2, false), BELL_INT32);
    is_good = bell_all(bell_isfinite(out[0]), BELL_DIMS(2), false);
    out[1] = bell_where(is_good, likeliest,
                        bell_full_like(likeliest, -1, BELL_DEFAULT));
    return bell_context_status(s->ctx);
}

static bell_status
run_step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    (void)ctx;
    return run_step_of(user, false, in, out);
}

/* The same of all tokens. */
static bell_status
run_step_all(struct bell_context *ctx, void *user,
             struct bell_tensor *const *in, struct bell_tensor **out)
{
    (void)ctx;
    return run_step_of(user, true, in, out);
}

static BELL_MUST_CHECK bell_status
make_lm_jit(struct bell_lm_session *s, int which)
{
    static const char *const names[] = {"token", "chunk", "all"};
    const struct bell_jit_desc desc = {
        .struct_size = sizeof(desc),
        .name = names[which],
        .fn = which == 2 ? run_step_all : run_step,
        .user = s,
        .n_in = 2,
        .n_out = 3,
    };

    return s->jit[which] ? BELL_OK
                         : bell_jit_create(s->ctx, &desc, &s->jit[which]);
}

/* ---- making one ---- */

/* A symbol of the context with that name and those bounds: there are few, so
 * sessions of one size share them. Each run sets them. */
static struct bell_dim
find_lm_symbol(struct bell_context *ctx, const char *name, int64_t min,
               int64_t max)
{
    const struct dim_table *dims = ctx->dims;
    uint32_t i;

    for (i = 0; i < dims->n_symbols; i++) {
        const struct dim_symbol *x = &dims->symbols[i];

        if (x->min == min && x->max == max && strcmp(x->name, name) == 0)
            return bell_dim_of(x->dim);
    }
    return bell_symbol(ctx, name, min, max);
}

static BELL_MUST_CHECK bell_status
find_symbols(struct bell_lm_session *s)
{
    s->past_dim = find_lm_symbol(s->ctx, "lm.past", 0, s->context);
    s->n_dim = find_lm_symbol(s->ctx, "lm.chunk", 2, s->chunk);
    return bell_context_status(s->ctx);
}

static BELL_MUST_CHECK bell_status
make_rates(struct bell_lm_session *s)
{
    const struct lm_config *c = &s->lm->config;
    int64_t n = c->rope_dims / 2;
    float *rates = host_calloc((size_t)n, sizeof(*rates));
    bool is_long = (double)s->context > c->rope.original;
    int i, n_kinds = memcmp(&c->rope, &c->rope_local, sizeof(c->rope)) ? 2 : 1;

    if (!rates)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld pairs",
                         (long long)n);
    for (i = 0; i < n_kinds; i++) {
        lm_rope_rates(c, i == 1, is_long, rates, &s->cache.rope_factor[i]);
        s->cache.rates[i] = bell_keep_forever(
            bell_from_data(s->ctx, BELL_DIMS(n), BELL_FLOAT32, rates));
    }
    if (n_kinds == 1)
        s->cache.rates[1] = s->cache.rates[0];
    host_free(rates);
    return bell_context_status(s->ctx);
}

static BELL_MUST_CHECK bell_status
make_cache(struct bell_lm_session *s)
{
    const struct lm_config *c = &s->lm->config;
    size_t n_layers = (size_t)c->n_layers;
    int64_t n_slots = s->context + s->chunk, b = s->n_sequences, i;
    struct lm_cache *cache = &s->cache;

    cache->k = host_calloc(n_layers, sizeof(*cache->k));
    cache->v = host_calloc(n_layers, sizeof(*cache->v));
    if (!cache->k || !cache->v)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu layers",
                         n_layers);
    /* Equal values share memory until one is written, so each is realized
     * before the next is made. */
    for (i = 0; i < c->n_layers; i++) {
        const int64_t shape[] = {b, c->n_kv, n_slots, c->head};

        cache->k[i] =
            bell_keep_forever(bell_zeros(s->ctx, shape, 4, BELL_FLOAT32));
        BELL_TRY(bell_realize1(cache->k[i]));
        cache->v[i] =
            bell_keep_forever(bell_zeros(s->ctx, shape, 4, BELL_FLOAT32));
        BELL_TRY(bell_realize1(cache->v[i]));
    }
    cache->places = bell_keep_forever(
        bell_from_data(s->ctx, BELL_DIMS(b, n_slots), BELL_INT32, s->places));
    BELL_TRY(make_rates(s));
    return bell_realize1(cache->places);
}

static BELL_MUST_CHECK bell_status
make_room(struct bell_lm_session *s)
{
    size_t n = s->n_sequences, n_tokens = (size_t)s->lm->config.n_tokens;
    size_t n_places = n * (size_t)(s->context + s->chunk);

    s->sequences = host_calloc(n, sizeof(*s->sequences));
    s->places = host_calloc(n_places, sizeof(*s->places));
    s->host_logits = host_calloc(n * n_tokens, sizeof(*s->host_logits));
    s->host_likeliest = host_calloc(n, sizeof(*s->host_likeliest));
    s->by_rank = host_calloc(n_tokens, sizeof(*s->by_rank));
    s->scores = host_calloc(n_tokens, sizeof(*s->scores));
    if (!s->sequences || !s->places || !s->host_logits || !s->host_likeliest ||
        !s->by_rank || !s->scores)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for %zu sequences of %lld tokens", n,
                         (long long)s->context);
    memset(s->places, -1, n_places * sizeof(*s->places));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_session_desc(const struct bell_lm_session_desc *desc)
{
    if (desc && desc->struct_size < sizeof(*desc))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_session_create: struct_size is %u, expected "
                         "at least %zu",
                         desc->struct_size, sizeof(*desc));
    if (desc && (desc->context < 0 || desc->context > CONTEXT_MAX ||
                 desc->chunk < 0 || desc->chunk == 1 ||
                 desc->chunk > CHUNK_MAX || desc->n_sequences > 65536))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_session_create: %u sequences, a context of "
                         "%lld and chunks of %lld; at most 65536, 2^20 and "
                         "2^16 are supported, and chunks are of 2 at least",
                         desc->n_sequences, (long long)desc->context,
                         (long long)desc->chunk);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
begin_session(struct bell_lm_session *s)
{
    bell_status status, ended;

    BELL_TRY(find_symbols(s));
    BELL_TRY(make_room(s));
    BELL_TRY(bell_scope_begin(s->ctx));
    status = make_cache(s);
    ended = bell_scope_end(s->ctx);
    BELL_TRY(status);
    BELL_TRY(ended);
    BELL_TRY(make_lm_jit(s, 0));
    return make_lm_jit(s, 1);
}

bell_status
bell_lm_session_create(struct bell_lm *lm,
                       const struct bell_lm_session_desc *desc,
                       struct bell_lm_session **out_session)
{
    struct bell_lm_session *s;
    bell_status status;
    int64_t context;

    if (!out_session)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_lm_session_create: the result is NULL");
    *out_session = NULL;
    if (!lm_is_open(__func__, lm))
        return bell_error_last()->status;
    BELL_TRY(check_session_desc(desc));
    s = once_alloc(sizeof(*s), TENSOR_IS_LM_SESSION, lm->ctx);
    if (!s)
        return bell_fail(BELL_E_NO_MEMORY,
                         "bell_lm_session_create: out of memory");
    s->is_live = true;
    s->lm = lm;
    s->ctx = lm->ctx;
    s->n_layers = lm->config.n_layers;
    s->n_sequences = desc && desc->n_sequences ? desc->n_sequences : 1;
    context = desc && desc->context ? desc->context : lm->config.context;
    s->context = context < CONTEXT_MAX ? context : CONTEXT_MAX;
    s->chunk = desc && desc->chunk ? desc->chunk : CHUNK;
    if (s->context + s->chunk > CONTEXT_MAX)
        s->context = CONTEXT_MAX - s->chunk;
    status = begin_session(s);
    if (status != BELL_OK) {
        bell_lm_session_destroy(s);
        bell_error_frame(__func__);
        return status;
    }
    *out_session = s;
    return BELL_OK;
}

void
bell_lm_session_destroy(struct bell_lm_session *s)
{
    int64_t i;
    uint32_t k;

    if (!s)
        return;
    if (!once_is(s, TENSOR_IS_LM_SESSION) || !s->is_live) {
        (void)!bell_fail(BELL_BAD_STATE,
                         "bell_lm_session_destroy: the session was destroyed");
        return;
    }
    bell_jit_destroy(s->jit[0]);
    bell_jit_destroy(s->jit[1]);
    bell_jit_destroy(s->jit[2]);
    for (i = 0; s->cache.k && s->cache.v && i < s->n_layers; i++) {
        bell_tensor_release(s->cache.k[i]);
        bell_tensor_release(s->cache.v[i]);
    }
    host_free(s->cache.k);
    host_free(s->cache.v);
    bell_tensor_release(s->cache.places);
    bell_tensor_release(s->cache.rates[0]);
    if (s->cache.rates[1] != s->cache.rates[0])
        bell_tensor_release(s->cache.rates[1]);
    bell_tensor_release(s->logits);
    bell_tensor_release(s->likeliest);
    bell_tensor_release(s->hidden);
    for (k = 0; s->sequences && k < s->n_sequences; k++)
        host_free(s->sequences[k].tokens);
    host_free(s->sequences);
    host_free(s->places);
    host_free(s->host_logits);
    host_free(s->host_likeliest);
    host_free(s->by_rank);
    host_free(s->scores);
    once_end(s, sizeof(*s));
}

/* ---- feeding ---- */

static BELL_MUST_CHECK bell_status
find_sequence(const char *call, struct bell_lm_session *s, uint32_t i,
              struct lm_sequence **out)
{
    if (!lm_session_is_live(call, s))
        return bell_error_last()->status;
    if (i >= s->n_sequences)
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: sequence %u; the session has %u", call, i,
                            s->n_sequences);
    *out = &s->sequences[i];
    return BELL_OK;
}

bell_status
bell_lm_feed(struct bell_lm_session *session, uint32_t sequence,
             const int32_t *tokens, size_t n)
{
    struct lm_sequence *q;
    size_t i;

    BELL_TRY(find_sequence(__func__, session, sequence, &q));
    if (n > 0 && !tokens)
        return bell_fail(BELL_BAD_MISSING, "bell_lm_feed: tokens is NULL");
    if (n > (size_t)session->context || q->n + n > (size_t)session->context)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_feed: %zu tokens behind %zu; the session's "
                         "context has %lld",
                         n, q->n, (long long)session->context);
    for (i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= session->lm->config.n_tokens)
            return bell_fail(
                BELL_BAD_VALUE, "bell_lm_feed: token %d; the model has %lld",
                (int)tokens[i], (long long)session->lm->config.n_tokens);
    }
    if (host_grow((void **)&q->tokens, &q->cap, q->n + n + 1,
                  sizeof(*q->tokens)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu tokens",
                         q->n + n);
    if (n > 0)
        memcpy(q->tokens + q->n, tokens, n * sizeof(*tokens));
    q->n += n;
    return BELL_OK;
}

size_t
bell_lm_length(const struct bell_lm_session *session, uint32_t sequence)
{
    struct lm_sequence *q;

    if (find_sequence(__func__, (struct bell_lm_session *)(uintptr_t)session,
                      sequence, &q) != BELL_OK)
        return 0;
    return q->n;
}

/* ---- running ---- */

/* Tokens and places of `n` slots, of which the sequences have the last ones of
 * `left` that are to come. */
static void
fill_chunk(const struct bell_lm_session *s, size_t left, size_t n,
           int32_t *tokens, int32_t *places)
{
    const struct lm_sequence *q;
    size_t i, k;

    for (k = 0; k < s->n_sequences; k++) {
        size_t waiting, gap;

        q = &s->sequences[k];
        waiting = q->n - q->n_done;
        gap = left > waiting ? left - waiting : 0;
        for (i = 0; i < n; i++) {
            bool is_gap = i < gap;
            size_t at = q->n_done + i - gap;

            tokens[k * n + i] = is_gap ? 0 : q->tokens[at];
            places[k * n + i] = is_gap ? -1 : (int32_t)at;
        }
    }
}

/* What the host knows of the slots, and how far the sequences are. */
static void
note_chunk(struct bell_lm_session *s, size_t left, size_t n,
           const int32_t *places)
{
    size_t n_slots = (size_t)(s->context + s->chunk), k, waiting, gap;

    for (k = 0; k < s->n_sequences; k++) {
        struct lm_sequence *q = &s->sequences[k];

        memcpy(s->places + k * n_slots + (size_t)s->past, places + k * n,
               n * sizeof(*places));
        waiting = q->n - q->n_done;
        gap = left > waiting ? left - waiting : 0;
        q->n_done += gap < n ? n - gap : 0;
        q->has_logits = gap < n;
    }
    s->past += (int64_t)n;
}

/* out[]: results of a jit; those of token i stay. */
static void
keep_results(struct bell_lm_session *s, struct bell_tensor **out, int64_t i)
{
    bell_tensor_release(s->logits);
    bell_tensor_release(s->likeliest);
    bell_tensor_release(s->hidden);
    s->logits = bell_keep_forever(bell_select(out[0], 1, i));
    s->likeliest = bell_keep_forever(bell_select(out[1], 1, i));
    s->hidden = bell_keep_forever(bell_select(out[2], 1, i));
    s->is_read = s->is_likeliest_read = false;
}

/* The next n of `left` slots, by one of the jits; out[] are its results. */
static BELL_MUST_CHECK bell_status
run_chunk(struct bell_lm_session *s, size_t left, size_t n, int which,
          int32_t *room, struct bell_tensor **out)
{
    size_t count = s->n_sequences * n;
    const int64_t shape[] = {s->n_sequences,
                             which ? s->n_dim.word : (int64_t)1};
    int32_t *tokens = room, *places = room + count;
    struct bell_tensor *in[2];

    fill_chunk(s, left, n, tokens, places);
    BELL_TRY(bell_symbol_set(s->ctx, s->past_dim, s->past));
    if (which)
        BELL_TRY(bell_symbol_set(s->ctx, s->n_dim, (int64_t)n));
    in[0] = bell_from_data(s->ctx, shape, 2, BELL_INT32, tokens);
    in[1] = bell_from_data(s->ctx, shape, 2, BELL_INT32, places);
    BELL_TRY(bell_jit_call(s->jit[which], in, out));
    note_chunk(s, left, n, places);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
run_chunks(struct bell_lm_session *s, size_t left)
{
    size_t n = left < (size_t)s->chunk ? left : (size_t)s->chunk;
    int32_t *room = host_calloc(2 * n * s->n_sequences, sizeof(*room));
    struct bell_tensor *out[3];
    bell_status status = BELL_OK, ended;

    if (!room)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu tokens", n);
    for (; left > 0 && status == BELL_OK; left -= n) {
        n = left < n ? left : n;
        status = bell_scope_begin(s->ctx);
        if (status != BELL_OK)
            break;
        status = run_chunk(s, left, n, n > 1, room, out);
        if (status == BELL_OK)
            keep_results(s, out, 0);
        ended = bell_scope_end(s->ctx);
        status = status == BELL_OK ? ended : status;
    }
    host_free(room);
    return status;
}

bell_status
bell_lm_run(struct bell_lm_session *s)
{
    size_t left = 0, waiting;
    uint32_t k;

    if (!lm_session_is_live(__func__, s))
        return bell_error_last()->status;
    for (k = 0; k < s->n_sequences; k++) {
        waiting = s->sequences[k].n - s->sequences[k].n_done;
        left = waiting > left ? waiting : left;
    }
    if (left == 0)
        return bell_fail(BELL_BAD_STATE, "bell_lm_run: nothing was fed");
    if ((int64_t)left > s->context - s->past)
        return bell_fail(BELL_BAD_STATE,
                         "bell_lm_run: %zu slots are needed, %lld of %lld are "
                         "free; bell_lm_rewind makes room",
                         left, (long long)(s->context - s->past),
                         (long long)s->context);
    return run_chunks(s, left);
}

bell_status
lm_session_run_all(struct bell_lm_session *s, uint32_t sequence, int32_t *out,
                   struct bell_tensor **out_results)
{
    const struct lm_sequence *q = &s->sequences[sequence];
    size_t n = q->n - q->n_done, count = s->n_sequences * n, i;
    int32_t *room = host_calloc(2 * count, sizeof(*room));
    bell_status status = BELL_OK;

    if (!room)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu tokens", n);
    if ((int64_t)n > s->context - s->past)
        status = bell_fail(
            BELL_BAD_STATE, "%zu slots are needed, %lld of %lld are free", n,
            (long long)(s->context - s->past), (long long)s->context);
    if (status == BELL_OK)
        status = make_lm_jit(s, 2);
    if (status == BELL_OK)
        status = run_chunk(s, n, n, 2, room, out_results);
    if (status == BELL_OK)
        status = bell_read(out_results[1], room, count * sizeof(*room));
    for (i = 0; status == BELL_OK && i < n; i++)
        out[i] = room[sequence * n + i];
    host_free(room);
    return status;
}

void
lm_session_take(struct bell_lm_session *s, uint32_t sequence,
                struct bell_tensor **results, int64_t i)
{
    uint32_t k;

    for (k = 0; k < s->n_sequences; k++)
        s->sequences[k].has_logits = k == sequence;
    keep_results(s, results, i);
}

/* ---- going back ---- */

/* Forgets the places of a sequence from token n on. */
static BELL_MUST_CHECK bell_status
forget_places(struct bell_lm_session *s, uint32_t sequence, size_t n)
{
    int64_t n_slots = s->context + s->chunk, used = 0, i, k;
    int32_t *own = s->places + (int64_t)sequence * n_slots;

    for (i = 0; i < s->past; i++) {
        if (own[i] >= 0 && (size_t)own[i] >= n)
            own[i] = -1;
    }
    for (k = 0; k < (int64_t)s->n_sequences; k++) {
        for (i = s->past; i > used; i--) {
            if (s->places[k * n_slots + i - 1] >= 0)
                break;
        }
        used = i > used ? i : used;
    }
    s->past = used;
    return bell_write(s->cache.places, s->places,
                      (size_t)(s->n_sequences * n_slots) * sizeof(*s->places));
}

bell_status
bell_lm_rewind(struct bell_lm_session *session, uint32_t sequence, size_t n)
{
    struct lm_sequence *q;

    BELL_TRY(find_sequence(__func__, session, sequence, &q));
    if (n > q->n)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_lm_rewind: to %zu tokens; the sequence has %zu",
                         n, q->n);
    if (n == q->n)
        return BELL_OK;
    if (n < q->n_done) {
        q->has_logits = false;
        q->n_done = n;
        BELL_TRY(forget_places(session, sequence, n));
    }
    q->n = n;
    return BELL_OK;
}

bell_status
bell_lm_feed_text(struct bell_lm_session *session, uint32_t sequence,
                  const int32_t *tokens, size_t n, size_t *out_n_reused)
{
    struct lm_sequence *q;
    size_t same = 0;

    BELL_TRY(find_sequence(__func__, session, sequence, &q));
    if (n == 0 || !tokens)
        return bell_fail(n ? BELL_BAD_MISSING : BELL_BAD_VALUE,
                         "bell_lm_feed_text: %s",
                         n ? "tokens is NULL" : "no tokens");
    while (same + 1 < n && same < q->n_done && q->tokens[same] == tokens[same])
        same++;
    BELL_TRY(bell_lm_rewind(session, sequence, same));
    BELL_TRY(bell_lm_feed(session, sequence, tokens + same, n - same));
    if (out_n_reused)
        *out_n_reused = same;
    return BELL_OK;
}

/* ---- logits ---- */

bell_status
lm_session_find(const char *call, struct bell_lm_session *s, uint32_t sequence,
                struct lm_sequence **out)
{
    BELL_TRY(find_sequence(call, s, sequence, out));
    if (!(*out)->has_logits || (*out)->n != (*out)->n_done)
        return bell_fail_at(call, BELL_BAD_STATE,
                            "%s: sequence %u has no logits: its last token "
                            "was not in the last run",
                            call, sequence);
    return BELL_OK;
}

bell_status
lm_session_read(struct bell_lm_session *s, uint32_t sequence, const float **out)
{
    size_t n = (size_t)s->lm->config.n_tokens;

    if (!s->is_read)
        BELL_TRY(bell_read(s->logits, s->host_logits,
                           s->n_sequences * n * sizeof(*s->host_logits)));
    s->is_read = true;
    *out = s->host_logits + sequence * n;
    return BELL_OK;
}

bell_status
lm_session_likeliest(struct bell_lm_session *s, uint32_t sequence, int32_t *out)
{
    if (!s->is_likeliest_read)
        BELL_TRY(bell_read(s->likeliest, s->host_likeliest,
                           s->n_sequences * sizeof(*s->host_likeliest)));
    s->is_likeliest_read = true;
    *out = s->host_likeliest[sequence];
    return BELL_OK;
}

bell_status
bell_lm_logits(struct bell_lm_session *session, uint32_t sequence, float *out,
               size_t n)
{
    struct lm_sequence *q;
    const float *logits;

    BELL_TRY(lm_session_find(__func__, session, sequence, &q));
    if (!out || n != (size_t)session->lm->config.n_tokens)
        return bell_fail(out ? BELL_BAD_VALUE : BELL_BAD_MISSING,
                         "bell_lm_logits: %zu numbers at %p; the model has "
                         "%lld tokens",
                         n, (void *)out,
                         (long long)session->lm->config.n_tokens);
    BELL_TRY(lm_session_read(session, sequence, &logits));
    memcpy(out, logits, n * sizeof(*out));
    return BELL_OK;
}

bell_status
bell_lm_hidden(struct bell_lm_session *session, uint32_t sequence, float *out,
               size_t n)
{
    struct lm_sequence *q;
    bell_status status, ended;

    BELL_TRY(lm_session_find(__func__, session, sequence, &q));
    if (!out || n != (size_t)session->lm->config.dim)
        return bell_fail(out ? BELL_BAD_VALUE : BELL_BAD_MISSING,
                         "bell_lm_hidden: %zu numbers at %p; the model's "
                         "states have %lld",
                         n, (void *)out, (long long)session->lm->config.dim);
    BELL_TRY(bell_scope_begin(session->ctx));
    status = bell_read(bell_select(session->hidden, 0, sequence), out,
                       n * sizeof(*out));
    ended = bell_scope_end(session->ctx);
    return status == BELL_OK ? ended : status;
}
