/* What a queue reads, as text, and whether it can be what was meant. */
#ifndef BELL_HCQ_DECODE_DECODE_QUEUE_H
#define BELL_HCQ_DECODE_DECODE_QUEUE_H

#include <stdbool.h>

#include "hcq/hcq.h"
#include "hcq/regs.h"

/* Sets the stream's units for the queue's words, with the classes that the
 * driver binds; `line`, `wrong` and `user` stay. False: nothing is known of its
 * chip's words. */
bool decode_queue_init(struct regs_stream *stream,
                       const struct hcq_queue *queue);

/* The same for the card's other kind of queue, where that has other words: on
 * AMD's. False also where it has the same. */
bool decode_queue_init_other(struct regs_stream *stream,
                             const struct hcq_queue *queue);

/* Units of descriptors and other layouts in the card's memory, with the chip's
 * generation of each; returns how many. */
unsigned decode_queue_layouts(const struct hcq_queue *queue,
                              const struct regs_unit *out_units[2],
                              unsigned out_gens[2]);

/* Decodes packets of Adreno's, of the 6 or 7 series; returns how many words it
 * could not name. */
unsigned decode_adreno_packets(unsigned series, const uint32_t *words,
                               size_t n_dw, regs_line_fn *line, void *user);

/* Decodes the words. BELL_E_INVALID with the first line in which something is
 * wrong. */
BELL_MUST_CHECK bell_status decode_queue_check(const struct hcq_queue *queue,
                                               const uint32_t *words,
                                               uint32_t n_words);

#endif
