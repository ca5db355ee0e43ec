/* The words of a launch, its fence and its time on Adreno: every stream of
 * docs/hardware/adreno-queues.md, "Reference streams", and its text; and the
 * table of chips against docs/hardware/adreno.md, "Chips". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "hcq/qcom/qcom.h"
#include "hcq/qcom/regs/qcom_cp.h"
#include "hcq/regs.h"
#include "tests/golden/qcom_golden.h"

#define GOLDEN(chip, id)                                                       \
    {                                                                          \
#chip, id, chip##_words, ARRAY_LEN(chip##_words)                       \
    }
static const struct {
    const char *chip;
    uint32_t id; /* of a kernel */
    const uint32_t *words;
    size_t n;
} streams[] = {
    GOLDEN(a630, 0x06030001), GOLDEN(a640, 0x06040002),
    GOLDEN(a650, 0x06050002), GOLDEN(a660, 0x06060001),
    GOLDEN(a730, 0x07030001), GOLDEN(a740, 0x43050a01),
};

#define FENCE_VA 0x100300000ull
#define WORDS_VA 0x100200000ull

static const uint64_t args[] = {0x100400000, 0x100500000, 0x100600000,
                                1000ull << 32 | 0x40000000};

/* The launch, with n_args of these; prog->launch.words is the caller's. */
static void
put_launch(struct qcom_push *push, struct qcom_program *prog, uint32_t n_args)
{
    const struct chip_arch *chip = push->engine->chip;
    uint64_t room[HCQ_EXEC_DW / 2 + ARRAY_LEN(args)] = {0};
    struct hcq_exec *exec = (struct hcq_exec *)(void *)room;

    *prog = (struct qcom_program){
        .base.pub.code_va = 0x100100000,
        .n_instrs = 32,
        .n_full_vec4 = 4,
        .n_const_vec4 = qcom_gen_of(chip)->args_in_memory ? 0 : 8,
        .branch_depth = 1,
    };
    assert_int_equal(qcom_launch_make(chip, prog, n_args), BELL_OK);
    *exec = (struct hcq_exec){
        .head = {.op = HCQ_OP_EXEC,
                 .n_dw = (uint16_t)(HCQ_EXEC_DW + 2 * n_args)},
        .prog = &prog->base,
        .grid = {16, 1, 1},
        .local = {64, 1, 1},
    };
    memcpy(exec->args, args, n_args * sizeof(args[0]));
    qcom_put_exec(push, exec);
}

/* Into memory that begins at the address of its first word, as a page does. */
static uint32_t
build(const char *name, uint32_t id, uint32_t *words)
{
    const struct chip_arch *chip = chip_adreno_find(id);
    const struct qcom_mem mem = {.va = WORDS_VA, .cpu = words};
    struct qcom_program prog;
    struct qcom_engine engine;
    struct qcom_push push = {.engine = &engine, .mem = &mem, .at = words};

    assert_non_null(chip);
    assert_string_equal(chip->name, name);
    qcom_engine_init(&engine, chip);
    qcom_put_begin(&push);
    put_launch(&push, &prog, ARRAY_LEN(args));
    if (qcom_gen_of(chip)->writes_64) /* what makes the next launch see it */
        push.at -= QCOM_CP_EVENT_WRITE_DW + 1;
    engine.idle_va = FENCE_VA;
    qcom_put_flush(&push);
    push.at--; /* what waits for it */
    qcom_put_timestamp(&push, FENCE_VA + 8);
    host_free(prog.launch.words);
    return (uint32_t)(push.at - words);
}

static void
test_streams(void **state)
{
    uint32_t words[256], n;
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(streams); i++) {
        n = build(streams[i].chip, streams[i].id, words);
        for (k = 0; k < n && k < streams[i].n; k++) {
            if (words[k] != streams[i].words[k])
                fail_msg("%s: word %zu is %08x, not %08x", streams[i].chip, k,
                         words[k], streams[i].words[k]);
        }
        assert_int_equal(n, streams[i].n);
    }
}

static void
look(void *user, const char *line)
{
    char *text = user;

    assert_null(strstr(line, "reserved"));
    assert_null(strchr(line, '?'));
    if (strlen(text) + strlen(line) + 2 < 16384)
        strcat(strcat(text, line), "\n");
}

/* ---- arguments in memory ------------------------------------------------- */

#define A750           0x43051401u
#define LOAD_CONSTANTS 0x7034000bu /* of two units */
#define LOAD_UBO       0x70348005u
#define OP_NOP         0x10u

static uint32_t
packet_dw(uint32_t head)
{
    return 1 + (head >> 28 == 4 ? head & 0x7f : head & 0x3fff);
}

/* No reference stream is an a750's: it is a740's, packet by packet, but for
 * what brings the arguments. */
static void
test_order(void **state)
{
    static char text[16384];
    static _Alignas(64) uint32_t words[256];
    uint32_t n = build("a750", A750, words), i, k;
    struct regs_stream stream = {
        .common = &qcom_cp_unit,
        .common_gen = qcom_gen_of(chip_adreno_find(A750))->cp,
        .line = look,
        .user = text,
    };

    (void)state;
    for (i = k = 0; i < ARRAY_LEN(a740_words); i += packet_dw(a740_words[i])) {
        if (a740_words[i] == LOAD_CONSTANTS) {
            assert_int_equal(words[k] >> 16 & 0x7f, OP_NOP);
            k += packet_dw(words[k]);
            assert_int_equal(words[k], LOAD_UBO);
        } else {
            assert_int_equal(words[k], a740_words[i]);
        }
        k += packet_dw(words[k]);
    }
    assert_int_equal(k, n);
    text[0] = '\0';
    assert_int_equal(regs_decode_stream(&stream, words, n), 0);
    assert_non_null(strstr(text, "LOAD_STATE6_UBO DST_OFF=0 BASE=0x1002001"));
    assert_null(strstr(text, "CONSTANTS"));
}

/* Wherever the words begin, the arguments are at a line's beginning, in words
 * that are skipped, and the descriptor says so. src:
 * docs/hardware/adreno-queues.md, "Constants and descriptors" */
static void
check_args(uint32_t first, uint32_t n_args)
{
    static _Alignas(64) uint32_t words[256];
    const struct qcom_mem mem = {.va = WORDS_VA, .cpu = words};
    uint32_t nop, load, size = (n_args + 1) / 2;
    struct qcom_engine engine;
    struct qcom_program prog;
    struct qcom_push push = {
        .engine = &engine, .mem = &mem, .at = words + first};
    uint64_t ubo, at;

    qcom_engine_init(&engine, chip_adreno_find(A750));
    put_launch(&push, &prog, n_args);
    for (nop = first; (words[nop] >> 16 & 0x7f) != OP_NOP;)
        nop += packet_dw(words[nop]);
    load = nop + packet_dw(words[nop]);
    assert_int_equal(words[load], LOAD_UBO);
    assert_int_equal(words[load + 1], 1u << 22 | 0xdu << 18 | 2u << 14);
    assert_int_equal(words[load + 2] | words[load + 3], 0);
    ubo = words[load + 4] | (uint64_t)words[load + 5] << 32;
    assert_int_equal(ubo >> 49, size);
    at = (ubo & ((1ull << 49) - 1)) - WORDS_VA;
    assert_int_equal(at % 64, 0);
    assert_true(at / 4 > nop && at / 4 + 4 * size <= load);
    assert_memory_equal(words + at / 4, args, n_args * sizeof(args[0]));
    assert_ptr_equal(words + at / 4,
                     qcom_launch_args(&prog.launch, words + first));
    assert_int_equal(push.at - words - first, prog.launch.n_dw);
    host_free(prog.launch.words);
}

static void
test_args(void **state)
{
    uint32_t first, n;

    (void)state;
    for (first = 0; first < 33; first++) {
        for (n = 1; n <= ARRAY_LEN(args); n++)
            check_args(first, n);
    }
}

/* ---- text ---------------------------------------------------------------- */

/* Every word has a name. */
static void
test_text(void **state)
{
    static char text[16384];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(streams); i++) {
        struct regs_stream stream = {
            .common = &qcom_cp_unit,
            .common_gen = qcom_gen_of(chip_adreno_find(streams[i].id))->cp,
            .line = look,
            .user = text,
        };

        text[0] = '\0';
        assert_int_equal(
            regs_decode_stream(&stream, streams[i].words, streams[i].n), 0);
        assert_non_null(strstr(text, "SP_CS_CTRL_REG0"));
        assert_non_null(strstr(text, "EXEC_CS"));
        assert_non_null(strstr(text, "NGROUPS_X=16"));
    }
}

/* ---- the table of chips -------------------------------------------------- */

/* src: docs/hardware/adreno.md, "Chips" */
static const struct {
    const char *name;
    uint32_t first_id, last_id; /* those around them are not its */
    uint32_t n_sp, fibers_per_sp, file_vec4, cache_units;
    bool has_lpac, sets_aaf2;
} facts[] = {
    {"a630", 0x06030000, 0x060300ff, 2, 2048, 96, 64, false, false},
    {"a640", 0x06040000, 0x060400ff, 2, 8192, 96, 64, false, false},
    {"a650", 0x06050000, 0x060500ff, 3, 4096, 64, 127, false, false},
    {"a660", 0x06060000, 0x060600ff, 3, 4096, 64, 127, true, false},
    {"a690", 0x06090000, 0x060900ff, 8, 4096, 64, 127, true, true},
    {"a730", 0x07030001, 0x07030001, 4, 4096, 96, 127, false, false},
    {"a740", 0x43050a01, 0x43050a01, 6, 4096, 96, 127, false, false},
    {"a750", 0x43051401, 0x43051401, 6, 4096, 96, 127, false, false},
    {"a618", 0x06010800, 0x060108ff, 1, 2048, 96, 64, false, false},
    {"a619", 0x06010900, 0x060109ff, 1, 2048, 96, 64, false, false},
    {"a635", 0x06030500, 0x060305ff, 2, 4096, 64, 127, true, false},
    {"a663", 0x06060300, 0x060603ff, 3, 8192, 64, 127, true, false},
    {"a680", 0x06080000, 0x060800ff, 4, 8192, 96, 64, false, false},
    {"x1-45", 0x43030c00, 0x43030c00, 3, 4096, 96, 127, false, false},
    {"x1-85", 0x43050c01, 0x43050c01, 6, 4096, 96, 127, false, false},
};

#define NOT_SET UINT64_MAX

/* What a submission begins with, by register and chip. */
static const struct {
    uint32_t reg;
    uint64_t values[ARRAY_LEN(facts)];
} statics[] = {
    {0xae03,
     {0x1430, 0x420, 0x1400, 0x1400, 0x1400, 0x1440, 0x10001400, 0x10000400,
      0x430, 0x430, 0x1400, 0x1400, 0x1430, 0x10001400, 0x10001400}},
    {0xae00,
     {0, 0, 0x1000000, 0x1000000, 0x1200000, 0x10000000, 0x10000000, 0x10000000,
      0, 0, 6, 6, 0, 0x10000000, 0x10000000}},
    {0xb600,
     {0x108000, 0x8000, 0x1008000, 0x5008000, 0x4c00000, 0x1000000, 0x11100000,
      0x11100000, 0x108000, 0x108000, 0x5008000, 0x5008000, 0x108000,
      0x11100000, 0x11100000}},
    {0xbe04,
     {0x80000, 0, 0, 0, 0, NOT_SET, NOT_SET, NOT_SET, 0x80000, 0x80000, 0, 0, 0,
      NOT_SET, NOT_SET}},
    {0x0e12,
     {0x10000001, 1, 1, 1, 1, 0x3200000, 0, 0x40000000, 1, 1, 1, 1, 1, 0, 0}},
    {0x0e19,
     {4, 4, 4, 0x84, 0x84, 0x84, 0x84, 0, 4, 4, 0x84, 0x84, 4, 0x84, 0x84}},
    {0xae04, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {0xae0f,
     {0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f,
      0x3f, 0x3f, 0x3f}},
    {0xb605,
     {0x44, 0x44, 0x44, 0x44, 0x44, NOT_SET, NOT_SET, NOT_SET, 0x44, 0x44, 0x44,
      0x44, 0x44, NOT_SET, NOT_SET}},
    {0xbe00,
     {0x80, 0x80, 0x80, 0x80, 0x80, NOT_SET, NOT_SET, NOT_SET, 0x80, 0x80, 0x80,
      0x80, 0x80, NOT_SET, NOT_SET}},
    {0xbe01,
     {0, 0, 0, 0, 0, NOT_SET, NOT_SET, NOT_SET, 0, 0, 0, 0, 0, NOT_SET,
      NOT_SET}},
    {0xbb11,
     {0, 0, 0, 0, 0, NOT_SET, NOT_SET, NOT_SET, 0, 0, 0, 0, 0, NOT_SET,
      NOT_SET}},
    {0xaaf2,
     {NOT_SET, NOT_SET, NOT_SET, NOT_SET, 0xc00000, NOT_SET, NOT_SET, NOT_SET,
      NOT_SET, NOT_SET, NOT_SET, NOT_SET, NOT_SET, NOT_SET, NOT_SET}},
};

/* What the words write to a register last. */
static uint64_t
written(const uint32_t *words, uint32_t n, uint32_t reg)
{
    uint64_t value = NOT_SET;
    uint32_t i, k, n_dw;

    for (i = 0; i < n; i += 1 + n_dw) {
        uint32_t first = words[i] >> 8 & 0x3ffff;
        bool is_write = words[i] >> 28 == 4;

        n_dw = words[i] & (is_write ? 0x7f : 0x3fff);
        for (k = 0; is_write && k < n_dw; k++) {
            if (first + k == reg)
                value = words[i + 1 + k];
        }
    }
    assert_int_equal(i, n);
    return value;
}

static void
test_chips(void **state)
{
    struct qcom_engine engine;
    size_t c, s;

    (void)state;
    for (c = 0; c < ARRAY_LEN(facts); c++) {
        const struct chip_arch *chip = chip_adreno_find(facts[c].first_id);

        assert_non_null(chip);
        assert_string_equal(chip->name, facts[c].name);
        assert_ptr_equal(chip_adreno_find(facts[c].last_id), chip);
        assert_ptr_not_equal(chip_adreno_find(facts[c].first_id - 1), chip);
        assert_ptr_not_equal(chip_adreno_find(facts[c].last_id + 1), chip);
        assert_int_equal(chip->n_units, facts[c].n_sp);
        assert_int_equal(chip->adreno.fibers_per_sp, facts[c].fibers_per_sp);
        assert_int_equal(chip->adreno.file_vec4, facts[c].file_vec4);
        assert_int_equal(chip->adreno.cache_units, facts[c].cache_units);
        assert_int_equal(chip->adreno.has_lpac, facts[c].has_lpac);
        assert_int_equal(chip->adreno.sets_aaf2, facts[c].sets_aaf2);
        qcom_engine_init(&engine, chip);
        for (s = 0; s < ARRAY_LEN(statics); s++) {
            uint64_t got =
                written(engine.begin, engine.n_begin, statics[s].reg);

            if (got != statics[s].values[c])
                fail_msg("%s: register %x: %llx", chip->name, statics[s].reg,
                         (unsigned long long)got);
        }
    }
    assert_null(chip_adreno_find(0x06010000));
    assert_non_null(strstr(chip_why_refused_adreno(0x06010000), "a610"));
    assert_non_null(strstr(chip_why_refused_adreno(0x07000200), "a702"));
    assert_non_null(strstr(chip_why_refused_adreno(0x44050a01), "8xx"));
    assert_null(chip_why_refused_adreno(0x12345678));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_order),
        cmocka_unit_test(test_args),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_chips),
    };

    return cmocka_run_group_tests_name("qcom_stream", tests, NULL, NULL);
}
