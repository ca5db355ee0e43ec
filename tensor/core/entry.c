/* Public calls that are refused at their entry. */
#include "tensor/core/entry.h"

#include <inttypes.h>
#include <unistd.h>

struct bell_context *
entry_tensors(struct bell_tensor *const *tensors, size_t n)
{
    struct bell_context *ctx = NULL;
    size_t i;

    for (i = 0; tensors && i < n && !ctx; i++)
        ctx = handle_owner(tensors[i]);
    return ctx;
}

struct bell_context *
entry_state(const struct bell_state *state)
{
    struct bell_context *ctx = NULL;
    uint32_t i;

    for (i = 0; state && i < state->n && !ctx; i++)
        ctx = handle_owner(state->items[i].tensor);
    return ctx;
}

bool
entry_no_object(const char *call, enum tensor_object kind)
{
    static const char *const names[] = {
        [TENSOR_IS_CONTEXT] = "context is not a context",
        [TENSOR_IS_JIT] = "jit is not a jit",
        [TENSOR_IS_LOADER] = "loader is not a loader",
        [TENSOR_IS_OPTIMIZER] = "optimiser is not an optimiser",
        [TENSOR_IS_FILE] = "file is not a file",
        [TENSOR_IS_ONNX] = "model is not a model",
        [TENSOR_IS_LM] = "language model is not a language model",
        [TENSOR_IS_LM_SESSION] = "session is not a session",
    };

    (void)bell_fail_at(call, BELL_BAD_STATE, "%s: the %s, and never was one",
                       call, names[kind]);
    return false;
}

bool
entry_take(const char *call, struct bell_context *ctx,
           struct try_lock_owner **out_owner)
{
    const char *other = NULL;

    *out_owner = ctx ? try_lock_take(&ctx->lock, call, &other) : NULL;
    /* A child of fork has the lock as it was, and not the thread. */
    if (other && ctx->pid != (int32_t)getpid())
        (void)bell_fail_at(call, BELL_BAD_PROCESS,
                           "%s: the context was made by process %" PRId32
                           ", before a fork: a child makes its own",
                           call, ctx->pid);
    else if (other)
        (void)bell_fail_at(call, BELL_BAD_THREAD,
                           "%s: the context is in use by another thread, in %s",
                           call, other);
    return !other;
}

/* Where the context has ended, what is left of it is zeros, and stays so. */
void
entry_leave(struct bell_context *ctx, struct try_lock_owner *owner)
{
    if (owner && atomic_load_explicit(&owner->call, memory_order_relaxed))
        try_lock_leave(&ctx->lock, owner);
}

void
entry_errors(const struct bell_context *ctx, struct bell_tensor **out,
             uint32_t n)
{
    uint32_t i;

    for (i = 0; out && i < n; i++)
        out[i] = entry_error(ctx);
}
