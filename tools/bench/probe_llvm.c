/* Probes in LLVM's IR: for AMD's cards, and for the CPU, whose groups are of
 * one thread, what needs no other one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "render/llvm/amdgpu.h"
#include "tools/bench/probe.h"
#include "tools/chain/chain.h"

#define LDS "ptr addrspace(3)"
#define BARRIER                                                                \
    "fence syncscope(\"workgroup\") release\n"                                 \
    "call void @llvm.amdgcn.s.barrier()\n"                                     \
    "fence syncscope(\"workgroup\") acquire\n"

/* A kernel that is written: what differs between the two. */
struct writer {
    struct text *text;
    const struct probe *probe;
    const char *ptr;   /* to global memory */
    const char *scope; /* of atomics, for all threads of the device */
    const char *first; /* label of the block before the rounds */
};

/* A value that goes from turn to turn, "%NAME_0", "%NAME_1", .. */
static void
put_state(struct writer *w, const char *name, const char *type,
          const char *start)
{
    unsigned turns = w->probe->kind == PROBE_BARRIER ? 1 : w->probe->turns;

    text_add(w->text, "%%%s_0 = phi %s [ %s, %%%s ], [ %%%s_%u, %%round ]\n",
             name, type, start, w->first, name, turns);
}

static void
put_rounds(struct writer *w)
{
    text_add(w->text,
             "br label %%round\nround:\n"
             "%%left = phi i64 [ %%p1, %%%s ], [ %%left1, %%round ]\n",
             w->first);
}

static void
put_llvm_end(struct writer *w)
{
    text_add(w->text, "%%left1 = sub i64 %%left, 1\n"
                      "%%more = icmp ne i64 %%left1, 0\n"
                      "br i1 %%more, label %%round, label %%end\nend:\n");
}

/* ---- each kind ----------------------------------------------------------- */

static void
put_atomics(struct writer *w)
{
    bool is_shared = w->probe->kind == PROBE_ATOMIC_SHARED;
    const char *place = w->probe->kind == PROBE_ATOMIC_SAME ? "%p2" : "%mine";
    unsigned i;

    if (is_shared)
        text_add(w->text, "%%mine = getelementptr i32, " LDS " @pool, i32 "
                          "%%in\nstore i32 0, " LDS " %%mine\n");
    else
        text_add(w->text, "%%mine = getelementptr i32, %s %%p2, i32 %%at\n",
                 w->ptr);
    put_rounds(w);
    for (i = 0; i < w->probe->turns; i++)
        text_add(w->text, "%%u%u = atomicrmw add %s %s, i32 %%a %smonotonic\n",
                 i, is_shared ? LDS : w->ptr, place,
                 is_shared ? "syncscope(\"workgroup\") " : w->scope);
    put_llvm_end(w);
    if (is_shared)
        text_add(w->text, "%%res = load volatile i32, " LDS " %%mine\n");
    else
        text_add(w->text, "%%res = add i32 %%at, 0\n");
}

/* This thread's word of the pool and the next one's. */
static void
put_pool(struct writer *w)
{
    text_add(w->text,
             "%%after = add i32 %%in, 1\n%%next = and i32 %%after, %u\n"
             "%%mine = getelementptr i32, " LDS " @pool, i32 %%in\n"
             "%%theirs = getelementptr i32, " LDS " @pool, i32 %%next\n"
             "%%in4 = shl i32 %%in, 2\n%%next4 = shl i32 %%next, 2\n",
             w->probe->n_threads - 1);
}

static void
put_barrier(struct writer *w)
{
    put_pool(w);
    put_rounds(w);
    put_state(w, "x", "i32", "%at");
    text_add(w->text, "store i32 %%x_0, " LDS " %%mine\n" BARRIER
                      "%%x_1 = load i32, " LDS " %%theirs\n" BARRIER);
    put_llvm_end(w);
    text_add(w->text, "%%res = add i32 %%x_1, 0\n");
}

static void
put_shared(struct writer *w)
{
    unsigned i;

    put_pool(w);
    text_add(w->text, "store i32 %%next4, " LDS " %%mine\n" BARRIER);
    put_rounds(w);
    put_state(w, "x", "i32", "%in4");
    for (i = 0; i < w->probe->turns; i++)
        text_add(w->text,
                 "%%f%u = getelementptr i8, " LDS " @pool, i32 %%x_%u\n"
                 "%%x_%u = load i32, " LDS " %%f%u\n",
                 i, i, i + 1, i);
    put_llvm_end(w);
    text_add(w->text, "%%res = add i32 %%x_%u, 0\n", w->probe->turns);
}

/* Chains of multiply-adds of integers. */
static void
put_llvm_mads(struct writer *w, const char *type, unsigned n_chains)
{
    unsigned i, bits = (unsigned)strtoul(type + 1, NULL, 10);
    const char *cast = bits < 32 ? "trunc" : bits > 32 ? "zext" : "bitcast";

    text_add(w->text,
             "%%aw = %s i32 %%a to %s\n%%bw = %s i32 %%b to %s\n"
             "%%w0 = %s i32 %%at to %s\n",
             cast, type, cast, type, cast, type);
    for (i = 1; i < n_chains; i++)
        text_add(w->text, "%%w%u = add %s %%w0, %u\n", i, type, i);
    put_rounds(w);
    for (i = 0; i < n_chains; i++)
        text_add(w->text,
                 "%%x%u_0 = phi %s [ %%w%u, %%%s ], [ %%x%u_%u, %%round ]\n", i,
                 type, i, w->first, i, w->probe->turns / n_chains);
    for (i = 0; i < w->probe->turns; i++) {
        unsigned c = i % n_chains, t = i / n_chains;

        text_add(w->text,
                 "%%m%u = mul %s %%x%u_%u, %%aw\n"
                 "%%x%u_%u = add %s %%m%u, %%bw\n",
                 i, type, c, t, c, t + 1, type, i);
    }
    put_llvm_end(w);
    text_add(w->text, "%%z0 = add %s %%x0_%u, 0\n", type,
             w->probe->turns / n_chains);
    for (i = 1; i < n_chains; i++)
        text_add(w->text, "%%z%u = add %s %%z%u, %%x%u_%u\n", i, type, i - 1, i,
                 w->probe->turns / n_chains);
    text_add(w->text, "%%res = %s %s %%z%u to i32\n",
             bits < 32   ? "zext"
             : bits > 32 ? "trunc"
                         : "bitcast",
             type, n_chains - 1);
}

static void
put_fmas(struct writer *w, const char *type, const char *suffix)
{
    bool is_double = strcmp(suffix, "f64") == 0;
    unsigned i;

    text_add(w->text,
             "%%low = and i32 %%at, 7\n%%start = uitofp i32 %%low to %s\n"
             "%%af = bitcast i32 %%a to float\n"
             "%%bf = bitcast i32 %%b to float\n"
             "%%aw = %s float %%af to %s\n%%bw = %s float %%bf to %s\n",
             type, is_double ? "fpext" : "bitcast", type,
             is_double ? "fpext" : "bitcast", type);
    put_rounds(w);
    put_state(w, "x", type, "%start");
    for (i = 0; i < w->probe->turns; i++)
        text_add(w->text,
                 "%%x_%u = call %s @llvm.fma.%s(%s %%x_%u, %s %%aw, %s "
                 "%%bw)\n",
                 i + 1, type, suffix, type, i, type, type);
    put_llvm_end(w);
    text_add(w->text, "%%res = fptoui %s %%x_%u to i32\n", type,
             w->probe->turns);
}

static void
put_reads(struct writer *w)
{
    unsigned width = probe_width(w->probe->kind), n = width / 4, i;
    char type[32];

    snprintf(type, sizeof(type), n > 1 ? "<%u x i32>" : "i32", n);
    text_add(w->text, "%%start = mul i32 %%in, %u\n", width);
    put_rounds(w);
    put_state(w, "at", "i32", "%start");
    put_state(w, "s", type, n > 1 ? "zeroinitializer" : "0");
    for (i = 0; i < w->probe->turns; i++)
        text_add(w->text,
                 "%%f%u = getelementptr i8, %s %%p2, i32 %%at_%u\n"
                 "%%v%u = load %s, %s %%f%u, align %u\n"
                 "%%s_%u = add %s %%s_%u, %%v%u\n"
                 "%%o%u = add i32 %%at_%u, %u\n"
                 "%%at_%u = and i32 %%o%u, %u\n",
                 i, w->ptr, i, i, type, w->ptr, i, width, i + 1, type, i, i, i,
                 i, w->probe->n_threads * width, i + 1, i,
                 probe_place_bytes(w->probe->kind) - 1);
    put_llvm_end(w);
    if (n > 1)
        text_add(w->text,
                 "%%res = call i32 @llvm.vector.reduce.add.v%ui32(%s "
                 "%%s_%u)\n",
                 n, type, w->probe->turns);
    else
        text_add(w->text, "%%res = add i32 %%s_%u, 0\n", w->probe->turns);
}

/* One word for all threads: of AMD's a scalar load. */
static void
put_llvm_constants(struct writer *w)
{
    unsigned i;

    text_add(w->text, "%%c = addrspacecast %s %%p2 to ptr addrspace(4)\n",
             w->ptr);
    put_rounds(w);
    put_state(w, "at", "i64", "0");
    put_state(w, "s", "i32", "0");
    for (i = 0; i < w->probe->turns; i++)
        text_add(w->text,
                 "%%o%u = add i64 %%at_%u, 1\n%%at_%u = and i64 %%o%u, %u\n"
                 "%%f%u = getelementptr i32, ptr addrspace(4) %%c, i64 "
                 "%%at_%u\n"
                 "%%v%u = load i32, ptr addrspace(4) %%f%u\n"
                 "%%s_%u = add i32 %%s_%u, %%v%u\n",
                 i, i, i + 1, i, PROBE_CONSTANTS - 1, i, i + 1, i, i, i + 1, i,
                 i);
    put_llvm_end(w);
    text_add(w->text, "%%res = add i32 %%s_%u, 0\n", w->probe->turns);
}

/* Two ways of as many multiply-adds, whose factor and summand are exchanged. */
static void
put_llvm_branches(struct writer *w)
{
    unsigned n = w->probe->turns, i, k;

    if (w->probe->kind == PROBE_BRANCH_SPLIT)
        text_add(w->text, "%%low = and i32 %%in, 1\n"
                          "%%is_other = icmp eq i32 %%low, 1\n");
    else
        text_add(w->text, "%%is_other = icmp eq i32 %%a, 0\n");
    text_add(w->text,
             "br label %%round\nround:\n"
             "%%left = phi i64 [ %%p1, %%%s ], [ %%left1, %%joined ]\n"
             "%%x = phi i32 [ %%at, %%%s ], [ %%y, %%joined ]\n"
             "br i1 %%is_other, label %%way1, label %%way0\n",
             w->first, w->first);
    for (k = 0; k < 2; k++) {
        text_add(w->text, "way%u:\n%%x%u_0 = add i32 %%x, 0\n", k, k);
        for (i = 0; i < n; i++)
            text_add(w->text,
                     "%%m%u_%u = mul i32 %%x%u_%u, %%%s\n"
                     "%%x%u_%u = add i32 %%m%u_%u, %%%s\n",
                     k, i, k, i, k ? "b" : "a", k, i + 1, k, i, k ? "a" : "b");
        text_add(w->text, "br label %%joined\n");
    }
    text_add(w->text,
             "joined:\n%%y = phi i32 [ %%x0_%u, %%way0 ], [ %%x1_%u, %%way1 ]"
             "\n%%left1 = sub i64 %%left, 1\n"
             "%%more = icmp ne i64 %%left1, 0\n"
             "br i1 %%more, label %%round, label %%end\nend:\n"
             "%%res = add i32 %%y, 0\n",
             n, n);
}

static void
put_kind(struct writer *w)
{
    switch (w->probe->kind) {
    case PROBE_ATOMIC_OWN:
    case PROBE_ATOMIC_SAME:
    case PROBE_ATOMIC_SHARED:
        put_atomics(w);
        break;
    case PROBE_BARRIER:
        put_barrier(w);
        break;
    case PROBE_BRANCH_SAME:
    case PROBE_BRANCH_SPLIT:
        put_llvm_branches(w);
        break;
    case PROBE_WAIT_MAD_I32:
        put_llvm_mads(w, "i32", 1);
        break;
    case PROBE_WAIT_FMA_F32:
        put_fmas(w, "float", "f32");
        break;
    case PROBE_WAIT_FMA_F64:
        put_fmas(w, "double", "f64");
        break;
    case PROBE_WAIT_SHARED:
        put_shared(w);
        break;
    case PROBE_READ_L1:
    case PROBE_READ_L2_4:
    case PROBE_READ_L2_8:
    case PROBE_READ_L2_16:
        put_reads(w);
        break;
    case PROBE_CONSTANT:
        put_llvm_constants(w);
        break;
    case PROBE_MAD_I16:
        put_llvm_mads(w, "i16", PROBE_CHAINS);
        break;
    case PROBE_MAD_I64:
        put_llvm_mads(w, "i64", PROBE_CHAINS);
        break;
    case PROBE_KIND_COUNT:
        break;
    }
}

/* ---- the two ------------------------------------------------------------- */

static const char declared[] =
    "declare float @llvm.fma.f32(float, float, float)\n"
    "declare double @llvm.fma.f64(double, double, double)\n"
    "declare i32 @llvm.vector.reduce.add.v2i32(<2 x i32>)\n"
    "declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)\n";

static const char factors[] = "%a = trunc i64 %p3 to i32\n"
                              "%b64 = lshr i64 %p3, 32\n"
                              "%b = trunc i64 %b64 to i32\n";

bell_status
probe_make_amd(const struct hcq_device_info *info, const struct probe *probe,
               struct text *text, struct render_binary *out)
{
    struct writer w = {text, probe, "ptr addrspace(1)", "syncscope(\"agent\") ",
                       "0"};
    struct amdgpu_target target = {.arg_align_bytes = 0};

    snprintf(target.gfx, sizeof(target.gfx), "%.15s", info->arch);
    text_add(text,
             "%sdeclare i32 @llvm.amdgcn.workgroup.id.x()\n"
             "declare i32 @llvm.amdgcn.workitem.id.x()\n"
             "declare void @llvm.amdgcn.s.barrier()\n"
             "@pool = internal addrspace(3) global [%u x i32] undef, align "
             "16\n"
             "define amdgpu_kernel void @%s(%s %%p0, i64 %%p1, %s %%p2, i64 "
             "%%p3) #0 {\n"
             "%%in = call i32 @llvm.amdgcn.workitem.id.x()\n"
             "%%g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
             "%%at0 = mul i32 %%g, %u\n%%at = add i32 %%at0, %%in\n%s",
             declared, PROBE_THREADS, probe_names[probe->kind], w.ptr, w.ptr,
             probe->n_threads, factors);
    put_kind(&w);
    text_add(text,
             "%%to = getelementptr i32, %s %%p0, i32 %%at\n"
             "store i32 %%res, %s %%to\nret void\n}\n"
             "attributes #0 = { "
             "\"amdgpu-flat-work-group-size\"=\"%u,%u\" " CHAIN_AMD_ATTRIBUTES
             " }\n",
             w.ptr, w.ptr, probe->n_threads, probe->n_threads);
    BELL_TRY(probe_check_text(text));
    return render_amdgpu_ir(text->buf, probe_names[probe->kind], &target, out);
}

/* Needs other threads of a group, or memory that is the same as other memory
 * here. */
static bool
is_of_groups(enum probe_kind kind)
{
    return kind == PROBE_ATOMIC_SHARED || kind == PROBE_BARRIER ||
           kind == PROBE_BRANCH_SAME || kind == PROBE_BRANCH_SPLIT ||
           kind == PROBE_WAIT_SHARED || kind == PROBE_CONSTANT;
}

bell_status
probe_make_host(const struct hcq_device_info *info, const struct probe *probe,
                struct text *text, struct render_binary *out)
{
    struct writer w = {text, probe, "ptr", "", "enter"};
    struct lower_target target;

    if (is_of_groups(probe->kind))
        return bell_fail(BELL_E_UNSUPPORTED, "%s (%s) has no such thing",
                         info->model, info->arch);
    BELL_TRY(render_host_target(&target));
    text_add(text,
             "%sdefine void @%s(ptr %%args, ptr %%grid, i64 %%first, i64 "
             "%%last) {\n"
             "%%q0 = load i64, ptr %%args\n%%p0 = inttoptr i64 %%q0 to ptr\n"
             "%%r1 = getelementptr i64, ptr %%args, i64 1\n"
             "%%p1 = load i64, ptr %%r1\n"
             "%%r2 = getelementptr i64, ptr %%args, i64 2\n"
             "%%q2 = load i64, ptr %%r2\n%%p2 = inttoptr i64 %%q2 to ptr\n"
             "%%r3 = getelementptr i64, ptr %%args, i64 3\n"
             "%%p3 = load i64, ptr %%r3\n%s"
             "br label %%group\ngroup:\n"
             "%%g = phi i64 [ %%first, %%0 ], [ %%g1, %%end ]\n"
             "%%is_one = icmp ult i64 %%g, %%last\n"
             "br i1 %%is_one, label %%enter, label %%finish\nenter:\n"
             "%%at = trunc i64 %%g to i32\n%%in = add i32 0, 0\n",
             declared, probe_names[probe->kind], factors);
    put_kind(&w);
    text_add(text, "%%to = getelementptr i32, ptr %%p0, i64 %%g\n"
                   "store i32 %%res, ptr %%to\n%%g1 = add i64 %%g, 1\n"
                   "br label %%group\nfinish:\nret void\n}\n");
    BELL_TRY(probe_check_text(text));
    return render_host_ir(text->buf, probe_names[probe->kind], &target, out);
}
