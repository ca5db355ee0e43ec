/* Kernels of a plan for sizes of symbols far below their bounds.
 *
 * On a GPU each kernel that reduces along symbols is compiled once more for
 * each size class (lower/classes.h) that a launch has, at its first one.
 */
#ifndef BELL_TENSOR_RUNTIME_CLASSES_H
#define BELL_TENSOR_RUNTIME_CLASSES_H

#include <stdint.h>

#include "base/status.h"

struct rt_classes;
struct rt_plan;
struct rt_queue;
struct sched_item;
struct tensor_runtime;

/* Gives the kernels of a plan with symbols their classes. */
BELL_MUST_CHECK bell_status rt_classes_make(struct tensor_runtime *rt,
                                            const struct rt_plan *plan);
void rt_classes_free(struct rt_classes *classes);

/* The kernel that kernel `number` is for a launch with these words by slot. The
 * first of its class is compiled, after `q` (or NULL) is submitted; with an
 * item of a plan it is tuned where kernels are. */
BELL_MUST_CHECK bell_status rt_class_kernel(struct tensor_runtime *rt,
                                            struct rt_queue *q, uint32_t number,
                                            const uint64_t *words,
                                            const struct rt_plan *plan,
                                            const struct sched_item *item,
                                            uint32_t *out_kernel);

#endif
