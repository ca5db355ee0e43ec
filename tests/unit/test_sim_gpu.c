/* The simulated NVIDIA card: page tables, rings, host methods, semaphores.
 * Words are those of docs/hardware/nvidia-queues.md, "Test vectors", and
 * others written by hand from open-gpu-doc, clc56f.h and clc86f.h, not made by
 * the driver's packers. */
#include "gpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"

#define GR NVGPU_ENGINE_GR
#define CE NVGPU_ENGINE_CE

static const char *const chips[] = {"sm_80", "sm_86",  "sm_89", "sm_90",
                                    "h100",  "sm_100", "sm_120"};

/* ---- page tables ---- */

static void
test_page_tables(void **state)
{
    struct rig rig;
    uint64_t before;
    uint8_t *host;

    (void)state;
    rig_init(&rig, "sm_90", CE);
    before = nvgpu_space_mapped(rig.space);
    host = mmap(NULL, 4u << 20, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(host != MAP_FAILED);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x6000000000, host, 4u << 20, 2u << 20, 0),
        BELL_OK);
    assert_int_equal(nvgpu_space_mapped(rig.space), before + (4u << 20));
    /* overlaps, with pages of every size */
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x6000000000, host, 4096, 4096, 0),
        BELL_E_INVALID);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x60003f0000, host, 131072, 65536, 0),
        BELL_E_INVALID);
    assert_int_equal(nvgpu_space_map(rig.space, 0x6000200000 - (2u << 20), host,
                                     2u << 20, 2u << 20, 0),
                     BELL_E_INVALID);
    assert_int_equal(nvgpu_space_mapped(rig.space), before + (4u << 20));
    /* bad shapes */
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x7000001000, host, 65536, 65536, 0),
        BELL_E_INVALID);
    assert_int_equal(nvgpu_space_map(rig.space, 0x7000000000, host, 0, 4096, 0),
                     BELL_E_INVALID);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x7000000000, host, 8192, 8192, 0),
        BELL_E_INVALID);
    assert_int_equal(
        nvgpu_space_map(rig.space, (1ull << 57) - 4096, host, 8192, 4096, 0),
        BELL_E_INVALID);
    assert_int_equal(
        nvgpu_space_map(rig.space, (1ull << 57) - 4096, host, 4096, 4096, 0),
        BELL_OK);
    nvgpu_space_unmap(rig.space, (1ull << 57) - 4096, 4096);
    /* small pages, gone, then a large one in their place */
    nvgpu_space_unmap(rig.space, 0x6000000000, 4u << 20);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x6000000000, host, 65536, 4096, 0),
        BELL_OK);
    nvgpu_space_unmap(rig.space, 0x6000000000, 65536);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x6000000000, host, 2u << 20, 2u << 20, 0),
        BELL_OK);
    nvgpu_space_unmap(rig.space, 0x6000000000, 2u << 20);
    assert_int_equal(nvgpu_space_mapped(rig.space), before);
    munmap(host, 4u << 20);
    rig_fini(&rig);
}

static void
test_no_memory(void **state)
{
    struct nvgpu *gpu;
    struct nvgpu_space *space;
    static uint8_t page[8192];
    void *host = (void *)align_up((uintptr_t)page, 4096);
    uint64_t n;

    (void)state;
    assert_int_equal(nvgpu_create(nvgpu_chip_find("sm_90", 0), &gpu), BELL_OK);
    for (n = 1;; n++) {
        bell_status status;
        host_fail_after(n, 1);
        status = nvgpu_space_create(gpu, &space);
        if (status == BELL_OK) {
            status = nvgpu_space_map(space, 0x123456000, host, 4096, 4096, 0);
            if (status != BELL_OK)
                assert_int_equal(nvgpu_space_mapped(space), 0);
            nvgpu_space_destroy(space);
        }
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    assert_true(n > 4);
    nvgpu_destroy(gpu);
}

/* Cards and channels that cannot be made leave nothing behind. */
static void
test_no_memory_card(void **state)
{
    static uint32_t userd[128];
    struct nvgpu_chan_desc d = {
        .gpfifo_class = 0xc86f, .n_entries = 16, .userd = userd};
    bell_status status = BELL_E_NO_MEMORY;
    struct nvgpu *gpu;
    uint64_t n;

    (void)state;
    for (n = 1; status != BELL_OK; n++) {
        struct nvgpu_chan *chan = NULL;
        d.space = NULL;
        host_fail_after(n, 0);
        status = nvgpu_create(nvgpu_chip_find("sm_90", 0), &gpu);
        if (status == BELL_OK) {
            status = nvgpu_space_create(gpu, &d.space);
            if (status == BELL_OK)
                status = nvgpu_chan_create(gpu, &d, &chan);
            nvgpu_chan_destroy(chan);
            nvgpu_space_destroy(d.space);
            nvgpu_destroy(gpu);
        }
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
    }
    assert_true(n > 4);
}

/* ---- chips ---- */

static void
test_chips(void **state)
{
    uint32_t n;

    (void)state;
    assert_null(nvgpu_chip_find("sm_70", 0));
    for (n = 0; nvgpu_chip_find(NULL, n); n++) {
        const struct nvgpu_chip *c = nvgpu_chip_find(NULL, n);
        const uint32_t want[] = {c->gpfifo_class, c->compute_class,
                                 c->copy_class, c->usermode_class};
        size_t i;
        assert_string_equal(c->name, chips[n]);
        for (i = 0; i < ARRAY_LEN(want); i++) {
            assert_true(nvgpu_has_class(c, want[i]));
        }
    }
    assert_int_equal(n, ARRAY_LEN(chips));
}

static void
test_bad_channels(void **state)
{
    struct nvgpu_chan_desc d, good;
    struct nvgpu_chan *chan;
    struct rig rig;

    (void)state;
    rig_init(&rig, "sm_80", GR);
    good = (struct nvgpu_chan_desc){.space = rig.space,
                                    .gpfifo_class = 0xc56f,
                                    .gpfifo_va = RIG_CTRL,
                                    .n_entries = 16,
                                    .userd = rig_at(RIG_CTRL + 0x400)};
    d = good;
    d.gpfifo_class = 0xc86f;
    assert_int_equal(nvgpu_chan_create(rig.gpu, &d, &chan), BELL_E_INVALID);
    d = good;
    d.gpfifo_class = 0xc6c0;
    assert_int_equal(nvgpu_chan_create(rig.gpu, &d, &chan), BELL_E_INVALID);
    d = good;
    d.engine = CE;
    d.engine_index = 10;
    assert_int_equal(nvgpu_chan_create(rig.gpu, &d, &chan), BELL_E_INVALID);
    d = good;
    d.n_entries = 12;
    assert_int_equal(nvgpu_chan_create(rig.gpu, &d, &chan), BELL_E_INVALID);
    d = good;
    d.userd = NULL;
    assert_int_equal(nvgpu_chan_create(rig.gpu, &d, &chan), BELL_E_INVALID);
    rig_fini(&rig);
}

/* ---- semaphores ---- */

/* Section 15: release of 5 with WFI and time, acquire >= 5. */
static void
test_vectors_host(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        struct rig rig;
        struct rig_chan *c = &rig.chans[0];
        uint64_t before, after;
        rig_init(&rig, chips[i], GR);
        before = nvgpu_time_ns(rig.gpu);
        RIG_PUSH_WORDS(c, 0x20050017, 0x00200010, 0x00000010, 0x00000005, 0,
                       0x03100001);
        RIG_PUSH_WORDS(c, 0x20050017, 0x00200010, 0x00000010, 0x00000005, 0,
                       0x01000003);
        rig_finish(&rig, c);
        after = nvgpu_time_ns(rig.gpu);
        assert_int_equal(rig_word64(RIG_SEM + 0x10), 5);
        assert_in_range(rig_word64(RIG_SEM + 0x18), before, after);
        assert_int_equal(c->userd[0x88 / 4], 3);
        rig_fini(&rig);
    }
}

/* What a semaphore holds, what is asked of it, and whether that is so. */
static const struct {
    uint64_t have, want;
    uint32_t execute;
    bool is_met;
} acquires[] = {
    {7, 7, 0x01000000, true},
    {7, 8, 0x01000000, false},
    {0x100000007, 7, 0x01000000, false},
    {0x100000007, 7, 0x00000000, true},
    {8, 7, 0x01000002, true},
    {7, 7, 0x00000002, true},
    {6, 7, 0x01000002, false},
    {0xffffffffffffffff, 7, 0x01000002, true},
    {8, 7, 0x01001003, true},
    {6, 7, 0x00000003, false},
    {1, 0xfffffffe, 0x00000003, true}, /* it went round */
    {1, 0xfffffffe, 0x01000003, false},
    {0xfffffffffffffffe, 1, 0x01000003, false},
    {6, 4, 0x00000004, true},
    {6, 1, 0x01000004, false},
    {0x0ffffffff, 0xf0000000, 0x00000005, false},
    {0x00fffffff, 0x70000000, 0x00000005, true},
    {0xffffffff, 0, 0x01000005, true},
};

static void
test_acquire(void **state)
{
    struct rig rig;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(acquires); i++) {
        struct rig_chan *c = &rig.chans[0];
        _Atomic uint64_t *word;
        uint32_t op = acquires[i].execute & 7;
        /* from Hopper on there are two of them */
        rig_init(&rig, op == 0 || op == 3 ? chips[i % 3] : "sm_80", GR);
        word = rig_at(RIG_SEM);
        atomic_store(word, acquires[i].have);
        RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM,
                       (uint32_t)(RIG_SEM >> 32), (uint32_t)acquires[i].want,
                       (uint32_t)(acquires[i].want >> 32), acquires[i].execute);
        if (acquires[i].is_met) {
            rig_finish(&rig, c);
        } else {
            RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM + 16,
                           (uint32_t)(RIG_SEM >> 32), 1, 0, 0x00000001);
            rig_ring(&rig, c);
            rig_sleep_ms(2);
            assert_int_equal(rig_word(RIG_SEM + 16), 0);
            assert_false(
                nvgpu_chan_fault(c->chan, &(struct nvgpu_fault){.code = 0}));
        }
        /* ends also where it still waits */
        rig_fini(&rig);
    }
}

static void
test_acquire_later(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];

    (void)state;
    rig_init(&rig, "sm_90", GR);
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   100, 0, 0x01000003, 0x20050017, (uint32_t)RIG_SEM + 16,
                   (uint32_t)(RIG_SEM >> 32), 1, 0, 0x00000001);
    rig_ring(&rig, c);
    rig_sleep_ms(20);
    assert_int_equal(rig_word(RIG_SEM + 16), 0);
    atomic_store((_Atomic uint64_t *)rig_at(RIG_SEM), 101);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM + 16), 1);
    rig_fini(&rig);
}

/* Reductions: operation, sign bit, before, payload, after; 32 and 64 bits. */
static const struct {
    uint32_t execute;
    uint64_t have, payload, want;
} reductions[] = {
    {0x80000006 | 0u << 27, 5, 3, 3},
    {0x00000006 | 0u << 27, 5, 0xfffffffe, 0xfffffffe},
    {0x80000006 | 0u << 27, 5, 0xfffffffe, 5},
    {0x00000006 | 1u << 27, 5, 0xfffffffe, 5},
    {0x81000006 | 1u << 27, 5, 0xfffffffffe, 0xfffffffffe},
    {0x01000006 | 1u << 27, 5, 0xfffffffffffffffe, 5},
    {0x01000006 | 2u << 27, 0xff, 0x0f0, 0x0f},
    {0x01000006 | 3u << 27, 0xff, 0x1f0, 0xf0},
    {0x01000006 | 4u << 27, 0x0f, 0x1f0, 0x1ff},
    {0x01000006 | 5u << 27, 0xffffffff, 1, 0x100000000},
    {0x00000006 | 5u << 27, 0xffffffff, 1, 0},
    {0x81000006 | 6u << 27, 4, 5, 5},
    {0x81000006 | 6u << 27, 5, 5, 0},
    {0x81000006 | 7u << 27, 0, 5, 5},
    {0x81000006 | 7u << 27, 3, 5, 2},
};

static void
test_reductions(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    size_t i;

    (void)state;
    rig_init(&rig, "sm_80", CE);
    for (i = 0; i < ARRAY_LEN(reductions); i++) {
        atomic_store((_Atomic uint64_t *)rig_at(RIG_SEM), reductions[i].have);
        RIG_PUSH_WORDS(
            c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
            (uint32_t)reductions[i].payload,
            (uint32_t)(reductions[i].payload >> 32), reductions[i].execute);
        rig_finish(&rig, c);
        assert_int_equal(rig_word64(RIG_SEM), reductions[i].want);
    }
    rig_fini(&rig);
}

static void
test_release_shapes(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];

    (void)state;
    rig_init(&rig, "sm_120", CE);
    memset(rig_at(RIG_SEM), 0x55, 64);
    /* 32 bits, no time */
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM + 4,
                   (uint32_t)(RIG_SEM >> 32), 1, 2, 0x00000001);
    /* 64 bits, no time */
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM + 16,
                   (uint32_t)(RIG_SEM >> 32), 1, 2, 0x01000001);
    /* 32 bits, time */
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM + 32,
                   (uint32_t)(RIG_SEM >> 32), 9, 2, 0x02100001);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 0x55555555);
    assert_int_equal(rig_word(RIG_SEM + 4), 1);
    assert_int_equal(rig_word(RIG_SEM + 8), 0x55555555);
    assert_int_equal(rig_word64(RIG_SEM + 16), 0x200000001);
    assert_int_equal(rig_word(RIG_SEM + 24), 0x55555555);
    assert_int_equal(rig_word64(RIG_SEM + 32), 9);
    assert_true(nvgpu_time_ns(rig.gpu) - rig_word64(RIG_SEM + 40) <
                60000000000);
    rig_fini(&rig);
}

/* ---- headers, entries ---- */

static void
test_headers(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    uint64_t va;

    (void)state;
    rig_init(&rig, "sm_80", GR);
    /* ONEINC: the first word to SEM_EXECUTE's neighbour, and so on */
    RIG_PUSH_WORDS(c, 0x20010017, (uint32_t)RIG_SEM, 0x20010018,
                   (uint32_t)(RIG_SEM >> 32), 0xa0020019, 3, 4, 0x8001001b);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 3);
    /* immediate; several releases that do not increment */
    RIG_PUSH_WORDS(c, 0x20020017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   0x80070019, 0x6002001b, 1, 0x28000006 | 0x80000000);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 14);
    /* the segment's end, in the middle; an entry at the other level */
    va = RIG_PUSH_WORDS(c, 0x20020017, (uint32_t)RIG_SEM,
                        (uint32_t)(RIG_SEM >> 32), 0x80050019, 0x8001001b,
                        0xe0000000, 0xffffffff);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 5);
    rig_entry(c, va | 5ull << 42 | 1ull << 41);
    rig_entry(c, va | 5ull << 42 | 1ull << 63);
    rig_entry(c, 0); /* control entry: nothing */
    atomic_store((_Atomic uint32_t *)rig_at(RIG_SEM), 0);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 5);
    /* count 0: nothing */
    RIG_PUSH_WORDS(c, 0x20000017, 0x60000017, 0xa0000017);
    rig_finish(&rig, c);
    rig_fini(&rig);

    RIG_REFUSED("sm_90", GR, 32, "0x00001000 is not a header", 0x1000);
    RIG_REFUSED("sm_90", GR, 32, "0x40050017 is not a header", 0x40050017);
    RIG_REFUSED("sm_90", GR, 32, "0xc0000000 is not a header", 0xc0000000);
    RIG_REFUSED("sm_90", GR, 32, "0x20011017 is not a header", 0x20011017, 0);
    RIG_REFUSED("sm_90", GR, 32, "wants 2 words, the segment has 1 more",
                0x20020017, 0);
}

static void
refuse_entry(const char *chip, uint32_t code, uint64_t entry, const char *text)
{
    struct rig rig;

    rig_init(&rig, chip, GR);
    rig_entry(&rig.chans[0], entry);
    (void)rig_expect(&rig, &rig.chans[0], code, text);
    rig_fini(&rig);
}

/* Section 15: an entry for 40 words at 0x1234567000, and a high one. */
static void
test_entries(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    uint32_t nops[40], i;
    void *host;

    (void)state;
    for (i = 0; i < 40; i += 2) {
        nops[i] = 0x20010002;
        nops[i + 1] = i;
    }
    rig_init(&rig, "sm_90", GR);
    memcpy(rig_at(0x1234567000), nops, sizeof(nops));
    rig_entry(c, 0x0000a01234567000);
    rig_entry(c, 0x0000a21234567000);
    rig_finish(&rig, c);
    /* 0x7f1234567000 is another place */
    host = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(host != MAP_FAILED);
    assert_int_equal(
        nvgpu_space_map(rig.space, 0x7f1234560000, host, 65536, 65536, 0),
        BELL_OK);
    memcpy((char *)host + 0x7000, nops, sizeof(nops));
    memset(rig_at(0x1234567000), 0, sizeof(nops));
    rig_entry(c, 0x0000000400007f00);
    rig_entry(c, 0x0000a01234567000);
    rig_entry(c, 0x0000000400000000);
    rig_finish(&rig, c);
    nvgpu_space_unmap(rig.space, 0x7f1234560000, 65536);
    munmap(host, 65536);
    rig_fini(&rig);

    refuse_entry("sm_80", 32, 0x0000000400007f00, "no operation 4");
    refuse_entry("sm_90", 32, 0x0000000400007f01, "reserved bits");
    refuse_entry("sm_90", 32, 0x0000000100000000, "no operation 1");
    refuse_entry("sm_90", 32, 0x0000a01234567001, "conditional or reserved");
    refuse_entry("sm_90", 32, 0x0000a01234567002, "conditional or reserved");
    refuse_entry("sm_90", 32, 0x0000a11234567000, "conditional or reserved");
    refuse_entry("sm_90", 31, 0x0000a012345f7000, "pushbuffer fetch");
}

static void
test_ring_wrap(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    uint32_t i;

    (void)state;
    rig_init(&rig, "sm_90", CE);
    for (i = 0; i < 3 * RIG_N_ENTRIES; i++) {
        RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM,
                       (uint32_t)(RIG_SEM >> 32), i, 0, 0x00000001);
        if (i % 5 == 0)
            rig_finish(&rig, c);
    }
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), i - 1);
    /* GPPut out of range */
    atomic_store(&c->userd[0x8c / 4], RIG_N_ENTRIES);
    c->put = RIG_N_ENTRIES;
    (void)rig_expect(&rig, c, 32, "GPPut 16, but the ring has 16 entries");
    rig_fini(&rig);
}

/* ---- the doorbell ---- */

static void
test_doorbell(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    char text[128];
    uint64_t low, high, now;

    (void)state;
    rig_init(&rig, "sm_90", GR);
    assert_false(nvgpu_bell_error(rig.gpu, text, sizeof(text)));
    /* the window: time goes on, the doorbell reads as 0 */
    now = nvgpu_time_ns(rig.gpu);
    do {
        high = rig.window[0x84 / 4];
        low = rig.window[0x80 / 4];
    } while ((high << 32 | low) < now);
    assert_true((high << 32 | low) < now + 60000000000);
    /* nothing happens without a ring */
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   7, 0, 0x00000001);
    atomic_store(&c->userd[0x8c / 4], c->put);
    rig_sleep_ms(5);
    assert_int_equal(rig_word(RIG_SEM), 0);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 7);
    assert_int_equal(rig.window[0x90 / 4], 0);
    /* a token that nobody has */
    atomic_store(&rig.window[0x90 / 4], 0x00070123);
    while (!nvgpu_bell_error(rig.gpu, text, sizeof(text)))
        rig_sleep_ms(1);
    assert_non_null(strstr(text, "0x70123"));
    rig_fini(&rig);
}

static void
test_disabled(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];

    (void)state;
    rig_init(&rig, "sm_90", GR);
    nvgpu_chan_enable(c->chan, false);
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   7, 0, 0x00000001);
    rig_ring(&rig, c);
    rig_sleep_ms(5);
    assert_int_equal(rig_word(RIG_SEM), 0);
    nvgpu_chan_enable(c->chan, true);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_SEM), 7);
    /* another one's fault: the notifier, and nothing more happens */
    nvgpu_chan_kill(c->chan, 45);
    assert_int_equal(c->notifier[2], 45);
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   8, 0, 0x00000001);
    rig_ring(&rig, c);
    rig_sleep_ms(5);
    assert_int_equal(rig_word(RIG_SEM), 7);
    assert_int_equal(atomic_load(&c->n_faults), 0);
    rig_fini(&rig);
}

/* Two channels that wait for one another, many times; rings overwrite one
 * another. */
static void
test_two_channels(void **state)
{
    struct rig rig;
    struct rig_chan *a, *b;
    uint32_t i;

    (void)state;
    rig_init(&rig, "sm_90", GR);
    a = &rig.chans[0];
    b = rig_add(&rig, CE, 0xc56f);
    assert_int_not_equal(nvgpu_chan_token(a->chan), nvgpu_chan_token(b->chan));
    for (i = 1; i <= 200; i++) {
        RIG_PUSH_WORDS(a, 0x20050017, (uint32_t)RIG_SEM,
                       (uint32_t)(RIG_SEM >> 32), i, 0, 0x01000003, 0x20050017,
                       (uint32_t)RIG_SEM + 16, (uint32_t)(RIG_SEM >> 32), i, 0,
                       0x01000001);
        RIG_PUSH_WORDS(b, 0x20050017, (uint32_t)RIG_SEM,
                       (uint32_t)(RIG_SEM >> 32), i, 0, 0x01000001, 0x20050017,
                       (uint32_t)RIG_SEM + 16, (uint32_t)(RIG_SEM >> 32), i, 0,
                       0x01000003);
        rig_ring(&rig, a);
        rig_ring(&rig, b);
        if (i % 4 == 0) {
            rig_finish(&rig, a);
            rig_finish(&rig, b);
        }
    }
    assert_int_equal(rig_word(RIG_SEM + 16), 200);
    rig_fini(&rig);
}

/* ---- what host methods refuse ---- */

static void
test_refused_host(void **state)
{
    (void)state;
    /* no class, a class that was not made, subchannels */
    RIG_REFUSED("sm_90", GR, 32, "no class is bound to subchannel 1",
                0x200120ad, 0);
    RIG_REFUSED("sm_90", GR, 32, "no object of class 0xcdc0", 0x20012000,
                0xcdc0);
    RIG_REFUSED("sm_90", CE, 32, "no object of class 0xcbc0", 0x20012000,
                0xcbc0);
    RIG_REFUSED("sm_90", GR, 32, "engine or reserved bits", 0x20012000,
                0x1cbc0);
    RIG_REFUSED("sm_90", GR, 32, "subchannel 1 of a graphics channel",
                0x20012000, 0xc8b5);
    RIG_REFUSED("sm_90", GR, 32, "subchannel 4 of a graphics channel",
                0x20018000, 0xcbc0);
    RIG_REFUSED("sm_90", GR, 32, "does not go to subchannel 5", 0x2001a000,
                0xcbc0);
    RIG_REFUSED("sm_90", CE, 32, "no class is bound to subchannel 4",
                0x200180c0, 0x182);
    /* methods and bits */
    RIG_REFUSED("sm_90", GR, 32, "ILLEGAL", 0x20010001, 0);
    RIG_REFUSED("sm_90", GR, 32, "unknown or privileged host method",
                0x20010010, 0);
    RIG_REFUSED("sm_90", GR, 32, "unknown or privileged host method",
                0x20010021, 0);
    RIG_REFUSED("sm_90", GR, 32, "reserved", 0x20010008, 1);
    RIG_REFUSED("sm_90", GR, 32, "reserved", 0x20010017, 0x1002);
    RIG_REFUSED("sm_80", GR, 32, "reserved", 0x20010018, 0x100);
    RIG_REFUSED("sm_90", GR, 32, "reserved", 0x20010018, 0x2000000);
    RIG_REFUSED("sm_90", GR, 32, "reserved", 0x2001001e, 2);
    RIG_REFUSED("sm_80", GR, 32, "0xc56f has no operation 7", 0x2001001b, 7);
    RIG_REFUSED("sm_90", GR, 32, "0xc86f has no operation 2", 0x2001001b, 2);
    RIG_REFUSED("sm_90", CE, 32, "0xc86f has no operation 4", 0x2001001b, 4);
    RIG_REFUSED("sm_90", GR, 32, "0xc86f has no operation 5", 0x2001001b, 5);
    RIG_REFUSED("sm_120", GR, 32, "0xca6f has no operation 4", 0x2001001b, 4);
    RIG_REFUSED("sm_120", GR, 32, "0xca6f has no operation 6", 0x2001001b, 6);
    RIG_REFUSED("sm_90", GR, 32, "operation 1 has no bits 0x1000", 0x2001001b,
                0x1001);
    RIG_REFUSED("sm_90", GR, 32, "operation 3 has no bits 0x100000", 0x2001001b,
                0x100003);
    RIG_REFUSED("sm_80", GR, 32, "reduction 8", 0x2001001b, 0x40000006);
    /* alignment: 8 bytes, and 16 with a time */
    RIG_REFUSED("sm_90", GR, 32, "0x1000200004 is not a multiple of 8",
                0x20050017, 0x00200004, 0x10, 1, 0, 0x01000001);
    RIG_REFUSED("sm_90", GR, 32, "0x1000200008 is not a multiple of 16",
                0x20050017, 0x00200008, 0x10, 1, 0, 0x03000001);
    RIG_REFUSED("sm_90", GR, 32, "acquire of 8 bytes at 0x1000200004",
                0x20050017, 0x00200004, 0x10, 1, 0, 0x01000003);
    /* memory operations */
    RIG_REFUSED("sm_90", GR, 32, "operation 0x9 is privileged", 0x2004000a, 0,
                0, 0, 9u << 27);
    RIG_REFUSED("sm_90", GR, 32, "membar with words", 0x2004000a, 1, 0, 0,
                5u << 27);
    RIG_REFUSED("sm_90", GR, 32, "with bits 0x1", 0x2004000a, 0, 0, 0,
                5u << 27 | 1);
}

static void
test_host_methods(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];

    (void)state;
    rig_init(&rig, "sm_90", GR);
    RIG_PUSH_WORDS(c, 0x20010002, 0x12345678, /* NOP */
                   0x20010008, 0,             /* NON_STALL_INTERRUPT */
                   0x2004000a, 0, 0, 0, 5u << 27, 0x2004000a, 0, 0, 1, 5u << 27,
                   0x2001000d, 0x10u << 27, 0x2001000d, 0xeu << 27, /* MEM_OP */
                   0x2001001e, 1,                                   /* WFI */
                   0x20010014, 0xabcd, /* SET_REFERENCE */
                   0x20010020, 3);     /* YIELD */
    rig_finish(&rig, c);
    assert_int_equal(c->userd[0x48 / 4], 0xabcd);
    rig_fini(&rig);
}

static void
test_mmu_faults(void **state)
{
    struct nvgpu_fault f;
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];

    (void)state;
    rig_init(&rig, "sm_90", GR);
    RIG_PUSH_WORDS(c, 0x20050017, 0x30, 0x99, 1, 0, 0x01000001);
    f = rig_expect(&rig, c, 31, "nothing is mapped there");
    assert_int_equal(f.va, 0x9900000030);
    assert_int_equal(f.access, 1);
    assert_false(f.is_sm);
    /* what comes after is ignored */
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)RIG_SEM, (uint32_t)(RIG_SEM >> 32),
                   1, 0, 0x01000001);
    rig_ring(&rig, c);
    rig_sleep_ms(5);
    assert_int_equal(rig_word(RIG_SEM), 0);
    rig_fini(&rig);
    RIG_REFUSED("sm_90", GR, 31, "the page is read-only", 0x20050017, 0, 0x31,
                1, 0, 0x01000001);
    RIG_REFUSED("sm_90", GR, 31, "MMU fault: read at 0x9900000000", 0x20050017,
                0, 0x99, 1, 0, 0x01000003);
    RIG_REFUSED("sm_80", GR, 31, "MMU fault: atomic at 0x9900000000",
                0x20050017, 0, 0x99, 1, 0, 0x29000006);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_tables),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_card),
        cmocka_unit_test(test_chips),
        cmocka_unit_test(test_bad_channels),
        cmocka_unit_test(test_vectors_host),
        cmocka_unit_test(test_acquire),
        cmocka_unit_test(test_acquire_later),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_release_shapes),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_ring_wrap),
        cmocka_unit_test(test_doorbell),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_two_channels),
        cmocka_unit_test(test_refused_host),
        cmocka_unit_test(test_host_methods),
        cmocka_unit_test(test_mmu_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
