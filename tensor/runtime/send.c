/* Values that go from one context's device to another's: queued on both, behind
 * what makes them and before what uses them, so that the host waits for
 * nothing.
 */
#include <assert.h>

#include "base/alloc.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/runtime/ir.h"
#include "tensor/runtime/run.h"

void
rt_reap_sent(struct tensor_runtime *rt)
{
    uint64_t done;
    size_t i, kept = 0;

    if (rt->n_sent == 0)
        return;
    done = hcq_signal_value(hcq_queue_timeline(rt->queue));
    for (i = 0; i < rt->n_sent; i++) {
        if (rt->sent_until[i] <= done) {
            hcq_transfer_release(rt->sent[i], rt->queue);
            continue;
        }
        rt->sent[kept] = rt->sent[i];
        rt->sent_until[kept++] = rt->sent_until[i];
    }
    rt->n_sent = kept;
}

void
rt_give_up_sent(struct tensor_runtime *rt)
{
    size_t i;

    for (i = 0; i < rt->n_sent; i++)
        hcq_transfer_give_up(rt->sent[i]);
}

void
rt_end_sent(struct tensor_runtime *rt)
{
    size_t i;

    for (i = 0; i < rt->n_sent; i++)
        hcq_transfer_release(rt->sent[i], rt->queue);
    rt->n_sent = 0;
}

static bool
has_room(struct tensor_runtime *rt)
{
    rt_reap_sent(rt);
    return host_grow((void **)&rt->sent, &rt->cap_sent, rt->n_sent + 1,
                     sizeof(rt->sent[0])) == 0 &&
           host_grow((void **)&rt->sent_until, &rt->cap_until, rt->n_sent + 1,
                     sizeof(rt->sent_until[0])) == 0;
}

static void
note_sent(struct tensor_runtime *rt, struct hcq_transfer *transfer,
          uint64_t value)
{
    assert(rt->n_sent < rt->cap_sent && value > rt->last_value);
    rt->last_value = value;
    rt->sent[rt->n_sent] = transfer;
    rt->sent_until[rt->n_sent++] = value;
}

/* Whether the host has to see what is queued: it is compiled only, recorded, or
 * watched. */
static bool
needs_host(const struct bell_context *ctx)
{
    return tensor_device_is_null(ctx) || rt_tells(ctx->runtime) ||
           ctx->runtime->places;
}

bell_status
tensor_buffer_send(struct tensor_buffer *dst, struct tensor_buffer *src)
{
    struct tensor_runtime *to = dst->ctx->runtime, *from = src->ctx->runtime;
    struct hcq_transfer *transfer;
    uint64_t there, here;

    assert(dst->device_mem && src->device_mem && to != from);
    assert(dst->size_bytes == src->size_bytes && src->size_bytes > 0);
    if (needs_host(dst->ctx) || needs_host(src->ctx))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "values of %s can only go to %s through the host",
                         hcq_device_name(from->dev), hcq_device_name(to->dev));
    if (!has_room(to) || !has_room(from))
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a copy from %s to %s",
                         hcq_device_name(from->dev), hcq_device_name(to->dev));
    BELL_TRY(hcq_transfer_create(to->queue, dst->device_mem, from->queue,
                                 src->device_mem, src->size_bytes, &there,
                                 &here, &transfer));
    note_sent(to, transfer, there);
    note_sent(from, transfer, here);
    dst->has_range = src->has_range;
    dst->low = src->low;
    dst->high = src->high;
    return BELL_OK;
}
