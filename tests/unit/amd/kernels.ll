; Kernels for the interpreter of AMD's machine code: divisions, roots, small
; integers, halves, loops that diverge, reductions through LDS, scratch,
; atomics, indices. Nothing here is for one chip.
target datalayout = "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7"
target triple = "amdgcn-amd-amdhsa"

@red.t = internal unnamed_addr addrspace(3) global [64 x float] undef, align 4

define protected amdgpu_kernel void @ew(float addrspace(1)* %0, float addrspace(1)* %1, float addrspace(1)* %2) #0 {
  %4 = call i32 @llvm.amdgcn.workgroup.id.x()
  %5 = shl i32 %4, 6
  %6 = call i32 @llvm.amdgcn.workitem.id.x()
  %7 = add i32 %5, %6
  %8 = zext i32 %7 to i64
  %9 = getelementptr inbounds float, float addrspace(1)* %1, i64 %8
  %10 = load float, float addrspace(1)* %9, align 4
  %11 = getelementptr inbounds float, float addrspace(1)* %2, i64 %8
  %12 = load float, float addrspace(1)* %11, align 4
  %13 = fdiv float %10, %12
  %14 = call float @llvm.fmuladd.f32(float %10, float %12, float %13)
  %15 = getelementptr inbounds float, float addrspace(1)* %0, i64 %8
  store float %14, float addrspace(1)* %15, align 4
  ret void
}

declare void @llvm.lifetime.start.p5i8(i64 immarg, i8 addrspace(5)*)

declare i32 @llvm.amdgcn.workgroup.id.x()

declare i32 @llvm.amdgcn.workitem.id.x()

declare float @llvm.fmuladd.f32(float, float, float)

declare void @llvm.lifetime.end.p5i8(i64 immarg, i8 addrspace(5)*)

define protected amdgpu_kernel void @math(float addrspace(1)* %0, float addrspace(1)* %1) #0 {
  %3 = call i32 @llvm.amdgcn.workgroup.id.x()
  %4 = shl i32 %3, 6
  %5 = call i32 @llvm.amdgcn.workitem.id.x()
  %6 = add i32 %4, %5
  %7 = zext i32 %6 to i64
  %8 = getelementptr inbounds float, float addrspace(1)* %1, i64 %7
  %9 = load float, float addrspace(1)* %8, align 4
  %10 = call float @llvm.sqrt.f32(float %9)
  %11 = shl i32 %6, 2
  %12 = zext i32 %11 to i64
  %13 = getelementptr inbounds float, float addrspace(1)* %0, i64 %12
  store float %10, float addrspace(1)* %13, align 4
  %14 = call float @llvm.exp2.f32(float %9)
  %15 = or i32 %11, 1
  %16 = zext i32 %15 to i64
  %17 = getelementptr inbounds float, float addrspace(1)* %0, i64 %16
  store float %14, float addrspace(1)* %17, align 4
  %18 = call float @llvm.log2.f32(float %9)
  %19 = or i32 %11, 2
  %20 = zext i32 %19 to i64
  %21 = getelementptr inbounds float, float addrspace(1)* %0, i64 %20
  store float %18, float addrspace(1)* %21, align 4
  %22 = call float @llvm.floor.f32(float %9)
  %23 = fneg float %9
  %24 = call float @llvm.trunc.f32(float %23)
  %25 = fadd float %22, %24
  %26 = or i32 %11, 3
  %27 = zext i32 %26 to i64
  %28 = getelementptr inbounds float, float addrspace(1)* %0, i64 %27
  store float %25, float addrspace(1)* %28, align 4
  ret void
}

declare float @llvm.sqrt.f32(float)

declare float @llvm.exp2.f32(float)

declare float @llvm.log2.f32(float)

declare float @llvm.floor.f32(float)

declare float @llvm.trunc.f32(float)

define protected amdgpu_kernel void @imath(i64 addrspace(1)* %0, i64 addrspace(1)* %1, i64 addrspace(1)* %2) #0 {
  %4 = call i32 @llvm.amdgcn.workgroup.id.x()
  %5 = shl i32 %4, 6
  %6 = call i32 @llvm.amdgcn.workitem.id.x()
  %7 = add i32 %5, %6
  %8 = zext i32 %7 to i64
  %9 = getelementptr inbounds i64, i64 addrspace(1)* %1, i64 %8
  %10 = load i64, i64 addrspace(1)* %9, align 8
  %11 = getelementptr inbounds i64, i64 addrspace(1)* %2, i64 %8
  %12 = load i64, i64 addrspace(1)* %11, align 8
  %13 = freeze i64 %10
  %14 = freeze i64 %12
  %15 = sdiv i64 %13, %14
  %16 = shl i32 %7, 3
  %17 = zext i32 %16 to i64
  %18 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %17
  store i64 %15, i64 addrspace(1)* %18, align 8
  %19 = mul i64 %15, %14
  %20 = sub i64 %13, %19
  %21 = or i32 %16, 1
  %22 = zext i32 %21 to i64
  %23 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %22
  store i64 %20, i64 addrspace(1)* %23, align 8
  %24 = udiv i64 %10, %12
  %25 = or i32 %16, 2
  %26 = zext i32 %25 to i64
  %27 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %26
  store i64 %24, i64 addrspace(1)* %27, align 8
  %28 = mul nsw i64 %12, %10
  %29 = or i32 %16, 3
  %30 = zext i32 %29 to i64
  %31 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %30
  store i64 %28, i64 addrspace(1)* %31, align 8
  %32 = trunc i64 %10 to i32
  %33 = trunc i64 %12 to i32
  %34 = or i32 %33, 1
  %35 = sdiv i32 %32, %34
  %36 = sext i32 %35 to i64
  %37 = or i32 %16, 4
  %38 = zext i32 %37 to i64
  %39 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %38
  store i64 %36, i64 addrspace(1)* %39, align 8
  %40 = and i64 %12, 63
  %41 = ashr i64 %10, %40
  %42 = or i32 %16, 5
  %43 = zext i32 %42 to i64
  %44 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %43
  store i64 %41, i64 addrspace(1)* %44, align 8
  %45 = urem i32 %32, %34
  %46 = zext i32 %45 to i64
  %47 = or i32 %16, 6
  %48 = zext i32 %47 to i64
  %49 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %48
  store i64 %46, i64 addrspace(1)* %49, align 8
  %50 = icmp slt i64 %10, %12
  %51 = select i1 %50, i64 %10, i64 %12
  %52 = or i32 %16, 7
  %53 = zext i32 %52 to i64
  %54 = getelementptr inbounds i64, i64 addrspace(1)* %0, i64 %53
  store i64 %51, i64 addrspace(1)* %54, align 8
  ret void
}

define protected amdgpu_kernel void @dmath(double addrspace(1)* %0, double addrspace(1)* %1, double addrspace(1)* %2) #0 {
  %4 = call i32 @llvm.amdgcn.workgroup.id.x()
  %5 = shl i32 %4, 6
  %6 = call i32 @llvm.amdgcn.workitem.id.x()
  %7 = add i32 %5, %6
  %8 = zext i32 %7 to i64
  %9 = getelementptr inbounds double, double addrspace(1)* %1, i64 %8
  %10 = load double, double addrspace(1)* %9, align 8
  %11 = getelementptr inbounds double, double addrspace(1)* %2, i64 %8
  %12 = load double, double addrspace(1)* %11, align 8
  %13 = fdiv double %10, %12
  %14 = shl i32 %7, 2
  %15 = zext i32 %14 to i64
  %16 = getelementptr inbounds double, double addrspace(1)* %0, i64 %15
  store double %13, double addrspace(1)* %16, align 8
  %17 = call double @llvm.sqrt.f64(double %10)
  %18 = or i32 %14, 1
  %19 = zext i32 %18 to i64
  %20 = getelementptr inbounds double, double addrspace(1)* %0, i64 %19
  store double %17, double addrspace(1)* %20, align 8
  %21 = call double @llvm.fma.f64(double %10, double %12, double %10)
  %22 = or i32 %14, 2
  %23 = zext i32 %22 to i64
  %24 = getelementptr inbounds double, double addrspace(1)* %0, i64 %23
  store double %21, double addrspace(1)* %24, align 8
  %25 = fptosi double %10 to i64
  %26 = sitofp i64 %25 to double
  %27 = fptrunc double %12 to float
  %28 = fpext float %27 to double
  %29 = fadd double %26, %28
  %30 = or i32 %14, 3
  %31 = zext i32 %30 to i64
  %32 = getelementptr inbounds double, double addrspace(1)* %0, i64 %31
  store double %29, double addrspace(1)* %32, align 8
  ret void
}

declare double @llvm.sqrt.f64(double)

declare double @llvm.fma.f64(double, double, double)

define protected amdgpu_kernel void @red(float addrspace(1)* %0, float addrspace(1)* %1, i32 %2) #0 {
  %4 = call i32 @llvm.amdgcn.workitem.id.x()
  %5 = icmp ult i32 %4, %2
  br i1 %5, label %9, label %6

6:                                                ; preds = %9, %3
  %7 = phi float [ 0.000000e+00, %3 ], [ %15, %9 ]
  %8 = getelementptr inbounds [64 x float], [64 x float] addrspace(3)* @red.t, i32 0, i32 %4
  store float %7, float addrspace(3)* %8, align 4
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %20

9:                                                ; preds = %3, %9
  %10 = phi i32 [ %16, %9 ], [ %4, %3 ]
  %11 = phi float [ %15, %9 ], [ 0.000000e+00, %3 ]
  %12 = zext i32 %10 to i64
  %13 = getelementptr inbounds float, float addrspace(1)* %1, i64 %12
  %14 = load float, float addrspace(1)* %13, align 4
  %15 = fadd float %11, %14
  %16 = add i32 %10, 64
  %17 = icmp ult i32 %16, %2
  br i1 %17, label %9, label %6

18:                                               ; preds = %29
  %19 = icmp eq i32 %4, 0
  br i1 %19, label %32, label %37

20:                                               ; preds = %6, %29
  %21 = phi i32 [ 32, %6 ], [ %30, %29 ]
  %22 = icmp ult i32 %4, %21
  br i1 %22, label %23, label %29

23:                                               ; preds = %20
  %24 = add nuw nsw i32 %21, %4
  %25 = getelementptr inbounds [64 x float], [64 x float] addrspace(3)* @red.t, i32 0, i32 %24
  %26 = load float, float addrspace(3)* %25, align 4
  %27 = load float, float addrspace(3)* %8, align 4
  %28 = fadd float %26, %27
  store float %28, float addrspace(3)* %8, align 4
  br label %29

29:                                               ; preds = %23, %20
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %30 = lshr i32 %21, 1
  %31 = icmp ult i32 %21, 2
  br i1 %31, label %18, label %20

32:                                               ; preds = %18
  %33 = load float, float addrspace(3)* getelementptr inbounds ([64 x float], [64 x float] addrspace(3)* @red.t, i32 0, i32 0), align 4
  %34 = call i32 @llvm.amdgcn.workgroup.id.x()
  %35 = zext i32 %34 to i64
  %36 = getelementptr inbounds float, float addrspace(1)* %0, i64 %35
  store float %33, float addrspace(1)* %36, align 4
  br label %37

37:                                               ; preds = %32, %18
  ret void
}

declare void @llvm.amdgcn.s.barrier()

define protected amdgpu_kernel void @div(i32 addrspace(1)* %0, i32 addrspace(1)* %1) #0 {
  %3 = call i32 @llvm.amdgcn.workgroup.id.x()
  %4 = shl i32 %3, 6
  %5 = call i32 @llvm.amdgcn.workitem.id.x()
  %6 = add i32 %4, %5
  %7 = zext i32 %6 to i64
  %8 = getelementptr inbounds i32, i32 addrspace(1)* %1, i64 %7
  %9 = load i32, i32 addrspace(1)* %8, align 4
  %10 = icmp sgt i32 %9, 1
  br i1 %10, label %11, label %25

11:                                               ; preds = %2, %21
  %12 = phi i32 [ %23, %21 ], [ 0, %2 ]
  %13 = phi i32 [ %22, %21 ], [ %9, %2 ]
  %14 = and i32 %13, 1
  %15 = icmp eq i32 %14, 0
  br i1 %15, label %19, label %16

16:                                               ; preds = %11
  %17 = mul nsw i32 %13, 3
  %18 = add nsw i32 %17, 1
  br label %21

19:                                               ; preds = %11
  %20 = ashr i32 %13, 1
  br label %21

21:                                               ; preds = %19, %16
  %22 = phi i32 [ %18, %16 ], [ %20, %19 ]
  %23 = add nuw nsw i32 %12, 1
  %24 = icmp sgt i32 %22, 1
  br i1 %24, label %11, label %25

25:                                               ; preds = %21, %2
  %26 = phi i32 [ 0, %2 ], [ %23, %21 ]
  %27 = getelementptr inbounds i32, i32 addrspace(1)* %0, i64 %7
  store i32 %26, i32 addrspace(1)* %27, align 4
  ret void
}

define protected amdgpu_kernel void @small(i8 addrspace(1)* %0, i8 addrspace(1)* %1, i16 addrspace(1)* %2, half addrspace(1)* %3, float addrspace(1)* %4) #0 {
  %6 = call i32 @llvm.amdgcn.workgroup.id.x()
  %7 = shl i32 %6, 6
  %8 = call i32 @llvm.amdgcn.workitem.id.x()
  %9 = add i32 %7, %8
  %10 = zext i32 %9 to i64
  %11 = getelementptr inbounds i8, i8 addrspace(1)* %1, i64 %10
  %12 = load i8, i8 addrspace(1)* %11, align 1
  %13 = getelementptr inbounds i16, i16 addrspace(1)* %2, i64 %10
  %14 = load i16, i16 addrspace(1)* %13, align 2
  %15 = trunc i16 %14 to i8
  %16 = add i8 %12, %15
  %17 = getelementptr inbounds i8, i8 addrspace(1)* %0, i64 %10
  store i8 %16, i8 addrspace(1)* %17, align 1
  %18 = getelementptr inbounds float, float addrspace(1)* %4, i64 %10
  %19 = load float, float addrspace(1)* %18, align 4
  %20 = fptrunc float %19 to half
  %21 = call half @llvm.fmuladd.f16(half %20, half 0xH3E00, half %20)
  %22 = getelementptr inbounds half, half addrspace(1)* %3, i64 %10
  store half %21, half addrspace(1)* %22, align 2
  ret void
}

declare half @llvm.fmuladd.f16(half, half, half)

define protected amdgpu_kernel void @scratch(i32 addrspace(1)* %0, i32 addrspace(1)* %1) #0 {
  %3 = alloca [64 x i32], align 4, addrspace(5)
  %4 = call i32 @llvm.amdgcn.workgroup.id.x()
  %5 = shl i32 %4, 6
  %6 = call i32 @llvm.amdgcn.workitem.id.x()
  %7 = add i32 %5, %6
  %8 = bitcast [64 x i32] addrspace(5)* %3 to i8 addrspace(5)*
  call void @llvm.lifetime.start.p5i8(i64 256, i8 addrspace(5)* %8)
  br label %13

9:                                                ; preds = %13
  %10 = zext i32 %7 to i64
  %11 = getelementptr inbounds i32, i32 addrspace(1)* %1, i64 %10
  %12 = load i32, i32 addrspace(1)* %11, align 4
  br label %27

13:                                               ; preds = %2, %13
  %14 = phi i32 [ 0, %2 ], [ %22, %13 ]
  %15 = add i32 %14, %7
  %16 = and i32 %15, 63
  %17 = zext i32 %16 to i64
  %18 = getelementptr inbounds i32, i32 addrspace(1)* %1, i64 %17
  %19 = load i32, i32 addrspace(1)* %18, align 4
  %20 = mul nsw i32 %19, %14
  %21 = getelementptr inbounds [64 x i32], [64 x i32] addrspace(5)* %3, i32 0, i32 %14
  store i32 %20, i32 addrspace(5)* %21, align 4
  %22 = add nuw nsw i32 %14, 1
  %23 = icmp eq i32 %22, 64
  br i1 %23, label %9, label %13

24:                                               ; preds = %27
  %25 = zext i32 %7 to i64
  %26 = getelementptr inbounds i32, i32 addrspace(1)* %0, i64 %25
  store i32 %35, i32 addrspace(1)* %26, align 4
  call void @llvm.lifetime.end.p5i8(i64 256, i8 addrspace(5)* %8)
  ret void

27:                                               ; preds = %9, %27
  %28 = phi i32 [ 0, %9 ], [ %36, %27 ]
  %29 = phi i32 [ 0, %9 ], [ %35, %27 ]
  %30 = mul nuw nsw i32 %28, 7
  %31 = add nsw i32 %12, %30
  %32 = and i32 %31, 63
  %33 = getelementptr inbounds [64 x i32], [64 x i32] addrspace(5)* %3, i32 0, i32 %32
  %34 = load i32, i32 addrspace(5)* %33, align 4
  %35 = add nsw i32 %34, %29
  %36 = add nuw nsw i32 %28, 1
  %37 = icmp eq i32 %36, 64
  br i1 %37, label %24, label %27
}

define protected amdgpu_kernel void @at(i32 addrspace(1)* %0, i32 addrspace(1)* %1) #0 {
  %3 = call i32 @llvm.amdgcn.workgroup.id.x()
  %4 = shl i32 %3, 6
  %5 = call i32 @llvm.amdgcn.workitem.id.x()
  %6 = add i32 %4, %5
  %7 = zext i32 %6 to i64
  %8 = getelementptr inbounds i32, i32 addrspace(1)* %1, i64 %7
  %9 = load i32, i32 addrspace(1)* %8, align 4
  %10 = atomicrmw add i32 addrspace(1)* %0, i32 %9 monotonic, align 4
  ret void
}

define protected amdgpu_kernel void @ids(i32 addrspace(1)* %0) #0 {
  %2 = call i32 @llvm.amdgcn.workitem.id.x()
  %3 = call i32 @llvm.amdgcn.workitem.id.y()
  %4 = call i32 @llvm.amdgcn.workitem.id.z()
  %5 = call i32 @llvm.amdgcn.workgroup.id.x()
  %6 = call i32 @llvm.amdgcn.workgroup.id.y()
  %7 = call i32 @llvm.amdgcn.workgroup.id.z()
  %8 = shl i32 %7, 1
  %9 = add i32 %8, %6
  %10 = mul i32 %9, 3
  %11 = add i32 %10, %5
  %12 = mul i32 %6, 10
  %13 = add i32 %12, %5
  %14 = mul i32 %7, 100
  %15 = add i32 %13, %14
  %16 = mul nuw nsw i32 %2, 1000
  %17 = add i32 %15, %16
  %18 = mul nuw nsw i32 %3, 10000
  %19 = add i32 %17, %18
  %20 = mul nuw nsw i32 %4, 100000
  %21 = add i32 %19, %20
  %22 = mul i32 %11, 24
  %23 = mul nuw nsw i32 %4, 3
  %24 = add nuw nsw i32 %23, %3
  %25 = shl nuw nsw i32 %24, 2
  %26 = add nuw nsw i32 %25, %2
  %27 = add i32 %26, %22
  %28 = zext i32 %27 to i64
  %29 = getelementptr inbounds i32, i32 addrspace(1)* %0, i64 %28
  store i32 %21, i32 addrspace(1)* %29, align 4
  ret void
}

declare i32 @llvm.amdgcn.workitem.id.y()

declare i32 @llvm.amdgcn.workitem.id.z()

declare i32 @llvm.amdgcn.workgroup.id.y()

declare i32 @llvm.amdgcn.workgroup.id.z()

attributes #0 = { nounwind "amdgpu-flat-work-group-size"="1,256" }

; out[i] = in[i] by way of LDS, the stack, or as it is: pointers of any space.
@generic_words = internal addrspace(3) global [64 x i32] undef, align 4

define amdgpu_kernel void @generic(ptr addrspace(1) %out, ptr addrspace(1) %in) #0 {
  %stack = alloca [4 x i32], align 4, addrspace(5)
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr i32, ptr addrspace(1) %in, i64 %i
  %v = load i32, ptr addrspace(1) %from
  %v3 = mul i32 %v, 3
  %v5 = mul i32 %v, 5
  %lds = getelementptr [64 x i32], ptr addrspace(3) @generic_words, i32 0, i32 %id
  store volatile i32 %v3, ptr addrspace(3) %lds
  %part = and i32 %id, 3
  %slot = getelementptr [4 x i32], ptr addrspace(5) %stack, i32 0, i32 %part
  store volatile i32 %v5, ptr addrspace(5) %slot
  %a = addrspacecast ptr addrspace(3) %lds to ptr
  %b = addrspacecast ptr addrspace(5) %slot to ptr
  %c = addrspacecast ptr addrspace(1) %from to ptr
  %rest = urem i32 %id, 3
  %is0 = icmp eq i32 %rest, 0
  %is1 = icmp eq i32 %rest, 1
  %bc = select i1 %is1, ptr %b, ptr %c
  %p = select i1 %is0, ptr %a, ptr %bc
  %old = load volatile i32, ptr %p
  %sum = add i32 %old, 1
  store volatile i32 %sum, ptr %p
  %new = load volatile i32, ptr %p
  %to = getelementptr i32, ptr addrspace(1) %out, i64 %i
  store i32 %new, ptr addrspace(1) %to
  ret void
}

; 16 bytes of LDS from a place that each lane is told
@wide_words = internal addrspace(3) global [64 x <4 x i32>] undef, align 16

define amdgpu_kernel void @wide(ptr addrspace(1) %out, ptr addrspace(1) %in) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %i = zext i32 %id to i64
  %from = getelementptr i32, ptr addrspace(1) %in, i64 %i
  %place = load i32, ptr addrspace(1) %from
  %own = getelementptr [64 x <4 x i32>], ptr addrspace(3) @wide_words, i32 0, i32 %id
  %v = insertelement <4 x i32> zeroinitializer, i32 %id, i32 0
  store volatile <4 x i32> %v, ptr addrspace(3) %own, align 16
  fence syncscope("workgroup") seq_cst
  call void @llvm.amdgcn.s.barrier()
  %lds = getelementptr [64 x <4 x i32>], ptr addrspace(3) @wide_words, i32 0, i32 %place
  %w = load volatile <4 x i32>, ptr addrspace(3) %lds, align 16
  %first = extractelement <4 x i32> %w, i32 0
  %to = getelementptr i32, ptr addrspace(1) %out, i64 %i
  store i32 %first, ptr addrspace(1) %to
  ret void
}
