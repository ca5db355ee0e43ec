/* Words of a queue from the names of packets, registers and fields: what
 * hcq/regs.c prints, the other way. For tools and bindings; nothing here is
 * part of the driver half alone.
 *
 * Threads: any; nothing is kept.
 */
#ifndef BELL_HCQ_DECODE_ENCODE_QUEUE_H
#define BELL_HCQ_DECODE_ENCODE_QUEUE_H

#include "hcq/hcq.h"
#include "hcq/regs.h"

/* The number that a text means: names of numbers are the caller's.
 * BELL_E_INVALID says what is wrong with it. */
typedef bell_status encode_number_fn(const void *user, const char *text,
                                     uint64_t *out);

/* For whom words are put together. All of it is the caller's. */
struct encode {
    const struct hcq_queue *queue;
    encode_number_fn *number; /* NULL: 12, 0x1f, -3 */
    const void *user;         /* of `number` */
};

/* Appends tokens that are numbers to *n words, HCQ_WORDS_MAX of them at most. A
 * negative number may have 32 bits. */
BELL_MUST_CHECK bell_status encode_add_words(const struct encode *e,
                                             char **tokens, size_t n_tokens,
                                             uint32_t *words, uint32_t *n);

/* Sets the fields "NAME=VALUE" in `words`, which a type has in a generation.
 * Writes into the tokens. */
BELL_MUST_CHECK bell_status encode_set_fields(const struct encode *e,
                                              const struct regs_type *type,
                                              unsigned gen, char **fields,
                                              size_t n_fields, uint32_t *words);

/* The words of a packet or a register, by its name, the first token: fields, or
 * "= WORD ..."; of a packet that has some, ": WORD ..." behind it. At most
 * HCQ_WORDS_MAX. Writes into the tokens. */
BELL_MUST_CHECK bell_status encode_packet(const struct encode *e, char **tokens,
                                          size_t n_tokens,
                                          uint32_t words[HCQ_WORDS_MAX],
                                          uint32_t *out_n);

/* Descriptors and layouts in memory: the type of that name, and the device's
 * generation of it. */
BELL_MUST_CHECK bell_status encode_layout(const struct encode *e,
                                          const char *name,
                                          const struct regs_type **out_type,
                                          unsigned *out_gen);

/* The packet, register, method or descriptor of that name, which is written
 * to. */
BELL_MUST_CHECK bell_status encode_find(const struct encode *e, char *name,
                                        const struct regs_type **out_type,
                                        unsigned *out_gen);

/* Bits of the values that a field can have. */
unsigned encode_bits(const struct regs_field *field);

typedef void encode_type_fn(void *user, const struct regs_type *type);

/* Tells every packet, register and method that the queue has, then the
 * descriptors and layouts. BELL_E_UNSUPPORTED: nothing is known of its words.
 */
BELL_MUST_CHECK bell_status encode_each(const struct encode *e,
                                        encode_type_fn *tell, void *user);

#endif
