/* Facts of a kernel: dependence on ranges, reduction groups, and how indices
 * move with each range. */
#include "lower/kernel/kernel.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

static bell_status
kernel_no_memory(const struct kernel *k)
{
    return bell_fail(BELL_E_NO_MEMORY,
                     "analysis of a kernel of %u nodes: out of memory",
                     k->n_nodes);
}

uint32_t
kernel_range_no(const struct kernel *k, const struct uop *range)
{
    uint32_t i = 0;

    assert(range->op == UOP_RANGE);
    while (i < k->n_ranges && k->ranges[i] != range)
        i++;
    assert(i < k->n_ranges);
    return i;
}

double
kernel_count(const struct kernel *k, uint64_t set)
{
    double n = 1;

    for (; set; set &= set - 1) {
        int64_t size = k->sizes[__builtin_ctzll(set)];
        n *= size < 0 ? 1 : (double)size;
    }
    return n;
}

uint64_t
kernel_bound(const struct kernel *k, const struct uop *reduce)
{
    uint64_t bound = 0;
    uint32_t i;

    assert(reduce->op == UOP_REDUCE);
    for (i = 1; i < reduce->n_src; i++)
        bound |= (uint64_t)1 << kernel_range_no(k, reduce->src[i]);
    return bound;
}

/* ---- collecting ---- */

static bell_status
collect_kernel_nodes(struct kernel *k)
{
    const struct uop **list;
    size_t n, i;

    BELL_TRY(uop_toposort(k->g, &k->sink, 1, &list, &n));
    k->n_nodes = (uint32_t)n;
    k->nodes = arena_copy(&k->mem, list, n * sizeof(*list));
    host_free(list);
    host_free(k->pos_of_id);
    /* large and sparse: calloc gives untouched pages */
    k->pos_of_id = host_calloc((size_t)k->sink->id + 1, sizeof(uint32_t));
    if (!k->nodes || !k->pos_of_id)
        return kernel_no_memory(k);
    for (i = 0; i < n; i++)
        k->pos_of_id[k->nodes[i]->id] = (uint32_t)i;
    return BELL_OK;
}

static bell_status
collect_ranges(struct kernel *k)
{
    uint32_t i, at;

    assert(k->nodes);
    k->n_ranges = 0;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_RANGE)
            continue;
        if (k->n_ranges == KERNEL_MAX_RANGES)
            return bell_fail(BELL_E_INTERNAL, "a kernel of more than %d ranges",
                             KERNEL_MAX_RANGES);
        for (at = k->n_ranges++; at > 0 && k->ranges[at - 1]->arg.i > u->arg.i;
             at--)
            k->ranges[at] = k->ranges[at - 1];
        k->ranges[at] = u;
    }
    for (i = 0; i < k->n_ranges; i++) {
        const struct uop *size = k->ranges[i]->src[0];
        k->sizes[i] = size->op == UOP_CONST ? size->arg.i : -1;
    }
    return BELL_OK;
}

/* ---- dependence and levels ---- */

static bell_status
compute_deps(struct kernel *k)
{
    uint32_t i, j;

    assert(k->n_ranges <= KERNEL_MAX_RANGES);
    k->deps = arena_calloc(&k->mem, k->n_nodes, sizeof(*k->deps));
    k->levels = arena_calloc(&k->mem, k->n_nodes, sizeof(*k->levels));
    if (!k->deps || !k->levels)
        return kernel_no_memory(k);
    k->reduce_ranges = 0;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        for (j = 0; j < u->n_src; j++) {
            uint32_t s = kernel_pos(k, u->src[j]);
            k->deps[i] |= k->deps[s];
            if (k->levels[s] > k->levels[i])
                k->levels[i] = k->levels[s];
        }
        if (u->op == UOP_RANGE) {
            k->deps[i] |= (uint64_t)1 << kernel_range_no(k, u);
        } else if (u->op == UOP_REDUCE) {
            uint64_t bound = kernel_bound(k, u);
            k->deps[i] &= ~bound;
            k->reduce_ranges |= bound;
            k->levels[i]++;
        } else if (u->op == UOP_SORT) {
            uint64_t bound = (uint64_t)1 << kernel_range_no(k, u->src[1]);
            k->deps[i] &= ~bound;
            k->reduce_ranges |= bound;
        }
    }
    return BELL_OK;
}

/* ---- affine indices ---- */

static int64_t
add_coef(int64_t a, int64_t b)
{
    int64_t sum;

    if (a == KERNEL_NONAFFINE || b == KERNEL_NONAFFINE ||
        __builtin_add_overflow(a, b, &sum))
        return KERNEL_NONAFFINE;
    return sum;
}

static int64_t
mul_coef(int64_t a, int64_t by)
{
    int64_t product;

    if (a == KERNEL_NONAFFINE || __builtin_mul_overflow(a, by, &product))
        return KERNEL_NONAFFINE;
    return product;
}

int64_t
kernel_coef(const struct kernel *k, const struct uop *u, uint32_t r)
{
    uint32_t pos = kernel_pos(k, u);

    assert(r < k->n_ranges);
    if (!(k->deps[pos] >> r & 1))
        return 0;
    return k->coefs[pos] ? k->coefs[pos][r] : KERNEL_NONAFFINE;
}

/* Fills the row of `u`; false where nothing better than "non-affine" is
 * known. */
static bool
affine_row(const struct kernel *k, const struct uop *u, int64_t *row)
{
    const struct uop *a = u->n_src > 0 ? u->src[0] : NULL;
    const struct uop *b = u->n_src > 1 ? u->src[1] : NULL;
    bool by_const = b && b->op == UOP_CONST;
    int64_t by = by_const ? b->arg.i : 0;
    uint32_t r;

    assert(u->dtype == UOP_I64);
    if (u->op == UOP_SHL && by_const && by >= 0 && by < 62)
        by = (int64_t)1 << by;
    else if (u->op != UOP_RANGE && u->op != UOP_ADD && u->op != UOP_SUB &&
             u->op != UOP_NEG && !(u->op == UOP_MUL && by_const))
        return false;
    for (r = 0; r < k->n_ranges; r++) {
        if (u->op == UOP_RANGE)
            row[r] = k->ranges[r] == u;
        else if (u->op == UOP_ADD)
            row[r] = add_coef(kernel_coef(k, a, r), kernel_coef(k, b, r));
        else if (u->op == UOP_SUB)
            row[r] = add_coef(kernel_coef(k, a, r),
                              mul_coef(kernel_coef(k, b, r), -1));
        else if (u->op == UOP_NEG)
            row[r] = mul_coef(kernel_coef(k, a, r), -1);
        else
            row[r] = mul_coef(kernel_coef(k, a, r), by);
    }
    return true;
}

static bell_status
compute_coefs(struct kernel *k)
{
    uint32_t i;

    k->coefs = arena_calloc(&k->mem, k->n_nodes, sizeof(*k->coefs));
    if (!k->coefs)
        return kernel_no_memory(k);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        int64_t *row;
        if (u->dtype != UOP_I64 || k->deps[i] == 0 || u->op == UOP_REDUCE)
            continue;
        row = arena_alloc(&k->mem, k->n_ranges * sizeof(*row));
        if (!row)
            return kernel_no_memory(k);
        if (affine_row(k, u, row))
            k->coefs[i] = row;
    }
    return BELL_OK;
}

/* ---- groups ---- */

static struct kernel_group *
find_reduce_group(struct kernel *k, uint32_t level, uint64_t bound,
                  uint64_t context)
{
    uint32_t i;

    for (i = k->n_groups; i-- > 0;) {
        struct kernel_group *group = &k->groups[i];
        if (group->level == level && group->bound == bound &&
            group->context == context)
            return group;
    }
    return NULL;
}

static void
sort_groups(struct kernel *k)
{
    uint32_t i, at;

    for (i = 1; i < k->n_groups; i++) {
        struct kernel_group moved = k->groups[i];
        for (at = i; at > 0 && k->groups[at - 1].level > moved.level; at--)
            k->groups[at] = k->groups[at - 1];
        k->groups[at] = moved;
    }
}

static bell_status
compute_groups(struct kernel *k)
{
    uint32_t i, n_reduces = 0;

    for (i = 0; i < k->n_nodes; i++)
        n_reduces += k->nodes[i]->op == UOP_REDUCE;
    k->n_groups = 0;
    k->groups = arena_calloc(&k->mem, n_reduces + 1, sizeof(*k->groups));
    if (!k->groups)
        return kernel_no_memory(k);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        struct kernel_group *group;
        uint64_t bound;
        if (u->op != UOP_REDUCE)
            continue;
        bound = kernel_bound(k, u);
        group = find_reduce_group(k, k->levels[i], bound, k->deps[i]);
        if (!group) {
            group = &k->groups[k->n_groups++];
            group->level = k->levels[i];
            group->bound = bound;
            group->context = k->deps[i];
            group->members =
                arena_alloc(&k->mem, n_reduces * sizeof(*group->members));
            if (!group->members)
                return kernel_no_memory(k);
        }
        group->members[group->n_members++] = u;
    }
    sort_groups(k);
    return BELL_OK;
}

/* ---- life ---- */

bell_status
kernel_set_sink(struct kernel *k, const struct uop *sink)
{
    BELL_TRY(uop_validate_pass(k->g, &sink, 1, UOP_STAGE_K,
                               "making or rewriting a kernel"));
    arena_fini(&k->mem);
    arena_init(&k->mem);
    k->sink = sink;
    BELL_TRY(collect_kernel_nodes(k));
    BELL_TRY(collect_ranges(k));
    BELL_TRY(compute_deps(k));
    BELL_TRY(compute_coefs(k));
    return compute_groups(k);
}

bell_status
kernel_init(struct kernel *k, struct uop_graph *g, const struct uop *sink,
            const struct lower_target *target)
{
    bell_status status;

    memset(k, 0, sizeof(*k));
    k->g = g;
    k->target = target;
    k->n_threads = 1;
    arena_init(&k->mem);
    status = kernel_set_sink(k, sink);
    if (status != BELL_OK)
        kernel_fini(k);
    return status;
}

void
kernel_fini(struct kernel *k)
{
    arena_fini(&k->mem);
    host_free(k->pos_of_id);
    k->pos_of_id = NULL;
}
