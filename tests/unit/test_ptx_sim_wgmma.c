/* The PTX interpreter: wgmma, whose operands lie in shared memory, or A in
 * registers, against plain sums; and what it does not let pass: accumulators
 * and shared memory that it is still busy with, what is written without a
 * fence. Layouts by whole products: test_tensor_wgmma. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ptx_run.h"

#define A_BYTES 8192u /* 64 rows of 64 halves, and 8 of B behind them */
#define TILE    (A_BYTES + 1024u)
#define THREADS 128u
#define HELD    (TILE + THREADS * 16u) /* what threads hold of A, 64 bytes each */

/* Parts of the kernel that a row may replace. */
struct row {
    const char *target, *proxy_fence, *fence, *between, *wait, *b;
    enum sim_ptx_fault fault;
    bool held; /* threads have A in registers */
};

#define GOOD                                                                   \
    "sm_90a", "fence.proxy.async.shared::cta;", "wgmma.fence.sync.aligned;",   \
        "", "wgmma.wait_group.sync.aligned 0;", ""

static const struct row rows[] = {
    {GOOD, SIM_PTX_OK},
    {"sm_90a", "", "wgmma.fence.sync.aligned;", "",
     "wgmma.wait_group.sync.aligned 0;", "", SIM_PTX_RACE},
    {"sm_90a", "fence.proxy.async;", "", "", "wgmma.wait_group.sync.aligned 0;",
     "", SIM_PTX_RACE},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;", "", "", "",
     SIM_PTX_UNDEFINED},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;", "",
     "wgmma.wait_group.sync.aligned 1;", "", SIM_PTX_UNDEFINED},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;",
     "not.b64 %rd3, %rd3; st.shared.b64 [%r2], %rd3;",
     "wgmma.wait_group.sync.aligned 0;", "", SIM_PTX_RACE},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;",
     "mov.f32 %f1, 0f00000000;", "wgmma.wait_group.sync.aligned 0;", "",
     SIM_PTX_RACE},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;", "",
     "wgmma.wait_group.sync.aligned 0;",
     "setp.gt.u32 %p2, %r1, 95; @%p2 mov.b64 %rd6, %rd5;", SIM_PTX_BARRIER},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;", "",
     "wgmma.wait_group.sync.aligned 0;", "add.s64 %rd6, %rd6, 8;",
     SIM_PTX_MISALIGNED},
    {GOOD, SIM_PTX_OK, true},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;",
     "not.b32 %r22, %r22;", "wgmma.wait_group.sync.aligned 0;", "",
     SIM_PTX_RACE, true},
    {"sm_90a", "fence.proxy.async;", "wgmma.fence.sync.aligned;",
     "mov.f32 %f1, 0f00000000;", "wgmma.wait_group.sync.aligned 0;", "",
     SIM_PTX_RACE, true},
    {"sm_90a", "fence.proxy.async;", "", "", "wgmma.wait_group.sync.aligned 0;",
     "", SIM_PTX_RACE, true},
};

static void
write_kernel(const struct row *r, char *text, size_t size)
{
    size_t at;
    int i;

    at = (size_t)snprintf(
        text, size,
        ".version 8.0\n.target %s\n.address_size 64\n"
        ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n%s"
        ".shared .align 1024 .b8 s[%u];\n"
        "mov.u32 %%r2, s; mad.lo.u32 %%r2, %%r1, 8, %%r2;\n"
        "mad.wide.u32 %%rd4, %%r1, 8, %%rd1;\n",
        r->target, PTX_START, TILE);
    for (i = 0; i < 9; i++)
        at += (size_t)snprintf(text + at, size - at,
                               "ld.global.b64 %%rd3, [%%rd4+%d];"
                               "st.shared.b64 [%%r2+%d], %%rd3;\n",
                               i * 1024, i * 1024);
    at += (size_t)snprintf(text + at, size - at,
                           "mad.wide.u32 %%rd4, %%r1, 64, %%rd1;\n");
    for (i = 0; i < 4; i++)
        at += (size_t)snprintf(
            text + at, size - at,
            "ld.global.v4.b32 {%%r%d, %%r%d, %%r%d, %%r%d}, [%%rd4+%u];\n",
            16 + 4 * i, 17 + 4 * i, 18 + 4 * i, 19 + 4 * i,
            HELD + 16 * (unsigned)i);
    at += (size_t)snprintf(
        text + at, size - at,
        "%s bar.sync 0;\n"
        "mov.u32 %%r3, s; shr.u32 %%r3, %%r3, 4; or.b32 %%r4, %%r3, 65536;\n"
        "add.u32 %%r5, %%r4, %u; mov.b32 %%r6, 0x40000040;\n"
        "mov.b64 %%rd5, {%%r4, %%r6}; mov.b64 %%rd6, {%%r5, %%r6}; %s\n"
        "mov.f32 %%f0, 0f00000000; mov.f32 %%f1, %%f0; mov.f32 %%f2, %%f0;\n"
        "mov.f32 %%f3, %%f0; setp.eq.u32 %%p1, %%r6, %%r6; %s\n",
        r->proxy_fence, A_BYTES / 16, r->b, r->fence);
    for (i = 0; i < 4 && r->held; i++)
        at += (size_t)snprintf(
            text + at, size - at,
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
            "{%%f0, %%f1, %%f2, %%f3}, {%%r%d, %%r%d, %%r%d, %%r%d}, %%rd6, "
            "%%p1, 1, 1, 0;\nadd.s64 %%rd6, %%rd6, 2;\n",
            16 + 4 * i, 17 + 4 * i, 18 + 4 * i, 19 + 4 * i);
    for (i = 0; i < 4 && !r->held; i++)
        at += (size_t)snprintf(
            text + at, size - at,
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
            "{%%f0, %%f1, %%f2, %%f3}, %%rd5, %%rd6, %%p1, 1, 1, 0, 0;\n"
            "add.s64 %%rd5, %%rd5, 2; add.s64 %%rd6, %%rd6, 2;\n");
    snprintf(text + at, size - at,
             "wgmma.commit_group.sync.aligned; %s %s\n"
             "mad.wide.u32 %%rd7, %%r1, 16, %%rd1;\n"
             "st.global.v4.f32 [%%rd7+%u], {%%f0, %%f1, %%f2, %%f3};\n}\n",
             r->between, r->wait, TILE);
}

/* Small integers, which halves hold, and their bits as halves. */
static int
value(uint32_t row, uint32_t k)
{
    return (int)((row * 5 + k * 3) % 8);
}

static uint16_t
half_bits(int v)
{
    static const uint16_t bits[8] = {0,      0x3c00, 0x4000, 0x4200,
                                     0x4400, 0x4500, 0x4600, 0x4700};

    return bits[v];
}

static void
fill(uint8_t *data)
{
    uint32_t row, k;

    for (row = 0; row < TILE / 128; row++) {
        for (k = 0; k < 64; k++) {
            uint32_t part = k / 8 ^ row % 8;
            uint16_t v = half_bits(value(row, k));
            memcpy(data + row * 128 + part * 16 + k % 8 * 2, &v, 2);
        }
    }
}

/* As mma.sync has them: of 4 steps of 16 four words each. */
static void
fill_held(uint8_t *data)
{
    uint32_t t, word, i;

    for (t = 0; t < THREADS; t++) {
        for (word = 0; word < 16; word++) {
            for (i = 0; i < 2; i++) {
                uint32_t row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8;
                uint32_t k = word / 4 * 16 + word % 4 / 2 * 8 + t % 4 * 2 + i;
                uint16_t v = half_bits(value(row, k));
                memcpy(data + HELD + t * 64 + word * 4 + i * 2, &v, 2);
            }
        }
    }
}

static void
test_wgmma(void **state)
{
    static uint8_t data[HELD + THREADS * 64];
    static char text[8192];
    struct sim_ptx_report report;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ptx_run run = {.text = text,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 1,
                              .threads = THREADS,
                              .page_bytes = 16};
        uint32_t t, j, k;

        fill(data);
        fill_held(data);
        write_kernel(&rows[i], text, sizeof(text));
        ptx_run_keep(text);
        if (ptx_run(&run, &report) != rows[i].fault)
            fail_msg("row %d: fault %d, not %d: %s", (int)i, (int)report.fault,
                     (int)rows[i].fault, bell_error_last()->message);
        for (t = 0; t < THREADS && rows[i].fault == SIM_PTX_OK; t++) {
            for (j = 0; j < 4; j++) {
                uint32_t m = t / 32 * 16 + t % 32 / 4 + j / 2 * 8;
                uint32_t n = t % 4 * 2 + j % 2;
                float got, want = 0;
                for (k = 0; k < 64; k++)
                    want += (float)(value(m, k) * value(64 + n, k));
                memcpy(&got, data + TILE + t * 16 + j * 4, 4);
                if (got != want)
                    fail_msg("[%d, %d] is %g, not %g", (int)m, (int)n,
                             (double)got, (double)want);
            }
        }
    }
}

/* It is sm_90a's, not sm_90's, nor an older version's. */
static void
test_target(void **state)
{
    struct row row = {GOOD, SIM_PTX_OK};
    struct sim_ptx_module *module;
    static char text[8192];

    (void)state;
    row.target = "sm_90";
    write_kernel(&row, text, sizeof(text));
    assert_int_equal(sim_ptx_parse(text, &module), BELL_E_COMPILE);
}

static void
test_ptxas(void **state)
{
    (void)state;
    if (ptx_run_assemble() == 0)
        skip();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wgmma),
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_ptxas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
