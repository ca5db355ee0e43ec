/* mem/mem_ring, mem_slab and mem_pool: random traces against naive models,
 * every driver call and every allocation failing in turn, nothing leaked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "mem/mem_pool.h"
#include "mem/mem_ring.h"
#include "mem/mem_slab.h"

static uint64_t
next_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15ull;
    return hash_mix(*seed);
}

/* ---- ring ------------------------------------------------------------- */

#define RING_BYTES 1024u

/* The fence value that frees each byte; 0 is free, UINT64_MAX not fenced. */
static void
check_and_take(uint64_t *byte_fence, uint64_t offset, uint64_t size)
{
    uint64_t i;

    assert_true(offset + size <= RING_BYTES);
    for (i = offset; i < offset + size; i++) {
        assert_int_equal(byte_fence[i], 0);
        byte_fence[i] = UINT64_MAX;
    }
}

static void
test_ring_random(void **state)
{
    uint64_t byte_fence[RING_BYTES] = {0}, seed = 3, value = 0, done = 0;
    unsigned step, i, n_full = 0;
    struct mem_ring ring;

    (void)state;
    memset(&ring, 0xff, sizeof(ring)); /* whatever was there */
    assert_int_equal(mem_ring_init(&ring, RING_BYTES, 8), BELL_OK);
    for (step = 0; step < 50000; step++) {
        uint64_t size = next_random(&seed) % 200 + 1, offset;
        uint64_t align = 1ull << (next_random(&seed) % 7);
        if (mem_ring_alloc(&ring, size, align, &offset)) {
            assert_int_equal(offset % align, 0);
            check_and_take(byte_fence, offset, size);
        } else {
            uint64_t wait;
            n_full++;
            mem_ring_fence(&ring, ++value);
            for (i = 0; i < RING_BYTES; i++)
                byte_fence[i] =
                    byte_fence[i] == UINT64_MAX ? value : byte_fence[i];
            wait = mem_ring_wait_value(&ring, size, align);
            assert_true(wait > done && wait <= value);
            done = wait;
            mem_ring_retire(&ring, done);
            for (i = 0; i < RING_BYTES; i++)
                byte_fence[i] = byte_fence[i] <= done ? 0 : byte_fence[i];
            assert_true(mem_ring_alloc(&ring, size, align, &offset));
            check_and_take(byte_fence, offset, size);
        }
        if (next_random(&seed) % 4 == 0) {
            mem_ring_fence(&ring, ++value);
            for (i = 0; i < RING_BYTES; i++)
                byte_fence[i] =
                    byte_fence[i] == UINT64_MAX ? value : byte_fence[i];
        }
    }
    assert_true(n_full > 1000);
    mem_ring_fini(&ring);
}

/* What a ring promises, byte by byte: who frees each, where the next piece
 * would begin, and which fences are outstanding. The skipped end is in use like
 * the piece before it. */
struct ring_model {
    uint64_t size, head; /* head: an offset, `size` for the end */
    uint64_t bytes[16];  /* 0: free, UINT64_MAX: no fence yet, or its value */
    uint64_t values[4];  /* outstanding, oldest first */
    uint32_t n, cap;
};

/* Where a piece would be once the fences up to `done` have come: false if it
 * does not fit. */
static bool
model_fits(const struct ring_model *model, uint64_t size, uint64_t align,
           uint64_t done, uint64_t *out_at, uint64_t *out_walk)
{
    uint64_t skip = 0, i, n_used = 0;

    for (i = 0; i < model->size; i++)
        n_used += model->bytes[i] > done;
    while ((model->head + skip) % align ||
           (model->head + skip) % model->size + size > model->size) {
        skip++;
        if (skip > 2 * model->size)
            return false;
    }
    *out_at = (model->head + skip) % model->size;
    *out_walk = skip + size;
    if (n_used == 0 && *out_walk > model->size) {
        *out_at = 0; /* nothing in use: from the beginning */
        *out_walk = size;
        return size <= model->size;
    }
    for (i = 0; i < *out_walk; i++) {
        if (i >= model->size ||
            model->bytes[(model->head + i) % model->size] > done)
            return false;
    }
    return true;
}

static void
model_fence(struct ring_model *model, uint64_t value)
{
    uint64_t joined, i;
    bool any = false;

    for (i = 0; i < model->size; i++)
        any |= model->bytes[i] == UINT64_MAX;
    if (!any)
        return;
    joined = model->n == model->cap ? model->values[--model->n] : UINT64_MAX;
    for (i = 0; i < model->size; i++) {
        if (model->bytes[i] == UINT64_MAX || model->bytes[i] == joined)
            model->bytes[i] = value;
    }
    model->values[model->n++] = value;
}

static void
model_retire(struct ring_model *model, uint64_t done)
{
    uint32_t i, n = 0;

    for (i = 0; i < model->size; i++) {
        if (model->bytes[i] <= done)
            model->bytes[i] = 0;
    }
    for (i = 0; i < model->n; i++) {
        if (model->values[i] > done)
            model->values[n++] = model->values[i];
    }
    model->n = n;
}

/* A piece fits exactly where the model has room, and what is to be waited for
 * is the first fence that makes it. */
static void
ring_trace(uint64_t size_bytes, uint32_t cap, uint64_t seed)
{
    struct ring_model model = {.size = size_bytes, .cap = cap};
    uint64_t value = 0, step, i;
    struct mem_ring ring;

    assert_int_equal(mem_ring_init(&ring, size_bytes, cap), BELL_OK);
    for (step = 0; step < 3000; step++) {
        uint64_t size = next_random(&seed) % (size_bytes + 1) + 1, at, walk;
        uint64_t align = 1ull
                         << next_random(&seed) % (log2_floor(size_bytes) + 1u);
        uint64_t offset = 99, want = 0;
        bool fits;

        if (next_random(&seed) % 2)
            size = 1 + size / 4;
        fits = model_fits(&model, size, align, 0, &at, &walk);
        for (i = model.n; !fits && i-- > 0;) {
            uint64_t at_then, walk_then;
            if (model_fits(&model, size, align, model.values[i], &at_then,
                           &walk_then))
                want = model.values[i];
        }
        if (!fits)
            assert_int_equal(mem_ring_wait_value(&ring, size, align), want);
        assert_int_equal(mem_ring_alloc(&ring, size, align, &offset), fits);
        if (fits) {
            assert_int_equal(offset, at);
            for (i = 0; i < walk; i++)
                model.bytes[(at + size + size_bytes * 2 - 1 - i) % size_bytes] =
                    UINT64_MAX;
            model.head = (at + size) % size_bytes;
        } else {
            assert_int_equal(offset, 99);
        }
        if (next_random(&seed) % 3 == 0) {
            mem_ring_fence(&ring, ++value);
            model_fence(&model, value);
            assert_int_equal(ring.n_fences, model.n);
        }
        if (model.n && next_random(&seed) % 4 == 0) {
            uint64_t done = model.values[next_random(&seed) % model.n];
            mem_ring_retire(&ring, done);
            model_retire(&model, done);
            assert_int_equal(ring.n_fences, model.n);
        }
    }
    mem_ring_fini(&ring);
}

static void
test_ring_small(void **state)
{
    uint64_t size;
    uint32_t cap;

    (void)state;
    for (size = 1; size <= 16; size *= 2) {
        for (cap = 1; cap <= 4; cap *= 2)
            ring_trace(size, cap, size * 8 + cap);
    }
}

static void
test_ring_whole(void **state)
{
    struct mem_ring ring;
    uint64_t offset;

    (void)state;
    assert_int_equal(mem_ring_init(&ring, 1000, 8), BELL_E_INVALID);
    assert_int_equal(mem_ring_init(&ring, 1024, 3), BELL_E_INVALID);
    assert_int_equal(mem_ring_init(&ring, 1024, 4), BELL_OK);
    assert_true(mem_ring_alloc(&ring, 100, 1, &offset));
    mem_ring_fence(&ring, 1);
    assert_false(mem_ring_alloc(&ring, 1024, 1, &offset));
    assert_int_equal(mem_ring_wait_value(&ring, 1024, 1), 1);
    assert_int_equal(mem_ring_wait_value(&ring, 1025, 1), 0); /* no use */
    mem_ring_retire(&ring, 1);
    assert_true(mem_ring_alloc(&ring, 1024, 1, &offset));
    assert_int_equal(offset, 0);
    assert_false(mem_ring_alloc(&ring, 1, 1, &offset));
    assert_false(mem_ring_alloc(&ring, 1025, 1, &offset));
    assert_int_equal(mem_ring_wait_value(&ring, 1, 1), 0); /* not fenced */
    mem_ring_fini(&ring);
    host_fail_after(1, 1);
    assert_int_equal(mem_ring_init(&ring, 1024, 4), BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
}

/* ---- a driver that counts --------------------------------------------- */

struct driver {
    uint64_t n_calls, fail_at; /* 0: never */
    uint32_t n_backings, n_maps;
};

static bell_status
may_fail(struct driver *driver)
{
    driver->n_calls++;
    if (driver->n_calls == driver->fail_at)
        return bell_fail(BELL_E_KERNEL, "told to fail");
    return BELL_OK;
}

static bell_status
driver_create(void *user, uint64_t size_bytes, struct mem_backing *out)
{
    struct driver *driver = user;

    BELL_TRY(may_fail(driver));
    driver->n_backings++;
    *out = (struct mem_backing){driver->n_calls, size_bytes};
    return BELL_OK;
}

static void
driver_destroy(void *user, const struct mem_backing *backing)
{
    struct driver *driver = user;

    assert_true(backing->handle != 0);
    driver->n_backings--;
}

static bell_status
driver_map_va(void *user, const struct mem_backing *backing, uint64_t va)
{
    struct driver *driver = user;

    BELL_TRY(may_fail(driver));
    assert_true(backing->handle != 0 && va != 0);
    driver->n_maps++;
    return BELL_OK;
}

static void
driver_unmap_va(void *user, const struct mem_backing *backing, uint64_t va)
{
    struct driver *driver = user;

    assert_true(backing->handle != 0 && va != 0);
    driver->n_maps--;
}

static const struct mem_pool_ops pool_ops = {
    driver_create,
    driver_destroy,
    driver_map_va,
    driver_unmap_va,
};

static struct mem_pool_desc
pool_desc(struct driver *driver, struct mem_va *va)
{
    return (struct mem_pool_desc){
        .chunk_bytes = 1 << 20,
        .align_bytes = 0x10000,
        .granule_bytes = 256,
        .va = va,
        .ops = &pool_ops,
        .user = driver,
    };
}

/* ---- pool ------------------------------------------------------------- */

#define N_PIECES 200u

static void
check_apart(const struct mem_piece *pieces, uint32_t n)
{
    uint32_t i, k;

    for (i = 0; i < n; i++) {
        for (k = 0; pieces[i].size_bytes && k < i; k++) {
            assert_false(pieces[k].size_bytes &&
                         pieces[i].va < pieces[k].va + pieces[k].size_bytes &&
                         pieces[k].va < pieces[i].va + pieces[i].size_bytes);
        }
    }
}

static void
test_pool_random(void **state)
{
    struct mem_piece pieces[N_PIECES] = {{0}};
    struct driver driver = {0};
    struct mem_pool_desc desc;
    struct mem_pool *pool;
    struct mem_va *va;
    uint64_t seed = 11;
    uint32_t step, n = 0;

    (void)state;
    assert_int_equal(mem_va_create(1 << 24, 1ull << 40, 4096, &va), BELL_OK);
    desc = pool_desc(&driver, va);
    assert_int_equal(mem_pool_create(&desc, &pool), BELL_OK);
    for (step = 0; step < 8000; step++) {
        uint32_t i = (uint32_t)(next_random(&seed) % N_PIECES);
        if (pieces[i].size_bytes) {
            mem_pool_free(pool, &pieces[i]);
            pieces[i].size_bytes = 0;
            n--;
        } else {
            uint64_t size = next_random(&seed) % 300000 + 1;
            uint64_t align = 1ull << (next_random(&seed) % 18);
            if (next_random(&seed) % 16 == 0)
                size *= 10;
            assert_int_equal(mem_pool_alloc(pool, size, align, &pieces[i]),
                             BELL_OK);
            assert_true(pieces[i].size_bytes >= size);
            assert_int_equal(pieces[i].va % align, 0);
            n++;
        }
        assert_int_equal(mem_pool_pieces(pool), n);
        assert_int_equal(mem_pool_backings(pool), driver.n_backings);
        if (step % 400 == 0)
            check_apart(pieces, N_PIECES);
    }
    for (step = 0; step < N_PIECES; step++) {
        if (pieces[step].size_bytes)
            mem_pool_free(pool, &pieces[step]);
    }
    assert_true(driver.n_backings <= 1); /* the empty one that is kept */
    assert_int_equal(mem_pool_destroy(pool), 0);
    assert_int_equal(driver.n_backings + driver.n_maps, 0);
    assert_true(mem_va_check(va));
    mem_va_destroy(va);
}

/* Backings of their own are used to the last byte, whatever their size. */
static void
test_pool_own_backings(void **state)
{
    struct driver driver = {0};
    struct mem_pool_desc desc;
    struct mem_piece piece;
    struct mem_pool *pool;
    struct mem_va *va;
    uint64_t size;

    (void)state;
    assert_int_equal(mem_va_create(1 << 24, 1ull << 40, 4096, &va), BELL_OK);
    desc = pool_desc(&driver, va);
    assert_int_equal(mem_pool_create(&desc, &pool), BELL_OK);
    for (size = 1 << 19; size < 1ull << 34; size += size / 9 + 0x10000) {
        assert_int_equal(mem_pool_alloc(pool, size, 0, &piece), BELL_OK);
        assert_true(piece.size_bytes >= size);
        assert_int_equal(piece.backing.size_bytes, align_up(size, 0x10000));
        mem_pool_free(pool, &piece);
        assert_int_equal(driver.n_backings, 0);
    }
    assert_int_equal(mem_pool_destroy(pool), 0);
    mem_va_destroy(va);
}

static void
check_place(struct mem_pool *pool, uint64_t size, uint64_t align,
            uint64_t backing_bytes)
{
    struct mem_piece piece;

    assert_int_equal(mem_pool_alloc(pool, size, align, &piece), BELL_OK);
    assert_int_equal(piece.backing.size_bytes, backing_bytes);
    assert_int_equal(piece.va % (align ? align : 256), 0);
    assert_true(piece.size_bytes >= size);
    assert_int_equal(piece.offset_bytes, piece.range.addr);
    mem_pool_free(pool, &piece);
}

/* What gets a backing of its own, and what is refused. */
static void
test_pool_borders(void **state)
{
    static const uint64_t bad[][3] = {{3 << 20, 0x10000, 256},
                                      {1 << 20, 0x18000, 256},
                                      {1 << 20, 0x10000, 300},
                                      {0, 0x10000, 256},
                                      {1 << 20, 0x10000, 1 << 21}};
    struct driver driver = {0};
    struct mem_pool_desc desc;
    struct mem_piece piece, pieces[4];
    struct mem_pool *pool;
    struct mem_va *va;
    size_t i;

    (void)state;
    assert_int_equal(mem_va_create(1 << 24, 1ull << 40, 4096, &va), BELL_OK);
    for (i = 0; i < ARRAY_LEN(bad); i++) {
        desc = pool_desc(&driver, va);
        desc.chunk_bytes = bad[i][0];
        desc.align_bytes = bad[i][1];
        desc.granule_bytes = bad[i][2];
        assert_int_equal(mem_pool_create(&desc, &pool), BELL_E_INVALID);
    }
    desc.granule_bytes = desc.chunk_bytes = 1 << 20;
    assert_int_equal(mem_pool_create(&desc, &pool), BELL_OK);
    check_place(pool, 5 << 20, 0, 5 << 20); /* the granule is more */
    check_place(pool, (5 << 20) + 1, 0, 6 << 20);
    assert_int_equal(mem_pool_destroy(pool), 0);
    desc = pool_desc(&driver, va);
    assert_int_equal(mem_pool_create(&desc, &pool), BELL_OK);
    assert_int_equal(mem_pool_alloc(pool, 0, 256, &piece), BELL_E_INVALID);
    assert_int_equal(mem_pool_alloc(pool, 1, 768, &piece), BELL_E_INVALID);
    assert_int_equal(mem_pool_alloc(pool, UINT64_MAX / 2 + 1, 0, &piece),
                     BELL_E_INVALID);
    assert_int_equal(mem_pool_alloc(pool, UINT64_MAX / 2, 0, &piece),
                     BELL_E_NO_MEMORY);
    assert_int_equal(driver.n_backings + driver.n_maps, 0);
    check_place(pool, (1 << 19) - 1, 0, 1 << 20);
    check_place(pool, 1 << 19, 0, 1 << 19);
    check_place(pool, 1, 0x10000, 1 << 20);
    check_place(pool, 1, 0x20000, 0x10000);
    check_place(pool, 0x10001, 0x20000, 0x20000);
    /* The last piece's chunk first; one that is empty is kept. */
    for (i = 0; i < 4; i++)
        assert_int_equal(mem_pool_alloc(pool, 400000, 0, &pieces[i]), BELL_OK);
    assert_int_equal(mem_pool_backings(pool), 2);
    assert_int_equal(pieces[0].chunk, pieces[1].chunk);
    assert_int_equal(pieces[2].chunk, pieces[3].chunk);
    mem_pool_free(pool, &pieces[0]);
    assert_int_equal(mem_pool_alloc(pool, 200000, 0, &pieces[0]), BELL_OK);
    assert_int_equal(pieces[0].chunk, pieces[2].chunk);
    mem_pool_free(pool, &pieces[1]);
    assert_int_equal(mem_pool_backings(pool), 2);
    mem_pool_free(pool, &pieces[0]);
    mem_pool_free(pool, &pieces[2]);
    mem_pool_free(pool, &pieces[3]);
    assert_int_equal(mem_pool_backings(pool), 1);
    assert_int_equal(driver.n_backings, 1);
    assert_int_equal(mem_pool_alloc(pool, 1000, 0, &piece), BELL_OK);
    assert_int_equal(mem_pool_backings(pool), 1);
    assert_int_equal(mem_pool_destroy(pool), 1); /* one was lost */
    assert_int_equal(mem_pool_destroy(NULL), 0);
    assert_int_equal(driver.n_backings + driver.n_maps, 0);
    mem_va_destroy(va);
}

/* Some work; what it took is given back by destroying the pool. */
static bell_status
pool_work(struct driver *driver, struct mem_va *va)
{
    struct mem_pool_desc desc = pool_desc(driver, va);
    struct mem_piece piece;
    struct mem_pool *pool;
    bell_status status;
    unsigned i;

    BELL_TRY(mem_pool_create(&desc, &pool));
    status = BELL_OK;
    for (i = 0; i < 12 && status == BELL_OK; i++) {
        status = mem_pool_alloc(pool, i % 4 ? 200000 : 900000, 0, &piece);
    }
    assert_int_equal(mem_pool_backings(pool), driver->n_backings);
    (void)mem_pool_destroy(pool);
    return status;
}

static void
test_pool_failures(void **state)
{
    bell_status status;
    uint64_t nth;
    int memory;

    (void)state;
    for (memory = 0; memory < 2; memory++) {
        for (nth = 1;; nth++) {
            struct driver driver = {0};
            struct mem_va_stats stats;
            struct mem_va *va;
            assert_int_equal(mem_va_create(1 << 24, 1ull << 40, 4096, &va),
                             BELL_OK);
            if (memory)
                host_fail_after(nth, 0);
            else
                driver.fail_at = nth;
            status = pool_work(&driver, va);
            host_fail_after(0, 0);
            mem_va_stats(va, &stats);
            assert_int_equal(stats.n_used, 0);
            assert_int_equal(driver.n_backings + driver.n_maps, 0);
            mem_va_destroy(va);
            if (status == BELL_OK)
                break;
            assert_int_equal(status, memory ? BELL_E_NO_MEMORY : BELL_E_KERNEL);
        }
        assert_true(nth > 5);
    }
}

/* ---- slab ------------------------------------------------------------- */

static bell_status
slab_grow(void *user, uint64_t piece_bytes, void **out_piece)
{
    struct driver *driver = user;

    BELL_TRY(may_fail(driver));
    *out_piece = calloc(1, piece_bytes);
    driver->n_backings++;
    return BELL_OK;
}

static void
slab_shrink(void *user, void *piece)
{
    struct driver *driver = user;

    driver->n_backings--;
    free(piece);
}

static const struct mem_slab_ops slab_ops = {slab_grow, slab_shrink};

static void
test_slab_random(void **state)
{
    enum {
        N = 1000
    };
    static struct mem_slot slots[N];
    struct driver driver = {0};
    struct mem_slab *slab;
    uint64_t seed = 5;
    uint32_t step, n = 0;

    (void)state;
    memset(slots, 0, sizeof(slots));
    /* 100 objects a piece: the last word of the bitmap is cut. */
    assert_int_equal(mem_slab_create(24, 2400 + 23, &slab_ops, &driver, &slab),
                     BELL_OK);
    for (step = 0; step < 40000; step++) {
        uint32_t i = (uint32_t)(next_random(&seed) % N);
        uint8_t *at;
        if (slots[i].piece) {
            at = (uint8_t *)slots[i].piece + slots[i].offset_bytes;
            assert_int_equal(at[0], 1);
            assert_int_equal(at[23], 1);
            memset(at, 0, 24);
            mem_slab_free(slab, &slots[i]);
            slots[i].piece = NULL;
            n--;
        } else {
            assert_int_equal(mem_slab_alloc(slab, &slots[i]), BELL_OK);
            assert_true(slots[i].offset_bytes <= 2400 - 24);
            at = (uint8_t *)slots[i].piece + slots[i].offset_bytes;
            assert_int_equal(at[0] | at[23], 0);
            memset(at, 1, 24);
            n++;
        }
        assert_int_equal(mem_slab_used(slab), n);
        assert_int_equal(mem_slab_pieces(slab), driver.n_backings);
    }
    for (step = 0; step < N; step++) {
        if (slots[step].piece)
            mem_slab_free(slab, &slots[step]);
    }
    assert_int_equal(driver.n_backings, 1);
    mem_slab_destroy(slab);
    assert_int_equal(driver.n_backings, 0);
}

/* Pieces whose bitmap ends before, at and behind the end of a word: each is
 * filled before the next one is asked for, and has room once it has one free.
 */
static void
test_slab_words(void **state)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 66, 127, 128, 129};
    static struct mem_slot slots[3 * 129];
    uint32_t i, k;

    (void)state;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct driver driver = {0};
        uint32_t n = sizes[i];
        struct mem_slab *slab;

        assert_int_equal(
            mem_slab_create(8, 8ull * n, &slab_ops, &driver, &slab), BELL_OK);
        for (k = 0; k < 3 * n; k++) {
            assert_int_equal(mem_slab_alloc(slab, &slots[k]), BELL_OK);
            assert_int_equal(mem_slab_pieces(slab), k / n + 1);
            assert_true(slots[k].offset_bytes < 8ull * n);
        }
        for (k = 0; k < 3 * n; k++) { /* the only one that is free */
            struct mem_slot again;

            mem_slab_free(slab, &slots[k]);
            assert_int_equal(mem_slab_alloc(slab, &again), BELL_OK);
            assert_ptr_equal(again.piece, slots[k].piece);
            assert_int_equal(again.offset_bytes, slots[k].offset_bytes);
            slots[k] = again;
        }
        for (k = 0; k < 3 * n; k++)
            mem_slab_free(slab, &slots[k]);
        mem_slab_destroy(slab);
        assert_int_equal(driver.n_backings, 0);
    }
}

static void
test_slab_failures(void **state)
{
    struct driver driver = {.fail_at = 2};
    struct mem_slab *slab;
    struct mem_slot slot;
    unsigned i;

    (void)state;
    assert_int_equal(mem_slab_create(0, 64, &slab_ops, &driver, &slab),
                     BELL_E_INVALID);
    assert_int_equal(mem_slab_create(64, 128, &slab_ops, &driver, &slab),
                     BELL_OK);
    for (i = 0; i < 2; i++)
        assert_int_equal(mem_slab_alloc(slab, &slot), BELL_OK);
    assert_int_equal(mem_slab_alloc(slab, &slot), BELL_E_KERNEL);
    host_fail_after(1, 0);
    assert_int_equal(mem_slab_alloc(slab, &slot), BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
    assert_int_equal(mem_slab_alloc(slab, &slot), BELL_OK);
    assert_int_equal(mem_slab_used(slab), 3);
    mem_slab_destroy(slab);
    assert_int_equal(driver.n_backings, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_random),
        cmocka_unit_test(test_ring_small),
        cmocka_unit_test(test_ring_whole),
        cmocka_unit_test(test_pool_random),
        cmocka_unit_test(test_pool_own_backings),
        cmocka_unit_test(test_pool_borders),
        cmocka_unit_test(test_pool_failures),
        cmocka_unit_test(test_slab_random),
        cmocka_unit_test(test_slab_words),
        cmocka_unit_test(test_slab_failures),
    };

    return cmocka_run_group_tests_name("mem_pool", tests, NULL, NULL);
}
