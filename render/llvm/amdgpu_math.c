/* AMD: what is less exact than asked of others, on request: factors of matrix
 * products as XF32, approximate functions.
 */
#include "render/llvm/amdgpu_internal.h"

#include <assert.h>

/* The instruction cuts off what lies below 10 bits of fraction, towards zero,
 * which makes all sums too small; so they are rounded to nearest first. NaNs
 * stay as they are. src: ROCm/rocm-libraries, pull request 9176. */
LLVMValueRef
amdgpu_round_xf32(struct llvm_emit *e, LLVMValueRef v, uint32_t lanes)
{
    const struct llvm_api *ll = e->ll;
    LLVMTypeRef bits_type = llvm_type(e, UOP_I32, lanes);
    LLVMValueRef half = llvm_splat(e, llvm_i32(e, 0x1000), lanes);
    LLVMValueRef mask = llvm_splat(e, llvm_i32(e, 0xffffe000), lanes);
    LLVMValueRef nan = ll->BuildFCmp(e->b, LLVMRealUNO, v, v, "");
    LLVMValueRef bits = ll->BuildCast(e->b, LLVMBitCast, v, bits_type, "");

    assert(lanes > 0);
    bits = ll->BuildBinOp(e->b, LLVMAdd, bits, half, "");
    bits = ll->BuildBinOp(e->b, LLVMAnd, bits, mask, "");
    bits = ll->BuildCast(e->b, LLVMBitCast, bits, ll->TypeOf(v), "");
    return ll->BuildSelect(e->b, nan, v, bits, "");
}

/* ---- approximate functions ---- */

/* Good to 2.5 units in the last place: then the code generator takes the
 * card's own instructions, and puts around them what subnormals need, which
 * those take for 0. src: LLVM 19, AMDGPUCodeGenPrepare. */
static LLVMValueRef
allow_error(struct llvm_emit *e, LLVMValueRef v)
{
    const struct llvm_api *ll = e->ll;
    union uop_arg ulps = {.f = 2.5};
    LLVMMetadataRef bound = ll->ValueAsMetadata(llvm_const(e, UOP_F32, ulps));

    if (!ll->IsConstant(v)) /* folded */
        ll->SetMetadata(v, ll->GetMDKindIDInContext(e->ctx, "fpmath", 6),
                        ll->MetadataAsValue(
                            e->ctx, ll->MDNodeInContext2(e->ctx, &bound, 1)));
    return v;
}

static LLVMValueRef
amdgpu_constant(struct llvm_emit *e, double value, uint32_t lanes)
{
    union uop_arg arg = {.f = value};

    return llvm_splat(e, llvm_const(e, UOP_F32, arg), lanes);
}

/* 1/(2 pi) as two F32s. */
#define TURN_HIGH 0x1.45f306p-3
#define TURN_LOW  0x1.b9391p-28

/* Turns between -1/2 and 1/2. */
static LLVMValueRef
reduce_turns(struct llvm_emit *e, LLVMValueRef x, uint32_t lanes)
{
    LLVMTypeRef type = e->ll->TypeOf(x);
    LLVMValueRef high = amdgpu_constant(e, TURN_HIGH, lanes),
                 fma[3] = {x, high}, whole;

    whole = e->ll->BuildBinOp(e->b, LLVMFMul, x, high, "");
    whole = llvm_intrinsic(e, "llvm.rint", &type, 1, &whole, 1);
    fma[2] = e->ll->BuildFNeg(e->b, whole, "");
    fma[2] = llvm_intrinsic(e, "llvm.fma", &type, 1, fma, 3);
    fma[1] = amdgpu_constant(e, TURN_LOW, lanes);
    return llvm_intrinsic(e, "llvm.fma", &type, 1, fma, 3);
}

/* The card's own instruction, which is there for one lane. */
static LLVMValueRef
each_lane(struct llvm_emit *e, const char *name, LLVMValueRef x, uint32_t lanes)
{
    LLVMValueRef out, one;
    uint32_t i;

    assert(lanes > 0);
    if (lanes == 1)
        return llvm_intrinsic(e, name, &e->t_f32, 1, &x, 1);
    out = e->ll->GetPoison(e->ll->TypeOf(x));
    for (i = 0; i < lanes; i++) {
        one = e->ll->BuildExtractElement(e->b, x, llvm_i32(e, i), "");
        one = llvm_intrinsic(e, name, &e->t_f32, 1, &one, 1);
        out = e->ll->BuildInsertElement(e->b, out, one, llvm_i32(e, i), "");
    }
    return out;
}

/* v_sin_f32 and v_cos_f32 take revolutions. src: docs/hardware/amd-code.md,
 * "Vector operations" */
static LLVMValueRef
amdgpu_sin_or_cos(struct llvm_emit *e, unsigned op, LLVMValueRef x,
                  uint32_t lanes)
{
    return each_lane(e, op == UOP_SIN ? "llvm.amdgcn.sin" : "llvm.amdgcn.cos",
                     reduce_turns(e, x, lanes), lanes);
}

/* What the thread of a wave of 64 has whose number differs in these bits. */
static LLVMValueRef
from_lane(struct llvm_emit *e, LLVMValueRef v, uint32_t bits)
{
    LLVMValueRef args[2] = {llvm_i32(e, UINT32_MAX), llvm_i32(e, 0)};

    assert(bits < 64);
    args[1] = llvm_intrinsic(e, "llvm.amdgcn.mbcnt.lo", NULL, 0, args, 2);
    args[0] = llvm_intrinsic(e, "llvm.amdgcn.mbcnt.hi", NULL, 0, args, 2);
    args[0] = e->ll->BuildBinOp(e->b, LLVMXor, args[0], llvm_i32(e, bits), "");
    args[0] = e->ll->BuildBinOp(e->b, LLVMShl, args[0], llvm_i32(e, 2), "");
    args[1] = v;
    return llvm_intrinsic(e, "llvm.amdgcn.ds.bpermute", NULL, 0, args, 2);
}

/* The value of the thread whose number differs in these bits. Within rows of 16
 * the vector unit's own operand exchange knows some; LOCAL memory's all of 32,
 * or any that is named. src: docs/hardware/amd-code.md, "Vector operations",
 * "Memory instructions"; ds_swizzle's bit mode: AMD's RDNA 3 instruction set
 * guide, 12.5 */
static LLVMValueRef
amdgpu_shuffle(struct llvm_emit *e, const struct uop *u, LLVMValueRef v)
{
    static const uint16_t dpp[16] = {
        [1] = 0xb1, [2] = 0x4e, [3] = 0x1b, [7] = 0x141, [15] = 0x140};
    uint32_t bits = (uint32_t)u->arg.i;
    LLVMTypeRef type = llvm_type(e, u->dtype, 1);
    LLVMValueRef args[6];

    assert(bits >= 1 && bits < 64 && u->lanes == 1);
    v = e->ll->BuildCast(e->b, LLVMBitCast, v, e->t_i32, "");
    if (bits < 16 && dpp[bits]) {
        args[0] = args[1] = v;
        args[2] = llvm_i32(e, dpp[bits]);
        args[3] = args[4] = llvm_i32(e, 0xf); /* all rows and banks */
        args[5] = e->ll->ConstInt(e->t_i1, 1, 0);
        v = llvm_intrinsic(e, "llvm.amdgcn.update.dpp", &e->t_i32, 1, args, 6);
    } else if (bits >= 32) {
        v = from_lane(e, v, bits);
    } else {
        args[0] = v;
        args[1] = llvm_i32(e, bits << 10 | 0x1f);
        v = llvm_intrinsic(e, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
    }
    return e->ll->BuildCast(e->b, LLVMBitCast, v, type, "");
}

LLVMValueRef
amdgpu_approximate(struct llvm_emit *e, const struct uop *u, LLVMValueRef *v)
{
    const struct amdgpu_target *target = e->target;
    LLVMTypeRef type = llvm_type(e, UOP_F32, u->lanes);
    LLVMValueRef one;

    if (u->op == UOP_SHUFFLE)
        return amdgpu_shuffle(e, u, v[0]);
    if ((!target->approx && !e->prog->is_approx) || u->dtype != UOP_F32)
        return NULL;
    switch (u->op) {
    case UOP_EXP2:
        /* what is less than any half but bfloat16's least may be 0 */
        if (!target->approx)
            return each_lane(e, "llvm.amdgcn.exp2", v[0], u->lanes);
        return llvm_intrinsic(e, "llvm.exp2", &type, 1, v, 1);
    case UOP_LOG2:
        return llvm_intrinsic(e, "llvm.log2", &type, 1, v, 1);
    case UOP_SQRT:
        return allow_error(e, llvm_intrinsic(e, "llvm.sqrt", &type, 1, v, 1));
    case UOP_SIN:
    case UOP_COS:
        return amdgpu_sin_or_cos(e, u->op, v[0], u->lanes);
    case UOP_RECIP:
        one = amdgpu_constant(e, 1, u->lanes);
        return allow_error(e, e->ll->BuildBinOp(e->b, LLVMFDiv, one, v[0], ""));
    case UOP_FDIV:
        return llvm_divide(e, u, v[0], v[1], allow_error);
    default:
        return NULL;
    }
}
