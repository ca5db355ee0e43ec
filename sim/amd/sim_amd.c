/* The form and the process that it is: files, mappings, life. */
#include "sim/amd/sim_amd.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/kfd/kfd.h"
#include "sim/amd/kfd/kfd_machine.h"
#include "sim/amd/kfd/kfd_window.h"
#include "sim/dmabuf.h"
#include "sim/links.h"

/* ---- processes ---- */

/* All that the kernel has of the process: it exits. */
static void
drop_all(struct kfd_process *p)
{
    uint32_t i;

    while (p->n_queues)
        kfd_drop_queue(p, p->queues[0]);
    while (p->n_buffers)
        kfd_drop_buffer(p, p->buffers[0]);
    for (i = 0; i < p->machine->n_cards; i++)
        kfd_drop_vm(&p->vms[i]);
    pthread_mutex_lock(&p->event_lock);
    p->is_ending = true;
    pthread_cond_broadcast(&p->event_cond);
    while (p->n_waiters)
        pthread_cond_wait(&p->event_cond, &p->event_lock);
    while (p->n_events)
        host_free(p->events[--p->n_events]);
    pthread_mutex_unlock(&p->event_lock);
}

static void
amdsim_process_free(struct kfd_process *p)
{
    pthread_cond_destroy(&p->event_cond);
    pthread_mutex_destroy(&p->event_lock);
    host_free(p->files);
    host_free(p->buffers);
    host_free(p->queues);
    host_free(p->events);
    host_free(p);
}

/* The machine's lock is held. */
static void
end_process(struct kfd_process *p)
{
    struct kfd_process **link = &p->machine->processes;

    drop_all(p);
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    amdsim_process_free(p);
}

/* Takes the machine, whose lock is held. */
static bell_status
amdsim_process_create(struct kfd_machine *machine, bool is_own,
                      struct kfd_process **out_process)
{
    struct kfd_process *p = host_calloc(1, sizeof(*p));

    if (!p || pthread_mutex_init(&p->event_lock, NULL) != 0) {
        host_free(p);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a process");
    }
    pthread_cond_init(&p->event_cond, NULL);
    p->machine = machine;
    p->is_own = is_own;
    p->next = machine->processes;
    machine->processes = p;
    *out_process = p;
    return BELL_OK;
}

/* A state of its own for this file: its spaces, events, queues. Numbers of
 * memory are the program's, as offsets of mappings are. src: Linux 7.3,
 * kfd_ioctl_create_process */
static int
create_secondary(struct kfd_process *p, struct kfd_file *file)
{
    if (p->machine->kfd_minor < 19)
        return kfd_fail(ENOTTY, "KFD 1.%u has no CREATE_PROCESS",
                        p->machine->kfd_minor);
    if (file->secondary)
        return kfd_fail(EINVAL, "the file has a process of its own already");
    if (amdsim_process_create(p->machine, true, &file->secondary) != BELL_OK)
        return kfd_fail(ENOMEM, "%s", bell_error_last()->message);
    file->secondary->primary = p;
    file->secondary->next_handle = ++p->n_secondaries << 16;
    return 0;
}

/* ---- files ---- */

/* This program has one process at a machine, however many backends. */
struct form {
    struct kio kio; /* first */
    struct kfd_process *process;
};

static struct kfd_process *
amdsim_enter(struct kio *kio)
{
    struct kfd_process *p = ((struct form *)kio)->process;

    kfd_why_clear();
    pthread_mutex_lock(&p->machine->lock);
    return p;
}

static int
amdsim_leave(struct kfd_process *p, int result)
{
    pthread_mutex_unlock(&p->machine->lock);
    return result;
}

struct kfd_file *
kfd_file_of(struct kfd_process *p, int fd)
{
    size_t i = (size_t)(fd - KFD_FIRST_FD);

    p = p->primary ? p->primary : p; /* the program's */
    if (fd >= KFD_FIRST_FD && i < p->n_files &&
        p->files[i].kind != KFD_FILE_NONE)
        return &p->files[i];
    (void)kfd_fail(EBADF, "file %d is not open", fd);
    return NULL;
}

static enum kfd_file_kind
amdsim_find_node(const struct kfd_machine *machine, const char *path,
                 uint32_t *out_card)
{
    static const char node[] = "/dev/dri/renderD";
    unsigned long minor;
    char *end;

    *out_card = 0;
    if (strcmp(path, "/dev/kfd") == 0)
        return KFD_FILE_KFD;
    if (strncmp(path, node, sizeof(node) - 1) != 0)
        return KFD_FILE_NONE;
    minor = strtoul(path + sizeof(node) - 1, &end, 10);
    if (*end || minor < KFD_DRM_FIRST ||
        minor - KFD_DRM_FIRST >= machine->n_cards ||
        machine->hidden >> (minor - KFD_DRM_FIRST) & 1)
        return KFD_FILE_NONE;
    *out_card = (uint32_t)minor - KFD_DRM_FIRST;
    return KFD_FILE_DRM;
}

/* What stands before the driver: folders, and the rules of a container's
 * cgroup. */
static int
check_node(const struct kfd_machine *machine, const char *path,
           struct kfd_file *out_file)
{
    *out_file = (struct kfd_file){.kind = KFD_FILE_NONE};
    out_file->kind = amdsim_find_node(machine, path, &out_file->card);
    if (out_file->kind == KFD_FILE_NONE)
        return kfd_fail(ENOENT, "the simulated machine has no %s", path);
    if (out_file->kind == KFD_FILE_DRM && machine->denied >> out_file->card & 1)
        return -EPERM;
    return 0;
}

int
kfd_add_file(struct kfd_process *p, const struct kfd_file *file)
{
    size_t i;

    p = p->primary ? p->primary : p;
    for (i = 0; i < p->n_files && p->files[i].kind != KFD_FILE_NONE; i++) {
    }
    if (i == p->n_files) {
        if (host_grow((void **)&p->files, &p->cap_files, p->n_files + 1,
                      sizeof(*p->files)) != 0)
            return kfd_fail(ENOMEM, "no memory for a file");
        p->n_files++;
    }
    p->files[i] = *file;
    p->files[i].serial = ++p->n_opened;
    return KFD_FIRST_FD + (int)i;
}

static int
amdsim_open_locked(struct kfd_process *p, const char *path)
{
    struct kfd_file file;
    int result = check_node(p->machine, path, &file);

    return result < 0 ? result : kfd_add_file(p, &file);
}

static int
amdsim_kio_open(struct kio *kio, const char *path, int flags)
{
    struct kfd_process *p = amdsim_enter(kio);

    (void)flags;
    return amdsim_leave(p, amdsim_open_locked(p, path));
}

static int
amdsim_kio_may_open(struct kio *kio, const char *path)
{
    struct kfd_process *p = amdsim_enter(kio);
    struct kfd_file file;

    return amdsim_leave(p, check_node(p->machine, path, &file));
}

/* A secondary process ends with the file that it was made for. src: Linux 7.3,
 * kfd_release */
static int
close_locked(struct kfd_process *p, int fd)
{
    struct kfd_file *file = kfd_file_of(p, fd);

    if (!file && sim_dmabuf_is(fd)) /* one of the program's own */
        return close(fd) < 0 ? -errno : 0;
    if (!file)
        return -EBADF;
    file->kind = KFD_FILE_NONE;
    if (file->secondary)
        end_process(file->secondary);
    file->secondary = NULL;
    return 0;
}

static int
amdsim_kio_close(struct kio *kio, int fd)
{
    struct kfd_process *p = amdsim_enter(kio);

    return amdsim_leave(p, close_locked(p, fd));
}

static int
amdsim_kio_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct kfd_process *p = amdsim_enter(kio), *q;
    struct kfd_file *file = kfd_file_of(p, fd);

    if (!file)
        return amdsim_leave(p, -EBADF);
    if (file->kind == KFD_FILE_DRM)
        return amdsim_leave(p, kfd_render_call(p, file->card, request, arg));
    if (file->kind != KFD_FILE_KFD)
        return amdsim_leave(p, kfd_fail(ENOTTY, "not a device"));
    if (request == KFD_CREATE_PROCESS)
        return amdsim_leave(p, create_secondary(p, file));
    q = file->secondary ? file->secondary : p;
    if ((request & 0xffff) == 0x4b0c) { /* may sleep */
        pthread_mutex_lock(&q->event_lock);
        q->n_waiters++;
        pthread_mutex_unlock(&q->event_lock);
        (void)amdsim_leave(p, 0);
        return kfd_do_wait(q, arg);
    }
    return amdsim_leave(p, kfd_call(q, request, arg));
}

static int
amdsim_kio_poll(struct kio *kio, int fd, short events, int timeout_ms,
                short *out_revents)
{
    struct kfd_process *p = amdsim_enter(kio);
    bool is_open = kfd_file_of(p, fd) != NULL;
    struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

    (void)events;
    (void)amdsim_leave(p, 0);
    *out_revents = is_open ? 0 : POLLNVAL;
    if (!is_open)
        return 1;
    if (timeout_ms < 0)
        return kfd_fail(EDEADLK, "poll without end: no event comes");
    if (timeout_ms > 0 && nanosleep(&pause, NULL) < 0)
        return -errno;
    return 0;
}

static int
amdsim_kio_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    struct kfd_process *p = amdsim_enter(kio);

    return amdsim_leave(p, kfd_read_file(p->machine, path, buf, cap));
}

/* NULL also where several partitions are at the place. */
static const struct kfd_card *
card_at(const struct kfd_machine *machine, uint32_t place)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards && machine->n_partitions == 1; i++) {
        if (kfd_location(&machine->cards[i]) == place)
            return &machine->cards[i];
    }
    return NULL;
}

static bool
amdsim_kio_link_bytes(struct kio *kio, uint32_t card, uint32_t owner,
                      struct kio_link_bytes *out_bytes)
{
    struct kfd_process *p = amdsim_enter(kio);
    const struct kfd_card *a = card_at(p->machine, card);
    const struct kfd_card *b = card_at(p->machine, owner);

    if (a && b)
        sim_links_get(p->machine->traffic, a->index, b->index, out_bytes);
    (void)amdsim_leave(p, 0);
    return a && b;
}

/* ---- mappings ---- */

static bool
is_mmio(const struct kfd_buffer *buf)
{
    return buf->flags & KFD_MEM_MMIO;
}

/* What /dev/kfd maps at an offset: doorbells, or the MMIO page. */
static int
kfd_mapping(struct kfd_process *p, size_t size_bytes, uint64_t offset,
            int *out_fd)
{
    uint32_t gpu_id = (uint32_t)(offset >> KFD_MMAP_GPU_SHIFT & 0xffff);
    struct kfd_card *card = kfd_card_of(p, gpu_id);
    size_t i;

    if (!card)
        return -EINVAL;
    if ((offset & KFD_MMAP_KIND) == KFD_MMAP_DOORBELL) {
        if (size_bytes != KFD_DOORBELL_BYTES ||
            offset & (KFD_DOORBELL_BYTES - 1))
            return kfd_fail(EINVAL, "doorbells: %zu bytes at 0x%llx",
                            size_bytes, (unsigned long long)offset);
        if (!p->vms[card->index].doorbells)
            return kfd_fail(EINVAL, "ACQUIRE_VM comes first");
        *out_fd = p->vms[card->index].doorbell_fd;
        return 0;
    }
    for (i = 0; i < p->n_buffers; i++) {
        if (is_mmio(p->buffers[i]) && p->buffers[i]->card == card->index &&
            size_bytes == KFD_PAGE) {
            *out_fd = p->buffers[i]->fd;
            return 0;
        }
    }
    return kfd_fail(EINVAL, "nothing to map at offset 0x%llx",
                    (unsigned long long)offset);
}

/* What a render node maps at an offset, for the process or a secondary one of
 * it; NULL: nothing. */
static struct kfd_buffer *
find_mapping(struct kfd_process *p, uint64_t offset)
{
    struct kfd_buffer *buf = kfd_find_offset(p, offset);
    struct kfd_process *other;

    for (other = p->machine->processes; other && !buf; other = other->next) {
        if (other->primary == p)
            buf = kfd_find_offset(other, offset);
    }
    return buf;
}

static bool
is_card_memory(struct kfd_process *p, uint64_t offset)
{
    const struct kfd_buffer *buf = find_mapping(p, offset);

    return buf && buf->flags & KFD_MEM_VRAM;
}

static int
drm_mapping(struct kfd_process *p, uint32_t card, size_t size_bytes,
            uint64_t offset, int *out_fd)
{
    struct kfd_buffer *buf = find_mapping(p, offset);

    assert(card < p->machine->n_cards);
    if (!buf || buf->card != card || is_mmio(buf) ||
        buf->flags & KFD_MEM_DOORBELL)
        return kfd_fail(EINVAL, "no memory at offset 0x%llx",
                        (unsigned long long)offset);
    /* Also memory that is not PUBLIC: since Linux 5.18 KFD makes none that the
     * CPU may not map. src: amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu */
    if (buf->flags & KFD_MEM_VRAM && p->machine->bar_mib)
        return kfd_fail(EPERM, "memory that the window need not show");
    if (size_bytes > buf->size_bytes)
        return kfd_fail(EINVAL, "%zu bytes, the memory has %llu", size_bytes,
                        (unsigned long long)buf->size_bytes);
    *out_fd = buf->fd;
    return 0;
}

static int
amdsim_mmap_locked(struct kfd_process *p, void **addr, size_t size_bytes,
                   int prot, int flags, int fd, uint64_t offset)
{
    const struct kfd_file *file = fd < 0 ? NULL : kfd_file_of(p, fd);
    int memory_fd = -1, result = 0;
    void *at;

    if (fd >= 0 && !file)
        return -EBADF;
    /* Private ones that nobody can touch are for libhsakmt. src:
     * amdgpu_gem_object_mmap */
    if (file && !(flags & MAP_SHARED) && prot != PROT_NONE)
        return kfd_fail(EINVAL, "a mapping that is not shared");
    if (file && file->kind == KFD_FILE_KFD)
        result = kfd_mapping(file->secondary ? file->secondary : p, size_bytes,
                             offset, &memory_fd);
    else if (file)
        result = drm_mapping(p, file->card, size_bytes, offset, &memory_fd);
    if (result < 0)
        return result;
    if (flags & MAP_FIXED)
        kfd_window_drop(*addr, size_bytes);
    at = mmap(*addr, size_bytes, prot, flags, memory_fd,
              file ? 0 : (off_t)offset);
    if (at == MAP_FAILED)
        return -errno;
    if (p->machine->is_virtual && file && file->kind == KFD_FILE_DRM &&
        prot & PROT_WRITE && is_card_memory(p, offset))
        kfd_window_add(&p->machine->cards[file->card], at, size_bytes,
                       memory_fd);
    *addr = at;
    return 0;
}

static int
amdsim_kio_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot,
                int flags, int fd, uint64_t offset)
{
    struct kfd_process *p = amdsim_enter(kio);

    return amdsim_leave(
        p, amdsim_mmap_locked(p, addr, size_bytes, prot, flags, fd, offset));
}

static int
amdsim_kio_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio;
    kfd_why_clear();
    kfd_window_drop(addr, size_bytes);
    return munmap(addr, size_bytes) < 0 ? -errno : 0;
}

static const char *
amdsim_kio_explain(struct kio *kio)
{
    (void)kio;
    return kfd_why()[0] ? kfd_why() : NULL;
}

void
sim_amd_hold_no_stores(void)
{
    kfd_window_off();
}

/* ---- life ---- */

static void
process_exit(struct kfd_process *p)
{
    struct kfd_machine *machine = p->machine;
    size_t i;

    pthread_mutex_lock(&machine->lock);
    for (i = 0; i < p->n_files; i++) {
        if (p->files[i].kind != KFD_FILE_NONE)
            (void)close_locked(p, KFD_FIRST_FD + (int)i);
    }
    end_process(p);
    pthread_mutex_unlock(&machine->lock);
    kfd_machine_put(machine);
}

static void
amdsim_kio_destroy(struct kio *kio)
{
    struct form *form = (struct form *)kio;

    if (form->process->is_own)
        process_exit(form->process);
    host_free(form);
}

static const struct kio_ops sim_ops = {
    .name = "sim",
    .destroy = amdsim_kio_destroy,
    .open = amdsim_kio_open,
    .close = amdsim_kio_close,
    .ioctl = amdsim_kio_ioctl,
    .mmap = amdsim_kio_mmap,
    .munmap = amdsim_kio_munmap,
    .poll = amdsim_kio_poll,
    .read_file = amdsim_kio_read_file,
    .may_open = amdsim_kio_may_open,
    .explain = amdsim_kio_explain,
    .link_bytes = amdsim_kio_link_bytes,
};

/* This program at the machine, if it was there before. */
static struct kfd_process *
amdsim_find_process(const struct kfd_machine *machine)
{
    struct kfd_process *p = machine->processes;

    while (p && p->is_own)
        p = p->next;
    return p;
}

static bell_status
create(const char *spec, bool is_own, struct kio **out_kio)
{
    struct form *form = host_calloc(1, sizeof(*form));
    struct kfd_machine *machine;
    bool has_taken = false;
    bell_status status;

    if (!form)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a form");
    status = kfd_machine_get(spec, &machine);
    if (status != BELL_OK) {
        host_free(form);
        return status;
    }
    pthread_mutex_lock(&machine->lock);
    form->process = is_own ? NULL : amdsim_find_process(machine);
    if (!form->process) {
        status = amdsim_process_create(machine, is_own, &form->process);
        has_taken = status == BELL_OK;
    }
    pthread_mutex_unlock(&machine->lock);
    if (!has_taken)
        kfd_machine_put(machine);
    if (status != BELL_OK) {
        host_free(form);
        return status;
    }
    form->kio = (struct kio){
        .ops = &sim_ops,
        .outlives = !is_own,
        .gives_descriptors = true,
    };
    *out_kio = &form->kio;
    return BELL_OK;
}

bell_status
sim_amd_create(const char *spec, struct kio **out_kio)
{
    return create(spec, true, out_kio);
}

bell_status
sim_amd_join(const char *spec, struct kio **out_kio)
{
    return create(spec, false, out_kio);
}

/* ---- counts ---- */

/* The process that a stack ends in; NULL: it ends in something else. */
static struct kfd_process *
process_of(const struct kio *stack)
{
    while (stack && stack->below)
        stack = stack->below;
    if (!stack || stack->ops != &sim_ops)
        return NULL;
    return ((const struct form *)stack)->process;
}

static void
count(const struct kfd_process *p, struct sim_amd_usage *usage)
{
    uint32_t n_files = 0;
    size_t i;

    for (i = 0; i < p->n_files; i++)
        n_files += p->files[i].kind != KFD_FILE_NONE;
    usage->processes += n_files > 0;
    usage->files += n_files;
    for (i = 0; i < p->machine->n_cards; i++)
        usage->spaces += p->vms[i].space != NULL;
    usage->queues += (uint32_t)p->n_queues;
    for (i = 0; i < p->n_queues; i++) {
        if (p->queues[i]->is_sdma)
            usage->engines |= 1u << p->queues[i]->engine;
    }
    usage->events += (uint32_t)p->n_events;
    usage->buffers += (uint32_t)p->n_buffers;
    for (i = 0; i < p->n_buffers; i++) {
        usage->memory_bytes += p->buffers[i]->size_bytes;
        usage->va_mapped_bytes +=
            p->buffers[i]->size_bytes *
            (uint64_t)__builtin_popcountll(p->buffers[i]->mapped);
    }
}

static void
count_left(const struct kfd_machine *machine, struct sim_amd_usage *usage)
{
    const struct kfd_store *store;

    for (store = machine->left; store; store = store->next)
        usage->memory_bytes += store->size_bytes;
}

static void
count_machine(void *user, struct kfd_machine *machine)
{
    const struct kfd_process *p;

    pthread_mutex_lock(&machine->lock);
    kfd_sweep_stores(machine);
    for (p = machine->processes; p; p = p->next)
        count(p, user);
    count_left(machine, user);
    pthread_mutex_unlock(&machine->lock);
}

void
sim_amd_usage(const struct kio *stack, struct sim_amd_usage *out_usage)
{
    struct kfd_process *p = process_of(stack);

    memset(out_usage, 0, sizeof(*out_usage));
    if (p)
        count_machine(out_usage, p->machine);
}

void
sim_amd_usage_all(struct sim_amd_usage *out_usage)
{
    memset(out_usage, 0, sizeof(*out_usage));
    kfd_machine_each(count_machine, out_usage);
}

void
sim_amd_fault_text(const struct kio *stack, char *text, uint32_t cap)
{
    struct kfd_process *p = process_of(stack);

    text[0] = '\0';
    if (!p)
        return;
    pthread_mutex_lock(&p->event_lock);
    snprintf(text, cap, "%s", p->fault_text);
    pthread_mutex_unlock(&p->event_lock);
}
