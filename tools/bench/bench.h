/* `doorbell bench`: what a device and the way to it cost. Each measurement is
 * a row: a median over repeated runs with what it scatters by, in a unit that
 * its name ends with. On simulated devices the figures are the simulator's.
 *
 * All rows are measured in several passes, each on a device that is opened
 * anew; in each, a row for its part of the time. The distance of the passes'
 * medians is the row's interval. A suite is a function that measures rows one
 * after the other; each is told when its last pass is over. Plain data; one
 * thread.
 */
#ifndef BELL_TOOLS_BENCH_BENCH_H
#define BELL_TOOLS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chip.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_collective.h"
#include "tools/selftest/selftest.h"
#include "base/thread.h"

#define BENCH_ROWS_MAX    1024
#define BENCH_RANKS_MAX   (HCQ_GRAPH_QUEUES_MAX / 2)
#define BENCH_SAMPLES_MAX 4096 /* of a pass */
#define BENCH_PASSES_MAX  16
#define BENCH_PASSES_MIN  4 /* fewer tell no interval */
#define BENCH_BINS        32
#define BENCH_COMPILED    4  /* graphs */
#define BENCH_BLOCKS      8  /* of a row's time, at least */
#define BENCH_BLOCKS_MAX  64 /* that are looked at */
#define BENCH_WAIT_NS     60000000000ull
/* A wider interval than this to a side is noisy. */
#define BENCH_NOISY_PERCENT 5.0
/* Steps of the clock that a sample has at least. */
#define BENCH_TICKS 100

enum bench_unit {
    BENCH_US,     /* microseconds; less is better */
    BENCH_NS,     /* nanoseconds; less is better */
    BENCH_MS,     /* milliseconds; less is better */
    BENCH_GB_S,   /* 10^9 bytes a second */
    BENCH_GFLOPS, /* 10^9 operations a second */
    BENCH_GOPS,   /* 10^9 a second, of operations that are not arithmetic of
                   * floats */
    BENCH_KILO_S, /* thousands a second */
    BENCH_UNIT_COUNT
};

/* "us": also the end of the keys in JSON. */
extern const char *const bench_unit_names[BENCH_UNIT_COUNT];
/* "GB/s": for people */
extern const char *const bench_unit_texts[BENCH_UNIT_COUNT];

/* More is better. */
bool bench_is_rate(enum bench_unit unit);

/* What a rate has as its ceiling. */
enum bench_ceiling {
    BENCH_CEILING_F32 = CHIP_F32,
    BENCH_CEILING_F64 = CHIP_MATRIX_F64,
    BENCH_CEILING_F16 = CHIP_MATRIX_F16,
    BENCH_CEILING_TF32 = CHIP_MATRIX_TF32,
    BENCH_CEILING_8 = CHIP_MATRIX_8,
    BENCH_CEILING_VECTOR_F64 = CHIP_F64,
    BENCH_CEILING_VECTOR_F16 = CHIP_F16,
    BENCH_CEILING_VECTOR_BF16 = CHIP_BF16,
    BENCH_CEILING_I32 = CHIP_I32,
    BENCH_CEILING_MEMORY = CHIP_RATE_COUNT,
    BENCH_CEILING_LINK, /* between host and device */
    BENCH_CEILING_NONE,
    BENCH_CEILING_COUNT = BENCH_CEILING_NONE
};

enum bench_verdict {
    BENCH_SAME,
    BENCH_BETTER,
    BENCH_WORSE,
    BENCH_UNTOLD, /* what the hosts did hides what is asked for */
    BENCH_VERDICT_COUNT
};

extern const char *const bench_verdict_names[BENCH_VERDICT_COUNT];

/* What the host did beside a row. */
struct bench_host {
    double arithmetic_ns; /* the best of sums and shifts of eight numbers */
    double memory_ns;     /* the best copy of 1 MiB that no cache has */
    double handoff_ns;    /* a word to another thread and back: the best, */
    double handoff_q3_ns; /* and three of four */
    /* What time the row's threads took, ready to run or running, for 1 that
     * they ran; 1 where runs are too short to be in the way of others. */
    double stretch;
};

/* For how long threads ran, and were ready to run and did not. */
struct bench_turns {
    uint64_t ran_ns, waited_ns;
};

/* A part of a row's time: its best sample, and the host then. */
struct bench_block {
    double best;
    double key; /* less: it says more of the code */
    struct bench_host host;
};

/* A collective, or a copy between two devices, that a row is of. */
struct bench_exchange {
    bool is_set;
    unsigned n_ranks;
    uint64_t size_bytes, count; /* as nccl-tests counts them */
    const char *type, *redop;   /* static; "none" */
    int root;                   /* -1: none */
    bool in_place;
    double bus_factor;     /* of the rate: busbw is it times algbw */
    uint64_t n_wrong;      /* elements */
    const char *algorithm; /* static; NULL: a copy */
    double predicted_us;
    int from, to; /* of a copy: which device */
};

struct bench_row {
    char name[48];     /* "copy_d2d_1MiB" */
    const char *suite; /* static */
    const char *what;  /* static: for people */
    enum bench_unit unit;
    double median, q1, q3;
    double p1, p99;
    double best;             /* the best run of the second best block */
    double low, high;        /* where the median of another run is, 95 % */
    double interval_percent; /* the farther of the two, from the median */
    double passes[BENCH_PASSES_MAX]; /* the median of each */
    unsigned n_passes;
    bool is_noisy;         /* the interval is wide */
    bool is_told;          /* to whom it is printed for */
    bool is_derived;       /* of other rows */
    bool is_alone;         /* a run is this thread's own work alone */
    double spread_percent; /* how far apart the best of its blocks are */
    double run_ns;         /* the shortest run, from one to the next */
    struct bench_host host;
    uint64_t n_runs;
    double flops, bytes; /* of a run, where they are known; else 0 */
    enum bench_ceiling ceiling;
    double theory, measured; /* ceilings in the row's unit; 0: not known */
    bool has_bins;           /* of times: lo to hi; the last bin has the rest */
    double bin_lo, bin_hi;
    uint32_t bins[BENCH_BINS];
    bool has_old; /* --against */
    double old, old_best, old_spread_percent, old_run_ns;
    struct bench_host old_host; /* all 0: not told */
    unsigned n_again;           /* times that it was measured again */
    enum bench_verdict verdict;
    char why_not[160]; /* not empty: not measured */
    struct bench_exchange exchange;
    struct bench_taken *taken; /* owned, until the row is finished */
};

/* What was taken of a row until now, pass by pass. */
struct bench_taken {
    double *samples; /* owned: those of the first pass, of the next, .. */
    size_t n_samples, n_of[BENCH_PASSES_MAX];
    double medians[BENCH_PASSES_MAX];
    unsigned n_passes, n_batch;
    struct bench_block blocks[BENCH_BLOCKS_MAX];
    size_t n_blocks;
    uint64_t n_runs;
    double wall_ns, cost_ns; /* of the first pass: preparing included */
    struct bench_turns turns;
};

/* What a device and its host run at. */
struct bench_state {
    uint32_t clock_mhz;          /* 0: not told */
    double temperature_c, cpu_c; /* of device and host; NAN: not told */
    double cpu_mhz;              /* 0: not told */
};

/* How the device was at a moment of the run. */
struct bench_moment {
    double time_s; /* from the beginning on */
    struct bench_state state;
    double power_w; /* NAN: not told */
    bool tells_throttle;
    uint64_t throttle; /* machine_throttle_text */
};

struct machine_gpu;

struct bench {
    const char *device;                /* the first of them */
    char default_device[HCQ_NAME_MAX]; /* where none was named */
    const char *list; /* of several, as they were named; NULL: one */
    char names[BENCH_RANKS_MAX][HCQ_NAME_MAX];
    unsigned n_names;                        /* 0: one */
    const char *math;                        /* of --math, or NULL */
    enum hcq_collective_algorithm algorithm; /* of --algorithm, or AUTO */
    bool is_named;    /* the suites that run were asked for by name */
    uint32_t allowed; /* enum bell_math, of the contexts that were opened */
    double budget_s;  /* for each row, of all passes */
    unsigned n_passes, pass; /* 0: one; the one that runs, from 0 */
    double tick_ns;          /* the least step of the host's clock */
    double slow_down; /* 1; for tests: what all times are multiplied with */

    struct hcq_device *dev; /* owned while queue measurements run */
    struct hcq_device_info info;
    struct hcq_queue *compute, *copy;
    struct hcq_program *store, *count; /* kernels of one thread; may be NULL */
    bool is_small;                     /* sizes that end: simulated, or */
    bool is_quick;                     /* asked for */
    const struct chip *chip;           /* NULL: no product that is known */
    double link_gb_s;                  /* 0: not known */
    struct bench_state before, after;
    const struct machine_gpu *gpu; /* of this machine; NULL: none */
    struct bench_moment *series;   /* owned: some a run, a second apart */
    size_t n_series, cap_series;
    uint64_t began_ns, sensed_ns;
    void (*sensed)(struct bench *b); /* looks now and then; NULL: nobody */
    unsigned char *host_memory;      /* owned (bench_host.c); NULL: none yet */
    size_t host_memory_at;

    char compiled[BENCH_COMPILED][64]; /* what compile_* include */

    const char *suite;        /* that runs */
    struct bench_row current; /* that is measured */
    double samples[BENCH_SAMPLES_MAX];
    size_t n_samples;
    uint64_t n_runs; /* of which every n_apart-th is kept as a sample */
    unsigned n_apart;
    unsigned n_batch;  /* runs of a sample */
    uint64_t start_ns; /* of the row's pass */
    struct bench_block blocks[BENCH_BLOCKS_MAX], block;
    size_t n_blocks, n_in_block;
    double least_sums_ns;      /* of all rows until now */
    uint64_t begin_ns;         /* when preparing the row began */
    uint64_t block_ns, run_ns; /* when the block, and the run, began */
    struct bench_turns turns;  /* when the row began */
    bool is_again;             /* only rows that are open count */
    bool is_interrupted;
    char failure[256]; /* what ended the run; "": nothing did */

    struct bench_row rows[BENCH_ROWS_MAX];
    size_t n_rows;
    void (*told)(const struct bench *b, const struct bench_row *row);
};

/* A failing status ends the run. */
struct bench_suite {
    const char *name, *what;
    bell_status (*run)(struct bench *b);
    bool is_group; /* of several devices */
};

extern const struct bench_suite bench_suites[];
extern const size_t bench_n_suites;

/* suite_NAME.c. Those of queues use dev, compute, copy; those of tensors open
 * contexts of their own. */
bell_status bench_launch(struct bench *b);
bell_status bench_copy(struct bench *b);
bell_status bench_mem(struct bench *b);
bell_status bench_flops(struct bench *b);
bell_status bench_gemm(struct bench *b);
bell_status bench_micro(struct bench *b);
bell_status bench_ops(struct bench *b);
bell_status bench_compile(struct bench *b);
bell_status bench_startup(struct bench *b);
bell_status bench_peers(struct bench *b);
bell_status bench_all_reduce(struct bench *b);
bell_status bench_all_gather(struct bench *b);
bell_status bench_reduce_scatter(struct bench *b);
bell_status bench_all_to_all(struct bench *b);
bell_status bench_broadcast(struct bench *b);

/* The device with its queues, and kernels where there are some for it. */
BELL_MUST_CHECK bell_status bench_open(struct bench *b);
void bench_close(struct bench *b);
/* *out_prog is NULL where there is no such kernel for the device. */
BELL_MUST_CHECK bell_status bench_load(struct bench *b,
                                       enum selftest_kernel kernel,
                                       struct hcq_program **out_prog);

/* ---- several devices (bench_group.c) ------------------------------------ */

struct bench_group {
    unsigned n;
    struct hcq_device *devs[BENCH_RANKS_MAX]; /* the first is the bench's */
    struct hcq_queue *compute[BENCH_RANKS_MAX], *copy[BENCH_RANKS_MAX];
    /* To the other device: on an engine of that link, where there are some that
     * suit it, else the copy queue; NULL: to itself. */
    struct hcq_queue *links[BENCH_RANKS_MAX][BENCH_RANKS_MAX];
};

/* Whether the name is a list. */
bool bench_is_group(const char *name);
/* Fills in names of "NV:0,NV:1", "NV:*@sim:h100*8" or "CPU,CPU"; options of an
 * interface may have commas, "NV:0,NV:1@sim:h100*2,link=none", and count for
 * names of the backend before it that have none. BELL_E_INVALID: a name is too
 * long, or there are too many. */
BELL_MUST_CHECK bell_status bench_group_parse(const char *list,
                                              struct bench *b);
/* All of them, with queues. */
BELL_MUST_CHECK bell_status bench_group_open(struct bench *b,
                                             struct bench_group *group);
void bench_group_close(struct bench_group *group);
/* "8B", "64KiB": for names of rows. */
void bench_name_size(uint64_t n_bytes, char out[16]);
/* GB/s that bytes of `exchange` move by; times bus_factor that of the bus. */
double bench_alg_gb_s(const struct bench_row *row);
/* A row of an exchange as text, and what stands above its columns. */
void bench_print_exchange(const struct bench_row *row);
void bench_print_columns(struct bench *b);
/* Rows of pairs of devices as matrices. */
void bench_print_matrices(const struct bench *b);

/* ---- rows (bench_rows.c) ------------------------------------------------ */

/* A row: begin, samples until bench_goes_on says no, end. */
void bench_begin(struct bench *b, enum bench_unit unit, const char *what,
                 const char *name, ...) __attribute__((format(printf, 4, 5)));
/* What a run of it does, and what bounds it. */
void bench_work(struct bench *b, double flops, double bytes,
                enum bench_ceiling ceiling);
/* Percentiles are of interest: they are printed, and bins kept. */
void bench_keep_bins(struct bench *b);
/* A run is work of this thread alone: it waits for no other one, and neither
 * the kernel nor memory that no cache has is a part of it. */
void bench_alone(struct bench *b);
/* Until there are `min` samples, the time is spent and the median is known. */
bool bench_goes_on(struct bench *b, size_t min);
void bench_sample(struct bench *b, double value);
/* Ends a block of the row's samples, of which there are some eight: what the
 * host did then. */
void bench_end_block(struct bench *b, const struct bench_host *host);
/* A sample of a run of the row's work, or of n_bytes or flops of it. */
void bench_sample_ns(struct bench *b, double ns);
/* The same for a batch of bench_batch runs with n_parts each, which took ns
 * together. Batches of short runs last at least BENCH_TICKS steps of the clock.
 */
unsigned bench_batch(const struct bench *b);
void bench_sample_batch(struct bench *b, double ns, unsigned n_parts);
/* The same of a row that is this thread's own work alone: what sums took beside
 * it (bench_host_sums), the longer of before and after. */
void bench_sample_beside(struct bench *b, double ns, double sums_ns);
/* What measuring it again may settle: it seems worse, or cannot be told and is
 * this thread's own work, which has moments that nothing is in its way. */
bool bench_is_open(const struct bench_row *row);
/* Whether the row that has begun is measured: in the passes all are, but that
 * those that take long to prepare are so in every second one; then those that
 * are open. */
bool bench_is_wanted(struct bench *b);
/* Whether rows that take long to prepare are measured in this pass. */
bool bench_is_costly_pass(const struct bench *b);
void bench_end(struct bench *b);
/* Whether no pass follows: rows are complete as they end. */
bool bench_is_last_pass(const struct bench *b);
/* Finish rows that no more passes come for: their samples become their figures;
 * they are told if they were not. */
void bench_finish_row(struct bench *b, struct bench_row *row);
void bench_finish(struct bench *b);
/* Frees the samples of rows that were not finished. */
void bench_free_rows(struct bench *b);
/* A row that this device has not. */
void bench_lacks(struct bench *b, enum bench_unit unit, const char *what,
                 const char *name, const char *why);
/* What measuring the row that has begun came to: if the device lacks what it
 * takes, the row says so, and the others go on. */
BELL_MUST_CHECK bell_status bench_unless_lacking(struct bench *b,
                                                 bell_status status);
/* A row that follows from others: no runs of its own. */
void bench_derive(struct bench *b, enum bench_unit unit, const char *what,
                  double value, const char *name, ...)
    __attribute__((format(printf, 5, 6)));

/* The quantile p, from 0 to 1, of n >= 1 values, which it sorts. */
double bench_quantile(double *values, size_t n, double p);

/* Fills the row's figures in from what was taken. */
BELL_MUST_CHECK bell_status bench_fill_row(struct bench_row *row,
                                           struct bench_taken *taken);

/* True when the user asked for an end (Ctrl-C). */
bool bench_is_over(struct bench *b);

/* Sets the measured ceilings of all rows: the most of its kind. */
void bench_find_ceilings(struct bench *b);

/* ---- the host (bench_host.c) -------------------------------------------- */

/* What work that has nothing of ours in it takes now; some 1 ms. A value that
 * could not be measured is 0. stretch is 1. */
void bench_host_measure(struct bench *b, struct bench_host *out_host);
/* The least step of the clock that times are taken with, in ns. */
double bench_host_tick(void);
/* How long sums and shifts take now; some 10 us. */
double bench_host_sums(void);
/* Keeps the lesser of the two that are not 0. */
void bench_keep_least(double *least, double ns);
/* Whether nothing was in the way: sums took the least that they can. */
bool bench_is_clear(const struct bench_host *host, double least_ns);
/* The turns of all threads of this process together, since each began; 0 where
 * the kernel does not tell. */
void bench_host_turns(struct bench_turns *out_turns);
/* The median of all rows; 0 where there are none. */
void bench_host_of_run(const struct bench *b, struct bench_host *out_host);
void bench_host_close(struct bench *b);

/* ---- tensors (suite_ops.c) ---------------------------------------------- */

/* What is computed from the inputs. */
typedef struct bell_tensor *bench_make_fn(struct bell_context *ctx,
                                          struct bell_tensor *const *in,
                                          const void *user);

#define BENCH_INPUTS_MAX 3

/* Random numbers of 0..scale. */
struct bench_input {
    const int64_t *shape; /* NULL: no input, nor any after it */
    uint32_t ndim;
    enum bell_dtype dtype;
    double scale;
};

/* One row of tensors. */
struct bench_job {
    bench_make_fn *make;
    const void *user;
    struct bench_input in[BENCH_INPUTS_MAX];
    uint32_t math;       /* allowed besides what --math says */
    double flops, bytes; /* of a run */
    enum bench_ceiling ceiling;
};

/* Measures the row that has begun; none comes of it where the device does not
 * tell that math from the other. */
BELL_MUST_CHECK bell_status bench_run_job(struct bench *b,
                                          const struct bench_job *job);

/* ---- documents (bench_document.c) ---------------------------------------- */

/* 1 had no identity, 2 no host beside each row. */
#define BENCH_DOCUMENT_VERSION 3

struct json;
/* The document of a run: what identifies it, and its rows. */
void bench_build_json(struct json *json, const struct bench *b);
/* A line a row; *out_text is freed with host_free. */
BELL_MUST_CHECK bell_status bench_build_csv(const struct bench *b,
                                            char **out_text);

/* ---- saved runs (bench_saved.c) ----------------------------------------- */

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
/* Sets `old` and the verdict of each row that the saved run has. It is better
 * or worse where its best runs are so by more than the threshold, by more than
 * those of either run scatter, and by more than what the host did beside the
 * two rows explains (bench_host), where the host has a part in the row. Where
 * that explains as much as twice the threshold, it cannot be told, unless it is
 * so by more than the square of what is explained. */
void bench_saved_compare(const struct bench_saved *saved, struct bench *b,
                         double threshold_percent);
/* The time that the host takes now for what took 1 in the saved run: sums and
 * shifts, and copies, whichever is slower; 1 where the saved run does not
 * tell. */
double bench_saved_host_ratio(const struct bench_saved *saved,
                              const struct bench *b);
/* How much better (more of a rate, less of a time) the best runs are. */
double bench_gain_percent(const struct bench_row *row);

/* ---- the report (bench_html.c) ------------------------------------------ */

/* One page with plots of the runs, JSON documents as bench_build_json writes
 * them: this one, and one to compare with ("null": none). */
BELL_MUST_CHECK bell_status bench_write_html(const char *path,
                                             const char *document,
                                             const char *other,
                                             size_t other_bytes);

static inline double
ns_since(uint64_t start_ns)
{
    return (double)(time_now_ns() - start_ns);
}

#endif
