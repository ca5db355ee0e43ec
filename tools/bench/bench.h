/* `doorbell bench`: what a device and the way to it cost. Each measurement is
 * a row: a median with its quartiles over repeated runs, in a unit that its
 * name ends with. On simulated devices the figures are the simulator's.
 *
 * Plain data; one thread.
 */
#ifndef BELL_TOOLS_BENCH_BENCH_H
#define BELL_TOOLS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/hcq.h"

#define BENCH_ROWS_MAX    128
#define BENCH_SAMPLES_MAX 4096
#define BENCH_WAIT_NS     60000000000ull

enum bench_unit {
    BENCH_US,     /* microseconds; less is better */
    BENCH_NS,     /* nanoseconds; less is better */
    BENCH_MS,     /* milliseconds; less is better */
    BENCH_GB_S,   /* 10^9 bytes a second */
    BENCH_GFLOPS, /* 10^9 operations a second */
    BENCH_KILO_S, /* thousands a second */
    BENCH_UNIT_COUNT
};

/* "us": also the end of the keys in JSON. */
extern const char *const bench_unit_names[BENCH_UNIT_COUNT];

enum bench_verdict {
    BENCH_SAME,
    BENCH_BETTER,
    BENCH_WORSE
};

extern const char *const bench_verdict_names[];

struct bench_row {
    char name[48];    /* "copy_d2d_1MiB" */
    const char *what; /* static: for people */
    enum bench_unit unit;
    double median, q1, q3;
    uint64_t n_runs;
    bool has_old; /* --against */
    double old, old_q1, old_q3;
    enum bench_verdict verdict;
    char why_not[160]; /* not empty: not measured */
};

struct bench {
    const char *device;
    char default_device[HCQ_NAME_MAX]; /* where none was named */
    const char *only;                  /* a group, or NULL */
    const char *math;                  /* of --math, or NULL */
    uint32_t allowed; /* enum bell_math, of the contexts that were opened */
    double budget_s;  /* for each row */

    struct hcq_device *dev; /* owned while queue measurements run */
    struct hcq_device_info info;
    struct hcq_queue *compute, *copy;
    struct hcq_program *store; /* one thread stores a number; may be NULL */
    bool is_small;             /* simulated: sizes that end */

    double samples[BENCH_SAMPLES_MAX];
    size_t n_samples;
    uint64_t start_ns; /* of the row */

    struct bench_row rows[BENCH_ROWS_MAX];
    size_t n_rows;
    uint32_t clock_mhz; /* of the device, behind the last row; 0: unknown */
};

/* One group of rows. A failing status ends the run. */
struct bench_group {
    const char *name, *what;
    bell_status (*run)(struct bench *b);
};

extern const struct bench_group bench_groups[];
extern const size_t bench_n_groups;

/* Groups of bench_queue.c: they use dev, compute, copy. */
bell_status bench_launch(struct bench *b);
bell_status bench_rate(struct bench *b);
bell_status bench_replay(struct bench *b);
bell_status bench_copy(struct bench *b);
bell_status bench_memory(struct bench *b);
/* Groups of bench_tensor.c: they open contexts of their own. */
bell_status bench_start(struct bench *b);
bell_status bench_elementwise(struct bench *b);
bell_status bench_gemm(struct bench *b);

/* The device with its queues, and a kernel where it takes PTX. */
BELL_MUST_CHECK bell_status bench_open(struct bench *b);
void bench_close(struct bench *b);

/* A row: begin, samples until bench_goes_on says no, end. */
void bench_begin(struct bench *b);
/* Until there are `min` samples and the budget is spent, or no more room. */
bool bench_goes_on(const struct bench *b, size_t min);
void bench_sample(struct bench *b, double value);
void bench_end(struct bench *b, enum bench_unit unit, const char *what,
               const char *name, ...) __attribute__((format(printf, 4, 5)));
/* A row that this device has not. */
void bench_lacks(struct bench *b, enum bench_unit unit, const char *what,
                 const char *name, const char *why);

/* Median and quartiles of n >= 1 values, which are sorted. */
void bench_quartiles(double *values, size_t n, double *out_q1,
                     double *out_median, double *out_q3);

/* ---- saved runs (bench_saved.c) ---------------------------------------- */

struct json;
/* The document of a run: what identifies it, and its rows. */
void bench_build_json(struct json *json, const struct bench *b);

struct bench_saved; /* a document that was read */

/* `path` must stay valid. BELL_E_IO: not what --save writes;
 * BELL_E_UNSUPPORTED: built without a reader. */
BELL_MUST_CHECK bell_status bench_saved_read(const char *path,
                                             struct bench_saved **out_saved);
void bench_saved_close(struct bench_saved *saved); /* NULL: nothing */
/* BELL_E_INVALID where it is of another device, or of other math (words; NULL:
 * not looked at). */
BELL_MUST_CHECK bell_status bench_saved_check(const struct bench_saved *saved,
                                              const struct bench *b,
                                              const char *math);
/* Sets `old` and the verdict of the rows that both have. A row is better or
 * worse where it is so by more than the threshold and by more than the runs
 * scatter. */
void bench_saved_compare(const struct bench_saved *saved, struct bench *b,
                         double threshold_percent);
/* How much better (more of a rate, less of a time) than `old`. */
double bench_gain_percent(const struct bench_row *row);

#endif
