/* Copy engines: packets of rings. src: docs/hardware/amd-queues.md,
 * "Copies (SDMA)"; Linux 6.12, vega10_sdma_pkt_open.h, navi10_sdma_pkt_open.h,
 * sdma_v6_0_0_pkt_open.h. */
#include <string.h>

#include "ioctl/sim_step.h"
#include "sim/amd/gpu/gpu_internal.h"

#define MAX_PACKET_DW 8

static bool
is_v4(const struct amdsim_queue *q)
{
    return q->gpu->chip->sdma_version < 50000;
}

/* ---- packets ---- */

static bool
copy_linear(struct amdsim_queue *q, const uint32_t *w)
{
    uint32_t count_bits = is_v4(q) ? 0x3fffff : 0x3fffffff;

    return amdsim_reserved(q, w[0], 0xff | 0xff00, 0) &&
           amdsim_reserved(q, w[1], count_bits, 1) &&
           amdsim_reserved(q, w[2], 0x03030000, 2) &&
           amdsim_copy(q, amdsim_address(w + 5), amdsim_address(w + 3),
                       (uint64_t)w[1] + 1);
}

static bool
const_fill(struct amdsim_queue *q, const uint32_t *w)
{
    static const uint32_t sizes[4] = {1, 2, 4, 0};
    uint32_t count_bits = is_v4(q) ? 0x3fffff : 0x3fffffff;
    uint32_t element_bytes = sizes[w[0] >> 30];
    uint64_t dst = amdsim_address(w + 1), left = (uint64_t)w[4] + 1;

    if (!amdsim_reserved(q, w[0], 0xc000ffff, 0) ||
        !amdsim_reserved(q, w[4], count_bits, 4))
        return false;
    if (element_bytes == 0 || dst % element_bytes || left % element_bytes)
        return amdsim_fail(q, "%llu bytes at 0x%llx in units of %u",
                           (unsigned long long)left, (unsigned long long)dst,
                           element_bytes);
    return amdsim_fill(q, dst, w[3], element_bytes, left);
}

static bool
fence(struct amdsim_queue *q, const uint32_t *w)
{
    uint32_t known = is_v4(q) ? 0xffff : 0x17dfffff;

    if (!amdsim_reserved(q, w[0], known, 0))
        return false;
    if (!is_v4(q) && (w[0] >> 16 & 7) != 3)
        return amdsim_fail(q, "memory type %u: others would not see it",
                           w[0] >> 16 & 7);
    return amdsim_store32(q, amdsim_address(w + 1), w[3], "fence");
}

static bool
trap(struct amdsim_queue *q, const uint32_t *w)
{
    if (!amdsim_reserved(q, w[0], 0xffff, 0) ||
        !amdsim_reserved(q, w[1], 0xfffffff, 1))
        return false;
    q->desc.interrupt(q->desc.user, w[1]);
    return true;
}

/* On gfx906 and gfx908 a wait for memory may end before the memory is as it
 * wants it; here it does so at the first look. src: ROCr 6.4.3,
 * amd_blit_sdma.cpp */
static bool
ends_early(const struct amdsim_queue *q)
{
    return q->gpu->chip->isa <= ISA_GFX908;
}

static bool
poll_regmem(struct amdsim_queue *q, const uint32_t *w)
{
    uint32_t function = w[0] >> 28 & 7, value, turns = 0;

    if (!amdsim_reserved(q, w[0], 0xf400ffff, 0))
        return false;
    if (!(w[0] >> 31) && q->gpu->chip->isa == ISA_GFX101)
        return amdsim_fail(q, "an HDP flush, which has issues on gfx101x");
    if (!(w[0] >> 31)) /* a register: only the HDP flush */
        return w[1] == 0 && w[2] == 0x80000000
                   ? amdsim_may_flush(q)
                   : amdsim_fail(q, "a wait for a register");
    if (function == 7)
        return amdsim_fail(q, "compare function 7");
    if (w[5] >> 16 != 0xfff)
        return amdsim_fail(q, "gives up after %u tries", w[5] >> 16);
    for (;;) {
        if (!amdsim_load32(q, amdsim_address(w + 1), &value, "poll"))
            return false;
        if (amdsim_compare(function, value & w[4], w[3]) || ends_early(q))
            return true;
        if (!amdsim_pause(q, &turns))
            return false;
    }
}

/* An addition to 64 bits, by which ROCr counts a signal down. src:
 * SDMA_PKT_ATOMIC of sdma_v4_0 and v5_0; TC_OP_ATOMIC_ADD_RTN_64 */
static bool
sdma_atomic(struct amdsim_queue *q, const uint32_t *w)
{
    uint64_t *at;

    if (!amdsim_reserved(q, w[0], 0xfe00ffff, 0))
        return false;
    if (w[0] >> 25 != 0x2f)
        return amdsim_fail(q, "operation 0x%x is not ADD_RTN_64", w[0] >> 25);
    if (amdsim_address(w + 1) % 8)
        return amdsim_fail(q, "64 bits at 0x%llx",
                           (unsigned long long)amdsim_address(w + 1));
    at = amdsim_at(q, amdsim_address(w + 1), 8, true, "atomic");
    if (!at || !amdsim_dump_before(q, amdsim_address(w + 1)))
        return false;
    __atomic_fetch_add(at, amdsim_address(w + 3), __ATOMIC_ACQ_REL);
    return amdsim_dump_after(q, amdsim_address(w + 1), at, 8);
}

static bool
timestamp(struct amdsim_queue *q, const uint32_t *w)
{
    if ((w[0] >> 8 & 0xff) != 2)
        return amdsim_fail(q, "sub-operation %u", w[0] >> 8 & 0xff);
    return amdsim_reserved(q, w[0], 0xffff, 0) &&
           amdsim_store64(q, amdsim_address(w + 1), amdsim_clock(q->gpu),
                          "time") &&
           amdsim_dump_time(q, amdsim_address(w + 1), 8);
}

/* Engines copy between memory itself, behind all caches, and GCR reaches none
 * of them: what kernels store has to be released by their queues
 * (gpu_cache.h). */
static bool
gcr(struct amdsim_queue *q, const uint32_t *w)
{
    if (!amdsim_reserved(q, w[0], 0xffff, 0) ||
        !amdsim_reserved(q, w[1], ~0x7fu, 1) ||
        !amdsim_reserved(q, w[3], ~0x78u, 3) ||
        !amdsim_reserved(q, w[4], 0x0f00ffff, 4))
        return false;
    return !(w[4] >> 24 & 15) ||
           amdsim_fail(q, "VMID %u: a user's queue has none", w[4] >> 24 & 15);
}

/* ---- streams ---- */

/* Words of the packet, and its name; 0: not known. */
static uint32_t
sdma_packet_dw(const struct amdsim_queue *q, uint32_t header,
               const char **out_name)
{
    uint32_t op = header & 0xff, sub = header >> 8 & 0xff;

    switch (op) {
    case 0:
        *out_name = "NOP";
        return 1 + (header >> 16 & 0x3fff);
    case 1:
        *out_name = "COPY_LINEAR";
        return sub == 0 ? 7 : 0;
    case 2:
        *out_name = "WRITE_LINEAR";
        return sub == 0 ? 4 : 0; /* and the data */
    case 4:
        *out_name = "INDIRECT";
        return 6;
    case 5:
        *out_name = "FENCE";
        return 4;
    case 6:
        *out_name = "TRAP";
        return 2;
    case 8:
        *out_name = "POLL_REGMEM";
        return sub == 0 ? 6 : 0;
    case 10:
        *out_name = "ATOMIC";
        return sub == 0 ? 8 : 0;
    case 11:
        *out_name = "CONST_FILL";
        return sub == 0 ? 5 : 0;
    case 13:
        *out_name = "TIMESTAMP";
        return 3;
    case 17:
        *out_name = "GCR";
        return is_v4(q) || sub != 1 ? 0 : 5;
    default:
        *out_name = "packet";
        return 0;
    }
}

static bool
run_sdma_packet(struct amdsim_queue *q, const uint32_t *w)
{
    switch (w[0] & 0xff) {
    case 0:
        return true;
    case 1:
        return copy_linear(q, w);
    case 4:
        /* Linux 6.12: update_mqd_sdma leaves SDMAx_RLCx_IB_CNTL.IB_ENABLE 0,
         * of every version; only the kernel's own ring has it. */
        return amdsim_fail(q, "KFD's queues run no indirect buffers "
                              "(IB_CNTL.IB_ENABLE is 0)");
    case 5:
        return fence(q, w);
    case 6:
        return trap(q, w);
    case 8:
        return poll_regmem(q, w);
    case 10:
        return sdma_atomic(q, w);
    case 11:
        return const_fill(q, w);
    case 13:
        return timestamp(q, w);
    default:
        return gcr(q, w);
    }
}

/* Stores the words that follow a WRITE_LINEAR at va. */
static bool
write_linear(struct amdsim_queue *q, uint64_t va, const uint32_t *w,
             uint32_t left, uint32_t *out_used)
{
    uint32_t n = (w[3] & 0xfffff) + 1, i, value;
    uint64_t dst = amdsim_address(w + 1);

    if (!amdsim_reserved(q, w[0], 0xffff, 0) ||
        !amdsim_reserved(q, w[3], 0x030fffff, 3))
        return false;
    if (n > left - 4)
        return amdsim_fail(q, "%u words of data, and %u are left", n, left - 4);
    *out_used = 4 + n;
    if (n == 2 && dst % 8 == 0) {
        uint64_t both;
        return amdsim_read(q, va + 16, &both, 8, "data") &&
               amdsim_store64(q, dst, both, "write");
    }
    for (i = 0; i < n; i++) {
        if (!amdsim_read(q, va + 16 + 4ull * i, &value, 4, "data") ||
            !amdsim_store32(q, dst + 4ull * i, value, "write"))
            return false;
    }
    return true;
}

/* One packet at va, of at most n_dw words; *out_used is its size. */
static bool
run_words(struct amdsim_queue *q, uint64_t va, uint32_t n_dw,
          uint32_t *out_used)
{
    uint32_t w[MAX_PACKET_DW] = {0}, n, header;
    const char *name;

    q->place = (struct amdsim_place){va, "packet"};
    if (!amdsim_read(q, va, &header, 4, "ring"))
        return false;
    n = sdma_packet_dw(q, header, &name);
    q->place.name = name;
    if (n == 0)
        return amdsim_fail(q, "header 0x%08x is not known", header);
    if (n > n_dw)
        return amdsim_fail(q, "%u words, and %u are left", n, n_dw);
    *out_used = n;
    if ((header & 0xff) == 0)
        return true;
    if (!amdsim_read(q, va, w, 4ull * n, "ring"))
        return false;
    amdsim_step_packet(q, SIM_WORDS_SDMA, header, w + 1, n);
    if ((header & 0xff) == 2)
        return write_linear(q, va, w, n_dw, out_used);
    return run_sdma_packet(q, w);
}

bool
amdsim_sdma_run(struct amdsim_queue *q, uint64_t put)
{
    uint64_t ring = q->desc.ring_bytes;

    if (put < q->get || put - q->get > ring || put % 4)
        return amdsim_fail(q, "write pointer %llu, read pointer %llu",
                           (unsigned long long)put, (unsigned long long)q->get);
    while (q->get < put) {
        uint64_t at = q->get % ring, left = put - q->get;
        uint32_t used;

        (void)sim_walk_pause(&q->walk);
        if (amdsim_ends(q))
            return false;
        if (left > ring - at)
            left = ring - at; /* packets do not go round */
        if (!run_words(q, q->desc.ring_va + at, (uint32_t)(left / 4), &used))
            return false;
        q->get += 4ull * used;
        if (!amdsim_store64(q, q->desc.rptr_va, q->get, "read pointer"))
            return false;
    }
    return true;
}
