/* What a context's runtime has done so far: for tests, tools and tuning. */
#ifndef BELL_DOORBELL_STATS_H
#define BELL_DOORBELL_STATS_H

#include <stdint.h>

#include "doorbell/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_context;

/* Counts and times since the context was created. Plain data. */
struct bell_stats {
    uint32_t struct_size;        /* sizeof(struct bell_stats) */
    uint64_t n_realizes;         /* calls that had work to do */
    uint64_t n_plans;            /* graphs scheduled; others were known */
    uint64_t n_kernels_planned;  /* kernels in those plans */
    uint64_t n_kernels_compiled; /* different ones; one for each math */
    uint64_t n_kernels_found;    /* others, which were on disk, compiled */
    uint64_t n_launches;         /* kernels queued */
    uint64_t n_graphs;           /* times that several were queued as one */
    uint64_t lookup_ns;          /* finding the plan of a graph */
    uint64_t schedule_ns;        /* graph to kernels, all plans */
    uint64_t lower_ns;           /* kernels to programs, added up */
    uint64_t compile_ns;         /* programs to machine code, added up */
    uint64_t compile_wall_ns;    /* both, as it passed (several threads) */
    uint64_t submit_ns;          /* writing and submitting commands */
    double n_flops, n_bytes;     /* of all launches, estimated */
    /* The plan that takes most memory beside what it begins with: */
    uint64_t peak_bytes;    /* the next two together */
    uint64_t result_bytes;  /* what was asked for */
    uint64_t scratch_bytes; /* all that lies between */
    uint64_t alive_bytes;   /* of that at once: what no place could save */
    /* On a mesh (doorbell/mesh.h): */
    uint64_t n_splits;      /* graphs split for its places; others were known */
    uint64_t written_bytes; /* by the host, to all places together */
    uint64_t n_exchanges;   /* steps in which places exchanged data */
    uint64_t exchanged_bytes; /* that went between places, or through the host,
                               * in these */
};

/* Copies what was counted so far. Waits for nothing. */
BELL_API void bell_context_stats(const struct bell_context *ctx,
                                 struct bell_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
