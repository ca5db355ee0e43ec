/* hcq/amd/amd_meta.c: what notes say of kernels; whole, cut off at every byte,
 * with every byte changed, and with kinds of values that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>

#include "base/bits.h"
#include "hcq/amd/amd_meta.h"
#include "tests/unit/outcomes.h"

/* ---- notes that are made here -------------------------------------------- */

struct notes {
    uint8_t bytes[1024];
    size_t n;
};

static void
put(struct notes *notes, const void *bytes, size_t n)
{
    assert_true(notes->n + n <= sizeof(notes->bytes));
    memcpy(notes->bytes + notes->n, bytes, n);
    notes->n += n;
}

static void
put_byte(struct notes *notes, unsigned byte)
{
    uint8_t value = (uint8_t)byte;

    put(notes, &value, 1);
}

static void
put_text(struct notes *notes, const char *text)
{
    size_t n = strlen(text);

    if (n < 32) {
        put_byte(notes, 0xa0 + (unsigned)n);
    } else {
        put_byte(notes, 0xd9);
        put_byte(notes, (unsigned)n);
    }
    put(notes, text, n);
}

/* Numbers in every length that they may have. */
static void
put_number(struct notes *notes, uint64_t number, unsigned n_bytes)
{
    unsigned first = n_bytes == 1   ? 0xcc
                     : n_bytes == 2 ? 0xcd
                     : n_bytes == 4 ? 0xce
                                    : 0xcf;

    if (n_bytes)
        put_byte(notes, first);
    else
        put_byte(notes, (unsigned)number);
    while (n_bytes--)
        put_byte(notes, (unsigned)(number >> (n_bytes * 8)) & 0xff);
}

static void
pad(struct notes *notes)
{
    while (notes->n % 4)
        put_byte(notes, 0);
}

static void
begin_note(struct notes *notes, const char *owner, uint32_t type)
{
    Elf64_Nhdr head = {(uint32_t)strlen(owner) + 1, 0, type};

    put(notes, &head, sizeof(head));
    put(notes, owner, strlen(owner) + 1);
    pad(notes);
}

static void
end_note(struct notes *notes, size_t start)
{
    Elf64_Nhdr head;
    size_t text = start + sizeof(head);

    memcpy(&head, notes->bytes + start, sizeof(head));
    text += align_up((uint64_t)head.n_namesz, 4);
    head.n_descsz = (uint32_t)(notes->n - text);
    memcpy(notes->bytes + start, &head, sizeof(head));
    pad(notes);
}

/* A kernel with a list and numbers that nobody asks for among the others. */
static void
put_kernel(struct notes *notes, const char *symbol, uint64_t group)
{
    put_byte(notes, 0x89);
    put_text(notes, ".args");
    put_byte(notes, 0x92);
    put_byte(notes, 0x82);
    put_text(notes, ".size");
    put_number(notes, 8, 0);
    put_text(notes, ".offset");
    put_byte(notes, 0xd0); /* below zero */
    put_byte(notes, 0x90);
    put_byte(notes, 0x80);
    put_text(notes, ".group_segment_fixed_size");
    put_number(notes, 40000, 2);
    put_text(notes, ".kernarg_segment_size");
    put_number(notes, 24, 0);
    put_text(notes, ".max_flat_workgroup_size");
    put_number(notes, group, group > 255 ? 4 : 1);
    put_text(notes, ".private_segment_fixed_size");
    put_number(notes, 0x12345678, 4);
    put_text(notes, ".symbol");
    put_text(notes, symbol);
    put_text(notes, ".uses_dynamic_stack");
    put_byte(notes, 0xc2);
    put_text(notes, ".vgpr_count");
    put_number(notes, 1ull << 40, 8);
    put_text(notes, ".wavefront_size");
    put_number(notes, 64, 0);
}

static struct notes
make_notes(void)
{
    struct notes notes = {.n = 0};
    size_t start;

    begin_note(&notes, "GNU", 3);
    put_text(&notes, "something else");
    end_note(&notes, 0);
    start = notes.n;
    begin_note(&notes, "AMDGPU", 32);
    put_byte(&notes, 0x83);
    put_text(&notes, "amdhsa.version");
    put_byte(&notes, 0x92);
    put_number(&notes, 1, 0);
    put_number(&notes, 2, 0);
    put_text(&notes, "amdhsa.kernels");
    put_byte(&notes, 0xdc);
    put_byte(&notes, 0);
    put_byte(&notes, 2);
    put_kernel(&notes, "first.kd", 1024);
    put_kernel(&notes, "second.kd", 64);
    put_text(&notes, "amdhsa.target");
    put_text(&notes, "amdgcn-amd-amdhsa--gfx1100");
    end_note(&notes, start);
    return notes;
}

/* A copy of exactly this size: sanitizers see what is read behind it. */
static bool
read_notes(const uint8_t *bytes, size_t n, const char *symbol,
           struct amd_meta *meta)
{
    uint8_t *copy = malloc(n + 1);
    uint64_t at = 0;
    bool ok;

    assert_non_null(copy);
    memcpy(copy + 1, bytes, n);
    ok = amd_meta_read(copy + 1, n, symbol, strlen(symbol), meta, &at);
    assert_true(at <= n);
    free(copy);
    return ok;
}

/* ---- what is read -------------------------------------------------------- */

static void
kernels_are_found(void **state)
{
    struct notes notes = make_notes();
    struct amd_meta meta;

    (void)state;
    assert_true(read_notes(notes.bytes, notes.n, "first.kd", &meta));
    assert_int_equal(meta.max_group, 1024);
    assert_int_equal(meta.lds_bytes, 40000);
    assert_int_equal(meta.kernarg_bytes, 24);
    assert_int_equal(meta.scratch_bytes, 0x12345678);
    assert_int_equal(meta.wave_lanes, 64);
    assert_true(read_notes(notes.bytes, notes.n, "second.kd", &meta));
    assert_int_equal(meta.max_group, 64);
    assert_true(read_notes(notes.bytes, notes.n, "third.kd", &meta));
    assert_int_equal(meta.max_group, AMD_META_NONE);
    assert_int_equal(meta.wave_lanes, AMD_META_NONE);
    assert_true(read_notes(notes.bytes, 0, "first.kd", &meta));
    assert_int_equal(meta.max_group, AMD_META_NONE);
}

/* A value of more than 32 bits, or none, is as if it were not there. */
static void
strange_numbers(void **state)
{
    static const uint8_t kinds[] = {0xc0, 0xc3, 0xe0, 0x80, 0x90, 0xa0};
    struct amd_meta meta;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(kinds) + 1; i++) {
        struct notes notes = {.n = 0};

        begin_note(&notes, "AMDGPU", 32);
        put_byte(&notes, 0x81);
        put_text(&notes, "amdhsa.kernels");
        put_byte(&notes, 0x91);
        put_byte(&notes, 0x82);
        put_text(&notes, ".symbol");
        put_text(&notes, "k.kd");
        put_text(&notes, ".max_flat_workgroup_size");
        if (i < ARRAY_LEN(kinds))
            put_byte(&notes, kinds[i]);
        else
            put_number(&notes, UINT32_MAX, 8);
        end_note(&notes, 0);
        assert_true(read_notes(notes.bytes, notes.n, "k.kd", &meta));
        assert_int_equal(meta.max_group, AMD_META_NONE);
    }
}

/* Every way to write a value, in front of what is asked for: it is gone behind
 * to the byte. 0xc1, which is not a value, stands where its own bytes do. */
static void
every_kind(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool is_value;
    } rows[] = {
#define ROW(text, is_value) {text, sizeof(text) - 1, is_value}
        ROW("\x00", true),
        ROW("\x7f", true),
        ROW("\xc0", true),
        ROW("\xc1", false),
        ROW("\xc2", true),
        ROW("\xc3", true),
        ROW("\xc4\1\xc1", false), /* bytes, of which there are none here */
        ROW("\xca\xc1\xc1\xc1\xc1", false), /* nor numbers with fractions */
        ROW("\xcc\xc1", true),
        ROW("\xcd\xc1\xc1", true),
        ROW("\xce\xc1\xc1\xc1\xc1", true),
        ROW("\xcf\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1", true),
        ROW("\xd0\xc1", true),
        ROW("\xd1\xc1\xc1", true),
        ROW("\xd2\xc1\xc1\xc1\xc1", true),
        ROW("\xd3\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1", true),
        ROW("\xd4\xc1\xc1", false),
        ROW("\xa0", true),
        ROW("\xa2\xc1\xc1", true),
        ROW("\xbf\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1"
            "\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1\xc1",
            true),
        ROW("\xd9\2\xc1\xc1", true),
        ROW("\xda\0\2\xc1\xc1", true),
        ROW("\xdb\0\0\0\2\xc1\xc1", true),
        ROW("\x90", true),
        ROW("\x92\xcc\xc1\1", true),
        ROW("\x9f\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17", true),
        ROW("\xdc\0\2\1\2", true),
        ROW("\xdd\0\0\0\2\1\2", true),
        ROW("\x80", true),
        ROW("\x82\1\2\3\4", true),
        ROW("\xde\0\1\1\2", true),
        ROW("\xdf\0\0\0\1\1\2", true),
        ROW("\x92\x91\x81\xa1\xc1\1\x90", true),
        ROW("\xe0", true),
        ROW("\xff", true),
#undef ROW
    };
    struct amd_meta meta;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct notes notes = {.n = 0};
        bool ok;

        begin_note(&notes, "AMDGPU", 32);
        put_byte(&notes, 0x82);
        put_text(&notes, "amdhsa.printf");
        put(&notes, rows[i].bytes, rows[i].n);
        put_text(&notes, "amdhsa.kernels");
        put_byte(&notes, 0x91);
        put_byte(&notes, 0x83);
        put_text(&notes, ".other");
        put(&notes, rows[i].bytes, rows[i].n);
        put_text(&notes, ".symbol");
        put_text(&notes, "k.kd");
        put_text(&notes, ".wavefront_size");
        put_number(&notes, 32, 0);
        end_note(&notes, 0);
        ok = read_notes(notes.bytes, notes.n, "k.kd", &meta);
        if (ok != rows[i].is_value || (ok && meta.wave_lanes != 32))
            fail_msg("row %zu: %d, %u lanes", i, ok, meta.wave_lanes);
    }
}

/* ---- what is not --------------------------------------------------------- */

static void
cut_off(void **state)
{
    struct notes notes = make_notes();
    struct amd_meta meta;
    size_t first = 12 + 4 + 16, n; /* the note of another owner */

    (void)state;
    for (n = 0; n < notes.n; n++)
        assert_int_equal(read_notes(notes.bytes, n, "second.kd", &meta),
                         n == 0 || n == first);
}

/* The map ends before the note does, at every byte. */
static void
cut_off_inside(void **state)
{
    struct notes notes = make_notes();
    struct amd_meta meta;
    size_t start = 12 + 4 + 16, text = start + 12 + 8, n;
    Elf64_Nhdr head;

    (void)state;
    memcpy(&head, notes.bytes + start, sizeof(head));
    for (n = 0; n < head.n_descsz; n++) {
        Elf64_Nhdr shorter = {head.n_namesz, (uint32_t)n, head.n_type};

        memcpy(notes.bytes + start, &shorter, sizeof(shorter));
        assert_false(read_notes(notes.bytes, text + align_up((uint64_t)n, 4),
                                "second.kd", &meta));
    }
}

/* Any other byte at any place: read or refused, never beyond the end. */
static void
changed(void **state)
{
    struct notes notes = make_notes();
    struct amd_meta meta;
    uint32_t byte, n_read = 0, n_refused = 0;
    size_t i;

    (void)state;
    for (i = 0; i < notes.n; i++) {
        uint8_t was = notes.bytes[i];

        for (byte = 0; byte < 256; byte++) {
            notes.bytes[i] = (uint8_t)byte;
            if (read_notes(notes.bytes, notes.n, "second.kd", &meta))
                n_read++;
            else
                n_refused++;
        }
        notes.bytes[i] = was;
    }
    assert_true(n_read > 10000 && n_refused > 10000);
}

/* Sizes that say more than there can be, at the top and deep inside. */
static void
too_many(void **state)
{
    static const uint8_t sizes[] = {0xdb, 0xdd, 0xdf}; /* 32 bits each */
    struct amd_meta meta;
    size_t i, depth;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        for (depth = 0; depth < 300; depth += 100) {
            struct notes notes = {.n = 0};
            size_t k;

            begin_note(&notes, "AMDGPU", 32);
            put_byte(&notes, 0x81);
            put_text(&notes, "other");
            for (k = 0; k < depth; k++)
                put_byte(&notes, 0x91);
            put_byte(&notes, sizes[i]);
            for (k = 0; k < 4; k++)
                put_byte(&notes, 0xff);
            end_note(&notes, 0);
            assert_false(read_notes(notes.bytes, notes.n, "k.kd", &meta));
        }
    }
}

static void
look_at_notes(struct outcomes *o, const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    struct amd_meta meta;
    uint64_t at = 0;
    bool ok;

    memcpy(copy + 1, data, n);
    ok = amd_meta_read(copy + 1, n, "second.kd", 9, &meta, &at);
    free(copy);
    if (ok)
        outcome(o, "%u %u %u %u %u", meta.max_group, meta.kernarg_bytes,
                meta.lds_bytes, meta.scratch_bytes, meta.wave_lanes);
    else
        outcome(o, "at %llu", (unsigned long long)at);
}

static void
every_byte(void **state)
{
    struct notes notes = make_notes();
    struct outcomes o = {0};

    (void)state;
    outcomes_vary(notes.bytes, notes.n, look_at_notes, &o);
    outcomes_are(&o, 0x840c6109da62ef05);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte),      cmocka_unit_test(kernels_are_found),
        cmocka_unit_test(strange_numbers), cmocka_unit_test(every_kind),
        cmocka_unit_test(cut_off),         cmocka_unit_test(cut_off_inside),
        cmocka_unit_test(changed),         cmocka_unit_test(too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
