/* Tokenizers: small files of every kind, and what their makers' libraries make
 * of random texts (tests/tokenizer/golden.py writes both); what is refused, and
 * by which name; streams; long texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "doorbell/tokenizer.h"
#include "tensor/text/regex.h"
#include "tensor/text/unicode.h"

/* ---- golden cases ---- */

static int
hex_digit(char c)
{
    return c >= 'a' ? c - 'a' + 10 : c - '0';
}

/* Hexadecimal digits up to a space as bytes, in place. */
static size_t
take_hex(char *at, char **out_end)
{
    size_t n = 0;
    char *begin = at;

    for (; *at != ' ' && *at != '\n'; at += 2)
        begin[n++] = (char)(hex_digit(at[0]) << 4 | hex_digit(at[1]));
    *out_end = at;
    return n;
}

static void
check_decoded(const struct bell_tokenizer *t, const int32_t *ids, size_t n,
              const char *want, size_t n_want, bool has_want)
{
    struct bell_token_stream *stream;
    const char *part;
    char *text, *together;
    size_t n_text, n_part, i, at = 0;

    assert_int_equal(bell_tokenizer_decode(t, ids, n, 0, &text, &n_text),
                     BELL_OK);
    if (has_want) {
        assert_int_equal(n_text, n_want);
        assert_memory_equal(text, want, n_want);
    }
    together = malloc(n_text + 1);
    assert_int_equal(bell_token_stream_create(t, 0, &stream), BELL_OK);
    for (i = 0; i <= n; i++) {
        assert_int_equal(
            i < n ? bell_token_stream_next(stream, ids[i], &part, &n_part)
                  : bell_token_stream_end(stream, &part, &n_part),
            BELL_OK);
        assert_true(n_part <= n_text - at);
        memcpy(together + at, part, n_part);
        at += n_part;
    }
    assert_int_equal(at, n_text);
    assert_memory_equal(together, text, n_text);
    bell_token_stream_destroy(stream);
    bell_tokenizer_free(text);
    free(together);
}

/* One line: file, flags, text, decoded text, tokens. */
static void
check_case(char *line, char *file, struct bell_tokenizer **t)
{
    char path[512], *at = strchr(line, ' '), *text, *back;
    size_t n_text, n_back = 0, n, i;
    bool has_back;
    int32_t *ids;

    *at++ = '\0';
    if (strcmp(line, file) != 0) {
        bell_tokenizer_close(*t);
        snprintf(file, 64, "%s", line);
        snprintf(path, sizeof(path), "%s/%s", TOKENIZER_GOLDEN, line);
        if (bell_tokenizer_open(path, t) != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
    }
    text = at + 2; /* behind the flags */
    n_text = take_hex(text, &at);
    back = at + 1;
    has_back = *back == '=';
    at = ++back;
    if (has_back)
        n_back = take_hex(back, &at);
    if (bell_tokenizer_encode(*t, text, n_text, 1, &ids, &n) != BELL_OK)
        fail_msg("%s: %s", file, bell_error_last()->message);
    for (i = 0; *at == ' '; i++) {
        long want = strtol(at + 1, &at, 10);
        if (i >= n || ids[i] != want)
            fail_msg("%s: '%.*s': token %zu is %d, not %ld", file, (int)n_text,
                     text, i, i < n ? ids[i] : -1, want);
    }
    assert_int_equal(i, n);
    check_decoded(*t, ids, n, back, n_back, has_back);
    bell_tokenizer_free(ids);
}

static void
test_golden(void **state)
{
    struct bell_tokenizer *t = NULL;
    char *text, *line, *next, file[64] = "";
    size_t n = 0;

    (void)state;
    assert_int_equal(file_read_text(TOKENIZER_GOLDEN "/cases.txt", &text),
                     BELL_OK);
    for (line = text; *line; line = next, n++) {
        next = strchr(line, '\n') + 1;
        check_case(line, file, &t);
    }
    assert_true(n >= 800);
    bell_tokenizer_close(t);
    host_free(text);
}

/* ---- refusals ---- */

static void
refuses(const char *json, const char *what)
{
    char path[] = "/tmp/tokenizer_XXXXXX";
    struct bell_tokenizer *t;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
    close(fd);
    if (bell_tokenizer_open(path, &t) == BELL_OK)
        fail_msg("%s is opened", json);
    if (!strstr(bell_error_last()->message, what))
        fail_msg("'%s' does not say '%s'", bell_error_last()->message, what);
    unlink(path);
}

#define MODEL "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}"

static void
test_refusals(void **state)
{
    (void)state;
    refuses("{}", "a model without a type");
    refuses("{" MODEL ", \"colour\": 1}", "'colour'");
    refuses("{" MODEL ", \"normalizer\": {\"type\": \"Rot13\"}}", "'Rot13'");
    refuses("{" MODEL ", \"normalizer\": {\"type\": \"NFC\", \"x\": 1}}",
            "'x'");
    refuses("{" MODEL ", \"pre_tokenizer\": {\"type\": \"Thai\"}}", "'Thai'");
    refuses("{" MODEL ", \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
            "[{\"type\": \"Loud\"}]}}",
            "'Loud'");
    refuses("{" MODEL ", \"post_processor\": {\"type\": \"Stamp\"}}",
            "'Stamp'");
    refuses("{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
            "{\"Regex\": \"(?<=a)b\"}, \"behavior\": \"Isolated\", "
            "\"invert\": false}}",
            "a group of another kind");
    refuses("{\"model\": {\"type\": \"Neural\"}}", "'Neural'");
    refuses("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, "
            "\"b\": 0}}}",
            "number of another");
    refuses("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"\\u0000\": "
            "0}}}",
            "U+0000");
    refuses("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
            "\"merges\": [\"a b\"]}}",
            "not both tokens");
    refuses("{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": "
            "{\"a\": 0}, \"merges\": []}}",
            "'dropout'");
    refuses("\x0a\x05", "neither tokenizer.json");
    refuses("", "neither tokenizer.json");
}

static void
test_patterns(void **state)
{
    static const struct {
        const char *pattern, *what;
    } cases[] = {
        {"a(?<=b)", "a group of another kind"},
        {"(?>a)", "a group of another kind"},
        {"\\p{Greek}", "'Greek'"},
        {"[a[b]]", "a class in a class"},
        {"[a&&b]", "an intersection"},
        {"(a|b", "without its end"},
        {"a)", "did not begin"},
        {"*", "nothing to repeat"},
        {"(?:a*)*", "can match nothing"},
        {"(?:ab)++", "possessive"},
        {"a{2000}", "such a repetition"},
        {"\\1", "an escape"},
        {"(?i:\xc3\xa4)", "beyond ASCII"},
    };
    struct regex *regex;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        if (regex_create(cases[i].pattern, strlen(cases[i].pattern), &regex) ==
            BELL_OK)
            fail_msg("'%s' is taken", cases[i].pattern);
        if (!strstr(bell_error_last()->message, cases[i].what))
            fail_msg("'%s' does not say '%s'", bell_error_last()->message,
                     cases[i].what);
    }
}

/* A pattern that goes back without end is stopped. */
static void
test_steps(void **state)
{
    struct regex_room room = {0};
    struct regex *regex;
    char text[64];
    size_t begin, end;

    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(regex_create("(?:a|aa)+b", 10, &regex), BELL_OK);
    assert_int_equal(
        regex_find(regex, &room, text, sizeof(text), 0, &begin, &end),
        BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "too many steps"));
    regex_destroy(regex);
    regex_room_fini(&room);
}

static void
test_misuse(void **state)
{
    struct bell_tokenizer *t;
    int32_t *ids, none = 1 << 20;
    char *text;
    size_t n;

    (void)state;
    assert_int_equal(bell_tokenizer_open(TOKENIZER_GOLDEN "/gpt2.json", &t),
                     BELL_OK);
    assert_int_equal(bell_tokenizer_encode(t, "a\xff", 2, 0, &ids, &n),
                     BELL_E_INVALID);
    assert_int_equal(bell_tokenizer_encode(t, "\xed\xa0\x80", 3, 0, &ids, &n),
                     BELL_E_INVALID);
    assert_int_equal(bell_tokenizer_encode(t, "a", 1, 1u << 9, &ids, &n),
                     BELL_E_INVALID);
    assert_int_equal(bell_tokenizer_decode(t, &none, 1, 0, &text, &n),
                     BELL_E_INVALID);
    assert_int_equal(bell_tokenizer_encode(t, "", 0, 0, &ids, &n), BELL_OK);
    assert_int_equal(n, 0);
    bell_tokenizer_free(ids);
    /* a special token's name is text where that is asked for */
    assert_int_equal(bell_tokenizer_encode(t, "<|im_start|>", 12, 0, &ids, &n),
                     BELL_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], bell_tokenizer_find(t, "<|im_start|>", 12));
    assert_true(bell_tokenizer_is_special(t, ids[0]));
    bell_tokenizer_free(ids);
    assert_int_equal(bell_tokenizer_encode(t, "<|im_start|>", 12,
                                           BELL_TOKENS_PLAIN, &ids, &n),
                     BELL_OK);
    assert_true(n > 1);
    bell_tokenizer_free(ids);
    bell_tokenizer_close(t);
}

/* Two million bytes that are one word: not quadratic. */
static void
test_long(void **state)
{
    static const char *const files[] = {"/gpt2.json", "/llama.json",
                                        "/sp_bpe.model", "/unigram.json",
                                        "/bert_lower.json"};
    enum {
        N = 2000000
    };
    char *text = malloc(N), path[512];
    size_t i, n;

    (void)state;
    memset(text, 'a', N);
    for (i = 0; i < ARRAY_LEN(files); i++) {
        struct bell_tokenizer *t;
        int32_t *ids;
        snprintf(path, sizeof(path), "%s%s", TOKENIZER_GOLDEN, files[i]);
        assert_int_equal(bell_tokenizer_open(path, &t), BELL_OK);
        assert_int_equal(bell_tokenizer_encode(t, text, N, 0, &ids, &n),
                         BELL_OK);
        assert_true(n > 0);
        bell_tokenizer_free(ids);
        bell_tokenizer_close(t);
    }
    free(text);
}

/* Every allocation fails once: an error, nothing lost. */
static void
test_no_memory(void **state)
{
    static const char text[] = "Hello w\xc3\xb6rld 123";
    uint64_t nth;

    (void)state;
    for (nth = 1;; nth += nth < 40 ? 1 : 97) {
        struct bell_tokenizer *t = NULL;
        int32_t *ids = NULL;
        size_t n;
        bell_status status;
        host_fail_after(nth, 1);
        status = bell_tokenizer_open(TOKENIZER_GOLDEN "/qwen2.json", &t);
        if (status == BELL_OK)
            status =
                bell_tokenizer_encode(t, text, sizeof(text) - 1, 1, &ids, &n);
        host_fail_after(0, 0);
        bell_tokenizer_free(ids);
        bell_tokenizer_close(t);
        if (status == BELL_OK)
            break;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_patterns),  cmocka_unit_test(test_steps),
        cmocka_unit_test(test_misuse),    cmocka_unit_test(test_long),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
