/* Controls that other programs make, CUDA's runtime above all: what the card
 * and the driver are, and settings that change nothing here. Constants of a
 * chip are answered for the one that they were observed on and refused on
 * others.
 *
 * src: the calls and their answers: observed: H100, CUDA 13.0, 2026-11-22
 * (tests/hw/h100/cuda.cas); what they mean: ctrl*.h and the functions named
 * below, of NVIDIA/open-gpu-kernel-modules at 580.142.
 */
#include "sim/nv/rm/rm.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/nv_uapi.h"

#define NO_ID           0xffffffffu
#define SLI_STATUS      0x41u
#define CHANGELIST      0x242246fu
#define FIRST_VAS_TOKEN 0xfe00u
#define LAST_VAS_TOKEN  0xfeffu
/* GET_ADDR_SPACE_TYPE's results */
#define SPACE_SYSTEM   1u
#define SPACE_VIDEO    2u
#define SPACE_REGISTER 3u

static enum rm_status
not_observed(const struct rm_control *c)
{
    return c->machine->chip->sm == 90
               ? RM_OK
               : rm_refuse(RM_NOT_SUPPORTED,
                           "%s: what %s answers has not been observed",
                           nv_control_name(c->command),
                           c->machine->chip->board);
}

static enum rm_status
accept_without_effect(struct rm_control *c)
{
    (void)c;
    return RM_OK;
}

/* Nothing is there, on any chip: no boost groups, no simulation, no
 * rules, no memory operations that need enabling. */
static enum rm_status
say_none(struct rm_control *c)
{
    memset(c->params, 0, c->params_bytes);
    return RM_OK;
}

/* ---- clients ---- */

/* Cut to what the caller has room for. */
static bool
give_text(uint64_t addr, uint32_t cap, const char *text)
{
    char out[256] = "";

    if (!addr || !cap)
        return true;
    cap = cap < sizeof(out) ? cap : (uint32_t)sizeof(out);
    snprintf(out, cap, "%s", text);
    return rm_user_write(addr, out, cap);
}

static enum rm_status
query_build_version(struct rm_control *c)
{
    struct nv0000_system_get_build_version *p = c->params;
    const struct nv_abi *abi = &c->machine->abi;
    char branch[32], title[128];

    snprintf(branch, sizeof(branch), "r%u_00", abi->major);
    snprintf(title, sizeof(title),
             "NVIDIA UNIX Open Kernel Module for x86_64  %s", abi->version);
    if (!give_text(p->pDriverVersionBuffer, p->sizeOfStrings, abi->version) ||
        !give_text(p->pVersionBuffer, p->sizeOfStrings, branch) ||
        !give_text(p->pTitleBuffer, p->sizeOfStrings, title))
        return rm_refuse(RM_INVALID_ADDRESS, "texts of %u bytes",
                         p->sizeOfStrings);
    p->changelistNumber = 0;
    p->officialChangelistNumber = CHANGELIST;
    return RM_OK;
}

static enum rm_status
get_features(struct rm_control *c)
{
    struct nv0000_system_get_features *p = c->params;

    p->featuresMask = 8;
    return RM_OK;
}

/* The flag is that somebody uses the card. */
static enum rm_status
query_id_info(struct rm_control *c)
{
    struct nv0000_gpu_get_id_info *p = c->params;
    const struct rm_card *card = rm_card_of_id(c->machine, p->gpuId);
    const struct rm_client *client;
    size_t i;

    if (!card || !card->n_attached)
        return rm_refuse(RM_INVALID_ARGUMENT, "no card of id 0x%x is attached",
                         p->gpuId);
    p->gpuFlags = 0;
    for (client = c->machine->clients; client; client = client->next) {
        for (i = 0; i < client->n_objects; i++)
            p->gpuFlags |= client->objects[i]->kind == RM_KIND_DEVICE &&
                           client->objects[i]->card == card;
    }
    p->deviceInstance = p->gpuInstance = card->index;
    p->subDeviceInstance = 0;
    p->sliStatus = SLI_STATUS;
    p->boardId = card->gpu_id;
    p->numaId = -1;
    return RM_OK;
}

static enum rm_status
get_active_devices(struct rm_control *c)
{
    struct nv0000_gpu_get_active_device_ids *p = c->params;
    uint32_t i;

    memset(p, 0, sizeof(*p));
    for (i = 0; i < c->machine->n_cards; i++) {
        if (!c->machine->cards[i].n_attached)
            continue;
        p->devices[p->numDevices].gpuId = c->machine->cards[i].gpu_id;
        p->devices[p->numDevices].gpuInstanceId = NO_ID;
        p->devices[p->numDevices++].computeInstanceId = NO_ID;
    }
    return RM_OK;
}

/* src: cliresCtrlCmdClientGetAddrSpaceType_IMPL */
static enum rm_status
get_address_type(struct rm_control *c)
{
    struct nv0000_client_get_addr_space_type *p = c->params;
    const struct rm_object *o = rm_find(c->object->client, p->hObject);

    if (!o)
        return rm_refuse(RM_OBJECT_NOT_FOUND, "no object 0x%x", p->hObject);
    if (!o->mem)
        return rm_refuse(RM_INVALID_OBJECT, "object 0x%x is not memory",
                         p->hObject);
    if (o->mem->kind == RM_MEM_WINDOW)
        p->addrSpaceType = o->mem->file_offset ? SPACE_VIDEO : SPACE_REGISTER;
    else
        p->addrSpaceType =
            o->mem->kind == RM_MEM_VIDEO ? SPACE_VIDEO : SPACE_SYSTEM;
    return RM_OK;
}

/* Who else may use objects: there is nobody else. */
static enum rm_status
share_objects(struct rm_control *c)
{
    const struct nv0000_client_set_inherited_share_policy *p = c->params;

    return p->sharePolicy.type ? RM_OK : RM_INVALID_ARGUMENT;
}

/* ---- devices ---- */

static enum rm_status
get_fb_caps(struct rm_control *c)
{
    static const uint8_t caps[] = {0x0b, 0x81, 0x12};
    struct nv0080_fb_get_caps_v2 *p = c->params;
    enum rm_status status = not_observed(c);

    if (status == RM_OK)
        memcpy(p->capsTbl, caps, sizeof(caps));
    return status;
}

static enum rm_status
get_host_caps(struct rm_control *c)
{
    struct nv0080_host_get_caps_v2 *p = c->params;

    memset(p->capsTbl, 0, sizeof(p->capsTbl));
    return RM_OK;
}

/* src: deviceCtrlCmdFifoGetChannelList_IMPL */
static enum rm_status
list_channels(struct rm_control *c)
{
    const struct nv0080_fifo_get_channellist *p = c->params;
    uint32_t i, handle, id;

    if (!p->numChannels)
        return rm_refuse(RM_INVALID_ARGUMENT, "a list of no channels");
    for (i = 0; i < p->numChannels; i++) {
        const struct rm_object *o;
        if (!rm_user_read(&handle, p->pChannelHandleList + 4ull * i, 4))
            return rm_refuse(RM_INVALID_ADDRESS, "a list of channels");
        o = rm_find_kind(c->object->client, handle, RM_KIND_CHANNEL);
        id = o ? nvgpu_chan_token(o->channel->chan) & 0xffff : NO_ID;
        if (!rm_user_write(p->pChannelList + 4ull * i, &id, 4))
            return rm_refuse(RM_INVALID_ADDRESS, "a list of channels");
    }
    return RM_OK;
}

/* ---- subdevices ---- */

static const uint32_t *
find_info(const struct nvgpu_info *list, size_t n, uint32_t index)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (list[i].index == index)
            return &list[i].data;
    }
    return NULL;
}

/* Names of indices: NV2080_CTRL_GPU_INFO_INDEX_. */
static enum rm_status
get_gpu_info(struct rm_control *c)
{
    static const struct nvgpu_info infos[] = {
        {0x11, 1}, {0x22, 0}, {0x27, 1}, {0x2a, 2}, {0x2d, 0}, {0x37, 1},
        {0x3a, 0}, {0x3b, 0}, {0x3c, 0}, {0x3d, 1}, {0x44, 0},
    };
    struct nv2080_gpu_get_info_v2 *p = c->params;
    enum rm_status status = not_observed(c);
    uint32_t i;

    if (status != RM_OK)
        return status;
    if (p->gpuInfoListSize > ARRAY_LEN(p->gpuInfoList))
        return rm_refuse(RM_INVALID_ARGUMENT, "a list of %u",
                         p->gpuInfoListSize);
    for (i = 0; i < p->gpuInfoListSize; i++) {
        const uint32_t *data = find_info(infos, ARRAY_LEN(infos),
                                         p->gpuInfoList[i].index & 0xffffff);
        if (!data)
            return rm_refuse(RM_INVALID_ARGUMENT, "info index 0x%x",
                             p->gpuInfoList[i].index);
        p->gpuInfoList[i].data = *data;
    }
    return RM_OK;
}

/* Names of indices: NV2080_CTRL_BUS_INFO_INDEX_. */
static enum rm_status
get_bus_info(struct rm_control *c)
{
    const struct nvgpu_info infos[] = {
        {0x00, 3}, /* PCIe */
        {0x02, 0},
        {0x03, 0x457905}, /* link: as wide and fast as can be */
        {0x06, 0},
        {0x0b, 5}, /* coherent DMA */
        {0x0f, c->object->card->bus},
        {0x10, 0}, /* slot */
        {0x2c, 0}, /* domain */
        {0x2d, 0x444000},
    };
    struct nv2080_bus_get_info_v2 *p = c->params;
    enum rm_status status = not_observed(c);
    uint32_t i;

    if (status != RM_OK)
        return status;
    if (p->busInfoListSize > ARRAY_LEN(p->busInfoList))
        return rm_refuse(RM_INVALID_ARGUMENT, "a list of %u",
                         p->busInfoListSize);
    for (i = 0; i < p->busInfoListSize; i++) {
        const uint32_t *data =
            find_info(infos, ARRAY_LEN(infos), p->busInfoList[i].index);
        if (!data)
            return rm_refuse(RM_INVALID_ARGUMENT, "info index 0x%x",
                             p->busInfoList[i].index);
        p->busInfoList[i].data = *data;
    }
    return RM_OK;
}

static enum rm_status
get_short_name(struct rm_control *c)
{
    struct nv2080_gpu_get_short_name_string *p = c->params;
    enum rm_status status = not_observed(c);

    if (status != RM_OK)
        return status;
    memset(p->gpuShortNameString, 0, sizeof(p->gpuShortNameString));
    snprintf((char *)p->gpuShortNameString, sizeof(p->gpuShortNameString),
             "GH100GL-A");
    return RM_OK;
}

/* Units with ECC, which has seen no error. */
static enum rm_status
get_ecc(struct rm_control *c)
{
    const uint32_t units = 0x1fdfe3b;
    struct nv2080_gpu_query_ecc_status *p = c->params;
    enum rm_status status = not_observed(c);
    uint32_t i;

    if (status != RM_OK)
        return status;
    memset(p->units, 0, sizeof(p->units));
    for (i = 0; i < 32; i++) {
        uint8_t has = units >> i & 1;
        p->units[i].enabled = p->units[i].supported = has;
        p->units[i].scrubComplete = has;
    }
    p->bFatalPoisonError = p->uncorrectableError = 0;
    return RM_OK;
}

/* src: ctrl2080gpu.h, NV2080_CTRL_GPU_COMPUTE_MODE_RULES_*;
 * subdevice_ctrl_gpu_kernel.c, where no more than this is done with them */
static enum rm_status
get_compute_mode(struct rm_control *c)
{
    struct nv2080_gpu_query_compute_mode_rules *p = c->params;

    p->rules = c->machine->compute_mode;
    return RM_OK;
}

static enum rm_status
reserve_card(struct rm_control *c)
{
    struct rm_card *card = c->object->card;
    uint32_t mode = c->machine->compute_mode;

    if (mode == RM_MODE_PROHIBITED || (mode && card->reserved_by))
        return rm_refuse(RM_STATE_IN_USE, "compute mode %u: client 0x%x has it",
                         mode, card->reserved_by);
    card->reserved_by = c->object->client->root->handle;
    return RM_OK;
}

static enum rm_status
get_policies(struct rm_control *c)
{
    struct nv2080_gpu_get_compute_policy_config *p = c->params;

    p->numConfigs = 1; /* time slice: by default */
    p->configList[0].type = 0;
    p->configList[0].data.timeslice = 0;
    return RM_OK;
}

static enum rm_status
get_gr_caps(struct rm_control *c)
{
    static const uint8_t caps[] = {
        0xb0, 0x2e, 0, 0,    0,    0, 0,    1, 0,    0,    0,   0x10,
        0x01, 0x08, 0, 0x10, 0x10, 0, 0x80, 0, 0x04, 0x40, 0x10};
    struct nv2080_gr_get_caps_v2 *p = c->params;
    enum rm_status status = not_observed(c);

    if (status != RM_OK)
        return status;
    memcpy(p->capsTbl, caps, sizeof(caps));
    p->bCapsPopulated = 1;
    return RM_OK;
}

/* How many addresses UVM_REGISTER_CHANNEL wants for a channel's context. */
static enum rm_status
get_context_bytes(struct rm_control *c)
{
    struct nv2080_gr_get_ctx_buffer_size *p = c->params;

    if (!rm_find_kind(c->object->client, p->hChannel, RM_KIND_CHANNEL))
        return rm_refuse(RM_INVALID_CHANNEL, "0x%x is not a channel",
                         p->hChannel);
    p->totalBufferSize = RM_CONTEXT_BYTES;
    return RM_OK;
}

/* Where each GPC is on the die. guess: smaller cards have the first ones. */
static enum rm_status
get_gr_fs_info(struct rm_control *c)
{
    static const uint32_t chiplets[] = {0, 1, 2, 3, 4, 6, 7, 5};
    const struct nvgpu_chip *chip = c->machine->chip;
    struct nv2080_grmgr_get_gr_fs_info *p = c->params;
    enum rm_status status = not_observed(c);
    uint32_t i;

    if (status != RM_OK)
        return status;
    if (p->numQueries > ARRAY_LEN(p->queries))
        return rm_refuse(RM_INVALID_ARGUMENT, "%u queries", p->numQueries);
    for (i = 0; i < p->numQueries; i++) {
        uint32_t gpc = p->queries[i].queryData[0];
        if (p->queries[i].queryType != 2)
            return rm_refuse(RM_NOT_SUPPORTED, "query of type %u",
                             p->queries[i].queryType);
        p->queries[i].status = 0;
        p->queries[i].queryData[1] =
            gpc < chip->n_gpc && gpc < ARRAY_LEN(chiplets) ? chiplets[gpc] : 0;
    }
    return RM_OK;
}

/* ---- objects that are there to be asked ---- */

static enum rm_status
get_error_masks(struct rm_control *c)
{
    struct nv90e6_get_error_cont_intr_mask *p = c->params;
    enum rm_status status = not_observed(c);

    if (status != RM_OK)
        return status;
    p->eccMask = 0x180;
    p->nvlinkMask = 0x400000;
    return RM_OK;
}

/* Other devices' drivers reach memory that is registered so: there are none.
 * src: CliAddThirdPartyP2PVASpace */
static enum rm_status
register_vas(struct rm_control *c)
{
    struct nv503c_register_va_space *p = c->params;

    if (!rm_find_kind(c->object->client, p->hVASpace, RM_KIND_VAS))
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "0x%x is not an address space", p->hVASpace);
    if (FIRST_VAS_TOKEN + c->object->n_registered > LAST_VAS_TOKEN)
        return rm_refuse(RM_INSUFFICIENT_RESOURCES, "no token is left");
    p->vaSpaceToken = FIRST_VAS_TOKEN + c->object->n_registered++;
    return RM_OK;
}

static enum rm_status
register_memory(struct rm_control *c)
{
    const struct nv503c_register_vidmem *p = c->params;
    const struct rm_object *o =
        rm_find_kind(c->object->client, p->hMemory, RM_KIND_MEMORY);

    if (!o || o->mem->kind != RM_MEM_VIDEO)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE, "0x%x is not video memory",
                         p->hMemory);
    if (!p->size || p->offset > o->mem->size_bytes ||
        p->size > o->mem->size_bytes - p->offset)
        return rm_refuse(RM_INVALID_ARGUMENT, "0x%llx bytes of memory 0x%x",
                         (unsigned long long)p->size, p->hMemory);
    return RM_OK;
}

static enum rm_status
unregister_memory(struct rm_control *c)
{
    const struct nv503c_unregister_vidmem *p = c->params;

    return rm_find_kind(c->object->client, p->hMemory, RM_KIND_MEMORY)
               ? RM_OK
               : rm_refuse(RM_INVALID_OBJECT_HANDLE, "0x%x is not memory",
                           p->hMemory);
}

#define CLIENT    (1u << RM_KIND_CLIENT)
#define DEVICE    (1u << RM_KIND_DEVICE)
#define SUBDEVICE (1u << RM_KIND_SUBDEVICE)
#define MASTER    (1u << RM_KIND_MASTER)
#define P2P       (1u << RM_KIND_P2P)

/* clang-format off */
const struct rm_control_row rm_query_controls[] = {
    {NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, NV_S_NV0000_SYSTEM_GET_BUILD_VERSION, CLIENT, query_build_version},
    {NV0000_CTRL_CMD_SYSTEM_GET_FEATURES, NV_S_NV0000_SYSTEM_GET_FEATURES, CLIENT, get_features},
    {NV0000_CTRL_CMD_GPU_GET_ID_INFO, NV_S_NV0000_GPU_GET_ID_INFO, CLIENT, query_id_info},
    {NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS, NV_S_NV0000_GPU_GET_ACTIVE_DEVICE_IDS, CLIENT, get_active_devices},
    {NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, NV_S_NV0000_GPU_GET_MEMOP_ENABLE, CLIENT, say_none},
    {NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, NV_S_NV0000_SYNC_GPU_BOOST_GROUP_INFO, CLIENT, say_none},
    {NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE, NV_S_NV0000_CLIENT_GET_ADDR_SPACE_TYPE, CLIENT, get_address_type},
    {NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, NV_S_NV0000_CLIENT_SET_INHERITED_SHARE_POLICY, CLIENT, share_objects},
    {NV0080_CTRL_CMD_FB_GET_CAPS_V2, NV_S_NV0080_FB_GET_CAPS_V2, DEVICE, get_fb_caps},
    {NV0080_CTRL_CMD_HOST_GET_CAPS_V2, NV_S_NV0080_HOST_GET_CAPS_V2, DEVICE, get_host_caps},
    {NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, NV_S_NV0080_FIFO_GET_CHANNELLIST, DEVICE, list_channels},
    {NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, NV_S_NV0080_PERF_CUDA_LIMIT_CONTROL, DEVICE, accept_without_effect},
    {NV2080_CTRL_CMD_GPU_GET_INFO_V2, NV_S_NV2080_GPU_GET_INFO_V2, SUBDEVICE, get_gpu_info},
    {NV2080_CTRL_CMD_BUS_GET_INFO_V2, NV_S_NV2080_BUS_GET_INFO_V2, SUBDEVICE, get_bus_info},
    {NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, NV_S_NV2080_GPU_GET_SHORT_NAME_STRING, SUBDEVICE, get_short_name},
    {NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, NV_S_NV2080_GPU_GET_SIMULATION_INFO, SUBDEVICE, say_none},
    {NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS, NV_S_NV2080_GPU_QUERY_ECC_STATUS, SUBDEVICE, get_ecc},
    {NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES, NV_S_NV2080_GPU_QUERY_COMPUTE_MODE_RULES, SUBDEVICE, get_compute_mode},
    {NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION, RM_NO_PARAMS, SUBDEVICE, reserve_card},
    {NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, NV_S_NV2080_GPU_GET_COMPUTE_POLICY_CONFIG, SUBDEVICE, get_policies},
    {NV2080_CTRL_CMD_GR_GET_CAPS_V2, NV_S_NV2080_GR_GET_CAPS_V2, SUBDEVICE, get_gr_caps},
    {NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE, NV_S_NV2080_GR_GET_CTX_BUFFER_SIZE, SUBDEVICE, get_context_bytes},
    {NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER, NV_S_NV2080_GR_GET_SM_ISSUE_RATE_MODIFIER, SUBDEVICE, say_none},
    {NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO, NV_S_NV2080_GRMGR_GET_GR_FS_INFO, SUBDEVICE, get_gr_fs_info},
    {NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, NV_S_NV2080_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, SUBDEVICE, say_none},
    {NV2080_CTRL_CMD_BUS_GET_C2C_INFO, NV_S_NV2080_BUS_GET_C2C_INFO, SUBDEVICE, say_none},
    {NV2080_CTRL_CMD_RC_RELEASE_WATCHDOG_REQUESTS, RM_NO_PARAMS, SUBDEVICE, accept_without_effect},
    {NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG, RM_NO_PARAMS, SUBDEVICE, accept_without_effect},
    {NV90E6_CTRL_CMD_MASTER_GET_VIRTUAL_FUNCTION_ERROR_CONT_INTR_MASK, NV_S_NV90E6_GET_ERROR_CONT_INTR_MASK, MASTER, get_error_masks},
    {NV503C_CTRL_CMD_REGISTER_VA_SPACE, NV_S_NV503C_REGISTER_VA_SPACE, P2P, register_vas},
    {NV503C_CTRL_CMD_REGISTER_VIDMEM, NV_S_NV503C_REGISTER_VIDMEM, P2P, register_memory},
    {NV503C_CTRL_CMD_UNREGISTER_VIDMEM, NV_S_NV503C_UNREGISTER_VIDMEM, P2P, unregister_memory},
};
/* clang-format on */
const size_t rm_n_query_controls = ARRAY_LEN(rm_query_controls);
