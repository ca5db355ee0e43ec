/* Private to the command half of the NVIDIA driver: commands as the queue
 * keeps them, and what they become for the card.
 *
 * A command stream (hcq_cs.words) holds packets: small structs in ordinary
 * memory, one for each command, which say what is to be done and no more.
 * They are turned into the card's own words in one pass, straight into memory
 * that the card reads: of a fresh stream when it is submitted, of a bound one
 * when it is bound. That memory may be write combined, so it is written in
 * ascending order and never read. A patch of a bound stream changes the
 * packet, and then the words that come of it.
 *
 * nv_cs.c      packets: emitters, fields, text
 * nv_encode.c  packets to pushbuffer words
 * nv_qmd.c     launch descriptors and constant bank 0
 * nv_queue.c   the ring, submissions, reports
 * nv_stream.c  bound streams
 *
 * src: hw/nv/BRINGUP.md sections 7 to 10.
 */
#ifndef BELL_HCQ_NV_NV_COMMAND_H
#define BELL_HCQ_NV_NV_COMMAND_H

#include <assert.h>

#include "hcq/nv/nv.h"

/* ---- packets ------------------------------------------------------------- */

enum nv_op {
    NV_OP_WAIT = 1,  /* word: va, value */
    NV_OP_SIGNAL,    /* va, value */
    NV_OP_TIMESTAMP, /* va */
    NV_OP_BARRIER,   /* - */
    NV_OP_EXEC,      /* struct nv_exec */
    NV_OP_COPY,      /* dst, src, bytes */
    NV_OP_FILL,      /* dst, pattern, bytes */
    NV_OP_WRITE32,   /* va, value */
    NV_OP_WRITE64,   /* va, value */
    NV_OP_POLL,      /* va, mask, value */
    NV_OP_COUNT
};

enum nv_head_flag {
    /* A patch may change it in a way that takes more words than it does now:
     * its words have the largest size, what is not needed does nothing. */
    NV_HEAD_FIXED = 1u << 0,
    /* Patches gave an exec more threads in a block than the program takes:
     * the stream is not submitted. */
    NV_HEAD_TOO_LARGE = 1u << 1,
};

struct nv_head {
    uint8_t op;         /* enum nv_op */
    uint8_t flags;      /* enum nv_head_flag */
    uint16_t n_dw;      /* of the packet, the head included */
    uint16_t method_dw; /* what it becomes: methods, at most */
    uint16_t n_units;   /* and units of data, of NV_UNIT_BYTES */
};

/* Streams are arrays of words: these look at them as they are. */
struct __attribute__((may_alias)) nv_packet {
    struct nv_head head;
    uint64_t word[3];
};

struct __attribute__((may_alias)) nv_exec {
    struct nv_head head;
    const struct nv_program *prog;
    uint32_t grid[3], local[3];
    uint64_t args[];
};

/* Descriptors and constant banks lie at multiples of this. */
#define NV_UNIT_BYTES 256u

#define NV_HEAD_DW   2u
#define NV_EXEC_DW   10u /* without arguments */
#define NV_PACKET_DW (NV_EXEC_DW + 2 * HCQ_ARGS_MAX)

static_assert(sizeof(struct nv_head) == NV_HEAD_DW * 4, "nv_head");
static_assert(sizeof(struct nv_exec) == NV_EXEC_DW * 4, "nv_exec");
static_assert(NV_PACKET_DW <= HCQ_CS_PACKET_DW, "an exec fits in the sink");

/* The packet at a word of a stream. */
static inline const struct nv_packet *
nv_packet_at(const uint32_t *words, uint32_t dw)
{
    return (const struct nv_packet *)(const void *)(words + dw);
}

static inline const struct nv_exec *
nv_exec_of(const struct nv_packet *packet)
{
    return (const struct nv_exec *)(const void *)packet;
}

/* Whether the words hold a whole packet; what a report reads may be anything.
 */
bool nv_packet_ok(const uint32_t *words, uint32_t n_left_dw);

/* The packet as one line: "copy 64 bytes 0x1000 -> 0x2000". `program` is the
 * name of an exec's. */
void nv_packet_text(const struct nv_packet *packet, const char *program,
                    char *text, size_t size_bytes);

/* ---- what a queue's channel understands ------------------------------------- */

/* Found once for each queue from the classes of its channel. Plain data. */
struct nv_engine {
    bool is_copy;        /* no compute object: copies on subchannel 4 only */
    bool has_mem_op;     /* membars through the host engine */
    uint8_t host_gen;    /* enum nv_host_gen */
    uint8_t compute_gen; /* enum nv_compute_gen */
    uint8_t copy_gen;    /* enum nv_ce_gen */
    uint32_t qmd_major;
    uint32_t compute_class, copy_class;
    uint64_t host_va_end; /* what the host engine addresses */
    uint64_t copy_va_end; /* what the copy engine addresses */
};

/* BELL_E_UNSUPPORTED: a class that is not in hcq/nv/regs. */
BELL_MUST_CHECK bell_status nv_engine_init(struct nv_engine *engine,
                                           const struct nv_chip *chip,
                                           bool is_copy);

/* ---- encoding (nv_encode.c) -------------------------------------------------- */

/* Where words go. `at` and `data` are in memory that the card sees. */
struct nv_push {
    const struct nv_engine *engine;
    uint32_t *at;     /* next method */
    uint8_t *data;    /* next unit of data */
    uint64_t data_va; /* its address for the card */
    bool busy;        /* a kernel before this may still run */
};

/* Upper bounds of what nv_push_ functions below write. */
#define NV_SETUP_DW  40u
#define NV_FINISH_DW 6u

/* Sets head.method_dw and head.n_units; again when its flags have changed. */
void nv_packet_measure(const struct nv_engine *engine,
                       struct nv_packet *packet);

/* Encodes one packet: at most head.method_dw words and head.n_units units. */
void nv_push_packet(struct nv_push *push, const struct nv_packet *packet);

/* The state of a new channel: objects, windows, traps reported. */
void nv_push_setup(struct nv_push *push, const struct nv_chip *chip);
/* Where stacks are; the channel is idle. */
void nv_push_local(struct nv_push *push, const struct nv_local *local);
/* Code and constants were written. */
void nv_push_invalidate(struct nv_push *push);
/* The queue's timeline reaches `value` when all before it is done. */
void nv_push_finish(struct nv_push *push, uint64_t va, uint64_t value);

/* ---- queues (nv_queue.c) -------------------------------------------------------- */

struct nv_stream;

/* A submission, for reports and for giving room back. Reports read it on
 * other threads: what they saw counts if `value` is still the same afterwards
 * and the timeline has not come to it. */
struct nv_record {
    _Atomic uint64_t value;           /* of the timeline; 0: being written */
    _Atomic uint64_t first;           /* 64-bit word of the history */
    _Atomic uint32_t n_dw;            /* of packets */
    _Atomic uint32_t put;             /* the channel's, after it */
    struct nv_stream *_Atomic stream; /* bound; NULL: fresh */
};

/* Outstanding submissions, at most; a power of two. */
#define NV_RECORDS 512u

/* nv_queue.c's own part of a queue. Touched by the queue's thread but for
 * what reports read: the atomic fields. */
struct nv_queue_priv {
    struct nv_engine engine;
    /* Of the fresh stream, summed up while it is built. */
    uint32_t fresh_dw, fresh_units;
    bool needs_setup;
    uint32_t code_epoch;         /* of the device, as last acted on */
    _Atomic uint64_t last_value; /* submitted */
    uint64_t retired;            /* seen done */
    uint32_t gp_tail; /* entries of the ring before it are free again */
    /* Packets of fresh submissions, each at the offset that its words have
     * in the push ring: what a report reads. Owned. */
    _Atomic uint64_t *history;
    struct hcq_link streams;              /* bound ones; dev->base.lock */
    struct nv_record records[NV_RECORDS]; /* by value, modulo */
};

static inline struct nv_queue_priv *
nv_priv_of(struct nv_queue *queue)
{
    return queue->priv;
}

/* Room for n_dw words of methods and n_units of data behind them in the push
 * ring, and for n_entries in the channel's, waiting for the device if need
 * be. *out_push is where they go. */
BELL_MUST_CHECK bell_status nv_queue_room(struct nv_queue *queue, uint32_t n_dw,
                                          uint32_t n_units, uint32_t n_entries,
                                          struct nv_push *out_push);

/* Words that the channel must be sent before the next packets, at most: 0 or
 * NV_SETUP_DW. */
uint32_t nv_queue_prologue_dw(struct nv_queue *queue);
/* Encodes them. */
void nv_queue_prologue(struct nv_queue *queue, struct nv_push *push);

/* Puts a piece of the push ring that begins at `start` and ends where `push`
 * is now into the channel's ring. */
void nv_queue_entry(struct nv_queue *queue, const uint32_t *start,
                    const struct nv_push *push);

/* Notes a submission whose entries are in the channel's ring, and rings.
 * `start` is its place in the push ring. Of a fresh stream, the packets. */
void nv_queue_commit(struct nv_queue *queue, uint64_t value,
                     const uint32_t *start, const uint32_t *words,
                     uint32_t n_dw, struct nv_stream *stream);

/* ---- bound streams (nv_stream.c) ------------------------------------------------- */

void nv_stream_repack(struct hcq_stream *stream, const struct hcq_place *place);

/* Where a packet is, and what became of it. */
struct nv_spot {
    uint32_t packet_dw; /* in the stream's words */
    uint32_t method_dw; /* in its memory */
    uint32_t data_unit; /* behind the methods */
};

/* A stream's words for the card. Owned by its hcq_stream. */
struct nv_stream {
    struct hcq_stream *base;
    struct hcq_link link; /* priv->streams; dev->base.lock */
    struct nv_mem mem;    /* methods, then data */
    uint32_t data_at;     /* bytes from its start */
    uint32_t n_packets;
    uint32_t n_too_large;    /* packets with NV_HEAD_TOO_LARGE */
    uint32_t n_segments;     /* of methods: ring entries */
    uint32_t *segment_dw;    /* owned: where each ends */
    struct nv_spot *targets; /* owned: of each of base->places */
};

#endif
