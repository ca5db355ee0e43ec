/* Shared by the files that make code for AMD GPUs. */
#ifndef BELL_RENDER_LLVM_AMDGPU_INTERNAL_H
#define BELL_RENDER_LLVM_AMDGPU_INTERNAL_H

#include "render/llvm/amdgpu.h"
#include "render/llvm/llvm_internal.h"

/* What k of an MFMA on F32 says that it takes it for XF32. */
#define AMDGPU_XF32_K 8

/* F32s rounded to the 10 bits of fraction of XF32, ties away from zero. */
LLVMValueRef amdgpu_round_xf32(struct llvm_emit *e, LLVMValueRef v,
                               uint32_t lanes);

/* An op on F32s by approximate instructions; NULL where there are none, or
 * the target does not ask for them. */
LLVMValueRef amdgpu_approximate(struct llvm_emit *e, const struct uop *u,
                                LLVMValueRef *v);

#endif
