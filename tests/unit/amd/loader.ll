; Kernels for the test of the loader of code objects: those that
; docs/hardware/amd-code.md, "Kernel descriptor", lists, and one with a table
; of constants, a variable and a call. Nothing here is for one chip.
target triple = "amdgcn-amd-amdhsa"

@table = internal unnamed_addr addrspace(4) constant [8 x i32] [i32 101, i32 202, i32 303, i32 404, i32 505, i32 606, i32 707, i32 808], align 16
@tile = internal unnamed_addr addrspace(3) global [256 x float] undef, align 4

declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare void @llvm.amdgcn.s.barrier()

define protected amdgpu_kernel void @add(ptr addrspace(1) noalias %out, ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b) #0 {
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %base = shl i32 %g, 8
  %i = add i32 %base, %l
  %n = zext i32 %i to i64
  %pa = getelementptr inbounds float, ptr addrspace(1) %a, i64 %n
  %pb = getelementptr inbounds float, ptr addrspace(1) %b, i64 %n
  %x = load float, ptr addrspace(1) %pa, align 4
  %y = load float, ptr addrspace(1) %pb, align 4
  %s = fadd float %x, %y
  %po = getelementptr inbounds float, ptr addrspace(1) %out, i64 %n
  store float %s, ptr addrspace(1) %po, align 4
  ret void
}

define protected amdgpu_kernel void @ids(ptr addrspace(1) noalias %out) #0 {
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  %x = call i32 @llvm.amdgcn.workitem.id.x()
  %y = call i32 @llvm.amdgcn.workitem.id.y()
  %a = mul i32 %gz, 7
  %b = add i32 %a, %gy
  %c = mul i32 %b, 5
  %d = add i32 %c, %gx
  %g = mul i32 %y, 11
  %h = add i32 %g, %x
  %n = add i32 %d, %h
  %m = zext i32 %n to i64
  %p = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %m
  store i32 %n, ptr addrspace(1) %p, align 4
  ret void
}

; 272 bytes of a lane's stack
define protected amdgpu_kernel void @stack(ptr addrspace(1) noalias %out, i32 %k) #0 {
  %mem = alloca [64 x i32], align 16, addrspace(5)
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = and i32 %l, 63
  %j = and i32 %k, 63
  %p = getelementptr inbounds [64 x i32], ptr addrspace(5) %mem, i32 0, i32 %i
  store volatile i32 %k, ptr addrspace(5) %p, align 4
  %q = getelementptr inbounds [64 x i32], ptr addrspace(5) %mem, i32 0, i32 %j
  %v = load volatile i32, ptr addrspace(5) %q, align 4
  %n = zext i32 %l to i64
  %o = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %n
  store i32 %v, ptr addrspace(1) %o, align 4
  ret void
}

define internal i32 @twice(i32 %x) noinline #1 {
  %y = mul i32 %x, 77
  ret i32 %y
}

define protected amdgpu_kernel void @look(ptr addrspace(1) noalias %out) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %i = and i32 %l, 7
  %n = zext i32 %i to i64
  %p = getelementptr inbounds [8 x i32], ptr addrspace(4) @table, i64 0, i64 %n
  %v = load i32, ptr addrspace(4) %p, align 4
  %c = call i32 @twice(i32 %v)
  %t = getelementptr inbounds [256 x float], ptr addrspace(3) @tile, i32 0, i32 %l
  %f = bitcast i32 %c to float
  store float %f, ptr addrspace(3) %t, align 4
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %u = xor i32 %l, 1
  %tu = getelementptr inbounds [256 x float], ptr addrspace(3) @tile, i32 0, i32 %u
  %w = load float, ptr addrspace(3) %tu, align 4
  %m = zext i32 %l to i64
  %o = getelementptr inbounds float, ptr addrspace(1) %out, i64 %m
  store float %w, ptr addrspace(1) %o, align 4
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
attributes #1 = { nounwind noinline }
