/* The rules for GPUs: what a product of two operands is: matrix products,
 * convolutions and whatever else reduces something of operands that different
 * outputs share. */
#include "lower/opt/opt_gpu.h"

#include <assert.h>

#define MIN_SIDE     16 /* of outputs, for a tile; the other may be shorter */
#define MIN_STEPS    8  /* of the reduction */
#define MAX_OPERANDS 16 /* LOADs */

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

    assert(r < k->n_ranges);
    for (i = 0; i < n; i++)
        set |= (uint32_t)(k->deps[loads[i]] >> r & 1) << i;
    return set;
}

/* Sorts the output ranges into width, height and batch. */
static bool
find_sides(const struct opt_gpu *gpu, struct opt_gpu_product *t)
{
    const struct kernel *k = gpu->k;
    uint32_t loads[MAX_OPERANDS], n = body_loads(k, t->group, loads), fast, r;
    uint32_t by_range[KERNEL_MAX_RANGES], height = 0;
    uint64_t rows = gpu->rows, set;
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
is_product(const struct opt_gpu *gpu, double shortest,
           struct opt_gpu_product *t)
{
    const struct kernel *k = gpu->k;
    uint64_t set;

    if (k->n_groups != 1 || gpu->columns || k->groups[0].level != 1)
        return false;
    t->group = &k->groups[0];
    for (set = t->group->bound; set; set &= set - 1) {
        if (k->sizes[__builtin_ctzll(set)] < 1)
            return false;
    }
    if (!find_sides(gpu, t))
        return false;
    t->n_height = kernel_count(k, t->height);
    t->n_width = kernel_count(k, t->width);
    t->n_batch = kernel_count(k, t->batch);
    t->n_steps = kernel_count(k, t->group->bound);
    return t->n_height >= shortest && t->n_width >= shortest &&
           (t->n_height >= MIN_SIDE || t->n_width >= MIN_SIDE) &&
           t->n_steps >= MIN_STEPS;
}

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
sums_products(const struct kernel *k, const struct opt_gpu_product *t)
{
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

bool
opt_gpu_product(const struct opt_gpu *gpu, double shortest,
                struct opt_gpu_product *out)
{
    *out = (struct opt_gpu_product){.group = NULL};
    if (!is_product(gpu, shortest, out))
        return false;
    out->sums_products = sums_products(gpu->k, out);
    return true;
}

double
opt_gpu_tiles(double n, int64_t tile)
{
    double tiles = n / (double)tile;

    assert(tile > 0);
    return (double)(int64_t)tiles < tiles ? (double)((int64_t)tiles + 1)
                                          : (double)(int64_t)tiles;
}
