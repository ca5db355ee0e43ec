/* Slots of graphs: setting them, and whether the memory of those that changed
 * may be used together.
 *
 * Two slots are compared by what is known of both. Those of one device have
 * addresses. Those with a home are compared by where their memory is, whatever
 * device sees it; all views of one are one slot there. A slot without a home
 * and memory of another device need no look: the order of commands takes them
 * for the same.
 */
#include "hcq/hcq_graph_internal.h"

#include <assert.h>

#include "base/bits.h"

/* With so many slots that are written, no order is kept. */
#define FEW_WRITTEN 4

/* ---- setting ---- */

void
hcq_graph_align_slot(struct hcq_graph *graph, uint32_t slot, uint64_t bytes)
{
    assert(slot < graph->n_slots && is_pow2(bytes));
    graph->slots[slot].low_bits |= bytes - 1;
}

static BELL_MUST_CHECK bell_status
refuse_low_bits(const struct hcq_graph *graph, uint32_t slot, uint64_t value)
{
    return bell_fail(BELL_BAD_VALUE,
                     "graph '%s': slot '%s' = 0x%llx: its memory begins at a "
                     "multiple of %llu, the size of an element that is summed",
                     graph->name, graph->names[slot].text,
                     (unsigned long long)value,
                     (unsigned long long)graph->slots[slot].low_bits + 1);
}

static BELL_MUST_CHECK bell_status
refuse_set(const struct hcq_graph *graph, uint32_t slot, uint64_t value)
{
    if (graph->state != GRAPH_READY || slot >= graph->n_slots)
        return bell_fail(BELL_BAD_STATE, "graph '%s': slot %u: %s", graph->name,
                         slot,
                         graph->state != GRAPH_READY ? "the graph is not built"
                                                     : "there is none");
    if (value & graph->slots[slot].low_bits)
        return refuse_low_bits(graph, slot, value);
    if (value <= graph->slots[slot].max)
        return bell_fail(BELL_BAD_VALUE,
                         "graph '%s': slot '%s' has its home on %s: it is set "
                         "by hcq_graph_set_buffer",
                         graph->name, graph->names[slot].text,
                         graph->slots[slot].dev->info.name);
    return bell_fail(
        BELL_BAD_VALUE,
        "graph '%s': slot '%s' = %llu: at most %llu, or it goes "
        "beyond %s",
        graph->name, graph->names[slot].text, (unsigned long long)value,
        (unsigned long long)graph->slots[slot].max,
        graph->slots[slot].size_bytes ? "all addresses" : "what is copied");
}

/* The slot has another value: each copy of the streams lacks it now, and
 * nobody has looked at it. */
static void
note_set(struct hcq_graph *graph, uint32_t slot)
{
    struct graph_slot *s = &graph->slots[slot];
    uint32_t i;

    graph->n_unset -= !s->is_set;
    s->is_set = true;
    for (i = 0; i < GRAPH_LIST_COUNT; i++) {
        if (s->lists & 1u << i)
            continue;
        assert(graph->n_listed[i] < graph->n_slots);
        s->lists |= (uint8_t)(1u << i);
        graph->lists[i][graph->n_listed[i]++] = slot;
    }
}

bell_status
hcq_graph_set(struct hcq_graph *graph, uint32_t slot, uint64_t value)
{
    struct graph_slot *s;

    BELL_TRY(hcq_check_process(graph->queues[0]->dev));
    if (__builtin_expect(graph->state != GRAPH_READY ||
                             slot >= graph->n_slots ||
                             value > graph->slots[slot].max ||
                             (value & graph->slots[slot].low_bits) ||
                             (graph->slots[slot].has_home &&
                              !(graph->flags & HCQ_GRAPH_TRUSTED)),
                         0))
        return refuse_set(graph, slot, value);
    s = &graph->slots[slot];
    if (s->is_set && s->value == value)
        return BELL_OK;
    s->value = value;
    note_set(graph, slot);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
refuse_buffer(const struct hcq_graph *graph, uint32_t slot,
              const struct hcq_buffer *buf, uint64_t offset_bytes)
{
    const struct graph_slot *s = &graph->slots[slot];
    const char *name = graph->names[slot].text;

    if (!s->size_bytes)
        return bell_fail(BELL_BAD_VALUE,
                         "graph '%s': slot '%s' is a word, not memory",
                         graph->name, name);
    if (buf->dev != s->dev)
        return bell_fail(
            BELL_BAD_CONTEXT,
            "graph '%s': slot '%s' is memory as %s sees it, and the buffer is "
            "of %s: hcq_buffer_create_peer makes one of the same memory",
            graph->name, name, s->dev ? s->dev->info.name : "no device",
            buf->dev->info.name);
    if (offset_bytes <= buf->size_bytes &&
        s->size_bytes <= buf->size_bytes - offset_bytes)
        return refuse_low_bits(graph, slot, buf->va + offset_bytes);
    return bell_fail(BELL_BAD_INDEX,
                     "graph '%s': slot '%s' is %llu bytes: from %llu on the "
                     "buffer has less, of %llu",
                     graph->name, name, (unsigned long long)s->size_bytes,
                     (unsigned long long)offset_bytes,
                     (unsigned long long)buf->size_bytes);
}

bell_status
hcq_graph_set_buffer(struct hcq_graph *graph, uint32_t slot,
                     const struct hcq_buffer *buf, uint64_t offset_bytes)
{
    struct hcq_home home;
    struct graph_slot *s;

    if (__builtin_expect(!buf, 0))
        return bell_fail(BELL_BAD_MISSING,
                         "graph '%s': slot %u: the buffer is NULL", graph->name,
                         slot);
    BELL_TRY(hcq_check_process(graph->queues[0]->dev));
    if (__builtin_expect(graph->state != GRAPH_READY || slot >= graph->n_slots,
                         0))
        return refuse_set(graph, slot, 0);
    s = &graph->slots[slot];
    if (__builtin_expect(!s->size_bytes || buf->dev != s->dev ||
                             offset_bytes > buf->size_bytes ||
                             s->size_bytes > buf->size_bytes - offset_bytes ||
                             ((buf->va + offset_bytes) & s->low_bits),
                         0))
        return refuse_buffer(graph, slot, buf, offset_bytes);
    hcq_buffer_home(buf, &home);
    home.at += offset_bytes;
    if (s->is_set && s->value == buf->va + offset_bytes &&
        s->home_dev == home.dev && s->home_at == home.at)
        return BELL_OK;
    s->value = buf->va + offset_bytes;
    s->home_dev = home.dev;
    s->home_at = home.at;
    note_set(graph, slot);
    return BELL_OK;
}

/* ---- what may be used together ---- */

/* A slot's memory as it is compared: by its device's address, or by its
 * home. */
struct extent {
    const struct hcq_device *dev;
    uint64_t begin, end;
};

static inline struct extent
extent_of(const struct graph_slot *slot, bool by_home)
{
    uint64_t begin = by_home ? slot->home_at : slot->value;

    return (struct extent){by_home ? slot->home_dev : slot->dev, begin,
                           begin + slot->size_bytes};
}

static inline bool
is_written_at(const struct graph_slot *slot, bool by_home)
{
    return by_home ? slot->is_home_written : slot->is_written;
}

/* Whether x comes before y in memory. */
static bool
is_before(const struct hcq_device *x_dev, uint64_t x,
          const struct hcq_device *y_dev, uint64_t y)
{
    return x_dev != y_dev ? x_dev < y_dev : x < y;
}

/* The first fixed range that the slot meets; the ranges are in order. */
static const struct graph_range *
find_range(const struct graph_ranges *ranges, const struct extent *extent)
{
    const struct graph_range *list = ranges->list;
    size_t first = 0, last = ranges->n;

    assert(extent->end > extent->begin);
    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (is_before(list[mid].dev, list[mid].end - 1, extent->dev,
                      extent->begin))
            first = mid + 1;
        else
            last = mid;
    }
    return first < ranges->n && list[first].dev == extent->dev &&
                   list[first].begin < extent->end
               ? &list[first]
               : NULL;
}

static bool
slot_is_before(const struct graph_slot *x, const struct graph_slot *y,
               bool by_home)
{
    struct extent a = extent_of(x, by_home), b = extent_of(y, by_home);

    return is_before(a.dev, a.begin, b.dev, b.begin);
}

static bool
is_sorted(const struct hcq_graph *graph, const struct graph_sorted *sorted,
          bool by_home)
{
    const uint32_t *ids = sorted->ids;
    uint32_t i;

    for (i = 1; i < sorted->n; i++) {
        if (slot_is_before(&graph->slots[ids[i]], &graph->slots[ids[i - 1]],
                           by_home))
            return false;
    }
    return true;
}

/* Shell's way. src: the gaps of M. Ciura, "Best Increments for the Average Case
 * of Shellsort", 2001, and 1750. */
static void
sort_slots(struct hcq_graph *graph, struct graph_sorted *sorted, bool by_home)
{
    static const uint32_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    uint32_t *ids = sorted->ids, n = sorted->n, i, k;
    size_t g;

    for (g = 0; g < ARRAY_LEN(gaps); g++) {
        uint32_t gap = gaps[g];
        for (i = gap; i < n; i++) {
            uint32_t id = ids[i];
            for (k = i; k >= gap; k -= gap) {
                uint32_t other = ids[k - gap];
                if (!slot_is_before(&graph->slots[id], &graph->slots[other],
                                    by_home))
                    break;
                ids[k] = other;
            }
            ids[k] = id;
        }
    }
}

static BELL_MUST_CHECK bell_status
refuse_slots(const struct hcq_graph *graph, const struct graph_slot *slot,
             const struct graph_slot *other)
{
    return bell_fail(
        BELL_BAD_VALUE,
        "graph '%s': slot '%s' at 0x%llx, of %llu bytes, and slot '%s' at "
        "0x%llx overlap, and one is written",
        graph->name, graph->names[slot - graph->slots].text,
        (unsigned long long)slot->value, (unsigned long long)slot->size_bytes,
        graph->names[other - graph->slots].text,
        (unsigned long long)other->value);
}

static bool
slots_meet(const struct graph_slot *x, const struct graph_slot *y, bool by_home)
{
    struct extent a = extent_of(x, by_home), b = extent_of(y, by_home);

    return a.dev == b.dev && a.begin < b.end && b.begin < a.end;
}

/* Each of few that are written with all. */
static BELL_MUST_CHECK bell_status
check_written(const struct hcq_graph *graph, const struct graph_sorted *sorted,
              bool by_home)
{
    uint32_t i, k;

    assert(sorted->n_written <= sorted->n);
    for (i = 0; i < sorted->n_written; i++) {
        const struct graph_slot *slot = &graph->slots[sorted->ids[i]];
        for (k = i + 1; k < sorted->n; k++) {
            const struct graph_slot *other = &graph->slots[sorted->ids[k]];
            if (__builtin_expect(slots_meet(slot, other, by_home), 0))
                return refuse_slots(graph, slot, other);
        }
    }
    return BELL_OK;
}

/* No slot meets another that is written: where those are many, in the order of
 * addresses each is compared with what reaches furthest of those before it. */
static BELL_MUST_CHECK bell_status
check_slots(struct hcq_graph *graph, struct graph_sorted *sorted, bool by_home)
{
    const struct graph_slot *furthest = NULL, *written = NULL;
    uint32_t i;

    if (sorted->n_written <= FEW_WRITTEN)
        return check_written(graph, sorted, by_home);
    if (!is_sorted(graph, sorted, by_home))
        sort_slots(graph, sorted, by_home);
    for (i = 0; i < sorted->n; i++) {
        const struct graph_slot *slot = &graph->slots[sorted->ids[i]];
        const struct graph_slot *other =
            is_written_at(slot, by_home) ? furthest : written;
        struct extent extent = extent_of(slot, by_home);

        if (other && slots_meet(slot, other, by_home))
            return refuse_slots(graph, slot, other);
        if (!furthest || extent_of(furthest, by_home).dev != extent.dev ||
            extent_of(furthest, by_home).end < extent.end)
            furthest = slot;
        if (is_written_at(slot, by_home))
            written = slot;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_fixed(const struct hcq_graph *graph, const struct graph_slot *slot,
            bool by_home)
{
    struct extent extent = extent_of(slot, by_home);
    const struct graph_range *range =
        find_range(by_home ? &graph->home_written : &graph->written, &extent);

    if (!range && is_written_at(slot, by_home))
        range = find_range(by_home ? &graph->home_read : &graph->read, &extent);
    if (range)
        return bell_fail(
            BELL_BAD_VALUE,
            "graph '%s': slot '%s' at 0x%llx, of %llu bytes, overlaps "
            "0x%llx to 0x%llx, which the graph uses too, and one is written",
            graph->name, graph->names[slot - graph->slots].text,
            (unsigned long long)slot->value,
            (unsigned long long)slot->size_bytes,
            (unsigned long long)range->begin, (unsigned long long)range->end);
    return BELL_OK;
}

/* All views of a slot are set to the memory that the slot is set to. */
static BELL_MUST_CHECK bell_status
check_views(const struct hcq_graph *graph, uint32_t first)
{
    const struct graph_slot *home = &graph->slots[first];
    uint32_t at;

    assert(home->has_home && home->first == first);
    for (at = home->next_view; at != HCQ_SLOT_NONE;
         at = graph->slots[at].next_view) {
        const struct graph_slot *view = &graph->slots[at];
        if (__builtin_expect(view->home_dev == home->home_dev &&
                                 view->home_at == home->home_at,
                             1))
            continue;
        return bell_fail(
            BELL_BAD_VALUE,
            "graph '%s': slot '%s' on %s is set to 0x%llx, which is other "
            "memory than 0x%llx of slot '%s' on %s",
            graph->name, graph->names[at].text, view->dev->info.name,
            (unsigned long long)view->value, (unsigned long long)home->value,
            graph->names[first].text, home->dev->info.name);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_slot(const struct hcq_graph *graph, const struct graph_slot *slot)
{
    BELL_TRY(check_fixed(graph, slot, false));
    if (!slot->has_home)
        return BELL_OK;
    BELL_TRY(check_views(graph, slot->first));
    BELL_TRY(check_fixed(graph, &graph->slots[slot->first], true));
    return BELL_OK;
}

bell_status
hcq_graph_check(struct hcq_graph *graph)
{
    const uint32_t *list = graph->lists[GRAPH_UNSEEN];
    uint32_t n = graph->n_listed[GRAPH_UNSEEN], i;
    bool is_moved = false;

    for (i = 0; i < n && !(graph->flags & HCQ_GRAPH_TRUSTED); i++) {
        if (!graph->slots[list[i]].dev)
            continue;
        BELL_TRY(check_slot(graph, &graph->slots[list[i]]));
        is_moved = true;
    }
    if (is_moved)
        BELL_TRY(check_slots(graph, &graph->by_address, false));
    if (is_moved && graph->by_home.n)
        BELL_TRY(check_slots(graph, &graph->by_home, true));
    for (i = 0; i < n; i++)
        graph->slots[list[i]].lists &= (uint8_t) ~(1u << GRAPH_UNSEEN);
    graph->n_listed[GRAPH_UNSEEN] = 0;
    return BELL_OK;
}
