/* From a tensor graph to a list of kernels and their buffers.
 *
 * Stored values are chosen by cost: bytes moved against work repeated. Every
 * kernel is a SINK in a canonical form (ranges and slots numbered by first
 * use), so that equal kernels are one node.
 */
#ifndef BELL_LOWER_SCHEDULE_SCHEDULE_H
#define BELL_LOWER_SCHEDULE_SCHEDULE_H

#include "uops/dim.h"
#include "uops/uop.h"

#define SCHED_MAX_PARAMS 128

struct sched_mark;

/* A buffer of the schedule. Indices below n_leaves are the leaves, in order
 * of first visit; then come the values that the schedule stores. */
struct sched_buf {
    uint64_t n_elems;
    enum uop_dtype dtype;
    int32_t leaf;  /* number of the BUFFER leaf, or -1 */
    int32_t root;  /* number of the first root that it is the value of, or -1 */
    int64_t count; /* n_elems, or where sizes vary an expression, of which
                    * n_elems is the most; DIM_BAD: no size */
    /* Marks of the nodes that the kernel computes which stores it, in their
     * order, where the tensor graph has marks. */
    const struct sched_mark *marks;
    uint32_t n_marks;
};

/* The mark of a node, and whether it is most of a kernel's work: a reduction or
 * the like. */
struct sched_mark {
    uint32_t mark;
    bool is_main;
};

struct lower_target;

/* One kernel launch. */
struct sched_item {
    const struct uop *sink; /* stage K; or a SINK of such, of one launch */
    uint32_t n_outs;        /* PARAM slots below it are outputs */
    uint32_t n_bufs;        /* PARAM slot i is bufs[i] */
    const uint32_t *bufs;   /* index into sched_plan.bufs */
    uint32_t n_vars;        /* VAR slot n_bufs + i is vars[i] */
    const uint32_t *vars;   /* numbers of the tensor graph's VARs */
};

/* What to run, in order. Lives in the arena of the plan's graph. */
struct sched_plan {
    struct sched_buf *bufs;
    uint32_t n_bufs, n_leaves, n_roots;
    struct sched_item *items;
    uint32_t n_items;
    uint32_t n_attends;        /* of them are attention */
    const uint32_t *root_bufs; /* buffer of each root */
};

/* Facts of the device that the cost model uses. */
struct sched_target {
    const int64_t *size_vars; /* where sizes vary: by symbol, number of its
                               * VAR; or NULL */
    uint32_t n_parallel;      /* work-items that run at once */
    uint32_t n_shared; /* that may share one reduction; 0 or 1: they don't */
    uint32_t attends;  /* attention that is one kernel: lower_attends */
    uint32_t n_word_units; /* processors of a GPU that multiplies F32 by no
                            * matrix instruction; else 0 */
    bool turns_words;      /* F32 factors are to lie along the sum */
    bool turns_rows;       /* those that the last axis does not vary with are */
    /* of a GPU: by dtype, steps of a matrix instruction, or 0
     * (lower_target.matrix_k), for which rows of factors of less than 4 bytes
     * an element are to be multiples of 16 bytes; or NULL */
    const uint8_t *matrix_k;
    bool copies; /* to LOCAL memory, of parts of a row that ends sooner */
    /* by the factors' dtype, what sums are to be multiples of on a CPU
     * (lower_target.tiles_k); NULL: any */
    const uint8_t *tiles_k;
    uint32_t product_bytes; /* of a column that a product packs; 0: any */
    double channel_uses;    /* of each element of an image or filter, from which
                          * on it is stored channels last first; 0: never */
    double odd_channel_uses; /* the same where that fills channels up to whole
                              * steps of matrix instructions */
    /* of so many filters and fewer, odd channels are worth copies from fewer
     * uses on; 0: there are none */
    int64_t few_filters;
    bool fills_parts; /* zeros also behind channels in parts of 8 bytes */
    double channel_products; /* of a convolution, that are worth a kernel where
                              * WGMMA does them; 0: there is none */
    /* what kernels are lowered for where independent ones share launches;
     * NULL: each has its own */
    const struct lower_target *packs_for;
};

/* Schedules the tensor graph under `roots`, nodes of `g` whose BUFFER leaves
 * are numbered (arg.dims = number, shape...), each contiguous and row-major.
 * Sizes may be expressions of g->sizes: choices are for the most that they are.
 * BELL_E_UNSUPPORTED: a kernel has more than SCHED_MAX_PARAMS arguments, VARs
 * among them.
 *
 * Large reductions to few values are split in two first, which adds
 * nodes to `g`. Kernels are made in `kernels`, the plan in kernels->arena. A
 * root that is a leaf or a reshape of one has that leaf's buffer. */
BELL_MUST_CHECK bell_status sched_build(struct uop_graph *g,
                                        const struct uop *const *roots,
                                        uint32_t n_roots,
                                        const struct sched_target *target,
                                        struct uop_graph *kernels,
                                        struct sched_plan *out_plan);

#endif
