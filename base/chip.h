/* Figures of chips: the architectures that code is made for, and products with
 * their sizes and peak rates. One table, which the simulated cards, devices
 * that only compile (`@null:`) and estimates of time are made from.
 *
 * Where each figure is from stands beside it (chip.c). Constant; any thread.
 */
#ifndef BELL_BASE_CHIP_H
#define BELL_BASE_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What tells an AMD chip from the others of its family. Versions are decimal:
 * 90402 for 9.4.2. */
struct chip_amd {
    const char *family; /* the chip whose packets and tables of code it shares:
                         * "gfx1030"; NULL: the row is not AMD's */
    uint32_t machine;   /* EF_AMDGPU_MACH of its code objects */
    bool lacks_dot;     /* no products of vectors of 2 or 4 elements, summed */
    bool is_apu;        /* its memory is the host's */
    uint32_t max_units; /* compute units of the largest card with it, */
    /* and how they are arranged: */
    uint32_t n_arrays, arrays_per_engine;
    uint32_t n_sdma, n_sdma_queues; /* copy engines; queues of each */
    uint32_t gc_version, sdma_version, nbif_version;
    uint32_t pci_device; /* of one board */
    uint32_t l2_kib;
    uint32_t n_acc_regs; /* accumulation registers of a unit, beside n_regs */
    /* Bytes of a unit's vector registers that older kernels save, if fewer. */
    uint32_t old_save_bytes;
};

/* Adreno's generations: what packets and shaders look like. */
enum chip_adreno_gen {
    CHIP_ADRENO_NONE,
    CHIP_A6XX,
    CHIP_A7XX,
    CHIP_A7XX_FEW, /* 256 groups of four constants, not 512 */
    CHIP_A7XX_3,   /* arguments come from memory */
    CHIP_ADRENO_GEN_COUNT
};

struct chip_adreno {
    enum chip_adreno_gen gen; /* NONE: the row is not Adreno's */
    uint32_t id, id_mask;     /* of the kernel's chip id */
    uint32_t fibers_per_sp;
    uint32_t file_vec4;   /* registers of a pair of waves */
    uint32_t cache_units; /* of instructions, in 128 bytes */
    bool has_lpac, sets_aaf2;
    /* values of static registers */
    uint32_t sp_dbg_eco, tpl1_dbg_eco, sp_chicken, hlsq_dbg_eco, uche_0e12,
        uche_client_pf;
    /* of simulated cards */
    bool is_coherent;
    uint32_t gmem_kib, max_mhz;
};

/* What a unit (SM, compute unit) of an architecture has. */
struct chip_arch {
    const char *name;    /* "sm_90", "gfx942", "x86-64-v4" */
    const char *backend; /* "NV" */
    uint32_t n_units;    /* of simulated cards that no product is named for */
    /* 0, as all below, of CPUs. */
    uint32_t warp_lanes;
    uint32_t max_warps, max_groups; /* at once on a unit */
    uint32_t n_regs;                /* 32 bits each, of a unit */
    uint32_t reg_granule;           /* a thread's are a multiple of it */
    uint32_t shared_bytes;          /* of a unit */
    uint32_t group_shared_bytes;    /* the most that a work-group may have */
    uint32_t shared_reserve_bytes;  /* of every work-group, beyond its own */
    uint32_t shared_granule;        /* a power of two */
    uint32_t n_issue;               /* instructions of warps, per clock */
    struct chip_amd amd;
    struct chip_adreno adreno;
};

/* Peak rates in 1e12 operations a second; 0: it has no such unit, or, of
 * CHIP_I32, nobody tells. */
enum chip_rate {
    CHIP_F32,        /* of vectors, fused multiply-add as two */
    CHIP_F64,        /* likewise */
    CHIP_MATRIX_F16, /* dense, with sums in float32; also bfloat16 */
    CHIP_MATRIX_TF32,
    CHIP_MATRIX_F32,
    CHIP_MATRIX_F64,
    CHIP_MATRIX_8, /* 8-bit floats and integers */
    CHIP_F16,      /* of vectors, multiply-add as two; likewise the next */
    CHIP_BF16,
    CHIP_I32,
    CHIP_RATE_COUNT
};

/* A product. */
struct chip {
    const char *name;  /* "h100" */
    const char *arch;  /* names a struct chip_arch */
    const char *board; /* as its driver calls it */
    uint32_t pci_device;
    uint32_t n_units, clock_mhz;
    uint64_t memory_bytes, l2_bytes;
    uint32_t l2_clk_bytes; /* that L2 gives all units together, per clock */
    double memory_gb_s;
    double rate[CHIP_RATE_COUNT];
    /* It has no memory of its own: all of the host's is as near to it as to the
     * CPU. */
    bool has_no_memory;
};

/* How several cards of a kind are connected, as they are sold: what simulated
 * boxes are made like unless they are told otherwise. */
struct chip_link {
    const char *name; /* a product, or an architecture */
    const char *kind; /* "nvlink", "xgmi", "bar1", "pcie", "none" */
    uint32_t n_links; /* of a card: nvlink, xgmi */
    double link_gb_s; /* of one of those, in one direction */
};

/* By a product's name or, if it has no row, its architecture's. NULL: there is
 * none of either. */
const struct chip_link *chip_link_find(const char *name);

/* NULL: there is none of that name, or of that number from 0. */
const struct chip_arch *chip_arch_find(const char *name);
const struct chip *chip_find(const char *name);
const struct chip *chip_at(size_t number);

/* The product that a device is: named behind "sim:" or "null:" in its name
 * ("NV:0@sim:h100,branch=580"), or of that model ("NVIDIA H100 80GB HBM3").
 * NULL: none that is known. */
const struct chip *chip_of_device(const char *name, const char *model);

/* AMD's chip of a version as the kernel tells it (110000: gfx1100), or of the
 * machine that a code object names. NULL: none that is known. */
const struct chip_arch *chip_amd_find(uint32_t gfx_target_version);
const struct chip_arch *chip_amd_of_machine(uint32_t machine);
uint32_t chip_amd_version(const struct chip_arch *arch);

/* The Adreno of a kernel's chip id. NULL: none that is known. */
const struct chip_arch *chip_adreno_find(uint32_t chip_id);

/* Why a chip that exists has no row: a sentence that starts with its name.
 * NULL: it has one, or nothing is known of it. */
const char *chip_why_refused(const char *name);

const char *chip_why_refused_adreno(uint32_t chip_id);

/* The same of AMD's chip of a version; else that it is not known. */
void chip_amd_why_not(uint32_t gfx_target_version, char *text,
                      size_t size_bytes);

/* "sm_80, sm_89": the architectures of a backend as one line. */
void chip_arch_list(const char *backend, char *text, size_t size_bytes);
/* "sm_80, sm_89, h100": architectures and products of a backend as one line. */
void chip_list(const char *backend, char *text, size_t size_bytes);

/* How much of a kernel fits a unit at once. */
struct chip_occupancy {
    uint32_t n_groups, n_warps;
    const char *limit; /* "registers", "shared memory", "threads", "groups" */
};

/* Groups of this many threads that fit, by 32-bit registers a thread and bytes
 * of shared memory; all are 0 where one does not fit. */
struct chip_occupancy chip_occupancy(const struct chip_arch *arch,
                                     uint32_t n_threads, uint32_t n_regs,
                                     uint32_t shared_bytes);

/* ---- how long a kernel takes, at least ---- */

/* What a launch does. 0 where nothing is known of it. */
struct chip_work {
    uint64_t n_groups;
    double memory_bytes; /* that it must read and write, each once */
    double sector_bytes; /* that go between units and L2 */
    double n_insns;      /* of warps */
    double n_wavefronts; /* of shared memory */
    double flops;        /* of vectors; for where n_insns is not known */
    double matrix_flops[CHIP_RATE_COUNT];
};

enum chip_term {
    CHIP_TERM_MEMORY,
    CHIP_TERM_L2,
    CHIP_TERM_ISSUE,
    CHIP_TERM_SHARED,
    CHIP_TERM_VECTOR,
    CHIP_TERM_MATRIX,
    CHIP_TERM_COUNT
};

struct chip_time {
    double us; /* the largest of the terms */
    double term_us[CHIP_TERM_COUNT];
    enum chip_term limit; /* which */
};

/* "memory" */
extern const char *const chip_term_names[CHIP_TERM_COUNT];

/* The roofline of a chip: as if all of it ran at its peak and side by side.
 * The unit with the most groups decides how long the units take. */
struct chip_time chip_time(const struct chip *chip,
                           const struct chip_work *work);

#endif
