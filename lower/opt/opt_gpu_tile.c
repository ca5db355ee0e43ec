/* The rules for GPUs: products in tiles. A work-group makes a tile of height x
 * width, each thread a few values of both; the operands of a few steps go
 * through LOCAL memory.
 */
#include "lower/opt/opt_gpu.h"

#include <assert.h>

#include "base/bits.h"
#include "base/log.h"

#define MIN_SIDE       16  /* of a tile */
#define MAX_STEPS      16  /* in LOCAL memory at once */
#define MAX_ACCS       64  /* of a thread */
#define MAX_SIDE       256 /* of a tile that is told */
#define MAX_TOLD_STEPS 64
#define WIDE_BYTES     16     /* what a thread reads at once */
#define STAGE_BYTES    24576u /* of LOCAL memory for operands */
#define WARP_THREADS   32
#define MANY_WARPS     16 /* of a unit: more make it no faster */

/* A shape of tile: its sides, and each thread's part of them. A thread has
 * `parts` pieces of 4 along a side of 4 or 8. */
struct tile_shape {
    int64_t height, width;
    int64_t tall, wide;
    double speed;  /* relative, of many such tiles */
    int64_t steps; /* in LOCAL memory; 0: as many as suit */
};

/* observed: H100, 2026-11-28: a convolution of 256 x 14 x 14, float32, takes
 * 193 us in tiles of 64 x 64 by threads of 4 x 8 and 32 steps, three to a unit,
 * 242 in tiles of 128 x 128; for NVIDIA's only */
static const struct tile_shape shapes[] = {
    {128, 128, 8, 8, 1.0}, {128, 64, 8, 4, 0.85},
    {64, 128, 4, 8, 0.85}, {64, 64, 4, 8, 0.85, MAX_STEPS * 2},
    {64, 64, 4, 4, 0.7},   {32, 64, 4, 4, 0.55},
    {64, 32, 4, 4, 0.55},  {32, 32, 4, 4, 0.4},
    {16, 64, 4, 4, 0.35},  {64, 16, 4, 4, 0.35},
    {16, 16, 4, 4, 0.15},
};

struct gpu_tile {
    struct opt_gpu *gpu;
    struct opt_gpu_product product;
    const struct tile_shape *shape;
    struct tile_shape told;
    int64_t told_steps; /* 0: as many as suit */
};

/* ---- which shape ---- */

/* How fast a unit is with so many warps beside one with all that it wants: few
 * leave it waiting for LOCAL memory. observed: H100, 2026-11-28: a convolution
 * in tiles of 128 x 128, one on each unit, 8 warps, has 0.86 of the rate of a
 * product with two; guess: the others */
static double
speed_of_warps(double n)
{
    if (n >= MANY_WARPS)
        return 1;
    return n >= 8 ? 0.86 + (n - 8) * 0.14 / (MANY_WARPS - 8)
                  : 0.65 + (n - 4) * 0.21 / 4;
}

/* Time with tiles of this shape, in units of a fast product of one element. */
static double
tile_shape_cost(const struct gpu_tile *t, const struct tile_shape *s)
{
    const struct lower_target *target = t->gpu->k->target;
    int64_t threads = s->height / s->tall * (s->width / s->wide);
    double tiles = opt_gpu_tiles(t->product.n_height, s->height) *
                   opt_gpu_tiles(t->product.n_width, s->width) *
                   t->product.n_batch;
    double speed = s->speed;

    tiles = opt_gpu_tiles(tiles / target->n_units, 1);
    if (target->matrix_layout == UOP_WMMA_NV)
        speed *= speed_of_warps(tiles * (double)threads / WARP_THREADS);
    return tiles * (double)(s->height * s->width) / speed;
}

static uint64_t
stage_bytes(const struct gpu_tile *t)
{
    uint32_t most = t->gpu->k->target->max_shared_bytes;

    return most < STAGE_BYTES ? most : STAGE_BYTES;
}

/* Steps that one wide access takes. */
static int64_t
wide_steps(const struct gpu_tile *t)
{
    int64_t n = WIDE_BYTES / t->product.operand_bytes;

    return n < 4 ? 4 : n;
}

/* LOCAL memory for so many steps, with padding. */
static uint64_t
bytes_of_steps(const struct gpu_tile *t, const struct tile_shape *s, int64_t n)
{
    int64_t side = s->height > s->width ? s->height : s->width;

    return (uint64_t)((side + 16) * n) * t->product.operand_bytes *
           t->product.n_operands;
}

/* Steps in LOCAL memory at once: as many as fit, at least those of one wide
 * access, 16 at most. */
static int64_t
steps_at_once(const struct gpu_tile *t)
{
    int64_t n = wide_steps(t);

    if (t->told_steps)
        return t->told_steps;
    if (t->shape->steps)
        return t->shape->steps;
    while (n < MAX_STEPS && (double)n < t->product.n_steps &&
           bytes_of_steps(t, t->shape, n * 2) <= stage_bytes(t))
        n *= 2;
    return n;
}

/* A shape that is told. */
static bool
take_tile_shape(struct gpu_tile *t, const int32_t *n)
{
    const struct lower_target *target = t->gpu->k->target;
    struct tile_shape *s = &t->told;

    *s = (struct tile_shape){n[0], n[1], n[2], n[3], 1.0};
    if (!opt_is_pow2(s->height, MIN_SIDE, MAX_SIDE) ||
        !opt_is_pow2(s->width, MIN_SIDE, MAX_SIDE) ||
        !opt_is_pow2(s->tall, 4, 8) || !opt_is_pow2(s->wide, 4, 8) ||
        s->tall * s->wide * t->product.group->n_members > MAX_ACCS ||
        s->height / s->tall * (s->width / s->wide) > target->max_threads ||
        !opt_is_pow2(n[4], wide_steps(t), MAX_TOLD_STEPS) ||
        bytes_of_steps(t, s, n[4]) > target->max_shared_bytes)
        return false;
    t->shape = s;
    t->told_steps = n[4];
    return true;
}

static bool
choose_tile_shape(struct gpu_tile *t)
{
    int64_t most = t->gpu->k->target->max_threads;
    int32_t told[LOWER_ACTION_ARGS];
    double least = 0, cost;
    size_t i;

    if (opt_told(t->gpu->k, LOWER_TILE, told))
        return take_tile_shape(t, told);

    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct tile_shape *s = &shapes[i];
        int64_t steps = s->steps ? s->steps : wide_steps(t);
        if (s->tall * s->wide * t->product.group->n_members > MAX_ACCS ||
            s->height / s->tall * (s->width / s->wide) > most ||
            bytes_of_steps(t, s, steps) > stage_bytes(t) ||
            (double)s->steps > t->product.n_steps ||
            (s->steps && t->gpu->k->target->matrix_layout != UOP_WMMA_NV) ||
            (t->product.n_height * 2 <= (double)s->height &&
             s->height > MIN_SIDE) ||
            (t->product.n_width * 2 <= (double)s->width && s->width > MIN_SIDE))
            continue;
        cost = tile_shape_cost(t, s);
        if (t->shape && cost >= least)
            continue;
        t->shape = s;
        least = cost;
    }
    return t->shape != NULL;
}

/* ---- the plan ---- */

/* Bits of the thread number that an axis of threads has, the lowest of it
 * first. */
struct places {
    uint32_t n;
    struct {
        uint32_t shift, bits;
    } part[3];
};

/* Where threads of a width and a height count. A warp's are 8 along the width
 * and 4 along the height, so that it reads the fewest different bytes, two of
 * the height next to each other: the pairs and eights of lanes whose 16 bytes
 * are read together want few, too. src: S. Gray, maxas, "SGEMM" (the same
 * arrangement, for LDS.128); no card was asked. */
static void
place_threads(const struct gpu_tile *t, struct places *width,
              struct places *height)
{
    const struct tile_shape *s = t->shape;
    uint32_t w = log2_floor((uint64_t)(s->width / s->wide));
    uint32_t h = log2_floor((uint64_t)(s->height / s->tall));

    *width = (struct places){1, {{0, w}}};
    *height = (struct places){1, {{w, h}}};
    if (w < 3 || h < 2 || t->gpu->k->target->matrix_layout != UOP_WMMA_NV)
        return;
    *width = (struct places){2, {{1, 3}, {5, w - 3}}};
    *height = (struct places){3, {{0, 1}, {4, 1}, {w + 2, h - 2}}};
}

/* The axis becomes threads at these places. */
static bool
thread_axis(struct opt_plan *plan, uint32_t axis, const struct places *at)
{
    uint32_t i, part;

    for (i = 0; i + 1 < at->n && at->part[i + 1].bits; i++) {
        if (!opt_split(plan, axis, (int64_t)1 << at->part[i].bits,
                       UOP_AXIS_LOOP, OPT_INNER, &part, &axis) ||
            !opt_thread(plan, part, at->part[i].shift))
            return false;
    }
    return opt_thread(plan, axis, at->part[i].shift);
}

/* Cuts a side into work-groups, two pieces, threads and four values each. */
static bool
plan_side(struct opt_plan *plan, uint64_t set, int64_t tile, int64_t own,
          enum uop_axis type, const struct places *at)
{
    uint32_t fast = opt_gpu_fast_range(plan->k, set, 0, NULL), flat, tid;

    assert(tile > 0 && own > 0);
    if (!opt_gpu_fold_pieces(plan, set, fast, 4, type, NULL, &flat) ||
        !opt_split(plan, flat, tile / own, UOP_AXIS_LOOP, OPT_INNER, &tid,
                   &flat) ||
        !thread_axis(plan, tid, at))
        return false;
    if (own > 4 && !opt_split(plan, flat, own / 4, UOP_AXIS_UPCAST, OPT_INNER,
                              NULL, &flat))
        return false;
    return opt_gpu_grid(plan, flat);
}

/* Cuts the reduction into tiles, all steps of which are unrolled: the assembler
 * loads what the next step needs while one is computed. observed: H100,
 * 2026-11-23: float32 of 4096 and 8192, 45.9 and 46.8 TFLOP/s; four steps in a
 * loop, 41.3 and 43.2. */
static bool
plan_tile_steps(struct gpu_tile *t)
{
    struct opt_plan *plan = &t->gpu->plan;
    uint64_t bound = t->product.group->bound;
    uint32_t fast = opt_gpu_fast_range(plan->k, bound, bound, NULL);
    int64_t wide = wide_steps(t), n = steps_at_once(t);
    uint32_t loop, flat, piece;

    if (!opt_gpu_fold_pieces(plan, bound, fast, wide, UOP_AXIS_UNROLL, &loop,
                             &flat))
        return false;
    plan->axes[loop].staged = true;
    if (n > wide) {
        if (!opt_split(plan, flat, n / wide, UOP_AXIS_UNROLL, OPT_INNER, &piece,
                       &flat))
            return false;
        plan->axes[piece].staged = true;
    }
    return true;
}

static bool
plan_tile(struct gpu_tile *t)
{
    struct opt_plan *plan = &t->gpu->plan;
    const struct tile_shape *s = t->shape;
    struct places width, height;
    uint32_t fast, flat;

    place_threads(t, &width, &height);
    plan->zeros = t->product.sums_products;
    if (!plan_side(plan, t->product.width, s->width, s->wide, UOP_AXIS_VECTOR,
                   &width) ||
        !plan_side(plan, t->product.height, s->height, s->tall, UOP_AXIS_UPCAST,
                   &height) ||
        !plan_tile_steps(t))
        return false;
    if (!t->product.batch)
        return true;
    fast = opt_gpu_fast_range(plan->k, t->product.batch, 0, NULL);
    return opt_gpu_fold(plan, t->product.batch, fast, 1, &flat) &&
           opt_gpu_grid(plan, flat);
}

bool
opt_gpu_tile(struct opt_gpu *gpu)
{
    struct gpu_tile t = {.gpu = gpu};

    if (!opt_may_try(gpu->k, LOWER_TILE, OPT_FORM_TILE) ||
        !opt_gpu_product(gpu, MIN_SIDE, &t.product) || !choose_tile_shape(&t))
        return false;
    opt_made(gpu->k, LOWER_TILE, t.shape->height, t.shape->width, t.shape->tall,
             t.shape->wide, steps_at_once(&t));
    LOG(LOG_OPT, "tiles of %lld x %lld of %.0f x %.0f, %.0f steps",
        (long long)t.shape->height, (long long)t.shape->width,
        t.product.n_height, t.product.n_width, t.product.n_steps);
    return plan_tile(&t);
}
