/* Wrappers over the C library's allocator; built twice: counting and failing
 * as tests ask for, and plain for the driver half alone. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

#if BELL_HAVE_FAULTS
static _Atomic uint64_t n_allocs;
static _Atomic uint64_t fail_at; /* absolute allocation number; 0: never */
static _Atomic int fail_once;
static _Thread_local bool is_spared;

__attribute__((constructor)) static void
read_fail_env(void)
{
    const char *text = env_get("BELL_FAIL_ALLOC");
    if (text)
        host_fail_after(strtoull(text, NULL, 10), strstr(text, "once") != NULL);
}

void
host_fail_after(uint64_t nth, int once)
{
    atomic_store(&fail_once, once);
    atomic_store(&fail_at, nth ? atomic_load(&n_allocs) + nth : 0);
}

uint64_t
host_alloc_count(void)
{
    return atomic_load(&n_allocs);
}

void
host_fail_spare_thread(void)
{
    is_spared = true;
}

static bool
may_alloc(void)
{
    uint64_t number, limit;

    if (is_spared)
        return true;
    number = atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed) + 1;
    limit = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (limit == 0 || number < limit)
        return true;
    return atomic_load(&fail_once) && number != limit;
}

#else
/* What ships has nothing that makes it fail. */
static bool
may_alloc(void)
{
    return true;
}
#endif

void *
host_alloc(size_t size_bytes)
{
    return may_alloc() ? malloc(size_bytes ? size_bytes : 1) : NULL;
}

void *
host_calloc(size_t count, size_t size_bytes)
{
    return may_alloc() ? calloc(count ? count : 1, size_bytes) : NULL;
}

void *
host_realloc(void *ptr, size_t size_bytes)
{
    return may_alloc() ? realloc(ptr, size_bytes ? size_bytes : 1) : NULL;
}

void *
host_aligned(size_t align_bytes, size_t size_bytes)
{
    void *ptr = NULL;

    if (!may_alloc())
        return NULL;
    if (posix_memalign(&ptr, align_bytes, size_bytes ? size_bytes : 1) != 0)
        return NULL;
    return ptr;
}

char *
host_strndup(const void *bytes, size_t n)
{
    char *copy = host_alloc(n + 1);

    if (copy) {
        if (n) /* bytes may be NULL then */
            memcpy(copy, bytes, n);
        copy[n] = '\0';
    }
    return copy;
}

char *
host_strdup(const char *text)
{
    return host_strndup(text, strlen(text));
}

void
host_free(void *ptr)
{
    free(ptr);
}

int
host_grow(void **array, size_t *cap, size_t need, size_t elem_bytes)
{
    size_t new_cap = *cap ? *cap : 16;
    void *grown;

    if (need <= *cap)
        return 0;
    while (new_cap < need) {
        if (new_cap > SIZE_MAX / 2)
            return -1;
        new_cap *= 2;
    }
    if (new_cap > SIZE_MAX / elem_bytes)
        return -1;
    grown = host_realloc(*array, new_cap * elem_bytes);
    if (!grown)
        return -1;
    *array = grown;
    *cap = new_cap;
    return 0;
}
