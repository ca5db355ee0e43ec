/* The rules for GPUs: what their files share.
 *
 * A kernel's output ranges are rows, which all of its work depends on (that of
 * short reductions aside), and columns, which only some depends on: the
 * elements of a row that is first reduced. Rows become work-groups and
 * threads; columns are shared by the threads of a row.
 */
#ifndef BELL_LOWER_OPT_OPT_GPU_H
#define BELL_LOWER_OPT_OPT_GPU_H

#include "lower/opt/opt.h"
#include "lower/opt/opt_told.h"

#define GPU_MAX_LANES    8
#define GPU_MIN_COLUMNS  12   /* steps of a row's reduction worth sharing */
#define GPU_UNIT_THREADS 1024 /* keep a processor and its memory busy */

/* A kernel under examination. */
struct opt_gpu {
    struct kernel *k;
    struct opt_plan plan;
    uint64_t rows, columns;         /* output ranges */
    double n_rows, n_columns, want; /* sizes; threads to keep all units busy */
};

/* A kernel as a product of two operands: its output ranges are of three kinds
 * by the LOADs that vary with them. */
struct opt_gpu_product {
    const struct kernel_group *group;
    uint64_t height; /* of one operand */
    uint64_t width;  /* of the other: neighbours lie side by side */
    uint64_t batch;  /* of both */
    double n_height, n_width, n_batch, n_steps;
    uint32_t n_operands;    /* LOADs, two at least */
    uint32_t operand_bytes; /* of the widest one's elements */
    bool sums_products;     /* LOADs may give 0 past the end of the reduction */
};

/* False where it is none, or a side has fewer than `shortest` outputs or both
 * fewer than 16. */
bool opt_gpu_product(const struct opt_gpu *gpu, double shortest,
                     struct opt_gpu_product *out);

/* Tiles of `tile` values that cover n. */
double opt_gpu_tiles(double n, int64_t tile);

/* The range of the set along which neighbours lie side by side, by the
 * accesses that depend on `around`'s ranges (0: all accesses); the innermost
 * where there is none. *out_bytes (may be NULL): how much speaks for it. */
uint32_t opt_gpu_fast_range(const struct kernel *k, uint64_t set,
                            uint64_t around, double *out_bytes);

/* Lanes of a VECTOR along range r: as many as one access takes, where most
 * accesses could be of so many. 1: none. */
int64_t opt_gpu_lanes(const struct kernel *k, uint32_t r);

/* Folds the ranges of the set, `fast` as the fastest and by itself cut into
 * `lanes` first. False where that cannot be. */
bool opt_gpu_fold(struct opt_plan *plan, uint64_t set, uint32_t fast,
                  int64_t lanes, uint32_t *out_flat);

/* The same, with pieces of another type than VECTOR; *out_piece (may be NULL)
 * is theirs. They may pass the end. */
bool opt_gpu_fold_pieces(struct opt_plan *plan, uint64_t set, uint32_t fast,
                         int64_t n, enum uop_axis type, uint32_t *out_piece,
                         uint32_t *out_flat);

/* The axis becomes work-groups. */
bool opt_gpu_grid(struct opt_plan *plan, uint32_t axis);

/* Products of two operands, in tiles (opt_gpu_tile.c). True: gpu->plan is it;
 * else the plan may be half made. */
bool opt_gpu_tile(struct opt_gpu *gpu);

/* The same by matrix instructions (opt_gpu_matrix.c). */
bool opt_gpu_matrix(struct opt_gpu *gpu);

/* The same for reductions that threads share (opt_gpu_reduce.c). */
bool opt_gpu_reduce(struct opt_gpu *gpu);

/* Copies that turn what they load (opt_gpu_turn.c). */
bool opt_gpu_turn(struct opt_gpu *gpu);

/* Threads of a work-group where nothing says otherwise; at most this many. */
int64_t opt_gpu_threads(const struct lower_target *target, int64_t most);

/* The power of two at or above x, at most `most`. */
static inline int64_t
opt_gpu_pow2(double x, int64_t most)
{
    int64_t p = 1;

    while (p < most && (double)p < x)
        p *= 2;
    return p;
}

#endif
