/* base/text.c: what is shown of a text, and the error record, its prefixes and
 * the log, which use it.
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
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

static const struct {
    const char *text, *shown;
} rows[] = {
    {"", ""},
    {"plain text \\ 'x'", "plain text \\ 'x'"},
    {"\x1b[31m", "\\x1b[31m"},
    {"a\nb\tc\rd", "a\\x0ab\\x09c\\x0dd"},
    {"\x7f", "\\x7f"},
    /* C1, as UTF-8 and as bytes */
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0",
     "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\xc2\xa0"},
    {"\x9b"
     "1m",
     "\\x9b1m"},
    /* characters of 2, 3 and 4 bytes */
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
     "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    /* cut short, too long, surrogates, beyond the last */
    {"\xe2\x82", "\\xe2\\x82"},
    {"\xe2\x82z", "\\xe2\\x82z"},
    {"\xf0\x9f\x98", "\\xf0\\x9f\\x98"},
    {"\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},
    {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},
    {"\xff\xfe", "\\xff\\xfe"},
};

static void
test_rows(void **state)
{
    char out[128];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        text_copy_shown(rows[i].text, "", out, sizeof(out));
        assert_string_equal(out, rows[i].shown);
        text_copy_shown(out, "", out, sizeof(out)); /* again: the same */
        assert_string_equal(out, rows[i].shown);
    }
    text_copy_shown("a\nb\tc\x1b", "\n\t", out, sizeof(out));
    assert_string_equal(out, "a\nb\tc\\x1b");
}

/* Nothing is cut within a character or an escape. */
static void
test_room(void **state)
{
    const char *text = "a\xe2\x82\xac\x1bz";
    static const char *const shown[] = {"",
                                        "a",
                                        "a",
                                        "a",
                                        "a\xe2\x82\xac",
                                        "a\xe2\x82\xac",
                                        "a\xe2\x82\xac",
                                        "a\xe2\x82\xac",
                                        "a\xe2\x82\xac\\x1b",
                                        "a\xe2\x82\xac\\x1bz"};
    char out[16];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(shown); i++) {
        memset(out, '!', sizeof(out));
        text_copy_shown(text, "", out, i + 1);
        assert_string_equal(out, shown[i]);
        assert_int_equal(out[i + 1], '!');
    }
}

static void
test_record(void **state)
{
    const char *message = bell_error_last()->message;
    char name[BELL_ERROR_MESSAGE];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        char want[256];
        (void)!bell_fail(BELL_E_IO, "'%s': no", rows[i].text);
        snprintf(want, sizeof(want), "'%s': no", rows[i].shown);
        assert_string_equal(message, want);
        (void)!bell_fail_errno(BELL_E_IO, 5, "%s", "old");
        bell_error_prefix("%s", rows[i].text);
        snprintf(want, sizeof(want), "%s: old", rows[i].shown);
        assert_string_equal(message, want);
    }
    /* each byte takes four: the record ends within them */
    memset(name, '\x1b', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    (void)!bell_fail(BELL_E_IO, "%s", name);
    assert_int_equal(strlen(message), (BELL_ERROR_MESSAGE - 1) / 4 * 4);
    bell_error_prefix("%s", "short");
    assert_int_equal(strncmp(message, "short: \\x1b", 11), 0);
    assert_true(strlen(message) < BELL_ERROR_MESSAGE);
}

static void
note_line(void *user, const char *line)
{
    snprintf(user, 256, "%s", line);
}

static void
test_log(void **state)
{
    char line[256], want[256];
    size_t i;

    (void)state;
    bell_log_set(note_line, line);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (strpbrk(rows[i].text, "\n\t"))
            continue;
        log_print(LOG_MEM, "%s.", rows[i].text);
        snprintf(want, sizeof(want), "mem: %s.", rows[i].shown);
        assert_string_equal(line, want);
    }
    log_print(LOG_ASM, "\tret\n\x1b");
    assert_string_equal(line, "asm: \tret\n\\x1b");
    bell_log_set(NULL, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
