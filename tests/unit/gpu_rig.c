#include "gpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/bits.h"
#include "base/thread.h"

#define MIB       (1u << 20)
#define LIMIT_NS  30000000000ull
#define PUSH_SIZE 0x3000u /* of each channel */

static struct {
    uint64_t va, size_bytes;
    uint32_t flags;
    uint8_t *host;
} regions[] = {
    {RIG_SEM, 65536, 0, NULL},
    {RIG_PUSH, 65536, 0, NULL},
    {RIG_QMD & ~0xffffull, 65536, 0, NULL},
    {RIG_BANK0 & ~0xffffull, 65536, 0, NULL},
    {RIG_SRC, 8 * MIB, 0, NULL},
    {RIG_DST, 8 * MIB, 0, NULL},
    {RIG_RO, 65536, NVGPU_MAP_READ_ONLY, NULL},
    {RIG_LOCAL, 16 * MIB, 0, NULL},
    {RIG_CTRL, 65536, 0, NULL},
};

void
rig_sleep_ms(unsigned ms)
{
    struct timespec nap = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&nap, NULL);
}

void *
rig_at(uint64_t va)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(regions); i++) {
        if (va - regions[i].va < regions[i].size_bytes)
            return regions[i].host + (va - regions[i].va);
    }
    fail_msg("no memory at 0x%llx", (unsigned long long)va);
    return NULL;
}

uint32_t
rig_word(uint64_t va)
{
    return atomic_load((_Atomic uint32_t *)rig_at(va));
}

uint64_t
rig_word64(uint64_t va)
{
    return atomic_load((_Atomic uint64_t *)rig_at(va));
}

/* ---- life ---- */

static void
map_region(struct rig *rig, size_t i)
{
    bool is_big = regions[i].size_bytes >= 2 * MIB;
    void *host = mmap(NULL, regions[i].size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(host != MAP_FAILED);
    regions[i].host = host;
    assert_int_equal(nvgpu_space_map(rig->space, regions[i].va, host,
                                     regions[i].size_bytes,
                                     is_big ? 2 * MIB : (i & 1 ? 65536 : 4096),
                                     regions[i].flags),
                     BELL_OK);
}

static void
count_fault(void *user)
{
    struct rig_chan *c = user;

    atomic_fetch_add(&c->n_faults, 1);
}

struct rig_chan *
rig_add(struct rig *rig, enum nvgpu_engine engine, uint32_t gpfifo_class)
{
    uint32_t n = rig->n_chans++;
    struct rig_chan *c = &rig->chans[n];
    uint64_t base = RIG_CTRL + n * 0x1000;
    struct nvgpu_chan_desc desc = {
        .space = rig->space,
        .gpfifo_class = gpfifo_class ? gpfifo_class : rig->chip->gpfifo_class,
        .engine = engine,
        .engine_index = 2,
        .gpfifo_va = base,
        .n_entries = RIG_N_ENTRIES,
        .userd = rig_at(base + 0x400),
        .notifier = rig_at(base + 0x800),
        .on_fault = count_fault,
        .user = c,
    };

    memset(c, 0, sizeof(*c));
    memset(rig_at(base), 0, 0x1000);
    c->ring = rig_at(base);
    c->userd = rig_at(base + 0x400);
    c->notifier = rig_at(base + 0x800);
    c->push_at = n * PUSH_SIZE;
    c->push_end = c->push_at + PUSH_SIZE;
    c->done_va = RIG_DONE + n * 16;
    assert_int_equal(nvgpu_chan_create(rig->gpu, &desc, &c->chan), BELL_OK);
    if (engine == NVGPU_ENGINE_GR)
        nvgpu_chan_add_object(c->chan, rig->chip->compute_class);
    nvgpu_chan_add_object(c->chan, rig->chip->copy_class);
    nvgpu_chan_enable(c->chan, true);
    return c;
}

void
rig_init(struct rig *rig, const char *chip, enum nvgpu_engine engine)
{
    size_t i;

    memset(rig, 0, sizeof(*rig));
    rig->chip = nvgpu_chip_find(chip, 0);
    assert_non_null(rig->chip);
    assert_int_equal(nvgpu_create(rig->chip, &rig->gpu), BELL_OK);
    assert_int_equal(nvgpu_space_create(rig->gpu, &rig->space), BELL_OK);
    for (i = 0; i < ARRAY_LEN(regions); i++)
        map_region(rig, i);
    rig->window = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED,
                       nvgpu_window_fd(rig->gpu), 0);
    assert_true((void *)rig->window != MAP_FAILED);
    (void)rig_add(rig, engine, 0);
}

void
rig_fini(struct rig *rig)
{
    uint32_t n;
    size_t i;

    for (n = 0; n < rig->n_chans; n++)
        nvgpu_chan_destroy(rig->chans[n].chan);
    for (i = 0; i < ARRAY_LEN(regions); i++) {
        nvgpu_space_unmap(rig->space, regions[i].va, regions[i].size_bytes);
        munmap(regions[i].host, regions[i].size_bytes);
    }
    assert_int_equal(nvgpu_space_mapped(rig->space), 0);
    nvgpu_space_destroy(rig->space);
    munmap((void *)rig->window, 65536);
    nvgpu_destroy(rig->gpu);
}

/* ---- submissions ---- */

void
rig_entry(struct rig_chan *c, uint64_t entry)
{
    c->ring[c->put] = entry;
    c->put = (c->put + 1) % RIG_N_ENTRIES;
}

uint64_t
rig_push(struct rig_chan *c, const uint32_t *words, uint32_t n)
{
    uint64_t va;

    if (c->push_at + n * 4 > c->push_end)
        c->push_at = c->push_end - PUSH_SIZE;
    va = RIG_PUSH + c->push_at;
    memcpy(rig_at(va), words, n * 4);
    c->push_at += n * 4;
    rig_entry(c, va | (uint64_t)n << 42);
    return va;
}

void
rig_ring(struct rig *rig, struct rig_chan *c)
{
    atomic_store_explicit(&c->userd[0x8c / 4], c->put, memory_order_release);
    atomic_store_explicit(&rig->window[0x90 / 4], nvgpu_chan_token(c->chan),
                          memory_order_release);
}

void
rig_finish(struct rig *rig, struct rig_chan *c)
{
    uint64_t start = time_now_ns();
    struct nvgpu_fault fault;

    c->done++;
    RIG_PUSH_WORDS(c, 0x20050017, (uint32_t)c->done_va,
                   (uint32_t)(c->done_va >> 32), c->done, 0, 0x01100001);
    rig_ring(rig, c);
    while (rig_word64(c->done_va) != c->done) {
        if (nvgpu_chan_fault(c->chan, &fault))
            fail_msg("channel ended, code %u: %s", fault.code, fault.text);
        if (time_now_ns() - start > LIMIT_NS)
            fail_msg("the card does not come to an end");
        thread_relax();
    }
}

struct nvgpu_fault
rig_expect(struct rig *rig, struct rig_chan *c, uint32_t code, const char *text)
{
    uint64_t start = time_now_ns();
    struct nvgpu_fault fault = {0};

    rig_ring(rig, c);
    while (!nvgpu_chan_fault(c->chan, &fault) || !atomic_load(&c->n_faults)) {
        if (time_now_ns() - start > LIMIT_NS)
            fail_msg("no fault; wanted %u: %s", code, text);
        thread_relax();
    }
    if (fault.code != code || !strstr(fault.text, text))
        fail_msg("wanted %u: %s; got %u: %s", code, text, fault.code,
                 fault.text);
    assert_int_equal(c->notifier[2], code);
    assert_int_equal(c->notifier[3], 0xffff0000u);
    assert_int_equal(atomic_load(&c->n_faults), 1);
    return fault;
}

void
rig_refused(const char *chip, enum nvgpu_engine engine, uint32_t code,
            const char *text, const uint32_t *words, uint32_t n)
{
    struct rig rig;

    rig_init(&rig, chip, engine);
    rig_push(&rig.chans[0], words, n);
    (void)rig_expect(&rig, &rig.chans[0], code, text);
    rig_fini(&rig);
}
