/* Which files there are is known here; what is in them, by the simulator. */
#include "tools/sim_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "ioctl/kio.h"
#include "ioctl/kio_interface.h"

#define DRM_FIRST 128u /* the first render node's minor */
#define TOPOLOGY  "/sys/devices/virtual/kfd/kfd/topology/"
#define FILE_MAX  65536

struct tree {
    const char *root;
    struct kio *kio;
    bell_status status; /* of the first that failed */
};

/* ---- writing ------------------------------------------------------------- */

/* The folders above a file. */
static void
make_folders(char *path)
{
    char *slash = path;

    while ((slash = strchr(slash + 1, '/')) != NULL) {
        *slash = '\0';
        (void)mkdir(path, 0755); /* the file's creation tells of failures */
        *slash = '/';
    }
}

static void
write_file(struct tree *tree, const char *path, mode_t mode, const char *text,
           size_t n)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    char whole[PATH_MAX];
    int fd;

    snprintf(whole, sizeof(whole), "%s%s", tree->root, path);
    fd = open(whole, flags, mode);
    if (fd < 0 && errno == ENOENT) { /* the first one there */
        make_folders(whole);
        fd = open(whole, flags, mode);
    }
    if ((fd < 0 || write(fd, text, n) != (ssize_t)n) && tree->status == BELL_OK)
        tree->status = bell_fail_file(whole, "cannot write");
    if (fd >= 0)
        close(fd);
}

static void
write_link(struct tree *tree, const char *path, const char *target)
{
    char whole[PATH_MAX];
    int result;

    snprintf(whole, sizeof(whole), "%s%s", tree->root, path);
    result = symlink(target, whole);
    if (result < 0 && errno == ENOENT) {
        make_folders(whole);
        result = symlink(target, whole);
    }
    /* partitions share their GPU's place */
    if (result < 0 && errno != EEXIST && tree->status == BELL_OK)
        tree->status =
            bell_fail(BELL_E_IO, "cannot link %s: %s", whole, strerror(errno));
}

/* What the rules of a container's cgroup forbid, the library that shows these
 * files tells by this mode (sim/preload/paths.c). */
#define DENIED_MODE (S_ISVTX | 0444)

/* A device node, as far as the simulated container has it. */
static void
write_node(struct tree *tree, const char *path)
{
    const struct kio_ops *ops = tree->kio->ops;
    int result = ops->may_open ? ops->may_open(tree->kio, path) : 0;

    if (result == 0 || result == -EPERM)
        write_file(tree, path, result ? DENIED_MODE : 0666, "", 0);
}

/* What the simulated kernel has at that path, if it has something. */
static bool put(struct tree *tree, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bool
put(struct tree *tree, const char *fmt, ...)
{
    char path[PATH_MAX], *text = malloc(FILE_MAX);
    va_list args;
    int n;

    va_start(args, fmt);
    vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    n = text ? tree->kio->ops->read_file(tree->kio, path, text, FILE_MAX) : -1;
    if (n >= 0)
        write_file(tree, path, 0444, text, (size_t)n);
    free(text);
    return n >= 0;
}

static bool
is_denied(struct tree *tree, const char *path)
{
    char text[64];

    return tree->kio->ops->read_file(tree->kio, path, text, sizeof(text)) ==
           -EPERM;
}

/* Files "FOLDER/0/NAME", "FOLDER/1/NAME", ... */
static void
put_numbered(struct tree *tree, const char *folder, const char *name)
{
    unsigned i;

    for (i = 0; put(tree, "%s/%u/%s", folder, i, name); i++)
        ;
}

static void
put_pci(struct tree *tree, const char *folder)
{
    static const char *const names[] = {
        "vendor",
        "device",
        "subsystem_vendor",
        "subsystem_device",
        "class",
        "revision",
        "numa_node",
        "uevent",
        "config",
        "resource",
        "current_link_speed",
        "max_link_speed",
        "current_link_width",
        "max_link_width",
        "mem_info_vram_total",
        "mem_info_vram_used",
        "power_dpm_force_performance_level",
        "hwmon/hwmon0/name",
        "hwmon/hwmon0/temp1_input",
        "hwmon/hwmon0/power1_average",
        "hwmon/hwmon0/freq1_input",
        "hwmon/hwmon0/freq2_input",
        "gpu_metrics",
        "pcie_replay_count",
        "ras/umc_err_count",
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(names); i++)
        (void)put(tree, "%s/%s", folder, names[i]);
}

/* The program is not to take the cards for real ones. */
static void
put_marker(struct tree *tree, const char *backend)
{
    static const char text[] = "simulated by doorbell sim\n";

    write_file(tree, kio_interface_marker(backend), 0444, text,
               sizeof(text) - 1);
}

/* ---- AMD ---- */

/* A card's render node, its PCI folder and the links to both. False: there is
 * no such card. The rules of a cgroup hide nothing of it but the node. */
static bool
put_render_node(struct tree *tree, unsigned minor)
{
    static const char *const parts[] = {"major", "minor", "revision"};
    static const char slot[] = "PCI_SLOT_NAME=";
    char folder[64], path[128], text[512], target[96];
    const char *bus;
    unsigned id;
    size_t i, n;

    snprintf(folder, sizeof(folder), "/sys/class/drm/renderD%u/device", minor);
    snprintf(path, sizeof(path), "%s/uevent", folder);
    if (kio_read_file(tree->kio, path, text, sizeof(text), &n) != BELL_OK)
        return false;
    bus = strstr(text, slot);
    bus = bus ? bus + strlen(slot) : "";
    text[strcspn(bus, "\n") + (size_t)(bus - text)] = '\0';
    put_pci(tree, folder);
    (void)put(tree, "%s/iommu_group/type", folder);
    for (id = 0; id < 256; id++) {
        for (i = 0; i < ARRAY_LEN(parts); i++)
            (void)put(tree, "%s/ip_discovery/die/0/%u/0/%s", folder, id,
                      parts[i]);
    }
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", bus);
    snprintf(target, sizeof(target), "../../../class/drm/renderD%u/device",
             minor);
    write_link(tree, path, target);
    snprintf(path, sizeof(path), "%s/driver", folder);
    write_link(tree, path, "../../../../bus/pci/drivers/amdgpu");
    snprintf(path, sizeof(path), "/sys/dev/char/226:%u", minor);
    snprintf(target, sizeof(target), "../../class/drm/renderD%u", minor);
    write_link(tree, path, target);
    snprintf(path, sizeof(path), "%s/drm/renderD%u/dev", folder, minor);
    snprintf(target, sizeof(target), "226:%u\n", minor);
    write_file(tree, path, 0444, target, strlen(target));
    snprintf(path, sizeof(path), "%s/subsystem", folder);
    write_link(tree, path, "../../../../bus/pci");
    snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
    write_node(tree, path);
    return true;
}

static void
put_amd(struct tree *tree)
{
    static const char *const lists[] = {"mem_banks", "io_links", "p2p_links",
                                        "caches"};
    char folder[300], list[320];
    unsigned node, minor;
    size_t i;

    (void)put(tree, TOPOLOGY "generation_id");
    (void)put(tree, TOPOLOGY "system_properties");
    for (node = 0;; node++) {
        snprintf(folder, sizeof(folder), TOPOLOGY "nodes/%u", node);
        snprintf(list, sizeof(list), "%s/gpu_id", folder);
        if (is_denied(tree, list)) {
            write_file(tree, list, DENIED_MODE, "", 0);
            continue;
        }
        if (!put(tree, "%s", list))
            break;
        (void)put(tree, "%s/name", folder);
        (void)put(tree, "%s/properties", folder);
        for (i = 0; i < ARRAY_LEN(lists); i++) {
            snprintf(list, sizeof(list), "%s/%s", folder, lists[i]);
            put_numbered(tree, list, "properties");
        }
    }
    for (minor = DRM_FIRST; put_render_node(tree, minor); minor++)
        ;
    write_link(tree, "/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd");
    write_file(tree, "/sys/devices/virtual/kfd/kfd/dev", 0444, "510:0\n", 6);
    (void)put(tree, "/proc/modules");
    (void)put(tree, "/sys/module/amdgpu/initstate");
    (void)put(tree, "/sys/module/amdgpu/parameters/pcie_p2p");
    snprintf(folder, sizeof(folder), "%.256s/sys/module/amdgpu/holders",
             tree->root);
    (void)mkdir(folder, 0755);
    put_marker(tree, "AMD");
    write_file(tree, "/dev/kfd", 0666, "", 0);
}

/* ---- NVIDIA ---- */

static void
put_nv(struct tree *tree)
{
    char path[128];
    unsigned bus, n_cards = 0;

    (void)put(tree, "/proc/driver/nvidia/version");
    (void)put(tree, "/proc/driver/nvidia/params");
    (void)put(tree, "/proc/devices");
    for (bus = 0; bus < 256; bus++) {
        if (!put(tree, "/proc/driver/nvidia/gpus/0000:%02x:00.0/information",
                 bus))
            continue;
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:00.0",
                 bus);
        put_pci(tree, path);
        snprintf(path, sizeof(path), "/dev/nvidia%u", n_cards++);
        write_node(tree, path);
    }
    put_marker(tree, "NV");
    write_file(tree, "/dev/nvidiactl", 0666, "", 0);
    write_file(tree, "/dev/nvidia-uvm", 0666, "", 0);
}

/* ---- all ---- */

bell_status
sim_tree_write(const char *root, const char *backend, const char *interface)
{
    struct tree tree = {.root = root};

    BELL_TRY(kio_open_interface(backend, interface, &tree.kio));
    if (strcmp(backend, "AMD") == 0)
        put_amd(&tree);
    else
        put_nv(&tree);
    kio_destroy(tree.kio);
    return tree.status;
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void
sim_tree_remove(const char *root)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
