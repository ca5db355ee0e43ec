/* GPUs of PCI for people and programs. */
#include "tools/machine/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq_facts.h"
#include "base/json.h"
#include "tools/tools.h"

/* ---- text ---------------------------------------------------------------- */

/* "16 MiB": the largest unit that divides it. */
static void
size_text(uint64_t n_bytes, char out[24])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;

    while (i < 4 && n_bytes && n_bytes % 1024 == 0) {
        n_bytes /= 1024;
        i++;
    }
    snprintf(out, 24, "%" PRIu64 " %s", n_bytes, units[i]);
}

static void
print_link(const struct machine_gpu *gpu)
{
    tool_printf("             PCIe ");
    if (gpu->link_gt_s > 0 && gpu->link_width)
        tool_printf("%g GT/s x%" PRIu32, gpu->link_gt_s, gpu->link_width);
    else
        tool_printf("link not told");
    if (gpu->link_max_gt_s > 0 && gpu->link_max_width)
        tool_printf(" (at most %g GT/s x%" PRIu32 ")", gpu->link_max_gt_s,
                    gpu->link_max_width);
    if (gpu->numa_node >= 0)
        tool_printf(", NUMA node %" PRId64, gpu->numa_node);
    if (gpu->iommu_group >= 0)
        tool_printf(", IOMMU group %" PRId64, gpu->iommu_group);
    tool_printf("\n");
}

void
machine_print_gpu(const struct machine_gpu *gpu)
{
    size_t i;

    tool_printf("%-12s %s%s%s (%04x:%04x, subsystem %04x:%04x, revision %02x)%s"
                "\n",
                gpu->address, gpu->vendor_name[0] ? gpu->vendor_name : "GPU",
                gpu->device_name[0] ? " " : "", gpu->device_name, gpu->vendor,
                gpu->device, gpu->sub_vendor, gpu->sub_device, gpu->revision,
                gpu->is_simulated ? ", simulated" : "");
    if (gpu->is_asleep)
        tool_printf("             asleep (runtime power management); it is not "
                    "woken to be asked\n");
    print_link(gpu);
    for (i = 0; i < gpu->n_bars; i++) {
        const struct machine_bar *bar = &gpu->bars[i];
        char size[24];

        size_text(bar->size_bytes, size);
        tool_printf("%s BAR %u %s%s", i ? "," : "            ", bar->index,
                    size, bar->is_io ? " of ports" : "");
    }
    tool_printf("%s             kernel driver: %s%s%s", gpu->n_bars ? "\n" : "",
                gpu->driver[0] ? gpu->driver : "none",
                gpu->driver_version[0] ? " " : "", gpu->driver_version);
    if (gpu->backend && gpu->number >= 0)
        tool_printf("; device %s:%" PRId64, gpu->backend, gpu->number);
    if (gpu->n_partitions > 1)
        tool_printf(", the first of %u partitions", gpu->n_partitions);
    tool_printf("\n");
    if (gpu->has_small_bar)
        tool_printf("             the CPU sees a part of its memory only (no "
                    "resizable BAR): copies are slower\n");
    if (gpu->host_memory_bytes) {
        char size[24];

        size_text(gpu->host_memory_bytes, size);
        tool_printf("             its memory is the host's: the kernel lends "
                    "%s (its parameter ttm.pages_limit)\n",
                    size);
    }
    if (gpu->why_not[0])
        tool_printf("             not usable: %s\n", gpu->why_not);
    if (gpu->fix[0])
        tool_printf("             to fix: %s\n", gpu->fix);
}

/* ---- JSON ---------------------------------------------------------------- */

static void
put_machine_text(struct json *json, const char *key, const char *text)
{
    json_str(json, key, text[0] ? text : NULL);
}

static void
put_hex(struct json *json, const char *key, unsigned digits, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%0*" PRIx64, (int)digits, value);
    json_str(json, key, text);
}

/* `value` where `told`; else null. */
static void
put_told(struct json *json, const char *key, bool told, double value)
{
    if (told)
        json_num(json, key, value);
    else
        json_null(json, key);
}

static void
put_bars(struct json *json, const struct machine_gpu *gpu)
{
    size_t i;

    json_array(json, "bars");
    for (i = 0; i < gpu->n_bars; i++) {
        const struct machine_bar *bar = &gpu->bars[i];

        json_object(json, NULL);
        json_uint(json, "index", bar->index);
        put_hex(json, "address", 1, bar->address);
        json_uint(json, "size_bytes", bar->size_bytes);
        json_str(json, "kind", bar->is_io ? "ports" : "memory");
        json_bool(json, "is_64bit", bar->is_64bit);
        json_bool(json, "prefetchable", bar->is_prefetchable);
        json_end(json);
    }
    json_end(json);
}

static void
put_nodes(struct json *json, const struct machine_gpu *gpu)
{
    size_t i;

    json_array(json, "nodes");
    for (i = 0; i < gpu->n_nodes; i++) {
        const struct machine_node *node = &gpu->nodes[i];
        char mode[8];

        json_object(json, NULL);
        json_str(json, "path", node->path);
        json_bool(json, "there", node->is_there);
        json_bool(json, "may_open", node->may_open);
        snprintf(mode, sizeof(mode), "%04o", node->mode);
        json_str(json, "mode", node->is_there ? mode : NULL);
        put_machine_text(json, "group", node->group);
        json_end(json);
    }
    json_end(json);
}

void
machine_put_gpu(struct json *json, const struct machine_gpu *gpu)
{
    char name[32] = "";

    json_object(json, NULL);
    json_str(json, "address", gpu->address);
    put_hex(json, "vendor_id", 4, gpu->vendor);
    put_hex(json, "device_id", 4, gpu->device);
    put_hex(json, "subsystem_vendor_id", 4, gpu->sub_vendor);
    put_hex(json, "subsystem_device_id", 4, gpu->sub_device);
    put_hex(json, "class", 6, gpu->class_code);
    put_hex(json, "revision", 2, gpu->revision);
    put_machine_text(json, "vendor", gpu->vendor_name);
    put_machine_text(json, "model", gpu->device_name);
    put_machine_text(json, "subsystem", gpu->sub_name);
    put_bars(json, gpu);
    json_bool(json, "asleep", gpu->is_asleep);
    json_bool(json, "simulated", gpu->is_simulated);
    put_told(json, "link_gt_s", gpu->link_gt_s > 0, gpu->link_gt_s);
    put_told(json, "link_lanes", gpu->link_width > 0, gpu->link_width);
    put_told(json, "link_max_gt_s", gpu->link_max_gt_s > 0, gpu->link_max_gt_s);
    put_told(json, "link_max_lanes", gpu->link_max_width > 0,
             gpu->link_max_width);
    put_told(json, "numa_node", gpu->numa_node >= 0, (double)gpu->numa_node);
    put_told(json, "iommu_group", gpu->iommu_group >= 0,
             (double)gpu->iommu_group);
    put_machine_text(json, "driver", gpu->driver);
    put_machine_text(json, "driver_version", gpu->driver_version);
    put_machine_text(json, "drm_node", gpu->drm_node);
    put_nodes(json, gpu);
    if (gpu->backend && gpu->number >= 0)
        snprintf(name, sizeof(name), "%s:%" PRId64, gpu->backend, gpu->number);
    put_machine_text(json, "device", name);
    json_bool(json, "usable", !gpu->why_not[0]);
    put_machine_text(json, "why_not", gpu->why_not);
    put_machine_text(json, "fix", gpu->fix);
    json_end(json);
}

/* ---- what our drivers know ----------------------------------------------- */

void
machine_number_nv(struct machine *machine)
{
    struct hcq_card cards[HCQ_CARDS_MAX];
    size_t n, i, k;

    if (hcq_card_list("NV", cards, &n) != BELL_OK)
        return;
    for (i = 0; i < machine->n_gpus; i++) {
        for (k = 0; k < n; k++) {
            if (strcmp(cards[k].address, machine->gpus[i].address) == 0)
                machine->gpus[i].number = (int64_t)k;
        }
    }
}

struct machine_gpu *
machine_find(struct machine *machine, const char *backend, const char *name)
{
    char own[32];
    size_t i;

    for (i = 0; i < machine->n_gpus; i++) {
        struct machine_gpu *gpu = &machine->gpus[i];

        snprintf(own, sizeof(own), "%s:%" PRId64, backend, gpu->number);
        if (gpu->backend && strcmp(gpu->backend, backend) == 0 &&
            strcmp(own, name) == 0)
            return gpu;
    }
    return NULL;
}

static bell_status
add_engine(void *user, const struct hcq_fact *fact)
{
    struct machine_engines *engines = user;

    if (engines->n == ARRAY_LEN(engines->list))
        return BELL_OK;
    engines->list[engines->n].what = fact->name;
    snprintf(engines->list[engines->n].text,
             sizeof(engines->list[engines->n].text),
             fact->is_class ? "%04" PRIx64 : "%" PRIu64, fact->value);
    engines->n++;
    return BELL_OK;
}

void
machine_read_engines(struct hcq_device *dev,
                     struct machine_engines *out_engines)
{
    out_engines->n = 0;
    (void)!hcq_device_facts(dev, add_engine, out_engines);
}
