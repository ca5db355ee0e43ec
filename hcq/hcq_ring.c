/* Submissions under way: room, notes, reports. */
#include "hcq/hcq_ring.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"

#define REPORT_DW          1024u /* packets that are looked at */
#define REPORT_SUBMISSIONS 4u

bell_status
hcq_ring_init(struct hcq_ring *ring, uint64_t push_bytes, uint32_t word_align,
              uint32_t unit_bytes)
{
    assert(is_pow2(word_align) && is_pow2(unit_bytes));
    ring->word_align = word_align;
    ring->unit_bytes = unit_bytes;
    BELL_TRY(mem_ring_init(&ring->push, push_bytes, HCQ_RING_RECORDS));
    return BELL_OK;
}

void
hcq_ring_fini(struct hcq_ring *ring)
{
    mem_ring_fini(&ring->push);
}

/* ---- room ---------------------------------------------------------------- */

bool
hcq_ring_retire(struct hcq_queue *queue)
{
    struct hcq_ring *ring = queue->ring;
    uint64_t seen = hcq_signal_value(queue->timeline);
    uint64_t last =
        atomic_load_explicit(&ring->last_value, memory_order_relaxed);

    if (seen > last)
        seen = last;
    if (seen <= ring->retired)
        return false;
    mem_ring_retire(&ring->push, seen);
    ring->slot_tail = ring->records[seen & (HCQ_RING_RECORDS - 1)].slot_put;
    assert(ring->slot_tail <= ring->slot_put);
    ring->retired = seen;
    return true;
}

void
hcq_ring_drop(struct hcq_ring *ring, uint64_t slot)
{
    mem_ring_retire(&ring->push, UINT64_MAX);
    ring->retired =
        atomic_load_explicit(&ring->last_value, memory_order_relaxed);
    ring->slot_put = ring->slot_tail = slot;
}

static bool
has_slots(const struct hcq_ring *ring, uint64_t n_slots)
{
    assert(ring->slot_tail <= ring->slot_put);
    return n_slots + (ring->slot_put - ring->slot_tail) <= ring->max_slots &&
           hcq_ring_outstanding(ring) < HCQ_RING_RECORDS;
}

/* Waits until some of what is under way is done. */
static bell_status
wait_for_room(struct hcq_queue *queue, uint64_t size_bytes, uint64_t align,
              uint64_t n_slots)
{
    const struct hcq_ring *ring = queue->ring;
    uint64_t value = ring->retired + 1;
    bell_status status;

    if (has_slots(ring, n_slots))
        value = mem_ring_wait_value(&ring->push, size_bytes, align);
    if (value == 0 || n_slots > ring->max_slots)
        return bell_fail(BELL_E_INVALID,
                         "%s: %llu bytes and %llu %s are larger than the ring, "
                         "which takes %llu and %llu",
                         queue->name, (unsigned long long)size_bytes,
                         (unsigned long long)n_slots, ring->slot_name,
                         (unsigned long long)ring->push.size_bytes,
                         (unsigned long long)ring->max_slots);
    assert(value > ring->retired);
    status = hcq_signal_wait(queue->timeline, value, queue->submit_timeout_ns);
    if (status != BELL_E_TIMEOUT)
        return status;
    if (hcq_ring_outstanding(ring) >= HCQ_RING_RECORDS)
        bell_error_prefix("%s: no room for more than %u submissions",
                          queue->name, HCQ_RING_RECORDS);
    else
        bell_error_prefix("%s: no room for %llu bytes and %llu %s in a ring of "
                          "%llu and %llu",
                          queue->name, (unsigned long long)size_bytes,
                          (unsigned long long)n_slots, ring->slot_name,
                          (unsigned long long)ring->push.size_bytes,
                          (unsigned long long)ring->max_slots);
    return status;
}

bell_status
hcq_ring_room(struct hcq_queue *queue, const struct hcq_extent *extent,
              uint64_t *out_offset, uint64_t *out_data_at)
{
    struct hcq_ring *ring = queue->ring;
    uint64_t align = extent->n_units ? ring->unit_bytes : ring->word_align;
    uint64_t data_at = align_up(4 * extent->n_dw, align);
    uint64_t size_bytes =
        data_at + (uint64_t)extent->n_units * ring->unit_bytes;

    assert(extent->n_slots > 0);
    while (!has_slots(ring, extent->n_slots) ||
           !mem_ring_alloc(&ring->push, size_bytes, align, out_offset)) {
        if (!hcq_ring_retire(queue))
            BELL_TRY(wait_for_room(queue, size_bytes, align, extent->n_slots));
    }
    assert(*out_offset % align == 0);
    *out_data_at = data_at;
    return BELL_OK;
}

/* ---- submissions, seen by others ----------------------------------------- */

/* The packets of a submission that is not done. */
struct snapshot {
    const uint32_t *packets; /* `words`, or those of `stream` */
    uint32_t n_dw;
    const struct hcq_stream *stream; /* NULL: fresh */
    uint64_t words[REPORT_DW / 2];
};

static bool
is_bound(const struct hcq_queue *queue, const struct hcq_stream *stream)
{
    const struct hcq_link *link;

    for (link = queue->bound.next; link != &queue->bound; link = link->next) {
        if (HCQ_CONTAINER(link, struct hcq_stream, bound) == stream)
            return true;
    }
    return false;
}

/* False: it is done, or a bound stream's that is gone. */
static bool
take_snapshot(const struct hcq_queue *queue, uint64_t value,
              struct snapshot *snapshot)
{
    const struct hcq_record *record =
        &queue->ring->records[value & (HCQ_RING_RECORDS - 1)];
    const uint64_t *from;
    uint32_t n_dw, i;

    if (atomic_load_explicit(&record->value, memory_order_acquire) != value)
        return false;
    from = (const void *)atomic_load_explicit(&record->words,
                                              memory_order_relaxed);
    n_dw = atomic_load_explicit(&record->n_dw, memory_order_relaxed);
    snapshot->stream =
        atomic_load_explicit(&record->stream, memory_order_relaxed);
    snapshot->packets = (const void *)snapshot->words;
    snapshot->n_dw = n_dw < REPORT_DW ? n_dw : REPORT_DW;
    /* Words may be another stream's by now: of the packet ring they are. */
    for (i = 0; i < snapshot->n_dw / 2; i++)
        snapshot->words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    /* What was read before the value, once more: whoever reuses the record
     * writes a 0 there first (hcq_ring_note), and whoever reuses the words has
     * seen the timeline pass it (hcq_queue_begin). */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&record->value, memory_order_relaxed) != value ||
        hcq_signal_value(queue->timeline) >= value)
        return false;
    if (!snapshot->stream)
        return true;
    if (!is_bound(queue, snapshot->stream))
        return false;
    n_dw = snapshot->stream->cs.n_dw;
    snapshot->packets = snapshot->stream->cs.words;
    snapshot->n_dw = n_dw < REPORT_DW ? n_dw : REPORT_DW;
    return true;
}

/* The packet at *pos, and *pos behind it; NULL: there is no more. */
static const struct hcq_packet *
next_packet(const struct snapshot *snapshot, uint32_t *pos)
{
    const struct hcq_packet *packet = hcq_packet_at(snapshot->packets, *pos);

    if (*pos >= snapshot->n_dw || !hcq_packet_ok(packet, snapshot->n_dw - *pos))
        return NULL;
    *pos += packet->head.n_dw;
    return packet;
}

/* The name of a launch's program, if it still exists. */
static const char *
program_name(const struct hcq_device *dev, const struct hcq_packet *packet)
{
    const struct hcq_link *link;

    if (packet->head.op != HCQ_OP_EXEC)
        return "";
    for (link = dev->programs.next; link != &dev->programs; link = link->next) {
        const struct hcq_program_base *base =
            HCQ_CONTAINER(link, const struct hcq_program_base, link);

        if (base == hcq_exec_of(packet)->prog)
            return base->pub.name;
    }
    return "(a program that is gone)";
}

bool
hcq_ring_find_exec(struct hcq_queue *queue, const struct hcq_program_base *prog,
                   char name[HCQ_NAME_MAX], uint64_t *out_n_groups)
{
    uint64_t value = hcq_signal_value(queue->timeline) + 1;
    uint64_t last =
        atomic_load_explicit(&queue->ring->last_value, memory_order_acquire);
    const struct hcq_packet *packet;
    const struct hcq_exec *exec;
    struct snapshot snapshot;
    uint32_t pos;

    for (; value <= last; value++) {
        if (!take_snapshot(queue, value, &snapshot))
            continue;
        for (pos = 0; (packet = next_packet(&snapshot, &pos)) != NULL;) {
            exec = hcq_exec_of(packet);
            if (packet->head.op != HCQ_OP_EXEC || (prog && exec->prog != prog))
                continue;
            snprintf(name, HCQ_NAME_MAX, "%s",
                     program_name(queue->dev, packet));
            *out_n_groups =
                (uint64_t)exec->grid[0] * exec->grid[1] * exec->grid[2];
            return true;
        }
    }
    return false;
}

/* ---- reports ------------------------------------------------------------- */

/* Text that grows up to a size; what does not fit is left out. */
struct report {
    char *text;
    size_t size_bytes, used; /* used: also of what did not fit */
    uint32_t n;              /* commands in it */
};

static void
add_text(struct report *report, const char *text)
{
    int n;

    if (report->used + 1 >= report->size_bytes)
        return;
    n = snprintf(report->text + report->used, report->size_bytes - report->used,
                 "%s%s", report->n++ ? ", " : "", text);
    report->used += n < 0 ? 0 : (size_t)n;
}

static void
add_words_text(struct report *report, uint32_t *n_words)
{
    char text[64];

    if (*n_words == 0)
        return;
    snprintf(text, sizeof(text), "%u words of the card's own", *n_words);
    add_text(report, text);
    *n_words = 0;
}

static void
report_submission(struct hcq_queue *queue, struct report *report,
                  uint64_t value)
{
    char text[HCQ_NAME_MAX + 128];
    const struct hcq_packet *packet;
    struct snapshot snapshot;
    uint32_t pos = 0, n_words = 0;

    if (!take_snapshot(queue, value, &snapshot))
        return;
    if (snapshot.stream) {
        snprintf(text, sizeof(text), "stream '%s': ", snapshot.stream->name);
        add_text(report, text);
        report->n = 0; /* no comma */
    }
    while (report->used + 1 < report->size_bytes &&
           (packet = next_packet(&snapshot, &pos)) != NULL) {
        if (packet->head.op == HCQ_OP_WORDS) { /* told of together */
            n_words += (uint32_t)packet->word[0];
            continue;
        }
        add_words_text(report, &n_words);
        hcq_packet_text(packet, program_name(queue->dev, packet), text,
                        sizeof(text));
        add_text(report, text);
    }
    add_words_text(report, &n_words);
    report->n += snapshot.stream != NULL;
}

void
hcq_ring_describe(struct hcq_queue *queue, char *text, size_t size_bytes)
{
    uint64_t done = hcq_signal_value(queue->timeline), value;
    uint64_t last =
        atomic_load_explicit(&queue->ring->last_value, memory_order_acquire);
    struct report report = {text, size_bytes, 0, 0};
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

unsigned
hcq_ring_find_endless(struct hcq_queue *queue, char name[HCQ_NAME_MAX])
{
    const struct hcq_packet *packet;
    struct snapshot snapshot;
    uint32_t pos = 0;
    unsigned n = 0;

    if (!hcq_ring_busy(queue) ||
        !take_snapshot(queue, hcq_signal_value(queue->timeline) + 1, &snapshot))
        return 0;
    while ((packet = next_packet(&snapshot, &pos)) != NULL) {
        if (packet->head.op == HCQ_OP_WAIT || packet->head.op == HCQ_OP_POLL ||
            packet->head.op == HCQ_OP_WORDS)
            return 0;
        if (packet->head.op != HCQ_OP_EXEC)
            continue;
        if (n++ == 0)
            snprintf(name, HCQ_NAME_MAX, "%s",
                     program_name(queue->dev, packet));
    }
    return n;
}

void
hcq_ring_describe_all(struct hcq_device *dev, char *text, size_t size_bytes)
{
    struct hcq_queue *queue;
    size_t used = 0;

    text[0] = '\0';
    pthread_mutex_lock(&dev->lock);
    for (queue = hcq_next_queue(dev, NULL); queue;
         queue = hcq_next_queue(dev, queue)) {
        if (!hcq_ring_busy(queue))
            continue;
        snprintf(text + used, size_bytes - used, "%s%s: ", used ? "; " : "",
                 queue->name);
        used += strlen(text + used);
        hcq_ring_describe(queue, text + used, size_bytes - used);
        used += strlen(text + used);
    }
    pthread_mutex_unlock(&dev->lock);
}
