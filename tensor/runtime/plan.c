/* The memory plan: values that are not alive at once share memory. */
#include "tensor/runtime/runtime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"

#define PLACE_ALIGN 256u

/* A value in scratch memory: alive from item `first` to item `last`. */
struct span {
    uint32_t buf, first, last;
    uint64_t size_bytes, offset;
};

static int
by_first(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static uint64_t
buf_bytes(const struct sched_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

/* Fills spans[] for the buffers that need a place; returns their number. */
static uint32_t
find_spans(const struct rt_plan *plan, struct span *spans, uint32_t *span_of)
{
    const struct sched_plan *sched = &plan->sched;
    uint32_t i, j, n = 0;

    for (i = 0; i < sched->n_bufs; i++)
        span_of[i] = UINT32_MAX;
    for (i = 0; i < sched->n_items; i++) {
        for (j = 0; j < sched->items[i].n_bufs; j++) {
            uint32_t b = sched->items[i].bufs[j];
            const struct sched_buf *buf = &sched->bufs[b];
            if (buf->leaf >= 0 || buf->root >= 0)
                continue;
            if (span_of[b] == UINT32_MAX) {
                span_of[b] = n;
                spans[n].buf = b;
                spans[n].first = i;
                spans[n++].size_bytes = align_up(buf_bytes(buf), PLACE_ALIGN);
            }
            spans[span_of[b]].last = i;
        }
    }
    return n;
}

/* Places spans in order of birth, each in the lowest gap that fits. alive[]
 * is sorted by offset. */
static uint64_t
place_spans(struct span *spans, uint32_t n, struct span **alive)
{
    uint32_t n_alive = 0, i, j, kept;
    uint64_t end = 0;

    for (i = 0; i < n; i++) {
        struct span *span = &spans[i];
        uint64_t at = 0;
        assert(i == 0 || spans[i - 1].first <= span->first); /* sorted */
        for (j = kept = 0; j < n_alive; j++) {
            if (alive[j]->last >= span->first)
                alive[kept++] = alive[j];
        }
        n_alive = kept;
        for (j = 0; j < n_alive; j++) {
            if (alive[j]->offset - at >= span->size_bytes &&
                alive[j]->offset >= at)
                break;
            at = alive[j]->offset + alive[j]->size_bytes;
        }
        span->offset = at;
        memmove(&alive[j + 1], &alive[j], (n_alive - j) * sizeof(*alive));
        alive[j] = span;
        n_alive++;
        if (at + span->size_bytes > end)
            end = at + span->size_bytes;
    }
    return end;
}

bell_status
rt_place_buffers(struct rt_plan *plan)
{
    uint32_t n_bufs = plan->sched.n_bufs, n, i;
    struct span *spans = host_calloc(n_bufs, sizeof(*spans));
    struct span **alive = host_calloc(n_bufs + 1, sizeof(*alive));
    uint32_t *span_of = host_alloc(n_bufs * sizeof(*span_of));
    uint64_t total = 0;

    plan->offsets = host_calloc(n_bufs, sizeof(*plan->offsets));
    if (!spans || !alive || !span_of || !plan->offsets) {
        host_free(spans);
        host_free(alive);
        host_free(span_of);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory planning %u buffers",
                         n_bufs);
    }
    n = find_spans(plan, spans, span_of);
    qsort(spans, n, sizeof(*spans), by_first);
    plan->scratch_bytes = place_spans(spans, n, alive);
    for (i = 0; i < n; i++) {
        plan->offsets[spans[i].buf] = spans[i].offset;
        total += spans[i].size_bytes;
    }
    LOG(LOG_MEM, "%u intermediate values of %llu bytes in %llu", n,
        (unsigned long long)total, (unsigned long long)plan->scratch_bytes);
    host_free(spans);
    host_free(alive);
    host_free(span_of);
    return BELL_OK;
}
