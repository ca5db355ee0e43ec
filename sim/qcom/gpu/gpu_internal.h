/* The simulated Adreno's own structures. */
#ifndef BELL_SIM_QCOM_GPU_GPU_INTERNAL_H
#define BELL_SIM_QCOM_GPU_GPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/qcom/gpu/gpu.h"
#include "sim/space.h"

#define QSIM_PAGE       4096u
#define QSIM_LINE       64u
#define QSIM_N_REGS     0x20000u
#define QSIM_HANG_NS    2000000000ull
#define QSIM_MAX_PAGES  4096u /* of the cache */
#define QSIM_N_BUCKETS  1024u
#define QSIM_MAX_CONSTS 512u
#define QSIM_N_UBOS     16u
#define QSIM_N_CODES    64u

/* A page of the cache: lines that are valid, bytes that are dirty. */
struct qsim_line_page {
    struct qsim_line_page *next;
    uint64_t va;     /* of the page */
    uint8_t *memory; /* behind it */
    bool is_read_only;
    uint32_t checked; /* the batch that may touch it */
    uint64_t valid;
    uint64_t dirty[QSIM_PAGE / 64];
    uint8_t data[QSIM_PAGE];
};

struct qsim_space {
    struct qsim *gpu;
    struct sim_space *pages;                        /* owned */
    struct sim_walk walk;                           /* the card's thread's */
    struct qsim_line_page *buckets[QSIM_N_BUCKETS]; /* owned */
    uint32_t n_cached;
    struct qsim_line_page *recent[64];
};

/* A register, and whether this batch wrote it. */
struct qsim_state {
    uint32_t regs[QSIM_N_REGS];
    uint8_t written[QSIM_N_REGS / 8];
    uint32_t consts[QSIM_MAX_CONSTS * 4];
    uint64_t consts_set[QSIM_MAX_CONSTS / 64];
    struct shader_ubo ubos[QSIM_N_UBOS];
    uint64_t code_va; /* that was loaded ahead; 0: none */
    uint32_t code_units;
    bool has_state; /* invalidated since the batch began */
    bool is_compute, has_label;
};

struct qsim_code {
    uint64_t va;
    struct shader_code *code;
};

struct qsim {
    const struct qsim_chip *chip;
    pthread_t thread;
    pthread_mutex_t lock; /* the queue */
    pthread_cond_t wakes;
    struct qsim_batch *first, **last;
    bool is_running, is_ending;
    _Atomic uint32_t stop; /* what runs */

    pthread_mutex_t memory_lock; /* spaces and caches; held while it runs */
    _Atomic uint32_t n_waiting;  /* that want it */

    /* The batch under way; the device's thread has it. */
    struct qsim_batch *batch;
    uint32_t serial;
    uint32_t n_accesses;
    struct qsim_state *state; /* owned */
    struct qsim_result result;
    uint64_t at_va; /* of the packet */
    struct qsim_code codes[QSIM_N_CODES];
    uint32_t seed;
};

/* What goes wrong; false. */
bool qsim_fail(struct qsim *gpu, enum qsim_fault fault, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- gpu_memory.c ---- */

/* Takes the memory lock from the card's thread. */
void qsim_memory_lock(struct qsim *gpu);
void qsim_memory_unlock(struct qsim *gpu);
/* Lets others have it. */
void qsim_memory_pause(struct qsim *gpu);
/* Memory itself: false with the fault where it is not mapped. */
bool qsim_read(struct qsim *gpu, uint64_t va, void *data, uint32_t n_bytes);
bool qsim_write(struct qsim *gpu, uint64_t va, const void *data,
                uint32_t n_bytes);
/* Through the cache; n_bytes lie in one line. NULL: the fault is set. */
void *qsim_cached(struct qsim *gpu, uint64_t va, uint32_t n_bytes,
                  enum shader_access access);
bool qsim_cached_read(struct qsim *gpu, uint64_t va, void *data,
                      uint32_t n_bytes);
void qsim_flush(struct qsim_space *space);
void qsim_invalidate(struct qsim_space *space);
/* What a reset does: what was not flushed is nowhere. */
void qsim_lose(struct qsim_space *space);

/* ---- gpu_cp.c, gpu_launch.c ---- */

/* A stream and what it reaches. False: the fault is set. */
bool qsim_run_stream(struct qsim *gpu, uint64_t va, uint32_t n_dw,
                     unsigned depth);
/* Registers of a chip that streams may write. */
bool qsim_may_write(const struct qsim_chip *chip, uint32_t reg);
bool qsim_launch(struct qsim *gpu, const uint32_t groups[3]);

static inline bool
qsim_was_written(const struct qsim_state *s, uint32_t reg)
{
    return s->written[reg / 8] >> (reg & 7) & 1;
}

#endif
