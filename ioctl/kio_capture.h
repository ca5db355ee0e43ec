/* Taking the argument of a kernel call apart: the struct itself and, as the
 * describing tables say, what its pointers point to.
 *
 * A capture holds copies ("blobs"). The first is the argument; each further
 * one knows which pointer of which earlier blob led to it. Owned by one
 * thread at a time; memory comes from host_alloc and is kept between uses.
 */
#ifndef BELL_IOCTL_KIO_CAPTURE_H
#define BELL_IOCTL_KIO_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ioctl/kio_desc.h"

#define KIO_CAPTURE_BLOBS      12
#define KIO_CAPTURE_BLOB_BYTES (1u << 20) /* longer ones are cut */

struct kio_blob {
    uint64_t addr;                 /* where it lies in the calling process */
    uint8_t *data;                 /* in the capture's buffer */
    uint32_t size_bytes;           /* copied; 0 if it could not be read */
    uint32_t field_offset_bytes;   /* of the pointer, in the parent */
    uint32_t parent;               /* index; 0 for the argument itself */
    const struct kio_struct *desc; /* NULL when not described */
    const char *name;              /* of the command or class, or NULL */
};

struct kio_capture {
    struct kio_blob blobs[KIO_CAPTURE_BLOBS];
    uint32_t n_blobs; /* 0 when the call has no argument */
    uint8_t *buf;     /* owned */
    size_t used_bytes, cap_bytes;
    enum kio_dev dev;
    uint32_t branch;
    struct kio_call_desc call;
};

/* Copies size_bytes from the calling process; false if it cannot. */
typedef bool kio_read_fn(void *user, uint64_t addr, void *dst,
                         size_t size_bytes);

void kio_capture_init(struct kio_capture *capture);
void kio_capture_fini(struct kio_capture *capture);

/* Finds the places that a request's argument reaches, before the call, without
 * copying: each blob's data is the caller's own memory, so that formatting it
 * later shows what is there by then, at the places and in the sizes of now.
 * The pointers must be good. Needs no memory; kio_capture_fini is not called.
 */
void kio_capture_view(struct kio_capture *capture, enum kio_dev dev,
                      uint32_t branch, unsigned long request, void *arg);

/* Captures the argument of a request before the call. `read` NULL copies
 * directly: then the pointers must be good. */
BELL_MUST_CHECK bell_status kio_capture_call(struct kio_capture *capture,
                                             enum kio_dev dev, uint32_t branch,
                                             unsigned long request,
                                             const void *arg, kio_read_fn *read,
                                             void *user);

/* Copies the same places again, after the call, into `after`, which becomes
 * a capture with the same blobs. */
BELL_MUST_CHECK bell_status kio_capture_again(const struct kio_capture *before,
                                              struct kio_capture *after,
                                              kio_read_fn *read, void *user);

/* Fills desc and name of every blob but the first from the blobs' parents,
 * for a capture whose data came from elsewhere. */
void kio_capture_describe(struct kio_capture *capture, enum kio_dev dev,
                          uint32_t branch);

/* Whether every described pointer of a capture is null or led to a blob of the
 * whole size that its struct tells: then a kernel that follows them stays
 * within the blobs. Otherwise *out_field names one that is not. */
bool kio_capture_is_whole(const struct kio_capture *capture,
                          const char **out_field);

/* Prints the call and its decoded arguments, pointers followed, into buf. */
size_t kio_capture_format(const struct kio_capture *capture, char *buf,
                          size_t buf_bytes);

#endif
