/* How a thread that does not own the lock enters it. */
#include "base/try_lock.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Is the calling thread inside a biased lock? No other thread stores its
 * number. */
static bool
is_inside(struct try_lock *lock)
{
    uintptr_t thread = try_lock_thread();
    size_t i;

    for (i = 0; i < TRY_LOCK_OWNERS; i++) {
        struct try_lock_owner *owner = &lock->owners[i];
        if (atomic_load_explicit(&owner->thread, memory_order_relaxed) ==
                thread &&
            atomic_load_explicit(&owner->call, memory_order_relaxed))
            return true;
    }
    return false;
}

/* What other threads stored before is seen afterwards, and they see what this
 * one stored. False where the kernel cannot fence: then by the time that a
 * store could ever take, and by far. */
static bool
fence_all_threads(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int error = errno, failed;

    failed = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) &&
             (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
                      0, 0) ||
              syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
    if (failed)
        nanosleep(&pause, NULL);
    errno = error;
    return !failed;
}

static struct try_lock_owner *
enter_shared(struct try_lock *lock, const char *call, const char **out_other)
{
    struct try_lock_owner *shared = &lock->shared;
    uintptr_t thread = try_lock_thread();
    const char *other = NULL;

    if (atomic_load_explicit(&shared->thread, memory_order_relaxed) == thread)
        return NULL;
    if (!atomic_compare_exchange_strong_explicit(&shared->call, &other, call,
                                                 memory_order_acquire,
                                                 memory_order_relaxed)) {
        *out_other = other;
        return NULL;
    }
    atomic_store_explicit(&shared->thread, thread, memory_order_relaxed);
    return shared;
}

/* The taker's: who enters next by plain stores, after `old` if that is
 * not NULL. While nobody owns the lock, every other thread comes to
 * try_lock_take and finds the taker. NULL: the old owner is inside, and stays
 * the owner. */
static struct try_lock_owner *
change_owner(struct try_lock *lock, struct try_lock_owner *old,
             const char *call, const char **out_other)
{
    struct try_lock_owner *next = &lock->shared;
    bool can_fence = true;
    const char *other;

    if (old) {
        atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
        can_fence = fence_all_threads();
        other = atomic_load_explicit(&old->call, memory_order_acquire);
        if (other) {
            atomic_store_explicit(&lock->owner, old, memory_order_release);
            *out_other = other;
            return NULL;
        }
    }
    if (can_fence && lock->n_owners < TRY_LOCK_OWNERS)
        next = &lock->owners[lock->n_owners++];
    atomic_store_explicit(&next->thread, try_lock_thread(),
                          memory_order_relaxed);
    atomic_store_explicit(&next->call, call, memory_order_relaxed);
    atomic_store_explicit(&lock->owner, next, memory_order_release);
    return next;
}

struct try_lock_owner *
try_lock_take(struct try_lock *lock, const char *call, const char **out_other)
{
    struct try_lock_owner *owner, *next;
    const char *other = NULL;

    *out_other = NULL;
    owner = atomic_load_explicit(&lock->owner, memory_order_acquire);
    if (owner == &lock->shared)
        return enter_shared(lock, call, out_other);
    if (is_inside(lock))
        return NULL;
    if (owner)
        other = atomic_load_explicit(&owner->call, memory_order_acquire);
    if (other || !atomic_compare_exchange_strong_explicit(
                     &lock->taker, &other, call, memory_order_acquire,
                     memory_order_relaxed)) {
        *out_other = other;
        return NULL;
    }
    owner = atomic_load_explicit(&lock->owner, memory_order_acquire);
    if (owner == &lock->shared)
        next = enter_shared(lock, call, out_other);
    else
        next = change_owner(lock, owner, call, out_other);
    atomic_store_explicit(&lock->taker, NULL, memory_order_release);
    return next;
}
