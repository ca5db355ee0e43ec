/* Inside of `doorbell burn`: a device under load, and what is told of it. */
#ifndef BELL_TOOLS_BURN_BURN_H
#define BELL_TOOLS_BURN_BURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "hcq/hcq.h"
#include "tools/chain/chain.h"
#include "tools/machine/sensors.h"

struct bell_context;
struct bell_tensor;
struct json;

#define PLACES_MAX 16 /* errors that are told one by one */
#define CHUNKS_MAX 256

/* An error, where it is. */
struct place {
    const char *work; /* static: "memory" */
    bool has_address; /* else `at` is the number of an element */
    uint64_t at, want, got;
    uint64_t round;
    unsigned unit_group; /* work-group that made it; of "multiply-add" */
};

struct burn_options {
    const char *device;
    double seconds, interval_s; /* of a line */
    int64_t memory_mib;
    bool json;
};

/* A line of what the device did and how it was, over some seconds. */
struct burn_moment {
    double time_s;        /* when it ended, from the start on */
    double flops;         /* in it */
    double seconds;       /* that it took */
    uint32_t clock_mhz;   /* the least in it; 0: not told */
    double temperature_c; /* the highest in it; NAN: not told */
    double power_w;       /* at its end; NAN: not told */
    uint64_t throttle;    /* all reasons in it */
    bool tells_throttle;
    uint64_t n_errors; /* until then */
};

/* One device's; its thread's alone while that runs. */
struct burn {
    const struct burn_options *options;
    const char *device; /* NULL: the default */
    pthread_t thread;
    bool has_thread, shows_progress;
    double seconds;          /* that it ran */
    bell_status status;      /* BELL_OK: it ran to its end */
    struct bell_error error; /* else why not */
    struct hcq_device *dev;
    struct hcq_device_info info;
    struct hcq_queue *compute, *copy;
    struct chain fma; /* its prog is NULL: none for it */
    struct hcq_buffer *chunks[CHUNKS_MAX], *out;
    size_t n_chunks;
    uint64_t chunk_bytes;
    uint32_t *host; /* a chunk */
    uint32_t n_groups;
    uint64_t n_rounds_fma;
    uint32_t want_fma[CHAIN_RESULTS];
    struct bell_context *ctx;
    struct bell_tensor *x, *y, *first; /* matrices, and their first product */
    int64_t n;                         /* of the matrices */

    uint64_t end_ns, n_rounds, n_errors, n_checked_bytes;
    double flops;
    struct place places[PLACES_MAX];
    size_t n_places;
    const struct machine_gpu *gpu; /* NULL: not known */
    uint32_t clock_mhz[2];    /* at the start and at the end; 0: not told */
    uint32_t clock_worst_mhz; /* 0: not told */
    double temperature_c[2];  /* lowest, highest; NAN: not told */
    struct machine_health health[2]; /* at the start, and now */
    uint64_t throttle;               /* all reasons that there were */
    uint64_t sensed_ns, start_ns;
    struct burn_moment moment;  /* that goes on */
    struct burn_moment *series; /* owned */
    size_t n_series, cap_series;
    size_t next_chunk; /* of memory that is compared in the next round */
};

/* ---- what is told (burn_print.c) ---- */

/* A line of the series. */
void burn_print_moment(const struct burn *b, const struct burn_moment *moment);
void burn_print_verdict(const struct burn *b, double seconds);
/* The members of a device's document, in the object that is open. */
void burn_put(struct json *json, const struct burn *b);

#endif
