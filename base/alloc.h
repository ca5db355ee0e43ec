/* Host memory. Every allocation of the library goes through here so that
 * tests can make the n-th one fail. Thread safe.
 */
#ifndef BELL_BASE_ALLOC_H
#define BELL_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* As in the C library; NULL when out of memory or told to fail. A count of
 * elements times their size is checked for overflow. */
void *host_alloc(size_t size_bytes);
void *host_calloc(size_t count, size_t size_bytes);
void *host_realloc(void *ptr, size_t size_bytes);
void *host_aligned(size_t align_bytes, size_t size_bytes);
char *host_strdup(const char *text);
/* n bytes with a 0 behind them. */
char *host_strndup(const void *bytes, size_t n);
void host_free(void *ptr);

/* Makes allocation number `nth` (1 is the next) and every later one fail
 * until the count is changed; 0 turns failing off. With `once`, only that one
 * fails. The environment variable BELL_FAIL_ALLOC=N[,once] does the same for
 * a whole process. */
void host_fail_after(uint64_t nth, int once);

/* Allocations of the calling thread are neither counted nor made to fail: for
 * threads that stand for hardware, which needs no memory of ours. */
void host_fail_spare_thread(void);

/* Allocations made so far by the process. */
uint64_t host_alloc_count(void);

/* Grows *array (of elem_bytes elements) so that it holds `need` elements.
 * Doubles, so appending is amortised constant. Returns 0, or -1 when out of
 * memory, leaving the array as it was. */
int host_grow(void **array, size_t *cap, size_t need, size_t elem_bytes);

#endif
