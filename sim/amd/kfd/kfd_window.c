/* Stores of the CPU through a window that have not reached the card yet.
 *
 * A page of the window is the card's memory and may be read. A store to it
 * takes its place by a copy, which nobody may read once the store is done: who
 * does has it written to the card's memory, with all others. Harder than a
 * card: a read of a page without such stores flushes none.
 */
#include "sim/amd/kfd/kfd_window.h"

#include "sim/amd/kfd/kfd.h"
#include "sim/step.h"

#ifdef SIM_CAN_STEP

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"

/* Pages that are held back, of all windows: a card's buffers end, and so do a
 * process's mappings. */
#define MAX_PAGES 256u
/* A fault may be on its way when its page is the card's again. */
#define MAX_RETRIES 100u

struct window {
    struct window *next;
    const struct kfd_card *card; /* to compare */
    uintptr_t at;
    size_t size_bytes;
    int fd; /* owned */
};

/* The stores of the CPU to a page. */
struct held_page {
    struct window *window; /* NULL: none */
    uintptr_t at;
    bool is_open; /* somebody steps over a store to it */
    uint8_t before[KFD_PAGE];
};

/* The process's, as its signal handlers see it. sim_step_lock guards it. */
static struct {
    struct window *windows; /* owned */
    bool is_off;
    struct held_page pages[MAX_PAGES];
    uintptr_t let_go; /* the window that went last */
    size_t let_go_bytes;
    unsigned n_retries;
} window_watch;

static struct window *
find_window(uintptr_t at)
{
    struct window *w = window_watch.windows;

    while (w && at - w->at >= w->size_bytes)
        w = w->next;
    return w;
}

/* The page's, or a free one if `at` is 0; NULL: there is none. */
static struct held_page *
find_held(uintptr_t at)
{
    size_t i;

    for (i = 0; i < MAX_PAGES; i++) {
        struct held_page *page = &window_watch.pages[i];
        if (at ? page->window && page->at == at : !page->window)
            return page;
    }
    return NULL;
}

/* Words that changed become the card's; those beside them it may have written
 * itself. */
static void
let_arrive(struct held_page *page)
{
    const struct window *w = page->window;
    uint8_t *now = (uint8_t *)page->at;
    off_t offset = (off_t)(page->at - w->at);
    uint32_t i, end;
    ssize_t done;

    mprotect(now, KFD_PAGE, PROT_READ);
    for (i = 0; i < KFD_PAGE; i = end) {
        for (end = i;
             end < KFD_PAGE && memcmp(now + end, page->before + end, 4) != 0;
             end += 4)
            ;
        done = end > i ? pwrite(w->fd, now + i, end - i, offset + i) : 0;
        assert(done == (ssize_t)(end - i));
        (void)done;
        end += end == i ? 4 : 0;
    }
    mmap(now, KFD_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, w->fd, offset);
    page->window = NULL;
}

/* Those of a card, or all where it is NULL; not those that are being stored
 * to. */
static void
let_all_arrive(const struct kfd_card *card)
{
    size_t i;

    for (i = 0; i < MAX_PAGES; i++) {
        struct held_page *page = &window_watch.pages[i];
        if (page->window && !page->is_open &&
            (!card || page->window->card == card))
            let_arrive(page);
    }
}

/* A copy takes the page's place. NULL: the store goes to the card. */
static struct held_page *
hold_page(struct window *w, uintptr_t at)
{
    struct held_page *page = find_held(0);
    void *copy;

    if (!page) {
        let_all_arrive(NULL);
        page = find_held(0);
    }
    copy = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!page || copy == MAP_FAILED)
        return NULL;
    memcpy(page->before, (const void *)at, KFD_PAGE);
    memcpy(copy, page->before, KFD_PAGE);
    if (mremap(copy, KFD_PAGE, KFD_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
               (void *)at) == MAP_FAILED) {
        munmap(copy, KFD_PAGE);
        return NULL;
    }
    page->window = w;
    page->at = at;
    page->is_open = false;
    return page;
}

/* `rep movsb`, which would be a step a byte: what it stores to the page. False:
 * it is another instruction, or reads what cannot be read now. */
static bool
copy_string(uintptr_t at, greg_t *regs)
{
    const uint8_t *code = (const uint8_t *)regs[REG_RIP];
    size_t n_bytes = KFD_PAGE - (size_t)at % KFD_PAGE;
    struct iovec from = {.iov_base = (void *)regs[REG_RSI]};
    struct iovec to = {.iov_base = (void *)at};
    ssize_t n;

    if (code[0] != 0xf3 || code[1] != 0xa4 || (regs[REG_EFL] & 0x400) ||
        (uintptr_t)regs[REG_RDI] != at)
        return false;
    if ((uint64_t)regs[REG_RCX] < n_bytes)
        n_bytes = (size_t)regs[REG_RCX];
    from.iov_len = to.iov_len = n_bytes;
    n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (n <= 0)
        return false;
    regs[REG_RSI] += n;
    regs[REG_RDI] += n;
    regs[REG_RCX] -= n;
    return true;
}

static enum sim_seen
see_window(uintptr_t at, bool is_store, greg_t *regs)
{
    uintptr_t start = at & ~(uintptr_t)(KFD_PAGE - 1);
    struct window *w = find_window(at);
    struct held_page *page = w ? find_held(start) : NULL;

    if (!w)
        return at - window_watch.let_go < window_watch.let_go_bytes &&
                       window_watch.n_retries++ < MAX_RETRIES
                   ? SIM_SEEN
                   : SIM_SEEN_NOT;
    if (!is_store) {
        let_all_arrive(NULL);
        return SIM_SEEN;
    }
    if (!page)
        page = hold_page(w, start);
    mprotect((void *)start, KFD_PAGE, PROT_READ | PROT_WRITE);
    if (!page)
        return SIM_SEEN;
    if (!page->is_open && copy_string(at, regs)) {
        mprotect((void *)start, KFD_PAGE, PROT_NONE);
        return SIM_SEEN;
    }
    page->is_open = true;
    return SIM_SEEN_STEP;
}

static void
close_held(void)
{
    size_t i;

    for (i = 0; i < MAX_PAGES; i++) {
        struct held_page *page = &window_watch.pages[i];
        if (page->is_open)
            mprotect((void *)page->at, KFD_PAGE, PROT_NONE);
        page->is_open = false;
    }
}

static struct sim_watch window_steps = {.see = see_window,
                                        .stepped = close_held};

void
kfd_window_add(const struct kfd_card *card, void *at, size_t size_bytes, int fd)
{
    struct window *w = window_watch.is_off ? NULL : host_calloc(1, sizeof(*w));

    assert(size_bytes % KFD_PAGE == 0);
    if (w)
        w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (!w || w->fd < 0) {
        host_free(w);
        return;
    }
    w->card = card;
    w->at = (uintptr_t)at;
    w->size_bytes = size_bytes;
    sim_step_lock();
    sim_step_start(&window_steps);
    w->next = window_watch.windows;
    window_watch.windows = w;
    mprotect(at, size_bytes, PROT_READ);
    sim_step_unlock();
}

void
kfd_window_off(void)
{
    window_watch.is_off = true;
}

static void
drop_window(struct window *w)
{
    size_t i;

    for (i = 0; i < MAX_PAGES; i++) {
        if (window_watch.pages[i].window == w) {
            window_watch.pages[i].is_open = false;
            let_arrive(&window_watch.pages[i]);
        }
    }
    mprotect((void *)w->at, w->size_bytes, PROT_READ | PROT_WRITE);
    window_watch.let_go = w->at;
    window_watch.let_go_bytes = w->size_bytes;
    window_watch.n_retries = 0;
    close(w->fd);
}

void
kfd_window_drop(const void *at, size_t size_bytes)
{
    uintptr_t start = (uintptr_t)at;
    struct window **link = &window_watch.windows, *gone = NULL;

    sim_step_lock();
    while (*link) {
        struct window *w = *link;

        if (w->at - start >= size_bytes && start - w->at >= w->size_bytes) {
            link = &w->next;
            continue;
        }
        drop_window(w);
        *link = w->next;
        w->next = gone;
        gone = w;
    }
    if (!window_watch.windows)
        sim_step_stop(&window_steps);
    sim_step_unlock();
    while (gone) {
        struct window *next = gone->next;

        host_free(gone);
        gone = next;
    }
}

void
kfd_window_flush(void *card)
{
    sim_step_lock();
    let_all_arrive(card);
    sim_step_unlock();
}

#else

void
kfd_window_add(const struct kfd_card *card, void *at, size_t size_bytes, int fd)
{
    (void)card;
    (void)at;
    (void)size_bytes;
    (void)fd;
}

void
kfd_window_off(void)
{
}

void
kfd_window_drop(const void *at, size_t size_bytes)
{
    (void)at;
    (void)size_bytes;
}

void
kfd_window_flush(void *card)
{
    (void)card;
}

#endif
