/* Programs: loading, arguments, grids, visibility, timestamps. */
#include "cts.h"

#include <stdio.h>
#include <time.h>

static void
one(struct cts *t)
{
    struct hcq_buffer *in = cts_ints(t, 100, 41), *out = cts_ints(t, 100, 0);
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_cs *cs = cts_begin(t->queue);

    cts_exec(cs, prog, 10, ARGS(out->va, in->va, 9));
    cts_finish(t->queue, cs);
    CHECK(cts_int(out, 0) == 42 && cts_int(out, 89) == 42, "%d",
          cts_int(out, 0));
    CHECK(cts_int(out, 90) == 0, "wrote outside");
    hcq_program_destroy(prog);
    hcq_program_destroy(NULL);
}

static void
ping_pong_100(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 64, 0), *b = cts_ints(t, 64, 0);
    int i, grid;

    for (grid = 1; grid <= 64; grid *= 64) {
        uint64_t n = 64u / (unsigned)grid;

        for (i = 0; i < 100; i++) {
            struct hcq_cs *cs = cts_begin(t->queue);

            cts_exec(cs, prog, (uint32_t)grid, ARGS(b->va, a->va, n));
            cts_exec(cs, prog, (uint32_t)grid, ARGS(a->va, b->va, n));
            OK(hcq_cs_submit(cs, NULL));
        }
        OK(hcq_queue_wait(t->queue, LONG_NS));
    }
    CHECK(cts_int(a, 0) == 400 && cts_int(a, 63) == 400, "%d", cts_int(a, 0));
}

/* Launches of one submission that each read what the one before wrote, over and
 * over the same two buffers: nothing that was read earlier may be used
 * again. */
static void
chain_of_100(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *a = cts_ints(t, 64, 0), *b = cts_ints(t, 64, 0);
    int i, grid, want = 0;

    for (grid = 1; grid <= 64; grid *= 8) {
        uint64_t n = 64u / (unsigned)grid;
        struct hcq_cs *cs = cts_begin(t->queue);

        for (i = 0; i < 50; i++) {
            cts_exec(cs, prog, (uint32_t)grid, ARGS(b->va, a->va, n));
            cts_exec(cs, prog, (uint32_t)grid, ARGS(a->va, b->va, n));
        }
        cts_finish(t->queue, cs);
        want += 100;
        for (i = 0; i < 64; i++)
            CHECK(cts_int(a, (uint64_t)i) == want,
                  "%d groups: element %d is %d, not %d", grid, i,
                  cts_int(a, (uint64_t)i), want);
    }
}

static void
grids(struct cts *t)
{
    static const uint32_t shapes[][3] = {
        {1, 1, 1},  {2, 1, 1},    {1, 2, 1},    {1, 1, 2},   {3, 5, 7},
        {17, 1, 3}, {1, 1000, 1}, {1, 1, 1000}, {64, 33, 2}, {65535, 1, 1},
    };
    struct hcq_program *prog = cts_program(t, CTS_IDS);
    size_t s;

    for (s = 0; s < ARRAY_LEN(shapes); s++) {
        const uint32_t *g = shapes[s];
        uint64_t n = (uint64_t)g[0] * g[1] * g[2], i;
        struct hcq_buffer *buf = cts_ints(t, n + 1, 0);
        struct hcq_cs *cs = cts_begin(t->queue);
        static int32_t seen[65536];

        hcq_cs_exec(cs, prog, &buf->va, 1, g, NULL);
        cts_finish(t->queue, cs);
        OK(hcq_buffer_read(buf, 0, seen, (n + 1) * 4));
        for (i = 0; i < n; i++) {
            uint64_t x = i % g[0], y = i / g[0] % g[1], z = i / g[0] / g[1];
            CHECK(seen[i] == (int32_t)(x + 1000 * y + 1000000 * z + 1),
                  "%ux%ux%u group %d: %d", g[0], g[1], g[2], (int)i, seen[i]);
        }
        CHECK(seen[n] == 0, "wrote outside");
        hcq_buffer_destroy(buf);
    }
}

/* Every group of a large grid runs exactly once, again and again. */
static void
grid_exactly_once(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    static int32_t seen[120000]; /* more than the grid writes */
    struct hcq_buffer *buf = cts_ints(t, ARRAY_LEN(seen), 0);
    /* A simulated card takes a second for ten; with sanitizers, many. */
    bool slow = (t->info.flags & HCQ_DEVICE_SIMULATED) != 0;
    int32_t n = !slow ? 100 : CTS_ASAN || CTS_TSAN ? 3 : 10;
    uint32_t n_groups =
        t->info.max_grid[0] < 100003 ? t->info.max_grid[0] : 100003;
    uint32_t i;

    for (i = 0; i < (uint32_t)n; i++) {
        struct hcq_cs *cs = cts_begin(t->queue);

        cts_exec(cs, prog, n_groups, ARGS(buf->va, buf->va, 1));
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_queue_wait(t->queue, LONG_NS));
    OK(hcq_buffer_read(buf, 0, seen, sizeof(seen)));
    for (i = 0; i < ARRAY_LEN(seen); i++)
        CHECK(seen[i] == (i < n_groups ? n : 0), "group %u ran %d times", i,
              seen[i]);
}

/* Work-groups of every shape that the device takes: each item once, with its
 * place in the group. */
static void
items(struct cts *t)
{
    static const uint32_t shapes[][3] = {
        {1, 1, 1},  {2, 1, 1},  {31, 1, 1},  {32, 1, 1},   {33, 1, 1},
        {7, 5, 3},  {1, 64, 1}, {1, 1, 64},  {64, 2, 2},   {256, 1, 1},
        {8, 16, 2}, {3, 1, 41}, {1, 333, 1}, {1024, 1, 1}, {32, 32, 1},
    };
    static const uint32_t grid[3] = {3, 2, 2};
    struct hcq_program *prog = cts_program(t, CTS_ITEMS);
    static int32_t seen[12 * 1024 + 1];
    size_t s;

    for (s = 0; s < ARRAY_LEN(shapes); s++) {
        const uint32_t *l = shapes[s];
        uint32_t per_group = l[0] * l[1] * l[2], n = 12 * per_group, i;
        struct hcq_buffer *buf;
        struct hcq_cs *cs;

        if (per_group > t->info.max_local_total ||
            l[0] > t->info.max_local[0] || l[1] > t->info.max_local[1] ||
            l[2] > t->info.max_local[2])
            continue;
        buf = cts_ints(t, n + 1, 0);
        cs = cts_begin(t->queue);
        hcq_cs_exec(cs, prog, &buf->va, 1, grid, l);
        cts_finish(t->queue, cs);
        OK(hcq_buffer_read(buf, 0, seen, (n + 1) * 4));
        for (i = 0; i < n; i++) {
            uint32_t k = i % per_group, x = k % l[0], y = k / l[0] % l[1];
            uint32_t want = x + 1000 * y + 1000000 * (k / l[0] / l[1]) + 1;
            CHECK((uint32_t)seen[i] == want, "%ux%ux%u item %u: %d, not %u",
                  l[0], l[1], l[2], i, seen[i], want);
        }
        CHECK(seen[n] == 0, "wrote outside");
        hcq_buffer_destroy(buf);
    }
}

/* Items of a group exchange values through shared memory. */
static void
shared_memory(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_REVERSE);
    struct hcq_buffer *in = cts_buffer(t, 128 * 100 * 4);
    struct hcq_buffer *out = cts_ints(t, 128 * 100 + 1, -1);
    static int32_t data[128 * 100 + 1];
    uint32_t i, round;

    for (round = 0; round < 5; round++) {
        struct hcq_cs *cs = cts_begin(t->queue);

        for (i = 0; i < 128 * 100; i++)
            data[i] = (int32_t)(i * 3 + round);
        OK(hcq_buffer_write(in, 0, data, 128 * 100 * 4));
        cts_exec(cs, prog, 100, ARGS(out->va, in->va));
        cts_exec(cs, prog, 100, ARGS(in->va, out->va));
        cts_exec(cs, prog, 100, ARGS(out->va, in->va));
        cts_finish(t->queue, cs);
        OK(hcq_buffer_read(out, 0, data, sizeof(data)));
        for (i = 0; i < 128 * 100; i++)
            CHECK(data[i] == (int32_t)((i ^ 127) * 3 + round), "%u: %d", i,
                  data[i]);
        CHECK(data[128 * 100] == -1, "wrote outside");
    }
}

/* Much of it, given at launch. */
static void
dynamic_shared_memory(struct cts *t)
{
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    int32_t seen[64 * 8];
    int i;

    if (t->info.max_shared_bytes < 64 << 10)
        cts_skip("%u bytes of shared memory", t->info.max_shared_bytes);
    prog = cts_program(t, CTS_DYNAMIC);
    buf = cts_ints(t, 64 * 8, -1);
    cs = cts_begin(t->queue);
    cts_exec(cs, prog, 8, ARGS(buf->va));
    cts_finish(t->queue, cs);
    OK(hcq_buffer_read(buf, 0, seen, sizeof(seen)));
    for (i = 0; i < 64 * 8; i++)
        CHECK(seen[i] == (i & ~63) + (i + 1) % 64, "%d: %d", i, seen[i]);
}

static void
atomics(struct cts *t)
{
    static const uint32_t grid[3] = {40, 5, 1}, local[3] = {100, 1, 1};
    struct hcq_program *prog = cts_program(t, CTS_COUNT);
    struct hcq_buffer *buf = cts_ints(t, 3, 0);
    struct hcq_cs *cs = cts_begin(t->queue);

    hcq_cs_exec(cs, prog, &buf->va, 1, grid, local);
    hcq_cs_exec(cs, prog, &buf->va, 1, grid, local);
    cts_finish(t->queue, cs);
    CHECK(cts_int(buf, 0) == 400 * 5050, "%d", cts_int(buf, 0));
    CHECK(cts_int(buf, 1) == 400 * 100, "%d", cts_int(buf, 1));
    CHECK(cts_int(buf, 2) == 400 * 100 - 1, "%d", cts_int(buf, 2));
}

static void
arguments(struct cts *t)
{
    struct hcq_program *values = cts_program(t, CTS_VALUES);
    struct hcq_buffer *buf = cts_buffer(t, 8);
    uint64_t args[HCQ_ARGS_MAX] = {buf->va};
    struct hcq_cs *cs = cts_begin(t->queue);
    int64_t seen, want = 0;
    uint32_t i;

    cts_exec(cs, values, 1,
             ARGS(buf->va, (uint64_t)-7, 1ull << 40, (uint64_t)-1));
    cts_finish(t->queue, cs);
    OK(hcq_buffer_read(buf, 0, &seen, 8));
    CHECK(seen == -7 + 3 * (1ll << 40) - 5, "%lld", (long long)seen);

    if (t->info.max_args < HCQ_ARGS_MAX)
        cts_skip("%u arguments are the limit", t->info.max_args);
    for (i = 1; i < HCQ_ARGS_MAX; i++) {
        args[i] = i * 1000003ull;
        want += (int64_t)i * (int64_t)args[i];
    }
    cs = cts_begin(t->queue);
    cts_exec(cs, cts_program(t, CTS_MANY), 1, HCQ_ARGS_MAX, args);
    memset(args, 0, sizeof(args)); /* they were copied */
    cts_finish(t->queue, cs);
    OK(hcq_buffer_read(buf, 0, &seen, 8));
    CHECK(seen == want, "%lld, not %lld", (long long)seen, (long long)want);
}

static void
sections(struct cts *t)
{
    static const int32_t want[7] = {49, 41, 9, 42, 0, 32, -1};
    unsigned v, i, n = t->provider ? t->provider->n_variants : 1;

    for (v = 0; v < n; v++) {
        struct hcq_program *prog = cts_load(t, t->dev, CTS_SECTIONS, v);
        struct hcq_program *again = cts_load(t, t->dev, CTS_SECTIONS, v);
        struct hcq_buffer *buf = cts_ints(t, 7, 0);
        struct hcq_cs *cs = cts_begin(t->queue);

        cts_exec(cs, prog, 1, ARGS(buf->va));
        cts_finish(t->queue, cs);
        for (i = 0; i < 7; i++)
            CHECK(cts_int(buf, i) == want[i], "variant %u, %u: %d", v, i,
                  cts_int(buf, i));
        /* Data of a program lives as long as it does, and is its own. */
        cs = cts_begin(t->queue);
        cts_exec(cs, prog, 1, ARGS(buf->va));
        cts_finish(t->queue, cs);
        CHECK(cts_int(buf, 4) == 1, "%d", cts_int(buf, 4));
        cs = cts_begin(t->queue);
        cts_exec(cs, again, 1, ARGS(buf->va));
        cts_finish(t->queue, cs);
        CHECK(cts_int(buf, 4) == 0, "%d", cts_int(buf, 4));
        hcq_program_destroy(prog);
        hcq_program_destroy(again);
    }
}

/* Programs that lie where others ran before, of which the instruction caches
 * may still have something: all queues run the new one. */
static void
code_at_an_old_address(struct cts *t)
{
    struct hcq_buffer *in = cts_ints(t, 8, 6), *out = cts_ints(t, 8, 0);
    struct hcq_queue *queues[3] = {t->queue};
    uint64_t before[2] = {0, 0};
    unsigned i, q, n_reused = 0;

    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queues[1]));
    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queues[2]));
    for (i = 0; i < 12; i++) {
        bool adds = i & 1;
        struct hcq_program *prog =
            cts_program(t, adds ? CTS_ADD_ONE : CTS_VALUES);

        n_reused += i && prog->code_va == before[!adds];
        before[adds] = prog->code_va;
        for (q = 0; q < 3; q++) {
            struct hcq_cs *cs;

            /* In the end, a queue that has not run for some time. */
            if (q == 2 && i < 10)
                continue;
            cs = cts_begin(queues[q]);
            if (adds)
                cts_exec(cs, prog, 1, ARGS(out->va, in->va, 1));
            else
                cts_exec(cs, prog, 1, ARGS(out->va, 30, 5, 0));
            cts_finish(queues[q], cs);
            CHECK(cts_int(out, 0) == (adds ? 7 : 45), "round %u, queue %u: %d",
                  i, q, cts_int(out, 0));
        }
        hcq_program_destroy(prog);
    }
    /* Where addresses are the driver's to give, they come again. */
    CHECK(n_reused || (t->info.flags & HCQ_DEVICE_HOST_MEMORY),
          "no program lay where another one had");
    hcq_queue_destroy(queues[2]);
    hcq_queue_destroy(queues[1]);
}

static void
stack(struct cts *t)
{
    struct hcq_buffer *buf = cts_ints(t, 1, 0);
    struct hcq_cs *cs = cts_begin(t->queue);

    cts_exec(cs, cts_program(t, CTS_STACK), 1, ARGS(buf->va));
    cts_finish(t->queue, cs);
    CHECK(cts_int(buf, 0) == 49152, "%d", cts_int(buf, 0));
}

static void
bad_programs(struct cts *t)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_program *prog;
    struct cts_bad bad;
    unsigned i;

    FAILS(hcq_program_create(t->dev, NULL, &prog), BELL_E_INVALID, "NULL");
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID, "name");
    desc.name = "cts_bad";
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID,
          "'cts_bad': no binary");
    if (!t->provider || !t->provider->find(CTS_NOP, 0, &desc))
        cts_skip("no kernels");
    desc.n_bufs = HCQ_ARGS_MAX;
    desc.n_vals = 1;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID,
          "arguments");
    desc.n_bufs = UINT32_MAX;
    desc.n_vals = 2;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID,
          "arguments");
    desc.n_bufs = desc.n_vals = 0;
    desc.local[0] = t->info.max_local[0] + 1;
    desc.local[1] = desc.local[2] = 1;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID, "local");
    desc.local[0] = 1;
    desc.shared_bytes = t->info.max_shared_bytes + 1;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID, "shared");
    desc.shared_bytes = 0;
    desc.struct_size = 8;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID,
          "descriptor");
    desc.struct_size = sizeof(desc);
    for (i = 0; t->provider->bad(i, &bad); i++) {
        desc.binary = bad.data;
        desc.binary_size_bytes = bad.size_bytes;
        desc.entry = bad.entry;
        FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID,
              bad.expect);
    }
    CHECK(i >= (cts_may_lack(t->dev, CTS_SIMPLE_OBJECTS) ? 2 : 8),
          "%u bad binaries", i);
}

/* One wrong launch: the queue refuses it and goes on. */
static void
refuse_exec(struct cts *t, const struct hcq_program *prog, uint32_t n_args,
            const uint32_t grid[3], const uint32_t local[3], const char *part)
{
    const uint64_t args[8] = {0};
    struct hcq_cs *cs = cts_begin(t->queue);

    hcq_cs_exec(cs, prog, args, n_args, grid, local);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, part);
}

static void
bad_launches(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    static const uint32_t one_group[3] = {1, 1, 1};
    uint32_t size[3];
    struct hcq_cs *cs;
    int i;

    refuse_exec(t, NULL, 3, one_group, NULL, "program is NULL");
    refuse_exec(t, prog, 3, NULL, NULL, "grid is NULL");
    refuse_exec(t, prog, 2, one_group, NULL, "2 arguments given");
    refuse_exec(t, prog, 4, one_group, NULL, "4 arguments given");
    for (i = 0; i < 3; i++) {
        memcpy(size, one_group, sizeof(size));
        size[i] = 0;
        refuse_exec(t, prog, 3, size, NULL, "with grid");
        refuse_exec(t, prog, 3, one_group, size, "local size");
        if (t->info.max_grid[i] < UINT32_MAX) {
            size[i] = t->info.max_grid[i] + 1;
            refuse_exec(t, prog, 3, size, NULL, "with grid");
        }
        size[i] = 2; /* the program's is 1 */
        refuse_exec(t, prog, 3, one_group, size, "local size");
    }
    cs = cts_begin(t->queue);
    hcq_cs_exec(cs, prog, NULL, 3, one_group, NULL);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "argument list is NULL");
    cs = cts_begin(t->copy);
    cts_exec(cs, cts_program(t, CTS_NOP), 1, 0, NULL);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "copy queue");
}

/* Work-groups and shared memory beyond what the device or the program has. */
static void
too_much(struct cts *t)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "cts_reverse",
        .n_bufs = 2,
        .local = {128, 1, 1},
    };
    static const uint32_t one_group[3] = {1, 1, 1};
    const uint32_t *max = t->info.max_local;
    struct hcq_program *items = cts_program(t, CTS_ITEMS), *prog;
    uint32_t i;

    for (i = 0; i < 3; i++) {
        uint32_t local[3] = {1, 1, 1};

        local[i] = max[i] + 1;
        refuse_exec(t, items, 1, one_group, local, "local size");
    }
    if ((uint64_t)max[0] * max[1] > t->info.max_local_total)
        refuse_exec(t, items, 1, one_group, (uint32_t[]){max[0], max[1], 1},
                    "work-items");
    if (!t->provider->find(CTS_REVERSE, 0, &desc))
        return;
    /* It has 512 bytes of its own. */
    desc.shared_bytes = t->info.max_shared_bytes - 511;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID, "shared");
    desc.shared_bytes = t->info.max_shared_bytes - 512;
    OK(hcq_program_create(t->dev, &desc, &prog));
    hcq_program_destroy(prog);
    /* It takes two arguments, and was made for groups of 128, which the
     * descriptor of an AMD kernel does not say. */
    desc.shared_bytes = 0;
    desc.n_bufs = 3;
    FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID, "3 + 0");
    desc.n_bufs = 2;
    desc.local[0] = 64;
    if (strcmp(t->info.backend, "AMD") != 0)
        FAILS(hcq_program_create(t->dev, &desc, &prog), BELL_E_INVALID, "64");
}

/* The host writes, a kernel must read the fresh value: 255 times. */
static void
host_writes_are_seen(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *out = cts_ints(t, 16, 0), *in;
    int i;

    OK(hcq_buffer_create(t->dev, 64, HCQ_MEM_HOST_VISIBLE, &in));
    for (i = 1; i <= 255; i++) {
        struct hcq_cs *cs = cts_begin(t->queue);
        int32_t *host = in->host;

        host[0] = i;
        host[15] = -i;
        hcq_cs_barrier(cs);
        cts_exec(cs, prog, 16, ARGS(out->va, in->va, 1));
        cts_finish(t->queue, cs);
        CHECK(cts_int(out, 0) == i + 1 && cts_int(out, 15) == 1 - i, "%d: %d",
              i, cts_int(out, 0));
    }
}

/* Four times, a tiny kernel between the first two, a long one between the next
 * two, nothing between the last. */
struct times {
    uint64_t host0_ns, host1_ns; /* before and after */
    uint64_t ns[4];
};

static void
take_times(struct cts *t, struct hcq_signal **sig, struct hcq_buffer *buf,
           struct times *out)
{
    struct hcq_program *prog = cts_program(t, CTS_WORK);
    struct hcq_cs *cs = cts_begin(t->queue);
    int i;

    out->host0_ns = time_now_ns();
    hcq_cs_timestamp(cs, sig[0]);
    cts_exec(cs, prog, 1, ARGS(buf->va, 100));
    hcq_cs_timestamp(cs, sig[1]);
    cts_exec(cs, prog, 1, ARGS(buf->va, cts_steps(t, 5000000)));
    hcq_cs_timestamp(cs, sig[2]);
    hcq_cs_timestamp(cs, sig[3]);
    cts_finish(t->queue, cs);
    out->host1_ns = time_now_ns();
    for (i = 0; i < 4; i++) {
        uint64_t ticks = hcq_signal_timestamp(sig[i]);

        CHECK(hcq_signal_value(sig[i]) == 5, "the value changed");
        CHECK(i == 0 || ticks >= hcq_signal_timestamp(sig[i - 1]),
              "went backwards");
        out->ns[i] = hcq_timestamp_to_ns(t->dev, ticks);
    }
}

/* What is wrong with them, or NULL. Clocks are compared within 50 us. */
static const char *
judge_times(const struct times *x)
{
    int i;

    for (i = 0; i < 4; i++) {
        if (x->ns[i] + 50000 < x->host0_ns || x->ns[i] > x->host1_ns + 50000)
            return "not the host's clock";
    }
    if (x->ns[1] - x->ns[0] >= 100 * MS_NS)
        return "a tiny kernel takes long";
    if (x->ns[2] - x->ns[1] <= MS_NS)
        return "a long kernel takes no time";
    return NULL;
}

/* Where threads wait for a core, a simulated card's clock among them, any one
 * of the times may be late: what is wrong is so every time. */
static void
timestamps(struct cts *t)
{
    struct timespec nap = {.tv_nsec = 100000000};
    struct hcq_buffer *buf = cts_buffer(t, 64);
    const char *what = "";
    struct hcq_signal *sig[4];
    struct times x;
    int i, n;

    for (i = 0; i < 4; i++)
        sig[i] = cts_signal(t, 5);
    for (n = 0; n < 50 && what; n++) {
        if (n)
            nanosleep(&nap, NULL);
        take_times(t, sig, buf, &x);
        what = judge_times(&x);
    }
    CHECK(!what, "%s: host %llu to %llu, card %llu, %llu, %llu, %llu", what,
          (unsigned long long)x.host0_ns, (unsigned long long)x.host1_ns,
          (unsigned long long)x.ns[0], (unsigned long long)x.ns[1],
          (unsigned long long)x.ns[2], (unsigned long long)x.ns[3]);
}

const struct cts_case cts_exec_cases[] = {
    {"exec one", one},
    {"exec ping-pong 100 times", ping_pong_100},
    {"exec chain of 100 in one submission", chain_of_100},
    {"exec grids", grids},
    {"exec every group exactly once", grid_exactly_once},
    {"exec groups of many items", items},
    {"exec shared memory and barrier", shared_memory},
    {"exec dynamic shared memory", dynamic_shared_memory},
    {"exec atomics", atomics},
    {"exec arguments", arguments},
    {"exec program with all sections", sections},
    {"exec code at an old address", code_at_an_old_address},
    {"exec large stack", stack},
    {"exec bad programs are refused", bad_programs},
    {"exec bad launches are refused", bad_launches},
    {"exec too large groups are refused", too_much},
    {"exec sees what the host wrote", host_writes_are_seen},
    {"exec timestamps", timestamps},
    {NULL, NULL},
};
