/* sim/nv/rm/rm_uvm.c: address spaces that are UVM's, by raw calls: the order of
 * docs/hardware/nvidia-kernel.md, "UVM", on every branch, as far as work that
 * is done in such a space, and what breaks it.
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
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/gpu/gpu.h"
#include "sim/nv/sim_nv.h"

#define BASE         0x2000000000ull
#define WINDOW       0x3000000000ull
#define WINDOW_BYTES (64ull << 20)

struct uvm_rig {
    struct rig rig;
    struct kio_file uvm, mm;
    uint8_t uuid[16], other_uuid[16]; /* of the first and second card */
};

/* A call in the newest layout; the status. */
static uint32_t
uvm_call(const struct uvm_rig *u, uint32_t number, uint32_t struct_id,
         void *newest)
{
    static uint64_t wire[2048];
    uint32_t vendor = 0;

    nv_wire_pack(&u->rig.abi, struct_id, newest, wire);
    assert_int_equal(kio_ioctl_status(&u->uvm, number, wire, &vendor), BELL_OK);
    nv_wire_unpack(&u->rig.abi, struct_id, wire, newest);
    return vendor;
}

static void
read_uuid(const struct rig *rig, uint32_t subdevice, uint8_t *uuid)
{
    struct nv2080_gpu_get_gid_info gid = {.flags = 2, .length = 16};

    assert_int_equal(rig_control(rig, subdevice,
                                 NV2080_CTRL_CMD_GPU_GET_GID_INFO,
                                 NV_S_NV2080_GPU_GET_GID_INFO, &gid),
                     0);
    memcpy(uuid, gid.data, 16);
}

static uint32_t
initialize(const struct uvm_rig *u)
{
    struct uvm_initialize p = {0};

    return uvm_call(u, UVM_INITIALIZE, NV_S_UVM_INITIALIZE, &p);
}

static uint32_t
register_gpu(const struct uvm_rig *u, const uint8_t *uuid)
{
    struct uvm_register_gpu p = {.rmCtrlFd = -1};

    memcpy(p.gpu_uuid, uuid, 16);
    return uvm_call(u, UVM_REGISTER_GPU, NV_S_UVM_REGISTER_GPU, &p);
}

static uint32_t
register_space(const struct uvm_rig *u, const uint8_t *uuid, uint32_t space)
{
    struct uvm_register_gpu_vaspace p = {
        .rmCtrlFd = u->rig.ctl.fd,
        .hClient = u->rig.client,
        .hVaSpace = space,
    };

    memcpy(p.gpuUuid, uuid, 16);
    return uvm_call(u, UVM_REGISTER_GPU_VASPACE, NV_S_UVM_REGISTER_GPU_VASPACE,
                    &p);
}

static uint32_t
register_channel(const struct uvm_rig *u, uint32_t channel, uint64_t base,
                 uint64_t length)
{
    struct uvm_register_channel p = {
        .rmCtrlFd = u->rig.ctl.fd,
        .hClient = u->rig.client,
        .hChannel = channel,
        .base = base,
        .length = length,
    };

    memcpy(p.gpuUuid, u->uuid, 16);
    return uvm_call(u, UVM_REGISTER_CHANNEL, NV_S_UVM_REGISTER_CHANNEL, &p);
}

static uint32_t
unregister_channel(const struct uvm_rig *u, uint32_t channel)
{
    struct uvm_unregister_channel p = {.hClient = u->rig.client,
                                       .hChannel = channel};

    return uvm_call(u, UVM_UNREGISTER_CHANNEL, NV_S_UVM_UNREGISTER_CHANNEL, &p);
}

static uint32_t
create_range(const struct uvm_rig *u, uint64_t base, uint64_t length)
{
    struct uvm_create_external_range p = {.base = base, .length = length};

    return uvm_call(u, UVM_CREATE_EXTERNAL_RANGE,
                    NV_S_UVM_CREATE_EXTERNAL_RANGE, &p);
}

static uint32_t
map_external(const struct uvm_rig *u, uint64_t base, uint64_t length,
             uint64_t offset, uint32_t memory, const uint8_t *uuid)
{
    static struct uvm_map_external_alloc p;

    memset(&p, 0, sizeof(p));
    p.base = base;
    p.length = length;
    p.offset = offset;
    memcpy(p.perGpuAttributes[0].gpuUuid, uuid, 16);
    p.perGpuAttributes[0].gpuMappingType = 1;
    p.gpuAttributesCount = 1;
    p.rmCtrlFd = u->rig.ctl.fd;
    p.hClient = u->rig.client;
    p.hMemory = memory;
    return uvm_call(u, UVM_MAP_EXTERNAL_ALLOCATION, NV_S_UVM_MAP_EXTERNAL_ALLOC,
                    &p);
}

static uint32_t
unmap_external(const struct uvm_rig *u, uint64_t base, uint64_t length)
{
    struct uvm_unmap_external p = {.base = base, .length = length};

    memcpy(p.gpuUuid, u->uuid, 16);
    return uvm_call(u, UVM_UNMAP_EXTERNAL, NV_S_UVM_UNMAP_EXTERNAL, &p);
}

/* The one call whose older layout has what the newest lacks. */
static uint32_t
free_range(const struct uvm_rig *u, uint64_t base, uint64_t length)
{
    struct uvm_free_535 old = {.base = base, .length = length};
    struct uvm_free call = {.base = base};
    uint32_t vendor = 0;

    assert_int_equal(
        kio_ioctl_status(&u->uvm, UVM_FREE,
                         u->rig.abi.major < 590 ? (void *)&old : (void *)&call,
                         &vendor),
        BELL_OK);
    return vendor;
}

static uint32_t
alloc_space(const struct rig *rig, uint32_t flags, uint32_t *handle)
{
    struct nv_vaspace_alloc params = {.flags = flags};

    *handle = 0;
    return rig_alloc(rig, rig->device, FERMI_VASPACE_A, NV_S_NV_VASPACE_ALLOC,
                     &params, handle);
}

/* Client, device, a space of UVM's, the doorbell; UVM is not started. */
static void
uvm_rig_init(struct uvm_rig *u, const char *spec)
{
    struct rig *rig = &u->rig;

    memset(u, 0, sizeof(*u));
    rig_init(rig, spec);
    rig_run(rig, RIG_MEMORY - 2);
    assert_int_equal(rig_free(rig, rig->space), 0);
    assert_int_equal(alloc_space(rig, 0x48, &rig->space), 0);
    read_uuid(rig, rig->subdevice, u->uuid);
    rig_open(rig, "/dev/nvidia-uvm", &u->uvm);
    rig_open(rig, "/dev/nvidia-uvm", &u->mm);
}

static void
start(struct uvm_rig *u)
{
    struct uvm_mm_initialize mm = {.uvmFd = u->uvm.fd};
    uint32_t vendor = 0;

    assert_int_equal(initialize(u), 0);
    assert_int_equal(kio_ioctl_status(&u->mm, UVM_MM_INITIALIZE, &mm, &vendor),
                     BELL_OK);
    assert_int_equal(vendor, 0);
    assert_int_equal(register_gpu(u, u->uuid), 0);
    assert_int_equal(register_space(u, u->uuid, u->rig.space), 0);
}

/* Memory at BASE for both sides, with the channel's things in it. */
static void
add_memory(struct uvm_rig *u)
{
    struct rig *rig = &u->rig;

    assert_int_equal(rig_video(rig, HUGE, &rig->memory), 0);
    rig_open(rig, "/dev/nvidia0", &rig->view_file);
    assert_int_equal(rig_map_cpu(rig, rig->device, rig->memory, 0, HUGE,
                                 &rig->view_file, NULL),
                     0);
    rig->cpu = rig_map_file(rig, &rig->view_file, HUGE);
    memset(rig->cpu, 0, 0x10000);
    assert_int_equal(create_range(u, BASE, HUGE), 0);
    assert_int_equal(map_external(u, BASE, HUGE, 0, rig->memory, u->uuid), 0);
    rig->va = BASE;
    assert_int_equal(rig_system(rig, 0x1000, &rig->notifier), 0);
}

static void
add_channel(struct rig *rig)
{
    struct nv_channel_alloc params = rig_channel_params(rig);
    bool is_gr = rig->engine == GR0;

    rig->group = rig->channel = rig->object = 0;
    assert_int_equal(rig_group(rig, rig->engine, &rig->group), 0);
    assert_int_equal(rig_channel(rig, &params, &rig->channel), 0);
    assert_int_equal(rig_alloc(rig, rig->channel,
                               rig_class(rig, is_gr ? 0xc0 : 0xb5), NO_STRUCT,
                               NULL, &rig->object),
                     0);
}

static void
uvm_rig_fini(struct uvm_rig *u)
{
    kio_close(&u->uvm);
    kio_close(&u->mm);
    rig_fini(&u->rig);
}

/* ---- tests --------------------------------------------------------------- */

static void
test_work(void **state)
{
    static const char *const specs[] = {
        "sm_80",
        "sm_120",
    };
    struct uvm_rig u;
    uint64_t window = WINDOW;
    uint32_t i;
    char spec[32];

    (void)state;
    for (i = 0; i < ARRAY_LEN(specs) + NV_BRANCH_NEWEST + 1; i++) {
        if (i < ARRAY_LEN(specs))
            snprintf(spec, sizeof(spec), "%s", specs[i]);
        else
            snprintf(spec, sizeof(spec), "sm_90,branch=%s",
                     nv_branch_name(i - (uint32_t)ARRAY_LEN(specs)));
        uvm_rig_init(&u, spec);
        start(&u);
        add_memory(&u);
        add_channel(&u.rig);
        assert_int_equal(rig_token(&u.rig, u.rig.channel, &u.rig.token), 0);
        /* not before it is registered */
        assert_int_equal(rig_schedule(&u.rig, u.rig.group, true), S_STATE);
        assert_int_equal(
            register_channel(&u, u.rig.channel, window, WINDOW_BYTES), 0);
        assert_int_equal(rig_schedule(&u.rig, u.rig.group, true), 0);
        rig_check_work(&u.rig);
        assert_int_equal(unregister_channel(&u, u.rig.channel), 0);
        assert_int_equal(unregister_channel(&u, u.rig.channel), S_CHANNEL);
        assert_int_equal(free_range(&u, BASE, HUGE), 0);
        uvm_rig_fini(&u);
    }
}

/* Closed at any point, nothing stays. */
static void
test_ends(void **state)
{
    struct uvm_rig u;
    int i;

    (void)state;
    for (i = 0; i < 5; i++) {
        uvm_rig_init(&u, "sm_90");
        if (i > 0)
            start(&u);
        if (i > 1)
            add_memory(&u);
        if (i > 2)
            add_channel(&u.rig);
        if (i > 3)
            assert_int_equal(
                register_channel(&u, u.rig.channel, WINDOW, WINDOW_BYTES), 0);
        if (i % 2)
            assert_int_equal(rig_free(&u.rig, u.rig.client), 0);
        uvm_rig_fini(&u);
    }
}

static void
test_start_rules(void **state)
{
    struct uvm_initialize odd = {.flags = 8};
    struct uvm_mm_initialize mm = {0};
    uint8_t nobody[16] = {1};
    struct uvm_rig u;
    uint32_t plain, vendor = 0;

    (void)state;
    uvm_rig_init(&u, "sm_90");
    assert_int_equal(register_gpu(&u, u.uuid), S_ILLEGAL_ACTION);
    assert_int_equal(create_range(&u, BASE, HUGE), S_ILLEGAL_ACTION);
    mm.uvmFd = u.uvm.fd;
    assert_int_equal(kio_ioctl_status(&u.mm, UVM_MM_INITIALIZE, &mm, &vendor),
                     BELL_OK);
    assert_int_equal(vendor, S_ARGUMENT);
    assert_int_equal(uvm_call(&u, UVM_INITIALIZE, NV_S_UVM_INITIALIZE, &odd),
                     S_ARGUMENT);
    assert_int_equal(initialize(&u), 0);
    assert_int_equal(initialize(&u), 0);
    odd.flags = 1;
    assert_int_equal(uvm_call(&u, UVM_INITIALIZE, NV_S_UVM_INITIALIZE, &odd),
                     S_STATE);
    assert_int_equal(register_space(&u, u.uuid, u.rig.space), S_DEVICE);
    assert_int_equal(register_gpu(&u, nobody), S_DEVICE);
    assert_int_equal(register_gpu(&u, u.uuid), 0);
    /* a space that is RM's */
    assert_int_equal(alloc_space(&u.rig, 0, &plain), 0);
    assert_int_equal(register_space(&u, u.uuid, plain), S_FLAGS);
    assert_int_equal(register_space(&u, u.uuid, 0x99), S_HANDLE);
    assert_int_equal(register_space(&u, u.uuid, u.rig.space), 0);
    assert_int_equal(register_space(&u, u.uuid, u.rig.space), S_DEVICE);
    assert_int_equal(rig_errno(&u.uvm, 0x1234, &odd), EINVAL);
    uvm_rig_fini(&u);
}

static void
test_range_rules(void **state)
{
    struct uvm_rig u;
    struct sim_nv_usage usage;
    uint32_t sys = 0;

    (void)state;
    uvm_rig_init(&u, "sm_90");
    start(&u);
    assert_int_equal(rig_video(&u.rig, 2 * HUGE, &u.rig.memory), 0);
    assert_int_equal(rig_system(&u.rig, 0x4000, &sys), 0);
    assert_int_equal(create_range(&u, BASE + 1, HUGE), S_ADDRESS);
    assert_int_equal(create_range(&u, BASE, 0), S_ADDRESS);
    assert_int_equal(create_range(&u, BASE, 2 * HUGE), 0);
    assert_int_equal(create_range(&u, BASE + HUGE, HUGE), S_UVM_IN_USE);
    assert_int_equal(create_range(&u, BASE + 2 * HUGE, 0x4000), 0);
    assert_int_equal(map_external(&u, BASE, 0x10000, 0, u.rig.memory, u.uuid),
                     S_ADDRESS);
    assert_int_equal(
        map_external(&u, BASE + 0x10000, HUGE, 0, u.rig.memory, u.uuid),
        S_ADDRESS);
    assert_int_equal(
        map_external(&u, BASE + 8 * HUGE, HUGE, 0, u.rig.memory, u.uuid),
        S_ADDRESS);
    assert_int_equal(
        map_external(&u, BASE, HUGE, 2 * HUGE, u.rig.memory, u.uuid), S_LIMIT);
    assert_int_equal(map_external(&u, BASE, HUGE, 0, 0x99, u.uuid), S_HANDLE);
    assert_int_equal(map_external(&u, BASE, HUGE, HUGE, u.rig.memory, u.uuid),
                     0);
    assert_int_equal(map_external(&u, BASE, HUGE, HUGE, u.rig.memory, u.uuid),
                     S_ARGUMENT);
    assert_int_equal(
        map_external(&u, BASE + HUGE, HUGE, 0, u.rig.memory, u.uuid), 0);
    assert_int_equal(map_external(&u, BASE + 2 * HUGE, 0x4000, 0, sys, u.uuid),
                     0);
    /* UVM keeps the memory that its user frees */
    assert_int_equal(rig_free(&u.rig, u.rig.memory), 0);
    sim_nv_usage(u.rig.kio, &usage);
    assert_int_equal(usage.va_mapped_bytes, 2 * HUGE + 0x4000);
    assert_int_equal(usage.memory_bytes, 2 * HUGE + 0x4000);
    assert_int_equal(unmap_external(&u, BASE, HUGE), 0);
    assert_int_equal(unmap_external(&u, BASE + 8 * HUGE, HUGE), S_ADDRESS);
    assert_int_equal(free_range(&u, BASE, HUGE), S_ADDRESS);
    assert_int_equal(free_range(&u, BASE + HUGE, HUGE), S_ADDRESS);
    assert_int_equal(free_range(&u, BASE, 2 * HUGE), 0);
    sim_nv_usage(u.rig.kio, &usage);
    assert_int_equal(usage.va_mapped_bytes, 0x4000);
    assert_int_equal(usage.memory_bytes, 0x4000);
    uvm_rig_fini(&u);
}

/* Host memory that the process and the card see at one address. */
static void
test_pools(void **state)
{
    static struct uvm_alloc_semaphore_pool pool;
    struct uvm_validate_va_range range = {.length = HUGE};
    struct uvm_rig u;
    uint32_t handle = 0;
    uint64_t base;
    void *room =
        mmap(NULL, HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *at = room;

    (void)state;
    assert_ptr_not_equal(room, MAP_FAILED);
    base = (uintptr_t)room;
    uvm_rig_init(&u, "sm_90");
    start(&u);
    pool.base = range.base = base;
    pool.length = HUGE;
    assert_int_equal(
        uvm_call(&u, UVM_VALIDATE_VA_RANGE, NV_S_UVM_VALIDATE_VA_RANGE, &range),
        S_ADDRESS);
    assert_int_equal(uvm_call(&u, UVM_ALLOC_SEMAPHORE_POOL,
                              NV_S_UVM_ALLOC_SEMAPHORE_POOL, &pool),
                     0);
    assert_int_equal(uvm_call(&u, UVM_ALLOC_SEMAPHORE_POOL,
                              NV_S_UVM_ALLOC_SEMAPHORE_POOL, &pool),
                     S_UVM_IN_USE);
    assert_int_equal(
        uvm_call(&u, UVM_VALIDATE_VA_RANGE, NV_S_UVM_VALIDATE_VA_RANGE, &range),
        0);
    /* what is mapped from outside goes elsewhere */
    assert_int_equal(rig_video(&u.rig, HUGE, &handle), 0);
    assert_int_equal(map_external(&u, base, HUGE, 0, handle, u.uuid),
                     S_ADDRESS);
    /* the file's offset is the address, and all of it is mapped there */
    assert_int_equal(u.rig.kio->ops->mmap(u.rig.kio, &at, HUGE,
                                          PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_FIXED, u.uvm.fd, 0),
                     -EINVAL);
    assert_int_equal(
        u.rig.kio->ops->mmap(u.rig.kio, &at, HUGE / 2, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED, u.uvm.fd, base),
        -EINVAL);
    assert_int_equal(
        u.rig.kio->ops->mmap(u.rig.kio, &at, HUGE, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED, u.uvm.fd, base),
        0);
    *(volatile uint32_t *)at = 7;
    assert_int_equal(*(volatile uint32_t *)at, 7);
    assert_int_equal(u.rig.kio->ops->munmap(u.rig.kio, at, HUGE), 0);
    assert_int_equal(free_range(&u, base, HUGE), 0);
    uvm_rig_fini(&u);
}

static void
test_other_ranges(void **state)
{
    struct uvm_map_dynamic_parallelism_region region = {.base = BASE,
                                                        .length = 0x1000};
    struct uvm_create_range_group a = {0}, b = {0};
    struct uvm_destroy_range_group end;
    struct uvm_rig u;

    (void)state;
    uvm_rig_init(&u, "sm_90");
    start(&u);
    memcpy(region.gpuUuid, u.uuid, 16);
    region.length = 0x2000;
    assert_int_equal(uvm_call(&u, UVM_MAP_DYNAMIC_PARALLELISM_REGION,
                              NV_S_UVM_MAP_DYNAMIC_PARALLELISM_REGION, &region),
                     S_ADDRESS);
    region.length = 0x1000;
    assert_int_equal(uvm_call(&u, UVM_MAP_DYNAMIC_PARALLELISM_REGION,
                              NV_S_UVM_MAP_DYNAMIC_PARALLELISM_REGION, &region),
                     0);
    assert_int_equal(create_range(&u, BASE, HUGE), S_UVM_IN_USE);
    assert_int_equal(free_range(&u, BASE, 0x1000), 0);
    assert_int_equal(
        uvm_call(&u, UVM_CREATE_RANGE_GROUP, NV_S_UVM_CREATE_RANGE_GROUP, &a),
        0);
    assert_int_equal(
        uvm_call(&u, UVM_CREATE_RANGE_GROUP, NV_S_UVM_CREATE_RANGE_GROUP, &b),
        0);
    assert_true(a.rangeGroupId != b.rangeGroupId);
    end.rangeGroupId = a.rangeGroupId;
    assert_int_equal(uvm_call(&u, UVM_DESTROY_RANGE_GROUP,
                              NV_S_UVM_DESTROY_RANGE_GROUP, &end),
                     0);
    assert_int_equal(uvm_call(&u, UVM_DESTROY_RANGE_GROUP,
                              NV_S_UVM_DESTROY_RANGE_GROUP, &end),
                     S_NOT_FOUND);
    uvm_rig_fini(&u);
    uvm_rig_init(&u, "sm_90,branch=610");
    start(&u);
    assert_int_equal(kio_ioctl(&u.uvm, UVM_CREATE_RANGE_GROUP, &a),
                     BELL_E_KERNEL);
    assert_int_equal(bell_error_last()->sys_errno, EINVAL);
    uvm_rig_fini(&u);
}

/* A group's channels have one context, and one window for it. */
static void
test_shared_window(void **state)
{
    struct nv_channel_alloc p;
    struct uvm_rig u;
    uint32_t second = 0, object = 0, group;

    (void)state;
    uvm_rig_init(&u, "sm_90");
    start(&u);
    add_memory(&u);
    add_channel(&u.rig);
    assert_int_equal(register_channel(&u, u.rig.channel, WINDOW, 0x52b000),
                     S_ADDRESS);
    assert_int_equal(register_channel(&u, u.rig.channel, WINDOW, 0x52c000), 0);
    p = rig_channel_params(&u.rig);
    p.userdOffset[0] += 512;
    assert_int_equal(rig_channel(&u.rig, &p, &second), 0);
    assert_int_equal(
        rig_alloc(&u.rig, second, HOPPER_COMPUTE_A, NO_STRUCT, NULL, &object),
        0);
    assert_int_equal(register_channel(&u, second, WINDOW + 0x1000, 0x52c000),
                     S_UVM_IN_USE);
    assert_int_equal(register_channel(&u, second, WINDOW, 0x52c000), 0);
    group = u.rig.group;
    p.userdOffset[0] += 512;
    u.rig.group = second = object = 0;
    assert_int_equal(rig_group(&u.rig, GR0, &u.rig.group), 0);
    assert_int_equal(rig_channel(&u.rig, &p, &second), 0);
    assert_int_equal(
        rig_alloc(&u.rig, second, HOPPER_COMPUTE_A, NO_STRUCT, NULL, &object),
        0);
    assert_int_equal(register_channel(&u, second, WINDOW, 0x52c000),
                     S_UVM_IN_USE);
    assert_int_not_equal(group, u.rig.group);
    uvm_rig_fini(&u);
}

static void
test_channel_rules(void **state)
{
    struct uvm_rig u;

    (void)state;
    uvm_rig_init(&u, "sm_90");
    start(&u);
    add_memory(&u);
    add_channel(&u.rig);
    assert_int_equal(register_channel(&u, 0x99, WINDOW, WINDOW_BYTES),
                     S_HANDLE);
    assert_int_equal(register_channel(&u, u.rig.channel, WINDOW, 0x1000),
                     S_ADDRESS);
    assert_int_equal(
        register_channel(&u, u.rig.channel, (uint64_t)1 << 57, WINDOW_BYTES),
        S_RANGE);
    assert_int_equal(register_channel(&u, u.rig.channel, BASE, WINDOW_BYTES),
                     S_UVM_IN_USE);
    assert_int_equal(register_channel(&u, u.rig.channel, WINDOW, WINDOW_BYTES),
                     0);
    assert_int_equal(create_range(&u, WINDOW, HUGE), S_UVM_IN_USE);
    assert_int_equal(register_channel(&u, u.rig.channel, WINDOW + WINDOW_BYTES,
                                      WINDOW_BYTES),
                     S_CHANNEL);
    /* one that goes is forgotten */
    assert_int_equal(rig_free(&u.rig, u.rig.group), 0);
    assert_int_equal(create_range(&u, WINDOW, HUGE), 0);
    /* an engine that shares the graphics runlist is neither */
    u.rig.engine = COPY(0);
    add_channel(&u.rig);
    assert_int_equal(register_channel(&u, u.rig.channel, 0, 0), S_OBJECT);
    assert_int_equal(rig_free(&u.rig, u.rig.group), 0);
    /* a copy engine's needs no registration to run */
    u.rig.engine = COPY(4);
    add_channel(&u.rig);
    assert_int_equal(rig_token(&u.rig, u.rig.channel, &u.rig.token), 0);
    assert_int_equal(rig_schedule(&u.rig, u.rig.group, true), 0);
    memset(u.rig.cpu, 0, 0x10000);
    rig_check_work(&u.rig);
    uvm_rig_fini(&u);
    /* less reach before Hopper */
    uvm_rig_init(&u, "sm_80");
    start(&u);
    add_memory(&u);
    add_channel(&u.rig);
    assert_int_equal(
        register_channel(&u, u.rig.channel, (uint64_t)1 << 40, WINDOW_BYTES),
        S_RANGE);
    uvm_rig_fini(&u);
}

static uint32_t
set_peers(const struct uvm_rig *u, bool enable)
{
    struct uvm_enable_peer_access p = {0};

    memcpy(p.gpuUuidA, u->uuid, 16);
    memcpy(p.gpuUuidB, u->other_uuid, 16);
    return uvm_call(
        u, enable ? UVM_ENABLE_PEER_ACCESS : UVM_DISABLE_PEER_ACCESS,
        enable ? NV_S_UVM_ENABLE_PEER_ACCESS : NV_S_UVM_DISABLE_PEER_ACCESS,
        &p);
}

/* The first card's space with memory of the second, by PCIe. */
static void
test_peers(void **state)
{
    struct nv0080_alloc device = {.deviceId = 1};
    struct sim_nv_usage usage;
    struct kio_file node;
    struct uvm_rig u;
    uint32_t peer = 0, sub = 0, memory = 0, first;

    (void)state;
    uvm_rig_init(&u, "sm_90*2,link=pcie");
    start(&u);
    rig_open(&u.rig, "/dev/nvidia1", &node);
    assert_int_equal(rig_alloc(&u.rig, u.rig.client, NV01_DEVICE_0,
                               NV_S_NV0080_ALLOC, &device, &peer),
                     0);
    assert_int_equal(
        rig_alloc(&u.rig, peer, NV20_SUBDEVICE_0, NO_STRUCT, NULL, &sub), 0);
    read_uuid(&u.rig, sub, u.other_uuid);
    assert_memory_not_equal(u.uuid, u.other_uuid, 16);
    first = u.rig.device;
    u.rig.device = peer;
    assert_int_equal(rig_video(&u.rig, HUGE, &memory), 0);
    u.rig.device = first;
    assert_int_equal(create_range(&u, BASE, HUGE), 0);
    assert_int_equal(map_external(&u, BASE, HUGE, 0, memory, u.uuid), S_DEVICE);
    assert_int_equal(set_peers(&u, true), S_DEVICE); /* not registered */
    assert_int_equal(register_gpu(&u, u.other_uuid), 0);
    assert_int_equal(register_gpu(&u, u.other_uuid), S_DEVICE);
    assert_int_equal(set_peers(&u, false), S_DEVICE);
    assert_int_equal(set_peers(&u, true), 0);
    assert_int_equal(set_peers(&u, true), S_DEVICE);
    assert_int_equal(map_external(&u, BASE, HUGE, 0, memory, u.uuid), 0);
    /* no space for the second card's own mappings */
    assert_int_equal(map_external(&u, BASE, HUGE, 0, memory, u.other_uuid),
                     S_DEVICE);
    assert_int_equal(set_peers(&u, false), 0);
    sim_nv_usage(u.rig.kio, &usage);
    assert_int_equal(usage.va_mapped_bytes, 0);
    kio_close(&node);
    uvm_rig_fini(&u);
}

static uint32_t
unregister_gpu(const struct uvm_rig *u, const uint8_t *uuid)
{
    struct uvm_unregister_gpu p = {0};

    memcpy(p.gpu_uuid, uuid, 16);
    return uvm_call(u, UVM_UNREGISTER_GPU, NV_S_UVM_UNREGISTER_GPU, &p);
}

static void
expect_mapped(const struct uvm_rig *u, uint64_t bytes)
{
    struct sim_nv_usage usage;

    sim_nv_usage(u->rig.kio, &usage);
    assert_int_equal(usage.va_mapped_bytes, bytes);
}

/* Memory of two other cards, mapped by the first; in out_uuids who they are. */
static void
map_others(struct uvm_rig *u, struct kio_file nodes[2],
           uint8_t out_uuids[2][16])
{
    uint32_t first = u->rig.device, i;

    assert_int_equal(create_range(u, BASE, 2 * HUGE), 0);
    for (i = 0; i < 2; i++) {
        struct nv0080_alloc device = {.deviceId = i + 1};
        uint32_t peer = 0, sub = 0, memory = 0;
        char path[32];

        snprintf(path, sizeof(path), "/dev/nvidia%u", i + 1);
        rig_open(&u->rig, path, &nodes[i]);
        assert_int_equal(rig_alloc(&u->rig, u->rig.client, NV01_DEVICE_0,
                                   NV_S_NV0080_ALLOC, &device, &peer),
                         0);
        assert_int_equal(
            rig_alloc(&u->rig, peer, NV20_SUBDEVICE_0, NO_STRUCT, NULL, &sub),
            0);
        read_uuid(&u->rig, sub, out_uuids[i]);
        u->rig.device = peer;
        assert_int_equal(rig_video(&u->rig, HUGE, &memory), 0);
        u->rig.device = first;
        assert_int_equal(register_gpu(u, out_uuids[i]), 0);
        memcpy(u->other_uuid, out_uuids[i], 16);
        (void)set_peers(u, true); /* S_DEVICE: they are already */
        assert_int_equal(
            map_external(u, BASE + i * HUGE, HUGE, 0, memory, u->uuid), 0);
    }
}

/* A card that goes takes with it what others have of its memory, and nothing
 * else; so do peers that part. Its own space goes, too. */
static void
test_unregister(void **state)
{
    static const char *const specs[] = {"h100*3", "sm_90*3,link=pcie"};
    struct kio_file nodes[2];
    uint8_t uuids[2][16];
    struct uvm_rig u;
    size_t i, k;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(specs); i++) {
        bool parts = i % 2; /* first */

        uvm_rig_init(&u, specs[i / 2]);
        start(&u);
        map_others(&u, nodes, uuids);
        expect_mapped(&u, 2 * HUGE);
        memcpy(u.other_uuid, uuids[0], 16);
        if (parts && i / 2 == 1) {
            assert_int_equal(set_peers(&u, false), 0);
            expect_mapped(&u, HUGE);
        }
        assert_int_equal(unregister_gpu(&u, uuids[0]), 0);
        assert_int_equal(unregister_gpu(&u, uuids[0]), S_DEVICE);
        expect_mapped(&u, HUGE);
        assert_int_equal(register_gpu(&u, uuids[0]), 0);
        expect_mapped(&u, HUGE);
        assert_int_equal(unregister_gpu(&u, u.uuid), 0);
        expect_mapped(&u, 0);
        assert_int_equal(unregister_gpu(&u, uuids[1]), 0);
        for (k = 0; k < 2; k++)
            kio_close(&nodes[k]);
        uvm_rig_fini(&u);
    }
}

/* What the first card may map after the registration and after the call, by
 * kind of link and branch. */
static void
test_links(void **state)
{
    static const struct {
        const char *spec;
        uint32_t registers, first_map, enable, second_map;
    } rows[] = {
        {"sm_90*2", 0, 0, S_DEVICE, 0},
        {"h100*2", 0, 0, S_DEVICE, 0},
        {"sm_90*2,link=nvlink,branch=535", 0, 0, S_DEVICE, 0},
        {"sm_120*2,branch=595", 0, 0, S_DEVICE, 0},
        /* which does not know of BAR1 */
        {"sm_120*2,branch=580", 0, S_DEVICE, 0, 0},
        {"l40s*2", 0, S_DEVICE, 0, 0},
        {"sm_90*2,link=pcie,branch=610", 0, S_DEVICE, 0, 0},
        {"rtx4090*2", 0, S_DEVICE, S_NOT_SUPPORTED, S_DEVICE},
        {"h100*2,link=none", 0, S_DEVICE, S_NOT_SUPPORTED, S_DEVICE},
        {"h100*3,link=0-1:pcie", 0, S_DEVICE, 0, 0},
        {"h100*2,fabric=absent", S_FABRIC, S_DEVICE, S_DEVICE, S_DEVICE},
    };
    struct nv0080_alloc device = {.deviceId = 1};
    struct kio_file node;
    struct uvm_rig u;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t peer = 0, sub = 0, memory = 0, first;

        uvm_rig_init(&u, rows[i].spec);
        if (rows[i].registers) {
            struct uvm_initialize init = {0};

            assert_int_equal(
                uvm_call(&u, UVM_INITIALIZE, NV_S_UVM_INITIALIZE, &init), 0);
            assert_int_equal(register_gpu(&u, u.uuid), rows[i].registers);
            uvm_rig_fini(&u);
            continue;
        }
        start(&u);
        rig_open(&u.rig, "/dev/nvidia1", &node);
        assert_int_equal(rig_alloc(&u.rig, u.rig.client, NV01_DEVICE_0,
                                   NV_S_NV0080_ALLOC, &device, &peer),
                         0);
        assert_int_equal(
            rig_alloc(&u.rig, peer, NV20_SUBDEVICE_0, NO_STRUCT, NULL, &sub),
            0);
        read_uuid(&u.rig, sub, u.other_uuid);
        first = u.rig.device;
        u.rig.device = peer;
        assert_int_equal(rig_video(&u.rig, HUGE, &memory), 0);
        u.rig.device = first;
        assert_int_equal(create_range(&u, BASE, 2 * HUGE), 0);
        assert_int_equal(register_gpu(&u, u.other_uuid), 0);
        if (map_external(&u, BASE, HUGE, 0, memory, u.uuid) !=
            rows[i].first_map)
            fail_msg("%s: the first mapping", rows[i].spec);
        if (set_peers(&u, true) != rows[i].enable)
            fail_msg("%s: enabling peers", rows[i].spec);
        if (map_external(&u, BASE + HUGE, HUGE, 0, memory, u.uuid) !=
            rows[i].second_map)
            fail_msg("%s: the second mapping", rows[i].spec);
        kio_close(&node);
        uvm_rig_fini(&u);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_start_rules),
        cmocka_unit_test(test_range_rules),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_other_ranges),
        cmocka_unit_test(test_shared_window),
        cmocka_unit_test(test_channel_rules),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_unregister),
        cmocka_unit_test(test_links),
    };

    if (log_init() != BELL_OK)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
