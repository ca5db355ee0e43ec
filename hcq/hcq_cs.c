/* Queues and their fresh command streams; the checks before each packer. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "hcq/hcq_facts.h"
#include "hcq/hcq_ring.h"
#include "hcq/hcq_tell.h"

#define STREAM_START_DW 1024u

#define RING_DEFAULT_BYTES (1u << 20)
#define RING_MIN_BYTES     4096u

/* A queue's descriptor, before it grew. */
#define DESC_LEAST_BYTES offsetof(struct hcq_queue_desc, engines)

#define MOST_EXPECTED_NS (UINT64_MAX / 16) /* 37 years */

static const char *const kind_names[HCQ_QUEUE_KIND_COUNT] = {
    [HCQ_QUEUE_COMPUTE] = "compute",
    [HCQ_QUEUE_COPY] = "copy",
};

/* ---- the sticky buffer -------------------------------------------------- */

void
hcq_cs_fail(struct hcq_cs *cs, bell_status status)
{
    assert(status != BELL_OK);
    if (cs->status != BELL_OK)
        return;
    cs->status = status;
    cs->error = *bell_error_last();
}

static const char *
cs_name(const struct hcq_cs *cs)
{
    return cs->stream ? cs->stream->name : cs->queue->name;
}

/* Bound streams grow while they are built. */
static bool
grow_cs(struct hcq_cs *cs, uint32_t n_dw)
{
    uint64_t cap = cs->cap_dw ? cs->cap_dw : STREAM_START_DW;
    uint32_t *words;

    if (!cs->stream)
        return false;
    while (cap < (uint64_t)cs->n_dw + n_dw)
        cap *= 2;
    if (cap > UINT32_MAX / 8)
        return false;
    words = host_realloc(cs->words, (size_t)cap * 4);
    if (!words)
        return false;
    cs->words = words;
    cs->cap_dw = (uint32_t)cap;
    return true;
}

static void
fail_full(struct hcq_cs *cs)
{
    bell_status status =
        cs->stream ? bell_fail(BELL_E_NO_MEMORY,
                               "stream '%s': out of memory after %u bytes",
                               cs->stream->name, cs->n_dw * 4)
                   : bell_fail(BELL_BAD_SIZE,
                               "%s: the stream is larger than the ring, "
                               "which takes %u bytes",
                               cs->queue->name, cs->cap_dw * 4);

    hcq_cs_fail(cs, status);
}

/* Room for a command of n_dw words (at most HCQ_CS_PACKET_DW): in the stream,
 * or in the sink after an error. Never NULL. */
static inline __attribute__((always_inline)) uint32_t *
reserve_words(struct hcq_cs *cs, uint32_t n_dw)
{
    uint32_t *words;

    assert(n_dw <= HCQ_CS_PACKET_DW && n_dw % 2 == 0);
    if (__builtin_expect(cs->status != BELL_OK, 0))
        return (uint32_t *)(void *)cs->sink;
    if (__builtin_expect(n_dw > cs->cap_dw - cs->n_dw, 0) &&
        !grow_cs(cs, n_dw)) {
        fail_full(cs);
        return (uint32_t *)(void *)cs->sink;
    }
    words = cs->words + cs->n_dw;
    cs->last_dw = cs->n_dw;
    cs->has_last = true;
    cs->n_dw += n_dw;
    return words;
}

/* ---- emitters ------------------------------------------------------------ */

/* Whether a command may be emitted now. */
static bool
takes_commands(struct hcq_cs *cs)
{
    if (__builtin_expect(cs->open && cs->status == BELL_OK, 1))
        return true;
    if (!cs->open)
        hcq_cs_fail(cs, bell_fail(BELL_BAD_STATE,
                                  "%s: a command for a stream that is not "
                                  "being built",
                                  cs_name(cs)));
    return false;
}

static bool
is_aligned(struct hcq_cs *cs, const char *what, uint64_t va, uint64_t align)
{
    assert(is_pow2(align));
    if (__builtin_expect((va & (align - 1)) == 0, 1))
        return true;
    hcq_cs_fail(cs, bell_fail(BELL_BAD_VALUE,
                              "%s: %s at 0x%llx, which is not a multiple "
                              "of %llu",
                              cs_name(cs), what, (unsigned long long)va,
                              (unsigned long long)align));
    return false;
}

/* Whether the queue can address [va, va + size_bytes). */
static bool
reaches(struct hcq_cs *cs, const char *what, uint64_t va, uint64_t size_bytes,
        uint64_t va_end)
{
    if (__builtin_expect(va < va_end && size_bytes <= va_end - va, 1))
        return true;
    hcq_cs_fail(cs,
                bell_fail(BELL_BAD_VALUE,
                          "%s: %s of %llu bytes at 0x%llx: %s addresses less "
                          "than 0x%llx",
                          cs_name(cs), what, (unsigned long long)size_bytes,
                          (unsigned long long)va, cs->queue->dev->info.name,
                          (unsigned long long)va_end));
    return false;
}

/* A packet was appended that becomes so much. A fresh stream may not become
 * more than the card's rings take. */
static inline void
count(struct hcq_cs *cs, struct hcq_ring *ring, const struct hcq_extent *extent)
{
    assert(ring == cs->queue->ring && !cs->stream);
    ring->fresh.n_dw += extent->n_dw;
    ring->fresh.n_units += extent->n_units;
    ring->fresh.n_slots += extent->n_slots;
    if (__builtin_expect(hcq_ring_takes(ring, &ring->fresh), 1))
        return;
    hcq_cs_fail(cs, bell_fail(BELL_E_INVALID,
                              "%s: the stream is larger than the ring, which "
                              "takes %llu bytes and %llu %s",
                              cs->queue->name,
                              (unsigned long long)ring->push.size_bytes,
                              (unsigned long long)ring->max_slots,
                              ring->slot_name));
}

/* What a packet that was appended becomes, counted. */
static inline __attribute__((always_inline)) void
measure(struct hcq_cs *cs, struct hcq_packet *packet)
{
    struct hcq_ring *ring = cs->queue->ring;
    struct hcq_extent extent;

    if (!ring || cs->status != BELL_OK)
        return;
    extent = hcq_packet_measure(cs, packet);
    if (!cs->stream)
        count(cs, ring, &extent);
}

/* A packet with n_words words behind its head. */
static void
emit(struct hcq_cs *cs, enum hcq_op op, uint32_t n_words, uint64_t a,
     uint64_t b, uint64_t c)
{
    const uint64_t words[3] = {a, b, c};
    uint32_t n_dw = HCQ_HEAD_DW + 2 * n_words, i;
    struct hcq_packet *packet = (void *)reserve_words(cs, n_dw);

    assert(n_words <= ARRAY_LEN(words));
    HCQ_PUT(packet->head.op, (uint8_t)op);
    HCQ_PUT(packet->head.flags, 0);
    HCQ_PUT(packet->head.n_dw, (uint16_t)n_dw);
    HCQ_PUT(packet->head.word_dw, 0);
    for (i = 0; i < n_words; i++)
        HCQ_PUT(packet->word[i], words[i]);
    measure(cs, packet);
}

void
hcq_cs_put_words(struct hcq_cs *cs, const uint32_t *words, uint32_t n_words)
{
    uint32_t n_dw = hcq_words_dw(n_words), i, *to;
    struct hcq_packet *packet;

    if (!takes_commands(cs) || n_words == 0)
        return;
    if (n_words > HCQ_WORDS_MAX || !words || !cs->queue->words) {
        hcq_cs_fail(
            cs, !cs->queue->words
                    ? bell_fail(BELL_E_UNSUPPORTED,
                                "%s: words: %s has none of its own, it runs "
                                "hcq's commands as they are",
                                cs_name(cs), cs->queue->dev->info.name)
                : words ? bell_fail(BELL_BAD_SIZE,
                                    "%s: %u words at once; %u are possible",
                                    cs_name(cs), n_words, HCQ_WORDS_MAX)
                        : bell_fail(BELL_BAD_MISSING, "%s: words is NULL",
                                    cs_name(cs)));
        return;
    }
    packet = (void *)reserve_words(cs, n_dw);
    HCQ_PUT(packet->head.op, (uint8_t)HCQ_OP_WORDS);
    HCQ_PUT(packet->head.flags, 0);
    HCQ_PUT(packet->head.n_dw, (uint16_t)n_dw);
    HCQ_PUT(packet->head.word_dw, 0);
    HCQ_PUT(packet->word[0], n_words);
    to = (uint32_t *)(void *)&packet->word[1];
    for (i = 0; i < n_words; i++)
        HCQ_PUT(to[i], words[i]);
    measure(cs, packet);
}

/* The address on the stream's device of a signal, n_bytes of which the command
 * touches; false after an error. */
static bool
find_signal(struct hcq_cs *cs, const char *what, const struct hcq_signal *sig,
            uint64_t n_bytes, uint64_t *out_va)
{
    bell_status status;

    if (!takes_commands(cs))
        return false;
    if (__builtin_expect(!sig, 0)) {
        hcq_cs_fail(cs, bell_fail(BELL_BAD_MISSING, "%s: %s: signal is NULL",
                                  cs_name(cs), what));
        return false;
    }
    *out_va = sig->va;
    if (__builtin_expect(sig->dev != cs->queue->dev, 0)) {
        status = hcq_check_process(cs->queue->dev);
        if (status == BELL_OK)
            status =
                cs->queue->dev->ops->signal_map(cs->queue->dev, sig, out_va);
        if (status != BELL_OK) {
            hcq_cs_fail(cs, status);
            return false;
        }
    }
    return reaches(cs, what, *out_va, n_bytes, cs->queue->sync_va_end);
}

/* A device that compares halves: a lower half begins anew where the upper one
 * grows, so of a signal that is beyond that already the upper half is
 * enough. */
static uint64_t
look_at_signal(const struct hcq_signal *sig, uint64_t value)
{
    uint64_t seen = __atomic_load_n(&sig->host[0], __ATOMIC_RELAXED);

    return seen >> 32 > value >> 32 ? ((value >> 32) + 1) << 32 : value;
}

void
hcq_cs_wait(struct hcq_cs *cs, const struct hcq_signal *sig, uint64_t value)
{
    uint64_t va;

    if (!find_signal(cs, "wait", sig, 8, &va))
        return;
    if (cs->queue->compares_halves && !cs->stream) /* which runs now */
        value = look_at_signal(sig, value);
    emit(cs, HCQ_OP_WAIT, 2, va, value, 0);
}

void
hcq_cs_signal(struct hcq_cs *cs, const struct hcq_signal *sig, uint64_t value)
{
    uint64_t va;

    if (find_signal(cs, "signal", sig, 8, &va))
        emit(cs, HCQ_OP_SIGNAL, 2, va, value, 0);
}

void
hcq_cs_timestamp(struct hcq_cs *cs, const struct hcq_signal *sig)
{
    uint64_t n_bytes = 8ull * (cs->queue->dev->timestamp_word + 1), va;

    if (find_signal(cs, "timestamp", sig, n_bytes, &va))
        emit(cs, HCQ_OP_TIMESTAMP, 1, va, 0, 0);
}

void
hcq_cs_barrier(struct hcq_cs *cs)
{
    if (takes_commands(cs))
        emit(cs, HCQ_OP_BARRIER, 0, 0, 0, 0);
}

/* Everything about a launch that can be wrong, but its group's size, as an
 * error record. */
static bell_status
check_exec(const struct hcq_cs *cs, const struct hcq_program *prog,
           const uint64_t *args, uint32_t n_args, const uint32_t grid[3])
{
    const struct hcq_device *dev = cs->queue->dev;
    const struct hcq_device_info *info = &dev->info;
    int i;

    if (!prog || !grid || (!args && n_args))
        return bell_fail(BELL_BAD_MISSING, "%s: exec: %s is NULL", cs_name(cs),
                         !prog   ? "the program"
                         : !grid ? "the grid"
                                 : "the argument list");
    if (cs->queue->kind != HCQ_QUEUE_COMPUTE)
        return bell_fail(BELL_BAD_STATE, "%s: exec of '%s' on a copy queue",
                         cs_name(cs), prog->name);
    if (prog->dev != dev)
        return bell_fail(BELL_BAD_CONTEXT,
                         "%s: '%s' was loaded on another device (%s)",
                         cs_name(cs), prog->name, prog->dev->info.name);
    if (n_args != prog->n_bufs + prog->n_vals)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: '%s' takes %u buffers and %u values, %u "
                         "arguments given",
                         cs_name(cs), prog->name, prog->n_bufs, prog->n_vals,
                         n_args);
    for (i = 0; i < 3; i++) {
        if (grid[i] == 0 || grid[i] > info->max_grid[i])
            return bell_fail(BELL_BAD_VALUE,
                             "%s: '%s' with grid %ux%ux%u, axis %d takes 1 "
                             "to %u",
                             cs_name(cs), prog->name, grid[0], grid[1], grid[2],
                             i, info->max_grid[i]);
    }
    return BELL_OK;
}

/* The same of a group's size; a program's own was looked at when it was
 * loaded. */
static bell_status
check_local(const struct hcq_cs *cs, const struct hcq_program *prog,
            const uint32_t local[3])
{
    const struct hcq_device_info *info = &cs->queue->dev->info;
    const struct hcq_program_base *base;
    int i;

    for (i = 0; i < 3; i++) {
        if (local[i] == 0 || local[i] > info->max_local[i] ||
            (prog->local[0] && local[i] != prog->local[i]))
            return bell_fail(BELL_BAD_VALUE,
                             "%s: '%s' with local size %ux%ux%u, the "
                             "program takes %ux%ux%u (0: any), %s at most %u "
                             "on axis %d",
                             cs_name(cs), prog->name, local[0], local[1],
                             local[2], prog->local[0], prog->local[1],
                             prog->local[2], info->name, info->max_local[i], i);
    }
    base = HCQ_CONTAINER(prog, const struct hcq_program_base, pub);
    if ((uint64_t)local[0] * local[1] * local[2] > base->max_local_total)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: '%s': %ux%ux%u work-items in a group; %s takes "
                         "%u of this program",
                         cs_name(cs), prog->name, local[0], local[1], local[2],
                         info->name, base->max_local_total);
    return BELL_OK;
}

/* As many work-groups at once as there are units. */
static void
expect_launch(struct hcq_cs *cs, uint64_t group_ns, const uint32_t grid[3])
{
    uint64_t n_groups = (uint64_t)grid[0] * grid[1] * grid[2];
    uint64_t turns = (n_groups - 1) / cs->queue->dev->info.n_units + 1;
    double ns = (double)cs->expect_ns + (double)turns * (double)group_ns;

    assert(n_groups > 0 && group_ns > 0);
    cs->expect_ns =
        ns < (double)MOST_EXPECTED_NS ? (uint64_t)ns : MOST_EXPECTED_NS;
}

void
hcq_cs_exec(struct hcq_cs *cs, const struct hcq_program *prog,
            const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
            const uint32_t local[3])
{
    static const uint32_t one[3] = {1, 1, 1};
    uint32_t n_dw = HCQ_EXEC_DW + 2 * n_args, i;
    const struct hcq_program_base *base;
    struct hcq_exec *exec;
    bell_status status;

    if (!takes_commands(cs))
        return;
    status = check_exec(cs, prog, args, n_args, grid);
    if (status == BELL_OK && local)
        status = check_local(cs, prog, local);
    if (__builtin_expect(status != BELL_OK, 0)) {
        hcq_cs_fail(cs, status);
        return;
    }
    if (!local)
        local = prog->local[0] ? prog->local : one;
    base = HCQ_CONTAINER(prog, const struct hcq_program_base, pub);
    exec = (void *)reserve_words(cs, n_dw);
    HCQ_PUT(exec->head.op, HCQ_OP_EXEC);
    HCQ_PUT(exec->head.flags, 0);
    HCQ_PUT(exec->head.n_dw, (uint16_t)n_dw);
    HCQ_PUT(exec->head.word_dw, (uint32_t)base->extent.n_dw);
    HCQ_PUT(exec->prog, base);
#pragma GCC unroll 3
    for (i = 0; i < 3; i++) {
        HCQ_PUT(exec->grid[i], grid[i]);
        HCQ_PUT(exec->local[i], local[i]);
    }
    for (i = 0; i < n_args; i++)
        HCQ_PUT(exec->args[i], args[i]);
    if (cs->queue->ring && !cs->stream)
        count(cs, cs->queue->ring, &base->extent);
    if (__builtin_expect(base->group_ns != 0, 0))
        expect_launch(cs, base->group_ns, grid);
}

void
hcq_cs_copy(struct hcq_cs *cs, uint64_t dst_va, uint64_t src_va,
            uint64_t size_bytes)
{
    uint64_t end = cs->queue->copy_va_end;

    if (!takes_commands(cs) || (size_bytes == 0 && !cs->stream))
        return;
    if (reaches(cs, "copy to", dst_va, size_bytes, end) &&
        reaches(cs, "copy from", src_va, size_bytes, end))
        emit(cs, HCQ_OP_COPY, 3, dst_va, src_va, size_bytes);
}

void
hcq_cs_fill(struct hcq_cs *cs, uint64_t dst_va, uint32_t pattern,
            uint64_t size_bytes)
{
    if (!takes_commands(cs) || !is_aligned(cs, "fill", dst_va, 4) ||
        (size_bytes == 0 && !cs->stream))
        return;
    if (reaches(cs, "fill", dst_va, size_bytes, cs->queue->copy_va_end))
        emit(cs, HCQ_OP_FILL, 3, dst_va, pattern, size_bytes);
}

void
hcq_cs_write(struct hcq_cs *cs, uint64_t dst_va, uint64_t value,
             unsigned n_bits)
{
    if (!takes_commands(cs))
        return;
    if ((n_bits != 32 && n_bits != 64) ||
        (n_bits == 32 && value > UINT32_MAX)) {
        hcq_cs_fail(cs,
                    bell_fail(BELL_BAD_VALUE,
                              "%s: write of 0x%llx as %u bits; 32 and "
                              "64 are possible",
                              cs_name(cs), (unsigned long long)value, n_bits));
        return;
    }
    if (is_aligned(cs, "write", dst_va, n_bits / 8) &&
        reaches(cs, "write", dst_va, n_bits / 8, cs->queue->copy_va_end))
        emit(cs, n_bits == 32 ? HCQ_OP_WRITE32 : HCQ_OP_WRITE64, 2, dst_va,
             value, 0);
}

void
hcq_cs_poll(struct hcq_cs *cs, uint64_t va, uint32_t mask, uint32_t value)
{
    const struct hcq_device_info *info = &cs->queue->dev->info;

    if (!takes_commands(cs) || !is_aligned(cs, "poll", va, 4))
        return;
    if (mask != UINT32_MAX && !(info->flags & HCQ_DEVICE_POLL_MASKS)) {
        hcq_cs_fail(cs, bell_fail(BELL_E_UNSUPPORTED,
                                  "%s: poll of the bits 0x%x: queues of %s "
                                  "(%s) compare whole words, mask 0xffffffff",
                                  cs_name(cs), mask, info->name, info->arch));
        return;
    }
    if (reaches(cs, "poll", va, 4, cs->queue->sync_va_end))
        emit(cs, HCQ_OP_POLL, 3, va, mask, value);
}

/* ---- queues -------------------------------------------------------------- */

bell_status
hcq_queue_ring_bytes(const struct hcq_device *dev,
                     const struct hcq_queue_desc *desc, uint32_t max_bytes,
                     uint32_t *out_bytes)
{
    uint32_t n_bytes =
        desc->ring_size_bytes ? desc->ring_size_bytes : RING_DEFAULT_BYTES;

    if (!is_pow2(n_bytes) || n_bytes < RING_MIN_BYTES || n_bytes > max_bytes)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: a ring of %u bytes; powers of two from %u to "
                         "%u are possible",
                         dev->info.name, n_bytes, RING_MIN_BYTES, max_bytes);
    *out_bytes = n_bytes;
    return BELL_OK;
}

bell_status
hcq_queue_init(struct hcq_queue *queue, struct hcq_device *dev,
               const struct hcq_queue_desc *desc, uint32_t cs_size_bytes)
{
    assert(cs_size_bytes % 8 == 0);
    /* Those under way, of a card, and the next (hcq_ring.h). */
    uint64_t packet_bytes = (queue->ring ? 3ull : 1ull) * cs_size_bytes;
    uint32_t number;

    queue->dev = dev;
    queue->kind = desc->kind;
    queue->engines = desc->kind == HCQ_QUEUE_COPY ? desc->engines : 0;
    queue->submit_timeout_ns = desc->submit_timeout_ns ? desc->submit_timeout_ns
                                                       : HCQ_WAIT_WHILE_MOVING;
    hcq_link_init(&queue->link);
    hcq_link_init(&queue->streams);
    hcq_link_init(&queue->bound);
    pthread_mutex_lock(&dev->lock);
    number = dev->n_queues_made[desc->kind]++;
    pthread_mutex_unlock(&dev->lock);
    snprintf(queue->name, sizeof(queue->name), "%.40s/%s%u", dev->info.name,
             kind_names[desc->kind], number);
    queue->cs.queue = queue;
    queue->packets = host_aligned(64, (size_t)packet_bytes);
    if (!queue->packets)
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory for %llu bytes of commands",
                         queue->name, (unsigned long long)packet_bytes);
    /* The pages are there before the first launch is: those of as much as one
     * stream takes. A program that is seldom far ahead of its card is spared
     * the others for a while. */
    memset(queue->packets, 0, cs_size_bytes);
    queue->cs.words = queue->packets;
    queue->cs.cap_dw = cs_size_bytes / 4;
    if (hcq_signal_create(dev, 0, &queue->timeline) != BELL_OK) {
        host_free(queue->packets);
        queue->packets = NULL;
        return bell_error_last()->status;
    }
    queue->timeline->owned_by_queue = true;
    return BELL_OK;
}

void
hcq_queue_fini(struct hcq_queue *queue)
{
    assert(queue->timeline->owned_by_queue);
    assert(queue->streams.next == &queue->streams);
    queue->timeline->owned_by_queue = false;
    hcq_signal_destroy(queue->timeline);
    host_free(queue->packets);
}

bell_status
hcq_queue_create_with(struct hcq_device *dev, const struct hcq_queue_desc *desc,
                      struct hcq_queue **out_queue)
{
    struct hcq_queue_desc whole = {0};
    struct bell_error_hold hold;
    struct hcq_queue *queue;

    bell_error_hold(&hold);
    if (!dev || !desc || !out_queue)
        return bell_fail(BELL_BAD_MISSING, "queue create: %s is NULL",
                         !dev    ? "the device"
                         : !desc ? "the descriptor"
                                 : "the result");
    if (desc->struct_size < DESC_LEAST_BYTES)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: queue descriptor of %u bytes, %zu are known",
                         dev->info.name, desc->struct_size, sizeof(*desc));
    memcpy(&whole, desc,
           desc->struct_size < sizeof(whole) ? desc->struct_size
                                             : sizeof(whole));
    desc = &whole;
    if ((unsigned)desc->kind >= HCQ_QUEUE_KIND_COUNT)
        return bell_fail(BELL_BAD_VALUE, "%s: queue kind %u", dev->info.name,
                         (unsigned)desc->kind);
    if (desc->engines && desc->kind != HCQ_QUEUE_COPY)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: copy engines 0x%x for a queue that is not a "
                         "copy queue",
                         dev->info.name, desc->engines);
    BELL_TRY(hcq_device_status(dev)); /* and of our process */
    BELL_TRY(dev->ops->queue_create(dev, desc, &queue));
    assert(queue->dev == dev && queue->kind == desc->kind);
    pthread_mutex_lock(&dev->lock);
    hcq_link_add(&dev->queues, &queue->link);
    pthread_mutex_unlock(&dev->lock);
    bell_error_release(&hold); /* a part that it did without is not a failure */
    *out_queue = queue;
    return BELL_OK;
}

bell_status
hcq_queue_create(struct hcq_device *dev, enum hcq_queue_kind kind,
                 struct hcq_queue **out_queue)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = kind,
    };

    BELL_TRY(hcq_queue_create_with(dev, &desc, out_queue));
    return BELL_OK;
}

void
hcq_queue_destroy(struct hcq_queue *queue)
{
    struct bell_error_hold hold;
    struct hcq_device *dev;

    if (!queue || hcq_is_inherited(queue->dev))
        return;
    dev = queue->dev;
    bell_error_hold(&hold);
    interrupt_hold();
    if (hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING) != BELL_OK)
        LOG(LOG_SYNC, "%s destroyed with work left: %s", queue->name,
            bell_error_last()->message);
    interrupt_release();
    bell_error_release(&hold);
    while (queue->streams.next != &queue->streams)
        hcq_stream_destroy(
            HCQ_CONTAINER(queue->streams.next, struct hcq_stream, link));
    pthread_mutex_lock(&dev->lock);
    hcq_link_remove(&queue->link);
    pthread_mutex_unlock(&dev->lock);
    dev->ops->queue_destroy(queue);
}

const char *
hcq_queue_name(const struct hcq_queue *queue)
{
    return queue->name;
}

struct hcq_signal *
hcq_queue_timeline(struct hcq_queue *queue)
{
    return queue->timeline;
}

bell_status
hcq_queue_wait(struct hcq_queue *queue, uint64_t timeout_ns)
{
    BELL_TRY(hcq_signal_wait(queue->timeline, queue->n_submitted, timeout_ns));
    return BELL_OK;
}

/* ---- fresh streams ------------------------------------------------------- */

/* Checks that the device is our process's and not lost. It does not look at the
 * hardware, which would be too slow for a launch: waits look, and so does
 * hcq_device_status. */
static bell_status
check_usable(struct hcq_device *dev)
{
    if (__builtin_expect(hcq_is_inherited(dev), 0))
        return hcq_check_process(dev);
    return __builtin_expect(hcq_device_is_lost(dev), 0) ? hcq_lost_report(dev)
                                                        : BELL_OK;
}

bell_status
hcq_queue_begin(struct hcq_queue *queue, struct hcq_cs **out_cs)
{
    struct hcq_ring *ring;
    struct hcq_cs *cs;

    if (!queue || !out_cs)
        return bell_fail(BELL_BAD_MISSING, "queue begin: %s is NULL",
                         queue ? "the result" : "the queue");
    cs = &queue->cs;
    ring = queue->ring;
    if (cs->open)
        return bell_fail(BELL_BAD_STATE, "%s: a stream is open already",
                         queue->name);
    BELL_TRY(check_usable(queue->dev));
    if (ring) {
        if (ring->next_dw > 2 * cs->cap_dw)
            ring->next_dw = 0;
        assert(ring->next_dw <= 2 * cs->cap_dw && ring->next_dw % 2 == 0);
        cs->words = queue->packets + ring->next_dw;
        ring->fresh = ring->own;
        /* The timeline has shown that the packets which lay there are done;
         * this orders that for those who look at packets while they are
         * written. */
        atomic_thread_fence(memory_order_release);
    }
    cs->n_dw = 0;
    cs->expect_ns = 0;
    cs->has_last = false;
    cs->status = BELL_OK;
    cs->open = true;
    *out_cs = cs;
    return BELL_OK;
}

bell_status
hcq_cs_end(struct hcq_cs *cs)
{
    if (cs->status != BELL_OK) {
        bell_error_set(&cs->error);
        bell_error_frame(__func__);
    }
    return cs->status;
}

void
hcq_cs_discard(struct hcq_cs *cs)
{
    if (cs && !cs->stream)
        cs->open = false;
}

void
hcq_cs_tell(const struct hcq_cs *cs, hcq_command_fn *tell, void *user)
{
    char line[512];
    uint32_t pos, i;

    for (pos = 0; pos < cs->n_dw;
         pos += hcq_packet_at(cs->words, pos)->head.n_dw) {
        const struct hcq_packet *packet = hcq_packet_at(cs->words, pos);
        const struct hcq_exec *exec = hcq_exec_of(packet);
        struct hcq_command command = {.offset_bytes = pos * 4, .text = line};
        bool is_exec = packet->head.op == HCQ_OP_EXEC;
        size_t used;

        assert(hcq_packet_ok(packet, cs->n_dw - pos));
        hcq_packet_text(packet, is_exec ? exec->prog->pub.name : "", line,
                        sizeof(line));
        used = strlen(line);
        for (i = 0; is_exec && i < hcq_exec_args(exec); i++) {
            snprintf(line + used, sizeof(line) - used, "%s 0x%llx",
                     i == 0 ? ":" : "", (unsigned long long)exec->args[i]);
            used += strlen(line + used);
        }
        if (packet->head.op == HCQ_OP_WORDS)
            command.words = hcq_packet_words(packet, &command.n_words);
        tell(user, &command);
    }
}

static void
log_command(void *user, const struct hcq_command *command)
{
    log_print(LOG_PUSH, "%s +%04x %s", (const char *)user,
              command->offset_bytes, command->text);
}

/* What waits look at before the submission is under way. */
static void
expect_submission(struct hcq_queue *queue, uint64_t expect_ns)
{
    uint64_t longest =
        atomic_load_explicit(&queue->expect_ns, memory_order_relaxed);

    if (hcq_signal_value(queue->timeline) >= queue->n_submitted ||
        expect_ns > longest)
        atomic_store_explicit(&queue->expect_ns, expect_ns,
                              memory_order_relaxed);
}

static inline __attribute__((always_inline)) bell_status
submit_cs(struct hcq_cs *cs, bool is_part, uint64_t *out_value)
{
    struct hcq_queue *queue = cs->queue;
    const struct hcq_device_ops *ops = queue->dev->ops;
    uint64_t value = queue->n_submitted + 1;

    assert(!cs->open);
    if (!is_part)
        BELL_TRY(check_usable(queue->dev));
    if (__builtin_expect(queue->dev->is_told, 0))
        BELL_TRY(hcq_tell_launches(cs));
    if (LOG_ON(LOG_PUSH))
        hcq_cs_tell(cs, log_command, (void *)(uintptr_t)cs_name(cs));
    if (__builtin_expect(
            cs->expect_ns |
                atomic_load_explicit(&queue->expect_ns, memory_order_relaxed),
            0))
        expect_submission(queue, cs->expect_ns);
    if (cs->stream)
        BELL_TRY(ops->stream_submit(cs->stream, value));
    else
        BELL_TRY(ops->queue_submit(queue, value));
    queue->n_submitted = value;
    if (cs->stream)
        cs->stream->last_value = value;
    if (out_value)
        *out_value = value;
    if (!is_part && LOG_ON(LOG_SYNC))
        BELL_TRY(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING));
    return BELL_OK;
}

bell_status
hcq_cs_submit(struct hcq_cs *cs, uint64_t *out_value)
{
    if (!cs)
        return bell_fail(BELL_BAD_MISSING, "submit: the stream is NULL");
    if (cs->stream)
        return bell_fail(BELL_BAD_STATE,
                         "stream '%s' is bound: hcq_stream_submit is for it",
                         cs->stream->name);
    if (!cs->open)
        return bell_fail(BELL_BAD_STATE, "%s: submit without a begin",
                         cs->queue->name);
    cs->open = false;
    BELL_TRY(hcq_cs_end(cs));
    BELL_TRY(submit_cs(cs, false, out_value));
    return BELL_OK;
}

bell_status
hcq_stream_submit(struct hcq_stream *stream, uint64_t *out_value)
{
    if (!stream)
        return bell_fail(BELL_BAD_MISSING, "submit: the stream is NULL");
    if (stream->state != HCQ_STREAM_READY)
        return bell_fail(BELL_BAD_STATE,
                         "stream '%s' cannot be submitted: it %s", stream->name,
                         stream->state == HCQ_STREAM_BUILDING
                             ? "has not been ended"
                             : "failed to build");
    BELL_TRY(submit_cs(&stream->cs, false, out_value));
    return BELL_OK;
}

bell_status
hcq_stream_submit_part(struct hcq_stream *stream, uint64_t *out_value)
{
    assert(stream->state == HCQ_STREAM_READY);
    BELL_TRY(submit_cs(&stream->cs, true, out_value));
    return BELL_OK;
}
