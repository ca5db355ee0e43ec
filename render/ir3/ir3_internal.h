/* Rows of the table of instructions. */
#ifndef BELL_RENDER_IR3_IR3_INTERNAL_H
#define BELL_RENDER_IR3_IR3_INTERNAL_H

#include "render/ir3/ir3_isa.h"

/* Bits of a word that hold a field, or of one with several places the next
 * higher ones. */
struct ir3_place {
    uint8_t field; /* enum ir3_field */
    uint8_t lo, n_bits;
};

/* `text` is what is written behind the flags; %x stands for fields
 * (ir3_text.c has the list). */
struct ir3_row {
    const char *text;
    uint32_t gens; /* enum ir3_gen */
    uint64_t mask, match;
    const struct ir3_place *places;
    unsigned n_places;
    bool is_half; /* sources of 16 bits, where no field says so */
};

extern const struct ir3_row ir3_rows[IR3_OP_COUNT];

/* Are all kinds of operands that fields hold known? */
bool ir3_operands_are_known(const struct ir3_instr *instr);

#endif
