/* Lists of what has a name. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_TRAIN_MODULE_H
#define BELL_TENSOR_TRAIN_MODULE_H

#include "doorbell/module.h"

struct bell_context;
struct bell_tensor;

/* Fails where the list is NULL or has tensors of two contexts, or of another
 * than `ctx`, if that is not NULL: a call is inside one alone. */
BELL_MUST_CHECK bell_status module_state_is_of(const char *call,
                                               const struct bell_state *state,
                                               const struct bell_context *ctx);

/* Takes off what came after the first n items. */
void module_state_cut(struct bell_state *state, uint32_t n);

#endif
