/* Functions whose gradient is the caller's.
 *
 * The value that a caller's function gives is named by two DETACHs more than
 * it has: kernels see none of them, and the node is nobody else's. bell_detach
 * makes odd numbers of them and a function even ones, so that the rule of one
 * is never found at the other.
 */
#include "doorbell/custom.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/gradient.h"
#include "tensor/node.h"

/* A caller's function that is under way. */
struct call {
    struct bell_context *ctx;
    uint32_t n_scopes, n_base_scopes; /* before it */
};

static bell_status
begin_call(struct bell_context *ctx, struct call *out)
{
    out->ctx = ctx;
    out->n_scopes = ctx->n_scopes;
    out->n_base_scopes = ctx->n_base_scopes;
    ctx->n_custom_calls++;
    if (bell_scope_begin(ctx) != BELL_OK) {
        ctx->n_custom_calls--;
        return bell_error_last()->status;
    }
    ctx->n_base_scopes = ctx->n_scopes;
    return BELL_OK;
}

/* The scopes go without a word of failures: those are still the call's to
 * report. */
static bell_status
end_call(const struct call *c, const char *name)
{
    struct bell_context *ctx = c->ctx;
    bool balanced = ctx->n_scopes == c->n_scopes + 1;
    struct bell_error error = ctx->error;

    ctx->n_base_scopes = c->n_base_scopes;
    memset(&ctx->error, 0, sizeof(ctx->error));
    while (ctx->n_scopes > c->n_scopes) {
        if (bell_scope_end(ctx) != BELL_OK)
            break;
    }
    ctx->error = error;
    ctx->n_custom_calls--;
    return balanced
               ? BELL_OK
               : bell_fail(BELL_BAD_STATE,
                           "'%s' has begun scopes that it has not ended", name);
}

/* Whether the tensor that a caller's function has made can be used. */
static bell_status
check_made(const struct bell_context *ctx, const char *name, const char *what,
           const struct bell_tensor *t)
{
    const struct tensor *slot = handle_find(t);

    if (!slot)
        return bell_fail(t ? BELL_BAD_CONTEXT : BELL_BAD_MISSING,
                         "'%s' has made %s %s", name, what,
                         t ? "and ended it" : "NULL");
    if (slot->ctx != ctx)
        return bell_fail(BELL_BAD_CONTEXT,
                         "'%s' has made %s in another context", name, what);
    return BELL_OK;
}

void
tensor_custom_free(struct tensor_custom *custom)
{
    if (custom && custom->desc.release)
        custom->desc.release(custom->desc.user);
    host_free(custom);
}

/* ---- forward ---- */

static struct tensor_custom *
copy_desc(const struct bell_custom_desc *desc, uint32_t n_in)
{
    struct tensor_custom *custom =
        host_calloc(1, sizeof(*custom) + n_in * sizeof(custom->in[0]));

    if (!custom)
        return NULL;
    custom->desc = *desc;
    custom->n_in = n_in;
    snprintf(custom->name, sizeof(custom->name), "%s",
             desc->name ? desc->name : "custom");
    custom->desc.name = custom->name;
    return custom;
}

static bool
is_same(const struct tensor_custom *a, const struct tensor_custom *b)
{
    return a->desc.forward == b->desc.forward &&
           a->desc.backward == b->desc.backward &&
           a->desc.user == b->desc.user && a->n_in == b->n_in &&
           memcmp(a->in, b->in, a->n_in * sizeof(a->in[0])) == 0;
}

static const struct uop *
make_detach(struct bell_context *ctx, const struct uop *u)
{
    union uop_arg arg = {.bits = 0};

    if (tn_bad(u))
        return u;
    return uop_new_shaped(&ctx->graph, UOP_DETACH, u->dtype, arg, &u, 1,
                          tn_shape(ctx, u));
}

/* The node that is `u`, differentiated by *custom, which is freed where no node
 * takes it: of a function that was called before with the same inputs the node
 * is the same. */
static const struct uop *
name_result(struct bell_context *ctx, const struct uop *u,
            struct tensor_custom *custom)
{
    struct tensor_rule rule = {
        .kind = TENSOR_RULE_CUSTOM, .a = custom->in[0], .custom = custom};
    const struct tensor_rule *found = NULL;

    if (u->op == UOP_DETACH && !tensor_rule_find(ctx, u))
        u = make_detach(ctx, u);
    do {
        u = make_detach(ctx, make_detach(ctx, u));
        found = tn_bad(u) ? NULL : tensor_rule_find(ctx, u);
    } while (found && !is_same(found->custom, custom));
    if (!found && !tn_bad(u))
        u = tensor_rule_add(ctx, u, &rule);
    if (found || tn_bad(u) || !tn_is_float(u))
        tensor_custom_free(custom);
    return u;
}

const struct uop *
tensor_custom_node(struct bell_context *ctx, const struct uop *u,
                   const struct bell_custom_desc *desc,
                   const struct uop *const *in, uint32_t n_in)
{
    struct tensor_custom *custom;
    uint32_t i;

    for (i = 0; i < n_in; i++) {
        if (tn_bad(in[i]))
            return &uop_failed;
    }
    if (tn_bad(u))
        return u;
    custom = copy_desc(desc, n_in);
    if (!custom)
        return tn_fail(ctx, BELL_E_NO_MEMORY, "out of memory for a gradient");
    memcpy(custom->in, in, n_in * sizeof(in[0]));
    return name_result(ctx, u, custom);
}

/* The node of forward's result, NULL after a failure: *out_failed is then what
 * bell_custom returns. */
static const struct uop *
call_forward(struct bell_context *ctx, const char *call,
             struct tensor_custom *custom, struct bell_tensor *const *in,
             struct bell_tensor **out_failed)
{
    uint32_t n = custom->n_in, i;
    struct bell_tensor **own = host_calloc(n, sizeof(struct bell_tensor *));
    struct bell_tensor *made = NULL;
    const struct uop *u = NULL;
    bell_status status, ended;
    struct call c;

    *out_failed = ctx->error_tensor;
    if (!own) {
        tensor_fail(ctx, call, BELL_E_NO_MEMORY, "out of memory");
        return NULL;
    }
    status = begin_call(ctx, &c);
    if (status == BELL_OK) {
        for (i = 0; i < n; i++) {
            custom->in[i] = tensor_node(in[i]);
            own[i] = tensor_new(ctx, call, custom->in[i]);
        }
        made = custom->desc.forward(ctx, custom->desc.user, own, n);
        status = check_made(ctx, custom->name, "its result", made);
        if (status == BELL_OK && !(tensor_at(made)->flags & TENSOR_ERROR)) {
            u = tensor_node(made);
            if (tn_bad(u))
                tensor_new(ctx, call, u); /* says why it is none */
        }
        ended = end_call(&c, custom->name);
        if (status == BELL_OK)
            status = ended;
    }
    host_free(own);
    if (status == BELL_OK && (!u || !tn_bad(u)))
        return u;
    if (status != BELL_OK)
        tensor_fail_last(ctx, call);
    return NULL;
}

/* bell_custom; *out_taken: desc->release is for tensor_custom_free to call. */
static struct bell_tensor *
apply(const char *call, const struct bell_custom_desc *desc,
      struct bell_tensor *const *in, uint32_t n_in, bool *out_taken)
{
    struct tensor_custom *custom;
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t i;

    if (n_in == 0) {
        (void)bell_fail_at(call, BELL_BAD_MISSING, "%s: no inputs", call);
        return NULL;
    }
    if (!tensor_check_n(call, in, n_in, &out))
        return out;
    ctx = tensor_at(in[0])->ctx;
    if (!desc)
        return tensor_fail(ctx, call, BELL_BAD_MISSING,
                           "the description is NULL");
    if (!desc->forward || !desc->backward)
        return tensor_fail(ctx, call, BELL_BAD_MISSING, "'%s' has no %s",
                           desc->name ? desc->name : "custom",
                           desc->forward ? "backward" : "forward");
    for (i = 0; i < n_in; i++) {
        if (tn_bad(tensor_node(in[i])))
            return tensor_new(ctx, call, &uop_failed);
    }
    custom = copy_desc(desc, n_in);
    if (!custom)
        return tensor_fail(ctx, call, BELL_E_NO_MEMORY, "out of memory");
    *out_taken = true;
    u = call_forward(ctx, call, custom, in, &out);
    if (!u) {
        tensor_custom_free(custom);
        return out;
    }
    return tensor_new(ctx, call, name_result(ctx, u, custom));
}

struct bell_tensor *
bell_custom(const struct bell_custom_desc *desc, struct bell_tensor *const *in,
            uint32_t n_in)
{
    bool taken = false;
    struct bell_tensor *out = apply(__func__, desc, in, n_in, &taken);

    if (!taken && desc && desc->release)
        desc->release(desc->user);
    return out;
}

/* ---- backward ---- */

/* The node of gradient i, of the input's dtype. */
static bell_status
take_gradient(struct bell_context *ctx, const struct tensor_custom *custom,
              uint32_t i, struct bell_tensor *t, const struct uop **out)
{
    const struct uop_dims *shape = tn_shape(ctx, custom->in[i]);
    char what[32];

    if (!t)
        return BELL_OK;
    snprintf(what, sizeof(what), "gradient %u", i);
    BELL_TRY(check_made(ctx, custom->name, what, t));
    if (tensor_at(t)->flags & TENSOR_ERROR)
        return tensor_report(ctx);
    if (!uop_dtype_infos[tensor_at(t)->dtype].is_float)
        return bell_fail(BELL_BAD_DTYPE,
                         "'%s' has made gradient %u of %s, not a float dtype",
                         custom->name, i, DTYPE_OF(t));
    if (tensor_at(t)->shape != shape)
        return bell_fail(BELL_BAD_SHAPE,
                         "'%s' has made gradient %u of shape %s for an input "
                         "of shape %s",
                         custom->name, i, SHAPE_OF(t),
                         tensor_shape_str(shape->d, shape->n,
                                          (char[TENSOR_SHAPE_STR]){0},
                                          TENSOR_SHAPE_STR));
    if (tn_is_float(custom->in[i]))
        *out = tn_cast(ctx, tensor_node(t), custom->in[i]->dtype);
    return BELL_OK;
}

static bell_status
call_backward(struct bell_context *ctx, const struct tensor_rule *rule,
              const struct uop *g, struct bell_tensor **in,
              struct bell_tensor **grads, const struct uop **out)
{
    const struct tensor_custom *custom = rule->custom;
    struct bell_tensor *result, *grad;
    bell_status status;
    uint32_t i;

    for (i = 0; i < custom->n_in; i++)
        in[i] = tensor_new(ctx, custom->name, custom->in[i]);
    result = tensor_new(ctx, custom->name, rule->node);
    grad = tensor_new(ctx, custom->name, g);
    status = custom->desc.backward(ctx, custom->desc.user, in, custom->n_in,
                                   result, grad, grads);
    if (status == BELL_OK)
        status = tensor_report(ctx);
    for (i = 0; i < custom->n_in && status == BELL_OK; i++)
        status = take_gradient(ctx, custom, i, grads[i], &out[i]);
    return status;
}

bell_status
tensor_custom_back(struct bell_context *ctx, const struct tensor_rule *rule,
                   const struct uop *g, const struct uop **out)
{
    uint32_t n = rule->custom->n_in;
    struct bell_tensor **list =
        host_calloc(2 * (size_t)n, sizeof(struct bell_tensor *));
    bell_status status, ended;
    struct call c;

    assert(rule->kind == TENSOR_RULE_CUSTOM);
    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for gradients");
    status = begin_call(ctx, &c);
    if (status == BELL_OK) {
        status = call_backward(ctx, rule, g, list, list + n, out);
        ended = end_call(&c, rule->custom->name);
        if (status == BELL_OK)
            status = ended;
    }
    host_free(list);
    return status;
}
