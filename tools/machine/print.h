/* A GPU of machine.h as text and JSON, and what our drivers know beyond it. */
#ifndef BELL_TOOLS_MACHINE_PRINT_H
#define BELL_TOOLS_MACHINE_PRINT_H

#include "tools/machine/machine.h"

struct hcq_device;
struct hcq_device_info;
struct json;

void machine_print_gpu(const struct machine_gpu *gpu);
/* An object of an array. */
void machine_put_gpu(struct json *json, const struct machine_gpu *gpu);

/* Sets the numbers of NVIDIA's GPUs, which only the kernel's driver knows: of
 * this machine. */
void machine_number_nv(struct machine *machine);

/* The GPU that a device of that backend and name ("NV:0") is; NULL: none. */
struct machine_gpu *machine_find(struct machine *machine, const char *backend,
                                 const char *name);

/* The engines of an open device: classes, or how many there are. */
struct machine_engines {
    struct {
        const char *what; /* "copy" */
        char text[24];
    } list[4];
    size_t n;
};

void machine_read_engines(struct hcq_device *dev,
                          struct machine_engines *out_engines);

#endif
