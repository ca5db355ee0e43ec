/* Assignment to a part of a tensor, in its memory.
 *
 * Handles denote values, and a value's memory is written to only when no other
 * handle can see it: what is made of the buffer is looked for, from the
 * handles down. The queue runs in order, so kernels that read the buffer
 * before, and those that will, are before and behind the one that writes.
 */
#include "tensor/core/tensor_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "tensor/core/rules.h"
#include "tensor/core/node.h"
#include "tensor/core/trace.h"

#define SEEN   1u
#define WANTED 2u

/* A search for nodes, from roots down. */
struct assign_search {
    struct bell_context *ctx;
    uint8_t *mark; /* by node id */
    const struct uop **stack;
    size_t n_stack;
    bool of_gradients; /* where they flow */
};

static bell_status
search_init(struct assign_search *s, struct bell_context *ctx,
            bool of_gradients)
{
    *s = (struct assign_search){.ctx = ctx, .of_gradients = of_gradients};
    s->mark = host_calloc(ctx->graph.n_nodes + 1, sizeof(*s->mark));
    s->stack = host_alloc((ctx->graph.n_nodes + 1) * sizeof(*s->stack));
    if (s->mark && s->stack)
        return BELL_OK;
    return bell_fail(BELL_E_NO_MEMORY, "out of memory assigning");
}

static void
search_fini(struct assign_search *s)
{
    host_free(s->mark);
    host_free(s->stack);
}

static void
push(struct assign_search *s, const struct uop *u)
{
    assert(u->id < s->ctx->graph.n_nodes);
    if (s->mark[u->id] & SEEN)
        return;
    s->mark[u->id] |= SEEN;
    s->stack[s->n_stack++] = u;
}

/* Is a wanted node under `root`, and was not come to before? A node that a
 * gradient rule names counts, as long as its node is there. */
static bool
search_from(struct assign_search *s, const struct uop *root)
{
    const struct tensor_rule *rule;
    const struct uop *u;
    uint32_t i;

    for (push(s, root); s->n_stack;) {
        u = s->stack[--s->n_stack];
        if (s->mark[u->id] & WANTED)
            return true;
        rule = tensor_rule_find(s->ctx, u);
        if (s->of_gradients && u->op == UOP_DETACH && !rule)
            continue;
        for (i = 0; i < u->n_src; i++)
            push(s, u->src[i]);
        for (i = 0; rule && tensor_rule_source(rule, i); i++)
            push(s, tensor_rule_source(rule, i));
    }
    return false;
}

static const struct uop *
buffer_under(const struct uop *u)
{
    if (u->op == UOP_RESHAPE)
        u = u->src[0];
    return u->op == UOP_BUFFER ? u : NULL;
}

static const struct uop *
buffer_node(const struct bell_tensor *t)
{
    return buffer_under(tensor_at(t)->uop);
}

/* Is `u` made of the buffer? */
static bell_status
is_made_of(struct bell_context *ctx, const struct uop *u,
           const struct uop *buffer, bool *out)
{
    struct assign_search s;
    bell_status status = search_init(&s, ctx, false);

    if (status == BELL_OK) {
        s.mark[buffer->id] |= WANTED;
        *out = search_from(&s, u);
    }
    search_fini(&s);
    return status;
}

/* Is another handle made of t's buffer? */
static bell_status
is_shared(const struct bell_tensor *t, const struct uop *buffer, bool *out)
{
    const struct tensor *other;
    struct tensor_iter it;
    struct assign_search s;
    bell_status status = search_init(&s, tensor_at(t)->ctx, false);

    *out = false;
    if (status == BELL_OK)
        s.mark[buffer->id] |= WANTED;
    for (other = tensor_first(tensor_at(t)->ctx, &it);
         status == BELL_OK && other && !*out;
         other = tensor_next(tensor_at(t)->ctx, &it))
        *out = other != tensor_at(t) && search_from(&s, other->uop);
    search_fini(&s);
    return status;
}

/* Would a gradient flow through `t`? */
static bell_status
needs_gradient(const struct bell_tensor *t, bool *out)
{
    const struct tensor *other;
    struct tensor_iter it;
    struct assign_search s;
    bool any = false;
    bell_status status = search_init(&s, tensor_at(t)->ctx, true);

    *out = false;
    for (other = tensor_first(tensor_at(t)->ctx, &it);
         status == BELL_OK && other;
         other = tensor_next(tensor_at(t)->ctx, &it)) {
        if (!(other->flags & TENSOR_REQUIRES_GRAD))
            continue;
        s.mark[other->uop->id] |= WANTED;
        any = true;
    }
    if (any)
        *out = search_from(&s, tensor_at(t)->uop);
    search_fini(&s);
    return status;
}

/* ---- the work ---- */

/* Stores `value` at `place`, a part of a buffer that `value` is not made of. */
static bell_status
store_at(struct bell_context *ctx, const char *call, const struct uop *place,
         const struct uop *value)
{
    const struct uop *src[2] = {place, value};
    union uop_arg none = {.bits = 0};
    struct bell_tensor *t;
    bell_status status;

    t = tensor_new(ctx, call,
                   uop_new_shaped(&ctx->graph, UOP_ASSIGN, place->dtype, none,
                                  src, 2, tn_shape(ctx, place)));
    if (tensor_at(t)->flags & TENSOR_ERROR)
        return bell_context_status(ctx);
    status = tensor_realize(ctx, &t, 1);
    bell_tensor_release(t);
    return status;
}

/* Gives t memory of its own, with the elements that it has. */
static bell_status
copy_whole(const char *call, struct bell_tensor *t)
{
    struct bell_context *ctx = tensor_at(t)->ctx;
    struct tensor_buffer *fresh;
    bell_status status;

    if (ctx->trace)
        BELL_TRY(tensor_stand_in(ctx, tensor_at(t)->dtype, tensor_numel(t),
                                 TENSOR_MADE, ctx->trace->n_made++,
                                 tensor_buffer_of(t)->parts, &fresh));
    else
        BELL_TRY(tensor_buffer_create_split(
            ctx, tensor_at(t)->dtype, tensor_numel(t),
            tensor_buffer_of(t)->parts, &fresh));
    status =
        store_at(ctx, call, tensor_buffer_node(ctx, fresh, tensor_at(t)->shape),
                 tensor_at(t)->uop);
    if (status == BELL_OK)
        status = tensor_set_buffer(t, fresh);
    tensor_buffer_release(fresh);
    return status;
}

bell_status
tensor_find_reached(struct bell_context *ctx, uint8_t **out_mark)
{
    const struct tensor *t;
    struct tensor_iter it;
    struct assign_search s;
    bell_status status = search_init(&s, ctx, false);

    if (status != BELL_OK) {
        search_fini(&s);
        return status;
    }
    for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it)) {
        if (!buffer_under(t->uop))
            (void)search_from(&s, t->uop);
    }
    *out_mark = s.mark;
    s.mark = NULL;
    search_fini(&s);
    return BELL_OK;
}

bell_status
tensor_own_memory(const char *call, struct bell_tensor *t)
{
    bool shared = tensor_buffer_of(t)->n_kept > 0;

    if (!shared)
        BELL_TRY(is_shared(t, buffer_node(t), &shared));
    return shared ? copy_whole(call, t) : BELL_OK;
}

/* Tensors that a captured function is given, or makes of the host's data, are
 * the same at each replay. */
static bool
is_kept(const struct tensor_buffer *buf)
{
    return buf->ctx->trace && buf->role != TENSOR_HANDLE &&
           buf->role != TENSOR_MADE;
}

/* The memory of `t` is what no other handle, nor `value`, is made of. */
static bell_status
own_memory(const char *call, struct bell_tensor *t, struct bell_tensor *value)
{
    struct tensor_buffer *buf;
    bool reads;

    BELL_TRY(tensor_get_buffer(call, t, &buf));
    BELL_TRY(is_made_of(tensor_at(t)->ctx, tensor_at(value)->uop,
                        buffer_node(t), &reads));
    if (reads && !buffer_node(value))
        BELL_TRY(tensor_realize_list(call, &value, 1));
    return is_kept(buf) ? copy_whole(call, t) : tensor_own_memory(call, t);
}

static bell_status
assign_slice(const char *call, struct bell_tensor *t, const int64_t *begin,
             struct bell_tensor *value)
{
    int64_t bounds[2 * BELL_MAX_RANK];
    uint32_t i;

    for (i = 0; i < tensor_at(t)->shape->n; i++) {
        bounds[2 * i] = begin[i];
        bounds[2 * i + 1] = dim_add(tensor_at(t)->ctx->dims, begin[i],
                                    tensor_at(value)->shape->d[i]);
    }
    BELL_TRY(own_memory(call, t, value));
    tensor_forget_range(tensor_buffer_of(t));
    return store_at(tensor_at(t)->ctx, call,
                    tn_shrink(tensor_at(t)->ctx, tensor_at(t)->uop, bounds),
                    tensor_node(value));
}

struct bell_tensor *
bell_assign_slice(struct bell_tensor *t, const int64_t *begin, uint32_t n_begin,
                  struct bell_tensor *value)
{
    char text[TENSOR_SHAPE_STR];
    struct bell_tensor *out;
    const struct uop *u;
    bool bad, grad;
    uint32_t i;

    if (!tensor_takes2(__func__, t, value, &out) ||
        !tensor_plain_axes(__func__, t, ~0u,
                           "what is assigned to stays what "
                           "it was made with",
                           &out))
        return out;
    if (tensor_at(t)->flags & TENSOR_WEAK)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_STATE,
                           "a bell_scalar cannot be assigned to");
    if (n_begin && !begin)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_MISSING,
                           "the list of begins is NULL");
    bad = n_begin != tensor_at(t)->shape->n ||
          tensor_at(value)->shape->n != tensor_at(t)->shape->n;
    for (i = 0; !bad && i < n_begin; i++)
        bad = !dims_is_slice(tensor_at(t)->ctx->dims, begin[i],
                             tensor_at(value)->shape->d[i],
                             tensor_at(t)->shape->d[i]);
    if (bad)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_SHAPE,
                           "a value of shape %s to a tensor of shape %s from "
                           "%s on: it must have as many axes, and lie within",
                           SHAPE_OF(value), SHAPE_OF(t),
                           tensor_sizes_str(tensor_at(t)->ctx->dims, begin,
                                            n_begin < 32 ? n_begin : 32, text,
                                            sizeof(text)));
    u = tensor_node(value);
    if (tn_bad(u))
        return tensor_new(tensor_at(t)->ctx, __func__, u);
    if (tensor_at(t)->dtype != u->dtype)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_DTYPE,
                           "a value of %s to a tensor of %s: the dtypes must "
                           "be equal; see bell_cast",
                           DTYPE_OF(value), DTYPE_OF(t));
    if (needs_gradient(t, &grad) != BELL_OK)
        return tensor_fail_last(tensor_at(t)->ctx, __func__);
    if (grad)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_STATE,
                           "to a tensor that needs a gradient");
    if (needs_gradient(value, &grad) != BELL_OK)
        return tensor_fail_last(tensor_at(t)->ctx, __func__);
    if (grad)
        return tensor_fail(tensor_at(t)->ctx, __func__, BELL_BAD_STATE,
                           "a value that needs a gradient; bell_detach it");
    if (tensor_numel(value) > 0 && value != t &&
        assign_slice(__func__, t, begin, value) != BELL_OK)
        return tensor_fail_last(tensor_at(t)->ctx, __func__);
    return t;
}
