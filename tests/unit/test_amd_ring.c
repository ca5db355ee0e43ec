/* hcq/amd's rings, exhaustively: submissions of several lengths at every
 * offset of a small ring, rings that are full to the last word, pointers
 * beyond 32 bits.
 *
 * There are two rings. The channel's ring, which the card reads, has slots of
 * one size, and nothing in it begins anywhere else: slots are its offsets.
 * The push ring, which holds what the slots point to, is given out in units
 * of 16 words; a submission is in one piece and does not go round. Tests look
 * inside: they give a queue the smallest rings, cut streams into one slot for
 * each command, and read where the next one goes.
 *
 * Each command counts: that it ran once, and not twice, can be told. What is
 * unused of a ring is filled with words that are no commands before every
 * submission, and has to be the same afterwards. The pages around the
 * channel's ring can neither be read nor written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"
#include "render/amdgpu.h"

#define LONG_NS    (30ull * 1000000000)
#define SHORT_NS   20000000ull
#define PAGE_BYTES 4096u
#define RING_BYTES 4096u /* of both rings; there are none that are smaller */
#define UNIT_DW    (AMD_UNIT_BYTES / 4)
#define UNITS      (RING_BYTES / AMD_UNIT_BYTES)
#define PUSH_DW    (RING_BYTES / 4)
#define POISON     0x5a5a5a5au /* a command of no engine */

/* A counter is four words of 64 bits. A copy of the last three to the first
 * three, cut into packets of one word, moves them up by one. */
#define COUNTER_WORDS 4u
#define COUNTERS      600u

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_fails(bell_status status, bell_status want, const char *part)
{
    assert_int_equal(status, want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

/* ---- a queue with small rings ---------------------------------------------- */

/* What is tested: rings of one kind on one card. */
struct kind {
    const char *card;
    enum hcq_queue_kind queue;
    bool by_launch; /* commands are launches: packets of an AQL ring */
};

static const struct kind kinds[] = {
    {"AMD@sim:gfx1100", HCQ_QUEUE_COMPUTE, false},  /* PM4 */
    {"AMD@sim:gfx1100", HCQ_QUEUE_COMPUTE, true},   /* PM4 */
    {"AMD@sim:gfx1100", HCQ_QUEUE_COPY, false},     /* SDMA 6 */
    {"AMD@sim:gfx942", HCQ_QUEUE_COMPUTE, false},   /* AQL */
    {"AMD@sim:gfx942", HCQ_QUEUE_COMPUTE, true},    /* AQL */
    {"AMD@sim:gfx942", HCQ_QUEUE_COPY, false},      /* SDMA 4.4 */
    {"AMD@sim:gfx942*2", HCQ_QUEUE_COMPUTE, false}, /* AQL */
};

struct rig {
    const struct kind *kind;
    struct hcq_device *dev;
    struct hcq_queue *base;
    struct amd_queue *queue;
    struct amd_queue_priv *priv;
    struct hcq_program *prog;
    struct hcq_buffer *counters;
    uint64_t n_slots;
    void *guards[2]; /* NULL: something else is there */
};

/* counter[0] += value */
static const char count_text[] =
    "define amdgpu_kernel void @count(ptr addrspace(1) %p, i64 %value) #0 {\n"
    "  %old = atomicrmw add ptr addrspace(1) %p, i64 %value monotonic\n"
    "  ret void\n}\n"
    "attributes #0 = { nounwind "
    "\"amdgpu-flat-work-group-size\"=\"1,1024\" "
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "
    "\"amdgpu-no-implicitarg-ptr\" }\n";

static struct hcq_program *
load_count(struct hcq_device *dev)
{
    struct amdgpu_target target = {{0}, 0};
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct render_binary binary;
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "count",
        .n_bufs = 1,
        .n_vals = 1,
    };
    struct hcq_program *prog;

    hcq_device_info(dev, &info);
    snprintf(target.gfx, sizeof(target.gfx), "%.15s", info.arch);
    expect_ok(render_amdgpu_ir(count_text, "count", &target, &binary));
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    expect_ok(hcq_program_create(dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

/* A page that nobody may touch, unless something is there already. */
static void *
guard(uint8_t *at)
{
    void *page = mmap(at, PAGE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (page == at)
        return page;
    if (page != MAP_FAILED)
        munmap(page, PAGE_BYTES);
    return NULL;
}

static void
remove_guards(struct rig *r)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(r->guards); i++) {
        if (r->guards[i])
            munmap(r->guards[i], PAGE_BYTES);
        r->guards[i] = NULL;
    }
}

/* Another ring for the channel of a queue that has done nothing yet. */
static void
replace_ring(struct rig *r, uint32_t ring_bytes)
{
    struct amd_channel *channel = &r->queue->channel;
    struct amd_device *dev = channel->dev;
    enum amd_ring_kind kind = channel->kind;

    remove_guards(r);
    amd_channel_fini(channel);
    expect_ok(amd_channel_init(dev, kind, ring_bytes, channel));
    r->n_slots = amd_queue_slots(r->queue);
    r->guards[0] = guard((uint8_t *)channel->ring - PAGE_BYTES);
    r->guards[1] = guard((uint8_t *)channel->ring + ring_bytes);
}

static struct rig
open_rig(const struct kind *kind, uint32_t push_bytes)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = kind->queue,
        .ring_size_bytes = push_bytes,
    };
    struct rig r = {.kind = kind};

    expect_ok(hcq_device_open(kind->card, &r.dev));
    expect_ok(hcq_queue_create_with(r.dev, &desc, &r.base));
    expect_ok(hcq_buffer_create(r.dev, COUNTERS * COUNTER_WORDS * 8,
                                HCQ_MEM_HOST_VISIBLE, &r.counters));
    r.queue = amd_queue_of(r.base);
    r.priv = amd_priv_of(r.queue);
    if (kind->by_launch)
        r.prog = load_count(r.dev);
    replace_ring(&r, RING_BYTES);
    r.priv->engine.max_bytes = 8; /* of a copy packet */
    r.priv->engine.piece_dw = 2;  /* every command is a piece of its own */
    return r;
}

static void
close_rig(struct rig *r)
{
    remove_guards(r);
    hcq_device_close(r->dev);
}

/* ---- counters --------------------------------------------------------------- */

static uint64_t
counter_va(const struct rig *r, uint32_t i)
{
    return r->counters->va + (uint64_t)i * COUNTER_WORDS * 8;
}

static void
reset_counters(struct rig *r)
{
    volatile uint64_t *words = r->counters->host;
    uint32_t i;

    for (i = 0; i < COUNTERS * COUNTER_WORDS; i++)
        words[i] = i % COUNTER_WORDS;
}

/* The first n ran so often, the others did not. */
static void
expect_counts(const struct rig *r, uint32_t n, uint64_t times)
{
    const volatile uint64_t *words = r->counters->host;
    uint32_t i;

    for (i = 0; i < COUNTERS; i++) {
        if (words[i * COUNTER_WORDS] != (i < n ? times : 0))
            fail_msg("%s: command %u of %u ran %llu times", r->base->name, i, n,
                     (unsigned long long)words[i * COUNTER_WORDS]);
    }
}

static void
emit_count(struct rig *r, struct hcq_cs *cs, uint32_t i)
{
    const uint64_t args[] = {counter_va(r, i), 1};
    const uint32_t one[] = {1, 1, 1};

    assert_true(i < COUNTERS);
    if (r->kind->by_launch)
        hcq_cs_exec(cs, r->prog, args, 2, one, one);
    else
        hcq_cs_copy(cs, args[0], args[0] + 8, (COUNTER_WORDS - 1) * 8);
}

/* ---- submissions of so many slots --------------------------------------------- */

/* Of a bound stream: what begins it, a slot for each command, the release of
 * the timeline. Of a fresh one one slot, unless it launches from an AQL ring
 * or the release stands apart. One slot alone is a release. */
struct load {
    uint32_t n_slots, n_counts;
    bool is_fresh;
    struct hcq_stream *stream; /* NULL: fresh, or a release */
};

static struct load
make_load(struct rig *r, uint32_t n_slots)
{
    struct load load = {.n_slots = n_slots};
    struct hcq_cs *cs;
    uint32_t i;

    if (n_slots == 1)
        return load;
    load.n_counts = n_slots - 2;
    expect_ok(hcq_stream_create(r->base, "slots", &load.stream));
    cs = hcq_stream_cs(load.stream);
    for (i = 0; i < load.n_counts; i++)
        emit_count(r, cs, i);
    expect_ok(hcq_stream_end(load.stream));
    return load;
}

static bool
has_aql_launches(const struct rig *r)
{
    return r->kind->by_launch && r->queue->channel.kind == AMD_RING_AQL;
}

static struct load
make_fresh(const struct rig *r, uint32_t n_counts)
{
    uint32_t n_slots = 1 + amd_finish_slots(&r->priv->engine);

    if (has_aql_launches(r)) /* in front of them, they, behind them */
        n_slots = 2 + n_counts;
    return (struct load){n_slots, n_counts, true, NULL};
}

/* Nothing but the release of the timeline. */
static bell_status
submit_release(struct rig *r)
{
    uint64_t value = r->base->n_submitted + 1;
    struct amd_push push;
    uint32_t *start;

    BELL_TRY(amd_queue_room(r->queue, UNIT_DW, 0, 1, &push));
    start = push.at;
    amd_push_finish(&push, r->base->timeline->va, value);
    r->base->cs.n_dw = 0; /* commands to be noted for reports */
    amd_queue_commit(r->queue, value, start, &push, NULL);
    r->base->n_submitted = value;
    return BELL_OK;
}

static bell_status
submit_load(struct rig *r, const struct load *load)
{
    struct hcq_cs *cs;
    uint32_t i;

    if (load->stream)
        return hcq_stream_submit(load->stream, NULL);
    if (!load->is_fresh)
        return submit_release(r);
    expect_ok(hcq_queue_begin(r->base, &cs));
    for (i = 0; i < load->n_counts; i++)
        emit_count(r, cs, i);
    return hcq_cs_submit(cs, NULL);
}

static void
drop_load(struct load *load)
{
    if (load->stream)
        hcq_stream_destroy(load->stream);
}

static uint32_t
slot_dw(const struct rig *r)
{
    return r->priv->engine.slot_dw;
}

static uint32_t
poison_of(const struct rig *r, uint64_t dw)
{
    if (r->queue->channel.kind == AMD_RING_AQL && dw % slot_dw(r) == 0)
        return AMD_OBJECT_AQL_TYPE_INVALID;
    return POISON;
}

static void
poison_slots(struct rig *r)
{
    uint64_t i;

    for (i = 0; i < r->queue->channel.ring_bytes / 4; i++)
        r->queue->channel.ring[i] = poison_of(r, i);
}

/* All but the n slots from there are as they were. */
static void
expect_slots(const struct rig *r, uint64_t from, uint64_t n)
{
    uint64_t i, slot;

    for (i = 0; i < r->queue->channel.ring_bytes / 4; i++) {
        slot = (i / slot_dw(r) - from) & (r->n_slots - 1);
        if (slot >= n && r->queue->channel.ring[i] != poison_of(r, i))
            fail_msg("word %u of the ring was written",
                     (unsigned)(i * sizeof(uint32_t)));
    }
}

static uint64_t
run_load(struct rig *r, const struct load *load)
{
    uint64_t from = r->priv->slot_put;

    poison_slots(r);
    reset_counters(r);
    expect_ok(submit_load(r, load));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
    assert_int_equal(r->priv->slot_put - from, load->n_slots);
    expect_counts(r, load->n_counts, 1);
    expect_slots(r, from, load->n_slots);
    return from & (r->n_slots - 1);
}

/* An odd number of slots at a time comes to every slot of the ring. */
static void
every_slot(struct rig *r, struct load load)
{
    struct load one = make_load(r, 1);
    uint8_t seen[RING_BYTES / 16] = {0};
    uint64_t i;

    for (i = 0; i < r->n_slots; i++) {
        seen[run_load(r, &load)] = 1;
        if (load.n_slots % 2 == 0)
            (void)run_load(r, &one);
    }
    for (i = 0; i < r->n_slots; i++)
        assert_int_equal(seen[i], 1);
    drop_load(&load);
}

/* Every length begins at every slot; the longest ones fill the ring, but for
 * the slot that stays free, or go through it in parts. */
static void
slots(void **state)
{
    size_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r = open_rig(&kinds[k], PAGE_BYTES * 16);
        uint32_t n = (uint32_t)r.n_slots;
        const uint32_t lengths[] = {1,         2,     3,     4, 7,    16,
                                    n / 2 + 1, n - 2, n - 1, n, n + 1};

        assert_int_equal(n, RING_BYTES / 4 / slot_dw(&r));
        for (i = 0; i < ARRAY_LEN(lengths); i++)
            every_slot(&r, make_load(&r, lengths[i]));
        every_slot(&r, make_load(&r, 2 * n + 5));
        every_slot(&r, make_fresh(&r, 1));
        every_slot(&r, make_fresh(&r, 4));
        close_rig(&r);
    }
}

/* ---- rings of slots that are full ------------------------------------------------- */

/* The queue does nothing until the signal is 1. */
static struct hcq_signal *
hold(struct rig *r)
{
    struct hcq_signal *go;
    struct hcq_cs *cs;

    expect_ok(hcq_signal_create(r->dev, 0, &go));
    expect_ok(hcq_queue_begin(r->base, &cs));
    hcq_cs_wait(cs, go, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    return go;
}

static void
release(struct rig *r, struct hcq_signal *go)
{
    hcq_signal_set(go, 1);
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
    hcq_signal_destroy(go);
}

/* One slot at a time up to a place in the ring. */
static void
go_to_slot(struct rig *r, uint64_t slot)
{
    while ((r->priv->slot_put & (r->n_slots - 1)) != slot)
        expect_ok(submit_release(r));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
}

/* From there to the last slot that can be used, and one more. */
static void
fill_slots(struct rig *r, uint64_t slot, const struct load *most,
           const struct load *too_many)
{
    struct load one = make_load(r, 1);
    struct hcq_signal *go;
    uint64_t put;

    go_to_slot(r, slot);
    reset_counters(r);
    go = hold(r);
    expect_ok(submit_load(r, most));
    put = r->priv->slot_put;
    assert_int_equal(put - r->priv->slot_tail, r->n_slots - 1);
    r->base->submit_timeout_ns = SHORT_NS;
    expect_fails(submit_load(r, &one), BELL_E_TIMEOUT, "no room for");
    expect_fails(submit_load(r, &one), BELL_E_TIMEOUT, "wait for signal");
    r->base->submit_timeout_ns = LONG_NS;
    assert_int_equal(r->priv->slot_put, put);
    release(r, go);
    expect_counts(r, most->n_counts, 1);

    go_to_slot(r, slot);
    reset_counters(r);
    go = hold(r);
    put = r->priv->slot_put;
    r->base->submit_timeout_ns = SHORT_NS;
    expect_fails(submit_load(r, too_many), BELL_E_TIMEOUT, "no room for");
    r->base->submit_timeout_ns = LONG_NS;
    assert_int_equal(r->priv->slot_put, put);
    release(r, go);
    expect_counts(r, 0, 1);
    expect_ok(submit_load(r, too_many));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
    expect_counts(r, too_many->n_counts, 1);
}

static void
full_slots(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r = open_rig(&kinds[k], PAGE_BYTES * 16);
        uint32_t n = (uint32_t)r.n_slots, i;
        const uint32_t at[] = {0, 1, 2, n / 2, n - 2, n - 1};
        uint32_t n_held = 1 + amd_finish_slots(&r.priv->engine);
        struct load most = make_load(&r, n - 1 - n_held);
        struct load too_many = make_load(&r, n - n_held);

        for (i = 0; i < ARRAY_LEN(at); i++)
            fill_slots(&r, at[i], &most, &too_many);
        close_rig(&r);
    }
}

/* A stream that goes through the ring in parts, and its last `n_held` slots
 * wait: what is left behind them is what can be used, to the last slot. */
static void
fill_behind(struct rig *r, uint32_t n_held)
{
    struct hcq_signal *go;
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    uint32_t i, n_counts = (uint32_t)r->n_slots + 7, n = 0;
    bell_status status = BELL_OK;

    reset_counters(r);
    expect_ok(hcq_signal_create(r->dev, 0, &go));
    expect_ok(hcq_stream_create(r->base, "parts", &stream));
    cs = hcq_stream_cs(stream);
    for (i = 0; i < n_counts; i++) {
        if (i + n_held - 2 == n_counts) /* the wait, these, the release */
            hcq_cs_wait(cs, go, 1);
        emit_count(r, cs, i);
    }
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL));
    r->base->submit_timeout_ns = SHORT_NS;
    while (status == BELL_OK && n < r->n_slots) {
        status = submit_release(r);
        n += status == BELL_OK;
    }
    r->base->submit_timeout_ns = LONG_NS;
    expect_fails(status, BELL_E_TIMEOUT, "no room for");
    assert_true(n + n_held <= r->n_slots - 1);
    release(r, go);
    expect_counts(r, n_counts, 1);
    hcq_stream_destroy(stream);
}

static void
full_behind_parts(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r = open_rig(&kinds[k], PAGE_BYTES * 16);
        uint32_t n = (uint32_t)r.n_slots, i;
        const uint32_t held[] = {3, 4, n / 2, n - 3, n - 2};

        for (i = 0; i < ARRAY_LEN(held); i++)
            fill_behind(&r, held[i]);
        close_rig(&r);
    }
}

/* ---- pieces of the push ring --------------------------------------------------------- */

/* Of the release of the timeline, among the words of a piece. */
static uint32_t
signal_dw(const struct rig *r)
{
    struct hcq_packet packet = {.head = {.op = HCQ_OP_SIGNAL}};

    if (r->priv->engine.finish)
        return 0;
    return r->queue->channel.kind == AMD_RING_SDMA
               ? amd_sdma_dw(&r->priv->engine, &packet, 0)
               : amd_pm4_dw(&r->priv->engine, &packet, 0);
}

/* Words that a piece is a multiple of. */
static uint32_t
step_dw(const struct rig *r)
{
    return r->queue->channel.kind == AMD_RING_SDMA ? 8 : 1;
}

static void
put_nothing(struct rig *r, struct amd_push *push, uint32_t n_dw)
{
    if (r->queue->channel.kind == AMD_RING_SDMA)
        amd_sdma_nothing(push, n_dw);
    else
        amd_pm4_nothing(push, n_dw);
}

/* One piece of exactly n_dw words: a count if it is not 0, what fills up, the
 * release of the timeline. */
static bell_status
submit_piece(struct rig *r, uint32_t n_dw, uint32_t n_counts,
             uint64_t *out_offset)
{
    uint64_t va = counter_va(r, 0), value = r->base->n_submitted + 1;
    struct hcq_packet packet = {
        .head = {.op = HCQ_OP_COPY},
        .word = {va, va + 8, (COUNTER_WORDS - 1) * 8},
    };
    struct amd_push push;
    uint32_t *start, *end;

    BELL_TRY(amd_queue_room(r->queue, n_dw, 0,
                            1 + amd_finish_slots(&r->priv->engine), &push));
    start = push.at;
    end = start + n_dw;
    if (n_counts) {
        amd_push_begin(&push);
        amd_push_packet(&push, &packet);
    }
    put_nothing(r, &push, (uint32_t)(end - push.at) - signal_dw(r));
    amd_push_finish(&push, r->base->timeline->va, value);
    assert_ptr_equal(push.at, end);
    r->base->cs.n_dw = 0; /* commands to be noted for reports */
    amd_queue_commit(r->queue, value, start, &push, NULL);
    r->base->n_submitted = value;
    *out_offset =
        (uint64_t)((uint8_t *)start - (uint8_t *)r->queue->push.cpu) / 4;
    return BELL_OK;
}

static uint32_t
head_unit(const struct rig *r)
{
    return (uint32_t)(align_up(r->queue->push_ring.head, AMD_UNIT_BYTES) /
                      AMD_UNIT_BYTES % UNITS);
}

/* One unit at a time up to a place in the ring. */
static void
go_to_unit(struct rig *r, uint32_t unit)
{
    uint64_t offset;

    while (head_unit(r) != unit)
        expect_ok(submit_piece(r, UNIT_DW, 0, &offset));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
}

/* Where the facts and this ring's rules put a piece of so many words. */
static uint32_t
expected_dw(uint32_t unit, uint32_t n_dw)
{
    return unit * UNIT_DW + n_dw <= PUSH_DW ? unit * UNIT_DW : 0;
}

static void
run_piece(struct rig *r, uint32_t unit, uint32_t n_dw)
{
    volatile uint32_t *ring = r->queue->push.cpu;
    uint64_t offset;
    uint32_t i;

    go_to_unit(r, unit);
    for (i = 0; i < PUSH_DW; i++)
        ring[i] = POISON;
    reset_counters(r);
    expect_ok(submit_piece(r, n_dw, 1, &offset));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
    expect_counts(r, 1, 1);
    assert_int_equal(offset, expected_dw(unit, n_dw));
    for (i = 0; i < PUSH_DW; i++) {
        if (ring[i] != POISON && i - offset >= n_dw)
            fail_msg("a piece of %u words at %u wrote word %u", n_dw,
                     (unsigned)offset, i);
    }
}

/* Every residue of a unit; up to the end of the ring and one step beyond. */
static void
pieces_at(struct rig *r, uint32_t unit)
{
    uint32_t step = step_dw(r), left = PUSH_DW - unit * UNIT_DW, n_dw;
    uint32_t least = 96 + (uint32_t)(2 * UNIT_DW); /* what it has to hold */

    for (n_dw = least; n_dw < least + UNIT_DW; n_dw += step)
        run_piece(r, unit, n_dw);
    if (left >= least)
        run_piece(r, unit, left);
    if (left >= least && left < PUSH_DW)
        run_piece(r, unit, left + step);
    run_piece(r, unit, PUSH_DW);
    run_piece(r, unit, PUSH_DW - step * 2);
}

static void
pieces(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r;
        uint32_t unit;

        if (kinds[k].by_launch)
            continue;
        r = open_rig(&kinds[k], RING_BYTES);
        for (unit = 0; unit < UNITS; unit++)
            pieces_at(&r, unit);
        close_rig(&r);
    }
}

/* ---- push rings that are full --------------------------------------------------------- */

/* With a submission at work from `unit` on: all that is left behind it, all
 * that is left before it, and not a word more. */
static void
fill_pieces(struct rig *r, uint32_t unit)
{
    struct hcq_signal *go;
    uint32_t left, before = unit * UNIT_DW;
    uint64_t offset;

    go_to_unit(r, unit);
    reset_counters(r);
    go = hold(r);
    left = PUSH_DW - head_unit(r) * UNIT_DW;
    if (head_unit(r) == 0) /* it ends with the ring, or went to its start */
        left = 0;
    if (left)
        expect_ok(submit_piece(r, left, left >= 128, &offset));
    if (left)
        assert_int_equal(offset + left, PUSH_DW);
    if (before)
        expect_ok(submit_piece(r, before, before >= 128, &offset));
    if (before)
        assert_int_equal(offset, 0);
    r->base->submit_timeout_ns = SHORT_NS;
    expect_fails(submit_piece(r, UNIT_DW, 0, &offset), BELL_E_TIMEOUT,
                 "no room for 64 bytes and");
    r->base->submit_timeout_ns = LONG_NS;
    release(r, go);
    expect_counts(r, 1, (uint64_t)(left >= 128) + (before >= 128));
    expect_ok(submit_piece(r, UNIT_DW, 0, &offset));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
}

/* One word more than is left behind it, and than is left before it. */
static void
overfill_pieces(struct rig *r, uint32_t unit)
{
    struct hcq_signal *go;
    uint32_t step = step_dw(r), left;
    uint64_t offset;

    go_to_unit(r, unit);
    reset_counters(r);
    go = hold(r);
    left = PUSH_DW - head_unit(r) * UNIT_DW;
    if (left < unit * UNIT_DW)
        left = unit * UNIT_DW;
    r->base->submit_timeout_ns = SHORT_NS;
    expect_fails(submit_piece(r, left + step, 1, &offset), BELL_E_TIMEOUT,
                 "no room for");
    r->base->submit_timeout_ns = LONG_NS;
    release(r, go);
    expect_counts(r, 0, 1);
    expect_ok(submit_piece(r, left + step, 1, &offset));
    expect_ok(hcq_queue_wait(r->base, LONG_NS));
    expect_counts(r, 1, 1);
    expect_fails(submit_piece(r, PUSH_DW + step, 1, &offset), BELL_E_INVALID,
                 "larger than the ring, which takes 4096 and");
}

static void
full_pieces(void **state)
{
    static const uint32_t at[] = {0, 1, 2, 11, 30, 41, 52, 55};
    size_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r;

        if (kinds[k].by_launch)
            continue;
        r = open_rig(&kinds[k], RING_BYTES);
        for (i = 0; i < ARRAY_LEN(at); i++) {
            fill_pieces(&r, at[i]);
            overfill_pieces(&r, at[i]);
        }
        close_rig(&r);
    }
}

/* ---- streams as large as the ring -------------------------------------------------------- */

/* Commands of different lengths. */
static void
emit_some(struct rig *r, struct hcq_cs *cs, const uint32_t n[3])
{
    uint32_t i;

    for (i = 0; i < n[0]; i++)
        hcq_cs_write(cs, counter_va(r, COUNTERS - 1) + 8, 1, 64);
    for (i = 0; i < n[1]; i++)
        hcq_cs_timestamp(cs, r->base->timeline);
    for (i = 0; i < n[2]; i++)
        hcq_cs_wait(cs, r->base->timeline, 0);
}

/* Words that a fresh stream takes: a count and these. */
static uint32_t
stream_dw(struct rig *r, const uint32_t n[3])
{
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(r->base, &cs));
    emit_count(r, cs, 0);
    emit_some(r, cs, n);
    hcq_cs_discard(cs);
    return (uint32_t)r->priv->fresh_dw;
}

/* Numbers of each that fill the ring to its last word. */
static bool
find_numbers(struct rig *r, uint32_t n[3])
{
    static const uint32_t one[][3] = {
        {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    uint32_t dw[4], i, left;

    for (i = 0; i < 4; i++)
        dw[i] = stream_dw(r, one[i]) - (i ? dw[0] : 0);
    left = PUSH_DW - dw[0];
    for (n[2] = 0; n[2] * dw[3] <= left; n[2]++) {
        for (n[1] = 0; n[1] * dw[2] + n[2] * dw[3] <= left; n[1]++) {
            n[0] = (left - n[1] * dw[2] - n[2] * dw[3]) / dw[1];
            if (n[0] * dw[1] + n[1] * dw[2] + n[2] * dw[3] == left)
                return true;
        }
    }
    return false;
}

static void
full_streams(void **state)
{
    size_t k;
    uint32_t i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r;
        struct hcq_cs *cs;
        uint32_t n[3];

        if (kinds[k].by_launch)
            continue;
        r = open_rig(&kinds[k], RING_BYTES);
        assert_true(find_numbers(&r, n));
        for (i = 0; i < UNITS; i++) {
            go_to_unit(&r, i);
            reset_counters(&r);
            expect_ok(hcq_queue_begin(r.base, &cs));
            emit_count(&r, cs, 0);
            emit_some(&r, cs, n);
            assert_int_equal(r.priv->fresh_dw, PUSH_DW);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_queue_wait(r.base, LONG_NS));
            expect_counts(&r, 1, 1);
            expect_ok(hcq_queue_begin(r.base, &cs));
            emit_count(&r, cs, 0);
            emit_some(&r, cs, n);
            hcq_cs_timestamp(cs, r.base->timeline);
            expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                         "the stream is larger than the ring");
        }
        close_rig(&r);
    }
}

/* ---- what is read behind the last write ------------------------------------------------ */

/* Nothing lies behind the write that completes a submission; of several dies,
 * which read it one after the other, not even that write lies in what is given
 * back with it. */
static void
ends_with_the_release(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        struct rig r = open_rig(&kinds[k], RING_BYTES);
        const uint32_t *slot, *push = r.queue->push.cpu;
        uint64_t va, n_dw, end;

        expect_ok(submit_release(&r));
        slot = r.queue->channel.ring;
        if (r.queue->channel.kind != AMD_RING_PM4)
            slot += r.queue->channel.kind == AMD_RING_AQL ? 1 : 2;
        va = slot[1] | (uint64_t)slot[2] << 32;
        n_dw = slot[3] & 0xfffff;
        end = va + n_dw * 4;
        assert_int_equal(r.queue->channel.kind == AMD_RING_AQL,
                         va < (uintptr_t)push ||
                             va >= (uintptr_t)push + RING_BYTES);
        assert_true(n_dw <= UNIT_DW);
        expect_ok(hcq_queue_wait(r.base, LONG_NS));
        if (r.queue->channel.kind == AMD_RING_SDMA)
            assert_int_equal(((uint32_t *)(uintptr_t)end)[-1],
                             (uint32_t)r.base->n_submitted);
        close_rig(&r);
    }
}

/* ---- pointers over 2^32 --------------------------------------------------------------- */

#define LARGE_RING_BYTES (16u << 20)
#define LAP_DW           0x2000u /* of one packet that does nothing */

/* The channel's units of a slot, and of a word. */
static uint64_t
units_of(const struct rig *r, uint64_t n_dw)
{
    return r->queue->channel.kind == AMD_RING_SDMA ? n_dw * 4 : n_dw;
}

/* One packet of n_dw words that does nothing. */
static void
put_lap(struct rig *r, uint32_t *at, uint32_t n_dw)
{
    struct amd_push push = {.engine = &r->priv->engine, .at = at};

    put_nothing(r, &push, n_dw);
    if (r->queue->channel.kind == AMD_RING_SDMA) /* else one for each word */
        at[0] = (n_dw - 1) << 16;
}

static void
advance(struct amd_channel *channel, uint64_t n)
{
    while (amd_channel_room(channel) < n)
        hcq_spin(0);
    channel->put += n;
    amd_channel_ring(channel);
}

/* Goes round until the pointers are so many slots before 2^32. */
static void
turn_to_the_edge(struct rig *r, uint32_t n_slots)
{
    struct amd_channel *channel = &r->queue->channel;
    uint64_t half = units_of(r, LARGE_RING_BYTES / 4) / 2, edge = 1ull << 32;
    uint32_t n_left = n_slots * slot_dw(r), i;

    for (i = 0; i < LARGE_RING_BYTES / 4; i += LAP_DW)
        put_lap(r, channel->ring + i, LAP_DW);
    while (channel->put < edge - half)
        advance(channel, half);
    while (amd_channel_room(channel) + 1 < 2 * half)
        hcq_spin(0);
    put_lap(r, channel->ring + LARGE_RING_BYTES / 4 - LAP_DW, LAP_DW - n_left);
    advance(channel, half - units_of(r, n_left));
    r->priv->slot_put = r->priv->slot_tail =
        channel->put / units_of(r, slot_dw(r));
    assert_int_equal(channel->put, edge - units_of(r, n_left));
}

static void
pointers_over_32_bits(void **state)
{
    static const uint32_t which[] = {0, 2, 5};
    size_t k;
    uint32_t i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(which); k++) {
        struct rig r = open_rig(&kinds[which[k]], PAGE_BYTES * 16);
        struct load three = make_load(&r, 3), one = make_fresh(&r, 1);

        replace_ring(&r, LARGE_RING_BYTES);
        turn_to_the_edge(&r, 10);
        for (i = 0; i < 8; i++) {
            reset_counters(&r);
            expect_ok(submit_load(&r, i % 2 ? &one : &three));
            expect_ok(hcq_queue_wait(r.base, LONG_NS));
            expect_counts(&r, 1, 1);
        }
        assert_true(r.queue->channel.put > 1ull << 32);
        assert_int_equal(r.queue->channel.put % (1ull << 32),
                         units_of(&r, 6ull * slot_dw(&r)));
        close_rig(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots),
        cmocka_unit_test(full_slots),
        cmocka_unit_test(full_behind_parts),
        cmocka_unit_test(pieces),
        cmocka_unit_test(full_pieces),
        cmocka_unit_test(full_streams),
        cmocka_unit_test(ends_with_the_release),
        cmocka_unit_test(pointers_over_32_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
