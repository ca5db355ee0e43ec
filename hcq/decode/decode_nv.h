/* Text of what NVIDIA cards read: pushbuffers, ring (GPFIFO) entries and
 * launch descriptors (QMD). Any words are taken; what has no name is printed
 * with a `?`, bits outside of all fields as `reserved`.
 *
 * Names and layouts come from hcq/nv/regs. One thread per decoder.
 */
#ifndef BELL_HCQ_DECODE_DECODE_NV_H
#define BELL_HCQ_DECODE_DECODE_NV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/regs.h"

/* Classes of one architecture. */
struct decode_nv_chip {
    const char *name; /* "sm_90" */
    uint32_t gpfifo_class, compute_class, copy_class;
    unsigned qmd_major;
};

/* Row `idx` of the known ones; NULL after the last. */
const struct decode_nv_chip *decode_nv_chip_at(size_t idx);
/* By name, or NULL. */
const struct decode_nv_chip *decode_nv_chip_find(const char *name);

/* What a stream is read with: which classes its subchannels are bound to.
 * Bindings stay from one stream to the next. */
struct decode_nv {
    struct regs_stream stream;
    uint32_t compute_class; /* last bound; 0: none */
};

/* Nothing is bound; methods of the host are those of Hopper. `line` gets each
 * line of text. */
void decode_nv_init(struct decode_nv *d, regs_line_fn *line, void *user);
/* Binds a compute class to subchannel 1, a copy class to 4, or chooses the
 * host's methods by a GPFIFO class. False: no such class is known. */
bool decode_nv_bind(struct decode_nv *d, uint32_t nv_class);

/* Each returns how many words it could not name. */
unsigned decode_nv_push(struct decode_nv *d, const uint32_t *words,
                        size_t n_dw);
/* Two words an entry; `va` is the ring's address, for the lines. */
unsigned decode_nv_ring(struct decode_nv *d, const uint32_t *words, size_t n_dw,
                        uint64_t va);
/* Descriptors one after the other. `major` is 3, 4 or 5; 0: as the bound
 * compute class, or else the words, say. */
unsigned decode_nv_qmd(struct decode_nv *d, const uint32_t *words, size_t n_dw,
                       unsigned major);

#endif
