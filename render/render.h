/* From a linear program to a loadable binary. */
#ifndef BELL_RENDER_RENDER_H
#define BELL_RENDER_RENDER_H

#include "lower/lower.h"

/* A binary ready for hcq_program_create, and what its launch needs. */
struct render_binary {
    void *data; /* owned: render_binary_fini */
    size_t size_bytes;
};

/* What a kernel takes of a GPU's unit, as its assembler says. */
struct render_usage {
    uint32_t n_regs; /* 32-bit registers of a thread; of AMD's, vectors */
    uint32_t shared_bytes, stack_bytes, spill_bytes; /* stored and loaded */
};

void render_binary_fini(struct render_binary *binary);

/* Registers and shared memory as this program would take them, by our own
 * estimate; no spills. */
BELL_MUST_CHECK bell_status render_estimate_usage(
    const struct lower_program *program, struct render_usage *out_usage);

/* BELL_OK where LLVM, which makes machine code for the host and AMD's cards, is
 * there; else BELL_E_UNSUPPORTED with what to install. */
BELL_MUST_CHECK bell_status render_llvm_check(void);

/* The path of LLVM's library, which is loaded for it. */
BELL_MUST_CHECK bell_status render_llvm_file(char *buf, size_t size_bytes);

/* The machine this process runs on: CPU name and features, caches, threads. */
BELL_MUST_CHECK bell_status render_host_target(struct lower_target *out_target);

/* What LLVM is told of this machine's processor, "+dotprod,+bf16", as much as
 * there is room for; "": LLVM asks by itself. */
void render_host_features(char *text, size_t size_bytes);

/* A processor by its architecture level, "x86-64-v3" or "armv8.2-a", as
 * `n_threads` of them: code that need not run here. BELL_E_UNSUPPORTED: it is
 * none that is known. */
BELL_MUST_CHECK bell_status render_host_level(const char *arch,
                                              uint32_t n_threads,
                                              struct lower_target *out_target);

/* An ELF64 relocatable object with one function, program->name:
 *   void name(const uint64_t *args, const uint32_t grid[3],
 *             uint64_t first, uint64_t last)
 * which runs the work-groups first..last-1 of the linearised grid, x fastest.
 * args are the PARAMs' addresses, then the VARs. It calls nothing outside
 * itself. Thread safe. */
BELL_MUST_CHECK bell_status render_host(const struct lower_program *program,
                                        const struct lower_target *target,
                                        struct render_binary *out_binary);

/* What somebody else wrote, of size_bytes, with one function or kernel. */
struct render_source {
    const char *name; /* the function's */
    const void *data;
    size_t size_bytes;
};

/* C for the host by its compiler ($CC, cc, gcc or clang, which is run on a
 * temporary file), with a function as render_host's. `arch`: of an architecture
 * level, "x86-64-v3", which $CC makes code for; NULL: of this machine.
 * BELL_E_UNSUPPORTED: there is no compiler. BELL_E_COMPILE with its words.
 * Thread safe. */
BELL_MUST_CHECK bell_status render_c(const struct render_source *source,
                                     const char *arch,
                                     struct render_binary *out_binary);

/* An object from LLVM IR, as text, with a function as render_host's, which is
 * compiled as it is: no passes are run over it. */
BELL_MUST_CHECK bell_status render_host_ir(const char *ir, const char *name,
                                           const struct lower_target *target,
                                           struct render_binary *out_binary);

/* The LLVM IR of the same, as text (host_free it); for BELL_DEBUG=render. */
BELL_MUST_CHECK bell_status
render_host_text(const struct lower_program *program,
                 const struct lower_target *target, char **out_text);
/* Likewise the assembler's text. */
BELL_MUST_CHECK bell_status render_host_asm(const struct lower_program *program,
                                            const struct lower_target *target,
                                            char **out_text);

#endif
