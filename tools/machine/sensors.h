/* What runs how hot and how fast, as the kernel tells. */
#ifndef BELL_TOOLS_MACHINE_SENSORS_H
#define BELL_TOOLS_MACHINE_SENSORS_H

#include "tools/machine/machine.h"

/* NAN and 0: not told. */
struct machine_sensors {
    double temperature_c, power_w;
    double clock_mhz;
};

/* Of the processor: its hottest package. */
void machine_sense_cpu(const char *root, struct machine_sensors *out);
/* Of a GPU: what its kernel driver shows in hwmon. */
void machine_sense_gpu(const char *root, const struct machine_gpu *gpu,
                       struct machine_sensors *out);

/* The most that the GPU's link to the host carries one way, in 10^9 bytes a
 * second, by its width and speed now; 0: not told. */
double machine_link_gb_s(const struct machine_gpu *gpu);

#endif
