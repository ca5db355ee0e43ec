/* C for the host, by its compiler. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "render/tool.h"

static bell_status
find_compiler(char *buf, size_t size_bytes)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *named = env_get("CC");
    size_t i;

    if (named && *named &&
        (tool_try_path("", 0, named, buf, size_bytes) ||
         tool_find_in_path(named, buf, size_bytes)))
        return BELL_OK;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (tool_find_in_path(names[i], buf, size_bytes))
            return BELL_OK;
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no C compiler: neither cc, gcc nor clang is on PATH");
}

/* AArch64's atomic operations call functions that choose by the processor. */
static bool
is_cc_for_x86(const char *arch)
{
#if defined(__x86_64__)
    return !arch || strncmp(arch, "x86", 3) == 0;
#else
    return arch && strncmp(arch, "x86", 3) == 0;
#endif
}

static bell_status
run_cc(const struct render_source *source, const char *arch, char *program,
       struct tool_run *r, struct render_binary *out)
{
    char march[64],
        o[] = "-o", x[] = "-xc", c[] = "-c", o3[] = "-O3", std[] = "-std=gnu11",
        exact[] = "-ffp-contract=off", alone[] = "-ffreestanding",
        stack[] = "-fno-stack-protector", builtin[] = "-fno-builtin",
        loops[] = "-fno-tree-loop-distribute-patterns",
        unwind[] = "-fno-asynchronous-unwind-tables",
        cf[] = "-fcf-protection=none", inlined[] = "-mno-outline-atomics";
    char *argv[] = {program,   c,        o3,    march,   std,    x,
                    exact,     alone,    stack, builtin, unwind, o,
                    r->output, r->input, NULL,  NULL,    NULL};
    struct render_binary printed;

    /* clang has no such passes, and no such word */
    if (!strstr(program, "clang"))
        argv[14] = loops;
    argv[argv[14] ? 15 : 14] = is_cc_for_x86(arch) ? cf : inlined;
    snprintf(march, sizeof(march), "-march=%.40s", arch ? arch : "native");
    BELL_TRY(tool_write(r->input, source->data, source->size_bytes));
    BELL_TRY(tool_execute(argv, r, &printed));
    render_binary_fini(&printed);
    return tool_read_output(r, "object", out);
}

bell_status
render_c(const struct render_source *source, const char *arch,
         struct render_binary *out_binary)
{
    struct tool_run r;
    char program[1024];
    bell_status status;

    BELL_TRY(find_compiler(program, sizeof(program)));
    BELL_TRY(tool_begin(&r, "kernel.c", "kernel.o"));
    status = run_cc(source, arch, program, &r, out_binary);
    tool_end(&r);
    if (status != BELL_OK)
        bell_error_prefix("%s", source->name);
    return status;
}
