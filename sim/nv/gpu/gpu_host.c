/* Host methods: what the front of a channel does itself. src: open-gpu-doc,
 * clc56f.h, clc86f.h; docs/hardware/nvidia-queues.md, "Host methods". */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <time.h>

#include "base/thread.h"

enum {
    SET_OBJECT = 0x0,
    ILLEGAL = 0x4,
    NOP = 0x8,
    NON_STALL_INTERRUPT = 0x20,
    FB_FLUSH = 0x24,
    MEM_OP_A = 0x28,
    MEM_OP_B = 0x2c,
    MEM_OP_C = 0x30,
    MEM_OP_D = 0x34,
    SET_REFERENCE = 0x50,
    SEM_ADDR_LO = 0x5c,
    SEM_ADDR_HI = 0x60,
    SEM_PAYLOAD_LO = 0x64,
    SEM_PAYLOAD_HI = 0x68,
    SEM_EXECUTE = 0x6c,
    WFI = 0x78,
    YIELD = 0x80,
};

enum {
    OP_ACQUIRE,
    OP_RELEASE,
    OP_STRICT_GEQ,
    OP_CIRC_GEQ,
    OP_AND,
    OP_NOR,
    OP_REDUCTION
};

#define SWITCH_TSG   (1u << 12)
#define RELEASE_WFI  (1u << 20)
#define PAYLOAD_64   (1u << 24)
#define TIMESTAMP    (1u << 25)
#define REDUCTION_OP (0xfu << 27)
#define UNSIGNED     (1u << 31)

#define USERD_REFERENCE (0x48 / 4)

/* ---- binding classes ---- */

/* On a GR channel, subchannels 0 to 3 are the graphics engine's and 4 is its
 * partner copy engine's. src: docs/hardware/nvidia-queues.md, "Pushbuffers" */
static bool
check_subchannel(struct nvgpu_chan *chan, uint32_t subch, uint32_t class_nr)
{
    bool is_copy = class_nr == chan->gpu->chip->copy_class;

    if (chan->desc.engine == NVGPU_ENGINE_GR && is_copy != (subch == 4))
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "class 0x%x does not go to subchannel %u of a "
                          "graphics channel (copies: 4, compute: 0 to 3)",
                          class_nr, subch);
    if (!is_copy && subch > 3)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "class 0x%x does not go to subchannel %u", class_nr,
                          subch);
    return true;
}

static bool
set_object(struct nvgpu_chan *chan, uint32_t subch, uint32_t data)
{
    uint32_t class_nr = data & 0xffff, i;
    bool known = false;

    assert(subch < 8);
    if (data >> 16)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "SET_OBJECT with engine or reserved bits 0x%x",
                          data >> 16);
    pthread_mutex_lock(&chan->lock);
    for (i = 0; i < chan->n_objects; i++)
        known |= chan->objects[i] == class_nr;
    pthread_mutex_unlock(&chan->lock);
    if (!known)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "no object of class 0x%x was made on the channel",
                          class_nr);
    if (!check_subchannel(chan, subch, class_nr))
        return false;
    chan->subch[subch] = class_nr;
    return true;
}

/* ---- semaphores ---- */

static bool
is_met(uint32_t op, uint64_t have, uint64_t want, bool is_64)
{
    uint64_t mask = is_64 ? UINT64_MAX : UINT32_MAX;

    have &= mask;
    want &= mask;
    switch (op) {
    case OP_ACQUIRE:
        return have == want;
    case OP_STRICT_GEQ:
        return have >= want;
    case OP_CIRC_GEQ:
        return ((have - want) & mask) <= mask >> 1;
    case OP_AND:
        return (have & want) != 0;
    default:
        return (~(have | want) & mask) != 0;
    }
}

/* Waits until the word is what it should be or the channel is stopped. */
static bool
acquire_semaphore(struct nvgpu_chan *chan, uint64_t va, uint64_t want,
                  uint32_t execute)
{
    uint32_t op = execute & 7, n_bytes = execute & PAYLOAD_64 ? 8 : 4, n = 0;
    uint64_t have;

    if (!nvgpu_drain(chan))
        return false;
    while (!nvgpu_stopped(chan)) {
        struct timespec nap = {0, n < 400 ? 5000 : 50000};

        if (!nvgpu_load_word(chan, va, n_bytes, &have, "semaphore acquire"))
            return false;
        if (is_met(op, have, want, n_bytes == 8))
            return true;
        sim_walk_leave(&chan->walk);
        if (n++ < 100)
            thread_relax();
        else
            (void)nanosleep(&nap, NULL);
        sim_walk_enter(&chan->walk);
    }
    return false;
}

static bool
release_semaphore(struct nvgpu_chan *chan, uint64_t va, uint64_t payload,
                  uint32_t execute)
{
    struct nvgpu_sem sem = {
        .va = va,
        .payload = payload,
        .n_bytes = execute & PAYLOAD_64 ? 8 : 4,
        .timestamp = (execute & TIMESTAMP) != 0,
        .reduction = (execute & 7) == OP_REDUCTION,
        .is_signed = !(execute & UNSIGNED),
        .op = (enum nvgpu_reduction)((execute & REDUCTION_OP) >> 27),
    };

    if (sem.reduction && sem.op >= NVGPU_RED_COUNT)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA, "reduction %u",
                          (unsigned)sem.op);
    if ((execute & RELEASE_WFI) && !nvgpu_drain(chan))
        return false;
    return nvgpu_sem_write(chan, &sem, NVGPU_CODE_PBDMA,
                           sem.reduction ? "semaphore reduction"
                                         : "semaphore release");
}

/* Bits that mean something for the operation; 0: the class has no such one.
 * src: open-gpu-doc: from C86F on neither STRICT_GEQ, AND, NOR nor REDUCTION
 * (clc86f.h); C96F and CA6F do not list CIRC_GEQ either, but others wait by it
 * there (docs/hardware/nvidia-queues.md, "Host methods"). */
static uint32_t
execute_bits(const struct nvgpu_chan *chan, uint32_t op)
{
    if (chan->desc.gpfifo_class >= 0xc86f &&
        (op == OP_STRICT_GEQ || op == OP_AND || op == OP_NOR ||
         op == OP_REDUCTION))
        return 0;
    switch (op) {
    case OP_RELEASE:
        return 7u | RELEASE_WFI | PAYLOAD_64 | TIMESTAMP;
    case OP_REDUCTION:
        return 7u | RELEASE_WFI | PAYLOAD_64 | TIMESTAMP | REDUCTION_OP |
               UNSIGNED;
    case 7:
        return 0;
    default:
        return 7u | SWITCH_TSG | PAYLOAD_64;
    }
}

static bool
sem_execute(struct nvgpu_chan *chan, uint32_t data)
{
    uint32_t op = data & 7, n_bytes = data & PAYLOAD_64 ? 8 : 4;
    uint32_t bits = execute_bits(chan, op);
    uint64_t va = (uint64_t)chan->sem_addr[1] << 32 | chan->sem_addr[0];
    uint64_t payload =
        (uint64_t)chan->sem_payload[1] << 32 | chan->sem_payload[0];

    if (!bits)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "SEM_EXECUTE: class 0x%x has no operation %u",
                          chan->desc.gpfifo_class, op);
    if (data & ~bits)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "SEM_EXECUTE: operation %u has no bits 0x%x", op,
                          data & ~bits);
    if (op == OP_RELEASE || op == OP_REDUCTION)
        return release_semaphore(chan, va, payload, data);
    if (va & (n_bytes - 1))
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "acquire of %u bytes at 0x%llx: misaligned", n_bytes,
                          (unsigned long long)va);
    return acquire_semaphore(chan, va, payload, data);
}

/* ---- memory operations ---- */

/* src: docs/hardware/nvidia-queues.md, "Host methods". The others are for
 * privileged channels. */
static bool
mem_op(struct nvgpu_chan *chan, uint32_t data)
{
    uint32_t op = data >> 27;

    switch (op) {
    case 0x5: /* MEMBAR */
        if (chan->mem_op[2] > 1 || chan->mem_op[0] || chan->mem_op[1])
            return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                              "MEM_OP membar with words 0x%x 0x%x 0x%x",
                              chan->mem_op[0], chan->mem_op[1],
                              chan->mem_op[2]);
        break; /* here everything is done in order anyway */
    case 0xe:  /* L2_SYSMEM_INVALIDATE */
    case 0x10: /* L2_FLUSH_DIRTY */
        break;
    default:
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "MEM_OP operation 0x%x is privileged or unknown", op);
    }
    if (data & ((1u << 27) - 1))
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "MEM_OP operation 0x%x with bits 0x%x", op,
                          data & ((1u << 27) - 1));
    return true;
}

/* ---- */

static bool
latch(struct nvgpu_chan *chan, uint32_t *word, uint32_t data, uint32_t allowed)
{
    if (data & ~allowed)
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA, "bits 0x%x are reserved",
                          data & ~allowed);
    *word = data;
    return true;
}

static bool
set_reference(struct nvgpu_chan *chan, uint32_t data)
{
    _Atomic uint32_t *userd = chan->desc.userd;

    if (!nvgpu_drain(chan))
        return false;
    atomic_store(&userd[USERD_REFERENCE], data);
    return true;
}

bool
nvgpu_host_method(struct nvgpu_chan *chan, uint32_t subch, uint32_t method,
                  uint32_t data)
{
    uint32_t unused, high = chan->n_bits_va == 40 ? 0xff : 0x1ffffff;

    assert(subch < 8);
    switch (method) {
    case SET_OBJECT:
        return set_object(chan, subch, data);
    case NOP:
    case FB_FLUSH:
        return true;
    case NON_STALL_INTERRUPT:
        return latch(chan, &unused, data, 0);
    case MEM_OP_A:
    case MEM_OP_B:
    case MEM_OP_C:
        chan->mem_op[(method - MEM_OP_A) / 4] = data;
        return true;
    case MEM_OP_D:
        return mem_op(chan, data);
    case SET_REFERENCE:
        return set_reference(chan, data);
    case SEM_ADDR_LO:
        return latch(chan, &chan->sem_addr[0], data, ~3u);
    case SEM_ADDR_HI:
        return latch(chan, &chan->sem_addr[1], data, high);
    case SEM_PAYLOAD_LO:
        return latch(chan, &chan->sem_payload[0], data, UINT32_MAX);
    case SEM_PAYLOAD_HI:
        return latch(chan, &chan->sem_payload[1], data, UINT32_MAX);
    case SEM_EXECUTE:
        return sem_execute(chan, data);
    case WFI:
        return latch(chan, &unused, data, 1) && nvgpu_drain(chan);
    case YIELD:
        return latch(chan, &unused, data, 3);
    case ILLEGAL:
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA, "the method ILLEGAL");
    default:
        return nvgpu_fail(chan, NVGPU_CODE_PBDMA,
                          "unknown or privileged host method");
    }
}
