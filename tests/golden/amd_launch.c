/* What the command half of hcq/amd writes for the card, word by word: the
 * streams of docs/hardware/amd-queues.md, "Reference streams", whose words are
 * typed in here, and the rest of the commands.
 *
 * Ours differs from those streams on purpose in this: signals have 64 bits and
 * raise no interrupt; a wait is followed by what makes others' writes visible;
 * engines that can write their caches back do so before they signal; commands
 * of a copy queue are parted by an empty packet; the arguments lie in the
 * test's own memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/chip.h"
#include "hcq/amd/amd_command.h"

#define SIGNAL 0x7f0000c01000ull
#define SRC    0x7f0001000000ull
#define DST    0x7f0002000000ull
#define IDLE   0x7f0000c02010ull

static struct amd_device device;
static bool binds_pm4; /* of the device that `start` makes */
static struct amd_engine engine;
static uint32_t words[1024] __attribute__((aligned(64)));
static uint32_t slots[16 * 8];
static uint64_t data[512] __attribute__((aligned(64)));

static struct amd_push
start(uint32_t version, uint32_t n_xcc, enum amd_ring_kind kind)
{
    memset(&device, 0, sizeof(device));
    device.chip = chip_amd_find(version);
    device.gen = amd_gen_find(version);
    assert_non_null(device.gen);
    device.binds_pm4 = binds_pm4;
    device.topology.n_xcc = n_xcc;
    device.topology.n_cu = 6;
    device.scratch.mem.va = 0x7f0000800000;
    device.scratch.tmpring = 0x00020200;
    device.scratch.xcc_bytes = 0x123000;
    if (device.gen->move) {
        device.move.descriptor_va = 0x7f0000b00000;
        device.move.properties = device.gen->move->properties;
        device.move.base.pub.n_vals = AMD_MOVE_ARGS;
        amd_pm4_prepare(&device, &device.move);
    }
    amd_engine_init(&engine, &device, kind);
    engine.idle_va = IDLE;
    engine.gate_va = 0x7f0000c03000;
    engine.meet_va = 0x7f0000c04000;
    memset(words, 0xa5, sizeof(words));
    memset(slots, 0, sizeof(slots));
    memset(data, 0xa5, sizeof(data));
    return (struct amd_push){
        .engine = &engine,
        .at = words,
        .piece = words,
        .data = (uint8_t *)data,
        .slots = slots,
        .slot_mask = kind == AMD_RING_SDMA ? ARRAY_LEN(slots) - 1 : 7,
    };
}

static void
expect_words(const char *what, const uint32_t *have, size_t n_have,
             const uint32_t *want, size_t n)
{
    size_t i;

    for (i = 0; i < n && i < n_have; i++) {
        if (have[i] != want[i])
            fail_msg("%s: word %zu: %08x, want %08x", what, i, have[i],
                     want[i]);
    }
    assert_int_equal(n_have, n);
}

#define EXPECT(push, ...)                                                      \
    expect_words(device.gen->family, words, (size_t)((push)->at - words),      \
                 (const uint32_t[]){__VA_ARGS__},                              \
                 sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* One command; its measure is what it takes, or `slack` words more. */
static void
put(struct amd_push *push, enum hcq_op op, unsigned flags, uint64_t a,
    uint64_t b, uint64_t c, unsigned slack)
{
    struct hcq_packet packet = {
        .head = {.op = (uint8_t)op, .flags = (uint8_t)flags},
        .word = {a, b, c},
    };
    const uint32_t *from = push->at;

    packet.head.word_dw = (uint32_t)amd_packet_extent(
                              &engine, &packet, amd_in_words(&engine, false))
                              .n_dw;
    amd_push_packet(push, &packet);
    assert_int_equal(push->at - from + slack, packet.head.word_dw);
}

/* ---- compute queues ------------------------------------------------------ */

#define GFX9_HDP                                                               \
    0xc0053c00, 0x00000045, 0x00000e26, 0x00000e27, 0xffffffff, 0xffffffff,    \
        0x00000004
#define GFX9_ACQUIRE                                                           \
    0xc0055800, 0x28c40000, 0xffffffff, 0xffffffff, 0, 0, 0x0000000a
#define GFX9_BEGIN    GFX9_HDP, GFX9_ACQUIRE
#define GFX10_ACQUIRE 0xc0065800, 0, 0xffffffff, 0xffffffff, 0, 0, 0, 0x0000c3f1
#define GFX10_BEGIN   GFX9_HDP, GFX10_ACQUIRE

/* The first die waits for 0 and writes 1, the other waits for 1 and writes
 * 0. */
#define GATE(die, lo)                                                          \
    0xc0002300, 0x0100000c, 0xc0053c00, 0x13, lo, 0x7f00, 0, 0xffffffff, 4,    \
        0xc0033700, 0x00100500, lo, 0x7f00, 1, 0xc0002300, die << 24 | 12,     \
        0xc0053c00, 0x13, lo, 0x7f00, 1, 0xffffffff, 4, 0xc0033700,            \
        0x00100500, lo, 0x7f00, 0

/* HDP flush + full cache acquire */
static void
test_begin(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_PM4);

    (void)state;
    amd_push_begin(&push);
    EXPECT(&push, GFX9_BEGIN);
    assert_true(push.at - words <= AMD_BEGIN_DW);
    push = start(110000, 1, AMD_RING_PM4);
    amd_push_begin(&push);
    EXPECT(&push, GFX10_BEGIN);
    assert_true(push.at - words <= AMD_BEGIN_DW);
    push = start(120001, 1, AMD_RING_PM4);
    amd_push_begin(&push);
    EXPECT(&push, GFX10_BEGIN);
    push = start(110000, 1, AMD_RING_SDMA);
    amd_push_begin(&push);
    EXPECT(&push, 0x00000008, 0, 0x80000000, 0, 0, 0, 0x00000111, 0, 0xc3c00000,
           0, 0);
    push = start(90402, 1, AMD_RING_SDMA);
    amd_push_begin(&push);
    EXPECT(&push, 0x00000008, 0, 0x80000000, 0, 0, 0);
}

/* The reference streams' launch, of a program as amd_program.c makes it. */
static struct amd_program prog;

static const struct hcq_packet *
launch(uint32_t rsrc1, uint32_t rsrc2, uint32_t rsrc3, uint32_t properties)
{
    static uint64_t memory[16];
    struct hcq_exec *exec = (void *)memory;

    prog = (struct amd_program){
        .base.pub.n_vals = 3,
        .entry_va = 0x7f0000100100,
        .descriptor_va = 0x7f0000100000,
        .rsrc1 = rsrc1,
        .rsrc2 = rsrc2,
        .rsrc3 = rsrc3,
        .properties = properties,
        .lds_bytes = 1024,
        .scratch_bytes = 272,
    };
    amd_pm4_prepare(&device, &prog);
    *exec = (struct hcq_exec){
        .head = {.op = HCQ_OP_EXEC, .n_dw = HCQ_EXEC_DW + 6},
        .prog = &prog.base,
        .grid = {64, 2, 1},
        .local = {256, 1, 1},
    };
    exec->args[0] = 0x1111222233334444;
    exec->args[1] = 2;
    exec->args[2] = 3;
    exec->head.word_dw = (uint32_t)prog.base.extent.n_dw;
    return (const void *)exec;
}

#define ARGS_LO ((uint32_t)(uintptr_t)data)
#define ARGS_HI ((uint32_t)((uintptr_t)data >> 32))

static void
test_exec_gfx942(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_PM4);
    const struct hcq_packet *packet = launch(0x00af0040, 0x84, 1, 0x0008);

    (void)state;
    amd_push_packet(&push, packet);
    EXPECT(&push, 0xc0055800, 0x08400000, 0xffffffff, 0xffffffff, 0, 0, 0xa,
           0xc0027600, 0x20c, 0x00001001, 0x7f, 0xc0027600, 0x212, 0x00af0040,
           0x00010084, 0xc0017600, 0x22d, 1, 0xc0017600, 0x218, 0x00020200,
           0xc0027600, 0x210, 0x00008000, 0x7f, 0xc0037600, 0x21b, 0, 0, 0,
           0xc0027600, 0x240, ARGS_LO, ARGS_HI, 0xc0017600, 0x215, 0,
           0xc0087600, 0x204, 0, 0, 0, 0x100, 1, 1, 0, 0, 0xc0031500, 0x40, 2,
           1, 5, 0xc0004600, 0x407);
    assert_true(push.at - words <= prog.launch.n_dw);
    assert_int_equal(data[0], 0x1111222233334444);
    assert_int_equal(data[2], 3);
    assert_int_equal(data[3], 0xa5a5a5a5a5a5a5a5);
    assert_ptr_equal(push.data, data + 8);
}

static void
test_exec_gfx11(void **state)
{
    struct amd_push push = start(110000, 1, AMD_RING_PM4);

    (void)state;
    amd_push_packet(&push, launch(0x60af0080, 0x9e, 0, 0x0408));
    EXPECT(&push, 0xc0065800, 0, 0xffffffff, 0xffffffff, 0, 0, 0, 0x3f0,
           0xc0027600, 0x20c, 0x00001001, 0x7f, 0xc0027600, 0x212, 0x60bf0080,
           0x0001009e, 0xc0017600, 0x228, 0, 0xc0017600, 0x218, 0x00020200,
           0xc0027600, 0x210, 0x00008000, 0x7f, 0xc0037600, 0x21b, 0, 0, 0,
           0xc0027600, 0x240, ARGS_LO, ARGS_HI, 0xc0017600, 0x215, 0,
           0xc0087600, 0x204, 0, 0, 0, 0x100, 1, 1, 0, 0, 0xc0031500, 0x40, 2,
           1, 0x8005, 0xc0004600, 0x407);
    push = start(120001, 1, AMD_RING_PM4);
    amd_push_packet(&push, launch(0x600f0040, 0x84, 0, 0x0408));
    EXPECT(&push, 0xc0065800, 0, 0xffffffff, 0xffffffff, 0, 0, 0, 0x3f0,
           0xc0027600, 0x20c, 0x00001001, 0x7f, 0xc0027600, 0x212, 0x600f0040,
           0x00010084, 0xc0017600, 0x228, 0, 0xc0017600, 0x218, 0x00020200,
           0xc0027600, 0x210, 0x00008000, 0x7f, 0xc0037600, 0x21b, 0, 0, 0,
           0xc0027600, 0x240, ARGS_LO, ARGS_HI, 0xc0017600, 0x215, 0,
           0xc0087600, 0x204, 0, 0, 0, 0x100, 1, 1, 0, 0, 0xc0031500, 0x40, 2,
           1, 0x8005, 0xc0004600, 0x407);
}

/* Scratch through a descriptor in the user registers. */
static void
test_exec_srd(void **state)
{
    struct amd_push push = start(90010, 1, AMD_RING_PM4);
    const struct hcq_packet *packet = launch(0x00af0081, 0x91, 2, 0x0029);

    (void)state;
    amd_push_packet(&push, packet);
    EXPECT(&push, 0xc0055800, 0x08400000, 0xffffffff, 0xffffffff, 0, 0, 0xa,
           0xc0027600, 0x20c, 0x00001001, 0x7f, 0xc0027600, 0x212, 0x00af0081,
           0x00010091, 0xc0017600, 0x22d, 2, 0xc0017600, 0x218, 0x00020200,
           0xc0037600, 0x21b, 0, 0, 0, 0xc0087600, 0x240, 0x00800000,
           0x80007f00, 0x00123000, 0x00ea4fac, ARGS_LO, ARGS_HI, 0x00800000,
           0x7f00, 0xc0017600, 0x215, 0, 0xc0087600, 0x204, 0, 0, 0, 0x100, 1,
           1, 0, 0, 0xc0031500, 0x40, 2, 1, 5, 0xc0004600, 0x407);
    assert_true(push.at - words <= packet->head.word_dw);
    push = start(100300, 1, AMD_RING_PM4);
    amd_push_packet(&push, launch(0x60af0080, 0x91, 0, 0x0429));
    expect_words("SRD", words + 28, 10,
                 (const uint32_t[]){0x240, 0x00800000, 0x80007f00, 0x00123000,
                                    0x21c14fac, ARGS_LO, ARGS_HI, 0x00800000,
                                    0x7f00, 0xc0017600},
                 10);
}

/* What a compiler of the fifth ABI version finds behind the arguments. */
static void
test_hidden(void **state)
{
    struct amd_push push = start(110000, 1, AMD_RING_PM4);
    const struct hcq_packet *packet = launch(0, 0, 0, 0x0408);
    const uint8_t *hidden = (const uint8_t *)(data + 3);
    static const uint16_t sizes[] = {256, 1, 1, 0, 0, 0};
    static const uint32_t groups[] = {64, 2, 1};
    uint16_t n_dims;

    (void)state;
    prog.hidden_bytes = AMD_HIDDEN_BYTES;
    amd_pm4_prepare(&device, &prog);
    assert_int_equal(prog.base.extent.n_units, 5);
    amd_push_packet(&push, packet);
    assert_ptr_equal(push.data, data + 40);
    assert_memory_equal(hidden, groups, sizeof(groups));
    assert_memory_equal(hidden + 12, sizes, sizeof(sizes));
    memcpy(&n_dims, hidden + 64, sizeof(n_dims));
    assert_int_equal(n_dims, 3);
    assert_int_equal(data[35], 0xa5a5a5a5a5a5a5a5);
}

static void
test_timestamp(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_PM4);

    (void)state;
    put(&push, HCQ_OP_TIMESTAMP, 0, SIGNAL, 0, 0, 0);
    EXPECT(&push, 0xc0064900, 0x514, 0x02000000, 0, 0, 0, 0, 0, 0xc0064900,
           0x514, 0x60000000, 0x00c01008, 0x7f00, 0, 0, 0, GFX9_ACQUIRE);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_TIMESTAMP, 0, SIGNAL, 0, 0, 0);
    EXPECT(&push, 0xc0064900, 0x514, 0x02000000, 0, 0, 0, 0, 0, 0xc0064900,
           0x514, 0x60000000, 0x00c01008, 0x7f00, 0, 0, 0, GFX10_ACQUIRE);
    push = start(120001, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_TIMESTAMP, 0, SIGNAL, 0, 0, 0);
    assert_int_equal(push.at - words, 24);
    /* 20 words for all dies but the first to pass over */
    push = start(90402, 8, AMD_RING_AQL);
    put(&push, HCQ_OP_TIMESTAMP, 0, SIGNAL, 0, 0, 0);
    EXPECT(&push, 0xc0002300, 0x01000010, 0xc0064900, 0x514, 0x02000000, 0, 0,
           0, 0, 0, 0xc0064900, 0x514, 0x60000000, 0x00c01008, 0x7f00, 0, 0, 0,
           GFX9_ACQUIRE);
}

static void
test_signal(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_PM4);

    (void)state;
    put(&push, HCQ_OP_SIGNAL, 0, SIGNAL, 7, 0, 0);
    EXPECT(&push, 0xc0064900, 0x00088514, 0x40000000, 0x00c01000, 0x7f00, 7, 0,
           0);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_SIGNAL, 0, SIGNAL, 0x500000007, 0, 0);
    EXPECT(&push, 0xc0064900, 0x0070f514, 0x40000000, 0x00c01000, 0x7f00, 7, 5,
           0);
    push = start(120001, 1, AMD_RING_PM4);
    amd_push_finish(&push, SIGNAL, 7);
    EXPECT(&push, 0xc0064900, 0x0070f514, 0x40000000, 0x00c01000, 0x7f00, 7, 0,
           0);
    push = start(90402, 8, AMD_RING_AQL);
    put(&push, HCQ_OP_SIGNAL, 0, SIGNAL, 7, 0, 0);
    EXPECT(&push, 0xc0002300, 0x01000008, 0xc0064900, 0x00088514, 0x40000000,
           0x00c01000, 0x7f00, 7, 0, 0);
}

static void
test_waits(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_PM4);

    (void)state;
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 7, 0, 7);
    EXPECT(&push, 0xc0053c00, 0x15, 0x00c01000, 0x7f00, 7, 0xffffffff, 4,
           GFX9_BEGIN);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 0x300000007, 0, 0);
    EXPECT(&push, 0xc0053c00, 0x15, 0x00c01004, 0x7f00, 3, 0xffffffff, 4,
           0xc0053c00, 0x15, 0x00c01000, 0x7f00, 7, 0xffffffff, 4, GFX10_BEGIN);
    /* Each die waits for a signal; one polls, and lets each other one on. */
    push = start(90402, 8, AMD_RING_AQL);
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 7, 0, 7);
    EXPECT(&push, 0xc0053c00, 0x15, 0x00c01000, 0x7f00, 7, 0xffffffff, 4,
           GFX9_BEGIN);
    push = start(90402, 2, AMD_RING_AQL);
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 0x1ff000000, 0, 0);
    EXPECT(&push, 0xc0002300, 0x0100000e, 0xc0053c00, 0x15, 0x00c01004, 0x7f00,
           1, 0xffffffff, 4, 0xc0053c00, 0x15, 0x00c01000, 0x7f00, 0xff000000,
           0xffffffff, 4, GATE(2, 0x00c03004), GFX9_BEGIN);
    push = start(90402, 3, AMD_RING_AQL);
    put(&push, HCQ_OP_POLL, 0, SIGNAL, 0xff, 0x12, 0);
    EXPECT(&push, 0xc0002300, 0x01000007, 0xc0053c00, 0x13, 0x00c01000, 0x7f00,
           0x12, 0xff, 4, GATE(2, 0x00c03004), GATE(4, 0x00c03008), GFX9_BEGIN);
    /* Room for both halves where the value may be patched. */
    push = start(90402, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_WAIT, HCQ_HEAD_FIXED, SIGNAL, 7, 0, 0);
    assert_int_equal(push.at - words, 28);
    assert_int_equal(words[21], 0xc0051000);
    push = start(90402, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_WAIT, HCQ_HEAD_FIXED, SIGNAL, 7ull << 32, 0, 0);
    assert_int_equal(push.at - words, 28);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_BARRIER, 0, 0, 0, 0, 0);
    EXPECT(&push, 0xc0004600, 0x407, GFX10_BEGIN);
}

static void
test_writes(void **state)
{
    struct amd_push push = start(110000, 1, AMD_RING_PM4);

    (void)state;
    put(&push, HCQ_OP_WRITE32, 0, DST, 9, 0, 1);
    EXPECT(&push, 0xc0033700, 0x00100500, 0x02000000, 0x7f00, 9);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_WRITE64, 0, DST, 0x800000009, 0, 0);
    EXPECT(&push, 0xc0043700, 0x00100500, 0x02000000, 0x7f00, 9, 8);
    push = start(90402, 8, AMD_RING_AQL);
    put(&push, HCQ_OP_WRITE64, 0, DST, 0x800000009, 0, 0);
    EXPECT(&push, GFX9_ACQUIRE, 0xc0002300, 0x01000006, 0xc0043700, 0x00100500,
           0x02000000, 0x7f00, 9, 8, GFX9_ACQUIRE);
}

static void
test_transfers(void **state)
{
    struct amd_push push = start(110000, 1, AMD_RING_PM4);

    (void)state;
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x1000, 0);
    EXPECT(&push, 0xc0055000, 0xe0300000, 0x01000000, 0x7f00, 0x02000000,
           0x7f00, 0x40001000);
    push = start(100300, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, (1 << 25) + 5, 0);
    EXPECT(&push, 0xc0055000, 0xe0300000, 0x01000000, 0x7f00, 0x02000000,
           0x7f00, 0x42000000, 0xc0055000, 0xe0300000, 0x03000000, 0x7f00,
           0x04000000, 0x7f00, 0x40000005);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_FILL, 0, DST, 0xdeadbeef, 7, 0);
    EXPECT(&push, 0xc0055000, 0xc0300000, 0xdeadbeef, 0, 0x02000000, 0x7f00,
           0x40000004, 0xc0055000, 0xe0300000, ARGS_LO, ARGS_HI, 0x02000004,
           0x7f00, 0x40000003);
    assert_int_equal((uint32_t)data[0], 0xdeadbeef);
    /* As many packets as a patch may need: what is left does nothing. */
    push = start(100300, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_COPY, HCQ_HEAD_FIXED, DST, SRC, 0, 0);
    assert_int_equal(push.at - words, 7 * AMD_FIXED_COPIES);
    assert_int_equal(words[0], 0xc0001000 | (7 * AMD_FIXED_COPIES - 2) << 16);
}

/* Arguments of the kernel that copies. */
static void
expect_args(const struct amd_push *push, uint64_t src, uint64_t pieces,
            uint64_t n, uint64_t items, bool is_fill)
{
    assert_int_equal(data[0], DST);
    assert_int_equal(data[1], src);
    assert_int_equal(data[2], pieces);
    assert_int_equal(data[3], n);
    assert_int_equal(data[4], items);
    assert_int_equal((uint32_t)data[5], is_fill);
    assert_ptr_equal(push->data, &data[8]);
}

/* What DMA_DATA does not take is a launch: on gfx11 more than 32 KiB, on gfx942
 * all. src: docs/hardware/amd-queues.md, "PM4" */
static void
test_moves(void **state)
{
    struct amd_push push = start(110000, 1, AMD_RING_PM4);
    struct hcq_packet packet = {.head = {.op = HCQ_OP_COPY}};
    const uint32_t *end;

    (void)state;
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x7fe0, 0);
    EXPECT(&push, 0xc0055000, 0xe0300000, 0x01000000, 0x7f00, 0x02000000,
           0x7f00, 0x40007fe0);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x7fe3, 0);
    end = push.at - 7; /* DISPATCH_DIRECT, EVENT_WRITE */
    expect_words(
        "launch", end, 7,
        (const uint32_t[]){0xc0031500, 8, 1, 1, 0x8005, 0xc0004600, 0x407}, 7);
    expect_args(&push, SRC, 0x7fe0, 0x7fe3, 8 * 256, false);
    push = start(110000, 1, AMD_RING_PM4); /* by bytes, and round */
    put(&push, HCQ_OP_COPY, 0, DST, SRC + 2, 0x7fe3, 0);
    expect_args(&push, SRC + 2, 0, 0x7fe3, 6 * 8 * 256, false);
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_FILL, 0, DST, 0xdeadbeef, 0x100000001, 0);
    expect_args(&push, 0, 0x100000000, 0x100000001,
                0xdeadbeefull << 32 | 6 * 8 * 256, true);
    /* either, where a patch decides */
    push = start(110000, 1, AMD_RING_PM4);
    put(&push, HCQ_OP_COPY, HCQ_HEAD_FIXED, DST, SRC, 16, 0);
    assert_int_equal(push.at - words, device.move.launch.n_dw);
    assert_int_equal(words[0], 0xc0055000);
    assert_int_equal(words[7] & 0xff00ffff, 0xc0001000);

    push = start(90402, 8, AMD_RING_AQL);
    packet.word[2] = 64;
    assert_int_equal(amd_packet_extent(&engine, (void *)&packet, false).n_slots,
                     2);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 40, 0);
    assert_int_equal(push.slot, 1);
    expect_words("dispatch", slots, 16,
                 (const uint32_t[]){0x00031502, 0x00010100, 1, 256, 1, 1, 0, 0,
                                    0x00b00000, 0x7f00, ARGS_LO, ARGS_HI, 0, 0,
                                    0, 0},
                 16);
    expect_args(&push, SRC, 32, 40, 256, false);
}

/* More than one NOP can pass over. */
static void
test_nothing(void **state)
{
    static uint32_t many[0x9000];
    struct amd_push push = start(110000, 1, AMD_RING_PM4);
    uint32_t n, at;

    (void)state;
    for (n = 0x3ffe; n <= 0x8003; n += n < 0x4004 ? 1 : 0xffd) {
        push.at = many;
        amd_pm4_nothing(&push, n);
        assert_int_equal(push.at - many, n);
        for (at = 0; at < n; at += (many[at] >> 16 & 0x3fff) + 2)
            assert_int_equal(many[at] & 0xc000ffff, 0xc0001000);
        assert_int_equal(at, n);
    }
}

/* ---- copy queues --------------------------------------------------------- */

static void
test_sdma(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_SDMA);

    (void)state;
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 6, 0, 6);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x1000, 0);
    put(&push, HCQ_OP_TIMESTAMP, 0, SIGNAL, 0, 0, 0);
    amd_push_finish(&push, SIGNAL, 7);
    /* The fences are the last. */
    EXPECT(&push, 0xd0000008, 0x00c01000, 0x7f00, 6, 0xffffffff, 0x0fff0004,
           0x00000008, 0, 0x80000000, 0, 0, 0, 0, 0x00000001, 0x00000fff, 0,
           0x01000000, 0x7f00, 0x02000000, 0x7f00, 0x0000020d, 0x00c01008,
           0x7f00, 0x00000005, 0x00c01004, 0x7f00, 0, 0x00000005, 0x00c01000,
           0x7f00, 7);
    push = start(110000, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 6, 0, 6);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x1000, 0);
    put(&push, HCQ_OP_TIMESTAMP, 0, SIGNAL, 0, 0, 0);
    put(&push, HCQ_OP_SIGNAL, 0, SIGNAL, 7, 0, 0);
    EXPECT(&push, 0xd0000008, 0x00c01000, 0x7f00, 6, 0xffffffff, 0x0fff0004,
           0x00000008, 0, 0x80000000, 0, 0, 0, 0x00000111, 0, 0xc3c00000, 0, 0,
           0, 0x00000001, 0x00000fff, 0, 0x01000000, 0x7f00, 0x02000000, 0x7f00,
           0x0000020d, 0x00c01008, 0x7f00, 0x00000111, 0, 0x80400000, 0, 0,
           0x00030005, 0x00c01000, 0x7f00, 7, 0x00030005, 0x00c01004, 0x7f00, 0,
           0, 0, 0, 0);
    /* gfx101x: the window (HDP) is not flushed by copy engines */
    push = start(100100, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_WAIT, 0, SIGNAL, 6, 0, 6);
    EXPECT(&push, 0xd0000008, 0x00c01000, 0x7f00, 6, 0xffffffff, 0x0fff0004,
           0x00000111, 0, 0xc3c00000, 0, 0);
    /* Before 2^32: whoever waits for it is the last to be let on. */
    push = start(90402, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_SIGNAL, 0, SIGNAL, 0x5ffffffff, 0, 0);
    EXPECT(&push, 5, 0x00c01000, 0x7f00, 0, 5, 0x00c01004, 0x7f00, 5, 5,
           0x00c01000, 0x7f00, 0xffffffff);
    push = start(120001, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x1000, 0);
    EXPECT(&push, 0, 0x00000001, 0x00000fff, 0, 0x01000000, 0x7f00, 0x02000000,
           0x7f00);
}

static void
test_sdma_limits(void **state)
{
    struct amd_push push = start(90402, 1, AMD_RING_SDMA);
    uint32_t max;

    (void)state;
    max = (uint32_t)engine.max_bytes;
    assert_true(max <= 0x3fffe0 && max % 4096 == 0);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, max + 1, 0);
    EXPECT(&push, 0, 1, max - 1, 0, 0x01000000, 0x7f00, 0x02000000, 0x7f00, 1,
           0, 0, 0x01000000 + max, 0x7f00, 0x02000000 + max, 0x7f00);
    push = start(110000, 1, AMD_RING_SDMA);
    assert_int_equal(engine.max_bytes, max);
    put(&push, HCQ_OP_COPY, 0, DST, SRC, max + 1, 0);
    EXPECT(&push, 0, 1, max - 1, 0, 0x01000000, 0x7f00, 0x02000000, 0x7f00, 1,
           0, 0, 0x01000000 + max, 0x7f00, 0x02000000 + max, 0x7f00);
    push = start(110000, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_FILL, 0, DST, 0xdeadbeef, 0x1003, 0);
    EXPECT(&push, 0, 0x8000000b, 0x02000000, 0x7f00, 0xdeadbeef, 0xfff, 1, 2, 0,
           ARGS_LO, ARGS_HI, 0x02001000, 0x7f00);
    push = start(110000, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_WRITE64, 0, DST, 0x800000009, 0, 0);
    EXPECT(&push, 0, 2, 0x02000000, 0x7f00, 1, 9, 8);
    push = start(90402, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_POLL, 0, SIGNAL, 0xff, 0x12, 0);
    EXPECT(&push, 0xb0000008, 0x00c01000, 0x7f00, 0x12, 0xff, 0x0fff0004, 8, 0,
           0x80000000, 0, 0, 0);
    push = start(90402, 1, AMD_RING_SDMA);
    put(&push, HCQ_OP_BARRIER, 0, 0, 0, 0, 0);
    EXPECT(&push, 5, 0x00c02010, 0x7f00, 1, 0xb0000008, 0x00c02010, 0x7f00, 1,
           0xffffffff, 0x0fff0004, 5, 0x00c02010, 0x7f00, 0, 0xb0000008,
           0x00c02010, 0x7f00, 0, 0xffffffff, 0x0fff0004, 8, 0, 0x80000000, 0,
           0, 0);
}

/* ---- slots --------------------------------------------------------------- */

#define WORDS_LO ((uint32_t)(uintptr_t)words)
#define WORDS_HI ((uint32_t)((uintptr_t)words >> 32))

static void
test_slots(void **state)
{
    struct amd_push push = start(110000, 1, AMD_RING_PM4);

    (void)state;
    push.slot = 9; /* the ring has 8 */
    amd_push_begin(&push);
    amd_push_end(&push);
    amd_push_end(&push); /* nothing more */
    assert_int_equal(push.slot, 10);
    expect_words(
        "PM4", slots + 4, 4,
        (const uint32_t[]){0xc0023f00, WORDS_LO, WORDS_HI, 15 | 1u << 23}, 4);
}

/* The words themselves; a packet that would go over the ring's end begins anew.
 * src: docs/hardware/amd-kernel.md, "Doorbells" */
static void
test_sdma_ring(void **state)
{
    static const uint32_t copy[] = {1, 0xff, 0, 1, 0, 2, 0};
    static const uint32_t stream[] = {1, 0xff, 0, 3, 0, 4, 0, 5, 6,
                                      0, 7,    1, 7, 0, 8, 0, 9, 0};
    static const uint32_t wake[] = {5, 1, 2, 3, 6, 7};
    const uint32_t n = ARRAY_LEN(slots);
    struct amd_push push = start(110000, 1, AMD_RING_SDMA);
    uint32_t left;

    (void)state;
    push.slot_mask = n - 1;
    push.slot = 2 * n - 9;
    memset(slots, 0xa5, sizeof(slots));
    amd_push_begin(&push); /* of 6 words and of 5 */
    amd_push_end(&push);
    amd_push_end(&push); /* nothing more */
    assert_int_equal(push.slot, 2 * n + 5);
    assert_int_equal(slots[n - 10], 0xa5a5a5a5);
    expect_words("before the end", slots + n - 9, 9,
                 (const uint32_t[]){8, 0, 0x80000000, 0, 0, 0, 0, 0, 0}, 9);
    expect_words("from the start", slots, 6,
                 (const uint32_t[]){0x111, 0, 0xc3c00000, 0, 0, 0xa5a5a5a5}, 6);

    push.slot = n - 7; /* to the last word */
    amd_push_slots(&push, copy, 7);
    assert_int_equal(push.slot, n);
    expect_words("end", slots + n - 7, 7, copy, 7);
    push.slot = n - 10;
    amd_push_slots(&push, stream, ARRAY_LEN(stream));
    assert_int_equal(push.slot, n + 11);
    expect_words("stream", slots + n - 10, 7, stream, 7);
    expect_words("tail", slots + n - 3, 3, (const uint32_t[]){0, 0, 0}, 3);
    expect_words("rest", slots, 11, stream + 7, 11);
    push.slots = NULL; /* a stream's own stay where they are */
    put(&push, HCQ_OP_COPY, 0, DST, SRC, 0x1000, 0);
    amd_push_end(&push);
    assert_int_equal(push.slot, n + 11);
    push.slots = slots;
    for (left = 1; left < 6; left++) { /* what wakes: a fence and a trap */
        const uint32_t n_first = left < 4 ? 0 : 4;

        push.slot = n - left;
        amd_push_slots(&push, wake, 6);
        assert_int_equal(push.slot, n + 6 - n_first);
        expect_words("fence", slots + n - left, n_first, wake, n_first);
        expect_words("left", slots + n - left + n_first, left - n_first,
                     (const uint32_t[]){0, 0, 0, 0}, left - n_first);
        expect_words("trap", slots, 6 - n_first, wake + n_first, 6 - n_first);
    }
}

/* A launch between two buffers. src: docs/hardware/amd-queues.md, "AQL" */
static void
test_aql(void **state)
{
    struct amd_push push = start(90402, 8, AMD_RING_AQL);
    const struct hcq_packet *packet = launch(0x00af0040, 0x84, 1, 0x0008);

    (void)state;
    assert_int_equal(prog.base.extent.n_slots, 2);
    amd_push_begin(&push);
    amd_push_packet(&push, packet);
    amd_push_finish(&push, SIGNAL, 7);
    assert_int_equal(push.slot, 3);
    expect_words("buffer", slots, 16,
                 (const uint32_t[]){0x00011500, 0xc0023f00, WORDS_LO, WORDS_HI,
                                    14 | 1u << 23, 10, 0, 0, 0, 0, 0, 0, 0, 0,
                                    0, 0},
                 16);
    expect_words("launch", slots + 16, 16,
                 (const uint32_t[]){0x00031502, 0x00010100, 1, 64 * 256, 2, 1,
                                    272, 1024, 0x00100000, 0x7f00, ARGS_LO,
                                    ARGS_HI, 0, 0, 0, 0},
                 16);
    expect_words("buffer", slots + 32, 6,
                 (const uint32_t[]){0x00011500, 0xc0023f00, WORDS_LO + 56,
                                    WORDS_HI, 10 | 1u << 23, 10},
                 6);
    /* Two launches with nothing between them. */
    push = start(90402, 8, AMD_RING_AQL);
    amd_push_packet(&push, packet);
    amd_push_packet(&push, packet);
    assert_int_equal(push.slot, 2);
    assert_ptr_equal(push.at, words);
}

/* All dies but one wait until the last has come. */
#define MEET(lo, mask)                                                         \
    0xc0071e00, 0x0f, lo, 0x7f00, 1, 0, 0, 0, 0x10, 0xc0053c00, 0x13, lo,      \
        0x7f00, 0, mask, 0x80
#define MEET_A 0x00c04000
#define MEET_B 0x00c04100

/* Launches of bound streams as words of several dies.
 * src: docs/hardware/amd-queues.md, "Several dies"; what amd_pm4.c names */
static void
test_bound(void **state)
{
    const struct hcq_packet write = {.head = {.op = HCQ_OP_WRITE32}};
    const struct hcq_packet signal = {.head = {.op = HCQ_OP_SIGNAL}};
    const struct hcq_packet *packet;
    struct amd_push push;

    (void)state;
    binds_pm4 = true;
    push = start(90402, 4, AMD_RING_AQL);
    push.in_words = true;
    amd_pm4_open(&push);
    EXPECT(&push, 0xc0017600, 0x227, 1, 0xc0002300, 0x01000003, 0xc0017600,
           0x225, 0, 0xc0002300, 0x02000003, 0xc0017600, 0x225, 1, 0xc0002300,
           0x04000003, 0xc0017600, 0x225, 2, 0xc0002300, 0x08000003, 0xc0017600,
           0x225, 3, MEET(MEET_A, 3));
    assert_int_equal(push.at - words, amd_pm4_open_dw(&engine));
    push.at = words;
    amd_pm4_meet(&push, &signal);
    assert_ptr_equal(push.at, words);
    amd_pm4_meet(&push, &write);
    EXPECT(&push, MEET(MEET_B, 3));
    push.at = words;
    amd_pm4_close(&push, &write); /* they have met behind it */
    assert_ptr_equal(push.at, words);
    amd_pm4_close(&push, &signal);
    EXPECT(&push, MEET(MEET_A, 3), MEET(MEET_B, 3));

    push = start(90402, 2, AMD_RING_AQL);
    packet = launch(0x00af0040, 0x85, 1, 0x0008);
    assert_int_equal(prog.base.extent.n_slots, 2);
    assert_int_equal(prog.base.bound.n_slots, 0);
    assert_int_equal(prog.base.bound.n_dw, prog.launch.n_dw);
    push.in_words = true;
    amd_push_packet(&push, packet);
    EXPECT(&push, 0xc0055800, 0x08400000, 0xffffffff, 0xffffffff, 0, 0, 0xa,
           0xc0027600, 0x20c, 0x00001001, 0x7f, 0xc0027600, 0x212, 0x00af0040,
           0x00010085, 0xc0017600, 0x22d, 1, 0xc0017600, 0x218, 0x00020200,
           0xc0002300, 0x01000004, 0xc0027600, 0x210, 0x00008000, 0x7f,
           0xc0002300, 0x02000004, 0xc0027600, 0x210, 0x00009230, 0x7f,
           0xc0037600, 0x21b, 0, 0, 0, 0xc0027600, 0x240, ARGS_LO, ARGS_HI,
           0xc0017600, 0x215, 0, 0xc0087600, 0x204, 0, 0, 0, 0x100, 1, 1, 0, 0,
           0xc0031500, 0x40, 2, 1, 5, 0xc0004600, 0x407, 0xc0055800, 0x08c40000,
           0xffffffff, 0xffffffff, 0, 0, 0xa);
    assert_int_equal(push.at - words, prog.launch.n_dw);
    assert_int_equal(push.slot, 0);

    /* One die alone has nobody to meet. */
    push = start(90402, 1, AMD_RING_AQL);
    packet = launch(0x00af0040, 0x84, 1, 0x0008);
    push.in_words = true;
    amd_pm4_open(&push);
    amd_pm4_meet(&push, packet);
    amd_pm4_close(&push, packet);
    assert_ptr_equal(push.at, words);
    amd_push_packet(&push, packet);
    assert_int_equal(push.at - words, 54);
    binds_pm4 = false;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begin),      cmocka_unit_test(test_exec_gfx942),
        cmocka_unit_test(test_exec_gfx11), cmocka_unit_test(test_exec_srd),
        cmocka_unit_test(test_hidden),     cmocka_unit_test(test_timestamp),
        cmocka_unit_test(test_signal),     cmocka_unit_test(test_waits),
        cmocka_unit_test(test_writes),     cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_moves),      cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_sdma),       cmocka_unit_test(test_sdma_limits),
        cmocka_unit_test(test_slots),      cmocka_unit_test(test_sdma_ring),
        cmocka_unit_test(test_aql),        cmocka_unit_test(test_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
