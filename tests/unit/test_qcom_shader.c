/* The interpreter of Adreno's shaders: kernels of another compiler are taken as
 * they are and refused where a wait is taken out of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "ir3_kernels.h"
#include "qcom_shaders.h"
#include "sim/qcom/isa/shader.h"

#define N_ELEMS 32768u
#define N_SLOTS 3u

static uint32_t slots_data[N_SLOTS][N_ELEMS];

static void *
memory_at(void *user, uint64_t va, uint32_t n_bytes, enum shader_access access)
{
    uint64_t slot = (va >> 32) - 1, at = (uint32_t)va;

    (void)user, (void)access;
    if (slot >= N_SLOTS || at + n_bytes > N_ELEMS * 4)
        return NULL;
    return (char *)slots_data[slot] + at;
}

static enum shader_fault
run_code(enum shader_gen gen, const uint64_t *words, uint32_t n,
         struct shader_launch *l, struct shader_report *report)
{
    struct shader_code *code;
    enum shader_fault fault;

    memset(report, 0, sizeof(*report));
    if (shader_code_create(gen, words, n, &code) != BELL_OK)
        return SHADER_BAD;
    l->code = code;
    fault = shader_run(l, report);
    shader_code_destroy(code);
    return fault;
}

static enum shader_fault
run_words(const struct ir3_kernel *k, const uint64_t *words,
          struct shader_report *report)
{
    static const struct shader_slot slots[N_SLOTS] = {{1ull << 32, N_ELEMS, 4},
                                                      {2ull << 32, N_ELEMS, 4},
                                                      {3ull << 32, N_ELEMS, 4}};
    uint32_t consts[32] = {0};
    struct shader_launch l = {
        .lanes = 64,
        .n_full_vec4 = k->n_full,
        .n_half_vec4 = k->n_half,
        /* one writes hr0.x while r0.x is in use */
        .has_own_halves = true,
        .n_waves_max = 16,
        .branch_depth = 4,
        .shared_bytes = 4096,
        .consts = consts,
        .n_consts = 32,
        .demotes = true,
        .slots = slots,
        .n_slots = N_SLOTS,
        .local_id = 0,
        .group_id = 192,
        .group_size = SHADER_NO_REG,
        .group_offset = SHADER_NO_REG,
        .linear_id = SHADER_NO_REG,
        .grid = {2, 1, 1},
        .local = {64, 1, 1},
        .needs_predication_gaps = k->gen == 2,
        .ends_locked = k->gen == 2,
        .max_insns = 1000000,
        .memory = {memory_at, NULL},
    };

    if (!strcmp(k->name, "reduce_sin"))
        l.local[0] = 256;
    if (!strcmp(k->name, "matmul_lds"))
        l.local[0] = l.local[1] = 16;
    memcpy(consts + 16, k->consts, sizeof(k->consts));
    return run_code((enum shader_gen)k->gen, words, k->n, &l, report);
}

/* Loops of 8, numbers from 1 on, floats from 1 on. */
static void
fill(const struct ir3_kernel *k)
{
    bool all = !strcmp(k->name, "collatz_divergent");
    bool first = !strcmp(k->name, "imul_udiv_sfu_atomic");
    uint32_t i, slot;
    float f;

    for (slot = 0; slot < N_SLOTS; slot++) {
        for (i = 0; i < N_ELEMS; i++) {
            f = 1.0f + (float)(i % 7) + (float)slot;
            memcpy(&slots_data[slot][i], &f, 4);
            if (all || (first && slot == 0))
                slots_data[slot][i] = i + 1 + slot;
        }
    }
}

static void
test_kernels(void **state)
{
    struct shader_report report;
    unsigned i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(ir3_kernels); i++) {
        fill(&ir3_kernels[i]);
        if (run_words(&ir3_kernels[i], ir3_kernels[i].words, &report) !=
            SHADER_OK)
            fail_msg("%s of %u: %s", ir3_kernels[i].name, ir3_kernels[i].gen,
                     report.text);
    }
}

static uint32_t
collatz(uint32_t n)
{
    int32_t x = (int32_t)n;
    uint32_t steps = 0;

    while (x != 1 && steps < 100) {
        x = x & 1 ? 3 * x + 1 : x >> 1;
        steps++;
        if (x < 0)
            break;
    }
    return steps * (x > 7 ? 2 : 5);
}

static void
test_results(void **state)
{
    struct shader_report report;
    uint32_t i, k;
    float f;

    (void)state;
    for (k = 0; k < ARRAY_LEN(ir3_kernels); k++) {
        const struct ir3_kernel *kernel = &ir3_kernels[k];
        fill(kernel);
        (void)run_words(kernel, kernel->words, &report);
        for (i = 0; i < 128; i++) {
            if (!strcmp(kernel->name, "collatz_divergent"))
                assert_int_equal(slots_data[0][i], collatz(i + 1));
            memcpy(&f, &slots_data[0][i], 4);
            if (!strcmp(kernel->name, "axpy"))
                assert_true(f == 2.0f * (1.0f + (float)(i % 7)) + 1.0f);
        }
    }
}

/* Without its flags, or its cycles: each instruction in turn. */
static uint64_t
without(uint64_t word, unsigned what)
{
    unsigned category = (unsigned)(word >> 61);

    switch (what) {
    case 0: /* (sy) */
        return word & ~(1ull << 60);
    case 1: /* (ss) */
        return category == 5 || category == 6 ? word : word & ~(1ull << 44);
    case 2: /* (jp) */
        return word & ~(1ull << 59);
    case 3: /* (rptN)nop */
        return word >> 43 || !(word >> 40 & 7) ? word : word & ~(7ull << 40);
    default: /* (nopN) */
        if ((category != 2 && category != 3) || (word >> 40 & 3))
            return word;
        word &= ~(1ull << 43);
        return word & (category == 2 ? ~(1ull << 51) : ~(1ull << 15));
    }
}

static void
test_hazards(void **state)
{
    /* Changes of each kind that are refused. A flag may be there twice, a cycle
     * for an instruction that these inputs never reach, a join where nobody
     * parts. */
    static const unsigned least[5] = {30, 70, 6, 95, 95};
    uint64_t words[1024];
    struct shader_report report;
    unsigned k, i, what, n, n_refused;

    (void)state;
    for (what = 0; what < 5; what++) {
        n = n_refused = 0;
        for (k = 0; k < ARRAY_LEN(ir3_kernels); k++) {
            const struct ir3_kernel *kernel = &ir3_kernels[k];
            /* the same 32 times over */
            if (!strcmp(kernel->name, "matmul_lds"))
                continue;
            for (i = 0; i < kernel->n; i++) {
                memcpy(words, kernel->words, kernel->n * 8);
                words[i] = without(words[i], what);
                if (words[i] == kernel->words[i])
                    continue;
                fill(kernel);
                n++;
                n_refused += run_words(kernel, words, &report) != SHADER_OK;
            }
        }
        print_message("%u: %u of %u refused\n", what, n_refused, n);
        assert_true(100 * n_refused >= least[what] * n);
    }
}

/* c[i] = 2 a[i] + b[i], whose arguments are at the end of the first slot. */
static enum shader_fault
run_ubo(const uint64_t *words, struct shader_report *report)
{
    const uint64_t n = N_ELEMS - 64, at = 4 * n;
    const uint64_t args[4] = {1ull << 32, 2ull << 32, 3ull << 32,
                              64ull << 32 | 0x40000000};
    const struct shader_ubo ubo = {1ull << 32 | at, 2};
    struct shader_launch l = {
        .lanes = 64,
        .n_full_vec4 = 4,
        .n_waves_max = 16,
        .branch_depth = 2,
        .shared_bytes = 1024,
        .ubos = &ubo,
        .n_ubos = 1,
        .local_id = 0,
        .group_id = 192,
        .group_size = SHADER_NO_REG,
        .group_offset = SHADER_NO_REG,
        .linear_id = SHADER_NO_REG,
        .grid = {1, 1, 1},
        .local = {64, 1, 1},
        .ends_locked = true,
        .memory = {memory_at, NULL},
    };

    memcpy(&slots_data[0][n], args, sizeof(args));
    return run_code(SHADER_A7XX, words, ARRAY_LEN(qcom_shader_ubo), &l, report);
}

static void
test_ubo(void **state)
{
    static const struct {
        uint32_t at;
        uint64_t bits; /* that are changed */
        const char *text;
    } rows[] = {
        {6, 1ull << 60, "is read without (sy)"},
        /* the first nop becomes a mov to r2.x */
        {3, 0x0000010000000000 ^ 0x204cc00800000000, "is overwritten before"},
        {0, 3u << 9, "words of two constants"},
        {0, 1ull << 41, "there is no buffer 1"},
        {1, 3u << 24, "constant 2 of the 2 in buffer 0"},
        {0, 1u << 23,
         "constant 2 of the 2"}, /* a thread's place is which constant */
        {0, 1u << 6, "threads differ in the slot"}, /* .. or which buffer */
        {0, 1u << 11, ""},                          /* .u */
        {0, 1u << 8, ""},                           /* bindless */
        {0, 3u << 6, ""},                           /* of no mode */
    };
    uint64_t words[ARRAY_LEN(qcom_shader_ubo)];
    struct shader_report report;
    uint32_t i;
    float f;

    (void)state;
    for (i = 0; i < 64; i++) {
        f = (float)i;
        memcpy(&slots_data[0][i], &f, 4);
        f = (float)(i * i);
        memcpy(&slots_data[1][i], &f, 4);
    }
    if (run_ubo(qcom_shader_ubo, &report) != SHADER_OK)
        fail_msg("%s", report.text);
    for (i = 0; i < 64; i++) {
        memcpy(&f, &slots_data[2][i], 4);
        assert_true(f == (float)(2 * i + i * i));
    }
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        memcpy(words, qcom_shader_ubo, sizeof(words));
        words[rows[i].at] ^= rows[i].bits;
        if (run_ubo(words, &report) != SHADER_BAD ||
            !strstr(report.text, rows[i].text) ||
            (!rows[i].text[0] && report.text[0]))
            fail_msg("%u: %s", i, report.text);
    }
}

/* Words that are changed at random: no crash, an end. */
static void
test_noise(void **state)
{
    uint64_t words[1024];
    struct shader_report report;
    unsigned k, i;

    (void)state;
    srand(1);
    for (i = 0; i < 3000; i++) {
        k = (unsigned)rand() % ARRAY_LEN(ir3_kernels);
        fill(&ir3_kernels[k]);
        memcpy(words, ir3_kernels[k].words, ir3_kernels[k].n * 8);
        words[(unsigned)rand() % 24] ^= 1ull << rand() % 64;
        words[(unsigned)rand() % 24] ^= 1ull << rand() % 64;
        (void)run_words(&ir3_kernels[k], words, &report);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels), cmocka_unit_test(test_results),
        cmocka_unit_test(test_hazards), cmocka_unit_test(test_ubo),
        cmocka_unit_test(test_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
