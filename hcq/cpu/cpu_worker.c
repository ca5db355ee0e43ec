/* Threads that run kernels, and how a grid is shared among them.
 *
 * A job lives in its queue's slot of the device. The consumer opens the
 * slot's gate, works on the grid itself, closes the gate and waits until no
 * helper is inside. Work-groups are taken in chunks from a counter, so a
 * late or slow helper costs at most a chunk.
 */
#include "hcq/cpu/cpu_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"

#define GATE_OPEN    (1ull << 63)
#define GATE_SLEEPER (1ull << 62) /* the consumer sleeps on the low half */
#define GATE_INSIDE  0xffffffffull

/* Chunks per thread: few enough to cost nothing, enough to balance. */
#define CHUNKS_PER_UNIT 8u

/* The tail of a grid is waited for longer than an idle spin: the last chunk
 * of a helper is usually about to end. */
#define TAIL_SPINS 4u

#define HELPER_SLEEP_MAX_NS 10000000ull

/* Work-groups are begun at least so often where their program says how long one
 * takes: a wait takes a device that begins none for hung. guess: */
#define CHUNK_MAX_NS 1000000000ull
/* Where it does not say so: work-groups that are begun at once. guess: */
#define CHUNK_MAX_UNKNOWN 64

/* ---- threads ------------------------------------------------------------- */

bell_status
cpu_worker_init(struct cpu_worker *worker, struct cpu_device *dev,
                void *(*body)(void *), void *arg)
{
    sigset_t all, old;
    pthread_attr_t attr;
    int rc;

    assert(!worker->alt_stack);
    worker->dev = dev;
    BELL_TRY(cpu_fault_take_place(worker));
    worker->alt_stack = host_alloc(CPU_ALT_STACK_BYTES);
    if (!worker->alt_stack) {
        cpu_fault_leave_place(worker);
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory for a signal stack",
                         dev->base.info.name);
    }
    /* The application's signals are not for our threads. */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGTRAP);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_attr_init(&attr);
    if (rc == 0) {
        rc = pthread_attr_setstacksize(&attr, CPU_STACK_BYTES);
        if (rc == 0)
            rc = pthread_create(&worker->thread, &attr, body, arg);
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        host_free(worker->alt_stack);
        worker->alt_stack = NULL;
        cpu_fault_leave_place(worker);
        return thread_fail(dev->base.info.name, rc);
    }
    return BELL_OK;
}

void
cpu_worker_enter(struct cpu_worker *worker, const char *thread_name)
{
    stack_t stack = {
        .ss_sp = worker->alt_stack,
        .ss_size = CPU_ALT_STACK_BYTES,
    };

    pthread_setname_np(pthread_self(), thread_name);
    sigaltstack(&stack, &worker->old_stack);
    (void)thread_default_floats();
    cpu_fault_bind(worker);
}

void
cpu_worker_landed(struct cpu_worker *worker)
{
    pthread_sigmask(SIG_SETMASK, &worker->mask, NULL);
}

void
cpu_worker_leave(struct cpu_worker *worker)
{
    cpu_fault_unbind(worker);
    sigaltstack(&worker->old_stack, NULL);
}

void
cpu_worker_fini(struct cpu_worker *worker)
{
    pthread_join(worker->thread, NULL);
    cpu_fault_leave_place(worker);
    host_free(worker->alt_stack);
}

/* ---- jobs ---------------------------------------------------------------- */

/* Remembers the first trap of a job and makes the others stop early. */
static void
set_trap(struct cpu_job *job, const struct cpu_trap *trap)
{
    uint32_t none = 0;

    if (atomic_compare_exchange_strong(&job->trapped, &none, 1))
        job->trap = *trap;
    atomic_store(&job->next, atomic_load(&job->total));
}

/* clang's -fsanitize=function looks for a type in front of what is called;
 * machine code that was loaded has none. */
#if defined(__clang__)
#define CALLS_LOADED_CODE __attribute__((no_sanitize("function")))
#else
#define CALLS_LOADED_CODE
#endif

/* Takes chunks until there are none. A fault, or being stopped, ends up in
 * the second return of sigsetjmp. */
CALLS_LOADED_CODE static enum cpu_leave
run_chunks(struct cpu_worker *worker, struct cpu_job *job)
{
    assert(job->chunk > 0);
    assert(worker->place && !worker->in_kernel);
    sigjmp_buf *const outer = worker->leave;
    const uint64_t total =
        atomic_load_explicit(&job->total, memory_order_relaxed);
    sigjmp_buf here;
    enum cpu_leave left;

    worker->leave = &here;
    atomic_store_explicit(&worker->job, job, memory_order_relaxed);
    left = (enum cpu_leave)sigsetjmp(here, 0);
    if (left == CPU_LEAVE_DONE) {
        worker->in_kernel = 1;
        for (;;) {
            uint64_t first = atomic_fetch_add_explicit(&job->next, job->chunk,
                                                       memory_order_relaxed);

            if (first >= total)
                break;
            worker->first = first;
            worker->last =
                job->chunk < total - first ? first + job->chunk : total;
            job->fn(job->args, job->grid, first, worker->last);
        }
        worker->in_kernel = 0;
    } else {
        cpu_worker_landed(worker);
    }
    atomic_store_explicit(&worker->job, NULL, memory_order_relaxed);
    worker->leave = outer;
    if (left == CPU_LEAVE_FAULT)
        set_trap(job, &worker->trap);
    else if (left == CPU_LEAVE_STOPPED)
        atomic_store(&job->next, total);
    return left;
}

/* The half of the gate that counts helpers, as a futex word. */
static void *
gate_word(struct cpu_job *job)
{
    return (unsigned char *)&job->gate +
           (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0);
}

/* Closes the gate and waits until nobody is inside. */
static void
close_job(struct cpu_device *dev, struct cpu_job *job, uint64_t bit)
{
    uint64_t start_ns = 0, gate;

    assert(is_pow2(bit));
    atomic_fetch_and(&dev->open_jobs, ~bit);
    gate = atomic_fetch_and(&job->gate, ~GATE_OPEN);
    while (gate & GATE_INSIDE) {
        uint64_t now_ns = time_now_ns();

        if (start_ns == 0)
            start_ns = now_ns;
        if (now_ns - start_ns < dev->base.spin_ns * TAIL_SPINS) {
            hcq_spin(now_ns - start_ns);
        } else {
            gate = atomic_fetch_or(&job->gate, GATE_SLEEPER);
            if (gate & GATE_INSIDE)
                hcq_futex_wait(gate_word(job), (uint32_t)gate,
                               HELPER_SLEEP_MAX_NS);
        }
        gate = atomic_load_explicit(&job->gate, memory_order_acquire);
    }
    atomic_store_explicit(&job->gate, 0, memory_order_relaxed);
}

enum cpu_leave
cpu_run_job(struct cpu_queue *queue, cpu_kernel_fn *fn, const uint64_t *args,
            const uint32_t grid[3], uint64_t total, struct cpu_program *prog)
{
    struct cpu_device *dev = cpu_device(queue->feed.base.dev);
    struct cpu_job *job = queue->job;
    const uint64_t bit = 1ull << queue->slot;
    uint64_t n_chunks, n_wanted;
    enum cpu_leave left;

    assert(atomic_load_explicit(&job->gate, memory_order_relaxed) == 0);
    assert(job->queue == queue);
    job->fn = fn;
    job->args = args;
    memcpy(job->grid, grid, sizeof(job->grid));
    job->prog = prog;
    job->chunk = total / ((uint64_t)(dev->n_helpers + 1) * CHUNKS_PER_UNIT);
    if (prog && prog->base.group_ns &&
        job->chunk > CHUNK_MAX_NS / prog->base.group_ns)
        job->chunk = CHUNK_MAX_NS / prog->base.group_ns;
    if ((!prog || !prog->base.group_ns) && job->chunk > CHUNK_MAX_UNKNOWN)
        job->chunk = CHUNK_MAX_UNKNOWN;
    if (job->chunk == 0)
        job->chunk = 1;
    atomic_store_explicit(&job->trapped, 0, memory_order_relaxed);
    atomic_store_explicit(&job->total, total, memory_order_relaxed);
    atomic_store_explicit(&job->next, 0, memory_order_relaxed);
    if (total == 1 || dev->n_helpers == 0 || queue->now == &queue->here) {
        left = run_chunks(queue->now, job);
    } else {
        atomic_store_explicit(&job->gate, GATE_OPEN, memory_order_release);
        atomic_fetch_or(&dev->open_jobs, bit);
        atomic_fetch_add(&dev->job_seq, 1);
        if (atomic_load(&dev->n_sleeping)) {
            n_chunks = (total + job->chunk - 1) / job->chunk;
            n_wanted =
                n_chunks - 1 < dev->n_helpers ? n_chunks - 1 : dev->n_helpers;
            hcq_futex_wake(&dev->job_seq, (int)n_wanted);
        }
        left = run_chunks(queue->now, job);
        close_job(dev, job, bit);
    }
    if (atomic_load_explicit(&job->trapped, memory_order_relaxed))
        return CPU_LEAVE_FAULT;
    /* A helper that was stopped left part of the grid undone. */
    if (atomic_load_explicit(&queue->feed.stop, memory_order_relaxed))
        return CPU_LEAVE_STOPPED;
    return left;
}

uint64_t
cpu_count_begun(const struct cpu_device *dev)
{
    uint64_t begun = 0;
    unsigned i;

    for (i = 0; i < CPU_QUEUES_MAX; i++)
        begun = hash_add(begun, atomic_load_explicit(&dev->jobs[i].next,
                                                     memory_order_relaxed));
    return begun;
}

/* ---- helpers ------------------------------------------------------------- */

/* Works on the job if it is open. */
static bool
help(struct cpu_worker *worker, struct cpu_job *job)
{
    uint64_t gate;

    /* Not worth entering when all of it is taken. */
    if (atomic_load_explicit(&job->next, memory_order_relaxed) >=
        atomic_load_explicit(&job->total, memory_order_relaxed))
        return false;
    gate = atomic_load_explicit(&job->gate, memory_order_relaxed);
    do {
        if (!(gate & GATE_OPEN))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&job->gate, &gate, gate + 1,
                                                    memory_order_acquire,
                                                    memory_order_relaxed));
    run_chunks(worker, job);
    gate = atomic_fetch_sub_explicit(&job->gate, 1, memory_order_acq_rel);
    if ((gate & GATE_SLEEPER) && (gate & GATE_INSIDE) == 1)
        hcq_futex_wake(gate_word(job), 1);
    return true;
}

static bool
help_any(struct cpu_worker *worker)
{
    struct cpu_device *dev = worker->dev;
    uint64_t open = atomic_load_explicit(&dev->open_jobs, memory_order_relaxed);
    bool helped = false;

    while (open) {
        helped |= help(worker, &dev->jobs[__builtin_ctzll(open)]);
        open &= open - 1;
    }
    return helped;
}

static void *
helper_body(void *arg)
{
    struct cpu_worker *worker = arg;
    struct cpu_device *dev = worker->dev;
    uint64_t idle_ns = 0;

    cpu_worker_enter(worker, "bell-helper");
    while (!atomic_load_explicit(&dev->quit, memory_order_relaxed)) {
        uint32_t seq = atomic_load(&dev->job_seq);
        uint64_t now_ns;

        if (help_any(worker)) {
            idle_ns = 0;
            continue;
        }
        now_ns = time_now_ns();
        if (idle_ns == 0)
            idle_ns = now_ns;
        if (now_ns - idle_ns < dev->base.spin_ns) {
            hcq_spin(now_ns - idle_ns);
            continue;
        }
        atomic_fetch_add(&dev->n_sleeping, 1);
        if (atomic_load(&dev->job_seq) == seq && !atomic_load(&dev->quit))
            hcq_futex_wait(&dev->job_seq, seq, UINT64_MAX);
        atomic_fetch_sub(&dev->n_sleeping, 1);
        idle_ns = 0;
    }
    cpu_worker_leave(worker);
    return NULL;
}

bell_status
cpu_helpers_start(struct cpu_device *dev)
{
    unsigned n_wanted = dev->base.info.n_units - 1;

    assert(!dev->helpers && dev->n_helpers == 0);
    if (n_wanted == 0)
        return BELL_OK;
    dev->helpers = host_calloc(n_wanted, sizeof(*dev->helpers));
    if (!dev->helpers)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %u helpers",
                         dev->base.info.name, n_wanted);
    while (dev->n_helpers < n_wanted) {
        struct cpu_worker *worker = &dev->helpers[dev->n_helpers];
        bell_status status = cpu_worker_init(worker, dev, helper_body, worker);

        if (status != BELL_OK) {
            cpu_helpers_stop(dev);
            return status;
        }
        dev->n_helpers++;
    }
    return BELL_OK;
}

void
cpu_helpers_stop(struct cpu_device *dev)
{
    unsigned i;

    atomic_store(&dev->quit, 1);
    atomic_fetch_add(&dev->job_seq, 1);
    hcq_futex_wake(&dev->job_seq, INT32_MAX);
    for (i = 0; i < dev->n_helpers; i++)
        cpu_worker_fini(&dev->helpers[i]);
    host_free(dev->helpers);
    dev->helpers = NULL;
    dev->n_helpers = 0;
}
