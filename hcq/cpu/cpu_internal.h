/* The CPU as a device: what its files share.
 *
 * cpu_device.c  device, memory, programs    cpu_queue.c   packets of a queue
 * cpu_object.c  ELF loader                  cpu_worker.c  grids over threads
 *                                           cpu_fault.c   faults in kernels
 */
#ifndef BELL_HCQ_CPU_CPU_INTERNAL_H
#define BELL_HCQ_CPU_CPU_INTERNAL_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

#include "hcq/cpu/cpu_object.h"
#include "hcq/hcq_feed.h"

#define CPU_QUEUES_MAX 64 /* per device: bits of a word */

/* ---- programs ------------------------------------------------------------ */

typedef void cpu_kernel_fn(const uint64_t *args, const uint32_t grid[3],
                           uint64_t first, uint64_t last);

struct cpu_program {
    struct hcq_program_base base;
    struct cpu_object object; /* owned */
    cpu_kernel_fn *entry;
    /* Above 0 while a queue is being stopped: the code cannot be executed,
     * so that a kernel that does not end faults and can be left. */
    _Atomic uint32_t n_revoked;
};

/* ---- work over threads ---- */

/* Why a kernel was left. */
enum cpu_leave {
    CPU_LEAVE_DONE,
    CPU_LEAVE_FAULT,
    CPU_LEAVE_STOPPED, /* the queue is being stopped */
};

/* What a worker met, written by its signal handler. */
struct cpu_trap {
    int signal, code;
    uint64_t va;          /* what was accessed */
    uint64_t pc;          /* by which instruction */
    uint64_t first, last; /* work-groups */
};

/* One grid that several threads work on. A queue has one slot, which lives
 * as long as the device; the plain fields are written by the consumer while
 * the gate is closed and nobody is inside. */
struct cpu_job {
    _Alignas(64) _Atomic uint64_t next; /* first work-group not taken */
    _Atomic uint64_t total;
    _Alignas(64) _Atomic uint64_t gate; /* GATE_ bits | helpers inside */
    cpu_kernel_fn *fn;
    const uint64_t *args;
    uint32_t grid[3];
    uint64_t chunk;
    struct cpu_program *prog; /* NULL: one of our own functions */
    struct cpu_queue *queue;
    _Atomic uint32_t trapped; /* a worker set `trap`; first wins */
    struct cpu_trap trap;
};

#define CPU_MAX_WORKERS 2048 /* of a process */

/* Where the signal handler finds a worker (cpu_fault.c). */
struct cpu_place {
    _Atomic(uintptr_t) thread; /* or whether it is taken */
    struct cpu_worker *worker;
};

/* A thread that runs kernels: a queue's consumer, who submits to it, or a
 * helper. Owned by its queue or device; touched by its own thread, but for the
 * atomics. */
struct cpu_worker {
    pthread_t thread;
    struct cpu_place *place; /* cpu_fault.c's */
    struct cpu_device *dev;
    void *alt_stack;                 /* owned; for the signal handler */
    stack_t old_stack;               /* what the thread had before */
    sigset_t mask;                   /* the thread's, at its last fault */
    sigjmp_buf *leave;               /* where a fault goes */
    volatile sig_atomic_t in_kernel; /* touches device memory */
    volatile uint64_t first, last;   /* work-groups being run */
    struct cpu_trap trap;
    _Atomic(struct cpu_job *) job; /* inside a kernel of this job */
};

#define CPU_ALT_STACK_BYTES (64u << 10)
/* Kernels have arrays of up to lower_target.max_packed_bytes there. */
#define CPU_STACK_BYTES (8u << 20)

/* Starts a thread that runs body(arg); it first calls cpu_worker_enter. */
bell_status cpu_worker_init(struct cpu_worker *worker, struct cpu_device *dev,
                            void *(*body)(void *), void *arg);
void cpu_worker_enter(struct cpu_worker *worker, const char *thread_name);
/* After a fault: undoes what the handler's start did to the signal mask. */
void cpu_worker_landed(struct cpu_worker *worker);
/* The last thing the thread does. */
void cpu_worker_leave(struct cpu_worker *worker);
/* Joins the thread and frees the stack. */
void cpu_worker_fini(struct cpu_worker *worker);

/* Runs the job described by fn, args, grid, prog over all groups, on the
 * queue's consumer and, when there is more than one group, the helpers; what
 * its submitter runs, on the calling thread alone. */
enum cpu_leave cpu_run_job(struct cpu_queue *queue, cpu_kernel_fn *fn,
                           const uint64_t *args, const uint32_t grid[3],
                           uint64_t total, struct cpu_program *prog);

/* A number that changes whenever work-groups are begun. */
uint64_t cpu_count_begun(const struct cpu_device *dev);

bell_status cpu_helpers_start(struct cpu_device *dev);
void cpu_helpers_stop(struct cpu_device *dev);

/* Installs the fault handlers while at least one device is open. */
void cpu_fault_acquire(void);
void cpu_fault_release(void);
/* Where the handler finds a worker: a place is taken before its thread begins,
 * and given back when that has ended. Between, the thread binds its worker, and
 * a submitter binds the queue's for as long as it runs packets. */
BELL_MUST_CHECK bell_status cpu_fault_take_place(struct cpu_worker *worker);
void cpu_fault_leave_place(struct cpu_worker *worker);
void cpu_fault_bind(struct cpu_worker *worker);
void cpu_fault_unbind(struct cpu_worker *worker);

/* ---- queues ---- */

struct cpu_queue {
    struct hcq_feed feed;
    struct cpu_worker worker; /* the consumer: the queue's thread */
    struct cpu_worker here;   /* who submits, while he runs packets */
    uint64_t here_floats;     /* his thread_default_floats */
    uint32_t here_steps;      /* of the submission: run by him */
    struct cpu_worker *now;   /* of the two; who runs packets */
    struct cpu_job *job;      /* the device's slot */
    unsigned slot;
};

struct cpu_device {
    struct hcq_device base;
    unsigned n_helpers;
    struct cpu_worker *helpers; /* owned */

    _Alignas(64) _Atomic uint64_t open_jobs; /* a bit per slot */
    _Atomic uint32_t job_seq;                /* futex: bumped per job */
    _Atomic uint32_t n_sleeping;             /* helpers */
    _Atomic uint32_t quit;
    _Atomic uint32_t n_big; /* large buffers made so far */
    uint64_t slots_used;    /* base.lock */
    struct cpu_job jobs[CPU_QUEUES_MAX];
};

static inline struct cpu_device *
cpu_device(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct cpu_device, base);
}

static inline struct cpu_queue *
cpu_queue(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct cpu_queue, feed.base);
}

bell_status cpu_queue_create(struct hcq_device *dev,
                             const struct hcq_queue_desc *desc,
                             struct hcq_queue **out_queue);
void cpu_queue_destroy(struct hcq_queue *queue);

#endif
