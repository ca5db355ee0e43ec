/* The simulated NVIDIA card: the compute class, launch descriptors and
 * kernels. Descriptors are those of docs/hardware/nvidia-queues.md,
 * "Test vectors", or those with words changed by hand. */
#include "gpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/thread.h"

#define GR NVGPU_ENGINE_GR

#define SHARED_WINDOW 0x729400000000ull
#define LOCAL_WINDOW  0x729300000000ull

/* A word of a descriptor. */
struct word {
    uint32_t index, value;
};

/* Section 15. Grid 132x2x3, block 256, 32 registers, shared 0x800. */
static const struct word qmd3[] = {
    {4, 0x0000007f},  {5, 0x3c000000},  {11, 0x04010000}, {12, 0x00000084},
    {13, 0x00000002}, {14, 0x00000003}, {17, 0x54240800}, {18, 0x01000030},
    {19, 0x00010001}, {20, 0x00122001}, {23, 0x08000000}, {32, 0x87654000},
    {33, 0x00c4000f}, {48, 0x34567800}, {49, 0x00000012}, {50, 0x00000240},
    {51, 0x80000000}, {0, 0},
};
static const struct word qmd4[] = {
    {0, 0x01000000},  {13, 0x00000009}, {16, 0x90000000}, {17, 0x01000240},
    {18, 0x3c080040}, {19, 0x00009e89}, {32, 0x00000084}, {33, 0x00000002},
    {34, 0x00000003}, {35, 0x00010000}, {36, 0x00010100}, {37, 0x08200001},
    {38, 0x34567800}, {39, 0x00000012}, {48, 0x3e1d9500}, {49, 0x01180000},
    {0, 0x01000000},
};
static const struct word qmd5[] = {
    {4, 0x011f0000},  {14, 0x00500100}, {19, 0x00010000}, {32, 0x23456780},
    {33, 0x00000001}, {34, 0x00010100}, {35, 0x00022001}, {36, 0x04f44810},
    {37, 0x00240000}, {39, 0x00000084}, {40, 0x00000002}, {41, 0x00000003},
    {42, 0x3e1d9500}, {43, 0x01d00000}, {58, 0x00000009}, {0, 0},
};

/* Where things are in each version, for the tests that change them. */
static const struct gen {
    const char *chip;
    uint32_t compute_class;
    const struct word *qmd;
    uint32_t n_dw, grid_x, block_x, shared_index, shared_keep, shared_value;
    uint32_t params, ntid, nctaid, shared_window, local_window, stack,
        param_address, dynamic_shared;
} gens[] = {
    {"sm_80", 0xc6c0, qmd3, 64, 12, 18, 17, 0xfffc0000, 0x800, 0x160, 0x0, 0xc,
     0x18, 0x20, 0x28, 0, 0x2c},
    {"sm_90", 0xcbc0, qmd4, 96, 32, 36, 18, 0xfc0000ff, 0x800 << 8, 0x210, 0x0,
     0xc, 0x18, 0x20, 0x28, 0x198, 0x2c},
    {"sm_120", 0xcec0, qmd5, 96, 39, 34, 36, 0xfffff800, 0x800 >> 7, 0x380,
     0x360, 0x370, 0x2f0, 0x2f8, 0x37c, 0x348, 0x2ac},
};

#define HEAD                                                                   \
    ".version 7.8\n.target sm_80\n.address_size 64\n"                          \
    ".visible .entry k(.param .u64 p, .param .u64 n)\n{\n"
/* %rd1: p, %rd2: n, %r1: the block's number in the grid */
#define START                                                                  \
    ".reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<8>;\n"                  \
    "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [n];\n"                        \
    "mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y;\n"  \
    "mad.lo.s32 %r1, %r1, %r2, %r3; mov.u32 %r2, %nctaid.x;\n"                 \
    "mov.u32 %r3, %ctaid.x; mad.lo.s32 %r1, %r1, %r2, %r3;\n"

/* p[block] = n + number of the block, by thread 0. */
static const char store_text[] =
    HEAD START "mov.u32 %r4, %tid.x; setp.ne.s32 %p1, %r4, 0; @%p1 ret;\n"
               "mad.wide.u32 %rd3, %r1, 4, %rd1; cvt.u32.u64 %r5, %rd2;\n"
               "add.s32 %r5, %r5, %r1; st.global.u32 [%rd3], %r5; ret;\n}\n";

/* One thread: *p += n. */
static const char add_text[] =
    HEAD START "ld.global.u64 %rd3, [%rd1]; add.s64 %rd3, %rd3, %rd2;\n"
               "st.global.u64 [%rd1], %rd3; ret;\n}\n";

static const char spin_text[] = HEAD START
    "L: ld.volatile.global.u32 %r5, [%rd1]; setp.eq.s32 %p1, %r5, 0;\n"
    "@%p1 bra L; ret;\n}\n";

static void
put_code(uint64_t va, const char *text)
{
    uint8_t *at = rig_at(va);
    uint32_t head[2] = {1, (uint32_t)strlen(text)};

    memcpy(at, "BELL PTX", 8);
    memcpy(at + 8, head, 8);
    memcpy(at + 16, text, head[1]);
}

static void
put_word(uint64_t va, uint32_t value)
{
    memcpy(rig_at(va), &value, 4);
}

static void
put_word64(uint64_t va, uint64_t value)
{
    memcpy(rig_at(va), &value, 8);
}

static void
put_qmd(const struct gen *g, uint64_t va)
{
    const struct word *w;

    memset(rig_at(va), 0, 384);
    for (w = g->qmd; w == g->qmd || w->index; w++)
        put_word(va + 4 * w->index, w->value);
}

/* The driver's words for the vector's launch, and two parameters. */
static void
put_bank0(const struct gen *g, uint64_t va, uint64_t p, uint64_t n)
{
    static const uint32_t ntid[3] = {256, 1, 1}, nctaid[3] = {132, 2, 3};

    memset(rig_at(va), 0, 0x3a0);
    memcpy(rig_at(va + g->ntid), ntid, 12);
    memcpy(rig_at(va + g->nctaid), nctaid, 12);
    put_word64(va + g->shared_window, SHARED_WINDOW);
    put_word64(va + g->local_window, LOCAL_WINDOW);
    put_word(va + g->stack, 0xfffdc0);
    if (g->param_address)
        put_word64(va + g->param_address, va + g->params);
    put_word64(va + g->params, p);
    put_word64(va + g->params + 8, n);
}

/* A grid of one block of one thread. */
static void
make_single(const struct gen *g, uint64_t qmd_va, uint64_t bank_va)
{
    static const uint32_t ones[3] = {1, 1, 1};
    uint32_t old = rig_word(qmd_va + 4 * g->block_x);

    put_word(qmd_va + 4 * g->grid_x, 1);
    put_word(qmd_va + 4 * g->grid_x + 4, 1);
    put_word(qmd_va + 4 * g->grid_x + 8, 1);
    if (g->block_x == 18) /* the version is beside it */
        put_word(qmd_va + 4 * g->block_x, 0x00010000 | (old & 0xffff));
    else
        put_word(qmd_va + 4 * g->block_x, 0x00010001);
    memcpy(rig_at(bank_va + g->ntid), ones, 12);
    memcpy(rig_at(bank_va + g->nctaid), ones, 12);
}

/* Section 15: bind and windows; local memory for 0x240 bytes a thread. */
static void
set_state(struct rig_chan *c, const struct gen *g)
{
    RIG_PUSH_WORDS(c, 0x20012000, g->compute_class, 0x200220a8, 0x00007294, 0,
                   0x200221ec, 0x00007293, 0, 0x200221e4,
                   (uint32_t)(RIG_LOCAL >> 32), (uint32_t)RIG_LOCAL, 0x200320b9,
                   0, 0x00240000, 0xff);
}

/* Invalidates the caches and launches the descriptor at RIG_QMD + offset. */
static void
launch(struct rig_chan *c, uint32_t offset, uint32_t action)
{
    RIG_PUSH_WORDS(c, 0x200125a6, 0x00001011, 0x200120ad,
                   0xab000001 + (offset >> 8), 0x200120b0, action);
}

/* A card with all that the vector needs. */
static struct rig_chan *
start(struct rig *rig, const struct gen *g, const char *text)
{
    struct rig_chan *c = &rig->chans[0];

    rig_init(rig, g->chip, GR);
    put_code(RIG_CODE, text);
    put_qmd(g, RIG_QMD);
    put_bank0(g, RIG_BANK0, RIG_DST, 1000);
    set_state(c, g);
    return c;
}

/* Where a descriptor says what depends on it, its counter, and that it has to
 * be asked for again. */
static const struct link_words {
    uint32_t pointer, word, shift, counter, counter_shift, require;
} links[] = {
    {15, 16, 0, 4, 14, 1u << 12},
    {14, 11, 16, 0, 0, 1u << 30},
    {12, 10, 16, 4, 0, 1u << 30},
};

#define LINK(i)    (RIG_QMD + 0x400ull * (i))
#define SCHEDULE   1u
#define INVALIDATE 3u
#define DECREMENT  4u

/* One thread: *p = *p * 10 + n. */
static const char digit_text[] =
    HEAD START "ld.global.u64 %rd3, [%rd1]; mad.lo.u64 %rd3, %rd3, 10, %rd2;\n"
               "st.global.u64 [%rd1], %rd3; ret;\n}\n";

/* Descriptor i with bank 0 of its own, whose kernel appends digit i + 1. */
static void
put_digit(const struct gen *g, uint32_t i)
{
    uint32_t bank_word = g->qmd == qmd5 ? 42 : g->qmd == qmd4 ? 48 : 32;
    uint64_t bank = RIG_BANK0 + 0x400ull * i;

    put_qmd(g, LINK(i));
    put_bank0(g, bank, RIG_DST, i + 1);
    make_single(g, LINK(i), bank);
    put_word(LINK(i) + 4ull * bank_word,
             (uint32_t)(g->qmd == qmd3 ? bank : bank >> 6));
}

/* What descriptor i does to descriptor `to` when its grid is done. */
static void
put_link(const struct gen *g, uint32_t i, uint32_t to, uint32_t action)
{
    const struct link_words *l = &links[g - gens];

    put_word(LINK(i) + 4ull * l->pointer, (uint32_t)(LINK(to) >> 8));
    put_word(LINK(i) + 4ull * l->word,
             rig_word(LINK(i) + 4ull * l->word) | (1u | action << 1 | 1u << 4)
                                                      << l->shift);
}

static struct rig_chan *
start_digits(struct rig *rig, const struct gen *g, uint32_t n)
{
    struct rig_chan *c = start(rig, g, digit_text);
    uint32_t i;

    for (i = 0; i < n; i++)
        put_digit(g, i);
    return c;
}

/* ---- what runs ---- */

static void
test_vectors(void **state)
{
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct rig rig;
        struct rig_chan *c = start(&rig, &gens[i], store_text);
        launch(c, 0, 0xa);
        rig_finish(&rig, c);
        for (k = 0; k < 132 * 2 * 3; k++)
            assert_int_equal(rig_word(RIG_DST + 4 * k), 1000 + k);
        assert_int_equal(rig_word(RIG_DST + 4 * k), 0);
        rig_fini(&rig);
    }
}

/* The descriptor's own words in the pushbuffer. */
static void
test_inline_qmd(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        const struct gen *g = &gens[i];
        struct rig rig;
        struct rig_chan *c = start(&rig, g, store_text);
        uint32_t words[100] = {0x200220c6, g->n_dw == 96 ? 1u << 30 : 0,
                               0xab000001, 0x200020c8 | g->n_dw << 16};
        memcpy(words + 4, rig_at(RIG_QMD), g->n_dw * 4);
        memset(rig_at(RIG_QMD), 0, 384);
        rig_push(c, words, 4 + g->n_dw);
        rig_finish(&rig, c);
        assert_int_equal(rig_word(RIG_DST + 4), 1001);
        assert_memory_equal(rig_at(RIG_QMD), words + 4, g->n_dw * 4);
        rig_fini(&rig);
    }
}

/* A release without WFI does not wait for kernels; one with does. */
static void
test_order(void **state)
{
    struct rig rig;
    const struct gen *g = &gens[1];
    struct rig_chan *c = start(&rig, g, spin_text);

    (void)state;
    make_single(g, RIG_QMD, RIG_BANK0);
    launch(c, 0, 0xa);
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   1, 0, 0x00000001, 0x20050017, (uint32_t)RIG_SEM + 16,
                   (uint32_t)(RIG_SEM >> 32), 1, 0, 0x00100001);
    rig_ring(&rig, c);
    while (rig_word(RIG_SEM) != 1)
        thread_relax();
    rig_sleep_ms(5);
    assert_int_equal(rig_word(RIG_SEM + 16), 0);
    atomic_store((_Atomic uint32_t *)rig_at(RIG_DST), 1);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM + 16), 1);
    rig_fini(&rig);
}

/* Kernels that wait for idle between them run in order, each once. */
static void
test_many(void **state)
{
    const struct gen *g = &gens[2];
    struct rig rig;
    struct rig_chan *c = start(&rig, g, add_text);
    uint32_t i;

    (void)state;
    make_single(g, RIG_QMD, RIG_BANK0);
    for (i = 0; i < 100; i++) {
        launch(c, 0, i ? 9 : 3);
        RIG_PUSH_WORDS(c, 0x20012044, 0); /* WAIT_FOR_IDLE */
        if (i % 5 == 4)
            rig_finish(&rig, c);
    }
    /* and more than wait at once */
    for (i = 0; i < 100; i++) {
        launch(c, 0, 2);
        if (i % 10 == 9)
            rig_finish(&rig, c);
    }
    assert_int_equal(rig_word64(RIG_DST), 200000);
    rig_fini(&rig);
}

/* Each is scheduled by the one before it; only the first is sent. */
static void
test_chain(void **state)
{
    size_t k;
    uint32_t i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(gens); k++) {
        const struct gen *g = &gens[k];
        struct rig rig;
        struct rig_chan *c = start_digits(&rig, g, 5);

        for (i = 0; i < 4; i++)
            put_link(g, i, i + 1, i % 2 ? SCHEDULE : INVALIDATE);
        launch(c, 0, 0xa);
        rig_finish(&rig, c);
        assert_int_equal(rig_word64(RIG_DST), 12345);
        /* again, with others in memory: 4 does not follow 3 now */
        put_digit(g, 2);
        put_link(g, 1, 2, INVALIDATE);
        launch(c, 0, 0xa);
        rig_finish(&rig, c);
        assert_int_equal(rig_word64(RIG_DST), 12345123);
        rig_fini(&rig);
    }
}

/* As libcuda does: the second is sent first, and waits to be asked again. */
static void
test_sent_first(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(gens); k++) {
        const struct gen *g = &gens[k];
        const struct link_words *l = &links[k];
        struct rig rig;
        struct rig_chan *c = start_digits(&rig, g, 2);
        uint32_t head = l->counter;

        put_word(LINK(1) + 4ull * head,
                 rig_word(LINK(1) + 4ull * head) | l->require);
        put_link(g, 0, 1, SCHEDULE);
        launch(c, 0x400, 0xa);
        RIG_PUSH_WORDS(c, 0x20012044, 0); /* WAIT_FOR_IDLE */
        launch(c, 0, 0xa);
        rig_finish(&rig, c);
        assert_int_equal(rig_word64(RIG_DST), 12);
        rig_fini(&rig);
    }
}

/* The third has two to wait for. */
static void
test_counter(void **state)
{
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(gens); k++) {
        const struct gen *g = &gens[k];
        const struct link_words *l = &links[k];
        struct rig rig;
        struct rig_chan *c = start_digits(&rig, g, 3);

        put_word(LINK(2) + 4ull * l->counter,
                 rig_word(LINK(2) + 4ull * l->counter) |
                     2u << l->counter_shift);
        put_link(g, 0, 2, DECREMENT);
        put_link(g, 1, 2, DECREMENT);
        launch(c, 0x800, 0xa);
        launch(c, 0, 0xa);
        rig_finish(&rig, c);
        assert_int_equal(rig_word64(RIG_DST), 1);
        launch(c, 0x400, 0xa);
        rig_finish(&rig, c);
        assert_int_equal(rig_word64(RIG_DST), 123);
        launch(c, 0x400, 0xa);
        (void)rig_expect(&rig, c, 69, "does not wait");
        rig_fini(&rig);
    }
}

/* What a card makes of these, nobody says. */
static void
test_bad_chains(void **state)
{
    const struct gen *g = &gens[1];
    struct rig_chan *c;
    struct rig rig;

    (void)state;
    /* the kernel writes the descriptor that depends on it */
    c = start_digits(&rig, g, 2);
    put_link(g, 0, 1, INVALIDATE);
    put_word64(RIG_BANK0 + g->params, LINK(1) + 4 * 40);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 69, "written anew while it was pending");
    rig_fini(&rig);
    /* its own, while it waits to run */
    c = start_digits(&rig, g, 2);
    put_word64(RIG_BANK0 + 0x400 + g->params, LINK(0) + 4 * 40);
    launch(c, 0, 0xa);
    launch(c, 0x400, 0xa);
    (void)rig_expect(&rig, c, 69, "written anew while it was pending");
    rig_fini(&rig);
    /* the scheduler still has the old one */
    c = start_digits(&rig, g, 2);
    put_link(g, 0, 1, SCHEDULE);
    launch(c, 0, 0xa);
    rig_finish(&rig, c);
    put_word(LINK(1) + 4 * 37, 0x08210001);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 69, "written anew and scheduled");
    rig_fini(&rig);
    /* stores that need not be visible to what depends on them */
    c = start_digits(&rig, g, 2);
    put_link(g, 0, 1, SCHEDULE);
    put_word(LINK(0) + 4 * 35, 0);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 69, "depends on this one, which has no membar");
    rig_fini(&rig);
    /* a counter that nobody gave to the hardware */
    c = start_digits(&rig, g, 2);
    put_link(g, 0, 1, SCHEDULE);
    put_word(LINK(1), 0x01000001);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 69, "its counter was never copied");
    rig_fini(&rig);
    /* sent while it waits */
    c = start_digits(&rig, g, 1);
    put_word(LINK(0), 0x01000001);
    launch(c, 0, 0xa);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 69, "scheduled anew while it waits");
    rig_fini(&rig);
    /* nothing there */
    c = start_digits(&rig, g, 1);
    put_link(g, 0, 1, INVALIDATE);
    put_word(LINK(0) + 4 * 14, 1);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 31, "the scheduler");
    rig_fini(&rig);
}

/* Releases of the descriptor; report semaphores. */
static void
test_releases(void **state)
{
    const struct gen *g = &gens[1];
    struct rig rig;
    struct rig_chan *c = start(&rig, g, add_text);

    (void)state;
    make_single(g, RIG_QMD, RIG_BANK0);
    put_word(RIG_SEM + 0x60, 40);
    /* 0: four words of 64 bits, 1: one word, 2: addition */
    put_word(RIG_QMD + 40, 1u << 12 | 1);
    put_word(RIG_QMD + 40, rig_word(RIG_QMD + 40) | (1u << 1 | 1) << 16);
    put_word(RIG_QMD + 44, 1u << 4 | 1u << 1 | 1);
    put_word64(RIG_QMD + 80, RIG_SEM + 0x40);
    put_word64(RIG_QMD + 88, 0x1234567890);
    put_word64(RIG_QMD + 96, RIG_SEM + 0x54);
    put_word64(RIG_QMD + 104, 77);
    put_word64(RIG_QMD + 112, RIG_SEM + 0x60);
    put_word64(RIG_QMD + 120, 2);
    launch(c, 0, 0xa);
    /* SET_REPORT_SEMAPHORE: one word, then four */
    RIG_PUSH_WORDS(c, 0x200426c0, 0x10, 0x00200070, 5, 0x10000000, 0x200426c0,
                   0x10, 0x00200080, 6, 0);
    rig_finish(&rig, c);
    assert_int_equal(rig_word64(RIG_DST), 1000);
    assert_int_equal(rig_word64(RIG_SEM + 0x40), 0x1234567890);
    assert_int_not_equal(rig_word64(RIG_SEM + 0x48), 0);
    assert_int_equal(rig_word(RIG_SEM + 0x54), 77);
    assert_int_equal(rig_word(RIG_SEM + 0x58), 0);
    assert_int_equal(rig_word(RIG_SEM + 0x60), 42);
    assert_int_equal(rig_word64(RIG_SEM + 0x70), 5);
    assert_int_equal(rig_word64(RIG_SEM + 0x80), 6);
    assert_int_not_equal(rig_word64(RIG_SEM + 0x88), 0);
    rig_fini(&rig);
    /* REPORT_SEMAPHORE_EXECUTE: two words */
    rig_init(&rig, "sm_89", GR);
    c = &rig.chans[0];
    RIG_PUSH_WORDS(c, 0x20012000, 0xc9c0, 0x20052056, 8, 9, 0x00200090, 0x10,
                   0x1010);
    rig_finish(&rig, c);
    assert_int_equal(rig_word64(RIG_SEM + 0x90), 0x900000008);
    rig_fini(&rig);
}

static void
test_inline_data(void **state)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, &gens[0], add_text);

    (void)state;
    memset(rig_at(RIG_DST), 0xee, 64);
    RIG_PUSH_WORDS(c, 0x20042060, 10, 1, 0x30, 2, 0x2001206c, 0x41, 0x6003206d,
                   0x03020100, 0x07060504, 0x0b0a0908);
    /* completion with a semaphore of four words */
    RIG_PUSH_WORDS(c, 0x20032077, 0x10, 0x00200040, 3, 0x20042060, 4, 1, 0x30,
                   32, 0x2001206c, 0x21, 0x2001206d, 0x12345678);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_DST), 0x0100eeee);
    assert_int_equal(rig_word(RIG_DST + 8), 0x09080706);
    assert_int_equal(rig_word(RIG_DST + 12), 0xeeeeeeee);
    assert_int_equal(rig_word(RIG_DST + 32), 0x12345678);
    assert_int_equal(rig_word(RIG_SEM + 0x40), 3);
    assert_int_not_equal(rig_word64(RIG_SEM + 0x48), 0);
    rig_fini(&rig);
}

/* The state that libcuda sends once. src: docs/hardware/nvidia-queues.md,
 * "Compute state" */
static void
test_state_methods(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct rig rig;
        struct rig_chan *c = start(&rig, &gens[i], add_text);
        RIG_PUSH_WORDS(c, 0x200120a6, 0, 0x20012509, 0, 0x20012091, 0,
                       0x200120c4, 0x900, 0x200120a2, 0x00010040, 0x20012092,
                       0x103f, 0x20032080, 0, 0, 0, 0x2001254a, 1, 0x20012087,
                       0x1017, 0x200124a2, 0, 0x200124ce, 0, 0x20012040, 0);
        rig_finish(&rig, c);
        rig_fini(&rig);
    }
}

/* ---- faults of kernels ---- */

static struct nvgpu_fault
fault_of(const struct gen *g, const char *text, uint64_t p, uint32_t code,
         const char *want)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, g, text);
    struct nvgpu_fault f;

    put_word64(RIG_BANK0 + g->params, p);
    launch(c, 0, 0xa);
    f = rig_expect(&rig, c, code, want);
    rig_fini(&rig);
    return f;
}

static void
test_kernel_faults(void **state)
{
    static const char shared_text[] =
        HEAD START ".shared .align 4 .b8 s[64]; cvt.u32.u64 %r5, %rd1;\n"
                   "st.shared.u32 [%r5], %r5; ret;\n}\n";
    struct nvgpu_fault f;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        const struct gen *g = &gens[i];
        f = fault_of(g, store_text, 0x123450000000, 31, "MMU fault");
        assert_int_equal(f.va, 0x123450000000);
        assert_int_equal(f.access, 1);
        assert_true(f.is_sm);
        assert_int_equal(f.esr, 0);
        assert_true(f.pc > RIG_CODE + 16 &&
                    f.pc < RIG_CODE + 16 + sizeof(store_text));
        f = fault_of(g, store_text, RIG_RO, 31, "MMU fault");
        f = fault_of(g, store_text, RIG_DST + 2, 13, "misaligned");
        assert_int_equal(f.esr, 0xf);
        f = fault_of(g, store_text, SHARED_WINDOW + 0x8000, 13, "no memory");
        assert_int_equal(f.esr, 0x10);
        f = fault_of(g, store_text, LOCAL_WINDOW, 13, "no memory");
        assert_int_equal(f.esr, 0x10);
    }
    /* the fourth block runs over the end of the region */
    f = fault_of(&gens[1], store_text, RIG_DST + (8u << 20) - 12, 31,
                 "block 3");
    assert_int_equal(f.block[0], 3);
    assert_int_equal(f.thread[0], 0);
    f = fault_of(&gens[1], shared_text, 64, 13, "outside of shared memory");
    assert_int_equal(f.esr, 0xe);
    f = fault_of(&gens[1], HEAD START "trap; ret;\n}\n", RIG_DST, 13, "trap");
    f = fault_of(&gens[1], HEAD "bogus;\n}\n", RIG_DST, 13, "code at");
    assert_false(f.is_sm);
}

/* A kernel that never ends, and the channel is destroyed. */
static void
test_hang(void **state)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, &gens[1], spin_text);

    (void)state;
    launch(c, 0, 0xa);
    rig_ring(&rig, c);
    rig_sleep_ms(20);
    assert_false(nvgpu_chan_fault(c->chan, &(struct nvgpu_fault){.code = 0}));
    rig_fini(&rig);
    /* the same, ended with another channel of its group */
    c = start(&rig, &gens[1], spin_text);
    launch(c, 0, 0xa);
    rig_ring(&rig, c);
    rig_sleep_ms(5);
    nvgpu_chan_kill(c->chan, 45);
    assert_int_equal(c->notifier[2], 45);
    rig_fini(&rig);
}

/* Mappings change while a kernel runs: it goes on, until its own goes. */
static void
test_unmap_running(void **state)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, &gens[1], spin_text);
    struct nvgpu_fault f = {0};
    uint8_t *host;
    int i;

    (void)state;
    make_single(&gens[1], RIG_QMD, RIG_BANK0);
    host = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(host != MAP_FAILED);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x6000000000, host, 65536, 4096, 0),
        BELL_OK);
    put_word64(RIG_BANK0 + gens[1].params, 0x6000000000);
    launch(c, 0, 0xa);
    rig_ring(&rig, c);
    for (i = 0; i < 50; i++) {
        assert_int_equal(
            nvgpu_space_map(rig.space, 0x6000100000, host, 65536, 4096, 0),
            BELL_OK);
        nvgpu_space_unmap(rig.space, 0x6000100000, 65536);
    }
    rig_sleep_ms(5);
    assert_false(nvgpu_chan_fault(c->chan, &f));
    nvgpu_space_unmap(rig.space, 0x6000000000, 65536);
    munmap(host, 65536);
    f = rig_expect(&rig, c, 31, "MMU fault");
    assert_int_equal(f.va, 0x6000000000);
    assert_int_equal(f.access, 0);
    rig_fini(&rig);
}

/* ---- descriptors that are refused ---- */

static void
refuse_qmd(const struct gen *g, uint32_t index, uint32_t value, uint32_t code,
           const char *text)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, g, add_text);

    put_word(RIG_QMD + 4 * index, value);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, code, text);
    rig_fini(&rig);
}

static void
test_refused_qmd(void **state)
{
    static const struct {
        uint32_t gen, index, value, code;
        const char *text;
    } cases[] = {
        {0, 18, 0x01000040, 69, "QMD says version 4.0, class 0xc6c0 wants 3.0"},
        {1, 18, 0x3c080030, 69, "QMD says version 3.0, class 0xcbc0 wants 4.0"},
        {1, 18, 0x3c080041, 69, "QMD says version 4.1"},
        {2, 14, 0x00400100, 69, "QMD says version 4.0, class 0xcec0 wants 5.0"},
        {1, 0, 0x01800000, 69, "QMD_TYPE is 3"},
        {1, 16, 0x80000000, 69, "SASS_VERSION is 0x80, this card's is 0x90"},
        {1, 17, 0x00000240, 69, "API_VISIBLE_CALL_LIMIT 0"},
        /* reserved bits and fields of other things */
        {0, 1, 0x00000001, 69, "bit 32 is set"},
        {0, 4, 0x0000017f, 69, "bit 136 is set"},
        {1, 67, 0x00000101, 69, "bit 2144 is set"},
        {1, 95, 0x80000000, 69, "bit 3071 is set"},
        {1, 0, 0x05000000, 69, "bit 26 is set"},
        {2, 95, 0x00000001, 69, "bit 3040 is set"},
        {1, 11, 1u << 26, 69, "bit 378 is set"},
        {1, 35, 0x00020000, 69, "CWD_MEMBAR_TYPE 2 is reserved"},
        {1, 11, 1u << 16, 69, "dependent action 0 is of queues"},
        {1, 11, 5u << 17 | 1u << 16, 69, "dependent action 5 is of queues"},
        {0, 16, 3u << 5, 69, "a second dependent descriptor"},
        /* sizes */
        {1, 32, 0, 69, "grid of 0x2x3"},
        {1, 36, 0x00010401, 69, "block of 1025x1x1"},
        {1, 36, 0x00000100, 69, "block of 256x0x1"},
        {1, 37, 0x08000001, 69, "0 registers"},
        {1, 37, 0x88200001, 69, "17 barriers"},
        {1, 38, 0x34567808, 69, "program at 0x1234567808"},
        /* shared memory: units, limit, SM_CONFIG */
        {1, 18, 0x3c084040, 69, "units of 128"},
        {1, 19, 0x00009e80, 69, "SM_CONFIG min 0"},
        {1, 19, 0x0000ae89, 69, "SM_CONFIG min 9, target 10"},
        {1, 19, 0x00005e89, 69, "SM_CONFIG min 9, target 5"},
        {1, 18, 0x3d000040, 69, "SM_CONFIG is of 32 KiB"},
        {0, 17, 0x5426c000, 69, "at most 0x29000"},
        {2, 36, 0x04f44b40, 69, "at most 0x19000"},
        /* constant banks */
        {1, 48, 0, 69, "constant bank 0"},
        {1, 49, 0, 69, "constant bank 0"},
        {1, 13, 0, 69, "constant bank 0 is not valid, but"},
        {1, 50, 1, 69, "constant bank 1 is not valid, but"},
        {0, 32, 0x87654010, 69, "multiples of 64"},
        {1, 49, 0x00880000, 13, "its parameters end at 0x220"},
        {1, 48, 0x11111111, 31, "a read of bank 0"},
        /* local memory */
        {1, 16, 0x90000010, 13, "only high ones"},
        {1, 17, 0x01000248, 13, "only high ones"},
        {1, 17, 0x01000260, 13, "the channel was given 0x240000"},
        /* code */
        {1, 38, 0x34567700, 13, "SASS is not simulated"},
        {1, 39, 0x00000013, 31, "instruction fetch"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++)
        refuse_qmd(&gens[cases[i].gen], cases[i].index, cases[i].value,
                   cases[i].code, cases[i].text);
}

/* More registers than an SM has. */
static void
test_refused_registers(void **state)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, &gens[1], add_text);

    (void)state;
    put_word(RIG_QMD + 4 * 36, 0x00010200);
    put_word(RIG_QMD + 4 * 37, 0x08810001);
    launch(c, 0, 0xa);
    (void)rig_expect(&rig, c, 69, "129 registers for 512 threads");
    rig_fini(&rig);
}

/* Each of the driver's words, wrong. */
static void
test_bank_words(void **state)
{
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        const struct gen *g = &gens[i];
        const struct {
            uint32_t offset;
            const char *text;
        } cases[] = {
            {g->ntid, "ntid.x"},
            {g->ntid + 8, "ntid.z"},
            {g->nctaid, "nctaid.x"},
            {g->nctaid + 4, "nctaid.y"},
            {g->shared_window, "the shared window"},
            {g->local_window, "the local window"},
            {g->stack, "the initial stack pointer"},
            {g->param_address, "the address of the parameters"},
            {g->dynamic_shared, "dynamic bytes of shared memory"},
        };
        for (k = 0; k < ARRAY_LEN(cases); k++) {
            struct rig rig;
            struct rig_chan *c;
            if (g->param_address == 0 && cases[k].offset == 0 && k)
                continue;
            c = start(&rig, g, add_text);
            put_word(RIG_BANK0 + cases[k].offset, 0x12345678);
            launch(c, 0, 0xa);
            (void)rig_expect(&rig, c, 13, cases[k].text);
            rig_fini(&rig);
        }
    }
}

/* Words that the kernel does not read may be 0, as tinygrad has them. */
static void
test_unread_words(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        const struct gen *g = &gens[i];
        struct rig rig;
        struct rig_chan *c = start(&rig, g, add_text);

        make_single(g, RIG_QMD, RIG_BANK0);
        put_word(RIG_BANK0 + g->ntid, 0);
        put_word(RIG_BANK0 + g->nctaid + 8, 0);
        if (g->param_address)
            put_word64(RIG_BANK0 + g->param_address, 0);
        launch(c, 0, 0xa);
        rig_finish(&rig, c);
        put_word(RIG_BANK0 + g->nctaid + 4, 0);
        put_word(RIG_QMD + 4 * 13, 1);
        launch(c, 0, 0xa);
        (void)rig_expect(&rig, c, 13, "nctaid.y");
        rig_fini(&rig);
    }
}

/* A bank's size may go beyond what is mapped, as with tinygrad's. */
static void
test_large_bank(void **state)
{
    struct rig rig;
    struct rig_chan *c = start(&rig, &gens[1], add_text);

    (void)state;
    make_single(&gens[1], RIG_QMD, RIG_BANK0);
    put_word(RIG_QMD + 4 * 49, 0x80000000); /* 64 KiB, of which 48 are there */
    put_word64(RIG_DST, 5);
    launch(c, 0, 0xa);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_DST), 1005);
    rig_fini(&rig);
}

/* ---- what methods refuse ---- */

static void
test_refused_methods(void **state)
{
    (void)state;
    RIG_REFUSED("sm_90", GR, 69, "class 0xcbc0 has no method 0x104", 0x20012000,
                0xcbc0, 0x20012041, 0);
    RIG_REFUSED("sm_90", GR, 69, "class 0xcbc0 has no method 0x290", 0x20012000,
                0xcbc0, 0x200120a4, 0);
    RIG_REFUSED("sm_80", GR, 69, "class 0xc6c0 has no method 0x158", 0x20012000,
                0xc6c0, 0x20012056, 0);
    RIG_REFUSED("sm_80", GR, 69, "class 0xc6c0 has no method 0x7ac", 0x20012000,
                0xc6c0, 0x200121eb, 0);
    RIG_REFUSED("sm_90", GR, 69, "class 0xcbc0 has no method 0x3ffc",
                0x20012000, 0xcbc0, 0x20012fff, 0);
    RIG_REFUSED("sm_80", GR, 69, "bits 0x20000 are reserved", 0x20012000,
                0xc6c0, 0x200120a8, 0x20000);
    RIG_REFUSED("sm_80", GR, 69, "bits 0x1000000 are reserved", 0x20012000,
                0xc6c0, 0x200121e4, 0x1000000);
    RIG_REFUSED("sm_90", GR, 69, "bits 0x2 are reserved", 0x20012000, 0xcbc0,
                0x200125a6, 0x1013);
    RIG_REFUSED("sm_90", GR, 69, "action 0x6 is of queues", 0x20012000, 0xcbc0,
                0x200120b0, 6);
    RIG_REFUSED("sm_90", GR, 69, "only an action", 0x20012000, 0xcbc0,
                0x200120b0, 0x10a);
    RIG_REFUSED("sm_90", GR, 31, "the scheduler", 0x20012000, 0xcbc0,
                0x200120ad, 1, 0x200120b0, 0xa);
    RIG_REFUSED("sm_90", GR, 69, "operation 3 or a trap", 0x20012000, 0xcbc0,
                0x200126c3, 3);
    RIG_REFUSED("sm_120", GR, 69, "structure 1, 64-bit", 0x20012000, 0xcec0,
                0x2001205a, 0x1008);
    /* an H100 does; its header has the method, as those of the others */
    RIG_REFUSED("sm_90", GR, 13, "REPORT_SEMAPHORE_EXECUTE 0x1010", 0x20012000,
                0xcbc0, 0x20052056, 8, 9, 0x00200090, 0x10, 0x1010);
    RIG_REFUSED("sm_89", GR, 69, "bits 0x100 are reserved", 0x20012000, 0xc9c0,
                0x20052056, 8, 9, 0x00200090, 0x110, 0x1010);
    RIG_REFUSED("sm_89", GR, 69, "class 0xc9c0 has no method 0x7ac", 0x20012000,
                0xc9c0, 0x200121eb, 0);
    /* inline data */
    RIG_REFUSED("sm_90", GR, 69, "without LAUNCH_DMA", 0x20012000, 0xcbc0,
                0x2001206d, 0);
    RIG_REFUSED("sm_90", GR, 69, "only one line of pitch layout", 0x20012000,
                0xcbc0, 0x20042060, 8, 1, 0x30, 0, 0x2001206c, 0x40);
    RIG_REFUSED("sm_90", GR, 69, "here 2 of 8 bytes", 0x20012000, 0xcbc0,
                0x20042060, 8, 2, 0x30, 0, 0x2001206c, 0x41);
    RIG_REFUSED("sm_90", GR, 69, "of 8 bytes has had only 4", 0x20012000,
                0xcbc0, 0x20042060, 8, 1, 0x30, 0, 0x2001206c, 0x41, 0x2001206d,
                0, 0x20012044, 0);
    RIG_REFUSED("sm_90", GR, 31, "an inline transfer", 0x20012000, 0xcbc0,
                0x20042060, 8, 1, 0x31, 0, 0x2001206c, 0x41, 0x2001206d, 0);
    /* inline descriptors */
    RIG_REFUSED("sm_90", GR, 69, "INLINE_SIZE says 64", 0x20012000, 0xcbc0,
                0x200120c8, 0);
    RIG_REFUSED("sm_90", GR, 69, "LOAD_INLINE_QMD_DATA(1)", 0x20012000, 0xcbc0,
                0x200120c6, 1u << 30, 0x200120c9, 0);
}

/* ---- caches ---- */

static void
test_stale(void **state)
{
    const struct gen *g = &gens[1];
    struct rig rig;
    struct rig_chan *c = start(&rig, g, add_text);

    (void)state;
    /* code: the same bytes again, other bytes with and without an invalidate */
    make_single(g, RIG_QMD, RIG_BANK0);
    launch(c, 0, 0xa);
    rig_finish(&rig, c);
    put_code(RIG_CODE, store_text);
    launch(c, 0, 0xa);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_DST), 1000);
    put_code(RIG_CODE, add_text);
    RIG_PUSH_WORDS(c, 0x200120b0, 0xa);
    (void)rig_expect(&rig, c, 13, "stale code at 0x1234567800");
    rig_fini(&rig);
    /* code over the end of other code that ran */
    c = start(&rig, g, add_text);
    make_single(g, RIG_QMD, RIG_BANK0);
    launch(c, 0, 0xa);
    rig_finish(&rig, c);
    put_code(RIG_CODE + 128, store_text);
    put_word(RIG_QMD + 4 * 38, (uint32_t)RIG_CODE + 128);
    launch(c, 0, 0xa); /* the method */
    rig_finish(&rig, c);
    put_code(RIG_CODE + 256, add_text);
    put_word(RIG_QMD + 4 * 38, (uint32_t)RIG_CODE + 256);
    RIG_PUSH_WORDS(c, 0x200120b0, 0xa);
    (void)rig_expect(&rig, c, 13,
                     "stale code at 0x1234567900: what ran at 0x1234567880");
    rig_fini(&rig);
    /* descriptors: rewritten under an action that does not invalidate */
    c = start(&rig, g, add_text);
    make_single(g, RIG_QMD, RIG_BANK0);
    launch(c, 0, 9);
    launch(c, 0, 9);
    rig_finish(&rig, c);
    put_word(RIG_QMD + 4 * 32, 2);
    launch(c, 0, 9);
    (void)rig_expect(&rig, c, 69, "written anew and scheduled");
    rig_fini(&rig);
    /* constants: a bank written anew, without an invalidation in the
     * descriptor or by a method */
    c = start(&rig, g, add_text);
    make_single(g, RIG_QMD, RIG_BANK0);
    launch(c, 0, 0xa);
    rig_finish(&rig, c);
    put_word64(RIG_BANK0 + g->params + 8, 1);
    RIG_PUSH_WORDS(c, 0x200120b0, 0xa); /* the descriptor's bit */
    rig_finish(&rig, c);
    assert_int_equal(rig_word64(RIG_DST), 1001);
    put_word(RIG_QMD + 4 * 13, 1);
    put_word64(RIG_BANK0 + g->params + 8, 2);
    launch(c, 0, 0xa); /* the method */
    rig_finish(&rig, c);
    assert_int_equal(rig_word64(RIG_DST), 1003);
    put_word64(RIG_BANK0 + g->params + 8, 3);
    RIG_PUSH_WORDS(c, 0x200120b0, 0xa);
    (void)rig_expect(&rig, c, 13, "stale constants: bank 0 at 0xf87654000");
    rig_fini(&rig);
    /* INVALIDATE_SKED_CACHES does */
    c = start(&rig, g, store_text);
    launch(c, 0, 9);
    rig_finish(&rig, c);
    put_word(RIG_QMD + 4 * 32, 2);
    put_word(RIG_BANK0 + g->nctaid, 2);
    RIG_PUSH_WORDS(c, 0x200120a6, 0);
    launch(c, 0, 9);
    rig_finish(&rig, c);
    rig_fini(&rig);
}

/* Windows and local memory of the channel. */
static void
test_channel_state(void **state)
{
    static const struct {
        uint32_t words[3], code;
        const char *text;
    } cases[] = {
        {{0x200220a8, 0x7294, 0x1000000}, 13, "the shared window"},
        {{0x200220a8, 0x7295, 0}, 13, "bank 0 has the shared window"},
        {{0x200221ec, 0x7293, 0x10000}, 13, "multiple of 16 MiB"},
        {{0x200221ec, 0x7292, 0}, 13, "bank 0 has the local window"},
        {{0x200221e4, 0x66, 0}, 31, "the local memory of threads"},
        {{0x200220b9, 0, 0x00238000}, 13, "the channel was given 0x238000"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig rig;
        struct rig_chan *c = start(&rig, &gens[1], add_text);
        rig_push(c, cases[i].words, 3);
        launch(c, 0, 0xa);
        (void)rig_expect(&rig, c, cases[i].code, cases[i].text);
        rig_fini(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_inline_qmd),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_sent_first),
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_bad_chains),
        cmocka_unit_test(test_releases),
        cmocka_unit_test(test_inline_data),
        cmocka_unit_test(test_state_methods),
        cmocka_unit_test(test_kernel_faults),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_unmap_running),
        cmocka_unit_test(test_refused_qmd),
        cmocka_unit_test(test_refused_registers),
        cmocka_unit_test(test_bank_words),
        cmocka_unit_test(test_large_bank),
        cmocka_unit_test(test_unread_words),
        cmocka_unit_test(test_refused_methods),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_channel_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
