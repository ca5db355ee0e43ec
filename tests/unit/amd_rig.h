/* Queues of hcq/amd with the smallest rings, and commands that count, for tests
 * that look inside. Checks of the C library fail the test where something is
 * not as it has to be.
 */
#ifndef BELL_TESTS_UNIT_AMD_RIG_H
#define BELL_TESTS_UNIT_AMD_RIG_H

#include "hcq/amd/amd_command.h"

#define LONG_NS    (30ull * 1000000000)
#define SHORT_NS   20000000ull
#define PAGE_BYTES 4096u
#define RING_BYTES 4096u /* of both rings; there are none that are smaller */
#define UNIT_DW    (AMD_UNIT_BYTES / 4)
#define UNITS      (RING_BYTES / AMD_UNIT_BYTES)
#define PUSH_DW    (RING_BYTES / 4)
#define POISON     0x5a5a5a5au /* a command of no engine */

/* A counter is four words of 64 bits. A copy of the last three to the first
 * three, cut into packets of one word, moves them up by one. Copies on AQL
 * rings are launches, so that there a command that is none can only be seen to
 * have run: it writes a 1. */
#define COUNTER_WORDS 4u
#define COUNTERS      600u

/* What is tested: rings of one kind on one card. */
struct kind {
    const char *card;
    enum hcq_queue_kind queue;
    bool
        by_launch; /* commands are launches: of an AQL ring, packets or words */
    const char *bound; /* BELL_AMD_BOUND; NULL: none */
};

#define RING_KINDS 8
extern const struct kind ring_kinds[RING_KINDS];

/* A device with one queue. */
struct rig {
    const struct kind *kind;
    struct hcq_device *dev;
    struct hcq_queue *base;
    struct amd_queue *queue;
    struct hcq_program *prog;
    struct hcq_buffer *counters;
    uint64_t n_slots;
    void *guards[2]; /* NULL: something else is there */
    uint32_t n_wake; /* the engine's: without, so that a release is one slot */
};

void rig_ok(bell_status status);
void rig_fails(bell_status status, bell_status want, const char *part);

/* push_bytes: of the push ring. The channel's has RING_BYTES, and every command
 * of a bound stream is a slot there. */
struct rig rig_open(const struct kind *kind, uint32_t push_bytes);
void rig_close(struct rig *r);
/* Another ring for the channel of a queue that has done nothing yet. */
void rig_replace_ring(struct rig *r, uint32_t ring_bytes);

uint64_t rig_counter_va(const struct rig *r, uint32_t i);
void rig_reset_counters(struct rig *r);
/* The first n ran so often, the others did not. */
void rig_expect_counts(const struct rig *r, uint32_t n, uint64_t times);
/* The command that counts, unless it is a launch. */
struct hcq_packet rig_count_packet(const struct rig *r, uint32_t i);
/* One command that counts. */
void rig_emit_count(struct rig *r, struct hcq_cs *cs, uint32_t i);

/* Nothing but the release of the timeline: a slot (of a copy queue its words),
 * and a unit. */
bell_status rig_submit_release(struct rig *r);
/* The queue does nothing until it is released. */
struct hcq_signal *rig_hold(struct rig *r);
void rig_release(struct rig *r, struct hcq_signal *go);
/* Words that do nothing. */
void rig_put_nothing(struct rig *r, struct amd_push *push, uint32_t n_dw);

#endif
