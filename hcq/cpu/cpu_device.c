/* The CPU device: what it is, its memory, signals and programs. */
#include "hcq/cpu/cpu_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"

/* How long an idle thread spins. A futex sleep and wake costs 5 to 50 us, a
 * launch 0.1 us: spinning this long bridges the gaps between the launches of
 * a busy program, and the time its host thread takes to wake up.
 * BELL_SPIN_US overrides it. */
#define SPIN_DEFAULT_NS 50000u
#define SPIN_MAX_US     1000000u

#define MMAP_MIN_BYTES (1u << 20)
#define HUGE_BYTES     (2u << 20)
#define COLOR_BYTES    256u  /* where big buffers begin, in COLORED_BYTES */
#define COLORED_BYTES  4096u /* whole pages of every kernel: see below */

/* Grids: the product stays below 2^63. */
#define MAX_GRID_X  INT32_MAX
#define MAX_GRID_YZ 65535u

/* ---- what it is ---------------------------------------------------------- */

#if defined(__x86_64__)
static void
find_model(char *text, size_t size_bytes)
{
    unsigned regs[13] = {0}, i;
    const char *name = (const char *)regs;

    for (i = 0; i < 3; i++) {
        unsigned *r = regs + i * 4;
        if (!__get_cpuid(0x80000002u + i, r, r + 1, r + 2, r + 3)) {
            snprintf(text, size_bytes, "x86-64 processor");
            return;
        }
    }
    name += strspn(name, " ");
    snprintf(text, size_bytes, "%s", name);
}

static const char *
find_arch(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return __builtin_cpu_supports("sse4.2") ? "x86-64-v2" : "x86-64";
    if (!__builtin_cpu_supports("avx512f") ||
        !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") ||
        !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return "x86-64-v3";
    return "x86-64-v4";
}
#elif defined(__aarch64__)
/* src: Linux 6.12, arch/arm64/include/asm/cputype.h */
static const struct part {
    unsigned number; /* bits 31:24 of MIDR, and 15:4 */
    const char *name;
} parts[] = {
    {0x41d03, "Cortex-A53"},  {0x41d08, "Cortex-A72"},
    {0x41d0b, "Cortex-A76"},  {0x41d0c, "Neoverse N1"},
    {0x41d40, "Neoverse V1"}, {0x41d41, "Cortex-A78"},
    {0x41d44, "Cortex-X1"},   {0x41d49, "Neoverse N2"},
    {0x41d4b, "Cortex-A78C"}, {0x41d4c, "Cortex-X1C"},
    {0x41d4f, "Neoverse V2"}, {0x41d84, "Neoverse V3"},
    {0x41d85, "Cortex-X925"}, {0xc0ac3, "Ampere-1"},
    {0x51001, "Oryon"},
};

/* The first core's, so that all threads give one answer where cores differ; 0:
 * the kernel does not tell. */
static uint64_t
read_midr(void)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/regs/identification/"
                       "midr_el1",
                       "r");
    unsigned long long midr = 0;

    if (file) {
        if (fscanf(file, "%llx", &midr) != 1)
            midr = 0;
        fclose(file);
    } else if (getauxval(AT_HWCAP) & HWCAP_CPUID) {
        __asm__("mrs %0, midr_el1" : "=r"(midr));
    }
    return midr;
}

/* What the kernel allows is part of it: code for this very processor runs where
 * the same is there. */
static void
find_model(char *text, size_t size_bytes)
{
    uint64_t midr = read_midr();
    unsigned number = (unsigned)(midr >> 12 & 0xff000) | (midr >> 4 & 0xfff);
    char name[24];
    size_t i;

    snprintf(name, sizeof(name), "AArch64 %05x", number);
    for (i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i].number == number)
            snprintf(name, sizeof(name), "%s", parts[i].name);
    }
    snprintf(text, size_bytes, "%s (%lx/%lx)", name, getauxval(AT_HWCAP),
             getauxval(AT_HWCAP2));
}

/* The levels of render/llvm/host_target.c. */
static const char *
find_arch(void)
{
    unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    const unsigned long half = HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDDP |
                               HWCAP_ATOMICS | HWCAP_ASIMDRDM;

    if ((caps & half) != half)
        return "armv8-a";
    return caps2 & HWCAP2_BF16 && caps2 & HWCAP2_I8MM ? "armv8.6-a"
                                                      : "armv8.2-a";
}
#else
static void
find_model(char *text, size_t size_bytes)
{
    snprintf(text, size_bytes, "host processor");
}

static const char *
find_arch(void)
{
    return "unknown";
}
#endif

static void
cpu_fill_info(struct hcq_device_info *info)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

    memset(info, 0, sizeof(*info));
    info->struct_size = sizeof(*info);
    info->flags =
        HCQ_DEVICE_HOST_MEMORY | HCQ_DEVICE_HOST_CPU | HCQ_DEVICE_POLL_MASKS;
    snprintf(info->name, sizeof(info->name), "CPU:0");
    snprintf(info->backend, sizeof(info->backend), "CPU");
    snprintf(info->arch, sizeof(info->arch), "%s", find_arch());
    find_model(info->model, sizeof(info->model));
    info->n_units = thread_cpu_count();
    info->max_grid[0] = MAX_GRID_X;
    info->max_grid[1] = info->max_grid[2] = MAX_GRID_YZ;
    info->max_local[0] = info->max_local[1] = info->max_local[2] = 1;
    info->max_local_total = 1;
    info->max_shared_bytes = 0;
    info->max_args = HCQ_ARGS_MAX;
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * page_bytes;
    info->max_buffer_bytes = info->memory_bytes;
    info->timestamp_hz = 1000000000u;
}

static bell_status
cpu_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    if (idx != 0)
        return BELL_E_NO_DEVICE;
    snprintf(out->name, sizeof(out->name), "CPU:0");
    find_model(out->description, sizeof(out->description));
    out->usable = true;
    return BELL_OK;
}

/* ---- memory -------------------------------------------------------------- */

/* Big buffers get whole huge pages where the system has them. Where two buffers
 * begin at the same offset in a page, a load from one waits for a store of the
 * same row to the other, 4 KiB away or a multiple; so they begin at differing
 * multiples of COLOR_BYTES. observed (AMD EPYC, Zen 3, 2026-11-30): transposed
 * copies of 1025 x 1025 and 2049 x 2049 took 1.6 times as long as those of
 * other sizes nearby. */
static void *
map_big(struct cpu_device *dev, uint64_t size_bytes)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t whole = align_up(size_bytes + COLORED_BYTES, page_bytes);
    uint64_t align = size_bytes >= HUGE_BYTES ? HUGE_BYTES : page_bytes;
    uint64_t total = whole + align - page_bytes;
    uint32_t n = atomic_fetch_add(&dev->n_big, 1);
    uint8_t *map, *start, *end;

    map = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    start = (uint8_t *)(uintptr_t)align_up((uintptr_t)map, align);
    end = start + whole;
    munmap(map, (size_t)(start - map)); /* of nothing: refused */
    munmap(end, (size_t)(map + total - end));
    if (size_bytes >= HUGE_BYTES)
        madvise(start, (size_t)size_bytes, MADV_HUGEPAGE);
    return start + n * COLOR_BYTES % COLORED_BYTES;
}

/* Memory of a file that other processes may have, too. */
static bell_status
alloc_shared(struct hcq_device *dev, uint64_t size_bytes,
             struct hcq_backing *out)
{
    int fd = memfd_create("doorbell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *ptr = MAP_FAILED;
    int error;

    size_bytes = align_up(size_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    if (fd >= 0 && ftruncate(fd, (off_t)size_bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        ptr = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                   fd, 0);
    if (ptr == MAP_FAILED) {
        error = errno;
        if (fd >= 0)
            close(fd);
        return bell_fail_errno(BELL_E_NO_MEMORY, error,
                               "%s: out of memory for %llu bytes of a file: %s",
                               dev->info.name, (unsigned long long)size_bytes,
                               strerror(error));
    }
    /* A child has no device, and may not touch what it inherits. */
    (void)!madvise(ptr, (size_t)size_bytes, MADV_DONTFORK);
    *out = (struct hcq_backing){
        .va = (uint64_t)(uintptr_t)ptr,
        .host = ptr,
        .size_bytes = size_bytes,
        .priv = (uint64_t)fd + 1,
    };
    return BELL_OK;
}

static bell_status
cpu_mem_alloc(struct hcq_device *dev, uint64_t size_bytes, uint32_t flags,
              struct hcq_backing *out)
{
    void *ptr;

    if (flags & HCQ_MEM_SHAREABLE)
        return alloc_shared(dev, size_bytes, out);
    /* all of it is host visible */
    if (size_bytes >= MMAP_MIN_BYTES) {
        size_bytes = align_up(size_bytes, COLORED_BYTES);
        ptr = map_big(cpu_device(dev), size_bytes);
    } else {
        ptr = host_aligned(64, (size_t)size_bytes);
    }
    if (!ptr)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %llu bytes",
                         dev->info.name, (unsigned long long)size_bytes);
    *out = (struct hcq_backing){
        .va = (uint64_t)(uintptr_t)ptr,
        .host = ptr,
        .size_bytes = size_bytes,
    };
    return BELL_OK;
}

static void
cpu_mem_free(struct hcq_device *dev, const struct hcq_backing *mem)
{
    uint64_t color = (uintptr_t)mem->host % COLORED_BYTES;

    (void)dev;
    if (mem->priv) { /* a shared one: its descriptor, and 1 */
        munmap(mem->host, (size_t)mem->size_bytes);
        close((int)mem->priv - 1);
    } else if (mem->size_bytes >= MMAP_MIN_BYTES)
        munmap((uint8_t *)mem->host - color,
               (size_t)(mem->size_bytes + COLORED_BYTES));
    else
        host_free(mem->host);
}

static bell_status
cpu_mem_export(struct hcq_device *dev, const struct hcq_backing *mem,
               int *out_fd)
{
    int fd = fcntl((int)mem->priv - 1, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return bell_fail_errno(BELL_E_KERNEL, errno,
                               "%s: buffer export: no descriptor: %s",
                               dev->info.name, strerror(errno));
    *out_fd = fd;
    return BELL_OK;
}

static bell_status
cpu_mem_import(struct hcq_device *dev, int fd, uint64_t size_bytes,
               struct hcq_backing *out)
{
    void *ptr = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED, fd, 0);

    (void)dev;
    if (ptr == MAP_FAILED)
        return bell_fail_errno(BELL_E_UNSUPPORTED, errno,
                               "descriptor %d cannot be mapped: %s", fd,
                               strerror(errno));
    *out = (struct hcq_backing){
        .va = (uint64_t)(uintptr_t)ptr,
        .host = ptr,
        .size_bytes = size_bytes,
    };
    return BELL_OK;
}

static void
cpu_mem_unimport(struct hcq_device *dev, const struct hcq_backing *mem)
{
    (void)dev;
    munmap(mem->host, (size_t)mem->size_bytes);
}

static bell_status
cpu_mem_pin(struct hcq_device *dev, void *ptr, uint64_t size_bytes,
            struct hcq_backing *out)
{
    (void)dev;
    *out = (struct hcq_backing){
        .va = (uint64_t)(uintptr_t)ptr,
        .host = ptr,
        .size_bytes = size_bytes,
    };
    return BELL_OK;
}

static void
cpu_mem_unpin(struct hcq_device *dev, const struct hcq_backing *mem)
{
    (void)dev;
    (void)mem;
}

static bell_status
cpu_mem_peer(struct hcq_device *dev, const struct hcq_buffer *of,
             struct hcq_backing *out)
{
    if (!of->host)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot see a buffer of %s",
                         dev->info.name, of->dev->info.name);
    return cpu_mem_pin(dev, of->host, of->size_bytes, out);
}

static bell_status
cpu_get_link(struct hcq_device *dev, struct hcq_device *other,
             struct hcq_device_link *link)
{
    (void)dev;
    (void)other;
    link->kind = HCQ_LINK_SELF;
    link->reads = link->writes = link->atomics = true;
    snprintf(link->reason, sizeof(link->reason),
             "both work in the host's memory");
    return BELL_OK;
}

static bell_status
cpu_mem_write(struct hcq_device *dev, uint64_t va, const void *data,
              uint64_t size_bytes)
{
    (void)dev;
    if (size_bytes)
        memcpy((void *)(uintptr_t)va, data, (size_t)size_bytes);
    return BELL_OK;
}

static bell_status
cpu_mem_read(struct hcq_device *dev, uint64_t va, void *data,
             uint64_t size_bytes)
{
    (void)dev;
    if (size_bytes)
        memcpy(data, (const void *)(uintptr_t)va, (size_t)size_bytes);
    return BELL_OK;
}

/* ---- programs ------------------------------------------------------------ */

/* `file` may be NULL. */
static bell_status
cpu_program_use(struct hcq_device *dev, const struct hcq_program_desc *desc,
                const struct hcq_code_file *file,
                struct hcq_program_base **out_prog)
{
    struct cpu_program *prog = host_calloc(1, sizeof(*prog));
    const char *entry = desc->entry ? desc->entry : desc->name;
    bell_status status = BELL_OK;

    if (!prog)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory for it",
                         desc->name);
    if (!file ||
        !cpu_object_use(file, desc->binary, (size_t)desc->binary_size_bytes,
                        desc->name, entry, &prog->object))
        status = cpu_object_load(desc->binary, (size_t)desc->binary_size_bytes,
                                 desc->name, entry, &prog->object);
    if (status != BELL_OK) {
        host_free(prog);
        return status;
    }
    hcq_program_init(&prog->base, dev, desc);
    prog->base.pub.code_va = (uint64_t)(uintptr_t)prog->object.entry;
    prog->base.pub.code_size_bytes = prog->object.map_bytes;
    /* ISO C has no cast from an object's address to a function's. */
    memcpy(&prog->entry, &prog->object.entry, sizeof(prog->entry));
    LOG(LOG_EXEC, "%s '%s' at %p, %zu bytes",
        prog->object.is_borrowed ? "use" : "loaded", desc->name,
        (void *)prog->object.map, prog->object.map_bytes);
    *out_prog = &prog->base;
    return BELL_OK;
}

static bell_status
cpu_program_create(struct hcq_device *dev, const struct hcq_program_desc *desc,
                   struct hcq_program_base **out_prog)
{
    return cpu_program_use(dev, desc, NULL, out_prog);
}

static void
cpu_program_destroy(struct hcq_program_base *base)
{
    struct cpu_program *prog = HCQ_CONTAINER(base, struct cpu_program, base);

    cpu_object_unload(&prog->object);
    host_free(prog);
}

/* ---- the device ---------------------------------------------------------- */

static bell_status
read_spin_ns(const struct hcq_device_info *info, uint64_t *out_ns)
{
    const char *text = env_get("BELL_SPIN_US");
    unsigned long us;
    char *end;

    /* With one CPU the other side cannot run while we spin. */
    *out_ns = info->n_units > 1 ? SPIN_DEFAULT_NS : 0;
    if (!text)
        return BELL_OK;
    us = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || us > SPIN_MAX_US)
        return bell_fail(BELL_BAD_VALUE, "BELL_SPIN_US is '%.40s', not 0 to %u",
                         text, SPIN_MAX_US);
    *out_ns = us * 1000u;
    return BELL_OK;
}

static const struct hcq_device_ops cpu_ops;

static void
cpu_close(struct hcq_device *base)
{
    struct cpu_device *dev = cpu_device(base);

    hcq_device_fini(base);
    cpu_helpers_stop(dev);
    cpu_fault_release();
    host_free(dev);
}

static bell_status
cpu_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    struct cpu_device *dev;
    bell_status status;

    (void)idx; /* there is one */
    if (interface[0] != '\0')
        return bell_fail(BELL_E_NO_DEVICE,
                         "CPU has no interface '%.40s'; it has none",
                         interface);
    dev = host_aligned(64, sizeof(*dev));
    if (!dev)
        return bell_fail(BELL_E_NO_MEMORY, "CPU:0: out of memory for a device");
    memset(dev, 0, sizeof(*dev));
    dev->base.ops = &cpu_ops;
    cpu_fill_info(&dev->base.info);
    dev->base.timestamp_word = 1;
    status = read_spin_ns(&dev->base.info, &dev->base.spin_ns);
    if (status == BELL_OK)
        status = hcq_device_init(&dev->base);
    if (status != BELL_OK) {
        host_free(dev);
        return status;
    }
    (void)thread_allow_tiles(); /* kernels were made for those who may */
    cpu_fault_acquire();
    (void)hcq_feed_prepare(); /* while there are no threads */
    status = cpu_helpers_start(dev);
    if (status != BELL_OK) {
        cpu_close(&dev->base);
        return status;
    }
    *out_dev = &dev->base;
    return BELL_OK;
}

/* Packets consumed and work-groups begun. */
static uint64_t
cpu_progress(struct hcq_device *dev)
{
    return hash_add(hcq_feed_progress(dev), cpu_count_begun(cpu_device(dev)));
}

static const struct hcq_device_ops cpu_ops = {
    .close = cpu_close,
    .stop = hcq_feed_stop,
    .resume = hcq_feed_resume,
    .describe = hcq_feed_describe,
    .progress = cpu_progress,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .mem_pin = cpu_mem_pin,
    .mem_unpin = cpu_mem_unpin,
    .mem_peer = cpu_mem_peer,
    .get_link = cpu_get_link,
    .mem_unpeer = cpu_mem_unpin,
    .mem_export = cpu_mem_export,
    .mem_import = cpu_mem_import,
    .mem_unimport = cpu_mem_unimport,
    .mem_write = cpu_mem_write,
    .mem_read = cpu_mem_read,
    .signal_alloc = hcq_slot_alloc,
    .signal_free = hcq_slot_free,
    .signal_wake = hcq_slot_signal_wake,
    .signal_sleep = hcq_slot_signal_sleep,
    .signal_map = hcq_slot_map,
    .program_create = cpu_program_create,
    .program_use = cpu_program_use,
    .program_destroy = cpu_program_destroy,
    .queue_create = cpu_queue_create,
    .queue_destroy = cpu_queue_destroy,
    .queue_submit = hcq_feed_submit,
    .stream_bind = hcq_feed_stream_bind,
    .stream_unbind = hcq_feed_stream_unbind,
    .stream_submit = hcq_feed_stream_submit,
};

const struct hcq_backend hcq_cpu_backend = {
    .name = "CPU",
    .interfaces = "",
    .enumerate = cpu_enumerate,
    .open = cpu_open,
};
