/* Queues: submissions, room in the rings, reports.
 *
 * A submission is one piece of the push ring: what a new channel or new code
 * asks for, the packets' methods, the release of the queue's timeline, and
 * behind them descriptors and constants. It is given back when the timeline
 * has come to its value. The launch path reads no memory of the card's.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_qmd.h"

#define RING_DEFAULT_BYTES (1u << 20)
#define RING_MIN_BYTES     4096u
#define RING_MAX_BYTES     (4u << 20) /* one ring entry holds 8 MiB - 4 */

/* ---- room ------------------------------------------------------------------ */

/* Takes back what the device is done with; false: nothing. */
static bool
retire(struct nv_queue *queue)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    uint64_t seen = hcq_signal_value(queue->base.timeline);
    uint64_t last =
        atomic_load_explicit(&priv->last_value, memory_order_relaxed);

    if (seen > last)
        seen = last;
    if (seen <= priv->retired)
        return false;
    mem_ring_retire(&queue->push_ring, seen);
    priv->gp_tail = atomic_load_explicit(
        &priv->records[seen & (NV_RECORDS - 1)].put, memory_order_relaxed);
    priv->retired = seen;
    return true;
}

/* Submissions that are not known to be done. */
static uint64_t
outstanding(const struct nv_queue *queue)
{
    const struct nv_queue_priv *priv = queue->priv;

    return atomic_load_explicit(&priv->last_value, memory_order_relaxed) -
           priv->retired;
}

/* Whether n_entries fit in the channel's ring, with one left, and one more
 * submission can be noted. */
static bool
has_entries(const struct nv_queue *queue, uint32_t n_entries)
{
    const struct nv_queue_priv *priv = queue->priv;
    const struct nv_channel *channel = &queue->channel;
    uint32_t used = (channel->put - priv->gp_tail) & (channel->n_entries - 1);

    return n_entries < channel->n_entries - used &&
           outstanding(queue) < NV_RECORDS;
}

static bell_status
refuse_size(const struct nv_queue *queue, uint32_t n_entries,
            uint32_t size_bytes)
{
    return bell_fail(BELL_E_INVALID,
                     "%s: %u bytes and %u entries are larger than the ring, "
                     "which takes %llu and %u",
                     queue->base.name, size_bytes, n_entries,
                     (unsigned long long)queue->push_ring.size_bytes,
                     queue->channel.n_entries - 1);
}

/* What there was no room for, in front of the report of a wait. */
static void
name_shortage(const struct nv_queue *queue, uint32_t n_entries,
              uint32_t size_bytes)
{
    if (outstanding(queue) >= NV_RECORDS)
        bell_error_prefix("%s: no room for more than %u submissions",
                          queue->base.name, NV_RECORDS);
    else if (!has_entries(queue, n_entries))
        bell_error_prefix("%s: no room for %u entries in the ring of %u",
                          queue->base.name, n_entries,
                          queue->channel.n_entries);
    else
        bell_error_prefix("%s: no room for %u bytes in the ring of %llu",
                          queue->base.name, size_bytes,
                          (unsigned long long)queue->push_ring.size_bytes);
}

/* Waits until some of what is in the rings is done. */
static bell_status
wait_for_room(struct nv_queue *queue, uint32_t n_entries, uint32_t size_bytes)
{
    uint64_t value = nv_priv_of(queue)->retired + 1;
    bell_status status;

    if (has_entries(queue, n_entries))
        value =
            mem_ring_wait_value(&queue->push_ring, size_bytes, NV_UNIT_BYTES);
    if (value == 0 || n_entries >= queue->channel.n_entries)
        return refuse_size(queue, n_entries, size_bytes);
    status = hcq_signal_wait(queue->base.timeline, value,
                             queue->base.submit_timeout_ns);
    if (status == BELL_E_TIMEOUT)
        name_shortage(queue, n_entries, size_bytes);
    return status;
}

bell_status
nv_queue_room(struct nv_queue *queue, uint32_t n_dw, uint32_t n_units,
              uint32_t n_entries, struct nv_push *out_push)
{
    uint32_t data_at =
        (uint32_t)align_up(n_dw * 4ull, n_units ? NV_UNIT_BYTES : 8);
    uint32_t size_bytes = data_at + n_units * NV_UNIT_BYTES;
    uint64_t offset;

    while (!has_entries(queue, n_entries) ||
           !mem_ring_alloc(&queue->push_ring, size_bytes,
                           n_units ? NV_UNIT_BYTES : 8, &offset)) {
        if (!retire(queue))
            BELL_TRY(wait_for_room(queue, n_entries, size_bytes));
    }
    *out_push = (struct nv_push){
        .engine = &nv_priv_of(queue)->engine,
        .at = (uint32_t *)queue->push.cpu + offset / 4,
        .data = (uint8_t *)queue->push.cpu + offset + data_at,
        .data_va = queue->push.va + offset + data_at,
    };
    return BELL_OK;
}

/* ---- what goes before ---------------------------------------------------------- */

static struct nv_device *
device_of(const struct nv_queue *queue)
{
    return nv_device_of(queue->base.dev);
}

uint32_t
nv_queue_prologue_dw(struct nv_queue *queue)
{
    const struct nv_queue_priv *priv = nv_priv_of(queue);
    uint32_t epoch = atomic_load_explicit(&device_of(queue)->code_epoch,
                                          memory_order_acquire);

    return priv->needs_setup || priv->code_epoch != epoch ? NV_SETUP_DW : 0;
}

void
nv_queue_prologue(struct nv_queue *queue, struct nv_push *push)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    struct nv_device *dev = device_of(queue);

    priv->code_epoch =
        atomic_load_explicit(&dev->code_epoch, memory_order_acquire);
    if (priv->needs_setup) {
        nv_push_setup(push, &dev->chip);
        queue->local_epoch = 0;
    }
    pthread_mutex_lock(&dev->base.lock);
    if (queue->local_epoch != dev->local.epoch) {
        nv_push_local(push, &dev->local);
        queue->local_epoch = dev->local.epoch;
    }
    pthread_mutex_unlock(&dev->base.lock);
    nv_push_invalidate(push);
    priv->needs_setup = false;
}

/* ---- submission ------------------------------------------------------------------ */

static uint64_t
push_offset(const struct nv_queue *queue, const uint32_t *at)
{
    return (uint64_t)((const uint8_t *)at - (const uint8_t *)queue->push.cpu);
}

void
nv_queue_entry(struct nv_queue *queue, const uint32_t *start,
               const struct nv_push *push)
{
    nv_channel_entry(&queue->channel,
                     queue->push.va + push_offset(queue, start),
                     (uint32_t)(push->at - start));
}

/* The packets, for reports. */
static void
keep_history(struct nv_queue_priv *priv, uint64_t first, const uint32_t *words,
             uint32_t n_dw)
{
    const uint64_t *from = (const uint64_t *)(const void *)words;
    uint32_t i;

    for (i = 0; i < n_dw / 2; i++)
        atomic_store_explicit(&priv->history[first + i], from[i],
                              memory_order_relaxed);
}

void
nv_queue_commit(struct nv_queue *queue, uint64_t value, const uint32_t *start,
                const uint32_t *words, uint32_t n_dw, struct nv_stream *stream)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    struct nv_record *record = &priv->records[value & (NV_RECORDS - 1)];
    uint64_t first = push_offset(queue, start) / 8;

    atomic_store_explicit(&record->value, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    keep_history(priv, first, words, n_dw);
    atomic_store_explicit(&record->first, first, memory_order_relaxed);
    atomic_store_explicit(&record->n_dw, n_dw, memory_order_relaxed);
    atomic_store_explicit(&record->put, queue->channel.put,
                          memory_order_relaxed);
    atomic_store_explicit(&record->stream, stream, memory_order_relaxed);
    atomic_store_explicit(&record->value, value, memory_order_release);
    atomic_store_explicit(&priv->last_value, value, memory_order_release);
    mem_ring_fence(&queue->push_ring, value);
    nv_channel_ring(&queue->channel);
}

bell_status
nv_queue_submit(struct hcq_queue *base, uint64_t value)
{
    struct nv_queue *queue = nv_queue_of(base);
    const struct nv_queue_priv *priv = nv_priv_of(queue);
    const struct hcq_cs *cs = &base->cs;
    uint32_t prologue_dw = nv_queue_prologue_dw(queue);
    uint32_t n_dw = NV_FINISH_DW, n_units = 0, pos = 0, *start;
    struct nv_push push;

    if (cs->n_dw) {
        n_dw = priv->fresh_dw - NV_SETUP_DW;
        n_units = priv->fresh_units;
    }
    BELL_TRY(nv_queue_room(queue, prologue_dw + n_dw, n_units, 1, &push));
    start = push.at;
    if (__builtin_expect(prologue_dw != 0, 0))
        nv_queue_prologue(queue, &push);
    while (pos < cs->n_dw) {
        const struct nv_packet *packet = nv_packet_at(cs->words, pos);

        nv_push_packet(&push, packet);
        pos += packet->head.n_dw;
    }
    nv_push_finish(&push, base->timeline->va, value);
    nv_queue_entry(queue, start, &push);
    nv_queue_commit(queue, value, start, cs->words, cs->n_dw, NULL);
    return BELL_OK;
}

/* ---- reports ------------------------------------------------------------------------ */

#define REPORT_DW          1024u /* packets that are looked at */
#define REPORT_SUBMISSIONS 4u

/* Text that grows up to a size; what does not fit is left out. */
struct report {
    char *text;
    size_t size_bytes, used;
    uint32_t n; /* commands in it */
};

static void
add_text(struct report *report, const char *text)
{
    int n;

    if (report->used + 1 >= report->size_bytes)
        return;
    n = snprintf(report->text + report->used, report->size_bytes - report->used,
                 "%s%s", report->n ? ", " : "", text);
    report->n++;
    if (n > 0)
        report->used += (size_t)n;
}

/* The name of a program that still exists; the device's lock is held. */
static const char *
program_name(struct nv_device *dev, const struct nv_program *prog)
{
    struct hcq_link *link;

    for (link = dev->base.programs.next; link != &dev->base.programs;
         link = link->next) {
        const struct hcq_program_base *base =
            HCQ_CONTAINER(link, struct hcq_program_base, link);

        if (base == &prog->base)
            return base->pub.name;
    }
    return "(a program that is gone)";
}

static void
report_packets(struct nv_queue *queue, struct report *report,
               const uint32_t *words, uint32_t n_dw)
{
    uint32_t pos = 0;
    char text[192];

    while (pos < n_dw && nv_packet_ok(words + pos, n_dw - pos) &&
           report->used + 1 < report->size_bytes) {
        const struct nv_packet *packet = nv_packet_at(words, pos);
        const char *name = "";

        if (packet->head.op == NV_OP_EXEC)
            name = program_name(device_of(queue), nv_exec_of(packet)->prog);
        nv_packet_text(packet, name, text, sizeof(text));
        add_text(report, text);
        pos += packet->head.n_dw;
    }
}

static const struct nv_stream *
find_stream(struct nv_queue *queue, const struct nv_stream *stream)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    struct hcq_link *link;

    for (link = priv->streams.next; link != &priv->streams; link = link->next) {
        if (HCQ_CONTAINER(link, struct nv_stream, link) == stream)
            return stream;
    }
    return NULL;
}

static void
report_stream(struct nv_queue *queue, struct report *report,
              const struct nv_stream *stream)
{
    char text[HCQ_NAME_MAX + 40];

    if (!find_stream(queue, stream))
        return;
    snprintf(text, sizeof(text), "stream '%s' (commands: %u) ",
             stream->base->name, stream->n_packets);
    add_text(report, text);
    report->n = 0; /* no comma */
    report_packets(queue, report, stream->base->cs.words,
                   stream->base->cs.n_dw < REPORT_DW ? stream->base->cs.n_dw
                                                     : REPORT_DW);
    report->n++;
}

static void
report_submission(struct nv_queue *queue, struct report *report, uint64_t value)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    const struct nv_record *record = &priv->records[value & (NV_RECORDS - 1)];
    uint64_t words[REPORT_DW / 2], first;
    const struct nv_stream *stream;
    uint32_t n_dw, i;

    if (atomic_load_explicit(&record->value, memory_order_acquire) != value)
        return;
    first = atomic_load_explicit(&record->first, memory_order_relaxed);
    n_dw = atomic_load_explicit(&record->n_dw, memory_order_relaxed);
    stream = atomic_load_explicit(&record->stream, memory_order_relaxed);
    if (n_dw > REPORT_DW)
        n_dw = REPORT_DW;
    for (i = 0; i < n_dw / 2 && first + i < queue->push.size_bytes / 8; i++)
        words[i] = atomic_load_explicit(&priv->history[first + i],
                                        memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&record->value, memory_order_relaxed) != value ||
        hcq_signal_value(queue->base.timeline) >= value)
        return;
    if (stream)
        report_stream(queue, report, stream);
    else
        report_packets(queue, report, (const uint32_t *)(const void *)words,
                       i * 2);
}

void
nv_queue_describe(struct nv_queue *queue, char *text, size_t size_bytes)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);
    uint64_t done = hcq_signal_value(queue->base.timeline), value;
    uint64_t last =
        atomic_load_explicit(&priv->last_value, memory_order_acquire);
    struct report report = {.text = text, .size_bytes = size_bytes};
    char more[64];

    text[0] = '\0';
    if (done >= last)
        return;
    for (value = done + 1; value <= last && value <= done + REPORT_SUBMISSIONS;
         value++)
        report_submission(queue, &report, value);
    snprintf(more, sizeof(more), "%llu submissions not done",
             (unsigned long long)(last - done));
    if (last - done > REPORT_SUBMISSIONS || report.n == 0)
        add_text(&report, more);
}

/* ---- life -------------------------------------------------------------------------- */

bell_status
nv_queue_restart(struct nv_queue *queue)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);

    mem_ring_retire(&queue->push_ring, UINT64_MAX);
    priv->retired =
        atomic_load_explicit(&priv->last_value, memory_order_relaxed);
    priv->gp_tail = queue->channel.put;
    priv->needs_setup = true;
    return BELL_OK;
}

static void
free_queue(struct nv_queue *queue)
{
    struct nv_queue_priv *priv = nv_priv_of(queue);

    nv_channel_fini(&queue->channel);
    nv_mem_free(device_of(queue), &queue->push);
    mem_ring_fini(&queue->push_ring);
    if (priv)
        host_free((void *)priv->history);
    host_free(priv);
    host_free(queue);
}

static bell_status
make_queue(struct nv_queue *queue, struct nv_device *dev, uint32_t ring_bytes,
           bool is_copy)
{
    struct nv_queue_priv *priv = host_calloc(1, sizeof(*priv));

    queue->base.dev = &dev->base;
    queue->priv = priv;
    if (priv)
        priv->history = host_calloc(1, ring_bytes);
    if (!priv || !priv->history)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         dev->base.info.name);
    hcq_link_init(&priv->streams);
    priv->needs_setup = true;
    BELL_TRY(nv_engine_init(&priv->engine, &dev->chip, is_copy));
    BELL_TRY(mem_ring_init(&queue->push_ring, ring_bytes, NV_RECORDS));
    BELL_TRY(nv_mem_alloc(dev, ring_bytes, 4096, NV_MEM_VISIBLE, &queue->push));
    BELL_TRY(nv_channel_init(dev, is_copy, 0, &queue->channel));
    return BELL_OK;
}

bell_status
nv_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                struct hcq_queue **out_queue)
{
    struct nv_device *dev = nv_device_of(base_dev);
    uint32_t ring_bytes =
        desc->ring_size_bytes ? desc->ring_size_bytes : RING_DEFAULT_BYTES;
    struct nv_queue *queue;
    bell_status status;

    if (!is_pow2(ring_bytes) || ring_bytes < RING_MIN_BYTES ||
        ring_bytes > RING_MAX_BYTES)
        return bell_fail(BELL_E_INVALID,
                         "%s: a ring of %u bytes; powers of two from %u to "
                         "%u are possible",
                         base_dev->info.name, ring_bytes, RING_MIN_BYTES,
                         RING_MAX_BYTES);
    queue = host_calloc(1, sizeof(*queue));
    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: no memory for a queue",
                         base_dev->info.name);
    status = make_queue(queue, dev, ring_bytes, desc->kind == HCQ_QUEUE_COPY);
    /* Packets are never larger than what they become. */
    if (status == BELL_OK)
        status = hcq_queue_init(&queue->base, base_dev, desc, ring_bytes);
    if (status != BELL_OK) {
        free_queue(queue);
        return status;
    }
    *out_queue = &queue->base;
    return BELL_OK;
}

void
nv_queue_destroy(struct hcq_queue *base)
{
    struct nv_queue *queue = nv_queue_of(base);

    /* The channel first: it may still write the timeline. */
    nv_channel_fini(&queue->channel);
    hcq_queue_fini(base);
    free_queue(queue);
}
