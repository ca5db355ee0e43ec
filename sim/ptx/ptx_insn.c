/* Parses instructions into their decoded form: names, modifiers, operands
 * and their types. Those with an order of their own are in ptx_insn_more.c. */
#include "sim/ptx/ptx_parse.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

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
    in->guard = in->dst.row = in->dst2.row = PX_NO_ROW;
    for (i = 0; i < 4; i++)
        in->src[i].row = PX_NO_ROW;
    return in;
}

/* ---- memory ---- */

static bell_status
parse_memory(struct px_parse *p, struct px_insn *in)
{
    unsigned n = in->mod[PX_MOD_VEC] ? in->mod[PX_MOD_VEC] : 1;
    unsigned space = in->mod[PX_MOD_SPACE], order = in->mod[PX_MOD_ORDER];

    if (space == PX_SHARED && order && order != PX_WEAK)
        p->kernel->has_shared_sync = true;
    p->kernel->has_nc |= in->mod[PX_MOD_CACHE] == 2;
    if (in->op == PX_ST) {
        BELL_TRY(px_take_address(p, space, &in->src[0], &in->offset));
        BELL_TRY(px_expect(p, ','));
        return px_take_vector(p, in, n, in->type, true, true);
    }
    BELL_TRY(px_take_vector(p, in, n, in->type, true, false));
    BELL_TRY(px_expect(p, ','));
    return px_take_address(p, space, &in->src[0], &in->offset);
}

static bell_status
parse_atom_insn(struct px_parse *p, struct px_insn *in)
{
    unsigned space = in->mod[PX_MOD_SPACE];

    if (in->op == PX_ATOM) {
        BELL_TRY(px_take_register(p, in->type, false, &in->dst));
        BELL_TRY(px_expect(p, ','));
    }
    BELL_TRY(px_take_address(p, space, &in->src[0], &in->offset));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_source(p, in->type, false, &in->src[1]));
    if (in->mod[PX_MOD_MODE] != PX_ATOM_CAS)
        return BELL_OK;
    BELL_TRY(px_expect(p, ','));
    return px_take_source(p, in->type, false, &in->src[2]);
}

/* ---- warps ---- */

/* d|p, where the second is a predicate. */
static bell_status
take_two(struct px_parse *p, struct px_insn *in, unsigned type)
{
    BELL_TRY(px_take_register(p, type, false, &in->dst));
    if (!px_skip(p, '|'))
        return BELL_OK;
    return px_take_register(p, PX_PRED, false, &in->dst2);
}

static bell_status
parse_shfl(struct px_parse *p, struct px_insn *in)
{
    int i;

    BELL_TRY(take_two(p, in, in->type));
    for (i = 0; i < 4; i++) { /* the fourth: who takes part */
        BELL_TRY(px_expect(p, ','));
        BELL_TRY(
            px_take_source(p, i == 0 ? in->type : PX_U32, false, &in->src[i]));
    }
    return BELL_OK;
}

/* vote d, {!}p, members; match d{|p}, a, members; redux d, a, members:
 * members are src[3] as in shfl. */
static bell_status
parse_members(struct px_parse *p, struct px_insn *in)
{
    bool vote = in->op == PX_VOTE;

    if (in->op == PX_MATCH) {
        BELL_TRY(take_two(p, in, PX_B32));
        if (in->dst2.row != PX_NO_ROW && in->mod[PX_MOD_MODE] != PX_VOTE_ALL)
            return px_error(p, "only match.all gives a predicate");
    } else {
        BELL_TRY(px_take_register(p, in->type, false, &in->dst));
    }
    BELL_TRY(px_expect(p, ','));
    in->src2_negated = vote && px_skip(p, '!');
    BELL_TRY(px_take_source(p, vote ? PX_PRED : in->type, false, &in->src[0]));
    BELL_TRY(px_expect(p, ','));
    return px_take_source(p, PX_U32, false, &in->src[3]);
}

/* ---- comparisons ---- */

static bell_status
parse_compare(struct px_parse *p, struct px_insn *in)
{
    unsigned type = in->op == PX_SET ? in->type2 : in->type;

    if (in->op == PX_SET)
        BELL_TRY(px_take_register(p, in->type, false, &in->dst));
    else
        BELL_TRY(take_two(p, in, PX_PRED));
    if (px_types[type].kind == 'x' && in->dst2.row == PX_NO_ROW)
        return px_error(p, "a pair is compared to two predicates");
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_source(p, type, false, &in->src[0]));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_source(p, type, false, &in->src[1]));
    in->test = px_find_test(in);
    if (!in->mod[PX_MOD_BOOL])
        return BELL_OK;
    BELL_TRY(px_expect(p, ','));
    in->src2_negated = px_skip(p, '!');
    return px_take_source(p, PX_PRED, false, &in->src[2]);
}

static bell_status
parse_isspacep(struct px_parse *p, struct px_insn *in)
{
    BELL_TRY(px_take_register(p, PX_PRED, false, &in->dst));
    BELL_TRY(px_expect(p, ','));
    return px_take_source(p, PX_U64, false, &in->src[0]);
}

/* ---- mov ---- */

static unsigned
part_type(unsigned type, unsigned n)
{
    unsigned bits = px_types[type].bits;

    if (px_types[type].kind != 'b' || (n != 2 && n != 4))
        return PX_NONE;
    return bits == n * 32 ? PX_B32 : bits == n * 16 ? PX_B16 : PX_NONE;
}

/* {a, b} or {a, b, c, d}; how many is seen from the type of the first. */
static bell_status
take_parts(struct px_parse *p, struct px_insn *in, bool is_source)
{
    const struct px_lex before = p->lex;
    unsigned n = 1, type;

    while (p->lex.token != PX_END && p->lex.token != PX_BAD &&
           !px_at_punct(p, '}')) {
        n += px_at_punct(p, ',');
        px_lex_next(&p->lex);
    }
    p->lex = before;
    type = part_type(in->type, n);
    if (!type)
        return px_error(p, "this type has no such parts");
    return px_take_vector(p, in, n, type, false, is_source);
}

static bell_status
parse_mov(struct px_parse *p, struct px_insn *in)
{
    if (px_at_punct(p, '{')) {
        in->op = PX_UNPACK;
        BELL_TRY(take_parts(p, in, false));
        BELL_TRY(px_expect(p, ','));
        return px_take_source(p, in->type, false, &in->src[0]);
    }
    BELL_TRY(px_take_register(p, in->type, false, &in->dst));
    BELL_TRY(px_expect(p, ','));
    if (px_at_punct(p, '{')) {
        in->op = PX_PACK;
        return take_parts(p, in, true);
    }
    BELL_TRY(px_take_source(p, in->type, false, &in->src[0]));
    in->rows = in->op == PX_MOV ? px_find_rows(in) : NULL;
    return BELL_OK;
}

/* ---- arithmetic ---- */

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

static unsigned
source_type(const struct px_insn *in, unsigned i)
{
    assert(i < 4);
    switch (in->op) {
    case PX_SHL:
    case PX_SHR:
        return i == 1 ? PX_U32 : in->type;
    case PX_SHF:
        return i == 2 ? PX_U32 : in->type;
    case PX_SELP:
        return i == 2 ? PX_PRED : in->type;
    case PX_MAD:
        return i == 2 && in->mod[PX_MOD_HALF] == PX_WIDE ? wide_type(in->type)
                                                         : in->type;
    case PX_BFE:
        return i ? PX_U32 : in->type;
    case PX_BFI:
        return i > 1 ? PX_U32 : in->type;
    case PX_DP4A:
        return i == 1 ? in->type2 : i == 2 ? PX_B32 : in->type;
    case PX_LOP3:
        return i == 3 ? PX_U32 : in->type;
    case PX_CVT:
        return in->type2;
    default:
        return in->type;
    }
}

static unsigned
result_type(const struct px_insn *in)
{
    switch (in->op) {
    case PX_POPC:
    case PX_CLZ:
    case PX_BFIND:
    case PX_DP4A:
        return PX_B32;
    case PX_TESTP:
        return PX_PRED;
    default:
        return in->mod[PX_MOD_HALF] == PX_WIDE ? wide_type(in->type) : in->type;
    }
}

/* To and from the global space nothing changes. */
static bell_status
parse_cvta(struct px_parse *p, struct px_insn *in)
{
    unsigned space = in->mod[PX_MOD_SPACE];

    BELL_TRY(px_take_register(p, in->type, false, &in->dst));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_source(p, in->type, false, &in->src[0]));
    if (space == PX_GLOBAL || space == PX_PARAM) {
        in->op = PX_MOV;
        in->rows = px_find_rows(in);
    }
    return BELL_OK;
}

static bell_status
parse_plain_insn(struct px_parse *p, struct px_insn *in)
{
    bool wider = in->op == PX_CVT;
    unsigned i;

    if (wider && in->type2 == PX_F32 && in->type != PX_TF32 &&
        px_types[in->type].kind == 'x')
        in->n_src = 2;
    BELL_TRY(px_take_register(p, result_type(in), wider, &in->dst));
    for (i = 0; i < in->n_src; i++) {
        BELL_TRY(px_expect(p, ','));
        BELL_TRY(px_take_source(p, source_type(in, i), wider, &in->src[i]));
    }
    if (in->op == PX_LOP3 && in->src[3].row >= 0)
        return px_error(p, "the table of lop3 is a constant");
    in->rows = px_find_rows(in);
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
        return parse_atom_insn(p, in);
    case PX_SHFL:
        return parse_shfl(p, in);
    case PX_VOTE:
    case PX_MATCH:
    case PX_REDUX:
        return parse_members(p, in);
    case PX_SETP:
    case PX_SET:
        return parse_compare(p, in);
    case PX_ISSPACEP:
        return parse_isspacep(p, in);
    case PX_CVTA:
        return parse_cvta(p, in);
    case PX_MOV:
        return parse_mov(p, in);
    case PX_PREFETCH:
        return px_take_address(p, in->mod[PX_MOD_SPACE], &in->src[0],
                               &in->offset);
    case PX_NANOSLEEP:
        return px_take_source(p, PX_U32, false, &in->src[0]);
    case PX_BRA:
        return px_add_fixup(p, p->kernel->n_code - 1, false);
    case PX_FENCE:
    case PX_RET:
    case PX_EXIT:
    case PX_TRAP:
        return BELL_OK;
    default:
        return parse_plain_insn(p, in);
    }
}

static bell_status
parse_guard(struct px_parse *p, struct px_insn *in)
{
    struct px_ref ref;

    px_lex_next(&p->lex);
    in->guard_negated = px_skip(p, '!');
    BELL_TRY(px_take_register(p, PX_PRED, false, &ref));
    in->guard = ref.row;
    return BELL_OK;
}

static bell_status
unknown_insn(const struct px_parse *p, const char *name, size_t len)
{
    return bell_fail(BELL_E_COMPILE, "PTX line %u: unknown instruction %.*s",
                     p->insn_line, len < 40 ? (int)len : 40, name);
}

static bell_status
parse_modifiers(struct px_parse *p, const struct px_op_info *info,
                struct px_insn *in)
{
    const char *wrong;
    int order = -1;

    for (; p->lex.token == PX_DOT && p->lex.is_glued; px_lex_next(&p->lex)) {
        wrong = px_take_modifier(info, in, &order, p->lex.word, p->lex.len);
        if (wrong)
            return px_error(p, wrong);
    }
    wrong = px_check_modifiers(info, in, p->module->sm);
    return wrong ? px_error(p, wrong) : BELL_OK;
}

bell_status
px_parse_insn(struct px_parse *p, const char *name, size_t len)
{
    struct px_insn *in = px_new_insn(p);
    const struct px_op_info *info;

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
    if (px_is_more(info->op) ||
        (info->op == PX_FENCE && (px_at_word(p, PX_DOT, "proxy") ||
                                  px_at_word(p, PX_DOT, "mbarrier_init")))) {
        BELL_TRY(px_parse_more(p, in, len == strlen("barrier")));
    } else {
        BELL_TRY(parse_modifiers(p, info, in));
        BELL_TRY(parse_operands(p, in));
    }
    in->run = (uint8_t)px_run_kind(in);
    return px_expect(p, ';');
}
