/* The graph under some tensors, with its leaves numbered: a graph of the same
 * structure over other buffers is the same node.
 *
 * Leaves are numbered as they are first met, depth first from the roots: that
 * is the same from step to step, which of the nodes are older is not. The last
 * root is the first: of a training step the last layer's parameters, whose
 * gradients are there first, as nobody else waits for what they are made of.
 */
#include "tensor/runtime/run.h"
#include "tensor/core/tensor_internal.h"

#include <string.h>

#include "base/alloc.h"

/* The room for so many stays from run to run. */
#define MANY_NODES 65536

/* A buffer becomes its number and its shape. Which buffer it is, the run
 * remembers: the plan is for any of that shape. */
static const struct uop *
copy_buffer(struct rt_run *run, const struct uop *u)
{
    struct uop_graph *to = run->rt->into;
    const struct uop_dims *shape = uop_shape(&run->ctx->graph, u);
    int64_t d[BELL_MAX_RANK + 1];
    struct tensor_buffer *buf;
    union uop_arg arg;

    if (host_grow((void **)&run->leaves, &run->cap_leaves, run->n_leaves + 1,
                  sizeof(*run->leaves)) != 0)
        return &uop_failed;
    buf = (struct tensor_buffer *)(uintptr_t)u->arg.data;
    run->leaves[run->n_leaves] = buf;
    if (run->rt->values.dims && buf->role == TENSOR_MEMORY &&
        buf->n_elems != dims_numel(run->rt->values.dims, shape->d, shape->n))
        run->rt->values.odd = "a tensor was made when a symbol that it has a "
                              "size of had another value";
    d[0] = (int64_t)run->n_leaves++;
    memcpy(d + 1, shape->d, shape->n * sizeof(*d));
    arg.bits = 0;
    arg.dims = uop_dims(to, d, shape->n + 1);
    shape = uop_dims(to, shape->d, shape->n);
    if (!arg.dims || !shape)
        return &uop_failed;
    return uop_new_shaped(to, UOP_BUFFER, u->dtype, arg, NULL, 0, shape);
}

static const struct uop *
copy_leaf(struct rt_run *run, const struct uop *u)
{
    struct uop_graph *to = run->rt->into;
    const struct uop_dims *shape = uop_shape(&run->ctx->graph, u);

    if (u->op == UOP_BUFFER)
        return copy_buffer(run, u);
    if (u->op == UOP_CONST)
        return rt_vary_number(run->rt, u);
    shape = uop_dims(to, shape->d, shape->n);
    return shape ? uop_new_shaped(to, u->op, u->dtype, u->arg, NULL, 0, shape)
                 : &uop_failed;
}

/* Its sources are copied. DETACH says nothing to kernels and goes here. */
static const struct uop *
copy_node(struct rt_run *run, const struct uop *u)
{
    struct uop_graph *to = run->rt->into;
    const struct uop_dims *shape = uop_shape(&run->ctx->graph, u);
    const struct uop *src[UOP_MAX_CALL_SRC];
    union uop_arg arg = u->arg;
    uint32_t i;

    if (u->n_src == 0)
        return copy_leaf(run, u);
    for (i = 0; i < u->n_src && i < UOP_MAX_CALL_SRC; i++)
        src[i] = run->rt->copies[u->src[i]->id].to;
    if (u->op == UOP_DETACH)
        return src[0];
    rt_vary_note(run->rt, u->op, src);
    if (u->op == UOP_PAD || u->op == UOP_SHRINK) {
        arg.dims =
            rt_vary_move(run->rt, u, uop_shape(&run->ctx->graph, u->src[0]));
        if (!arg.dims)
            return &uop_failed;
    } else if (uop_op_infos[u->op].arg_kind == UOP_ARG_DIMS) {
        arg.dims = uop_dims(to, u->arg.dims->d, u->arg.dims->n);
        if (!arg.dims)
            return &uop_failed;
    }
    shape = uop_dims(to, shape->d, shape->n);
    if (!shape)
        return &uop_failed;
    return uop_new_shaped(to, u->op, u->dtype, arg, src, u->n_src, shape);
}

/* Room for every node of the context's graph; what is new is of no run. */
static bool
grow_copies(struct rt_run *run)
{
    struct tensor_runtime *rt = run->rt;
    size_t was = rt->cap_copies;

    if (host_grow((void **)&rt->copies, &rt->cap_copies,
                  run->ctx->graph.n_nodes, sizeof(*rt->copies)) != 0)
        return false;
    memset(rt->copies + was, 0, (rt->cap_copies - was) * sizeof(*rt->copies));
    return true;
}

/* Notes that `u` is to be copied; false if it was, or out of memory, which
 * fails rt->into. */
static bool
meet(struct tensor_runtime *rt, const struct uop *u, size_t depth)
{
    struct rt_copy *copy = &rt->copies[u->id];

    if (copy->run == rt->n_numbered)
        return false;
    copy->run = rt->n_numbered;
    if (host_grow((void **)&rt->visits, &rt->cap_visits, depth + 1,
                  sizeof(*rt->visits)) != 0) {
        rt->into->failed = true;
        return false;
    }
    rt->visits[depth] = (struct rt_visit){u, 0};
    return true;
}

/* A node that was there has the label of this run from now on. */
static void
mark_copy(const struct rt_run *run, const struct uop *u)
{
    struct uop_graph *to = run->rt->into;
    const struct uop *copy = run->rt->copies[u->id].to;

    if (to->has_marks && copy != &uop_failed && u->op != UOP_DETACH)
        to->marks[copy->id] = uop_mark(&run->ctx->graph, u);
}

/* Without recursion: a graph may be a million nodes deep. */
static const struct uop *
copy_under(struct rt_run *run, const struct uop *root)
{
    struct tensor_runtime *rt = run->rt;
    size_t depth = meet(rt, root, 0);

    while (depth && !rt->into->failed) {
        struct rt_visit *top = &rt->visits[depth - 1];

        if (top->n_done < top->u->n_src) {
            depth += meet(rt, top->u->src[top->n_done++], depth);
            continue;
        }
        rt_vary_shape(rt, uop_shape(&run->ctx->graph, top->u));
        rt->copies[top->u->id].to = copy_node(run, top->u);
        mark_copy(run, top->u);
        depth--;
    }
    return rt->copies[root->id].to;
}

void
rt_number_trim(struct tensor_runtime *rt)
{
    if (rt->cap_copies > MANY_NODES) {
        host_free(rt->copies);
        rt->copies = NULL;
        rt->cap_copies = 0;
    }
    if (rt->cap_visits > MANY_NODES) {
        host_free(rt->visits);
        rt->visits = NULL;
        rt->cap_visits = 0;
    }
}

bell_status
rt_number(struct rt_run *run, const struct uop **out_sink)
{
    struct tensor_runtime *rt = run->rt;
    union uop_arg none = {.bits = 0};
    uint32_t r;

    if (!grow_copies(run))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    rt->n_numbered++;
    run->n_leaves = 0;
    rt->values.n = 0;
    rt->values.has_product = false;
    rt->values.dims = run->ctx->dims->n_symbols ? run->ctx->dims : NULL;
    rt->values.symbols = 0;
    rt->values.n_codes = 0;
    rt->values.odd = NULL;
    for (r = 0; r < run->n && !rt->into->failed; r++)
        run->roots[r] =
            copy_under(run, tensor_at(run->tensors[run->n - 1 - r])->uop);
    BELL_TRY(uop_graph_status(rt->into));
    BELL_TRY(rt_vary_symbols(rt));
    *out_sink =
        uop_new(rt->into, UOP_SINK, UOP_VOID, 1, none, run->roots, run->n);
    return uop_graph_status(rt->into);
}
