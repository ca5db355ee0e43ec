/* Which stores of the CPU through BAR1 have not reached the card yet.
 *
 * From Hopper on, a doorbell in BAR0 overtakes stores through BAR1: a read
 * through BAR1 must flush them before it. Reads of plain memory cannot be seen,
 * so the pages of USERD are watched by their protection, from the first ring in
 * BAR0 on (who rings in BAR1 has none of this): nobody may write while all is
 * flushed; a store is let through by a single step of the CPU, after which
 * nobody may read, either; the read that follows is the flush.
 *
 * On x86 alone, which tells loads from stores and steps in user mode.
 */
#include "sim/nv/gpu/gpu_internal.h"
#include "sim/step.h"

#ifdef SIM_CAN_STEP

#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"

#define MAX_PLACES 256
#define USERD_SIZE 512u
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

/* What signal handlers see belongs to the process. sim_step_lock guards it. */
static struct {
    struct place places[MAX_PLACES];
    size_t n_armed;
    uintptr_t let_go; /* the page that was let go last */
    unsigned n_retries;
} bar_watch;

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

/* Accesses that a page allows: all that is flushed may be read. */
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

static enum sim_seen
see_bar(uintptr_t at, bool is_store, greg_t *regs)
{
    uintptr_t page = page_of(at);
    bool any = false;
    size_t i;

    (void)regs;
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
        return SIM_SEEN_STEP;
    }
    if (any)
        protect(page);
    return any || (page == bar_watch.let_go &&
                   bar_watch.n_retries++ < MAX_RETRIES)
               ? SIM_SEEN
               : SIM_SEEN_NOT;
}

static void
close_bar(void)
{
    size_t i;

    for (i = 0; i < MAX_PLACES; i++) {
        if (bar_watch.places[i].is_open) {
            bar_watch.places[i].is_open = false;
            protect(page_of(bar_watch.places[i].at));
        }
    }
}

static struct sim_watch bar_steps = {.see = see_bar, .stepped = close_bar};

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
    if (!bar_watch.n_armed)
        sim_step_stop(&bar_steps);
}

void
nvgpu_bar_add(struct nvgpu_posted *posted, void *userd)
{
    size_t i;

    sim_step_lock();
    for (i = 0; i < MAX_PLACES && bar_watch.places[i].at; i++)
        ;
    if (i < MAX_PLACES) {
        bar_watch.places[i] =
            (struct place){(uintptr_t)userd, posted, false, false};
        posted->is_armed = false; /* of all its places */
    }
    sim_step_unlock();
}

void
nvgpu_bar_arm(struct nvgpu_posted *posted)
{
    size_t i;

    if (posted->is_armed)
        return;
    sim_step_lock();
    sim_step_start(&bar_steps);
    for (i = 0; i < MAX_PLACES; i++) {
        struct place *p = &bar_watch.places[i];
        if (!p->at || p->posted != posted || p->is_armed)
            continue;
        p->is_armed = true;
        bar_watch.n_armed++;
        protect(page_of(p->at));
    }
    posted->is_armed = true;
    sim_step_unlock();
}

void
nvgpu_bar_forget(const struct nvgpu_posted *posted)
{
    size_t i;

    sim_step_lock();
    for (i = 0; i < MAX_PLACES; i++) {
        if (bar_watch.places[i].at && bar_watch.places[i].posted == posted)
            let_go(&bar_watch.places[i]);
    }
    sim_step_unlock();
}

void
nvgpu_bar_unmap(const void *addr, uint64_t size_bytes)
{
    size_t i;

    sim_step_lock();
    for (i = 0; i < MAX_PLACES; i++) {
        struct place *p = &bar_watch.places[i];
        if (p->at && p->at - (uintptr_t)addr < size_bytes)
            let_go(p);
    }
    sim_step_unlock();
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
