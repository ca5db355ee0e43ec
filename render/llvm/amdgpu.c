/* AMD GPUs: what their kernels have that host code has not (arguments,
 * coordinates, LOCAL memory, barriers), and the code generator.
 *
 * Programs come simplified, and the code generator has passes of its own
 * (uniformity, vectorising of accesses, strength reduction). What it lacks is
 * unrolling of short loops: on 70 kernels that took 30 ms of compiling each
 * for gfx942, 23 for gfx1100, in place of 20 and 16, and gfx1100 ran 20
 * million instructions of waves instead of 51 (a convolution 8 instead of
 * 38). default<O2> took 64 and 32 ms and saved another 4 and 0 %.
 */
#include "render/llvm/amdgpu_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"

#define TRIPLE "amdgcn-amd-amdhsa"
/* No sums of four products of bytes in one instruction: LLVM 19 takes the bytes
 * from the wrong words when they come from a load of more than four.
 * observed: LLVM 19.1.7, AMDGPU's performAddCombine (v_dot4_u32_u8). */
#define FEATURES "-dot7-insts"

/* Address spaces. src: docs/hardware/amd-code.md, "Compiling" */
enum {
    SPACE_GLOBAL = 1,
    SPACE_LOCAL = 3
};

#define PASSES "function(loop-unroll<O2>,early-cse)"

/* The pass for IR that somebody else wrote: it finds the parts of its launch
 * that a kernel needs. */
#define IR_PASSES "amdgpu-attributor"

#define CC_KERNEL 91 /* amdgpu_kernel */

static void
param_attr(struct llvm_emit *e, uint32_t i)
{
    assert(i < e->prog->n_params);
    llvm_enum_attr(e, i + 1, "noalias", 0);
    llvm_enum_attr(e, i + 1, "noundef", 0);
    if (e->arg_align_bytes)
        llvm_enum_attr(e, i + 1, "align", e->arg_align_bytes);
}

/* What a kernel does not need of its launch. Without these LLVM has to
 * suppose that it might, and reserves registers and arguments. */
static void
deny_inputs(struct llvm_emit *e)
{
    static const char *const never[] = {
        "amdgpu-no-dispatch-ptr",      "amdgpu-no-queue-ptr",
        "amdgpu-no-implicitarg-ptr",   "amdgpu-no-dispatch-id",
        "amdgpu-no-lds-kernel-id",     "amdgpu-no-hostcall-ptr",
        "amdgpu-no-heap-ptr",          "amdgpu-no-default-queue",
        "amdgpu-no-completion-action", "amdgpu-no-multigrid-sync-arg",
        "amdgpu-no-flat-scratch-init",
    };
    static const char *const group[] = {"amdgpu-no-workgroup-id-x",
                                        "amdgpu-no-workgroup-id-y",
                                        "amdgpu-no-workgroup-id-z"};
    static const char *const item[] = {"amdgpu-no-workitem-id-x",
                                       "amdgpu-no-workitem-id-y",
                                       "amdgpu-no-workitem-id-z"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(never); i++)
        llvm_fn_attr(e, never[i], "");
    for (i = 0; i < 3; i++) {
        if (e->prog->grid[i] == 1)
            llvm_fn_attr(e, group[i], "");
        if (e->prog->local[i] == 1)
            llvm_fn_attr(e, item[i], "");
    }
}

/* For exactly this work-group: in the object's notes. */
static void
require_group(struct llvm_emit *e)
{
    unsigned kind =
        e->ll->GetMDKindIDInContext(e->ctx, "reqd_work_group_size", 20);
    LLVMMetadataRef sizes[3];
    uint32_t i;

    for (i = 0; i < 3; i++)
        sizes[i] = e->ll->ValueAsMetadata(llvm_i32(e, e->prog->local[i]));
    e->ll->GlobalSetMetadata(e->fn, kind,
                             e->ll->MDNodeInContext2(e->ctx, sizes, 3));
}

/* void name(ptr addrspace(1) ..., i64 ...) */
static bell_status
make_kernel(struct llvm_emit *e)
{
    const struct lower_program *p = e->prog;
    uint32_t n = p->n_params + p->n_vars, i;
    unsigned size = p->local[0] * p->local[1] * p->local[2];
    LLVMTypeRef *types = arena_alloc(&e->arena, (n + 1) * sizeof(LLVMTypeRef));
    const struct amdgpu_target *target = e->target;
    struct lower_target known;
    char text[32];

    assert(size > 0);
    if (!types)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         p->name);
    for (i = 0; i < n; i++)
        types[i] = i < p->n_params ? e->t_ptr : e->t_i64;
    e->fn = e->ll->AddFunction(e->mod, p->name,
                               e->ll->FunctionType(e->t_void, types, n, 0));
    e->ll->SetFunctionCallConv(e->fn, CC_KERNEL);
    for (i = 0; i < p->n_params; i++)
        param_attr(e, i);
    llvm_enum_attr(e, LLVMAttributeFunctionIndex, "nounwind", 0);
    snprintf(text, sizeof(text), "%u,%u", size, size);
    llvm_fn_attr(e, "amdgpu-flat-work-group-size", text);
    if (render_amdgpu_lower_target(target, &known) == BELL_OK &&
        known.matrix_layout == UOP_WMMA_CDNA) {
        /* 256 registers, no others (AGPRs): LLVM 19 would keep matrices in
         * these, and move them from and to there in each turn of a loop.
         * observed: LLVM 19, gfx942 */
        llvm_fn_attr(e, "amdgpu-waves-per-eu", "2");
        llvm_fn_attr(e, "amdgpu-no-agpr", "");
    }
    llvm_fn_attr(e, "uniform-work-group-size", "true");
    llvm_fn_attr(e, "no-trapping-math", "true");
    deny_inputs(e);
    require_group(e);
    return BELL_OK;
}

static bell_status
emit_kernel(struct llvm_emit *e)
{
    const struct amdgpu_target *target = e->target;
    LLVMBasicBlockRef body;

    e->t_ptr = e->ll->PointerTypeInContext(e->ctx, SPACE_GLOBAL);
    e->t_local = e->ll->PointerTypeInContext(e->ctx, SPACE_LOCAL);
    e->arg_align_bytes = target->arg_align_bytes;
    BELL_TRY(make_kernel(e));
    e->entry = llvm_new_block(e);
    body = llvm_new_block(e);
    e->ll->PositionBuilderAtEnd(e->b, body);
    BELL_TRY(llvm_emit_ops(e));
    e->ll->BuildRetVoid(e->b);
    e->ll->PositionBuilderAtEnd(e->b, e->entry);
    e->ll->BuildBr(e->b, body);
    return BELL_OK;
}

static LLVMValueRef
get_arg(struct llvm_emit *e, const struct uop *u)
{
    assert((uint64_t)u->arg.i < (uint64_t)e->prog->n_params + e->prog->n_vars);
    return e->ll->GetParam(e->fn, (unsigned)u->arg.i);
}

static LLVMValueRef
get_coordinate(struct llvm_emit *e, const struct uop *u)
{
    static const char *const names[] = {
        "llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workgroup.id.y",
        "llvm.amdgcn.workgroup.id.z", NULL,
        "llvm.amdgcn.workitem.id.x",  "llvm.amdgcn.workitem.id.y",
        "llvm.amdgcn.workitem.id.z",
    };
    const uint32_t *sizes;

    if (u->arg.i < 0 || u->arg.i > 6 || !names[u->arg.i])
        return NULL;
    sizes = u->arg.i < 3 ? e->prog->grid : e->prog->local;
    if (sizes[u->arg.i & 3] == 1)
        return llvm_i32(e, 0);
    return llvm_intrinsic(e, names[u->arg.i], NULL, 0, NULL, 0);
}

static LLVMValueRef
get_local(struct llvm_emit *e, const struct uop *u)
{
    const uint64_t *at = map_get(&e->locals, u->id);
    const struct uop_local *local = u->arg.data;
    LLVMTypeRef type;
    LLVMValueRef var;

    if (at)
        return (LLVMValueRef)(uintptr_t)*at;
    type = e->ll->ArrayType2(llvm_mem_type(e, u->dtype, 1),
                             (uint64_t)local->n_elems);
    var = e->ll->AddGlobalInAddressSpace(e->mod, type, "local", SPACE_LOCAL);
    e->ll->SetInitializer(var, e->ll->GetUndef(type));
    e->ll->SetLinkage(var, LLVMInternalLinkage);
    e->ll->SetAlignment(var, 16);
    return map_put(&e->locals, u->id, (uint64_t)(uintptr_t)var) == 0 ? var
                                                                     : NULL;
}

/* The C interface of LLVM 19 cannot name the scope of a fence, so two are
 * read from text, and copied. */
static bell_status
read_fences(struct llvm_emit *e)
{
    static const char text[] = "define void @fences() {\n"
                               "  fence syncscope(\"workgroup\") release\n"
                               "  fence syncscope(\"workgroup\") acquire\n"
                               "  ret void\n"
                               "}\n";
    LLVMMemoryBufferRef buffer = e->ll->CreateMemoryBufferWithMemoryRangeCopy(
        text, sizeof(text) - 1, "fences");
    char *message = NULL;
    bell_status status;

    if (e->ll->ParseIRInContext(e->ctx, buffer, &e->helper, &message)) {
        status = bell_fail(BELL_E_INTERNAL, "%s: LLVM's fences: %s",
                           e->prog->name, message ? message : "");
        e->ll->DisposeMessage(message);
        e->helper = NULL;
        return status;
    }
    e->fences[0] = e->ll->GetFirstInstruction(e->ll->GetFirstBasicBlock(
        e->ll->GetNamedFunction(e->helper, "fences")));
    e->fences[1] = e->ll->GetNextInstruction(e->fences[0]);
    return BELL_OK;
}

static bell_status
emit_amdgpu_barrier(struct llvm_emit *e)
{
    if (!e->helper)
        BELL_TRY(read_fences(e));
    e->ll->InsertIntoBuilder(e->b, e->ll->InstructionClone(e->fences[0]));
    llvm_intrinsic(e, "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0);
    e->ll->InsertIntoBuilder(e->b, e->ll->InstructionClone(e->fences[1]));
    return BELL_OK;
}

static void
emit_order(struct llvm_emit *e)
{
    LLVMValueRef nothing_passes = llvm_i32(e, 0);

    llvm_intrinsic(e, "llvm.amdgcn.sched.barrier", NULL, 0, &nothing_passes, 1);
}

/* ---- bytes ---- */

/* Are these bytes out of words, and not all of one? */
static bool
is_out_of_words(const struct uop *u)
{
    bool one = true;
    uint32_t i;

    if (uop_dtype_infos[u->dtype].size_bytes != 1 || u->dtype == UOP_BOOL ||
        u->lanes % 4)
        return false;
    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->op != UOP_LANE || u->src[i]->src[0]->lanes != 4)
            return false;
        one &= u->src[i]->src[0] == u->src[0]->src[0];
    }
    return !one;
}

/* v_perm_b32: byte s of the result is that of `low` where select's byte s is
 * 0..3, of `high` where it is 4..7, and 0 where it is 12. */
static LLVMValueRef
permute(struct llvm_emit *e, LLVMValueRef high, LLVMValueRef low,
        uint32_t select)
{
    LLVMValueRef args[3] = {high, low, llvm_i32(e, select)};

    return llvm_intrinsic(e, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

/* LANES of bytes that come from several words: LLVM 19 would take them apart
 * and shift each to its place. */
static bell_status
pack_bytes(struct llvm_emit *e, const struct uop *u, LLVMValueRef *out_value)
{
    LLVMValueRef words, part[4];
    uint32_t at[4], i, j;

    if (!is_out_of_words(u))
        return BELL_OK;
    words = e->ll->GetPoison(llvm_vector(e, e->t_i32, u->lanes / 4));
    for (i = 0; i < u->lanes / 4; i++) {
        for (j = 0; j < 4; j++) {
            const struct uop *lane = u->src[4 * i + j];
            BELL_TRY(llvm_value_of(e, lane->src[0], &part[j]));
            part[j] =
                e->ll->BuildCast(e->b, LLVMBitCast, part[j], e->t_i32, "");
            at[j] = (uint32_t)lane->arg.i;
        }
        assert(at[0] < 4 && at[1] < 4 && at[2] < 4 && at[3] < 4);
        for (j = 0; j < 4; j += 2)
            part[j] = permute(e, part[j + 1], part[j],
                              0x0c0c0000u | (4 + at[j + 1]) << 8 | at[j]);
        part[0] = permute(e, part[2], part[0], 0x05040100u);
        if (u->lanes == 4)
            words = part[0];
        else
            words = e->ll->BuildInsertElement(e->b, words, part[0],
                                              llvm_i32(e, i), "");
    }
    *out_value = e->ll->BuildCast(e->b, LLVMBitCast, words,
                                  llvm_type(e, u->dtype, u->lanes), "");
    return BELL_OK;
}

/* ---- matrix instructions ---- */

/* src: docs/hardware/amd-code.md, "Matrix fragments" */
static const struct matrix {
    uint8_t layout;  /* enum uop_wmma_layout */
    uint8_t in, out; /* dtypes of A and B (or one that mixes), of C and D */
    uint8_t k;
    const char *name; /* of 8-bit floats, without their kinds */
} matrices[] = {
    {UOP_WMMA_RDNA3, UOP_F16, UOP_F32, 16, "llvm.amdgcn.wmma.f32.16x16x16.f16"},
    {UOP_WMMA_RDNA3, UOP_BF16, UOP_F32, 16,
     "llvm.amdgcn.wmma.f32.16x16x16.bf16"},
    {UOP_WMMA_RDNA4, UOP_F16, UOP_F32, 16, "llvm.amdgcn.wmma.f32.16x16x16.f16"},
    {UOP_WMMA_RDNA4, UOP_BF16, UOP_F32, 16,
     "llvm.amdgcn.wmma.f32.16x16x16.bf16"},
    {UOP_WMMA_CDNA, UOP_F16, UOP_F32, 16, "llvm.amdgcn.mfma.f32.16x16x16f16"},
    {UOP_WMMA_CDNA, UOP_BF16, UOP_F32, 16,
     "llvm.amdgcn.mfma.f32.16x16x16bf16.1k"},
    {UOP_WMMA_CDNA, UOP_F32, UOP_F32, 4, "llvm.amdgcn.mfma.f32.16x16x4f32"},
    {UOP_WMMA_CDNA, UOP_F32, UOP_F32, AMDGPU_XF32_K,
     "llvm.amdgcn.mfma.f32.16x16x8.xf32"},
    {UOP_WMMA_CDNA, UOP_F64, UOP_F64, 4, "llvm.amdgcn.mfma.f64.16x16x4f64"},
    {UOP_WMMA_RDNA3, UOP_I8, UOP_I32, 16, "llvm.amdgcn.wmma.i32.16x16x16.iu8"},
    {UOP_WMMA_RDNA4, UOP_I8, UOP_I32, 16, "llvm.amdgcn.wmma.i32.16x16x16.iu8"},
    {UOP_WMMA_CDNA, UOP_I8, UOP_I32, 16, "llvm.amdgcn.mfma.i32.16x16x16i8"},
    {UOP_WMMA_CDNA, UOP_I8, UOP_I32, 32, "llvm.amdgcn.mfma.i32.16x16x32.i8"},
    {UOP_WMMA_RDNA4, UOP_F8E4M3, UOP_F32, 16, "llvm.amdgcn.wmma.f32.16x16x16"},
    {UOP_WMMA_CDNA, UOP_F8E4M3Z, UOP_F32, 32, "llvm.amdgcn.mfma.f32.16x16x32"},
};

static const struct matrix *
find_matrix(const struct llvm_emit *e, const struct uop *u)
{
    enum uop_dtype a = u->src[0]->dtype, b = u->src[1]->dtype;
    struct uop_wmma w = uop_wmma_shape(u->arg.i);
    struct lower_target known;
    size_t i;

    if (render_amdgpu_lower_target(e->target, &known) != BELL_OK ||
        known.matrix_layout != w.layout || known.matrix_k[a] != w.k ||
        known.matrix_k[b] != w.k || !uop_wmma_mixes(a, b))
        return NULL;
    for (i = 0; i < ARRAY_LEN(matrices); i++) {
        const struct matrix *m = &matrices[i];
        if (m->layout == w.layout && uop_wmma_mixes(m->in, a) &&
            m->out == u->dtype && m->k == w.k)
            return m;
    }
    return NULL;
}

/* The type that an instruction takes A or B as: halves are integers in
 * registers, bfloats are so here too; bytes come in words, which MFMA wants as
 * one integer. */
static LLVMTypeRef
matrix_type(struct llvm_emit *e, const struct matrix *m, const struct uop *u)
{
    uint32_t words = u->lanes / 4;

    if (m->in == UOP_F16)
        return llvm_vector(e, e->t_f16, u->lanes);
    if (uop_dtype_infos[m->in].size_bytes > 1)
        return llvm_type(e, u->dtype, u->lanes);
    if (m->layout != UOP_WMMA_CDNA)
        return llvm_vector(e, e->t_i32, words);
    assert(words == 1 || words == 2);
    return words == 2 ? e->t_i64 : e->t_i32;
}

/* WMMA on bytes: each operand follows a flag, whether it is signed; the last
 * flag is that of clamping. */
static LLVMValueRef
emit_bytes(struct llvm_emit *e, const struct uop *u, const struct matrix *m,
           LLVMTypeRef *types, LLVMValueRef *v)
{
    LLVMValueRef args[6] = {NULL, v[0], NULL,
                            v[1], v[2], e->ll->ConstInt(e->t_i1, 0, 0)};
    uint32_t i;

    for (i = 0; i < 2; i++)
        args[2 * i] = e->ll->ConstInt(e->t_i1, u->src[i]->dtype == UOP_I8, 0);
    return llvm_intrinsic(e, m->name, types, 2, args, 6);
}

/* The whole name of an instruction on 8-bit floats: ".fp8.bf8" for e4m3 by
 * e5m2. */
static const char *
name_of_f8(const struct uop *u, const struct matrix *m, char *buf, size_t size)
{
    bool is_bf8[2];
    uint32_t i;

    for (i = 0; i < 2; i++)
        is_bf8[i] =
            u->src[i]->dtype == UOP_F8E5M2 || u->src[i]->dtype == UOP_F8E5M2Z;
    snprintf(buf, size, "%s.%s.%s", m->name, is_bf8[0] ? "bf8" : "fp8",
             is_bf8[1] ? "bf8" : "fp8");
    return buf;
}

static LLVMValueRef
emit_matrix(struct llvm_emit *e, const struct uop *u, LLVMValueRef *v)
{
    const struct matrix *m = find_matrix(e, u);
    LLVMValueRef zero = llvm_i32(e, 0);
    LLVMValueRef args[6] = {v[0], v[1], v[2], zero, zero, zero};
    LLVMTypeRef types[2] = {llvm_type(e, u->dtype, u->lanes), NULL};
    const char *name;
    char f8[64];
    uint32_t i;

    if (!m)
        return NULL;
    name = uop_dtype_is_f8(m->in) ? name_of_f8(u, m, f8, sizeof(f8)) : m->name;
    types[1] = matrix_type(e, m, u->src[0]);
    for (i = 0; i < 2; i++)
        args[i] = e->ll->BuildCast(e->b, LLVMBitCast, v[i], types[1], "");
    for (i = 0; i < 2 && m->in == UOP_F32 && m->k == AMDGPU_XF32_K; i++)
        args[i] = amdgpu_round_xf32(e, v[i], u->src[i]->lanes);
    if (m->layout == UOP_WMMA_CDNA)
        return llvm_intrinsic(e, name, NULL, 0, args, 6);
    if (m->out == UOP_I32)
        return emit_bytes(e, u, m, types, args);
    return llvm_intrinsic(e, name, types, 2, args, 3);
}

/* LLVM 19 moves a WMMA to its only users, behind the gate of their STOREs,
 * where not all lanes take part: the hardware wants all of them.
 * observed: LLVM 19, gfx1100 and gfx1201 */
static LLVMValueRef
pin(struct llvm_emit *e, LLVMValueRef v)
{
    return llvm_opaque(e, v, "=v,0", true);
}

/* ---- the code generator ---- */

static bell_status
make_machine(struct llvm_job *job)
{
    const struct amdgpu_target *target = job->e.target;
    const struct llvm_api *ll = job->e.ll;
    struct llvm_machine *m = &job->made;
    LLVMTargetRef amdgpu;
    char *message = NULL;
    bell_status status;

    m->triple = TRIPLE;
    m->has_round = true;
    if (ll->GetTargetFromTriple(TRIPLE, &amdgpu, &message)) {
        status = bell_fail(BELL_E_UNSUPPORTED,
                           "LLVM has no code generator for " TRIPLE ": %s",
                           message ? message : "");
        ll->DisposeMessage(message);
        return status;
    }
    m->tm = ll->CreateTargetMachine(amdgpu, TRIPLE, target->gfx, FEATURES,
                                    LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                    LLVMCodeModelDefault);
    if (!m->tm)
        return bell_fail(BELL_E_NO_MEMORY,
                         "a code generator for %s: out of memory", target->gfx);
    job->e.machine = m;
    return BELL_OK;
}

static void
drop_machine(struct llvm_job *job)
{
    job->e.ll->DisposeTargetMachine(job->made.tm);
}

static bell_status
run(const struct lower_program *program, const struct amdgpu_target *target,
    struct llvm_job *job)
{
    struct llvm_dialect dialect = {
        .name = target->gfx,
        .is_gpu = true,
        .emit = emit_kernel,
        .arg = get_arg,
        .special = get_coordinate,
        .local = get_local,
        .barrier = emit_amdgpu_barrier,
        .order = emit_order,
        .approximate = amdgpu_approximate,
        .matrix = emit_matrix,
        .pin = pin,
        .lanes = pack_bytes,
    };
    struct lower_target known;

    BELL_TRY(render_amdgpu_lower_target(target, &known));
    BELL_TRY(llvm_api_amdgpu());
    BELL_TRY(llvm_api_get(&job->e.ll));
    job->e.prog = program;
    job->e.dialect = &dialect;
    job->e.target = target;
    job->e.vector_bytes = known.vector_bytes;
    job->machine = make_machine;
    job->done = drop_machine;
    if (!job->ir)
        job->passes = PASSES;
    return llvm_job_run(job);
}

bell_status
render_amdgpu(const struct lower_program *program,
              const struct amdgpu_target *target,
              struct render_binary *out_binary)
{
    struct llvm_job job = {.out_binary = out_binary};
    uint64_t begin_ns = time_now_ns();

    BELL_TRY(run(program, target, &job));
    LOG(LOG_TIME, "render: %s: LLVM %.3f ms, %zu bytes", program->name,
        (double)(time_now_ns() - begin_ns) * 1e-6, out_binary->size_bytes);
    return BELL_OK;
}

bell_status
render_amdgpu_text(const struct lower_program *program,
                   const struct amdgpu_target *target, char **out_text)
{
    struct llvm_job job = {.out_text = out_text};

    return run(program, target, &job);
}

bell_status
render_amdgpu_asm(const struct lower_program *program,
                  const struct amdgpu_target *target, char **out_text)
{
    struct llvm_job job = {.out_asm = out_text};

    return run(program, target, &job);
}

bell_status
render_amdgpu_ir(const char *ir, const char *name,
                 const struct amdgpu_target *target,
                 struct render_binary *out_binary)
{
    struct lower_program program = {.name = name};
    struct llvm_job job = {.ir = ir, .out_binary = out_binary};

    return run(&program, target, &job);
}

bell_status
render_amdgpu_foreign_ir(const char *ir, const char *name,
                         const struct amdgpu_target *target,
                         struct render_binary *out_binary)
{
    struct lower_program program = {.name = name};
    struct llvm_job job = {
        .ir = ir, .passes = IR_PASSES, .out_binary = out_binary};

    return run(&program, target, &job);
}
