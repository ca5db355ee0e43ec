/* What render_amdgpu is where Doorbell was built without LLVM. */
#include "render/llvm/amdgpu.h"

static bell_status
refuse_amdgpu(const char *name)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: this build cannot make code for AMD GPUs: install "
                     "LLVM 19 (Debian: llvm-19-dev from apt.llvm.org) and "
                     "configure with -Dllvm=enabled",
                     name);
}

bell_status
render_amdgpu(const struct lower_program *program,
              const struct amdgpu_target *target,
              struct render_binary *out_binary)
{
    (void)target;
    (void)out_binary;
    return refuse_amdgpu(program->name);
}

bell_status
render_amdgpu_text(const struct lower_program *program,
                   const struct amdgpu_target *target, char **out_text)
{
    (void)target;
    (void)out_text;
    return refuse_amdgpu(program->name);
}

bell_status
render_amdgpu_asm(const struct lower_program *program,
                  const struct amdgpu_target *target, char **out_text)
{
    (void)target;
    (void)out_text;
    return refuse_amdgpu(program->name);
}

bell_status
render_amdgpu_ir(const char *ir, const char *name,
                 const struct amdgpu_target *target,
                 struct render_binary *out_binary)
{
    (void)ir;
    (void)target;
    (void)out_binary;
    return refuse_amdgpu(name);
}

bell_status
render_amdgpu_foreign_ir(const char *ir, const char *name,
                         const struct amdgpu_target *target,
                         struct render_binary *out_binary)
{
    (void)ir;
    (void)target;
    (void)out_binary;
    return refuse_amdgpu(name);
}
