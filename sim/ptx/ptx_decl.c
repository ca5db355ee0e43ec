/* Declarations: registers, variables of kernels, and variables of the module
 * with their values. */
#include "sim/ptx/ptx_parse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MAX_ROWS       65536
#define MAX_CONST      65536u
#define MAX_DATA_BYTES ((uint32_t)1 << 28)

bell_status
px_take_type(struct px_parse *p, uint8_t *out_type)
{
    uint8_t i;

    for (i = PX_PRED; i < PX_TYPE_COUNT; i++) {
        if (px_at_word(p, PX_DOT, px_types[i].name)) {
            *out_type = i;
            px_lex_next(&p->lex);
            return BELL_OK;
        }
    }
    return px_error(p, "a type is missing");
}

bell_status
px_take_name(struct px_parse *p, struct px_symbol *s)
{
    if (p->lex.token != PX_WORD)
        return px_error(p, "a name is missing");
    s->name = p->lex.word;
    s->len = p->lex.len;
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* ---- registers ---- */

/* The names are for who steps through a kernel. */
static bell_status
note_declared(struct px_parse *p, const struct px_symbol *s)
{
    struct px_kernel *k = p->kernel;
    struct px_declared *declared;

    if (host_grow((void **)&k->declared, &k->cap_declared, k->n_declared + 1,
                  sizeof(*declared)) < 0)
        return bell_fail(BELL_E_NO_MEMORY, "registers of %s: out of memory",
                         k->name);
    declared = &k->declared[k->n_declared++];
    *declared = (struct px_declared){
        .at = s->at,
        .count = s->count,
        .bits = px_types[s->type].bits,
        .is_family = s->kind == PX_SYM_FAMILY,
    };
    snprintf(declared->name, sizeof(declared->name), "%.*s", (int)s->len,
             s->name);
    return BELL_OK;
}

bell_status
px_parse_registers(struct px_parse *p)
{
    struct px_kernel *k = p->kernel;
    struct px_symbol s = {.kind = PX_SYM_REG};
    uint64_t n, rows;

    px_lex_next(&p->lex);
    BELL_TRY(px_take_type(p, &s.type));
    if (px_types[s.type].bits == 8 || s.type == PX_BF16 ||
        (px_types[s.type].kind == 'x' && s.type != PX_F16X2))
        return px_error(p, "there are no registers of this type");
    rows = px_types[s.type].bits == 64 ? 2 : 1;
    do {
        BELL_TRY(px_take_name(p, &s));
        n = 1;
        s.kind = PX_SYM_REG;
        if (px_skip(p, '<')) {
            BELL_TRY(px_take_number(p, MAX_ROWS, &n));
            BELL_TRY(px_expect(p, '>'));
            s.kind = PX_SYM_FAMILY;
        }
        s.count = (uint32_t)n;
        s.at = k->n_rows;
        if (k->n_rows + n * rows > MAX_ROWS)
            return px_error(p, "too many registers");
        k->n_rows += (uint32_t)(n * rows);
        k->n_regs += (uint32_t)n;
        BELL_TRY(note_declared(p, &s));
        BELL_TRY(px_add_symbol(p, &s));
    } while (px_skip(p, ','));
    return px_expect(p, ';');
}

/* ---- variables ---- */

/* .align A .type name: of a variable. */
static bell_status
take_head(struct px_parse *p, struct px_symbol *s, uint64_t *out_align)
{
    uint64_t align = 1, size;

    if (px_at_word(p, PX_DOT, "align")) {
        px_lex_next(&p->lex);
        BELL_TRY(px_take_number(p, 1024, &align));
        if (!is_pow2(align))
            return px_error(p, "the alignment is not a power of two");
    }
    BELL_TRY(px_take_type(p, &s->type));
    size = px_types[s->type].bits / 8;
    if (size == 0 || px_types[s->type].kind == 'x')
        return px_error(p, "this type is not kept in memory");
    *out_align = align > size ? align : size;
    return px_take_name(p, s);
}

bell_status
px_parse_variable(struct px_parse *p, enum px_symbol_kind kind, uint32_t max,
                  uint32_t *used)
{
    struct px_symbol s = {.kind = (uint8_t)kind};
    uint64_t align, n = 1, at, size;

    BELL_TRY(take_head(p, &s, &align));
    size = px_types[s.type].bits / 8;
    if (px_skip(p, '[')) {
        if (px_at_punct(p, ']') && kind == PX_SYM_DYNAMIC)
            n = 0;
        else
            BELL_TRY(px_take_number(p, max, &n));
        BELL_TRY(px_expect(p, ']'));
    }
    at = align_up(*used, align);
    if (at + n * size > max)
        return px_error(p, "too many bytes");
    s.at = (uint32_t)at;
    s.count = (uint32_t)(n * size);
    *used = (uint32_t)(at + n * size);
    return px_add_symbol(p, &s);
}

/* ---- values ---- */

/* One element of a variable. */
static bell_status
take_value(struct px_parse *p, unsigned type, uint64_t *out)
{
    const struct px_type_info *t = &px_types[type];
    bool minus = px_skip(p, '-');

    if (p->lex.token != PX_NUMBER)
        return px_error(p, "a value is missing");
    if (p->lex.float_bits
            ? minus || t->kind != 'f' || p->lex.float_bits != t->bits
            : t->kind == 'f' && t->bits > 16)
        return px_error(p, "a value of another type");
    *out = minus ? 0 - p->lex.number : p->lex.number;
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* Values in braces, which say nothing that the order does not. */
static bell_status
take_values(struct px_parse *p, const struct px_symbol *s, uint64_t n,
            uint8_t *data)
{
    uint32_t size = px_types[s->type].bits / 8u, depth = 0;
    uint64_t i = 0, v;

    for (;;) {
        while (px_skip(p, '{'))
            depth++;
        if (i == n)
            return px_error(p, "more values than elements");
        BELL_TRY(take_value(p, s->type, &v));
        memcpy(data + i * size, &v, size);
        i++;
        while (depth && px_skip(p, '}'))
            depth--;
        if (depth == 0)
            return BELL_OK;
        BELL_TRY(px_expect(p, ','));
    }
}

/* Room for n bytes more at an alignment, zeroed. */
static bell_status
grow_image(struct px_parse *p, struct px_image *image, uint64_t n,
           uint64_t align, uint32_t max, uint32_t *out_at)
{
    uint64_t at = align_up(image->n_bytes, align);

    assert(align > 0 && (align & (align - 1)) == 0);
    if (n > max || at + n > max)
        return px_error(p, "too many bytes");
    if (host_grow((void **)&image->data, &image->cap, at + n + 1, 1) < 0)
        return px_out_of_memory();
    memset(image->data + image->n_bytes, 0, at + n - image->n_bytes);
    image->n_bytes = (uint32_t)(at + n);
    if (align > image->align)
        image->align = (uint32_t)align;
    *out_at = (uint32_t)at;
    return BELL_OK;
}

/* [2][3], of which the first may be missing where values follow. */
static bell_status
take_dims(struct px_parse *p, uint64_t *out_n)
{
    uint64_t n = 1, d;

    while (px_skip(p, '[')) {
        BELL_TRY(px_take_number(p, MAX_DATA_BYTES, &d));
        BELL_TRY(px_expect(p, ']'));
        n *= d;
        if (n == 0 || n > MAX_DATA_BYTES)
            return px_error(p, "an array of this size");
    }
    *out_n = n;
    return BELL_OK;
}

bell_status
px_parse_data(struct px_parse *p, enum px_symbol_kind kind)
{
    bool is_const = kind == PX_SYM_CONST;
    struct px_image *image =
        is_const ? &p->module->consts : &p->module->globals;
    struct px_symbol s = {.kind = (uint8_t)kind};
    uint64_t align, n, i;

    BELL_TRY(take_head(p, &s, &align));
    BELL_TRY(take_dims(p, &n));
    s.count = (uint32_t)(n * px_types[s.type].bits / 8);
    BELL_TRY(grow_image(p, image, n * px_types[s.type].bits / 8, align,
                        is_const ? MAX_CONST : MAX_DATA_BYTES, &s.at));
    if (px_skip(p, '='))
        BELL_TRY(take_values(p, &s, n, image->data + s.at));
    for (i = 0; i < s.count; i++)
        image->is_not_zero |= image->data[s.at + i] != 0;
    BELL_TRY(px_add_symbol(p, &s));
    return px_expect(p, ';');
}
