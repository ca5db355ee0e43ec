/* Generations: the only place that tells them apart. Chips are in base/chip.c.
 * src: docs/hardware/adreno.md, "Chips", "Static registers";
 * docs/hardware/adreno-queues.md, "Program state". */
#include <assert.h>

#include "base/chip.h"
#include "hcq/qcom/qcom.h"
#include "hcq/qcom/regs/qcom_cp.h"

static const struct qcom_gen a6xx = {
    .cp = QCOM_CP_GEN_A6XX,
    .has_demotion_regs = true,
    .preloads = true,
    .invalidate_event = QCOM_CP_EVENT_A6_CACHE_INVALIDATE,
    .clean_event = QCOM_CP_EVENT_A6_CACHE_FLUSH_TS,
    .invalidate_all = 0x000fffff,
    .invalidate_reg = QCOM_CP_HLSQ_INVALIDATE_CMD,
    .constlen_reg = QCOM_CP_HLSQ_CS_CNTL,
    .range_reg = QCOM_CP_HLSQ_CS_NDRANGE_0,
    .groups_reg = QCOM_CP_HLSQ_CS_KERNEL_GROUP_X,
    .max_const_vec4 = 256,
    .code_gen = 1,
    .end = {0x1800100000000000, 0x0300000000000000},
    .n_end = 2,
};

/* clang-format off */
#define A7XX                                                                   \
    .cp = QCOM_CP_GEN_A7XX, .has_threads = true, .has_tiles = true,            \
    .writes_64 = true,                                                         \
    .invalidate_event = QCOM_CP_EVENT_A7_CACHE_INVALIDATE,                     \
    .clean_event = QCOM_CP_EVENT_A7_CACHE_CLEAN,                               \
    .invalidate_all = 0x01fffeff,                                              \
    .invalidate_reg = QCOM_CP_HLSQ_INVALIDATE_CMD_A7,                          \
    .constlen_reg = QCOM_CP_HLSQ_CS_CNTL_A7,                                   \
    .range_reg = QCOM_CP_HLSQ_CS_NDRANGE_0_A7,                                 \
    .groups_reg = QCOM_CP_HLSQ_CS_GROUP_X_A7,                                  \
    .end = {0xfbc2100000000000, 0xe3ca000000000000, 0x0300000000000000},       \
    .n_end = 3
/* clang-format on */

static const struct qcom_gen a7xx = {
    A7XX,
    .max_const_vec4 = 512,
    .code_gen = 2,
};

static const struct qcom_gen a7xx_3 = {
    A7XX,
    .args_in_memory = true,
    .code_gen = 4,
};

static const struct qcom_gen a7xx_few = {
    A7XX,
    .max_const_vec4 = 256,
    .code_gen = 2,
};

const struct qcom_gen *
qcom_gen_of(const struct chip_arch *chip)
{
    static const struct qcom_gen *const gens[CHIP_ADRENO_GEN_COUNT] = {
        [CHIP_A6XX] = &a6xx,
        [CHIP_A7XX] = &a7xx,
        [CHIP_A7XX_FEW] = &a7xx_few,
        [CHIP_A7XX_3] = &a7xx_3,
    };

    assert(chip->adreno.gen);
    return gens[chip->adreno.gen];
}
