/* tools/: words from text and bytes; pushbuffers, rings and launch
 * descriptors as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tools/decode_nv.h"
#include "tools/words.h"

/* ---- words ---------------------------------------------------------------- */

static void
expect_words(const char *text, const uint32_t *words, size_t n)
{
    struct words got;

    assert_int_equal(words_parse("t", text, strlen(text), &got), BELL_OK);
    assert_int_equal(got.n, n);
    if (n)
        assert_memory_equal(got.w, words, 4 * n);
    host_free(got.w);
}

#define WORDS(text, ...)                                                       \
    expect_words(text, (const uint32_t[]){__VA_ARGS__},                        \
                 ARRAY_LEN(((const uint32_t[]){__VA_ARGS__})))

static void
test_text(void **state)
{
    (void)state;
    expect_words("", NULL, 0);
    expect_words(" \n# nothing", NULL, 0);
    WORDS("20012000 cbc0", 0x20012000, 0xcbc0);
    WORDS("0x1,0X2 ,\t3\n", 1, 2, 3);
    WORDS("1 # 2 3\n4", 1, 4);
    WORDS("    0x0200001000: 00000001 00000002\n  0x20: 3", 1, 2, 3);
    WORDS("0000a01234567000 5", 0x34567000, 0x0000a012, 5);
    WORDS("2:ff 4:a", 0, 0, 0xff, 0, 0xa);
}

static void
test_bytes(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x20, 0x01, 0x20, 0xc0, 0xcb, 0, 0};
    struct words got;

    (void)state;
    assert_int_equal(words_parse("b", bytes, 8, &got), BELL_OK);
    assert_int_equal(got.n, 2);
    assert_int_equal(got.w[0], 0x20012000);
    assert_int_equal(got.w[1], 0xcbc0);
    host_free(got.w);
    assert_int_equal(words_parse("b", bytes, 7, &got), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "b: 7 bytes"));
}

static void
test_bad_text(void **state)
{
    static const char *const cases[][2] = {
        {"1\n2 xyz", "line 2: 'xyz'"},
        {"12345678123456781", "at most 16 digits"},
        {"0x", "'0x'"},
        {"1:", NULL},
        {"a:1", "the index"},
        {"99999999999:1", "the index"},
        {"1:2:3", "'1:2:3'"},
    };
    struct words got;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        const char *text = cases[i][0];
        bell_status status = words_parse("t", text, strlen(text), &got);
        if (!cases[i][1]) {
            assert_int_equal(status, BELL_OK);
            host_free(got.w);
            continue;
        }
        assert_int_equal(status, BELL_E_IO);
        assert_non_null(strstr(bell_error_last()->message, cases[i][1]));
    }
}

static void
test_no_memory(void **state)
{
    struct words got;

    (void)state;
    host_fail_after(1, 0);
    assert_int_equal(words_parse("t", "1 2", 3, &got), BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
}

/* ---- decoding ------------------------------------------------------------- */

struct lines {
    char text[16384];
    size_t n;
};

static void
add_line(void *user, const char *line)
{
    struct lines *lines = user;
    int n = snprintf(lines->text + lines->n, sizeof(lines->text) - lines->n,
                     "%s\n", line);

    if (n > 0 && (size_t)n < sizeof(lines->text) - lines->n)
        lines->n += (size_t)n;
}

static void
reset(struct lines *lines)
{
    lines->n = 0;
    lines->text[0] = '\0';
}

static void
test_push_keeps_bindings(void **state)
{
    static const uint32_t launch[] = {0x200120b0, 0xa};
    static const uint32_t bind[] = {0x20012000, 0xcbc0};
    static struct lines lines;
    struct decode_nv d;

    (void)state;
    decode_nv_init(&d, add_line, &lines);
    reset(&lines);
    assert_int_equal(decode_nv_push(&d, launch, 2), 1);
    assert_non_null(strstr(lines.text, "? 0x02c0 = 0000000a"));
    assert_int_equal(decode_nv_push(&d, bind, 2), 0);
    assert_int_equal(decode_nv_push(&d, launch, 2), 0);
    assert_non_null(strstr(lines.text, "SEND_SIGNALING_PCAS2_B"));
}

static void
test_bind(void **state)
{
    static const uint32_t copy[] = {0x20018106, 0x1000};
    static struct lines lines;
    const struct decode_nv_chip *chip;
    struct decode_nv d;
    size_t i;

    (void)state;
    reset(&lines);
    decode_nv_init(&d, add_line, &lines);
    assert_false(decode_nv_bind(&d, 0x41));
    for (i = 0; (chip = decode_nv_chip_at(i)) != NULL; i++) {
        assert_ptr_equal(decode_nv_chip_find(chip->name), chip);
        assert_true(decode_nv_bind(&d, chip->gpfifo_class));
        assert_true(decode_nv_bind(&d, chip->compute_class));
        assert_int_equal(d.compute_class, chip->compute_class);
        assert_true(decode_nv_bind(&d, chip->copy_class));
        assert_int_equal(decode_nv_push(&d, copy, 2), 0);
    }
    assert_null(decode_nv_chip_find("sm_75"));
}

/* src: hw/nv/BRINGUP.md section 15 */
static void
test_ring(void **state)
{
    static const uint32_t words[] = {0x34567000, 0x0000a012, 0x00007f00,
                                     0x00000004, 0x00000001};
    static struct lines lines;
    struct decode_nv d;

    (void)state;
    reset(&lines);
    decode_nv_init(&d, add_line, &lines);
    assert_int_equal(decode_nv_ring(&d, words, 4, 0x1000), 0);
    assert_string_equal(
        lines.text,
        "0x0000001000: 0000a01234567000 GP_ENTRY GET=0x1234567000 LENGTH=40\n"
        "0x0000001008: 0000000400007f00 GP_EXTENDED_BASE "
        "PB_EXTENDED_BASE_OPERAND=0x7f0000000000\n");
    reset(&lines);
    assert_int_equal(decode_nv_ring(&d, words, 5, 0), 1);
    assert_non_null(strstr(lines.text, "? half an entry"));
}

/* A descriptor of each version tells its version; so does a class. */
static void
test_qmd_versions(void **state)
{
    static const struct {
        unsigned major, n_dw, word;
        uint32_t value, nv_class;
    } rows[] = {
        {3, 64, 18, 0x30, 0xc6c0},
        {4, 96, 18, 0x40, 0xcbc0},
        {5, 96, 14, 0x500000, 0xcec0},
    };
    static struct lines lines;
    struct decode_nv d;
    char want[16];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t words[96] = {0};
        words[rows[i].word] = rows[i].value;
        snprintf(want, sizeof(want), "QMD %u, %u words", rows[i].major,
                 rows[i].n_dw);
        decode_nv_init(&d, add_line, &lines);
        reset(&lines);
        assert_int_equal(decode_nv_qmd(&d, words, rows[i].n_dw, 0), 0);
        assert_non_null(strstr(lines.text, want));
        assert_true(decode_nv_bind(&d, rows[i].nv_class));
        assert_int_equal(decode_nv_qmd(&d, words, rows[i].n_dw, 0), 0);
        words[rows[i].word] = 0;
        reset(&lines);
        assert_int_equal(decode_nv_qmd(&d, words, rows[i].n_dw, 0), 1);
        assert_non_null(strstr(lines.text, "another one"));
        assert_int_equal(decode_nv_qmd(&d, words, 5, 0), 5);
    }
}

static void
test_qmd_reserved(void **state)
{
    uint32_t words[96] = {0};
    static struct lines lines;
    struct decode_nv d;

    (void)state;
    words[18] = 0x40;
    words[1] = 0x80000000;
    reset(&lines);
    decode_nv_init(&d, add_line, &lines);
    (void)decode_nv_qmd(&d, words, 96, 0);
    assert_non_null(strstr(lines.text, "reserved[1]"));
    memset(words, 0, sizeof(words));
    assert_int_equal(decode_nv_qmd(&d, words, 96, 0), 96);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_push_keeps_bindings),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_qmd_versions),
        cmocka_unit_test(test_qmd_reserved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
