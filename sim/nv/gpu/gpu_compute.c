/* The compute class: state, inline data, report semaphores and the methods that
 * launch. It refuses an unknown method by number. src: open-gpu-doc, clc6c0.h,
 * clc9c0.h, clcbc0.h, clcec0.h; docs/hardware/nvidia-queues.md, "Compute
 * state", "Launch". */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

enum {
    WAIT_FOR_IDLE = 0x110,
    PAYLOAD_LOWER = 0x158,
    ADDRESS_LOWER = 0x160,
    REPORT_SEMAPHORE_EXECUTE = 0x168,
    LINE_LENGTH_IN = 0x180,
    LINE_COUNT = 0x184,
    OFFSET_OUT_UPPER = 0x188,
    OFFSET_OUT = 0x18c,
    LAUNCH_DMA = 0x1b0,
    LOAD_INLINE_DATA = 0x1b4,
    SET_I2M_SEMAPHORE_A = 0x1dc,
    SET_I2M_SEMAPHORE_B = 0x1e0,
    SET_I2M_SEMAPHORE_C = 0x1e4,
    INVALIDATE_SHADER_CACHES = 0x21c,
    INVALIDATE_SKED_CACHES = 0x298,
    SEND_PCAS_A = 0x2b4,
    SEND_SIGNALING_PCAS2_B = 0x2c0,
    SET_INLINE_QMD_ADDRESS_A = 0x318,
    SET_INLINE_QMD_ADDRESS_B = 0x31c,
    LOAD_INLINE_QMD_DATA = 0x320,
    INVALIDATE_SHADER_CACHES_NO_WFI = 0x1698,
    SET_REPORT_SEMAPHORE_A = 0x1b00,
    SET_REPORT_SEMAPHORE_B = 0x1b04,
    SET_REPORT_SEMAPHORE_C = 0x1b08,
    SET_REPORT_SEMAPHORE_D = 0x1b0c,
};

enum {
    ADA_COMPUTE = 0xc9c0,
    HOPPER_COMPUTE = 0xcbc0
};

#define ALL UINT32_MAX

/* A method and the bits that its data may have on C6C0, C9C0, CBC0 and CEC0; 0:
 * the class does not have it. Sorted. */
struct method {
    uint16_t offset;
    uint32_t bits[4];
};

/* clang-format off */
static const struct method methods[] = {
    {0x0100, {ALL, ALL, ALL, ALL}}, /* NO_OPERATION */
    {0x0110, {ALL, ALL, ALL, ALL}}, /* WAIT_FOR_IDLE */
    {0x0158, {0, ALL, ALL, ALL}}, /* SET_REPORT_SEMAPHORE_PAYLOAD_LOWER */
    {0x015c, {0, ALL, ALL, ALL}}, /* SET_REPORT_SEMAPHORE_PAYLOAD_UPPER */
    {0x0160, {0, ALL, ALL, ALL}}, /* SET_REPORT_SEMAPHORE_ADDRESS_LOWER */
    {0x0164, {0, 0xff, 0x1ffffff, 0x1ffffff}}, /* SET_REPORT_SEMAPHORE_ADDRESS_UPPER */
    {0x0168, {0, 0x7fff, 0x7fff, 0x7fff}}, /* REPORT_SEMAPHORE_EXECUTE */
    {0x0180, {ALL, ALL, ALL, ALL}}, /* LINE_LENGTH_IN */
    {0x0184, {ALL, ALL, ALL, ALL}}, /* LINE_COUNT */
    {0x0188, {0x1ffff, 0x1ffff, 0x1ffffff, 0x1ffffff}}, /* OFFSET_OUT_UPPER */
    {0x018c, {ALL, ALL, ALL, ALL}}, /* OFFSET_OUT */
    {0x0190, {ALL, ALL, ALL, ALL}}, /* PITCH_OUT */
    {0x01b0, {0xf37f, 0xf37f, 0xf37f, 0xf37f}}, /* LAUNCH_DMA */
    {0x01b4, {ALL, ALL, ALL, ALL}}, /* LOAD_INLINE_DATA */
    {0x01dc, {0xff, 0xff, 0x1ffffff, 0x1ffffff}}, /* SET_I2M_SEMAPHORE_A */
    {0x01e0, {ALL, ALL, ALL, ALL}}, /* SET_I2M_SEMAPHORE_B */
    {0x01e4, {ALL, ALL, ALL, ALL}}, /* SET_I2M_SEMAPHORE_C */
    {0x0200, {0xff, 0xff, 0xff, 0xff}}, /* SET_VALID_SPAN_OVERFLOW_AREA_A */
    {0x0204, {ALL, ALL, ALL, ALL}}, /* SET_VALID_SPAN_OVERFLOW_AREA_B */
    {0x0208, {ALL, ALL, ALL, ALL}}, /* SET_VALID_SPAN_OVERFLOW_AREA_C */
    {0x021c, {0x1017, 0x1017, 0x1017, 0x1017}}, /* INVALIDATE_SHADER_CACHES */
    {0x0244, {0x3fffff1, 0x3fffff1, 0x3fffff1, 0x3fffff1}}, /* INVALIDATE_TEXTURE_HEADER_CACHE_NO_WFI */
    {0x0248, {0xffff3f, 0xffff3f, 0xffff3f, 0xffff3f}}, /* SET_CWD_REF_COUNTER */
    {0x0280, {ALL, ALL, ALL, ALL}}, /* SET_COMPUTE_CLASS_VERSION */
    {0x0284, {ALL, ALL, ALL, ALL}}, /* CHECK_COMPUTE_CLASS_VERSION */
    {0x0288, {ALL, ALL, ALL, ALL}}, /* SET_QMD_VERSION */
    {0x0290, {ALL, ALL, 0, 0}}, /* CHECK_QMD_VERSION */
    {0x0298, {0x1, 0x1, 0x1, 0x1}}, /* INVALIDATE_SKED_CACHES */
    {0x02a0, {0x1ffff, 0x1ffff, 0x1ffff, 0x1ffff}}, /* SET_SHADER_SHARED_MEMORY_WINDOW_A */
    {0x02a4, {ALL, ALL, ALL, ALL}}, /* SET_SHADER_SHARED_MEMORY_WINDOW_B */
    {0x02b0, {0xff, 0xff, 0xff, 0xff}}, /* SET_CWD_SLOT_COUNT */
    {0x02b4, {ALL, ALL, ALL, ALL}}, /* SEND_PCAS_A */
    {0x02c0, {0xf, 0xffff0f, 0xffff0f, 0xffff0f}}, /* SEND_SIGNALING_PCAS2_B */
    {0x02cc, {0x1, 0x1, 0x1, 0x1}}, /* SET_SKED_CACHE_CONTROL */
    {0x02e4, {0xff, 0xff, 0xff, 0xff}}, /* SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A */
    {0x02e8, {ALL, ALL, ALL, ALL}}, /* SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B */
    {0x02ec, {0x1ff, 0x1ff, 0xffff01ff, 0xffff01ff}}, /* SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C */
    {0x0310, {0xffff, 0xffff, 0xffff, 0xffff}}, /* SET_SPA_VERSION */
    {0x0318, {ALL, ALL, 0x400001ff, 0x400001ff}}, /* SET_INLINE_QMD_ADDRESS_A */
    {0x031c, {ALL, ALL, ALL, ALL}}, /* SET_INLINE_QMD_ADDRESS_B */
    {0x0790, {0x1ffff, 0x1ffff, 0x1ffffff, 0x1ffffff}}, /* SET_SHADER_LOCAL_MEMORY_A */
    {0x0794, {ALL, ALL, ALL, ALL}}, /* SET_SHADER_LOCAL_MEMORY_B */
    {0x07ac, {0, 0, 0xff, 0xff}}, /* SET_TEXTURE_HEADER_VERSION */
    {0x07b0, {0x1ffff, 0x1ffff, 0x1ffff, 0x1ffff}}, /* SET_SHADER_LOCAL_MEMORY_WINDOW_A */
    {0x07b4, {ALL, ALL, ALL, ALL}}, /* SET_SHADER_LOCAL_MEMORY_WINDOW_B */
    {0x0d94, {0x1, 0x1, 0x1, 0x1}}, /* SET_SHADER_CACHE_CONTROL */
    {0x0de4, {0x3f, 0x3f, 0x3f, 0x3f}}, /* SET_SM_TIMEOUT_INTERVAL */
    {0x1288, {0x3fffff1, 0x3fffff1, 0x3fffff1, 0x3fffff1}}, /* INVALIDATE_TEXTURE_DATA_CACHE_NO_WFI */
    {0x1330, {0x3fffff1, 0x3fffff1, 0x3fffff1, ALL}}, /* INVALIDATE_SAMPLER_CACHE */
    {0x1334, {0x3fffff1, 0x3fffff1, 0x3fffff1, ALL}}, /* INVALIDATE_TEXTURE_HEADER_CACHE */
    {0x1338, {0x3fffff1, 0x3fffff1, 0x3fffff1, ALL}}, /* INVALIDATE_TEXTURE_DATA_CACHE */
    {0x1424, {0x3fffff1, 0x3fffff1, 0x3fffff1, 0x3fffff1}}, /* INVALIDATE_SAMPLER_CACHE_NO_WFI */
    {0x1528, {0x1, 0x1, 0x1, 0x1}}, /* SET_SHADER_EXCEPTIONS */
    {0x155c, {0x1ffff, 0x1ffff, 0x1ffffff, 0x1ffffff}}, /* SET_TEX_SAMPLER_POOL_A */
    {0x1560, {ALL, ALL, ALL, ALL}}, /* SET_TEX_SAMPLER_POOL_B */
    {0x1564, {0xfffff, 0xfffff, 0xfffff, ALL}}, /* SET_TEX_SAMPLER_POOL_C */
    {0x1574, {0x1ffff, 0x1ffff, 0x1ffffff, 0x1ffffff}}, /* SET_TEX_HEADER_POOL_A */
    {0x1578, {ALL, ALL, ALL, ALL}}, /* SET_TEX_HEADER_POOL_B */
    {0x157c, {0x3fffff, 0x3fffff, 0x3fffff, ALL}}, /* SET_TEX_HEADER_POOL_C */
    {0x1698, {0x1011, 0x1011, 0x1011, 0x1011}}, /* INVALIDATE_SHADER_CACHES_NO_WFI */
    {0x1a2c, {ALL, ALL, ALL, ALL}}, /* PIPE_NOP */
    {0x1b00, {0xff, 0xff, 0x1ffffff, 0x1ffffff}}, /* SET_REPORT_SEMAPHORE_A */
    {0x1b04, {ALL, ALL, ALL, ALL}}, /* SET_REPORT_SEMAPHORE_B */
    {0x1b08, {ALL, ALL, ALL, ALL}}, /* SET_REPORT_SEMAPHORE_C */
    {0x1b0c, {0x101e0e0f, 0x101e0e0f, 0x101e0e0f, 0x101e0e0f}}, /* SET_REPORT_SEMAPHORE_D */
};
/* clang-format on */

static uint32_t
compute_state(const struct nvgpu_chan *chan, uint32_t method)
{
    assert(method / 4 < NVGPU_N_STATE);
    return chan->compute[method / 4];
}

static uint64_t
compute_address(const struct nvgpu_chan *chan, uint32_t upper, uint32_t lower)
{
    return (uint64_t)compute_state(chan, upper) << 32 |
           compute_state(chan, lower);
}

/* False: the class has no such method. */
static bool
compute_data_bits(const struct nvgpu_chan *chan, uint32_t offset,
                  uint32_t *out_bits)
{
    const struct nvgpu_chip *chip = chan->gpu->chip;
    uint32_t column = chip->qmd_major == 3 ? chip->compute_class == ADA_COMPUTE
                                           : chip->qmd_major - 2;
    size_t lo = 0, hi = ARRAY_LEN(methods);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (methods[mid].offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == ARRAY_LEN(methods) || methods[lo].offset != offset)
        return false;
    *out_bits = methods[lo].bits[column];
    return *out_bits != 0;
}

/* ---- report semaphores ---- */

static bool
report_compute(struct nvgpu_chan *chan, const struct nvgpu_sem *sem)
{
    return nvgpu_drain_kernels(chan) &&
           nvgpu_sem_write(chan, sem, NVGPU_CODE_CLASS, "report semaphore");
}

static bool
report_semaphore(struct nvgpu_chan *chan, uint32_t d)
{
    struct nvgpu_sem sem = {
        .va = compute_address(chan, SET_REPORT_SEMAPHORE_A,
                              SET_REPORT_SEMAPHORE_B),
        .payload = compute_state(chan, SET_REPORT_SEMAPHORE_C),
        .n_bytes = 4,
        .timestamp = !(d >> 28 & 1),
        .reduction = d >> 3 & 1,
        .is_signed = (d >> 17 & 3) == 1,
        .op = nvgpu_class_reduction(d >> 9),
    };

    if ((d & 3) || (d >> 19 & 1))
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "report semaphore: operation %u or a trap", d & 3);
    return report_compute(chan, &sem);
}

static bool
report_execute(struct nvgpu_chan *chan, uint32_t d)
{
    uint32_t structure = d >> 3 & 3;
    bool is_64 = d >> 12 & 1;
    struct nvgpu_sem sem = {
        .va = (uint64_t)compute_state(chan, ADDRESS_LOWER + 4) << 32 |
              compute_state(chan, ADDRESS_LOWER),
        .payload = (uint64_t)compute_state(chan, PAYLOAD_LOWER + 4) << 32 |
                   compute_state(chan, PAYLOAD_LOWER),
        .n_bytes = is_64 ? 8 : 4,
        .timestamp = structure == 0,
        .reduction = d >> 6 & 1,
        .is_signed = (d >> 10 & 3) == 1,
        .op = nvgpu_class_reduction(d >> 7),
    };

    /* Its header has the method. observed: H100, driver 580.159.04, 2026-11-22:
     * code 13; of other cards nobody has told */
    if (chan->gpu->chip->compute_class == HOPPER_COMPUTE)
        return nvgpu_fail(chan, NVGPU_CODE_SM,
                          "REPORT_SEMAPHORE_EXECUTE 0x%x: GH100 refuses it", d);
    if ((d & 3) || (d >> 13 & 3) || structure == 3 ||
        (structure == 1 && is_64) || (structure == 2 && !is_64))
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "report semaphore: operation %u, structure %u, %s "
                          "payload, trap %u",
                          d & 3, structure, is_64 ? "64-bit" : "32-bit",
                          d >> 13 & 3);
    return report_compute(chan, &sem);
}

/* ---- inline data ---- */

static bool
start_inline(struct nvgpu_chan *chan, uint32_t launch)
{
    uint32_t bytes = compute_state(chan, LINE_LENGTH_IN),
             type = launch >> 4 & 3;

    /* pitch layout, no reduction, no interrupt; one line */
    if (!(launch & 1) || (launch & 0xe30e) || type == 3 ||
        compute_state(chan, LINE_COUNT) != 1 || bytes == 0)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "LAUNCH_DMA 0x%x: only one line of pitch layout, "
                          "here %u of %u bytes",
                          launch, compute_state(chan, LINE_COUNT), bytes);
    chan->inline_data = (struct nvgpu_inline){
        .va = compute_address(chan, OFFSET_OUT_UPPER, OFFSET_OUT),
        .n_bytes = bytes,
        .launch = launch};
    return true;
}

static bool
finish_inline(struct nvgpu_chan *chan)
{
    uint32_t launch = chan->inline_data.launch;
    struct nvgpu_sem sem = {
        .va = compute_address(chan, SET_I2M_SEMAPHORE_A, SET_I2M_SEMAPHORE_B),
        .payload = compute_state(chan, SET_I2M_SEMAPHORE_C),
        .n_bytes = 4,
        .timestamp = !(launch >> 12 & 1),
    };

    chan->inline_data.n_bytes = 0;
    return (launch >> 4 & 3) != 2 ||
           nvgpu_sem_write(chan, &sem, NVGPU_CODE_CLASS, "inline transfer");
}

static bool
load_inline(struct nvgpu_chan *chan, uint32_t data)
{
    struct nvgpu_inline *in = &chan->inline_data;
    uint32_t n = in->n_bytes - in->done_bytes;

    if (in->n_bytes == 0)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "LOAD_INLINE_DATA: more than LINE_LENGTH_IN, or "
                          "without LAUNCH_DMA");
    n = n < 4 ? n : 4;
    if (!nvgpu_write(chan, in->va + in->done_bytes, &data, n,
                     "an inline transfer"))
        return false;
    in->done_bytes += n;
    return in->done_bytes < in->n_bytes || finish_inline(chan);
}

/* ---- launches ---- */

static bool
pcas(struct nvgpu_chan *chan, uint32_t data)
{
    uint64_t va = (uint64_t)compute_state(chan, SEND_PCAS_A) << 8;

    if (data >> 4)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "SEND_SIGNALING_PCAS2_B 0x%x: only an action", data);
    switch (data) {
    case 0x0: /* NOP */
        return true;
    case 0x1: /* INVALIDATE */
    case 0x8: /* PREFETCH */
        return nvgpu_qmd_cache(chan, va, data == 1);
    case 0x2: /* SCHEDULE */
    case 0x9: /* PREFETCH_SCHEDULE */
        return nvgpu_launch_qmd(chan, va, false);
    case 0x3: /* INVALIDATE_COPY_SCHEDULE */
    case 0xa: /* INVALIDATE_PREFETCH_COPY_SCHEDULE */
        return nvgpu_qmd_cache(chan, va, true) &&
               nvgpu_launch_qmd(chan, va, true);
    case 0x7: /* DECREMENT_DEPENDENCE */
        return nvgpu_qmd_decrement(chan, va);
    default:
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "SEND_SIGNALING_PCAS2_B: action 0x%x is of queues",
                          data);
    }
}

/* Where it goes and how long it is; the older classes have 256 bytes only. */
static bool
load_inline_qmd(struct nvgpu_chan *chan, uint32_t index, uint32_t data)
{
    uint32_t a = compute_state(chan, SET_INLINE_QMD_ADDRESS_A),
             n_dw = nvgpu_qmd_dw(chan->gpu->chip),
             have = chan->gpu->chip->qmd_major > 3 && a >> 30 ? 96 : 64;
    uint64_t va = ((uint64_t)(a & 0x3fffffff) << 32 |
                   compute_state(chan, SET_INLINE_QMD_ADDRESS_B))
                  << 8;

    if (have != n_dw || index != chan->n_inline_qmd)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "LOAD_INLINE_QMD_DATA(%u): the descriptor has %u "
                          "words, INLINE_SIZE says %u, %u have come",
                          index, n_dw, have, chan->n_inline_qmd);
    chan->inline_qmd[index] = data;
    if (++chan->n_inline_qmd < n_dw)
        return true;
    chan->n_inline_qmd = 0;
    return nvgpu_write(chan, va, chan->inline_qmd, n_dw * 4,
                       "an inline descriptor") &&
           nvgpu_qmd_cache(chan, va, true) && nvgpu_launch_qmd(chan, va, true);
}

/* ---- */

static bool
invalidate(struct nvgpu_chan *chan, uint32_t data)
{
    chan->n_code_invalidates += data & 1;
    chan->n_constant_invalidates += data >> 12 & 1;
    return true;
}

static bool
act(struct nvgpu_chan *chan, uint32_t method, uint32_t data)
{
    switch (method) {
    case WAIT_FOR_IDLE:
        return nvgpu_drain_kernels(chan);
    case INVALIDATE_SHADER_CACHES:
        return nvgpu_drain_kernels(chan) && invalidate(chan, data);
    case INVALIDATE_SHADER_CACHES_NO_WFI:
        return invalidate(chan, data);
    case INVALIDATE_SKED_CACHES:
        return nvgpu_qmd_cache(chan, UINT64_MAX, true);
    case LAUNCH_DMA:
        return start_inline(chan, data);
    case LOAD_INLINE_DATA:
        return load_inline(chan, data);
    case SEND_SIGNALING_PCAS2_B:
        return pcas(chan, data);
    case SET_REPORT_SEMAPHORE_D:
        return report_semaphore(chan, data);
    case REPORT_SEMAPHORE_EXECUTE:
        return report_execute(chan, data);
    default:
        return true;
    }
}

bool
nvgpu_compute_method(struct nvgpu_chan *chan, uint32_t method, uint32_t data)
{
    uint32_t qmd_end = LOAD_INLINE_QMD_DATA + 4 * nvgpu_qmd_dw(chan->gpu->chip),
             bits;

    assert(method % 4 == 0);
    if (chan->inline_data.n_bytes && method != LOAD_INLINE_DATA)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "an inline transfer of %u bytes has had only %u",
                          chan->inline_data.n_bytes,
                          chan->inline_data.done_bytes);
    if (method >= LOAD_INLINE_QMD_DATA && method < qmd_end)
        return load_inline_qmd(chan, (method - LOAD_INLINE_QMD_DATA) / 4, data);
    if (!compute_data_bits(chan, method, &bits))
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "class 0x%x has no method 0x%x",
                          chan->gpu->chip->compute_class, method);
    if (data & ~bits)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS, "bits 0x%x are reserved",
                          data & ~bits);
    chan->compute[method / 4] = data;
    return act(chan, method, data);
}
