/* Bench: what the host does while a row is measured, by work that has nothing
 * of ours in it. A busy host makes everything slower; by how much, a comparison
 * with a run at another time has to allow.
 */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

/* Short pieces, so that of a few one is in nobody's way. */
#define ROUNDS       3000 /* some 10 us */
#define COPY_BYTES   (1u << 20)
#define MEMORY_BYTES (64u << 20) /* more than caches have */
#define QUICK_BYTES  (8u << 20)  /* with --quick, which is not about figures */
#define HANDOFFS     16          /* or, where each waits for a processor, */
#define HANDOFFS_NS  2000000     /* until so much time has passed */
#define TAKES        3

/* As wide as a processor computes: what shares one with others shows here. */
double
bench_host_sums(void)
{
    uint64_t start_ns = time_now_ns(), x[8];
    volatile uint64_t kept = 0;
    size_t i, k;

    for (k = 0; k < 8; k++)
        x[k] = start_ns + k;
    for (i = 0; i < ROUNDS; i++) {
        for (k = 0; k < 8; k++) {
            x[k] ^= x[k] << 13;
            x[k] ^= x[k] >> 7;
            x[k] += 0x9e3779b97f4a7c15u;
        }
    }
    for (k = 0; k < 8; k++)
        kept ^= x[k];
    return (double)(time_now_ns() - start_ns);
}

double
bench_host_tick(void)
{
    uint64_t least_ns = UINT64_MAX;
    unsigned i;

    for (i = 0; i < 200; i++) {
        uint64_t start_ns = time_now_ns(), now_ns;

        while ((now_ns = time_now_ns()) == start_ns)
            ;
        least_ns = now_ns - start_ns < least_ns ? now_ns - start_ns : least_ns;
    }
    return (double)least_ns;
}

static size_t
memory_bytes(const struct bench *b)
{
    return b->is_quick ? QUICK_BYTES : MEMORY_BYTES;
}

/* Each time of memory that was touched longest ago. */
static double
time_copy(struct bench *b)
{
    unsigned char *from = b->host_memory + b->host_memory_at;
    uint64_t start_ns = time_now_ns();
    volatile unsigned char kept;

    memcpy(from + COPY_BYTES, from, COPY_BYTES);
    kept = from[COPY_BYTES + start_ns % COPY_BYTES];
    (void)kept;
    b->host_memory_at = (b->host_memory_at + 2 * COPY_BYTES) % memory_bytes(b);
    return (double)(time_now_ns() - start_ns);
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

/* 0: no thread could be made. */
static double
time_handoffs(void)
{
    struct handoff h;
    pthread_t thread;
    uint64_t start_ns, ns = 0;
    uint32_t word = 0;
    size_t i;

    atomic_init(&h.word, 0);
    atomic_init(&h.is_over, false);
    if (pthread_create(&thread, NULL, answer, &h) != 0)
        return 0;
    start_ns = time_now_ns();
    for (i = 0; i < HANDOFFS && ns < HANDOFFS_NS; i++) {
        atomic_store_explicit(&h.word, word + 1, memory_order_release);
        word += 2;
        wait_for(&h, word);
        ns = time_now_ns() - start_ns;
    }
    atomic_store_explicit(&h.is_over, true, memory_order_relaxed);
    pthread_join(thread, NULL);
    return (double)ns / (double)i;
}

/* ---- waiting for a processor ---- */

/* src: proc(5), Documentation/scheduler/sched-stats.rst: the time that a
 * thread ran, and the time that it waited on a run queue. */
void
bench_host_turns(struct bench_turns *out_turns)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;

    *out_turns = (struct bench_turns){0, 0};
    while (dir && (entry = readdir(dir)) != NULL) {
        uint64_t ran, waited;
        char path[300];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat",
                 entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (!file)
            continue;
        if (fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2) {
            out_turns->ran_ns += ran;
            out_turns->waited_ns += waited;
        }
        fclose(file);
    }
    if (dir)
        closedir(dir);
}

/* ---- what comes of it ---- */

void
bench_keep_least(double *least, double ns)
{
    if (ns > 0 && (*least == 0 || ns < *least))
        *least = ns;
}

bool
bench_is_clear(const struct bench_host *host, double least_ns)
{
    return host->arithmetic_ns <= 1.02 * least_ns;
}

void
bench_host_measure(struct bench *b, struct bench_host *out_host)
{
    size_t i;

    *out_host = (struct bench_host){.stretch = 1};
    if (!b->host_memory) {
        b->host_memory = host_alloc(memory_bytes(b));
        if (b->host_memory)
            memset(b->host_memory, 1, memory_bytes(b));
    }
    for (i = 0; i < TAKES; i++) {
        bench_keep_least(&out_host->arithmetic_ns, bench_host_sums());
        if (b->host_memory)
            bench_keep_least(&out_host->memory_ns, time_copy(b));
    }
    out_host->handoff_ns = out_host->handoff_q3_ns = time_handoffs();
}

void
bench_host_close(struct bench *b)
{
    host_free(b->host_memory);
    b->host_memory = NULL;
}

void
bench_host_of_run(const struct bench *b, struct bench_host *out_host)
{
    double values[5][BENCH_ROWS_MAX], middle[5] = {0};
    size_t n = 0, i;

    for (i = 0; i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];

        if (row->why_not[0] || row->is_derived || !(row->host.stretch > 0))
            continue;
        values[0][n] = row->host.arithmetic_ns;
        values[1][n] = row->host.memory_ns;
        values[2][n] = row->host.handoff_ns;
        values[3][n] = row->host.handoff_q3_ns;
        values[4][n++] = row->host.stretch;
    }
    for (i = 0; n && i < 5; i++)
        middle[i] = bench_quantile(values[i], n, 0.5);
    *out_host = (struct bench_host){middle[0], middle[1], middle[2], middle[3],
                                    middle[4]};
}
