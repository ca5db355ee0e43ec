/* The kernels that hcq/qcom brings along: its words are what the assembler
 * makes of hcq/qcom/move/, and they copy and fill.
 *
 * usage: golden_qcom_move FOLDER
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/chip.h"
#include "hcq/qcom/qcom_move.h"
#include "render/ir3/ir3_isa.h"
#include "sim/qcom/isa/shader.h"

static const char *folder;
static const char *const names[QCOM_MOVE_COUNT] = {
    [QCOM_MOVE_COPY16] = "copy16",
    [QCOM_MOVE_COPY1] = "copy1",
    [QCOM_MOVE_FILL16] = "fill16",
    [QCOM_MOVE_FILL1] = "fill1",
};
static const uint32_t chips[] = {0x06030001, 0x43050a01, 0x43051401};

/* The words are those of the text; how many there are. */
static uint32_t
check_text(const struct qcom_gen *gen, const char *name, const uint64_t *words)
{
    char path[512], line[128];
    uint32_t i = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.s", folder, name);
    file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof(line), file); i++) {
        struct ir3_instr instr;
        uint64_t word;

        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(ir3_parse((enum ir3_gen)gen->code_gen, line, &instr),
                         BELL_OK);
        word = ir3_encode(&instr);
        if (word != words[i])
            fail_msg("%s: %s: %llx is not %llx", path, line,
                     (unsigned long long)words[i], (unsigned long long)word);
    }
    fclose(file);
    return i;
}

static void
test_words(void **state)
{
    uint64_t words[QCOM_MOVE_INSTRS];
    size_t c;
    unsigned kind;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        const struct qcom_gen *gen = qcom_gen_of(chip_adreno_find(chips[c]));

        for (kind = 0; kind < QCOM_MOVE_COUNT; kind++) {
            uint32_t n = qcom_move_code(gen, kind, words), i;

            i = check_text(
                gen, gen->args_in_memory ? "args_memory" : "args_constants",
                words);
            i += check_text(gen, names[kind], words + i);
            assert_int_equal(i + gen->n_end, n);
        }
    }
}

/* ---- running them -------------------------------------------------------- */

#define ARGS 0x5000000c0ull
#define DST  0x1ffffff00ull /* its end lies beyond 4 GiB more */
#define SRC  0x3fffffe80ull
#define N    4096u

struct memory {
    uint8_t dst[N], src[N];
    uint64_t args[4];
};

static void *
memory_at(void *user, uint64_t va, uint32_t n_bytes, enum shader_access access)
{
    struct memory *memory = user;

    if (va >= DST && va + n_bytes <= DST + N)
        return memory->dst + (va - DST);
    if (access == SHADER_LOAD && va >= SRC && va + n_bytes <= SRC + N)
        return memory->src + (va - SRC);
    if (access == SHADER_LOAD && va >= ARGS &&
        va + n_bytes <= ARGS + sizeof(memory->args))
        return (uint8_t *)memory->args + (va - ARGS);
    return NULL;
}

static void
run(uint32_t chip, unsigned kind, uint64_t dst, uint64_t src, uint32_t n,
    struct memory *memory)
{
    const struct qcom_gen *gen = qcom_gen_of(chip_adreno_find(chip));
    const uint64_t args[4] = {dst, src, n};
    const struct shader_ubo ubo = {ARGS, 2};
    bool is_a6xx = gen->code_gen == IR3_GEN_A6XX;
    uint64_t words[QCOM_MOVE_INSTRS] = {0};
    struct shader_launch l = {
        .lanes = 64,
        .n_full_vec4 = 4,
        .n_waves_max = 16,
        .branch_depth = 2,
        .shared_bytes = 1024,
        .consts = (const uint32_t *)args,
        .n_consts = gen->args_in_memory ? 0 : 6,
        .ubos = &ubo,
        .n_ubos = gen->args_in_memory,
        .local_id = 0,
        .group_id = 192,
        .group_size = SHADER_NO_REG,
        .group_offset = SHADER_NO_REG,
        .linear_id = SHADER_NO_REG,
        .grid = {(n + 255) / 256, 1, 1},
        .local = {256, 1, 1},
        .needs_predication_gaps = !is_a6xx,
        .ends_locked = !is_a6xx,
        .memory = {memory_at, memory},
    };
    struct shader_report report;
    struct shader_code *code;

    memcpy(memory->args, args, sizeof(args));
    (void)qcom_move_code(gen, kind, words);
    assert_int_equal(shader_code_create(is_a6xx ? SHADER_A6XX : SHADER_A7XX,
                                        words, QCOM_MOVE_INSTRS, &code),
                     BELL_OK);
    l.code = code;
    if (shader_run(&l, &report) != SHADER_OK)
        fail_msg("%08x, %s: %s", chip, names[kind], report.text);
    shader_code_destroy(code);
}

static void
test_runs(void **state)
{
    static const uint32_t sizes[] = {1, 3, 16, 255, 256, 257, 1000};
    static const uint8_t pattern[4] = {0x11, 0x22, 0x33, 0x44};
    struct memory memory, want;
    size_t c, s, i;
    uint32_t word;

    (void)state;
    memcpy(&word, pattern, 4);
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        for (s = 0; s < ARRAY_LEN(sizes); s++) {
            uint32_t n = sizes[s], units = n < 200 ? n : 200;

            for (i = 0; i < N; i++) {
                memory.dst[i] = (uint8_t)(i * 3);
                memory.src[i] = (uint8_t)(i * 7 + i / 256);
            }
            want = memory;
            memcpy(want.dst + 5, want.src + 10, n);
            run(chips[c], QCOM_MOVE_COPY1, DST + 5, SRC + 10, n, &memory);
            assert_memory_equal(&memory, &want, offsetof(struct memory, args));
            memcpy(want.dst + 4, want.src + 24, 16 * (size_t)units);
            run(chips[c], QCOM_MOVE_COPY16, DST + 4, SRC + 24, units, &memory);
            assert_memory_equal(&memory, &want, offsetof(struct memory, args));
            for (i = 0; i < 16 * (size_t)units; i++)
                want.dst[8 + i] = pattern[i % 4];
            run(chips[c], QCOM_MOVE_FILL16, DST + 8, word, units, &memory);
            assert_memory_equal(&memory, &want, offsetof(struct memory, args));
            for (i = 0; i < n; i++)
                want.dst[64 + i] = (uint8_t)~pattern[i % 4];
            run(chips[c], QCOM_MOVE_FILL1, DST + 64, ~word, n, &memory);
            assert_memory_equal(&memory, &want, offsetof(struct memory, args));
        }
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_runs),
    };

    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests_name("qcom_move", tests, NULL, NULL);
}
