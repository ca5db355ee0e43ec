/* The command half of hcq/nv on simulated cards: that the launch path
 * allocates nothing, takes no lock and calls nobody; patches of every kind
 * against a model; what reports say; what is refused.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/log.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/regs/nv_host.h"
#include "tests/unit/launch_transfers.h"
#include "render/ptx/nv_container.h"

static const char *const cards[] = {"NV@sim:sm_80", "NV@sim:sm_89",
                                    "NV@sim:sm_90", "NV@sim:sm_120"};

/* ---- a device with a kernel ---------------------------------------------- */

static const char shape_text[] =
    ".version %s\n.target sm_%u\n.address_size 64\n"
    ".visible .entry shape(.param .u64 out, .param .u64 value)\n{\n"
    "\t.reg .u32 %%r<8>;\n\t.reg .u64 %%rd<6>;\n"
    "\tld.param.u64 %%rd0, [out];\n"
    "\tcvta.to.global.u64 %%rd0, %%rd0;\n"
    "\tld.param.u64 %%rd1, [value];\n"
    "\tmov.u32 %%r0, %%ctaid.x;\n"
    "\tmov.u32 %%r1, %%tid.x;\n"
    "\tmad.lo.u32 %%r2, %%r0, 8, %%r1;\n"
    "\tmul.wide.u32 %%rd2, %%r2, 8;\n"
    "\tadd.u64 %%rd0, %%rd0, %%rd2;\n"
    "\tmov.u32 %%r3, %%nctaid.x;\n"
    "\tmov.u32 %%r4, %%ntid.x;\n"
    "\tmad.lo.u32 %%r3, %%r3, 100, %%r4;\n"
    "\tcvt.u64.u32 %%rd3, %%r3;\n"
    "\tadd.u64 %%rd1, %%rd1, %%rd3;\n"
    "\tst.global.u64 [%%rd0], %%rd1;\n"
    "\tret;\n}\n";

static struct hcq_program *
load_shape(struct hcq_device *dev, uint32_t n_regs)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct nv_container_desc d = {
        .entry = "shape",
        .n_params = 2,
        .n_regs = n_regs,
    };
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "shape",
        .n_bufs = 1,
        .n_vals = 1,
    };
    struct render_binary binary;
    struct hcq_program *prog;
    char text[2048];

    hcq_device_info(dev, &info);
    d.sm = (uint32_t)strtoul(info.arch + 3, NULL, 10);
    snprintf(text, sizeof(text), shape_text, d.sm >= 100 ? "8.7" : "7.8", d.sm);
    d.text = text;
    expect_ok(render_nv_container(&d, &binary));
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    expect_ok(hcq_program_create(dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

/* out[block * 8 + thread] = value + 100 * blocks + threads */
static struct rig
open_shape_rig(const char *name)
{
    struct rig r = open_rig(name);

    r.shape = load_shape(r.dev, 16);
    return r;
}

static void
exec_shape(struct hcq_cs *cs, const struct rig *r, uint64_t value, uint32_t x,
           uint32_t threads)
{
    const uint64_t args[] = {r->out->va, value};
    const uint32_t grid[] = {x, 1, 1}, local[] = {threads, 1, 1};

    hcq_cs_exec(cs, r->shape, args, 2, grid, local);
}

/* ---- the launch path ----------------------------------------------------- */

static void
launch_path_is_free(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_90");
    struct hcq_stream *stream;
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t p, x;
    unsigned i;

    (void)state;
    expect_ok(hcq_stream_create(r.queue, "many", &stream));
    p = hcq_stream_patch_point(stream, "p");
    x = hcq_stream_patch_point(stream, "x");
    for (i = 0; i < 50; i++) {
        exec_shape(hcq_stream_cs(stream), &r, i, 1, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG, p, 0);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_GRID, x, 0);
    }
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL)); /* caches are invalidated */
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    go = hold(&r, r.queue);
    count_kio(nv_device_of(r.dev)->kio);
    memset(&counts, 0, sizeof(counts));
    for (i = 0; i < 200; i++) {
        expect_ok(hcq_queue_begin(r.queue, &cs));
        exec_shape(cs, &r, i, 2, 3);
        hcq_cs_signal(cs, go, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
    }
    expect_ok(hcq_stream_patch(stream, p, r.out->va + 4096));
    expect_ok(hcq_stream_patch(stream, x, 3));
    for (i = 0; i < 100; i++)
        expect_ok(hcq_stream_submit(stream, NULL));
    assert_int_equal(counts.allocations, 0);
    assert_int_equal(counts.locks, 0);
    assert_int_equal(counts.calls, 0);
    stop_counting(nv_device_of(r.dev)->kio);
    hcq_signal_set(go, 1);
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    assert_int_equal(value_at(&r, 10), 199 + 2 * 100 + 3);
    assert_int_equal(value_at(&r, 512 + 16), 49 + 3 * 100 + 1);
    close_rig(&r);
}

/* The counters do count. */
static void
counters_count(void **state)
{
    struct rig r;

    (void)state;
    memset(&counts, 0, sizeof(counts));
    r = open_shape_rig("NV@sim:sm_90");
    assert_true(counts.allocations > 10 && counts.locks > 10);
    count_kio(nv_device_of(r.dev)->kio);
    memset(&counts, 0, sizeof(counts));
    hcq_queue_destroy(r.copy);
    assert_true(counts.calls > 2);
    stop_counting(nv_device_of(r.dev)->kio);
    close_rig(&r);
}

/* ---- patches ------------------------------------------------------------- */

static void
patched_shapes(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_shape_rig(cards[c]);
        struct hcq_stream *stream;
        uint32_t x, threads, value, i;

        expect_ok(hcq_stream_create(r.queue, "shapes", &stream));
        x = hcq_stream_patch_point(stream, "x");
        threads = hcq_stream_patch_point(stream, "threads");
        value = hcq_stream_patch_point(stream, "value");
        exec_shape(hcq_stream_cs(stream), &r, 7, 1, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_GRID, x, 0);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_LOCAL, threads, 0);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG + 1, value, 1000000);
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 30; i++) {
            uint32_t n = i % 7 + 1, m = i % 8 + 1, k;

            memset(r.out->host, 0, 4096);
            expect_ok(hcq_stream_patch(stream, x, n));
            expect_ok(hcq_stream_patch(stream, threads, m));
            expect_ok(hcq_stream_patch(stream, value, i));
            expect_ok(hcq_stream_submit(stream, NULL));
            expect_ok(hcq_stream_wait(stream, LONG_NS));
            for (k = 0; k < 64; k++)
                assert_int_equal(
                    value_at(&r, k),
                    k / 8 < n && k % 8 < m ? 1000000 + i + n * 100 + m : 0);
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
    struct rig r = open_shape_rig("NV@sim:sm_90");
    const uint64_t args[] = {r.out->va, 5};
    const uint32_t grid[] = {1, 1, 1}, local[] = {8, 1, 1};
    struct hcq_stream *stream;
    uint32_t p[3], i;

    (void)state;
    memset(r.out->host, 0, 4096);
    expect_ok(hcq_stream_create(r.queue, "large", &stream));
    p[0] = hcq_stream_patch_point(stream, "x");
    p[1] = hcq_stream_patch_point(stream, "y");
    hcq_cs_exec(hcq_stream_cs(stream), r.shape, args, 2, grid, local);
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
        struct rig r = open_shape_rig(cards[c]);

        random_transfers(&r, r.queue);
        random_transfers(&r, r.copy);
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
reports_name_commands(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_90");
    struct nv_queue *queue = nv_queue_of(r.queue);
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    char text[512], small[40];

    (void)state;
    memset(r.out->host, 0, 64);
    hcq_ring_describe(&queue->base, text, sizeof(text));
    assert_string_equal(text, "");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_poll(cs, r.out->va, UINT32_MAX, 0xabcd0123);
    exec_shape(cs, &r, 0, 3, 2);
    hcq_cs_copy(cs, 0x2000, 0x1000, 64);
    expect_ok(hcq_cs_submit(cs, NULL));
    hcq_ring_describe(&queue->base, text, sizeof(text));
    expect_text(text, "poll 0x");
    expect_text(text, "& 0xffffffff == 0xabcd0123, exec shape 3x1x1 of 2x1x1");
    expect_text(text, "copy 64 bytes 0x1000 -> 0x2000");
    hcq_ring_describe(&queue->base, small, sizeof(small)); /* what fits */
    assert_memory_equal(small, text, sizeof(small) - 1);
    expect_fails(hcq_queue_wait(r.queue, 1000000), BELL_E_TIMEOUT,
                 "== 0xabcd0123");
    expect_ok(hcq_device_recover(r.dev));
    hcq_ring_describe(&queue->base, text, sizeof(text));
    assert_string_equal(text, "");

    expect_ok(hcq_stream_create(r.queue, "stuck", &stream));
    hcq_cs_poll(hcq_stream_cs(stream), r.out->va, UINT32_MAX, 5);
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL));
    hcq_ring_describe(&queue->base, text, sizeof(text));
    expect_text(text, "stream 'stuck': poll 0x");
    *(volatile uint32_t *)r.out->host = 5;
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    close_rig(&r);
}

/* Each command as reports and traces show it, alone and in a stream that is
 * dumped; what is none is told from what is. */
static void
texts_of_commands(void **state)
{
    static const struct {
        struct hcq_packet packet;
        const char *text;
    } rows[] = {
        {{{HCQ_OP_WAIT, 0, 6, 0}, {0x10, 5}}, "wait for signal 0x10 >= 5"},
        {{{HCQ_OP_SIGNAL, 0, 6, 0}, {0x10, 5}}, "signal 0x10 = 5"},
        {{{HCQ_OP_TIMESTAMP, 0, 4, 0}, {0x20}}, "timestamp 0x20"},
        {{{HCQ_OP_BARRIER, 0, 2, 0}, {0}}, "barrier"},
        {{{HCQ_OP_COPY, 0, 8, 0}, {0x30, 0x40, 99}},
         "copy 99 bytes 0x40 -> 0x30"},
        {{{HCQ_OP_FILL, 0, 8, 0}, {0x30, 0xab, 99}},
         "fill 99 bytes at 0x30 with 0xab"},
        {{{HCQ_OP_WRITE32, 0, 6, 0}, {0x30, 0xab}}, "write32 0xab at 0x30"},
        {{{HCQ_OP_WRITE64, 0, 6, 0}, {0x30, 0xab}}, "write64 0xab at 0x30"},
        {{{HCQ_OP_POLL, 0, 8, 0}, {0x30, 0xf, 2}}, "poll 0x30 & 0xf == 0x2"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_packet packet = rows[i].packet;
        char text[192];

        assert_true(hcq_packet_ok(&packet, packet.head.n_dw));
        assert_true(hcq_packet_ok(&packet, 100));
        assert_false(hcq_packet_ok(&packet, packet.head.n_dw - 1u));
        hcq_packet_text(&packet, "", text, sizeof(text));
        assert_string_equal(text, rows[i].text);
        packet.head.n_dw++;
        assert_false(hcq_packet_ok(&packet, 100));
        packet.head.n_dw--;
        packet.head.op = HCQ_OP_COUNT;
        assert_false(hcq_packet_ok(&packet, 100));
        packet.head.op = 0;
        assert_false(hcq_packet_ok(&packet, 100));
    }
}

static void
keep_text(void *user, const char *line)
{
    char *text = user;

    snprintf(text + strlen(text), 4096 - strlen(text), "%s\n", line);
}

/* BELL_DEBUG=push: a line for each, and where it begins. */
static void
pushes_are_told(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_90");
    char text[4096] = "";
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_barrier(cs);
    exec_shape(cs, &r, 0, 3, 2);
    hcq_cs_fill(cs, r.out->va, 7, 64);
    bell_log_set(keep_text, text);
    log_mask = LOG_PUSH;
    expect_ok(hcq_cs_submit(cs, NULL));
    log_mask = 0;
    bell_log_set(NULL, NULL);
    expect_text(text, "push: ");
    expect_text(text, " +0000 barrier\n");
    expect_text(text, " +0008 exec shape 3x1x1 of 2x1x1, 2 args: 0x");
    expect_text(text, "fill 64 bytes at 0x");
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    close_rig(&r);
}

/* ---- what a kernel is told ----------------------------------------------- */

static const char told_text[] =
    ".version %s\n.target sm_%u\n.address_size 64\n"
    ".extern .shared .align 16 .b8 dyn[];\n"
    ".visible .entry told(.param .u64 out, .param .u64 bad)\n{\n"
    "\t.reg .u32 %%r<8>;\n\t.reg .u64 %%rd<4>;\n\t.reg .pred %%p<1>;\n"
    "\t.shared .align 16 .b8 own[64];\n"
    "\tld.param.u64 %%rd0, [out];\n"
    "\tcvta.to.global.u64 %%rd0, %%rd0;\n"
    "\tmov.u32 %%r0, %%total_smem_size;\n"
    "\tst.global.u32 [%%rd0], %%r0;\n"
    "\tmov.u32 %%r1, %%dynamic_smem_size;\n"
    "\tst.global.u32 [%%rd0+4], %%r1;\n"
    "\tmov.u32 %%r2, %%nsmid;\n"
    "\tst.global.u32 [%%rd0+8], %%r2;\n"
    "\tmov.u32 %%r3, own;\n"
    "\tst.shared.u32 [%%r3], %%r2;\n"
    "\tmov.u32 %%r3, dyn;\n"
    "\tst.shared.u32 [%%r3], %%r2;\n"
    "\tld.param.u64 %%rd1, [bad];\n"
    "\tmov.u32 %%r4, %%ctaid.x;\n"
    "\tcvt.u64.u32 %%rd2, %%r4;\n"
    "\tsetp.ne.u64 %%p0, %%rd1, %%rd2;\n"
    "\t@%%p0 ret;\n"
    "\tmov.u64 %%rd3, 2;\n" /* misaligned */
    "\tst.global.u32 [%%rd3], %%r4;\n"
    "\tret;\n}\n";

static struct hcq_program *
load_block(const struct rig *r, uint32_t n_regs, uint32_t n_threads,
           uint32_t dynamic_bytes)
{
    struct nv_container_desc d = {
        .entry = "told",
        .sm = nv_device_of(r->dev)->chip.sm,
        .n_params = 2,
        .n_regs = n_regs,
        .shared_bytes = 64,
        .has_dynamic = true,
    };
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "told",
        .n_bufs = 1,
        .n_vals = 1,
        .local = {n_threads, 1, 1},
        .shared_bytes = dynamic_bytes,
    };
    struct render_binary binary;
    struct hcq_program *prog;
    char text[2048];

    snprintf(text, sizeof(text), told_text, d.sm >= 100 ? "8.7" : "7.8", d.sm);
    d.text = text;
    expect_ok(render_nv_container(&d, &binary));
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    expect_ok(hcq_program_create(r->dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

static struct hcq_program *
load_told(const struct rig *r, uint32_t dynamic_bytes)
{
    return load_block(r, 16, 1, dynamic_bytes);
}

/* `bad`: the block that stores where it must not. */
static bell_status
run_told(const struct rig *r, const struct hcq_program *prog, uint64_t bad,
         uint32_t n_blocks)
{
    const uint64_t args[] = {r->out->va, bad};
    const uint32_t grid[] = {n_blocks, 1, 1}, local[] = {1, 1, 1};
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(r->queue, &cs));
    hcq_cs_exec(cs, prog, args, 2, grid, local);
    expect_ok(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(r->queue, LONG_NS);
}

/* Special registers that come from constant bank 0. */
static void
kernels_are_told(void **state)
{
    static const uint32_t dynamic[] = {4, 64, 65, 100, 5000};
    const char *names[4] = {cards[0], cards[1], cards[2],
                            "NV@sim:sm_90,sms=132"};
    size_t c, i;

    (void)state;
    for (c = 0; c < ARRAY_LEN(names); c++) {
        struct rig r = open_rig(names[c]);

        for (i = 0; i < ARRAY_LEN(dynamic); i++) {
            struct hcq_program *prog = load_told(&r, dynamic[i]);
            const uint32_t *out = r.out->host;

            expect_ok(run_told(&r, prog, UINT64_MAX, 1));
            /* what the block has, in units of 128 bytes, without the 1 KiB */
            assert_int_equal(out[0], align_up(64 + dynamic[i], 128));
            assert_int_equal(out[1], dynamic[i]);
            assert_int_equal(out[2], c == 3 ? 132 : 8);
            hcq_program_destroy(prog);
        }
        close_rig(&r);
    }
}

/* A warp's error is told on whatever SM it happens: a call tells of 100. */
static void
faults_on_every_sm(void **state)
{
    static const uint32_t sms[] = {0, 7, 99, 100, 131};
    struct rig r = open_rig("NV@sim:sm_90,sms=132");
    struct hcq_program *prog = load_told(&r, 16);
    size_t i;

    (void)state;
    assert_int_equal(nv_device_of(r.dev)->chip.n_sm, 132);
    for (i = 0; i < ARRAY_LEN(sms); i++) {
        struct hcq_fault fault;
        unsigned long long pc = 0;

        assert_int_equal(run_told(&r, prog, sms[i], 132), BELL_E_DEVICE_LOST);
        hcq_device_fault(r.dev, &fault);
        if (!strstr(fault.text, "misaligned address in 'told' at 0x"))
            fail_msg("SM %u: %s", sms[i], fault.text);
        (void)sscanf(strstr(fault.text, "'told' at 0x") + 12, "%llx", &pc);
        assert_true(pc - prog->code_va < prog->code_size_bytes);
        expect_ok(hcq_device_recover(r.dev));
    }
    hcq_program_destroy(prog);
    close_rig(&r);
}

/* ---- limits of programs -------------------------------------------------- */

/* Registers of an SM are dealt out to warps in units of 256, to four at once.
 */
static void
threads_by_registers(void **state)
{
    static const uint32_t rows[][2] = {
        {16, 1024}, {64, 1024}, {65, 896},  {72, 896},  {73, 768},
        {128, 512}, {129, 384}, {168, 384}, {169, 256}, {255, 256}};
    struct rig r = open_rig("NV@sim:sm_90");
    const uint64_t args[2] = {r.out->va, 1};
    const uint32_t one[] = {1, 1, 1};
    struct hcq_cs *cs;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_program *prog = load_shape(r.dev, rows[i][0]);
        uint32_t local[] = {rows[i][1], 1, 1};

        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_exec(cs, prog, args, 2, one, local);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_wait(r.queue, LONG_NS));
        local[0]++;
        expect_ok(hcq_queue_begin(r.queue, &cs));
        hcq_cs_exec(cs, prog, args, 2, one, local);
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_E_INVALID);
        hcq_program_destroy(prog);
    }
    close_rig(&r);
}

/* Bits of a launch descriptor. */
static uint32_t
qmd_bits(const struct hcq_program *prog, unsigned high, unsigned low)
{
    const uint32_t *words =
        HCQ_CONTAINER(prog, const struct nv_program, base.pub)->qmd;

    assert_int_equal(high / 32, low / 32);
    return words[low / 32] >> low % 32 &
           (uint32_t)(((uint64_t)1 << (high - low + 1)) - 1);
}

/* The part of an SM's memory that is shared holds one block at least and is
 * asked to hold as many as the SM runs: 32 on sm_90, 64 warps there and 48 on
 * sm_120, 65536 registers. src: docs/hardware/nvidia-code.md,
 * "Shared memory" */
static void
shared_memory_of_an_sm(void **state)
{
    static const struct {
        const char *card;
        uint32_t n_regs, n_threads, block_bytes, least_kib, wish_kib;
    } rows[] = {
        {"NV@sim:sm_90", 16, 32, 2048, 32, 64}, /* 32 blocks, not 33 */
        {"NV@sim:sm_90", 16, 1, 4352, 32, 164}, /* not 31 */
        {"NV@sim:sm_90", 16, 33, 4352, 32, 164},
        {"NV@sim:sm_90", 16, 256, 8192, 32, 64},  /* 8 by their warps, not 9 */
        {"NV@sim:sm_90", 16, 256, 9216, 32, 100}, /* not 7 */
        {"NV@sim:sm_90", 16, 225, 9216, 32, 100},
        {"NV@sim:sm_90", 16, 224, 7424, 32, 100},  /* 9, not 8 */
        {"NV@sim:sm_90", 128, 256, 32768, 32, 64}, /* 2 by their registers */
        {"NV@sim:sm_90", 128, 256, 33024, 64, 100},
        {"NV@sim:sm_90", 16, 1024, 65536, 64, 132}, /* 2 */
        {"NV@sim:sm_90", 16, 1024, 232448, 228, 228},
        {"NV@sim:sm_120", 16, 256, 10752, 32, 64}, /* 6 by their warps, not 7 */
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig r = open_rig(rows[i].card);
        bool is_v5 = strstr(rows[i].card, "120") != NULL;
        struct hcq_program *prog =
            load_block(&r, rows[i].n_regs, rows[i].n_threads,
                       rows[i].block_bytes - 1024 - 64);
        uint32_t least = is_v5 ? qmd_bits(prog, 1168, 1163)
                               : qmd_bits(prog, 613, 608),
                 wish = is_v5 ? qmd_bits(prog, 1180, 1175)
                              : qmd_bits(prog, 625, 620);

        if (least != rows[i].least_kib / 4 + 1 ||
            wish != rows[i].wish_kib / 4 + 1)
            fail_msg("row %zu: at least %u KiB, if possible %u KiB", i,
                     (least - 1) * 4, (wish - 1) * 4);
        hcq_program_destroy(prog);
        close_rig(&r);
    }
}

/* A module with two parameters whose attributes can be changed: each is a head
 * of four bytes and words. */
static struct render_binary
pack_shape(struct hcq_program_desc *desc, const uint32_t reqntid[3])
{
    struct nv_container_desc d = {
        .entry = "shape",
        .n_params = 2,
        .n_regs = 255,
        .n_barriers = 5,
        .sm = 90,
        .reqntid = {reqntid[0], reqntid[1], reqntid[2]},
    };
    struct render_binary binary;
    char text[2048];

    snprintf(text, sizeof(text), shape_text, "7.8", d.sm);
    d.text = text;
    expect_ok(render_nv_container(&d, &binary));
    *desc = (struct hcq_program_desc){
        .struct_size = sizeof(*desc),
        .name = "shape",
        .binary = binary.data,
        .binary_size_bytes = binary.size_bytes,
        .n_bufs = 1,
        .n_vals = 1,
    };
    return binary;
}

/* A program that was compiled for another chip. */
static void
other_chip(void **state)
{
    struct rig r = open_rig("NV@sim:sm_80");
    struct hcq_program_desc desc;
    struct render_binary binary =
        pack_shape(&desc, (const uint32_t[3]){0, 0, 0});
    struct hcq_program *prog;

    (void)state;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'shape': machine code for sm_90 does not run on "
                 "NV:0@sim:sm_80, which is sm_80");
    render_binary_fini(&binary);
    close_rig(&r);
}

static uint8_t *
attr_of(const struct render_binary *b, uint8_t format, uint8_t code, uint8_t x)
{
    uint8_t *at = (uint8_t *)(uintptr_t)b->data;
    const uint8_t head[] = {format, code, x, 0};

    while (memcmp(at, head, sizeof(head)) != 0) {
        at++;
        assert_true(at < (const uint8_t *)b->data + b->size_bytes - 16);
    }
    return at;
}

/* A bank, attributes with one word of them changed. NULL: it is taken. */
static void
places_of_parameters(void **state)
{
    static const struct {
        uint32_t bank_offset, bank_bytes, offset; /* of parameter 1 */
        const char *part;
    } rows[] = {
        {0x210, 16, 8, NULL},
        {0x208, 16, 8, "parameters at 0x208"},
        {4096, 16, 8, NULL},
        {4104, 16, 8, "parameters at 0x1008"},
        {0x210, 24, 8, "24 bytes for 2 parameters"},
        {0x210, 24, 16, "parameter 1 has 8 bytes at 16; 8 at 8"},
    };
    struct rig r = open_rig("NV@sim:sm_90");
    struct hcq_program *prog;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t bank = rows[i].bank_bytes << 16 | rows[i].bank_offset,
                 param = rows[i].offset << 16 | 1;
        struct hcq_program_desc desc;
        struct render_binary b = pack_shape(&desc, (uint32_t[3]){0, 0, 0});

        memcpy(attr_of(&b, 4, 0x0a, 8) + 8, &bank, 4); /* PARAM_CBANK */
        attr_of(&b, 3, 0x19, 16)[2] = (uint8_t)rows[i].bank_bytes;
        memcpy(attr_of(&b, 4, 0x17, 12) + 8, &param, 4); /* KPARAM_INFO */
        if (rows[i].part) {
            expect_fails(hcq_program_create(r.dev, &desc, &prog),
                         BELL_E_INVALID, rows[i].part);
        } else {
            expect_ok(hcq_program_create(r.dev, &desc, &prog));
            hcq_program_destroy(prog);
        }
        render_binary_fini(&b);
    }
    close_rig(&r);
}

/* A device that is not simulated by us does not run PTX. */
static void
text_for_real_cards(void **state)
{
    struct rig r = open_rig("NV@sim:sm_90");
    struct hcq_program_desc desc;
    struct render_binary b = pack_shape(&desc, (uint32_t[3]){0, 0, 0});
    struct hcq_program *prog;

    (void)state;
    r.dev->info.flags &= ~(uint32_t)HCQ_DEVICE_SIMULATED;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "PTX for a simulated card");
    r.dev->info.flags |= HCQ_DEVICE_SIMULATED;
    expect_ok(hcq_program_create(r.dev, &desc, &prog));
    render_binary_fini(&b);
    close_rig(&r);
}

/* A function that others precede in its section. */
static void
entry_behind_others(void **state)
{
    struct rig r = open_rig("NV@sim:sm_90");
    struct hcq_program_desc desc;
    struct render_binary b = pack_shape(&desc, (uint32_t[3]){0, 0, 0});
    uint8_t *file = (uint8_t *)(uintptr_t)b.data;
    const Elf64_Ehdr *head = b.data;
    const Elf64_Shdr *s = (const void *)(file + head->e_shoff);
    struct hcq_program *prog;
    uint64_t offset;
    Elf64_Sym *sym;

    (void)state;
    while (s->sh_type != SHT_SYMTAB)
        s++;
    sym = (void *)(file + s->sh_offset);
    while (ELF64_ST_TYPE(sym->st_info) != STT_FUNC)
        sym++;
    for (offset = 0; offset <= 32; offset += 16) {
        const struct nv_program *own;

        sym->st_value = offset;
        expect_ok(hcq_program_create(r.dev, &desc, &prog));
        own = HCQ_CONTAINER(HCQ_CONTAINER(prog, struct hcq_program_base, pub),
                            const struct nv_program, base);
        assert_int_equal(prog->code_va, own->code.va + offset);
        hcq_program_destroy(prog);
    }
    render_binary_fini(&b);
    close_rig(&r);
}

static void
sizes_of_blocks(void **state)
{
    static const uint32_t hundred[] = {100, 1, 1}, bound[] = {50, 2, 1};
    struct rig r = open_rig("NV@sim:sm_90");
    struct hcq_program_desc desc;
    struct render_binary b = pack_shape(&desc, (uint32_t[3]){0, 0, 0});
    struct hcq_program *prog;
    const struct nv_program *own;
    const uint64_t args[2] = {r.out->va, 1};
    uint32_t one[] = {1, 1, 1}, local[] = {100, 1, 1};
    struct hcq_cs *cs;

    (void)state;
    /* 255 registers: 256 threads */
    memcpy(desc.local, (const uint32_t[]){32, 8, 1}, 12);
    expect_ok(hcq_program_create(r.dev, &desc, &prog));
    own = HCQ_CONTAINER(HCQ_CONTAINER(prog, struct hcq_program_base, pub),
                        const struct nv_program, base);
    assert_int_equal(own->qmd[37] >> 27, 5); /* BARRIER_COUNT 1215:1211 */
    assert_ptr_equal(nv_program_at(nv_device_of(r.dev), own->code.va), own);
    assert_ptr_equal(nv_program_at(nv_device_of(r.dev),
                                   own->code.va + own->code.size_bytes - 1),
                     own);
    assert_null(nv_program_at(nv_device_of(r.dev),
                              own->code.va + own->code.size_bytes));
    assert_null(nv_program_at(nv_device_of(r.dev), own->code.va - 1));
    hcq_program_destroy(prog);
    memcpy(desc.local, (const uint32_t[]){257, 1, 1}, 12);
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "257x1x1 threads in a block");
    memcpy(attr_of(&b, 4, 0x2f, 8) + 8, (const uint32_t[]){16}, 4);
    memcpy(desc.local, (const uint32_t[]){64, 17, 1}, 12);
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "1088 work-items in a group");
    render_binary_fini(&b);
    /* compiled for one size alone */
    b = pack_shape(&desc, hundred);
    memcpy(desc.local, hundred, 12);
    expect_ok(hcq_program_create(r.dev, &desc, &prog));
    hcq_program_destroy(prog);
    memcpy(desc.local, bound, 12);
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "compiled for 100x1x1");
    /* compiled for at most that */
    attr_of(&b, 4, 0x10, 12)[1] = 0x05;
    memset(desc.local, 0, sizeof(desc.local));
    expect_ok(hcq_program_create(r.dev, &desc, &prog));
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_exec(cs, prog, args, 2, one, local);
    expect_ok(hcq_cs_submit(cs, NULL));
    local[0] = 101;
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_exec(cs, prog, args, 2, one, local);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "takes 100");
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    hcq_program_destroy(prog);
    render_binary_fini(&b);
    close_rig(&r);
}

/* ---- limits of the rings ------------------------------------------------- */

/* Methods beyond what one ring entry can name. */
static void
long_stream(void **state)
{
    enum {
        N = 360000
    };
    struct rig r = open_shape_rig("NV@sim:sm_90");
    struct hcq_stream *stream;
    uint32_t i;

    (void)state;
    expect_ok(hcq_stream_create(r.copy, "long", &stream));
    for (i = 0; i < N; i++)
        hcq_cs_write(hcq_stream_cs(stream), r.out->va + i % 8192 * 8, i, 64);
    expect_ok(hcq_stream_end(stream));
    assert_int_equal(
        HCQ_CONTAINER(stream->form, struct nv_stream, base)->n_segments, 2);
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    for (i = N - 8192; i < N; i++)
        assert_int_equal(value_at(&r, i % 8192), i);
    close_rig(&r);
}

/* A program that is loaded makes compute queues invalidate caches. A copy queue
 * has nothing to do for it: no entry of no words, which would be one of the
 * ring's own control commands. */
static void
copies_after_programs(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_90");
    const struct nv_channel *channel = &nv_queue_of(r.copy)->channel;
    struct hcq_program *prog;
    struct hcq_stream *stream;
    uint32_t put, n_entries[3], i;

    (void)state;
    expect_ok(hcq_stream_create(r.copy, "copies", &stream));
    hcq_cs_write(hcq_stream_cs(stream), r.out->va, 7, 64);
    expect_ok(hcq_stream_end(stream));
    for (i = 0; i < ARRAY_LEN(n_entries); i++) {
        prog = i == 2 ? load_shape(r.dev, 16) : NULL;
        put = channel->put;
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        n_entries[i] = channel->put - put;
    }
    assert_int_equal(n_entries[0], n_entries[1] + 1); /* what sets it up */
    assert_int_equal(n_entries[2], n_entries[1]);
    assert_int_equal(value_at(&r, 0), 7);
    hcq_program_destroy(prog);
    close_rig(&r);
}

static void
many_submissions(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_90");
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COMPUTE,
        .submit_timeout_ns = 20000000,
    };
    bell_status status = BELL_OK;
    struct hcq_queue *queue;
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t n = 0;

    (void)state;
    expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
    go = hold(&r, queue);
    while (status == BELL_OK && n < 10000) {
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_write(cs, r.out->va, ++n, 32);
        status = hcq_cs_submit(cs, NULL);
    }
    expect_fails(status, BELL_E_TIMEOUT, "no room for more than 512");
    expect_fails(status, BELL_E_TIMEOUT, "wait for signal");
    assert_int_equal(n, 512);
    hcq_signal_set(go, 1);
    expect_ok(hcq_queue_wait(queue, LONG_NS));
    assert_int_equal((uint32_t)value_at(&r, 0), 511);
    close_rig(&r);
}

/* ---- what is refused ----------------------------------------------------- */

static void
refused(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_80");
    struct hcq_program *large = load_shape(r.dev, 255);
    const uint32_t one[] = {1, 1, 1}, local[] = {512, 1, 1};
    const uint64_t args[2] = {r.out->va, 1};
    struct hcq_stream *stream;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_exec(cs, large, args, 2, one, local);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                 "512x1x1 work-items in a group; NV:0@sim:sm_80 takes 256 "
                 "of this program");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_copy(cs, 1ull << 49, r.out->va, 4);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                 "addresses less than 0x2000000000000");
    expect_ok(hcq_stream_create(r.queue, "last", &stream));
    hcq_cs_copy(hcq_stream_cs(stream), (1ull << 49) - 4, r.out->va, 4);
    expect_ok(hcq_stream_end(stream));
    hcq_stream_destroy(stream);
    expect_ok(hcq_stream_create(r.queue, "behind", &stream));
    hcq_cs_copy(hcq_stream_cs(stream), (1ull << 49) - 3, r.out->va, 4);
    expect_fails(hcq_stream_end(stream), BELL_E_INVALID,
                 "copy to of 4 bytes at 0x1fffffffffffd");
    hcq_stream_destroy(stream);
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_poll(cs, 1ull << 40, UINT32_MAX, 1);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "poll of 4 bytes");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_exec(cs, large, args, 2, one, one);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    assert_int_equal(value_at(&r, 0), 1 + 100 + 1);
    close_rig(&r);
}

/* What a patch may give an address: as far as the engine that uses it. */
static void
patched_addresses(void **state)
{
    struct rig r = open_shape_rig("NV@sim:sm_80");
    const uint64_t host_end = 1ull << 40, copy_end = 1ull << 49;
    struct hcq_stream *stream;
    struct hcq_signal *sig;
    uint32_t p[3];

    (void)state;
    expect_ok(hcq_signal_create(r.dev, 0, &sig));
    expect_ok(hcq_stream_create(r.queue, "far", &stream));
    p[0] = hcq_stream_patch_point(stream, "time");
    p[1] = hcq_stream_patch_point(stream, "signal");
    p[2] = hcq_stream_patch_point(stream, "fill");
    hcq_cs_timestamp(hcq_stream_cs(stream), sig);
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ADDR, p[0], 0);
    hcq_cs_signal(hcq_stream_cs(stream), sig, 1);
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ADDR, p[1], 0);
    hcq_cs_fill(hcq_stream_cs(stream), r.out->va, 0, 4);
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ADDR, p[2], 0);
    expect_ok(hcq_stream_end(stream));
    /* The time lies behind the value. */
    expect_fails(hcq_stream_patch(stream, p[0], host_end - 16), BELL_E_INVALID,
                 "patch 'time'");
    expect_ok(hcq_stream_patch(stream, p[0], host_end - 32));
    expect_fails(hcq_stream_patch(stream, p[0], sig->va + 8), BELL_E_INVALID,
                 "a multiple of 16");
    expect_fails(hcq_stream_patch(stream, p[1], host_end), BELL_E_INVALID,
                 "patch 'signal'");
    expect_ok(hcq_stream_patch(stream, p[1], host_end - 8));
    expect_fails(hcq_stream_patch(stream, p[2], copy_end), BELL_E_INVALID,
                 "patch 'fill'");
    expect_ok(hcq_stream_patch(stream, p[2], copy_end - 4));
    expect_ok(hcq_stream_patch(stream, p[0], sig->va));
    expect_ok(hcq_stream_patch(stream, p[1], sig->va));
    expect_ok(hcq_stream_patch(stream, p[2], r.out->va));
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_signal_wait(sig, 1, LONG_NS));
    assert_true(hcq_signal_timestamp(sig) != 0);
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    hcq_stream_destroy(stream);
    hcq_signal_destroy(sig);
    close_rig(&r);
}

/* ---- descriptors --------------------------------------------------------- */

enum {
    LAUNCH_DW = 1024
};

/* Descriptor and bank 0 of a launch as text: "INDEX:WORD " of each word that
 * is not 0. */
static void
print_launch(struct hcq_device *dev, const struct nv_container_desc *d,
             const struct hcq_program_desc *desc, const struct nv_after *after,
             char *text, size_t size_bytes)
{
    static const uint32_t grid[3] = {3, 4, 5}, local[3] = {16, 2, 1};
    static const uint64_t args[2] = {0x1111222233334444, 0x5555666677778888};
    static uint32_t words[2][LAUNCH_DW];
    struct hcq_program_desc with = *desc;
    struct render_binary binary;
    struct hcq_program *progs[2];
    uint32_t i, n_bytes = 0;
    size_t n = 0;

    expect_ok(render_nv_container(d, &binary));
    with.binary = binary.data;
    with.binary_size_bytes = binary.size_bytes;
    for (i = 0; i < 2; i++) {
        const struct nv_program *own;

        expect_ok(hcq_program_create(dev, &with, &progs[i]));
        own =
            HCQ_CONTAINER(HCQ_CONTAINER(progs[i], struct hcq_program_base, pub),
                          const struct nv_program, base);
        n_bytes = own->data_bytes;
        assert_true(n_bytes <= sizeof(words[i]));
        memset(words[i], 0, sizeof(words[i]));
        nv_launch_write(own, grid, local, args, 2, 0x1234567000,
                        (uint8_t *)words[i], after);
    }
    /* Values that follow from the program's address differ from its twin's. */
    for (i = 0; i < n_bytes / 4 && n < size_bytes; i++) {
        if (words[0][i] != words[1][i])
            n += (size_t)snprintf(text + n, size_bytes - n, "%u:* ", i);
        else if (words[0][i])
            n += (size_t)snprintf(text + n, size_bytes - n, "%u:%x ", i,
                                  words[0][i]);
    }
    assert_true(n < size_bytes);
    hcq_program_destroy(progs[0]);
    hcq_program_destroy(progs[1]);
    render_binary_fini(&binary);
}

/* Every word of what a launch gives the card: a change must be meant. */
static void
descriptors(void **state)
{
    static const char *const golden[][2] = {
        {
            "4:7f 5:3c000000 11:4010000 12:3 13:4 14:5 17:54240400 "
            "18:100030 19:10002 20:121001 24:cdef0120 25:a08000ab "
            "26:99aabbcc 32:34567100 33:bc0012 48:* 49:10 51:80000000 64:10 "
            "65:2 66:1 67:3 68:4 69:5 71:7294 73:7293 74:fffdc0 131:8 "
            "133:400 152:33334444 153:11112222 154:77778888 155:55556666 ",
            "4:7f 5:3c000000 11:4010000 12:3 13:4 14:5 15:12345673 16:17 "
            "17:54242380 18:100030 19:10002 20:544d01 23:18000000 "
            "32:34567100 33:bc0012 48:* 49:10 50:2a0 51:80000000 64:10 65:2 "
            "66:1 67:3 68:4 69:5 71:7294 73:7293 74:fffdc0 75:bb8 131:8 "
            "133:400 152:33334444 153:11112222 154:77778888 155:55556666 ",
        },
        {
            "4:7f 5:3c000000 11:4010000 12:3 13:4 14:5 17:34240400 "
            "18:100030 19:10002 20:121001 24:cdef0120 25:a08000ab "
            "26:99aabbcc 32:34567100 33:bc0012 48:* 49:10 51:89000000 64:10 "
            "65:2 66:1 67:3 68:4 69:5 71:7294 73:7293 74:fffdc0 131:8 "
            "133:400 152:33334444 153:11112222 154:77778888 155:55556666 ",
            "4:7f 5:3c000000 11:4010000 12:3 13:4 14:5 15:12345673 16:17 "
            "17:34242380 18:100030 19:10002 20:344d01 23:18000000 "
            "32:34567100 33:bc0012 48:* 49:10 50:2a0 51:89000000 64:10 65:2 "
            "66:1 67:3 68:4 69:5 71:7294 73:7293 74:fffdc0 75:bb8 131:8 "
            "133:400 152:33334444 153:11112222 154:77778888 155:55556666 ",
        },
        {
            "0:1000000 10:1005 13:b 16:90000000 17:1000000 18:3c040040 "
            "19:9e89 20:cdef0120 21:ab 22:99aabbcc 32:3 33:4 34:5 35:10000 "
            "36:20010 37:100001 38:* 39:10 48:48d159c8 49:1100000 128:10 "
            "129:2 130:1 131:3 132:4 133:5 135:7294 137:7293 138:fffdc0 "
            "195:8 197:400 230:34567410 231:12 260:33334444 261:11112222 "
            "262:77778888 263:55556666 ",
            "0:1000000 11:40170000 13:b 14:12345675 16:90000000 17:10002a0 "
            "18:3c240040 19:3ae89 32:3 33:4 34:5 35:30000 36:20010 "
            "37:184d0001 38:* 39:10 48:48d159c8 49:1100000 128:10 129:2 "
            "130:1 131:3 132:4 133:5 135:7294 137:7293 138:fffdc0 139:bb8 "
            "195:8 197:480 230:34567410 231:12 260:33334444 261:11112222 "
            "262:77778888 263:55556666 ",
        },
        {
            "4:11f0000 9:1005 14:8500100 15:cdef0120 16:ab 17:99aabbcc "
            "19:10000 32:* 33:1 34:20010 35:1001 36:4b44808 39:3 40:4 41:5 "
            "42:48d159c8 43:1c80000 58:9 219:400 308:8 317:7294 319:7293 "
            "338:34567580 339:12 344:10 345:2 346:1 348:3 349:4 350:5 "
            "351:fffdc0 352:33334444 353:11112222 354:77778888 355:55556666 ",
            "4:11f0000 10:170000 12:12345676 14:8500100 19:10000 32:* 33:1 "
            "34:20010 35:64d01 36:d344848 37:2a0000 39:3 40:4 41:5 "
            "42:48d159c8 43:1c80000 58:9 219:480 299:bb8 308:8 317:7294 "
            "319:7293 338:34567580 339:12 344:10 345:2 346:1 348:3 349:4 "
            "350:5 351:fffdc0 352:33334444 353:11112222 354:77778888 "
            "355:55556666 ",
        },
    };
    static char text[8192], shape[2048];
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "shape",
        .n_bufs = 1,
        .n_vals = 1,
    };
    uint32_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cards); i++) {
        struct hcq_device *dev;

        expect_ok(hcq_device_open(cards[i], &dev));
        for (k = 0; k < 2; k++) {
            uint32_t sm = nv_device_of(dev)->chip.sm;
            const struct nv_container_desc rows[] = {
                {.n_params = 2, .n_regs = 16},
                {.n_params = 2,
                 .n_regs = 77,
                 .shared_bytes = 5000,
                 .has_dynamic = true,
                 .stack_bytes = 72,
                 .n_barriers = 3,
                 .reqntid = {16, 2, 1}},
            };
            struct nv_container_desc d = rows[k];
            struct hcq_program_desc with = desc;
            struct nv_after after = {0};

            snprintf(shape, sizeof(shape), shape_text,
                     sm >= 100 ? "8.7" : "7.8", sm);
            d.entry = "shape";
            d.sm = sm;
            d.text = shape;
            with.shared_bytes = k ? 3000 : 0;
            after.links = k == 1;
            after.release_va = k == 0 ? 0xabcdef0120 : 0;
            after.release_value = 0x99aabbcc;
            print_launch(dev, &d, &with, &after, text, sizeof(text));
            if (strcmp(text, golden[i][k]) != 0)
                fail_msg("%s, %u:\n%s\nnot\n%s", cards[i], k, text,
                         golden[i][k]);
        }
        hcq_device_close(dev);
    }
}

/* ---- how many words ------------------------------------------------------ */

/* Words of the last submission in the pushbuffer. */
static unsigned
last_words(const struct hcq_queue *queue)
{
    const struct nv_channel *channel =
        &HCQ_CONTAINER(queue, const struct nv_queue, base)->channel;
    uint32_t last = (channel->put - 1) & (channel->n_entries - 1);

    return nv_unpack_host_gp_entry(NV_HOST_GEN_C56F, channel->ring[last])
        .length;
}

/* A command of each kind alone: what its submission takes. */
static void
put_command(const struct rig *r, struct hcq_cs *cs, struct hcq_signal *sig,
            unsigned which)
{
    uint64_t va = r->out->va;

    switch (which) {
    case 0:
    case 1: /* the second needs nothing before it */
        exec_shape(cs, r, 1, 2, 8);
        break;
    case 2:
        exec_shape(cs, r, 1, 2, 8);
        hcq_cs_signal(cs, sig, 1);
        break;
    case 3:
        hcq_cs_copy(cs, va + 0x2000, va, 4096);
        break;
    case 4:
        hcq_cs_copy(cs, va + 0x2001, va + 3, 5);
        break;
    case 5:
        hcq_cs_fill(cs, va, 7, 256);
        break;
    case 6:
        hcq_cs_write(cs, va, 7, 32);
        break;
    case 7:
        hcq_cs_write(cs, va, 7, 64);
        break;
    case 8:
        hcq_cs_barrier(cs);
        break;
    case 9:
        hcq_cs_wait(cs, sig, 1);
        break;
    case 10:
        hcq_cs_timestamp(cs, sig);
        break;
    case 11:
        hcq_cs_poll(cs, va + 0x8000, UINT32_MAX, 0);
        break;
    default:
        break;
    }
}

static void
words_of_commands(void **state)
{
    static const struct {
        const char *card, *compute, *copy;
    } rows[] = {
        {"NV@sim:sm_80", "30 10 16 17 17 18 12 12 15 12 12 12 ",
         "17 15 16 12 12 13 12 12 12 "},
        {"NV@sim:sm_90", "24 6 18 17 17 18 12 12 15 12 12 12 ",
         "17 15 16 12 12 13 12 12 12 "},
        {"NV@sim:sm_120", "30 10 16 17 17 18 12 12 10 12 12 12 ",
         "17 15 16 12 12 8 12 12 12 "},
    };
    char text[256];
    unsigned i, k, is_copy;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        struct rig r = open_shape_rig(rows[i / 2].card);
        const char *want;
        struct hcq_queue *queue;
        struct hcq_signal *sig;
        struct hcq_cs *cs;
        size_t n = 0;

        is_copy = i % 2;
        want = is_copy ? rows[i / 2].copy : rows[i / 2].compute;
        queue = is_copy ? r.copy : r.queue;
        expect_ok(hcq_signal_create(r.dev, 1, &sig));
        for (k = is_copy ? 3 : 0; k < 12; k++) {
            expect_ok(hcq_queue_begin(queue, &cs));
            put_command(&r, cs, sig, k);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_queue_wait(queue, LONG_NS));
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%u ",
                                  last_words(queue));
        }
        hcq_signal_destroy(sig);
        if (strcmp(text, want) != 0)
            fail_msg("%s: %s\nnot %s", rows[i / 2].card, text, want);
        close_rig(&r);
    }
}

/* A time that is stored has waited for the kernels before it, a barrier too:
 * behind either nothing more is waited for. */
static void
waits_once(void **state)
{
    static const char *const orders[] = {"eb", "bt", "tb", "ebt", "etb"};
    struct rig r = open_shape_rig("NV@sim:sm_90");
    uint32_t n[ARRAY_LEN(orders)];
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    const char *c;
    size_t i;

    (void)state;
    expect_ok(hcq_signal_create(r.dev, 0, &sig));
    for (i = 0; i < ARRAY_LEN(orders); i++) {
        expect_ok(hcq_queue_begin(r.queue, &cs));
        for (c = orders[i]; *c; c++) {
            if (*c == 'e')
                exec_shape(cs, &r, 1, 2, 8);
            else if (*c == 'b')
                hcq_cs_barrier(cs);
            else
                hcq_cs_timestamp(cs, sig);
        }
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_wait(r.queue, LONG_NS));
        n[i] = last_words(r.queue);
    }
    assert_int_equal(n[1], n[2]);
    assert_int_equal(n[3], n[4] + NV_IDLE_DW);
    hcq_signal_destroy(sig);
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
        cmocka_unit_test(reports_name_commands),
        cmocka_unit_test(kernels_are_told),
        cmocka_unit_test(faults_on_every_sm),
        cmocka_unit_test(texts_of_commands),
        cmocka_unit_test(pushes_are_told),
        cmocka_unit_test(threads_by_registers),
        cmocka_unit_test(shared_memory_of_an_sm),
        cmocka_unit_test(places_of_parameters),
        cmocka_unit_test(text_for_real_cards),
        cmocka_unit_test(entry_behind_others),
        cmocka_unit_test(sizes_of_blocks),
        cmocka_unit_test(other_chip),
        cmocka_unit_test(long_stream),
        cmocka_unit_test(copies_after_programs),
        cmocka_unit_test(many_submissions),
        cmocka_unit_test(refused),
        cmocka_unit_test(patched_addresses),
        cmocka_unit_test(descriptors),
        cmocka_unit_test(words_of_commands),
        cmocka_unit_test(waits_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
