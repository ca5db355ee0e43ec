/* A fresh state of the process at the kernel driver, after a memory fault.
 *
 * KFD counts such a fault for the state that it keeps of the process, and runs
 * nothing of that any more. From KFD 1.19 on an opened file can be given a
 * state of its own, which begins without the count. All memory moves there as
 * files (dma-buf), to the same addresses: contents and the CPU's mappings stay.
 * The first state stays with the process, without memory but for the page of
 * events; later ones end with their file.
 *
 * A state of that kind lacks memory of the process itself (USERPTR). No card
 * has run this. src: Linux 7.3, kfd_chardev.c: kfd_ioctl_create_process,
 * kfd_release, kfd_ioctl_alloc_memory_of_gpu; Linux 6.12,
 * kfd_ioctl_export_dmabuf, amdgpu_amdkfd_gpuvm.c: import_obj_create
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kfd_uapi.h"

#define DOORBELL_BYTES 0x2000u

/* What becomes the process's own once all of it is there. */
struct fresh {
    struct kio_file kfd, drm[AMD_MAX_CARDS]; /* fd -1: none */
    uint32_t signal_event, memory_event, hardware_event;
    bool has_runtime;
};

bool
amd_process_can_renew(const struct amd_process *process)
{
    return process->minor >= 19;
}

/* ---- openings that wait for each other ----------------------------------- */

/* process->lock is held. */
static bool
is_parked(const struct amd_device *dev)
{
    return dev && dev->control->parked_in == dev->process->round;
}

bool
amd_process_is_awaited(const struct amd_device *dev)
{
    struct amd_process *process = dev->process;
    bool is;

    pthread_mutex_lock(&process->lock);
    is = process->n_parked > is_parked(dev);
    pthread_mutex_unlock(&process->lock);
    return is;
}

void
amd_process_unpark(struct amd_device *dev)
{
    struct amd_process *process = dev->process;

    pthread_mutex_lock(&process->lock);
    assert(process->n_parked >= is_parked(dev));
    process->n_parked -= is_parked(dev);
    dev->control->parked_in = 0;
    pthread_mutex_unlock(&process->lock);
}

/* Whether all other openings are parked. If not, this one is. */
static bool
is_last(struct amd_process *process, struct amd_device *dev)
{
    uint32_t n_others = amd_process_openings(process) - 1;
    bool is;

    pthread_mutex_lock(&process->lock);
    assert(process->n_parked >= is_parked(dev));
    is = process->n_parked - is_parked(dev) == n_others;
    if (!is && dev && !is_parked(dev)) {
        dev->control->parked_in = process->round;
        process->n_parked++;
    }
    pthread_mutex_unlock(&process->lock);
    return is;
}

/* Nothing else may use the old state, and nothing may be lost with it. */
static bell_status
check_alone(struct amd_process *process, struct amd_device *dev)
{
    const struct amd_held *held;
    uint32_t n_queues = 0, i;

    if (!is_last(process, dev))
        return bell_fail(BELL_E_DEVICE_LOST,
                         "a fresh state at KFD is one for the whole process: "
                         "recover or close its other AMD devices, then recover "
                         "this one again");
    pthread_mutex_lock(&process->lock);
    for (i = 0; i < process->n_cards; i++)
        n_queues += process->cards[i].n_queues;
    for (held = process->held; held && !held->is_user; held = held->next)
        continue;
    pthread_mutex_unlock(&process->lock);
    if (n_queues)
        return bell_fail(BELL_E_DEVICE_LOST,
                         "%u queues of the process could not be destroyed: "
                         "start the program anew",
                         n_queues);
    if (held)
        return bell_fail(BELL_E_DEVICE_LOST,
                         "KFD gives a fresh state no memory of the process: "
                         "destroy pinned buffers, then recover");
    return BELL_OK;
}

static bell_status
open_fresh(struct amd_process *process, struct fresh *fresh)
{
    struct kfd_runtime_enable enable = {.mode = KFD_RUNTIME_ON};
    uint32_t i;

    BELL_TRY(kio_open(process->kio, "/dev/kfd", O_RDWR, &fresh->kfd));
    BELL_TRY(kio_ioctl(&fresh->kfd, KFD_CREATE_PROCESS, NULL));
    for (i = 0; i < process->n_cards; i++) {
        struct kfd_acquire_vm vm = {.gpu_id =
                                        process->cards[i].topology.gpu_id};

        if (process->cards[i].drm.fd < 0)
            continue;
        BELL_TRY(amd_drm_open(process, i, &fresh->drm[i]));
        vm.drm_fd = (uint32_t)fresh->drm[i].fd;
        BELL_TRY(kio_ioctl(&fresh->kfd, KFD_ACQUIRE_VM, &vm));
    }
    if (process->has_runtime)
        fresh->has_runtime =
            kio_ioctl(&fresh->kfd, KFD_RUNTIME_ENABLE, &enable) == BELL_OK;
    return BELL_OK;
}

static bell_status
map_moved(struct amd_process *process, const struct kio_file *kfd,
          const struct amd_held *held)
{
    uint32_t ids[AMD_MAX_CARDS], n = 0, i;
    struct kfd_map_memory map = {.handle = held->moved,
                                 .gpu_ids = (uintptr_t)ids};

    for (i = 0; i < process->n_cards; i++) {
        if (held->mapped >> i & 1)
            ids[n++] = process->cards[i].topology.gpu_id;
    }
    map.n = n;
    return n ? kio_ioctl(kfd, KFD_MAP_MEMORY, &map) : BELL_OK;
}

/* The same memory at the same address in the fresh state. */
static bell_status
move(struct amd_process *process, const struct kio_file *kfd,
     struct amd_held *held)
{
    struct kfd_export_dmabuf export = {.handle = held->handle,
                                       .flags = O_RDWR | O_CLOEXEC};
    struct kfd_import_dmabuf import = {
        .va = held->va,
        .gpu_id = process->cards[held->card].topology.gpu_id,
    };
    struct kio_file file = {.kio = process->kio};
    bell_status status;

    assert(!held->stays);
    BELL_TRY(kio_ioctl(&process->kfd, KFD_EXPORT_DMABUF, &export));
    file.fd = (int)export.fd;
    import.fd = export.fd;
    status = kio_ioctl(kfd, KFD_IMPORT_DMABUF, &import);
    kio_close(&file);
    BELL_TRY(status);
    held->moved = import.handle;
    return map_moved(process, kfd, held);
}

static bell_status
fill_fresh(struct amd_process *process, struct fresh *fresh)
{
    struct amd_held *held;

    for (held = process->held; held; held = held->next) {
        if (!held->stays)
            BELL_TRY(move(process, &fresh->kfd, held));
    }
    BELL_TRY(amd_event_create(&fresh->kfd, KFD_EVENT_SIGNAL,
                              process->event_page.held->moved,
                              &fresh->signal_event));
    /* It stands in packets that queues have. */
    if (fresh->signal_event != process->signal_event)
        return bell_fail(BELL_E_KERNEL, "KFD gave signal event %u, not %u",
                         fresh->signal_event, process->signal_event);
    BELL_TRY(amd_event_create(&fresh->kfd, KFD_EVENT_MEMORY, 0,
                              &fresh->memory_event));
    return amd_event_create(&fresh->kfd, KFD_EVENT_HW_EXCEPTION, 0,
                            &fresh->hardware_event);
}

/* Gives the old state's side of it back; the memory is the fresh one's. */
static void
let_go(struct amd_process *process, const struct amd_held *held)
{
    uint32_t ids[AMD_MAX_CARDS], n = 0, i;
    struct kfd_map_memory map = {.handle = held->handle,
                                 .gpu_ids = (uintptr_t)ids};
    struct kfd_free_memory back = {held->handle};

    if (held->stays || held == process->event_page.held)
        return;
    for (i = 0; i < process->n_cards; i++) {
        if (held->mapped >> i & 1)
            ids[n++] = process->cards[i].topology.gpu_id;
    }
    map.n = n;
    if (n)
        amd_call_or_log(process, KFD_UNMAP_MEMORY, &map);
    amd_call_or_log(process, KFD_FREE_MEMORY, &back);
}

static void
close_fresh(struct amd_process *process, struct fresh *fresh)
{
    uint32_t i;

    for (i = 0; i < process->n_cards; i++)
        kio_close(&fresh->drm[i]);
    kio_close(&fresh->kfd);
}

/* From here on the process's; `fresh` has what it had before. */
static void
take(struct amd_process *process, struct fresh *fresh)
{
    struct kio_file file;
    struct amd_held *held;
    uint32_t i;

    assert(fresh->kfd.fd >= 0);
    pthread_mutex_lock(&process->lock);
    file = process->kfd;
    process->kfd = fresh->kfd;
    fresh->kfd = file;
    for (i = 0; i < process->n_cards; i++) {
        struct amd_card *card = &process->cards[i];

        file = card->drm;
        card->drm = fresh->drm[i];
        fresh->drm[i] = file;
        if (card->doorbells)
            kio_munmap(process->kio, card->doorbells, DOORBELL_BYTES);
        card->doorbells = NULL;
        card->is_stopped = false;
        card->stopped_by[0] = '\0';
    }
    for (held = process->held; held; held = held->next) {
        if (!held->stays)
            held->handle = held->moved;
    }
    process->signal_event = fresh->signal_event;
    process->memory_event = fresh->memory_event;
    process->hardware_event = fresh->hardware_event;
    process->has_runtime = fresh->has_runtime;
    process->is_renewed = true;
    process->n_parked = 0;
    process->round++;
    pthread_mutex_unlock(&process->lock);
    atomic_store(&process->signal_age, 1);
}

/* open_lock and left_lock are held. */
static bell_status
renew(struct amd_process *process)
{
    struct amd_held *held;
    struct fresh fresh = {.has_runtime = false};
    bell_status status;
    uint32_t i;

    for (i = 0; i < AMD_MAX_CARDS; i++)
        fresh.drm[i].fd = -1;
    fresh.kfd.fd = -1;
    status = open_fresh(process, &fresh);
    if (status == BELL_OK)
        status = fill_fresh(process, &fresh);
    if (status == BELL_OK) {
        for (held = process->held; held; held = held->next)
            let_go(process, held);
        take(process, &fresh);
    }
    close_fresh(process, &fresh);
    return status;
}

bell_status
amd_process_renew(struct amd_process *process, struct amd_device *dev)
{
    bell_status status;

    amd_left_retry(process);
    BELL_TRY(check_alone(process, dev));
    pthread_mutex_lock(&process->open_lock);
    pthread_mutex_lock(&process->left_lock);
    status = renew(process);
    pthread_mutex_unlock(&process->left_lock);
    pthread_mutex_unlock(&process->open_lock);
    BELL_TRY(status);
    return BELL_OK;
}
