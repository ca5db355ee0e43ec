; One matrix instruction per kernel, one wave: D = A B + C, with the fragments
; as they lie in memory, lane after lane.
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()

declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half>, <4 x half>, <4 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @f16_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <4 x half>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <4 x half>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <4 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <4 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <4 x half>, ptr addrspace(1) %pa
  %vb = load <4 x half>, ptr addrspace(1) %pb
  %vc = load <4 x float>, ptr addrspace(1) %pc
  %r = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> %va, <4 x half> %vb, <4 x float> %vc, i32 0, i32 0, i32 0)
  store <4 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16>, <4 x i16>, <4 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @bf16_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <4 x i16>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <4 x i16>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <4 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <4 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <4 x i16>, ptr addrspace(1) %pa
  %vb = load <4 x i16>, ptr addrspace(1) %pb
  %vc = load <4 x float>, ptr addrspace(1) %pc
  %r = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16> %va, <4 x i16> %vb, <4 x float> %vc, i32 0, i32 0, i32 0)
  store <4 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <16 x float> @llvm.amdgcn.mfma.f32.32x32x8f16(<4 x half>, <4 x half>, <16 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @f16_32(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <4 x half>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <4 x half>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <16 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <16 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <4 x half>, ptr addrspace(1) %pa
  %vb = load <4 x half>, ptr addrspace(1) %pb
  %vc = load <16 x float>, ptr addrspace(1) %pc
  %r = call <16 x float> @llvm.amdgcn.mfma.f32.32x32x8f16(<4 x half> %va, <4 x half> %vb, <16 x float> %vc, i32 0, i32 0, i32 0)
  store <16 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x4f32(float, float, <4 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @f32_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <4 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <4 x float>, ptr addrspace(1) %d, i64 %i
  %va = load float, ptr addrspace(1) %pa
  %vb = load float, ptr addrspace(1) %pb
  %vc = load <4 x float>, ptr addrspace(1) %pc
  %r = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x4f32(float %va, float %vb, <4 x float> %vc, i32 0, i32 0, i32 0)
  store <4 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <16 x float> @llvm.amdgcn.mfma.f32.32x32x2f32(float, float, <16 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @f32_32(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <16 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <16 x float>, ptr addrspace(1) %d, i64 %i
  %va = load float, ptr addrspace(1) %pa
  %vb = load float, ptr addrspace(1) %pb
  %vc = load <16 x float>, ptr addrspace(1) %pc
  %r = call <16 x float> @llvm.amdgcn.mfma.f32.32x32x2f32(float %va, float %vb, <16 x float> %vc, i32 0, i32 0, i32 0)
  store <16 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <4 x double> @llvm.amdgcn.mfma.f64.16x16x4f64(double, double, <4 x double>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @f64_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr double, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr double, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <4 x double>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <4 x double>, ptr addrspace(1) %d, i64 %i
  %va = load double, ptr addrspace(1) %pa
  %vb = load double, ptr addrspace(1) %pb
  %vc = load <4 x double>, ptr addrspace(1) %pc
  %r = call <4 x double> @llvm.amdgcn.mfma.f64.16x16x4f64(double %va, double %vb, <4 x double> %vc, i32 0, i32 0, i32 0)
  store <4 x double> %r, ptr addrspace(1) %pd
  ret void
}

declare <4 x i32> @llvm.amdgcn.mfma.i32.16x16x16i8(i32, i32, <4 x i32>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @i8_16(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr i32, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr i32, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <4 x i32>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <4 x i32>, ptr addrspace(1) %d, i64 %i
  %va = load i32, ptr addrspace(1) %pa
  %vb = load i32, ptr addrspace(1) %pb
  %vc = load <4 x i32>, ptr addrspace(1) %pc
  %r = call <4 x i32> @llvm.amdgcn.mfma.i32.16x16x16i8(i32 %va, i32 %vb, <4 x i32> %vc, i32 0, i32 0, i32 0)
  store <4 x i32> %r, ptr addrspace(1) %pd
  ret void
}

declare <16 x i32> @llvm.amdgcn.mfma.i32.32x32x8i8(i32, i32, <16 x i32>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @i8_32(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr i32, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr i32, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <16 x i32>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <16 x i32>, ptr addrspace(1) %d, i64 %i
  %va = load i32, ptr addrspace(1) %pa
  %vb = load i32, ptr addrspace(1) %pb
  %vc = load <16 x i32>, ptr addrspace(1) %pc
  %r = call <16 x i32> @llvm.amdgcn.mfma.i32.32x32x8i8(i32 %va, i32 %vb, <16 x i32> %vc, i32 0, i32 0, i32 0)
  store <16 x i32> %r, ptr addrspace(1) %pd
  ret void
}

declare <16 x float> @llvm.amdgcn.mfma.f32.32x32x8bf16.1k(<4 x i16>, <4 x i16>, <16 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @bf16_32(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <4 x i16>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <4 x i16>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <16 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <16 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <4 x i16>, ptr addrspace(1) %pa
  %vb = load <4 x i16>, ptr addrspace(1) %pb
  %vc = load <16 x float>, ptr addrspace(1) %pc
  %r = call <16 x float> @llvm.amdgcn.mfma.f32.32x32x8bf16.1k(<4 x i16> %va, <4 x i16> %vb, <16 x float> %vc, i32 0, i32 0, i32 0)
  store <16 x float> %r, ptr addrspace(1) %pd
  ret void
}

declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x8bf16(<2 x i16>, <2 x i16>, <4 x float>, i32 immarg, i32 immarg, i32 immarg)

define amdgpu_kernel void @bf16_old(ptr addrspace(1) %d, ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %l to i64
  %pa = getelementptr <2 x i16>, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr <2 x i16>, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr <4 x float>, ptr addrspace(1) %c, i64 %i
  %pd = getelementptr <4 x float>, ptr addrspace(1) %d, i64 %i
  %va = load <2 x i16>, ptr addrspace(1) %pa
  %vb = load <2 x i16>, ptr addrspace(1) %pb
  %vc = load <4 x float>, ptr addrspace(1) %pc
  %r = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x8bf16(<2 x i16> %va, <2 x i16> %vb, <4 x float> %vc, i32 0, i32 0, i32 0)
  store <4 x float> %r, ptr addrspace(1) %pd
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="64,64" }
