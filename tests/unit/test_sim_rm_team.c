/* sim/nv/rm/rm_team.c: teams of cards, by raw calls: who may be in one, that it
 * is not ready when the last card was attached, what memory it takes, and who
 * may map it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/sim_nv.h"

#define TEAM_BYTES  (512ull << 20)
#define S_OPERATION 0x38u
#define S_NOT_READY 0x55u
#define S_BUSY      0x17u

struct team_rig {
    struct rig rig;
    /* of the cards: files of their nodes that nobody registers */
    struct kio_file nodes[3];
    uint32_t devices[3], subdevices[3], memory[3];
    uint32_t team;
};

static uint32_t
alloc_team(struct team_rig *t, uint64_t bytes, uint32_t n, uint32_t *handle)
{
    struct nv00fd_alloc p = {.allocSize = bytes, .numGpus = n};

    *handle = 0;
    return rig_alloc(&t->rig, t->rig.client, NV_MEMORY_MULTICAST_FABRIC,
                     NV_S_NV00FD_ALLOC, &p, handle);
}

static uint32_t
attach_gpu(struct team_rig *t, uint32_t team, uint32_t subdevice, int fd)
{
    struct nv00fd_attach_gpu p = {.hSubdevice = subdevice, .devDescriptor = fd};

    return rig_control(&t->rig, team, NV00FD_CTRL_CMD_ATTACH_GPU,
                       NV_S_NV00FD_ATTACH_GPU, &p);
}

static uint32_t
attach_mem(struct team_rig *t, uint32_t i, uint32_t memory, uint64_t offset,
           uint64_t from, uint64_t length)
{
    struct nv00fd_attach_mem p = {.hSubdevice = t->subdevices[i],
                                  .hMemory = memory,
                                  .offset = offset,
                                  .mapOffset = from,
                                  .mapLength = length};

    return rig_control(&t->rig, t->team, NV00FD_CTRL_CMD_ATTACH_MEM,
                       NV_S_NV00FD_ATTACH_MEM, &p);
}

static uint32_t
detach_mem(struct team_rig *t, uint32_t i, uint64_t offset)
{
    struct nv00fd_detach_mem p = {.hSubdevice = t->subdevices[i],
                                  .offset = offset};

    return rig_control(&t->rig, t->team, NV00FD_CTRL_CMD_DETACH_MEM,
                       NV_S_NV00FD_DETACH_MEM, &p);
}

static uint32_t
get_info(struct team_rig *t, struct nv00fd_get_info *out)
{
    memset(out, 0, sizeof(*out));
    return rig_control(&t->rig, t->team, NV00FD_CTRL_CMD_GET_INFO,
                       NV_S_NV00FD_GET_INFO, out);
}

/* Memory of a card, below its device. */
static uint32_t
alloc_memory(struct team_rig *t, uint32_t i, uint64_t bytes, uint32_t attr,
             uint32_t *handle)
{
    struct nv_memory_alloc p = {
        .owner = t->rig.client,
        .flags = VIDEO_FLAGS,
        .attr = attr,
        .attr2 = 0x00100005,
        .format = 6,
        .size = bytes,
        .alignment = HUGE,
    };

    *handle = 0;
    return rig_alloc(&t->rig, t->devices[i], NV01_MEMORY_LOCAL_USER,
                     NV_S_NV_MEMORY_ALLOC, &p, handle);
}

static void
team_rig_init(struct team_rig *t, const char *spec, uint32_t n)
{
    char path[32];
    uint32_t i;

    memset(t, 0, sizeof(*t));
    rig_init(&t->rig, spec);
    rig_run(&t->rig, RIG_SPACE);
    for (i = 0; i < n; i++) {
        struct nv0080_alloc device = {.deviceId = i};
        struct nv2080_alloc sub = {0};

        snprintf(path, sizeof(path), "/dev/nvidia%u", i);
        rig_open(&t->rig, path, &t->nodes[i]);
        assert_int_equal(rig_alloc(&t->rig, t->rig.client, NV01_DEVICE_0,
                                   NV_S_NV0080_ALLOC, &device, &t->devices[i]),
                         0);
        assert_int_equal(rig_alloc(&t->rig, t->devices[i], NV20_SUBDEVICE_0,
                                   NV_S_NV2080_ALLOC, &sub, &t->subdevices[i]),
                         0);
        assert_int_equal(
            alloc_memory(t, i, 2 * HUGE, VIDEO_ATTR, &t->memory[i]), 0);
    }
}

static void
team_rig_fini(struct team_rig *t, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        kio_close(&t->nodes[i]);
    rig_fini(&t->rig);
}

/* Calls until it is ready; how many were too early. */
static uint32_t
await_ready(struct team_rig *t)
{
    struct nv00fd_get_info info;
    uint32_t n = 0, status;

    while ((status = get_info(t, &info)) == S_NOT_READY)
        assert_true(++n < 100);
    assert_int_equal(status, 0);
    return n;
}

static void
form_team(struct team_rig *t, uint32_t n)
{
    uint32_t i;

    assert_int_equal(alloc_team(t, TEAM_BYTES, n, &t->team), 0);
    for (i = 0; i < n; i++)
        assert_int_equal(
            attach_gpu(t, t->team, t->subdevices[i], t->nodes[i].fd), 0);
}

static void
test_makes(void **state)
{
    struct nv00fd_alloc packet = {
        .allocSize = TEAM_BYTES, .numGpus = 2, .allocFlags = 1};
    struct team_rig t;
    uint32_t team;

    (void)state;
    team_rig_init(&t, "h100*2", 2);
    assert_int_equal(alloc_team(&t, TEAM_BYTES - HUGE, 2, &team), S_ARGUMENT);
    assert_int_equal(alloc_team(&t, 0, 2, &team), S_ARGUMENT);
    assert_int_equal(alloc_team(&t, TEAM_BYTES, 0, &team), S_ARGUMENT);
    assert_int_equal(alloc_team(&t, TEAM_BYTES, UINT32_MAX, &team), S_ARGUMENT);
    team = 0;
    assert_int_equal(rig_alloc(&t.rig, t.rig.client, NV_MEMORY_MULTICAST_FABRIC,
                               NV_S_NV00FD_ALLOC, &packet, &team),
                     S_PERMISSIONS);
    assert_int_equal(rig_alloc(&t.rig, t.devices[0], NV_MEMORY_MULTICAST_FABRIC,
                               NV_S_NV00FD_ALLOC, &packet, &team),
                     S_PARENT);
    team_rig_fini(&t, 2);
}

static void
test_cards(void **state)
{
    struct nv_register_fd reg;
    struct team_rig t;

    (void)state;
    team_rig_init(&t, "h100*3", 3);
    assert_int_equal(alloc_team(&t, TEAM_BYTES, 2, &t.team), 0);
    assert_int_equal(attach_gpu(&t, t.team, t.devices[0], t.nodes[0].fd),
                     S_DEVICE);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.rig.ctl.fd),
                     S_DEVICE);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.nodes[1].fd),
                     S_DEVICE);
    /* the node that the client keeps is registered */
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.rig.node.fd),
                     S_BUSY);
    assert_int_equal(
        attach_gpu(&t, t.memory[0], t.subdevices[0], t.nodes[0].fd),
        S_NOT_SUPPORTED);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.nodes[0].fd), 0);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.nodes[0].fd),
                     S_DUPLICATE);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[2], t.nodes[2].fd), 0);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[1], t.nodes[1].fd),
                     S_OPERATION);
    /* a member's file belongs to the team */
    reg.ctl_fd = t.rig.ctl.fd;
    assert_int_not_equal(rig_errno(&t.nodes[0],
                                   nv_request(NV_ESC_REGISTER_FD, sizeof(reg)),
                                   &reg),
                         0);
    team_rig_fini(&t, 3);
}

/* Who is behind no switch that knows of teams. */
static void
test_no_team(void **state)
{
    static const char *const specs[] = {"rtx4090*2", "h100*2,link=none",
                                        "h100*2,fabric=absent", "a100*2"};
    struct team_rig t;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        team_rig_init(&t, specs[i], 2);
        assert_int_equal(alloc_team(&t, TEAM_BYTES, 2, &t.team), 0);
        assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.nodes[0].fd),
                         S_NOT_SUPPORTED);
        team_rig_fini(&t, 2);
    }
}

/* Each call but ATTACH_GPU waits for all cards, and then for the answer. */
static void
test_ready(void **state)
{
    struct nv00fd_get_info info;
    struct team_rig t;

    (void)state;
    team_rig_init(&t, "h100*2", 2);
    assert_int_equal(alloc_team(&t, TEAM_BYTES, 2, &t.team), 0);
    assert_int_equal(get_info(&t, &info), S_NOT_READY);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[0], t.nodes[0].fd), 0);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, 0, HUGE), S_NOT_READY);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[1], t.nodes[1].fd), 0);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, 0, HUGE), S_NOT_READY);
    assert_true(await_ready(&t) > 0);
    assert_int_equal(get_info(&t, &info), 0);
    assert_int_equal(info.allocSize, TEAM_BYTES);
    assert_int_equal(info.numMaxGpus, 2);
    assert_int_equal(info.numAttachedGpus, 2);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, 0, HUGE), 0);
    team_rig_fini(&t, 2);
}

static void
test_memory(void **state)
{
    struct team_rig t;
    uint32_t small, host;

    (void)state;
    team_rig_init(&t, "h100*2", 2);
    form_team(&t, 2);
    (void)await_ready(&t);
    assert_int_equal(alloc_memory(&t, 0, HUGE, 0x18800000, &small), 0);
    assert_int_equal(rig_system(&t.rig, HUGE, &host), 0);
    assert_int_equal(attach_mem(&t, 0, small, 0, 0, HUGE), S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, host, 0, 0, HUGE), S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, t.memory[1], 0, 0, HUGE), S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 4096, 0, HUGE), S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, 4096, HUGE), S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, 0, 0), S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, HUGE, 2 * HUGE),
                     S_ARGUMENT);
    assert_int_equal(
        attach_mem(&t, 0, t.memory[0], TEAM_BYTES - HUGE, 0, 2 * HUGE),
        S_ARGUMENT);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, 0, 2 * HUGE), 0);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], HUGE, 0, HUGE),
                     S_DUPLICATE);
    assert_int_equal(detach_mem(&t, 0, HUGE), S_NOT_FOUND);
    assert_int_equal(detach_mem(&t, 1, 0), S_NOT_FOUND);
    assert_int_equal(detach_mem(&t, 0, 0), 0);
    assert_int_equal(attach_mem(&t, 0, t.memory[0], HUGE, 0, HUGE), 0);
    /* memory that goes is detached */
    assert_int_equal(rig_free(&t.rig, t.memory[0]), 0);
    assert_int_equal(detach_mem(&t, 0, HUGE), S_NOT_FOUND);
    team_rig_fini(&t, 2);
}

/* RM's own spaces: not before it is ready, and not by cards of other teams. */
static void
test_map(void **state)
{
    struct nv503b_alloc pair = {0};
    uint64_t va = 0, linear;
    uint32_t carrier, pairing = 0;
    struct team_rig t;
    int i;

    (void)state;
    team_rig_init(&t, "h100*3", 3);
    pair.hSubDevice = t.subdevices[0];
    pair.hPeerSubDevice = t.subdevices[1];
    form_team(&t, 2);
    assert_int_equal(rig_carrier(&t.rig, HUGE, HUGE, &carrier, &va), 0);
    assert_int_equal(
        rig_map_gpu(&t.rig, carrier, t.team, 0, HUGE, 1u << 15, &va),
        S_NOT_READY);
    (void)await_ready(&t);
    /* a card with no peer has no number for those of a team */
    assert_int_equal(
        rig_map_gpu(&t.rig, carrier, t.team, 0, HUGE, 1u << 15, &va), S_STATE);
    assert_int_equal(rig_alloc(&t.rig, t.rig.client, NV50_P2P,
                               NV_S_NV503B_ALLOC, &pair, &pairing),
                     0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(
            rig_map_gpu(&t.rig, carrier, t.team, 0, HUGE, 1u << 15, &va), 0);
        assert_int_equal(rig_unmap_gpu(&t.rig, carrier, t.team, va, HUGE), 0);
    }
    assert_int_not_equal(rig_map_cpu(&t.rig, t.devices[0], t.team, 0, 4096,
                                     &t.nodes[2], &linear),
                         0);
    assert_int_equal(rig_free(&t.rig, t.team), 0);
    /* cards 1 and 2, without the one whose space it is */
    assert_int_equal(alloc_team(&t, TEAM_BYTES, 1, &t.team), 0);
    assert_int_equal(attach_gpu(&t, t.team, t.subdevices[2], t.nodes[2].fd), 0);
    (void)await_ready(&t);
    assert_int_equal(
        rig_map_gpu(&t.rig, carrier, t.team, 0, HUGE, 1u << 15, &va), S_STATE);
    team_rig_fini(&t, 3);
}

/* A team outlives the handle that made it, by its mapping's end at last. */
static void
test_branches(void **state)
{
    static const char *const specs[] = {
        "h100*2,branch=535", "h100*2,branch=570", "h100*2,branch=580",
        "h200*2,branch=590", "b200*2,branch=595"};
    struct team_rig t;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        team_rig_init(&t, specs[i], 2);
        form_team(&t, 2);
        (void)await_ready(&t);
        assert_int_equal(attach_mem(&t, 0, t.memory[0], 0, HUGE, HUGE), 0);
        assert_int_equal(attach_mem(&t, 1, t.memory[1], 0, 0, HUGE), 0);
        team_rig_fini(&t, 2);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_makes),    cmocka_unit_test(test_cards),
        cmocka_unit_test(test_no_team),  cmocka_unit_test(test_ready),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_map),
        cmocka_unit_test(test_branches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
