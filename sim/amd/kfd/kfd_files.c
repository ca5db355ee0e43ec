/* The sysfs files that drivers read: the topology, and what the render nodes
 * say of their blocks. src: docs/hardware/amd-kernel.md, "Topology". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "sim/amd/kfd/kfd.h"
#include "sim/dmabuf.h"
#include "sim/text.h"

#define TOPOLOGY "/sys/devices/virtual/kfd/kfd/topology/"

static void
put_key(struct sim_text *text, const char *key, uint64_t value)
{
    sim_text_put(text, "%s %llu\n", key, (unsigned long long)value);
}

static void
put_cpu_node(struct sim_text *text, const struct kfd_machine *machine)
{
    put_key(text, "cpu_cores_count", 2);
    put_key(text, "simd_count", 0);
    put_key(text, "mem_banks_count", 1);
    put_key(text, "io_links_count", kfd_count_links(machine, 0, false));
    put_key(text, "gfx_target_version", 0);
    put_key(text, "drm_render_minor", 0);
}

static bool
is_old(const struct kfd_card *card)
{
    return card->machine->first_is_old && card->index == 0;
}

/* The partition is in the highest bits. src: Linux, kfd_topology.c,
 * kfd_topology_add_device */
uint64_t
kfd_location(const struct kfd_card *card)
{
    uint32_t n = card->machine->n_partitions;

    return 0x300 + 0x100 * (uint64_t)(card->index / n) +
           ((uint64_t)(card->index % n) << 28);
}

static void
put_gpu(struct sim_text *text, const struct kfd_card *card)
{
    const struct amdsim_chip *chip = card->machine->chip;
    uint32_t node = card->index + KFD_CPU_NODES;
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"cpu_cores_count", 0},
        {"simd_count", chip->simd_count},
        {"mem_banks_count", 1},
        {"caches_count", 2},
        {"io_links_count", kfd_count_links(card->machine, node, false)},
        {"p2p_links_count", kfd_count_links(card->machine, node, true)},
        {"max_waves_per_simd", chip->max_waves_per_simd},
        {"lds_size_in_kb", chip->lds_kib},
        {"gds_size_in_kb", 0},
        {"num_gws", 64},
        {"wave_front_size", chip->gfx == 9 ? 64 : 32},
        {"array_count", chip->array_count},
        {"simd_arrays_per_engine", chip->simd_arrays_per_engine},
        {"cu_per_simd_array",
         chip->simd_count / chip->simd_per_cu / chip->array_count},
        {"simd_per_cu", chip->simd_per_cu},
        {"max_slots_scratch_cu", chip->max_slots_scratch_cu},
        {"gfx_target_version",
         is_old(card) ? KFD_OLD_VERSION : chip->gfx_target_version},
        {"vendor_id", 4098},
        {"device_id", chip->device_id},
        {"location_id", kfd_location(card)},
        {"domain", 0},
        {"drm_render_minor", card->render_minor},
        {"hive_id", kfd_hive_id(card)},
        {"num_sdma_engines", kfd_n_sdma(card->machine)},
        {"num_sdma_xgmi_engines", kfd_n_sdma_xgmi(card->machine)},
        {"num_sdma_queues_per_engine", chip->n_sdma_queues},
        {"num_cp_queues", 8},
        {"max_engine_clk_fcompute", 2000},
        {"local_mem_size", 0},
        {"fw_version", 100},
        /* doorbells of 64 bits (2 << 12), four watch points; the host's
         * accesses are coherent. src: HSA_CAP_* of kfd_topology.h */
        {"capability", 0x2280 | (chip->has_no_memory ? 1u << 28 : 0)},
        {"debug_prop", 0},
        {"sdma_fw_version", 20},
        {"unique_id", 0x1234567800ull + card->index},
        {"num_xcc", chip->n_xcc},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (!card->machine->kernel_is_old ||
            strcmp(rows[i].key, "gfx_target_version") != 0)
            put_key(text, rows[i].key, rows[i].value);
    }
}

static void
put_bank(struct sim_text *text, const struct kfd_card *card)
{
    /* public, or private where the window does not show all of it.
     * src: Linux 6.12, kfd_crat.c, kfd_create_vcrat_image_gpu */
    put_key(text, "heap_type", !card ? 0 : card->machine->bar_mib ? 2 : 1);
    put_key(text, "size_in_bytes",
            card ? card->machine->chip->vram_bytes : (uint64_t)64 << 30);
    put_key(text, "flags", 0);
    put_key(text, "width", 4096);
    put_key(text, "mem_clk_max", 1300);
}

/* The vector cache of a unit, and L2; the kernel lists each unit's. src:
 * kfd_cache_show; sizes: kfd_crat.c, but for gfx11 and later (lead) */
static void
put_cache(struct sim_text *text, const struct amdsim_chip *chip, uint32_t level)
{
    uint32_t i;

    put_key(text, "processor_id_low", 0x80001000);
    put_key(text, "level", level);
    put_key(text, "size", level == 1 ? chip->l1_kib : chip->l2_kib);
    put_key(text, "cache_line_size", chip->gfx == 9 && level == 1 ? 64 : 128);
    put_key(text, "cache_lines_per_tag", 1);
    put_key(text, "association", 16);
    put_key(text, "latency", 1);
    put_key(text, "type", 9); /* data, of a compute unit */
    sim_text_put(text, "sibling_map 1");
    for (i = 1; i < (level == 1 ? 1 : chip->simd_count / chip->simd_per_cu);
         i++)
        sim_text_put(text, ",1");
    sim_text_put(text, "\n");
}

static const char *
name_of(const struct kfd_card *card)
{
    return is_old(card) ? KFD_OLD_NAME : card->machine->chip->name;
}

/* src: Linux 6.12, kfd_topology.c, node_show: of the id and the properties */
static bool
is_denied(const struct kfd_machine *machine, uint32_t node)
{
    return node >= KFD_CPU_NODES &&
           machine->denied >> (node - KFD_CPU_NODES) & 1;
}

/* What follows ".../nodes/<n>/". */
static bool
put_node(struct sim_text *text, struct kfd_machine *machine, uint32_t node,
         const char *rest)
{
    struct kfd_card *card =
        node >= KFD_CPU_NODES ? &machine->cards[node - KFD_CPU_NODES] : NULL;
    unsigned number;
    char tail[32];

    if (node >= KFD_CPU_NODES + machine->n_cards)
        return false;
    if (strcmp(rest, "gpu_id") == 0)
        sim_text_put(text, "%u\n", card ? card->gpu_id : 0);
    else if (strcmp(rest, "name") == 0)
        sim_text_put(text, "%s\n", card ? name_of(card) : "");
    else if (strcmp(rest, "properties") == 0 && card)
        put_gpu(text, card);
    else if (strcmp(rest, "properties") == 0)
        put_cpu_node(text, machine);
    else if (strcmp(rest, "mem_banks/0/properties") == 0)
        put_bank(text, card);
    else if (card && sscanf(rest, "caches/%u/%31s", &number, tail) == 2 &&
             strcmp(tail, "properties") == 0 && number < 2)
        put_cache(text, machine->chip, number + 1);
    else if (sscanf(rest, "io_links/%u/%31s", &number, tail) == 2 &&
             strcmp(tail, "properties") == 0)
        return kfd_put_link(text, machine, node, false, number);
    else if (sscanf(rest, "p2p_links/%u/%31s", &number, tail) == 2 &&
             strcmp(tail, "properties") == 0)
        return kfd_put_link(text, machine, node, true, number);
    else
        return false;
    return true;
}

/* Hardware ids 11, 42 and 108. src: docs/hardware/amd-kernel.md, "Topology" */
static bool
put_discovery(struct sim_text *text, const struct kfd_machine *machine,
              const char *rest)
{
    static const char where[] = "device/ip_discovery/die/0/";
    const struct amdsim_chip *chip = machine->chip;
    uint32_t version;
    unsigned id;
    char key[16];

    if (strncmp(rest, where, sizeof(where) - 1) != 0 ||
        sscanf(rest + sizeof(where) - 1, "%u/0/%15s", &id, key) != 2)
        return false;
    if (id == 11)
        version = chip->gc_version;
    else if (id == 42)
        version = chip->sdma_version;
    else if (id == 108)
        version = chip->nbif_version;
    else
        return false;
    if (strcmp(key, "major") == 0)
        sim_text_put(text, "%u\n", version / 10000);
    else if (strcmp(key, "minor") == 0)
        sim_text_put(text, "%u\n", version / 100 % 100);
    else if (strcmp(key, "revision") == 0)
        sim_text_put(text, "%u\n", version % 100);
    else
        return false;
    return true;
}

/* src: Linux 6.12, kgd_pp_interface.h: struct gpu_metrics_v1_3, whose header is
 * its size and its version; nothing throttles. */
static void
put_metrics(struct sim_text *text)
{
    const unsigned char head[] = {120, 0, 1, 3};
    size_t i;

    for (i = 0; i < 120 && text->n < text->cap; i++)
        text->buf[text->n++] = (char)(i < sizeof(head) ? head[i] : 0);
}

/* Sensors and counters, which stand still: what reads them has something to
 * read. A virtual function shows none (guess: as it has no MMIO page). */
static bool
put_sensor(struct sim_text *text, const struct kfd_card *card, const char *rest)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
        {"device/hwmon/hwmon0/name", "amdgpu"},
        {"device/hwmon/hwmon0/temp1_input", "45000"},
        {"device/hwmon/hwmon0/power1_average", "90000000"},
        {"device/hwmon/hwmon0/freq1_input", "2100000000"},
        {"device/hwmon/hwmon0/freq2_input", "1300000000"},
        {"device/pcie_replay_count", "0"},
        {"device/ras/umc_err_count", "ue: 0\nce: 0"},
    };
    size_t i;

    if (card->machine->is_virtual)
        return false;
    if (strcmp(rest, "device/gpu_metrics") == 0) {
        put_metrics(text);
        return true;
    }
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].name, rest) == 0) {
            sim_text_put(text, "%s\n", rows[i].value);
            return true;
        }
    }
    return false;
}

/* A file of the card's PCI folder; false: there is none of that name. */
static bool
put_pci_file(struct sim_text *text, const struct kfd_card *card,
             const char *rest)
{
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {
        {"device/vendor", 0x1002},
        {"device/device", card->machine->chip->device_id},
        {"device/class", 0x038000}, /* display, without a screen */
        {"device/revision", 0},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].name, rest) == 0) {
            sim_text_put(text, "0x%0*x\n", i == 2 ? 6 : 4, rows[i].value);
            return true;
        }
    }
    if (strcmp(rest, "device/uevent") == 0) {
        uint32_t at = (uint32_t)kfd_location(card);

        sim_text_put(text,
                     "DRIVER=amdgpu\nPCI_CLASS=%X\nPCI_ID=1002:%04X\n"
                     "PCI_SLOT_NAME=0000:%02x:%02x.%x\n",
                     rows[2].value, rows[1].value, at >> 8 & 0xff,
                     at >> 3 & 0x1f, at & 7);
        return true;
    }
    /* src: Linux, Documentation/ABI/testing/sysfs-kernel-iommu_groups */
    if (strcmp(rest, "device/iommu_group/type") == 0) {
        sim_text_put(text, "DMA-FQ\n");
        return card->machine->acs_redirects;
    }
    return put_sensor(text, card, rest);
}

/* The number after `prefix`, and what follows the slash behind it. */
static const char *
after_number(const char *path, const char *prefix, uint32_t *out_number)
{
    size_t n = strlen(prefix);
    char *end;

    if (strncmp(path, prefix, n) != 0 || path[n] < '0' || path[n] > '9')
        return NULL;
    *out_number = (uint32_t)strtoul(path + n, &end, 10);
    return *end == '/' ? end + 1 : NULL;
}

/* Files that there is one of. */
static bool
put_property(struct sim_text *text, const struct kfd_machine *machine,
             const char *path)
{
    if (strcmp(path, TOPOLOGY "generation_id") == 0) {
        sim_text_put(text, "%u\n", 1 + machine->n_cards);
    } else if (strcmp(path, TOPOLOGY "system_properties") == 0) {
        put_key(text, "platform_oem", 0x53494d);
        put_key(text, "platform_id", 0x53494d);
        put_key(text, "platform_rev", 1);
    } else if (strcmp(path, "/proc/modules") == 0) {
        sim_text_put(text, "amdgpu 13000000 0 - Live 0x0000000000000000\n");
    } else if (strcmp(path, "/sys/module/amdgpu/initstate") == 0) {
        sim_text_put(text, "live\n");
    } else if (strcmp(path, "/sys/module/amdgpu/parameters/pcie_p2p") == 0 &&
               machine->has_p2p) {
        sim_text_put(text, "%c\n", machine->p2p_is_off ? 'N' : 'Y');
    } else {
        return false;
    }
    return true;
}

int
kfd_read_file(struct kfd_machine *machine, const char *path, void *buf,
              size_t cap)
{
    char whole[4096];
    struct sim_text text = {.buf = whole, .cap = sizeof(whole)};
    const char *rest;
    uint32_t number;
    bool found = false;
    int n = sim_dmabuf_read_info(path, buf, cap);

    if (n != -ENOENT)
        return n;
    whole[0] = '\0';
    if ((rest = after_number(path, TOPOLOGY "nodes/", &number))) {
        if (is_denied(machine, number))
            return -EPERM;
        found = put_node(&text, machine, number, rest);
    } else if ((rest = after_number(path, "/sys/class/drm/renderD", &number))) {
        found = number >= KFD_DRM_FIRST &&
                number - KFD_DRM_FIRST < machine->n_cards &&
                (put_discovery(&text, machine, rest) ||
                 put_pci_file(&text, &machine->cards[number - KFD_DRM_FIRST],
                              rest));
    } else {
        found = put_property(&text, machine, path);
    }
    if (!found)
        return kfd_fail(ENOENT, "the simulated machine has no %s", path);
    text.n = text.n < cap ? text.n : cap;
    memcpy(buf, whole, text.n);
    return (int)text.n;
}
