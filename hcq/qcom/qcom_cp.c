/* Words of the command processor: what packets of a stream become.
 *
 * Commands of a queue follow each other: a launch is waited for before the
 * next word. What shaders stored lies in a cache that all of them share (UCHE)
 * until an event writes it back; the command processor's own loads and stores
 * go past that.
 *
 * src: docs/hardware/adreno-queues.md. tests/golden/qcom_stream.c has the
 * streams of "Reference streams" there.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "hcq/qcom/qcom_move.h"
#include "hcq/qcom/regs/qcom_cp.h"

#define NO_REGISTER    0xfcu
#define GROUP_ID       0xc0u /* r48.x, as code of render/ir3 has it */
#define THREAD_ID      0u    /* r0.x */
#define ISAM_GL        2u
#define TP_MODE        (0xa0u >> 2)
#define PERFCTR_ALL    0x3fu
#define TILE_WIDTH     4u
#define WAIT_CYCLES    16u
#define SHADER_UNIT    16u /* instructions: 128 bytes */
#define DIMENSIONS     3u
#define TS_WORDS       2u
#define REG_VALUES_MAX 8u
/* The alignment that Vulkan's driver asks of buffers of constants.
 * src: docs/hardware/adreno-queues.md, "Constants and descriptors" */
#define ARGS_ALIGN 64u

/* The bit that makes their number odd. */
static uint32_t
parity(uint32_t value)
{
    return (uint32_t)__builtin_popcount(value) % 2 ? 0 : 1;
}

static void
put(struct qcom_push *push, uint32_t word)
{
    *push->at++ = word;
}

static void
put_words(struct qcom_push *push, const uint32_t *words, uint32_t n)
{
    memcpy(push->at, words, n * sizeof(words[0]));
    push->at += n;
}

static uint32_t
cp_of(const struct qcom_push *push)
{
    return qcom_gen_of(push->engine->chip)->cp;
}

static void
put_header(struct qcom_push *push, uint32_t first, uint32_t n)
{
    assert(n > 0 && n < 128);
    put(push,
        qcom_pack_cp_type4(cp_of(push), (struct qcom_cp_type4){
                                            .address_parity = parity(first),
                                            .address = first,
                                            .count_parity = parity(n),
                                            .count = n,
                                        }));
}

static void
put_cp_registers(struct qcom_push *push, uint32_t first, const uint32_t *values,
                 uint32_t n)
{
    put_header(push, first, n);
    put_words(push, values, n);
}

static void
put_cp_register(struct qcom_push *push, uint32_t reg, uint32_t value)
{
    put_cp_registers(push, reg, &value, 1);
}

/* ---- caches and order --------------------------------------------------- */

static void
put_wait_idle(struct qcom_push *push)
{
    put(push, qcom_pack_cp_wait_for_idle(cp_of(push)));
}

static void
put_event(struct qcom_push *push, uint32_t event)
{
    uint32_t words[QCOM_CP_EVENT_WRITE_DW];

    qcom_pack_cp_event_write(
        cp_of(push), (struct qcom_cp_event_write){.event = event}, words);
    put_words(push, words, QCOM_CP_EVENT_WRITE_DW);
}

/* Loads from here on see the memory. */
#define ACQUIRE_DW 3u
static void
put_cp_acquire(struct qcom_push *push)
{
    put_event(push, qcom_gen_of(push->engine->chip)->invalidate_event);
    put_wait_idle(push);
}

/* Memory has what was stored before; then 32 bits of `value` are stored. */
static void
put_clean(struct qcom_push *push, uint64_t va, uint32_t value)
{
    const struct qcom_gen *gen = qcom_gen_of(push->engine->chip);
    uint32_t words[QCOM_CP_EVENT_WRITE_TS_DW];

    static_assert(QCOM_CP_EVENT_WRITE_TS_DW == QCOM_CP_EVENT_WRITE7_TS_DW, "");
    if (gen->writes_64)
        qcom_pack_cp_event_write7_ts(gen->cp,
                                     (struct qcom_cp_event_write7_ts){
                                         .event = gen->clean_event,
                                         .write_src = QCOM_CP_WRITE_SRC_USER_32,
                                         .write_enabled = true,
                                         .address = va,
                                         .data = value,
                                     },
                                     words);
    else
        qcom_pack_cp_event_write_ts(gen->cp,
                                    (struct qcom_cp_event_write_ts){
                                        .event = gen->clean_event,
                                        .address = va,
                                        .data = value,
                                    },
                                    words);
    put_words(push, words, QCOM_CP_EVENT_WRITE_TS_DW);
}

void
qcom_put_flush(struct qcom_push *push)
{
    assert(push->engine->idle_va);
    put_clean(push, push->engine->idle_va, 1);
    put_wait_idle(push);
}

static void
put_mem_write(struct qcom_push *push, uint64_t va, const uint32_t *values,
              uint32_t n)
{
    uint32_t words[QCOM_CP_MEM_WRITE_DW];

    assert(n == 1 || n == 2);
    qcom_pack_cp_mem_write(cp_of(push),
                           (struct qcom_cp_mem_write){
                               .count_parity = parity(2 + n),
                               .count = 2 + n,
                               .address = va,
                           },
                           words);
    put_words(push, words, QCOM_CP_MEM_WRITE_DW);
    put_words(push, values, n);
}

/* ---- the begin of a submission ------------------------------------------- */

/* Registers that we depend on: nothing keeps them from one submission to the
 * next. src: docs/hardware/adreno-kernel.md, "Submission";
 * docs/hardware/adreno.md, "Static registers";
 * docs/hardware/adreno-queues.md, "Start of a stream" */
static void
put_static(struct qcom_push *push)
{
    const struct chip_arch *chip = push->engine->chip;

    put_cp_register(push, QCOM_CP_SP_FLOAT_CNTL, 0);
    put_cp_register(push, QCOM_CP_SP_DBG_ECO_CNTL, chip->adreno.sp_dbg_eco);
    put_cp_register(push, QCOM_CP_SP_PERFCTR_ENABLE, PERFCTR_ALL);
    put_cp_register(push, QCOM_CP_TPL1_DBG_ECO_CNTL, chip->adreno.tpl1_dbg_eco);
    put_cp_register(push, QCOM_CP_SP_CHICKEN_BITS, chip->adreno.sp_chicken);
    if (qcom_gen_of(chip)->has_demotion_regs) {
        put_cp_register(push, QCOM_CP_TPL1_UNKNOWN_B605, 0x44);
        put_cp_register(push, QCOM_CP_HLSQ_UNKNOWN_BE00, 0x80);
        put_cp_register(push, QCOM_CP_HLSQ_UNKNOWN_BE01, 0);
        put_cp_register(push, QCOM_CP_HLSQ_DBG_ECO_CNTL,
                        chip->adreno.hlsq_dbg_eco);
        put_cp_register(push, QCOM_CP_HLSQ_SHARED_CONSTS, 0);
    }
    if (chip->adreno.sets_aaf2)
        put_cp_register(push, QCOM_CP_SP_UNKNOWN_AAF2, 0x00c00000);
    put_cp_register(push, QCOM_CP_UCHE_UNKNOWN_0E12, chip->adreno.uche_0e12);
    put_cp_register(push, QCOM_CP_UCHE_CLIENT_PF, chip->adreno.uche_client_pf);
    put_cp_register(push, QCOM_CP_SP_MODE_CONTROL,
                    qcom_pack_cp_sp_mode_control(
                        cp_of(push), (struct qcom_cp_sp_mode_control){
                                         .constant_demotion_enable = true,
                                         .isammode = ISAM_GL,
                                     }));
    put_cp_register(
        push, QCOM_CP_SP_TP_MODE_CNTL,
        qcom_pack_cp_sp_tp_mode_cntl(
            cp_of(push), (struct qcom_cp_sp_tp_mode_cntl){.isammode = ISAM_GL,
                                                          .others = TP_MODE}));
}

void
qcom_engine_init(struct qcom_engine *engine, const struct chip_arch *chip)
{
    struct qcom_push push = {.engine = engine, .at = engine->begin};
    uint32_t words[QCOM_CP_THREAD_CONTROL_DW];

    memset(engine, 0, sizeof(*engine));
    engine->chip = chip;
    if (qcom_gen_of(chip)->has_threads) {
        qcom_pack_cp_thread_control(qcom_gen_of(chip)->cp,
                                    (struct qcom_cp_thread_control){
                                        .thread = 1,
                                        .concurrent_bin_disable = true,
                                    },
                                    words);
        put_words(&push, words, QCOM_CP_THREAD_CONTROL_DW);
    }
    put_cp_acquire(&push);
    put_cp_register(&push, qcom_gen_of(chip)->invalidate_reg,
                    qcom_gen_of(chip)->invalidate_all);
    put_wait_idle(&push);
    put_static(&push);
    engine->n_begin = (uint32_t)(push.at - engine->begin);
    assert(engine->n_begin <= QCOM_BEGIN_DW);
}

void
qcom_put_begin(struct qcom_push *push)
{
    put_words(push, push->engine->begin, push->engine->n_begin);
}

/* ---- launches ------------------------------------------------------------ */

uint32_t
qcom_launch_threads(const struct chip_arch *chip, uint32_t n_full_vec4,
                    bool is_wide)
{
    uint32_t regs = n_full_vec4 ? n_full_vec4 : 1;
    uint32_t n_waves = chip->adreno.file_vec4 / (regs * (is_wide ? 2 : 1)) * 2;

    return (n_waves < 16 ? n_waves : 16) * (is_wide ? 128 : 64);
}

static uint32_t
thread_size(const struct qcom_program *prog)
{
    return prog->is_wide ? QCOM_CP_THREADSIZE_THREAD128
                         : QCOM_CP_THREADSIZE_THREAD64;
}

/* 128, 192, 256 or 512 constants. */
static uint32_t
constant_mode(uint32_t n_vec4)
{
    assert(n_vec4 <= 512);
    return n_vec4 <= 128 ? 0 : n_vec4 <= 192 ? 1 : n_vec4 <= 256 ? 2 : 3;
}

/* In KiB, less one, and at least 1. */
static uint32_t
shared_size(const struct qcom_program *prog)
{
    assert(prog->shared_bytes <= 65536u);
    return prog->shared_bytes > 1024 ? (prog->shared_bytes - 1) / 1024 : 1;
}

static uint32_t
n_units(const struct qcom_program *prog)
{
    assert(prog->n_instrs > 0);
    return (prog->n_instrs + SHADER_UNIT - 1) / SHADER_UNIT;
}

static void
put_code(struct qcom_push *push, const struct qcom_program *prog)
{
    uint64_t code_va = prog->base.pub.code_va;
    uint32_t pair[2],
        memory[7] = {0, (uint32_t)code_va, (uint32_t)(code_va >> 32)};
    uint32_t cp = cp_of(push);

    assert(prog->n_full_vec4 <= 48);
    pair[0] = qcom_pack_cp_sp_cs_config(
        cp, (struct qcom_cp_sp_cs_config){.enabled = true});
    pair[1] = n_units(prog);
    put_cp_registers(push, QCOM_CP_SP_CS_CONFIG, pair, 2);
    pair[0] = qcom_pack_cp_sp_cs_ctrl_reg0(
        cp, (struct qcom_cp_sp_cs_ctrl_reg0){
                .fullregfootprint = prog->n_full_vec4,
                .branchstack = (prog->branch_depth + 1) / 2,
                .threadsize = thread_size(prog),
                .mergedregs = true,
            });
    pair[1] = qcom_pack_cp_sp_cs_ctrl_reg1(
        cp, (struct qcom_cp_sp_cs_ctrl_reg1){
                .shared_size = shared_size(prog),
                .constantrammode = constant_mode(prog->n_const_vec4),
            });
    put_cp_registers(push, QCOM_CP_SP_CS_CTRL_REG0, pair, 2);
    if (prog->fiber_bytes) {
        memory[3] = qcom_pack_cp_sp_cs_pvt_mem_param(
            cp, (struct qcom_cp_sp_cs_pvt_mem_param){.memsizeperitem =
                                                         prog->fiber_bytes});
        memory[4] = (uint32_t)prog->scratch.va;
        memory[5] = (uint32_t)(prog->scratch.va >> 32);
        memory[6] = qcom_pack_cp_sp_cs_pvt_mem_size(
            cp, (struct qcom_cp_sp_cs_pvt_mem_size){.totalpvtmemsize =
                                                        prog->sp_bytes});
    }
    put_cp_registers(push, QCOM_CP_SP_CS_FIRST_EXEC, memory, 7);
    put_cp_register(
        push, QCOM_CP_SP_CS_PVT_STACK,
        qcom_pack_cp_sp_cs_pvt_stack(
            cp, (struct qcom_cp_sp_cs_pvt_stack){.offset = prog->sp_bytes}));
}

/* Where ids go, and what waves are like. */
static void
put_ids(struct qcom_push *push, const struct qcom_program *prog)
{
    uint32_t cp = cp_of(push), ids[2];

    ids[0] = qcom_pack_cp_sp_cs_cntl_0(cp, (struct qcom_cp_sp_cs_cntl_0){
                                               .wgidconstid = GROUP_ID,
                                               .wgsizeconstid = NO_REGISTER,
                                               .wgoffsetconstid = NO_REGISTER,
                                               .localidregid = THREAD_ID,
                                           });
    ids[1] = qcom_pack_cp_sp_cs_cntl_1(
        cp, (struct qcom_cp_sp_cs_cntl_1){.linearlocalidregid = NO_REGISTER,
                                          .threadsize = thread_size(prog)});
    if (qcom_gen_of(push->engine->chip)->has_tiles) {
        put_cp_registers(push, QCOM_CP_SP_CS_CNTL_0, ids, 2);
        put_cp_register(push, QCOM_CP_SP_CS_UNKNOWN_A9BE, 0);
        return;
    }
    put_cp_registers(push, QCOM_CP_HLSQ_CS_CNTL_0, ids, 2);
    if (push->engine->chip->adreno.has_lpac) {
        put_cp_register(
            push, QCOM_CP_HLSQ_CS_CTRL_REG1,
            qcom_pack_cp_hlsq_cs_ctrl_reg1(
                cp, (struct qcom_cp_hlsq_cs_ctrl_reg1){
                        .shared_size = shared_size(prog),
                        .constantrammode = constant_mode(prog->n_const_vec4),
                    }));
        put_cp_registers(push, QCOM_CP_SP_CS_CNTL_0, ids, 2);
    }
}

static void
put_load(struct qcom_push *push, uint32_t type, uint32_t source, uint64_t va,
         uint32_t n, uint32_t n_data_dw)
{
    uint32_t words[QCOM_CP_LOAD_STATE6_FRAG_DW];

    qcom_pack_cp_load_state6_frag(
        cp_of(push),
        (struct qcom_cp_load_state6_frag){
            .count_parity = parity(3 + n_data_dw),
            .count = 3 + n_data_dw,
            .state_type = type,
            .state_src = source,
            .state_block = QCOM_CP_STATE_BLOCK_CS_SHADER,
            .num_unit = n,
            .ext_src_addr = va,
        },
        words);
    put_words(push, words, QCOM_CP_LOAD_STATE6_FRAG_DW);
}

/* Room for registers that a launch sets; where they are. */
static uint32_t
leave(struct qcom_push *push, const uint32_t *start, uint32_t first, uint32_t n)
{
    uint32_t at;

    assert(n <= REG_VALUES_MAX);
    put_header(push, first, n);
    at = (uint32_t)(push->at - start);
    memset(push->at, 0, n * sizeof(push->at[0]));
    push->at += n;
    return at;
}

/* Arguments among words that the command processor skips, and their
 * descriptor. */
static void
put_args(struct qcom_push *push, struct qcom_launch *launch,
         const uint32_t *start, uint32_t n_vec4)
{
    assert(n_vec4 > 0 && !launch->ubo_at);
    launch->args_at = (uint32_t)(push->at - start) + 1;
    qcom_put_nothing(push, 1 + ARGS_ALIGN / 4 - 1 + 4 * n_vec4);
    launch->ubo_at = (uint32_t)(push->at - start);
    qcom_put_nothing(push, QCOM_CP_LOAD_STATE6_UBO_DW);
}

static void
put_constants(struct qcom_push *push, struct qcom_launch *launch,
              const uint32_t *start, uint32_t n_args)
{
    uint32_t n_vec4 = (n_args + 1) / 2;

    if (!n_vec4)
        return;
    if (qcom_gen_of(push->engine->chip)->args_in_memory) {
        put_args(push, launch, start, n_vec4);
        return;
    }
    put_load(push, QCOM_CP_STATE_TYPE_CONSTANTS, QCOM_CP_STATE_SRC_DIRECT, 0,
             n_vec4, 4 * n_vec4);
    launch->args_at = (uint32_t)(push->at - start);
    memset(push->at, 0, 16 * (size_t)n_vec4);
    push->at += 4 * n_vec4;
}

/* All that is the same for every launch. */
static void
put_cp_template(struct qcom_push *push, const struct qcom_program *prog,
                struct qcom_launch *launch, uint32_t n_args)
{
    static const uint32_t ones[3] = {1, 1, 1};
    const struct chip_arch *chip = push->engine->chip;
    const uint32_t *start = push->at;
    bool is_long = n_units(prog) > chip->adreno.cache_units;
    uint32_t words[QCOM_CP_EXEC_CS_DW], cp = qcom_gen_of(chip)->cp;

    qcom_pack_cp_set_marker(
        cp, (struct qcom_cp_set_marker){.mode = QCOM_CP_MARKER_COMPUTE}, words);
    put_words(push, words, QCOM_CP_SET_MARKER_DW);
    put_cp_register(push, qcom_gen_of(chip)->invalidate_reg,
                    qcom_pack_cp_hlsq_invalidate_cmd(
                        QCOM_CP_GEN_A6XX, (struct qcom_cp_hlsq_invalidate_cmd){
                                              .cs_state = true,
                                              .cs_ibo = true,
                                          }));
    put_cp_register(push, qcom_gen_of(chip)->constlen_reg,
                    qcom_pack_cp_hlsq_cs_cntl(
                        QCOM_CP_GEN_A6XX, (struct qcom_cp_hlsq_cs_cntl){
                                              .constlen = (uint32_t)align_up(
                                                  prog->n_const_vec4, 4),
                                              .enabled = true,
                                          }));
    put_code(push, prog);
    if (qcom_gen_of(chip)->has_tiles) {
        put_cp_register(push, QCOM_CP_SP_CS_VGPR_CONFIG, 0);
        launch->tile_at = leave(push, start, QCOM_CP_HLSQ_CS_CNTL_1_A7, 1);
        put_cp_register(push, QCOM_CP_HLSQ_FS_CNTL_0_A7, 0);
    }
    put_ids(push, prog);
    /* An erratum of instructions that are fetched ahead.
     * src: docs/hardware/adreno-queues.md, "Program state" */
    if (is_long) {
        put_cp_register(push, QCOM_CP_SP_FS_INSTRLEN, n_units(prog));
        put_event(push, QCOM_CP_EVENT_LABEL);
    }
    if (qcom_gen_of(chip)->preloads)
        put_load(push, QCOM_CP_STATE_TYPE_SHADER, QCOM_CP_STATE_SRC_INDIRECT,
                 prog->base.pub.code_va,
                 is_long ? chip->adreno.cache_units : n_units(prog), 0);
    put_constants(push, launch, start, n_args);
    launch->range_at = leave(push, start, qcom_gen_of(chip)->range_reg, 7);
    put_cp_registers(push, qcom_gen_of(chip)->groups_reg, ones, 3);
    if (qcom_gen_of(chip)->has_tiles)
        launch->last_at =
            leave(push, start, QCOM_CP_HLSQ_CS_LAST_LOCAL_SIZE, 1);
    qcom_pack_cp_exec_cs(cp, (struct qcom_cp_exec_cs){0}, words);
    launch->exec_at = (uint32_t)(push->at - start) + 2;
    put_words(push, words, QCOM_CP_EXEC_CS_DW);
    if (is_long)
        put_event(push, QCOM_CP_EVENT_LABEL);
    put_wait_idle(push);
    /* from one launch to the next it is in the shared cache; on the 7xx not
     * only there. src: docs/hardware/adreno-queues.md, "Completion" */
    if (qcom_gen_of(chip)->has_tiles)
        put_cp_acquire(push);
}

#define TEMPLATE_DW 128u

bell_status
qcom_launch_make(const struct chip_arch *chip, struct qcom_program *prog,
                 uint32_t n_args)
{
    struct qcom_launch *launch = &prog->launch;
    uint32_t packet_dw = HCQ_EXEC_DW + 2 * n_args;
    struct qcom_engine engine = {.chip = chip};
    struct qcom_push push = {.engine = &engine};

    assert(n_args <= HCQ_ARGS_MAX && !launch->words);
    *launch = (struct qcom_launch){0};
    launch->words =
        host_alloc((TEMPLATE_DW + 2 * n_args + 2) * sizeof(launch->words[0]));
    if (!launch->words)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory",
                         prog->base.pub.name);
    push.at = launch->words;
    put_cp_template(&push, prog, launch, n_args);
    launch->n_dw = (uint32_t)(push.at - launch->words);
    assert(launch->n_dw <= TEMPLATE_DW + 2 * n_args + 2);
    /* A packet is no larger than what it becomes (hcq_ring.h). */
    prog->base.extent.n_dw =
        launch->n_dw > packet_dw ? launch->n_dw : packet_dw;
    prog->base.bound = prog->base.extent;
    return BELL_OK;
}

/* src: docs/hardware/adreno-queues.md, "Numbers of items" */
static uint32_t
tile_height(uint32_t local_y)
{
    assert(local_y > 0);
    return local_y % 8 == 0   ? 3
           : local_y % 4 == 0 ? 5
           : local_y % 2 == 0 ? 9
                              : 17;
}

uint32_t *
qcom_launch_args(const struct qcom_launch *launch, uint32_t *words)
{
    uint32_t *at = words + launch->args_at;

    assert(launch->args_at < launch->n_dw);
    /* memory of the chip is mapped by whole pages */
    return launch->ubo_at ? at + (0 - (uintptr_t)at) % ARGS_ALIGN / 4 : at;
}

static void
set_ubo(const struct qcom_push *push, const struct qcom_launch *launch,
        uint32_t *words, const uint32_t *args, uint32_t n_args)
{
    const struct qcom_mem *mem = push->mem;

    assert(mem && launch->ubo_at);
    assert((const uint8_t *)args >= (const uint8_t *)mem->cpu);
    qcom_pack_cp_load_state6_ubo(
        cp_of(push),
        (struct qcom_cp_load_state6_ubo){
            .base = mem->va + (uint64_t)((const uint8_t *)args -
                                         (const uint8_t *)mem->cpu),
            .size = (n_args + 1) / 2,
        },
        words + launch->ubo_at);
}

void
qcom_put_exec(struct qcom_push *push, const struct hcq_exec *exec)
{
    const struct qcom_program *prog =
        HCQ_CONTAINER(exec->prog, const struct qcom_program, base);
    const struct qcom_launch *launch = &prog->launch;
    const uint32_t *local = exec->local;
    uint32_t *words = push->at, *range = words + launch->range_at, i;
    uint32_t *args = qcom_launch_args(launch, words);
    uint32_t last =
        (local[0] - 1) << 2 | (local[1] - 1) << 12 | (local[2] - 1) << 22;

    assert(launch->n_dw > 0 && local[0] && local[1] && local[2]);
    assert(hcq_exec_args(exec) == 0 || launch->args_at);
    put_words(push, launch->words, launch->n_dw);
    if (launch->args_at)
        memcpy(args, exec->args, (size_t)hcq_exec_args(exec) * 8);
    if (launch->ubo_at)
        set_ubo(push, launch, words, args, hcq_exec_args(exec));
    range[0] = DIMENSIONS | last;
    for (i = 0; i < 3; i++) {
        range[1 + 2 * i] = exec->grid[i] * local[i];
        words[launch->exec_at + i] = exec->grid[i];
    }
    if (!launch->last_at)
        return;
    words[launch->last_at] = last;
    words[launch->tile_at] = qcom_pack_cp_hlsq_cs_cntl_1_a7(
        cp_of(push), (struct qcom_cp_hlsq_cs_cntl_1_a7){
                         .linearlocalidregid = NO_REGISTER,
                         .threadsize = thread_size(prog),
                         .workgrouprastorderzfirsten = true,
                         .wgtilewidth = TILE_WIDTH,
                         .wgtileheight = tile_height(local[1]),
                     });
}

/* ---- signals and memory -------------------------------------------------- */

/* Events of the 6xx store 32 bits: the upper half comes behind them. */
void
qcom_put_signal(struct qcom_push *push, uint64_t va, uint64_t value)
{
    const struct qcom_gen *gen = qcom_gen_of(push->engine->chip);
    uint32_t words[QCOM_CP_EVENT_WRITE7_TS64_DW],
        high = (uint32_t)(value >> 32);

    put_wait_idle(push);
    if (!gen->writes_64) {
        put_clean(push, va, (uint32_t)value);
        put_wait_idle(push);
        put_mem_write(push, va + 4, &high, 1);
        return;
    }
    qcom_pack_cp_event_write7_ts64(gen->cp,
                                   (struct qcom_cp_event_write7_ts64){
                                       .event = gen->clean_event,
                                       .write_src = QCOM_CP_WRITE_SRC_USER_64,
                                       .write_enabled = true,
                                       .address = va,
                                       .data = value,
                                   },
                                   words);
    put_words(push, words, QCOM_CP_EVENT_WRITE7_TS64_DW);
}

void
qcom_put_timestamp(struct qcom_push *push, uint64_t va)
{
    uint32_t words[QCOM_CP_REG_TO_MEM_DW];

    qcom_pack_cp_reg_to_mem(cp_of(push),
                            (struct qcom_cp_reg_to_mem){
                                .reg = QCOM_CP_CP_ALWAYS_ON_COUNTER,
                                .cnt = TS_WORDS,
                                .is_64bit = true,
                                .dest = va,
                            },
                            words);
    put_words(push, words, QCOM_CP_REG_TO_MEM_DW);
}

/* Stores of the command processor among those of shaders. */
static void
put_write(struct qcom_push *push, uint64_t va, uint64_t value, uint32_t n)
{
    const uint32_t values[2] = {(uint32_t)value, (uint32_t)(value >> 32)};

    qcom_put_flush(push);
    put_mem_write(push, va, values, n);
    put(push, qcom_pack_cp_wait_mem_writes(cp_of(push)));
    put_cp_acquire(push);
}

static void
put_wait_memory(struct qcom_push *push, uint64_t va, uint32_t function,
                uint32_t mask, uint32_t value)
{
    uint32_t words[QCOM_CP_WAIT_REG_MEM_DW];

    qcom_pack_cp_wait_reg_mem(cp_of(push),
                              (struct qcom_cp_wait_reg_mem){
                                  .function = function,
                                  .poll = QCOM_CP_POLL_MEMORY,
                                  .poll_addr = va,
                                  .ref = value,
                                  .mask = mask,
                                  .delay_loop_cycles = WAIT_CYCLES,
                              },
                              words);
    put_words(push, words, QCOM_CP_WAIT_REG_MEM_DW);
}

/* Halves of a signal, each no less. A lower half begins anew where the upper
 * one grows: so nothing that passes 2^32 is waited for here. */
void
qcom_put_wait(struct qcom_push *push, const struct hcq_packet *packet)
{
    const uint64_t *word = packet->word;

    assert(packet->head.op == HCQ_OP_WAIT || packet->head.op == HCQ_OP_POLL);
    if (packet->head.op == HCQ_OP_POLL) {
        put_wait_memory(push, word[0], QCOM_CP_WAIT_FUNCTION_EQ,
                        (uint32_t)word[1], (uint32_t)word[2]);
        return;
    }
    put_wait_memory(push, word[0] + 4, QCOM_CP_WAIT_FUNCTION_GE, UINT32_MAX,
                    (uint32_t)(word[1] >> 32));
    put_wait_memory(push, word[0], QCOM_CP_WAIT_FUNCTION_GE, UINT32_MAX,
                    (uint32_t)word[1]);
}

void
qcom_put_nothing(struct qcom_push *push, uint32_t n_dw)
{
    if (!n_dw)
        return;
    put(push,
        qcom_pack_cp_nop(cp_of(push), (struct qcom_cp_nop){
                                          .count_parity = parity(n_dw - 1),
                                          .count = n_dw - 1,
                                      }));
    memset(push->at, 0, (n_dw - 1) * sizeof(push->at[0]));
    push->at += n_dw - 1;
}

/* ---- packets ------------------------------------------------------------- */

#define WRITE_DW (QCOM_FLUSH_DW + QCOM_CP_MEM_WRITE_DW + 2 + 1 + ACQUIRE_DW)

uint64_t
qcom_packet_dw(const struct qcom_engine *engine,
               const struct hcq_packet *packet)
{
    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
    case HCQ_OP_POLL:
        return QCOM_FLUSH_DW + 2 * QCOM_CP_WAIT_REG_MEM_DW + QCOM_BEGIN_DW;
    case HCQ_OP_SIGNAL:
        return QCOM_SIGNAL_DW;
    case HCQ_OP_TIMESTAMP:
        return 1 + QCOM_CP_REG_TO_MEM_DW;
    case HCQ_OP_BARRIER:
        return QCOM_FLUSH_DW + ACQUIRE_DW;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
        return qcom_move_dw(engine, packet);
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        return WRITE_DW;
    case HCQ_OP_WORDS:
        return packet->word[0];
    case HCQ_OP_EXEC:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        return 0;
    }
}

static void
put_any(struct qcom_push *push, const struct hcq_packet *packet)
{
    const uint64_t *word = packet->word;
    const uint32_t *words;
    uint32_t n_words;

    assert(packet->head.op != HCQ_OP_WAIT && packet->head.op != HCQ_OP_POLL);
    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_SIGNAL:
        qcom_put_signal(push, word[0], word[1]);
        break;
    case HCQ_OP_TIMESTAMP:
        put_wait_idle(push);
        qcom_put_timestamp(push, word[0] + 8);
        break;
    case HCQ_OP_BARRIER:
        qcom_put_flush(push);
        put_cp_acquire(push);
        break;
    case HCQ_OP_EXEC:
        qcom_put_exec(push, (const struct hcq_exec *)(const void *)packet);
        break;
    case HCQ_OP_COPY:
    case HCQ_OP_FILL:
        qcom_put_move(push, packet);
        break;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        put_write(push, word[0], word[1],
                  packet->head.op == HCQ_OP_WRITE32 ? 1 : 2);
        break;
    case HCQ_OP_WORDS:
        words = hcq_packet_words(packet, &n_words);
        put_words(push, words, n_words);
        break;
    case HCQ_OP_WAIT: /* between pieces (qcom_queue.c) */
    case HCQ_OP_POLL:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        break;
    }
}

void
qcom_put_packet(struct qcom_push *push, const struct hcq_packet *packet)
{
    uint32_t *start = push->at;

    put_any(push, packet);
    assert(!(packet->head.flags & HCQ_HEAD_FIXED) ||
           (uint32_t)(push->at - start) <= packet->head.word_dw);
    if (packet->head.flags & HCQ_HEAD_FIXED)
        qcom_put_nothing(push,
                         packet->head.word_dw - (uint32_t)(push->at - start));
}
