/* Sum kernels of collectives (hcq/hcq_collective.h) for every device that we
 * have a compiler for. They take any number of elements, at any address that is
 * a multiple of an element.
 *
 * One thread at a time uses a cache.
 */
#ifndef BELL_TENSOR_RUNTIME_SUM_H
#define BELL_TENSOR_RUNTIME_SUM_H

#include "hcq/hcq_collective.h"

/* The kernels that were asked for, each compiled and loaded once. */
struct tensor_sums;

BELL_MUST_CHECK bell_status tensor_sums_create(struct tensor_sums **out_sums);
/* Before the devices, after all graphs that use the kernels. NULL is
 * allowed. */
void tensor_sums_destroy(struct tensor_sums *sums);

/* For hcq_collective_desc.get_program, with the cache as its user.
 * BELL_E_UNSUPPORTED: the device has no such numbers, or what makes machine
 * code for it is missing. */
BELL_MUST_CHECK bell_status tensor_sums_get(
    void *sums, struct hcq_device *dev, const struct hcq_sum_kernel *kernel,
    struct hcq_sum_program *out_program);

#endif
