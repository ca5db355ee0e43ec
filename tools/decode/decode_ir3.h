/* Text of Adreno's shaders and packets. Any words are taken: a word that is not
 * an instruction is printed with a `?`, bits that an instruction does not use
 * as `unused`. No state: any thread.
 */
#ifndef BELL_TOOLS_DECODE_DECODE_IR3_H
#define BELL_TOOLS_DECODE_DECODE_IR3_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "hcq/regs.h"

/* Instructions of two words each, the low one first; jumps say where to.
 * Returns how many words are none; `gen` is an enum ir3_gen. */
unsigned decode_ir3(unsigned gen, const uint32_t *words, size_t n_dw,
                    regs_line_fn *line, void *user);

/* Packets of the command processor, with registers by name. */
unsigned decode_pkt7(unsigned gen, const uint32_t *words, size_t n_dw,
                     regs_line_fn *line, void *user);

/* The other way: lines of text, `#` and `//` begin comments, an address before
 * a colon is skipped. A line of 16 digits for each instruction;
 * BELL_E_IO says which line is none. */
BELL_MUST_CHECK bell_status decode_ir3_assemble(unsigned gen, const char *name,
                                                const char *text, size_t n,
                                                regs_line_fn *line, void *user);

#endif
