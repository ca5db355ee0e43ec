/* Commands as a driver's streams keep them: packets, small structs in ordinary
 * memory that say what is to be done and no more. A driver turns them into the
 * card's own words in one pass, straight into memory that the card reads: of
 * a fresh stream when it is submitted, of a bound one when it is bound. A
 * patch of a bound stream changes the packet, and then the words that come of
 * it. Not for the layers above.
 */
#ifndef BELL_HCQ_HCQ_PACKET_H
#define BELL_HCQ_HCQ_PACKET_H

#include <assert.h>

#include "hcq/hcq_backend.h"

enum hcq_op {
    HCQ_OP_WAIT = 1,  /* word: va, value */
    HCQ_OP_SIGNAL,    /* va, value */
    HCQ_OP_TIMESTAMP, /* va */
    HCQ_OP_BARRIER,   /* - */
    HCQ_OP_EXEC,      /* struct hcq_exec */
    HCQ_OP_COPY,      /* dst, src, bytes */
    HCQ_OP_FILL,      /* dst, pattern, bytes */
    HCQ_OP_WRITE32,   /* va, value */
    HCQ_OP_WRITE64,   /* va, value */
    HCQ_OP_POLL,      /* va, mask, value */
    HCQ_OP_COUNT
};

/* A patch may change it in a way that takes more words than it does now: its
 * words have the largest size, what is not needed does nothing. */
#define HCQ_HEAD_FIXED 1u
/* Patched to a larger group than its program takes; the driver's. */
#define HCQ_HEAD_TOO_LARGE 2u

struct hcq_head {
    uint8_t op;       /* enum hcq_op */
    uint8_t flags;    /* HCQ_HEAD_ */
    uint16_t n_dw;    /* of the packet, the head included */
    uint32_t word_dw; /* what it becomes for the card, at most; the driver's */
};

/* Streams are arrays of words: these look at them as they are. */
struct __attribute__((may_alias)) hcq_packet {
    struct hcq_head head;
    uint64_t word[3];
};

struct __attribute__((may_alias)) hcq_exec {
    struct hcq_head head;
    const struct hcq_program_base *prog;
    uint32_t grid[3], local[3];
    uint64_t args[];
};

#define HCQ_HEAD_DW ((uint32_t)(sizeof(struct hcq_head) / 4))
#define HCQ_EXEC_DW ((uint32_t)(sizeof(struct hcq_exec) / 4))

static_assert(sizeof(struct hcq_exec) == 40, "hcq_exec");
static_assert(sizeof(struct hcq_exec) / 4 + 2 * HCQ_ARGS_MAX <=
                  HCQ_CS_PACKET_DW,
              "an exec fits in the sink");

/* The packet at a word of a stream. */
static inline const struct hcq_packet *
hcq_packet_at(const uint32_t *words, uint32_t dw)
{
    return (const struct hcq_packet *)(const void *)(words + dw);
}

static inline const struct hcq_exec *
hcq_exec_of(const struct hcq_packet *packet)
{
    return (const struct hcq_exec *)(const void *)packet;
}

static inline uint32_t
hcq_exec_args(const struct hcq_exec *exec)
{
    return (exec->head.n_dw - HCQ_EXEC_DW) / 2u;
}

/* Appends a packet of an operation that is no exec; NULL after an error. */
struct hcq_packet *hcq_packet_emit(struct hcq_cs *cs, enum hcq_op op,
                                   uint64_t a, uint64_t b, uint64_t c);
struct hcq_packet *hcq_packet_emit_exec(struct hcq_cs *cs,
                                        const struct hcq_program *prog,
                                        const uint64_t *args, uint32_t n_args,
                                        const uint32_t grid[3],
                                        const uint32_t local[3]);

/* hcq_cs_ops.locate: every field is a word of its packet, and the card's words
 * follow by repack. Addresses are less than va_end. *out_grows: a new value
 * may take more of the card's words. False: no such field. */
bool hcq_packet_locate(const struct hcq_cs *cs, unsigned field, uint64_t va_end,
                       struct hcq_place *place, bool *out_grows);

/* Whether the words hold a whole packet; what a report reads may be anything.
 */
bool hcq_packet_ok(const uint32_t *words, uint32_t n_left_dw);

/* The packet as one line: "copy 64 bytes 0x1000 -> 0x2000". `program` is the
 * name of an exec's. */
void hcq_packet_text(const struct hcq_packet *packet, const char *program,
                     char *text, size_t size_bytes);

/* hcq_cs_ops.decode */
void hcq_packet_decode(const uint32_t *words, uint32_t n_dw, uint32_t *pos,
                       char *text, size_t size_bytes);

#endif
