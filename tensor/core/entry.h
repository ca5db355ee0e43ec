/* The way into the library: what every public call does before anything else.
 *
 * entry_gen.py writes a shell for each public function that takes an object of
 * a context. The shell has the function's name. It refuses addresses at which
 * no object began, enters the context, so that no other thread is inside, and
 * calls the body. Bodies are the functions as they are written: tensor_do_NAME
 * to the linker, so that calls within the library go from body to body. A
 * caller's function that is called from inside comes through shells again,
 * which let the thread in that is inside already.
 *
 * A call that is refused touches nothing of the context: the failure is in the
 * thread's record alone.
 */
#ifndef BELL_TENSOR_CORE_ENTRY_H
#define BELL_TENSOR_CORE_ENTRY_H

#include <string.h>

#include "base/once.h"
#include "doorbell/module.h"
#include "tensor/core/tensor_internal.h"

/* The first context that is found in a list, in the parameters and buffers of
 * a module or of its state; or NULL. */
struct bell_context *entry_tensors(struct bell_tensor *const *tensors,
                                   size_t n);
struct bell_context *entry_state(const struct bell_state *state);
struct bell_context *entry_module(const struct bell_module_type *type,
                                  const void *module);

/* Fails, and is false. */
bool entry_no_object(const char *call, enum tensor_object kind);

/* Whether `object` is or was one of that kind, or is NULL, which bodies refuse;
 * else fails. */
static inline bool
entry_check(const char *call, const void *object, enum tensor_object kind)
{
    return __builtin_expect(once_is(object, kind), 1) || !object ||
           entry_no_object(call, kind);
}

/* The context of an object that was checked. */
static inline struct bell_context *
entry_object(const void *object)
{
    return once_find(object).parent;
}

/* The way in where the context is biased to the thread; else NULL, also where
 * ctx is NULL. */
static inline struct try_lock_owner *
entry_enter(const char *call, struct bell_context *ctx)
{
    return __builtin_expect(ctx != NULL, 1) ? try_lock_enter(&ctx->lock, call)
                                            : NULL;
}

/* Any other way in: false, and fails, where another thread is inside.
 * *out_owner is what to leave by. It is NULL where the thread was inside
 * already, and where ctx is NULL. */
bool entry_take(const char *call, struct bell_context *ctx,
                struct try_lock_owner **out_owner);
void entry_leave(struct bell_context *ctx, struct try_lock_owner *owner);
/* Behind entry_take: nodes are the call's, also inside of another one. Returns
 * whose they were. */
static inline const char *
entry_name(const char *call, struct bell_context *ctx,
           const struct try_lock_owner *owner)
{
    const char *was = ctx ? ctx->labels.inner : NULL;

    if (ctx && !owner)
        ctx->labels.inner = call;
    return was;
}
/* Before entry_leave. A context that has ended has no call. */
static inline void
entry_name_back(struct bell_context *ctx, const char *was)
{
    if (ctx && ctx->labels.inner)
        ctx->labels.inner = was;
}

/* What a call that was refused returns, and puts into n places of results. */
static inline struct bell_tensor *
entry_error(const struct bell_context *ctx)
{
    return ctx ? ctx->error_tensor : NULL;
}
void entry_errors(const struct bell_context *ctx, struct bell_tensor **out,
                  uint32_t n);

#endif
