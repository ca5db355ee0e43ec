/* The suite's kernels as LLVM IR. A kernel has to deny in its attributes the
 * inputs that it does not ask for, or LLVM reserves registers and arguments for
 * them. `ids` and `items` ask for the sizes of the launch, which come in hidden
 * arguments. src: docs/hardware/amd-code.md, "Compiling", "Arguments". */
#include "kernels_amd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES (64u << 10)

struct kernel {
    const char *name, *params;
    const char *attrs;   /* of its work-group and of hidden arguments */
    const char *outside; /* variables of the module; or NULL */
    const char *body;
};

#define WITHOUT_HIDDEN    "\"amdgpu-no-implicitarg-ptr\" "
#define SIZES(n)          "\"amdgpu-flat-work-group-size\"=\"" n "\" "
#define GROUP_OF_1        WITHOUT_HIDDEN SIZES("1,1")
#define GROUP_OF_1_HIDDEN SIZES("1,1")
#define GROUP_OF_64       WITHOUT_HIDDEN SIZES("64,64")
#define GROUP_OF_128      WITHOUT_HIDDEN SIZES("128,128")
#define ANY_GROUP         WITHOUT_HIDDEN SIZES("1,1024")
#define ANY_GROUP_HIDDEN  SIZES("1,1024")

/* %g = linear work-group, of %x %y %z; %hidden: the hidden arguments. */
#define LINEAR_GROUP                                                           \
    "  %x = call i32 @llvm.amdgcn.workgroup.id.x()\n"                          \
    "  %y = call i32 @llvm.amdgcn.workgroup.id.y()\n"                          \
    "  %z = call i32 @llvm.amdgcn.workgroup.id.z()\n"                          \
    "  %hidden = call ptr addrspace(4) "                                       \
    "@llvm.amdgcn.implicitarg.ptr()\n"                                         \
    "  %at_y = getelementptr i8, ptr addrspace(4) %hidden, i64 "               \
    "4\n"                                                                      \
    "  %n_x = load i32, ptr addrspace(4) %hidden\n"                            \
    "  %n_y = load i32, ptr addrspace(4) %at_y\n"                              \
    "  %g_zy = mul i32 %z, %n_y\n"                                             \
    "  %g_y = add i32 %g_zy, %y\n"                                             \
    "  %g_yx = mul i32 %g_y, %n_x\n"                                           \
    "  %g = add i32 %g_yx, %x\n"

/* clang-format off */
static const struct kernel kernels[CTS_KERNEL_COUNT] = {
    [CTS_NOP] =
        {
            .name = "nop",
            .params = "",
            .attrs = GROUP_OF_1,
            .body =
                "  ret void\n",
        },
    [CTS_ADD_ONE] =
        {
            .name = "add_one",
            .params =
                "ptr addrspace(1) %out, ptr addrspace(1) %in, i64 %n",
            .attrs = GROUP_OF_1,
            .body =
                "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
                "  %g64 = zext i32 %g to i64\n"
                "  %first = mul i64 %g64, %n\n"
                "  %last = add i64 %first, %n\n"
                "  %any = icmp ult i64 %first, %last\n"
                "  br i1 %any, label %loop, label %end\n"
                "loop:\n"
                "  %i = phi i64 [ %first, %0 ], [ %next, %loop ]\n"
                "  %from = getelementptr i32, ptr addrspace(1) %in, i64 %i\n"
                "  %to = getelementptr i32, ptr addrspace(1) %out, i64 %i\n"
                "  %old = load i32, ptr addrspace(1) %from\n"
                "  %new = add i32 %old, 1\n"
                "  store i32 %new, ptr addrspace(1) %to\n"
                "  %next = add i64 %i, 1\n"
                "  %more = icmp ult i64 %next, %last\n"
                "  br i1 %more, label %loop, label %end\n"
                "end:\n"
                "  ret void\n",
        },
    [CTS_IDS] =
        {
            .name = "ids",
            .params =
                "ptr addrspace(1) %out",
            .attrs = GROUP_OF_1_HIDDEN,
            .body = LINEAR_GROUP
                "  %to = getelementptr i32, ptr addrspace(1) %out, i32 %g\n"
                "  %old = load i32, ptr addrspace(1) %to\n"
                "  %thousands = mul i32 %y, 1000\n"
                "  %millions = mul i32 %z, 1000000\n"
                "  %a = add i32 %old, %x\n"
                "  %b = add i32 %a, %thousands\n"
                "  %c = add i32 %b, %millions\n"
                "  %new = add i32 %c, 1\n"
                "  store i32 %new, ptr addrspace(1) %to\n"
                "  ret void\n",
        },
    [CTS_VALUES] =
        {
            .name = "values",
            .params =
                "ptr addrspace(1) %out, i64 %a, i64 %b, i64 %c",
            .attrs = GROUP_OF_1,
            .body =
                "  %b3 = mul i64 %b, 3\n"
                "  %c5 = mul i64 %c, 5\n"
                "  %ab = add i64 %a, %b3\n"
                "  %abc = add i64 %ab, %c5\n"
                "  store i64 %abc, ptr addrspace(1) %out\n"
                "  ret void\n",
        },
    /* Its arguments and body are written by put_many. */
    [CTS_MANY] = {.name = "many"},
    [CTS_SPIN] =
        {
            .name = "spin",
            .params =
                "ptr addrspace(1) %flag",
            .attrs = GROUP_OF_1,
            .body =
                "  br label %loop\n"
                "loop:\n"
                "  %v = load volatile i32, ptr addrspace(1) %flag\n"
                "  %go_on = icmp eq i32 %v, 0\n"
                "  br i1 %go_on, label %loop, label %end\n"
                "end:\n"
                "  ret void\n",
        },
    [CTS_WORK] =
        {
            .name = "work",
            .params =
                "ptr addrspace(1) %out, i64 %n",
            .attrs = GROUP_OF_1,
            .body =
                "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
                "  %to = getelementptr i32, ptr addrspace(1) %out, i32 %g\n"
                "  %any = icmp ne i64 %n, 0\n"
                "  br i1 %any, label %loop, label %end\n"
                "loop:\n"
                "  %i = phi i64 [ %n, %0 ], [ %left, %loop ]\n"
                "  %x = phi i32 [ %g, %0 ], [ %next, %loop ]\n"
                "  %high = lshr i32 %x, 15\n"
                "  %mixed = xor i32 %x, %high\n"
                "  %scaled = mul i32 %mixed, 1664525\n"
                "  %next = add i32 %scaled, 1013904223\n"
                "  %left = sub i64 %i, 1\n"
                "  %more = icmp ne i64 %left, 0\n"
                "  br i1 %more, label %loop, label %end\n"
                "end:\n"
                "  %result = phi i32 [ %g, %0 ], [ %next, %loop ]\n"
                "  store i32 %result, ptr addrspace(1) %to\n"
                "  ret void\n",
        },
    [CTS_POKE] =
        {
            .name = "poke",
            .params =
                "ptr addrspace(1) %unused, i64 %which, ptr addrspace(1) "
                "%to",
            .attrs = GROUP_OF_1,
            .body =
                "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
                "  %g64 = zext i32 %g to i64\n"
                "  %mine = icmp eq i64 %g64, %which\n"
                "  br i1 %mine, label %poke, label %end\n"
                "poke:\n"
                "  store volatile i32 1, ptr addrspace(1) %to\n"
                "  br label %end\n"
                "end:\n"
                "  ret void\n",
        },
    [CTS_TRAP] =
        {
            .name = "trap",
            .params = "",
            .attrs = GROUP_OF_1,
            .body =
                "  call void @llvm.trap()\n"
                "  ret void\n",
        },
    [CTS_SECTIONS] =
        {
            .name = "sections",
            .params =
                "ptr addrspace(1) %out",
            .attrs = GROUP_OF_1,
            .outside =
                "@squares = internal addrspace(4) constant [8 x i32] [i32 "
                "0, i32 1, i32 4, i32 9, i32 16, i32 25, i32 36, i32 49]\n"
                "@counter = internal addrspace(1) global i32 41\n"
                "@zeros = internal addrspace(1) global [1024 x i32] "
                "zeroinitializer\n"
                "@pointers = internal addrspace(4) constant { ptr "
                "addrspace(4), ptr addrspace(1) } { ptr addrspace(4) "
                "getelementptr (i8, ptr addrspace(4) @squares, i64 12), "
                "ptr addrspace(1) @counter }\n",
            .body =
                "  br label %loop\n"
                "loop:\n"
                "  %i = phi i32 [ 0, %0 ], [ %next, %store ]\n"
                "  switch i32 %i, label %other [\n"
                "    i32 0, label %case0\n"
                "    i32 1, label %case1\n"
                "    i32 2, label %case2\n"
                "    i32 3, label %case3\n"
                "    i32 4, label %case4\n"
                "    i32 5, label %case5\n"
                "  ]\n"
                "case0:\n"
                "  %v0 = load volatile i32, ptr addrspace(4) getelementptr "
                "(i8, ptr addrspace(4) @squares, i64 28)\n"
                "  br label %store\n"
                "case1:\n"
                "  %v1 = load volatile i32, ptr addrspace(1) @counter\n"
                "  br label %store\n"
                "case2:\n"
                "  %p2 = load volatile ptr addrspace(4), ptr addrspace(4) "
                "@pointers\n"
                "  %v2 = load volatile i32, ptr addrspace(4) %p2\n"
                "  br label %store\n"
                "case3:\n"
                "  %p3 = load volatile ptr addrspace(1), ptr addrspace(4) "
                "getelementptr (i8, ptr addrspace(4) @pointers, i64 8)\n"
                "  %w3 = load volatile i32, ptr addrspace(1) %p3\n"
                "  %v3 = add i32 %w3, 1\n"
                "  br label %store\n"
                "case4:\n"
                "  %v4 = load volatile i32, ptr addrspace(1) getelementptr "
                "(i8, ptr addrspace(1) @zeros, i64 4092)\n"
                "  br label %store\n"
                "case5:\n"
                "  br label %store\n"
                "other:\n"
                "  br label %store\n"
                "store:\n"
                "  %v = phi i32 [ %v0, %case0 ], [ %v1, %case1 ], [ %v2, "
                "%case2 ], [ %v3, %case3 ], [ %v4, %case4 ], [ 32, %case5 "
                "], [ -1, %other ]\n"
                "  %to = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
                "  store i32 %v, ptr addrspace(1) %to\n"
                "  %next = add i32 %i, 1\n"
                "  %more = icmp ult i32 %next, 7\n"
                "  br i1 %more, label %loop, label %end\n"
                "end:\n"
                "  %old = load volatile i32, ptr addrspace(1) "
                "getelementptr (i8, ptr addrspace(1) @zeros, i64 4092)\n"
                "  %new = add i32 %old, 1\n"
                "  store volatile i32 %new, ptr addrspace(1) getelementptr "
                "(i8, ptr addrspace(1) @zeros, i64 4092)\n"
                "  ret void\n",
        },
    /* The stack of a gfx9 lane ends 16 bytes short of 128 KiB: the last
     * elements share the places of the first. */
    [CTS_STACK] =
        {
            .name = "stack",
            .params =
                "ptr addrspace(1) %out",
            .attrs = GROUP_OF_1,
            .body =
                "  %array = alloca [32752 x i32], align 4, addrspace(5)\n"
                "  br label %fill\n"
                "fill:\n"
                "  %i = phi i32 [ 0, %0 ], [ %i_next, %fill ]\n"
                "  %i_in = icmp ult i32 %i, 32752\n"
                "  %i_less = sub i32 %i, 32752\n"
                "  %i_at = select i1 %i_in, i32 %i, i32 %i_less\n"
                "  %to = getelementptr i32, ptr addrspace(5) %array, i32 %i_at\n"
                "  %low = and i32 %i, 3\n"
                "  store volatile i32 %low, ptr addrspace(5) %to\n"
                "  %i_next = add i32 %i, 1\n"
                "  %i_more = icmp ult i32 %i_next, 32768\n"
                "  br i1 %i_more, label %fill, label %sum\n"
                "sum:\n"
                "  %k = phi i32 [ 0, %fill ], [ %k_next, %sum ]\n"
                "  %s = phi i32 [ 0, %fill ], [ %s_next, %sum ]\n"
                "  %k_in = icmp ult i32 %k, 32752\n"
                "  %k_less = sub i32 %k, 32752\n"
                "  %k_at = select i1 %k_in, i32 %k, i32 %k_less\n"
                "  %from = getelementptr i32, ptr addrspace(5) %array, i32 "
                "%k_at\n"
                "  %v = load volatile i32, ptr addrspace(5) %from\n"
                "  %s_next = add i32 %s, %v\n"
                "  %k_next = add i32 %k, 1\n"
                "  %k_more = icmp ult i32 %k_next, 32768\n"
                "  br i1 %k_more, label %sum, label %end\n"
                "end:\n"
                "  store i32 %s_next, ptr addrspace(1) %out\n"
                "  ret void\n",
        },
    [CTS_ITEMS] =
        {
            .name = "items",
            .params =
                "ptr addrspace(1) %out",
            .attrs = ANY_GROUP_HIDDEN,
            .body = LINEAR_GROUP
                "  %at_sx = getelementptr i8, ptr addrspace(4) %hidden, "
                "i64 12\n"
                "  %at_sy = getelementptr i8, ptr addrspace(4) %hidden, "
                "i64 14\n"
                "  %at_sz = getelementptr i8, ptr addrspace(4) %hidden, "
                "i64 16\n"
                "  %sx16 = load i16, ptr addrspace(4) %at_sx\n"
                "  %sy16 = load i16, ptr addrspace(4) %at_sy\n"
                "  %sz16 = load i16, ptr addrspace(4) %at_sz\n"
                "  %sx = zext i16 %sx16 to i32\n"
                "  %sy = zext i16 %sy16 to i32\n"
                "  %sz = zext i16 %sz16 to i32\n"
                "  %ix = call i32 @llvm.amdgcn.workitem.id.x()\n"
                "  %iy = call i32 @llvm.amdgcn.workitem.id.y()\n"
                "  %iz = call i32 @llvm.amdgcn.workitem.id.z()\n"
                "  %n_z = mul i32 %g, %sz\n"
                "  %at_z = add i32 %n_z, %iz\n"
                "  %n_zy = mul i32 %at_z, %sy\n"
                "  %at_zy = add i32 %n_zy, %iy\n"
                "  %n_zyx = mul i32 %at_zy, %sx\n"
                "  %at = add i32 %n_zyx, %ix\n"
                "  %to = getelementptr i32, ptr addrspace(1) %out, i32 %at\n"
                "  %old = load i32, ptr addrspace(1) %to\n"
                "  %thousands = mul i32 %iy, 1000\n"
                "  %millions = mul i32 %iz, 1000000\n"
                "  %a = add i32 %old, %ix\n"
                "  %b = add i32 %a, %thousands\n"
                "  %c = add i32 %b, %millions\n"
                "  %new = add i32 %c, 1\n"
                "  store i32 %new, ptr addrspace(1) %to\n"
                "  ret void\n",
        },
    [CTS_REVERSE] =
        {
            .name = "reverse",
            .params =
                "ptr addrspace(1) %out, ptr addrspace(1) %in",
            .attrs = GROUP_OF_128,
            .outside =
                "@room = internal addrspace(3) global [128 x i32] undef, "
                "align 4\n",
            .body =
                "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
                "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
                "  %first = mul i32 %g, 128\n"
                "  %at = add i32 %first, %i\n"
                "  %from = getelementptr i32, ptr addrspace(1) %in, i32 %at\n"
                "  %to = getelementptr i32, ptr addrspace(1) %out, i32 %at\n"
                "  %v = load i32, ptr addrspace(1) %from\n"
                "  %mine = getelementptr i32, ptr addrspace(3) @room, i32 "
                "%i\n"
                "  store i32 %v, ptr addrspace(3) %mine\n"
                "  fence syncscope(\"workgroup\") release\n"
                "  call void @llvm.amdgcn.s.barrier()\n"
                "  fence syncscope(\"workgroup\") acquire\n"
                "  %other = sub i32 127, %i\n"
                "  %theirs = getelementptr i32, ptr addrspace(3) @room, "
                "i32 %other\n"
                "  %w = load i32, ptr addrspace(3) %theirs\n"
                "  store i32 %w, ptr addrspace(1) %to\n"
                "  ret void\n",
        },
    [CTS_DYNAMIC] =
        {
            .name = "dynamic",
            .params =
                "ptr addrspace(1) %out",
            .attrs = GROUP_OF_64,
            .outside =
                "@room = external addrspace(3) global [0 x i32], align 16\n",
            .body =
                "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
                "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
                "  %first = mul i32 %g, 64\n"
                "  %at = add i32 %first, %i\n"
                "  %to = getelementptr i32, ptr addrspace(1) %out, i32 %at\n"
                "  %row = mul i32 %i, 256\n"
                "  %last = add i32 %row, 255\n"
                "  %mine = getelementptr i32, ptr addrspace(3) @room, i32 "
                "%last\n"
                "  store i32 %at, ptr addrspace(3) %mine\n"
                "  fence syncscope(\"workgroup\") release\n"
                "  call void @llvm.amdgcn.s.barrier()\n"
                "  fence syncscope(\"workgroup\") acquire\n"
                "  %after = add i32 %i, 1\n"
                "  %next = and i32 %after, 63\n"
                "  %next_row = mul i32 %next, 256\n"
                "  %next_last = add i32 %next_row, 255\n"
                "  %theirs = getelementptr i32, ptr addrspace(3) @room, "
                "i32 %next_last\n"
                "  %w = load i32, ptr addrspace(3) %theirs\n"
                "  store i32 %w, ptr addrspace(1) %to\n"
                "  ret void\n",
        },
    [CTS_COUNT] =
        {
            .name = "count",
            .params =
                "ptr addrspace(1) %out",
            .attrs = ANY_GROUP,
            .body =
                "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
                "  %n = add i32 %i, 1\n"
                "  %second = getelementptr i32, ptr addrspace(1) %out, i32 "
                "1\n"
                "  %third = getelementptr i32, ptr addrspace(1) %out, i32 2\n"
                "  %unused = atomicrmw add ptr addrspace(1) %out, i32 %n "
                "syncscope(\"agent\") monotonic\n"
                "  %old = atomicrmw add ptr addrspace(1) %second, i32 1 "
                "syncscope(\"agent\") monotonic\n"
                "  %unused2 = atomicrmw umax ptr addrspace(1) %third, i32 "
                "%old syncscope(\"agent\") monotonic\n"
                "  ret void\n",
        },
};
/* clang-format on */

static const char head[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.y()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.z()\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "declare i32 @llvm.amdgcn.workitem.id.y()\n"
    "declare i32 @llvm.amdgcn.workitem.id.z()\n"
    "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "declare void @llvm.amdgcn.s.barrier()\n"
    "declare void @llvm.trap()\n";

static const char denied[] =
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "
    "nounwind";

/* Appends to a text of TEXT_BYTES. */
static void
put(char *text, const char *s)
{
    if (strlen(text) + strlen(s) >= TEXT_BYTES)
        abort(); /* the bound is wrong */
    strcat(text, s);
}

/* b0[0] = sum (i+1)*v[i]. */
static void
put_many(char *text)
{
    char line[160];
    int i;

    put(text, "define amdgpu_kernel void @many(ptr addrspace(1) %out");
    for (i = 1; i < HCQ_ARGS_MAX; i++) {
        snprintf(line, sizeof(line), ", i64 %%v%d", i);
        put(text, line);
    }
    put(text, ") #0 {\n  %s0 = add i64 0, 0\n");
    for (i = 1; i < HCQ_ARGS_MAX; i++) {
        snprintf(line, sizeof(line),
                 "  %%m%d = mul i64 %%v%d, %d\n"
                 "  %%s%d = add i64 %%s%d, %%m%d\n",
                 i, i, i, i, i - 1, i);
        put(text, line);
    }
    snprintf(line, sizeof(line),
             "  store i64 %%s%d, ptr addrspace(1) %%out\n  ret void\n}\n",
             HCQ_ARGS_MAX - 1);
    put(text, line);
}

const char *
amd_kernel_name(enum cts_kernel kernel)
{
    return kernels[kernel].name;
}

char *
amd_kernel(enum cts_kernel kernel)
{
    const struct kernel *k = &kernels[kernel];
    char *text;

    if (!k->name)
        return NULL;
    text = calloc(1, TEXT_BYTES);
    if (!text)
        abort();
    put(text, head);
    put(text, k->outside ? k->outside : "");
    if (kernel == CTS_MANY) {
        put_many(text);
    } else {
        put(text, "define amdgpu_kernel void @");
        put(text, k->name);
        put(text, "(");
        put(text, k->params);
        put(text, ") #0 {\n");
        put(text, k->body);
        put(text, "}\n");
    }
    put(text, "attributes #0 = { ");
    put(text, k->attrs ? k->attrs : GROUP_OF_1);
    put(text, denied);
    put(text, " }\n");
    return text;
}
