/* The simulated Adreno: its memory through SMMU and cache, its command
 * processor and compute. The simulated kernels (sim/qcom/kernel) drive it;
 * drivers never see this header.
 *
 * Layouts and behaviour come from docs/hardware/adreno-queues.md, from
 * docs/hardware/adreno-kernel.md, "Simulated rules", and from Mesa's register
 * files, not from the driver's packers. The card is strict: a packet, register
 * or field that is not known, a wrong parity or count, state that a launch
 * needs and this submission did not write, an address that is not mapped are
 * faults that name the packet and its offset.
 *
 * One ring: submissions run one after the other in the card's thread. Bytes
 * that shaders read stay in the cache until it is invalidated, their stores
 * until it is flushed; the command processor works on memory itself.
 *
 * Not here: textures, descriptors but those of buffers of constants, drawing,
 * preemption; the small cache that `ldc` has before the shared one: what
 * invalidates this one drops that too.
 *
 * Threads: any.
 */
#ifndef BELL_SIM_QCOM_GPU_GPU_H
#define BELL_SIM_QCOM_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "sim/qcom/isa/shader.h"

/* What a chip has. Plain; `name` is a constant. */
struct qsim_chip {
    const char *name; /* "a740" */
    char model[24];   /* as KGSL calls it */
    enum shader_gen gen;
    uint32_t chip_id, gpu_id; /* 0: it has no decimal one */
    uint32_t n_sps;
    uint32_t n_vec4;     /* registers for a pair of waves */
    uint32_t sp_threads; /* places for private memory */
    uint32_t n_icache;   /* units of 128 bytes */
    uint32_t n_consts;   /* four words each */
    bool lacks_loads; /* of constants, with a launch: they come from memory */
    bool has_lpac;    /* of 6xx: the second compute unit's registers, too */
    bool has_aaf2;    /* register 0xaaf2 */
    bool is_coherent; /* memory can be, with the CPU's caches */
    uint64_t gmem_bytes, max_hz;
};

/* False: there is none of that name. */
bool qsim_chip_make(const char *name, struct qsim_chip *out_chip);

struct qsim;       /* a card */
struct qsim_space; /* an address space on a card */

BELL_MUST_CHECK bell_status qsim_create(const struct qsim_chip *chip,
                                        struct qsim **out_gpu);
/* Nothing is submitted any more, and the spaces are destroyed. */
void qsim_destroy(struct qsim *gpu);
/* Ticks of 19.2 MHz. */
uint64_t qsim_clock(void);

BELL_MUST_CHECK bell_status qsim_space_create(struct qsim *gpu,
                                              struct qsim_space **out_space);
void qsim_space_destroy(struct qsim_space *space);
/* All are multiples of 4 KiB. BELL_E_INVALID where something is mapped. */
BELL_MUST_CHECK bell_status qsim_space_map(struct qsim_space *space,
                                           uint64_t va, void *host,
                                           uint64_t size_bytes,
                                           bool is_read_only);
/* When it returns, nothing of the card touches that memory any more. */
void qsim_space_unmap(struct qsim_space *space, uint64_t va,
                      uint64_t size_bytes);
/* Bytes mapped, for leak counts. */
uint64_t qsim_space_mapped(const struct qsim_space *space);

struct qsim_range {
    uint64_t va, size_bytes;
};

/* How a submission ended. */
struct qsim_result {
    enum qsim_fault {
        QSIM_OK,
        QSIM_PAGE_FAULT,
        QSIM_BAD_STREAM, /* packets, registers, a launch, a shader */
        QSIM_HANG
    } fault;
    uint64_t va; /* of a page fault */
    bool is_write, is_permission;
    char text[512]; /* for people, with packet and offset */
};

/* A submission. The caller's until it is submitted, and again once `done` was
 * called, from the card's thread; before that `begin`, which may skip it by
 * returning false. */
struct qsim_batch {
    struct qsim_batch *next; /* the card's */
    struct qsim_space *space;
    const struct qsim_range *ibs; /* streams */
    uint32_t n_ibs;
    /* Sorted; nothing beside these is touched. NULL: all that is mapped. */
    const struct qsim_range *only;
    uint32_t n_only;
    bool (*begin)(void *user, struct qsim_batch *batch);
    void (*done)(void *user, struct qsim_batch *batch,
                 const struct qsim_result *result);
    void *user;
    uint64_t began, ended; /* clock */
};

void qsim_submit(struct qsim *gpu, struct qsim_batch *batch);
/* The batch that runs ends with a fault. */
void qsim_stop_running(struct qsim *gpu);
#endif
