/* A kernel under optimisation: the nodes under its SINK with the facts that
 * the passes of lower/ share. Analysis only reads the graph; the transforms
 * make a new SINK and analyse it again.
 *
 * Scratch data lives in an arena of its own; nodes live in the graph. Not
 * thread safe.
 */
#ifndef BELL_LOWER_KERNEL_KERNEL_H
#define BELL_LOWER_KERNEL_KERNEL_H

#include <assert.h>

#include "lower/tune.h"

#define KERNEL_MAX_RANGES 64

/* Coefficient of a range on which an index does not depend affinely. */
#define KERNEL_NONAFFINE INT64_MIN

/* REDUCEs that one loop nest computes: same bound ranges, same ranges around,
 * none needs another. */
struct kernel_group {
    uint32_t level;   /* REDUCEs below it, at most; groups go by level */
    uint64_t bound;   /* ranges that it runs over */
    uint64_t context; /* ranges it depends on: it is computed inside them */
    uint32_t n_members;
    const struct uop **members; /* REDUCE nodes, by id */
};

/* Ranges, by id, that a matrix instruction counts. A thread has the result's
 * columns by `col` and `pair`, its rows by `row` and `half`: uops/wmma.h. */
struct kernel_matrix {
    bool on;
    bool wgmma; /* a warp's tiles are one WGMMA's, row the lowest rows of a
                 * warp, pair and col the lowest columns */
    bool deep;  /* several tiles are to be under way: memory is waited for */
    struct uop_wmma shape;
    uint8_t dtype; /* what A and B are in LOCAL memory; VOID: as loaded */
    uint8_t half;  /* UPCAST: a thread's rows, where it has several */
    uint8_t row;   /* LOCAL, upper bits of the thread */
    uint8_t col;   /* LOCAL, lower bits */
    uint8_t pair;  /* VECTOR: a thread's columns, where it has several */
    uint8_t step;  /* UNROLL, of the reduction */
};

struct kernel {
    struct uop_graph *g;
    const struct lower_target *target;
    const struct uop *sink;
    struct arena mem; /* scratch; reset by each analysis */

    const struct uop **nodes; /* all under the sink, by id */
    uint32_t n_nodes;
    uint32_t *pos_of_id; /* place in nodes[] */

    const struct uop *ranges[KERNEL_MAX_RANGES]; /* by id: nest order */
    int64_t sizes[KERNEL_MAX_RANGES];            /* -1: not a constant */
    uint32_t n_ranges;
    uint64_t reduce_ranges; /* those that a REDUCE or a SORT binds */

    uint64_t *deps;   /* by place: ranges that the value varies with */
    uint32_t *levels; /* by place: longest chain of REDUCEs below */
    int64_t **coefs; /* by place: I64 nodes, n_ranges coefficients; else NULL */

    struct kernel_group *groups; /* by level */
    uint32_t n_groups;

    /* LOCAL and GROUP ranges, by the RANGE's id: the first bit of the thread
     * number that counts them. Kept when the sink is replaced. */
    uint8_t thread_shift[KERNEL_MAX_RANGES];
    uint32_t n_threads; /* of a work-group; a power of two */
    uint32_t want_regs; /* of lower_program */
    /* Reduction ranges, by id as bits: those of a tile whose operands are
     * brought to LOCAL memory first. */
    uint64_t staged;
    /* For a CPU: ranges, by id as bits, over which the operands of a product
     * are brought to LOCAL memory first, in the order in which they are read:
     * the operand that varies with the VECTOR, with `packs_rows` the other
     * too. */
    uint64_t packed;
    bool packs_rows;
    bool tiled;  /* the product is one of TILE_MATMUL */
    bool digits; /* sums are made as kernel_find_digits says of them */
    /* The one sum goes over the rows of a matrix as they lie, those of its
     * columns, which the one range in `packed` counts, in LOCAL memory. */
    bool by_rows;
    struct kernel_matrix matrix;
    /* What became of the ranges that kernel_bound_ranges saw: where a value is
     * the size or more, nothing is done. Size NULL: it is always done. Open:
     * nothing gates it yet, and the value is a RANGE (kernel_open). */
    struct kernel_end {
        const struct uop *value, *size;
        bool is_open;
    } ends[2 * KERNEL_MAX_RANGES];
    uint32_t n_ends;

    const struct lower_schedule *told; /* to lower by, or NULL */
    struct lower_made *made;           /* to be filled in, or NULL */
};

/* Analyses the kernel under `sink`. On failure nothing is owned. */
BELL_MUST_CHECK bell_status kernel_init(struct kernel *k, struct uop_graph *g,
                                        const struct uop *sink,
                                        const struct lower_target *target);
void kernel_fini(struct kernel *k);

/* Replaces the sink and analyses it. After a failure only kernel_fini may be
 * called. */
BELL_MUST_CHECK bell_status kernel_set_sink(struct kernel *k,
                                            const struct uop *sink);

/* What becomes of each range, by its number in `ranges`. Where `gate` does not
 * hold, the new ranges stand at no value of the old one: nothing is stored
 * then, nothing reduced, and nothing loaded from what the kernel stores. The
 * value has to be one of the range's all the same. With `zeros` every LOAD
 * gives 0 there instead, of which the REDUCE over the range is to make
 * nothing. */
struct kernel_remap {
    const struct uop *value; /* replaces the RANGE in expressions */
    const struct uop *gate;  /* NULL: it always holds */
    bool zeros;
    bool masks;       /* with `zeros`: and the REDUCE leaves it out by itself */
    uint32_t n_bound; /* RANGEs that a REDUCE binds instead of it */
    const struct uop *const *bound;
};

/* Rebuilds the kernel with every range replaced. */
BELL_MUST_CHECK bell_status kernel_remap_ranges(struct kernel *k,
                                                const struct kernel_remap *map);

/* Ranges whose size is only known when the kernel runs count to the greatest
 * that it can be; what lies behind the size is gated away. On a CPU output
 * ranges stay open: opt_apply, or kernel_close_ends, gates them. So do those of
 * one sum of products, which kernel_close_sums gates where no loop ends by
 * them. */
BELL_MUST_CHECK bell_status kernel_bound_ranges(struct kernel *k);
/* The end of range r, while it is open; else NULL. */
struct kernel_end *kernel_open(struct kernel *k, uint32_t r);
/* Is any range open? Is one of a sum? */
bool kernel_is_open(const struct kernel *k);
bool kernel_sum_is_open(const struct kernel *k);
/* Gates what is open of sums. The kernel is canonical again. */
BELL_MUST_CHECK bell_status kernel_close_sums(struct kernel *k);
/* Gates what is open, and no sum is. */
BELL_MUST_CHECK bell_status kernel_close_ends(struct kernel *k);
/* Where loop number r may end, once all ranges are what they stay: an index,
 * its size at most; NULL: there. */
const struct uop *kernel_loop_end(const struct kernel *k, uint32_t r);

/* The canonical form that the other passes take: ranges of size 1 and
 * REDUCEs over nothing are gone; every reduction range is bound by one group
 * only. */
BELL_MUST_CHECK bell_status kernel_canonical(struct kernel *k);
bool kernel_is_canonical(const struct kernel *k);

/* Splits each REDUCE over reduction range `r` in one over r's first n_main
 * values and one over the rest. Where n_padded is more than the rest, the
 * second counts to n_padded, with loads gated and values that are not of r
 * left out: for a vector that covers the rest at once. Numbers of the other
 * ranges stay, but that one of size 1 vanishes. */
BELL_MUST_CHECK bell_status kernel_peel(struct kernel *k, uint32_t r,
                                        int64_t n_main, int64_t n_padded);

/* Range r, of a constant size, becomes two: r / by, and in its place in the
 * nest inside that, r % by. `by` divides the size. Numbers above r become one
 * more. */
BELL_MUST_CHECK bell_status kernel_split(struct kernel *k, uint32_t r,
                                         int64_t by);

/* Takes ranges apart that are only seen divided by a constant: r / c and r % c
 * become two ranges. The inverse of kernel_merge, where indices want it. */
BELL_MUST_CHECK bell_status kernel_unflatten(struct kernel *k);

/* Joins pairs of ranges that every index uses as one: a*size(b) + b. Such a
 * pair becomes one range of size(a)*size(b) values. */
BELL_MUST_CHECK bell_status kernel_merge(struct kernel *k);

/* The same where size(b) is only known when the kernel runs. To be done before
 * kernel_bound_ranges, behind which such ranges stay two. */
BELL_MUST_CHECK bell_status kernel_merge_sizes(struct kernel *k);

/* Makes one of two output ranges of constant sizes, whatever their indices: a
 * becomes its quotient, b, which counts faster, its remainder. Numbers above a
 * become one less. */
BELL_MUST_CHECK bell_status kernel_fold(struct kernel *k, uint32_t a,
                                        uint32_t b);

/* Lets reductions that need not wait for each other, and run over ranges of
 * the same sizes in the same loops, share theirs: values that both load are
 * loaded once. */
BELL_MUST_CHECK bell_status kernel_fuse(struct kernel *k);

static inline uint32_t
kernel_pos(const struct kernel *k, const struct uop *u)
{
    assert(u->id <= k->sink->id && k->nodes[k->pos_of_id[u->id]] == u);
    return k->pos_of_id[u->id];
}

/* Ranges that the value of `u`, a node of the kernel, varies with. */
static inline uint64_t
kernel_deps(const struct kernel *k, const struct uop *u)
{
    return k->deps[kernel_pos(k, u)];
}

/* Step of the index `u` per step of range `r`; KERNEL_NONAFFINE where that is
 * not one number. */
int64_t kernel_coef(const struct kernel *k, const struct uop *u, uint32_t r);

/* Product of the sizes of the ranges in `set`; one that is only known when the
 * kernel runs counts as 1. */
double kernel_count(const struct kernel *k, uint64_t set);

/* Number of the RANGE node in k->ranges. */
uint32_t kernel_range_no(const struct kernel *k, const struct uop *range);

/* Bits of the RANGEs that a REDUCE binds. */
uint64_t kernel_bound(const struct kernel *k, const struct uop *reduce);

/* What holds in a window, of values of its two ranges:
 * range * (that one's) + at * (that one's) + first > 0 */
struct kernel_condition {
    const struct uop *node; /* the CMPLT */
    int64_t range, at, first;
};

/* Values of a range of the sum where an operand may be other than 0. */
struct kernel_window {
    uint32_t range, at; /* ranges: of the sum, of the outputs */
    double outside;     /* the part of all values of both that lies outside */
    struct kernel_condition conditions[4];
    uint32_t n; /* of conditions, all of which hold inside */
};

/* The window of operand u by one of these output ranges that leaves most out.
 * false: there is none that is worth it (kernel_window.c). */
bool kernel_find_window(const struct kernel *k, const struct uop *u,
                        uint64_t outputs, struct kernel_window *out);

#define KERNEL_DIGITS_LANES   16 /* bytes of a block */
#define KERNEL_DIGITS_BLOCKS  4  /* that a vector of bytes holds */
#define KERNEL_DIGITS_FACTORS 3
#define KERNEL_DIGITS_CHAIN   6

/* A sum of factors[..] * scale * (bits + bias): the factors are the same for
 * all outputs, there is one scale for each block, the bits are those of a
 * byte. */
struct kernel_digits {
    int32_t block, lane;     /* ranges of the sum: blocks, and bytes of one */
    int32_t part;            /* range over parts of the same bytes, or -1 */
    const struct uop *bytes; /* the LOAD */
    /* What is made of it: each op of the one behind it in the list. */
    const struct uop *chain[KERNEL_DIGITS_CHAIN];
    uint32_t n_chain;
    int64_t bias;
    const struct uop *scale, *factors[KERNEL_DIGITS_FACTORS];
    uint32_t n_factors;
};

/* Is the REDUCE, a member of the group, such a sum? The integers are so small
 * then that a word's products with numbers of 24 bits add up to 32 bits. */
bool kernel_find_digits(const struct kernel *k,
                        const struct kernel_group *group,
                        const struct uop *reduce, struct kernel_digits *d);

#endif
