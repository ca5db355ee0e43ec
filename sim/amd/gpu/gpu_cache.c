/* Caches of direct mapping, by the address of the memory behind them. */
#include "sim/amd/gpu/gpu_cache.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"

#define LINE_BYTES 128u
#define N_SCALAR   128u
#define N_VECTOR   256u
#define N_GL1      1024u
#define N_L2       4096u

/* A line of a cache that is only read. */
struct line {
    uintptr_t host; /* of the line's first byte */
    uint64_t age;   /* it counts if it is the cache's */
    uint8_t bytes[LINE_BYTES];
};

struct l2_line {
    struct line line;
    uint64_t va;
    uint64_t dirty[2]; /* a bit for each byte */
    bool listed;
};

/* Ages are from 1. */
struct cu {
    uint64_t vector_age;
    struct line vector[N_VECTOR];
};

struct pair {
    uint64_t scalar_age, gl1_age;
    struct line scalar[N_SCALAR], gl1[N_GL1];
};

struct amdsim_cache {
    uint32_t gfx;
    struct cu *cu; /* whose turn it is, and its pair */
    struct pair *pair;
    struct cu cus[AMDSIM_CACHE_CUS];
    struct pair pairs[AMDSIM_CACHE_CUS / 2];
    uint64_t l2_age;
    struct l2_line l2[N_L2];
    uint32_t dirty[N_L2]; /* lines that may be dirty */
    uint32_t n_dirty;
    uint8_t joined[2 * LINE_BYTES]; /* an access to two lines */
};

/* Which memory an access is to. */
struct place {
    struct sim_walk *walk;
    uint64_t va;
    uintptr_t host;
    bool uncached;
};

bell_status
amdsim_cache_create(uint32_t gfx, struct amdsim_cache **out)
{
    struct amdsim_cache *cache = host_calloc(1, sizeof(*cache));
    uint32_t i;

    if (!cache)
        return bell_fail(BELL_E_NO_MEMORY, "caches of a queue: out of memory");
    cache->gfx = gfx;
    cache->l2_age = 1;
    for (i = 0; i < ARRAY_LEN(cache->cus); i++)
        cache->cus[i].vector_age = 1;
    for (i = 0; i < ARRAY_LEN(cache->pairs); i++)
        cache->pairs[i].scalar_age = cache->pairs[i].gl1_age = 1;
    amdsim_cache_turn(cache, 0);
    *out = cache;
    return BELL_OK;
}

void
amdsim_cache_turn(struct amdsim_cache *cache, uint32_t cu)
{
    assert(cu < AMDSIM_CACHE_CUS);
    cache->cu = &cache->cus[cu];
    cache->pair = &cache->pairs[cu / 2];
}

void
amdsim_cache_destroy(struct amdsim_cache *cache)
{
    host_free(cache);
}

static uint32_t
line_index(uintptr_t host, uint32_t n_lines)
{
    uintptr_t number = host / LINE_BYTES;

    assert(n_lines > 0 && (n_lines & (n_lines - 1)) == 0);
    /* neighbours have different places, and so have whole pages */
    return (uint32_t)(number ^ number >> 12) & (n_lines - 1);
}

/* ---- L2 ---- */

static bool
has_dirt(const struct l2_line *l)
{
    return (l->dirty[0] | l->dirty[1]) != 0;
}

static void
copy_dirty(const struct l2_line *l, uint8_t *to, const uint8_t *from)
{
    uint32_t i;

    if (~l->dirty[0] == 0 && ~l->dirty[1] == 0) {
        memcpy(to, from, LINE_BYTES);
        return;
    }
    for (i = 0; i < LINE_BYTES; i++) {
        if (l->dirty[i / 64] >> (i % 64) & 1)
            to[i] = from[i];
    }
}

/* The line's memory, or NULL if that is gone. */
static uint8_t *
memory_of(const struct l2_line *l, struct sim_walk *walk)
{
    uint64_t n;
    uint32_t flags;
    void *at = sim_walk_span(walk, l->va, &n, &flags);

    return (uintptr_t)at == l->line.host && !(flags & SIM_PAGE_READ_ONLY)
               ? at
               : NULL;
}

static void
write_back(struct l2_line *l, struct sim_walk *walk)
{
    uint8_t *to;

    if (!has_dirt(l))
        return;
    to = memory_of(l, walk);
    if (to)
        copy_dirty(l, to, l->line.bytes);
    l->dirty[0] = l->dirty[1] = 0;
}

static void
write_back_all(struct amdsim_cache *c, struct sim_walk *walk)
{
    uint32_t i;

    for (i = 0; i < c->n_dirty; i++) {
        struct l2_line *l = &c->l2[c->dirty[i]];

        write_back(l, walk);
        l->listed = false;
    }
    c->n_dirty = 0;
}

/* Everything but dirty bytes is read again. */
static void
invalidate_l2(struct amdsim_cache *c, struct sim_walk *walk)
{
    uint32_t i;

    c->l2_age++;
    for (i = 0; i < c->n_dirty; i++) {
        struct l2_line *l = &c->l2[c->dirty[i]];
        uint8_t fresh[LINE_BYTES];
        const uint8_t *from = has_dirt(l) ? memory_of(l, walk) : NULL;

        if (!from) {
            l->dirty[0] = l->dirty[1] = 0;
            continue;
        }
        memcpy(fresh, from, LINE_BYTES);
        copy_dirty(l, fresh, l->line.bytes);
        memcpy(l->line.bytes, fresh, LINE_BYTES);
        l->line.age = c->l2_age;
    }
}

static struct l2_line *
l2_line(struct amdsim_cache *c, const struct place *p)
{
    struct l2_line *l = &c->l2[line_index(p->host, N_L2)];

    if (l->line.host == p->host && l->line.age == c->l2_age)
        return l;
    write_back(l, p->walk);
    l->line.host = p->host;
    l->line.age = c->l2_age;
    l->va = p->va;
    memcpy(l->line.bytes, (const void *)p->host, LINE_BYTES);
    return l;
}

static void
yield_line(struct amdsim_cache *c, struct sim_walk *walk, uintptr_t host)
{
    struct l2_line *l = &c->l2[line_index(host, N_L2)];

    if (l->line.host != host || l->line.age != c->l2_age)
        return;
    write_back(l, walk);
    l->line.age = 0;
}

void
amdsim_cache_yield(struct amdsim_cache *c, struct sim_walk *walk,
                   const void *host, uint64_t n_bytes)
{
    uintptr_t at = (uintptr_t)host & ~(uintptr_t)(LINE_BYTES - 1);
    uintptr_t end = (uintptr_t)host + n_bytes;

    for (; at < end; at += LINE_BYTES)
        yield_line(c, walk, at);
}

static void *
store_to_l2(struct amdsim_cache *c, const struct place *p, uint32_t offset,
            uint32_t n_bytes)
{
    struct l2_line *l = l2_line(c, p);
    uint64_t bits = n_bytes == 64 ? ~0ull : (1ull << n_bytes) - 1;

    assert(n_bytes > 0 && offset + n_bytes <= LINE_BYTES);
    if (offset >= 64)
        l->dirty[1] |= bits << (offset - 64);
    else
        l->dirty[0] |= bits << offset;
    if (offset > 0 && offset < 64)
        l->dirty[1] |= bits >> (64 - offset);
    if (!l->listed) {
        l->listed = true;
        c->dirty[c->n_dirty++] = (uint32_t)(l - c->l2);
    }
    return l->line.bytes + offset;
}

/* ---- what is read through ---- */

/* The line's place in a cache; true if it is there. */
static bool
find(struct line *lines, uint32_t n_lines, uint64_t age, uintptr_t host,
     struct line **out)
{
    *out = &lines[line_index(host, n_lines)];
    return (*out)->host == host && (*out)->age == age;
}

/* Bytes of a line, whatever they are. */
struct __attribute__((may_alias)) line_words {
    uint64_t word[LINE_BYTES / 8];
};

/* A line may have more than the user gave the card of his memory: the rest of
 * the page is there too, but sanitizers think that nobody may look. */
__attribute__((no_sanitize("address", "thread"))) static void
cache_copy_line(uint64_t *to, const volatile struct line_words *from)
{
    uint32_t i;

    for (i = 0; i < LINE_BYTES / sizeof(*to); i++)
        to[i] = from->word[i];
}

static void
cache_put_line(struct line *line, uint64_t age, uintptr_t host,
               const void *bytes)
{
    uint64_t words[LINE_BYTES / sizeof(uint64_t)];

    assert(host % LINE_BYTES == 0);
    line->host = host;
    line->age = age;
    cache_copy_line(words, bytes);
    memcpy(line->bytes, words, LINE_BYTES);
}

static const uint8_t *
read_l2(struct amdsim_cache *c, const struct place *p)
{
    return p->uncached ? (const uint8_t *)p->host : l2_line(c, p)->line.bytes;
}

static uint8_t *
read_scalar(struct amdsim_cache *c, const struct place *p)
{
    struct pair *pair = c->pair;
    struct line *line;

    if (!find(pair->scalar, N_SCALAR, pair->scalar_age, p->host, &line))
        cache_put_line(line, pair->scalar_age, p->host, read_l2(c, p));
    return line->bytes;
}

static uint8_t *
read_vector(struct amdsim_cache *c, const struct place *p)
{
    struct cu *own = c->cu;
    struct pair *pair = c->pair;
    struct line *line, *behind;

    if (find(own->vector, N_VECTOR, own->vector_age, p->host, &line))
        return line->bytes;
    if (c->gfx < 10) {
        cache_put_line(line, own->vector_age, p->host, read_l2(c, p));
        return line->bytes;
    }
    if (!find(pair->gl1, N_GL1, pair->gl1_age, p->host, &behind))
        cache_put_line(behind, pair->gl1_age, p->host, read_l2(c, p));
    cache_put_line(line, own->vector_age, p->host, behind->bytes);
    return line->bytes;
}

static void
drop_vector(struct amdsim_cache *c, uintptr_t host)
{
    struct line *line;

    if (find(c->cu->vector, N_VECTOR, c->cu->vector_age, host, &line))
        line->age = 0;
    if (find(c->pair->gl1, N_GL1, c->pair->gl1_age, host, &line))
        line->age = 0;
}

/* ---- accesses ---- */

static void *
load_cached(struct amdsim_cache *c, struct place *p, uint32_t offset,
            uint32_t n_bytes, bool scalar)
{
    uint8_t *first = scalar ? read_scalar(c, p) : read_vector(c, p), *second;

    if (offset + n_bytes <= LINE_BYTES)
        return first + offset;
    memcpy(c->joined, first, LINE_BYTES);
    p->va += LINE_BYTES;
    p->host += LINE_BYTES;
    second = scalar ? read_scalar(c, p) : read_vector(c, p);
    memcpy(c->joined + LINE_BYTES, second, LINE_BYTES);
    return c->joined + offset;
}

void *
amdsim_cache_at(struct amdsim_cache *c, struct sim_walk *walk, uint64_t va,
                void *host, uint32_t n_bytes, uint32_t page_flags,
                enum amd_access access)
{
    uint32_t offset = (uint32_t)(va % LINE_BYTES);
    bool crosses = offset + n_bytes > LINE_BYTES;
    struct place p = {walk, va - offset, (uintptr_t)host - offset,
                      (page_flags & SIM_PAGE_UNCACHED) != 0};

    assert(n_bytes > 0);
    if (access == AMD_ACCESS_FETCH)
        return host;
    if (access == AMD_ACCESS_SCALAR || access == AMD_ACCESS_LOAD)
        return load_cached(c, &p, offset, n_bytes, access == AMD_ACCESS_SCALAR);
    drop_vector(c, p.host);
    if (crosses)
        drop_vector(c, p.host + LINE_BYTES);
    if (access == AMD_ACCESS_LOAD_FRESH)
        return load_cached(c, &p, offset, n_bytes, false);
    if (!p.uncached && access == AMD_ACCESS_STORE && !crosses)
        return store_to_l2(c, &p, offset, n_bytes);
    amdsim_cache_yield(c, walk, host, n_bytes);
    return host;
}

static void
do_l2(struct amdsim_cache *c, struct sim_walk *walk, uint32_t ops)
{
    if (ops & AMDSIM_CACHE_WB_L2)
        write_back_all(c, walk);
    if (ops & AMDSIM_CACHE_INV_L2)
        invalidate_l2(c, walk);
}

static void
do_pair(struct pair *pair, uint32_t ops)
{
    pair->scalar_age += (ops & AMDSIM_CACHE_INV_SCALAR) != 0;
    pair->gl1_age += (ops & AMDSIM_CACHE_INV_GL1) != 0;
}

void
amdsim_cache_do(struct amdsim_cache *c, struct sim_walk *walk, uint32_t ops)
{
    uint32_t i;

    do_l2(c, walk, ops);
    for (i = 0; i < ARRAY_LEN(c->pairs); i++)
        do_pair(&c->pairs[i], ops);
    for (i = 0; i < ARRAY_LEN(c->cus); i++)
        c->cus[i].vector_age += (ops & AMDSIM_CACHE_INV_VECTOR) != 0;
}

void
amdsim_cache_do_own(struct amdsim_cache *c, struct sim_walk *walk, uint32_t ops)
{
    do_l2(c, walk, ops);
    do_pair(c->pair, ops);
    c->cu->vector_age += (ops & AMDSIM_CACHE_INV_VECTOR) != 0;
}

/* ---- bits of packets ---- */

struct bit {
    uint8_t number;
    uint8_t op;
};

static uint32_t
ops_of(const struct bit *bits, size_t n, uint32_t word)
{
    uint32_t ops = 0;
    size_t i;

    for (i = 0; i < n; i++)
        ops |= word >> bits[i].number & 1 ? bits[i].op : 0u;
    return ops;
}

uint32_t
amdsim_cache_acquire_ops(uint32_t gfx, uint32_t word)
{
    static const struct bit gfx9[] = {
        {18, AMDSIM_CACHE_WB_L2},
        {22, AMDSIM_CACHE_INV_VECTOR},
        {23, AMDSIM_CACHE_INV_L2},
        {27, AMDSIM_CACHE_INV_SCALAR},
    };
    static const struct bit gfx10[] = {
        {7, AMDSIM_CACHE_INV_SCALAR}, {8, AMDSIM_CACHE_INV_VECTOR},
        {9, AMDSIM_CACHE_INV_GL1},    {14, AMDSIM_CACHE_INV_L2},
        {15, AMDSIM_CACHE_WB_L2},
    };

    return gfx == 9 ? ops_of(gfx9, ARRAY_LEN(gfx9), word)
                    : ops_of(gfx10, ARRAY_LEN(gfx10), word);
}

uint32_t
amdsim_cache_release_ops(uint32_t gfx, uint32_t word)
{
    static const struct bit gfx9[] = {
        {15, AMDSIM_CACHE_WB_L2},
        {16, AMDSIM_CACHE_INV_VECTOR},
        {17, AMDSIM_CACHE_INV_L2},
    };
    static const struct bit gfx10[] = {
        {14, AMDSIM_CACHE_INV_VECTOR},
        {15, AMDSIM_CACHE_INV_GL1},
        {20, AMDSIM_CACHE_INV_L2},
        {21, AMDSIM_CACHE_WB_L2},
    };

    return gfx == 9 ? ops_of(gfx9, ARRAY_LEN(gfx9), word)
                    : ops_of(gfx10, ARRAY_LEN(gfx10), word);
}

/* Dies do not share L2: what the agent is to see has to leave it. */
static bool
leaves_l2(uint32_t scope, uint32_t n_xcc)
{
    return scope == 2 || (scope == 1 && n_xcc > 1);
}

uint32_t
amdsim_cache_aql_acquire(uint32_t header, uint32_t n_xcc)
{
    uint32_t scope = header >> 9 & 3, ops = 0;

    if (scope)
        ops = AMDSIM_CACHE_INV_SCALAR | AMDSIM_CACHE_INV_VECTOR |
              AMDSIM_CACHE_INV_GL1;
    return leaves_l2(scope, n_xcc) ? ops | AMDSIM_CACHE_INV_L2 : ops;
}

uint32_t
amdsim_cache_aql_release(uint32_t header, uint32_t n_xcc)
{
    return leaves_l2(header >> 11 & 3, n_xcc) ? AMDSIM_CACHE_WB_L2 : 0u;
}
