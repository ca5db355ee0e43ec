/* `doorbell kernel --stats`: what each kernel of an expression does, takes and
 * needs at least, on a simulated card or a device that only compiles. */
#ifndef BELL_TOOLS_KERNEL_STATS_H
#define BELL_TOOLS_KERNEL_STATS_H

#include "base/status.h"
#include "ioctl/sim_count.h"
#include "tensor/runtime/ir.h"

struct json;
struct kernel_stats;

/* Watches the kernels of `ctx` that run from now on; of each at most
 * `most_groups` work-groups are run, 0: all. */
BELL_MUST_CHECK bell_status kernel_stats_begin(struct bell_context *ctx,
                                               uint64_t most_groups,
                                               struct kernel_stats **out_stats);
/* No more. BELL_OK, or what went wrong while watching. */
BELL_MUST_CHECK bell_status kernel_stats_end(struct kernel_stats *stats);
/* NULL is allowed. */
void kernel_stats_destroy(struct kernel_stats *stats);

/* Adds what a launch was counted to do. */
void kernel_stats_work(const struct sim_counts *counts, struct chip_work *work);

/* The least time of all launches together, by the model of the chip; false: no
 * product is named, so that there is none. */
bool kernel_stats_time(const struct kernel_stats *stats, double *out_us);
void kernel_stats_print(const struct kernel_stats *stats);
/* As the members of the open object. */
void kernel_stats_put(const struct kernel_stats *stats, struct json *json);

#endif
