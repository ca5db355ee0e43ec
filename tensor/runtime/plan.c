/* The memory plan: values that are not alive at once share memory. */
#include "tensor/runtime/runtime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "lower/schedule/overwrite.h"

#define PLACE_ALIGN 256u
#define MANY        4096 /* values: more are not placed by size */

/* A value in scratch memory, and those that take its place: alive from item
 * `first` to item `last`. */
struct span {
    uint32_t buf, first, last;
    uint64_t size_bytes, offset;
};

/* Everything of one rt_place_buffers. */
struct placer {
    struct rt_plan *plan;
    uint32_t n_items, n_spans;
    uint32_t *first, *last; /* by buffer: items that touch it */
    struct span *spans;
    struct span **order; /* what is placed, in this order */
    uint64_t *best;      /* offsets of the best way so far, by span */
    uint64_t best_bytes, least_bytes;
};

static uint64_t
buf_bytes(const struct sched_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

static bool
is_scratch(const struct sched_buf *buf)
{
    return buf->leaf < 0 && buf->root < 0;
}

/* ---- who is alive when ---- */

static void
find_lives(const struct sched_plan *sched, uint32_t *first, uint32_t *last)
{
    uint32_t i, j, b;

    memset(first, 0xff, sched->n_bufs * sizeof(*first));
    memset(last, 0, sched->n_bufs * sizeof(*last));
    for (i = 0; i < sched->n_items; i++) {
        for (j = 0; j < sched->items[i].n_bufs; j++) {
            b = sched->items[i].bufs[j];
            if (first[b] == UINT32_MAX)
                first[b] = i;
            last[b] = i;
        }
    }
}

/* Adds the bytes to those that are alive in items first..last; sum_up makes
 * them absolute. */
static void
add_life(uint64_t *alive, uint32_t first, uint32_t last, uint64_t n_bytes)
{
    alive[first] += n_bytes;
    alive[last + 1] -= n_bytes;
}

static uint64_t
sum_up(uint64_t *alive, uint32_t n)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; i < n; i++) {
        alive[i] += i ? alive[i - 1] : 0;
        most = alive[i] > most ? alive[i] : most;
    }
    return most;
}

/* ---- values in the place of what dies ---- */

/* A value that may take the place of one that its kernel is the last to
 * read. */
struct taking {
    uint32_t item, out, in; /* buffers */
};

struct taker {
    struct uop_graph *k;
    struct rt_plan *plan;
    const uint32_t *first, *last;
    struct taking *list;
    size_t n, cap;
};

/* Adds to the list what item i's results may take; all that is alike, where
 * nobody asks the kernel (`guess`). *out_bytes: of the places. */
static bell_status
list_takings(struct taker *t, uint32_t i, bool guess, uint64_t *out_bytes)
{
    const struct sched_item *item = &t->plan->sched.items[i];
    const struct sched_buf *bufs = t->plan->sched.bufs;
    bool taken[SCHED_MAX_PARAMS] = {false}, may;
    uint32_t o, n;

    *out_bytes = 0;
    for (o = 0; o < item->n_outs; o++) {
        const struct sched_buf *out = &bufs[item->bufs[o]];
        if (!is_scratch(out) || t->first[item->bufs[o]] != i)
            continue;
        for (n = item->n_outs; n < item->n_bufs; n++) {
            const struct sched_buf *in = &bufs[item->bufs[n]];
            if (taken[n] || !is_scratch(in) || t->last[item->bufs[n]] != i ||
                t->first[item->bufs[n]] == i || in->dtype != out->dtype ||
                in->n_elems != out->n_elems)
                continue;
            may = true;
            if (!guess)
                BELL_TRY(sched_may_overwrite(t->k, item->sink, o, n, &may));
            if (!may)
                continue;
            taken[n] = true;
            *out_bytes += align_up(buf_bytes(in), PLACE_ALIGN);
            if (guess)
                break;
            if (host_grow((void **)&t->list, &t->cap, t->n + 1,
                          sizeof(*t->list)) != 0)
                return bell_fail(BELL_E_NO_MEMORY, "out of memory planning");
            t->list[t->n++] = (struct taking){i, item->bufs[o], item->bufs[n]};
            break;
        }
    }
    return BELL_OK;
}

static uint32_t
slot_of(const struct sched_item *item, uint32_t buf)
{
    uint32_t i = 0;

    while (item->bufs[i] != buf)
        i++;
    return i;
}

/* The fewest that make the most bytes that are alive at once, alive[], as few
 * as all of them do: a kernel in place is another one to compile. */
static bell_status
take_places(struct taker *t, uint64_t *alive, uint64_t most)
{
    struct sched_plan *sched = &t->plan->sched;
    uint64_t floor = 0, bytes;
    uint32_t i;
    size_t at;

    for (i = 0; i < sched->n_items; i++) {
        if (alive[i] <= floor)
            continue;
        BELL_TRY(list_takings(t, i, true, &bytes));
        floor = alive[i] - bytes > floor ? alive[i] - bytes : floor;
    }
    for (i = 0; floor < most && i < sched->n_items; i++) {
        if (alive[i] <= floor)
            continue;
        BELL_TRY(list_takings(t, i, false, &bytes));
        floor = alive[i] - bytes > floor ? alive[i] - bytes : floor;
    }
    for (at = 0; at < t->n; at++) {
        const struct taking *take = &t->list[at];
        struct sched_item *item = &sched->items[take->item];
        if (alive[take->item] <= floor)
            continue;
        alive[take->item] -=
            align_up(buf_bytes(&sched->bufs[take->in]), PLACE_ALIGN);
        t->plan->takes[take->out] = t->plan->takes[take->in];
        t->plan->n_taken++;
        BELL_TRY(sched_overwrite(t->k, item, slot_of(item, take->out),
                                 slot_of(item, take->in)));
    }
    return BELL_OK;
}

static bell_status
overwrite_dying(struct placer *p, struct uop_graph *kernels)
{
    const struct sched_plan *sched = &p->plan->sched;
    struct taker t = {
        .k = kernels, .plan = p->plan, .first = p->first, .last = p->last};
    uint64_t *alive = host_calloc(p->n_items + 1, sizeof(*alive));
    bell_status status = BELL_OK;
    uint32_t b;

    if (!alive)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory planning");
    for (b = 0; b < sched->n_bufs; b++) {
        if (is_scratch(&sched->bufs[b]) && p->first[b] != UINT32_MAX)
            add_life(alive, p->first[b], p->last[b],
                     align_up(buf_bytes(&sched->bufs[b]), PLACE_ALIGN));
    }
    status = take_places(&t, alive, sum_up(alive, p->n_items));
    host_free(alive);
    host_free(t.list);
    return status;
}

/* ---- places ---- */

/* Memory that nobody has. */
struct gap {
    uint64_t begin, end;
};

struct gaps {
    struct gap *list; /* by address; the last one has no end */
    uint32_t n;
    uint64_t end; /* of all that was ever taken */
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
keep_best(struct placer *p, uint64_t n_bytes)
{
    uint32_t i;

    if (n_bytes >= p->best_bytes)
        return;
    p->best_bytes = n_bytes;
    for (i = 0; i < p->n_spans; i++)
        p->best[i] = p->spans[i].offset;
}

static int
compare_sizes(const struct span *x, const struct span *y)
{
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes > y->size_bytes ? -1 : 1;
    if (x->last - x->first != y->last - y->first)
        return x->last - x->first > y->last - y->first ? -1 : 1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->buf > y->buf) - (x->buf < y->buf);
}

static int
by_size(const void *a, const void *b)
{
    return compare_sizes(*(struct span *const *)a, *(struct span *const *)b);
}

static int
by_first(const void *a, const void *b)
{
    const struct span *x = *(struct span *const *)a;
    const struct span *y = *(struct span *const *)b;

    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : compare_sizes(x, y);
}

static int
by_last(const void *a, const void *b)
{
    const struct span *x = *(struct span *const *)a;
    const struct span *y = *(struct span *const *)b;

    return x->last != y->last ? (x->last < y->last) - (x->last > y->last)
                              : compare_sizes(x, y);
}

static int
by_length(const void *a, const void *b)
{
    const struct span *x = *(struct span *const *)a;
    const struct span *y = *(struct span *const *)b;
    uint32_t nx = x->last - x->first, ny = y->last - y->first;

    return nx != ny ? (nx < ny) - (nx > ny) : compare_sizes(x, y);
}

/* Through time, or back through it: at each item what is born takes a gap, and
 * what has died before gives one. */
static void
place_by_time(struct placer *p, bool back, bool smallest, struct gap *list,
              uint32_t *dead)
{
    struct gaps g = {.list = list, .n = 1};
    uint32_t i, at = 0, n = p->n_items, born, end, s;

    list[0] = (struct gap){0, UINT64_MAX};
    memset(dead, 0xff, n * sizeof(*dead)); /* by item: newest span, then */
    qsort(p->order, p->n_spans, sizeof(*p->order), back ? by_last : by_first);
    for (i = 0; i < n; i++) {
        for (s = i ? dead[i - 1] : UINT32_MAX; s != UINT32_MAX;
             s = dead[n + s]) {
            const struct span *old = &p->spans[s];
            give_gap(&g, old->offset, old->offset + old->size_bytes);
        }
        for (; at < p->n_spans; at++) {
            struct span *span = p->order[at];
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
place_by_order(struct placer *p, int (*compare)(const void *a, const void *b),
               struct span **placed)
{
    uint64_t end = 0;
    uint32_t i, j;

    qsort(p->order, p->n_spans, sizeof(*p->order), compare);
    for (i = 0; i < p->n_spans; i++) {
        struct span *span = p->order[i];
        uint64_t at = 0;
        for (j = 0; j < i; j++) {
            const struct span *other = placed[j];
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
static bell_status
place_spans(struct placer *p)
{
    static int (*const orders[])(const void *a, const void *b) = {by_size,
                                                                  by_length};
    struct gap *gaps = host_alloc((p->n_spans + 2) * sizeof(*gaps));
    uint32_t *dead = host_alloc((p->n_items + p->n_spans + 1) * sizeof(*dead));
    struct span **placed = host_alloc((p->n_spans + 1) * sizeof(*placed));
    bool good = gaps && dead && placed;
    uint32_t i;

    p->best_bytes = UINT64_MAX;
    for (i = 0; good && i < 4 && p->best_bytes > p->least_bytes; i++)
        place_by_time(p, i & 1, i & 2, gaps, dead);
    for (i = 0; good && i < ARRAY_LEN(orders) && p->n_spans <= MANY &&
                p->best_bytes > p->least_bytes;
         i++)
        place_by_order(p, orders[i], placed);
    host_free(gaps);
    host_free(dead);
    host_free(placed);
    return good ? BELL_OK
                : bell_fail(BELL_E_NO_MEMORY,
                            "out of memory planning %u values", p->n_spans);
}

/* Fills the spans in and the bytes that are alive at once. */
static bell_status
find_spans(struct placer *p)
{
    struct rt_plan *plan = p->plan;
    const struct sched_plan *sched = &plan->sched;
    uint64_t *alive = host_calloc(2 * (p->n_items + 1), sizeof(*alive));
    uint64_t *exact = alive + p->n_items + 1;
    uint32_t b;

    if (!alive)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory planning");
    find_lives(sched, p->first, p->last);
    for (b = 0; b < sched->n_bufs; b++) {
        uint32_t of = plan->takes[b];
        if (p->last[b] > p->last[of])
            p->last[of] = p->last[b];
    }
    for (b = 0; b < sched->n_bufs; b++) {
        const struct sched_buf *buf = &sched->bufs[b];
        struct span *span = &p->spans[p->n_spans];
        if (!is_scratch(buf)) {
            plan->result_bytes +=
                buf->leaf < 0 ? align_up(buf_bytes(buf), PLACE_ALIGN) : 0;
            continue;
        }
        if (p->first[b] == UINT32_MAX || plan->takes[b] != b)
            continue;
        p->order[p->n_spans++] = span;
        *span = (struct span){
            .buf = b,
            .first = p->first[b],
            .last = p->last[b],
            .size_bytes = align_up(buf_bytes(buf), PLACE_ALIGN),
        };
        add_life(alive, span->first, span->last, span->size_bytes);
        add_life(exact, span->first, span->last, buf_bytes(buf));
    }
    p->least_bytes = sum_up(alive, p->n_items);
    plan->alive_bytes = sum_up(exact, p->n_items);
    host_free(alive);
    return BELL_OK;
}

static bell_status
place_buffers(struct placer *p, struct uop_graph *kernels)
{
    struct rt_plan *plan = p->plan;
    uint32_t i;

    find_lives(&plan->sched, p->first, p->last);
    for (i = 0; i < plan->sched.n_bufs; i++)
        plan->takes[i] = i;
    if (kernels)
        BELL_TRY(overwrite_dying(p, kernels));
    BELL_TRY(find_spans(p));
    BELL_TRY(place_spans(p));
    plan->scratch_bytes = p->best_bytes;
    for (i = 0; i < p->n_spans; i++)
        plan->offsets[p->spans[i].buf] = p->best[i];
    for (i = 0; i < plan->sched.n_bufs; i++)
        plan->offsets[i] = plan->offsets[plan->takes[i]];
    return BELL_OK;
}

bell_status
rt_place_buffers(struct rt_plan *plan, struct uop_graph *kernels)
{
    uint32_t n = plan->sched.n_bufs;
    struct placer p = {.plan = plan, .n_items = plan->sched.n_items};
    bell_status status;

    p.first = host_alloc(n * sizeof(*p.first) + 1);
    p.last = host_alloc(n * sizeof(*p.last) + 1);
    p.spans = host_alloc(n * sizeof(*p.spans) + 1);
    p.order = host_alloc(n * sizeof(struct span *) + 1);
    p.best = host_alloc(n * sizeof(*p.best) + 1);
    assert(plan->n_taken == 0);
    host_free(plan->offsets); /* of smaller sizes */
    host_free(plan->takes);
    plan->result_bytes = 0;
    plan->offsets = host_calloc(n + 1, sizeof(*plan->offsets));
    plan->takes = host_alloc(n * sizeof(*plan->takes) + 1);
    if (p.first && p.last && p.spans && p.order && p.best && plan->offsets &&
        plan->takes)
        status = place_buffers(&p, kernels);
    else
        status =
            bell_fail(BELL_E_NO_MEMORY, "out of memory planning %u buffers", n);
    host_free(p.first);
    host_free(p.last);
    host_free(p.spans);
    host_free(p.order);
    host_free(p.best);
    if (status == BELL_OK)
        LOG(LOG_MEM,
            "a plan of %u kernels: results of %llu bytes, %u places of %llu "
            "for "
            "what lies between, of which %llu are alive at once; %u values in "
            "the place of what they are made of",
            plan->sched.n_items, (unsigned long long)plan->result_bytes,
            p.n_spans, (unsigned long long)plan->scratch_bytes,
            (unsigned long long)plan->alive_bytes, plan->n_taken);
    return status;
}
