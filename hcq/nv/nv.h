/* The NVIDIA driver's own structures: what its files share.
 *
 * Two halves meet here. The control half (nv_rm.c, nv_device.c, nv_memory.c,
 * nv_channel.c, nv_fault.c) talks to the kernel driver: objects, memory,
 * channels, errors. The command half (nv_encode.c, nv_qmd.c, nv_move.c,
 * nv_program.c, nv_cubin.c, nv_queue.c, nv_stream.c) fills pushbuffers and
 * launch descriptors and makes no call to the kernel.
 *
 * src: docs/hardware/nvidia.md and the pages that it names, which say how
 * certain each fact is.
 */
#ifndef BELL_HCQ_NV_NV_H
#define BELL_HCQ_NV_NV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hcq/hcq_ring.h"
#include "hcq/hcq_signal_pages.h"
#include "ioctl/kio.h"
#include "ioctl/nv_abi.h"
#include "mem/mem_va.h"

struct nv_backing;
struct nv_control;
struct nv_device;
struct nv_class;
struct nv_cubin;
struct nv_launch;
struct nv_pool;

/* ---- memory (nv_memory.c) ------------------------------------------------ */

enum nv_mem_kind {
    NV_MEM_VIDEO,   /* on the card; the CPU may not see it */
    NV_MEM_VISIBLE, /* on the card, mapped for the CPU (write combined) */
    NV_MEM_SYSTEM,  /* in host memory, cached, snooped; the CPU sees it */
    NV_MEM_KIND_COUNT
};

/* Device memory. Plain data; owned by who allocated it. */
struct nv_mem {
    uint64_t va, size_bytes;
    void *cpu;       /* NULL where the CPU does not see it */
    uint32_t kind;   /* enum nv_mem_kind */
    uint32_t handle; /* of the kernel's memory object */
    /* nv_memory.c's: the backing has nothing else in it, or this is a range of
     * a chunk of the kind's pool. */
    bool is_own;
    uint32_t chunk;
    struct mem_range range;
    struct nv_backing *backing;
};

/* Fresh memory; align_bytes is a power of two of at most 2 MiB. VAs are below
 * 2^40 and never in the shared or local window. */
BELL_MUST_CHECK bell_status nv_mem_alloc(struct nv_device *dev,
                                         uint64_t size_bytes,
                                         uint64_t align_bytes,
                                         enum nv_mem_kind kind,
                                         struct nv_mem *out_mem);
/* The same for a buffer on the card: a large one may lie at any address that
 * kernels and copy engines reach. */
BELL_MUST_CHECK bell_status nv_mem_alloc_buffer(struct nv_device *dev,
                                                uint64_t size_bytes,
                                                uint64_t align_bytes,
                                                struct nv_mem *out_mem);
/* The same with nothing else in its pages. */
BELL_MUST_CHECK bell_status nv_mem_alloc_shareable(struct nv_device *dev,
                                                   uint64_t size_bytes,
                                                   struct nv_mem *out_mem);
/* Nothing uses it any more. A zeroed struct is allowed; it is zeroed. */
void nv_mem_free(struct nv_device *dev, struct nv_mem *mem);

/* ---- channels (nv_channel.c) ---- */

/* A hardware channel: one engine's ring of pushbuffer segments. The memory
 * outlives the kernel's objects, which are made anew after a fault. */
struct nv_channel {
    struct nv_device *dev;
    bool is_copy;              /* a copy engine's; else compute */
    uint32_t n_entries;        /* of the ring; a power of two */
    uint32_t put;              /* next entry that the host writes */
    volatile uint64_t *ring;   /* GPFIFO entries */
    volatile uint32_t *gp_put; /* in USERD */
    const volatile uint32_t *gp_get;
    uint32_t token;                    /* what is stored to the doorbell */
    const volatile uint32_t *notifier; /* four words: time, time, info,
                                        * status << 16 */
    struct nv_mem control;             /* ring and USERD */
    struct nv_mem notice;              /* error notifier */
    uint32_t group, channel, object, copy_object; /* handles; 0: none */
    uint32_t debugger;       /* tells of a kernel's errors; 0: none */
    uint32_t engine;         /* NV2080 engine type */
    uint32_t rung;           /* `put` at the last doorbell */
    bool registered;         /* the address space knows the channel */
    struct mem_range window; /* addresses that it takes there; UVM's */
};

/* Memory, group, channel, objects, token, scheduled. n_entries 0: 1024. */
BELL_MUST_CHECK bell_status nv_channel_init(struct nv_device *dev, bool is_copy,
                                            uint32_t n_entries,
                                            struct nv_channel *out_channel);
/* Frees the kernel's objects, whatever the channel does, and makes them anew;
 * put, ring and USERD start from zero. */
BELL_MUST_CHECK bell_status nv_channel_rebuild(struct nv_channel *channel);
/* A zeroed struct is allowed. */
void nv_channel_fini(struct nv_channel *channel);

/* Puts the entry for [va, va + 4 * n_dw) at `put`, and advances it; there is
 * room. Nothing is visible to the card before nv_channel_ring. */
void nv_channel_entry(struct nv_channel *channel, uint64_t va, uint32_t n_dw);
/* Fence, GPPut, fence, a read of GPPut where the doorbell asks for it,
 * doorbell. */
void nv_channel_ring(struct nv_channel *channel);

/* A signal: its value, and from here on a semaphore record, whose timestamp is
 * the signal's; 8 bytes in front of the time are written along with it. */
#define NV_SIGNAL_RECORD_BYTES 16u

/* ---- programs (nv_program.c, nv_cubin.c) --------------------------------- */

struct nv_program {
    struct hcq_program_base base;   /* first */
    struct nv_mem code;             /* all sections */
    const struct nv_launch *launch; /* of the generation (nv_gen.h) */
    uint32_t *qmd;        /* template: all that does not change; owned */
    uint32_t *bank0;      /* template of constant bank 0; owned */
    uint32_t bank0_bytes; /* bound size */
    uint32_t param_offset, param_bytes; /* in bank 0 */
    uint32_t data_bytes;                /* descriptor and bank 0 of a launch */
    uint32_t n_regs, n_barriers;
    uint32_t stack_bytes;  /* per thread, with the reserve; 0: none */
    uint32_t shared_bytes; /* static, with the reserve */
};

/* ---- the device (nv_device.c) ---- */

/* What this card is (nv_chip.c). */
struct nv_chip {
    uint32_t sm;         /* 80, 90, 120: compute capability times ten */
    uint32_t code_sm;    /* that code is made for: at most sm */
    uint32_t sm_version; /* as the driver tells it: 0x900 */
    bool is_assumed;     /* it is not known: sm is the lowest of the class */
    const struct nv_class *host, *compute, *copy, *usermode;
    uint32_t n_gpc, n_tpc_per_gpc, n_sm_per_tpc; /* LITTER: upper bounds */
    uint32_t n_sm;                               /* present */
    uint32_t max_warps_per_sm;
    uint32_t max_shared_bytes; /* of a block, without the reserve */
    uint64_t shared_window, local_window;
};

/* Memory under every thread's stack. Grows when a program needs more. */
struct nv_local {
    struct nv_mem mem;
    uint32_t thread_bytes; /* what there is for each thread */
    uint64_t tpc_bytes;
    uint32_t epoch; /* grows with every change: channels set it anew */
};

struct nv_rm; /* nv_rm.h: the client of the kernel's resource manager */

struct nv_device {
    struct hcq_device base; /* first */
    struct kio *kio;        /* owned */
    struct nv_rm *rm;       /* owned */
    struct nv_chip chip;
    struct nv_local local;             /* base.lock */
    struct nv_program *move;           /* owned: copies and fills; base.lock.
                                        * NULL: no queue needed it yet, or no
                                        * code */
    volatile uint32_t *doorbell;       /* the register */
    bool reads_put;                    /* before each store to it */
    const volatile uint32_t *gpu_time; /* TIME_0, TIME_1: ns */
    bool watched;                      /* somebody wants kio_doorbell calls */
    struct nv_pool *pools[NV_MEM_KIND_COUNT]; /* owned */
    /* Owned: addresses of memory on cards, in [card_va, card_va_end), and of
     * memory of the host. */
    struct mem_va *va, *host_va;
    uint64_t card_va, card_va_end;
    /* Owned; NULL: none. More addresses of memory on cards, beyond what all
     * engines reach, in [far_va, far_va_end): for large buffers. */
    struct mem_va *far;
    uint64_t far_va, far_va_end;
    struct hcq_signal_pages *signals;      /* owned: in host memory */
    struct hcq_signal_pages *near_signals; /* owned: on the card */
    _Atomic uint32_t code_epoch; /* programs loaded: queues invalidate caches */
    struct nv_control *control;  /* owned: nv_control.h */
};

static inline struct nv_device *
nv_device_of(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct nv_device, base);
}

/* Looks at every channel's notifier; a filled one loses the device, with the
 * fault decoded: address, kernel, queue. Any thread; cheap when all is well. */
void nv_check_faults(struct nv_device *dev);

/* ---- queues (nv_queue.c, nv_stream.c) ---- */

/* What a queue's channel understands: found once from its classes. Plain
 * data. */
struct nv_engine {
    bool is_copy;        /* no compute object: copies on subchannel 4 only */
    uint8_t host_gen;    /* enum nv_host_gen */
    uint8_t compute_gen; /* enum nv_compute_gen */
    uint8_t copy_gen;    /* enum nv_ce_gen */
    const struct nv_class *host, *compute, *copy;
    uint64_t host_va_end; /* what the host engine addresses */
    uint64_t copy_va_end; /* what the copy engine addresses */
    /* A compute queue's, where the card has one: its copies and fills within
     * [card_va, card_va_end) and [far_va, far_va_end). NULL: the copy engine
     * does all. */
    const struct nv_program *move;
    uint64_t card_va, card_va_end, far_va, far_va_end;
};

struct nv_queue {
    struct hcq_queue base; /* first */
    struct nv_channel channel;
    struct nv_engine engine;
    struct nv_mem push;   /* pushbuffer, descriptors, constants: a ring */
    struct hcq_ring ring; /* what of it is in use; entries of the channel's */
    /* The queue's thread has these: */
    bool needs_setup;
    bool busy; /* the last submission's end did not wait for its kernels */
    uint32_t local_epoch; /* of dev->local when last set */
    uint32_t code_epoch;  /* of the device, as last acted on */
};

static inline struct nv_queue *
nv_queue_of(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct nv_queue, base);
}

/* hcq_device_ops of the command half. */
bell_status nv_program_create(struct hcq_device *dev,
                              const struct hcq_program_desc *desc,
                              struct hcq_program_base **out_prog);
void nv_program_destroy(struct hcq_program_base *prog);
bell_status nv_queue_create(struct hcq_device *dev,
                            const struct hcq_queue_desc *desc,
                            struct hcq_queue **out_queue);
void nv_queue_destroy(struct hcq_queue *queue);
struct hcq_extent nv_packet_measure(struct hcq_cs *cs,
                                    struct hcq_packet *packet);
void nv_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
                   unsigned field, struct hcq_place *place);
bell_status nv_queue_submit(struct hcq_queue *queue, uint64_t value);
bell_status nv_stream_bind(struct hcq_stream *stream);
void nv_stream_unbind(struct hcq_stream *stream);
void nv_stream_repack(struct hcq_stream *stream, const struct hcq_place *place);
bell_status nv_stream_submit(struct hcq_stream *stream, uint64_t value);

/* Makes dev->move, if it is not there and there is code for the chip. */
BELL_MUST_CHECK bell_status nv_move_load(struct nv_device *dev);
/* A program that does not come from a file: `cubin` describes it, its data are
 * the code, image_bytes of it. nv_program_destroy gives it back. */
BELL_MUST_CHECK bell_status nv_program_load(struct nv_device *dev,
                                            const struct hcq_program_desc *desc,
                                            const struct nv_cubin *cubin,
                                            struct nv_program **out_prog);

/* After nv_channel_rebuild: what was queued is dropped, the channel's state
 * (objects, windows, local memory) is sent again. */
void nv_queue_restart(struct nv_queue *queue);
/* Resets the channel, if it does something; a fault has ended others. */
void nv_queue_reset(struct nv_queue *queue);
/* The program whose code holds `va`, or NULL; dev->base.lock is held. */
const struct nv_program *nv_program_at(struct nv_device *dev, uint64_t va);

/* Makes the local memory enough for `thread_bytes` per thread: waits for all
 * queues, allocates, frees the old. Called by nv_program_create. */
BELL_MUST_CHECK bell_status nv_local_grow(struct nv_device *dev,
                                          uint32_t thread_bytes);

#endif
