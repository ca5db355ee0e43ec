/* Bench: how fast the host itself is while a run is measured, by three pieces
 * of work that have nothing of ours in them. A busy host makes everything
 * slower; by how much, a comparison with a run at another time has to allow. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

/* Each is some 0.1 ms where nothing else runs. */
#define MULTIPLICATIONS 100000
#define COPY_BYTES      (1u << 20)
#define HANDOFFS        64
#define TAKES           16 /* of each, at a time */

const char *const bench_host_names[BENCH_HOST_COUNT] = {
    "arithmetic_ns", "copy_ns", "handoff_ns"};

static uint64_t
time_arithmetic(void)
{
    uint64_t start_ns = time_now_ns();
    volatile uint64_t kept;
    uint64_t x = start_ns | 1;
    size_t i;

    for (i = 0; i < MULTIPLICATIONS; i++)
        x = x * 6364136223846793005u + 1;
    kept = x;
    (void)kept;
    return time_now_ns() - start_ns;
}

static uint64_t
time_copy(unsigned char *from, unsigned char *to)
{
    uint64_t start_ns = time_now_ns();
    volatile unsigned char kept;

    memcpy(to, from, COPY_BYTES);
    kept = to[start_ns % COPY_BYTES];
    (void)kept;
    return time_now_ns() - start_ns;
}

/* ---- a word that goes to another thread and back ---- */

struct handoff {
    _Atomic(uint32_t) word; /* odd: the other's turn */
    _Atomic(bool) is_over;
};

/* Spins for as long as a thread that waits for the other usually does. */
static void
wait_for(struct handoff *h, uint32_t word)
{
    unsigned spins = 0;

    while (atomic_load_explicit(&h->word, memory_order_acquire) != word &&
           !atomic_load_explicit(&h->is_over, memory_order_relaxed)) {
        if (++spins < 2000)
            thread_relax();
        else
            sched_yield();
    }
}

static void *
answer(void *argument)
{
    struct handoff *h = argument;
    uint32_t word = 1;

    while (!atomic_load_explicit(&h->is_over, memory_order_relaxed)) {
        wait_for(h, word);
        atomic_store_explicit(&h->word, word + 1, memory_order_release);
        word += 2;
    }
    return NULL;
}

static uint64_t
time_handoffs(struct handoff *h, uint32_t *word)
{
    uint64_t start_ns = time_now_ns();
    size_t i;

    for (i = 0; i < HANDOFFS; i++) {
        atomic_store_explicit(&h->word, *word + 1, memory_order_release);
        *word += 2;
        wait_for(h, *word);
    }
    return time_now_ns() - start_ns;
}

static void
take_handoffs(struct bench *b, size_t at)
{
    struct handoff h;
    pthread_t thread;
    uint32_t word = 0;
    size_t i;

    atomic_init(&h.word, 0);
    atomic_init(&h.is_over, false);
    if (pthread_create(&thread, NULL, answer, &h) != 0)
        return; /* no thread: no sample, so no allowance */
    for (i = 0; i < TAKES; i++)
        b->host_samples[BENCH_HOST_HANDOFF][at + i] =
            (double)time_handoffs(&h, &word) / HANDOFFS;
    atomic_store_explicit(&h.is_over, true, memory_order_relaxed);
    pthread_join(thread, NULL);
}

/* ---- what comes of it ---- */

void
bench_host_measure(struct bench *b)
{
    unsigned char *memory;
    size_t at = b->n_host_samples, i;

    if (at + TAKES > BENCH_HOST_SAMPLES_MAX)
        return;
    memory = host_alloc((size_t)2 * COPY_BYTES);
    if (!memory)
        return;
    memset(memory, 1, (size_t)2 * COPY_BYTES);
    for (i = 0; i < TAKES; i++) {
        b->host_samples[BENCH_HOST_ARITHMETIC][at + i] =
            (double)time_arithmetic();
        b->host_samples[BENCH_HOST_COPY][at + i] =
            (double)time_copy(memory, memory + COPY_BYTES);
    }
    host_free(memory);
    take_handoffs(b, at);
    b->n_host_samples += TAKES;
}

double
bench_host_ns(const struct bench *b, enum bench_host what,
              double *out_interval_percent)
{
    double sorted[BENCH_HOST_SAMPLES_MAX];

    *out_interval_percent = 0;
    if (b->n_host_samples == 0)
        return 0;
    memcpy(sorted, b->host_samples[what], b->n_host_samples * sizeof(*sorted));
    return bench_median(sorted, b->n_host_samples, out_interval_percent);
}
