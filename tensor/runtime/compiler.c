/* Which compiler a device needs, and what it does with a linear program. */
#include "tensor/runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "render/ptx/nv_container.h"

/* Buffers start at 64-byte boundaries, and values in scratch memory too. */
#define ARG_ALIGN_BYTES 64

/* ---- the CPU: objects by LLVM ---- */

static bell_status
init_host(const struct hcq_device_info *info, uint32_t math,
          struct rt_target *target)
{
    (void)math; /* exact functions cost least */
    target->tool = RT_TOOL_LLVM;
    target->n_parallel = info->n_units;
    BELL_TRY(info->flags & HCQ_DEVICE_NULL
                 ? render_host_level(info->arch, info->n_units, &target->lower)
                 : render_host_target(&target->lower));
    target->lower.arg_align_bytes = ARG_ALIGN_BYTES;
    return BELL_OK;
}

static bell_status
compile_host(const struct rt_target *target,
             const struct lower_program *program, struct rt_binary *out)
{
    return render_host(program, &target->lower, &out->file);
}

static bell_status
print_host(const struct rt_target *target, const struct lower_program *program,
           char **out_text)
{
    return render_host_text(program, &target->lower, out_text);
}

static bell_status
assemble_host(const struct rt_target *target,
              const struct lower_program *program, char **out_text)
{
    return render_host_asm(program, &target->lower, out_text);
}

/* ---- NVIDIA: PTX, assembled for cards, packed for simulated ones ---- */

/* What a multiprocessor has to do for its memory to be busy. guess: four
 * warps. */
#define NV_ITEMS_PER_SM 128

/* What lowering may use of this very card. */
static void
limit_gpu(const struct hcq_device_info *info, struct lower_target *lower)
{
    int i;

    lower->n_units = info->n_units;
    if (info->max_local_total < lower->max_threads)
        lower->max_threads = 1u << log2_floor(info->max_local_total);
    if (info->max_shared_bytes < lower->max_shared_bytes)
        lower->max_shared_bytes = info->max_shared_bytes;
    if (info->max_shared_bytes < lower->max_stage_bytes)
        lower->max_stage_bytes = info->max_shared_bytes;
    for (i = 0; i < 3; i++) {
        if (info->max_grid[i] < lower->max_grid[i])
            lower->max_grid[i] = info->max_grid[i];
    }
}

static bell_status
init_nv(const struct hcq_device_info *info, uint32_t math,
        struct rt_target *target)
{
    if (!render_ptx_target(info->arch, &target->ptx))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: no compiler for '%s', which is not sm_NN",
                         info->name, info->arch);
    target->ptx.arg_align_bytes = ARG_ALIGN_BYTES;
    target->ptx.tf32 = (math & BELL_MATH_TF32) != 0;
    target->ptx.approx = (math & BELL_MATH_APPROX) != 0;
    target->is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) != 0;
    target->tool = target->is_simulated ? RT_TOOL_NONE : RT_TOOL_PTXAS;
    target->n_parallel = info->n_units * NV_ITEMS_PER_SM;
    BELL_TRY(render_ptx_lower_target(&target->ptx, &target->lower));
    limit_gpu(info, &target->lower);
    return BELL_OK;
}

static bell_status
assemble_nv(const struct rt_target *target, const struct lower_program *program,
            struct render_binary *out_file)
{
    bell_status status;
    char *text;

    BELL_TRY(render_ptx(program, &target->ptx, &text));
    status = render_ptxas(text, &target->ptx, out_file);
    host_free(text);
    return status;
}

static bell_status
compile_nv(const struct rt_target *target, const struct lower_program *program,
           struct rt_binary *out)
{
    out->shared_bytes = render_ptx_dynamic_bytes(program);
    memcpy(out->local, program->local, sizeof(out->local));
    if (target->is_simulated)
        return render_nv_container_program(program, &target->ptx, &out->file);
    return assemble_nv(target, program, &out->file);
}

static bell_status
print_nv(const struct rt_target *target, const struct lower_program *program,
         char **out_text)
{
    return render_ptx(program, &target->ptx, out_text);
}

static bell_status
disassemble_nv(const struct rt_target *target,
               const struct lower_program *program, char **out_text)
{
    bell_status status;
    char *text;

    BELL_TRY(render_ptx(program, &target->ptx, &text));
    status = render_sass(text, &target->ptx, out_text);
    host_free(text);
    return status;
}

static bell_status
measure_nv(const struct rt_target *target, const struct lower_program *program,
           struct render_usage *out_usage)
{
    bell_status status;
    char *text;

    BELL_TRY(render_ptx(program, &target->ptx, &text));
    status = render_ptxas_usage(text, &target->ptx, out_usage);
    host_free(text);
    out_usage->shared_bytes = program->shared_bytes;
    return status;
}

/* ---- AMD: code objects by LLVM ---- */

/* What a compute unit has to do for its memory to be busy. guess: four waves
 * of 64. */
#define AMD_ITEMS_PER_CU 256

static bell_status
init_amd(const struct hcq_device_info *info, uint32_t math,
         struct rt_target *target)
{
    snprintf(target->amdgpu.gfx, sizeof(target->amdgpu.gfx), "%.15s",
             info->arch);
    target->amdgpu.arg_align_bytes = ARG_ALIGN_BYTES;
    target->amdgpu.tf32 = (math & BELL_MATH_TF32) != 0;
    target->amdgpu.approx = (math & BELL_MATH_APPROX) != 0;
    target->is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) != 0;
    target->tool = RT_TOOL_LLVM;
    target->n_parallel = info->n_units * AMD_ITEMS_PER_CU;
    BELL_TRY(render_amdgpu_lower_target(&target->amdgpu, &target->lower));
    limit_gpu(info, &target->lower);
    return BELL_OK;
}

static bell_status
compile_amd(const struct rt_target *target, const struct lower_program *program,
            struct rt_binary *out)
{
    memcpy(out->local, program->local, sizeof(out->local));
    return render_amdgpu(program, &target->amdgpu, &out->file);
}

static bell_status
print_amd(const struct rt_target *target, const struct lower_program *program,
          char **out_text)
{
    return render_amdgpu_text(program, &target->amdgpu, out_text);
}

static bell_status
assemble_amd(const struct rt_target *target,
             const struct lower_program *program, char **out_text)
{
    return render_amdgpu_asm(program, &target->amdgpu, out_text);
}

static bell_status
measure_amd(const struct rt_target *target, const struct lower_program *program,
            struct render_usage *out_usage)
{
    return render_amdgpu_usage(program, &target->amdgpu, out_usage);
}

/* ---- OpenCL: its source, which the device's own compiler takes ---- */

/* What a unit has to do for its memory to be busy. guess */
#define CL_ITEMS_PER_UNIT 256

static bell_status
init_cl(const struct hcq_device_info *info, uint32_t math,
        struct rt_target *target)
{
    (void)math; /* exact functions are the same everywhere */
    if (!render_cl_target(info->arch, &target->cl))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: no compiler for '%s', which is not cl12, with "
                         "+fma, +fp64 behind it",
                         info->name, info->arch);
    target->tool = RT_TOOL_NONE;
    target->n_parallel = info->n_units * CL_ITEMS_PER_UNIT;
    render_cl_lower_target(&target->cl, &target->lower);
    limit_gpu(info, &target->lower);
    return BELL_OK;
}

static bell_status
compile_cl(const struct rt_target *target, const struct lower_program *program,
           struct rt_binary *out)
{
    char *text;

    BELL_TRY(render_cl(program, &target->cl, &text));
    memcpy(out->local, program->local, sizeof(out->local));
    out->file = (struct render_binary){text, strlen(text)};
    return BELL_OK;
}

static bell_status
print_cl(const struct rt_target *target, const struct lower_program *program,
         char **out_text)
{
    return render_cl(program, &target->cl, out_text);
}

static bell_status
assemble_cl(const struct rt_target *target, const struct lower_program *program,
            char **out_text)
{
    (void)program, (void)out_text;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: the machine code is OpenCL's, which shows none",
                     target->arch);
}

/* ---- Qualcomm: our own compiler ---- */

/* What an SP has to do for its memory to be busy. guess: four waves of 64. */
#define QCOM_ITEMS_PER_SP 256

static bell_status
init_qcom(const struct hcq_device_info *info, uint32_t math,
          struct rt_target *target)
{
    (void)math; /* approximations are not used yet */
    if (!render_ir3_gen(info->arch, &target->ir3_gen))
        return bell_fail(BELL_E_UNSUPPORTED, "%s: no compiler for '%s'",
                         info->name, info->arch);
    target->tool = RT_TOOL_NONE;
    target->n_parallel = info->n_units * QCOM_ITEMS_PER_SP;
    render_ir3_lower_target(target->ir3_gen, &target->lower);
    limit_gpu(info, &target->lower);
    return BELL_OK;
}

static bell_status
compile_qcom(const struct rt_target *target,
             const struct lower_program *program, struct rt_binary *out)
{
    memcpy(out->local, program->local, sizeof(out->local));
    return render_ir3(program, target->ir3_gen, &out->file);
}

static bell_status
print_qcom(const struct rt_target *target, const struct lower_program *program,
           char **out_text)
{
    return render_ir3_text(program, target->ir3_gen, out_text);
}

static bell_status
measure_qcom(const struct rt_target *target,
             const struct lower_program *program,
             struct render_usage *out_usage)
{
    return render_ir3_usage(program, target->ir3_gen, out_usage);
}

/* ---- all of them ---- */

static const struct rt_compiler compilers[] = {
    {"CPU", init_host, compile_host, print_host, assemble_host, NULL},
    {"NV", init_nv, compile_nv, print_nv, disassemble_nv, measure_nv},
    {"AMD", init_amd, compile_amd, print_amd, assemble_amd, measure_amd},
    {"QCOM", init_qcom, compile_qcom, print_qcom, print_qcom, measure_qcom},
    {"CL", init_cl, compile_cl, print_cl, assemble_cl, NULL},
};

bell_status
rt_target_init(const struct hcq_device_info *info, uint32_t math,
               struct rt_target *out_target)
{
    struct rt_target target = {.compiler = NULL};
    size_t i;

    for (i = 0; i < ARRAY_LEN(compilers); i++) {
        if (strcmp(compilers[i].backend, info->backend) == 0)
            target.compiler = &compilers[i];
    }
    if (!target.compiler)
        return bell_fail(BELL_E_UNSUPPORTED, "no compiler for %s devices (%s)",
                         info->backend, info->arch);
    BELL_TRY(target.compiler->init(info, math, &target));
    target.math = (target.lower.is_tf32 ? BELL_MATH_TF32 : 0u) |
                  (target.lower.is_approx ? BELL_MATH_APPROX : 0u);
    target.n_shared = target.lower.is_gpu ? target.lower.max_threads : 1;
    target.lower.no_opts = env_get("BELL_NOOPT") != NULL;
    memcpy(target.max_grid, info->max_grid, sizeof(target.max_grid));
    memcpy(target.arch, info->arch, sizeof(target.arch));
    *out_target = target;
    return BELL_OK;
}
