/* Qualcomm Adreno 6xx and 7xx: from a linear program to machine code of their
 * shaders, by a compiler of our own.
 *
 * An object is a struct ir3_object with its instructions. The kernel finds in
 * its constants c0.x.. the addresses of its PARAMs, then its VARs, as pairs of
 * 32 bits, the low one first (of the third 7xx in memory: its buffer 0 of
 * constants); the thread's place in r0.xyz; the work-group's in r48.xyz. The
 * same program and target give the same bytes. Thread safe.
 *
 * Float32 is rounded to nearest and subnormal numbers are 0, as the chips have
 * it; there is no float64.
 */
#ifndef BELL_RENDER_IR3_IR3_H
#define BELL_RENDER_IR3_IR3_H

#include "lower/lower.h"
#include "render/ir3/ir3_isa.h"
#include "render/render.h"

#define IR3_OBJECT_MAGIC   0x33726941u /* "Air3" */
#define IR3_OBJECT_VERSION 1u

/* What a launch must tell the chip. Little-endian; code follows at once. */
struct ir3_object {
    uint32_t magic, version;
    uint32_t gen;              /* enum ir3_gen */
    uint32_t n_instrs;         /* a multiple of 16 */
    uint32_t n_full_vec4;      /* registers, four to one */
    uint32_t n_const_vec4;     /* constants; 0: arguments are in memory */
    uint32_t branch_depth;     /* joins that may be outstanding at once */
    uint32_t shared_bytes;     /* of a work-group */
    uint32_t private_bytes;    /* of a thread */
    uint32_t n_params, n_vars; /* two words each */
    uint32_t local[3];         /* threads of a work-group */
};

/* The generation of a chip, "a740"; false: it is none that is known. */
bool render_ir3_gen(const char *chip, enum ir3_gen *out_gen);

/* What lowering may leave for a generation. */
void render_ir3_lower_target(enum ir3_gen gen, struct lower_target *out_target);

/* BELL_E_UNSUPPORTED: what these chips lack (float64), with its name. */
BELL_MUST_CHECK bell_status render_ir3(const struct lower_program *program,
                                       enum ir3_gen gen,
                                       struct render_binary *out_binary);

/* What it takes; what is spilled is private memory, stored and loaded. */
BELL_MUST_CHECK bell_status
render_ir3_usage(const struct lower_program *program, enum ir3_gen gen,
                 struct render_usage *out_usage);

/* How many instructions an object has until its end, and in how many cycles of
 * these a thread does nothing, because of nops: of each once, loops or not. */
void render_ir3_count(const struct ir3_object *object, uint32_t *out_n_instrs,
                      uint32_t *out_n_idle);

/* A program as text, an instruction a line; host_free it. */
BELL_MUST_CHECK bell_status render_ir3_text(const struct lower_program *program,
                                            enum ir3_gen gen, char **out_text);

#endif
