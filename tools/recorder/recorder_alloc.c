/* Memory of the recorder: host_alloc and the like over mmap, so that it never
 * touches the heap of the program that it sits in. It takes the place of
 * base/alloc.c in the library. Sizes are powers of two with a free list
 * each; nothing goes back to the system. Callers hold the recorder's lock,
 * or are the only thread.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"

#define CHUNK_BYTES (1u << 20)
#define HEAD_BYTES  16u
#define N_CLASSES   40u

/* Before each block: its class; in a free one the next of the list. */
struct head {
    uint64_t log2;
    struct head *next;
};

static struct {
    struct head *lists[N_CLASSES];
    uint8_t *cur, *end;
    int lock;
} heap;

static void
lock_heap(void)
{
    while (__atomic_exchange_n(&heap.lock, 1, __ATOMIC_ACQUIRE))
        ;
}

static void
unlock_heap(void)
{
    __atomic_store_n(&heap.lock, 0, __ATOMIC_RELEASE);
}

static void *
map_pages(size_t size_bytes)
{
    long p = syscall(SYS_mmap, NULL, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == -1 ? NULL : (void *)p;
}

void *
host_alloc(size_t size_bytes)
{
    unsigned log2 = log2_floor(size_bytes + HEAD_BYTES - 1 + !size_bytes) + 1;
    size_t n = (size_t)1 << log2;
    struct head *head = NULL;

    if (log2 >= N_CLASSES)
        return NULL;
    lock_heap();
    if (heap.lists[log2]) {
        head = heap.lists[log2];
        heap.lists[log2] = head->next;
    } else if (n >= CHUNK_BYTES) {
        head = map_pages(n);
    } else {
        if ((size_t)(heap.end - heap.cur) < n) {
            heap.cur = map_pages(CHUNK_BYTES);
            heap.end = heap.cur ? heap.cur + CHUNK_BYTES : NULL;
        }
        if (heap.cur) {
            head = (struct head *)(void *)heap.cur;
            heap.cur += n;
        }
    }
    unlock_heap();
    if (!head)
        return NULL;
    head->log2 = log2;
    return (uint8_t *)head + HEAD_BYTES;
}

static struct head *
head_of(void *ptr)
{
    return (struct head *)(void *)((uint8_t *)ptr - HEAD_BYTES);
}

void
host_free(void *ptr)
{
    struct head *head;

    if (!ptr)
        return;
    head = head_of(ptr);
    lock_heap();
    head->next = heap.lists[head->log2];
    heap.lists[head->log2] = head;
    unlock_heap();
}

void *
host_calloc(size_t count, size_t size_bytes)
{
    size_t n;
    void *ptr;

    if (__builtin_mul_overflow(count, size_bytes, &n))
        return NULL;
    ptr = host_alloc(n);
    if (ptr)
        memset(ptr, 0, n);
    return ptr;
}

void *
host_realloc(void *ptr, size_t size_bytes)
{
    size_t room = ptr ? ((size_t)1 << head_of(ptr)->log2) - HEAD_BYTES : 0;
    void *now;

    if (ptr && size_bytes <= room)
        return ptr;
    now = host_alloc(size_bytes);
    if (now && ptr) {
        memcpy(now, ptr, room);
        host_free(ptr);
    }
    return now;
}

int
host_grow(void **array, size_t *cap, size_t need, size_t elem_bytes)
{
    size_t n = *cap ? *cap : 16, bytes;
    void *now;

    if (need <= *cap)
        return 0;
    while (n < need)
        n *= 2;
    if (__builtin_mul_overflow(n, elem_bytes, &bytes))
        return -1;
    now = host_realloc(*array, bytes);
    if (!now)
        return -1;
    *array = now;
    *cap = n;
    return 0;
}
