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

; Below, every group writes its own part of out: out[group * 64 + i].

declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()

; = in[i] + *add.
define protected amdgpu_kernel void @each(ptr addrspace(1) %out, ptr addrspace(1) %in, ptr addrspace(1) %add) #1 {
  %a = load i32, ptr addrspace(1) %add, align 4
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load i32, ptr addrspace(1) %from, align 4
  %sum = add i32 %v, %a
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %sum, ptr addrspace(1) %to, align 4
  ret void
}

define internal ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id) alwaysinline {
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = shl i32 %group, 6
  %at = add i32 %first, %id
  %n = zext i32 %at to i64
  %to = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %n
  ret ptr addrspace(1) %to
}

; Group 8 writes 2000 to in and raises the flag, later groups wait for it; all
; of them but 8 read in: plainly, after an acquire, or coherently.
define protected amdgpu_kernel void @mail_plain(ptr addrspace(1) %out, ptr addrspace(1) %in, ptr addrspace(1) %flag) #1 {
  call void @mail(ptr addrspace(1) %in, ptr addrspace(1) %flag)
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load i32, ptr addrspace(1) %from, align 4
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @mail_acquire(ptr addrspace(1) %out, ptr addrspace(1) %in, ptr addrspace(1) %flag) #1 {
  call void @mail(ptr addrspace(1) %in, ptr addrspace(1) %flag)
  fence syncscope("agent") acquire
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load i32, ptr addrspace(1) %from, align 4
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @mail_coherent(ptr addrspace(1) %out, ptr addrspace(1) %in, ptr addrspace(1) %flag) #1 {
  call void @mail(ptr addrspace(1) %in, ptr addrspace(1) %flag)
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load atomic i32, ptr addrspace(1) %from syncscope("agent") monotonic, align 4
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define internal void @mail(ptr addrspace(1) %in, ptr addrspace(1) %flag) alwaysinline {
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = icmp ult i32 %group, 8
  br i1 %first, label %done, label %other
other:
  %writes = icmp eq i32 %group, 8
  br i1 %writes, label %write, label %wait
write:
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %to = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  store i32 2000, ptr addrspace(1) %to, align 4
  store atomic i32 1, ptr addrspace(1) %flag syncscope("agent") release, align 4
  br label %done
wait:
  %up = load atomic i32, ptr addrspace(1) %flag syncscope("agent") monotonic, align 4
  %go = icmp eq i32 %up, 1
  br i1 %go, label %done, label %wait
done:
  ret void
}

; The upper half of the group writes 2000 to in between two reads of the lower
; one: without fences, and with those of a group.
define protected amdgpu_kernel void @halves_plain(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %low = and i32 %id, 31
  %i = zext i32 %low to i64
  %at = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %old = load i32, ptr addrspace(1) %at, align 4
  call void @llvm.amdgcn.s.barrier()
  %upper = icmp ugt i32 %id, 31
  br i1 %upper, label %write, label %next
write:
  store i32 2000, ptr addrspace(1) %at, align 4
  br label %next
next:
  call void @llvm.amdgcn.s.barrier()
  %new = load i32, ptr addrspace(1) %at, align 4
  %sum = add i32 %old, %new
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %sum, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @halves_fence(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %low = and i32 %id, 31
  %i = zext i32 %low to i64
  %at = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %old = load i32, ptr addrspace(1) %at, align 4
  call void @llvm.amdgcn.s.barrier()
  %upper = icmp ugt i32 %id, 31
  br i1 %upper, label %write, label %next
write:
  store i32 2000, ptr addrspace(1) %at, align 4
  br label %next
next:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %new = load i32, ptr addrspace(1) %at, align 4
  %sum = add i32 %old, %new
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %sum, ptr addrspace(1) %to, align 4
  ret void
}

; A load of each scope to a plain store, a plain load to a store of each scope.
define protected amdgpu_kernel void @load_group(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load atomic i32, ptr addrspace(1) %from syncscope("workgroup") monotonic, align 4
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @load_agent(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load atomic i32, ptr addrspace(1) %from syncscope("agent") monotonic, align 4
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @load_system(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load volatile i32, ptr addrspace(1) %from, align 4
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @load_stream(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %i
  %v = load i32, ptr addrspace(1) %from, align 4, !nontemporal !0
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store i32 %v, ptr addrspace(1) %to, align 4
  ret void
}

define protected amdgpu_kernel void @store_group(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store atomic i32 1000, ptr addrspace(1) %to syncscope("workgroup") monotonic, align 4
  ret void
}

define protected amdgpu_kernel void @store_agent(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store atomic i32 1000, ptr addrspace(1) %to syncscope("agent") monotonic, align 4
  ret void
}

define protected amdgpu_kernel void @store_system(ptr addrspace(1) %out, ptr addrspace(1) %in) #1 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %to = call ptr addrspace(1) @place(ptr addrspace(1) %out, i32 %id)
  store volatile i32 1000, ptr addrspace(1) %to, align 4
  ret void
}

attributes #1 = { nounwind "amdgpu-flat-work-group-size"="1,256" "amdgpu-no-implicitarg-ptr" }
!0 = !{i32 1}
