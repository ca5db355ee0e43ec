/* The AMD driver's own structures: what its files share.
 *
 * Two halves meet here. The control half (amd_kfd.c, amd_device.c,
 * amd_memory.c, amd_channel.c, amd_fault.c) talks to the kernel driver:
 * topology, memory, queues, events. The command half (amd_encode.c, amd_pm4.c,
 * amd_move.c, amd_sdma.c, amd_program.c, amd_object.c, amd_queue.c,
 * amd_stream.c) fills indirect buffers and rings and makes no call to the
 * kernel.
 *
 * src: docs/hardware/amd.md and the pages that it names. No GPU has run any
 * of this.
 */
#ifndef BELL_HCQ_AMD_AMD_H
#define BELL_HCQ_AMD_AMD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hcq/hcq_ring.h"
#include "hcq/hcq_signal_pages.h"
#include "ioctl/kio.h"

struct amd_control;
struct amd_device;
struct amd_held;

/* ---- generations (amd_gen.c) ---- */

/* A kernel that copies and fills: machine code, and what its descriptor says
 * (amd_move.c). Constant. */
struct amd_move_code {
    uint32_t rsrc1, rsrc2, rsrc3, properties;
    uint32_t n_words;
    const uint32_t *words;
};

extern const struct amd_move_code amd_move_gfx942, amd_move_gfx1100,
    amd_move_gfx1201;

/* What differs between generations: one row each. Constant. */
struct chip_arch; /* base/chip.h */

struct amd_gen {
    const char *family;   /* "gfx942": as of struct chip_amd */
    uint32_t code_filler; /* what may follow code */
    uint8_t dialect;      /* enum amd_pm4_gen; enum amd_sdma_gen is the same */
    uint32_t wave_lanes;  /* that kernels are compiled for */
    uint32_t rsrc3_reg;   /* COMPUTE_PGM_RSRC3; 0: none */
    bool architected_scratch; /* else an SRD in the user registers: */
    uint32_t srd_word3[2];    /* of waves of 64, 32 lanes */
    uint32_t scratch_unit_bytes, scratch_size_bits; /* TMPRING WAVESIZE */
    bool scratch_waves_per_engine;
    bool uses_aql;  /* compute queues are AQL ones */
    bool binds_pm4; /* launches of their bound streams may be words of PM4 */
    bool sets_priv; /* RSRC1.PRIV at dispatch */
    uint32_t dma_max_bytes;           /* of one DMA_DATA; 0: there is none */
    const struct amd_move_code *move; /* for what is more; NULL: more of them */
    /* Copy queues are compute queues. Symptoms: on gfx906 and gfx908 a copy
     * engine's wait for memory may end too early; on gfx101x its flush of the
     * card's window (HDP) has issues. src: ROCr 6.4.3, amd_blit_sdma.cpp
     * (sw_poll_workaround_, hdp_flush_support_) */
    bool copies_by_compute;
    bool sdma_keeps_hdp;       /* copy engines must not flush the window */
    uint32_t sdma_fence_flags; /* memory type bits of FENCE */
    /* The window has a read cache, which a flush empties. */
    bool keeps_host_reads;
    bool has_gcr; /* GCR_CNTL rules caches, SDMA's too; else COHER_CNTL */
    uint32_t save_bytes_per_wave;           /* of the control stack */
    uint32_t waves_per_cu, waves_per_array; /* that are saved, at most; 0: no
                                             * limit of an array */
    uint32_t max_stack_bytes;               /* the control stack's; 0: none */
    uint32_t acquire_full, acquire_launch;  /* cache words of ACQUIRE_MEM */
    uint32_t acquire_dies;  /* for other dies to see, and what they stored */
    uint32_t release_flags; /* of RELEASE_MEM for others to see */
    uint32_t max_lds_bytes;
};

/* The family's row of a chip that base/chip.h has; NULL where there is none. */
const struct amd_gen *amd_gen_find(uint32_t gfx_target_version);

/* ---- memory (amd_memory.c) ---- */

enum amd_mem_kind {
    AMD_MEM_VRAM,    /* on the card; the CPU may not see it */
    AMD_MEM_VISIBLE, /* on the card, mapped for the CPU if the window is large;
                      * else AMD_MEM_VRAM is made */
    AMD_MEM_NEAR,    /* on the card, mapped for the CPU, whose window is large;
                      * no card caches it */
    AMD_MEM_GTT,     /* host memory, coherent and uncached for the card */
    AMD_MEM_KIND_COUNT
};

/* Memory with one address for CPU and card. Plain data; owned by who
 * allocated it. */
struct amd_mem {
    uint64_t va, size_bytes;
    void *cpu;             /* == va where the CPU sees it; else NULL */
    uint32_t kind;         /* enum amd_mem_kind */
    struct amd_held *held; /* the kernel's side of it (amd_kfd.h) */
};

/* Exactly size_bytes rounded up to pages, as the kernel's checks of queue
 * memory need it. */
BELL_MUST_CHECK bell_status amd_mem_alloc(struct amd_device *dev,
                                          uint64_t size_bytes,
                                          enum amd_mem_kind kind,
                                          struct amd_mem *out_mem);
/* Nothing uses it any more. A zeroed struct is allowed; it is zeroed. */
void amd_mem_free(struct amd_device *dev, struct amd_mem *mem);

/* ---- hardware queues (amd_channel.c) ---- */

enum amd_ring_kind {
    AMD_RING_PM4, /* unit of pointers: words */
    AMD_RING_AQL, /* packets of 64 bytes */
    AMD_RING_SDMA /* bytes */
};

/* A queue of the kernel driver with its ring, pointers and doorbell. */
struct amd_channel {
    struct amd_device *dev;
    enum amd_ring_kind kind;
    bool has_queue; /* of the kernel: */
    uint32_t queue_id;
    uint32_t engines;    /* of SDMA, as bits, to be on one of; 0: any */
    uint32_t ring_bytes; /* a power of two */
    uint64_t put;        /* in units, never wraps */
    uint32_t *ring;
    volatile uint64_t *wptr;       /* that the card reads */
    const volatile uint64_t *rptr; /* that it writes */
    volatile uint64_t *doorbell;
    const uint64_t *exception; /* why the card stopped it: enum kfd_exception
                                * as bits; the kernel writes it */
    struct amd_mem ring_mem, pointers, eop, save;
    const struct amd_scratch *scratch; /* of its queue; none: the device's */
    uint64_t save_va;
};

/* ring_bytes is a power of two, a page at least. */
BELL_MUST_CHECK bell_status amd_channel_init(struct amd_device *dev,
                                             enum amd_ring_kind kind,
                                             uint32_t ring_bytes,
                                             struct amd_channel *out_channel);
/* The same on one of those engines of SDMA, if one has a queue left. */
BELL_MUST_CHECK bell_status amd_channel_init_on(
    struct amd_device *dev, enum amd_ring_kind kind, uint32_t ring_bytes,
    uint32_t engines, struct amd_channel *out_channel);
/* Destroys the kernel's queue, whatever it does, and creates it anew over the
 * same memory; pointers start from zero. */
BELL_MUST_CHECK bell_status amd_channel_rebuild(struct amd_channel *channel);
/* A zeroed struct is allowed. */
void amd_channel_fini(struct amd_channel *channel);
/* Units that can be written now. */
uint64_t amd_channel_room(const struct amd_channel *channel);
/* Fence, write pointer, fence, doorbell. */
void amd_channel_ring(struct amd_channel *channel);

/* ---- programs (amd_program.c, amd_object.c) ------------------------------ */

/* Words of a launch on a PM4 queue, and where in them lies what differs from
 * one launch to the next; 0: it is not there. Constant once made. */
#define AMD_LAUNCH_DW 112u
struct amd_launch_words {
    uint32_t n_dw;
    uint32_t tmpring_at, scratch_at; /* COMPUTE_TMPRING_SIZE, SCRATCH_BASE */
    uint32_t n_scratch;              /* of so many dies, one after the other */
    uint32_t srd_at, args_at, flat_at; /* user registers */
    uint32_t local_at, grid_at;        /* three words each */
    uint32_t words[AMD_LAUNCH_DW];
};

struct amd_program {
    struct hcq_program_base base; /* first */
    struct amd_mem code;          /* all sections */
    uint64_t entry_va, descriptor_va;
    uint32_t rsrc1, rsrc2, rsrc3;
    uint32_t properties; /* kernel_code_properties */
    uint32_t lds_bytes, scratch_bytes;
    uint32_t hidden_bytes;      /* of words that stand behind the arguments */
    uint32_t dynamic_lds_bytes; /* of lds_bytes */
    struct amd_launch_words launch;
};

/* ---- the device (amd_device.c) ---- */

/* XCCs of a chip. */
#define AMD_MAX_DIES 8u

/* What sysfs says of the card. */
struct amd_topology {
    uint32_t node, gpu_id, gfx_target_version, render_minor;
    uint32_t n_xcc, n_engines, n_cu; /* engines and CUs of one XCC */
    uint32_t n_arrays;               /* of all XCCs */
    uint32_t scratch_slots_per_cu, lds_kib;
    uint32_t n_sdma, n_sdma_xgmi;
    uint64_t vram_bytes;
    bool large_bar;            /* the CPU sees all of it */
    bool has_host_memory;      /* none of its own, so no window (HDP) */
    uint32_t domain, location; /* PCI's: bus, device and function */
    uint32_t partition;        /* of that GPU */
    bool is_partition;         /* there are several */
    char name[64];
};

/* Memory under the stacks of lanes: of each compute queue its own, as large as
 * the device says. Grows when a program needs more. */
struct amd_scratch {
    struct amd_mem mem;  /* not of the device */
    uint32_t lane_bytes; /* what there is for each lane */
    uint32_t tmpring;    /* COMPUTE_TMPRING_SIZE */
    uint64_t xcc_bytes;
};

struct amd_process; /* amd_kfd.h: what the kernel keeps for this process */

struct amd_device {
    struct hcq_device base;      /* first */
    struct amd_process *process; /* shared with other openings; counted */
    uint32_t card;               /* number of the card in it */
    const struct chip_arch *chip;
    const struct amd_gen *gen; /* the chip's family */
    bool binds_pm4; /* gen's, where the card can and somebody said so */
    bool yields;    /* waits of compute queues are the preemptable kind */
    struct amd_topology topology;
    struct amd_scratch scratch;       /* sizes; base.lock */
    struct amd_program move;          /* made with the first compute queue */
    struct hcq_signal_pages *signals; /* owned: in host memory */
    struct hcq_signal_pages *near_signals; /* owned: on the card */
    struct amd_control *control;           /* owned: amd_kfd.h */
};

static inline struct amd_device *
amd_device_of(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct amd_device, base);
}

/* Looks at memory and exception events; one that came loses the device, with
 * the fault decoded. Any thread. */
void amd_check_faults(struct amd_device *dev);
/* Makes scratch of all compute queues enough for `lane_bytes` per lane: waits
 * for AQL queues. */
BELL_MUST_CHECK bell_status amd_scratch_grow(struct amd_device *dev,
                                             uint32_t lane_bytes);

/* ---- queues (amd_queue.c, amd_stream.c) ---- */

/* Words before a submission's, at most. */
#define AMD_BEGIN_DW 16u

/* What a queue understands. Plain data. */
struct amd_engine {
    const struct amd_device *dev;
    const struct amd_scratch *scratch; /* the queue's, or the device's */
    enum amd_ring_kind kind;
    uint8_t gen;        /* enum amd_pm4_gen, enum amd_sdma_gen */
    bool is_single;     /* else single-shot work is for one die of several */
    bool binds_words;   /* launches of bound streams are words, not slots */
    uint32_t slot_dw;   /* of the ring; SDMA: 1 */
    uint64_t max_bytes; /* of one copy or fill packet */
    const struct amd_program *move; /* moves what is more; NULL: more packets */
    uint32_t piece_dw;              /* of one indirect buffer, at most */
    uint64_t idle_va; /* SDMA: a word that a barrier writes and waits for */
    uint64_t gate_va; /* several dies: a word for each, 0 at first */
    uint64_t meet_va; /* where they meet: two words, 0 at first */
    uint32_t *finish; /* several dies: AMD_FINISH_UNITS for releases of the
                         * timeline; NULL: they lie behind the words */
    /* Slots that go behind each submission: they tell the kernel to wake who
     * sleeps (amd_engine_wakes). Constant; 0: none. */
    uint32_t n_wake, wake[16];
    uint32_t n_begin, begin[AMD_BEGIN_DW]; /* words before every submission's */
};

struct amd_queue {
    struct hcq_queue base; /* first */
    struct amd_channel channel;
    struct amd_engine engine;
    struct amd_mem push;        /* indirect buffers and arguments: a ring */
    struct hcq_ring ring;       /* what of it is in use; the channel's slots */
    uint64_t n_slots;           /* of the channel's ring: a power of two */
    uint64_t slot_taken;        /* AQL: what the card has taken, or less */
    struct amd_mem finish;      /* constant and late words; amd_command.h */
    struct amd_mem meet;        /* the engine's words */
    struct amd_scratch scratch; /* base.dev's lock */
};

static inline struct amd_queue *
amd_queue_of(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct amd_queue, base);
}

/* hcq_device_ops of the command half. */
bell_status amd_program_create(struct hcq_device *dev,
                               const struct hcq_program_desc *desc,
                               struct hcq_program_base **out_prog);
void amd_program_destroy(struct hcq_program_base *prog);
bell_status amd_queue_create(struct hcq_device *dev,
                             const struct hcq_queue_desc *desc,
                             struct hcq_queue **out_queue);
void amd_queue_destroy(struct hcq_queue *queue);
struct hcq_extent amd_packet_measure(struct hcq_cs *cs,
                                     struct hcq_packet *packet);
void amd_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
                    unsigned field, struct hcq_place *place);
bell_status amd_queue_submit(struct hcq_queue *queue, uint64_t value);
bell_status amd_stream_bind(struct hcq_stream *stream);
void amd_stream_unbind(struct hcq_stream *stream);
void amd_stream_repack(struct hcq_stream *stream,
                       const struct hcq_place *place);
bell_status amd_stream_submit(struct hcq_stream *stream, uint64_t value);

/* After amd_channel_rebuild: what was queued is dropped. */
void amd_queue_restart(struct amd_queue *queue);
#endif
