/* The memory plan: values that are not alive at once share memory. */
#include "tensor/runtime/runtime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "lower/schedule/overwrite.h"
#include "tensor/runtime/mesh_bucket.h"
#include "tensor/runtime/place.h"

#define PLACE_ALIGN 256u

/* Everything of one rt_place_buffers. */
struct placer {
    struct rt_plan *plan;
    uint32_t n_items, n_spans;
    uint32_t *first, *last; /* by buffer: items that touch it */
    struct rt_span *spans;  /* of values in scratch memory, and those that take
                             * their place */
    uint32_t *bufs;         /* by span */
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
    uint32_t i, j, b, n;

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
    /* a bucket reads all its values before it writes a result */
    for (i = 0; i < sched->n_items; i += n) {
        n = mesh_bucket_length(&sched->items[i], sched->n_items - i,
                               sched->bufs);
        for (j = 0; n > 1 && j < n; j++) {
            b = sched->items[i + j].bufs[1];
            last[b] = last[b] > i + n - 1 ? last[b] : i + n - 1;
        }
    }
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
            rt_span_add(alive, p->first[b], p->last[b],
                        align_up(buf_bytes(&sched->bufs[b]), PLACE_ALIGN));
    }
    status = take_places(&t, alive, rt_span_sum(alive, p->n_items));
    host_free(alive);
    host_free(t.list);
    return status;
}

/* ---- places ---- */

/* Fills the spans in and the bytes that are alive at once. */
static bell_status
find_spans(struct placer *p)
{
    struct rt_plan *plan = p->plan;
    const struct sched_plan *sched = &plan->sched;
    uint64_t *alive = host_calloc(p->n_items + 1, sizeof(*alive));
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
        if (!is_scratch(buf)) {
            plan->result_bytes +=
                buf->leaf < 0 ? align_up(buf_bytes(buf), PLACE_ALIGN) : 0;
            continue;
        }
        if (p->first[b] == UINT32_MAX || plan->takes[b] != b)
            continue;
        p->bufs[p->n_spans] = b;
        p->spans[p->n_spans++] = (struct rt_span){
            .first = p->first[b],
            .last = p->last[b],
            .size_bytes = align_up(buf_bytes(buf), PLACE_ALIGN),
        };
        rt_span_add(alive, p->first[b], p->last[b], buf_bytes(buf));
    }
    plan->alive_bytes = rt_span_sum(alive, p->n_items);
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
    BELL_TRY(
        rt_place_spans(p->spans, p->n_spans, p->n_items, &plan->scratch_bytes));
    for (i = 0; i < p->n_spans; i++)
        plan->offsets[p->bufs[i]] = p->spans[i].offset;
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
    p.bufs = host_alloc(n * sizeof(*p.bufs) + 1);
    assert(plan->n_taken == 0);
    host_free(plan->offsets); /* of smaller sizes */
    host_free(plan->takes);
    plan->result_bytes = 0;
    plan->offsets = host_calloc(n + 1, sizeof(*plan->offsets));
    plan->takes = host_alloc(n * sizeof(*plan->takes) + 1);
    if (p.first && p.last && p.spans && p.bufs && plan->offsets && plan->takes)
        status = place_buffers(&p, kernels);
    else
        status =
            bell_fail(BELL_E_NO_MEMORY, "out of memory planning %u buffers", n);
    host_free(p.first);
    host_free(p.last);
    host_free(p.spans);
    host_free(p.bufs);
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
