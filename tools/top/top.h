/* Inside of `doorbell top`: what is read again and again of devices and of the
 * processes that use them, and how it is shown. One thread. */
#ifndef BELL_TOOLS_TOP_TOP_H
#define BELL_TOOLS_TOP_TOP_H

#include "hcq/hcq.h"
#include "hcq/hcq_facts.h"
#include "tools/machine/sensors.h"

#define TOP_ENGINES_MAX 16

/* A part of a device, as its kernel driver names it: "gfx", "compute". */
struct top_engine {
    char name[16];
    double busy_s;       /* never falls: see top_device */
    double busy_percent; /* since the reading before; NAN: there was none */
};

/* A queue that KFD has of a process. */
struct top_queue {
    size_t device; /* index in struct top */
    int64_t pid;
    uint32_t id, type; /* src: Linux 6.12, kfd_priv.h, kfd_queue_type */
    uint64_t size_bytes;
};

/* A process that has a device open. */
struct top_process {
    size_t device; /* index in struct top */
    int64_t pid;
    char command[32];
    double memory_bytes, engine_s; /* NAN: not told */
};

/* One opening of a render node: processes may share one, and have several. */
struct top_client {
    size_t device;
    uint64_t id;
    size_t n_engines;
    struct {
        char name[16];
        double busy_s;
    } engines[TOP_ENGINES_MAX];
};

/* A number that is not told is NAN. */
struct top_device {
    char
        name[HCQ_NAME_MAX]; /* "NV:0", or the PCI address of what is not ours */
    char model[176];
    const struct machine_gpu *gpu; /* NULL: none of PCI's */
    bool simulated;
    bool is_asleep; /* at the last reading; then nothing else is known */
    double memory_bytes, memory_used_bytes;
    double busy_percent, memory_busy_percent;
    double clock_mhz, memory_clock_mhz;
    double temperature_c, power_w;
    /* Counters. A GPU's begin at 0 with the program, and what went by unseen
     * (processes that came and went between readings) is not in them; the
     * processor's begin with the machine. */
    struct top_engine engines[TOP_ENGINES_MAX];
    size_t n_engines;
    struct machine_health health; /* of a GPU of PCI */
    double energy_j;              /* since the first reading */
    double energy_read_j;         /* as read last */
    /* What the kernel driver is asked through; NULL: it is not. */
    struct hcq_device *dev;  /* owned */
    struct hcq_gauge *gauge; /* owned */
};

struct top_list {
    void *items; /* owned */
    size_t n, cap;
};

struct top {
    const char *root; /* where the machine's files are; "": here */
    struct machine machine;
    struct top_device *devices; /* owned */
    size_t n_devices;
    struct top_list queues, processes; /* of the last reading, by pid */
    struct top_list clients;           /* by device and id */
    uint64_t n_readings, read_ns;      /* when the last was */
};

/* Finds what to watch: `name` alone, or with NULL the processor and every GPU
 * of PCI. The devices that were found go with top_fini, also after a
 * failure. */
BELL_MUST_CHECK bell_status top_init(struct top *top, const char *name,
                                     const char *root);
void top_fini(struct top *top);

/* Reads all again. BELL_E_NO_MEMORY; BELL_E_DEVICE_LOST and what else a device
 * that was named says. */
BELL_MUST_CHECK bell_status top_read(struct top *top);

/* ---- processes (top_process.c) ---- */

/* Processes, their queues and what their clients kept engines busy with. */
BELL_MUST_CHECK bell_status top_read_processes(struct top *top);
/* The device's engine of that name, added where it is new; NULL: too many. */
struct top_engine *top_engine_of(struct top_device *dev, const char *name);

/* ---- showing (top_print.c) ---- */

void top_print(const struct top *top);
/* The document; an exit code. */
int top_print_json(const struct top *top);
/* Writes the file anew, at once, in the text format of Prometheus. */
BELL_MUST_CHECK bell_status top_write_metrics(const struct top *top,
                                              const char *path);

#endif
