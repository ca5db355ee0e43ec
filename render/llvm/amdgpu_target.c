/* The AMD chips that code is made for. */
#include "render/llvm/amdgpu.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/chip.h"

#define HALVES [UOP_F16] = 16, [UOP_BF16] = 16
#define WIDE   [UOP_F32] = 4, [UOP_F64] = 4
#define BYTES  [UOP_I8] = 16, [UOP_U8] = 16
#define OCP    [UOP_F8E4M3] = 16, [UOP_F8E5M2] = 16
#define FNUZ   [UOP_F8E4M3Z] = 32, [UOP_F8E5M2Z] = 32

/* By family. src: docs/hardware/amd-code.md, "Compiling",
 * "Matrix fragments" */
static const struct {
    const char *family;
    uint16_t wave_lanes;
    uint16_t max_regs; /* of a thread that code should use */
    enum uop_wmma_layout matrix_layout;
    uint8_t matrix_k[UOP_DTYPE_COUNT]; /* as in struct lower_target */
    uint8_t tf32_k[UOP_DTYPE_COUNT];   /* instead, where TF32 is allowed */
} families[] = {
    /* clang-format off */
    /* gfx908 has MFMA, of registers of their own: it is not used. */
    {"gfx906", 64, 256, UOP_WMMA_CDNA, {0}, {0}},
    /* gfx90a's MFMA takes subnormal halves and bfloats for 0; those of bfloats
     * are below 1.2e-38. src: MIOpen's documentation, "MI200 matrix fused
     * multiply-add (MFMA) behavior specifics". MFMA's bytes are signed. */
    {"gfx90a", 64, 256, UOP_WMMA_CDNA,
     {WIDE, [UOP_BF16] = 16, [UOP_I8] = 16}, {[UOP_F16] = 16}},
    {"gfx942", 64, 256, UOP_WMMA_CDNA,
     {WIDE, HALVES, FNUZ, [UOP_I8] = 32}, {[UOP_F32] = 8}}, /* XF32 */
    {"gfx1010", 32, 256, UOP_WMMA_RDNA3, {0}, {0}},
    {"gfx1030", 32, 256, UOP_WMMA_RDNA3, {0}, {0}},
    {"gfx1100", 32, 256, UOP_WMMA_RDNA3, {HALVES, BYTES}, {0}},
    {"gfx1201", 32, 256, UOP_WMMA_RDNA4, {HALVES, BYTES, OCP}, {0}},
    /* clang-format on */
};

/* Takes over what differs where TF32 is allowed; false if nothing does. */
static bool
allow_tf32(const uint8_t tf32_k[UOP_DTYPE_COUNT],
           uint8_t matrix_k[UOP_DTYPE_COUNT])
{
    bool any = false;
    size_t i;

    for (i = 0; i < UOP_DTYPE_COUNT; i++) {
        if (!tf32_k[i])
            continue;
        matrix_k[i] = tf32_k[i];
        any = true;
    }
    return any;
}

bell_status
render_amdgpu_lower_target(const struct amdgpu_target *target,
                           struct lower_target *out_target)
{
    struct lower_target t = {
        .vector_bytes = 16,
        .n_vector_regs = 32, /* 16 bytes each: half of a thread's registers */
        .n_threads = 1024,
        .l1_bytes = 32 * 1024,
        .l2_bytes = 4 * 1024 * 1024,
        .has_fma = true,
        .has_f16 = true,
        .narrow_index = true,
        .is_gpu = true,
        .max_threads = 1024,
        .max_shared_bytes = 64 * 1024,
        /* an AQL packet counts work-items in 32 bits */
        .max_grid = {UINT32_MAX / 1024, 65535, 65535},
    };
    const struct chip_arch *chip = chip_arch_find(target->gfx);
    const char *why = chip_why_refused(target->gfx);
    char known[256];
    size_t i;

    for (i = 0; chip && i < ARRAY_LEN(families); i++) {
        if (!chip->amd.family || strcmp(families[i].family, chip->amd.family))
            continue;
        t.warp_lanes = families[i].wave_lanes;
        t.n_units = chip->amd.max_units;
        t.max_regs = families[i].max_regs;
        memcpy(t.matrix_k, families[i].matrix_k, sizeof(t.matrix_k));
        t.matrix_layout = families[i].matrix_layout;
        t.is_tf32 = target->tf32 && allow_tf32(families[i].tf32_k, t.matrix_k);
        t.is_approx = target->approx;
        snprintf(t.name, sizeof(t.name), "%s-llvm19%s%s", chip->name,
                 t.is_tf32 ? "-tf32" : "", t.is_approx ? "-approx" : "");
        *out_target = t;
        return BELL_OK;
    }
    if (why)
        return bell_fail(BELL_E_UNSUPPORTED, "%s", why);
    chip_arch_list("AMD", known, sizeof(known));
    return bell_fail(BELL_E_UNSUPPORTED, "'%.15s' is not known; known: %s",
                     target->gfx, known);
}
