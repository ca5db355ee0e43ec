/* Operands: registers, constants, addresses, vectors, each checked against
 * the type that the instruction wants. */
#include "sim/ptx/ptx_parse.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

bell_status
px_const_ref(struct px_parse *p, uint64_t bits, unsigned width,
             enum px_base base, struct px_ref *out)
{
    struct px_kernel *k = p->kernel;
    uint64_t key = hash_add(bits, width);
    const uint64_t *old = base ? NULL : map_get(&k->const_index, key);
    struct px_ref ref = {.bits = (uint8_t)width};

    assert(width <= 64);
    if (old && k->consts[*old].bits == bits && k->consts[*old].width == width) {
        ref.row = ~(int32_t)*old;
        *out = ref;
        return BELL_OK;
    }
    if (k->n_consts >= INT32_MAX - 1 ||
        host_grow((void **)&k->consts, &k->cap_consts, k->n_consts + 1,
                  sizeof(*k->consts)) < 0 ||
        (!base && map_put(&k->const_index, key, k->n_consts) < 0))
        return px_out_of_memory();
    k->consts[k->n_consts] =
        (struct px_const){bits, (uint8_t)width, (uint8_t)base};
    ref.row = ~(int32_t)k->n_consts++;
    *out = ref;
    return BELL_OK;
}

/* ---- registers ---- */

/* May a register of type `reg` hold an operand of type `type`? `wider`: it
 * may be wider than that (ld, st, cvt). */
static bool
register_fits(unsigned reg, unsigned type, bool wider)
{
    const struct px_type_info *r = &px_types[reg], *t = &px_types[type];

    assert(reg < PX_TYPE_COUNT && type < PX_TYPE_COUNT);
    if ((r->kind == 'p') != (t->kind == 'p'))
        return false;
    if (r->kind == 'p')
        return true;
    if (r->bits != t->bits)
        return wider && r->bits > t->bits && r->kind != 'f' && t->kind != 'f' &&
               t->kind != 'x';
    if (t->kind == 'x')
        return r->kind == 'b' || reg == type;
    if (r->kind == 'b' || t->kind == 'b')
        return true;
    return (r->kind == 'f') == (t->kind == 'f') && r->kind != 'x';
}

static struct px_ref
register_ref(const struct px_symbol *s, uint32_t number)
{
    uint32_t rows = px_types[s->type].bits == 64 ? 2 : 1;

    return (struct px_ref){.row = (int32_t)(s->at + number * rows),
                           .bits = px_types[s->type].bits};
}

bell_status
px_take_register(struct px_parse *p, unsigned type, bool wider,
                 struct px_ref *out)
{
    const struct px_symbol *s;
    uint32_t number;

    if (p->lex.token != PX_WORD)
        return px_error(p, "a register is missing");
    s = px_find_symbol(p, p->lex.word, p->lex.len, &number);
    if (!s || s->kind > PX_SYM_FAMILY)
        return px_error(p, "no such register");
    if (!register_fits(s->type, type, wider))
        return px_error(p, "a register of another type or width");
    *out = register_ref(s, number);
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* ---- special registers ---- */

static const struct {
    const char *name;
    uint8_t special, bits;
    bool is_vector;
} specials[] = {
    {"%tid", PX_TID_X, 32, true},
    {"%ntid", PX_NTID_X, 32, true},
    {"%ctaid", PX_CTAID_X, 32, true},
    {"%nctaid", PX_NCTAID_X, 32, true},
    {"%laneid", PX_LANEID, 32, false},
    {"%warpid", PX_WARPID, 32, false},
    {"%nwarpid", PX_NWARPID, 32, false},
    {"%smid", PX_SMID, 32, false},
    {"%nsmid", PX_NSMID, 32, false},
    {"%lanemask_eq", PX_LANEMASK_EQ, 32, false},
    {"%lanemask_lt", PX_LANEMASK_LT, 32, false},
    {"%lanemask_le", PX_LANEMASK_LE, 32, false},
    {"%lanemask_gt", PX_LANEMASK_GT, 32, false},
    {"%lanemask_ge", PX_LANEMASK_GE, 32, false},
    {"%dynamic_smem_size", PX_DYNAMIC_SMEM, 32, false},
    {"%total_smem_size", PX_TOTAL_SMEM, 32, false},
    {"%gridid", PX_GRIDID, 64, false},
    {"%clock", PX_CLOCK_LO, 32, false},
    {"%clock_hi", PX_CLOCK_HI, 32, false},
    {"%clock64", PX_CLOCK64, 64, false},
    {"%globaltimer", PX_TIMER, 64, false},
    {"%globaltimer_lo", PX_TIMER_LO, 32, false},
    {"%globaltimer_hi", PX_TIMER_HI, 32, false},
};

/* The row of a special register that keeps its value. */
static struct px_ref
special_ref(struct px_kernel *k, unsigned special, unsigned bits)
{
    assert(special < PX_SPECIAL_COUNT);
    if (k->specials[special] == PX_NO_ROW) {
        k->specials[special] = (int32_t)k->n_rows;
        k->n_rows += bits == 64 ? 2 : 1;
    }
    return (struct px_ref){k->specials[special], (uint8_t)bits};
}

static bell_status
special_register(struct px_parse *p, unsigned type, struct px_ref *out)
{
    struct px_insn *in = &p->kernel->code[p->kernel->n_code - 1];
    unsigned which;
    size_t i;

    for (i = 0; i < ARRAY_LEN(specials); i++) {
        if (px_is_word(specials[i].name, p->lex.word, p->lex.len))
            break;
    }
    if (i == ARRAY_LEN(specials) || px_types[type].kind == 'f' ||
        px_types[type].kind == 'x' || px_types[type].bits != specials[i].bits)
        return px_error(p, "no such register of this type and width");
    which = specials[i].special;
    px_lex_next(&p->lex);
    if (specials[i].is_vector) {
        if (p->lex.token != PX_DOT || p->lex.len != 1 || p->lex.word[0] < 'x' ||
            p->lex.word[0] > 'z')
            return px_error(p, "x, y or z is missing");
        which += (unsigned)(p->lex.word[0] - 'x');
        px_lex_next(&p->lex);
    }
    if (which < PX_CLOCK_FIRST) {
        *out = special_ref(p->kernel, which, specials[i].bits);
        return BELL_OK;
    }
    if (in->op != PX_MOV)
        return px_error(p, "a clock is read by mov only");
    in->op = PX_CLOCK;
    in->offset = (int64_t)which;
    return BELL_OK;
}

/* ---- constants and addresses of variables ---- */

static bell_status
take_immediate(struct px_parse *p, unsigned type, struct px_ref *out)
{
    const struct px_type_info *t = &px_types[type];
    bool minus = px_skip(p, '-');
    unsigned width = t->kind == 'p' ? 1 : t->bits == 64 ? 64 : 32;
    uint64_t bits;

    if (p->lex.token != PX_NUMBER)
        return px_error(p, "an operand is missing");
    bits = p->lex.number;
    if (p->lex.float_bits) {
        if (minus || p->lex.float_bits != t->bits ||
            (t->kind != 'f' && t->kind != 'b'))
            return px_error(p, "a constant of another type");
    } else {
        if (t->kind == 'f' && t->bits > 16)
            return px_error(p, "an integer where a float is wanted");
        if (t->kind == 'p' && (minus || bits > 1))
            return px_error(p, "a predicate is 0 or 1");
        bits = (minus ? 0 - bits : bits) & px_mask(t->bits);
    }
    px_lex_next(&p->lex);
    return px_const_ref(p, bits, width, PX_BASE_NONE, out);
}

static bell_status
variable_ref(struct px_parse *p, const struct px_symbol *s, unsigned width,
             struct px_ref *out)
{
    enum px_base base = PX_BASE_NONE;

    if (s->kind == PX_SYM_DYNAMIC)
        base = PX_BASE_DYNAMIC;
    if (s->kind == PX_SYM_GLOBAL) {
        base = PX_BASE_GLOBAL;
        p->kernel->uses_global = true;
    }
    if (s->kind == PX_SYM_CONST)
        p->kernel->uses_const = true;
    return px_const_ref(p, s->at, width, base, out);
}

/* [index] behind the name of an array: the address of that element.
 * src: PTX ISA 8.7, "Arrays as Operands" */
static bell_status
skip_element(struct px_parse *p, struct px_symbol *array)
{
    unsigned elem_bytes = px_types[array->type].bits / 8;
    uint64_t index;

    if (!px_skip(p, '['))
        return BELL_OK;
    BELL_TRY(px_take_number(p, UINT32_MAX, &index));
    if (array->kind != PX_SYM_DYNAMIC && index * elem_bytes >= array->count)
        return px_error(p, "an element behind the end of the array");
    array->at += (uint32_t)(index * elem_bytes);
    return px_expect(p, ']');
}

/* The address of a variable, as mov gives it. */
static bell_status
take_address_of(struct px_parse *p, const struct px_symbol *s, unsigned type,
                struct px_ref *out)
{
    unsigned bits = px_types[type].bits;
    struct px_symbol of = *s;

    if (p->kernel->code[p->kernel->n_code - 1].op != PX_MOV ||
        px_types[type].kind == 'f' || bits < 32 || s->kind >= PX_SYM_LABEL ||
        s->kind == PX_SYM_PARAM || (s->kind == PX_SYM_GLOBAL && bits < 64))
        return px_error(p, "a name that is not a value here");
    px_lex_next(&p->lex);
    BELL_TRY(skip_element(p, &of));
    return variable_ref(p, &of, bits, out);
}

bell_status
px_take_source(struct px_parse *p, unsigned type, bool wider,
               struct px_ref *out)
{
    const struct px_symbol *s;
    uint32_t number;

    if (p->lex.token != PX_WORD)
        return take_immediate(p, type, out);
    s = px_find_symbol(p, p->lex.word, p->lex.len, &number);
    if (s && s->kind <= PX_SYM_FAMILY)
        return px_take_register(p, type, wider, out);
    if (s)
        return take_address_of(p, s, type, out);
    return special_register(p, type, out);
}

/* ---- memory operands ---- */

static const uint8_t space_kinds[PX_SPACE_COUNT][2] = {
    [PX_GENERIC] = {PX_SYM_GLOBAL, PX_SYM_GLOBAL},
    [PX_GLOBAL] = {PX_SYM_GLOBAL, PX_SYM_GLOBAL},
    [PX_SHARED] = {PX_SYM_SHARED, PX_SYM_DYNAMIC},
    [PX_LOCAL] = {PX_SYM_LOCAL, PX_SYM_LOCAL},
    [PX_PARAM] = {PX_SYM_PARAM, PX_SYM_PARAM},
    [PX_CONST] = {PX_SYM_CONST, PX_SYM_CONST},
};

/* What an address begins with. */
static bell_status
take_base(struct px_parse *p, unsigned space, struct px_ref *out)
{
    const struct px_symbol *s = NULL;
    uint32_t number;
    bool narrow;

    if (p->lex.token == PX_WORD)
        s = px_find_symbol(p, p->lex.word, p->lex.len, &number);
    if (s && s->kind > PX_SYM_FAMILY) {
        if (s->kind != space_kinds[space][0] &&
            s->kind != space_kinds[space][1])
            return px_error(p, "a variable of another space");
        px_lex_next(&p->lex);
        return variable_ref(p, s, 64, out);
    }
    if (space == PX_PARAM)
        return px_error(p, "a parameter is missing");
    narrow = s && px_types[s->type].bits == 32 &&
             (space == PX_SHARED || space == PX_LOCAL || space == PX_CONST);
    if (space == PX_CONST)
        p->kernel->uses_const = true;
    return px_take_source(p, narrow ? PX_U32 : PX_U64, false, out);
}

bell_status
px_take_address(struct px_parse *p, unsigned space, struct px_ref *out,
                int64_t *out_offset)
{
    uint64_t n = 0;
    bool minus;

    BELL_TRY(px_expect(p, '['));
    BELL_TRY(take_base(p, space, out));
    *out_offset = 0;
    if (px_skip(p, '+')) {
        minus = px_skip(p, '-');
        BELL_TRY(px_take_number(p, INT32_MAX, &n));
        *out_offset = minus ? -(int64_t)n : (int64_t)n;
    }
    return px_expect(p, ']');
}

/* ---- vectors ---- */

bell_status
px_add_operand(struct px_parse *p, struct px_insn *in, struct px_ref ref)
{
    struct px_kernel *k = p->kernel;

    assert(in->n_vec < UINT8_MAX);
    if (host_grow((void **)&k->pool, &k->cap_pool, k->n_pool + 1,
                  sizeof(*k->pool)) < 0)
        return px_out_of_memory();
    if (in->n_vec == 0)
        in->vec_at = (uint32_t)k->n_pool;
    k->pool[k->n_pool++] = ref;
    in->n_vec++;
    return BELL_OK;
}

bell_status
px_take_vector(struct px_parse *p, struct px_insn *in, unsigned n,
               unsigned type, bool wider, bool is_source)
{
    bool braces = px_at_punct(p, '{');
    struct px_ref ref = {PX_NO_ROW, 0};
    unsigned bits = 0, i;

    assert(n > 0);
    if (n > 1 || braces)
        BELL_TRY(px_expect(p, '{'));
    for (i = 0; i < n; i++) {
        if (i)
            BELL_TRY(px_expect(p, ','));
        if (is_source)
            BELL_TRY(px_take_source(p, type, wider, &ref));
        else
            BELL_TRY(px_take_register(p, type, wider, &ref));
        if (!is_source && i && ref.bits != bits)
            return px_error(p, "registers of different widths");
        bits = ref.bits;
        BELL_TRY(px_add_operand(p, in, ref));
    }
    return n > 1 || braces ? px_expect(p, '}') : BELL_OK;
}
