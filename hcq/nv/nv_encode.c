/* From packets to the words that the card reads.
 *
 * All packers are those of hcq/nv/regs. Addresses were checked when the
 * packet was emitted or patched; other values come from the driver itself.
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_qmd.h"
#include "hcq/nv/regs/nv_ce.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"

void
nv_engine_init(struct nv_engine *engine, const struct nv_chip *chip,
               bool is_copy)
{
    *engine = (struct nv_engine){
        .is_copy = is_copy,
        .host_gen = chip->host->gen,
        .compute_gen = chip->compute->gen,
        .copy_gen = chip->copy->gen,
        .host = chip->host,
        .compute = chip->compute,
        .copy = chip->copy,
        .host_va_end = 1ull << chip->host->va_bits,
        .copy_va_end = 1ull << chip->copy->va_bits,
    };
}

/* ---- methods ------------------------------------------------------------- */

/* A header for n_dw words to ascending methods. */
static void
put_head(struct nv_push *push, enum nv_host_subchannel subchannel,
         uint32_t address, uint32_t n_dw)
{
    assert(n_dw > 0 && n_dw <= NV_HOST_METHOD_MAX_DW && address % 4 == 0);
    *push->at++ =
        nv_pack_host_incr(push->engine->host_gen, (struct nv_host_incr){
                                                      .address = address,
                                                      .subchannel = subchannel,
                                                      .count = n_dw,
                                                  });
}

static void
put_words(struct nv_push *push, const uint32_t *words, uint32_t n_dw)
{
    memcpy(push->at, words, n_dw * sizeof(words[0]));
    push->at += n_dw;
}

/* One method with one word. */
static void
put_word(struct nv_push *push, enum nv_host_subchannel subchannel,
         uint32_t address, uint32_t word)
{
    put_head(push, subchannel, address, 1);
    *push->at++ = word;
}

/* Nothing, n_dw words long: not 1. */
static void
put_nothing(struct nv_push *push, uint32_t n_dw)
{
    assert(n_dw != 1 && n_dw <= NV_HOST_METHOD_MAX_DW);
    if (n_dw == 0)
        return;
    *push->at++ =
        nv_pack_host_nonincr(push->engine->host_gen, (struct nv_host_nonincr){
                                                         .address = NV_HOST_NOP,
                                                         .count = n_dw - 1,
                                                     });
    memset(push->at, 0, (n_dw - 1) * sizeof(push->at[0]));
    push->at += n_dw - 1;
}

/* ---- the host engine ----------------------------------------------------- */

#define SEM_DW 6u

static void
put_sem(struct nv_push *push, struct nv_host_sem sem)
{
    uint32_t words[5];

    nv_pack_host_sem(push->engine->host_gen, sem, words);
    put_head(push, NV_HOST_SUBCHANNEL_HOST, NV_HOST_SEM, 5);
    put_words(push, words, 5);
}

/* Stores 32 or 64 bits when all before is done. */
static void
put_release(struct nv_push *push, uint64_t va, uint64_t value, bool is_64)
{
    assert(va % 4 == 0 && va < push->engine->host_va_end);
    put_sem(push, (struct nv_host_sem){
                      .offset = va,
                      .payload = value,
                      .operation = NV_HOST_SEM_OP_RELEASE,
                      .release_wfi = true,
                      .payload_size = is_64 ? NV_HOST_SEM_PAYLOAD_64BIT
                                            : NV_HOST_SEM_PAYLOAD_32BIT,
                  });
    push->busy = false;
}

/* Writes a signal's time: its record is 16 bytes, the time behind the value. */
static void
put_timestamp(struct nv_push *push, uint64_t signal_va)
{
    assert(signal_va % NV_SIGNAL_RECORD_BYTES == 0);
    put_sem(push, (struct nv_host_sem){
                      .offset = signal_va + NV_SIGNAL_RECORD_BYTES,
                      .operation = NV_HOST_SEM_OP_RELEASE,
                      .release_wfi = true,
                      .payload_size = NV_HOST_SEM_PAYLOAD_64BIT,
                      .release_timestamp = true,
                  });
    push->busy = false;
}

static void
put_wait(struct nv_push *push, uint64_t va, uint64_t value)
{
    assert(va % 8 == 0);
    put_sem(push, (struct nv_host_sem){
                      .offset = va,
                      .payload = value,
                      .operation = NV_HOST_SEM_OP_ACQ_CIRC_GEQ,
                      .acquire_switch_tsg = true,
                      .payload_size = NV_HOST_SEM_PAYLOAD_64BIT,
                  });
}

static void
put_acquire32(struct nv_push *push, enum nv_host_sem_op op, uint64_t va,
              uint32_t value)
{
    put_sem(push, (struct nv_host_sem){
                      .offset = va,
                      .payload = value,
                      .operation = op,
                      .acquire_switch_tsg = true,
                      .payload_size = NV_HOST_SEM_PAYLOAD_32BIT,
                  });
}

/* A whole word is one comparison. Some bits are awaited one after the other,
 * where the host engine has the operations for that: AND is met by a common
 * bit, NOR by a bit that is 0 in both. A value with bits outside of the mask is
 * never there. */
static void
put_poll(struct nv_push *push, uint64_t va, uint32_t mask, uint32_t value)
{
    uint32_t bit;

    if (mask == UINT32_MAX) {
        put_acquire32(push, NV_HOST_SEM_OP_ACQUIRE, va, value);
        return;
    }
    if (value & ~mask) {
        put_acquire32(push, NV_HOST_SEM_OP_ACQ_AND, va, 0);
        return;
    }
    for (; mask; mask &= mask - 1) {
        bit = mask & -mask;
        if (value & bit)
            put_acquire32(push, NV_HOST_SEM_OP_ACQ_AND, va, bit);
        else
            put_acquire32(push, NV_HOST_SEM_OP_ACQ_NOR, va, ~bit);
    }
}

static uint32_t
poll_dw(uint32_t mask, uint32_t value)
{
    if (mask == UINT32_MAX || (value & ~mask))
        return SEM_DW;
    return SEM_DW * (uint32_t)__builtin_popcount(mask);
}

static void
put_host_wfi(struct nv_push *push)
{
    put_word(push, NV_HOST_SUBCHANNEL_HOST, NV_HOST_WFI,
             nv_pack_host_wfi(push->engine->host_gen,
                              (struct nv_host_wfi){
                                  .scope = NV_HOST_WFI_SCOPE_ALL,
                              }));
}

/* ---- kernels ------------------------------------------------------------- */

static void
put_compute(struct nv_push *push, uint32_t address, uint32_t word)
{
    put_word(push, NV_HOST_SUBCHANNEL_COMPUTE, address, word);
}

/* Until kernels before are done, if there may be any. */
static void
put_idle(struct nv_push *push, bool always)
{
    if (push->engine->is_copy || (!push->busy && !always))
        return;
    put_compute(push, NV_COMPUTE_WAIT_FOR_IDLE, 0);
    push->busy = false;
}

void
nv_push_idle(struct nv_push *push)
{
    put_idle(push, false);
}

void
nv_push_invalidate(struct nv_push *push)
{
    if (push->engine->is_copy)
        return;
    put_compute(
        push, NV_COMPUTE_INVALIDATE_NO_WFI,
        nv_pack_compute_invalidate_no_wfi(push->engine->compute_gen,
                                          (struct nv_compute_invalidate_no_wfi){
                                              .instruction = true,
                                              .global_data = true,
                                              .constant = true,
                                          }));
}

static void
put_barrier(struct nv_push *push)
{
    uint32_t words[4];

    put_idle(push, false);
    put_host_wfi(push);
    if (push->engine->host->has_mem_op) {
        nv_pack_host_mem_op(push->engine->host_gen,
                            (struct nv_host_mem_op){
                                .membar_type = NV_HOST_MEMBAR_SYS_MEMBAR,
                                .operation = NV_HOST_MEM_OPERATION_MEMBAR,
                            },
                            words);
        put_head(push, NV_HOST_SUBCHANNEL_HOST, NV_HOST_MEM_OP, 4);
        put_words(push, words, 4);
    }
    nv_push_invalidate(push);
}

/* Schedules the descriptor that is written next. */
static void
put_send(struct nv_push *push, uint32_t action)
{
    assert(!push->engine->is_copy && push->data_va % NV_UNIT_BYTES == 0);
    put_compute(push, NV_COMPUTE_PCAS_A,
                nv_pack_compute_pcas_a(push->engine->compute_gen,
                                       (struct nv_compute_pcas_a){
                                           .qmd_address = push->data_va,
                                       }));
    put_compute(push, NV_COMPUTE_PCAS2_B,
                nv_pack_compute_pcas2_b(push->engine->compute_gen,
                                        (struct nv_compute_pcas2_b){
                                            .pcas_action = action,
                                        }));
}

/* The first of launches that follow each other is sent; each schedules the
 * next. */
static void
put_exec(struct nv_push *push, const struct hcq_exec *exec)
{
    const struct nv_program *prog = nv_program_of(exec);

    assert(prog->data_bytes % NV_UNIT_BYTES == 0);
    if (!push->is_linked) {
        put_idle(push, false);
        put_send(push, prog->launch->action);
    }
    nv_launch_write(prog, exec->grid, exec->local, exec->args,
                    hcq_exec_args(exec), push->data_va, push->data,
                    &push->after);
    push->is_linked = push->after.links;
    push->data += prog->data_bytes;
    push->data_va += prog->data_bytes;
    push->busy = true;
}

/* ---- copies -------------------------------------------------------------- */

/* Transfers of this size and more go as lines of LINE_BYTES and a rest. */
#define LINES_FROM_BYTES (1ull << 31)
#define LINE_BYTES       (1u << 30)

#define COPY_LINES_DW 11u
#define COPY_REST_DW  9u
#define COPY_DW       (COPY_LINES_DW + COPY_REST_DW)
#define COPY_MOVE_DW  (2 * COPY_REST_DW + NV_LAUNCH_DW) /* both ends, a kernel */
/* Waits around work of the copy engine on a compute queue. */
#define AROUND_DW 4u

static void
put_copy_head(struct nv_push *push, uint32_t address, uint32_t n_dw)
{
    put_head(push, NV_HOST_SUBCHANNEL_COPY, address, n_dw);
}

/* Starts a transfer; those before are done by then, and what it wrote is
 * visible when it is. */
static void
put_launch_dma(struct nv_push *push, bool has_lines, bool is_fill)
{
    put_word(push, NV_HOST_SUBCHANNEL_COPY, NV_CE_LAUNCH_DMA,
             nv_pack_ce_launch_dma(
                 push->engine->copy_gen,
                 (struct nv_ce_launch_dma){
                     .data_transfer_type = NV_CE_TRANSFER_NON_PIPELINED,
                     .flush_enable = true,
                     .src_memory_layout = NV_CE_LAYOUT_PITCH,
                     .dst_memory_layout = NV_CE_LAYOUT_PITCH,
                     .multi_line_enable = has_lines,
                     .remap_enable = is_fill,
                 }));
}

static void
pack_address(const struct nv_engine *engine, uint64_t va, uint32_t *words)
{
    nv_pack_ce_offset_out(engine->copy_gen,
                          (struct nv_ce_offset_out){.address = va}, words);
}

static void
put_copy_lines(struct nv_push *push, uint64_t dst, uint64_t src,
               uint32_t n_lines)
{
    uint32_t words[8];

    assert(n_lines > 0);
    pack_address(push->engine, src, words);
    pack_address(push->engine, dst, words + 2);
    words[4] = words[5] = words[6] = LINE_BYTES;
    words[7] = n_lines;
    put_copy_head(push, NV_CE_OFFSET_IN, 8);
    put_words(push, words, 8);
    put_launch_dma(push, true, false);
}

static void
put_copy_rest(struct nv_push *push, uint64_t dst, uint64_t src,
              uint32_t n_bytes)
{
    uint32_t words[4];

    assert(n_bytes > 0);
    pack_address(push->engine, src, words);
    pack_address(push->engine, dst, words + 2);
    put_copy_head(push, NV_CE_OFFSET_IN, 4);
    put_words(push, words, 4);
    put_word(push, NV_HOST_SUBCHANNEL_COPY, NV_CE_LINE_LENGTH_IN, n_bytes);
    put_launch_dma(push, false, false);
}

static uint32_t
count_lines(uint64_t size_bytes)
{
    return size_bytes < LINES_FROM_BYTES ? 0
                                         : (uint32_t)(size_bytes / LINE_BYTES);
}

static void
put_copy(struct nv_push *push, uint64_t dst, uint64_t src, uint64_t size_bytes)
{
    uint32_t n_lines = count_lines(size_bytes);
    uint64_t done = (uint64_t)n_lines * LINE_BYTES;

    if (n_lines)
        put_copy_lines(push, dst, src, n_lines);
    if (done < size_bytes)
        put_copy_rest(push, dst + done, src + done,
                      (uint32_t)(size_bytes - done));
}

/* ---- fills --------------------------------------------------------------- */

#define FILL_LINES_DW 12u
#define FILL_REST_DW  10u
#define FILL_DW       (FILL_LINES_DW + 3 * FILL_REST_DW)
#define FILL_MOVE_DW  (4 * FILL_REST_DW + NV_LAUNCH_DW)
#define FAR64_DW      11u

/* Elements of n_bytes (1, 2, 4) that are all `value`. */
static void
put_fill_value(struct nv_push *push, uint32_t value, uint32_t n_bytes)
{
    uint32_t words[2] = {
        value,
        nv_pack_ce_remap_components(push->engine->copy_gen,
                                    (struct nv_ce_remap_components){
                                        .dst_x = NV_CE_REMAP_CONST_B,
                                        .component_size = n_bytes - 1,
                                    }),
    };

    assert(n_bytes == 1 || n_bytes == 2 || n_bytes == 4);
    put_copy_head(push, NV_CE_SET_REMAP_CONST_B, 2);
    put_words(push, words, 2);
}

static void
put_fill_lines(struct nv_push *push, uint64_t dst, uint32_t pattern,
               uint32_t n_lines)
{
    uint32_t words[6];

    put_fill_value(push, pattern, 4);
    pack_address(push->engine, dst, words);
    words[2] = words[3] = LINE_BYTES;
    words[4] = LINE_BYTES / 4;
    words[5] = n_lines;
    put_copy_head(push, NV_CE_OFFSET_OUT, 6);
    put_words(push, words, 6);
    put_launch_dma(push, true, true);
}

static void
put_elements(struct nv_push *push, uint64_t dst, uint32_t n)
{
    uint32_t words[2];

    assert(n > 0);
    pack_address(push->engine, dst, words);
    put_copy_head(push, NV_CE_OFFSET_OUT, 2);
    put_words(push, words, 2);
    put_word(push, NV_HOST_SUBCHANNEL_COPY, NV_CE_LINE_LENGTH_IN, n);
    put_launch_dma(push, false, true);
}

static void
put_fill(struct nv_push *push, uint64_t dst, uint32_t pattern,
         uint64_t size_bytes)
{
    uint32_t n_lines = count_lines(size_bytes);
    uint64_t end = dst + size_bytes;

    assert(dst % 4 == 0);
    if (n_lines)
        put_fill_lines(push, dst, pattern, n_lines);
    dst += (uint64_t)n_lines * LINE_BYTES;
    if (end - dst >= 4) {
        put_fill_value(push, pattern, 4);
        put_elements(push, dst, (uint32_t)((end - dst) / 4));
        dst = end - (end - dst) % 4;
    }
    if (end - dst >= 2) {
        put_fill_value(push, pattern & 0xffff, 2);
        put_elements(push, dst, 1);
        dst += 2;
        pattern >>= 16;
    }
    if (dst < end) {
        put_fill_value(push, pattern & 0xff, 1);
        put_elements(push, dst, 1);
    }
}

/* A store where the host engine does not reach: one element of one or two
 * components. */
static void
put_far_write(struct nv_push *push, uint64_t va, uint64_t value, bool is_64)
{
    uint32_t words[3] = {(uint32_t)value, (uint32_t)(value >> 32), 0};

    assert(va % (is_64 ? 8 : 4) == 0);
    if (!is_64) {
        put_fill(push, va, (uint32_t)value, 4);
        return;
    }
    words[2] = nv_pack_ce_remap_components(
        push->engine->copy_gen, (struct nv_ce_remap_components){
                                    .dst_x = NV_CE_REMAP_CONST_A,
                                    .dst_y = NV_CE_REMAP_CONST_B,
                                    .component_size = NV_CE_COMPONENTS_FOUR,
                                    .num_dst_components = NV_CE_COMPONENTS_TWO,
                                });
    put_copy_head(push, NV_CE_SET_REMAP_CONST_A, 3);
    put_words(push, words, 3);
    put_elements(push, va, 1);
}

static bool
is_far(const struct nv_engine *engine, uint64_t va)
{
    return va > engine->host_va_end - 8;
}

/* ---- packets ------------------------------------------------------------- */

/* Methods of the copy engine for so many bytes, at most. */
static uint32_t
span_dw(const struct hcq_packet *packet, uint64_t size_bytes)
{
    uint32_t n_lines = count_lines(size_bytes);
    bool has_rest = size_bytes > (uint64_t)n_lines * LINE_BYTES;

    if (packet->head.op == HCQ_OP_COPY)
        return (n_lines ? COPY_LINES_DW : 0) + (has_rest ? COPY_REST_DW : 0);
    return (n_lines ? FILL_LINES_DW : 0) + (has_rest ? FILL_REST_DW : 0) +
           FILL_REST_DW * (uint32_t)__builtin_popcountll(size_bytes & 3);
}

static uint32_t
transfer_dw(const struct nv_engine *engine, const struct hcq_packet *packet,
            bool is_fixed)
{
    uint32_t around = engine->is_copy ? 0 : AROUND_DW, edges;
    struct nv_move move = nv_move_split(engine, packet);

    if (is_fixed && packet->head.op == HCQ_OP_COPY)
        return around + (engine->move ? COPY_MOVE_DW : COPY_DW);
    if (is_fixed)
        return around + (engine->move ? FILL_MOVE_DW : FILL_DW);
    if (!move.body_bytes)
        return around + span_dw(packet, packet->word[2]);
    edges = span_dw(packet, move.head_bytes) + span_dw(packet, move.tail_bytes);
    return NV_LAUNCH_DW + (edges ? around + edges : 0);
}

static uint32_t
write_dw(const struct nv_engine *engine, const struct hcq_packet *packet,
         bool is_fixed)
{
    if (!is_fixed && !is_far(engine, packet->word[0]))
        return SEM_DW;
    return (engine->is_copy ? 0 : AROUND_DW) +
           (packet->head.op == HCQ_OP_WRITE32 ? FILL_REST_DW : FAR64_DW);
}

static uint32_t
packet_dw(const struct nv_engine *engine, const struct hcq_packet *packet)
{
    bool is_fixed = packet->head.flags & HCQ_HEAD_FIXED;

    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_BARRIER:
        return 11;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
        return transfer_dw(engine, packet, is_fixed);
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        return write_dw(engine, packet, is_fixed);
    case HCQ_OP_POLL:
        return is_fixed && engine->host->polls_bits
                   ? 32 * SEM_DW
                   : poll_dw((uint32_t)packet->word[1],
                             (uint32_t)packet->word[2]);
    case HCQ_OP_WORDS:
        return (uint32_t)packet->word[0];
    case HCQ_OP_WAIT:
    case HCQ_OP_SIGNAL:
    case HCQ_OP_TIMESTAMP:
    case HCQ_OP_EXEC:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        return SEM_DW;
    }
}

struct hcq_extent
nv_packet_extent(const struct nv_engine *engine,
                 const struct hcq_packet *packet)
{
    bool moves =
        nv_may_move(engine, packet) || nv_move_split(engine, packet).body_bytes;
    uint32_t n_dw = packet_dw(engine, packet);

    /* A packet is no larger than what it becomes (hcq_ring.h). */
    return (struct hcq_extent){
        .n_dw = n_dw > packet->head.n_dw ? n_dw : packet->head.n_dw,
        .n_units = moves ? engine->move->base.extent.n_units : 0,
    };
}

struct hcq_extent
nv_packet_measure(struct hcq_cs *cs, struct hcq_packet *packet)
{
    return nv_packet_extent(&nv_queue_of(cs->queue)->engine, packet);
}

/* Transfers, far stores and polls: their words depend on what they are given,
 * and on whether kernels run before them, which a patch does not know. */
void
nv_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
              unsigned field, struct hcq_place *place)
{
    (void)cs;
    (void)field;
    (void)place;
    if (packet->head.op != HCQ_OP_WAIT && packet->head.op != HCQ_OP_SIGNAL &&
        packet->head.op != HCQ_OP_TIMESTAMP)
        packet->head.flags |= HCQ_HEAD_FIXED;
}

/* Some bytes of a copy or fill, by the copy engine. */
static void
put_span(struct nv_push *push, const struct hcq_packet *packet, uint64_t offset,
         uint64_t size_bytes)
{
    const uint64_t *word = packet->word;

    if (packet->head.op == HCQ_OP_COPY)
        put_copy(push, word[0] + offset, word[1] + offset, size_bytes);
    else
        put_fill(push, word[0] + offset, (uint32_t)word[1], size_bytes);
}

/* Work of the copy engine is on a compute queue between kernels. */
static void
put_wait_before(struct nv_push *push, const struct hcq_packet *packet)
{
    put_idle(push, packet->head.flags & HCQ_HEAD_FIXED);
}

static void
put_wait_behind(struct nv_push *push)
{
    if (!push->engine->is_copy)
        put_host_wfi(push);
}

static void
put_transfer(struct nv_push *push, const struct hcq_packet *packet)
{
    struct nv_move move = nv_move_split(push->engine, packet);
    bool is_fixed = packet->head.flags & HCQ_HEAD_FIXED;
    uint64_t room[NV_MOVE_DW], bytes;

    if (!move.body_bytes)
        move.tail_bytes = packet->word[2];
    if (move.head_bytes || move.tail_bytes || is_fixed) {
        put_wait_before(push, packet);
        put_span(push, packet, 0, move.head_bytes);
        put_span(push, packet, move.head_bytes + move.body_bytes,
                 move.tail_bytes);
        put_wait_behind(push);
    }
    if (move.body_bytes)
        put_exec(push, nv_move_exec(push->engine, packet, &move, room));
    if (!move.body_bytes && nv_may_move(push->engine, packet)) {
        bytes = push->engine->move->data_bytes;
        push->data += bytes;
        push->data_va += bytes;
        push->busy = true; /* when it is patched, perhaps */
    }
}

static void
put_write(struct nv_push *push, const struct hcq_packet *packet)
{
    bool is_64 = packet->head.op == HCQ_OP_WRITE64;

    if (!is_far(push->engine, packet->word[0])) {
        put_release(push, packet->word[0], packet->word[1], is_64);
        return;
    }
    put_wait_before(push, packet);
    put_far_write(push, packet->word[0], packet->word[1], is_64);
    put_wait_behind(push);
}

/* What they launch, what follows waits for. */
static void
put_raw(struct nv_push *push, const struct hcq_packet *packet)
{
    uint32_t n;
    const uint32_t *words = hcq_packet_words(packet, &n);

    put_words(push, words, n);
    push->busy |= !push->engine->is_copy;
}

void
nv_push_packet(struct nv_push *push, const struct hcq_packet *packet)
{
    const uint64_t *word = packet->word;
    uint32_t *start = push->at;

    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        put_wait(push, word[0], word[1]);
        break;
    case HCQ_OP_SIGNAL:
        put_release(push, word[0], word[1], true);
        break;
    case HCQ_OP_TIMESTAMP:
        put_timestamp(push, word[0]);
        break;
    case HCQ_OP_BARRIER:
        put_barrier(push);
        break;
    case HCQ_OP_EXEC:
        put_exec(push, hcq_exec_of(packet));
        break;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
        put_transfer(push, packet);
        break;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        put_write(push, packet);
        break;
    case HCQ_OP_POLL:
        put_poll(push, word[0], (uint32_t)word[1], (uint32_t)word[2]);
        break;
    case HCQ_OP_WORDS:
        put_raw(push, packet);
        break;
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        break;
    }
    assert((uint32_t)(push->at - start) <= packet->head.word_dw);
    if (packet->head.flags & HCQ_HEAD_FIXED)
        put_nothing(push,
                    (uint32_t)(packet->head.word_dw - (push->at - start)));
}

/* ---- a channel's own ----------------------------------------------------- */

static void
put_object(struct nv_push *push, enum nv_host_subchannel subchannel,
           uint32_t class_number)
{
    put_word(push, subchannel, NV_HOST_SET_OBJECT,
             nv_pack_host_set_object(push->engine->host_gen,
                                     (struct nv_host_set_object){
                                         .nvclass = class_number,
                                     }));
}

static void
put_windows(struct nv_push *push, const struct nv_chip *chip)
{
    uint32_t words[2];

    nv_pack_compute_shared_window(push->engine->compute_gen,
                                  (struct nv_compute_shared_window){
                                      .base_address = chip->shared_window,
                                  },
                                  words);
    put_head(push, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_SHARED_WINDOW, 2);
    put_words(push, words, 2);
    nv_pack_compute_local_window(push->engine->compute_gen,
                                 (struct nv_compute_local_window){
                                     .base_address = chip->local_window,
                                 },
                                 words);
    put_head(push, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_LOCAL_WINDOW, 2);
    put_words(push, words, 2);
}

void
nv_push_setup(struct nv_push *push, const struct nv_chip *chip)
{
    put_object(push, NV_HOST_SUBCHANNEL_COPY, push->engine->copy->number);
    if (push->engine->is_copy)
        return;
    put_object(push, NV_HOST_SUBCHANNEL_COMPUTE, push->engine->compute->number);
    put_compute(push, NV_COMPUTE_INVAL_SKED, 0);
    put_compute(push, NV_COMPUTE_INVAL_SAMPLER_NO_WFI, 0);
    put_compute(push, NV_COMPUTE_INVAL_HEADER_NO_WFI, 0);
    put_windows(push, chip);
    put_compute(push, NV_COMPUTE_EXCEPTIONS,
                nv_pack_compute_exceptions(push->engine->compute_gen,
                                           (struct nv_compute_exceptions){
                                               .enable = true,
                                           }));
}

/* src: docs/hardware/nvidia-queues.md, "Local memory" */
void
nv_push_local(struct nv_push *push, const struct nv_local *local)
{
    uint32_t words[3];

    assert(local->mem.va % NV_UNIT_BYTES == 0);
    if (push->engine->is_copy)
        return;
    put_idle(push, true);
    nv_pack_compute_local_memory(push->engine->compute_gen,
                                 (struct nv_compute_local_memory){
                                     .address = local->mem.va,
                                 },
                                 words);
    put_head(push, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_LOCAL_MEMORY, 2);
    put_words(push, words, 2);
    nv_pack_compute_local_tpc_size(push->engine->compute_gen,
                                   (struct nv_compute_local_tpc_size){
                                       .size = local->tpc_bytes,
                                       .max_sm_count = 0xff,
                                   },
                                   words);
    put_head(push, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_LOCAL_TPC_SIZE, 3);
    put_words(push, words, 3);
}

void
nv_push_finish(struct nv_push *push, uint64_t va, uint64_t value)
{
    put_release(push, va, value, true);
}
