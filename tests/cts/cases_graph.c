/* Graphs: what depends on what, over several queues, with slots in between. */
#include "cts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "hcq/hcq_graph.h"

#define KIB 1024u

static struct hcq_graph *
new_graph_of(struct hcq_queue *const *queues, uint32_t n)
{
    struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "test",
        .queues = queues,
        .n_queues = n,
    };
    struct hcq_graph *graph;

    OK(hcq_graph_create(&desc, &graph));
    return graph;
}

/* With both queues, or the compute queue alone. */
static struct hcq_graph *
new_graph(struct cts *t, bool copies)
{
    return new_graph_of((struct hcq_queue *const[]){t->queue, t->copy},
                        copies ? 2 : 1);
}

static struct hcq_graph_arg
all_of(const struct hcq_buffer *buf, uint32_t access)
{
    return hcq_graph_memory(buf->va, buf->size_bytes, access);
}

/* n ints: to = from + 1. */
static void
add_one(struct hcq_graph *graph, const struct hcq_program *prog,
        struct hcq_graph_arg to, struct hcq_graph_arg from, uint64_t n)
{
    const uint32_t grid[3] = {1, 1, 1};
    struct hcq_graph_arg args[3] = {to, from, hcq_graph_word(n)};

    args[0].access = HCQ_ACCESS_WRITE;
    args[1].access = HCQ_ACCESS_READ;
    hcq_graph_exec(graph, prog, args, 3, grid, NULL);
}

static void
copy(struct hcq_graph *graph, struct hcq_graph_arg to,
     struct hcq_graph_arg from, uint64_t n_bytes)
{
    hcq_graph_copy(graph, NULL, &to, &from, n_bytes);
}

static struct hcq_graph_info
info_of(const struct hcq_graph *graph)
{
    struct hcq_graph_info info = {.struct_size = sizeof(info)};

    hcq_graph_get_info(graph, &info);
    return info;
}

static void
run(struct hcq_graph *graph)
{
    OK(hcq_graph_submit(graph, NULL));
    OK(hcq_graph_wait(graph, LONG_NS));
    CHECK(!hcq_graph_busy(graph), "still busy");
}

static void
repeat(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 16, 0), *b = cts_ints(t, 16, 0);
    struct hcq_graph *graph = new_graph(t, false);
    uint64_t value = 0, i;

    add_one(graph, prog, all_of(b, 0), all_of(a, 0), 16);
    add_one(graph, prog, all_of(a, 0), all_of(b, 0), 16);
    OK(hcq_graph_end(graph));
    CHECK(!hcq_graph_busy(graph), "busy before it ran");
    for (i = 0; i < 500; i++)
        OK(hcq_graph_submit(graph, &value));
    CHECK(value == 500, "%llu", (unsigned long long)value);
    OK(hcq_queue_wait(t->queue, LONG_NS));
    CHECK(cts_int(a, 0) == 1000 && cts_int(a, 15) == 1000, "%d", cts_int(a, 0));
    hcq_graph_destroy(graph);
    hcq_graph_destroy(NULL);
}

/* Values change with each submission while others are in flight. */
static void
slots(struct cts *t)
{
    enum {
        N_BUFS = 4,
        N_RUNS = 60
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_program *values = cts_program(t, CTS_VALUES);
    struct hcq_buffer *bufs[N_BUFS], *result = cts_ints(t, 2, 0);
    struct hcq_graph *graph = new_graph(t, false);
    uint32_t to = hcq_graph_slot(graph, "to", 64);
    uint32_t from = hcq_graph_slot(graph, "from", 64);
    uint32_t word = hcq_graph_slot(graph, "word", 0), i, a, b;
    const uint32_t grid[3] = {1, 1, 1};
    struct hcq_graph_arg args[4] = {
        all_of(result, HCQ_ACCESS_WRITE),
        {HCQ_ACCESS_NONE, word, 7, 0},
        hcq_graph_word(10),
        {HCQ_ACCESS_NONE, word, 0, 0},
    };
    int32_t want[N_BUFS][16], seen[16];
    int64_t sum;
    uint32_t k;

    for (i = 0; i < N_BUFS; i++) {
        bufs[i] = cts_ints(t, 16, (int32_t)i * 100);
        OK(hcq_buffer_read(bufs[i], 0, want[i], sizeof(want[i])));
    }
    CHECK(hcq_graph_find_slot(graph, "from") == from, "another slot");
    CHECK(hcq_graph_find_slot(graph, "of") == HCQ_SLOT_NONE, "a slot");
    add_one(graph, prog, hcq_graph_in_slot(to, 4, 60, 0),
            hcq_graph_in_slot(from, 0, 60, 0), 15);
    hcq_graph_exec(graph, values, args, 4, grid, NULL);
    OK(hcq_graph_end(graph));
    OK(hcq_graph_set(graph, to, bufs[1]->va));
    OK(hcq_graph_set(graph, word, 1));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "no value");
    for (i = 0; i < N_RUNS; i++) {
        a = i * 7 % N_BUFS;
        b = (a + 1 + i % (N_BUFS - 1)) % N_BUFS;
        OK(hcq_graph_set(graph, to, bufs[a]->va));
        OK(hcq_graph_set(graph, from, bufs[b]->va));
        OK(hcq_graph_set(graph, word, i));
        OK(hcq_graph_submit(graph, NULL));
        for (k = 0; k < 15; k++)
            want[a][k + 1] = want[b][k] + 1;
    }
    OK(hcq_graph_wait(graph, LONG_NS));
    OK(hcq_buffer_read(result, 0, &sum, sizeof(sum)));
    CHECK(sum == (N_RUNS - 1 + 7) + 3 * 10 + 5 * (N_RUNS - 1), "%lld",
          (long long)sum);
    for (i = 0; i < N_BUFS; i++) {
        OK(hcq_buffer_read(bufs[i], 0, seen, sizeof(seen)));
        for (k = 0; k < 16; k++)
            CHECK(seen[k] == want[i][k], "int %u of %u is %d, not %d", k, i,
                  seen[k], want[i][k]);
    }
    hcq_graph_destroy(graph);
}

/* A chain over two queues: each command needs the one before it and something
 * can be done meanwhile. */
static void
hazards(struct cts *t)
{
    enum {
        N = 64 * KIB / 4
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, N, 1), *b = cts_ints(t, N, 2);
    struct hcq_buffer *c = cts_ints(t, N, 3), *other = cts_ints(t, N, 4);
    struct hcq_graph *graph = new_graph(t, true);
    struct hcq_graph_info info;
    int i;

    add_one(graph, prog, all_of(a, 0), all_of(a, 0), 8);
    copy(graph, all_of(b, 0), all_of(a, 0), a->size_bytes); /* reads a */
    add_one(graph, prog, all_of(other, 0), all_of(other, 0), 8);
    add_one(graph, prog, all_of(a, 0), all_of(a, 0), 8); /* after the copy */
    copy(graph, all_of(c, 0), all_of(b, 0), b->size_bytes);
    add_one(graph, prog, all_of(other, 0), all_of(other, 0), 8);
    add_one(graph, prog, all_of(c, 0), all_of(c, 0), 8); /* what was copied */
    OK(hcq_graph_end(graph));
    info = info_of(graph);
    CHECK(info.n_commands == 7 && info.n_queues == 2 && info.n_copies == 2,
          "%u commands, %u queues, %u copies", info.n_commands, info.n_queues,
          info.n_copies);
    /* the first kernel, then each copy */
    CHECK(info.n_signals == 3 && info.n_waits == 3, "%u signals, %u waits",
          info.n_signals, info.n_waits);
    for (i = 0; i < 20; i++)
        OK(hcq_graph_submit(graph, NULL));
    OK(hcq_graph_wait(graph, LONG_NS));
    CHECK(cts_int(a, 0) == 41 && cts_int(a, 8) == 1, "%d", cts_int(a, 0));
    CHECK(cts_int(b, 0) == 40 && cts_int(b, N - 1) == 1, "%d", cts_int(b, 0));
    CHECK(cts_int(c, 0) == 41 && cts_int(c, 8) == 1, "%d", cts_int(c, 0));
    CHECK(cts_int(other, 0) == 44, "%d", cts_int(other, 0));
    hcq_graph_destroy(graph);
}

/* Ranges that touch do not conflict, those that share a byte do: then the last
 * kernel but one waits for the first copy. */
static void
borders(struct cts *t)
{
    enum {
        N = 64 * KIB
    };
    static const struct {
        uint32_t kernel; /* its access */
        bool reads;      /* the copy reads there, else it writes */
        int32_t gap;     /* bytes between both; negative: in common */
        uint32_t conflicts;
    } rows[] = {
        {HCQ_ACCESS_WRITE, true, 0, 0},
        {HCQ_ACCESS_WRITE, true, -1, 1},
        {HCQ_ACCESS_WRITE, true, 1, 0},
        {HCQ_ACCESS_READ, false, 0, 0},
        {HCQ_ACCESS_READ, false, -1, 1},
        {HCQ_ACCESS_WRITE, false, 0, 0},
        {HCQ_ACCESS_WRITE, false, -1, 1},
        {HCQ_ACCESS_READ, true, -1, 0},
        {HCQ_ACCESS_READ | HCQ_ACCESS_WRITE, true, -1, 1},
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_buffer(t, 4 * N), *b = cts_buffer(t, N);
    struct hcq_buffer *c = cts_buffer(t, N), *d = cts_buffer(t, N);
    const uint32_t grid[3] = {1, 1, 1};
    uint32_t i;

    for (i = 0; i < 4 * ARRAY_LEN(rows); i++) {
        struct hcq_graph *graph = new_graph(t, true);
        bool is_behind = i % 2, in_slot = i / 2 % 2;
        uint32_t row = i / 4, slot = hcq_graph_slot(graph, "a", 4 * N);
        uint64_t low = in_slot ? N : a->va + N;
        uint64_t high = low + N + (uint64_t)(int64_t)rows[row].gap;
        struct hcq_graph_arg moved = {0, in_slot ? slot : HCQ_SLOT_NONE,
                                      is_behind ? low : high, N};
        struct hcq_graph_arg args[3] = {
            {rows[row].kernel, moved.slot, is_behind ? high : low, N},
            hcq_graph_memory(b->va, 4, HCQ_ACCESS_READ),
            hcq_graph_word(0)};
        struct hcq_graph_info info;

        add_one(graph, prog, all_of(b, 0), all_of(b, 0), 0);
        copy(graph, rows[row].reads ? all_of(c, 0) : moved,
             rows[row].reads ? moved : all_of(c, 0), N);
        add_one(graph, prog, all_of(b, 0), all_of(b, 0), 0);
        hcq_graph_exec(graph, prog, args, 3, grid, NULL);
        copy(graph, all_of(d, 0), all_of(c, 0), N);
        add_one(graph, prog, all_of(b, 0), all_of(b, 0), 0);
        OK(hcq_graph_end(graph));
        info = info_of(graph);
        CHECK(info.n_copies == 2, "%u: %u copies", i, info.n_copies);
        CHECK(info.n_waits == 2 + rows[row].conflicts &&
                  info.n_signals == 2 + rows[row].conflicts,
              "%u: %u waits, %u signals", i, info.n_waits, info.n_signals);
        hcq_graph_destroy(graph);
    }
}

/* ---- any graph ---- */

enum {
    ANY_BUFS = 4,
    ANY_INTS = 3 * 16 * KIB / 4,
    ANY_COMMANDS = 24
};

static uint32_t
below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % n);
}

/* Where a command reads or writes: ints of a buffer, or of the slot that has
 * it. */
struct place {
    uint32_t buf, at;
};

static struct hcq_graph_arg
arg_of(struct hcq_buffer *const *bufs, const uint32_t *slot_of,
       struct place place, uint32_t n, uint32_t access)
{
    uint64_t n_bytes = 4ull * n, at = 4ull * place.at;

    if (slot_of[place.buf] != HCQ_SLOT_NONE)
        return hcq_graph_in_slot(slot_of[place.buf], at, n_bytes, access);
    return hcq_graph_memory(bufs[place.buf]->va + at, n_bytes, access);
}

/* Adds a command and does it to `model`. */
static void
add_any(struct hcq_graph *graph, struct hcq_program *prog,
        struct hcq_buffer *const *bufs, const uint32_t *slot_of,
        uint64_t *state, int32_t *(*model))
{
    uint32_t kind = below(state, 3), k;
    uint32_t n =
        kind == 0 ? 1 + below(state, 40) : 4 * KIB + below(state, 8 * KIB);
    struct place to = {below(state, ANY_BUFS), below(state, ANY_INTS - n)};
    struct place from = {below(state, ANY_BUFS), below(state, ANY_INTS - n)};
    struct hcq_graph_arg dst, src;
    int32_t *x, *y;

    if (to.buf == from.buf) /* no overlap */
        from.buf = (to.buf + 1) % ANY_BUFS;
    dst = arg_of(bufs, slot_of, to, n, HCQ_ACCESS_WRITE);
    src = arg_of(bufs, slot_of, from, n, HCQ_ACCESS_READ);
    x = model[to.buf] + to.at;
    y = model[from.buf] + from.at;
    if (kind == 0)
        add_one(graph, prog, dst, src, n);
    else if (kind == 1)
        copy(graph, dst, src, 4ull * n);
    else
        hcq_graph_fill(graph, NULL, &dst, 77 + to.at, 4ull * n);
    for (k = 0; k < n; k++)
        x[k] = kind == 0 ? y[k] + 1 : kind == 1 ? y[k] : (int32_t)(77 + to.at);
}

/* Random graphs give what their commands give one after the other, submission
 * after submission. */
static void
any(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *bufs[ANY_BUFS];
    int32_t *model[ANY_BUFS], *seen = malloc(4 * ANY_INTS);
    uint32_t seed, i, round, n_copies = 0;

    for (i = 0; i < ANY_BUFS; i++) {
        bufs[i] = cts_ints(t, ANY_INTS, (int32_t)i);
        model[i] = malloc(4 * ANY_INTS);
        OK(hcq_buffer_read(bufs[i], 0, model[i], 4 * ANY_INTS));
    }
    for (seed = 1; seed <= 12; seed++) {
        struct hcq_graph *graph = new_graph(t, seed % 4 != 0);
        uint32_t slot_of[ANY_BUFS], n = 1 + seed * 2;
        uint64_t state;
        char name[16];

        for (i = 0; i < ANY_BUFS; i++) {
            snprintf(name, sizeof(name), "slot %u", i);
            slot_of[i] = seed >> (i % 2 + 1) & 1
                             ? hcq_graph_slot(graph, name, 4 * ANY_INTS)
                             : HCQ_SLOT_NONE;
        }
        state = seed;
        for (i = 0; i < n && i < ANY_COMMANDS; i++)
            add_any(graph, prog, bufs, slot_of, &state, model);
        OK(hcq_graph_end(graph));
        n_copies += info_of(graph).n_copies;
        for (i = 0; i < ANY_BUFS; i++) {
            if (slot_of[i] != HCQ_SLOT_NONE)
                OK(hcq_graph_set(graph, slot_of[i], bufs[i]->va));
        }
        OK(hcq_graph_submit(graph, NULL));
        for (round = 1; round < 3; round++) { /* again, by the model too */
            struct hcq_graph *same = new_graph(t, false);
            uint32_t none[ANY_BUFS] = {HCQ_SLOT_NONE, HCQ_SLOT_NONE,
                                       HCQ_SLOT_NONE, HCQ_SLOT_NONE};
            state = seed;
            for (i = 0; i < n && i < ANY_COMMANDS; i++)
                add_any(same, prog, bufs, none, &state, model);
            hcq_graph_destroy(same);
            OK(hcq_graph_submit(graph, NULL));
        }
        OK(hcq_graph_wait(graph, LONG_NS));
        for (i = 0; i < ANY_BUFS; i++) {
            OK(hcq_buffer_read(bufs[i], 0, seen, 4 * ANY_INTS));
            CHECK(memcmp(seen, model[i], 4 * ANY_INTS) == 0,
                  "seed %u: buffer %u differs", seed, i);
        }
        hcq_graph_destroy(graph);
    }
    CHECK(n_copies > 10, "%u copies on the copy queue", n_copies);
    for (i = 0; i < ANY_BUFS; i++)
        free(model[i]);
    free(seen);
}

/* ---- what is refused ---- */

static void
refusals(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 64, 0), *b = cts_ints(t, 64, 0);
    struct hcq_buffer *c = cts_ints(t, 256, 0);
    struct hcq_graph_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_queue *copies[2] = {t->copy, t->queue};
    struct hcq_queue *twice[2] = {t->queue, t->queue};
    struct hcq_graph *graph;
    uint32_t x, y, n;

    FAILS(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "no queues");
    desc.queues = copies;
    desc.n_queues = 2;
    FAILS(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "queue 0");
    desc.queues = twice;
    FAILS(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "queue 1");
    desc.flags = 2;
    FAILS(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "flags 0x2");
    desc.flags = 0;
    desc.n_queues = 65;
    FAILS(hcq_graph_create(&desc, &graph), BELL_E_INVALID, "at most 64");

#define REFUSES(part, ...)                                                     \
    do {                                                                       \
        graph = new_graph(t, true);                                            \
        x = hcq_graph_slot(graph, "x", 64);                                    \
        n = hcq_graph_slot(graph, "n", 0);                                     \
        __VA_ARGS__;                                                           \
        FAILS(hcq_graph_end(graph), BELL_E_INVALID, part);                     \
        FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "failed");        \
        FAILS(hcq_graph_end(graph), BELL_E_INVALID, "not being built");        \
        hcq_graph_destroy(graph);                                              \
    } while (0)
    REFUSES("taken", hcq_graph_slot(graph, "x", 8));
    REFUSES("empty", hcq_graph_slot(graph, "", 8));
    REFUSES("argument 0", add_one(graph, prog, hcq_graph_in_slot(7, 0, 4, 0),
                                  all_of(a, 0), 1));
    REFUSES("argument 1", add_one(graph, prog, all_of(a, 0),
                                  hcq_graph_in_slot(n, 0, 4, 0), 1));
    REFUSES("argument 0", add_one(graph, prog, hcq_graph_in_slot(x, 61, 4, 0),
                                  all_of(a, 0), 1));
    REFUSES("argument 0",
            add_one(graph, prog, hcq_graph_in_slot(x, UINT64_MAX, 4, 0),
                    all_of(a, 0), 1));
    REFUSES("65 bytes, of 64",
            copy(graph, hcq_graph_in_slot(x, 0, 64, 0), all_of(a, 0), 65));
    REFUSES("patch", hcq_graph_patch(graph, HCQ_FIELD_GRID, n, 0));
    REFUSES("patch", add_one(graph, prog, all_of(a, 0), all_of(b, 0), 1),
            hcq_graph_patch(graph, HCQ_FIELD_GRID, x, 0));
    REFUSES("no field", add_one(graph, prog, all_of(a, 0), all_of(b, 0), 1),
            hcq_graph_patch(graph, HCQ_FIELD_SIZE, n, 0));
    REFUSES("no program", hcq_graph_exec(graph, NULL, NULL, 0,
                                         (const uint32_t[3]){1, 1, 1}, NULL));
    REFUSES("0 arguments given",
            hcq_graph_exec(graph, prog, NULL, 0, (const uint32_t[3]){1, 1, 1},
                           NULL));
#undef REFUSES

    /* what is known when it is submitted */
    graph = new_graph(t, true);
    x = hcq_graph_slot(graph, "x", 64);
    y = hcq_graph_slot(graph, "y", 64);
    n = hcq_graph_slot(graph, "n", 0);
    add_one(graph, prog, hcq_graph_in_slot(x, 0, 64, 0), all_of(a, 0), 4);
    hcq_graph_patch(graph, HCQ_FIELD_GRID, n, 0);
    add_one(graph, prog, all_of(b, 0), hcq_graph_in_slot(y, 0, 64, 0), 4);
    FAILS(hcq_graph_set(graph, x, 1), BELL_E_INVALID, "not built");
    OK(hcq_graph_end(graph));
    FAILS(hcq_graph_set(graph, 3, 1), BELL_E_INVALID, "there is none");
    OK(hcq_graph_set(graph, x, a->va + 192));
    OK(hcq_graph_set(graph, y, c->va));
    OK(hcq_graph_set(graph, n, 1));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "slot 'x'");
    OK(hcq_graph_set(graph, x, c->va + 256));
    OK(hcq_graph_set(graph, y, b->va + b->size_bytes - 1));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "slot 'y'");
    OK(hcq_graph_set(graph, y, c->va + 256 + 63));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "overlap");
    FAILS(hcq_graph_set(graph, y, UINT64_MAX - 3), BELL_E_INVALID, "beyond");
    OK(hcq_graph_set(graph, y, a->va));
    OK(hcq_graph_set(graph, n, 0));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "'n' = 0");
    OK(hcq_graph_set(graph, n, 1));
    run(graph); /* reads may overlap */
    CHECK(cts_int(b, 0) == 1, "%d", cts_int(b, 0));
    hcq_graph_destroy(graph);
}

/* ---- other work ---- */

/* What stands before and behind a submission in the first queue stays there. */
static void
in_turn(struct cts *t)
{
    enum {
        N = 64 * KIB / 4,
        TURNS = CTS_TIMES(40)
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, N, 0), *b = cts_ints(t, N, 0);
    struct hcq_buffer *other = cts_ints(t, 1, 0);
    struct hcq_graph *graph = new_graph(t, true);
    struct hcq_cs *cs;
    int i;

    copy(graph, all_of(b, 0), all_of(a, 0), a->size_bytes);
    add_one(graph, prog, all_of(other, 0), all_of(other, 0), 1);
    OK(hcq_graph_end(graph));
    CHECK(info_of(graph).n_copies == 1, "the copy is not on its queue");
    for (i = 0; i < TURNS; i++) {
        cs = cts_begin(t->queue);
        cts_exec(cs, prog, 1, ARGS(a->va, b->va, N));
        OK(hcq_cs_submit(cs, NULL));
        OK(hcq_graph_submit(graph, NULL));
    }
    cs = cts_begin(t->queue);
    cts_exec(cs, prog, 1, ARGS(a->va, b->va, N));
    cts_finish(t->queue, cs);
    CHECK(cts_int(a, 0) == TURNS + 1 && cts_int(a, N - 1) == TURNS + 1, "%d",
          cts_int(a, 0));
    CHECK(cts_int(other, 0) == TURNS, "%d", cts_int(other, 0));
    hcq_graph_destroy(graph);
}

/* A graph that hangs is told as a queue's work is; recovered, it runs. */
static void
recovers(struct cts *t)
{
    enum {
        N = 64 * KIB / 4
    };
    struct hcq_program *spin = cts_program(t, CTS_SPIN);
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *gate = cts_ints(t, 1, 0), *other = cts_ints(t, 1, 0);
    struct hcq_buffer *a = cts_ints(t, N, 5), *b = cts_ints(t, N, 6);
    struct hcq_graph *graph = new_graph(t, true);
    struct hcq_graph_arg arg = all_of(gate, HCQ_ACCESS_READ);
    const uint32_t grid[3] = {1, 1, 1};

    add_one(graph, prog, all_of(a, 0), all_of(a, 0), N);
    copy(graph, all_of(b, 0), all_of(a, 0), a->size_bytes);
    add_one(graph, prog, all_of(other, 0), all_of(other, 0), 1);
    hcq_graph_exec(graph, spin, &arg, 1, grid, NULL);
    OK(hcq_graph_end(graph));
    OK(hcq_graph_submit(graph, NULL));
    HANGS(hcq_graph_wait(graph, 20 * MS_NS), "graph 'test', after");
    OK(hcq_device_recover(t->dev));
    CHECK(!hcq_graph_busy(graph), "busy after recovering");
    OK(hcq_buffer_write(gate, 0, &(int32_t){1}, 4));
    run(graph);
    run(graph);
    CHECK(cts_int(b, N - 1) == cts_int(a, N - 1), "%d", cts_int(b, N - 1));
    hcq_graph_destroy(graph);
}

/* The copy queue's work changes with each submission, which begins while that
 * queue still ends one. */
static void
changes(struct cts *t)
{
    enum {
        N = 16 * KIB / 4,
        N_BUFS = 3,
        N_RUNS = 200
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *from = cts_ints(t, N, 7), *other = cts_ints(t, 1, 0);
    struct hcq_buffer *bufs[N_BUFS];
    struct hcq_graph *graph = new_graph(t, true);
    uint32_t to = hcq_graph_slot(graph, "to", 4 * N), i;

    for (i = 0; i < N_BUFS; i++)
        bufs[i] = cts_ints(t, N, 0);
    copy(graph, hcq_graph_in_slot(to, 0, 4 * N, 0), all_of(from, 0), 4 * N);
    add_one(graph, prog, all_of(other, 0), all_of(other, 0), 1);
    OK(hcq_graph_end(graph));
    CHECK(info_of(graph).n_copies == 1, "the copy is not on its queue");
    for (i = 0; i < N_RUNS; i++) {
        OK(hcq_graph_set(graph, to, bufs[i % N_BUFS]->va));
        OK(hcq_graph_submit(graph, NULL));
    }
    hcq_graph_destroy(graph); /* in flight */
    for (i = 0; i < N_BUFS; i++)
        CHECK(cts_int(bufs[i], N - 1) == 7, "%d", cts_int(bufs[i], N - 1));
    CHECK(cts_int(other, 0) == N_RUNS, "%d", cts_int(other, 0));
}

/* Sizes are patched up to what the arguments say. */
static void
sizes(struct cts *t)
{
    struct hcq_buffer *a = cts_ints(t, 64, 1), *b = cts_ints(t, 64, 0);
    struct hcq_graph_arg to = hcq_graph_memory(b->va, 128, 0);
    struct hcq_graph_arg from = all_of(a, 0);
    struct hcq_graph *graph = new_graph(t, false);
    uint32_t n = hcq_graph_slot(graph, "n", 0);

    copy(graph, to, from, 4);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, n, 8);
    OK(hcq_graph_end(graph));
    FAILS(hcq_graph_set(graph, n, 121), BELL_E_INVALID, "at most 120");
    OK(hcq_graph_set(graph, n, 32));
    run(graph);
    CHECK(cts_int(b, 9) == 1 && cts_int(b, 10) == 0, "%d", cts_int(b, 10));
    OK(hcq_graph_set(graph, n, 120));
    run(graph);
    CHECK(cts_int(b, 31) == 1 && cts_int(b, 32) == 0, "%d", cts_int(b, 32));
    hcq_graph_destroy(graph);
    graph = new_graph(t, false);
    n = hcq_graph_slot(graph, "n", 0);
    copy(graph, to, from, 4);
    hcq_graph_patch(graph, HCQ_FIELD_SIZE, n, 129);
    FAILS(hcq_graph_end(graph), BELL_E_INVALID, "129 bytes");
    hcq_graph_destroy(graph);
}

/* ---- several devices ---- */

/* A second device with its queues, and memory of the host that both reach. */
struct pair {
    struct hcq_device *dev;
    struct hcq_queue *queues[3]; /* the first device's, then the other's two */
    struct hcq_program *prog, *prog2;
    struct hcq_buffer *a, *b; /* of each */
    struct hcq_buffer *mine, *its;
    int32_t *host;
};

enum {
    PAIR_INTS = 1024
};

static void
open_pair(struct cts *t, struct pair *p)
{
    static _Alignas(4096) int32_t host[PAIR_INTS];
    const char *at = strchr(t->device, '@');
    char name[160];

    snprintf(name, sizeof(name), "%s:1%s", t->info.backend, at ? at : "");
    if (t->info.flags & HCQ_DEVICE_HOST_MEMORY) /* twice the same will do */
        snprintf(name, sizeof(name), "%s", t->device);
    if (hcq_device_open(name, &p->dev) == BELL_E_NO_DEVICE)
        cts_skip("there is no %s", name);
    OK(hcq_device_status(p->dev));
    p->queues[0] = t->queue;
    OK(hcq_queue_create(p->dev, HCQ_QUEUE_COMPUTE, &p->queues[1]));
    OK(hcq_queue_create(p->dev, HCQ_QUEUE_COPY, &p->queues[2]));
    p->prog = cts_program(t, CTS_ADD_ONE);
    p->prog2 = cts_load(t, p->dev, CTS_ADD_ONE, 0);
    memset(host, 0, sizeof(host));
    p->host = host;
    p->a = cts_ints(t, PAIR_INTS, 0);
    OK(hcq_buffer_create(p->dev, sizeof(host), 0, &p->b));
    OK(hcq_buffer_write(p->b, 0, host, sizeof(host)));
    p->mine = cts_pin(t->dev, host, sizeof(host));
    p->its = cts_pin(p->dev, host, sizeof(host));
}

static void
close_pair(struct pair *p)
{
    hcq_buffer_destroy(p->its);
    hcq_device_close(p->dev);
    hcq_buffer_destroy(p->mine);
}

/* One adds 1 to a and hands it to the other, which adds 1 and hands it back. */
static struct hcq_graph *
pair_graph(struct pair *p, struct hcq_program *spin, struct hcq_buffer *gate)
{
    struct hcq_graph *graph = new_graph_of(p->queues, 3);
    struct hcq_graph_arg a = all_of(p->a, 0), b = all_of(p->b, 0);
    struct hcq_graph_arg mine = all_of(p->mine, 0), its = all_of(p->its, 0);
    uint64_t n = sizeof(int32_t) * PAIR_INTS;

    add_one(graph, p->prog, a, a, PAIR_INTS);
    hcq_graph_copy(graph, NULL, &mine, &a, n);
    hcq_graph_copy(graph, p->dev, &b, &its, n);
    if (spin) {
        struct hcq_graph_arg arg = all_of(gate, HCQ_ACCESS_READ);
        hcq_graph_exec(graph, spin, &arg, 1, (const uint32_t[3]){1, 1, 1},
                       NULL);
    }
    add_one(graph, p->prog2, b, b, PAIR_INTS);
    hcq_graph_copy(graph, p->dev, &its, &b, n);
    hcq_graph_copy(graph, NULL, &a, &mine, n);
    OK(hcq_graph_end(graph));
    return graph;
}

static void
two_devices(struct cts *t)
{
    struct pair p;
    struct hcq_graph *graph;
    struct hcq_graph_info info;
    uint32_t slot, i;

    open_pair(t, &p);
    graph = pair_graph(&p, NULL, NULL);
    info = info_of(graph);
    CHECK(info.n_queues == 2 && info.n_signals == 2 && info.n_waits == 2,
          "%u queues, %u signals, %u waits", info.n_queues, info.n_signals,
          info.n_waits);
    for (i = 0; i < 10; i++)
        OK(hcq_graph_submit(graph, NULL));
    OK(hcq_graph_wait(graph, LONG_NS));
    CHECK(cts_int(p.a, PAIR_INTS - 1) == 20, "%d", cts_int(p.a, PAIR_INTS - 1));
    hcq_graph_destroy(graph);
    graph = new_graph_of(p.queues, 3);
    slot = hcq_graph_slot(graph, "both", 4);
    add_one(graph, p.prog, hcq_graph_in_slot(slot, 0, 4, 0), all_of(p.a, 0), 1);
    add_one(graph, p.prog2, all_of(p.b, 0), hcq_graph_in_slot(slot, 0, 4, 0),
            1);
    FAILS(hcq_graph_end(graph), BELL_E_INVALID, "'both' is used on");
    hcq_graph_destroy(graph);
    graph = new_graph_of(p.queues, 1);
    add_one(graph, p.prog2, all_of(p.b, 0), all_of(p.b, 0), 1);
    FAILS(hcq_graph_end(graph), BELL_E_INVALID, "no compute queue");
    hcq_graph_destroy(graph);
    /* Slots of two devices may have the same address. */
    graph = new_graph_of(p.queues, 3);
    slot = hcq_graph_slot(graph, "mine", 4);
    add_one(graph, p.prog, hcq_graph_in_slot(slot, 0, 4, 0), all_of(p.a, 0), 1);
    slot = hcq_graph_slot(graph, "its", 4);
    add_one(graph, p.prog2, hcq_graph_in_slot(slot, 0, 4, 0), all_of(p.b, 0),
            1);
    OK(hcq_graph_end(graph));
    OK(hcq_graph_set(graph, 0, p.mine->va));
    OK(hcq_graph_set(graph, 1, p.its->va));
    run(graph);
    hcq_graph_destroy(graph);
    close_pair(&p);
}

/* The work of the one does not wait for that of the other with memory of its
 * own: the other hangs meanwhile. Then they share memory, by two addresses. */
static void
two_apart(struct cts *t)
{
    struct hcq_program *spin = cts_program(t, CTS_SPIN);
    struct hcq_buffer *gate = cts_ints(t, 1, 0);
    struct hcq_graph_arg arg = all_of(gate, HCQ_ACCESS_READ);
    const uint32_t grid[3] = {1, 1, 1};
    struct pair p;
    struct hcq_signal *timeline;
    struct hcq_graph *graph;
    struct hcq_graph_info info;
    uint64_t value;
    uint32_t i;

    open_pair(t, &p);
    timeline = hcq_queue_timeline(p.queues[1]);
    value = hcq_signal_value(timeline);
    graph = new_graph_of(p.queues, 3);
    hcq_graph_exec(graph, spin, &arg, 1, grid, NULL);
    add_one(graph, p.prog, all_of(p.a, 0), all_of(p.a, 0), PAIR_INTS);
    add_one(graph, p.prog2, all_of(p.b, 0), all_of(p.b, 0), PAIR_INTS);
    OK(hcq_graph_end(graph));
    info = info_of(graph);
    CHECK(info.n_queues == 2 && info.n_signals == 2 && info.n_waits == 2,
          "%u queues, %u signals, %u waits", info.n_queues, info.n_signals,
          info.n_waits);
    OK(hcq_graph_submit(graph, NULL));
    OK(hcq_signal_wait(timeline, value + 1, LONG_NS));
    CHECK(cts_int(p.b, PAIR_INTS - 1) == 1, "%d", cts_int(p.b, PAIR_INTS - 1));
    HANGS(hcq_graph_wait(graph, 40 * MS_NS), "graph 'test', after");
    OK(hcq_device_recover(t->dev));
    hcq_graph_destroy(graph);

    graph = new_graph_of(p.queues, 3);
    for (i = 0; i < 2; i++) {
        add_one(graph, p.prog, all_of(p.mine, 0), all_of(p.a, 0), PAIR_INTS);
        add_one(graph, p.prog2, all_of(p.its, 0), all_of(p.b, 0), PAIR_INTS);
    }
    OK(hcq_graph_end(graph));
    info = info_of(graph);
    CHECK(info.n_signals == 4 && info.n_waits == 4, "%u signals, %u waits",
          info.n_signals, info.n_waits);
    hcq_graph_destroy(graph);
    close_pair(&p);
}

/* The second device hangs and is recovered, which drops what it had; the first
 * is not kept waiting for that. Then it is lost: told so, and the first goes on
 * again. */
static void
one_is_lost(struct cts *t)
{
    struct pair p;
    struct hcq_program *spin, *fault;
    struct hcq_buffer *gate;
    struct hcq_graph *graph;
    struct hcq_graph_arg bad =
        hcq_graph_memory(0x123456789000ull, 4, HCQ_ACCESS_READ);
    struct hcq_graph_arg args[3];
    const uint32_t grid[3] = {1, 1, 1};
    struct hcq_cs *cs;

    if (CTS_TSAN)
        cts_skip("faults are not for the thread sanitizer");
    open_pair(t, &p);
    spin = cts_load(t, p.dev, CTS_SPIN, 0);
    OK(hcq_buffer_create(p.dev, 4, 0, &gate));
    OK(hcq_buffer_write(gate, 0, &(int32_t){0}, 4));
    graph = pair_graph(&p, spin, gate);
    OK(hcq_graph_submit(graph, NULL));
    HANGS(hcq_graph_wait(graph, 40 * MS_NS), "graph 'test', after");
    OK(hcq_device_recover(p.dev));
    OK(hcq_graph_wait(graph, LONG_NS));
    OK(hcq_buffer_write(gate, 0, &(int32_t){1}, 4));
    OK(hcq_buffer_write(p.a, 0, &(int32_t){10}, 4));
    run(graph);
    CHECK(cts_int(p.a, 0) == 12, "%d", cts_int(p.a, 0));
    hcq_graph_destroy(graph);

    fault = p.prog2;
    graph = new_graph_of(p.queues, 3);
    args[0] = all_of(p.b, HCQ_ACCESS_WRITE);
    args[1] = bad;
    args[2] = hcq_graph_word(1);
    hcq_graph_exec(graph, fault, args, 3, grid, NULL);
    add_one(graph, p.prog, all_of(p.a, 0), all_of(p.a, 0), 1);
    OK(hcq_graph_end(graph));
    OK(hcq_graph_submit(graph, NULL));
    FAILS(hcq_graph_wait(graph, LONG_NS), BELL_E_DEVICE_LOST, "");
    OK(hcq_queue_wait(t->queue, LONG_NS));
    OK(hcq_device_status(t->dev));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_DEVICE_LOST, "");
    cs = cts_begin(t->queue); /* which has nothing of it */
    cts_finish(t->queue, cs);
    RECOVER(p.dev);
    FAILS(hcq_graph_submit(graph, NULL) ? BELL_E_INVALID
                                        : hcq_graph_wait(graph, LONG_NS),
          BELL_E_DEVICE_LOST, "");
    hcq_graph_destroy(graph);
    close_pair(&p);
}

/* The copy queue has no room for its part: what the other has got ends. */
static void
half(struct cts *t)
{
    enum {
        N = 64 * KIB / 4
    };
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COPY,
        .ring_size_bytes = 4096,
        .submit_timeout_ns = 20 * MS_NS,
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, N, 0), *b = cts_ints(t, N, 0);
    struct hcq_buffer *other = cts_ints(t, 1, 0);
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_queue *queues[2] = {t->queue, NULL};
    struct hcq_stream *filler;
    struct hcq_graph *graph;
    struct hcq_cs *cs;
    bell_status status;

    OK(hcq_queue_create_with(t->dev, &desc, &queues[1]));
    graph = new_graph_of(queues, 2);
    copy(graph, all_of(b, 0), all_of(a, 0), a->size_bytes);
    add_one(graph, prog, all_of(other, 0), all_of(other, 0), 1);
    OK(hcq_graph_end(graph));
    run(graph);
    cs = cts_begin(queues[1]);
    hcq_cs_wait(cs, sig, 1);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_stream_create(queues[1], "filler", &filler));
    OK(hcq_stream_end(filler));
    do /* of what is smallest, until nothing fits */
        status = hcq_stream_submit(filler, NULL);
    while (status == BELL_OK);
    CHECK(status == BELL_E_TIMEOUT, "%s", bell_error_last()->message);
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_TIMEOUT, "has its part on");
    OK(hcq_queue_wait(t->queue, LONG_NS));
    CHECK(cts_int(other, 0) == 2, "%d", cts_int(other, 0));
    FAILS(hcq_graph_submit(graph, NULL), BELL_E_INVALID, "failed");
    OK(hcq_graph_wait(graph, LONG_NS));
    hcq_graph_destroy(graph);
    hcq_signal_set(sig, 1);
    OK(hcq_queue_wait(queues[1], LONG_NS));
    hcq_queue_destroy(queues[1]);
}

/* Two graphs on the same queues, submitted in turn. */
static void
two_graphs(struct cts *t)
{
    enum {
        N = 64 * KIB / 4
    };
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *bufs[4];
    struct hcq_graph *graphs[2];
    uint32_t mask = log_mask, i;

    for (i = 0; i < 4; i++)
        bufs[i] = cts_ints(t, N, 0);
    for (i = 0; i < 2; i++) {
        graphs[i] = new_graph(t, true);
        copy(graphs[i], all_of(bufs[1 - i], 0), all_of(bufs[i], 0), 4 * N);
        add_one(graphs[i], prog, all_of(bufs[2 + i], 0), all_of(bufs[2 + i], 0),
                1);
        add_one(graphs[i], prog, all_of(bufs[1 - i], 0), all_of(bufs[1 - i], 0),
                1);
        OK(hcq_graph_end(graphs[i]));
    }
    for (i = 0; i < 40; i++) {
        if (i == 36) /* each is waited for, as a whole */
            log_mask |= LOG_SYNC;
        OK(hcq_graph_submit(graphs[i % 2], NULL));
    }
    log_mask = mask;
    CHECK(!hcq_graph_busy(graphs[1]), "busy in spite of BELL_DEBUG=sync");
    CHECK(cts_int(bufs[0], 0) == 40 && cts_int(bufs[1], 0) == 39, "%d",
          cts_int(bufs[0], 0));
    hcq_graph_destroy(graphs[0]);
    hcq_graph_destroy(graphs[1]);
}

const struct cts_case cts_graph_cases[] = {
    {"graph repeat", repeat},
    {"graph slots", slots},
    {"graph hazards", hazards},
    {"graph borders", borders},
    {"graph any", any},
    {"graph refusals", refusals},
    {"graph in turn", in_turn},
    {"graph recovers", recovers},
    {"graph changes on two queues", changes},
    {"graph sizes", sizes},
    {"graph two devices", two_devices},
    {"graph two devices apart", two_apart},
    {"graph one of two devices lost", one_is_lost, true},
    {"graph half submitted", half},
    {"graph two at once", two_graphs},
    {NULL, NULL},
};
