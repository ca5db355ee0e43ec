/* Reads PCI's GPUs from sysfs. src of its files: Linux 6.12,
 * Documentation/ABI/testing/sysfs-bus-pci, sysfs-module; of
 * /proc/driver/nvidia: open-gpu-kernel-modules, nv-procfs.c; of KFD's topology:
 * kfd_topology.c. */
#include "tools/machine/machine.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/machine/way.h"

#define PCI "/sys/bus/pci/devices"
/* src: PCI Code and ID Assignment: display controllers, and accelerators */
#define CLASS_DISPLAY     0x03u
#define CLASS_ACCELERATOR 0x12u

/* ---- files --------------------------------------------------------------- */

bool
machine_text(const char *path, char *out, size_t out_bytes)
{
    FILE *file = fopen(path, "re");
    size_t n;

    out[0] = '\0';
    if (!file)
        return false;
    n = fread(out, 1, out_bytes - 1, file);
    out[n] = '\0';
    fclose(file);
    return true;
}

/* A file of the GPU's folder, without its final newline. */
static bool
read_own(const char *root, const struct machine_gpu *gpu, const char *name,
         char *out, size_t out_bytes)
{
    char path[PATH_MAX];
    bool there;

    snprintf(path, sizeof(path), "%s" PCI "/%s/%s", root, gpu->address, name);
    there = machine_text(path, out, out_bytes);
    out[strcspn(out, "\n")] = '\0';
    return there;
}

/* 0 where there is no such file. */
static uint32_t
read_machine_number(const char *root, const struct machine_gpu *gpu,
                    const char *name)
{
    char text[64];

    read_own(root, gpu, name, text, sizeof(text));
    return (uint32_t)strtoul(text, NULL, 0);
}

/* The last part of what the link of that name points at; "" where there is
 * none. */
static void
read_link(const char *root, const struct machine_gpu *gpu, const char *name,
          char *out, size_t out_bytes)
{
    char path[PATH_MAX], target[PATH_MAX];
    const char *slash;
    ssize_t n;

    snprintf(path, sizeof(path), "%s" PCI "/%s/%s", root, gpu->address, name);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    slash = strrchr(target, '/');
    snprintf(out, out_bytes, "%.*s", (int)out_bytes - 1,
             slash ? slash + 1 : target);
}

void
machine_driver_version(const char *root, const char *driver, char *out,
                       size_t out_bytes)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/sys/module/%s/version", root, driver);
    machine_text(path, out, out_bytes);
    out[strcspn(out, "\n")] = '\0';
    if (out[0] || !driver[0])
        return;
    snprintf(path, sizeof(path), "%s/proc/sys/kernel/osrelease", root);
    if (machine_text(path, out, out_bytes)) {
        char release[64];

        out[strcspn(out, "\n")] = '\0';
        snprintf(release, sizeof(release), "%.48s", out);
        snprintf(out, out_bytes, "of Linux %s", release);
    }
}

/* ---- one GPU ------------------------------------------------------------- */

/* src: Linux 6.12, Documentation/ABI/testing/sysfs-devices-power */
bool
machine_is_asleep(const char *root, const char *address)
{
    char path[PATH_MAX], text[32];

    snprintf(path, sizeof(path), "%.2000s" PCI "/%.64s/power/runtime_status",
             root, address);
    machine_text(path, text, sizeof(text));
    return strncmp(text, "suspend", 7) == 0; /* suspended, suspending */
}

bool
machine_may_sleep(const char *root, const char *address)
{
    char path[PATH_MAX], text[32];

    snprintf(path, sizeof(path), "%.2000s" PCI "/%.64s/power/control", root,
             address);
    machine_text(path, text, sizeof(text));
    return strncmp(text, "auto", 4) == 0;
}

/* Lines "START END FLAGS". src: Linux 6.12, include/linux/ioport.h. */
static void
read_bars(const char *root, struct machine_gpu *gpu)
{
    enum {
        IO = 0x100,
        MEMORY = 0x200,
        PREFETCH = 0x2000,
        IS_64 = 0x100000
    };
    char path[PATH_MAX], text[4096], *line, *rest;
    unsigned index = 0;

    snprintf(path, sizeof(path), "%s" PCI "/%s/resource", root, gpu->address);
    machine_text(path, text, sizeof(text));
    for (line = strtok_r(text, "\n", &rest); line && index < MACHINE_BARS_MAX;
         line = strtok_r(NULL, "\n", &rest), index++) {
        char *at = line;
        uint64_t start = strtoull(at, &at, 16), end = strtoull(at, &at, 16);
        uint64_t flags = strtoull(at, &at, 16);
        struct machine_bar *bar = &gpu->bars[gpu->n_bars];

        if (!(flags & (IO | MEMORY)) || end <= start)
            continue;
        bar->index = index;
        bar->address = start;
        bar->size_bytes = end - start + 1;
        bar->is_io = (flags & IO) != 0;
        bar->is_64bit = (flags & IS_64) != 0;
        bar->is_prefetchable = (flags & PREFETCH) != 0;
        gpu->n_bars++;
    }
}

/* "16.0 GT/s PCIe"; what is unknown to the kernel begins with no digit. */
static double
read_speed(const char *root, const struct machine_gpu *gpu, const char *name)
{
    char text[64];

    read_own(root, gpu, name, text, sizeof(text));
    return strtod(text, NULL);
}

/* Not told: 0, or 255 and 63 where the link is down or virtual. */
static uint32_t
read_width(const char *root, const struct machine_gpu *gpu, const char *name)
{
    uint32_t width = read_machine_number(root, gpu, name);

    return width <= 32 ? width : 0;
}

static void
read_drm(const char *root, struct machine_gpu *gpu)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof(path), "%s" PCI "/%s/drm", root, gpu->address);
    folder = opendir(path);
    while (folder && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, "renderD", 7) == 0)
            snprintf(gpu->drm_node, sizeof(gpu->drm_node), "/dev/dri/%.16s",
                     entry->d_name);
    }
    if (folder)
        closedir(folder);
}

static void
read_machine_gpu(const char *root, struct machine_gpu *gpu)
{
    char text[64];

    gpu->vendor = read_machine_number(root, gpu, "vendor");
    gpu->device = read_machine_number(root, gpu, "device");
    gpu->sub_vendor = read_machine_number(root, gpu, "subsystem_vendor");
    gpu->sub_device = read_machine_number(root, gpu, "subsystem_device");
    gpu->revision = read_machine_number(root, gpu, "revision");
    read_bars(root, gpu);
    /* src: Linux 6.12, drivers/pci/pci-sysfs.c: what the link does now is read
     * from the card, which has to be awake for that; its limits are known */
    gpu->is_asleep = machine_is_asleep(root, gpu->address);
    if (!gpu->is_asleep)
        gpu->link_gt_s = read_speed(root, gpu, "current_link_speed");
    gpu->link_max_gt_s = read_speed(root, gpu, "max_link_speed");
    if (!gpu->is_asleep)
        gpu->link_width = read_width(root, gpu, "current_link_width");
    gpu->link_max_width = read_width(root, gpu, "max_link_width");
    gpu->numa_node = read_own(root, gpu, "numa_node", text, sizeof(text))
                         ? strtol(text, NULL, 10)
                         : -1;
    read_link(root, gpu, "iommu_group", text, sizeof(text));
    gpu->iommu_group = text[0] ? strtol(text, NULL, 10) : -1;
    read_link(root, gpu, "driver", gpu->driver, sizeof(gpu->driver));
    /* a simulated machine's files have no links to drivers */
    machine_driver_version(root, gpu->driver, gpu->driver_version,
                           sizeof(gpu->driver_version));
    read_drm(root, gpu);
}

/* ---- all ----------------------------------------------------------------- */

static int
compare_addresses(const void *a, const void *b)
{
    const struct machine_gpu *x = a, *y = b;

    return strcmp(x->address, y->address);
}

static bell_status
add_machine_gpu(struct machine *machine, size_t *cap,
                const struct machine_gpu *gpu)
{
    if (host_grow((void **)&machine->gpus, cap, machine->n_gpus + 1,
                  sizeof(*gpu)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory listing %zu GPUs",
                         machine->n_gpus + 1);
    machine->gpus[machine->n_gpus++] = *gpu;
    return BELL_OK;
}

static bell_status
list_gpus(const char *root, struct machine *machine)
{
    char path[PATH_MAX];
    bell_status status = BELL_OK;
    struct dirent *entry;
    size_t cap = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "%s" PCI, root);
    folder = opendir(path);
    if (!folder && root[0] && access(root, F_OK) != 0)
        return bell_fail(BELL_E_IO, "%s: %s", root, strerror(errno));
    while (folder && status == BELL_OK && (entry = readdir(folder)) != NULL) {
        struct machine_gpu gpu = {.number = -1};

        if (entry->d_name[0] == '.' ||
            strlen(entry->d_name) >= sizeof(gpu.address))
            continue;
        snprintf(gpu.address, sizeof(gpu.address), "%.15s", entry->d_name);
        gpu.class_code = read_machine_number(root, &gpu, "class");
        if (gpu.class_code >> 16 != CLASS_DISPLAY &&
            gpu.class_code >> 16 != CLASS_ACCELERATOR)
            continue;
        read_machine_gpu(root, &gpu);
        status = add_machine_gpu(machine, &cap, &gpu);
    }
    if (folder)
        closedir(folder);
    return status;
}

bell_status
machine_read(const char *root, struct machine *out_machine)
{
    struct machine machine = {NULL, 0};
    bell_status status = list_gpus(root, &machine);
    struct machine_names *names;
    size_t i;

    if (status != BELL_OK) {
        machine_free(&machine);
        return status;
    }
    if (machine.n_gpus)
        qsort(machine.gpus, machine.n_gpus, sizeof(*machine.gpus),
              compare_addresses);
    names = machine_names_open();
    for (i = 0; names && i < machine.n_gpus; i++)
        machine_names_find(names, &machine.gpus[i]);
    machine_names_close(names);
    machine_look_at_ways(root, &machine);
    *out_machine = machine;
    return BELL_OK;
}

void
machine_free(struct machine *machine)
{
    host_free(machine->gpus);
    machine->gpus = NULL;
    machine->n_gpus = 0;
}
