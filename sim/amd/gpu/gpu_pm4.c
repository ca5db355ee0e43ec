/* The compute command processor: type 3 packets from rings and indirect
 * buffers. src: docs/hardware/amd-queues.md, "PM4", "Launch", "Several dies",
 * "Caches"; docs/hardware/amd-kernel.md, "Simulated rules". */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/sim_step.h"
#include "sim/amd/gpu/gpu_internal.h"

/* A packet, or a stream of them, in ordinary memory. */
struct stream {
    const uint32_t *words; /* this packet's body */
    uint32_t n_dw;
    struct amdsim_buffer *buffer; /* that it is of; NULL: the ring */
};

/* A body of that many words, and none of these bits set. */
static bool
packet_has_shape(struct amdsim_queue *q, const struct stream *s, uint32_t n_dw)
{
    return s->n_dw == n_dw ||
           amdsim_fail(q, "%u body words, not %u", s->n_dw, n_dw);
}

/* ---- registers ---- */

/* Those that a launch may need. src: Linux 6.12, gc_9_4_2_offset.h and those
 * of the other generations */
static bool
is_known_register(const struct amdsim_queue *q, uint32_t reg)
{
    bool gfx9 = q->gpu->chip->gfx == 9;

    if (reg == 0x2e25 || reg == 0x2e27) /* of what is dealt to dies */
        return gfx9 && q->gpu->chip->gfx_target_version >= 90400;
    if (reg == 0x2e28)
        return !gfx9;
    if (reg == 0x2e2d)
        return gfx9 && q->gpu->chip->gfx_target_version >= 90010;
    return (reg >= 0x2e00 && reg <= 0x2e1e) || reg == 0x2e20 ||
           (reg >= 0x2e40 && reg <= 0x2e4f);
}

static bool
set_sh_reg(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t reg = SH_FIRST + (s->words[0] & 0xffff), i;

    if (s->n_dw < 2)
        return amdsim_fail(q, "no values");
    if (!amdsim_reserved(q, s->words[0], 0xffff, 1))
        return false;
    for (i = 1; i < s->n_dw; i++, reg++) {
        if (reg - SH_FIRST >= SH_COUNT || !is_known_register(q, reg))
            return amdsim_fail(q, "register 0x%x is not one of compute's", reg);
        q->sh[q->xcc][reg - SH_FIRST] = s->words[i];
    }
    return true;
}

/* ---- memory and waiting ---- */

/* The registers of the HDP flush: a write and a wait that is over at once. */
static bool
is_hdp_flush(const struct stream *s)
{
    return s->words[1] == 0xe26 && s->words[2] == 0xe27;
}

static bool
wait_reg_mem(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t info, value, turns = 0;

    if (!packet_has_shape(q, s, 6))
        return false;
    info = s->words[0];
    if (!amdsim_reserved(q, info, 0x060001f7, 1))
        return false;
    if ((info >> 6 & 3) == 1 && (info >> 4 & 3) == 0 && is_hdp_flush(s))
        return amdsim_may_flush(q);
    if ((info >> 4 & 3) != 1 || (info >> 6 & 3) == 1)
        return amdsim_fail(q, "a wait for register 0x%x", s->words[1]);
    if ((info & 7) == 7)
        return amdsim_fail(q, "compare function 7");
    for (;;) {
        if (!amdsim_load32(q, amdsim_address(s->words + 1), &value, "wait"))
            return false;
        if (amdsim_compare(info & 7, value & s->words[4], s->words[3])) {
            atomic_store(&q->doing, AMDSIM_RUNS);
            return true;
        }
        atomic_store(&q->doing,
                     (info >> 6 & 3) == 0 ? AMDSIM_STANDS : AMDSIM_RUNS);
        q->waits = q->gives_way;
        if (q->waits || !amdsim_pause(q, &turns))
            return false;
    }
}

static bool
write_data(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t i, dst;

    if (s->n_dw < 4)
        return amdsim_fail(q, "no data");
    dst = s->words[0] >> 8 & 15;
    if (!amdsim_reserved(q, s->words[0], 0xc6110f00, 1))
        return false;
    if (dst != 5 && dst != 2)
        return amdsim_fail(q, "destination %u is not memory", dst);
    if (s->n_dw == 5 && !(s->words[0] >> 16 & 1) &&
        (s->words[1] & 7) == 0) /* one store: others wait for it */
        return amdsim_store64(q, amdsim_address(s->words + 1),
                              s->words[3] | (uint64_t)s->words[4] << 32,
                              "data");
    for (i = 3; i < s->n_dw; i++) {
        uint64_t va = amdsim_address(s->words + 1);
        if (!(s->words[0] >> 16 & 1))
            va += 4 * (i - 3);
        if (!amdsim_store32(q, va, s->words[i], "data"))
            return false;
    }
    return true;
}

/* Operations' numbers: Linux, vega10_enum.h (TC_OP_ATOMIC_ADD_RTN_32). */
static bool
atomic_mem(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t known = q->gpu->chip->gfx == 9 ? 0x06000f3f : 0x06000f7f;
    uint64_t va;

    if (!packet_has_shape(q, s, 8) ||
        !amdsim_reserved(q, s->words[0], known, 1) ||
        !amdsim_reserved(q, s->words[7], 0x1fff, 8))
        return false;
    va = amdsim_address(s->words + 1);
    if ((s->words[0] & 0x7f) != 15 || s->words[0] >> 8 & 15)
        return amdsim_fail(q, "operation 0x%x: only one addition is simulated",
                           s->words[0]);
    if (s->words[4])
        return amdsim_fail(q, "a sum of 32 bits, and word 5 is 0x%08x",
                           s->words[4]);
    return amdsim_add32(q, va, s->words[3], "sum");
}

static bool
copy_data(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t sel, src, dst, low;
    uint64_t value = 0;

    if (!packet_has_shape(q, s, 5))
        return false;
    sel = s->words[0];
    src = sel & 15;
    dst = sel >> 8 & 15;
    if (!amdsim_reserved(q, sel, 0x06116f0f, 1))
        return false;
    if (src == 1 || src == 2) {
        if (!amdsim_load32(q, amdsim_address(s->words + 1), &low, "source"))
            return false;
        value = low;
        if (sel >> 16 & 1) {
            if (!amdsim_load32(q, amdsim_address(s->words + 1) + 4, &low,
                               "source"))
                return false;
            value |= (uint64_t)low << 32;
        }
    } else if (src == 5) {
        value = amdsim_address(s->words + 1);
    } else if (src == 9) {
        value = amdsim_clock(q->gpu);
        if (!amdsim_dump_time(q, amdsim_address(s->words + 3),
                              sel >> 16 & 1 ? 8 : 4))
            return false;
    } else {
        return amdsim_fail(q, "source %u", src);
    }
    if (dst != 5 && dst != 2)
        return amdsim_fail(q, "destination %u is not memory", dst);
    return sel >> 16 & 1
               ? amdsim_store64(q, amdsim_address(s->words + 3), value, "data")
               : amdsim_store32(q, amdsim_address(s->words + 3),
                                (uint32_t)value, "data");
}

/* Bytes of one DMA_DATA; 0: the chip's command processor has none.
 * src: Mesa 24, si_cp_dma.c cp_dma_max_byte_count (gfx11 and later: 32767) and
 * ac_gpu_info.c has_cp_dma ("CDNA starting with GFX940 shouldn't use CP
 * DMA") */
static uint32_t
dma_max_bytes(const struct amdsim_chip *chip)
{
    if (chip->gfx >= 11)
        return 0x7fff;
    return chip->gfx == 9 && chip->gfx_target_version >= 90400 ? 0 : 0x3ffffff;
}

/* Copies end before the next packet here, with CP_SYNC and without. */
static bool
dma_data(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t max = dma_max_bytes(q->gpu->chip), src_sel, dst_sel, n_bytes;
    uint64_t dst;

    if (!max)
        return amdsim_fail(q, "%s has no DMA of its command processor",
                           q->gpu->chip->name);
    if (!packet_has_shape(q, s, 6) ||
        !amdsim_reserved(q, s->words[0], 0xe6306001, 1))
        return false;
    src_sel = s->words[0] >> 29 & 3;
    dst_sel = s->words[0] >> 20 & 3;
    dst = amdsim_address(s->words + 3);
    n_bytes = s->words[5] & 0x3ffffff;
    if (n_bytes > max)
        return amdsim_fail(q, "%u bytes; %s takes %u in one packet", n_bytes,
                           q->gpu->chip->name, max);
    if (s->words[0] & 1)
        return amdsim_fail(q, "engine 1: compute has none but 0");
    if (dst_sel != 0 && dst_sel != 3)
        return amdsim_fail(q, "destination %u is not memory", dst_sel);
    if (s->words[5] >> 26 & 15)
        return amdsim_fail(q,
                           "word 6 is 0x%08x: registers, or an address "
                           "that stays",
                           s->words[5]);
    if (s->words[5] >> 31)
        return amdsim_fail(q, "writes that are not confirmed");
    if (src_sel == 0 || src_sel == 3)
        return amdsim_copy(q, dst, amdsim_address(s->words + 1), n_bytes);
    if (src_sel != 2)
        return amdsim_fail(q, "source %u is neither memory nor data", src_sel);
    if (s->words[2])
        return amdsim_fail(q, "data of 32 bits, and word 3 is 0x%08x",
                           s->words[2]);
    if (dst % 4 || n_bytes % 4)
        return amdsim_fail(q, "%u bytes at 0x%llx in units of 4", n_bytes,
                           (unsigned long long)dst);
    return amdsim_fill(q, dst, s->words[1], 4, n_bytes);
}

/* What an operation on caches of gfx10 and later may be limited to: all lines,
 * or the packet's range. The field has two bits at `bit`. */
static bool
is_whole_packet(struct amdsim_queue *q, uint32_t word, uint32_t bit,
                const char *name)
{
    static const char *const kinds[4] = {"all", "volatile", "range",
                                         "first and last"};
    uint32_t kind = word >> bit & 3;

    return kind == 0 || kind == 2 ||
           amdsim_fail(q,
                       "%s is %u (%s): only all lines and the range are "
                       "simulated",
                       name, kind, kinds[kind]);
}

/* Checks ACQUIRE_MEM's GCR_CNTL or RELEASE_MEM's event word, whose fields are
 * at other bits. */
static bool
check_gl2(struct amdsim_queue *q, uint32_t word, uint32_t us_bit,
          uint32_t seq_bit)
{
    if (!is_whole_packet(q, word, us_bit + 1, "GL2_RANGE"))
        return false;
    if (word >> us_bit & 1)
        return amdsim_fail(q, "GL2_US is not simulated");
    if (word >> (us_bit + 3) & 1)
        return amdsim_fail(q, "GL2_DISCARD: what kernels stored would be lost");
    return (word >> seq_bit & 3) != 3 || amdsim_fail(q, "SEQ is 3");
}

static bool
release_mem(struct amdsim_queue *q, const struct stream *s)
{
    uint32_t data_sel, int_sel, event;
    uint64_t va, data;

    if (!packet_has_shape(q, s, 7))
        return false;
    event = s->words[0];
    data_sel = s->words[1] >> 29;
    int_sel = s->words[1] >> 24 & 7;
    va = amdsim_address(s->words + 2);
    data = amdsim_address(s->words + 4);
    if (!amdsim_reserved(q, event,
                         q->gpu->chip->gfx == 9 ? 0x163bbf3f : 0x17fffF3f, 1) ||
        !amdsim_reserved(q, s->words[1], 0xe7030000, 2))
        return false;
    if (!q->desc.eop_va)
        return amdsim_fail(q, "the queue has no end-of-pipe buffer");
    if ((event & 0x3f) != 0x14 && (event & 0x3f) != 0x28)
        return amdsim_fail(q, "event 0x%x", event & 0x3f);
    if (q->gpu->chip->gfx > 9 && !check_gl2(q, event, 16, 22))
        return false;
    amdsim_do_cache(q, amdsim_cache_release_ops(q->gpu->chip->gfx, event));
    switch (data_sel) {
    case 0:
        break;
    case 1:
        if (!amdsim_store32(q, va, (uint32_t)data, "value"))
            return false;
        break;
    case 2:
        if (!amdsim_store64(q, va, data, "value"))
            return false;
        break;
    case 3:
        if (!amdsim_store64(q, va, amdsim_clock(q->gpu), "time") ||
            !amdsim_dump_time(q, va, 8))
            return false;
        break;
    default:
        return amdsim_fail(q, "data selection %u", data_sel);
    }
    if (int_sel == 1 || int_sel == 2)
        q->desc.interrupt(q->desc.user, s->words[6] & 0xfffffff);
    else if (int_sel)
        return amdsim_fail(q, "interrupt selection %u", int_sel);
    return true;
}

static bool
check_gcr(struct amdsim_queue *q, uint32_t gcr)
{
    if (gcr >> 18 & 1)
        return amdsim_fail(q, "RANGE_IS_PA: a user's queue has none");
    if ((gcr & 3) == 3)
        return amdsim_fail(q, "GLI_INV is 3 (first and last): only all lines "
                              "and the range are simulated");
    return is_whole_packet(q, gcr, 2, "GL1_RANGE") && check_gl2(q, gcr, 10, 16);
}

static bool
acquire_mem(struct amdsim_queue *q, const struct stream *s)
{
    bool gfx9 = q->gpu->chip->gfx == 9;
    bool instructions;

    if (!packet_has_shape(q, s, gfx9 ? 6 : 7))
        return false;
    if (gfx9 && !amdsim_reserved(q, s->words[0], 0x7ec48038, 1))
        return false;
    if (!gfx9 && !amdsim_reserved(q, s->words[6], 0x0007ffff, 7))
        return false;
    if (!gfx9 && s->words[0])
        return amdsim_fail(q, "COHER_CNTL 0x%x on compute", s->words[0]);
    if (s->words[1] != ~0u || (s->words[2] & 0xff) != 0xff || s->words[3] ||
        s->words[4])
        return amdsim_fail(q, "a range of 0x%08x%08x at 0x%08x%08x",
                           s->words[2], s->words[1], s->words[4], s->words[3]);
    if (!gfx9 && !check_gcr(q, s->words[6]))
        return false;
    amdsim_do_cache(
        q, amdsim_cache_acquire_ops(q->gpu->chip->gfx, s->words[gfx9 ? 0 : 6]));
    instructions = gfx9 ? s->words[0] >> 29 & 1 : (s->words[6] & 3) != 0;
    if (instructions)
        amd_code_invalidate(q->gpu->code);
    return true;
}

static bool
event_write(struct amdsim_queue *q, const struct stream *s)
{
    if (!packet_has_shape(q, s, 1) ||
        !amdsim_reserved(q, s->words[0], 0xf3f, 1))
        return false;
    /* CS_PARTIAL_FLUSH: launches end before the next packet here */
    return s->words[0] == 0x407 ||
           amdsim_fail(q, "event word 0x%x", s->words[0]);
}

static bool
dispatch_direct(struct amdsim_queue *q, const struct stream *s)
{
    if (!packet_has_shape(q, s, 4))
        return false;
    return amdsim_dispatch(q, s->words, s->words[3]);
}

/* ---- streams ---- */

/* Indirect buffers do not nest: the depth is two at most. */
static bool
indirect_buffer(struct amdsim_queue *q, const struct stream *s)
{
    struct amdsim_buffer buffer = {0};

    if (!packet_has_shape(q, s, 3))
        return false;
    if (s->buffer)
        return amdsim_fail(q, "an indirect buffer in another one");
    if (!amdsim_reserved(q, s->words[2], 0x30cfffff | 1u << 23, 3))
        return false;
    if (!(s->words[2] >> 23 & 1))
        return amdsim_fail(q, "the valid bit is not set");
    buffer.va = amdsim_address(s->words);
    buffer.n_dw = s->words[2] & 0xfffff;
    return amdsim_pm4_buffer(q, &buffer) == AMDSIM_STEP_DONE;
}

static bool
pred_exec(struct amdsim_queue *q, struct stream *s)
{
    assert(q->xcc < AMDSIM_MAX_XCC);
    if (!packet_has_shape(q, s, 1) ||
        !amdsim_reserved(q, s->words[0], 0xff003fff, 1))
        return false;
    if (!s->buffer)
        return amdsim_fail(q, "outside of an indirect buffer");
    if (q->gpu->chip->n_xcc == 1)
        return amdsim_fail(q, "on a chip of one die");
    s->buffer->predicated = s->words[0] & 0x3fff;
    s->buffer->skips = !(s->words[0] >> (24 + q->xcc) & 1);
    return true;
}

struct opcode {
    uint32_t number;
    const char *name;
    bool (*run)(struct amdsim_queue *q, const struct stream *s);
};

static bool
nop(struct amdsim_queue *q, const struct stream *s)
{
    (void)q;
    (void)s;
    return true;
}

static const struct opcode opcodes[] = {
    {0x10, "NOP", nop},
    {0x15, "DISPATCH_DIRECT", dispatch_direct},
    {0x1e, "ATOMIC_MEM", atomic_mem},
    {0x37, "WRITE_DATA", write_data},
    {0x3c, "WAIT_REG_MEM", wait_reg_mem},
    {0x3f, "INDIRECT_BUFFER", indirect_buffer},
    {0x40, "COPY_DATA", copy_data},
    {0x46, "EVENT_WRITE", event_write},
    {0x49, "RELEASE_MEM", release_mem},
    {0x50, "DMA_DATA", dma_data},
    {0x58, "ACQUIRE_MEM", acquire_mem},
    {0x76, "SET_SH_REG", set_sh_reg},
};

static bool
run_pm4_packet(struct amdsim_queue *q, uint32_t header, struct stream *s)
{
    uint32_t number = header >> 8 & 0xff;
    size_t i;

    amdsim_step_packet(q, SIM_WORDS_PM4, header, s->words,
                       number == 0x10 ? 1 : 1 + s->n_dw);
    if (header & 0xff)
        return amdsim_fail(q, "header 0x%08x: reserved bits", header);
    if (number == 0x23) {
        q->place.name = "PRED_EXEC";
        return pred_exec(q, s);
    }
    for (i = 0; i < ARRAY_LEN(opcodes); i++) {
        if (opcodes[i].number == number) {
            q->place.name = opcodes[i].name;
            return opcodes[i].run(q, s);
        }
    }
    /* guess: that it is called unsupported, not reserved */
    return amdsim_fail_packet(q, EXCEPTION_UNSUPPORTED,
                              "opcode 0x%x is not known", number);
}

/* Words of the packet after its header. */
static uint32_t
body_dw(uint32_t header)
{
    uint32_t count = header >> 16 & 0x3fff;

    /* a NOP with all ones is one word */
    return (header >> 8 & 0xff) == 0x10 && count == 0x3fff ? 0 : count + 1;
}

static bool
is_type3(struct amdsim_queue *q, uint32_t header)
{
    return header >> 30 == 3 ||
           amdsim_fail(q, "header 0x%08x is not of type 3", header);
}

/* Packets are read one by one: one may take long, and memory may be unmapped
 * meanwhile. */
enum amdsim_step
amdsim_pm4_buffer(struct amdsim_queue *q, struct amdsim_buffer *buffer)
{
    struct stream s = {.buffer = buffer, .words = q->body};

    if (buffer->va & 3) {
        (void)amdsim_fail(q, "indirect buffer at 0x%llx",
                          (unsigned long long)buffer->va);
        return AMDSIM_STEP_FAILED;
    }
    while (buffer->at < buffer->n_dw) {
        uint64_t here = buffer->va + 4ull * buffer->at;
        uint32_t left = buffer->n_dw - buffer->at, used = buffer->predicated;
        bool skip = used && buffer->skips;
        uint32_t header, n;

        q->place = (struct amdsim_place){here, "packet"};
        if (amdsim_ends(q) ||
            !amdsim_read(q, here, &header, 4, "indirect buffer") ||
            !is_type3(q, header))
            return AMDSIM_STEP_FAILED;
        n = body_dw(header);
        if (n > left - 1) {
            (void)amdsim_fail(q, "%u words, and %u are left", n + 1, left);
            return AMDSIM_STEP_FAILED;
        }
        if (!amdsim_read(q, here + 4, q->body, 4ull * n, "indirect buffer"))
            return AMDSIM_STEP_FAILED;
        s.n_dw = n;
        if (used && n + 1 > used) {
            (void)amdsim_fail(q, "PRED_EXEC ends within it");
            return AMDSIM_STEP_FAILED;
        }
        q->waits = false;
        if (!skip && !run_pm4_packet(q, header, &s))
            return q->waits ? AMDSIM_STEP_WAITS : AMDSIM_STEP_FAILED;
        if (used)
            buffer->predicated -= n + 1;
        buffer->at += n + 1;
    }
    return AMDSIM_STEP_DONE;
}

/* ---- the ring ---- */

static bool
read_ring(struct amdsim_queue *q, uint64_t at, uint32_t *words, uint32_t n)
{
    uint32_t ring_dw = q->desc.ring_bytes / 4, i;

    for (i = 0; i < n; i++) {
        uint64_t va = q->desc.ring_va + (at + i) % ring_dw * 4;
        if (!amdsim_read(q, va, &words[i], 4, "ring"))
            return false;
    }
    return true;
}

bool
amdsim_pm4_run(struct amdsim_queue *q, uint64_t put)
{
    uint32_t ring_dw = q->desc.ring_bytes / 4;
    uint32_t body[64], header, n;
    struct stream s = {.words = body};

    assert(is_pow2(q->desc.ring_bytes) && q->get <= put);
    if (put < q->get || put - q->get > ring_dw)
        return amdsim_fail(q, "write pointer %llu, read pointer %llu",
                           (unsigned long long)put, (unsigned long long)q->get);
    while (q->get < put) {
        q->place = (struct amdsim_place){q->desc.ring_va + q->get % ring_dw * 4,
                                         "packet"};
        (void)sim_walk_pause(&q->walk);
        if (amdsim_ends(q) || !read_ring(q, q->get, &header, 1) ||
            !is_type3(q, header))
            return false;
        n = body_dw(header);
        if (n + 1 > put - q->get)
            return amdsim_fail(q, "%u words, and %llu were submitted", n + 1,
                               (unsigned long long)(put - q->get));
        s.n_dw = n;
        if ((header >> 8 & 0xff) == 0x10)
            n = n < ARRAY_LEN(body) ? n : 0; /* not looked at */
        if (n > ARRAY_LEN(body))
            return amdsim_fail(q, "a packet of %u words in the ring", n);
        if (!read_ring(q, q->get + 1, body, n) ||
            !run_pm4_packet(q, header, &s))
            return false;
        q->get += s.n_dw + 1;
        if (!amdsim_store32(q, q->desc.rptr_va, (uint32_t)(q->get % ring_dw),
                            "read pointer"))
            return false;
    }
    return true;
}
