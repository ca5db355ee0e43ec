/* Pieces and slots: what is the same for all kinds of rings, and launches of
 * AQL. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"

/* The most bytes of one SDMA copy or fill, on every generation: no more than
 * the kernel puts in one, though COUNT has 30 bits from 5.2 or 6.0 on. src:
 * Linux 6.12, copy_max_bytes of sdma_v4_4_2.c to sdma_v7_0.c (0x400000); ROCr
 * 6.4.3, amd_blit_sdma.cpp (fills: 0x3fffe0). */
#define SDMA_MAX_BYTES 0x3ff000u

#define AQL_SETUP_DIMENSIONS 3u
#define AQL_FORMAT_PM4       1u
#define AQL_PM4_DW_LEFT      10u

void
amd_engine_init(struct amd_engine *engine, const struct amd_device *dev,
                enum amd_ring_kind kind)
{
    static const uint8_t slot_dw[] = {
        [AMD_RING_PM4] = 4,
        [AMD_RING_AQL] = 16,
        [AMD_RING_SDMA] = 1,
    };
    bool is_sdma = kind == AMD_RING_SDMA;
    struct amd_push push = {.engine = engine};

    assert((uint32_t)kind < ARRAY_LEN(slot_dw));
    memset(engine, 0, sizeof(*engine));
    engine->dev = dev;
    engine->scratch = &dev->scratch;
    engine->kind = kind;
    engine->gen = dev->gen->dialect;
    engine->is_single = kind != AMD_RING_AQL || dev->topology.n_xcc == 1;
    engine->binds_words = kind == AMD_RING_AQL && dev->binds_pm4;
    engine->slot_dw = slot_dw[kind];
    engine->piece_dw = AMD_PM4_IB_MAX_DW;
    engine->max_bytes = is_sdma ? SDMA_MAX_BYTES : dev->gen->dma_max_bytes;
    engine->move = !is_sdma && dev->gen->move ? &dev->move : NULL;
    push.at = engine->begin;
    if (is_sdma)
        amd_sdma_begin(&push);
    else
        amd_pm4_begin(&push);
    engine->n_begin = (uint32_t)(push.at - engine->begin);
    assert(engine->n_begin <= AMD_BEGIN_DW);
}

void
amd_engine_wakes(struct amd_engine *engine, uint32_t *words, uint64_t slot_va,
                 uint32_t event_id)
{
    bool is_sdma = engine->kind == AMD_RING_SDMA;
    struct amd_push push = {
        .engine = engine,
        .at = is_sdma ? engine->wake : words,
        .piece = is_sdma ? engine->wake : words,
        .slots = is_sdma ? NULL : engine->wake,
    };

    assert(is_sdma || words);
    if (is_sdma)
        amd_sdma_wake(&push, slot_va, event_id);
    else
        amd_pm4_wake(&push, slot_va, event_id);
    engine->n_wake = is_sdma ? (uint32_t)(push.at - push.piece) : 1;
    amd_push_end(&push);
}

/* ---- sizes --------------------------------------------------------------- */

struct hcq_extent
amd_packet_extent(const struct amd_engine *engine,
                  const struct hcq_packet *packet, bool in_words)
{
    bool is_transfer = amd_is_transfer(packet);
    struct hcq_extent extent = {0};
    uint64_t n_copies = 0;

    assert(packet->head.op != HCQ_OP_EXEC);
    if (is_transfer) {
        extent.n_units = packet->head.op == HCQ_OP_FILL || engine->move;
        /* with that, one packet, or a launch */
        n_copies = engine->move ? 1 : amd_copies(engine, packet->word[2]);
        if (packet->head.flags & HCQ_HEAD_FIXED && !engine->move &&
            n_copies < AMD_FIXED_COPIES)
            n_copies = AMD_FIXED_COPIES;
    }
    extent.n_dw =
        engine->kind == AMD_RING_SDMA
            ? amd_sdma_dw(engine, packet, (uint32_t)n_copies)
            : amd_pm4_dw(engine, packet, (uint32_t)n_copies, in_words);
    /* A packet is no larger than what it becomes (hcq_ring.h). */
    if (extent.n_dw < packet->head.n_dw)
        extent.n_dw = packet->head.n_dw;
    if (engine->kind == AMD_RING_SDMA)
        extent.n_slots = (uint32_t)extent.n_dw;
    else if (!in_words && is_transfer)
        extent.n_slots = 2;
    return extent;
}

/* The ring of a copy queue is refilled packet by packet. */
static void
check_words(struct hcq_cs *cs, const struct hcq_packet *packet)
{
    uint32_t n, whole;
    const uint32_t *words = hcq_packet_words(packet, &n);

    assert(packet->head.op == HCQ_OP_WORDS);
    whole = amd_sdma_whole(words, n);
    if (whole == n)
        return;
    hcq_cs_fail(cs, bell_fail(BELL_E_INVALID,
                              "%s: words: no whole packet of a kind that this "
                              "driver uses at word %u (0x%08x): the ring of a "
                              "copy queue is refilled packet by packet",
                              cs->queue->name, whole, words[whole]));
}

struct hcq_extent
amd_packet_measure(struct hcq_cs *cs, struct hcq_packet *packet)
{
    const struct amd_engine *engine = &amd_queue_of(cs->queue)->engine;
    struct hcq_extent extent;

    if (packet->head.op == HCQ_OP_WORDS && engine->kind == AMD_RING_SDMA)
        check_words(cs, packet);
    extent = amd_packet_extent(engine, packet,
                               amd_in_words(engine, cs->stream != NULL));
    if (cs->stream && __builtin_expect(extent.n_dw > AMD_PACKET_MAX_DW, 0))
        hcq_cs_fail(
            cs, bell_fail(BELL_E_INVALID,
                          "stream '%s': a transfer of %llu bytes: it would "
                          "take %llu words, and %u are the limit",
                          cs->stream->name, (unsigned long long)packet->word[2],
                          (unsigned long long)extent.n_dw, AMD_PACKET_MAX_DW));
    return extent;
}

void
amd_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
               unsigned field, struct hcq_place *place)
{
    const struct amd_engine *engine = &amd_queue_of(cs->queue)->engine;
    uint64_t n_copies;

    if (field != HCQ_FIELD_SIZE &&
        (packet->head.op != HCQ_OP_WAIT || field != HCQ_FIELD_VALUE))
        return;
    packet->head.flags |= HCQ_HEAD_FIXED;
    if (field == HCQ_FIELD_SIZE && !engine->move) { /* as many as laid out */
        n_copies = amd_copies(engine, packet->word[2]);
        if (n_copies < AMD_FIXED_COPIES)
            n_copies = AMD_FIXED_COPIES;
        place->max = n_copies * engine->max_bytes;
    }
}

/* ---- slots --------------------------------------------------------------- */

/* Slots as they are; the first word of each counts when it is written. Inlined
 * for each size, so that what is copied is a constant. */
static inline __attribute__((always_inline)) void
add_slots_of(struct amd_push *push, const uint32_t *words, uint64_t n,
             uint32_t slot_dw)
{
    for (; n; n--, words += slot_dw) {
        uint64_t index = push->slot++ & push->slot_mask;
        uint32_t *slot = push->slots + index * slot_dw;

        memcpy(slot + 1, words + 1, (slot_dw - 1) * sizeof(words[0]));
        __atomic_store_n(slot, words[0], __ATOMIC_RELEASE);
    }
}

static void
add_slots(struct amd_push *push, const uint32_t *words, uint64_t n)
{
    assert(push->slots);
    if (push->engine->kind == AMD_RING_AQL)
        add_slots_of(push, words, n, 16);
    else
        add_slots_of(push, words, n, 4);
}

/* Packets that fit before the ring's end, what is left does nothing, and the
 * others from its start. There is room for all. */
static void
add_words(struct amd_push *push, const uint32_t *words, uint64_t n_dw)
{
    uint32_t *at = push->slots + (push->slot & push->slot_mask);
    uint64_t left = push->slot_mask + 1 - (push->slot & push->slot_mask);
    uint64_t n = 0;

    assert(n_dw == 0 || n_dw - 1 <= push->slot_mask);
    if (n_dw > left) {
        while (n + amd_sdma_size(words + n) <= left)
            n += amd_sdma_size(words + n);
        memcpy(at, words, n * sizeof(at[0]));
        memset(at + n, 0, (left - n) * sizeof(at[0]));
        push->slot += left;
        at = push->slots;
    }
    memcpy(at, words + n, (n_dw - n) * sizeof(at[0]));
    push->slot += n_dw - n;
}

void
amd_push_slots(struct amd_push *push, const uint32_t *slots, uint64_t n)
{
    if (push->engine->kind == AMD_RING_SDMA)
        add_words(push, slots, n);
    else
        add_slots(push, slots, n);
}

static uint32_t
aql_header(uint32_t type, uint32_t setup)
{
    return amd_pack_object_aql_header((struct amd_object_aql_header){
        .type = type,
        .barrier = true,
        .acquire = AMD_OBJECT_FENCE_SCOPE_SYSTEM,
        .release = AMD_OBJECT_FENCE_SCOPE_SYSTEM,
        .setup = setup,
    });
}

/* A slot that points to words, written where it lies, header last. It is
 * aligned as words are. */
static inline void
add_indirect(struct amd_push *push, uint64_t va, uint32_t n_dw)
{
    const struct amd_engine *engine = push->engine;
    uint64_t index = push->slot++ & push->slot_mask;
    uint32_t *slot = push->slots + index * engine->slot_dw, words[4];

    amd_pm4_indirect(engine, va, n_dw, words);
    if (engine->kind == AMD_RING_AQL) {
        memset(slot + 1, 0,
               sizeof(struct amd_object_aql_pm4) - sizeof(slot[0]));
        memcpy(slot + AMD_OBJECT_AQL_PM4_INDIRECT_BUFFER / 4, words,
               sizeof(words));
        slot[AMD_OBJECT_AQL_PM4_DW_COUNT_REMAIN / 4] = AQL_PM4_DW_LEFT;
        words[0] = aql_header(AMD_OBJECT_AQL_TYPE_VENDOR, AQL_FORMAT_PM4);
    } else {
        memcpy(slot + 1, words + 1, sizeof(words) - sizeof(words[0]));
    }
    __atomic_store_n(slot, words[0], __ATOMIC_RELEASE);
}

void
amd_push_end(struct amd_push *push)
{
    const struct amd_engine *engine = push->engine;
    const uint32_t *piece = push->piece;
    uint32_t n_dw = (uint32_t)(push->at - piece);

    if (n_dw == 0)
        return;
    push->piece = push->at;
    if (engine->kind != AMD_RING_SDMA) {
        assert(n_dw <= AMD_PM4_IB_MAX_DW);
        add_indirect(push, (uintptr_t)piece, n_dw);
    } else if (push->slots) {
        add_words(push, piece, n_dw);
    }
}

/* ---- launches ------------------------------------------------------------ */

/* What code of the fifth version of the ABI finds behind its arguments.
 * src: docs/hardware/amd-code.md, "Arguments" */
struct hidden_args {
    uint32_t n_groups[3];
    uint16_t group[3], rest[3];
    uint32_t pad[10];
    uint16_t n_dims, pad2[27];
    uint32_t dynamic_lds_bytes, pad3[33];
};

static_assert(offsetof(struct hidden_args, n_dims) == 64, "n_dims");
static_assert(offsetof(struct hidden_args, dynamic_lds_bytes) == 120, "lds");
static_assert(sizeof(struct hidden_args) == AMD_HIDDEN_BYTES, "hidden_args");

static void
put_hidden(uint8_t *at, const struct hcq_exec *exec)
{
    struct hidden_args hidden = {
        .n_dims = 3,
        .dynamic_lds_bytes = amd_program_of(exec)->dynamic_lds_bytes,
    };
    uint32_t i;

    assert(exec->local[0] <= UINT16_MAX && exec->local[1] <= UINT16_MAX);
    for (i = 0; i < 3; i++) {
        hidden.n_groups[i] = exec->grid[i];
        hidden.group[i] = (uint16_t)exec->local[i];
    }
    memcpy(at, &hidden, sizeof(hidden));
}

uint64_t
amd_push_args(struct amd_push *push, const struct hcq_exec *exec)
{
    uint32_t n_bytes = hcq_exec_args(exec) * 8;
    uint64_t va = (uintptr_t)push->data;

    assert(hcq_exec_args(exec) * 8u <=
           exec->prog->extent.n_units * AMD_UNIT_BYTES);
    assert((uintptr_t)push->data % 8 == 0);
    memcpy(push->data, exec->args, n_bytes);
    if (__builtin_expect(amd_program_of(exec)->hidden_bytes != 0, 0))
        put_hidden(push->data + n_bytes, exec);
    push->data += exec->prog->extent.n_units * AMD_UNIT_BYTES;
    return va;
}

static void
push_aql_exec(struct amd_push *push, const struct hcq_exec *exec)
{
    const struct amd_program *prog = amd_program_of(exec);
    struct amd_object_aql_dispatch packet = {
        .header = aql_header(AMD_OBJECT_AQL_TYPE_KERNEL_DISPATCH,
                             AQL_SETUP_DIMENSIONS),
        .wg_x = (uint16_t)exec->local[0],
        .wg_y = (uint16_t)exec->local[1],
        .wg_z = (uint16_t)exec->local[2],
        .grid_x = exec->grid[0] * exec->local[0],
        .grid_y = exec->grid[1] * exec->local[1],
        .grid_z = exec->grid[2] * exec->local[2],
        .private_bytes = prog->scratch_bytes,
        .group_bytes = prog->lds_bytes,
        .kernel_object = prog->descriptor_va,
        .kernarg = amd_push_args(push, exec),
    };
    uint32_t words[16];

    assert(push->engine->kind == AMD_RING_AQL && !push->in_words);
    assert(prog->descriptor_va % 64 == 0);
    memcpy(words, &packet, sizeof(words));
    amd_push_end(push);
    add_slots(push, words, 1);
}

/* ---- packets ------------------------------------------------------------- */

/* All of it, which is faster than what there is. */
void
amd_push_begin(struct amd_push *push)
{
    memcpy(push->at, push->engine->begin, sizeof(push->engine->begin));
    push->at += push->engine->n_begin;
}

static void
finish_apart(struct amd_push *push, uint64_t va, uint64_t value)
{
    uint32_t *at;

    assert(!push->engine->is_single);
    amd_push_end(push);
    at = push->at;
    push->at = push->piece = amd_finish_words(push->engine, value);
    amd_pm4_signal(push, va, value);
    amd_push_end(push);
    push->at = push->piece = at;
}

void
amd_push_finish(struct amd_push *push, uint64_t va, uint64_t value)
{
    if (push->engine->finish) {
        finish_apart(push, va, value);
        return;
    }
    if (push->engine->kind == AMD_RING_SDMA)
        amd_sdma_finish(push, va, value);
    else
        amd_pm4_signal(push, va, value);
    amd_push_end(push);
}

void
amd_push_split(struct amd_push *push, const struct hcq_packet *packet)
{
    if ((uint64_t)(push->at - push->piece) + packet->head.word_dw +
            4 * AMD_MEET_DW >
        push->engine->piece_dw)
        amd_push_end(push);
}

void
amd_push_packet(struct amd_push *push, const struct hcq_packet *packet)
{
    enum amd_ring_kind kind = push->engine->kind;
    bool is_slots = kind == AMD_RING_AQL && !push->in_words;
    uint64_t room[AMD_MOVE_WORDS];
    uint32_t *start;

    if (is_slots && packet->head.op == HCQ_OP_EXEC) {
        push_aql_exec(push, hcq_exec_of(packet));
        return;
    }
    if (is_slots && amd_is_transfer(packet)) {
        push_aql_exec(push, amd_move_exec(push->engine, packet, room));
        return;
    }
    start = push->at;
    if (kind == AMD_RING_SDMA)
        amd_sdma_packet(push, packet);
    else
        amd_pm4_packet(push, packet);
    if (!(packet->head.flags & HCQ_HEAD_FIXED))
        return;
    assert((uint32_t)(push->at - start) <= packet->head.word_dw);
    if (kind == AMD_RING_SDMA)
        amd_sdma_nothing(push,
                         packet->head.word_dw - (uint32_t)(push->at - start));
    else
        amd_pm4_nothing(push,
                        packet->head.word_dw - (uint32_t)(push->at - start));
}
