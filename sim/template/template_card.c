/* The card: each queue's commands, run by a thread. */
#include "sim/template/template_card.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

#define HEAD_WORDS(word) ((word) >> 8)

static_assert(sizeof(struct template_regs) <= TEMPLATE_PAGE_BYTES, "registers");

/* ---- memory and faults --------------------------------------------------- */

void
template_card_fault(struct template_card_queue *queue,
                    enum template_fault fault, uint64_t va)
{
    struct template_card *card = queue->card;

    if (atomic_exchange(&card->stands, true))
        return; /* for another reason already */
    card->regs->queue = queue->id;
    card->regs->va = va;
    __atomic_store_n(&card->regs->fault, (uint32_t)fault, __ATOMIC_RELEASE);
}

void *
template_card_span(struct template_card_queue *queue, uint64_t va,
                   uint64_t size_bytes, uint64_t align)
{
    struct template_card *card = queue->card;
    uint8_t *host = NULL;
    size_t i;

    if (va & (align - 1)) {
        template_card_fault(queue, TEMPLATE_FAULT_MISALIGNED, va);
        return NULL;
    }
    pthread_mutex_lock(&card->lock);
    for (i = 0; i < card->n_ranges && !host; i++) {
        const struct template_range *r = &card->ranges[i];

        if (va - r->va < r->size_bytes &&
            size_bytes <= r->size_bytes - (va - r->va))
            host = r->host + (va - r->va);
    }
    pthread_mutex_unlock(&card->lock);
    if (!host)
        template_card_fault(queue, TEMPLATE_FAULT_UNMAPPED, va);
    return host;
}

/* ---- commands: each returns whether the queue goes on -------------------- */

static void
nap(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Until the 64 bits at `va` are >= value, or for a poll 32 of them are
 * equal. */
static bool
wait_for(struct template_card_queue *queue, const uint64_t *w, bool is_poll)
{
    void *at =
        template_card_span(queue, w[1], is_poll ? 4 : 8, is_poll ? 4 : 8);
    uint64_t start_ns = time_now_ns();

    while (at && !template_card_stops(queue)) {
        if (is_poll ? (__atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE) &
                       w[2]) == w[3]
                    : __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE) >= w[2])
            return true;
        if (time_now_ns() - start_ns > 20000)
            nap(20000);
    }
    return false;
}

static bool
store(struct template_card_queue *queue, uint64_t va, uint64_t value,
      uint64_t size_bytes)
{
    void *at = template_card_span(queue, va, size_bytes, size_bytes);

    if (!at)
        return false;
    if (size_bytes == 4)
        __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    return true;
}

static bool
transfer(struct template_card_queue *queue, const uint64_t *w, bool is_fill)
{
    uint32_t pattern = (uint32_t)w[2];
    uint64_t size_bytes = w[3], i;
    const void *from = NULL;
    uint8_t *to;

    if (size_bytes == 0)
        return true;
    to = template_card_span(queue, w[1], size_bytes, is_fill ? 4 : 1);
    if (!is_fill)
        from = template_card_span(queue, w[2], size_bytes, 1);
    if (!to || (!is_fill && !from))
        return false;
    if (!is_fill)
        memcpy(to, from, size_bytes);
    for (i = 0; is_fill && i < size_bytes; i++)
        to[i] = (uint8_t)(pattern >> 8 * (i % 4));
    return true;
}

/* The command at `w`, of n words. */
static bool
run(struct template_card_queue *queue, const uint64_t *w, uint64_t n)
{
    static const uint8_t n_words[] = {
        [TEMPLATE_WAIT] = 3, [TEMPLATE_STORE64] = 3, [TEMPLATE_STORE32] = 3,
        [TEMPLATE_TIME] = 2, [TEMPLATE_FENCE] = 1,   [TEMPLATE_COPY] = 4,
        [TEMPLATE_FILL] = 4, [TEMPLATE_POLL] = 4,
    };
    uint64_t command = w[0] & 0xff;

    if (command >= sizeof(n_words) || n_words[command] != n) {
        template_card_fault(queue, TEMPLATE_FAULT_COMMAND, w[0]);
        return false;
    }
    switch ((enum template_command)command) {
    case TEMPLATE_WAIT:
    case TEMPLATE_POLL:
        return wait_for(queue, w, command == TEMPLATE_POLL);
    case TEMPLATE_STORE64:
    case TEMPLATE_STORE32:
        return store(queue, w[1], w[2], command == TEMPLATE_STORE64 ? 8 : 4);
    case TEMPLATE_TIME:
        return store(queue, w[1] + 8, time_now_ns(), 8);
    case TEMPLATE_FENCE:
        atomic_thread_fence(memory_order_seq_cst);
        return true;
    case TEMPLATE_COPY:
    case TEMPLATE_FILL:
        return transfer(queue, w, command == TEMPLATE_FILL);
    }
    return false;
}

/* ---- rings --------------------------------------------------------------- */

static bool
run_entry(struct template_card_queue *queue)
{
    uint64_t entry_va = queue->ring_va + queue->get % queue->n_entries *
                                             sizeof(struct template_entry);
    const struct template_entry *entry =
        template_card_span(queue, entry_va, sizeof(*entry), sizeof(*entry));
    const uint64_t *words;
    uint64_t at, n;

    words = entry ? template_card_span(queue, entry->va, entry->n_words * 8, 8)
                  : NULL;
    for (at = 0; words && at < entry->n_words; at += n) {
        n = HEAD_WORDS(words[at]);
        if (n == 0 || n > entry->n_words - at) {
            template_card_fault(queue, TEMPLATE_FAULT_COMMAND, words[at]);
            return false;
        }
        if (template_card_stops(queue) || !run(queue, words + at, n))
            return false;
    }
    return words != NULL;
}

void *
template_card_body(void *arg)
{
    struct template_card_queue *queue = arg;
    const uint64_t *doorbell = &queue->card->regs->doorbell[queue->id];
    uint64_t idle_ns = 0;

    while (!atomic_load(&queue->quit)) {
        bool stands = atomic_load(&queue->card->stands);

        atomic_store(&queue->is_parked, stands);
        if (!stands &&
            __atomic_load_n(doorbell, __ATOMIC_ACQUIRE) != queue->get) {
            if (run_entry(queue))
                queue->get++;
            idle_ns = 0;
        } else {
            /* A doorbell that wakes is a thing of real cards. */
            idle_ns = idle_ns < 500000 ? idle_ns + 2000 : idle_ns;
            nap(idle_ns);
        }
    }
    return NULL;
}
