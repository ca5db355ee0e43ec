/* Runs a kernel (stage K) as its definition says: for tests of the scheduler
 * and the lowering. Recursive and slow; integers and floats. */
#ifndef BELL_TESTS_K_INTERP_H
#define BELL_TESTS_K_INTERP_H

#include "uops/uop.h"

/* Memory of one PARAM: n elements as constants of its dtype. */
struct k_buffer {
    union uop_arg *elems;
    size_t n;
};

/* Does every STORE of `sink`: one after the other, or, where it loads what it
 * stores, all for each setting of the ranges in turn. False (and a message on
 * stderr) when an access is out of range or a node has no value. */
bool k_run(const struct uop *sink, struct k_buffer *bufs, uint32_t n_bufs);

#endif
