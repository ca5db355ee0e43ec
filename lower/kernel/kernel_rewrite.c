/* Transforms of a kernel that keep its meaning: other ranges for the same
 * values, and the canonical form. */
#include "lower/kernel/kernel.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MAX_BOUND   ((int64_t)1 << 31) /* of a size, to count so far */
#define MAX_FACTORS 8                  /* of a product, to look at */

/* Do all ranges of the set stand at a value? NULL: always. With `zeros` only
 * those count whose LOADs give 0 elsewhere, else only the others. */
static const struct uop *
joined_gate(struct kernel *k, uint64_t ranges, bool zeros,
            const struct kernel_remap *map)
{
    const struct uop *all = NULL;

    for (; ranges; ranges &= ranges - 1) {
        const struct kernel_remap *to = &map[__builtin_ctzll(ranges)];
        const struct uop *gate = to->zeros == zeros ? to->gate : NULL;
        if (gate && all && gate != all)
            all = uop_alu2(k->g, UOP_AND, all, gate);
        else if (gate)
            all = gate;
    }
    return all;
}

/* Is u 0 where LOADs that vary with range r give 0: a product of several such
 * LOADs and of numbers, of at most MAX_FACTORS? */
static bool
is_zero_with(const struct kernel *k, const struct uop *u, uint32_t r)
{
    const struct uop *stack[MAX_FACTORS] = {u};
    uint32_t n = 1, n_loads = 0;

    while (n) {
        u = stack[--n];
        while (u->op == UOP_CAST && u->src[0]->op != UOP_CONST)
            u = u->src[0];
        if (u->op == UOP_MUL && n + 2 <= MAX_FACTORS) {
            stack[n++] = u->src[0];
            stack[n++] = u->src[1];
        } else if (u->op == UOP_LOAD) {
            if (!(kernel_deps(k, u) >> r & 1) ||
                (u->n_src > 2 &&
                 (u->src[2]->op != UOP_CONST || u->src[2]->arg.bits != 0)))
                return false;
            n_loads++;
        } else if (u->op != UOP_CONST ||
                   (uop_is_float(u) && !isfinite(u->arg.f))) {
            return false;
        }
    }
    return n_loads > 1;
}

/* Where range r stands at no value of the old one: what leaves that out of the
 * REDUCE; NULL if it adds 0 there anyway. So a GPU's sum of products stays one,
 * for tiles and matrix instructions; a CPU's loops end at the size. */
static const struct uop *
mask_of(const struct kernel *k, const struct uop *u, uint32_t r,
        const struct kernel_remap *to)
{
    bool adds_zero = k->target->is_gpu && u->arg.i == UOP_ADD &&
                     is_zero_with(k, u->src[0], r);

    return to->masks && !adds_zero ? to->gate : NULL;
}

/* REDUCE with a new body and the ranges that `map` binds instead of its own;
 * the body itself where none is left. */
static const struct uop *
remap_reduce(struct kernel *k, const struct uop *u, const struct uop *body,
             const struct kernel_remap *map)
{
    const struct uop *gate = joined_gate(k, kernel_bound(k, u), false, map);
    const struct uop *src[1 + KERNEL_MAX_RANGES];
    uint32_t i, j, n = 1;

    assert(u->op == UOP_REDUCE);
    for (i = 1; i < u->n_src; i++) {
        uint32_t r = kernel_range_no(k, u->src[i]);
        const struct uop *mask = mask_of(k, u, r, &map[r]);
        if (mask)
            gate = gate ? uop_alu2(k->g, UOP_AND, gate, mask) : mask;
    }
    if (gate)
        body = uop_alu3(k->g, UOP_WHERE, gate, body,
                        uop_identity(k->g, u->arg.i, u->dtype));
    src[0] = body;
    for (i = 1; i < u->n_src; i++) {
        const struct kernel_remap *to = &map[kernel_range_no(k, u->src[i])];
        for (j = 0; j < to->n_bound && n <= KERNEL_MAX_RANGES; j++)
            src[n++] = to->bound[j];
    }
    if (n == 1)
        return body;
    return uop_make(k->g, UOP_REDUCE, u->dtype, 1, u->arg, src, n);
}

/* A STORE, or a LOAD of what the kernel stores, on its new sources: done only
 * where the gate holds as well as its own. */
static const struct uop *
remap_access(struct kernel *k, const struct uop *u, const struct uop **to,
             const struct uop *gate)
{
    const struct uop *src[4];
    uint32_t i;

    assert(u->op == UOP_LOAD || u->op == UOP_STORE);
    for (i = 0; i < u->n_src; i++)
        src[i] = to[kernel_pos(k, u->src[i])];
    if (u->op == UOP_LOAD && u->n_src < 3)
        src[2] = uop_const_int(k->g, u->dtype, 0);
    src[3] = u->n_src > 3 ? uop_alu2(k->g, UOP_AND, src[3], gate) : gate;
    return uop_make(k->g, u->op, u->dtype, u->lanes, u->arg, src, 4);
}

/* PARAM slots that the kernel stores to; all where that cannot be said. */
static uint64_t
stored_slots(const struct kernel *k)
{
    uint64_t slots = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_STORE)
            continue;
        if (u->src[0]->op != UOP_PARAM || u->src[0]->arg.i >= 64)
            return UINT64_MAX;
        slots |= (uint64_t)1 << u->src[0]->arg.i;
    }
    return slots;
}

/* Where the access is done only; NULL: everywhere. */
static const struct uop *
access_gate(struct kernel *k, const struct uop *u, uint64_t stored,
            const struct kernel_remap *map)
{
    uint64_t deps = kernel_deps(k, u);
    bool own = u->op == UOP_STORE || u->src[0]->op != UOP_PARAM ||
               u->src[0]->arg.i >= 64 || stored >> u->src[0]->arg.i & 1;
    const struct uop *gate = own ? joined_gate(k, deps, false, map) : NULL;
    const struct uop *zero = joined_gate(k, deps, true, map);

    assert(u->op == UOP_LOAD || u->op == UOP_STORE);
    if (gate && zero)
        return uop_alu2(k->g, UOP_AND, gate, zero);
    return gate ? gate : zero;
}

/* The node with its sources replaced by `to`, which is indexed by place. */
static const struct uop *
rebuild_node(struct kernel *k, const struct uop *u, const struct uop **to,
             const struct uop **src)
{
    bool changed = false;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        src[i] = to[kernel_pos(k, u->src[i])];
        changed |= src[i] != u->src[i];
    }
    if (!changed)
        return u;
    return uop_make(k->g, u->op, u->dtype, u->lanes, u->arg, src, u->n_src);
}

static uint32_t
widest_node(const struct kernel *k)
{
    uint32_t i, n = 1;

    for (i = 0; i < k->n_nodes; i++)
        n = k->nodes[i]->n_src > n ? k->nodes[i]->n_src : n;
    return n;
}

/* For indices, which are small: one too large to walk counts as depending. */
static bool
depends_on(const struct uop *u, const struct uop *range)
{
    const struct uop *stack[64] = {u};
    uint32_t n = 1, n_seen = 0, i;

    while (n) {
        u = stack[--n];
        if (u == range || n_seen++ == 256 || n + u->n_src > 64)
            return true;
        for (i = 0; i < u->n_src; i++)
            stack[n++] = u->src[i];
    }
    return false;
}

static bell_status
remap_ends(struct kernel *k, const struct kernel_remap *map)
{
    const struct uop *to[KERNEL_MAX_RANGES];
    uint32_t i;

    for (i = 0; i < k->n_ranges; i++)
        to[i] = map[i].value;
    for (i = 0; i < k->n_ends; i++)
        BELL_TRY(uop_substitute(k->g, &k->ends[i].value, 1, k->ranges, to,
                                k->n_ranges));
    return BELL_OK;
}

bell_status
kernel_remap_ranges(struct kernel *k, const struct kernel_remap *map)
{
    const struct uop **to, **src, *gate;
    uint64_t stored = stored_slots(k);
    uint32_t i;

    for (i = 0; i < k->n_ranges; i++)
        assert(k->g->failed || map[i].value->dtype == UOP_I64);
    to = arena_alloc(&k->mem, k->n_nodes * sizeof(*to));
    src = arena_alloc(&k->mem, widest_node(k) * sizeof(*src));
    if (!to || !src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "rewrite of a kernel of %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        gate = NULL;
        if (u->op == UOP_STORE || u->op == UOP_LOAD)
            gate = access_gate(k, u, stored, map);
        if (u->op == UOP_RANGE)
            to[i] = map[kernel_range_no(k, u)].value;
        else if (u->op == UOP_REDUCE)
            to[i] = remap_reduce(k, u, to[kernel_pos(k, u->src[0])], map);
        else if (gate)
            to[i] = remap_access(k, u, to, gate);
        else
            to[i] = rebuild_node(k, u, to, src);
    }
    BELL_TRY(remap_ends(k, map));
    return kernel_set_sink(k, to[k->n_nodes - 1]);
}

/* Is all that the kernel sums up one sum of products? */
static bool
sums_one_product(const struct kernel *k)
{
    const struct uop *sum = k->n_groups ? k->groups[0].members[0] : NULL;

    return k->n_groups == 1 && k->groups[0].n_members == 1 &&
           sum->arg.i == UOP_ADD && sum->src[0]->op == UOP_MUL;
}

/* Each stays its RANGE, of another size. LOADs are gated, so that indices need
 * not be held within their range. */
bell_status
kernel_bound_ranges(struct kernel *k)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    const struct uop *bound[KERNEL_MAX_RANGES];
    struct kernel_end ends[KERNEL_MAX_RANGES];
    bool any = false, opens = !k->target->is_gpu && !k->target->no_opts;
    uint32_t r, n = k->n_ranges;

    for (r = 0; r < k->n_ranges; r++) {
        const struct uop *range = k->ranges[r], *size = range->src[0];

        bound[r] = range;
        ends[r] = (struct kernel_end){.size = NULL};
        map[r] = (struct kernel_remap){.n_bound = 1, .bound = &bound[r]};
        if (k->sizes[r] < 0 && uop_bounds(k->g, size).max <= MAX_BOUND) {
            bound[r] =
                uop_range(k->g, uop_range_id(range), uop_range_axis(range),
                          uop_bounds(k->g, size).max);
            any = true;
            ends[r].is_open =
                opens && (!(k->reduce_ranges >> r & 1) || sums_one_product(k));
            ends[r].size = size;
            if (!ends[r].is_open) {
                map[r].gate = uop_alu2(k->g, UOP_CMPLT, bound[r], size);
                map[r].zeros = map[r].masks = true;
            }
        }
        map[r].value = ends[r].value = bound[r];
    }
    if (!any)
        return BELL_OK;
    BELL_TRY(kernel_remap_ranges(k, map));
    memcpy(k->ends, ends, n * sizeof(*ends));
    k->n_ends = n;
    return BELL_OK;
}

struct kernel_end *
kernel_open(struct kernel *k, uint32_t r)
{
    uint32_t i;

    assert(r < k->n_ranges);
    for (i = 0; i < k->n_ends; i++) {
        if (k->ends[i].is_open && k->ends[i].value == k->ranges[r])
            return &k->ends[i];
    }
    return NULL;
}

bool
kernel_is_open(const struct kernel *k)
{
    uint32_t i;

    for (i = 0; i < k->n_ends; i++) {
        if (k->ends[i].is_open)
            return true;
    }
    return false;
}

bool
kernel_sum_is_open(const struct kernel *k)
{
    uint32_t i, r;

    for (i = 0; i < k->n_ends; i++) {
        for (r = 0; r < k->n_ranges && k->ends[i].is_open; r++) {
            if (k->reduce_ranges >> r & 1 && k->ends[i].value == k->ranges[r])
                return true;
        }
    }
    return false;
}

/* Gates those of the set that are open. */
static bell_status
close_ranges(struct kernel *k, uint64_t set)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    bool any = false;
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++) {
        struct kernel_end *end = set >> r & 1 ? kernel_open(k, r) : NULL;

        map[r] = (struct kernel_remap){
            .value = k->ranges[r], .n_bound = 1, .bound = &k->ranges[r]};
        if (!end)
            continue;
        map[r].gate = uop_alu2(k->g, UOP_CMPLT, k->ranges[r], end->size);
        map[r].zeros = any = true;
        map[r].masks = k->reduce_ranges >> r & 1;
        end->is_open = false;
    }
    return any ? kernel_remap_ranges(k, map) : BELL_OK;
}

bell_status
kernel_close_sums(struct kernel *k)
{
    BELL_TRY(close_ranges(k, k->reduce_ranges));
    return kernel_canonical(k);
}

bell_status
kernel_close_ends(struct kernel *k)
{
    assert(!kernel_sum_is_open(k));
    return close_ranges(k, UINT64_MAX);
}

/* Whether all ranges in u count work-groups. */
static bool
is_of_groups(const struct uop *u)
{
    const struct uop *stack[64] = {u};
    uint32_t n = 1, n_seen = 0, i;

    while (n) {
        u = stack[--n];
        if (n_seen++ == 256 || n + u->n_src > 64)
            return false;
        if (u->op == UOP_RANGE) {
            if (uop_range_axis(u) != UOP_AXIS_GLOBAL)
                return false;
            continue;
        }
        for (i = 0; i < u->n_src; i++)
            stack[n++] = u->src[i];
    }
    return true;
}

/* How often `loop` counts in `u`, a sum of multiples and of what is not below
 * zero, of which *size, less what is the work-group's, is left; 0: it is
 * something else. */
static int64_t
factor_of(const struct kernel *k, const struct uop *u, const struct uop *loop,
          const struct uop **size)
{
    const struct uop *stack[KERNEL_MAX_RANGES] = {u};
    uint32_t n = 1;
    int64_t by = 0;

    while (n) {
        u = stack[--n];
        if (u->op == UOP_ADD && n + 2 <= KERNEL_MAX_RANGES) {
            stack[n++] = u->src[0];
            stack[n++] = u->src[1];
        } else if (u == loop) {
            by++;
        } else if (u->op == UOP_MUL && u->src[0] == loop &&
                   u->src[1]->op == UOP_CONST && u->src[1]->arg.i > 0) {
            by += u->src[1]->arg.i;
        } else if (uop_bounds(k->g, u).min < 0 || depends_on(u, loop)) {
            return 0;
        } else if (is_of_groups(u)) {
            *size = uop_alu2(k->g, UOP_SUB, *size, u);
        }
    }
    return by;
}

/* What is left of a size behind the work-group's part of `u`, or the size. */
static const struct uop *
left_of_groups(const struct kernel *k, const struct uop *u,
               const struct uop *size)
{
    const struct uop *stack[KERNEL_MAX_RANGES] = {u}, *left = size;
    uint32_t n = 1;

    while (n) {
        u = stack[--n];
        if (u->op == UOP_ADD && n + 2 <= KERNEL_MAX_RANGES) {
            stack[n++] = u->src[0];
            stack[n++] = u->src[1];
        } else if (uop_bounds(k->g, u).min < 0) {
            return size;
        } else if (is_of_groups(u) && u->op != UOP_CONST) {
            left = uop_alu2(k->g, UOP_SUB, left, u);
        }
    }
    return left;
}

/* `end` of a loop, or no turn where the work-group is behind a size
 * of what is stored. */
static const struct uop *
end_with_groups(const struct kernel *k, uint32_t r, const struct uop *end)
{
    const struct uop *zero = uop_const_int(k->g, UOP_I64, 0), *left;
    const struct uop *src[3] = {NULL, end, zero};
    uint32_t i, j;

    for (i = 0; i < k->n_ends; i++) {
        const struct kernel_end *e = &k->ends[i];
        bool is_reduced = !e->size;

        for (j = 0; j < k->n_ranges; j++)
            is_reduced = is_reduced || (k->reduce_ranges >> j & 1 &&
                                        depends_on(e->value, k->ranges[j]));
        left = is_reduced ? NULL : left_of_groups(k, e->value, e->size);
        if (!left || left == e->size)
            continue;
        if (!src[1])
            src[1] = uop_const_int(k->g, UOP_I64, k->sizes[r]);
        src[0] = uop_alu2(k->g, UOP_CMPLT, zero, left);
        src[1] = uop_make(k->g, UOP_WHERE, UOP_I64, 1,
                          (union uop_arg){.bits = 0}, src, 3);
    }
    return src[1];
}

const struct uop *
kernel_loop_end(const struct kernel *k, uint32_t r)
{
    const struct uop *end = NULL, *loop = k->ranges[r], *at;
    bool is_host = !k->target->is_gpu;
    uint32_t i;

    assert(k->sizes[r] > 0);
    for (i = 0; i < k->n_ends; i++) {
        const struct kernel_end *e = &k->ends[i];
        const struct uop *left = e->size;
        int64_t by;

        if (!depends_on(e->value, loop))
            continue;
        by = e->size ? factor_of(k, e->value, loop, &left) : 0;
        if (by == 0)
            return is_host ? end_with_groups(k, r, NULL) : NULL;
        at = uop_alu2(
            k->g, UOP_FLOORDIV,
            uop_alu2(k->g, UOP_ADD, left, uop_const_int(k->g, UOP_I64, by - 1)),
            uop_const_int(k->g, UOP_I64, by));
        if (end && at != end)
            return is_host ? end_with_groups(k, r, NULL) : NULL;
        end = at;
    }
    if (end && uop_bounds(k->g, end).max > k->sizes[r])
        end = uop_alu2(k->g, UOP_MIN, end,
                       uop_const_int(k->g, UOP_I64, k->sizes[r]));
    if (end && uop_bounds(k->g, end).min < 0)
        end = uop_alu2(k->g, UOP_MAX, end, uop_const_int(k->g, UOP_I64, 0));
    return is_host || k->reduce_ranges >> r & 1 ? end_with_groups(k, r, end)
                                                : end;
}

/* ---- canonical form ---- */

/* Ranges of size 1 become 0. */
static bell_status
drop_unit_ranges(struct kernel *k)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    uint32_t r, n_units = 0;

    for (r = 0; r < k->n_ranges; r++) {
        bool unit = k->sizes[r] == 1;
        map[r].value = unit ? uop_const_int(k->g, UOP_I64, 0) : k->ranges[r];
        map[r].gate = NULL;
        map[r].zeros = map[r].masks = false;
        map[r].n_bound = !unit;
        map[r].bound = &k->ranges[r];
        n_units += unit;
    }
    if (!n_units)
        return BELL_OK;
    return kernel_remap_ranges(k, map);
}

static bool
reduces_nothing(const struct kernel *k, const struct uop *u)
{
    uint32_t i;

    assert(u->op == UOP_REDUCE);
    for (i = 1; i < u->n_src; i++) {
        if (k->sizes[kernel_range_no(k, u->src[i])] == 0)
            return true;
    }
    return false;
}

/* A REDUCE over an empty range is its identity. */
static bell_status
drop_empty_reduces(struct kernel *k)
{
    const struct uop **from, **to, *sink = k->sink;
    uint32_t i, n = 0;

    from = arena_alloc(&k->mem, k->n_nodes * sizeof(*from));
    to = arena_alloc(&k->mem, k->n_nodes * sizeof(*to));
    if (!from || !to)
        return bell_fail(BELL_E_NO_MEMORY,
                         "rewrite of a kernel of %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_REDUCE || !reduces_nothing(k, u))
            continue;
        from[n] = u;
        to[n++] = uop_identity(k->g, u->arg.i, u->dtype);
    }
    if (!n)
        return BELL_OK;
    BELL_TRY(uop_substitute(k->g, &sink, 1, from, to, n));
    return kernel_set_sink(k, sink);
}

static uint32_t
free_range_id(const struct kernel *k)
{
    return k->n_ranges ? uop_range_id(k->ranges[k->n_ranges - 1]) + 1 : 0;
}

/* A group that binds a range which an earlier group binds too; NULL if there
 * is none. *out_shared is the set of such ranges. */
static const struct kernel_group *
find_conflict(const struct kernel *k, uint64_t *out_shared)
{
    uint64_t taken = 0;
    uint32_t i;

    for (i = 0; i < k->n_groups; i++) {
        *out_shared = k->groups[i].bound & taken;
        if (*out_shared)
            return &k->groups[i];
        taken |= k->groups[i].bound;
    }
    return NULL;
}

/* The REDUCE with `shared` ranges renamed to clones[]. REDUCEs in its body
 * that bind those ranges themselves stay as they are. */
static bell_status
rename_reduce(struct kernel *k, const struct uop *u, uint64_t shared,
              const struct uop *const *clones, const struct uop **out)
{
    const struct uop **from, **to, *src[1 + KERNEL_MAX_RANGES];
    uint32_t i, n = 0;

    assert(u->op == UOP_REDUCE);
    from = arena_alloc(&k->mem, (k->n_nodes + k->n_ranges) * sizeof(*from));
    to = arena_alloc(&k->mem, (k->n_nodes + k->n_ranges) * sizeof(*to));
    if (!from || !to)
        return bell_fail(BELL_E_NO_MEMORY, "renaming %u ranges: out of memory",
                         k->n_ranges);
    for (i = 0; i < k->n_ranges; i++) {
        if (shared >> i & 1) {
            from[n] = k->ranges[i];
            to[n++] = clones[i];
        }
    }
    for (i = 0; i < kernel_pos(k, u); i++) {
        if (k->nodes[i]->op == UOP_REDUCE && !(k->deps[i] & shared))
            from[n] = to[n] = k->nodes[i], n++;
    }
    src[0] = u->src[0];
    BELL_TRY(uop_substitute(k->g, src, 1, from, to, n));
    for (i = 1; i < u->n_src; i++) {
        uint32_t r = kernel_range_no(k, u->src[i]);
        src[i] = shared >> r & 1 ? clones[r] : u->src[i];
    }
    *out = uop_make(k->g, UOP_REDUCE, u->dtype, 1, u->arg, src, u->n_src);
    return BELL_OK;
}

/* What holds for a range holds for its clone. */
static bell_status
clone_ends(struct kernel *k, const struct uop *range, const struct uop *clone)
{
    uint32_t i, n = k->n_ends;

    for (i = 0; i < n; i++) {
        struct kernel_end *to = &k->ends[k->n_ends];

        if (!depends_on(k->ends[i].value, range))
            continue;
        if (k->n_ends == sizeof(k->ends) / sizeof(*to)) {
            k->n_ends = 0; /* loops end where they can at most */
            return BELL_OK;
        }
        *to = k->ends[i];
        BELL_TRY(uop_substitute(k->g, &to->value, 1, &range, &clone, 1));
        k->n_ends++;
    }
    return BELL_OK;
}

/* Gives the group ranges of its own in place of the shared ones. */
static bell_status
unshare_group(struct kernel *k, const struct kernel_group *group,
              uint64_t shared)
{
    const struct uop *clones[KERNEL_MAX_RANGES], **to, *sink = k->sink;
    uint32_t i, next_id = free_range_id(k);

    assert(group->bound & shared);
    to = arena_alloc(&k->mem, group->n_members * sizeof(*to));
    if (!to)
        return bell_fail(BELL_E_NO_MEMORY, "renaming %u ranges: out of memory",
                         k->n_ranges);
    for (i = 0; i < k->n_ranges; i++) {
        const struct uop *range = k->ranges[i];
        union uop_arg arg = {.i =
                                 uop_range_arg(next_id, uop_range_axis(range))};
        if (!(shared >> i & 1))
            continue;
        clones[i] = uop_new(k->g, UOP_RANGE, UOP_I64, 1, arg, range->src, 1);
        next_id++;
        BELL_TRY(clone_ends(k, range, clones[i]));
    }
    for (i = 0; i < group->n_members; i++)
        BELL_TRY(rename_reduce(k, group->members[i], shared, clones, &to[i]));
    BELL_TRY(
        uop_substitute(k->g, &sink, 1, group->members, to, group->n_members));
    return kernel_set_sink(k, sink);
}

static bell_status
unshare_ranges(struct kernel *k)
{
    const struct kernel_group *group;
    uint64_t shared;

    for (group = find_conflict(k, &shared); group;
         group = find_conflict(k, &shared))
        BELL_TRY(unshare_group(k, group, shared));
    return BELL_OK;
}

bell_status
kernel_canonical(struct kernel *k)
{
    BELL_TRY(drop_empty_reduces(k));
    BELL_TRY(drop_unit_ranges(k));
    BELL_TRY(unshare_ranges(k));
    assert(kernel_is_canonical(k));
    return BELL_OK;
}

bool
kernel_is_canonical(const struct kernel *k)
{
    uint64_t shared;
    uint32_t i;

    for (i = 0; i < k->n_ranges; i++) {
        if (k->sizes[i] == 1)
            return false;
    }
    for (i = 0; i < k->n_nodes; i++) {
        if (k->nodes[i]->op == UOP_REDUCE && reduces_nothing(k, k->nodes[i]))
            return false;
    }
    return !find_conflict(k, &shared);
}

/* ---- peeling ---- */

/* A reduction range being cut in two. */
struct peel {
    uint32_t range;
    int64_t n_main, n_rest;
    const struct uop *main_range, *rest; /* the new RANGEs */
    const struct uop *gate;              /* NULL, or: rest is below n_rest */
    const struct uop **to; /* by place: the node with r at n_main + rest */
};

/* The LOAD with these sources, done only where the gate holds too. */
static const struct uop *
gate_load(struct kernel *k, const struct uop *u, const struct uop **src,
          const struct uop *gate)
{
    enum uop_dtype dtype = u->dtype;
    const struct uop *gated[4] = {src[0], src[1], NULL, gate};

    assert(u->op == UOP_LOAD && gate->dtype == UOP_BOOL);
    gated[2] = u->n_src > 2 ? src[2] : uop_const_int(k->g, dtype, 0);
    if (u->n_src > 3)
        gated[3] = uop_alu2(k->g, UOP_AND, src[3], gate);
    return uop_make(k->g, UOP_LOAD, dtype, 1, u->arg, gated, 4);
}

/* Fills peel->to. Only the bodies of the REDUCEs over r vary with r. */
static bell_status
shift_bodies(struct kernel *k, struct peel *peel)
{
    const struct uop **src;
    uint32_t i, j;

    peel->to = arena_alloc(&k->mem, k->n_nodes * sizeof(*peel->to));
    src = arena_alloc(&k->mem, widest_node(k) * sizeof(*src));
    if (!peel->to || !src)
        return bell_fail(BELL_E_NO_MEMORY, "peeling %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (!(k->deps[i] >> peel->range & 1)) {
            peel->to[i] = u;
            continue;
        }
        if (u->op == UOP_RANGE) {
            peel->to[i] = uop_alu2(k->g, UOP_ADD, peel->rest,
                                   uop_const_int(k->g, UOP_I64, peel->n_main));
            continue;
        }
        for (j = 0; j < u->n_src; j++)
            src[j] = peel->to[kernel_pos(k, u->src[j])];
        peel->to[i] = u->op == UOP_LOAD && peel->gate
                          ? gate_load(k, u, src, peel->gate)
                          : uop_make(k->g, u->op, u->dtype, u->lanes, u->arg,
                                     src, u->n_src);
    }
    return BELL_OK;
}

/* The REDUCE over main instead of r, joined with the one over rest. */
static const struct uop *
peel_reduce(struct kernel *k, const struct uop *u, const struct peel *peel)
{
    const struct uop *src[2][1 + KERNEL_MAX_RANGES], *half[2];
    enum uop_dtype dtype = u->dtype;
    enum uop_op op = u->arg.i;
    const struct uop *r = k->ranges[peel->range];
    uint32_t i;

    assert(u->op == UOP_REDUCE);
    for (i = 0; i < u->n_src; i++) {
        src[0][i] = u->src[i] == r ? peel->main_range : u->src[i];
        src[1][i] = u->src[i] == r ? peel->rest : u->src[i];
    }
    src[1][0] = peel->to[kernel_pos(k, u->src[0])];
    if (peel->gate)
        src[1][0] = uop_alu3(k->g, UOP_WHERE, peel->gate, src[1][0],
                             uop_identity(k->g, op, dtype));
    for (i = 0; i < 2; i++)
        half[i] =
            uop_make(k->g, UOP_REDUCE, dtype, 1, u->arg, src[i], u->n_src);
    return uop_alu2(k->g, op, half[0], half[1]);
}

/* The bodies over main: r's values below n_main, under the new RANGE. */
static bell_status
shorten_range(struct kernel *k, const struct peel *peel,
              const struct uop **sink)
{
    const struct uop *r = k->ranges[peel->range];
    uint32_t i;

    for (i = 0; i < k->n_ends; i++)
        BELL_TRY(uop_substitute(k->g, &k->ends[i].value, 1, &r,
                                &peel->main_range, 1));
    return uop_substitute(k->g, sink, 1, &r, &peel->main_range, 1);
}

bell_status
kernel_peel(struct kernel *k, uint32_t r, int64_t n_main, int64_t n_padded)
{
    struct peel peel = {.range = r, .n_main = n_main};
    const struct uop **from, **to, *sink = k->sink;
    uint32_t i, n = 0, next_id = free_range_id(k);
    int64_t n_rest = k->sizes[r] - n_main;

    assert(r < k->n_ranges && k->sizes[r] > 0);
    assert(k->reduce_ranges >> r & 1 && n_main > 0 && n_rest > 0);
    from = arena_alloc(&k->mem, k->n_nodes * sizeof(*from));
    to = arena_alloc(&k->mem, k->n_nodes * sizeof(*to));
    if (!from || !to)
        return bell_fail(BELL_E_NO_MEMORY, "peeling %u nodes: out of memory",
                         k->n_nodes);
    n_padded = n_padded > n_rest ? n_padded : n_rest;
    peel.n_rest = n_rest;
    peel.main_range =
        uop_range(k->g, uop_range_id(k->ranges[r]), UOP_AXIS_REDUCE, n_main);
    peel.rest = uop_range(k->g, next_id, UOP_AXIS_REDUCE, n_padded);
    if (n_padded > n_rest)
        peel.gate = uop_alu2(k->g, UOP_CMPLT, peel.rest,
                             uop_const_int(k->g, UOP_I64, n_rest));
    BELL_TRY(shift_bodies(k, &peel));
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_REDUCE || !(kernel_bound(k, u) >> r & 1))
            continue;
        from[n] = u;
        to[n++] = peel_reduce(k, u, &peel);
    }
    BELL_TRY(uop_substitute(k->g, &sink, 1, from, to, n));
    BELL_TRY(shorten_range(k, &peel, &sink));
    BELL_TRY(kernel_set_sink(k, sink));
    return kernel_canonical(k);
}
