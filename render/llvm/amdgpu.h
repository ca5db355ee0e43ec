/* AMD: from a linear program to a code object, in process, through LLVM.
 *
 * A kernel takes the addresses of its PARAMs, then its VARs, 8 bytes each, and
 * no implicit arguments. LOCAL memory is static: the descriptor's
 * group_segment_fixed_size. Arithmetic is exact (rounded once, to nearest)
 * unless the target asks for less. Thread safe.
 * src: docs/hardware/amd-code.md, "Compiling", "Matrix fragments".
 */
#ifndef BELL_RENDER_LLVM_AMDGPU_H
#define BELL_RENDER_LLVM_AMDGPU_H

#include "lower/lower.h"
#include "render/render.h"

/* What code is made for. Plain data. */
struct amdgpu_target {
    char gfx[16]; /* "gfx942"; AMD's rows of base/chip.c */
    bool tf32;    /* products of F32 matrices are of factors in XF32, 10 bits of
                * fraction, on gfx942; subnormal halves are 0 in products on
                * gfx90a */
    /* F32: quotients, roots, EXP2, LOG2, SIN (of less than 2^16) by the card's
     * instructions, which are good to about a unit in the last place. */
    bool approx;
    uint32_t arg_align_bytes; /* what PARAM addresses are aligned to, a power
                               * of two; 0: to one element only */
};

/* What lowering may leave for such a target. An unknown one is
 * BELL_E_UNSUPPORTED with a list of those known. Needs no LLVM. */
BELL_MUST_CHECK bell_status render_amdgpu_lower_target(
    const struct amdgpu_target *target, struct lower_target *out_target);

/* An ELF64 relocatable object with one kernel, program->name, and its
 * descriptor. */
BELL_MUST_CHECK bell_status render_amdgpu(const struct lower_program *program,
                                          const struct amdgpu_target *target,
                                          struct render_binary *out_binary);

/* The same from LLVM IR, as text, which is compiled as it is: no passes are
 * run over it. `name` is for messages. BELL_E_COMPILE with LLVM's words. */
BELL_MUST_CHECK bell_status render_amdgpu_ir(const char *ir, const char *name,
                                             const struct amdgpu_target *target,
                                             struct render_binary *out_binary);
/* The same of IR whose kernel does not say which inputs of its launch it does
 * without: that is found out. */
BELL_MUST_CHECK bell_status render_amdgpu_foreign_ir(
    const char *ir, const char *name, const struct amdgpu_target *target,
    struct render_binary *out_binary);

/* The LLVM IR of a program, and the assembler's text (host_free them). */
BELL_MUST_CHECK bell_status
render_amdgpu_text(const struct lower_program *program,
                   const struct amdgpu_target *target, char **out_text);
BELL_MUST_CHECK bell_status
render_amdgpu_asm(const struct lower_program *program,
                  const struct amdgpu_target *target, char **out_text);
/* What LLVM says that the kernel takes. */
BELL_MUST_CHECK bell_status render_amdgpu_usage(
    const struct lower_program *program, const struct amdgpu_target *target,
    struct render_usage *out_usage);

#endif
