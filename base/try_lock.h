/* A lock that nobody waits for: one thread at a time, else a refusal that says
 * which call is inside.
 *
 * The lock is biased to the thread that used it last. That thread enters by
 * plain stores and loads; another one makes it its own first, by a fence in
 * all threads of the process (membarrier). After TRY_LOCK_OWNERS hand-overs
 * the lock stays unbiased and is entered by a compare-and-swap.
 *
 *     owner = try_lock_enter(&lock, __func__);
 *     if (!owner)
 *         owner = try_lock_take(&lock, __func__, &other);
 *     if (other)
 *         ... the call `other` is inside, in another thread ...
 *     ... one thread at a time ...
 *     if (owner)
 *         try_lock_leave(&lock, owner);
 *
 * A thread that is inside may enter again: it gets neither an owner nor a
 * name, and leaves by nothing. Zeros are a lock that nobody has used.
 */
#ifndef BELL_BASE_TRY_LOCK_H
#define BELL_BASE_TRY_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if !__has_builtin(__builtin_thread_pointer)
#include <pthread.h>
#endif

#define TRY_LOCK_OWNERS 8

/* A thread's entrance. Only that thread stores `call`; any thread may read. */
struct try_lock_owner {
    _Atomic uintptr_t thread;
    const char *_Atomic call; /* the one that is inside; or NULL */
};

/* Any thread may touch it at any time. */
struct try_lock {
    struct try_lock_owner *_Atomic owner; /* enters by plain stores; or NULL */
    const char *_Atomic taker; /* the call that changes `owner`; or NULL */
    uint32_t n_owners;         /* used so far; the taker's */
    struct try_lock_owner owners[TRY_LOCK_OWNERS];
    struct try_lock_owner shared; /* entered by compare-and-swap */
};

/* A number that no other thread has that lives. */
static inline uintptr_t
try_lock_thread(void)
{
#if __has_builtin(__builtin_thread_pointer)
    return (uintptr_t)__builtin_thread_pointer();
#else
    return (uintptr_t)pthread_self();
#endif
}

/* Enters where the thread owns the lock; else NULL, and try_lock_take is next.
 * `call` is a string that stays. The store must be seen before the second load
 * is made: the thread that changes `owner` sees to that, by its fence. */
static inline struct try_lock_owner *
try_lock_enter(struct try_lock *lock, const char *call)
{
    struct try_lock_owner *owner =
        atomic_load_explicit(&lock->owner, memory_order_acquire);

    if (__builtin_expect(
            !owner ||
                atomic_load_explicit(&owner->thread, memory_order_relaxed) !=
                    try_lock_thread() ||
                atomic_load_explicit(&owner->call, memory_order_relaxed),
            0))
        return NULL;
    atomic_store_explicit(&owner->call, call, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(
            atomic_load_explicit(&lock->owner, memory_order_acquire) == owner,
            1))
        return owner;
    atomic_store_explicit(&owner->call, NULL, memory_order_release);
    return NULL;
}

/* *out_other is NULL where the thread is inside: by the owner that is returned,
 * or, where that is NULL, from before. Else the call that is inside. */
struct try_lock_owner *try_lock_take(struct try_lock *lock, const char *call,
                                     const char **out_other);

/* Leaves by what try_lock_enter returned. */
static inline void
try_lock_leave_own(struct try_lock_owner *owner)
{
    atomic_store_explicit(&owner->call, NULL, memory_order_release);
}

/* Leaves by any owner. */
static inline void
try_lock_leave(struct try_lock *lock, struct try_lock_owner *owner)
{
    if (owner == &lock->shared)
        atomic_store_explicit(&owner->thread, 0, memory_order_relaxed);
    atomic_store_explicit(&owner->call, NULL, memory_order_release);
}

#endif
