/* The PTX interpreter: what lanes and warps do together, branches, memory in
 * all spaces, variables of modules, special registers, races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "ptx_run.h"

static void
run_ok(const char *text, void *data, size_t size, uint32_t blocks,
       uint32_t threads)
{
    struct ptx_run run = {.text = text,
                          .data = data,
                          .data_bytes = size,
                          .blocks = blocks,
                          .threads = threads,
                          .page_bytes = 16};

    ptx_run_ok(&run);
}

/* ---- lanes ---- */

static void
test_votes(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START
        "and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 3;\n"
        "setp.lt.u32 %p2, %r1, 1000;\n"
        "vote.sync.ballot.b32 %r3, %p1, -1;\n"
        "st.global.u32 [%rd2], %r3;\n"
        "vote.sync.all.pred %p3, %p2, -1; selp.u32 %r4, 1, 0, %p3;\n"
        "vote.sync.any.pred %p3, !%p2, -1; @%p3 add.u32 %r4, %r4, 2;\n"
        "vote.sync.uni.pred %p3, %p1, -1; @%p3 add.u32 %r4, %r4, 4;\n"
        "vote.sync.uni.pred %p3, %p2, -1; @%p3 add.u32 %r4, %r4, 8;\n"
        "st.global.u32 [%rd2+256], %r4;\n"
        "@%p1 activemask.b32 %r4; st.global.u32 [%rd2+512], %r4;\n");
    uint32_t data[192], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 64);
    for (i = 0; i < 64; i++) {
        assert_int_equal(data[i], 0x88888888);
        assert_int_equal(data[64 + i], 9);
        assert_int_equal(data[128 + i], i % 4 == 3 ? 0x88888888 : 9);
    }
}

static void
test_match_and_redux(void **state)
{
    static const char whole[] = PTX_KERNEL(
        PTX_START
        "and.b32 %r2, %r1, 7; match.any.sync.b32 %r3, %r2, -1;\n"
        "st.global.u32 [%rd2], %r3; cvt.u64.u32 %rd3, %r2;\n"
        "match.all.sync.b64 %r4|%p1, %rd3, -1;\n"
        "match.all.sync.b32 %r5|%p2, 5, -1; selp.u32 %r6, 1, 0, %p1;\n"
        "@%p2 add.u32 %r6, %r6, 2; add.u32 %r6, %r6, %r5;\n"
        "add.u32 %r6, %r6, %r4; st.global.u32 [%rd2+128], %r6;\n"
        "sub.s32 %r7, %r1, 9; redux.sync.min.s32 %r8, %r7, -1;\n"
        "redux.sync.add.u32 %r9, %r1, -1;\n"
        "st.global.u32 [%rd2+256], %r8; st.global.u32 [%rd2+384], %r9;\n");
    static const char halves[] = PTX_KERNEL(
        PTX_START "setp.lt.u32 %p1, %r1, 16; mov.u32 %r2, 0xffff0000;\n"
                  "@%p1 mov.u32 %r2, 0x0000ffff;\n"
                  "redux.sync.max.u32 %r3, %r1, %r2;\n"
                  "shfl.sync.idx.b32 %r4, %r1, 3, 0x101f, %r2;\n"
                  "shl.b32 %r4, %r4, 8; or.b32 %r3, %r3, %r4;\n"
                  "st.global.u32 [%rd2], %r3;\n");
    uint32_t data[128], i;

    (void)state;
    run_ok(halves, data, sizeof(data), 1, 32);
    for (i = 0; i < 32; i++)
        assert_int_equal(data[i], i < 16 ? 15 | 3 << 8 : 31 | 19 << 8);
    run_ok(whole, data, sizeof(data), 1, 32);
    for (i = 0; i < 32; i++) {
        assert_int_equal(data[i], 0x01010101u << (i & 7));
        assert_int_equal(data[32 + i], 2 + UINT32_MAX);
        assert_int_equal((int32_t)data[64 + i], -9);
        assert_int_equal(data[96 + i], 31 * 16);
    }
}

/* Lanes that went different ways meet again at a shuffle, wherever it is:
 * those that come first wait. */
static void
test_lanes_wait(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; mov.u32 %r5, 0;\n"
        "@%p1 bra odd;\n"
        "even: add.u32 %r5, %r5, 1; bra meet;\n"
        "odd: setp.lt.u32 %p2, %r5, 100; @%p2 add.u32 %r5, %r5, 7;\n"
        "@%p2 bra odd; bra meet;\n"
        "meet: shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;\n"
        "bar.warp.sync -1; st.global.u32 [%rd2], %r6; ret;\n");
    static const char leave[] =
        PTX_KERNEL(PTX_START "setp.gt.u32 %p1, %r1, 20; @%p1 exit;\n"
                             "vote.sync.ballot.b32 %r2, 1, -1;\n"
                             "bar.sync 0; st.global.u32 [%rd2], %r2;");
    uint32_t data[32], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 32);
    for (i = 0; i < 32; i++)
        assert_int_equal(data[i], i % 2 ? 1 : 105);
    run_ok(leave, data, sizeof(data), 1, 32);
    for (i = 0; i <= 20; i++)
        assert_int_equal(data[i], (1u << 21) - 1);
}

/* A lane waits for what another lane of its warp does further down. */
static void
test_spinning_lanes(void **state)
{
    static const char text[] =
        PTX_KERNEL(PTX_START "setp.eq.u32 %p1, %r1, 5; @%p1 bra give;\n"
                             "spin: ld.volatile.global.u32 %r2, [%rd1];\n"
                             "setp.eq.u32 %p2, %r2, 0; @%p2 bra spin; ret;\n"
                             "give: st.volatile.global.u32 [%rd1], 1;\n");
    uint32_t data[1] = {0};

    (void)state;
    run_ok(text, data, sizeof(data), 1, 32);
    assert_int_equal(data[0], 1);
}

static void
test_tables(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START "table: .branchtargets a, b, c, a;\n"
                  "and.b32 %r2, %r1, 3; mov.u32 %r3, 0;\n"
                  "setp.ne.u32 %p1, %r1, 9; @%p1 brx.idx %r2, table;\n"
                  "mov.u32 %r3, 99; bra end;\n"
                  "a: add.u32 %r3, %r3, 10; bra end;\n"
                  "b: add.u32 %r3, %r3, 20; bra end;\n"
                  "c: add.u32 %r3, %r3, 30;\n"
                  "end: st.global.u32 [%rd2], %r3;");
    static const uint32_t want[] = {10, 20, 30, 10};
    uint32_t data[40], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 40);
    for (i = 0; i < 40; i++)
        assert_int_equal(data[i], i == 9 ? 99 : want[i & 3]);
}

/* ---- barriers ---- */

static void
test_barriers(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START
        ".shared .b32 s[4]; setp.lt.u32 %p1, %r1, 40;\n"
        "bar.red.popc.u32 %r2, 0, %p1; barrier.cta.red.and.pred %p2, 1, %p1;\n"
        "bar.red.or.pred %p3, 2, !%p1; selp.u32 %r3, 100, 0, %p2;\n"
        "@%p3 add.u32 %r3, %r3, 200; add.u32 %r2, %r2, %r3;\n"
        "setp.ge.u32 %p4, %r1, 32; @%p4 bra take;\n"
        "st.shared.u32 [s], %r2; bar.arrive 3, 64; bra end;\n"
        "take: bar.sync 3, 64; ld.shared.u32 %r2, [s];\n"
        "end: barrier.sync.aligned 0; st.global.u32 [%rd2], %r2;");
    uint32_t data[64], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 64);
    for (i = 0; i < 64; i++)
        assert_int_equal(data[i], 240);
}

/* ---- memory ---- */

static void
test_variables(void **state)
{
    static const char text[] = PTX_HEAD
        ".const .align 8 .u32 squares[4] = {0, 1, 4, 9};\n"
        ".const .f64 one = 0d3ff0000000000000;\n"
        ".global .align 16 .u32 counts[2][2] = {{5, 6}, {7, -8}};\n"
        ".visible .global .u32 sum;\n"
        ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n" PTX_START
        "and.b32 %r2, %r1, 3; shl.b32 %r3, %r2, 2; cvt.u64.u32 %rd3, %r3;\n"
        "mov.u64 %rd4, squares; add.u64 %rd5, %rd4, %rd3;\n"
        "ld.const.u32 %r4, [%rd5]; ld.const.u32 %r5, [one+4];\n"
        "mov.u64 %rd6, counts; add.u64 %rd7, %rd6, %rd3;\n"
        "ld.global.nc.L1::no_allocate.L2::128B.u32 %r6, [%rd7];\n"
        "ld.global.cg.v2.u32 {%r7, %r8}, [counts+8];\n"
        "red.relaxed.gpu.global.add.u32 [sum], 1;\n"
        "add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r8;\n"
        "prefetch.global.L2 [%rd6]; st.global.u32 [%rd2], %r4;\n"
        "bar.sync 0; ld.acquire.gpu.global.u32 %r9, [sum];\n"
        "st.release.gpu.global.u32 [%rd2+160], %r9; fence.sc.sys;\n}\n";
    static const int counts[] = {5, 6, 7, -8};
    uint32_t data[80], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 40);
    for (i = 0; i < 40; i++) {
        assert_int_equal(data[i], (i & 3) * (i & 3) + 0x3ff00000 +
                                      (uint32_t)counts[i & 3] - 8);
        assert_int_equal(data[40 + i], 40);
    }
}

static void
test_module_info(void **state)
{
    static const char text[] =
        PTX_HEAD ".const .u8 a = 3; .const .align 8 .u16 b[3];\n"
                 ".global .align 64 .u32 z[5];\n.entry k() { ret; }\n"
                 ".entry l() { ret; }\n";
    struct sim_ptx_module_info info;
    struct sim_ptx_module *m;

    (void)state;
    assert_int_equal(sim_ptx_parse(text, &m), BELL_OK);
    sim_ptx_module_info(m, &info);
    assert_int_equal(info.n_kernels, 2);
    assert_int_equal(info.const_bytes, 14);
    assert_int_equal(info.const_align, 8);
    assert_int_equal(((const uint8_t *)info.const_init)[0], 3);
    assert_int_equal(info.global_bytes, 20);
    assert_int_equal(info.global_align, 64);
    assert_true(info.is_global_zero);
    sim_ptx_destroy(m);
}

static void
test_atomics(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START
        ".reg .b16 %h<4>;\n"
        "atom.global.inc.u32 %r2, [%rd1], 9; atom.global.dec.u32 %r2, "
        "[%rd1+4], 9;\n"
        "red.global.add.f32 [%rd1+8], 0f3f800000;\n"
        "red.global.add.f64 [%rd1+16], 0d3ff0000000000000;\n"
        "mov.b32 %r3, 0x3c004000; red.global.add.noftz.f16x2 [%rd1+24], %r3;\n"
        "mov.b16 %h1, 0x3f80; red.global.add.noftz.bf16 [%rd1+28], %h1;\n"
        "atom.acq_rel.sys.global.or.b64 %rd3, [%rd1+32], 5;\n"
        "atom.global.exch.b32 %r4, [%rd1+40], %r1;\n"
        "red.global.min.s64 [%rd1+48], -7; red.global.max.u64 [%rd1+56], 9;\n"
        "cvt.u16.u32 %h2, %r1; atom.global.cas.b16 %h3, [%rd1+64], 0, %h2;\n"
        ".shared .u32 s[2]; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s], "
        "0;\n"
        "bar.sync 0; atom.shared.add.u32 %r5, [s], 2; bar.sync 0;\n"
        "@%p1 ld.shared.u32 %r6, [s]; @%p1 st.global.u32 [%rd1+68], %r6;");
    uint32_t data[20] = {0}, i;
    float f;
    double d;

    (void)state;
    data[12] = data[13] = 0;
    run_ok(text, data, sizeof(data), 1, 96);
    assert_int_equal(data[0], 96 % 10);
    assert_int_equal(data[1], (10 - 96 % 10) % 10);
    memcpy(&f, &data[2], 4);
    memcpy(&d, &data[4], 8);
    assert_true(f == 96 && d == 96);
    assert_int_equal(data[6], 0x5600u << 16 | 0x5a00); /* 96 and 192 */
    assert_int_equal(data[7], 0x42c0);                 /* 96 */
    assert_int_equal(data[8], 5);
    assert_true(data[10] < 96);
    assert_int_equal((int32_t)data[12], -7);
    assert_int_equal(data[14], 9);
    i = data[16] & 0xffff;
    assert_true(i < 96);
    assert_int_equal(data[17], 192);
}

/* One access whose lanes go to shared, local and global memory. */
static void
test_generic(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START
        ".shared .align 4 .b8 s[128]; .local .align 4 .b8 l[4];\n"
        "mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3;\n"
        "st.shared.u32 [%r2], 1000; st.local.u32 [l], 2000;\n"
        "st.global.u32 [%rd2], 3000; cvt.u64.u32 %rd3, %r2;\n"
        "cvta.shared.u64 %rd4, %rd3; mov.u64 %rd5, l; cvta.local.u64 %rd5, "
        "%rd5;\n"
        "cvta.global.u64 %rd6, %rd2; rem.u32 %r4, %r1, 3;\n"
        "setp.eq.u32 %p1, %r4, 0; selp.u64 %rd7, %rd4, %rd5, %p1;\n"
        "setp.eq.u32 %p2, %r4, 1; selp.u64 %rd7, %rd6, %rd7, %p2;\n"
        "isspacep.shared %p3, %rd7; isspacep.local %p4, %rd7;\n"
        "isspacep.global %p5, %rd7; ld.u32 %r5, [%rd7];\n"
        "@%p3 add.u32 %r5, %r5, 1; @%p4 add.u32 %r5, %r5, 2;\n"
        "@%p5 add.u32 %r5, %r5, 3; st.global.u32 [%rd2], %r5;");
    uint32_t data[32], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 32);
    for (i = 0; i < 32; i++)
        assert_int_equal(data[i], i % 3 == 0 ? 1001 : i % 3 == 1 ? 3003 : 2002);
}

static void
test_special_registers(void **state)
{
    static const char text[] = PTX_HEAD
        ".extern .shared .align 16 .b8 dyn[];\n"
        ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n" PTX_START
        ".shared .b8 s[20];\n"
        "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ntid.x;\n"
        "mov.u32 %r5, %laneid; mov.u32 %r6, %warpid; mov.u32 %r7, %nwarpid;\n"
        "mov.u32 %r8, %lanemask_lt; mov.u32 %r9, %lanemask_ge;\n"
        "xor.b32 %r8, %r8, %r9; mov.u32 %r10, %lanemask_eq;\n"
        "mov.u32 %r11, %lanemask_le; mov.u32 %r12, %lanemask_gt;\n"
        "xor.b32 %r11, %r11, %r12; and.b32 %r8, %r8, %r11;\n"
        "clz.b32 %r10, %r10; mov.u64 %rd3, %clock64; mov.u32 %r13, %clock;\n"
        "mov.u64 %rd4, %globaltimer; mov.u32 %r14, %globaltimer_lo;\n"
        "mov.u64 %rd5, %gridid; mov.u32 %r15, %smid; mov.u32 %r16, %nsmid;\n"
        "mov.u32 %r17, %dynamic_smem_size; mov.u32 %r18, dyn;\n"
        "mov.u32 %r19, %total_smem_size;\n"
        "setp.gt.u64 %p1, %rd4, 0; selp.u32 %r14, 1, 0, %p1;\n"
        "mad.wide.u32 %rd6, %r2, 2048, %rd1; mad.wide.u32 %rd7, %r1, 32, "
        "%rd6;\n"
        "st.global.v4.u32 [%rd7], {%r3, %r4, %r6, %r7};\n"
        "add.u32 %r10, %r10, %r5; add.u32 %r15, %r15, %r16;\n"
        "add.u32 %r17, %r17, %r18; add.u32 %r17, %r17, %r19;\n"
        "st.global.v4.u32 [%rd7+16], {%r8, %r10, %r14, %r17};\n"
        "setp.gt.u32 %p2, %r15, 1; @%p2 trap;\n}\n";
    static uint32_t data[2][64][8];
    struct ptx_run run = {.data = data,
                          .data_bytes = sizeof(data),
                          .blocks = 2,
                          .threads = 64,
                          .dynamic_shared_bytes = 100};
    uint32_t b, i;

    (void)state;
    run.text = text;
    ptx_run_ok(&run);
    for (b = 0; b < 2; b++) {
        for (i = 0; i < 64; i++) {
            const uint32_t want[8] = {2,          64, i / 32, 2,
                                      UINT32_MAX, 31, 1,      100 + 32 + 132};
            assert_memory_equal(data[b][i], want, sizeof(want));
        }
    }
}

/* ---- what it stops at ---- */

static void
test_faults(void **state)
{
    static const struct {
        const char *text;
        enum sim_ptx_fault fault;
        uint32_t threads;
        const char *message;
    } rows[] = {
        {PTX_KERNEL(PTX_START "trap;"), SIM_PTX_TRAP, 1, "a trap"},
        {PTX_KERNEL(PTX_START ".shared .u32 s[64]; ld.shared.u32 %r2, [s];"),
         SIM_PTX_UNDEFINED, 1, "nobody has written"},
        {PTX_KERNEL(PTX_START
                    ".shared .u32 s[64]; shl.b32 %r3, %r1, 2; mov.u32 %r2, s;\n"
                    "add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;\n"
                    "ld.shared.u32 %r4, [s];"),
         SIM_PTX_RACE, 64, "another warp has written"},
        {PTX_KERNEL(PTX_START
                    ".shared .u32 s[64]; shl.b32 %r3, %r1, 2; mov.u32 %r2, s;\n"
                    "add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;\n"
                    "bar.sync 0; ld.shared.u32 %r4, [s+128];\n"
                    "st.shared.u32 [%r2], 5;"),
         SIM_PTX_RACE, 64, "another warp has read"},
        {PTX_KERNEL(PTX_START ".shared .u8 s[4]; cvt.u64.u32 %rd3, %r1;\n"
                              "st.shared.u32 [s], %r1;"),
         SIM_PTX_RACE, 64, "another warp has written"},
        {PTX_KERNEL(PTX_START "setp.lt.u32 %p1, %r1, 5; @%p1 bra x;\n"
                              "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ret;\n"
                              "x: bar.sync 0; ret;"),
         SIM_PTX_BARRIER, 32, "wait elsewhere"},
        {PTX_KERNEL(PTX_START "redux.sync.max.u32 %r3, %r1, 0xffff;"),
         SIM_PTX_BARRIER, 32, "does not name"},
        {PTX_KERNEL(PTX_START "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
                              "{%rd3, %rd4}, {%rd1}, {%rd1}, {%rd1, %rd1};"),
         SIM_PTX_BARRIER, 20, "all 32 lanes"},
        {PTX_KERNEL(PTX_START
                    "t: .branchtargets x, x; brx.idx %r1, t; x: ret;"),
         SIM_PTX_OUT_OF_RANGE, 3, "past the end"},
        {PTX_KERNEL(PTX_START "ld.param.u32 %r2, [p+16];"),
         SIM_PTX_OUT_OF_RANGE, 1, "outside of the parameters"},
        {PTX_KERNEL(PTX_START ".local .u32 l; ld.local.u32 %r2, [l+4];"),
         SIM_PTX_OUT_OF_RANGE, 1, "local memory"},
    };
    struct sim_ptx_report report;
    uint32_t data[64];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ptx_run run = {.text = rows[i].text,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 1,
                              .threads = rows[i].threads};
        if (ptx_run(&run, &report) != rows[i].fault)
            fail_msg("row %zu: %u", i, report.fault);
        if (!strstr(bell_error_last()->message, rows[i].message))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
}

/* Ways to wait that are not barriers of all: nothing is judged there. */
static void
test_not_judged(void **state)
{
    static const char lock[] = PTX_KERNEL(
        PTX_START
        ".shared .u32 s[2]; setp.ne.u32 %p1, %r1, 0;\n"
        "@!%p1 st.shared.v2.u32 [s], {0, 0}; bar.sync 0;\n"
        "mov.u32 %r9, 0;\n"
        "again: atom.shared.cas.b32 %r2, [s], 0, 1; setp.ne.u32 %p2, %r2, 0;\n"
        "@%p2 bra again; ld.volatile.shared.u32 %r3, [s+4];\n"
        "add.u32 %r3, %r3, 1; st.volatile.shared.u32 [s+4], %r3;\n"
        "fence.acq_rel.cta; atom.shared.exch.b32 %r2, [s], 0;\n"
        "bar.sync 0; ld.shared.u32 %r4, [s+4]; st.global.u32 [%rd2], %r4;");
    static const char same[] =
        PTX_KERNEL(PTX_START ".shared .u32 s[1]; st.shared.u32 [s], 77;\n"
                             "bar.sync 0; ld.shared.u32 %r4, [s]; "
                             "st.global.u32 [%rd2], %r4;");
    uint32_t data[64], i;

    (void)state;
    run_ok(lock, data, sizeof(data), 1, 64);
    for (i = 0; i < 64; i++)
        assert_int_equal(data[i], 64);
    run_ok(same, data, sizeof(data), 1, 64);
    assert_int_equal(data[63], 77);
}

/* ---- stopping, pausing ---- */

struct watch {
    uint32_t data[64];
    uint32_t n_asked, n_paused;
    _Atomic uint32_t stop;
};

static void *
watched_at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    struct watch *w = user;

    (void)n_bytes;
    (void)is_write;
    w->n_asked++;
    return (char *)w->data + (va - PTX_BASE);
}

static bool
pause_sometimes(void *user)
{
    struct watch *w = user;

    if (++w->n_paused == 50)
        atomic_store(&w->stop, 1);
    return w->n_paused % 10 == 0;
}

static uint64_t
fixed_time(void *user)
{
    (void)user;
    return 0x123456789;
}

static void
test_stop_and_pages(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START "mov.u32 %r3, %globaltimer_hi; st.global.u32 [%rd2], %r3;\n"
                  "x: ld.global.u32 %r2, [%rd2]; bra x;");
    struct watch w = {.n_asked = 0};
    uint64_t args[2] = {PTX_BASE, 0};
    struct sim_ptx_launch l = {.args = args,
                               .args_bytes = sizeof(args),
                               .grid = {1, 1, 1},
                               .block = {32, 1, 1},
                               .stop = &w.stop,
                               .time_ns = fixed_time,
                               .mem = {watched_at, &w, 256, pause_sometimes}};
    struct sim_ptx_module *m;
    struct sim_ptx_report report;

    (void)state;
    assert_int_equal(sim_ptx_parse(text, &m), BELL_OK);
    assert_int_equal(sim_ptx_run(m, &l, &report), BELL_E_TIMEOUT);
    assert_int_equal(report.fault, SIM_PTX_STOPPED);
    assert_int_equal(w.n_paused, 50);
    assert_true(report.n_warp_steps < 50 * 256);
    /* once for the store, then once after each tenth pause */
    assert_true(w.n_asked >= 5 && w.n_asked <= 8);
    assert_int_equal(w.data[5], 1);
    sim_ptx_destroy(m);
}

static void
test_refused_launches(void **state)
{
    static const char text[] =
        PTX_HEAD ".const .u32 c = 1; .global .u32 g;\n"
                 ".entry a(.param .u64 p) { .reg .u32 %r; ld.const.u32 %r, "
                 "[c]; }\n.entry b(.param .u64 p) { .reg .u32 %r; "
                 "ld.global.u32 %r, [g]; }\n";
    struct sim_ptx_launch l = {.kernel = "a",
                               .args = text,
                               .args_bytes = 8,
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1}};
    struct sim_ptx_module *m;
    struct sim_ptx_report report;

    (void)state;
    assert_int_equal(sim_ptx_parse(text, &m), BELL_OK);
    assert_int_equal(sim_ptx_run(m, &l, &report), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "constants"));
    l.kernel = "b";
    assert_int_equal(sim_ptx_run(m, &l, &report), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "nowhere"));
    l.global_base = PTX_BASE;
    l.mem.page_bytes = 100;
    assert_int_equal(sim_ptx_run(m, &l, &report), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "pages"));
    l.mem.page_bytes = 0;
    assert_int_equal(sim_ptx_run(m, &l, &report), BELL_E_DEVICE_LOST);
    sim_ptx_destroy(m);
}

/* ---- what is refused ---- */

static void
test_refused_text(void **state)
{
#define OLD(body)                                                              \
    ".version 7.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p, "  \
    ".param .u32 n)\n{\n" PTX_START body "\n}\n"
    static const struct {
        const char *text, *message;
    } rows[] = {
        {OLD("add.rn.bf16x2 %r1, %r1, %r1;"), "from sm_90 on"},
        {OLD("cvt.rn.satfinite.e4m3x2.f32 %r1, %f1, %f1;"), "sm_89"},
        {OLD("cvt.rn.tf32.f32 %r1, %f1;"), "rna"},
        {OLD("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r1};"),
         "sm_90"},
        {OLD("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%rd1,%rd1,"
             "%rd1,%rd1},{%rd1,%rd1},{%rd1},{%rd1,%rd1,%rd1,%rd1};"),
         "newer target"},
        {OLD("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1,%f1,"
             "%f1,%f1},{%r1,%r1,%r1,%r1},{%r1,%r1},{%f1,%f1,%f1,%f1};"),
         "newer target"},
        {OLD("mma.sync.aligned.m16n8k9.row.col.f32.f16.f16.f32 {%f1};"),
         "no such matrix"},
        {OLD("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f1,%f1,"
             "%f1},{%r1},{%r1},{%f1,%f1,%f1,%f1};"),
         "is missing"},
        {OLD("cp.async.cg.shared.global [%r1], [%rd1], 8;"), "16"},
        {OLD("cp.async.ca.shared.global [%r1], [%rd1], 12;"), "4, 8 or 16"},
        {OLD("vote.ballot.b32 %r1, %p1;"), "modifier is missing"},
        {OLD("vote.sync.ballot.pred %p1, %p1, -1;"), "ballot is b32"},
        {OLD("match.any.sync.b32 %r1|%p1, %r1, -1;"), "match.all"},
        {OLD("redux.sync.and.s32 %r1, %r1, -1;"), "not for this type"},
        {OLD("ld.acquire.global.u32 %r1, [%rd1];"), "scope"},
        {OLD("ld.gpu.global.u32 %r1, [%rd1];"), "scope"},
        {OLD("ld.nc.u32 %r1, [%rd1];"), "nc is for"},
        {OLD("st.const.u32 [%rd1], 1;"), "not written"},
        {OLD("ld.release.gpu.global.u32 %r1, [%rd1];"), "in that way"},
        {OLD("atom.global.add.f16x2 %r1, [%rd1], %r1;"), "noftz"},
        {OLD("red.global.exch.b32 [%rd1], %r1;"), "no such operation"},
        {OLD("atom.global.inc.u64 %rd1, [%rd1], 1;"), "not for this type"},
        {OLD("add.u64 %rd1, %clock64, 1;"), "mov only"},
        {OLD("mov.u32 %r1, %clock64;"), "no such register"},
        {OLD("mov.b64 {%r1, %r2, %r3}, %rd1;"), "no such parts"},
        {OLD("lop3.b32 %r1, %r1, %r1, %r1, %r2;"), "constant"},
        {OLD("setp.lt.f16x2 %p1, %r1, %r1;"), "two predicates"},
        {OLD("bar.sync 16;"), "too large"},
        {OLD("bar.arrive 1;"), "is missing"},
        {OLD("brx.idx %r1, nothing;"), "table"},
        {OLD("t: .branchtargets a, b; a: ret;"), "no label b"},
        {OLD("cvta.const.u64 %rd1, %rd1;"), "generic address"},
        {OLD("bra x; { x: ret; }"), "no label x"},
        {PTX_HEAD ".global .u32 a[2] = {1, 2, 3};", "more values"},
        {PTX_HEAD ".global .u32 a[2] = {1, 2;", "is missing"},
        {PTX_HEAD ".global .f32 a = 1;", "another type"},
        {PTX_HEAD ".const .u8 a[70000];", "too many bytes"},
        {PTX_HEAD ".global .u32 a[0];", "of this size"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct sim_ptx_module *module;
        if (sim_ptx_parse(rows[i].text, &module) == BELL_OK) {
            sim_ptx_destroy(module);
            fail_msg("row %zu (%s) is accepted", i, rows[i].message);
        }
        if (!strstr(bell_error_last()->message, rows[i].message))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
}

static void
test_assembler(void **state)
{
    (void)state;
    print_message("%u modules assembled\n", ptx_run_assemble());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_votes),
        cmocka_unit_test(test_match_and_redux),
        cmocka_unit_test(test_lanes_wait),
        cmocka_unit_test(test_spinning_lanes),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_module_info),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_special_registers),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_not_judged),
        cmocka_unit_test(test_stop_and_pages),
        cmocka_unit_test(test_refused_launches),
        cmocka_unit_test(test_refused_text),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
