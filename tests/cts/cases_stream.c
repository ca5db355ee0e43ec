/* Bound streams: submitted many times, patched in between. */
#include "cts.h"

#include <stdio.h>
#include <stdlib.h>

static struct hcq_stream *
new_stream(struct hcq_queue *queue, const char *name)
{
    struct hcq_stream *stream;

    OK(hcq_stream_create(queue, name, &stream));
    return stream;
}

static void
run(struct hcq_stream *stream)
{
    OK(hcq_stream_submit(stream, NULL));
    OK(hcq_stream_wait(stream, LONG_NS));
}

static void
repeat(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 64, 0), *b = cts_ints(t, 64, 0);
    struct hcq_stream *stream = new_stream(t->queue, "repeat");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    uint64_t value = 0;
    int i;

    cts_exec(cs, prog, 4, ARGS(b->va, a->va, 16));
    cts_exec(cs, prog, 4, ARGS(a->va, b->va, 16));
    OK(hcq_stream_end(stream));
    CHECK(!hcq_stream_busy(stream), "busy before it ran");
    for (i = 0; i < 1000; i++) /* also while it is in flight */
        OK(hcq_stream_submit(stream, &value));
    CHECK(value == 1000, "%llu", (unsigned long long)value);
    OK(hcq_stream_wait(stream, LONG_NS));
    CHECK(cts_int(a, 0) == 2000 && cts_int(a, 63) == 2000, "%d", cts_int(a, 0));
    hcq_stream_destroy(stream);
    hcq_stream_destroy(NULL);
}

/* Far more commands than any ring holds. */
static void
long_stream(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 1, 0);
    struct hcq_stream *stream = new_stream(t->queue, "long");
    const int n = CTS_TIMES(50000);
    int i;

    for (i = 0; i < n; i++)
        cts_exec(hcq_stream_cs(stream), prog, 1, ARGS(a->va, a->va, 1));
    OK(hcq_stream_end(stream));
    run(stream);
    run(stream);
    CHECK(cts_int(a, 0) == 2 * n, "%d", cts_int(a, 0));
}

/* Launches in a row, each of whose groups reads what another group of the one
 * before it wrote: fresh, bound and patched. */
static void
rows(struct cts *t)
{
    enum {
        GROUPS = 100,
        LENGTH = 30,
        N_INTS = GROUPS + 1
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *bufs[2];
    struct hcq_stream *stream = new_stream(t->queue, "rows");
    uint32_t groups = hcq_stream_patch_point(stream, "groups");
    int32_t want[2][N_INTS], seen[2][N_INTS];
    struct hcq_cs *cs = hcq_stream_cs(stream);
    uint32_t i, k, n = GROUPS, round;

    for (i = 0; i < 2; i++) {
        bufs[i] = cts_ints(t, N_INTS, (int)i * 1000);
        OK(hcq_buffer_read(bufs[i], 0, want[i], sizeof(want[i])));
    }
    for (i = 0; i < LENGTH; i++) {
        cts_exec(cs, prog, GROUPS,
                 ARGS(bufs[i & 1]->va, bufs[~i & 1]->va + 4, 1));
        if (i == LENGTH / 2)
            hcq_cs_patch(cs, HCQ_FIELD_GRID, groups, 0);
    }
    OK(hcq_stream_end(stream));
    for (round = 0; round < 8; round++) {
        if (round & 1) {
            n = GROUPS / (round + 1);
            OK(hcq_stream_patch(stream, groups, n));
            run(stream);
        } else {
            OK(hcq_queue_begin(t->queue, &cs));
            for (i = 0; i < LENGTH; i++)
                cts_exec(cs, prog, GROUPS,
                         ARGS(bufs[i & 1]->va, bufs[~i & 1]->va + 4, 1));
            OK(hcq_cs_submit(cs, NULL));
            OK(hcq_queue_wait(t->queue, LONG_NS));
        }
        for (i = 0; i < LENGTH; i++) {
            bool is_short = (round & 1) && i == LENGTH / 2;

            for (k = 0; k < (is_short ? n : GROUPS); k++)
                want[i & 1][k] = want[~i & 1][k + 1] + 1;
        }
        for (i = 0; i < 2; i++) {
            OK(hcq_buffer_read(bufs[i], 0, seen[i], sizeof(seen[i])));
            for (k = 0; k < N_INTS; k++)
                CHECK(seen[i][k] == want[i][k], "round %u, %u of buffer %u: %d",
                      round, k, i, seen[i][k]);
        }
    }
}

/* Fresh launches, bound ones, a copy and nothing, one behind the other: each
 * sees what those before it did, though nobody waits. */
static void
in_turn(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 1, 0), *b = cts_ints(t, 1, 0);
    struct hcq_stream *exec = new_stream(t->queue, "exec"),
                      *copy = new_stream(t->queue, "copy");
    struct hcq_cs *cs;
    int i;

    cts_exec(hcq_stream_cs(exec), prog, 1, ARGS(a->va, b->va, 1));
    OK(hcq_stream_end(exec));
    hcq_cs_copy(hcq_stream_cs(copy), b->va, a->va, 4);
    OK(hcq_stream_end(copy));
    for (i = 0; i < 300; i++) {
        cs = cts_begin(t->queue);
        if (i % 3 == 1)
            hcq_cs_copy(cs, b->va, a->va, 4);
        cts_exec(cs, prog, 1, ARGS(b->va, i % 3 == 2 ? b->va : a->va, 1));
        OK(hcq_cs_submit(cs, NULL));
        if (i % 3 == 2) { /* only this round: a is not b - 1 */
            OK(hcq_stream_submit(copy, NULL));
            cs = cts_begin(t->queue);
            OK(hcq_cs_submit(cs, NULL));
            cs = cts_begin(t->queue);
            cts_exec(cs, prog, 1, ARGS(b->va, a->va, 1));
            OK(hcq_cs_submit(cs, NULL));
        }
        OK(hcq_stream_submit(exec, NULL));
    }
    OK(hcq_queue_wait(t->queue, LONG_NS));
    CHECK(cts_int(a, 0) == 600, "%d", cts_int(a, 0));
    CHECK(cts_int(b, 0) == 599, "%d", cts_int(b, 0));
}

static void
patch_exec(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_program *values = cts_program(t, CTS_VALUES);
    struct hcq_stream *stream = new_stream(t->queue, "exec");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    uint32_t out = hcq_stream_patch_point(stream, "out");
    uint32_t in = hcq_stream_patch_point(stream, "in");
    uint32_t n = hcq_stream_patch_point(stream, "n");
    uint32_t x = hcq_stream_patch_point(stream, "x");
    uint32_t number = hcq_stream_patch_point(stream, "number");
    struct hcq_buffer *bufs[4], *val = cts_buffer(t, 8);
    int64_t seen;
    int i;

    for (i = 0; i < 4; i++)
        bufs[i] = cts_ints(t, 65, i * 100);
    /* As emitted: one group of 1, on buffers 0 and 1. */
    cts_exec(cs, prog, 1, ARGS(bufs[0]->va, bufs[1]->va, 1));
    hcq_cs_patch(cs, HCQ_FIELD_ARG, out, 4);
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, in, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 2, n, 0);
    hcq_cs_patch(cs, HCQ_FIELD_GRID, x, 0);
    cts_exec(cs, values, 1, ARGS(val->va, 1, 0, 0));
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, number, -10);
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 2, number, 0);
    OK(hcq_stream_end(stream));
    CHECK(hcq_stream_find_patch(stream, "in") == in, "by name");
    CHECK(hcq_stream_find_patch(stream, "no") == HCQ_PATCH_NONE, "by name");

    run(stream);
    CHECK(cts_int(bufs[0], 0) == 101 && cts_int(bufs[0], 1) == 0, "%d",
          cts_int(bufs[0], 0));
    OK(hcq_buffer_read(val, 0, &seen, 8));
    CHECK(seen == 1, "%lld", (long long)seen);
    /* 4 groups of 16 from buffer 3 to buffer 2, one int further. */
    OK(hcq_stream_patch(stream, out, bufs[2]->va));
    OK(hcq_stream_patch(stream, in, bufs[3]->va));
    OK(hcq_stream_patch(stream, n, 16));
    OK(hcq_stream_patch(stream, x, 4));
    OK(hcq_stream_patch(stream, number, 4)); /* 4 - 10 is a value */
    run(stream);
    CHECK(cts_int(bufs[2], 0) == 200 && cts_int(bufs[2], 1) == 301 &&
              cts_int(bufs[2], 64) == 301,
          "%d %d", cts_int(bufs[2], 0), cts_int(bufs[2], 1));
    OK(hcq_buffer_read(val, 0, &seen, 8));
    CHECK(seen == -6 + 3 * 4, "%lld", (long long)seen);
}

static void
patch_grid_all(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_IDS);
    struct hcq_stream *stream = new_stream(t->queue, "grid");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    struct hcq_buffer *buf = cts_ints(t, 216, 0);
    uint32_t point[3], g[3], i;
    int32_t seen[216];

    point[0] = hcq_stream_patch_point(stream, "x");
    point[1] = hcq_stream_patch_point(stream, "y");
    point[2] = hcq_stream_patch_point(stream, "z");
    cts_exec(cs, prog, 1, ARGS(buf->va));
    for (i = 0; i < 3; i++)
        hcq_cs_patch(cs, HCQ_FIELD_GRID + i, point[i], 0);
    OK(hcq_stream_end(stream));
    for (i = 0; i < 216; i++) {
        uint32_t n, k;

        g[0] = i % 6 + 1, g[1] = i / 6 % 6 + 1, g[2] = i / 36 + 1;
        n = g[0] * g[1] * g[2];
        memset(seen, 0, sizeof(seen));
        OK(hcq_buffer_write(buf, 0, seen, sizeof(seen)));
        for (k = 0; k < 3; k++)
            OK(hcq_stream_patch(stream, point[k], g[k]));
        run(stream);
        OK(hcq_buffer_read(buf, 0, seen, sizeof(seen)));
        for (k = 0; k < 216; k++) {
            uint32_t want = k % g[0] + 1000 * (k / g[0] % g[1]) +
                            1000000 * (k / g[0] / g[1]) + 1;
            CHECK((uint32_t)seen[k] == (k < n ? want : 0), "%ux%ux%u: %u", g[0],
                  g[1], g[2], k);
        }
    }
}

/* The work-group of a launch, on every axis. */
static void
patch_group(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ITEMS);
    struct hcq_stream *stream = new_stream(t->queue, "group");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    struct hcq_buffer *buf = cts_ints(t, 3 * 125, 0);
    uint32_t point[3], l[3], i, k;
    static int32_t seen[3 * 125];
    char name[8];

    cts_exec(cs, prog, 3, ARGS(buf->va));
    for (k = 0; k < 3; k++) {
        snprintf(name, sizeof(name), "%c", (char)('x' + (int)k));
        point[k] = hcq_stream_patch_point(stream, name);
        hcq_cs_patch(cs, HCQ_FIELD_LOCAL + k, point[k], 0);
    }
    OK(hcq_stream_end(stream));
    for (i = 0; i < 125; i++) {
        uint32_t n;

        l[0] = i % 5 + 1, l[1] = i / 5 % 5 + 1, l[2] = i / 25 + 1;
        n = l[0] * l[1] * l[2];
        memset(seen, 0, sizeof(seen));
        OK(hcq_buffer_write(buf, 0, seen, sizeof(seen)));
        for (k = 0; k < 3; k++)
            OK(hcq_stream_patch(stream, point[k], l[k]));
        run(stream);
        OK(hcq_buffer_read(buf, 0, seen, sizeof(seen)));
        for (k = 0; k < 3 * 125; k++) {
            uint32_t at = k % n, want = at % l[0] + at / l[0] % l[1] * 1000 +
                                        at / l[0] / l[1] * 1000000 + 1;
            CHECK((uint32_t)seen[k] == (k < 3 * n ? want : 0), "%ux%ux%u: %u",
                  l[0], l[1], l[2], k);
        }
    }
    FAILS(hcq_stream_patch(stream, point[0], 0), BELL_E_INVALID, "'x'");
    FAILS(
        hcq_stream_patch(stream, point[1], (uint64_t)t->info.max_local[1] + 1),
        BELL_E_INVALID, "'y'");
}

static void
patch_signals(struct cts *t)
{
    struct hcq_stream *stream = new_stream(t->queue, "signals");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    uint32_t wait_va = hcq_stream_patch_point(stream, "wait address");
    uint32_t signal_va = hcq_stream_patch_point(stream, "signal address");
    uint32_t value = hcq_stream_patch_point(stream, "value");
    struct hcq_signal *a = cts_signal(t, 0), *b = cts_signal(t, 0);
    uint64_t i;

    hcq_cs_wait(cs, a, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, wait_va, 0);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, value, -1);
    hcq_cs_signal(cs, b, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, signal_va, 0);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, value, 0);
    hcq_cs_timestamp(cs, a);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, signal_va, 0);
    OK(hcq_stream_end(stream));
    for (i = 1; i <= 40; i++) {
        struct hcq_signal *from = i & 1 ? a : b, *to = i & 1 ? b : a;

        OK(hcq_stream_patch(stream, wait_va, from->va));
        OK(hcq_stream_patch(stream, signal_va, to->va));
        OK(hcq_stream_patch(stream, value, i));
        OK(hcq_stream_submit(stream, NULL));
        OK(hcq_signal_wait(to, i, LONG_NS));
        OK(hcq_stream_wait(stream, LONG_NS));
        CHECK(hcq_signal_timestamp(to) != 0, "timestamp");
    }
    FAILS(hcq_stream_patch(stream, wait_va, a->va + 4), BELL_E_INVALID,
          "multiple of 8");
}

static void
patch_transfers(struct cts *t)
{
    struct hcq_stream *stream = new_stream(t->copy, "transfers");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    uint32_t dst = hcq_stream_patch_point(stream, "dst");
    uint32_t src = hcq_stream_patch_point(stream, "src");
    uint32_t size = hcq_stream_patch_point(stream, "size");
    uint32_t word = hcq_stream_patch_point(stream, "word");
    struct hcq_buffer *a = cts_ints(t, 64, 1), *b = cts_ints(t, 64, 2);
    struct hcq_buffer *c = cts_ints(t, 64, 3);
    bool bits = (t->info.flags & HCQ_DEVICE_POLL_MASKS) != 0;

    hcq_cs_copy(cs, b->va, a->va, 0);
    hcq_cs_patch(cs, HCQ_FIELD_DST, dst, 4);
    hcq_cs_patch(cs, HCQ_FIELD_SRC, src, 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, size, 0);
    hcq_cs_fill(cs, c->va, 7, 4);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, dst, 128);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, word, 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, size, 0);
    hcq_cs_write(cs, c->va + 4, 0, 32);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, word, 1);
    hcq_cs_write(cs, c->va + 8, 0, 64);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, dst, 200);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, word, 2);
    hcq_cs_poll(cs, c->va + 4, bits ? 0 : UINT32_MAX, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, dst, 200);
    if (bits)
        hcq_cs_patch(cs, HCQ_FIELD_MASK, word, -500 + 0xff);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, word, bits ? -500 + (502 & 0xff) : 2);
    OK(hcq_stream_end(stream));
    OK(hcq_stream_patch(stream, dst, b->va));
    OK(hcq_stream_patch(stream, src, c->va));
    OK(hcq_stream_patch(stream, size, 8));
    OK(hcq_stream_patch(stream, word, 500));
    run(stream);
    CHECK(cts_int(b, 0) == 2 && cts_int(b, 1) == 3 && cts_int(b, 2) == 3 &&
              cts_int(b, 3) == 2,
          "copy: %d %d", cts_int(b, 1), cts_int(b, 3));
    CHECK(cts_int(b, 31) == 2 && cts_int(b, 32) == 500 &&
              cts_int(b, 33) == 500 && cts_int(b, 34) == 2,
          "fill: %d", cts_int(b, 32));
    CHECK(cts_int(c, 1) == 501, "write: %d", cts_int(c, 1));
    CHECK(cts_int(b, 50) == 502, "write: %d", cts_int(b, 50));
    FAILS(hcq_stream_patch(stream, word, UINT32_MAX), BELL_E_INVALID, "'word'");
    FAILS(hcq_stream_patch(stream, dst, b->va + 2), BELL_E_INVALID,
          "multiple of 4");
    OK(hcq_stream_patch(stream, dst, a->va));
    run(stream);
    CHECK(cts_int(a, 1) == 3 && cts_int(a, 0) == 1, "second run");
}

/* A command of each kind, in which something is patched. */
static void
emit_patched(struct cts *t, struct hcq_cs *cs, unsigned op)
{
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_buffer *buf = cts_ints(t, 8, 0);

    switch (op) {
    case 0:
        hcq_cs_wait(cs, sig, 0);
        break;
    case 1:
        hcq_cs_signal(cs, sig, 0);
        break;
    case 2:
        hcq_cs_timestamp(cs, sig);
        break;
    case 3:
        hcq_cs_copy(cs, buf->va, buf->va + 16, 8);
        break;
    case 4:
        hcq_cs_fill(cs, buf->va, 0, 8);
        break;
    case 5:
        hcq_cs_write(cs, buf->va, 0, 32);
        break;
    case 6:
        hcq_cs_write(cs, buf->va, 0, 64);
        break;
    default:
        hcq_cs_poll(cs, buf->va, UINT32_MAX, 0);
        break;
    }
}

/* What each field of each command takes, and what just not. */
static void
patch_borders(struct cts *t)
{
    static const struct {
        unsigned op, field;
        uint32_t align;
        uint64_t max; /* of a value; 0: an address */
    } fields[] = {
        {0, HCQ_FIELD_ADDR, 8, 0},          {0, HCQ_FIELD_VALUE, 1, UINT64_MAX},
        {1, HCQ_FIELD_ADDR, 8, 0},          {1, HCQ_FIELD_VALUE, 1, UINT64_MAX},
        {2, HCQ_FIELD_ADDR, 8, 0},          {3, HCQ_FIELD_DST, 1, 0},
        {3, HCQ_FIELD_SRC, 1, 0},           {3, HCQ_FIELD_SIZE, 1, 1u << 20},
        {4, HCQ_FIELD_ADDR, 4, 0},          {4, HCQ_FIELD_VALUE, 1, UINT32_MAX},
        {4, HCQ_FIELD_SIZE, 4, 0},          {5, HCQ_FIELD_ADDR, 4, 0},
        {6, HCQ_FIELD_ADDR, 8, 0},          {5, HCQ_FIELD_VALUE, 1, UINT32_MAX},
        {7, HCQ_FIELD_ADDR, 4, 0},          {6, HCQ_FIELD_VALUE, 1, UINT64_MAX},
        {7, HCQ_FIELD_MASK, 1, UINT32_MAX}, {7, HCQ_FIELD_VALUE, 1, UINT32_MAX},
    };
    const bool bits = (t->info.flags & HCQ_DEVICE_POLL_MASKS) != 0;
    unsigned i, k;

    for (i = 0; i < ARRAY_LEN(fields); i++) {
        const uint64_t max = fields[i].max, align = fields[i].align;
        struct hcq_stream *stream = new_stream(t->queue, "borders");
        struct hcq_cs *cs = hcq_stream_cs(stream);
        uint32_t point = hcq_stream_patch_point(stream, "point");

        if (fields[i].field == HCQ_FIELD_MASK && !bits)
            continue;
        emit_patched(t, cs, fields[i].op);
        hcq_cs_patch(cs, fields[i].field, point, 0);
        OK(hcq_stream_end(stream));
        OK(hcq_stream_patch(stream, point, max ? max : 16 * 4097));
        if (fields[i].field == HCQ_FIELD_SIZE)
            continue;
        if (max == UINT32_MAX)
            FAILS(hcq_stream_patch(stream, point, max + 1), BELL_E_INVALID,
                  "'point'");
        for (k = 1; k < align; k++)
            FAILS(hcq_stream_patch(stream, point, 4096 + k), BELL_E_INVALID,
                  "multiple of");
    }
}

/* A patch makes a small transfer large and back, which a device may do in other
 * ways; what comes before and behind it is in order each time. */
#define LARGE_BYTES 200064u

static void
patch_large_transfers(struct cts *t)
{
    static const uint32_t rows[][3] = {
        /* to, from, bytes */
        {0, 0, 64},     {1, 3, 199999},  {16, 0, 131072},
        {5, 5, 131083}, {8, 8, 1},       {4, 8, 180000},
        {0, 0, 0},      {64, 1, 200000}, {12, 7, 131071}};
    struct hcq_stream *stream = new_stream(t->queue, "large");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    uint32_t to = hcq_stream_patch_point(stream, "to");
    uint32_t from = hcq_stream_patch_point(stream, "from");
    uint32_t size = hcq_stream_patch_point(stream, "size");
    uint32_t at = hcq_stream_patch_point(stream, "at");
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, LARGE_BYTES / 4, 0);
    struct hcq_buffer *b = cts_buffer(t, LARGE_BYTES);
    struct hcq_buffer *c = cts_buffer(t, LARGE_BYTES);
    unsigned char *in = malloc(LARGE_BYTES), *want = malloc(LARGE_BYTES);
    unsigned char *out = malloc(LARGE_BYTES);
    unsigned i, j;

    CHECK(in && want && out, "test memory");
    cts_exec(cs, prog, 1, ARGS(a->va, a->va, 1));
    hcq_cs_fill(cs, b->va, 0x11111111, LARGE_BYTES);
    hcq_cs_copy(cs, b->va, a->va, 0);
    hcq_cs_patch(cs, HCQ_FIELD_DST, to, 0);
    hcq_cs_patch(cs, HCQ_FIELD_SRC, from, 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, size, 0);
    hcq_cs_copy(cs, c->va, b->va, LARGE_BYTES);
    hcq_cs_fill(cs, b->va, 0x04030201, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, at, 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, size, 0);
    cts_exec(cs, prog, 1, ARGS(a->va, a->va, 1));
    OK(hcq_stream_end(stream));
    cts_pattern(in, LARGE_BYTES, 3);
    OK(hcq_buffer_write(a, 0, in, LARGE_BYTES));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t n = rows[i][2], fill_at = rows[i][0] & ~3u;
        int32_t first;

        OK(hcq_stream_patch(stream, to, b->va + rows[i][0]));
        OK(hcq_stream_patch(stream, from, a->va + rows[i][1]));
        OK(hcq_stream_patch(stream, size, n));
        OK(hcq_stream_patch(stream, at, b->va + fill_at));
        memcpy(&first, in, 4);
        first++;
        memcpy(in, &first, 4);
        run(stream);
        memset(want, 0x11, LARGE_BYTES);
        memcpy(want + rows[i][0], in + rows[i][1], n);
        OK(hcq_buffer_read(c, 0, out, LARGE_BYTES));
        CHECK(memcmp(out, want, LARGE_BYTES) == 0, "copy of %u bytes", n);
        for (j = 0; j < n; j++)
            want[fill_at + j] = (unsigned char)(j % 4 + 1);
        OK(hcq_buffer_read(b, 0, out, LARGE_BYTES));
        CHECK(memcmp(out, want, LARGE_BYTES) == 0, "fill of %u bytes", n);
        first++;
        memcpy(in, &first, 4);
        CHECK(cts_int(a, 0) == first, "%d, not %d", cts_int(a, 0), first);
    }
    free(in);
    free(want);
    free(out);
}

/* The first patch of many places that does not fit changes none. */
static void
patch_refused(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_IDS);
    struct hcq_stream *stream = new_stream(t->queue, "refused");
    struct hcq_cs *cs = hcq_stream_cs(stream);
    struct hcq_signal *go = cts_signal(t, 0);
    struct hcq_buffer *buf = cts_ints(t, 16, 0);
    uint32_t x = hcq_stream_patch_point(stream, "x");
    uint32_t twice = hcq_stream_patch_point(stream, "twice");

    hcq_cs_wait(cs, go, 1);
    cts_exec(cs, prog, 3, ARGS(buf->va));
    hcq_cs_patch(cs, HCQ_FIELD_GRID, x, 0);
    hcq_cs_write(cs, buf->va + 32, 5, 64);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, twice, 0);
    hcq_cs_write(cs, buf->va + 40, 6, 32);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, twice, 0);
    FAILS(hcq_stream_patch(stream, x, 1), BELL_E_INVALID, "not built");
    FAILS(hcq_stream_submit(stream, NULL), BELL_E_INVALID, "not been ended");
    OK(hcq_stream_end(stream));
    FAILS(hcq_stream_end(stream), BELL_E_INVALID, "not being built");
    FAILS(hcq_stream_patch(stream, x, 0), BELL_E_INVALID, "must be 1 to");
    FAILS(hcq_stream_patch(stream, x, 1ull << 32), BELL_E_INVALID, "'x'");
    FAILS(hcq_stream_patch(stream, 99, 0), BELL_E_INVALID, "no such");
    FAILS(hcq_stream_patch(stream, twice, 1ull << 32), BELL_E_INVALID,
          "'twice'");
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "is bound");
    /* In flight: named, and nothing changed. */
    OK(hcq_stream_submit(stream, NULL));
    CHECK(hcq_stream_busy(stream), "not busy");
    FAILS(hcq_stream_patch(stream, x, 2), BELL_E_INVALID, "'refused'");
    FAILS(hcq_stream_patch(stream, x, 2), BELL_E_INVALID, "in flight");
    HANGS(hcq_stream_wait(stream, 100 * MS_NS), "wait for signal");
    hcq_signal_set(go, 1);
    OK(hcq_stream_wait(stream, LONG_NS));
    CHECK(cts_int(buf, 2) == 3 && cts_int(buf, 3) == 0, "grid");
    CHECK(cts_int(buf, 8) == 5 && cts_int(buf, 10) == 6, "values");
    OK(hcq_stream_patch(stream, x, 2));
}

static void
broken(struct cts *t, struct hcq_stream *stream, const char *part)
{
    (void)t;
    FAILS(hcq_stream_end(stream), BELL_E_INVALID, part);
    FAILS(hcq_stream_submit(stream, NULL), BELL_E_INVALID, "failed to build");
    hcq_stream_destroy(stream);
}

static void
wrong_use(struct cts *t)
{
    struct hcq_stream *stream = new_stream(t->queue, "wrong");
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_cs *cs;
    uint32_t p;

    FAILS(hcq_stream_create(NULL, "x", &stream), BELL_E_INVALID, "NULL");
    FAILS(hcq_stream_submit(NULL, NULL), BELL_E_INVALID, "NULL");
    hcq_stream_patch_point(stream, "p");
    CHECK(hcq_stream_patch_point(stream, "p") == HCQ_PATCH_NONE, "twice");
    broken(t, stream, "'p'");
    stream = new_stream(t->queue, "wrong");
    CHECK(hcq_stream_patch_point(stream, "") == HCQ_PATCH_NONE, "no name");
    broken(t, stream, "patch point");
    stream = new_stream(t->queue, "wrong");
    p = hcq_stream_patch_point(stream, "p");
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ADDR, p, 0);
    broken(t, stream, "no field");
    stream = new_stream(t->queue, "wrong");
    p = hcq_stream_patch_point(stream, "p");
    hcq_cs_signal(hcq_stream_cs(stream), sig, 0);
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_SIZE, p, 0);
    broken(t, stream, "no field");
    stream = new_stream(t->queue, "wrong");
    hcq_cs_signal(hcq_stream_cs(stream), sig, 0);
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ADDR, 3, 0);
    broken(t, stream, "no such patch point");
    stream = new_stream(t->queue, "wrong");
    cts_exec(hcq_stream_cs(stream), cts_program(t, CTS_NOP), 1, 0, NULL);
    p = hcq_stream_patch_point(stream, "p");
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG, p, 0);
    broken(t, stream, "no field");
    /* A fresh stream has no patch points. */
    cs = cts_begin(t->queue);
    hcq_cs_signal(cs, sig, 0);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, 0, 0);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "not a bound stream");
    /* Nothing goes into a stream that was ended. */
    stream = new_stream(t->queue, "ended");
    OK(hcq_stream_end(stream));
    hcq_cs_signal(hcq_stream_cs(stream), sig, 77);
    run(stream);
    CHECK(hcq_signal_value(sig) == 0, "emitted after the end");
}

/* Two copies of a stream, patched in turn: the host prepares one while the
 * other runs. */
static void
two_copies(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_VALUES);
    struct hcq_stream *streams[2];
    struct hcq_buffer *buf = cts_buffer(t, 8 * 200);
    uint32_t out = 0, value = 0;
    int64_t seen[200];
    int i;

    for (i = 0; i < 2; i++) {
        streams[i] = new_stream(t->queue, i ? "odd" : "even");
        out = hcq_stream_patch_point(streams[i], "out");
        value = hcq_stream_patch_point(streams[i], "value");
        cts_exec(hcq_stream_cs(streams[i]), prog, 1, ARGS(buf->va, 0, 0, 0));
        hcq_cs_patch(hcq_stream_cs(streams[i]), HCQ_FIELD_ARG, out, 0);
        hcq_cs_patch(hcq_stream_cs(streams[i]), HCQ_FIELD_ARG + 1, value, 0);
        OK(hcq_stream_end(streams[i]));
    }
    for (i = 0; i < 200; i++) {
        struct hcq_stream *stream = streams[i % 2];

        OK(hcq_stream_wait(stream, LONG_NS));
        OK(hcq_stream_patch(stream, out, buf->va + (uint64_t)i * 8));
        OK(hcq_stream_patch(stream, value, (uint64_t)i * i));
        OK(hcq_stream_submit(stream, NULL));
    }
    OK(hcq_queue_wait(t->queue, LONG_NS));
    OK(hcq_buffer_read(buf, 0, seen, sizeof(seen)));
    for (i = 0; i < 200; i++)
        CHECK(seen[i] == (int64_t)i * i, "%d: %lld", i, (long long)seen[i]);
}

const struct cts_case cts_stream_cases[] = {
    {"stream repeated", repeat},
    {"stream of 50000 commands", long_stream},
    {"launches in rows", rows},
    {"launches fresh and bound in turn", in_turn},
    {"stream exec patched", patch_exec},
    {"stream grid patched 216 ways", patch_grid_all},
    {"stream work-group patched 125 ways", patch_group},
    {"stream wait and signal patched", patch_signals},
    {"stream copy, fill, write, poll patched", patch_transfers},
    {"stream fields patched at their borders", patch_borders},
    {"stream copy and fill patched to be large", patch_large_transfers},
    {"stream patch refused", patch_refused},
    {"stream wrong use", wrong_use},
    {"stream in two copies", two_copies},
    {NULL, NULL},
};
