/* Control calls: dispatch, and those of clients, devices and subdevices. Calls
 * that are not in the tables are answered NOT_SUPPORTED. src:
 * docs/hardware/nvidia-kernel.md, "Bring-up", "Queries". Leads: what a list
 * that is too short gets, unknown indices, the clocks of the time correlation.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "ioctl/nv_uapi.h"

#define NO_ID        0xffffffffu
#define MAX_IDS      32
#define PCI_VENDOR   0x10deu
#define FIRST_COPY   9u    /* COPY0 */
#define N_LOW_COPIES 10u   /* COPY0 to COPY9 follow one another */
#define HIGH_COPY    0x34u /* COPY10, on 560 and later */
#define GID_BINARY   2u
#define SLI_STATUS   0x41u /* src: observed: H100, 2026-11-22 */
#define VIRT_NMOS    1u    /* a card passed through to a guest */
#define BAR0_BYTES   (16ull << 20)
#define BAR3_BYTES   (32ull << 20)

/* ---- engines ---- */

uint32_t
rm_copy_engine_type(const struct rm_machine *machine, uint32_t idx)
{
    assert(machine->n_cards > 0);
    if (idx < N_LOW_COPIES)
        return FIRST_COPY + idx;
    return machine->abi.major >= 560 ? HIGH_COPY + idx - N_LOW_COPIES : 0;
}

bool
rm_copy_engine_idx(const struct rm_machine *machine, uint32_t engine,
                   uint32_t *out_idx)
{
    uint32_t i;

    for (i = 0; i < machine->chip->n_copy_engines; i++) {
        if (engine && rm_copy_engine_type(machine, i) == engine) {
            *out_idx = i;
            return true;
        }
    }
    return false;
}

/* ---- clients ---- */

static enum rm_status
get_build_version(struct rm_control *c)
{
    struct nv0000_system_get_build_version_v2 *p = c->params;
    const struct nv_abi *abi = &c->machine->abi;

    memset(p, 0, sizeof(*p));
    snprintf(p->driverVersionBuffer, sizeof(p->driverVersionBuffer), "%s",
             abi->version);
    snprintf(p->versionBuffer, sizeof(p->versionBuffer), "r%u_00", abi->major);
    snprintf(p->driverBranch, sizeof(p->driverBranch), "r%u_00", abi->major);
    snprintf(p->titleBuffer, sizeof(p->titleBuffer),
             "NVIDIA UNIX x86_64 Kernel Module  %s", abi->version);
    return RM_OK;
}

struct rm_card *
rm_card_of_id(struct rm_machine *machine, uint32_t gpu_id)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++) {
        if (machine->cards[i].gpu_id == gpu_id)
            return &machine->cards[i];
    }
    return NULL;
}

/* All cards' ids, or those of the attached; the rest is NO_ID. */
static void
list_ids(const struct rm_machine *machine, bool attached_only,
         uint32_t ids[MAX_IDS])
{
    uint32_t i, n = 0;

    for (i = 0; i < MAX_IDS; i++)
        ids[i] = NO_ID;
    for (i = 0; i < machine->n_cards; i++) {
        if (!attached_only || machine->cards[i].n_attached)
            ids[n++] = machine->cards[i].gpu_id;
    }
}

static enum rm_status
get_attached_ids(struct rm_control *c)
{
    struct nv0000_gpu_get_attached_ids *p = c->params;

    list_ids(c->machine, true, p->gpuIds);
    return RM_OK;
}

static enum rm_status
get_probed_ids(struct rm_control *c)
{
    struct nv0000_gpu_get_probed_ids *p = c->params;

    memset(p, 0, sizeof(*p));
    memset(p->excludedGpuIds, 0xff, sizeof(p->excludedGpuIds));
    list_ids(c->machine, false, p->gpuIds);
    return RM_OK;
}

static enum rm_status
attach_ids(struct rm_control *c)
{
    struct nv0000_gpu_attach_ids *p = c->params;
    uint32_t i;

    for (i = 0; i < MAX_IDS && p->gpuIds[i] != NO_ID; i++) {
        struct rm_card *card = rm_card_of_id(c->machine, p->gpuIds[i]);
        if (!card) {
            p->failedId = p->gpuIds[i];
            return rm_refuse(RM_INVALID_ARGUMENT, "no card of id 0x%x",
                             p->failedId);
        }
        if (!(c->process->attached & 1u << card->index))
            card->n_attached++;
        c->process->attached |= 1u << card->index;
    }
    return RM_OK; /* failedId stays as it was. observed: H100, 2026-11-22 */
}

static enum rm_status
detach_ids(struct rm_control *c)
{
    const struct nv0000_gpu_detach_ids *p = c->params;
    uint32_t i;

    for (i = 0; i < MAX_IDS && p->gpuIds[i] != NO_ID; i++) {
        struct rm_card *card = rm_card_of_id(c->machine, p->gpuIds[i]);
        if (!card)
            return rm_refuse(RM_INVALID_ARGUMENT, "no card of id 0x%x",
                             p->gpuIds[i]);
        if (c->process->attached & 1u << card->index)
            card->n_attached--;
        c->process->attached &= ~(1u << card->index);
    }
    return RM_OK;
}

static enum rm_status
get_id_info(struct rm_control *c)
{
    struct nv0000_gpu_get_id_info_v2 *p = c->params;
    struct rm_card *card = rm_card_of_id(c->machine, p->gpuId);

    if (!card || !card->n_attached)
        return rm_refuse(RM_INVALID_ARGUMENT, "no card of id 0x%x is attached",
                         p->gpuId);
    p->gpuFlags = 0;
    p->deviceInstance = p->gpuInstance = card->index;
    p->subDeviceInstance = 0;
    p->sliStatus = SLI_STATUS;
    p->boardId = card->gpu_id;
    p->numaId = -1;
    return RM_OK;
}

static enum rm_status
get_pci_of_id(struct rm_control *c)
{
    struct nv0000_gpu_get_pci_info *p = c->params;
    struct rm_card *card = rm_card_of_id(c->machine, p->gpuId);

    if (!card)
        return rm_refuse(RM_INVALID_ARGUMENT, "no card of id 0x%x", p->gpuId);
    p->domain = 0;
    p->bus = card->bus;
    p->slot = 0;
    return RM_OK;
}

static enum rm_status
get_uuid_info(struct rm_control *c)
{
    struct nv0000_gpu_get_uuid_info *p = c->params;
    uint32_t i;

    for (i = 0; i < c->machine->n_cards; i++) {
        struct rm_card *card = &c->machine->cards[i];
        if (memcmp(card->uuid, p->gpuUuid, sizeof(card->uuid)) != 0)
            continue;
        p->gpuId = card->gpu_id;
        p->deviceInstance = i;
        p->subdeviceInstance = 0;
        return RM_OK;
    }
    return rm_refuse(RM_OBJECT_NOT_FOUND, "no card of that UUID");
}

/* ---- devices ---- */

/* Writes a list of words to where the caller wants it: with room for none, or
 * no address, only how many there are is told. */
static enum rm_status
give_list(const uint32_t *list, uint32_t n, uint64_t addr, uint32_t *count)
{
    if (*count == 0 || !addr) {
        *count = n;
        return RM_OK;
    }
    if (*count < n)
        return rm_refuse(RM_BUFFER_TOO_SMALL, "room for %u classes of %u",
                         *count, n);
    *count = n;
    if (!rm_user_write(addr, list, n * sizeof(*list)))
        return rm_refuse(RM_INVALID_ADDRESS, "a list at 0x%llx",
                         (unsigned long long)addr);
    return RM_OK;
}

/* The classes of a GV100, which is older than what drivers here are for.
 * src: open-gpu-doc, clc361.h, clc36f.h, clc3b5.h, clc3c0.h */
static const uint32_t gv100_classes[] = {0x0070, 0x2080, 0xc361,
                                         0xc36f, 0xc3b5, 0xc3c0};

static const uint32_t *
classes_of(const struct rm_control *c, uint32_t *out_n)
{
    const struct nvgpu_chip *chip = c->machine->chip;

    if (c->machine->first_is_old && c->object->card->index == 0) {
        *out_n = ARRAY_LEN(gv100_classes);
        return gv100_classes;
    }
    *out_n = chip->n_classes;
    return chip->classes;
}

static enum rm_status
get_classes(struct rm_control *c)
{
    struct nv0080_gpu_get_classlist *p = c->params;
    uint32_t n;
    const uint32_t *classes = classes_of(c, &n);

    return give_list(classes, n, p->classList, &p->numClasses);
}

static enum rm_status
get_classes_v2(struct rm_control *c)
{
    struct nv0080_gpu_get_classlist_v2 *p = c->params;
    uint32_t n;
    const uint32_t *classes = classes_of(c, &n);
    uint32_t room =
        nv_wire_bytes(&c->machine->abi, NV_S_NV0080_GPU_GET_CLASSLIST_V2) / 4 -
        1; /* guess: a branch with less room lists the first */

    memset(p, 0, sizeof(*p));
    p->numClasses = n < room ? n : room;
    memcpy(p->classList, classes, p->numClasses * sizeof(*p->classList));
    return RM_OK;
}

static enum rm_status
get_n_subdevices(struct rm_control *c)
{
    struct nv0080_gpu_get_num_subdevices *p = c->params;

    p->numSubDevices = 1;
    return RM_OK;
}

static enum rm_status
get_virtualization(struct rm_control *c)
{
    struct nv0080_gpu_get_virtualization_mode *p = c->params;

    p->virtualizationMode = VIRT_NMOS;
    p->isGridBuild = 0;
    return RM_OK;
}

/* ---- subdevices: identity ---- */

static enum rm_status
get_gid(struct rm_control *c)
{
    struct nv2080_gpu_get_gid_info *p = c->params;
    const uint8_t *u = c->object->card->uuid;

    if (p->index != 0 || (p->flags != GID_BINARY && p->flags != 0))
        return rm_refuse(RM_INVALID_ARGUMENT, "GID index %u, flags 0x%x",
                         p->index, p->flags);
    memset(p->data, 0, sizeof(p->data));
    if (p->flags == GID_BINARY) {
        memcpy(p->data, u, sizeof(c->object->card->uuid));
        p->length = sizeof(c->object->card->uuid);
        return RM_OK;
    }
    p->length = 1u + (uint32_t)snprintf(
                         (char *)p->data, sizeof(p->data),
                         "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
                         "%02x%02x%02x%02x%02x%02x",
                         u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8],
                         u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    return RM_OK;
}

static enum rm_status
get_name(struct rm_control *c)
{
    struct nv2080_gpu_get_name_string *p = c->params;

    if (p->gpuNameStringFlags != 0)
        return rm_refuse(RM_INVALID_FLAGS, "name of flags 0x%x",
                         p->gpuNameStringFlags);
    memset(p->gpuNameString, 0, sizeof(p->gpuNameString));
    snprintf((char *)p->gpuNameString, sizeof(p->gpuNameString), "%s",
             c->machine->chip->board);
    return RM_OK;
}

static enum rm_status
get_engines(struct rm_control *c)
{
    struct nv2080_gpu_get_engines_v2 *p = c->params;
    const uint8_t *other = c->machine->chip->other_engines;
    uint32_t i, type;

    memset(p, 0, sizeof(*p));
    p->engineList[p->engineCount++] = RM_ENGINE_GR0;
    for (i = 0; i < c->machine->chip->n_copy_engines; i++) {
        type = rm_copy_engine_type(c->machine, i);
        if (type)
            p->engineList[p->engineCount++] = type;
    }
    for (; other && *other; other++)
        p->engineList[p->engineCount++] = *other;
    return RM_OK;
}

static enum rm_status
get_engine_classes(struct rm_control *c)
{
    struct nv2080_gpu_get_engine_classlist *p = c->params;
    const struct nvgpu_chip *chip = c->machine->chip;
    uint32_t idx;

    if (p->engineType == RM_ENGINE_GR0)
        return give_list(&chip->compute_class, 1, p->classList, &p->numClasses);
    if (rm_copy_engine_idx(c->machine, p->engineType, &idx))
        return give_list(&chip->copy_class, 1, p->classList, &p->numClasses);
    return rm_refuse(RM_INVALID_ARGUMENT, "no engine of type 0x%x",
                     p->engineType);
}

static enum rm_status
get_arch(struct rm_control *c)
{
    struct nv2080_mc_get_arch_info *p = c->params;

    p->architecture = c->machine->chip->architecture;
    p->implementation = c->machine->chip->implementation;
    p->revision = 0xa1;
    p->subRevision = (uint8_t)c->machine->chip->sub_revision;
    return RM_OK;
}

static enum rm_status
get_gsp(struct rm_control *c)
{
    struct nv2080_gsp_get_features *p = c->params;

    memset(p, 0, sizeof(*p));
    p->gspFeatures = 1;
    p->bValid = p->bDefaultGspRmGpu = 1;
    snprintf((char *)p->firmwareVersion, sizeof(p->firmwareVersion), "%s",
             c->machine->abi.version);
    return RM_OK;
}

static enum rm_status
get_pci(struct rm_control *c)
{
    struct nv2080_bus_get_pci_info *p = c->params;

    p->pciDeviceId = c->machine->chip->pci_device << 16 | PCI_VENDOR;
    p->pciSubSystemId = 0x16c1u << 16 | PCI_VENDOR;
    p->pciRevisionId = 0xa1;
    p->pciExtDeviceId = c->machine->chip->pci_device;
    return RM_OK;
}

static enum rm_status
get_bars(struct rm_control *c)
{
    struct nv2080_bus_get_pci_bar_info *p = c->params;
    const struct rm_card *card = c->object->card;
    uint64_t bytes[3] = {BAR0_BYTES, c->machine->chip->bar1_bytes, BAR3_BYTES};
    uint64_t at[3] = {card->bar0_base, card->bar1_base,
                      card->bar0_base + BAR0_BYTES};
    uint32_t i;

    memset(p, 0, sizeof(*p));
    p->pciBarCount = 4; /* one is empty. src: observed: H100, 2026-11-22 */
    for (i = 0; i < 3; i++) {
        p->pciBarInfo[i].barSize = (uint32_t)(bytes[i] >> 20);
        p->pciBarInfo[i].barSizeBytes = bytes[i];
        p->pciBarInfo[i].barOffset = at[i];
    }
    return RM_OK;
}

/* ---- subdevices: graphics engine ---- */

/* The value of a GR info index. */
static bool
gr_info(const struct nvgpu_chip *chip, uint32_t index, uint32_t *out_data)
{
    uint32_t i;

    switch (index) {
    case 0x07: /* shader pipes */
    case 0x14: /* LITTER_NUM_GPCS */
        *out_data = chip->n_gpc;
        return true;
    case 0x08: /* thread stack scaling */
        *out_data = nvgpu_n_sm(chip);
        return true;
    case 0x09: /* TPCs */
        *out_data = chip->n_tpc;
        return true;
    case 0x0c:
        *out_data = chip->sm_version;
        return true;
    case 0x0d:
        *out_data = chip->max_warps_per_sm;
        return true;
    case 0x0e: /* threads of a warp */
        *out_data = 32;
        return true;
    case 0x17: /* LITTER_NUM_TPC_PER_GPC */
        *out_data = chip->n_tpc_per_gpc;
        return true;
    case 0x20: /* LITTER_NUM_SM_PER_TPC */
        *out_data = chip->n_sm_per_tpc;
        return true;
    default:
        for (i = 0; i < chip->n_gr_info; i++) {
            if (chip->gr_info[i].index != index)
                continue;
            *out_data = chip->gr_info[i].data;
            return true;
        }
        return false;
    }
}

/* Answers pairs of index and data, which are the caller's list. */
static enum rm_status
answer_list(struct rm_control *c, uint64_t addr, uint32_t n,
            bool (*info)(const struct rm_control *c, uint32_t index,
                         uint32_t *out_data))
{
    struct nv_index_data pair;
    uint32_t i;

    for (i = 0; i < n; i++, addr += sizeof(pair)) {
        if (!rm_user_read(&pair, addr, sizeof(pair)))
            return rm_refuse(RM_INVALID_ADDRESS, "a list at 0x%llx",
                             (unsigned long long)addr);
        if (!info(c, pair.index, &pair.data))
            return rm_refuse(RM_INVALID_ARGUMENT, "info index 0x%x",
                             pair.index);
        if (!rm_user_write(addr, &pair, sizeof(pair)))
            return rm_refuse(RM_INVALID_ADDRESS, "a list at 0x%llx",
                             (unsigned long long)addr);
    }
    return RM_OK;
}

static bool
gr_info_of(const struct rm_control *c, uint32_t index, uint32_t *out_data)
{
    return gr_info(c->machine->chip, index, out_data);
}

static enum rm_status
get_gr_info(struct rm_control *c)
{
    const struct nv2080_gr_get_info *p = c->params;

    return answer_list(c, p->grInfoList, p->grInfoListSize, gr_info_of);
}

static enum rm_status
get_gr_info_v2(struct rm_control *c)
{
    struct nv2080_gr_get_info_v2 *p = c->params;
    uint32_t i;

    if (p->grInfoListSize > ARRAY_LEN(p->grInfoList))
        return rm_refuse(RM_INVALID_ARGUMENT, "a list of %u",
                         p->grInfoListSize);
    for (i = 0; i < p->grInfoListSize; i++) {
        uint32_t data = 0;
        if (!gr_info(c->machine->chip, p->grInfoList[i].index, &data))
            return rm_refuse(RM_INVALID_ARGUMENT, "info index 0x%x",
                             p->grInfoList[i].index);
        p->grInfoList[i].data = data;
    }
    return RM_OK;
}

/* The SMs of the n-th TPC; the next one's number. */
static uint32_t
add_tpc(struct nv2080_gr_get_global_sm_order *p, const struct nvgpu_chip *chip,
        uint32_t gpc, uint32_t tpc, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < chip->n_sm_per_tpc; i++) {
        uint32_t sm = n * chip->n_sm_per_tpc + i;
        p->globalSmId[sm].gpcId = (uint16_t)gpc;
        p->globalSmId[sm].localTpcId = (uint16_t)tpc;
        p->globalSmId[sm].localSmId = (uint16_t)i;
        p->globalSmId[sm].globalTpcId = (uint16_t)n;
        p->globalSmId[sm].virtualGpcId = (uint16_t)gpc;
        p->globalSmId[sm].migratableTpcId = (uint16_t)tpc;
        p->globalSmId[sm].virtualTpcId = (uint16_t)tpc;
    }
    return n + 1;
}

/* Round the GPCs, one TPC of each at a time, as the H100 did; there the order
 * of GPCs is the board's, and TPCs within a GPC are spread over its CPCs. */
static enum rm_status
get_sm_order(struct rm_control *c)
{
    struct nv2080_gr_get_global_sm_order *p = c->params;
    const struct nvgpu_chip *chip = c->machine->chip;
    uint32_t i, n = 0;

    memset(p, 0, sizeof(*p));
    p->numTpc = (uint16_t)chip->n_tpc;
    p->numSm = (uint16_t)nvgpu_n_sm(chip);
    for (i = 0; i < chip->n_gpc * chip->n_tpc_per_gpc; i++) {
        uint32_t gpc = i % chip->n_gpc, tpc = i / chip->n_gpc;
        if (nvgpu_tpc_mask(chip, gpc) >> tpc & 1)
            n = add_tpc(p, chip, gpc, tpc, n);
    }
    return RM_OK;
}

static enum rm_status
get_gpc_mask(struct rm_control *c)
{
    struct nv2080_gr_get_gpc_mask *p = c->params;

    p->gpcMask = (1u << c->machine->chip->n_gpc) - 1;
    return RM_OK;
}

static enum rm_status
get_tpc_mask(struct rm_control *c)
{
    struct nv2080_gr_get_tpc_mask *p = c->params;

    assert(c->params);
    if (p->gpcId >= c->machine->chip->n_gpc)
        return rm_refuse(RM_INVALID_ARGUMENT, "GPC %u of %u", p->gpcId,
                         c->machine->chip->n_gpc);
    p->tpcMask = nvgpu_tpc_mask(c->machine->chip, p->gpcId);
    return RM_OK;
}

/* ---- subdevices: memory, copy engines, clocks ---- */

/* The memory of GH100. src: observed: H100, 2026-11-22 */
static bool
hbm_info(uint32_t index, uint32_t *out_data)
{
    switch (index) {
    case 0x0d: /* RAM type: HBM3 */
        *out_data = 0x14;
        return true;
    case 0x19: /* FBPs */
        *out_data = 10;
        return true;
    case 0x1a: /* and their mask */
        *out_data = 0x7bf;
        return true;
    case 0x22: /* LTCs */
        *out_data = 20;
        return true;
    case 0x23: /* and their slices */
        *out_data = 80;
        return true;
    default:
        return false;
    }
}

/* In KiB, but for the width of the bus, and for L2, which is in bytes.
 * observed: H100, 2026-11-22: 52428800 for L2's 50 MiB. */
static bool
fb_info(const struct rm_control *c, uint32_t index, uint32_t *out_data)
{
    const struct nvgpu_chip *chip = c->machine->chip;
    const struct rm_card *card = c->object->card;

    switch (index) {
    case 0x05: /* BAR1 */
        *out_data = (uint32_t)(chip->bar1_bytes >> 10);
        return true;
    case 0x07: /* RAM */
    case 0x08: /* total RAM */
        *out_data = (uint32_t)(chip->ram_bytes >> 10);
        return true;
    case 0x20: /* usable RAM */
        *out_data = (uint32_t)(chip->usable_bytes >> 10);
        return true;
    case 0x09: /* heap */
        *out_data = (uint32_t)(chip->vidmem_bytes >> 10);
        return true;
    case 0x16: /* heap that is free */
        *out_data = (uint32_t)((chip->vidmem_bytes - card->used_bytes) >> 10);
        return true;
    case 0x0b: /* bits of the bus */
        *out_data = 5120;
        return true;
    case 0x1b: /* L2. src: observed: H100, 2026-11-22 */
        *out_data = chip->l2_bytes;
        return true;
    case 0x3b: /* NUMA node: none */
        *out_data = NO_ID;
        return true;
    case 0x10: /* "tax" */
    case 0x17: /* RAM location: on the board */
    case 0x18: /* broken */
        *out_data = 0;
        return true;
    default:
        if (chip->sm != 90)
            return false;
        return hbm_info(index, out_data);
    }
}

static enum rm_status
get_fb_info(struct rm_control *c)
{
    const struct nv2080_fb_get_info *p = c->params;

    return answer_list(c, p->fbInfoList, p->fbInfoListSize, fb_info);
}

static enum rm_status
get_fb_info_v2(struct rm_control *c)
{
    struct nv2080_fb_get_info_v2 *p = c->params;
    uint32_t i;

    if (p->fbInfoListSize > ARRAY_LEN(p->fbInfoList))
        return rm_refuse(RM_INVALID_ARGUMENT, "a list of %u",
                         p->fbInfoListSize);
    for (i = 0; i < p->fbInfoListSize; i++) {
        uint32_t data = 0;
        if (!fb_info(c, p->fbInfoList[i].index, &data))
            return rm_refuse(RM_INVALID_ARGUMENT, "info index 0x%x",
                             p->fbInfoList[i].index);
        p->fbInfoList[i].data = data;
    }
    return RM_OK;
}

/* Bit 0: GRCE. */
static uint32_t
copy_caps(const struct nvgpu_chip *chip, uint32_t idx)
{
    if (chip->copy_engines)
        return chip->copy_engines[idx].caps;
    return chip->grce_mask >> idx & 1;
}

static enum rm_status
get_all_ce_caps(struct rm_control *c)
{
    struct nv2080_ce_get_all_caps *p = c->params;
    const struct nvgpu_chip *chip = c->machine->chip;
    uint32_t i;

    memset(p, 0, sizeof(*p));
    for (i = 0; i < chip->n_copy_engines; i++) {
        uint32_t caps = copy_caps(chip, i);
        p->present |= (uint64_t)1 << i;
        p->capsTbl[2 * i] = (uint8_t)caps;
        p->capsTbl[2 * i + 1] = (uint8_t)(caps >> 8);
    }
    return RM_OK;
}

static enum rm_status
get_ce_caps(struct rm_control *c)
{
    struct nv2080_ce_get_caps_v2 *p = c->params;
    uint32_t idx;

    if (!rm_copy_engine_idx(c->machine, p->ceEngineType, &idx))
        return rm_refuse(RM_INVALID_ARGUMENT, "no copy engine of type 0x%x",
                         p->ceEngineType);
    p->capsTbl[0] = (uint8_t)copy_caps(c->machine->chip, idx);
    p->capsTbl[1] = (uint8_t)(copy_caps(c->machine->chip, idx) >> 8);
    return RM_OK;
}

static enum rm_status
get_pce_mask(struct rm_control *c)
{
    struct nv2080_ce_get_ce_pce_mask *p = c->params;
    uint32_t idx;

    if (!rm_copy_engine_idx(c->machine, p->ceEngineType, &idx))
        return rm_refuse(RM_INVALID_ARGUMENT, "no copy engine of type 0x%x",
                         p->ceEngineType);
    p->pceMask = 1u << idx;
    return RM_OK;
}

/* CLEAR, BOOST_1LEVEL or BOOST_TO_MAX; CUDA, ASYNC, CUDA_PRIORITY in bits 4 to
 * 6. There is nothing to boost. src: ctrl2080perf.h */
static enum rm_status
perf_boost(struct rm_control *c)
{
    const struct nv2080_perf_boost *p = c->params;

    if (p->flags & ~0x73u || (p->flags & 3) == 3 || !p->duration ||
        (p->duration > 3600 && p->duration != UINT32_MAX))
        return rm_refuse(RM_INVALID_ARGUMENT, "boost of flags 0x%x for %u s",
                         p->flags, p->duration);
    return RM_OK;
}

static enum rm_status
get_time(struct rm_control *c)
{
    struct nv2080_timer_get_time *p = c->params;

    p->time_nsec = nvgpu_time_ns(c->object->card->gpu);
    return RM_OK;
}

static uint64_t
clock_ns(clockid_t id)
{
    struct timespec t = {0};

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* lead: clock 0 and 1 are the system's time, 3 the monotonic one, in ns; 2 is
 * the CPU's counter, which is not offered. */
static enum rm_status
correlate_times(struct rm_control *c)
{
    struct nv2080_timer_get_gpu_cpu_time_correlation_info *p = c->params;
    clockid_t id = p->cpuClkId == 3 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    uint32_t i;

    if (p->cpuClkId > 3 || p->cpuClkId == 2 || !p->sampleCount ||
        p->sampleCount > ARRAY_LEN(p->samples))
        return rm_refuse(RM_INVALID_ARGUMENT, "%u samples of clock %u",
                         p->sampleCount, p->cpuClkId);
    for (i = 0; i < p->sampleCount; i++) {
        p->samples[i].cpuTime = clock_ns(id);
        p->samples[i].gpuTime = nvgpu_time_ns(c->object->card->gpu);
    }
    return RM_OK;
}

/* src: NVIDIA/open-gpu-kernel-modules 580.142, conf_compute_api.c */
static enum rm_status
get_cc_capabilities(struct rm_control *c)
{
    struct nvcb33_system_get_capabilities *p = c->params;

    memset(p, 0, sizeof(*p));
    if (c->machine->chip->sm >= 90)
        p->gpusCapability = 2; /* HCC */
    if (c->machine->confidential) {
        p->cpuCapability = 3; /* AMD SEV-SNP */
        p->ccFeature = 2;     /* HCC_ENABLED */
        p->environment = 2;   /* PROD */
    }
    return RM_OK;
}

#define CLIENT    (1u << RM_KIND_CLIENT)
#define DEVICE    (1u << RM_KIND_DEVICE)
#define SUBDEVICE (1u << RM_KIND_SUBDEVICE)

/* clang-format off */
static const struct rm_control_row gpu_controls[] = {
    {NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, NV_S_NV0000_SYSTEM_GET_BUILD_VERSION_V2, CLIENT, get_build_version},
    {NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, NV_S_NV0000_GPU_GET_ATTACHED_IDS, CLIENT, get_attached_ids},
    {NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, NV_S_NV0000_GPU_GET_PROBED_IDS, CLIENT, get_probed_ids},
    {NV0000_CTRL_CMD_GPU_ATTACH_IDS, NV_S_NV0000_GPU_ATTACH_IDS, CLIENT, attach_ids},
    {NV0000_CTRL_CMD_GPU_DETACH_IDS, NV_S_NV0000_GPU_DETACH_IDS, CLIENT, detach_ids},
    {NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, NV_S_NV0000_GPU_GET_ID_INFO_V2, CLIENT, get_id_info},
    {NV0000_CTRL_CMD_GPU_GET_PCI_INFO, NV_S_NV0000_GPU_GET_PCI_INFO, CLIENT, get_pci_of_id},
    {NV0000_CTRL_CMD_GPU_GET_UUID_INFO, NV_S_NV0000_GPU_GET_UUID_INFO, CLIENT, get_uuid_info},
    {NV0080_CTRL_CMD_GPU_GET_CLASSLIST, NV_S_NV0080_GPU_GET_CLASSLIST, DEVICE, get_classes},
    {NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2, NV_S_NV0080_GPU_GET_CLASSLIST_V2, DEVICE, get_classes_v2},
    {NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, NV_S_NV0080_GPU_GET_NUM_SUBDEVICES, DEVICE, get_n_subdevices},
    {NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, NV_S_NV0080_GPU_GET_VIRTUALIZATION_MODE, DEVICE, get_virtualization},
    {NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES, NV_S_NVCB33_SYSTEM_GET_CAPABILITIES, 1u << RM_KIND_CONFIDENTIAL, get_cc_capabilities},
    {NV2080_CTRL_CMD_GPU_GET_GID_INFO, NV_S_NV2080_GPU_GET_GID_INFO, SUBDEVICE, get_gid},
    {NV2080_CTRL_CMD_GPU_GET_NAME_STRING, NV_S_NV2080_GPU_GET_NAME_STRING, SUBDEVICE, get_name},
    {NV2080_CTRL_CMD_GPU_GET_ENGINES_V2, NV_S_NV2080_GPU_GET_ENGINES_V2, SUBDEVICE, get_engines},
    {NV2080_CTRL_CMD_GPU_GET_ENGINE_CLASSLIST, NV_S_NV2080_GPU_GET_ENGINE_CLASSLIST, SUBDEVICE, get_engine_classes},
    {NV2080_CTRL_CMD_MC_GET_ARCH_INFO, NV_S_NV2080_MC_GET_ARCH_INFO, SUBDEVICE, get_arch},
    {NV2080_CTRL_CMD_GSP_GET_FEATURES, NV_S_NV2080_GSP_GET_FEATURES, SUBDEVICE, get_gsp},
    {NV2080_CTRL_CMD_BUS_GET_PCI_INFO, NV_S_NV2080_BUS_GET_PCI_INFO, SUBDEVICE, get_pci},
    {NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO, NV_S_NV2080_BUS_GET_PCI_BAR_INFO, SUBDEVICE, get_bars},
    {NV2080_CTRL_CMD_GR_GET_INFO, NV_S_NV2080_GR_GET_INFO, SUBDEVICE, get_gr_info},
    {NV2080_CTRL_CMD_GR_GET_INFO_V2, NV_S_NV2080_GR_GET_INFO_V2, SUBDEVICE, get_gr_info_v2},
    {NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER, NV_S_NV2080_GR_GET_GLOBAL_SM_ORDER, SUBDEVICE, get_sm_order},
    {NV2080_CTRL_CMD_GR_GET_GPC_MASK, NV_S_NV2080_GR_GET_GPC_MASK, SUBDEVICE, get_gpc_mask},
    {NV2080_CTRL_CMD_GR_GET_TPC_MASK, NV_S_NV2080_GR_GET_TPC_MASK, SUBDEVICE, get_tpc_mask},
    {NV2080_CTRL_CMD_FB_GET_INFO, NV_S_NV2080_FB_GET_INFO, SUBDEVICE, get_fb_info},
    {NV2080_CTRL_CMD_FB_GET_INFO_V2, NV_S_NV2080_FB_GET_INFO_V2, SUBDEVICE, get_fb_info_v2},
    {NV2080_CTRL_CMD_CE_GET_ALL_CAPS, NV_S_NV2080_CE_GET_ALL_CAPS, SUBDEVICE, get_all_ce_caps},
    {NV2080_CTRL_CMD_CE_GET_CAPS_V2, NV_S_NV2080_CE_GET_CAPS_V2, SUBDEVICE, get_ce_caps},
    {NV2080_CTRL_CMD_CE_GET_CE_PCE_MASK, NV_S_NV2080_CE_GET_CE_PCE_MASK, SUBDEVICE, get_pce_mask},
    {NV2080_CTRL_CMD_PERF_BOOST, NV_S_NV2080_PERF_BOOST, SUBDEVICE, perf_boost},
    {NV2080_CTRL_CMD_TIMER_GET_TIME, NV_S_NV2080_TIMER_GET_TIME, SUBDEVICE, get_time},
    {NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO, NV_S_NV2080_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO, SUBDEVICE, correlate_times},
};
/* clang-format on */

/* ---- dispatch ---- */

static const struct rm_control_row *
find_control(uint32_t command)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(gpu_controls); i++) {
        if (gpu_controls[i].command == command)
            return &gpu_controls[i];
    }
    for (i = 0; i < rm_n_query_controls; i++) {
        if (rm_query_controls[i].command == command)
            return &rm_query_controls[i];
    }
    for (i = 0; i < rm_n_peer_controls; i++) {
        if (rm_peer_controls[i].command == command)
            return &rm_peer_controls[i];
    }
    for (i = 0; i < rm_n_team_controls; i++) {
        if (rm_team_controls[i].command == command)
            return &rm_team_controls[i];
    }
    for (i = 0; i < rm_n_channel_controls; i++) {
        if (rm_channel_controls[i].command == command)
            return &rm_channel_controls[i];
    }
    return NULL;
}

/* Reads exactly the branch's struct, calls, writes it back. */
static enum rm_status
call_control(struct rm_control *c, const struct rm_control_row *row,
             uint64_t params, uint32_t params_bytes)
{
    struct rm_machine *machine = c->machine;
    const struct kio_struct *desc;
    enum rm_status status;

    if (row->struct_id == RM_NO_PARAMS)
        return params_bytes
                   ? rm_refuse(RM_INVALID_PARAM_STRUCT,
                               "%s: parameters of %u bytes, not none",
                               nv_control_name(row->command), params_bytes)
                   : row->fn(c);
    desc = nv_struct(machine->abi.branch, row->struct_id);
    if (!desc || params_bytes != desc->size_bytes)
        return rm_refuse(RM_INVALID_PARAM_STRUCT,
                         "%s: parameters of %u bytes, branch %u has %u",
                         nv_control_name(row->command), params_bytes,
                         machine->abi.major, desc ? desc->size_bytes : 0);
    if (!rm_user_read(machine->wire, params, params_bytes))
        return rm_refuse(RM_INVALID_ADDRESS, "%s: parameters at 0x%llx",
                         nv_control_name(row->command),
                         (unsigned long long)params);
    nv_wire_unpack(&machine->abi, row->struct_id, machine->wire,
                   machine->params);
    c->params = machine->params;
    c->params_bytes = nv_struct(NV_BRANCH_NEWEST, row->struct_id)->size_bytes;
    status = row->fn(c);
    nv_wire_pack(&machine->abi, row->struct_id, machine->params, machine->wire);
    if (!rm_user_write(params, machine->wire, params_bytes))
        return rm_refuse(RM_INVALID_ADDRESS, "%s: parameters at 0x%llx",
                         nv_control_name(row->command),
                         (unsigned long long)params);
    return status;
}

enum rm_status
rm_control(struct rm_process *process, int ctl_file, uint32_t client,
           uint32_t object, uint32_t command, uint64_t params,
           uint32_t params_bytes)
{
    struct rm_control c = {
        .machine = process->machine, .process = process, .command = command};
    struct rm_client *owner = rm_client_find(process, ctl_file, client);
    const struct rm_control_row *row = find_control(command);

    if (!owner)
        return rm_refuse(RM_INVALID_CLIENT,
                         "no client 0x%x was made on this file", client);
    c.object = rm_find(owner, object);
    if (!c.object)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "client 0x%x has no object 0x%x", client, object);
    if (!params != !params_bytes)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "parameters at 0x%llx of %u bytes",
                         (unsigned long long)params, params_bytes);
    if (!row || !(row->kinds & 1u << c.object->kind))
        return rm_refuse(RM_NOT_SUPPORTED,
                         "control 0x%x of an object of class 0x%x", command,
                         c.object->nv_class);
    return call_control(&c, row, params, params_bytes);
}
