/* Shared by the files of the simulated card.
 *
 * A channel's thread reads its ring and does what the methods say, one after
 * the other. Launches of kernels and copies wait in short lists until something
 * orders them (wait for idle, a release with WFI, an acquire, the end of the
 * ring), as they may on a card: a release without WFI does not wait for them.
 *
 * src: docs/hardware/nvidia-queues.md; the class headers of
 * NVIDIA/open-gpu-doc.
 */
#ifndef BELL_SIM_NV_GPU_GPU_INTERNAL_H
#define BELL_SIM_NV_GPU_GPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/nv/gpu/gpu.h"
#include "sim/space.h"

/* The kernel's own channels have the ids before it. src: observed: H100,
 * 2026-11-22 */
#define NVGPU_FIRST_CHANNEL 4u

#define NVGPU_PAGE_BYTES   4096u
#define NVGPU_N_SUBCH      8
#define NVGPU_N_BANKS      8
#define NVGPU_N_STATE      0xa00 /* words of method state: offsets to 0x2800 */
#define NVGPU_QMD_MAX_DW   96
#define NVGPU_MAX_PENDING  16
#define NVGPU_MAX_WAITING  64
#define NVGPU_N_DEPENDENTS 2

/* Robust-channel codes. src: docs/hardware/nvidia-queues.md, "Errors" */
enum nvgpu_code {
    NVGPU_CODE_SM = 13,
    NVGPU_CODE_MMU = 31,
    NVGPU_CODE_PBDMA = 32,
    NVGPU_CODE_CLASS = 69,
    NVGPU_CODE_SWITCH = 109,
};

enum nvgpu_access {
    NVGPU_READ,
    NVGPU_WRITE,
    NVGPU_ATOMIC
};

struct nvgpu_space {
    struct sim_space *pages; /* owned */
};

/* ---- stores through BAR1 (gpu_bar.c) ---- */

/* Whether the CPU's stores to a channel's USERD are still on their way. */
struct nvgpu_posted {
    _Atomic uint32_t is_pending;
    _Atomic bool is_armed; /* it is known; else they all have arrived */
};

/* The process sees USERD there. */
void nvgpu_bar_add(struct nvgpu_posted *posted, void *userd);
/* From now on its stores and loads there are seen. Again and again is cheap. */
void nvgpu_bar_arm(struct nvgpu_posted *posted);
/* The channel goes. */
void nvgpu_bar_forget(const struct nvgpu_posted *posted);

/* ---- card (gpu.c) ---- */

struct nvgpu_module; /* gpu_code.c */

struct nvgpu {
    const struct nvgpu_chip *chip;
    struct sim_links *traffic; /* borrowed; NULL: it stands alone */
    uint32_t index;
    int window_fd;
    _Atomic uint32_t *window; /* mapped */
    pthread_t watcher;
    _Atomic uint32_t quit;
    pthread_mutex_t lock;      /* of what follows */
    struct nvgpu_chan **chans; /* owned array; not what it points to */
    size_t n_chans, cap_chans;
    _Atomic uint32_t n_writers; /* kernels and copies, for flip_every */
    uint32_t next_channel_id;   /* see NVGPU_FIRST_CHANNEL */
    uint64_t n_bad_bells;
    char bell_text[128];
    pthread_mutex_t
        turn_lock; /* of what follows, and of has_turn; before lock */
    struct nvgpu_waiter *turn_waiters; /* in the order that they came */
    const void *turn_group;            /* whose kernels run */
    uint32_t n_turns;                  /* that run */
    uint64_t turn_changes;
    pthread_mutex_t code_lock;    /* of the list */
    struct nvgpu_module *modules; /* owned list */
};

/* ---- launches ---- */

struct nvgpu_bank {
    bool valid;
    uint64_t va;
    uint32_t size_bytes;
};

struct nvgpu_release {
    bool enable, payload64, reduction, is_signed;
    uint32_t op, structure; /* 0: four words, 1: one, 2: two */
    uint64_t va, payload;
};

/* Where in the ring a channel is: what error texts name. */
struct nvgpu_place {
    uint64_t va; /* of the word */
    uint32_t entry, method, data;
};

/* What a descriptor does to another one when its grid is done.
 * src: open-gpu-doc, clcbc0qmd.h, DEPENDENT_QMD0_ACTION */
enum nvgpu_dependent_action {
    NVGPU_QMD_SCHEDULE = 1,
    NVGPU_QMD_INVALIDATE_COPY_SCHEDULE = 3,
    NVGPU_QMD_DECREMENT_DEPENDENCE = 4
};

struct nvgpu_dependent {
    bool enable, prefetch;
    uint32_t action;
    uint64_t qmd_va, hash; /* as it was when the other one was listed */
};

/* A launch descriptor, decoded. */
struct nvgpu_launch {
    struct nvgpu_place place; /* that sent it, or the first of its chain */
    uint64_t qmd_va, hash;    /* of the descriptor */
    uint32_t counter;         /* runs at 0 */
    bool requires_pcas;       /* and when it has been asked for again */
    struct nvgpu_dependent dependents[NVGPU_N_DEPENDENTS];
    uint64_t program_va;
    uint32_t grid[3], block[3];
    uint32_t n_regs, n_barriers;
    uint32_t shared_bytes, min_kib, max_kib, target_kib;
    uint32_t local_low_bytes, local_high_bytes;
    bool invalidates_code, invalidates_constants;
    struct nvgpu_bank banks[NVGPU_N_BANKS];
    struct nvgpu_release releases[3];
};

/* What LAUNCH_DMA of a copy engine does, with the state that it had. */
struct nvgpu_copy {
    struct nvgpu_place place;
    uint32_t launch, length, count, pitch_in, pitch_out;
    uint32_t consts[2], components;
    uint64_t in, out, sem_va, sem_payload;
};

/* ---- channels (gpu_chan.c) ---- */

/* Data that LOAD_INLINE_DATA or LOAD_INLINE_QMD_DATA still brings. */
struct nvgpu_inline {
    uint64_t va;
    uint32_t n_bytes; /* of the transfer; 0: none */
    uint32_t done_bytes;
    uint32_t launch; /* the LAUNCH_DMA word */
};

/* Code that this channel has run: what its instruction cache may hold. */
struct nvgpu_cached {
    uint64_t va;
    struct nvgpu_module *module;
    uint32_t epoch; /* of n_code_invalidates */
};

/* A descriptor that the scheduler has seen. */
struct nvgpu_seen {
    uint64_t qmd_va, hash; /* 0: none */
};

/* Constants that a kernel has read. */
struct nvgpu_constants {
    uint64_t va, hash; /* 0: none */
    uint32_t epoch;    /* of n_constant_invalidates */
};

struct nvgpu_chan {
    struct nvgpu *gpu;
    struct nvgpu_chan_desc desc;
    uint32_t token, n_bits_va;
    uint8_t *last_written;  /* by the kernel or copy that runs; NULL: nothing */
    bool has_extended_base; /* of the class */
    pthread_t thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool enabled, quit;
    uint32_t put;         /* GPPut as of the last ring */
    uint32_t settled_put; /* as all stores before the last ring left it */
    uint32_t dice;        /* for a ring that overtakes them */
    struct nvgpu_posted posted;
    uint32_t objects[8];
    uint32_t n_objects;
    struct nvgpu_fault fault; /* code is set last, once */
    _Atomic uint32_t stop;    /* not 0: end what runs */
    _Atomic uint32_t evicted; /* not 0: for keeping others waiting */
    bool has_turn;            /* its kernel runs; gpu->turn_lock */
    _Atomic bool by_block;    /* others have their turn between two blocks */

    /* the thread's own */
    bool is_told; /* desc.on_fault was called, or there is nothing to tell */
    uint32_t get;
    uint64_t extended_base; /* VA bits 63:40 of pushbuffers */
    struct nvgpu_place at;
    uint32_t subch[NVGPU_N_SUBCH]; /* class bound; 0: none */
    uint32_t sem_addr[2], sem_payload[2], mem_op[3];
    uint32_t compute[NVGPU_N_STATE], copy[NVGPU_N_STATE];
    struct nvgpu_inline inline_data;
    uint32_t inline_qmd[NVGPU_QMD_MAX_DW], n_inline_qmd;
    struct nvgpu_launch pending[4 * NVGPU_MAX_PENDING];
    uint32_t n_pending;
    struct nvgpu_launch waiting[NVGPU_MAX_WAITING]; /* for another's end */
    uint32_t n_waiting;
    bool is_draining;                            /* a launch of the list runs */
    struct nvgpu_copy copies[NVGPU_MAX_PENDING]; /* in order */
    uint32_t n_copies;
    struct nvgpu_cached *cached; /* owned array */
    size_t n_cached, cap_cached;
    uint32_t n_code_invalidates;
    struct nvgpu_seen seen[64];
    struct nvgpu_constants constants[256];
    uint32_t n_constant_invalidates;
    uint8_t bank[2][65536]; /* banks 0 and 3 of what runs */
    struct sim_walk walk;
    int span_owner; /* of what nvgpu_span gave last: another card, or -1 */
};

/* Looks at GPPut; called by the watcher, with gpu->lock held. */
void nvgpu_chan_rung(struct nvgpu_chan *chan, bool is_bar0);

/* Ends the channel: fault record, notifier. False always, so that who meets
 * an error returns it. The text gets the place before it. */
bool nvgpu_fail(struct nvgpu_chan *chan, uint32_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool nvgpu_fail_mmu(struct nvgpu_chan *chan, uint64_t va,
                    enum nvgpu_access access, const char *who);
/* As it is, without a place. All three: the channel's thread only. */
void nvgpu_chan_end(struct nvgpu_chan *chan, const struct nvgpu_fault *fault);
static inline bool
nvgpu_stopped(const struct nvgpu_chan *chan)
{
    return atomic_load_explicit(&chan->stop, memory_order_relaxed) != 0;
}

/* ---- memory accesses (gpu_access.c); false after a fault ---- */

/* Host address behind va and how many bytes lie there in one piece; NULL, and
 * no fault yet: not mapped (0 bytes), or not for writing (more). It stays valid
 * until the walk is left or pauses (gpu_space.c). */
void *nvgpu_span(struct nvgpu_chan *chan, uint64_t va, bool is_write,
                 uint64_t *out_bytes);
/* Where the memory of each card of a team lies at a team's address, in no
 * order; counted as data. 0: there is none, or a card of the team has none. */
uint32_t nvgpu_team_at(struct nvgpu_chan *chan, uint64_t va, uint32_t n_bytes,
                       bool is_write, uint8_t *out[NVGPU_TEAM_MAX]);
/* That many bytes at va, in one piece and mapped, are read or written as data:
 * of another card's memory they count. */
void nvgpu_count_data(struct nvgpu_chan *chan, uint64_t va, uint64_t bytes,
                      bool is_write, bool by_kernel);
bool nvgpu_read(struct nvgpu_chan *chan, uint64_t va, void *out, uint64_t bytes,
                const char *who);
/* Behind a kernel or copy: nvgpu_chip's flip_every. */
void nvgpu_decay(struct nvgpu_chan *chan);
bool nvgpu_write(struct nvgpu_chan *chan, uint64_t va, const void *data,
                 uint64_t bytes, const char *who);
/* A word of 4 or 8 bytes, aligned, atomically. */
bool nvgpu_load_word(struct nvgpu_chan *chan, uint64_t va, uint32_t n_bytes,
                     uint64_t *out_value, const char *who);

/* Reductions in the numbers of host semaphores.
 * src: open-gpu-doc, clc56f.h, SEM_EXECUTE */
enum nvgpu_reduction {
    NVGPU_RED_MIN,
    NVGPU_RED_MAX,
    NVGPU_RED_XOR,
    NVGPU_RED_AND,
    NVGPU_RED_OR,
    NVGPU_RED_ADD,
    NVGPU_RED_INC,
    NVGPU_RED_DEC,
    NVGPU_RED_COUNT
};

/* A semaphore's release or reduction. */
struct nvgpu_sem {
    uint64_t va, payload;
    uint32_t n_bytes; /* of the payload: 4 or 8 */
    bool timestamp;   /* a record of 16 bytes: time at 8 */
    bool reduction, is_signed;
    enum nvgpu_reduction op;
};
/* Everything written before is visible to who sees it. `code` is the error
 * for a misaligned address. */
bool nvgpu_sem_write(struct nvgpu_chan *chan, const struct nvgpu_sem *sem,
                     uint32_t code, const char *who);
/* RED_ADD, RED_MIN... of classes and descriptors as the above. */
enum nvgpu_reduction nvgpu_class_reduction(uint32_t op);

/* ---- stepping (gpu_step.c) ---- */

/* Memory for who looks; false where it is not mapped, without a fault. */
bool nvgpu_peek(struct nvgpu_chan *chan, uint64_t va, void *out,
                uint64_t bytes);
/* Tells who steps of a ring entry; of a header and `n_dw` words with it; of a
 * kernel. Each where it is wanted. */
void nvgpu_step_entry(struct nvgpu_chan *chan, uint64_t entry);
void nvgpu_step_packet(struct nvgpu_chan *chan, uint64_t n_dw);
struct nvgpu_launch;
void nvgpu_step_kernel(struct nvgpu_chan *chan,
                       const struct nvgpu_launch *launch, const char *name);

/* ---- methods ---- */

/* Below 0x100, on any subchannel (gpu_host.c). */
bool nvgpu_host_method(struct nvgpu_chan *chan, uint32_t subch, uint32_t method,
                       uint32_t data);
/* gpu_compute.c */
bool nvgpu_compute_method(struct nvgpu_chan *chan, uint32_t method,
                          uint32_t data);
/* gpu_copy.c */
bool nvgpu_copy_method(struct nvgpu_chan *chan, uint32_t method, uint32_t data);

/* ---- descriptors and kernels ---- */

/* Decodes and checks the words of a descriptor (gpu_qmd.c). */
bool nvgpu_qmd_decode(struct nvgpu_chan *chan, const uint32_t *dw,
                      struct nvgpu_launch *out_launch);
uint32_t nvgpu_qmd_dw(const struct nvgpu_chip *chip);
/* The scheduler's copy of a descriptor (UINT64_MAX: of all) is dropped, or
 * made if there is none. */
bool nvgpu_qmd_cache(struct nvgpu_chan *chan, uint64_t qmd_va, bool drop);
/* Reads and checks a descriptor, and lists the launch, or lets it wait for what
 * it depends on (gpu_launch.c). Its counter is `copied` from the fields, or as
 * the hardware left it, which is known of one that waits or never had any. */
bool nvgpu_launch_qmd(struct nvgpu_chan *chan, uint64_t qmd_va, bool copied);
/* One that waits has one less to wait for. */
bool nvgpu_qmd_decrement(struct nvgpu_chan *chan, uint64_t qmd_va);
/* Around a kernel (gpu_turn.c). False: the channel was stopped before. */
bool nvgpu_turn_begin(struct nvgpu_chan *chan);
void nvgpu_turn_end(struct nvgpu_chan *chan);
/* Between two blocks of it. True: others had a turn. */
bool nvgpu_turn_pass(struct nvgpu_chan *chan);
/* Runs what is listed: kernels alone, copies alone, all. */
bool nvgpu_drain_kernels(struct nvgpu_chan *chan);
bool nvgpu_drain_copies(struct nvgpu_chan *chan); /* gpu_copy.c */
bool nvgpu_drain(struct nvgpu_chan *chan);

struct sim_ptx_module;
/* A text in device memory, parsed, or one that machine code stands for
 * (gpu_code.c). Lives as long as the card. */
struct nvgpu_module {
    struct nvgpu_module *next;
    uint64_t hash;
    char *text; /* owned */
    uint32_t text_bytes;
    /* What of it lies in memory, behind header_bytes. */
    const void *image;
    uint32_t image_bytes, header_bytes;
    struct sim_ptx_module *ptx; /* owned */
};
/* The module at a program address. */
struct nvgpu_module *nvgpu_code_find(struct nvgpu_chan *chan, uint64_t va);
void nvgpu_code_free(struct nvgpu *gpu);
/* Where a line of the text lies; of machine code, where it begins. */
uint64_t nvgpu_code_line_va(const struct nvgpu_module *module, uint64_t va,
                            uint32_t line);

#endif
