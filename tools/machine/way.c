/* The way to a GPU, as far as files tell: the kernel's driver, its version, its
 * nodes and who may open them. The first thing that is in the way is told, with
 * the one thing to do about it. */
#include "tools/machine/way.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/chip.h"
#include "base/env.h"
#include "ioctl/kio_interface.h"
#include "ioctl/nv_abi.h"

#define KFD_NODES  "/sys/devices/virtual/kfd/kfd/topology/nodes"
#define VENDOR_NV  0x10deu
#define VENDOR_AMD 0x1002u

static void block(struct machine_gpu *gpu, const char *fix, const char *fmt,
                  ...) __attribute__((format(printf, 3, 4)));

/* `fix` may be NULL. */
static void
block(struct machine_gpu *gpu, const char *fix, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(gpu->why_not, sizeof(gpu->why_not), fmt, args);
    va_end(args);
    snprintf(gpu->fix, sizeof(gpu->fix), "%s", fix ? fix : "");
}

/* ---- nodes --------------------------------------------------------------- */

static void
look_at_node(const char *root, const char *path, struct machine_node *node)
{
    char whole[PATH_MAX];
    const struct group *group;
    struct stat st;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    snprintf(node->path, sizeof(node->path), "%s", path);
    node->is_there = stat(whole, &st) == 0;
    if (!node->is_there)
        return;
    node->may_open = access(whole, R_OK | W_OK) == 0;
    node->is_forbidden = !node->may_open && errno == EPERM;
    node->mode = st.st_mode & 07777;
    group = getgrgid(st.st_gid);
    if (group)
        snprintf(node->group, sizeof(node->group), "%.39s", group->gr_name);
    else
        snprintf(node->group, sizeof(node->group), "%u", (unsigned)st.st_gid);
}

/* A command that lets this user in. A group that may not open it, and root's
 * own, help nobody. */
static void
fix_node(const struct machine_node *node, char *out, size_t out_bytes)
{
    if (!(node->mode & S_IWGRP) || strcmp(node->group, "root") == 0)
        snprintf(out, out_bytes, "chmod 666 %s", node->path);
    else
        snprintf(out, out_bytes, "usermod -aG %s $USER, then log in again",
                 node->group);
}

static void
add_node(const char *root, struct machine_gpu *gpu, const char *path)
{
    if (gpu->n_nodes < MACHINE_NODES_MAX)
        look_at_node(root, path, &gpu->nodes[gpu->n_nodes++]);
}

/* ---- containers ---- */

/* Kinds of containers, by how each is given a GPU. A container has the nodes
 * that it was given when it was started. */
enum container {
    CONTAINER_NONE,
    CONTAINER_DOCKER, /* or podman, and what else runs OCI images */
    CONTAINER_KUBERNETES,
    CONTAINER_LXC,
    CONTAINER_APPTAINER,
    CONTAINER_NSPAWN,
    CONTAINER_COUNT
};

/* What tells of a kind: a file that is there, or a file with a text in it.
 * Those first that are of one kind alone: a pod may be Docker's as well. src:
 * systemd's Container Interface (/run/systemd/container, and the variable
 * "container" of process 1); Kubernetes, Accessing the API from a Pod, and its
 * cgroups "kubepods"; Apptainer's user guide, Metadata (/.singularity.d); LXD,
 * /dev/lxd; Docker and podman, their marks. */
static const struct {
    enum container kind;
    const char *path, *text; /* text NULL: that it is there */
} container_marks[] = {
    {CONTAINER_KUBERNETES, "/var/run/secrets/kubernetes.io", NULL},
    {CONTAINER_KUBERNETES, "/proc/1/cgroup", "kubepods"},
    {CONTAINER_APPTAINER, "/.singularity.d", NULL},
    {CONTAINER_LXC, "/dev/lxd/sock", NULL},
    {CONTAINER_LXC, "/run/systemd/container", "lxc"},
    {CONTAINER_LXC, "/proc/1/environ", "container=lxc"},
    {CONTAINER_LXC, "/proc/1/cgroup", "/lxc"},
    {CONTAINER_NSPAWN, "/run/systemd/container", "systemd-nspawn"},
    {CONTAINER_NSPAWN, "/proc/1/environ", "container=systemd-nspawn"},
    {CONTAINER_DOCKER, "/.dockerenv", NULL},
    {CONTAINER_DOCKER, "/run/.containerenv", NULL},
    {CONTAINER_DOCKER, "/run/systemd/container", ""},
    {CONTAINER_DOCKER, "/proc/1/environ", "container="},
    {CONTAINER_DOCKER, "/proc/1/cgroup", "/docker"},
    {CONTAINER_DOCKER, "/proc/1/cgroup", "containerd"},
};

/* Whether the file has the text. It may hold zeros (environ): they end a
 * line. */
static bool
file_has(const char *path, const char *text)
{
    FILE *file = fopen(path, "re");
    char whole[16384];
    size_t n;

    if (!file)
        return false;
    n = fread(whole, 1, sizeof(whole), file);
    fclose(file);
    return memmem(whole, n, text, strlen(text)) != NULL;
}

static enum container
find_container(const char *root)
{
    char path[PATH_MAX];
    size_t i;

    for (i = 0; i < ARRAY_LEN(container_marks); i++) {
        snprintf(path, sizeof(path), "%.2000s%s", root,
                 container_marks[i].path);
        if (container_marks[i].text ? file_has(path, container_marks[i].text)
                                    : access(path, F_OK) == 0)
            return container_marks[i].kind;
    }
    /* A pod's and Apptainer's environment, where their files are hidden. */
    if (!root[0] && env_get("KUBERNETES_SERVICE_HOST"))
        return CONTAINER_KUBERNETES;
    if (!root[0] && env_get("APPTAINER_CONTAINER"))
        return CONTAINER_APPTAINER;
    return CONTAINER_NONE;
}

/* How a container of that kind is given a node of the backend's. */
static void
fix_container(enum container kind, const struct machine_gpu *gpu,
              const char *node, char *out, size_t out_bytes)
{
    const char *backend = gpu && gpu->backend ? gpu->backend : "";
    bool nv = strcmp(backend, "NV") == 0, amd = strcmp(backend, "AMD") == 0;

    if (kind == CONTAINER_KUBERNETES && (nv || amd))
        snprintf(out, out_bytes,
                 "add resources.limits \"%s.com/gpu: 1\" to the pod; its node "
                 "needs the device plugin of %s",
                 nv ? "nvidia" : "amd", nv ? "NVIDIA" : "AMD");
    else if (kind == CONTAINER_KUBERNETES)
        snprintf(out, out_bytes, "have a device plugin give the pod %s", node);
    else if (kind == CONTAINER_APPTAINER && (nv || amd))
        snprintf(out, out_bytes, "start this container with apptainer run %s",
                 nv ? "--nv" : "--rocm");
    else if (kind == CONTAINER_APPTAINER)
        snprintf(out, out_bytes,
                 "start this container with apptainer run --bind %s", node);
    else if (kind == CONTAINER_LXC)
        snprintf(out, out_bytes,
                 "on the host: lxc config device add CONTAINER %s unix-char "
                 "source=%s path=%s",
                 strrchr(node, '/') + 1, node, node);
    else if (kind == CONTAINER_NSPAWN)
        snprintf(out, out_bytes,
                 "start this container with --bind=%s and "
                 "--property=DeviceAllow=%s",
                 node, node);
    else
        snprintf(out, out_bytes, "start this container with --device=%s", node);
}

/* The same where the container has it, and its rules forbid it. */
static void
fix_rules(enum container kind, const struct machine_gpu *gpu, const char *node,
          char *out, size_t out_bytes)
{
    if (kind != CONTAINER_NONE)
        fix_container(kind, gpu, node, out, out_bytes);
    else
        snprintf(out, out_bytes,
                 "allow it in this service's unit: DeviceAllow=%s rw", node);
}

bool
machine_fix_node(const char *path, char *out, size_t out_bytes)
{
    struct machine_node node = {.is_there = false};

    look_at_node("", path, &node);
    if (!node.is_there || node.may_open)
        return false;
    if (node.is_forbidden)
        fix_rules(find_container(""), NULL, path, out, out_bytes);
    else
        fix_node(&node, out, out_bytes);
    return true;
}

/* Tells of nodes that are not there, or not for this user; `make` makes those
 * that are missing. */
static void
check_nodes(const char *root, struct machine_gpu *gpu, const char *make)
{
    enum container container = find_container(root);
    char fix[256];
    size_t i;

    for (i = 0; i < gpu->n_nodes; i++) {
        const struct machine_node *node = &gpu->nodes[i];

        if (!node->is_there) {
            fix_container(container, gpu, node->path, fix, sizeof(fix));
            block(gpu, container ? fix : make, "%s is missing", node->path);
            return;
        }
        if (node->is_forbidden) {
            fix_rules(container, gpu, node->path, fix, sizeof(fix));
            block(gpu, fix, "%s is forbidden by the rules of this %s",
                  node->path, container ? "container" : "process's cgroup");
            return;
        }
        if (!node->may_open) {
            fix_node(node, fix, sizeof(fix));
            block(gpu, fix,
                  "%s may not be opened by this user (mode %o, group %s)",
                  node->path, node->mode, node->group);
            return;
        }
    }
}

/* ---- drivers ------------------------------------------------------------- */

/* Whether a module for the running kernel is installed. */
static bool
has_module(const char *root, const char *name)
{
    char path[PATH_MAX], release[128], line[1024], part[64];
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/sys/kernel/osrelease", root);
    machine_text(path, release, sizeof(release));
    release[strcspn(release, "\n")] = '\0';
    snprintf(path, sizeof(path), "%s/lib/modules/%s/modules.dep", root,
             release);
    file = fopen(path, "re");
    snprintf(part, sizeof(part), "/%s.ko", name);
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, ":")] = '\0';
        found = strstr(line, part) != NULL;
    }
    if (file)
        fclose(file);
    return found;
}

/* True where another driver than `ours`, or none, holds the GPU. */
static bool
check_driver(const char *root, struct machine_gpu *gpu, const char *ours,
             const char *install)
{
    char fix[256];

    if (strcmp(gpu->driver, ours) == 0)
        return false;
    if (!gpu->driver[0]) {
        snprintf(fix, sizeof(fix), "modprobe %s", ours);
        block(gpu, has_module(root, ours) ? fix : install,
              "no kernel driver holds it; %s would", ours);
    } else if (strcmp(gpu->driver, "vfio-pci") == 0) {
        snprintf(fix, sizeof(fix),
                 "cd "
                 "/sys/bus/pci && echo %s > devices/%s/driver_override && "
                 "echo %s > drivers/vfio-pci/unbind && echo %s > drivers_probe",
                 ours, gpu->address, gpu->address, gpu->address);
        block(gpu, fix, "held by vfio-pci, for a virtual machine");
    } else {
        block(gpu, install, "held by %s; our driver talks to %s", gpu->driver,
              ours);
    }
    return true;
}

/* ---- NVIDIA -------------------------------------------------------------- */

/* The number of the card's node; -1: not told. */
static int64_t
nv_minor(const char *root, const struct machine_gpu *gpu)
{
    static const char key[] = "Device Minor:";
    char path[PATH_MAX], text[2048];
    const char *found;

    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information",
             root, gpu->address);
    machine_text(path, text, sizeof(text));
    found = strstr(text, key);
    return found ? strtol(found + strlen(key), NULL, 10) : -1;
}

static void
look_at_nv(const char *root, struct machine_gpu *gpu)
{
    static const char install[] =
        "apt-get install nvidia-open-kernel-dkms, then restart";
    int64_t minor = nv_minor(root, gpu);
    char path[PATH_MAX], text[512], make[64];
    struct nv_abi abi;

    gpu->backend = "NV";
    if (!gpu->driver[0] && minor >= 0) { /* procfs knows it */
        snprintf(gpu->driver, sizeof(gpu->driver), "nvidia");
        gpu->driver_version[0] = '\0';
    }
    if (check_driver(root, gpu, "nvidia", install))
        return;
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", root);
    machine_text(path, text, sizeof(text));
    if (nv_abi_parse(text[0] ? text : gpu->driver_version, &abi) == BELL_OK) {
        snprintf(gpu->driver_version, sizeof(gpu->driver_version), "%.60s",
                 abi.version);
    } else if (!env_get("BELL_NV_BRANCH")) {
        block(gpu, NULL, "%.250s", bell_error_last()->message);
        return;
    }
    add_node(root, gpu, "/dev/nvidiactl");
    if (minor >= 0) {
        snprintf(text, sizeof(text), "/dev/nvidia%u", (unsigned)minor);
        add_node(root, gpu, text);
    }
    snprintf(make, sizeof(make), "nvidia-modprobe -c %u",
             (unsigned)(minor < 0 ? 0 : minor));
    check_nodes(root, gpu, make);
}

/* ---- AMD ----------------------------------------------------------------- */

/* What KFD says of a card. */
struct kfd_card {
    int64_t number; /* among those that this process may open */
    uint32_t kfd_id;
    unsigned n_partitions; /* of the GPU that this is the first of */
    uint64_t render_minor, gfx_version;
    bool has_hidden_memory;     /* that the CPU cannot reach */
    uint64_t host_memory_bytes; /* 0: its memory is its own */
};

/* The value of a line "KEY VALUE"; 0 where there is none. */
static uint64_t
find_key(const char *text, const char *key)
{
    size_t n = strlen(key);
    const char *line = text;

    while (line && *line) {
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return strtoull(line + n, NULL, 10);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return 0;
}

/* src: the kernel's kfd_crat.h: heap types; kfd_sysfs.h,
 * HSA_CAP_FLAGS_COHERENTHOSTACCESS: its memory is the host's */
static void
look_at_memory(const char *root, unsigned node, uint64_t capability,
               struct kfd_card *card)
{
    enum {
        FB_PUBLIC = 1,
        FB_PRIVATE = 2,
        COHERENT_HOST_ACCESS = 1 << 28
    };
    char path[PATH_MAX], text[1024];
    unsigned i;

    for (i = 0;; i++) {
        uint64_t heap;

        snprintf(path, sizeof(path),
                 "%s" KFD_NODES "/%u/mem_banks/%u/properties", root, node, i);
        if (!machine_text(path, text, sizeof(text)))
            return;
        heap = find_key(text, "heap_type");
        card->has_hidden_memory |= heap == FB_PRIVATE;
        if (heap == FB_PUBLIC && capability & COHERENT_HOST_ACCESS)
            card->host_memory_bytes += find_key(text, "size_in_bytes");
    }
}

static bool
may_open(const char *root, uint64_t render_minor)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/dev/dri/renderD%u", root,
             (unsigned)render_minor & 0xff);
    return access(path, R_OK | W_OK) == 0;
}

static bool
find_kfd_card(const char *root, const char *address, struct kfd_card *out)
{
    char path[PATH_MAX], text[8192], own[16];
    int64_t number = 0;
    unsigned node;

    for (node = 0;; node++) {
        uint64_t location;
        uint32_t kfd_id;

        snprintf(path, sizeof(path), "%s" KFD_NODES "/%u/gpu_id", root, node);
        if (!machine_text(path, text, sizeof(text))) {
            if (errno != EPERM) /* else a card that the cgroup forbids */
                return out->n_partitions > 0;
            continue;
        }
        kfd_id = (uint32_t)strtoul(text, NULL, 10);
        if (kfd_id == 0) /* a CPU */
            continue;
        snprintf(path, sizeof(path), "%s" KFD_NODES "/%u/properties", root,
                 node);
        if (!machine_text(path, text, sizeof(text)))
            continue;
        location = find_key(text, "location_id");
        snprintf(own, sizeof(own), "%04x:%02x:%02x.%x",
                 (unsigned)(find_key(text, "domain") & 0xffff),
                 (unsigned)(location >> 8 & 0xff),
                 (unsigned)(location >> 3 & 0x1f), (unsigned)(location & 7));
        if (strcmp(own, address) == 0 && out->n_partitions++ == 0) {
            out->number = number;
            out->kfd_id = kfd_id;
            out->render_minor = find_key(text, "drm_render_minor");
            out->gfx_version = find_key(text, "gfx_target_version");
            look_at_memory(root, node, find_key(text, "capability"), out);
        }
        number += may_open(root, find_key(text, "drm_render_minor"));
    }
}

static bool
is_known_amd(uint64_t gfx_version)
{
#if BELL_HAVE_AMD
    return chip_amd_find((uint32_t)gfx_version) != NULL;
#else
    (void)gfx_version;
    return false;
#endif
}

static void
look_at_amd(const char *root, struct machine_gpu *gpu)
{
    struct kfd_card card = {.number = -1};
    bool has_card = find_kfd_card(root, gpu->address, &card);
    char path[64], why[160];

    gpu->backend = "AMD";
    gpu->kfd_id = card.kfd_id;
    gpu->n_partitions = card.n_partitions;
    if (!gpu->driver[0] && has_card)
        snprintf(gpu->driver, sizeof(gpu->driver), "amdgpu");
    if (check_driver(root, gpu, "amdgpu",
                     "apt-get install firmware-amd-graphics, then restart"))
        return;
    if (has_card && card.render_minor && !gpu->drm_node[0])
        snprintf(gpu->drm_node, sizeof(gpu->drm_node), "/dev/dri/renderD%u",
                 (unsigned)card.render_minor & 0xff);
    add_node(root, gpu, "/dev/kfd");
    if (gpu->drm_node[0]) {
        snprintf(path, sizeof(path), "%s", gpu->drm_node);
        add_node(root, gpu, path);
    }
    check_nodes(root, gpu, NULL);
    if (gpu->why_not[0])
        return;
    gpu->number = card.number;
    if (!has_card)
        block(gpu, NULL,
              "KFD does not list it: the chip is too old, or its slot has no "
              "PCIe atomics (the kernel's log says which)");
    else if (card.gfx_version == 0)
        block(gpu, "install Linux 5.17 or later",
              "the kernel is too old: its KFD does not tell the chip");
    else if (!is_known_amd(card.gfx_version)) {
        chip_amd_why_not((uint32_t)card.gfx_version, why, sizeof(why));
        block(gpu, NULL, "%s", why);
    }
    gpu->has_small_bar = card.has_hidden_memory;
    gpu->host_memory_bytes = card.host_memory_bytes;
}

/* Below `doorbell sim`, whose machine has such cards. */
static bool
is_simulated(const char *root, uint32_t vendor)
{
    const char *marker = vendor == VENDOR_NV    ? kio_interface_marker("NV")
                         : vendor == VENDOR_AMD ? kio_interface_marker("AMD")
                                                : NULL;
    char path[PATH_MAX];

    if (!marker)
        return false;
    snprintf(path, sizeof(path), "%.2000s%s", root, marker);
    return access(path, F_OK) == 0;
}

/* ---- all ----------------------------------------------------------------- */

void
machine_look_at_ways(const char *root, struct machine *machine)
{
    size_t i;

    for (i = 0; i < machine->n_gpus; i++) {
        struct machine_gpu *gpu = &machine->gpus[i];

        gpu->is_simulated = is_simulated(root, gpu->vendor);
        if (gpu->vendor == VENDOR_NV)
            look_at_nv(root, gpu);
        else if (gpu->vendor == VENDOR_AMD)
            look_at_amd(root, gpu);
        else
            block(gpu, NULL,
                  "there is no driver for GPUs of vendor %04x; with its "
                  "maker's OpenCL installed it is a device CL:N",
                  gpu->vendor);
    }
}

/* ---- Adreno, which is on no PCI ------------------------------------------ */

/* Has a line of the text, behind `key`, that beginning? */
static bool
has_line(const char *text, const char *key, const char *value)
{
    const char *line = text, *found;

    for (; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        found = strchr(line, '=');
        if (strncmp(line, key, strlen(key)) == 0 && found &&
            strncmp(found + 1, value, strlen(value)) == 0)
            return true;
    }
    return false;
}

/* msm's render node, as the kernel lists it. */
static bool
find_msm(const char *root, char *out_path, size_t out_bytes)
{
    char path[PATH_MAX], text[1024];
    unsigned node;

    for (node = 128; node < 192; node++) {
        snprintf(path, sizeof(path), "%s/sys/class/drm/renderD%u/device/uevent",
                 root, node);
        if (!machine_text(path, text, sizeof(text)))
            return false;
        if (has_line(text, "DRIVER", "msm")) {
            snprintf(out_path, out_bytes, "/dev/dri/renderD%u", node);
            return true;
        }
    }
    return false;
}

/* Is the chip among what the machine's device tree lists? */
static bool
is_in_tree(const char *root)
{
    static const char folder[] = "/sys/bus/platform/devices";
    char path[PATH_MAX], text[1024];
    const struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "%s%s", root, folder);
    dir = opendir(path);
    while (dir && !found && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "%s%s/%s/uevent", root, folder,
                 entry->d_name);
        found = machine_text(path, text, sizeof(text)) &&
                has_line(text, "OF_COMPATIBLE_", "qcom,adreno");
    }
    if (dir)
        closedir(dir);
    return found;
}

bool
machine_adreno(const char *root, struct machine_gpu *out)
{
    static const char kgsl[] = "/dev/kgsl-3d0";
    char path[PATH_MAX], whole[PATH_MAX];

    *out = (struct machine_gpu){.backend = "QCOM", .number = 0};
    snprintf(path, sizeof(path), "%s%s", root, kgsl);
    snprintf(whole, sizeof(whole), "%s/sys/class/kgsl/kgsl-3d0", root);
    if (access(path, F_OK) == 0 || access(whole, F_OK) == 0) {
        snprintf(out->driver, sizeof(out->driver), "kgsl");
        add_node(root, out, kgsl);
        check_nodes(root, out, NULL);
    } else if (find_msm(root, path, sizeof(path))) {
        snprintf(out->driver, sizeof(out->driver), "msm");
        add_node(root, out, path);
        check_nodes(root, out, NULL);
    } else if (is_in_tree(root)) {
        block(out, "modprobe msm", "no kernel driver holds it; msm would");
    } else {
        return false;
    }
    return true;
}
