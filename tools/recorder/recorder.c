/* libdoorbell-recorder.so: preloaded into a program by `doorbell trace
 * record`, it stands before open, ioctl, mmap, munmap and close, also where a
 * program goes past the C library's names (ioctl/intercept.h), and writes
 * what goes to device nodes into part cassettes.
 *
 * It does nothing unless BELL_RECORD_DIR is set, never fails a call, keeps
 * errno, takes memory from mmap alone, and copies arguments with
 * process_vm_readv, so that a bad pointer is the kernel's to refuse. A
 * forked child writes its own part; a child of vfork is passed through.
 * BELL_RECORD_PREFIX is for tests: files below it count as device nodes, and
 * ioctls that the files refuse as unknown count as done.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/env.h"
#include "base/thread.h"
#include "ioctl/amd_track.h"
#include "ioctl/cassette.h"
#include "ioctl/intercept.h"
#include "ioctl/kio_capture.h"
#include "ioctl/nv_abi.h"
#include "ioctl/nv_track.h"

#define FDS_MAX   65536
#define NODES_MAX 256u /* of KFD */

static struct {
    pthread_mutex_t lock; /* of what follows */
    struct cas_writer *writer;
    struct nv_track *track;
    struct amd_track *amd;
    bool broken;      /* writing failed: give up quietly */
    struct stat part; /* of the file as it was opened */
    uint32_t branch;
    char dir[512], prefix[256];
    size_t prefix_len;
    pid_t pid; /* of whom this state is */
    bool on;
    unsigned char devs[FDS_MAX]; /* enum kio_dev by file; atomic */
} rec = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Calls made by the recorder itself, and by handlers that interrupt it. */
static __thread int busy __attribute__((tls_model("initial-exec")));

/* ---- writing ---------------------------------------------------------- */

/* The command line of this process, with spaces between. */
static size_t
command_line(char *buf, size_t buf_bytes)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline",
                          O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, buf_bytes);
    ssize_t i;

    if (fd >= 0)
        syscall(SYS_close, fd);
    for (i = 0; i < n; i++)
        buf[i] = buf[i] ? buf[i] : ' ';
    return n > 0 ? (size_t)n : 0;
}

/* Opens this process's part, a name that no other has. */
static void
start_part_locked(void)
{
    char path[640], identity[1200], line[512];
    struct cas_blob blob = {.role = CAS_TEXT, .data = (uint8_t *)line};
    struct cas_record start = {.kind = CAS_START,
                               .fd = -1,
                               .n_blobs = 1,
                               .blobs = &blob,
                               .pid = (uint32_t)rec.pid,
                               .tid = (uint32_t)rec.pid,
                               .time_ns = time_now_ns()};

    snprintf(path, sizeof(path), "%s/%d-%llu.part", rec.dir, (int)rec.pid,
             (unsigned long long)start.time_ns);
    (void)cas_identity(NULL, env_get("BELL_SIM_DEVICES") != NULL, identity,
                       sizeof(identity));
    blob.size_bytes = (uint32_t)command_line(line, sizeof(line));
    if (cas_writer_create(path, CAS_WRITE_EACH, identity, &rec.writer) !=
            BELL_OK ||
        fstat(cas_writer_fd(rec.writer), &rec.part) < 0 ||
        cas_write(rec.writer, &start) != BELL_OK)
        rec.broken = true;
    if (!rec.track)
        rec.track = nv_track_create();
    if (!rec.amd)
        rec.amd = amd_track_create();
}

/* Whether the part is still open. A program may close all numbers that it
 * does not know, and then open a file of its own under ours. */
static bool
part_is_ours(void)
{
    struct stat now;

    return fstat(cas_writer_fd(rec.writer), &now) == 0 &&
           now.st_dev == rec.part.st_dev && now.st_ino == rec.part.st_ino;
}

static void
write_locked(struct cas_record *record)
{
    if (!rec.writer && !rec.broken)
        start_part_locked();
    if (rec.broken)
        return;
    if (!part_is_ours()) {
        rec.broken = true;
        return;
    }
    record->pid = (uint32_t)rec.pid;
    record->tid = (uint32_t)syscall(SYS_gettid);
    record->time_ns = time_now_ns();
    if (cas_write(rec.writer, record) != BELL_OK)
        rec.broken = true;
}

static void
write_sample(void *user, uint32_t channel, const struct kio_region *regions,
             uint32_t n_regions)
{
    struct cas_blob blobs[64];
    uint32_t i, n;

    (void)user;
    for (i = 0; i < n_regions; i += n) {
        struct cas_record record = {
            .kind = CAS_SAMPLE, .fd = -1, .args = {channel}, .blobs = blobs};
        for (n = 0; n < ARRAY_LEN(blobs) && i + n < n_regions; n++) {
            const struct kio_region *r = &regions[i + n];
            blobs[n] = cas_region_blob(r, (const uint8_t *)(uintptr_t)r->cpu);
        }
        record.n_blobs = n;
        write_locked(&record);
    }
}

static void
sample_locked(void)
{
    if (rec.track)
        nv_track_sample(rec.track, write_sample, NULL);
    if (rec.amd)
        amd_track_sample(rec.amd, write_sample, NULL);
}

/* ---- entering and leaving --------------------------------------------- */

/* Whether a call is to be recorded: then the caller must leave(). */
static bool
enter(void)
{
    if (!rec.on || busy || getpid() != rec.pid)
        return false;
    busy = 1;
    pthread_mutex_lock(&rec.lock);
    return true;
}

static void
leave(int saved_errno)
{
    pthread_mutex_unlock(&rec.lock);
    busy = 0;
    errno = saved_errno;
}

static enum kio_dev
dev_of(int fd)
{
    if (!rec.on || fd < 0 || fd >= FDS_MAX)
        return KIO_DEV_OTHER;
    return (enum kio_dev)__atomic_load_n(&rec.devs[fd], __ATOMIC_RELAXED);
}

/* ---- calls ------------------------------------------------------------ */

/* KFD's nodes as files that were read: they say which chips the packets are
 * for. */
static void
write_nodes_locked(void)
{
    char path[96], text[4096];
    uint32_t node;

    for (node = 0; node < NODES_MAX; node++) {
        struct cas_blob blobs[2] = {
            {.role = CAS_PATH, .data = (const uint8_t *)path},
            {.role = CAS_CONTENTS, .data = (const uint8_t *)text}};
        struct cas_record record = {
            .kind = CAS_READ, .fd = -1, .n_blobs = 2, .blobs = blobs};
        ssize_t n;
        int fd;

        amd_track_node_path(node, path, sizeof(path));
        fd = kio_real_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0)
            return;
        n = read(fd, text, sizeof(text));
        kio_real_close(fd);
        record.result = n;
        blobs[0].size_bytes = (uint32_t)strlen(path);
        blobs[1].size_bytes = n > 0 ? (uint32_t)n : 0;
        write_locked(&record);
    }
}

static int
opened(const char *path, int flags, int fd)
{
    struct cas_blob blob = {.role = CAS_PATH};
    struct cas_record record = {.kind = CAS_OPEN,
                                .fd = fd,
                                .result = fd < 0 ? -errno : fd,
                                .args = {(uint64_t)(unsigned)flags},
                                .n_blobs = 1,
                                .blobs = &blob};
    int saved_errno = errno;

    if (!rec.on || !path || (fd < 0 && saved_errno == EFAULT))
        return fd;
    if (rec.prefix_len && strncmp(path, rec.prefix, rec.prefix_len) == 0)
        path += rec.prefix_len;
    record.dev = kio_dev_of_path(path);
    if (record.dev == KIO_DEV_OTHER || fd >= FDS_MAX || !enter())
        return fd;
    fd = kio_trap_move(fd);
    if (fd >= 0) {
        record.fd = fd;
        record.result = fd;
        __atomic_store_n(&rec.devs[fd], (unsigned char)record.dev,
                         __ATOMIC_RELAXED);
    }
    blob.size_bytes = (uint32_t)strlen(path);
    blob.data = (const uint8_t *)path;
    write_locked(&record);
    if (record.dev == KIO_DEV_KFD && fd >= 0)
        write_nodes_locked();
    leave(saved_errno);
    return fd;
}

static bool
read_self(void *user, uint64_t addr, void *dst, size_t size_bytes)
{
    struct iovec to = {dst, size_bytes};
    struct iovec from = {(void *)(uintptr_t)addr, size_bytes};

    (void)user;
    return process_vm_readv(rec.pid, &to, 1, &from, 1, 0) ==
           (ssize_t)size_bytes;
}

/* The argument before and after, as the cassette has it. */
static void
write_ioctl_locked(int fd, enum kio_dev dev, unsigned long request,
                   int64_t result, const struct kio_capture *in,
                   const struct kio_capture *out)
{
    struct cas_blob blobs[2 * KIO_CAPTURE_BLOBS];
    struct cas_record record = {.kind = CAS_IOCTL,
                                .fd = fd,
                                .dev = dev,
                                .result = result,
                                .args = {request},
                                .blobs = blobs};

    record.n_blobs = cas_argument_blobs(in, out, blobs);
    write_locked(&record);
    if (result >= 0 && rec.track &&
        (dev == KIO_DEV_NV_CTL || dev == KIO_DEV_NV_GPU ||
         dev == KIO_DEV_NV_UVM))
        nv_track_ioctl(rec.track, out);
    if (result >= 0 && rec.amd && dev == KIO_DEV_KFD)
        amd_track_ioctl(rec.amd, out);
}

int
kio_seen_ioctl(int fd, unsigned long request, void *arg)
{
    struct kio_capture in, out;
    enum kio_dev dev = dev_of(fd);
    int result, saved_errno;

    if (dev == KIO_DEV_OTHER || busy || getpid() != rec.pid)
        return kio_real_ioctl(fd, request, arg);
    busy = 1; /* not the lock: the call may take long */
    kio_capture_init(&in);
    kio_capture_init(&out);
    if (kio_capture_call(&in, dev, rec.branch, request, arg, read_self, NULL) !=
        BELL_OK)
        in.n_blobs = 0;
    busy = 0;
    result = kio_real_ioctl(fd, request, arg);
    saved_errno = errno;
    if (rec.prefix_len && result < 0 && saved_errno == ENOTTY)
        result = 0;
    if (enter()) {
        if (kio_capture_again(&in, &out, read_self, NULL) != BELL_OK)
            out.n_blobs = 0;
        sample_locked();
        write_ioctl_locked(fd, dev, request, result < 0 ? -saved_errno : result,
                           &in, &out);
        leave(saved_errno);
    }
    busy++;
    kio_capture_fini(&in);
    kio_capture_fini(&out);
    busy--;
    errno = saved_errno;
    return result;
}

void *
kio_seen_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
    struct cas_record record = {
        .kind = CAS_MMAP,
        .fd = fd,
        .args = {(uintptr_t)addr, n,
                 (uint64_t)(unsigned)prot << 32 | (unsigned)flags,
                 (uint64_t)offset},
    };
    void *p = kio_real_mmap(addr, n, prot, flags, fd, offset);
    int saved_errno = errno;
    enum kio_dev dev = flags & MAP_ANONYMOUS ? KIO_DEV_OTHER : dev_of(fd);
    bool replaces = p != MAP_FAILED && flags & MAP_FIXED;

    if ((dev == KIO_DEV_OTHER && !replaces) || !enter())
        return p;
    if (replaces && rec.track)
        nv_track_munmap(rec.track, p, n);
    if (dev != KIO_DEV_OTHER) {
        record.dev = dev;
        record.result = p == MAP_FAILED ? -saved_errno : (int64_t)(uintptr_t)p;
        write_locked(&record);
        if (p != MAP_FAILED && prot & PROT_READ && rec.track)
            nv_track_mmap(rec.track, fd, p, n);
    }
    leave(saved_errno);
    return p;
}

int
kio_seen_munmap(void *addr, size_t n)
{
    struct cas_record record = {
        .kind = CAS_MUNMAP, .fd = -1, .args = {(uintptr_t)addr, n}};
    int result, saved_errno;

    if (!rec.on || !rec.track || !enter())
        return kio_real_munmap(addr, n);
    if (!nv_track_overlaps(rec.track, addr, n)) {
        leave(errno);
        return kio_real_munmap(addr, n);
    }
    sample_locked();
    nv_track_munmap(rec.track, addr, n);
    result = kio_real_munmap(addr, n);
    saved_errno = errno;
    record.result = result < 0 ? -saved_errno : result;
    write_locked(&record);
    leave(saved_errno);
    return result;
}

int
kio_seen_close(int fd)
{
    struct cas_record record = {.kind = CAS_CLOSE, .fd = fd};

    record.dev = dev_of(fd);
    if (record.dev != KIO_DEV_OTHER && enter()) {
        int saved_errno = errno;
        sample_locked();
        write_locked(&record);
        if (rec.track)
            nv_track_close(rec.track, fd);
        __atomic_store_n(&rec.devs[fd], KIO_DEV_OTHER, __ATOMIC_RELAXED);
        leave(saved_errno);
    }
    return kio_real_close(fd);
}

int
kio_seen_open(int dir, const char *path, int flags, mode_t mode)
{
    return opened(path, flags, kio_real_open(dir, path, flags, mode));
}

/* ---- life ------------------------------------------------------------- */

static void
before_fork(void)
{
    pthread_mutex_lock(&rec.lock);
}

static void
after_fork(void)
{
    pthread_mutex_unlock(&rec.lock);
}

/* The child goes on in a part of its own; the parent's file stays the
 * parent's. */
static void
in_child(void)
{
    rec.pid = getpid();
    rec.writer = NULL;
    amd_track_destroy(rec.amd); /* the queues are the parent's */
    rec.amd = NULL;
    pthread_mutex_unlock(&rec.lock);
}

static void
read_branch(void)
{
    struct nv_abi abi;
    char text[512];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/driver/nvidia/version",
                          O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        syscall(SYS_close, fd);
    rec.branch = NV_BRANCH_NEWEST;
    text[n > 0 ? n : 0] = '\0';
    /* An unknown driver is recorded with the newest layouts. */
    if (n > 0 && nv_abi_parse(text, &abi) == BELL_OK)
        rec.branch = abi.branch;
}

__attribute__((constructor)) static void
begin(void)
{
    const char *dir = env_get("BELL_RECORD_DIR");
    const char *prefix = env_get("BELL_RECORD_PREFIX");
    const char *fds = env_get("BELL_RECORD_FDS");

    kio_real_init();
    if (!dir || !*dir || strlen(dir) >= sizeof(rec.dir))
        return;
    memcpy(rec.dir, dir, strlen(dir) + 1);
    if (prefix && strlen(prefix) < sizeof(rec.prefix)) {
        rec.prefix_len = strlen(prefix);
        memcpy(rec.prefix, prefix, rec.prefix_len + 1);
    }
    rec.pid = getpid();
    read_branch();
    /* On simulated cards another library has the trap. */
    if (fds && !env_get("BELL_SIM_TREE"))
        (void)kio_trap_install(atoi(fds));
    if (pthread_atfork(before_fork, after_fork, in_child) == 0)
        rec.on = true;
}

__attribute__((destructor)) static void
end(void)
{
    struct cas_record record = {.kind = CAS_EXIT, .fd = -1};
    bell_status status = BELL_OK;

    if (!rec.writer || !enter())
        return;
    sample_locked();
    write_locked(&record);
    if (!rec.broken)
        status = cas_writer_close(rec.writer);
    (void)status; /* nobody is left to tell */
    nv_track_destroy(rec.track);
    amd_track_destroy(rec.amd);
    rec.track = NULL;
    rec.amd = NULL;
    rec.writer = NULL;
    rec.broken = true;
    leave(errno);
}
