/* Functions whose gradient is the caller's.
 *
 * A value that a caller's function gives is named by two DETACHs more than it
 * has: kernels see none of them, and the node is nobody else's. bell_detach
 * makes odd numbers of them and a function even ones, so that the rule of one
 * is never found at the other. The call has such a node of its own, of its
 * first float result, and each float result has one that is a part of it.
 */
#include "doorbell/custom.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/rules.h"
#include "tensor/core/node.h"

/* A caller's function that is under way. */
struct call {
    struct bell_context *ctx;
    uint32_t n_scopes, n_base_scopes; /* before it */
    struct label_place labels;
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
    out->labels = tensor_label_enter(ctx);
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
    tensor_label_leave(ctx, c->labels);
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
    if (custom && custom->release)
        custom->release(custom->user);
    host_free(custom);
}

/* ---- forward ---- */

/* One of the descriptions is not NULL. */
static struct tensor_custom *
copy_custom_desc(const struct bell_custom_desc *one,
                 const struct bell_custom_many_desc *many, uint32_t n_in)
{
    uint32_t n_out = one ? 1 : many->n_out;
    const char *name = one ? one->name : many->name;
    struct tensor_custom *custom;

    custom = host_calloc(1, sizeof(*custom) + ((size_t)n_in + n_out) *
                                                  sizeof(custom->nodes[0]));
    if (!custom)
        return NULL;
    if (one)
        custom->one = *one;
    else
        custom->many = *many;
    custom->user = one ? one->user : many->user;
    custom->release = one ? one->release : many->release;
    custom->n_in = n_in;
    custom->n_out = n_out;
    snprintf(custom->name, sizeof(custom->name), "%s", name ? name : "custom");
    return custom;
}

/* Is `named` the node u with names? */
static bool
is_name_of(const struct uop *named, const struct uop *u)
{
    while (named != u && named->op == UOP_DETACH)
        named = named->src[0];
    return named == u;
}

/* Was it the same function of the same nodes, with results that b's has made
 * again? */
static bool
is_same_custom(const struct tensor_custom *a, const struct tensor_custom *b)
{
    uint32_t i;

    if (a->one.forward != b->one.forward ||
        a->one.backward != b->one.backward ||
        a->many.forward != b->many.forward ||
        a->many.backward != b->many.backward || a->user != b->user ||
        a->n_in != b->n_in || a->n_out != b->n_out ||
        memcmp(a->nodes, b->nodes, a->n_in * sizeof(a->nodes[0])) != 0)
        return false;
    for (i = a->n_in; i < a->n_in + a->n_out; i++) {
        if (!is_name_of(a->nodes[i], b->nodes[i]))
            return false;
    }
    return true;
}

const struct uop *
tensor_detach_again(struct bell_context *ctx, const struct uop *u)
{
    union uop_arg arg = {.bits = 0};

    if (tn_bad(u))
        return u;
    return uop_new_shaped(&ctx->graph, UOP_DETACH, u->dtype, arg, &u, 1,
                          tn_shape(ctx, u));
}

/* What names of u are made of. */
static const struct uop *
make_even(struct bell_context *ctx, const struct uop *u)
{
    return u->op == UOP_DETACH && !tensor_rule_find(ctx, u)
               ? tensor_detach_again(ctx, u)
               : u;
}

static const struct uop *
next_name(struct bell_context *ctx, const struct uop *u)
{
    return tensor_detach_again(ctx, tensor_detach_again(ctx, u));
}

/* u, a name or what they are made of, as a result of the call that `joint` is;
 * uop_failed when out of memory. */
static const struct uop *
name_part(struct bell_context *ctx, const struct uop *u, uint32_t number,
          const struct uop *joint)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_PART, .a = joint};

    rule.p[0] = number;
    do
        u = next_name(ctx, u);
    while (!tn_bad(u) && tensor_rule_find(ctx, u));
    return tn_bad(u) ? u : tensor_rule_add(ctx, u, &rule);
}

/* Turns *custom's results, in its list, into nodes that are differentiated by
 * it, in out[]. It is freed where no node takes it: those of a function that
 * was called before with the same inputs are the same. */
static void
name_results(struct bell_context *ctx, struct tensor_custom *custom,
             const struct uop **out)
{
    const struct uop **made = custom->nodes + custom->n_in, *joint, *part;
    struct tensor_rule rule = {
        .kind = TENSOR_RULE_CUSTOM, .a = custom->nodes[0], .custom = custom};
    const struct tensor_rule *found = NULL;
    uint32_t n = custom->n_out, first = 0, i;

    memcpy(out, made, n * sizeof(*out));
    while (first < n && !tn_is_float(made[first]))
        first++;
    joint = first < n ? make_even(ctx, made[first]) : &uop_failed;
    while (!tn_bad(joint)) {
        joint = next_name(ctx, joint);
        found = tn_bad(joint) ? NULL : tensor_rule_find(ctx, joint);
        if (!found || (found->kind == TENSOR_RULE_CUSTOM &&
                       is_same_custom(found->custom, custom)))
            break;
    }
    if (found)
        memcpy(out, found->custom->nodes + custom->n_in, n * sizeof(*out));
    else if (!tn_bad(joint))
        joint = tensor_rule_add(ctx, joint, &rule);
    if (found || tn_bad(joint))
        tensor_custom_free(custom);
    if (found || first == n)
        return;
    /* parts are named behind it: they may be of the same node */
    for (i = 0; i < n; i++) {
        if (!tn_is_float(out[i]))
            continue;
        part = i == first || tn_bad(joint) ? joint : make_even(ctx, out[i]);
        out[i] = name_part(ctx, part, i, joint);
        if (!tn_bad(joint) && !tn_bad(out[i]))
            made[i] = out[i];
    }
}

const struct uop *
tensor_custom_node(struct bell_context *ctx, const struct uop *u,
                   const struct bell_custom_desc *desc,
                   const struct uop *const *in, uint32_t n_in)
{
    struct tensor_custom *custom;
    const struct uop *out;
    uint32_t i;

    for (i = 0; i < n_in; i++) {
        if (tn_bad(in[i]))
            return &uop_failed;
    }
    if (tn_bad(u))
        return u;
    custom = copy_custom_desc(desc, NULL, n_in);
    if (!custom)
        return tn_fail(ctx, BELL_E_NO_MEMORY, "out of memory for a gradient");
    memcpy(custom->nodes, in, n_in * sizeof(in[0]));
    custom->nodes[n_in] = u;
    name_results(ctx, custom, &out);
    return out;
}

static bell_status
run_forward(struct bell_context *ctx, const struct tensor_custom *custom,
            struct bell_tensor *const *in, struct bell_tensor **made)
{
    bell_status status;

    if (custom->one.forward) {
        made[0] = custom->one.forward(ctx, custom->user, in, custom->n_in);
        return BELL_OK;
    }
    status = custom->many.forward(ctx, custom->user, in, custom->n_in, made);
    if (status != BELL_OK && bell_error_last()->status != status)
        return bell_fail(status, "'%s' has failed", custom->name);
    return status;
}

/* Lists the nodes of the results; *out_told: it failed, and the context knows.
 */
static bell_status
take_results(struct bell_context *ctx, const char *call,
             struct tensor_custom *custom, struct bell_tensor *const *made,
             bool *out_told)
{
    char what[32];
    uint32_t i;

    for (i = 0; i < custom->n_out && !*out_told; i++) {
        const struct uop **u = &custom->nodes[custom->n_in + i];
        snprintf(what, sizeof(what), "result %u", i);
        BELL_TRY(check_made(ctx, custom->name,
                            custom->one.forward ? "its result" : what,
                            made[i]));
        *u = &uop_failed;
        if (!(tensor_at(made[i])->flags & TENSOR_ERROR)) {
            *u = tensor_node(made[i]);
            if (tn_bad(*u))
                tensor_new(ctx, call, *u); /* says why it is none */
        }
        *out_told = tn_bad(*u);
    }
    return BELL_OK;
}

/* Has *custom list its nodes; after a failure, which the context knows of,
 * false. */
static bool
call_forward(struct bell_context *ctx, const char *call,
             struct tensor_custom *custom, struct bell_tensor *const *in)
{
    uint32_t n = custom->n_in, i;
    struct bell_tensor **own =
        host_calloc((size_t)n + custom->n_out, sizeof(struct bell_tensor *));
    bell_status status, ended;
    bool told = false;
    struct call c;

    if (!own) {
        tensor_fail(ctx, call, BELL_E_NO_MEMORY, "out of memory");
        return false;
    }
    status = begin_call(ctx, &c);
    if (status == BELL_OK) {
        for (i = 0; i < n; i++) {
            custom->nodes[i] = tensor_node(in[i]);
            own[i] = tensor_new(ctx, call, custom->nodes[i]);
        }
        status = run_forward(ctx, custom, own, own + n);
        if (status == BELL_OK)
            status = take_results(ctx, call, custom, own + n, &told);
        ended = end_call(&c, custom->name);
        if (status == BELL_OK)
            status = ended;
    }
    host_free(own);
    if (status != BELL_OK)
        tensor_fail_last(ctx, call);
    return status == BELL_OK && !told;
}

/* What is missing of the description; NULL: nothing. */
static const char *
find_missing(const struct bell_custom_desc *one,
             const struct bell_custom_many_desc *many)
{
    if (one ? !one->forward : !many->forward)
        return "forward";
    if (one ? !one->backward : !many->backward)
        return "backward";
    return one || many->n_out ? NULL : "results";
}

/* bell_custom or bell_custom_many for checked inputs; nodes[] are the results'.
 * After a failure, which the context knows of, false. *out_taken: the release
 * is for tensor_custom_free to call. */
static bool
apply(const char *call, const struct bell_custom_desc *one,
      const struct bell_custom_many_desc *many, struct bell_tensor *const *in,
      uint32_t n_in, const struct uop **nodes, bool *out_taken)
{
    struct bell_context *ctx = tensor_at(in[0])->ctx;
    const char *name = one ? one->name : many ? many->name : NULL;
    struct tensor_custom *custom;
    size_t n_bytes;
    uint32_t i;

    if (!one && !many) {
        tensor_fail(ctx, call, BELL_BAD_MISSING, "the description is NULL");
        return false;
    }
    n_bytes = one ? sizeof(*one) : sizeof(*many);
    if (tensor_desc_size(call, one ? one->struct_size : many->struct_size,
                         n_bytes, n_bytes) != BELL_OK) {
        tensor_fail_told(ctx);
        return false;
    }
    if (find_missing(one, many)) {
        tensor_fail(ctx, call, BELL_BAD_MISSING, "'%s' has no %s",
                    name ? name : "custom", find_missing(one, many));
        return false;
    }
    for (i = 0; i < n_in; i++) {
        if (tn_bad(tensor_node(in[i]))) {
            tensor_new(ctx, call, &uop_failed);
            return false;
        }
    }
    custom = copy_custom_desc(one, many, n_in);
    if (!custom) {
        tensor_fail(ctx, call, BELL_E_NO_MEMORY, "out of memory");
        return false;
    }
    *out_taken = true;
    if (!call_forward(ctx, call, custom, in)) {
        tensor_custom_free(custom);
        return false;
    }
    name_results(ctx, custom, nodes);
    return true;
}

/* Whether there are inputs to call a function with; *out_error: what it returns
 * otherwise. */
static bool
check_inputs(const char *call, struct bell_tensor *const *in, uint32_t n_in,
             struct bell_tensor **out_error)
{
    *out_error = NULL;
    if (n_in > 0)
        return tensor_check_n(call, in, n_in, out_error);
    (void)bell_fail_at(call, BELL_BAD_MISSING, "%s: no inputs", call);
    return false;
}

struct bell_tensor *
bell_custom(const struct bell_custom_desc *desc, struct bell_tensor *const *in,
            uint32_t n_in)
{
    struct bell_tensor *out;
    const struct uop *node;
    bool taken = false;

    if (check_inputs(__func__, in, n_in, &out)) {
        struct bell_context *ctx = tensor_at(in[0])->ctx;
        out = apply(__func__, desc, NULL, in, n_in, &node, &taken)
                  ? tensor_new(ctx, __func__, node)
                  : ctx->error_tensor;
    }
    if (!taken && desc && desc->release)
        desc->release(desc->user);
    return out;
}

void
bell_custom_many(const struct bell_custom_many_desc *desc,
                 struct bell_tensor *const *in, uint32_t n_in,
                 struct bell_tensor **out)
{
    uint32_t n = desc ? desc->n_out : 0, i;
    const struct uop **nodes = NULL;
    struct bell_tensor *error;
    bool taken = false, made = false;

    if (!out) {
        (void)bell_fail_at(__func__, BELL_BAD_MISSING,
                           "%s: the list of results is NULL", __func__);
    } else if (check_inputs(__func__, in, n_in, &error)) {
        struct bell_context *ctx = tensor_at(in[0])->ctx;
        error = ctx->error_tensor;
        nodes = host_calloc((size_t)n + 1, sizeof(*nodes));
        if (!nodes)
            tensor_fail(ctx, __func__, BELL_E_NO_MEMORY, "out of memory");
        else
            made = apply(__func__, NULL, desc, in, n_in, nodes, &taken);
        for (i = 0; made && i < n; i++)
            out[i] = tensor_new(ctx, __func__, nodes[i]);
    }
    for (i = 0; out && !made && i < n; i++)
        out[i] = error;
    host_free(nodes);
    if (!taken && desc && desc->release)
        desc->release(desc->user);
}

/* ---- backward ---- */

/* The node of gradient i, of the input's dtype. */
static bell_status
take_gradient(struct bell_context *ctx, const struct tensor_custom *custom,
              uint32_t i, struct bell_tensor *t, const struct uop **out)
{
    const struct uop_dims *shape = tn_shape(ctx, custom->nodes[i]);
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
    if (tn_is_float(custom->nodes[i]))
        *out = tn_cast(ctx, tensor_node(t), custom->nodes[i]->dtype);
    return BELL_OK;
}

/* The handles of one call of backward. */
struct back {
    struct bell_tensor **in, **grads; /* n_in */
    struct bell_tensor **out, **g;    /* n_out */
};

static bell_status
call_backward(struct bell_context *ctx, const struct tensor_custom *custom,
              const struct uop *const *adjoints, const struct back *b,
              const struct uop **out)
{
    uint32_t n = custom->n_in, i;
    bell_status status;

    for (i = 0; i < n; i++)
        b->in[i] = tensor_new(ctx, custom->name, custom->nodes[i]);
    for (i = 0; i < custom->n_out; i++) {
        const struct uop *u = custom->nodes[n + i], *g = adjoints[i];
        b->out[i] = tensor_new(ctx, custom->name, u);
        if (!tn_is_float(u))
            continue;
        if (!g)
            g = tn_full(ctx, tn_const(ctx, u->dtype, 0), tn_shape(ctx, u)->d,
                        tn_rank(ctx, u));
        b->g[i] = tensor_new(ctx, custom->name, g);
    }
    status = custom->one.backward
                 ? custom->one.backward(ctx, custom->user, b->in, n, b->out[0],
                                        b->g[0], b->grads)
                 : custom->many.backward(ctx, custom->user, b->in, n, b->out,
                                         b->g, b->grads);
    if (status == BELL_OK)
        status = tensor_report(ctx);
    for (i = 0; i < n && status == BELL_OK; i++)
        status = take_gradient(ctx, custom, i, b->grads[i], &out[i]);
    return status;
}

bell_status
tensor_custom_back(struct bell_context *ctx, const struct tensor_custom *custom,
                   const struct uop *const *adjoints, const struct uop **out)
{
    size_t n = custom->n_in, n_out = custom->n_out;
    struct bell_tensor **list =
        host_calloc(2 * (n + n_out), sizeof(struct bell_tensor *));
    struct back b = {list, list + n, list + 2 * n, list + 2 * n + n_out};
    bell_status status, ended;
    struct call c;

    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for gradients");
    status = begin_call(ctx, &c);
    if (status == BELL_OK) {
        status = call_backward(ctx, custom, adjoints, &b, out);
        ended = end_call(&c, custom->name);
        if (status == BELL_OK)
            status = ended;
    }
    host_free(list);
    return status;
}
