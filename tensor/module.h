/* Lists of what has a name. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_MODULE_H
#define BELL_TENSOR_MODULE_H

#include "doorbell/module.h"

struct bell_tensor;

/* The first that is not NULL, or NULL. */
struct bell_tensor *module_first_tensor(const struct bell_module_type *type,
                                        const void *module);

/* Takes off what came after the first n items. */
void module_state_cut(struct bell_state *state, uint32_t n);

#endif
