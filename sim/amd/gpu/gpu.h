/* The simulated AMD card: address space, queues, command processors, copy
 * engines. The simulated kernel (kfd_*.c) drives it; drivers never see this
 * header.
 *
 * Layouts and behaviour come from the facts (hw/amd: pm4.csv, sdma.csv,
 * regs.csv, BRINGUP.md 13), not from the driver's packers. The card is
 * strict: an unknown packet, register or reserved bit, a wrong count, an
 * address that is not mapped are errors that end the queue and are named in a
 * text. Kernels run in sim/amd/isa/wave.h.
 *
 * Threads: each queue runs in a thread of its own, one more watches the
 * doorbells. The functions below may be called from any thread.
 */
#ifndef BELL_SIM_AMD_GPU_GPU_H
#define BELL_SIM_AMD_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "sim/amd/isa/isa.h"

/* A chip as the facts give it. Plain, constant. */
struct amdgpu_chip {
    const char *name;            /* "gfx1100" */
    uint32_t gfx_target_version; /* 110000 */
    enum isa_gen isa;
    uint32_t gfx;          /* dialect of PM4: 9, 10, 11, 12 */
    uint32_t gc_version;   /* of the graphics core, as discovery tells it */
    uint32_t sdma_version; /* 40402, 60000 */
    uint32_t n_xcc;
    /* As sysfs tells them, over all XCCs. */
    uint32_t simd_count, simd_per_cu, array_count, simd_arrays_per_engine;
    uint32_t max_waves_per_simd, max_slots_scratch_cu, lds_kib;
    uint32_t vgpr_bytes; /* of a CU */
    uint32_t n_sdma, n_sdma_queues;
    uint32_t device_id;
    uint64_t vram_bytes, clock_hz;
};

/* By name; by number from 0 if `name` is NULL. NULL if there is none. */
const struct amdgpu_chip *amdgpu_chip_find(const char *name, uint32_t number);

struct amd_dump;
struct amdgpu;       /* a card */
struct amdgpu_space; /* an address space of a process on a card */
struct amdgpu_queue;

BELL_MUST_CHECK bell_status amdgpu_create(const struct amdgpu_chip *chip,
                                          struct amdgpu **out_gpu);
void amdgpu_destroy(struct amdgpu *gpu);
/* Before the first address space: what queues run is dumped (dump.h). Not
 * owned; stays until the card is gone. */
void amdgpu_set_dump(struct amdgpu *gpu, struct amd_dump *dump);
/* Ticks of chip->clock_hz. */
uint64_t amdgpu_clock(const struct amdgpu *gpu);

/* ---- address spaces ------------------------------------------------------ */

enum amdgpu_map_flag {
    AMDGPU_MAP_WRITABLE = 1u << 0,
    AMDGPU_MAP_EXECUTABLE = 1u << 1,
    AMDGPU_MAP_SYSTEM = 1u << 2,   /* host memory; else the card's */
    AMDGPU_MAP_UNCACHED = 1u << 3, /* never held by L2 */
};

BELL_MUST_CHECK bell_status
amdgpu_space_create(struct amdgpu *gpu, struct amdgpu_space **out_space);
void amdgpu_space_destroy(struct amdgpu_space *space);
/* All are multiples of 4 KiB. BELL_E_INVALID where something is mapped. `file`
 * is the one that the memory is of, -1: none; not owned. */
BELL_MUST_CHECK bell_status amdgpu_space_map(struct amdgpu_space *space,
                                             uint64_t va, void *host,
                                             uint64_t size_bytes,
                                             uint32_t flags, int file);
/* When it returns, nothing of the card touches that memory any more. */
void amdgpu_space_unmap(struct amdgpu_space *space, uint64_t va,
                        uint64_t size_bytes);

/* ---- queues ---------------------------------------------------------------- */

enum amdgpu_queue_kind {
    AMDGPU_QUEUE_PM4,
    AMDGPU_QUEUE_AQL,
    AMDGPU_QUEUE_SDMA
};

/* What happened to a process's queues; the simulated kernel turns it into
 * events. Called from a queue's thread. */
struct amdgpu_fault {
    enum {
        AMDGPU_FAULT_MEMORY,
        AMDGPU_FAULT_HANG
    } kind;
    uint64_t va; /* of the page */
    bool is_write, not_present, read_only, no_execute;
    char text[256]; /* for people, with packet and offset */
};

struct amdgpu_queue_desc {
    struct amdgpu_space *space;
    enum amdgpu_queue_kind kind;
    uint64_t ring_va;
    uint32_t ring_bytes;
    uint64_t rptr_va, wptr_va;
    uint64_t eop_va;    /* 0: none */
    uint64_t *doorbell; /* host address that drivers store to */
    /* An interrupt with this context id (SDMA TRAP, RELEASE_MEM). */
    void (*interrupt)(void *user, uint32_t context_id);
    void (*fault)(void *user, const struct amdgpu_fault *fault);
    void *user;
};

BELL_MUST_CHECK bell_status
amdgpu_queue_create(struct amdgpu *gpu, const struct amdgpu_queue_desc *desc,
                    struct amdgpu_queue **out_queue);
/* Stops it, also in the middle of a kernel that never ends. */
void amdgpu_queue_destroy(struct amdgpu_queue *queue);
/* No queue of the space runs until it is called with false. */
void amdgpu_space_evict(struct amdgpu_space *space, bool evicted);

#endif
