/* Large reads of the card's memory: a copy engine brings them into host memory,
 * piece by piece, and the CPU takes them from there while the next piece comes.
 * Through the card's window the CPU would read uncached memory behind a bus.
 * Where no window shows the memory (no resizable BAR), all reads and writes.
 *
 * The queue is the device's own and is made with the first such read. Without
 * one, after a fault, or where the engine does not answer, the window serves,
 * if there is one.
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"

#define RING_BYTES  4096u
#define PIECE_BYTES (256u << 10)
#define N_PIECES    2u

/* Longer than any engine needs for two pieces. */
#define PATIENCE_NS 2000000000ull
/* How often faults are looked for. */
#define LOOK_NS 1000000ull

static bell_status
open_reader(struct amd_device *dev, struct amd_reader *reader)
{
    if (!reader->staging.va)
        BELL_TRY(amd_mem_alloc(dev, N_PIECES * PIECE_BYTES, AMD_MEM_GTT,
                               &reader->staging));
    if (!reader->signal)
        BELL_TRY(hcq_signal_create(&dev->base, 0, &reader->signal));
    if (!reader->channel.dev) {
        BELL_TRY(
            amd_channel_init(dev, AMD_RING_SDMA, RING_BYTES, &reader->channel));
        reader->slot = 0;
    }
    return BELL_OK;
}

static void
submit_piece(struct amd_device *dev, struct amd_reader *reader, uint64_t to,
             uint64_t from, uint64_t n_bytes)
{
    uint32_t words[AMD_BEGIN_DW + AMD_FINISH_DW + 16];
    struct hcq_packet copy = {{.op = HCQ_OP_COPY}, {to, from, n_bytes}};
    struct amd_engine engine;
    struct amd_push push = {
        .engine = &engine,
        .at = words,
        .piece = words,
        .slots = reader->channel.ring,
        .slot = reader->slot,
        .slot_mask = RING_BYTES / 4 - 1,
    };

    assert(n_bytes > 0 && n_bytes <= PIECE_BYTES);
    amd_engine_init(&engine, dev, AMD_RING_SDMA);
    amd_push_begin(&push);
    amd_push_packet(&push, &copy);
    amd_push_finish(&push, reader->signal->va, ++reader->value);
    assert(push.at - words <= (int64_t)ARRAY_LEN(words));
    reader->slot = push.slot;
    reader->channel.put = reader->slot * 4;
    amd_channel_ring(&reader->channel);
}

/* False: the engine does not come to it. */
static bool
wait_for(struct amd_device *dev, const struct amd_reader *reader,
         uint64_t value)
{
    uint64_t start_ns = time_now_ns(), spun_ns = 0, look_ns = LOOK_NS;
    /* without a window there is nothing to be impatient for */
    uint64_t patience_ns =
        dev->topology.large_bar ? PATIENCE_NS : HCQ_TIMEOUT_NS;

    assert(value <= reader->value);
    while (hcq_signal_value(reader->signal) < value) {
        hcq_spin(spun_ns);
        spun_ns = time_now_ns() - start_ns;
        if (spun_ns < look_ns)
            continue;
        look_ns = spun_ns + LOOK_NS;
        amd_check_faults(dev);
        if (hcq_device_is_lost(&dev->base) || spun_ns > patience_ns)
            return false;
    }
    return true;
}

/* How many bytes came. */
static uint64_t
read_pieces(struct amd_device *dev, struct amd_reader *reader, uint64_t va,
            uint8_t *data, uint64_t size_bytes)
{
    uint64_t n = (size_bytes + PIECE_BYTES - 1) / PIECE_BYTES, i;
    uint64_t before = reader->value;

    assert(!reader->is_off);
    for (i = 0; i <= n; i++) {
        uint64_t at = i * PIECE_BYTES, left = size_bytes - at;

        if (i < n) /* the piece that lay there has been taken */
            submit_piece(dev, reader,
                         reader->staging.va + i % N_PIECES * PIECE_BYTES,
                         va + at, left < PIECE_BYTES ? left : PIECE_BYTES);
        if (i == 0)
            continue;
        at -= PIECE_BYTES;
        left = size_bytes - at;
        if (!wait_for(dev, reader, before + i)) {
            reader->is_off = true; /* what is under way may still come */
            LOG(LOG_MEM, "%s: the copy engine does not answer",
                dev->base.info.name);
            return at;
        }
        memcpy(data + at,
               (uint8_t *)reader->staging.cpu +
                   (i - 1) % N_PIECES * PIECE_BYTES,
               left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    return size_bytes;
}

/* The same the other way: how many bytes went. */
static uint64_t
write_pieces(struct amd_device *dev, struct amd_reader *reader, uint64_t va,
             const uint8_t *data, uint64_t size_bytes)
{
    uint64_t n = (size_bytes + PIECE_BYTES - 1) / PIECE_BYTES, i;
    uint64_t before = reader->value;

    assert(!reader->is_off);
    for (i = 0; i < n + N_PIECES; i++) {
        uint64_t at = i * PIECE_BYTES, left = size_bytes - at;
        uint64_t n_bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
        uint64_t offset = i % N_PIECES * PIECE_BYTES;

        /* the piece that lay there has gone */
        if (i >= N_PIECES && i - N_PIECES < n &&
            !wait_for(dev, reader, before + i - N_PIECES + 1)) {
            reader->is_off = true;
            return (i - N_PIECES) * PIECE_BYTES;
        }
        if (i >= n)
            continue;
        memcpy((uint8_t *)reader->staging.cpu + offset, data + at, n_bytes);
        submit_piece(dev, reader, va + at, reader->staging.va + offset,
                     n_bytes);
    }
    return size_bytes;
}

/* One of both, where there is no other way. */
static bell_status
stage(struct amd_device *dev, uint64_t va, void *to, const void *from,
      uint64_t size_bytes)
{
    struct amd_reader *reader = &dev->control->reader;
    uint64_t done = 0;
    bell_status status;

    pthread_mutex_lock(&reader->lock);
    status = hcq_device_is_lost(&dev->base) ? hcq_lost_report(&dev->base)
                                            : open_reader(dev, reader);
    if (status == BELL_OK && !reader->is_off)
        done = to ? read_pieces(dev, reader, va, to, size_bytes)
                  : write_pieces(dev, reader, va, from, size_bytes);
    if (status == BELL_OK && done < size_bytes)
        status = hcq_device_is_lost(&dev->base)
                     ? hcq_lost_report(&dev->base)
                     : bell_fail(BELL_E_TIMEOUT,
                                 "%s: the copy engine does not answer, and "
                                 "there is no resizable BAR",
                                 dev->base.info.name);
    pthread_mutex_unlock(&reader->lock);
    return status;
}

bell_status
amd_fetch_by_engine(struct amd_device *dev, uint64_t va, void *data,
                    uint64_t size_bytes)
{
    return stage(dev, va, data, NULL, size_bytes);
}

bell_status
amd_write_by_engine(struct amd_device *dev, uint64_t va, const void *data,
                    uint64_t size_bytes)
{
    return stage(dev, va, NULL, data, size_bytes);
}

uint64_t
amd_read_by_engine(struct amd_device *dev, uint64_t va, void *data,
                   uint64_t size_bytes)
{
    struct amd_reader *reader = &dev->control->reader;
    struct bell_error_hold hold;
    uint64_t done = 0;

    pthread_mutex_lock(&reader->lock);
    if (!reader->is_off && !hcq_device_is_lost(&dev->base)) {
        bell_error_hold(&hold);
        if (open_reader(dev, reader) == BELL_OK) {
            done = read_pieces(dev, reader, va, data, size_bytes);
        } else {
            reader->is_off = true;
            LOG(LOG_MEM, "reads through the window: %s",
                bell_error_last()->message);
        }
        bell_error_release(&hold);
    }
    pthread_mutex_unlock(&reader->lock);
    return done;
}

void
amd_read_stop(struct amd_device *dev)
{
    struct amd_reader *reader = &dev->control->reader;

    pthread_mutex_lock(&reader->lock);
    amd_channel_fini(&reader->channel);
    if (reader->signal)
        hcq_signal_set(reader->signal, reader->value);
    reader->is_off = false;
    pthread_mutex_unlock(&reader->lock);
}

void
amd_read_close(struct amd_device *dev)
{
    struct amd_reader *reader = &dev->control->reader;

    amd_read_stop(dev);
    hcq_signal_destroy(reader->signal);
    amd_mem_free(dev, &reader->staging);
}
