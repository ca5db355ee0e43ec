/* Places for what is alive from one item of a list to another. */
#include "tensor/runtime/place.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MANY 4096 /* values: more are not placed by size. guess */

void
rt_span_add(uint64_t *alive, uint32_t first, uint32_t last, uint64_t n_bytes)
{
    alive[first] += n_bytes;
    alive[last + 1] -= n_bytes;
}

uint64_t
rt_span_sum(uint64_t *alive, uint32_t n)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; i < n; i++) {
        alive[i] += i ? alive[i - 1] : 0;
        most = alive[i] > most ? alive[i] : most;
    }
    return most;
}

/* ---- gaps ---- */

/* Memory that nobody has. */
struct gap {
    uint64_t begin, end;
};

struct gaps {
    struct gap *list; /* by address; the last one has no end */
    uint32_t n;
    uint64_t end; /* of all that was ever taken */
};

/* Everything of one rt_place_spans. */
struct placing {
    struct rt_span *spans;
    uint32_t n_spans, n_items;
    struct rt_span **order; /* what is placed, in this order */
    uint64_t *best;         /* offsets of the best way so far, by span */
    uint64_t best_bytes, least_bytes;
    /* scratch: */
    struct rt_span **placed;
    struct gap *gaps;
    uint32_t *dead;
};

/* The lowest gap that is large enough, or the smallest of these. */
static uint64_t
take_gap(struct gaps *g, uint64_t n_bytes, bool smallest)
{
    uint32_t i, at = g->n - 1;
    uint64_t begin;

    for (i = 0; i < g->n; i++) {
        uint64_t size = g->list[i].end - g->list[i].begin;
        if (size < n_bytes)
            continue;
        if (!smallest) {
            at = i;
            break;
        }
        if (size < g->list[at].end - g->list[at].begin)
            at = i;
    }
    begin = g->list[at].begin;
    g->list[at].begin += n_bytes;
    g->end = g->list[at].begin > g->end ? g->list[at].begin : g->end;
    if (g->list[at].begin == g->list[at].end) {
        g->n--;
        memmove(&g->list[at], &g->list[at + 1],
                (g->n - at) * sizeof(g->list[0]));
    }
    return begin;
}

static void
give_gap(struct gaps *g, uint64_t begin, uint64_t end)
{
    uint32_t low = 0, high = g->n - 1, mid;

    while (low < high) { /* the first gap behind it */
        mid = (low + high) / 2;
        if (g->list[mid].begin < end)
            low = mid + 1;
        else
            high = mid;
    }
    if (g->list[low].begin == end) {
        g->list[low].begin = begin;
    } else {
        memmove(&g->list[low + 1], &g->list[low],
                (g->n - low) * sizeof(g->list[0]));
        g->list[low] = (struct gap){begin, end};
        g->n++;
    }
    if (low && g->list[low - 1].end == begin) {
        g->list[low - 1].end = g->list[low].end;
        g->n--;
        memmove(&g->list[low], &g->list[low + 1],
                (g->n - low) * sizeof(g->list[0]));
    }
}

/* Keeps the offsets if they are the best so far. */
static void
keep_best(struct placing *p, uint64_t n_bytes)
{
    uint32_t i;

    if (n_bytes >= p->best_bytes)
        return;
    p->best_bytes = n_bytes;
    for (i = 0; i < p->n_spans; i++)
        p->best[i] = p->spans[i].offset;
}

static int
compare_sizes(const struct rt_span *x, const struct rt_span *y)
{
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes > y->size_bytes ? -1 : 1;
    if (x->last - x->first != y->last - y->first)
        return x->last - x->first > y->last - y->first ? -1 : 1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x > y) - (x < y);
}

static int
by_size(const void *a, const void *b)
{
    return compare_sizes(*(struct rt_span *const *)a,
                         *(struct rt_span *const *)b);
}

static int
by_first(const void *a, const void *b)
{
    const struct rt_span *x = *(struct rt_span *const *)a;
    const struct rt_span *y = *(struct rt_span *const *)b;

    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : compare_sizes(x, y);
}

static int
by_last(const void *a, const void *b)
{
    const struct rt_span *x = *(struct rt_span *const *)a;
    const struct rt_span *y = *(struct rt_span *const *)b;

    return x->last != y->last ? (x->last < y->last) - (x->last > y->last)
                              : compare_sizes(x, y);
}

static int
by_length(const void *a, const void *b)
{
    const struct rt_span *x = *(struct rt_span *const *)a;
    const struct rt_span *y = *(struct rt_span *const *)b;
    uint32_t nx = x->last - x->first, ny = y->last - y->first;

    return nx != ny ? (nx < ny) - (nx > ny) : compare_sizes(x, y);
}

/* Through time, or back through it: at each item what is born takes a gap, and
 * what has died before gives one. */
static void
place_by_time(struct placing *p, bool back, bool smallest)
{
    struct gaps g = {.list = p->gaps, .n = 1};
    uint32_t i, at = 0, n = p->n_items, born, end, s, *dead = p->dead;

    g.list[0] = (struct gap){0, UINT64_MAX};
    memset(dead, 0xff, n * sizeof(*dead)); /* by item: newest span, then */
    qsort(p->order, p->n_spans, sizeof(*p->order), back ? by_last : by_first);
    for (i = 0; i < n; i++) {
        for (s = i ? dead[i - 1] : UINT32_MAX; s != UINT32_MAX;
             s = dead[n + s]) {
            const struct rt_span *old = &p->spans[s];
            give_gap(&g, old->offset, old->offset + old->size_bytes);
        }
        for (; at < p->n_spans; at++) {
            struct rt_span *span = p->order[at];
            born = back ? n - 1 - span->last : span->first;
            end = back ? n - 1 - span->first : span->last;
            if (born != i)
                break;
            span->offset = take_gap(&g, span->size_bytes, smallest);
            s = (uint32_t)(span - p->spans);
            dead[n + s] = dead[end];
            dead[end] = s;
        }
    }
    assert(at == p->n_spans);
    keep_best(p, g.end);
}

/* One after the other in an order of its own, each in the lowest gap between
 * those that are alive at some time with it. placed[] is sorted by offset. */
static void
place_by_order(struct placing *p, int (*compare)(const void *a, const void *b))
{
    struct rt_span **placed = p->placed;
    uint64_t end = 0;
    uint32_t i, j;

    qsort(p->order, p->n_spans, sizeof(*p->order), compare);
    for (i = 0; i < p->n_spans; i++) {
        struct rt_span *span = p->order[i];
        uint64_t at = 0;
        for (j = 0; j < i; j++) {
            const struct rt_span *other = placed[j];
            if (other->first > span->last || other->last < span->first)
                continue;
            if (other->offset >= at + span->size_bytes)
                break;
            if (other->offset + other->size_bytes > at)
                at = other->offset + other->size_bytes;
        }
        span->offset = at;
        end = at + span->size_bytes > end ? at + span->size_bytes : end;
        for (j = i; j > 0 && placed[j - 1]->offset > at; j--)
            placed[j] = placed[j - 1];
        placed[j] = span;
    }
    keep_best(p, end);
}

/* The best of several ways, the quick ones first. None is needed behind one
 * that takes no more than what is alive at once. */
static void
place_all(struct placing *p)
{
    static int (*const orders[])(const void *a, const void *b) = {by_size,
                                                                  by_length};
    uint32_t i;

    p->best_bytes = UINT64_MAX;
    for (i = 0; i < 4 && p->best_bytes > p->least_bytes; i++)
        place_by_time(p, i & 1, i & 2);
    for (i = 0; i < ARRAY_LEN(orders) && p->n_spans <= MANY &&
                p->best_bytes > p->least_bytes;
         i++)
        place_by_order(p, orders[i]);
    for (i = 0; i < p->n_spans; i++)
        p->spans[i].offset = p->best[i];
}

bell_status
rt_place_spans(struct rt_span *spans, uint32_t n, uint32_t n_items,
               uint64_t *out_bytes)
{
    struct placing p = {.spans = spans, .n_spans = n, .n_items = n_items};
    uint64_t *alive = host_calloc((size_t)n_items + 1, sizeof(*alive));
    bell_status status = BELL_OK;
    uint32_t i;

    p.order = host_alloc((n + 1) * sizeof(*p.order));
    p.placed = host_alloc((n + 1) * sizeof(*p.placed));
    p.best = host_alloc((n + 1) * sizeof(*p.best));
    p.gaps = host_alloc((n + 2) * sizeof(*p.gaps));
    p.dead = host_alloc(((size_t)n_items + n + 1) * sizeof(*p.dead));
    if (alive && p.order && p.placed && p.best && p.gaps && p.dead) {
        for (i = 0; i < n; i++) {
            assert(spans[i].size_bytes && spans[i].first <= spans[i].last &&
                   spans[i].last < n_items);
            p.order[i] = &spans[i];
            rt_span_add(alive, spans[i].first, spans[i].last,
                        spans[i].size_bytes);
        }
        p.least_bytes = rt_span_sum(alive, n_items);
        place_all(&p);
        *out_bytes = p.best_bytes;
    } else {
        status =
            bell_fail(BELL_E_NO_MEMORY, "out of memory placing %u values", n);
    }
    host_free(alive);
    host_free(p.order);
    host_free(p.placed);
    host_free(p.best);
    host_free(p.gaps);
    host_free(p.dead);
    return status;
}
