/* Packets: the commands of a stream, on every device. A packet is a small
 * struct in ordinary memory that says what is to be done and no more.
 *
 * The CPU's queues run packets as they are. A driver of a card turns them into
 * the card's own words in one pass, straight into memory that the card reads:
 * of a fresh stream when it is submitted, of a bound one when it is bound.
 * That memory may be write combined, so it is written in ascending order and
 * never read. A patch of a bound stream changes the packet, and then the words
 * that come of it. Not for the layers above.
 *
 * Packets are emitted and checked in hcq_cs.c; a driver sets its queues'
 * sync_va_end and copy_va_end before their first command, and what it has to
 * say of a packet is in its hcq_device_ops (packet_). Packets are used as
 * streams are: by one host thread at a time.
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
    HCQ_OP_CALL,      /* packets, how many words of 64 bits: in rings of the
                       * CPU, a bound stream */
    HCQ_OP_WORDS,     /* how many 32-bit words of the card's own, and these */
    HCQ_OP_COUNT
};

/* A patch may change it in a way that takes more words than it does now: its
 * words have the largest size, what is not needed does nothing. */
#define HCQ_HEAD_FIXED 1u
/* An exec patched to a larger group than its program takes. */
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

/* The words of an HCQ_OP_WORDS, and how many. */
static inline const uint32_t *
hcq_packet_words(const struct hcq_packet *packet, uint32_t *out_n)
{
    assert(packet->head.op == HCQ_OP_WORDS);
    *out_n = (uint32_t)packet->word[0];
    return (const uint32_t *)(const void *)&packet->word[1];
}

/* Size of a packet of n_words such words: a whole number of 64 bits. */
static inline uint32_t
hcq_words_dw(uint32_t n_words)
{
    return (uint32_t)(sizeof(struct hcq_head) / 4) + 2 + (n_words + 1) / 2 * 2;
}

/* Stores a field of a packet of a fresh stream. A report may be looking at
 * packets that were here before, and finds out afterwards that they are gone
 * (hcq_ring.c). */
#define HCQ_PUT(field, value)                                                  \
    __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

#define HCQ_HEAD_DW ((uint32_t)(sizeof(struct hcq_head) / 4))
#define HCQ_EXEC_DW ((uint32_t)(sizeof(struct hcq_exec) / 4))

static_assert(sizeof(struct hcq_exec) == 40, "hcq_exec");
static_assert(sizeof(struct hcq_exec) / 4 + 2 * HCQ_ARGS_MAX <=
                  HCQ_CS_PACKET_DW,
              "an exec fits in the sink");
static_assert(HCQ_WORDS_MAX + 4 <= HCQ_CS_PACKET_DW, "so do words");

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
    assert(exec->head.n_dw >= HCQ_EXEC_DW);
    return (exec->head.n_dw - HCQ_EXEC_DW) / 2u;
}

/* What a packet of a card's stream becomes; its words in head.word_dw as well.
 * May fail the stream. */
static inline struct hcq_extent
hcq_packet_measure(struct hcq_cs *cs, struct hcq_packet *packet)
{
    struct hcq_extent extent;

    if (packet->head.op != HCQ_OP_EXEC)
        extent = cs->queue->dev->ops->packet_measure(cs, packet);
    else if (cs->stream)
        extent = hcq_exec_of(packet)->prog->bound;
    else
        extent = hcq_exec_of(packet)->prog->extent;
    HCQ_PUT(packet->head.word_dw, (uint32_t)extent.n_dw);
    return extent;
}

/* Where the field of the command at cs->last_dw lies: sets dw, n_dw, min, max
 * and align. False: that command has no such field. */
bool hcq_packet_locate(const struct hcq_cs *cs, unsigned field,
                       struct hcq_place *place);

/* Whether it is a whole packet, of at most n_left_dw words: what a report, or
 * a thread that runs packets, reads may be anything. */
bool hcq_packet_ok(const struct hcq_packet *packet, uint64_t n_left_dw);

/* "exec"; "?" for numbers that are not an operation. */
const char *hcq_op_name(unsigned op);

/* The packet as one line: "copy 64 bytes 0x1000 -> 0x2000". `program` is the
 * name of an exec's. */
void hcq_packet_text(const struct hcq_packet *packet, const char *program,
                     char *text, size_t size_bytes);

/* ---- bound streams ------------------------------------------------------- */

/* Where a packet is, and what became of it. */
struct hcq_spot {
    uint32_t packet_dw; /* in the stream's words */
    uint32_t word_dw;   /* in its memory */
    uint32_t data_unit; /* behind the words, in the driver's units */
    uint32_t slot;      /* the driver's */
};

/* The packet that holds a word of the stream; spots are in its order, and at
 * least one. */
static inline const struct hcq_spot *
hcq_spot_find(const struct hcq_spot *spots, uint32_t n_spots, uint32_t dw)
{
    uint32_t first = 0, last = n_spots - 1;

    assert(n_spots > 0);
    while (first < last) {
        uint32_t mid = first + (last - first + 1) / 2;

        if (spots[mid].packet_dw <= dw)
            first = mid;
        else
            last = mid - 1;
    }
    return &spots[first];
}

/* What all packets of a stream become. */
struct hcq_extent hcq_stream_extent(struct hcq_stream *stream,
                                    uint32_t *out_n_packets);

/* Several axes of a group may be patched, one after the other: what they make
 * together is judged when the stream is submitted. Keeps HCQ_HEAD_TOO_LARGE,
 * and *n_too_large of such packets in a stream; false: this is one. */
static inline bool
hcq_exec_judge(struct hcq_exec *exec, uint32_t *n_too_large)
{
    uint64_t n = (uint64_t)exec->local[0] * exec->local[1] * exec->local[2];
    bool was = exec->head.flags & HCQ_HEAD_TOO_LARGE;
    bool is = n > exec->prog->max_local_total;

    if (is != was) {
        exec->head.flags ^= HCQ_HEAD_TOO_LARGE;
        *n_too_large += is ? 1 : UINT32_MAX;
    }
    return !is;
}

/* Raises BELL_E_INVALID about the first of them; there is one. */
bell_status hcq_exec_refuse(const struct hcq_stream *stream);

#endif
