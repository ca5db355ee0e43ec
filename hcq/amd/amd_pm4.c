/* Words of compute queues: type 3 packets.
 *
 * On a chip of several dies an indirect buffer runs on every one of them: what
 * is to happen once is for the first die alone. src:
 * docs/hardware/amd-queues.md, "Several dies". The dies do not share their
 * second level of caches: what the first one writes alone stands between
 * write-backs and invalidations on all of them.
 *
 * Nobody has said that the packet behind a buffer, whose barrier bit is set,
 * waits for the buffer's end on every die: so every die waits for signals by
 * itself, which grow. Polls are for words that may change again: the first die
 * looks, and lets the others go on.
 *
 * A launch among the words of an indirect buffer is dealt out to the dies by
 * registers: each takes every n-th group, from that of its own number on. All
 * of them have to be done, with what they stored out of their caches, before
 * any begins the next: they meet, by counting in memory.
 *
 * Sources: KFD puts those registers into AQL queues' descriptors
 * (kfd_mqd_manager_v9.c, init_mqd_v9_4_3), as numbers that begin anywhere;
 * tinygrad, from commit 5908b89f71 to 75678b2cbe, set them by packets on eight
 * PM4 queues of an MI300X, one a die, and met in this way (xcc_config,
 * xcc_barrier of ops_amd.py; there both words count each time). Nobody is known
 * to have done so on an AQL queue.
 *
 * Behind a wait for others their writes are visible: those of the host in the
 * card's window (HDP), those of copy engines and of other cards in the second
 * level of caches.
 *
 * Waits compare 32 bits. A wait for a 64-bit value looks at the upper half
 * first, then at the lower one. Where signals grow it never ends too early. It
 * lasts too long, maybe forever, if the signal has passed a multiple of 2^32
 * beyond the value when the queue looks, and its lower half is less than the
 * value's: polls one after the other cannot say "or".
 *
 * A fresh stream's wait looks at the upper half alone if that is so already
 * when it is emitted (amd_encode.c). A 64-bit comparison would end this:
 * WAIT_REG_MEM64 is a lead, for gfx10 and later only, and SDMA has none.
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"

#define WAIT_INTERVAL 4u
#define ALL_BITS      0xffffffffu

/* Registers of the HDP flush: to be written, and to be looked at.
 * src: docs/hardware/amd-kernel.md, "HDP" */
#define HDP_FLUSH_REQUEST 0xe26u
#define HDP_FLUSH_DONE    0xe27u

#define GFX9_INTERVAL 10u /* of ACQUIRE_MEM, as a working driver has it */
#define LDS_UNIT      512u
#define LDS_SHIFT     15u
#define PRIV_BIT      (1u << 20)

/* Words that set where scratch is. */
#define SCRATCH_DW (AMD_PM4_SET_SH_REG_DW + 2)

/* Second word of a scratch descriptor. src: docs/hardware/amd-queues.md,
 * "Scratch" */
#define SRD_SWIZZLE (1u << 31)

/* This die's number among those that launches are dealt to. src: tinygrad,
 * ops_amd.py (regCOMPUTE_CURRENT_LOGIC_XCC_ID) */
#define LOGIC_XCC_ID 0x2e25u

/* Strides of the words where dies meet, and how often they look: as tinygrad
 * had it. */
#define MEET_STRIDE   256u
#define ADD_INTERVAL  0x10u
#define MEET_INTERVAL 0x80u

#define SINGLE_DW  AMD_PM4_PRED_EXEC_DW
#define NOP_MAX_DW 0x2000u

/* ---- small packets ------------------------------------------------------- */

/* The next n_dw words are for one die. */
static void
put_die(struct amd_push *push, uint32_t die, uint32_t n_dw)
{
    uint32_t words[AMD_PM4_PRED_EXEC_DW];

    assert(die < push->engine->dev->topology.n_xcc);
    amd_pack_pm4_pred_exec(push->engine->gen,
                           (struct amd_pm4_pred_exec){
                               .exec_count = n_dw,
                               .xcc_mask = 1u << die,
                           },
                           words);
    amd_put(push, words, AMD_PM4_PRED_EXEC_DW);
}

/* They are for the first die, where there are several. */
static void
put_single(struct amd_push *push, uint32_t n_dw)
{
    if (!push->engine->is_single)
        put_die(push, 0, n_dw);
}

static void
put_acquire(struct amd_push *push, uint32_t caches)
{
    uint32_t words[AMD_PM4_ACQUIRE_MEM_DW];

    if (!push->engine->dev->gen->has_gcr) {
        amd_pack_pm4_acquire_mem_gfx9(push->engine->gen,
                                      (struct amd_pm4_acquire_mem_gfx9){
                                          .size_lo = ALL_BITS,
                                          .size_hi = ALL_BITS,
                                          .interval = GFX9_INTERVAL,
                                      },
                                      words);
        words[1] |= caches;
        amd_put(push, words, AMD_PM4_ACQUIRE_MEM_GFX9_DW);
        return;
    }
    amd_pack_pm4_acquire_mem(push->engine->gen,
                             (struct amd_pm4_acquire_mem){
                                 .size_lo = ALL_BITS,
                                 .size_hi = ALL_BITS,
                             },
                             words);
    words[7] |= caches;
    amd_put(push, words, AMD_PM4_ACQUIRE_MEM_DW);
}

static inline __attribute__((always_inline)) void
pm4_release(struct amd_push *push, struct amd_pm4_release_mem release,
            uint32_t caches)
{
    uint32_t words[AMD_PM4_RELEASE_MEM_DW];

    assert(release.address % 4 == 0);
    release.event_type = AMD_PM4_EVENT_CACHE_FLUSH_AND_INV_TS;
    release.event_index = AMD_PM4_EVENT_INDEX_END_OF_PIPE;
    amd_pack_pm4_release_mem(push->engine->gen, release, words);
    words[1] |= caches;
    amd_put(push, words, AMD_PM4_RELEASE_MEM_DW);
}

/* Headers of the packet know a wait that can be preempted; whether firmware
 * leaves the other one is not known, and nobody is known to use this one on a
 * queue of KFD. src: Linux 6.12, soc15d.h and nvd.h,
 * PACKET3_WAIT_REG_MEM__OPERATION: 3, wait_mem_preemptable */
static enum amd_pm4_wait_operation
wait_operation(const struct amd_push *push)
{
    return push->engine->dev->yields ? AMD_PM4_WAIT_OPERATION_WAIT_PREEMPTABLE
                                     : AMD_PM4_WAIT_OPERATION_WAIT;
}

/* Goes on when (word & mask) compares with the reference: each die by
 * itself. */
static void
pm4_wait(struct amd_push *push, uint64_t va, enum amd_pm4_wait_function how,
         uint32_t reference, uint32_t mask)
{
    uint32_t words[AMD_PM4_WAIT_REG_MEM_DW];

    assert(va % 4 == 0);
    amd_pack_pm4_wait_reg_mem(push->engine->gen,
                              (struct amd_pm4_wait_reg_mem){
                                  .function = how,
                                  .space = AMD_PM4_SPACE_MEMORY,
                                  .operation = wait_operation(push),
                                  .address = va,
                                  .reference = reference,
                                  .mask = mask,
                                  .interval = WAIT_INTERVAL,
                              },
                              words);
    amd_put(push, words, AMD_PM4_WAIT_REG_MEM_DW);
}

static void
pm4_write(struct amd_push *push, uint64_t va, uint64_t value, uint32_t n_words)
{
    uint32_t words[AMD_PM4_WRITE_DATA_DW + 2];

    assert(n_words == 1 || n_words == 2);
    amd_pack_pm4_write_data(push->engine->gen,
                            (struct amd_pm4_write_data){
                                .count = 2 + n_words,
                                .dst_sel = AMD_PM4_WRITE_DST_MEMORY,
                                .wr_confirm = true,
                                .address = va,
                            },
                            words);
    words[AMD_PM4_WRITE_DATA_DW] = (uint32_t)value;
    words[AMD_PM4_WRITE_DATA_DW + 1] = (uint32_t)(value >> 32);
    amd_put(push, words, AMD_PM4_WRITE_DATA_DW + n_words);
}

/* Words of the packets of a gate, for each die but the first. */
#define GATE_WAIT_DW AMD_PM4_WAIT_REG_MEM_DW
#define GATE_SET_DW  (AMD_PM4_WRITE_DATA_DW + 1)
#define GATE_DW      (2 * (SINGLE_DW + GATE_WAIT_DW + GATE_SET_DW))

/* The first die has come to here when the others go on. Each has a word: the
 * first one sets it when it is 0, the other clears it when it is 1. */
static void
put_gate(struct amd_push *push)
{
    uint32_t n = push->engine->dev->topology.n_xcc, i;

    assert(!push->engine->is_single && push->engine->gate_va);
    for (i = 1; i < n; i++) {
        uint64_t va = push->engine->gate_va + 4ull * i;

        put_die(push, 0, GATE_WAIT_DW + GATE_SET_DW);
        pm4_wait(push, va, AMD_PM4_WAIT_FUNCTION_EQUAL, 0, ALL_BITS);
        pm4_write(push, va, 1, 1);
        put_die(push, i, GATE_WAIT_DW + GATE_SET_DW);
        pm4_wait(push, va, AMD_PM4_WAIT_FUNCTION_EQUAL, 1, ALL_BITS);
        pm4_write(push, va, 0, 1);
    }
}

/* A word may be any other a moment later: one die alone looks at it. */
static void
pm4_poll(struct amd_push *push, uint64_t va, uint32_t mask, uint32_t value)
{
    put_single(push, AMD_PM4_WAIT_REG_MEM_DW);
    pm4_wait(push, va, AMD_PM4_WAIT_FUNCTION_EQUAL, value, mask);
    if (!push->engine->is_single)
        put_gate(push);
}

/* Close before 2^32 a die that looks later might find a lower half that has
 * begun anew, and wait for ever: there one looks for all. */
static void
pm4_wait64(struct amd_push *push, uint64_t va, uint64_t value)
{
    bool is_gated =
        !push->engine->is_single && (uint32_t)value >= AMD_BORDER_FROM;
    uint32_t high = (uint32_t)(value >> 32);

    if (is_gated)
        put_single(push, (high ? 2 : 1) * AMD_PM4_WAIT_REG_MEM_DW);
    if (high)
        pm4_wait(push, va + 4, AMD_PM4_WAIT_FUNCTION_GREATER_EQUAL, high,
                 ALL_BITS);
    pm4_wait(push, va, AMD_PM4_WAIT_FUNCTION_GREATER_EQUAL, (uint32_t)value,
             ALL_BITS);
    if (is_gated)
        put_gate(push);
}

static void
put_partial_flush(struct amd_push *push)
{
    uint32_t words[AMD_PM4_EVENT_WRITE_DW];

    amd_pack_pm4_event_write(
        push->engine->gen,
        (struct amd_pm4_event_write){
            .event_type = AMD_PM4_EVENT_CS_PARTIAL_FLUSH,
            .event_index = AMD_PM4_EVENT_INDEX_PARTIAL_FLUSH,
        },
        words);
    amd_put(push, words, AMD_PM4_EVENT_WRITE_DW);
}

void
amd_pm4_nothing(struct amd_push *push, uint32_t n_dw)
{
    assert(n_dw != 1);
    while (n_dw) {
        uint32_t n = n_dw > NOP_MAX_DW + 1 ? NOP_MAX_DW : n_dw;

        *push->at++ = amd_pack_pm4_nop(push->engine->gen,
                                       (struct amd_pm4_nop){.count = n - 2});
        memset(push->at, 0, (n - 1) * sizeof(push->at[0]));
        push->at += n - 1;
        n_dw -= n;
    }
}

void
amd_pm4_indirect(const struct amd_engine *engine, uint64_t va, uint32_t n_dw,
                 uint32_t words[4])
{
    assert(n_dw > 0 && n_dw <= AMD_PM4_IB_MAX_DW && va % 4 == 0);
    amd_pack_pm4_indirect_buffer(engine->gen,
                                 (struct amd_pm4_indirect_buffer){
                                     .base = va,
                                     .size = n_dw,
                                     .valid = true,
                                 },
                                 words);
}

/* ---- registers ----------------------------------------------------------- */

static void
put_registers(struct amd_push *push, uint32_t first, const uint32_t *values,
              uint32_t n)
{
    uint32_t words[AMD_PM4_SET_SH_REG_DW];

    assert(first >= 0x2c00 && first + n <= 0x3000);
    amd_pack_pm4_set_sh_reg(push->engine->gen,
                            (struct amd_pm4_set_sh_reg){
                                .count = n,
                                .offset = first - 0x2c00,
                            },
                            words);
    amd_put(push, words, AMD_PM4_SET_SH_REG_DW);
    amd_put(push, values, n);
}

static void
put_register(struct amd_push *push, uint32_t reg, uint32_t value)
{
    put_registers(push, reg, &value, 1);
}

static void
put_programs(struct amd_push *push, const struct amd_program *prog)
{
    const struct amd_gen *gen = push->engine->dev->gen;
    uint32_t words[2];

    assert(prog->entry_va % 256 == 0);
    assert(prog->lds_bytes <= gen->max_lds_bytes);
    amd_pack_pm4_pgm(push->engine->gen,
                     (struct amd_pm4_pgm){.address = prog->entry_va}, words);
    put_registers(push, AMD_PM4_PGM, words, 2);
    words[0] = prog->rsrc1 | (gen->sets_priv ? PRIV_BIT : 0);
    words[1] = prog->rsrc2 | (prog->lds_bytes + LDS_UNIT - 1) / LDS_UNIT
                                 << LDS_SHIFT;
    put_registers(push, AMD_PM4_RSRC1, words, 2);
    if (gen->rsrc3_reg)
        put_register(push, gen->rsrc3_reg, prog->rsrc3);
}

/* ---- where dies meet ----------------------------------------------------- */

#define OPEN_DIE_DW (SINGLE_DW + AMD_PM4_SET_SH_REG_DW + 1)

static_assert(AMD_PM4_ATOMIC_MEM_DW + AMD_PM4_WAIT_REG_MEM_DW == AMD_MEET_DW,
              "AMD_MEET_DW");

/* All dies have come to here when one goes on: each adds one, and waits until
 * the number is a multiple of theirs, which is a power of two. It is another
 * word than the last time: who has passed that may be seen to add again before
 * the last one looks. */
static void
put_meet(struct amd_push *push)
{
    const struct amd_engine *engine = push->engine;
    uint64_t va = engine->meet_va + push->n_meets++ % 2 * MEET_STRIDE;
    uint32_t words[AMD_MEET_DW];

    assert(engine->meet_va && is_pow2(engine->dev->topology.n_xcc));
    amd_pack_pm4_atomic_mem(engine->gen,
                            &(struct amd_pm4_atomic_mem){
                                .atomic = AMD_PM4_ATOMIC_OP_ADD_RTN_32,
                                .address = va,
                                .src = 1,
                                .interval = ADD_INTERVAL,
                            },
                            words);
    amd_pack_pm4_wait_reg_mem(engine->gen,
                              (struct amd_pm4_wait_reg_mem){
                                  .function = AMD_PM4_WAIT_FUNCTION_EQUAL,
                                  .space = AMD_PM4_SPACE_MEMORY,
                                  .operation = wait_operation(push),
                                  .address = va,
                                  .mask = engine->dev->topology.n_xcc - 1,
                                  .interval = MEET_INTERVAL,
                              },
                              words + AMD_PM4_ATOMIC_MEM_DW);
    amd_put(push, words, AMD_MEET_DW);
}

uint32_t
amd_pm4_open_dw(const struct amd_engine *engine)
{
    return AMD_PM4_SET_SH_REG_DW + 1 +
           engine->dev->topology.n_xcc * OPEN_DIE_DW + AMD_MEET_DW;
}

void
amd_pm4_open(struct amd_push *push)
{
    uint32_t i;

    if (!amd_dies_meet(push->engine))
        return;
    put_register(push, AMD_PM4_TG_CHUNK_SIZE, 1);
    for (i = 0; i < push->engine->dev->topology.n_xcc; i++) {
        put_die(push, i, OPEN_DIE_DW - SINGLE_DW);
        put_register(push, LOGIC_XCC_ID, i);
    }
    put_meet(push);
}

/* Launches, and what one die does alone while others would go on. */
static bool
parts_dies(const struct hcq_packet *packet)
{
    return packet->head.op == HCQ_OP_EXEC || amd_is_transfer(packet) ||
           packet->head.op == HCQ_OP_WRITE32 ||
           packet->head.op == HCQ_OP_WRITE64;
}

void
amd_pm4_meet(struct amd_push *push, const struct hcq_packet *packet)
{
    if (amd_dies_meet(push->engine) && parts_dies(packet))
        put_meet(push);
}

/* The next stream begins with the first word. */
void
amd_pm4_close(struct amd_push *push, const struct hcq_packet *last)
{
    if (!amd_dies_meet(push->engine))
        return;
    if (!last || !parts_dies(last))
        put_meet(push);
    if (push->n_meets % 2)
        put_meet(push);
    assert(push->n_meets % 2 == 0);
}

/* ---- launches ------------------------------------------------------------ */

/* Room for registers that a launch sets; where they are. */
static uint32_t
leave_registers(struct amd_push *push, uint32_t first, uint32_t n)
{
    static const uint32_t zeros[8] = {0};
    uint32_t at = (uint32_t)(push->at - push->piece) + AMD_PM4_SET_SH_REG_DW;

    assert(n <= ARRAY_LEN(zeros));
    put_registers(push, first, zeros, n);
    return at;
}

/* User registers in the order of the descriptor's properties: scratch
 * descriptor, arguments, scratch address.
 * src: docs/hardware/amd-code.md, "Start of a wave" */
static void
leave_user_data(struct amd_push *push, struct amd_object_properties has,
                struct amd_launch_words *launch)
{
    uint32_t at = (uint32_t)(push->at - push->piece) + AMD_PM4_SET_SH_REG_DW;
    uint32_t n = 0;

    if (has.private_segment_buffer) {
        launch->srd_at = at + n;
        n += 4;
    }
    if (has.kernarg_ptr) {
        launch->args_at = at + n;
        n += 2;
    }
    if (has.flat_scratch_init) {
        launch->flat_at = at + n;
        n += 2;
    }
    if (n)
        (void)leave_registers(push, AMD_PM4_USER_DATA(0), n);
}

/* Scratch of each die, one after the other; of one die, or of all. */
static void
leave_scratch(struct amd_push *push, const struct amd_program *prog,
              struct amd_launch_words *launch)
{
    const struct amd_device *dev = push->engine->dev;
    uint32_t i;

    if (!dev->gen->architected_scratch ||
        (!push->engine->is_single && !prog->scratch_bytes))
        return;
    launch->n_scratch = push->engine->is_single ? 1 : dev->topology.n_xcc;
    assert(launch->n_scratch == 1 || launch->n_scratch == dev->topology.n_xcc);
    for (i = 0; i < launch->n_scratch; i++) {
        uint32_t at;

        if (!push->engine->is_single)
            put_die(push, i, SCRATCH_DW);
        at = leave_registers(push, AMD_PM4_SCRATCH_BASE, 2);
        if (i == 0)
            launch->scratch_at = at;
    }
}

/* All that is the same for every launch. */
static void
put_template(struct amd_push *push, const struct amd_program *prog,
             struct amd_launch_words *launch)
{
    const struct amd_gen *gen = push->engine->dev->gen;
    struct amd_object_properties has =
        amd_unpack_object_properties(prog->properties);
    uint32_t words[AMD_PM4_DISPATCH_DIRECT_DW];

    put_acquire(push, gen->acquire_launch);
    put_programs(push, prog);
    launch->tmpring_at = leave_registers(push, AMD_PM4_TMPRING, 1);
    leave_scratch(push, prog, launch);
    (void)leave_registers(push, AMD_PM4_RESTART, 3);
    leave_user_data(push, has, launch);
    (void)leave_registers(push, AMD_PM4_LIMITS, 1);
    /* START, NUM_THREAD and the two behind them */
    launch->local_at = leave_registers(push, AMD_PM4_START, 8) + 3;
    amd_pack_pm4_dispatch_direct(
        push->engine->gen,
        (struct amd_pm4_dispatch_direct){
            .initiator = amd_pack_pm4_initiator(push->engine->gen,
                                                (struct amd_pm4_initiator){
                                                    .compute_shader_en = true,
                                                    .force_start_at_000 = true,
                                                    .cs_w32_en = has.wave32,
                                                }),
        },
        words);
    launch->grid_at = (uint32_t)(push->at - push->piece) + 1;
    amd_put(push, words, AMD_PM4_DISPATCH_DIRECT_DW);
    put_partial_flush(push);
    if (!push->engine->is_single)
        put_acquire(push, gen->acquire_dies);
}

static struct hcq_extent
launch_extent(const struct amd_program *prog, bool in_words)
{
    uint32_t n_args = prog->base.pub.n_bufs + prog->base.pub.n_vals;
    uint32_t packet_dw = HCQ_EXEC_DW + 2 * n_args;
    uint32_t n_dw = in_words ? prog->launch.n_dw : 0;
    uint32_t n_bytes = n_args * 8 + prog->hidden_bytes;

    /* A packet is no larger than what it becomes (hcq_ring.h). */
    return (struct hcq_extent){
        .n_dw = n_dw > packet_dw ? n_dw : packet_dw,
        .n_units = (n_bytes + AMD_UNIT_BYTES - 1) / AMD_UNIT_BYTES,
        .n_slots = in_words ? 0 : 2,
    };
}

void
amd_pm4_prepare(const struct amd_device *dev, struct amd_program *prog)
{
    struct amd_launch_words *launch = &prog->launch;
    struct amd_engine engine;
    struct amd_push push = {
        .engine = &engine,
        .at = launch->words,
        .piece = launch->words,
    };

    assert(prog->lds_bytes <= dev->gen->max_lds_bytes);
    amd_engine_init(&engine, dev, dev->binds_pm4 ? AMD_RING_AQL : AMD_RING_PM4);
    memset(launch, 0, sizeof(*launch));
    put_template(&push, prog, launch);
    launch->n_dw = (uint32_t)(push.at - launch->words);
    assert(launch->n_dw <= AMD_LAUNCH_DW);
    prog->base.extent = launch_extent(prog, !dev->gen->uses_aql);
    prog->base.bound =
        launch_extent(prog, !dev->gen->uses_aql || dev->binds_pm4);
}

static void
put_address(uint32_t *words, uint64_t va)
{
    words[0] = (uint32_t)va;
    words[1] = (uint32_t)(va >> 32);
}

static void
set_scratch(const struct amd_engine *engine, const struct amd_program *prog,
            uint32_t *words)
{
    const struct amd_launch_words *launch = &prog->launch;
    const struct amd_scratch *scratch = engine->scratch;
    uint32_t i;

    assert(!prog->scratch_bytes || scratch->mem.va);
    words[launch->tmpring_at] = scratch->tmpring;
    for (i = 0; i < launch->n_scratch; i++)
        put_address(words + launch->scratch_at + i * (SINGLE_DW + SCRATCH_DW),
                    (scratch->mem.va + i * scratch->xcc_bytes) >> 8);
    if (launch->flat_at)
        put_address(words + launch->flat_at, scratch->mem.va);
    if (!launch->srd_at)
        return;
    words += launch->srd_at;
    put_address(words, scratch->mem.va);
    words[1] |= SRD_SWIZZLE;
    words[2] = (uint32_t)scratch->xcc_bytes;
    words[3] =
        engine->dev->gen
            ->srd_word3[amd_unpack_object_properties(prog->properties).wave32];
}

static void
pm4_exec(struct amd_push *push, const struct hcq_exec *exec)
{
    const struct amd_program *prog = amd_program_of(exec);
    const struct amd_launch_words *launch = &prog->launch;
    uint64_t args_va = amd_push_args(push, exec);
    uint32_t *words = push->at, i;

    assert(launch->n_dw <= AMD_LAUNCH_DW && launch->n_dw > 0);
    amd_put(push, launch->words, launch->n_dw);
    set_scratch(push->engine, prog, words);
    if (launch->args_at)
        put_address(words + launch->args_at, args_va);
    for (i = 0; i < 3; i++) {
        words[launch->local_at + i] = exec->local[i];
        words[launch->grid_at + i] = exec->grid[i];
    }
}

/* ---- copies -------------------------------------------------------------- */

/* Before and after work of the first die alone. */
static void
put_exchange(struct amd_push *push)
{
    if (!push->engine->is_single)
        put_acquire(push, push->engine->dev->gen->acquire_full);
}

/* Whether a kernel does it; of a size that will be patched, whether one may. */
static bool
by_launch(const struct amd_engine *engine, const struct hcq_packet *packet)
{
    return engine->move && (packet->word[2] > engine->max_bytes ||
                            packet->head.flags & HCQ_HEAD_FIXED);
}

/* One transfer that is over before the next packet. */
static void
put_dma(struct amd_push *push, uint64_t dst, uint64_t src, bool is_data,
        uint64_t n_bytes)
{
    uint32_t words[AMD_PM4_DMA_DATA_DW];

    assert(n_bytes > 0 && n_bytes <= push->engine->max_bytes);
    amd_pack_pm4_dma_data(
        push->engine->gen,
        (struct amd_pm4_dma_data){
            .src_sel = is_data ? AMD_PM4_DMA_SRC_DATA : AMD_PM4_DMA_SRC_L2,
            .dst_sel = AMD_PM4_DMA_DST_L2,
            .cp_sync = true,
            .src = src,
            .dst = dst,
            .byte_count = (uint32_t)n_bytes,
            .raw_wait = true,
        },
        words);
    amd_put(push, words, AMD_PM4_DMA_DATA_DW);
}

static void
pm4_copy(struct amd_push *push, uint64_t dst, uint64_t src, uint64_t n_bytes)
{
    uint64_t done, n;

    for (done = 0; done < n_bytes; done += n) {
        n = n_bytes - done;
        if (n > push->engine->max_bytes)
            n = push->engine->max_bytes;
        put_dma(push, dst + done, src + done, false, n);
    }
}

/* Whole words from the packet, the rest of a word from memory. */
static void
pm4_fill(struct amd_push *push, uint64_t dst, uint32_t pattern,
         uint64_t n_bytes)
{
    uint64_t whole = n_bytes & ~3ull, done, n;

    assert(dst % 4 == 0);
    for (done = 0; done < whole; done += n) {
        n = whole - done;
        if (n > push->engine->max_bytes)
            n = push->engine->max_bytes;
        put_dma(push, dst + done, pattern, true, n);
    }
    memcpy(push->data, &pattern, sizeof(pattern));
    if (whole < n_bytes)
        put_dma(push, dst + whole, (uintptr_t)push->data, false,
                n_bytes - whole);
    push->data += AMD_UNIT_BYTES;
}

static void
pm4_transfer(struct amd_push *push, const struct hcq_packet *packet)
{
    const uint64_t *word = packet->word;
    uint64_t room[AMD_MOVE_WORDS];

    assert(amd_is_transfer(packet));
    if (push->engine->move && word[2] > push->engine->max_bytes) {
        pm4_exec(push, amd_move_exec(push->engine, packet, room));
    } else if (packet->head.op == HCQ_OP_FILL) {
        pm4_fill(push, word[0], (uint32_t)word[1], word[2]);
    } else {
        pm4_copy(push, word[0], word[1], word[2]);
        if (push->engine->move) /* a patch may make it a launch */
            push->data += AMD_UNIT_BYTES;
    }
}

/* ---- packets ------------------------------------------------------------- */

static uint32_t
flush_dw(const struct amd_engine *engine)
{
    return engine->dev->topology.has_host_memory ? 0 : AMD_PM4_WAIT_REG_MEM_DW;
}

void
amd_pm4_begin(struct amd_push *push)
{
    uint32_t words[AMD_PM4_WAIT_REG_MEM_DW];

    amd_pack_pm4_wait_reg_mem(
        push->engine->gen,
        (struct amd_pm4_wait_reg_mem){
            .function = AMD_PM4_WAIT_FUNCTION_GREATER_EQUAL,
            .space = AMD_PM4_SPACE_REGISTER,
            .operation = AMD_PM4_WAIT_OPERATION_WRITE_WAIT_WRITE,
            .address = HDP_FLUSH_REQUEST | (uint64_t)HDP_FLUSH_DONE << 32,
            .reference = ALL_BITS,
            .mask = ALL_BITS,
            .interval = WAIT_INTERVAL,
        },
        words);
    amd_put(push, words, flush_dw(push->engine));
    put_acquire(push, push->engine->dev->gen->acquire_full);
}

void
amd_pm4_signal(struct amd_push *push, uint64_t va, uint64_t value)
{
    assert(va % 8 == 0);
    put_single(push, AMD_PM4_RELEASE_MEM_DW);
    pm4_release(push,
                (struct amd_pm4_release_mem){
                    .data_sel = AMD_PM4_DATA_SEL_64BIT,
                    .address = va,
                    .data = value,
                },
                push->engine->dev->gen->release_flags);
}

/* src: docs/hardware/amd-kernel.md, "Events". tinygrad does the same behind
 * each signal. */
void
amd_pm4_wake(struct amd_push *push, uint64_t slot_va, uint32_t event_id)
{
    put_single(push, AMD_PM4_RELEASE_MEM_DW);
    pm4_release(push,
                (struct amd_pm4_release_mem){
                    .int_sel = AMD_PM4_INT_SEL_AFTER_WRITE,
                    .data_sel = AMD_PM4_DATA_SEL_32BIT,
                    .address = slot_va,
                    .data = event_id,
                    .int_context = event_id,
                },
                0);
}

/* The first release lets what is before it end; it writes nothing. */
static void
pm4_timestamp(struct amd_push *push, uint64_t va)
{
    assert(va % 8 == 0);
    put_single(push, 2 * AMD_PM4_RELEASE_MEM_DW);
    pm4_release(push,
                (struct amd_pm4_release_mem){
                    .int_sel = AMD_PM4_INT_SEL_AFTER_WRITE,
                },
                0);
    pm4_release(push,
                (struct amd_pm4_release_mem){
                    .data_sel = AMD_PM4_DATA_SEL_GPU_CLOCK,
                    .address = va,
                },
                0);
    put_acquire(push, push->engine->dev->gen->acquire_full);
}

static uint32_t
acquire_dw(const struct amd_engine *engine)
{
    return engine->dev->gen->has_gcr ? AMD_PM4_ACQUIRE_MEM_DW
                                     : AMD_PM4_ACQUIRE_MEM_GFX9_DW;
}

uint32_t
amd_pm4_dw(const struct amd_engine *engine, const struct hcq_packet *packet,
           uint32_t n_copies, bool in_words)
{
    uint32_t single = engine->is_single ? 0 : SINGLE_DW;
    uint32_t acquire = acquire_dw(engine);
    uint32_t gate =
        engine->is_single
            ? 0
            : SINGLE_DW + (engine->dev->topology.n_xcc - 1) * GATE_DW;
    uint32_t exchange = engine->is_single ? 0 : acquire;
    uint32_t begin = flush_dw(engine) + acquire;

    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        if (!(packet->head.flags & HCQ_HEAD_FIXED) &&
            (uint32_t)packet->word[1] < AMD_BORDER_FROM)
            gate = 0;
        return 2 * AMD_PM4_WAIT_REG_MEM_DW + gate + begin;
    case HCQ_OP_SIGNAL:
        return single + AMD_PM4_RELEASE_MEM_DW;
    case HCQ_OP_TIMESTAMP:
        return single + 2 * AMD_PM4_RELEASE_MEM_DW + acquire;
    case HCQ_OP_BARRIER:
        return AMD_PM4_EVENT_WRITE_DW + begin;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
        if (!in_words) /* a slot */
            return 0;
        if (by_launch(engine, packet))
            return engine->move->launch.n_dw;
        return (n_copies + (packet->head.op == HCQ_OP_FILL)) *
               AMD_PM4_DMA_DATA_DW;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        return 2 * exchange + single + AMD_PM4_WRITE_DATA_DW + 2;
    case HCQ_OP_POLL:
        return AMD_PM4_WAIT_REG_MEM_DW + gate + begin;
    case HCQ_OP_WORDS:
        return (uint32_t)packet->word[0];
    case HCQ_OP_EXEC:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        return 0;
    }
}

void
amd_pm4_packet(struct amd_push *push, const struct hcq_packet *packet)
{
    const uint64_t *word = packet->word;
    const uint32_t *words;
    uint32_t n_words;

    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        pm4_wait64(push, word[0], word[1]);
        amd_pm4_begin(push);
        break;
    case HCQ_OP_SIGNAL:
        amd_pm4_signal(push, word[0], word[1]);
        break;
    case HCQ_OP_TIMESTAMP:
        pm4_timestamp(push, word[0] + 8);
        break;
    case HCQ_OP_BARRIER:
        put_partial_flush(push);
        amd_pm4_begin(push);
        break;
    case HCQ_OP_EXEC:
        pm4_exec(push, hcq_exec_of(packet));
        break;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
        pm4_transfer(push, packet);
        break;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        n_words = packet->head.op == HCQ_OP_WRITE32 ? 1 : 2;
        put_exchange(push);
        put_single(push, AMD_PM4_WRITE_DATA_DW + n_words);
        pm4_write(push, word[0], word[1], n_words);
        put_exchange(push);
        break;
    case HCQ_OP_POLL:
        pm4_poll(push, word[0], (uint32_t)word[1], (uint32_t)word[2]);
        amd_pm4_begin(push);
        break;
    case HCQ_OP_WORDS:
        words = hcq_packet_words(packet, &n_words);
        amd_put(push, words, n_words);
        break;
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        break;
    }
}
