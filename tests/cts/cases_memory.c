/* Buffers: sizes, access, reuse, limits, pinned memory. Signals alone. */
#include "cts.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static const uint64_t sizes[] = {
    1, 2, 3, 63, 64, 65, 4095, 4096, 65537, 1000000, (4u << 20) + 3};

static void
sizes_and_access(struct cts *t)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t size = sizes[i];
        struct hcq_buffer *buf = cts_buffer(t, size);
        unsigned char *in = malloc(size), *out = malloc(size);

        CHECK(in && out, "test memory");
        CHECK(buf->size_bytes == size && buf->dev == t->dev, "fields");
        CHECK(buf->va && (buf->va & 63) == 0, "0x%llx",
              (unsigned long long)buf->va);
        cts_pattern(in, size, (unsigned)i);
        OK(hcq_buffer_write(buf, 0, in, size));
        OK(hcq_buffer_read(buf, 0, out, size));
        CHECK(memcmp(in, out, size) == 0, "size %zu", (size_t)size);
        /* The last byte alone, then nothing, at the very end. */
        in[0] = 0x77;
        OK(hcq_buffer_write(buf, size - 1, in, 1));
        OK(hcq_buffer_read(buf, size - 1, out, 1));
        CHECK(out[0] == 0x77, "last byte");
        OK(hcq_buffer_write(buf, size, in, 0));
        FAILS(hcq_buffer_write(buf, size, in, 1), BELL_E_INVALID, "bytes");
        FAILS(hcq_buffer_read(buf, 1, in, size), BELL_E_INVALID, "bytes");
        FAILS(hcq_buffer_read(buf, UINT64_MAX, in, 2), BELL_E_INVALID, "bytes");
        hcq_buffer_destroy(buf);
        free(in);
        free(out);
    }
}

static void
zero_and_null(struct cts *t)
{
    struct hcq_buffer *buf = cts_buffer(t, 0);
    char byte = 0;

    CHECK(buf->va != 0 && buf->size_bytes == 0, "no address");
    OK(hcq_buffer_write(buf, 0, NULL, 0));
    FAILS(hcq_buffer_write(buf, 0, &byte, 1), BELL_E_INVALID, "bytes");
    hcq_buffer_destroy(buf);
    hcq_buffer_destroy(NULL);
    FAILS(hcq_buffer_create(NULL, 1, 0, &buf), BELL_E_INVALID, "NULL");
    FAILS(hcq_buffer_create(t->dev, 1, 0, NULL), BELL_E_INVALID, "NULL");
    FAILS(hcq_buffer_create(t->dev, 1, 0x80, &buf), BELL_E_INVALID, "flags");
    FAILS(hcq_buffer_create_pinned(t->dev, NULL, 1, &buf), BELL_E_INVALID,
          "NULL");
    FAILS(hcq_buffer_create_pinned(t->dev, &byte, UINT64_MAX, &buf),
          BELL_E_INVALID, "wrap");
    FAILS(hcq_buffer_write(NULL, 0, &byte, 1), BELL_E_INVALID, "NULL");
}

static void
host_visible(struct cts *t)
{
    struct hcq_buffer *buf;
    unsigned char seen[64];

    OK(hcq_buffer_create(t->dev, 64, HCQ_MEM_HOST_VISIBLE | HCQ_MEM_POISON,
                         &buf));
    CHECK(buf->host, "no host pointer");
    CHECK(((unsigned char *)buf->host)[63] == 0xcb, "not poisoned");
    memset(buf->host, 0x3c, 64);
    OK(hcq_buffer_read(buf, 0, seen, 64));
    CHECK(seen[0] == 0x3c && seen[63] == 0x3c, "0x%x", seen[0]);
    hcq_buffer_destroy(buf);
}

static void
reuse(struct cts *t)
{
    uint64_t live, cached, live2, cached2, va;
    struct hcq_buffer *buf;
    int i;

    hcq_memory_usage(t->dev, &live, &cached);
    buf = cts_buffer(t, 3u << 20);
    va = buf->va;
    hcq_memory_usage(t->dev, &live2, &cached2);
    CHECK(live2 >= live + (3u << 20), "%llu", (unsigned long long)live2);
    hcq_buffer_destroy(buf);
    hcq_memory_usage(t->dev, &live2, &cached2);
    CHECK(live2 == live && cached2 >= cached + (3u << 20), "not kept");
    for (i = 0; i < 100; i++) {
        buf = cts_buffer(t, (3u << 20) - (unsigned)i);
        CHECK(buf->va == va, "not reused");
        hcq_buffer_destroy(buf);
    }
    hcq_memory_trim(t->dev);
    hcq_memory_usage(t->dev, &live2, &cached2);
    CHECK(live2 == live && cached2 == 0, "%llu, %llu left",
          (unsigned long long)live2, (unsigned long long)cached2);
}

static void
out_of_memory(struct cts *t)
{
    struct hcq_buffer *buf, *list[256];
    uint64_t chunk = t->info.memory_bytes / 128 + 1;
    size_t n = 0;
    bell_status status;

    FAILS(hcq_buffer_create(t->dev, UINT64_MAX, 0, &buf), BELL_E_NO_MEMORY,
          "buffer of");
    FAILS(hcq_buffer_create(t->dev, t->info.memory_bytes + 1, 0, &buf),
          BELL_E_NO_MEMORY, "buffer of");
    if (CTS_ASAN || CTS_TSAN)
        cts_skip("memory is filled when it is allocated in this build");
#ifndef NDEBUG
    cts_skip("memory is filled when it is allocated in this build");
#endif
    /* Many that fit alone and not together; none of it is touched. */
    while (n < ARRAY_LEN(list)) {
        status = hcq_buffer_create(t->dev, chunk, 0, &list[n]);
        if (status != BELL_OK)
            break;
        n++;
    }
    FAILS(status, BELL_E_NO_MEMORY, "bytes");
    while (n)
        hcq_buffer_destroy(list[--n]);
    buf = cts_buffer(t, chunk);
    hcq_buffer_destroy(buf);
}

static void
pinned(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    unsigned char *memory = malloc(8192);
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    int32_t *ints, i;

    CHECK(memory, "test memory");
    memset(memory, 0, 8192);
    ints = (int32_t *)(void *)(memory + 4); /* no alignment to speak of */
    buf = cts_pin(t->dev, ints, 4000);
    CHECK(buf->host == ints && buf->size_bytes == 4000, "fields");
    for (i = 0; i < 1000; i++)
        ints[i] = i;
    cs = cts_begin(t->queue);
    hcq_cs_barrier(cs);
    cts_exec(cs, prog, 10, ARGS(buf->va, buf->va, 100));
    cts_finish(t->queue, cs);
    for (i = 0; i < 1000; i++)
        CHECK(ints[i] == i + 1, "%d: %d", i, ints[i]);
    CHECK(memory[3] == 0 && memory[4004] == 0, "wrote outside");
    hcq_buffer_destroy(buf);
    free(memory);
}

/* ---- large memory of the host's ---- */

/* Up to the pages of every kernel's tables, and far beyond; builds that fill
 * what they allocate leave the last one out. */
static const uint64_t large_bytes[] = {3u << 19, 2u << 20, 64u << 20,
                                       256u << 20};
#ifdef NDEBUG
#define N_LARGE (ARRAY_LEN(large_bytes) - (CTS_ASAN || CTS_TSAN))
#else
#define N_LARGE (ARRAY_LEN(large_bytes) - 1)
#endif

#define N_PLACES   5
#define PAGE_BYTES 4096u

/* The first and the last word, and some between, are reached from both sides.
 */
static void
check_places(struct cts *t, const struct hcq_buffer *buf, int32_t seed)
{
    const uint64_t places[N_PLACES] = {
        0, PAGE_BYTES - 4, buf->size_bytes / 2 - PAGE_BYTES,
        buf->size_bytes - PAGE_BYTES, buf->size_bytes - 4};
    struct hcq_buffer *to = cts_ints(t, N_PLACES, 0);
    struct hcq_buffer *from = cts_ints(t, 1, -seed);
    struct hcq_cs *cs = cts_begin(t->copy);
    int32_t *words[N_PLACES], i;

    for (i = 0; i < N_PLACES; i++) {
        words[i] = (int32_t *)(void *)((char *)buf->host + places[i]);
        *words[i] = seed + i;
        hcq_cs_copy(cs, to->va + 4u * (unsigned)i, buf->va + places[i], 4);
    }
    hcq_cs_barrier(cs);
    for (i = 0; i < N_PLACES; i++)
        hcq_cs_copy(cs, buf->va + places[i], from->va, 4);
    cts_finish(t->copy, cs);
    for (i = 0; i < N_PLACES; i++) {
        int32_t seen = cts_int(to, (uint64_t)i);

        CHECK(seen == seed + i && *words[i] == -seed,
              "%llu bytes at 0x%llx, byte %llu: the device saw %d and wrote %d",
              (unsigned long long)buf->size_bytes, (unsigned long long)buf->va,
              (unsigned long long)places[i], seen, *words[i]);
    }
    hcq_buffer_destroy(from);
    hcq_buffer_destroy(to);
}

/* Largest last, then largest first. Each lies behind one of an odd size, so
 * that its address is not a multiple of large pages. */
static void
large_host_visible(struct cts *t)
{
    struct hcq_buffer *bufs[2 * N_LARGE], *odd[2 * N_LARGE];
    size_t i, n = ARRAY_LEN(bufs);

    for (i = 0; i < n; i++) {
        uint64_t size = large_bytes[i < N_LARGE ? i : n - 1 - i];

        OK(hcq_buffer_create(t->dev, (1u << 20) + 5 * PAGE_BYTES,
                             HCQ_MEM_HOST_VISIBLE, &odd[i]));
        OK(hcq_buffer_create(t->dev, size, HCQ_MEM_HOST_VISIBLE, &bufs[i]));
        CHECK(bufs[i]->host, "no host pointer");
        check_places(t, bufs[i], 1000 * (int32_t)i + 7);
        if (i + 1 == N_LARGE) /* the next ones find other holes */
            hcq_buffer_destroy(bufs[1]);
    }
    for (i = 0; i < n; i++) {
        if (i != 1)
            hcq_buffer_destroy(bufs[i]);
        hcq_buffer_destroy(odd[i]);
    }
}

/* Pages of this process that begin an odd number of pages behind a multiple of
 * 2 MiB, and number one more than the size. */
static void
large_pinned(struct cts *t)
{
    struct hcq_buffer *bufs[N_LARGE];
    void *memory[N_LARGE];
    size_t room[N_LARGE], i;

    for (i = 0; i < N_LARGE; i++) {
        uintptr_t at;

        room[i] = (size_t)large_bytes[i] + (4u << 20);
        memory[i] = mmap(NULL, room[i], PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(memory[i] != MAP_FAILED, "test memory");
        at = (uintptr_t)align_up((uintptr_t)memory[i], 2u << 20) +
             (2 * i + 1) * PAGE_BYTES;
        bufs[i] = cts_pin(t->dev, (void *)at, large_bytes[i] + PAGE_BYTES);
        check_places(t, bufs[i], 1000 * (int32_t)i + 3);
    }
    for (i = 0; i < N_LARGE; i++) {
        hcq_buffer_destroy(bufs[i]);
        munmap(memory[i], room[i]);
    }
}

static void
signal_values(struct cts *t)
{
    struct hcq_signal *sig = cts_signal(t, 7);

    CHECK(hcq_signal_value(sig) == 7, "initial");
    CHECK(hcq_signal_timestamp(sig) == 0, "timestamp");
    OK(hcq_signal_wait(sig, 7, 0));
    OK(hcq_signal_wait(sig, 3, LONG_NS));
    hcq_signal_set(sig, UINT64_MAX);
    OK(hcq_signal_wait(sig, UINT64_MAX, 0));
    hcq_signal_set(sig, 1ull << 40);
    CHECK(hcq_signal_value(sig) == 1ull << 40, "64 bits");
    hcq_signal_destroy(sig);
    hcq_signal_destroy(NULL);
    FAILS(hcq_signal_create(NULL, 0, &sig), BELL_E_INVALID, "NULL");
    FAILS(hcq_signal_wait(NULL, 0, 0), BELL_E_INVALID, "NULL");
}

static void
signal_timeout(struct cts *t)
{
    struct hcq_signal *sig = cts_signal(t, 41);
    uint64_t start_ns = time_now_ns(), took_ns;

    FAILS(hcq_signal_wait(sig, 4242, 0), BELL_E_TIMEOUT, "4242");
    HANGS(hcq_signal_wait(sig, 4242, 20 * MS_NS), "is 41");
    took_ns = time_now_ns() - start_ns;
    CHECK(took_ns >= 20 * MS_NS && took_ns < LONG_NS, "%.1f ms",
          (double)took_ns / 1e6);
    HANGS(hcq_signal_wait(sig, 42, MS_NS), "idle");
    /* It may be waited for again. */
    hcq_signal_set(sig, 42);
    OK(hcq_signal_wait(sig, 42, 0));
}

struct setter {
    struct hcq_signal *sig;
    uint64_t delay_ns, n;
    uint64_t seen; /* by the waiter */
};

static void *
set_slowly(void *arg)
{
    struct setter *s = arg;
    uint64_t i;

    for (i = 1; i <= s->n; i++) {
        uint64_t start_ns = time_now_ns();

        while (time_now_ns() - start_ns < s->delay_ns)
            sched_yield();
        hcq_signal_set(s->sig, i);
        while (__atomic_load_n(&s->seen, __ATOMIC_ACQUIRE) < i)
            sched_yield();
    }
    return NULL;
}

/* Waits for n signals that come `delay_ns` after the last was seen; how long
 * each took, on average. */
static uint64_t
wait_for_thread(struct cts *t, uint64_t delay_ns, uint64_t n)
{
    struct setter s = {
        .sig = cts_signal(t, 0),
        .delay_ns = delay_ns,
        .n = n,
    };
    uint64_t start_ns = time_now_ns(), i;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, set_slowly, &s) == 0, "thread");
    for (i = 1; i <= n; i++) {
        OK(hcq_signal_wait(s.sig, i, LONG_NS));
        __atomic_store_n(&s.seen, i, __ATOMIC_RELEASE);
    }
    pthread_join(thread, NULL);
    hcq_signal_destroy(s.sig);
    return (time_now_ns() - start_ns) / n;
}

/* Spinning waits and sleeping ones: no wake is lost. A sleeper that nobody
 * wakes looks again after 100 ms, every time; one that waits for a core may
 * take as long now and then. */
static void
signal_from_thread(struct cts *t)
{
    static const uint64_t delays_ns[] = {0, 1000, 30000, 100000, 2000000};
    uint64_t took_ns;
    size_t d;
    int n;

    for (d = 0; d < ARRAY_LEN(delays_ns); d++) {
        took_ns = UINT64_MAX;
        for (n = 0; n < 100 && took_ns >= 50 * MS_NS; n++)
            took_ns = wait_for_thread(t, delays_ns[d],
                                      delays_ns[d] > 50000 ? 50 : 500);
        CHECK(took_ns < 50 * MS_NS, "woken late: %.1f ms for a signal",
              (double)took_ns / 1e6);
    }
}

const struct cts_case cts_memory_cases[] = {
    {"memory sizes and access", sizes_and_access},
    {"memory zero size and wrong arguments", zero_and_null},
    {"memory host visible and poisoned", host_visible},
    {"memory is reused", reuse},
    {"memory runs out", out_of_memory},
    {"memory pinned", pinned},
    {"memory large and host visible", large_host_visible},
    {"memory large and pinned", large_pinned},
    {"signal values", signal_values},
    {"signal wait times out", signal_timeout},
    {"signal set by another thread", signal_from_thread},
    {NULL, NULL},
};
