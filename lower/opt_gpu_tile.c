/* The rules for GPUs: matrix products, convolutions and whatever else reduces
 * products of operands that different outputs share.
 *
 * Output ranges are of three kinds by the LOADs that vary with them: those of
 * one operand (height), those of the other (width, along which neighbours lie
 * side by side), and those of both (a batch). A work-group makes a tile of
 * height x width, each thread a few values of both; the operands of a few
 * steps go through LOCAL memory.
 */
#include "lower/opt_gpu.h"

#include "base/log.h"

#define MIN_SIDE     16     /* of outputs, for a tile */
#define MIN_STEPS    8      /* of the reduction */
#define MAX_STEPS    16     /* in LOCAL memory at once */
#define MAX_OPERANDS 16     /* LOADs */
#define MAX_ACCS     64     /* of a thread */
#define WIDE_BYTES   16     /* what a thread reads at once */
#define STAGE_BYTES  32768u /* of LOCAL memory for operands */

/* A shape of tile: its sides, and each thread's part of them. A thread has
 * `parts` pieces of 4 along a side of 4 or 8. */
struct shape {
    int64_t height, width;
    int64_t tall, wide;
    double speed; /* relative, of many such tiles */
};

static const struct shape shapes[] = {
    {128, 128, 8, 8, 1.0}, {128, 64, 8, 4, 0.85}, {64, 128, 4, 8, 0.85},
    {64, 64, 4, 4, 0.7},   {32, 64, 4, 4, 0.55},  {64, 32, 4, 4, 0.55},
    {32, 32, 4, 4, 0.4},   {16, 64, 4, 4, 0.35},  {64, 16, 4, 4, 0.35},
    {16, 16, 4, 4, 0.15},
};

/* A kernel as a product. */
struct tile {
    struct opt_gpu *gpu;
    const struct kernel_group *group;
    uint64_t height, width, batch; /* output ranges */
    double n_height, n_width, n_batch, n_steps;
    uint32_t n_operands;    /* LOADs, two at least */
    uint32_t operand_bytes; /* of the widest one's elements */
    const struct shape *shape;
};

/* ---- what it is ---- */

/* Number of LOADs in the body of the group; loads[] their places. */
static uint32_t
body_loads(const struct kernel *k, const struct kernel_group *group,
           uint32_t *loads)
{
    uint32_t i, n = 0;

    for (i = 0; i < k->n_nodes; i++) {
        if (k->nodes[i]->op != UOP_LOAD || !(k->deps[i] & group->bound))
            continue;
        if (n == MAX_OPERANDS)
            return 0;
        loads[n++] = i;
    }
    return n;
}

/* LOADs that vary with range r, as bits. */
static uint32_t
signature(const struct kernel *k, const uint32_t *loads, uint32_t n, uint32_t r)
{
    uint32_t i, set = 0;

    for (i = 0; i < n; i++)
        set |= (uint32_t)(k->deps[loads[i]] >> r & 1) << i;
    return set;
}

/* Sorts the output ranges into width, height and batch. */
static bool
find_sides(struct tile *t)
{
    const struct kernel *k = t->gpu->k;
    uint32_t loads[MAX_OPERANDS], n = body_loads(k, t->group, loads), fast, r;
    uint32_t by_range[KERNEL_MAX_RANGES], height = 0;
    uint64_t rows = t->gpu->rows, set;
    double most = 0;

    if (!n || !rows)
        return false;
    for (set = rows; set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        by_range[r] = signature(k, loads, n, r);
    }
    fast = opt_gpu_fast_range(k, rows, 0, NULL);
    for (set = rows; set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        if (by_range[r] == by_range[fast])
            t->width |= (uint64_t)1 << r;
    }
    for (set = rows & ~t->width; set; set &= set - 1) {
        double size = 1;
        uint64_t rest;
        r = (uint32_t)__builtin_ctzll(set);
        if (!by_range[r] || by_range[r] & by_range[fast])
            continue;
        for (rest = rows & ~t->width; rest; rest &= rest - 1) {
            if (by_range[__builtin_ctzll(rest)] == by_range[r])
                size *= (double)k->sizes[__builtin_ctzll(rest)];
        }
        if (size > most) {
            most = size;
            height = by_range[r];
        }
    }
    for (set = rows & ~t->width; height && set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        if (by_range[r] == height)
            t->height |= (uint64_t)1 << r;
    }
    t->batch = rows & ~t->width & ~t->height;
    t->n_operands = n < 2 ? 2 : n;
    for (r = 0; r < n; r++) {
        uint32_t bytes = uop_dtype_infos[k->nodes[loads[r]]->dtype].size_bytes;
        t->operand_bytes = bytes > t->operand_bytes ? bytes : t->operand_bytes;
    }
    return t->height && by_range[fast];
}

static bool
is_product(struct tile *t)
{
    struct opt_gpu *gpu = t->gpu;
    const struct kernel *k = gpu->k;
    uint64_t set;

    if (k->n_groups != 1 || gpu->columns || k->groups[0].level != 1)
        return false;
    t->group = &k->groups[0];
    for (set = t->group->bound; set; set &= set - 1) {
        if (k->sizes[__builtin_ctzll(set)] < 1)
            return false;
    }
    if (!find_sides(t))
        return false;
    t->n_height = opt_gpu_count(k, t->height);
    t->n_width = opt_gpu_count(k, t->width);
    t->n_batch = opt_gpu_count(k, t->batch);
    t->n_steps = opt_gpu_count(k, t->group->bound);
    return t->n_height >= MIN_SIDE && t->n_width >= MIN_SIDE &&
           t->n_steps >= MIN_STEPS;
}

/* ---- which shape ---- */

static double
n_tiles(double n, int64_t tile)
{
    double tiles = n / (double)tile;

    return (double)(int64_t)tiles < tiles ? (double)((int64_t)tiles + 1)
                                          : (double)(int64_t)tiles;
}

/* Time with tiles of this shape, in units of a fast product of one element. */
static double
shape_cost(const struct tile *t, const struct shape *s)
{
    double tiles = n_tiles(t->n_height, s->height) *
                   n_tiles(t->n_width, s->width) * t->n_batch;
    double units = t->gpu->k->target->n_units;

    tiles = n_tiles(tiles / units, 1);
    return tiles * (double)(s->height * s->width) / s->speed;
}

static uint64_t
stage_bytes(const struct tile *t)
{
    uint32_t most = t->gpu->k->target->max_shared_bytes;

    return most < STAGE_BYTES ? most : STAGE_BYTES;
}

/* Steps that one wide access takes. */
static int64_t
wide_steps(const struct tile *t)
{
    int64_t n = WIDE_BYTES / t->operand_bytes;

    return n < 4 ? 4 : n;
}

/* LOCAL memory for so many steps, with padding. */
static uint64_t
bytes_of_steps(const struct tile *t, const struct shape *s, int64_t n)
{
    int64_t side = s->height > s->width ? s->height : s->width;

    return (uint64_t)((side + 16) * n) * t->operand_bytes * t->n_operands;
}

/* Steps in LOCAL memory at once: as many as fit, at least those of one wide
 * access, 16 at most. */
static int64_t
steps_at_once(const struct tile *t)
{
    int64_t n = wide_steps(t);

    while (n < MAX_STEPS && (double)n < t->n_steps &&
           bytes_of_steps(t, t->shape, n * 2) <= stage_bytes(t))
        n *= 2;
    return n;
}

static bool
choose_shape(struct tile *t)
{
    int64_t most = t->gpu->k->target->max_threads;
    double least = 0, cost;
    size_t i;

    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct shape *s = &shapes[i];
        if (s->tall * s->wide * t->group->n_members > MAX_ACCS ||
            s->height / s->tall * (s->width / s->wide) > most ||
            bytes_of_steps(t, s, wide_steps(t)) > stage_bytes(t) ||
            (t->n_height * 2 <= (double)s->height && s->height > MIN_SIDE) ||
            (t->n_width * 2 <= (double)s->width && s->width > MIN_SIDE))
            continue;
        cost = shape_cost(t, s);
        if (t->shape && cost >= least)
            continue;
        t->shape = s;
        least = cost;
    }
    return t->shape != NULL;
}

/* ---- the plan ---- */

/* Is u 0 where its LOADs give 0 past the end of the reduction? */
static bool
is_zero_operand(const struct kernel *k, const struct uop *u, uint64_t bound)
{
    if (u->op == UOP_CAST)
        u = u->src[0];
    if (u->op != UOP_LOAD || (kernel_deps(k, u) & bound) != bound)
        return false;
    if (u->n_src < 4)
        return true;
    return u->src[2]->op == UOP_CONST && u->src[2]->arg.bits == 0;
}

/* May LOADs give 0 past the end, in place of a gate around each product? */
static bool
sums_products(const struct tile *t)
{
    const struct kernel *k = t->gpu->k;
    uint32_t i;

    for (i = 0; i < t->group->n_members; i++) {
        const struct uop *u = t->group->members[i], *body = u->src[0];
        if (u->arg.i != UOP_ADD || body->op != UOP_MUL ||
            !is_zero_operand(k, body->src[0], t->group->bound) ||
            !is_zero_operand(k, body->src[1], t->group->bound))
            return false;
    }
    return true;
}

/* Cuts a side into work-groups, two pieces, threads and four values each. */
static bool
plan_side(struct opt_plan *plan, uint64_t set, int64_t tile, int64_t own,
          enum uop_axis type, uint32_t shift)
{
    uint32_t fast = opt_gpu_fast_range(plan->k, set, 0, NULL), flat, tid;

    if (!opt_gpu_fold_pieces(plan, set, fast, 4, type, NULL, &flat) ||
        !opt_split(plan, flat, tile / own, UOP_AXIS_LOOP, OPT_INNER, &tid,
                   &flat) ||
        !opt_thread(plan, tid, shift))
        return false;
    if (own > 4 && !opt_split(plan, flat, own / 4, UOP_AXIS_UPCAST, OPT_INNER,
                              NULL, &flat))
        return false;
    return opt_gpu_grid(plan, flat);
}

/* Cuts the reduction into tiles, unrolled pieces and steps of a loop. */
static bool
plan_steps(struct tile *t)
{
    struct opt_plan *plan = &t->gpu->plan;
    uint64_t bound = t->group->bound;
    uint32_t fast = opt_gpu_fast_range(plan->k, bound, bound, NULL);
    int64_t wide = wide_steps(t), n = steps_at_once(t);
    uint32_t loop, flat, piece;

    if (!opt_gpu_fold_pieces(plan, bound, fast, wide, UOP_AXIS_REDUCE, &loop,
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
plan_tile(struct tile *t)
{
    struct opt_plan *plan = &t->gpu->plan;
    const struct shape *s = t->shape;
    uint32_t shift =
        (uint32_t)__builtin_ctzll((unsigned long long)(s->width / s->wide));
    uint32_t fast, flat;

    plan->zeros = sums_products(t);
    if (!plan_side(plan, t->width, s->width, s->wide, UOP_AXIS_VECTOR, 0) ||
        !plan_side(plan, t->height, s->height, s->tall, UOP_AXIS_UPCAST,
                   shift) ||
        !plan_steps(t))
        return false;
    if (!t->batch)
        return true;
    fast = opt_gpu_fast_range(plan->k, t->batch, 0, NULL);
    return opt_gpu_fold(plan, t->batch, fast, 1, &flat) &&
           opt_gpu_grid(plan, flat);
}

bool
opt_gpu_tile(struct opt_gpu *gpu)
{
    struct tile t = {.gpu = gpu};

    if (!is_product(&t) || !choose_shape(&t))
        return false;
    LOG(LOG_OPT, "tiles of %lld x %lld of %.0f x %.0f, %.0f steps",
        (long long)t.shape->height, (long long)t.shape->width, t.n_height,
        t.n_width, t.n_steps);
    return plan_tile(&t);
}
