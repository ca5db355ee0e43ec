/* The structure of the graph under some tensors, and its values.
 *
 * Leaves are numbered, and whatever may be another number from one run to the
 * next has the number of a value in its place: constants, offsets and sizes. So
 * a graph that differs in these alone is the same node. Only these stay: sizes
 * of 1, which are repeated; slices of all of an axis; sizes of symbols; and
 * what the program's own kernels are given.
 *
 * Leaves and values are numbered as they are first met, depth first from the
 * roots: that is the same from step to step, which of the nodes are older is
 * not. The last root is the first: of a training step the last layer's
 * parameters, whose gradients are there first, as nobody else waits for what
 * they are made of.
 */
#include "tensor/runtime/run.h"
#include "tensor/core/tensor_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/core/dims.h"
#include "tensor/core/node.h"
#include "tensor/mesh/split.h"

/* The room for so many stays from run to run. */
#define MANY_NODES 65536

/* log2 of the elements that the widest access takes: 16 bytes of 1 each. */
#define MAX_STEP 4

/* ---- values ---- */

/* The number of a new one; -1 when out of memory, which fails rt->graphs. */
static int64_t
add_value(struct tensor_runtime *rt, const struct rt_value *v)
{
    struct rt_values *values = &rt->values;

    if (host_grow((void **)&values->list, &values->cap, values->n + 1,
                  sizeof(*values->list)) != 0) {
        rt->graphs.failed = true;
        return -1;
    }
    values->list[values->n] = *v;
    return (int64_t)values->n++;
}

/* The VAR in place of a CONST. */
static const struct uop *
copy_number(struct tensor_runtime *rt, const struct uop *u)
{
    const struct uop_dims *scalar = uop_dims(&rt->graphs, NULL, 0);
    union uop_arg number;

    number.i =
        add_value(rt, &(struct rt_value){.bits = u->arg.bits,
                                         .dtype = u->dtype,
                                         .is_fixed = u->dtype == UOP_BOOL});
    if (number.i < 0 || !scalar)
        return &uop_failed;
    return uop_new_shaped(&rt->graphs, UOP_VAR, u->dtype, number, NULL, 0,
                          scalar);
}

/* The word in place of a size that may be another. */
static int64_t
number_size(struct tensor_runtime *rt, int64_t d)
{
    if (d == 1 || dim_is_expr(d))
        return d;
    rt->values.sizes_hash = hash_add(rt->values.sizes_hash, (uint64_t)d);
    return rt_size_of((uint32_t)add_value(
        rt, &(struct rt_value){
                .bits = (uint64_t)d, .is_fixed = true, .is_size = true}));
}

/* The number of a value that is a size of symbols. */
static int64_t
add_varied_code(struct tensor_runtime *rt, int64_t code)
{
    rt->values.n_codes++;
    return add_value(rt, &(struct rt_value){.bits = (uint64_t)dim_value(
                                                rt->values.dims, code, NULL),
                                            .code = code});
}

/* The number of an offset that is another at each place of a mesh: the arg of
 * such a SHRINK is tensor/mesh/split.h's. */
static int64_t
add_place_offset(struct tensor_runtime *rt, const int64_t *arg,
                 uint32_t max_step)
{
    rt->values.n_codes++;
    return add_value(
        rt, &(struct rt_value){.bits = (uint64_t)arg[1],
                               .max_step = (uint8_t)max_step,
                               .n_coords = mesh_offset_coords(arg[0]),
                               .coord_stride = mesh_offset_stride(arg[0])});
}

/* The symbols' values, after all nodes. */
static bell_status
add_symbols(struct tensor_runtime *rt)
{
    uint32_t rest;

    if (rt->values.odd)
        return bell_fail(BELL_BAD_SHAPE, "%s", rt->values.odd);
    for (rest = rt->values.symbols; rest; rest &= rest - 1) {
        if (add_varied_code(
                rt, rt->values.dims->symbols[__builtin_ctz(rest)].dim) < 0)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for values");
    }
    return BELL_OK;
}

/* log2 of the factor of an offset along the axis that can matter: what is
 * behind the axis has one of its own, where the tensor lies as it is. */
static uint32_t
max_step_of(const struct tensor_runtime *rt, const struct uop_dims *from,
            uint32_t axis)
{
    uint32_t log2 = 0, i;

    for (i = axis + 1; i < from->n && !rt->target.lower.wgmma_k[UOP_F16]; i++) {
        if (from->d[i] > 0 && !dim_is_expr(from->d[i]))
            log2 += log2_floor(lowest_bit((uint64_t)from->d[i]));
    }
    return log2 < MAX_STEP ? MAX_STEP - log2 : 0;
}

/* Notes what such a use of the copies says of them. */
static void
note_use(struct tensor_runtime *rt, enum uop_op op,
         const struct uop *const *src)
{
    const struct uop *exponent;

    if (op == UOP_REDUCE_AXIS)
        rt->values.has_product |= rt_vary_peel(src[0])->op == UOP_MUL;
    if (op != UOP_POW)
        return;
    exponent = rt_vary_peel(src[1]);
    if (exponent->op == UOP_VAR)
        rt->values.list[exponent->arg.i].is_fixed = true;
}

/* ---- nodes ---- */

/* Its arg is its number and its shape. Which buffer it is, the run remembers:
 * the plan is for any. */
static bool
number_leaf(struct rt_run *run, const struct uop *u,
            const struct uop_dims *shape)
{
    struct rt_values *values = &run->rt->values;
    struct tensor_buffer *buf;

    if (host_grow((void **)&run->leaves, &run->cap_leaves, run->n_leaves + 1,
                  sizeof(*run->leaves)) != 0) {
        run->rt->graphs.failed = true;
        return false;
    }
    buf = (struct tensor_buffer *)(uintptr_t)u->arg.data;
    run->leaves[run->n_leaves++] = buf;
    if (values->dims && buf->role == TENSOR_MEMORY &&
        buf->n_elems != dims_numel(values->dims, shape->d, shape->n))
        values->odd = "a tensor was made when a symbol that it has a size of "
                      "had another value";
    return true;
}

/* A node being copied, whose sources were. */
struct copying {
    struct rt_run *run;
    const struct uop *u;
    const struct uop_dims *shape, *from; /* its, and of its source 0 or NULL */
    const struct uop *src[UOP_MAX_CALL_SRC];
    const int64_t *was;              /* of the copy of source 0 */
    int64_t d[TN_MAX_RANK + 1], *to; /* of the copy: its number, its shape */
    int64_t move[4 * TN_MAX_RANK];   /* arg of a movement, */
    uint32_t n_move;                 /* so long */
};

/* The arg is pairs: before and after what is added, or begin and end of what is
 * taken, as for an offset of 0; then the number of the value, or 0, that is the
 * offset of the axis, and 1. */
static void
copy_move(struct copying *c)
{
    struct tensor_runtime *rt = c->run->rt;
    struct dim_table *t = rt->values.dims;
    const int64_t *arg = c->u->arg.dims->d;
    uint32_t n = c->shape->n, i;
    bool shrinks = c->u->op == UOP_SHRINK;

    memset(c->move, 0, 4 * n * sizeof(*c->move));
    c->n_move = 2 * n;
    for (i = 0; i < n; i++) {
        int64_t at = arg[2 * i], end = arg[2 * i + 1];
        int64_t size = shrinks ? dim_less(t, end, at) : dim_plus(t, end, at);
        int64_t *var = &c->move[2 * (n + i)];

        c->to[i] = c->was[i];
        if (size == (shrinks ? c->from->d[i] : 0)) { /* there is no room */
            c->move[2 * i + 1] = shrinks ? c->was[i] : 0;
            continue;
        }
        c->to[i] = number_size(rt, c->shape->d[i]);
        c->move[2 * i + 1] = shrinks ? c->to[i] : number_size(rt, size);
        var[0] = 1 + (c->u->arg.dims->n > 2 * n
                          ? add_place_offset(rt, &arg[2 * (n + i)],
                                             max_step_of(rt, c->from, i))
                      : dim_is_expr(at)
                          ? add_varied_code(rt, at)
                          : add_value(rt, &(struct rt_value){
                                              .bits = (uint64_t)at,
                                              .max_step = (uint8_t)max_step_of(
                                                  rt, c->from, i)}));
        var[1] = 1;
        c->n_move = 4 * n;
    }
}

/* The shape of what makes none of its own: that of its first source that has
 * one. A node is found by its arg and sources, so no other may say it. */
static void
copy_shape(struct copying *c)
{
    struct uop_graph *g = &c->run->rt->graphs;
    uint32_t s;

    for (s = 0; s < c->u->n_src; s++) {
        if (uop_shape(c->run->graph, c->u->src[s]) == c->shape) {
            memcpy(c->to, uop_shape(g, c->src[s])->d,
                   c->shape->n * sizeof(*c->to));
            return;
        }
    }
    memcpy(c->to, c->shape->d, c->shape->n * sizeof(*c->to));
}

static void
number_shape(struct copying *c)
{
    const struct uop *u = c->u;
    uint32_t i, n = c->shape->n;

    switch ((int)u->op) {
    case UOP_BUFFER:
    case UOP_IOTA:
    case UOP_RESHAPE:
    case UOP_EXPAND:
        for (i = 0; i < n; i++)
            c->to[i] = u->op == UOP_EXPAND && c->from->n == n &&
                               c->from->d[i] == c->shape->d[i]
                           ? c->was[i]
                           : number_size(c->run->rt, c->shape->d[i]);
        break;
    case UOP_PERMUTE:
        for (i = 0; i < n; i++)
            c->to[i] = c->was[u->arg.dims->d[i]];
        break;
    case UOP_REDUCE_AXIS:
        for (i = 0; i < n; i++)
            c->to[i] = uop_reduce_axes(u) >> i & 1 ? 1 : c->was[i];
        break;
    case UOP_PAD:
    case UOP_SHRINK:
        copy_move(c);
        break;
    case UOP_GATHER: /* its index's */
        memcpy(c->to, uop_shape(&c->run->rt->graphs, c->src[1])->d,
               n * sizeof(*c->to));
        break;
    case UOP_CALL: /* the sizes are in its arg, which has numbers */
    case UOP_PART:
        memcpy(c->to, c->shape->d, n * sizeof(*c->to));
        break;
    default:
        copy_shape(c);
    }
}

/* DETACH says nothing to kernels and goes here. */
static const struct uop *
copy_node(struct rt_run *run, const struct uop *u)
{
    struct tensor_runtime *rt = run->rt;
    struct uop_graph *to = &rt->graphs;
    struct copying c; /* of 2 KiB: not cleared */
    union uop_arg arg = u->arg;
    const struct uop_dims *shape;
    uint32_t i;

    c.run = run;
    c.u = u;
    c.to = &c.d[1];
    for (i = 0; i < u->n_src && i < UOP_MAX_CALL_SRC; i++)
        c.src[i] = rt->copies[u->src[i]->id].to;
    if (u->op == UOP_DETACH)
        return c.src[0];
    if (u->op == UOP_CONST)
        return copy_number(rt, u);
    note_use(rt, u->op, c.src);
    c.shape = uop_shape(run->graph, u);
    c.from = NULL;
    if (u->n_src) {
        c.from = uop_shape(run->graph, u->src[0]);
        c.was = uop_shape(to, c.src[0])->d;
    }
    c.d[0] = (int64_t)run->n_leaves;
    if (u->op == UOP_BUFFER && !number_leaf(run, u, c.shape))
        return &uop_failed;
    number_shape(&c);
    shape = uop_dims(to, c.to, c.shape->n);
    if (u->op == UOP_BUFFER)
        arg = (union uop_arg){.dims = uop_dims(to, c.d, c.shape->n + 1)};
    else if (u->op == UOP_PAD || u->op == UOP_SHRINK)
        arg.dims = uop_dims(to, c.move, c.n_move);
    else if (u->op == UOP_IOTA)
        arg.i = c.to[0];
    else if (u->op == UOP_RESHAPE || u->op == UOP_EXPAND)
        arg.dims = shape;
    else if (uop_op_infos[u->op].arg_kind == UOP_ARG_DIMS)
        arg.dims = uop_dims(to, u->arg.dims->d, u->arg.dims->n);
    return to->failed ? &uop_failed
                      : uop_new_shaped(to, u->op, u->dtype, arg, c.src,
                                       u->n_src, shape);
}

/* Notes the symbols of a node's shape. */
static void
note_symbols(struct rt_values *values, const struct uop_dims *shape)
{
    uint32_t i;

    for (i = 0; values->dims && i < shape->n; i++)
        values->symbols |= dim_symbols(values->dims, shape->d[i]);
}

/* Room for every node of the context's graph; what is new is of no run. */
static bool
grow_copies(struct rt_run *run)
{
    struct tensor_runtime *rt = run->rt;
    size_t was = rt->cap_copies;

    if (host_grow((void **)&rt->copies, &rt->cap_copies, run->graph->n_nodes,
                  sizeof(*rt->copies)) != 0)
        return false;
    memset(rt->copies + was, 0, (rt->cap_copies - was) * sizeof(*rt->copies));
    return true;
}

/* Notes that `u` is to be copied; false if it was, or out of memory, which
 * fails rt->graphs. */
static bool
meet(struct tensor_runtime *rt, const struct uop *u, size_t depth)
{
    struct rt_copy *copy = &rt->copies[u->id];

    if (copy->run == rt->n_numbered)
        return false;
    copy->run = rt->n_numbered;
    if (host_grow((void **)&rt->visits, &rt->cap_visits, depth + 1,
                  sizeof(*rt->visits)) != 0) {
        rt->graphs.failed = true;
        return false;
    }
    rt->visits[depth] = (struct rt_visit){u, 0};
    return true;
}

/* A node that was there has the label of this run from now on. */
static void
mark_copy(const struct rt_run *run, const struct uop *u)
{
    struct uop_graph *to = &run->rt->graphs;
    const struct uop *copy = run->rt->copies[u->id].to;

    if (to->has_marks && copy != &uop_failed && u->op != UOP_DETACH)
        to->marks[copy->id] = uop_mark(run->graph, u);
}

/* Without recursion: a graph may be a million nodes deep. */
static const struct uop *
copy_under(struct rt_run *run, const struct uop *root)
{
    struct tensor_runtime *rt = run->rt;
    size_t depth = meet(rt, root, 0);

    while (depth && !rt->graphs.failed) {
        struct rt_visit *top = &rt->visits[depth - 1];
        struct rt_copy *copy;

        if (top->n_done < top->u->n_src) {
            depth += meet(rt, top->u->src[top->n_done++], depth);
            continue;
        }
        note_symbols(&rt->values, uop_shape(run->graph, top->u));
        copy = &rt->copies[top->u->id];
        copy->value = (uint32_t)rt->values.n;
        copy->to = copy_node(run, top->u);
        copy->n_values = (uint32_t)rt->values.n - copy->value;
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
    rt->values = (struct rt_values){
        .list = rt->values.list,
        .cap = rt->values.cap,
        .sizes_hash = 1, /* 0 is any */
        .dims = run->ctx->dims->n_symbols ? run->ctx->dims : NULL,
    };
    for (r = 0; r < run->n && !rt->graphs.failed; r++)
        run->roots[r] = copy_under(
            run, run->nodes ? run->nodes[run->n - 1 - r]
                            : tensor_at(run->tensors[run->n - 1 - r])->uop);
    BELL_TRY(uop_graph_status(&rt->graphs));
    BELL_TRY(add_symbols(rt));
    *out_sink =
        uop_new(&rt->graphs, UOP_SINK, UOP_VOID, 1, none, run->roots, run->n);
    return uop_graph_status(&rt->graphs);
}
