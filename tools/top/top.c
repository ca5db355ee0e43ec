/* `doorbell top`: what devices do now, again and again. */
#include "tools/top/top.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/machine/print.h"
#include "tools/machine/sensors.h"
#include "tools/tools.h"

/* Between the two readings of --once, which is what a rate needs. */
#define ONCE_S 0.2

struct top_options {
    bool json, once;
    double interval_s;
    int64_t count;
    const char *device, *metrics, *root;
};

/* ---- one reading --------------------------------------------------------- */

/* Unknown, but for what stays and what counts. */
static void
forget(struct top_device *dev)
{
    dev->memory_used_bytes = dev->busy_percent = NAN;
    dev->memory_busy_percent = dev->clock_mhz = dev->memory_clock_mhz = NAN;
    dev->temperature_c = dev->power_w = NAN;
    dev->health = (struct machine_health){NAN, NAN, NAN, NAN, false, 0};
}

/* A counter of energy, and from it the power where nothing else tells it. */
static void
count_energy(struct top_device *dev, double read_j, double passed_s)
{
    double used_j = read_j - dev->energy_read_j;

    dev->energy_read_j = read_j;
    if (!isfinite(read_j)) {
        dev->energy_j = NAN;
        return;
    }
    if (!isfinite(dev->energy_j))
        dev->energy_j = 0;
    if (!(used_j > 0)) /* the first, or it began at 0 again */
        return;
    dev->energy_j += used_j;
    if (!isfinite(dev->power_w) && passed_s > 0)
        dev->power_w = used_j / passed_s;
}

/* src: proc(5): user nice system idle iowait irq softirq steal, in ticks */
static void
read_processor(struct top *top, struct top_device *dev, double passed_s)
{
    struct top_engine *engine = top_engine_of(dev, "processor");
    unsigned long long ticks[8] = {0};
    struct machine_sensors sensors;
    char path[PATH_MAX], text[4096];
    const char *at;
    double busy_s;

    machine_sense_cpu(top->root, &sensors);
    dev->temperature_c = sensors.temperature_c;
    dev->clock_mhz = sensors.clock_mhz > 0 ? sensors.clock_mhz : NAN;
    snprintf(path, sizeof(path), "%.2000s/proc/meminfo", top->root);
    machine_text(path, text, sizeof(text));
    at = strstr(text, "MemTotal:");
    dev->memory_bytes = at ? strtod(at + 9, NULL) * 1024 : NAN;
    at = strstr(text, "MemAvailable:");
    dev->memory_used_bytes =
        at ? dev->memory_bytes - strtod(at + 13, NULL) * 1024 : NAN;
    snprintf(path, sizeof(path), "%.2000s/proc/stat", top->root);
    machine_text(path, text, sizeof(text));
    if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0],
               &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
               &ticks[7]) == 8) {
        busy_s = (double)(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] +
                          ticks[7]) /
                 (double)sysconf(_SC_CLK_TCK);
        if (top->n_readings && passed_s > 0)
            dev->busy_percent =
                fmin(100, 100 * (busy_s - engine->busy_s) / passed_s /
                              (double)sysconf(_SC_NPROCESSORS_ONLN));
        if (busy_s > engine->busy_s)
            engine->busy_s = busy_s;
        engine->busy_percent = dev->busy_percent;
    }
    count_energy(dev, machine_energy_cpu(top->root), passed_s);
}

static bell_status
read_gauge(struct top_device *dev)
{
    struct hcq_reading reading = {.struct_size = sizeof(reading)};

    BELL_TRY(hcq_gauge_read(dev->gauge, &reading));
    dev->memory_bytes =
        reading.memory_bytes ? (double)reading.memory_bytes : (double)NAN;
    dev->memory_used_bytes = (double)reading.used_bytes;
    dev->clock_mhz =
        reading.clock_mhz ? (double)reading.clock_mhz : (double)NAN;
    return BELL_OK;
}

static void
read_top_gpu(struct top *top, struct top_device *dev, double passed_s)
{
    struct machine_sensors sensors;
    struct machine_load load;

    /* Sensors are read from the card, which is not woken for that. */
    dev->is_asleep = machine_is_asleep(top->root, dev->gpu->address);
    if (dev->is_asleep)
        return;
    machine_sense_gpu(top->root, dev->gpu, &sensors);
    machine_load_gpu(top->root, dev->gpu, &load);
    machine_health_gpu(top->root, dev->gpu, &dev->health);
    dev->temperature_c = sensors.temperature_c;
    dev->power_w = sensors.power_w;
    dev->clock_mhz = sensors.clock_mhz > 0 ? sensors.clock_mhz : NAN;
    dev->memory_clock_mhz = load.memory_clock_mhz;
    dev->busy_percent = load.busy_percent;
    dev->memory_busy_percent = load.memory_busy_percent;
    dev->memory_bytes = load.memory_bytes;
    dev->memory_used_bytes = load.memory_used_bytes;
    count_energy(dev, load.energy_j, passed_s);
    /* a driver that reports nothing is not a reason to stop */
    if (dev->gauge && read_gauge(dev) != BELL_OK)
        dev->memory_used_bytes = NAN;
}

/* The processes, and how busy GPUs' engines were since the reading before. */
static bell_status
read_engines(struct top *top, double passed_s)
{
    double *before_s =
        host_calloc(top->n_devices * TOP_ENGINES_MAX, sizeof(*before_s));
    bell_status status;
    size_t i, k;

    if (!before_s)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu devices",
                         top->n_devices);
    for (i = 0; i < top->n_devices; i++) {
        for (k = 0; k < top->devices[i].n_engines; k++)
            before_s[i * TOP_ENGINES_MAX + k] =
                top->devices[i].engines[k].busy_s;
    }
    status = top_read_processes(top);
    for (i = 0; i < top->n_devices; i++) {
        for (k = 0; passed_s > 0 && k < top->devices[i].n_engines; k++) {
            struct top_engine *engine = &top->devices[i].engines[k];

            if (top->devices[i].gpu)
                engine->busy_percent =
                    100 * (engine->busy_s - before_s[i * TOP_ENGINES_MAX + k]) /
                    passed_s;
        }
    }
    host_free(before_s);
    return status;
}

bell_status
top_read(struct top *top)
{
    uint64_t now_ns = time_now_ns();
    double passed_s =
        top->n_readings ? (double)(now_ns - top->read_ns) / 1e9 : 0;
    size_t i;

    for (i = 0; i < top->n_devices; i++) {
        struct top_device *dev = &top->devices[i];

        forget(dev);
        if (dev->dev)
            BELL_TRY(read_gauge(dev));
        else if (dev->gpu)
            read_top_gpu(top, dev, passed_s);
        else
            read_processor(top, dev, passed_s);
    }
    BELL_TRY(read_engines(top, passed_s));
    top->read_ns = now_ns;
    top->n_readings++;
    return BELL_OK;
}

/* ---- what is watched ----------------------------------------------------- */

static struct top_device *
add_device(struct top *top, const char *name)
{
    struct top_device *dev = &top->devices[top->n_devices++];

    dev->memory_bytes = dev->energy_j = dev->energy_read_j = NAN;
    forget(dev);
    snprintf(dev->name, sizeof(dev->name), "%s", name);
    return dev;
}

static void
add_processor(struct top *top)
{
    struct top_device *dev = add_device(top, "CPU:0");
    char path[PATH_MAX], text[4096], *at;

    snprintf(path, sizeof(path), "%.2000s/proc/cpuinfo", top->root);
    machine_text(path, text, sizeof(text));
    at = strstr(text, "model name");
    at = at ? strchr(at, ':') : NULL;
    if (at)
        snprintf(dev->model, sizeof(dev->model), "%.*s",
                 (int)strcspn(at + 2, "\n"), at + 2);
}

/* A client of the kernel's driver alone: no context, no memory of the card. It
 * keeps the card awake, so one that may sleep has it only if it was named. */
static void
open_nv(struct top *top, struct top_device *dev, bool is_named)
{
    if (top->root[0] || dev->gpu->why_not[0] || dev->gpu->number < 0)
        return;
    if (dev->gpu->is_asleep ||
        (!is_named && machine_may_sleep(top->root, dev->gpu->address)))
        return;
    if (hcq_gauge_open("NV", (uint32_t)dev->gpu->number, &dev->gauge) !=
        BELL_OK)
        dev->gauge = NULL;
}

static void
add_top_gpu(struct top *top, const struct machine_gpu *gpu, bool is_named)
{
    struct top_device *dev = add_device(top, gpu->address);

    dev->gpu = gpu;
    dev->simulated = gpu->is_simulated;
    if (gpu->backend && gpu->number >= 0)
        snprintf(dev->name, sizeof(dev->name), "%s:%lld", gpu->backend,
                 (long long)gpu->number);
    snprintf(dev->model, sizeof(dev->model), "%s%s%.90s", gpu->vendor_name,
             gpu->vendor_name[0] && gpu->device_name[0] ? " " : "",
             gpu->device_name);
    if (gpu->backend && strcmp(gpu->backend, "NV") == 0)
        open_nv(top, dev, is_named);
}

static bell_status
add_open(struct top *top, const char *name)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *opened;
    struct top_device *dev;

    BELL_TRY(hcq_device_open(name, &opened));
    hcq_device_info(opened, &info);
    dev = add_device(top, info.name);
    snprintf(dev->model, sizeof(dev->model), "%s", info.model);
    dev->dev = opened;
    dev->simulated = (info.flags & HCQ_DEVICE_SIMULATED) != 0;
    return hcq_gauge_of(opened, &dev->gauge);
}

/* A GPU that PCI shows is asked by files, as is the processor; what else has a
 * name is opened, and says itself why it cannot be. */
static bell_status
add_named(struct top *top, const char *name)
{
    char whole[HCQ_NAME_MAX];
    size_t i;

    snprintf(whole, sizeof(whole), "%.40s%s", name,
             strchr(name, ':') ? "" : ":0");
    if (strcmp(whole, "CPU:0") == 0) {
        add_processor(top);
        return BELL_OK;
    }
    for (i = 0; i < top->machine.n_gpus; i++) {
        const struct machine_gpu *gpu = &top->machine.gpus[i];

        if (strcmp(name, gpu->address) == 0 ||
            (gpu->backend &&
             gpu == machine_find(&top->machine, gpu->backend, whole))) {
            add_top_gpu(top, gpu, true);
            return BELL_OK;
        }
    }
    if (top->root[0])
        return bell_fail(BELL_E_NO_DEVICE, "%s: no such GPU in %s", name,
                         top->root);
    return add_open(top, name);
}

bell_status
top_init(struct top *top, const char *name, const char *root)
{
    size_t i;

    memset(top, 0, sizeof(*top));
    top->root = root;
    BELL_TRY(machine_read(root, &top->machine));
    if (!root[0])
        machine_number_nv(&top->machine);
    top->devices = host_calloc(top->machine.n_gpus + 1, sizeof(*top->devices));
    if (!top->devices)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu devices",
                         top->machine.n_gpus + 1);
    if (name)
        return add_named(top, name);
    add_processor(top);
    for (i = 0; i < top->machine.n_gpus; i++)
        add_top_gpu(top, &top->machine.gpus[i], false);
    return BELL_OK;
}

void
top_fini(struct top *top)
{
    size_t i;

    for (i = 0; i < top->n_devices; i++) {
        struct top_device *dev = &top->devices[i];

        hcq_gauge_close(dev->gauge);
        hcq_device_close(dev->dev);
    }
    host_free(top->devices);
    host_free(top->queues.items);
    host_free(top->processes.items);
    host_free(top->clients.items);
    machine_free(&top->machine);
}

/* ---- again and again ----------------------------------------------------- */

static int
show_top(const struct top *top, const struct top_options *options)
{
    bell_status status;

    if (options->metrics) {
        status = top_write_metrics(top, options->metrics);
        if (status != BELL_OK)
            return tool_fail(options->json, status);
    }
    if (options->json)
        return top_print_json(top);
    if (!options->once && isatty(STDOUT_FILENO))
        fputs("\033[H\033[J", stdout);
    top_print(top);
    return fflush(stdout) == 0
               ? TOOL_OK
               : tool_fail_text(false, BELL_E_IO, "cannot write to stdout");
}

/* Until the count, or a signal, which is the way to end it. */
static int
watch(struct top *top, const struct top_options *options)
{
    double pause_s = options->once ? ONCE_S : options->interval_s;
    const struct timespec pause = {
        .tv_sec = (time_t)pause_s,
        .tv_nsec = (long)((pause_s - floor(pause_s)) * 1e9)};
    int64_t count = options->once ? 2 : options->count, i;
    sigset_t ends, old;
    bell_status status;
    int code = TOOL_OK;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &old);
    for (i = 0; code == TOOL_OK && (count == 0 || i < count); i++) {
        if (i > 0 && sigtimedwait(&ends, NULL, &pause) > 0)
            break;
        status = top_read(top);
        if (status != BELL_OK)
            code = tool_fail(options->json, status);
        else if (!options->once || i + 1 == count)
            code = show_top(top, options);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return code;
}

int
verb_top(int argc, char **argv)
{
    struct top_options options = {.interval_s = 1};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "only this one, for example AMD:0 (default: the processor and every "
         "GPU of PCI)"},
        {"--once", NULL, TOOL_OPT_FLAG, &options.once, 0, 0,
         "two readings 0.2 s apart, one table"},
        TOOL_NUMBER_OPT("--interval", "S", &options.interval_s, 0, 86400,
                        "seconds between readings (default: 1)"),
        {"--count", "N", TOOL_OPT_INT, &options.count, 1, INT32_MAX,
         "stop after N readings (default: on Ctrl-C)"},
        {"--prometheus", "FILE", TOOL_OPT_STRING, &options.metrics, 0, 0,
         "write each reading there too, in the text format of Prometheus"},
        {"--root", "FOLDER", TOOL_OPT_STRING, &options.root, 0, 0,
         "the machine whose /sys, /proc and /dev are copied there"},
        TOOL_JSON_OPT(&options.json),
    };
    struct top top;
    bell_status status;
    int code;

    code = tool_parse("top [DEVICE] [options]\n\n"
                      "Shows again and again what devices do: load, memory, "
                      "clocks, temperature,\npower, queues and the processes "
                      "that use them, where the kernel tells.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.json && !options.once)
        return tool_usage(true, "top: --json is one document: with --once");
    if (options.once && options.count)
        return tool_usage(options.json, "top: --once or --count, not both");
    status = top_init(&top, options.device, options.root ? options.root : "");
    code = status == BELL_OK ? watch(&top, &options)
                             : tool_fail(options.json, status);
    top_fini(&top);
    return code;
}
