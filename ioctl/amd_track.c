/* Following the queues that a program makes at KFD. */
#include "ioctl/amd_track.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ioctl/kio_capture.h"

#define QUEUES_MAX  64
#define REGIONS_MAX 64
#define RING_MAX    ((uint64_t)64 << 20) /* bytes; of more, nothing is read */

/* kfd_ioctl_create_queue_args.queue_type; 1 and 3 are of copy engines. */
#define TYPE_PM4 0u
#define TYPE_AQL 2u

/* Fields of a type 3 packet's head, and words of the packet that names an
 * indirect buffer. src: docs/hardware/amd-queues.md, "PM4" */
#define PM4_TYPE(head)         ((head) >> 30)
#define PM4_OPCODE(head)       ((head) >> 8 & 0xff)
#define PM4_COUNT(head)        ((head) >> 16 & 0x3fff)
#define PM4_INDIRECT_BUFFER    0x3fu
#define INDIRECT_BUFFER_DW     4u
#define INDIRECT_SIZE(control) ((control)&0xfffff)

#define AQL_BYTES 64u
/* An AQL packet of type 0 with an indirect buffer's packet behind its head; of
 * what is done the card has made the type 1. */
#define AQL_TYPE(head) ((head)&0xff)
#define AQL_VENDOR     0u
#define AQL_INVALID    1u

struct queue {
    uint32_t id, type;
    uint64_t ring_va, ring_bytes, wptr_va;
    uint64_t seen;  /* the write pointer at the last look; at first 0 */
    uint64_t first; /* what its memory held when the queue was made */
    bool has_begun;
};

struct amd_track {
    struct queue queues[QUEUES_MAX];
    uint32_t n_queues;
};

/* Regions with copies of what they hold. */
struct look {
    struct kio_region regions[REGIONS_MAX];
    void *copies[REGIONS_MAX]; /* owned */
    uint32_t n;
};

struct amd_track *
amd_track_create(void)
{
    return host_calloc(1, sizeof(struct amd_track));
}

void
amd_track_destroy(struct amd_track *track)
{
    host_free(track);
}

void
amd_track_node_path(uint32_t node, char *path, size_t path_bytes)
{
    snprintf(path, path_bytes,
             "/sys/devices/virtual/kfd/kfd/topology/nodes/%u/properties", node);
}

/* This process's memory, also where it may be gone. */
static bool
read_memory(uint64_t va, void *to, uint64_t n_bytes)
{
    struct iovec own = {to, n_bytes};
    struct iovec from = {(void *)(uintptr_t)va, n_bytes};

    return process_vm_readv(getpid(), &own, 1, &from, 1, 0) == (ssize_t)n_bytes;
}

static void
add_queue(struct amd_track *track, const struct kio_capture *out)
{
    const struct kio_struct *desc = out->call.args;
    const struct kio_blob *arg = &out->blobs[0];
    struct queue q = {
        .id = (uint32_t)kio_struct_get(desc, arg->data, arg->size_bytes,
                                       "queue_id"),
        .type = (uint32_t)kio_struct_get(desc, arg->data, arg->size_bytes,
                                         "queue_type"),
        .ring_va = kio_struct_get(desc, arg->data, arg->size_bytes,
                                  "ring_base_address"),
        .ring_bytes =
            kio_struct_get(desc, arg->data, arg->size_bytes, "ring_size"),
        .wptr_va = kio_struct_get(desc, arg->data, arg->size_bytes,
                                  "write_pointer_address"),
    };

    if (track->n_queues == QUEUES_MAX || q.ring_bytes < 4 ||
        q.ring_bytes > RING_MAX || q.ring_bytes & (q.ring_bytes - 1) ||
        !read_memory(q.wptr_va, &q.first, sizeof(q.first)))
        return;
    track->queues[track->n_queues++] = q;
}

static void
forget_queue(struct amd_track *track, uint32_t id)
{
    uint32_t i;

    for (i = 0; i < track->n_queues; i++) {
        if (track->queues[i].id == id) {
            track->queues[i] = track->queues[--track->n_queues];
            return;
        }
    }
}

void
amd_track_ioctl(struct amd_track *track, const struct kio_capture *out)
{
    const char *name = out->call.name;

    if (!name || !out->call.args || !out->n_blobs)
        return;
    if (strcmp(name, "AMDKFD_IOC_CREATE_QUEUE") == 0)
        add_queue(track, out);
    else if (strcmp(name, "AMDKFD_IOC_DESTROY_QUEUE") == 0)
        forget_queue(track, (uint32_t)kio_struct_get(
                                out->call.args, out->blobs[0].data,
                                out->blobs[0].size_bytes, "queue_id"));
}

/* ---- looking ---------------------------------------------------------- */

/* A copy of device memory as a region; NULL: it cannot be read. */
static const uint8_t *
add_region(struct look *look, uint64_t va, uint64_t n_bytes,
           enum kio_region_kind kind)
{
    void *copy;

    if (!n_bytes || look->n == REGIONS_MAX)
        return NULL;
    copy = host_alloc(n_bytes);
    if (!copy || !read_memory(va, copy, n_bytes)) {
        host_free(copy);
        return NULL;
    }
    look->copies[look->n] = copy;
    look->regions[look->n++] = (struct kio_region){copy, va, n_bytes, kind};
    return copy;
}

/* What an indirect buffer's packet points to; other packets, nothing. */
static void
add_indirect(struct look *look, const uint32_t *words)
{
    uint64_t va = words[1] | (uint64_t)words[2] << 32;

    if (PM4_TYPE(words[0]) == 3 && PM4_OPCODE(words[0]) == PM4_INDIRECT_BUFFER)
        (void)add_region(look, va & ~(uint64_t)3,
                         INDIRECT_SIZE(words[3]) * (uint64_t)4,
                         KIO_REGION_PUSH);
}

static void
look_at_pm4(struct look *look, const uint8_t *bytes, uint64_t n_bytes)
{
    uint64_t at = 0;

    while (at + 4 <= n_bytes) {
        uint32_t words[INDIRECT_BUFFER_DW] = {0};
        uint64_t n = n_bytes - at;

        memcpy(words, bytes + at, n < sizeof(words) ? n : sizeof(words));
        if (n >= sizeof(words))
            add_indirect(look, words);
        /* a head of type 2 stands alone */
        at += 4 * (PM4_TYPE(words[0]) == 3 ? PM4_COUNT(words[0]) + 2ull : 1);
    }
}

static void
look_at_aql(struct look *look, const uint8_t *bytes, uint64_t n_bytes)
{
    uint64_t at;

    for (at = 0; at + AQL_BYTES <= n_bytes; at += AQL_BYTES) {
        uint32_t words[1 + INDIRECT_BUFFER_DW];

        memcpy(words, bytes + at, sizeof(words));
        if (AQL_TYPE(words[0]) == AQL_VENDOR ||
            AQL_TYPE(words[0]) == AQL_INVALID)
            add_indirect(look, words + 1);
    }
}

/* A part of the ring that does not wrap. */
static void
look_at_part(struct look *look, const struct queue *q, uint64_t from,
             uint64_t to)
{
    const uint8_t *bytes =
        add_region(look, q->ring_va + from, to - from, KIO_REGION_RING);

    if (bytes && q->type == TYPE_PM4)
        look_at_pm4(look, bytes, to - from);
    else if (bytes && q->type == TYPE_AQL)
        look_at_aql(look, bytes, to - from);
}

/* Write pointers count words, packets, or bytes. */
static uint64_t
bytes_of_unit(uint32_t type)
{
    return type == TYPE_PM4 ? 4 : type == TYPE_AQL ? AQL_BYTES : 1;
}

static void
look_at_queue(struct queue *q, amd_track_fn *fn, void *user)
{
    uint64_t unit = bytes_of_unit(q->type), mask = q->ring_bytes - 1;
    uint64_t now, n_bytes, from, i;
    struct look *look;

    if (!read_memory(q->wptr_va, &now, sizeof(now)) || now == q->seen ||
        (!q->has_begun && now == q->first))
        return;
    q->has_begun = true;
    /* who counts within the ring alone starts again at 0 */
    n_bytes = now > q->seen ? (now - q->seen) * unit
                            : ((now - q->seen) * unit & mask);
    if (n_bytes > q->ring_bytes)
        n_bytes = q->ring_bytes;
    from = (now * unit - n_bytes) & mask;
    q->seen = now;
    look = host_calloc(1, sizeof(*look));
    if (!look)
        return;
    if (from + n_bytes > q->ring_bytes) {
        look_at_part(look, q, from, q->ring_bytes);
        n_bytes -= q->ring_bytes - from;
        from = 0;
    }
    look_at_part(look, q, from, from + n_bytes);
    if (look->n)
        fn(user, q->id, look->regions, look->n);
    for (i = 0; i < look->n; i++)
        host_free(look->copies[i]);
    host_free(look);
}

void
amd_track_sample(struct amd_track *track, amd_track_fn *fn, void *user)
{
    uint32_t i;

    for (i = 0; i < track->n_queues; i++)
        look_at_queue(&track->queues[i], fn, user);
}
