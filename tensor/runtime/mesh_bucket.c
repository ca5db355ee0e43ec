/* See mesh_bucket.h. */
#include "tensor/runtime/mesh_bucket.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

bool
mesh_is_exchange(const struct sched_item *item)
{
    const struct uop *u = item->sink->src[0];

    return u->op == UOP_CUSTOM && mesh_is_call(u->arg.i);
}

static uint64_t
sum_bytes(const struct sched_item *item, const struct sched_buf *bufs)
{
    const struct sched_buf *buf = &bufs[item->bufs[0]];

    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

/* Is it a sum that others may join? */
static bool
is_small_sum(const struct sched_item *item, const struct sched_buf *bufs)
{
    return mesh_is_exchange(item) &&
           mesh_call_of(item->sink->src[0]->arg.i).kind == MESH_ALL_REDUCE &&
           sum_bytes(item, bufs) <= MESH_BUCKET_BYTES;
}

/* Are they of the same places and of one type? */
static bool
is_alike(const struct sched_item *a, const struct sched_item *b,
         const struct sched_buf *bufs)
{
    return a->sink->src[0]->arg.i == b->sink->src[0]->arg.i &&
           bufs[a->bufs[0]].dtype == bufs[b->bufs[0]].dtype;
}

uint32_t
mesh_bucket_length(const struct sched_item *items, uint32_t n,
                   const struct sched_buf *bufs)
{
    uint64_t n_bytes = 0;
    uint32_t k, i;

    assert(n > 0);
    for (k = 0; k < n && k < MESH_BUCKET_PARTS; k++) {
        if (!is_small_sum(&items[k], bufs) ||
            !is_alike(&items[0], &items[k], bufs))
            break;
        n_bytes += sum_bytes(&items[k], bufs);
        if (n_bytes > MESH_BUCKET_BYTES)
            break;
        for (i = 0; i < k && items[k].bufs[1] != items[i].bufs[0] &&
                    items[k].bufs[0] != items[i].bufs[0];)
            i++;
        if (i < k)
            break;
    }
    return k ? k : 1;
}

/* ---- order --------------------------------------------------------------- */

/* Items held back: sums, then the items that use buffers of held ones. */
struct holding {
    const struct sched_plan *plan;
    uint32_t *sums, *rest, n_sums, n_rest; /* owned lists of items */
    uint64_t n_bytes;                      /* of the sums */
    /* Owned, by buffer: since which flush it is read or written to. */
    uint32_t *read, *written, flush;
    struct sched_item *out; /* owned; the new order */
    uint32_t n_out;
};

static bool
touches_held(const struct holding *h, const struct sched_item *item)
{
    uint32_t i;

    for (i = 0; i < item->n_bufs; i++) {
        if (h->written[item->bufs[i]] == h->flush ||
            (i < item->n_outs && h->read[item->bufs[i]] == h->flush))
            return true;
    }
    return false;
}

static void
hold(struct holding *h, const struct sched_item *item)
{
    uint32_t i;

    for (i = 0; i < item->n_bufs; i++) {
        if (i < item->n_outs)
            h->written[item->bufs[i]] = h->flush;
        else
            h->read[item->bufs[i]] = h->flush;
    }
}

static void
let_go(struct holding *h)
{
    uint32_t i;

    for (i = 0; i < h->n_sums; i++)
        h->out[h->n_out++] = h->plan->items[h->sums[i]];
    for (i = 0; i < h->n_rest; i++)
        h->out[h->n_out++] = h->plan->items[h->rest[i]];
    h->n_sums = h->n_rest = 0;
    h->n_bytes = 0;
    h->flush++;
}

static void
order_item(struct holding *h, uint32_t at)
{
    const struct sched_item *item = &h->plan->items[at];
    const struct sched_buf *bufs = h->plan->bufs;
    bool touches = touches_held(h, item);
    uint64_t n_bytes;

    if (is_small_sum(item, bufs)) {
        n_bytes = sum_bytes(item, bufs);
        if (h->n_sums && (touches || h->n_sums == MESH_BUCKET_PARTS ||
                          h->n_bytes + n_bytes > MESH_BUCKET_BYTES ||
                          !is_alike(&h->plan->items[h->sums[0]], item, bufs)))
            let_go(h);
        h->sums[h->n_sums++] = at;
        h->n_bytes += n_bytes;
        hold(h, item);
    } else if (touches) {
        h->rest[h->n_rest++] = at;
        hold(h, item);
    } else {
        h->out[h->n_out++] = *item;
    }
}

bell_status
mesh_bucket_order(struct sched_plan *plan)
{
    uint32_t n = plan->n_items, i, n_found = 0;
    struct holding h = {.plan = plan, .flush = 1};
    bell_status status = BELL_OK;

    for (i = 0; i < n; i++)
        n_found += is_small_sum(&plan->items[i], plan->bufs);
    if (n_found < 2)
        return BELL_OK;
    h.sums = host_alloc(n * sizeof(*h.sums));
    h.rest = host_alloc(n * sizeof(*h.rest));
    h.read = host_calloc(plan->n_bufs + 1, sizeof(*h.read));
    h.written = host_calloc(plan->n_bufs + 1, sizeof(*h.written));
    h.out = host_alloc(n * sizeof(*h.out));
    if (h.sums && h.rest && h.read && h.written && h.out) {
        for (i = 0; i < n; i++)
            order_item(&h, i);
        let_go(&h);
        assert(h.n_out == n);
        memcpy(plan->items, h.out, n * sizeof(*h.out));
    } else {
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory scheduling");
    }
    host_free(h.sums);
    host_free(h.rest);
    host_free(h.read);
    host_free(h.written);
    host_free(h.out);
    return status;
}
