/* Integers and bits on one lane, and which kind of arithmetic an instruction
 * is. Values are the bits of a register, zeros above. */
#include "sim/ptx/ptx_internal.h"

#include <assert.h>
#include <math.h>

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
    bool is_signed = px_types[in->type].kind == 's';

    if (in->op == PX_MUL24 || in->op == PX_MAD24) {
        a &= 0xffffff;
        b &= 0xffffff;
        if (is_signed) {
            a = (uint64_t)px_sign_extend(a, 24);
            b = (uint64_t)px_sign_extend(b, 24);
        }
        return in->mod[PX_MOD_HALF] == PX_HALF_HI ? a * b >> 16 : a * b;
    }
    if (in->mod[PX_MOD_HALF] != PX_HALF_HI)
        return a * b;
    return bits == 64 ? high_product(a, b, is_signed) : a * b >> bits;
}

/* Division by zero: the hardware gives ones, and the dividend. */
static uint64_t
int_quotient(const struct px_insn *in, uint64_t a, uint64_t b)
{
    bool is_signed = px_types[in->type].kind == 's', rem = in->op == PX_REM;

    assert(px_types[in->type].kind != 'f');
    if (b == 0)
        return rem ? a : UINT64_MAX;
    if (!is_signed)
        return rem ? a % b : a / b;
    if (b == UINT64_MAX)
        return rem ? 0 : 0 - a;
    return (uint64_t)(rem ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static uint64_t
saturated(const struct px_insn *in, uint64_t sum)
{
    int64_t s = (int64_t)sum;

    if (!in->mod[PX_MOD_SAT])
        return sum;
    return (uint64_t)(s > INT32_MAX   ? INT32_MAX
                      : s < INT32_MIN ? INT32_MIN
                                      : s);
}

static uint64_t
int_op(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    unsigned bits = px_types[in->type].bits;
    bool is_signed = px_types[in->type].kind == 's', less;

    assert(in->type < PX_TYPE_COUNT);
    assert(px_types[in->type].bits > 0);
    if (is_signed) {
        a = (uint64_t)px_sign_extend(a, bits);
        b = (uint64_t)px_sign_extend(b, bits);
    }
    less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (in->op) {
    case PX_ADD:
        return saturated(in, a + b);
    case PX_SUB:
        return saturated(in, a - b);
    case PX_MUL:
    case PX_MUL24:
        return product(in, a, b);
    case PX_MAD:
    case PX_MAD24:
        return product(in, a, b) + c;
    case PX_DIV:
    case PX_REM:
        return int_quotient(in, a, b);
    case PX_NEG:
        return 0 - a;
    case PX_ABS:
        return (int64_t)a < 0 ? 0 - a : a;
    case PX_SAD:
        return c + (less ? b - a : a - b);
    default: /* MIN MAX */
        return less == (in->op == PX_MIN) ? a : b;
    }
}

/* ---- bits ---- */

static uint64_t
shift(const struct px_insn *in, uint64_t a, uint64_t n)
{
    unsigned bits = px_types[in->type].bits;

    assert(in->op == PX_SHL || in->op == PX_SHR);
    n = (uint32_t)n;
    if (in->op == PX_SHL)
        return n >= bits ? 0 : a << n;
    if (px_types[in->type].kind == 's')
        return (uint64_t)(px_sign_extend(a, bits) >>
                          (n >= bits ? bits - 1 : n));
    return n >= bits ? 0 : a >> n;
}

/* 64 bits, b above a, shifted: the upper half to the left, the lower to the
 * right. */
static uint64_t
funnel(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t n)
{
    uint64_t both = b << 32 | a;

    n = in->mod[PX_MOD_WRAP] == 2 ? n & 31 : n < 32 ? n : 32;
    return in->mod[PX_MOD_MODE] == PX_SHF_L ? both << n >> 32 : both >> n;
}

static uint64_t
reverse(uint64_t x, unsigned bits)
{
    uint64_t r = 0;
    unsigned i;

    assert(bits == 32 || bits == 64);
    for (i = 0; i < bits; i++)
        r |= (x >> i & 1) << (bits - 1 - i);
    return r;
}

/* Where the highest bit is that is not the sign; ones where there is none. */
static uint64_t
find_bit(const struct px_insn *in, uint64_t a)
{
    const struct px_type_info *t = &px_types[in->type];

    if (t->kind == 's' && a >> (t->bits - 1))
        a = ~a & px_mask(t->bits);
    return a ? 63 - (uint64_t)__builtin_clzll(a) : UINT32_MAX;
}

/* src: PTX ISA, bfe: the sign is the field's highest bit, or the number's
 * where the field goes beyond it. */
static uint64_t
extract(const struct px_insn *in, uint64_t a, uint64_t pos, uint64_t len)
{
    const struct px_type_info *t = &px_types[in->type];
    uint64_t top, field;

    assert(px_types[in->type].bits >= 32);
    pos &= 255;
    len &= 255;
    field = pos > 63 ? 0 : a >> pos & px_mask((unsigned)len);
    if (t->kind == 'u' || len == 0)
        return field;
    top = pos + len - 1 < t->bits ? pos + len - 1 : t->bits - 1u;
    if (a >> top & 1)
        field |= pos > top ? UINT64_MAX : ~px_mask((unsigned)(top + 1 - pos));
    return field;
}

static uint64_t
insert_bits(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t pos,
            uint64_t len)
{
    uint64_t field;

    assert(px_types[in->type].bits >= 32);
    pos &= 255;
    len &= 255;
    if (pos >= px_types[in->type].bits)
        return b;
    field = px_mask((unsigned)len) << pos;
    return (b & ~field) | (a << pos & field);
}

/* Each nibble of c picks a byte of b above a; its top bit copies the sign. */
static uint64_t
permute(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t both = b << 32 | a, r = 0, byte;
    unsigned i;

    for (i = 0; i < 4; i++) {
        byte = both >> (c >> i * 4 & 7) * 8 & 255;
        if (c >> i * 4 & 8)
            byte = byte >> 7 ? 255 : 0;
        r |= byte << i * 8;
    }
    return r;
}

static uint64_t
logic3(uint64_t a, uint64_t b, uint64_t c, uint64_t table)
{
    uint64_t r = 0;
    unsigned i;

    assert(table < 256);
    for (i = 0; i < 8; i++) {
        if (table >> i & 1)
            r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return r;
}

static int64_t
byte_of(unsigned type, uint64_t x, unsigned i)
{
    uint64_t byte = x >> i * 8 & 255;

    assert(i < 4);
    return type == PX_S32 ? px_sign_extend(byte, 8) : (int64_t)byte;
}

static uint64_t
dot4(const struct px_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
    unsigned i;

    for (i = 0; i < 4; i++)
        c += (uint64_t)(byte_of(in->type, a, i) * byte_of(in->type2, b, i));
    return c;
}

static uint64_t
bit_op(const struct px_insn *in, const uint64_t s[4])
{
    unsigned bits = px_types[in->type].bits;

    switch (in->op) {
    case PX_AND:
        return s[0] & s[1];
    case PX_OR:
        return s[0] | s[1];
    case PX_XOR:
        return s[0] ^ s[1];
    case PX_NOT:
        return ~s[0];
    case PX_LOP3:
        return logic3(s[0], s[1], s[2], s[3]);
    case PX_SHL:
    case PX_SHR:
        return shift(in, s[0], s[1]);
    case PX_SHF:
        return funnel(in, s[0], s[1], s[2]);
    case PX_POPC:
        return (uint64_t)__builtin_popcountll(s[0]);
    case PX_CLZ:
        return s[0] ? (uint64_t)__builtin_clzll(s[0]) - (64 - bits) : bits;
    case PX_BREV:
        return reverse(s[0], bits);
    case PX_BFIND:
        return find_bit(in, s[0]);
    case PX_BFE:
        return extract(in, s[0], s[1], s[2]);
    case PX_BFI:
        return insert_bits(in, s[0], s[1], s[2], s[3]);
    case PX_PRMT:
        return permute(s[0], s[1], s[2]);
    default:
        return dot4(in, s[0], s[1], s[2]);
    }
}

/* ---- comparisons ---- */

static bool
compare_ints(const struct px_type_info *t, unsigned cmp, uint64_t a, uint64_t b)
{
    bool less = a < b;

    if (t->kind == 's')
        less = px_sign_extend(a, t->bits) < px_sign_extend(b, t->bits);
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

static bool
test_class(unsigned mode, unsigned type, double d)
{
    assert(mode >= PX_FINITE && mode <= PX_SUBNORMAL);
    switch (mode) {
    case PX_FINITE:
        return isfinite(d);
    case PX_INFINITE:
        return isinf(d) != 0;
    case PX_NUMBER_:
        return !isnan(d);
    case PX_NOTANUMBER:
        return isnan(d);
    default: /* zero is normal */
        return isfinite(d) &&
               (d != 0 && fabs(d) < (type == PX_F32 ? 0x1p-126 : 0x1p-1022)) ==
                   (mode == PX_SUBNORMAL);
    }
}

static double
flushed(const struct px_insn *in, unsigned type, double d)
{
    double least = type == PX_F32 ? 0x1p-126 : 0x1p-14;

    return in->mod[PX_MOD_FTZ] == 1 && fabs(d) < least ? copysign(0, d) : d;
}

bool
px_eval_test(const struct px_insn *in, uint64_t a, uint64_t b)
{
    unsigned type = in->op == PX_SET ? in->type2 : in->type;
    unsigned cmp = in->mod[PX_MOD_CMP] - 1u;

    assert(in->op == PX_SETP || in->op == PX_SET || in->op == PX_TESTP);
    if (in->op == PX_TESTP)
        return test_class(in->mod[PX_MOD_MODE], type, px_decode(type, a));
    if (px_types[type].kind == 'x') /* the half that the caller picked */
        type = type == PX_F16X2 ? PX_F16 : PX_BF16;
    if (px_types[type].kind == 'f')
        return px_float_test(cmp, flushed(in, type, px_decode(type, a)),
                             flushed(in, type, px_decode(type, b)));
    return compare_ints(&px_types[type], cmp, a, b);
}

/* ---- all ---- */

/* Each half by itself. */
static uint64_t
pair_op(const struct px_insn *in, const uint64_t s[4])
{
    unsigned type = in->type == PX_F16X2 ? PX_F16 : PX_BF16;
    uint64_t lo =
        px_float_op(in, type, s[0] & 0xffff, s[1] & 0xffff, s[2] & 0xffff);

    return px_float_op(in, type, s[0] >> 16, s[1] >> 16, s[2] >> 16) << 16 | lo;
}

static unsigned
result_bits(const struct px_insn *in)
{
    unsigned bits = px_types[in->type].bits;

    assert(in->type < PX_TYPE_COUNT);
    if (in->op == PX_POPC || in->op == PX_CLZ || in->op == PX_BFIND)
        return 32;
    return in->mod[PX_MOD_HALF] == PX_WIDE ? bits * 2 : bits;
}

static bool
is_bit_op(unsigned op)
{
    return op >= PX_AND && op <= PX_DP4A;
}

uint64_t
px_eval(const struct px_insn *in, const uint64_t s[4])
{
    char kind = px_types[in->type].kind;
    uint64_t r;

    if (in->op == PX_MOV)
        return s[0];
    if (in->op == PX_SELP)
        return s[2] ? s[0] : s[1];
    if (in->op == PX_CVT)
        return px_eval_cvt(in, s[0], s[1]);
    if (is_bit_op(in->op))
        r = bit_op(in, s);
    else if (kind == 'f')
        return px_float_op(in, in->type, s[0], s[1], s[2]);
    else if (kind == 'x')
        return pair_op(in, s);
    else
        r = int_op(in, s[0], s[1], s[2]);
    return r & px_mask(result_bits(in));
}

uint64_t
px_eval_atom(const struct px_insn *in, uint64_t old, uint64_t b, uint64_t c)
{
    struct px_insn op = {.type = in->type};

    assert(px_types[in->type].bits >= 16);
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
    case PX_ATOM_INC:
        return old >= b ? 0 : old + 1;
    case PX_ATOM_DEC:
        return old == 0 || old > b ? b : old - 1;
    case PX_ATOM_EXCH:
        return b;
    default:
        return old == b ? c : old;
    }
    return px_eval(&op, (const uint64_t[4]){old, b, 0, 0});
}
