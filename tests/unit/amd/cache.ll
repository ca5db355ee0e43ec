; out[i] = in[i] + *add: a vector load, a scalar one, a store.
target triple = "amdgcn-amd-amdhsa"

declare i32 @llvm.amdgcn.workitem.id.x()

define protected amdgpu_kernel void @add(ptr addrspace(1) noalias %out, ptr addrspace(1) noalias readonly %in, ptr addrspace(1) noalias readonly %add) #0 {
  %a = load i32, ptr addrspace(1) %add, align 4
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load i32, ptr addrspace(1) %from, align 4
  %sum = add i32 %v, %a
  %to = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %i
  store i32 %sum, ptr addrspace(1) %to, align 4
  ret void
}

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,256" }
