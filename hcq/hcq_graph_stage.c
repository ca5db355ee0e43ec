/* Copies in graphs between devices that do not reach each other's memory: chunk
 * after chunk through host memory that both see.
 */
#include "hcq/hcq_graph_internal.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

/* Chunks of a stage: one is filled while the one before it is emptied, and a
 * device may be two behind. Large ones cost memory, small ones signals.
 * guess */
#define N_CHUNKS        4u
#define CHUNK_MIN_BYTES 65536u
#define CHUNK_MAX_BYTES (1u << 20)

void
hcq_graph_free_stages(struct hcq_graph *graph)
{
    bool is_ours = !hcq_is_inherited(graph->queues[0]->dev);

    while (graph->stages) {
        struct graph_stage *stage = graph->stages;
        graph->stages = stage->next;
        if (is_ours && !graph->is_stuck)
            hcq_shared_destroy(stage->shared);
        host_free(stage);
    }
}

static BELL_MUST_CHECK bell_status
make_stage(struct hcq_graph *graph, struct hcq_device *a, struct hcq_device *b,
           uint64_t chunk_bytes, struct graph_stage **out_stage)
{
    struct graph_stage *stage = host_calloc(1, sizeof(*stage));
    bell_status status;

    if (!stage)
        return bell_fail(BELL_E_NO_MEMORY,
                         "graph '%s': out of memory for a copy from %s to %s",
                         graph->name, a->info.name, b->info.name);
    stage->devs[0] = a;
    stage->devs[1] = b;
    stage->chunk_bytes = chunk_bytes;
    status = hcq_shared_create(stage->devs, 2, N_CHUNKS * chunk_bytes,
                               &stage->shared);
    if (status != BELL_OK) {
        bell_error_prefix("graph '%s': a copy from %s to %s through host "
                          "memory",
                          graph->name, a->info.name, b->info.name);
        host_free(stage);
        return status;
    }
    stage->next = graph->stages;
    graph->stages = stage;
    *out_stage = stage;
    return BELL_OK;
}

/* A stage of both devices with chunks of that size, or larger. */
static struct graph_stage *
find_stage(const struct hcq_graph *graph, const struct hcq_device *a,
           const struct hcq_device *b, uint64_t chunk_bytes)
{
    struct graph_stage *stage = graph->stages;

    while (stage && !(stage->chunk_bytes >= chunk_bytes &&
                      ((stage->devs[0] == a && stage->devs[1] == b) ||
                       (stage->devs[0] == b && stage->devs[1] == a))))
        stage = stage->next;
    return stage;
}

/* A part of memory. */
static struct hcq_graph_arg
part_of(const struct hcq_graph_arg *arg, uint64_t offset_bytes,
        uint64_t size_bytes)
{
    struct hcq_graph_arg part = *arg;

    part.value += offset_bytes;
    part.size_bytes = size_bytes;
    return part;
}

static void
copy_chunk(struct hcq_graph *graph, struct graph_stage *stage,
           struct hcq_device *dst_dev, const struct hcq_graph_arg *dst,
           struct hcq_device *src_dev, const struct hcq_graph_arg *src)
{
    uint64_t at = stage->n_used++ % N_CHUNKS * stage->chunk_bytes;
    struct hcq_buffer *const *bufs = stage->shared->bufs;
    bool is_back = stage->devs[0] != src_dev;
    struct hcq_graph_arg in =
        hcq_graph_memory(bufs[is_back]->va + at, src->size_bytes, 0);
    struct hcq_graph_arg out =
        hcq_graph_memory(bufs[!is_back]->va + at, dst->size_bytes, 0);

    assert(dst->size_bytes == src->size_bytes &&
           src->size_bytes <= stage->chunk_bytes);
    hcq_graph_copy(graph, src_dev, &in, src, src->size_bytes);
    hcq_graph_copy(graph, dst_dev, dst, &out, dst->size_bytes);
}

/* The slot by which `dev` sees the memory of another device's; HCQ_SLOT_NONE:
 * it does not. */
static uint32_t
find_view(const struct hcq_graph *graph, const struct hcq_graph_arg *arg,
          const struct hcq_device *dev)
{
    uint32_t view;

    if (arg->slot >= graph->n_slots || !graph->slots[arg->slot].has_home)
        return HCQ_SLOT_NONE;
    view = graph->slots[arg->slot].first;
    while (view != HCQ_SLOT_NONE && graph->slots[view].dev != dev)
        view = graph->slots[view].next_view;
    return view;
}

/* Memory of `dev` as another device sees it, if it does: by a view of the slot,
 * or by a buffer. */
static bool
find_direct(const struct hcq_graph *graph, const struct hcq_graph_arg *arg,
            struct hcq_device *dev, struct hcq_device *other,
            uint64_t size_bytes, struct hcq_graph_arg *out_seen)
{
    *out_seen = *arg;
    if (arg->slot == HCQ_SLOT_NONE)
        return hcq_memory_seen_by(dev, arg->value, size_bytes, other,
                                  &out_seen->value);
    out_seen->slot = find_view(graph, arg, other);
    return out_seen->slot != HCQ_SLOT_NONE;
}

void
hcq_graph_move(struct hcq_graph *graph, struct hcq_device *dst_dev,
               const struct hcq_graph_arg *dst, struct hcq_device *src_dev,
               const struct hcq_graph_arg *src, uint64_t size_bytes)
{
    struct graph_stage *stage;
    uint64_t chunk_bytes = CHUNK_MIN_BYTES, at, n;
    bell_status status = BELL_OK;
    struct hcq_graph_arg seen;

    if (!dst || !src || !dst_dev || !src_dev) {
        hcq_graph_fail(graph,
                       bell_fail(BELL_BAD_MISSING,
                                 "graph '%s': move: %s is NULL", graph->name,
                                 !dst   ? "dst"
                                 : !src ? "src"
                                        : "a device"));
        return;
    }
    if (graph->state != GRAPH_BUILDING || graph->status != BELL_OK ||
        dst_dev == src_dev || size_bytes > dst->size_bytes ||
        size_bytes > src->size_bytes || size_bytes == 0) {
        hcq_graph_copy(graph, src_dev, dst, src, size_bytes);
        return;
    }
    if (find_direct(graph, dst, dst_dev, src_dev, size_bytes, &seen)) {
        hcq_graph_copy(graph, src_dev, &seen, src, size_bytes);
        return;
    }
    if (find_direct(graph, src, src_dev, dst_dev, size_bytes, &seen)) {
        hcq_graph_copy(graph, dst_dev, dst, &seen, size_bytes);
        return;
    }
    while (chunk_bytes < size_bytes && chunk_bytes < CHUNK_MAX_BYTES)
        chunk_bytes *= 2;
    stage = find_stage(graph, src_dev, dst_dev, chunk_bytes);
    if (!stage)
        status = make_stage(graph, src_dev, dst_dev, chunk_bytes, &stage);
    if (status != BELL_OK) {
        hcq_graph_fail(graph, status);
        return;
    }
    for (at = 0; at < size_bytes; at += n) {
        struct hcq_graph_arg to, from;
        n = size_bytes - at < chunk_bytes ? size_bytes - at : chunk_bytes;
        to = part_of(dst, at, n);
        from = part_of(src, at, n);
        copy_chunk(graph, stage, dst_dev, &to, src_dev, &from);
    }
}
