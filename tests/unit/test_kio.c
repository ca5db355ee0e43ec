/* ioctl/kio and its forms over a toy kernel: errors and retries, recording
 * and replaying (and a replay that differs), playing, fault plans, damaged
 * cassettes, failing memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_play.h"
#include "ioctl/kio.h"
#include "ioctl/kio_fault.h"
#include "ioctl/kio_record.h"
#include "ioctl/kio_replay.h"
#include "ioctl/nv_abi.h"
#include "ioctl/nv_uapi.h"
#include "tests/unit/expect.h"

/* ---- a toy kernel ----------------------------------------------------- */

struct toy {
    struct kio kio;
    int next_fd, n_open, n_maps;
    uint32_t next_handle;
    unsigned n_interrupts; /* EINTR to give before an answer */
    bool lies;             /* about sizes and places, and fails */
    uint8_t memory[8192] __attribute__((aligned(4096)));
};

static void
toy_destroy(struct kio *kio)
{
    struct toy *toy = (struct toy *)kio;

    assert_int_equal(toy->n_open, 0);
    assert_int_equal(toy->n_maps, 0);
    free(toy);
}

static int
toy_open(struct kio *kio, const char *path, int flags)
{
    struct toy *toy = (struct toy *)kio;

    assert_true(flags & O_CLOEXEC);
    if (strcmp(path, "/dev/kfd") == 0)
        return -EACCES;
    if (strncmp(path, "/dev/nvidia", 11) != 0)
        return -ENOENT;
    toy->n_open++;
    return toy->next_fd++;
}

static int
toy_close(struct kio *kio, int fd)
{
    struct toy *toy = (struct toy *)kio;

    assert_true(fd >= 100 && fd < toy->next_fd);
    toy->n_open--;
    return 0;
}

static int
toy_control(struct nv_os54 *control, bool lies)
{
    struct nv2080_gr_get_info *info = (void *)(uintptr_t)control->params;
    struct nv_index_data *list;
    uint32_t i;

    if (lies) {
        info->grInfoListSize = 1u << 20;
        info->grInfoList = 0x414141414140;
        control->paramsSize = 1u << 20;
        control->status = 0x51;
        return 0;
    }
    if (control->cmd != NV2080_CTRL_CMD_GR_GET_INFO) {
        control->status = 0x56;
        return 0;
    }
    list = (void *)(uintptr_t)info->grInfoList;
    for (i = 0; i < info->grInfoListSize; i++)
        list[i].data = list[i].index * 2;
    /* something beside each pointer, so that it comes back with the answer */
    info->grRouteInfo.route = 77;
    control->flags = 0x20;
    return 0;
}

static int
toy_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct toy *toy = (struct toy *)kio;
    struct nv_os64 *alloc = arg;

    (void)fd;
    if (toy->n_interrupts) {
        toy->n_interrupts--;
        return -EINTR;
    }
    if (request == nv_request(NV_ESC_RM_ALLOC, sizeof(*alloc))) {
        alloc->status = alloc->hClass == 0xdead ? 0x22 : 0;
        if (!alloc->hObjectNew)
            alloc->hObjectNew = toy->next_handle++;
        return 0;
    }
    if (request == nv_request(NV_ESC_RM_CONTROL, sizeof(struct nv_os54)))
        return toy_control(arg, toy->lies);
    return -ENOTTY;
}

static int
toy_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
         int fd, uint64_t offset)
{
    struct toy *toy = (struct toy *)kio;

    (void)prot;
    (void)flags;
    (void)fd;
    if (offset || size_bytes > sizeof(toy->memory))
        return -EINVAL;
    toy->n_maps++;
    *addr = toy->memory;
    return 0;
}

static int
toy_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    struct toy *toy = (struct toy *)kio;

    (void)size_bytes;
    assert_ptr_equal(addr, toy->memory);
    toy->n_maps--;
    return 0;
}

static int
toy_poll(struct kio *kio, int fd, short events, int timeout_ms,
         short *out_revents)
{
    (void)kio;
    (void)fd;
    (void)timeout_ms;
    *out_revents = events;
    return 1;
}

static int
toy_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    static const char text[] = "NVRM version: NVIDIA UNIX x86_64 Kernel "
                               "Module  580.159.03  today\n";
    size_t n = sizeof(text) - 1;

    (void)kio;
    if (strcmp(path, "/one") == 0 && cap) {
        *(char *)buf = '1';
        return 1;
    }
    if (strcmp(path, "/proc/driver/nvidia/version") != 0)
        return -ENOENT;
    n = n < cap ? n : cap;
    memcpy(buf, text, n);
    return (int)n;
}

static const struct kio_ops toy_ops = {
    .name = "toy",
    .destroy = toy_destroy,
    .open = toy_open,
    .close = toy_close,
    .ioctl = toy_ioctl,
    .mmap = toy_mmap,
    .munmap = toy_munmap,
    .poll = toy_poll,
    .read_file = toy_read_file,
};

static struct toy *
toy_create(void)
{
    struct toy *toy = aligned_alloc(4096, (sizeof(*toy) + 4095) & ~4095ul);

    memset(toy, 0, sizeof(*toy));
    toy->kio.ops = &toy_ops;
    toy->next_fd = 100;
    toy->next_handle = 0xc1d00001;
    return toy;
}

/* ---- a small driver --------------------------------------------------- */

struct work {
    uint32_t first_class, index; /* what it asks for */
    uint32_t handle, answer;     /* what it got */
    uint64_t entry;              /* in its ring, beside the usual one */
    bool elsewhere;              /* its arguments lie elsewhere */
    uint64_t signal;
};

static bell_status
use_memory(const struct kio_file *gpu, struct work *work)
{
    struct kio *kio = gpu->kio;
    volatile uint64_t *memory;
    struct kio_region regions[2];
    struct kio_bell bell = {.value = 7, .value_bytes = 4};
    void *p;

    BELL_TRY(kio_mmap(kio, gpu, NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED,
                      0, &p));
    memory = p;
    memory[0] = 0x0000a01234567000 + work->entry;
    regions[0] = (struct kio_region){p, 0x1000, 64, KIO_REGION_RING};
    regions[1] =
        (struct kio_region){memory + 512, 0x2000, 8, KIO_REGION_SIGNAL};
    bell.regions = regions;
    bell.n_regions = 2;
    bell.address = &memory[256];
    if (kio_watches(kio))
        kio_doorbell(kio, &bell);
    memory[256] = 7;
    /* The toy's "device": real when there is one below, else the cassette's
     * doing. */
    if (kio->ops != NULL && strcmp(kio->ops->name, "replay") != 0)
        memory[512] = 99;
    work->signal = memory[512];
    kio_munmap(kio, p, 8192);
    return BELL_OK;
}

static bell_status
ask(const struct kio_file *ctl, struct work *work)
{
    struct nv_os64 alloc = {.hClass = work->first_class};
    struct nv_index_data lists[2][2] = {{{.index = work->index}, {.index = 3}},
                                        {{.index = work->index}, {.index = 3}}};
    struct nv_index_data *list = lists[work->elsewhere];
    struct nv2080_gr_get_info infos[2] = {{0}}, *info = &infos[work->elsewhere];
    struct nv_os54 control = {.cmd = NV2080_CTRL_CMD_GR_GET_INFO,
                              .params = (uintptr_t)info,
                              .paramsSize = sizeof(*info)};

    info->grInfoListSize = 2;
    info->grInfoList = (uintptr_t)list;
    BELL_TRY(
        kio_ioctl(ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc));
    work->handle = alloc.hObjectNew;
    control.hClient = work->handle;
    BELL_TRY(kio_ioctl(ctl, nv_request(NV_ESC_RM_CONTROL, sizeof(control)),
                       &control));
    work->answer = list[0].data;
    /* The kernel's answer leaves the caller's pointers, a replayed one too. */
    if (control.params != (uintptr_t)info ||
        info->grInfoList != (uintptr_t)list || info->grRouteInfo.route != 77 ||
        control.flags != 0x20)
        return bell_fail(BELL_E_INTERNAL, "pointers of another time");
    return BELL_OK;
}

static bell_status
do_work(struct kio *kio, struct work *work)
{
    struct kio_file ctl, gpu = {.fd = -1};
    struct nv_abi abi;
    bell_status status;
    short revents;

    BELL_TRY(nv_abi_detect(kio, &abi));
    BELL_TRY(kio_open(kio, "/dev/nvidiactl", O_RDWR, &ctl));
    status = kio_open(kio, "/dev/nvidia0", O_RDWR, &gpu);
    if (status == BELL_OK)
        status = ask(&ctl, work);
    if (status == BELL_OK)
        status = use_memory(&gpu, work);
    if (status == BELL_OK)
        status = kio_poll(&gpu, POLLIN, 10, &revents);
    kio_close(&gpu);
    kio_close(&ctl);
    return status;
}

static const struct work usual = {.first_class = NV01_ROOT_CLIENT, .index = 12};

static char cassette_path[64];
static int first_fd; /* that a test found free */

static int
make_path(void **state)
{
    int fd;

    (void)state;
    first_fd = next_fd();
    snprintf(cassette_path, sizeof(cassette_path), "/tmp/kio-test-XXXXXX");
    fd = mkstemp(cassette_path);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int
remove_path(void **state)
{
    (void)state;
    unlink(cassette_path);
    assert_int_equal(next_fd(), first_fd);
    return 0;
}

/* ---- wrappers --------------------------------------------------------- */

static void
keep_line(void *user, const char *line)
{
    snprintf(user, 256, "%s", line);
}

/* BELL_DEBUG=ioctl: each call with its arguments as they came back. */
static void
test_log(void **state)
{
    struct toy *toy = toy_create();
    struct nv_os64 alloc = {.hClass = 0xdead, .hRoot = 0xc1d00001};
    struct kio_file ctl;
    char line[256] = "";

    (void)state;
    bell_log_set(keep_line, line);
    assert_int_equal(kio_open(&toy->kio, "/dev/nvidiactl", O_RDWR, &ctl),
                     BELL_OK);
    log_mask = LOG_IOCTL;
    assert_int_equal(
        kio_ioctl(&ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc),
        BELL_E_KERNEL);
    assert_string_equal(line, "ioctl: 100 NV_ESC_RM_ALLOC(hRoot=0xc1d00001 "
                              "hObjectNew=0xc1d00001 hClass=0xdead "
                              "status=0x22) = 0, status 0x22");
    assert_int_not_equal(kio_ioctl(&ctl, 0xc0044699, &alloc), BELL_OK);
    assert_string_equal(line, "ioctl: 100 NV_ESC(4 bytes) = -25, status 0x0");
    log_mask = 0;
    line[0] = 0;
    alloc.hClass = 1;
    assert_int_equal(
        kio_ioctl(&ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc),
        BELL_OK);
    assert_string_equal(line, "");
    bell_log_set(NULL, NULL);
    kio_close(&ctl);
    kio_destroy(&toy->kio);
}

static void
test_errors(void **state)
{
    struct toy *toy = toy_create();
    struct nv_os64 alloc = {.hClass = 0xdead, .hRoot = 0xc1d00001};
    struct kio_file file;
    uint32_t vendor;
    char text[8];
    size_t n;

    (void)state;
    assert_int_equal(kio_open(&toy->kio, "/dev/kfd", O_RDWR, &file),
                     BELL_E_PERMISSION);
    assert_non_null(strstr(bell_error_last()->message, "/dev/kfd"));
    assert_int_equal(bell_error_last()->sys_errno, EACCES);
    assert_int_equal(kio_open(&toy->kio, "/dev/dri/renderD128", 0, &file),
                     BELL_E_NO_DEVICE);
    assert_int_equal(kio_open(&toy->kio, "/dev/nvidiactl", O_RDWR, &file),
                     BELL_OK);
    kio_set_branch(&toy->kio, 3);
    assert_int_equal(
        kio_ioctl(&file, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc),
        BELL_E_KERNEL);
    assert_non_null(strstr(bell_error_last()->message, "NV_ESC_RM_ALLOC"));
    assert_non_null(strstr(bell_error_last()->message, "hClass=0xdead"));
    assert_non_null(strstr(bell_error_last()->message, "INVALID_CLASS"));
    assert_int_equal(
        kio_ioctl_status(&file, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)),
                         &alloc, &vendor),
        BELL_OK);
    assert_int_equal(vendor, 0x22);
    assert_int_equal(kio_ioctl(&file, 0xc01046fe, &alloc), BELL_E_KERNEL);
    assert_int_equal(bell_error_last()->sys_errno, ENOTTY);
    toy->n_interrupts = 5;
    alloc.hClass = 1;
    assert_int_equal(
        kio_ioctl(&file, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc),
        BELL_OK);
    toy->n_interrupts = 1000;
    assert_int_equal(
        kio_ioctl(&file, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc),
        BELL_E_KERNEL);
    assert_int_equal(bell_error_last()->sys_errno, EINTR);
    assert_int_equal(kio_read_file(&toy->kio, "/proc/driver/nvidia/version",
                                   text, sizeof(text), &n),
                     BELL_E_IO);
    kio_close(&file);
    kio_close(&file);
    kio_destroy(&toy->kio);
}

/* The text of a failure leads to nothing that came back. */
static void
test_lies(void **state)
{
    struct toy *toy = toy_create();
    struct work work = usual;

    (void)state;
    toy->lies = true;
    assert_int_equal(do_work(&toy->kio, &work), BELL_E_NO_MEMORY);
    assert_non_null(
        strstr(bell_error_last()->message, "NV2080_CTRL_CMD_GR_GET_INFO"));
    kio_destroy(&toy->kio);
}

static void
test_sys(void **state)
{
    struct kio_file file;
    struct kio *kio;
    char text[64];
    size_t n;
    void *p;

    (void)state;
    assert_int_equal(kio_sys_create(&kio), BELL_OK);
    assert_int_equal(kio_open(kio, "/dev/does-not-exist", 0, &file),
                     BELL_E_NO_DEVICE);
    assert_int_equal(kio_open(kio, "/dev/null", O_RDWR, &file), BELL_OK);
    assert_true(fcntl(file.fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(kio_ioctl(&file, 0xc01046fe, text), BELL_E_KERNEL);
    errno = ENOENT; /* is of what failed before */
    assert_int_equal(kio->ops->close(kio, file.fd), 0);
    assert_int_equal(kio->ops->close(kio, file.fd), -EBADF);
    assert_int_equal(kio_mmap(kio, NULL, NULL, 4096, PROT_READ,
                              MAP_PRIVATE | MAP_ANONYMOUS, 0, &p),
                     BELL_OK);
    kio_munmap(kio, p, 4096);
    assert_int_equal(
        kio_read_file(kio, "/proc/self/comm", text, sizeof(text), &n), BELL_OK);
    assert_true(n > 0 && text[n] == '\0');
    assert_false(kio_watches(kio));
    kio_destroy(kio);
}

/* Poll and small files, of the system itself. */
static void
test_sys_waits_and_reads(void **state)
{
    struct kio_file file;
    struct kio *kio;
    char path[64], text[64];
    int ends[2];
    short revents = 7;
    size_t n;

    (void)state;
    assert_int_equal(kio_sys_create(&kio), BELL_OK);
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    assert_int_equal(kio_open(kio, path, O_RDONLY, &file), BELL_OK);
    assert_int_equal(kio_poll(&file, POLLIN, 0, &revents), BELL_OK);
    assert_int_equal(revents, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(kio_poll(&file, POLLIN, 0, &revents), BELL_OK);
    assert_int_equal(revents, POLLIN);
    kio_close(&file);
    close(ends[0]);
    close(ends[1]);
    /* as many bytes as fit with the zero behind them */
    assert_int_equal(
        kio_read_file(kio, "/proc/self/comm", text, sizeof(text), &n), BELL_OK);
    assert_int_equal(kio_read_file(kio, "/proc/self/comm", text, n + 1, &n),
                     BELL_OK);
    assert_int_equal(strlen(text), n);
    assert_int_equal(kio_read_file(kio, "/proc/self/comm", text, n, &n),
                     BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "longer than"));
    assert_int_equal(kio_read_file(kio, "/proc/self", text, sizeof(text), &n),
                     BELL_E_IO);
    assert_int_equal(bell_error_last()->sys_errno, EISDIR);
    assert_int_equal(kio_read_file(kio, "/nowhere", text, sizeof(text), &n),
                     BELL_E_IO);
    assert_int_equal(bell_error_last()->sys_errno, ENOENT);
    kio_destroy(kio);
}

/* ---- recording and replaying ------------------------------------------ */

static void
record_usual(void)
{
    struct toy *toy = toy_create();
    struct work work = usual;
    struct kio *kio;

    assert_int_equal(kio_record_create(&toy->kio, cassette_path, &kio),
                     BELL_OK);
    assert_true(kio_watches(kio));
    assert_int_equal(do_work(kio, &work), BELL_OK);
    assert_int_equal(work.answer, 24);
    assert_int_equal(work.signal, 99);
    assert_int_equal(kio_record_finish(kio), BELL_OK);
    kio_destroy(kio);
}

static void
test_replay(void **state)
{
    struct work work = usual;
    struct kio *kio;
    int i;

    (void)state;
    record_usual();
    for (i = 0; i < 2; i++) {
        work = usual;
        work.elsewhere = i == 1;
        assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
        assert_int_equal(do_work(kio, &work), BELL_OK);
        assert_int_equal(work.handle, 0xc1d00001);
        assert_int_equal(work.answer, 24);
        assert_int_equal(work.signal, 99); /* as the device wrote it then */
        assert_null(kio_broken(kio));
        assert_int_equal(kio_replay_finish(kio), BELL_OK);
        kio_destroy(kio);
    }
}

/* A file of one byte; and more calls than there were. */
static void
test_replay_reads(void **state)
{
    struct toy *toy = toy_create();
    struct kio_file file;
    struct kio *kio;
    char text[8] = "xxxxxxx";
    size_t n;

    (void)state;
    assert_int_equal(kio_record_create(&toy->kio, cassette_path, &kio),
                     BELL_OK);
    assert_int_equal(kio_open(kio, "/dev/nvidiactl", O_RDWR, &file), BELL_OK);
    assert_int_equal(kio_read_file(kio, "/one", text, sizeof(text), &n),
                     BELL_OK);
    kio_close(&file);
    assert_int_equal(kio_record_finish(kio), BELL_OK);
    kio_destroy(kio);
    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    assert_int_equal(kio_open(kio, "/dev/nvidiactl", O_RDWR, &file), BELL_OK);
    assert_int_equal(kio_read_file(kio, "/one", text, sizeof(text), &n),
                     BELL_OK);
    assert_int_equal(n, 1);
    assert_memory_equal(text, "1", 2);
    kio_close(&file);
    assert_int_not_equal(kio_read_file(kio, "/one", text, sizeof(text), &n),
                         BELL_OK);
    assert_non_null(strstr(kio_broken(kio), "after the end"));
    kio_destroy(kio);
}

/* A doorbell has no result: the difference is there for whoever waits, from
 * any height of a stack. */
static void
test_replay_doorbell_differs(void **state)
{
    struct work work = usual;
    struct kio *replay, *kio;

    (void)state;
    record_usual();
    work.entry = 1;
    assert_int_equal(kio_replay_create(cassette_path, &replay), BELL_OK);
    assert_int_equal(kio_fault_create(replay, "ioctl:1000=EIO", &kio), BELL_OK);
    assert_int_equal(do_work(kio, &work), BELL_E_KERNEL);
    assert_non_null(kio_broken(kio));
    assert_non_null(strstr(kio_broken(kio), "region 0 (kind 1) at 0x1000 + "
                                            "0x0: recorded 0x00, now 0x01"));
    assert_string_equal(kio_broken(kio), kio_broken(replay));
    assert_int_equal(kio_replay_finish(replay), BELL_E_INTERNAL);
    kio_destroy(kio);
}

static void
test_replay_differs(void **state)
{
    struct work work = usual;
    struct kio *kio;

    (void)state;
    record_usual();
    work.index = 13;
    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    assert_int_equal(do_work(kio, &work), BELL_E_KERNEL);
    assert_non_null(
        strstr(bell_error_last()->message, "index: recorded 0xc, now 0xd"));
    assert_int_equal(kio_replay_finish(kio), BELL_E_INTERNAL);
    kio_destroy(kio);

    work = usual;
    work.first_class = 0;
    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    assert_int_equal(do_work(kio, &work), BELL_E_KERNEL);
    assert_non_null(
        strstr(bell_error_last()->message, "hClass: recorded 0x41, now 0x0"));
    kio_destroy(kio);

    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    assert_int_equal(kio_replay_finish(kio), BELL_E_INTERNAL);
    assert_non_null(strstr(bell_error_last()->message, "not made"));
    kio_destroy(kio);
}

/* A form that changes one thing in each call that has it. */
enum twist {
    TWIST_NONE,
    TWIST_READ_PATH,
    TWIST_OPEN_PATH,
    TWIST_OPEN_FLAGS,
    TWIST_IOCTL_FD,
    TWIST_IOCTL_REQUEST,
    TWIST_MMAP_BYTES,
    TWIST_MMAP_PROT,
    TWIST_MMAP_FLAGS,
    TWIST_MMAP_FD,
    TWIST_MMAP_OFFSET,
    TWIST_BELL_VALUE,
    TWIST_BELL_COUNT,
    TWIST_BELL_KIND,
    TWIST_BELL_ADDRESS,
    TWIST_BELL_BYTES,
    TWIST_MUNMAP_BYTES,
    TWIST_POLL_FD,
    TWIST_POLL_EVENTS,
    TWIST_CLOSE_FD,
    TWIST_COUNT
};

struct twister {
    struct kio kio;
    enum twist twist;
};

/* 1 where it is this thing that is changed. */
static int
twisted(const struct kio *kio, enum twist twist)
{
    return ((const struct twister *)kio)->twist == twist;
}

static int
twist_open(struct kio *kio, const char *path, int flags)
{
    if (twisted(kio, TWIST_OPEN_FLAGS))
        flags ^= O_NONBLOCK;
    return kio->below->ops->open(
        kio->below, twisted(kio, TWIST_OPEN_PATH) ? "/dev/nvidiact0" : path,
        flags);
}

static int
twist_close(struct kio *kio, int fd)
{
    return kio->below->ops->close(kio->below,
                                  fd + twisted(kio, TWIST_CLOSE_FD));
}

static int
twist_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    return kio->below->ops->ioctl(
        kio->below, fd + twisted(kio, TWIST_IOCTL_FD),
        request + (unsigned)twisted(kio, TWIST_IOCTL_REQUEST), arg);
}

static int
twist_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
           int fd, uint64_t offset)
{
    return kio->below->ops->mmap(
        kio->below, addr,
        size_bytes + 4096 * (size_t)twisted(kio, TWIST_MMAP_BYTES),
        prot ^ (twisted(kio, TWIST_MMAP_PROT) * PROT_WRITE),
        flags ^ (twisted(kio, TWIST_MMAP_FLAGS) * MAP_LOCKED),
        fd + twisted(kio, TWIST_MMAP_FD),
        offset + 4096 * (uint64_t)twisted(kio, TWIST_MMAP_OFFSET));
}

static int
twist_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    return kio->below->ops->munmap(
        kio->below, addr,
        size_bytes - 4096 * (size_t)twisted(kio, TWIST_MUNMAP_BYTES));
}

static int
twist_poll(struct kio *kio, int fd, short events, int timeout_ms,
           short *out_revents)
{
    return kio->below->ops->poll(kio->below, fd + twisted(kio, TWIST_POLL_FD),
                                 twisted(kio, TWIST_POLL_EVENTS) ? POLLPRI
                                                                 : events,
                                 timeout_ms, out_revents);
}

static int
twist_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    return kio->below->ops->read_file(
        kio->below, path + twisted(kio, TWIST_READ_PATH), buf, cap);
}

static void
twist_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    struct kio_region regions[2] = {bell->regions[0], bell->regions[1]};
    struct kio_bell other = *bell;

    other.regions = regions;
    other.value += (unsigned)twisted(kio, TWIST_BELL_VALUE);
    other.n_regions -= (unsigned)twisted(kio, TWIST_BELL_COUNT);
    if (twisted(kio, TWIST_BELL_KIND))
        regions[1].kind = KIO_REGION_CONTROL;
    regions[1].va += 8 * (unsigned)twisted(kio, TWIST_BELL_ADDRESS);
    regions[1].size_bytes -= 4 * (unsigned)twisted(kio, TWIST_BELL_BYTES);
    kio->below->ops->doorbell(kio->below, &other);
}

static const char *
twist_broken(struct kio *kio)
{
    return kio->below->ops->broken(kio->below);
}

static void
twist_destroy(struct kio *kio)
{
    (void)kio;
}

static const struct kio_ops twist_ops = {
    .name = "replay", /* the device's part is the cassette's */
    .destroy = twist_destroy,
    .open = twist_open,
    .close = twist_close,
    .ioctl = twist_ioctl,
    .mmap = twist_mmap,
    .munmap = twist_munmap,
    .poll = twist_poll,
    .read_file = twist_read_file,
    .doorbell = twist_doorbell,
    .explain = twist_broken,
    .broken = twist_broken,
};

/* Whatever a call says otherwise than when it was recorded is told. */
static void
test_replay_twisted(void **state)
{
    static const char *const told[] = {
        [TWIST_READ_PATH] = "path: recorded /proc/driver/nvidia/version, now "
                            "proc/driver/nvidia/version",
        [TWIST_OPEN_PATH] = "path: recorded /dev/nvidiactl, now /dev/nvidiact0",
        [TWIST_OPEN_FLAGS] = "open flags: recorded",
        [TWIST_IOCTL_FD] = "ioctl on file: recorded 0x64, now 0x65",
        [TWIST_IOCTL_REQUEST] =
            "ioctl request: recorded 0xc030462b, now 0xc030462c",
        [TWIST_MMAP_BYTES] = "mmap bytes: recorded 0x2000, now 0x3000",
        [TWIST_MMAP_PROT] = "mmap flags: recorded 0x300000001, now 0x100000001",
        [TWIST_MMAP_FLAGS] =
            "mmap flags: recorded 0x300000001, now 0x300002001",
        [TWIST_MMAP_FD] = "mmap of file: recorded 0x65, now 0x66",
        [TWIST_MMAP_OFFSET] = "mmap offset: recorded 0x0, now 0x1000",
        [TWIST_BELL_VALUE] = "doorbell value: recorded 0x7, now 0x8",
        [TWIST_BELL_COUNT] = "regions at a doorbell: recorded 0x2, now 0x1",
        [TWIST_BELL_KIND] = "kind of region: recorded",
        [TWIST_BELL_ADDRESS] = "address of region: recorded 0x2000, now 0x2008",
        [TWIST_BELL_BYTES] = "bytes of region: recorded 0x8, now 0x4",
        [TWIST_MUNMAP_BYTES] = "munmap bytes: recorded 0x2000, now 0x1000",
        [TWIST_POLL_FD] = "poll of file: recorded 0x65, now 0x66",
        [TWIST_POLL_EVENTS] = "poll events: recorded 0x1, now 0x2",
        [TWIST_CLOSE_FD] = "close of file: recorded 0x65, now 0x66",
    };
    enum twist twist;

    (void)state;
    record_usual();
    for (twist = TWIST_NONE; twist < TWIST_COUNT; twist++) {
        struct twister form = {.kio = {.ops = &twist_ops}, .twist = twist};
        struct work work = usual;
        const char *why;
        bell_status status;

        assert_int_equal(kio_replay_create(cassette_path, &form.kio.below),
                         BELL_OK);
        status = do_work(&form.kio, &work);
        why = kio_broken(&form.kio);
        if (twist == TWIST_NONE) {
            assert_int_equal(status, BELL_OK);
            assert_null(why);
        } else if (!why || !strstr(why, told[twist])) {
            fail_msg("'%s' lacks '%s'", why ? why : "", told[twist]);
        }
        assert_int_equal(kio_replay_finish(form.kio.below),
                         why ? BELL_E_INTERNAL : BELL_OK);
        kio_destroy(form.kio.below);
    }
}

/* The same call with a struct of another driver's size: it may not be read as
 * if it were as long. */
static void
test_replay_other_layout(void **state)
{
    static struct uvm_map_external_alloc map;
    struct toy *toy = toy_create();
    struct kio_file uvm;
    uint32_t branch;
    struct kio *kio;

    (void)state;
    assert_int_equal(kio_record_create(&toy->kio, cassette_path, &kio),
                     BELL_OK);
    for (branch = 0; branch <= 5; branch += 5) {
        kio_set_branch(kio, branch);
        assert_int_equal(kio_open(kio, "/dev/nvidia-uvm", O_RDWR, &uvm),
                         BELL_OK);
        assert_int_equal(kio_ioctl(&uvm, 33, &map), BELL_E_KERNEL);
        kio_close(&uvm);
        if (branch == 0) {
            assert_int_equal(kio_record_finish(kio), BELL_OK);
            kio_destroy(kio);
            assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
        }
    }
    assert_non_null(kio_broken(kio));
    assert_non_null(strstr(kio_broken(kio), "recorded 1200 bytes, now 9264"));
    kio_destroy(kio);
}

static void
count_difference(void *user, uint32_t record, const char *text)
{
    (void)record;
    assert_true(strlen(text) > 0);
    ++*(unsigned *)user;
}

static void
keep_difference(void *user, uint32_t record, const char *text)
{
    (void)record;
    if (!*(char *)user)
        snprintf(user, 256, "%s", text);
}

static void
test_play(void **state)
{
    char text[256] = "";
    struct cas_play_report report;
    struct cas_reader *reader;
    struct toy *toy = toy_create();
    struct kio *kio;
    unsigned n = 0, n_polls = 0;
    uint32_t i;

    (void)state;
    record_usual();
    assert_int_equal(cas_reader_open(cassette_path, &reader), BELL_OK);
    assert_false(cas_reader_truncated(reader));
    assert_non_null(strstr(cas_reader_identity(reader), "machine="));
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);
        if (r->kind != CAS_POLL)
            continue;
        assert_int_equal(r->result, 1);
        assert_int_equal(r->args[0], POLLIN);
        assert_int_equal(r->args[1], 10);
        assert_int_equal(r->args[2], POLLIN);
        n_polls++;
    }
    assert_int_equal(n_polls, 1);
    /* On its own replay and on the kernel that it came from. */
    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    kio_set_branch(kio, 3);
    assert_int_equal(cas_play(reader, kio, count_difference, &n, &report),
                     BELL_OK);
    assert_int_equal(kio_replay_finish(kio), BELL_OK);
    kio_destroy(kio);
    assert_int_equal(n, 0);
    assert_int_equal(report.n_calls, 11);
    kio_set_branch(&toy->kio, 3);
    assert_int_equal(cas_play(reader, &toy->kio, count_difference, &n, &report),
                     BELL_OK);
    assert_int_equal(n, 0);
    /* On one that gives other handles, which is its right. */
    toy->next_handle = 5;
    assert_int_equal(cas_play(reader, &toy->kio, count_difference, &n, &report),
                     BELL_OK);
    assert_int_equal(n, 0);
    assert_int_equal(report.n_differ, 0);
    kio_destroy(&toy->kio);
    /* On one that refuses a call: that differs, not its answers. */
    toy = toy_create();
    kio_set_branch(&toy->kio, 3);
    assert_int_equal(kio_fault_create(&toy->kio, "ioctl:1=EINVAL", &kio),
                     BELL_OK);
    assert_int_equal(cas_play(reader, kio, keep_difference, text, &report),
                     BELL_OK);
    assert_non_null(strstr(text, "recorded 0x0"));
    kio_destroy(kio);
    cas_reader_close(reader);
}

/* Memory that the device may write is looked at from the doorbell on that names
 * it, and told once for each change, up to a number of places. */
static void
test_watched(void **state)
{
    enum {
        N = 70, /* more than are watched */
        WATCHED = 64
    };
    uint64_t memory[N] = {0};
    struct kio_region regions[N];
    struct kio_bell bell = {.address = &memory[0], .regions = regions};
    struct toy *toy = toy_create();
    struct kio_file ctl;
    struct kio *kio;
    struct cas_reader *reader;
    uint32_t i, n[N] = {0};

    (void)state;
    for (i = 0; i < N; i++)
        regions[i] = (struct kio_region){&memory[i], 0x1000 + 8 * i, 8,
                                         KIO_REGION_SIGNAL};
    assert_int_equal(kio_record_create(&toy->kio, cassette_path, &kio),
                     BELL_OK);
    assert_int_equal(kio_open(kio, "/dev/nvidiactl", O_RDWR, &ctl), BELL_OK);
    for (i = 1; i <= 3; i++) {
        memory[0] = memory[1] = i;
        bell.n_regions = i;
        kio_doorbell(kio, &bell);
    }
    bell.n_regions = N;
    kio_doorbell(kio, &bell);
    for (i = 3; i < N; i++)
        memory[i] = 1;
    kio_close(&ctl);
    kio_destroy(kio);
    assert_int_equal(cas_reader_open(cassette_path, &reader), BELL_OK);
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);

        if (r->kind == CAS_UPDATE)
            n[(r->blobs[0].addr - 0x1000) / 8]++;
    }
    for (i = 0; i < N; i++)
        assert_int_equal(n[i], i == 0                   ? 2
                               : i == 1                 ? 1
                               : i == 2 || i >= WATCHED ? 0
                                                        : 1);
    cas_reader_close(reader);
}

/* Where no file can be made, nothing is recorded, and that is told. */
static void
test_record_nowhere(void **state)
{
    struct toy *toy = toy_create();
    struct kio *kio = NULL;

    (void)state;
    assert_int_equal(kio_record_create(&toy->kio, "/dev/null/a.cas", &kio),
                     BELL_E_IO);
    assert_null(kio);
    kio_destroy(&toy->kio);
}

/* ---- cassettes -------------------------------------------------------- */

static uint8_t *
load_file(size_t *out_bytes)
{
    FILE *file = fopen(cassette_path, "rb");
    uint8_t *data = malloc(1 << 20);

    assert_non_null(file);
    *out_bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

/* Every cut and many flipped bytes: an error or fewer records, no crash. */
static void
test_damaged(void **state)
{
    struct cas_reader *reader;
    size_t n, i;
    uint8_t *data, *copy;
    unsigned n_refused = 0;

    (void)state;
    record_usual();
    data = load_file(&n);
    for (i = 0; i < n; i++) {
        copy = malloc(i + 1); /* exact: overruns are seen */
        memcpy(copy, data, i);
        if (cas_reader_parse("cut", copy, i, &reader) == BELL_OK) {
            assert_true(cas_reader_truncated(reader));
            cas_reader_close(reader);
        }
        free(copy);
    }
    for (i = 0; i < n; i++) {
        copy = malloc(n);
        memcpy(copy, data, n);
        copy[i] ^= (uint8_t)(1u << (i % 8));
        if (cas_reader_parse("flipped", copy, n, &reader) == BELL_OK)
            cas_reader_close(reader);
        else
            n_refused++;
        free(copy);
    }
    assert_true(n_refused > n / 4);
    free(data);
}

/* Another version's, another file's, one whose head tells of more than there
 * is. */
static void
test_other_heads(void **state)
{
    struct cas_reader *reader;
    uint8_t *data;
    size_t n;

    (void)state;
    record_usual();
    data = load_file(&n);
    assert_int_equal(cas_reader_parse("whole", data, n, &reader), BELL_OK);
    cas_reader_close(reader);
    data[8]++;
    assert_int_equal(cas_reader_parse("newer", data, n, &reader),
                     BELL_E_UNSUPPORTED);
    assert_non_null(
        strstr(bell_error_last()->message, "newer is a cassette of version 2"));
    data[8]--;
    data[0]++;
    assert_int_equal(cas_reader_parse("other", data, n, &reader), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "no header"));
    data[0]--;
    data[15] = 0xff; /* bytes of the identity */
    assert_int_equal(cas_reader_parse("long", data, n, &reader), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "a cut header"));
    assert_int_equal(cas_reader_parse("short", data, 15, &reader), BELL_E_IO);
    free(data);
}

static void
test_many_records(void **state)
{
    uint8_t payload[700];
    struct cas_blob blob = {
        .role = CAS_TEXT, .size_bytes = sizeof(payload), .data = payload};
    struct cas_record record = {.kind = CAS_NOTE, .n_blobs = 1, .blobs = &blob};
    struct cas_writer *writer;
    struct cas_reader *reader;
    uint32_t i;

    (void)state;
    assert_int_equal(
        cas_writer_create(cassette_path, CAS_COMPRESS, "a=b\n", &writer),
        BELL_OK);
    for (i = 0; i < 3000; i++) {
        memset(payload, (int)i, sizeof(payload));
        record.args[0] = i;
        blob.size_bytes = i % sizeof(payload);
        assert_int_equal(cas_write(writer, &record), BELL_OK);
    }
    assert_int_equal(cas_writer_close(writer), BELL_OK);
    assert_int_equal(cas_reader_open(cassette_path, &reader), BELL_OK);
    assert_string_equal(cas_reader_identity(reader), "a=b\n");
    assert_int_equal(cas_reader_count(reader), 3000);
    for (i = 0; i < 3000; i++) {
        const struct cas_record *r = cas_reader_get(reader, i);
        assert_int_equal(r->args[0], i);
        assert_int_equal(r->blobs[0].size_bytes, i % sizeof(payload));
        if (r->blobs[0].size_bytes)
            assert_int_equal(r->blobs[0].data[r->blobs[0].size_bytes - 1],
                             (uint8_t)i);
    }
    cas_reader_close(reader);
}

static void
test_memory_failures(void **state)
{
    uint64_t nth;
    bell_status status = BELL_E_NO_MEMORY;

    (void)state;
    for (nth = 1; status != BELL_OK; nth++) {
        struct toy *toy = toy_create();
        struct work work = usual;
        struct kio *kio;
        host_fail_after(nth, 0);
        status = kio_record_create(&toy->kio, cassette_path, &kio);
        if (status != BELL_OK) {
            host_fail_after(0, 0);
            kio_destroy(&toy->kio);
            continue;
        }
        /* The program goes on; that it is not all recorded is told. */
        assert_int_equal(do_work(kio, &work), BELL_OK);
        status = kio_record_finish(kio);
        host_fail_after(0, 0);
        kio_destroy(kio);
    }
    assert_true(nth > 10);
    status = BELL_E_NO_MEMORY;
    for (nth = 1; status != BELL_OK; nth++) {
        struct work work = usual;
        struct kio *kio;
        host_fail_after(nth, 0);
        status = kio_replay_create(cassette_path, &kio);
        if (status == BELL_OK) {
            status = do_work(kio, &work);
            kio_destroy(kio);
        }
        host_fail_after(0, 0);
    }
    assert_true(nth > 6);
}

/* ---- faults ----------------------------------------------------------- */

static bell_status
faulty(const char *plan, uint64_t *out_hits)
{
    struct toy *toy = toy_create();
    struct work work = usual;
    struct kio *kio;
    bell_status status;

    assert_int_equal(kio_fault_create(&toy->kio, plan, &kio), BELL_OK);
    status = do_work(kio, &work);
    *out_hits = kio_fault_hits(kio);
    kio_destroy(kio); /* checks that nothing is left open or mapped */
    return status;
}

static void
test_faults(void **state)
{
    uint64_t hits;

    (void)state;
    assert_int_equal(faulty("", &hits), BELL_OK);
    assert_int_equal(faulty("open:2=EACCES", &hits), BELL_E_PERMISSION);
    assert_int_equal(faulty("ioctl:2=ENOMEM", &hits), BELL_E_NO_MEMORY);
    assert_int_equal(faulty("ioctl:3=ENOMEM", &hits), BELL_OK);
    assert_int_equal(hits, 0);
    assert_int_equal(faulty("mmap=ENOMEM", &hits), BELL_E_NO_MEMORY);
    assert_int_equal(faulty("ioctl:1=EINTR", &hits), BELL_OK); /* retried */
    assert_int_equal(hits, 1);
    assert_int_equal(faulty("ioctl:1+=EINTR", &hits), BELL_E_KERNEL);
    assert_true(hits > 10 && hits < 100); /* bounded */
    assert_int_equal(faulty("ioctl:1=EAGAIN,mmap=EAGAIN,open=EAGAIN", &hits),
                     BELL_OK);
    assert_int_equal(hits, 3);
    assert_int_equal(faulty("ioctl:1+=EAGAIN", &hits), BELL_E_KERNEL);
    assert_true(hits > 10 && hits < 100);
    assert_int_equal(faulty("NV_ESC_RM_CONTROL=status=0x51", &hits),
                     BELL_E_NO_MEMORY);
    assert_int_equal(faulty("NV2080_CTRL_CMD_GR_GET_INFO=status=0x3a", &hits),
                     BELL_E_KERNEL);
    assert_non_null(strstr(bell_error_last()->message, "INVALID_PARAM_STRUCT"));
    assert_int_equal(faulty("poll=delay=1ms,close:1=EIO", &hits), BELL_OK);
    assert_int_equal(hits, 2);
    assert_int_equal(faulty("read=truncate=20", &hits), BELL_E_UNSUPPORTED);
    assert_int_equal(faulty("NV_ESC_RM_ALLOC=truncate=8", &hits), BELL_OK);
}

/* Every call of the work failing in turn. */
static void
test_fault_loop(void **state)
{
    char plan[64];
    uint64_t hits = 1, nth;
    bell_status status;

    (void)state;
    for (nth = 1; hits; nth++) {
        snprintf(plan, sizeof(plan), "any:%llu=EIO", (unsigned long long)nth);
        status = faulty(plan, &hits);
        /* The version file can be done without; a close cannot fail. */
        if (!hits)
            assert_int_equal(status, BELL_OK);
    }
    assert_int_equal(nth, 12);
}

static void
test_bad_plans(void **state)
{
    static const char *const plans[] = {
        "opn=EIO",
        "open",
        "open=",
        "open:0=EIO",
        "open:x=EIO",
        "open:1-=EIO",
        "ioctl=EWHAT",
        "ioctl=delay=5",
        "ioctl=delay=5h",
        "ioctl=delay=",
        "ioctl=delay=0ms",
        "ioctl=wait=5ms",
        "ioctl=EIO=1",
        "ioctl=random=",
        "ioctl=random=1x",
        "ioctl=truncate=",
        "ioctl=truncate=8x",
        "ioctl=reply=3",
        "ioctl=reply=3:",
        "ioctl=reply=:3",
        "ioctl=reply=3:5x",
        "ioctl=reply=3;5",
        "ioctl=status=",
        "ioctl=status=0x5g",
        "ioctl=statusx=5",
        "ioctl=truncatex=5",
        "ioctl=randomx=5",
        "ioctl=replyx=5:1",
        "ioctl=delayx=5ms",
        "=EIO",
    };
    static const char *const good[] = {
        "ioctl=random=1",   "ioctl=reply=3:0xff", "ioctl=truncate=0",
        "ioctl=delay=1ms",  "ioctl=status=0x51",  "open:3+=EIO",
        "ioctl=random=0x7",
    };
    struct toy *toy = toy_create();
    struct kio *kio;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
        assert_int_equal(kio_fault_create(&toy->kio, plans[i], &kio),
                         BELL_E_INVALID);
    assert_int_equal(kio_fault_create(&toy->kio, "open=EIO", &kio), BELL_OK);
    assert_int_equal(kio_fault_set(kio, "x=EIO"), BELL_E_INVALID);
    assert_int_equal(kio_fault_set(kio, "close=EIO"), BELL_OK);
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(kio_fault_set(kio, good[i]), BELL_OK);
    kio_destroy(kio);
}

/* A file's end is its end, whatever happened before it was read. The size of
 * the kernel's files is not that of their content. */
static void
test_end_of_file(void **state)
{
    static const char online[] = "/sys/devices/system/cpu/online";
    struct cas_reader *reader = NULL;
    struct kio *kio;
    char text[4096];
    size_t n = 0;

    (void)state;
    if (access(online, R_OK) != 0)
        skip();
    assert_int_equal(kio_sys_create(&kio), BELL_OK);
    errno = EINTR;
    assert_int_equal(kio_read_file(kio, online, text, sizeof(text), &n),
                     BELL_OK);
    assert_true(n > 0 && n < 4096);
    kio_destroy(kio);
    errno = EINTR;
    assert_int_not_equal(cas_reader_open(online, &reader), BELL_OK);
    assert_null(reader);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_sys),
        cmocka_unit_test(test_sys_waits_and_reads),
        cmocka_unit_test_setup_teardown(test_replay, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_replay_differs, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_replay_twisted, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_replay_other_layout, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_replay_reads, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_replay_doorbell_differs, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_play, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_watched, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_damaged, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_other_heads, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_many_records, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_memory_failures, make_path,
                                        remove_path),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_fault_loop),
        cmocka_unit_test(test_bad_plans),
        cmocka_unit_test(test_end_of_file),
        cmocka_unit_test(test_record_nowhere),
    };

    return cmocka_run_group_tests_name("kio", tests, NULL, NULL);
}
