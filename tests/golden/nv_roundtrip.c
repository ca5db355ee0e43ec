/* Every packer of the vendors' specifications, and of one that uses the whole
 * specification language (regs_sample.regs): random values, packed, unpacked,
 * compared with the descriptor rows (which the packers do not use); values
 * that do not fit are refused. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "tests/golden/regs_test.h"

enum {
    ROUNDS = 200,
    MAX_VALUES = 512,
    MAX_DW = 128
};

/* A struct member: its row in the generation under test, NULL if absent. */
struct member {
    const struct regs_field *row;
    unsigned first; /* in the values */
};

struct subject {
    const struct regs_test *test;
    const struct regs_type *type;
    unsigned gen;
    struct member members[MAX_VALUES];
    unsigned n_members, n_values;
};

static uint64_t seed = 1;

static uint64_t
draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static unsigned
n_bits_of(const struct regs_field *row)
{
    unsigned n = 0;

    for (unsigned p = 0; p < row->n_parts; p++)
        n += row->parts[p].n;
    return n;
}

static bool
fits(const struct regs_field *row, uint64_t value)
{
    unsigned n = n_bits_of(row);

    if (row->kind == REGS_INT) {
        int64_t x = (int64_t)value;

        return n == 64 ||
               (x >= -(INT64_C(1) << (n - 1)) && x < INT64_C(1) << (n - 1));
    }
    if (row->shift && value & ((UINT64_C(1) << row->shift) - 1))
        return false;
    n += row->shift;
    return n == 64 || value >> n == 0;
}

/* Writes element i of a field as its row says. False, and nothing is written,
 * if the value does not fit. */
static bool
put_by_row(const struct regs_field *row, uint32_t *words, unsigned i,
           uint64_t value)
{
    unsigned done = row->shift;

    assert_true(i < row->count);
    if (!fits(row, value))
        return false;
    for (unsigned p = 0; p < row->n_parts; p++) {
        struct regs_part part = row->parts[p];
        uint64_t bits = value >> done;

        if (part.n < 64)
            bits &= (UINT64_C(1) << part.n) - 1;
        regs_set(words, part.lo + i * row->stride, part.n, bits);
        done += part.n;
    }
    return true;
}

/* Members in the order of the struct: names by first appearance. */
static void
list_members(struct subject *s)
{
    for (unsigned f = 0; f < s->type->n_fields; f++) {
        const struct regs_field *row = &s->type->fields[f];
        unsigned before;

        if (row->is_const)
            continue;
        for (before = 0; before < f; before++)
            if (!strcmp(s->type->fields[before].name, row->name))
                break;
        if (before < f)
            continue;
        s->members[s->n_members++] = (struct member){
            regs_field_by_name(s->type, s->gen, row->name), s->n_values};
        s->n_values += row->count;
        assert_true(s->n_values <= MAX_VALUES);
    }
}

/* A value that fits: often at the ends of its range. */
static uint64_t
draw_value(const struct regs_field *row)
{
    unsigned n = n_bits_of(row);
    uint64_t value = draw() >> (64 - n);

    switch (draw() % 8) {
    case 0:
        value = 0;
        break;
    case 1:
        value = UINT64_MAX >> (64 - n);
        break;
    default:
        break;
    }
    if (row->kind == REGS_INT)
        return (uint64_t)regs_signed(value, n);
    return value << row->shift;
}

static void
say(const struct subject *s, const char *what, const char *name)
{
    const struct regs_unit *unit = s->test->unit;

    fail_msg("%s %s.%s of %s: %s", unit->name, s->type->name, name,
             unit->n_gens ? unit->gen_names[s->gen] : "-", what);
}

static void
round_trip(const struct subject *s)
{
    uint64_t values[MAX_VALUES] = {0}, back[MAX_VALUES] = {0};
    uint32_t by_code[MAX_DW], by_rows[MAX_DW] = {0}, rest[MAX_DW];
    const char *bad;

    for (unsigned f = 0; f < s->type->n_fields; f++) {
        const struct regs_field *row = &s->type->fields[f];

        if (row->is_const && regs_in(s->gen, row->gens))
            assert_true(put_by_row(row, by_rows, 0, row->value));
    }
    for (unsigned m = 0; m < s->n_members; m++) {
        const struct regs_field *row = s->members[m].row;

        for (unsigned i = 0; row && i < row->count; i++) {
            uint64_t *value = &values[s->members[m].first + i];

            *value = draw_value(row);
            if (!put_by_row(row, by_rows, i, *value))
                say(s, "rows refuse a value", row->name);
        }
    }
    bad = s->test->check(s->gen, values);
    if (bad)
        say(s, "refused", bad);
    memset(by_code, 0x5a, sizeof(by_code));
    s->test->pack(s->gen, values, by_code);
    for (unsigned w = 0; w < regs_dw(s->type, s->gen); w++)
        if (by_code[w] != by_rows[w])
            say(s, "packer and rows differ", "words");
    assert_int_equal(by_code[regs_dw(s->type, s->gen)], 0x5a5a5a5a);
    memset(rest, 0xa5, sizeof(rest));
    assert_int_equal(s->test->try_pack(s->gen, values, rest), BELL_OK);
    if (memcmp(rest, by_code, regs_dw(s->type, s->gen) * sizeof(*rest)) != 0)
        say(s, "the checked packer differs", "words");
    assert_int_equal(rest[regs_dw(s->type, s->gen)], 0xa5a5a5a5);
    s->test->unpack(s->gen, by_code, back);
    for (unsigned m = 0; m < s->n_members; m++) {
        const struct regs_field *row = s->members[m].row;

        for (unsigned i = 0; row && i < row->count; i++) {
            unsigned at = s->members[m].first + i;

            if (back[at] != values[at])
                say(s, "unpacked otherwise", row->name);
            if (regs_get(row, by_code, i) != values[at])
                say(s, "read otherwise through rows", row->name);
        }
    }
    memcpy(rest, by_code, sizeof(rest));
    if (regs_clear_known(s->type, s->gen, rest))
        say(s, "bits outside of the fields", "words");
}

/* Each element in turn, alone: text names it, and what is not known of it. */
static void
names(const struct subject *s)
{
    for (unsigned m = 0; m < s->n_members; m++) {
        const struct regs_field *row = s->members[m].row;

        for (unsigned i = 0; row && i < row->count; i++) {
            uint32_t w[MAX_DW] = {0};
            char buf[1024], want[96];
            struct regs_text text;

            assert_true(put_by_row(row, w, i, UINT64_C(1) << row->shift) ||
                        put_by_row(row, w, i, UINT64_MAX)); /* one bit, -1 */
            snprintf(want, sizeof(want),
                     row->is_array ? "%s[%u]=" : "%s=", row->name, i);
            regs_text_init(&text, buf, sizeof(buf));
            regs_decode_fields(&text, s->type, s->gen, w, UINT64_MAX);
            if (!strstr(buf, want))
                say(s, buf, want);
        }
    }
}

/* Each member in turn with a value that has no place; returns how many. */
static unsigned
refusals(const struct subject *s)
{
    unsigned n = 0;
    uint32_t w[MAX_DW];

    for (unsigned m = 0; m < s->n_members; m++) {
        const struct regs_field *row = s->members[m].row;
        unsigned n_bits = row ? n_bits_of(row) : 0;
        uint64_t values[MAX_VALUES] = {0}, *value;
        uint64_t wrong[2];

        value = &values[s->members[m].first];
        if (!row) {
            *value = 1; /* absent from this generation */
            assert_int_equal(s->test->try_pack(s->gen, values, w),
                             BELL_E_INVALID);
            n++;
            continue;
        }
        if (row->kind == REGS_BOOL || n_bits + row->shift == 32 ||
            n_bits + row->shift == 64)
            continue; /* the member's type has no such value */
        wrong[0] = UINT64_C(1) << (n_bits + row->shift);
        wrong[1] = row->shift ? 1 : 0;
        for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
            *value = wrong[i];
            if (!wrong[i])
                continue;
            if (s->test->try_pack(s->gen, values, w) != BELL_E_INVALID)
                say(s, "a value too large got through", row->name);
            if (put_by_row(row, w, 0, *value))
                say(s, "a value too large got through rows", row->name);
            n++;
        }
    }
    return n;
}

static void
run_unit(const struct regs_test *tests, unsigned n_tests)
{
    unsigned n_refused = 0, n_round = 0;

    for (unsigned t = 0; t < n_tests; t++) {
        const struct regs_unit *unit = tests[t].unit;
        unsigned n_gens = unit->n_gens ? unit->n_gens : 1;

        for (unsigned gen = 0; gen < n_gens; gen++) {
            struct subject s = {.test = &tests[t],
                                .type = &unit->types[tests[t].type_idx],
                                .gen = gen};
            uint64_t zero[MAX_VALUES] = {0};
            uint32_t w[MAX_DW];

            list_members(&s);
            assert_true(s.type->n_dw < MAX_DW);
            names(&s);
            if (!regs_in(gen, s.type->gens)) {
                assert_int_equal(tests[t].try_pack(gen, zero, w),
                                 BELL_E_INVALID);
                n_refused++;
                continue;
            }
            for (unsigned i = 0; i < ROUNDS; i++)
                round_trip(&s);
            n_round += ROUNDS;
            n_refused += refusals(&s);
        }
    }
    print_message("# %u structs, %u round trips, %u refusals\n", n_tests,
                  n_round, n_refused);
    assert_true(n_refused > 0);
}

static void
test_host(void **state)
{
    (void)state;
    run_unit(nv_host_tests, nv_host_n_tests);
}

static void
test_compute(void **state)
{
    (void)state;
    run_unit(nv_compute_tests, nv_compute_n_tests);
}

static void
test_ce(void **state)
{
    (void)state;
    run_unit(nv_ce_tests, nv_ce_n_tests);
}

static void
test_qmd(void **state)
{
    (void)state;
    run_unit(nv_qmd_tests, nv_qmd_n_tests);
}

static void
test_amd_object(void **state)
{
    (void)state;
    run_unit(amd_object_tests, amd_object_n_tests);
}

static void
test_qcom_cp(void **state)
{
    (void)state;
    run_unit(qcom_cp_tests, qcom_cp_n_tests);
}

static void
test_amd_pm4(void **state)
{
    (void)state;
    run_unit(amd_pm4_tests, amd_pm4_n_tests);
}

static void
test_amd_sdma(void **state)
{
    (void)state;
    run_unit(amd_sdma_tests, amd_sdma_n_tests);
}

static void
test_sample(void **state)
{
    (void)state;
    run_unit(regs_sample_tests, regs_sample_n_tests);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),    cmocka_unit_test(test_compute),
        cmocka_unit_test(test_ce),      cmocka_unit_test(test_qmd),
        cmocka_unit_test(test_qcom_cp), cmocka_unit_test(test_amd_object),
        cmocka_unit_test(test_amd_pm4), cmocka_unit_test(test_amd_sdma),
        cmocka_unit_test(test_sample),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
