/* The choices of the rules, range by range, before they become a plan.
 * Shared by opt_rules.c (vectors), opt_tile.c (copies) and opt_loops.c (order
 * of loops, grid).
 */
#ifndef BELL_LOWER_OPT_OPT_RULES_H
#define BELL_LOWER_OPT_OPT_RULES_H

#include "lower/opt/opt.h"
#include "lower/opt/opt_model.h"

/* Price of all unrolled instructions, at most: machine code time counts. */
#define OPT_MAX_CODE 256.0

#define OPT_MAX_FOLDS 4

/* A product of two operands, one of them in vectors. */
struct opt_product {
    bool on, packs_rows, tiled; /* as in struct kernel */
    uint32_t column;            /* range: of the VECTOR */
    uint32_t row;               /* range: of copies that share its loads */
};

/* By range of the kernel. A range is cut into loop, copies, lanes: inside to
 * outside. */
struct opt_choice {
    int64_t lanes[KERNEL_MAX_RANGES];  /* of a VECTOR; 1: none */
    int64_t copies[KERNEL_MAX_RANGES]; /* UPCAST; 1: none */
    int64_t unroll[KERNEL_MAX_RANGES]; /* UNROLL of a reduction; 1: none */
    bool overlap;                      /* output tiles may overlap */
    struct {
        uint32_t a, b;
    } folds[OPT_MAX_FOLDS]; /* ranges that became one, as kernel_fold says */
    uint32_t n_folds;
    int32_t folded; /* the range that the last of them made, or -1 */
    struct opt_product product;
    bool digits;    /* as in struct kernel */
    uint32_t row;   /* then: range of what lies in memory row by row */
    int64_t n_rows; /* of it at a time, far apart */
};

/* Chooses register tiles: copies of output ranges that share loads, several
 * accumulators against the latency of one, and unrolled reductions. Lanes are
 * chosen already. *out_cycles is what the kernel then costs one core. */
BELL_MUST_CHECK bell_status opt_choose_copies(struct opt_model *m,
                                              struct opt_choice *choice,
                                              double *out_cycles);

/* Makes one range of some, as told or where a product's columns then fill its
 * vectors. The choice has no numbers of ranges yet. */
BELL_MUST_CHECK bell_status opt_choose_folds(struct kernel *k,
                                             struct opt_choice *choice);

/* Is the kernel one large product? Then chooses for it (opt_product.c). */
void opt_choose_product(const struct opt_model *m, struct opt_choice *choice);

/* The largest range of the set, or -1. */
int opt_largest_range(const struct kernel *k, uint64_t set);

/* Are the kernel's sums all those of kernel_find_digits, and long? Then chooses
 * for them (opt_digits.c). */
void opt_choose_digits(const struct opt_model *m, struct opt_choice *choice);

/* Does the kernel's one sum go over the rows of a large matrix, whose columns
 * are in vectors? Their range, or -1 (opt_rows.c). */
int opt_find_rows(const struct kernel *k, const struct opt_choice *choice);
/* Then: copies of columns and rows. */
void opt_tile_rows(const struct kernel *k, uint32_t column,
                   struct opt_choice *choice);
/* The same as opt_choose_loops for such a sum; false: it is none. */
bool opt_choose_rows(struct opt_plan *plan, const struct opt_choice *choice,
                     const uint32_t *loops);
/* With all loops chosen: its sums lie in LOCAL memory, if they fit there. */
void opt_mark_rows(struct opt_plan *plan, const struct opt_choice *choice);

/* May the product have that tile, of `most` registers: as rows, columns and
 * packed operands were chosen? */
bool opt_product_fits(const struct kernel *k, const struct opt_choice *choice,
                      int64_t most);

/* The same as opt_choose_loops for a product: panels of the column operand,
 * as many as the second cache holds, are packed by each work-group. */
void opt_choose_panels(struct opt_plan *plan, const struct opt_choice *choice,
                       const uint32_t *loops);

/* Orders the output loops so that what is read again is still in the cache,
 * and spreads the outermost over work-groups. loops[] is, by range, the axis
 * that is left as a loop; `cycles` is what the kernel costs one core. */
BELL_MUST_CHECK bell_status opt_choose_loops(struct opt_plan *plan,
                                             const struct opt_model *m,
                                             const struct opt_choice *choice,
                                             const uint32_t *loops,
                                             double cycles);

#endif
