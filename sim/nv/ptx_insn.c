/* Parses instructions into their decoded form and checks every operand's
 * type and width. */
#include "sim/nv/ptx_parse.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

struct px_insn *
px_new_insn(struct px_parse *p)
{
    struct px_kernel *k = p->kernel;
    struct px_insn *in;
    int i;

    if (k->n_code >= UINT32_MAX - 1 ||
        host_grow((void **)&k->code, &k->cap_code, k->n_code + 1,
                  sizeof(*k->code)) < 0)
        return NULL;
    in = &k->code[k->n_code++];
    memset(in, 0, sizeof(*in));
    in->line = p->insn_line;
    in->guard = in->dst = in->dst2 = PX_NO_ROW;
    for (i = 0; i < 3; i++)
        in->src[i] = PX_NO_ROW;
    return in;
}

/* ---- constants ---- */

static bell_status
add_const(struct px_parse *p, uint64_t bits, bool dynamic, int32_t *out_row)
{
    struct px_kernel *k = p->kernel;
    const uint64_t *old = dynamic ? NULL : map_get(&k->const_index, bits);

    if (old) {
        *out_row = ~(int32_t)*old;
        return BELL_OK;
    }
    if (k->n_consts >= INT32_MAX - 1 ||
        host_grow((void **)&k->consts, &k->cap_consts, k->n_consts + 1,
                  sizeof(*k->consts)) < 0 ||
        (!dynamic && map_put(&k->const_index, bits, k->n_consts) < 0))
        return px_out_of_memory();
    k->consts[k->n_consts] = (struct px_const){bits, dynamic};
    *out_row = ~(int32_t)k->n_consts++;
    return BELL_OK;
}

/* ---- types ---- */

/* May a register of type `reg` hold an operand of type `type`? `wider`: it
 * may be wider than that (ld, st, cvt). */
static bool
fits(unsigned reg, unsigned type, bool wider)
{
    const struct px_type_info *r = &px_types[reg], *t = &px_types[type];

    if ((r->kind == 'p') != (t->kind == 'p'))
        return false;
    if (r->kind == 'p')
        return true;
    if (r->bits != t->bits)
        return wider && r->bits > t->bits && r->kind != 'f' && t->kind != 'f';
    if (r->kind == 'b' || t->kind == 'b')
        return true;
    return (r->kind == 'f') == (t->kind == 'f');
}

static unsigned
wide_type(unsigned type)
{
    switch (type) {
    case PX_U16:
        return PX_U32;
    case PX_S16:
        return PX_S32;
    case PX_U32:
        return PX_U64;
    default:
        return PX_S64;
    }
}

/* ---- operands ---- */

static bell_status
special_register(struct px_parse *p, int32_t *out_row)
{
    static const char *const vectors[] = {"%tid", "%ntid", "%ctaid", "%nctaid"};
    static const char *const scalars[] = {"%laneid", "%warpid", "%nwarpid"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(scalars); i++) {
        if (strlen(scalars[i]) == p->lex.len &&
            memcmp(scalars[i], p->lex.word, p->lex.len) == 0) {
            *out_row = PX_LANEID + (int32_t)i;
            px_lex_next(&p->lex);
            return BELL_OK;
        }
    }
    for (i = 0; i < ARRAY_LEN(vectors); i++) {
        if (strlen(vectors[i]) != p->lex.len ||
            memcmp(vectors[i], p->lex.word, p->lex.len) != 0)
            continue;
        px_lex_next(&p->lex);
        if (p->lex.token != PX_DOT || p->lex.len != 1 || p->lex.word[0] < 'x' ||
            p->lex.word[0] > 'z')
            return px_error(p, "x, y or z is missing");
        *out_row = PX_TID_X + (int32_t)i * 3 + (p->lex.word[0] - 'x');
        px_lex_next(&p->lex);
        return BELL_OK;
    }
    return px_error(p, "no such register or variable");
}

static bell_status
take_register(struct px_parse *p, unsigned type, bool wider, int32_t *out_row,
              unsigned *out_bits)
{
    const struct px_symbol *s;
    uint32_t number;

    if (p->lex.token != PX_WORD)
        return px_error(p, "a register is missing");
    s = px_find_symbol(p, p->lex.word, p->lex.len, &number);
    if (!s || s->kind > PX_SYM_FAMILY)
        return px_error(p, "no such register");
    if (!fits(s->type, type, wider))
        return px_error(p, "a register of another type or width");
    *out_row = (int32_t)(s->at + number);
    if (out_bits)
        *out_bits = px_types[s->type].bits;
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bell_status
take_immediate(struct px_parse *p, unsigned type, int32_t *out_row)
{
    const struct px_type_info *t = &px_types[type];
    bool minus = px_at_punct(p, '-');
    uint64_t bits;

    if (minus)
        px_lex_next(&p->lex);
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
    return add_const(p, bits, false, out_row);
}

/* The address of a variable, as mov gives it. */
static bell_status
take_address_of(struct px_parse *p, const struct px_symbol *s, unsigned type,
                int32_t *out_row)
{
    if (p->kernel->code[p->kernel->n_code - 1].op != PX_MOV ||
        px_types[type].kind == 'f' || px_types[type].bits < 32 ||
        s->kind == PX_SYM_LABEL || s->kind == PX_SYM_PARAM)
        return px_error(p, "a name that is no value here");
    px_lex_next(&p->lex);
    return add_const(p, s->kind == PX_SYM_DYNAMIC ? 0 : s->at,
                     s->kind == PX_SYM_DYNAMIC, out_row);
}

/* A register, special register, constant or address. */
static bell_status
take_source(struct px_parse *p, unsigned type, bool wider, int32_t *out_row)
{
    const struct px_symbol *s;
    uint32_t number;

    if (p->lex.token != PX_WORD)
        return take_immediate(p, type, out_row);
    s = px_find_symbol(p, p->lex.word, p->lex.len, &number);
    if (s && s->kind <= PX_SYM_FAMILY)
        return take_register(p, type, wider, out_row, NULL);
    if (s)
        return take_address_of(p, s, type, out_row);
    if (px_types[type].bits != 32 || px_types[type].kind == 'f')
        return px_error(p, "no such register of this type and width");
    return special_register(p, out_row);
}

static const uint8_t space_kinds[PX_SPACE_COUNT][2] = {
    [PX_GENERIC] = {PX_SYM_LABEL, PX_SYM_LABEL},
    [PX_GLOBAL] = {PX_SYM_LABEL, PX_SYM_LABEL},
    [PX_SHARED] = {PX_SYM_SHARED, PX_SYM_DYNAMIC},
    [PX_LOCAL] = {PX_SYM_LOCAL, PX_SYM_LOCAL},
    [PX_PARAM] = {PX_SYM_PARAM, PX_SYM_PARAM},
};

/* [reg], [variable], [number], each with +number */
static bell_status
take_address(struct px_parse *p, struct px_insn *in)
{
    unsigned space = in->mod[PX_MOD_SPACE];
    const struct px_symbol *s = NULL;
    uint32_t number;
    uint64_t n = 0;
    bool minus;

    BELL_TRY(px_expect(p, '['));
    if (p->lex.token == PX_WORD)
        s = px_find_symbol(p, p->lex.word, p->lex.len, &number);
    if (s && s->kind > PX_SYM_FAMILY) {
        if (s->kind == PX_SYM_LABEL || (s->kind != space_kinds[space][0] &&
                                        s->kind != space_kinds[space][1]))
            return px_error(p, "a variable of another space");
        BELL_TRY(add_const(p, s->kind == PX_SYM_DYNAMIC ? 0 : s->at,
                           s->kind == PX_SYM_DYNAMIC, &in->src[0]));
        px_lex_next(&p->lex);
    } else if (space == PX_PARAM) {
        return px_error(p, "a parameter is missing");
    } else {
        bool narrow = s && px_types[s->type].bits == 32 &&
                      (space == PX_SHARED || space == PX_LOCAL);
        BELL_TRY(take_source(p, narrow ? PX_U32 : PX_U64, false, &in->src[0]));
    }
    if (px_at_punct(p, '+')) {
        px_lex_next(&p->lex);
        minus = px_at_punct(p, '-');
        if (minus)
            px_lex_next(&p->lex);
        BELL_TRY(px_take_number(p, INT32_MAX, &n));
        in->offset = minus ? -(int64_t)n : (int64_t)n;
    }
    return px_expect(p, ']');
}

/* {a, b, ...} or one register */
static bell_status
take_vector(struct px_parse *p, struct px_insn *in, unsigned n, unsigned type,
            bool is_source)
{
    unsigned bits = 0, i;

    in->n_vec = (uint8_t)n;
    if (n > 1)
        BELL_TRY(px_expect(p, '{'));
    for (i = 0; i < n; i++) {
        if (i)
            BELL_TRY(px_expect(p, ','));
        if (is_source)
            BELL_TRY(take_source(p, type, true, &in->vec[i]));
        else
            BELL_TRY(take_register(p, type, true, &in->vec[i], &bits));
        if (!is_source && i && in->dst_bits != bits)
            return px_error(p, "registers of different widths");
        in->dst_bits = (uint8_t)bits;
    }
    return n > 1 ? px_expect(p, '}') : BELL_OK;
}

/* ---- instructions ---- */

static bell_status
parse_memory(struct px_parse *p, struct px_insn *in)
{
    unsigned n = in->mod[PX_MOD_VEC] ? in->mod[PX_MOD_VEC] : 1;

    if (in->op == PX_ST) {
        if (in->mod[PX_MOD_SPACE] == PX_PARAM)
            return px_error(p, "parameters are not written");
        BELL_TRY(take_address(p, in));
        BELL_TRY(px_expect(p, ','));
        return take_vector(p, in, n, in->type, true);
    }
    BELL_TRY(take_vector(p, in, n, in->type, false));
    BELL_TRY(px_expect(p, ','));
    return take_address(p, in);
}

static bell_status
check_atom(const struct px_parse *p, const struct px_insn *in)
{
    char kind = px_types[in->type].kind;
    unsigned mode = in->mod[PX_MOD_MODE];
    bool ok;

    if (in->mod[PX_MOD_SPACE] > PX_SHARED)
        return px_error(p, "atomics are for global and shared memory");
    if (mode == PX_ATOM_ADD)
        ok = kind != 'b' && in->type != PX_S64;
    else if (mode == PX_ATOM_MIN || mode == PX_ATOM_MAX)
        ok = kind == 's' || kind == 'u';
    else
        ok = kind == 'b';
    return ok ? BELL_OK : px_error(p, "the atomic is not for this type");
}

static bell_status
parse_atom(struct px_parse *p, struct px_insn *in)
{
    BELL_TRY(check_atom(p, in));
    if (in->op == PX_ATOM) {
        BELL_TRY(take_register(p, in->type, false, &in->dst, NULL));
        BELL_TRY(px_expect(p, ','));
    }
    BELL_TRY(take_address(p, in));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(take_source(p, in->type, false, &in->src[1]));
    if (in->mod[PX_MOD_MODE] != PX_ATOM_CAS)
        return BELL_OK;
    BELL_TRY(px_expect(p, ','));
    return take_source(p, in->type, false, &in->src[2]);
}

static bell_status
parse_shfl(struct px_parse *p, struct px_insn *in)
{
    int i;

    BELL_TRY(take_register(p, in->type, false, &in->dst, NULL));
    if (px_at_punct(p, '|')) {
        px_lex_next(&p->lex);
        BELL_TRY(take_register(p, PX_PRED, false, &in->dst2, NULL));
    }
    for (i = 0; i < 3; i++) {
        BELL_TRY(px_expect(p, ','));
        BELL_TRY(take_source(p, PX_U32, false, &in->src[i]));
    }
    BELL_TRY(px_expect(p, ','));
    return take_source(p, PX_U32, false, &in->vec[0]);
}

static bell_status
parse_setp(struct px_parse *p, struct px_insn *in)
{
    BELL_TRY(take_register(p, PX_PRED, false, &in->dst, NULL));
    if (px_at_punct(p, '|')) {
        px_lex_next(&p->lex);
        BELL_TRY(take_register(p, PX_PRED, false, &in->dst2, NULL));
    }
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(take_source(p, in->type, false, &in->src[0]));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(take_source(p, in->type, false, &in->src[1]));
    if (!in->mod[PX_MOD_BOOL])
        return BELL_OK;
    BELL_TRY(px_expect(p, ','));
    if (px_at_punct(p, '!')) {
        in->src2_negated = true;
        px_lex_next(&p->lex);
    }
    return take_source(p, PX_PRED, false, &in->src[2]);
}

/* The halves of a register, in a mov. */
static unsigned
half_type(unsigned type)
{
    unsigned bits = px_types[type].bits;

    return bits == 64 ? PX_B32 : bits == 32 ? PX_B16 : PX_NONE;
}

static bell_status
parse_mov(struct px_parse *p, struct px_insn *in)
{
    unsigned half = half_type(in->type);

    if (px_at_punct(p, '{')) {
        if (!half || px_types[in->type].kind != 'b')
            return px_error(p, "this type has no parts");
        in->op = PX_UNPACK;
        BELL_TRY(take_vector(p, in, 2, half, false));
        BELL_TRY(px_expect(p, ','));
        return take_source(p, in->type, false, &in->src[0]);
    }
    BELL_TRY(take_register(p, in->type, false, &in->dst, NULL));
    BELL_TRY(px_expect(p, ','));
    if (px_at_punct(p, '{')) {
        if (!half || px_types[in->type].kind != 'b')
            return px_error(p, "this type has no parts");
        in->op = PX_PACK;
        return take_vector(p, in, 2, half, true);
    }
    return take_source(p, in->type, false, &in->src[0]);
}

static unsigned
source_type(const struct px_insn *in, unsigned i)
{
    if ((in->op == PX_SHL || in->op == PX_SHR) && i == 1)
        return PX_U32;
    if (in->op == PX_SELP && i == 2)
        return PX_PRED;
    if (in->op == PX_MAD && i == 2 && in->mod[PX_MOD_HALF] == PX_WIDE)
        return wide_type(in->type);
    return in->op == PX_CVT ? in->type2 : in->type;
}

static unsigned
result_type(const struct px_insn *in)
{
    if (in->op == PX_POPC || in->op == PX_CLZ)
        return PX_U32;
    if (in->mod[PX_MOD_HALF] == PX_WIDE)
        return wide_type(in->type);
    return in->type;
}

static bell_status
parse_plain(struct px_parse *p, struct px_insn *in)
{
    bool wider = in->op == PX_CVT;
    unsigned bits, i;

    BELL_TRY(take_register(p, result_type(in), wider, &in->dst, &bits));
    in->dst_bits = (uint8_t)bits;
    for (i = 0; i < in->n_src; i++) {
        BELL_TRY(px_expect(p, ','));
        BELL_TRY(take_source(p, source_type(in, i), wider, &in->src[i]));
    }
    return BELL_OK;
}

static bell_status
parse_bar(struct px_parse *p, struct px_insn *in)
{
    uint64_t n;

    BELL_TRY(px_take_number(p, 15, &n));
    in->offset = (int64_t)n;
    if (!px_at_punct(p, ','))
        return BELL_OK;
    px_lex_next(&p->lex);
    BELL_TRY(px_take_number(p, 1024, &n));
    if (n == 0 || n % 32)
        return px_error(p, "threads at a barrier come in warps");
    in->target = (uint32_t)n;
    return BELL_OK;
}

static bell_status
parse_bra(struct px_parse *p)
{
    struct px_fixup f = {.insn = p->kernel->n_code - 1};

    if (p->lex.token != PX_WORD)
        return px_error(p, "a label is missing");
    f.name = p->lex.word;
    f.len = p->lex.len;
    if (host_grow((void **)&p->fixups, &p->cap_fixups, p->n_fixups + 1,
                  sizeof(*p->fixups)) < 0)
        return px_out_of_memory();
    p->fixups[p->n_fixups++] = f;
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bell_status
parse_operands(struct px_parse *p, struct px_insn *in)
{
    switch (in->op) {
    case PX_LD:
    case PX_ST:
        return parse_memory(p, in);
    case PX_ATOM:
    case PX_RED:
        return parse_atom(p, in);
    case PX_SHFL:
        return parse_shfl(p, in);
    case PX_SETP:
        return parse_setp(p, in);
    case PX_MOV:
        return parse_mov(p, in);
    case PX_BAR:
        return parse_bar(p, in);
    case PX_BRA:
        return parse_bra(p);
    case PX_FENCE:
    case PX_RET:
    case PX_EXIT:
    case PX_TRAP:
        return BELL_OK;
    default:
        return parse_plain(p, in);
    }
}

static bell_status
parse_guard(struct px_parse *p, struct px_insn *in)
{
    px_lex_next(&p->lex);
    if (px_at_punct(p, '!')) {
        in->guard_negated = true;
        px_lex_next(&p->lex);
    }
    return take_register(p, PX_PRED, false, &in->guard, NULL);
}

static bell_status
unknown_insn(const struct px_parse *p, const char *name, size_t len)
{
    return bell_fail(BELL_E_COMPILE, "PTX line %u: unknown instruction %.*s",
                     p->insn_line, len < 40 ? (int)len : 40, name);
}

bell_status
px_parse_insn(struct px_parse *p, const char *name, size_t len)
{
    struct px_insn *in = px_new_insn(p);
    const struct px_op_info *info;
    const char *wrong = NULL;
    int order = -1;

    if (!in)
        return px_out_of_memory();
    if (!name) {
        BELL_TRY(parse_guard(p, in));
        if (p->lex.token != PX_WORD)
            return px_error(p, "an instruction is missing");
        name = p->lex.word;
        len = p->lex.len;
        px_lex_next(&p->lex);
    }
    info = px_find_op(name, len);
    if (!info)
        return unknown_insn(p, name, len);
    in->op = info->op;
    in->n_src = info->n_src;
    for (; p->lex.token == PX_DOT && p->lex.is_glued; px_lex_next(&p->lex)) {
        wrong = px_take_modifier(info, in, &order, p->lex.word, p->lex.len);
        if (wrong)
            return px_error(p, wrong);
    }
    wrong = px_check_modifiers(info, in);
    if (wrong)
        return px_error(p, wrong);
    BELL_TRY(parse_operands(p, in));
    return px_expect(p, ';');
}
