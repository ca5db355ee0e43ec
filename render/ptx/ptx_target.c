/* The chips that PTX is written for: what differs between them. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "render/ptx/ptx_internal.h"

#define FROM_89 PTX_HAS_F8
#define FROM_90                                                                \
    (FROM_89 | PTX_HAS_BF16_MATH | PTX_HAS_F64_ROWS | PTX_HAS_MULTIMEM)

/* For multimem with .acc::f32. src: docs/hardware/nvidia-code.md,
 * "Multicast" */
#define MULTIMEM_VERSION 82

/* The lowest PTX version that knows a chip, and what it has.
 * src: docs/hardware/nvidia-code.md, "PTX versions", "PTX instructions",
 * "Matrix shapes".
 * 8-bit floats: for sm_89 SageAttention2 (arXiv 2411.10958), for the others
 * what ptxas 13.0 makes of them: HMMA and F2FP, or QMMA. */
static const struct chip {
    uint16_t sm;
    uint8_t version, arch_specific_version; /* times ten; 0: no such target */
    uint8_t features, arch_specific;        /* PTX_HAS_: always, beyond that */
} chips[] = {
    {80, 70, 0, 0, 0},
    {86, 71, 0, 0, 0},
    {89, 78, 0, FROM_89, 0},
    {90, 78, 80, FROM_90 | PTX_HAS_F8_SUMS, PTX_HAS_WGMMA},
    {100, 86, 86, FROM_90 | PTX_HAS_F8_SUMS, 0},
    {120, 87, 87, FROM_90, 0},
};

static const struct chip *
find_chip(uint32_t sm)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if (chips[i].sm == sm)
            return &chips[i];
    }
    return NULL;
}

bool
render_ptx_target(const char *arch, struct ptx_target *out_target)
{
    const struct chip *chip;
    char *end = NULL;
    unsigned long sm = 0;

    if (strncmp(arch, "sm_", 3) == 0 && strlen(arch) <= strlen("sm_999"))
        sm = strtoul(arch + 3, &end, 10);
    if (!end || end == arch + 3 || *end)
        return false;
    chip = find_chip((uint32_t)sm);
    *out_target = (struct ptx_target){
        .sm = (uint32_t)sm,
        .is_arch_specific = chip && chip->arch_specific,
    };
    return true;
}

unsigned
render_ptx_version(const struct ptx_target *target)
{
    const struct chip *chip = find_chip(target->sm);

    if (!chip)
        return 0;
    return target->is_arch_specific ? chip->arch_specific_version
                                    : chip->version;
}

unsigned
render_ptx_multimem_version(const struct ptx_target *target)
{
    unsigned version = render_ptx_version(target);

    if (!(ptx_features(target) & PTX_HAS_MULTIMEM))
        return 0;
    return version > MULTIMEM_VERSION ? version : MULTIMEM_VERSION;
}

unsigned
ptx_features(const struct ptx_target *target)
{
    const struct chip *chip = find_chip(target->sm);

    if (!chip)
        return 0;
    return chip->features |
           (target->is_arch_specific ? chip->arch_specific : 0);
}
