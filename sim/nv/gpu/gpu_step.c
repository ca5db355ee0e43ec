/* What a simulated card of NVIDIA's shows to who steps through it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/sim_step.h"
#include "sim/nv/gpu/gpu_internal.h"

/* A host method. src: open-gpu-doc, clc56f.h, clc86f.h */
#define SEM_ADDR_LO 0x5c
/* Usual subchannels of the classes. src: docs/hardware/nvidia-queues.md,
 * "Pushbuffers" */
#define COMPUTE_SLOT 1
#define COPY_SLOT    4

bool
nvgpu_peek(struct nvgpu_chan *chan, uint64_t va, void *out, uint64_t bytes)
{
    uint8_t *to = out;

    assert(out);
    while (bytes > 0) {
        uint64_t n;
        const void *from = nvgpu_span(chan, va, false, &n);

        if (!from)
            return false;
        n = n < bytes ? n : bytes;
        memcpy(to, from, n);
        to += n;
        va += n;
        bytes -= n;
    }
    return true;
}

static bool
read_memory(const struct sim_place *place, uint64_t va, void *out,
            uint32_t n_bytes)
{
    return nvgpu_peek(place->user, va, out, n_bytes);
}

/* Register `skip` of those of a table that are not 0. */
static bool
find_in(const uint32_t *state, uint32_t n, uint32_t slot, uint32_t *skip,
        struct sim_register *out)
{
    uint32_t i;

    assert(state);
    for (i = 0; i < n; i++) {
        if (state[i] == 0 || (*skip)-- > 0)
            continue;
        out->number = i * 4;
        out->slot = slot;
        out->values[0] = state[i];
        return true;
    }
    return false;
}

/* The host's semaphore, then the methods of the classes, as they were set. */
static bool
find_register(const struct sim_place *place, uint32_t index,
              struct sim_register *out)
{
    const struct nvgpu_chan *chan = place->user;
    const uint32_t host[] = {chan->sem_addr[0], chan->sem_addr[1],
                             chan->sem_payload[0], chan->sem_payload[1]};

    assert(index < UINT32_MAX);
    *out = (struct sim_register){.n_bits = 32, .n_lanes = 1, .defined = 1};
    if (index < ARRAY_LEN(host)) {
        out->number = SEM_ADDR_LO + 4 * index;
        out->values[0] = host[index];
        return true;
    }
    index -= (uint32_t)ARRAY_LEN(host);
    return find_in(chan->compute, NVGPU_N_STATE, COMPUTE_SLOT, &index, out) ||
           find_in(chan->copy, NVGPU_N_STATE, COPY_SLOT, &index, out);
}

static void
tell(struct nvgpu_chan *chan, struct sim_place *place)
{
    char queue[32];

    snprintf(queue, sizeof(queue), "channel 0x%x", chan->token);
    place->queue = queue;
    place->read = read_memory;
    place->find_register = find_register;
    place->user = chan;
    sim_step_tell(place);
}

void
nvgpu_step_entry(struct nvgpu_chan *chan, uint64_t entry)
{
    const uint32_t words[] = {(uint32_t)entry, (uint32_t)(entry >> 32)};
    struct sim_place place = {.kind = SIM_STOP_SUBMIT,
                              .va = chan->at.va,
                              .format = SIM_WORDS_NV_RING,
                              .words = words,
                              .n_words = 2,
                              .n_all = 2};

    if (sim_step_wants(SIM_STOP_SUBMIT))
        tell(chan, &place);
}

void
nvgpu_step_packet(struct nvgpu_chan *chan, uint64_t n_dw)
{
    uint32_t words[SIM_STEP_DW];
    struct sim_place place = {.kind = SIM_STOP_PACKET,
                              .va = chan->at.va,
                              .format = SIM_WORDS_NV_PUSH,
                              .words = words,
                              .n_all = (uint32_t)n_dw};

    if (!sim_step_wants(SIM_STOP_PACKET))
        return;
    place.n_words = n_dw < SIM_STEP_DW ? (uint32_t)n_dw : SIM_STEP_DW;
    if (nvgpu_peek(chan, chan->at.va, words, 4ull * place.n_words))
        tell(chan, &place);
}

void
nvgpu_step_kernel(struct nvgpu_chan *chan, const struct nvgpu_launch *launch,
                  const char *name)
{
    struct sim_place place = {
        .kind = SIM_STOP_KERNEL, .va = launch->program_va, .kernel = name};
    uint32_t i;

    if (!sim_step_wants(SIM_STOP_KERNEL))
        return;
    memcpy(place.grid, launch->grid, sizeof(place.grid));
    memcpy(place.local, launch->block, sizeof(place.local));
    for (i = 0; i < ARRAY_LEN(launch->releases); i++) {
        if (launch->releases[i].enable)
            place.signals[place.n_signals++] = launch->releases[i].va;
    }
    tell(chan, &place);
}
