/* What the chip does not wait for by itself, and the words.
 *
 * Results of ALU instructions can be read some cycles later; nothing stops
 * those who read sooner. So cycles are counted, and `nop`s fill what is
 * missing. Results that take longer (SFU, memory) are awaited by flags of the
 * reader: (ss) for the SFU and local memory, (sy) for the rest; (ss) too before
 * a register is overwritten that such an instruction may still have to read.
 * Where branches meet, everything has been waited for.
 *
 * src: docs/hardware/adreno-code.md, "Timing", "Control flow", "Barriers"
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

/* Halves of registers, two to a whole one; then p0. */
#define P0       384u
#define N_PLACES IR3_PLACES

static const struct ir3_latency a6xx = {3, 6, 3}, a7xx = {2, 5, 3};

struct finish {
    struct ir3_emit *e;
    const struct ir3_latency *latency;
    uint64_t *words; /* in the arena */
    uint32_t n, cap;
    struct ir3_instr last; /* the word before, where `folds` */
    bool folds;            /* it can be told to wait, and no label follows */
    int64_t now, drained;  /* cycle; when all of the ALU is there */
    int64_t done[N_PLACES];
    bool was_half[N_PLACES];
    bool ss[N_PLACES], sy[N_PLACES], war[N_PLACES];
    uint32_t *label_at;   /* word of each label */
    uint32_t *fix, n_fix; /* words of branches, and their labels */
};

const struct ir3_latency *
ir3_latency_of(enum ir3_gen gen)
{
    return gen == IR3_GEN_A6XX ? &a6xx : &a7xx;
}

static void
put_word(struct finish *f, const struct ir3_instr *in)
{
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? 2 * f->cap : 256;
        uint64_t *more = arena_alloc(&f->e->arena, cap * sizeof(*more));
        if (!more) {
            f->e->failed = true;
            return;
        }
        if (f->n)
            memcpy(more, f->words, f->n * sizeof(*more));
        f->words = more;
        f->cap = cap;
    }
    f->words[f->n++] = ir3_encode(in);
    f->last = *in;
    f->now++;
}

static void
put_nop(struct finish *f, uint32_t n_cycles, bool ss, bool sy, bool jp)
{
    struct ir3_instr nop = {.op = IR3_NOP};

    assert(n_cycles >= 1 && n_cycles <= 6);
    nop.f[IR3_F_REPEAT] = n_cycles - 1;
    nop.f[IR3_F_SS] = ss;
    nop.f[IR3_F_SY] = sy;
    nop.f[IR3_F_JP] = jp;
    put_word(f, &nop);
    f->now += n_cycles - 1;
    f->folds = false;
}

/* Lets so many cycles pass. */
static void
wait_cycles(struct finish *f, int64_t n)
{
    uint32_t part;

    assert(!f->folds || f->n > 0);
    if (n > 0 && f->folds && f->n) {
        part = n < 3 ? (uint32_t)n : 3;
        f->last.f[IR3_F_SRC1_R] = part & 1;
        f->last.f[IR3_F_SRC2_R] = part >> 1;
        f->words[f->n - 1] = ir3_encode(&f->last);
        f->now += part;
        n -= part;
        f->folds = false;
    }
    for (; n > 0; n -= part) {
        part = n < 6 ? (uint32_t)n : 6;
        put_nop(f, part, false, false, false);
    }
}

static void
drain(struct finish *f)
{
    wait_cycles(f, f->drained - f->now);
}

static void
clear_ss(struct finish *f)
{
    memset(f->ss, 0, sizeof(f->ss));
    memset(f->war, 0, sizeof(f->war));
}

static void
clear_sy(struct finish *f)
{
    memset(f->sy, 0, sizeof(f->sy));
}

/* ---- operands ---- */

static uint32_t
reg_of(const struct ir3_emit *e, struct ir3_opnd o)
{
    assert(o.kind == IR3_REG || o.kind == IR3_FIXED);
    assert(o.kind == IR3_FIXED || (o.v < e->n_vregs && e->vregs[o.v].reg >= 0));
    assert(o.kind == IR3_FIXED || o.comp < e->vregs[o.v].n);
    return o.kind == IR3_FIXED ? o.v : (uint32_t)e->vregs[o.v].reg + o.comp;
}

struct ir3_span
ir3_span_of(const struct ir3_emit *e, struct ir3_opnd o, unsigned n)
{
    struct ir3_span s = {0, 0, false};
    uint32_t reg;

    if (o.kind != IR3_REG && o.kind != IR3_FIXED)
        return s;
    reg = reg_of(e, o);
    if (o.kind == IR3_FIXED) {
        if (reg >= IR3_REG_P0 && reg < IR3_REG_NONE)
            s = (struct ir3_span){P0 + reg - IR3_REG_P0, 1, false};
        return s; /* shared registers are set before it begins */
    }
    assert(o.comp + n <= e->vregs[o.v].n);
    s.is_half = e->vregs[o.v].is_half;
    s.at = s.is_half ? reg : 2 * reg;
    s.n = s.is_half ? n : 2 * n;
    return s;
}

bool
ir3_is_alu(enum ir3_op op)
{
    return op >= IR3_MOV_GPR && op < IR3_RCP;
}

bool
ir3_is_sfu(enum ir3_op op)
{
    return op >= IR3_RCP && op <= IR3_HEXP2;
}

bool
ir3_is_load(enum ir3_op op)
{
    return op == IR3_LDG || op == IR3_LDL || op == IR3_LDP || op == IR3_LDC;
}

bool
ir3_is_store(enum ir3_op op)
{
    return op == IR3_STG || op == IR3_STL || op == IR3_STP;
}

/* Fields of category 2's and 4's operands; category 3's. */
static uint32_t
source16(const struct ir3_emit *e, struct ir3_opnd o)
{
    uint32_t sign = (uint32_t)o.abs << 15 | (uint32_t)o.neg << 14;

    assert(o.kind != IR3_IMM || (!o.neg && !o.abs));
    assert(o.kind != IR3_CONST || o.v < 1u << 11);
    if (o.kind == IR3_IMM)
        return 4u << 11 | (o.v & 0x7ff);
    if (o.kind == IR3_CONST)
        return sign | 2u << 11 | o.v;
    return sign | reg_of(e, o);
}

static uint32_t
source13(const struct ir3_emit *e, struct ir3_opnd o)
{
    assert(o.kind != IR3_IMM && !o.abs);
    return o.kind == IR3_CONST ? 1u << 12 | o.v : reg_of(e, o);
}

static void
encode_memory(const struct ir3_emit *e, const struct ir3_insn *in,
              struct ir3_instr *out)
{
    assert(in->n >= 1 && in->n <= 4);
    if (in->op == IR3_LDC) { /* 16 bytes by their number, and a word of these */
        out->f[IR3_F_DST] = reg_of(e, in->dst);
        out->f[IR3_F_N] = in->n - 1u;
        out->f[IR3_F_SRC1] = (uint32_t)in->off / 4;
        out->f[IR3_F_COMP] = (uint32_t)in->off % 4;
        out->f[IR3_F_IS_IMM] = 1;
        return;
    }
    assert(in->off >= -4096 && in->off < 4096);
    out->f[IR3_F_TYPE] = in->type;
    out->f[IR3_F_SIZE] = in->n;
    out->f[IR3_F_OFF] = (uint32_t)in->off & 0x1fff;
    out->f[IR3_F_SRC1] = reg_of(e, in->src[0]);
    if (ir3_is_load(in->op))
        out->f[IR3_F_DST] = reg_of(e, in->dst);
    else
        out->f[IR3_F_SRC3] = reg_of(e, in->src[1]);
}

static void
encode(const struct ir3_emit *e, const struct ir3_insn *in,
       struct ir3_instr *out)
{
    *out = (struct ir3_instr){.op = in->op};
    if (ir3_is_load(in->op) || ir3_is_store(in->op)) {
        encode_memory(e, in, out);
        return;
    }
    if (in->op == IR3_BR) {
        out->f[IR3_F_INV1] = in->is_not;
        return;
    }
    out->f[IR3_F_DST] = reg_of(e, in->dst);
    switch ((int)in->op) {
    case IR3_MOV_IMMED:
    case IR3_MOV_CONST:
    case IR3_MOV_GPR:
        out->f[IR3_F_DST_TYPE] = in->type;
        out->f[IR3_F_SRC_TYPE] = in->src_type;
        out->f[IR3_F_ROUND] = in->round_even;
        out->f[IR3_F_SRC1] = in->op == IR3_MOV_IMMED   ? (uint32_t)in->off
                             : in->op == IR3_MOV_CONST ? in->src[0].v
                                                       : reg_of(e, in->src[0]);
        return;
    case IR3_SEL_B32:
    case IR3_MADSH_M16:
    case IR3_MAD_F32:
        out->f[IR3_F_SRC1] = source13(e, in->src[0]);
        out->f[IR3_F_SRC2] = reg_of(e, in->src[1]);
        out->f[IR3_F_SRC3] = source13(e, in->src[2]);
        out->f[IR3_F_SRC1_NEG] = in->src[0].neg;
        out->f[IR3_F_SRC2_NEG] = in->src[1].neg;
        out->f[IR3_F_SRC3_NEG] = in->src[2].neg;
        return;
    default:
        out->f[IR3_F_FULL] = 1;
        out->f[IR3_F_COND] = in->cond;
        out->f[IR3_F_SRC1] = source16(e, in->src[0]);
        if (in->src[1].kind != IR3_NONE)
            out->f[IR3_F_SRC2] = source16(e, in->src[1]);
    }
}

/* ---- waiting ---- */

struct needs {
    bool ss, sy;
    int64_t at; /* the first cycle that it may begin in */
};

static void
need_read(const struct finish *f, const struct ir3_insn *in, struct ir3_span s,
          struct needs *needs)
{
    uint32_t i;
    int64_t at;

    assert(s.at + s.n <= N_PLACES);
    for (i = s.at; i < s.at + s.n; i++) {
        int cycles = ir3_is_alu(in->op) ? f->latency->alu : f->latency->other;
        if (ir3_is_alu(in->op) && f->was_half[i] != s.is_half)
            cycles += f->latency->width;
        if (i >= P0)
            cycles = f->latency->other;
        at = f->done[i] + cycles + 1;
        needs->ss |= f->ss[i];
        needs->sy |= f->sy[i];
        if (at > needs->at)
            needs->at = at;
    }
}

static void
need_write(const struct finish *f, struct ir3_span s, struct needs *needs)
{
    uint32_t i;

    for (i = s.at; i < s.at + s.n; i++) {
        needs->ss |= f->ss[i] || f->war[i];
        needs->sy |= f->sy[i];
    }
}

static void
mark(bool *of, struct ir3_span s)
{
    uint32_t i;

    for (i = s.at; i < s.at + s.n; i++)
        of[i] = true;
}

unsigned
ir3_source_width(const struct ir3_insn *in, unsigned i)
{
    if (i == 1 && ir3_is_store(in->op))
        return in->n;
    return i == 0 && (in->op == IR3_LDG || in->op == IR3_STG) ? 2 : 1;
}

static void
note_result(struct finish *f, const struct ir3_insn *in, struct ir3_span dst)
{
    uint32_t i;
    unsigned k;

    for (k = 0; k < ARRAY_LEN(in->src); k++) {
        if (!ir3_is_alu(in->op) && in->op != IR3_BR)
            mark(f->war,
                 ir3_span_of(f->e, in->src[k], ir3_source_width(in, k)));
    }
    if (ir3_is_sfu(in->op) || in->op == IR3_LDL)
        mark(f->ss, dst);
    else if (ir3_is_load(in->op))
        mark(f->sy, dst);
    if (!ir3_is_alu(in->op))
        return;
    for (i = dst.at; i < dst.at + dst.n; i++) {
        f->done[i] = f->now - 1;
        f->was_half[i] = dst.is_half;
    }
    if (f->drained < f->now + f->latency->other)
        f->drained = f->now + f->latency->other;
}

static bool
moves_nothing(const struct ir3_emit *e, const struct ir3_insn *in)
{
    return in->op == IR3_MOV_GPR && in->type == in->src_type &&
           in->dst.kind == IR3_REG && in->src[0].kind == IR3_REG &&
           reg_of(e, in->dst) == reg_of(e, in->src[0]);
}

static void
finish_insn(struct finish *f, const struct ir3_insn *in)
{
    struct ir3_span dst =
        ir3_span_of(f->e, in->dst, ir3_is_load(in->op) ? in->n : 1);
    struct needs needs = {false, false, 0};
    struct ir3_instr out;
    unsigned i;

    if (moves_nothing(f->e, in))
        return;
    for (i = 0; i < ARRAY_LEN(in->src); i++)
        need_read(f, in, ir3_span_of(f->e, in->src[i], ir3_source_width(in, i)),
                  &needs);
    need_write(f, dst, &needs);
    if (in->op == IR3_BR) {
        need_read(f, in, (struct ir3_span){P0, 1, false}, &needs);
        if (f->drained > needs.at)
            needs.at = f->drained;
    }
    encode(f->e, in, &out);
    if (needs.ss && !ir3_op_has(in->op, IR3_F_SS)) {
        put_nop(f, 1, true, false, false);
        clear_ss(f);
        needs.ss = false;
    }
    wait_cycles(f, needs.at - f->now);
    out.f[IR3_F_SS] = needs.ss;
    out.f[IR3_F_SY] = needs.sy;
    if (in->op == IR3_BR) {
        f->fix[2 * f->n_fix] = f->n;
        f->fix[2 * f->n_fix++ + 1] = (uint32_t)in->off;
    }
    put_word(f, &out);
    if (needs.ss)
        clear_ss(f);
    if (needs.sy)
        clear_sy(f);
    note_result(f, in, dst);
    f->folds = ir3_is_alu(in->op) && ir3_op_has(in->op, IR3_F_SRC2_R) &&
               ir3_op_has(in->op, IR3_F_SRC1_R);
}

static void
finish_barrier(struct finish *f)
{
    struct ir3_instr fence = {.op = IR3_FENCE}, bar = {.op = IR3_BAR};

    drain(f);
    fence.f[IR3_F_G] = fence.f[IR3_F_L] = 1;
    fence.f[IR3_F_R] = fence.f[IR3_F_W_FLAG] = 1;
    put_word(f, &fence);
    put_nop(f, 1, true, false, false);
    bar.f[IR3_F_G] = bar.f[IR3_F_SY] = 1;
    put_word(f, &bar);
    put_nop(f, 1, true, true, false);
    clear_ss(f);
    clear_sy(f);
}

static void
finish_label(struct finish *f, uint32_t label)
{
    assert(label < f->e->n_labels);
    drain(f);
    f->label_at[label] = f->n;
    put_nop(f, 1, true, true, true);
    clear_ss(f);
    clear_sy(f);
}

static void
finish_end(struct finish *f)
{
    struct ir3_instr in = {.op = IR3_LOCK};

    drain(f);
    if (f->e->gen != IR3_GEN_A6XX) {
        in.f[IR3_F_SY] = in.f[IR3_F_SS] = in.f[IR3_F_JP] = 1;
        put_word(f, &in);
        in = (struct ir3_instr){.op = IR3_UNLOCK};
        put_word(f, &in);
    }
    in = (struct ir3_instr){.op = IR3_END};
    put_word(f, &in);
    /* the chip reads ahead. src: docs/hardware/adreno-queues.md,
     * "Program state" */
    put_nop(f, 1, false, false, false);
    put_nop(f, 1, false, false, false);
    put_nop(f, 1, false, false, false);
    put_nop(f, 1, false, false, false);
    while (f->n % 16 && !f->e->failed)
        put_nop(f, 1, false, false, false);
    assert(f->n % 16 == 0 || f->e->failed);
}

/* Distances of branches, when all places are known. */
static void
fix_branches(struct finish *f)
{
    struct ir3_instr in;
    uint64_t unused;
    uint32_t i, at;

    for (i = 0; i < f->n_fix && !f->e->failed; i++) {
        at = f->fix[2 * i];
        assert(f->fix[2 * i + 1] < f->e->n_labels && at < f->n);
        (void)ir3_decode(f->e->gen, f->words[at], &in, &unused);
        in.f[IR3_F_IMM] = f->label_at[f->fix[2 * i + 1]] - at;
        f->words[at] = ir3_encode(&in);
    }
}

bell_status
ir3_finish(struct ir3_emit *e, uint64_t **out_words, uint32_t *out_n)
{
    struct finish f = {.e = e, .latency = ir3_latency_of(e->gen)};
    uint32_t i;

    for (i = 0; i < N_PLACES; i++)
        f.done[i] = -64;
    f.label_at = arena_calloc(&e->arena, e->n_labels + 1, sizeof(uint32_t));
    f.fix = arena_alloc(&e->arena, 2 * (e->n_insns + 1) * sizeof(*f.fix));
    if (!f.label_at || !f.fix)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    for (i = 0; i < e->n_insns && !e->failed; i++) {
        const struct ir3_insn *in = &e->insns[i];
        if (in->op == IR3_OP_COUNT)
            finish_label(&f, (uint32_t)in->off);
        else if (in->op == IR3_FENCE)
            finish_barrier(&f);
        else if (in->op != IR3_BAR)
            finish_insn(&f, in);
    }
    finish_end(&f);
    fix_branches(&f);
    if (e->failed)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    *out_words = f.words;
    *out_n = f.n;
    return BELL_OK;
}
