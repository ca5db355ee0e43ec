/* sim/nv/rm/rm_memory.c, rm_space.c: memory objects, CPU mappings, pinned
 * pages, address spaces, and two cards of one machine; the rules of
 * docs/hardware/nvidia-kernel.md, "Memory objects", "CPU mappings" and "GPU
 * mappings", and what breaks them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/gpu/gpu.h"
#include "sim/nv/sim_nv.h"

#define FIXED    0x8000u
#define SNOOP    0x10u
#define PAGES(n) ((n) << 8) /* 1: 4K, 2: 64K, 4: 2M */

static uint64_t
memory_in_use(const struct rig *rig)
{
    struct sim_nv_usage usage;

    sim_nv_usage(rig->kio, &usage);
    return usage.memory_bytes;
}

static uint64_t
mapped_in_use(const struct rig *rig)
{
    struct sim_nv_usage usage;

    sim_nv_usage(rig->kio, &usage);
    return usage.va_mapped_bytes;
}

/* ---- objects ------------------------------------------------------------- */

static uint32_t
memory_with(const struct rig *rig, uint32_t nv_class, uint32_t flags,
            uint32_t attr, uint64_t size_bytes, uint64_t align_bytes)
{
    struct nv_memory_alloc params = {
        .owner = rig->client,
        .flags = flags,
        .attr = attr,
        .size = size_bytes,
        .alignment = align_bytes,
    };
    uint32_t handle = 0, status;

    status = rig_alloc(rig, rig->device, nv_class, NV_S_NV_MEMORY_ALLOC,
                       &params, &handle);
    if (status == 0)
        assert_int_equal(rig_free(rig, handle), 0);
    return status;
}

static void
test_objects(void **state)
{
    const uint32_t video = NV01_MEMORY_LOCAL_USER, sys = NV01_MEMORY_SYSTEM;
    struct rig rig;
    uint32_t big = 0, more = 0;
    uint64_t half;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    /* src: docs/hardware/nvidia-kernel.md, "Memory objects" */
    assert_int_equal(memory_with(&rig, video, 0x1c101, 0x19800000, HUGE, HUGE),
                     0);
    assert_int_equal(memory_with(&rig, video, 0x1c101, 0x18000000, 5, 0x1000),
                     0);
    assert_int_equal(
        memory_with(&rig, video, 0x8001, 0x10000000, 1 << 16, 1 << 16), 0);
    assert_int_equal(memory_with(&rig, sys, 0xc101, 0x1a000000, 4096, 0x1000),
                     0);
    assert_int_equal(memory_with(&rig, sys, 0xc101, 0xaa000000, 4096, 0x1000),
                     0);
    /* and what is wrong */
    assert_int_equal(memory_with(&rig, video, 0x1c101, 0x1a000000, 4096, 0),
                     S_ARGUMENT);
    assert_int_equal(memory_with(&rig, sys, 0xc101, 0x18000000, 4096, 0),
                     S_ARGUMENT);
    assert_int_equal(memory_with(&rig, video, 0x1c101, 0x18000000, 0, 0),
                     S_ARGUMENT);
    assert_int_equal(memory_with(&rig, video, 0x1c101, 0x18000000, 1, 3),
                     S_ARGUMENT);
    assert_int_equal(memory_with(&rig, video, 0x80001, 0x18000000, 4096, 0),
                     S_FLAGS);
    assert_int_equal(memory_with(&rig, video, 0x11, 0x18000000, 4096, 0),
                     S_NOT_SUPPORTED);
    assert_int_equal(memory_in_use(&rig), 0);
    /* more than there is */
    half = nvgpu_chip_find("sm_90", 0)->vidmem_bytes / 2 + HUGE;
    assert_int_equal(rig_video(&rig, half, &big), 0);
    assert_int_equal(rig_video(&rig, half, &more), S_NO_MEMORY);
    assert_int_equal(memory_in_use(&rig), half);
    assert_int_equal(rig_free(&rig, big), 0);
    assert_int_equal(rig_video(&rig, half, &more), 0);
    rig_fini(&rig);
}

/* RM rounds sizes up, and tells. */
static void
test_rounding(void **state)
{
    struct nv_memory_alloc params = {
        .flags = 0x1c101, .attr = VIDEO_ATTR, .size = HUGE + 1};
    struct rig rig;
    uint32_t handle = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_alloc(&rig, rig.device, NV01_MEMORY_LOCAL_USER,
                               NV_S_NV_MEMORY_ALLOC, &params, &handle),
                     0);
    assert_int_equal(params.size, 2 * HUGE);
    assert_int_equal(params.limit, 2 * HUGE - 1);
    assert_int_equal(memory_in_use(&rig), 2 * HUGE);
    rig_fini(&rig);
}

/* ---- the CPU's view ------------------------------------------------------ */

static int
mmap_errno(const struct rig *rig, const struct kio_file *file,
           size_t size_bytes, int flags, uint64_t offset)
{
    void *p = NULL;
    int result =
        rig->kio->ops->mmap(rig->kio, &p, size_bytes, PROT_READ | PROT_WRITE,
                            flags, file->fd, offset);

    if (result == 0)
        assert_int_equal(rig->kio->ops->munmap(rig->kio, p, size_bytes), 0);
    return -result;
}

static void
test_cpu_maps(void **state)
{
    struct kio_file ctl, node;
    struct rig rig;
    uint64_t linear;
    uint32_t sys = 0, video = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_system(&rig, 0x3000, &sys), 0);
    assert_int_equal(rig_video(&rig, HUGE, &video), 0);
    rig_open(&rig, "/dev/nvidiactl", &ctl);
    rig_open(&rig, "/dev/nvidia0", &node);
    /* nothing set up yet */
    assert_int_equal(mmap_errno(&rig, &node, 4096, MAP_SHARED, 0), EINVAL);
    /* wrong kinds of file, wrong handles, wrong windows */
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 0, HUGE, &ctl, NULL),
                     S_ARGUMENT);
    assert_int_equal(rig_map_cpu(&rig, rig.device, sys, 0, 4096, &node, NULL),
                     S_ARGUMENT);
    assert_int_equal(rig_map_cpu(&rig, rig.client, video, 0, HUGE, &node, NULL),
                     S_DEVICE);
    assert_int_equal(rig_map_cpu(&rig, rig.device, 0x99, 0, HUGE, &node, NULL),
                     S_HANDLE);
    assert_int_equal(
        rig_map_cpu(&rig, rig.device, rig.space, 0, HUGE, &node, NULL),
        S_HANDLE);
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 0, 0, &node, NULL),
                     S_LIMIT);
    assert_int_equal(
        rig_map_cpu(&rig, rig.device, video, 4096, HUGE, &node, NULL), S_LIMIT);
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 5, 4096, &node, NULL),
                     S_OFFSET);
    /* right, and once for a file */
    assert_int_equal(
        rig_map_cpu(&rig, rig.device, video, 4096, 8192, &node, &linear), 0);
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 0, 4096, &node, NULL),
                     S_IN_USE);
    assert_int_equal(mmap_errno(&rig, &node, 4096, MAP_SHARED, 0), ENXIO);
    assert_int_equal(mmap_errno(&rig, &node, 8192, MAP_SHARED, 4096), EINVAL);
    assert_int_equal(mmap_errno(&rig, &node, 8192, MAP_PRIVATE, 0), EINVAL);
    assert_int_equal(mmap_errno(&rig, &node, 8192, MAP_SHARED, 0), 0);
    /* system memory may be mapped in part */
    assert_int_equal(rig_map_cpu(&rig, rig.device, sys, 0, 0x3000, &ctl, NULL),
                     0);
    assert_int_equal(mmap_errno(&rig, &ctl, 0x4000, MAP_SHARED, 0), ENXIO);
    assert_int_equal(mmap_errno(&rig, &ctl, 0x1000, MAP_SHARED, 0), 0);
    /* memory that went is not mapped any more */
    assert_int_equal(rig_free(&rig, sys), 0);
    assert_int_equal(mmap_errno(&rig, &ctl, 0x1000, MAP_SHARED, 0), EINVAL);
    kio_close(&ctl);
    kio_close(&node);
    rig_fini(&rig);
}

static uint32_t
unmap_cpu(const struct rig *rig, uint32_t memory, uint64_t linear)
{
    struct nv_os34 call = {
        .hClient = rig->client,
        .hDevice = rig->device,
        .hMemory = memory,
        .pLinearAddress = linear,
    };

    return rig_escape(rig, &rig->ctl, NV_ESC_RM_UNMAP_MEMORY, NV_S_NV_OS34,
                      &call);
}

/* BAR1 is a window of its size. */
static void
test_bar(void **state)
{
    uint64_t bar = nvgpu_chip_find("sm_90", 0)->bar1_bytes, linear;
    struct kio_file a, b;
    struct rig rig;
    uint32_t video = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_video(&rig, bar, &video), 0);
    rig_open(&rig, "/dev/nvidia0", &a);
    rig_open(&rig, "/dev/nvidia0", &b);
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 0, bar, &a, &linear),
                     0);
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 0, 4096, &b, NULL),
                     S_RESOURCES);
    assert_int_equal(unmap_cpu(&rig, video, linear + 1), S_ADDRESS);
    assert_int_equal(unmap_cpu(&rig, video, linear), 0);
    assert_int_equal(unmap_cpu(&rig, video, linear), S_ADDRESS);
    assert_int_equal(rig_map_cpu(&rig, rig.device, video, 0, 4096, &b, NULL),
                     0);
    kio_close(&a);
    kio_close(&b);
    rig_fini(&rig);
}

static void
read_in_child(const volatile uint8_t *at)
{
    /* not ours to report: what the sanitizers would print is expected */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    _exit(*at == 0x77 ? 0 : 1);
}

/* Fresh memory is not zeros; both see one memory; freed memory is gone. */
static void
test_contents(void **state)
{
    struct rig rig;
    pid_t child;
    int status;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_MEMORY);
    assert_int_not_equal(*rig_word(&rig, 0xa000), 0);
    assert_int_not_equal(*rig_word(&rig, 0xa000), 0xffffffff);
    assert_int_equal(*rig_word(&rig, 0x8000), 0);
    rig.cpu[0] = 0x77;
    assert_int_equal(rig_free(&rig, rig.memory), 0);
    assert_int_equal(mapped_in_use(&rig), 0);
    child = fork();
    if (child == 0)
        read_in_child(rig.cpu);
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFSIGNALED(status));
    rig_fini(&rig);
}

/* Mappings over one another, and in pieces, as a process may do it. */
static void
test_mapping_counts(void **state)
{
    struct kio_file file;
    struct sim_nv_usage usage;
    struct rig rig;
    uint32_t sys = 0;
    void *pool, *p;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_system(&rig, 0x4000, &sys), 0);
    rig_open(&rig, "/dev/nvidiactl", &file);
    assert_int_equal(rig_map_cpu(&rig, rig.device, sys, 0, 0x4000, &file, NULL),
                     0);
    assert_int_equal(kio_mmap(rig.kio, NULL, NULL, 0x20000, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0,
                              &pool),
                     BELL_OK);
    assert_int_equal(kio_mmap(rig.kio, &file, (uint8_t *)pool + 0x4000, 0x4000,
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, 0,
                              &p),
                     BELL_OK);
    assert_ptr_equal(p, (uint8_t *)pool + 0x4000);
    memset(p, 1, 0x4000);
    sim_nv_usage(rig.kio, &usage);
    assert_int_equal(usage.mappings, 3); /* before, it, behind */
    kio_munmap(rig.kio, (uint8_t *)pool + 0x5000, 0x1000);
    sim_nv_usage(rig.kio, &usage);
    assert_int_equal(usage.mappings, 4);
    kio_munmap(rig.kio, pool, 0x20000);
    sim_nv_usage(rig.kio, &usage);
    assert_int_equal(usage.mappings, 0);
    kio_close(&file);
    rig_fini(&rig);
}

/* ---- RM_ALLOC_MEMORY ----------------------------------------------------- */

static uint32_t
alloc_memory(const struct rig *rig, uint32_t nv_class, uint32_t flags,
             uint64_t addr, uint64_t size_bytes, int fd, uint32_t handle)
{
    struct nv_os02_fd call = {
        .params =
            {
                .hRoot = rig->client,
                .hObjectParent = rig->device,
                .hObjectNew = handle,
                .hClass = nv_class,
                .flags = flags,
                .pMemory = addr,
                .limit = size_bytes - 1,
            },
        .fd = fd,
    };

    return rig_escape(rig, &rig->node, NV_ESC_RM_ALLOC_MEMORY, NV_S_NV_OS02_FD,
                      &call);
}

static void
test_host_pages(void **state)
{
    struct kio_file file, node;
    struct rig rig;
    int registered;
    uint8_t *p;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    rig_open(&rig, "/dev/nvidiactl", &file);
    rig_open(&rig, "/dev/nvidia0", &node);
    assert_int_equal(
        alloc_memory(&rig, NV01_MEMORY_SYSTEM, 0x1010, 0, 0x2000, file.fd, 0),
        S_HANDLE);
    assert_int_equal(alloc_memory(&rig, NV01_MEMORY_SYSTEM, 0x1110, 0, 0x2000,
                                  file.fd, 0x50),
                     S_FLAGS);
    assert_int_equal(alloc_memory(&rig, NV01_MEMORY_SYSTEM, 0x1010, 0, 0x2000,
                                  node.fd, 0x50),
                     S_ARGUMENT);
    assert_int_equal(alloc_memory(&rig, NV01_MEMORY_LOCAL_USER, 0x1010, 0,
                                  0x2000, file.fd, 0x50),
                     S_CLASS);
    assert_int_equal(alloc_memory(&rig, NV01_MEMORY_SYSTEM, 0x1010, 0, 0x2000,
                                  file.fd, rig.space),
                     S_DUPLICATE);
    assert_int_equal(memory_in_use(&rig), 0);
    assert_int_equal(alloc_memory(&rig, NV01_MEMORY_SYSTEM, 0x1010, 0, 0x2000,
                                  file.fd, 0x50),
                     0);
    p = rig_map_file(&rig, &file, 0x2000);
    memset(p, 3, 0x2000);
    kio_munmap(rig.kio, p, 0x2000);
    /* not a file that was registered */
    registered = rig.node.fd;
    rig.node.fd = node.fd;
    assert_int_equal(alloc_memory(&rig, NV01_MEMORY_SYSTEM, 0x1010, 0, 0x2000,
                                  file.fd, 0x51),
                     S_CLIENT);
    rig.node.fd = registered;
    kio_close(&file);
    kio_close(&node);
    rig_fini(&rig);
}

static void
test_user_pages(void **state)
{
    const uint32_t os = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, good = 0x40001010;
    uint64_t va = 0;
    uint32_t carrier = 0;
    struct kio_file file;
    struct rig rig;
    uint8_t *pages = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t addr = (uintptr_t)pages;

    (void)state;
    assert_true(pages != MAP_FAILED);
    assert_int_equal(munmap(pages + 0x3000, 0x1000), 0);
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_ALL);
    assert_int_equal(alloc_memory(&rig, os, good, addr + 8, 0x1000, -1, 0x50),
                     S_ADDRESS);
    assert_int_equal(alloc_memory(&rig, os, good, 0, 0x1000, -1, 0x50),
                     S_ADDRESS);
    assert_int_equal(alloc_memory(&rig, os, good, addr, 0x4000, -1, 0x50),
                     S_ADDRESS);
    assert_int_equal(alloc_memory(&rig, os, 0x1010, addr, 0x1000, -1, 0x50),
                     S_FLAGS);
    assert_int_equal(alloc_memory(&rig, os, 0x40002010, addr, 0x1000, -1, 0x50),
                     S_FLAGS);
    assert_int_equal(alloc_memory(&rig, os, 0x40001110, addr, 0x1000, -1, 0x50),
                     S_FLAGS);
    assert_int_equal(alloc_memory(&rig, os, good, addr, 0x3000, -1, 0x50), 0);
    /* it is mapped already, for the CPU */
    rig_open(&rig, "/dev/nvidiactl", &file);
    assert_int_equal(
        rig_map_cpu(&rig, rig.device, 0x50, 0, 0x1000, &file, NULL),
        S_NOT_SUPPORTED);
    kio_close(&file);
    /* the card writes to it */
    memset(pages, 0, 0x3000);
    assert_int_equal(rig_carrier(&rig, 0x3000, 0x10000, &carrier, NULL), 0);
    assert_int_equal(rig_map_gpu(&rig, carrier, 0x50, 0, 0x3000, SNOOP, &va),
                     0);
    rig_release(&rig, va + 0x2000, 0x1234);
    assert_true(rig_wait((uint32_t *)(void *)(pages + 0x2000), 0x1234));
    rig_fini(&rig);
    munmap(pages, 0x3000);
}

/* ---- address spaces ------------------------------------------------------ */

static void
test_carriers(void **state)
{
    struct nv_memory_alloc params = {.size = 0x10000, .flags = 1};
    struct rig rig;
    uint32_t a = 0, b = 0, c = 0;
    uint64_t va_a, va_b;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    params.hVASpace = rig.space;
    assert_int_equal(rig_alloc(&rig, rig.device, NV50_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_ALLOC, &params, &a),
                     S_FLAGS);
    assert_int_equal(rig_carrier(&rig, 0x10000, 0x10000, &a, &va_a), 0);
    assert_int_equal(rig_carrier(&rig, HUGE, HUGE, &b, &va_b), 0);
    assert_int_not_equal(va_a, va_b);
    assert_int_equal(va_b % HUGE, 0);
    /* where it is wanted: not where another is */
    params.flags = 0x80000 | 0x10;
    params.offset = va_b + 0x10000;
    assert_int_equal(rig_alloc(&rig, rig.device, NV50_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_ALLOC, &params, &c),
                     S_RESOURCES);
    params.offset = (uint64_t)1 << 39;
    assert_int_equal(rig_alloc(&rig, rig.device, NV50_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_ALLOC, &params, &c),
                     0);
    assert_true(params.offset == (uint64_t)1 << 39);
    params.hVASpace = 0x98;
    b = 0;
    assert_int_equal(rig_alloc(&rig, rig.device, NV50_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_ALLOC, &params, &b),
                     S_HANDLE);
    params.hVASpace = 0; /* the device's own space */
    assert_int_equal(rig_alloc(&rig, rig.device, NV50_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_ALLOC, &params, &b),
                     0);
    rig_fini(&rig);
}

/* What RM makes of a carrier at a fixed address: RM's own arithmetic, worked
 * out by hand from its source (sim/nv/rm/rm_space.c says which). */
static void
test_carrier_arithmetic(void **state)
{
    enum {
        FORCE = 0x100,
        HINT = 0x80,
        P4K = 1 << 23,
        BIG = 2 << 23,
        K64 = 0x10000,
        K128 = 0x20000,
        MIB = 1 << 20
    };
    /* addresses as offsets from 64 GiB, where nothing else is */
    static const struct {
        const char *chip;
        uint32_t flags, attr;
        uint64_t align, at, size, want_at, want_size; /* 0: refused */
        uint32_t want;
    } rows[] = {
        /* below 2 MiB: 64 KiB pages; without a flag `alignment` is nothing */
        {"sm_80", 0, 0, HUGE, 0, 0x1000, 0, K64, 0},
        {"sm_80", 0, 0, 0x1000, K64, 3 * MIB / 2, K64, 3 * MIB / 2, 0},
        {"sm_80", 0, 0, 0, K64, K64 + 1, K64, K128, 0},
        /* an address that is not a multiple of theirs moves down */
        {"sm_80", 0, 0, K64, K64 + 0x3000, 0x4000, K64, K64, 0},
        /* from 2 MiB on: 2 MiB pages, the size as well */
        {"sm_80", 0, 0, K64, 3 * K64, 2 * MIB, 0, 2 * MIB, 0},
        {"sm_80", 0, 0, K64, 5 * MIB, 3 * MIB, 4 * MIB, 4 * MIB, 0},
        /* a forced alignment is kept where pages allow it */
        {"sm_80", FORCE, 0, K64, 3 * K64, 2 * MIB, 0, 2 * MIB, 0},
        {"sm_80", FORCE, P4K, K64, 3 * K64 + 0x1000, 0x1000, 3 * K64, 0x1000,
         0},
        {"sm_80", HINT, 0, K128, 3 * K64, K64, K128, K64, 0},
        {"sm_80", FORCE, P4K, 0x1800, 0, 0x1000, 0, 0, S_ARGUMENT},
        /* 4 KiB pages: the address and the size as they are... */
        {"sm_80", FORCE, P4K, 0x1000, 0x3000, 5 * MIB, 0x3000, 5 * MIB, 0},
        {"sm_90", FORCE, P4K, 0x1000, K64, 64 * MIB, K64, 64 * MIB, 0},
        /* ...but for the pages of compression, where it is not forced */
        {"sm_80", 0, P4K, 0x1000, K64, 5 * MIB, K64, 5 * MIB, 0},
        {"sm_80", 0, P4K, 0x1000, 0x3000, 5 * MIB, 0, 0, S_RESOURCES},
        {"sm_90", 0, P4K, 0x1000, K64, 5 * MIB, 0, 0, S_RESOURCES},
        {"sm_90", 0, P4K, 0x1000, K128, 5 * MIB, K128, 5 * MIB, 0},
        {"sm_90", 0, 0, K64, K64, K64, 0, 0, S_RESOURCES},
        /* pages that are asked for */
        {"sm_80", 0, BIG, K64, 3 * K64, 5 * MIB, 3 * K64, 5 * MIB, 0},
    };
    const uint64_t base = (uint64_t)1 << 36;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct nv_memory_alloc params = {
            .flags = 0x80000 | 0x10 | rows[i].flags,
            .attr = 1u << 25 | 1u << 27 | rows[i].attr,
            .size = rows[i].size,
            .alignment = rows[i].align,
            .offset = base + rows[i].at,
        };
        uint32_t handle = 0, status;
        struct rig rig;

        rig_init(&rig, rows[i].chip);
        rig_run(&rig, RIG_SPACE);
        params.hVASpace = rig.space;
        status = rig_alloc(&rig, rig.device, NV50_MEMORY_VIRTUAL,
                           NV_S_NV_MEMORY_ALLOC, &params, &handle);
        if (status != rows[i].want)
            fail_msg("row %zu: status 0x%x", i, status);
        if (status == 0 && (params.offset != base + rows[i].want_at ||
                            params.size != rows[i].want_size))
            fail_msg("row %zu: 0x%llx bytes at 0x%llx", i,
                     (unsigned long long)params.size,
                     (unsigned long long)params.offset);
        rig_fini(&rig);
    }
}

static void
test_gpu_maps(void **state)
{
    struct rig rig;
    uint32_t video = 0, sys = 0, a = 0, b = 0;
    uint64_t base, va = 0, at;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_video(&rig, 2 * HUGE, &video), 0);
    assert_int_equal(rig_system(&rig, 0x4000, &sys), 0);
    assert_int_equal(rig_carrier(&rig, 16 * HUGE, HUGE, &a, &base), 0);
    assert_int_equal(rig_carrier(&rig, 0x4000, 0x1000, &b, NULL), 0);
    /* a first one without a place, and a second that meets it */
    assert_int_equal(rig_map_gpu(&rig, a, video, 0, HUGE, 0, &va), 0);
    assert_int_equal(va, base);
    assert_int_equal(rig_map_gpu(&rig, a, video, HUGE, HUGE, 0, &va),
                     S_ARGUMENT);
    at = base + HUGE;
    assert_int_equal(rig_map_gpu(&rig, a, video, HUGE, HUGE, FIXED, &at), 0);
    assert_int_equal(mapped_in_use(&rig), 2 * HUGE);
    /* fixed places that are not free, aligned, or in the carrier */
    assert_int_equal(rig_map_gpu(&rig, a, video, 0, HUGE, FIXED, &at),
                     S_ARGUMENT);
    at = base + 2 * HUGE + 0x10000;
    assert_int_equal(rig_map_gpu(&rig, a, video, 0, HUGE, FIXED, &at),
                     S_OFFSET);
    assert_int_equal(
        rig_map_gpu(&rig, a, video, 0, 0x10000, FIXED | PAGES(2), &at), 0);
    at = base + 16 * HUGE;
    assert_int_equal(rig_map_gpu(&rig, a, video, 0, HUGE, FIXED, &at),
                     S_ARGUMENT);
    at = base + 4 * HUGE;
    assert_int_equal(
        rig_map_gpu(&rig, a, sys, 0, 0x4000, FIXED | SNOOP | PAGES(1), &at), 0);
    at += HUGE;
    assert_int_equal(
        rig_map_gpu(&rig, a, sys, 0, 0x4000, FIXED | PAGES(4), &at),
        S_ARGUMENT);
    assert_int_equal(rig_map_gpu(&rig, a, sys, 0, 0x5000, FIXED, &at), S_LIMIT);
    assert_int_equal(rig_map_gpu(&rig, a, sys, 0, 0, FIXED, &at), S_LIMIT);
    assert_int_equal(
        rig_map_gpu(&rig, a, sys, 0, 0x1000, FIXED | 1u << 30, &at), S_FLAGS);
    assert_int_equal(rig_map_gpu(&rig, a, 0x99, 0, 0x1000, FIXED, &at),
                     S_HANDLE);
    assert_int_equal(rig_map_gpu(&rig, sys, sys, 0, 0x1000, FIXED, &at),
                     S_HANDLE);
    /* taking away: the right one only */
    at = base + HUGE;
    assert_int_equal(rig_unmap_gpu(&rig, b, video, at, HUGE), S_OFFSET);
    assert_int_equal(rig_unmap_gpu(&rig, a, sys, at, HUGE), S_OFFSET);
    assert_int_equal(rig_unmap_gpu(&rig, a, video, at + 4096, 0), S_OFFSET);
    assert_int_equal(rig_unmap_gpu(&rig, a, video, at, 0x10000),
                     S_NOT_SUPPORTED);
    assert_int_equal(rig_unmap_gpu(&rig, a, video, at, HUGE), 0);
    assert_int_equal(rig_unmap_gpu(&rig, a, video, at, 0), S_OFFSET);
    assert_int_equal(rig_map_gpu(&rig, a, video, HUGE, HUGE, FIXED, &at), 0);
    /* memory, or a carrier, takes its mappings along */
    assert_int_equal(mapped_in_use(&rig), 2 * HUGE + 0x14000);
    assert_int_equal(rig_free(&rig, video), 0);
    assert_int_equal(mapped_in_use(&rig), 0x4000);
    assert_int_equal(rig_free(&rig, a), 0);
    assert_int_equal(mapped_in_use(&rig), 0);
    rig_fini(&rig);
}

/* Class 0x70: any address of the space, chosen by RM or fixed. */
static void
test_dynamic(void **state)
{
    struct nv_memory_virtual_alloc params = {0};
    struct rig rig;
    uint32_t video = 0, dynamic = 0, carrier = 0;
    uint64_t a = 0, b = 0, c = 0x7000000000, held;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    params.hVASpace = rig.space;
    assert_int_equal(rig_carrier(&rig, HUGE, HUGE, &carrier, &held), 0);
    assert_int_equal(rig_alloc(&rig, rig.device, NV01_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_VIRTUAL_ALLOC, &params, &dynamic),
                     0);
    assert_int_equal(rig_video(&rig, HUGE, &video), 0);
    assert_int_equal(rig_map_gpu(&rig, dynamic, video, 0, HUGE, 0, &a), 0);
    assert_int_equal(rig_map_gpu(&rig, dynamic, video, 0, HUGE, 0, &b), 0);
    assert_int_equal(rig_map_gpu(&rig, dynamic, video, 0, HUGE, FIXED, &c), 0);
    assert_true(a != b && a != held && b != held);
    assert_true(c == 0x7000000000);
    assert_int_equal(mapped_in_use(&rig), 3 * HUGE);
    assert_int_equal(rig_free(&rig, rig.space), 0);
    assert_int_equal(mapped_in_use(&rig), 0);
    /* went with it */
    assert_int_equal(rig_control_sized(&rig, dynamic, 0, NULL, 0), S_HANDLE);
    assert_int_equal(rig_control_sized(&rig, carrier, 0, NULL, 0), S_HANDLE);
    rig_fini(&rig);
}

static void
test_spaces(void **state)
{
    struct nv_memory_virtual_alloc dynamic = {.limit = 0};
    struct nv_vaspace_alloc params = {.index = 1};
    struct rig rig;
    uint32_t space = 0, video = 0, carrier = 0;
    uint64_t va = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_SPACE);
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_VASPACE_A,
                               NV_S_NV_VASPACE_ALLOC, &params, &space),
                     S_NOT_SUPPORTED);
    params = (struct nv_vaspace_alloc){.flags = 0x1000};
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_VASPACE_A,
                               NV_S_NV_VASPACE_ALLOC, &params, &space),
                     S_FLAGS);
    params = (struct nv_vaspace_alloc){.vaBase = 0x100000000, .vaSize = HUGE};
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_VASPACE_A,
                               NV_S_NV_VASPACE_ALLOC, &params, &space),
                     0);
    rig.space = space;
    assert_int_equal(rig_carrier(&rig, 2 * HUGE, HUGE, &carrier, NULL),
                     S_RESOURCES);
    assert_int_equal(rig_carrier(&rig, HUGE, HUGE, &carrier, &va), 0);
    assert_true(va == 0x100000000);
    /* one of UVM's takes nothing from RM */
    space = 0;
    params = (struct nv_vaspace_alloc){.flags = 0x48};
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_VASPACE_A,
                               NV_S_NV_VASPACE_ALLOC, &params, &space),
                     0);
    rig.space = space;
    carrier = 0;
    assert_int_equal(rig_video(&rig, HUGE, &video), 0);
    assert_int_equal(rig_carrier(&rig, HUGE, HUGE, &carrier, NULL),
                     S_RESOURCES);
    dynamic.hVASpace = space;
    assert_int_equal(rig_alloc(&rig, rig.device, NV01_MEMORY_VIRTUAL,
                               NV_S_NV_MEMORY_VIRTUAL_ALLOC, &dynamic,
                               &carrier),
                     0);
    assert_int_equal(rig_map_gpu(&rig, carrier, video, 0, HUGE, 0, &va),
                     S_NOT_SUPPORTED);
    rig_fini(&rig);
}

/* ---- two cards ----------------------------------------------------------- */

static uint32_t
dup_object(const struct rig *to, uint32_t parent, uint32_t client,
           uint32_t object, uint32_t *handle)
{
    struct nv_os55 call = {
        .hClient = to->client,
        .hParent = parent,
        .hObject = *handle,
        .hClientSrc = client,
        .hObjectSrc = object,
    };
    uint32_t status =
        rig_escape(to, &to->ctl, NV_ESC_RM_DUP_OBJECT, NV_S_NV_OS55, &call);

    if (status == 0)
        *handle = call.hObject;
    return status;
}

/* NVOS46_FLAGS_P2P_ENABLE_NOSLI */
#define P2P (2u << 20)

/* The rig's card and the one of that subdevice are peers. */
static uint32_t
pair_cards(const struct rig *rig, uint32_t subdevice, uint32_t mask)
{
    struct nv503b_alloc params = {
        .hSubDevice = rig->subdevice,
        .hPeerSubDevice = subdevice,
        .subDevicePeerIdMask = mask,
    };
    uint32_t pair = 0;

    return rig_alloc(rig, rig->client, NV50_P2P, NV_S_NV503B_ALLOC, &params,
                     &pair);
}

/* The first card's channel writes to the second one's memory. */
static void
test_peers(void **state)
{
    struct nv0080_alloc device = {.deviceId = 1};
    struct kio_file node, view;
    struct rig rig, stranger;
    uint32_t peer = 0, memory = 0, copy = 0, carrier = 0, other = 0, first;
    uint32_t sub = 0;
    uint64_t va = 0;
    uint32_t *cpu;

    (void)state;
    rig_init(&rig, "sm_90*2");
    rig_init(&stranger, "sm_90*2");
    rig_run(&rig, RIG_ALL);
    rig_run(&stranger, RIG_DEVICE);
    rig_open(&rig, "/dev/nvidia1", &node);
    rig_open(&rig, "/dev/nvidia1", &view);
    assert_int_equal(rig_alloc(&rig, rig.client, NV01_DEVICE_0,
                               NV_S_NV0080_ALLOC, &device, &peer),
                     0);
    first = rig.device;
    rig.device = peer;
    assert_int_equal(rig_video(&rig, HUGE, &memory), 0);
    /* mapped through the card that it is of */
    assert_int_equal(rig_map_cpu(&rig, peer, memory, 0, HUGE, &rig.node, NULL),
                     S_ARGUMENT);
    assert_int_equal(rig_map_cpu(&rig, first, memory, 0, HUGE, &view, NULL),
                     S_DEVICE);
    assert_int_equal(rig_map_cpu(&rig, peer, memory, 0, HUGE, &view, NULL), 0);
    cpu = rig_map_file(&rig, &view, HUGE);
    *cpu = 0;
    rig.device = first;
    assert_int_equal(rig_carrier(&rig, HUGE, HUGE, &carrier, NULL), 0);
    /* without the flag for peers; and before the cards are some */
    assert_int_equal(rig_map_gpu(&rig, carrier, memory, 0, HUGE, 0, &va),
                     S_STATE);
    assert_int_equal(rig_map_gpu(&rig, carrier, memory, 0, HUGE, P2P, &va),
                     S_STATE);
    assert_int_equal(rig_map_gpu(&rig, carrier, rig.memory, 0, HUGE, P2P, &va),
                     S_STATE);
    assert_int_equal(dup_object(&rig, rig.client, rig.client, memory, &copy),
                     S_PARENT);
    assert_int_equal(dup_object(&rig, rig.device, 0x5, memory, &copy),
                     S_CLIENT);
    assert_int_equal(dup_object(&rig, rig.device, rig.client, 0x5, &copy),
                     S_HANDLE);
    assert_int_equal(dup_object(&rig, rig.device, rig.client, rig.space, &copy),
                     S_NOT_SUPPORTED);
    assert_int_equal(
        dup_object(&stranger, stranger.device, rig.client, memory, &other), 0);
    assert_int_equal(rig_free(&stranger, other), 0);
    assert_int_equal(dup_object(&rig, rig.device, rig.client, memory, &copy),
                     0);
    /* below this card's device it would be other memory */
    assert_int_equal(rig_map_gpu(&rig, carrier, copy, 0, HUGE, 0, &va),
                     S_STATE);
    assert_int_equal(rig_free(&rig, copy), 0);
    copy = 0;
    assert_int_equal(dup_object(&rig, peer, rig.client, memory, &copy), 0);
    assert_int_equal(pair_cards(&rig, peer, 0), S_ARGUMENT);
    assert_int_equal(
        rig_alloc(&rig, peer, NV20_SUBDEVICE_0, NO_STRUCT, NULL, &sub), 0);
    assert_int_equal(pair_cards(&rig, rig.subdevice, 0), S_NOT_SUPPORTED);
    assert_int_equal(pair_cards(&rig, sub, 3), S_ARGUMENT);
    assert_int_equal(pair_cards(&rig, sub, 0), 0);
    assert_int_equal(rig_map_gpu(&rig, carrier, copy, 0, HUGE, P2P, &va), 0);
    /* the copy keeps the memory */
    assert_int_equal(rig_free(&rig, memory), 0);
    rig_release(&rig, va, 77);
    assert_true(rig_wait(cpu, 77));
    kio_munmap(rig.kio, cpu, HUGE);
    kio_close(&node);
    kio_close(&view);
    rig_close(&stranger);
    kio_destroy(stranger.kio);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_cpu_maps),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_contents),
        cmocka_unit_test(test_mapping_counts),
        cmocka_unit_test(test_host_pages),
        cmocka_unit_test(test_user_pages),
        cmocka_unit_test(test_carriers),
        cmocka_unit_test(test_carrier_arithmetic),
        cmocka_unit_test(test_gpu_maps),
        cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_peers),
    };

    if (log_init() != BELL_OK)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
