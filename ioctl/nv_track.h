/* Following what a program does with NVIDIA's driver, call by call, so that
 * its rings can be read: which memory is mapped where for the CPU and the
 * GPU, and where each channel's ring and USERD are.
 *
 * Nothing is ever written. Memory that the calls did not tell of (mapped before
 * tracking began, or not mapped for the CPU) cannot be read and is left out.
 * One thread at a time. Memory comes from host_alloc; running out of it forgets
 * things, and never fails. src: docs/hardware/nvidia-kernel.md, "Calls",
 * "Object tree", "CPU mappings", "GPU mappings";
 * docs/hardware/nvidia-queues.md, "Control words and entries".
 */
#ifndef BELL_IOCTL_NV_TRACK_H
#define BELL_IOCTL_NV_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ioctl/kio.h"

struct kio_capture;
struct nv_track;

/* NULL when out of memory. */
struct nv_track *nv_track_create(void);
void nv_track_destroy(struct nv_track *track);

/* A call that succeeded, with its argument as it came back. */
void nv_track_ioctl(struct nv_track *track, const struct kio_capture *out);
void nv_track_close(struct nv_track *track, int fd);
/* A file of NVIDIA's was mapped; any memory was unmapped. */
void nv_track_mmap(struct nv_track *track, int fd, void *addr,
                   size_t size_bytes);
void nv_track_munmap(struct nv_track *track, const void *addr,
                     size_t size_bytes);
/* Whether any of this lies in a tracked mapping. */
bool nv_track_overlaps(const struct nv_track *track, const void *addr,
                       size_t size_bytes);

/* What one channel submitted since the last look: its USERD, new ring
 * entries, pushbuffers, launch descriptors. */
typedef void nv_track_fn(void *user, uint32_t channel,
                         const struct kio_region *regions, uint32_t n_regions);

/* Calls `fn` for each channel with new ring entries. */
void nv_track_sample(struct nv_track *track, nv_track_fn *fn, void *user);

#endif
