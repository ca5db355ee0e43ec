/* Several outputs of one kernel.
 *
 * Two kernels may be in the same loops, or one in the outer loops of the other.
 * Then the second may read a value of the first just where that is made, or
 * both may read the same: they become one, which stores both values. A value
 * that nobody else reads is not stored any more. Products stay alone: their
 * tiles want all registers.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define LOOK_BACK 32 /* kernels before it that one may be joined with */
#define MAX_LOADS 64 /* of a kernel that may be joined */
#define MAX_NODES 400
/* Steps of two kernels together: shared by the threads of some work-groups they
 * take less time than a launch (0.8 us on an H100, docs/explanation/nvidia.md).
 * guess */
#define FEW_STEPS 16384

/* A kernel of the plan. */
struct join_part {
    struct sched_item *item;     /* sink NULL: joined with another */
    const struct uop *loops[64]; /* by id */
    uint32_t n_loops;
    const struct uop *reduces[64]; /* by id */
    uint32_t n_reduces;
    const struct uop *loads[MAX_LOADS];
    uint32_t n_loads, n_nodes;
    double n_outputs, length; /* of its reductions */
    bool fixed;               /* is to stay as it is */
};

struct joiner {
    struct sched *s;
    struct sched_plan *plan;
    struct join_part *parts; /* by item */
    uint32_t *n_readers;     /* by buffer: kernels that read it */
    uint32_t *writer;        /* by buffer: item, or SCHED_NONE */
};

static uint32_t
buf_of(const struct join_part *part, const struct uop *param)
{
    assert(param->op == UOP_PARAM);
    return part->item->bufs[param->arg.i];
}

/* Do two LOADs under the REDUCE each vary with what the other does not? */
static bool
is_product_of(struct sched *s, const struct join_part *part)
{
    uint64_t bound = 0, a, b;
    uint32_t i, j;

    for (i = 0; i < part->n_reduces; i++)
        bound |= sched_mask(s, part->reduces[i]);
    for (i = 0; i < part->n_loads; i++) {
        a = sched_mask(s, part->loads[i]->src[1]);
        for (j = 0; a & bound && j < i; j++) {
            b = sched_mask(s, part->loads[j]->src[1]);
            if (a & b & bound && a & ~b && b & ~a)
                return true;
        }
    }
    return false;
}

/* That it has, or has at most. */
static double
range_size(const struct joiner *j, const struct uop *range)
{
    return (double)uop_bounds(j->s->k, range->src[0]).max;
}

static void
note_node(const struct joiner *j, struct join_part *part, const struct uop *u)
{
    uint32_t at;

    if (u->op == UOP_RANGE && uop_range_axis(u) == UOP_AXIS_LOOP) {
        part->loops[uop_range_id(u)] = u;
        part->n_loops++;
        part->n_outputs *= range_size(j, u);
    } else if (u->op == UOP_RANGE) {
        for (at = part->n_reduces++;
             at && part->reduces[at - 1]->arg.i > u->arg.i; at--)
            part->reduces[at] = part->reduces[at - 1];
        part->reduces[at] = u;
        part->length *= range_size(j, u);
    } else if (u->op == UOP_LOAD) {
        if (part->n_loads < MAX_LOADS)
            part->loads[part->n_loads++] = u;
        else
            part->fixed = true;
    } else if (u->op == UOP_SORT) {
        part->fixed = true; /* lower/scan/order.h */
    }
}

static bell_status
look_at(struct joiner *j, uint32_t at)
{
    struct join_part *part = &j->parts[at];
    const struct uop **list;
    size_t n, i;

    assert(at < j->plan->n_items);
    memset(part, 0, sizeof(*part));
    part->item = &j->plan->items[at];
    part->n_outputs = part->length = 1;
    BELL_TRY(uop_toposort(j->s->k, &part->item->sink, 1, &list, &n));
    part->n_nodes = (uint32_t)n;
    for (i = 0; i < n; i++)
        note_node(j, part, list[i]);
    host_free(list);
    part->fixed |= part->item->sink->n_src > part->item->n_outs;
    part->fixed |= part->n_nodes > MAX_NODES || part->n_loops == 0 ||
                   is_product_of(j->s, part);
    return BELL_OK;
}

static const struct uop *
store_of(const struct join_part *part, uint32_t buf)
{
    const struct uop *sink = part->item->sink;
    uint32_t i;

    for (i = 0; i < sink->n_src; i++) {
        if (buf_of(part, sink->src[i]->src[0]) == buf)
            return sink->src[i];
    }
    return NULL;
}

/* Are the loops of `a` the outer ones of b's? */
static bool
is_around(const struct join_part *a, const struct join_part *b)
{
    return a->n_loops <= b->n_loops &&
           memcmp(a->loops, b->loops, a->n_loops * sizeof(a->loops[0])) == 0;
}

/* Would b, which comes later, gain by a's values or loads at hand? */
static bool
gains(const struct joiner *j, uint32_t a, uint32_t b)
{
    const struct join_part *pa = &j->parts[a], *pb = &j->parts[b];
    bool reads = false, shares = false;
    uint32_t i, k;

    for (i = 0; i < pb->n_loads; i++) {
        const struct uop *load = pb->loads[i], *store;
        uint32_t buf = buf_of(pb, load->src[0]);
        if (j->writer[buf] == a) {
            store = store_of(pa, buf);
            if (!store || store->src[1] != load->src[1] || load->n_src != 2)
                return false;
            reads = true;
        }
        for (k = 0; k < pa->n_loads && !shares; k++)
            shares = pa->loads[k]->src[1] == load->src[1] &&
                     sched_mask(j->s, load->src[1]) &&
                     buf_of(pa, pa->loads[k]->src[0]) == buf;
    }
    return reads || (shares && pa->n_loops == pb->n_loops);
}

static bool
fits_together(const struct joiner *j, uint32_t a, uint32_t b)
{
    const struct join_part *pa = &j->parts[a], *pb = &j->parts[b], *few, *all;

    assert(a < b && b < j->plan->n_items);
    if (pa->fixed || pb->fixed ||
        pa->n_loops + pb->n_loops + pa->n_reduces + pb->n_reduces >
            SCHED_MAX_RANGES ||
        pa->n_nodes + pb->n_nodes > MAX_NODES ||
        pa->item->n_bufs + pb->item->n_bufs > SCHED_MAX_LEAVES)
        return false;
    few = is_around(pa, pb) ? pa : pb;
    all = few == pa ? pb : pa;
    if (!is_around(few, all) || !gains(j, a, b))
        return false;
    return few->n_loops == all->n_loops || !few->n_reduces ||
           all->n_outputs * all->length + few->n_outputs * few->length <
               FEW_STEPS ||
           !sched_too_few(j->s->target, few->n_outputs, few->length, true);
}

/* Does a kernel between them read what `a` makes? */
static bool
is_read_between(const struct joiner *j, uint32_t a, uint32_t b)
{
    uint32_t i, k;

    for (i = a + 1; i < b; i++) {
        const struct sched_item *item = &j->plan->items[i];
        for (k = 0; item->sink && k < item->n_bufs; k++) {
            if (j->writer[item->bufs[k]] == a)
                return true;
        }
    }
    return false;
}

/* Does a kernel behind `a` make what b reads? */
static bool
is_made_between(const struct joiner *j, uint32_t a, uint32_t b)
{
    const struct sched_item *item = &j->plan->items[b];
    uint32_t k, writer;

    for (k = item->n_outs; k < item->n_bufs; k++) {
        writer = j->writer[item->bufs[k]];
        if (writer != SCHED_NONE && writer > a)
            return true;
    }
    return false;
}

/* ---- the kernel of both ---- */

#define MAX_PAIRS (64 + 2 * MAX_LOADS)

struct join {
    struct joiner *j;
    uint32_t bufs[2 * SCHED_MAX_LEAVES], n_bufs, n_outs;
    uint32_t n_ranges;                   /* ids given */
    const struct uop *stores[MAX_LOADS]; /* of the first, then the second */
    uint32_t n_stores;
    const struct uop *from[MAX_PAIRS], *to[MAX_PAIRS];
    size_t n_pairs;
};

static uint32_t
join_slot(struct join *n, uint32_t buf)
{
    uint32_t i = 0;

    while (i < n->n_bufs && n->bufs[i] != buf)
        i++;
    if (i == n->n_bufs)
        n->bufs[n->n_bufs++] = buf;
    return i;
}

static void
replace(struct join *n, const struct uop *from, const struct uop *to)
{
    n->from[n->n_pairs] = from;
    n->to[n->n_pairs++] = to;
}

/* PARAM `slot` of the part becomes the joined kernel's. */
static void
replace_param(struct join *n, const struct join_part *part, uint32_t slot)
{
    uint32_t buf = part->item->bufs[slot];
    enum uop_dtype dtype = n->j->plan->bufs[buf].dtype;
    union uop_arg from = {.i = slot}, to = {.i = join_slot(n, buf)};

    replace(n, uop_new(n->j->s->k, UOP_PARAM, dtype, 1, from, NULL, 0),
            uop_new(n->j->s->k, UOP_PARAM, dtype, 1, to, NULL, 0));
}

/* Does anybody but kernel b read it? */
static bool
is_needed(const struct joiner *j, uint32_t buf, uint32_t b)
{
    const struct sched_item *item = &j->plan->items[b];
    uint32_t k, others = j->n_readers[buf];

    for (k = item->n_outs; k < item->n_bufs; k++)
        others -= item->bufs[k] == buf;
    return j->plan->bufs[buf].root >= 0 || others > 0;
}

/* The stores of the part, in the joined kernel's ranges and slots; what it
 * loads of `first`, where that is not NULL, is at hand. */
static bell_status
add_part(struct join *n, uint32_t at, const struct join_part *first)
{
    struct uop_graph *k = n->j->s->k;
    const struct join_part *part = &n->j->parts[at];
    const struct uop *sink = part->item->sink, *store;
    const struct uop **stores = n->stores + n->n_stores;
    union uop_arg arg;
    uint32_t i, s, buf;

    n->n_pairs = 0;
    for (i = 0; i < part->n_reduces; i++) {
        arg.i = uop_range_arg(n->n_ranges++, UOP_AXIS_REDUCE);
        replace(
            n, part->reduces[i],
            uop_new(k, UOP_RANGE, UOP_I64, 1, arg, part->reduces[i]->src, 1));
    }
    for (i = 0; i < part->item->n_bufs; i++) {
        buf = part->item->bufs[i];
        for (s = 0; s < n->n_outs && n->bufs[s] != buf; s++)
            ;
        if (i >= part->item->n_outs ? !first || !store_of(first, buf)
                                    : s < n->n_outs)
            replace_param(n, part, i);
    }
    for (i = 0; i < part->n_loads && first; i++) {
        store = store_of(first, buf_of(part, part->loads[i]->src[0]));
        for (s = 0; store && first->item->sink->src[s] != store; s++)
            ;
        if (store)
            replace(n, part->loads[i], n->stores[s]->src[2]);
    }
    for (i = 0; i < sink->n_src; i++)
        n->stores[n->n_stores++] = sink->src[i];
    return uop_substitute(k, stores, sink->n_src, n->from, n->to, n->n_pairs);
}

/* Makes kernel b, which comes later, that of both. */
static bell_status
join_kernels(struct joiner *j, uint32_t a, uint32_t b)
{
    struct sched_item *ia = &j->plan->items[a], *ib = &j->plan->items[b];
    const struct join_part *pa = &j->parts[a], *pb = &j->parts[b];
    union uop_arg none = {.bits = 0};
    struct join n = {.j = j};
    uint32_t i, kept = 0;

    assert(a < b);
    n.n_ranges = pa->n_loops > pb->n_loops ? pa->n_loops : pb->n_loops;
    for (i = 0; i < ia->n_outs; i++) {
        if (is_needed(j, ia->bufs[i], b))
            join_slot(&n, ia->bufs[i]);
    }
    for (i = 0; i < ib->n_outs; i++)
        join_slot(&n, ib->bufs[i]);
    n.n_outs = n.n_bufs;
    BELL_TRY(add_part(&n, a, NULL));
    BELL_TRY(add_part(&n, b, pa));
    for (i = 0; i < n.n_stores; i++) {
        bool of_a = i < ia->sink->n_src;
        if (!of_a || is_needed(j, buf_of(pa, ia->sink->src[i]->src[0]), b))
            n.stores[kept++] = n.stores[i];
    }
    for (i = ia->n_outs; i < ia->n_bufs; i++)
        j->n_readers[ia->bufs[i]]--;
    for (i = ib->n_outs; i < ib->n_bufs; i++)
        j->n_readers[ib->bufs[i]]--;
    for (i = n.n_outs; i < n.n_bufs; i++)
        j->n_readers[n.bufs[i]]++;
    ia->sink = NULL;
    ib->sink = uop_new(j->s->k, UOP_SINK, UOP_VOID, 1, none, n.stores, kept);
    ib->n_outs = n.n_outs;
    ib->n_bufs = n.n_bufs;
    ib->bufs =
        arena_copy(&j->s->k->arena, n.bufs, n.n_bufs * sizeof(n.bufs[0]));
    BELL_TRY(uop_graph_status(j->s->k));
    return ib->bufs ? BELL_OK : sched_no_memory(j->s);
}

/* Sets who writes the kernel's values. */
static void
note_writer(struct joiner *j, uint32_t at)
{
    const struct sched_item *item = &j->plan->items[at];
    uint32_t i;

    for (i = 0; i < item->n_outs; i++)
        j->writer[item->bufs[i]] = at;
}

/* Kernel b and those before it that it can be joined with. */
static bell_status
join_before(struct joiner *j, uint32_t b)
{
    struct sched_item *items = j->plan->items;
    uint32_t a = b, tried = 0;

    while (a-- > 0 && tried++ < LOOK_BACK && !j->parts[b].fixed) {
        bool later;
        if (!items[a].sink || !fits_together(j, a, b))
            continue;
        later = !is_read_between(j, a, b);
        if (!later && is_made_between(j, a, b))
            continue;
        BELL_TRY(join_kernels(j, a, b));
        if (!later) {
            items[a] = items[b];
            items[b].sink = NULL;
            b = a;
        }
        note_writer(j, b);
        BELL_TRY(look_at(j, b));
    }
    return BELL_OK;
}

static bell_status
join_all(struct joiner *j, const bool *fixed)
{
    struct sched_plan *plan = j->plan;
    uint32_t i, k, n = 0;

    for (i = 0; i < plan->n_items; i++) {
        BELL_TRY(look_at(j, i));
        j->parts[i].fixed |= fixed[i];
        note_writer(j, i);
        for (k = plan->items[i].n_outs; k < plan->items[i].n_bufs; k++)
            j->n_readers[plan->items[i].bufs[k]]++;
    }
    for (i = 0; i < plan->n_items; i++)
        BELL_TRY(join_before(j, i));
    for (i = 0; i < plan->n_items; i++) {
        if (plan->items[i].sink)
            plan->items[n++] = plan->items[i];
    }
    plan->n_items = n;
    return BELL_OK;
}

bell_status
sched_join(struct sched *s, struct sched_plan *plan, const bool *fixed)
{
    struct joiner j = {.s = s, .plan = plan};

    if (plan->n_items < 2)
        return BELL_OK;
    j.parts = arena_calloc(&s->scratch, plan->n_items + 1, sizeof(*j.parts));
    j.n_readers =
        arena_calloc(&s->scratch, plan->n_bufs + 1, sizeof(*j.n_readers));
    j.writer = sched_numbers(s, plan->n_bufs);
    return j.parts && j.n_readers && j.writer ? join_all(&j, fixed)
                                              : sched_no_memory(s);
}
