/* Timing for the benchmark programs: medians of interleaved runs, as JSON.
 *
 * A case is timed together with its peer, turn by turn, so that both see the
 * same machine. Results go into one JSON document on stdout. One thread.
 */
#ifndef BELL_TESTS_BENCH_BENCH_H
#define BELL_TESTS_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

/* One thing to time. `ours` returns 0, or not 0 if it failed; it ends when the
 * result is in memory. */
struct bench_case {
    const char *name;
    int (*ours)(void *user);
    void (*peer)(void *user); /* or NULL */
    const char *peer_name;    /* "OpenBLAS", "plain C"; NULL without a peer */
    void *user;
    double n_flops, n_bytes; /* of one run; 0: not told */
};

struct bench {
    struct json json;
    const char *filter; /* part of the names to run; NULL: all */
    double seconds;     /* how long to time a case and its peer */
    unsigned n_threads; /* of both sides */
    int n_failed;
};

/* Reads --threads N, --seconds S and --filter TEXT, sets BELL_THREADS, starts
 * the document with the machine's facts. Exits with 2 on bad usage. */
void bench_begin(struct bench *bench, int argc, char **argv);
/* Whether a case of this name is to be run. */
int bench_wants(const struct bench *bench, const char *name);
/* Times a case; adds {"name", "time_ms", "peer", "peer_ms", "ratio",
 * "gflops", "bandwidth_gb_s"}; ratio is peer_ms / time_ms. */
void bench_run(struct bench *bench, const struct bench_case *c);
/* Prints the document; returns the exit code. */
int bench_end(struct bench *bench);

/* Median of n values (reorders them). */
double bench_median(double *values, size_t n);
/* The process' peak resident memory. */
uint64_t bench_peak_bytes(void);

#endif
