/* Copies between buffers of any two devices, queued without a wait.
 *
 * Two words of host memory that both see order the queues: `filled` counts what
 * the source has given, `emptied` what the destination has taken.
 *
 * Where the destination's device reaches the source's memory, it copies when
 * that is filled, and the source's queue waits until it is emptied. Else each
 * copies its half, chunk after chunk, through host memory too.
 *
 * Both sides may be used by different threads afterwards, and end in any order:
 * a lock guards what they share. The side that sets a word may still look at it
 * when the other side has seen its value, so the last one frees the words.
 */
#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/interrupt.h"
#include "base/thread.h"
#include "hcq/hcq_shared.h"
#include "hcq/hcq_signal_pages.h"
#include "hcq/hcq_slot.h"

/* Chunks of the host memory; how many of them a copy has at most, so that its
 * commands fit in any ring. guess */
#define N_CHUNKS        4u
#define CHUNK_MIN_BYTES (1u << 20)
#define MOST_CHUNKS     16u

/* How long a source that is given up waits for who copies it. guess */
#define END_NS 2000000000ull
#define NAP_NS 100000u

/* So often a wait looks at the other devices. guess */
#define LOOK_EVERY_NS 20000000ull

/* Transfers that a wait follows from device to device at most. guess */
#define MOST_LINKS 64u

/* More than any count of chunks. */
#define GO_ON UINT32_MAX

enum side {
    SRC,
    DST,
    SIDES
};

/* One of a transfer's sides, in the list of its device's. */
struct end {
    struct hcq_link link; /* hcq_device.transfers; the device's lock */
    struct hcq_transfer *transfer;
    enum side side;
};

struct hcq_transfer {
    pthread_mutex_t lock;
    struct hcq_queue *queues[SIDES]; /* may be destroyed before the release */
    struct hcq_device *devs[SIDES];
    uint64_t epochs[SIDES]; /* of the devices, when it was queued */
    uint64_t dst_value;     /* of the destination's timeline, when it is over */
    uint64_t n_chunks;      /* the words count so far */
    struct end ends[SIDES];
    bool is_released[SIDES];
    struct hcq_shared *words;  /* owned */
    struct hcq_buffer *peer;   /* owned: the source for the destination; or */
    struct hcq_shared *chunks; /* owned: of the halves; or NULL */
    /* As each side sees them. */
    struct hcq_signal filled[SIDES], emptied[SIDES];
};

static void
free_transfer(struct hcq_transfer *t)
{
    hcq_buffer_destroy(t->peer);
    hcq_shared_destroy(t->chunks);
    hcq_shared_destroy(t->words);
    pthread_mutex_destroy(&t->lock);
    host_free(t);
}

/* Host memory of that size that both see. */
static BELL_MUST_CHECK bell_status
share(const struct hcq_transfer *t, uint64_t size_bytes,
      struct hcq_shared **out_shared)
{
    struct hcq_device *devs[SIDES] = {t->queues[SRC]->dev, t->queues[DST]->dev};

    return hcq_shared_create(devs, SIDES, size_bytes, out_shared);
}

static BELL_MUST_CHECK bell_status
make_words(struct hcq_transfer *t)
{
    uint32_t i;

    BELL_TRY(share(t, 2 * HCQ_SIGNAL_BYTES, &t->words));
    for (i = 0; i < SIDES; i++) {
        hcq_shared_signal(t->words, i, 0, &t->filled[i]);
        hcq_shared_signal(t->words, i, HCQ_SIGNAL_BYTES, &t->emptied[i]);
    }
    return BELL_OK;
}

/* ---- one copy ---- */

static BELL_MUST_CHECK bell_status
queue_one(struct hcq_transfer *t, const struct hcq_buffer *dst,
          uint64_t size_bytes, uint64_t *out_values)
{
    struct hcq_queue *from = t->queues[SRC], *to = t->queues[DST];
    struct bell_error_hold hold;
    struct hcq_cs *cs;
    bell_status status;

    BELL_TRY(hcq_queue_begin(to, &cs));
    hcq_cs_wait(cs, &t->filled[DST], 1);
    hcq_cs_copy(cs, dst->va, t->peer->va, size_bytes);
    hcq_cs_signal(cs, &t->emptied[DST], 1);
    BELL_TRY(hcq_cs_submit(cs, &out_values[DST]));
    status = hcq_queue_begin(from, &cs);
    if (status == BELL_OK) {
        hcq_cs_signal(cs, &t->filled[SRC], 1);
        hcq_cs_wait(cs, &t->emptied[SRC], 1);
        status = hcq_cs_submit(cs, &out_values[SRC]);
    }
    if (status != BELL_OK) { /* nothing keeps the memory as it is */
        bell_error_hold(&hold);
        hcq_signal_set(&t->filled[DST], GO_ON);
        interrupt_hold();
        (void)!hcq_queue_wait(to, HCQ_WAIT_WHILE_MOVING);
        interrupt_release();
        bell_error_release(&hold);
    }
    return status;
}

/* ---- two copies ---- */

static BELL_MUST_CHECK bell_status
queue_half(struct hcq_transfer *t, enum side side, const struct hcq_buffer *buf,
           uint64_t size_bytes, uint64_t chunk_bytes, uint64_t *out_value)
{
    uint64_t at, n, i = 0, stage;
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(t->queues[side], &cs));
    for (at = 0; at < size_bytes; at += n, i++) {
        n = size_bytes - at < chunk_bytes ? size_bytes - at : chunk_bytes;
        stage = t->chunks->bufs[side]->va + i % N_CHUNKS * chunk_bytes;
        if (side == SRC) {
            if (i >= N_CHUNKS)
                hcq_cs_wait(cs, &t->emptied[SRC], i - N_CHUNKS + 1);
            hcq_cs_copy(cs, stage, buf->va + at, n);
            hcq_cs_signal(cs, &t->filled[SRC], i + 1);
        } else {
            hcq_cs_wait(cs, &t->filled[DST], i + 1);
            hcq_cs_copy(cs, buf->va + at, stage, n);
            hcq_cs_signal(cs, &t->emptied[DST], i + 1);
        }
    }
    return hcq_cs_submit(cs, out_value);
}

static BELL_MUST_CHECK bell_status
queue_two(struct hcq_transfer *t, const struct hcq_buffer *dst,
          const struct hcq_buffer *src, uint64_t size_bytes,
          uint64_t chunk_bytes, uint64_t *out_values)
{
    struct bell_error_hold hold;
    bell_status status;

    BELL_TRY(
        queue_half(t, SRC, src, size_bytes, chunk_bytes, &out_values[SRC]));
    status = queue_half(t, DST, dst, size_bytes, chunk_bytes, &out_values[DST]);
    if (status != BELL_OK) { /* the source waits for nobody then */
        bell_error_hold(&hold);
        hcq_signal_set(&t->emptied[SRC], GO_ON);
        interrupt_hold();
        (void)!hcq_queue_wait(t->queues[SRC], HCQ_WAIT_WHILE_MOVING);
        interrupt_release();
        bell_error_release(&hold);
    }
    return status;
}

/* ---- both ---- */

static BELL_MUST_CHECK bell_status
check_transfer(struct hcq_queue *dst_queue, const struct hcq_buffer *dst,
               struct hcq_queue *src_queue, const struct hcq_buffer *src,
               uint64_t size_bytes)
{
    if (!dst_queue || !dst || !src_queue || !src)
        return bell_fail(BELL_BAD_MISSING, "transfer: %s is NULL",
                         !dst_queue   ? "the destination's queue"
                         : !dst       ? "the destination"
                         : !src_queue ? "the source's queue"
                                      : "the source");
    if (dst->dev != dst_queue->dev || src->dev != src_queue->dev ||
        dst->dev == src->dev)
        return bell_fail(BELL_BAD_CONTEXT,
                         "transfer from %s by %s to %s by %s: each buffer must "
                         "be of its queue's device, and the devices two",
                         src->dev->info.name, src_queue->name,
                         dst->dev->info.name, dst_queue->name);
    if (size_bytes == 0 || size_bytes > dst->size_bytes ||
        size_bytes > src->size_bytes)
        return bell_fail(BELL_BAD_SIZE,
                         "transfer: %llu bytes of a buffer of %llu to one of "
                         "%llu",
                         (unsigned long long)size_bytes,
                         (unsigned long long)src->size_bytes,
                         (unsigned long long)dst->size_bytes);
    if (src->dev->is_told || dst->dev->is_told)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s or %s is recorded, and a recording is of one "
                         "device: the host has to copy",
                         src->dev->info.name, dst->dev->info.name);
    BELL_TRY(hcq_device_status(src->dev));
    return hcq_device_status(dst->dev);
}

bell_status
hcq_transfer_create(struct hcq_queue *dst_queue, const struct hcq_buffer *dst,
                    struct hcq_queue *src_queue, const struct hcq_buffer *src,
                    uint64_t size_bytes, uint64_t *out_dst_value,
                    uint64_t *out_src_value, struct hcq_transfer **out_transfer)
{
    uint64_t chunk_bytes = CHUNK_MIN_BYTES, values[SIDES] = {0};
    struct bell_error_hold hold;
    struct hcq_transfer *t;
    bell_status status;
    uint32_t i;

    BELL_TRY(check_transfer(dst_queue, dst, src_queue, src, size_bytes));
    t = host_calloc(1, sizeof(*t));
    if (!t)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a transfer");
    pthread_mutex_init(&t->lock, NULL);
    t->queues[SRC] = src_queue;
    t->queues[DST] = dst_queue;
    t->devs[SRC] = src->dev;
    t->devs[DST] = dst->dev;
    t->n_chunks = 1;
    t->epochs[SRC] = atomic_load(&src->dev->epoch);
    t->epochs[DST] = atomic_load(&dst->dev->epoch);
    status = make_words(t);
    if (status == BELL_OK) {
        bell_error_hold(&hold);
        status = hcq_buffer_create_peer(dst->dev, src, &t->peer);
        if (status == BELL_OK) {
            hcq_buffer_hide(t->peer);
            status = queue_one(t, dst, size_bytes, values);
        } else if (status == BELL_E_UNSUPPORTED) {
            bell_error_release(&hold); /* there is another way */
            while (chunk_bytes < size_bytes / MOST_CHUNKS)
                chunk_bytes *= 2;
            if (size_bytes < chunk_bytes)
                chunk_bytes = align_up(size_bytes, HCQ_SIGNAL_BYTES);
            status = share(t, N_CHUNKS * chunk_bytes, &t->chunks);
            t->n_chunks = div_up(size_bytes, chunk_bytes);
            if (status == BELL_OK)
                status =
                    queue_two(t, dst, src, size_bytes, chunk_bytes, values);
        }
    }
    if (status != BELL_OK) {
        bell_error_hold(&hold);
        free_transfer(t);
        bell_error_release(&hold);
        return status;
    }
    *out_dst_value = t->dst_value = values[DST];
    for (i = 0; i < SIDES; i++) {
        struct hcq_device *dev = t->queues[i]->dev;
        t->ends[i].transfer = t;
        t->ends[i].side = (enum side)i;
        pthread_mutex_lock(&dev->lock);
        hcq_link_add(&dev->transfers, &t->ends[i].link);
        pthread_mutex_unlock(&dev->lock);
    }
    *out_src_value = values[SRC];
    *out_transfer = t;
    return BELL_OK;
}

/* The other side's device does not do its part any more; the lock is held. */
static BELL_MUST_CHECK bell_status
meet_loss(struct hcq_transfer *t, enum side side, uint64_t value)
{
    struct hcq_device *dev = t->devs[SRC + DST - side];

    if (side == SRC) { /* which has given all it has */
        hcq_signal_set(&t->emptied[SRC], GO_ON);
        return BELL_OK;
    }
    if (t->dst_value > value)
        return BELL_OK;
    return bell_fail(BELL_E_DEVICE_LOST,
                     "%s waits for values of %s, which was lost: they do not "
                     "come",
                     t->queues[DST]->name, dev->info.name);
}

static BELL_MUST_CHECK bell_status
look_at_other(struct hcq_transfer *t, const struct hcq_queue *queue,
              uint64_t value)
{
    enum side side = queue == t->queues[SRC] ? SRC : DST;
    enum side other = SRC + DST - side;
    bell_status status = BELL_OK;
    struct bell_error_hold hold;

    pthread_mutex_lock(&t->lock);
    if (!t->is_released[other]) {
        struct hcq_device *dev = t->devs[other];
        bell_error_hold(&hold);
        if (hcq_device_status(dev) != BELL_OK ||
            atomic_load(&dev->epoch) != t->epochs[other])
            status = meet_loss(t, side, value);
        if (status == BELL_OK)
            bell_error_release(&hold);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- who waits for whom ---- */

/* The devices that a wait depends on, over any number of others: by transfers
 * that are not over, whose locks are held, which keeps both devices there. */
struct chain {
    struct hcq_transfer *held[MOST_LINKS];
    struct hcq_device *devs[MOST_LINKS + 1];
    uint32_t n_held, n_devs;
    bool is_cut; /* somebody else had a lock: not all are known now */
};

static bool
is_held(const struct chain *chain, const struct hcq_transfer *t)
{
    uint32_t i;

    for (i = 0; i < chain->n_held && chain->held[i] != t; i++)
        continue;
    return i < chain->n_held;
}

static void
add_device(struct chain *chain, struct hcq_device *dev)
{
    uint32_t i;

    for (i = 0; i < chain->n_devs && chain->devs[i] != dev; i++)
        continue;
    if (i == chain->n_devs)
        chain->devs[chain->n_devs++] = dev;
}

/* Adds the devices at the other ends of its transfers. Locks of transfers come
 * before those of devices, so here they are only tried. */
static void
add_others(struct chain *chain, struct hcq_device *dev)
{
    struct hcq_link *link;

    pthread_mutex_lock(&dev->lock);
    for (link = dev->transfers.next;
         link != &dev->transfers && chain->n_held < MOST_LINKS;
         link = link->next) {
        const struct end *end = HCQ_CONTAINER(link, struct end, link);
        struct hcq_transfer *t = end->transfer;

        if (is_held(chain, t))
            continue;
        if (pthread_mutex_trylock(&t->lock) != 0) {
            chain->is_cut = true;
            continue;
        }
        if (t->is_released[SRC] || t->is_released[DST] ||
            hcq_signal_value(&t->emptied[end->side]) >= t->n_chunks) {
            pthread_mutex_unlock(&t->lock);
            continue;
        }
        chain->held[chain->n_held++] = t;
        add_device(chain, t->devs[SRC + DST - end->side]);
    }
    pthread_mutex_unlock(&dev->lock);
}

/* Whether all of them stand still. */
static bool
chain_is_still(struct hcq_device *dev, struct hcq_stillness *still)
{
    struct chain chain = {.n_devs = 0};
    struct hcq_look look = {0};
    uint32_t i;

    add_device(&chain, dev);
    for (i = 0; i < chain.n_devs; i++)
        add_others(&chain, chain.devs[i]);
    for (i = 0; i < chain.n_devs; i++)
        hcq_look_add(&look, chain.devs[i]);
    while (chain.n_held)
        pthread_mutex_unlock(&chain.held[--chain.n_held]->lock);
    if (chain.is_cut)
        *still = (struct hcq_stillness){0};
    return !chain.is_cut && hcq_look_is_still(&look, still);
}

bell_status
hcq_transfer_wait(struct hcq_queue *queue, uint64_t value,
                  struct hcq_transfer *const *transfers, size_t n)
{
    struct hcq_stillness still = {0};
    struct bell_error_hold hold;
    bell_status status;
    size_t i;

    for (;;) {
        bell_error_hold(&hold);
        status = hcq_signal_wait(queue->timeline, value, LOOK_EVERY_NS);
        if (status != BELL_E_TIMEOUT || interrupt_is_on())
            return status;
        bell_error_release(&hold);
        for (i = 0; i < n; i++)
            BELL_TRY(look_at_other(transfers[i], queue, value));
        if (chain_is_still(queue->dev, &still))
            return hcq_timeout_report(
                queue->dev, "neither it nor the devices that it gets values "
                            "from or gives values to move");
    }
}

/* The source's memory has to stay until it has been copied. */
static void
end_copy(struct hcq_transfer *t)
{
    uint64_t start_ns = time_now_ns();

    while (!hcq_signal_value(&t->emptied[SRC]) &&
           !hcq_device_is_lost(t->devs[DST]) &&
           time_now_ns() - start_ns < END_NS)
        hcq_nap(NAP_NS);
}

void
hcq_transfer_give_up(struct hcq_transfer *transfer)
{
    pthread_mutex_lock(&transfer->lock);
    if (!transfer->is_released[SRC])
        hcq_signal_set(&transfer->emptied[SRC], GO_ON);
    if (!transfer->is_released[DST])
        hcq_signal_set(&transfer->filled[DST], GO_ON);
    pthread_mutex_unlock(&transfer->lock);
}

/* What the side's device has of it, and the mapping of the source with the
 * first: the copy is over then, whose side it is. */
static void
give_back(struct hcq_transfer *t, enum side side)
{
    if (side == SRC && t->peer && !t->is_released[DST])
        end_copy(t);
    hcq_buffer_destroy(t->peer);
    t->peer = NULL;
    hcq_buffer_destroy(t->words->bufs[side]);
    t->words->bufs[side] = NULL;
    if (!t->chunks)
        return;
    hcq_buffer_destroy(t->chunks->bufs[side]);
    t->chunks->bufs[side] = NULL;
}

void
hcq_transfer_release(struct hcq_transfer *transfer, struct hcq_queue *queue)
{
    enum side side;
    bool is_last;

    if (!transfer)
        return;
    assert(queue == transfer->queues[SRC] || queue == transfer->queues[DST]);
    side = queue == transfer->queues[SRC] ? SRC : DST;
    pthread_mutex_lock(&transfer->lock);
    assert(!transfer->is_released[side]);
    pthread_mutex_lock(&transfer->devs[side]->lock);
    hcq_link_remove(&transfer->ends[side].link);
    pthread_mutex_unlock(&transfer->devs[side]->lock);
    give_back(transfer, side);
    transfer->is_released[side] = true;
    is_last = transfer->is_released[SRC + DST - side];
    pthread_mutex_unlock(&transfer->lock);
    if (is_last)
        free_transfer(transfer);
}
