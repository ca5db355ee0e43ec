/* `doorbell devices`: what there is to compute on, the GPUs that PCI shows, and
 * which simulated cards can be asked for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/json.h"
#include "hcq/hcq_facts.h"
#include "ioctl/kio_interface.h"
#include "tools/links.h"
#include "tools/machine/machine.h"
#include "tools/machine/print.h"
#include "tools/tools.h"

/* One device: its line of the enumeration and, if it opens, what it is. */
struct entry {
    struct hcq_device_desc desc;
    struct hcq_device_info info;
    uint32_t clock_mhz; /* now; 0: it does not tell */
    bool is_asleep;     /* and so was not opened */
    char assumed[160];  /* hcq_device_assumed's */
    struct machine_engines engines;
};

#define BACKENDS_MAX   8u
#define SIMULATED_NAME 64u
#define CHIP_NAMES     640u /* bytes of a line of chips and products */

struct devices_options {
    bool json, all, names;
    const char *device, *root;
};

static bool
has_simulators(void)
{
    return strstr(kio_interface_list(), "sim") != NULL;
}

static const char *const simulated_backends[] = {"NV", "AMD", "QCOM"};

/* The simulated card of a number from 0: every chip and product of base/chip.h.
 * Nothing is opened for these unless they are named. "*2" after one means two
 * cards on one machine. False: there are fewer. */
static bool
simulated_at(size_t number, char name[SIMULATED_NAME])
{
    char chips[CHIP_NAMES], *chip, *rest;
    size_t i;

    for (i = 0; has_simulators() && i < ARRAY_LEN(simulated_backends); i++) {
        chip_list(simulated_backends[i], chips, sizeof(chips));
        for (chip = strtok_r(chips, ", ", &rest); chip;
             chip = strtok_r(NULL, ", ", &rest)) {
            if (number-- > 0)
                continue;
            snprintf(name, SIMULATED_NAME, "%s@sim:%s", simulated_backends[i],
                     chip);
            return true;
        }
    }
    return false;
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
read_info(const char *name, struct entry *entry)
{
    struct hcq_device *dev;

    BELL_TRY(hcq_device_open(name, &dev));
    entry->info.struct_size = sizeof(entry->info);
    hcq_device_info(dev, &entry->info);
    if (hcq_device_clock_mhz(dev, &entry->clock_mhz) != BELL_OK)
        entry->clock_mhz = 0;
    machine_read_engines(dev, &entry->engines);
    hcq_device_assumed(dev, entry->assumed, sizeof(entry->assumed));
    hcq_device_close(dev);
    return BELL_OK;
}

/* Opens what should open and does not sleep; a refusal is a finding, not a
 * failure. */
static void
read_infos(struct entry *entries, size_t n, struct machine *machine)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct hcq_device_desc *desc = &entries[i].desc;
        const struct machine_gpu *gpu =
            machine_find(machine, desc->backend, desc->name);

        if (desc->usable && gpu && gpu->is_asleep) {
            entries[i].is_asleep = true;
            desc->usable = false;
            snprintf(desc->why_not, sizeof(desc->why_not),
                     "asleep, and not woken to be asked; whoever names it "
                     "wakes it: doorbell devices %s",
                     desc->name);
            continue;
        }
        if (!desc->usable || read_info(desc->name, &entries[i]) == BELL_OK)
            continue;
        desc->usable = false;
        snprintf(desc->why_not, sizeof(desc->why_not), "%.*s",
                 (int)sizeof(desc->why_not) - 1, bell_error_last()->message);
    }
}

/* A simulated card whose model does not say so. */
static const char *
simulated_note(const struct hcq_device_info *info)
{
    bool is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) &&
                        !(info->flags & HCQ_DEVICE_NULL);

    return is_simulated && strncmp(info->model, "Simulated ", 10) != 0
               ? " (simulated)"
               : "";
}

static void
print_entry(const struct entry *entry)
{
    const struct hcq_device_info *info = &entry->info;
    size_t i;

    if (!entry->desc.usable) {
        tool_printf("%-8s %s\n         not usable: %s\n", entry->desc.name,
                    entry->desc.description, entry->desc.why_not);
        return;
    }
    tool_printf("%-8s %s%s\n", entry->desc.name, info->model,
                simulated_note(info));
    tool_printf("         %s, %" PRIu32 " unit%s, %.1f GiB", info->arch,
                info->n_units, info->n_units == 1 ? "" : "s",
                (double)info->memory_bytes / (double)(1u << 30));
    if (entry->clock_mhz)
        tool_printf(", %" PRIu32 " MHz now", entry->clock_mhz);
    if (info->max_local_total > 1)
        tool_printf("\n         work-groups of %" PRIu32 " threads, %" PRIu32
                    " KiB shared memory",
                    info->max_local_total, info->max_shared_bytes >> 10);
    for (i = 0; i < entry->engines.n; i++)
        tool_printf("%s %s %s",
                    i ? "," : "; engines:", entry->engines.list[i].what,
                    entry->engines.list[i].text);
    tool_printf("\n");
    if (entry->assumed[0])
        tool_printf("         %s\n", entry->assumed);
}

/* What the product is sold with; no member where none is known. */
static void
put_product(struct json *json, const struct hcq_device_info *info)
{
    static const char *const rates[CHIP_RATE_COUNT] = {
        "f32_tflops",         "f64_tflops",        "matrix_f16_tflops",
        "matrix_tf32_tflops", "matrix_f32_tflops", "matrix_f64_tflops",
        "matrix_8bit_tflops", "f16_tflops",        "bf16_tflops",
        "i32_tflops",
    };
    const struct chip *chip = chip_of_device(info->name, info->model);
    size_t i;

    if (!chip) {
        json_null(json, "product");
        return;
    }
    json_object(json, "product");
    json_str(json, "name", chip->name);
    json_uint(json, "clock_mhz", chip->clock_mhz);
    json_uint(json, "l2_bytes", chip->l2_bytes);
    json_num(json, "memory_gb_s", chip->memory_gb_s);
    for (i = 0; i < CHIP_RATE_COUNT; i++) {
        if (chip->rate[i] > 0)
            json_num(json, rates[i], chip->rate[i]);
        else if (i == CHIP_I32)
            json_null(json, rates[i]);
        else
            json_str(json, rates[i], "unsupported");
    }
    json_end(json);
}

static void
put_axes(struct json *json, const char *key, const uint32_t axes[3])
{
    size_t i;

    json_array(json, key);
    for (i = 0; i < 3; i++)
        json_uint(json, NULL, axes[i]);
    json_end(json);
}

static void
put_entry(struct json *json, const struct entry *entry)
{
    const struct hcq_device_info *info = &entry->info;
    bool usable = entry->desc.usable;
    size_t i;

    json_object(json, NULL);
    json_str(json, "name", entry->desc.name);
    json_str(json, "backend", entry->desc.backend);
    json_str(json, "description",
             usable ? info->model : entry->desc.description);
    json_bool(json, "usable", usable);
    if (!usable) {
        json_str(json, "why_not", entry->desc.why_not);
        json_end(json);
        return;
    }
    json_str(json, "arch", info->arch);
    json_bool(json, "simulated", (info->flags & HCQ_DEVICE_SIMULATED) != 0);
    json_uint(json, "n_units", info->n_units);
    json_uint(json, "memory_bytes", info->memory_bytes);
    json_uint(json, "max_buffer_bytes", info->max_buffer_bytes);
    put_axes(json, "max_grid", info->max_grid);
    put_axes(json, "max_local", info->max_local);
    json_uint(json, "max_local_total", info->max_local_total);
    json_uint(json, "max_shared_bytes", info->max_shared_bytes);
    json_uint(json, "max_args", info->max_args);
    json_uint(json, "timestamp_hz", info->timestamp_hz);
    if (entry->clock_mhz)
        json_uint(json, "clock_mhz", entry->clock_mhz);
    else
        json_null(json, "clock_mhz");
    json_object(json, "engines");
    for (i = 0; i < entry->engines.n; i++)
        json_str(json, entry->engines.list[i].what,
                 entry->engines.list[i].text);
    json_end(json);
    put_product(json, info);
    if (entry->assumed[0])
        json_str(json, "assumed", entry->assumed);
    json_end(json);
}

static void
print_simulated(void)
{
    char chips[CHIP_NAMES];
    size_t i;

    for (i = 0; has_simulators() && i < ARRAY_LEN(simulated_backends); i++) {
        chip_list(simulated_backends[i], chips, sizeof(chips));
        tool_printf("simulated %s@sim:CHIP: %s\n", simulated_backends[i],
                    chips);
    }
}

static void
put_simulated(struct json *json)
{
    char name[SIMULATED_NAME];
    size_t i;

    json_array(json, "simulated");
    for (i = 0; simulated_at(i, name); i++)
        json_str(json, NULL, name);
    json_end(json);
}

/* `machine` is NULL where one device was asked for, or a simulated box. */
static int
print_entries(const struct entry *entries, size_t n, const struct links *links,
              size_t n_links, const struct machine *machine, bool as_json)
{
    struct json json;
    size_t i;

    if (!as_json) {
        for (i = 0; i < n; i++)
            print_entry(&entries[i]);
        for (i = 0; i < n_links; i++) {
            if (links[i].n > 1)
                links_print(&links[i]);
        }
        for (i = 0; machine && i < machine->n_gpus; i++)
            machine_print_gpu(&machine->gpus[i]);
        if (machine)
            print_simulated();
        return TOOL_OK;
    }
    json_init(&json);
    json_array(&json, "devices");
    for (i = 0; i < n; i++)
        put_entry(&json, &entries[i]);
    json_end(&json);
    json_array(&json, "links");
    for (i = 0; i < n_links; i++)
        links_put(&json, &links[i]);
    json_end(&json);
    if (machine) {
        json_array(&json, "gpus");
        for (i = 0; i < machine->n_gpus; i++)
            machine_put_gpu(&json, &machine->gpus[i]);
        json_end(&json);
        put_simulated(&json);
    }
    return tool_print_json(&json);
}

static bell_status
read_one(const char *name, struct entry *entry)
{
    BELL_TRY(read_info(name, entry));
    entry->desc.usable = true;
    snprintf(entry->desc.name, sizeof(entry->desc.name), "%s",
             entry->info.name);
    entry->desc.backend = entry->info.backend;
    return BELL_OK;
}

/* "NV@sim:h100*8": all cards of that box. */
static bool
names_box(const char *name, char backend[16], const char **out_interface)
{
    const char *at = strchr(name, '@'), *colon = strchr(name, ':');

    if (!at || (colon && colon < at) || at - name >= 16 ||
        !kio_interface_is_sim(at + 1))
        return false;
    snprintf(backend, 16, "%.*s", (int)(at - name), name);
    *out_interface = at + 1;
    return true;
}

static int
print_box(struct links *links, bool as_json)
{
    struct entry *entries = host_calloc(links->n, sizeof(*entries));
    bell_status status = BELL_OK;
    size_t i;
    int code;

    if (!entries)
        return tool_fail(as_json, bell_fail(BELL_E_NO_MEMORY,
                                            "out of memory listing devices"));
    for (i = 0; i < links->n && status == BELL_OK; i++)
        status = read_one(hcq_device_name(links->devs[i]), &entries[i]);
    code = status == BELL_OK
               ? print_entries(entries, links->n, links, 1, NULL, as_json)
               : tool_fail(as_json, status);
    host_free(entries);
    return code;
}

static int
print_one(const struct devices_options *options)
{
    struct links *links = host_calloc(1, sizeof(*links));
    struct entry entry = {.info.flags = 0};
    bell_status status = BELL_OK;
    const char *interface;
    char backend[16];
    int code;

    if (!links)
        return tool_fail(
            options->json,
            bell_fail(BELL_E_NO_MEMORY, "out of memory listing devices"));
    if (names_box(options->device, backend, &interface))
        status = links_open_box(links, backend, 0, interface);
    if (status == BELL_OK && links->n > 1) {
        status = links_ask(links);
        code = status == BELL_OK ? print_box(links, options->json)
                                 : tool_fail(options->json, status);
    } else { /* which also says why there is none */
        links_close(links);
        status = read_one(options->device, &entry);
        code = status == BELL_OK
                   ? print_entries(&entry, 1, NULL, 0, NULL, options->json)
                   : tool_fail(options->json, status);
    }
    links_close(links);
    host_free(links);
    return code;
}

/* Adds the simulated chips; one that cannot be made says why. */
static bell_status
add_simulated(struct entry **entries, size_t *n)
{
    char name[SIMULATED_NAME];
    size_t cap = *n, i, k, n_more = 0;

    while (simulated_at(n_more, name))
        n_more++;
    /* once: entries point into themselves */
    if (host_grow((void **)entries, &cap, *n + n_more, sizeof(**entries)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory listing devices");
    for (i = 0; simulated_at(i, name); i++) {
        struct entry *entry = &(*entries)[*n];

        memset(entry, 0, sizeof(*entry));
        if (read_one(name, entry) != BELL_OK) {
            for (k = 0; strncmp(name, simulated_backends[k],
                                strlen(simulated_backends[k])) != 0;)
                k++;
            entry->desc.backend = simulated_backends[k];
            snprintf(entry->desc.name, sizeof(entry->desc.name), "%s", name);
            snprintf(entry->desc.why_not, sizeof(entry->desc.why_not), "%.*s",
                     (int)sizeof(entry->desc.why_not) - 1,
                     bell_error_last()->message);
        }
        (*n)++;
    }
    return BELL_OK;
}

/* What our driver found out is the last word on a GPU that it knows. */
static void
join(struct machine *machine, const struct entry *entries, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct machine_gpu *gpu = machine_find(machine, entries[i].desc.backend,
                                               entries[i].desc.name);

        if (gpu && !entries[i].desc.usable && !entries[i].is_asleep &&
            !gpu->why_not[0])
            snprintf(gpu->why_not, sizeof(gpu->why_not), "%s",
                     entries[i].desc.why_not);
    }
}

/* Opens what can be used of each backend once more, all at once, where it has
 * several devices. A refusal leaves the links out. */
static size_t
read_links(const struct entry *entries, size_t n, struct links *links)
{
    size_t i, first, n_links = 0;

    for (first = 0; first < n && n_links < BACKENDS_MAX; first = i) {
        struct links *l = &links[n_links];
        bell_status status = BELL_OK;

        for (i = first; i < n && strcmp(entries[i].desc.backend,
                                        entries[first].desc.backend) == 0;
             i++) {
            if (entries[i].desc.usable && status == BELL_OK)
                status = links_open(l, entries[i].desc.name);
        }
        if (status == BELL_OK && l->n > 1 && links_ask(l) == BELL_OK)
            n_links++;
        else
            links_close(l);
    }
    return n_links;
}

static int
print_all(const struct devices_options *options)
{
    struct links *links = host_calloc(BACKENDS_MAX, sizeof(*links));
    struct machine machine = {NULL, 0};
    struct entry *entries = NULL;
    bell_status status = BELL_OK;
    size_t n = 0, n_links = 0;
    int code;

    if (!links)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory listing devices");
    if (status == BELL_OK && !options->root)
        status = list_devices(&entries, &n);
    if (status == BELL_OK)
        status = machine_read(options->root ? options->root : "", &machine);
    if (status == BELL_OK && !options->root) {
        machine_number_nv(&machine);
        read_infos(entries, n, &machine);
        join(&machine, entries, n);
        n_links = read_links(entries, n, links);
    }
    if (status == BELL_OK && options->all)
        status = add_simulated(&entries, &n);
    code = status == BELL_OK ? print_entries(entries, n, links, n_links,
                                             &machine, options->json)
                             : tool_fail(options->json, status);
    while (n_links)
        links_close(&links[--n_links]);
    host_free(links);
    machine_free(&machine);
    host_free(entries);
    return code;
}

/* Prints the names of DEVICEs; nothing is opened, and drivers of other things
 * than GPUs are not asked. */
static int
print_names(bool as_json)
{
    static const char *const backends[] = {"CPU", "NV", "AMD", "CL"};
    char name[SIMULATED_NAME];
    struct json json;
    size_t i;

    if (!as_json) {
        for (i = 0; i < ARRAY_LEN(backends); i++)
            tool_printf("%s\n", backends[i]);
        for (i = 0; simulated_at(i, name); i++)
            tool_printf("%s\n", name);
        return TOOL_OK;
    }
    json_init(&json);
    json_array(&json, "names");
    for (i = 0; i < ARRAY_LEN(backends); i++)
        json_str(&json, NULL, backends[i]);
    for (i = 0; simulated_at(i, name); i++)
        json_str(&json, NULL, name);
    json_end(&json);
    return tool_print_json(&json);
}

int
verb_devices(int argc, char **argv)
{
    struct devices_options options = {0};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "this one alone, for example CPU:0; of a simulated box all of it: "
         "NV@sim:h100*8"},
        {"--all", NULL, TOOL_OPT_FLAG, &options.all, 0, 0,
         "the simulated chips too, each opened"},
        {"--names", NULL, TOOL_OPT_FLAG, &options.names, 0, 0,
         "what can be written for DEVICE, a line each; opens nothing"},
        {"--root", "FOLDER", TOOL_OPT_STRING, &options.root, 0, 0,
         "the GPUs of the machine whose /sys, /proc and /dev are copied there"},
        TOOL_JSON_OPT(&options.json),
    };
    int code;

    code = tool_parse(
        "devices [DEVICE] [--all] [--json]\n\n"
        "Lists the devices of this machine: what each is, and "
        "for one that cannot\nbe used, why. Then every GPU that "
        "PCI shows: names, BARs, link, the kernel\ndriver that "
        "holds it, and why it cannot be used. Then the names of\nthe "
        "simulated ones, which are opened when they are "
        "named. Where a backend has\nseveral devices, a table says how each "
        "reaches the others' memory.",
        opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.names && (options.device || options.all || options.root))
        return tool_usage(options.json, "devices: --names stands alone");
    if (options.names)
        return print_names(options.json);
    if (options.device && (options.all || options.root))
        return tool_usage(options.json,
                          "devices: --all and --root are of all "
                          "devices, and %s was named",
                          options.device);
    return options.device ? print_one(&options) : print_all(&options);
}
