/* Memory of other devices: what comes and goes, what is lost, what cannot be,
 * and devices of several backends.
 */
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define N_INTS 1024u
#define KIB    1024u

/* ---- buffers ---- */

static void
refusals(struct cts *t)
{
    struct hcq_buffer *buf = cts_buffer(t, 64), *out = buf;
    struct peers p;
    static int32_t host[16];
    struct hcq_buffer *pinned, *seen, *again;
    bell_status status;

    FAILS(hcq_buffer_create_peer(NULL, buf, &out), BELL_E_INVALID,
          "the device is NULL");
    FAILS(hcq_buffer_create_peer(t->dev, NULL, &out), BELL_E_INVALID,
          "the buffer is NULL");
    FAILS(hcq_buffer_create_peer(t->dev, buf, NULL), BELL_E_INVALID,
          "the result is NULL");
    CHECK(out == buf, "something was written");
    peers_open(t, &p, 2);
    /* Memory that is not the owner's own may be refused; if not, it is
     * there. */
    seen = peers_see(p.side[1].dev, buf);
    status = hcq_buffer_create_peer(t->dev, seen, &again);
    CHECK(status == BELL_OK || status == BELL_E_UNSUPPORTED, "%s",
          bell_error_last()->message);
    if (status == BELL_OK)
        hcq_buffer_destroy(again);
    hcq_buffer_destroy(seen);
    status = hcq_buffer_create_pinned(t->dev, host, sizeof(host), &pinned);
    if (status == BELL_OK) {
        status = hcq_buffer_create_peer(p.side[1].dev, pinned, &again);
        CHECK(status == BELL_OK || status == BELL_E_UNSUPPORTED, "%s",
              bell_error_last()->message);
        if (status == BELL_OK)
            hcq_buffer_destroy(again);
        hcq_buffer_destroy(pinned);
    }
    peers_close(&p);
}

/* The host reads and writes it through either. */
static void
host_both(struct cts *t)
{
    static const size_t sizes[] = {1, 100, 4096, 100000};
    static unsigned char data[100000], got[100000];
    struct peers p;
    size_t i;

    peers_open(t, &p, 2);
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        struct hcq_buffer *its, *seen;

        OK(hcq_buffer_create(p.side[1].dev, 200000, 0, &its));
        seen = peers_see(t->dev, its);
        cts_pattern(data, sizes[i], (unsigned)i);
        OK(hcq_buffer_write(seen, 33, data, sizes[i]));
        OK(hcq_buffer_read(its, 33, got, sizes[i]));
        CHECK(memcmp(data, got, sizes[i]) == 0, "written by the peer");
        cts_pattern(data, sizes[i], (unsigned)i + 10);
        OK(hcq_buffer_write(its, 33, data, sizes[i]));
        OK(hcq_buffer_read(seen, 33, got, sizes[i]));
        CHECK(memcmp(data, got, sizes[i]) == 0, "read by the peer");
        FAILS(hcq_buffer_read(seen, 200000, got, 1), BELL_E_INVALID, "200001");
        hcq_buffer_destroy(seen);
        hcq_buffer_destroy(its);
    }
    peers_close(&p);
}

/* Host memory of one device, for the other: the pointer is the same. */
static void
host_visible(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen;
    struct hcq_cs *cs;
    int32_t *host;

    peers_open(t, &p, 2);
    OK(hcq_buffer_create(p.side[1].dev, N_INTS * 4, HCQ_MEM_HOST_VISIBLE,
                         &its));
    CHECK(its->host, "no pointer");
    memset(its->host, 0, N_INTS * 4);
    OK(hcq_buffer_wrote(its, 0, N_INTS * 4));
    seen = peers_see(t->dev, its);
    cs = cts_begin(t->queue);
    peers_add_one(cs, &p.side[0], seen, seen, N_INTS);
    cts_finish(t->queue, cs);
    cs = cts_begin(p.side[1].queue);
    peers_add_one(cs, &p.side[1], its, its, N_INTS);
    cts_finish(p.side[1].queue, cs);
    host = seen->host;
    CHECK(host[0] == 2 && host[N_INTS - 1] == 2, "%d", host[0]);
    hcq_buffer_destroy(seen);
    peers_close(&p);
}

/* Peers of one buffer end in any order; each works as long as it is there. The
 * owner's next memory is its own, and may be shared again. */
static void
destroy_order(struct cts *t)
{
    static const uint8_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};
    struct peers p;
    unsigned i, k, m;

    peers_open(t, &p, 3);
    for (i = 0; i < ARRAY_LEN(orders); i++) {
        struct hcq_buffer *own = peers_ints(t->dev, N_INTS, 0);
        struct hcq_buffer *seen[3] = {
            peers_see(p.side[1].dev, own), peers_see(p.side[2].dev, own),
            peers_see(p.side[1].dev, own), /* a second time */
        };

        for (k = 0; k < 3; k++) {
            for (m = k; m < 3; m++) {
                struct hcq_buffer *buf = seen[orders[i][m]];
                struct peer_side *side = &p.side[orders[i][m] == 1 ? 2 : 1];
                struct hcq_cs *cs = cts_begin(side->queue);

                peers_add_one(cs, side, buf, buf, N_INTS);
                cts_finish(side->queue, cs);
            }
            hcq_buffer_destroy(seen[orders[i][k]]);
        }
        peers_check(own, 6, "own");
        hcq_buffer_destroy(own);
    }
    peers_close(&p);
}

/* All sizes, all at once, freed in another order than they came in. */
static void
many(struct cts *t)
{
    enum {
        N = 40
    };
    struct peers p;
    struct hcq_buffer *own[N], *seen[N];
    uint64_t size;
    struct hcq_cs *cs;
    int i, round;

    peers_open(t, &p, 2);
    for (round = 0; round < CTS_TIMES(5); round++) {
        for (i = 0; i < N; i++) {
            size = i % 8 == 7 ? (uint64_t)1 << 21 : 4u << (i % 15);
            own[i] = peers_ints(p.side[i % 2].dev, size / 4, i);
            seen[i] = peers_see(p.side[1 - i % 2].dev, own[i]);
        }
        for (i = 0; i < N; i++) {
            struct hcq_queue *queue = p.side[1 - i % 2].copy;

            cs = cts_begin(queue);
            hcq_cs_write(cs, seen[i]->va, (uint64_t)(1000 + i), 32);
            OK(hcq_cs_submit(cs, NULL));
        }
        for (i = 0; i < 2; i++)
            OK(hcq_queue_wait(p.side[i].copy, LONG_NS));
        for (i = 0; i < N; i++)
            CHECK(cts_int(own[i], 0) == 1000 + i &&
                      (own[i]->size_bytes < 8 || cts_int(own[i], 1) == i),
                  "buffer %d: %d", i, cts_int(own[i], 0));
        for (i = 0; i < N; i++)
            hcq_buffer_destroy(seen[i * 7 % N]);
        for (i = 0; i < N; i++)
            hcq_buffer_destroy(own[i * 3 % N]);
    }
    peers_close(&p);
}

/* A buffer of no bytes, and one that is large. */
static void
sizes(struct cts *t)
{
    const uint64_t large = 48u << 20;
    struct peers p;
    struct hcq_buffer *none, *own, *seen;
    struct hcq_cs *cs;

    peers_open(t, &p, 2);
    OK(hcq_buffer_create(t->dev, 0, 0, &none));
    hcq_buffer_destroy(peers_see(p.side[1].dev, none));
    hcq_buffer_destroy(none);
    OK(hcq_buffer_create(t->dev, large, 0, &own));
    seen = peers_see(p.side[1].dev, own);
    cs = cts_begin(p.side[1].copy);
    hcq_cs_fill(cs, seen->va, 5, 64);
    hcq_cs_fill(cs, seen->va + large - 64, 6, 64);
    hcq_cs_copy(cs, seen->va + (large >> 1), seen->va + large - 64, 64);
    cts_finish(p.side[1].copy, cs);
    CHECK(cts_int(own, 15) == 5 && cts_int(own, large / 4 - 1) == 6 &&
              cts_int(own, large / 8) == 6,
          "%d, %d", cts_int(own, 15), cts_int(own, large / 4 - 1));
    peers_close(&p);
}

/* A device that closes with peers left gives them back; the owner goes on. */
static void
closed_with_peers(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *own, *seen;
    struct hcq_cs *cs;
    int i;

    own = peers_ints(t->dev, N_INTS, 0);
    for (i = 1; i <= 3; i++) {
        peers_open(t, &p, 2);
        seen = peers_see(p.side[1].dev, own);
        seen = peers_see(p.side[1].dev, own);
        cs = cts_begin(p.side[1].queue);
        peers_add_one(cs, &p.side[1], seen, seen, N_INTS);
        cts_finish(p.side[1].queue, cs);
        peers_close(&p);
        cs = cts_begin(t->queue);
        cts_exec(cs, cts_program(t, CTS_ADD_ONE), 1,
                 ARGS(own->va, own->va, N_INTS));
        cts_finish(t->queue, cs);
        peers_check(own, 2 * i, "own");
    }
    hcq_buffer_destroy(own);
    own = peers_ints(t->dev, N_INTS, 9);
    peers_check(own, 9, "a new one");
}

/* A device that closes with memory that others have: they may only give it back
 * then, and go on. */
static void
owner_closed(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen[3], *own;
    struct hcq_cs *cs;
    int i, k;

    for (i = 0; i < 3; i++) {
        peers_open(t, &p, 2);
        for (k = 0; k < 3; k++) {
            its = peers_ints(p.side[1].dev, N_INTS, k);
            seen[k] = peers_see(t->dev, its);
        }
        peers_close(&p);
        /* which may get the addresses that are free now */
        own = peers_ints(t->dev, N_INTS, 1);
        for (k = 0; k < 3; k++)
            hcq_buffer_destroy(seen[k]);
        cs = cts_begin(t->queue);
        cts_exec(cs, cts_program(t, CTS_ADD_ONE), 1,
                 ARGS(own->va, own->va, N_INTS));
        cts_finish(t->queue, cs);
        peers_check(own, 2, "own");
        hcq_buffer_destroy(own);
    }
}

/* How one reaches the other's memory is said, and is so. */
static void
link_tells(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen;
    unsigned i, k;

    peers_open_any(t, &p, 3);
    for (i = 0; i < 3; i++) {
        for (k = 0; k < 3; k++) {
            struct hcq_device_link link = {.struct_size = sizeof(link)};
            bell_status status;

            OK(hcq_device_get_link(p.side[i].dev, p.side[k].dev, &link));
            CHECK(link.kind < HCQ_LINK_KIND_COUNT && link.reason[0], "%d",
                  (int)link.kind);
            if (i == k) {
                CHECK(link.kind == HCQ_LINK_SELF && link.hops == 0, "%s",
                      hcq_link_kind_name(link.kind));
                continue;
            }
            its = peers_ints(p.side[k].dev, 4, 0);
            status = hcq_buffer_create_peer(p.side[i].dev, its, &seen);
            CHECK((status == BELL_OK) == (link.kind > HCQ_LINK_HOST),
                  "%s to %s: %s (%s), and a peer: %s",
                  hcq_device_name(p.side[i].dev),
                  hcq_device_name(p.side[k].dev), hcq_link_kind_name(link.kind),
                  link.reason,
                  status == BELL_OK ? "there" : bell_error_last()->message);
            if (status == BELL_OK) {
                CHECK(link.reads && link.writes, "no reads or writes");
                hcq_buffer_destroy(seen);
            } else {
                CHECK(status == BELL_E_UNSUPPORTED &&
                          peers_names_both(p.side[i].dev, p.side[k].dev) &&
                          cts_may_lack(p.side[i].dev, CTS_LACK_PEERS),
                      "%s: %s", bell_status_name(status),
                      bell_error_last()->message);
            }
            hcq_buffer_destroy(its);
        }
    }
    peers_close(&p);
}

/* What a peer takes, it gives back. */
static void
allocations_fail(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *own, *seen = NULL;
    bell_status status;
    uint64_t n;
    int once;

    peers_open(t, &p, 2);
    for (once = 0; once < 2; once++) {
        for (n = 1;; n++) {
            own = peers_ints(t->dev, N_INTS, 1);
            host_fail_after(n, once);
            status = hcq_buffer_create_peer(p.side[1].dev, own, &seen);
            host_fail_after(0, 0);
            if (status == BELL_OK)
                break;
            CHECK(status == BELL_E_NO_MEMORY, "allocation %llu: %s: %s",
                  (unsigned long long)n, bell_status_name(status),
                  bell_error_last()->message);
            CHECK(n < 100, "it never succeeds");
            hcq_buffer_destroy(own);
        }
        CHECK(n > 1, "nothing was allocated");
        hcq_buffer_destroy(seen);
        hcq_buffer_destroy(own);
    }
    peers_close(&p);
}

/* ---- one is lost ---- */

/* A kernel of that device reads where nothing is. */
static void
lose(struct peer_side *side, struct hcq_buffer *own)
{
    struct hcq_cs *cs = cts_begin(side->queue);

    cts_exec(cs, side->add_one, 1, ARGS(own->va, 0x123456789000ull, 1));
    OK(hcq_cs_submit(cs, NULL));
    FAILS(hcq_queue_wait(side->queue, LONG_NS), BELL_E_DEVICE_LOST, "");
}

static void
open_apart(struct cts *t, struct peers *p)
{
    if (CTS_TSAN)
        cts_skip("faults are not for the thread sanitizer");
    peers_open(t, p, 2);
    if (p->is_one_card && cts_may_lack(t->dev, CTS_LACK_RECOVERY))
        cts_skip("there is one card, and a fault stops all of this process "
                 "there");
}

/* The owner faults: its memory is there for the other as before, and after it
 * recovered both go on. */
static void
lost_owner(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *its, *seen, *mine, *bad;
    struct hcq_cs *cs;

    open_apart(t, &p);
    its = peers_ints(p.side[1].dev, N_INTS, 30);
    bad = peers_ints(p.side[1].dev, N_INTS, 0);
    seen = peers_see(t->dev, its);
    mine = peers_ints(t->dev, N_INTS, 0);
    lose(&p.side[1], bad);
    OK(hcq_device_status(t->dev));
    cs = cts_begin(t->queue);
    peers_add_one(cs, &p.side[0], mine, seen, N_INTS);
    peers_add_one(cs, &p.side[0], seen, mine, N_INTS);
    cts_finish(t->queue, cs);
    peers_check(mine, 31, "of a lost device's");
    cs = cts_begin(t->copy);
    hcq_cs_copy(cs, mine->va, seen->va, N_INTS * 4);
    cts_finish(t->copy, cs);
    peers_check(mine, 32, "of a lost device's, copied");
    RECOVER(p.side[1].dev);
    cs = cts_begin(p.side[1].queue);
    peers_add_one(cs, &p.side[1], its, its, N_INTS);
    cts_finish(p.side[1].queue, cs);
    cs = cts_begin(t->queue);
    peers_add_one(cs, &p.side[0], mine, seen, N_INTS);
    cts_finish(t->queue, cs);
    peers_check(mine, 34, "of a recovered one's");
    hcq_buffer_destroy(seen);
    peers_close(&p);
}

/* A device that uses the memory faults: the owner does not notice, and the peer
 * is there after recovery. */
static void
lost_user(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *own, *seen, *bad;
    struct hcq_cs *cs;

    open_apart(t, &p);
    own = peers_ints(t->dev, N_INTS, 30);
    seen = peers_see(p.side[1].dev, own);
    bad = peers_ints(p.side[1].dev, N_INTS, 0);
    lose(&p.side[1], bad);
    OK(hcq_device_status(t->dev));
    cs = cts_begin(t->queue);
    peers_add_one(cs, &p.side[0], own, own, N_INTS);
    cts_finish(t->queue, cs);
    peers_check(own, 31, "the owner's");
    RECOVER(p.side[1].dev);
    cs = cts_begin(p.side[1].queue);
    peers_add_one(cs, &p.side[1], seen, seen, N_INTS);
    cts_finish(p.side[1].queue, cs);
    peers_check(own, 32, "after recovery");
    peers_close(&p);
}

/* It waits for a signal of one that is lost: a report, and it goes on. */
static void
lost_signaller(struct cts *t)
{
    struct peers p;
    struct hcq_buffer *bad, *own;
    struct hcq_cs *cs;

    open_apart(t, &p);
    bad = peers_ints(p.side[1].dev, N_INTS, 0);
    own = peers_ints(t->dev, N_INTS, 0);
    cs = cts_begin(t->queue);
    hcq_cs_wait(cs, p.side[1].sig, 1);
    peers_add_one(cs, &p.side[0], own, own, N_INTS);
    OK(hcq_cs_submit(cs, NULL));
    lose(&p.side[1], bad);
    HANGS(hcq_queue_wait(t->queue, 20 * MS_NS), ">= 1");
    hcq_signal_set(p.side[1].sig, 1); /* the host stands in */
    OK(hcq_queue_wait(t->queue, LONG_NS));
    peers_check(own, 1, "own");
    RECOVER(p.side[1].dev);
    peers_close(&p);
}

/* ---- several backends ---- */

static const char *const others[] = {
    "CPU",
    "NV@sim:sm_90",
    "AMD@sim:gfx1100",
    "QCOM@sim:a630",
};

/* A device of each other backend, one after the other; how many there were. */
static unsigned
with_each(struct cts *t, void (*look)(struct cts *t, struct peer_side *other))
{
    unsigned n = 0;
    size_t i;

    for (i = 0; i < ARRAY_LEN(others); i++) {
        size_t len = strlen(t->info.backend);
        struct peer_side other = {NULL};

        if (strncmp(others[i], t->info.backend, len) == 0 &&
            (others[i][len] == '@' || !others[i][len]))
            continue;
        if (cts_open_other(t, others[i], &other.dev) != BELL_OK)
            continue;
        OK(hcq_queue_create(other.dev, HCQ_QUEUE_COMPUTE, &other.queue));
        OK(hcq_queue_create(other.dev, HCQ_QUEUE_COPY, &other.copy));
        OK(hcq_signal_create(other.dev, 0, &other.sig));
        look(t, &other);
        cts_close_others(t);
        n++;
    }
    return n;
}

static void
with_others(struct cts *t, void (*look)(struct cts *t, struct peer_side *other))
{
    if (with_each(t, look) == 0)
        cts_skip("there is no device of another backend");
}

/* `dev` has the buffer, and then its bytes are there; or it says why not. */
static void
check_seen(struct hcq_device *dev, struct hcq_queue *queue,
           struct hcq_buffer *of)
{
    struct hcq_buffer *seen, *mine;
    int32_t value = 123454321;
    struct hcq_cs *cs;
    bell_status status = hcq_buffer_create_peer(dev, of, &seen);

    if (status != BELL_OK) {
        CHECK(status == BELL_E_UNSUPPORTED && peers_names_both(dev, of->dev),
              "%s: %s", bell_status_name(status), bell_error_last()->message);
        return;
    }
    OK(hcq_buffer_write(of, 0, &value, 4));
    mine = peers_ints(dev, 1, 0);
    cs = cts_begin(queue);
    hcq_cs_copy(cs, mine->va, seen->va, 4);
    cts_finish(queue, cs);
    CHECK(cts_int(mine, 0) == value, "%s of %s: %d", hcq_device_name(dev),
          hcq_device_name(of->dev), cts_int(mine, 0));
    hcq_buffer_destroy(mine);
    hcq_buffer_destroy(seen);
}

static void
look_at_memory(struct cts *t, struct peer_side *other)
{
    static const uint32_t flags[] = {HCQ_MEM_DEVICE, HCQ_MEM_HOST_VISIBLE};
    struct hcq_buffer *mine, *its;
    size_t i;

    for (i = 0; i < ARRAY_LEN(flags); i++) {
        OK(hcq_buffer_create(t->dev, 4096, flags[i], &mine));
        OK(hcq_buffer_create(other->dev, 4096, flags[i], &its));
        check_seen(t->dev, t->queue, its);
        check_seen(other->dev, other->queue, mine);
        hcq_buffer_destroy(its);
        hcq_buffer_destroy(mine);
    }
}

/* Sharing that is not possible is refused, and both devices are named. */
static void
mixed_memory(struct cts *t)
{
    with_others(t, look_at_memory);
}

/* A queue that waits for a signal of the other's goes on when the host sets it,
 * or is refused; likewise one that sets it. */
static void
check_signal(struct hcq_queue *queue, struct hcq_signal *sig)
{
    uint64_t value = hcq_signal_value(sig);
    struct hcq_cs *cs = cts_begin(queue);
    bell_status status;

    hcq_cs_wait(cs, sig, value + 1);
    hcq_cs_signal(cs, sig, value + 2);
    status = hcq_cs_submit(cs, NULL);
    if (status != BELL_OK) {
        CHECK(status == BELL_E_UNSUPPORTED, "%s: %s", bell_status_name(status),
              bell_error_last()->message);
        CHECK(strstr(bell_error_last()->message, hcq_device_name(sig->dev)),
              "%s", bell_error_last()->message);
        return;
    }
    hcq_signal_set(sig, value + 1);
    OK(hcq_signal_wait(sig, value + 2, LONG_NS));
    OK(hcq_queue_wait(queue, LONG_NS));
}

static void
look_at_signals(struct cts *t, struct peer_side *other)
{
    struct hcq_signal *sig = cts_signal(t, 0);

    check_signal(t->queue, other->sig);
    check_signal(t->copy, other->sig);
    check_signal(other->queue, sig);
    check_signal(other->copy, sig);
    hcq_signal_destroy(sig);
}

static void
mixed_signals(struct cts *t)
{
    with_others(t, look_at_signals);
}

/* The way that is always there: pages of the host that both have, in turns by
 * the host. */
static void
look_through_host(struct cts *t, struct peer_side *other)
{
    static _Alignas(4096) unsigned char pages[64 * KIB];
    static unsigned char data[64 * KIB], got[64 * KIB];
    struct hcq_buffer *mine = cts_buffer(t, sizeof(pages)), *its;
    struct hcq_buffer *my_pages, *its_pages;
    struct hcq_cs *cs;
    unsigned way;

    if (hcq_buffer_create_pinned(other->dev, pages, sizeof(pages),
                                 &its_pages) != BELL_OK) {
        CHECK(cts_may_lack(other->dev, CTS_LACK_PINS), "%s",
              bell_error_last()->message);
        return;
    }
    my_pages = cts_pin(t->dev, pages, sizeof(pages));
    OK(hcq_buffer_create(other->dev, sizeof(pages), 0, &its));
    for (way = 0; way < 2; way++) {
        struct hcq_buffer *from = way ? its : mine, *to = way ? mine : its;
        struct hcq_queue *first = way ? other->copy : t->copy;
        struct hcq_queue *second = way ? t->copy : other->copy;

        cts_pattern(data, sizeof(data), way + 3);
        OK(hcq_buffer_write(from, 0, data, sizeof(data)));
        cs = cts_begin(first);
        hcq_cs_copy(cs, (way ? its_pages : my_pages)->va, from->va,
                    sizeof(pages));
        cts_finish(first, cs);
        cs = cts_begin(second);
        hcq_cs_copy(cs, to->va, (way ? my_pages : its_pages)->va,
                    sizeof(pages));
        cts_finish(second, cs);
        OK(hcq_buffer_read(to, 0, got, sizeof(got)));
        CHECK(memcmp(data, got, sizeof(got)) == 0, "way %u with %s", way,
              hcq_device_name(other->dev));
    }
    hcq_buffer_destroy(its);
    hcq_buffer_destroy(its_pages);
    hcq_buffer_destroy(my_pages);
    hcq_buffer_destroy(mine);
}

static void
mixed_through_host(struct cts *t)
{
    with_others(t, look_through_host);
}

const struct cts_case cts_peer_life_cases[] = {
    {"peer refusals", refusals},
    {"peer host reads and writes", host_both},
    {"peer of host-visible memory", host_visible},
    {"peer destroy order", destroy_order},
    {"peer many", many},
    {"peer sizes", sizes},
    {"peer closed with peers left", closed_with_peers},
    {"peer owner closed first", owner_closed},
    {"peer link", link_tells},
    {"peer every allocation fails", allocations_fail},
    {"peer lost owner", lost_owner, true},
    {"peer lost user", lost_user, true},
    {"peer lost signaller", lost_signaller, true},
    {"peer memory of other backends", mixed_memory},
    {"peer signals of other backends", mixed_signals},
    {"peer other backends through host memory", mixed_through_host},
    {NULL, NULL},
};
