/* The splitting language. */
#include "lower/opt/opt.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"

/* May a value be stored twice? Not where the kernel reads what it stores. */
static bool
stores_are_repeatable(const struct kernel *k)
{
    uint64_t loaded = 0, stored = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint64_t bit;
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        if (u->src[0]->op != UOP_PARAM || u->src[0]->arg.i >= 64)
            return false;
        bit = (uint64_t)1 << u->src[0]->arg.i;
        if (u->op == UOP_LOAD)
            loaded |= bit;
        else
            stored |= bit;
    }
    return !(loaded & stored);
}

void
opt_plan_init(struct opt_plan *plan, struct kernel *k)
{
    uint32_t r;

    memset(plan, 0, sizeof(*plan));
    plan->k = k;
    plan->may_overlap = stores_are_repeatable(k);
    plan->pads = k->target->is_gpu;
    plan->n_axes = k->n_ranges;
    for (r = 0; r < k->n_ranges; r++) {
        struct opt_axis *axis = &plan->axes[r];
        axis->size = k->sizes[r];
        axis->type = uop_range_axis(k->ranges[r]);
        axis->range = r;
        axis->outer = axis->inner = axis->flat = -1;
        axis->rank = (int32_t)r;
        plan->open |= (uint64_t)(kernel_open(k, r) != NULL) << r;
    }
}

static bool
is_reduce(const struct opt_plan *plan, uint32_t range)
{
    assert(range < plan->k->n_ranges);
    return plan->k->reduce_ranges >> range & 1;
}

static bool
type_fits(const struct opt_plan *plan, uint32_t range, enum uop_axis type)
{
    if (is_reduce(plan, range))
        return type == UOP_AXIS_REDUCE || type == UOP_AXIS_UNROLL ||
               type == UOP_AXIS_UPCAST || type == UOP_AXIS_VECTOR;
    return type == UOP_AXIS_LOOP || type == UOP_AXIS_GLOBAL ||
           type == UOP_AXIS_UPCAST || type == UOP_AXIS_VECTOR;
}

/* May the axis still change? Threads' axes stay as they are. */
static bool
is_open(const struct opt_plan *plan, uint32_t axis)
{
    const struct opt_axis *a = &plan->axes[axis];

    assert(axis < plan->n_axes);
    return opt_is_leaf(plan, axis) && a->type != UOP_AXIS_LOCAL &&
           a->type != UOP_AXIS_GROUP;
}

static uint32_t
n_leaves(const struct opt_plan *plan)
{
    uint32_t i, n = 0;

    for (i = 0; i < plan->n_axes; i++)
        n += opt_is_leaf(plan, i);
    return n;
}

bool
opt_split(struct opt_plan *plan, uint32_t axis, int64_t factor,
          enum uop_axis type, enum opt_side side, uint32_t *out_new,
          uint32_t *out_rest)
{
    struct opt_axis *a = &plan->axes[axis], *part[2];
    int64_t tile, n_tiles;
    bool new_inner = side == OPT_INNER;
    int i;

    assert(axis < plan->n_axes);
    if (!is_open(plan, axis) || factor < 1 ||
        (plan->pads ? a->size < 1 : a->size < factor) ||
        plan->n_axes + 2 > OPT_MAX_AXES ||
        n_leaves(plan) >= KERNEL_MAX_RANGES || !type_fits(plan, a->range, type))
        return false;
    tile = new_inner ? factor
                     : (int64_t)div_up((uint64_t)a->size, (uint64_t)factor);
    n_tiles = (int64_t)div_up((uint64_t)a->size, (uint64_t)tile);
    if (n_tiles * tile != a->size && !plan->pads &&
        !(plan->open >> a->range & 1) &&
        (is_reduce(plan, a->range) || !plan->may_overlap))
        return false;
    a->outer = (int32_t)plan->n_axes++;
    a->inner = (int32_t)plan->n_axes++;
    part[0] = &plan->axes[a->outer];
    part[1] = &plan->axes[a->inner];
    for (i = 0; i < 2; i++) {
        *part[i] = *a;
        part[i]->outer = part[i]->inner = part[i]->flat = -1;
        part[i]->size = i == 0 ? n_tiles : tile;
    }
    part[new_inner]->type = type;
    if (out_new)
        *out_new = (uint32_t)(new_inner ? a->inner : a->outer);
    if (out_rest)
        *out_rest = (uint32_t)(new_inner ? a->outer : a->inner);
    return true;
}

bool
opt_retype(struct opt_plan *plan, uint32_t axis, enum uop_axis type)
{
    struct opt_axis *a = &plan->axes[axis];

    assert(axis < plan->n_axes);
    if (!is_open(plan, axis) || a->size < 0 || !type_fits(plan, a->range, type))
        return false;
    a->type = type;
    return true;
}

bool
opt_thread(struct opt_plan *plan, uint32_t axis, uint32_t shift)
{
    struct opt_axis *a = &plan->axes[axis];

    assert(axis < plan->n_axes);
    if (!is_open(plan, axis) || a->size < 1 || a->size & (a->size - 1) ||
        shift > 30 || a->size << shift > plan->k->target->max_threads)
        return false;
    a->type = is_reduce(plan, a->range) ? UOP_AXIS_GROUP : UOP_AXIS_LOCAL;
    a->shift = (uint8_t)shift;
    return true;
}

/* Are both of output ranges, or of one reduction? */
static bool
can_fold(const struct opt_plan *plan, uint32_t a, uint32_t b)
{
    uint64_t bits =
        (uint64_t)1 << plan->axes[a].range | (uint64_t)1 << plan->axes[b].range;
    uint32_t i;

    assert(a < plan->n_axes && b < plan->n_axes);
    for (i = 0; i < plan->k->n_groups; i++) {
        uint64_t bound = plan->k->groups[i].bound & bits;
        if (bound && bound != bits)
            return false;
    }
    return is_open(plan, a) && plan->axes[a].size > 0;
}

bool
opt_fold(struct opt_plan *plan, const uint32_t *axes, uint32_t n,
         uint32_t *out_flat)
{
    struct opt_axis *flat = &plan->axes[plan->n_axes];
    int64_t size = 1;
    uint32_t i;

    assert(n > 0);
    assert(n > 0);
    *out_flat = axes[0];
    if (n == 1)
        return is_open(plan, axes[0]);
    if (plan->n_axes == OPT_MAX_AXES)
        return false;
    for (i = 0; i < n; i++) {
        if (!can_fold(plan, axes[i], axes[n - 1]) ||
            __builtin_mul_overflow(size, plan->axes[axes[i]].size, &size))
            return false;
    }
    *flat = plan->axes[axes[n - 1]];
    flat->size = size;
    *out_flat = plan->n_axes++;
    for (i = 0; i < n; i++) {
        struct opt_axis *digit = &plan->axes[axes[i]];
        size /= digit->size;
        digit->flat = (int32_t)*out_flat;
        digit->below = size;
    }
    return true;
}

/* Ranges whose values an axis counts, as bits; by axis. */
static void
counted_ranges(const struct opt_plan *plan, uint64_t *ranges)
{
    uint32_t i;

    memset(ranges, 0, OPT_MAX_AXES * sizeof(*ranges));
    for (i = 0; i < plan->n_axes; i++) { /* parts come after their axis */
        const struct opt_axis *a = &plan->axes[i];
        if (i < plan->k->n_ranges)
            ranges[i] = (uint64_t)1 << a->range;
        if (a->outer >= 0)
            ranges[a->outer] = ranges[a->inner] = ranges[i];
        else if (a->flat >= 0)
            ranges[a->flat] |= ranges[i];
    }
}

bool
opt_vectors_fit(const struct opt_plan *plan)
{
    const struct kernel *k = plan->k;
    uint64_t ranges[OPT_MAX_AXES], vectors[KERNEL_MAX_RANGES];
    uint32_t i, j, n = 0, n_met;

    counted_ranges(plan, ranges);
    for (i = 0; i < plan->n_axes; i++) {
        const struct opt_axis *a = &plan->axes[i];
        if (opt_is_leaf(plan, i) && a->type == UOP_AXIS_VECTOR && a->size != 1)
            vectors[n++] = ranges[i];
    }
    for (i = 0; i < k->n_nodes && n; i++) {
        for (n_met = 0, j = 0; j < n; j++)
            n_met += (k->deps[i] & vectors[j]) != 0;
        if (n_met > 1)
            return false;
    }
    return true;
}

double
opt_expanded_nodes(const struct opt_plan *plan)
{
    const struct kernel *k = plan->k;
    double copies[KERNEL_MAX_RANGES], total = 0;
    uint32_t i;

    for (i = 0; i < k->n_ranges; i++)
        copies[i] = 1;
    for (i = 0; i < plan->n_axes; i++) {
        const struct opt_axis *a = &plan->axes[i];
        if (opt_is_leaf(plan, i) &&
            (a->type == UOP_AXIS_UPCAST || a->type == UOP_AXIS_UNROLL))
            copies[a->range] *= (double)a->size;
    }
    for (i = 0; i < k->n_nodes; i++) {
        uint64_t set = k->deps[i];
        double n = 1;
        for (; set; set &= set - 1)
            n *= copies[__builtin_ctzll(set)];
        total += n;
    }
    return total;
}

void
opt_log_plan(const struct opt_plan *plan)
{
    static const char *const names[UOP_AXIS_COUNT] = {
        [UOP_AXIS_LOOP] = "loop",     [UOP_AXIS_GLOBAL] = "global",
        [UOP_AXIS_LOCAL] = "local",   [UOP_AXIS_REDUCE] = "reduce",
        [UOP_AXIS_GROUP] = "group",   [UOP_AXIS_UPCAST] = "upcast",
        [UOP_AXIS_UNROLL] = "unroll", [UOP_AXIS_VECTOR] = "vector"};
    uint32_t r, i;

    if (!LOG_ON(LOG_OPT))
        return;
    for (r = 0; r < plan->k->n_ranges; r++) {
        char text[160];
        size_t at = 0;
        for (i = 0; i < plan->n_axes && at + 40 < sizeof(text); i++) {
            const struct opt_axis *a = &plan->axes[i];
            if (a->range != r || a->outer >= 0 || a->size == 1)
                continue;
            at += (size_t)snprintf(text + at, sizeof(text) - at, " %s %lld",
                                   a->flat >= 0 ? "digit" : names[a->type],
                                   (long long)a->size);
        }
        if (at)
            LOG(LOG_OPT, "range %u (%lld):%s", r, (long long)plan->k->sizes[r],
                text);
    }
}

/* ---- applying ---- */

struct leaf {
    uint32_t axis;
    bool reduce;
    uint64_t path; /* which way down the tree: orders pieces of one range */
};

static int
compare_leaves(const struct opt_plan *plan, const struct leaf *x,
               const struct leaf *y)
{
    const struct opt_axis *a = &plan->axes[x->axis], *b = &plan->axes[y->axis];
    bool ga = a->type == UOP_AXIS_GLOBAL, gb = b->type == UOP_AXIS_GLOBAL;

    if (x->reduce != y->reduce)
        return x->reduce ? 1 : -1;
    if (ga != gb)
        return ga ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->range != b->range)
        return a->range < b->range ? -1 : 1;
    return x->path < y->path ? -1 : 1;
}

/* Leaves of more than one value, in nest order. Returns their number. */
static uint32_t
order_leaves(const struct opt_plan *plan, struct leaf *leaves)
{
    uint64_t path[OPT_MAX_AXES], step[OPT_MAX_AXES];
    uint32_t i, at, n = 0;

    for (i = 0; i < plan->n_axes; i++) { /* those of whole and folded ranges */
        path[i] = 0;
        step[i] = (uint64_t)1 << 62;
    }
    for (i = 0; i < plan->n_axes; i++) {
        const struct opt_axis *a = &plan->axes[i];
        struct leaf leaf = {i, is_reduce(plan, a->range), 0};
        if (a->outer >= 0) {
            path[a->outer] = path[i];
            path[a->inner] = path[i] + step[i];
            step[a->outer] = step[a->inner] = step[i] >> 1;
            continue;
        }
        if (a->flat >= 0 && step[i] < step[a->flat]) { /* in its place */
            path[a->flat] = path[i];
            step[a->flat] = step[i];
        }
        if (a->size == 1 || a->flat >= 0)
            continue;
        leaf.path = path[i];
        for (at = n++;
             at > 0 && compare_leaves(plan, &leaf, &leaves[at - 1]) < 0; at--)
            leaves[at] = leaves[at - 1];
        leaves[at] = leaf;
    }
    return n;
}

/* Both hold; NULL stands for true. */
static const struct uop *
both(struct uop_graph *g, const struct uop *a, const struct uop *b)
{
    if (!a || !b || a == b)
        return a ? a : b;
    return uop_alu2(g, UOP_AND, a, b);
}

/* What the axis stands at, and whether it stands at a value. */
struct place {
    const struct uop *value, *gate;
};

/* outer * factor + inner; where that would pass the end, moved back, or gated
 * and held at the last value. */
static struct place
joined_place(struct uop_graph *g, const struct opt_plan *plan,
             const struct opt_axis *a, const struct place *place)
{
    int64_t tile = plan->axes[a->inner].size;
    int64_t n_tiles = plan->axes[a->outer].size;
    const struct place *outer = &place[a->outer], *inner = &place[a->inner];
    struct place p = {NULL, both(g, outer->gate, inner->gate)};
    bool ragged = tile * n_tiles != a->size && !(plan->open >> a->range & 1);

    assert(tile * n_tiles >= a->size &&
           (!ragged || tile <= a->size || plan->pads));
    p.value =
        uop_alu2(g, UOP_MUL, outer->value, uop_const_int(g, UOP_I64, tile));
    if (ragged && !plan->pads)
        p.value = uop_alu2(g, UOP_MIN, p.value,
                           uop_const_int(g, UOP_I64, a->size - tile));
    p.value = uop_alu2(g, UOP_ADD, p.value, inner->value);
    if (ragged && plan->pads) {
        const struct uop *size = uop_const_int(g, UOP_I64, a->size);
        p.gate = both(g, p.gate, uop_alu2(g, UOP_CMPLT, p.value, size));
        p.value = uop_alu2(g, UOP_MIN, p.value,
                           uop_const_int(g, UOP_I64, a->size - 1));
    }
    return p;
}

static struct place
digit_place(struct uop_graph *g, const struct opt_plan *plan,
            const struct opt_axis *a, const struct place *place)
{
    struct place p = place[a->flat];

    assert(plan->axes[a->flat].size % (a->below * a->size) == 0);
    if (a->below > 1)
        p.value = uop_alu2(g, UOP_FLOORDIV, p.value,
                           uop_const_int(g, UOP_I64, a->below));
    if (a->below * a->size != plan->axes[a->flat].size)
        p.value = uop_alu2(g, UOP_FLOORMOD, p.value,
                           uop_const_int(g, UOP_I64, a->size));
    return p;
}

static void
make_places(const struct opt_plan *plan, const struct leaf *leaves, uint32_t n,
            struct place *place)
{
    struct uop_graph *g = plan->k->g;
    uint32_t i;

    for (i = 0; i < plan->n_axes; i++)
        place[i] = (struct place){uop_const_int(g, UOP_I64, 0), NULL};
    for (i = 0; i < n; i++) {
        const struct opt_axis *a = &plan->axes[leaves[i].axis];
        union uop_arg arg = {.i = uop_range_arg(i, a->type)};
        const struct uop *size = uop_const_int(g, UOP_I64, a->size);
        if (a->size < 0)
            size = plan->k->ranges[a->range]->src[0];
        place[leaves[i].axis].value =
            uop_new(g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
    }
    for (i = plan->n_axes; i-- > 0;) { /* parts come after their axis */
        const struct opt_axis *a = &plan->axes[i];
        if (a->outer >= 0)
            place[i] = joined_place(g, plan, a, place);
        else if (a->flat >= 0)
            place[i] = digit_place(g, plan, a, place);
    }
}

/* Which bits of the thread number the leaves count with. */
static void
set_threads(const struct opt_plan *plan, const struct leaf *leaves, uint32_t n)
{
    struct kernel *k = plan->k;
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct opt_axis *a = &plan->axes[leaves[i].axis];
        if (a->staged)
            k->staged |= (uint64_t)1 << i;
        if (a->packed)
            k->packed |= (uint64_t)1 << i;
        if (a->type != UOP_AXIS_LOCAL && a->type != UOP_AXIS_GROUP)
            continue;
        assert(a->size > 0 && !(a->size & (a->size - 1)));
        k->thread_shift[i] = a->shift;
        if (a->size << a->shift > k->n_threads)
            k->n_threads = (uint32_t)(a->size << a->shift);
    }
}

/* The range's id that a leaf becomes. */
static uint8_t
id_of_leaf(const struct leaf *leaves, uint32_t n, uint32_t axis)
{
    uint32_t i;

    for (i = 0; i < n && leaves[i].axis != axis; i++)
        ;
    return (uint8_t)i;
}

static void
set_matrix(const struct opt_plan *plan, const struct leaf *leaves, uint32_t n)
{
    const struct opt_matrix *from = &plan->matrix;
    struct kernel_matrix *to = &plan->k->matrix;

    if (!from->on)
        return;
    to->on = true;
    to->wgmma = from->wgmma;
    to->deep = from->deep;
    to->shape = from->shape;
    to->dtype = (uint8_t)from->dtype;
    /* half and pair are looked at where the shape has them */
    to->half = id_of_leaf(leaves, n, from->half);
    to->row = id_of_leaf(leaves, n, from->row);
    to->col = id_of_leaf(leaves, n, from->col);
    to->pair = id_of_leaf(leaves, n, from->pair);
    to->step = id_of_leaf(leaves, n, from->step);
}

static bool
has_vector(const struct opt_plan *plan, const struct leaf *leaves, uint32_t n,
           uint32_t r)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct opt_axis *a = &plan->axes[leaves[i].axis];
        if (a->range == r && a->type == UOP_AXIS_VECTOR)
            return true;
    }
    return false;
}

/* Gates an open range. Behind its end what is loaded is 0, of vectors; else it
 * is what lies at the end: a LOAD without a gate costs less. */
static void
close_range(const struct opt_plan *plan, const struct leaf *leaves, uint32_t n,
            uint32_t r, struct kernel_remap *map)
{
    struct kernel *k = plan->k;
    struct kernel_end *end = kernel_open(k, r);
    const struct uop *one = uop_const_int(k->g, UOP_I64, 1);

    map->gate =
        both(k->g, map->gate, uop_alu2(k->g, UOP_CMPLT, map->value, end->size));
    map->zeros = has_vector(plan, leaves, n, r);
    if (!map->zeros)
        map->value = uop_alu2(k->g, UOP_MIN, map->value,
                              uop_alu2(k->g, UOP_SUB, end->size, one));
}

bell_status
opt_apply(struct opt_plan *plan)
{
    struct kernel *k = plan->k;
    const struct uop *bound[KERNEL_MAX_RANGES + 1];
    struct place place[OPT_MAX_AXES];
    struct kernel_remap map[KERNEL_MAX_RANGES];
    struct leaf leaves[OPT_MAX_AXES];
    const struct uop *value[KERNEL_MAX_RANGES];
    struct kernel_end *closed[KERNEL_MAX_RANGES];
    uint32_t i, r, n = order_leaves(plan, leaves), n_bound = 0, n_open;

    assert(n <= KERNEL_MAX_RANGES);
    make_places(plan, leaves, n, place);
    set_threads(plan, leaves, n);
    set_matrix(plan, leaves, n);
    for (r = 0; r < k->n_ranges; r++) {
        map[r].value = place[r].value;
        map[r].gate = place[r].gate;
        map[r].zeros = plan->zeros && is_reduce(plan, r);
        map[r].masks = false;
        if (plan->open >> r & 1 && !is_reduce(plan, r)) /* a loop, which ends */
            close_range(plan, leaves, n, r, &map[r]);
        map[r].bound = &bound[n_bound];
        map[r].n_bound = 0;
        for (i = 0; i < n && is_reduce(plan, r); i++) {
            if (plan->axes[leaves[i].axis].range != r)
                continue;
            bound[n_bound++] = place[leaves[i].axis].value;
            map[r].n_bound++;
        }
    }
    n_open = 0;
    for (r = 0; r < k->n_ranges; r++) {
        if (plan->open >> r & 1) {
            closed[n_open] = kernel_open(k, r);
            value[n_open++] = place[r].value;
        }
    }
    BELL_TRY(kernel_remap_ranges(k, map));
    for (i = 0; i < n_open; i++) { /* loops end by what is not held back */
        closed[i]->value = value[i];
        closed[i]->is_open = false;
    }
    return BELL_OK;
}
