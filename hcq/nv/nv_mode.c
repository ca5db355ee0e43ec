/* The compute mode that a card's owner has set (nvidia-smi -c). The kernel
 * driver keeps it and hands out one reservation of the card; that programs obey
 * is left to them.
 *
 * In the exclusive mode a card is one process's, and a reservation is one
 * client's: the first opening of a process has it, and later ones of the same
 * process go without. It ends with the opening that has it.
 * src: NVIDIA/open-gpu-kernel-modules 580.142, ctrl2080gpu.h,
 * subdevice_ctrl_gpu_kernel.c
 */
#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/process.h"
#include "hcq/nv/nv_control.h"
#include "ioctl/nv_uapi.h"

enum {
    MODE_DEFAULT,
    MODE_EXCLUSIVE_THREAD,
    MODE_PROHIBITED,
    MODE_EXCLUSIVE_PROCESS
};

/* The real kernel's cards that this process has open in an exclusive mode: the
 * reservation is the process's, and knows nothing of its openings. */
static struct {
    pthread_mutex_t lock;
    struct {
        uint32_t gpu_id, n_open;
    } cards[NV_RM_MAX_CARDS];
} exclusive = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
forget_exclusive(void)
{
    pthread_mutex_init(&exclusive.lock, NULL);
    memset(exclusive.cards, 0, sizeof(exclusive.cards));
}

__attribute__((constructor)) static void
nv_mode_watch_forks(void)
{
    process_in_child(forget_exclusive);
}

/* The lock is held. NULL: there is no room for one more. */
static uint32_t *
count_of(uint32_t gpu_id)
{
    size_t i, free = NV_RM_MAX_CARDS;

    for (i = 0; i < NV_RM_MAX_CARDS; i++) {
        if (exclusive.cards[i].n_open && exclusive.cards[i].gpu_id == gpu_id)
            return &exclusive.cards[i].n_open;
        if (!exclusive.cards[i].n_open)
            free = i;
    }
    if (free == NV_RM_MAX_CARDS)
        return NULL;
    exclusive.cards[free].gpu_id = gpu_id;
    return &exclusive.cards[free].n_open;
}

/* The lock is held. */
static bell_status
reserve_window(struct nv_device *dev, bool is_shared)
{
    struct nv_rm *rm = dev->rm;

    if (is_shared)
        return BELL_OK;
    if (nv_rm_command(rm, rm->subdevice,
                      NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION) ==
        BELL_OK)
        return BELL_OK;
    bell_error_prefix("the card's compute mode is exclusive, and another "
                      "process has it (nvidia-smi -c DEFAULT lets several)");
    return bell_error_last()->status;
}

bell_status
nv_mode_enter(struct nv_device *dev)
{
    struct nv2080_gpu_query_compute_mode_rules mode = {0};
    struct nv_control *control = dev->control;
    struct nv_rm *rm = dev->rm;
    uint32_t *n_open;
    bell_status status;

    /* a driver that does not tell knows of no modes, as with MIG */
    if (nv_rm_control(
            rm, rm->subdevice, NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES,
            NV_S_NV2080_GPU_QUERY_COMPUTE_MODE_RULES, &mode) != BELL_OK ||
        mode.rules == MODE_DEFAULT)
        return BELL_OK;
    if (mode.rules == MODE_PROHIBITED)
        return bell_fail(BELL_E_PERMISSION,
                         "the card's compute mode is PROHIBITED: its owner "
                         "keeps programs off (nvidia-smi -c DEFAULT lets them "
                         "on)");
    if (!kio_outlives(dev->kio)) /* a process of its own */
        return reserve_window(dev, false);
    pthread_mutex_lock(&exclusive.lock);
    n_open = count_of(rm->card.gpu_id);
    status = reserve_window(dev, n_open && *n_open);
    control->is_exclusive = status == BELL_OK && n_open;
    if (control->is_exclusive)
        ++*n_open;
    pthread_mutex_unlock(&exclusive.lock);
    return status;
}

void
nv_mode_leave(struct nv_device *dev)
{
    uint32_t *n_open;

    if (!dev->control->is_exclusive)
        return;
    pthread_mutex_lock(&exclusive.lock);
    n_open = count_of(dev->rm->card.gpu_id);
    assert(n_open && *n_open > 0);
    if (n_open && *n_open)
        --*n_open;
    pthread_mutex_unlock(&exclusive.lock);
    dev->control->is_exclusive = false;
}
