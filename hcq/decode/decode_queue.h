/* What a queue reads, as text, and whether it can be what was meant. */
#ifndef BELL_HCQ_DECODE_DECODE_QUEUE_H
#define BELL_HCQ_DECODE_DECODE_QUEUE_H

#include <stdbool.h>

#include "hcq/hcq_backend.h"
#include "hcq/regs.h"

/* Sets the stream's units for the queue's words, with the classes that the
 * driver binds; `line`, `wrong` and `user` stay. False: nothing is known of its
 * chip's words. */
bool decode_queue_init(struct regs_stream *stream,
                       const struct hcq_queue *queue);

/* Decodes the words. BELL_E_INVALID with the first line in which something is
 * wrong. */
BELL_MUST_CHECK bell_status decode_queue_check(const struct hcq_queue *queue,
                                               const uint32_t *words,
                                               uint32_t n_words);

#endif
