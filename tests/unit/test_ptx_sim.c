/* The PTX interpreter by itself: kernels as people write them, what it
 * refuses to read, what it stops at, and broken text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "sim/ptx/ptx.h"

#define BASE 0x100000000ull

/* One buffer at BASE. */
struct memory {
    void *data;
    uint64_t size;
};

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct memory *m = user;

    (void)is_write;
    if (va < BASE || va - BASE > m->size || n_bytes > m->size - (va - BASE))
        return NULL;
    return (char *)m->data + (va - BASE);
}

#define HEAD ".version 7.8\n.target sm_90\n.address_size 64\n"
#define KERNEL(body)                                                           \
    HEAD ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n" body "\n}\n"
/* %rd1: the buffer; %r1: the thread; %rd2: its 4-byte element */
#define START                                                                  \
    ".reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<8>; .reg .f32 %f<8>;\n" \
    "ld.param.u64 %rd0, [p]; cvta.to.global.u64 %rd1, %rd0;\n"                 \
    "mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1;\n"                  \
    "ld.param.u32 %r0, [n];\n"

/* Runs the text on a buffer; the fault it ends with. */
static enum sim_ptx_fault
run(const char *text, void *data, size_t size, uint32_t blocks,
    uint32_t threads, uint32_t n, struct sim_ptx_report *report)
{
    struct memory m = {data, size};
    struct {
        uint64_t p;
        uint32_t n, pad;
    } args = {BASE, n, 0};
    struct sim_ptx_launch launch = {
        .args = &args,
        .args_bytes = sizeof(args),
        .grid = {blocks, 1, 1},
        .block = {threads, 1, 1},
        .shared_window_va = 0x7f0000000000,
        .local_window_va = 0x7e0000000000,
        .max_warp_steps = 1000000,
        .mem = {at, &m},
    };
    struct sim_ptx_module *module;
    bell_status status;

    if (sim_ptx_parse(text, &module) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    status = sim_ptx_run(module, &launch, report);
    assert_int_equal(status == BELL_OK, report->fault == SIM_PTX_OK);
    sim_ptx_destroy(module);
    return report->fault;
}

static void
run_ok(const char *text, void *data, size_t size, uint32_t blocks,
       uint32_t threads, uint32_t n)
{
    struct sim_ptx_report report;

    if (run(text, data, size, blocks, threads, n, &report) != SIM_PTX_OK)
        fail_msg("%s", bell_error_last()->message);
}

/* ---- kernels ---- */

/* A sum over a block through shared memory and barriers. */
static void
test_block_sum(void **state)
{
    static const char text[] = KERNEL(
        START
        ".shared .align 4 .b8 s[1024];\n"
        "ld.global.u32 %r2, [%rd2]; mov.u32 %r3, s;\n"
        "shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], "
        "%r2;\n"
        "mov.u32 %r5, %ntid.x;\n"
        "loop: bar.sync 0; shr.u32 %r5, %r5, 1; setp.eq.u32 %p1, %r5, 0;\n"
        "@%p1 bra done; setp.ge.u32 %p2, %r1, %r5; @%p2 bra loop;\n"
        "shl.b32 %r6, %r5, 2; add.u32 %r7, %r3, %r6;\n"
        "ld.shared.u32 %r8, [%r7]; ld.shared.u32 %r9, [%r3];\n"
        "add.u32 %r9, %r9, %r8; st.shared.u32 [%r3], %r9; bra.uni loop;\n"
        "done: setp.ne.u32 %p3, %r1, 0; @%p3 ret;\n"
        "ld.shared.u32 %r10, [s]; st.global.u32 [%rd1], %r10; ret;");
    uint32_t data[256], want = 0, i;

    (void)state;
    for (i = 0; i < 256; i++) {
        data[i] = i * i;
        want += i * i;
    }
    run_ok(text, data, sizeof(data), 1, 256, 0);
    assert_int_equal(data[0], want);
}

/* Lanes go around a loop a different number of times. */
static void
test_divergence(void **state)
{
    static const char text[] = KERNEL(
        START "mov.u32 %r2, 0; mov.u32 %r3, %r1;\n"
              "$again: setp.eq.u32 %p1, %r3, 0; @%p1 bra $out;\n"
              "and.b32 %r4, %r3, 1; setp.eq.u32 %p2, %r4, 1; @%p2 bra $odd;\n"
              "shr.u32 %r3, %r3, 1; bra $next;\n"
              "$odd: sub.u32 %r3, %r3, 1;\n"
              "$next: add.u32 %r2, %r2, 1; bra $again;\n"
              "$out: st.global.u32 [%rd2], %r2;\n");
    uint32_t data[100], i, x, n;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 100, 0);
    for (i = 0; i < 100; i++) {
        for (x = i, n = 0; x; n++)
            x = x & 1 ? x - 1 : x / 2;
        assert_int_equal(data[i], n);
    }
}

static void
test_atomics_and_shuffles(void **state)
{
    static const char text[] = KERNEL(
        START "atom.global.add.u32 %r2, [%rd1], 1;\n"
              "red.global.max.s32 [%rd1+4], %r1;\n"
              "atom.global.cas.b32 %r3, [%rd1+8], 0, 77;\n"
              "shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;\n"
              "shfl.sync.down.b32 %r5|%p1, %r1, 16, 31, -1;\n"
              "selp.u32 %r5, %r5, 99, %p1; mad.lo.u32 %r4, %r4, 100, %r5;\n"
              "st.global.u32 [%rd2+12], %r4; fence.acq_rel.gpu; exit;");
    uint32_t data[67] = {0}, i;

    (void)state;
    run_ok(text, data, sizeof(data), 3, 64, 0);
    assert_int_equal(data[0], 192);
    assert_int_equal(data[1], 63);
    assert_int_equal(data[2], 77);
    for (i = 0; i < 64; i++)
        assert_int_equal(data[3 + i],
                         (i ^ 1) * 100 + (i % 32 < 16 ? i + 16 : 99));
}

/* Local memory, generic addresses, vectors, halves of registers. */
static void
test_spaces(void **state)
{
    static const char text[] = KERNEL(
        START ".local .align 16 .b8 mine[32]; .reg .b16 %h<2>; .reg .u64 %a;\n"
              "mov.b32 {%h0, %h1}, 0x12345678; mov.b32 %r2, {%h1, %h0};\n"
              "st.local.v4.u32 [mine+16], {%r2, %r1, 7, 8};\n"
              "mov.u64 %a, mine[16]; cvta.local.u64 %a, %a;\n"
              "ld.v2.u32 {%r3, %r4}, [%a]; ld.local.s8 %r5, [mine+19];\n"
              "add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;\n"
              "cvta.global.u64 %a, %rd2; st.u32 [%a], %r3;");
    uint32_t data[40], i;

    (void)state;
    run_ok(text, data, sizeof(data), 1, 40, 0);
    for (i = 0; i < 40; i++)
        assert_int_equal(data[i], 0x56781234u + i + 0x56);
}

/* The approximations, each within its documented bound. */
static void
test_approximations(void **state)
{
    static const struct {
        const char *name;
        double (*fn)(double);
        double from, to, absolute, relative;
    } rows[] = {
        {"ex2", exp2, -20, 20, 0, 0x1p-22},
        {"lg2", log2, 0.01, 50, 0x1p-22, 0x1p-22},
        {"sin", sin, -6, 6, 0x1p-20, 0},
        {"cos", cos, -6, 6, 0x1p-20, 0},
        {"sqrt", sqrt, 0, 1000, 0, 0x1p-23},
        {"tanh", tanh, -4, 4, 0, 0x1p-11},
    };
    static const char begin[] =
        HEAD ".entry k(.param .u64 p, .param .u32 n)\n{\n" START
             "ld.global.f32 %f0, [%rd2]; ";
    static const char end[] =
        ".approx.f32 %f1, %f0; st.global.f32 [%rd2], %f1; }";
    char text[1000];
    float data[64], in[64];
    size_t r;
    int i;

    (void)state;
    for (r = 0; r < ARRAY_LEN(rows); r++) {
        snprintf(text, sizeof(text), "%s%s%s", begin, rows[r].name, end);
        for (i = 0; i < 64; i++)
            data[i] = in[i] =
                (float)(rows[r].from + (rows[r].to - rows[r].from) * i / 63);
        run_ok(text, data, sizeof(data), 1, 64, 0);
        for (i = 0; i < 64; i++) {
            double want = rows[r].fn((double)in[i]);
            double error = fabs((double)data[i] - want);
            assert_true(error <=
                        rows[r].absolute + rows[r].relative * fabs(want));
        }
    }
}

/* ---- what it refuses ---- */

static void
test_refused_text(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {KERNEL("frob.u32 %r1, 2;"), "line 6: unknown instruction frob"},
        {KERNEL(START "add.rn.u32 %r2, %r1, 1;"), "integers have no"},
        {KERNEL(START "add.frob.u32 %r2, %r1, 1;"), "no such modifier"},
        {KERNEL(START "add.u32.u32 %r2, %r1, 1;"), "no such modifier"},
        {KERNEL(START "fma.f32 %f1, %f1, %f1, %f1;"), "modifier is missing"},
        {KERNEL(START "div.f32 %f1, %f1, %f1;"), "rounding or an approx"},
        {KERNEL(START "add.rz.f32 %f1, %f1, %f1;"), "nearest only"},
        {KERNEL(START "add.u32 %r20, %r1, 1;"), "no such register"},
        {KERNEL(START "add.u32 %rd2, %r1, 1;"), "another type or width"},
        {KERNEL(START ".reg .u32 %u; add.f32 %u, %f1, %f1;"), "another type"},
        {KERNEL(START "add.f32 %f2, %f1, 1;"), "integer where a float"},
        {KERNEL(START "add.f32 %f2, %rd1, %f1;"), "another type or width"},
        {KERNEL(START "ld.global.u32 %r1, [%r2];"), "another type or width"},
        {KERNEL(START "ld.global.v4.f64 {%f1}, [%rd2];"), "16 bytes"},
        {KERNEL(START "ld.global.v2.f32 {%f1}, [%rd2];"), "is missing"},
        {KERNEL(START "ld.shared.f32 %f1, [p];"), "another space"},
        {KERNEL(START "st.param.u64 [p], %rd1;"), "not written"},
        {KERNEL(START "setp.eq.f32 %r1, %f1, %f1;"), "another type"},
        {KERNEL(START "cvt.s32.f32 %r1, %f1;"), "integer rounding"},
        {KERNEL(START "cvt.rn.f64.f32 %rd1, %f1;"), "rounded here"},
        {KERNEL(START "shl.s32 %r1, %r1, 1;"), "not for this type"},
        {KERNEL(START "bra nowhere;"), "no label nowhere"},
        {KERNEL(START "mov.u32 %r1, %tid.w;"), "x, y or z"},
        {KERNEL(START "x: x: ret;"), "the name is taken"},
        {KERNEL(START ".shared .u32 s[4]; mov.u32 %r1, s[4];"),
         "behind the end of the array"},
        {KERNEL("ret"), "; is missing"},
        {KERNEL("{ .reg .u32 %u; mov.u32 %u, 1; } mov.u32 %u, 2;"),
         "no such register"},
        {KERNEL("{ ret;"), "is missing"},
        {HEAD, "no kernel"},
        {".version 7.0\n.target sm_90\n", "too low"},
        {".version 9.9\n", "not known"},
        {".version 8.0\n.target sm_13\n", "too low"},
        {HEAD ".func f() {}", "unknown directive"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct sim_ptx_module *module;
        bell_status status = sim_ptx_parse(rows[i].text, &module);
        if (status == BELL_OK) {
            sim_ptx_destroy(module);
            fail_msg("row %zu (%s) is accepted", i, rows[i].message);
        }
        assert_int_equal(status, BELL_E_COMPILE);
        if (!strstr(bell_error_last()->message, rows[i].message))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
}

/* ---- what it stops at ---- */

static void
test_faults(void **state)
{
    static const struct {
        const char *text;
        enum sim_ptx_fault fault;
        uint32_t threads, line;
        uint64_t va;
        const char *message;
    } rows[] = {
        {KERNEL(START "st.global.u32 [%rd2], 1;"), SIM_PTX_UNMAPPED, 65, 10,
         BASE + 256, "thread 64,0,0"},
        {KERNEL(START "st.global.u32 [%rd1+2], 1;"), SIM_PTX_MISALIGNED, 1, 10,
         BASE + 2, "st.u32"},
        {KERNEL(START "ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd1+8];"),
         SIM_PTX_MISALIGNED, 1, 10, BASE + 8, "misaligned"},
        {KERNEL(START "ld.shared.u32 %r1, [%r0];"), SIM_PTX_OUT_OF_RANGE, 1, 10,
         0, "shared memory"},
        {KERNEL(START "add.u32 %r2, %r2, 1;"), SIM_PTX_UNDEFINED, 1, 10, 0,
         "before it is written"},
        {KERNEL(START "setp.eq.u32 %p1, %r1, 3; @%p1 exit; bar.sync 0, 64;"),
         SIM_PTX_BARRIER, 64, 10, 0, "have left"},
        {KERNEL(START "setp.eq.u32 %p1, %r1, 3; @%p1 bra x; bar.sync 0;\n"
                      "ret; x: bar.sync 1;"),
         SIM_PTX_BARRIER, 64, 10, 0, "wait elsewhere"},
        {KERNEL(START "x: bra x;"), SIM_PTX_HUNG, 1, 10, 0, "still runs"},
        {KERNEL(START "ld.global.nc.u32 %r2, [%rd2];\n"
                      "st.global.u32 [%rd2], %r2;"),
         SIM_PTX_RACE, 32, 11, BASE, "ld.global.nc"},
        {KERNEL(START "st.global.u8 [%rd2], 1;\n"
                      "ld.global.nc.u32 %r2, [%rd1+4];"),
         SIM_PTX_RACE, 2, 11, BASE + 4, "ld.global.nc"},
    };
    struct sim_ptx_report report;
    uint32_t data[64];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(run(rows[i].text, data, sizeof(data), 1,
                             rows[i].threads, 0, &report),
                         rows[i].fault);
        assert_int_equal(report.line, rows[i].line);
        assert_true(report.va == rows[i].va);
        if (!strstr(bell_error_last()->message, rows[i].message))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
}

static void
test_bad_launches(void **state)
{
    struct sim_ptx_module *module;
    struct sim_ptx_kernel_info info;
    struct sim_ptx_report report;
    struct sim_ptx_launch l = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    uint64_t args[2] = {0, 0};

    (void)state;
    assert_int_equal(sim_ptx_parse(HEAD ".entry a(.param .u64 p, .param .u32 q)"
                                        ".reqntid 32 { ret; }\n"
                                        ".entry b() { .shared .b32 s[100]; }",
                                   &module),
                     BELL_OK);
    assert_true(sim_ptx_kernel(module, "b", 0, &info));
    assert_int_equal(info.shared_bytes, 400);
    assert_true(sim_ptx_kernel(module, NULL, 0, &info));
    assert_string_equal(info.name, "a");
    assert_int_equal(info.param_bytes, 12);
    assert_int_equal(info.reqntid[0], 32);
    assert_false(sim_ptx_kernel(module, "c", 0, &info));
    l.kernel = "c";
    assert_int_equal(sim_ptx_run(module, &l, &report), BELL_E_INVALID);
    l.kernel = "a";
    assert_int_equal(sim_ptx_run(module, &l, &report), BELL_E_INVALID);
    l.args = args;
    l.args_bytes = 16;
    assert_int_equal(sim_ptx_run(module, &l, &report), BELL_OK);
    l.block[0] = 64;
    assert_int_equal(sim_ptx_run(module, &l, &report), BELL_E_INVALID);
    l.kernel = "b";
    l.dynamic_shared_bytes = 228 * 1024;
    assert_int_equal(sim_ptx_run(module, &l, &report), BELL_E_INVALID);
    l.dynamic_shared_bytes = 0;
    l.block[0] = 1025;
    assert_int_equal(sim_ptx_run(module, &l, &report), BELL_E_INVALID);
    assert_int_equal(report.fault, SIM_PTX_BAD_LAUNCH);
    sim_ptx_destroy(module);
}

/* ---- broken text ---- */

static const char sample[] = KERNEL(
    START
    ".shared .align 16 .b8 s[64]; .local .b32 mine[4];\n"
    "setp.lt.and.s32 %p1|%p2, %r1, 5, !%p0; @!%p1 bra $x;\n"
    "ld.global.v2.f32 {%f0, %f1}, [%rd1+8]; fma.rn.ftz.f32 %f2, %f0, %f1, "
    "0f3f800000;\ncvt.rzi.s32.f32 %r2, %f2; atom.global.add.u32 %r3, [%rd2], "
    "%r2;\nmul.wide.s32 %rd3, %r2, -4; $x: bar.sync 0;\n"
    "shfl.sync.idx.b32 %r4, %r1, 0, 31, -1; // end\nst.shared.u32 [s+4], "
    "0x1f;");

/* Bytes changed, cut out and doubled: read or refused, run or stopped. */
static void
test_mutations(void **state)
{
    char text[sizeof(sample) * 2];
    uint32_t data[64] = {0}, n_read = 0;
    uint64_t rng = 1;
    int i, k;

    (void)state;
    for (i = 0; i < 4000; i++) {
        struct memory m = {data, sizeof(data)};
        uint64_t args[2] = {BASE, 64};
        struct sim_ptx_launch l = {.args = args,
                                   .args_bytes = sizeof(args),
                                   .grid = {1, 1, 1},
                                   .block = {40, 1, 1},
                                   .max_warp_steps = 1000,
                                   .mem = {at, &m}};
        struct sim_ptx_module *module;
        struct sim_ptx_report report;
        size_t n = sizeof(sample) - 1, place, len;
        memcpy(text, sample, sizeof(sample));
        for (k = 0; k < 1 + i % 3; k++) {
            rng = rng * 6364136223846793005ull + 1442695040888963407ull;
            place = (rng >> 33) % n;
            len = 1 + (rng >> 20) % 8;
            if (rng >> 62 == 0) {
                text[place] = (char)(rng >> 50 & 127);
            } else if (rng >> 62 == 1) {
                text[place] = sample[(rng >> 40) % (sizeof(sample) - 1)];
            } else if (rng >> 62 == 2 && place + len < n) {
                memmove(text + place, text + place + len, n - place - len + 1);
                n -= len;
            } else if (n + len + 1 < sizeof(text) && place + len < n) {
                memmove(text + place + len, text + place, n - place + 1);
                n += len;
            }
        }
        if (sim_ptx_parse(text, &module) != BELL_OK)
            continue;
        n_read++;
        (void)!sim_ptx_run(module, &l, &report);
        sim_ptx_destroy(module);
    }
    assert_true(n_read > 20);
}

/* Running out of memory anywhere is an error that leaves nothing. */
static void
test_out_of_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    uint32_t data[64] = {0}, nth;

    (void)state;
    for (nth = 1; status == BELL_E_NO_MEMORY && nth < 1000; nth++) {
        struct memory m = {data, sizeof(data)};
        struct sim_ptx_module *module;
        struct sim_ptx_report report;
        uint64_t args[2] = {BASE, 64};
        struct sim_ptx_launch l = {.args = args,
                                   .args_bytes = sizeof(args),
                                   .grid = {1, 1, 1},
                                   .block = {40, 1, 1},
                                   .mem = {at, &m}};
        host_fail_after(nth, 1);
        status =
            sim_ptx_parse(KERNEL(START "x: st.global.u32 [%rd1], 5;"), &module);
        if (status == BELL_OK) {
            status = sim_ptx_run(module, &l, &report);
            sim_ptx_destroy(module);
        }
        host_fail_after(0, 0);
    }
    assert_int_equal(status, BELL_OK);
    assert_true(nth > 10);
}

/* How fast; printed, not judged. */
static void
test_speed(void **state)
{
    static const char text[] = KERNEL(
        START
        "mov.u32 %r2, 0; mov.f32 %f1, 0f3f800000;\n"
        "loop: fma.rn.f32 %f1, %f1, %f1, %f1; add.u32 %r2, %r2, 1;\n"
        "setp.lt.u32 %p1, %r2, %r0; @%p1 bra loop; st.global.f32 [%rd2], %f1;");
    struct sim_ptx_report report;
    float data[256];
    uint64_t begin = time_now_ns();

    (void)state;
    run(text, data, sizeof(data), 1, 256, 5000, &report);
    print_message("%.1f million lane instructions a second\n",
                  (double)report.n_lane_ops * 1e3 /
                      (double)(time_now_ns() - begin));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_sum),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_atomics_and_shuffles),
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_approximations),
        cmocka_unit_test(test_refused_text),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bad_launches),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
