/* Shared by the files of the simulated AMD card. */
#ifndef BELL_SIM_AMD_GPU_GPU_INTERNAL_H
#define BELL_SIM_AMD_GPU_GPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/amd/gpu/gpu.h"
#include "sim/amd/gpu/gpu_cache.h"
#include "sim/amd/isa/wave.h"
#include "sim/space.h"

#define AMDGPU_MAX_XCC 8
#define SH_FIRST       0x2c00u /* registers that SET_SH_REG reaches */
#define SH_COUNT       0x400u
#define MAX_BODY_DW    0x4000u /* 14 bits of count */

/* ---- the card (gpu.c) -------------------------------------------------------- */

struct amdgpu {
    const struct amdgpu_chip *chip;
    struct amd_code *code;
    uint64_t start_ns;
    pthread_t watcher;
    _Atomic uint32_t quit;
    pthread_mutex_t lock;         /* the list */
    pthread_cond_t wake;          /* the first queue is there, or the end */
    struct amdgpu_queue **queues; /* owned array; not what it points to */
    size_t n_queues, cap_queues;
    struct amd_dump *dump; /* NULL: none */
};

struct amdgpu_space {
    struct amdgpu *gpu;
    struct sim_space *pages; /* owned */
    _Atomic uint32_t evicted;
    struct amd_dump_map *dump_map; /* owned; NULL: no dump */
};

/* ---- queues (gpu_queue.c) ------------------------------------------------------ */

/* What a queue does with the words of a packet, for reports. */
struct amdgpu_place {
    uint64_t va;      /* of the packet's first word */
    const char *name; /* of the packet */
};

/* A queue's side of the dump form (gpu_dump.c); of its thread. */
struct amdgpu_queue_dump {
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
struct amdgpu_buffer {
    uint64_t va;
    uint32_t n_dw, at;
    uint32_t predicated; /* words that PRED_EXEC still covers */
    bool skips;          /* they are for another die */
};

/* How far a die has come with an AQL queue. */
struct amdgpu_die {
    uint64_t get;        /* packets */
    uint64_t n_launched; /* up to and with the last kernel or barrier */
    uint64_t start;      /* when its last kernel began */
    bool in_buffer;      /* of the vendor packet at `get` */
    struct amdgpu_buffer buffer;
};

enum amdgpu_step {
    AMDGPU_STEP_DONE,
    AMDGPU_STEP_WAITS, /* for memory */
    AMDGPU_STEP_FAILED
};

struct amdgpu_queue {
    struct amdgpu *gpu;
    struct amdgpu_queue_desc desc;
    struct sim_walk walk;
    pthread_t thread;
    pthread_mutex_t lock; /* of `bell` and the condition */
    pthread_cond_t wake;
    uint64_t bell; /* last value of the doorbell */
    bool rung;
    _Atomic uint32_t stop; /* the queue ends, or has failed */
    bool failed;           /* this thread: a fault was told */
    uint64_t get;          /* in the queue's units, never wraps */
    struct amdgpu_place place;
    uint32_t xcc;                           /* whose turn it is */
    struct amdgpu_die dies[AMDGPU_MAX_XCC]; /* AQL */
    bool gives_way; /* a packet that waits returns, and is run anew */
    bool waits;     /* it has */
    uint32_t sh[AMDGPU_MAX_XCC][SH_COUNT];
    uint32_t body[MAX_BODY_DW]; /* of the indirect buffer's packet */
    uint64_t seed;
    struct amdgpu_queue_dump dump;
    /* Of each die that runs its packets; owned. NULL: it has none. */
    struct amdgpu_cache *cache[AMDGPU_MAX_XCC];
};

static inline bool
amdgpu_stopped(const struct amdgpu_queue *q)
{
    return atomic_load_explicit(&q->stop, memory_order_relaxed) != 0;
}

/* Ends the queue with a text that starts with the packet; false. */
bool amdgpu_fail(struct amdgpu_queue *q, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for an address. */
bool amdgpu_fail_memory(struct amdgpu_queue *q, uint64_t va, bool is_write,
                        uint32_t page_flags, bool is_mapped, const char *who);

/* Memory through the page tables; false after a fault. */
bool amdgpu_read(struct amdgpu_queue *q, uint64_t va, void *out,
                 uint64_t n_bytes, const char *who);
bool amdgpu_write(struct amdgpu_queue *q, uint64_t va, const void *data,
                  uint64_t n_bytes, const char *who);
/* Any number of bytes, with pauses for changes of the mappings; a fill's byte
 * i is that of `word` at i % unit (1, 2 or 4). */
bool amdgpu_copy(struct amdgpu_queue *q, uint64_t dst, uint64_t src,
                 uint64_t n_bytes);
bool amdgpu_fill(struct amdgpu_queue *q, uint64_t dst, uint32_t word,
                 uint32_t unit, uint64_t n_bytes);
/* Aligned words that others wait for. */
bool amdgpu_load32(struct amdgpu_queue *q, uint64_t va, uint32_t *out,
                   const char *who);
bool amdgpu_store32(struct amdgpu_queue *q, uint64_t va, uint32_t value,
                    const char *who);
bool amdgpu_store64(struct amdgpu_queue *q, uint64_t va, uint64_t value,
                    const char *who);
/* The host address of n_bytes in one page, or NULL after a fault. */
void *amdgpu_at(struct amdgpu_queue *q, uint64_t va, uint64_t n_bytes,
                bool is_write, const char *who);

/* Operations of packets on the caches of the die whose turn it is; of all
 * dies. */
void amdgpu_do_cache(struct amdgpu_queue *q, uint32_t ops);
void amdgpu_do_caches(struct amdgpu_queue *q, uint32_t ops);

/* Waits a little for memory to change; false when the queue is to end. The
 * longer it lasted, the longer it sleeps. */
bool amdgpu_pause(struct amdgpu_queue *q, uint32_t *turns);

/* Compares as WAIT_REG_MEM and POLL_REGMEM do: 0 always, <, <=, ==, !=, >=,
 * >. */
bool amdgpu_compare(uint32_t function, uint32_t value, uint32_t reference);

/* ---- dumps (gpu_dump.c) ---------------------------------------------------------- */

/* All do nothing without a dump; false after a fault. Around each store of
 * packets: memory is dumped before the first one that counts. */
bool amdgpu_dump_before(struct amdgpu_queue *q, uint64_t va);
bool amdgpu_dump_after(struct amdgpu_queue *q, uint64_t va, const void *data,
                       uint64_t n_bytes);
/* A store of a kernel, which follows the call; at the kernel's next access, or
 * at its end, it is there. */
bool amdgpu_dump_kernel(struct amdgpu_queue *q, uint64_t va, const void *at,
                        uint32_t n_bytes);
bool amdgpu_dump_kernel_end(struct amdgpu_queue *q);
/* A time was stored there. */
bool amdgpu_dump_time(struct amdgpu_queue *q, uint64_t va, uint64_t n_bytes);
/* Around what a ring of the doorbell makes run: takes the turn, gives it. */
bool amdgpu_dump_start(struct amdgpu_queue *q);
void amdgpu_dump_end(struct amdgpu_queue *q, uint64_t wptr);
/* Around a pause of a packet that waits: others may have the turn. */
bool amdgpu_dump_wait(struct amdgpu_queue *q);
bool amdgpu_dump_resume(struct amdgpu_queue *q);

/* ---- packets ----------------------------------------------------------------------- */

/* Processes what lies between q->get and `put`. */
bool amdgpu_pm4_run(struct amdgpu_queue *q, uint64_t put);  /* words */
bool amdgpu_aql_run(struct amdgpu_queue *q, uint64_t put);  /* packets */
bool amdgpu_sdma_run(struct amdgpu_queue *q, uint64_t put); /* bytes */

/* PM4 words in memory, on q->xcc, to their end or to a wait that is not over
 * (gpu_pm4.c). */
enum amdgpu_step amdgpu_pm4_buffer(struct amdgpu_queue *q,
                                   struct amdgpu_buffer *buffer);

/* A launch by the registers of q->xcc; initiator as in DISPATCH_DIRECT
 * (gpu_dispatch.c). */
bool amdgpu_dispatch(struct amdgpu_queue *q, const uint32_t grid[3],
                     uint32_t initiator);

/* What an AQL packet says beyond the kernel's descriptor. */
struct amdgpu_aql_launch {
    uint64_t descriptor_va, kernarg_va, packet_va;
    uint32_t grid[3], local[3]; /* work-items, of a group */
    uint32_t group_bytes, private_bytes;
};
/* The share of q->xcc. */
bool amdgpu_dispatch_aql(struct amdgpu_queue *q,
                         const struct amdgpu_aql_launch *launch);

#endif
