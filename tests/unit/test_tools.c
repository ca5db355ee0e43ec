/* tools/: option parsing, suggestions, JSON, drawn digits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/json.h"
#include "base/nearest.h"
#include "examples/demo/digits.h"
#include "tools/tools.h"

/* ---- options ---------------------------------------------------------- */

struct parsed {
    const char *device, *name;
    int64_t n;
    double x;
    bool json;
    struct tool_list in;
};

static int
parse_args(struct parsed *out, const char *const *args, int n_args)
{
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &out->device, 0, 0, "a device"},
        {"--name", "TEXT", TOOL_OPT_STRING, &out->name, 0, 0, "a name"},
        {"--count", "N", TOOL_OPT_INT, &out->n, 1, 100, "a count"},
        TOOL_NUMBER_OPT("--x", "X", &out->x, 0, 0, "a number"),
        {"--in", "NAME=FILE", TOOL_OPT_LIST, &out->in, 0, 0, "inputs"},
        {"--json", NULL, TOOL_OPT_FLAG, &out->json, 0, 0, "a document"},
    };
    char *argv[80] = {"verb"};
    int i;

    for (i = 0; i < n_args; i++)
        argv[i + 1] = (char *)(uintptr_t)args[i];
    return tool_parse("verb", opts, ARRAY_LEN(opts), n_args + 1, argv);
}

#define PARSE(out, ...)                                                        \
    parse_args(out, (const char *const[]){__VA_ARGS__},                        \
               (int)ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static void
test_parses_every_kind(void **state)
{
    struct parsed p = {0};

    (void)state;
    assert_int_equal(PARSE(&p, "CPU:0", "--name", "a b", "--count=7", "--x",
                           "-1.5e3", "--in", "p=q", "--in=r=s", "--json"),
                     TOOL_GO_ON);
    assert_string_equal(p.device, "CPU:0");
    assert_string_equal(p.name, "a b");
    assert_int_equal(p.n, 7);
    assert_true(p.x == -1500);
    assert_int_equal(p.in.n_items, 2);
    assert_string_equal(p.in.items[0], "p=q");
    assert_string_equal(p.in.items[1], "r=s");
    assert_true(p.json);
}

static void
test_two_dashes_end_options(void **state)
{
    struct parsed p = {0};

    (void)state;
    assert_int_equal(PARSE(&p, "--", "--name"), TOOL_GO_ON);
    assert_string_equal(p.device, "--name");
    assert_null(p.name);
    memset(&p, 0, sizeof(p));
    assert_int_equal(PARSE(&p, "-"), TOOL_GO_ON);
    assert_string_equal(p.device, "-");
}

static void
test_refuses(void **state)
{
    struct parsed p = {.n = 42};

    (void)state;
    assert_int_equal(PARSE(&p, "--count", "0"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--count", "101"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--count", "7x"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--count", ""), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--count", "99999999999999999999"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--count"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--x", "nan"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--x", "1e999"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--json=yes"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "--cuont", "3"), TOOL_USAGE);
    assert_int_equal(PARSE(&p, "CPU", "GPU"), TOOL_USAGE);
    assert_int_equal(p.n, 42);
}

static void
test_list_is_bounded(void **state)
{
    char text[TOOL_LIST_MAX + 1][24];
    const char *args[TOOL_LIST_MAX + 1];
    struct parsed p = {0};
    int i;

    (void)state;
    for (i = 0; i <= TOOL_LIST_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "--in=a%d=b", i);
        args[i] = text[i];
    }
    assert_int_equal(parse_args(&p, args, TOOL_LIST_MAX), TOOL_GO_ON);
    memset(&p, 0, sizeof(p));
    assert_int_equal(parse_args(&p, args, TOOL_LIST_MAX + 1), TOOL_USAGE);
}

static void
test_nearest(void **state)
{
    static const char *const names[] = {"devices", "demo", "eval", "fuzz"};

    (void)state;
    assert_string_equal(tool_nearest("device", names, 4), "devices");
    assert_string_equal(tool_nearest("deom", names, 4), "demo");
    assert_string_equal(tool_nearest("fuz", names, 4), "fuzz");
    assert_string_equal(tool_nearest("evla", names, 4), "eval");
    assert_null(tool_nearest("zzzzzz", names, 4));
    assert_null(tool_nearest("x", names, 4));
    assert_null(tool_nearest("demo", names, 0));
}

/* The same by definition: the first letters are dealt with in all ways. */
static unsigned
distance(const char *a, const char *b)
{
    unsigned best, other;

    if (!*a || !*b)
        return (unsigned)(strlen(a) + strlen(b));
    best = distance(a + 1, b + 1) + (*a != *b);
    other = distance(a + 1, b) + 1;
    best = other < best ? other : best;
    other = distance(a, b + 1) + 1;
    best = other < best ? other : best;
    if (a[1] && b[1] && a[0] == b[1] && a[1] == b[0]) {
        other = distance(a + 2, b + 2) + 1;
        best = other < best ? other : best;
    }
    return best;
}

/* All names of up to five letters of two. */
static void
test_distances(void **state)
{
    char a[8], b[8];
    unsigned i, j, n, want;

    (void)state;
    for (i = 2; i < 64; i++) {
        for (n = 0; i >> (n + 1); n++)
            a[n] = i >> n & 1 ? 'a' : 'b';
        a[n] = 0;
        for (j = 2; j < 64; j++) {
            struct nearest search = {.name = a};
            for (n = 0; j >> (n + 1); n++)
                b[n] = j >> n & 1 ? 'a' : 'b';
            b[n] = 0;
            want = distance(a, b);
            nearest_try(&search, b, b);
            assert_int_equal(search.best != NULL, want < strlen(a) / 3 + 2);
            if (search.best)
                assert_int_equal(search.distance, want);
            nearest_try(&search, b, "another"); /* of two alike the first */
            assert_true(!search.best || search.best == b);
        }
    }
}

/* ---- JSON ------------------------------------------------------------- */

static void
test_json_document(void **state)
{
    struct json json;

    (void)state;
    json_init(&json);
    json_str(&json, "text", "a\"b\\c\n\x01\xc3\xa9");
    json_int(&json, "low", INT64_MIN);
    json_uint(&json, "high", UINT64_MAX);
    json_num(&json, "x", 0.1);
    json_num(&json, "inf", INFINITY);
    json_bool(&json, "yes", true);
    json_null(&json, "nothing");
    json_array(&json, "list");
    json_int(&json, NULL, 1);
    json_object(&json, NULL);
    json_end(&json);
    json_array(&json, NULL);
    json_end(&json);
    json_end(&json);
    assert_string_equal(json_text(&json),
                        "{\n"
                        "  \"text\": \"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\",\n"
                        "  \"low\": -9223372036854775808,\n"
                        "  \"high\": 18446744073709551615,\n"
                        "  \"x\": 0.1,\n"
                        "  \"inf\": null,\n"
                        "  \"yes\": true,\n"
                        "  \"nothing\": null,\n"
                        "  \"list\": [\n"
                        "    1,\n"
                        "    {},\n"
                        "    []\n"
                        "  ]\n"
                        "}\n");
    json_fini(&json);
}

static void
test_json_closes_what_is_open(void **state)
{
    struct json json;

    (void)state;
    json_init(&json);
    json_array(&json, "a");
    json_object(&json, NULL);
    assert_string_equal(json_text(&json), "{\n  \"a\": [\n    {}\n  ]\n}\n");
    json_fini(&json);
}

static void
test_json_without_memory(void **state)
{
    unsigned nth, n_failed = 0;

    (void)state;
    for (nth = 1; nth < 20; nth++) {
        struct json json;
        int i;
        host_fail_after(nth, 0);
        json_init(&json);
        for (i = 0; i < 200; i++)
            json_int(&json, "key", i);
        n_failed += json_text(&json) == NULL;
        host_fail_after(0, 0);
        json_fini(&json);
    }
    assert_true(n_failed > 3 && n_failed < 19);
}

static void
test_json_in_fixed_memory(void **state)
{
    struct json json;
    char buf[64];
    int i;

    (void)state;
    host_fail_after(1, 0);
    json_init_fixed(&json, buf, sizeof(buf));
    json_str(&json, "key", "value");
    assert_string_equal(json_text(&json), "{\n  \"key\": \"value\"\n}\n");
    json_init_fixed(&json, buf, sizeof(buf));
    for (i = 0; i < 10; i++)
        json_str(&json, "key", "value");
    assert_null(json_text(&json));
    json_fini(&json);
    host_fail_after(0, 0);
}

/* ---- digits ----------------------------------------------------------- */

static void
test_digits_repeat(void **state)
{
    static uint8_t images[2][20 * DIGITS_PIXELS], labels[2][20];

    (void)state;
    digits_draw(5, 20, images[0], labels[0]);
    digits_draw(5, 10, images[1], labels[1]);
    assert_memory_equal(images[0], images[1], 10 * DIGITS_PIXELS);
    assert_memory_equal(labels[0], labels[1], 10);
    digits_draw(6, 20, images[1], labels[1]);
    assert_memory_not_equal(images[0], images[1], 10 * DIGITS_PIXELS);
}

/* Every digit occurs, has ink in the middle and none at the border. */
static void
test_digits_look_like_digits(void **state)
{
    static uint8_t images[500 * DIGITS_PIXELS], labels[500];
    unsigned seen[10] = {0}, i, j;

    (void)state;
    digits_draw(1, 500, images, labels);
    for (i = 0; i < 500; i++) {
        const uint8_t *image = images + i * DIGITS_PIXELS;
        unsigned ink = 0, border = 0;
        for (j = 0; j < DIGITS_PIXELS; j++)
            ink += image[j] > 64;
        for (j = 0; j < DIGITS_SIDE; j++)
            border += image[j] > 128;
        assert_in_range(labels[i], 0, 9);
        assert_in_range(ink, 8, 300);
        assert_in_range(border, 0, 8);
        seen[labels[i]]++;
    }
    for (i = 0; i < 10; i++)
        assert_in_range(seen[i], 25, 80);
}

static void
test_rng(void **state)
{
    struct rng rng = {7};
    unsigned counts[5] = {0}, i;
    double sum = 0;

    (void)state;
    for (i = 0; i < 10000; i++) {
        double x = rng_uniform(&rng);
        assert_true(x >= 0 && x < 1);
        sum += x;
        counts[rng_below(&rng, 5)]++;
    }
    assert_true(fabs(sum / 10000 - 0.5) < 0.02);
    for (i = 0; i < 5; i++)
        assert_in_range(counts[i], 1800, 2200);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parses_every_kind),
        cmocka_unit_test(test_two_dashes_end_options),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_list_is_bounded),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_distances),
        cmocka_unit_test(test_json_document),
        cmocka_unit_test(test_json_closes_what_is_open),
        cmocka_unit_test(test_json_without_memory),
        cmocka_unit_test(test_json_in_fixed_memory),
        cmocka_unit_test(test_digits_repeat),
        cmocka_unit_test(test_digits_look_like_digits),
        cmocka_unit_test(test_rng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
