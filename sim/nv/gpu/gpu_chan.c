/* Channels: their life, their threads, rings and pushbuffers.
 * src: docs/hardware/nvidia-queues.md, "Control words and entries",
 * "Pushbuffers"; open-gpu-doc, clc56f.h and clc86f.h. */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"

#define USERD_GP_GET (0x88 / 4)
#define USERD_GP_PUT (0x8c / 4)

#define VA_40       (((uint64_t)1 << 40) - 1)
#define MAX_CHANNEL 0xfff /* of a token's bits 11:0 */

/* ---- faults ---- */

/* src: docs/hardware/nvidia-queues.md, "Errors" */
static void
notify(const struct nvgpu_chan *chan, uint32_t code)
{
    _Atomic uint32_t *n = chan->desc.notifier;
    uint64_t now = nvgpu_time_ns(chan->gpu);

    if (!n)
        return;
    atomic_store(&n[0], (uint32_t)now);
    atomic_store(&n[1], (uint32_t)(now >> 32));
    atomic_store(&n[2], code);
    atomic_store(&n[3], 0xffff0000u);
}

/* True if this is what ended it. */
static bool
end_channel(struct nvgpu_chan *chan, const struct nvgpu_fault *fault)
{
    bool first;

    assert(fault->code != 0);
    pthread_mutex_lock(&chan->lock);
    first = chan->fault.code == 0;
    if (first) {
        chan->fault = *fault;
        notify(chan, fault->code);
    }
    pthread_mutex_unlock(&chan->lock);
    atomic_store(&chan->stop, 1);
    if (first && LOG_ON(LOG_PUSH | LOG_FAULT))
        log_print(LOG_FAULT, "channel 0x%x ends, code %u: %s", chan->token,
                  fault->code, fault->text);
    return first;
}

void
nvgpu_chan_end(struct nvgpu_chan *chan, const struct nvgpu_fault *fault)
{
    assert(fault->code);
    if (end_channel(chan, fault))
        chan->is_told = false;
}

bool
nvgpu_fail(struct nvgpu_chan *chan, uint32_t code, const char *fmt, ...)
{
    struct nvgpu_fault fault = {.code = code, .va = chan->at.va};
    va_list args;
    int n;

    assert(code != 0);
    n = snprintf(
        fault.text, sizeof(fault.text),
        "entry %u, word at 0x%llx, method 0x%x = 0x%x: ", chan->at.entry,
        (unsigned long long)chan->at.va, chan->at.method, chan->at.data);
    va_start(args, fmt);
    vsnprintf(fault.text + n, sizeof(fault.text) - (size_t)n, fmt, args);
    va_end(args);
    nvgpu_chan_end(chan, &fault);
    return false;
}

bool
nvgpu_fail_mmu(struct nvgpu_chan *chan, uint64_t va, enum nvgpu_access access,
               const char *who)
{
    static const char *const names[] = {"read", "write", "atomic"};
    struct nvgpu_fault fault = {
        .code = NVGPU_CODE_MMU, .va = va, .access = (uint32_t)access};
    uint64_t n;

    (void)nvgpu_span(chan, va, false, &n);
    snprintf(fault.text, sizeof(fault.text),
             "MMU fault: %s at 0x%llx by %s: %s (entry %u, word at 0x%llx, "
             "method 0x%x = 0x%x)",
             names[access], (unsigned long long)va, who,
             n ? "the page is read-only" : "nothing is mapped there",
             chan->at.entry, (unsigned long long)chan->at.va, chan->at.method,
             chan->at.data);
    nvgpu_chan_end(chan, &fault);
    return false;
}

bool
nvgpu_chan_fault(const struct nvgpu_chan *chan, struct nvgpu_fault *out_fault)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&chan->lock;
    bool any;

    pthread_mutex_lock(lock);
    any = chan->fault.code != 0;
    if (any)
        *out_fault = chan->fault;
    pthread_mutex_unlock(lock);
    return any;
}

void
nvgpu_chan_kill(struct nvgpu_chan *chan, uint32_t code)
{
    struct nvgpu_fault fault = {.code = code};

    assert(code);
    snprintf(fault.text, sizeof(fault.text),
             "ended by the kernel driver, code %u", code);
    (void)end_channel(chan, &fault);
}

/* ---- pushbuffers ---- */

static bool
do_method(struct nvgpu_chan *chan, uint32_t subch, uint32_t method,
          uint32_t data)
{
    const struct nvgpu_chip *chip = chan->gpu->chip;
    uint32_t bound = chan->subch[subch];

    assert(subch < 8 && method % 4 == 0);
    chan->at.method = method;
    chan->at.data = data;
    (void)sim_walk_pause(&chan->walk);
    if (nvgpu_stopped(chan))
        return false;
    if (method < 0x100)
        return nvgpu_host_method(chan, subch, method, data);
    if (bound == chip->compute_class)
        return nvgpu_compute_method(chan, method, data);
    if (bound == chip->copy_class)
        return nvgpu_copy_method(chan, method, data);
    return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                      "no class is bound to subchannel %u", subch);
}

/* The methods after a header, `left` words of the segment remain. */
static bool
do_data(struct nvgpu_chan *chan, uint32_t header, uint64_t left)
{
    uint32_t op = header >> 29, count = header >> 16 & 0x1fff, i;
    uint32_t subch = header >> 13 & 7, method = (header & 0xfff) * 4;

    if (count > left)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "header 0x%08x wants %u words, the segment has %llu "
                          "more",
                          header, count, (unsigned long long)left);
    for (i = 0; i < count; i++) {
        uint32_t data;
        chan->at.va += 4;
        if (!nvgpu_read(chan, chan->at.va, &data, 4, "pushbuffer fetch") ||
            !do_method(chan, subch, method, data))
            return false;
        if (op == 1 || (op == 5 && i == 0))
            method += 4;
    }
    return true;
}

/* One header and its data; *out_dw: words that they took, 0: the segment
 * ends here. */
static bool
do_header(struct nvgpu_chan *chan, uint64_t left, uint64_t *out_dw)
{
    uint32_t header, op;

    assert(left > 0);
    if (!nvgpu_read(chan, chan->at.va, &header, 4, "pushbuffer fetch"))
        return false;
    chan->at.method = 0;
    chan->at.data = header;
    op = header >> 29;
    nvgpu_step_packet(chan,
                      op == 4 || op == 7 || (header >> 16 & 0x1fff) >= left
                          ? 1
                          : 1 + (header >> 16 & 0x1fff));
    *out_dw = 1;
    if (op == 7) {
        *out_dw = 0;
        return true;
    }
    if (header == 0) /* DMA_NOP */
        return true;
    if (op == 0 || op == 2 || op == 6 || (header & 1u << 12))
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "0x%08x is not a header of this class", header);
    if (op == 4)
        return do_method(chan, header >> 13 & 7, (header & 0xfff) * 4,
                         header >> 16 & 0x1fff);
    *out_dw += header >> 16 & 0x1fff;
    return do_data(chan, header, left - 1);
}

static bool
do_segment(struct nvgpu_chan *chan, uint64_t va, uint64_t n_dw)
{
    uint64_t i = 0, n;

    assert(va % 4 == 0);
    while (i < n_dw) {
        chan->at.va = va + i * 4;
        if (!do_header(chan, n_dw - i, &n))
            return false;
        if (n == 0)
            return true;
        i += n;
    }
    return true;
}

/* ---- ring entries ---- */

/* An entry of length 0. */
static bool
do_control_entry(struct nvgpu_chan *chan, uint32_t dw0, uint32_t dw1)
{
    uint32_t op = dw1 & 0xff;

    if (dw1 >> 8)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "control entry 0x%08x%08x: reserved bits", dw1, dw0);
    if (op == 0)
        return true;
    if (op != 4 || !chan->has_extended_base)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "control entry 0x%08x%08x: class 0x%x has no "
                          "operation %u",
                          dw1, dw0, chan->desc.gpfifo_class, op);
    if (dw0 & ~0x1ffff00u)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "extended base 0x%08x: reserved bits", dw0);
    chan->extended_base = (uint64_t)(dw0 >> 8) << 40;
    return true;
}

static bool
do_entry(struct nvgpu_chan *chan, uint64_t entry)
{
    uint32_t dw0 = (uint32_t)entry, dw1 = (uint32_t)(entry >> 32);
    uint64_t va = (entry & VA_40 & ~(uint64_t)3) | chan->extended_base;
    uint64_t n_dw = dw1 >> 10 & 0x1fffff;

    chan->at.method = 0;
    chan->at.data = dw0;
    LOG(LOG_PUSH, "channel 0x%x: entry 0x%016llx: %llu words at 0x%llx",
        chan->token, (unsigned long long)entry, (unsigned long long)n_dw,
        (unsigned long long)va);
    if (n_dw == 0)
        return do_control_entry(chan, dw0, dw1);
    /* bit 9 is LEVEL, bit 31 SYNC: both make no difference to who does one
     * thing after the other */
    if ((dw0 & 3) || (dw1 & 1u << 8))
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "ring entry 0x%016llx: conditional or reserved bits",
                          (unsigned long long)entry);
    return do_segment(chan, va, n_dw);
}

/* The entry at `get`; then all that was listed, if it was the last. */
static void
next_entry(struct nvgpu_chan *chan, uint32_t put)
{
    _Atomic uint32_t *userd = chan->desc.userd;
    uint64_t entry;
    uint32_t at = chan->get;

    chan->at.entry = at;
    sim_walk_enter(&chan->walk);
    chan->at.va = chan->desc.gpfifo_va + (uint64_t)at * 8;
    chan->get = (at + 1) & (chan->desc.n_entries - 1);
    chan->at.method = chan->at.data = 0;
    if (put >= chan->desc.n_entries) {
        (void)nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                         "GPPut %u, but the ring has %u entries", put,
                         chan->desc.n_entries);
    } else if (nvgpu_read(chan, chan->at.va, &entry, 8, "ring fetch")) {
        atomic_store_explicit(&userd[USERD_GP_GET], chan->get,
                              memory_order_release);
        nvgpu_step_entry(chan, entry);
        if (do_entry(chan, entry) && chan->get == put)
            (void)nvgpu_drain(chan);
    }
    sim_walk_leave(&chan->walk);
    if (!chan->is_told && chan->desc.on_fault)
        chan->desc.on_fault(chan->desc.user);
    chan->is_told = true;
}

/* ---- the thread ---- */

static bool
has_work(const struct nvgpu_chan *chan)
{
    return chan->enabled && chan->fault.code == 0 && chan->put != chan->get;
}

static void *
run_channel(void *arg)
{
    struct nvgpu_chan *chan = arg;

    host_fail_spare_thread();
    pthread_mutex_lock(&chan->lock);
    while (!chan->quit) {
        uint32_t put = chan->put;
        if (!has_work(chan)) {
            pthread_cond_wait(&chan->wake, &chan->lock);
            continue;
        }
        pthread_mutex_unlock(&chan->lock);
        next_entry(chan, put);
        pthread_mutex_lock(&chan->lock);
    }
    pthread_mutex_unlock(&chan->lock);
    return NULL;
}

/* Whether this ring was faster than what was stored before it: one of four,
 * the same ones in every run. */
static bool
overtakes(struct nvgpu_chan *chan)
{
    nvgpu_bar_arm(&chan->posted);
    if (!atomic_exchange(&chan->posted.is_pending, 0))
        return false;
    chan->dice = chan->dice * 1664525u + 1013904223u;
    return chan->dice >> 30 == 0;
}

void
nvgpu_chan_rung(struct nvgpu_chan *chan, bool is_bar0)
{
    _Atomic uint32_t *userd = chan->desc.userd;
    uint32_t put;

    assert(chan->desc.userd);
    pthread_mutex_lock(&chan->lock);
    if (chan->enabled && chan->fault.code == 0) {
        put = atomic_load_explicit(&userd[USERD_GP_PUT], memory_order_acquire);
        chan->put = put;
        if (is_bar0 && chan->gpu->chip->bar0_overtakes && overtakes(chan)) {
            chan->put = chan->settled_put;
            LOG(LOG_PUSH,
                "channel 0x%x: a ring in BAR0 shows GPPut %u, not %u: it was "
                "not read back before",
                chan->token, chan->put, put);
        }
        chan->settled_put = put;
        pthread_cond_signal(&chan->wake);
    }
    pthread_mutex_unlock(&chan->lock);
}

void
nvgpu_chan_mapped(struct nvgpu_chan *chan, void *userd)
{
    if (chan->gpu->chip->bar0_overtakes)
        nvgpu_bar_add(&chan->posted, userd);
}

void
nvgpu_chan_enable(struct nvgpu_chan *chan, bool enable)
{
    pthread_mutex_lock(&chan->lock);
    chan->enabled = enable;
    pthread_cond_signal(&chan->wake);
    pthread_mutex_unlock(&chan->lock);
}

/* ---- life ---- */

static bell_status
check_chan_desc(const struct nvgpu *gpu, const struct nvgpu_chan_desc *d)
{
    const struct nvgpu_chip *chip = gpu->chip;

    if ((d->gpfifo_class & 0xff) != 0x6f ||
        !nvgpu_has_class(chip, d->gpfifo_class))
        return bell_fail(BELL_E_INVALID, "%s has no channel class 0x%x",
                         chip->board, d->gpfifo_class);
    if (d->engine == NVGPU_ENGINE_CE && d->engine_index >= chip->n_copy_engines)
        return bell_fail(BELL_E_INVALID, "%s has no copy engine %u",
                         chip->board, d->engine_index);
    if (!is_pow2(d->n_entries) || d->n_entries < 2 || (d->gpfifo_va & 7))
        return bell_fail(BELL_E_INVALID, "ring of %u entries at 0x%llx",
                         d->n_entries, (unsigned long long)d->gpfifo_va);
    if (!d->space || !d->userd)
        return bell_fail(BELL_E_INVALID, "channel without space or USERD");
    return BELL_OK;
}

/* src: docs/hardware/nvidia-kernel.md, "Bring-up", step 18. Engines that share
 * GR's runlist have its number. */
static uint32_t
make_token(struct nvgpu *gpu, const struct nvgpu_chan_desc *d)
{
    uint32_t runlist = 0;

    if (d->engine == NVGPU_ENGINE_CE && gpu->chip->copy_engines)
        runlist = gpu->chip->copy_engines[d->engine_index].runlist;
    else if (d->engine == NVGPU_ENGINE_CE &&
             !(gpu->chip->grce_mask >> d->engine_index & 1))
        runlist = d->engine_index + 1;
    return runlist << 16 | gpu->next_channel_id;
}

/* Ids are used again once all were, so that a token of a channel that is gone
 * is found out; the real driver gives the lowest that is free. */
static uint32_t
after(uint32_t id)
{
    return id < MAX_CHANNEL ? id + 1 : NVGPU_FIRST_CHANNEL;
}

static bool
is_id_free(const struct nvgpu *gpu, uint32_t id)
{
    size_t i;

    for (i = 0; i < gpu->n_chans; i++) {
        if ((gpu->chans[i]->token & MAX_CHANNEL) == id)
            return false;
    }
    return true;
}

void
nvgpu_skip_channels(struct nvgpu *gpu, uint32_t n)
{
    pthread_mutex_lock(&gpu->lock);
    for (; n > 0; n--)
        gpu->next_channel_id = after(gpu->next_channel_id);
    pthread_mutex_unlock(&gpu->lock);
}

static bell_status
add_channel(struct nvgpu *gpu, struct nvgpu_chan *chan)
{
    bell_status status = BELL_OK;
    uint32_t tries;

    pthread_mutex_lock(&gpu->lock);
    for (tries = 0; tries <= MAX_CHANNEL; tries++) {
        if (is_id_free(gpu, gpu->next_channel_id))
            break;
        gpu->next_channel_id = after(gpu->next_channel_id);
    }
    if (tries > MAX_CHANNEL ||
        host_grow((void **)&gpu->chans, &gpu->cap_chans, gpu->n_chans + 1,
                  sizeof(*gpu->chans))) {
        status =
            bell_fail(BELL_E_NO_MEMORY,
                      "one more channel than %zu: out of memory", gpu->n_chans);
    } else {
        chan->token = make_token(gpu, &chan->desc);
        gpu->next_channel_id = after(gpu->next_channel_id);
        gpu->chans[gpu->n_chans++] = chan;
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

static bell_status
start_thread(struct nvgpu_chan *chan)
{
    int error = pthread_mutex_init(&chan->lock, NULL);

    if (error)
        goto fail;
    error = pthread_cond_init(&chan->wake, NULL);
    if (error)
        goto fail_lock;
    error = pthread_create(&chan->thread, NULL, run_channel, chan);
    if (!error)
        return BELL_OK;
    pthread_cond_destroy(&chan->wake);
fail_lock:
    pthread_mutex_destroy(&chan->lock);
fail:
    return thread_fail("channel", error);
}

bell_status
nvgpu_chan_create(struct nvgpu *gpu, const struct nvgpu_chan_desc *d,
                  struct nvgpu_chan **out_chan)
{
    struct nvgpu_chan *chan;
    bell_status status;

    BELL_TRY(check_chan_desc(gpu, d));
    chan = host_calloc(1, sizeof(*chan));
    if (!chan)
        return bell_fail(BELL_E_NO_MEMORY, "channel: out of memory");
    chan->gpu = gpu;
    chan->desc = *d;
    chan->has_extended_base = d->gpfifo_class >= 0xc86f;
    chan->n_bits_va = chan->has_extended_base ? 57 : 40;
    chan->is_told = true;
    sim_walk_init(&chan->walk, d->space->pages);
    status = start_thread(chan);
    if (status != BELL_OK) {
        host_free(chan);
        return status;
    }
    status = add_channel(gpu, chan);
    if (status != BELL_OK) {
        nvgpu_chan_destroy(chan);
        return status;
    }
    *out_chan = chan;
    return BELL_OK;
}

static void
remove_channel(struct nvgpu *gpu, const struct nvgpu_chan *chan)
{
    size_t i;

    pthread_mutex_lock(&gpu->lock);
    for (i = 0; i < gpu->n_chans; i++) {
        if (gpu->chans[i] == chan)
            gpu->chans[i] = gpu->chans[--gpu->n_chans];
    }
    pthread_mutex_unlock(&gpu->lock);
}

void
nvgpu_chan_destroy(struct nvgpu_chan *chan)
{
    if (!chan)
        return;
    remove_channel(chan->gpu, chan);
    nvgpu_bar_forget(&chan->posted);
    atomic_store(&chan->stop, 1);
    pthread_mutex_lock(&chan->lock);
    chan->quit = true;
    pthread_cond_signal(&chan->wake);
    pthread_mutex_unlock(&chan->lock);
    pthread_join(chan->thread, NULL);
    pthread_cond_destroy(&chan->wake);
    pthread_mutex_destroy(&chan->lock);
    host_free(chan->cached);
    host_free(chan);
}

void
nvgpu_chan_add_object(struct nvgpu_chan *chan, uint32_t nv_class)
{
    pthread_mutex_lock(&chan->lock);
    if (chan->n_objects < ARRAY_LEN(chan->objects))
        chan->objects[chan->n_objects++] = nv_class;
    pthread_mutex_unlock(&chan->lock);
}

uint32_t
nvgpu_chan_token(const struct nvgpu_chan *chan)
{
    return chan->token;
}
