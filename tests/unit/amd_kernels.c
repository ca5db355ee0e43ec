/* Kernels of tests: see amd_kernels.h. */
#include "tests/unit/amd_kernels.h"

#include <stdio.h>
#include <stdlib.h>

#define ATTRIBUTES ATTRIBUTES_OF("1024")
#define ATTRIBUTES_OF(group)                                                   \
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "                      \
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "                   \
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "                       \
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "             \
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "        \
    "nounwind \"amdgpu-flat-work-group-size\"=\"1," group "\" "

static const char declarations[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.y()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.z()\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "declare void @llvm.amdgcn.s.barrier()\n"
    "attributes #0 = { " ATTRIBUTES "\"amdgpu-no-implicitarg-ptr\" }\n"
    "attributes #1 = { " ATTRIBUTES "}\n"
    "attributes #2 = { " ATTRIBUTES_OF("64") "}\n";

/* out[(((z * 2) + y) * 4 + x) * 8 + thread] = value + groups * 100 + threads,
 * both along x, as the compiler's own arguments tell them. */
const struct amd_kernel amd_shape_kernel = {
    "shape", 1, 1, 0,
    "define amdgpu_kernel void @shape(ptr addrspace(1) %out, i64 %value) #1 {\n"
    "  %x = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "  %y = call i32 @llvm.amdgcn.workgroup.id.y()\n"
    "  %z = call i32 @llvm.amdgcn.workgroup.id.z()\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "  %n = load i32, ptr addrspace(4) %h\n"
    "  %at = getelementptr i8, ptr addrspace(4) %h, i64 12\n"
    "  %m16 = load i16, ptr addrspace(4) %at\n"
    "  %m = zext i16 %m16 to i32\n"
    "  %n100 = mul i32 %n, 100\n"
    "  %s = add i32 %n100, %m\n"
    "  %s64 = zext i32 %s to i64\n"
    "  %v = add i64 %value, %s64\n"
    "  %z2 = mul i32 %z, 2\n"
    "  %zy = add i32 %z2, %y\n"
    "  %zy4 = mul i32 %zy, 4\n"
    "  %g = add i32 %zy4, %x\n"
    "  %g8 = mul i32 %g, 8\n"
    "  %i = add i32 %g8, %t\n"
    "  %i64 = zext i32 %i to i64\n"
    "  %p = getelementptr i64, ptr addrspace(1) %out, i64 %i64\n"
    "  store i64 %v, ptr addrspace(1) %p\n"
    "  ret void\n}\n"};

/* out[t] = value + 63 - t + 7 * (63 - t), through LDS of both kinds. */
const struct amd_kernel amd_lds_kernel = {
    "lds", 1, 1, 256,
    "@fixed = internal unnamed_addr addrspace(3) global [64 x i32] undef, "
    "align "
    "4\n"
    "@dynamic = external addrspace(3) global [0 x i32], align 4\n"
    "define amdgpu_kernel void @lds(ptr addrspace(1) %out, i64 %value) #0 {\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %low = trunc i64 %value to i32\n"
    "  %a = add i32 %low, %t\n"
    "  %b = mul i32 %t, 7\n"
    "  %pa = getelementptr [64 x i32], ptr addrspace(3) @fixed, i32 0, i32 %t\n"
    "  %pb = getelementptr [0 x i32], ptr addrspace(3) @dynamic, i32 0, i32 "
    "%t\n"
    "  store i32 %a, ptr addrspace(3) %pa\n"
    "  store i32 %b, ptr addrspace(3) %pb\n"
    "  fence syncscope(\"workgroup\") release\n"
    "  call void @llvm.amdgcn.s.barrier()\n"
    "  fence syncscope(\"workgroup\") acquire\n"
    "  %u = sub i32 63, %t\n"
    "  %qa = getelementptr [64 x i32], ptr addrspace(3) @fixed, i32 0, i32 %u\n"
    "  %qb = getelementptr [0 x i32], ptr addrspace(3) @dynamic, i32 0, i32 "
    "%u\n"
    "  %c = load i32, ptr addrspace(3) %qa\n"
    "  %d = load i32, ptr addrspace(3) %qb\n"
    "  %e = add i32 %c, %d\n"
    "  %t64 = zext i32 %t to i64\n"
    "  %p = getelementptr i32, ptr addrspace(1) %out, i64 %t64\n"
    "  store i32 %e, ptr addrspace(1) %p\n"
    "  ret void\n}\n"};

/* By way of a lane's own stack of %u words. */
static const char stack_text[] =
    "define amdgpu_kernel void @stack(ptr addrspace(1) %%out, i64 %%value) #0 "
    "{\n"
    "  %%mem = alloca [%u x i32], align 16, addrspace(5)\n"
    "  %%t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %%low = trunc i64 %%value to i32\n"
    "  %%a = add i32 %%low, %%t\n"
    "  %%q = getelementptr [%u x i32], ptr addrspace(5) %%mem, i32 0, i32 %%t\n"
    "  store volatile i32 %%a, ptr addrspace(5) %%q\n"
    "  %%v = load volatile i32, ptr addrspace(5) %%q\n"
    "  %%t64 = zext i32 %%t to i64\n"
    "  %%p = getelementptr i32, ptr addrspace(1) %%out, i64 %%t64\n"
    "  store i32 %%v, ptr addrspace(1) %%p\n"
    "  ret void\n}\n";

/* out[0] += value, whoever else does */
const struct amd_kernel amd_count_kernel = {
    "count", 1, 1, 0,
    "define amdgpu_kernel void @count(ptr addrspace(1) %out, i64 %value) #0 {\n"
    "  %old = atomicrmw add ptr addrspace(1) %out, i64 %value monotonic\n"
    "  ret void\n}\n"};

/* The same, compiled for groups of up to 64. */
const struct amd_kernel amd_small_kernel = {
    "small", 1, 1, 0,
    "define amdgpu_kernel void @small(ptr addrspace(1) %out, i64 %value) #2 {\n"
    "  %old = atomicrmw add ptr addrspace(1) %out, i64 %value monotonic\n"
    "  ret void\n}\n"};

const struct amd_kernel amd_step_kernel = {
    "step", 1, 1, 0,
    "define amdgpu_kernel void @step(ptr addrspace(1) %out, i64 %value) #0 {\n"
    "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "  %low = and i64 %value, 4294967295\n"
    "  %high = lshr i64 %value, 32\n"
    "  %from = getelementptr i8, ptr addrspace(1) %out, i64 %low\n"
    "  %to = getelementptr i8, ptr addrspace(1) %out, i64 %high\n"
    "  %g1 = add i32 %g, 1\n"
    "  %next = and i32 %g1, 63\n"
    "  %next64 = zext i32 %next to i64\n"
    "  %g64 = zext i32 %g to i64\n"
    "  %p = getelementptr i64, ptr addrspace(1) %from, i64 %next64\n"
    "  %q = getelementptr i64, ptr addrspace(1) %to, i64 %g64\n"
    "  %a = load i64, ptr addrspace(1) %p\n"
    "  %b = load i64, ptr addrspace(1) %q\n"
    "  %c = add i64 %a, %b\n"
    "  %d = add i64 %c, 1\n"
    "  store i64 %d, ptr addrspace(1) %q\n"
    "  ret void\n}\n"};

const struct amd_kernel amd_stuck_kernel = {
    "stuck", 1, 1, 0,
    "define amdgpu_kernel void @stuck(ptr addrspace(1) %out, i64 %value) #0 {\n"
    "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "  %waits = icmp eq i32 %g, 1\n"
    "  br i1 %waits, label %loop, label %end\n"
    "loop:\n"
    "  %v = load volatile i64, ptr addrspace(1) %out\n"
    "  %zero = icmp eq i64 %v, 0\n"
    "  br i1 %zero, label %loop, label %end\n"
    "end:\n"
    "  ret void\n}\n"};

/* ---- programs ---- */

struct render_binary
amd_kernel_build(const struct amd_kernel *k, const char *gfx)
{
    struct amdgpu_target target = {{0}, 0};
    struct render_binary binary;
    char *text = calloc(1, 16384);

    assert_non_null(text);
    snprintf(target.gfx, sizeof(target.gfx), "%s", gfx);
    snprintf(text, 16384, "%s%s", k->text, declarations);
    expect_ok(render_amdgpu_ir(text, k->name, &target, &binary));
    free(text);
    return binary;
}

struct hcq_program_desc
amd_kernel_desc(const struct amd_kernel *k, const struct render_binary *binary)
{
    return (struct hcq_program_desc){
        .struct_size = sizeof(struct hcq_program_desc),
        .name = k->name,
        .binary = binary->data,
        .binary_size_bytes = binary->size_bytes,
        .n_bufs = k->n_bufs,
        .n_vals = k->n_vals,
        .shared_bytes = k->shared_bytes,
    };
}

struct hcq_program *
amd_kernel_load(struct hcq_device *dev, const struct amd_kernel *k)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_program_desc desc;
    struct render_binary binary;
    struct hcq_program *prog;

    hcq_device_info(dev, &info);
    binary = amd_kernel_build(k, info.arch);
    desc = amd_kernel_desc(k, &binary);
    expect_ok(hcq_program_create(dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

struct hcq_program *
amd_kernel_load_stack(struct hcq_device *dev, uint32_t n)
{
    char text[2048];
    struct amd_kernel k = {
        .name = "stack", .n_bufs = 1, .n_vals = 1, .text = text};

    snprintf(text, sizeof(text), stack_text, n, n);
    return amd_kernel_load(dev, &k);
}

void
amd_kernel_exec(struct hcq_cs *cs, const struct rig *r,
                const struct hcq_program *prog, uint64_t value,
                const uint32_t grid[3], uint32_t threads)
{
    const uint64_t args[] = {r->out->va, value};
    const uint32_t local[] = {threads, 1, 1};

    hcq_cs_exec(cs, prog, args, 2, grid, local);
}

void
amd_kernel_exec_x(struct hcq_cs *cs, const struct rig *r,
                  const struct hcq_program *prog, uint64_t value, uint32_t x,
                  uint32_t threads)
{
    amd_kernel_exec(cs, r, prog, value, (const uint32_t[]){x, 1, 1}, threads);
}
