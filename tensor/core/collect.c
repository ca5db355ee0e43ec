/* Leaf buffers, and giving back what no live tensor reaches.
 *
 * A collection marks what the handles reach. Buffers that are not reached
 * lose the graph's reference, and when the graph has more than twice as many
 * nodes as are reached (and 64 Ki), the reached ones are copied to a fresh
 * graph. It costs time in proportion to the live nodes, and is due when
 *   - the graph has grown past the limit above, or
 *   - the bytes of buffers made, and of those whose handles went, are at least
 *     1 MiB and 1/8 of all (a buffer counts as 4 KiB at least),
 * and what happened since the last one pays for it: nodes made and handles
 * gone are 1/4 of the live nodes (or the bytes are half of all). So a training
 * loop holds at most about a step's buffers that are dead, and a program that
 * keeps a large graph does not walk it at every small scope.
 */
#include "tensor/core/tensor_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tensor/core/rules.h"
#include "tensor/core/node.h"
#include "tensor/core/trace.h"

#define MIN_NODES ((size_t)8 << 10)
#define MIN_BYTES ((size_t)1 << 20)

/* ---- buffers ---- */

static void
add_buffer(struct tensor_buffer *buf)
{
    struct bell_context *ctx = buf->ctx;

    buf->next = ctx->buffers;
    ctx->buffers = buf;
    ctx->n_buffers++;
    ctx->buffer_bytes += buf->size_bytes;
    ctx->bytes_since_collect += tensor_buffer_cost(buf);
}

static bell_status
create_buffer(struct bell_context *ctx, enum uop_dtype dtype, uint64_t n_elems,
              const struct tensor_part *parts, void *data,
              struct tensor_buffer **out_buf)
{
    size_t elem_bytes = uop_dtype_infos[dtype].size_bytes;
    struct tensor_buffer *buf;
    bell_status status;

    assert(dtype < UOP_DTYPE_COUNT && elem_bytes > 0);
    if (n_elems > (uint64_t)TN_MAX_NUMEL)
        return bell_fail(BELL_E_NO_MEMORY,
                         "a buffer of %llu elements: out of memory",
                         (unsigned long long)n_elems);
    buf = host_calloc(1, sizeof(*buf));
    if (!buf)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a buffer");
    buf->ctx = ctx;
    buf->dtype = dtype;
    buf->n_elems = n_elems;
    buf->size_bytes = (size_t)n_elems * elem_bytes;
    buf->refcount = 1;
    if (parts)
        memcpy(buf->parts, parts, sizeof(buf->parts));
    status = data ? tensor_buffer_pin(ctx, buf, data)
                  : tensor_buffer_alloc(ctx, buf);
    if (status != BELL_OK) {
        host_free(buf);
        bell_error_frame("tensor_buffer_create");
        return status;
    }
    add_buffer(buf);
    *out_buf = buf;
    return BELL_OK;
}

bell_status
tensor_buffer_create(struct bell_context *ctx, enum uop_dtype dtype,
                     uint64_t n_elems, struct tensor_buffer **out_buf)
{
    return create_buffer(ctx, dtype, n_elems, NULL, NULL, out_buf);
}

bell_status
tensor_buffer_create_split(struct bell_context *ctx, enum uop_dtype dtype,
                           uint64_t n_elems,
                           const struct tensor_part parts[BELL_MESH_AXES],
                           struct tensor_buffer **out_buf)
{
    return create_buffer(ctx, dtype, n_elems, parts, NULL, out_buf);
}

bell_status
tensor_buffer_create_held(struct bell_context *ctx, enum uop_dtype dtype,
                          uint64_t n_elems, const void *data,
                          struct tensor_buffer *held_by,
                          const struct tensor_part parts[BELL_MESH_AXES],
                          struct tensor_buffer **out_buf)
{
    struct tensor_buffer *buf = host_calloc(1, sizeof(*buf));
    size_t n_bytes = (size_t)n_elems * uop_dtype_infos[dtype].size_bytes;
    void *held = data ? host_alloc(n_bytes + 1) : NULL;

    assert(!data != !held_by);
    if (!buf || (data && !held)) {
        host_free(buf);
        host_free(held);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu bytes",
                         n_bytes);
    }
    if (data)
        memcpy(held, data, n_bytes);
    buf->ctx = ctx;
    buf->dtype = dtype;
    buf->n_elems = n_elems;
    buf->size_bytes = n_bytes;
    buf->refcount = 1;
    buf->held = held;
    buf->held_by = held_by;
    if (parts)
        memcpy(buf->parts, parts, sizeof(buf->parts));
    add_buffer(buf);
    *out_buf = buf;
    return BELL_OK;
}

bell_status
tensor_buffer_create_blob(struct bell_context *ctx, enum uop_dtype dtype,
                          uint64_t n_elems, void *data,
                          struct tensor_buffer **out_buf)
{
    assert(data && n_elems > 0);
    return create_buffer(ctx, dtype, n_elems, NULL, data, out_buf);
}

bell_status
tensor_stand_in(struct bell_context *ctx, enum uop_dtype dtype,
                uint64_t n_elems, enum tensor_role role, uint32_t number,
                const struct tensor_part *parts, struct tensor_buffer **out_buf)
{
    struct tensor_buffer *buf = host_calloc(1, sizeof(*buf));

    if (!buf)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a stand-in");
    buf->ctx = ctx;
    buf->dtype = dtype;
    buf->n_elems = n_elems;
    buf->size_bytes = (size_t)n_elems * uop_dtype_infos[dtype].size_bytes;
    buf->refcount = 1;
    buf->role = role;
    buf->number = number;
    buf->slot = UINT32_MAX;
    if (parts)
        memcpy(buf->parts, parts, sizeof(buf->parts));
    buf->next = ctx->buffers;
    ctx->buffers = buf;
    *out_buf = buf;
    return BELL_OK;
}

void
tensor_buffer_retain(struct tensor_buffer *buf)
{
    assert(buf->refcount > 0);
    buf->refcount++;
}

/* Its maker has a reference and the graph one, however many nodes name it.
 * Memory goes at 0; the record when no node names it any more (reap_buffers).
 * */
void
tensor_buffer_release(struct tensor_buffer *buf)
{
    struct tensor_buffer *laid;
    bool is_empty;

    assert(buf->refcount > 0);
    if (--buf->refcount > 0)
        return;
    while (buf->laid) {
        laid = buf->laid;
        buf->laid = laid->next_laid;
        laid->n_kept--;
        tensor_buffer_release(laid); /* which has none itself */
    }
    is_empty = !buf->held && !buf->held_by;
    host_free(buf->held);
    buf->held = NULL;
    buf->held_by = NULL;
    if (!buf->device_mem && is_empty)
        return;
    if (buf->device_mem)
        tensor_buffer_free(buf);
    buf->ctx->n_buffers--;
    buf->ctx->buffer_bytes -= buf->size_bytes;
}

/* The node is interned by its buffer and has the shape that it was first made
 * with: another shape is a RESHAPE of it. */
const struct uop *
tensor_buffer_node(struct bell_context *ctx, struct tensor_buffer *buf,
                   const struct uop_dims *shape)
{
    union uop_arg arg = {.bits = 0};
    const struct uop *u;

    assert(buf->refcount > 0);
    if (!shape)
        return &uop_failed;
    arg.data = buf;
    u = uop_new_shaped(&ctx->graph, UOP_BUFFER, buf->dtype, arg, NULL, 0,
                       shape);
    if (tn_bad(u))
        return u;
    if (!buf->in_graph) {
        buf->in_graph = true;
        tensor_buffer_retain(buf);
    }
    return tn_reshape(ctx, u, shape->d, shape->n);
}

/* The tensor is a leaf from now on: what it was computed from is no longer
 * needed by it. */
bell_status
tensor_set_buffer(struct bell_tensor *t, struct tensor_buffer *buf)
{
    struct bell_context *ctx = tensor_at(t)->ctx;
    const struct uop_dims *shape = tensor_at(t)->shape;
    int64_t now[TN_MAX_RANK];
    const struct uop *u, *old = tensor_at(t)->uop;
    bool forgets = old->op != UOP_BUFFER && !tn_peel(old);
    uint32_t i;

    if (tensor_at(t)->flags & TENSOR_VARIES && buf->role == TENSOR_MEMORY) {
        for (i = 0; i < shape->n; i++)
            now[i] = dim_value(ctx->dims, shape->d[i], NULL);
        shape = uop_dims(&ctx->graph, now, shape->n);
    }
    u = tensor_buffer_node(ctx, buf, shape);

    assert(buf->refcount > 0);
    if (tn_bad(u)) {
        ctx->graph.failed = false;
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a buffer's node");
    }
    tensor_set_node(t, u);
    if (forgets)
        tensor_at(t)->flags |= TENSOR_FORGETS;
    if (tensor_at(t)->flags & TENSOR_ASSIGNED) {
        tensor_at(t)->flags &= ~(uint32_t)TENSOR_ASSIGNED;
        ctx->n_assigned--;
    }
    return BELL_OK;
}

/* ---- marking ---- */

struct marker {
    struct bell_context *ctx;
    uint8_t *mark; /* by node id */
    const struct uop **stack;
    size_t n_stack, n_live;
};

/* Each node is pushed at most once, so the stack has room for all. */
static void
mark_push(struct marker *m, const struct uop *u)
{
    assert(u->id < m->ctx->graph.n_nodes);
    if (m->mark[u->id])
        return;
    m->mark[u->id] = 1;
    m->n_live++;
    m->stack[m->n_stack++] = u;
}

/* Without recursion: a graph may be a million nodes deep. A node that a
 * gradient rule names is needed as long as its node is. */
static void
mark_from(struct marker *m, const struct uop *root)
{
    assert(root->id < m->ctx->graph.n_nodes);
    mark_push(m, root);
    while (m->n_stack) {
        const struct uop *u = m->stack[--m->n_stack];
        const struct tensor_rule *rule = tensor_rule_find(m->ctx, u);
        uint32_t i;

        if (u->op == UOP_BUFFER)
            ((struct tensor_buffer *)(uintptr_t)u->arg.data)->mark = true;
        for (i = 0; i < u->n_src; i++)
            mark_push(m, u->src[i]);
        for (i = 0; rule && tensor_rule_source(rule, i); i++)
            mark_push(m, tensor_rule_source(rule, i));
    }
}

/* Handles are the roots, gradients of handles among them (tensor_next). */
static bool
mark_live(struct marker *m)
{
    struct bell_context *ctx = m->ctx;
    struct tensor_buffer *buf;
    struct tensor *t;
    struct tensor_iter it;

    m->mark = host_calloc(ctx->graph.n_nodes + 1, sizeof(*m->mark));
    m->stack = host_alloc((ctx->graph.n_nodes + 1) * sizeof(*m->stack));
    if (!m->mark || !m->stack)
        return false;
    for (buf = ctx->buffers; buf; buf = buf->next)
        buf->mark = false;
    for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it))
        mark_from(m, t->uop);
    return true;
}

/* The graph lets go of buffers that only dead nodes name, also where the graph
 * itself is not copied. */
static void
drop_unmarked(struct bell_context *ctx)
{
    struct tensor_buffer *buf;

    for (buf = ctx->buffers; buf; buf = buf->next) {
        if (buf->in_graph && !buf->mark) {
            buf->in_graph = false;
            tensor_buffer_release(buf);
        }
    }
}

/* ---- compaction ---- */

/* Copies one node; its sources were copied. */
static const struct uop *
collect_copy_node(struct uop_graph *to, const struct uop_graph *from,
                  const struct uop *u, const struct uop *const *copies)
{
    const struct uop_dims *shape = from->shapes[u->id];
    const struct uop *src[UOP_MAX_CALL_SRC];
    union uop_arg arg = u->arg;
    uint32_t i;

    assert(u->n_src <= UOP_MAX_CALL_SRC);
    assert(u->id < from->n_nodes);
    for (i = 0; i < u->n_src; i++)
        src[i] = copies[u->src[i]->id];
    if (uop_op_infos[u->op].arg_kind == UOP_ARG_DIMS)
        arg.dims = uop_dims(to, u->arg.dims->d, u->arg.dims->n);
    if (shape)
        shape = uop_dims(to, shape->d, shape->n);
    if (to->failed)
        return &uop_failed;
    to->mark = uop_mark(from, u);
    return uop_new_shaped(to, u->op, u->dtype, arg, src, u->n_src, shape);
}

/* The rules of live nodes, with moved nodes. */
static bool
move_rules(struct bell_context *ctx, const struct uop *const *copies,
           const uint8_t *mark)
{
    struct map rule_of;
    size_t i, kept = 0;
    uint32_t j;

    map_init(&rule_of);
    for (i = 0; i < ctx->n_rules; i++) {
        if (mark[ctx->rules[i].node->id] &&
            map_put(&rule_of, copies[ctx->rules[i].node->id]->id, kept++) != 0)
            goto fail;
    }
    for (i = kept = 0; i < ctx->n_rules; i++) {
        struct tensor_rule rule = ctx->rules[i];
        if (!mark[rule.node->id]) {
            tensor_custom_free(rule.custom);
            continue;
        }
        for (j = 0; rule.custom && tensor_rule_source(&rule, j); j++)
            rule.custom->nodes[j] = copies[rule.custom->nodes[j]->id];
        rule.node = copies[rule.node->id];
        rule.a = copies[rule.a->id];
        rule.b = rule.b ? copies[rule.b->id] : NULL;
        ctx->rules[kept++] = rule;
    }
    ctx->n_rules = kept;
    map_fini(&ctx->rule_of);
    ctx->rule_of = rule_of;
    return true;
fail:
    map_fini(&rule_of);
    return false;
}

/* Structures of buffers that no node names any more. */
static void
reap_buffers(struct bell_context *ctx)
{
    struct tensor_buffer **at = &ctx->buffers;

    while (*at) {
        struct tensor_buffer *buf = *at;
        if (buf->refcount == 0 && !buf->mark) {
            *at = buf->next;
            host_free(buf);
        } else {
            at = &buf->next;
        }
    }
}

/* Nodes are never freed one by one: what lives is copied into a new graph, in
 * the order of ids, so that sources come before their users. */
static void
compact_graph(struct bell_context *ctx, const uint8_t *mark)
{
    const struct uop **copies =
        host_calloc(ctx->graph.n_nodes, sizeof(*copies));
    const struct uop_dims *scalar_dims;
    struct tensor *t;
    struct tensor_iter it;
    struct uop_graph to;
    size_t i;

    uop_graph_init(&to);
    to.has_marks = ctx->graph.has_marks;
    scalar_dims = uop_dims(&to, NULL, 0);
    for (i = 0; copies && i < ctx->graph.n_nodes; i++) {
        if (mark[i])
            copies[i] = collect_copy_node(&to, &ctx->graph, ctx->graph.nodes[i],
                                          copies);
    }
    if (!copies || to.failed || !move_rules(ctx, copies, mark)) {
        /* Without memory for the copy the old graph stays in use. */
        uop_graph_fini(&to);
        host_free(copies);
        return;
    }
    for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it)) {
        t->uop = copies[t->uop->id];
        t->shape = to.shapes[t->uop->id];
        if (!t->shape)
            t->shape = scalar_dims;
    }
    LOG(LOG_MEM, "tensor graph: %zu of %zu nodes kept", to.n_nodes,
        ctx->graph.n_nodes);
    to.mark_of = ctx->graph.mark_of;
    to.mark_user = ctx->graph.mark_user;
    uop_graph_fini(&ctx->graph);
    ctx->graph = to;
    ctx->scalar_dims = scalar_dims;
    tensor_at(ctx->error_tensor)->shape = scalar_dims;
    ctx->n_compactions++;
    reap_buffers(ctx);
    host_free(copies);
}

/* Marking costs as much as there are live nodes. It waits until as much has
 * been built or dropped as a quarter of that, or until memory of the device is
 * at stake. */
static bool
is_due(const struct bell_context *ctx)
{
    size_t work = ctx->graph.n_nodes - ctx->nodes_at_collect + ctx->n_dropped;
    size_t bytes = ctx->bytes_since_collect;
    bool paid = work >= ctx->live_nodes / 4;

    if (ctx->graph.n_nodes > MIN_NODES &&
        (ctx->graph.n_nodes > 2 * ctx->live_nodes || ctx->n_dropped) && paid)
        return true;
    return bytes >= MIN_BYTES && bytes >= ctx->buffer_bytes / 8 &&
           (paid || bytes >= ctx->buffer_bytes / 2);
}

void
tensor_collect(struct bell_context *ctx)
{
    struct marker m = {.ctx = ctx};

    if (ctx->trace || ctx->n_custom_calls || !is_due(ctx))
        return;
    if (mark_live(&m)) {
        drop_unmarked(ctx);
        ctx->live_nodes = m.n_live;
        if (ctx->graph.n_nodes > MIN_NODES && ctx->graph.n_nodes > 2 * m.n_live)
            compact_graph(ctx, m.mark);
        ctx->bytes_since_collect = 0;
        ctx->n_dropped = 0;
        ctx->nodes_at_collect = ctx->graph.n_nodes;
    }
    host_free(m.mark);
    host_free(m.stack);
}
