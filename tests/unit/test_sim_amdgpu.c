/* sim/amd: queues of the simulated card without a kernel driver: copies and
 * fills by the command processor and the copy engine, of every size and place,
 * and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/map.h"
#include "base/thread.h"
#include "sim/amd/gpu/gpu.h"

/* What is mapped, with a hole behind each. The host's memory is one piece. */
#define RING_VA    0x7f0000000000ull
#define RING_BYTES 0x4000u
#define CTRL_VA    0x7f0000010000ull /* pointers, then what is waited for */
#define EOP_VA     0x7f0000020000ull
#define SRC_VA     0x7f0000100000ull
#define DST_VA     0x7f0000200000ull
#define RO_VA      0x7f0000300000ull
#define AREA_BYTES 0x20000u

#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

struct rig {
    struct amdsim *gpu;
    struct amdsim_space *space;
    struct amdsim_queue *queue;
    bool is_sdma, gfx9;
    uint32_t *ring, *ctrl;
    uint8_t *eop, *src, *dst, *ro;
    uint64_t put, bell; /* words */
    uint32_t done;
    _Atomic uint32_t n_faults, context_id;
    struct amdsim_fault fault;
};

static void
on_fault(void *user, const struct amdsim_fault *fault)
{
    struct rig *r = user;

    r->fault = *fault;
    atomic_fetch_add(&r->n_faults, 1);
}

static void
on_interrupt(void *user, uint32_t context_id)
{
    atomic_store(&((struct rig *)user)->context_id, context_id);
}

static void *
map(struct rig *r, uint64_t va, uint32_t n_bytes, uint32_t flags)
{
    void *host = aligned_alloc(4096, n_bytes);

    assert_non_null(host);
    memset(host, 0, n_bytes);
    assert_int_equal(amdsim_space_map(r->space, va, host, n_bytes,
                                      flags | AMDSIM_MAP_SYSTEM, -1),
                     BELL_OK);
    return host;
}

static void
start(struct rig *r, const char *chip, enum amdsim_queue_kind kind)
{
    struct amdsim_queue_desc desc = {
        .kind = kind,
        .ring_va = RING_VA,
        .ring_bytes = RING_BYTES,
        .rptr_va = CTRL_VA,
        .wptr_va = CTRL_VA + 8,
        .eop_va = EOP_VA,
        .interrupt = on_interrupt,
        .fault = on_fault,
        .user = r,
    };

    struct amdsim_chip facts;

    memset(r, 0, sizeof(*r));
    r->is_sdma = kind == AMDSIM_QUEUE_SDMA;
    assert_true(amdsim_chip_make(chip, &facts));
    r->gfx9 = facts.gfx == 9;
    assert_int_equal(amdsim_create(&facts, &r->gpu), BELL_OK);
    assert_int_equal(amdsim_space_create(r->gpu, &r->space), BELL_OK);
    r->ring = map(r, RING_VA, RING_BYTES, AMDSIM_MAP_WRITABLE);
    r->ctrl = map(r, CTRL_VA, 4096, AMDSIM_MAP_WRITABLE);
    r->eop = map(r, EOP_VA, 4096, AMDSIM_MAP_WRITABLE);
    r->src =
        map(r, SRC_VA, AREA_BYTES, AMDSIM_MAP_WRITABLE | AMDSIM_MAP_EXECUTABLE);
    r->dst = map(r, DST_VA, AREA_BYTES, AMDSIM_MAP_WRITABLE);
    r->ro = map(r, RO_VA, AREA_BYTES, 0);
    desc.space = r->space;
    desc.doorbell = &r->bell;
    assert_int_equal(amdsim_queue_create(r->gpu, &desc, &r->queue), BELL_OK);
}

static void
stop(struct rig *r)
{
    amdsim_queue_destroy(r->queue);
    amdsim_space_destroy(r->space);
    amdsim_destroy(r->gpu);
    free(r->ring);
    free(r->ctrl);
    free(r->eop);
    free(r->src);
    free(r->dst);
    free(r->ro);
}

/* ---- packets ------------------------------------------------------------- */

static void
push(struct rig *r, const uint32_t *words, size_t n)
{
    size_t i;

    if (r->is_sdma) /* packets do not go round */
        while (r->put % (RING_BYTES / 4) + n > RING_BYTES / 4)
            r->ring[r->put++ % (RING_BYTES / 4)] = 0;
    for (i = 0; i < n; i++)
        r->ring[r->put++ % (RING_BYTES / 4)] = words[i];
}
#define PUSH(r, ...)                                                           \
    push(r, (const uint32_t[]){__VA_ARGS__},                                   \
         sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void
ring(struct rig *r)
{
    uint64_t put = r->is_sdma ? 4 * r->put : r->put;

    __atomic_store_n((uint64_t *)(void *)(r->ctrl + 2), put, __ATOMIC_RELEASE);
    __atomic_store_n(&r->bell, put, __ATOMIC_RELEASE);
}

/* Until all is done; false: a fault came. */
static bool
finish(struct rig *r)
{
    uint64_t until = time_now_ns() + 5000000000ull;
    uint32_t *word = r->ctrl + 64;

    r->done++;
    if (r->is_sdma)
        PUSH(r, r->gfx9 ? 0x5 : 0x00030005, LO(CTRL_VA + 256), HI(CTRL_VA),
             r->done);
    else
        PUSH(r, 0xc0033700, 0x00100500, LO(CTRL_VA + 256), HI(CTRL_VA),
             r->done);
    ring(r);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != r->done) {
        struct timespec nap = {0, 50000};

        if (atomic_load(&r->n_faults))
            return false;
        if (time_now_ns() > until)
            fail_msg("neither done nor a fault");
        nanosleep(&nap, NULL);
    }
    return true;
}

static void
push_dma(struct rig *r, uint32_t control, uint64_t src, uint64_t dst,
         uint32_t command)
{
    PUSH(r, 0xc0055000, control, LO(src), HI(src), LO(dst), HI(dst), command);
}

/* What one DMA_DATA of gfx11 takes, a multiple of 4. */
#define DMA_BYTES 0x7ffcu

static void
push_copy(struct rig *r, uint64_t src, uint64_t dst, uint32_t n_bytes)
{
    uint32_t done, n;

    if (r->is_sdma)
        PUSH(r, 1, n_bytes - 1, 0, LO(src), HI(src), LO(dst), HI(dst));
    for (done = 0; !r->is_sdma && done < n_bytes; done += n) {
        n = n_bytes - done < DMA_BYTES ? n_bytes - done : DMA_BYTES;
        /* through L2, CP_SYNC, streaming; RAW_WAIT */
        push_dma(r, 0xe2302000, src + done, dst + done, n | 1u << 30);
    }
}

static void
push_fill(struct rig *r, uint32_t word, uint64_t dst, uint32_t n_bytes)
{
    uint32_t done, n;

    if (r->is_sdma)
        PUSH(r, 0x8000000b, LO(dst), HI(dst), word, n_bytes - 1);
    for (done = 0; !r->is_sdma && done < n_bytes; done += n) {
        n = n_bytes - done < DMA_BYTES ? n_bytes - done : DMA_BYTES;
        push_dma(r, 0xc0000000, word, dst + done, n);
    }
}

/* ---- tests --------------------------------------------------------------- */

static const struct {
    const char *chip;
    enum amdsim_queue_kind kind;
} kinds[] = {
    {"gfx1100", AMDSIM_QUEUE_PM4}, {"gfx1100", AMDSIM_QUEUE_SDMA},
    {"gfx90a", AMDSIM_QUEUE_PM4},  {"gfx90a", AMDSIM_QUEUE_SDMA},
    {"gfx1030", AMDSIM_QUEUE_PM4}, {"gfx1030", AMDSIM_QUEUE_SDMA},
    {"gfx1201", AMDSIM_QUEUE_PM4}, {"gfx1201", AMDSIM_QUEUE_SDMA},
};

static void
set_areas(struct rig *r)
{
    uint32_t i;

    for (i = 0; i < AREA_BYTES; i++)
        r->src[i] = (uint8_t)hash_mix(i);
    memset(r->dst, 0xee, AREA_BYTES);
}

/* Nothing around a copy or fill changes. */
static void
check_around(const struct rig *r, uint32_t at, uint32_t n_bytes)
{
    uint32_t i;

    for (i = 0; i < AREA_BYTES; i++) {
        if ((i < at || i >= at + n_bytes) && r->dst[i] != 0xee)
            fail_msg("byte 0x%x, beside %u bytes at 0x%x", i, n_bytes, at);
    }
}

static void
test_copies(void **state)
{
    static const struct {
        uint32_t src, dst, n_bytes;
    } cases[] = {
        {0, 0, 4096},    {0, 0, 1},          {3, 5, 4097},    {4095, 1, 2},
        {1, 4094, 9000}, {0, 0, AREA_BYTES}, {17, 17, 65535}, {0x1000, 64, 12},
    };
    struct rig r;
    size_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        start(&r, kinds[k].chip, kinds[k].kind);
        for (i = 0; i < ARRAY_LEN(cases); i++) {
            set_areas(&r);
            push_copy(&r, SRC_VA + cases[i].src, DST_VA + cases[i].dst,
                      cases[i].n_bytes);
            if (!finish(&r))
                fail_msg("%s", r.fault.text);
            assert_memory_equal(r.dst + cases[i].dst, r.src + cases[i].src,
                                cases[i].n_bytes);
            check_around(&r, cases[i].dst, cases[i].n_bytes);
        }
        stop(&r);
    }
}

static void
test_fills(void **state)
{
    static const struct {
        uint32_t dst, n_bytes;
    } cases[] = {{0, 4}, {4092, 8}, {64, 65536}, {0, AREA_BYTES}};
    struct rig r;
    size_t k, i;
    uint32_t n;

    (void)state;
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        start(&r, kinds[k].chip, kinds[k].kind);
        for (i = 0; i < ARRAY_LEN(cases); i++) {
            set_areas(&r);
            push_fill(&r, 0x04030201, DST_VA + cases[i].dst, cases[i].n_bytes);
            if (!finish(&r))
                fail_msg("%s", r.fault.text);
            for (n = 0; n < cases[i].n_bytes; n++)
                assert_int_equal(r.dst[cases[i].dst + n], 1 + n % 4);
            check_around(&r, cases[i].dst, cases[i].n_bytes);
        }
        stop(&r);
    }
}

/* Many in a row, more than the ring has room for at once; and one of nothing,
 * which waits for those before. */
static void
test_rows(void **state)
{
    struct rig r;
    uint32_t i, k;

    (void)state;
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    set_areas(&r);
    push_dma(&r, 0x80000000, 0, 0, 0);
    for (k = 0; k < 20; k++) {
        for (i = 0; i < 200; i++)
            push_fill(&r, k << 16 | i, DST_VA + 4 * i, 4);
        assert_true(finish(&r));
        for (i = 0; i < 200; i++)
            assert_int_equal(((uint32_t *)(void *)r.dst)[i], k << 16 | i);
    }
    stop(&r);
}

/* ---- indirect buffers ---------------------------------------------------- */

static void
push_ib(struct rig *r, uint64_t va, uint32_t n_dw)
{
    PUSH(r, 0xc0023f00, LO(va), HI(va), n_dw | 1u << 23);
}

/* Over many pages, and packets across their ends; one packet of the largest
 * size. */
static void
test_indirect(void **state)
{
    struct rig r;
    uint32_t n = 0, i, *w;

    (void)state;
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    set_areas(&r);
    w = (uint32_t *)(void *)r.src;
    for (i = 0; i < 3000; i++) {
        w[n++] = 0xc0033700;
        w[n++] = 0x00100500;
        w[n++] = LO(DST_VA + 4 * i);
        w[n++] = HI(DST_VA);
        w[n++] = i ^ 0xabcd;
    }
    w[n++] = 0xc0001000 | 0x3ffe << 16;
    n += 0x3fff;
    assert_true(4 * n < AREA_BYTES);
    push_ib(&r, SRC_VA, n);
    if (!finish(&r))
        fail_msg("%s", r.fault.text);
    for (i = 0; i < 3000; i++)
        assert_int_equal(((uint32_t *)(void *)r.dst)[i], i ^ 0xabcd);
    stop(&r);
}

/* Its memory goes while it waits: a fault with the packet's address. */
static void
test_indirect_unmapped(void **state)
{
    static const uint32_t wait[] = {
        0xc0053c00, 0x13, LO(CTRL_VA + 512), HI(CTRL_VA), 1, 0xffffffff, 4};
    struct rig r;

    (void)state;
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    PUSH(&r, 0xc0033700, 0x00100500, LO(CTRL_VA + 516), HI(CTRL_VA), 9);
    memcpy(r.src, wait, sizeof(wait));
    push_ib(&r, SRC_VA, 2 * ARRAY_LEN(wait));
    ring(&r);
    while (__atomic_load_n(r.ctrl + 129, __ATOMIC_ACQUIRE) != 9)
        nanosleep(&(struct timespec){0, 50000}, NULL);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    amdsim_space_unmap(r.space, SRC_VA, AREA_BYTES);
    memset(r.src, 0xff, AREA_BYTES);
    __atomic_store_n(r.ctrl + 128, 1, __ATOMIC_RELEASE);
    assert_false(finish(&r));
    assert_int_equal(r.fault.kind, AMDSIM_FAULT_MEMORY);
    assert_non_null(strstr(r.fault.text, "read at 0x7f0000100"));
    stop(&r);
}

static void
test_indirect_refusals(void **state)
{
    static const struct {
        uint32_t words[8], n;
        const char *text;
    } cases[] = {
        {{0xc0033700, 0x00100500, 0, 0}, 4, "5 words, and 4 are left"},
        {{0x80000000}, 1, "header 0x80000000 is not of type 3"},
        {{0xc0023f00, LO(SRC_VA), HI(SRC_VA), 1 | 1u << 23},
         4,
         "an indirect buffer in another one"},
        {{0xc0002300, 0x01000000}, 2, "PRED_EXEC at 0x7f0000100000: on a chip"},
        {{0xc0007f00, 0}, 2, "opcode 0x7f is not known"},
    };
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
        memcpy(r.src, cases[i].words, sizeof(cases[i].words));
        push_ib(&r, SRC_VA, cases[i].n);
        assert_false(finish(&r));
        if (!strstr(r.fault.text, cases[i].text))
            fail_msg("'%s' lacks '%s'", r.fault.text, cases[i].text);
        stop(&r);
    }
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    push_ib(&r, SRC_VA + AREA_BYTES - 4, 2);
    ((uint32_t *)(void *)r.src)[AREA_BYTES / 4 - 1] = 0xc0001000;
    assert_false(finish(&r));
    assert_non_null(strstr(r.fault.text, "read at 0x7f0000120000 by indirect"));
    stop(&r);
}

/* ---- several dies -------------------------------------------------------- */

/* One die waits in a buffer: the others go on with the packet behind it. */
static void
test_dies(void **state)
{
    static const uint32_t wait[] = {0xc0002300, 0x01000007,        0xc0053c00,
                                    0x13,       LO(CTRL_VA + 512), HI(CTRL_VA),
                                    1,          0xffffffff,        4};
    volatile uint32_t *done;
    uint32_t die, i, *w;
    struct rig r;

    (void)state;
    for (die = 0; die < 4; die++) {
        start(&r, "gfx942", AMDSIM_QUEUE_AQL);
        done = r.ctrl + 132;
        w = (uint32_t *)(void *)r.src;
        memcpy(w, wait, sizeof(wait));
        w[1] = 1u << (24 + die) | 7;
        for (i = 0; i < 4; i++) {
            uint32_t *at = w + 64 + 7 * i;

            at[0] = 0xc0002300;
            at[1] = 1u << (24 + i) | 5;
            at[2] = 0xc0033700;
            at[3] = 0x00100500;
            at[4] = LO(CTRL_VA + 528) + 4 * i;
            at[5] = HI(CTRL_VA);
            at[6] = 1;
        }
        for (i = 0; i < 2; i++) {
            uint32_t *slot = r.ring + 16 * i;

            slot[0] = 0x00011500;
            slot[1] = 0xc0023f00;
            slot[2] = LO(SRC_VA) + 256 * i;
            slot[3] = HI(SRC_VA);
            slot[4] = (i ? 28 : 9) | 1u << 23;
            slot[5] = 10;
        }
        __atomic_store_n((uint64_t *)(void *)(r.ctrl + 2), 2, __ATOMIC_RELEASE);
        __atomic_store_n(&r.bell, 1, __ATOMIC_RELEASE);
        for (i = 0; i < 4; i++) {
            while (i != die && done[i] != 1 && !atomic_load(&r.n_faults))
                nanosleep(&(struct timespec){0, 50000}, NULL);
        }
        assert_int_equal(atomic_load(&r.n_faults), 0);
        assert_int_equal(done[die], 0);
        assert_int_equal(r.ctrl[0], 0); /* the read index */
        __atomic_store_n(r.ctrl + 128, 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(r.ctrl, __ATOMIC_ACQUIRE) != 2)
            nanosleep(&(struct timespec){0, 50000}, NULL);
        assert_int_equal(done[die], 1);
        stop(&r);
    }
}

/* ---- refusals ------------------------------------------------------------ */

static const struct {
    uint32_t control;
    uint64_t src, dst;
    uint32_t command;
    const char *text;
} refusals[] = {
    {0x00000002, SRC_VA, DST_VA, 4, "bits 0x00000002 are reserved"},
    {0x00000001, SRC_VA, DST_VA, 4, "engine 1"},
    {0x20000000, SRC_VA, DST_VA, 4, "source 1 is neither memory nor data"},
    {0x00100000, SRC_VA, DST_VA, 4, "destination 1 is not memory"},
    {0x00200000, SRC_VA, DST_VA, 4, "destination 2 is not memory"},
    {0, SRC_VA, DST_VA, 4 | 1u << 26, "word 6 is 0x04000004: registers"},
    {0, SRC_VA, DST_VA, 4 | 1u << 27, "word 6 is 0x08000004: registers"},
    {0, SRC_VA, DST_VA, 4 | 1u << 28, "word 6 is 0x10000004: registers"},
    {0, SRC_VA, DST_VA, 4 | 1u << 29, "word 6 is 0x20000004: registers"},
    {0, SRC_VA, DST_VA, 4 | 1u << 31, "writes that are not confirmed"},
    {0x40000000, 7ull << 32, DST_VA, 4, "word 3 is 0x00000007"},
    {0x40000000, 7, DST_VA + 2, 4, "4 bytes at 0x7f0000200002 in units of 4"},
    {0x40000000, 7, DST_VA, 6, "6 bytes at 0x7f0000200000 in units of 4"},
    {0, SRC_VA + AREA_BYTES - 2, DST_VA, 4,
     "read at 0x7f0000120000 by copy (DMA_DATA at 0x7f0000000000): nothing"},
    {0, SRC_VA, DST_VA + AREA_BYTES - 2, 4,
     "write at 0x7f0000220000 by copy (DMA_DATA at 0x7f0000000000): nothing"},
    {0x40000000, 1, RO_VA, 4,
     "write at 0x7f0000300000 by fill (DMA_DATA at "
     "0x7f0000000000): the page is read-only"},
};

static void
test_refusals(void **state)
{
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(refusals); i++) {
        start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
        push_dma(&r, refusals[i].control, refusals[i].src, refusals[i].dst,
                 refusals[i].command);
        assert_false(finish(&r));
        if (!strstr(r.fault.text, refusals[i].text))
            fail_msg("'%s' lacks '%s'", r.fault.text, refusals[i].text);
        assert_int_equal(atomic_load(&r.n_faults), 1);
        stop(&r);
    }
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    PUSH(&r, 0xc0045000, 0, LO(SRC_VA), HI(SRC_VA), LO(DST_VA), HI(DST_VA));
    assert_false(finish(&r));
    assert_non_null(strstr(r.fault.text, "5 body words, not 6"));
    stop(&r);
}

/* Bytes of one packet, by chip. src: docs/hardware/amd-queues.md, "PM4" */
static void
test_dma_limits(void **state)
{
    struct rig r;

    (void)state;
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    push_dma(&r, 0x40000000, 7, DST_VA, 0x7ffc);
    push_dma(&r, 0, SRC_VA, DST_VA, 0x7fff);
    assert_true(finish(&r));
    push_dma(&r, 0, SRC_VA, DST_VA, 0x8000);
    assert_false(finish(&r));
    assert_non_null(
        strstr(r.fault.text, "32768 bytes; gfx1100 takes 32767 in one packet"));
    stop(&r);
    start(&r, "gfx942", AMDSIM_QUEUE_PM4);
    push_dma(&r, 0, SRC_VA, DST_VA, 4);
    assert_false(finish(&r));
    assert_non_null(
        strstr(r.fault.text, "gfx942 has no DMA of its command processor"));
    stop(&r);
}

/* Indirect buffers, which KFD's copy queues do not run, and a packet over the
 * ring's end. */
static void
test_sdma_refusals(void **state)
{
    static const char *const chips[] = {"gfx942", "gfx1100"};
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        start(&r, chips[i], AMDSIM_QUEUE_SDMA);
        PUSH(&r, 0, 0, 4, LO(SRC_VA), HI(SRC_VA), 8, 0, 0);
        assert_false(finish(&r));
        if (!strstr(r.fault.text, "INDIRECT at 0x7f0000000008: KFD's queues "
                                  "run no indirect buffers"))
            fail_msg("%s", r.fault.text);
        stop(&r);
        start(&r, chips[i], AMDSIM_QUEUE_SDMA);
        r.is_sdma = false; /* words go round */
        for (r.put = 0; r.put < RING_BYTES / 4 - 3;)
            PUSH(&r, 0);
        PUSH(&r, 1, 3, 0, LO(SRC_VA), HI(SRC_VA), LO(DST_VA), HI(DST_VA));
        r.is_sdma = true;
        r.put -= 8; /* the rest of the lap first */
        ring(&r);
        while (atomic_load(&r.n_faults) == 0 &&
               __atomic_load_n((uint64_t *)(void *)r.ctrl, __ATOMIC_ACQUIRE) !=
                   4 * r.put)
            nanosleep(&(struct timespec){0, 50000}, NULL);
        r.put += 8;
        ring(&r);
        while (atomic_load(&r.n_faults) == 0)
            nanosleep(&(struct timespec){0, 50000}, NULL);
        if (!strstr(r.fault.text, "7 words, and 3 are left"))
            fail_msg("%s", r.fault.text);
        stop(&r);
    }
}

/* ---- operations on caches ------------------------------------------------ */

/* Fields of ACQUIRE_MEM (word 7) and RELEASE_MEM (word 1) of gfx10 and later,
 * of GCR (words 0 to 4). What they do: test_sim_amd_cache.c. */
static void
test_cache_words(void **state)
{
    static const struct {
        uint32_t acquire, release, gcr[5];
        const char *text; /* NULL: it is done */
    } cases[] = {
        {0xc3f1, 0, {0}, NULL},
        {0x4381, 0, {0}, NULL},
        {0x1000 | 0x8 | 0x2, 0, {0}, NULL}, /* the range is all */
        {0x10000, 0, {0}, NULL},
        {0x3, 0, {0}, "GLI_INV is 3"},
        {0x4, 0, {0}, "GL1_RANGE is 1 (volatile)"},
        {0x800, 0, {0}, "GL2_RANGE is 1 (volatile)"},
        {0x1800, 0, {0}, "GL2_RANGE is 3 (first and last)"},
        {0x400, 0, {0}, "GL2_US"},
        {0x2000, 0, {0}, "GL2_DISCARD"},
        {0x30000, 0, {0}, "SEQ is 3"},
        {0x40000, 0, {0}, "RANGE_IS_PA"},
        {0x80000, 0, {0}, "bits 0x00080000 are reserved"},
        {0, 0x0070f000, {0}, NULL},
        {0, 0x0170c000, {0}, NULL},
        {0, 0x00020000, {0}, "GL2_RANGE is 1 (volatile)"},
        {0, 0x00010000, {0}, "GL2_US"},
        {0, 0x00080000, {0}, "GL2_DISCARD"},
        {0, 0x00c00000, {0}, "SEQ is 3"},
        {0, 0, {0x111, 0, 0x43810000, 0x4, 0}, NULL},
        {0, 0, {0x10111, 0, 0, 0, 0}, "bits 0x00010000 are reserved"},
        {0, 0, {0x111, 0x40, 0, 0, 0}, "bits 0x00000040 are reserved"},
        {0, 0, {0x111, 0, 0, 0x8, 0}, "bits 0x00000008 are reserved"},
        {0, 0, {0x111, 0, 0, 0, 0x10000}, "bits 0x00010000 are reserved"},
        {0, 0, {0x111, 0, 0, 0, 0x1000000}, "VMID 1"},
    };
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        bool is_sdma = cases[i].gcr[0] != 0;

        start(&r, "gfx1100", is_sdma ? AMDSIM_QUEUE_SDMA : AMDSIM_QUEUE_PM4);
        if (is_sdma)
            push(&r, cases[i].gcr, 5);
        else if (cases[i].release)
            PUSH(&r, 0xc0064900, 0x514 | cases[i].release, 0, 0, 0, 0, 0, 0);
        else
            PUSH(&r, 0xc0065800, 0, ~0u, ~0u, 0, 0, 0, cases[i].acquire);
        if (finish(&r) != !cases[i].text)
            fail_msg("case %zu: '%s'", i, r.fault.text);
        if (cases[i].text && !strstr(r.fault.text, cases[i].text))
            fail_msg("'%s' lacks '%s'", r.fault.text, cases[i].text);
        stop(&r);
    }
}

/* ---- launches ------------------------------------------------------------ */

#define WGP_MODE (1u << 29)
#define WAVE32   0x8000u

/* Groups that have room on a compute unit, or two, and that have not. */
static const struct {
    const char *chip;
    uint32_t initiator, threads, rsrc1, lds_granules;
    const char *text;          /* NULL: it runs */
    uint32_t tmpring, scratch; /* RSRC2: the kernel has some */
} launches[] = {
    {"gfx90a", 0, 1024, 15, 0, NULL},
    {"gfx90a", 0, 1024, 16, 0,
     "a group of 16 waves with 136 vector registers each; it may have 4 SIMDs, "
     "which hold 3 waves each"},
    {"gfx90a", 0, 64, 0, 129, "66048 bytes of LDS; the chip has 64 KiB"},
    {"gfx90a", WAVE32, 64, 0, 0, "initiator 0x8005: bits 0x8000"},
    {"gfx90a", 0, 1024, 0, 0, NULL, 1u << 12 | 16, 1},
    {"gfx90a", 0, 1024, 0, 0, "a group of 16 waves, and scratch for 15",
     1u << 12 | 15, 1},
    {"gfx90a", 0, 64, 0, 0, "a size has 13 bits", 1u << 25 | 15, 1},
    {"gfx90a", 0, 64, 0, 0, "TMPRING_SIZE gives none", 0, 1},
    {"gfx1030", WAVE32, 1024, WGP_MODE | 15, 0, NULL},
    {"gfx1030", WAVE32, 1024, WGP_MODE | 16, 0,
     "a group of 32 waves with 136 vector registers each; it may have 4 SIMDs, "
     "which hold 7 waves each"},
    {"gfx1030", WAVE32, 32, 1u << 20, 0, "RSRC1.PRIV on a chip of gfx10"},
    {"gfx1030", WAVE32, 256, 0, 0, NULL, 1u << 12 | 8, 1},
    {"gfx1030", WAVE32, 256, 0, 0, "scratch of 9 waves for 2 shader engines",
     1u << 12 | 9, 1},
    {"gfx1201", WAVE32, 1024, WGP_MODE | 23, 0, NULL},
    {"gfx1201", WAVE32, 1024, WGP_MODE | 24, 0,
     "a group of 32 waves with 200 vector registers each"},
    {"gfx1201", WAVE32, 32, 1u << 20, 0, "RSRC1.PRIV on a chip of gfx12"},
    {"gfx1201", WAVE32, 32, 0, 0, "a size has 18 bits", 1u << 30 | 15, 0},
    {"gfx1201", WAVE32, 32, 0, 0, "scratch at 0x0 is not mapped", 1u << 29 | 15,
     1},
    {"gfx1100", WAVE32, 1024, WGP_MODE | 23, 0, NULL},
    {"gfx1100", WAVE32, 1024, WGP_MODE | 24, 0,
     "a group of 32 waves with 200 vector registers each; it may have 4 SIMDs, "
     "which hold 7 waves each"},
    {"gfx1100", WAVE32, 1024, 11, 0, NULL},
    {"gfx1100", WAVE32, 1024, 12, 0,
     "it may have 2 SIMDs, which hold 14 waves"},
    {"gfx1100", WAVE32, 256, 31, 0, NULL},
    {"gfx1100", 0, 1024, WGP_MODE | 47, 0, NULL},
    {"gfx1100", 0, 1024, WGP_MODE | 63, 0,
     "a group of 16 waves with 256 vector registers each"},
    {"gfx1100", WAVE32, 32, 0, 128, NULL},
    {"gfx1100", WAVE32, 32, 0, 129, "66048 bytes of LDS; the chip has 64 KiB"},
    {"gfx1100", WAVE32, 1025, WGP_MODE, 0, "a group of more than 1024"},
    {"gfx942", 0, 1024, 15, 0, NULL},
    {"gfx942", 0, 1024, 16, 0,
     "a group of 16 waves with 136 vector registers each; it may have 4 SIMDs, "
     "which hold 3 waves each"},
    {"gfx942", 0, 256, 63, 0, NULL},
    {"gfx942", 0, 257, 63, 0, "a group of 5 waves with 512"},
    {"gfx942", 0, 64, 0, 129, "66048 bytes of LDS; the chip has 64 KiB"},
};

static void
check_launch(size_t i)
{
    struct amdsim_chip facts;
    uint32_t end; /* s_endpgm */
    struct rig r;

    assert_true(amdsim_chip_make(launches[i].chip, &facts));
    end = facts.gfx < 11 ? 0xbf810000 : 0xbfb00000;
    start(&r, launches[i].chip, AMDSIM_QUEUE_PM4);
    memcpy(r.src, &end, 4);
    PUSH(&r, 0xc0027600, 0x20c, LO(SRC_VA >> 8), HI(SRC_VA >> 8));
    PUSH(&r, 0xc0027600, 0x212, launches[i].rsrc1,
         launches[i].lds_granules << 15 | launches[i].scratch);
    PUSH(&r, 0xc0017600, 0x218, launches[i].tmpring);
    PUSH(&r, 0xc0067600, 0x204, 0, 0, 0, launches[i].threads, 1, 1);
    PUSH(&r, 0xc0031500, 1, 1, 1, 5 | launches[i].initiator);
    if (finish(&r) != !launches[i].text)
        fail_msg("launch %zu: '%s'", i, r.fault.text);
    if (launches[i].text) {
        assert_int_equal(r.fault.kind, AMDSIM_FAULT_HANG);
        if (!strstr(r.fault.text, launches[i].text))
            fail_msg("'%s' lacks '%s'", r.fault.text, launches[i].text);
    }
    stop(&r);
}

static void
test_launches(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(launches); i++)
        check_launch(i);
}

/* Signals in CTRL's page, 64 bytes each: value at 8, mailbox at 16, event at
 * 24. */
#define SIGNAL_VA(i) (CTRL_VA + 1024 + 64ull * (i))
#define SIGNAL(r, i) ((uint64_t *)(void *)((r)->ctrl + 256 + 16 * (i)))

static void
test_signals(void **state)
{
    struct rig r;
    uint32_t i;

    (void)state;
    start(&r, "gfx942", AMDSIM_QUEUE_AQL);
    for (i = 0; i < 4; i++)
        SIGNAL(&r, i)[1] = 1;
    SIGNAL(&r, 3)[2] = CTRL_VA + 2048;
    SIGNAL(&r, 3)[3] = 77;
    for (i = 0; i < 2; i++) { /* for all of 0 and 1, then for one of 1 and 2 */
        uint32_t *slot = r.ring + 16 * i;

        slot[0] = i ? 0x1505 : 0x1503;
        slot[2] = LO(SIGNAL_VA(i));
        slot[3] = HI(SIGNAL_VA(i));
        slot[6] = LO(SIGNAL_VA(i + 1));
        slot[7] = HI(SIGNAL_VA(i + 1));
        slot[14] = LO(SIGNAL_VA(i + 2));
        slot[15] = HI(SIGNAL_VA(i + 2));
    }
    __atomic_store_n((uint64_t *)(void *)(r.ctrl + 2), 2, __ATOMIC_RELEASE);
    __atomic_store_n(&r.bell, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&SIGNAL(&r, 0)[1], 0, __ATOMIC_RELEASE);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    assert_int_equal(__atomic_load_n(r.ctrl, __ATOMIC_ACQUIRE), 0);
    assert_int_equal(SIGNAL(&r, 2)[1], 1);
    __atomic_store_n(&SIGNAL(&r, 1)[1], 0, __ATOMIC_RELEASE);
    while (__atomic_load_n(r.ctrl, __ATOMIC_ACQUIRE) != 2 &&
           !atomic_load(&r.n_faults))
        nanosleep(&(struct timespec){0, 50000}, NULL);
    assert_int_equal(atomic_load(&r.n_faults), 0);
    assert_int_equal(SIGNAL(&r, 2)[1], 0);
    assert_int_equal(SIGNAL(&r, 3)[1], 0);
    assert_int_equal(r.ctrl[512], 77);
    assert_int_equal(atomic_load(&r.context_id), 77);
    stop(&r);
}

static void
test_sdma_atomic(void **state)
{
    uint64_t *word;
    struct rig r;

    (void)state;
    start(&r, "gfx1100", AMDSIM_QUEUE_SDMA);
    word = (uint64_t *)(void *)r.dst;
    *word = 0x100000000;
    PUSH(&r, 0x5e00000a, LO(DST_VA), HI(DST_VA), 0xffffffff, 0xffffffff, 0, 0,
         0);
    assert_true(finish(&r));
    assert_int_equal(*word, 0xffffffff);
    PUSH(&r, 0x5c00000a, LO(DST_VA), HI(DST_VA), 1, 0, 0, 0, 0);
    assert_false(finish(&r));
    assert_non_null(strstr(r.fault.text, "operation 0x2e"));
    stop(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_fills),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_indirect),
        cmocka_unit_test(test_indirect_unmapped),
        cmocka_unit_test(test_indirect_refusals),
        cmocka_unit_test(test_dies),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_dma_limits),
        cmocka_unit_test(test_sdma_refusals),
        cmocka_unit_test(test_cache_words),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_sdma_atomic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
