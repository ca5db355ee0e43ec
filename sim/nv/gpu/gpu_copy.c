/* Copy engines: linear and two-dimensional copies, fills, semaphores.
 * src: open-gpu-doc, clc6b5.h, clc8b5.h, clcab5.h;
 * docs/hardware/nvidia-queues.md, "Copy engine". */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

enum {
    NOP = 0x100,
    SET_SEMAPHORE_A = 0x240,
    SET_SEMAPHORE_B = 0x244,
    SET_SEMAPHORE_PAYLOAD = 0x248,
    SET_SEMAPHORE_PAYLOAD_UPPER = 0x24c,
    LAUNCH_DMA = 0x300,
    OFFSET_IN_UPPER = 0x400,
    OFFSET_IN_LOWER = 0x404,
    OFFSET_OUT_UPPER = 0x408,
    OFFSET_OUT_LOWER = 0x40c,
    PITCH_IN = 0x410,
    PITCH_OUT = 0x414,
    LINE_LENGTH_IN = 0x418,
    LINE_COUNT = 0x41c,
    SET_REMAP_CONST_A = 0x700,
    SET_REMAP_CONST_B = 0x704,
    SET_REMAP_COMPONENTS = 0x708,
};

/* LAUNCH_DMA */
#define TRANSFER     3u
#define FLUSH_ENABLE (1u << 2)
#define SEMAPHORE    (3u << 3)
#define SRC_PITCH    (1u << 7)
#define DST_PITCH    (1u << 8)
#define MULTI_LINE   (1u << 9)
#define REMAP        (1u << 10)
#define FLUSH_GL     (1u << 25)
#define DISABLE_PLC  (1u << 26)
#define PAYLOAD_64   (1u << 27)
#define LAUNCH_BITS                                                            \
    (TRANSFER | FLUSH_ENABLE | SEMAPHORE | SRC_PITCH | DST_PITCH |             \
     MULTI_LINE | REMAP | FLUSH_GL | DISABLE_PLC)

#define MAX_PIECE ((uint64_t)1 << 21) /* between two looks at the world */

/* src: docs/hardware/nvidia-queues.md, "Errors" */
static uint32_t
error_code(const struct nvgpu_chan *chan)
{
    uint32_t n =
        chan->desc.engine == NVGPU_ENGINE_CE ? chan->desc.engine_index : 0;

    if (n < 3)
        return 39 + n;
    if (n < 6)
        return 70 + n - 3;
    if (n < 9)
        return 75 + n - 6;
    return n == 9 ? 85 : 126 + n - 10;
}

static uint32_t
copy_state(const struct nvgpu_chan *chan, uint32_t method)
{
    assert(method / 4 < NVGPU_N_STATE);
    return chan->copy[method / 4];
}

static uint64_t
copy_address(const struct nvgpu_chan *chan, uint32_t upper)
{
    return (uint64_t)copy_state(chan, upper) << 32 |
           copy_state(chan, upper + 4);
}

/* Lets the world in between two pieces of work; false: it ends here. */
static bool
breathe(struct nvgpu_chan *chan)
{
    (void)sim_walk_pause(&chan->walk);
    return !nvgpu_stopped(chan);
}

/* ---- copies ---- */

static bool
copy_pitch_line(struct nvgpu_chan *chan, uint64_t to, uint64_t from,
                uint64_t bytes)
{
    assert(bytes > 0);
    while (bytes > 0) {
        uint64_t n_from, n_to, n = bytes < MAX_PIECE ? bytes : MAX_PIECE;
        const void *src;
        void *dst;

        if (!breathe(chan))
            return false;
        src = nvgpu_span(chan, from, false, &n_from);
        if (!src)
            return nvgpu_fail_mmu(chan, from, NVGPU_READ, "the copy engine");
        dst = nvgpu_span(chan, to, true, &n_to);
        if (!dst)
            return nvgpu_fail_mmu(chan, to, NVGPU_WRITE, "the copy engine");
        n = n < n_from ? n : n_from;
        n = n < n_to ? n : n_to;
        nvgpu_count_data(chan, from, n, false, false);
        nvgpu_count_data(chan, to, n, true, false);
        memmove(dst, src, n);
        from += n;
        to += n;
        bytes -= n;
    }
    return true;
}

/* ---- remaps ---- */

#define MAX_ELEMENT 16

struct remap {
    uint32_t n_bytes, n_src, n_dst; /* of a component; components */
    uint8_t from[4];                /* each: 0..3 source, 4 A, 5 B, 6 none */
    bool reads, skips;
};

static bool
decode_remap(struct nvgpu_chan *chan, uint32_t w, struct remap *out_remap)
{
    uint32_t i;
    struct remap r = {.n_bytes = (w >> 16 & 3) + 1,
                      .n_src = (w >> 20 & 3) + 1,
                      .n_dst = (w >> 24 & 3) + 1};

    for (i = 0; i < r.n_dst; i++) {
        r.from[i] = w >> (4 * i) & 7;
        if (r.from[i] == 7 || (r.from[i] < 4 && r.from[i] >= r.n_src))
            return nvgpu_fail(chan, error_code(chan),
                              "SET_REMAP_COMPONENTS 0x%08x: component %u is "
                              "made of number %u",
                              w, i, r.from[i]);
        r.reads |= r.from[i] < 4;
        r.skips |= r.from[i] == 6;
    }
    *out_remap = r;
    return true;
}

/* One element; `old` is what lies at the destination. */
static void
make_element(const struct nvgpu_copy *copy, const struct remap *r,
             const uint8_t *src, uint8_t *element)
{
    uint32_t i;

    assert(r->n_bytes >= 1 && r->n_bytes <= 4 && r->n_dst >= 1 &&
           r->n_dst <= 4);
    for (i = 0; i < r->n_dst; i++) {
        uint8_t *to = element + i * r->n_bytes;
        if (r->from[i] < 4) {
            memcpy(to, src + r->from[i] * r->n_bytes, r->n_bytes);
        } else if (r->from[i] < 6) {
            memcpy(to, &copy->consts[r->from[i] - 4], r->n_bytes);
        }
    }
}

/* Elements of constants only, written in as large pieces as there are. */
static bool
fill_line(struct nvgpu_chan *chan, const struct nvgpu_copy *copy,
          const struct remap *r, uint64_t to, uint64_t n_elements)
{
    uint32_t size = r->n_bytes * r->n_dst, i;
    uint64_t bytes = n_elements * size;
    uint8_t pattern[144 * 8]; /* a multiple of every size */

    assert(n_elements > 0);
    for (i = 0; i < sizeof(pattern) / size && i < n_elements; i++)
        make_element(copy, r, NULL, pattern + i * size);
    while (bytes > 0) {
        uint64_t n = bytes < sizeof(pattern) ? bytes : sizeof(pattern);
        if (!breathe(chan) ||
            !nvgpu_write(chan, to, pattern, n, "the copy engine"))
            return false;
        to += n;
        bytes -= n;
    }
    return true;
}

static bool
remap_line(struct nvgpu_chan *chan, const struct nvgpu_copy *copy,
           const struct remap *r, uint64_t to, uint64_t from,
           uint64_t n_elements)
{
    uint32_t size = r->n_bytes * r->n_dst, src_size = r->n_bytes * r->n_src;
    uint8_t src[MAX_ELEMENT] = {0}, element[MAX_ELEMENT] = {0};
    uint64_t i;

    assert(n_elements > 0);
    if (!r->reads && !r->skips)
        return fill_line(chan, copy, r, to, n_elements);
    for (i = 0; i < n_elements; i++) {
        if (!breathe(chan))
            return false;
        if (r->reads && !nvgpu_read(chan, from + i * src_size, src, src_size,
                                    "the copy engine"))
            return false;
        if (r->skips &&
            !nvgpu_read(chan, to + i * size, element, size, "the copy engine"))
            return false;
        make_element(copy, r, src, element);
        if (!nvgpu_write(chan, to + i * size, element, size, "the copy engine"))
            return false;
    }
    return true;
}

/* ---- launches ---- */

static bool
transfer(struct nvgpu_chan *chan, const struct nvgpu_copy *copy)
{
    uint32_t i, n = copy->launch & MULTI_LINE ? copy->count : 1;
    bool is_remap = (copy->launch & REMAP) != 0;
    struct remap r;

    if (is_remap && !decode_remap(chan, copy->components, &r))
        return false;
    for (i = 0; i < n; i++) {
        uint64_t a = copy->in + (uint64_t)i * copy->pitch_in,
                 b = copy->out + (uint64_t)i * copy->pitch_out;
        if (is_remap ? !remap_line(chan, copy, &r, b, a, copy->length)
                     : !copy_pitch_line(chan, b, a, copy->length))
            return false;
    }
    return true;
}

static bool
signal_done(struct nvgpu_chan *chan, const struct nvgpu_copy *copy)
{
    struct nvgpu_sem sem = {
        .va = copy->sem_va,
        .payload = copy->sem_payload,
        .n_bytes = copy->launch & PAYLOAD_64 ? 8 : 4,
        .timestamp = (copy->launch & SEMAPHORE) >> 3 == 2,
    };

    return nvgpu_sem_write(chan, &sem, error_code(chan),
                           "the copy engine's release");
}

static bool
run_copy(struct nvgpu_chan *chan, const struct nvgpu_copy *copy)
{
    chan->at = copy->place;
    chan->last_written = NULL;
    if ((copy->launch & TRANSFER) && !transfer(chan, copy))
        return false;
    nvgpu_decay(chan);
    return !(copy->launch & SEMAPHORE) || signal_done(chan, copy);
}

bool
nvgpu_drain_copies(struct nvgpu_chan *chan)
{
    struct nvgpu_place place = chan->at;
    uint32_t i, n = chan->n_copies;
    bool ok = true;

    chan->n_copies = 0;
    for (i = 0; i < n && ok; i++)
        ok = run_copy(chan, &chan->copies[i]);
    chan->at = place;
    return ok;
}

static bool
check_copy_launch(struct nvgpu_chan *chan, uint32_t launch)
{
    uint32_t kind = launch & TRANSFER, sem = (launch & SEMAPHORE) >> 3,
             allowed = LAUNCH_BITS;

    if (chan->gpu->chip->copy_class >= 0xc7b5)
        allowed |= PAYLOAD_64;
    if ((launch & ~allowed) || kind == 3 || sem == 3)
        return nvgpu_fail(chan, error_code(chan),
                          "LAUNCH_DMA 0x%08x: this card does no transfer %u, "
                          "semaphore %u, bits 0x%x",
                          launch, kind, sem, launch & ~allowed);
    if (kind && (!(launch & SRC_PITCH) || !(launch & DST_PITCH)))
        return nvgpu_fail(chan, error_code(chan),
                          "LAUNCH_DMA 0x%08x: only pitch layouts", launch);
    return true;
}

static bool
launch_dma(struct nvgpu_chan *chan, uint32_t launch)
{
    if (!check_copy_launch(chan, launch) ||
        (chan->n_copies == NVGPU_MAX_PENDING && !nvgpu_drain_copies(chan)))
        return false;
    chan->copies[chan->n_copies++] = (struct nvgpu_copy){
        .place = chan->at,
        .launch = launch,
        .length = copy_state(chan, LINE_LENGTH_IN),
        .count = copy_state(chan, LINE_COUNT),
        .pitch_in = copy_state(chan, PITCH_IN),
        .pitch_out = copy_state(chan, PITCH_OUT),
        .consts = {copy_state(chan, SET_REMAP_CONST_A),
                   copy_state(chan, SET_REMAP_CONST_B)},
        .components = copy_state(chan, SET_REMAP_COMPONENTS),
        .in = copy_address(chan, OFFSET_IN_UPPER),
        .out = copy_address(chan, OFFSET_OUT_UPPER),
        .sem_va = copy_address(chan, SET_SEMAPHORE_A),
        .sem_payload = (uint64_t)copy_state(chan, SET_SEMAPHORE_PAYLOAD_UPPER)
                           << 32 |
                       copy_state(chan, SET_SEMAPHORE_PAYLOAD),
    };
    return true;
}

/* ---- methods ---- */

/* Bits that a method's data may have; false: there is no such method. */
static bool
copy_data_bits(const struct nvgpu_chan *chan, uint32_t method,
               uint32_t *out_bits)
{
    uint32_t high = chan->gpu->chip->copy_class >= 0xc8b5 ? 0x1ffffff : 0x1ffff;

    switch (method) {
    case SET_SEMAPHORE_A:
    case OFFSET_IN_UPPER:
    case OFFSET_OUT_UPPER:
        *out_bits = high;
        return true;
    case SET_REMAP_COMPONENTS:
        *out_bits = 0x03337777;
        return true;
    case SET_SEMAPHORE_PAYLOAD_UPPER:
        *out_bits = UINT32_MAX;
        return chan->gpu->chip->copy_class >= 0xc7b5;
    case NOP:
    case SET_SEMAPHORE_B:
    case SET_SEMAPHORE_PAYLOAD:
    case LAUNCH_DMA:
    case OFFSET_IN_LOWER:
    case OFFSET_OUT_LOWER:
    case PITCH_IN:
    case PITCH_OUT:
    case LINE_LENGTH_IN:
    case LINE_COUNT:
    case SET_REMAP_CONST_A:
    case SET_REMAP_CONST_B:
        *out_bits = UINT32_MAX;
        return true;
    default:
        return false;
    }
}

bool
nvgpu_copy_method(struct nvgpu_chan *chan, uint32_t method, uint32_t data)
{
    uint32_t bits;

    assert(method % 4 == 0);
    if (!copy_data_bits(chan, method, &bits))
        return nvgpu_fail(chan, error_code(chan),
                          "class 0x%x has no method 0x%x",
                          chan->gpu->chip->copy_class, method);
    if (data & ~bits)
        return nvgpu_fail(chan, error_code(chan), "bits 0x%x are reserved",
                          data & ~bits);
    chan->copy[method / 4] = data;
    return method != LAUNCH_DMA || launch_dma(chan, data);
}
