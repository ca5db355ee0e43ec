/* sim/amd: what caches of the simulated card hold on to, and which bits of
 * which packets, instructions and accesses make them let go of it. The kernel
 * of most tests writes in[i] + *add to out[i]: a vector load, a scalar one, a
 * store. Eight groups of it use all compute units.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "amd_object.h"
#include "base/bits.h"
#include "base/thread.h"
#include "sim/amd/gpu/gpu.h"
#include "sim/amd/gpu/gpu_cache.h"

/* Code and data are in the arena: caches hold it. The rest they do not. Both
 * are one piece of host memory, so that lines meet in the caches where they
 * did the last time. */
#define ARENA_BYTES 0x100000u
#define HOST_BYTES  0x200000u
#define SET_BYTES   0x4000u /* as far as lines of the scalar caches differ */
#define GTT_VA      0x7f1000000000ull
#define GTT_BYTES   0x10000u
#define RING_BYTES  0x4000u
#define CTRL        0x4000u /* offsets in GTT; pointers, what is waited for */
#define EOP         0x5000u
#define ARGS        0x6000u
#define IB          0x7000u
#define UC_IN       0x8000u

#define ALL_UNITS  8u /* groups that have been on each of them */
#define MAX_GROUPS 24u

#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

struct rig {
    bool gfx9, is_aql;
    struct amdsim *gpu;
    struct amdsim_space *space;
    struct amdsim_queue *queue;
    struct arena_memory arena;
    struct amd_object object;
    struct amd_launch kernel;
    uint8_t *gtt;
    uint64_t put, bell;
    uint32_t done, n_args, args_reg;
    _Atomic uint32_t n_faults;
    char fault[256];
    uint64_t in_va, out_va, add_va;
    volatile uint32_t *in, *out, *add;
};

static void
on_fault(void *user, const struct amdsim_fault *fault)
{
    struct rig *r = user;

    memcpy(r->fault, fault->text, sizeof(r->fault));
    atomic_store(&r->n_faults, 1);
}

static void
on_interrupt(void *user, uint32_t context_id)
{
    (void)user;
    (void)context_id;
}

static void
map(struct rig *r, uint64_t va, void *host, uint32_t n_bytes, uint32_t flags)
{
    assert_int_equal(
        amdsim_space_map(r->space, va, host, n_bytes,
                         flags | AMDSIM_MAP_WRITABLE | AMDSIM_MAP_EXECUTABLE,
                         -1),
        BELL_OK);
}

static void
load_kernel(struct rig *r, const char *chip)
{
    char path[512];
    uint64_t va;

    r->arena.bytes = aligned_alloc(HOST_BYTES, HOST_BYTES);
    assert_non_null(r->arena.bytes);
    memset(r->arena.bytes, 0, HOST_BYTES);
    r->arena.size_bytes = ARENA_BYTES;
    r->gtt = r->arena.bytes + ARENA_BYTES;
    snprintf(path, sizeof(path), "%s/cache_%s.o", AMD_OBJECTS, chip);
    object_load(&r->object, &r->arena, path);
    /* a scratch descriptor comes before the arguments where there is one */
    r->args_reg =
        object_kernel(&r->object, "add", &r->kernel) & 1 ? 0x244 : 0x240;
    r->in_va = memory_put(&r->arena, NULL, 4096);
    r->out_va = memory_put(&r->arena, NULL, 64 * 4 * MAX_GROUPS);
    /* where no arguments are, which go through the scalar caches too */
    va = memory_put(&r->arena, NULL, 2 * SET_BYTES);
    r->add_va = (va + SET_BYTES - 1) & ~(uint64_t)(SET_BYTES - 1);
    r->in = memory_at(&r->arena, r->in_va);
    r->out = memory_at(&r->arena, r->out_va);
    r->add = memory_at(&r->arena, r->add_va);
}

static void
start(struct rig *r, const char *chip, enum amdsim_queue_kind kind)
{
    struct amdsim_queue_desc desc = {
        .kind = kind,
        .ring_va = GTT_VA,
        .ring_bytes = RING_BYTES,
        .rptr_va = GTT_VA + CTRL + 128,
        .wptr_va = GTT_VA + CTRL + 56,
        .eop_va = GTT_VA + EOP,
        .interrupt = on_interrupt,
        .fault = on_fault,
        .user = r,
    };
    struct amdsim_chip facts;
    uint32_t i;

    memset(r, 0, sizeof(*r));
    r->gfx9 = strncmp(chip, "gfx9", 4) == 0;
    r->is_aql = kind == AMDSIM_QUEUE_AQL;
    assert_true(amdsim_chip_make(chip, &facts));
    assert_int_equal(amdsim_create(&facts, &r->gpu), BELL_OK);
    assert_int_equal(amdsim_space_create(r->gpu, &r->space), BELL_OK);
    load_kernel(r, chip);
    for (i = 0; r->is_aql && i < RING_BYTES; i += 64)
        r->gtt[i] = 1;
    map(r, ARENA_VA, r->arena.bytes, ARENA_BYTES, 0);
    map(r, GTT_VA, r->gtt, GTT_BYTES, AMDSIM_MAP_SYSTEM | AMDSIM_MAP_UNCACHED);
    desc.space = r->space;
    desc.doorbell = &r->bell;
    if (r->is_aql)
        r->bell = UINT64_MAX;
    assert_int_equal(amdsim_queue_create(r->gpu, &desc, &r->queue), BELL_OK);
}

static void
stop(struct rig *r)
{
    amdsim_queue_destroy(r->queue);
    amdsim_space_destroy(r->space);
    amdsim_destroy(r->gpu);
    object_free(&r->object);
    memory_fini(&r->arena);
}

/* ---- packets ------------------------------------------------------------- */

static void
push(struct rig *r, const uint32_t *words, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++, r->put++)
        memcpy(r->gtt + r->put * 4 % RING_BYTES, &words[i], 4);
}
#define PUSH(r, ...)                                                           \
    push(r, (const uint32_t[]){__VA_ARGS__},                                   \
         sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void
ring(struct rig *r)
{
    uint64_t put = r->is_aql ? r->put / 16 : r->put;

    __atomic_store_n((uint64_t *)(void *)(r->gtt + CTRL + 56), put,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&r->bell, put - r->is_aql, __ATOMIC_RELEASE);
}

/* Until all is done: the read pointer has come there. */
static void
finish(struct rig *r)
{
    uint64_t until = time_now_ns() + 5000000000ull;
    uint64_t *rptr = (uint64_t *)(void *)(r->gtt + CTRL + 128);
    uint64_t want =
        r->is_aql ? r->put / 16 : (uint32_t)(r->put % (RING_BYTES / 4));

    ring(r);
    while (__atomic_load_n(rptr, __ATOMIC_ACQUIRE) != want) {
        struct timespec nap = {0, 50000};

        if (atomic_load(&r->n_faults))
            fail_msg("%s", r->fault);
        if (time_now_ns() > until)
            fail_msg("neither done nor a fault");
        nanosleep(&nap, NULL);
    }
}

static void
push_acquire(struct rig *r, uint32_t caches)
{
    if (r->gfx9)
        PUSH(r, 0xc0055800, caches, ~0u, ~0u, 0, 0, 10);
    else
        PUSH(r, 0xc0065800, 0, ~0u, ~0u, 0, 0, 0, caches);
}

/* A release that stores nothing. */
static void
push_release(struct rig *r, uint32_t caches)
{
    PUSH(r, 0xc0064900, 0x514 | caches, 0, 0, 0, 0, 0, 0);
}

static void
set_args(struct rig *r, uint64_t in_va)
{
    const uint64_t args[3] = {r->out_va, in_va, r->add_va};

    memcpy(r->gtt + ARGS, args, sizeof(args));
}

static void
push_kernel(struct rig *r, const struct amd_launch *k, uint64_t args,
            uint32_t n_groups)
{
    uint32_t rsrc3 = r->gfx9 ? 0x2e2d : 0x2e28;

    PUSH(r, 0xc0027600, 0x20c, LO(k->pc >> 8), HI(k->pc >> 8));
    PUSH(r, 0xc0027600, 0x212, k->rsrc1, k->rsrc2);
    PUSH(r, 0xc0017600, rsrc3 - 0x2c00, k->rsrc3);
    PUSH(r, 0xc0027600, r->args_reg, LO(args), HI(args));
    PUSH(r, 0xc0067600, 0x204, 0, 0, 0, 64, 1, 1);
    PUSH(r, 0xc0031500, n_groups, 1, 1, r->gfx9 ? 0x5 : 0x8005);
}

static void
push_launch(struct rig *r)
{
    push_kernel(r, &r->kernel, GTT_VA + ARGS, ALL_UNITS);
}

/* Another kernel, whose arguments have a place that no cache knows. */
static void
push_other(struct rig *r, const char *name, uint64_t out_va, uint64_t in_va,
           uint32_t n_groups)
{
    const uint64_t args[3] = {out_va, in_va, r->add_va};
    uint32_t at = ARGS + 256 * ++r->n_args;
    struct amd_launch k;

    assert_true(at < IB);
    memcpy(r->gtt + at, args, sizeof(args));
    object_kernel(&r->object, name, &k);
    push_kernel(r, &k, GTT_VA + at, n_groups);
}

static void
set(volatile uint32_t *to, uint32_t value)
{
    uint32_t i;

    for (i = 0; i < 64; i++)
        to[i] = value;
}

/* Only what is on the card decides: the release is complete. */
static uint32_t
result(struct rig *r)
{
    uint32_t i, first;

    push_release(r, r->gfx9 ? 1u << 15 : 1u << 21);
    finish(r);
    first = r->out[0];
    for (i = 1; i < 64; i++)
        assert_int_equal(r->out[i], first);
    return first;
}

/* ---- tests: loads -------------------------------------------------------- */

#define SCALAR AMDSIM_CACHE_INV_SCALAR
#define VECTOR AMDSIM_CACHE_INV_VECTOR
#define GL1    AMDSIM_CACHE_INV_GL1
#define L2     AMDSIM_CACHE_INV_L2

static const char *const chips[] = {"gfx1100", "gfx942", "gfx90a", "gfx1030",
                                    "gfx1201"};

/* Here once more, not from the code under test. src:
 * docs/hardware/amd-queues.md, "Caches" */
static uint32_t
acquire_word(const struct rig *r, uint32_t ops)
{
    uint32_t word = 0;

    if (r->gfx9) {
        word |= ops & SCALAR ? 1u << 27 : 0;
        word |= ops & VECTOR ? 1u << 22 : 0;
        word |= ops & L2 ? 1u << 23 : 0;
        word |= ops & AMDSIM_CACHE_WB_L2 ? 1u << 18 : 0;
        return word;
    }
    word |= ops & SCALAR ? 1u << 7 : 0;
    word |= ops & VECTOR ? 1u << 8 : 0;
    word |= ops & GL1 ? 1u << 9 : 0;
    word |= ops & L2 ? 1u << 14 : 0;
    word |= ops & AMDSIM_CACHE_WB_L2 ? 1u << 15 : 0;
    return word;
}

/* Every set of invalidations: the host changes both inputs between two
 * launches, and what was not invalidated all the way is seen as it was. */
static void
check_loads(const char *chip, uint32_t ops, bool uncached)
{
    bool scalar_new, vector_new;
    volatile uint32_t *in;
    uint32_t got, want;
    struct rig r;

    start(&r, chip, AMDSIM_QUEUE_PM4);
    in = uncached ? (volatile uint32_t *)(void *)(r.gtt + UC_IN) : r.in;
    set_args(&r, uncached ? GTT_VA + UC_IN : r.in_va);
    set(in, 1000);
    *r.add = 1;
    push_launch(&r);
    assert_int_equal(result(&r), 1001);
    set(in, 2000);
    *r.add = 2;
    push_acquire(&r, acquire_word(&r, ops));
    push_launch(&r);
    got = result(&r);
    scalar_new = (ops & (SCALAR | L2)) == (SCALAR | L2);
    vector_new =
        ops & VECTOR && (r.gfx9 || ops & GL1) && (uncached || ops & L2);
    want = (vector_new ? 2000 : 1000) + (scalar_new ? 2 : 1);
    if (got != want)
        fail_msg("%s, operations 0x%x%s: %u, not %u", chip, ops,
                 uncached ? ", input is UC" : "", got, want);
    stop(&r);
}

static void
test_loads(void **state)
{
    uint32_t c, ops;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        for (ops = 0; ops < 16; ops++) {
            if (strncmp(chips[c], "gfx9", 4) == 0 && ops & GL1)
                continue; /* it has none */
            check_loads(chips[c], ops, false);
            check_loads(chips[c], ops, true);
        }
    }
}

/* 64 words at va. */
static void
push_words(struct rig *r, uint64_t va, uint32_t value)
{
    uint32_t i;

    for (i = 0; i < 64; i += 2)
        PUSH(r, 0xc0043700, 0x00100500, LO(va + 4 * i), HI(va), value, value);
}

/* The same after a copy by packets of the queue, which go through L2: L1 and
 * the scalar cache still hold on. */
static void
test_loads_after_packets(void **state)
{
    uint32_t c, i;
    struct rig r;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        for (i = 0; i < 2; i++) {
            start(&r, chips[c], AMDSIM_QUEUE_PM4);
            set_args(&r, r.in_va);
            set(r.in, 1000);
            *r.add = 1;
            push_launch(&r);
            if (strcmp(chips[c], "gfx942") == 0) /* it has no DMA */
                push_words(&r, r.in_va, 2000);
            else
                PUSH(&r, 0xc0055000, 0xc0000000, 2000, 0, LO(r.in_va),
                     HI(r.in_va), 256);
            PUSH(&r, 0xc0033700, 0x00100500, LO(r.add_va), HI(r.add_va), 2);
            if (i)
                push_acquire(&r, acquire_word(&r, SCALAR | VECTOR | GL1));
            push_launch(&r);
            assert_int_equal(result(&r), i ? 2002 : 1001);
            stop(&r);
        }
    }
}

/* ---- tests: stores ------------------------------------------------------- */

/* A kernel's stores are in memory after each kind of write-back, and before
 * that it is not; packets of the queue see it at once. */
static void
test_stores(void **state)
{
    uint32_t c, way;
    struct rig r;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        for (way = 0; way < 4; way++) {
            start(&r, chips[c], AMDSIM_QUEUE_PM4);
            set_args(&r, r.in_va);
            set(r.in, 1000);
            set(r.out, 7);
            push_launch(&r);
            if (way == 1)
                push_release(&r, r.gfx9 ? 1u << 15 : 1u << 21);
            else if (way == 2)
                push_acquire(&r, acquire_word(&r, AMDSIM_CACHE_WB_L2));
            else if (way == 3) /* invalidations write nothing back */
                push_acquire(&r, acquire_word(&r, 15));
            finish(&r);
            assert_int_equal(r.out[0], way == 1 || way == 2 ? 1000 : 7);
            assert_int_equal(r.out[63], way == 1 || way == 2 ? 1000 : 7);
            /* COPY_DATA from memory to memory */
            PUSH(&r, 0xc0044000, 0x00100501, LO(r.out_va), HI(r.out_va),
                 LO(GTT_VA + CTRL + 256), HI(GTT_VA));
            finish(&r);
            assert_int_equal(*(uint32_t *)(void *)(r.gtt + CTRL + 256), 1000);
            stop(&r);
        }
    }
}

/* The queue's end writes back; a write-back leaves the bytes between alone. */
static void
test_store_bytes(void **state)
{
    struct rig r;
    uint32_t i;

    (void)state;
    start(&r, "gfx1100", AMDSIM_QUEUE_PM4);
    r.out_va += 32; /* half of a line, and another one's */
    set_args(&r, r.in_va);
    set(r.in, 1000);
    set(r.out, 7);
    push_launch(&r);
    finish(&r);
    set(r.out, 9);
    amdsim_queue_destroy(r.queue);
    r.queue = NULL;
    for (i = 0; i < 64; i++)
        assert_int_equal(r.out[i], i < 8 ? 9 : 1000);
    stop(&r);
}

/* ---- tests: compute units ------------------------------------------------ */

/* How many of out's elements are `value`; all are one of the two. */
static uint32_t
count(const struct rig *r, uint32_t first_group, uint32_t n_groups,
      uint32_t value, uint32_t other)
{
    uint32_t i, n = 0;

    for (i = 64 * first_group; i < 64 * (first_group + n_groups); i++) {
        if (r->out[i] != value && r->out[i] != other)
            fail_msg("element %u is %u, neither %u nor %u", i, r->out[i], value,
                     other);
        n += r->out[i] == value;
    }
    return n;
}

static void
release_all(struct rig *r)
{
    push_release(r, r->gfx9 ? 1u << 15 : 1u << 21);
    finish(r);
}

/* Three launches of one submission: all units read, one group writes, all
 * read again. The units that did not write need the acquire in between. */
static void
check_submission(const char *chip, uint32_t ops)
{
    uint64_t from_va;
    struct rig r;
    uint32_t stale;

    start(&r, chip, AMDSIM_QUEUE_PM4);
    from_va = memory_put(&r.arena, NULL, 4096);
    set(r.in, 1000);
    set(memory_at(&r.arena, from_va), 2000);
    push_other(&r, "each", r.out_va, r.in_va, ALL_UNITS);
    push_acquire(&r, acquire_word(&r, ops));
    push_other(&r, "each", r.in_va, from_va, 1);
    push_acquire(&r, acquire_word(&r, ops));
    push_other(&r, "each", r.out_va, r.in_va, ALL_UNITS);
    release_all(&r);
    stale = count(&r, 0, ALL_UNITS, 1000, 2000);
    if (ops & VECTOR && (r.gfx9 || ops & GL1))
        assert_int_equal(stale, 0);
    else if (r.gfx9) /* three of four units */
        assert_int_equal(stale, 64 * ALL_UNITS / 4 * 3);
    else /* the other pair, or a part of its own */
        assert_true(stale >= 64 * ALL_UNITS / 2 && stale < 64 * ALL_UNITS);
    stop(&r);
}

static void
test_submission(void **state)
{
    uint32_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        check_submission(chips[c], 0);
        check_submission(chips[c], SCALAR);
        check_submission(chips[c], SCALAR | VECTOR);
        check_submission(chips[c], SCALAR | VECTOR | GL1);
    }
    check_submission("gfx1100", SCALAR | GL1);
}

/* Groups of one launch hand something over. All units have read it before. */
static void
check_mail(const char *chip, const char *kernel, bool works)
{
    struct rig r;
    uint32_t stale;

    start(&r, chip, AMDSIM_QUEUE_PM4);
    set(r.in, 1000);
    push_other(&r, kernel, r.out_va, r.in_va, MAX_GROUPS);
    release_all(&r);
    assert_int_equal(count(&r, 0, 8, 1000, 2000), 64 * 8);
    stale = count(&r, 9, MAX_GROUPS - 9, 1000, 2000);
    if ((stale == 0) != works)
        fail_msg("%s on %s: %u elements are stale", kernel, chip, stale);
    stop(&r);
}

static void
test_mail(void **state)
{
    uint32_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        check_mail(chips[c], "mail_plain", false);
        check_mail(chips[c], "mail_acquire", true);
        check_mail(chips[c], "mail_coherent", true);
    }
}

/* Waves of a group have two vector caches on gfx1100, unless the kernel asks
 * for one unit; one on gfx942. */
static void
check_halves(const char *chip, const char *kernel, bool one_unit, bool works)
{
    struct amd_launch k;
    struct rig r;
    uint32_t i;

    start(&r, chip, AMDSIM_QUEUE_PM4);
    set(r.in, 1000);
    set_args(&r, r.in_va);
    object_kernel(&r.object, kernel, &k);
    if (one_unit)
        k.rsrc1 &= ~(1u << 29);
    push_kernel(&r, &k, GTT_VA + ARGS, 1);
    release_all(&r);
    for (i = 0; i < 64; i++)
        assert_int_equal(r.out[i], i < 32 && !works ? 2000 : 3000);
    stop(&r);
}

static void
test_halves(void **state)
{
    (void)state;
    check_halves("gfx1100", "halves_plain", false, false);
    check_halves("gfx1100", "halves_plain", true, true);
    check_halves("gfx1100", "halves_fence", false, true);
    check_halves("gfx1030", "halves_plain", false, false);
    check_halves("gfx1030", "halves_fence", false, true);
    check_halves("gfx1201", "halves_plain", false, false);
    check_halves("gfx1201", "halves_fence", false, true);
    check_halves("gfx90a", "halves_plain", false, true);
    check_halves("gfx942", "halves_plain", false, true);
    check_halves("gfx942", "halves_fence", false, true);
}

/* How far loads of each scope go: L1 holds 1000, L2 2000, memory 3000. */
static void
check_load(const char *chip, const char *kernel, uint32_t want)
{
    uint64_t from_va;
    struct rig r;

    start(&r, chip, AMDSIM_QUEUE_PM4);
    from_va = memory_put(&r.arena, NULL, 4096);
    set(r.in, 1000);
    set(memory_at(&r.arena, from_va), 2000);
    push_other(&r, "each", r.out_va, r.in_va, ALL_UNITS);
    /* written back, but still there */
    push_other(&r, "each", r.in_va, from_va, 1);
    push_release(&r, r.gfx9 ? 1u << 15 : 1u << 21);
    finish(&r);
    assert_int_equal(r.in[0], 2000);
    set(r.in, 3000);
    push_other(&r, kernel, r.out_va, r.in_va, ALL_UNITS);
    release_all(&r);
    if (want == 1000) /* but for units that wrote */
        assert_true(count(&r, 0, ALL_UNITS, 1000, 2000) > 0);
    else
        assert_int_equal(count(&r, 0, ALL_UNITS, want, want), 64 * ALL_UNITS);
    stop(&r);
}

static void
test_load_scopes(void **state)
{
    (void)state;
    check_load("gfx1100", "load_stream", 1000);
    check_load("gfx1100", "load_group", 2000);
    check_load("gfx1100", "load_agent", 2000);
    check_load("gfx1100", "load_system", 2000);
    check_load("gfx1030", "load_stream", 1000);
    check_load("gfx1030", "load_group", 2000);
    check_load("gfx1030", "load_agent", 2000);
    check_load("gfx1030", "load_system", 2000);
    check_load("gfx1201", "load_stream", 1000);
    check_load("gfx1201", "load_group", 2000);
    check_load("gfx1201", "load_agent", 2000);
    check_load("gfx1201", "load_system", 3000);
    check_load("gfx90a", "load_stream", 2000); /* has glc too */
    check_load("gfx90a", "load_group", 1000);
    check_load("gfx90a", "load_agent", 2000);
    check_load("gfx90a", "load_system", 2000);
    check_load("gfx942", "load_stream", 1000);
    check_load("gfx942", "load_group", 1000);
    check_load("gfx942", "load_agent", 3000);
    check_load("gfx942", "load_system", 3000);
}

/* Whether stores of each scope are in memory before a release. */
static void
check_store(const char *chip, const char *kernel, bool through)
{
    struct rig r;

    start(&r, chip, AMDSIM_QUEUE_PM4);
    set(r.out, 7);
    push_other(&r, kernel, r.out_va, r.in_va, 1);
    finish(&r);
    if (count(&r, 0, 1, 1000, 7) != (through ? 64u : 0u))
        fail_msg("%s on %s: element 0 is %u", kernel, chip, r.out[0]);
    release_all(&r);
    assert_int_equal(count(&r, 0, 1, 1000, 7), 64);
    stop(&r);
}

static void
test_store_scopes(void **state)
{
    (void)state;
    check_store("gfx1100", "store_group", false);
    check_store("gfx1100", "store_agent", false);
    check_store("gfx1100", "store_system", false);
    check_store("gfx1030", "store_agent", false);
    check_store("gfx1030", "store_system", false);
    check_store("gfx1201", "store_agent", false);
    check_store("gfx1201", "store_system", true);
    check_store("gfx90a", "store_agent", false);
    check_store("gfx90a", "store_system", false);
    check_store("gfx942", "store_group", false);
    check_store("gfx942", "store_agent", true);
    check_store("gfx942", "store_system", true);
}

/* ---- tests: AQL and code ------------------------------------------------- */

/* What the scopes of an AQL header's fences stand for. */
static void
test_aql_scopes(void **state)
{
    (void)state;
    assert_int_equal(amdsim_cache_aql_acquire(0, 1), 0);
    assert_int_equal(amdsim_cache_aql_acquire(1u << 9, 1),
                     SCALAR | VECTOR | GL1);
    assert_int_equal(amdsim_cache_aql_acquire(1u << 9, 4),
                     SCALAR | VECTOR | GL1 | L2);
    assert_int_equal(amdsim_cache_aql_acquire(2u << 9, 1),
                     SCALAR | VECTOR | GL1 | L2);
    assert_int_equal(amdsim_cache_aql_release(0, 4), 0);
    assert_int_equal(amdsim_cache_aql_release(1u << 11, 1), 0);
    assert_int_equal(amdsim_cache_aql_release(1u << 11, 4), AMDSIM_CACHE_WB_L2);
    assert_int_equal(amdsim_cache_aql_release(2u << 11, 1), AMDSIM_CACHE_WB_L2);
}

/* Code that is written over runs as it was until its cache is invalidated. */
static void
test_code(void **state)
{
    static const uint32_t ends[2] = {0xbf810000, 0xbfb00000}; /* s_endpgm */
    uint32_t c, i;
    struct rig r;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        bool is_late = strncmp(chips[c], "gfx1", 4) == 0 && chips[c][4] > '0';

        for (i = 0; i < 2; i++) {
            start(&r, chips[c], AMDSIM_QUEUE_PM4);
            set_args(&r, r.in_va);
            set(r.in, 1000);
            push_launch(&r);
            assert_int_equal(result(&r), 1000);
            set(r.out, 7);
            memcpy(memory_at(&r.arena, r.kernel.pc), &ends[is_late], 4);
            push_acquire(&r, i ? r.gfx9 ? 1u << 29 : 1 : 0);
            push_launch(&r);
            assert_int_equal(result(&r), i ? 7 : 1000);
            stop(&r);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_loads_after_packets),
        cmocka_unit_test(test_stores),
        cmocka_unit_test(test_store_bytes),
        cmocka_unit_test(test_submission),
        cmocka_unit_test(test_mail),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_load_scopes),
        cmocka_unit_test(test_store_scopes),
        cmocka_unit_test(test_aql_scopes),
        cmocka_unit_test(test_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
