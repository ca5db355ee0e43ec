/* Device nodes: their numbers, and the simulated kernels behind them. */
#undef _FILE_OFFSET_BITS

#include "sim/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "ioctl/intercept.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/kio_interface.h"
#include "ioctl/kio_record.h"
#include "sim/amd/sim_amd.h"
#include "sim/sim.h"

#define EXPORT      __attribute__((visibility("default")))
#define FDS_MAX     65536
#define HANDLES_MAX 1024
#define TOLD_MAX    32 /* refusals that are told */

/* An open device node; numbers that are copies of each other share it. */
struct handle {
    struct kio *kio; /* NULL: of the process that forked this one */
    int fd;          /* of the simulated kernel */
    uint32_t refs;   /* numbers */
    enum kio_dev dev;
    dev_t device;
};

static struct {
    pthread_mutex_t lock; /* of all but of_fd, which is read without */
    pid_t pid;            /* of whom this state is */
    struct {
        char backend[8], interface[256];
        struct kio *kio; /* NULL: not opened yet */
    } machines[2];
    size_t n_machines;
    struct handle handles[HANDLES_MAX]; /* free where refs is 0 */
    uint16_t of_fd[FDS_MAX];            /* index + 1; atomic */
    _Atomic uint32_t n_told;
    bool on, quiet;
} sim = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Calls of the simulators themselves. */
static __thread int busy __attribute__((tls_model("initial-exec")));

static void say_line(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* One write, past the program's streams. */
static void
say_line(const char *fmt, ...)
{
    char line[1024] = "doorbell sim: ";
    size_t n = strlen(line);
    va_list args;
    ssize_t written;

    if (sim.quiet)
        return;
    va_start(args, fmt);
    vsnprintf(line + n, sizeof(line) - n - 1, fmt, args);
    va_end(args);
    n = strlen(line);
    line[n++] = '\n';
    written = write(STDERR_FILENO, line, n);
    (void)written;
}

/* What the cards and kernels say by themselves: faults, and traces. */
static void
tell_line(void *user, const char *line)
{
    (void)user;
    say_line("%s", line);
}

/* ---- numbers ---- */

/* The file's handle, also where it is of another process; NULL: not ours. */
static struct handle *
handle_of(int fd)
{
    unsigned i = 0;

    if (sim.on && fd >= 0 && fd < FDS_MAX && !busy)
        i = __atomic_load_n(&sim.of_fd[fd], __ATOMIC_ACQUIRE);
    return i ? &sim.handles[i - 1] : NULL;
}

static bool
is_our_fd(const struct handle *handle)
{
    return handle->kio && getpid() == sim.pid;
}

/* The number stands for nothing of ours any more. */
static void
forget_fd(int fd)
{
    struct handle *handle;
    struct kio *kio = NULL;
    int sim_fd = -1;

    if (!handle_of(fd) || getpid() != sim.pid)
        return;
    pthread_mutex_lock(&sim.lock);
    handle = handle_of(fd);
    if (handle && --handle->refs == 0) {
        kio = handle->kio;
        sim_fd = handle->fd;
    }
    __atomic_store_n(&sim.of_fd[fd], 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sim.lock);
    if (kio) {
        busy++;
        (void)kio->ops->close(kio, sim_fd);
        busy--;
    }
}

/* `fd` is a new number of the same file. */
static void
share(struct handle *handle, int fd)
{
    if (fd < 0 || fd >= FDS_MAX || getpid() != sim.pid)
        return;
    forget_fd(fd);
    pthread_mutex_lock(&sim.lock);
    handle->refs++;
    __atomic_store_n(&sim.of_fd[fd], (uint16_t)(handle - sim.handles + 1),
                     __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sim.lock);
}

dev_t
sim_preload_device(int fd)
{
    struct handle *handle = handle_of(fd);

    return handle ? handle->device : 0;
}

/* ---- opening ---- */

/* A stack's forms are told which structs the program uses. */
static void
set_branch(struct kio *kio)
{
    const struct kio *bottom = kio;

    while (bottom->below)
        bottom = bottom->below;
    kio_set_branch(kio, bottom->branch);
}

/* Whether this process is the first that records this machine: a cassette has
 * the calls of one, and is written when that ends. */
static bool
claim_recording(size_t i)
{
    char path[512], pid[16], first[16] = "";
    int fd, n;

    n = snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/recorder-%s", env_get("BELL_SIM_TREE"),
             sim.machines[i].backend);
    fd = kio_real_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                       0600);
    if (fd >= 0) {
        bool ok = write(fd, pid, (size_t)n) == n;

        (void)kio_real_close(fd);
        return ok;
    }
    fd = kio_real_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        if (read(fd, first, sizeof(first) - 1) < 0)
            first[0] = '\0';
        (void)kio_real_close(fd);
    }
    if (strcmp(first, pid) == 0)
        return true; /* it has become another program */
    say_line("%s@%s: process %s records there; a recording has one process "
             "(doorbell trace record keeps those of a program)",
             sim.machines[i].backend, sim.machines[i].interface, first);
    return false;
}

/* The machine that a device belongs to; NULL after saying why not. */
static struct kio *
machine_of_locked(enum kio_dev dev)
{
    const char *backend =
        dev == KIO_DEV_KFD || dev == KIO_DEV_DRM ? "AMD" : "NV";
    size_t i;

    for (i = 0; i < sim.n_machines; i++) {
        if (strcmp(sim.machines[i].backend, backend) != 0)
            continue;
        if (!sim.machines[i].kio) {
            if (strstr(sim.machines[i].interface, "record:") &&
                !claim_recording(i))
                return NULL;
            if (kio_open_interface(backend, sim.machines[i].interface,
                                   &sim.machines[i].kio) != BELL_OK) {
                say_line("%s@%s: %s", backend, sim.machines[i].interface,
                         bell_error_last()->message);
                return NULL;
            }
            set_branch(sim.machines[i].kio);
            kio_record_foreign(sim.machines[i].kio);
        }
        return sim.machines[i].kio;
    }
    return NULL;
}

static struct handle *
free_handle_locked(void)
{
    size_t i;

    for (i = 0; i < HANDLES_MAX && sim.handles[i].refs; i++)
        ;
    return i < HANDLES_MAX ? &sim.handles[i] : NULL;
}

/* The simulated kernel's side; negative errno. */
static int
preload_open_locked(const char *path, int flags, struct handle **out_handle)
{
    struct handle *handle = free_handle_locked();
    enum kio_dev dev = kio_dev_of_path(path);
    struct kio *kio = handle ? machine_of_locked(dev) : NULL;
    int fd;

    if (!kio)
        return handle ? -ENODEV : -EMFILE;
    fd = kio->ops->open(kio, path, flags);
    if (fd < 0)
        return fd;
    *handle = (struct handle){.kio = kio,
                              .fd = fd,
                              .refs = 1,
                              .dev = dev,
                              .device = sim_paths_device(path)};
    *out_handle = handle;
    return 0;
}

int
sim_preload_open(const char *path, const char *file, int flags)
{
    struct handle *handle = NULL;
    int fd, result, saved_errno = errno;

    fd = kio_trap_move(kio_real_open(AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    forget_fd(fd); /* its last owner closed it past us */
    pthread_mutex_lock(&sim.lock);
    busy++;
    result = fd < FDS_MAX ? preload_open_locked(path, flags, &handle) : -EMFILE;
    busy--;
    if (handle)
        __atomic_store_n(&sim.of_fd[fd], (uint16_t)(handle - sim.handles + 1),
                         __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sim.lock);
    if (result < 0) {
        kio_real_close(fd);
        errno = -result;
        return -1;
    }
    errno = saved_errno;
    return fd;
}

int
kio_seen_open(int dir, const char *path, int flags, mode_t mode)
{
    char buf[PATH_MAX];
    const char *known, *file = NULL;

    if (sim.on && !busy)
        file = sim_paths_find(dir, path, buf, &known);
    if (!file)
        return kio_real_open(dir, path, flags, mode);
    if (!(flags & O_PATH) && sim_paths_are_denied(file)) {
        errno = EPERM;
        return -1;
    }
    if (sim_paths_device(known) && !(flags & (O_PATH | O_DIRECTORY)))
        return sim_preload_open(known, file, flags);
    return kio_real_open(AT_FDCWD, file, flags, mode);
}

int
kio_seen_close(int fd)
{
    if (handle_of(fd))
        forget_fd(fd);
    return kio_real_close(fd);
}

/* ---- calls ---- */

/* Why the last call failed, as the simulated kernel says it. */
static const char *
sim_failure_text(struct kio *kio, int error)
{
    for (; kio; kio = kio->below) {
        const char *text = kio->ops->explain ? kio->ops->explain(kio) : NULL;
        if (text)
            return text;
    }
    return strerror(error);
}

static void
tell_refusal(const struct handle *handle, unsigned long request, void *arg,
             int error)
{
    char reason[256], text[480] = "";
    struct kio_capture capture;

    snprintf(reason, sizeof(reason), "%s",
             sim_failure_text(handle->kio, error));
    if (error == EINTR || error == EAGAIN || sim.n_told++ >= TOLD_MAX)
        return;
    kio_capture_init(&capture);
    if (kio_capture_call(&capture, handle->dev, handle->kio->branch, request,
                         arg, NULL, NULL) == BELL_OK)
        (void)kio_capture_format(&capture, text, sizeof(text));
    kio_capture_fini(&capture);
    say_line("%s on %s: %s: %s", text, kio_dev_name(handle->dev),
             strerror(error), reason);
    if (sim.n_told == TOLD_MAX)
        say_line("no more refusals are told");
}

/* The program's numbers of files in the argument become the simulated
 * kernel's; `kept` holds what they were. */
enum {
    FDS_IN_CALL = 4
};
struct kept_fds {
    uint32_t n;
    struct {
        void *at;
        int was;
    } fds[FDS_IN_CALL];
};

static void
translate_fds(const struct kio_call_desc *call, uint32_t n_bytes, void *arg,
              struct kept_fds *kept)
{
    uint32_t i;

    kept->n = 0;
    for (i = 0; call->args && i < call->args->n_fields; i++) {
        const struct kio_field *field = &call->args->fields[i];
        uint8_t *at = (uint8_t *)arg + field->offset_bytes;
        struct handle *other;
        int fd;

        if (field->kind != KIO_FIELD_FD || field->size_bytes != 4 ||
            field->offset_bytes + 4u > n_bytes || kept->n == FDS_IN_CALL)
            continue;
        memcpy(&fd, at, sizeof(fd));
        other = handle_of(fd);
        if (!other)
            continue;
        kept->fds[kept->n].at = at;
        kept->fds[kept->n++].was = fd;
        memcpy(at, &other->fd, sizeof(fd));
    }
}

static void
restore_fds(const struct kept_fds *kept)
{
    uint32_t i;

    for (i = 0; i < kept->n; i++)
        memcpy(kept->fds[i].at, &kept->fds[i].was, sizeof(int));
}

/* Whether the program may read what it points to. */
static bool
can_read(const void *arg, uint32_t n_bytes)
{
    uint8_t copy[256];
    uint32_t at = 0;

    while (at < n_bytes) {
        uint32_t n = n_bytes - at < sizeof(copy) ? n_bytes - at : sizeof(copy);
        struct iovec to = {copy, n};
        struct iovec from = {(uint8_t *)(uintptr_t)arg + at, n};

        if (process_vm_readv(sim.pid, &to, 1, &from, 1, 0) != (ssize_t)n)
            return errno != EFAULT; /* else it may not be asked */
        at += n;
    }
    return true;
}

int
kio_seen_ioctl(int fd, unsigned long request, void *arg)
{
    struct handle *handle = handle_of(fd);
    int result, saved_errno = errno;
    struct kio_call_desc call;
    struct kept_fds kept;

    if (!handle)
        return kio_real_ioctl(fd, request, arg);
    if (!is_our_fd(handle)) {
        errno = EBADF;
        return -1;
    }
    kio_describe(handle->dev, handle->kio->branch, request, &call);
    if (call.size_bytes && !can_read(arg, call.size_bytes)) {
        errno = EFAULT;
        return -1;
    }
    translate_fds(&call, call.size_bytes, arg, &kept);
    busy++;
    result = handle->kio->ops->ioctl(handle->kio, handle->fd, request, arg);
    restore_fds(&kept);
    if (result < 0)
        tell_refusal(handle, request, arg, -result);
    busy--;
    errno = result < 0 ? -result : saved_errno;
    return result < 0 ? -1 : result;
}

void *
kio_seen_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
    struct handle *handle = flags & MAP_ANONYMOUS ? NULL : handle_of(fd);
    int result, saved_errno = errno;

    if (!handle)
        return kio_real_mmap(addr, n, prot, flags, fd, offset);
    if (!is_our_fd(handle)) {
        errno = EBADF;
        return MAP_FAILED;
    }
    busy++;
    result = handle->kio->ops->mmap(handle->kio, &addr, n, prot, flags,
                                    handle->fd, (uint64_t)offset);
    if (result < 0 && sim.n_told++ < TOLD_MAX)
        say_line("mmap of %zu bytes of %s at offset 0x%llx: %s", n,
                 kio_dev_name(handle->dev), (unsigned long long)offset,
                 sim_failure_text(handle->kio, -result));
    busy--;
    errno = result < 0 ? -result : saved_errno;
    return result < 0 ? MAP_FAILED : addr;
}

int
kio_seen_munmap(void *addr, size_t n)
{
    int saved_errno = errno;
    size_t i;

    if (sim.on && !busy && getpid() == sim.pid) {
        busy++;
        for (i = 0; i < sim.n_machines; i++)
            kio_record_unmapped(sim.machines[i].kio, addr, n);
        busy--;
        errno = saved_errno;
    }
    return kio_real_munmap(addr, n);
}

/* ---- copies of numbers ---- */

EXPORT int
dup(int fd)
{
    struct handle *handle = handle_of(fd);
    int copy = (int)syscall(SYS_dup, fd);

    if (!handle || copy < 0)
        return copy;
    copy = kio_trap_move(copy);
    share(handle, copy);
    return copy;
}

EXPORT int
dup3(int fd, int to, int flags)
{
    struct handle *handle = handle_of(fd);
    int copy = (int)syscall(SYS_dup3, fd, to, flags);

    if (copy < 0)
        return copy;
    forget_fd(to);
    if (handle)
        share(handle, copy);
    return copy;
}

EXPORT int
dup2(int fd, int to)
{
    if (fd == to)
        return (int)syscall(SYS_fcntl, fd, F_GETFD) < 0 ? -1 : fd;
    return dup3(fd, to, 0);
}

EXPORT int
fcntl(int fd, int command, ...)
{
    struct handle *handle = handle_of(fd);
    va_list args;
    void *arg;
    int copy;

    va_start(args, command);
    arg = va_arg(args, void *);
    va_end(args);
    copy = (int)syscall(SYS_fcntl, fd, command, arg);
    if (handle && copy >= 0 &&
        (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
        share(handle, copy);
    return copy;
}

EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

EXPORT int
close_range(unsigned first, unsigned last, int flags)
{
    unsigned fd;

    for (fd = first; flags == 0 && fd <= last && fd < FDS_MAX; fd++)
        forget_fd((int)fd);
    return (int)syscall(SYS_close_range, first, last, flags);
}

EXPORT void
closefrom(int first)
{
    (void)close_range((unsigned)(first < 0 ? 0 : first), ~0u, 0);
}

/* ---- life ---- */

static void
preload_before_fork(void)
{
    pthread_mutex_lock(&sim.lock);
}

static void
preload_after_fork(void)
{
    pthread_mutex_unlock(&sim.lock);
}

/* The child has neither the cards nor their threads. */
static void
preload_in_child(void)
{
    size_t i;

    for (i = 0; i < HANDLES_MAX; i++)
        sim.handles[i].kio = NULL;
    for (i = 0; i < sim.n_machines; i++)
        sim.machines[i].kio = NULL;
    kio_sim_after_fork();
    sim.pid = getpid();
    pthread_mutex_unlock(&sim.lock);
}

/* BACKEND@INTERFACE, with semicolons between. */
static bool
read_devices(const char *text)
{
    while (*text && sim.n_machines < ARRAY_LEN(sim.machines)) {
        size_t n = strcspn(text, ";"), at = strcspn(text, "@");
        size_t i = sim.n_machines;

        if (at >= n || at >= sizeof(sim.machines[i].backend) ||
            n - at - 1 >= sizeof(sim.machines[i].interface))
            return false;
        memcpy(sim.machines[i].backend, text, at);
        memcpy(sim.machines[i].interface, text + at + 1, n - at - 1);
        sim.n_machines++;
        text += n + (text[n] == ';');
    }
    return *text == '\0' && sim.n_machines > 0;
}

/* Recordings end with the program. */
__attribute__((destructor)) static void
preload_end(void)
{
    size_t i;

    if (!sim.on || getpid() != sim.pid)
        return;
    busy++;
    for (i = 0; i < sim.n_machines; i++) {
        if (kio_record_finish_all(sim.machines[i].kio) != BELL_OK)
            say_line("%s@%s: %s", sim.machines[i].backend,
                     sim.machines[i].interface, bell_error_last()->message);
    }
    busy--;
}

__attribute__((constructor)) static void
begin(void)
{
    const char *devices = env_get("BELL_SIM_DEVICES");
    const char *tree = env_get("BELL_SIM_TREE");
    const char *fds = env_get("BELL_SIM_FDS");
    const char *debug = env_get("BELL_SIM_DEBUG");

    kio_real_init();
    if (!devices || !tree || !fds || !read_devices(devices))
        return;
    sim.quiet = debug && strcmp(debug, "quiet") == 0;
    log_mask = LOG_FAULT;
    if (debug && !sim.quiet && log_parse(debug, &log_mask) != BELL_OK)
        say_line("BELL_SIM_DEBUG: %s", bell_error_last()->message);
    bell_log_set(tell_line, NULL);
    sim_paths_init(tree, devices);
    sim_amd_hold_no_stores();
    sim.pid = getpid();
    if (!kio_trap_install(atoi(fds)))
        say_line("no trap for calls that go past the C library: %s",
                 strerror(errno));
    sim.on = pthread_atfork(preload_before_fork, preload_after_fork,
                            preload_in_child) == 0;
}
