/* Which stores of the CPU through BAR1 have not reached the card yet.
 *
 * From Hopper on, a doorbell in BAR0 overtakes stores through BAR1: a read
 * through BAR1 must flush them before it. Who reads plain memory cannot be
 * seen, so the pages of USERD are watched by their protection, from the first
 * ring in BAR0 on (who rings in BAR1 has none of this): nobody may write while
 * all is flushed; a store is let through by a single step of the CPU, after
 * which nobody may read, either; the read that follows is the flush.
 *
 * On x86 alone, which tells loads from stores and steps in user mode.
 */
#include "sim/nv/gpu/gpu_internal.h"

#if defined(__x86_64__)

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/bits.h"

#define MAX_PLACES 256
#define USERD_SIZE 512u
#define ERR_WRITE  2u     /* of a page fault's error code */
#define TRAP_FLAG  0x100u /* of EFLAGS: one instruction, then SIGTRAP */
/* A fault may be on its way when its page is let go; a page that is still not
 * to be touched after so many is somebody else's matter. */
#define MAX_RETRIES 100

/* A place of this process where it sees a channel's USERD. */
struct place {
    uintptr_t at; /* 0: none */
    struct nvgpu_posted *posted;
    bool is_armed;
    bool is_open; /* somebody steps over a store to its page */
};

/* Signal handlers belong to the process, and so do these. The lock is taken
 * in handlers: a thread that holds it touches no page that is watched. */
static struct {
    atomic_flag lock;
    struct place places[MAX_PLACES];
    size_t n_armed, n_steps;
    bool is_installed;
    struct sigaction old_segv, old_trap;
    uintptr_t let_go; /* the page that was let go last */
    unsigned n_retries;
} bar_watch = {.lock = ATOMIC_FLAG_INIT};

static void
lock_bar(void)
{
    while (atomic_flag_test_and_set_explicit(&bar_watch.lock,
                                             memory_order_acquire))
        sched_yield();
}

static void
unlock_bar(void)
{
    atomic_flag_clear_explicit(&bar_watch.lock, memory_order_release);
}

static uintptr_t
page_of(uintptr_t at)
{
    return at & ~(uintptr_t)(NVGPU_PAGE_BYTES - 1);
}

static bool
is_watched(const struct place *p, uintptr_t page)
{
    return p->is_armed && page_of(p->at) == page;
}

/* What may be done with a page: all that is flushed may be read. */
static void
protect(uintptr_t page)
{
    int prot = PROT_READ;
    size_t i;

    for (i = 0; i < MAX_PLACES; i++) {
        const struct place *p = &bar_watch.places[i];
        if (is_watched(p, page) && p->posted->is_pending)
            prot = PROT_NONE;
    }
    mprotect((void *)page, NVGPU_PAGE_BYTES, prot);
}

/* An access to a page; false: the page is not watched. */
static bool
see_access(uintptr_t at, bool is_store, greg_t *flags)
{
    uintptr_t page = page_of(at);
    bool any = false;
    size_t i;

    for (i = 0; i < MAX_PLACES; i++) {
        struct place *p = &bar_watch.places[i];
        if (!is_watched(p, page))
            continue;
        any = true;
        if (!is_store)
            p->posted->is_pending = 0;
        else if (at - p->at < USERD_SIZE)
            p->posted->is_pending = 1;
        p->is_open |= is_store;
    }
    if (any && is_store) {
        mprotect((void *)page, NVGPU_PAGE_BYTES, PROT_READ | PROT_WRITE);
        bar_watch.n_steps += !(*flags & TRAP_FLAG);
        *flags |= TRAP_FLAG;
    } else if (any) {
        protect(page);
    }
    return any ||
           (page == bar_watch.let_go && bar_watch.n_retries++ < MAX_RETRIES);
}

/* The store is done; false: nobody steps here. */
static bool
end_step(greg_t *flags)
{
    size_t i;

    if (!bar_watch.n_steps || !(*flags & TRAP_FLAG))
        return false;
    bar_watch.n_steps--;
    *flags &= ~(greg_t)TRAP_FLAG;
    for (i = 0; i < MAX_PLACES; i++) {
        if (bar_watch.places[i].is_open) {
            bar_watch.places[i].is_open = false;
            protect(page_of(bar_watch.places[i].at));
        }
    }
    return true;
}

static void
chain_signal(const struct sigaction *old, int sig, siginfo_t *info,
             void *context)
{
    if ((old->sa_flags & SA_SIGINFO) && old->sa_sigaction) {
        old->sa_sigaction(sig, info, context);
    } else if (!(old->sa_flags & SA_SIGINFO) && old->sa_handler != SIG_DFL &&
               old->sa_handler != SIG_IGN) {
        old->sa_handler(sig);
    } else {
        /* The default: the instruction runs again and ends the process. */
        signal(sig, SIG_DFL);
        if (sig == SIGTRAP || info->si_code <= 0)
            raise(sig);
    }
}

static void
on_signal(int sig, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    bool is_ours = false;

    lock_bar();
    if (sig == SIGTRAP && info->si_code == TRAP_TRACE)
        is_ours = end_step(&regs[REG_EFL]);
    else if (sig == SIGSEGV && info->si_code == SEGV_ACCERR)
        is_ours = see_access((uintptr_t)info->si_addr,
                             regs[REG_ERR] & ERR_WRITE, &regs[REG_EFL]);
    unlock_bar();
    if (!is_ours)
        chain_signal(sig == SIGTRAP ? &bar_watch.old_trap : &bar_watch.old_segv,
                     sig, info, context);
}

static void
install(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &bar_watch.old_segv);
    sigaction(SIGTRAP, &action, &bar_watch.old_trap);
    bar_watch.is_installed = true;
}

/* Unless somebody put theirs on top: they may hand on to ours, which stays. */
static void
uninstall(void)
{
    struct sigaction segv, trap;

    sigaction(SIGSEGV, NULL, &segv);
    sigaction(SIGTRAP, NULL, &trap);
    if (segv.sa_sigaction != on_signal || trap.sa_sigaction != on_signal)
        return;
    sigaction(SIGSEGV, &bar_watch.old_segv, NULL);
    sigaction(SIGTRAP, &bar_watch.old_trap, NULL);
    bar_watch.is_installed = false;
}

static void
let_go(struct place *p)
{
    struct place was = *p;
    uintptr_t page = page_of(was.at);
    size_t i;

    *p = (struct place){0};
    if (!was.is_armed)
        return;
    bar_watch.n_armed--;
    for (i = 0; i < MAX_PLACES; i++) {
        if (is_watched(&bar_watch.places[i], page)) {
            protect(page);
            return;
        }
    }
    mprotect((void *)page, NVGPU_PAGE_BYTES, PROT_READ | PROT_WRITE);
    bar_watch.let_go = page;
    bar_watch.n_retries = 0;
    if (!bar_watch.n_armed && !bar_watch.n_steps)
        uninstall();
}

void
nvgpu_bar_add(struct nvgpu_posted *posted, void *userd)
{
    size_t i;

    lock_bar();
    for (i = 0; i < MAX_PLACES && bar_watch.places[i].at; i++)
        ;
    if (i < MAX_PLACES) {
        bar_watch.places[i] =
            (struct place){(uintptr_t)userd, posted, false, false};
        posted->is_armed = false; /* of all its places */
    }
    unlock_bar();
}

void
nvgpu_bar_arm(struct nvgpu_posted *posted)
{
    size_t i;

    if (posted->is_armed)
        return;
    lock_bar();
    if (!bar_watch.is_installed)
        install();
    for (i = 0; i < MAX_PLACES; i++) {
        struct place *p = &bar_watch.places[i];
        if (!p->at || p->posted != posted || p->is_armed)
            continue;
        p->is_armed = true;
        bar_watch.n_armed++;
        protect(page_of(p->at));
    }
    posted->is_armed = true;
    unlock_bar();
}

void
nvgpu_bar_forget(const struct nvgpu_posted *posted)
{
    size_t i;

    lock_bar();
    for (i = 0; i < MAX_PLACES; i++) {
        if (bar_watch.places[i].at && bar_watch.places[i].posted == posted)
            let_go(&bar_watch.places[i]);
    }
    unlock_bar();
}

void
nvgpu_bar_unmap(const void *addr, uint64_t size_bytes)
{
    size_t i;

    lock_bar();
    for (i = 0; i < MAX_PLACES; i++) {
        struct place *p = &bar_watch.places[i];
        if (p->at && p->at - (uintptr_t)addr < size_bytes)
            let_go(p);
    }
    unlock_bar();
}

#else

void
nvgpu_bar_add(struct nvgpu_posted *posted, void *userd)
{
    (void)posted;
    (void)userd;
}

void
nvgpu_bar_arm(struct nvgpu_posted *posted)
{
    (void)posted;
}

void
nvgpu_bar_forget(const struct nvgpu_posted *posted)
{
    (void)posted;
}

void
nvgpu_bar_unmap(const void *addr, uint64_t size_bytes)
{
    (void)addr;
    (void)size_bytes;
}

#endif
