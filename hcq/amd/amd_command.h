/* Private to the command half of the AMD driver: what packets of a stream
 * (hcq/hcq_packet.h) become for the card.
 *
 * Words of compute queues go into indirect buffers in host memory that the card
 * reads; a ring holds slots of one size that point there: an INDIRECT_BUFFER
 * packet or a packet of AQL. A fresh launch on an AQL queue is a slot of its
 * own, between two indirect buffers; bound ones are words where the device says
 * so. KFD's SDMA queues run no indirect buffers: their words are copied into
 * the ring, each a slot, and packets stay whole: what is left before the ring's
 * end does nothing.
 *
 * amd_encode.c  pieces, slots, launches of AQL
 * amd_pm4.c     words of compute queues
 * amd_move.c    copies and fills by a kernel
 * amd_sdma.c    words of copy queues
 * amd_queue.c   the ring, submissions
 * amd_stream.c  bound streams
 *
 * src: docs/hardware/amd-kernel.md, "Queues"; docs/hardware/amd-queues.md,
 * "PM4", "Launch", "AQL", "Several dies", "Caches", "Copies (SDMA)".
 */
#ifndef BELL_HCQ_AMD_AMD_COMMAND_H
#define BELL_HCQ_AMD_AMD_COMMAND_H

#include <string.h>

#include "hcq/amd/amd.h"

void amd_engine_init(struct amd_engine *engine, const struct amd_device *dev,
                     enum amd_ring_kind kind);

/* Makes the slots that wake: the event's slot in the kernel's page is written,
 * then the kernel interrupted. `words`: AMD_UNIT_BYTES that the card sees, for
 * good; SDMA needs none. */
void amd_engine_wakes(struct amd_engine *engine, uint32_t *words,
                      uint64_t slot_va, uint32_t event_id);

/* Kernel arguments lie at multiples of this. */
#define AMD_UNIT_BYTES 64u

/* The arguments that a compiler adds, in the ABI's fifth version. */
#define AMD_HIDDEN_BYTES 256u

/* Most copy packets that a copy or fill of patched size takes, unless it was
 * emitted with more. */
#define AMD_FIXED_COPIES 16u

/* Lower halves of values from here on are close before a multiple of 2^32,
 * where the card's 32-bit writes and comparisons need care. */
#define AMD_BORDER_FROM 0xff000000u

/* Addresses have 48 bits. */
#define AMD_VA_END (1ull << 48)

/* Where words go, in memory of the same address for CPU and card. */
struct amd_push {
    const struct amd_engine *engine;
    uint32_t *at;    /* next word */
    uint32_t *piece; /* where the open indirect buffer begins */
    uint8_t *data;   /* next unit */
    uint32_t *slots; /* the ring, or a stream's own; NULL: of an SDMA stream,
                      * whose words stay where they are */
    uint64_t slot;   /* next one, without wrapping */
    uint64_t slot_mask;
    bool in_words;    /* launches are words: not slots of an AQL ring */
    uint32_t n_meets; /* of the dies, in these words */
};

/* The value of in_words for a bound stream or a fresh one. */
static inline bool
amd_in_words(const struct amd_engine *engine, bool is_bound)
{
    return engine->kind == AMD_RING_PM4 || (is_bound && engine->binds_words);
}

/* Whether dies have to meet in a bound stream: behind each launch, and what one
 * of them does alone. */
static inline bool
amd_dies_meet(const struct amd_engine *engine)
{
    return engine->binds_words && !engine->is_single;
}

/* One of several dies writes the timeline while others have not read as far as
 * that. So these words may be written again when a later value is seen: the
 * packet behind them has waited for all dies. More than twice as many
 * submissions as can be outstanding. */
#define AMD_FINISH_UNITS (2 * HCQ_RING_RECORDS)

/* Where the release of that value lies, where there are several dies. */
static inline uint32_t *
amd_finish_words(const struct amd_engine *engine, uint64_t value)
{
    return engine->finish +
           value % AMD_FINISH_UNITS * (AMD_UNIT_BYTES / sizeof(uint32_t));
}

/* Upper bounds of what the functions below write. */
#define AMD_FINISH_DW 16u

/* SDMA leaves these words before the ring's end: less than the largest
 * packet. */
#define AMD_SDMA_TAIL_DW 8u

/* Words of one packet: it does not leave an indirect buffer. */
#define AMD_PACKET_MAX_DW 0xfff00u

/* Arguments of the kernel that copies and fills, and words of 64 bits of its
 * launch. They take one unit. */
#define AMD_MOVE_ARGS  6u
#define AMD_MOVE_WORDS (HCQ_EXEC_DW / 2 + AMD_MOVE_ARGS)

static inline bool
amd_is_transfer(const struct hcq_packet *packet)
{
    return packet->head.op == HCQ_OP_COPY || packet->head.op == HCQ_OP_FILL;
}

/* Packets that move so many bytes; the engine has some. */
static inline uint64_t
amd_copies(const struct amd_engine *engine, uint64_t size_bytes)
{
    return (size_bytes + engine->max_bytes - 1) / engine->max_bytes;
}

/* What the packet, no exec, becomes. */
struct hcq_extent amd_packet_extent(const struct amd_engine *engine,
                                    const struct hcq_packet *packet,
                                    bool in_words);

/* What the host wrote is visible behind this. */
void amd_push_begin(struct amd_push *push);
/* Closes the open indirect buffer if the packet might be too much for it. */
void amd_push_split(struct amd_push *push, const struct hcq_packet *packet);
/* At most head.word_dw words and its extent's units. */
void amd_push_packet(struct amd_push *push, const struct hcq_packet *packet);
/* Writes the value when all before is done, and its results visible. When it is
 * seen, nothing of the submission is read any more: AMD_FINISH_DW words and
 * amd_finish_slots slots behind what was open. */
void amd_push_finish(struct amd_push *push, uint64_t va, uint64_t value);
/* Closes the open indirect buffer: a slot, unless it is empty. SDMA: its words
 * are slots. */
void amd_push_end(struct amd_push *push);
/* Slots of a stream, or packets of SDMA, as they are. */
void amd_push_slots(struct amd_push *push, const uint32_t *slots, uint64_t n);
static inline uint32_t
amd_finish_slots(const struct amd_engine *engine)
{
    if (engine->kind != AMD_RING_SDMA)
        return 1 + engine->n_wake;
    return AMD_FINISH_DW + AMD_SDMA_TAIL_DW +
           (engine->n_wake ? engine->n_wake + AMD_SDMA_TAIL_DW : 0);
}

/* Slots of a fresh submission without packets: what begins and ends it. */
static inline uint32_t
amd_fresh_slots(const struct amd_engine *engine)
{
    return amd_finish_slots(engine) + (engine->kind == AMD_RING_SDMA
                                           ? AMD_BEGIN_DW
                                           : engine->finish != NULL);
}

/* Words at push->at, n_dw of them. */
static inline void
amd_put(struct amd_push *push, const uint32_t *words, uint32_t n_dw)
{
    memcpy(push->at, words, n_dw * sizeof(words[0]));
    push->at += n_dw;
}

/* ---- per kind of ring (amd_pm4.c, amd_sdma.c) ---- */

void amd_pm4_begin(struct amd_push *push);
void amd_pm4_signal(struct amd_push *push, uint64_t va, uint64_t value);
void amd_pm4_wake(struct amd_push *push, uint64_t slot_va, uint32_t event_id);
void amd_pm4_packet(struct amd_push *push, const struct hcq_packet *packet);
void amd_pm4_nothing(struct amd_push *push, uint32_t n_dw);
uint32_t amd_pm4_dw(const struct amd_engine *engine,
                    const struct hcq_packet *packet, uint32_t n_copies,
                    bool in_words);
/* Where dies meet: in a bound stream before its first word (all of them then
 * have their share of launches), behind a packet if need be, and behind the
 * last one, so that nobody reads any of it when the first die goes on. At most
 * amd_pm4_open_dw, AMD_MEET_DW and 2 * AMD_MEET_DW words. */
#define AMD_MEET_DW 16u
uint32_t amd_pm4_open_dw(const struct amd_engine *engine);
void amd_pm4_open(struct amd_push *push);
void amd_pm4_meet(struct amd_push *push, const struct hcq_packet *packet);
void amd_pm4_close(struct amd_push *push, const struct hcq_packet *last);
/* The words of its launches, of a program that has all else, and what one
 * becomes. */
void amd_pm4_prepare(const struct amd_device *dev, struct amd_program *prog);
/* An INDIRECT_BUFFER packet of 4 words. */
void amd_pm4_indirect(const struct amd_engine *engine, uint64_t va,
                      uint32_t n_dw, uint32_t words[4]);

void amd_sdma_begin(struct amd_push *push);
void amd_sdma_signal(struct amd_push *push, uint64_t va, uint64_t value);
/* The same of a timeline that only grows by one: nothing is read behind the
 * write that completes it. */
void amd_sdma_finish(struct amd_push *push, uint64_t va, uint64_t value);
void amd_sdma_wake(struct amd_push *push, uint64_t slot_va, uint32_t event_id);
void amd_sdma_packet(struct amd_push *push, const struct hcq_packet *packet);
void amd_sdma_nothing(struct amd_push *push, uint32_t n_dw);
uint32_t amd_sdma_dw(const struct amd_engine *engine,
                     const struct hcq_packet *packet, uint32_t n_copies);
/* Words of the packet that begins there, as the functions above wrote it. */
uint32_t amd_sdma_size(const uint32_t *words);
/* How many of others' words are whole packets of those kinds. */
uint32_t amd_sdma_whole(const uint32_t *words, uint32_t n_dw);

/* The launch that does what the copy or fill says, in `room`. */
const struct hcq_exec *amd_move_exec(const struct amd_engine *engine,
                                     const struct hcq_packet *packet,
                                     uint64_t room[AMD_MOVE_WORDS]);

/* Arguments of a launch into the next units, those of the compiler behind them;
 * their address. */
uint64_t amd_push_args(struct amd_push *push, const struct hcq_exec *exec);

static inline const struct amd_program *
amd_program_of(const struct hcq_exec *exec)
{
    return HCQ_CONTAINER(exec->prog, const struct amd_program, base);
}

/* ---- queues (amd_queue.c) ---- */

/* What of its ring a submission may take, and what it takes itself: when the
 * engine's slots that wake, or the channel's ring, are others. */
void amd_queue_limit(struct amd_queue *queue);

/* Room for that much, waiting for the device if need be. *out_push is where it
 * goes. */
BELL_MUST_CHECK bell_status amd_queue_room(struct amd_queue *queue,
                                           const struct hcq_extent *extent,
                                           struct amd_push *out_push);
/* Puts more slots into the ring than it has (of SDMA: packets of so many
 * words), as the card takes them: waits for all that was submitted before, and
 * for the last slots to fit. */
BELL_MUST_CHECK bell_status amd_queue_pour(struct amd_queue *queue,
                                           const uint32_t *slots,
                                           uint64_t n_slots);
/* Notes a submission whose slots are in the ring, and rings. stream NULL: the
 * fresh one. */
void amd_queue_commit(struct amd_queue *queue, uint64_t value,
                      struct amd_push *push, struct hcq_stream *stream);

#endif
