/* What a simulated AMD card shows to who steps through it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ioctl/sim_step.h"
#include "sim/amd/gpu/gpu_internal.h"

bool
amdsim_peek(struct amdsim_queue *q, uint64_t va, void *out, uint64_t n_bytes)
{
    uint8_t *to = out;

    assert(out);
    while (n_bytes) {
        uint32_t flags;
        uint64_t n;
        const void *from = sim_walk_span(&q->walk, va, &n, &flags);

        if (!from)
            return false;
        n = n < n_bytes ? n : n_bytes;
        memcpy(to, from, n);
        to += n;
        va += n;
        n_bytes -= n;
    }
    return true;
}

static bool
read_memory(const struct sim_place *place, uint64_t va, void *out,
            uint32_t n_bytes)
{
    return amdsim_peek(place->user, va, out, n_bytes);
}

/* The registers of launches that are not 0, of the die whose turn it is. */
static bool
find_register(const struct sim_place *place, uint32_t index,
              struct sim_register *out)
{
    const struct amdsim_queue *q = place->user;
    uint32_t i;

    assert(q->xcc < AMDSIM_MAX_XCC);
    *out = (struct sim_register){.n_bits = 32, .n_lanes = 1, .defined = 1};
    for (i = 0; i < SH_COUNT; i++) {
        if (q->sh[q->xcc][i] == 0 || index-- > 0)
            continue;
        out->number = SH_FIRST + i;
        out->values[0] = q->sh[q->xcc][i];
        return true;
    }
    return false;
}

static void
tell(struct amdsim_queue *q, struct sim_place *place)
{
    static const char *const kinds[] = {"PM4", "AQL", "SDMA"};
    char queue[48];

    snprintf(queue, sizeof(queue), "%s queue at 0x%llx",
             kinds[q->desc.kind == AMDSIM_QUEUE_PM4   ? 0
                   : q->desc.kind == AMDSIM_QUEUE_AQL ? 1
                                                      : 2],
             (unsigned long long)q->desc.ring_va);
    place->queue = queue;
    place->read = read_memory;
    place->find_register = find_register;
    place->user = q;
    sim_step_tell(place);
}

void
amdsim_step_submit(struct amdsim_queue *q)
{
    struct sim_place place = {.kind = SIM_STOP_SUBMIT, .va = q->desc.ring_va};

    if (sim_step_wants(SIM_STOP_SUBMIT))
        tell(q, &place);
}

void
amdsim_step_packet(struct amdsim_queue *q, uint32_t format, uint32_t header,
                   const uint32_t *body, uint32_t n_dw)
{
    uint32_t words[SIM_STEP_DW], n = n_dw < SIM_STEP_DW ? n_dw : SIM_STEP_DW;
    struct sim_place place = {.kind = SIM_STOP_PACKET,
                              .va = q->place.va,
                              .format = (enum sim_words)format,
                              .words = words,
                              .n_words = n,
                              .n_all = n_dw};

    assert(n > 0);
    if (!sim_step_wants(SIM_STOP_PACKET))
        return;
    words[0] = header;
    memcpy(words + 1, body, 4 * (size_t)(n - 1));
    tell(q, &place);
}

void
amdsim_step_kernel(struct amdsim_queue *q, const struct amd_launch *launch)
{
    struct sim_place place = {.kind = SIM_STOP_KERNEL, .va = launch->pc};

    if (!sim_step_wants(SIM_STOP_KERNEL))
        return;
    memcpy(place.grid, launch->grid, sizeof(place.grid));
    memcpy(place.local, launch->local, sizeof(place.local));
    tell(q, &place);
}
