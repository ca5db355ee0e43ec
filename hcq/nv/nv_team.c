/* Teams: memory of several cards behind an NVSwitch under one more address,
 * which multimem instructions use (NVLS).
 *
 * The first card's client makes the object, the others have it duplicated. Each
 * card is attached with a file of its node that is not registered; then the
 * fabric manager is asked, and that is waited for. Then memory is attached, and
 * the object is put into each card's address space as memory is. Cards must be
 * peers first: the kernel's driver takes the number of one for the mapping.
 *
 * src: docs/hardware/nvidia-kernel.md, "Multicast". From sources alone: no card
 * of ours has been seen with these calls.
 */
#include "hcq/nv/nv_control.h"

#include <assert.h>
#include <fcntl.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/nv_uapi.h"

#define TEAM_PAGE_BYTES  (512ull << 20)
#define STATUS_NOT_READY 0x55u
#define FABRIC_COMPLETE  3u
#define FABRIC_MULTICAST 1u /* NV2080_CTRL_GPU_FABRIC_PROBE_CAP_MC_SUPPORTED */

/* For the fabric manager: it answers in its own time, or never. guess */
#define READY_NS (10ull * 1000000000)
#define NAP_NS   1000000

struct member {
    struct nv_device *dev;
    uint32_t object;         /* 0: none, or the backing's */
    struct nv_backing *team; /* the mapping; NULL: not yet */
    uint64_t peer_va;        /* of another member's memory; 0: none */
};

struct hcq_team {
    uint32_t n;
    struct member members[HCQ_TEAM_MAX];
};

/* ---- who may ------------------------------------------------------------- */

/* Before Hopper no switch forms teams, and the state says so. */
static bell_status
check_switch(struct nv_device *dev)
{
    struct nv2080_get_gpu_fabric_probe_info info = {0};

    BELL_TRY(nv_rm_control(dev->rm, dev->rm->subdevice,
                           NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO,
                           NV_S_NV2080_GET_GPU_FABRIC_PROBE_INFO, &info));
    if (info.state != FABRIC_COMPLETE || !(info.fabricCaps & FABRIC_MULTICAST))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s is behind no NVSwitch whose fabric manager forms "
                         "teams (state %u, capabilities 0x%llx)",
                         dev->base.info.name, info.state,
                         (unsigned long long)info.fabricCaps);
    return BELL_OK;
}

bell_status
nv_team_check(struct hcq_device *const *devs, uint32_t n)
{
    uint32_t i, k;

    assert(n >= 2 && n <= HCQ_TEAM_MAX);
    for (i = 0; i < n; i++) {
        struct nv_device *dev = nv_device_of(devs[i]);

        for (k = 0; k < i; k++) {
            if (!nv_same_machine(dev, nv_device_of(devs[k])) ||
                dev->rm->instance == nv_device_of(devs[k])->rm->instance)
                return bell_fail(BELL_E_UNSUPPORTED,
                                 "%s and %s are one card, or of different "
                                 "machines",
                                 devs[k]->info.name, devs[i]->info.name);
        }
        BELL_TRY(check_switch(dev));
    }
    return BELL_OK;
}

/* ---- the object ---------------------------------------------------------- */

static bell_status
make_object(struct hcq_team *team, uint64_t size_bytes)
{
    struct nv_rm *first = team->members[0].dev->rm;
    struct nv00fd_alloc params = {
        .alignment = TEAM_PAGE_BYTES,
        .allocSize = align_up(size_bytes, TEAM_PAGE_BYTES),
        .pageSize = (uint32_t)TEAM_PAGE_BYTES,
        .numGpus = team->n,
    };
    uint32_t i;

    BELL_TRY(nv_rm_alloc(first, first->client, NV_MEMORY_MULTICAST_FABRIC,
                         NV_S_NV00FD_ALLOC, &params, &team->members[0].object));
    for (i = 1; i < team->n; i++) {
        struct nv_rm *rm = team->members[i].dev->rm;

        BELL_TRY(nv_rm_dup(rm, rm->client, first->client,
                           team->members[0].object, &team->members[i].object));
    }
    return BELL_OK;
}

/* The kernel keeps the file that it is shown. */
static bell_status
attach_card(const struct member *m)
{
    struct nv_rm *rm = m->dev->rm;
    struct nv00fd_attach_gpu params = {.hSubdevice = rm->subdevice};
    struct kio_file node = {.fd = -1};
    bell_status status;

    BELL_TRY(kio_open(rm->kio, rm->node_path, O_RDWR, &node));
    params.devDescriptor = node.fd;
    status = nv_rm_control(rm, m->object, NV00FD_CTRL_CMD_ATTACH_GPU,
                           NV_S_NV00FD_ATTACH_GPU, &params);
    kio_close(&node);
    return status;
}

static uint64_t
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Until the fabric manager has given the team its addresses. */
static bell_status
await_fabric(const struct hcq_team *team)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const struct member *m = &team->members[0];
    uint64_t end = now_ns() + READY_NS;
    uint32_t status;

    for (;;) {
        struct nv00fd_get_info info = {0};

        BELL_TRY(nv_rm_control_status(m->dev->rm, m->object,
                                      NV00FD_CTRL_CMD_GET_INFO,
                                      NV_S_NV00FD_GET_INFO, &info, &status));
        if (status == 0)
            return BELL_OK;
        if (status != STATUS_NOT_READY)
            return bell_fail(BELL_E_KERNEL,
                             "the fabric manager refuses a team of %u cards: "
                             "status 0x%x",
                             team->n, status);
        if (now_ns() >= end)
            return bell_fail(BELL_E_TIMEOUT,
                             "the fabric manager has not formed a team of %u "
                             "cards in %llu s",
                             team->n, READY_NS / 1000000000);
        nanosleep(&nap, NULL);
    }
}

/* ---- memory -------------------------------------------------------------- */

static bell_status
attach_memory(const struct member *m, const struct hcq_buffer *buf,
              uint64_t offset, uint64_t size_bytes)
{
    struct nv_control *control = m->dev->control;
    struct nv00fd_attach_mem params = {
        .hSubdevice = m->dev->rm->subdevice,
        .mapLength = size_bytes,
    };
    const struct nv_backing *b;

    pthread_mutex_lock(&control->lock);
    b = nv_backing_find(control, buf->va + offset, size_bytes);
    if (b && b->kind == NV_MEM_VIDEO) {
        params.hMemory = b->memory;
        params.mapOffset = buf->va + offset - b->va;
    }
    pthread_mutex_unlock(&control->lock);
    if (!params.hMemory || params.mapOffset % HCQ_TEAM_BYTES)
        return bell_fail(BELL_E_INVALID,
                         "%s: 0x%llx is not memory of the card's in pages of "
                         "its own",
                         m->dev->base.info.name,
                         (unsigned long long)(buf->va + offset));
    return nv_rm_control(m->dev->rm, m->object, NV00FD_CTRL_CMD_ATTACH_MEM,
                         NV_S_NV00FD_ATTACH_MEM, &params);
}

/* From then on the object is the backing's. */
static bell_status
map_team(struct member *m, uint64_t size_bytes)
{
    struct nv_control *control = m->dev->control;
    const struct nv_backing model = {
        .kind = NV_BACKING_TEAM,
        .size_bytes = size_bytes,
        .parent = m->dev->rm->client,
        .memory = m->object,
        .is_far = nv_memory_is_far(m->dev, size_bytes),
    };
    bell_status status;

    pthread_mutex_lock(&control->lock);
    m->object = 0; /* nv_backing_add frees it where it fails */
    status = nv_backing_add(m->dev, &model, NULL, &m->team);
    pthread_mutex_unlock(&control->lock);
    return status;
}

/* Also what is half made. */
void
nv_team_destroy(struct hcq_team *team)
{
    uint32_t i;

    if (!team)
        return;
    for (i = 0; i < team->n; i++) {
        struct member *m = &team->members[i];
        struct nv_control *control = m->dev->control;

        pthread_mutex_lock(&control->lock);
        if (m->team)
            nv_backing_drop(m->team);
        pthread_mutex_unlock(&control->lock);
        nv_rm_free(m->dev->rm, m->dev->rm->client, m->object);
        if (m->peer_va)
            nv_memory_unshare(m->dev, m->peer_va);
    }
    host_free(team);
}

static bell_status
fill_team(struct hcq_team *team, const struct hcq_team_desc *desc,
          uint64_t *out_vas)
{
    uint32_t i;

    for (i = 0; i < team->n; i++) {
        struct member *m = &team->members[i];
        uint32_t next = (i + 1) % team->n;

        BELL_TRY(nv_memory_share(m->dev, team->members[next].dev,
                                 desc->bufs[next]->va, &m->peer_va));
    }
    BELL_TRY(make_object(team, desc->size_bytes));
    for (i = 0; i < team->n; i++)
        BELL_TRY(attach_card(&team->members[i]));
    BELL_TRY(await_fabric(team));
    for (i = 0; i < team->n; i++)
        BELL_TRY(attach_memory(&team->members[i], desc->bufs[i],
                               desc->offsets[i], desc->size_bytes));
    for (i = 0; i < team->n; i++) {
        BELL_TRY(map_team(&team->members[i], desc->size_bytes));
        out_vas[i] = team->members[i].team->va;
    }
    return BELL_OK;
}

bell_status
nv_team_create(const struct hcq_team_desc *desc, uint64_t *out_vas,
               struct hcq_team **out_team)
{
    struct hcq_team *team;
    bell_status status;
    uint32_t i;

    assert(desc->size_bytes > 0 && desc->size_bytes % HCQ_TEAM_BYTES == 0);
    BELL_TRY(nv_team_check(desc->devs, desc->n));
    team = host_calloc(1, sizeof(*team));
    if (!team)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a team");
    team->n = desc->n;
    for (i = 0; i < team->n; i++)
        team->members[i].dev = nv_device_of(desc->devs[i]);
    status = fill_team(team, desc, out_vas);
    if (status != BELL_OK) {
        struct bell_error_hold hold;

        bell_error_hold(&hold);
        nv_team_destroy(team);
        bell_error_release(&hold);
        return status;
    }
    *out_team = team;
    return BELL_OK;
}
