/* The words of a launch, its fence and its time on Adreno: every stream of the
 * facts, and its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
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

static uint32_t
build(const char *name, uint32_t id, uint32_t *words)
{
    const struct qcom_chip *chip = qcom_chip_find(id);
    struct qcom_program prog = {
        .base.pub.code_va = 0x100100000,
        .n_instrs = 32,
        .n_full_vec4 = 4,
        .n_const_vec4 = 8,
        .branch_depth = 1,
    };
    const uint64_t args[] = {0x100400000, 0x100500000, 0x100600000,
                             1000ull << 32 | 0x40000000};
    uint64_t room[HCQ_EXEC_DW / 2 + ARRAY_LEN(args)] = {0};
    struct hcq_exec *exec = (struct hcq_exec *)(void *)room;
    struct qcom_engine engine;
    struct qcom_push push = {.engine = &engine, .at = words};

    assert_non_null(chip);
    assert_string_equal(chip->name, name);
    qcom_engine_init(&engine, chip);
    assert_int_equal(qcom_launch_make(chip, &prog, ARRAY_LEN(args)), BELL_OK);
    *exec = (struct hcq_exec){
        .head = {.op = HCQ_OP_EXEC, .n_dw = sizeof(room) / 4},
        .prog = &prog.base,
        .grid = {16, 1, 1},
        .local = {64, 1, 1},
    };
    memcpy(exec->args, args, sizeof(args));
    qcom_put_begin(&push);
    qcom_put_exec(&push, exec);
    if (chip->gen->writes_64) /* what makes the next launch see it */
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
            .common_gen = qcom_chip_find(streams[i].id)->gen->cp,
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_text),
    };

    return cmocka_run_group_tests_name("qcom_stream", tests, NULL, NULL);
}
