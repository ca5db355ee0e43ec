/* What each relocation of an object writes: a table for each kind of
 * processor, and one function over it. Constant; any thread. */
#ifndef BELL_HCQ_CPU_CPU_RELOC_H
#define BELL_HCQ_CPU_CPU_RELOC_H

#include <stdbool.h>
#include <stdint.h>

/* How the value is made: of S + A, a symbol's address and the addend, and P,
 * the place that is written. */
enum cpu_reloc_value {
    CPU_RELOC_ABSOLUTE, /* S + A */
    CPU_RELOC_RELATIVE, /* S + A - P */
    CPU_RELOC_PAGE,     /* of S + A less that of P, pages of 4096 bytes */
    CPU_RELOC_LOW12     /* S + A in its page of 4096 bytes */
};

/* Where it goes. */
enum cpu_reloc_field {
    CPU_RELOC_NOTHING,
    CPU_RELOC_DATA,  /* n_bytes of memory */
    CPU_RELOC_ADR,   /* bits 30:29, and above them 23:5, of an instruction */
    CPU_RELOC_IMM12, /* bits 21:10 */
    CPU_RELOC_IMM14, /* bits 18:5 */
    CPU_RELOC_IMM16, /* bits 20:5 */
    CPU_RELOC_IMM19, /* bits 23:5 */
    CPU_RELOC_IMM26  /* bits 25:0 */
};

struct cpu_reloc {
    uint32_t type; /* R_X86_64_PC32... */
    enum cpu_reloc_value value;
    enum cpu_reloc_field field;
    uint8_t n_bytes; /* that are written, also as part of an instruction */
    uint8_t shift;   /* bits below the field: of the value's unit, or dropped */
    /* The value lies in -2^(bits-1) .. 2^(bits-1)-1, or to 2^bits-1, or in 0 ..
     * 2^bits-1; 0: not checked. */
    uint8_t signed_bits, any_bits, unsigned_bits;
    bool is_odd; /* bits below `shift` may be set */
    bool is_got; /* S is the address of a slot with the symbol's */
    bool is_low; /* for objects in the lowest 2 GiB */
};

/* The relocation of that number on e_machine, or NULL. */
const struct cpu_reloc *cpu_reloc_find(unsigned machine, uint32_t type);

/* Writes into `place`, which is or will be at place_va, for S + A. False: it
 * does not fit, and nothing is written. */
bool cpu_reloc_apply(const struct cpu_reloc *reloc, uint8_t *place,
                     uint64_t place_va, uint64_t target_va);

#endif
