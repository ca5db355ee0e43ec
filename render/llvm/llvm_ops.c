/* Arithmetic, conversions and lane operations as LLVM instructions.
 *
 * Only exact forms are used: no fast-math flags, no contraction (but where a
 * GPU's target asks for its own: see llvm_dialect.approximate). Every
 * intrinsic here becomes instructions on the processors we run on; what
 * would become a call into the C library is found by render_host's check of
 * undefined symbols.
 */
#include "render/llvm/llvm_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MAX_LANES 256

static bool
is_signed(unsigned dtype)
{
    return uop_dtype_infos[dtype].is_signed;
}

static LLVMValueRef
binop(struct llvm_emit *e, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b)
{
    return e->ll->BuildBinOp(e->b, op, a, b, "");
}

static LLVMValueRef
unary_intrinsic(struct llvm_emit *e, const char *name, LLVMValueRef a)
{
    LLVMTypeRef type = e->ll->TypeOf(a);

    return llvm_intrinsic(e, name, &type, 1, &a, 1);
}

/* Rounds towards zero without the instruction: numbers of 2^23 and more (2^52
 * for F64) are whole, smaller ones survive a trip through an integer, which
 * loses only the sign of zero. */
static LLVMValueRef
trunc_by_int(struct llvm_emit *e, const struct uop *u, LLVMValueRef a)
{
    bool is_f64 = u->dtype == UOP_F64;
    LLVMTypeRef float_type = e->ll->TypeOf(a);
    LLVMTypeRef int_type = llvm_type(e, is_f64 ? UOP_I64 : UOP_I32, u->lanes);
    union uop_arg limit = {.f = is_f64 ? 0x1p52 : 0x1p23};
    LLVMValueRef size = unary_intrinsic(e, "llvm.fabs", a);
    LLVMValueRef bound =
        llvm_splat(e, llvm_const(e, u->dtype, limit), u->lanes);
    LLVMValueRef small = e->ll->BuildFCmp(e->b, LLVMRealOLT, size, bound, "");
    LLVMTypeRef sat_types[2] = {int_type, float_type};
    LLVMValueRef whole =
        llvm_intrinsic(e, "llvm.fptosi.sat", sat_types, 2, &a, 1);
    LLVMValueRef args[2];

    assert(u->dtype == UOP_F32 || u->dtype == UOP_F64);
    args[0] = e->ll->BuildCast(e->b, LLVMSIToFP, whole, float_type, "");
    args[1] = a;
    whole = llvm_intrinsic(e, "llvm.copysign", &float_type, 1, args, 2);
    return e->ll->BuildSelect(e->b, small, whole, a, "");
}

static bell_status
emit_unary(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
           LLVMValueRef *out_value)
{
    switch (u->op) {
    case UOP_NEG:
        if (u->dtype == UOP_BOOL)
            *out_value = a;
        else if (uop_dtype_is_float(u->dtype))
            *out_value = e->ll->BuildFNeg(e->b, a, "");
        else
            *out_value = e->ll->BuildNeg(e->b, a, "");
        return BELL_OK;
    case UOP_SQRT:
        *out_value = unary_intrinsic(e, "llvm.sqrt", a);
        return BELL_OK;
    case UOP_TRUNC:
        *out_value = e->machine->has_round ? unary_intrinsic(e, "llvm.trunc", a)
                                           : trunc_by_int(e, u, a);
        return BELL_OK;
    default:
        return llvm_refuse(e, u, "it should have been decomposed");
    }
}

/* True for a constant of floats, in one lane or all, that is not NaN. */
static bool
is_number(const struct uop *u, double *out_value)
{
    if (u->op == UOP_BROADCAST)
        u = u->src[0];
    if (u->op != UOP_CONST || isnan(u->arg.f))
        return false;
    *out_value = u->arg.f;
    return true;
}

/* The greater, or the lesser, one; b where they are equal or one is NaN. */
static LLVMValueRef
pick_extreme(struct llvm_emit *e, unsigned op, LLVMValueRef a, LLVMValueRef b)
{
    LLVMRealPredicate pred = op == UOP_MAX ? LLVMRealOGT : LLVMRealOLT;
    LLVMValueRef wins = e->ll->BuildFCmp(e->b, pred, a, b, "");

    return e->ll->BuildSelect(e->b, wins, a, b, "");
}

/* MAX and MIN of a number c and x: x where it is NaN. A zero that wins over the
 * other one is the result where x is either. */
static LLVMValueRef
extreme_of_number(struct llvm_emit *e, unsigned op, double number,
                  LLVMValueRef c, LLVMValueRef x)
{
    bool is_max = op == UOP_MAX;
    LLVMValueRef wins;

    if (number != 0 || (signbit(number) != 0) == is_max)
        return pick_extreme(e, op, c, x);
    wins = e->ll->BuildFCmp(e->b, is_max ? LLVMRealUGT : LLVMRealULT, x, c, "");
    return e->ll->BuildSelect(e->b, wins, x, c, "");
}

/* MAX and MIN of floats: NaN if either is, and +0 above -0, which compare
 * equal. A CPU's instruction returns its second operand for NaN and for zeros.
 * Asked both ways round, its answers differ there alone. One of them is NaN,
 * and so all bits of both together, or they are zeros: MAX takes the sign that
 * both have, MIN that of either. A GPU's instruction orders zeros and loses
 * NaN. src: AMD's RDNA 3 instruction set guide, V_MAX_F32 */
static LLVMValueRef
float_extreme(struct llvm_emit *e, unsigned op, unsigned dtype, unsigned lanes,
              LLVMValueRef a, LLVMValueRef b)
{
    unsigned n_bits = uop_dtype_infos[dtype].size_bytes * 8u, i;
    unsigned word = n_bits == 64 ? UOP_I64 : n_bits == 32 ? UOP_I32 : UOP_I16;
    LLVMTypeRef type = e->ll->TypeOf(a), ints = llvm_type(e, word, lanes);
    union uop_arg nan = {.f = (double)NAN}, but_sign = {.i = 0};
    LLVMValueRef args[2] = {a, b}, bits[2], both, r;

    assert(op == UOP_MAX || op == UOP_MIN);
    if (e->dialect->is_gpu) {
        r = llvm_intrinsic(e, op == UOP_MAX ? "llvm.maxnum" : "llvm.minnum",
                           &type, 1, args, 2);
        return e->ll->BuildSelect(
            e->b, e->ll->BuildFCmp(e->b, LLVMRealUNO, a, b, ""),
            llvm_splat(e, llvm_const(e, dtype, nan), lanes), r, "");
    }
    for (i = 0; i < 2; i++) {
        r = pick_extreme(e, op, args[i], args[1 - i]);
        bits[i] = e->ll->BuildCast(e->b, LLVMBitCast, r, ints, "");
    }
    r = binop(e, LLVMOr, bits[0], bits[1]);
    if (op == UOP_MAX) {
        but_sign.i = (int64_t)(((uint64_t)1 << (n_bits - 1)) - 1);
        both = binop(e, LLVMAnd, bits[0], bits[1]);
        both = binop(e, LLVMOr, both,
                     llvm_splat(e, llvm_const(e, word, but_sign), lanes));
        r = binop(e, LLVMAnd, r, both);
    }
    return e->ll->BuildCast(e->b, LLVMBitCast, r, type, "");
}

static LLVMValueRef
int_extreme(struct llvm_emit *e, unsigned op, unsigned dtype, LLVMValueRef a,
            LLVMValueRef b)
{
    bool is_max = op == UOP_MAX, sgn = is_signed(dtype);
    LLVMIntPredicate pred;
    LLVMValueRef wins;

    assert(!uop_dtype_is_float(dtype) && (op == UOP_MAX || op == UOP_MIN));
    if (dtype == UOP_BOOL)
        return binop(e, is_max ? LLVMOr : LLVMAnd, a, b);
    if (is_max)
        pred = sgn ? LLVMIntSGT : LLVMIntUGT;
    else
        pred = sgn ? LLVMIntSLT : LLVMIntULT;
    wins = e->ll->BuildICmp(e->b, pred, a, b, "");
    return e->ll->BuildSelect(e->b, wins, a, b, "");
}

static LLVMValueRef
llvm_compare(struct llvm_emit *e, unsigned op, unsigned dtype, LLVMValueRef a,
             LLVMValueRef b)
{
    assert(op == UOP_CMPLT || op == UOP_CMPEQ || op == UOP_CMPNE);
    if (uop_dtype_is_float(dtype)) {
        LLVMRealPredicate pred = op == UOP_CMPLT   ? LLVMRealOLT
                                 : op == UOP_CMPEQ ? LLVMRealOEQ
                                                   : LLVMRealUNE;
        return e->ll->BuildFCmp(e->b, pred, a, b, "");
    }
    if (op == UOP_CMPLT)
        return e->ll->BuildICmp(
            e->b, is_signed(dtype) ? LLVMIntSLT : LLVMIntULT, a, b, "");
    return e->ll->BuildICmp(e->b, op == UOP_CMPEQ ? LLVMIntEQ : LLVMIntNE, a, b,
                            "");
}

LLVMValueRef
llvm_opaque(const struct llvm_emit *e, LLVMValueRef v, const char *same_place,
            bool stays)
{
    LLVMTypeRef type = e->ll->TypeOf(v);
    LLVMTypeRef fn = e->ll->FunctionType(type, &type, 1, 0);

    return e->ll->BuildCall2(e->b, fn,
                             e->ll->GetInlineAsm(fn, "", 0, same_place,
                                                 strlen(same_place), stays, 0,
                                                 LLVMInlineAsmDialectATT, 0),
                             &v, 1, "");
}

static int64_t most_of(const struct uop *u, uint32_t *visits);

/* The same for an op of two sources; -1 also where only the dtype tells. */
static int64_t
most_of_two(const struct uop *u, uint32_t *visits)
{
    int64_t most = uop_dtype_bounds(u->dtype).max;
    int64_t a = most_of(u->src[0], visits), b = most_of(u->src[1], visits);
    bool both = a >= 0 && b >= 0;

    switch ((unsigned)u->op) {
    case UOP_AND:
        return both && b < a ? b : a >= 0 ? a : b;
    case UOP_OR:
    case UOP_ADD:
        return both && a <= most - b ? a + b : -1;
    case UOP_MUL:
        return both && (b == 0 || a <= most / b) ? a * b : -1;
    case UOP_SHL:
        return both && b < 63 && a <= most >> b ? a << b : -1;
    case UOP_IMOD:
        return both && 0 < b && b <= a ? b - 1 : both ? a : -1;
    case UOP_SHR:
    case UOP_IDIV:
        return both ? a : -1;
    case UOP_MIN:
        return both && b < a ? b : both ? a : -1;
    default:
        return -1;
    }
}

/* An upper bound of u, an integer or a bool that is never negative; -1 where u
 * may be negative. *visits bounds the walk, which meets shared nodes again;
 * where it ends, u may be negative. uop_bounds knows this better: it should be
 * asked once renderers are given the graph of their program. */
static int64_t
most_of(const struct uop *u, uint32_t *visits)
{
    bool open = is_signed(u->dtype) || u->dtype == UOP_U64;
    int64_t most = uop_dtype_bounds(u->dtype).max, c = -1, a;
    uint32_t i;

    if (*visits == 0 || uop_dtype_is_float(u->dtype))
        return -1;
    --*visits;
    switch ((unsigned)u->op) {
    case UOP_CONST:
        c = u->arg.i;
        break;
    case UOP_SPECIAL:
    case UOP_RANGE:
        a = most_of(u->src[0], visits);
        c = a > 0 ? a - 1 : most;
        break;
    case UOP_CAST:
    case UOP_BROADCAST:
    case UOP_LANE:
        c = most_of(u->src[0], visits);
        break;
    case UOP_WHERE:
    case UOP_LANES:
        for (i = u->op == UOP_WHERE; i < u->n_src; i++) {
            a = most_of(u->src[i], visits);
            if (a < 0)
                return open ? -1 : most;
            c = a > c ? a : c;
        }
        break;
    default:
        if (u->n_src == 2 && u->op != UOP_LOAD && u->op != UOP_ACC_GET &&
            u->dtype != UOP_BOOL)
            c = most_of_two(u, visits);
        break;
    }
    return c >= 0 && c <= most ? c : open ? -1 : most;
}

LLVMValueRef
llvm_is_positive(struct llvm_emit *e, const struct uop *u, LLVMValueRef x)
{
    LLVMValueRef zero = e->ll->ConstNull(e->ll->TypeOf(x));
    uint32_t visits = 64;

    assert(is_signed(u->dtype) && !uop_dtype_is_float(u->dtype));
    if (e->dialect->is_gpu && most_of(u, &visits) >= 0)
        return e->ll->BuildICmp(e->b, LLVMIntNE, x, zero, "");
    return e->ll->BuildICmp(e->b, LLVMIntSLT, zero, x, "");
}

/* Whether it is CONST 0, in all lanes. */
static bool
is_zero(const struct uop *u)
{
    if (u->op == UOP_BROADCAST)
        u = u->src[0];
    return u->op == UOP_CONST && u->arg.bits == 0;
}

/* The same value, of which LLVM does not know how many leading bits are alike.
 * observed: LLVM 19.1's AMDGPU back end divides in 32 or 24 bits where both
 * operands have that many leading bits alike, ones too: an unsigned quotient of
 * a sign-extended negative number comes out wrong. */
static LLVMValueRef
without_known_sign(struct llvm_emit *e, LLVMValueRef v, unsigned dtype,
                   unsigned lanes)
{
    LLVMValueRef zero = e->ll->ConstNull(llvm_type(e, dtype, 1));

    assert(e->dialect->is_gpu && !uop_dtype_is_float(dtype));
    if (uop_dtype_infos[dtype].size_bytes < 4)
        return v;
    zero = llvm_opaque(e, zero, "=s,0", false);
    return binop(e, LLVMOr, v, llvm_splat(e, zero, lanes));
}

/* Lane by lane, as inline assembly has registers. */
static LLVMValueRef
opaque_lanes(struct llvm_emit *e, LLVMValueRef v, uint32_t lanes)
{
    static const char place[] = "=v,0";
    LLVMValueRef lane;
    uint32_t i;

    if (lanes == 1)
        return llvm_opaque(e, v, place, false);
    for (i = 0; i < lanes; i++) {
        lane = e->ll->BuildExtractElement(e->b, v, llvm_i32(e, i), "");
        lane = llvm_opaque(e, lane, place, false);
        v = e->ll->BuildInsertElement(e->b, v, lane, llvm_i32(e, i), "");
    }
    return v;
}

/* Whether the op gives the opposite of a bool. */
static bool
is_inversion(unsigned op, LLVMValueRef a, LLVMValueRef b,
             const struct llvm_api *ll)
{
    return op == UOP_CMPEQ || ((op == UOP_CMPNE || op == UOP_XOR) &&
                               (ll->IsConstant(a) || ll->IsConstant(b)));
}

/* The comparison of bools as numbers.
 * observed: LLVM 19.1's AMDGPU back end inverts a mask of lanes in those that
 * do not run, too, and where all lanes that run have the same value makes
 * arithmetic of whether the mask is 0: -(a == b) in a work-group of one thread
 * (random program 12 of the renderer tests, gfx942). */
static LLVMValueRef
compare_as_numbers(struct llvm_emit *e, unsigned op, uint32_t lanes,
                   LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = llvm_type(e, UOP_I32, lanes);

    assert(op == UOP_CMPEQ || op == UOP_CMPNE || op == UOP_XOR);
    a = opaque_lanes(e, e->ll->BuildCast(e->b, LLVMZExt, a, type, ""), lanes);
    b = e->ll->BuildCast(e->b, LLVMZExt, b, type, "");
    return e->ll->BuildICmp(e->b, op == UOP_CMPEQ ? LLVMIntEQ : LLVMIntNE, a, b,
                            "");
}

/* May LLVM know lanes of it to be 0? *visits bounds the walk, in which shared
 * nodes are met again; where it ends, they may. */
static bool
has_zero_lanes(const struct uop *u, uint32_t *visits)
{
    uint32_t i;

    if (*visits == 0)
        return true;
    --*visits;
    switch ((unsigned)u->op) {
    case UOP_CONST:
        return u->arg.f == 0;
    case UOP_LOAD:
        return u->n_src > 2; /* behind a gate */
    case UOP_WHERE:
        return has_zero_lanes(u->src[1], visits) ||
               has_zero_lanes(u->src[2], visits);
    case UOP_LANES:
        for (i = 0; i < u->n_src; i++) {
            if (has_zero_lanes(u->src[i], visits))
                return true;
        }
        return false;
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_FDIV:
        return has_zero_lanes(u->src[0], visits) &&
               has_zero_lanes(u->src[1], visits);
    default:
        return false;
    }
}

LLVMValueRef
llvm_divide(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
            LLVMValueRef b,
            LLVMValueRef (*mark)(struct llvm_emit *e, LLVMValueRef v))
{
    LLVMValueRef v, lane[2], out;
    uint32_t i, visits = 512;

    assert(u->op == UOP_FDIV && (!mark || e->dialect->is_gpu));
    if (u->lanes == 1 || (!e->dialect->is_gpu && !has_zero_lanes(u, &visits))) {
        v = e->ll->BuildBinOp(e->b, LLVMFDiv, a, b, "");
        return mark ? mark(e, v) : v;
    }
    out = e->ll->GetPoison(e->ll->TypeOf(a));
    for (i = 0; i < u->lanes; i++) {
        lane[0] = e->ll->BuildExtractElement(e->b, a, llvm_i32(e, i), "");
        lane[1] = e->ll->BuildExtractElement(e->b, b, llvm_i32(e, i), "");
        v = e->ll->BuildBinOp(e->b, LLVMFDiv, lane[0], lane[1], "");
        v = mark ? mark(e, v) : v;
        out = e->ll->BuildInsertElement(e->b, out, v, llvm_i32(e, i), "");
    }
    return out;
}

/* A binary op on operands of `dtype`; NULL where a program has no such op. */
static LLVMValueRef
combine(struct llvm_emit *e, unsigned op, unsigned dtype, unsigned lanes,
        LLVMValueRef a, LLVMValueRef b)
{
    bool flt = uop_dtype_is_float(dtype), sgn = is_signed(dtype);
    bool boolean = dtype == UOP_BOOL;

    switch (op) {
    case UOP_ADD:
        return binop(e, boolean ? LLVMOr : flt ? LLVMFAdd : LLVMAdd, a, b);
    case UOP_SUB:
        return binop(e, flt ? LLVMFSub : LLVMSub, a, b);
    case UOP_MUL:
        return binop(e, boolean ? LLVMAnd : flt ? LLVMFMul : LLVMMul, a, b);
    case UOP_IDIV:
        return binop(e, sgn ? LLVMSDiv : LLVMUDiv, a, b);
    case UOP_IMOD:
        return binop(e, sgn ? LLVMSRem : LLVMURem, a, b);
    case UOP_SHL:
        return binop(e, LLVMShl, a, b);
    case UOP_SHR:
        return binop(e, sgn ? LLVMAShr : LLVMLShr, a, b);
    case UOP_AND:
        return binop(e, LLVMAnd, a, b);
    case UOP_OR:
        return binop(e, LLVMOr, a, b);
    case UOP_XOR:
        return binop(e, LLVMXor, a, b);
    case UOP_MAX:
    case UOP_MIN:
        return flt ? float_extreme(e, op, dtype, lanes, a, b)
                   : int_extreme(e, op, dtype, a, b);
    case UOP_CMPLT:
    case UOP_CMPEQ:
    case UOP_CMPNE:
        return llvm_compare(e, op, dtype, a, b);
    default:
        return NULL;
    }
}

static bell_status
emit_binary(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
            LLVMValueRef b, LLVMValueRef *out_value)
{
    unsigned dtype = u->src[0]->dtype;
    bool extreme =
        uop_dtype_is_float(dtype) && (u->op == UOP_MAX || u->op == UOP_MIN);
    double number;

    if (e->dialect->is_gpu && (u->op == UOP_IDIV || u->op == UOP_IMOD) &&
        !is_signed(dtype))
        a = without_known_sign(e, a, dtype, u->src[0]->lanes);
    if (extreme && is_number(u->src[0], &number))
        *out_value = extreme_of_number(e, u->op, number, a, b);
    else if (extreme && is_number(u->src[1], &number))
        *out_value = extreme_of_number(e, u->op, number, b, a);
    else if (e->dialect->is_gpu && dtype == UOP_BOOL &&
             is_inversion(u->op, a, b, e->ll))
        *out_value = compare_as_numbers(e, u->op, u->lanes, a, b);
    else if (u->op == UOP_CMPLT && is_signed(dtype) &&
             !uop_dtype_is_float(dtype) && is_zero(u->src[0]))
        *out_value = llvm_is_positive(e, u->src[1], b);
    else if (u->op == UOP_FDIV)
        *out_value = llvm_divide(e, u, a, b, NULL);
    else
        *out_value = combine(e, u->op, dtype, u->src[0]->lanes, a, b);
    if (!*out_value)
        return llvm_refuse(e, u, "it should have been decomposed");
    return BELL_OK;
}

static LLVMValueRef
emit_mulacc(struct llvm_emit *e, const struct uop *u, LLVMValueRef *v)
{
    LLVMTypeRef type = e->ll->TypeOf(v[0]);

    assert(u->n_src == 3 && !uop_dtype_is_small(u->dtype));
    if (uop_dtype_is_float(u->dtype))
        return llvm_intrinsic(e, "llvm.fma", &type, 1, v, 3);
    if (u->dtype == UOP_BOOL)
        return binop(e, LLVMOr, binop(e, LLVMAnd, v[0], v[1]), v[2]);
    return binop(e, LLVMAdd, binop(e, LLVMMul, v[0], v[1]), v[2]);
}

/* A conversion that is one step; neither side is a small float. */
static LLVMValueRef
cast_plain(struct llvm_emit *e, unsigned from, unsigned to, unsigned lanes,
           LLVMValueRef a)
{
    LLVMTypeRef types[2] = {llvm_type(e, to, lanes), e->ll->TypeOf(a)};
    LLVMValueRef zero = e->ll->ConstNull(types[1]);
    unsigned from_size = uop_dtype_infos[from].size_bytes;
    unsigned to_size = uop_dtype_infos[to].size_bytes;
    LLVMOpcode op;

    assert(!uop_dtype_is_small(from) && !uop_dtype_is_small(to));
    if (to == UOP_BOOL)
        return uop_dtype_is_float(from)
                   ? e->ll->BuildFCmp(e->b, LLVMRealUNE, a, zero, "")
                   : e->ll->BuildICmp(e->b, LLVMIntNE, a, zero, "");
    if (uop_dtype_is_float(from) && !uop_dtype_is_float(to))
        return llvm_intrinsic(
            e, is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2,
            &a, 1);
    if (uop_dtype_is_float(from))
        op = to_size > from_size ? LLVMFPExt : LLVMFPTrunc;
    else if (uop_dtype_is_float(to))
        op = is_signed(from) ? LLVMSIToFP : LLVMUIToFP;
    else if (from == UOP_BOOL || (to_size > from_size && !is_signed(from)))
        op = LLVMZExt;
    else if (to_size > from_size)
        op = LLVMSExt;
    else
        op = to_size < from_size ? LLVMTrunc : LLVMBitCast;
    return e->ll->BuildCast(e->b, op, a, types[0], "");
}

/* Whether its CASTs are integer arithmetic by now. */
static bool
is_stored_only(unsigned dtype)
{
    return uop_dtype_is_small(dtype) && dtype != UOP_F16;
}

/* May LLVM see a product in u, a part of which it is? */
static bool
is_product(const struct uop *u)
{
    uint32_t i;

    switch (u->op) {
    case UOP_MUL:
        return true;
    case UOP_NEG:
    case UOP_BROADCAST:
    case UOP_LANES:
    case UOP_LANE:
        for (i = 0; i < u->n_src; i++) {
            if (is_product(u->src[i]))
                return true;
        }
        return false;
    default:
        return false;
    }
}

/* LLVM's AMDGPU back end before 2026-08 makes one instruction of a product and
 * its rounding to F16, which adds 0 to it: -0 becomes 0 (src: llvm-project pull
 * request 214544). So it does not see that it is a product. */
static LLVMValueRef
round_to_half(struct llvm_emit *e, const struct uop *u, LLVMValueRef a)
{
    assert(u->dtype != UOP_F16);
    if (e->dialect->is_gpu && is_product(u))
        a = opaque_lanes(e, a, u->lanes);
    return e->ll->BuildCast(e->b, LLVMFPTrunc, a,
                            llvm_vector(e, e->t_f16, u->lanes), "");
}

/* F16 goes by way of F32: exactly from it, and to it with what F32 holds. */
static bell_status
emit_llvm_cast(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
               LLVMValueRef *out_value)
{
    unsigned from = u->src[0]->dtype, to = u->dtype;
    LLVMTypeRef half = llvm_vector(e, e->t_f16, u->lanes);

    if (from != to && (is_stored_only(from) || is_stored_only(to) ||
                       (from == UOP_F64 && to == UOP_F16)))
        return llvm_refuse(e, u, "this conversion should have been decomposed");
    if (from != to && from == UOP_F16) {
        a = e->ll->BuildCast(e->b, LLVMBitCast, a, half, "");
        a = e->ll->BuildCast(e->b, LLVMFPExt, a,
                             llvm_type(e, UOP_F32, u->lanes), "");
        from = UOP_F32;
    }
    if (from != to && to == UOP_F16) {
        if (from != UOP_F32)
            a = cast_plain(e, from, UOP_F32, u->lanes, a);
        a = round_to_half(e, u->src[0], a);
        a = e->ll->BuildCast(e->b, LLVMBitCast, a, llvm_type(e, to, u->lanes),
                             "");
        from = UOP_F16;
    }
    *out_value = from == to ? a : cast_plain(e, from, to, u->lanes, a);
    return BELL_OK;
}

/* Said as what it is, an absolute value is right. observed: LLVM 19.1.7's
 * AMDGPU back end loses the sign of -|x| for some lanes where x, or what its
 * bits are made of, is a choice of two constants and |x| operations on its
 * bits. */
static bell_status
emit_llvm_bitcast(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
                  LLVMValueRef *out_value)
{
    unsigned from = u->src[0]->dtype, to = u->dtype;
    LLVMTypeRef type = llvm_type(e, to, u->lanes);
    const struct uop *x = uop_abs_bits(u);

    if (x) {
        BELL_TRY(llvm_value_of(e, x, &a));
        a = e->ll->BuildCast(e->b, LLVMBitCast, a, type, "");
        *out_value = unary_intrinsic(e, "llvm.fabs", a);
        return BELL_OK;
    }
    if (uop_dtype_infos[from].size_bytes != uop_dtype_infos[to].size_bytes)
        return llvm_refuse(e, u, "the sizes differ");
    if (from == UOP_BOOL && to != UOP_BOOL)
        *out_value = e->ll->BuildCast(e->b, LLVMZExt, a, type, "");
    else if (to == UOP_BOOL && from != UOP_BOOL)
        *out_value = e->ll->BuildICmp(e->b, LLVMIntNE, a,
                                      e->ll->ConstNull(e->ll->TypeOf(a)), "");
    else
        *out_value = e->ll->BuildCast(e->b, LLVMBitCast, a, type, "");
    return BELL_OK;
}

static bell_status
emit_lanes_repeat(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
                  LLVMValueRef *out_value)
{
    LLVMValueRef lane[MAX_LANES];
    uint32_t i;

    assert(u->arg.i > 0);
    if (u->lanes > MAX_LANES)
        return llvm_refuse(e, u, "too many lanes");
    for (i = 0; i < u->lanes; i++)
        lane[i] = llvm_i32(e, i / (uint32_t)u->arg.i);
    *out_value =
        e->ll->BuildShuffleVector(e->b, a, e->ll->GetPoison(e->ll->TypeOf(a)),
                                  e->ll->ConstVector(lane, u->lanes), "");
    return BELL_OK;
}

static bell_status
emit_byte_dot(struct llvm_emit *e, const struct uop *u, LLVMValueRef *v,
              LLVMValueRef *out_value)
{
    *out_value = e->dialect->byte_dot ? e->dialect->byte_dot(e, u, v) : NULL;
    return *out_value ? BELL_OK : llvm_refuse(e, u, "there is no such thing");
}

static bell_status
emit_llvm_lanes(struct llvm_emit *e, const struct uop *u,
                LLVMValueRef *out_value)
{
    LLVMValueRef v = e->ll->GetPoison(llvm_type(e, u->dtype, u->lanes));
    uint32_t i;

    if (u->n_src != u->lanes)
        return llvm_refuse(e, u, "sources and lanes differ in number");
    *out_value = NULL;
    if (e->dialect->lanes)
        BELL_TRY(e->dialect->lanes(e, u, out_value));
    if (*out_value)
        return BELL_OK;
    for (i = 0; i < u->n_src; i++) {
        LLVMValueRef lane;
        BELL_TRY(llvm_value_of(e, u->src[i], &lane));
        v = e->ll->BuildInsertElement(e->b, v, lane, llvm_i32(e, i), "");
    }
    *out_value = v;
    return BELL_OK;
}

static bell_status
emit_ramp(struct llvm_emit *e, const struct uop *u, LLVMValueRef *out_value)
{
    LLVMValueRef *lane = arena_alloc(&e->arena, u->lanes * sizeof(*lane));
    uint32_t i;

    if (!lane)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    for (i = 0; i < u->lanes; i++)
        lane[i] = llvm_const(e, u->dtype, (union uop_arg){.i = i});
    *out_value = u->lanes > 1 ? e->ll->ConstVector(lane, u->lanes) : lane[0];
    return BELL_OK;
}

/* Lanes begin..begin+n-1 of a vector; one lane gives a scalar. */
static LLVMValueRef
take_lanes(struct llvm_emit *e, LLVMValueRef v, uint32_t begin, uint32_t n)
{
    LLVMValueRef mask[MAX_LANES];
    uint32_t i;

    assert(n >= 1 && n <= MAX_LANES);
    if (n == 1)
        return e->ll->BuildExtractElement(e->b, v, llvm_i32(e, begin), "");
    for (i = 0; i < n; i++)
        mask[i] = llvm_i32(e, begin + i);
    return e->ll->BuildShuffleVector(e->b, v,
                                     e->ll->GetPoison(e->ll->TypeOf(v)),
                                     e->ll->ConstVector(mask, n), "");
}

/* In the order of render_join, a half at a time. */
static bell_status
emit_llvm_lanes_reduce(struct llvm_emit *e, const struct uop *u, LLVMValueRef a,
                       LLVMValueRef *out_value)
{
    uint32_t lanes = u->src[0]->lanes, p = 1, n, i;
    unsigned op = (unsigned)u->arg.i & 0xff;
    LLVMValueRef v = a;

    if (uop_dtype_is_small(u->dtype))
        return llvm_refuse(e, u, "small floats should have been widened");
    if (lanes > MAX_LANES)
        return llvm_refuse(e, u, "too many lanes");
    if (op == UOP_OR && u->dtype == UOP_BOOL) { /* has no order */
        LLVMTypeRef type = e->ll->TypeOf(a);
        *out_value =
            llvm_intrinsic(e, "llvm.vector.reduce.or", &type, 1, &a, 1);
        return BELL_OK;
    }
    while (p * 2 <= lanes)
        p *= 2;
    if (p < lanes)
        v = take_lanes(e, a, 0, p);
    for (n = p / 2; n >= 1 && v; n /= 2)
        v = combine(e, op, u->dtype, n, take_lanes(e, v, 0, n),
                    take_lanes(e, v, n, n));
    for (i = p; i < lanes && v; i++)
        v = combine(e, op, u->dtype, 1, v, take_lanes(e, a, i, 1));
    if (!v)
        return llvm_refuse(e, u, "it does not reduce");
    *out_value = v;
    return BELL_OK;
}

static bell_status
emit_wmma(struct llvm_emit *e, const struct uop *u, LLVMValueRef *v,
          LLVMValueRef *out_value)
{
    *out_value = e->dialect->matrix && u->n_src == 3
                     ? e->dialect->matrix(e, u, v)
                     : NULL;
    return *out_value ? BELL_OK
                      : llvm_refuse(e, u, "no such matrix instruction");
}

bell_status
llvm_emit_op(struct llvm_emit *e, const struct uop *u, LLVMValueRef *out_value)
{
    LLVMValueRef v[3] = {NULL, NULL, NULL};
    uint32_t i;

    if (u->op == UOP_LANES)
        return emit_llvm_lanes(e, u, out_value);
    if (u->n_src > 3)
        return llvm_refuse(e, u, "too many sources");
    for (i = 0; i < u->n_src; i++)
        BELL_TRY(llvm_value_of(e, u->src[i], &v[i]));
    if (uop_has(u, UOP_FLAG_ALU) && u->op != UOP_WHERE &&
        uop_dtype_is_small(u->src[0]->dtype))
        return llvm_refuse(e, u, "small floats should have been widened");
    *out_value =
        e->dialect->approximate ? e->dialect->approximate(e, u, v) : NULL;
    if (*out_value)
        return BELL_OK;
    switch (u->op) {
    case UOP_RAMP:
        return emit_ramp(e, u, out_value);
    case UOP_BROADCAST:
        *out_value = llvm_splat(e, v[0], u->lanes);
        return BELL_OK;
    case UOP_LANE:
        *out_value = e->ll->BuildExtractElement(
            e->b, v[0], llvm_i32(e, (uint32_t)u->arg.i), "");
        return BELL_OK;
    case UOP_LANES_REDUCE:
        return emit_llvm_lanes_reduce(e, u, v[0], out_value);
    case UOP_LANES_REPEAT:
        return emit_lanes_repeat(e, u, v[0], out_value);
    case UOP_BYTE_DOT:
        return emit_byte_dot(e, u, v, out_value);
    case UOP_CAST:
        return emit_llvm_cast(e, u, v[0], out_value);
    case UOP_BITCAST:
        return emit_llvm_bitcast(e, u, v[0], out_value);
    case UOP_WHERE:
        *out_value = e->ll->BuildSelect(e->b, v[0], v[1], v[2], "");
        return BELL_OK;
    case UOP_MULACC:
        *out_value = emit_mulacc(e, u, v);
        return BELL_OK;
    case UOP_WMMA:
        return emit_wmma(e, u, v, out_value);
    case UOP_NEG:
    case UOP_SQRT:
    case UOP_TRUNC:
        return emit_unary(e, u, v[0], out_value);
    default:
        if (u->n_src != 2 || !uop_has(u, UOP_FLAG_ALU))
            return llvm_refuse(e, u, "there is no such thing");
        return emit_binary(e, u, v[0], v[1], out_value);
    }
}
