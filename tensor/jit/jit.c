/* Functions that are captured once and then replayed.
 *
 * Capturing. Every tensor that lives denotes a stand-in while the function
 * runs, and what it denoted before afterwards: so whatever the function uses
 * and changes is found, handle by handle. Inputs are handles of the function's
 * own, with the marks and gradients of those that are given, which get what
 * became of them at each call. Realizes are noted (runtime/capture.c). Nothing
 * is collected meanwhile: nodes stay where they are.
 *
 * Replaying. Handles are looked at again for the memory that they denote by
 * now. New values of tensors and outputs have fresh memory each time, as any
 * realize's results; what is written in place is first made the handle's own.
 * All that can fail for want of memory is done before the work is queued.
 */
#include "doorbell/jit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/once.h"
#include "doorbell/mesh.h"
#include "tensor/core/node.h"
#include "tensor/jit/jit_feeds.h"
#include "tensor/jit/jit_internal.h"
#include "tensor/runtime/capture.h"

#define NO_SLOT UINT32_MAX

/* ---- life ---- */

static void end_jits(struct bell_context *ctx);

bell_status
bell_jit_create(struct bell_context *ctx, const struct bell_jit_desc *desc,
                struct bell_jit **out_jit)
{
    struct bell_jit_desc d;
    struct bell_jit *jit;

    if (!out_jit)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_jit_create: the result is NULL");
    *out_jit = NULL;
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (!desc)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_jit_create: the description is NULL");
    BELL_TRY(
        tensor_desc_size(__func__, desc->struct_size, sizeof(d), sizeof(d)));
    d = *desc;
    if (!d.fn)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_jit_create: the function is NULL");
    jit = once_alloc(sizeof(*jit), TENSOR_IS_JIT, ctx);
    if (jit) {
        jit->inputs = host_calloc(2 * (size_t)d.n_in + 1, sizeof(*jit->inputs));
        jit->outputs = host_calloc((size_t)d.n_out + 1, sizeof(*jit->outputs));
        jit->given =
            host_calloc(2 * (size_t)d.n_in + 1, sizeof(struct bell_tensor *));
    }
    if (!jit || !jit->inputs || !jit->outputs || !jit->given) {
        if (jit) {
            host_free(jit->given);
            host_free(jit->inputs);
            host_free(jit->outputs);
        }
        once_end(jit, sizeof(*jit));
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_create: out of memory");
    }
    jit->is_live = true;
    jit->ctx = ctx;
    jit->desc = d;
    snprintf(jit->name, sizeof(jit->name), "%s", d.name ? d.name : "jit");
    jit->next = ctx->jits;
    ctx->jits = jit;
    ctx->end_jits = end_jits;
    *out_jit = jit;
    return BELL_OK;
}

static void
drop_value(struct jit_value *value)
{
    if (value->buf) {
        value->buf->n_kept--;
        tensor_buffer_release(value->buf);
    }
    *value = (struct jit_value){.role = TENSOR_MEMORY};
}

/* Forgets what was captured. */
void
tensor_jit_drop(struct bell_jit *jit)
{
    uint32_t i;

    for (i = 0; i < jit->n_feeds; i++) {
        if (jit->feeds[i].opt)
            tensor_optimizer_release(jit->feeds[i].opt);
    }
    for (i = 0; i < jit->n_used; i++)
        drop_value(&jit->used[i].after);
    for (i = 0; i < jit->n_changes; i++) {
        drop_value(&jit->changes[i].after);
        drop_value(&jit->changes[i].grad);
    }
    for (i = 0; i < jit->desc.n_out; i++)
        drop_value(&jit->outputs[i].value);
    host_free(jit->feeds);
    host_free(jit->used);
    host_free(jit->changes);
    host_free(jit->made);
    jit->feeds = NULL;
    jit->used = NULL;
    jit->changes = NULL;
    jit->made = NULL;
    jit->n_feeds = jit->n_used = jit->n_made = jit->n_written = 0;
    jit->n_touched = jit->n_changes = 0;
    rt_capture_destroy(jit->capture);
    jit->capture = NULL;
}

/* The context ends: its jits keep nothing of it. */
static void
end_jits(struct bell_context *ctx)
{
    struct bell_jit *jit;

    for (jit = ctx->jits; jit; jit = jit->next) {
        tensor_jit_drop(jit);
        jit->ctx = NULL;
    }
    ctx->jits = NULL;
}

/* Not NULL, nor destroyed. */
static bell_status
jit_usable(const char *call, const struct bell_jit *jit)
{
    if (jit && jit->is_live)
        return BELL_OK;
    return bell_fail_at(call, jit ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the jit %s", call,
                        jit ? "was destroyed" : "is NULL");
}

void
bell_jit_destroy(struct bell_jit *jit)
{
    struct bell_jit **at;

    if (!jit || jit_usable(__func__, jit) != BELL_OK ||
        (jit->ctx && tensor_device_is_inherited(jit->ctx)))
        return;
    if (jit->is_running) {
        tensor_fail(jit->ctx, __func__, BELL_BAD_STATE,
                    "'%s' is destroyed inside its function", jit->name);
        return;
    }
    if (jit->ctx) {
        tensor_jit_drop(jit);
        for (at = &jit->ctx->jits; *at != jit; at = &(*at)->next)
            continue;
        *at = jit->next;
    }
    host_free(jit->inputs);
    host_free(jit->outputs);
    host_free(jit->given);
    once_end(jit, sizeof(*jit));
}

void
bell_jit_get_info(const struct bell_jit *jit, struct bell_jit_info *out_info)
{
    struct rt_capture_info info = {0};
    struct bell_jit_info all;
    uint32_t i;

    if (!out_info || jit_usable(__func__, jit) != BELL_OK) {
        tensor_no_info(__func__, out_info, sizeof(*out_info));
        return;
    }
    if (jit->capture)
        rt_capture_info(jit->capture, &info);
    all = (struct bell_jit_info){
        .n_captures = jit->n_captures,
        .n_kernels = info.n_launches,
        .n_used = jit->n_used,
        .held_bytes = info.n_bytes,
    };
    for (i = 0; i < jit->n_used; i++) {
        const struct jit_used *u = &jit->used[i];
        all.n_state += u->is_written | u->is_replaced;
        all.n_in_place += u->is_written && !u->is_replaced;
    }
    tensor_give_info(__func__, &all, sizeof(all), sizeof(all), out_info);
}

/* ---- capturing ---- */

/* A handle that lived before, and what it denoted. */
struct saved {
    struct bell_tensor *t;
    const struct uop *uop, *node; /* node: of the stand-in; or uop */
    struct bell_tensor *grad;     /* or NULL */
    uint32_t flags;
    struct tensor_buffer *stand; /* a reference; NULL: a bell_scalar */
    uint32_t used;               /* number in jit->used */
    struct tensor_buffer *over;  /* a result that lies there, or NULL */
};

struct capture {
    struct bell_jit *jit;
    struct bell_context *ctx;
    struct tensor_runtime *saves;
    struct tensor_trace trace;
    struct saved *saved;
    size_t n_saved;
    struct bell_tensor **in, **out; /* of the function; also in: gradients of
                                     * inputs */
    struct bell_tensor **list;      /* what is left to realize */
    struct tensor_buffer **stands;  /* of `in`, references; NULL: another has
                                     * that one */
    const struct uop **nodes;       /* of stands */
    uint64_t n_handles, rng_calls;  /* the context's, before */
    uint32_t n_scopes, n_base_scopes;
    struct label_place labels;
    uint32_t scope; /* of the function's inputs */
};

static bool
is_alive(const struct saved *s)
{
    return handle_find(s->t) != NULL;
}

static bell_status
stand_in(struct capture *c, const struct uop_dims *shape, enum uop_dtype dtype,
         enum tensor_role role, uint32_t number,
         const struct tensor_part *parts, struct tensor_buffer **out_buf,
         const struct uop **out_node)
{
    uint64_t n = dims_numel(c->ctx->dims, shape->d, shape->n);

    BELL_TRY(tensor_stand_in(c->ctx, dtype, n, role, number, parts, out_buf));
    *out_node = tensor_buffer_node(c->ctx, *out_buf, shape);
    if (!tn_bad(*out_node))
        return BELL_OK;
    c->ctx->graph.failed = false;
    return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a stand-in",
                     c->jit->name);
}

static void
clear_assigned(struct bell_tensor *t)
{
    if (tensor_at(t)->flags & TENSOR_ASSIGNED)
        tensor_at(t)->ctx->n_assigned--;
    tensor_at(t)->flags &= ~(uint32_t)TENSOR_ASSIGNED;
}

/* On a mesh a stand-in has the layout of what it is for. Most of these are in
 * memory; others are split as a realize would. */
static bell_status
lay_handles(struct capture *c)
{
    const struct uop **nodes;
    struct tensor_part(*parts)[BELL_MESH_AXES];
    bell_status status;
    size_t i, n = 0;

    if (bell_mesh_places(c->ctx) == 1)
        return BELL_OK;
    nodes = host_alloc(c->n_saved * sizeof(*nodes) + 1);
    parts = host_alloc(c->n_saved * sizeof(*parts) + 1);
    for (i = 0; nodes && parts && i < c->n_saved; i++) {
        if (c->saved[i].stand)
            nodes[n++] = c->saved[i].uop;
    }
    status = nodes && parts ? rt_capture_find_parts(c->ctx, nodes, n, parts)
                            : bell_fail(BELL_E_NO_MEMORY, "%s: out of memory",
                                        c->jit->name);
    for (i = n = 0; status == BELL_OK && i < c->n_saved; i++) {
        if (c->saved[i].stand)
            memcpy(c->saved[i].stand->parts, parts[n++], sizeof(*parts));
    }
    host_free(nodes);
    host_free(parts);
    return status;
}

/* Every handle denotes a stand-in of its own. Numbers stay what they are, and
 * so does what is computed of a file's blocks: kernels read those. */
static bell_status
replace_handles(struct capture *c)
{
    struct bell_context *ctx = c->ctx;
    struct tensor *t;
    struct tensor_iter it;
    size_t i;

    c->saved = host_calloc(ctx->n_tensors + 1, sizeof(*c->saved));
    if (!c->saved)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %zu tensors",
                         c->jit->name, ctx->n_tensors);
    for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it)) {
        struct saved *s = &c->saved[c->n_saved];
        assert(c->n_saved < ctx->n_tensors);
        *s = (struct saved){.t = handle_of(t),
                            .uop = t->uop,
                            .node = t->uop,
                            .grad = t->grad,
                            .flags = t->flags};
        c->n_saved++;
        if (t->flags & (TENSOR_WEAK | TENSOR_PACKED))
            continue;
        BELL_TRY(stand_in(c, t->shape, t->dtype, TENSOR_HANDLE,
                          (uint32_t)c->n_saved - 1, NULL, &s->stand, &s->node));
    }
    BELL_TRY(lay_handles(c));
    for (i = 0; i < c->n_saved; i++) {
        if (!c->saved[i].stand)
            continue;
        tensor_set_node(c->saved[i].t, c->saved[i].node);
        clear_assigned(c->saved[i].t);
    }
    return BELL_OK;
}

/* Handles denote what they did. Those that the function released are gone;
 * gradients that it made are of no value, and are asked for what they were for
 * (`checks`). */
static bell_status
restore_handles(struct capture *c, bool checks)
{
    bell_status status = BELL_OK;
    size_t i;

    for (i = 0; i < c->n_saved; i++) {
        struct saved *s = &c->saved[i];
        struct bell_tensor *t = s->t;
        if (!is_alive(s))
            continue;
        clear_assigned(t);
        tensor_set_node(t, s->uop);
        tensor_at(t)->flags = s->flags;
        c->ctx->n_assigned += (s->flags & TENSOR_ASSIGNED) != 0;
        if (!tensor_at(t)->grad ||
            tensor_at(tensor_at(t)->grad)->serial <= c->n_handles)
            continue;
        if (checks && !(tensor_at(tensor_at(t)->grad)->flags & TENSOR_SPENT) &&
            status == BELL_OK)
            status = bell_fail(
                BELL_BAD_STATE,
                "bell_jit_call: '%s' leaves a gradient in a tensor of shape "
                "%s, and no optimiser's step has used it; bell_gradient "
                "gives it as a tensor",
                c->jit->name, SHAPE_OF(t));
        bell_zero_grad(t);
    }
    return status;
}

/* A stand-in for input or gradient number i; *out: its node. */
static bell_status
make_input(struct capture *c, uint32_t i)
{
    const struct jit_type *type = &c->jit->inputs[i].type;
    const struct uop_dims *shape = uop_dims(&c->ctx->graph, type->d, type->n);

    if (!shape) {
        c->ctx->graph.failed = false;
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", c->jit->name);
    }
    return stand_in(c, shape, type->dtype, TENSOR_INPUT, i,
                    c->jit->inputs[i].parts, &c->stands[i], &c->nodes[i]);
}

/* Two inputs that are one tensor are so for the function, too. */
static bell_status
make_inputs(struct capture *c)
{
    struct bell_jit *jit = c->jit;
    uint32_t i;

    jit->is_merged = false;
    for (i = 0; i < jit->desc.n_in; i++) {
        const struct jit_input *input = &jit->inputs[i];
        if (input->first < i) {
            c->in[i] = c->in[input->first];
            jit->is_merged = true;
            continue;
        }
        BELL_TRY(make_input(c, i));
        c->in[i] = tensor_new(c->ctx, "bell_jit_call", c->nodes[i]);
        BELL_TRY(tensor_report(c->ctx));
        if (input->requires_grad)
            tensor_at(c->in[i])->flags |= TENSOR_REQUIRES_GRAD;
        if (!input->grad)
            continue;
        BELL_TRY(make_input(c, input->grad));
        if (!tensor_set_grad(c->in[i], c->nodes[input->grad]))
            return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", jit->name);
        c->in[input->grad] = tensor_at(c->in[i])->grad;
    }
    return BELL_OK;
}

static bell_status
begin_capture(struct capture *c)
{
    struct bell_context *ctx = c->ctx;
    const struct bell_jit_desc *desc = &c->jit->desc;
    size_t n_args = (size_t)c->jit->n_args + 1;
    size_t room = ctx->n_tensors + desc->n_out + 2 * (size_t)desc->n_in + 1;

    BELL_TRY(rt_capture_create(ctx, c->saves, &c->trace.capture));
    c->in = host_calloc(n_args, sizeof(struct bell_tensor *));
    c->out = host_calloc((size_t)desc->n_out + 1, sizeof(struct bell_tensor *));
    c->stands = host_calloc(n_args, sizeof(struct tensor_buffer *));
    c->nodes = host_calloc(n_args, sizeof(struct uop *));
    c->list = host_calloc(room, sizeof(struct bell_tensor *));
    if (!c->in || !c->out || !c->stands || !c->nodes || !c->list)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_call: out of memory");
    BELL_TRY(bell_scope_begin(ctx));
    ctx->n_base_scopes = ctx->n_scopes;
    c->scope = ctx->n_scopes - 1;
    ctx->trace = &c->trace;
    BELL_TRY(replace_handles(c));
    return make_inputs(c);
}

static bell_status
run_function(struct bell_jit *jit, struct bell_tensor *const *in,
             struct bell_tensor **out)
{
    struct bell_context *ctx = jit->ctx;
    uint32_t n_scopes = ctx->n_scopes, i;
    bell_status status;
    bool is_invalid;

    jit->is_running = true;
    status = jit->desc.fn(ctx, jit->desc.user, in, out);
    jit->is_running = false;
    is_invalid = status == BELL_E_INVALID;
    if (status != BELL_OK && bell_error_last()->status == BELL_OK)
        status = bell_fail(is_invalid ? BELL_BAD_VALUE : status,
                           "bell_jit_call: the function of '%s' returned '%s' "
                           "and no message",
                           jit->name, bell_status_name(status));
    if (status != BELL_OK)
        return status;
    BELL_TRY(tensor_report(ctx));
    if (ctx->n_scopes != n_scopes)
        return bell_fail(BELL_BAD_STATE,
                         "bell_jit_call: '%s' has begun scopes that it has not "
                         "ended",
                         jit->name);
    for (i = 0; i < jit->desc.n_out; i++) {
        const struct tensor *t = handle_find(out[i]);
        if (!t || t->ctx != ctx)
            return bell_fail(out[i] ? BELL_BAD_CONTEXT : BELL_BAD_MISSING,
                             "bell_jit_call: '%s' has made output %u %s",
                             jit->name, i,
                             t        ? "in another context"
                             : out[i] ? "and ended it"
                                      : "NULL");
        BELL_TRY(tensor_usable("bell_jit_call", out[i]));
    }
    return BELL_OK;
}

/* What the function has done to its inputs. */
static bell_status
find_changes(struct capture *c)
{
    struct bell_jit *jit = c->jit;
    uint32_t i;

    jit->changes =
        host_calloc((size_t)jit->desc.n_in + 1, sizeof(*jit->changes));
    if (!jit->changes)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", jit->name);
    for (i = 0; i < jit->desc.n_in; i++) {
        const struct jit_input *input = &jit->inputs[i];
        const struct tensor *t = handle_find(c->in[i]);
        struct jit_change *change = &jit->changes[jit->n_changes];
        struct bell_tensor *had = input->grad ? c->in[input->grad] : NULL;
        if (input->first < i)
            continue;
        if (!t || t->scope != c->scope)
            return bell_fail(BELL_BAD_STATE,
                             "bell_jit_call: '%s' %s input %u, which its "
                             "caller owns; bell_alias makes a tensor of the "
                             "function's own",
                             jit->name, t ? "keeps" : "ends", i);
        *change = (struct jit_change){
            .input = i,
            .is_replaced = t->uop != c->nodes[i],
            .requires_grad = t->flags & TENSOR_REQUIRES_GRAD,
            .drops_grad = had && t->grad != had,
            .sets_grad =
                t->grad && (t->grad != had ||
                            tensor_at(had)->uop != c->nodes[input->grad])};
        jit->n_changes += change->is_replaced || change->drops_grad ||
                          change->sets_grad ||
                          change->requires_grad != input->requires_grad;
    }
    return BELL_OK;
}

/* What inputs, and their gradients, denote behind a call; *out_list has room.
 * Gives how many. */
static size_t
list_changes(const struct capture *c, struct bell_tensor **out_list)
{
    size_t n = 0;
    uint32_t i;

    for (i = 0; i < c->jit->n_changes; i++) {
        const struct jit_change *change = &c->jit->changes[i];
        struct bell_tensor *t = c->in[change->input];
        if (change->is_replaced)
            out_list[n++] = t;
        if (change->sets_grad)
            out_list[n++] = tensor_at(t)->grad;
    }
    return n;
}

/* What the function has left to compute: outputs, and what it changed. */
static bell_status
realize_rest(struct capture *c)
{
    size_t n = 0, i;

    for (i = 0; i < c->jit->desc.n_out; i++)
        c->list[n++] = c->out[i];
    n += list_changes(c, c->list + n);
    for (i = 0; i < c->n_saved; i++) {
        struct saved *s = &c->saved[i];
        if (!is_alive(s) || tensor_at(s->t)->uop == s->node)
            continue;
        if (!s->stand && s->flags & TENSOR_PACKED &&
            !(tensor_at(s->t)->flags & TENSOR_ASSIGNED))
            continue; /* realized: the same values, for this function */
        if (!s->stand)
            return bell_fail(
                BELL_BAD_STATE,
                "bell_jit_call: '%s' changes a %s, which stays what "
                "it is",
                c->jit->name,
                s->flags & TENSOR_PACKED ? "tensor of a file's "
                                           "blocks"
                                         : "bell_scalar");
        c->list[n++] = s->t;
    }
    return tensor_realize_list("bell_jit_call", c->list, n);
}

static bool
is_changed(const struct saved *s)
{
    return is_alive(s) && s->stand && tensor_at(s->t)->uop != s->node;
}

/* Whether the function has dealt with the gradient of a tensor from outside,
 * where it makes a difference that this is also an input. */
static bool
is_touched(const struct capture *c, const struct saved *s)
{
    const struct tensor *t = handle_find(s->t);

    return c->jit->is_strict && t &&
           (t->flags & TENSOR_TOUCHED || t->grad != s->grad ||
            (t->flags ^ s->flags) & TENSOR_REQUIRES_GRAD);
}

/* What another value denotes is wanted, too. */
static bell_status
find_used(struct capture *c)
{
    struct bell_jit *jit = c->jit;
    struct tensor_buffer *buf;
    size_t n = list_changes(c, c->list), i;

    for (i = 0; i < jit->desc.n_out; i++)
        tensor_buffer_of(c->out[i])->is_used = true;
    for (i = 0; i < n; i++)
        tensor_buffer_of(c->list[i])->is_used = true;
    for (i = 0; i < c->n_saved; i++) {
        if (is_changed(&c->saved[i])) {
            buf = tensor_buffer_of(c->saved[i].t);
            buf->is_used = true;
            jit->n_used++;
        }
    }
    for (i = 0; i < c->n_saved; i++) {
        jit->n_used += c->saved[i].stand && c->saved[i].stand->is_used &&
                       !is_changed(&c->saved[i]);
        jit->n_touched += is_touched(c, &c->saved[i]);
    }
    jit->used = host_calloc((size_t)jit->n_used + jit->n_touched + 1,
                            sizeof(*jit->used));
    if (!jit->used) {
        jit->n_used = jit->n_touched = 0;
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", jit->name);
    }
    jit->n_used = 0;
    for (i = 0; i < c->n_saved; i++) {
        struct saved *s = &c->saved[i];
        struct jit_used *u = &jit->used[jit->n_used];
        if (!s->stand || (!s->stand->is_used && !is_changed(s)))
            continue;
        s->used = jit->n_used++;
        s->stand->slot = jit->n_args + s->used;
        if (s->over)
            s->over->slot = s->stand->slot;
        u->t = s->t;
        u->is_read = s->stand->is_used;
        u->is_written = s->stand->is_written;
        u->is_replaced = is_changed(s);
        jit->n_written += u->is_written;
        u->type.dtype = s->stand->dtype;
        memcpy(u->parts, s->stand->parts, sizeof(u->parts));
        u->type.n = tn_rank(c->ctx, s->uop);
        memcpy(u->type.d, tn_shape(c->ctx, s->uop)->d,
               u->type.n * sizeof(*u->type.d));
    }
    jit->n_touched = 0;
    for (i = 0; i < c->n_saved; i++) {
        if (is_touched(c, &c->saved[i]))
            jit->used[jit->n_used + jit->n_touched++].t = c->saved[i].t;
    }
    return BELL_OK;
}

static bell_status
add_made(struct bell_jit *jit, size_t *cap, struct tensor_buffer *buf,
         const struct bell_tensor *t)
{
    if (host_grow((void **)&jit->made, cap, (size_t)jit->n_made + 1,
                  sizeof(*jit->made)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", jit->name);
    buf->slot = jit->n_args + jit->n_used + jit->n_made;
    jit->made[jit->n_made] = (struct jit_made){.dtype = buf->dtype};
    memcpy(jit->made[jit->n_made].parts, buf->parts, sizeof(buf->parts));
    tensor_jit_type(&jit->made[jit->n_made++].type, t);
    return BELL_OK;
}

/* How often tensors and outputs will denote a result or a stand-in. */
struct denoted {
    uint32_t *made, *handles; /* by number */
};

static void
count_denoted(struct capture *c, const struct denoted *d)
{
    const struct tensor_buffer *buf;
    size_t i, n = list_changes(c, c->list);

    for (i = 0; i < c->jit->desc.n_out; i++)
        c->list[n++] = c->out[i];
    for (i = 0; i < c->n_saved; i++) {
        if (is_changed(&c->saved[i]))
            c->list[n++] = c->saved[i].t;
    }
    for (i = 0; i < n; i++) {
        buf = tensor_buffer_of(c->list[i]);
        if (buf->role == TENSOR_MADE)
            d->made[buf->number]++;
        if (buf->role == TENSOR_HANDLE)
            d->handles[buf->number]++;
    }
}

/* New values of tensors, where the old ones are: where nothing else denotes
 * either. Such a tensor denotes its own stand-in again. */
static bell_status
overwrite_state(struct capture *c)
{
    struct denoted d = {
        host_calloc((size_t)c->trace.n_made + 1, sizeof(*d.made)),
        host_calloc(c->n_saved + 1, sizeof(*d.handles))};
    bell_status status = BELL_OK;
    bool done;
    size_t i;

    if (!d.made || !d.handles)
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", c->jit->name);
    else
        count_denoted(c, &d);
    for (i = 0; i < c->n_saved && status == BELL_OK; i++) {
        struct saved *s = &c->saved[i];
        struct tensor_buffer *made;
        if (!is_changed(s) || d.handles[i])
            continue;
        made = tensor_buffer_of(s->t);
        if (made->role != TENSOR_MADE || d.made[made->number] != 1)
            continue;
        status = rt_capture_overwrite(c->trace.capture, s->stand, made, &done);
        if (status == BELL_OK && done) {
            s->over = made;
            tensor_set_node(s->t, s->node);
        }
    }
    host_free(d.made);
    host_free(d.handles);
    return status;
}

static bell_status
find_jit_value(struct capture *c, size_t *cap_made, const struct bell_tensor *t,
               struct jit_value *out)
{
    struct bell_jit *jit = c->jit;
    struct tensor_buffer *buf = tensor_buffer_of(t);

    assert(buf);
    out->role = buf->role;
    out->number = buf->number;
    if (buf->role == TENSOR_HANDLE)
        out->number = c->saved[buf->number].used;
    if (buf->role == TENSOR_MADE) {
        if (buf->slot == NO_SLOT)
            BELL_TRY(add_made(jit, cap_made, buf, t));
        out->number = buf->slot - jit->n_args - jit->n_used;
    }
    if (buf->role == TENSOR_MEMORY) {
        out->buf = buf;
        buf->n_kept++;
        tensor_buffer_retain(buf);
    }
    if (buf->role == TENSOR_FEED || buf->role == TENSOR_GONE)
        return bell_fail(BELL_E_INTERNAL,
                         "%s: a value cannot be of role %d here", jit->name,
                         (int)buf->role);
    return BELL_OK;
}

/* Numbers are fed in front of what the function feeds itself. */
static void
place_feeds(struct capture *c, uint32_t feed_slot)
{
    struct tensor_buffer *buf;
    uint32_t i;

    for (i = 0; i < c->jit->n_args; i++) {
        if (c->stands[i])
            c->stands[i]->slot = i;
    }
    for (buf = c->ctx->buffers; buf; buf = buf->next) {
        if (buf->role != TENSOR_FEED)
            continue;
        buf->slot = feed_slot;
        buf->slot_bytes =
            (uint64_t)(c->jit->n_args + buf->number) * TENSOR_FEED_BYTES;
    }
}

/* Room, if there is anything to feed. */
static size_t
count_feeds(const struct capture *c)
{
    size_t n = c->trace.n_feeds;
    uint32_t i;

    for (i = 0; i < c->jit->n_args; i++)
        n += c->stands[i] && c->stands[i]->n_elems == 1;
    return n ? c->jit->n_args + c->trace.n_feeds : 0;
}

static bell_status
end_capture(struct capture *c)
{
    struct bell_jit *jit = c->jit;
    size_t cap_made = 0, i;
    uint32_t feed_slot;

    BELL_TRY(find_changes(c));
    jit->is_strict = jit->n_changes > 0 || c->trace.asks_gradients;
    BELL_TRY(realize_rest(c));
    BELL_TRY(overwrite_state(c));
    BELL_TRY(find_used(c));
    for (i = 0; i < jit->desc.n_out; i++) {
        tensor_jit_type(&jit->outputs[i].type, c->out[i]);
        BELL_TRY(
            find_jit_value(c, &cap_made, c->out[i], &jit->outputs[i].value));
    }
    for (i = 0; i < c->n_saved; i++) {
        const struct saved *s = &c->saved[i];
        if (is_changed(s))
            BELL_TRY(
                find_jit_value(c, &cap_made, s->t, &jit->used[s->used].after));
    }
    for (i = 0; i < jit->n_changes; i++) {
        struct jit_change *change = &jit->changes[i];
        const struct bell_tensor *t = c->in[change->input];
        if (change->is_replaced)
            BELL_TRY(find_jit_value(c, &cap_made, t, &change->after));
        if (!change->sets_grad)
            continue;
        t = tensor_at(t)->grad;
        tensor_jit_type(&change->grad_type, t);
        BELL_TRY(find_jit_value(c, &cap_made, t, &change->grad));
    }
    feed_slot = jit->n_args + jit->n_used + jit->n_made;
    place_feeds(c, feed_slot);
    return rt_capture_end(c->trace.capture, feed_slot + 1, feed_slot,
                          count_feeds(c) * TENSOR_FEED_BYTES);
}

/* Nothing of the function is left but what the jit has taken; with it, what
 * the function kept for itself has no value. */
static bell_status
leave_capture(struct capture *c, bool checks)
{
    struct bell_context *ctx = c->ctx;
    struct tensor_buffer *buf;
    bell_status status = restore_handles(c, checks);
    const struct tensor *t;
    uint32_t i;

    for (buf = ctx->buffers; buf; buf = buf->next) {
        if (buf->role != TENSOR_MEMORY)
            buf->role = TENSOR_GONE;
    }
    for (i = 0; c->stands && i < c->jit->n_args; i++) {
        if (c->stands[i])
            tensor_buffer_release(c->stands[i]);
    }
    for (i = 0; c->in && i < c->jit->desc.n_in; i++) {
        t = handle_find(c->in[i]);
        if (t && t->scope != c->scope)
            bell_tensor_release(c->in[i]);
    }
    for (i = 0; i < c->n_saved; i++) {
        if (c->saved[i].stand)
            tensor_buffer_release(c->saved[i].stand);
    }
    ctx->trace = NULL;
    ctx->rng_calls = c->rng_calls;
    ctx->n_base_scopes = c->n_base_scopes;
    tensor_label_leave(ctx, c->labels);
    while (ctx->n_scopes > c->n_scopes) {
        if (bell_scope_end(ctx) != BELL_OK && status == BELL_OK)
            status = bell_error_last()->status;
    }
    host_free(c->saved);
    host_free(c->in);
    host_free(c->out);
    host_free(c->stands);
    host_free(c->nodes);
    host_free(c->list);
    return status;
}

bell_status
tensor_jit_capture(struct bell_jit *jit, struct tensor_runtime *saves,
                   struct jit_feeds *feeds)
{
    struct bell_context *ctx = jit->ctx;
    struct capture c = {
        .jit = jit,
        .trace = {.keep = feeds ? jit_feeds_leaf : NULL, .keep_user = feeds},
        .ctx = ctx,
        .saves = saves,
        .n_handles = ctx->n_handles,
        .rng_calls = ctx->rng_calls,
        .n_scopes = ctx->n_scopes,
        .n_base_scopes = ctx->n_base_scopes,
        .labels = tensor_label_enter(ctx)};
    bell_status status, left;

    jit->math = ctx->math;
    jit->training = ctx->training;
    jit->n_unpacked = ctx->n_unpacked;
    status = begin_capture(&c);
    if (status == BELL_OK)
        status = run_function(jit, c.in, c.out);
    if (status == BELL_OK)
        status = end_capture(&c);
    jit->capture = c.trace.capture;
    jit->feeds = c.trace.feeds;
    jit->n_feeds = (uint32_t)c.trace.n_feeds;
    left = leave_capture(&c, status == BELL_OK);
    if (status == BELL_OK)
        status = left;
    if (status != BELL_OK) {
        tensor_jit_drop(jit);
        bell_error_frame(__func__);
    } else {
        jit->n_captures++;
    }
    return status;
}

/* ---- replaying ---- */

/* Notes what inputs are, for a capture. */
static void
note_inputs(struct bell_jit *jit, struct bell_tensor *const *in)
{
    struct jit_input *input;
    uint32_t i;

    jit->n_args = jit->desc.n_in;
    for (i = jit->desc.n_in; i-- > 0;)
        tensor_at(in[i])->input = i;
    for (i = 0; i < jit->desc.n_in; i++) {
        const struct tensor *t = tensor_at(in[i]);
        input = &jit->inputs[i];
        /* sizes that vary do so since the first call */
        if (jit->n_captures == 0)
            tensor_jit_type(&input->type, in[i]);
        input->first = t->input;
        input->requires_grad = t->flags & TENSOR_REQUIRES_GRAD;
        input->grad = t->grad && t->input == i ? jit->n_args++ : 0;
        if (!input->grad)
            continue;
        tensor_jit_type(&jit->inputs[input->grad].type, t->grad);
        memcpy(jit->inputs[input->grad].type.d, input->type.d,
               input->type.n * sizeof(*input->type.d));
    }
}

/* Takes what a call is given, which may be listed where its outputs go.
 * *out_fits: the function was captured for such. */
static bell_status
take_inputs(struct bell_jit *jit, struct bell_tensor *const *in, bool *out_fits)
{
    bool fits = true;
    uint32_t i;

    jit->binds = false;
    for (i = 0; i < jit->desc.n_in; i++) {
        const struct jit_input *input = &jit->inputs[i];
        const struct tensor *t = handle_find(in[i]);
        if (!t || t->ctx != jit->ctx || t->flags & TENSOR_ERROR)
            return tensor_jit_check_inputs(jit, in);
        if (jit->n_captures && !jit_has_type(t, &input->type)) {
            BELL_TRY(tensor_jit_check_inputs(jit, in));
            jit->binds = true;
        }
        jit->given[i] = in[i];
        fits &= !(t->flags & TENSOR_REQUIRES_GRAD) == !input->requires_grad;
        if (!t->grad && !input->grad)
            continue;
        if (input->first == i)
            fits &= t->grad && input->grad &&
                    jit_may_have_type(tensor_at(t->grad),
                                      &jit->inputs[input->grad].type);
        if (input->grad)
            jit->given[input->grad] = t->grad;
    }
    *out_fits = fits;
    if (!fits || (!jit->is_merged && !jit->is_strict))
        return BELL_OK;
    for (i = jit->desc.n_in; i-- > 0;)
        tensor_at(in[i])->input = i;
    for (i = 0; i < jit->desc.n_in; i++)
        *out_fits &= tensor_at(in[i])->input == jit->inputs[i].first;
    return BELL_OK;
}

static bell_status
check_feeds(const struct bell_jit *jit)
{
    uint32_t i;

    for (i = 0; i < jit->n_feeds; i++) {
        if (jit->feeds[i].opt && tensor_optimizer_is_dead(jit->feeds[i].opt))
            return bell_fail(BELL_BAD_STATE,
                             "bell_jit_call: an optimiser that '%s' uses was "
                             "destroyed",
                             jit->name);
    }
    return BELL_OK;
}

/* The function's own tensors are not its inputs, where one of the two is
 * changed. */
static bell_status
check_apart(const struct bell_jit *jit)
{
    uint32_t n = jit->n_used + jit->n_touched, i;

    for (i = n ? jit->desc.n_in : 0; i-- > 0;)
        tensor_at(jit->given[i])->input = i;
    for (i = 0; i < n; i++) {
        const struct jit_used *u = &jit->used[i];
        const struct tensor *t = handle_find(u->t);
        if (!t || t->input >= jit->desc.n_in || jit->given[t->input] != u->t ||
            !(u->is_written || u->is_replaced || jit->is_strict))
            continue;
        return bell_fail(
            BELL_BAD_STATE,
            "bell_jit_call: input %u of '%s', of shape %s, is a tensor that "
            "the function %s from outside, too; give another input, or "
            "let the function have it as an input only",
            t->input, jit->name, SHAPE_OF(u->t),
            u->is_written || u->is_replaced ? "changes" : "uses");
    }
    return BELL_OK;
}

static bell_status
check_changes(const struct bell_jit *jit)
{
    uint32_t i;

    for (i = 0; i < jit->n_changes; i++) {
        const struct bell_tensor *t = jit->given[jit->changes[i].input];
        if (tensor_at(t)->flags & TENSOR_WEAK)
            return bell_fail(BELL_BAD_STATE,
                             "bell_jit_call: '%s' changes input %u, a "
                             "bell_scalar, which stays what it is; bell_full "
                             "makes a tensor of a number",
                             jit->name, jit->changes[i].input);
    }
    return BELL_OK;
}

/* Counts, in `number`, the tensors that the jit writes to in each buffer, and
 * marks those buffers that another handle denotes, too: they are `is_written`.
 * *out_deep: there are handles that are made of something. */
static void
find_shared(struct bell_jit *jit, bool *out_deep)
{
    const struct jit_used *u = jit->used;
    const struct tensor *t;
    struct tensor_iter it;
    struct tensor_buffer *buf;
    uint32_t i;

    *out_deep = false;
    for (i = 0; i < jit->n_used; i++) {
        if (!u[i].is_written)
            continue;
        buf = tensor_buffer_of(u[i].t);
        buf->is_written = false;
        buf->number++;
        tensor_at(u[i].t)->input = i;
        tensor_forget_range(buf);
    }
    for (t = tensor_first(jit->ctx, &it); t; t = tensor_next(jit->ctx, &it)) {
        i = t->input;
        buf = tensor_buffer_of(handle_of(t));
        if (!buf)
            *out_deep |= t->uop->n_src > 0;
        else if (buf->number && !(i < jit->n_used && u[i].is_written &&
                                  u[i].t == handle_of(t)))
            buf->is_written = true;
    }
}

/* Its own tensor alone sees a write in place. */
static bell_status
own_written(struct bell_jit *jit)
{
    bell_status status = BELL_OK;
    uint8_t *reached = NULL;
    bool deep;
    uint32_t i;

    if (jit->n_written == 0 || jit->ctx->n_denoted == jit->n_denoted)
        return BELL_OK;
    find_shared(jit, &deep);
    if (deep)
        status = tensor_find_reached(jit->ctx, &reached);
    for (i = 0; i < jit->n_used; i++) {
        struct jit_used *u = &jit->used[i];
        const struct uop *node;
        struct tensor_buffer *buf;
        bool shared;
        if (!u->is_written)
            continue;
        buf = tensor_buffer_of(u->t);
        node = tensor_at(u->t)->uop->n_src ? tensor_at(u->t)->uop->src[0]
                                           : tensor_at(u->t)->uop;
        /* the last of several keeps the memory */
        shared = buf->is_written || buf->n_kept || buf->number > 1 ||
                 (reached && reached[node->id]);
        if (--buf->number == 0)
            buf->is_written = false;
        if (shared && status == BELL_OK)
            status = tensor_own_memory("bell_jit_call", u->t);
    }
    host_free(reached);
    return status;
}

/* The memory of inputs and tensors, where the tape wants it. */
static bell_status
set_memory(struct bell_jit *jit, struct bell_tensor *const *in)
{
    struct tensor_buffer *buf;
    uint32_t i;

    for (i = 0; i < jit->n_args; i++) {
        if (jit_is_number(in[i])) {
            BELL_TRY(rt_capture_set_feed(jit->capture, i,
                                         (size_t)i * TENSOR_FEED_BYTES));
            continue;
        }
        BELL_TRY(jit_get_memory(in[i], &buf));
        BELL_TRY(rt_capture_set(jit->capture, i, buf));
    }
    for (i = 0; i < jit->n_used; i++) {
        if (jit->used[i].is_read)
            BELL_TRY(jit_get_memory(jit->used[i].t, &buf));
    }
    BELL_TRY(own_written(jit));
    for (i = 0; i < jit->n_used; i++) {
        if (jit->used[i].is_read)
            BELL_TRY(rt_capture_set(jit->capture, jit->n_args + i,
                                    tensor_buffer_of(jit->used[i].t)));
    }
    for (i = 0; i < jit->n_made; i++) {
        struct jit_made *made = &jit->made[i];
        BELL_TRY(tensor_buffer_create_split(
            jit->ctx, made->dtype,
            dims_numel(jit->ctx->dims, made->type.d, made->type.n), made->parts,
            &made->buf));
        BELL_TRY(rt_capture_set(jit->capture, jit->n_args + jit->n_used + i,
                                made->buf));
    }
    return BELL_OK;
}

static const struct uop *
value_node(const struct bell_jit *jit, const struct jit_value *value,
           const struct jit_type *type, struct bell_tensor *const *in)
{
    struct bell_context *ctx = jit->ctx;
    const struct uop *u;
    int64_t d[BELL_MAX_RANK];
    bool is_plain = value->role == TENSOR_MADE;
    uint32_t i;

    if (value->role == TENSOR_INPUT)
        is_plain = !dims_in(tensor_at(in[value->number])->shape->d, type->n);
    for (i = 0; i < type->n; i++)
        d[i] = is_plain ? dim_value(ctx->dims, type->d[i], NULL) : type->d[i];
    if (value->role == TENSOR_INPUT)
        u = tensor_node(in[value->number]);
    else if (value->role == TENSOR_HANDLE)
        u = tensor_at(jit->used[value->number].t)->uop;
    else
        u = tensor_buffer_node(ctx,
                               value->role == TENSOR_MADE
                                   ? jit->made[value->number].buf
                                   : value->buf,
                               uop_dims(&ctx->graph, d, type->n));
    return tn_bad(u) ? u : tn_reshape(ctx, u, d, type->n);
}

static bell_status
fail_nodes(struct bell_jit *jit)
{
    jit->ctx->graph.failed = false;
    return bell_fail(BELL_E_NO_MEMORY,
                     "bell_jit_call: out of memory for a node");
}

/* The nodes that inputs and their gradients will denote. An input without a
 * gradient has the new one at once. */
static bell_status
make_changes(struct bell_jit *jit, struct bell_tensor *const *in)
{
    uint32_t i;

    for (i = 0; i < jit->n_changes; i++) {
        struct jit_change *c = &jit->changes[i];
        const struct jit_input *input = &jit->inputs[c->input];
        if (c->is_replaced)
            c->node = value_node(jit, &c->after, &input->type, in);
        if (c->sets_grad)
            c->grad_node = value_node(jit, &c->grad, &c->grad_type, in);
        if ((c->is_replaced && tn_bad(c->node)) ||
            (c->sets_grad && tn_bad(c->grad_node)))
            return fail_nodes(jit);
    }
    for (i = 0; i < jit->n_changes; i++) {
        struct jit_change *c = &jit->changes[i];
        if (!c->sets_grad || jit->inputs[c->input].grad)
            continue;
        if (!tensor_set_grad(in[c->input], c->grad_node))
            return fail_nodes(jit);
        c->is_early = true;
    }
    return BELL_OK;
}

/* Inputs and their gradients denote that; or, where the call has failed, what
 * they did. */
static bell_status
end_changes(struct bell_jit *jit, struct bell_tensor *const *in,
            bell_status status)
{
    uint32_t i;

    for (i = 0; i < jit->n_changes; i++) {
        struct jit_change *c = &jit->changes[i];
        struct bell_tensor *t = in[c->input];
        bool early = c->is_early;
        c->is_early = false;
        if (status != BELL_OK) {
            if (early)
                bell_zero_grad(t);
            continue;
        }
        if (c->is_replaced) {
            clear_assigned(t);
            tensor_set_node(t, c->node);
        }
        if (c->drops_grad)
            bell_zero_grad(t);
        if (c->sets_grad && !early && !tensor_set_grad(t, c->grad_node))
            status = fail_nodes(jit);
        if (c->requires_grad != jit->inputs[c->input].requires_grad &&
            bell_is_error(bell_requires_grad(t, c->requires_grad)))
            status = tensor_report(jit->ctx);
    }
    return status;
}

/* The nodes that tensors and outputs will denote. */
static bell_status
make_nodes(struct bell_jit *jit, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    uint32_t i;

    BELL_TRY(make_changes(jit, in));
    for (i = 0; i < jit->n_used; i++) {
        struct jit_used *u = &jit->used[i];
        if (!u->is_replaced)
            continue;
        u->node = value_node(jit, &u->after, &u->type, in);
        if (tn_bad(u->node))
            return fail_nodes(jit);
    }
    for (i = 0; i < jit->desc.n_out; i++) {
        const struct jit_output *o = &jit->outputs[i];
        out[i] = tensor_new(jit->ctx, "bell_jit_call",
                            value_node(jit, &o->value, &o->type, in));
        if (tensor_at(out[i])->flags & TENSOR_ERROR)
            return tensor_report(jit->ctx);
    }
    return BELL_OK;
}

/* The bytes of a number. */
static void
put_number(const struct bell_tensor *t, void *out)
{
    const struct uop *c = tn_peel(tensor_node(t));
    uint64_t bits;

    assert(c);
    bits = uop_dtype_infos[c->dtype].is_float
               ? uop_float_bits(c->dtype, c->arg.f)
               : c->arg.bits;
    memcpy(out, &bits, uop_dtype_infos[c->dtype].size_bytes);
}

/* Numbers, random keys, rates; *out_n: so many of jit->feeds have gone on. */
static bell_status
feed(struct bell_jit *jit, struct bell_tensor *const *in, uint32_t *out_n)
{
    uint8_t *at;
    void *host;
    uint32_t i;

    BELL_TRY(rt_capture_feed(jit->capture, &host));
    at = host;
    for (i = 0; i < jit->n_args; i++, at += TENSOR_FEED_BYTES) {
        if (jit_is_number(in[i]))
            put_number(in[i], at);
    }
    for (i = 0; i < jit->n_feeds; i++, at += TENSOR_FEED_BYTES) {
        if (jit->feeds[i].opt)
            tensor_optimizer_advance(jit->feeds[i].opt, jit->feeds[i].group,
                                     at);
        else
            tensor_generator_words(jit->ctx, (uint32_t *)(void *)at);
    }
    *out_n = jit->n_feeds;
    return BELL_OK;
}

static void
take_feeds_back(struct bell_jit *jit, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (jit->feeds[i].opt)
            tensor_optimizer_retreat(jit->feeds[i].opt, jit->feeds[i].group);
        else
            jit->ctx->rng_calls--;
    }
}

static bell_status
queue_call(struct bell_jit *jit, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    uint32_t n_fed = 0;
    bell_status status;

    BELL_TRY(set_memory(jit, in));
    BELL_TRY(make_nodes(jit, in, out));
    status = feed(jit, in, &n_fed);
    if (status == BELL_OK)
        status = rt_capture_replay(jit->capture);
    if (status != BELL_OK)
        take_feeds_back(jit, n_fed);
    return status;
}

static bell_status
replay(struct bell_jit *jit, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    bell_status status;
    uint32_t i;

    for (i = 0; i < jit->desc.n_out; i++)
        out[i] = NULL;
    status = queue_call(jit, in, out);
    for (i = 0; status == BELL_OK && i < jit->n_used; i++) {
        struct jit_used *u = &jit->used[i];
        if (u->is_replaced) {
            clear_assigned(u->t);
            tensor_set_node(u->t, u->node);
        }
    }
    status = end_changes(jit, in, status);
    for (i = 0; i < jit->n_made; i++) {
        if (jit->made[i].buf)
            tensor_buffer_release(jit->made[i].buf);
        jit->made[i].buf = NULL;
    }
    for (i = 0; status != BELL_OK && i < jit->desc.n_out; i++) {
        bell_tensor_release(out[i]);
        out[i] = jit->ctx->error_tensor;
    }
    jit->n_denoted = jit->ctx->n_denoted;
    tensor_collect(jit->ctx);
    return status;
}

/* The same where plain sizes of inputs say what symbols are; these are what
 * they were afterwards. */
static bell_status
replay_bound(struct bell_jit *jit, struct bell_tensor *const *in,
             struct bell_tensor **out)
{
    struct dim_table *dims = jit->ctx->dims;
    int64_t was[DIM_MAX_SYMBOLS];
    bell_status status;
    uint32_t i;

    if (!jit->binds)
        return replay(jit, in, out);
    for (i = 0; i < dims->n_symbols; i++)
        was[i] = dims->symbols[i].value;
    status = jit_bind_sizes(jit, in, was);
    if (status == BELL_OK)
        status = replay(jit, in, out);
    for (i = 0; i < dims->n_symbols; i++)
        dims->symbols[i].value = was[i];
    return status;
}

/* Inside another function it is a part of that. */
static bell_status
inline_call(struct bell_jit *jit, struct bell_tensor *const *in,
            struct bell_tensor **out)
{
    struct bell_context *ctx = jit->ctx;
    bell_status status, ended;
    uint32_t i;

    BELL_TRY(bell_scope_begin(ctx));
    for (i = 0; i < jit->desc.n_out; i++)
        out[i] = NULL;
    status = run_function(jit, in, out);
    for (i = 0; status == BELL_OK && i < jit->desc.n_out; i++)
        out[i] = bell_keep(bell_alias(out[i]));
    ended = bell_scope_end(ctx);
    return status == BELL_OK ? ended : status;
}

bell_status
bell_jit_call(struct bell_jit *jit, struct bell_tensor *const *in,
              struct bell_tensor **out)
{
    struct bell_context *ctx;
    bool fits = false;

    BELL_TRY(jit_usable(__func__, jit));
    if ((!in && jit->desc.n_in) || (!out && jit->desc.n_out))
        return bell_fail(BELL_BAD_MISSING,
                         "bell_jit_call: the list of %s is "
                         "NULL",
                         !in && jit->desc.n_in ? "inputs" : "outputs");
    ctx = jit->ctx;
    if (!ctx)
        return bell_fail(BELL_BAD_STATE,
                         "bell_jit_call: the context of '%s' was destroyed",
                         jit->name);
    if (jit->is_running)
        return bell_fail(BELL_BAD_STATE,
                         "bell_jit_call: '%s' is called inside its function",
                         jit->name);
    BELL_TRY(tensor_report(ctx));
    BELL_TRY(rt_capture_status(ctx));
    BELL_TRY(take_inputs(jit, in, &fits));
    in = jit->given;
    /* Indices are checked where they have values. */
    if ((ctx->trace || ctx->checks_index) && jit->binds)
        return bell_fail(
            BELL_BAD_STATE,
            "bell_jit_call: '%s' has sizes of symbols, and is given numbers: "
            "%s give it sizes of symbols",
            jit->name,
            ctx->trace ? "inside another function"
                       : "where indices are checked");
    if (ctx->trace || ctx->checks_index)
        return inline_call(jit, in, out);
    if (jit->capture && fits && bell_mesh_places(ctx) > 1)
        BELL_TRY(jit_find_layouts(jit, &fits));
    if (jit->capture &&
        (!fits || ctx->math != jit->math || ctx->training != jit->training ||
         ctx->n_unpacked != jit->n_unpacked))
        tensor_jit_drop(jit);
    if (!jit->capture) {
        note_inputs(jit, in);
        if (bell_mesh_places(ctx) > 1) {
            BELL_TRY(take_inputs(jit, in, &fits));
            BELL_TRY(jit_find_layouts(jit, &fits));
        }
        BELL_TRY(tensor_jit_capture(jit, NULL, NULL));
        BELL_TRY(take_inputs(jit, in, &fits));
    }
    BELL_TRY(check_feeds(jit));
    BELL_TRY(check_apart(jit));
    BELL_TRY(check_changes(jit));
    BELL_TRY(jit_check_used(jit));
    return replay_bound(jit, in, out);
}
