/* The graph under some tensors, with its leaves numbered: a graph of the same
 * structure over other buffers is the same node.
 *
 * Leaves are numbered by first use, in the order in which the uses were made:
 * that is the same from step to step, the age of the buffers is not.
 */
#include "tensor/runtime/run.h"
#include "tensor/tensor_internal.h"

#include <string.h>

#include "base/alloc.h"

/* A buffer becomes its number and its shape. Which buffer it is, the run
 * remembers: the plan is for any of that shape. */
static const struct uop *
copy_buffer(struct rt_run *run, const struct uop *u)
{
    struct uop_graph *to = &run->rt->graphs;
    const struct uop_dims *shape = uop_shape(&run->ctx->graph, u);
    int64_t d[BELL_MAX_RANK + 1];
    union uop_arg arg;

    if (host_grow((void **)&run->leaves, &run->cap_leaves, run->n_leaves + 1,
                  sizeof(*run->leaves)) != 0)
        return &uop_failed;
    run->leaves[run->n_leaves] = (struct tensor_buffer *)(uintptr_t)u->arg.data;
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
    struct uop_graph *to = &run->rt->graphs;
    const struct uop_dims *shape = uop_shape(&run->ctx->graph, u);

    if (u->op == UOP_BUFFER)
        return copy_buffer(run, u);
    if (u->op == UOP_CONST)
        return rt_vary_number(run->rt, u);
    shape = uop_dims(to, shape->d, shape->n);
    return shape ? uop_new_shaped(to, u->op, u->dtype, u->arg, NULL, 0, shape)
                 : &uop_failed;
}

/* DETACH says nothing to kernels and goes here. */
static const struct uop *
copy_node(struct rt_run *run, const struct uop *u, const struct uop **copies)
{
    struct uop_graph *to = &run->rt->graphs;
    const struct uop_dims *shape = uop_shape(&run->ctx->graph, u);
    const struct uop *src[3];
    union uop_arg arg = u->arg;
    uint32_t i;

    for (i = 0; i < u->n_src && i < 3; i++) {
        if (u->src[i]->n_src == 0 && !copies[u->src[i]->id])
            copies[u->src[i]->id] = copy_leaf(run, u->src[i]);
        src[i] = copies[u->src[i]->id];
    }
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

bell_status
rt_number(struct rt_run *run, const struct uop **out_sink)
{
    struct tensor_runtime *rt = run->rt;
    const struct uop **list;
    union uop_arg none = {.bits = 0};
    size_t n, i;
    uint32_t r;

    for (r = 0; r < run->n; r++)
        run->roots[r] = run->tensors[r]->uop;
    if (host_grow((void **)&rt->copies, &rt->cap_copies,
                  run->ctx->graph.n_nodes, sizeof(*rt->copies)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    BELL_TRY(uop_toposort(&run->ctx->graph, run->roots, run->n, &list, &n));
    for (i = 0; i < n; i++)
        rt->copies[list[i]->id] = NULL;
    rt->values.n = 0;
    rt->values.has_product = false;
    for (i = 0; i < n && !rt->graphs.failed; i++) {
        if (list[i]->n_src)
            rt->copies[list[i]->id] = copy_node(run, list[i], rt->copies);
    }
    host_free(list);
    BELL_TRY(uop_graph_status(&rt->graphs));
    for (r = 0; r < run->n; r++) {
        if (!rt->copies[run->roots[r]->id])
            rt->copies[run->roots[r]->id] = copy_leaf(run, run->roots[r]);
        run->roots[r] = rt->copies[run->roots[r]->id];
        if (run->roots[r] == &uop_failed)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    }
    *out_sink =
        uop_new(&rt->graphs, UOP_SINK, UOP_VOID, 1, none, run->roots, run->n);
    return uop_graph_status(&rt->graphs);
}
