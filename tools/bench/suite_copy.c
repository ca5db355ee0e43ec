/* Bench: copies by size in every direction, verified; fills, and the making of
 * host memory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

static void
name_size(uint64_t n_bytes, char out[16])
{
    if (n_bytes >= 1u << 20)
        snprintf(out, 16, "%uMiB", (unsigned)(n_bytes >> 20) & 0xfffff);
    else
        snprintf(out, 16, "%uKiB", (unsigned)(n_bytes >> 10) & 0xfffff);
}

/* What copies go between. */
struct places {
    struct hcq_buffer *one, *other;   /* of one size */
    struct hcq_buffer *pinned, *back; /* the same; NULL where nothing can be */
    uint32_t *host, *host_back;       /* pinned's and back's */
    uint64_t max_bytes;
};

/* ---- right? -------------------------------------------------------------- */

/* A word of a pattern that no two places of a copy share, and no two runs. */
static uint32_t
word_at(uint64_t i, uint32_t seed)
{
    return (uint32_t)(i * 2654435761u) ^ seed;
}

static void
write_pattern(uint32_t *words, uint64_t n_bytes, uint32_t seed)
{
    uint64_t i;

    for (i = 0; i < n_bytes / 4; i++)
        words[i] = word_at(i, seed);
}

static bell_status
check_pattern(const uint32_t *words, uint64_t n_bytes, uint32_t seed,
              const char *what)
{
    uint64_t i;

    for (i = 0; i < n_bytes / 4; i++) {
        if (words[i] != word_at(i, seed))
            return bell_fail(BELL_E_INTERNAL,
                             "%s of %llu bytes: word %llu is %08x, not %08x",
                             what, (unsigned long long)n_bytes,
                             (unsigned long long)i, words[i], word_at(i, seed));
    }
    return BELL_OK;
}

static bell_status
copy_once(struct hcq_queue *queue, uint64_t dst_va, uint64_t src_va,
          uint64_t n_bytes)
{
    uint64_t value;
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, dst_va, src_va, n_bytes);
    BELL_TRY(hcq_cs_submit(cs, &value));
    return hcq_signal_wait(hcq_queue_timeline(queue), value, BENCH_WAIT_NS);
}

static bell_status
check_pinned(struct bench *b, struct places *p, uint64_t n_bytes, uint32_t seed)
{
    write_pattern(p->host, n_bytes, seed);
    memset(p->host_back, 0, n_bytes);
    BELL_TRY(copy_once(b->copy, p->one->va, p->pinned->va, n_bytes));
    BELL_TRY(copy_once(b->compute, p->other->va, p->one->va, n_bytes));
    BELL_TRY(copy_once(b->copy, p->back->va, p->other->va, n_bytes));
    return check_pattern(p->host_back, n_bytes, seed, "copies");
}

/* A pattern to the device, from one buffer to the other and back, by both
 * kinds of queues: as the copies that were timed. */
static bell_status
check_copies(struct bench *b, struct places *p, uint64_t n_bytes)
{
    uint32_t seed = (uint32_t)time_now_ns();

    if (p->pinned)
        BELL_TRY(check_pinned(b, p, n_bytes, seed));
    write_pattern(p->host, n_bytes, ~seed);
    BELL_TRY(hcq_buffer_write(p->one, 0, p->host, n_bytes));
    BELL_TRY(copy_once(b->copy, p->other->va, p->one->va, n_bytes));
    BELL_TRY(hcq_buffer_read(p->other, 0, p->host_back, n_bytes));
    return check_pattern(p->host_back, n_bytes, ~seed, "write and read");
}

/* Bytes in a cache or a window's write buffers go over no link while the copy
 * is timed. */
static enum bench_ceiling
link_of(uint64_t n_bytes)
{
    return n_bytes < 1u << 20 ? BENCH_CEILING_NONE : BENCH_CEILING_LINK;
}

/* ---- one way ------------------------------------------------------------- */

static bell_status
time_copies(struct bench *b, struct hcq_queue *queue, uint64_t dst_va,
            uint64_t src_va, uint64_t n_bytes, const char *what,
            const char *name)
{
    char size[16];

    name_size(n_bytes, size);
    BELL_TRY(copy_once(queue, dst_va, src_va, n_bytes));
    bench_begin(b, BENCH_GB_S, what, "%s_%s", name, size);
    bench_work(b, 0, (double)n_bytes,
               strstr(name, "d2d") ? BENCH_CEILING_NONE : link_of(n_bytes));
    while (bench_goes_on(b, 5)) {
        unsigned n = bench_batch(b), i;
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++)
            BELL_TRY(copy_once(queue, dst_va, src_va, n_bytes));
        bench_sample_batch(b, ns_since(start), 1);
    }
    bench_end(b);
    return BELL_OK;
}

/* Both ways at once: bytes of both. The compute queue takes the one way. */
static bell_status
time_both_ways(struct bench *b, struct places *p, uint64_t n_bytes)
{
    char size[16];

    name_size(n_bytes, size);
    bench_begin(b, BENCH_GB_S, "to and from the device at once (both's bytes)",
                "copy_both_%s", size);
    bench_work(b, 0, 2 * (double)n_bytes, BENCH_CEILING_NONE);
    while (bench_goes_on(b, 5)) {
        uint64_t start = time_now_ns(), there, back;
        struct hcq_cs *cs;

        BELL_TRY(hcq_queue_begin(b->copy, &cs));
        hcq_cs_copy(cs, p->one->va, p->pinned->va, n_bytes);
        BELL_TRY(hcq_cs_submit(cs, &there));
        BELL_TRY(hcq_queue_begin(b->compute, &cs));
        hcq_cs_copy(cs, p->back->va, p->other->va, n_bytes);
        BELL_TRY(hcq_cs_submit(cs, &back));
        BELL_TRY(
            hcq_signal_wait(hcq_queue_timeline(b->copy), there, BENCH_WAIT_NS));
        BELL_TRY(hcq_signal_wait(hcq_queue_timeline(b->compute), back,
                                 BENCH_WAIT_NS));
        bench_sample_ns(b, ns_since(start));
    }
    bench_end(b);
    return BELL_OK;
}

/* The driver's own way between pageable memory and a buffer. */
static bell_status
time_access(struct bench *b, struct hcq_buffer *buf, void *host,
            uint64_t n_bytes, bool write)
{
    bool warm = false;
    char size[16];

    name_size(n_bytes, size);
    bench_begin(b, BENCH_GB_S, write ? "hcq_buffer_write" : "hcq_buffer_read",
                write ? "write_%s" : "read_%s", size);
    bench_work(b, 0, (double)n_bytes, link_of(n_bytes));
    while (bench_goes_on(b, 5)) {
        unsigned n = bench_batch(b), i;
        uint64_t start = time_now_ns();

        for (i = 0; i < n; i++) {
            if (write)
                BELL_TRY(hcq_buffer_write(buf, 0, host, n_bytes));
            else
                BELL_TRY(hcq_buffer_read(buf, 0, host, n_bytes));
        }
        if (warm)
            bench_sample_batch(b, ns_since(start), 1);
        warm = true;
    }
    bench_end(b);
    return BELL_OK;
}

/* Within the device by a compute queue, which has the faster way where there
 * are two, and by a copy queue; to and from the host by a copy queue. */
static bell_status
copy_rows(struct bench *b, struct places *p, uint64_t n_bytes)
{
    BELL_TRY(time_copies(b, b->compute, p->other->va, p->one->va, n_bytes,
                         "device to device (bytes copied)", "copy_d2d"));
    BELL_TRY(time_copies(b, b->copy, p->other->va, p->one->va, n_bytes,
                         "device to device by the copy engine",
                         "copy_d2d_engine"));
    if (p->pinned) {
        BELL_TRY(time_copies(b, b->copy, p->one->va, p->pinned->va, n_bytes,
                             "pinned host memory to device", "copy_h2d"));
        BELL_TRY(time_copies(b, b->copy, p->back->va, p->one->va, n_bytes,
                             "device to pinned host memory", "copy_d2h"));
        BELL_TRY(time_both_ways(b, p, n_bytes));
    }
    BELL_TRY(time_access(b, p->one, p->host, n_bytes, true));
    BELL_TRY(time_access(b, p->one, p->host_back, n_bytes, false));
    return check_copies(b, p, n_bytes);
}

static bell_status
copy_all_sizes(struct bench *b, struct places *p)
{
    uint64_t n_bytes = 4096;

    while (n_bytes < p->max_bytes && !bench_is_over(b)) {
        BELL_TRY(copy_rows(b, p, n_bytes));
        n_bytes *= 16;
    }
    return bench_is_over(b) ? BELL_OK : copy_rows(b, p, p->max_bytes);
}

/* The most that is a power of four times 4 KiB, and of which four fit the
 * host's memory, and the device's, several times. */
static uint64_t
find_largest(const struct bench *b)
{
    uint64_t most = b->is_small ? 1u << 20 : 1u << 30,
             room = b->info.memory_bytes;

    while (most > 4096 && most * 32 > room)
        most /= 4;
    if (most > 64u << 20 && !bench_is_costly_pass(b))
        most /= 16;
    return most;
}

static bell_status
make_pinned(struct bench *b, struct places *p)
{
    bell_status status =
        hcq_buffer_create_pinned(b->dev, p->host, p->max_bytes, &p->pinned);

    if (status == BELL_OK)
        return hcq_buffer_create_pinned(b->dev, p->host_back, p->max_bytes,
                                        &p->back);
    if (status != BELL_E_UNSUPPORTED)
        return status;
    bench_lacks(b, BENCH_GB_S, "pinned host memory to device and back",
                "copy_pinned", bell_error_last()->message);
    bell_error_clear();
    return BELL_OK;
}

static bell_status
make_places(struct bench *b, struct places *p)
{
    p->host = host_aligned(4096, p->max_bytes);
    p->host_back = host_aligned(4096, p->max_bytes);
    if (!p->host || !p->host_back)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for copies of %llu bytes",
                         (unsigned long long)p->max_bytes);
    memset(p->host, 1, p->max_bytes);
    memset(p->host_back, 1, p->max_bytes);
    BELL_TRY(hcq_buffer_create(b->dev, p->max_bytes, 0, &p->one));
    BELL_TRY(hcq_buffer_create(b->dev, p->max_bytes, 0, &p->other));
    return make_pinned(b, p);
}

/* ---- between devices ----------------------------------------------------- */

/* The name of device `number` beside this one: "NV:1@sim:h100*2". */
static bool
name_peer(const struct bench *b, unsigned number, char out[HCQ_NAME_MAX])
{
    const char *at = strchr(b->device, '@');
    int n;

    n = snprintf(out, HCQ_NAME_MAX, "%s:%u%s", b->info.backend, number,
                 at ? at : "");
    return n > 0 && n < HCQ_NAME_MAX;
}

static bell_status
copy_to_peer(struct bench *b, struct hcq_device *peer, unsigned number,
             struct hcq_buffer *mine, uint64_t n_bytes)
{
    struct hcq_buffer *theirs = NULL, *seen = NULL;
    char name[48];
    bell_status status;

    snprintf(name, sizeof(name), "copy_to_%u", number);
    BELL_TRY(hcq_buffer_create(peer, n_bytes, 0, &theirs));
    status = hcq_buffer_create_peer(b->dev, theirs, &seen);
    if (status == BELL_E_UNSUPPORTED) {
        bench_lacks(b, BENCH_GB_S, "to another device of this machine", name,
                    bell_error_last()->message);
        status = BELL_OK;
    } else if (status == BELL_OK) {
        status = time_copies(b, b->copy, seen->va, mine->va, n_bytes,
                             "to another device of this machine", name);
    }
    hcq_buffer_destroy(seen);
    hcq_buffer_destroy(theirs);
    return status;
}

/* From this device to each of the others: a line of the matrix. */
static bell_status
peer_rows(struct bench *b, struct places *p)
{
    char name[HCQ_NAME_MAX];
    unsigned i;

    if (b->info.flags & HCQ_DEVICE_HOST_MEMORY)
        return BELL_OK;
    for (i = 0; i < 16 && !bench_is_over(b); i++) {
        struct hcq_device *peer;
        bell_status status;

        if (!name_peer(b, i, name))
            break;
        if (strcmp(name, b->info.name) == 0)
            continue;
        if (hcq_device_open(name, &peer) != BELL_OK)
            break;
        status = copy_to_peer(b, peer, i, p->one, p->max_bytes);
        hcq_device_close(peer);
        BELL_TRY(status);
    }
    return BELL_OK;
}

bell_status
bench_copy(struct bench *b)
{
    struct places p = {.max_bytes = find_largest(b)};
    bell_status status = make_places(b, &p);

    if (status == BELL_OK)
        status = copy_all_sizes(b, &p);
    if (status == BELL_OK)
        status = peer_rows(b, &p);
    hcq_buffer_destroy(p.back);
    hcq_buffer_destroy(p.pinned);
    hcq_buffer_destroy(p.other);
    hcq_buffer_destroy(p.one);
    host_free(p.host_back);
    host_free(p.host);
    return status;
}
