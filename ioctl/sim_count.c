/* The counts of this process. File-scope state: simulated cards are the
 * process's, and what they count is too. */
#include "ioctl/sim_count.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define SECTOR_BYTES 32u
#define N_BANKS      32u
#define BANK_BYTES   4u
/* what recurs every 16, or every 8 or 32, is seen in turns of both halves */
#define MANY         64
#define RECURS       16
#define STEP_OF_THEM 9
#define GOLDEN       0.6180339887498949 /* steps by it fall between all others */

static struct {
    pthread_mutex_t lock;
    _Atomic bool on;
    uint64_t most_groups;
    struct sim_counts sum;
} counting = {.lock = PTHREAD_MUTEX_INITIALIZER};

void
sim_count_begin(uint64_t most_groups)
{
    assert(!atomic_load(&counting.on));
    pthread_mutex_lock(&counting.lock);
    memset(&counting.sum, 0, sizeof(counting.sum));
    counting.most_groups = most_groups;
    atomic_store(&counting.on, true);
    pthread_mutex_unlock(&counting.lock);
}

void
sim_count_take(struct sim_counts *out_counts)
{
    pthread_mutex_lock(&counting.lock);
    *out_counts = counting.sum;
    memset(&counting.sum, 0, sizeof(counting.sum));
    pthread_mutex_unlock(&counting.lock);
}

void
sim_count_end(void)
{
    atomic_store(&counting.on, false);
}

bool
sim_count_on(uint64_t *out_most_groups)
{
    bool on;

    if (!atomic_load(&counting.on))
        return false;
    pthread_mutex_lock(&counting.lock);
    on = atomic_load(&counting.on);
    *out_most_groups = counting.most_groups;
    pthread_mutex_unlock(&counting.lock);
    return on;
}

static bool
are_prime(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a == 1;
}

uint64_t
sim_count_step(uint64_t n_groups, uint64_t most_groups, uint64_t *out_n_run)
{
    uint64_t step = (uint64_t)((double)n_groups * GOLDEN);

    *out_n_run = n_groups;
    if (most_groups == 0 || n_groups <= most_groups)
        return 1;
    *out_n_run = most_groups;
    while (!are_prime(n_groups, step) ||
           (n_groups >= MANY && step % RECURS != STEP_OF_THEM))
        step++;
    return step;
}

void
sim_count_add(const struct sim_counts *part)
{
    struct sim_counts *sum = &counting.sum;
    int i;

    assert(part->n_groups_run <= part->n_groups);
    pthread_mutex_lock(&counting.lock);
    sum->n_groups += part->n_groups;
    sum->n_groups_run += part->n_groups_run;
    for (i = 0; i < SIM_INSN_COUNT; i++)
        sum->n_insns[i] += part->n_insns[i];
    for (i = 0; i < CHIP_RATE_COUNT; i++)
        sum->matrix_flops[i] += part->matrix_flops[i];
    sum->loaded_bytes += part->loaded_bytes;
    sum->stored_bytes += part->stored_bytes;
    sum->load_sectors += part->load_sectors;
    sum->store_sectors += part->store_sectors;
    sum->n_loads += part->n_loads;
    sum->n_stores += part->n_stores;
    sum->n_wavefronts += part->n_wavefronts;
    sum->least_wavefronts += part->least_wavefronts;
    sum->n_barriers += part->n_barriers;
    sum->n_branches += part->n_branches;
    sum->n_divergent += part->n_divergent;
    pthread_mutex_unlock(&counting.lock);
}

void
sim_count_global(struct sim_counts *counts, const uint64_t *addr, uint32_t n,
                 uint32_t n_bytes, bool is_write)
{
    uint64_t seen[256], sector; /* 64 lanes of 128 bytes at most */
    uint32_t n_seen = 0, i, j;

    assert(n <= 64 && n_bytes > 0 && n_bytes <= 128);
    for (i = 0; i < n; i++) {
        for (sector = addr[i] / SECTOR_BYTES;
             sector <= (addr[i] + n_bytes - 1) / SECTOR_BYTES; sector++) {
            /* most are next to the last one */
            for (j = n_seen; j > 0 && seen[j - 1] != sector; j--)
                ;
            if (j == 0 && n_seen < 256)
                seen[n_seen++] = sector;
        }
    }
    if (is_write) {
        counts->n_stores++;
        counts->stored_bytes += (uint64_t)n * n_bytes;
        counts->store_sectors += n_seen;
    } else {
        counts->n_loads++;
        counts->loaded_bytes += (uint64_t)n * n_bytes;
        counts->load_sectors += n_seen;
    }
}

/* The passes of lanes whose words are taken together: as many as the bank that
 * is asked for most different words. */
static uint32_t
passes(const uint64_t *addr, uint32_t n, uint32_t n_words)
{
    uint64_t words[N_BANKS][N_BANKS], word;
    uint32_t n_of[N_BANKS] = {0}, most = 1, i, k, j;

    assert(n * n_words <= N_BANKS);
    for (i = 0; i < n; i++) {
        for (k = 0; k < n_words; k++) {
            uint32_t bank;

            word = addr[i] / BANK_BYTES + k;
            bank = (uint32_t)(word % N_BANKS);
            for (j = 0; j < n_of[bank] && words[bank][j] != word; j++)
                ;
            if (j < n_of[bank])
                continue;
            words[bank][n_of[bank]++] = word;
            most = n_of[bank] > most ? n_of[bank] : most;
        }
    }
    return most;
}

void
sim_count_shared(struct sim_counts *counts, const uint64_t *addr, uint32_t n,
                 uint32_t n_bytes)
{
    uint32_t n_words = n_bytes > BANK_BYTES ? n_bytes / BANK_BYTES : 1;
    uint32_t together = N_BANKS / n_words, i;

    assert(n_bytes > 0 && n_bytes <= N_BANKS * BANK_BYTES);
    for (i = 0; i < n; i += together) {
        uint32_t part = n - i < together ? n - i : together;

        counts->n_wavefronts += passes(addr + i, part, n_words);
        counts->least_wavefronts++;
    }
}
