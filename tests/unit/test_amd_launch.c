/* The command half of hcq/amd on simulated cards: that the launch path
 * allocates nothing, takes no lock and calls nobody; patches; kernels that need
 * something; what reports say; what is refused.
 */
#include "tests/unit/amd_kernels.h"

#include <time.h>

#include "base/bits.h"
#include "base/map.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"
#include "tests/unit/launch_transfers.h"

static const char *const cards[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942",
                                    "AMD@sim:gfx942*2"};

static struct kio *
kio_of(struct hcq_device *dev)
{
    return amd_device_of(dev)->process->kio;
}

/* ---- the launch path ----------------------------------------------------- */

static void
launch_path(const char *card)
{
    struct rig r = open_rig(card);
    struct hcq_program *shape = amd_kernel_load(r.dev, &amd_shape_kernel);
    struct hcq_stream *stream;
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t p, x;
    unsigned i;

    expect_ok(hcq_stream_create(r.queue, "many", &stream));
    p = hcq_stream_patch_point(stream, "p");
    x = hcq_stream_patch_point(stream, "x");
    for (i = 0; i < 50; i++) {
        amd_kernel_exec_x(hcq_stream_cs(stream), &r, shape, i, 1, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG, p, 0);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_GRID, x, 0);
    }
    expect_ok(hcq_stream_end(stream));
    go = hold(&r, r.queue);
    count_kio(kio_of(r.dev));
    memset(&counts, 0, sizeof(counts));
    for (i = 0; i < 200; i++) {
        expect_ok(hcq_queue_begin(r.queue, &cs));
        amd_kernel_exec_x(cs, &r, shape, i, 2, 3);
        hcq_cs_copy(cs, r.out->va + 1024, r.out->va + 2048, 7);
        hcq_cs_fill(cs, r.out->va + 1024, i, 8);
        hcq_cs_signal(cs, go, 1);
        hcq_cs_wait(cs, go, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_begin(r.copy, &cs));
        hcq_cs_wait(cs, go, 1);
        hcq_cs_copy(cs, r.out->va + 3072, r.out->va + 2048, 64);
        expect_ok(hcq_cs_submit(cs, NULL));
    }
    expect_ok(hcq_stream_patch(stream, p, r.out->va + 4096));
    expect_ok(hcq_stream_patch(stream, x, 3));
    for (i = 0; i < 100; i++)
        expect_ok(hcq_stream_submit(stream, NULL));
    assert_int_equal(counts.allocations, 0);
    assert_int_equal(counts.locks, 0);
    assert_int_equal(counts.calls, 0);
    stop_counting(kio_of(r.dev));
    hcq_signal_set(go, 1);
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    expect_ok(hcq_queue_wait(r.copy, LONG_NS));
    assert_int_equal(value_at(&r, 10), 199 + 2 * 100 + 3);
    assert_int_equal(value_at(&r, 512 + 16), 49 + 3 * 100 + 1);
    assert_int_equal(value_at(&r, 128), 199ull << 32 | 199);
    close_rig(&r);
}

static void
launch_path_is_free(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++)
        launch_path(cards[c]);
}

/* The counters do count. */
static void
counters_count(void **state)
{
    struct rig r;

    (void)state;
    memset(&counts, 0, sizeof(counts));
    r = open_rig(cards[0]);
    assert_true(counts.allocations > 10 && counts.locks > 10);
    count_kio(kio_of(r.dev));
    memset(&counts, 0, sizeof(counts));
    hcq_queue_destroy(r.copy);
    assert_true(counts.calls > 2);
    stop_counting(kio_of(r.dev));
    close_rig(&r);
}

/* ---- patches ------------------------------------------------------------- */

static void
patched_shapes(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *shape = amd_kernel_load(r.dev, &amd_shape_kernel);
        struct hcq_stream *stream;
        struct hcq_cs *cs;
        uint32_t x, y, threads, value, i;
        uint64_t fresh[64];

        expect_ok(hcq_stream_create(r.queue, "shapes", &stream));
        x = hcq_stream_patch_point(stream, "x");
        y = hcq_stream_patch_point(stream, "y");
        threads = hcq_stream_patch_point(stream, "threads");
        value = hcq_stream_patch_point(stream, "value");
        cs = hcq_stream_cs(stream);
        hcq_cs_write(cs, r.out->va + 8192, 5, 32);
        amd_kernel_exec_x(cs, &r, shape, 7, 1, 1);
        hcq_cs_patch(cs, HCQ_FIELD_GRID, x, 0);
        hcq_cs_patch(cs, HCQ_FIELD_GRID + 1, y, 0);
        hcq_cs_patch(cs, HCQ_FIELD_LOCAL, threads, 0);
        hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, value, 1000000);
        hcq_cs_write(cs, r.out->va + 8192, 6, 32);
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 30; i++) {
            uint32_t n = i % 4 + 1, m = i % 8 + 1, o = i % 2 + 1;

            memset(r.out->host, 0, 4096);
            expect_ok(hcq_queue_begin(r.queue, &cs));
            amd_kernel_exec(cs, &r, shape, 1000000 + i,
                            (const uint32_t[]){n, o, 1}, m);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_queue_wait(r.queue, LONG_NS));
            memcpy(fresh, r.out->host, sizeof(fresh));
            assert_int_equal(fresh[0], 1000000 + i + n * 100 + m);
            memset(r.out->host, 0, 4096);
            expect_ok(hcq_stream_patch(stream, x, n));
            expect_ok(hcq_stream_patch(stream, y, o));
            expect_ok(hcq_stream_patch(stream, threads, m));
            expect_ok(hcq_stream_patch(stream, value, i));
            expect_ok(hcq_stream_submit(stream, NULL));
            expect_ok(hcq_stream_wait(stream, LONG_NS));
            assert_memory_equal(r.out->host, fresh, sizeof(fresh));
            assert_int_equal(value_at(&r, 1024), 6);
        }
        expect_fails(hcq_stream_patch(stream, threads, 1025), BELL_E_INVALID,
                     "must be 1 to 1024");
        close_rig(&r);
    }
}

/* Axes are patched one by one; what is too large together is not launched,
 * and can be put right. */
static void
patched_too_large(void **state)
{
    struct rig r = open_rig(cards[0]);
    struct hcq_program *shape = amd_kernel_load(r.dev, &amd_shape_kernel);
    const uint64_t args[] = {r.out->va, 5};
    const uint32_t grid[] = {1, 1, 1}, local[] = {8, 1, 1};
    struct hcq_stream *stream;
    uint32_t p[2], i;

    (void)state;
    expect_ok(hcq_stream_create(r.queue, "large", &stream));
    p[0] = hcq_stream_patch_point(stream, "x");
    p[1] = hcq_stream_patch_point(stream, "y");
    hcq_cs_exec(hcq_stream_cs(stream), shape, args, 2, grid, local);
    for (i = 0; i < 2; i++)
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_LOCAL + i, p[i], 0);
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_patch(stream, p[0], 512));
    expect_ok(hcq_stream_patch(stream, p[1], 3));
    expect_fails(hcq_stream_submit(stream, NULL), BELL_E_INVALID,
                 "'shape' was patched to 512x3x1 work-items in a group; it "
                 "takes 1024");
    expect_ok(hcq_stream_patch(stream, p[0], 7));
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    assert_int_equal(value_at(&r, 6), 5 + 100 + 7);
    assert_int_equal(value_at(&r, 7), 0);
    close_rig(&r);
}

static void
patched_transfers(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);

        random_transfers(&r, r.queue);
        random_transfers(&r, r.copy);
        close_rig(&r);
    }
}

/* Sizes around what the command processor takes, in any order: a patch goes
 * from its packet to a launch of the driver's kernel and back. */
static void
patched_sizes(void **state)
{
    static const struct {
        uint32_t dst, src, n;
    } rows[] = {
        {0, 40000, 100},       {0, 50000, 0x7fe1}, {0, 60000, 0},
        {4, 40004, 0x7fe0},    {3, 40000, 0x8001}, {0, 40000, 39999},
        {16, 40016, 15},       {0, 40000, 1},      {0, 40001, 39998},
        {5, 39000 + 5, 38000},
    };
    static uint8_t want[131072];
    size_t c, i;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_buffer *buf;
        struct hcq_stream *stream;
        uint8_t *bytes;
        uint32_t p[4], k;

        expect_ok(hcq_buffer_create(r.dev, 131072, HCQ_MEM_HOST_VISIBLE, &buf));
        bytes = buf->host;
        expect_ok(hcq_stream_create(r.queue, "sizes", &stream));
        for (k = 0; k < 4; k++)
            p[k] = hcq_stream_patch_point(
                stream, (const char *[]){"dst", "src", "copy", "fill"}[k]);
        hcq_cs_copy(hcq_stream_cs(stream), buf->va, buf->va, 1);
        for (k = 0; k < 3; k++)
            hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_DST + k, p[k], 0);
        hcq_cs_fill(hcq_stream_cs(stream), buf->va + 81920, 0xa1b2c3d4, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_SIZE, p[3], 0);
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < ARRAY_LEN(rows); i++) {
            for (k = 0; k < 131072; k++)
                want[k] = bytes[k] = (uint8_t)hash_mix(k + i);
            memcpy(want + rows[i].dst, want + rows[i].src, rows[i].n);
            for (k = 0; k < rows[i].n; k++)
                want[81920 + k] = (uint8_t)(0xa1b2c3d4 >> k % 4 * 8);
            expect_ok(hcq_stream_patch(stream, p[0], buf->va + rows[i].dst));
            expect_ok(hcq_stream_patch(stream, p[1], buf->va + rows[i].src));
            expect_ok(hcq_stream_patch(stream, p[2], rows[i].n));
            expect_ok(hcq_stream_patch(stream, p[3], rows[i].n));
            expect_ok(hcq_stream_submit(stream, NULL));
            expect_ok(hcq_stream_wait(stream, LONG_NS));
            assert_memory_equal(bytes, want, 131072);
        }
        close_rig(&r);
    }
}

/* ---- kernels ------------------------------------------------------------- */

static void
run(const struct rig *r, const struct hcq_program *prog, uint64_t value,
    const uint32_t grid[3], uint32_t threads)
{
    struct hcq_cs *cs;

    memset(r->out->host, 0, 65536);
    expect_ok(hcq_queue_begin(r->queue, &cs));
    amd_kernel_exec(cs, r, prog, value, grid, threads);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(r->queue, LONG_NS));
}

static void
expect_stack(const struct rig *r, uint32_t value)
{
    const uint32_t *out = r->out->host;
    uint32_t i;

    for (i = 0; i < 64; i++)
        assert_int_equal(out[i], value + i);
}

static void
kernels(void **state)
{
    static const uint32_t one[] = {1, 1, 1}, many[] = {3, 2, 4};
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = amd_kernel_load(r.dev, &amd_lds_kernel);
        const uint32_t *out = r.out->host;
        uint32_t i;

        run(&r, prog, 1000, one, 64);
        for (i = 0; i < 64; i++)
            assert_int_equal(out[i], 1000 + (63 - i) + 7 * (63 - i));
        run(&r, amd_kernel_load_stack(r.dev, 64), 500, one, 64);
        expect_stack(&r, 500);
        prog = amd_kernel_load(r.dev, &amd_shape_kernel);
        run(&r, prog, 9, many, 5);
        for (i = 0; i < 64 * 4; i++) {
            bool is_in = i / 8 % 4 < 3 && i % 8 < 5;

            assert_int_equal(value_at(&r, i), is_in ? 9 + 300 + 5 : 0);
        }
        close_rig(&r);
    }
}

/* A bound stream was made for scratch that has moved since. */
static void
scratch_moves(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = amd_kernel_load_stack(r.dev, 64);
        struct hcq_stream *stream;

        expect_ok(hcq_stream_create(r.queue, "before", &stream));
        amd_kernel_exec_x(hcq_stream_cs(stream), &r, prog, 77, 1, 64);
        expect_ok(hcq_stream_end(stream));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        expect_stack(&r, 77);
        run(&r, amd_kernel_load_stack(r.dev, 4000), 6,
            (const uint32_t[]){1, 1, 1}, 64);
        expect_stack(&r, 6);
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        expect_stack(&r, 77);
        close_rig(&r);
    }
}

/* ---- reports ------------------------------------------------------------- */

static void
expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void
reports(struct rig *r)
{
    struct hcq_program *shape = amd_kernel_load(r->dev, &amd_shape_kernel);
    struct amd_queue *queue = amd_queue_of(r->queue);
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    char text[512], small[40];

    hcq_ring_describe(&queue->base, text, sizeof(text));
    assert_string_equal(text, "");
    expect_ok(hcq_queue_begin(r->queue, &cs));
    hcq_cs_poll(cs, r->out->va, UINT32_MAX, 0xabcd0123);
    amd_kernel_exec_x(cs, r, shape, 0, 3, 2);
    hcq_cs_copy(cs, 0x2000, 0x1000, 64);
    expect_ok(hcq_cs_submit(cs, NULL));
    hcq_ring_describe(&queue->base, text, sizeof(text));
    expect_text(text, "poll 0x");
    expect_text(text, "& 0xffffffff == 0xabcd0123, exec shape 3x1x1 of 2x1x1");
    expect_text(text, "copy 64 bytes 0x1000 -> 0x2000");
    hcq_ring_describe(&queue->base, small, sizeof(small)); /* what fits */
    assert_memory_equal(small, text, sizeof(small) - 1);
    expect_fails(hcq_queue_wait(r->queue, 1000000), BELL_E_TIMEOUT,
                 "== 0xabcd0123");
    expect_ok(hcq_device_recover(r->dev));
    hcq_ring_describe(&queue->base, text, sizeof(text));
    assert_string_equal(text, "");

    expect_ok(hcq_stream_create(r->queue, "stuck", &stream));
    hcq_cs_poll(hcq_stream_cs(stream), r->out->va, 3, 1);
    amd_kernel_exec_x(hcq_stream_cs(stream), r, shape, 40, 1, 2);
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL));
    hcq_ring_describe(&queue->base, text, sizeof(text));
    expect_text(text, "stream 'stuck': poll 0x");
    *(volatile uint32_t *)r->out->host = 5; /* bit 1 clear, bit 0 set */
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    assert_int_equal(value_at(r, 1), 40 + 100 + 2);
}

static void
reports_name_commands(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);

        reports(&r);
        close_rig(&r);
    }
}

/* ---- waits --------------------------------------------------------------- */

/* No group of a launch runs before what stands in front of it is over, on no
 * die of the chip; and sees what was written until then. */
static void
hold_launch(struct rig *r, struct hcq_program *shape, bool is_poll,
            uint32_t round)
{
    struct timespec nap = {0, 2000000};
    volatile uint64_t *out = r->out->host;
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t i;

    expect_ok(hcq_signal_create(r->dev, 0, &go));
    memset(r->out->host, 0, 65536);
    expect_ok(hcq_queue_begin(r->queue, &cs));
    if (is_poll) {
        hcq_cs_poll(cs, r->out->va + 32768, 0xff, 3);
        hcq_cs_write(cs, r->out->va + 32768, 0, 32); /* it was seen by all */
    } else {
        hcq_cs_wait(cs, go, 3);
    }
    amd_kernel_exec(cs, r, shape, round, (const uint32_t[]){4, 2, 8}, 8);
    expect_ok(hcq_cs_submit(cs, NULL));
    nanosleep(&nap, NULL);
    for (i = 0; i < 512; i++) {
        if (out[i])
            fail_msg("%s: group %u ran before the %s was over", r->queue->name,
                     i / 8, is_poll ? "poll" : "wait");
    }
    out[4096] = 0x103;
    hcq_signal_set(go, 3);
    expect_ok(hcq_queue_wait(r->queue, LONG_NS));
    for (i = 0; i < 512; i++)
        assert_int_equal(out[i], round + 400 + 8);
    hcq_signal_destroy(go);
}

static void
waits_hold_launches(void **state)
{
    uint32_t i;
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *shape = amd_kernel_load(r.dev, &amd_shape_kernel);

        for (i = 0; i < 20; i++)
            hold_launch(&r, shape, i & 1, i);
        close_rig(&r);
    }
}

/* ---- what is refused ----------------------------------------------------- */

static void
bad_programs(void **state)
{
    struct rig r = open_rig(cards[0]);
    struct render_binary other = amd_kernel_build(&amd_shape_kernel, "gfx942");
    struct render_binary lds = amd_kernel_build(&amd_lds_kernel, "gfx1100");
    struct hcq_program_desc desc = amd_kernel_desc(&amd_shape_kernel, &other);
    struct hcq_program *prog;

    (void)state;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'shape': machine code for gfx942 (0x4c) does not run on "
                 "AMD:0@sim:gfx1100, which is gfx1100");
    desc = amd_kernel_desc(&amd_lds_kernel, &lds);
    desc.n_vals = 2;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'lds': the kernel takes 16 bytes of arguments, 1 + 2 words");
    desc.n_vals = 1;
    desc.shared_bytes = 65536 - 255;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'lds': 256 + 65281 bytes of shared memory, static and "
                 "dynamic; a group on AMD:0@sim:gfx1100 has 65536");
    desc.shared_bytes = UINT32_MAX;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "4294967295 bytes of shared memory");
    desc.shared_bytes = 65536 - 256;
    expect_ok(hcq_program_create(r.dev, &desc, &prog));
    run(&r, prog, 3, (const uint32_t[]){1, 1, 1}, 64);
    assert_int_equal((uint32_t)value_at(&r, 0), 3 + 8 * 63);
    render_binary_fini(&other);
    render_binary_fini(&lds);
    close_rig(&r);
}

/* Changes a value of the notes of a kernel that stands behind its key. */
static void
change_note(struct render_binary *binary, const char *key, uint8_t value)
{
    uint8_t *data = (uint8_t *)binary->data;
    size_t n = strlen(key), i;

    for (i = 0; i + n < binary->size_bytes; i++) {
        if (memcmp(data + i, key, n) == 0) {
            data[i + n] = value;
            return;
        }
    }
    fail_msg("no %s", key);
}

/* Groups are as large as the program was compiled for, in launches and in
 * patches; what the notes say has to be what the descriptor says. */
static void
groups_as_compiled(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = amd_kernel_load(r.dev, &amd_small_kernel);
        struct render_binary binary =
            amd_kernel_build(&amd_small_kernel, c == 0 ? "gfx1100" : "gfx942");
        struct hcq_program_desc desc =
            amd_kernel_desc(&amd_small_kernel, &binary);
        struct hcq_stream *stream;
        struct hcq_cs *cs;
        uint32_t p;

        run(&r, prog, 2, (const uint32_t[]){3, 1, 1}, 64);
        assert_int_equal(value_at(&r, 0), 3 * 64 * 2);
        expect_ok(hcq_queue_begin(r.queue, &cs));
        amd_kernel_exec_x(cs, &r, prog, 1, 1, 65);
        expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                     "'small': 65x1x1 work-items in a group");
        expect_ok(hcq_stream_create(r.queue, "patched", &stream));
        p = hcq_stream_patch_point(stream, "x");
        amd_kernel_exec_x(hcq_stream_cs(stream), &r, prog, 1, 1, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_LOCAL, p, 0);
        expect_ok(hcq_stream_end(stream));
        expect_fails(hcq_stream_patch(stream, p, 65), BELL_E_INVALID,
                     "must be 1 to 64");
        desc.local[0] = 65;
        desc.local[1] = desc.local[2] = 1;
        expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                     "'small': 65x1x1 work-items in a group; as compiled, it "
                     "takes 64");
        desc.local[0] = 64;
        expect_ok(hcq_program_create(r.dev, &desc, &prog));
        change_note(&binary, ".max_flat_workgroup_siz", 'X'); /* not said */
        desc.local[0] = 65;
        expect_ok(hcq_program_create(r.dev, &desc, &prog));
        desc.local[0] = 64;
        change_note(&binary, ".group_segment_fixed_size", 8);
        expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                     "'small.kd' has 0 bytes of LDS, and 8 in the notes");
        change_note(&binary, ".group_segment_fixed_size", 0xc1);
        expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                     "section '.note': malformed at 0x");
        render_binary_fini(&binary);
        close_rig(&r);
    }
}

static void
refused(void **state)
{
    struct rig r = open_rig(cards[0]);
    struct hcq_queue_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_stream *stream;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    uint32_t i;

    (void)state;
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_copy(cs, 1ull << 48, r.out->va, 4);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                 "copy to of 4 bytes at 0x1000000000000: AMD:0@sim:gfx1100 "
                 "addresses less than 0x1000000000000");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_poll(cs, (1ull << 48) + 4, 1, 1);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "poll of 4 bytes");
    expect_ok(hcq_stream_create(r.copy, "vast", &stream));
    hcq_cs_copy(hcq_stream_cs(stream), 0, 0, (1ull << 48) - 1);
    expect_fails(hcq_stream_end(stream), BELL_E_INVALID,
                 "stream 'vast': a transfer of 281474976710655 bytes");
    desc.ring_size_bytes = 5000;
    expect_fails(hcq_queue_create_with(r.dev, &desc, &queue), BELL_E_INVALID,
                 "ring of 5000 bytes");
    desc.ring_size_bytes = 4096;
    expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    for (i = 0; i < 1000; i++)
        hcq_cs_write(cs, r.out->va, i, 32);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "larger than");
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_write(cs, r.out->va, 12345, 32);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, LONG_NS));
    assert_int_equal((uint32_t)value_at(&r, 0), 12345);
    close_rig(&r);
}

/* A kernel that gets nothing, not even where its arguments are. */
static void
no_arguments(void **state)
{
    static const struct amd_kernel nothing = {
        "nothing", 0, 0, 0,
        "define amdgpu_kernel void @nothing() #0 {\n  ret void\n}\n"};
    const uint32_t one[3] = {1, 1, 1}, local[3] = {64, 1, 1};
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = amd_kernel_load(r.dev, &nothing);
        struct hcq_cs *cs;

        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_exec(cs, prog, NULL, 0, one, local);
        hcq_cs_write(cs, r.out->va, 12345, 32);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_wait(r.queue, LONG_NS));
        assert_int_equal((uint32_t)value_at(&r, 0), 12345);
        close_rig(&r);
    }
}

/* The words before the driver's own kernel say what the card, a debugger or a
 * tool may read there. src: docs/hardware/amd-code.md, "Kernel descriptor" */
static void
move_descriptor(void **state)
{
    const struct amd_move_code *code;
    struct rig r = open_rig("AMD@sim:gfx942");
    const uint32_t *words = amd_device_of(r.dev)->move.code.cpu;
    uint32_t i;

    (void)state;
    code = amd_device_of(r.dev)->gen->move;
    for (i = 0; i < 16; i++)
        assert_int_equal(words[i], i == 2    ? 6 * 8
                                   : i == 4  ? 256
                                   : i == 11 ? code->rsrc3
                                   : i == 12 ? code->rsrc1
                                   : i == 13 ? code->rsrc2
                                   : i == 14 ? code->properties
                                             : 0);
    assert_memory_equal(words + 64, code->words, 4 * code->n_words);
    close_rig(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_path_is_free),
        cmocka_unit_test(counters_count),
        cmocka_unit_test(patched_shapes),
        cmocka_unit_test(patched_too_large),
        cmocka_unit_test(patched_transfers),
        cmocka_unit_test(patched_sizes),
        cmocka_unit_test(no_arguments),
        cmocka_unit_test(move_descriptor),
        cmocka_unit_test(kernels),
        cmocka_unit_test(scratch_moves),
        cmocka_unit_test(reports_name_commands),
        cmocka_unit_test(waits_hold_launches),
        cmocka_unit_test(bad_programs),
        cmocka_unit_test(groups_as_compiled),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
