/* Sensors in sysfs. src: Linux 6.12, Documentation/hwmon/sysfs-interface
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

/* src: Linux 6.12, Documentation/gpu/amdgpu/thermal.rst, driver-misc.rst;
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

/* The number behind `key` in FOLDER/NAME. */
static double
read_key(const char *folder, const char *name, const char *key)
{
    char path[PATH_MAX], text[1024], *at;

    snprintf(path, sizeof(path), "%.4000s/%.64s", folder, name);
    if (!machine_text(path, text, sizeof(text)))
        return NAN;
    at = strstr(text, key);
    return at ? strtod(at + strlen(key), NULL) : (double)NAN;
}

/* src: Linux 6.12, drivers/gpu/drm/amd/include/kgd_pp_interface.h: a header of
 * size, format and content; format 1 with content 3 has at 112 what throttles,
 * in bits that do not depend on the chip. */
#define METRICS_FORMAT      1
#define METRICS_CONTENT     3
#define METRICS_THROTTLE_AT 112
#define METRICS_BYTES       120

static void
read_metrics(const char *folder, struct machine_health *out)
{
    unsigned char bytes[METRICS_BYTES];
    char path[PATH_MAX];
    size_t n = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%.4000s/gpu_metrics", folder);
    file = fopen(path, "re");
    if (file) {
        n = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
    }
    if (n < METRICS_BYTES || bytes[2] != METRICS_FORMAT ||
        bytes[3] != METRICS_CONTENT)
        return;
    out->tells_throttle = true;
    memcpy(&out->throttle, bytes + METRICS_THROTTLE_AT, sizeof(out->throttle));
    if (out->throttle == UINT64_MAX) { /* this chip tells none */
        out->tells_throttle = false;
        out->throttle = 0;
    }
}

/* src: Linux 6.12, Documentation/gpu/amdgpu/ras.rst ("ue: 0", "ce: 1"),
 * driver-misc.rst (pcie_replay_count), Documentation/ABI/testing/
 * sysfs-bus-pci-devices-aer_stats. */
void
machine_health_gpu(const char *root, const struct machine_gpu *gpu,
                   struct machine_health *out)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%.2000s/sys/bus/pci/devices/%s", root,
             gpu->address);
    *out = (struct machine_health){NAN, NAN, NAN, NAN, false, 0};
    out->ecc_corrected = read_key(folder, "ras/umc_err_count", "ce:");
    out->ecc_uncorrected = read_key(folder, "ras/umc_err_count", "ue:");
    out->pcie_replays = read_value(folder, "pcie_replay_count");
    out->pcie_corrected =
        read_key(folder, "aer_dev_correctable", "TOTAL_ERR_COR");
    read_metrics(folder, out);
}

/* src: Linux 6.12, drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h,
 * SMU_THROTTLER_..._BIT: first and last of each kind. */
void
machine_throttle_text(uint64_t bits, char out[MACHINE_THROTTLE_TEXT])
{
    static const struct {
        unsigned first, last;
        const char *text;
    } kinds[] = {
        {0, 7, "power"},      {16, 23, "current"}, {34, 34, "memory's heat"},
        {36, 36, "hot spot"}, {32, 45, "heat"},    {46, 47, "external signal"},
        {56, 57, "firmware"},
    };
    size_t used = 0, i;

    snprintf(out, MACHINE_THROTTLE_TEXT, "%s", bits ? "" : "none");
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        uint64_t mask = (UINT64_MAX >> (63 - kinds[i].last + kinds[i].first))
                        << kinds[i].first;

        if (!(bits & mask))
            continue;
        bits &= ~mask;
        used += (size_t)snprintf(out + used, MACHINE_THROTTLE_TEXT - used,
                                 "%s%s", used ? ", " : "", kinds[i].text);
    }
    if (bits)
        snprintf(out + used, MACHINE_THROTTLE_TEXT - used, "%sunknown",
                 used ? ", " : "");
}

/* src: Linux 6.12, Documentation/power/powercap/powercap.rst */
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
