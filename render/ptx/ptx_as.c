/* ptxas and nvdisasm as programs. */
#include "render/ptx/ptx.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "render/tool.h"

#ifndef BELL_PTXAS_PATH
#define BELL_PTXAS_PATH ""
#endif

/* ---- where it is ---- */

/* Where programs of CUDA are. */
static bool
find_tool(const char *name, char *buf, size_t size_bytes)
{
    const char *home = env_get("CUDA_HOME");
    char in_bin[32];

    snprintf(in_bin, sizeof(in_bin), "bin/%s", name);
    return (home && *home &&
            tool_try_path(home, (int)strlen(home), in_bin, buf, size_bytes)) ||
           tool_find_in_path(name, buf, size_bytes) ||
           tool_try_path("/usr/local/cuda", 15, in_bin, buf, size_bytes);
}

bell_status
render_ptxas_find(char *buf, size_t size_bytes)
{
    const char *named = env_get("BELL_PTXAS");

    if (named && *named) {
        if (tool_try_path("", 0, named, buf, size_bytes))
            return BELL_OK;
        return bell_fail(BELL_E_UNSUPPORTED,
                         "$BELL_PTXAS is %s, which is not a program", named);
    }
    if (BELL_PTXAS_PATH[0] &&
        tool_try_path("", 0, BELL_PTXAS_PATH, buf, size_bytes))
        return BELL_OK;
    if (find_tool("ptxas", buf, size_bytes))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no ptxas, which makes machine code for NVIDIA cards: "
                     "install the package cuda-nvcc (CUDA 13.0, or 12.8 and "
                     "later) and put it on PATH, or name the program in "
                     "$BELL_PTXAS");
}

/* In ptxas's folder, where that is named; or where programs of CUDA are. */
static bell_status
find_nvdisasm(char *buf, size_t size_bytes)
{
    char ptxas[1024];
    const char *slash;

    BELL_TRY(render_ptxas_find(ptxas, sizeof(ptxas)));
    slash = strrchr(ptxas, '/');
    if ((slash && tool_try_path(ptxas, (int)(slash - ptxas), "nvdisasm", buf,
                                size_bytes)) ||
        find_tool("nvdisasm", buf, size_bytes))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no nvdisasm, which prints machine code of NVIDIA cards: "
                     "install the package cuda-nvdisasm and put it on PATH, "
                     "or beside ptxas (%s)",
                     ptxas);
}

/* What is wanted of a module; NULL: not that. */
struct wanted {
    struct render_binary *cubin;
    struct render_usage *usage;
    char **sass;
};

/* "Used 98 registers, used 1 barriers, 37888 bytes smem", "0 bytes stack frame,
 * 0 bytes spill stores, 0 bytes spill loads": ptxas -v, of the one kernel. */
static void
read_usage(const char *text, struct render_usage *out)
{
    const char *used = strstr(text, "Used "), *frame;
    const char *bytes = used ? strstr(used, " bytes smem") : NULL;
    unsigned stack = 0, stores = 0, loads = 0;

    memset(out, 0, sizeof(*out));
    if (used)
        out->n_regs = (uint32_t)strtoul(used + 5, NULL, 10);
    while (bytes && bytes > used && bytes[-1] != ' ')
        bytes--;
    if (bytes)
        out->shared_bytes = (uint32_t)strtoul(bytes, NULL, 10);
    frame = strstr(text, " bytes stack frame");
    while (frame && frame > text && frame[-1] != ' ' && frame[-1] != '\n')
        frame--;
    if (frame && sscanf(frame,
                        "%u bytes stack frame, %u bytes spill stores, "
                        "%u bytes spill loads",
                        &stack, &stores, &loads) == 3) {
        out->stack_bytes = stack;
        out->spill_bytes = stores + loads;
    }
}

static bell_status
assemble(char *program, struct tool_run *r, const char *text, char *arch,
         const struct wanted *wanted)
{
    char flag_arch[] = "-arch", flag_o[] = "-o", flag_3[] = "-O3";
    char flag_v[] = "-v", flag_c[] = "-c", disassembler[1024];
    char *as[] = {program,   flag_arch, arch, flag_3, flag_o,
                  r->output, r->input,  NULL, NULL};
    char *dis[] = {disassembler, flag_c, r->output, NULL};
    struct render_binary printed;

    assert(wanted->cubin || wanted->usage || wanted->sass);
    if (wanted->usage)
        as[7] = flag_v;
    BELL_TRY(tool_write(r->input, text, strlen(text)));
    BELL_TRY(tool_execute(as, r, &printed));
    if (wanted->usage)
        read_usage(printed.data, wanted->usage);
    render_binary_fini(&printed);
    if (wanted->sass) {
        BELL_TRY(find_nvdisasm(disassembler, sizeof(disassembler)));
        BELL_TRY(tool_execute(dis, r, &printed));
        *wanted->sass = printed.data;
    }
    return wanted->cubin ? tool_read_output(r, "cubin", wanted->cubin)
                         : BELL_OK;
}

static bell_status
assemble_in_folder(const char *text, const struct ptx_target *target,
                   const struct wanted *wanted)
{
    char program[1024], arch[24];
    struct tool_run r;
    bell_status status;

    snprintf(arch, sizeof(arch), "sm_%u%s", target->sm,
             target->is_arch_specific ? "a" : "");
    BELL_TRY(render_ptxas_find(program, sizeof(program)));
    BELL_TRY(tool_begin(&r, "in.ptx", "out.cubin"));
    status = assemble(program, &r, text, arch, wanted);
    tool_end(&r);
    return status;
}

bell_status
render_ptxas(const char *text, const struct ptx_target *target,
             struct render_binary *out_cubin)
{
    const struct wanted wanted = {.cubin = out_cubin};

    return assemble_in_folder(text, target, &wanted);
}

bell_status
render_ptxas_usage(const char *text, const struct ptx_target *target,
                   struct render_usage *out_usage)
{
    const struct wanted wanted = {.usage = out_usage};

    return assemble_in_folder(text, target, &wanted);
}

bell_status
render_sass(const char *text, const struct ptx_target *target, char **out_text)
{
    const struct wanted wanted = {.sass = out_text};

    return assemble_in_folder(text, target, &wanted);
}
