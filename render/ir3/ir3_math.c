/* Arithmetic of one lane of integers (ir3_float.c has that of floats).
 *
 * The chips multiply 16 and 24 bits, and add, shift and compare 32. The rest is
 * made of that: products of 32 bits, all of 64 bits, quotients.
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>

#include "base/bits.h"

/* ---- integers of 32 bits ---- */

struct ir3_opnd
ir3_wrap(struct ir3_emit *e, unsigned dtype, struct ir3_opnd a)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[dtype];
    unsigned n_bits = 8u * info->size_bytes;
    struct ir3_opnd high;

    if (dtype == UOP_BOOL || info->size_bytes >= 4)
        return a;
    if (a.kind == IR3_IMM)
        return ir3_imm((uint32_t)uop_wrap_int(dtype, (int32_t)a.v));
    if (n_bits == 8 && !info->is_signed)
        return ir3_op2(e, IR3_AND_B, a, ir3_imm(0xff));
    high = ir3_op2(e, IR3_SHL_B, a, ir3_imm(32 - n_bits));
    return ir3_op2(e, info->is_signed ? IR3_ASHR_B : IR3_SHR_B, high,
                   ir3_imm(32 - n_bits));
}

struct ir3_opnd
ir3_mul32(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b)
{
    struct ir3_opnd t;

    if (a.kind == IR3_IMM) {
        struct ir3_opnd c = a;
        a = b;
        b = c;
    }
    if (b.kind == IR3_IMM && is_pow2(b.v))
        return b.v == 1 ? a
                        : ir3_op2(e, IR3_SHL_B, a, ir3_imm(log2_floor(b.v)));
    a = ir3_in_reg(e, a);
    b = ir3_in_reg(e, b);
    t = ir3_op2(e, IR3_MULL_U, a, b);
    t = ir3_op3(e, IR3_MADSH_M16, a, b, t);
    return ir3_op3(e, IR3_MADSH_M16, b, a, t);
}

/* All 64 bits of a product of unsigned ones. */
static struct ir3_lane
mul_wide(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b)
{
    struct ir3_opnd ah, bh, ll, hl, lh, hh, mid, mid2;
    struct ir3_lane r;

    assert(a.kind != IR3_NONE && b.kind != IR3_NONE);
    a = ir3_in_reg(e, a);
    b = ir3_in_reg(e, b);
    ah = ir3_op2(e, IR3_SHR_B, a, ir3_imm(16));
    bh = ir3_op2(e, IR3_SHR_B, b, ir3_imm(16));
    ll = ir3_op2(e, IR3_MULL_U, a, b);
    hl = ir3_op2(e, IR3_MULL_U, ah, b);
    lh = ir3_op2(e, IR3_MULL_U, a, bh);
    hh = ir3_op2(e, IR3_MULL_U, ah, bh);
    /* no sum below is beyond 32 bits: (2^16 - 1)^2 + 2 (2^16 - 1) fits */
    mid = ir3_op2(e, IR3_ADD_U, hl, ir3_op2(e, IR3_SHR_B, ll, ir3_imm(16)));
    mid2 = ir3_op2(e, IR3_ADD_U, lh, ir3_wrap(e, UOP_U16, mid));
    r.hi = ir3_op2(e, IR3_ADD_U, hh, ir3_op2(e, IR3_SHR_B, mid, ir3_imm(16)));
    r.hi =
        ir3_op2(e, IR3_ADD_U, r.hi, ir3_op2(e, IR3_SHR_B, mid2, ir3_imm(16)));
    r.lo = ir3_op2(e, IR3_OR_B, ir3_op2(e, IR3_SHL_B, mid2, ir3_imm(16)),
                   ir3_wrap(e, UOP_U16, ll));
    return r;
}

static struct ir3_opnd
mul_high(struct ir3_emit *e, struct ir3_opnd a, struct ir3_opnd b)
{
    return mul_wide(e, a, b).hi;
}

/* Quotient and remainder of unsigned numbers; y is not 0. An estimate of
 * 2^32 / y by floats, which is too small for certain (by 2^-21: a reciprocal
 * may be three units off), then corrected once, gives a quotient at most two
 * too small. src: LLVM 19, AMDGPUCodeGenPrepare: its expansion for AMD's chips,
 * which have no division either */
static void
divide32(struct ir3_emit *e, struct ir3_opnd x, struct ir3_opnd y,
         struct ir3_opnd *out_quotient, struct ir3_opnd *out_rest)
{
    struct ir3_opnd f, z, q, r, more, t;
    int i;

    x = ir3_in_reg(e, x);
    y = ir3_in_reg(e, y);
    f = ir3_convert(e, IR3_TYPE_U32, IR3_TYPE_F32, y);
    f = ir3_op1(e, IR3_RCP, f);
    f = ir3_op2(e, IR3_MUL_F, f, ir3_imm(0x4f7ffff8)); /* 2^32 - 2^11 */
    z = ir3_convert(e, IR3_TYPE_F32, IR3_TYPE_U32, f);
    t = ir3_mul32(e, ir3_op2(e, IR3_SUB_U, ir3_imm(0), y), z);
    z = ir3_op2(e, IR3_ADD_U, z, mul_high(e, z, t));
    q = mul_high(e, x, z);
    r = ir3_op2(e, IR3_SUB_U, x, ir3_mul32(e, q, y));
    for (i = 0; i < 2; i++) {
        more = ir3_compare(e, IR3_CMPS_U, IR3_GE, r, y);
        q = ir3_op2(e, IR3_ADD_U, q, more);
        r = ir3_select(e, more, ir3_op2(e, IR3_SUB_U, r, y), r);
    }
    *out_quotient = q;
    *out_rest = r;
}

/* x / d for x up to 2^31, by the upper half of a product with 2^k / d, rounded
 * up: what is too much stays below a unit. src: T. Granlund, P. L. Montgomery,
 * "Division by Invariant Integers using Multiplication", 1994 */
static struct ir3_opnd
divide_by(struct ir3_emit *e, struct ir3_opnd x, uint32_t d)
{
    unsigned s = d > 1 ? log2_floor(d - 1) + 1 : 0;
    uint32_t m;

    assert(d > 0 && d <= INT32_MAX);
    if (is_pow2(d))
        return s ? ir3_op2(e, IR3_SHR_B, x, ir3_imm(s)) : x;
    m = (uint32_t)div_up(UINT64_C(1) << (31 + s), d);
    x = mul_high(e, x, ir3_imm(m));
    return s > 1 ? ir3_op2(e, IR3_SHR_B, x, ir3_imm(s - 1)) : x;
}

/* Quotient and remainder of sizes: of numbers up to 2^31, or any unsigned. */
static void
divide_sizes(struct ir3_emit *e, bool is_small, struct ir3_opnd x,
             struct ir3_opnd y, struct ir3_opnd *out_quotient,
             struct ir3_opnd *out_rest)
{
    if (y.kind != IR3_IMM || y.v == 0 || y.v > INT32_MAX ||
        !(is_small || is_pow2(y.v))) {
        divide32(e, x, y, out_quotient, out_rest);
        return;
    }
    *out_quotient = divide_by(e, x, y.v);
    *out_rest = is_pow2(y.v) && y.v <= 512
                    ? ir3_op2(e, IR3_AND_B, x, ir3_imm(y.v - 1))
                    : ir3_op2(e, IR3_SUB_U, x, ir3_mul32(e, *out_quotient, y));
}

static struct ir3_opnd
divide_ints(struct ir3_emit *e, bool is_quotient, unsigned dtype,
            struct ir3_opnd x, struct ir3_opnd y)
{
    bool is_signed = uop_dtype_infos[dtype].is_signed;
    bool is_small = uop_dtype_infos[dtype].size_bytes < 4;
    struct ir3_opnd q, r, sign, minus;

    if (!is_signed) {
        divide_sizes(e, is_small, x, y, &q, &r);
        return is_quotient ? q : r;
    }
    x = ir3_in_reg(e, x);
    sign = x;
    if (y.kind != IR3_IMM || (int32_t)y.v < 0) {
        y = ir3_in_reg(e, y);
        sign = is_quotient ? ir3_op2(e, IR3_XOR_B, x, y) : x;
        y.abs = true;
        y = ir3_op1(e, IR3_ABSNEG_S, y);
    }
    x.abs = true;
    x = ir3_op1(e, IR3_ABSNEG_S, x);
    divide_sizes(e, true, x, y, &q, &r);
    if (!is_quotient)
        q = r;
    minus = ir3_op2(e, IR3_SUB_U, ir3_imm(0), q);
    sign = ir3_compare(e, IR3_CMPS_S, IR3_LT, sign, ir3_imm(0));
    return ir3_select(e, sign, minus, q);
}

/* ---- integers of 64 bits ---- */

struct ir3_lane
ir3_add64(struct ir3_emit *e, struct ir3_lane a, struct ir3_lane b)
{
    struct ir3_opnd carry;
    struct ir3_lane r;

    a.lo = ir3_in_reg(e, a.lo);
    r.lo = ir3_op2(e, IR3_ADD_U, a.lo, b.lo);
    carry = ir3_compare(e, IR3_CMPS_U, IR3_LT, r.lo, a.lo);
    r.hi = ir3_op2(e, IR3_ADD_U, a.hi, b.hi);
    r.hi = ir3_op2(e, IR3_ADD_U, r.hi, carry);
    return r;
}

struct ir3_lane
ir3_sub64(struct ir3_emit *e, struct ir3_lane a, struct ir3_lane b)
{
    struct ir3_opnd borrow;
    struct ir3_lane r;

    r.lo = ir3_op2(e, IR3_SUB_U, a.lo, b.lo);
    borrow = ir3_compare(e, IR3_CMPS_U, IR3_LT, a.lo, b.lo);
    r.hi = ir3_op2(e, IR3_SUB_U, a.hi, b.hi);
    r.hi = ir3_op2(e, IR3_SUB_U, r.hi, borrow);
    return r;
}

static struct ir3_lane
mul64(struct ir3_emit *e, struct ir3_lane a, struct ir3_lane b)
{
    struct ir3_lane r = mul_wide(e, a.lo, b.lo);

    r.hi = ir3_op2(e, IR3_ADD_U, r.hi, ir3_mul32(e, a.lo, b.hi));
    r.hi = ir3_op2(e, IR3_ADD_U, r.hi, ir3_mul32(e, a.hi, b.lo));
    return r;
}

struct ir3_opnd
ir3_less64(struct ir3_emit *e, bool is_signed, struct ir3_lane a,
           struct ir3_lane b)
{
    enum ir3_op op = is_signed ? IR3_CMPS_S : IR3_CMPS_U;
    struct ir3_opnd hi, lo, same;

    hi = ir3_compare(e, op, IR3_LT, a.hi, b.hi);
    same = ir3_compare(e, IR3_CMPS_U, IR3_EQ, a.hi, b.hi);
    lo = ir3_compare(e, IR3_CMPS_U, IR3_LT, a.lo, b.lo);
    return ir3_select(e, same, lo, hi);
}

static struct ir3_opnd
equal64(struct ir3_emit *e, unsigned cond, struct ir3_lane a, struct ir3_lane b)
{
    struct ir3_opnd lo = ir3_op2(e, IR3_XOR_B, a.lo, b.lo);
    struct ir3_opnd hi = ir3_op2(e, IR3_XOR_B, a.hi, b.hi);

    return ir3_compare(e, IR3_CMPS_U, cond, ir3_op2(e, IR3_OR_B, lo, hi),
                       ir3_imm(0));
}

static struct ir3_lane
select64(struct ir3_emit *e, struct ir3_opnd cond, struct ir3_lane a,
         struct ir3_lane b)
{
    return (struct ir3_lane){ir3_select(e, cond, a.lo, b.lo),
                             ir3_select(e, cond, a.hi, b.hi)};
}

/* By 0 to 63. Bits that cross the middle are shifted by one, then by the rest,
 * so that no shift is by 32. */
struct ir3_lane
ir3_shift64(struct ir3_emit *e, enum uop_op op, bool is_signed,
            struct ir3_lane a, struct ir3_opnd by)
{
    enum ir3_op right = is_signed ? IR3_ASHR_B : IR3_SHR_B;
    struct ir3_opnd far, n, back, cross, end;
    struct ir3_lane r;

    assert(by.kind != IR3_IMM || by.v < 64);
    assert(op == UOP_SHL || op == UOP_SHR);
    if (by.kind == IR3_IMM && by.v == 0)
        return a;
    a.lo = ir3_in_reg(e, a.lo);
    a.hi = ir3_in_reg(e, a.hi);
    if (by.kind == IR3_IMM) {
        far = ir3_imm(by.v >= 32);
        n = ir3_imm(by.v & 31);
        back = ir3_imm(31 - (by.v & 31));
    } else {
        far = ir3_compare(e, IR3_CMPS_U, IR3_GE, by, ir3_imm(32));
        n = ir3_op2(e, IR3_AND_B, by, ir3_imm(31));
        back = ir3_op2(e, IR3_XOR_B, n, ir3_imm(31));
    }
    if (op == UOP_SHL) {
        cross = ir3_op2(e, IR3_SHR_B, ir3_op2(e, IR3_SHR_B, a.lo, ir3_imm(1)),
                        back);
        end = ir3_op2(e, IR3_SHL_B, a.lo, n);
        r.hi = ir3_select(
            e, far, end,
            ir3_op2(e, IR3_OR_B, ir3_op2(e, IR3_SHL_B, a.hi, n), cross));
        r.lo = ir3_select(e, far, ir3_imm(0), end);
        return r;
    }
    cross =
        ir3_op2(e, IR3_SHL_B, ir3_op2(e, IR3_SHL_B, a.hi, ir3_imm(1)), back);
    end = ir3_op2(e, right, a.hi, n);
    r.lo =
        ir3_select(e, far, end,
                   ir3_op2(e, IR3_OR_B, ir3_op2(e, IR3_SHR_B, a.lo, n), cross));
    r.hi = ir3_select(e, far,
                      is_signed ? ir3_op2(e, IR3_ASHR_B, a.hi, ir3_imm(31))
                                : ir3_imm(0),
                      end);
    return r;
}

/* Digit by digit, in a loop. */
static struct ir3_lane
divide64(struct ir3_emit *e, bool is_quotient, struct ir3_lane x,
         struct ir3_lane y)
{
    struct ir3_opnd i = ir3_vreg_new(e, 1, false), top, more;
    struct ir3_lane q, r, next;
    uint32_t label = ir3_label(e);
    unsigned k;

    q.lo = ir3_vreg_new(e, 1, false);
    q.hi = ir3_vreg_new(e, 1, false);
    r.lo = ir3_vreg_new(e, 1, false);
    r.hi = ir3_vreg_new(e, 1, false);
    y.lo = ir3_in_reg(e, y.lo);
    y.hi = ir3_in_reg(e, y.hi);
    ir3_move(e, q.lo, x.lo);
    ir3_move(e, q.hi, x.hi);
    ir3_move(e, r.lo, ir3_imm(0));
    ir3_move(e, r.hi, ir3_imm(0));
    ir3_move(e, i, ir3_imm(64));
    ir3_place(e, label);
    /* rest = rest * 2 + the next digit of x, which leaves q on the left */
    top = ir3_op2(e, IR3_SHR_B, q.hi, ir3_imm(31));
    next = ir3_shift64(e, UOP_SHL, false, r, ir3_imm(1));
    next.lo = ir3_op2(e, IR3_OR_B, next.lo, top);
    /* the digit that is lost on the left: then rest is larger than y, too */
    top = ir3_op2(e, IR3_SHR_B, r.hi, ir3_imm(31));
    more = ir3_compare(e, IR3_CMPS_U, IR3_EQ, ir3_less64(e, false, next, y),
                       ir3_imm(0));
    more = ir3_op2(e, IR3_OR_B, more, top);
    next = select64(e, more, ir3_sub64(e, next, y), next);
    ir3_move(e, r.lo, next.lo);
    ir3_move(e, r.hi, next.hi);
    next = ir3_shift64(e, UOP_SHL, false, q, ir3_imm(1));
    next.lo = ir3_op2(e, IR3_OR_B, next.lo, more);
    ir3_move(e, q.lo, next.lo);
    ir3_move(e, q.hi, next.hi);
    ir3_move(e, i, ir3_op2(e, IR3_SUB_U, i, ir3_imm(1)));
    ir3_branch(e, i, true, label);
    r = is_quotient ? q : r;
    /* what the loop sets is copied: lanes are not changed by others */
    for (k = 0; k < 2; k++) {
        struct ir3_opnd *part = k ? &r.hi : &r.lo, copy;
        copy = ir3_vreg_new(e, 1, false);
        ir3_move(e, copy, *part);
        *part = copy;
    }
    return r;
}

static struct ir3_lane
negate64(struct ir3_emit *e, struct ir3_lane a)
{
    return ir3_sub64(e, (struct ir3_lane){ir3_imm(0), ir3_imm(0)}, a);
}

static struct ir3_lane
divide_signed64(struct ir3_emit *e, bool is_quotient, bool is_signed,
                struct ir3_lane x, struct ir3_lane y)
{
    struct ir3_opnd x_sign, y_sign, sign;
    struct ir3_lane r;

    if (!is_signed)
        return divide64(e, is_quotient, x, y);
    x_sign = ir3_compare(e, IR3_CMPS_S, IR3_LT, x.hi, ir3_imm(0));
    y_sign = ir3_compare(e, IR3_CMPS_S, IR3_LT, y.hi, ir3_imm(0));
    sign = is_quotient ? ir3_op2(e, IR3_XOR_B, x_sign, y_sign) : x_sign;
    x = select64(e, x_sign, negate64(e, x), x);
    y = select64(e, y_sign, negate64(e, y), y);
    r = divide64(e, is_quotient, x, y);
    return select64(e, sign, negate64(e, r), r);
}

static bell_status
emit_64(struct ir3_emit *e, const struct uop *u, enum uop_op op, bool is_signed,
        const struct ir3_lane **src, struct ir3_lane *out)
{
    struct ir3_lane a = *src[0], b = src[1] ? *src[1] : a;
    struct ir3_opnd c;

    switch ((int)op) {
    case UOP_ADD:
        *out = ir3_add64(e, a, b);
        return BELL_OK;
    case UOP_SUB:
        *out = ir3_sub64(e, a, b);
        return BELL_OK;
    case UOP_NEG:
        *out = negate64(e, a);
        return BELL_OK;
    case UOP_MUL:
        *out = mul64(e, a, b);
        return BELL_OK;
    case UOP_MULACC:
        *out = ir3_add64(e, mul64(e, a, b), *src[2]);
        return BELL_OK;
    case UOP_IDIV:
    case UOP_IMOD:
        *out = divide_signed64(e, op == UOP_IDIV, is_signed, a, b);
        return BELL_OK;
    case UOP_MAX:
    case UOP_MIN:
        c = ir3_less64(e, is_signed, a, b);
        *out = op == UOP_MAX ? select64(e, c, b, a) : select64(e, c, a, b);
        return BELL_OK;
    case UOP_SHL:
    case UOP_SHR:
        *out = ir3_shift64(e, op, is_signed, a, b.lo);
        return BELL_OK;
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR: {
        enum ir3_op bits = op == UOP_AND  ? IR3_AND_B
                           : op == UOP_OR ? IR3_OR_B
                                          : IR3_XOR_B;
        out->lo = ir3_op2(e, bits, a.lo, b.lo);
        out->hi = ir3_op2(e, bits, a.hi, b.hi);
        return BELL_OK;
    }
    case UOP_CMPLT:
        out->lo = ir3_less64(e, is_signed, a, b);
        return BELL_OK;
    case UOP_CMPEQ:
    case UOP_CMPNE:
        out->lo = equal64(e, op == UOP_CMPEQ ? IR3_EQ : IR3_NE, a, b);
        return BELL_OK;
    case UOP_WHERE:
        *out = select64(e, a.lo, b, *src[2]);
        return BELL_OK;
    default:
        return ir3_refuse(e, u, "no such thing of 64 bits");
    }
}

/* ---- all ---- */

static bell_status
emit_int(struct ir3_emit *e, const struct uop *u, enum uop_op op,
         unsigned dtype, const struct ir3_lane **src, struct ir3_lane *out)
{
    bool is_signed = uop_dtype_infos[dtype].is_signed;
    enum ir3_op compare = is_signed ? IR3_CMPS_S : IR3_CMPS_U;
    struct ir3_opnd a = src[0]->lo, b = src[1] ? src[1]->lo : a;
    struct ir3_opnd r;

    switch ((int)op) {
    case UOP_ADD:
        r = ir3_op2(e, dtype == UOP_BOOL ? IR3_OR_B : IR3_ADD_U, a, b);
        break;
    case UOP_SUB:
        r = ir3_op2(e, dtype == UOP_BOOL ? IR3_XOR_B : IR3_SUB_U, a, b);
        break;
    case UOP_NEG:
        r = dtype == UOP_BOOL ? a : ir3_op2(e, IR3_SUB_U, ir3_imm(0), a);
        break;
    case UOP_MUL:
        r = dtype == UOP_BOOL ? ir3_op2(e, IR3_AND_B, a, b)
                              : ir3_mul32(e, a, b);
        break;
    case UOP_MULACC:
        r = dtype == UOP_BOOL
                ? ir3_op2(e, IR3_OR_B, ir3_op2(e, IR3_AND_B, a, b), src[2]->lo)
                : ir3_op2(e, IR3_ADD_U, ir3_mul32(e, a, b), src[2]->lo);
        break;
    case UOP_IDIV:
    case UOP_IMOD:
        r = divide_ints(e, op == UOP_IDIV, dtype, a, b);
        break;
    case UOP_MAX:
        r = ir3_op2(e, is_signed ? IR3_MAX_S : IR3_MAX_U, a, b);
        break;
    case UOP_MIN:
        r = ir3_op2(e, is_signed ? IR3_MIN_S : IR3_MIN_U, a, b);
        break;
    case UOP_SHL:
        r = ir3_op2(e, IR3_SHL_B, a, b);
        break;
    case UOP_SHR:
        r = ir3_op2(e, is_signed ? IR3_ASHR_B : IR3_SHR_B, a, b);
        break;
    case UOP_AND:
        r = ir3_op2(e, IR3_AND_B, a, b);
        break;
    case UOP_OR:
        r = ir3_op2(e, IR3_OR_B, a, b);
        break;
    case UOP_XOR:
        r = ir3_op2(e, IR3_XOR_B, a, b);
        break;
    case UOP_CMPLT:
        out->lo = ir3_compare(e, compare, IR3_LT, a, b);
        return BELL_OK;
    case UOP_CMPEQ:
        out->lo = ir3_compare(e, compare, IR3_EQ, a, b);
        return BELL_OK;
    case UOP_CMPNE:
        out->lo = ir3_compare(e, compare, IR3_NE, a, b);
        return BELL_OK;
    default:
        return ir3_refuse(e, u, "no such thing of integers");
    }
    out->lo = ir3_wrap(e, dtype, r);
    return BELL_OK;
}

bell_status
ir3_emit_alu(struct ir3_emit *e, const struct uop *u, enum uop_op op,
             unsigned dtype, const struct ir3_lane *src[3],
             struct ir3_lane *out)
{
    if (ir3_is_64(dtype))
        return emit_64(e, u, op, dtype == UOP_I64, src, out);
    if (op == UOP_WHERE) {
        out->lo = ir3_select(e, src[0]->lo, src[1]->lo, src[2]->lo);
        return BELL_OK;
    }
    if (dtype == UOP_F32)
        return ir3_emit_float(e, u, op, src, out);
    if (uop_dtype_infos[dtype].is_float)
        return ir3_refuse(e, u, "floats of this size are stored only");
    return emit_int(e, u, op, dtype, src, out);
}
