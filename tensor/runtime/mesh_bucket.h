/* Buckets: sums over the places of a mesh that are ready at about the same time
 * are one exchange. Each of them costs a fixed time, which is most of a small
 * one's.
 */
#ifndef BELL_TENSOR_RUNTIME_MESH_BUCKET_H
#define BELL_TENSOR_RUNTIME_MESH_BUCKET_H

#include "lower/schedule/schedule.h"
#include "tensor/mesh/split.h"

/* guess: from there on, links take longer than what an exchange costs at all */
#define MESH_BUCKET_BYTES ((uint64_t)4 << 20)
#define MESH_BUCKET_PARTS 64 /* guess */

/* Is it a step in which places exchange data, and not a kernel? */
bool mesh_is_exchange(const struct sched_item *item);

/* Puts sums next to each other that can be one exchange: they wait for those
 * that come, and what needs them waits as well, until the bucket is full or one
 * of the next needs one of these. */
BELL_MUST_CHECK bell_status mesh_bucket_order(struct sched_plan *plan);

/* How many of n items, from the first one on, are one exchange: 1, or sums that
 * need nothing of each other. All their values are in memory until the last
 * one has its result. */
uint32_t mesh_bucket_length(const struct sched_item *items, uint32_t n,
                            const struct sched_buf *bufs);

#endif
