/* Adreno's instructions: all golden words both ways, random ones through text
 * and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "render/ir3/ir3_internal.h"
#include "tests/golden/ir3_golden.h"

/* Its text has six decimals of a float that has more: the one vector whose text
 * is not the word's. */
#define ROUNDED 0xe45401a0bfba7736u

static void
test_golden(void **state)
{
    struct ir3_instr instr;
    char text[IR3_TEXT_MAX];
    uint64_t unused;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(ir3_golden); i++) {
        uint64_t word = ir3_golden[i].word;
        const char *want = ir3_golden[i].text;
        assert_true(ir3_decode(ir3_golden[i].gen, word, &instr, &unused));
        assert_int_equal(unused, 0);
        assert_true(ir3_encode(&instr) == word);
        if (word == ROUNDED)
            continue;
        ir3_print(&instr, text);
        assert_string_equal(text, want);
        if (ir3_golden[i].input)
            want = ir3_golden[i].input;
        assert_int_equal(ir3_parse(ir3_golden[i].gen, want, &instr), BELL_OK);
        assert_true(ir3_encode(&instr) == word);
    }
}

static uint64_t
next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Words of all opcodes, their fields sparsely set. */
static void
test_random(void **state)
{
    uint64_t seed = 88172645463325252u, word, unused, ones;
    unsigned n = 0, n_ops[IR3_OP_COUNT] = {0}, i;
    struct ir3_instr instr, again;
    const struct ir3_row *row;
    char text[IR3_TEXT_MAX];
    enum ir3_gen gen;

    (void)state;
    while (n < 100000) {
        row = &ir3_rows[next_random(&seed) % IR3_OP_COUNT];
        gen = row->gens & IR3_GEN_A6XX ? IR3_GEN_A6XX : IR3_GEN_A7XX;
        word = row->match;
        for (i = 0; i < row->n_places; i++) {
            ones = UINT64_MAX >> (64 - row->places[i].n_bits);
            if (next_random(&seed) % 3 == 0)
                word |= (next_random(&seed) & ones) << row->places[i].lo;
        }
        if (!ir3_decode(gen, word, &instr, &unused) || unused)
            continue;
        n++;
        n_ops[instr.op]++;
        assert_true(ir3_encode(&instr) == word);
        ir3_print(&instr, text);
        if (ir3_parse(gen, text, &again) != BELL_OK)
            fail_msg("%016llx: '%s' is not read", (unsigned long long)word,
                     text);
        if (ir3_encode(&again) != word)
            fail_msg("%016llx: '%s' gives %016llx", (unsigned long long)word,
                     text, (unsigned long long)ir3_encode(&again));
    }
    for (i = 0; i < IR3_OP_COUNT; i++)
        assert_true(n_ops[i] > 0);
}

/* Rows are told apart: no word is two instructions of one generation. */
static void
test_rows(void **state)
{
    unsigned i, j;

    (void)state;
    for (i = 0; i < IR3_OP_COUNT; i++) {
        assert_true((ir3_rows[i].match & ~ir3_rows[i].mask) == 0);
        for (j = i + 1; j < IR3_OP_COUNT; j++) {
            uint64_t both = ir3_rows[i].mask & ir3_rows[j].mask;
            if (ir3_rows[i].gens & ir3_rows[j].gens)
                assert_true((ir3_rows[i].match & both) !=
                            (ir3_rows[j].match & both));
        }
    }
}

static void
test_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "add.f",
        "add.f r0.x",
        "add.f r0.x, r1.y, r2.q",
        "add.f r0.x, hr1.y, r2.z",        /* two widths */
        "add.f r0.x, r1.y, r2.z, r3.w",   /* too many */
        "add.f r64.x, r0.x, r0.x",        /* no such register */
        "add.s r0.x, r1.y, 5000",         /* too large */
        "mad.f32 r0.x, r1.y, c2.z, r3.w", /* no constant there */
        "mov.f32f32 hr0.x, r1.y",
        "mov.f32s32 r0.x, r1.y", /* that is cov */
        "ldg.f32 r0.x, g[r0.z+4096], 1",
        "ldg.f32 r0.x, g[r0.z], 9",
        "(rpt9)nop",
        "jump #99999999999",
        "frobnicate r0.x",
    };
    struct ir3_instr instr;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(texts); i++) {
        if (ir3_parse(IR3_GEN_A6XX, texts[i], &instr) == BELL_OK)
            fail_msg("'%s' was read", texts[i]);
        assert_non_null(strstr(bell_error_last()->message, texts[i]));
    }
}

/* No instruction, and bits that none uses. */
static void
test_unknown(void **state)
{
    struct ir3_instr instr;
    uint64_t unused;

    (void)state;
    assert_false(
        ir3_decode(IR3_GEN_A6XX, 0xe3c2000000000000u, &instr, &unused));
    assert_true(ir3_decode(IR3_GEN_A7XX, 0xe3c2000000000000u, &instr, &unused));
    assert_false(ir3_decode(IR3_GEN_A6XX, UINT64_MAX, &instr, &unused));
    assert_true(ir3_decode(IR3_GEN_A6XX, 0x0000000000000001u, &instr, &unused));
    assert_int_equal(unused, 1);
    assert_int_equal(instr.op, IR3_NOP);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
