/* Forms of graphs, and plans for any size. */
#include "tensor/runtime/sizes.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tensor/core/dims.h"
#include "tensor/core/node.h"
#include "tensor/runtime/runtime.h"

/* guess: all of these, from what compiling and looking up cost here. */
#define MAX_SIZED  6    /* plans for any size of one form */
#define ALWAYS     2048 /* that a size may be, */
#define GROWTH     8    /* or so many times what it is */
#define SMALL_WORK 4e6  /* elements computed: what is too much costs little */

/* ---- forms ---- */

static bool
add_word(struct rt_form *f, uint64_t word)
{
    if (host_grow((void **)&f->words, &f->cap_words, f->n_words + 1,
                  sizeof(*f->words)) != 0)
        return false;
    f->words[f->n_words++] = word;
    return true;
}

static bool
add_size(struct rt_form *f, int64_t size)
{
    if (host_grow((void **)&f->sizes, &f->cap_sizes, f->n_sizes + 1,
                  sizeof(*f->sizes)) != 0)
        return false;
    f->sizes[f->n_sizes++] = size;
    return true;
}

static bool
add_number(struct rt_form *f, uint32_t value)
{
    if (host_grow((void **)&f->numbers, &f->cap_numbers, f->n_numbers + 1,
                  sizeof(*f->numbers)) != 0)
        return false;
    f->numbers[f->n_numbers++] = value;
    return true;
}

/* Begin and end of each axis, or what is before and after it. */
static bool
add_move(struct rt_form *f, const struct uop *u, uint32_t rank,
         const struct rt_values *values)
{
    const struct uop_dims *arg = u->arg.dims;
    bool good = true, shrinks = u->op == UOP_SHRINK;
    uint32_t i;

    for (i = 0; good && i < rank; i++) {
        int64_t at = arg->d[2 * i], end = arg->d[2 * i + 1], by = 0;

        if (arg->n > 2 * rank && arg->d[2 * (rank + i)])
            by = (int64_t)values->list[arg->d[2 * (rank + i)] - 1].bits;
        good =
            add_size(f, at + by) && add_size(f, shrinks ? end + by : end - by);
    }
    return good;
}

static bool
add_node(struct rt_form *f, const struct uop_graph *g, const struct uop *u,
         const uint32_t *place, const struct rt_values *values)
{
    const struct uop_dims *shape = uop_shape(g, u);
    uint32_t n = shape ? shape->n : 0, i;
    bool good = add_word(f, (uint64_t)u->op | (uint64_t)u->dtype << 8 |
                                (uint64_t)u->n_src << 16 | (uint64_t)n << 32);

    for (i = 0; good && i < u->n_src; i++)
        good = add_word(f, place[u->src[i]->id]);
    for (i = 0; good && i < n; i++)
        good = add_size(f, shape->d[i]);
    switch (good ? (int)u->op : UOP_SINK) {
    case UOP_VAR:
        return add_number(f, (uint32_t)u->arg.i);
    case UOP_BUFFER:
        return add_word(f, (uint64_t)u->arg.dims->d[0]);
    case UOP_PAD:
    case UOP_SHRINK:
        return add_move(f, u, n, values);
    case UOP_PERMUTE:
        for (i = 0; good && i < n; i++)
            good = add_word(f, (uint64_t)u->arg.dims->d[i]);
        return good;
    case UOP_CALL:
        for (i = 0; good && i < u->arg.dims->n; i++)
            good = add_word(f, (uint64_t)u->arg.dims->d[i]);
        return good;
    case UOP_IOTA: /* its size alone */
    case UOP_RESHAPE:
    case UOP_EXPAND:
    case UOP_SINK:
        return good;
    default:
        return add_word(f, u->arg.bits);
    }
}

bell_status
rt_form_of(const struct uop_graph *g, const struct uop *sink,
           const struct rt_values *values, struct rt_form *out_form)
{
    const struct uop **list;
    uint32_t *place;
    bool good;
    size_t n, i;

    memset(out_form, 0, sizeof(*out_form));
    BELL_TRY(uop_canonical_order(sink, &list, &n));
    place = host_alloc(((size_t)sink->id + 1) * sizeof(*place));
    good = place != NULL;
    for (i = 0; good && i < n; i++) {
        place[list[i]->id] = (uint32_t)i;
        good = add_node(out_form, g, list[i], place, values);
    }
    host_free(list);
    host_free(place);
    if (!good)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory looking for a plan");
    out_form->hash = hash_bytes(
        out_form->words, out_form->n_words * sizeof(*out_form->words), n);
    return BELL_OK;
}

void
rt_form_fini(struct rt_form *form)
{
    host_free(form->words);
    host_free(form->sizes);
    host_free(form->numbers);
}

void
rt_sized_init(struct rt_sized *sized)
{
    memset(sized, 0, sizeof(*sized));
    uop_graph_init(&sized->words);
}

void
rt_sized_fini(struct rt_sized *sized)
{
    rt_form_fini(&sized->form);
    uop_graph_fini(&sized->words);
    host_free(sized->places);
    if (sized->table)
        dim_table_fini(sized->table);
    host_free(sized->table);
}

static bool
same_form(const struct rt_form *a, const struct rt_form *b)
{
    return a->hash == b->hash && a->n_words == b->n_words &&
           a->n_sizes == b->n_sizes && a->n_numbers == b->n_numbers &&
           memcmp(a->words, b->words, a->n_words * sizeof(*a->words)) == 0;
}

static uint64_t
key_of(const struct tensor_runtime *rt, const struct rt_form *form)
{
    return hash_add(form->hash, rt->target.math);
}

/* ---- finding one ---- */

/* The n of the plan that gives these sizes; -1: none does. */
static int64_t
find_size(const struct rt_sized *sized, const struct rt_form *form)
{
    const struct dim_symbol *symbol = &sized->table->symbols[0];
    int64_t n = form->sizes[sized->first];
    size_t i;

    if (n < symbol->min || n > symbol->max)
        return -1;
    for (i = 0; i < form->n_sizes; i++) {
        if (form->sizes[i] != sized->places[i].a * n + sized->places[i].b)
            return -1;
    }
    return n;
}

/* Are the numbers those of the plan, but for its arguments? */
static bool
fits_numbers(const struct tensor_runtime *rt, const struct rt_plan *plan,
             const struct rt_form *form)
{
    size_t i;

    for (i = 0; i < form->n_numbers; i++) {
        const struct rt_value *v = &rt->values.list[form->numbers[i]];

        if (plan->steps[i] ? !rt_vary_may(v) : v->bits != plan->values[i].bits)
            return false;
    }
    return true;
}

/* The values that were looked up become the numbers among them, and n. */
static bool
take_values(struct rt_values *values, const struct rt_form *form, int64_t n)
{
    size_t i;

    if (host_grow((void **)&values->list, &values->cap, form->n_numbers + 1,
                  sizeof(*values->list)) != 0)
        return false;
    for (i = 0; i < form->n_numbers; i++) {
        assert(form->numbers[i] >= i); /* by first use */
        values->list[i] = values->list[form->numbers[i]];
    }
    values->list[i++] = (struct rt_value){.bits = (uint64_t)n};
    values->n = i;
    return true;
}

bell_status
rt_sizes_find(struct tensor_runtime *rt, const struct rt_form *form,
              uint32_t *out_plan)
{
    uint64_t key = key_of(rt, form);
    size_t i;

    *out_plan = RT_NO_PLAN;
    for (i = 0; i < rt->n_sized; i++) {
        const struct rt_sized *sized = &rt->sized[i];
        struct rt_plan *plan = &rt->plans[sized->plan];
        int64_t n;

        if (sized->key != key || !same_form(&sized->form, form))
            continue;
        n = find_size(sized, form);
        if (n < 0 || !fits_numbers(rt, plan, form))
            continue;
        if (!take_values(&rt->values, form, n))
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for values");
        rt_sizes_take_symbols(plan, rt->values.list, rt->values.n);
        *out_plan = sized->plan;
        return rt_sizes_place(plan);
    }
    return BELL_OK;
}

/* ---- making one ---- */

/* The newest plan for one size of the form; NULL where there is none, or there
 * are enough plans for any size of it. */
static const struct rt_plan *
find_example(const struct tensor_runtime *rt, const struct rt_form *form)
{
    const struct rt_plan *found = NULL;
    uint32_t n_sized = 0;
    size_t i;

    for (i = 0; i < rt->n_plans; i++) {
        const struct rt_plan *plan = &rt->plans[i];

        if (plan->ops_hash != form->hash)
            continue;
        n_sized += plan->any_size;
        if (!plan->symbols && plan->next == RT_NO_PLAN)
            found = plan;
    }
    return n_sized < MAX_SIZED ? found : NULL;
}

/* Fills in what each size is of n, the first that differs, from two examples:
 * false where that is not a * n + b. */
static bool
fit_sizes(const struct rt_form *was, const struct rt_form *is,
          struct rt_sized *out)
{
    int64_t v1, v2;
    size_t i;

    for (i = 0; i < is->n_sizes && was->sizes[i] == is->sizes[i]; i++)
        ;
    if (i == is->n_sizes)
        return false;
    out->first = i;
    v1 = was->sizes[i];
    v2 = is->sizes[i];
    for (i = 0; i < is->n_sizes; i++) {
        int64_t x1 = was->sizes[i], x2 = is->sizes[i];
        struct rt_extent *at = &out->places[i];

        if (x1 < 0 || dim_is_expr(x1) || (x2 - x1) % (v2 - v1))
            return false;
        at->a = (x2 - x1) / (v2 - v1);
        at->b = x1 - at->a * v1;
    }
    return true;
}

/* The order in which a kernel reduces is that of its sizes: it shows in the
 * last bits of floats that add up, and in which zero is the greatest, 0 or
 * -0. */
static bell_status
reduces_floats(const struct uop *sink, bool *out_reduces)
{
    const struct uop **list;
    size_t n, i;

    BELL_TRY(uop_canonical_order(sink, &list, &n));
    *out_reduces = false;
    for (i = 0; i < n; i++) {
        const struct uop *u = list[i];

        *out_reduces |=
            u->op == UOP_SCAN || (u->op == UOP_REDUCE_AXIS && uop_is_float(u));
    }
    host_free(list);
    return BELL_OK;
}

/* The plan's values, from those looked up: numbers that are arguments of `old`
 * or differ from its are arguments, and so is n. False where one of them may
 * not be. */
static bool
choose_numbers(const struct tensor_runtime *rt, const struct rt_form *was,
               const struct rt_form *is, const struct rt_plan *old,
               struct rt_plan *plan)
{
    size_t i;

    for (i = 0; i < is->n_numbers; i++) {
        const struct rt_value *v = &rt->values.list[is->numbers[i]];

        plan->values[i] = *v;
        if (v->bits == old->values[was->numbers[i]].bits &&
            !old->steps[was->numbers[i]])
            continue;
        if (!rt_vary_may(v))
            return false;
        plan->steps[i] = 1;
    }
    plan->steps[i] = 1;
    plan->n_values = (uint32_t)is->n_numbers + 1;
    return true;
}

/* A graph being read in the order of its form. */
struct reader {
    const struct tensor_runtime *rt;
    struct rt_sized *sized;
    size_t at, nth;  /* size, number */
    size_t *first;   /* by id: the first of its sizes */
    bool is_refused; /* no such graph for any size */
};

/* a * n + b is at least `least` for all n of the symbol. */
static void
bound_size(struct reader *r, int64_t a, int64_t b, int64_t least)
{
    struct dim_symbol *n = &r->sized->table->symbols[0];
    int64_t by = least - b;

    if (a > 0 && by > 0 && (by + a - 1) / a > n->min)
        n->min = (by + a - 1) / a;
    if (a < 0 && by > 0)
        r->is_refused = true;
    else if (a < 0 && by / a < n->max)
        n->max = by / a;
}

/* The next size as a word of the table. */
static int64_t
next_size(struct reader *r, int64_t least)
{
    const struct rt_extent *at = &r->sized->places[r->at++];
    struct dim_table *t = r->sized->table;
    int64_t d = dim_add(t, dim_mul(t, at->a, t->symbols[0].dim), at->b);

    bound_size(r, at->a, at->b, least);
    r->is_refused |= d == DIM_BAD;
    return d;
}

static const struct uop_dims *
next_sizes(struct reader *r, struct uop_graph *g, uint32_t n, int64_t least)
{
    int64_t d[2 * TN_MAX_RANK];
    uint32_t i;

    assert(n <= 2 * TN_MAX_RANK);
    for (i = 0; i < n; i++)
        d[i] = next_size(r, least);
    return uop_dims(g, d, n);
}

/* A slice ends in what it is taken from. */
static void
bound_slice(struct reader *r, const struct uop *u, uint32_t n)
{
    const struct rt_extent *from = &r->sized->places[r->first[u->src[0]->id]];
    const struct rt_extent *ends = &r->sized->places[r->at];
    uint32_t i;

    for (i = 0; i < n; i++)
        bound_size(r, from[i].a - ends[2 * i + 1].a,
                   from[i].b - ends[2 * i + 1].b, 0);
}

static const struct uop *
read_node(struct reader *r, struct uop_graph *g, const struct uop *u,
          const struct uop *const *built)
{
    const struct uop_dims *shape = uop_shape(&r->rt->graphs, u), *was;
    const struct uop *src[UOP_MAX_CALL_SRC];
    struct dim_table *t = r->sized->table;
    int64_t d[TN_MAX_RANK + 1];
    union uop_arg arg = u->arg;
    uint32_t i, n = shape->n;

    for (i = 0; i < u->n_src && i < UOP_MAX_CALL_SRC; i++)
        src[i] = built[u->src[i]->id];
    r->first[u->id] = r->at;
    shape = next_sizes(r, g, n, 2); /* 1 is another graph */
    if (!shape || g->failed)
        return &uop_failed;
    if (u->op == UOP_VAR) {
        arg.i = (int64_t)r->nth++;
    } else if (u->op == UOP_PAD || u->op == UOP_SHRINK) {
        if (u->op == UOP_SHRINK)
            bound_slice(r, u, n);
        arg.dims = next_sizes(r, g, 2 * n, 0);
    } else if (u->op == UOP_IOTA) {
        arg.i = shape->d[0];
    } else if (u->op == UOP_RESHAPE || u->op == UOP_EXPAND) {
        arg.dims = shape;
        was = uop_shape(g, src[0]);
        r->is_refused |=
            u->op == UOP_RESHAPE &&
            !dims_same_numel(t, was->d, was->n, shape->d, shape->n);
    } else if (u->op == UOP_BUFFER) {
        d[0] = arg.dims->d[0];
        memcpy(d + 1, shape->d, n * sizeof(*d));
        arg.dims = uop_dims(g, d, n + 1);
    } else if (uop_op_infos[u->op].arg_kind == UOP_ARG_DIMS) {
        arg.dims = uop_dims(g, arg.dims->d, arg.dims->n);
    }
    r->is_refused |= u->op == UOP_ASSIGN || u->op == UOP_CALL;
    /* its network is one of so many keys */
    r->is_refused |= u->op == UOP_SORT_AXIS && dim_is_expr(shape->d[1]);
    return g->failed
               ? &uop_failed
               : uop_new_shaped(g, u->op, u->dtype, arg, src, u->n_src, shape);
}

/* Makes the structure with its sizes as words in out->words. */
static bell_status
read_graph(struct reader *r, const struct uop *sink, struct rt_sized *out)
{
    const struct uop **list, **built;
    struct uop_graph *g = &out->words;
    union uop_arg none = {.bits = 0};
    bool is_good;
    size_t n, i;

    BELL_TRY(uop_canonical_order(sink, &list, &n));
    built = host_alloc(((size_t)sink->id + 1) * sizeof(*built));
    r->first = host_alloc(((size_t)sink->id + 1) * sizeof(*r->first));
    is_good = built && r->first;
    g->has_marks = r->rt->labels != NULL;
    for (i = 0; i + 1 < n && is_good; i++)
        built[list[i]->id] = read_node(r, g, list[i], built);
    for (i = 0; i < sink->n_src && is_good; i++)
        list[i] = built[sink->src[i]->id];
    if (is_good)
        out->sink = uop_new(g, UOP_SINK, UOP_VOID, 1, none, list, sink->n_src);
    host_free(list);
    host_free(built);
    host_free(r->first);
    if (!is_good)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    return uop_graph_status(g);
}

/* The elements of all nodes at n. */
static double
work_at(const struct rt_sized *sized, int64_t n)
{
    double work = 0, each;
    size_t i;
    uint32_t k;

    for (i = 0; i < sized->words.n_nodes; i++) {
        const struct uop_dims *shape = sized->words.shapes[i];

        for (each = 1, k = 0; shape && k < shape->n; k++)
            each *= (double)dim_value(sized->table, shape->d[k], &n);
        work += each;
    }
    return work;
}

/* Lowers the bound to one at which the work is little, or n at most twice what
 * it is now. */
static void
choose_bound(struct rt_sized *out, int64_t now)
{
    struct dim_symbol *n = &out->table->symbols[0];

    while (n->max / 2 >= 2 * now && work_at(out, n->max) > SMALL_WORK)
        n->max /= 2;
}

/* Begins the plan and its table, for what is read. */
static bell_status
begin_sized(const struct rt_form *form, struct rt_plan *plan,
            struct rt_sized *out)
{
    out->places = host_calloc(form->n_sizes + 1, sizeof(*out->places));
    out->table = host_alloc(sizeof(*out->table));
    plan->values = host_calloc(form->n_numbers + 1, sizeof(*plan->values));
    plan->steps = host_calloc(form->n_numbers + 1, sizeof(*plan->steps));
    if (out->table)
        dim_table_init(out->table);
    if (!out->places || !out->table || !plan->values || !plan->steps)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    return BELL_OK;
}

/* What the sizes are of n is known: reads the structure. */
static bell_status
read_sized(struct tensor_runtime *rt, const struct rt_form *form,
           struct rt_plan *plan, struct rt_sized *out)
{
    struct reader r = {.rt = rt, .sized = out};
    int64_t now = form->sizes[out->first];
    const struct dim_symbol *n = &out->table->symbols[0];

    if (dim_symbol(out->table, "n", 1,
                   GROWTH * now > ALWAYS ? GROWTH * now : ALWAYS) == DIM_BAD)
        return BELL_OK;
    out->key = key_of(rt, form);
    plan->values[form->n_numbers].bits = (uint64_t)now;
    BELL_TRY(rt_form_of(&rt->graphs, plan->sink, &rt->values, &out->form));
    BELL_TRY(read_graph(&r, plan->sink, out));
    if (!r.is_refused)
        choose_bound(out, now);
    plan->any_size = !r.is_refused && n->min <= now && now <= n->max;
    plan->symbols = plan->any_size;
    return BELL_OK;
}

bell_status
rt_sizes_build(struct tensor_runtime *rt, const struct rt_form *form,
               struct rt_plan *plan, struct rt_sized *out)
{
    const struct rt_plan *old = find_example(rt, form);
    struct rt_values values = {0};
    struct rt_form was = {0};
    bell_status status;
    bool reduces;

    BELL_TRY(reduces_floats(plan->sink, &reduces));
    if (!old || reduces)
        return BELL_OK;
    BELL_TRY(begin_sized(form, plan, out));
    values.list = old->values;
    values.n = old->n_values;
    status = rt_form_of(&rt->graphs, old->sink, &values, &was);
    if (status == BELL_OK && same_form(&was, form) &&
        fit_sizes(&was, form, out) && choose_numbers(rt, &was, form, old, plan))
        status = read_sized(rt, form, plan, out);
    rt_form_fini(&was);
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

void
rt_sizes_take_symbols(struct rt_plan *plan, const struct rt_value *values,
                      size_t n)
{
    uint32_t rest;

    n -= (size_t)__builtin_popcount(plan->symbols);
    for (rest = plan->symbols; rest; rest &= rest - 1)
        plan->counts->now[__builtin_ctz(rest)] = (int64_t)values[n++].bits;
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

bell_status
rt_sizes_place(struct rt_plan *plan)
{
    struct rt_counts *c = plan->counts;
    bell_status status = BELL_OK;
    bool grows = false;
    uint32_t s;

    for (s = 0; s < DIM_MAX_SYMBOLS; s++) {
        if (c->now[s] <= c->placed[s])
            continue;
        grows = true;
        c->placed[s] = c->now[s] + c->now[s] / 2;
        if (c->placed[s] > c->most[s])
            c->placed[s] = c->most[s];
    }
    if (grows) {
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

bell_status
rt_sizes_place_most(struct rt_plan *plan)
{
    struct rt_counts *c = plan->counts;

    assert(plan->symbols);
    memcpy(c->now, c->most, sizeof(c->now));
    BELL_TRY(rt_sizes_place(plan));
    return count_most_elems(plan);
}
