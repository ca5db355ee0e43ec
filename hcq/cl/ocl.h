/* OpenCL as a device: what its files share.
 *
 * ocl_api.c     the library's functions     ocl_find.c    which devices, and
 * ocl_device.c  the device, its memory                    what they lack
 * ocl_program.c programs                    ocl_queue.c   queues
 *                                           ocl_feed.c    what packets do
 *
 * Memory: a buffer is a cl_mem, which has no address that kernels of OpenCL 1.2
 * could compute with. So we give it one: bit 62, the number of the buffer and,
 * in the low 40 bits, the offset in it. A launch finds the cl_mem of an address
 * by the number, and gives a kernel both: `global uchar *b, ulong o` for each
 * buffer. An address in no buffer is found then, and loses the device.
 *
 * Memory that the host sees is ours, and the cl_mem uses it (USE_HOST_PTR).
 * Devices that are the host's processor do so in place. To others (`apart`) it
 * is given for each command that uses it and mapped again behind it.
 *
 * Queues: packets go through a ring to a thread, which makes OpenCL's calls: a
 * launch costs the caller what it costs on the CPU, however long OpenCL takes.
 * Where the device is the host's own processor, a thread more takes time from
 * the kernels: there who submits makes the calls himself (hcq_feed.h), who
 * waits looks after the events while he spins, and the thread only naps between
 * looks at them until somebody sleeps.
 *
 * The cl_command_queue is in order. A signal is memory of the host
 * (hcq/hcq_slot.h); its value is stored when the event of the command before it
 * is complete. A command before another one has no event, and a queue keeps the
 * times of its commands from its first timestamp on only: both cost.
 */
#ifndef BELL_HCQ_CL_OCL_H
#define BELL_HCQ_CL_OCL_H

#include <pthread.h>

#include "hcq/cl/ocl_api.h"
#include "hcq/hcq_feed.h"

#define OCL_BACKEND     "CL"
#define OCL_QUEUES_MAX  32u   /* of a device */
#define OCL_PENDING_MAX 1024u /* signals that wait for events; power of two */

/* ---- addresses ---- */

#define OCL_VA_BIT      (1ull << 62)
#define OCL_OFFSET_BITS 40
#define OCL_CHUNK_SLOTS 1024u
#define OCL_CHUNKS      1024u

/* A buffer, found by its address. Written under the device's slot_lock while
 * nothing uses it; read by the queues' threads. */
struct ocl_buffer {
    cl_mem mem; /* owned; NULL: there is no such buffer, or it has no bytes */
    void *host; /* where the host sees it, or NULL */
    uint64_t size_bytes;
    uint64_t serial; /* of the device's buffers: no two have the same */
    bool is_taken, is_pinned;
    uint32_t next_free; /* + 1; of one that is not taken */
};

/* ---- devices ---- */

/* A device that OpenCL lists. Plain data. */
struct ocl_found {
    cl_platform_id platform;
    cl_device_id id;
    bool is_host; /* CL_DEVICE_TYPE_CPU */
};

#define OCL_FOUND_MAX 64u

struct ocl_device {
    struct hcq_device base;
    struct ocl_api api;
    struct ocl_found found;
    cl_context context;  /* owned */
    cl_command_queue io; /* owned; of reads and writes by the host */
    char options[96];    /* of clBuildProgram for source */
    bool is_apart;       /* the host's memory is not the device's */
    bool is_stuck; /* a queue's thread was left in a call: nothing is freed */

    pthread_mutex_t slot_lock;
    _Atomic(struct ocl_buffer *) chunks[OCL_CHUNKS]; /* owned */
    uint32_t n_slots, free_slot;                     /* free_slot: + 1 */
    uint64_t next_serial;
    uint32_t queues_used; /* base.lock; bits */
};

static inline struct ocl_device *
ocl_device(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct ocl_device, base);
}

/* All devices of all platforms: those that are not the host's processor first.
 * BELL_E_NO_DEVICE: there are none, and what to install. */
BELL_MUST_CHECK bell_status ocl_find(struct ocl_api *api,
                                     struct ocl_found *out_list,
                                     uint32_t *out_n);
/* A device's text, cut where it does not fit. */
BELL_MUST_CHECK bell_status ocl_text(struct ocl_api *api, cl_device_id id,
                                     cl_device_info what, char *text,
                                     size_t size_bytes);
/* A device's number of 4 or 8 bytes. */
BELL_MUST_CHECK bell_status ocl_number(struct ocl_api *api, cl_device_id id,
                                       cl_device_info what, uint64_t *out);
/* Whether we can use it: BELL_E_UNSUPPORTED says what it lacks. */
BELL_MUST_CHECK bell_status ocl_check(struct ocl_api *api, cl_device_id id);
/* Fills dev->base.info and what follows from what the device is. */
BELL_MUST_CHECK bell_status ocl_fill_info(struct ocl_device *dev);

/* The bytes [va, va + size_bytes) of a buffer; NULL where there is none. */
struct ocl_buffer *ocl_lookup(struct ocl_device *dev, uint64_t va,
                              uint64_t size_bytes, uint64_t *out_offset);

/* ---- programs ---- */

/* An argument word as it was given. */
struct ocl_given {
    uint64_t word; /* of a buffer, the offset */
    uint64_t serial;
    bool is_set;
};

/* A kernel with the arguments that it was given last, for one queue: OpenCL's
 * are not for several threads. Touched by the queue's thread. */
struct ocl_kernel {
    cl_kernel kernel; /* owned; NULL: the queue has not run it */
    struct ocl_given *seen;
};

struct ocl_program {
    struct hcq_program_base base;
    cl_program program; /* owned */
    char entry[128];
    bool takes_shared; /* its last argument is a local pointer */
    struct ocl_kernel kernels[OCL_QUEUES_MAX];
    struct ocl_given seen[]; /* of each queue, a row of its words */
};

static inline struct ocl_program *
ocl_program(const struct hcq_program_base *prog)
{
    return (struct ocl_program *)(uintptr_t)prog;
}

BELL_MUST_CHECK bell_status
ocl_program_create(struct hcq_device *dev, const struct hcq_program_desc *desc,
                   struct hcq_program_base **out_prog);
void ocl_program_destroy(struct hcq_program_base *prog);

/* ---- queues ---- */

/* A signal or timestamp whose turn comes when `event` is complete. */
struct ocl_pending {
    cl_event event; /* owned; NULL: when those before it are */
    struct hcq_slot *slot;
    uint64_t value;   /* to be stored */
    uint64_t host_ns; /* when the event was enqueued; 0: a signal */
    const struct hcq_program_base *prog; /* the last one before it, or NULL */
};

struct ocl_queue {
    struct hcq_feed feed;
    pthread_t thread;
    unsigned slot;       /* of the device */
    cl_command_queue cl; /* owned */

    /* Belongs to the one who runs packets: the thread or the submitter
     * (hcq_feed.h). */
    cl_event last; /* owned; of the last command that no signal has */
    bool is_open;  /* the last command has no event */
    bool profiles; /* its commands' times can be asked for */
    const struct hcq_program_base *last_prog;
    _Atomic bool unflushed; /* any */

    /* What waits for events: who runs packets adds to it, who has `finishing`
     * takes from it. */
    struct ocl_pending pending[OCL_PENDING_MAX];
    _Atomic uint32_t n_pushed, n_done; /* for ever */
    _Atomic uint32_t finishing;        /* somebody has it */
    uint64_t last_time_ns;             /* of a timestamp */
    _Atomic uint64_t wanted; /* the least value of the timeline that somebody
                              * sleeps for; UINT64_MAX: nobody does */
    /* The thread's: up to which it waits for events in any case, since they are
     * of packets that it ran; when it found nothing pending first, and after
     * how many. */
    uint32_t prompt_to;
    uint64_t calm_ns;
    uint32_t calm_at;
};

static inline struct ocl_queue *
ocl_queue(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct ocl_queue, feed.base);
}

static inline struct hcq_slot *
ocl_slot(const struct hcq_signal *sig)
{
    return (struct hcq_slot *)(uintptr_t)sig->va;
}

/* What packets do (ocl_feed.c). */
extern const struct hcq_feed_ops ocl_feed_ops;

BELL_MUST_CHECK bell_status ocl_queue_create(struct hcq_device *dev,
                                             const struct hcq_queue_desc *desc,
                                             struct hcq_queue **out_queue);
void ocl_queue_destroy(struct hcq_queue *queue);

/* hcq_device_ops (ocl_feed.c). */
void ocl_signal_help(struct hcq_signal *sig, uint64_t value, bool sleeps);

#endif
