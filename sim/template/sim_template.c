/* The kernel driver: files, memory, queues. A form is a process, its card and
 * the machine. */
#include "sim/template/sim_template.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "sim/template/template_card.h"

#define CHIP     "template1"
#define FIRST_FD 100
#define FIRST_VA ((uint64_t)1 << 32)
#define CAPACITY ((uint64_t)1 << 30) /* bytes of memory in use, at most */

struct form {
    struct kio kio; /* first */
    struct template_card card;
    int n_open;
    uint64_t used_bytes; /* card.lock */
};

static struct form *
form_of(struct kio *kio)
{
    return (struct form *)kio;
}

/* ---- memory -------------------------------------------------------------- */

/* The lock is held; SIZE_MAX: there is none. */
static size_t
find_range(const struct template_card *card, uint64_t va)
{
    size_t i;

    for (i = 0; i < card->n_ranges; i++) {
        if (card->ranges[i].va == va)
            return i;
    }
    return SIZE_MAX;
}

/* Where a range of so many bytes goes: the first gap that holds it and a page
 * more, which is never mapped. *out_at is its place in the list. */
static uint64_t
find_gap(const struct template_card *card, uint64_t size_bytes, size_t *out_at)
{
    uint64_t va = FIRST_VA;
    size_t i;

    for (i = 0; i < card->n_ranges; i++) {
        const struct template_range *r = &card->ranges[i];

        if (va + size_bytes + TEMPLATE_PAGE_BYTES <= r->va)
            break;
        va = align_up(r->va + r->size_bytes, TEMPLATE_PAGE_BYTES) +
             TEMPLATE_PAGE_BYTES;
    }
    *out_at = i;
    return va;
}

static int
map_range(struct form *form, struct template_map *args)
{
    struct template_card *card = &form->card;
    uint64_t in_page = args->ptr % TEMPLATE_PAGE_BYTES; /* which it keeps */
    struct template_range range = {
        .size_bytes = args->size_bytes,
        .host = (void *)(uintptr_t)args->ptr,
        .is_pinned = args->ptr != 0,
    };
    size_t at;

    if (args->size_bytes == 0 || args->size_bytes > CAPACITY)
        return args->size_bytes ? -ENOMEM : -EINVAL;
    if (host_grow((void **)&card->ranges, &card->cap_ranges, card->n_ranges + 1,
                  sizeof(*card->ranges)) != 0)
        return -ENOMEM;
    if (!range.is_pinned) {
        if (args->size_bytes % TEMPLATE_PAGE_BYTES)
            return -EINVAL;
        if (form->used_bytes + args->size_bytes > CAPACITY)
            return -ENOMEM;
        range.host = mmap(NULL, args->size_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (range.host == MAP_FAILED)
            return -errno;
        form->used_bytes += args->size_bytes;
    }
    range.va = find_gap(card, in_page + args->size_bytes, &at) + in_page;
    memmove(card->ranges + at + 1, card->ranges + at,
            (card->n_ranges++ - at) * sizeof(range));
    card->ranges[at] = range;
    args->va = range.va;
    return 0;
}

static int
unmap_range(struct form *form, uint64_t va)
{
    struct template_card *card = &form->card;
    size_t i = find_range(card, va);
    struct template_range range;

    if (i == SIZE_MAX)
        return -EINVAL;
    range = card->ranges[i];
    memmove(card->ranges + i, card->ranges + i + 1,
            (--card->n_ranges - i) * sizeof(range));
    if (!range.is_pinned) {
        munmap(range.host, range.size_bytes);
        form->used_bytes -= range.size_bytes;
    }
    return 0;
}

static int
move_bytes(struct template_card *card, const struct template_move *args)
{
    void *mine = (void *)(uintptr_t)args->ptr;
    size_t i;

    for (i = 0; i < card->n_ranges; i++) {
        const struct template_range *r = &card->ranges[i];
        uint64_t at = args->va - r->va;

        if (at >= r->size_bytes || args->size_bytes > r->size_bytes - at)
            continue;
        if (args->to_card)
            memcpy(r->host + at, mine, args->size_bytes);
        else
            memcpy(mine, r->host + at, args->size_bytes);
        return 0;
    }
    return -EFAULT;
}

/* ---- queues -------------------------------------------------------------- */

static int
new_queue(struct template_card *card, struct template_queue_args *args)
{
    struct template_card_queue *queue = card->queues;
    uint32_t id = 0;
    int error;

    if (!is_pow2(args->n_entries))
        return -EINVAL;
    while (id < TEMPLATE_MAX_QUEUES && queue[id].is_used)
        id++;
    if (id == TEMPLATE_MAX_QUEUES)
        return -ENOSPC;
    queue += id;
    *queue = (struct template_card_queue){
        .card = card,
        .id = id,
        .ring_va = args->ring_va,
        .n_entries = args->n_entries,
    };
    __atomic_store_n(&card->regs->doorbell[id], 0, __ATOMIC_RELAXED);
    error = pthread_create(&queue->thread, NULL, template_card_body, queue);
    if (error)
        return -error;
    queue->is_used = true;
    args->id = id;
    return 0;
}

/* The lock is not held: the thread may want it. */
static int
end_queue(struct template_card *card, uint32_t id)
{
    struct template_card_queue *queue = &card->queues[id];

    if (id >= TEMPLATE_MAX_QUEUES || !queue->is_used)
        return -EINVAL;
    atomic_store(&queue->quit, true);
    pthread_join(queue->thread, NULL);
    pthread_mutex_lock(&card->lock);
    queue->is_used = false;
    pthread_mutex_unlock(&card->lock);
    return 0;
}

static int
reset_card(struct template_card *card)
{
    uint32_t i;

    for (i = 0; i < TEMPLATE_MAX_QUEUES; i++) /* that was of a reset before */
        atomic_store(&card->queues[i].is_parked, false);
    atomic_store(&card->stands, true);
    for (i = 0; i < TEMPLATE_MAX_QUEUES; i++) {
        struct template_card_queue *queue = &card->queues[i];

        while (queue->is_used && !atomic_load(&queue->is_parked))
            thread_relax();
        queue->get = 0;
    }
    memset(card->regs, 0, sizeof(*card->regs));
    atomic_store(&card->stands, false);
    return 0;
}

/* ---- calls --------------------------------------------------------------- */

static int
call_locked(struct form *form, unsigned long request, void *arg)
{
    struct template_map *map = arg;

    switch (request) {
    case TEMPLATE_MAP:
        return map_range(form, map);
    case TEMPLATE_UNMAP:
        return unmap_range(form, map->va);
    case TEMPLATE_MOVE:
        return move_bytes(&form->card, arg);
    case TEMPLATE_NEW_QUEUE:
        return new_queue(&form->card, arg);
    default:
        return -ENOTTY;
    }
}

static int
form_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct form *form = form_of(kio);
    int result;

    (void)fd;
    if (request == TEMPLATE_END_QUEUE)
        return end_queue(&form->card, ((struct template_queue_args *)arg)->id);
    if (request == TEMPLATE_RESET)
        return reset_card(&form->card);
    pthread_mutex_lock(&form->card.lock);
    result = call_locked(form, request, arg);
    pthread_mutex_unlock(&form->card.lock);
    return result;
}

static int
form_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
          int fd, uint64_t offset)
{
    struct template_card *card = &form_of(kio)->card;
    int result = -EINVAL;
    size_t i;

    (void)size_bytes, (void)prot, (void)flags, (void)fd;
    if (offset == 0) {
        *addr = card->regs;
        return 0;
    }
    pthread_mutex_lock(&card->lock);
    i = find_range(card, offset);
    if (i != SIZE_MAX) {
        *addr = card->ranges[i].host;
        result = 0;
    }
    pthread_mutex_unlock(&card->lock);
    return result;
}

static int
form_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio, (void)addr, (void)size_bytes; /* it goes with the range */
    return 0;
}

static int
form_open(struct kio *kio, const char *path, int flags)
{
    (void)flags;
    if (strcmp(path, "/dev/template0") != 0)
        return -ENOENT;
    return FIRST_FD + form_of(kio)->n_open++;
}

static int
form_close(struct kio *kio, int fd)
{
    (void)kio, (void)fd;
    return 0;
}

static int
form_poll(struct kio *kio, int fd, short events, int timeout_ms,
          short *out_revents)
{
    (void)kio, (void)fd, (void)events, (void)timeout_ms, (void)out_revents;
    return -EINVAL; /* nothing comes by itself */
}

static int
form_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    (void)kio, (void)path, (void)buf, (void)cap;
    return -ENOENT;
}

/* ---- life ---------------------------------------------------------------- */

static void
form_destroy(struct kio *kio)
{
    struct form *form = form_of(kio);
    struct template_card *card = &form->card;
    uint32_t i;

    for (i = 0; i < TEMPLATE_MAX_QUEUES; i++)
        (void)end_queue(card, i);
    while (card->n_ranges)
        (void)unmap_range(form, card->ranges[0].va);
    munmap(card->regs, TEMPLATE_PAGE_BYTES);
    pthread_mutex_destroy(&card->lock);
    host_free(card->ranges);
    host_free(form);
}

bell_status
sim_template_create(const char *spec, struct kio **out_kio)
{
    static const struct kio_ops ops = {
        .name = "sim",
        .destroy = form_destroy,
        .open = form_open,
        .close = form_close,
        .ioctl = form_ioctl,
        .mmap = form_mmap,
        .munmap = form_munmap,
        .poll = form_poll,
        .read_file = form_read_file,
    };
    struct form *form;
    void *regs;

    if (strcmp(spec, CHIP) != 0)
        return bell_fail(BELL_E_NO_DEVICE,
                         "no simulated chip '%.40s'; known: " CHIP, spec);
    form = host_calloc(1, sizeof(*form));
    if (!form)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a simulated card");
    regs = mmap(NULL, TEMPLATE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (regs == MAP_FAILED) {
        int error = errno;
        host_free(form);
        return bell_fail_errno(BELL_E_NO_MEMORY, error,
                               "out of memory for registers: %s",
                               strerror(error));
    }
    form->kio.ops = &ops;
    form->card.regs = regs;
    pthread_mutex_init(&form->card.lock, NULL);
    *out_kio = &form->kio;
    return BELL_OK;
}
