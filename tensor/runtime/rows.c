/* Which axes of a graph are the rows that it takes. */
#include "tensor/runtime/rows.h"

#include <assert.h>

#include "base/alloc.h"
#include "tensor/runtime/runtime.h"

/* guess: a sequence that grows begins with so few rows, the first ones. More
 * are seldom the beginning of one, and a plan for as many would be slower. */
#define MAX_FIRST 4

/* A graph in the order of its form. */
struct rows {
    const struct tensor_runtime *rt;
    const struct rt_plan *plan;
    const struct uop *const *list;
    uint32_t n;
    int64_t n_rows;
    uint32_t marks[RT_MAX_GUESSED]; /* by node: the axes that are the rows */
    bool changed;
};

static const struct uop_dims *
shape_of(const struct rows *r, uint32_t i)
{
    return uop_shape(&r->rt->graphs, r->list[i]);
}

static uint32_t
place_of(const struct rows *r, const struct uop *u)
{
    uint32_t i;

    for (i = 0; r->list[i] != u; i++)
        assert(i < r->n);
    return i;
}

/* The number of the plan's argument that says where the rows begin that node i
 * takes of a tensor with data: 1 + it; or 0. */
static int64_t
begins_at(const struct rows *r, uint32_t i)
{
    const struct uop *u = r->list[i];
    uint32_t rank;
    int64_t value;

    if (u->op != UOP_SHRINK || u->src[0]->op != UOP_BUFFER)
        return 0;
    rank = shape_of(r, i)->n;
    value = u->arg.dims->n == 4 * rank ? u->arg.dims->d[2 * rank] : 0;
    return value && r->plan->steps[value - 1] ? value : 0;
}

static void
mark(struct rows *r, uint32_t i, uint32_t axes)
{
    r->changed |= (r->marks[i] | axes) != r->marks[i];
    r->marks[i] |= axes;
}

/* Of `axes` of both nodes each is the rows if the other's is. */
static void
share(struct rows *r, uint32_t i, uint32_t k, uint32_t axes)
{
    mark(r, i, r->marks[k] & axes);
    mark(r, k, r->marks[i] & axes);
}

/* An EXPAND's axis of 1 is one row, or none is meant. */
static bool
expand_rows(struct rows *r, uint32_t i, uint32_t from)
{
    const struct uop_dims *to = shape_of(r, i), *was = shape_of(r, from);
    uint32_t axis;

    for (axis = 0; axis < to->n; axis++) {
        uint32_t bit = 1u << axis;

        if (was->d[axis] == to->d[axis] && to->d[axis] > 1)
            share(r, i, from, bit);
        else if (was->d[axis] == to->d[axis])
            mark(r, i, r->marks[from] & bit);
        else if (r->marks[from] & bit)
            return false;
    }
    return true;
}

static void
permute_rows(struct rows *r, uint32_t i, uint32_t from)
{
    const int64_t *order = r->list[i]->arg.dims->d;
    uint32_t axis, n = shape_of(r, i)->n;

    for (axis = 0; axis < n; axis++) {
        mark(r, i, (r->marks[from] >> order[axis] & 1) << axis);
        mark(r, from, (r->marks[i] >> axis & 1) << order[axis]);
    }
}

/* Rows stay the first axis; which of several axes of 1 is one row nobody can
 * tell. */
static bool
reshape_rows(struct rows *r, uint32_t i, uint32_t from)
{
    const struct uop_dims *to = shape_of(r, i), *was = shape_of(r, from);
    bool keeps = to->n && was->n && to->d[0] == was->d[0] && r->n_rows > 1;

    if (keeps)
        share(r, i, from, 1);
    return keeps ? (r->marks[i] | r->marks[from]) <= 1
                 : (r->marks[i] | r->marks[from]) == 0;
}

/* What is cut or padded is no axis of rows. */
static bool
move_rows(struct rows *r, uint32_t i, uint32_t from)
{
    const struct uop *u = r->list[i];
    const struct uop_dims *to = shape_of(r, i), *was = shape_of(r, from);
    uint32_t axis;

    for (axis = 0; axis < to->n; axis++) {
        bool moves = u->arg.dims->n > 2 * to->n &&
                     u->arg.dims->d[2 * (to->n + axis)] != 0;

        if (was->d[axis] == to->d[axis] && !moves)
            share(r, i, from, 1u << axis);
        else if ((r->marks[i] | r->marks[from]) >> axis & 1)
            return false;
    }
    return true;
}

static bool
reduce_rows(struct rows *r, uint32_t i, uint32_t from)
{
    uint32_t axes = uop_reduce_axes(r->list[i]);

    share(r, i, from, ~axes);
    return (r->marks[i] & axes) == 0;
}

/* Marks what is the rows of node i and its sources, if one of them is; false:
 * nothing can be said. */
static bool
spread(struct rows *r, uint32_t i)
{
    const struct uop *u = r->list[i];
    uint32_t from = u->n_src ? place_of(r, u->src[0]) : 0, s;

    switch ((int)u->op) {
    case UOP_CONST:
    case UOP_VAR:
    case UOP_IOTA:
    case UOP_SINK:
        return true;
    case UOP_BUFFER:
        return r->marks[i] == 0;
    case UOP_EXPAND:
        return expand_rows(r, i, from);
    case UOP_PERMUTE:
        permute_rows(r, i, from);
        return true;
    case UOP_RESHAPE:
        return reshape_rows(r, i, from);
    case UOP_PAD:
        return move_rows(r, i, from);
    case UOP_SHRINK:
        return begins_at(r, i) || move_rows(r, i, from);
    case UOP_REDUCE_AXIS:
        return reduce_rows(r, i, from);
    case UOP_CAST:
    case UOP_BITCAST:
    case UOP_CONTIGUOUS:
    case UOP_FLIP:
        break;
    default:
        if (uop_has(u, UOP_FLAG_ALU))
            break;
        for (s = 0; s < u->n_src; s++) {
            if (r->marks[place_of(r, u->src[s])])
                return false;
        }
        return r->marks[i] == 0;
    }
    for (s = 0; s < u->n_src; s++) {
        from = place_of(r, u->src[s]);
        if (shape_of(r, from)->n) /* numbers have no axes */
            share(r, i, from, UINT32_MAX);
    }
    return true;
}

/* Marks all that is the rows; false: nothing is guessed. */
static bool
mark_rows(struct rows *r)
{
    uint32_t i, axis;
    bool is_start = false;

    for (i = 0; i < r->n; i++) {
        if (begins_at(r, i) && shape_of(r, i)->d[0] > r->n_rows)
            r->n_rows = shape_of(r, i)->d[0];
    }
    for (i = 0; i < r->n; i++) {
        int64_t value = begins_at(r, i);

        if (!value || shape_of(r, i)->d[0] != r->n_rows)
            continue;
        mark(r, i, 1);
        is_start |= r->plan->values[value - 1].bits == 0;
    }
    if (!is_start || r->n_rows > MAX_FIRST)
        return false;
    while (r->changed) {
        r->changed = false;
        for (i = 0; i < r->n; i++) {
            if (!spread(r, i))
                return false;
        }
    }
    for (i = 0; i < r->n; i++) {
        for (axis = 0; axis < 32 && r->marks[i] >> axis; axis++) {
            if (r->marks[i] >> axis & 1 && shape_of(r, i)->d[axis] != r->n_rows)
                return false;
        }
    }
    return r->n_rows > 0;
}

/* The places of node i's sizes; returns how many. */
static uint32_t
place_node(const struct rows *r, uint32_t i, struct rt_extent *places,
           uint32_t offsets[RT_MAX_OFFSETS], uint32_t *n_offsets)
{
    const struct uop *u = r->list[i];
    const struct uop_dims *shape = shape_of(r, i);
    const int64_t *arg;
    uint32_t n = shape ? shape->n : 0, axis;
    int64_t value = begins_at(r, i);

    for (axis = 0; axis < n; axis++) {
        if (r->marks[i] >> axis & 1)
            places[axis].a = 1;
        else
            places[axis].b = shape->d[axis];
    }
    if (u->op != UOP_PAD && u->op != UOP_SHRINK)
        return n;
    arg = u->arg.dims->d;
    for (axis = 0; axis < n; axis++) {
        struct rt_extent *at = &places[n + 2 * axis], *end = at + 1;
        int64_t by = 0;

        if (u->arg.dims->n > 2 * n && arg[2 * (n + axis)] && (!value || axis))
            by = (int64_t)r->plan->values[arg[2 * (n + axis)] - 1].bits;
        at->b = arg[2 * axis] + by;
        end->b = arg[2 * axis + 1] + (u->op == UOP_SHRINK ? by : -by);
        if (u->op == UOP_SHRINK && r->marks[i] >> axis & 1)
            *end = (struct rt_extent){.a = 1};
    }
    if (value) {
        assert(*n_offsets < RT_MAX_OFFSETS);
        offsets[(*n_offsets)++] = (uint32_t)value - 1;
        places[n].offset = places[n + 1].offset = *n_offsets;
    }
    return 3 * n;
}

bell_status
rt_rows_find(const struct tensor_runtime *rt, const struct rt_plan *plan,
             struct rt_extent *places, uint32_t offsets[RT_MAX_OFFSETS],
             uint32_t *out_n_offsets, int64_t *out_rows)
{
    struct rows r = {.rt = rt, .plan = plan};
    const struct uop **list;
    uint32_t i, at = 0, n_begins = 0;
    size_t n;

    *out_n_offsets = 0;
    BELL_TRY(uop_canonical_order(plan->sink, &list, &n));
    r.list = list;
    r.n = (uint32_t)n;
    for (i = 0; n <= RT_MAX_GUESSED && i < n; i++)
        n_begins += begins_at(&r, i) != 0;
    if (n_begins && n_begins <= RT_MAX_OFFSETS && mark_rows(&r)) {
        for (i = 0; i < n; i++)
            at += place_node(&r, i, places + at, offsets, out_n_offsets);
        *out_rows = r.n_rows;
    }
    host_free(list);
    return BELL_OK;
}
