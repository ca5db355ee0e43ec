/* Generations and chips: the only place that tells them apart.
 * src: hw/qcom/BRINGUP.md 3, 5. */
#include "base/bits.h"
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

/* Ids name core, major and minor up to a730, and mean nothing from then on. */
#define REVISIONS 0xffffff00u

static const struct qcom_chip chips[] = {
    {"a630", 0x06030000, REVISIONS, &a6xx, 2, 2048, 96, 64, false, false, 0,
     0x108000, 0x1430, 0x80000, 0x10000001, 4},
    {"a640", 0x06040000, REVISIONS, &a6xx, 2, 8192, 96, 64, false, false, 0,
     0x8000, 0x420, 0, 1, 4},
    {"a650", 0x06050000, REVISIONS, &a6xx, 3, 4096, 64, 127, false, false,
     0x1000000, 0x1008000, 0x1400, 0, 1, 4},
    {"a660", 0x06060000, REVISIONS, &a6xx, 3, 4096, 64, 127, true, false,
     0x1000000, 0x5008000, 0x1400, 0, 1, 0x84},
    {"a690", 0x06090000, REVISIONS, &a6xx, 8, 4096, 64, 127, true, true,
     0x1200000, 0x4c00000, 0x1400, 0, 1, 0x84},
    {"a730", 0x07030001, UINT32_MAX, &a7xx, 4, 4096, 96, 127, false, false,
     0x10000000, 0x1000000, 0x1440, 0, 0x3200000, 0x84},
    {"a740", 0x43050a01, UINT32_MAX, &a7xx, 6, 4096, 96, 127, false, false,
     0x10000000, 0x11100000, 0x10001400, 0, 0, 0x84},
    {"a750", 0x43051401, UINT32_MAX, &a7xx_3, 6, 4096, 96, 127, false, false,
     0x10000000, 0x11100000, 0x10000400, 0, 0x40000000, 0},
};

const struct qcom_chip *
qcom_chip_find(uint32_t chip_id)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if ((chip_id & chips[i].id_mask) == chips[i].id)
            return &chips[i];
    }
    return NULL;
}
