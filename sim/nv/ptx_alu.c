/* Arithmetic on one lane. Values are the bits of a register, zeros above. A
 * NaN that arithmetic makes is the one the hardware makes. */
#include "sim/nv/ptx_internal.h"

#include <math.h>
#include <string.h>

#define NAN_F32 0x7fffffffu
#define NAN_F64 0x7fffffffffffffffull

static float
to_f32(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float f;

    memcpy(&f, &b, sizeof(f));
    return f;
}

static uint64_t
from_f32(float f)
{
    uint32_t b;

    memcpy(&b, &f, sizeof(b));
    return isnan(f) ? NAN_F32 : b;
}

static double
to_f64(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static uint64_t
from_f64(double d)
{
    uint64_t b;

    memcpy(&b, &d, sizeof(b));
    return isnan(d) ? NAN_F64 : b;
}

static float
flushed(const struct px_insn *in, float f)
{
    return in->mod[PX_MOD_FTZ] && fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

/* ---- floats ---- */

/* IEEE minNum and maxNum; -0 is below +0. */
static double
extreme(const struct px_insn *in, double a, double b)
{
    bool is_max = in->op == PX_MAX;

    if (in->mod[PX_MOD_NAN] && (isnan(a) || isnan(b)))
        return NAN;
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return (signbit(a) != 0) == is_max ? b : a;
    return (a > b) == is_max ? a : b;
}

static float
eval_f32(const struct px_insn *in, float a, float b, float c)
{
    switch (in->op) {
    case PX_ADD:
        return a + b;
    case PX_SUB:
        return a - b;
    case PX_MUL:
        return a * b;
    case PX_FMA:
        return fmaf(a, b, c);
    case PX_DIV:
        return a / b;
    case PX_MIN:
    case PX_MAX:
        return (float)extreme(in, (double)a, (double)b);
    case PX_RCP:
        return 1 / a;
    case PX_SQRT:
        return sqrtf(a);
    case PX_RSQRT:
        return (float)(1 / sqrt((double)a));
    case PX_EX2:
        return (float)exp2((double)a);
    case PX_LG2:
        return (float)log2((double)a);
    case PX_SIN:
        return (float)sin((double)a);
    case PX_COS:
        return (float)cos((double)a);
    default:
        return (float)tanh((double)a);
    }
}

static double
eval_f64(const struct px_insn *in, double a, double b, double c)
{
    switch (in->op) {
    case PX_ADD:
        return a + b;
    case PX_SUB:
        return a - b;
    case PX_MUL:
        return a * b;
    case PX_FMA:
        return fma(a, b, c);
    case PX_DIV:
        return a / b;
    case PX_MIN:
    case PX_MAX:
        return extreme(in, a, b);
    case PX_RCP:
        return 1 / a;
    case PX_SQRT:
        return sqrt(a);
    default:
        return 1 / sqrt(a);
    }
}

static uint64_t
float_op(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t sign = (uint64_t)1 << (px_types[in->type].bits - 1);
    float r;

    if (in->op == PX_NEG || in->op == PX_ABS) {
        if (in->type == PX_F32 && in->mod[PX_MOD_FTZ])
            a = from_f32(flushed(in, to_f32(a)));
        return in->op == PX_NEG ? a ^ sign : a & ~sign;
    }
    if (in->type == PX_F64)
        return from_f64(eval_f64(in, to_f64(a), to_f64(b), to_f64(c)));
    r = flushed(in, eval_f32(in, flushed(in, to_f32(a)), flushed(in, to_f32(b)),
                             flushed(in, to_f32(c))));
    if (in->mod[PX_MOD_SAT])
        r = r > 0 ? fminf(r, 1) : 0;
    return from_f32(r);
}

/* ---- integers ---- */

/* The upper half of a product of two 64-bit numbers. */
static uint64_t
high_product(uint64_t a, uint64_t b, bool is_signed)
{
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32);
    uint64_t high = ah * bh + (mid >> 32) + (((uint32_t)mid + al * bh) >> 32);

    if (is_signed)
        high -= ((int64_t)a < 0 ? b : 0) + ((int64_t)b < 0 ? a : 0);
    return high;
}

/* `a` and `b` are extended to 64 bits as the type is. */
static uint64_t
product(const struct px_insn *in, uint64_t a, uint64_t b)
{
    unsigned bits = px_types[in->type].bits;

    if (in->mod[PX_MOD_HALF] != PX_HALF_HI)
        return a * b;
    return bits == 64 ? high_product(a, b, px_types[in->type].kind == 's')
                      : a * b >> bits;
}

/* Division by zero: the hardware gives ones, and the dividend. */
static uint64_t
quotient(const struct px_insn *in, uint64_t a, uint64_t b)
{
    bool is_signed = px_types[in->type].kind == 's', rem = in->op == PX_REM;

    if (b == 0)
        return rem ? a : UINT64_MAX;
    if (!is_signed)
        return rem ? a % b : a / b;
    if (b == UINT64_MAX)
        return rem ? 0 : 0 - a;
    return (uint64_t)(rem ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static uint64_t
int_op(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    unsigned bits = px_types[in->type].bits;
    bool is_signed = px_types[in->type].kind == 's', less;

    if (is_signed) {
        a = (uint64_t)px_sign_extend(a, bits);
        b = (uint64_t)px_sign_extend(b, bits);
    }
    switch (in->op) {
    case PX_ADD:
        return a + b;
    case PX_SUB:
        return a - b;
    case PX_MUL:
        return product(in, a, b);
    case PX_MAD:
        return product(in, a, b) + c;
    case PX_DIV:
    case PX_REM:
        return quotient(in, a, b);
    case PX_NEG:
        return 0 - a;
    case PX_ABS:
        return (int64_t)a < 0 ? 0 - a : a;
    default: /* MIN MAX */
        less = is_signed ? (int64_t)a < (int64_t)b : a < b;
        return less == (in->op == PX_MIN) ? a : b;
    }
}

static uint64_t
shift(const struct px_insn *in, uint64_t a, uint64_t n)
{
    unsigned bits = px_types[in->type].bits;

    n = (uint32_t)n;
    if (in->op == PX_SHL)
        return n >= bits ? 0 : a << n;
    if (px_types[in->type].kind == 's')
        return (uint64_t)(px_sign_extend(a, bits) >>
                          (n >= bits ? bits - 1 : n));
    return n >= bits ? 0 : a >> n;
}

static uint64_t
reverse(uint64_t a, unsigned bits)
{
    uint64_t r = 0;
    unsigned i;

    for (i = 0; i < bits; i++)
        r |= (a >> i & 1) << (bits - 1 - i);
    return r;
}

/* ---- comparisons ---- */

static bool
compare_floats(unsigned cmp, double a, double b)
{
    bool unordered = isnan(a) || isnan(b);

    switch (cmp) {
    case PX_EQ:
    case PX_EQU:
        return unordered ? cmp == PX_EQU : a == b;
    case PX_NE:
    case PX_NEU:
        return unordered ? cmp == PX_NEU : a != b;
    case PX_LT:
    case PX_LTU:
        return unordered ? cmp == PX_LTU : a < b;
    case PX_LE:
    case PX_LEU:
        return unordered ? cmp == PX_LEU : a <= b;
    case PX_GT:
    case PX_GTU:
        return unordered ? cmp == PX_GTU : a > b;
    case PX_GE:
    case PX_GEU:
        return unordered ? cmp == PX_GEU : a >= b;
    case PX_NUM:
        return !unordered;
    default:
        return unordered;
    }
}

static bool
compare_ints(const struct px_insn *in, unsigned cmp, uint64_t a, uint64_t b)
{
    unsigned bits = px_types[in->type].bits;
    bool less = a < b;

    if (px_types[in->type].kind == 's')
        less = px_sign_extend(a, bits) < px_sign_extend(b, bits);
    switch (cmp) {
    case PX_EQ:
        return a == b;
    case PX_NE:
        return a != b;
    case PX_LT:
    case PX_LO:
        return less;
    case PX_LE:
    case PX_LS:
        return less || a == b;
    case PX_GT:
    case PX_HI:
        return !less && a != b;
    default:
        return !less;
    }
}

/* Bit 0: the first predicate; bit 1: the second. */
static uint64_t
set_predicates(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    unsigned cmp = in->mod[PX_MOD_CMP] - 1u;
    bool p, other = (c != 0) != in->src2_negated;

    if (in->type == PX_F32)
        p = compare_floats(cmp, (double)flushed(in, to_f32(a)),
                           (double)flushed(in, to_f32(b)));
    else if (in->type == PX_F64)
        p = compare_floats(cmp, to_f64(a), to_f64(b));
    else
        p = compare_ints(in, cmp, a, b);
    switch (in->mod[PX_MOD_BOOL]) {
    case PX_ATOM_AND:
        return (p && other) | (uint64_t)(!p && other) << 1;
    case PX_ATOM_OR:
        return (p || other) | (uint64_t)(!p || other) << 1;
    case PX_ATOM_XOR:
        return (p != other) | (uint64_t)(!p != other) << 1;
    default:
        return p | (uint64_t)!p << 1;
    }
}

/* ---- all ---- */

static uint64_t
bit_op(const struct px_insn *in, uint64_t a, uint64_t b)
{
    unsigned bits = px_types[in->type].bits;

    switch (in->op) {
    case PX_AND:
        return a & b;
    case PX_OR:
        return a | b;
    case PX_XOR:
        return a ^ b;
    case PX_NOT:
        return ~a;
    case PX_POPC:
        return (uint64_t)__builtin_popcountll(a);
    case PX_CLZ:
        return a ? (uint64_t)__builtin_clzll(a) - (64 - bits) : bits;
    default:
        return reverse(a, bits);
    }
}

static unsigned
result_bits(const struct px_insn *in)
{
    unsigned bits = px_types[in->type].bits;

    return in->mod[PX_MOD_HALF] == PX_WIDE ? bits * 2 : bits;
}

uint64_t
px_eval(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t r;

    switch (in->op) {
    case PX_MOV:
    case PX_CVTA:
        return a;
    case PX_SELP:
        return c ? a : b;
    case PX_SETP:
        return set_predicates(in, a, b, c);
    case PX_CVT:
        return px_eval_cvt(in, a);
    case PX_AND:
    case PX_OR:
    case PX_XOR:
    case PX_NOT:
    case PX_POPC:
    case PX_CLZ:
    case PX_BREV:
        r = bit_op(in, a, b);
        break;
    case PX_SHL:
    case PX_SHR:
        r = shift(in, a, b);
        break;
    default:
        if (px_types[in->type].kind == 'f')
            return float_op(in, a, b, c);
        r = int_op(in, a, b, c);
        break;
    }
    return r & px_mask(result_bits(in));
}

uint64_t
px_eval_atom(const struct px_insn *in, uint64_t old, uint64_t b, uint64_t c)
{
    struct px_insn op = {.type = in->type};

    switch (in->mod[PX_MOD_MODE]) {
    case PX_ATOM_ADD:
        op.op = PX_ADD;
        break;
    case PX_ATOM_MIN:
        op.op = PX_MIN;
        break;
    case PX_ATOM_MAX:
        op.op = PX_MAX;
        break;
    case PX_ATOM_AND:
        op.op = PX_AND;
        break;
    case PX_ATOM_OR:
        op.op = PX_OR;
        break;
    case PX_ATOM_XOR:
        op.op = PX_XOR;
        break;
    case PX_ATOM_EXCH:
        return b;
    default:
        return old == b ? c : old;
    }
    return px_eval(&op, old, b, 0);
}
