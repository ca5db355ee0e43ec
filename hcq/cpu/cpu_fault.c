/* Faults inside kernels: signal handlers that turn them into a report.
 *
 * Handlers are installed while at least one CPU device is open. A fault on a
 * thread that is not inside device work goes on to the handler that was
 * there before. The handler only reads its worker, writes the trap record
 * and jumps: the code it leaves is a kernel or a plain memory access, which
 * holds no lock and owns nothing.
 */
#include "hcq/cpu/cpu_internal.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include "base/bits.h"
#include "base/process.h"

/* On AArch64 a compiler's trap is BRK, a breakpoint to the kernel. */
static const int trapped_signals[] = {
    SIGSEGV, SIGBUS, SIGFPE, SIGILL,
#if defined(__aarch64__)
    SIGTRAP,
#endif
};

/* Signal dispositions belong to the process, so this does too. */
static struct {
    pthread_mutex_t lock;
    unsigned n_users;
    bool installed;
    struct sigaction old[ARRAY_LEN(trapped_signals)];
} fault_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Workers by their threads. Not thread-local variables: the handler could read
 * those of the static block alone, and a library with such a variable takes all
 * of its own from the little that programs leave there for what they load. A
 * slot is read by its own thread alone. */
static struct cpu_place places[CPU_MAX_WORKERS];

#define PLACE_FREE  0u
#define PLACE_TAKEN 1u /* by a worker that has no thread, or none any more */

/* The handlers stay in a child, and the count of those that it inherited;
 * threads do not. */
static void
leave_parent(void)
{
    size_t i;

    pthread_mutex_init(&fault_state.lock, NULL);
    for (i = 0; i < CPU_MAX_WORKERS; i++)
        atomic_store(&places[i].thread, PLACE_FREE);
}

__attribute__((constructor)) static void
cpu_watch_forks(void)
{
    process_in_child(leave_parent);
}

bell_status
cpu_fault_take_place(struct cpu_worker *worker)
{
    size_t i;

    for (i = 0; i < CPU_MAX_WORKERS; i++) {
        uintptr_t expected = PLACE_FREE;
        if (!atomic_compare_exchange_strong(&places[i].thread, &expected,
                                            PLACE_TAKEN))
            continue;
        places[i].worker = worker;
        worker->place = &places[i];
        return BELL_OK;
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: more than %d threads of CPU devices",
                     worker->dev->base.info.name, CPU_MAX_WORKERS);
}

void
cpu_fault_leave_place(struct cpu_worker *worker)
{
    atomic_store(&worker->place->thread, PLACE_FREE);
}

void
cpu_fault_bind(struct cpu_worker *worker)
{
    assert(worker->place->worker == worker);
    /* only this thread's handler looks for it */
    atomic_store_explicit(&worker->place->thread, (uintptr_t)pthread_self(),
                          memory_order_release);
}

void
cpu_fault_unbind(struct cpu_worker *worker)
{
    assert(worker->place->worker == worker);
    atomic_store_explicit(&worker->place->thread, PLACE_TAKEN,
                          memory_order_release);
}

/* The calling thread's worker, or NULL. */
static struct cpu_worker *
find_worker(void)
{
    uintptr_t self = (uintptr_t)pthread_self();
    size_t i;

    for (i = 0; i < CPU_MAX_WORKERS; i++) {
        if (atomic_load(&places[i].thread) == self)
            return places[i].worker;
    }
    return NULL;
}

static uint64_t
get_pc(const void *context)
{
    const ucontext_t *uc = context;

#if defined(__x86_64__)
    return (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uint64_t)uc->uc_mcontext.pc;
#else
    (void)uc;
    return 0;
#endif
}

/* Hands a fault that is not ours to whoever was there before. */
static void
chain(int sig, siginfo_t *info, void *context)
{
    const struct sigaction *old = NULL;
    size_t i;

    for (i = 0; i < ARRAY_LEN(trapped_signals); i++) {
        if (trapped_signals[i] == sig)
            old = &fault_state.old[i];
    }
    if (old && (old->sa_flags & SA_SIGINFO) && old->sa_sigaction) {
        old->sa_sigaction(sig, info, context);
    } else if (old && !(old->sa_flags & SA_SIGINFO) &&
               old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(sig);
    } else {
        /* The default: the instruction runs again and ends the process. */
        signal(sig, SIG_DFL);
        if (info->si_code <= 0)
            raise(sig);
    }
}

/* Whether a worker tried to execute code that was taken away from it. */
static bool
is_eviction(const struct cpu_job *job, int sig, uint64_t va, uint64_t pc)
{
    return sig == SIGSEGV && job && job->prog && va - pc < 16 &&
           cpu_object_has_text(&job->prog->object, pc);
}

static void
on_fault(int sig, siginfo_t *info, void *context)
{
    struct cpu_worker *worker = find_worker();
    struct cpu_job *job;
    uint64_t va, pc;

    if (!worker || !worker->in_kernel || info->si_code <= 0) {
        chain(sig, info, context);
        return;
    }
    worker->mask = ((const ucontext_t *)context)->uc_sigmask;
    job = atomic_load_explicit(&worker->job, memory_order_relaxed);
    va = (uint64_t)(uintptr_t)info->si_addr;
    pc = get_pc(context);
    if (is_eviction(job, sig, va, pc)) {
        /* Another queue's: the code comes back, the instruction is tried
         * again. */
        if (!atomic_load_explicit(&job->queue->feed.stop, memory_order_relaxed))
            return;
        worker->in_kernel = 0;
        siglongjmp(*worker->leave, CPU_LEAVE_STOPPED);
    }
    worker->trap = (struct cpu_trap){
        .signal = sig,
        .code = info->si_code,
        .va = va,
        .pc = pc,
        .first = worker->first,
        .last = worker->last,
    };
    worker->in_kernel = 0;
    siglongjmp(*worker->leave, CPU_LEAVE_FAULT);
}

void
cpu_fault_acquire(void)
{
    struct sigaction action;
    size_t i;

    pthread_mutex_lock(&fault_state.lock);
    if (fault_state.n_users++ == 0 && !fault_state.installed) {
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigemptyset(&action.sa_mask);
        for (i = 0; i < ARRAY_LEN(trapped_signals); i++)
            sigaction(trapped_signals[i], &action, &fault_state.old[i]);
        fault_state.installed = true;
    }
    pthread_mutex_unlock(&fault_state.lock);
}

void
cpu_fault_release(void)
{
    struct sigaction now;
    bool ours = true;
    size_t i;

    pthread_mutex_lock(&fault_state.lock);
    assert(fault_state.n_users > 0);
    if (--fault_state.n_users == 0) {
        /* If somebody installed theirs on top, they may chain to ours: it
         * stays, and hands everything on. */
        for (i = 0; i < ARRAY_LEN(trapped_signals); i++) {
            sigaction(trapped_signals[i], NULL, &now);
            ours &= now.sa_sigaction == on_fault;
        }
        for (i = 0; ours && i < ARRAY_LEN(trapped_signals); i++)
            sigaction(trapped_signals[i], &fault_state.old[i], NULL);
        fault_state.installed = !ours;
    }
    pthread_mutex_unlock(&fault_state.lock);
}
