/* Kernels of the conformance suite, per backend. Each backend provides the
 * same kernels by name; what a device cannot do at all it may leave out, and
 * the cases that need it are skipped with that reason.
 */
#ifndef BELL_TESTS_CTS_PROGRAMS_H
#define BELL_TESTS_CTS_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/hcq.h"

/* Kernels run with a work-group of 1 where nothing else is said. Arguments:
 * buffers b0 b1 .., then values v0 v1 .. */
enum cts_kernel {
    CTS_NOP,      /* nothing */
    CTS_ADD_ONE,  /* group g, i < v0: int32 b0[g*v0+i] = b1[g*v0+i] + 1 */
    CTS_IDS,      /* int32 b0[linear group] += x + 1000 y + 1000000 z + 1 */
    CTS_VALUES,   /* int64 b0[0] = v0 + 3*v1 + 5*v2 */
    CTS_MANY,     /* int64 b0[0] = sum (i+1)*v[i], with HCQ_ARGS_MAX args */
    CTS_SPIN,     /* until int32 b0[0] is not 0 */
    CTS_WORK,     /* int32 b0[group] = v0 steps, each needs the last */
    CTS_POKE,     /* group v0 stores 1 to the int32 at address v1 */
    CTS_DIVIDE,   /* int32 b0[0] = v0 / v1 */
    CTS_TRAP,     /* an illegal instruction */
    CTS_SECTIONS, /* int32 b0[0..3]: constants, jump table, data, zeros */
    CTS_STACK,    /* int32 b0[0] = sum over a 128 KiB array on the stack */
    /* Any work-group: int32 b0[item] += its x + 1000 y + 1000000 z in the
     * group + 1; items are numbered group by group. */
    CTS_ITEMS,
    /* Groups of 128, shared memory: int32 b0[g*128+i] = b1[g*128+127-i] */
    CTS_REVERSE,
    /* Groups of 64, 64 KiB of shared memory, all of it given at launch: int32
     * b0[item] = number of the next item of the group, cyclic. */
    CTS_DYNAMIC,
    /* Any work-group; atomically, for each item: uint32 b0[0] += x + 1;
     * old = b0[1]++; b0[2] = max(b0[2], old) */
    CTS_COUNT,
    CTS_KERNEL_COUNT
};

/* A binary that has to be refused. */
struct cts_bad {
    const char *what;
    const void *data;
    size_t size_bytes;
    const char *entry;
    const char *expect; /* part of the message */
};

/* What hcq.h leaves to a device, and this backend's do not do. All others'
 * cases must not find it missing. */
enum cts_lack {
    CTS_LACK_PINS = 1 << 0,      /* of the host's own memory, on some */
    CTS_LACK_SIGNALS = 1 << 1,   /* of another opening, to be set */
    CTS_LACK_TURNS = 1 << 2,     /* of a short kernel beside a long one */
    CTS_SLOW_RESET = 1 << 3,     /* the kernel driver ends what hangs, late */
    CTS_SIMPLE_OBJECTS = 1 << 4, /* with fewer than 8 ways to be bad */
    CTS_LACK_ALIGNMENT = 1 << 5, /* a misaligned access is not a memory fault */
    CTS_LACK_STORES = 1 << 6,   /* of a submission that faults, before it did */
    CTS_LACK_CAUSES = 1 << 7,   /* of a fault, and its address */
    CTS_LACK_RECOVERY = 1 << 8, /* in the process, after a memory fault */
    CTS_LACK_TRAPS = 1 << 9,    /* an illegal instruction never ends */
    CTS_LACK_PEERS = 1 << 10,   /* memory of other devices, directly */
    CTS_LACK_EXPORTS = 1 << 11, /* descriptors of its memory */
    CTS_LACK_IMPORTS = 1 << 12  /* memory by descriptors of its own kind */
};

struct cts_provider {
    const char *backend;
    unsigned lacks; /* enum cts_lack */
    /* NULL, or what some of its devices do not do either. */
    unsigned (*also_lacks)(const struct hcq_device_info *info);
    /* NULL, or called once: for which device the binaries are to be. False:
     * there can be none, and why. */
    bool (*setup)(const struct hcq_device_info *info, char *why, size_t size);
    /* Fills binary, size and entry in; false: this device has no such
     * kernel. `variant` 0 and up are different ways to build the same. */
    bool (*find)(enum cts_kernel kernel, unsigned variant,
                 struct hcq_program_desc *desc);
    unsigned n_variants;
    /* Bad binary `idx`, or false after the last. */
    bool (*bad)(unsigned idx, struct cts_bad *out);
};

extern const struct cts_provider cts_amd_provider, cts_cl_provider,
    cts_cpu_provider, cts_nv_provider, cts_qcom_provider;

#endif
