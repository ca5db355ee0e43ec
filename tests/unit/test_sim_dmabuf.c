/* Memory by descriptors: what the simulated kernels take and refuse, how long
 * memory lives, and hcq's calls with each call of the kernel failing.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "hcq/hcq.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/nv_uapi.h"
#include "sim/amd/sim_amd.h"
#include "sim/nv/sim_nv.h"
#include "tests/unit/expect.h"
#include "tests/unit/rm_rig.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/sim_kept.h"
#include "tests/unit/usage.h"

/* ---- KFD ----------------------------------------------------------------- */

struct kfd_rig {
    struct kio *kio;
    struct kio_file kfd, drm[2];
    uint32_t gpu_ids[2], n;
};

static void
kfd_open(struct kfd_rig *r, const char *spec, uint32_t n)
{
    char path[96], text[64];
    size_t bytes;
    uint32_t i;

    r->n = n;
    expect_ok(kio_sim_create("AMD", spec, &r->kio));
    expect_ok(kio_open(r->kio, "/dev/kfd", O_RDWR, &r->kfd));
    for (i = 0; i < n; i++) {
        struct kfd_acquire_vm vm;

        snprintf(path, sizeof(path),
                 "/sys/devices/virtual/kfd/kfd/topology/nodes/%u/gpu_id",
                 1 + i);
        expect_ok(kio_read_file(r->kio, path, text, sizeof(text), &bytes));
        r->gpu_ids[i] = (uint32_t)strtoul(text, NULL, 10);
        snprintf(path, sizeof(path), "/dev/dri/renderD%u", 128 + i);
        expect_ok(kio_open(r->kio, path, O_RDWR, &r->drm[i]));
        vm.drm_fd = (uint32_t)r->drm[i].fd;
        vm.gpu_id = r->gpu_ids[i];
        expect_ok(kio_ioctl(&r->kfd, KFD_ACQUIRE_VM, &vm));
    }
}

static void
kfd_close(struct kfd_rig *r)
{
    uint32_t i;

    for (i = 0; i < r->n; i++)
        kio_close(&r->drm[i]);
    kio_close(&r->kfd);
    kio_destroy(r->kio);
}

static void
kfd_refuses(struct kfd_rig *r, unsigned long request, void *arg, int error)
{
    assert_int_not_equal(kio_ioctl(&r->kfd, request, arg), BELL_OK);
    if (bell_error_last()->sys_errno != error)
        fail_msg("errno %d: %s", bell_error_last()->sys_errno,
                 bell_error_last()->message);
}

static uint64_t
kfd_memory(struct kfd_rig *r, uint64_t size_bytes, uint32_t flags)
{
    static _Alignas(4096) char pages[4096];
    struct kfd_alloc_memory alloc = {
        .va = 0x100000000ull,
        .size_bytes = size_bytes,
        .gpu_id = r->gpu_ids[0],
        .flags = flags | KFD_MEM_WRITABLE,
        .mmap_offset = flags & KFD_MEM_USERPTR ? (uintptr_t)pages : 0,
    };

    expect_ok(kio_ioctl(&r->kfd, KFD_ALLOC_MEMORY, &alloc));
    return alloc.handle;
}

static void
kfd_free(struct kfd_rig *r, uint64_t handle)
{
    struct kfd_free_memory mem = {handle};

    expect_ok(kio_ioctl(&r->kfd, KFD_FREE_MEMORY, &mem));
}

static uint64_t
kfd_available(struct kfd_rig *r)
{
    struct kfd_available_memory args = {.gpu_id = r->gpu_ids[0]};

    expect_ok(kio_ioctl(&r->kfd, KFD_AVAILABLE_MEMORY, &args));
    return args.bytes;
}

static int
kfd_export(struct kfd_rig *r, uint64_t handle, uint32_t flags)
{
    struct kfd_export_dmabuf export = {.handle = handle, .flags = flags};

    expect_ok(kio_ioctl(&r->kfd, KFD_EXPORT_DMABUF, &export));
    return (int)export.fd;
}

static void
test_kfd_refuses(void **state)
{
    struct kfd_export_dmabuf export = {.flags = O_CLOEXEC};
    struct kfd_import_dmabuf import = {.va = 0x200000000ull};
    struct kfd_dmabuf_info info = {0};
    uint64_t vram, user;
    struct kfd_rig r;
    int fd, pipes[2];
    void *map;

    (void)state;
    kfd_open(&r, "gfx942,kfd=1.11", 1);
    export.handle = kfd_memory(&r, 8192, KFD_MEM_VRAM);
    kfd_refuses(&r, KFD_EXPORT_DMABUF, &export, ENOTTY);
    kfd_close(&r);
    kfd_open(&r, "gfx942*2", 2);
    vram = kfd_memory(&r, 8192, KFD_MEM_VRAM | KFD_MEM_PUBLIC);
    user = kfd_memory(&r, 4096, KFD_MEM_USERPTR);
    export.handle = user;
    kfd_refuses(&r, KFD_EXPORT_DMABUF, &export, EPERM);
    export.handle = vram + 99;
    kfd_refuses(&r, KFD_EXPORT_DMABUF, &export, EINVAL);
    /* exec closes it where that is asked for, and then alone */
    fd = kfd_export(&r, vram, 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    close(fd);
    fd = kfd_export(&r, vram, O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(lseek(fd, 0, SEEK_END), 8192);
    assert_true(ftruncate(fd, 4096) < 0);
    map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    munmap(map, 8192);
    info.fd = (uint32_t)fd;
    expect_ok(kio_ioctl(&r.kfd, KFD_GET_DMABUF_INFO, &info));
    assert_int_equal(info.size_bytes, 8192);
    assert_int_equal(info.gpu_id, r.gpu_ids[0]);
    assert_int_equal(info.flags, KFD_MEM_VRAM | KFD_MEM_PUBLIC);
    import.fd = (uint32_t)fd;
    import.gpu_id = 12345;
    kfd_refuses(&r, KFD_IMPORT_DMABUF, &import, EINVAL);
    import.gpu_id = r.gpu_ids[1];
    kfd_refuses(&r, KFD_IMPORT_DMABUF, &import, EINVAL);
    import.gpu_id = r.gpu_ids[0];
    close(fd);
    kfd_refuses(&r, KFD_IMPORT_DMABUF, &import, EBADF);
    kfd_refuses(&r, KFD_GET_DMABUF_INFO, &info, EBADF);
    assert_int_equal(pipe(pipes), 0);
    import.fd = info.fd = (uint32_t)pipes[0];
    kfd_refuses(&r, KFD_IMPORT_DMABUF, &import, EINVAL);
    kfd_refuses(&r, KFD_GET_DMABUF_INFO, &info, EINVAL);
    import.fd = (uint32_t)r.kfd.fd;
    assert_int_not_equal(kio_ioctl(&r.kfd, KFD_IMPORT_DMABUF, &import),
                         BELL_OK);
    close(pipes[0]);
    close(pipes[1]);
    kfd_close(&r);
}

/* A card's memory counts until the last descriptor and import of it goes. */
static void
test_kfd_life(void **state)
{
    const uint64_t bytes = 64u << 20;
    struct kfd_import_dmabuf import = {.va = 0x200000000ull};
    uint64_t before, handle;
    struct kfd_rig r, other;
    int fd, second;

    (void)state;
    kfd_open(&r, "gfx942", 1);
    before = kfd_available(&r);
    handle = kfd_memory(&r, bytes, KFD_MEM_VRAM | KFD_MEM_PUBLIC);
    fd = kfd_export(&r, handle, O_CLOEXEC);
    second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    kfd_free(&r, handle);
    assert_int_equal(kfd_available(&r), before - bytes);
    close(fd);
    assert_int_equal(kfd_available(&r), before - bytes);
    /* another process of the machine */
    kfd_open(&other, "gfx942", 1);
    import.gpu_id = other.gpu_ids[0];
    import.fd = (uint32_t)second;
    expect_ok(kio_ioctl(&other.kfd, KFD_IMPORT_DMABUF, &import));
    close(second);
    assert_int_equal(kfd_available(&r), before - bytes);
    kfd_free(&other, import.handle);
    assert_int_equal(kfd_available(&r), before);
    kfd_close(&other);
    kfd_close(&r);
}

/* Memory that a small window need not show is not for the CPU. */
static void
test_kfd_window(void **state)
{
    struct kfd_rig r;
    uint64_t handle;
    int fd;

    (void)state;
    kfd_open(&r, "gfx942,bar=256", 1);
    handle = kfd_memory(&r, 8192, KFD_MEM_VRAM);
    fd = kfd_export(&r, handle, O_CLOEXEC);
    assert_true(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    close(fd);
    kfd_close(&r);
}

/* ---- NVIDIA -------------------------------------------------------------- */

static uint32_t
rm_export(const struct rig *rig, uint32_t memory, uint64_t size_bytes,
          void (*change)(struct nv_export_to_dma_buf_fd *p), int *out_fd)
{
    struct nv_export_to_dma_buf_fd p = {
        .fd = -1,
        .hClient = rig->client,
        .totalObjects = 1,
        .numObjects = 1,
        .totalSize = size_bytes,
        .handles = {memory},
        .sizes = {size_bytes},
    };
    uint32_t n = nv_wire_bytes(&rig->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD), status;
    uint64_t wire[sizeof(p) / 8];

    if (change)
        change(&p);
    nv_wire_pack(&rig->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD, &p, wire);
    expect_ok(kio_ioctl_status(
        &rig->node, nv_request(NV_ESC_EXPORT_TO_DMABUF_FD, n), wire, &status));
    nv_wire_unpack(&rig->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD, wire, &p);
    assert_int_equal(p.status, status);
    if (status == 0 && out_fd)
        *out_fd = p.fd;
    return status;
}

static void
no_objects(struct nv_export_to_dma_buf_fd *p)
{
    p->numObjects = 0;
}

static void
too_many(struct nv_export_to_dma_buf_fd *p)
{
    p->numObjects = 2;
}

static void
by_what(struct nv_export_to_dma_buf_fd *p)
{
    p->mappingType = 2;
}

static void
by_pcie(struct nv_export_to_dma_buf_fd *p)
{
    p->mappingType = 1;
}

static void
with_mmap(struct nv_export_to_dma_buf_fd *p)
{
    p->bAllowMmap = 1;
}

static void
odd_offset(struct nv_export_to_dma_buf_fd *p)
{
    p->offsets[0] = 64;
}

static void
other_size(struct nv_export_to_dma_buf_fd *p)
{
    p->sizes[0] -= 4096;
}

static void
beyond(struct nv_export_to_dma_buf_fd *p)
{
    p->totalSize += HUGE;
    p->sizes[0] += HUGE;
}

static void
no_client(struct nv_export_to_dma_buf_fd *p)
{
    p->hClient++;
}

static void
no_memory(struct nv_export_to_dma_buf_fd *p)
{
    p->handles[0] += 1000;
}

static void
not_memory(struct nv_export_to_dma_buf_fd *p)
{
    p->handles[0] = p->hClient;
}

static void
not_dmabuf(struct nv_export_to_dma_buf_fd *p)
{
    p->fd = 0;
}

static void
test_rm_refuses(void **state)
{
    static const struct {
        void (*change)(struct nv_export_to_dma_buf_fd *p);
        uint32_t status;
    } rows[] = {
        {no_objects, S_ARGUMENT},     {too_many, S_ARGUMENT},
        {by_what, S_ARGUMENT},        {by_pcie, S_NOT_SUPPORTED},
        {with_mmap, S_NOT_SUPPORTED}, {odd_offset, S_ARGUMENT},
        {other_size, S_ARGUMENT},     {beyond, S_ARGUMENT},
        {no_client, S_CLIENT},        {no_memory, S_NOT_FOUND},
        {not_memory, S_OBJECT},       {not_dmabuf, 0x59},
    };
    uint32_t video, host, import = 0;
    struct nv_os_desc_alloc desc = {.attr = 1u << 25, .descriptorType = 4};
    struct rig rig;
    size_t i;
    int fd = -1;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_video(&rig, HUGE, &video), 0);
    assert_int_equal(rig_system(&rig, HUGE, &host), 0);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t status = rm_export(&rig, video, HUGE, rows[i].change, NULL);

        if (status != rows[i].status)
            fail_msg("row %zu: status 0x%x", i, status);
    }
    assert_int_equal(rm_export(&rig, host, HUGE, NULL, NULL), S_ARGUMENT);
    assert_int_equal(rm_export(&rig, video, HUGE, NULL, &fd), 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(lseek(fd, 0, SEEK_END), HUGE);
    assert_true(mmap(NULL, HUGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    /* what is imported */
    desc.descriptor = (uint64_t)fd;
    assert_int_equal(rig_alloc(&rig, rig.device,
                               NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                               NV_S_NV_OS_DESC_ALLOC, &desc, &import),
                     S_NOT_SUPPORTED);
    close(fd);
    assert_int_equal(rig_alloc(&rig, rig.device,
                               NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                               NV_S_NV_OS_DESC_ALLOC, &desc, &import),
                     0x59);
    desc.descriptorType = 5;
    assert_int_equal(rig_alloc(&rig, rig.device,
                               NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                               NV_S_NV_OS_DESC_ALLOC, &desc, &import),
                     S_NOT_SUPPORTED);
    desc.descriptorType = 7;
    assert_int_equal(rig_alloc(&rig, rig.device,
                               NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                               NV_S_NV_OS_DESC_ALLOC, &desc, &import),
                     S_ARGUMENT);
    rig_fini(&rig);
}

/* The memory keeps its contents, also for who has it mapped, and it counts
 * until the descriptor is closed. */
static void
test_rm_life(void **state)
{
    struct sim_nv_usage with, without, left;
    struct rig rig;
    uint32_t video;
    int fd = -1;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_MEMORY);
    memset(rig.cpu, 0x5b, 4096);
    assert_int_equal(rig_video(&rig, HUGE, &video), 0);
    sim_nv_usage(rig.kio, &with);
    assert_int_equal(rm_export(&rig, video, HUGE, NULL, &fd), 0);
    assert_int_equal(rig_free(&rig, video), 0);
    sim_nv_usage(rig.kio, &left);
    assert_int_equal(left.memory_bytes, with.memory_bytes);
    close(fd);
    sim_nv_usage(rig.kio, &without);
    assert_int_equal(without.memory_bytes, with.memory_bytes - HUGE);
    assert_int_equal(rig.cpu[77], 0x5b);
    rig_fini(&rig);
}

/* ---- hcq, with each call of the kernel failing --------------------------- */

#define GOOD_ENOUGH 12u /* in a row without an error: none is left to fail */
#define CALLS_MAX   3000u
#define STEP        (IS_SANITIZED ? 11u : 2u)
#define HEAP_MAPS   4u
#define BYTES       8192u

struct life {
    struct hcq_device *owner, *user;
    struct hcq_buffer *own, *seen;
    int fd;
};

static bell_status
live(struct life *l, const char *owner, const char *user, bool *out_right)
{
    uint32_t words[BYTES / 4], i;

    *out_right = true;
    BELL_TRY(hcq_device_open(owner, &l->owner));
    BELL_TRY(hcq_device_open(user, &l->user));
    BELL_TRY(hcq_buffer_create(l->owner, BYTES, HCQ_MEM_SHAREABLE, &l->own));
    for (i = 0; i < BYTES / 4; i++)
        words[i] = 3 * i;
    BELL_TRY(hcq_buffer_write(l->own, 0, words, BYTES));
    BELL_TRY(hcq_buffer_export(l->own, &l->fd));
    BELL_TRY(hcq_buffer_import(l->user, l->fd, 0, BYTES, &l->seen));
    BELL_TRY(hcq_buffer_write(l->seen, 0, &(uint32_t){4711}, 4));
    BELL_TRY(hcq_buffer_read(l->own, 0, words, 4));
    *out_right = words[0] == 4711;
    hcq_buffer_destroy(l->own);
    l->own = NULL;
    BELL_TRY(hcq_buffer_read(l->seen, 0, words, BYTES));
    for (i = 1; i < BYTES / 4; i++)
        *out_right &= words[i] == 3 * i;
    return BELL_OK;
}

static void
end_life(struct life *l)
{
    hcq_buffer_destroy(l->own);
    hcq_buffer_destroy(l->seen);
    if (l->fd >= 0)
        close(l->fd);
    hcq_device_close(l->owner);
    hcq_device_close(l->user);
}

static void
fail_calls(const char *owner, const char *user, const char *plus)
{
    unsigned n, n_good = 0, n_bad = 0;
    struct usage before = {0, 0};
    char names[2][96];

    for (n = 1; n_good < GOOD_ENOUGH; n += n_good ? 1 : STEP) {
        struct life life = {.fd = -1};
        bell_status status;
        bool right;

        assert_true(n < CALLS_MAX);
        snprintf(names[0], sizeof(names[0]), owner, n, plus);
        snprintf(names[1], sizeof(names[1]), user, n, plus);
        bell_error_clear();
        status = live(&life, names[0], names[1], &right);
        if (status != BELL_OK &&
            !strstr(bell_error_last()->message, "planned for call "))
            fail_msg("%s: told: %s", names[0], bell_error_last()->message);
        assert_true(right);
        end_life(&life);
        if (sim_nv_machine_exists())
            fail_msg("%s: the simulated machine is still there", names[0]);
        expect_kept();
        n_good = status == BELL_OK ? n_good + 1 : 0;
        n_bad += status != BELL_OK;
        if (n_bad == 3 && status != BELL_OK)
            before = usage_now();
    }
    assert_true(n_bad > 3);
    usage_expect(before, n_bad / 2 + HEAP_MAPS, names[0]);
    print_message("# %s, %s: %u of %u runs failed\n", names[0], names[1], n_bad,
                  n);
}

static void
test_calls(void **state)
{
    static const char amd[] = "AMD:0@fault:any:%u%s=EIO@sim:gfx942*2";
    static const char amd1[] = "AMD:1@fault:any:%u%s=EIO@sim:gfx942*2";
    static const char nv[] = "NV:0@fault:any:%u%s=EIO@sim:sm_90";

    (void)state;
    fail_calls(amd, amd1, "");
    fail_calls(amd, amd1, "+");
    fail_calls(nv, amd, "");
    fail_calls(nv, amd, "+");
    fail_calls(amd, nv, "");
    fail_calls(amd, nv, "+");
}

/* A buffer that can never be exported is not made. */
static void
test_unsupported(void **state)
{
    static const struct {
        const char *name;
        uint32_t flags;
        const char *part;
    } rows[] = {
        {"AMD@sim:gfx942,kfd=1.11", 0, "KFD 1.11 exports no memory"},
        {"NV@sim:sm_90", HCQ_MEM_HOST_VISIBLE, "no memory of the host's"},
        {"QCOM@sim:a630", 0, "shares no memory with other processes"},
    };
    struct hcq_buffer *buf;
    struct hcq_device *dev;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_ok(hcq_device_open(rows[i].name, &dev));
        assert_int_equal(hcq_buffer_create(dev, 4096,
                                           rows[i].flags | HCQ_MEM_SHAREABLE,
                                           &buf),
                         BELL_E_UNSUPPORTED);
        if (!strstr(bell_error_last()->message, rows[i].part))
            fail_msg("%s: %s", rows[i].name, bell_error_last()->message);
        hcq_device_close(dev);
    }
}

static void
open_shareable(const char *name, struct hcq_device **dev,
               struct hcq_buffer **buf)
{
    expect_ok(hcq_device_open(name, dev));
    expect_ok(hcq_buffer_create(*dev, 4096, HCQ_MEM_SHAREABLE, buf));
}

/* Numbers of a recording are not descriptors of this process. */
static void
test_replay(void **state)
{
    static const char *const cards[] = {"AMD", "NV"};
    char path[] = "/tmp/bell-dmabuf-XXXXXX", name[96];
    struct hcq_buffer *buf, *seen;
    struct hcq_device *dev;
    int fd = mkstemp(path), got = -7;
    size_t i;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "%s@record:%s@sim:%s", cards[i], path,
                 i ? "sm_90" : "gfx942");
        open_shareable(name, &dev, &buf);
        hcq_buffer_destroy(buf);
        hcq_device_close(dev);
        snprintf(name, sizeof(name), "%s@replay:%s", cards[i], path);
        open_shareable(name, &dev, &buf);
        assert_int_equal(hcq_buffer_export(buf, &got), BELL_E_UNSUPPORTED);
        assert_non_null(strstr(bell_error_last()->message, "a recording"));
        fd = memfd_create("memory", MFD_CLOEXEC);
        assert_int_equal(ftruncate(fd, 4096), 0);
        assert_int_equal(hcq_buffer_import(dev, fd, 0, 64, &seen),
                         BELL_E_UNSUPPORTED);
        assert_non_null(strstr(bell_error_last()->message, "a recording"));
        close(fd);
        hcq_buffer_destroy(buf);
        hcq_device_close(dev);
    }
    assert_int_equal(got, -7);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kfd_refuses), cmocka_unit_test(test_kfd_life),
        cmocka_unit_test(test_kfd_window),  cmocka_unit_test(test_rm_refuses),
        cmocka_unit_test(test_rm_life),     cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_calls),       cmocka_unit_test(test_replay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
