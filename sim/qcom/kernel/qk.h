/* The simulated kernel drivers' own structures: KGSL and msm have contexts (or
 * submit queues), buffers and batches in common.
 * src: docs/hardware/adreno-kernel.md, "KGSL", "msm" */
#ifndef BELL_SIM_QCOM_KERNEL_QK_H
#define BELL_SIM_QCOM_KERNEL_QK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ioctl/kio.h"
#include "sim/qcom/gpu/gpu.h"

#define QK_PAGE       4096u
#define QK_FIRST_FD   4000
#define QK_MAX_FILES  64u
#define QK_MAX_QUEUED 50u /* batches of a context */
#define QK_MAX_FAULTS 8u  /* of a context, that are kept */

struct qk_rd;

/* Memory of the process. */
struct qk_buf {
    uint32_t id;
    uint64_t va, size_bytes; /* of pages */
    uint64_t flags;          /* as the kernel gives them back */
    int fd;                  /* of the memory; -1: the process's own */
    uint8_t *cpu;            /* as the CPU sees it */
    uint8_t *dev; /* as the card does: the same, or what caches hide */
    bool is_read_only, is_user;
    uint32_t owner;  /* the DRM file that it is of */
    uint64_t serial; /* the last batch that may use it */
    /* freed when this context's timestamp has passed; 0: not asked for */
    uint32_t free_context, free_timestamp;
};

struct qk_fault {
    uint64_t va;
    uint32_t bits; /* of KGSL_PAGEFAULT_* */
};

/* A context of KGSL, a submit queue of msm. */
struct qk_context {
    uint32_t id, flags, owner;
    uint32_t queued, retired; /* timestamps, fences */
    uint32_t n_queued;        /* batches */
    bool is_invalid, is_gone;
    bool tells_fault; /* the next call says EPROTO */
    bool is_guilty, is_innocent;
    uint32_t n_faults, n_kept;
    struct qk_fault faults[QK_MAX_FAULTS]; /* of addresses */
    uint32_t fault_timestamp;
};

struct qk_batch {
    struct qsim_batch b; /* first */
    struct qk_machine *machine;
    uint32_t context, timestamp;
    uint64_t serial;
    uint32_t n_ranges;
    struct qsim_range ranges[]; /* streams, then what may be touched */
};

struct qk_machine {
    struct qsim_chip own_chip;
    const struct qsim_chip *chip; /* own_chip */
    bool is_msm;
    pid_t pid; /* whose it is: a fork makes no second one */
    struct qsim *gpu;
    struct qsim_space *space;
    struct qk_rd *rd; /* NULL: none is written */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t retired;
    uint32_t files[QK_MAX_FILES]; /* serials of those that are open; 0: free */
    uint32_t n_opened;
    struct qk_buf **bufs; /* owned; by address */
    size_t n_bufs, cap_bufs;
    uint32_t next_id;
    uint64_t va_first, va_end, next_va;
    struct qk_context **contexts; /* owned */
    size_t n_contexts, cap_contexts;
    uint32_t next_context;
    uint64_t n_submitted, n_done; /* batches */
    struct qk_context *running;   /* whose batch the card has; NULL: none */
    uint64_t running_since_ns;
    uint32_t n_faults;
    char fault_text[512];
};

/* Why the calling thread's last call failed, for kio's explain. Returns the
 * negative errno. */
int qk_fail(int error, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *qk_why(void);
void qk_why_clear(void);

/* A caller's pointer; NULL: none that can be one. */
static inline void *
qk_user(uint64_t pointer)
{
    return pointer < 0x10000 ? NULL : (void *)(uintptr_t)pointer;
}

/* Calls; the machine's lock is held, and is let go of while they wait. `owner`
 * is the file's serial. */
int kgsl_call(struct qk_machine *m, unsigned long request, void *arg);
int msm_call(struct qk_machine *m, uint32_t owner, unsigned long request,
             void *arg);

/* ---- memory (qk_memory.c) ---- */

/* Memory that the CPU caches and the card does not see into has two sides. */
int qk_alloc(struct qk_machine *m, uint64_t size_bytes, uint64_t align,
             bool has_two_sides, bool is_read_only, struct qk_buf **out_buf);
/* Pages of the process's own. */
int qk_import(struct qk_machine *m, void *host, uint64_t size_bytes,
              bool has_two_sides, bool is_read_only, struct qk_buf **out_buf);
struct qk_buf *qk_find_buf(struct qk_machine *m, uint32_t id);
/* The one that the address lies in. */
struct qk_buf *qk_find_va(struct qk_machine *m, uint64_t va);
void qk_drop_buf(struct qk_machine *m, struct qk_buf *buf);
/* Between the two sides, whole lines of 64 bytes. */
void qk_sync(struct qk_buf *buf, uint64_t offset, uint64_t size_bytes,
             bool clean, bool invalidate);

/* ---- contexts and batches (qk_submit.c) ---- */

int qk_context_create(struct qk_machine *m, uint32_t id, uint32_t flags,
                      uint32_t owner, struct qk_context **out_context);
struct qk_context *qk_find_context(struct qk_machine *m, uint32_t id,
                                   uint32_t owner);
/* Its remaining work is dropped; waits for what runs, which gets no more time
 * than the kernel gives to a batch. */
void qk_context_destroy(struct qk_machine *m, struct qk_context *context);
/* For a context with room. qk_submit takes the batch, which has its streams
 * and, at the end, the ranges that it may touch: it becomes the machine's. Sets
 * the timestamp. */
struct qk_batch *qk_batch_create(uint32_t n_ranges);
void qk_submit(struct qk_machine *m, struct qk_context *context,
               struct qk_batch *batch, uint32_t n_ibs, bool is_bounded);
/* Waits until the context's timestamp has passed: 0, -ETIMEDOUT, or what became
 * of the context. A deadline of CLOCK_MONOTONIC in ns; UINT64_MAX: none. */
int qk_wait(struct qk_machine *m, uint32_t context, uint32_t owner,
            uint32_t timestamp, uint64_t deadline_ns);
/* Until so many batches have ended. */
int qk_wait_serial(struct qk_machine *m, uint64_t serial, uint64_t deadline_ns);
uint64_t qk_now_ns(void);
static inline bool
qk_has_passed(uint32_t timestamp, uint32_t reference)
{
    return (int32_t)(timestamp - reference) >= 0;
}

/* ---- captures (qk_rd.c) ---- */

BELL_MUST_CHECK bell_status qk_rd_create(const char *path, uint32_t chip_id,
                                         struct qk_rd **out_rd);
void qk_rd_destroy(struct qk_rd *rd);
/* Buffers as the card sees them, then the streams. */
void qk_rd_submission(struct qk_rd *rd, struct qk_buf *const *bufs, size_t n,
                      const struct qsim_batch *batch);

#endif
