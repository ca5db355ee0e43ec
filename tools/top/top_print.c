/* One reading as a table, as JSON and as metrics.
 * src: prometheus.io, "Exposition formats": version 0.0.4 of the text. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/tools.h"
#include "tools/top/top.h"

/* src: Linux 6.12, kfd_priv.h: kfd_queue_type */
static const char *
queue_name(uint32_t type)
{
    static const char *const names[] = {
        "compute", "sdma", "hiq", "diq", "sdma over xgmi", "sdma by engine"};

    return type < ARRAY_LEN(names) ? names[type] : "unknown";
}

/* ---- table --------------------------------------------------------------- */

/* "-" where it is not told. */
static void
print_cell(int width, const char *unit, double value, int digits)
{
    char text[32];

    if (isfinite(value))
        snprintf(text, sizeof(text), "%.*f%s", digits, value, unit);
    else
        snprintf(text, sizeof(text), "-");
    tool_printf(" %*s", width, text);
}

static void
print_size(int width, double n_bytes)
{
    print_cell(width, n_bytes < 1073741824 ? " MiB" : " GiB",
               n_bytes < 1073741824 ? n_bytes / 1048576 : n_bytes / 1073741824,
               1);
}

static void
print_count(bool *has, const char *what, double value)
{
    if (!isfinite(value))
        return;
    tool_printf("%s%s %.0f", *has ? ", " : "    ", what, value);
    *has = true;
}

/* What is told: "throttled by power, ECC 0 corrected". */
static void
print_health(const struct machine_health *health)
{
    char text[MACHINE_THROTTLE_TEXT];
    bool has = health->tells_throttle;

    machine_throttle_text(health->throttle, text);
    if (has)
        tool_printf("    throttled by: %s", text);
    print_count(&has, "ECC corrected", health->ecc_corrected);
    print_count(&has, "ECC uncorrected", health->ecc_uncorrected);
    print_count(&has, "PCIe replays", health->pcie_replays);
    print_count(&has, "PCIe corrected", health->pcie_corrected);
    if (has)
        tool_printf("\n");
}

static void
print_device(const struct top *top, size_t device)
{
    const struct top_device *dev = &top->devices[device];
    const struct top_process *processes = top->processes.items;
    const struct top_queue *queues = top->queues.items;
    size_t i, k;

    tool_printf("%-16s", dev->name);
    print_cell(6, "%", dev->busy_percent, 0);
    print_size(11, dev->memory_used_bytes);
    print_size(11, dev->memory_bytes);
    print_cell(9, " MHz", dev->clock_mhz, 0);
    print_cell(9, " MHz", dev->memory_clock_mhz, 0);
    print_cell(6, " C", dev->temperature_c, 0);
    print_cell(8, " W", dev->power_w, 1);
    tool_printf("\n    %s%s%s\n", dev->model,
                dev->simulated ? " (simulated)" : "",
                dev->is_asleep ? " (asleep)" : "");
    if (dev->gpu && !dev->is_asleep)
        print_health(&dev->health);
    for (i = 0; dev->gpu && i < dev->n_engines; i++) {
        tool_printf("%s%s", i ? ", " : "    engines: ", dev->engines[i].name);
        if (isfinite(dev->engines[i].busy_percent))
            tool_printf(" %.0f%%", dev->engines[i].busy_percent);
    }
    if (dev->gpu && dev->n_engines)
        tool_printf("\n");
    for (i = 0; i < top->processes.n; i++) {
        if (processes[i].device != device)
            continue;
        tool_printf("    %7" PRId64 " %-16s", processes[i].pid,
                    processes[i].command);
        print_size(11, processes[i].memory_bytes);
        if (isfinite(processes[i].engine_s))
            tool_printf("  %.3f s busy", processes[i].engine_s);
        tool_printf("\n");
        for (k = 0; k < top->queues.n; k++) {
            if (queues[k].device == device && queues[k].pid == processes[i].pid)
                tool_printf("            queue %" PRIu32 ": %s, %" PRIu64
                            " KiB\n",
                            queues[k].id, queue_name(queues[k].type),
                            queues[k].size_bytes >> 10);
        }
    }
}

void
top_print(const struct top *top)
{
    size_t i;

    tool_printf("%-16s %6s %11s %11s %9s %9s %6s %8s\n", "device", "busy",
                "used", "memory", "clock", "memory's", "heat", "power");
    for (i = 0; i < top->n_devices; i++)
        print_device(top, i);
}

/* ---- JSON ---------------------------------------------------------------- */

/* A whole number, null where it is not told. */
static void
put_count(struct json *json, const char *key, double value)
{
    if (isfinite(value) && value >= 0)
        json_uint(json, key, (uint64_t)value);
    else
        json_null(json, key);
}

static void
put_device(struct json *json, const struct top *top, size_t device)
{
    const struct top_device *dev = &top->devices[device];
    const struct top_process *processes = top->processes.items;
    const struct top_queue *queues = top->queues.items;
    char throttle[MACHINE_THROTTLE_TEXT];
    size_t i;

    json_object(json, NULL);
    json_str(json, "name", dev->name);
    json_str(json, "model", dev->model[0] ? dev->model : NULL);
    json_bool(json, "asleep", dev->is_asleep);
    json_bool(json, "simulated", dev->simulated);
    json_str(json, "address", dev->gpu ? dev->gpu->address : NULL);
    json_num(json, "busy_percent", dev->busy_percent);
    json_num(json, "memory_busy_percent", dev->memory_busy_percent);
    put_count(json, "memory_bytes", dev->memory_bytes);
    put_count(json, "memory_used_bytes", dev->memory_used_bytes);
    json_num(json, "clock_mhz", dev->clock_mhz);
    json_num(json, "memory_clock_mhz", dev->memory_clock_mhz);
    json_num(json, "temperature_c", dev->temperature_c);
    json_num(json, "power_w", dev->power_w);
    json_num(json, "energy_j", dev->energy_j);
    machine_throttle_text(dev->health.throttle, throttle);
    json_str(json, "throttled_by",
             dev->health.tells_throttle ? throttle : NULL);
    put_count(json, "ecc_corrected", dev->health.ecc_corrected);
    put_count(json, "ecc_uncorrected", dev->health.ecc_uncorrected);
    put_count(json, "pcie_replays", dev->health.pcie_replays);
    put_count(json, "pcie_corrected", dev->health.pcie_corrected);
    json_array(json, "engines");
    for (i = 0; i < dev->n_engines; i++) {
        json_object(json, NULL);
        json_str(json, "name", dev->engines[i].name);
        json_num(json, "busy_s", dev->engines[i].busy_s);
        json_num(json, "busy_percent", dev->engines[i].busy_percent);
        json_end(json);
    }
    json_end(json);
    json_array(json, "processes");
    for (i = 0; i < top->processes.n; i++) {
        if (processes[i].device != device)
            continue;
        json_object(json, NULL);
        json_int(json, "pid", processes[i].pid);
        json_str(json, "command",
                 processes[i].command[0] ? processes[i].command : NULL);
        put_count(json, "memory_bytes", processes[i].memory_bytes);
        json_num(json, "engine_s", processes[i].engine_s);
        json_end(json);
    }
    json_end(json);
    json_array(json, "queues");
    for (i = 0; i < top->queues.n; i++) {
        if (queues[i].device != device)
            continue;
        json_object(json, NULL);
        json_int(json, "pid", queues[i].pid);
        json_uint(json, "id", queues[i].id);
        json_str(json, "kind", queue_name(queues[i].type));
        json_uint(json, "size_bytes", queues[i].size_bytes);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

int
top_print_json(const struct top *top)
{
    struct json json;
    size_t i;

    json_init(&json);
    json_array(&json, "devices");
    for (i = 0; i < top->n_devices; i++)
        put_device(&json, top, i);
    json_end(&json);
    return tool_print_json(&json);
}

/* ---- Prometheus ---------------------------------------------------------- */

struct text {
    char *chars; /* owned */
    size_t n, cap;
    bool failed;
};

static void put_top(struct text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
put_top(struct text *text, const char *fmt, ...)
{
    va_list args;
    char line[512];
    int n;

    va_start(args, fmt);
    n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(line) ||
        host_grow((void **)&text->chars, &text->cap, text->n + (size_t)n, 1) !=
            0) {
        text->failed = true;
        return;
    }
    memcpy(text->chars + text->n, line, (size_t)n);
    text->n += (size_t)n;
}

/* A label's value: quotes, backslashes and line ends are escaped. */
static void
put_label(struct text *text, const char *name, const char *value)
{
    put_top(text, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n')
            put_top(text, "\\n");
        else
            put_top(text, "%s%c", *value == '"' || *value == '\\' ? "\\" : "",
                    *value);
    }
    put_top(text, "\"");
}

static void
put_head(struct text *text, const char *name, const char *kind,
         const char *help)
{
    put_top(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* Numbers of each device. */
static const struct {
    const char *name, *kind, *help;
    size_t offset;
    double scale;
} numbers[] = {
    {"doorbell_busy_ratio", "gauge", "Part of the time that the device worked.",
     offsetof(struct top_device, busy_percent), 0.01},
    {"doorbell_memory_busy_ratio", "gauge",
     "Part of the time that its memory worked.",
     offsetof(struct top_device, memory_busy_percent), 0.01},
    {"doorbell_memory_bytes", "gauge", "Memory of the device.",
     offsetof(struct top_device, memory_bytes), 1},
    {"doorbell_memory_used_bytes", "gauge", "Memory in use.",
     offsetof(struct top_device, memory_used_bytes), 1},
    {"doorbell_clock_hertz", "gauge", "Frequency of its units.",
     offsetof(struct top_device, clock_mhz), 1e6},
    {"doorbell_ecc_corrected_total", "counter",
     "Errors of memory that were corrected.",
     offsetof(struct top_device, health.ecc_corrected), 1},
    {"doorbell_ecc_uncorrected_total", "counter",
     "Errors of memory that were not.",
     offsetof(struct top_device, health.ecc_uncorrected), 1},
    {"doorbell_pcie_replays_total", "counter",
     "Packets of the link that were sent again.",
     offsetof(struct top_device, health.pcie_replays), 1},
    {"doorbell_pcie_corrected_errors_total", "counter",
     "Errors of the link that were corrected.",
     offsetof(struct top_device, health.pcie_corrected), 1},
    {"doorbell_memory_clock_hertz", "gauge", "Frequency of its memory.",
     offsetof(struct top_device, memory_clock_mhz), 1e6},
    {"doorbell_temperature_celsius", "gauge", "Temperature.",
     offsetof(struct top_device, temperature_c), 1},
    {"doorbell_power_watts", "gauge", "Power.",
     offsetof(struct top_device, power_w), 1},
    {"doorbell_energy_joules_total", "counter",
     "Energy since the first reading.", offsetof(struct top_device, energy_j),
     1},
};

static void
put_numbers(struct text *text, const struct top *top)
{
    size_t i, k;

    for (i = 0; i < ARRAY_LEN(numbers); i++) {
        put_head(text, numbers[i].name, numbers[i].kind, numbers[i].help);
        for (k = 0; k < top->n_devices; k++) {
            const char *dev = (const char *)&top->devices[k];
            double value = *(const double *)(dev + numbers[i].offset);

            if (!isfinite(value))
                continue;
            put_top(text, "%s{", numbers[i].name);
            put_label(text, "device", top->devices[k].name);
            put_top(text, "} %.17g\n", value * numbers[i].scale);
        }
    }
}

static size_t
count_processes(const struct top *top, size_t device)
{
    const struct top_process *list = top->processes.items;
    size_t i, n = 0;

    for (i = 0; i < top->processes.n; i++)
        n += list[i].device == device;
    return n;
}

static size_t
count_queues(const struct top *top, size_t device)
{
    const struct top_queue *list = top->queues.items;
    size_t i, n = 0;

    for (i = 0; i < top->queues.n; i++)
        n += list[i].device == device;
    return n;
}

static void
put_metrics(struct text *text, const struct top *top)
{
    size_t i, k;

    put_head(text, "doorbell_device_info", "gauge", "What a device is.");
    for (i = 0; i < top->n_devices; i++) {
        const struct top_device *dev = &top->devices[i];

        put_top(text, "doorbell_device_info{");
        put_label(text, "device", dev->name);
        put_top(text, ",");
        put_label(text, "model", dev->model);
        put_top(text, ",");
        put_label(text, "address", dev->gpu ? dev->gpu->address : "");
        put_top(text, "} 1\n");
    }
    put_numbers(text, top);
    put_head(text, "doorbell_engine_busy_seconds_total", "counter",
             "Time that a part of the device worked.");
    for (i = 0; i < top->n_devices; i++) {
        for (k = 0; k < top->devices[i].n_engines; k++) {
            put_top(text, "doorbell_engine_busy_seconds_total{");
            put_label(text, "device", top->devices[i].name);
            put_top(text, ",");
            put_label(text, "engine", top->devices[i].engines[k].name);
            put_top(text, "} %.17g\n", top->devices[i].engines[k].busy_s);
        }
    }
    put_head(text, "doorbell_processes", "gauge",
             "Processes that have the device open.");
    for (i = 0; i < top->n_devices; i++) {
        if (!top->devices[i].gpu)
            continue;
        put_top(text, "doorbell_processes{");
        put_label(text, "device", top->devices[i].name);
        put_top(text, "} %zu\n", count_processes(top, i));
    }
    put_head(text, "doorbell_queues", "gauge", "Queues that KFD has.");
    for (i = 0; i < top->n_devices; i++) {
        if (!top->devices[i].gpu || !top->devices[i].gpu->kfd_id)
            continue;
        put_top(text, "doorbell_queues{");
        put_label(text, "device", top->devices[i].name);
        put_top(text, "} %zu\n", count_queues(top, i));
    }
    put_head(text, "doorbell_readings_total", "counter",
             "Readings by this program.");
    put_top(text, "doorbell_readings_total %" PRIu64 "\n", top->n_readings);
}

bell_status
top_write_metrics(const struct top *top, const char *path)
{
    struct text text = {.failed = false};
    struct file_part part;
    bell_status status;

    put_metrics(&text, top);
    part = (struct file_part){text.chars, text.n};
    status = text.failed
                 ? bell_fail(BELL_E_NO_MEMORY,
                             "out of memory for %zu metrics bytes", text.n)
                 : file_write(path, &part, 1);
    host_free(text.chars);
    return status;
}
