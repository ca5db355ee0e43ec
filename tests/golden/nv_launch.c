/* What the command half of hcq/nv writes for the card, word by word: whole
 * launches with the inputs of docs/hardware/nvidia-queues.md,
 * "Test vectors", whose words are typed in here, and the methods of every
 * command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_qmd.h"
#include "hcq/nv/regs/nv_qmd.h"

#define PROGRAM_VA 0x1234567800ull
#define BANK_VA    0xf87654000ull

static const uint32_t grid[3] = {132, 2, 3}, local[3] = {256, 1, 1};

struct word {
    unsigned dw;
    uint32_t value;
};

static void
expect_sparse(const char *what, const void *got, unsigned n_dw,
              const struct word *want, unsigned n)
{
    uint32_t all[1024] = {0}, have;
    unsigned i;

    for (i = 0; i < n; i++)
        all[want[i].dw] = want[i].value;
    for (i = 0; i < n_dw; i++) {
        memcpy(&have, (const uint8_t *)got + i * 4, 4);
        if (have != all[i])
            fail_msg("%s: word %u: %08x, want %08x", what, i, have, all[i]);
    }
}

/* A program as nv_program.c would make it of section 15's inputs. */
static void
make_program(struct nv_program *prog, uint32_t major, uint32_t bank_bytes,
             uint32_t max_kib, uint32_t sass_version)
{
    static uint32_t qmd[NV_QMD_LAUNCH_DW], bank[1024];
    static const struct nv_chip chip = {
        .n_sm = 132,
        .shared_window = 0x729400000000,
        .local_window = 0x729300000000,
    };
    static const uint32_t numbers[] = {0xc6c0, 0xcbc0, 0xcdc0};
    struct nv_qmd_desc desc = {
        .program_va = PROGRAM_VA,
        .n_regs = 32,
        .n_barriers = 1,
        .shared_bytes = 0x800,
        .local_bytes = 0x240,
        .sass_version = sass_version,
        .min_smem_kib = nv_smem_kib(0x800, max_kib),
        .target_smem_kib = nv_smem_kib(0x800, max_kib),
        .max_smem_kib = max_kib,
        .banks[0].size_bytes = bank_bytes,
    };

    memset(prog, 0, sizeof(*prog));
    prog->launch =
        nv_class_best(NV_CLASS_COMPUTE, &numbers[major - 3], 1)->launch;
    desc.invalidate_textures = desc.invalidate_data =
        prog->launch->has_textures;
    prog->qmd = qmd;
    prog->bank0 = bank;
    prog->param_offset = prog->launch->bank_bytes;
    prog->bank0_bytes = bank_bytes;
    assert_int_equal(nv_qmd_template(prog->launch, &desc, qmd), BELL_OK);
    nv_bank0_template(prog->launch, &chip, 0x1000, 0x480, bank);
}

/* The launch at an address that puts bank 0 where section 15 has it. */
static uint8_t *
launch(const struct nv_program *prog, uint32_t n_args)
{
    static uint64_t out[512];
    static const uint64_t args[] = {0x1111222233334444, 0x5555666677778888,
                                    0x9999aaaabbbbcccc, 0xddddeeeeffff0000};

    memset(out, 0xa5, sizeof(out));
    nv_launch_write(prog, grid, local, args, n_args,
                    BANK_VA - nv_launch_bank0(prog), (uint8_t *)out,
                    &(struct nv_after){0});
    return (uint8_t *)out;
}

static void
test_hopper(void **state)
{
    static const struct word want[] = {
        {0, 0x01000000},  {13, 0x0000000b}, {16, 0x90000000}, {17, 0x01000240},
        {18, 0x3c080040}, {19, 0x00009e89}, {32, 0x00000084}, {33, 0x00000002},
        {34, 0x00000003}, {35, 0x00010000}, {36, 0x00010100}, {37, 0x08200001},
        {38, 0x34567800}, {39, 0x00000012}, {48, 0x3e1d9500}, {49, 0x01180000},
    };
    /* The map of a launcher for sm_90. src: docs/hardware/nvidia-code.md,
     * "Constant bank 0" */
    static const struct word bank[] = {
        {0, 256},
        {1, 1},
        {2, 1},
        {3, 132},
        {4, 2},
        {5, 3},
        {7, 0x7294},
        {9, 0x7293},
        {10, 0xfffdc0},
        {11, 0x1000},
        {0x10c / 4, 132},
        {0x114 / 4, 0x480},
        {0x198 / 4, 0x87654210},
        {0x19c / 4, 0xf},
        {0x210 / 4, 0x33334444},
        {0x214 / 4, 0x11112222},
        {0x218 / 4, 0x77778888},
        {0x21c / 4, 0x55556666},
        {0x220 / 4, 0xbbbbcccc},
        {0x224 / 4, 0x9999aaaa},
        {0x228 / 4, 0xffff0000},
        {0x22c / 4, 0xddddeeee},
    };
    struct nv_program prog;
    const uint8_t *out;

    (void)state;
    make_program(&prog, 4, 0x230, 228, 0x90);
    out = launch(&prog, 4);
    expect_sparse("QMD v4", out, 96, want, ARRAY_LEN(want));
    assert_int_equal(nv_launch_bank0(&prog), 512);
    expect_sparse("bank 0", out + 512, 0x230 / 4, bank, ARRAY_LEN(bank));
    assert_int_equal(out[512 + 0x230], 0xa5); /* and no more */
    nv_launch_measure(&prog);
    assert_int_equal(prog.data_bytes, 512 + 768);
}

static void
test_ampere(void **state)
{
    static const struct word want[] = {
        {4, 0x0000007f},  {5, 0x3c000000},  {11, 0x04010000}, {12, 0x00000084},
        {13, 0x00000002}, {14, 0x00000003}, {17, 0x54240800}, {18, 0x01000030},
        {19, 0x00010001}, {20, 0x00122001}, {23, 0x08000000}, {32, 0x87654000},
        {33, 0x00c4000f}, {48, 0x34567800}, {49, 0x00000012}, {50, 0x00000240},
        {51, 0x80000000},
    };
    static const struct word bank[] = {
        {0, 256},
        {1, 1},
        {2, 1},
        {3, 132},
        {4, 2},
        {5, 3},
        {7, 0x7294},
        {9, 0x7293},
        {10, 0xfffdc0},
        {11, 0x1000},
        {0x10c / 4, 132},
        {0x114 / 4, 0x480},
        {0x160 / 4, 0x33334444},
        {0x164 / 4, 0x11112222},
    };
    struct nv_program prog;
    const uint8_t *out;

    (void)state;
    make_program(&prog, 3, 0x180, 164, 0x80);
    out = launch(&prog, 1);
    expect_sparse("QMD v3", out, 64, want, ARRAY_LEN(want));
    expect_sparse("bank 0", out + 256, 0x180 / 4, bank, ARRAY_LEN(bank));
    nv_launch_measure(&prog);
    assert_int_equal(prog.data_bytes, 256 + 512);
}

static void
test_blackwell(void **state)
{
    static const struct word want[] = {
        {4, 0x011f0000},  {14, 0x00500100}, {19, 0x00010000}, {32, 0x23456780},
        {33, 0x00000001}, {34, 0x00010100}, {35, 0x00022001}, {36, 0x04f44810},
        {37, 0x00240000}, {39, 0x00000084}, {40, 0x00000002}, {41, 0x00000003},
        {42, 0x3e1d9500}, {43, 0x01d00000}, {58, 0x00000009},
    };
    static const struct word bank[] = {
        {0x16c / 4, 0x480},  {0x2ac / 4, 0x1000},   {0x2d0 / 4, 132},
        {0x2f4 / 4, 0x7294}, {0x2fc / 4, 0x7293},   {0x348 / 4, 0x87654380},
        {0x34c / 4, 0xf},    {0x360 / 4, 256},      {0x364 / 4, 1},
        {0x368 / 4, 1},      {0x370 / 4, 132},      {0x374 / 4, 2},
        {0x378 / 4, 3},      {0x37c / 4, 0xfffdc0},
    };
    struct nv_program prog;
    const uint8_t *out;

    (void)state;
    make_program(&prog, 5, 0x3a0, 228, 0);
    out = launch(&prog, 0);
    expect_sparse("QMD v5", out, 96, want, ARRAY_LEN(want));
    expect_sparse("bank 0", out + 512, 0x3a0 / 4, bank, ARRAY_LEN(bank));
}

/* The words of a launch that schedules the next: pointer, enable with action 3
 * and prefetch; on Hopper the membar of the card, which may be chased. */
static void
test_links(void **state)
{
    static const struct {
        uint32_t major, bank_bytes;
        struct word want[3];
    } rows[] = {
        {3, 0x180, {{15, 0xf876542}, {16, 0x17}, {11, 0x04010000}}},
        {4, 0x230, {{14, 0xf876543}, {11, 0x40170000}, {35, 0x00030000}}},
        {5, 0x3a0, {{12, 0xf876544}, {10, 0x00170000}, {19, 0x00010000}}},
    };
    static uint32_t out[2][512];
    const uint64_t args[1] = {3};
    struct nv_program prog;
    unsigned i, k, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t va;

        make_program(&prog, rows[i].major, rows[i].bank_bytes, 164, 0);
        nv_launch_measure(&prog);
        va = BANK_VA - nv_launch_bank0(&prog);
        for (k = 0; k < 2; k++)
            nv_launch_write(&prog, grid, local, args, 0, va, (uint8_t *)out[k],
                            &(struct nv_after){.links = k});
        assert_int_equal(va + prog.data_bytes,
                         (uint64_t)rows[i].want[0].value << 8);
        for (k = 0; k < 3; k++)
            assert_int_equal(out[1][rows[i].want[k].dw], rows[i].want[k].value);
        for (k = n = 0; k < prog.data_bytes / 4; k++)
            n += out[0][k] != out[1][k];
        assert_int_equal(n, rows[i].major == 4 ? 3 : 2); /* and no others */
    }
}

/* The words of a launch that stores a value of 64 bits at its end: enable,
 * two words, 64 bits; address; payload. */
static void
test_release(void **state)
{
    static const struct word want[] = {{10, 0x1005},     {20, 0x00200010},
                                       {21, 0x10},       {22, 0x90000008},
                                       {23, 0x00000007}, {35, 0x00010000}};
    static uint32_t out[2][512];
    const uint64_t args[1] = {3};
    const struct nv_after after = {
        .release_va = 0x1000200010,
        .release_value = 0x790000008,
    };
    struct nv_program prog;
    unsigned i, n = 0;

    (void)state;
    make_program(&prog, 4, 0x230, 228, 0x90);
    nv_launch_measure(&prog);
    assert_true(prog.launch->releases);
    for (i = 0; i < 2; i++)
        nv_launch_write(&prog, grid, local, args, 1, BANK_VA - 512,
                        (uint8_t *)out[i], i ? &after : &(struct nv_after){0});
    for (i = 0; i < ARRAY_LEN(want); i++)
        assert_int_equal(out[1][want[i].dw], want[i].value);
    for (i = 0; i < prog.data_bytes / 4; i++)
        n += out[0][i] != out[1][i];
    assert_int_equal(n, 5); /* and no others */
}

/* Sizes that an SM's shared memory is divided in. */
static void
test_smem(void **state)
{
    (void)state;
    assert_int_equal(nv_smem_kib(1024, 228), 32);
    assert_int_equal(nv_smem_kib(32768, 228), 32);
    assert_int_equal(nv_smem_kib(32769, 228), 64);
    assert_int_equal(nv_smem_kib(164 * 1024, 228), 164);
    assert_int_equal(nv_smem_kib(164 * 1024 + 1, 228), 196);
    assert_int_equal(nv_smem_kib(1u << 30, 228), 228);
    assert_int_equal(nv_smem_kib(1u << 30, 164), 164);
    assert_int_equal(nv_smem_kib(65 * 1024, 100), 100);
}

/* ---- methods ------------------------------------------------------------- */

/* A card of the classes of a generation. */
struct card {
    uint32_t host, compute, copy;
};

static const struct card hopper = {0xc86f, 0xcbc0, 0xc8b5},
                         ampere = {0xc56f, 0xc6c0, 0xc6b5};

static struct nv_chip
chip_of(const struct card *card)
{
    return (struct nv_chip){
        .host = nv_class_best(NV_CLASS_HOST, &card->host, 1),
        .compute = nv_class_best(NV_CLASS_COMPUTE, &card->compute, 1),
        .copy = nv_class_best(NV_CLASS_COPY, &card->copy, 1),
        .shared_window = 0x729400000000,
        .local_window = 0x729300000000,
    };
}

static uint32_t words[512];
static struct nv_engine engine;

static struct nv_push
start(const struct card *card, bool is_copy)
{
    struct nv_chip chip = chip_of(card);

    nv_engine_init(&engine, &chip, is_copy);
    memset(words, 0xa5, sizeof(words));
    return (struct nv_push){.engine = &engine, .at = words};
}

static void
expect_words(const struct nv_push *push, const uint32_t *want, size_t n)
{
    size_t i, have = (size_t)(push->at - words);

    for (i = 0; i < n && i < have; i++) {
        if (words[i] != want[i])
            fail_msg("word %zu: %08x, want %08x", i, words[i], want[i]);
    }
    assert_int_equal(have, n);
}

#define EXPECT(push, ...)                                                      \
    expect_words(push, (const uint32_t[]){__VA_ARGS__},                        \
                 sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* One command; its measure is what it takes, or `slack` words more. */
static void
put(struct nv_push *push, enum hcq_op op, unsigned flags, uint64_t a,
    uint64_t b, uint64_t c, unsigned slack)
{
    struct hcq_packet packet = {
        .head = {.op = (uint8_t)op, .flags = (uint8_t)flags},
        .word = {a, b, c},
    };
    const uint32_t *from = push->at;

    packet.head.word_dw =
        (uint32_t)nv_packet_extent(push->engine, &packet).n_dw;
    nv_push_packet(push, &packet);
    assert_int_equal(push->at - from, packet.head.word_dw - slack);
}

static void
test_semaphores(void **state)
{
    struct nv_push push = start(&hopper, false);

    (void)state;
    put(&push, HCQ_OP_TIMESTAMP, 0, 0x1000200000, 0, 0, 0);
    EXPECT(&push, 0x20050017, 0x00200010, 0x10, 0, 0, 0x03100001);
    push = start(&hopper, false);
    put(&push, HCQ_OP_WAIT, 0, 0x1000200010, 5, 0, 0);
    EXPECT(&push, 0x20050017, 0x00200010, 0x10, 5, 0, 0x01001003);
    push = start(&hopper, false);
    put(&push, HCQ_OP_SIGNAL, 0, 0x1000200010, 0x700000005, 0, 0);
    EXPECT(&push, 0x20050017, 0x00200010, 0x10, 5, 7, 0x01100001);
    push = start(&hopper, false);
    put(&push, HCQ_OP_WRITE32, 0, 0x1000200014, 9, 0, 0);
    EXPECT(&push, 0x20050017, 0x00200014, 0x10, 9, 0, 0x00100001);
    push = start(&hopper, false);
    nv_push_finish(&push, 0x1000200010, 6);
    EXPECT(&push, 0x20050017, 0x00200010, 0x10, 6, 0, 0x01100001);
}

static void
test_polls(void **state)
{
    struct nv_push push = start(&hopper, true);
    unsigned i;

    (void)state;
    put(&push, HCQ_OP_POLL, 0, 0x1000200014, 0xffffffff, 0xabcd0123, 0);
    EXPECT(&push, 0x20050017, 0x00200014, 0x10, 0xabcd0123, 0, 0x00001000);
    push = start(&hopper, true);
    put(&push, HCQ_OP_POLL, HCQ_HEAD_FIXED, 0x1000200014, 0xffffffff, 1, 0);
    EXPECT(&push, 0x20050017, 0x00200014, 0x10, 1, 0, 0x00001000);
    /* Bit 4 set, bit 0 clear: NOR is met where both are 0. */
    push = start(&ampere, true);
    put(&push, HCQ_OP_POLL, 0, 0x1000200014, 0x11, 0x10, 0);
    EXPECT(&push, 0x20050017, 0x00200014, 0x10, 0xfffffffe, 0, 0x00001005,
           0x20050017, 0x00200014, 0x10, 0x10, 0, 0x00001004);
    /* Never. */
    push = start(&ampere, true);
    put(&push, HCQ_OP_POLL, 0, 0x1000200014, 1, 2, 0);
    EXPECT(&push, 0x20050017, 0x00200014, 0x10, 0, 0, 0x00001004);
    /* Always at once; room for all bits where it may be patched. */
    push = start(&ampere, true);
    put(&push, HCQ_OP_POLL, HCQ_HEAD_FIXED, 0x1000200014, 0, 0, 0);
    assert_int_equal(push.at - words, 192);
    assert_int_equal(words[0], 0x60bf0002);
    for (i = 1; i < 192; i++)
        assert_int_equal(words[i], 0);
}

static void
test_copies(void **state)
{
    struct nv_push push = start(&hopper, true);

    (void)state;
    put(&push, HCQ_OP_COPY, 0, 0x3000000000, 0x2000000000, 0x1000, 0);
    EXPECT(&push, 0x20048100, 0x20, 0, 0x30, 0, 0x20018106, 0x1000, 0x200180c0,
           0x186);
    /* Between kernels: their end before it, its own end after it. */
    push = start(&hopper, false);
    push.busy = true;
    put(&push, HCQ_OP_COPY, 0, 0x3000000000, 0x2000000000, 0x1000, 0);
    EXPECT(&push, 0x20012044, 0, 0x20048100, 0x20, 0, 0x30, 0, 0x20018106,
           0x1000, 0x200180c0, 0x186, 0x2001001e, 1);
    assert_false(push.busy);
    /* Over 2 GiB: lines of 1 GiB, and a rest. */
    push = start(&hopper, true);
    put(&push, HCQ_OP_COPY, 0, 0x3000000000, 0x2000000000, 0xc0000005, 0);
    EXPECT(&push, 0x20088100, 0x20, 0, 0x30, 0, 0x40000000, 0x40000000,
           0x40000000, 3, 0x200180c0, 0x386, 0x20048100, 0x20, 0xc0000000, 0x30,
           0xc0000000, 0x20018106, 5, 0x200180c0, 0x186);
    push = start(&hopper, true);
    put(&push, HCQ_OP_COPY, HCQ_HEAD_FIXED, 0x3000000000, 0x2000000000, 0, 0);
    assert_int_equal(push.at - words, 20);
    assert_int_equal(words[0], 0x60130002);
}

static void
test_fills(void **state)
{
    struct nv_push push = start(&hopper, true);

    (void)state;
    put(&push, HCQ_OP_FILL, 0, 0x3000000000, 0xdeadbeef, 0x4000, 0);
    EXPECT(&push, 0x200281c1, 0xdeadbeef, 0x00030005, 0x20028102, 0x30, 0,
           0x20018106, 0x1000, 0x200180c0, 0x586);
    push = start(&hopper, true);
    put(&push, HCQ_OP_FILL, 0, 0x3000000000, 0xdeadbeef, 7, 0);
    EXPECT(&push, 0x200281c1, 0xdeadbeef, 0x00030005, 0x20028102, 0x30, 0,
           0x20018106, 1, 0x200180c0, 0x586, 0x200281c1, 0xbeef, 0x00010005,
           0x20028102, 0x30, 4, 0x20018106, 1, 0x200180c0, 0x586, 0x200281c1,
           0xad, 0x00000005, 0x20028102, 0x30, 6, 0x20018106, 1, 0x200180c0,
           0x586);
    push = start(&hopper, true);
    put(&push, HCQ_OP_FILL, 0, 0x3000000000, 1, 0x80000000, 0);
    EXPECT(&push, 0x200281c1, 1, 0x00030005, 0x20068102, 0x30, 0, 0x40000000,
           0x40000000, 0x10000000, 2, 0x200180c0, 0x786);
    /* A store beyond the host engine's 40 bits. */
    push = start(&ampere, true);
    put(&push, HCQ_OP_WRITE64, 0, 0x123456789000, 0x200000001, 0, 0);
    EXPECT(&push, 0x200381c0, 1, 2, 0x01030054, 0x20028102, 0x1234, 0x56789000,
           0x20018106, 1, 0x200180c0, 0x586);
}

static void
test_kernels(void **state)
{
    struct nv_push push;
    struct nv_program prog;
    static uint64_t data[6 * 160];
    static uint64_t words64[HCQ_CS_PACKET_DW / 2];
    struct hcq_exec *exec = (void *)words64;
    struct hcq_packet *packet = (void *)words64;

    (void)state;
    push = start(&hopper, false);
    make_program(&prog, 4, 0x230, 228, 0x90);
    nv_launch_measure(&prog);
    push.data = (uint8_t *)data;
    push.data_va = 0xab00000100;
    *exec = (struct hcq_exec){
        .head = {.op = HCQ_OP_EXEC, .n_dw = HCQ_EXEC_DW + 2},
        .prog = &prog.base,
        .grid = {1, 1, 1},
        .local = {1, 1, 1},
    };
    exec->args[0] = 3;
    packet->head.word_dw = NV_LAUNCH_DW;
    assert_int_equal(prog.base.extent.n_units, 5);
    nv_push_packet(&push, packet);
    EXPECT(&push, 0x200120ad, 0xab000001, 0x200120b0, 0xa);
    assert_true(push.busy);
    /* The next one waits for it, and has a descriptor of its own. */
    nv_push_packet(&push, packet);
    EXPECT(&push, 0x200120ad, 0xab000001, 0x200120b0, 0xa, 0x20012044, 0,
           0x200120ad, 0xab000006, 0x200120b0, 0xa);
    assert_int_equal(push.data_va, 0xab00000b00);
    put(&push, HCQ_OP_BARRIER, 0, 0, 0, 0, 0);
    assert_int_equal(words[10], 0x20012044);
    assert_int_equal(words[19], 0x200125a6);
    assert_int_equal(words[20], 0x00001011);
    assert_false(push.busy);
    /* Three in a row: the first is sent, the others follow it. */
    push.at = words;
    push.after.links = true;
    nv_push_packet(&push, packet);
    nv_push_packet(&push, packet);
    push.after.links = false;
    nv_push_packet(&push, packet);
    EXPECT(&push, 0x200120ad, 0xab00000b, 0x200120b0, 0xa);
    assert_int_equal(push.data_va, 0xab00001a00);
    assert_true(push.busy);
    /* The next does not belong to them. */
    nv_push_packet(&push, packet);
    EXPECT(&push, 0x200120ad, 0xab00000b, 0x200120b0, 0xa, 0x20012044, 0,
           0x200120ad, 0xab00001a, 0x200120b0, 0xa);
}

/* A compute queue's large transfers within the card's memory are a launch;
 * what is not a multiple of 16 at the ends is the copy engine's. */
static void
test_moves(void **state)
{
    static uint64_t data[4096 / 8];
    struct nv_program prog;
    struct nv_push push = start(&hopper, false);
    const uint64_t *args = data + (512 + 0x210) / 8;
    const uint64_t dst = 0x1000200000, src = 0x1000400000, n = 1u << 17;
    unsigned i;

    (void)state;
    make_program(&prog, 4, 0x230, 228, 0x90);
    nv_launch_measure(&prog);
    engine.move = &prog;
    engine.card_va = 0x1000000000;
    engine.card_va_end = 0x2000000000;
    push.data = (uint8_t *)data;
    push.data_va = 0xab00000100;
    put(&push, HCQ_OP_COPY, 0, dst, src + 3, n, 2);
    EXPECT(&push, 0x200120ad, 0xab000001, 0x200120b0, 0xa);
    assert_int_equal(args[0], dst);
    assert_int_equal(args[1], src + 3);
    assert_int_equal(args[2], n / 16);
    assert_int_equal(((const uint32_t *)data)[(512 + 0xc) / 4], n / 16 / 256);
    /* 13 bytes, the launch's, 5 bytes; a wait for the kernel before. */
    push.at = words;
    push.data = (uint8_t *)data;
    put(&push, HCQ_OP_COPY, 0, dst + 3, src, n + 18 - 16, 2);
    assert_int_equal(words[0], 0x20012044);
    assert_int_equal(words[8], 13);
    assert_int_equal(words[17], 5);
    assert_int_equal(args[0], dst + 16);
    assert_int_equal(args[1], src + 13);
    assert_int_equal(args[2], n / 16 - 1);
    push.at = words;
    push.data = (uint8_t *)data;
    put(&push, HCQ_OP_FILL, 0, dst, 0x11223344, n, 0);
    assert_int_equal(args[2], n / 16 | 1ull << 32);
    assert_int_equal(args[3], 0x11223344);
    /* Patched, it may become one; with the room of the largest. */
    push.at = words;
    push.data = (uint8_t *)data;
    put(&push, HCQ_OP_FILL, HCQ_HEAD_FIXED, dst + 4, 7, n + 3, 0);
    assert_true(push.busy);
    put(&push, HCQ_OP_COPY, HCQ_HEAD_FIXED, dst + 1, src, n, 0);
    push.at = words;
    push.data = (uint8_t *)data;
    put(&push, HCQ_OP_COPY, HCQ_HEAD_FIXED, dst, src, 64, 0);
    assert_int_equal(push.data - (uint8_t *)data, prog.data_bytes);
    assert_true(push.busy);
    /* Not of it: small, too large, to or from the host. */
    for (i = 1; i < 5; i++) {
        struct hcq_packet packet = {
            .head = {.op = HCQ_OP_COPY},
            .word = {i == 3 ? 0x2000000000 : dst,
                     i == 4 ? engine.card_va - n : src,
                     i == 1   ? n - 1
                     : i == 2 ? 1ull << 36
                              : n},
        };

        assert_int_equal(nv_packet_extent(&engine, (void *)&packet).n_units, 0);
    }
    engine.move = NULL;
    push = start(&hopper, false);
    put(&push, HCQ_OP_COPY, 0, dst, src, n, 2);
    assert_int_equal(words[6], n);
}

static void
test_setup(void **state)
{
    struct nv_push push = start(&hopper, false);
    struct nv_chip chip = chip_of(&hopper);
    const struct nv_local memory = {
        .mem.va = 0x2100000000,
        .tpc_bytes = 0x240000,
    };

    (void)state;
    nv_push_setup(&push, &chip);
    EXPECT(&push, 0x20018000, 0xc8b5, 0x20012000, 0xcbc0, 0x200120a6, 0,
           0x20012509, 0, 0x20012091, 0, 0x200220a8, 0x7294, 0, 0x200221ec,
           0x7293, 0, 0x2001254a, 1);
    push = start(&hopper, false);
    nv_push_local(&push, &memory);
    EXPECT(&push, 0x20012044, 0, 0x200221e4, 0x21, 0, 0x200320b9, 0, 0x240000,
           0xff);
    push = start(&hopper, true);
    nv_push_setup(&push, &chip);
    nv_push_local(&push, &memory);
    nv_push_invalidate(&push);
    EXPECT(&push, 0x20018000, 0xc8b5);
}

/* The best of those that there are; each kind has its own. */
static void
test_classes(void **state)
{
    const uint32_t all[] = {0xc5b5, 0xc6b5, 0xcab5, 0xc8b5, 0xcec0, 0xc661};

    (void)state;
    assert_int_equal(nv_class_best(NV_CLASS_COPY, all, 2)->number, 0xc6b5);
    assert_int_equal(nv_class_best(NV_CLASS_COPY, all, 6)->number, 0xcab5);
    assert_int_equal(nv_class_best(NV_CLASS_COMPUTE, all, 6)->number, 0xcec0);
    assert_true(nv_class_best(NV_CLASS_USERMODE, all, 6)->has_bar1);
    assert_null(nv_class_best(NV_CLASS_HOST, all, 6));
    assert_null(nv_class_best(NV_CLASS_COPY, all, 1));
    assert_null(nv_class_best(NV_CLASS_COPY, all, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hopper),     cmocka_unit_test(test_ampere),
        cmocka_unit_test(test_blackwell),  cmocka_unit_test(test_smem),
        cmocka_unit_test(test_semaphores), cmocka_unit_test(test_polls),
        cmocka_unit_test(test_copies),     cmocka_unit_test(test_fills),
        cmocka_unit_test(test_kernels),    cmocka_unit_test(test_setup),
        cmocka_unit_test(test_links),      cmocka_unit_test(test_release),
        cmocka_unit_test(test_moves),      cmocka_unit_test(test_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
