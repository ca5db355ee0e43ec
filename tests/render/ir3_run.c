/* An interpreter of Adreno's shaders, for what render/ir3 makes.
 *
 * 64 threads are a wave, whose instructions are issued one a cycle. What the
 * chip does not wait for is an error here: each result has a cycle from which it
 * can be read, or a flag that must be waited for. Approximations are off by a
 * unit in the last place, on purpose.
 *
 * src: hw/qcom/IR3.md 1 to 7
 */
#include "ir3_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAVE        64u
#define MAX_THREADS 1024u
#define N_HALVES    384u
#define P0          N_HALVES
#define N_PLACES    (N_HALVES + 4)
#define MAX_STEPS   200000000u

struct thread {
    uint32_t r[192];
    bool is_set[N_PLACES]; /* by halves */
    bool p[4];
    uint32_t pc, tid[3];
    bool parked, ended, at_barrier;
    uint8_t *private_;
};

/* What a wave has under way. */
struct wave {
    int64_t now, done[N_PLACES];
    bool was_half[N_PLACES], ss[N_PLACES], sy[N_PLACES], war[N_PLACES];
    bool after_barrier;
};

/* Registers that an instruction reads and writes. */
struct access {
    uint32_t at, n;
    bool is_half, is_write, is_late; /* late: read after issue */
};

/* An instruction, and what is asked of it again and again. */
struct decoded {
    struct ir3_instr in;
    bool src_half, dst_half, moves, has_src2, has_src3, folds;
    unsigned n_list;
    struct access list[8];
};

struct group {
    struct ir3_run *run;
    struct decoded *code;
    uint32_t n, n_threads, id[3];
    struct thread *threads;
    struct wave waves[MAX_THREADS / WAVE];
    uint8_t shared[32768];
    uint64_t steps;
    bool failed;
};

static bool fail(struct group *g, uint32_t pc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool
fail(struct group *g, uint32_t pc, const char *fmt, ...)
{
    char text[IR3_TEXT_MAX] = "";
    va_list args;
    size_t n;

    if (g->failed)
        return false;
    g->failed = true;
    if (pc < g->n)
        ir3_print(&g->code[pc].in, text);
    n = (size_t)snprintf(g->run->error, sizeof(g->run->error), "%u: %s: ", pc,
                         text);
    va_start(args, fmt);
    vsnprintf(g->run->error + n, sizeof(g->run->error) - n, fmt, args);
    va_end(args);
    return false;
}

/* ---- what is waited for ---- */

static bool
is_alu(enum ir3_op op)
{
    return op >= IR3_MOV_GPR && op < IR3_RCP;
}

static bool
is_sfu(enum ir3_op op)
{
    return op >= IR3_RCP && op <= IR3_HEXP2;
}

static void
add(struct access *list, unsigned *n, uint32_t reg, unsigned count,
    bool is_half, bool is_write, bool is_late)
{
    if (reg >= IR3_REG_P0 && reg < IR3_REG_NONE)
        list[(*n)++] =
            (struct access){P0 + reg - IR3_REG_P0, 1, false, is_write, false};
    else if (reg < IR3_REG_SHARED)
        list[(*n)++] = (struct access){is_half ? reg : 2 * reg,
                                       is_half ? count : 2 * count, is_half,
                                       is_write, is_late};
}

static void
add16(struct access *list, unsigned *n, uint32_t v, bool is_half, bool is_late)
{
    if ((v >> 11 & 7) == 0)
        add(list, n, v & 0xff, 1, is_half, false, is_late);
}

static void
add13(struct access *list, unsigned *n, uint32_t v, bool is_half)
{
    if ((v >> 11 & 3) == 0)
        add(list, n, v & 0xff, 1, is_half, false, false);
}

/* Registers that an instruction reads and writes. */
static unsigned
accesses(const struct ir3_instr *in, struct access *list)
{
    const uint32_t *f = in->f;
    bool src_half = ir3_src_is_half(in), dst_half = ir3_dst_is_half(in);
    unsigned n = 0;

    switch ((int)in->op) {
    case IR3_MOV_GPR:
        add(list, &n, f[IR3_F_SRC1], 1, src_half, false, false);
        break;
    case IR3_BR:
        add(list, &n, IR3_REG_P0 + f[IR3_F_COMP1], 1, false, false, false);
        return n;
    case IR3_LDG:
    case IR3_LDL:
    case IR3_LDP:
        add(list, &n, f[IR3_F_SRC1], in->op == IR3_LDG ? 2 : 1, false, false,
            true);
        add(list, &n, f[IR3_F_DST], f[IR3_F_SIZE], dst_half, true, false);
        return n;
    case IR3_STG:
    case IR3_STL:
    case IR3_STP:
        add(list, &n, f[IR3_F_SRC1], in->op == IR3_STG ? 2 : 1, false, false,
            true);
        add(list, &n, f[IR3_F_SRC3], f[IR3_F_SIZE], src_half, false, true);
        return n;
    }
    if (ir3_op_has(in->op, IR3_F_SRC3)) {
        add13(list, &n, f[IR3_F_SRC1], src_half);
        add(list, &n, f[IR3_F_SRC2], 1, src_half, false, false);
        add13(list, &n, f[IR3_F_SRC3], src_half);
    } else if (ir3_op_has(in->op, IR3_F_FULL)) {
        add16(list, &n, f[IR3_F_SRC1], src_half, is_sfu(in->op));
        if (ir3_op_has(in->op, IR3_F_SRC2))
            add16(list, &n, f[IR3_F_SRC2], src_half, false);
    }
    if (is_alu(in->op) || is_sfu(in->op))
        add(list, &n, f[IR3_F_DST], 1, dst_half, true, false);
    return n;
}

static bool
check_read(struct group *g, struct wave *w, uint32_t pc, struct access a)
{
    bool is_a6xx = g->run->object->gen == IR3_GEN_A6XX;
    bool alu = is_alu(g->code[pc].in.op);
    uint32_t i;
    int64_t least;

    for (i = a.at; i < a.at + a.n; i++) {
        least = alu && i < P0 ? (is_a6xx ? 3 : 2) : (is_a6xx ? 6 : 5);
        if (alu && i < P0 && w->was_half[i] != a.is_half)
            least += 3;
        if (w->ss[i] || w->sy[i])
            return fail(g, pc, "half %u needs (%s)", i, w->ss[i] ? "ss" : "sy");
        if (w->now - w->done[i] - 1 < least)
            return fail(g, pc, "half %u is read %lld cycles after it is set", i,
                        (long long)(w->now - w->done[i] - 1));
    }
    return true;
}

/* Before an instruction is issued, and what it leaves under way. */
static bool
issue(struct group *g, struct wave *w, uint32_t pc)
{
    const struct decoded *d = &g->code[pc];
    const struct ir3_instr *in = &d->in;
    const struct access *list = d->list;
    unsigned n = d->n_list, i;
    uint32_t k;

    if (in->f[IR3_F_SS]) {
        memset(w->ss, 0, sizeof(w->ss));
        memset(w->war, 0, sizeof(w->war));
    }
    if (in->f[IR3_F_SY])
        memset(w->sy, 0, sizeof(w->sy));
    if (w->after_barrier && !(in->f[IR3_F_SS] && in->f[IR3_F_SY]))
        return fail(g, pc, "behind a barrier without (ss)(sy)");
    w->after_barrier = in->op == IR3_BAR;
    for (i = 0; i < n; i++) {
        if (!list[i].is_write && !check_read(g, w, pc, list[i]))
            return false;
        for (k = list[i].at; list[i].is_write && k < list[i].at + list[i].n;
             k++) {
            if (w->ss[k] || w->sy[k] || w->war[k])
                return fail(g, pc, "half %u is overwritten", k);
        }
    }
    w->now += 1 + (in->op == IR3_NOP ? in->f[IR3_F_REPEAT] : 0);
    for (i = 0; i < n; i++) {
        for (k = list[i].at; k < list[i].at + list[i].n; k++) {
            if (list[i].is_late)
                w->war[k] = true;
            if (!list[i].is_write)
                continue;
            if (is_alu(in->op)) {
                w->done[k] = w->now - 1;
                w->was_half[k] = list[i].is_half;
            } else if (is_sfu(in->op) || in->op == IR3_LDL) {
                w->ss[k] = true;
            } else {
                w->sy[k] = true;
            }
        }
    }
    if (d->folds && !in->f[IR3_F_REPEAT])
        w->now += in->f[IR3_F_SRC1_R] + 2 * in->f[IR3_F_SRC2_R];
    return true;
}

/* ---- registers ---- */

static uint32_t
get(struct group *g, struct thread *t, uint32_t pc, uint32_t reg, bool is_half)
{
    uint32_t i;

    if (reg >= IR3_REG_SHARED && reg < IR3_REG_SHARED + 3)
        return g->id[reg - IR3_REG_SHARED];
    if (reg >= 192) {
        fail(g, pc, "register %u", reg);
        return 0;
    }
    for (i = is_half ? reg : 2 * reg; i < (is_half ? reg + 1 : 2 * reg + 2);
         i++) {
        if (!t->is_set[i])
            fail(g, pc, "half %u is read and was never set", i);
    }
    if (is_half)
        return t->r[reg / 2] >> (reg & 1 ? 16 : 0) & 0xffff;
    if (reg / 4 >= g->run->object->n_full_vec4)
        fail(g, pc, "register %u is beyond the footprint", reg);
    return t->r[reg];
}

static void
set(struct group *g, struct thread *t, uint32_t pc, uint32_t reg, bool is_half,
    uint32_t value)
{
    if (reg >= IR3_REG_P0 && reg < IR3_REG_NONE) {
        t->p[reg - IR3_REG_P0] = value & 1;
        t->is_set[P0 + reg - IR3_REG_P0] = true;
        return;
    }
    if (reg >= 192 ||
        (is_half ? reg / 2 : reg) / 4 >= g->run->object->n_full_vec4) {
        fail(g, pc, "register %u is beyond the footprint", reg);
        return;
    }
    if (is_half) {
        uint32_t shift = reg & 1 ? 16 : 0;
        t->r[reg / 2] = (t->r[reg / 2] & ~(0xffffu << shift)) | (value & 0xffff)
                                                                    << shift;
        t->is_set[reg] = true;
        return;
    }
    t->r[reg] = value;
    t->is_set[2 * reg] = t->is_set[2 * reg + 1] = true;
}

static uint32_t
constant(struct group *g, uint32_t pc, uint32_t id)
{
    const struct ir3_object *o = g->run->object;

    if (id >= 4 * o->n_const_vec4 || id >= 2 * (o->n_params + o->n_vars)) {
        fail(g, pc, "constant %u", id);
        return 0;
    }
    return (uint32_t)(g->run->args[id / 2] >> (id & 1 ? 32 : 0));
}

static bool
is_float(enum ir3_op op)
{
    return (op >= IR3_ADD_F && op <= IR3_TRUNC_F) || is_sfu(op) ||
           op == IR3_MAD_F32;
}

static uint32_t
source16(struct group *g, struct thread *t, uint32_t pc, uint32_t v)
{
    const struct ir3_instr *in = &g->code[pc].in;
    bool is_abs = v >> 15 & 1, is_neg = v >> 14 & 1;
    uint32_t x = 0;

    switch (v >> 11 & 7) {
    case 0:
        x = get(g, t, pc, v & 0xff, g->code[pc].src_half);
        break;
    case 2:
    case 3:
        x = constant(g, pc, v & 0x7ff);
        break;
    case 4:
        x = (uint32_t)((int32_t)(v << 21) >> 21);
        break;
    default:
        fail(g, pc, "an operand that is not known");
    }
    if (is_float(in->op)) {
        x &= is_abs ? 0x7fffffff : UINT32_MAX;
        return x ^ (is_neg ? 0x80000000 : 0);
    }
    if (is_abs && (int32_t)x < 0)
        x = 0 - x;
    return is_neg ? 0 - x : x;
}

static uint32_t
source13(struct group *g, struct thread *t, uint32_t pc, uint32_t v, bool neg)
{
    uint32_t x = v & 0x1000 ? constant(g, pc, v & 0x7ff)
                            : get(g, t, pc, v & 0xff, g->code[pc].src_half);

    return x ^ (neg ? 0x80000000 : 0);
}

/* ---- arithmetic ---- */

static float
to_float(const struct group *g, uint32_t bits)
{
    float f;

    if (g->run->flush && (bits & 0x7f800000) == 0)
        bits &= 0x80000000;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t
of_float(const struct group *g, float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if (g->run->flush && (bits & 0x7f800000) == 0)
        bits &= 0x80000000;
    return bits;
}

/* One unit off, up or down; of subnormal numbers the chips give nothing. */
static uint32_t
approximate(const struct group *g, float x, float f)
{
    uint32_t bits = of_float(g, f), e = bits >> 23 & 0xff;

    if (e == 0 || e == 255 || fpclassify(x) == FP_SUBNORMAL)
        return bits;
    return (bits * 2654435761u) >> 31 ? bits + 1 : bits - 1;
}

static bool
compare(uint32_t cond, bool lt, bool eq, bool unordered)
{
    switch (cond) {
    case 0:
        return lt;
    case 1:
        return lt || eq;
    case 2:
        return !lt && !eq && !unordered;
    case 3:
        return !lt && !unordered;
    case 4:
        return eq;
    default:
        return !eq;
    }
}

static uint32_t
alu2(struct group *g, struct thread *t, uint32_t pc)
{
    const struct ir3_instr *in = &g->code[pc].in;
    uint32_t a = source16(g, t, pc, in->f[IR3_F_SRC1]), b = 0;
    float x = to_float(g, a), y;

    if (g->code[pc].has_src2)
        b = source16(g, t, pc, in->f[IR3_F_SRC2]);
    y = to_float(g, b);
    switch ((int)in->op) {
    case IR3_ADD_F:
        return of_float(g, x + y);
    case IR3_MUL_F:
        return of_float(g, x * y);
    case IR3_MIN_F:
        return of_float(g, isnan(x) || y < x ? y : x);
    case IR3_MAX_F:
        return of_float(g, isnan(x) || y > x ? y : x);
    case IR3_ABSNEG_F:
        return of_float(g, x);
    case IR3_TRUNC_F:
        return of_float(g, truncf(x));
    case IR3_CMPS_F:
        return compare(in->f[IR3_F_COND], x < y, x == y, x != x || y != y);
    case IR3_CMPS_S:
        return compare(in->f[IR3_F_COND], (int32_t)a < (int32_t)b, a == b,
                       false);
    case IR3_CMPS_U:
        return compare(in->f[IR3_F_COND], a < b, a == b, false);
    case IR3_ADD_U:
        return a + b;
    case IR3_SUB_U:
        return a - b;
    case IR3_MIN_S:
        return (int32_t)a < (int32_t)b ? a : b;
    case IR3_MAX_S:
        return (int32_t)a > (int32_t)b ? a : b;
    case IR3_MIN_U:
        return a < b ? a : b;
    case IR3_MAX_U:
        return a > b ? a : b;
    case IR3_ABSNEG_S:
        return a;
    case IR3_AND_B:
        return a & b;
    case IR3_OR_B:
        return a | b;
    case IR3_XOR_B:
        return a ^ b;
    case IR3_MULL_U:
        return (a & 0xffff) * (b & 0xffff);
    case IR3_SHL_B:
    case IR3_SHR_B:
    case IR3_ASHR_B:
        if (b > 31)
            fail(g, pc, "a shift by %u", b);
        b &= 31;
        return in->op == IR3_SHL_B   ? a << b
               : in->op == IR3_SHR_B ? a >> b
                                     : (uint32_t)((int32_t)a >> b);
    case IR3_CLZ_B:
        return a ? (uint32_t)__builtin_clz(a) : UINT32_MAX;
    case IR3_RCP:
        return approximate(g, x, 1.0f / x);
    case IR3_SQRT:
        return approximate(g, x, sqrtf(x));
    default:
        fail(g, pc, "not known here");
        return 0;
    }
}

static uint32_t
alu3(struct group *g, struct thread *t, uint32_t pc)
{
    const struct ir3_instr *in = &g->code[pc].in;
    const uint32_t *f = in->f;
    uint32_t a = source13(g, t, pc, f[IR3_F_SRC1], f[IR3_F_SRC1_NEG]);
    uint32_t b = get(g, t, pc, f[IR3_F_SRC2], g->code[pc].src_half);
    uint32_t c = source13(g, t, pc, f[IR3_F_SRC3], f[IR3_F_SRC3_NEG]);

    switch ((int)in->op) {
    case IR3_SEL_B32:
        return b ? a : c;
    case IR3_MADSH_M16:
        return ((a & 0xffff) * (b >> 16) << 16) + c;
    default:
        fail(g, pc, "not known here");
        return 0;
    }
}

static uint32_t
convert(struct group *g, uint32_t pc, uint32_t x)
{
    const struct ir3_instr *in = &g->code[pc].in;
    uint32_t from = in->f[IR3_F_SRC_TYPE], to = in->f[IR3_F_DST_TYPE];
    float f = to_float(g, x);

    if (from == to)
        return x;
    if (from == IR3_TYPE_U32 && to == IR3_TYPE_F32)
        return in->f[IR3_F_ROUND] == 1 ? of_float(g, (float)x)
                                       : (fail(g, pc, "not rounded"), 0u);
    if (from == IR3_TYPE_S32 && to == IR3_TYPE_F32)
        return of_float(g, (float)(int32_t)x);
    /* beyond the bounds nobody knows what it gives */
    if (from == IR3_TYPE_F32 && to == IR3_TYPE_U32) {
        if (!(f >= 0 && f < 4294967296.0f))
            fail(g, pc, "%g as a number", (double)f);
        return (uint32_t)f;
    }
    if (from == IR3_TYPE_F32 && to == IR3_TYPE_S32) {
        if (!(f >= -2147483648.0f && f < 2147483648.0f))
            fail(g, pc, "%g as a number", (double)f);
        return (uint32_t)(int32_t)f;
    }
    if (from == IR3_TYPE_U16 && to == IR3_TYPE_U32)
        return x & 0xffff;
    if (from == IR3_TYPE_U32 && to == IR3_TYPE_U16)
        return x & 0xffff;
    fail(g, pc, "not known here");
    return 0;
}

static uint32_t
move(struct group *g, struct thread *t, uint32_t pc)
{
    const struct ir3_instr *in = &g->code[pc].in;
    uint32_t x = in->f[IR3_F_SRC1];

    if (in->op == IR3_MOV_CONST)
        x = constant(g, pc, x);
    else if (in->op == IR3_MOV_GPR)
        x = get(g, t, pc, x, g->code[pc].src_half);
    return convert(g, pc, x);
}

/* ---- memory ---- */

static uint8_t *
memory_at(struct group *g, struct thread *t, uint32_t pc, uint32_t n_bytes)
{
    const struct ir3_instr *in = &g->code[pc].in;
    bool is_write = in->op == IR3_STG || in->op == IR3_STL || in->op == IR3_STP;
    int64_t offset = (int32_t)(in->f[IR3_F_OFF] << 19) >> 19;
    uint32_t base = get(g, t, pc, in->f[IR3_F_SRC1], false);
    uint64_t at = base;
    uint8_t *p;

    if (in->op == IR3_LDG || in->op == IR3_STG) {
        at |= (uint64_t)get(g, t, pc, in->f[IR3_F_SRC1] + 1, false) << 32;
        at += (uint64_t)offset;
        p = g->run->at(g->run->user, at, n_bytes, is_write);
    } else {
        uint32_t limit = in->op == IR3_LDP || in->op == IR3_STP
                             ? g->run->object->private_bytes
                             : g->run->object->shared_bytes;
        at = (uint32_t)(base + (uint32_t)offset);
        p = in->op == IR3_LDP || in->op == IR3_STP ? t->private_ : g->shared;
        p = at + n_bytes <= limit ? p + at : NULL;
    }
    if (!p)
        fail(g, pc, "no memory at 0x%llx", (unsigned long long)at);
    return p;
}

static void
access_memory(struct group *g, struct thread *t, uint32_t pc)
{
    const struct ir3_instr *in = &g->code[pc].in;
    bool is_load = in->op == IR3_LDG || in->op == IR3_LDL || in->op == IR3_LDP;
    uint32_t type = in->f[IR3_F_TYPE], n = in->f[IR3_F_SIZE], i, x;
    uint32_t bytes = type == IR3_TYPE_U8 ? 1 : type == IR3_TYPE_U16 ? 2 : 4;
    bool is_half = bytes < 4;
    uint8_t *p;

    if (n == 0 || n > 4) {
        fail(g, pc, "so many components");
        return;
    }
    p = memory_at(g, t, pc, n * bytes);
    for (i = 0; p && i < n; i++, p += bytes) {
        if (is_load) {
            x = 0;
            memcpy(&x, p, bytes);
            set(g, t, pc, in->f[IR3_F_DST] + i, is_half, x);
        } else {
            x = get(g, t, pc, in->f[IR3_F_SRC3] + i, is_half);
            memcpy(p, &x, bytes);
        }
    }
}

/* ---- threads ---- */

static void
step_thread(struct group *g, struct thread *t, uint32_t pc)
{
    const struct ir3_instr *in = &g->code[pc].in;
    uint32_t x;

    t->pc = pc + 1;
    switch ((int)in->op) {
    case IR3_NOP:
    case IR3_FENCE:
    case IR3_LOCK:
    case IR3_UNLOCK:
        return;
    case IR3_END:
        t->ended = true;
        return;
    case IR3_BAR:
        t->at_barrier = true;
        return;
    case IR3_BR:
        if (t->p[in->f[IR3_F_COMP1]] != (in->f[IR3_F_INV1] != 0))
            t->pc = pc + in->f[IR3_F_IMM];
        return;
    case IR3_LDG:
    case IR3_LDL:
    case IR3_LDP:
    case IR3_STG:
    case IR3_STL:
    case IR3_STP:
        access_memory(g, t, pc);
        return;
    }
    if (g->code[pc].moves)
        x = move(g, t, pc);
    else if (g->code[pc].has_src3)
        x = alu3(g, t, pc);
    else
        x = alu2(g, t, pc);
    set(g, t, pc, in->f[IR3_F_DST], g->code[pc].dst_half, x);
}

/* Runs a wave until all of it wait or have ended: those with the lowest pc
 * first; who was passed by joins where (jp) stands. */
static bool
run_wave(struct group *g, uint32_t first)
{
    uint32_t end = first + WAVE, i, pc;
    struct wave *w = &g->waves[first / WAVE];
    struct thread *t;

    end = end < g->n_threads ? end : g->n_threads;
    for (;;) {
        pc = UINT32_MAX;
        for (i = first; i < end; i++) {
            t = &g->threads[i];
            if (!t->ended && !t->at_barrier && t->pc < pc)
                pc = t->pc;
        }
        if (pc == UINT32_MAX)
            return !g->failed;
        if (pc >= g->n || g->steps++ > MAX_STEPS)
            return fail(g, pc, "runs on and on");
        if (!issue(g, w, pc))
            return false;
        for (i = first; i < end; i++) {
            t = &g->threads[i];
            if (t->ended || t->at_barrier)
                continue;
            if (t->pc != pc) {
                t->parked = true;
                continue;
            }
            if (t->parked && !g->code[pc].in.f[IR3_F_JP])
                return fail(g, pc, "threads meet without (jp)");
            t->parked = false;
            step_thread(g, t, pc);
        }
        if (g->failed)
            return false;
    }
}

static bool
run_group(struct group *g)
{
    const uint32_t *local = g->run->object->local;
    uint32_t i, n_ended = 0, n_waiting;

    memset(g->waves, 0, sizeof(g->waves));
    memset(g->shared, 0xa5, sizeof(g->shared));
    for (i = 0; i < MAX_THREADS / WAVE; i++) {
        uint32_t k;
        for (k = 0; k < N_PLACES; k++)
            g->waves[i].done[k] = -64;
    }
    for (i = 0; i < g->n_threads; i++) {
        struct thread *t = &g->threads[i];
        uint8_t *keep = t->private_;
        uint32_t k;
        memset(t, 0, sizeof(*t));
        t->private_ = keep;
        t->r[0] = i % local[0];
        t->r[1] = i / local[0] % local[1];
        t->r[2] = i / local[0] / local[1];
        for (k = 0; k < 6; k++)
            t->is_set[k] = true;
    }
    while (n_ended < g->n_threads) {
        for (i = 0; i < g->n_threads; i += WAVE) {
            if (!run_wave(g, i))
                return false;
        }
        for (i = n_ended = n_waiting = 0; i < g->n_threads; i++) {
            n_ended += g->threads[i].ended;
            n_waiting += g->threads[i].at_barrier;
            g->threads[i].at_barrier = false;
        }
        if (n_ended && n_waiting)
            return fail(g, 0, "some wait for those that have ended");
    }
    return true;
}

static bool
decode(struct group *g)
{
    const struct ir3_object *o = g->run->object;
    uint32_t n_vec4 = o->gen == IR3_GEN_A6XX ? 64 : 96, i;
    uint64_t word, unused;

    if ((g->n_threads + WAVE - 1) / WAVE * o->n_full_vec4 > 2 * n_vec4)
        return fail(g, UINT32_MAX, "%u threads with %u registers do not fit",
                    g->n_threads, 4 * o->n_full_vec4);

    for (i = 0; i < o->n_instrs; i++) {
        memcpy(&word, (const char *)(o + 1) + 8 * i, 8);
        struct decoded *d = &g->code[i];
        if (!ir3_decode((enum ir3_gen)o->gen, word, &d->in, &unused) || unused)
            return fail(g, UINT32_MAX, "word %u: %016llx", i,
                        (unsigned long long)word);
        d->src_half = ir3_src_is_half(&d->in);
        d->dst_half = ir3_dst_is_half(&d->in);
        d->moves = ir3_op_has(d->in.op, IR3_F_SRC_TYPE);
        d->has_src2 = ir3_op_has(d->in.op, IR3_F_SRC2);
        d->has_src3 = ir3_op_has(d->in.op, IR3_F_SRC3);
        d->folds = ir3_op_has(d->in.op, IR3_F_SRC2_R);
        d->n_list = accesses(&d->in, d->list);
    }
    return true;
}

bool
ir3_run(struct ir3_run *run)
{
    const struct ir3_object *o = run->object;
    struct group *g = calloc(1, sizeof(*g));
    uint64_t n = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2], i;
    bool ok;

    g->run = run;
    g->n = o->n_instrs;
    g->n_threads = o->local[0] * o->local[1] * o->local[2];
    g->code = calloc(g->n, sizeof(*g->code));
    g->threads = calloc(g->n_threads, sizeof(*g->threads));
    for (i = 0; i < g->n_threads; i++)
        g->threads[i].private_ = malloc(o->private_bytes + 1);
    ok = decode(g);
    for (i = 0; ok && i < n; i++) {
        g->id[0] = (uint32_t)(i % run->grid[0]);
        g->id[1] = (uint32_t)(i / run->grid[0] % run->grid[1]);
        g->id[2] = (uint32_t)(i / run->grid[0] / run->grid[1]);
        ok = run_group(g);
    }
    for (i = 0; i < g->n_threads; i++)
        free(g->threads[i].private_);
    free(g->threads);
    free(g->code);
    free(g);
    return ok;
}
