/* Probes: kernels by hand that do one thing again and again, which `doorbell
 * bench` times: atomics, barriers, branches, chains of instructions that wait
 * for each other, reads of caches and of constants, integers of other widths.
 * They are PTX, or LLVM's IR for AMD's GPUs and, where it has such a thing, the
 * CPU. Their results are known. Plain data; any thread.
 */
#ifndef BELL_TOOLS_BENCH_PROBE_H
#define BELL_TOOLS_BENCH_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/growing_text.h"
#include "hcq/hcq.h"
#include "render/render.h"

enum probe_kind {
    PROBE_ATOMIC_OWN,    /* each thread a word of its own */
    PROBE_ATOMIC_SAME,   /* all threads one word */
    PROBE_ATOMIC_SHARED, /* each thread a word of its group's memory */
    PROBE_BARRIER,
    PROBE_BRANCH_SAME,  /* all threads go one way of two */
    PROBE_BRANCH_SPLIT, /* each second one goes the other way */
    PROBE_WAIT_MAD_I32, /* an instruction that the next one waits for */
    PROBE_WAIT_FMA_F32,
    PROBE_WAIT_FMA_F64,
    PROBE_WAIT_SHARED, /* a load of shared memory */
    PROBE_READ_L1,     /* 16 bytes a thread */
    PROBE_READ_L2_4,   /* 4 bytes a thread, 8, 16 */
    PROBE_READ_L2_8,
    PROBE_READ_L2_16,
    PROBE_CONSTANT, /* a word that all threads read */
    PROBE_MAD_I16,  /* four chains a thread */
    PROBE_MAD_I64,
    PROBE_KIND_COUNT
};

struct probe {
    enum probe_kind kind;
    uint32_t n_threads;       /* of a group */
    unsigned turns;           /* of a round: times that the thing is done */
    uint32_t words;           /* that p2 has: word i is i, but of atomics, where
                           * all are 0 */
    uint32_t a, b;            /* factor and summand */
    struct hcq_program *prog; /* owned by who made it */
};

extern const char *const probe_names[PROBE_KIND_COUNT];

/* For the reads: bytes of an access, and of the area that is read; 0: none. */
unsigned probe_width(enum probe_kind kind);
uint32_t probe_place_bytes(enum probe_kind kind);

/* hcq_program_destroy its prog. BELL_E_UNSUPPORTED says why there is none. */
BELL_MUST_CHECK bell_status probe_load(struct hcq_device *dev,
                                       enum probe_kind kind,
                                       struct probe *out_probe);

/* Each thread does n_rounds >= 1, and stores a word at results_va. */
void probe_launch(const struct probe *probe, struct hcq_cs *cs,
                  uint64_t results_va, uint64_t n_rounds, uint64_t words_va,
                  uint32_t n_groups);

/* What that thread stores. */
uint32_t probe_result(const struct probe *probe, uint32_t group,
                      uint32_t thread, uint64_t n_rounds);
/* What word i of p2 is after one launch. */
uint32_t probe_word(const struct probe *probe, uint32_t i, uint64_t n_rounds,
                    uint32_t n_groups);

/* ---- makers (probe_ptx.c, probe_llvm.c) ---------------------------------- */

#define PROBE_THREADS   256u
#define PROBE_CHAINS    4u /* of integers */
#define PROBE_CONSTANTS 64u

/* Each appends a kernel to `text`, which the caller frees, and compiles it. */
BELL_MUST_CHECK bell_status probe_make_ptx(const struct hcq_device_info *info,
                                           const struct probe *probe,
                                           struct text *text,
                                           struct render_binary *out);
BELL_MUST_CHECK bell_status probe_make_amd(const struct hcq_device_info *info,
                                           const struct probe *probe,
                                           struct text *text,
                                           struct render_binary *out);
BELL_MUST_CHECK bell_status probe_make_host(const struct hcq_device_info *info,
                                            const struct probe *probe,
                                            struct text *text,
                                            struct render_binary *out);

/* BELL_E_NO_MEMORY: the text is not whole. */
BELL_MUST_CHECK bell_status probe_check_text(const struct text *text);

#endif
