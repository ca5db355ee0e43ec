/* The PTX interpreter's multimem: which operations of which types there are, as
 * ptxas 13.0.88 says (made by running it on each), and what they do with the
 * memory of a team of three. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ptx_run.h"
#include "tests/unit/expect.h"

#define N     3u
#define BASE  0x200000000ull
#define BYTES 4096u

/* clang-format off */
static const struct {
    const char *words;
    bool is_known;
} rows[] = {
    {"ld_reduce.relaxed.sys.global.add.u32", true},
    {"red.relaxed.sys.global.add.u32", true},
    {"ld_reduce.relaxed.sys.global.min.u32", true},
    {"red.relaxed.sys.global.min.u32", true},
    {"ld_reduce.relaxed.sys.global.max.u32", true},
    {"red.relaxed.sys.global.max.u32", true},
    {"ld_reduce.relaxed.sys.global.and.u32", false},
    {"red.relaxed.sys.global.and.u32", false},
    {"ld_reduce.relaxed.sys.global.or.u32", false},
    {"red.relaxed.sys.global.or.u32", false},
    {"ld_reduce.relaxed.sys.global.xor.u32", false},
    {"red.relaxed.sys.global.xor.u32", false},
    {"ld_reduce.relaxed.sys.global.add.s32", true},
    {"red.relaxed.sys.global.add.s32", true},
    {"ld_reduce.relaxed.sys.global.min.s32", true},
    {"red.relaxed.sys.global.min.s32", true},
    {"ld_reduce.relaxed.sys.global.max.s32", true},
    {"red.relaxed.sys.global.max.s32", true},
    {"ld_reduce.relaxed.sys.global.and.s32", false},
    {"red.relaxed.sys.global.and.s32", false},
    {"ld_reduce.relaxed.sys.global.or.s32", false},
    {"red.relaxed.sys.global.or.s32", false},
    {"ld_reduce.relaxed.sys.global.xor.s32", false},
    {"red.relaxed.sys.global.xor.s32", false},
    {"ld_reduce.relaxed.sys.global.add.b32", false},
    {"red.relaxed.sys.global.add.b32", false},
    {"ld_reduce.relaxed.sys.global.min.b32", false},
    {"red.relaxed.sys.global.min.b32", false},
    {"ld_reduce.relaxed.sys.global.max.b32", false},
    {"red.relaxed.sys.global.max.b32", false},
    {"ld_reduce.relaxed.sys.global.and.b32", true},
    {"red.relaxed.sys.global.and.b32", true},
    {"ld_reduce.relaxed.sys.global.or.b32", true},
    {"red.relaxed.sys.global.or.b32", true},
    {"ld_reduce.relaxed.sys.global.xor.b32", true},
    {"red.relaxed.sys.global.xor.b32", true},
    {"ld_reduce.relaxed.sys.global.add.u64", true},
    {"ld_reduce.relaxed.sys.global.min.u64", true},
    {"ld_reduce.relaxed.sys.global.max.u64", true},
    {"ld_reduce.relaxed.sys.global.and.u64", false},
    {"ld_reduce.relaxed.sys.global.xor.u64", false},
    {"ld_reduce.relaxed.sys.global.add.s64", false},
    {"ld_reduce.relaxed.sys.global.min.s64", true},
    {"ld_reduce.relaxed.sys.global.max.s64", true},
    {"ld_reduce.relaxed.sys.global.and.s64", false},
    {"ld_reduce.relaxed.sys.global.xor.s64", false},
    {"ld_reduce.relaxed.sys.global.add.b64", false},
    {"ld_reduce.relaxed.sys.global.min.b64", false},
    {"ld_reduce.relaxed.sys.global.max.b64", false},
    {"ld_reduce.relaxed.sys.global.and.b64", true},
    {"ld_reduce.relaxed.sys.global.xor.b64", true},
    {"ld_reduce.relaxed.sys.global.add.f32", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.f32", false},
    {"ld_reduce.relaxed.sys.global.min.f32", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.f32", false},
    {"st.relaxed.sys.global.f32", true},
    {"red.relaxed.sys.global.add.f32", true},
    {"ld_reduce.relaxed.sys.global.add.v2.f32", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v2.f32", false},
    {"ld_reduce.relaxed.sys.global.min.v2.f32", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v2.f32", false},
    {"st.relaxed.sys.global.v2.f32", true},
    {"red.relaxed.sys.global.add.v2.f32", true},
    {"ld_reduce.relaxed.sys.global.add.v4.f32", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v4.f32", false},
    {"ld_reduce.relaxed.sys.global.min.v4.f32", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v4.f32", false},
    {"st.relaxed.sys.global.v4.f32", true},
    {"red.relaxed.sys.global.add.v4.f32", true},
    {"ld_reduce.relaxed.sys.global.add.f64", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.f64", false},
    {"ld_reduce.relaxed.sys.global.min.f64", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.f64", false},
    {"st.relaxed.sys.global.f64", true},
    {"red.relaxed.sys.global.add.f64", true},
    {"ld_reduce.relaxed.sys.global.add.v2.f64", false},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v2.f64", false},
    {"ld_reduce.relaxed.sys.global.min.v2.f64", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v2.f64", false},
    {"st.relaxed.sys.global.v2.f64", false},
    {"red.relaxed.sys.global.add.v2.f64", false},
    {"ld_reduce.relaxed.sys.global.add.v4.f64", false},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v4.f64", false},
    {"ld_reduce.relaxed.sys.global.min.v4.f64", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v4.f64", false},
    {"st.relaxed.sys.global.v4.f64", false},
    {"red.relaxed.sys.global.add.v4.f64", false},
    {"ld_reduce.relaxed.sys.global.add.f16", false},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.f16", false},
    {"ld_reduce.relaxed.sys.global.min.f16", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.f16", false},
    {"st.relaxed.sys.global.f16", false},
    {"red.relaxed.sys.global.add.f16", false},
    {"ld_reduce.relaxed.sys.global.add.v2.f16", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v2.f16", true},
    {"ld_reduce.relaxed.sys.global.min.v2.f16", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v2.f16", false},
    {"st.relaxed.sys.global.v2.f16", true},
    {"red.relaxed.sys.global.add.v2.f16", true},
    {"ld_reduce.relaxed.sys.global.add.v4.f16", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16", true},
    {"ld_reduce.relaxed.sys.global.min.v4.f16", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v4.f16", false},
    {"st.relaxed.sys.global.v4.f16", true},
    {"red.relaxed.sys.global.add.v4.f16", true},
    {"ld_reduce.relaxed.sys.global.add.bf16", false},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.bf16", false},
    {"ld_reduce.relaxed.sys.global.min.bf16", false},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.bf16", false},
    {"st.relaxed.sys.global.bf16", false},
    {"red.relaxed.sys.global.add.bf16", false},
    {"ld_reduce.relaxed.sys.global.add.v2.bf16", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v2.bf16", true},
    {"ld_reduce.relaxed.sys.global.min.v2.bf16", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v2.bf16", false},
    {"st.relaxed.sys.global.v2.bf16", true},
    {"red.relaxed.sys.global.add.v2.bf16", true},
    {"ld_reduce.relaxed.sys.global.add.v4.bf16", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16", true},
    {"ld_reduce.relaxed.sys.global.min.v4.bf16", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v4.bf16", false},
    {"st.relaxed.sys.global.v4.bf16", true},
    {"red.relaxed.sys.global.add.v4.bf16", true},
    {"ld_reduce.relaxed.sys.global.add.f16x2", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.f16x2", true},
    {"ld_reduce.relaxed.sys.global.min.f16x2", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.f16x2", false},
    {"st.relaxed.sys.global.f16x2", true},
    {"red.relaxed.sys.global.add.f16x2", true},
    {"ld_reduce.relaxed.sys.global.add.v2.f16x2", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v2.f16x2", true},
    {"ld_reduce.relaxed.sys.global.min.v2.f16x2", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v2.f16x2", false},
    {"st.relaxed.sys.global.v2.f16x2", true},
    {"red.relaxed.sys.global.add.v2.f16x2", true},
    {"ld_reduce.relaxed.sys.global.add.v4.f16x2", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2", true},
    {"ld_reduce.relaxed.sys.global.min.v4.f16x2", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v4.f16x2", false},
    {"st.relaxed.sys.global.v4.f16x2", true},
    {"red.relaxed.sys.global.add.v4.f16x2", true},
    {"ld_reduce.relaxed.sys.global.add.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.min.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.bf16x2", false},
    {"st.relaxed.sys.global.bf16x2", true},
    {"red.relaxed.sys.global.add.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.add.v2.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v2.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.min.v2.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v2.bf16x2", false},
    {"st.relaxed.sys.global.v2.bf16x2", true},
    {"red.relaxed.sys.global.add.v2.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.add.v4.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.min.v4.bf16x2", true},
    {"ld_reduce.relaxed.sys.global.min.acc::f32.v4.bf16x2", false},
    {"st.relaxed.sys.global.v4.bf16x2", true},
    {"red.relaxed.sys.global.add.v4.bf16x2", true},
    {"ld_reduce.weak.global.add.f32", true},
    {"ld_reduce.global.add.f32", true},
    {"st.global.u32", true},
    {"st.weak.global.b64", true},
};
/* clang-format on */

/* Registers of the type behind the last dot, as many as the vector has. */
static void
write_operand(const char *words, char *out, size_t size)
{
    const char *type = strrchr(words, '.') + 1;
    bool is_pair = strstr(type, "x2") != NULL;
    const char *reg = strcmp(type, "f32") == 0          ? "%f"
                      : strcmp(type, "f64") == 0        ? "%d"
                      : strstr(type, "f16") && !is_pair ? "%h"
                      : strstr(type, "64")              ? "%l"
                                                        : "%r";

    if (strstr(words, ".v4."))
        snprintf(out, size, "{%s0, %s1, %s2, %s3}", reg, reg, reg, reg);
    else if (strstr(words, ".v2."))
        snprintf(out, size, "{%s0, %s1}", reg, reg);
    else
        snprintf(out, size, "%s0", reg);
}

static void
write_text(const char *version, const char *target, const char *body,
           char *text, size_t size)
{
    snprintf(text, size,
             ".version %s\n.target %s\n.address_size 64\n"
             ".visible .entry k(.param .u64 p)\n{\n"
             ".reg .b64 %%a, %%l<4>; .reg .b32 %%r<8>; .reg .f32 %%f<4>;\n"
             ".reg .f64 %%d<4>; .reg .b16 %%h<4>;\n"
             "ld.param.u64 %%a, [p];\n%s\nexit;\n}\n",
             version, target, body);
}

static bool
is_read(const char *version, const char *target, const char *body)
{
    struct sim_ptx_module *module = NULL;
    char text[1024];
    bell_status status;

    write_text(version, target, body, text, sizeof(text));
    status = sim_ptx_parse(text, &module);
    sim_ptx_destroy(module);
    if (status == BELL_OK)
        ptx_run_keep(text);
    return status == BELL_OK;
}

static void
test_words(void **state)
{
    char operand[64], body[256];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        bool loads = strncmp(rows[i].words, "ld_reduce", 9) == 0;

        write_operand(rows[i].words, operand, sizeof(operand));
        snprintf(body, sizeof(body), "multimem.%s %s%s%s;", rows[i].words,
                 loads ? operand : "[%a], ", loads ? ", [%a]" : operand, "");
        if (is_read("8.8", "sm_90", body) != rows[i].is_known)
            fail_msg("%s: %s", body,
                     rows[i].is_known ? bell_error_last()->message
                                      : "was taken");
    }
    assert_false(is_read("8.8", "sm_80", "multimem.st.weak.u32 [%a], %r0;"));
    assert_false(is_read("8.0", "sm_90", "multimem.st.weak.u32 [%a], %r0;"));
    assert_true(is_read("8.1", "sm_90", "multimem.st.weak.u32 [%a], %r0;"));
    assert_false(
        is_read("8.1", "sm_90",
                "multimem.ld_reduce.weak.add.acc::f32.f16x2 %r0, [%a];"));
    assert_true(
        is_read("8.2", "sm_90",
                "multimem.ld_reduce.weak.add.acc::f32.f16x2 %r0, [%a];"));
    assert_true(is_read("8.1", "sm_90", "fence.proxy.alias;"));
    print_message("# ptxas took %u\n", ptx_run_assemble());
}

/* ---- running ------------------------------------------------------------- */

static _Alignas(16) uint8_t memory[N][BYTES];

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    (void)user;
    (void)va;
    (void)n_bytes;
    (void)is_write;
    return NULL; /* nothing but the team's */
}

static uint32_t
team(void *user, uint64_t va, uint32_t n_bytes, bool is_write,
     uint8_t *out[SIM_PTX_TEAM_MAX])
{
    uint32_t i;

    (void)user;
    (void)is_write;
    if (va < BASE || va - BASE > BYTES - n_bytes)
        return 0;
    for (i = 0; i < N; i++)
        out[i] = memory[i] + (va - BASE);
    return N;
}

static enum sim_ptx_fault
run(const char *body, uint64_t p)
{
    struct sim_ptx_report report;
    struct sim_ptx_launch launch = {
        .args = &p,
        .args_bytes = sizeof(p),
        .grid = {1, 1, 1},
        .block = {1, 1, 1},
        .max_warp_steps = 1000,
        .mem = {.at = at, .team = team},
    };
    struct sim_ptx_module *module;
    char text[1024];

    write_text("8.8", "sm_90", body, text, sizeof(text));
    expect_ok(sim_ptx_parse(text, &module));
    if (sim_ptx_run(module, &launch, &report) == BELL_OK)
        assert_int_equal(report.fault, SIM_PTX_OK);
    sim_ptx_destroy(module);
    return report.fault;
}

static uint32_t
word(uint32_t member, uint32_t i)
{
    uint32_t w;

    memcpy(&w, memory[member] + 4 * i, 4);
    return w;
}

static void
set_word(uint32_t member, uint32_t i, uint32_t w)
{
    memcpy(memory[member] + 4 * i, &w, 4);
}

/* Loads words 0 to 3, stores what came to words 4 to 7 of all. */
static void
expect_sum(const char *load, const char *store, uint32_t want)
{
    char body[256];
    uint32_t i;

    snprintf(body, sizeof(body), "%s %s", load, store);
    assert_int_equal(run(body, BASE), SIM_PTX_OK);
    for (i = 0; i < N; i++) {
        if (word(i, 4) != want)
            fail_msg("%s: 0x%x at member %u, not 0x%x", load, word(i, 4), i,
                     want);
    }
}

static void
test_sums(void **state)
{
    static const float floats[N] = {1.5f, 2.25f, -8};
    static const uint32_t halves[N] = {0x3c00c000, 0x40003c00, 0xc4004200};
    static const uint32_t bhalves[N] = {0x3f804000, 0x40003f80, 0xc0804040};
    uint32_t i, w;

    (void)state;
    for (i = 0; i < N; i++)
        set_word(i, 0, 7u << 8 * i);
    expect_sum("multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%a];",
               "multimem.st.relaxed.sys.global.u32 [%a+16], %r0;", 0x070707);
    expect_sum("multimem.ld_reduce.relaxed.sys.global.max.u32 %r0, [%a];",
               "multimem.st.weak.u32 [%a+16], %r0;", 0x070000);
    expect_sum("multimem.ld_reduce.acquire.gpu.global.or.b32 %r0, [%a];",
               "multimem.st.release.gpu.global.b32 [%a+16], %r0;", 0x070707);
    for (i = 0; i < N; i++) {
        memcpy(&w, &floats[i], 4);
        set_word(i, 0, w);
    }
    expect_sum("multimem.ld_reduce.relaxed.sys.global.add.f32 %f0, [%a];",
               "multimem.st.relaxed.sys.global.f32 [%a+16], %f0;", 0xc0880000);
    for (i = 0; i < N; i++)
        set_word(i, 0, halves[i]); /* 1 2 -4; -2 1 3 */
    expect_sum("multimem.ld_reduce.weak.global.add.acc::f32.f16x2 %r0, [%a];",
               "multimem.st.weak.global.f16x2 [%a+16], %r0;", 0xbc004000);
    expect_sum("multimem.ld_reduce.weak.global.add.f16x2 %r0, [%a];",
               "multimem.st.weak.global.f16x2 [%a+16], %r0;", 0xbc004000);
    for (i = 0; i < N; i++)
        set_word(i, 0, bhalves[i]); /* 1 2 -4; 2 1 3 */
    expect_sum("multimem.ld_reduce.weak.global.add.acc::f32.bf16x2 %r0, [%a];",
               "multimem.st.weak.global.bf16x2 [%a+16], %r0;", 0xbf8040c0);
}

/* Several words at once; a reduction into what is there. */
static void
test_vectors(void **state)
{
    uint32_t i, k;

    (void)state;
    for (i = 0; i < N; i++) {
        for (k = 0; k < 4; k++)
            set_word(i, k, 0x3f800000u + (k << 23)); /* 1 2 4 8 */
    }
    assert_int_equal(run("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 "
                         "{%f0, %f1, %f2, %f3}, [%a];"
                         "multimem.st.relaxed.sys.global.v4.f32 [%a+32], "
                         "{%f0, %f1, %f2, %f3};"
                         "multimem.red.relaxed.sys.global.add.v4.f32 [%a], "
                         "{%f0, %f1, %f2, %f3};",
                         BASE),
                     SIM_PTX_OK);
    for (i = 0; i < N; i++) {
        for (k = 0; k < 4; k++) {
            assert_int_equal(word(i, 8 + k), 0x40400000u + (k << 23));
            assert_int_equal(word(i, k), 0x40800000u + (k << 23));
        }
    }
}

static void
test_faults(void **state)
{
    (void)state;
    assert_int_equal(
        run("multimem.ld_reduce.weak.global.add.u32 %r0, [%a];", BASE + BYTES),
        SIM_PTX_UNMAPPED);
    assert_int_equal(run("multimem.ld_reduce.weak.global.add.v4.f32 "
                         "{%f0, %f1, %f2, %f3}, [%a+8];",
                         BASE),
                     SIM_PTX_MISALIGNED);
    /* no other instruction goes there */
    assert_int_equal(run("ld.global.u32 %r0, [%a];", BASE), SIM_PTX_UNMAPPED);
    assert_int_equal(run("mov.b32 %r0, 0; st.global.u32 [%a], %r0;", BASE),
                     SIM_PTX_UNMAPPED);
    assert_int_equal(run("multimem.st.weak.global.u32 [%a], %r0;", BASE),
                     SIM_PTX_UNDEFINED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
