/* Private to the command half of the NVIDIA driver: what packets of a stream
 * (hcq/hcq_packet.h) become for the card.
 *
 * nv_encode.c  packets to pushbuffer words
 * nv_qmd.c     launch descriptors and constant bank 0
 * nv_move.c    large copies and fills by a kernel
 * nv_queue.c   the ring, submissions
 * nv_stream.c  bound streams
 *
 * src: docs/hardware/nvidia-queues.md, "Pushbuffers", "Host methods",
 * "Compute state", "Launch descriptors", "Copy engine".
 */
#ifndef BELL_HCQ_NV_NV_COMMAND_H
#define BELL_HCQ_NV_NV_COMMAND_H

#include "hcq/nv/nv.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/nv_qmd.h"

/* Descriptors and constant banks lie at multiples of this. */
#define NV_UNIT_BYTES 256u

static inline const struct nv_program *
nv_program_of(const struct hcq_exec *exec)
{
    return HCQ_CONTAINER(exec->prog, const struct nv_program, base);
}

/* ---- encoding (nv_encode.c) ---- */

void nv_engine_init(struct nv_engine *engine, const struct nv_chip *chip,
                    bool is_copy);

/* Where words go. `at` and `data` are in memory that the card sees. */
struct nv_push {
    const struct nv_engine *engine;
    uint32_t *at;          /* next method */
    uint8_t *data;         /* next unit of data */
    uint64_t data_va;      /* its address for the card */
    bool busy;             /* a kernel before this may still run */
    bool is_linked;        /* the launch before schedules this one */
    struct nv_after after; /* of the packet, a launch */
};

/* Upper bounds of what nv_push_ functions below write. */
#define NV_SETUP_DW  40u
#define NV_FINISH_DW 6u
#define NV_IDLE_DW   2u
#define NV_LAUNCH_DW 6u /* an exec's, beside its data */

/* What the packet, no exec, becomes: no slots. */
struct hcq_extent nv_packet_extent(const struct nv_engine *engine,
                                   const struct hcq_packet *packet);

/* ---- copies and fills by a kernel (nv_move.c) ---- */

/* What of a copy or fill a kernel does: all but some bytes at both ends, which
 * are the copy engine's. */
struct nv_move {
    uint64_t head_bytes, tail_bytes; /* below 16 */
    uint64_t body_bytes;             /* a multiple of 16; 0: no kernel */
};

struct nv_move nv_move_split(const struct nv_engine *engine,
                             const struct hcq_packet *packet);

#define NV_MOVE_ARGS 4u
#define NV_MOVE_DW   (sizeof(struct hcq_exec) / 8 + NV_MOVE_ARGS)

/* The launch that does the body. It lies in `room`. */
const struct hcq_exec *nv_move_exec(const struct nv_engine *engine,
                                    const struct hcq_packet *packet,
                                    const struct nv_move *move,
                                    uint64_t room[NV_MOVE_DW]);

/* Whether it is a copy or fill which a patch may make a kernel's, or not. */
static inline bool
nv_may_move(const struct nv_engine *engine, const struct hcq_packet *packet)
{
    return engine->move && packet->head.flags & HCQ_HEAD_FIXED &&
           (packet->head.op == HCQ_OP_COPY || packet->head.op == HCQ_OP_FILL);
}

/* Whether the packet at a word and the next one are launches: the card does the
 * second when the first is done, without a method in between. */
static inline bool
nv_packet_links(const struct hcq_cs *cs, uint32_t dw)
{
    const struct hcq_head *head = &hcq_packet_at(cs->words, dw)->head;
    uint32_t next_dw = dw + head->n_dw;

    return head->op == HCQ_OP_EXEC && next_dw < cs->n_dw &&
           hcq_packet_at(cs->words, next_dw)->head.op == HCQ_OP_EXEC;
}

/* Encodes one packet, push->after set: at most head.word_dw words and
 * its extent's units. */
void nv_push_packet(struct nv_push *push, const struct hcq_packet *packet);

/* Waits until kernels before are done. */
void nv_push_idle(struct nv_push *push);
/* The state of a new channel: objects, windows, traps reported. */
void nv_push_setup(struct nv_push *push, const struct nv_chip *chip);
/* Where stacks are; the channel is idle. */
void nv_push_local(struct nv_push *push, const struct nv_local *local);
/* Code and constants were written. */
void nv_push_invalidate(struct nv_push *push);
/* The queue's timeline reaches `value` when all before it is done. */
void nv_push_finish(struct nv_push *push, uint64_t va, uint64_t value);

/* ---- queues (nv_queue.c) ---- */

/* Room for that much, waiting for the device if need be. *out_push is where it
 * goes; slots are entries of the channel's ring. */
BELL_MUST_CHECK bell_status nv_queue_room(struct nv_queue *queue,
                                          const struct hcq_extent *extent,
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
 * stream NULL: the fresh one. */
void nv_queue_commit(struct nv_queue *queue, uint64_t value,
                     struct hcq_stream *stream);

/* ---- bound streams (nv_stream.c) ---- */

/* A stream's words for the card. Owned by its hcq_stream. */
struct nv_stream {
    struct hcq_bound base; /* first; spots of each of its places */
    struct nv_mem mem;     /* methods, then data */
    uint32_t data_at;      /* bytes from its start */
    uint32_t n_segments;   /* of methods: ring entries */
    uint32_t *segment_dw;  /* owned: where each ends */
};

#endif
