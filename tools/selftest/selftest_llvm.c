/* Selftest: kernels by hand, in LLVM's IR, for AMD's cards and simulated ones;
 * the machine code is LLVM's. A kernel denies in its attributes the inputs that
 * it does not use, or registers and arguments would be kept for them. src:
 * docs/hardware/amd-code.md, "Compiling", "Arguments". */
#include <stdio.h>

#include "base/alloc.h"
#include "render/llvm/amdgpu.h"
#include "tools/selftest/selftest.h"

#define TEXT_BYTES 16384

struct kernel {
    const char *name;
    uint32_t n_bufs, n_vals;
    const char *outside; /* of the function: its variables */
    const char *params;
    const char *body;
    bool has_sizes; /* asks for the hidden arguments */
};

/* clang-format off */

#define PTR "ptr addrspace(1) "
#define LDS "ptr addrspace(3) "

/* A hidden argument of 32 or 16 bits. */
#define HIDDEN32(name, at)                                                     \
    "%" name "_p = getelementptr i8, ptr addrspace(4) %hidden, i64 " at "\n"   \
    "%" name " = load i32, ptr addrspace(4) %" name "_p\n"
#define HIDDEN16(name, at)                                                     \
    "%" name "_p = getelementptr i8, ptr addrspace(4) %hidden, i64 " at "\n"   \
    "%" name "_h = load i16, ptr addrspace(4) %" name "_p\n"                   \
    "%" name " = zext i16 %" name "_h to i32\n"
#define PLACE(name, intrinsic)                                                 \
    "%" name " = call i32 @llvm.amdgcn." intrinsic "()\n"

/* %in: number of this thread in its block; %n: of threads in a block; %block:
 * number of this block; %at: number of this thread in the grid. */
#define NUMBERS                                                                \
    "%hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"         \
    HIDDEN32("gx", "0") HIDDEN32("gy", "4") HIDDEN32("gz", "8")                \
    HIDDEN16("nx", "12") HIDDEN16("ny", "14") HIDDEN16("nz", "16")             \
    PLACE("tx", "workitem.id.x") PLACE("ty", "workitem.id.y")                  \
    PLACE("tz", "workitem.id.z") PLACE("bx", "workgroup.id.x")                 \
    PLACE("by", "workgroup.id.y") PLACE("bz", "workgroup.id.z")                \
    "%in0 = mul i32 %tz, %ny\n%in1 = add i32 %in0, %ty\n"                      \
    "%in2 = mul i32 %in1, %nx\n%in = add i32 %in2, %tx\n"                      \
    "%n0 = mul i32 %nx, %ny\n%n = mul i32 %n0, %nz\n"                          \
    "%b0 = mul i32 %bz, %gy\n%b1 = add i32 %b0, %by\n"                         \
    "%b2 = mul i32 %b1, %gx\n%block = add i32 %b2, %bx\n"                      \
    "%at0 = mul i32 %block, %n\n%at = add i32 %at0, %in\n"                     \
    "%at64 = zext i32 %at to i64\n"

/* The next thread of the block, round. */
#define NEXT                                                                   \
    "%after = add i32 %in, 1\n%is_last = icmp eq i32 %after, %n\n"             \
    "%next = select i1 %is_last, i32 0, i32 %after\n"

#define BARRIER                                                                \
    "fence syncscope(\"workgroup\") release\n"                                 \
    "call void @llvm.amdgcn.s.barrier()\n"                                     \
    "fence syncscope(\"workgroup\") acquire\n"

/* Word `k` of this thread's 12 */
#define STORE_SPECIAL(name, k)                                                 \
    "%to_" name " = getelementptr i32, " PTR "%row, i32 " k "\n"               \
    "store i32 %" name ", " PTR "%to_" name "\n"

/* 16 bytes of shared memory, added to the sums. */
#define READ(from, to)                                                         \
    "%i" from " = and i32 %k" from ", 255\n"                                   \
    "%f" from " = getelementptr <4 x i32>, " LDS "@pool, i32 %i" from "\n"     \
    "%x" from " = load <4 x i32>, " LDS "%f" from ", align 16\n"               \
    "%s" to " = add <4 x i32> %s" from ", %x" from "\n"                        \
    "%k" to " = add i32 %k" from ", 1\n"

static const struct kernel kernels[SELFTEST_KERNEL_COUNT] = {
    [SELFTEST_STORE] = {"st_store", 1, 1, "", PTR "%p0, i64 %p1",
        "store i64 %p1, " PTR "%p0\nret void\n", false},
    [SELFTEST_NUMBER] = {"st_number", 1, 1, "", PTR "%p0, i64 %p1",
        NUMBERS
        "%base = trunc i64 %p1 to i32\n%three = mul i32 %at, 3\n"
        "%v = add i32 %three, %base\n"
        "%to = getelementptr i32, " PTR "%p0, i64 %at64\n"
        "store i32 %v, " PTR "%to\nret void\n", true},
    [SELFTEST_DIMS] = {"st_dims", 1, 0, "", PTR "%p0",
        NUMBERS
        "%row64 = mul i64 %at64, 48\n"
        "%row = getelementptr i8, " PTR "%p0, i64 %row64\n"
        STORE_SPECIAL("tx", "0") STORE_SPECIAL("ty", "1")
        STORE_SPECIAL("tz", "2") STORE_SPECIAL("bx", "3")
        STORE_SPECIAL("by", "4") STORE_SPECIAL("bz", "5")
        STORE_SPECIAL("nx", "6") STORE_SPECIAL("ny", "7")
        STORE_SPECIAL("nz", "8") STORE_SPECIAL("gx", "9")
        STORE_SPECIAL("gy", "10") STORE_SPECIAL("gz", "11")
        "ret void\n", true},
    /* Blocks of 256. */
    [SELFTEST_SHARED] = {"st_shared", 2, 0,
        "@tile = internal addrspace(3) global [256 x i32] undef, align 16\n",
        PTR "%p0, " PTR "%p1",
        NUMBERS
        "%from = getelementptr i32, " PTR "%p1, i64 %at64\n"
        "%v = load i32, " PTR "%from\n"
        "%mine = getelementptr i32, " LDS "@tile, i32 %in\n"
        "store i32 %v, " LDS "%mine\n"
        BARRIER
        "%left = sub i32 %n, %in\n%other = sub i32 %left, 1\n"
        "%theirs = getelementptr i32, " LDS "@tile, i32 %other\n"
        "%w = load i32, " LDS "%theirs\n"
        "%to = getelementptr i32, " PTR "%p0, i64 %at64\n"
        "store i32 %w, " PTR "%to\nret void\n", true},
    /* Every thread fills its share of the p1 bytes with its address, a word at
     * a time; after the barrier each adds up what the next thread wrote. */
    [SELFTEST_DYNAMIC] = {"st_dynamic", 1, 1,
        "@pool = external addrspace(3) global [0 x i8], align 16\n",
        PTR "%p0, i64 %p1",
        NUMBERS NEXT
        "%size = trunc i64 %p1 to i32\n%step = shl i32 %n, 2\n"
        "%seven = mul i32 %block, 7\n%first = shl i32 %in, 2\n"
        "br label %test\n"
        "test:\n%i = phi i32 [ %first, %0 ], [ %i_next, %fill ]\n"
        "%more = icmp ult i32 %i, %size\n"
        "br i1 %more, label %fill, label %filled\n"
        "fill:\n%mine = getelementptr i8, " LDS "@pool, i32 %i\n"
        "%v = add i32 %seven, %i\nstore i32 %v, " LDS "%mine\n"
        "%i_next = add i32 %i, %step\nbr label %test\n"
        "filled:\n" BARRIER
        "%start = shl i32 %next, 2\nbr label %look\n"
        "look:\n%k = phi i32 [ %start, %filled ], [ %k_next, %sum ]\n"
        "%s = phi i32 [ 0, %filled ], [ %s_next, %sum ]\n"
        "%any = icmp ult i32 %k, %size\n"
        "br i1 %any, label %sum, label %summed\n"
        "sum:\n%theirs = getelementptr i8, " LDS "@pool, i32 %k\n"
        "%w = load i32, " LDS "%theirs\n%s_next = add i32 %s, %w\n"
        "%k_next = add i32 %k, %step\nbr label %look\n"
        "summed:\n%to = getelementptr i32, " PTR "%p0, i32 %block\n"
        "%unused = atomicrmw add " PTR "%to, i32 %s "
        "syncscope(\"agent\") monotonic\nret void\n", true},
    /* array[i] = i * 5 + thread; then the sum in an order that the compiler
     * cannot see through. */
    [SELFTEST_STACK] = {"st_stack", 1, 1, "", PTR "%p0, i64 %p1",
        "%array = alloca [256 x i32], align 16, addrspace(5)\n" NUMBERS
        "br label %fill\n"
        "fill:\n%i = phi i32 [ 0, %0 ], [ %i_next, %fill ]\n"
        "%five = mul i32 %i, 5\n%v = add i32 %five, %at\n"
        "%mine = getelementptr i32, ptr addrspace(5) %array, i32 %i\n"
        "store volatile i32 %v, ptr addrspace(5) %mine\n"
        "%i_next = add i32 %i, 1\n%more = icmp ult i32 %i_next, 256\n"
        "br i1 %more, label %fill, label %filled\n"
        "filled:\n%start = trunc i64 %p1 to i32\nbr label %sum\n"
        "sum:\n%k = phi i32 [ 0, %filled ], [ %k_next, %sum ]\n"
        "%place = phi i32 [ %start, %filled ], [ %place_next, %sum ]\n"
        "%s = phi i32 [ 0, %filled ], [ %s_next, %sum ]\n"
        "%low = and i32 %place, 255\n"
        "%from = getelementptr i32, ptr addrspace(5) %array, i32 %low\n"
        "%w = load volatile i32, ptr addrspace(5) %from\n"
        "%s_next = add i32 %s, %w\n%place_next = add i32 %place, 77\n"
        "%k_next = add i32 %k, 1\n%again = icmp ult i32 %k_next, 256\n"
        "br i1 %again, label %sum, label %summed\n"
        "summed:\n%to = getelementptr i32, " PTR "%p0, i64 %at64\n"
        "store i32 %s_next, " PTR "%to\nret void\n", true},
    /* Blocks of at most 1024: a value goes 64 places around the block. */
    [SELFTEST_BARRIERS] = {"st_barriers", 1, 1,
        "@ring = internal addrspace(3) global [1024 x i32] undef, align 16\n",
        PTR "%p0, i64 %p1",
        NUMBERS NEXT
        "%base = trunc i64 %p1 to i32\n%first = add i32 %at, %base\n"
        "%mine = getelementptr i32, " LDS "@ring, i32 %in\n"
        "%theirs = getelementptr i32, " LDS "@ring, i32 %next\n"
        "br label %round\n"
        "round:\n%i = phi i32 [ 0, %0 ], [ %i_next, %round ]\n"
        "%v = phi i32 [ %first, %0 ], [ %w, %round ]\n"
        "store i32 %v, " LDS "%mine\n" BARRIER
        "%w = load i32, " LDS "%theirs\n" BARRIER
        "%i_next = add i32 %i, 1\n%more = icmp ult i32 %i_next, 64\n"
        "br i1 %more, label %round, label %end\n"
        "end:\n%to = getelementptr i32, " PTR "%p0, i64 %at64\n"
        "store i32 %w, " PTR "%to\nret void\n", true},
    /* p0[0] += 1 by every thread; p0[1] += what the block counted in shared
     * memory; p0[2] by compare-and-swap in thread 0 of each block; p0[3] the
     * largest number. */
    [SELFTEST_ATOMICS] = {"st_atomics", 1, 0,
        "@count = internal addrspace(3) global i32 undef, align 4\n",
        PTR "%p0",
        NUMBERS
        "%is_first = icmp eq i32 %in, 0\n"
        "%p1 = getelementptr i32, " PTR "%p0, i32 1\n"
        "%p2 = getelementptr i32, " PTR "%p0, i32 2\n"
        "%p3 = getelementptr i32, " PTR "%p0, i32 3\n"
        "br i1 %is_first, label %clear, label %ready\n"
        "clear:\nstore i32 0, " LDS "@count\nbr label %ready\n"
        "ready:\n" BARRIER
        "%u0 = atomicrmw add " PTR "%p0, i32 1 syncscope(\"agent\") "
        "monotonic\n"
        "%u1 = atomicrmw add " LDS "@count, i32 2 syncscope(\"workgroup\") "
        "monotonic\n"
        "%u2 = atomicrmw umax " PTR "%p3, i32 %at syncscope(\"agent\") "
        "monotonic\n"
        BARRIER
        "br i1 %is_first, label %tell, label %end\n"
        "tell:\n%sum = load i32, " LDS "@count\n"
        "%u3 = atomicrmw add " PTR "%p1, i32 %sum syncscope(\"agent\") "
        "monotonic\n"
        "%seen = load volatile i32, " PTR "%p2\nbr label %again\n"
        "again:\n%old = phi i32 [ %seen, %tell ], [ %now, %again ]\n"
        "%new = add i32 %old, 5\n"
        "%pair = cmpxchg " PTR "%p2, i32 %old, i32 %new syncscope(\"agent\") "
        "monotonic monotonic\n"
        "%now = extractvalue { i32, i1 } %pair, 0\n"
        "%done = extractvalue { i32, i1 } %pair, 1\n"
        "br i1 %done, label %end, label %again\n"
        "end:\nret void\n", true},
    [SELFTEST_WIDE] = {"st_wide", 2, 0, "", PTR "%p0, " PTR "%p1",
        NUMBERS
        "%from = getelementptr <4 x i32>, " PTR "%p1, i64 %at64\n"
        "%v = load <4 x i32>, " PTR "%from, align 16\n"
        "%to = getelementptr <4 x i32>, " PTR "%p0, i64 %at64\n"
        "store <4 x i32> %v, " PTR "%to, align 16\nret void\n", true},
    [SELFTEST_SPIN] = {"st_spin", 1, 0, "", PTR "%p0",
        "br label %loop\n"
        "loop:\n%v = load volatile i32, " PTR "%p0\n"
        "%again = icmp eq i32 %v, 0\n"
        "br i1 %again, label %loop, label %end\n"
        "end:\nret void\n", false},
    [SELFTEST_LOAD] = {"st_load", 1, 1, "", PTR "%p0, " PTR "%p1",
        "%v = load i64, " PTR "%p1\nstore i64 %v, " PTR "%p0\nret void\n",
        false},
    [SELFTEST_STEP] = {"st_step", 1, 1, "", PTR "%p0, " PTR "%p1",
        PLACE("b", "workgroup.id.x")
        "%b1 = add i32 %b, 1\n%from = and i32 %b1, 511\n"
        "%from64 = zext i32 %from to i64\n%b64 = zext i32 %b to i64\n"
        "%p = getelementptr i32, " PTR "%p1, i64 %from64\n"
        "%q = getelementptr i32, " PTR "%p0, i64 %b64\n"
        "%x = load i32, " PTR "%p\n%y = load i32, " PTR "%q\n"
        "%s = add i32 %x, %y\n%v = add i32 %s, 1\n"
        "store i32 %v, " PTR "%q\nret void\n", false},
    [SELFTEST_COUNT] = {"st_count", 1, 1, "", PTR "%p0, i64 %p1",
        "%v = load i64, " PTR "%p0\n%w = add i64 %v, %p1\n"
        "store i64 %w, " PTR "%p0\nret void\n", false},
    [SELFTEST_CHASE] = {"st_chase", 1, 1, "", PTR "%p0, i64 %p1",
        "br label %step\n"
        "step:\n%x = phi i64 [ 0, %0 ], [ %x_next, %step ]\n"
        "%left = phi i64 [ %p1, %0 ], [ %left_next, %step ]\n"
        "%from = getelementptr i8, " PTR "%p0, i64 %x\n"
        "%x_next = load i64, " PTR "%from\n"
        "%left_next = sub i64 %left, 1\n"
        "%more = icmp ne i64 %left_next, 0\n"
        "br i1 %more, label %step, label %end\n"
        "end:\n%to = getelementptr i64, " PTR "%p0, i64 1\n"
        "store i64 %x_next, " PTR "%to\nret void\n", false},
    [SELFTEST_READS] = {"st_reads", 1, 1,
        "@pool = internal addrspace(3) global [1024 x i32] undef, align 16\n",
        PTR "%p0, i64 %p1",
        NUMBERS "%v0 = shl i32 %in, 2\n%v1 = add i32 %v0, 1\n"
        "%v2 = add i32 %v0, 2\n%v3 = add i32 %v0, 3\n"
        "%w0 = insertelement <4 x i32> undef, i32 %v0, i32 0\n"
        "%w1 = insertelement <4 x i32> %w0, i32 %v1, i32 1\n"
        "%w2 = insertelement <4 x i32> %w1, i32 %v2, i32 2\n"
        "%w3 = insertelement <4 x i32> %w2, i32 %v3, i32 3\n"
        "%mine = getelementptr <4 x i32>, " LDS "@pool, i32 %in\n"
        "store <4 x i32> %w3, " LDS "%mine, align 16\n" BARRIER
        "br label %round\n"
        "round:\n%left = phi i64 [ %p1, %0 ], [ %left_next, %round ]\n"
        "%k0 = phi i32 [ %in, %0 ], [ %k4, %round ]\n"
        "%s0 = phi <4 x i32> [ zeroinitializer, %0 ], [ %s4, %round ]\n"
        READ("0", "1") READ("1", "2") READ("2", "3") READ("3", "4")
        "%left_next = sub i64 %left, 1\n"
        "%more = icmp ne i64 %left_next, 0\n"
        "br i1 %more, label %round, label %end\n"
        "end:\n%e0 = extractelement <4 x i32> %s4, i32 0\n"
        "%e1 = extractelement <4 x i32> %s4, i32 1\n"
        "%e2 = extractelement <4 x i32> %s4, i32 2\n"
        "%e3 = extractelement <4 x i32> %s4, i32 3\n"
        "%a = add i32 %e0, %e1\n%b = add i32 %e2, %e3\n"
        "%s = add i32 %a, %b\n"
        "%to = getelementptr i32, " PTR "%p0, i64 %at64\n"
        "store i32 %s, " PTR "%to\nret void\n", true},
};

/* clang-format on */

static const char declared[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.y()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.z()\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "declare i32 @llvm.amdgcn.workitem.id.y()\n"
    "declare i32 @llvm.amdgcn.workitem.id.z()\n"
    "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "declare void @llvm.amdgcn.s.barrier()\n";

static const char denied[] =
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "
    "nounwind";

bell_status
selftest_llvm_binary(const struct hcq_device_info *info,
                     enum selftest_kernel kernel,
                     struct selftest_binary *out_binary)
{
    const struct kernel *k = &kernels[kernel];
    struct amdgpu_target target = {.arg_align_bytes = 0};
    struct render_binary binary;
    char text[TEXT_BYTES];
    int used;

    snprintf(target.gfx, sizeof(target.gfx), "%.15s", info->arch);
    used = snprintf(
        text, sizeof(text),
        "%s%sdefine amdgpu_kernel void @%s(%s) #0 {\n%s}\n"
        "attributes #0 = { %s\"amdgpu-flat-work-group-size\"=\"1,1024\" %s "
        "}\n",
        declared, k->outside, k->name, k->params, k->body,
        k->has_sizes ? "" : "\"amdgpu-no-implicitarg-ptr\" ", denied);
    if (used < 0 || (size_t)used >= sizeof(text))
        return bell_fail(BELL_E_INTERNAL, "%s: more than %d bytes of IR",
                         k->name, TEXT_BYTES);
    BELL_TRY(render_amdgpu_ir(text, k->name, &target, &binary));
    *out_binary = (struct selftest_binary){binary.data, binary.size_bytes,
                                           k->name, k->n_bufs, k->n_vals};
    return BELL_OK;
}
