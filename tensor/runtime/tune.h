/* The search for schedules that are faster than the rules'
 * (docs/how-to/tuning.md): as tools see it. BELL_BEAM turns it on for all
 * programs.
 */
#ifndef BELL_TENSOR_RUNTIME_TUNE_H
#define BELL_TENSOR_RUNTIME_TUNE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/chip.h"
#include "base/status.h"

struct bell_context;

#define TENSOR_TUNE_BEAM    4   /* where nobody says */
#define TENSOR_TUNE_MAX     64  /* of a beam */
#define TENSOR_TUNE_SECONDS 5.0 /* for a kernel, where nobody says */

/* What times are. */
enum tensor_tune_by {
    TENSOR_TUNE_TIMED,     /* on the device */
    TENSOR_TUNE_COUNTED,   /* the chip's roofline, of what its simulation did */
    TENSOR_TUNE_ESTIMATED, /* the same, of what the compiler expects */
};

/* One kernel that was searched for. */
struct tensor_tuned {
    const char *name;
    const char *why_not;      /* it was not searched: NULL, or why */
    const char *why_rules;    /* the rules stay: NULL, or why */
    const char *rules, *best; /* schedules, as text */
    enum tensor_tune_by by;
    const char *chip; /* whose roofline it is; NULL */
    double rules_us, best_us, seconds;
    bool is_known; /* found in the cache */
    uint32_t n_tried;
    /* of them: */
    uint32_t n_same;    /* made what another had made */
    uint32_t n_invalid; /* no schedule of this kernel */
    uint32_t n_large;   /* would take too long to compile */
    uint32_t n_wrong;   /* other results than the rules' */
    uint32_t n_faulted, n_hung;
};

struct tensor_tune {
    uint32_t beam;                     /* 0: no search */
    double seconds;                    /* for a kernel */
    bool searches_again;               /* also what the cache has */
    const volatile sig_atomic_t *stop; /* not 0: no more; NULL */
    void (*tell)(void *user, const struct tensor_tuned *tuned); /* or NULL */
    /* On a simulated card: before and after one launch, which may leave out
     * work-groups; NULL: nothing is counted. */
    void (*count_begin)(void *user);
    void (*count_end)(void *user, struct chip_work *out_work);
    void *user;
    /* For tests: the first candidate that runs from that number on (from 1; 0:
     * none) gets a bad address, or waits for what never comes. */
    uint32_t bad_address, never_ends;
};

/* Kernels that the context compiles from now on are searched for, or not
 * (NULL).
 */
void tensor_tune_set(struct bell_context *ctx, const struct tensor_tune *tune);

/* Searches for the kernels that the bundle at `path` has for the context's
 * device, as tensor_tune_set said, and writes it to `out_path` (the same, or
 * another) with those that are faster than what is there: *out_n_new of them.
 * The context's math becomes what they were made with. */
BELL_MUST_CHECK bell_status tensor_tune_bundle(struct bell_context *ctx,
                                               const char *path,
                                               const char *out_path,
                                               uint32_t *out_n_new);

#endif
