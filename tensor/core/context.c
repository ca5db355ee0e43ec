/* Contexts, scopes, their tensors and the first-error record.
 *
 * Slots come from chunks and go back to a free list; each is on the list of
 * the scope that owns it, but a gradient, which its tensor owns.
 */
#include "tensor/core/tensor_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/once.h"
#include "tensor/core/rules.h"
#include "tensor/core/node.h"
#include "tensor/core/trace.h"

#define SCOPE_OWNED UINT32_MAX /* of a gradient: owned by its tensor */

/* ---- handles ---- */

/* Scopes are lists of tensors. Linking in front keeps both ends O(1). */
static void
link_handle(struct bell_context *ctx, struct tensor *t, uint32_t scope)
{
    struct tensor_scope *s = &ctx->scopes[scope];

    assert(scope < ctx->n_scopes);
    t->scope = scope;
    t->prev = NULL;
    t->next = s->tensors;
    if (s->tensors)
        s->tensors->prev = t;
    s->tensors = t;
}

static void
unlink_handle(struct tensor *t)
{
    assert(!t->prev || t->prev->next == t);
    if (t->prev)
        t->prev->next = t->next;
    else if (t->scope != SCOPE_OWNED)
        t->ctx->scopes[t->scope].tensors = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->prev = t->next = NULL;
}

static void
add_free(struct bell_context *ctx, struct tensor *t)
{
    t->next = NULL;
    if (ctx->free_slots)
        ctx->last_free->next = t;
    else
        ctx->free_slots = t;
    ctx->last_free = t;
}

/* Chunks of slots are the context's while it lives: making a handle and ending
 * it are a few stores. */
static bool
add_handle_chunk(struct bell_context *ctx)
{
    struct tensor_chunk *chunk =
        handle_take_chunk(ctx, ctx->chunks ? ctx->chunks->number + 1 : 0);
    size_t i;

    if (!chunk)
        return false;
    chunk->next = ctx->chunks;
    ctx->chunks = chunk;
    for (i = 0; i < HANDLE_SLOTS; i++) {
        chunk->slots[i].ctx = ctx;
        add_free(ctx, &chunk->slots[i]);
    }
    return true;
}

static struct tensor *
alloc_handle(struct bell_context *ctx)
{
    struct tensor *t;

    if (!ctx->free_slots && !add_handle_chunk(ctx))
        return NULL;
    t = ctx->free_slots;
    ctx->free_slots = t->next;
    ctx->n_tensors++;
    handle_begin(t);
    t->serial = ++ctx->n_handles;
    t->flags = 0;
    t->label = 0;
    t->grad = NULL;
    return t;
}

/* Ends an unlinked tensor and the gradients it owns, for `call`. */
static void
free_handle(struct tensor *t, const char *call)
{
    while (t) {
        struct bell_context *ctx = t->ctx;
        struct tensor *grad = t->grad ? tensor_at(t->grad) : NULL;

        if (t->flags & TENSOR_ASSIGNED)
            ctx->n_assigned--;
        if (t->uop && t->uop->op == UOP_BUFFER)
            ctx->bytes_since_collect += tensor_buffer_cost(t->uop->arg.data);
        ctx->n_dropped++;
        t->uop = NULL;
        if (handle_end(t, call))
            add_free(ctx, t);
        ctx->n_tensors--;
        t = grad;
    }
}

/* The error tensor after a node could not be made; says why. */
static struct bell_tensor *
fail_node(struct bell_context *ctx, const char *call)
{
    struct bell_error why = ctx->node_error;

    memset(&ctx->node_error, 0, sizeof(ctx->node_error));
    ctx->graph.failed = false;
    if (why.status != BELL_OK)
        return tensor_fail(ctx, call, BELL_WHY(why.status, why.reason), "%s",
                           why.message);
    return tensor_fail(ctx, call, BELL_E_NO_MEMORY,
                       "out of memory in a graph of %zu nodes",
                       ctx->graph.n_nodes);
}

/* Shape and dtype are the handle's own copies: asking for them does not touch
 * the graph. */
static void
set_node(struct tensor *t, const struct uop *uop)
{
    assert(tn_bad(uop) || t->ctx->graph.nodes[uop->id] == uop);
    t->ctx->n_denoted++;
    t->ctx->n_unpacked += t->flags & TENSOR_PACKED && !t->ctx->trace;
    t->uop = uop;
    t->shape = tn_shape(t->ctx, uop);
    t->dtype = uop->dtype;
    t->flags &= ~(uint32_t)(TENSOR_WEAK | TENSOR_PACKED | TENSOR_VARIES |
                            TENSOR_FORGETS);
    if (t->ctx->dims->n_exprs && dims_in(t->shape->d, t->shape->n))
        t->flags |= TENSOR_VARIES;
}

void
tensor_set_node(struct bell_tensor *t, const struct uop *uop)
{
    set_node(tensor_at(t), uop);
}

struct bell_tensor *
tensor_new(struct bell_context *ctx, const char *call, const struct uop *uop)
{
    struct tensor *t;

    assert(tn_bad(uop) || ctx->graph.nodes[uop->id] == uop);
    if (uop == &uop_failed)
        return fail_node(ctx, call);
    t = alloc_handle(ctx);
    if (!t)
        return tensor_fail(ctx, call, BELL_E_NO_MEMORY,
                           "out of memory with %zu tensors", ctx->n_tensors);
    set_node(t, uop);
    link_handle(ctx, t, ctx->n_scopes - 1);
    return handle_of(t);
}

struct tensor_buffer *
tensor_buffer_of(const struct bell_tensor *t)
{
    const struct uop *u = tensor_at(t)->uop->op == UOP_RESHAPE
                              ? tensor_at(t)->uop->src[0]
                              : tensor_at(t)->uop;

    return u->op == UOP_BUFFER ? (struct tensor_buffer *)(uintptr_t)u->arg.data
                               : NULL;
}

/* Numbers without a dtype of their own (weak) are wide until something
 * decides: where the node itself is wanted, they become the default. */
const struct uop *
tensor_node(const struct bell_tensor *t)
{
    if (!(tensor_at(t)->flags & TENSOR_WEAK))
        return tensor_at(t)->uop;
    return tn_cast(tensor_at(t)->ctx, tensor_at(t)->uop,
                   uop_dtype_infos[tensor_at(t)->dtype].is_float ? UOP_F32
                                                                 : UOP_I64);
}

const struct uop *
tensor_wide_node(const struct bell_tensor *t)
{
    const struct uop *u = tensor_node(t);

    return tn_cast(tensor_at(t)->ctx, u, tensor_wide_dtype(u->dtype));
}

/* A gradient's handle belongs to its tensor and to no scope. */
bool
tensor_set_grad(struct bell_tensor *handle, const struct uop *uop)
{
    struct tensor *t = tensor_at(handle), *grad;

    assert(tn_bad(uop) || t->ctx->graph.nodes[uop->id] == uop);
    if (!t->grad) {
        grad = alloc_handle(t->ctx);
        if (!grad)
            return false;
        grad->scope = SCOPE_OWNED;
        grad->prev = grad->next = NULL;
        t->grad = handle_of(grad);
    }
    set_node(tensor_at(t->grad), uop);
    return true;
}

struct tensor *
tensor_first(const struct bell_context *ctx, struct tensor_iter *it)
{
    it->scope = 0;
    it->listed = ctx->scopes[0].tensors;
    it->at = it->listed;
    while (!it->at && ++it->scope < ctx->n_scopes)
        it->listed = it->at = ctx->scopes[it->scope].tensors;
    return it->at;
}

/* Each tensor is followed by its gradient, whose handle is on no list. */
struct tensor *
tensor_next(const struct bell_context *ctx, struct tensor_iter *it)
{
    if (it->at->grad) {
        it->at = tensor_at(it->at->grad);
        return it->at;
    }
    it->listed = it->at = it->listed->next;
    while (!it->at && ++it->scope < ctx->n_scopes)
        it->listed = it->at = ctx->scopes[it->scope].tensors;
    return it->at;
}

/* ---- errors ---- */

bell_status
tensor_context_usable(const char *call, const struct bell_context *ctx)
{
    if (__builtin_expect(ctx && ctx->is_live, 1))
        return BELL_OK;
    return bell_fail_at(call, ctx ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the context %s", call,
                        ctx ? "was destroyed" : "is NULL");
}

void
tensor_no_info(const char *call, void *out_info, size_t size_bytes)
{
    uint32_t struct_size;

    if (!out_info) {
        (void)bell_fail_at(call, BELL_BAD_MISSING, "%s: the result is NULL",
                           call);
        return;
    }
    memcpy(&struct_size, out_info, sizeof(struct_size));
    size_bytes = struct_size < size_bytes ? struct_size : size_bytes;
    if (size_bytes > sizeof(struct_size))
        memset((uint8_t *)out_info + sizeof(struct_size), 0,
               size_bytes - sizeof(struct_size));
}

void
tensor_give_info(const char *call, const void *info, size_t least,
                 size_t size_bytes, void *out_info)
{
    uint32_t struct_size;

    memcpy(&struct_size, out_info, sizeof(struct_size));
    if (struct_size < least) {
        (void)bell_fail_at(call, BELL_BAD_VALUE,
                           "%s: the result's struct_size is %u, not its size, "
                           "%zu",
                           call, struct_size, size_bytes);
        return;
    }
    size_bytes = struct_size < size_bytes ? struct_size : size_bytes;
    memcpy((uint8_t *)out_info + sizeof(struct_size),
           (const uint8_t *)info + sizeof(struct_size),
           size_bytes - sizeof(struct_size));
}

bell_status
tensor_options(const char *call, const void *options, size_t least,
               size_t size_bytes, void *out)
{
    uint32_t struct_size = (uint32_t)size_bytes;

    memset(out, 0, size_bytes);
    if (options) {
        memcpy(&struct_size, options, sizeof(struct_size));
        if (struct_size < least)
            return bell_fail_at(call, BELL_BAD_VALUE,
                                "%s: the options' struct_size is %u, not their "
                                "size, %zu",
                                call, struct_size, size_bytes);
        memcpy(out, options,
               struct_size < size_bytes ? struct_size : size_bytes);
    }
    struct_size = (uint32_t)size_bytes;
    memcpy(out, &struct_size, sizeof(struct_size));
    return BELL_OK;
}

bell_status
tensor_desc_size(const char *call, uint32_t struct_size, size_t least,
                 size_t size_bytes)
{
    if (struct_size >= least)
        return BELL_OK;
    return bell_fail_at(call, BELL_BAD_VALUE,
                        "%s: the description's struct_size is %u, not its "
                        "size, %zu",
                        call, struct_size, size_bytes);
}

bool
tensor_context_check(const char *call, const struct bell_context *ctx)
{
    return tensor_context_usable(call, ctx) == BELL_OK;
}

/* A call that mixes contexts up may fail in one that another thread uses: that
 * one is not told. */
static struct bell_tensor *
keep_error(struct bell_context *ctx)
{
    const char *other;
    struct try_lock_owner *owner = try_lock_take(&ctx->lock, __func__, &other);

    if (!other && ctx->error.status == BELL_OK)
        ctx->error = *bell_error_last();
    if (owner)
        try_lock_leave(&ctx->lock, owner);
    return ctx->error_tensor;
}

/* The message begins with the public call's name: inner functions pass on whom
 * they work for. */
struct bell_tensor *
tensor_fail(struct bell_context *ctx, const char *call, bell_status status,
            const char *fmt, ...)
{
    char text[BELL_ERROR_MESSAGE];
    va_list args;

    assert(status != BELL_OK);
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)bell_fail_at(call, status, "%s: %s", call, text);
    return keep_error(ctx);
}

struct bell_tensor *
tensor_fail_last(struct bell_context *ctx, const char *call)
{
    bell_error_prefix("%s", call);
    return keep_error(ctx);
}

struct bell_tensor *
tensor_fail_told(struct bell_context *ctx)
{
    return keep_error(ctx);
}

/* The first failure of a chain of calls is told by the first call that returns
 * a status, and only once. */
bell_status
tensor_report(struct bell_context *ctx)
{
    struct bell_error error;

    if (__builtin_expect(ctx->error.status == BELL_OK, 1))
        return BELL_OK; /* asked by every call: nothing is copied */
    error = ctx->error;
    memset(&ctx->error, 0, sizeof(ctx->error));
    return bell_error_set(&error);
}

/* What `call` returns that was given `t`, a handle that does not live: the
 * error tensor of its context, else of `ctx`; else `t` again, so that calls
 * that are given the result fail for the same reason. */
static struct bell_tensor *
fail_dead(struct bell_context *ctx, const char *call,
          const struct bell_tensor *t, uint32_t position)
{
    struct bell_context *of = handle_context(t);
    bell_status status = t ? BELL_BAD_STATE : BELL_BAD_MISSING;
    char buf[HANDLE_FATE];
    const char *fate = handle_fate(t, buf, sizeof(buf));

    ctx = of ? of : ctx;
    if (ctx)
        return tensor_fail(ctx, call, status, "tensor argument %u %s", position,
                           fate);
    (void)bell_fail_at(call, status, "%s: tensor argument %u %s", call,
                       position, fate);
    return (struct bell_tensor *)(uintptr_t)t;
}

struct tensor *
tensor_asked(const char *call, const struct bell_tensor *t)
{
    struct tensor *found = handle_find(t);

    if (__builtin_expect(!found && t, 0))
        (void)fail_dead(NULL, call, t, 1);
    return found;
}

static struct bell_tensor *
fail_varying(const char *call, const struct bell_tensor *t)
{
    return tensor_fail(tensor_at(t)->ctx, call, BELL_BAD_SHAPE,
                       "of a tensor of shape %s; sizes of symbols are not for "
                       "this function",
                       SHAPE_OF(t));
}

bool
tensor_check(const char *call, struct bell_tensor *t, struct bell_tensor **out)
{
    if (!tensor_takes(call, t, out))
        return false;
    if (tensor_at(t)->flags & TENSOR_VARIES)
        *out = fail_varying(call, t);
    return *out == t;
}

bool
tensor_takes(const char *call, struct bell_tensor *t, struct bell_tensor **out)
{
    const struct tensor *found = handle_find(t);

    if (__builtin_expect(!found, 0)) {
        *out = fail_dead(NULL, call, t, 1);
        return false;
    }
    *out = t;
    return !(found->flags & TENSOR_ERROR);
}

bool
tensor_check_n(const char *call, struct bell_tensor *const *tensors, uint32_t n,
               struct bell_tensor **out)
{
    uint32_t i;

    if (!tensor_takes_n(call, tensors, n, out))
        return false;
    for (i = 0; i < n; i++) {
        if (tensor_at(tensors[i])->flags & TENSOR_VARIES) {
            *out = fail_varying(call, tensors[i]);
            return false;
        }
    }
    return true;
}

bool
tensor_takes_n(const char *call, struct bell_tensor *const *tensors, uint32_t n,
               struct bell_tensor **out)
{
    struct bell_context *ctx = NULL;
    const struct tensor *t;
    uint32_t i;

    assert(n > 0);
    if (!tensors) {
        (void)bell_fail_at(call, BELL_BAD_MISSING,
                           "%s: the list of tensors is NULL", call);
        *out = NULL;
        return false;
    }
    for (i = 0; i < n && !ctx; i++) {
        t = handle_find(tensors[i]);
        ctx = t ? t->ctx : NULL;
    }
    for (i = 0; i < n; i++) {
        t = handle_find(tensors[i]);
        if (!t) {
            *out = fail_dead(ctx, call, tensors[i], i + 1);
            return false;
        }
        if (t->flags & TENSOR_ERROR) {
            *out = tensors[i];
            return false;
        }
        if (t->ctx != ctx) {
            *out = tensor_fail(ctx, call, BELL_BAD_CONTEXT,
                               "tensor arguments 1 and %u are of different "
                               "contexts",
                               i + 1);
            return false;
        }
    }
    return true;
}

/* The common case without a loop: this is in front of every elementwise call.
 * */
bool
tensor_takes2(const char *call, struct bell_tensor *x, struct bell_tensor *y,
              struct bell_tensor **out)
{
    const struct tensor *a = handle_find(x), *b = handle_find(y);
    struct bell_tensor *both[2] = {x, y};

    if (__builtin_expect(a && b && a->ctx == b->ctx &&
                             !((a->flags | b->flags) & TENSOR_ERROR),
                         1))
        return true;
    return tensor_takes_n(call, both, 2, out);
}

bool
tensor_check2(const char *call, struct bell_tensor *x, struct bell_tensor *y,
              struct bell_tensor **out)
{
    struct bell_tensor *both[2] = {x, y};

    return tensor_check_n(call, both, 2, out);
}

bool
tensor_plain_axes(const char *call, struct bell_tensor *t, uint32_t axis_mask,
                  const char *why, struct bell_tensor **out)
{
    const struct uop_dims *shape = tensor_at(t)->shape;
    uint32_t i;

    for (i = 0; i < shape->n; i++) {
        if (!(axis_mask & 1u << i) || !dim_is_expr(shape->d[i]))
            continue;
        *out = tensor_fail(tensor_at(t)->ctx, call, BELL_BAD_SHAPE,
                           "axis %u of %s has the size of a symbol: %s", i,
                           SHAPE_OF(t), why);
        return false;
    }
    return true;
}

bool
tensor_has_room(const char *call, const struct bell_tensor *t,
                struct bell_tensor **const *room, uint32_t n)
{
    const struct tensor *found = handle_find(t);
    struct bell_tensor *error;
    uint32_t i;

    for (i = 0; i < n && room[i]; i++)
        continue;
    if (i == n)
        return true;
    (void)bell_fail_at(call, BELL_BAD_MISSING,
                       "%s: the room for a result is NULL", call);
    error = found ? keep_error(found->ctx) : NULL;
    for (i = 0; i < n; i++) {
        if (room[i])
            *room[i] = error;
    }
    return false;
}

bell_status
tensor_usable(const char *call, const struct bell_tensor *t)
{
    const struct tensor *found = handle_find(t);
    struct bell_context *ctx = found ? found->ctx : handle_context(t);
    char buf[HANDLE_FATE];

    if (ctx)
        BELL_TRY(tensor_report(ctx));
    if (!found)
        return bell_fail_at(call, t ? BELL_BAD_STATE : BELL_BAD_MISSING,
                            "%s: the tensor %s", call,
                            handle_fate(t, buf, sizeof(buf)));
    if (found->flags & TENSOR_ERROR &&
        bell_error_last()->reason == BELL_REASON_THREAD)
        return bell_error_last()->status; /* that call's, which says more */
    if (found->flags & TENSOR_ERROR)
        return bell_fail_at(call, BELL_BAD_STATE,
                            "%s: the tensor is the result of a call that "
                            "failed before",
                            call);
    return BELL_OK;
}

/* ---- context ---- */

static bell_status
init_context(struct bell_context *ctx)
{
    struct tensor *error;

    uop_graph_init(&ctx->graph);
    ctx->dims = host_alloc(sizeof(*ctx->dims));
    if (!ctx->dims)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a context");
    dim_table_init(ctx->dims);
    arena_init(&ctx->functions);
    map_init(&ctx->rule_of);
    tensor_labels_init(ctx);
    ctx->scalar_dims = uop_dims(&ctx->graph, NULL, 0);
    if (!ctx->scalar_dims || host_grow((void **)&ctx->scopes, &ctx->cap_scopes,
                                       1, sizeof(*ctx->scopes)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a context");
    memset(&ctx->scopes[0], 0, sizeof(ctx->scopes[0]));
    ctx->n_scopes = ctx->n_base_scopes = 1;
    error = alloc_handle(ctx);
    if (!error)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a context");
    ctx->n_tensors--;
    error->flags = TENSOR_ERROR;
    error->uop = &uop_failed;
    error->shape = ctx->scalar_dims;
    error->dtype = UOP_F32;
    error->scope = SCOPE_OWNED;
    ctx->error_tensor = handle_of(error);
    return BELL_OK;
}

/* Device memory first, while there is a device; then the device, then records
 * that the graph's nodes point to. */
static void
free_context(struct bell_context *ctx)
{
    struct tensor_buffer *buf;
    size_t i;

    tensor_device_settle(ctx);
    for (buf = ctx->buffers; buf; buf = buf->next) {
        if (buf->device_mem)
            tensor_buffer_free(buf);
        host_free(buf->held);
    }
    tensor_device_close(ctx);
    while (ctx->buffers) {
        buf = ctx->buffers;
        ctx->buffers = buf->next;
        host_free(buf);
    }
    while (ctx->chunks) {
        struct tensor_chunk *chunk = ctx->chunks;
        ctx->chunks = chunk->next;
        handle_drop_chunk(chunk, "bell_context_destroy");
    }
    uop_graph_fini(&ctx->graph);
    if (ctx->dims)
        dim_table_fini(ctx->dims);
    host_free(ctx->dims);
    arena_fini(&ctx->functions);
    map_fini(&ctx->rule_of);
    for (i = 0; i < ctx->n_rules; i++)
        tensor_custom_free(ctx->rules[i].custom);
    host_free(ctx->rules);
    tensor_givens_fini(&ctx->givens);
    host_free(ctx->scopes);
    host_free(ctx->mesh);
    tensor_labels_fini(ctx);
    once_end(ctx, sizeof(*ctx));
}

bell_status
bell_context_create(const char *device_name, struct bell_context **out_ctx)
{
    struct bell_context *ctx;
    bell_status status;

    if (!out_ctx)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_context_create: the result is NULL");
    *out_ctx = NULL;
    BELL_TRY(log_init());
    ctx = once_alloc(sizeof(*ctx), TENSOR_IS_CONTEXT, NULL);
    if (!ctx)
        return bell_fail(BELL_E_NO_MEMORY,
                         "bell_context_create: out of memory");
    ctx->pid = (int32_t)getpid();
    status = init_context(ctx);
    if (status == BELL_OK)
        status = tensor_math_init(ctx);
    if (status == BELL_OK)
        status = tensor_check_init(ctx);
    if (status == BELL_OK)
        status = tensor_device_open(ctx, device_name);
    if (status != BELL_OK) {
        free_context(ctx);
        bell_error_frame(__func__);
        return status;
    }
    ctx->is_live = true;
    *out_ctx = ctx;
    return BELL_OK;
}

void
bell_context_destroy(struct bell_context *ctx)
{
    if (!ctx || !tensor_context_check(__func__, ctx) ||
        tensor_device_is_inherited(ctx))
        return;
    if (ctx->trace)
        (void)tensor_fail(ctx, __func__, BELL_BAD_STATE,
                          "a jit's function is running");
    else
        free_context(ctx);
}

const char *
bell_context_device(const struct bell_context *ctx)
{
    return tensor_context_check(__func__, ctx) ? ctx->device_name : NULL;
}

bell_status
bell_context_status(struct bell_context *ctx)
{
    BELL_TRY(tensor_context_usable(__func__, ctx));
    return tensor_report(ctx);
}

#define TIMEOUT_MAX_S 1e9

bell_status
bell_context_set_timeout(struct bell_context *ctx, double seconds)
{
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (!(seconds >= 0 && seconds <= TIMEOUT_MAX_S))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_context_set_timeout: %g seconds; expected 0 to "
                         "%g",
                         seconds, TIMEOUT_MAX_S);
    tensor_device_set_timeout(ctx, seconds);
    return BELL_OK;
}

struct bell_tensor *
bell_error_tensor(struct bell_context *ctx)
{
    return tensor_context_check(__func__, ctx) ? ctx->error_tensor : NULL;
}

bool
bell_set_training(struct bell_context *ctx, bool training)
{
    bool old;

    if (!tensor_context_check(__func__, ctx))
        return false;
    old = ctx->training;
    ctx->training = training;
    return old;
}

bool
bell_is_training(const struct bell_context *ctx)
{
    return tensor_context_check(__func__, ctx) && ctx->training;
}

void
bell_context_get_info(const struct bell_context *ctx,
                      struct bell_context_info *out_info)
{
    struct bell_context_info info = {0};

    if (!out_info || !tensor_context_check(__func__, ctx)) {
        tensor_no_info(__func__, out_info, sizeof(*out_info));
        return;
    }
    info.n_tensors = ctx->n_tensors;
    info.n_scopes = ctx->n_scopes;
    info.n_graph_nodes = ctx->graph.n_nodes;
    info.n_buffers = ctx->n_buffers;
    info.buffer_bytes = ctx->buffer_bytes;
    info.n_compactions = ctx->n_compactions;
    tensor_give_info(__func__, &info, sizeof(info), sizeof(info), out_info);
}

/* ---- scopes ---- */

bell_status
bell_scope_begin(struct bell_context *ctx)
{
    BELL_TRY(tensor_context_usable(__func__, ctx));
    tensor_collect(ctx);
    if (host_grow((void **)&ctx->scopes, &ctx->cap_scopes,
                  (size_t)ctx->n_scopes + 1, sizeof(*ctx->scopes)) != 0)
        return bell_fail(BELL_E_NO_MEMORY,
                         "bell_scope_begin: out of memory with %u scopes",
                         ctx->n_scopes);
    memset(&ctx->scopes[ctx->n_scopes], 0, sizeof(ctx->scopes[0]));
    ctx->n_scopes++;
    return BELL_OK;
}

bell_status
bell_scope_end(struct bell_context *ctx)
{
    struct tensor *t;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (ctx->n_scopes == ctx->n_base_scopes) {
        tensor_fail(ctx, __func__, BELL_BAD_STATE,
                    "no scope was begun that is still open");
        return tensor_report(ctx);
    }
    t = ctx->scopes[--ctx->n_scopes].tensors;
    while (t) {
        struct tensor *next = t->next;
        free_handle(t, __func__);
        t = next;
    }
    tensor_collect(ctx);
    return tensor_report(ctx);
}

/* To the scope around the present one, or to the outermost, which ends with
 * the context. */
static struct bell_tensor *
move_handle(const char *call, struct bell_tensor *handle, bool to_own)
{
    struct bell_tensor *out;
    struct tensor *t;

    if (!tensor_takes(call, handle, &out))
        return out;
    t = tensor_at(handle);
    if (t->scope != SCOPE_OWNED && t->scope != 0) {
        uint32_t to = to_own ? 0 : t->scope - 1;
        unlink_handle(t);
        link_handle(t->ctx, t, to);
    }
    return handle;
}

struct bell_tensor *
bell_keep(struct bell_tensor *t)
{
    return move_handle(__func__, t, false);
}

struct bell_tensor *
bell_keep_forever(struct bell_tensor *t)
{
    return move_handle(__func__, t, true);
}

void
bell_tensor_release(struct bell_tensor *handle)
{
    struct tensor *t = handle_find(handle);
    struct bell_context *ctx;

    if (!t && !handle_is_past(handle))
        t = tensor_asked(__func__, handle);
    if (!t || (t->flags & TENSOR_ERROR) || t->scope == SCOPE_OWNED)
        return;
    ctx = t->ctx;
    unlink_handle(t);
    free_handle(t, __func__);
    tensor_collect(ctx);
}

struct bell_tensor *
bell_alias(struct bell_tensor *t)
{
    struct bell_tensor *out, *alias;

    if (!tensor_takes(__func__, t, &out))
        return out;
    alias = tensor_new(tensor_at(t)->ctx, __func__, tensor_at(t)->uop);
    tensor_at(alias)->flags |=
        tensor_at(t)->flags & (TENSOR_WEAK | TENSOR_PACKED | TENSOR_FORGETS);
    return alias;
}

void
bell_zero_grad(struct bell_tensor *handle)
{
    struct tensor *t = tensor_asked(__func__, handle);

    if (t)
        tensor_trace_touch(t);
    if (t && t->grad) {
        free_handle(tensor_at(t->grad), __func__);
        t->grad = NULL;
    }
}

struct bell_tensor *
bell_grad(const struct bell_tensor *handle)
{
    struct tensor *t = tensor_asked(__func__, handle);

    if (t)
        tensor_trace_touch(t);
    return t ? t->grad : NULL;
}
