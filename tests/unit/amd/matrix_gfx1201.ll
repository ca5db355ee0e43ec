; One matrix instruction per kernel, one wave: D = A B + C, with the fragments
; as they lie in memory, lane after lane.
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()

declare <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16(<8 x half>, <8 x half>, <8 x float>)

define amdgpu_kernel void @f16_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <8 x half>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <8 x half>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <8 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <8 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <8 x half>, ptr addrspace(1) %pa
  %vb = load <8 x half>, ptr addrspace(1) %pb
  %vc = load <8 x float>, ptr addrspace(1) %pc
  %r = call <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16(<8 x half> %va, <8 x half> %vb, <8 x float> %vc)
  store <8 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.bf16(<8 x i16>, <8 x i16>, <8 x float>)

define amdgpu_kernel void @bf16_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <8 x i16>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <8 x i16>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <8 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <8 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <8 x i16>, ptr addrspace(1) %pa
  %vb = load <8 x i16>, ptr addrspace(1) %pb
  %vc = load <8 x float>, ptr addrspace(1) %pc
  %r = call <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.bf16(<8 x i16> %va, <8 x i16> %vb, <8 x float> %vc)
  store <8 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8(<2 x i32>, <2 x i32>, <8 x float>)

define amdgpu_kernel void @fp8_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <2 x i32>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <2 x i32>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <8 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <8 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <2 x i32>, ptr addrspace(1) %pa
  %vb = load <2 x i32>, ptr addrspace(1) %pb
  %vc = load <8 x float>, ptr addrspace(1) %pc
  %r = call <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8(<2 x i32> %va, <2 x i32> %vb, <8 x float> %vc)
  store <8 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <8 x i32> @llvm.amdgcn.wmma.i32.16x16x16.iu8(i1 immarg, <2 x i32>, i1 immarg, <2 x i32>, <8 x i32>, i1 immarg)

define amdgpu_kernel void @i8_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <2 x i32>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <2 x i32>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <8 x i32>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <8 x i32>, ptr addrspace(1) %d, i64 %i
  %va = load <2 x i32>, ptr addrspace(1) %pa
  %vb = load <2 x i32>, ptr addrspace(1) %pb
  %vc = load <8 x i32>, ptr addrspace(1) %pc
  %r = call <8 x i32> @llvm.amdgcn.wmma.i32.16x16x16.iu8(i1 true, <2 x i32> %va, i1 false, <2 x i32> %vb, <8 x i32> %vc, i1 false)
  store <8 x i32> %r, ptr addrspace(1) %pd
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="32,32" }
