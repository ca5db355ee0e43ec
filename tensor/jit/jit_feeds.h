/* What a bundle has in place of what the host gives a jit anew at each call:
 * random words, and rates of optimisers. Used by jit_save.c only. */
#ifndef BELL_TENSOR_JIT_JIT_FEEDS_H
#define BELL_TENSOR_JIT_JIT_FEEDS_H

#include "tensor/core/trace.h"

struct jit_feeds;

BELL_MUST_CHECK bell_status jit_feeds_create(struct bell_context *ctx,
                                             struct jit_feeds **out);
/* With its tensors. NULL is allowed. */
void jit_feeds_destroy(struct jit_feeds *feeds);
/* Tensors for the feeds that a capture came to and that have none yet: what the
 * context and the optimisers would give next. n_steps: rows of rates; 0: until
 * they stay as they are, or BELL_E_UNSUPPORTED. */
BELL_MUST_CHECK bell_status jit_feeds_add(struct jit_feeds *feeds,
                                          const struct tensor_feed *list,
                                          uint32_t n, uint64_t n_steps);
/* The name of such a tensor in a bundle; NULL: it is another. */
const char *jit_feeds_name(const struct jit_feeds *feeds,
                           const struct bell_tensor *t);
/* A tensor_trace's `keep`: the node of a feed while a function is captured,
 * whose tensors then count on. NULL: the context has failed. */
const struct uop *jit_feeds_leaf(void *user, struct bell_optimizer *opt,
                                 uint32_t group);

#endif
