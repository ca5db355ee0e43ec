/* The simulated NVIDIA card: address spaces, channels and engines. The
 * simulated kernel (rm_*.c) drives it; drivers never see this header.
 *
 * Layouts and behaviour come from the class headers (NVIDIA/open-gpu-doc) and
 * docs/hardware/nvidia-queues.md, not from the driver's packers. The card is
 * strict: an unknown method, a reserved bit, an address that is not mapped, a
 * wrong token, a descriptor of the wrong version are errors of the channel,
 * which end it with a notifier as on the card, and are named in a text.
 *
 * It orders no more than a card must: kernels and copies may wait until
 * something waits for them, kernels that nothing orders run the latest first,
 * and what was changed under a cache of code, constants or descriptors without
 * an invalidation is an error. From Hopper on a ring in BAR0 that no read
 * through BAR1 precedes shows an old GPPut now and then.
 *
 * Threads: each channel runs in a thread of its own, and one more watches the
 * doorbell. The functions below may be called from any thread.
 */
#ifndef BELL_SIM_NV_GPU_GPU_H
#define BELL_SIM_NV_GPU_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* An index and what is answered for it. */
struct nvgpu_info {
    uint32_t index, data;
};

struct nvgpu_copy_engine {
    uint8_t runlist;
    uint16_t caps; /* CE_GET_ALL_CAPS */
};

/* What a chip has. Plain, constant. */
struct nvgpu_chip {
    const char *name;  /* "sm_90", "h100" */
    const char *board; /* "Simulated GH100" */
    uint32_t sm;       /* 90 */
    /* GR info index 0x0C, the hardware's revision: 0x900; 0x802, 0xa04 for
     * sm_80, sm_120 */
    uint32_t sm_version;
    uint32_t architecture, implementation, sub_revision; /* MC_GET_ARCH_INFO */
    uint32_t pci_device;
    uint32_t gpfifo_class; /* the newest; compute_class and so on: the one */
    uint32_t compute_class, copy_class;
    uint32_t usermode_class; /* the newest */
    const uint32_t *classes; /* all of the class list, in its order */
    uint32_t n_classes;
    uint32_t qmd_major; /* 3, 4, 5 */
    /* TPCs that are there: of each GPC those in its mask; without masks all
     * n_tpc_per_gpc but the last GPC's, of which some may be off. */
    uint32_t n_gpc, n_tpc_per_gpc, n_tpc, n_sm_per_tpc, max_warps_per_sm;
    const uint16_t *tpc_masks;
    uint32_t n_copy_engines, grce_mask; /* engines that share GR's runlist */
    /* For each engine; NULL: a runlist one more than its number, no other
     * caps. */
    const struct nvgpu_copy_engine *copy_engines;
    const uint8_t *other_engines; /* NV2080 types, ends with 0; or NULL */
    uint32_t max_shared_bytes;    /* of a block, with the 1 KiB reserve */
    uint32_t host_va_bits;        /* of semaphores: 40 or 57 */
    uint32_t flip_every; /* a bit of what every so-many-th kernel or copy wrote
                          * last turns over; 0: none */
    bool is_lenient;     /* of sim_nv.h's option */
    bool bar0_overtakes; /* rings in BAR0 do not wait for stores through BAR1 */
    uint32_t compr_page_bytes; /* RM aligns addresses to it, unless forced */
    uint32_t l2_bytes;
    const struct nvgpu_info *gr_info; /* what GR_GET_INFO says besides */
    uint32_t n_gr_info;
    /* The heap that allocations come from; all of the memory and what of it
     * can be used at all, where they are more. */
    uint64_t vidmem_bytes, ram_bytes, usable_bytes;
    uint64_t bar1_bytes;
};

/* Whether the list has it. */
bool nvgpu_has_class(const struct nvgpu_chip *chip, uint32_t nv_class);
/* TPCs of a GPC, as bits. */
uint32_t nvgpu_tpc_mask(const struct nvgpu_chip *chip, uint32_t gpc);

static inline uint32_t
nvgpu_n_sm(const struct nvgpu_chip *chip)
{
    return chip->n_tpc * chip->n_sm_per_tpc;
}

/* By name ("sm_89", "sm_90", "h100", "sm_120"); NULL if there is none; by
 * number from 0 if `name` is NULL. */
const struct nvgpu_chip *nvgpu_chip_find(const char *name, uint32_t number);

struct nvgpu;       /* a card */
struct nvgpu_space; /* a GPU address space: page tables */
struct nvgpu_chan;  /* a hardware channel */

struct sim_links;

BELL_MUST_CHECK bell_status nvgpu_create(const struct nvgpu_chip *chip,
                                         struct nvgpu **out_gpu);
/* It is card `index` of a box that counts what its cards move (sim/links.h);
 * before it has channels. */
void nvgpu_join(struct nvgpu *gpu, struct sim_links *traffic, uint32_t index);
/* Its spaces and channels are gone. */
void nvgpu_destroy(struct nvgpu *gpu);

/* Memory file of the usermode window: 64 KiB at offset 0, TIME_0/1 at 0x80,
 * the doorbell at 0x90; and behind it the same as BAR1 has it, where the time
 * cannot be read. What the simulated kernel maps for drivers. */
int nvgpu_window_fd(const struct nvgpu *gpu);
/* The card's clock, ns. */
uint64_t nvgpu_time_ns(const struct nvgpu *gpu);
/* Was the doorbell rung with a word that is not a channel's token? The text
 * says which. */
bool nvgpu_bell_error(struct nvgpu *gpu, char *text, size_t size_bytes);

/* ---- address spaces ------------------------------------------------------ */

enum nvgpu_map_flag {
    NVGPU_MAP_READ_ONLY = 1u << 0,
    NVGPU_MAP_SYSTEM = 1u << 1,  /* host memory; else the card's */
    NVGPU_MAP_SNOOPED = 1u << 2, /* of host memory */
    /* A team's pages: each begins with a struct nvgpu_team_page. Only
     * instructions for teams use them. */
    NVGPU_MAP_TEAM = 1u << 3,
};

/* Memory of several cards at the same offsets. Whoever makes it changes it
 * under its lock; what was in it once stays until it goes. */
#define NVGPU_TEAM_MAX 8
struct nvgpu_team_piece {
    uint64_t offset, size_bytes;
    uint8_t *host; /* NULL: detached */
    uint32_t card;
};
struct nvgpu_team {
    pthread_rwlock_t lock;
    uint32_t cards; /* bits: which are attached */
    struct nvgpu_team_piece *pieces;
    size_t n_pieces;
};
struct nvgpu_team_page {
    struct nvgpu_team *team;
    uint64_t offset; /* of the page in the team's memory */
};
#define NVGPU_TEAM_PAGE_BYTES (2u << 20)
/* Memory of card `n` of the box, which is another one (SIM_PAGE_OF_CARD). */
#define NVGPU_MAP_PEER(n)   (((n) + 1u) << 8)
#define NVGPU_MAP_PEER_MASK (15u << 8)

BELL_MUST_CHECK bell_status nvgpu_space_create(struct nvgpu *gpu,
                                               struct nvgpu_space **out_space);
void nvgpu_space_destroy(struct nvgpu_space *space);
/* va and size are multiples of page_bytes (4 KiB, 64 KiB, 2 MiB), host of 4
 * KiB. BELL_E_INVALID where something is mapped there already. */
BELL_MUST_CHECK bell_status nvgpu_space_map(struct nvgpu_space *space,
                                            uint64_t va, void *host,
                                            uint64_t size_bytes,
                                            uint32_t page_bytes,
                                            uint32_t flags);
/* When it returns, nothing of the card touches that memory any more. A page
 * that the range covers in part goes as a whole. */
void nvgpu_space_unmap(struct nvgpu_space *space, uint64_t va,
                       uint64_t size_bytes);
/* Bytes mapped, for leak counts. */
uint64_t nvgpu_space_mapped(const struct nvgpu_space *space);

/* ---- channels ---- */

enum nvgpu_engine {
    NVGPU_ENGINE_GR, /* compute, with its partner GRCE */
    NVGPU_ENGINE_CE  /* a copy engine */
};

/* What a channel was made with. */
struct nvgpu_chan_desc {
    struct nvgpu_space *space;
    uint32_t gpfifo_class;
    enum nvgpu_engine engine;
    uint32_t engine_index; /* number of the copy engine */
    uint64_t gpfifo_va;
    uint32_t n_entries;
    void *userd;       /* host address of its 512 bytes */
    const void *group; /* which one it is of; NULL: of one that many share */
    void *notifier;    /* host address of 3 records of 16 bytes; NULL: none */
    /* Told once when a fault of its own (not nvgpu_chan_kill) ended it, after
     * the notifier is written, on any thread and with no lock of the card's
     * held. It may call nvgpu_chan_kill on other channels, and nothing else of
     * these functions. NULL: nobody wants to know. */
    void (*on_fault)(void *user);
    void *user;
};

/* Why a channel ended; what the fault queries answer from. */
struct nvgpu_fault {
    uint32_t code;   /* robust-channel code: 13, 31, 32, 39, 69...; 0: none */
    uint64_t va;     /* of an MMU fault, or the pushbuffer address */
    uint32_t access; /* of an MMU fault: 0 read, 1 write, 2 atomic */
    bool is_sm;      /* the fields below are of a thread block */
    uint32_t esr;    /* hwwWarpEsr */
    uint64_t pc;
    uint32_t block[3], thread[3];
    char text[256]; /* for people, with method and offset */
};

BELL_MUST_CHECK bell_status nvgpu_chan_create(struct nvgpu *gpu,
                                              const struct nvgpu_chan_desc *d,
                                              struct nvgpu_chan **out_chan);
/* Stops it, also in the middle of a kernel that never ends. */
void nvgpu_chan_destroy(struct nvgpu_chan *chan);
/* An object was allocated on it: SET_OBJECT of that class is allowed. */
void nvgpu_chan_add_object(struct nvgpu_chan *chan, uint32_t nv_class);
uint32_t nvgpu_chan_token(const struct nvgpu_chan *chan);
/* The kernel takes the next channels for itself. */
void nvgpu_skip_channels(struct nvgpu *gpu, uint32_t n);
/* The process sees the channel's USERD at `userd`, through BAR1; and it sees
 * nothing there any more, about to be said before the mapping goes. */
void nvgpu_chan_mapped(struct nvgpu_chan *chan, void *userd);
void nvgpu_bar_unmap(const void *addr, uint64_t size_bytes);
/* Scheduled: rings are looked at from now on. False stops it at the next
 * entry. */
void nvgpu_chan_enable(struct nvgpu_chan *chan, bool enable);
/* False while there is none. */
bool nvgpu_chan_fault(const struct nvgpu_chan *chan,
                      struct nvgpu_fault *out_fault);
/* Whether other groups' kernels may run between its kernels' blocks. */
void nvgpu_chan_by_block(struct nvgpu_chan *chan, bool by_block);
/* Waits until it runs no kernel, or is stopped, for so long. False: it still
 * runs one. */
bool nvgpu_chan_wait(struct nvgpu_chan *chan, uint32_t limit_ms);
/* Ends a channel as the fault of another one of its group does (code 45), or
 * as the kernel driver does. */
void nvgpu_chan_kill(struct nvgpu_chan *chan, uint32_t code);

/* ---- kernels ---- */

/* The code at a launch's program address is a simulated kernel's: 16 bytes
 * "BELL PTX" and, little endian, u32 version 1 and u32 length in bytes of the
 * PTX text that follows (one module, its kernel first), zero padded to 128.
 * Modules are parsed once for each text. Its .const variables lie in constant
 * bank 3; the first word of bank 4 (64 bits) is the address of its .global
 * ones. */

#endif
