/* Outputs of kernels in the memory of what they read: how a kernel uses it. */
#include "lower/schedule/overwrite.h"

#include <assert.h>

#include "base/alloc.h"

/* How a node's value is used. */
#define OWN   1u /* by what is stored in `out` */
#define SURE  2u /* so that it cannot be left out */
#define OTHER 4u /* by something else, too */

/* A kernel that is looked at. */
struct look {
    const struct uop **list; /* sources first */
    size_t n;
    uint32_t *pos;   /* by id, from first_id: place in list */
    uint64_t *loops; /* by place: output RANGEs that it varies with */
    uint8_t *uses;   /* by place */
    uint32_t first_id;
};

static void
fini_look(struct look *l)
{
    host_free(l->list);
    host_free(l->pos);
    host_free(l->loops);
    host_free(l->uses);
}

static uint32_t
place_of(const struct look *l, const struct uop *u)
{
    return l->pos[u->id - l->first_id];
}

static bell_status
init_look(struct look *l, const struct uop_graph *k, const struct uop *sink)
{
    size_t i, j;

    *l = (struct look){0};
    BELL_TRY(uop_toposort(k, &sink, 1, &l->list, &l->n));
    l->first_id = l->list[0]->id;
    l->pos = host_alloc((sink->id - l->first_id + 1) * sizeof(*l->pos));
    l->loops = host_calloc(l->n, sizeof(*l->loops));
    l->uses = host_calloc(l->n, sizeof(*l->uses));
    if (!l->pos || !l->loops || !l->uses) {
        fini_look(l);
        return bell_fail(BELL_E_NO_MEMORY,
                         "looking at a kernel of %zu nodes: out of memory",
                         l->n);
    }
    for (i = 0; i < l->n; i++) {
        const struct uop *u = l->list[i];
        l->pos[u->id - l->first_id] = (uint32_t)i;
        if (u->op == UOP_RANGE && uop_range_axis(u) == UOP_AXIS_LOOP)
            l->loops[i] = (uint64_t)1 << uop_range_id(u);
        for (j = 0; j < u->n_src; j++)
            l->loops[i] |= l->loops[place_of(l, u->src[j])];
    }
    return BELL_OK;
}

static bool
is_slot(const struct uop *u, uint32_t slot)
{
    return u->op == UOP_PARAM && u->arg.i == slot;
}

/* Is the value made of all its sources, whatever these are? */
static bool
keeps_sources(const struct uop *u)
{
    switch ((int)u->op) {
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_FDIV:
    case UOP_NEG:
    case UOP_SQRT:
    case UOP_RECIP:
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_CAST:
        return uop_is_float(u) && uop_is_float(u->src[0]);
    default:
        return false;
    }
}

/* Marks how the node's sources are used. */
static void
mark_sources(struct look *l, const struct uop *u, const struct uop *store)
{
    uint8_t uses = l->uses[place_of(l, u)], use;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (u->op == UOP_STORE)
            use = u == store && i == 2 ? OWN | SURE : OTHER;
        else
            use = keeps_sources(u) ? uses : uses & (uint8_t)~SURE;
        l->uses[place_of(l, u->src[i])] |= use;
    }
}

/* The only STORE to `out`, if each STORE goes through all loops. */
static const struct uop *
find_store(const struct look *l, const struct uop *sink, uint32_t out)
{
    const struct uop *store = NULL;
    uint64_t all = l->loops[l->n - 1];
    uint32_t i;

    assert(l->list[l->n - 1] == sink);
    for (i = 0; i < sink->n_src; i++) {
        const struct uop *u = sink->src[i];
        if (l->loops[place_of(l, u->src[1])] != all)
            return NULL;
        if (!is_slot(u->src[0], out))
            continue;
        if (store)
            return NULL;
        store = u;
    }
    return store;
}

static bool
is_free_load(const struct look *l, const struct uop *u, const struct uop *store)
{
    uint8_t uses = l->uses[place_of(l, u)];

    return u->src[1] == store->src[1] && u->dtype == store->src[2]->dtype &&
           u->src[0]->dtype == store->src[0]->dtype && (uses & OWN) &&
           (!(uses & OTHER) || (uses & SURE));
}

static bool
may_overwrite(struct look *l, const struct uop *sink, uint32_t out, uint32_t in)
{
    const struct uop *store = find_store(l, sink, out);
    size_t i;

    for (i = l->n; store && i-- > 0;) {
        const struct uop *u = l->list[i];
        mark_sources(l, u, store);
        if (u->op == UOP_REDUCE || u->op == UOP_SORT)
            return false;
        if (u->op == UOP_LOAD && is_slot(u->src[0], out))
            return false;
        if (u->op == UOP_LOAD && is_slot(u->src[0], in) &&
            !is_free_load(l, u, store))
            return false;
        if (u->op == UOP_STORE && is_slot(u->src[0], in))
            return false;
    }
    return store != NULL;
}

static bool
touches(const struct look *l, uint32_t slot)
{
    size_t i = 0;

    while (i < l->n && !is_slot(l->list[i], slot))
        i++;
    return i < l->n;
}

bell_status
sched_may_overwrite(const struct uop_graph *k, const struct uop *sink,
                    uint32_t out, uint32_t in, bool *out_may)
{
    bool packed = sink->src[0]->op == UOP_SINK, good = true, stores, loads;
    uint32_t i, n = packed ? sink->n_src : 1;
    struct look l;

    *out_may = false;
    if (sink->src[0]->op == UOP_CUSTOM)
        return BELL_OK; /* nobody knows what it does */
    for (i = 0; i < n && good; i++) {
        const struct uop *part = packed ? sink->src[i] : sink;
        BELL_TRY(init_look(&l, k, part));
        stores = touches(&l, out);
        loads = touches(&l, in);
        good = stores == loads && (!stores || may_overwrite(&l, part, out, in));
        fini_look(&l);
    }
    *out_may = good;
    return BELL_OK;
}

/* The slot's new number. */
static int64_t
moved_slot(int64_t slot, uint32_t out, uint32_t in)
{
    return slot == in ? out : slot - (slot > in);
}

/* Kernels of one launch may have RANGEs of one id. */
static bell_status
validate_launch(const struct uop_graph *k, const struct uop *sink)
{
    uint32_t i;

    if (sink->src[0]->op != UOP_SINK)
        return uop_validate_pass(k, &sink, 1, UOP_STAGE_K, "overwriting");
    for (i = 0; i < sink->n_src; i++)
        BELL_TRY(validate_launch(k, sink->src[i]));
    return BELL_OK;
}

bell_status
sched_overwrite(struct uop_graph *k, struct sched_item *item, uint32_t out,
                uint32_t in)
{
    const struct uop *from[SCHED_MAX_PARAMS], *to[SCHED_MAX_PARAMS], **list;
    uint32_t bufs[SCHED_MAX_PARAMS], i, n_from = 0;
    const struct uop *sink = item->sink;
    size_t n, at;

    assert(out < item->n_outs && in >= item->n_outs && in < item->n_bufs);
    BELL_TRY(uop_toposort(k, &sink, 1, &list, &n));
    for (at = 0; at < n; at++) {
        const struct uop *u = list[at];
        union uop_arg slot = {.i = moved_slot(u->arg.i, out, in)};
        if ((u->op != UOP_PARAM && u->op != UOP_VAR) || slot.i == u->arg.i)
            continue;
        from[n_from] = u;
        to[n_from++] = uop_new(k, u->op, u->dtype, 1, slot, u->src, u->n_src);
    }
    host_free(list);
    BELL_TRY(uop_substitute(k, &sink, 1, from, to, n_from));
    for (i = 0; i + 1 < item->n_bufs; i++)
        bufs[i] = item->bufs[i + (i >= in)];
    item->bufs = arena_copy(&k->arena, bufs, i * sizeof(bufs[0]));
    if (!item->bufs)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory scheduling");
    item->sink = sink;
    item->n_bufs--;
    return validate_launch(k, sink);
}
