/* hcq/regs.c on rows of its own: random types against a model that goes bit by
 * bit, every address of a unit, and streams of each kind of header.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/regs.h"

#define N_DW_MAX 70u
#define N_FIELDS 6u

static uint64_t
draw(uint64_t *x, uint64_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (*x >> 33) % n;
}

/* ---- random types ---- */

static const struct regs_value values[] = {{"none", 0}, {"one", 1}, {"six", 6}};
static const struct regs_enum names = {values, 3};

struct rows {
    struct regs_field fields[N_FIELDS];
    char labels[N_FIELDS][16];
    uint8_t gen_dw[2];
    struct regs_type type;
};

static void
draw_field(uint64_t *x, struct rows *rows, unsigned f, unsigned n_bits)
{
    struct regs_field *field = &rows->fields[f];
    unsigned p;

    snprintf(rows->labels[f], sizeof(rows->labels[f]), "f%u", f);
    *field = (struct regs_field){
        .name = rows->labels[f],
        .values = &names,
        .gens = (uint32_t)draw(x, 4),
        .count = (uint16_t)(1 + draw(x, 3)),
        .stride = (uint16_t)(1 + draw(x, 40)),
        .n_parts = (uint8_t)(1 + draw(x, 3)),
        .shift = (uint8_t)(draw(x, 2) * draw(x, 13)),
        .kind = (uint8_t)draw(x, REGS_ENUM + 1),
        .is_array = draw(x, 2),
        .is_const = draw(x, 5) == 0,
        .always = draw(x, 2),
    };
    for (p = 0; p < field->n_parts; p++) {
        static const uint16_t widths[] = {1, 2, 3, 8, 20};
        uint16_t n = widths[draw(x, ARRAY_LEN(widths))];
        unsigned top;

        if (p == 0 && field->n_parts == 1 && draw(x, 4) == 0)
            n = 32;
        if (n_bits < n + (field->count - 1u) * field->stride) {
            n = 1;
            field->count = 1;
        }
        top = n_bits - n - (field->count - 1u) * field->stride;
        field->parts[p].n = n;
        field->parts[p].lo =
            (uint16_t)(draw(x, 2) ? top - draw(x, top < 40 ? top + 1 : 40)
                                  : draw(x, top + 1));
    }
}

static void
draw_rows(uint64_t *x, struct rows *rows)
{
    unsigned n_dw = (unsigned)(draw(x, 4) ? 1 + draw(x, 4) : 62 + draw(x, 8));
    unsigned f;

    rows->gen_dw[0] = (uint8_t)n_dw;
    rows->gen_dw[1] = (uint8_t)(1 + draw(x, n_dw));
    rows->type = (struct regs_type){
        .name = "random",
        .fields = rows->fields,
        .n_fields = (uint32_t)draw(x, N_FIELDS + 1),
        .n_dw = n_dw,
        .gen_dw = draw(x, 2) ? rows->gen_dw : NULL,
    };
    for (f = 0; f < rows->type.n_fields; f++)
        draw_field(x, rows, f, 32 * n_dw);
}

static unsigned
bit_of(const uint32_t *words, unsigned at)
{
    return words[at / 32] >> at % 32 & 1;
}

static uint64_t
model_get(const struct regs_field *field, const uint32_t *words, unsigned i)
{
    unsigned n = 0, p, b;
    uint64_t value = 0;

    for (p = 0; p < field->n_parts; p++) {
        for (b = 0; b < field->parts[p].n; b++, n++)
            value |= (uint64_t)bit_of(words, field->parts[p].lo + b +
                                                 i * field->stride)
                     << n;
    }
    if (field->kind == REGS_INT) {
        for (; n < 64; n++)
            value |= (value >> (n - 1) & 1) << n;
        return value;
    }
    return value << field->shift;
}

static bool
model_knows(const struct regs_field *field, unsigned i, uint64_t have)
{
    unsigned p, b;

    for (p = 0; p < field->n_parts; p++) {
        for (b = 0; b < field->parts[p].n; b++) {
            unsigned w = (field->parts[p].lo + b + i * field->stride) / 32;
            if (w < 64 && !(have >> w & 1))
                return false;
        }
    }
    return true;
}

static void
model_covered(const struct regs_type *type, unsigned gen, uint32_t *out)
{
    unsigned f, i, p, b;

    memset(out, 0, 4 * N_DW_MAX);
    for (f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];
        if (!(field->gens >> gen & 1))
            continue;
        for (i = 0; i < field->count; i++)
            for (p = 0; p < field->n_parts; p++)
                for (b = 0; b < field->parts[p].n; b++) {
                    unsigned at = field->parts[p].lo + b + i * field->stride;
                    out[at / 32] |= 1u << at % 32;
                }
    }
}

static void
model_value(char *text, const struct regs_field *field, uint64_t value)
{
    if (field->kind == REGS_ENUM && (value < 2 || value == 6))
        strcpy(text, value == 0 ? "none" : value == 1 ? "one" : "six");
    else if (field->kind == REGS_INT)
        sprintf(text, "%lld", (long long)value);
    else
        sprintf(text, field->kind == REGS_HEX ? "0x%llx" : "%llu",
                (unsigned long long)value);
}

/* The text of regs_decode_fields, or the lines of regs_decode_block, each with
 * a new line before it. */
static void
model_decode(char *text, const struct regs_type *type, unsigned gen,
             const uint32_t *words, uint64_t have, bool is_block)
{
    uint32_t covered[N_DW_MAX];
    const char *gap = is_block ? "\n  " : "";
    const char *equals = is_block ? " = " : "=", *begin = text;
    bool hidden = false;
    unsigned f, i, w;

    text[0] = 0;
    for (f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];
        if (!(field->gens >> gen & 1) || (field->is_const && !is_block))
            continue;
        for (i = 0; i < field->count; i++) {
            uint64_t value = model_get(field, words, i);
            char index[8] = "", shown[64];

            if (!is_block && !model_knows(field, i, have)) {
                hidden = true;
                continue;
            }
            if (!value && !field->always)
                continue;
            if (field->is_array)
                sprintf(index, "[%u]", i);
            model_value(shown, field, value);
            text += sprintf(text, "%s%s%s%s%s", gap, field->name, index, equals,
                            shown);
            gap = is_block ? gap : " ";
        }
    }
    model_covered(type, gen, covered);
    for (w = 0; w < (type->gen_dw ? type->gen_dw[gen] : type->n_dw); w++) {
        if (!(words[w] & ~covered[w]) ||
            (!is_block && w < 64 && !(have >> w & 1)))
            continue;
        text += sprintf(text, "%sreserved[%u]%s0x%x", gap, w, equals,
                        words[w] & ~covered[w]);
        gap = is_block ? gap : " ";
    }
    if (text == begin && !is_block)
        strcpy(text, hidden ? "?" : "0");
}

static void
add_line(void *user, const char *line)
{
    strcat(user, "\n");
    strcat(user, line);
}

static void
test_random(void **state)
{
    static char want[65536], got[65536];
    uint64_t x = 1;
    unsigned round, i;

    (void)state;
    for (round = 0; round < 20000; round++) {
        uint32_t words[N_DW_MAX], covered[N_DW_MAX], left = 0;
        unsigned gen = (unsigned)draw(&x, 2), n;
        uint64_t have = draw(&x, 3)
                            ? UINT64_MAX
                            : (uint64_t)draw(&x, 1u << 31) << draw(&x, 40);
        struct regs_text text;
        struct rows rows;
        size_t size;

        draw_rows(&x, &rows);
        for (i = 0; i < N_DW_MAX; i++) {
            words[i] = draw(&x, 2) ? (uint32_t)draw(&x, 1u << 31) * 2 + 1 : 0;
            words[i] >>= draw(&x, 32);
        }
        for (n = 0; n < rows.type.n_fields; n++) {
            for (i = 0; i < rows.fields[n].count; i++)
                assert_true(regs_get(&rows.fields[n], words, i) ==
                            model_get(&rows.fields[n], words, i));
        }
        model_decode(want, &rows.type, gen, words, have, false);
        size = draw(&x, 4) ? sizeof(got) : 1 + draw(&x, strlen(want) + 2);
        regs_text_init(&text, got, size);
        regs_decode_fields(&text, &rows.type, gen, words, have);
        if (strlen(want) >= size)
            want[size - 1] = 0;
        assert_string_equal(got, want);
        assert_int_equal(text.n_bytes, strlen(want));

        model_decode(want, &rows.type, gen, words, have, true);
        got[0] = 0;
        regs_decode_block(&rows.type, gen, words, add_line, got);
        assert_string_equal(got, want);

        model_covered(&rows.type, gen, covered);
        n = rows.type.gen_dw ? rows.type.gen_dw[gen] : rows.type.n_dw;
        for (i = 0; i < N_DW_MAX; i++) {
            covered[i] = words[i] & ~covered[i];
            left |= i < n ? covered[i] : 0;
        }
        assert_int_equal(regs_clear_known(&rows.type, gen, words), left != 0);
        assert_memory_equal(words, covered, sizeof(words));
    }
}

/* ---- a unit ---- */

#define FIELD(name_, lo_, n_, ...)                                             \
    {                                                                          \
        .name = name_, .gens = 3, .parts = {{lo_, n_}}, .count = 1,            \
        .n_parts = 1, __VA_ARGS__                                              \
    }
#define OP(code) FIELD("op", 28, 4, .is_const = true, .value = code)
#define COUNT    FIELD("n", 16, 8, .role = REGS_ROLE_COUNT)
#define ADDRESS  FIELD("at", 0, 12, .kind = REGS_HEX, .role = REGS_ROLE_ADDRESS)
#define SLOT     FIELD("slot", 24, 2, .role = REGS_ROLE_SLOT)

static const struct regs_field inc[] = {OP(1), COUNT, ADDRESS, SLOT};
static const struct regs_field noninc[] = {OP(2), COUNT, ADDRESS, SLOT};
static const struct regs_field oneinc[] = {OP(3), COUNT, ADDRESS, SLOT};
static const struct regs_field imm[] = {
    OP(4), FIELD("data", 16, 8, .role = REGS_ROLE_DATA), ADDRESS, SLOT};
static const struct regs_field body[] = {
    OP(5), FIELD("n", 16, 8, .role = REGS_ROLE_COUNT, .bias = -2)};
/* two words long, of the second generation */
static const struct regs_field wide[] = {
    OP(6),
    {.name = "old",
     .gens = 1,
     .parts = {{16, 8}},
     .count = 1,
     .n_parts = 1,
     .role = REGS_ROLE_COUNT},
    FIELD("n", 32, 2, .role = REGS_ROLE_COUNT, .bias = 1)};
static const struct regs_field one[] = {FIELD("lo", 0, 4, .kind = REGS_UINT),
                                        FIELD("hi", 4, 28, .kind = REGS_UINT)};
static const struct regs_field two[] = {
    FIELD("across", 28, 8, .kind = REGS_UINT),
    FIELD("z", 60, 4, .kind = REGS_UINT)};
static const struct regs_field bind[] = {
    FIELD("others", 16, 16, .kind = REGS_UINT),
    FIELD("id", 0, 16, .kind = REGS_HEX, .role = REGS_ROLE_BIND)};
static const struct regs_field no_const[] = {
    FIELD("x", 0, 32, .kind = REGS_UINT)};

#define TYPE(name_, fields_, ...)                                              \
    {                                                                          \
        .name = name_, .fields = fields_, .n_fields = ARRAY_LEN(fields_),      \
        .n_dw = 1, .gens = 3, .count = 1, __VA_ARGS__                          \
    }

static const struct regs_type types[] = {
    TYPE("DATA", no_const, .kind = REGS_LAYOUT, .address = 0x100),
    TYPE("INC", inc, .kind = REGS_LAYOUT, .stream = REGS_INC),
    TYPE("NONINC", noninc, .kind = REGS_LAYOUT, .stream = REGS_NONINC),
    TYPE("ONEINC", oneinc, .kind = REGS_LAYOUT, .stream = REGS_ONEINC),
    TYPE("IMM", imm, .kind = REGS_LAYOUT, .stream = REGS_IMM),
    TYPE("BODY", body, .kind = REGS_LAYOUT, .stream = REGS_BODY),
    {.name = "WIDE",
     .fields = wide,
     .n_fields = ARRAY_LEN(wide),
     .n_dw = 2,
     .gens = 2,
     .kind = REGS_LAYOUT,
     .stream = REGS_BODY},
    TYPE("ANY", no_const, .kind = REGS_LAYOUT, .stream = REGS_BODY),
    TYPE("ONE", one, .address = 0x100),
    {.name = "TWO",
     .fields = two,
     .n_fields = 2,
     .n_dw = 2,
     .gens = 3,
     .count = 3,
     .stride = 16,
     .address = 0x200},
    {.name = "LATE",
     .fields = one,
     .n_fields = 2,
     .n_dw = 1,
     .gens = 2,
     .count = 1,
     .address = 0x300},
    TYPE("BIND", bind, .address = 0x400),
};
static const uint32_t ids[] = {0x10, 0x20}, own_ids[] = {0x77, 0x78};
static const struct regs_unit unit = {
    .name = "unit",
    .gen_ids = ids,
    .types = types,
    .n_gens = 2,
    .n_types = ARRAY_LEN(types),
    .step = 4,
};
static const struct regs_type own_types[] = {
    TYPE("OWN", one, .address = 0x600),
    {.name = "NEW",
     .fields = one,
     .n_fields = 2,
     .n_dw = 1,
     .gens = 2,
     .count = 1,
     .address = 0x604},
};
static const struct regs_unit own = {
    .name = "own",
    .gen_ids = own_ids,
    .types = own_types,
    .n_gens = 2,
    .n_types = 2,
    .step = 4,
};
static const struct regs_unit *const units[] = {&unit, &own};

static void
test_addresses(void **state)
{
    unsigned gen, t, e, w, element, dw;
    uint32_t at;

    (void)state;
    for (gen = 0; gen < 2; gen++) {
        for (at = 0; at < 0x500; at++) {
            const struct regs_type *want = NULL, *got;
            unsigned want_e = 0, want_w = 0;

            for (t = 0; t < ARRAY_LEN(types); t++) {
                for (e = 0; e < types[t].count && !want; e++)
                    for (w = 0; w < types[t].n_dw; w++)
                        if (types[t].kind == REGS_REG &&
                            (types[t].gens >> gen & 1) &&
                            types[t].address + e * types[t].stride + 4 * w ==
                                at) {
                            want = &types[t];
                            want_e = e;
                            want_w = w;
                        }
            }
            got = regs_by_address(&unit, gen, at, &element, &dw);
            assert_ptr_equal(got, want);
            if (want) {
                assert_int_equal(element, want_e);
                assert_int_equal(dw, want_w);
            }
        }
    }
    for (t = 0; t < ARRAY_LEN(types); t++)
        assert_ptr_equal(regs_by_name(&unit, types[t].name), &types[t]);
    assert_null(regs_by_name(&unit, "TW"));
    assert_int_equal(regs_gen_by_id(&unit, 0x10), 0);
    assert_int_equal(regs_gen_by_id(&unit, 0x20), 1);
    assert_true(regs_gen_by_id(&unit, 0x30) < 0);
    assert_ptr_equal(regs_field_by_name(&types[6], 0, "old"), &wide[1]);
    assert_null(regs_field_by_name(&types[6], 1, "old"));
    assert_ptr_equal(regs_field_by_name(&types[6], 1, "n"), &wide[2]);
    assert_null(regs_field_by_name(&types[6], 1, "nn"));
}

/* ---- streams ---- */

#define HEADER(op, n, at, slot)                                                \
    ((uint32_t)(op) << 28 | (uint32_t)(slot) << 24 | (uint32_t)(n) << 16 | (at))

static const struct {
    uint32_t words[14];
    unsigned n, gen, n_unknown;
    const char *text;
} streams[] = {
    {{HEADER(1, 3, 0xfc, 0), 7, 0x25, 9},
     4,
     0,
     2,
     "\n00000: 100300fc INC n=3 at=0xfc"
     "\n  ? 0x00fc = 00000007"
     "\n  ONE = 00000025 {lo=5 hi=2}"
     "\n  ? 0x0104 = 00000009"},
    /* an array's elements, from their middle, cut short */
    {{HEADER(1, 4, 0x204, 1), 3, 8, 9, 0xf0000000},
     5,
     0,
     2,
     "\n00000: 11040204 INC n=4 at=0x204 slot=1"
     "\n  TWO[0]+4 = 00000003 {?}"
     "\n  ? 0x0208 = 00000008"
     "\n  ? 0x020c = 00000009"
     "\n  TWO[1] = f0000000 {?}"},
    {{HEADER(1, 2, 0x220, 0), 0xf0000000, 0x70000003, HEADER(1, 0, 0x220, 0)},
     4,
     0,
     0,
     "\n00000: 10020220 INC n=2 at=0x220"
     "\n  TWO[2] = f0000000 70000003 {across=63 z=7}"
     "\n0000c: 10000220 INC at=0x220"},
    {{HEADER(1, 2, 0x220, 0), 1, 0x00000100},
     3,
     0,
     0,
     "\n00000: 10020220 INC n=2 at=0x220"
     "\n  TWO[2] = 00000001 00000100 {reserved[0]=0x1 reserved[1]=0x100}"},
    {{HEADER(2, 1, 0x100, 0), 5},
     2,
     0,
     0,
     "\n00000: 20010100 NONINC n=1 at=0x100"
     "\n  ONE = 00000005 {lo=5}"},
    {{HEADER(2, 9, 0x100, 0), 1, 2, 3, 4, 5, 6, 7, 8, 9},
     10,
     0,
     0,
     "\n00000: 20090100 NONINC n=9 at=0x100"
     "\n  ONE <- 9 words: 00000001 00000002 00000003 00000004 00000005 "
     "00000006 00000007 00000008 ..."},
    {{HEADER(2, 8, 0x500, 0), 1, 2, 3, 4, 5, 6, 7, 8},
     9,
     0,
     8,
     "\n00000: 20080500 NONINC n=8 at=0x500"
     "\n  ? 0x0500 <- 8 words: 00000001 00000002 00000003 00000004 00000005 "
     "00000006 00000007 00000008"},
    {{HEADER(2, 1, 0x500, 0), 1, HEADER(2, 0, 0x500, 0)},
     3,
     0,
     1,
     "\n00000: 20010500 NONINC n=1 at=0x500"
     "\n  ? 0x0500 <- 1 words: 00000001"
     "\n00008: 20000500 NONINC at=0x500"},
    {{HEADER(3, 3, 0x100, 0), 1, 2, 3},
     4,
     0,
     2,
     "\n00000: 30030100 ONEINC n=3 at=0x100"
     "\n  ONE = 00000001 {lo=1}"
     "\n  ? 0x0104 <- 2 words: 00000002 00000003"},
    {{HEADER(3, 1, 0x1fc, 0), 1, HEADER(3, 0, 0x1fc, 0)},
     3,
     0,
     1,
     "\n00000: 300101fc ONEINC n=1 at=0x1fc"
     "\n  ? 0x01fc <- 1 words: 00000001"
     "\n00008: 300001fc ONEINC at=0x1fc"},
    {{HEADER(3, 2, 0x1fc, 0), 1, 2},
     3,
     0,
     1,
     "\n00000: 300201fc ONEINC n=2 at=0x1fc"
     "\n  ? 0x01fc <- 1 words: 00000001"
     "\n  TWO[0] = 00000002 {reserved[0]=0x2}"},
    {{HEADER(4, 0x33, 0x100, 0), HEADER(4, 1, 0x500, 2)},
     2,
     0,
     1,
     "\n00000: 40330100 IMM data=51 at=0x100"
     "\n  ONE = 00000033 {lo=3 hi=3}"
     "\n00004: 42010500 IMM data=1 at=0x500 slot=2"
     "\n  ? 0x0500 = 00000001"},
    /* a count less than its bias, and just it */
    {{HEADER(5, 1, 0, 0), HEADER(5, 2, 0, 0), HEADER(5, 4, 0, 0), 1, 2},
     5,
     0,
     0,
     "\n00000: 50010000 BODY n=1"
     "\n00004: 50020000 BODY n=2"
     "\n00008: 50040000 BODY n=4"},
    {{HEADER(6, 0, 0, 0), 2, 5, 6, 7}, 5, 1, 0, "\n00000: 60000000 WIDE n=2"},
    /* which the first generation does not know; and cut in the header */
    {{HEADER(6, 1, 0, 0), 0},
     2,
     0,
     2,
     "\n00000: 60010000 ?"
     "\n00004: 00000000 ?"},
    {{HEADER(5, 2, 0, 0), HEADER(6, 0, 0, 0)},
     2,
     1,
     1,
     "\n00000: 50020000 BODY n=2"
     "\n00004: 60000000 ?"},
    {{HEADER(1, 3, 0x100, 0), 1},
     2,
     0,
     1,
     "\n00000: 10030100 INC n=3 at=0x100 truncated: 1 of 3 words"
     "\n  ONE = 00000001 {lo=1}"},
    {{HEADER(4, 1, 0x300, 0)},
     1,
     0,
     1,
     "\n00000: 40010300 IMM data=1 at=0x300"
     "\n  ? 0x0300 = 00000001"},
    {{HEADER(4, 1, 0x300, 0)},
     1,
     1,
     0,
     "\n00000: 40010300 IMM data=1 at=0x300"
     "\n  LATE = 00000001 {lo=1}"},
    /* a unit is bound to slot 1, then another, then none; not by what is
     * written by way of repeated words */
    {{HEADER(4, 1, 0x600, 1), HEADER(1, 1, 0x400, 1), 0x77,
      HEADER(4, 2, 0x600, 1), HEADER(4, 3, 0x604, 1), HEADER(4, 4, 0x600, 2),
      HEADER(1, 1, 0x400, 1), 0x78, HEADER(4, 5, 0x604, 1),
      HEADER(2, 2, 0x400, 1), 1, 2, HEADER(4, 0x79, 0x400, 1),
      HEADER(4, 6, 0x600, 1)},
     14,
     0,
     4,
     "\n00000: 41010600 IMM data=1 at=0x600 slot=1"
     "\n  ? 0x0600 = 00000001"
     "\n00004: 11010400 INC n=1 at=0x400 slot=1"
     "\n  BIND = 00000077 {id=0x77}"
     "\n0000c: 41020600 IMM data=2 at=0x600 slot=1"
     "\n  OWN = 00000002 {lo=2}"
     "\n00010: 41030604 IMM data=3 at=0x604 slot=1"
     "\n  ? 0x0604 = 00000003"
     "\n00014: 42040600 IMM data=4 at=0x600 slot=2"
     "\n  ? 0x0600 = 00000004"
     "\n00018: 11010400 INC n=1 at=0x400 slot=1"
     "\n  BIND = 00000078 {id=0x78}"
     "\n00020: 41050604 IMM data=5 at=0x604 slot=1"
     "\n  NEW = 00000005 {lo=5}"
     "\n00024: 21020400 NONINC n=2 at=0x400 slot=1"
     "\n  BIND <- 2 words: 00000001 00000002"
     "\n00030: 41790400 IMM data=121 at=0x400 slot=1"
     "\n  BIND = 00000079 {id=0x79}"
     "\n00034: 41060600 IMM data=6 at=0x600 slot=1"
     "\n  ? 0x0600 = 00000006"},
};

static void
test_streams(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(streams); i++) {
        char text[4096] = "";
        struct regs_stream s = {
            .common = &unit,
            .common_gen = streams[i].gen,
            .units = units,
            .n_units = 2,
            .line = add_line,
            .user = text,
        };

        unsigned unknown =
            regs_decode_stream(&s, streams[i].words, streams[i].n);
        assert_string_equal(text, streams[i].text);
        assert_int_equal(unknown, streams[i].n_unknown);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
