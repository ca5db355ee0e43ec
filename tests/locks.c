/*
 * Locks as the driver must use them: linked into tests, this stands before
 * the C library's own functions, and ends the program where a mutex is
 * unlocked by a thread that does not hold it, taken twice by one thread, or
 * destroyed while it is held.
 */
#include <pthread.h>

typedef int mutex_fn(pthread_mutex_t *mutex);

/* The thread sanitizer has its own, which see more. */
#if !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

mutex_fn pthread_mutex_lock, pthread_mutex_unlock, pthread_mutex_destroy;

static bool
is_ours(const pthread_mutex_t *mutex)
{
    static _Thread_local int self;

    if (mutex->__data.__owner == 0)
        return false;
    if (self == 0 || mutex->__data.__owner != self)
        self = gettid(); /* of a child another */
    return mutex->__data.__owner == self;
}

static int
call(mutex_fn **real, const char *name, pthread_mutex_t *mutex,
     const char *fault)
{
    if (fault && mutex->__data.__kind == PTHREAD_MUTEX_NORMAL) {
        fprintf(stderr, "%s: the mutex is %s\n", name, fault);
        abort();
    }
    if (!*real)
        *real = (mutex_fn *)(uintptr_t)dlsym(RTLD_NEXT, name);
    return (*real)(mutex);
}

int
pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static mutex_fn *real;

    return call(&real, __func__, mutex,
                is_ours(mutex) ? "this thread's already" : NULL);
}

int
pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static mutex_fn *real;

    return call(&real, __func__, mutex,
                is_ours(mutex) ? NULL : "not this thread's");
}

int
pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    static mutex_fn *real;

    return call(&real, __func__, mutex,
                mutex->__data.__owner ? "still somebody's" : NULL);
}
#endif
