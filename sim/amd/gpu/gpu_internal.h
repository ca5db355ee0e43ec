/* Shared by the files of the simulated AMD card. */
#ifndef BELL_SIM_AMD_GPU_GPU_INTERNAL_H
#define BELL_SIM_AMD_GPU_GPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/amd/gpu/gpu.h"
#include "sim/amd/gpu/gpu_cache.h"
#include "sim/amd/isa/wave.h"
#include "sim/links.h"
#include "sim/space.h"

#define AMDSIM_MAX_XCC 8
#define SH_FIRST       0x2c00u /* registers that SET_SH_REG reaches */
#define SH_COUNT       0x400u
#define MAX_BODY_DW    0x4000u /* 14 bits of count */

/* Registers that the kernel driver sets in a queue's descriptor: the die's
 * number among those that groups are dealt to, and how many at a time.
 * src: Linux 6.12, kfd_mqd_manager_v9.c, init_mqd_v9_4_3;
 * docs/hardware/amd-queues.md, "Several dies" */
#define SH_LOGIC_XCC (0x2e25u - SH_FIRST)
#define SH_CHUNK     (0x2e27u - SH_FIRST)

/* What the command processor tells of packets. src: Linux 6.12, kfd_ioctl.h,
 * enum kfd_dbg_trap_exception_code; kfd_int_process_v9.c, CP_BAD_OPCODE */
#define EXCEPTION_DIM         16u
#define EXCEPTION_UNSUPPORTED 20u
#define EXCEPTION_VENDOR      23u

/* ---- the card (gpu.c) ---- */

struct amdsim {
    struct amdsim_chip own_chip;
    const struct amdsim_chip *chip; /* own_chip */
    struct sim_links *traffic;      /* borrowed; NULL: nobody counts */
    uint32_t index;                 /* in the machine */
    struct amd_code *code;
    _Atomic uint64_t start_ns;
    pthread_t watcher;
    _Atomic uint32_t quit;
    pthread_mutex_t lock;         /* the list */
    pthread_cond_t wake;          /* the first queue is there, or the end */
    struct amdsim_queue **queues; /* owned array; not what it points to */
    size_t n_queues, cap_queues;
    struct amd_dump *dump;      /* NULL: none */
    _Atomic uint32_t first_xcc; /* of the next AQL queue */
    uint32_t flip_every;        /* amdsim_set_flip */
    _Atomic uint32_t n_writers;
    void (*flush)(void *user); /* amdsim_set_flush; NULL: nothing waits */
    void *flush_user;
    void (*reset)(void *user); /* amdsim_set_reset; NULL: never */
    void *reset_user;
    _Atomic uint32_t reset_in;     /* submissions, with the one that resets */
    _Atomic uint32_t is_reset_due; /* the watcher is to call it */
};

struct amdsim_space {
    struct amdsim *gpu;
    struct sim_space *pages; /* owned */
    _Atomic uint32_t evicted;
    struct amd_dump_map *dump_map; /* owned; NULL: no dump */
};

/* ---- queues (gpu_queue.c) ---- */

/* What a queue does with the words of a packet, for reports. */
struct amdsim_place {
    uint64_t va;      /* of the packet's first word */
    const char *name; /* of the packet */
};

/* A queue's side of the dump form (gpu_dump.c); of its thread. */
struct amdsim_queue_dump {
    struct amd_dump_folder *folder; /* owned; NULL: no dump */
    uint64_t rptr;                  /* that the folder starts from */
    bool has_turn, waited;
    char fault[256];
    /* The kernel's last store, which is there when it does the next. */
    const void *pending;
    uint64_t pending_va;
    uint32_t n_pending;
};

/* How far a die has come with an indirect buffer. */
struct amdsim_buffer {
    uint64_t va;
    uint32_t n_dw, at;
    uint32_t predicated; /* words that PRED_EXEC still covers */
    bool skips;          /* they are for another die */
};

/* How far a die has come with an AQL queue. */
struct amdsim_die {
    uint64_t get;        /* packets */
    uint64_t n_launched; /* up to and with the last kernel or barrier */
    uint64_t start;      /* when its last kernel began */
    bool in_buffer;      /* of the vendor packet at `get` */
    struct amdsim_buffer buffer;
};

enum amdsim_step {
    AMDSIM_STEP_DONE,
    AMDSIM_STEP_WAITS, /* for memory */
    AMDSIM_STEP_FAILED
};

struct amdsim_queue {
    struct amdsim *gpu;
    struct amdsim_queue_desc desc;
    struct sim_walk walk;
    uint64_t last_va; /* that a kernel wrote to; 0: none */
    pthread_t thread;
    pthread_mutex_t lock; /* of `bell` and the condition */
    pthread_cond_t wake;
    uint64_t bell; /* last value of the doorbell */
    bool rung;
    _Atomic uint32_t stop;  /* the queue ends, or has failed */
    bool failed;            /* this thread: a fault was told */
    _Atomic uint32_t doing; /* enum amdsim_doing */
    uint64_t get;           /* in the queue's units, never wraps */
    struct amdsim_place place;
    uint32_t xcc;                           /* whose turn it is */
    struct amdsim_die dies[AMDSIM_MAX_XCC]; /* AQL */
    bool gives_way; /* a packet that waits returns, and is run anew */
    bool waits;     /* it has */
    uint32_t sh[AMDSIM_MAX_XCC][SH_COUNT];
    uint32_t body[MAX_BODY_DW]; /* of the indirect buffer's packet */
    uint64_t seed;
    struct amdsim_queue_dump dump;
    /* One for each die that runs its packets; owned. NULL: the die has none. */
    struct amdsim_cache *cache[AMDSIM_MAX_XCC];
};

static inline bool
amdsim_stopped(const struct amdsim_queue *q)
{
    return atomic_load_explicit(&q->stop, memory_order_relaxed) != 0;
}

/* Whether it ends before the next packet. One that is dumped runs what it was
 * told to, for a dump ends where its packets do. */
static inline bool
amdsim_ends(const struct amdsim_queue *q)
{
    return amdsim_stopped(q) && (!q->dump.has_turn || q->failed);
}

/* The address in two words of a packet. */
static inline uint64_t
amdsim_address(const uint32_t *w)
{
    return w[0] | (uint64_t)w[1] << 32;
}

/* Ends the queue with a text that starts with the packet; false. */
bool amdsim_fail(struct amdsim_queue *q, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same where the command processor tells the kernel driver of it. */
bool amdsim_fail_packet(struct amdsim_queue *q, uint32_t exception,
                        const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends it if a bit is set that is not of `known`; `index` is the word's. */
static inline bool
amdsim_reserved(struct amdsim_queue *q, uint32_t word, uint32_t known,
                unsigned index)
{
    return (word & ~known) == 0 ||
           amdsim_fail(q, "word %u is 0x%08x: bits 0x%08x are reserved", index,
                       word, word & ~known);
}

/* A flush of the host's window (HDP), which ends the queue of a card without
 * one: neither the kernel nor ROCr sends it there (guess: what a card does).
 * src: Linux 6.12, amdgpu_device_flush_hdp; ROCr 6.4.3, amd_blit_sdma.cpp */
static inline bool
amdsim_may_flush(struct amdsim_queue *q)
{
    if (q->gpu->flush)
        q->gpu->flush(q->gpu->flush_user);
    return !q->gpu->chip->has_no_memory ||
           amdsim_fail(q, "an HDP flush on a card whose memory is the host's");
}

/* The same for an address. */
bool amdsim_fail_memory(struct amdsim_queue *q, uint64_t va, bool is_write,
                        uint32_t page_flags, bool is_mapped, const char *who);

/* Memory through the page tables; false after a fault. */
bool amdsim_read(struct amdsim_queue *q, uint64_t va, void *out,
                 uint64_t n_bytes, const char *who);
bool amdsim_write(struct amdsim_queue *q, uint64_t va, const void *data,
                  uint64_t n_bytes, const char *who);
/* Any number of bytes, with pauses for changes of the mappings; a fill's byte
 * i is that of `word` at i % element_bytes (1, 2 or 4). */
bool amdsim_copy(struct amdsim_queue *q, uint64_t dst, uint64_t src,
                 uint64_t n_bytes);
bool amdsim_fill(struct amdsim_queue *q, uint64_t dst, uint32_t word,
                 uint32_t element_bytes, uint64_t n_bytes);
/* Aligned words that others wait for. */
bool amdsim_load32(struct amdsim_queue *q, uint64_t va, uint32_t *out,
                   const char *who);
/* So many bytes, that are mapped, were read or written as data: those of
 * another card's memory count. */
void amdsim_count(struct amdsim_queue *q, uint64_t va, uint64_t n_bytes,
                  enum sim_link_use use, bool is_write);
/* Behind a kernel or copy whose last byte was there: amdsim_set_flip. False
 * after a fault. */
bool amdsim_decay(struct amdsim_queue *q, uint64_t va);
bool amdsim_store32(struct amdsim_queue *q, uint64_t va, uint32_t value,
                    const char *who);
bool amdsim_store64(struct amdsim_queue *q, uint64_t va, uint64_t value,
                    const char *who);
bool amdsim_add32(struct amdsim_queue *q, uint64_t va, uint32_t value,
                  const char *who);
/* The host address of n_bytes in one page, or NULL after a fault. */
void *amdsim_at(struct amdsim_queue *q, uint64_t va, uint64_t n_bytes,
                bool is_write, const char *who);

/* Operations of packets on the caches of the die whose turn it is; of all
 * dies. */
void amdsim_do_cache(struct amdsim_queue *q, uint32_t ops);
void amdsim_do_caches(struct amdsim_queue *q, uint32_t ops);

/* Waits a little for memory to change; false when the queue is to end. The
 * longer it lasted, the longer it sleeps. */
bool amdsim_pause(struct amdsim_queue *q, uint32_t *turns);

/* Compares as WAIT_REG_MEM and POLL_REGMEM do: 0 always, <, <=, ==, !=, >=,
 * >. */
bool amdsim_compare(uint32_t function, uint32_t value, uint32_t reference);

/* ---- dumps (gpu_dump.c) ---- */

/* All do nothing without a dump; false after a fault. Around each store of
 * packets: memory is dumped before the first one that counts. */
bool amdsim_dump_before(struct amdsim_queue *q, uint64_t va);
bool amdsim_dump_after(struct amdsim_queue *q, uint64_t va, const void *data,
                       uint64_t n_bytes);
/* A store of a kernel, which follows the call; at the kernel's next access, or
 * at its end, it is there. */
bool amdsim_dump_kernel(struct amdsim_queue *q, uint64_t va, const void *at,
                        uint32_t n_bytes);
bool amdsim_dump_kernel_end(struct amdsim_queue *q);
/* A time was stored there. */
bool amdsim_dump_time(struct amdsim_queue *q, uint64_t va, uint64_t n_bytes);
/* Around what a ring of the doorbell makes run: takes the turn, gives it. */
bool amdsim_dump_start(struct amdsim_queue *q);
void amdsim_dump_end(struct amdsim_queue *q, uint64_t wptr);
/* Around a pause of a packet that waits: others may have the turn. */
bool amdsim_dump_wait(struct amdsim_queue *q);
bool amdsim_dump_resume(struct amdsim_queue *q);

/* ---- stepping (gpu_step.c) ---- */

/* Memory for who looks; false where it is not mapped, without a fault. */
bool amdsim_peek(struct amdsim_queue *q, uint64_t va, void *out,
                 uint64_t n_bytes);
/* Tells who steps of what a doorbell submitted; of the packet at q->place, its
 * first word and what follows; of a kernel. Each where it is wanted. */
void amdsim_step_submit(struct amdsim_queue *q);
void amdsim_step_packet(struct amdsim_queue *q, uint32_t format,
                        uint32_t header, const uint32_t *body, uint32_t n_dw);
void amdsim_step_kernel(struct amdsim_queue *q,
                        const struct amd_launch *launch);

/* ---- packets ---- */

/* Processes what lies between q->get and `put`. */
bool amdsim_pm4_run(struct amdsim_queue *q, uint64_t put);  /* words */
bool amdsim_aql_run(struct amdsim_queue *q, uint64_t put);  /* packets */
bool amdsim_sdma_run(struct amdsim_queue *q, uint64_t put); /* bytes */

/* PM4 words in memory, on q->xcc, to their end or to a wait that is not over
 * (gpu_pm4.c). */
enum amdsim_step amdsim_pm4_buffer(struct amdsim_queue *q,
                                   struct amdsim_buffer *buffer);

/* A launch by the registers of q->xcc; initiator as in DISPATCH_DIRECT
 * (gpu_dispatch.c). */
bool amdsim_dispatch(struct amdsim_queue *q, const uint32_t grid[3],
                     uint32_t initiator);

/* What an AQL packet says beyond the kernel's descriptor. */
struct amdsim_aql_launch {
    uint64_t descriptor_va, kernarg_va, packet_va;
    uint32_t grid[3], local[3]; /* work-items, of a group */
    uint32_t group_bytes, private_bytes;
};
/* The share of q->xcc. */
bool amdsim_dispatch_aql(struct amdsim_queue *q,
                         const struct amdsim_aql_launch *launch);

#endif
