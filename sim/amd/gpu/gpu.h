/* The simulated AMD card: address space, queues, command processors, copy
 * engines. The simulated kernel (kfd_*.c) drives it; drivers never see this
 * header.
 *
 * Layouts and behaviour come from docs/hardware/amd-queues.md, from
 * docs/hardware/amd-kernel.md, "Simulated rules", and from Linux's headers,
 * not from the driver's packers. The card is strict: an unknown packet,
 * register or reserved bit, a wrong count, an address that is not mapped are
 * errors that end the queue and are named in a text. Kernels run in
 * sim/amd/isa/wave.h.
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

/* What a chip has. Plain; `name` is a constant. */
struct amdsim_chip {
    const char *name;            /* "gfx1100" */
    uint32_t gfx_target_version; /* 110000 */
    enum isa_gen isa;
    uint32_t gfx;          /* dialect of PM4: 9, 10, 11, 12 */
    uint32_t gc_version;   /* of the graphics core, as discovery tells it */
    uint32_t sdma_version; /* 40402, 60000 */
    uint32_t nbif_version; /* of the bus interface */
    uint32_t n_xcc;
    /* As sysfs tells them, over all XCCs. */
    uint32_t simd_count, simd_per_cu, array_count, simd_arrays_per_engine;
    uint32_t max_waves_per_simd, max_slots_scratch_cu, lds_kib;
    uint32_t vgpr_bytes;            /* of a CU */
    uint32_t l1_kib, l2_kib;        /* of a CU's vector cache; of an XCC's L2 */
    uint32_t n_sdma, n_sdma_queues; /* engines, for XGMI too; of each */
    bool has_xgmi;
    uint32_t xgmi_mb_s; /* of a link, as KFD tells it; 0: it does not */
    uint32_t device_id;
    bool is_apu; /* vram_bytes is of the host's memory */
    /* Likewise, and no part of that is set aside for it: firmware gave it none,
     * and it has no window (MI300A in its native mode). */
    bool has_no_memory;
    uint64_t vram_bytes, clock_hz;
};

/* By the name of a chip or of a product, which is as large as it is; else the
 * card is small. False if there is none of that name. */
bool amdsim_chip_make(const char *name, struct amdsim_chip *out_chip);

struct amd_dump;
struct sim_links;
struct amdsim;       /* a card */
struct amdsim_space; /* an address space of a process on a card */
struct amdsim_queue;

/* The chip is copied. */
BELL_MUST_CHECK bell_status amdsim_create(const struct amdsim_chip *chip,
                                          struct amdsim **out_gpu);
void amdsim_destroy(struct amdsim *gpu);
/* It is card `index` of a machine that counts what its cards move
 * (sim/links.h). Before the first address space. */
void amdsim_join(struct amdsim *gpu, struct sim_links *traffic, uint32_t index);
/* Before the first address space: what queues run is dumped (dump.h). Not
 * owned; stays until the card is gone. */
void amdsim_set_dump(struct amdsim *gpu, struct amd_dump *dump);
/* A bit of what every so-many-th kernel or copy wrote last turns over; 0, as it
 * is without: of none. Before the first address space. */
void amdsim_set_flip(struct amdsim *gpu, uint32_t every);
/* `flush` is called when a queue flushes the host's window, from its thread.
 * Before the first address space. */
void amdsim_set_flush(struct amdsim *gpu, void (*flush)(void *user),
                      void *user);
/* The card resets in the middle of what a queue submits as the number-th from
 * now, 1 and up: nothing of it runs, and `reset` is called, once, from a thread
 * that is not a queue's. Before the first address space. */
void amdsim_set_reset(struct amdsim *gpu, uint32_t number,
                      void (*reset)(void *user), void *user);
/* Ticks of chip->clock_hz. */
uint64_t amdsim_clock(const struct amdsim *gpu);

/* ---- address spaces ------------------------------------------------------ */

enum amdsim_map_flag {
    AMDSIM_MAP_WRITABLE = 1u << 0,
    AMDSIM_MAP_EXECUTABLE = 1u << 1,
    AMDSIM_MAP_SYSTEM = 1u << 2,   /* host memory; else the card's */
    AMDSIM_MAP_UNCACHED = 1u << 3, /* never held by L2 */
};
/* Memory of card `n` of the machine, up to 14, which is another one
 * (SIM_PAGE_OF_CARD). */
#define AMDSIM_MAP_PEER(n)   (((n) + 1u) << 8)
#define AMDSIM_MAP_PEER_MASK (15u << 8)

BELL_MUST_CHECK bell_status
amdsim_space_create(struct amdsim *gpu, struct amdsim_space **out_space);
void amdsim_space_destroy(struct amdsim_space *space);
/* All are multiples of 4 KiB. BELL_E_INVALID where something is mapped. `file`
 * is the one that the memory is of, -1: none; not owned. */
BELL_MUST_CHECK bell_status amdsim_space_map(struct amdsim_space *space,
                                             uint64_t va, void *host,
                                             uint64_t size_bytes,
                                             uint32_t flags, int file);
/* When it returns, nothing of the card touches that memory any more. */
void amdsim_space_unmap(struct amdsim_space *space, uint64_t va,
                        uint64_t size_bytes);

/* ---- queues ---- */

enum amdsim_queue_kind {
    AMDSIM_QUEUE_PM4,
    AMDSIM_QUEUE_AQL,
    AMDSIM_QUEUE_SDMA
};

/* What happened to a process's queues; the simulated kernel turns it into
 * events. Called from a queue's thread. */
struct amdsim_fault {
    enum {
        AMDSIM_FAULT_MEMORY,
        AMDSIM_FAULT_HANG
    } kind;
    uint64_t va; /* of the page */
    bool is_write, not_present, read_only;
    uint32_t exception; /* of a packet, as the card numbers them; 0: it tells
                         * nobody */
    char text[256];     /* for people, with packet and offset */
};

struct amdsim_queue_desc {
    struct amdsim_space *space;
    enum amdsim_queue_kind kind;
    uint64_t ring_va;
    uint32_t ring_bytes;
    uint64_t rptr_va, wptr_va;
    uint64_t eop_va;    /* 0: none */
    uint64_t *doorbell; /* host address that drivers store to */
    /* An interrupt with this context id (SDMA TRAP, RELEASE_MEM). */
    void (*interrupt)(void *user, uint32_t context_id);
    void (*fault)(void *user, const struct amdsim_fault *fault);
    void *user;
};

BELL_MUST_CHECK bell_status
amdsim_queue_create(struct amdsim *gpu, const struct amdsim_queue_desc *desc,
                    struct amdsim_queue **out_queue);
/* Stops it, also in the middle of a kernel that never ends. */
void amdsim_queue_destroy(struct amdsim_queue *queue);
/* What a queue does. As long as it stands in a wait that is not the preemptable
 * one it may be that it cannot be taken off the hardware. */
enum amdsim_doing {
    AMDSIM_IDLE,
    AMDSIM_RUNS,
    AMDSIM_STANDS
};
enum amdsim_doing amdsim_queue_doing(const struct amdsim_queue *queue);
/* The card's clock goes on by so much at once. */
void amdsim_pass_time(struct amdsim *gpu, uint64_t ns);
/* No queue of the space runs from now on, nor one that is made later. */
void amdsim_space_evict(struct amdsim_space *space);

#endif
