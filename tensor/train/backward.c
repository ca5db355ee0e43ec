/* The calls that ask for gradients. */
#include "tensor/train/gradient.h"
#include "tensor/core/rules.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/node.h"
#include "tensor/core/trace.h"

/* A constant has no node of its own: equal constants are one, and a gradient
 * by one would be one by all of them. */
static bell_status
check_target(const char *call, const struct bell_tensor *x,
             const struct bell_tensor *target, uint32_t i)
{
    BELL_TRY(tensor_usable(call, target));
    tensor_trace_touch(tensor_at(target));
    if (tensor_at(target)->ctx != tensor_at(x)->ctx)
        return bell_fail_at(call, BELL_BAD_CONTEXT,
                            "%s: target %u is of another context", call, i);
    if (!uop_dtype_infos[tensor_at(target)->dtype].is_float)
        return bell_fail_at(call, BELL_BAD_DTYPE,
                            "%s: target %u is %s, not a float dtype", call, i,
                            DTYPE_OF(target));
    if (tn_peel(tensor_at(target)->uop))
        return bell_fail_at(call, BELL_BAD_STATE,
                            "%s: target %u is a constant; bell_requires_grad "
                            "or bell_realize make it a variable before it is "
                            "used",
                            call, i);
    return BELL_OK;
}

/* Two tensors of one node are one variable: what is made of the one cannot be
 * told from what is made of the other. nodes[i], where given: only those that a
 * gradient reaches. */
static bell_status
check_shared(const char *call, struct bell_tensor *const *list, uint32_t n,
             const struct uop *const *nodes)
{
    bell_status status = BELL_OK;
    const uint64_t *before;
    struct map first;
    uint32_t i;

    map_init(&first);
    for (i = 0; i < n && status == BELL_OK; i++) {
        if (nodes && !nodes[i])
            continue;
        before = map_get(&first, tensor_at(list[i])->uop->id);
        if (before && list[*before] != list[i])
            status = bell_fail_at(
                call, BELL_BAD_STATE,
                "%s: two tensors of shape %s, %s %u and %u, denote one value, "
                "and their gradients cannot be told apart; bell_requires_grad "
                "of both before they get it, by bell_assign or bell_realize, "
                "makes them two variables",
                call, SHAPE_OF(list[i]), nodes ? "variables" : "targets",
                (uint32_t)*before, i);
        else if (!before && map_put(&first, tensor_at(list[i])->uop->id, i))
            status = bell_fail_at(call, BELL_E_NO_MEMORY,
                                  "%s: out of memory for %u targets", call, n);
    }
    map_fini(&first);
    return status;
}

/* Nodes of gradients for targets; zeros where there is none. */
static bell_status
make_outputs(const char *call, struct bell_context *ctx,
             struct bell_tensor *const *targets, uint32_t n,
             const struct uop **nodes, struct bell_tensor **out_grads)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct uop *zero = tn_const(ctx, tensor_at(targets[i])->dtype, 0);
        const struct uop_dims *shape = tensor_at(targets[i])->shape;
        if (!nodes[i])
            nodes[i] = tn_full(ctx, zero, shape->d, shape->n);
        out_grads[i] = tensor_new(ctx, call, nodes[i]);
    }
    return tensor_report(ctx);
}

/* A value in memory depends on nothing: zeros for every target would hide that
 * it was read too early. */
static bell_status
check_history(const char *call, const struct bell_tensor *x,
              const struct uop *const *nodes, uint32_t n)
{
    uint32_t i;

    if (n == 0 || !(tensor_at(x)->flags & TENSOR_FORGETS))
        return BELL_OK;
    for (i = 0; i < n; i++) {
        if (nodes[i])
            return BELL_OK;
    }
    return bell_fail_at(call, BELL_BAD_STATE,
                        "%s: the result depends on no target; it was realized "
                        "before, and a value in memory has no history",
                        call);
}

/* Targets that the result does not depend on get NULL, which make_outputs
 * turns into zeros. */
static bell_status
find_gradients(const char *call, struct bell_tensor *x, const struct uop *seed,
               struct bell_tensor *const *targets, uint32_t n,
               struct bell_tensor **out_grads)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    const struct uop **nodes = host_calloc(2 * (size_t)n, sizeof(*nodes));
    bell_status status = BELL_OK;
    uint32_t i;

    if (n && (!targets || !out_grads)) {
        host_free(nodes);
        return bell_fail_at(call, BELL_BAD_MISSING,
                            "%s: the list of %s is NULL", call,
                            targets ? "results" : "targets");
    }
    if (!nodes)
        return bell_fail_at(call, BELL_E_NO_MEMORY,
                            "%s: out of memory for %u targets", call, n);
    for (i = 0; i < n && status == BELL_OK; i++) {
        status = check_target(call, x, targets[i], i);
        if (status == BELL_OK)
            nodes[n + i] = tensor_at(targets[i])->uop;
    }
    if (status == BELL_OK)
        status = check_shared(call, targets, n, NULL);
    if (status == BELL_OK)
        status =
            tensor_gradient(ctx, tensor_node(x), seed, nodes + n, n, nodes);
    if (status == BELL_OK)
        status = check_history(call, x, nodes, n);
    if (status == BELL_OK)
        status = make_outputs(call, ctx, targets, n, nodes, out_grads);
    host_free(nodes);
    return status;
}

static bell_status
check_loss(const char *call, const struct bell_tensor *loss)
{
    BELL_TRY(tensor_usable(call, loss));
    if (tensor_at(loss)->ctx->trace)
        tensor_at(loss)->ctx->trace->asks_gradients = true;
    if (!uop_dtype_infos[tensor_at(loss)->dtype].is_float)
        return bell_fail_at(call, BELL_BAD_DTYPE,
                            "%s: the loss is %s, not a float dtype", call,
                            DTYPE_OF(loss));
    if (tensor_numel(loss) != 1)
        return bell_fail_at(call, BELL_BAD_SHAPE,
                            "%s: the loss has shape %s, not one element", call,
                            SHAPE_OF(loss));
    return BELL_OK;
}

/* 1 of the loss' shape. */
static const struct uop *
make_seed(const struct bell_tensor *loss)
{
    assert(tn_numel(tensor_at(loss)->ctx, tensor_at(loss)->uop) == 1);
    return tn_full(tensor_at(loss)->ctx,
                   tn_const(tensor_at(loss)->ctx, tensor_at(loss)->dtype, 1),
                   tensor_at(loss)->shape->d, tensor_at(loss)->shape->n);
}

bell_status
bell_gradient(struct bell_tensor *loss, struct bell_tensor *const *targets,
              uint32_t n, struct bell_tensor **out_grads)
{
    BELL_TRY(check_loss(__func__, loss));
    return find_gradients(__func__, loss, make_seed(loss), targets, n,
                          out_grads);
}

bell_status
bell_vjp(struct bell_tensor *x, struct bell_tensor *v,
         struct bell_tensor *const *targets, uint32_t n,
         struct bell_tensor **out_grads)
{
    BELL_TRY(tensor_usable(__func__, x));
    BELL_TRY(tensor_usable(__func__, v));
    if (tensor_at(x)->ctx->trace)
        tensor_at(x)->ctx->trace->asks_gradients = true;
    if (tensor_at(x)->ctx != tensor_at(v)->ctx ||
        tensor_at(x)->shape != tensor_at(v)->shape ||
        tensor_at(x)->dtype != tensor_at(v)->dtype)
        return bell_fail(
            tensor_at(x)->ctx != tensor_at(v)->ctx       ? BELL_BAD_CONTEXT
            : tensor_at(x)->shape != tensor_at(v)->shape ? BELL_BAD_SHAPE
                                                         : BELL_BAD_DTYPE,
            "bell_vjp: x is %s %s, v is %s %s%s", DTYPE_OF(x), SHAPE_OF(x),
            DTYPE_OF(v), SHAPE_OF(v),
            tensor_at(x)->ctx != tensor_at(v)->ctx ? " of another context"
                                                   : "");
    if (!uop_dtype_infos[tensor_at(x)->dtype].is_float)
        return bell_fail(BELL_BAD_DTYPE, "bell_vjp: x is %s, not a float dtype",
                         DTYPE_OF(x));
    return find_gradients(__func__, x, tensor_node(v), targets, n, out_grads);
}

/* ---- bell_backward ---- */

/* The context's marked tensors; *out_list is host memory. */
static bell_status
find_marked(struct bell_context *ctx, struct bell_tensor ***out_list,
            uint32_t *out_n)
{
    struct bell_tensor **list = NULL;
    const struct tensor *t;
    size_t n = 0, cap = 0;
    struct tensor_iter it;

    for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it)) {
        if (!(t->flags & TENSOR_REQUIRES_GRAD))
            continue;
        if (host_grow((void **)&list, &cap, n + 1, sizeof(*list)) != 0) {
            host_free(list);
            return bell_fail(BELL_E_NO_MEMORY,
                             "bell_backward: out of memory for %zu tensors", n);
        }
        list[n++] = handle_of(t);
    }
    *out_list = list;
    *out_n = (uint32_t)n;
    return BELL_OK;
}

/* Adds nodes[i] (may be NULL) to list[i]'s gradient; *out_any: one was. */
static bell_status
add_gradients(struct bell_context *ctx, struct bell_tensor *const *list,
              uint32_t n, const struct uop *const *nodes, bool *out_any)
{
    uint32_t i;

    *out_any = false;
    for (i = 0; i < n; i++) {
        const struct uop *g = nodes[i];
        if (!g)
            continue;
        *out_any = true;
        if (tensor_at(list[i])->grad)
            g = tn_add(ctx, tensor_at(tensor_at(list[i])->grad)->uop, g);
        if (tn_bad(g) || !tensor_set_grad(list[i], g)) {
            ctx->graph.failed = false;
            return bell_fail(BELL_E_NO_MEMORY, "bell_backward: out of memory");
        }
    }
    return BELL_OK;
}

static bell_status
fill_gradients(struct bell_tensor *loss, struct bell_tensor *const *list,
               uint32_t n, bool *out_any)
{
    const struct uop **nodes = host_calloc(2 * (size_t)n, sizeof(*nodes));
    bell_status status;
    uint32_t i;

    if (!nodes)
        return bell_fail(BELL_E_NO_MEMORY,
                         "bell_backward: out of memory for %u targets", n);
    for (i = 0; i < n; i++)
        nodes[n + i] = tensor_at(list[i])->uop;
    status = tensor_gradient(tensor_at(loss)->ctx, tensor_node(loss),
                             make_seed(loss), nodes + n, n, nodes);
    if (status == BELL_OK)
        status = check_shared("bell_backward", list, n, nodes);
    if (status == BELL_OK)
        status = add_gradients(tensor_at(loss)->ctx, list, n, nodes, out_any);
    host_free(nodes);
    return status;
}

bell_status
bell_backward(struct bell_tensor *loss)
{
    struct bell_tensor **list = NULL;
    bell_status status = BELL_OK;
    bool any = false;
    uint32_t n;

    BELL_TRY(check_loss(__func__, loss));
    BELL_TRY(find_marked(tensor_at(loss)->ctx, &list, &n));
    if (n > 0)
        status = fill_gradients(loss, list, n, &any);
    host_free(list);
    if (status == BELL_OK && !any)
        return bell_fail(BELL_BAD_STATE,
                         "bell_backward: the loss depends on no tensor that "
                         "requires a gradient%s",
                         bell_is_realized(loss)
                             ? "; it was realized before, and a value in "
                               "memory has no history"
                             : "");
    return status;
}

/* A constant gets memory of its own: equal constants are one node, and what
 * is computed from them is folded. */
static bool
make_variable(const char *call, struct bell_tensor *t)
{
    static const enum uop_dtype same_size[9] = {
        [2] = UOP_U16, [4] = UOP_U32, [8] = UOP_U64};
    size_t size = uop_dtype_infos[tensor_at(t)->dtype].size_bytes, n, i;
    const struct uop *c = tn_peel(tensor_at(t)->uop), *bits;
    struct bell_tensor *leaf;
    uint8_t *raw;

    if (!c)
        return true;
    n = tensor_numel(t);
    bits = tn_bitcast(tensor_at(t)->ctx, c, same_size[size]);
    raw = host_alloc(n * size);
    if (!raw || tn_bad(bits)) {
        host_free(raw);
        tensor_fail(tensor_at(t)->ctx, call, BELL_E_NO_MEMORY,
                    "out of memory for %zu bytes", n * size);
        return false;
    }
    for (i = 0; i < n; i++)
        memcpy(raw + i * size, &bits->arg.i, size);
    leaf =
        tensor_from_bytes(tensor_at(t)->ctx, call, tensor_at(t)->dtype,
                          tensor_at(t)->shape->d, tensor_at(t)->shape->n, raw);
    host_free(raw);
    if (tensor_at(leaf)->flags & TENSOR_ERROR)
        return false;
    tensor_set_node(t, tensor_at(leaf)->uop);
    bell_tensor_release(leaf);
    return true;
}

/* A tensor that is data moved becomes a leaf: moves of it would be moves of the
 * data, as moves of moves are one, and pass it by. Not where something below
 * requires a gradient too. */
static void
make_leaf(struct bell_tensor *t)
{
    struct bell_context *ctx = tensor_at(t)->ctx;
    const struct uop *u = tensor_at(t)->uop, *v;
    struct tensor_iter it;
    struct tensor *other;

    for (v = u; uop_has(v, UOP_FLAG_MOVE);)
        v = v->src[0];
    if (v == u || v->op != UOP_BUFFER)
        return;
    for (other = tensor_first(ctx, &it); other; other = tensor_next(ctx, &it)) {
        if (other == tensor_at(t) || !(other->flags & TENSOR_REQUIRES_GRAD))
            continue;
        for (v = u; v->op != UOP_BUFFER && other->uop != v;)
            v = v->src[0];
        if (other->uop == v)
            return;
    }
    u = tn_wrap(ctx, UOP_DETACH, u);
    if (!tn_bad(u))
        tensor_set_node(t, u);
}

struct bell_tensor *
bell_requires_grad(struct bell_tensor *t, bool on)
{
    struct bell_tensor *out;

    if (!tensor_check(__func__, t, &out))
        return out;
    if (!uop_dtype_infos[tensor_at(t)->dtype].is_float)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_DTYPE,
                           "the tensor is %s, gradients need a float dtype",
                           DTYPE_OF(t));
    if (tensor_at(t)->flags & (TENSOR_WEAK | TENSOR_PACKED) &&
        !tn_bad(tensor_node(t)))
        tensor_set_node(t, tensor_node(t));
    if (on && !make_variable(__func__, t))
        return tensor_at(t)->ctx->error_tensor;
    if (on)
        make_leaf(t);
    if (on && tensor_at(t)->flags & TENSOR_ASSIGNED) { /* a copy, no alias */
        const struct uop *u = tensor_own_variable(t, tensor_at(t)->uop);

        if (tn_bad(u))
            return tensor_new(tensor_at(t)->ctx, __func__, u);
        tensor_set_node(t, u);
    }
    if (on)
        tensor_at(t)->flags |= TENSOR_REQUIRES_GRAD;
    else
        tensor_at(t)->flags &= ~(uint32_t)TENSOR_REQUIRES_GRAD;
    return t;
}
