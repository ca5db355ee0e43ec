/* Memory of other devices: copies, fills, words, kernels, signals, graphs. */
#include "peers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "hcq/hcq_graph.h"

#define N_INTS 1024u
#define KIB    1024u

/* ---- copies and fills ---- */

/* Fresh bytes in `from`, a copy by `queue`, and a look at `to` through its
 * owner. Around the copy nothing changes. */
static void
check_copy(struct hcq_queue *queue, struct hcq_buffer *to, uint64_t to_va,
           uint64_t to_at, struct hcq_buffer *from, uint64_t from_va,
           uint64_t from_at, size_t n)
{
    size_t whole = (size_t)to->size_bytes;
    unsigned char *data = malloc(n), *got = malloc(whole);
    struct hcq_cs *cs;
    size_t i;

    CHECK(data && got, "test memory");
    cts_pattern(data, n, (unsigned)(n + to_at + from_at));
    OK(hcq_buffer_write(from, from_at, data, n));
    memset(got, 0x5a, whole);
    OK(hcq_buffer_write(to, 0, got, whole));
    cs = cts_begin(queue);
    hcq_cs_copy(cs, to_va + to_at, from_va + from_at, n);
    cts_finish(queue, cs);
    OK(hcq_buffer_read(to, 0, got, whole));
    CHECK(memcmp(got + to_at, data, n) == 0, "%zu bytes, %s: other bytes", n,
          hcq_queue_name(queue));
    for (i = 0; i < whole; i++)
        CHECK((i >= to_at && i < to_at + n) || got[i] == 0x5a,
              "%zu bytes, %s: byte %zu changed", n, hcq_queue_name(queue), i);
    free(data);
    free(got);
}

/* Either device reads the other's memory and writes it, by both kinds of
 * queues, at any alignment. */
static void
copies(struct cts *t)
{
    static const size_t sizes[] = {1, 3, 64, 4096, 65537, (1u << 20) + 5};
    struct peers p;
    unsigned i, k, q;

    peers_open(t, &p, 2);
    for (i = 0; i < 2; i++) {
        struct peer_side *me = &p.side[i];
        uint64_t n_bytes = (1u << 20) + 64;
        struct hcq_buffer *mine, *its, *seen;

        OK(hcq_buffer_create(me->dev, n_bytes, 0, &mine));
        OK(hcq_buffer_create(p.side[1 - i].dev, n_bytes, 0, &its));
        seen = peers_see(me->dev, its);
        for (k = 0; k < ARRAY_LEN(sizes); k += CTS_EVERY(2)) {
            for (q = 0; q < 2; q++) {
                struct hcq_queue *queue = q ? me->copy : me->queue;

                check_copy(queue, mine, mine->va, k, its, seen->va, 3 * k,
                           sizes[k]);
                check_copy(queue, its, seen->va, k, mine, mine->va, 0,
                           sizes[k]);
            }
        }
        hcq_buffer_destroy(seen);
        hcq_buffer_destroy(its);
        hcq_buffer_destroy(mine);
    }
    peers_close(&p);
}

/* From one place of another device's memory to another. */
static void
copies_within(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen;
    unsigned char data[4096], got[4096];
    struct hcq_cs *cs;
    unsigned q;

    peers_open(t, &p, 2);
    OK(hcq_buffer_create(p.side[1].dev, 16 * KIB, 0, &its));
    seen = peers_see(t->dev, its);
    for (q = 0; q < 2; q++) {
        struct hcq_queue *queue = q ? t->copy : t->queue;

        cts_pattern(data, sizeof(data), q);
        OK(hcq_buffer_write(its, 1, data, sizeof(data)));
        cs = cts_begin(queue);
        hcq_cs_copy(cs, seen->va + 8195, seen->va + 1, sizeof(data));
        cts_finish(queue, cs);
        OK(hcq_buffer_read(its, 8195, got, sizeof(got)));
        CHECK(memcmp(data, got, sizeof(got)) == 0, "other bytes");
    }
    hcq_buffer_destroy(seen);
    peers_close(&p);
}

static void
fills(struct cts *t)
{
    static const uint64_t sizes[] = {1, 4, 7, 4096, 65543};
    struct peers p;
    unsigned i, q;

    peers_open(t, &p, 2);
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        for (q = 0; q < 2; q++) {
            struct hcq_queue *queue = q ? t->copy : t->queue;
            struct hcq_buffer *its = peers_ints(p.side[1].dev, 20 * KIB, 0);
            struct hcq_buffer *seen = peers_see(t->dev, its);
            unsigned char *got = malloc(80 * KIB);
            uint64_t k;
            struct hcq_cs *cs = cts_begin(queue);

            CHECK(got, "test memory");
            hcq_cs_fill(cs, seen->va + 4, 0x04030201, sizes[i]);
            cts_finish(queue, cs);
            OK(hcq_buffer_read(its, 0, got, 80 * KIB));
            for (k = 0; k < 80 * KIB; k++) {
                bool in = k >= 4 && k < 4 + sizes[i];

                CHECK(got[k] == (in ? k % 4 + 1 : 0), "byte %llu is %u",
                      (unsigned long long)k, got[k]);
            }
            free(got);
            hcq_buffer_destroy(seen);
            hcq_buffer_destroy(its);
        }
    }
    peers_close(&p);
}

/* Words that one stores in the other's memory, which the other then polls, and
 * the other way round. */
static void
words(struct cts *t)
{
    struct peers p;
    unsigned i, q;

    peers_open(t, &p, 2);
    for (i = 0; i < 2; i++) {
        struct peer_side *me = &p.side[i], *it = &p.side[1 - i];

        for (q = 0; q < 2; q++) {
            struct hcq_queue *queue = q ? me->copy : me->queue;
            struct hcq_buffer *its = peers_ints(it->dev, 8, 0);
            struct hcq_buffer *seen = peers_see(me->dev, its);
            struct hcq_cs *cs = cts_begin(queue);
            uint64_t value = 2 * i + q + 1;

            hcq_cs_write(cs, seen->va + 4, 0x1234567, 32);
            hcq_cs_write(cs, seen->va + 16, 0x123456789abcdefull, 64);
            hcq_cs_signal(cs, me->sig, value);
            OK(hcq_cs_submit(cs, NULL));
            cs = cts_begin(it->queue);
            hcq_cs_wait(cs, me->sig, value);
            hcq_cs_poll(cs, its->va + 4, UINT32_MAX, 0x1234567);
            hcq_cs_write(cs, its->va, 77, 32);
            hcq_cs_signal(cs, it->sig, value);
            OK(hcq_cs_submit(cs, NULL));
            cs = cts_begin(queue);
            hcq_cs_wait(cs, it->sig, value);
            hcq_cs_poll(cs, seen->va, UINT32_MAX, 77);
            cts_finish(queue, cs);
            CHECK(cts_int(its, 0) == 77 && cts_int(its, 1) == 0x1234567 &&
                      cts_int(its, 2) == 0 && cts_int(its, 3) == 0 &&
                      cts_int(its, 4) == (int32_t)0x89abcdef &&
                      cts_int(its, 5) == 0x1234567,
                  "%d, 0x%x", cts_int(its, 0), (unsigned)cts_int(its, 4));
            hcq_buffer_destroy(seen);
            hcq_buffer_destroy(its);
        }
    }
    peers_close(&p);
}

/* ---- kernels ---- */

static void
kernel_reads(struct cts *t)
{
    struct peers p;
    unsigned i;

    peers_open(t, &p, 2);
    for (i = 0; i < 2; i++) {
        struct peer_side *me = &p.side[i];
        struct hcq_buffer *mine = peers_ints(me->dev, N_INTS, 0);
        struct hcq_buffer *its = peers_ints(p.side[1 - i].dev, N_INTS, 41);
        struct hcq_buffer *seen = peers_see(me->dev, its);
        struct hcq_cs *cs = cts_begin(me->queue);

        peers_add_one(cs, me, mine, seen, N_INTS);
        cts_finish(me->queue, cs);
        peers_check(mine, 42, "what was read");
        peers_check(its, 41, "its memory");
        hcq_buffer_destroy(seen);
    }
    peers_close(&p);
}

static void
kernel_writes(struct cts *t)
{
    struct peers p;
    unsigned i;

    peers_open(t, &p, 2);
    for (i = 0; i < 2; i++) {
        struct peer_side *me = &p.side[i];
        struct hcq_buffer *mine = peers_ints(me->dev, N_INTS, 5);
        struct hcq_buffer *its = peers_ints(p.side[1 - i].dev, N_INTS, 0);
        struct hcq_buffer *seen = peers_see(me->dev, its);
        struct hcq_cs *cs = cts_begin(me->queue);

        peers_add_one(cs, me, seen, mine, N_INTS);
        peers_add_one(cs, me, seen, seen, N_INTS);
        cts_finish(me->queue, cs);
        peers_check(its, 7, "what was written");
        hcq_buffer_destroy(seen);
    }
    peers_close(&p);
}

/* Both count in the same words, in turns, without the host. */
static void
atomics(struct cts *t)
{
    enum {
        ROUNDS = 6,
        GROUPS = 4
    };
    struct peers p;
    struct hcq_buffer *its, *seen;
    unsigned i;

    peers_open(t, &p, 2);
    its = peers_ints(p.side[1].dev, 3, 0);
    seen = peers_see(t->dev, its);
    for (i = 0; i < 2 * ROUNDS; i++) {
        struct peer_side *me = &p.side[i % 2], *it = &p.side[1 - i % 2];
        struct hcq_program *count = cts_load(t, me->dev, CTS_COUNT, 0);
        struct hcq_cs *cs = cts_begin(me->queue);

        hcq_cs_wait(cs, it->sig, i);
        hcq_cs_exec(cs, count, (uint64_t[]){i % 2 ? its->va : seen->va}, 1,
                    (const uint32_t[]){GROUPS, 1, 1},
                    (const uint32_t[]){64, 1, 1});
        hcq_cs_signal(cs, me->sig, i + 1);
        OK(hcq_cs_submit(cs, NULL));
    }
    for (i = 0; i < 2; i++)
        OK(hcq_queue_wait(p.side[i].queue, LONG_NS));
    CHECK(cts_int(its, 1) == 2 * ROUNDS * GROUPS * 64 &&
              cts_int(its, 2) == cts_int(its, 1) - 1 &&
              cts_int(its, 0) == 2 * ROUNDS * GROUPS * 64 * 65 / 2,
          "%d items, at most %d, sum %d", cts_int(its, 1), cts_int(its, 2),
          cts_int(its, 0));
    hcq_buffer_destroy(seen);
    peers_close(&p);
}

/* Each adds 1 to its own half of the same lines, both at once. */
static void
side_by_side(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen;
    struct hcq_cs *cs;
    int i, k;

    peers_open(t, &p, 2);
    its = peers_ints(p.side[1].dev, 64, 0);
    seen = peers_see(t->dev, its);
    for (i = 0; i < CTS_TIMES(20); i++) {
        for (k = 0; k < 2; k++) {
            uint64_t va = k ? its->va : seen->va + 16;

            cs = cts_begin(p.side[k].queue);
            hcq_cs_wait(cs, p.side[1 - k].sig, (uint64_t)i);
            cts_exec(cs, p.side[k].add_one, 1, ARGS(va, va, 4));
            hcq_cs_signal(cs, p.side[k].sig, (uint64_t)i + 1);
            OK(hcq_cs_submit(cs, NULL));
        }
    }
    for (k = 0; k < 2; k++)
        OK(hcq_queue_wait(p.side[k].queue, LONG_NS));
    for (k = 0; k < 8; k++)
        CHECK(cts_int(its, (uint64_t)k) == CTS_TIMES(20), "number %d is %d", k,
              cts_int(its, (uint64_t)k));
    CHECK(cts_int(its, 8) == 0, "%d", cts_int(its, 8));
    hcq_buffer_destroy(seen);
    peers_close(&p);
}

/* ---- who sees what, without the host ---- */

/* In turns: the owner adds 1, the other reads and writes its memory by kernels,
 * and so on; signals alone order them. */
static void
turns(struct cts *t)
{
    const int n_rounds = CTS_TIMES(20);
    struct peers p;
    struct hcq_buffer *own, *seen, *mine;
    struct hcq_cs *cs;
    int i;

    peers_open(t, &p, 2);
    own = peers_ints(t->dev, N_INTS, 0);
    seen = peers_see(p.side[1].dev, own);
    mine = peers_ints(p.side[1].dev, N_INTS, 0);
    for (i = 1; i <= n_rounds; i++) {
        cs = cts_begin(p.side[0].queue);
        hcq_cs_wait(cs, p.side[1].sig, (uint64_t)i - 1);
        peers_add_one(cs, &p.side[0], own, own, N_INTS);
        hcq_cs_signal(cs, p.side[0].sig, (uint64_t)i);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(p.side[1].queue);
        hcq_cs_wait(cs, p.side[0].sig, (uint64_t)i);
        peers_add_one(cs, &p.side[1], mine, seen, N_INTS);
        peers_add_one(cs, &p.side[1], seen, mine, N_INTS);
        hcq_cs_signal(cs, p.side[1].sig, (uint64_t)i);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_signal_wait(p.side[1].sig, (uint64_t)n_rounds, LONG_NS));
    peers_check(own, 3 * n_rounds, "its memory");
    peers_check(mine, 3 * n_rounds - 1, "mine");
    peers_close(&p);
}

/* The reader reads memory by a kernel, waits in the same submission until the
 * other has written new numbers there by what `how` says, and reads again: not
 * what it read before. A word tells the other when: a signal might empty the
 * reader's caches, and the wait is to do that. */
enum how {
    BY_COPY_QUEUE,
    BY_COMPUTE_QUEUE,
    BY_KERNEL,
    HOW_COUNT
};

static void
read_again(struct peers *p, unsigned reader, unsigned owner)
{
    struct peer_side *r = &p->side[reader], *w = &p->side[1 - reader];
    struct hcq_buffer *own = peers_ints(p->side[owner].dev, N_INTS, 10), *seen;
    struct hcq_buffer *of_r, *of_w, *fresh, *first, *second, *flag, *flag_of_r;
    uint64_t base = hcq_signal_value(w->sig);
    unsigned how;

    seen = peers_see(p->side[1 - owner].dev, own);
    of_r = reader == owner ? own : seen;
    of_w = reader == owner ? seen : own;
    fresh = peers_ints(w->dev, N_INTS, 20);
    flag = peers_ints(w->dev, 1, 0);
    flag_of_r = peers_see(r->dev, flag);
    for (how = 0; how < HOW_COUNT; how++) {
        uint64_t at = base + 2 * how + 1;
        struct hcq_queue *queue = how == BY_COPY_QUEUE ? w->copy : w->queue;
        struct hcq_cs *cs = cts_begin(r->queue);

        first = peers_ints(r->dev, N_INTS, 0);
        second = peers_ints(r->dev, N_INTS, 0);
        OK(hcq_buffer_write(own, 0, &(int32_t){10}, 4));
        peers_add_one(cs, r, first, of_r, 1);
        hcq_cs_write(cs, flag_of_r->va, at, 32);
        hcq_cs_wait(cs, w->sig, at);
        peers_add_one(cs, r, second, of_r, N_INTS);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(queue);
        hcq_cs_poll(cs, flag->va, UINT32_MAX, (uint32_t)at);
        if (how == BY_KERNEL)
            peers_add_one(cs, w, of_w, fresh, N_INTS);
        else
            hcq_cs_copy(cs, of_w->va, fresh->va, N_INTS * 4);
        hcq_cs_signal(cs, w->sig, at);
        OK(hcq_cs_submit(cs, NULL));
        OK(hcq_queue_wait(r->queue, LONG_NS));
        CHECK(cts_int(first, 0) == 11, "way %u: at first %d", how,
              cts_int(first, 0));
        peers_check(second, how == BY_KERNEL ? 22 : 21, "read again");
        hcq_buffer_destroy(first);
        hcq_buffer_destroy(second);
    }
    hcq_buffer_destroy(flag_of_r);
    hcq_buffer_destroy(flag);
    hcq_buffer_destroy(fresh);
    hcq_buffer_destroy(seen);
    hcq_buffer_destroy(own);
}

/* Its caches may hold lines of its own memory that the other writes. */
static void
own_lines_are_fresh(struct cts *t)
{
    struct peers p;

    peers_open(t, &p, 2);
    read_again(&p, 0, 0);
    read_again(&p, 1, 1);
    peers_close(&p);
}

/* And lines of the other's memory that the other writes itself. */
static void
its_lines_are_fresh(struct cts *t)
{
    struct peers p;

    peers_open(t, &p, 2);
    read_again(&p, 0, 1);
    read_again(&p, 1, 0);
    peers_close(&p);
}

/* What a kernel left in its caches is there for the other's copy engine. */
static void
kernel_then_copy(struct cts *t)
{
    const int n_rounds = CTS_TIMES(10);
    struct peers p;
    struct hcq_buffer *own, *seen, *mine;
    struct hcq_cs *cs;
    int i;

    peers_open(t, &p, 2);
    own = peers_ints(t->dev, N_INTS, 0);
    seen = peers_see(p.side[1].dev, own);
    mine = peers_ints(p.side[1].dev, N_INTS, 0);
    for (i = 1; i <= n_rounds; i++) {
        cs = cts_begin(p.side[0].queue);
        hcq_cs_wait(cs, p.side[1].sig, (uint64_t)i - 1);
        peers_add_one(cs, &p.side[0], own, own, N_INTS);
        hcq_cs_signal(cs, p.side[0].sig, (uint64_t)i);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(p.side[1].copy);
        hcq_cs_wait(cs, p.side[0].sig, (uint64_t)i);
        hcq_cs_copy(cs, mine->va, seen->va, N_INTS * 4);
        hcq_cs_signal(cs, p.side[1].sig, (uint64_t)i);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_signal_wait(p.side[1].sig, (uint64_t)n_rounds, LONG_NS));
    peers_check(mine, n_rounds, "the copy");
    peers_close(&p);
}

static struct hcq_link_bytes
moved(struct hcq_device *dev, struct hcq_device *other)
{
    struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};
    bell_status status = hcq_device_link_bytes(dev, other, &bytes);

    if (status == BELL_E_UNSUPPORTED)
        cts_skip("%s", bell_error_last()->message);
    OK(status);
    return bytes;
}

static void
check_bytes(const char *what, uint64_t before, uint64_t after, uint64_t n)
{
    CHECK(after - before == n, "%s: %llu bytes, not %llu", what,
          (unsigned long long)(after - before), (unsigned long long)n);
}

/* A simulated box counts what crosses a link, by who moved it and which way. */
static void
counted(struct cts *t)
{
    const uint64_t n_bytes = 4ull * N_INTS;
    struct peers p;
    struct hcq_buffer *own, *seen, *mine;
    struct hcq_link_bytes a, b, back;
    struct hcq_device *dev;
    struct hcq_cs *cs;

    peers_open(t, &p, 2);
    if (p.is_one_card)
        cts_skip("there is one card");
    dev = p.side[1].dev;
    own = peers_ints(t->dev, N_INTS, 5);
    seen = peers_see(dev, own);
    mine = peers_ints(dev, N_INTS, 0);
    a = moved(dev, t->dev);
    back = moved(t->dev, dev);
    cs = cts_begin(p.side[1].copy);
    hcq_cs_copy(cs, mine->va, seen->va, n_bytes - 4);
    hcq_cs_copy(cs, seen->va + 8, mine->va, n_bytes - 8);
    hcq_cs_signal(cs, p.side[0].sig, 1); /* no data */
    cts_finish(p.side[1].copy, cs);
    b = moved(dev, t->dev);
    check_bytes("copies that read", a.copy_read, b.copy_read, n_bytes - 4);
    check_bytes("that write", a.copy_written, b.copy_written, n_bytes - 8);
    check_bytes("kernels", a.kernel_read, b.kernel_read, 0);
    a = b;
    cs = cts_begin(p.side[1].queue);
    peers_add_one(cs, &p.side[1], mine, seen, N_INTS);
    peers_add_one(cs, &p.side[1], seen, mine, N_INTS / 2);
    cts_finish(p.side[1].queue, cs);
    b = moved(dev, t->dev);
    check_bytes("kernels that read", a.kernel_read, b.kernel_read, n_bytes);
    check_bytes("that write", a.kernel_written, b.kernel_written, n_bytes / 2);
    check_bytes("copies", a.copy_read, b.copy_read, 0);
    cs = cts_begin(t->queue); /* of its own memory */
    peers_add_one(cs, &p.side[0], own, own, N_INTS);
    hcq_cs_fill(cs, own->va, 0, 64);
    cts_finish(t->queue, cs);
    a = moved(t->dev, dev);
    check_bytes("the other way", back.copy_written, a.copy_written, 0);
    check_bytes("the other way", back.kernel_read, a.kernel_read, 0);
    peers_close(&p);
}

/* ---- streams, graphs, threads ---- */

static void
streams(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen, *mine;
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    uint32_t from;
    int i;

    peers_open(t, &p, 2);
    its = peers_ints(p.side[1].dev, N_INTS, 3);
    seen = peers_see(t->dev, its);
    mine = peers_ints(t->dev, N_INTS, 8);
    OK(hcq_stream_create(t->queue, "peer", &stream));
    cs = hcq_stream_cs(stream);
    from = hcq_stream_patch_point(stream, "from");
    cts_exec(cs, p.side[0].add_one, 1, ARGS(seen->va, seen->va, N_INTS));
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, from, 0);
    OK(hcq_stream_end(stream));
    for (i = 0; i < 4; i++) {
        OK(hcq_stream_patch(stream, from, i < 2 ? seen->va : mine->va));
        OK(hcq_stream_submit(stream, NULL));
        OK(hcq_stream_wait(stream, LONG_NS));
        peers_check(its, i == 0 ? 4 : i == 1 ? 5 : 9, "by a stream");
    }
    hcq_stream_destroy(stream);
    hcq_buffer_destroy(seen);
    peers_close(&p);
}

static struct hcq_graph_arg
all_of(const struct hcq_buffer *buf, uint32_t access)
{
    return hcq_graph_memory(buf->va, buf->size_bytes, access);
}

static void
graph_add_one(struct hcq_graph *graph, const struct peer_side *side,
              const struct hcq_buffer *to, const struct hcq_buffer *from)
{
    struct hcq_graph_arg args[3] = {all_of(to, HCQ_ACCESS_WRITE),
                                    all_of(from, HCQ_ACCESS_READ),
                                    hcq_graph_word(N_INTS)};

    hcq_graph_exec(graph, side->add_one, args, 3, (const uint32_t[3]){1, 1, 1},
                   NULL);
}

/* A graph knows that a buffer and its peer are one memory. */
static void
graphs(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *own, *seen, *mine;
    struct hcq_graph *graph;
    struct hcq_graph_desc desc = {.struct_size = sizeof(desc), .name = "peers"};
    struct hcq_queue *queues[4];
    struct hcq_graph_arg from, to;
    int i;

    peers_open(t, &p, 2);
    own = peers_ints(t->dev, N_INTS, 0);
    seen = peers_see(p.side[1].dev, own);
    mine = peers_ints(p.side[1].dev, N_INTS, 0);
    for (i = 0; i < 4; i++)
        queues[i] = i % 2 ? p.side[i / 2].copy : p.side[i / 2].queue;
    desc.queues = queues;
    desc.n_queues = 4;
    OK(hcq_graph_create(&desc, &graph));
    graph_add_one(graph, &p.side[0], own, own);
    graph_add_one(graph, &p.side[1], mine, seen);
    graph_add_one(graph, &p.side[1], seen, mine);
    from = all_of(mine, HCQ_ACCESS_READ);
    to = all_of(seen, HCQ_ACCESS_WRITE);
    graph_add_one(graph, &p.side[0], own, own);
    graph_add_one(graph, &p.side[1], mine, seen);
    hcq_graph_copy(graph, p.side[1].dev, &to, &from, N_INTS * 4);
    OK(hcq_graph_end(graph));
    for (i = 0; i < CTS_TIMES(10); i++)
        OK(hcq_graph_submit(graph, NULL));
    OK(hcq_graph_wait(graph, LONG_NS));
    peers_check(own, 5 * CTS_TIMES(10), "own");
    hcq_graph_destroy(graph);
    peers_close(&p);
}

struct worker {
    struct peer_side *side;
    struct hcq_buffer *mine, *seen;
    bell_status status;
};

static void *
copy_often(void *user)
{
    struct worker *w = user;
    struct hcq_cs *cs;
    int i;

    for (i = 0; i < CTS_TIMES(20) && w->status == BELL_OK; i++) {
        struct hcq_queue *queue = i % 2 ? w->side->copy : w->side->queue;

        w->status = hcq_queue_begin(queue, &cs);
        if (w->status != BELL_OK)
            break;
        hcq_cs_copy(cs, w->seen->va, w->mine->va, 64 * KIB);
        w->status = hcq_cs_submit(cs, NULL);
        if (w->status == BELL_OK)
            w->status = hcq_queue_wait(queue, LONG_NS);
    }
    return NULL;
}

/* Both directions at once, a host thread each, while peers come and go. */
static void
both_at_once(struct cts *t)
{
    struct peers p;
    struct worker workers[2];
    struct hcq_buffer *inbox[2];
    pthread_t threads[2];
    unsigned i;

    peers_open(t, &p, 2);
    for (i = 0; i < 2; i++) {
        inbox[i] = peers_ints(p.side[1 - i].dev, 16 * KIB, 0);
        workers[i] = (struct worker){
            .side = &p.side[i],
            .mine = peers_ints(p.side[i].dev, 16 * KIB, 100 + (int32_t)i),
            .seen = peers_see(p.side[i].dev, inbox[i]),
        };
    }
    for (i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, copy_often, &workers[i]) == 0,
              "no thread");
    for (i = 0; i < 20; i++) {
        struct hcq_buffer *more = NULL, *seen = NULL;

        if (hcq_buffer_create(p.side[i % 2].dev, 8192, 0, &more) == BELL_OK &&
            hcq_buffer_create_peer(p.side[1 - i % 2].dev, more, &seen) !=
                BELL_OK)
            workers[0].status = bell_error_last()->status;
        hcq_buffer_destroy(seen);
        hcq_buffer_destroy(more);
    }
    for (i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (i = 0; i < 2; i++) {
        CHECK(workers[i].status == BELL_OK, "%s",
              bell_status_name(workers[i].status));
        peers_check(inbox[i], 100 + (int32_t)i, "what was sent");
        hcq_buffer_destroy(workers[i].seen);
    }
    peers_close(&p);
}

/* ---- more devices ---- */

/* Each hands its numbers on to the next, which adds 1, three times round. */
static void
three_in_a_ring(struct cts *t)
{
    enum {
        ROUNDS = 3
    };
    struct peers p;
    struct hcq_buffer *own[PEERS_MAX], *next[PEERS_MAX];
    unsigned i, n = 0;

    peers_open(t, &p, 3);
    for (i = 0; i < 3; i++)
        own[i] = peers_ints(p.side[i].dev, N_INTS, 0);
    for (i = 0; i < 3; i++)
        next[i] = peers_see(p.side[i].dev, own[(i + 1) % 3]);
    for (n = 0; n < 3 * ROUNDS; n++) {
        struct peer_side *me = &p.side[n % 3];
        struct hcq_cs *cs = cts_begin(me->queue);

        hcq_cs_wait(cs, p.side[(n + 2) % 3].sig, n);
        peers_add_one(cs, me, own[n % 3], own[n % 3], N_INTS);
        hcq_cs_copy(cs, next[n % 3]->va, own[n % 3]->va, N_INTS * 4);
        hcq_cs_signal(cs, me->sig, n + 1);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_signal_wait(p.side[2].sig, 3 * ROUNDS, LONG_NS));
    for (i = 0; i < 3; i++)
        peers_check(own[i], 3 * ROUNDS - (i == 1), "of the ring");
    for (i = 0; i < 3; i++)
        hcq_buffer_destroy(next[i]);
    peers_close(&p);
}

/* One buffer, read by kernels of all at once. */
static void
three_read_one(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *own, *seen[PEERS_MAX], *out[PEERS_MAX];
    struct hcq_cs *cs;
    unsigned i;

    peers_open(t, &p, 3);
    own = peers_ints(p.side[2].dev, N_INTS, 6);
    for (i = 0; i < 3; i++) {
        seen[i] = i == 2 ? own : peers_see(p.side[i].dev, own);
        out[i] = peers_ints(p.side[i].dev, N_INTS, 0);
        cs = cts_begin(p.side[i].queue);
        hcq_cs_wait(cs, p.side[2].sig, 1);
        peers_add_one(cs, &p.side[i], out[i], seen[i], N_INTS);
        OK(hcq_cs_submit(cs, NULL));
    }
    hcq_signal_set(p.side[2].sig, 1);
    for (i = 0; i < 3; i++) {
        OK(hcq_queue_wait(p.side[i].queue, LONG_NS));
        peers_check(out[i], 7, "of one");
        if (i < 2)
            hcq_buffer_destroy(seen[i]);
    }
    peers_close(&p);
}

/* Two openings of one device have each other's memory, too. */
static void
two_openings(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *own, *seen, *mine;
    struct hcq_cs *cs;

    peers_open_same(t, &p, 2);
    own = peers_ints(t->dev, N_INTS, 1);
    seen = peers_see(p.side[1].dev, own);
    mine = peers_ints(p.side[1].dev, N_INTS, 0);
    cs = cts_begin(p.side[1].queue);
    peers_add_one(cs, &p.side[1], mine, seen, N_INTS);
    peers_add_one(cs, &p.side[1], seen, mine, N_INTS);
    hcq_cs_signal(cs, p.side[1].sig, 1);
    OK(hcq_cs_submit(cs, NULL));
    cs = cts_begin(t->queue);
    hcq_cs_wait(cs, p.side[1].sig, 1);
    peers_add_one(cs, &p.side[0], own, own, N_INTS);
    cts_finish(t->queue, cs);
    peers_check(mine, 2, "the other opening's");
    peers_check(own, 4, "own");
    hcq_buffer_destroy(seen);
    peers_close(&p);
    peers_check(own, 4, "own, alone again");
}

const struct cts_case cts_peer_cases[] = {
    {"peer copies both ways", copies},
    {"peer copies within", copies_within},
    {"peer fills", fills},
    {"peer words", words},
    {"peer kernel reads", kernel_reads},
    {"peer kernel writes", kernel_writes},
    {"peer atomics in turns", atomics},
    {"peer writes side by side", side_by_side},
    {"peer signals in turns", turns},
    {"peer writes and own lines", own_lines_are_fresh},
    {"peer writes its own lines", its_lines_are_fresh},
    {"peer copies what a kernel wrote", kernel_then_copy},
    {"peer bytes are counted", counted},
    {"peer in bound streams", streams},
    {"peer in a graph", graphs},
    {"peer both directions at once", both_at_once},
    {"peer three in a ring", three_in_a_ring},
    {"peer three read one", three_read_one},
    {"peer two openings", two_openings},
    {NULL, NULL},
};
