/* Text of what AMD cards read: PM4 packets, packets of the copy engines, AQL
 * packets, kernel descriptors. Any words are taken; what has no name is
 * printed with a `?`, bits outside of all fields as `reserved`.
 *
 * Names and layouts come from hcq/amd/regs. No state: any thread.
 */
#ifndef BELL_HCQ_DECODE_DECODE_AMD_H
#define BELL_HCQ_DECODE_DECODE_AMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/regs.h"

/* The dialects of one family of chips. */
struct decode_amd_chip {
    const char *family; /* "gfx942" */
    unsigned pm4_gen, sdma_gen;
};

/* By a chip's name, or NULL. */
const struct decode_amd_chip *decode_amd_chip_find(const char *name);

/* Where text goes, and what for. */
struct decode_amd {
    const struct decode_amd_chip *chip;
    regs_line_fn *line;
    void *user;
};

/* Each returns how many words it could not name. */
unsigned decode_amd_pm4(const struct decode_amd *d, const uint32_t *words,
                        size_t n_dw);
unsigned decode_amd_sdma(const struct decode_amd *d, const uint32_t *words,
                         size_t n_dw);
/* Sixteen words a packet; `va` is the ring's address, for the lines. */
unsigned decode_amd_aql(const struct decode_amd *d, const uint32_t *words,
                        size_t n_dw, uint64_t va);
/* Whether the PM4 packet, or the AQL packet of sixteen words, sends the card on
 * to other words: `va`, how many. n_dw: how many there are. */
bool decode_amd_pm4_target(const struct decode_amd *d, const uint32_t *words,
                           size_t n_dw, uint64_t *out_va, uint64_t *out_n_dw);
bool decode_amd_aql_target(const struct decode_amd *d, const uint32_t *words,
                           uint64_t *out_va, uint64_t *out_n_dw);
/* Kernel descriptors one after the other, sixteen words each. */
unsigned decode_amd_kernel(const struct decode_amd *d, const uint32_t *words,
                           size_t n_dw);

#endif
