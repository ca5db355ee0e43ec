/* What runs how hot and how fast, as the kernel tells. */
#ifndef BELL_TOOLS_MACHINE_SENSORS_H
#define BELL_TOOLS_MACHINE_SENSORS_H

#include "tools/machine/machine.h"

/* NAN and 0: not told. */
struct machine_sensors {
    double temperature_c, power_w;
    double clock_mhz;
};

/* The processor's: its hottest package. */
void machine_sense_cpu(const char *root, struct machine_sensors *out);
/* A GPU's: the values that its kernel driver shows in hwmon. */
void machine_sense_gpu(const char *root, const struct machine_gpu *gpu,
                       struct machine_sensors *out);

/* What a GPU is busy with; NAN: not told. */
struct machine_load {
    double busy_percent, memory_busy_percent; /* of its time */
    double memory_bytes, memory_used_bytes;
    double memory_clock_mhz;
    double energy_j; /* taken since some time in the past */
};

/* What its kernel driver shows in files. */
void machine_load_gpu(const char *root, const struct machine_gpu *gpu,
                      struct machine_load *out);

/* What went wrong on the way, since the driver was loaded or the machine
 * started, and what holds the clock back now. NAN: not told. */
struct machine_health {
    double ecc_corrected, ecc_uncorrected; /* of memory */
    double pcie_replays;                   /* packets sent again */
    double pcie_corrected;                 /* errors of the link, by AER */
    bool tells_throttle;
    uint64_t throttle; /* bits for machine_throttle_text; 0: nothing does */
};

/* A GPU's, by the files of its PCI folder. */
void machine_health_gpu(const char *root, const struct machine_gpu *gpu,
                        struct machine_health *out);

#define MACHINE_THROTTLE_TEXT 128
/* "power, hot spot"; "none" for 0. */
void machine_throttle_text(uint64_t bits, char out[MACHINE_THROTTLE_TEXT]);

/* The energy that the first processor package has taken, in J; now and then it
 * begins at 0 again. NAN: not told, or to root alone. */
double machine_energy_cpu(const char *root);

/* The most that the GPU's link to the host carries one way, in 10^9 bytes a
 * second, by its width and speed now; 0: not told. */
double machine_link_gb_s(const struct machine_gpu *gpu);

#endif
