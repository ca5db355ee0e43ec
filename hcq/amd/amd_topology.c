/* What sysfs says of the cards and of the links between them.
 * src: docs/hardware/amd-kernel.md, "Topology", "Peers".
 */
#include "hcq/amd/amd_kfd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define NODES     "/sys/devices/virtual/kfd/kfd/topology/nodes/"
#define MAX_NODES 256u /* CPUs have some, too */
#define MAX_LINKS 256u /* of a node */

/* src: docs/hardware/amd-kernel.md, "Peers" */
#define LINK_PCIE       2u
#define LINK_XGMI       11u
#define LINK_NO_ATOMICS 0xcu /* of 32 bits, of 64 */

#define BYTES_OF_MB 1000000u

/* The number behind "key " at the start of a line; `absent` without it. */
static uint64_t
property(const char *text, const char *key, uint64_t absent)
{
    size_t n = strlen(key);
    const char *at = text;

    while (at) {
        if (strncmp(at, key, n) == 0 && at[n] == ' ')
            return strtoull(at + n + 1, NULL, 10);
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return absent;
}

static bell_status
read_node(struct kio *kio, uint32_t node, const char *file, char *text,
          size_t cap)
{
    char path[128];
    size_t n;

    snprintf(path, sizeof(path), NODES "%u/%s", node, file);
    BELL_TRY(kio_read_file(kio, path, text, cap, &n));
    return BELL_OK;
}

static bool
is_absent(bell_status status)
{
    return status == BELL_E_IO && bell_error_last()->sys_errno == ENOENT;
}

/* Memory that the card has, and whether all of it is open to the CPU. */
static bell_status
read_banks(struct kio *kio, uint32_t n_banks, struct amd_topology *out)
{
    char file[64], text[1024];
    uint32_t i;

    out->large_bar = true;
    for (i = 0; i < n_banks && i < 16; i++) {
        uint64_t kind;
        bell_status status;

        snprintf(file, sizeof(file), "mem_banks/%u/properties", i);
        status = read_node(kio, out->node, file, text, sizeof(text));
        if (is_absent(status))
            break;
        BELL_TRY(status);
        kind = property(text, "heap_type", 0);
        if (kind != 1 && kind != 2)
            continue;
        out->large_bar &= kind == 1;
        out->vram_bytes += property(text, "size_in_bytes", 0);
    }
    return BELL_OK;
}

static uint32_t
divide(uint64_t a, uint64_t b)
{
    return b ? (uint32_t)(a / b) : 0;
}

/* src: Linux 6.12, kfd_sysfs.h, HSA_CAP_FLAGS_COHERENTHOSTACCESS; the kernel
 * flushes no HDP where it sets that (amdgpu_device_flush_hdp) */
#define COHERENT_HOST_ACCESS (1u << 28)

static bell_status
fill_topology(struct kio *kio, uint32_t node, uint32_t gpu_id, const char *text,
              struct amd_topology *out)
{
    uint32_t xcc = (uint32_t)property(text, "num_xcc", 1);
    char name[64];

    memset(out, 0, sizeof(*out));
    out->node = node;
    out->gpu_id = gpu_id;
    out->gfx_target_version = (uint32_t)property(text, "gfx_target_version", 0);
    out->render_minor = (uint32_t)property(text, "drm_render_minor", 0);
    out->n_xcc = xcc ? xcc : 1;
    out->domain = (uint32_t)property(text, "domain", 0);
    /* src: Linux, kfd_topology_add_device: a partition's number above PCI's */
    out->location = (uint32_t)property(text, "location_id", 0) & 0xffff;
    out->partition = (uint32_t)property(text, "location_id", 0) >> 28;
    out->n_arrays = (uint32_t)property(text, "array_count", 0);
    out->n_engines = divide(
        divide(out->n_arrays, property(text, "simd_arrays_per_engine", 1)),
        out->n_xcc);
    out->n_cu = divide(divide(property(text, "simd_count", 0),
                              property(text, "simd_per_cu", 1)),
                       out->n_xcc);
    out->scratch_slots_per_cu =
        (uint32_t)property(text, "max_slots_scratch_cu", 32);
    out->lds_kib = (uint32_t)property(text, "lds_size_in_kb", 64);
    out->n_sdma = (uint32_t)property(text, "num_sdma_engines", 0);
    out->n_sdma_xgmi = (uint32_t)property(text, "num_sdma_xgmi_engines", 0);
    out->has_host_memory =
        (property(text, "capability", 0) & COHERENT_HOST_ACCESS) != 0;
    BELL_TRY(
        read_banks(kio, (uint32_t)property(text, "mem_banks_count", 1), out));
    if (read_node(kio, node, "name", name, sizeof(name)) == BELL_OK)
        snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(name, "\n"),
                 name);
    return BELL_OK;
}

void
amd_render_path(const struct amd_topology *card, char *out_path,
                size_t size_bytes)
{
    snprintf(out_path, size_bytes, "/dev/dri/renderD%u", card->render_minor);
}

/* BELL_E_PERMISSION: the card is not for this process, because its render node
 * is not there or not for this user. */
static bell_status
read_card(struct kio *kio, uint32_t node, uint32_t gpu_id,
          struct amd_topology *out)
{
    char text[4096], path[64];
    bell_status status;

    BELL_TRY(read_node(kio, node, "properties", text, sizeof(text)));
    BELL_TRY(fill_topology(kio, node, gpu_id, text, out));
    amd_render_path(out, path, sizeof(path));
    status = kio_may_open(kio, path);
    if (status == BELL_E_NO_DEVICE)
        return bell_fail_errno(BELL_E_PERMISSION, bell_error_last()->sys_errno,
                               "%s", bell_error_last()->message);
    return status;
}

/* Cards at one place of PCI are partitions of one GPU. */
static void
find_partitions(struct amd_topology *list, uint32_t n)
{
    uint32_t i, k;

    for (i = 0; i < n; i++) {
        list[i].is_partition = list[i].partition != 0;
        for (k = 0; k < n; k++)
            list[i].is_partition |= k != i &&
                                    list[k].domain == list[i].domain &&
                                    list[k].location == list[i].location &&
                                    list[k].partition != list[i].partition;
    }
}

/* KFD itself refuses the nodes of cards that the rules of this process's cgroup
 * forbid. src: Linux 6.12, kfd_topology.c, node_show */
bell_status
amd_topology_list(struct kio *kio, struct amd_topology *out_list, uint32_t cap,
                  uint32_t *out_n)
{
    struct bell_error refused = {.status = BELL_OK};
    struct bell_error_hold hold;
    uint32_t node, n = 0, gpu_id;
    char text[4096];

    bell_error_hold(&hold);
    for (node = 0; node < MAX_NODES && n < cap; node++) {
        bell_status status = read_node(kio, node, "gpu_id", text, sizeof(text));

        if (is_absent(status))
            break;
        if (status == BELL_E_PERMISSION &&
            bell_error_last()->sys_errno == EPERM)
            bell_error_prefix("the device rules of this container or service "
                              "forbid the card");
        gpu_id = status == BELL_OK ? (uint32_t)strtoul(text, NULL, 10) : 0;
        if (gpu_id)
            status = read_card(kio, node, gpu_id, &out_list[n]);
        if (status == BELL_E_PERMISSION) {
            LOG(LOG_EXEC, "an AMD card is passed over: %s",
                bell_error_last()->message);
            if (refused.status == BELL_OK)
                refused = *bell_error_last();
            continue;
        }
        BELL_TRY(status);
        n += gpu_id != 0;
    }
    bell_error_release(&hold);
    if (n == AMD_MAX_CARDS)
        LOG(LOG_EXEC, "AMD cards beyond the first %u are not looked for", n);
    if (n == 0 && refused.status != BELL_OK)
        return bell_error_set(&refused);
    find_partitions(out_list, n);
    *out_n = n;
    return BELL_OK;
}

/* ---- links --------------------------------------------------------------- */

/* The link to the node, of those that `folder` lists for `from`; false: none of
 * them. */
static bool
find_link(struct kio *kio, const char *folder, uint32_t from, uint32_t to,
          struct amd_link *out_link)
{
    char file[64], text[1024];
    uint32_t i;

    for (i = 0; i < MAX_LINKS; i++) {
        snprintf(file, sizeof(file), "%s/%u/properties", folder, i);
        if (read_node(kio, from, file, text, sizeof(text)) != BELL_OK)
            return false;
        if (property(text, "node_to", UINT32_MAX) != to)
            continue;
        *out_link = (struct amd_link){
            .is_xgmi = property(text, "type", 0) == LINK_XGMI,
            .is_pcie = property(text, "type", 0) == LINK_PCIE,
            .weight = (uint32_t)property(text, "weight", 0),
            .engines =
                (uint32_t)property(text, "recommended_sdma_engine_id_mask", 0),
            .has_atomics = (property(text, "flags", 0) & LINK_NO_ATOMICS) == 0,
            .bytes_per_s = property(text, "max_bandwidth", 0) * BYTES_OF_MB,
        };
        return out_link->is_xgmi || out_link->is_pcie;
    }
    return false;
}

bool
amd_link_find(struct kio *kio, const struct amd_topology *from,
              const struct amd_topology *to, struct amd_link *out_link)
{
    struct bell_error_hold hold;
    bool found;

    memset(out_link, 0, sizeof(*out_link));
    bell_error_hold(&hold);
    found = find_link(kio, "io_links", from->node, to->node, out_link) ||
            find_link(kio, "p2p_links", from->node, to->node, out_link);
    bell_error_release(&hold);
    return found;
}

/* A short file's first line; "": it is not there. */
static void
read_line(struct kio *kio, const char *path, char *line, size_t size_bytes)
{
    size_t n = 0;

    if (kio_read_file(kio, path, line, size_bytes, &n) != BELL_OK)
        n = 0;
    line[n < size_bytes ? n : size_bytes - 1] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

/* src: docs/hardware/amd-kernel.md, "Peers" */
void
amd_link_why_not(struct kio *kio, const struct amd_topology *from,
                 const struct amd_topology *to, char *text, size_t size_bytes)
{
    char path[96], p2p[64], iommu[64];
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    read_line(kio, "/sys/module/amdgpu/parameters/pcie_p2p", p2p, sizeof(p2p));
    snprintf(path, sizeof(path),
             "/sys/class/drm/renderD%u/device/iommu_group/type",
             from->render_minor);
    read_line(kio, path, iommu, sizeof(iommu));
    bell_error_release(&hold);
    if (!p2p[0])
        snprintf(text, size_bytes,
                 "no XGMI, and the kernel has no PCIe peers "
                 "(CONFIG_HSA_AMD_P2P)");
    else if (p2p[0] == 'N')
        snprintf(text, size_bytes,
                 "no XGMI, and amdgpu's parameter pcie_p2p is off");
    else if (!to->large_bar)
        snprintf(text, size_bytes,
                 "no XGMI, and PCIe peers need a resizable BAR, which the "
                 "other has not");
    else if (strncmp(iommu, "DMA", 3) == 0)
        snprintf(text, size_bytes,
                 "no XGMI, and no PCIe path for peers: an IOMMU translates "
                 "(%s), or ACS redirects",
                 iommu);
    else
        snprintf(text, size_bytes,
                 "no XGMI, and no PCIe path for peers: ACS redirects, or the "
                 "root complex is not known to pass them on");
}
