/* Ranges that belong together, and ranges that do not: joining, taking apart
 * and sharing them where the indices allow it. */
#include "lower/kernel/kernel.h"

#include <assert.h>

/* A range is not taken apart for pieces shorter than this, unless values are
 * computed of its quotient or remainder: where those are unrolled,
 * constants. */
#define MIN_UNFLATTENED 8

/* Every range stays as it is. */
static void
keep_ranges(const struct kernel *k, struct kernel_remap *map)
{
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++) {
        map[r].value = k->ranges[r];
        map[r].gate = NULL;
        map[r].zeros = map[r].masks = false;
        map[r].n_bound = 1;
        map[r].bound = &k->ranges[r];
    }
}

/* ---- merging ---- */

/* Affine indices where something other than index arithmetic uses them. */
static bell_status
collect_uses(struct kernel *k, const struct uop ***out_uses, uint32_t *out_n)
{
    uint32_t i, j, n = 0, n_src = 0;
    const struct uop **uses;

    for (i = 0; i < k->n_nodes; i++)
        n_src += k->nodes[i]->n_src;
    uses = arena_alloc(&k->mem, (n_src + 1) * sizeof(*uses));
    if (!uses)
        return bell_fail(BELL_E_NO_MEMORY,
                         "merging ranges of %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (k->coefs[i])
            continue;
        for (j = 0; j < u->n_src; j++) {
            const struct uop *s = u->src[j];
            if (k->coefs[kernel_pos(k, s)] && !(u->op == UOP_REDUCE && j > 0))
                uses[n++] = s;
        }
    }
    *out_uses = uses;
    *out_n = n;
    return BELL_OK;
}

static bool
can_merge(struct kernel *k, uint32_t a, uint32_t b,
          const struct uop *const *uses, uint32_t n_uses)
{
    uint64_t both = (uint64_t)1 << a | (uint64_t)1 << b;
    int64_t product;
    uint32_t i;

    assert(a < k->n_ranges && b < k->n_ranges);
    if (k->sizes[a] < 0 || k->sizes[b] < 0 || kernel_open(k, b) ||
        (k->reduce_ranges >> a & 1 && kernel_open(k, a)) ||
        uop_range_axis(k->ranges[a]) != uop_range_axis(k->ranges[b]) ||
        __builtin_mul_overflow(k->sizes[a], k->sizes[b], &product))
        return false;
    for (i = 0; i < k->n_groups; i++) {
        uint64_t bound = k->groups[i].bound & both;
        if (bound && bound != both)
            return false;
    }
    for (i = 0; i < n_uses; i++) {
        int64_t ca = kernel_coef(k, uses[i], a);
        int64_t cb = kernel_coef(k, uses[i], b);
        if (ca == KERNEL_NONAFFINE || cb == KERNEL_NONAFFINE ||
            __builtin_mul_overflow(cb, k->sizes[b], &product) || product != ca)
            return false;
    }
    return true;
}

static bell_status
merge_pair(struct kernel *k, uint32_t a, uint32_t b)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    const struct uop *by = uop_const_int(k->g, UOP_I64, k->sizes[b]),
                     *joined = uop_range(k->g, uop_range_id(k->ranges[b]),
                                         uop_range_axis(k->ranges[b]),
                                         k->sizes[a] * k->sizes[b]);
    const struct uop *inner = k->ranges[b];
    struct kernel_end *end = kernel_open(k, a);
    uint32_t i;

    assert(a != b && a < k->n_ranges && b < k->n_ranges);
    assert(!(k->reduce_ranges >> a & 1) == !(k->reduce_ranges >> b & 1));
    keep_ranges(k, map);
    map[a].value = uop_const_int(k->g, UOP_I64, 0);
    map[a].n_bound = 0;
    map[b].value = joined;
    map[b].bound = &joined;
    if (end) { /* so many times b, whose own end says nothing any more */
        end->size = uop_alu2(k->g, UOP_MUL, end->size, by);
        for (i = 0; i < k->n_ends; i++) {
            if (k->ends[i].value == inner && !k->ends[i].size)
                k->ends[i].value = map[a].value;
        }
        end->value = inner;
    }
    BELL_TRY(kernel_remap_ranges(k, map)); /* ends too */
    return uop_graph_status(k->g);
}

bell_status
kernel_merge(struct kernel *k)
{
    const struct uop **uses = NULL;
    uint32_t a, b, n_uses = 0;
    bool merged = true;

    while (merged) {
        merged = false;
        BELL_TRY(collect_uses(k, &uses, &n_uses));
        for (a = 0; a < k->n_ranges && !merged; a++) {
            for (b = 0; b < k->n_ranges && !merged; b++) {
                merged = a != b && can_merge(k, a, b, uses, n_uses);
                if (merged)
                    BELL_TRY(merge_pair(k, a, b));
            }
        }
    }
    return BELL_OK;
}

/* ---- folding ---- */

bell_status
kernel_fold(struct kernel *k, uint32_t a, uint32_t b)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    const struct uop *joined, *by = uop_const_int(k->g, UOP_I64, k->sizes[b]);

    assert(a != b && a < k->n_ranges && b < k->n_ranges);
    assert(k->sizes[a] > 0 && k->sizes[b] > 0);
    assert(!((k->reduce_ranges >> a | k->reduce_ranges >> b) & 1));
    joined = uop_range(k->g, uop_range_id(k->ranges[b]),
                       uop_range_axis(k->ranges[b]), k->sizes[a] * k->sizes[b]);
    keep_ranges(k, map);
    map[a].value = uop_alu2(k->g, UOP_FLOORDIV, joined, by);
    map[a].n_bound = 0;
    map[b].value = uop_alu2(k->g, UOP_FLOORMOD, joined, by);
    map[b].bound = &joined;
    return kernel_remap_ranges(k, map);
}

/* ---- unflattening ---- */

/* A division or remainder of a whole range by a constant that divides its
 * size, or what a value is cast from and is one; *out_range is its number. 0 if
 * `u` is neither. */
static int64_t
splits_range(struct kernel *k, const struct uop *u, uint32_t *out_range)
{
    bool is_value = u->op == UOP_CAST;
    int64_t by;

    if (is_value)
        u = u->src[0];
    if ((u->op != UOP_FLOORDIV && u->op != UOP_FLOORMOD) ||
        u->src[0]->op != UOP_RANGE || u->src[1]->op != UOP_CONST)
        return 0;
    by = u->src[1]->arg.i;
    *out_range = kernel_range_no(k, u->src[0]);
    if (kernel_open(k, *out_range) || by < (is_value ? 2 : MIN_UNFLATTENED) ||
        k->sizes[*out_range] <= by || k->sizes[*out_range] % by)
        return 0;
    return by;
}

bell_status
kernel_split(struct kernel *k, uint32_t r, int64_t by)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    const struct uop *to[KERNEL_MAX_RANGES], *halves[2], *value;
    enum uop_axis axis = uop_range_axis(k->ranges[r]);
    uint32_t i, id = 0;

    assert(r < k->n_ranges && by > 1 && k->sizes[r] % by == 0);
    for (i = 0; i < k->n_ranges; i++) {
        const struct uop *range = k->ranges[i];
        union uop_arg arg = {.i = uop_range_arg(id, uop_range_axis(range))};
        to[i] = uop_new(k->g, UOP_RANGE, UOP_I64, 1, arg, range->src, 1);
        map[i].value = to[i];
        map[i].gate = NULL;
        map[i].zeros = map[i].masks = false;
        map[i].bound = &to[i];
        map[i].n_bound = 1;
        id += i == r ? 2 : 1;
        if (i != r)
            continue;
        halves[0] = uop_range(k->g, id - 2, axis, k->sizes[r] / by);
        halves[1] = uop_range(k->g, id - 1, axis, by);
    }
    value =
        uop_alu2(k->g, UOP_MUL, halves[0], uop_const_int(k->g, UOP_I64, by));
    map[r].value = uop_alu2(k->g, UOP_ADD, value, halves[1]);
    map[r].bound = halves;
    map[r].n_bound = 2;
    return kernel_remap_ranges(k, map);
}

bell_status
kernel_unflatten(struct kernel *k)
{
    uint32_t i, r = 0;
    int64_t by;

    for (i = 0; i < k->n_nodes && k->n_ranges < KERNEL_MAX_RANGES / 2; i++) {
        by = splits_range(k, k->nodes[i], &r);
        if (!by)
            continue;
        BELL_TRY(kernel_split(k, r, by));
        i = 0;
    }
    return BELL_OK;
}

/* ---- fusing ---- */

/* Ranges along which some LOAD moves by more than one element: their loops
 * want other vectors than those of contiguous ones. */
static uint64_t
strided_ranges(const struct kernel *k)
{
    uint64_t strided = 0, set;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_LOAD)
            continue;
        for (set = kernel_deps(k, u->src[1]); set; set &= set - 1) {
            uint32_t r = (uint32_t)__builtin_ctzll(set);
            if (kernel_coef(k, u->src[1], r) != 1)
                strided |= (uint64_t)1 << r;
        }
    }
    return strided;
}

/* Can group b run in the loops of a? Then other[] is, by range of b, the one
 * of a in its place. */
static bool
can_fuse(const struct kernel *k, const struct kernel_group *a,
         const struct kernel_group *b, uint64_t strided, uint32_t *other)
{
    uint64_t left = a->bound, right = b->bound;

    if (a->level != b->level || a->context != b->context ||
        a->bound == b->bound)
        return false;
    for (; left && right; left &= left - 1, right &= right - 1) {
        uint32_t x = (uint32_t)__builtin_ctzll(left);
        uint32_t y = (uint32_t)__builtin_ctzll(right);
        if (k->sizes[x] != k->sizes[y] || k->sizes[x] < 0 ||
            (strided >> x & 1) != (strided >> y & 1))
            return false;
        other[y] = x;
    }
    return !left && !right;
}

static bell_status
fuse_pair(struct kernel *k, const struct kernel_group *b, const uint32_t *other)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    uint64_t set;

    assert(b->bound);
    keep_ranges(k, map);
    for (set = b->bound; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        map[r] = map[other[r]];
    }
    return kernel_remap_ranges(k, map);
}

bell_status
kernel_fuse(struct kernel *k)
{
    uint32_t i, j, other[KERNEL_MAX_RANGES];
    bool fused = true;

    while (fused) {
        uint64_t strided = strided_ranges(k);
        fused = false;
        for (i = 0; i < k->n_groups && !fused; i++) {
            for (j = i + 1; j < k->n_groups && !fused; j++) {
                fused =
                    can_fuse(k, &k->groups[i], &k->groups[j], strided, other);
                if (fused)
                    BELL_TRY(fuse_pair(k, &k->groups[j], other));
            }
        }
    }
    return BELL_OK;
}
