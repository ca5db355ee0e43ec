/* Walks over the nodes under some roots. Iterative; ids are dense and
 * topological, so marking by id and going through in id order is a sort. */
#include "uops/uop.h"

#include <assert.h>

#include "base/alloc.h"

/* One bit an id. */
struct mark_set {
    uint64_t *words;
    uint32_t low, high; /* marked ids lie in low..high */
};

/* Ids are dense, so a set of nodes is bits. `low` and the start at the highest
 * root keep the walk to the part of the graph that is used. */
static void
mark(struct mark_set *set, uint32_t id)
{
    set->words[id >> 6] |= (uint64_t)1 << (id & 63);
    set->low = id < set->low ? id : set->low;
}

/* Marks everything under the roots. Goes down in id order: when an id is
 * reached, all its users have been. */
static size_t
mark_reachable(const struct uop_graph *g, struct mark_set *set)
{
    uint32_t at = set->high >> 6, bit, i;
    size_t n = 0;

    for (;; at--) {
        uint64_t word = set->words[at], below;
        while (word) {
            const struct uop *u;
            bit = 63 - (uint32_t)__builtin_clzll(word);
            u = g->nodes[at * 64 + bit];
            for (i = 0; i < u->n_src; i++)
                mark(set, u->src[i]->id);
            n++;
            below = ((uint64_t)1 << bit) - 1;
            word = set->words[at] & below; /* with sources nearby */
        }
        if (at <= set->low >> 6)
            return n;
    }
}

bell_status
uop_toposort(const struct uop_graph *g, const struct uop *const *roots,
             size_t n_roots, const struct uop ***out_list, size_t *out_n)
{
    struct mark_set set = {NULL, UINT32_MAX, 0};
    const struct uop **list;
    size_t i, n, at = 0, word;
    uint64_t bits;

    BELL_TRY(uop_graph_status(g));
    for (i = 0; i < n_roots; i++)
        assert(roots[i]->id < g->n_nodes && g->nodes[roots[i]->id] == roots[i]);
    for (i = 0; i < n_roots; i++)
        set.high = roots[i]->id > set.high ? roots[i]->id : set.high;
    set.words = host_calloc(((size_t)set.high >> 6) + 1, sizeof(*set.words));
    if (!set.words)
        return bell_fail(BELL_E_NO_MEMORY, "sort of %u nodes: out of memory",
                         set.high + 1);
    for (i = 0; i < n_roots; i++)
        mark(&set, roots[i]->id);
    n = n_roots ? mark_reachable(g, &set) : 0;
    list = host_alloc(n * sizeof(*list));
    if (!list) {
        host_free(set.words);
        return bell_fail(BELL_E_NO_MEMORY, "sort of %zu nodes: out of memory",
                         n);
    }
    for (word = set.low >> 6; at < n; word++) {
        for (bits = set.words[word]; bits; bits &= bits - 1)
            list[at++] = g->nodes[word * 64 + (size_t)__builtin_ctzll(bits)];
    }
    host_free(set.words);
    *out_list = list;
    *out_n = n;
    return BELL_OK;
}

/* A node whose sources are being visited. */
struct visit {
    const struct uop *u;
    uint32_t n_done;
};

bell_status
uop_canonical_order(const struct uop *root, const struct uop ***out_list,
                    size_t *out_n)
{
    uint64_t *seen = host_calloc(((size_t)root->id >> 6) + 1, sizeof(*seen));
    const struct uop **list = NULL;
    struct visit *stack = NULL;
    size_t n = 0, cap = 0, depth = 0, cap_stack = 0;

    if (!seen || host_grow((void **)&stack, &cap_stack, 1, sizeof(*stack)) != 0)
        goto fail_memory;
    stack[depth++] = (struct visit){root, 0};
    seen[root->id >> 6] |= (uint64_t)1 << (root->id & 63);
    while (depth) {
        struct visit *top = &stack[depth - 1];
        if (top->n_done < top->u->n_src) {
            const struct uop *src = top->u->src[top->n_done++];
            uint64_t bit = (uint64_t)1 << (src->id & 63);
            if (seen[src->id >> 6] & bit)
                continue;
            seen[src->id >> 6] |= bit;
            if (depth == cap_stack && host_grow((void **)&stack, &cap_stack,
                                                depth + 1, sizeof(*stack)) != 0)
                goto fail_memory;
            stack[depth++] = (struct visit){src, 0};
            continue;
        }
        if (n == cap &&
            host_grow((void **)&list, &cap, n + 1, sizeof(*list)) != 0)
            goto fail_memory;
        list[n++] = top->u;
        depth--;
    }
    host_free(seen);
    host_free(stack);
    *out_list = list;
    *out_n = n;
    return BELL_OK;

fail_memory:
    host_free(seen);
    host_free(stack);
    host_free(list);
    return bell_fail(BELL_E_NO_MEMORY, "order of %u nodes: out of memory",
                     root->id + 1);
}

/* The node that `u` becomes when its sources do; `u` itself if none changes.
 * to[] is indexed by id. `buf` holds u->n_src pointers. */
static const struct uop *
rebuild(struct uop_graph *g, const struct uop *u, const struct uop *const *to,
        const struct uop **buf)
{
    bool changed = false;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        buf[i] = to[u->src[i]->id];
        changed |= buf[i] != u->src[i];
    }
    if (!changed)
        return u;
    return uop_make(g, u->op, u->dtype, u->lanes, u->arg, buf, u->n_src);
}

static void
substitute_list(struct uop_graph *g, const struct uop *const *list, size_t n,
                const struct uop **map, const struct uop **buf)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (!map[list[i]->id])
            map[list[i]->id] = rebuild(g, list[i], map, buf);
    }
}

bell_status
uop_substitute(struct uop_graph *g, const struct uop **roots, size_t n_roots,
               const struct uop *const *from, const struct uop *const *to,
               size_t n_pairs)
{
    const struct uop **list, **map, **buf;
    size_t n, i, n_ids;
    uint32_t max_src = 1;
    bell_status status = BELL_OK;

    BELL_TRY(uop_toposort(g, roots, n_roots, &list, &n));
    for (i = 0; i < n; i++)
        max_src = list[i]->n_src > max_src ? list[i]->n_src : max_src;
    n_ids = n ? (size_t)list[n - 1]->id + 1 : 0;
    map = host_calloc(n_ids, sizeof(*map));
    buf = host_alloc(max_src * sizeof(*buf));
    if (!map || !buf) {
        status = bell_fail(BELL_E_NO_MEMORY,
                           "substitution in %zu nodes: out of memory", n);
    } else {
        for (i = 0; i < n_pairs; i++) {
            assert(from[i]->dtype == to[i]->dtype || to[i] == &uop_failed);
            assert(from[i]->lanes == to[i]->lanes || to[i] == &uop_failed);
            if (from[i]->id < n_ids)
                map[from[i]->id] = to[i];
        }
        substitute_list(g, list, n, map, buf);
        for (i = 0; i < n_roots && !g->failed; i++)
            roots[i] = map[roots[i]->id];
        status = uop_graph_status(g);
    }
    host_free(buf);
    host_free(map);
    host_free(list);
    return status;
}

bell_status
uop_graph_copy(const struct uop *root, struct uop_graph *to,
               const struct uop **out_root)
{
    const struct uop **list, **map;
    size_t n, i;
    uint32_t j;

    BELL_TRY(uop_canonical_order(root, &list, &n));
    map = host_alloc(((size_t)root->id + 1) * sizeof(*map));
    for (i = 0; map && i < n; i++) {
        const struct uop *u = list[i], *small[16], **src = small;
        if (u->n_src > 16)
            src = arena_alloc(&to->arena, u->n_src * sizeof(*src));
        for (j = 0; src && j < u->n_src; j++)
            src[j] = map[u->src[j]->id];
        if (!src)
            to->failed = true;
        map[u->id] =
            uop_new(to, u->op, u->dtype, u->lanes, u->arg, src, u->n_src);
    }
    host_free(list);
    if (!map)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory copying a kernel");
    *out_root = map[root->id];
    host_free(map);
    return uop_graph_status(to);
}
