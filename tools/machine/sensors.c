/* Sensors in sysfs. src: the kernel's Documentation/hwmon/sysfs-interface
 * (temperatures in thousandths of a degree, power in millionths of a watt). */
#include "tools/machine/sensors.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

/* A number in FOLDER/NAME; NAN where there is none. */
static double
read_value(const char *folder, const char *name)
{
    char path[PATH_MAX], text[64], *end;
    double value;

    snprintf(path, sizeof(path), "%.4000s/%.64s", folder, name);
    if (!machine_text(path, text, sizeof(text)))
        return NAN;
    value = strtod(text, &end);
    return end == text ? NAN : value;
}

static void
sense_hwmon(const char *folder, struct machine_sensors *out)
{
    double value = read_value(folder, "temp1_input") / 1e3;

    if (isfinite(value) &&
        (!isfinite(out->temperature_c) || value > out->temperature_c))
        out->temperature_c = value;
    value = read_value(folder, "power1_average") / 1e6;
    if (!isfinite(value))
        value = read_value(folder, "power1_input") / 1e6;
    if (isfinite(value) && !isfinite(out->power_w))
        out->power_w = value;
    value = read_value(folder, "freq1_input") / 1e6;
    if (isfinite(value) && value > 0)
        out->clock_mhz = value;
}

/* Each folder hwmonN in there whose name is one of `names` (NULL: any). */
static void
sense_all(const char *folder, const char *const *names, size_t n_names,
          struct machine_sensors *out)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        char path[PATH_MAX], name[64], file[PATH_MAX];
        size_t i = 0;

        if (strncmp(entry->d_name, "hwmon", 5) != 0)
            continue;
        snprintf(path, sizeof(path), "%.2000s/%.64s", folder, entry->d_name);
        snprintf(file, sizeof(file), "%.2100s/name", path);
        machine_text(file, name, sizeof(name));
        name[strcspn(name, "\n")] = '\0';
        while (names && i < n_names && strcmp(names[i], name) != 0)
            i++;
        if (!names || i < n_names)
            sense_hwmon(path, out);
    }
    if (dir)
        closedir(dir);
}

void
machine_sense_cpu(const char *root, struct machine_sensors *out)
{
    static const char *const names[] = {"coretemp", "k10temp", "zenpower",
                                        "cpu_thermal"};
    char path[PATH_MAX];
    double khz;

    *out = (struct machine_sensors){NAN, NAN, 0};
    snprintf(path, sizeof(path), "%.2000s/sys/class/hwmon", root);
    sense_all(path, names, ARRAY_LEN(names), out);
    out->power_w = NAN;
    snprintf(path, sizeof(path), "%.2000s/sys/devices/system/cpu/cpu0/cpufreq",
             root);
    khz = read_value(path, "scaling_cur_freq");
    out->clock_mhz = isfinite(khz) ? khz / 1e3 : 0;
}

void
machine_sense_gpu(const char *root, const struct machine_gpu *gpu,
                  struct machine_sensors *out)
{
    char path[PATH_MAX];

    *out = (struct machine_sensors){NAN, NAN, 0};
    snprintf(path, sizeof(path), "%.2000s/sys/bus/pci/devices/%s/hwmon", root,
             gpu->address);
    sense_all(path, NULL, 0, out);
}

/* src: the kernel's Documentation/gpu/amdgpu/thermal.rst, driver-misc.rst;
 * freq2 is the memory's clock. */
void
machine_load_gpu(const char *root, const struct machine_gpu *gpu,
                 struct machine_load *out)
{
    char path[PATH_MAX], hwmon[PATH_MAX];
    DIR *dir;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%.2000s/sys/bus/pci/devices/%s", root,
             gpu->address);
    out->busy_percent = read_value(path, "gpu_busy_percent");
    out->memory_busy_percent = read_value(path, "mem_busy_percent");
    out->memory_bytes = read_value(path, "mem_info_vram_total");
    out->memory_used_bytes = read_value(path, "mem_info_vram_used");
    out->memory_clock_mhz = out->energy_j = NAN;
    snprintf(hwmon, sizeof(hwmon), "%.2100s/hwmon", path);
    dir = opendir(hwmon);
    while (dir && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, "hwmon", 5) != 0)
            continue;
        snprintf(path, sizeof(path), "%.2200s/%.64s", hwmon, entry->d_name);
        out->memory_clock_mhz = read_value(path, "freq2_input") / 1e6;
        out->energy_j = read_value(path, "energy1_input") / 1e6;
    }
    if (dir)
        closedir(dir);
}

/* src: the kernel's Documentation/power/powercap/powercap.rst */
double
machine_energy_cpu(const char *root)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%.2000s/sys/class/powercap/intel-rapl:0",
             root);
    return read_value(path, "energy_uj") / 1e6;
}

double
machine_link_gb_s(const struct machine_gpu *gpu)
{
    /* src: PCI Express: 8b/10b up to 5 GT/s, then 128b/130b, and from 64 GT/s
     * on 236 of 256 bytes of a flit */
    double part = gpu->link_gt_s <= 5    ? 0.8
                  : gpu->link_gt_s >= 64 ? 236.0 / 256
                                         : 128.0 / 130;

    return gpu->link_gt_s / 8 * part * gpu->link_width;
}
