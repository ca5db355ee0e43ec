/* The calls of render nodes: what libdrm asks when it opens one, and what
 * drivers ask of the card. src: include/uapi/drm/drm.h and amdgpu_drm.h of
 * Linux 6.12; libdrm's amdgpu_device.c and amdgpu_gpu_info.c. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/kfd/kfd.h"

#define DRM_VERSION_REQUEST 0xc0406400ul

/* struct drm_version: lengths are of the buffers, then of the texts. */
struct drm_version {
    int32_t major, minor, patch, pad;
    struct {
        uint64_t bytes, address;
    } name, date, about;
};

/* The rest of DEV_INFO that says something here; after amdgpu_device_info. */
struct device_rest {
    uint64_t max_engine_khz, max_memory_khz;
    uint32_t cu_active, cu_always_on;
    uint32_t cu_bitmap[4][4];
    uint32_t rb_mask, n_rb, n_contexts, pcie_gen;
    uint64_t flags, va_offset, va_max;
    uint32_t va_alignment, pte_fragment_bytes, gart_page_bytes, ce_ram_bytes;
    uint32_t vram_type, vram_bits;
};
static_assert(sizeof(struct device_rest) == 152, "");

enum { /* queries */
    ACCEL_WORKING = 0x00,
    VRAM_GTT = 0x14,
    READ_MMR_REG = 0x15,
    MEMORY = 0x19,
};

/* Flags of DEV_INFO: a CPU beside it. What firmware gives such a chip of the
 * host's memory; KFD places buffers in the rest. */
#define IDS_FLAGS_FUSION 1u
#define APU_VRAM_BYTES   (512ull << 20)
/* What the kernel takes off before it tells how much memory is usable, also
 * where there is none. src: Linux 6.12, amdgpu_kms.c,
 * AMDGPU_VM_RESERVED_VRAM */
#define RESERVED_BYTES (8ull << 20)

enum { /* sensors; any frequency will do */
    SCLK = 1,
    SCLK_MHZ = 2100
};

/* As the kernel's copy: as much as fits, the whole length told. */
static void
drm_put_text(uint64_t *bytes, uint64_t address, const char *text)
{
    size_t n = strlen(text);

    if (address && *bytes)
        memcpy((void *)(uintptr_t)address, text, *bytes < n ? *bytes : n);
    *bytes = n;
}

static int
drm_get_version(void *arg)
{
    struct drm_version *version = arg;

    version->major = 3;
    version->minor = 57;
    version->patch = 0;
    drm_put_text(&version->name.bytes, version->name.address, "amdgpu");
    drm_put_text(&version->date.bytes, version->date.address, "20150101");
    drm_put_text(&version->about.bytes, version->about.address, "AMD GPU");
    return 0;
}

/* What firmware sets aside of the host's memory. */
static uint64_t
apu_memory(const struct amdsim_chip *chip)
{
    return chip->has_no_memory ? 0 : APU_VRAM_BYTES;
}

/* src: enum AMDGPU_FAMILY_* of amdgpu_drm.h */
static uint32_t
family_of(const struct amdsim_chip *chip)
{
    static const struct {
        uint32_t gfx, family;
    } rows[] = {
        {120000, 152}, /* GC 12.0.0 */
        {110000, 145}, /* GC 11.0.0 */
        {100000, 143}, /* NV */
        {90000, 141},  /* AI */
    };
    size_t i = 0;

    while (chip->gfx_target_version < rows[i].gfx)
        i++;
    return rows[i].family;
}

static void
put_device(const struct amdsim_chip *chip, uint8_t answer[368])
{
    uint32_t n_engines = chip->array_count / chip->simd_arrays_per_engine;
    uint32_t n_cu = chip->simd_count / chip->simd_per_cu, i;
    uint32_t cu_per_array = n_cu / chip->array_count;
    struct amdgpu_device_info device = {
        .device_id = chip->device_id,
        .family = family_of(chip),
        .n_shader_engines = n_engines,
        .n_shader_arrays_per_engine = chip->simd_arrays_per_engine,
        .gpu_counter_khz = (uint32_t)(chip->clock_hz / 1000),
    };
    struct device_rest rest = {
        .max_engine_khz = 2000000,
        .max_memory_khz = 1300000,
        .cu_active = n_cu,
        .n_contexts = 8,
        .flags = chip->is_apu ? IDS_FLAGS_FUSION : 0,
        .va_offset = 0x200000,
        .va_max = 0x7fffffffffff,
        .va_alignment = KFD_PAGE,
        .pte_fragment_bytes = 2 << 20,
        .gart_page_bytes = KFD_PAGE,
        .vram_bits = 4096,
    };

    for (i = 0; i < chip->array_count; i++) {
        uint32_t engine = i / chip->simd_arrays_per_engine;
        uint32_t array = i % chip->simd_arrays_per_engine;

        rest.cu_bitmap[engine % 4][(array + engine / 4 * 2) % 4] =
            (1u << cu_per_array) - 1;
    }
    memcpy(answer, &device, sizeof(device));
    memcpy(answer + sizeof(device), &rest, sizeof(rest));
}

/* The card, its visible part, the host: each total, usable, used, largest. */
static void
put_memory(const struct amdsim_chip *chip, uint64_t shown, uint64_t used,
           uint64_t answer[12])
{
    uint64_t vram = chip->vram_bytes, own = apu_memory(chip);

    answer[0] = answer[1] = vram;
    answer[4] = answer[5] = shown;
    answer[2] = used;
    answer[6] = used < shown ? used : shown;
    answer[3] = vram - used;
    answer[7] = shown - answer[6];
    answer[8] = answer[9] = answer[11] = vram;
    if (!chip->is_apu)
        return;
    answer[0] = answer[1] = answer[4] = answer[5] = own;
    answer[3] = answer[7] = own;
    answer[2] = answer[6] = 0;
    answer[10] = used;
    if (chip->has_no_memory) {
        answer[1] = own - RESERVED_BYTES;
        answer[3] = answer[1] * 3 / 4;
    }
}

int
kfd_render_call(struct kfd_process *p, uint32_t card, unsigned long request,
                void *arg)
{
    const struct amdsim_chip *chip = p->machine->chip;
    const struct amdgpu_info *info = arg;
    uint64_t vram = chip->vram_bytes, used = p->machine->cards[card].used_bytes;
    uint64_t shown =
        p->machine->bar_mib ? (uint64_t)p->machine->bar_mib << 20 : vram;
    uint64_t answer[46] = {0};
    size_t n = sizeof(uint32_t);

    assert(card < p->machine->n_cards);
    if (request == DRM_VERSION_REQUEST)
        return drm_get_version(arg);
    if (request != AMDGPU_INFO_REQUEST)
        return kfd_fail(ENOTTY, "request 0x%lx of the render node", request);
    switch (info->query) {
    case ACCEL_WORKING:
        answer[0] = 1;
        break;
    case VRAM_GTT:
        answer[0] = chip->is_apu ? apu_memory(chip) : vram;
        answer[1] = chip->is_apu ? apu_memory(chip) : shown;
        if (chip->has_no_memory)
            answer[0] -= RESERVED_BYTES;
        answer[2] = vram;
        n = 24;
        break;
    case READ_MMR_REG: /* offset, count: libdrm asks for GB_ADDR_CONFIG */
        n = 4 * (size_t)(info->rest[1] < 16 ? info->rest[1] : 16);
        break;
    case AMDGPU_INFO_DEV_INFO:
        put_device(chip, (uint8_t *)answer);
        n = sizeof(answer);
        break;
    case AMDGPU_INFO_SENSOR:
        /* src: Linux 6.12, amdgpu_kms.c: without power management ENOENT */
        if (p->machine->is_virtual)
            return kfd_fail(ENOENT, "a virtual function has no sensors");
        if (info->return_bytes < n || info->rest[0] != SCLK)
            return kfd_fail(EINVAL, "sensor %u, %u bytes", info->rest[0],
                            info->return_bytes);
        answer[0] = SCLK_MHZ;
        break;
    case AMDGPU_INFO_VRAM_LOST_COUNTER:
        answer[0] = atomic_load(&p->machine->cards[card].n_losses);
        break;
    case MEMORY:
        put_memory(chip, shown, used, answer);
        n = 96;
        break;
    default:
        return kfd_fail(EINVAL, "query 0x%x of the render node", info->query);
    }
    n = n < info->return_bytes ? n : info->return_bytes;
    memcpy((void *)(uintptr_t)info->return_pointer, answer, n);
    return 0;
}
