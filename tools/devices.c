/* `doorbell devices`: what there is to compute on, and which simulated cards
 * can be asked for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq.h"
#include "ioctl/kio_interface.h"
#include "tools/json.h"
#include "tools/tools.h"

/* One device: its line of the enumeration and, if it opens, what it is. */
struct entry {
    struct hcq_device_desc desc;
    struct hcq_device_info info;
};

struct devices_options {
    bool json;
    const char *device;
};

/* Nothing is opened for these unless they are named. "*2" after one means two
 * cards on one machine. */
static const char *const simulated[] = {
    "NV@sim:sm_80",     "NV@sim:sm_89",      "NV@sim:sm_90",
    "NV@sim:sm_120",    "NV@sim:a100",       "NV@sim:rtx4090",
    "NV@sim:l40s",      "NV@sim:h100",       "NV@sim:h200",
    "NV@sim:rtx5090",   "AMD@sim:gfx90a",    "AMD@sim:gfx942",
    "AMD@sim:gfx1030",  "AMD@sim:gfx1100",   "AMD@sim:gfx1201",
    "AMD@sim:mi210",    "AMD@sim:mi300x",    "AMD@sim:mi325x",
    "AMD@sim:rx6900xt", "AMD@sim:rx7900xtx", "AMD@sim:rx9070xt",
};

static bool
has_simulators(void)
{
    return strstr(kio_interface_list(), "sim") != NULL;
}

/* All devices, usable or not; *out_entries is freed with host_free. */
static bell_status
list_devices(struct entry **out_entries, size_t *out_n)
{
    struct hcq_device_desc *descs;
    struct entry *entries;
    bell_status status;
    size_t cap, n, i;

    BELL_TRY(hcq_device_enumerate(NULL, 0, &cap));
    descs = host_calloc(cap ? cap : 1, sizeof(*descs));
    entries = host_calloc(cap ? cap : 1, sizeof(*entries));
    if (!descs || !entries) {
        status = bell_fail(BELL_E_NO_MEMORY,
                           "out of memory listing %zu devices", cap);
        goto done;
    }
    status = hcq_device_enumerate(descs, cap, &n);
    if (status != BELL_OK)
        goto done;
    n = n < cap ? n : cap;
    for (i = 0; i < n; i++)
        entries[i].desc = descs[i];
    *out_entries = entries;
    *out_n = n;
    entries = NULL;
done:
    host_free(descs);
    host_free(entries);
    return status;
}

static bell_status
read_info(const char *name, struct hcq_device_info *out_info)
{
    struct hcq_device *dev;

    BELL_TRY(hcq_device_open(name, &dev));
    out_info->struct_size = sizeof(*out_info);
    hcq_device_info(dev, out_info);
    hcq_device_close(dev);
    return BELL_OK;
}

/* Opens what should open; a refusal is a finding, not a failure. */
static void
read_infos(struct entry *entries, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct hcq_device_desc *desc = &entries[i].desc;
        if (!desc->usable || read_info(desc->name, &entries[i].info) == BELL_OK)
            continue;
        desc->usable = false;
        snprintf(desc->why_not, sizeof(desc->why_not), "%.*s",
                 (int)sizeof(desc->why_not) - 1, bell_error_last()->message);
    }
}

static void
print_entry(const struct entry *entry)
{
    const struct hcq_device_info *info = &entry->info;

    if (!entry->desc.usable) {
        printf("%-8s %s\n         not usable: %s\n", entry->desc.name,
               entry->desc.description, entry->desc.why_not);
        return;
    }
    printf("%-8s %s\n", entry->desc.name, info->model);
    printf("         %s, %" PRIu32 " unit%s, %.1f GiB\n", info->arch,
           info->n_units, info->n_units == 1 ? "" : "s",
           (double)info->memory_bytes / (double)(1u << 30));
}

static void
put_entry(struct json *json, const struct entry *entry)
{
    const struct hcq_device_info *info = &entry->info;
    bool usable = entry->desc.usable;

    json_object(json, NULL);
    json_str(json, "name", entry->desc.name);
    json_str(json, "backend", entry->desc.backend);
    json_str(json, "description",
             usable ? info->model : entry->desc.description);
    json_bool(json, "usable", usable);
    if (!usable) {
        json_str(json, "why_not", entry->desc.why_not);
    } else {
        json_str(json, "arch", info->arch);
        json_bool(json, "simulated", (info->flags & HCQ_DEVICE_SIMULATED) != 0);
        json_uint(json, "n_units", info->n_units);
        json_uint(json, "memory_bytes", info->memory_bytes);
        json_uint(json, "max_buffer_bytes", info->max_buffer_bytes);
        json_uint(json, "max_args", info->max_args);
        json_uint(json, "timestamp_hz", info->timestamp_hz);
    }
    json_end(json);
}

static void
print_simulated(void)
{
    size_t i;

    if (!has_simulators())
        return;
    printf("simulated, by name:");
    for (i = 0; i < ARRAY_LEN(simulated); i++)
        printf(" %s", simulated[i]);
    printf("\n");
}

static void
put_simulated(struct json *json)
{
    size_t i;

    json_array(json, "simulated");
    for (i = 0; has_simulators() && i < ARRAY_LEN(simulated); i++)
        json_str(json, NULL, simulated[i]);
    json_end(json);
}

/* `all`: not of one device that was asked for. */
static int
print_entries(const struct entry *entries, size_t n, bool as_json, bool all)
{
    struct json json;
    size_t i;

    if (!as_json) {
        for (i = 0; i < n; i++)
            print_entry(&entries[i]);
        if (all)
            print_simulated();
        return TOOL_OK;
    }
    json_init(&json);
    json_array(&json, "devices");
    for (i = 0; i < n; i++)
        put_entry(&json, &entries[i]);
    json_end(&json);
    if (all)
        put_simulated(&json);
    return tool_print_json(&json);
}

static int
print_one(const struct devices_options *options)
{
    struct entry entry = {.desc.usable = true};
    bell_status status = read_info(options->device, &entry.info);

    if (status != BELL_OK)
        return tool_fail(options->json, status);
    snprintf(entry.desc.name, sizeof(entry.desc.name), "%s", entry.info.name);
    entry.desc.backend = entry.info.backend;
    return print_entries(&entry, 1, options->json, false);
}

int
verb_devices(int argc, char **argv)
{
    struct devices_options options = {0};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "this one alone, for example CPU:0"},
        TOOL_JSON_OPT(&options.json),
    };
    struct entry *entries = NULL;
    bell_status status;
    size_t n = 0;
    int code;

    code = tool_parse("devices [DEVICE] [--json]\n\n"
                      "Lists the devices of this machine: what each is, and "
                      "for one that cannot\nbe used, why. Then the simulated "
                      "ones, which are opened when they are named.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.device)
        return print_one(&options);
    status = list_devices(&entries, &n);
    if (status != BELL_OK)
        return tool_fail(options.json, status);
    read_infos(entries, n);
    code = print_entries(entries, n, options.json, true);
    host_free(entries);
    return code;
}
