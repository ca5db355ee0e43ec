/* Instructions whose words have an order of their own: barriers, branches
 * over a table, matrices, asynchronous copies. src:
 * docs/hardware/nvidia-code.md, "PTX instructions", "Asynchronous copies",
 * "Matrix shapes". */
#include "sim/ptx/ptx_parse.h"

#include <string.h>

#include "base/bits.h"

/* Takes ".word" if it comes next. */
static bool
take_suffix(struct px_parse *p, const char *word)
{
    if (!p->lex.is_glued || !px_at_word(p, PX_DOT, word))
        return false;
    px_lex_next(&p->lex);
    return true;
}

static bell_status
need_word(struct px_parse *p, const char *word)
{
    char text[48];

    if (take_suffix(p, word))
        return BELL_OK;
    memcpy(text, "a word is missing: .", 21);
    strncat(text, word, sizeof(text) - strlen(text) - 1);
    return px_error(p, text);
}

/* ---- barriers ---- */

/* {a{, b}}: number and, as constants, threads. */
static bell_status
take_barrier(struct px_parse *p, struct px_insn *in, bool need_threads)
{
    uint64_t n;

    BELL_TRY(px_take_number(p, 15, &n));
    in->offset = (int64_t)n;
    if (!px_at_punct(p, ',') && !need_threads) {
        p->kernel->has_shared_sync |= n != 0;
        return BELL_OK;
    }
    BELL_TRY(px_expect(p, ','));
    if (p->lex.token != PX_NUMBER && !need_threads)
        return BELL_OK; /* bar.red's predicate: the comma is taken */
    BELL_TRY(px_take_number(p, 1024, &n));
    if (n == 0 || n % 32)
        return px_error(p, "threads at a barrier come in warps");
    in->target = (uint32_t)n;
    p->kernel->has_shared_sync = true;
    return BELL_OK;
}

/* bar.red.popc.u32 d, a{, b}, {!}p; bar.red.and.pred d, ... */
static bell_status
parse_bar_red(struct px_parse *p, struct px_insn *in)
{
    in->op = PX_BAR_RED;
    if (take_suffix(p, "popc"))
        in->mod[PX_MOD_MODE] = PX_ATOM_POPC;
    else if (take_suffix(p, "and"))
        in->mod[PX_MOD_MODE] = PX_ATOM_AND;
    else if (take_suffix(p, "or"))
        in->mod[PX_MOD_MODE] = PX_ATOM_OR;
    else
        return px_error(p, "popc, and or or is needed");
    in->type = in->mod[PX_MOD_MODE] == PX_ATOM_POPC ? PX_U32 : PX_PRED;
    (void)take_suffix(p, "aligned");
    BELL_TRY(need_word(p, px_types[in->type].name));
    BELL_TRY(px_take_register(p, in->type, false, &in->dst));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(take_barrier(p, in, false));
    if (in->target)
        BELL_TRY(px_expect(p, ','));
    in->src2_negated = px_skip(p, '!');
    return px_take_source(p, PX_PRED, false, &in->src[0]);
}

static bell_status
parse_bar(struct px_parse *p, struct px_insn *in, bool barrier)
{
    if (!barrier && take_suffix(p, "warp")) {
        BELL_TRY(need_word(p, "sync"));
        in->op = PX_WARPSYNC;
        return px_take_source(p, PX_U32, false, &in->src[3]);
    }
    (void)take_suffix(p, "cta");
    if (take_suffix(p, "red"))
        return parse_bar_red(p, in);
    if (take_suffix(p, "arrive"))
        in->op = PX_BAR_ARRIVE;
    else if (!take_suffix(p, "sync"))
        return px_error(p, "only sync, arrive, red and warp.sync are known");
    if (barrier)
        (void)take_suffix(p, "aligned");
    return take_barrier(p, in, in->op == PX_BAR_ARRIVE);
}

/* ---- brx.idx ---- */

static bell_status
parse_brx(struct px_parse *p, struct px_insn *in)
{
    const struct px_symbol *s;
    uint32_t number;

    BELL_TRY(need_word(p, "idx"));
    (void)take_suffix(p, "uni");
    BELL_TRY(px_take_source(p, PX_U32, false, &in->src[0]));
    BELL_TRY(px_expect(p, ','));
    s = p->lex.token == PX_WORD
            ? px_find_symbol(p, p->lex.word, p->lex.len, &number)
            : NULL;
    if (!s || s->kind != PX_SYM_TARGETS)
        return px_error(p, "a table of branch targets is missing");
    in->target = s->at;
    in->offset = s->count;
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* ---- matrices ---- */

/* A shape of mma and the types it takes: of A and B, and of C and D; the
 * registers of each operand. src: docs/hardware/nvidia-code.md, "Matrix shapes"
 */
static const struct {
    const char *shape;
    uint8_t ab, ba, cd; /* ba: B's, where it may differ */
    uint8_t reg_ab, reg_cd;
    uint8_t n_a, n_b, n_c;
    uint8_t sm, version;
} shapes[] = {
    {"m16n8k16", PX_F16, 0, PX_F32, PX_B32, PX_F32, 4, 2, 4, 80, 70},
    {"m16n8k16", PX_BF16, 0, PX_F32, PX_B32, PX_F32, 4, 2, 4, 80, 70},
    {"m16n8k8", PX_F16, 0, PX_F32, PX_B32, PX_F32, 2, 1, 4, 80, 65},
    {"m16n8k8", PX_BF16, 0, PX_F32, PX_B32, PX_F32, 2, 1, 4, 80, 70},
    {"m16n8k16", PX_F16, 0, PX_F16, PX_B32, PX_B32, 4, 2, 2, 80, 70},
    {"m16n8k8", PX_F16, 0, PX_F16, PX_B32, PX_B32, 2, 1, 2, 80, 65},
    {"m16n8k8", PX_TF32, 0, PX_F32, PX_B32, PX_F32, 4, 2, 4, 80, 70},
    {"m16n8k4", PX_TF32, 0, PX_F32, PX_B32, PX_F32, 2, 1, 4, 80, 70},
    {"m8n8k4", PX_F64, 0, PX_F64, PX_F64, PX_F64, 1, 1, 2, 80, 70},
    {"m16n8k4", PX_F64, 0, PX_F64, PX_F64, PX_F64, 2, 1, 4, 90, 78},
    {"m16n8k8", PX_F64, 0, PX_F64, PX_F64, PX_F64, 4, 2, 4, 90, 78},
    {"m16n8k16", PX_F64, 0, PX_F64, PX_F64, PX_F64, 8, 4, 4, 90, 78},
    {"m16n8k32", PX_S8, PX_U8, PX_S32, PX_B32, PX_B32, 4, 2, 4, 80, 70},
    {"m16n8k16", PX_S8, PX_U8, PX_S32, PX_B32, PX_B32, 2, 1, 4, 80, 70},
    {"m16n8k32", PX_E4M3, PX_E5M2, PX_F32, PX_B32, PX_F32, 4, 2, 4, 89, 84},
    {"m16n8k32", PX_E4M3, PX_E5M2, PX_F16, PX_B32, PX_B32, 4, 2, 2, 89, 87},
    {"m16n8k16", PX_E4M3, PX_E5M2, PX_F32, PX_B32, PX_F32, 2, 1, 4, 89, 87},
};

static bool
is_either(unsigned type, unsigned a, unsigned b)
{
    return type == a || (b && type == b);
}

/* From halves to F32. */
static px_rows_fn
find_convert(uint8_t type)
{
    struct px_insn in = {.op = PX_CVT, .type = PX_F32, .type2 = type};

    in.dst.bits = in.src[0].bits = 32;
    return type == PX_F16 || type == PX_BF16 ? px_find_rows(&in) : NULL;
}

/* D, A, B, C. */
static bell_status
take_matrices(struct px_parse *p, struct px_insn *in, size_t s)
{
    unsigned ab = shapes[s].reg_ab, cd = shapes[s].reg_cd;

    BELL_TRY(px_take_vector(p, in, shapes[s].n_c, cd, false, false));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_vector(p, in, shapes[s].n_a, ab, false, true));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_vector(p, in, shapes[s].n_b, ab, false, true));
    BELL_TRY(px_expect(p, ','));
    return px_take_vector(p, in, shapes[s].n_c, cd, false, true);
}

/* mma.sync.aligned.SHAPE.row.col{.satfinite}.D.A.B.C. The decoded form keeps
 * A's type, B's in type2, C's in mod TYPE, K in offset, and the numbers of
 * registers in modes. */
static bell_status
parse_mma(struct px_parse *p, struct px_insn *in)
{
    uint8_t d, a, b, c;
    const char *shape;
    size_t len, s;
    bool sat;

    BELL_TRY(need_word(p, "sync"));
    BELL_TRY(need_word(p, "aligned"));
    if (p->lex.token != PX_DOT)
        return px_error(p, "the shape is missing");
    shape = p->lex.word;
    len = p->lex.len;
    px_lex_next(&p->lex);
    BELL_TRY(need_word(p, "row"));
    BELL_TRY(need_word(p, "col"));
    sat = take_suffix(p, "satfinite");
    BELL_TRY(px_take_type(p, &d));
    BELL_TRY(px_take_type(p, &a));
    BELL_TRY(px_take_type(p, &b));
    BELL_TRY(px_take_type(p, &c));
    for (s = 0; s < ARRAY_LEN(shapes); s++) {
        if (px_is_word(shapes[s].shape, shape, len) && d == c &&
            c == shapes[s].cd && is_either(a, shapes[s].ab, shapes[s].ba) &&
            is_either(b, shapes[s].ab, shapes[s].ba))
            break;
    }
    if (s == ARRAY_LEN(shapes))
        return px_error(p, "no such matrix instruction is known");
    if (p->module->sm < shapes[s].sm || p->version < shapes[s].version)
        return px_error(p, "the matrix instruction needs a newer target or "
                           "version");
    if (sat && d != PX_S32)
        return px_error(p, "only integers saturate here");
    in->type = a;
    in->type2 = b;
    in->mod[PX_MOD_TYPE] = c;
    in->mod[PX_MOD_SAT] = sat;
    in->mod[PX_MOD_MODE] = shapes[s].n_a;
    in->mod[PX_MOD_WRAP] = shapes[s].n_b;
    in->mod[PX_MOD_VEC] = shapes[s].n_c;
    in->rows = find_convert(a);
    return take_matrices(p, in, s);
}

/* ldmatrix.sync.aligned.m8n8.xN{.trans}{.shared}.b16 {d}, [a]; stmatrix with
 * its operands the other way. */
static bell_status
parse_ldmatrix(struct px_parse *p, struct px_insn *in)
{
    bool store = in->op == PX_STMATRIX;
    unsigned n;

    if (store && p->module->sm < 90)
        return px_error(p, "stmatrix comes with sm_90");
    BELL_TRY(need_word(p, "sync"));
    BELL_TRY(need_word(p, "aligned"));
    BELL_TRY(need_word(p, "m8n8"));
    n = take_suffix(p, "x1") ? 1 : take_suffix(p, "x2") ? 2 : 4;
    if (n == 4)
        BELL_TRY(need_word(p, "x4"));
    in->mod[PX_MOD_WRAP] = take_suffix(p, "trans");
    if (take_suffix(p, "shared") || take_suffix(p, "shared::cta"))
        in->mod[PX_MOD_SPACE] = PX_SHARED;
    BELL_TRY(need_word(p, "b16"));
    in->type = PX_B16;
    if (store) {
        BELL_TRY(px_take_address(p, in->mod[PX_MOD_SPACE], &in->src[0],
                                 &in->offset));
        BELL_TRY(px_expect(p, ','));
        return px_take_vector(p, in, n, PX_B32, false, true);
    }
    BELL_TRY(px_take_vector(p, in, n, PX_B32, false, false));
    BELL_TRY(px_expect(p, ','));
    return px_take_address(p, in->mod[PX_MOD_SPACE], &in->src[0], &in->offset);
}

/* ---- cp.async ---- */

/* [shared], [global], size{, bytes read}. src[0] and offset: to; src[1] and,
 * as a constant, src[3]: from; src[2]: bytes read; target: size. */
static bell_status
take_copy(struct px_parse *p, struct px_insn *in, bool only_16)
{
    int64_t from_offset;
    uint64_t n;

    BELL_TRY(px_take_address(p, PX_SHARED, &in->src[0], &in->offset));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_address(p, PX_GLOBAL, &in->src[1], &from_offset));
    BELL_TRY(
        px_const_ref(p, (uint64_t)from_offset, 64, PX_BASE_NONE, &in->src[3]));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_number(p, 16, &n));
    if (n != 16 && (only_16 || (n != 4 && n != 8)))
        return px_error(p, "copies have 4, 8 or 16 bytes, past L1 16");
    in->target = (uint32_t)n;
    if (!px_skip(p, ','))
        return BELL_OK;
    return px_take_source(p, PX_U32, false, &in->src[2]);
}

/* .Nd.shared::cluster.global{.tile}.mbarrier::complete_tx::bytes [d], [map,
 * {x, ...}], [mbarrier]. src[0] and offset: to; src[1] and, as a constant,
 * src[3]: the mbarrier; the vector: the map, and where in it; target: N. */
static bell_status
parse_box(struct px_parse *p, struct px_insn *in)
{
    char dims[3] = "1d";
    struct px_ref ref;
    int64_t offset;
    uint32_t i;

    p->kernel->has_bulk = true;
    in->op = PX_BOX;
    BELL_TRY(need_word(p, "tensor"));
    while (dims[0] < '5' && !take_suffix(p, dims))
        dims[0]++;
    if (dims[0] == '5')
        BELL_TRY(need_word(p, dims));
    in->target = (uint32_t)(dims[0] - '0');
    BELL_TRY(need_word(p, "shared::cluster"));
    BELL_TRY(need_word(p, "global"));
    (void)take_suffix(p, "tile");
    BELL_TRY(need_word(p, "mbarrier::complete_tx::bytes"));
    BELL_TRY(px_take_address(p, PX_SHARED, &in->src[0], &in->offset));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_expect(p, '['));
    BELL_TRY(px_take_source(p, PX_U64, false, &ref));
    BELL_TRY(px_add_operand(p, in, ref));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_expect(p, '{'));
    for (i = 0; i < in->target; i++) {
        if (i)
            BELL_TRY(px_expect(p, ','));
        BELL_TRY(px_take_source(p, PX_S32, false, &ref));
        BELL_TRY(px_add_operand(p, in, ref));
    }
    BELL_TRY(px_expect(p, '}'));
    BELL_TRY(px_expect(p, ']'));
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_address(p, PX_SHARED, &in->src[1], &offset));
    BELL_TRY(px_const_ref(p, (uint64_t)offset, 64, PX_BASE_NONE, &in->src[3]));
    return p->module->sm >= 90 && p->version >= 80
               ? BELL_OK
               : px_error(p, "it needs a newer target or version");
}

/* .init [a], n; .expect_tx.relaxed.cta [a], n; .arrive _, [a];
 * .try_wait.parity p, [a], parity: each with {.shared{::cta}}.b64. src[0] and
 * offset: the address; src[1]: the number. */
static bell_status
parse_mbarrier(struct px_parse *p, struct px_insn *in)
{
    p->kernel->has_bulk = true;
    in->op = take_suffix(p, "init")        ? PX_MBAR_INIT
             : take_suffix(p, "expect_tx") ? PX_MBAR_EXPECT
             : take_suffix(p, "arrive")    ? PX_MBAR_ARRIVE
                                           : PX_MBAR_WAIT;
    if (in->op == PX_MBAR_EXPECT) {
        BELL_TRY(need_word(p, "relaxed"));
        BELL_TRY(need_word(p, "cta"));
    } else if (in->op == PX_MBAR_WAIT) {
        BELL_TRY(need_word(p, "try_wait"));
        BELL_TRY(need_word(p, "parity"));
    }
    if (!take_suffix(p, "shared"))
        BELL_TRY(need_word(p, "shared::cta"));
    BELL_TRY(need_word(p, "b64"));
    if (in->op == PX_MBAR_WAIT) {
        BELL_TRY(px_take_register(p, PX_PRED, false, &in->dst));
        BELL_TRY(px_expect(p, ','));
    } else if (in->op == PX_MBAR_ARRIVE) {
        if (!px_at_word(p, PX_WORD, "_"))
            return px_error(p, "only arrivals without a state are known");
        px_lex_next(&p->lex);
        BELL_TRY(px_expect(p, ','));
    }
    BELL_TRY(px_take_address(p, PX_SHARED, &in->src[0], &in->offset));
    if (in->op != PX_MBAR_ARRIVE) {
        BELL_TRY(px_expect(p, ','));
        BELL_TRY(px_take_source(p, PX_U32, false, &in->src[1]));
    }
    return p->module->sm >= 90 && p->version >= 80
               ? BELL_OK
               : px_error(p, "it needs a newer target or version");
}

static bell_status
parse_cp(struct px_parse *p, struct px_insn *in)
{
    uint64_t n = 0;
    bool cg;

    BELL_TRY(need_word(p, "async"));
    if (take_suffix(p, "bulk"))
        return parse_box(p, in);
    if (take_suffix(p, "commit_group")) {
        in->op = PX_COMMIT;
        return BELL_OK;
    }
    if (take_suffix(p, "wait_all")) {
        in->op = PX_AWAIT;
        in->offset = -1;
        return BELL_OK;
    }
    if (take_suffix(p, "wait_group")) {
        in->op = PX_AWAIT;
        BELL_TRY(px_take_number(p, 1u << 20, &n));
        in->offset = (int64_t)n;
        return BELL_OK;
    }
    cg = take_suffix(p, "cg");
    if (!cg)
        BELL_TRY(need_word(p, "ca"));
    if (!take_suffix(p, "shared"))
        BELL_TRY(need_word(p, "shared::cta"));
    BELL_TRY(need_word(p, "global"));
    if (!take_suffix(p, "L2::64B") && !take_suffix(p, "L2::128B"))
        (void)take_suffix(p, "L2::256B");
    in->type = PX_B8;
    return take_copy(p, in, cg);
}

/* ---- wgmma ---- */

/* fence.proxy.async{.shared::cta}, fence.proxy.alias,
 * fence.mbarrier_init.release.cluster */
static bell_status
parse_proxy_fence(struct px_parse *p, struct px_insn *in)
{
    if (take_suffix(p, "mbarrier_init")) {
        in->op = PX_MBAR_FENCE;
        BELL_TRY(need_word(p, "release"));
        BELL_TRY(need_word(p, "cluster"));
    } else {
        in->op = PX_PROXY_FENCE;
        BELL_TRY(need_word(p, "proxy"));
        if (!take_suffix(p, "alias")) {
            BELL_TRY(need_word(p, "async"));
            (void)take_suffix(p, "shared::cta");
        }
    }
    return p->module->sm >= 90 && p->version >= 80
               ? BELL_OK
               : px_error(p, "it needs a newer target or version");
}

/* The types of A and B, and steps; those of B are the same or mix. */
static const struct {
    uint8_t a, b;
    const char *k;
} wgmma_types[] = {
    {PX_F16, PX_F16, "k16"},   {PX_BF16, PX_BF16, "k16"},
    {PX_TF32, PX_TF32, "k8"},  {PX_E4M3, PX_E4M3, "k32"},
    {PX_E4M3, PX_E5M2, "k32"}, {PX_E5M2, PX_E4M3, "k32"},
    {PX_E5M2, PX_E5M2, "k32"},
};

/* 1 or -1, or with `flag` 0 or 1. */
static bell_status
take_flag(struct px_parse *p, bool flag, uint64_t *out)
{
    BELL_TRY(px_expect(p, ','));
    BELL_TRY(px_take_number(p, 1, out));
    return flag || *out ? BELL_OK : px_error(p, "only a scale of 1 is known");
}

/* {d}, a-desc, b-desc, scale-d, 1, 1{, trans-a, trans-b}; or {a} in place of
 * a-desc, without trans-a. src[0..2], or src[1..2] and, behind {d}, {a};
 * target: columns; offset: bits of the trans, and PX_WGMMA_HELD. */
static bell_status
take_wgmma(struct px_parse *p, struct px_insn *in)
{
    uint64_t flag;
    unsigned i;

    BELL_TRY(px_take_vector(p, in, in->target / 2, PX_F32, false, false));
    for (i = 0; i < 3; i++) {
        BELL_TRY(px_expect(p, ','));
        if (i == 0 && px_at_punct(p, '{')) {
            BELL_TRY(px_take_vector(p, in, 4, PX_B32, false, true));
            in->offset |= PX_WGMMA_HELD;
            continue;
        }
        BELL_TRY(
            px_take_source(p, i < 2 ? PX_B64 : PX_PRED, false, &in->src[i]));
    }
    for (i = 0; i < 2; i++)
        BELL_TRY(take_flag(p, false, &flag));
    for (i = in->offset & PX_WGMMA_HELD ? 1 : 0;
         i < 2 && (in->type == PX_F16 || in->type == PX_BF16); i++) {
        BELL_TRY(take_flag(p, true, &flag));
        in->offset |= (int64_t)flag << i;
    }
    return BELL_OK;
}

static bell_status
parse_mma_async(struct px_parse *p, struct px_insn *in)
{
    char shape[16];
    uint8_t d;
    unsigned n;
    size_t i, len;

    BELL_TRY(need_word(p, "sync"));
    BELL_TRY(need_word(p, "aligned"));
    len = p->lex.len < sizeof(shape) ? p->lex.len : sizeof(shape) - 1;
    memcpy(shape, p->lex.word, len);
    shape[len] = 0;
    if (p->lex.token != PX_DOT || memcmp(shape, "m64n", 4) != 0)
        return px_error(p, "the shape is missing");
    for (n = 0, i = 4; i < len && shape[i] >= '0' && shape[i] <= '9'; i++)
        n = n * 10 + (unsigned)(shape[i] - '0');
    px_lex_next(&p->lex);
    BELL_TRY(px_take_type(p, &d));
    BELL_TRY(px_take_type(p, &in->type));
    BELL_TRY(px_take_type(p, &in->type2));
    len = i;
    for (i = 0; i < ARRAY_LEN(wgmma_types); i++) {
        if (in->type == wgmma_types[i].a && in->type2 == wgmma_types[i].b &&
            strcmp(shape + len, wgmma_types[i].k) == 0)
            break;
    }
    if (i == ARRAY_LEN(wgmma_types) || d != PX_F32 || n < 8 || n > 256 || n % 8)
        return px_error(p, "no such matrix instruction is known");
    in->target = n;
    return take_wgmma(p, in);
}

static bell_status
parse_wgmma(struct px_parse *p, struct px_insn *in)
{
    uint64_t n = 0;

    if (p->module->sm != 90 || !p->module->is_arch_specific)
        return px_error(p, "wgmma is sm_90a's");
    p->kernel->has_wgmma = true;
    if (take_suffix(p, "mma_async"))
        return parse_mma_async(p, in);
    if (take_suffix(p, "fence"))
        in->op = PX_WGMMA_FENCE;
    else if (take_suffix(p, "commit_group"))
        in->op = PX_WGMMA_COMMIT;
    else if (take_suffix(p, "wait_group"))
        in->op = PX_WGMMA_AWAIT;
    else
        return px_error(p, "mma_async, fence, commit_group or wait_group is "
                           "needed");
    BELL_TRY(need_word(p, "sync"));
    BELL_TRY(need_word(p, "aligned"));
    if (in->op == PX_WGMMA_AWAIT)
        BELL_TRY(px_take_number(p, 7, &n));
    in->offset = (int64_t)n;
    return BELL_OK;
}

/* ---- multimem ---- */

#define T(x)        (1u << (x))
#define TEAM_HALVES (T(PX_F16) | T(PX_BF16) | T(PX_F16X2) | T(PX_BF16X2))

/* Which types an operation takes. src: what ptxas 13.0.88 takes; PTX ISA 9.0,
 * "multimem" */
static const struct {
    const char *word;
    uint8_t mode;
    uint32_t types;
} team_ops[] = {
    {"add", PX_ATOM_ADD,
     T(PX_U32) | T(PX_S32) | T(PX_U64) | T(PX_F32) | T(PX_F64) | TEAM_HALVES},
    {"min", PX_ATOM_MIN,
     T(PX_U32) | T(PX_S32) | T(PX_U64) | T(PX_S64) | TEAM_HALVES},
    {"max", PX_ATOM_MAX,
     T(PX_U32) | T(PX_S32) | T(PX_U64) | T(PX_S64) | TEAM_HALVES},
    {"and", PX_ATOM_AND, T(PX_B32) | T(PX_B64)},
    {"or", PX_ATOM_OR, T(PX_B32) | T(PX_B64)},
    {"xor", PX_ATOM_XOR, T(PX_B32) | T(PX_B64)},
};

/* {.weak | .relaxed, .acquire or .release with a scope}{.global} */
static bell_status
take_team_order(struct px_parse *p, struct px_insn *in)
{
    const char *strong =
        in->mod[PX_MOD_BOOL] == PX_TEAM_LOAD ? "acquire" : "release";
    bool has_scope;

    in->mod[PX_MOD_ORDER] = PX_WEAK;
    if (!take_suffix(p, "weak")) {
        in->mod[PX_MOD_ORDER] =
            take_suffix(p, strong)
                ? (in->mod[PX_MOD_BOOL] == PX_TEAM_LOAD ? PX_ACQUIRE
                                                        : PX_RELEASE)
                : PX_RELAXED;
        (void)take_suffix(p, "relaxed");
        has_scope = take_suffix(p, "cta") || take_suffix(p, "cluster") ||
                    take_suffix(p, "gpu") || take_suffix(p, "sys");
        (void)has_scope;
    }
    if (take_suffix(p, "global"))
        in->mod[PX_MOD_SPACE] = PX_GLOBAL;
    return BELL_OK;
}

static bell_status
take_team_type(struct px_parse *p, struct px_insn *in, uint32_t types,
               bool wide, unsigned *out_n)
{
    bool is_float;
    unsigned bits;

    *out_n = take_suffix(p, "v2") ? 2 : take_suffix(p, "v4") ? 4 : 1;
    BELL_TRY(px_take_type(p, &in->type));
    is_float = px_types[in->type].kind == 'f' || px_types[in->type].kind == 'x';
    bits = px_types[in->type].bits * *out_n;
    if (!(types >> in->type & 1) || (*out_n > 1 && !is_float) ||
        (*out_n > 1 && in->type == PX_F64) ||
        (bits != 32 && bits != 64 && bits != 128) ||
        (wide && !(TEAM_HALVES >> in->type & 1)))
        return px_error(p, "multimem has no such operation of that type");
    return BELL_OK;
}

/* multimem.ld_reduce d, [a]; multimem.st and .red [a], b. */
static bell_status
parse_multimem(struct px_parse *p, struct px_insn *in)
{
    bool loads = take_suffix(p, "ld_reduce"), wide = false;
    uint32_t types = ~0u;
    unsigned n;
    size_t i;

    if (p->module->sm < 90 || p->version < 81)
        return px_error(p, "multimem comes with sm_90 and version 8.1");
    in->mod[PX_MOD_BOOL] = loads                   ? PX_TEAM_LOAD
                           : take_suffix(p, "red") ? PX_TEAM_RED
                                                   : PX_TEAM_STORE;
    if (in->mod[PX_MOD_BOOL] == PX_TEAM_STORE)
        BELL_TRY(need_word(p, "st"));
    BELL_TRY(take_team_order(p, in));
    for (i = 0; i < ARRAY_LEN(team_ops); i++) {
        if (in->mod[PX_MOD_BOOL] == PX_TEAM_STORE ||
            !take_suffix(p, team_ops[i].word))
            continue;
        in->mod[PX_MOD_MODE] = team_ops[i].mode;
        types = team_ops[i].types;
        break;
    }
    if (in->mod[PX_MOD_BOOL] != PX_TEAM_STORE && !in->mod[PX_MOD_MODE])
        return px_error(p, "multimem wants an operation");
    wide = loads && in->mod[PX_MOD_MODE] == PX_ATOM_ADD &&
           take_suffix(p, "acc::f32");
    if (wide && p->version < 82)
        return px_error(p, ".acc::f32 comes with version 8.2");
    in->mod[PX_MOD_HALF] = wide;
    BELL_TRY(take_team_type(p, in, types, wide, &n));
    if (loads) {
        BELL_TRY(px_take_vector(p, in, n, in->type, false, false));
        BELL_TRY(px_expect(p, ','));
        return px_take_address(p, in->mod[PX_MOD_SPACE], &in->src[0],
                               &in->offset);
    }
    BELL_TRY(
        px_take_address(p, in->mod[PX_MOD_SPACE], &in->src[0], &in->offset));
    BELL_TRY(px_expect(p, ','));
    return px_take_vector(p, in, n, in->type, false, true);
}

bool
px_is_more(unsigned op)
{
    return op == PX_BAR || op == PX_BRX || op == PX_MMA || op == PX_LDMATRIX ||
           op == PX_STMATRIX || op == PX_COPY || op == PX_WGMMA ||
           op == PX_MBAR || op == PX_TEAM;
}

bell_status
px_parse_more(struct px_parse *p, struct px_insn *in, bool barrier)
{
    switch (in->op) {
    case PX_BAR:
        return parse_bar(p, in, barrier);
    case PX_BRX:
        return parse_brx(p, in);
    case PX_MMA:
        return parse_mma(p, in);
    case PX_COPY:
        return parse_cp(p, in);
    case PX_FENCE:
        return parse_proxy_fence(p, in);
    case PX_WGMMA:
        return parse_wgmma(p, in);
    case PX_MBAR:
        return parse_mbarrier(p, in);
    case PX_TEAM:
        return parse_multimem(p, in);
    default:
        return parse_ldmatrix(p, in);
    }
}
