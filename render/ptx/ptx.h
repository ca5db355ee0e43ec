/* NVIDIA: from a linear program to PTX text, and from that to a cubin.
 *
 * The text is deterministic: the same program and target give the same bytes.
 * A kernel takes the addresses of its PARAMs, then its VARs, each as a .u64.
 * Arithmetic is exact (rounded once, to nearest) unless the target asks for
 * approximations. Thread safe.
 */
#ifndef BELL_RENDER_PTX_PTX_H
#define BELL_RENDER_PTX_PTX_H

#include "lower/lower.h"
#include "render/render.h"

/* What text is made for. Plain data. */
struct ptx_target {
    uint32_t sm; /* 80, 86, 89, 90, 100, 120: compute capability times ten */
    bool is_arch_specific; /* "sm_90a": that chip only, all it has */
    /* Products of F32 matrices are of factors in TF32, and those of 8-bit
     * floats are summed as mma.sync does. */
    bool tf32;
    /* F32: quotients, roots, EXP2 within a few ulp, LOG2 and SIN to about
     * 2^-21 (SIN of less than 2^16). */
    bool approx;
    uint32_t arg_align_bytes; /* what PARAM addresses are aligned to, a power
                               * of two; 0: to one element only */
};

/* The target of a chip's code by the name that drivers give it, "sm_90": arch
 * specific where that has something that is used. False: no such name. */
bool render_ptx_target(const char *arch, struct ptx_target *out_target);

/* The lowest PTX version that knows it, times ten; 0: it is not known. */
unsigned render_ptx_version(const struct ptx_target *target);
/* The same of a module with multimem; 0: the chip has none. */
unsigned render_ptx_multimem_version(const struct ptx_target *target);

/* What lowering may leave for such a target. An unknown one is
 * BELL_E_UNSUPPORTED with a list of those known. */
BELL_MUST_CHECK bell_status render_ptx_lower_target(
    const struct ptx_target *target, struct lower_target *out_target);

/* One module with one kernel, program->name, as PTX; host_free it. */
BELL_MUST_CHECK bell_status render_ptx(const struct lower_program *program,
                                       const struct ptx_target *target,
                                       char **out_text);

/* Bytes of dynamic shared memory that a launch must give: 0 while LOCALs fit
 * the 48 KiB that a module may declare itself. */
uint32_t render_ptx_dynamic_bytes(const struct lower_program *program);
/* Bytes of shared memory that the module declares itself. */
uint32_t render_ptx_static_bytes(const struct lower_program *program);

/* Path of ptxas: $BELL_PTXAS, the build's -Dptxas=, $CUDA_HOME/bin, PATH,
 * /usr/local/cuda/bin; the first that can be executed. BELL_E_UNSUPPORTED
 * says how to get it. */
BELL_MUST_CHECK bell_status render_ptxas_find(char *buf, size_t size_bytes);

/* Assembles a module for the target. Runs ptxas as a process with temporary
 * files, for at most a minute; what it prints on failure becomes the error's
 * message (BELL_E_COMPILE). */
BELL_MUST_CHECK bell_status render_ptxas(const char *text,
                                         const struct ptx_target *target,
                                         struct render_binary *out_cubin);

/* What ptxas makes of the module's kernel. */
BELL_MUST_CHECK bell_status render_ptxas_usage(const char *text,
                                               const struct ptx_target *target,
                                               struct render_usage *out_usage);

/* The same module's machine code as nvdisasm, a program like ptxas, prints it
 * (host_free it). */
BELL_MUST_CHECK bell_status render_sass(const char *text,
                                        const struct ptx_target *target,
                                        char **out_text);

#endif
