/* Graphs of a mesh that were split before.
 *
 * The graph of whole values is numbered first, as that of one device is. Its
 * structure, its sizes and the layouts of its leaves say what the split makes
 * of it, but for numbers and offsets: these are taken from the graph at hand.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/runtime/mesh_places.h"

#define OWN_VALUE UINT32_MAX /* the split's own */
#define NONE      UINT64_MAX
/* Sizes that always differ make one each: beyond so many all are forgotten, and
 * made again as they come. guess */
#define KNOWN_MAX 4096

/* The parts of a leaf, as tensor_buffer has them. */
struct leaf_parts {
    struct tensor_part of[BELL_MESH_AXES];
};

struct mesh_known {
    /* what it is found by */
    const struct uop *from;  /* in rt->graphs: the structure of whole values */
    struct rt_value *wanted; /* owned; its values */
    uint32_t n_wanted, n_from_leaves;
    struct leaf_parts *parts; /* owned; by leaf */
    /* Owned, by leaf: whether the host has the values, where that matters. */
    enum held {
        ANY_VALUES,
        HELD_VALUES,
        PLACED_VALUES
    } * held;
    bool is_exact; /* for these numbers and offsets, and not for others */
    uint64_t next; /* of the same hash; NONE: the last */
    /* what becomes of it */
    const struct uop *sink;
    const struct uop **roots;    /* owned; as rt_run's */
    struct mesh_layout *layouts; /* owned; as rt_run's */
    struct rt_values values;     /* owned list */
    uint32_t *value_of;      /* owned; by value: in `wanted`, or OWN_VALUE */
    uint32_t *leaf_of;       /* owned; by leaf: that of the whole graph's */
    struct leaf_parts *laid; /* owned; by leaf: in which layout, of those */
    bool *is_laid;           /* owned; that the host writes so */
    uint32_t n_roots, n_leaves;
};

static void
free_known(struct mesh_known *k)
{
    if (!k)
        return;
    host_free(k->wanted);
    host_free(k->parts);
    host_free(k->held);
    host_free(k->laid);
    host_free(k->is_laid);
    host_free(k->roots);
    host_free(k->layouts);
    host_free(k->values.list);
    host_free(k->value_of);
    host_free(k->leaf_of);
    host_free(k);
}

static void
forget_known(struct rt_places *places)
{
    size_t i;

    for (i = 0; i < places->n_known; i++)
        free_known(places->known[i]);
    places->n_known = 0;
    map_clear(&places->known_of);
}

void
mesh_known_fini(struct rt_places *places)
{
    forget_known(places);
    host_free(places->known);
    host_free(places->values);
    host_free(places->leaves);
    map_fini(&places->known_of);
    places->known = NULL;
}

/* ---- looking up ---------------------------------------------------------- */

static uint64_t
hash_run(const struct rt_run *run, const struct uop *from)
{
    uint64_t hash = hash_add(rt_key(run->rt, from), run->rt->values.sizes_hash);
    size_t i;
    uint32_t k;

    for (i = 0; i < run->n_leaves; i++) {
        for (k = 0; k < BELL_MESH_AXES; k++)
            hash = hash_add(hash_add(hash, run->leaves[i]->parts[k].block),
                            run->leaves[i]->parts[k].chunk);
    }
    return hash;
}

static bool
is_like(const struct rt_run *run, const struct mesh_known *k)
{
    const struct rt_values *now = &run->rt->values;
    size_t i;

    if (k->n_wanted != now->n || k->n_from_leaves != run->n_leaves)
        return false;
    for (i = 0; i < now->n; i++) {
        if (now->list[i].is_size && now->list[i].bits != k->wanted[i].bits)
            return false;
    }
    for (i = 0; i < run->n_leaves; i++) {
        enum held held = run->leaves[i]->held ? HELD_VALUES : PLACED_VALUES;

        if ((k->held[i] != ANY_VALUES && k->held[i] != held) ||
            memcmp(run->leaves[i]->parts, k->parts[i].of,
                   sizeof(k->parts[i].of)) != 0)
            return false;
    }
    return true;
}

static bool
has_same_values(const struct rt_run *run, const struct mesh_known *k)
{
    size_t i;

    for (i = 0; i < k->n_wanted; i++) {
        if (run->rt->values.list[i].bits != k->wanted[i].bits)
            return false;
    }
    return true;
}

/* The number of that, which may be for other values where it is exact; NONE:
 * it was not split before. */
static uint64_t
find_known(const struct rt_run *run, const struct uop *from, uint64_t hash)
{
    const struct rt_places *places = run->rt->places;
    const uint64_t *found = map_get(&places->known_of, hash);
    uint64_t at = found ? *found : NONE;

    while (at != NONE && (places->known[at]->from != from ||
                          !is_like(run, places->known[at])))
        at = places->known[at]->next;
    return at;
}

/* Fills in what mesh_run_split and rt_number would. */
static bell_status
use_known(struct rt_run *run, const struct mesh_known *k,
          const struct uop **out_sink)
{
    struct rt_places *places = run->rt->places;
    struct rt_values *values = &run->rt->values;
    uint32_t i;

    run->layouts = host_alloc(k->n_roots * sizeof(*run->layouts) + 1);
    if (!run->layouts ||
        host_grow((void **)&places->values, &places->cap_values, values->n + 1,
                  sizeof(*places->values)) != 0 ||
        host_grow((void **)&places->leaves, &places->cap_leaves,
                  run->n_leaves + 1, sizeof(struct tensor_buffer *)) != 0 ||
        host_grow((void **)&values->list, &values->cap, k->values.n + 1,
                  sizeof(*values->list)) != 0 ||
        host_grow((void **)&run->leaves, &run->cap_leaves, k->n_leaves + 1,
                  sizeof(struct tensor_buffer *)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    memcpy(places->values, values->list, values->n * sizeof(*values->list));
    memcpy(places->leaves, run->leaves,
           run->n_leaves * sizeof(struct tensor_buffer *));
    memcpy(values->list, k->values.list, k->values.n * sizeof(*values->list));
    for (i = 0; i < k->values.n; i++) {
        if (k->value_of[i] != OWN_VALUE)
            values->list[i].bits = places->values[k->value_of[i]].bits;
    }
    for (i = 0; i < k->n_leaves; i++) {
        run->leaves[i] = places->leaves[k->leaf_of[i]];
        if (k->is_laid[i])
            run->leaves[i] = mesh_laid(run->leaves[i], k->laid[i].of);
        if (!run->leaves[i])
            return bell_error_last()->status;
    }
    run->n_leaves = k->n_leaves;
    values->n = k->values.n;
    values->sizes_hash = k->values.sizes_hash;
    values->has_product = k->values.has_product;
    values->n_codes = k->values.n_codes;
    memcpy(run->layouts, k->layouts, k->n_roots * sizeof(*run->layouts));
    memcpy(run->roots, k->roots, k->n_roots * sizeof(*run->roots));
    *out_sink = k->sink;
    return BELL_OK;
}

/* ---- learning ------------------------------------------------------------ */

/* The numbering of whole values, kept when that of a place takes its room. */
struct numbered {
    struct rt_copy *copies;        /* owned; by id in the context's graph */
    struct tensor_buffer **leaves; /* owned */
    uint64_t run;                  /* of the copies */
};

static bell_status
keep_numbered(const struct rt_run *run, const struct uop *from,
              struct mesh_known *k, struct numbered *was)
{
    const struct tensor_runtime *rt = run->rt;
    size_t n_nodes = run->ctx->graph.n_nodes, i;

    k->from = from;
    k->n_wanted = (uint32_t)rt->values.n;
    k->n_from_leaves = (uint32_t)run->n_leaves;
    k->wanted = host_alloc(rt->values.n * sizeof(*k->wanted) + 1);
    k->parts = host_alloc(run->n_leaves * sizeof(*k->parts) + 1);
    k->held = host_alloc(run->n_leaves * sizeof(*k->held) + 1);
    was->run = rt->n_numbered;
    was->copies = host_alloc(n_nodes * sizeof(*was->copies) + 1);
    was->leaves =
        host_alloc(run->n_leaves * sizeof(struct tensor_buffer *) + 1);
    if (!k->wanted || !k->parts || !k->held || !was->copies || !was->leaves)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    if (rt->values.n) /* else there may be no list */
        memcpy(k->wanted, rt->values.list, rt->values.n * sizeof(*k->wanted));
    memcpy(was->copies, rt->copies, n_nodes * sizeof(*was->copies));
    for (i = 0; i < run->n_leaves; i++) {
        was->leaves[i] = run->leaves[i];
        memcpy(k->parts[i].of, run->leaves[i]->parts, sizeof(k->parts[i].of));
    }
    return BELL_OK;
}

/* The next value from `at` on, and before `end`, that is not a size; or end. */
static uint32_t
next_number(const struct rt_value *list, uint32_t at, uint32_t end)
{
    while (at < end && list[at].is_size)
        at++;
    return at;
}

/* Numbers and offsets of nodes that the split has copied, one by one: sizes may
 * be there on one side alone, as those of 1 have no value. */
static void
match_values(const struct tensor_runtime *rt, const struct numbered *was,
             const struct mesh_copies *copies, struct mesh_known *k)
{
    size_t i;

    for (i = 0; i < k->values.n; i++)
        k->value_of[i] = OWN_VALUE;
    for (i = 0; i < copies->n; i++) {
        const struct rt_copy *a = &was->copies[copies->list[i].from];
        const struct rt_copy *b = &rt->copies[copies->list[i].to];
        uint32_t x = a->value, y = b->value;

        if (a->run != was->run || b->run != rt->n_numbered)
            continue;
        for (;; x++, y++) {
            x = next_number(k->wanted, x, a->value + a->n_values);
            y = next_number(k->values.list, y, b->value + b->n_values);
            if (x == a->value + a->n_values || y == b->value + b->n_values)
                break;
            assert(k->wanted[x].bits == k->values.list[y].bits);
            k->value_of[y] = x;
        }
        k->is_exact |=
            x != a->value + a->n_values || y != b->value + b->n_values;
    }
    k->is_exact |= copies->is_mixed;
}

/* Is it `leaf`, or one of its values in another layout? */
static bool
is_of_leaf(const struct tensor_buffer *leaf, const struct tensor_buffer *buf)
{
    const struct tensor_buffer *laid = leaf->laid;

    while (leaf != buf && laid && laid != buf)
        laid = laid->next_laid;
    return leaf == buf || laid;
}

/* False: one leaf of a place is from two, which may be others next time. */
static bool
match_leaves(const struct rt_run *run, const struct numbered *was,
             struct mesh_known *k)
{
    uint32_t i, j, n_found;

    for (i = 0; i < k->n_leaves; i++) {
        const struct tensor_buffer *leaf = run->leaves[i];

        for (j = n_found = 0; j < k->n_from_leaves; j++) {
            if (!is_of_leaf(was->leaves[j], leaf))
                continue;
            n_found++;
            k->leaf_of[i] = j;
            k->is_laid[i] = was->leaves[j] != leaf;
        }
        if (n_found != 1)
            return false;
        memcpy(k->laid[i].of, leaf->parts, sizeof(k->laid[i].of));
    }
    return true;
}

static void
note_held(const struct numbered *was, const struct mesh_copies *copies,
          struct mesh_known *k)
{
    uint32_t i;
    size_t j;

    for (i = 0; i < k->n_from_leaves; i++) {
        k->held[i] = ANY_VALUES;
        for (j = 0; j < copies->n_laid; j++) {
            if (copies->laid[j] == was->leaves[i])
                k->held[i] = was->leaves[i]->held ? HELD_VALUES : PLACED_VALUES;
        }
    }
}

static bell_status
fill_known(const struct rt_run *run, const struct uop *sink,
           const struct numbered *was, const struct mesh_copies *copies,
           struct mesh_known *k, bool *out_may_stay)
{
    const struct tensor_runtime *rt = run->rt;

    k->sink = sink;
    k->n_roots = run->n;
    k->n_leaves = (uint32_t)run->n_leaves;
    k->values = rt->values;
    k->values.list = host_alloc(rt->values.n * sizeof(*rt->values.list) + 1);
    k->value_of = host_alloc(rt->values.n * sizeof(*k->value_of) + 1);
    k->leaf_of = host_alloc(run->n_leaves * sizeof(*k->leaf_of) + 1);
    k->laid = host_alloc(run->n_leaves * sizeof(*k->laid) + 1);
    k->is_laid = host_alloc(run->n_leaves * sizeof(*k->is_laid) + 1);
    k->roots = host_alloc(run->n * sizeof(*k->roots) + 1);
    k->layouts = host_alloc(run->n * sizeof(*k->layouts) + 1);
    if (!k->values.list || !k->value_of || !k->leaf_of || !k->laid ||
        !k->is_laid || !k->roots || !k->layouts)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    if (rt->values.n)
        memcpy(k->values.list, rt->values.list,
               rt->values.n * sizeof(*rt->values.list));
    memcpy(k->roots, run->roots, run->n * sizeof(*k->roots));
    memcpy(k->layouts, run->layouts, run->n * sizeof(*k->layouts));
    match_values(rt, was, copies, k);
    note_held(was, copies, k);
    *out_may_stay = match_leaves(run, was, k);
    return BELL_OK;
}

/* `at`: the one that it replaces, for other values; NONE: there is none. */
static bell_status
add_known(struct rt_places *places, uint64_t hash, uint64_t at,
          struct mesh_known *k)
{
    const uint64_t *found;

    if (at != NONE) {
        k->next = places->known[at]->next;
        free_known(places->known[at]);
        places->known[at] = k;
        return BELL_OK;
    }
    if (places->n_known >= KNOWN_MAX)
        forget_known(places);
    found = map_get(&places->known_of, hash);
    k->next = found ? *found : NONE;
    if (host_grow((void **)&places->known, &places->cap_known,
                  places->n_known + 1, sizeof(struct mesh_known *)) != 0 ||
        map_put(&places->known_of, hash, places->n_known) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    places->known[places->n_known++] = k;
    return BELL_OK;
}

static bell_status
split_and_number(struct rt_run *run, struct mesh_copies *copies,
                 const struct uop **out_sink)
{
    run->rt->stats.n_splits++;
    BELL_TRY(mesh_run_split(run, copies));
    return rt_number(run, out_sink);
}

static bell_status
number_place(struct rt_run *run, const struct uop **out_sink)
{
    struct rt_places *places = run->rt->places;
    struct mesh_copies copies = {0};
    struct numbered was = {0};
    struct mesh_known *k;
    const struct uop *from;
    uint64_t hash, at;
    bool may_stay = false;
    bell_status status;

    /* labels are those of nodes, which only the split knows */
    if (run->rt->labels || run->ctx->dims->n_symbols)
        return split_and_number(run, NULL, out_sink);
    BELL_TRY(rt_number(run, &from));
    hash = hash_run(run, from);
    at = find_known(run, from, hash);
    if (at != NONE && (!places->known[at]->is_exact ||
                       has_same_values(run, places->known[at])))
        return use_known(run, places->known[at], out_sink);
    k = host_calloc(1, sizeof(*k));
    status = k ? keep_numbered(run, from, k, &was)
               : bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    if (status == BELL_OK)
        status = split_and_number(run, &copies, out_sink);
    if (status == BELL_OK)
        status = fill_known(run, *out_sink, &was, &copies, k, &may_stay);
    if (may_stay)
        status = add_known(places, hash, at, k);
    if (status != BELL_OK || !may_stay)
        free_known(k);
    host_free(copies.list);
    host_free(copies.laid);
    host_free(was.copies);
    host_free(was.leaves);
    return status;
}

/* Leaves that have their values from the host get memory; those first that
 * have them from another one. */
static bell_status
settle_leaves(const struct rt_run *run)
{
    size_t i;

    for (i = 0; i < run->n_leaves; i++) {
        if (run->leaves[i]->held_by)
            BELL_TRY(mesh_memory_settle(run->leaves[i]));
    }
    for (i = 0; i < run->n_leaves; i++) {
        if (run->leaves[i]->held)
            BELL_TRY(mesh_memory_settle(run->leaves[i]));
    }
    return BELL_OK;
}

bell_status
mesh_number(struct rt_run *run, const struct uop **out_sink)
{
    BELL_TRY(number_place(run, out_sink));
    return settle_leaves(run);
}
