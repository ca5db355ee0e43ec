/* The calls of /dev/kfd and of the render nodes: which there are, and those
 * that are not about memory, queues or events. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/thread.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/kfd/kfd.h"

static _Thread_local char why[256];

int
kfd_fail(int error, const char *fmt, ...)
{
    va_list args;

    assert(error > 0);
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return -error;
}

const char *
kfd_why(void)
{
    return why;
}

void
kfd_why_clear(void)
{
    why[0] = '\0';
}

struct kfd_card *
kfd_card_of(struct kfd_process *p, uint32_t gpu_id)
{
    uint32_t i;

    for (i = 0; i < p->machine->n_cards; i++) {
        if (p->machine->cards[i].gpu_id == gpu_id)
            return &p->machine->cards[i];
    }
    (void)kfd_fail(EINVAL, "no card has id 0x%x", gpu_id);
    return NULL;
}

/* ---- address spaces ------------------------------------------------------ */

void
kfd_drop_vm(struct kfd_vm *vm)
{
    amdsim_space_destroy(vm->space);
    if (vm->doorbells) {
        munmap(vm->doorbells, KFD_DOORBELL_BYTES);
        close(vm->doorbell_fd);
    }
    memset(vm, 0, sizeof(*vm));
}

static int
kfd_get_version(struct kfd_process *p, void *arg)
{
    struct kfd_version *args = arg;

    args->major = 1;
    args->minor = p->machine->kfd_minor;
    return 0;
}

static int
make_doorbells(struct kfd_vm *vm)
{
    vm->doorbell_fd = memfd_create("simulated doorbells", MFD_CLOEXEC);
    if (vm->doorbell_fd < 0)
        return -errno;
    vm->doorbells = MAP_FAILED;
    if (ftruncate(vm->doorbell_fd, KFD_DOORBELL_BYTES) == 0)
        vm->doorbells = mmap(NULL, KFD_DOORBELL_BYTES, PROT_READ | PROT_WRITE,
                             MAP_SHARED, vm->doorbell_fd, 0);
    if (vm->doorbells == MAP_FAILED) {
        int error = errno;
        vm->doorbells = NULL;
        close(vm->doorbell_fd);
        return kfd_fail(error, "memory for doorbells: %s", strerror(error));
    }
    memset(vm->doorbells, 0xff, KFD_DOORBELL_BYTES);
    return 0;
}

static int
acquire_vm(struct kfd_process *p, void *arg)
{
    const struct kfd_acquire_vm *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);
    struct kfd_file *file = kfd_file_of(p, (int)args->drm_fd);
    struct kfd_vm *vm;
    int result;

    if (!card)
        return -EINVAL;
    if (!file || file->kind != KFD_FILE_DRM || file->card != card->index)
        return kfd_fail(EINVAL, "file %u is not the card's render node",
                        args->drm_fd);
    vm = &p->vms[card->index];
    if (vm->space)
        return vm->drm_serial == file->serial
                   ? 0
                   : kfd_fail(EBUSY,
                              "the card has another render node's space");
    result = make_doorbells(vm);
    if (result < 0)
        return result;
    if (amdsim_space_create(card->gpu, &vm->space) != BELL_OK) {
        kfd_drop_vm(vm);
        return kfd_fail(ENOMEM, "%s", bell_error_last()->message);
    }
    vm->drm_serial = file->serial;
    if (vm->is_evicted)
        amdsim_space_evict(vm->space);
    return 0;
}

static int
check_vm(struct kfd_process *p, uint32_t gpu_id)
{
    struct kfd_card *card = kfd_card_of(p, gpu_id);

    if (!card)
        return -EINVAL;
    return p->vms[card->index].space
               ? 0
               : kfd_fail(ESRCH, "ACQUIRE_VM comes first");
}

/* For apertures that nothing uses: checked, without effect. src: Linux 6.12,
 * kfd_ioctl_set_memory_policy */
static int
set_memory_policy(struct kfd_process *p, void *arg)
{
    const struct kfd_memory_policy *args = arg;

    if (args->default_policy > 1 || args->alternate_policy > 1)
        return kfd_fail(EINVAL, "policies %u and %u", args->default_policy,
                        args->alternate_policy);
    return check_vm(p, args->gpu_id);
}

/* Counts only where the kernel schedules queues without the firmware: on no
 * card here. src: kfd_ioctl_set_scratch_backing_va */
static int
set_scratch_va(struct kfd_process *p, void *arg)
{
    const struct kfd_scratch_va *args = arg;

    return check_vm(p, args->gpu_id);
}

/* Nothing traps here: a wave that would ends its queue. */
static int
set_trap_handler(struct kfd_process *p, void *arg)
{
    const struct kfd_trap_handler *args = arg;

    return check_vm(p, args->gpu_id);
}

/* Images are not simulated: as many words as there are, all 0. src:
 * kfd_ioctl_get_tile_config */
static int
get_tile_config(struct kfd_process *p, void *arg)
{
    struct kfd_tile_config *args = arg;

    if (!kfd_card_of(p, args->gpu_id))
        return -EINVAL;
    args->n_tile = args->n_tile < 32 ? args->n_tile : 32;
    args->n_macro = args->n_macro < 16 ? args->n_macro : 16;
    memset((void *)(uintptr_t)args->tile, 0, args->n_tile * 4);
    memset((void *)(uintptr_t)args->macro, 0, args->n_macro * 4);
    args->gb_addr_config = args->n_banks = args->n_ranks = 0;
    return 0;
}

static int
get_clocks(struct kfd_process *p, void *arg)
{
    struct kfd_clock_counters *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);

    /* A node without a card has none. src: kfd_ioctl_get_clock_counters */
    args->gpu_clock = card ? amdsim_clock(card->gpu) : 0;
    args->cpu_clock = args->system_clock = time_now_ns();
    args->system_clock_hz = 1000000000;
    return 0;
}

static int
get_apertures(struct kfd_process *p, void *arg)
{
    struct kfd_get_apertures *args = arg;
    struct kfd_apertures *out =
        (struct kfd_apertures *)(uintptr_t)args->apertures;
    uint32_t i, n = p->machine->n_cards;

    if (args->n < n)
        n = args->n;
    for (i = 0; i < n; i++) {
        memset(&out[i], 0, sizeof(out[i]));
        out[i].lds_base = 0x1000000000000ull;
        out[i].lds_limit = 0x10000ffffffffull;
        out[i].scratch_base = 0x2000000000000ull;
        out[i].scratch_limit = 0x20000ffffffffull;
        out[i].gpuvm_base = 0x200000;
        out[i].gpuvm_limit = 0x7fffffffffffull;
        out[i].gpu_id = p->machine->cards[i].gpu_id;
    }
    args->n = p->machine->n_cards;
    return 0;
}

/* src: Linux 6.12, kfd_ioctl_runtime_enable: mode 0 switches it off */
static int
runtime_enable(struct kfd_process *p, void *arg)
{
    const struct kfd_runtime_enable *args = arg;

    if (p->machine->kfd_minor < 14)
        return kfd_fail(ENOTTY, "KFD 1.%u has no RUNTIME_ENABLE",
                        p->machine->kfd_minor);
    if (args->mode & ~3u)
        return kfd_fail(EINVAL, "mode 0x%x", args->mode);
    if (args->mode & 1 && p->has_runtime)
        return kfd_fail(EBUSY, "the runtime is there already");
    if (args->mode & 1 && p->n_queues)
        return kfd_fail(EEXIST, "there are queues already");
    p->has_runtime = args->mode & 1;
    return 0;
}

static int
set_xnack(struct kfd_process *p, void *arg)
{
    struct kfd_xnack_mode *args = arg;

    (void)p;
    if (args->enabled > 0)
        return kfd_fail(EPERM, "retries of faults are not possible");
    args->enabled = 0;
    return 0;
}

static int
set_event(struct kfd_process *p, void *arg)
{
    return kfd_do_set_event(p, arg, true);
}

static int
reset_event(struct kfd_process *p, void *arg)
{
    return kfd_do_set_event(p, arg, false);
}

/* One row of the dispatch: the kernel takes min(size, known) bytes. */
struct call {
    uint32_t nr, bytes;
    int (*run)(struct kfd_process *p, void *arg);
};

static const struct call calls[] = {
    {0x01, 8, kfd_get_version},
    {0x02, 96, kfd_do_create_queue},
    {0x03, 8, kfd_do_destroy_queue},
    {0x04, 32, set_memory_policy},
    {0x05, 40, get_clocks},
    {0x07, 24, kfd_do_update_queue},
    {0x08, 32, kfd_do_create_event},
    {0x09, 8, kfd_do_destroy_event},
    {0x0a, 8, set_event},
    {0x0b, 8, reset_event},
    {0x11, 16, set_scratch_va},
    {0x12, 40, get_tile_config},
    {0x13, 24, set_trap_handler},
    {0x14, 16, get_apertures},
    {0x15, 8, acquire_vm},
    {0x16, 40, kfd_do_alloc},
    {0x17, 8, kfd_do_free},
    {0x18, 24, kfd_do_map},
    {0x19, 24, kfd_do_unmap},
    {0x1c, 32, kfd_do_dmabuf_info},
    {0x1d, 24, kfd_do_import},
    {0x21, 4, set_xnack},
    {0x23, 16, kfd_do_available},
    {0x24, 16, kfd_do_export},
    {0x25, 16, runtime_enable},
};

int
kfd_call(struct kfd_process *p, unsigned long request, void *arg)
{
    uint32_t nr = request & 0xff, size = request >> 16 & 0x3fff;
    uint64_t copy[16] = {0};
    size_t i;
    int result;

    if ((request >> 8 & 0xff) != 0x4b)
        return kfd_fail(ENOTTY, "request 0x%lx is not KFD's", request);
    for (i = 0; i < ARRAY_LEN(calls); i++) {
        if (calls[i].nr != nr)
            continue;
        /* other sizes work too: shorter ones are filled with zeros */
        if (size > sizeof(copy))
            return kfd_fail(EINVAL, "%u bytes of arguments", size);
        memcpy(copy, arg, size < calls[i].bytes ? size : calls[i].bytes);
        result = calls[i].run(p, copy);
        if (request >> 30 & 2)
            memcpy(arg, copy, size < calls[i].bytes ? size : calls[i].bytes);
        return result;
    }
    return kfd_fail(ENOTTY, "KFD has no call 0x%x here", nr);
}
