/* Submissions: notes and reports. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/hcq_history.h"

#define REPORT_DW          1024u /* packets that are looked at */
#define REPORT_SUBMISSIONS 4u

bell_status
hcq_history_init(struct hcq_history *history, uint64_t size_bytes)
{
    memset(history, 0, sizeof(*history));
    hcq_link_init(&history->streams);
    history->n_words = size_bytes / 8;
    history->words = host_calloc((size_t)history->n_words, 8);
    return history->words ? BELL_OK
                          : bell_fail(BELL_E_NO_MEMORY,
                                      "no memory for %llu bytes of commands",
                                      (unsigned long long)size_bytes);
}

void
hcq_history_fini(struct hcq_history *history)
{
    host_free((void *)history->words);
    history->words = NULL;
}

/* ---- notes --------------------------------------------------------------------- */

bool
hcq_history_retire(struct hcq_history *history,
                   const struct hcq_signal *timeline, struct mem_ring *ring,
                   uint64_t *out_put)
{
    uint64_t seen = hcq_signal_value(timeline);
    uint64_t last =
        atomic_load_explicit(&history->last_value, memory_order_relaxed);

    if (seen > last)
        seen = last;
    if (seen <= history->retired)
        return false;
    mem_ring_retire(ring, seen);
    *out_put = atomic_load_explicit(
        &history->records[seen & (HCQ_HISTORY_RECORDS - 1)].put,
        memory_order_relaxed);
    history->retired = seen;
    return true;
}

void
hcq_history_drop(struct hcq_history *history, struct mem_ring *ring)
{
    mem_ring_retire(ring, UINT64_MAX);
    history->retired =
        atomic_load_explicit(&history->last_value, memory_order_relaxed);
}

/* ---- reports -------------------------------------------------------------------- */

/* Text that grows up to a size; what does not fit is left out. */
struct report {
    struct hcq_queue *queue;
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

/* The name of a program that still exists. */
static const char *
program_name(struct hcq_device *dev, const struct hcq_program_base *prog)
{
    struct hcq_link *link;

    for (link = dev->programs.next; link != &dev->programs; link = link->next) {
        const struct hcq_program_base *base =
            HCQ_CONTAINER(link, struct hcq_program_base, link);

        if (base == prog)
            return base->pub.name;
    }
    return "(a program that is gone)";
}

static void
report_packets(struct report *report, const uint32_t *words, uint32_t n_dw)
{
    uint32_t pos = 0;
    char text[192];

    while (pos < n_dw && hcq_packet_ok(hcq_packet_at(words, pos), n_dw - pos) &&
           report->used + 1 < report->size_bytes) {
        const struct hcq_packet *packet = hcq_packet_at(words, pos);
        const char *name = "";

        if (packet->head.op == HCQ_OP_EXEC)
            name = program_name(report->queue->dev, hcq_exec_of(packet)->prog);
        hcq_packet_text(packet, name, text, sizeof(text));
        add_text(report, text);
        pos += packet->head.n_dw;
    }
}

static bool
is_bound(const struct hcq_history *history, const struct hcq_stream *stream)
{
    struct hcq_link *link;

    for (link = history->streams.next; link != &history->streams;
         link = link->next) {
        if (HCQ_CONTAINER(link, struct hcq_history_stream, link)->stream ==
            stream)
            return true;
    }
    return false;
}

static void
report_stream(const struct hcq_history *history, struct report *report,
              const struct hcq_stream *stream)
{
    char text[HCQ_NAME_MAX + 40];

    if (!is_bound(history, stream))
        return;
    snprintf(text, sizeof(text), "stream '%s': ", stream->name);
    add_text(report, text);
    report->n = 0; /* no comma */
    report_packets(report, stream->cs.words,
                   stream->cs.n_dw < REPORT_DW ? stream->cs.n_dw : REPORT_DW);
    report->n++;
}

static void
report_submission(const struct hcq_history *history, struct report *report,
                  uint64_t value)
{
    const struct hcq_record *record =
        &history->records[value & (HCQ_HISTORY_RECORDS - 1)];
    uint64_t words[REPORT_DW / 2], first;
    const struct hcq_stream *stream;
    uint32_t n_dw, i;

    if (atomic_load_explicit(&record->value, memory_order_acquire) != value)
        return;
    first = atomic_load_explicit(&record->first, memory_order_relaxed);
    n_dw = atomic_load_explicit(&record->n_dw, memory_order_relaxed);
    stream = atomic_load_explicit(&record->stream, memory_order_relaxed);
    if (n_dw > REPORT_DW)
        n_dw = REPORT_DW;
    for (i = 0; i < n_dw / 2 && first + i < history->n_words; i++)
        words[i] = atomic_load_explicit(&history->words[first + i],
                                        memory_order_relaxed);
    /* The words before the value, once more: whoever reuses the record writes
     * a 0 there first (hcq_history_note). */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&record->value, memory_order_relaxed) != value ||
        hcq_signal_value(report->queue->timeline) >= value)
        return;
    if (stream)
        report_stream(history, report, stream);
    else
        report_packets(report, (const uint32_t *)(const void *)words, i * 2);
}

void
hcq_history_describe(const struct hcq_history *history, struct hcq_queue *queue,
                     char *text, size_t size_bytes)
{
    uint64_t done = hcq_signal_value(queue->timeline), value;
    uint64_t last =
        atomic_load_explicit(&history->last_value, memory_order_acquire);
    struct report report = {queue, text, size_bytes, 0, 0};
    char more[64];

    text[0] = '\0';
    if (done >= last)
        return;
    for (value = done + 1; value <= last && value <= done + REPORT_SUBMISSIONS;
         value++)
        report_submission(history, &report, value);
    snprintf(more, sizeof(more), "%llu submissions not done",
             (unsigned long long)(last - done));
    if (last - done > REPORT_SUBMISSIONS || report.n == 0)
        add_text(&report, more);
}

void
hcq_history_describe_all(struct hcq_device *dev, char *text, size_t size_bytes)
{
    struct hcq_link *link;
    size_t used = 0;

    text[0] = '\0';
    pthread_mutex_lock(&dev->lock);
    for (link = dev->queues.next; link != &dev->queues; link = link->next) {
        struct hcq_queue *queue = HCQ_CONTAINER(link, struct hcq_queue, link);

        if (hcq_signal_value(queue->timeline) >=
            atomic_load(&queue->history->last_value))
            continue;
        snprintf(text + used, size_bytes - used, "%s%s: ", used ? "; " : "",
                 queue->name);
        used += strlen(text + used);
        hcq_history_describe(queue->history, queue, text + used,
                             size_bytes - used);
        used += strlen(text + used);
    }
    pthread_mutex_unlock(&dev->lock);
}
