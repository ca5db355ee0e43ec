/* base/safetensors.c: what headers mean, and that each malformed one is refused
 * with its reason, whole or cut short anywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/safetensors.h"
#include "tests/unit/expect.h"

/* A file of that header and so many zeros, at its own end: reading further is
 * seen by the sanitizers. */
static bell_status
read_file(const char *header, uint64_t header_bytes, size_t n_data,
          size_t n_kept, struct safetensors *out)
{
    size_t n = strlen(header);
    uint8_t *file = calloc(1, 8 + n + n_data), *copy;
    bell_status status;

    assert_non_null(file);
    memcpy(file, &header_bytes, 8);
    memcpy(file + 8, header, n);
    if (n_kept > 8 + n + n_data)
        n_kept = 8 + n + n_data;
    copy = malloc(n_kept + 1);
    assert_non_null(copy);
    memcpy(copy + 1, file, n_kept);
    status = safetensors_read(copy + 1, n_kept, out);
    free(copy);
    free(file);
    return status;
}

static bell_status
read_header(const char *header, size_t n_data, struct safetensors *out)
{
    return read_file(header, strlen(header), n_data, SIZE_MAX, out);
}

static const char whole[] =
    " {\"__metadata__\": {\"a\\u00e9\\ud83d\\ude00\": \"x\\n\\\"\\\\\\/\", "
    "\"\": \"\"},\n"
    "\"second\": {\"shape\":[2, 3], \"data_offsets\":[4,28], "
    "\"dtype\":\"F32\"},"
    "\t\"first\": {\"dtype\":\"Q9\", \"more\": {\"x\": [1.5e-3, true, null, "
    "[{}]], \"s\": \"]}\"},\"shape\":[], \"data_offsets\":[0,4]},"
    "\"\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[28,28]}}  ";

static void
test_whole(void **state)
{
    struct safetensors list;
    uint32_t base = 8 + (uint32_t)strlen(whole);
    size_t n;

    (void)state;
    expect_ok(read_header(whole, 28, &list));
    assert_int_equal(list.n_texts, 2);
    assert_string_equal(list.texts[0].key, "a\xc3\xa9\xf0\x9f\x98\x80");
    assert_string_equal(list.texts[0].value, "x\n\"\\/");
    assert_string_equal(list.texts[1].key, "");
    assert_int_equal(list.n_entries, 3);
    assert_string_equal(list.entries[0].name, "second");
    assert_string_equal(list.entries[0].type, "F32");
    assert_int_equal(list.entries[0].ndim, 2);
    assert_int_equal(list.entries[0].shape[0], 2);
    assert_int_equal(list.entries[0].shape[1], 3);
    assert_int_equal(list.entries[0].offset, base + 4);
    assert_int_equal(list.entries[0].size_bytes, 24);
    assert_string_equal(list.entries[1].type, "Q9");
    assert_int_equal(list.entries[1].ndim, 0);
    assert_int_equal(list.entries[1].offset, base);
    assert_string_equal(list.entries[2].name, "\xc3\xa9");
    assert_int_equal(list.entries[2].size_bytes, 0);
    safetensors_fini(&list);
    for (n = 0; n < 8 + strlen(whole) + 28; n++) {
        if (read_file(whole, strlen(whole), 28, n, &list) == BELL_OK)
            fail_msg("%zu bytes of it were read", n);
        bell_error_clear();
    }
    /* the header's own end, anywhere in it */
    for (n = 0; n + 2 < strlen(whole); n++) {
        if (read_file(whole, n, 28 + strlen(whole) - n, SIZE_MAX, &list) ==
            BELL_OK)
            fail_msg("a header of %zu bytes was read", n);
        bell_error_clear();
    }
}

#define T(members) "{\"t\":{" members "}}"
#define ONE(shape, places)                                                     \
    T("\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" places)

static void
test_refused(void **state)
{
    static const struct {
        const char *header, *text;
    } rows[] = {
        {"", "not a JSON object, byte 0: expected an object"},
        {"[]", "not a JSON object, byte 0: expected an object"},
        {"{", "byte 1: expected a string"},
        {"{}x", "byte 2: expected nothing more"},
        {"{}{}", "byte 2: expected nothing more"},
        {"{\"t\"}", "expected ':'"},
        {"{\"t\":1}", "byte 5: expected an object"},
        {"{t:1}", "expected a string"},
        {"{\"t", "the end of a string"},
        {"{\"t\\", "an escape of JSON"},
        {"{\"\\x\":1}", "an escape of JSON"},
        {"{\"\\u12g4\":1}", "four hexadecimal digits"},
        {"{\"\\u0000\":1}", "a string must not have a NUL in it"},
        {"{\"\\ud800\":1}", "the other half of a surrogate pair"},
        {"{\"\\udc00\":1}", "the other half of a surrogate pair"},
        {"{\"\\ud800\\u0041\":1}", "the other half of a surrogate pair"},
        {"{\"\\u0007\":1}", "a name with byte 0x07"},
        {"{\"\n\":1}", "a name with byte 0x0a"},
        {"{\"\xff\":1}", "a name with byte 0xff"},
        {"{\"\xc0\x80\":1}", "a name with byte 0xc0"},
        {T("\"shape\":[4],\"data_offsets\":[0,4]"), "'t': has no dtype"},
        {T("\"dtype\":1"), "'t': has no dtype"},
        {T("\"dtype\":\"U8\",\"data_offsets\":[0,4]"), "'t': has no shape"},
        {T("\"dtype\":\"U8\",\"shape\":[4]"), "'t': has no data_offsets"},
        {T("\"dtype\":\"U8\",\"dtype\":\"U8\""), "has two members 'dtype'"},
        {T("\"dtype\":\"U8\" \"shape\":[4]"), "expected ',' or '}'"},
        {T("\"dtype\":\"U8\",}"), "expected a string"},
        {ONE("4", "[0,4]"), "'t': has no shape"},
        {ONE("[-4]", "[0,4]"), "or an invalid size"},
        {ONE("[4.0]", "[0,4]"), "or an invalid size"},
        {ONE("[4e0]", "[0,4]"), "or an invalid size"},
        {ONE("[\"4\"]", "[0,4]"), "or an invalid size"},
        {ONE("[04]", "[0,4]"), "or an invalid size"},
        {ONE("[4,]", "[0,4]"), "or an invalid size"},
        {ONE("[9223372036854775808]", "[0,4]"), "or an invalid size"},
        {ONE("[99999999999999999999999]", "[0,4]"), "or an invalid size"},
        {ONE("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
             "1"
             "]",
             "[0,4]"),
         "32 axes"},
        {ONE("[4]", "[4]"), "data_offsets are not in the file"},
        {ONE("[4]", "[0,4,4]"), "data_offsets are not in the file"},
        {ONE("[4]", "[4,0]"), "data_offsets are not in the file"},
        {ONE("[4]", "[0,5]"), "data_offsets are not in the file"},
        {ONE("[4]", "[0,18446744073709551620]"), "not in the file"},
        {ONE("[3]", "[1,4]"), "begins at byte 1 of the data, expected 0"},
        {ONE("[3]", "[0,3]"), "1 bytes after the last tensor"},
        {"{}", "4 bytes after the last tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
         "'b' begins at byte 2 of the data, expected 4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}",
         "two tensors are called 'a'"},
        {"{\"__metadata__\":[]}", "an object of texts"},
        {"{\"__metadata__\":{\"a\":1}}",
         "__metadata__ has a value that is not text"},
        {T("\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]"
           "]]"
           "]]]]]"),
         "more than 32 levels"},
        {T("\"x\":"), "a value"},
        {T("\"x\":[1 2]"), "expected ',' or ']'"},
    };
    struct safetensors list;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        bell_status status = read_header(rows[i].header, 4, &list);

        if (status == BELL_OK)
            fail_msg("%s: was read", rows[i].header);
        expect_fails(status, BELL_E_IO, rows[i].text);
    }
    expect_fails(read_file("{}", UINT64_MAX, 0, SIZE_MAX, &list), BELL_E_IO,
                 "a header of 18446744073709551615 bytes, the file has 10");
    expect_fails(read_file("{}", 3, 0, SIZE_MAX, &list), BELL_E_IO,
                 "a header of 3 bytes, the file has 10");
    expect_fails(
        read_file("{}", SAFETENSORS_HEADER_MAX_BYTES + 1, 0, SIZE_MAX, &list),
        BELL_E_IO, "a header of 100000001 bytes");
}

static void
test_no_memory(void **state)
{
    struct safetensors list;
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t n;

    (void)state;
    for (n = 0; status == BELL_E_NO_MEMORY; n++) {
        assert_true(n < 20);
        host_fail_after(n + 1, 1);
        status = read_header(whole, 28, &list);
        host_fail_after(0, 0);
    }
    expect_ok(status);
    assert_true(n > 3);
    safetensors_fini(&list);
}

static void
test_types(void **state)
{
    (void)state;
    assert_string_equal(safetensors_dtype("F32"), "float32");
    assert_string_equal(safetensors_dtype("F8_E4M3"), "float8_e4m3fn");
    assert_null(safetensors_dtype("f32"));
    assert_null(safetensors_dtype(""));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
