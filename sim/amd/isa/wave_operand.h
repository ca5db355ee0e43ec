/* Operands of vector instructions: sources with their modifiers, results with
 * theirs. Shared by the files that run vector instructions. */
#ifndef BELL_SIM_AMD_ISA_WAVE_OPERAND_H
#define BELL_SIM_AMD_ISA_WAVE_OPERAND_H

#include "sim/amd/isa/wave_internal.h"

/* How a source or result is to be understood. */
enum kind {
    KIND_X,
    KIND_B32,
    KIND_F32,
    KIND_B16,
    KIND_F16,
    KIND_B64,
    KIND_F64,
    KIND_P16,
    KIND_OLD32,
    KIND_OLD64,
    KIND_OLD16,
    KIND_K32,
    KIND_K16
};

/* A source in all lanes. 64-bit ones are in q, others at p. */
struct source {
    const uint32_t *p;
    wave_row buf;
    uint64_t q[WAVE_LANES_MAX];
};

/* An instruction under way. */
struct valu {
    struct wave *w;
    const struct isa_insn *in;
    uint64_t exec; /* lanes that are written */
    struct source src[3];
    wave_row r;
    uint64_t q[WAVE_LANES_MAX];
};

/* Fills src[i]; false after a fault. */
bool wave_read_source(struct valu *x, unsigned i, enum kind kind);

/* Writes r (or q) to the destination's lanes; false after a fault. */
bool wave_store(struct valu *x, enum kind kind);
/* The same without what floats have: r to a register, r's low half to half a
 * register, q to a pair. */
bool wave_store_word(struct valu *x);
bool wave_store_half(struct valu *x);
bool wave_store_pair(struct valu *x);

#endif
