/* sim/nv/rm/rm_channel.c, rm_control.c: groups, channels and their objects,
 * what is asked by control calls on every branch, faults, and work that never
 * ends; the rules of docs/hardware/nvidia-kernel.md, "Bring-up" and "Queries",
 * and of docs/hardware/nvidia-queues.md, "Errors", and what breaks them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/gpu/gpu.h"
#include "sim/nv/sim_nv.h"

#define BAD_VA 0x700000000ull

/* ---- groups and channels ------------------------------------------------- */

static void
test_groups(void **state)
{
    struct nv_channel_group_alloc params = {.engineType = GR0};
    struct rig rig;
    uint32_t handle = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NOTIFIER);
    assert_int_equal(rig_group(&rig, 0, &handle), S_ARGUMENT);
    assert_int_equal(rig_group(&rig, 2, &handle), S_ARGUMENT);
    assert_int_equal(rig_group(&rig, COPY(5), &handle), S_ARGUMENT);
    assert_int_equal(rig_group(&rig, COPY(4), &handle), 0);
    handle = 0;
    params.hVASpace = 0x99;
    assert_int_equal(rig_alloc(&rig, rig.device, KEPLER_CHANNEL_GROUP_A,
                               NV_S_NV_CHANNEL_GROUP_ALLOC, &params, &handle),
                     S_HANDLE);
    params.hVASpace = rig.space;
    params.hObjectError = rig.space;
    assert_int_equal(rig_alloc(&rig, rig.device, KEPLER_CHANNEL_GROUP_A,
                               NV_S_NV_CHANNEL_GROUP_ALLOC, &params, &handle),
                     S_HANDLE);
    params.hObjectError = rig.notifier;
    assert_int_equal(rig_alloc(&rig, rig.device, KEPLER_CHANNEL_GROUP_A,
                               NV_S_NV_CHANNEL_GROUP_ALLOC, &params, &handle),
                     0);
    rig_fini(&rig);
}

/* One parameter wrong at a time. */
static void
test_channel_rules(void **state)
{
    struct nv_channel_alloc good, p;
    struct rig rig;
    uint32_t handle = 0, sys = 0, other = 0, carrier = 0;
    uint64_t va = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NOTIFIER);
    good = rig_channel_params(&rig);
    assert_int_equal(rig_group(&rig, GR0, &rig.group), 0);
    assert_int_equal(rig_system(&rig, 0x2000, &sys), 0);

    p = good, p.engineType = COPY(1);
    assert_int_equal(rig_channel(&rig, &p, &handle), S_ARGUMENT);
    p = good, p.hVASpace = rig.space;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_ARGUMENT);
    p = good, p.gpFifoEntries = 0;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_ARGUMENT);
    p = good, p.gpFifoEntries = 100;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_ARGUMENT);
    p = good, p.gpFifoOffset += 4;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_OFFSET);
    p = good, p.gpFifoOffset = BAD_VA;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_ADDRESS);
    p = good, p.gpFifoOffset += HUGE - 256;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_ADDRESS);
    p = good, p.userdOffset[0] = 256;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_OFFSET);
    p = good, p.userdOffset[0] = HUGE;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_OFFSET);
    p = good, p.hUserdMemory[0] = 0;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_HANDLE);
    p = good, p.hObjectError = 0x99;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_HANDLE);
    p = good, p.hContextShare = 0x99;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_HANDLE);
    /* USERD in system memory with the ring in video memory */
    p = good, p.hUserdMemory[0] = sys;
    assert_int_equal(rig_channel(&rig, &p, &handle), S_STATE);
    /* both there is fine, and an older class, and engine 0 */
    assert_int_equal(rig_carrier(&rig, 0x2000, 0x1000, &carrier, NULL), 0);
    assert_int_equal(rig_map_gpu(&rig, carrier, sys, 0, 0x2000, 0x10, &va), 0);
    p.gpFifoOffset = va;
    assert_int_equal(rig_channel(&rig, &p, &handle), 0);
    p = good, p.engineType = 0;
    assert_int_equal(rig_alloc(&rig, rig.group, AMPERE_CHANNEL_GPFIFO_A,
                               NV_S_NV_CHANNEL_ALLOC, &p, &other),
                     0);
    assert_int_equal(rig_alloc(&rig, rig.group, BLACKWELL_CHANNEL_GPFIFO_A,
                               NV_S_NV_CHANNEL_ALLOC, &p, &carrier),
                     S_CLASS);
    assert_int_equal(rig_alloc(&rig, rig.device, HOPPER_CHANNEL_GPFIFO_A,
                               NV_S_NV_CHANNEL_ALLOC, &p, &carrier),
                     S_PARENT);
    rig_fini(&rig);
    /* cards before Hopper keep the order */
    rig_init(&rig, "sm_80");
    rig_run(&rig, RIG_NOTIFIER);
    assert_int_equal(rig_group(&rig, GR0, &rig.group), 0);
    p = rig_channel_params(&rig);
    p.hUserdMemory[0] = rig.notifier;
    p.userdOffset[0] = 512;
    handle = 0;
    assert_int_equal(rig_channel(&rig, &p, &handle), 0);
    rig_fini(&rig);
}

/* Either all of a group's channels use a context share, or none does. */
static void
test_shares(void **state)
{
    struct nv_ctxshare_alloc share = {.flags = 2};
    struct nv_channel_alloc p;
    struct rig rig;
    uint32_t handle = 0, a = 0, b = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NOTIFIER);
    assert_int_equal(rig_group(&rig, GR0, &rig.group), 0);
    share.hVASpace = rig.space;
    assert_int_equal(rig_alloc(&rig, rig.group, FERMI_CONTEXT_SHARE_A,
                               NV_S_NV_CTXSHARE_ALLOC, &share, &handle),
                     S_FLAGS);
    share.flags = 1;
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_CONTEXT_SHARE_A,
                               NV_S_NV_CTXSHARE_ALLOC, &share, &handle),
                     S_PARENT);
    assert_int_equal(rig_alloc(&rig, rig.group, FERMI_CONTEXT_SHARE_A,
                               NV_S_NV_CTXSHARE_ALLOC, &share, &handle),
                     0);
    p = rig_channel_params(&rig);
    p.hContextShare = handle;
    assert_int_equal(rig_channel(&rig, &p, &a), 0);
    p.hContextShare = 0;
    assert_int_equal(rig_channel(&rig, &p, &b), S_STATE);
    rig_fini(&rig);
}

/* Objects, then the token, then work; not in another order. */
static void
test_order(void **state)
{
    struct nva06f_gpfifo_schedule on = {.bEnable = 1};
    struct nva06f_bind bind = {.engineType = COPY(2)};
    struct nvb0b5_alloc ce = {.version = 1, .engineType = COPY(3)};
    struct nv_gr_alloc gr = {.version = 2, .size = 12};
    struct nv_channel_alloc p;
    struct rig rig;
    uint32_t token = 0, object = 0, copy = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NOTIFIER + 1);
    assert_int_equal(rig_token(&rig, rig.channel, &token), S_STATE);
    assert_int_equal(rig_schedule(&rig, rig.group, true), S_STATE);
    assert_int_equal(rig_control(&rig, rig.channel,
                                 NVA06F_CTRL_CMD_GPFIFO_SCHEDULE,
                                 NV_S_NVA06F_GPFIFO_SCHEDULE, &on),
                     S_STATE);
    assert_int_equal(rig_control(&rig, rig.channel, NVA06F_CTRL_CMD_BIND,
                                 NV_S_NVA06F_BIND, &bind),
                     S_ARGUMENT);
    assert_int_equal(rig_alloc(&rig, rig.channel, HOPPER_COMPUTE_A,
                               NV_S_NV_GR_ALLOC, &gr, &object),
                     S_STRUCT);
    assert_int_equal(rig_alloc(&rig, rig.channel, AMPERE_COMPUTE_A, NO_STRUCT,
                               NULL, &object),
                     S_CLASS);
    assert_int_equal(rig_alloc(&rig, rig.channel, HOPPER_COMPUTE_A, NO_STRUCT,
                               NULL, &object),
                     0);
    /* the partner engine of the same channel */
    assert_int_equal(
        rig_alloc(&rig, rig.channel, HOPPER_DMA_COPY_A, NO_STRUCT, NULL, &copy),
        0);
    assert_int_equal(rig_token(&rig, rig.channel, &rig.token), 0);
    assert_int_equal(rig_control(&rig, rig.channel,
                                 NVA06F_CTRL_CMD_GPFIFO_SCHEDULE,
                                 NV_S_NVA06F_GPFIFO_SCHEDULE, &on),
                     0);
    rig_check_work(&rig);
    /* a copy engine's channel has its engine's objects only */
    rig.group = 0;
    object = 0;
    assert_int_equal(rig_group(&rig, COPY(2), &rig.group), 0);
    p = rig_channel_params(&rig);
    p.engineType = COPY(2);
    p.userdOffset[0] += 512;
    assert_int_equal(rig_channel(&rig, &p, &object), 0);
    rig.channel = object;
    object = 0;
    assert_int_equal(rig_alloc(&rig, rig.channel, HOPPER_COMPUTE_A, NO_STRUCT,
                               NULL, &object),
                     S_CLASS);
    assert_int_equal(rig_alloc(&rig, rig.channel, HOPPER_DMA_COPY_A,
                               NV_S_NVB0B5_ALLOC, &ce, &object),
                     S_ARGUMENT);
    ce.engineType = COPY(2);
    assert_int_equal(rig_alloc(&rig, rig.channel, HOPPER_DMA_COPY_A,
                               NV_S_NVB0B5_ALLOC, &ce, &object),
                     0);
    rig_fini(&rig);
}

/* The token is also written to the notifier, where it is asked to be. */
static void
test_token_record(void **state)
{
    struct nvc36f_gpfifo_set_work_submit_token_notif_index index = {.index = 3};
    struct kio_file file;
    struct rig rig;
    uint32_t *records, token;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_ALL - 1);
    rig_open(&rig, "/dev/nvidiactl", &file);
    assert_int_equal(
        rig_map_cpu(&rig, rig.device, rig.notifier, 0, 0x1000, &file, NULL), 0);
    records = rig_map_file(&rig, &file, 0x1000);
    memset(records, 0, 0x1000);
    assert_int_equal(
        rig_control(&rig, rig.channel,
                    NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX,
                    NV_S_NVC36F_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX,
                    &index),
        S_ARGUMENT);
    assert_int_equal(rig_token(&rig, rig.channel, &token), 0);
    assert_int_equal(records[4 + 2], token);
    index.index = 2;
    assert_int_equal(
        rig_control(&rig, rig.channel,
                    NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX,
                    NV_S_NVC36F_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX,
                    &index),
        0);
    assert_int_equal(rig_token(&rig, rig.channel, &token), 0);
    assert_int_equal(records[8 + 2], token);
    kio_munmap(rig.kio, records, 0x1000);
    kio_close(&file);
    rig_fini(&rig);
}

/* ---- faults -------------------------------------------------------------- */

struct fault_rig {
    struct rig rig;
    struct kio_file file;
    volatile uint32_t *records; /* of both channels: 0x200 bytes apart */
    uint32_t sibling, sibling_notice;
    volatile uint32_t *sibling_records;
    struct kio_file sibling_file;
};

static volatile uint32_t *
map_records(struct rig *rig, uint32_t memory, struct kio_file *file)
{
    void *p;

    rig_open(rig, "/dev/nvidiactl", file);
    assert_int_equal(
        rig_map_cpu(rig, rig->device, memory, 0, 0x1000, file, NULL), 0);
    p = rig_map_file(rig, file, 0x1000);
    memset(p, 0, 0x1000);
    return p;
}

/* Two channels of one group, scheduled, each with a notifier. */
static void
fault_rig_init(struct fault_rig *f)
{
    struct nv_channel_alloc p;
    struct rig *rig = &f->rig;
    uint32_t object = 0;

    memset(f, 0, sizeof(*f));
    rig_init(rig, "sm_90");
    rig_run(rig, RIG_NOTIFIER + 2);
    f->records = map_records(rig, rig->notifier, &f->file);
    assert_int_equal(rig_system(rig, 0x1000, &f->sibling_notice), 0);
    f->sibling_records = map_records(rig, f->sibling_notice, &f->sibling_file);
    p = rig_channel_params(rig);
    p.hObjectError = f->sibling_notice;
    p.userdOffset[0] += 512;
    p.gpFifoOffset += 0x800;
    assert_int_equal(rig_channel(rig, &p, &f->sibling), 0);
    assert_int_equal(
        rig_alloc(rig, f->sibling, HOPPER_COMPUTE_A, NO_STRUCT, NULL, &object),
        0);
    assert_int_equal(rig_token(rig, rig->channel, &rig->token), 0);
    assert_int_equal(rig_schedule(rig, rig->group, true), 0);
}

static void
fault_rig_fini(struct fault_rig *f)
{
    kio_munmap(f->rig.kio, (void *)(uintptr_t)f->records, 0x1000);
    kio_munmap(f->rig.kio, (void *)(uintptr_t)f->sibling_records, 0x1000);
    kio_close(&f->file);
    kio_close(&f->sibling_file);
    rig_fini(&f->rig);
}

static uint32_t
alloc_debugger(const struct rig *rig, uint32_t client, uint32_t object,
               uint32_t *handle)
{
    struct nv83de_alloc params = {.hAppClient = client,
                                  .hClass3dObject = object};

    return rig_alloc(rig, rig->device, GT200_DEBUGGER, NV_S_NV83DE_ALLOC,
                     &params, handle);
}

static void
check_fault_queries(struct rig *rig, bool is_there)
{
    struct nv906f_get_mmu_fault_info info;
    struct nv83de_debug_read_mmu_fault_info list;
    static struct nv83de_debug_read_all_sm_error_states sms;
    uint32_t debugger = 0;

    memset(&sms, 0, sizeof(sms));
    assert_int_equal(rig_control(rig, rig->channel,
                                 NV906F_CTRL_CMD_GET_MMU_FAULT_INFO,
                                 NV_S_NV906F_GET_MMU_FAULT_INFO, &info),
                     0);
    assert_int_equal((uint64_t)info.addrHi << 32 | info.addrLo,
                     is_there ? BAD_VA : 0);
    assert_true((strncmp((const char *)info.faultString,
                         "FAULT_PTE ACCESS_TYPE_VIRT", 26) == 0) == is_there);
    assert_int_equal(alloc_debugger(rig, rig->client, rig->object, &debugger),
                     0);
    assert_int_equal(rig_control(rig, debugger,
                                 NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO,
                                 NV_S_NV83DE_DEBUG_READ_MMU_FAULT_INFO, &list),
                     0);
    assert_int_equal(list.count, is_there);
    if (is_there) {
        assert_true(list.mmuFaultInfoList[0].faultAddress == BAD_VA);
        assert_int_equal(list.mmuFaultInfoList[0].accessType, 1);
    }
    sms.hTargetChannel = rig->channel;
    sms.numSMsToRead = 8;
    assert_int_equal(rig_control(rig, debugger,
                                 NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 &sms),
                     0);
    assert_int_equal(sms.mmuFault.valid, is_there);
    assert_int_equal(rig_free(rig, debugger), 0);
}

/* A release to nowhere ends the whole group, which is told and asked about;
 * channels that are made anew work. */
static void
test_fault(void **state)
{
    struct fault_rig f;
    struct nv906f_get_mmu_fault_info info;

    (void)state;
    fault_rig_init(&f);
    check_fault_queries(&f.rig, false);
    rig_release(&f.rig, BAD_VA, 1);
    assert_true(rig_wait(&f.records[3], 0xffff0000));
    assert_int_equal(f.records[2], 31);
    assert_true(rig_wait(&f.sibling_records[3], 0xffff0000));
    assert_int_equal(f.sibling_records[2], 45);
    check_fault_queries(&f.rig, true);
    assert_int_equal(rig_control(&f.rig, f.sibling,
                                 NV906F_CTRL_CMD_GET_MMU_FAULT_INFO,
                                 NV_S_NV906F_GET_MMU_FAULT_INFO, &info),
                     0);
    assert_int_equal(info.addrHi, 0);
    /* rung again, nothing happens */
    rig_release(&f.rig, f.rig.va + AT_SEM, 9);
    usleep(20000);
    assert_int_equal(*rig_word(&f.rig, AT_SEM), 0);
    /* built anew in the same place */
    assert_int_equal(rig_free(&f.rig, f.rig.group), 0);
    f.rig.group = f.rig.channel = f.rig.object = f.rig.put = 0;
    memset(f.rig.cpu, 0, AT_PUSH);
    rig_run_from(&f.rig, RIG_NOTIFIER);
    rig_check_work(&f.rig);
    fault_rig_fini(&f);
}

static void
test_debugger(void **state)
{
    static struct nv83de_debug_read_all_sm_error_states sms;
    struct nv83de_debug_clear_all_sm_error_states clear = {0};
    struct fault_rig f;
    struct rig *rig = &f.rig;
    uint32_t debugger = 0;

    (void)state;
    fault_rig_init(&f);
    assert_int_equal(alloc_debugger(rig, 5, rig->object, &debugger), S_CLIENT);
    assert_int_equal(alloc_debugger(rig, rig->client, rig->channel, &debugger),
                     S_HANDLE);
    assert_int_equal(alloc_debugger(rig, rig->client, rig->object, &debugger),
                     0);
    rig_release(rig, BAD_VA, 1);
    assert_true(rig_wait(&f.records[3], 0xffff0000));
    sms.hTargetChannel = 0x99;
    assert_int_equal(rig_control(rig, debugger,
                                 NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 &sms),
                     S_CHANNEL);
    sms.hTargetChannel = 0;
    sms.numSMsToRead = 9;
    assert_int_equal(rig_control(rig, debugger,
                                 NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 &sms),
                     S_ARGUMENT);
    assert_int_equal(
        rig_control(rig, debugger,
                    NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES,
                    NV_S_NV83DE_DEBUG_CLEAR_ALL_SM_ERROR_STATES, &clear),
        0);
    sms.numSMsToRead = 8;
    assert_int_equal(rig_control(rig, debugger,
                                 NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 &sms),
                     0);
    assert_int_equal(sms.mmuFault.valid, 0);
    /* the object goes, the debugger stays and knows nothing */
    assert_int_equal(rig_free(rig, rig->object), 0);
    assert_int_equal(rig_control(rig, debugger,
                                 NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES,
                                 &sms),
                     S_STATE);
    fault_rig_fini(&f);
}

/* An acquire that nobody releases: freeing any of these ends it at once. */
static void
test_hang(void **state)
{
    static const size_t victims[] = {
        offsetof(struct rig, channel), offsetof(struct rig, group),
        offsetof(struct rig, memory),  offsetof(struct rig, space),
        offsetof(struct rig, device),  offsetof(struct rig, client),
    };
    struct rig rig;
    uint64_t start;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(victims); i++) {
        uint32_t words[] = {0x20050017, 0, 0, 5, 0, 0x01000003}, handle;
        rig_init(&rig, "sm_90");
        rig_run(&rig, RIG_ALL);
        words[1] = (uint32_t)(rig.va + AT_SEM);
        words[2] = (uint32_t)((rig.va + AT_SEM) >> 32);
        rig_submit(&rig, words, ARRAY_LEN(words));
        assert_true(rig_wait(rig_word(&rig, AT_USERD + 0x88), 1));
        usleep(1000);
        memcpy(&handle, (const uint8_t *)&rig + victims[i], 4);
        start = time_now_ns();
        assert_int_equal(rig_free(&rig, handle), 0);
        assert_true(time_now_ns() - start < 2000000000u);
        rig_fini(&rig);
    }
}

/* A reset ends what a channel does, with code 43; who sets the preemption mode
 * names a group of the graphics engine. */
static void
test_reset_and_preemption(void **state)
{
    uint32_t words[] = {0x20050017, 0, 0, 5, 0, 0x01000003};
    struct nv906f_reset_channel reset = {.engineID = GR0, .resetReason = 3};
    struct nv2080_gr_set_ctxsw_preemption_mode mode = {.flags = 1,
                                                       .cilpPreemptMode = 1};
    struct kio_file file;
    uint32_t *records;
    struct rig rig;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_ALL);
    rig_open(&rig, "/dev/nvidiactl", &file);
    assert_int_equal(
        rig_map_cpu(&rig, rig.device, rig.notifier, 0, 0x1000, &file, NULL), 0);
    records = rig_map_file(&rig, &file, 0x1000);
    memset(records, 0, 0x1000);
    mode.hChannel = rig.memory;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE,
                                 NV_S_NV2080_GR_SET_CTXSW_PREEMPTION_MODE,
                                 &mode),
                     S_CHANNEL);
    mode.hChannel = rig.group;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE,
                                 NV_S_NV2080_GR_SET_CTXSW_PREEMPTION_MODE,
                                 &mode),
                     0);
    mode.cilpPreemptMode = 3;
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE,
                                 NV_S_NV2080_GR_SET_CTXSW_PREEMPTION_MODE,
                                 &mode),
                     S_ARGUMENT);
    words[1] = (uint32_t)(rig.va + AT_SEM);
    words[2] = (uint32_t)((rig.va + AT_SEM) >> 32);
    rig_submit(&rig, words, ARRAY_LEN(words));
    assert_int_equal(rig_control(&rig, rig.channel,
                                 NV906F_CTRL_CMD_RESET_CHANNEL,
                                 NV_S_NV906F_RESET_CHANNEL, &reset),
                     S_PARAMETER);
    reset = (struct nv906f_reset_channel){.engineID = COPY(0)};
    assert_int_equal(rig_control(&rig, rig.channel,
                                 NV906F_CTRL_CMD_RESET_CHANNEL,
                                 NV_S_NV906F_RESET_CHANNEL, &reset),
                     S_ARGUMENT);
    assert_int_equal(records[2], 0);
    reset.engineID = GR0;
    assert_int_equal(rig_control(&rig, rig.channel,
                                 NV906F_CTRL_CMD_RESET_CHANNEL,
                                 NV_S_NV906F_RESET_CHANNEL, &reset),
                     0);
    assert_int_equal(records[2], 43);
    kio_munmap(rig.kio, records, 0x1000);
    kio_close(&file);
    rig_fini(&rig);
}

/* ---- controls ------------------------------------------------------------ */

/* Which object each control is asked of, and a number that its answer begins
 * with, where it is known. */
struct ask {
    uint32_t command, struct_id;
    size_t object; /* offset in struct rig */
    uint32_t first_word;
};

#define CLIENT    offsetof(struct rig, client)
#define DEVICE    offsetof(struct rig, device)
#define SUBDEVICE offsetof(struct rig, subdevice)
#define GROUP     offsetof(struct rig, group)
#define CHANNEL   offsetof(struct rig, channel)
#define ANY       0xffffffffu

/* clang-format off */
static const struct ask asks[] = {
    {NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, NV_S_NV0000_SYSTEM_GET_BUILD_VERSION_V2, CLIENT, ANY},
    {NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, NV_S_NV0000_GPU_GET_ATTACHED_IDS, CLIENT, 0x4100},
    {NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, NV_S_NV0000_GPU_GET_PROBED_IDS, CLIENT, 0x4100},
    {NV0080_CTRL_CMD_GPU_GET_CLASSLIST, NV_S_NV0080_GPU_GET_CLASSLIST, DEVICE, 103},
    {NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2, NV_S_NV0080_GPU_GET_CLASSLIST_V2, DEVICE, ANY},
    {NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, NV_S_NV0080_GPU_GET_NUM_SUBDEVICES, DEVICE, 1},
    {NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, NV_S_NV0080_GPU_GET_VIRTUALIZATION_MODE, DEVICE, 1},
    {NV2080_CTRL_CMD_GPU_GET_GID_INFO, NV_S_NV2080_GPU_GET_GID_INFO, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_GPU_GET_NAME_STRING, NV_S_NV2080_GPU_GET_NAME_STRING, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_GPU_GET_ENGINES_V2, NV_S_NV2080_GPU_GET_ENGINES_V2, SUBDEVICE, 23},
    {NV2080_CTRL_CMD_MC_GET_ARCH_INFO, NV_S_NV2080_MC_GET_ARCH_INFO, SUBDEVICE, 0x180},
    {NV2080_CTRL_CMD_GSP_GET_FEATURES, NV_S_NV2080_GSP_GET_FEATURES, SUBDEVICE, 1},
    {NV2080_CTRL_CMD_BUS_GET_PCI_INFO, NV_S_NV2080_BUS_GET_PCI_INFO, SUBDEVICE, 0x233010de},
    {NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO, NV_S_NV2080_BUS_GET_PCI_BAR_INFO, SUBDEVICE, 4},
    {NV2080_CTRL_CMD_GR_GET_INFO, NV_S_NV2080_GR_GET_INFO, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_GR_GET_INFO_V2, NV_S_NV2080_GR_GET_INFO_V2, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER, NV_S_NV2080_GR_GET_GLOBAL_SM_ORDER, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_GR_GET_GPC_MASK, NV_S_NV2080_GR_GET_GPC_MASK, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_GR_GET_TPC_MASK, NV_S_NV2080_GR_GET_TPC_MASK, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_FB_GET_INFO, NV_S_NV2080_FB_GET_INFO, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_FB_GET_INFO_V2, NV_S_NV2080_FB_GET_INFO_V2, SUBDEVICE, 0},
    {NV2080_CTRL_CMD_CE_GET_ALL_CAPS, NV_S_NV2080_CE_GET_ALL_CAPS, SUBDEVICE, 0x03e303e3},
    {NV2080_CTRL_CMD_TIMER_GET_TIME, NV_S_NV2080_TIMER_GET_TIME, SUBDEVICE, ANY},
    {NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, NV_S_NVA06C_GPFIFO_SCHEDULE, GROUP, ANY},
    {NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, NV_S_NVA06C_SET_INTERLEAVE_LEVEL, GROUP, 0},
    {NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, NV_S_NVA06F_GPFIFO_SCHEDULE, CHANNEL, ANY},
    {NVA06F_CTRL_CMD_STOP_CHANNEL, NV_S_NVA06F_STOP_CHANNEL, CHANNEL, ANY},
    {NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, NV_S_NVC36F_GPFIFO_GET_WORK_SUBMIT_TOKEN, CHANNEL, ANY},
    {NV906F_CTRL_CMD_GET_MMU_FAULT_INFO, NV_S_NV906F_GET_MMU_FAULT_INFO, CHANNEL, 0},
};
/* clang-format on */

static void
ask(const struct rig *rig, const struct ask *a)
{
    static uint64_t params[2048];
    uint32_t n = nv_wire_bytes(&rig->abi, a->struct_id), object, first = 0;
    struct nv_os54 bad = {
        .hClient = rig->client, .cmd = a->command, .params = 64};

    memcpy(&object, (const uint8_t *)rig + a->object, 4);
    memset(params, 0, sizeof(params));
    assert_int_equal(rig_control_sized(rig, object, a->command, params, n), 0);
    memcpy(&first, params, n < 4 ? n : 4);
    if (a->first_word != ANY)
        assert_int_equal(first, a->first_word);
    /* the size must be the branch's, and the object the command's */
    assert_int_equal(rig_control_sized(rig, object, a->command, params, n + 4),
                     S_STRUCT);
    assert_int_equal(rig_control_sized(rig, object, a->command, params,
                                       n <= 2 ? n + 1 : n - 1),
                     S_STRUCT);
    assert_int_equal(rig_control_sized(rig, object, a->command, NULL, n),
                     S_ARGUMENT);
    assert_int_equal(rig_control_sized(rig, object, a->command, params, 0),
                     S_ARGUMENT);
    /* a pointer that leads nowhere: the library's own calls have none */
    bad.hObject = object;
    bad.paramsSize = n;
    assert_int_equal(
        rig->kio->ops->ioctl(rig->kio, rig->ctl.fd,
                             nv_request(NV_ESC_RM_CONTROL, sizeof(bad)), &bad),
        0);
    assert_int_equal(bad.status, S_ADDRESS);
    assert_int_equal(rig_control_sized(rig, rig->memory, a->command, params, n),
                     S_NOT_SUPPORTED);
}

static void
test_controls(void **state)
{
    struct rig rig;
    uint32_t i, word = 0;
    char spec[32];
    size_t k;

    (void)state;
    for (i = 0; nv_branch_name(i); i++) {
        snprintf(spec, sizeof(spec), "sm_90,branch=%s", nv_branch_name(i));
        rig_init(&rig, spec);
        rig_run(&rig, RIG_ALL);
        for (k = 0; k < ARRAY_LEN(asks); k++)
            ask(&rig, &asks[k]);
        assert_int_equal(
            rig_control_sized(&rig, rig.subdevice, 0x20809999, &word, 4),
            S_NOT_SUPPORTED);
        assert_int_equal(rig_control_sized(&rig, 0x99, 0x2080200a, &word, 4),
                         S_HANDLE);
        rig_fini(&rig);
    }
}

static uint32_t
info(const struct rig *rig, uint32_t command, uint32_t index)
{
    struct nv_index_data pair = {.index = index};
    struct nv2080_gr_get_info gr = {.grInfoListSize = 1,
                                    .grInfoList = (uintptr_t)&pair};
    struct nv2080_fb_get_info fb = {.fbInfoListSize = 1,
                                    .fbInfoList = (uintptr_t)&pair};
    bool is_gr = command == NV2080_CTRL_CMD_GR_GET_INFO;

    assert_int_equal(
        rig_control(rig, rig->subdevice, command,
                    is_gr ? NV_S_NV2080_GR_GET_INFO : NV_S_NV2080_FB_GET_INFO,
                    is_gr ? (void *)&gr : (void *)&fb),
        0);
    return pair.data;
}

static void
test_answers(void **state)
{
    const uint32_t gr = NV2080_CTRL_CMD_GR_GET_INFO;
    const uint32_t fb = NV2080_CTRL_CMD_FB_GET_INFO;
    static struct nv2080_gr_get_global_sm_order order;
    struct nv2080_timer_get_gpu_cpu_time_correlation_info times = {
        .cpuClkId = 3, .sampleCount = 4};
    struct nv2080_gpu_get_gid_info gid = {.flags = 2, .length = 16};
    struct nv2080_gr_get_info bad = {.grInfoListSize = 1, .grInfoList = 64};
    const struct nvgpu_chip *chip = nvgpu_chip_find("sm_90", 0);
    struct rig rig;
    uint32_t kib;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_ALL);
    assert_int_equal(info(&rig, gr, 0x0c), 0x900);
    assert_int_equal(info(&rig, gr, 0x0d), 64);
    assert_int_equal(info(&rig, gr, 0x0e), 32);
    assert_int_equal(info(&rig, gr, 0x14), chip->n_gpc);
    assert_int_equal(info(&rig, gr, 0x17), chip->n_tpc_per_gpc);
    assert_int_equal(info(&rig, gr, 0x20), chip->n_sm_per_tpc);
    assert_int_equal(info(&rig, fb, 7), chip->vidmem_bytes >> 10);
    assert_int_equal(info(&rig, fb, 0x1b), 50 << 20); /* L2, in bytes */
    kib = info(&rig, fb, 0x16);
    assert_int_equal(kib, (chip->vidmem_bytes - HUGE) >> 10);
    assert_int_equal(
        rig_control(&rig, rig.subdevice, gr, NV_S_NV2080_GR_GET_INFO, &bad),
        S_ADDRESS);
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER,
                                 NV_S_NV2080_GR_GET_GLOBAL_SM_ORDER, &order),
                     0);
    assert_int_equal(order.numSm, 8);
    assert_int_equal(order.numTpc, 4);
    assert_int_equal(order.globalSmId[7].gpcId, 1);
    assert_int_equal(order.globalSmId[7].globalTpcId, 3);
    assert_int_equal(order.globalSmId[7].localSmId, 1);
    assert_int_equal(
        rig_control(&rig, rig.subdevice,
                    NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO,
                    NV_S_NV2080_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO,
                    &times),
        0);
    assert_true(times.samples[3].cpuTime >= times.samples[0].cpuTime);
    assert_true(times.samples[3].gpuTime >= times.samples[0].gpuTime);
    assert_true(times.samples[0].gpuTime > 0);
    assert_int_equal(rig_control(&rig, rig.subdevice,
                                 NV2080_CTRL_CMD_GPU_GET_GID_INFO,
                                 NV_S_NV2080_GPU_GET_GID_INFO, &gid),
                     0);
    assert_int_equal(gid.length, 16);
    assert_int_not_equal(gid.data[0] | gid.data[1], 0);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_channel_rules),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_token_record),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_debugger),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_reset_and_preemption),
        cmocka_unit_test(test_controls),
        cmocka_unit_test(test_answers),
    };

    if (log_init() != BELL_OK)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
