/* Asks the kernel driver what a GPU has. nv_gen.c draws conclusions from the
 * answers. src: docs/hardware/nvidia-kernel.md, "Queries" */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/nv_gen.h"
#include "ioctl/nv_uapi.h"

/* Indices of GR and FB information. src: docs/hardware/nvidia-kernel.md,
 * "Queries" */
enum {
    GR_SM_VERSION = 0x0c,
    GR_MAX_WARPS_PER_SM = 0x0d,
    GR_LITTER_NUM_GPCS = 0x14,
    GR_LITTER_NUM_TPC_PER_GPC = 0x17,
    GR_LITTER_NUM_SM_PER_TPC = 0x20
};
enum {
    FB_TOTAL_RAM_KIB = 0x08,
    FB_USABLE_RAM_KIB = 0x20
};

#define CLASSES_MAX 4096 /* more than RM knows of, some 300 */
/* Bits of the first byte of an engine's caps.
 * src: NVIDIA/open-gpu-kernel-modules 580.142, ctrl2080ce.h; an H100's answer
 * (e3, e3, e2, e2, e0), where the last engine moves 550 GB/s within the card
 * and the others, which share theirs, 92 */
#define CE_IS_GRCE   1u
#define CE_IS_SHARED 2u

/* PERF_BOOST: BOOST_TO_MAX, for CUDA, until the client goes. */
#define BOOST_FLAGS    0x12u
#define BOOST_DURATION 0xffffffffu

/* ---- classes ------------------------------------------------------------- */

static bell_status
read_classes(struct nv_device *dev, uint32_t **out_list, uint32_t *out_n)
{
    struct nv0080_gpu_get_classlist query = {0};
    bell_status status;
    uint32_t *list;

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->device,
                           NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
                           NV_S_NV0080_GPU_GET_CLASSLIST, &query));
    if (query.numClasses > CLASSES_MAX)
        return bell_fail(BELL_E_KERNEL, "the kernel tells of %u classes",
                         query.numClasses);
    list = host_calloc(query.numClasses, sizeof(*list));
    if (!list)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a list of %u classes",
                         query.numClasses);
    *out_n = query.numClasses;
    query.classList = (uintptr_t)list;
    status = nv_rm_control(dev->rm, dev->rm->device,
                           NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
                           NV_S_NV0080_GPU_GET_CLASSLIST, &query);
    if (status != BELL_OK) {
        host_free(list);
        return status;
    }
    if (query.numClasses < *out_n)
        *out_n = query.numClasses;
    *out_list = list;
    return BELL_OK;
}

static bell_status
choose_classes(struct nv_device *dev)
{
    struct nv_chip *chip = &dev->chip;
    const char *too_old;
    uint32_t *list, n;

    BELL_TRY(read_classes(dev, &list, &n));
    chip->host = nv_class_best(NV_CLASS_HOST, list, n);
    chip->compute = nv_class_best(NV_CLASS_COMPUTE, list, n);
    chip->copy = nv_class_best(NV_CLASS_COPY, list, n);
    chip->usermode = nv_class_best(NV_CLASS_USERMODE, list, n);
    too_old = chip->compute ? NULL : nv_gen_too_old(list, n);
    host_free(list);
    if (too_old)
        return bell_fail(BELL_E_UNSUPPORTED, "%s", too_old);
    if (!chip->host || !chip->compute || !chip->copy || !chip->usermode)
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "none of the %u classes of the card is a %s class that is known "
            "(Ampere to Blackwell); with MIG on a card has none, and "
            "nvidia-smi "
            "-mig 0 turns it off",
            n,
            !chip->compute ? "compute"
            : !chip->host  ? "channel"
            : !chip->copy  ? "copy"
                           : "doorbell");
    if (chip->host->polls_bits)
        dev->base.info.flags |= HCQ_DEVICE_POLL_MASKS;
    return BELL_OK;
}

/* ---- the shader array ---------------------------------------------------- */

static bell_status
query_units(struct nv_device *dev)
{
    struct nv_index_data list[] = {
        {GR_SM_VERSION, 0},
        {GR_MAX_WARPS_PER_SM, 0},
        {GR_LITTER_NUM_GPCS, 0},
        {GR_LITTER_NUM_TPC_PER_GPC, 0},
        {GR_LITTER_NUM_SM_PER_TPC, 0},
    };
    struct nv2080_gr_get_info query = {
        .grInfoListSize = ARRAY_LEN(list),
        .grInfoList = (uintptr_t)list,
    };
    struct nv_chip *chip = &dev->chip;

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                           NV2080_CTRL_CMD_GR_GET_INFO, NV_S_NV2080_GR_GET_INFO,
                           &query));
    chip->sm_version = list[0].data;
    chip->max_warps_per_sm = list[1].data;
    chip->n_gpc = list[2].data;
    chip->n_tpc_per_gpc = list[3].data;
    chip->n_sm_per_tpc = list[4].data;
    if (!chip->max_warps_per_sm || !chip->n_gpc || !chip->n_tpc_per_gpc ||
        !chip->n_sm_per_tpc)
        return bell_fail(BELL_E_KERNEL,
                         "the driver tells of %u GPCs, %u TPCs, %u SMs, %u "
                         "warps",
                         chip->n_gpc, chip->n_tpc_per_gpc, chip->n_sm_per_tpc,
                         chip->max_warps_per_sm);
    return BELL_OK;
}

static uint32_t
count_bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* SMs that are there: some of each GPC's are off. */
static bell_status
count_sms(struct nv_device *dev)
{
    struct nv2080_gr_get_gpc_mask gpcs = {0};
    uint32_t i, n_tpc = 0;

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                           NV2080_CTRL_CMD_GR_GET_GPC_MASK,
                           NV_S_NV2080_GR_GET_GPC_MASK, &gpcs));
    for (i = 0; i < 32; i++) {
        struct nv2080_gr_get_tpc_mask tpcs = {.gpcId = i};

        if (!(gpcs.gpcMask >> i & 1))
            continue;
        BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                               NV2080_CTRL_CMD_GR_GET_TPC_MASK,
                               NV_S_NV2080_GR_GET_TPC_MASK, &tpcs));
        n_tpc += count_bits(tpcs.tpcMask);
    }
    dev->chip.n_sm = n_tpc * dev->chip.n_sm_per_tpc;
    return BELL_OK;
}

static void
choose_generation(struct nv_chip *chip)
{
    bool is_known = false;
    const struct nv_gen *gen =
        nv_gen_find(chip->sm_version, chip->compute->number, &is_known);

    if (!is_known)
        LOG(LOG_IOCTL,
            "SM version 0x%x with class 0x%x is not known: used as sm_%u, the "
            "lowest of that class",
            chip->sm_version, chip->compute->number, gen->sm);
    chip->is_assumed = !is_known;
    chip->sm = gen->sm;
    chip->code_sm = gen->code_sm;
    chip->max_shared_bytes = gen->max_shared_kib * 1024;
    chip->shared_window = NV_SHARED_WINDOW;
    chip->local_window = NV_LOCAL_WINDOW;
}

/* ---- memory, engines, name ----------------------------------------------- */

static bell_status
query_memory(struct nv_device *dev)
{
    struct nv_index_data list[] = {
        {FB_TOTAL_RAM_KIB, 0},
        {FB_USABLE_RAM_KIB, 0},
    };
    struct nv2080_fb_get_info query = {
        .fbInfoListSize = ARRAY_LEN(list),
        .fbInfoList = (uintptr_t)list,
    };
    uint32_t kib;

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                           NV2080_CTRL_CMD_FB_GET_INFO, NV_S_NV2080_FB_GET_INFO,
                           &query));
    kib = list[1].data ? list[1].data : list[0].data;
    dev->base.info.memory_bytes = (uint64_t)kib * 1024;
    dev->base.info.max_buffer_bytes = dev->base.info.memory_bytes;
    dev->control->maps_video =
        dev->rm->card.bar1_bytes >= dev->base.info.memory_bytes;
    return BELL_OK;
}

/* Copy engines with a runlist of their own (section 3). */
static bell_status
query_copy_engines(struct nv_device *dev)
{
    struct nv2080_ce_get_all_caps caps = {0};
    struct nv_control *control = dev->control;
    uint32_t i, shared;

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                           NV2080_CTRL_CMD_CE_GET_ALL_CAPS,
                           NV_S_NV2080_CE_GET_ALL_CAPS, &caps));
    for (shared = 0; shared <= CE_IS_SHARED; shared += CE_IS_SHARED) {
        for (i = 0; i < 64; i++) {
            if ((caps.present >> i & 1) &&
                (caps.capsTbl[2 * i] & (CE_IS_GRCE | CE_IS_SHARED)) == shared)
                control->copy_engines[control->n_copy_engines++] = (uint8_t)i;
        }
    }
    assert(control->n_copy_engines <= ARRAY_LEN(control->copy_engines));
    return BELL_OK;
}

static void
query_name(struct nv_device *dev)
{
    struct nv2080_gpu_get_name_string name = {0};

    if (nv_rm_control(dev->rm, dev->rm->subdevice,
                      NV2080_CTRL_CMD_GPU_GET_NAME_STRING,
                      NV_S_NV2080_GPU_GET_NAME_STRING, &name) == BELL_OK)
        snprintf(dev->base.info.model, sizeof(dev->base.info.model), "%.*s",
                 (int)sizeof(name.gpuNameString),
                 (const char *)name.gpuNameString);
    if (!dev->base.info.model[0])
        snprintf(dev->base.info.model, sizeof(dev->base.info.model),
                 "NVIDIA card 10de:%04x", dev->rm->card.pci_device);
}

/* An idle card stays at a low clock for copies; a refusal changes nothing
 * but speed. */
static void
boost(struct nv_device *dev)
{
    struct nv2080_perf_boost params = {
        .flags = BOOST_FLAGS,
        .duration = BOOST_DURATION,
    };

    if (nv_rm_control(dev->rm, dev->rm->subdevice, NV2080_CTRL_CMD_PERF_BOOST,
                      NV_S_NV2080_PERF_BOOST, &params) != BELL_OK)
        LOG(LOG_IOCTL, "%s: no boost: %s", dev->base.info.name,
            bell_error_last()->message);
}

bell_status
nv_chip_query(struct nv_device *dev)
{
    BELL_TRY(choose_classes(dev));
    BELL_TRY(query_units(dev));
    choose_generation(&dev->chip);
    BELL_TRY(count_sms(dev));
    BELL_TRY(query_memory(dev));
    BELL_TRY(query_copy_engines(dev));
    query_name(dev);
    boost(dev);
    return BELL_OK;
}
