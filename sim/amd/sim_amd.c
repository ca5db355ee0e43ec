/* The form: files, calls, mappings, and the machines that processes share. */
#include "sim/amd/sim_amd.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/dump.h"
#include "sim/amd/kfd.h"

#define DEFAULT_MINOR 17u
#define DRM_FIRST     128u

/* The machines that are there: they stand for the hardware and the kernel,
 * which are one for all processes. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kfd_machine *registry;

static _Thread_local char why[256];

int
kfd_fail(int error, const char *fmt, ...)
{
    va_list args;

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

/* ---- machines ------------------------------------------------------------------------ */

static void
machine_destroy(struct kfd_machine *machine)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++)
        amdgpu_destroy(machine->cards[i].gpu);
    amd_dump_destroy(machine->dump);
    pthread_mutex_destroy(&machine->lock);
    host_free(machine);
}

/* What a SPEC says. */
struct plan {
    const struct amdgpu_chip *chip;
    uint32_t n_cards, minor;
    char *dump; /* owned: the directory; NULL: none */
};

static bell_status
machine_create(const struct plan *plan, const char *spec,
               struct kfd_machine **out_machine)
{
    struct kfd_machine *machine = host_calloc(1, sizeof(*machine));
    uint32_t i;

    if (!machine || pthread_mutex_init(&machine->lock, NULL) != 0) {
        host_free(machine);
        return bell_fail(BELL_E_NO_MEMORY, "no memory for a machine");
    }
    machine->chip = plan->chip;
    machine->kfd_minor = plan->minor;
    if (plan->dump && amd_dump_create(plan->dump, plan->chip->name,
                                      &machine->dump) != BELL_OK) {
        machine_destroy(machine);
        return bell_error_last()->status;
    }
    snprintf(machine->spec, sizeof(machine->spec), "%s", spec);
    for (i = 0; i < plan->n_cards; i++) {
        struct kfd_card *card = &machine->cards[i];
        card->machine = machine;
        card->index = i;
        card->gpu_id = 0x5000 + 0x111 * i + plan->chip->device_id % 0x100;
        card->render_minor = DRM_FIRST + i;
        if (amdgpu_create(plan->chip, &card->gpu) != BELL_OK) {
            machine_destroy(machine);
            return bell_error_last()->status;
        }
        amdgpu_set_dump(card->gpu, machine->dump);
        machine->n_cards++;
    }
    *out_machine = machine;
    return BELL_OK;
}

static bell_status
unknown(const char *spec)
{
    const struct amdgpu_chip *chip;
    char chips[96] = "";
    size_t n = 0;
    uint32_t i;

    for (i = 0; (chip = amdgpu_chip_find(NULL, i)) && n < sizeof(chips); i++)
        n += (size_t)snprintf(chips + n, sizeof(chips) - n, "%s%s",
                              i ? ", " : "", chip->name);
    return bell_fail(BELL_E_NO_DEVICE,
                     "no simulated AMD machine '%.60s'; known: CHIP[*1..%u]"
                     "[,kfd=1.N][,dump=DIR], chips %s",
                     spec, KFD_MAX_CARDS, chips);
}

/* What follows the commas; `text` starts with one. The plan's directory may be
 * there also after an error. */
static bell_status
parse_options(const char *spec, const char *text, struct plan *plan)
{
    char *end;

    while (*text) {
        size_t n = 1 + strcspn(text + 1, ",");

        if (strncmp(text, ",kfd=1.", 7) == 0) {
            plan->minor = (uint32_t)strtoul(text + 7, &end, 10);
            if (end != text + n)
                return unknown(spec);
        } else if (strncmp(text, ",dump=", 6) == 0 && n > 6 && !plan->dump) {
            plan->dump = host_alloc(n - 5);
            if (!plan->dump)
                return bell_fail(BELL_E_NO_MEMORY, "no memory for a name");
            memcpy(plan->dump, text + 6, n - 6);
            plan->dump[n - 6] = '\0';
        } else {
            return unknown(spec);
        }
        text += n;
    }
    return BELL_OK;
}

/* The plan is freed by the caller, also after an error. */
static bell_status
parse_spec(const char *spec, struct plan *plan)
{
    size_t n = strcspn(spec, "*,");
    const char *rest = spec + n;
    char chip[32] = "", *end;

    *plan = (struct plan){.n_cards = 1, .minor = DEFAULT_MINOR};
    if (n == 0 || n >= sizeof(chip))
        return unknown(spec);
    memcpy(chip, spec, n);
    plan->chip = amdgpu_chip_find(chip, 0);
    if (*rest == '*') {
        if (rest[1] < '1' || rest[1] > '9')
            return unknown(spec);
        plan->n_cards = (uint32_t)strtoul(rest + 1, &end, 10);
        rest = end;
    }
    if (*rest && *rest != ',')
        return unknown(spec);
    BELL_TRY(parse_options(spec, rest, plan));
    if (!plan->chip || plan->n_cards < 1 || plan->n_cards > KFD_MAX_CARDS ||
        plan->minor < 11 || plan->minor > 17)
        return unknown(spec);
    return BELL_OK;
}

static bool
same_dump(const struct kfd_machine *machine, const struct plan *plan)
{
    if (!machine->dump || !plan->dump)
        return !machine->dump && !plan->dump;
    return strcmp(amd_dump_dir(machine->dump), plan->dump) == 0;
}

/* The registered machine of a plan, made if need be; counted. */
static bell_status
machine_get(const struct plan *plan, struct kfd_machine **out_machine)
{
    struct kfd_machine *m;
    char spec[64];

    snprintf(spec, sizeof(spec), "%s*%u,kfd=1.%u", plan->chip->name,
             plan->n_cards, plan->minor);
    for (m = registry; m; m = m->next) {
        if (strcmp(m->spec, spec) == 0 && same_dump(m, plan))
            break;
    }
    if (!m) {
        BELL_TRY(machine_create(plan, spec, &m));
        m->next = registry;
        registry = m;
    }
    m->refs++;
    *out_machine = m;
    return BELL_OK;
}

static void
machine_put(struct kfd_machine *machine)
{
    struct kfd_machine **link = &registry;

    if (--machine->refs > 0)
        return;
    while (*link != machine)
        link = &(*link)->next;
    *link = machine->next;
    machine_destroy(machine);
}

/* ---- files ----------------------------------------------------------------------------- */

static struct kfd_process *
enter(struct kio *kio)
{
    struct kfd_process *p = (struct kfd_process *)kio;

    kfd_why_clear();
    pthread_mutex_lock(&p->machine->lock);
    return p;
}

static int
leave(struct kfd_process *p, int result)
{
    pthread_mutex_unlock(&p->machine->lock);
    return result;
}

static struct kfd_file *
file_of(struct kfd_process *p, int fd)
{
    size_t i = (size_t)(fd - KFD_FIRST_FD);

    if (fd >= KFD_FIRST_FD && i < p->n_files &&
        p->files[i].kind != KFD_FILE_NONE)
        return &p->files[i];
    (void)kfd_fail(EBADF, "file %d is not open", fd);
    return NULL;
}

static enum kfd_file_kind
find_node(const struct kfd_machine *machine, const char *path,
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
    if (*end || minor < DRM_FIRST || minor - DRM_FIRST >= machine->n_cards)
        return KFD_FILE_NONE;
    *out_card = (uint32_t)minor - DRM_FIRST;
    return KFD_FILE_DRM;
}

static int
open_locked(struct kfd_process *p, const char *path)
{
    struct kfd_file file;
    size_t i;

    file.kind = find_node(p->machine, path, &file.card);
    if (file.kind == KFD_FILE_NONE)
        return kfd_fail(ENOENT, "the simulated machine has no %s", path);
    for (i = 0; i < p->n_files && p->files[i].kind != KFD_FILE_NONE; i++) {
    }
    if (i == p->n_files) {
        if (host_grow((void **)&p->files, &p->cap_files, p->n_files + 1,
                      sizeof(*p->files)) != 0)
            return kfd_fail(ENOMEM, "no memory for a file");
        p->n_files++;
    }
    p->files[i] = file;
    return KFD_FIRST_FD + (int)i;
}

static int
sim_open(struct kio *kio, const char *path, int flags)
{
    struct kfd_process *p = enter(kio);

    (void)flags;
    return leave(p, open_locked(p, path));
}

static void
drop_vm(struct kfd_vm *vm)
{
    amdgpu_space_destroy(vm->space);
    if (vm->doorbells) {
        munmap(vm->doorbells, KFD_DOORBELL_BYTES);
        close(vm->doorbell_fd);
    }
    memset(vm, 0, sizeof(*vm));
}

/* All that the process has at the kernel: when its last /dev/kfd closes. */
static void
drop_all(struct kfd_process *p)
{
    uint32_t i;

    while (p->n_queues)
        kfd_drop_queue(p, p->queues[0]);
    while (p->n_buffers)
        kfd_drop_buffer(p, p->buffers[0]);
    for (i = 0; i < p->machine->n_cards; i++)
        drop_vm(&p->vms[i]);
    pthread_mutex_lock(&p->event_lock);
    while (p->n_events)
        host_free(p->events[--p->n_events]);
    p->event_page = NULL;
    p->next_event = p->next_exception = 0;
    pthread_mutex_unlock(&p->event_lock);
}

static int
close_locked(struct kfd_process *p, int fd)
{
    struct kfd_file *file = file_of(p, fd);
    size_t i;

    if (!file)
        return -EBADF;
    file->kind = KFD_FILE_NONE;
    for (i = 0; i < p->n_files; i++) {
        if (p->files[i].kind == KFD_FILE_KFD)
            return 0;
    }
    drop_all(p);
    return 0;
}

static int
sim_close(struct kio *kio, int fd)
{
    struct kfd_process *p = enter(kio);

    return leave(p, close_locked(p, fd));
}

/* ---- calls ----------------------------------------------------------------------------- */

static int
get_version(struct kfd_process *p, void *arg)
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
        vm->doorbells = NULL;
        close(vm->doorbell_fd);
        return kfd_fail(ENOMEM, "no memory for doorbells");
    }
    memset(vm->doorbells, 0xff, KFD_DOORBELL_BYTES);
    return 0;
}

static int
acquire_vm(struct kfd_process *p, void *arg)
{
    const struct kfd_acquire_vm *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);
    struct kfd_file *file = file_of(p, (int)args->drm_fd);
    struct kfd_vm *vm;
    int result;

    if (!card)
        return -EINVAL;
    if (!file || file->kind != KFD_FILE_DRM || file->card != card->index)
        return kfd_fail(EINVAL, "file %u is not the card's render node",
                        args->drm_fd);
    vm = &p->vms[card->index];
    if (vm->space)
        return vm->drm_fd == (int)args->drm_fd
                   ? 0
                   : kfd_fail(EBUSY,
                              "the card has another render node's space");
    result = make_doorbells(vm);
    if (result < 0)
        return result;
    if (amdgpu_space_create(card->gpu, &vm->space) != BELL_OK) {
        drop_vm(vm);
        return kfd_fail(ENOMEM, "%s", bell_error_last()->message);
    }
    vm->drm_fd = (int)args->drm_fd;
    return 0;
}

static int
get_clocks(struct kfd_process *p, void *arg)
{
    struct kfd_clock_counters *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);

    if (!card)
        return -EINVAL;
    args->gpu_clock = amdgpu_clock(card->gpu);
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

static int
runtime_enable(struct kfd_process *p, void *arg)
{
    const struct kfd_runtime_enable *args = arg;

    if (p->machine->kfd_minor < 14)
        return kfd_fail(ENOTTY, "KFD 1.%u has no RUNTIME_ENABLE",
                        p->machine->kfd_minor);
    if (p->n_queues)
        return kfd_fail(EEXIST, "there are queues already");
    return args->mode & ~3u ? kfd_fail(EINVAL, "mode 0x%x", args->mode) : 0;
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
    uint32_t nr, bytes, old_bytes;
    int (*run)(struct kfd_process *p, void *arg);
};

static const struct call calls[] = {
    {0x01, 8, 8, get_version},
    {0x02, 96, 88, kfd_do_create_queue},
    {0x03, 8, 8, kfd_do_destroy_queue},
    {0x05, 40, 40, get_clocks},
    {0x07, 24, 24, kfd_do_update_queue},
    {0x08, 32, 32, kfd_do_create_event},
    {0x09, 8, 8, kfd_do_destroy_event},
    {0x0a, 8, 8, set_event},
    {0x0b, 8, 8, reset_event},
    {0x14, 16, 16, get_apertures},
    {0x15, 8, 8, acquire_vm},
    {0x16, 40, 40, kfd_do_alloc},
    {0x17, 8, 8, kfd_do_free},
    {0x18, 24, 24, kfd_do_map},
    {0x19, 24, 24, kfd_do_unmap},
    {0x21, 4, 4, set_xnack},
    {0x23, 16, 16, kfd_do_available},
    {0x25, 16, 16, runtime_enable},
};

static int
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

static int
drm_call(struct kfd_process *p, uint32_t card, unsigned long request, void *arg)
{
    const struct amdgpu_chip *chip = p->machine->chip;
    const struct amdgpu_info *info = arg;
    uint8_t answer[368] = {0};
    struct amdgpu_device_info device = {
        .device_id = chip->device_id,
        .gpu_counter_khz = (uint32_t)(chip->clock_hz / 1000),
        .n_shader_engines = chip->array_count / chip->simd_arrays_per_engine,
        .n_shader_arrays_per_engine = chip->simd_arrays_per_engine,
    };

    (void)card;
    if (request != AMDGPU_INFO_REQUEST)
        return kfd_fail(ENOTTY, "request 0x%lx of the render node", request);
    if (info->query != AMDGPU_INFO_DEV_INFO)
        return kfd_fail(EINVAL, "query 0x%x", info->query);
    memcpy(answer, &device, sizeof(device));
    memcpy((void *)(uintptr_t)info->return_pointer, answer,
           info->return_bytes < sizeof(answer) ? info->return_bytes
                                               : sizeof(answer));
    return 0;
}

static int
sim_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct kfd_process *p = enter(kio);
    struct kfd_file *file = file_of(p, fd);
    uint32_t card;

    if (!file)
        return leave(p, -EBADF);
    card = file->card;
    if (file->kind == KFD_FILE_DRM)
        return leave(p, drm_call(p, card, request, arg));
    if ((request & 0xffff) == 0x4b0c) { /* may sleep */
        (void)leave(p, 0);
        return kfd_do_wait(p, arg);
    }
    return leave(p, kfd_call(p, request, arg));
}

static int
sim_poll(struct kio *kio, int fd, short events, int timeout_ms,
         short *out_revents)
{
    struct kfd_process *p = enter(kio);
    bool is_open = file_of(p, fd) != NULL;
    struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

    (void)events;
    (void)leave(p, 0);
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
sim_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    struct kfd_process *p = enter(kio);

    return leave(p, kfd_read_file(p->machine, path, buf, cap));
}

/* ---- mappings ------------------------------------------------------------------------------ */

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

static int
drm_mapping(struct kfd_process *p, uint32_t card, size_t size_bytes,
            uint64_t offset, int *out_fd)
{
    struct kfd_buffer *buf = kfd_find_offset(p, offset);

    if (!buf || buf->card != card || is_mmio(buf))
        return kfd_fail(EINVAL, "no memory at offset 0x%llx",
                        (unsigned long long)offset);
    if ((buf->flags & KFD_MEM_VRAM) && !(buf->flags & KFD_MEM_PUBLIC))
        return kfd_fail(EPERM, "the memory is not for the CPU");
    if (size_bytes > buf->size_bytes)
        return kfd_fail(EINVAL, "%zu bytes, the memory has %llu", size_bytes,
                        (unsigned long long)buf->size_bytes);
    *out_fd = buf->fd;
    return 0;
}

static int
mmap_locked(struct kfd_process *p, void **addr, size_t size_bytes, int prot,
            int flags, int fd, uint64_t offset)
{
    const struct kfd_file *file = fd < 0 ? NULL : file_of(p, fd);
    int memory_fd = -1, result = 0;
    void *at;

    if (fd >= 0 && !file)
        return -EBADF;
    if (file && !(flags & MAP_SHARED))
        return kfd_fail(EINVAL, "a mapping that is not shared");
    if (file && file->kind == KFD_FILE_KFD)
        result = kfd_mapping(p, size_bytes, offset, &memory_fd);
    else if (file)
        result = drm_mapping(p, file->card, size_bytes, offset, &memory_fd);
    if (result < 0)
        return result;
    at = mmap(*addr, size_bytes, prot, flags, memory_fd,
              file ? 0 : (off_t)offset);
    if (at == MAP_FAILED)
        return -errno;
    *addr = at;
    return 0;
}

static int
sim_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
         int fd, uint64_t offset)
{
    struct kfd_process *p = enter(kio);

    return leave(p, mmap_locked(p, addr, size_bytes, prot, flags, fd, offset));
}

static int
sim_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio;
    kfd_why_clear();
    return munmap(addr, size_bytes) < 0 ? -errno : 0;
}

static const char *
sim_explain(struct kio *kio)
{
    (void)kio;
    return why[0] ? why : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void
process_free(struct kfd_process *p)
{
    pthread_cond_destroy(&p->event_cond);
    pthread_mutex_destroy(&p->event_lock);
    host_free(p->files);
    host_free(p->buffers);
    host_free(p->queues);
    host_free(p->events);
    host_free(p);
}

static void
sim_destroy(struct kio *kio)
{
    struct kfd_process *p = enter(kio), **link;
    struct kfd_machine *machine = p->machine;

    drop_all(p);
    for (link = &machine->processes; *link != p; link = &(*link)->next) {
    }
    *link = p->next;
    (void)leave(p, 0);
    process_free(p);
    pthread_mutex_lock(&registry_lock);
    machine_put(machine);
    pthread_mutex_unlock(&registry_lock);
}

static const struct kio_ops sim_ops = {
    .name = "sim",
    .destroy = sim_destroy,
    .open = sim_open,
    .close = sim_close,
    .ioctl = sim_ioctl,
    .mmap = sim_mmap,
    .munmap = sim_munmap,
    .poll = sim_poll,
    .read_file = sim_read_file,
    .explain = sim_explain,
};

static bell_status
process_create(const struct plan *plan, struct kio **out_kio)
{
    struct kfd_process *p;
    bell_status status;

    p = host_calloc(1, sizeof(*p));
    if (!p || pthread_mutex_init(&p->event_lock, NULL) != 0) {
        host_free(p);
        return bell_fail(BELL_E_NO_MEMORY, "no memory for a process");
    }
    pthread_cond_init(&p->event_cond, NULL);
    pthread_mutex_lock(&registry_lock);
    status = machine_get(plan, &p->machine);
    pthread_mutex_unlock(&registry_lock);
    if (status != BELL_OK) {
        process_free(p);
        return status;
    }
    p->kio = (struct kio){.ops = &sim_ops};
    pthread_mutex_lock(&p->machine->lock);
    p->next = p->machine->processes;
    p->machine->processes = p;
    pthread_mutex_unlock(&p->machine->lock);
    *out_kio = &p->kio;
    return BELL_OK;
}

bell_status
sim_amd_create(const char *spec, struct kio **out_kio)
{
    struct plan plan;
    bell_status status = parse_spec(spec, &plan);

    if (status == BELL_OK)
        status = process_create(&plan, out_kio);
    host_free(plan.dump);
    return status;
}

/* ---- counts --------------------------------------------------------------------------------- */

/* The process that a stack ends in; NULL: it ends in something else. */
static struct kfd_process *
process_of(const struct kio *stack)
{
    while (stack && stack->below)
        stack = stack->below;
    if (!stack || stack->ops != &sim_ops)
        return NULL;
    return (struct kfd_process *)(uintptr_t)stack;
}

static void
count(const struct kfd_process *p, struct sim_amd_usage *usage)
{
    size_t i;

    for (i = 0; i < p->n_files; i++)
        usage->files += p->files[i].kind != KFD_FILE_NONE;
    usage->queues += (uint32_t)p->n_queues;
    usage->events += (uint32_t)p->n_events;
    usage->buffers += (uint32_t)p->n_buffers;
    for (i = 0; i < p->n_buffers; i++) {
        usage->memory_bytes += p->buffers[i]->size_bytes;
        usage->va_mapped_bytes +=
            p->buffers[i]->size_bytes *
            (uint64_t)__builtin_popcount(p->buffers[i]->mapped);
    }
}

void
sim_amd_usage(const struct kio *stack, struct sim_amd_usage *out_usage)
{
    struct kfd_process *p = process_of(stack);
    const struct kfd_process *each;

    memset(out_usage, 0, sizeof(*out_usage));
    if (!p)
        return;
    pthread_mutex_lock(&p->machine->lock);
    for (each = p->machine->processes; each; each = each->next)
        count(each, out_usage);
    pthread_mutex_unlock(&p->machine->lock);
}

bool
sim_amd_machine_exists(void)
{
    bool any;

    pthread_mutex_lock(&registry_lock);
    any = registry != NULL;
    pthread_mutex_unlock(&registry_lock);
    return any;
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
