/* Waits that the calling thread's program may end. */
#include "base/interrupt.h"

#include <assert.h>
#include <stddef.h>

/* A person notices no delay of less than a tenth of a second. */
#define ASK_EVERY_NS 50000000ull

static _Thread_local struct {
    bell_interrupt_fn *ask;
    void *user;
    uint64_t next_ns; /* when to ask again */
    uint32_t n_holds;
    bool is_on;
} interrupt;

void
bell_interrupt_set(bell_interrupt_fn *ask, void *user)
{
    interrupt.ask = ask;
    interrupt.user = user;
    interrupt.next_ns = 0;
    interrupt.is_on = false;
}

bool
interrupt_is_on(void)
{
    return interrupt.is_on && !interrupt.n_holds;
}

bool
interrupt_asked(uint64_t now_ns)
{
    if (!interrupt.ask || interrupt.n_holds)
        return false;
    if (!interrupt.is_on && now_ns >= interrupt.next_ns) {
        interrupt.next_ns = now_ns + ASK_EVERY_NS;
        interrupt.is_on = interrupt.ask(interrupt.user) != 0;
    }
    return interrupt.is_on;
}

void
interrupt_hold(void)
{
    interrupt.n_holds++;
}

void
interrupt_release(void)
{
    assert(interrupt.n_holds > 0);
    interrupt.n_holds--;
}
