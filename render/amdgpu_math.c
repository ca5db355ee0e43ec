/* AMD: what is less exact than asked of others, on request: factors of matrix
 * products as XF32, approximate functions.
 */
#include "render/amdgpu_internal.h"

/* The instruction cuts off what lies below 10 bits of fraction, towards zero,
 * which makes all sums too small; so they are rounded to nearest first. NaNs
 * stay as they are. src: ROCm/rocm-libraries, pull request 9176. */
LLVMValueRef
amdgpu_round_xf32(struct host_emit *e, LLVMValueRef v, uint32_t lanes)
{
    const struct llvm_api *ll = e->ll;
    LLVMTypeRef bits_type = host_type(e, UOP_I32, lanes);
    LLVMValueRef half = host_splat(e, host_i32(e, 0x1000), lanes);
    LLVMValueRef mask = host_splat(e, host_i32(e, 0xffffe000), lanes);
    LLVMValueRef nan = ll->BuildFCmp(e->b, LLVMRealUNO, v, v, "");
    LLVMValueRef bits = ll->BuildCast(e->b, LLVMBitCast, v, bits_type, "");

    bits = ll->BuildBinOp(e->b, LLVMAdd, bits, half, "");
    bits = ll->BuildBinOp(e->b, LLVMAnd, bits, mask, "");
    bits = ll->BuildCast(e->b, LLVMBitCast, bits, ll->TypeOf(v), "");
    return ll->BuildSelect(e->b, nan, v, bits, "");
}
