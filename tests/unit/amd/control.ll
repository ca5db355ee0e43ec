; Kernels for the tests of the AMD driver's control half: one word from here to
; there, and stacks of different sizes. Nothing here is for one chip.
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()

define protected amdgpu_kernel void @move(ptr addrspace(1) noalias %out, ptr addrspace(1) noalias %in) #0 {
  %v = load i32, ptr addrspace(1) %in, align 4
  store i32 %v, ptr addrspace(1) %out, align 4
  ret void
}

; 400 bytes and more of a lane's stack
define protected amdgpu_kernel void @deep(ptr addrspace(1) noalias %out, i64 %k) #0 {
  %mem = alloca [100 x i32], align 16, addrspace(5)
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %w = trunc i64 %k to i32
  %p = getelementptr inbounds [100 x i32], ptr addrspace(5) %mem, i32 0, i32 %w
  store volatile i32 %l, ptr addrspace(5) %p, align 4
  %v = load volatile i32, ptr addrspace(5) %p, align 4
  %n = zext i32 %l to i64
  %o = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %n
  store i32 %v, ptr addrspace(1) %o, align 4
  ret void
}

; 4000 bytes and more
define protected amdgpu_kernel void @deeper(ptr addrspace(1) noalias %out, i64 %k) #0 {
  %mem = alloca [1000 x i32], align 16, addrspace(5)
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %w = trunc i64 %k to i32
  %p = getelementptr inbounds [1000 x i32], ptr addrspace(5) %mem, i32 0, i32 %w
  store volatile i32 %l, ptr addrspace(5) %p, align 4
  %v = load volatile i32, ptr addrspace(5) %p, align 4
  %n = zext i32 %l to i64
  %o = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %n
  store i32 %v, ptr addrspace(1) %o, align 4
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
