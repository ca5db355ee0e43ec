/* What kernels compute, in the words of the program (doorbell/label.h).
 *
 * A plan knows the nodes that each kernel computes by their places in the
 * canonical order of its graph; what a node at a place was made for is the
 * run's own. So graphs that differ in labels alone share a plan. Where the
 * context records no labels nothing of this is done. One thread at a time.
 */
#ifndef BELL_TENSOR_RUNTIME_NAMED_H
#define BELL_TENSOR_RUNTIME_NAMED_H

#include <stdint.h>

#include "base/status.h"

struct rt_plan;
struct sched_item;
struct tensor_runtime;
struct uop;
struct uop_graph;

/* The graph under `sink` is the one that is run from now on. */
BELL_MUST_CHECK bell_status rt_named_run(struct tensor_runtime *rt,
                                         const struct uop_graph *g,
                                         const struct uop *sink);

/* What the kernel computes in that graph; NULL: not known. The string stays as
 * long as the context. */
const char *rt_named_kernel(struct tensor_runtime *rt,
                            const struct rt_plan *plan,
                            const struct sched_item *item);

/* BELL_DEBUG=sched: the plan's kernels, and the nodes of its graph `g`, which
 * BELL_DEBUG=graph has printed. */
void rt_named_tell(struct tensor_runtime *rt, const struct rt_plan *plan);
void rt_named_tell_graph(struct tensor_runtime *rt, const struct uop_graph *g,
                         const struct uop *const *roots, uint32_t n_roots);

#endif
