/* From what is stored to the plan: buffers have numbers, each node that has a
 * kernel of its own becomes an item, and items stand in an order that works.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "lower/lower.h"

#define MUCH_MEMORY (UINT64_C(64) << 20) /* bytes: launches may. guess */

/* The BUFFER that an ASSIGN writes to. */
static uint32_t
assigned_leaf(const struct sched *s, uint32_t at)
{
    do
        at = sched_source(s, at, 0);
    while (s->nodes[at].u->op != UOP_BUFFER);
    return at;
}

static bell_status
number_buffers(struct sched *s, const uint32_t *local,
               const struct uop *const *roots, uint32_t n_roots,
               struct sched_plan *plan)
{
    uint32_t at, n = 0, i, *root_bufs;

    for (at = 0; at < s->n_nodes; at++)
        n += s->nodes[at].u->op == UOP_BUFFER ||
             (s->nodes[at].stored && s->nodes[at].u->op != UOP_ASSIGN);
    plan->n_bufs = n;
    for (at = 0; at < s->n_nodes; at++) /* and results that nobody reads */
        n += s->nodes[at].u->op == UOP_CALL ? s->nodes[at].u->arg.dims->n / 2
                                            : 0;
    plan->bufs = arena_calloc(&s->k->arena, n, sizeof(*plan->bufs));
    root_bufs = arena_calloc(&s->k->arena, n_roots, sizeof(*root_bufs));
    plan->items = arena_calloc(&s->k->arena, s->n_roots, sizeof(*plan->items));
    if (!plan->bufs || !root_bufs || !plan->items)
        return sched_no_memory(s);
    n = 0;
    for (i = 0; i < 2; i++) {
        for (at = 0; at < s->n_nodes; at++) {
            struct sched_node *node = &s->nodes[at];
            bool leaf = node->u->op == UOP_BUFFER;
            if ((i == 0) != leaf || (!leaf && !node->stored))
                continue;
            if (node->u->op == UOP_ASSIGN) {
                node->buf = s->nodes[assigned_leaf(s, at)].buf;
                continue;
            }
            plan->bufs[n].n_elems = (uint64_t)node->numel;
            plan->bufs[n].count =
                dim_product(s->g->sizes, node->shape->d, node->shape->n);
            plan->bufs[n].dtype = node->u->dtype;
            plan->bufs[n].leaf = leaf ? (int32_t)node->u->arg.dims->d[0] : -1;
            plan->bufs[n].root = -1;
            plan->n_leaves += leaf;
            node->buf = n++;
        }
    }
    for (i = 0; i < n_roots; i++) {
        uint32_t buf = s->nodes[sched_base_of(s, local[roots[i]->id])].buf;
        root_bufs[i] = buf;
        if (plan->bufs[buf].root < 0)
            plan->bufs[buf].root = (int32_t)i;
    }
    plan->n_roots = n_roots;
    plan->root_bufs = root_bufs;
    return BELL_OK;
}

/* Movements are noted where there is nothing else: to transpose a factor is not
 * a product's work. */
static bool
is_noted(const struct uop *u, bool any)
{
    return any || !(uop_has(u, UOP_FLAG_MOVE) || u->op == UOP_CONTIGUOUS ||
                    u->op == UOP_DETACH || u->op == UOP_CAST);
}

static bool
is_main(const struct uop *u)
{
    return u->op == UOP_REDUCE_AXIS || u->op == UOP_SCAN ||
           u->op == UOP_SORT_AXIS || u->op == UOP_CALL || u->op == UOP_GATHER;
}

/* Sorted by mark, each once. */
static uint32_t
insert_mark(struct sched_mark *list, uint32_t n, struct sched_mark mark)
{
    uint32_t at = n;

    while (at > 0 && list[at - 1].mark > mark.mark)
        at--;
    if (at > 0 && list[at - 1].mark == mark.mark) {
        list[at - 1].is_main |= mark.is_main;
        return n;
    }
    memmove(list + at + 1, list + at, (n - at) * sizeof(*list));
    list[at] = mark;
    return n + 1;
}

bell_status
sched_note_marks(struct sched *s, struct sched_buf *buf, const uint32_t *nodes,
                 size_t n)
{
    uint32_t n_list = 0, k;
    struct sched_mark *list;
    size_t i;

    if (!s->g->has_marks)
        return BELL_OK;
    list = arena_alloc(&s->k->arena, (buf->n_marks + n + 1) * sizeof(*list));
    if (!list)
        return sched_no_memory(s);
    for (k = 0; k < buf->n_marks; k++)
        n_list = insert_mark(list, n_list, buf->marks[k]);
    for (k = 0; k < 2 && !n_list; k++) {
        for (i = 0; i < n; i++) {
            const struct uop *u = s->nodes[nodes[i]].u;
            uint32_t mark = uop_mark(s->g, u);
            if (mark && is_noted(u, k > 0))
                n_list = insert_mark(list, n_list,
                                     (struct sched_mark){mark, is_main(u)});
        }
    }
    buf->marks = list;
    buf->n_marks = n_list;
    return BELL_OK;
}

static void
log_kernel(const struct sched_item *item)
{
    char text[1800];
    uint32_t i;

    if (sched_is_given(item))
        LOG(LOG_SCHED, "kernel: number %d of those given, %u arguments",
            (int)item->sink->src[0]->arg.i, item->n_bufs);
    for (i = 0; LOG_ON(LOG_SCHED) && i < item->sink->n_src; i++) {
        const struct uop *store = item->sink->src[i];
        if (sched_is_given(item))
            break;
        LOG(LOG_SCHED, "%s p%d[%s] = %s",
            i ? "    and" : "kernel:", (int)store->src[0]->arg.i,
            uop_expr_str(store->src[1], text, 400),
            uop_expr_str(store->src[2], text + 400, 1400));
    }
}

/* Is what is stored of attention a kernel that lowering knows? */
static bell_status
check_attention(struct sched *s, uint32_t at, const struct uop *sink,
                bool *out_attends)
{
    uint32_t kernel = s->nodes[at].kernel;
    bool is = false;

    *out_attends = kernel != SCHED_NONE && s->roots[kernel].attends;
    if (!*out_attends)
        return BELL_OK;
    BELL_TRY(lower_is_attention(s->k, sink, s->target->attends, &is));
    if (!is)
        LOG(LOG_SCHED, "attention of a kind that is not a kernel");
    s->not_attention |= !is;
    return BELL_OK;
}

/* Puts kernels behind those that make what they read: what is kept is made
 * later than where its node stands. */
static bell_status
order_items(struct sched *s, struct sched_plan *plan, bool *attends)
{
    uint32_t n = plan->n_items, *writer, *stack, n_stack = 0, i, k, at,
             done = 0;
    struct sched_item *items;
    bool *was, *is_done;

    writer = sched_numbers(s, plan->n_bufs);
    stack = sched_numbers(s, n + 1);
    items = arena_copy(&s->scratch, plan->items, n * sizeof(*items));
    was = arena_copy(&s->scratch, attends, n * sizeof(*was));
    is_done = arena_calloc(&s->scratch, n + 1, sizeof(*is_done));
    if (!writer || !stack || !items || !was || !is_done)
        return sched_no_memory(s);
    for (i = 0; i < n; i++) {
        for (k = 0; k < items[i].n_outs; k++)
            writer[items[i].bufs[k]] = i;
    }
    for (i = 0; i < n; i++) {
        for (stack[n_stack++] = i; n_stack;) {
            at = stack[n_stack - 1];
            for (k = items[at].n_outs; k < items[at].n_bufs; k++) {
                uint32_t first = writer[items[at].bufs[k]];
                if (first != SCHED_NONE && !is_done[first])
                    break;
            }
            if (!is_done[at] && k < items[at].n_bufs) {
                assert(n_stack < n); /* no kernel is its own source */
                stack[n_stack++] = writer[items[at].bufs[k]];
                continue;
            }
            n_stack--;
            if (is_done[at])
                continue;
            is_done[at] = true;
            attends[done] = was[at];
            plan->items[done++] = items[at];
        }
    }
    return BELL_OK;
}

/* Most plans have none: then no kernel is gone through for them. */
static bool
has_vars(const struct uop_graph *k)
{
    size_t i;

    for (i = 0; i < k->n_nodes && k->nodes[i]->op != UOP_VAR; i++)
        ;
    return i < k->n_nodes;
}

/* Gives the kernel's VARs the slots behind its buffers, by first use. */
static bell_status
number_vars(struct sched *s, struct sched_item *item)
{
    const struct uop *from[SCHED_MAX_PARAMS], *to[SCHED_MAX_PARAMS], **list;
    uint32_t vars[SCHED_MAX_PARAMS], n = 0;
    size_t n_list, i;

    BELL_TRY(uop_toposort(s->k, &item->sink, 1, &list, &n_list));
    for (i = 0; i < n_list; i++) {
        const struct uop *u = list[i];
        union uop_arg slot = {.i = item->n_bufs + n};
        if (u->op != UOP_VAR)
            continue;
        if (slot.i >= SCHED_MAX_PARAMS) {
            host_free(list);
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a kernel has more than %u arguments",
                             SCHED_MAX_PARAMS);
        }
        from[n] = u;
        to[n] = uop_new(s->k, u->op, u->dtype, 1, slot, u->src, u->n_src);
        vars[n++] = (uint32_t)(u->arg.i - SCHED_VAR_SLOT);
    }
    host_free(list);
    item->n_vars = n;
    if (n == 0)
        return BELL_OK;
    item->vars = arena_copy(&s->k->arena, vars, n * sizeof(vars[0]));
    if (!item->vars)
        return sched_no_memory(s);
    return uop_substitute(s->k, &item->sink, 1, from, to, n);
}

/* What kernels of one launch make is alive at once: where that takes half as
 * much memory again as one after the other would, and MUCH_MEMORY more, fewer
 * share one. */
static bell_status
pack_items(struct sched *s, struct sched_plan *plan)
{
    struct sched_plan alone = *plan, fewer;
    uint64_t most, least, limit, now;

    BELL_TRY(sched_pack(s, plan, UINT64_MAX));
    BELL_TRY(sched_order(s, plan, &most));
    if (most <= MUCH_MEMORY)
        return BELL_OK;
    BELL_TRY(sched_order(s, &alone, &least));
    limit = least + (least / 2 > MUCH_MEMORY ? least / 2 : MUCH_MEMORY);
    if (most <= limit)
        return BELL_OK;
    fewer = alone;
    BELL_TRY(sched_pack(s, &fewer, limit));
    BELL_TRY(sched_order(s, &fewer, &now));
    LOG(LOG_SCHED, "%u launches of %llu bytes, not %u of %llu", fewer.n_items,
        (unsigned long long)now, plan->n_items, (unsigned long long)most);
    if (now < most)
        *plan = fewer;
    return BELL_OK;
}

/* The buffer of a CALL's result `number`. */
static uint32_t
buffer_of_result(struct sched *s, struct sched_plan *plan, uint32_t at,
                 uint32_t number)
{
    const struct uop_dims *arg = s->nodes[at].u->arg.dims;
    struct sched_buf *buf;
    uint32_t part;

    if (number == 0)
        return s->nodes[at].buf;
    for (part = s->nodes[at].part; part != SCHED_NONE;
         part = s->nodes[part].part) {
        if (s->nodes[part].u->arg.i == number)
            return s->nodes[part].buf;
    }
    buf = &plan->bufs[plan->n_bufs];
    buf->dtype = (enum uop_dtype)arg->d[1 + 2 * number];
    buf->n_elems = (uint64_t)arg->d[2 + 2 * number];
    buf->count = arg->d[2 + 2 * number];
    buf->leaf = buf->root = -1;
    return plan->n_bufs++;
}

/* A kernel that was given: its results, then its inputs. */
static bell_status
build_given(struct sched *s, struct sched_plan *plan, uint32_t at,
            struct sched_item *item, uint32_t *bufs)
{
    const struct uop *u = s->nodes[at].u, *params[SCHED_MAX_PARAMS], *given;
    uint32_t n_out = u->arg.dims->n / 2, n = 0, i;
    union uop_arg arg = {.i = 0};

    if (n_out + u->n_src > SCHED_MAX_PARAMS)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a kernel has more than %u arguments",
                         SCHED_MAX_PARAMS);
    for (i = 0; i < n_out; i++)
        bufs[n++] = buffer_of_result(s, plan, at, i);
    for (i = 0; i < u->n_src; i++)
        bufs[n++] = s->nodes[sched_base_of(s, sched_source(s, at, i))].buf;
    for (i = 0; i < n; i++) {
        arg.i = i;
        params[i] = uop_new(s->k, UOP_PARAM, plan->bufs[bufs[i]].dtype, 1, arg,
                            NULL, 0);
    }
    arg.i = u->arg.dims->d[0];
    given = uop_new(s->k, UOP_CUSTOM, UOP_VOID, 1, arg, params, n);
    arg.i = 0;
    item->sink = uop_new(s->k, UOP_SINK, UOP_VOID, 1, arg, &given, 1);
    item->n_outs = n_out;
    item->n_bufs = n;
    BELL_TRY(sched_note_marks(s, &plan->bufs[bufs[0]], &at, 1));
    return uop_graph_status(s->k);
}

static bell_status
build_item(struct sched *s, struct sched_plan *plan, uint32_t at,
           struct sched_item *item, uint32_t *bufs)
{
    if (s->nodes[at].u->op == UOP_CALL)
        return build_given(s, plan, at, item, bufs);
    BELL_TRY(sched_kernel(s, plan, at, &item->sink, bufs, &item->n_bufs));
    item->n_outs = 1 + s->roots[s->nodes[at].kernel].n_kept;
    return BELL_OK;
}

static bell_status
build_items(struct sched *s, struct sched_plan *plan, bool *attends)
{
    uint32_t bufs[SCHED_MAX_PARAMS], at, i;
    uint64_t bytes;
    bool any_var;

    for (at = 0; at < s->n_nodes; at++) {
        struct sched_item *item = &plan->items[plan->n_items];
        if (!s->nodes[at].stored || s->nodes[at].numel == 0 ||
            s->nodes[at].attend == SCHED_ATTEND_KEPT ||
            s->nodes[at].u->op == UOP_PART)
            continue;
        BELL_TRY(build_item(s, plan, at, item, bufs));
        BELL_TRY(
            uop_validate_pass(s->k, &item->sink, 1, UOP_STAGE_K, "scheduling"));
        BELL_TRY(check_attention(s, at, item->sink, &attends[plan->n_items]));
        plan->n_attends += attends[plan->n_items];
        /* nothing else is stored by its kernel either */
        attends[plan->n_items] |= s->nodes[at].u->op == UOP_SCAN;
        item->bufs =
            arena_copy(&s->k->arena, bufs, item->n_bufs * sizeof(bufs[0]));
        if (!item->bufs)
            return sched_no_memory(s);
        plan->n_items++;
    }
    if (s->keeps)
        BELL_TRY(order_items(s, plan, attends));
    BELL_TRY(sched_join(s, plan, attends));
    any_var = has_vars(s->k);
    for (i = 0; i < plan->n_items; i++) {
        if (any_var)
            BELL_TRY(number_vars(s, &plan->items[i]));
        BELL_TRY(uop_validate_pass(s->k, &plan->items[i].sink, 1, UOP_STAGE_K,
                                   "joining kernels"));
        log_kernel(&plan->items[i]);
    }
    return s->target->packs_for ? pack_items(s, plan)
                                : sched_order(s, plan, &bytes);
}

bell_status
sched_items(struct sched *s, const uint32_t *local,
            const struct uop *const *roots, uint32_t n_roots,
            struct sched_plan *plan)
{
    bool *attends;

    assert(s->roots || !s->n_roots);
    BELL_TRY(number_buffers(s, local, roots, n_roots, plan));
    attends = arena_calloc(&s->scratch, s->n_roots + 1, sizeof(*attends));
    return attends ? build_items(s, plan, attends) : sched_no_memory(s);
}
