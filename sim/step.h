/* Accesses of this process to pages that simulated hardware protects: who reads
 * or writes plain memory cannot be seen otherwise. A fault tells of each one;
 * a store is let through by a single step of the CPU.
 *
 * On x86-64 alone, which tells loads from stores and steps in user mode.
 */
#ifndef BELL_SIM_STEP_H
#define BELL_SIM_STEP_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#define SIM_CAN_STEP 1
#include <ucontext.h>

enum sim_seen {
    SIM_SEEN_NOT,  /* the page is somebody else's */
    SIM_SEEN,      /* the access may be tried again */
    SIM_SEEN_STEP, /* likewise, by a step: `stepped` comes after it */
};

/* Who watches pages: static, one for each kind of hardware. Both functions are
 * called from signal handlers with the lock held, and may call the kernel only.
 */
struct sim_watch {
    struct sim_watch *next;
    bool is_listed, is_on;
    enum sim_seen (*see)(uintptr_t at, bool is_store, greg_t *regs);
    void (*stepped)(void); /* a step is done, maybe another one's */
};

/* A thread that holds it touches no page that is watched. */
void sim_step_lock(void);
void sim_step_unlock(void);
/* The lock is held. Handlers are installed with the first that is on, and go
 * with the last. A watch that is off is asked about faults that were on their
 * way. */
void sim_step_start(struct sim_watch *watch);
void sim_step_stop(struct sim_watch *watch);
#endif

#endif
