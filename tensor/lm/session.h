/* Sessions, inside. */
#ifndef BELL_TENSOR_LM_SESSION_H
#define BELL_TENSOR_LM_SESSION_H

#include "tensor/lm/lm_internal.h"

/* A sequence of tokens; owned by its session. */
struct lm_sequence {
    int32_t *tokens; /* owned; all, computed or not */
    size_t n, cap;
    size_t n_done;   /* of them, computed */
    bool has_logits; /* of token n_done - 1, in the last run's */
    uint64_t random; /* state of the generator */
};

/* At an address that is never used again (base/once.h). */
struct bell_lm_session {
    bool is_live;
    struct bell_lm *lm;
    struct bell_context *ctx;
    struct lm_cache cache;
    struct lm_sequence *sequences; /* owned */
    uint32_t n_sequences;
    int64_t n_layers;       /* the model may be closed before it */
    int64_t context, chunk; /* slots; most tokens of a chunk */
    int64_t past;           /* slots that are used */
    struct bell_dim past_dim, n_dim;
    int32_t *places; /* owned: the cache's, as the host knows them */
    /* of a token of each, of chunks, and of chunks with all logits, which is
     * made when it is needed */
    struct bell_jit *jit[3];
    /* of the last run, or NULL: (sequences, tokens), (sequences), (sequences,
     * dim) */
    struct bell_tensor *logits, *likeliest, *hidden;
    float *host_logits;      /* owned: those, when read */
    int32_t *host_likeliest; /* owned */
    bool is_read, is_likeliest_read;
    uint32_t *by_rank; /* owned: room for choices */
    float *scores;     /* owned: the same */
};

/* Whether a call may use it; else it has failed. */
bool lm_session_is_live(const char *call,
                        const struct bell_lm_session *session);
/* The sequence of that number, computed to its end; else the call fails. */
BELL_MUST_CHECK bell_status lm_session_find(const char *call,
                                            struct bell_lm_session *session,
                                            uint32_t sequence,
                                            struct lm_sequence **out);
/* The host's copy of a sequence's logits. */
BELL_MUST_CHECK bell_status lm_session_read(struct bell_lm_session *session,
                                            uint32_t sequence,
                                            const float **out);
/* The likeliest token, -1 where a logit is not finite. */
BELL_MUST_CHECK bell_status lm_session_likeliest(
    struct bell_lm_session *session, uint32_t sequence, int32_t *out);

/* Computes what a sequence alone was fed, two tokens or more and no more than a
 * chunk. out[i]: the likeliest token behind each of them; out_results[]: the
 * jit's results, of the innermost scope. lm_session_take comes next. */
BELL_MUST_CHECK bell_status
lm_session_run_all(struct bell_lm_session *session, uint32_t sequence,
                   int32_t *out, struct bell_tensor **out_results);
/* The sequence ends in token i of that run, and has its logits; no other has
 * some. */
void lm_session_take(struct bell_lm_session *session, uint32_t sequence,
                     struct bell_tensor **results, int64_t i);

#endif
