/* Signal handlers that see accesses to protected pages. */
#include "sim/step.h"

#ifdef SIM_CAN_STEP

#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define ERR_WRITE 2u     /* of a page fault's error code */
#define TRAP_FLAG 0x100u /* of EFLAGS: one instruction, then SIGTRAP */

/* Signal handlers belong to the process, and so do these. The lock is taken in
 * handlers. */
static struct {
    atomic_flag lock;
    struct sim_watch *first;
    size_t n_on, n_steps;
    bool is_installed;
    struct sigaction old_segv, old_trap;
} step_state = {.lock = ATOMIC_FLAG_INIT};

void
sim_step_lock(void)
{
    while (atomic_flag_test_and_set_explicit(&step_state.lock,
                                             memory_order_acquire))
        sched_yield();
}

void
sim_step_unlock(void)
{
    atomic_flag_clear_explicit(&step_state.lock, memory_order_release);
}

static bool
see_access(uintptr_t at, bool is_store, greg_t *regs)
{
    enum sim_seen seen = SIM_SEEN_NOT;
    struct sim_watch *watch;

    for (watch = step_state.first; watch && seen == SIM_SEEN_NOT;
         watch = watch->next)
        seen = watch->see(at, is_store, regs);
    if (seen == SIM_SEEN_STEP) {
        step_state.n_steps += !(regs[REG_EFL] & TRAP_FLAG);
        regs[REG_EFL] |= TRAP_FLAG;
    }
    return seen != SIM_SEEN_NOT;
}

/* The store is done; false: nobody steps here. */
static bool
end_step(greg_t *flags)
{
    struct sim_watch *watch;

    if (!step_state.n_steps || !(*flags & TRAP_FLAG))
        return false;
    step_state.n_steps--;
    *flags &= ~(greg_t)TRAP_FLAG;
    for (watch = step_state.first; watch; watch = watch->next)
        watch->stepped();
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

    sim_step_lock();
    if (sig == SIGTRAP && info->si_code == TRAP_TRACE)
        is_ours = end_step(&regs[REG_EFL]);
    else if (sig == SIGSEGV && info->si_code == SEGV_ACCERR)
        is_ours = see_access((uintptr_t)info->si_addr,
                             regs[REG_ERR] & ERR_WRITE, regs);
    sim_step_unlock();
    if (!is_ours)
        chain_signal(sig == SIGTRAP ? &step_state.old_trap
                                    : &step_state.old_segv,
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
    sigaction(SIGSEGV, &action, &step_state.old_segv);
    sigaction(SIGTRAP, &action, &step_state.old_trap);
    step_state.is_installed = true;
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
    sigaction(SIGSEGV, &step_state.old_segv, NULL);
    sigaction(SIGTRAP, &step_state.old_trap, NULL);
    step_state.is_installed = false;
}

void
sim_step_start(struct sim_watch *watch)
{
    assert(watch->see && watch->stepped);
    if (!watch->is_listed) {
        watch->next = step_state.first;
        step_state.first = watch;
        watch->is_listed = true;
    }
    step_state.n_on += !watch->is_on;
    watch->is_on = true;
    if (!step_state.is_installed)
        install();
}

void
sim_step_stop(struct sim_watch *watch)
{
    assert(watch->is_listed || !watch->is_on);
    step_state.n_on -= watch->is_on;
    watch->is_on = false;
    if (!step_state.n_on && !step_state.n_steps && step_state.is_installed)
        uninstall();
}

#endif
