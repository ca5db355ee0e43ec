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
#include "tests/unit/outcomes.h"
#include "hcq/decode/decode_amd.h"
#include "hcq/decode/decode_nv.h"
#include "tools/words.h"

/* ---- words --------------------------------------------------------------- */

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

/* ---- decoding ------------------------------------------------------------ */

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

/* src: docs/hardware/nvidia-queues.md, "Test vectors" */
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

/* ---- AMD ----------------------------------------------------------------- */

static struct decode_amd
amd_decoder(const char *chip, struct lines *lines)
{
    struct decode_amd d = {decode_amd_chip_find(chip), add_line, lines};

    assert_non_null(d.chip);
    reset(lines);
    return d;
}

static void
test_amd_chips(void **state)
{
    /* the caches of one dialect, then of the others */
    static const uint32_t gfx9[] = {0xc0055800, 0x08400000, ~0u, ~0u, 0, 0, 10};
    static const uint32_t gfx10[] = {0xc0065800, 0, ~0u, ~0u, 0, 0, 0, 0x3f0};
    static const uint32_t fence[] = {0x00030005, 0x1000, 0, 7};
    static const char *const chips[] = {"gfx90a", "gfx942", "gfx1030",
                                        "gfx1100", "gfx1201"};
    static struct lines lines;
    unsigned n_old = 0;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        struct decode_amd d = amd_decoder(chips[i], &lines);
        bool is_old = decode_amd_pm4(&d, gfx9, ARRAY_LEN(gfx9)) == 0;

        assert_int_equal(decode_amd_pm4(&d, gfx10, ARRAY_LEN(gfx10)) != 0,
                         is_old);
        reset(&lines);
        assert_int_equal(decode_amd_sdma(&d, fence, ARRAY_LEN(fence)), 0);
        assert_int_equal(strstr(lines.text, "reserved") != NULL, is_old);
        n_old += is_old;
    }
    assert_int_equal(n_old, 2);
    assert_null(decode_amd_chip_find("gfx905"));
}

static void
test_amd_packets(void **state)
{
    static const uint32_t launch[] = {
        0xc0027600, 0x20c,      0x1001,     0x7f, /* where the code is */
        0xc0031500, 0x40,       2,          1,
        0x8005,     0xc0017600, 0x0000020d, 0x7f, /* half a register */
        0xc0007f00, 0};                           /* nobody's */
    static const uint32_t copy[] = {1,          0xfff,  0,          0x01000000,
                                    0x00007f00, 0x2000, 0x00007f00, 0xff};
    static struct lines lines;
    struct decode_amd d = amd_decoder("gfx1100", &lines);

    (void)state;
    assert_int_equal(decode_amd_pm4(&d, launch, ARRAY_LEN(launch)), 2);
    assert_string_equal(
        lines.text,
        "00000: c0027600 SET_SH_REG COUNT=2 OFFSET=0x20c\n"
        "  COMPUTE_PGM = 00001001 0000007f {ADDRESS=0x7f0000100100}\n"
        "00010: c0031500 DISPATCH_DIRECT DIM_X=64 DIM_Y=2 DIM_Z=1 "
        "INITIATOR=0x8005\n"
        "00024: c0017600 SET_SH_REG COUNT=1 OFFSET=0x20d\n"
        "  COMPUTE_PGM+1 = 0000007f {?}\n"
        "00030: c0007f00 ? TYPE3 OPCODE=0x7f\n"
        "  ? 1 words: 00000000\n");
    reset(&lines);
    assert_int_equal(decode_amd_sdma(&d, copy, ARRAY_LEN(copy)), 1);
    assert_string_equal(lines.text, "00000: 00000001 COPY_LINEAR COUNT=4095 "
                                    "SRC=0x7f0001000000 DST=0x7f0000002000\n"
                                    "0001c: 000000ff ?\n");
}

/* A launch, an indirect buffer, a free place, a barrier, a rest. */
static void
test_amd_aql(void **state)
{
    static struct lines lines;
    uint32_t words[65] = {0x00031502, 0x00010100, 1,      0x4000,
                          2,          1,          0,      0x400,
                          0x1000,     0x00007f00, 0x2000, 0x00007f00};
    static const uint32_t vendor[] = {0x00011500, 0xc0023f00, 0x3000,
                                      0x00007f00, 0x00800123, 10};
    struct decode_amd d = amd_decoder("gfx942", &lines);

    (void)state;
    memcpy(words + 16, vendor, sizeof(vendor));
    words[32] = 1;
    words[33] = 99; /* what was there before */
    words[48] = 3;
    assert_int_equal(decode_amd_aql(&d, words, 65, 0x1000), 16);
    assert_string_equal(
        lines.text,
        "0x0000001000: 00031502 TYPE=KERNEL_DISPATCH BARRIER=1 ACQUIRE=SYSTEM "
        "RELEASE=SYSTEM SETUP=0x3\n"
        "  HEADER = 0x31502\n  WG_X = 256\n  WG_Y = 1\n  WG_Z = 1\n"
        "  GRID_X = 16384\n  GRID_Y = 2\n  GRID_Z = 1\n  GROUP_BYTES = 1024\n"
        "  KERNEL_OBJECT = 0x7f0000001000\n  KERNARG = 0x7f0000002000\n"
        "0x0000001040: 00011500 TYPE=VENDOR BARRIER=1 ACQUIRE=SYSTEM "
        "RELEASE=SYSTEM SETUP=0x1\n"
        "  HEADER = 0x11500\n  INDIRECT_BUFFER[0] = 0xc0023f00\n"
        "  INDIRECT_BUFFER[1] = 0x3000\n  INDIRECT_BUFFER[2] = 0x7f00\n"
        "  INDIRECT_BUFFER[3] = 0x800123\n  DW_COUNT_REMAIN = 10\n"
        "00000: c0023f00 INDIRECT_BUFFER BASE=0x7f0000003000 SIZE=291 VALID=1\n"
        "0x0000001080: 00000001 TYPE=INVALID\n"
        "0x00000010c0: 00000003 TYPE=BARRIER_AND\n"
        "  ? a packet whose words have no names\n"
        "? 1 words that do not fill a packet\n");
}

static void
test_amd_kernel(void **state)
{
    static const uint32_t words[19] = {
        0, 272, 12, 0, 0xfffffa80, ~0u,        0,          0,
        0, 0,   0,  5, 0x60af0000, 0x0000009f, 0x00000408, 0};
    static struct lines lines;
    struct decode_amd d = amd_decoder("gfx1100", &lines);

    (void)state;
    assert_int_equal(decode_amd_kernel(&d, words, 19), 3);
    assert_non_null(strstr(lines.text, "kernel descriptor for gfx1100"));
    assert_non_null(strstr(lines.text, "  PRIVATE_SEGMENT_BYTES = 272\n"));
    assert_non_null(
        strstr(lines.text, "  CODE_PROPERTIES {KERNARG_PTR=1 WAVE32=1}\n"));
    assert_non_null(strstr(lines.text, "WGP_MODE=1 MEM_ORDERED=1}\n"));
    assert_non_null(strstr(lines.text, "RSRC3 {SHARED_VGPRS=5}\n"));
    assert_non_null(strstr(lines.text, "? 3 words that do not fill a"));
    d = amd_decoder("gfx942", &lines);
    assert_int_equal(decode_amd_kernel(&d, words, 16), 0);
    assert_non_null(strstr(lines.text, "RSRC3_GFX9 {ACCUM_OFFSET=5}\n"));
}

/* Any words at all, of any number. */
static void
test_amd_noise(void **state)
{
    static struct lines lines;
    uint32_t words[64], seed = 1;
    struct outcomes o = {0};
    unsigned n, i, k;

    (void)state;
    for (k = 0; k < 20000; k++) {
        struct decode_amd d = amd_decoder(k & 1 ? "gfx942" : "gfx1201", &lines);

        n = k % ARRAY_LEN(words);
        for (i = 0; i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            words[i] = seed >> 8 ^ seed << 13;
            if (seed >> 28 < 4) /* often a packet */
                words[i] = 0xc0000000 | (words[i] & 0x0007ff00);
        }
        assert_true(decode_amd_pm4(&d, words, n) <= n);
        assert_true(decode_amd_sdma(&d, words, n) <= n);
        assert_true(decode_amd_aql(&d, words, n, 0) <= n + n / 4);
        assert_true(decode_amd_kernel(&d, words, n) <= n);
        outcome(&o, "%s", lines.text);
    }
    outcomes_are(&o, 0x6e7225789fa7bdc9);
}

/* As what AMD's are: binds, and headers of every kind. */
static void
test_nv_noise(void **state)
{
    static struct lines lines;
    const struct decode_nv_chip *chip;
    uint32_t words[64], seed = 1;
    struct outcomes o = {0};
    struct decode_nv d;
    unsigned n, i, k;

    (void)state;
    for (k = 0; k < 4000; k++) {
        chip = decode_nv_chip_at(k % 4);
        assert_non_null(chip);
        n = k % ARRAY_LEN(words);
        for (i = 0; i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            words[i] = seed >> 8 ^ seed << 13;
            if (seed >> 28 < 8) /* of few words, of either unit or the host */
                words[i] = (words[i] & 0xe0072fff) | (seed >> 20 & 1) << 15;
        }
        reset(&lines);
        decode_nv_init(&d, add_line, &lines);
        (void)decode_nv_bind(&d, chip->gpfifo_class);
        (void)decode_nv_bind(&d, chip->compute_class);
        (void)decode_nv_bind(&d, chip->copy_class);
        assert_true(decode_nv_push(&d, words, n) <= n);
        assert_true(decode_nv_ring(&d, words, n, 0x1000) <= n);
        if (k % 16 == 0)
            assert_true(decode_nv_qmd(&d, words, n, 0) <= n);
        outcome(&o, "%s", lines.text);
    }
    outcomes_are(&o, 0xb2f23d86128eede1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nv_noise),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_push_keeps_bindings),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_qmd_versions),
        cmocka_unit_test(test_qmd_reserved),
        cmocka_unit_test(test_amd_chips),
        cmocka_unit_test(test_amd_packets),
        cmocka_unit_test(test_amd_aql),
        cmocka_unit_test(test_amd_kernel),
        cmocka_unit_test(test_amd_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
