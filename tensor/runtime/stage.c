/* A copy queue beside the context's own, and what it copies from. */
#include "tensor/runtime/stage.h"

#include "base/alloc.h"
#include "base/interrupt.h"
#include "tensor/runtime/run.h"
#include "tensor/core/tensor_internal.h"

struct rt_stage {
    struct tensor_runtime *rt;
    struct hcq_queue *queue;
    struct hcq_buffer *memory;
    uint64_t place_bytes;
    uint64_t joined; /* of the context's queue: it has passed all joins */
};

bell_status
rt_stage_create(struct bell_context *ctx, uint32_t n_places,
                uint64_t place_bytes, struct rt_stage **out_stage)
{
    struct rt_stage *stage;
    bell_status status;

    if (ctx->runtime->places)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "loaders are for one device; the context has %u",
                         bell_mesh_places(ctx));
    stage = host_calloc(1, sizeof(*stage));

    if (!stage)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    stage->rt = ctx->runtime;
    stage->place_bytes = (place_bytes + 63) & ~(uint64_t)63;
    status = hcq_queue_create(stage->rt->dev, HCQ_QUEUE_COPY, &stage->queue);
    if (status == BELL_OK)
        status =
            hcq_buffer_create(stage->rt->dev, n_places * stage->place_bytes,
                              HCQ_MEM_HOST_VISIBLE, &stage->memory);
    if (status != BELL_OK) {
        rt_stage_destroy(stage);
        return status;
    }
    *out_stage = stage;
    return BELL_OK;
}

void
rt_stage_destroy(struct rt_stage *stage)
{
    if (!stage)
        return;
    /* the context's queue looks at the copies' timeline until then; one of a
     * device that is lost does not */
    interrupt_hold();
    if (rt_wait(stage->rt, stage->joined) != BELL_OK)
        bell_error_clear();
    interrupt_release();
    hcq_queue_destroy(stage->queue);
    hcq_buffer_destroy(stage->memory);
    host_free(stage);
}

void *
rt_stage_memory(const struct rt_stage *stage, uint32_t place)
{
    return (uint8_t *)stage->memory->host + place * stage->place_bytes;
}

/* Memory that a tensor has taken over is its own when the work is done that
 * was queued for the one before. */
static uint64_t
find_latest(struct tensor_buffer *const *bufs, uint32_t n)
{
    uint64_t latest = 0;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (bufs[i]->busy_until > latest)
            latest = bufs[i]->busy_until;
    }
    return latest;
}

bell_status
rt_stage_send(struct rt_stage *stage, uint32_t place,
              struct tensor_buffer *const *bufs, const uint64_t *offsets,
              uint32_t n, uint64_t *out_value)
{
    uint64_t from = stage->memory->va + place * stage->place_bytes;
    uint64_t latest = find_latest(bufs, n);
    struct hcq_cs *cs;
    uint32_t i;

    for (i = 0; i < n; i++)
        BELL_TRY(hcq_buffer_wrote(stage->memory,
                                  place * stage->place_bytes + offsets[i],
                                  bufs[i]->size_bytes));
    BELL_TRY(hcq_queue_begin(stage->queue, &cs));
    hcq_cs_barrier(cs);
    if (latest > 0)
        hcq_cs_wait(cs, hcq_queue_timeline(stage->rt->queue), latest);
    for (i = 0; i < n; i++)
        hcq_cs_copy(cs, bufs[i]->device_mem->va, from + offsets[i],
                    bufs[i]->size_bytes);
    return hcq_cs_submit(cs, out_value);
}

bell_status
rt_stage_join(struct rt_stage *stage, uint64_t value)
{
    struct tensor_runtime *rt = stage->rt;
    struct hcq_cs *cs;

    if (rt_stage_is_done(stage, value))
        return BELL_OK;
    BELL_TRY(hcq_queue_begin(rt->queue, &cs));
    hcq_cs_wait(cs, hcq_queue_timeline(stage->queue), value);
    hcq_cs_barrier(cs);
    BELL_TRY(hcq_cs_submit(cs, &rt->last_value));
    stage->joined = rt->last_value;
    return rt_keep_pace(rt);
}

bool
rt_stage_is_done(const struct rt_stage *stage, uint64_t value)
{
    return hcq_signal_value(hcq_queue_timeline(stage->queue)) >= value;
}

bell_status
rt_stage_wait(struct rt_stage *stage, uint64_t value)
{
    return hcq_signal_wait(hcq_queue_timeline(stage->queue), value,
                           HCQ_WAIT_WHILE_MOVING);
}
