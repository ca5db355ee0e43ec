/* Forms of graphs, and plans for any size. */
#include "tensor/runtime/sizes.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tensor/core/node.h"
#include "tensor/runtime/rows.h"
#include "tensor/runtime/runtime.h"

/* guess: all of these, from what compiling and looking up cost here. */
#define MIN_EXAMPLES 1     /* plans of other sizes before one is for any, */
#define MIN_ROUNDED  2     /* where its sums have an order of their own, */
#define MORE         6     /* where kernels for one size are worth more */
#define MAX_SIZED    6     /* plans for any size of one form */
#define MOST         16384 /* that a size may be */
#define ALWAYS       2048  /* that it may be from the beginning */
#define LEAST        64
#define GROWTH       8 /* times what it is, at most */
#define MAX_TRIES    16
#define SMALL_WORK   4e6 /* elements computed: what is too much costs little */
#define FIRST_WORK   5e5 /* and where nothing says that the size will change */
#define MAX_WASTE    2.2 /* times the work, else */

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
rt_sized_fini(struct rt_sized *sized)
{
    rt_form_fini(&sized->form);
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

/* The n of the plan that gives these sizes, and the offsets, by number; -1:
 * none does. */
static int64_t
find_size(const struct rt_sized *sized, const struct rt_form *form,
          int64_t offsets[RT_MAX_OFFSETS])
{
    int64_t n = -1;
    size_t i;

    for (i = 0; i < form->n_sizes; i++) {
        const struct rt_extent *at = &sized->places[i];

        if (at->a == 1 && at->b == 0 && !at->offset && n < 0)
            n = form->sizes[i];
        if (at->a == 0 && at->offset)
            offsets[at->offset - 1] = form->sizes[i] - at->b;
    }
    for (i = 0; i < form->n_sizes; i++) {
        const struct rt_extent *at = &sized->places[i];
        int64_t by = at->offset ? offsets[at->offset - 1] : 0;

        if (form->sizes[i] != at->a * n + at->b + by)
            return -1;
    }
    return n >= sized->sizes.min[0] && n <= sized->sizes.max[0] ? n : -1;
}

/* The offset as a value of the plan. */
static struct rt_value
offset_value(const struct rt_plan *plan, const struct rt_sized *sized,
             uint32_t number, int64_t offset)
{
    struct rt_value v = plan->values[sized->form.n_numbers + 1 + number];

    v.bits = (uint64_t)offset;
    return v;
}

static bool
fits_offsets(const struct tensor_runtime *rt, const struct rt_plan *plan,
             const struct rt_sized *sized, const int64_t *offsets)
{
    size_t first = sized->form.n_numbers + 1;
    uint32_t i;

    for (i = 0; i < sized->n_offsets; i++) {
        struct rt_value v = offset_value(plan, sized, i, offsets[i]);

        if (!rt_vary_takes(rt, &v, plan->steps[first + i]))
            return false;
    }
    return true;
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

/* The values that were looked up become the numbers among them, n, and the
 * offsets. */
static bool
take_values(struct tensor_runtime *rt, const struct rt_sized *sized,
            const struct rt_form *form, int64_t n, const int64_t *offsets)
{
    struct rt_values *values = &rt->values;
    size_t i, k;

    if (host_grow((void **)&values->list, &values->cap,
                  form->n_numbers + 1 + sized->n_offsets,
                  sizeof(*values->list)) != 0)
        return false;
    for (i = 0; i < form->n_numbers; i++) {
        assert(form->numbers[i] >= i); /* by first use */
        values->list[i] = values->list[form->numbers[i]];
    }
    values->list[i++] = (struct rt_value){.bits = (uint64_t)n};
    for (k = 0; k < sized->n_offsets; k++)
        values->list[i++] = offset_value(&rt->plans[sized->plan], sized,
                                         (uint32_t)k, offsets[k]);
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
        int64_t n, offsets[RT_MAX_OFFSETS];

        if (sized->key != key || !same_form(&sized->form, form))
            continue;
        n = find_size(sized, form, offsets);
        if (n < 0 || !fits_numbers(rt, plan, form) ||
            !fits_offsets(rt, plan, sized, offsets))
            continue;
        if (!take_values(rt, sized, form, n, offsets))
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for values");
        plan->counts->now[0] = n;
        *out_plan = sized->plan;
        return rt_sizes_place(plan);
    }
    return BELL_OK;
}

/* ---- making one ---- */

/* Another plan of the form, the newest; *out_n: how many there are, and how
 * many for any size. */
static const struct rt_plan *
find_example(const struct tensor_runtime *rt, const struct rt_form *form,
             uint32_t *out_n, uint32_t *out_n_sized)
{
    const struct rt_plan *found = NULL;
    size_t i;

    *out_n = *out_n_sized = 0;
    for (i = 0; i < rt->n_plans; i++) {
        const struct rt_plan *plan = &rt->plans[i];

        if (plan->ops_hash != form->hash)
            continue;
        *out_n_sized += plan->any_size;
        if (plan->any_size || plan->next != RT_NO_PLAN)
            continue;
        ++*out_n;
        found = plan;
    }
    return found;
}

/* Fills in what each size is of n, from two examples: false where that is not
 * a * n + b. */
static bool
fit_sizes(const struct rt_form *was, const struct rt_form *is,
          struct rt_extent *places, int64_t *out_n)
{
    int64_t v1 = 0, v2 = 0;
    size_t i;

    for (i = 0; i < is->n_sizes && v1 == v2; i++) {
        v1 = was->sizes[i];
        v2 = is->sizes[i];
    }
    for (i = 0; i < is->n_sizes && v1 != v2; i++) {
        int64_t x1 = was->sizes[i], x2 = is->sizes[i];
        struct rt_extent *at = &places[i];

        at->a = (x2 - x1) / (v2 - v1);
        at->b = x1 - at->a * v1;
        if ((x2 - x1) % (v2 - v1) || x1 < 0)
            return false;
    }
    *out_n = v2;
    return v1 != v2;
}

/* a * n + b of the plan's table. */
static int64_t
extent_dim(const struct rt_sized *sized, const struct rt_extent *at)
{
    struct dim_table *t = sized->table;

    return dim_add(t, dim_mul(t, at->a, t->symbols[0].dim), at->b);
}

/* Adds what varies to those of the graph, with its number at n; false: there
 * are too many, or another has that number, or it is none of a size. */
static bool
add_sizes(struct rt_sized *sized, int64_t n)
{
    const struct rt_extent *places = sized->places;
    struct sched_sizes *sizes = &sized->sizes;
    size_t n_sizes = sized->form.n_sizes, i;
    uint32_t k;

    sizes->n = 0;
    for (i = 0; i < n_sizes; i++) {
        struct sched_size at = {places[i].a * n + places[i].b, 0};

        if (!places[i].a)
            continue;
        at.dim = extent_dim(sized, &places[i]);
        for (k = 0; k < sizes->n && sizes->list[k].d != at.d; k++)
            ;
        if (k < sizes->n && sizes->list[k].dim != at.dim)
            return false;
        if (at.d < 2 || at.dim == DIM_BAD ||
            (k == sizes->n && k == sizeof(sizes->list) / sizeof(at)))
            return false;
        if (k == sizes->n)
            sizes->list[sizes->n++] = at;
    }
    for (i = 0; i < n_sizes; i++) {
        for (k = 0; !places[i].a && k < sizes->n; k++) {
            if (sizes->list[k].d == places[i].b)
                return false;
        }
    }
    return true;
}

/* The table of a plan for any size. */
static bell_status
begin_table(struct rt_sized *out)
{
    out->table = host_alloc(sizeof(*out->table));
    if (!out->table)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    dim_table_init(out->table);
    if (dim_symbol(out->table, "n", 1, 2 * MOST) == DIM_BAD)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    out->sizes.table = out->table;
    return BELL_OK;
}

/* A graph being read in the order of its form. */
struct reader {
    struct tensor_runtime *rt;
    const struct rt_plan *plan;
    const struct rt_sized *sized;
    int64_t n;       /* that sizes are given for */
    size_t at, nth;  /* size, number */
    int64_t most;    /* that n can be */
    size_t *first;   /* by id: the first of its sizes */
    bool is_refused; /* no such graph for any size */
    double work;
};

/* a * n + b is not to be more than c * n + d: lowers what n can be. */
static void
limit(struct reader *r, int64_t a, int64_t b, int64_t c, int64_t d)
{
    if (a > c && (d - b) / (a - c) < r->most)
        r->most = (d - b) / (a - c);
}

static int64_t
next_size(struct reader *r)
{
    const struct rt_extent *at = &r->sized->places[r->at++];

    limit(r, -at->a, -at->b, 0, -2); /* at least 2 */
    return at->a * r->n + at->b;
}

static const struct uop_dims *
next_dims(struct reader *r, struct uop_graph *g, uint32_t n)
{
    int64_t d[TN_MAX_RANK];
    uint32_t i;

    assert(n <= TN_MAX_RANK);
    for (i = 0; i < n; i++)
        d[i] = next_size(r);
    return uop_dims(g, d, n);
}

/* A slice ends in what it is taken from. */
static void
limit_slice(struct reader *r, const struct uop *u, uint32_t n)
{
    const struct rt_extent *from = &r->sized->places[r->first[u->src[0]->id]];
    const struct rt_extent *ends = &r->sized->places[r->at];
    uint32_t i;

    for (i = 0; i < n; i++)
        limit(r, ends[2 * i + 1].a, ends[2 * i + 1].b, from[i].a, from[i].b);
}

/* Begins and ends, and which offsets are added to them. */
static const struct uop_dims *
next_move(struct reader *r, struct uop_graph *g, uint32_t rank)
{
    const struct rt_extent *places = &r->sized->places[r->at];
    size_t first = r->sized->form.n_numbers + 1;
    int64_t d[4 * TN_MAX_RANK] = {0};
    bool varies = false;
    uint32_t i;

    for (i = 0; i < 2 * rank; i++)
        d[i] = next_size(r);
    for (i = 0; i < rank; i++) {
        size_t value = first + places[2 * i].offset - 1;

        if (!places[2 * i].offset)
            continue;
        d[2 * (rank + i)] = 1 + (int64_t)value;
        d[2 * (rank + i) + 1] = (int64_t)1 << (r->plan->steps[value] - 1);
        varies = true;
    }
    return uop_dims(g, d, varies ? 4 * rank : 2 * rank);
}

static double
numel(const struct uop_dims *dims)
{
    double n = 1;
    uint32_t i;

    for (i = 0; i < dims->n; i++)
        n *= (double)dims->d[i];
    return n;
}

static const struct uop *
read_node(struct reader *r, struct uop_graph *g, const struct uop *u,
          const struct uop *const *built)
{
    const struct uop_dims *shape = uop_shape(&r->rt->graphs, u);
    const struct uop *src[UOP_MAX_CALL_SRC];
    union uop_arg arg = u->arg;
    enum uop_op op = u->op;
    int64_t d[TN_MAX_RANK + 1];
    uint32_t i, n = shape->n, n_varying = 0;

    for (i = 0; i < u->n_src && i < UOP_MAX_CALL_SRC; i++)
        src[i] = built[u->src[i]->id];
    r->first[u->id] = r->at;
    for (i = 0; i < n; i++)
        n_varying += r->sized->places[r->at + i].a != 0;
    r->is_refused |= n_varying > 2; /* sched_count */
    shape = next_dims(r, g, n);
    if (!shape || g->failed)
        return &uop_failed;
    r->work += numel(shape);
    if (op == UOP_VAR) {
        arg.i = (int64_t)r->nth++;
        if (!r->plan->steps[arg.i]) {
            op = UOP_CONST;
            arg.bits = r->plan->values[arg.i].bits;
        }
    } else if (op == UOP_PAD || op == UOP_SHRINK) {
        if (op == UOP_SHRINK)
            limit_slice(r, u, n);
        arg.dims = next_move(r, g, n);
    } else if (op == UOP_IOTA) {
        arg.i = shape->d[0];
    } else if (op == UOP_RESHAPE || op == UOP_EXPAND) {
        arg.dims = shape;
        r->is_refused |=
            op == UOP_RESHAPE && numel(uop_shape(g, src[0])) != numel(shape);
    } else if (op == UOP_BUFFER) {
        d[0] = arg.dims->d[0];
        memcpy(d + 1, shape->d, n * sizeof(*d));
        arg.dims = uop_dims(g, d, n + 1);
    } else if (uop_op_infos[op].arg_kind == UOP_ARG_DIMS) {
        arg.dims = uop_dims(g, arg.dims->d, arg.dims->n);
    }
    r->is_refused |= op == UOP_ASSIGN || op == UOP_CALL;
    /* its network is one of so many keys */
    r->is_refused |=
        op == UOP_SORT_AXIS && r->sized->places[r->first[u->id] + 1].a != 0;
    return g->failed
               ? &uop_failed
               : uop_new_shaped(g, op, u->dtype, arg, src, u->n_src, shape);
}

/* The graph with r->n for n. */
static bell_status
read_graph(struct reader *r, struct uop_graph *g, const struct uop **roots)
{
    const struct uop *sink = r->plan->sink, **list, **built;
    uint32_t n_roots = sink->n_src;
    bool is_good;
    size_t n, i;

    BELL_TRY(uop_canonical_order(sink, &list, &n));
    built = host_alloc(((size_t)sink->id + 1) * sizeof(*built));
    r->first = host_alloc(((size_t)sink->id + 1) * sizeof(*r->first));
    is_good = built && r->first;
    g->has_marks = r->rt->labels != NULL;
    for (i = 0; i + 1 < n && is_good; i++) {
        g->mark = (uint32_t)i + 1; /* named.h */
        built[list[i]->id] = read_node(r, g, list[i], built);
    }
    for (i = 0; i < n_roots && is_good; i++)
        roots[i] = built[sink->src[n_roots - 1 - i]->id];
    host_free(list);
    host_free(built);
    host_free(r->first);
    if (!is_good)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    return uop_graph_status(g);
}

/* Does the order in which something adds up show? *out_rounds says it. */
static bell_status
find_rounding(const struct uop *sink, bool *out_rounds)
{
    const struct uop **list;
    size_t n, i;

    BELL_TRY(uop_canonical_order(sink, &list, &n));
    *out_rounds = false;
    for (i = 0; i < n; i++) {
        const struct uop *u = list[i];

        *out_rounds |=
            u->op == UOP_SCAN || (u->op == UOP_REDUCE_AXIS && uop_is_float(u) &&
                                  uop_reduce_op(u) != UOP_MAX);
    }
    host_free(list);
    return BELL_OK;
}

/* The plan's values, from those looked up: numbers that are arguments of `old`
 * or differ from its are arguments. False where one of them may not be. */
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

/* The least n for which all sizes are more than one: one is another graph. */
static int64_t
least_size(const struct rt_sized *sized)
{
    int64_t least = 2;
    size_t i;

    for (i = 0; i < sized->form.n_sizes; i++) {
        const struct rt_extent *at = &sized->places[i];

        while (at->a > 0 && at->a * least + at->b < 2)
            least++;
    }
    return least;
}

/* The greatest prime up to n; 0: there is none. */
static int64_t
prime_below(int64_t n)
{
    int64_t k;

    for (; n > 1; n--) {
        for (k = 2; k * k <= n && n % k; k++)
            ;
        if (k * k > n)
            return n;
    }
    return 0;
}

/* The number for n, up to `most`: no product of other sizes is a prime, but
 * they may be one. 0: there is none. */
static int64_t
choose_bound(struct rt_sized *out, int64_t most)
{
    int64_t n = prime_below(most);
    uint32_t tries;

    for (tries = 0; n && tries < MAX_TRIES; tries++) {
        if (add_sizes(out, n))
            return n;
        n = prime_below(n - 1);
    }
    return 0;
}

/* The same, from `least` on. */
static int64_t
choose_beyond(struct rt_sized *out, int64_t least)
{
    int64_t n = least;
    uint32_t tries = 0;

    while (++n < 2 * MOST && tries < MAX_TRIES) {
        if (prime_below(n) != n)
            continue;
        tries++;
        if (add_sizes(out, n))
            return n;
    }
    return 0;
}

/* Builds the graph at the greatest bound at which it does not cost much more
 * than it does now. */
static bell_status
build_bounded(struct reader *r, struct rt_sized *out, int64_t now,
              uint32_t n_examples, struct uop_graph *g,
              const struct uop **roots)
{
    int64_t bound, most;
    double work;

    r->n = now;
    r->most = MOST;
    BELL_TRY(read_graph(r, g, roots));
    work = r->work;
    most = r->most;
    for (bound = MOST; bound >= LEAST && !r->is_refused; bound /= 2) {
        if (bound > ALWAYS && bound > GROWTH * now)
            continue;
        r->n = choose_bound(out, bound < most ? bound : most);
        if (r->n < now)
            break;
        uop_graph_fini(g);
        uop_graph_init(g);
        r->at = r->nth = 0;
        r->work = 0;
        BELL_TRY(read_graph(r, g, roots));
        if (r->work > SMALL_WORK &&
            (r->work > MAX_WASTE * work || n_examples < MORE))
            continue;
        out->sizes.max[0] = r->n;
        out->sizes.min[0] = least_size(out);
        if (out->sizes.min[0] <= now && !r->is_refused)
            return BELL_OK;
    }
    out->sizes.n = 0;
    return BELL_OK;
}

bell_status
rt_sizes_build(struct tensor_runtime *rt, const struct rt_form *form,
               struct rt_plan *plan, struct uop_graph *g,
               const struct uop **roots, struct rt_sized *out)
{
    uint32_t n_examples, n_sized;
    const struct rt_plan *old = find_example(rt, form, &n_examples, &n_sized);
    struct reader r = {.rt = rt, .plan = plan, .sized = out};
    struct rt_values values = {0};
    struct rt_form was = {0}, is = {0};
    bell_status status = BELL_OK;
    int64_t now = 0;
    bool rounds;

    memset(out, 0, sizeof(*out));
    BELL_TRY(find_rounding(plan->sink, &rounds));
    if (n_examples < (rounds ? MIN_ROUNDED : MIN_EXAMPLES) ||
        n_sized >= MAX_SIZED)
        return BELL_OK;
    values.list = old->values;
    values.n = old->n_values;
    out->places = host_calloc(form->n_sizes + 1, sizeof(*out->places));
    plan->values = host_calloc(form->n_numbers + 1, sizeof(*plan->values));
    plan->steps = host_calloc(form->n_numbers + 1, sizeof(*plan->steps));
    if (!out->places || !plan->values || !plan->steps)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    status = rt_form_of(&rt->graphs, old->sink, &values, &was);
    if (status == BELL_OK && same_form(&was, form) &&
        fit_sizes(&was, form, out->places, &now) &&
        choose_numbers(rt, &was, form, old, plan)) {
        status = rt_form_of(&rt->graphs, plan->sink, &rt->values, &is);
        out->form = is;
        out->key = key_of(rt, form);
        out->sizes.vars[0] = (int64_t)form->n_numbers;
        if (status == BELL_OK)
            status = begin_table(out);
        if (status == BELL_OK)
            status = build_bounded(&r, out, now, n_examples, g, roots);
    }
    rt_form_fini(&was);
    if (status != BELL_OK || !out->sizes.n)
        return status;
    plan->values[form->n_numbers] = (struct rt_value){.bits = (uint64_t)now};
    plan->any_size = true;
    BELL_TRY(rt_sizes_count(plan, &out->sizes));
    plan->counts->now[0] = now;
    return rt_sizes_take(rt, plan);
}

bell_status
rt_sizes_take(struct tensor_runtime *rt, const struct rt_plan *plan)
{
    struct rt_values *values = &rt->values;

    if (host_grow((void **)&values->list, &values->cap, plan->n_values,
                  sizeof(*values->list)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for values");
    memcpy(values->list, plan->values, plan->n_values * sizeof(*values->list));
    values->n = plan->n_values;
    return BELL_OK;
}

/* ---- at once ---- */

static bool
is_first(const struct tensor_runtime *rt, const struct rt_sized *sized)
{
    size_t i;

    for (i = 0; i < rt->n_sized; i++) {
        if (rt->sized[i].key == sized->key &&
            same_form(&rt->sized[i].form, &sized->form))
            return false;
    }
    return true;
}

/* Is a number of the plan, which has it as it is, likely one of its size? */
static bool
has_size_as_number(const struct rt_plan *plan, size_t n_numbers, int64_t size)
{
    size_t i;

    for (i = 0; i < n_numbers; i++) {
        const struct rt_value *v = &plan->values[i];
        int64_t above = (int64_t)v->bits - size;

        if (!plan->steps[i] && rt_vary_may(v) &&
            !uop_dtype_infos[v->dtype].is_float && above >= -1 && above <= 1)
            return true;
    }
    return false;
}

/* Sizes have a number that is more than the bound, so that all up to it are
 * told from it; also where that is all rows of a tensor. */
static bell_status
build_first(struct reader *r, struct rt_sized *out, int64_t now,
            struct uop_graph *g, const struct uop **roots)
{
    int64_t bound, most;

    r->n = now;
    r->most = ALWAYS;
    BELL_TRY(read_graph(r, g, roots));
    most = r->most;
    for (bound = ALWAYS; bound >= LEAST && !r->is_refused; bound /= 2) {
        out->sizes.max[0] = bound < most ? bound : most;
        r->n = choose_beyond(out, out->sizes.max[0]);
        if (r->n == 0 || out->sizes.max[0] < now)
            break;
        uop_graph_fini(g);
        uop_graph_init(g);
        r->at = r->nth = 0;
        r->work = 0;
        BELL_TRY(read_graph(r, g, roots));
        if (r->work > FIRST_WORK)
            continue;
        out->sizes.min[0] = 1;
        out->sizes.is_beyond = true;
        if (!r->is_refused)
            return BELL_OK;
    }
    out->sizes.n = 0;
    return BELL_OK;
}

bell_status
rt_sizes_guess(struct tensor_runtime *rt, const struct rt_plan *first,
               struct rt_plan *plan, struct uop_graph *g,
               const struct uop **roots, struct rt_sized *out)
{
    struct reader r = {.rt = rt, .plan = plan, .sized = out};
    uint32_t offsets[RT_MAX_OFFSETS];
    int64_t now;
    bool rounds;
    size_t n, i;

    memset(out, 0, sizeof(*out));
    BELL_TRY(find_rounding(first->sink, &rounds));
    if (rounds)
        return BELL_OK;
    BELL_TRY(rt_form_of(&rt->graphs, first->sink, &rt->values, &out->form));
    n = out->form.n_numbers;
    out->key = key_of(rt, &out->form);
    out->places = host_calloc(out->form.n_sizes + 1, sizeof(*out->places));
    plan->values = host_calloc(n + 1 + RT_MAX_OFFSETS, sizeof(*plan->values));
    plan->steps = host_calloc(n + 1 + RT_MAX_OFFSETS, sizeof(*plan->steps));
    if (!out->places || !plan->values || !plan->steps)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    BELL_TRY(
        rt_rows_find(rt, first, out->places, offsets, &out->n_offsets, &now));
    if (!out->n_offsets)
        return BELL_OK;
    plan->n_values = (uint32_t)n + 1 + out->n_offsets;
    for (i = 0; i < n; i++) {
        plan->values[i] = first->values[out->form.numbers[i]];
        plan->steps[i] = first->steps[out->form.numbers[i]];
    }
    plan->values[n] = (struct rt_value){.bits = (uint64_t)now};
    plan->steps[n] = 1;
    for (i = 0; i < out->n_offsets; i++) {
        plan->values[n + 1 + i] = first->values[offsets[i]];
        plan->steps[n + 1 + i] = first->steps[offsets[i]];
    }
    out->sizes.vars[0] = (int64_t)n;
    BELL_TRY(begin_table(out));
    if (is_first(rt, out) && !has_size_as_number(plan, n, now))
        BELL_TRY(build_first(&r, out, now, g, roots));
    plan->any_size = out->sizes.n != 0;
    if (!plan->any_size)
        return BELL_OK;
    BELL_TRY(rt_sizes_count(plan, &out->sizes));
    plan->counts->now[0] = now;
    return BELL_OK;
}

/* ---- memory ---- */

bell_status
rt_sizes_count(struct rt_plan *plan, const struct sched_sizes *sizes)
{
    struct rt_counts *c = host_calloc(1, sizeof(*c));

    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    c->table = sizes->table;
    memcpy(c->least, sizes->min, sizeof(c->least));
    memcpy(c->most, sizes->max, sizeof(c->most));
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
        if (plan->symbols && c->placed[s] > c->most[s])
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
