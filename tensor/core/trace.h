/* A function while it is captured (jit.c).
 *
 * Its inputs and the tensors that it uses from outside are placeholders: leaves
 * of the right shape without memory. A realize is noted, not run
 * (runtime/capture.c), and its results are placeholders, too. Numbers that the
 * host gives at each replay, random keys and optimisers' rates, are feeds.
 */
#ifndef BELL_TENSOR_CORE_TRACE_H
#define BELL_TENSOR_CORE_TRACE_H

#include "tensor/core/tensor_internal.h"

struct bell_optimizer;
struct rt_capture;

/* Most bytes of a feed. */
#define TENSOR_FEED_BYTES 64

/* The generator's key and number, or the rates of an optimiser's group. */
struct tensor_feed {
    struct bell_optimizer *opt; /* a reference; NULL: the generator */
    uint32_t group;             /* of the optimiser */
    uint32_t size_bytes;
};

struct tensor_trace {
    struct tensor_feed *feeds;
    size_t n_feeds, cap_feeds;
    uint32_t n_made;            /* results so far */
    bool asks_gradients;        /* a gradient was asked for */
    struct rt_capture *capture; /* what is noted; owned by jit.c */
    /* Where a function is saved: the node in place of a feed, NULL where the
     * context has failed; or NULL. */
    const struct uop *(*keep)(void *user, struct bell_optimizer *opt,
                              uint32_t group);
    void *keep_user;
};

/* A leaf of n elements that are given anew at each replay, as `data` is now. As
 * tensor_leaf, where nothing is captured. */
const struct uop *tensor_feed_leaf(struct bell_context *ctx, const char *call,
                                   enum uop_dtype dtype, int64_t n,
                                   const void *data, struct bell_optimizer *opt,
                                   uint32_t group);

/* A buffer without memory, and one (the caller's) reference. parts: what each
 * place of a mesh will have, BELL_MESH_AXES; NULL: all. */
BELL_MUST_CHECK bell_status tensor_stand_in(
    struct bell_context *ctx, enum uop_dtype dtype, uint64_t n_elems,
    enum tensor_role role, uint32_t number, const struct tensor_part *parts,
    struct tensor_buffer **out_buf);

/* A function that is captured has asked for, or about, the gradient of `t`. */
static inline void
tensor_trace_touch(struct tensor *t)
{
    if (t->ctx->trace)
        t->flags |= TENSOR_TOUCHED;
}

/* ---- random.c ---- */

/* The four words of the next call, which is counted. */
void tensor_generator_words(struct bell_context *ctx, uint32_t *words);

/* ---- optim.c ---- */

/* Lets go of an optimiser that a feed names: it stays until then, also after
 * bell_optimizer_destroy. */
void tensor_optimizer_release(struct bell_optimizer *opt);
/* Was it destroyed? */
bool tensor_optimizer_is_dead(const struct bell_optimizer *opt);
/* The rates of a group's next step, which is counted with group 0, the last of
 * a step's feeds; or one step back. */
void tensor_optimizer_advance(struct bell_optimizer *opt, uint32_t group,
                              void *out_rates);
void tensor_optimizer_retreat(struct bell_optimizer *opt, uint32_t group);
/* The rates of a group's next steps (host_free), n_rates a row, up to the first
 * that all later steps have too, or n_most rows. */
BELL_MUST_CHECK bell_status tensor_optimizer_table(
    struct bell_optimizer *opt, uint32_t group, uint64_t n_most,
    double **out_rows, uint64_t *out_n, uint32_t *out_n_rates);

#endif
