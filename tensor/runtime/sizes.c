/* Plans for any size. */
#include "tensor/runtime/sizes.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/dims.h"
#include "tensor/core/node.h"
#include "tensor/runtime/runtime.h"

/* guess: all of these, from what compiling and looking up cost here. */
#define MAX_SIZED  6    /* plans for any size of one structure */
#define ALWAYS     2048 /* that a size may be, */
#define GROWTH     8    /* or so many times what it is */
#define SMALL_WORK 4e6  /* elements computed: what is too much costs little */
#define MUCH_MORE  4    /* times the size at hand that there is memory for, */
#define FEW_BYTES  (1 << 20) /* where that is more */

/* ---- finding one ---- */

bool
rt_sizes_fit(const struct tensor_runtime *rt, const struct rt_plan *plan)
{
    const struct dim_symbol *symbol = &plan->table->symbols[0];
    int64_t n = (int64_t)rt->values.list[plan->first].bits, want;
    uint32_t i;

    if (n < symbol->min || n > symbol->max)
        return false;
    for (i = 0; i + 1 < plan->n_values; i++) {
        const struct rt_value *v = &rt->values.list[i], *w = &plan->values[i];

        want = w->code ? dim_value(plan->table, w->code, &n) : (int64_t)w->bits;
        if (plan->steps[i] ? !rt_vary_may(v) : (int64_t)v->bits != want)
            return false;
    }
    return true;
}

/* ---- making one ---- */

/* A size or offset of n: a * n + b. */
struct extent {
    int64_t a, b;
};

/* A structure that is looked at for any size. */
struct sizing {
    const struct tensor_runtime *rt;
    struct rt_plan *plan;
    struct extent *extents;  /* by value */
    const struct uop **list; /* the structure */
    size_t n_nodes;
    int64_t min, max; /* that n can be */
    bool is_refused;  /* no such graph for any size */
};

/* The newest plan for one size of the structure; NULL where there is none, or
 * there are enough plans for any size of it. */
static const struct rt_plan *
find_example(const struct tensor_runtime *rt, const struct uop *sink)
{
    const struct rt_plan *found = NULL;
    uint32_t n_sized = 0;
    size_t i;

    for (i = 0; i < rt->n_plans; i++) {
        const struct rt_plan *plan = &rt->plans[i];

        if (plan->sink != sink)
            continue;
        n_sized += plan->table != NULL;
        if (!plan->table && plan->next == RT_NO_PLAN)
            found = plan;
    }
    return n_sized < MAX_SIZED ? found : NULL;
}

/* Fills in what each value is of n, the first size that differs from that of
 * `old`. Numbers that are arguments of `old` or differ are arguments. False:
 * that is not a * n + b, or a number may not be. */
static bool
fit_values(struct sizing *s, const struct rt_plan *old)
{
    const struct rt_value *list = s->rt->values.list;
    struct rt_plan *plan = s->plan;
    uint32_t n = (uint32_t)s->rt->values.n, i;
    int64_t was, by;

    for (i = 0;
         i < n && !(list[i].is_size && list[i].bits != old->values[i].bits);)
        i++;
    if (i == n)
        return false;
    plan->first = i;
    was = (int64_t)old->values[i].bits;
    by = (int64_t)list[i].bits - was;
    for (i = 0; i < n; i++) {
        int64_t x = (int64_t)old->values[i].bits, to = (int64_t)list[i].bits;

        plan->values[i] = list[i];
        if (list[i].dtype == UOP_VOID) {
            if ((to - x) % by)
                return false;
            s->extents[i].a = (to - x) / by;
            s->extents[i].b = x - s->extents[i].a * was;
        } else if (to != x || old->steps[i]) {
            if (!rt_vary_may(&list[i]))
                return false;
            plan->steps[i] = 1;
        }
    }
    plan->values[n].bits = list[plan->first].bits;
    plan->steps[n] = 1;
    plan->n_values = n + 1;
    return true;
}

static struct extent
extent_of(const struct sizing *s, int64_t d)
{
    return rt_is_size(d) ? s->extents[rt_size_value(d)] : (struct extent){0, d};
}

/* n is such that what varies with it is at least `least`. */
static void
bound_n(struct sizing *s, struct extent e, int64_t least)
{
    int64_t by = least - e.b;

    if (e.a > 0 && by > 0 && (by + e.a - 1) / e.a > s->min)
        s->min = (by + e.a - 1) / e.a;
    if (e.a < 0 && by > 0)
        s->is_refused = true;
    else if (e.a < 0 && by / e.a < s->max)
        s->max = by / e.a;
}

static struct extent
without(struct extent x, struct extent y)
{
    return (struct extent){x.a - y.a, x.b - y.b};
}

/* A slice begins and ends in what it is of, a padding in what it makes. */
static void
bound_move(struct sizing *s, const struct uop *u, const struct uop_dims *shape)
{
    const struct uop_dims *from = uop_shape(&s->rt->graphs, u->src[0]);
    uint32_t i;

    for (i = 0; u->arg.dims->n == 4 * shape->n && i < shape->n; i++) {
        int64_t value = u->arg.dims->d[2 * (shape->n + i)];
        struct extent at, room;

        if (!value)
            continue;
        at = s->extents[value - 1];
        room = extent_of(s, u->arg.dims->d[2 * i + 1]);
        if (u->op == UOP_SHRINK)
            room = without(extent_of(s, from->d[i]), room);
        bound_n(s, at, 0);
        bound_n(s, without(room, at), 0);
    }
}

/* Bounds n by each node, and refuses nodes that have no such plan. The order of
 * a sum of floats is that of a kernel's sizes, and shows in its last bits. */
static void
bound_nodes(struct sizing *s)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < s->n_nodes; i++) {
        const struct uop *u = s->list[i];
        const struct uop_dims *shape = uop_shape(&s->rt->graphs, u);

        s->is_refused |=
            u->op == UOP_ASSIGN || u->op == UOP_CALL || uop_sums_floats(u);
        /* its network is one of so many keys */
        s->is_refused |=
            u->op == UOP_SORT_AXIS && extent_of(s, shape->d[1]).a != 0;
        for (k = 0; shape && k < shape->n; k++) /* 1 is another graph */
            bound_n(s, extent_of(s, shape->d[k]), 2);
        if (u->op == UOP_PAD || u->op == UOP_SHRINK)
            bound_move(s, u, shape);
    }
}

/* The elements of all nodes at n. */
static double
work_at(const struct sizing *s, int64_t n)
{
    double work = 0, each;
    size_t i;
    uint32_t k;

    for (i = 0; i < s->n_nodes; i++) {
        const struct uop_dims *shape = uop_shape(&s->rt->graphs, s->list[i]);

        for (each = 1, k = 0; shape && k < shape->n; k++) {
            struct extent e = extent_of(s, shape->d[k]);

            each *= (double)e.a * (double)n + (double)e.b;
        }
        work += each;
    }
    return work;
}

/* Values become expressions of the plan's table. False: they cannot be, or a
 * RESHAPE is one of this size alone. */
static bool
make_codes(struct sizing *s)
{
    struct rt_plan *plan = s->plan;
    struct dim_table *t = plan->table;
    int64_t n = dim_symbol(t, "n", s->min, s->max);
    uint32_t k;
    size_t i;

    for (i = 0; i + 1 < plan->n_values; i++) {
        if (plan->values[i].dtype != UOP_VOID || s->extents[i].a == 0)
            continue;
        plan->values[i].code =
            dim_add(t, dim_mul(t, s->extents[i].a, n), s->extents[i].b);
        if (plan->values[i].code == DIM_BAD)
            return false;
    }
    for (i = 0; i < s->n_nodes; i++) {
        const struct uop_dims *shape = uop_shape(&s->rt->graphs, s->list[i]);
        int64_t from = 1, to = 1;

        if (s->list[i]->op != UOP_RESHAPE)
            continue;
        for (k = 0; k < shape->n; k++)
            to = dim_mul(t, to, rt_vary_place(plan, shape->d[k]));
        shape = uop_shape(&s->rt->graphs, s->list[i]->src[0]);
        for (k = 0; k < shape->n; k++)
            from = dim_mul(t, from, rt_vary_place(plan, shape->d[k]));
        if (from != to || from == DIM_BAD)
            return false;
    }
    return true;
}

/* The plan is one for any size, where one can be made from the example. */
static void
size_plan(struct sizing *s, const struct rt_plan *old)
{
    int64_t now;

    if (!fit_values(s, old))
        return;
    now = (int64_t)s->plan->values[s->plan->first].bits;
    s->min = 1;
    s->max = GROWTH * now > ALWAYS ? GROWTH * now : ALWAYS;
    bound_nodes(s);
    while (s->max / 2 >= 2 * now && work_at(s, s->max) > SMALL_WORK)
        s->max /= 2;
    if (s->is_refused || now < s->min || now > s->max || !make_codes(s))
        return;
    s->plan->symbols = 1;
}

bell_status
rt_sizes_make(struct tensor_runtime *rt, struct rt_plan *plan)
{
    const struct rt_plan *old = find_example(rt, plan->sink);
    struct sizing s = {.rt = rt, .plan = plan};
    size_t n = rt->values.n;
    bell_status status = BELL_OK;

    if (!old)
        return BELL_OK;
    BELL_TRY(uop_canonical_order(plan->sink, &s.list, &s.n_nodes));
    s.extents = host_calloc(n + 1, sizeof(*s.extents));
    plan->values = host_calloc(n + 1, sizeof(*plan->values));
    plan->steps = host_calloc(n + 1, sizeof(*plan->steps));
    plan->table = host_alloc(sizeof(*plan->table));
    if (plan->table)
        dim_table_init(plan->table);
    if (s.extents && plan->values && plan->steps && plan->table)
        size_plan(&s, old);
    else
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    host_free(s.extents);
    host_free(s.list);
    return status;
}

/* ---- memory ---- */

bell_status
rt_sizes_count(struct rt_plan *plan, struct dim_table *table)
{
    struct rt_counts *c = host_calloc(1, sizeof(*c));
    uint32_t i;

    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    c->table = table;
    for (i = 0; i < table->n_symbols; i++) {
        c->least[i] = table->symbols[i].min;
        c->most[i] = table->symbols[i].max;
    }
    host_free(plan->counts);
    plan->counts = c;
    return BELL_OK;
}

static void
count_sized_elems(struct rt_plan *plan)
{
    const struct rt_counts *c = plan->counts;
    uint32_t i;

    for (i = 0; i < plan->sched.n_bufs; i++)
        plan->sched.bufs[i].n_elems =
            (uint64_t)dim_value(c->table, plan->sched.bufs[i].count, c->now);
}

/* The most elements of buffers for sizes up to those placed: one may have fewer
 * of a greater size. */
static bell_status
count_most_elems(struct rt_plan *plan)
{
    const struct rt_counts *c = plan->counts;
    int64_t least, most;
    uint32_t i;

    for (i = 0; i < plan->sched.n_bufs; i++) {
        struct sched_buf *buf = &plan->sched.bufs[i];

        if (buf->count == DIM_BAD)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "the size of a value is a product of too many "
                             "sizes of symbols");
        dim_bounds_within(c->table, buf->count, c->least, c->placed, &least,
                          &most);
        buf->n_elems = (uint64_t)most;
    }
    return BELL_OK;
}

/* Gives the plan's buffers the sizes that the symbols make, and a place in
 * scratch memory: another one where they have not been so great, or are much
 * smaller now. */
static bell_status
place_sized(struct rt_plan *plan)
{
    struct rt_counts *c = plan->counts;
    bell_status status = BELL_OK;
    bool changes = false;
    uint32_t s;

    for (s = 0; s < DIM_MAX_SYMBOLS; s++) {
        if (c->now[s] <= c->placed[s] &&
            (plan->scratch_bytes < FEW_BYTES ||
             c->placed[s] <= MUCH_MORE * c->now[s]))
            continue;
        changes = true;
        c->placed[s] = c->now[s] + c->now[s] / 2;
        if (c->placed[s] > c->most[s])
            c->placed[s] = c->most[s];
    }
    if (changes) {
        status = count_most_elems(plan);
        if (status == BELL_OK)
            status = rt_place_buffers(plan, NULL);
        if (status != BELL_OK)
            memset(c->placed, 0, sizeof(c->placed)); /* and again */
    }
    if (status == BELL_OK)
        count_sized_elems(plan);
    return status;
}

/* n becomes the last of the values that were looked up. */
static bell_status
add_n(struct rt_values *values, int64_t n)
{
    if (host_grow((void **)&values->list, &values->cap, values->n + 1,
                  sizeof(*values->list)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for values");
    values->list[values->n++] = (struct rt_value){.bits = (uint64_t)n};
    return BELL_OK;
}

bell_status
rt_sizes_take(struct tensor_runtime *rt, struct rt_plan *plan)
{
    struct rt_values *values = &rt->values;
    uint32_t rest, n;

    if (plan->table && values->n < plan->n_values)
        BELL_TRY(add_n(values, (int64_t)values->list[plan->first].bits));
    n = plan->n_values - (uint32_t)__builtin_popcount(plan->symbols);
    for (rest = plan->symbols; rest; rest &= rest - 1)
        plan->counts->now[__builtin_ctz(rest)] =
            (int64_t)values->list[n++].bits;
    return place_sized(plan);
}

bell_status
rt_sizes_place_most(struct rt_plan *plan)
{
    struct rt_counts *c = plan->counts;

    assert(plan->symbols);
    memcpy(c->now, c->most, sizeof(c->now));
    BELL_TRY(place_sized(plan));
    return count_most_elems(plan);
}
