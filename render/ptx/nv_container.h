/* A binary for simulated NVIDIA cards: an ELF file laid out as ptxas lays out
 * a cubin, whose code section holds the kernel's PTX instead of machine code.
 *
 * The loader in hcq/nv reads sections, symbols, attributes and relocations of
 * both in the same way, so that everything but machine code is tested on
 * machines without a card and without ptxas. A real card refuses to run it:
 * what it would fetch is text.
 *
 * .text.NAME starts with the 8 bytes "BELL PTX" and, little endian, u32
 * version 1 and u32 length of the text; the text follows, zero padded to 128.
 * Module variables: .const ones lie in bank 3 in the order of the text, each
 * aligned; .global ones likewise in one section. Bank 4 holds their addresses,
 * 64 bits each; the first is that of the section.
 *
 * src: docs/hardware/nvidia-code.md, "Cubin container",
 * "Sections of a cubin" (CUDA 13.0). Thread safe.
 */
#ifndef BELL_RENDER_PTX_NV_CONTAINER_H
#define BELL_RENDER_PTX_NV_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "render/ptx/ptx.h"
#include "render/render.h"

/* A variable of the module. */
struct nv_container_var {
    const char *name;
    uint32_t size_bytes, align_bytes; /* align: a power of two, at most 256 */
    const void *init;                 /* size_bytes, or NULL: zeros */
    bool is_const;                    /* .const; else .global */
};

/* A module with one kernel, and what the loader is to know of it. */
struct nv_container_desc {
    const char *text;      /* PTX; its first .entry is `entry` */
    const char *entry;     /* symbol */
    uint32_t sm;           /* 80, 86, 89, 90, 100, 120 */
    uint32_t n_params;     /* each of 8 bytes */
    uint32_t shared_bytes; /* static, as declared in the text */
    bool has_dynamic;      /* it uses dynamic shared memory */
    uint32_t stack_bytes;  /* .local memory of a thread */
    uint32_t n_regs;       /* 1 to 255 */
    uint32_t n_barriers;   /* 0 to 16 */
    uint32_t reqntid[3];   /* 0,0,0: any block size */
    const struct nv_container_var *vars;
    uint32_t n_vars;
};

/* Packs a module. BELL_E_INVALID: a fact that no kernel can have, or a text
 * whose kernel is another one. */
BELL_MUST_CHECK bell_status render_nv_container(
    const struct nv_container_desc *desc, struct render_binary *out_binary);

/* Packs PTX with one kernel, `entry`, of n_params parameters of 8 bytes each,
 * by what its text declares: .shared and .local memory, .reqntid, barriers;
 * registers are an estimate. BELL_E_UNSUPPORTED: variables of the module, and
 * what a container cannot have. */
BELL_MUST_CHECK bell_status
render_nv_container_text(const char *text, const char *entry, uint32_t sm,
                         uint32_t n_params, struct render_binary *out_binary);

/* Renders a program and packs it. Registers are an estimate; all else is as
 * the program says. */
BELL_MUST_CHECK bell_status render_nv_container_program(
    const struct lower_program *program, const struct ptx_target *target,
    struct render_binary *out_binary);

#endif
