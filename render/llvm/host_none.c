/* What render_host is where Doorbell was built without LLVM. */
#include "render/render.h"

static bell_status
refuse_host(const struct lower_program *program)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: this build cannot make host code: install LLVM 19 "
                     "(Debian: llvm-19-dev from apt.llvm.org) and configure "
                     "with -Dllvm=enabled",
                     program->name);
}

bell_status
render_host(const struct lower_program *program,
            const struct lower_target *target, struct render_binary *out_binary)
{
    (void)target;
    (void)out_binary;
    return refuse_host(program);
}

bell_status
render_host_ir(const char *ir, const char *name,
               const struct lower_target *target,
               struct render_binary *out_binary)
{
    const struct lower_program program = {.name = name};

    (void)ir;
    (void)target;
    (void)out_binary;
    return refuse_host(&program);
}

bell_status
render_host_text(const struct lower_program *program,
                 const struct lower_target *target, char **out_text)
{
    (void)target;
    (void)out_text;
    return refuse_host(program);
}

bell_status
render_host_asm(const struct lower_program *program,
                const struct lower_target *target, char **out_text)
{
    (void)target;
    (void)out_text;
    return refuse_host(program);
}

bell_status
render_llvm_check(void)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "built without LLVM: install llvm-19-dev, then configure "
                     "and build again");
}

bell_status
render_llvm_file(char *buf, size_t size_bytes)
{
    (void)buf;
    (void)size_bytes;
    return render_llvm_check();
}
