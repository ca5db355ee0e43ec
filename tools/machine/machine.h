/* The GPUs that PCI shows on a machine: what each is, how it is connected,
 * which kernel driver holds it, and whether the way to it is open for this
 * process.
 *
 * Read from the files of sysfs, procfs and /dev below a folder, so that another
 * machine's files can be looked at; nothing is opened but those, and no card is
 * woken. Names come from libpci's list where the build has it.
 * Plain data; any thread.
 */
#ifndef BELL_TOOLS_MACHINE_MACHINE_H
#define BELL_TOOLS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define MACHINE_BARS_MAX  7 /* the last is the expansion ROM's */
#define MACHINE_NODES_MAX 3

struct machine_bar {
    unsigned index;
    uint64_t address, size_bytes;
    bool is_io, is_64bit, is_prefetchable;
};

/* A device node that our driver opens. */
struct machine_node {
    char path[64];
    bool is_there, may_open;
    bool is_forbidden; /* by the device rules of this process's cgroup */
    unsigned mode;     /* permission bits, where it is there */
    char group[40];    /* that it belongs to */
};

struct machine_gpu {
    char address[16];  /* "0000:01:00.0" */
    bool is_asleep;    /* suspended at run time: reading more would wake it */
    bool is_simulated; /* shown by `doorbell sim` */
    uint32_t vendor, device, sub_vendor, sub_device, class_code, revision;
    char vendor_name[64], device_name[96], sub_name[96]; /* "": not known */
    struct machine_bar bars[MACHINE_BARS_MAX];
    size_t n_bars;
    double link_gt_s, link_max_gt_s;     /* of a lane; 0: not told, or asleep */
    uint32_t link_width, link_max_width; /* lanes; 0: not told */
    int64_t numa_node, iommu_group;      /* -1: none, or not told */
    char driver[32], driver_version[64]; /* of the kernel; "": none */
    char drm_node[32];                   /* "/dev/dri/renderD128" */
    const char *backend;                 /* "NV", "AMD"; NULL: not ours */
    int64_t number;                      /* of the backend; -1: not known */
    uint32_t kfd_id;                     /* KFD's number for it; 0: none */
    unsigned n_partitions; /* that KFD has of it, from `number` on */
    bool has_small_bar;    /* AMD: the CPU sees a part of its memory only */
    /* AMD: the part of the host's memory that the kernel lends it, which has
     * none of its own; 0: it has. */
    uint64_t host_memory_bytes;
    struct machine_node nodes[MACHINE_NODES_MAX];
    size_t n_nodes;
    char why_not[256]; /* "": nothing is known to be in the way */
    char fix[256];     /* one command, or one thing to do; "": none is sure */
};

struct machine {
    struct machine_gpu *gpus; /* by address; freed by machine_free */
    size_t n_gpus;
};

/* Reads what is below `root` ("" for this machine). A machine without GPUs is
 * not a failure. */
BELL_MUST_CHECK bell_status machine_read(const char *root,
                                         struct machine *out_machine);
void machine_free(struct machine *machine);

/* The Adreno of the machine below `root`, which PCI does not show: false where
 * there is none. Sets driver ("kgsl", "msm"), nodes, why_not and fix, no
 * more. */
bool machine_adreno(const char *root, struct machine_gpu *out);

/* Whether the GPU of that PCI address is suspended now. Asking does not wake
 * it. */
bool machine_is_asleep(const char *root, const char *address);
/* Whether the kernel suspends it when nobody has it open. */
bool machine_may_sleep(const char *root, const char *address);

/* A file's text, cut where it is longer; "" and false where it cannot be
 * read. */
bool machine_text(const char *path, char *out, size_t out_bytes);

/* How this user comes to be let into a node of this machine, in `out`; false:
 * it is let in, or the node is not there. */
bool machine_fix_node(const char *path, char *out, size_t out_bytes);

/* The version of a kernel driver below `root`, "" where it tells none: that of
 * the module, or of the kernel that it is a part of. */
void machine_driver_version(const char *root, const char *driver, char *out,
                            size_t out_bytes);

/* ---- names (names.c, or names_none.c without libpci) ---- */

struct machine_names;
/* NULL: there is no list. */
struct machine_names *machine_names_open(void);
void machine_names_close(struct machine_names *names); /* NULL: nothing */
/* Fills the names of a GPU whose numbers are set; "" where the list has
 * none. */
void machine_names_find(struct machine_names *names, struct machine_gpu *gpu);

#endif
