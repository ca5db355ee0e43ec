/* sim/nv/rm/rm_query.c and the objects that are only asked: what programs other
 * than our driver want of the simulated kernel, by raw calls. Values:
 * observed: H100, 2026-11-22 (tests/hw/h100/cuda.cas). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/gpu/gpu.h"
#include "sim/nv/sim_nv.h"

/* clang-format off */
static const struct query {
    uint32_t command, struct_id;
    char of; /* client, device, subdevice */
    uint32_t first_word;
    bool hopper_only;
} queries[] = {
    {NV0000_CTRL_CMD_SYSTEM_GET_FEATURES, NV_S_NV0000_SYSTEM_GET_FEATURES, 'c', 8, false},
    {NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, NV_S_NV0000_GPU_GET_MEMOP_ENABLE, 'c', 0, false},
    {NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, NV_S_NV0000_SYNC_GPU_BOOST_GROUP_INFO, 'c', 0, false},
    {NV0080_CTRL_CMD_FB_GET_CAPS_V2, NV_S_NV0080_FB_GET_CAPS_V2, 'd', 0x12810b, true},
    {NV0080_CTRL_CMD_HOST_GET_CAPS_V2, NV_S_NV0080_HOST_GET_CAPS_V2, 'd', 0, false},
    {NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, NV_S_NV2080_GPU_GET_SHORT_NAME_STRING, 's', 0x30314847, true},
    {NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, NV_S_NV2080_GPU_GET_SIMULATION_INFO, 's', 0, false},
    {NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS, NV_S_NV2080_GPU_QUERY_ECC_STATUS, 's', 0x010101, true},
    {NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, NV_S_NV2080_GPU_GET_COMPUTE_POLICY_CONFIG, 's', 1, false},
    {NV2080_CTRL_CMD_GR_GET_CAPS_V2, NV_S_NV2080_GR_GET_CAPS_V2, 's', 0x2eb0, true},
    {NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER, NV_S_NV2080_GR_GET_SM_ISSUE_RATE_MODIFIER, 's', 0, false},
    {NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, NV_S_NV2080_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, 's', 0, false},
    {NV2080_CTRL_CMD_BUS_GET_C2C_INFO, NV_S_NV2080_BUS_GET_C2C_INFO, 's', 0, false},
    {NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO, NV_S_NV2080_GET_GPU_FABRIC_PROBE_INFO, 's', 0, false},
    {NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, NV_S_NV2080_NVLINK_GET_NVLINK_STATUS, 's', 0, false},
    {NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO, NV_S_NV2080_GRMGR_GET_GR_FS_INFO, 's', 0, true},
    {NV2080_CTRL_CMD_GPU_GET_INFO_V2, NV_S_NV2080_GPU_GET_INFO_V2, 's', 0, true},
    {NV2080_CTRL_CMD_BUS_GET_INFO_V2, NV_S_NV2080_BUS_GET_INFO_V2, 's', 0, true},
};
/* clang-format on */

static uint32_t
object_of(const struct rig *rig, char of)
{
    return of == 'c' ? rig->client : of == 'd' ? rig->device : rig->subdevice;
}

static void
ask_all(const char *spec, bool is_hopper)
{
    static uint64_t params[2048];
    struct rig rig;
    size_t i;

    rig_init(&rig, spec);
    rig_run(&rig, RIG_DEVICE);
    for (i = 0; i < ARRAY_LEN(queries); i++) {
        const struct query *q = &queries[i];
        uint32_t n = nv_wire_bytes(&rig.abi, q->struct_id), first = 0;
        uint32_t object = object_of(&rig, q->of);
        memset(params, 0, sizeof(params));
        if (q->hopper_only && !is_hopper) {
            assert_int_equal(
                rig_control_sized(&rig, object, q->command, params, n),
                S_NOT_SUPPORTED);
            continue;
        }
        assert_int_equal(rig_control_sized(&rig, object, q->command, params, n),
                         0);
        memcpy(&first, params, n < 4 ? n : 4);
        assert_int_equal(first, q->first_word);
        assert_int_equal(
            rig_control_sized(&rig, object, q->command, params, n + 4),
            S_STRUCT);
    }
    rig_fini(&rig);
}

static void
test_queries(void **state)
{
    char spec[32];
    uint32_t i;

    (void)state;
    for (i = 0; nv_branch_name(i); i++) {
        snprintf(spec, sizeof(spec), "sm_90,branch=%s", nv_branch_name(i));
        ask_all(spec, true);
    }
    ask_all("sm_80", false);
    ask_all("sm_89", false);
    ask_all("sm_120", false);
}

/* Indices and lists that nobody has seen an answer for. */
static void
test_lists(void **state)
{
    static struct nv2080_gpu_get_info_v2 infos;
    static struct nv2080_grmgr_get_gr_fs_info places;
    struct nv0000_gpu_get_id_info id = {0};
    struct rig rig;

    (void)state;
    rig_init(&rig, "h100");
    rig_run(&rig, RIG_DEVICE);
    infos.gpuInfoListSize = 2;
    infos.gpuInfoList[0].index = 0x2a;
    infos.gpuInfoList[1].index = 0x27;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GPU_GET_INFO_V2,
                                 NV_S_NV2080_GPU_GET_INFO_V2, &infos),
                     0);
    assert_int_equal(infos.gpuInfoList[0].data, 2);
    assert_int_equal(infos.gpuInfoList[1].data, 1);
    infos.gpuInfoList[1].index = 0x7777;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GPU_GET_INFO_V2,
                                 NV_S_NV2080_GPU_GET_INFO_V2, &infos),
                     S_ARGUMENT);
    infos.gpuInfoListSize = 1000;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GPU_GET_INFO_V2,
                                 NV_S_NV2080_GPU_GET_INFO_V2, &infos),
                     S_ARGUMENT);
    places.numQueries = 1;
    places.queries[0].queryType = 2;
    places.queries[0].queryData[0] = 7;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO,
                                 NV_S_NV2080_GRMGR_GET_GR_FS_INFO, &places),
                     0);
    assert_int_equal(places.queries[0].queryData[1], 5);
    places.queries[0].queryType = 3;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO,
                                 NV_S_NV2080_GRMGR_GET_GR_FS_INFO, &places),
                     S_NOT_SUPPORTED);
    id.gpuId = rig.gpu_id;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_GET_ID_INFO,
                                 NV_S_NV0000_GPU_GET_ID_INFO, &id),
                     0);
    assert_int_equal(id.gpuFlags, 1); /* in use: there is a device */
    assert_int_equal(id.boardId, rig.gpu_id);
    id.gpuId = 0x77;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_GET_ID_INFO,
                                 NV_S_NV0000_GPU_GET_ID_INFO, &id),
                     S_ARGUMENT);
    /* commands without parameters have none */
    assert_int_equal(rig_control_sized(&rig, rig.subdevice,
                                       NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG,
                                       NULL, 0),
                     0);
    assert_int_equal(rig_control_sized(&rig, rig.subdevice,
                                       NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG,
                                       &id, 4),
                     S_STRUCT);
    rig_fini(&rig);
}

static uint32_t
type_of(const struct rig *rig, uint32_t object)
{
    struct nv0000_client_get_addr_space_type p = {.hObject = object};

    assert_int_equal(rig_control(rig, rig->client,
                                 NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE,
                                 NV_S_NV0000_CLIENT_GET_ADDR_SPACE_TYPE, &p),
                     0);
    return p.addrSpaceType;
}

/* Where memory is mapped through, and which channels there are. */
static void
test_places(void **state)
{
    struct nv0000_client_get_addr_space_type p = {0};
    struct nv00de_alloc shared = {0};
    uint32_t handles[2] = {0}, ids[2] = {0}, page = 0;
    struct nv0080_fifo_get_channellist list = {
        .numChannels = 2,
        .pChannelHandleList = (uintptr_t)handles,
        .pChannelList = (uintptr_t)ids,
    };
    struct nv2080_gr_get_ctx_buffer_size context = {0};
    struct kio_file file;
    struct rig rig;
    const uint32_t *words;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_ALL);
    assert_int_equal(type_of(&rig, rig.notifier), 1);
    assert_int_equal(type_of(&rig, rig.memory), 2);
    assert_int_equal(type_of(&rig, rig.usermode), 3);
    p.hObject = rig.device;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE,
                                 NV_S_NV0000_CLIENT_GET_ADDR_SPACE_TYPE, &p),
                     S_OBJECT);
    p.hObject = 0x99;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE,
                                 NV_S_NV0000_CLIENT_GET_ADDR_SPACE_TYPE, &p),
                     S_NOT_FOUND);
    /* the page that the driver tells of the card in */
    assert_int_equal(rig_alloc(&rig, rig.subdevice, RM_USER_SHARED_DATA,
                               NV_S_NV00DE_ALLOC, &shared, &page),
                     0);
    assert_int_equal(type_of(&rig, page), 1);
    rig_open(&rig, "/dev/nvidiactl", &file);
    assert_int_equal(
        rig_map_cpu(&rig, rig.subdevice, page, 0, 0xa30, &file, NULL), 0);
    words = rig_map_file(&rig, &file, 0x1000);
    assert_int_equal(words[0] | words[100], 0);
    kio_munmap(rig.kio, (void *)(uintptr_t)words, 0x1000);
    kio_close(&file);
    handles[0] = rig.channel;
    handles[1] = rig.memory;
    assert_int_equal(rig_control(&rig, rig.device,
                                 NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST,
                                 NV_S_NV0080_FIFO_GET_CHANNELLIST, &list),
                     0);
    assert_int_equal(ids[0], rig.token & 0xffff);
    assert_int_equal(ids[1], 0xffffffff);
    list.pChannelList = 64;
    assert_int_equal(rig_control(&rig, rig.device,
                                 NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST,
                                 NV_S_NV0080_FIFO_GET_CHANNELLIST, &list),
                     S_ADDRESS);
    context.hChannel = rig.channel;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE,
                                 NV_S_NV2080_GR_GET_CTX_BUFFER_SIZE, &context),
                     0);
    assert_int_equal(context.totalBufferSize, 0x52c000);
    context.hChannel = rig.memory;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE,
                                 NV_S_NV2080_GR_GET_CTX_BUFFER_SIZE, &context),
                     S_CHANNEL);
    rig_fini(&rig);
}

static void
test_p2p(void **state)
{
    struct nv503c_register_va_space space = {0};
    struct nv503c_register_vidmem memory = {.size = 0x10000};
    struct nv503c_alloc params = {0};
    struct rig rig;
    uint32_t p2p = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NOTIFIER);
    assert_int_equal(rig_alloc(&rig, rig.device, NV50_THIRD_PARTY_P2P,
                               NV_S_NV503C_ALLOC, &params, &p2p),
                     S_PARENT);
    assert_int_equal(rig_alloc(&rig, rig.subdevice, NV50_THIRD_PARTY_P2P,
                               NV_S_NV503C_ALLOC, &params, &p2p),
                     0);
    space.hVASpace = rig.space;
    assert_int_equal(rig_control(&rig, p2p, NV503C_CTRL_CMD_REGISTER_VA_SPACE,
                                 NV_S_NV503C_REGISTER_VA_SPACE, &space),
                     0);
    assert_int_equal(space.vaSpaceToken, 0xfe00);
    space.hVASpace = rig.memory;
    assert_int_equal(rig_control(&rig, p2p, NV503C_CTRL_CMD_REGISTER_VA_SPACE,
                                 NV_S_NV503C_REGISTER_VA_SPACE, &space),
                     S_HANDLE);
    memory.hMemory = rig.memory;
    assert_int_equal(rig_control(&rig, p2p, NV503C_CTRL_CMD_REGISTER_VIDMEM,
                                 NV_S_NV503C_REGISTER_VIDMEM, &memory),
                     0);
    memory.offset = HUGE;
    assert_int_equal(rig_control(&rig, p2p, NV503C_CTRL_CMD_REGISTER_VIDMEM,
                                 NV_S_NV503C_REGISTER_VIDMEM, &memory),
                     S_ARGUMENT);
    memory.hMemory = rig.notifier;
    assert_int_equal(rig_control(&rig, p2p, NV503C_CTRL_CMD_REGISTER_VIDMEM,
                                 NV_S_NV503C_REGISTER_VIDMEM, &memory),
                     S_HANDLE);
    rig_fini(&rig);
}

/* What two cards, and three, can do with each other's memory; in one group,
 * every pair both ways. */
static void
test_peer_caps(void **state)
{
    /* reads, writes and: NVLink, atomics; PCI, by mailboxes */
    const uint32_t nvlink = 0x1b, pcie = 0x47;
    struct nv0000_system_get_p2p_caps_matrix m = {0};
    struct nv0000_system_get_p2p_caps_v2 v2 = {0};
    struct nv2080_nvlink_get_nvlink_status links = {0};
    struct nv2080_get_gpu_fabric_probe_info fabric = {0};
    struct rig rig;
    size_t i, k;

    (void)state;
    rig_init(&rig, "h100*3,link=0-1:pcie");
    rig_run(&rig, RIG_DEVICE);
    for (i = 0; i < 3; i++)
        m.gpuIdGrpA[i] = v2.gpuIds[i] = rig.gpu_id + (uint32_t)(i << 12);
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX,
                                 NV_S_NV0000_SYSTEM_GET_P2P_CAPS_MATRIX, &m),
                     S_ARGUMENT);
    m.grpACount = 3;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX,
                                 NV_S_NV0000_SYSTEM_GET_P2P_CAPS_MATRIX, &m),
                     0);
    for (i = 0; i < 3; i++) {
        for (k = 0; k < 3; k++) {
            uint32_t want = i == k ? 0 : i + k == 1 ? pcie : nvlink;

            assert_int_equal(m.p2pCaps[8 * i + k], want);
            assert_int_equal(m.a2bOptimalWriteCes[8 * i + k] != 0,
                             want == nvlink);
            assert_int_equal(m.b2aOptimalReadCes[8 * i + k],
                             m.a2bOptimalReadCes[8 * k + i]);
        }
    }
    v2.gpuCount = 3; /* what all pairs have */
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2,
                                 NV_S_NV0000_SYSTEM_GET_P2P_CAPS_V2, &v2),
                     0);
    assert_int_equal(v2.p2pCaps, nvlink & pcie);
    assert_int_equal(v2.p2pCapsStatus[0], 0);
    assert_int_equal(v2.p2pCapsStatus[3], 5); /* atomics */
    assert_int_equal(v2.busPeerIds[1], UINT32_MAX);
    v2.gpuIds[1] = 0x5;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2,
                                 NV_S_NV0000_SYSTEM_GET_P2P_CAPS_V2, &v2),
                     S_ARGUMENT);
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS,
                                 NV_S_NV2080_NVLINK_GET_NVLINK_STATUS, &links),
                     0);
    assert_int_equal(links.enabledLinkMask, 0x3ffff);
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO,
                                 NV_S_NV2080_GET_GPU_FABRIC_PROBE_INFO,
                                 &fabric),
                     0);
    assert_int_equal(fabric.state, 3);
    rig_fini(&rig);
}

/* Accepted with a file that has one, on the card's node too. */
static void
test_events(void **state)
{
    struct nv_alloc_os_event os;
    struct nv_free_os_event end;
    struct nv0005_alloc params = {.hClass = NV01_EVENT_OS_EVENT};
    struct rig rig;
    uint32_t event = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_DEVICE);
    assert_int_equal(rig_alloc(&rig, rig.subdevice, NV01_EVENT_OS_EVENT,
                               NV_S_NV0005_ALLOC, &params, &event),
                     S_ARGUMENT);
    os = (struct nv_alloc_os_event){
        .hClient = rig.client, .hDevice = rig.subdevice, .fd = rig.node.fd};
    end = (struct nv_free_os_event){.hClient = rig.client, .fd = rig.node.fd};
    assert_int_equal(rig_escape(&rig, &rig.node, NV_ESC_FREE_OS_EVENT,
                                NV_S_NV_FREE_OS_EVENT, &end),
                     S_EVENT);
    assert_int_equal(rig_escape(&rig, &rig.node, NV_ESC_ALLOC_OS_EVENT,
                                NV_S_NV_ALLOC_OS_EVENT, &os),
                     0);
    assert_int_equal(rig_escape(&rig, &rig.node, NV_ESC_ALLOC_OS_EVENT,
                                NV_S_NV_ALLOC_OS_EVENT, &os),
                     S_RESOURCES);
    assert_int_equal(rig_alloc(&rig, rig.subdevice, NV01_EVENT_OS_EVENT,
                               NV_S_NV0005_ALLOC, &params, &event),
                     0);
    assert_int_equal(params.hSrcResource, rig.subdevice);
    params.hClass = 0x7e;
    event = 0;
    assert_int_equal(rig_alloc(&rig, rig.subdevice, NV01_EVENT_OS_EVENT,
                               NV_S_NV0005_ALLOC, &params, &event),
                     S_CLASS);
    assert_int_equal(rig_escape(&rig, &rig.node, NV_ESC_FREE_OS_EVENT,
                                NV_S_NV_FREE_OS_EVENT, &end),
                     0);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries), cmocka_unit_test(test_lists),
        cmocka_unit_test(test_places),  cmocka_unit_test(test_p2p),
        cmocka_unit_test(test_events),  cmocka_unit_test(test_peer_caps),
    };

    if (log_init() != BELL_OK)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
