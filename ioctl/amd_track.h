/* Following the queues that a program makes at KFD, so that its rings can be
 * read: what a ring got between two looks, and the indirect buffers that it
 * points to.
 *
 * Nothing is ever written. Memory that the CPU does not see where the card does
 * is left out. One thread at a time. Memory comes from host_alloc; running out
 * of it forgets things, and never fails. src: docs/hardware/amd-kernel.md,
 * "Queues"; docs/hardware/amd-queues.md, "PM4".
 */
#ifndef BELL_IOCTL_AMD_TRACK_H
#define BELL_IOCTL_AMD_TRACK_H

#include <stddef.h>
#include <stdint.h>

#include "ioctl/kio.h"

struct kio_capture;
struct amd_track;

/* NULL when out of memory. */
struct amd_track *amd_track_create(void);
void amd_track_destroy(struct amd_track *track);

/* A call on /dev/kfd that succeeded, with its argument as it came back. Look
 * before: a queue that is destroyed is forgotten. */
void amd_track_ioctl(struct amd_track *track, const struct kio_capture *out);

/* What one queue got since the last look: entries of the ring, then what they
 * point to. The bytes are copies. */
typedef void amd_track_fn(void *user, uint32_t queue_id,
                          const struct kio_region *regions, uint32_t n_regions);

/* Calls `fn` for each queue with new entries. */
void amd_track_sample(struct amd_track *track, amd_track_fn *fn, void *user);

/* The topology's file of node `node` that names its chip. */
void amd_track_node_path(uint32_t node, char *path, size_t path_bytes);

#endif
