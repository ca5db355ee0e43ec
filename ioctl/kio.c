/* The wrappers around a form's calls, and the form `sys`. */
#include "ioctl/kio.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ioctl/kio_capture.h"
#include "ioctl/nv_abi.h"

#define RETRY_MAX       64
#define RETRY_PAUSE_NS  200000 /* 13 ms in all before EAGAIN is an answer */
#define BUSY_VENDOR_MAX 16
#define GIVE_BACK_BYTES 256 /* of the largest such argument */

/* ---- the real kernel -------------------------------------------------- */

/* The kernel takes 32 bits; POSIX, and musl with it, have them signed. */
#ifdef __GLIBC__
#define IOCTL_REQUEST unsigned long
#else
#define IOCTL_REQUEST int
#endif

static void
sys_destroy(struct kio *kio)
{
    host_free(kio);
}

static int
sys_open(struct kio *kio, const char *path, int flags)
{
    int fd = open(path, flags);

    (void)kio;
    return fd < 0 ? -errno : fd;
}

/* It asks the device cgroup, too. src: Linux 6.12, inode_permission */
static int
sys_may_open(struct kio *kio, const char *path)
{
    (void)kio;
    return access(path, R_OK | W_OK) < 0 ? -errno : 0;
}

static int
sys_close(struct kio *kio, int fd)
{
    (void)kio;
    return close(fd) < 0 ? -errno : 0;
}

static int
sys_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    int r = ioctl(fd, (IOCTL_REQUEST)request, arg);

    (void)kio;
    return r < 0 ? -errno : r;
}

static int
sys_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
         int fd, uint64_t offset)
{
    void *p = mmap(*addr, size_bytes, prot, flags, fd, (off_t)offset);

    (void)kio;
    if (p == MAP_FAILED)
        return -errno;
    *addr = p;
    return 0;
}

static int
sys_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio;
    return munmap(addr, size_bytes) < 0 ? -errno : 0;
}

static int
sys_poll(struct kio *kio, int fd, short events, int timeout_ms,
         short *out_revents)
{
    struct pollfd p = {.fd = fd, .events = events};
    int r = poll(&p, 1, timeout_ms);

    (void)kio;
    if (r < 0)
        return -errno;
    *out_revents = p.revents;
    return r;
}

static int
sys_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), result = 0;
    size_t n = 0;

    assert(cap > 0);
    (void)kio;
    if (fd < 0)
        return -errno;
    while (n < cap) {
        ssize_t r = read(fd, (uint8_t *)buf + n, cap - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            result = -errno;
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    close(fd);
    return result ? result : (int)n;
}

static const struct kio_ops sys_ops = {
    .name = "sys",
    .destroy = sys_destroy,
    .open = sys_open,
    .close = sys_close,
    .ioctl = sys_ioctl,
    .mmap = sys_mmap,
    .munmap = sys_munmap,
    .poll = sys_poll,
    .read_file = sys_read_file,
    .may_open = sys_may_open,
};

bell_status
kio_sys_create(struct kio **out_kio)
{
    struct kio *kio = host_calloc(1, sizeof(*kio));

    if (!kio)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a kernel form");
    kio->ops = &sys_ops;
    kio->branch = NV_BRANCH_NEWEST;
    kio->outlives = true;
    kio->gives_descriptors = true;
    *out_kio = kio;
    return BELL_OK;
}

/* ---- forms ------------------------------------------------------------ */

void
kio_destroy(struct kio *kio)
{
    while (kio) {
        struct kio *below = kio->below;
        kio->ops->destroy(kio);
        kio = below;
    }
}

bool
kio_outlives(const struct kio *kio)
{
    while (kio->below)
        kio = kio->below;
    return kio->outlives;
}

bool
kio_gives_descriptors(const struct kio *kio)
{
    while (kio->below)
        kio = kio->below;
    return kio->gives_descriptors;
}

bool
kio_link_bytes(const struct kio *kio, uint32_t card, uint32_t owner,
               struct kio_link_bytes *out_bytes)
{
    while (kio->below)
        kio = kio->below;
    return kio->ops->link_bytes &&
           kio->ops->link_bytes((struct kio *)kio, card, owner, out_bytes);
}

uint64_t
kio_page_bytes(const struct kio *kio)
{
    for (; kio; kio = kio->below) {
        if (kio->page_bytes)
            return kio->page_bytes;
    }
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

void
kio_set_branch(struct kio *kio, uint32_t branch)
{
    assert(branch <= NV_BRANCH_NEWEST);
    for (; kio; kio = kio->below)
        kio->branch = branch;
}

/* ---- retries ---------------------------------------------------------- */

/* Whether to try again after this result; sleeps where that helps. */
static bool
again(int result, unsigned *n_tries)
{
    struct timespec pause = {0, RETRY_PAUSE_NS};

    if ((result != -EINTR && result != -EAGAIN) || ++*n_tries > RETRY_MAX)
        return false;
    if (result == -EAGAIN)
        nanosleep(&pause, NULL);
    return true;
}

/* What a form says of a failed call; NULL: nothing beyond the number. */
static const char *
explain_failure(struct kio *kio)
{
    const char *text = NULL;

    for (; kio && !text; kio = kio->below)
        text = kio->ops->explain ? kio->ops->explain(kio) : NULL;
    return text;
}

/* The reason of a failed call in words. */
static const char *
failure_text(struct kio *kio, int error)
{
    const char *text = explain_failure(kio);

    return text ? text : strerror(error);
}

const char *
kio_broken(struct kio *kio)
{
    const char *text = NULL;

    for (; kio && !text; kio = kio->below)
        text = kio->ops->broken ? kio->ops->broken(kio) : NULL;
    return text;
}

bell_status
kio_tell(struct kio *kio, const struct kio_told *told)
{
    const char *why;
    int result = kio->ops->told ? kio->ops->told(kio, told) : 0;

    if (result >= 0)
        return BELL_OK;
    why = kio_broken(kio);
    return bell_fail(BELL_E_DEVICE_LOST, "%s", why ? why : strerror(-result));
}

static bell_status
status_of_errno(int error)
{
    assert(error > 0);
    switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
        return BELL_E_NO_DEVICE;
    case EACCES:
    case EPERM:
        return BELL_E_PERMISSION;
    case ENOMEM:
        return BELL_E_NO_MEMORY;
    default:
        return BELL_E_KERNEL;
    }
}

/* ---- files ------------------------------------------------------------ */

/* What to do about a node that may not be opened. */
static const char *
open_remedy(const char *path, int error)
{
    if (strncmp(path, "/dev/", 5) != 0)
        return "";
    if (error == EACCES)
        return "; this user has to be in the node's group (doorbell doctor "
               "names it)";
    if (error == EPERM)
        return "; the device rules of this container or service forbid it";
    if (error == ENXIO || error == ENODEV)
        return "; the card does not answer: the kernel's log (dmesg) says why, "
               "and restarting the machine may bring it back";
    return "";
}

static bell_status
fail_open(struct kio *kio, const char *path, int error)
{
    errno = error;
    LOG(LOG_IOCTL, "open %s: %s", path, failure_text(kio, error));
    return bell_fail_errno(status_of_errno(error), error, "open %s: %s%s", path,
                           failure_text(kio, error), open_remedy(path, error));
}

bell_status
kio_open(struct kio *kio, const char *path, int flags,
         struct kio_file *out_file)
{
    unsigned n_tries = 0;
    int fd;

    assert(kio && path);
    do
        fd = kio->ops->open(kio, path, flags | O_CLOEXEC);
    while (again(fd, &n_tries));
    if (fd < 0)
        return fail_open(kio, path, -fd);
    LOG(LOG_IOCTL, "open %s = %d", path, fd);
    *out_file = (struct kio_file){kio, fd, kio_dev_of_path(path)};
    return BELL_OK;
}

bell_status
kio_may_open(struct kio *kio, const char *path)
{
    int result;

    assert(kio && path);
    result = kio->ops->may_open ? kio->ops->may_open(kio, path) : 0;
    return result < 0 ? fail_open(kio, path, -result) : BELL_OK;
}

void
kio_close(struct kio_file *file)
{
    if (!file->kio || file->fd < 0)
        return;
    LOG(LOG_IOCTL, "close %d", file->fd);
    /* Linux frees the number even when close is interrupted. */
    (void)file->kio->ops->close(file->kio, file->fd);
    file->fd = -1;
}

/* ---- ioctl ------------------------------------------------------------ */

uint32_t
kio_vendor_status(enum kio_dev dev, uint32_t branch, unsigned long request,
                  const void *arg)
{
    struct kio_call_desc call;
    uint32_t i, status;

    kio_describe(dev, branch, request, &call);
    for (i = 0; call.args && arg && i < call.args->n_fields; i++) {
        const struct kio_field *field = &call.args->fields[i];
        if (field->kind != KIO_FIELD_STATUS || field->size_bytes != 4)
            continue;
        memcpy(&status, (const uint8_t *)arg + field->offset_bytes, 4);
        return status;
    }
    return 0;
}

/* The status of a call that an open device refused. */
static bell_status
status_of_refusal(int error)
{
    if (error == ENOMEM)
        return BELL_E_NO_MEMORY;
    return error == EPERM || error == EACCES ? BELL_E_PERMISSION
                                             : BELL_E_KERNEL;
}

/* errno's failure or the vendor's, told with the decoded call, which comes last
 * as what may be cut short. `capture` is of before the call: what came back
 * leads nowhere. */
static bell_status
fail_call(const struct kio_file *file, unsigned long request, const void *arg,
          const struct kio_capture *capture, int error, uint32_t vendor)
{
    char text[320], of_vendor[80] = "";
    const char *reason = explain_failure(file->kio);
    bell_status status = status_of_refusal(error);
    int name_chars;

    assert(error > 0 || vendor);
    if (vendor)
        status = nv_status_is_no_memory(request, arg, vendor) ? BELL_E_NO_MEMORY
                                                              : BELL_E_KERNEL;
    (void)kio_capture_format(capture, text, sizeof(text));
    name_chars = (int)strcspn(text, "(");
    if (vendor)
        snprintf(of_vendor, sizeof(of_vendor), "status 0x%x %s%s", vendor,
                 nv_status_name(vendor), reason ? ", " : "");
    else if (!reason)
        reason = strerror(error);
    errno = error;
    return bell_fail_errno(status, error, "%.*s (0x%lx) on %s: %s%s %s",
                           name_chars, text, request, kio_dev_name(file->dev),
                           of_vendor, reason ? reason : "", text + name_chars);
}

static void
trace_call(const struct kio_file *file, const struct kio_capture *capture,
           int result, uint32_t vendor)
{
    char text[480];

    (void)kio_capture_format(capture, text, sizeof(text));
    log_print(LOG_IOCTL, "%d %s = %d, status 0x%x", file->fd, text, result,
              vendor);
}

/* One call with its retries; the result is as the table's. */
static int
call(const struct kio_file *file, unsigned long request, void *arg,
     uint32_t *out_vendor)
{
    struct kio *kio = file->kio;
    unsigned n_tries = 0, n_busy = 0;
    int result;

    assert(file->kio && file->fd >= 0);
    for (;;) {
        result = kio->ops->ioctl(kio, file->fd, request, arg);
        if (again(result, &n_tries))
            continue;
        *out_vendor = result < 0 ? 0
                                 : kio_vendor_status(file->dev, kio->branch,
                                                     request, arg);
        if (result < 0 || *out_vendor != NV_STATUS_BUSY_RETRY ||
            ++n_busy > BUSY_VENDOR_MAX)
            return result;
        nanosleep(&(struct timespec){0, RETRY_PAUSE_NS}, NULL);
    }
}

/* kio_ioctl_status, which gives the places of the argument too. */
static bell_status
call_captured(const struct kio_file *file, unsigned long request, void *arg,
              struct kio_capture *capture, uint32_t *out_vendor)
{
    uint32_t vendor;
    int result;

    kio_capture_view(capture, file->dev, file->kio->branch, request, arg);
    result = call(file, request, arg, &vendor);
    if (LOG_ON(LOG_IOCTL))
        trace_call(file, capture, result, vendor);
    if (result < 0)
        return fail_call(file, request, arg, capture, -result, 0);
    *out_vendor = vendor;
    return BELL_OK;
}

bell_status
kio_ioctl_status(const struct kio_file *file, unsigned long request, void *arg,
                 uint32_t *out_vendor)
{
    struct kio_capture capture;

    return call_captured(file, request, arg, &capture, out_vendor);
}

bell_status
kio_ioctl(const struct kio_file *file, unsigned long request, void *arg)
{
    struct kio_capture capture;
    uint32_t vendor;

    assert(file->kio && file->fd >= 0);
    BELL_TRY(call_captured(file, request, arg, &capture, &vendor));
    if (vendor)
        return fail_call(file, request, arg, &capture, 0, vendor);
    return BELL_OK;
}

bool
kio_ioctl_give_back(const struct kio_file *file, unsigned long request,
                    void *arg)
{
    struct bell_error_hold hold;
    uint8_t question[GIVE_BACK_BYTES];
    struct kio_call_desc call;
    bool given;

    kio_describe(file->dev, file->kio->branch, request, &call);
    assert(call.size_bytes <= sizeof(question));
    if (arg && call.size_bytes <= sizeof(question))
        memcpy(question, arg, call.size_bytes);
    bell_error_hold(&hold);
    given = kio_ioctl(file, request, arg) == BELL_OK;
    /* asked anew: the refusal may have left something else there */
    if (!given && call.size_bytes <= sizeof(question)) {
        if (arg)
            memcpy(arg, question, call.size_bytes);
        given = kio_ioctl(file, request, arg) == BELL_OK;
    }
    if (!given)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
    return given;
}

/* ---- memory ----------------------------------------------------------- */

bell_status
kio_mmap(struct kio *kio, const struct kio_file *file, void *addr,
         size_t size_bytes, int prot, int flags, uint64_t offset,
         void **out_addr)
{
    unsigned n_tries = 0;
    void *p = addr;
    int result;

    assert(size_bytes > 0);
    do
        result = kio->ops->mmap(kio, &p, size_bytes, prot, flags,
                                file ? file->fd : -1, offset);
    while (again(result, &n_tries));
    LOG(LOG_IOCTL, "mmap fd %d %p %zu bytes, flags 0x%x: %d",
        file ? file->fd : -1, result < 0 ? addr : p, size_bytes, flags, result);
    if (result < 0) {
        errno = -result;
        return bell_fail_errno(
            status_of_refusal(-result), -result,
            "mmap of %zu bytes of %s at offset 0x%llx, wanted at "
            "%p: %s",
            size_bytes, file ? kio_dev_name(file->dev) : "memory",
            (unsigned long long)offset, addr, failure_text(kio, -result));
    }
    if (file) /* as doorbells of KFD are in any case (VM_DONTCOPY) */
        (void)madvise(p, size_bytes, MADV_DONTFORK);
    *out_addr = p;
    return BELL_OK;
}

void
kio_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    if (!addr)
        return;
    LOG(LOG_IOCTL, "munmap %p %zu bytes", addr, size_bytes);
    (void)kio->ops->munmap(kio, addr, size_bytes);
}

/* ---- waiting, reading ------------------------------------------------- */

bell_status
kio_poll(const struct kio_file *file, short events, int timeout_ms,
         short *out_revents)
{
    unsigned n_tries = 0;
    short revents = 0;
    int result;

    assert(file->kio && file->fd >= 0);
    do
        result = file->kio->ops->poll(file->kio, file->fd, events, timeout_ms,
                                      &revents);
    while (again(result, &n_tries));
    if (result < 0) {
        errno = -result;
        return bell_fail_errno(BELL_E_KERNEL, -result, "poll of %s: %s",
                               kio_dev_name(file->dev),
                               failure_text(file->kio, -result));
    }
    *out_revents = result == 0 ? 0 : revents;
    return BELL_OK;
}

bell_status
kio_read_file(struct kio *kio, const char *path, char *buf, size_t cap,
              size_t *out_bytes)
{
    unsigned n_tries = 0;
    int n;

    assert(cap > 0);
    do
        n = kio->ops->read_file(kio, path, buf, cap);
    while (again(n, &n_tries));
    if (n < 0) {
        errno = -n;
        return bell_fail_errno(n == -EACCES || n == -EPERM ? BELL_E_PERMISSION
                               : n == -ENOMEM              ? BELL_E_NO_MEMORY
                                                           : BELL_E_IO,
                               -n, "read %s: %s%s", path,
                               n == -ENOMEM ? "out of memory: " : "",
                               failure_text(kio, -n));
    }
    if ((size_t)n >= cap)
        return bell_fail(BELL_E_IO, "read %s: longer than %zu bytes", path,
                         cap - 1);
    buf[n] = '\0';
    *out_bytes = (size_t)n;
    LOG(LOG_IOCTL, "read %s: %d bytes", path, n);
    return BELL_OK;
}
