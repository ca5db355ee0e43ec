/* Private to the control half of the NVIDIA driver: what nv_device.c,
 * nv_memory.c, nv_vm.c, nv_uvm.c, nv_buffer.c, nv_channel.c and nv_fault.c
 * share beyond nv.h.
 */
#ifndef BELL_HCQ_NV_NV_CONTROL_H
#define BELL_HCQ_NV_NV_CONTROL_H

#include "hcq/nv/nv.h"
#include "hcq/nv/nv_rm.h"
#include "mem/mem_slab.h"
#include "mem/mem_va.h"

/* Addresses that we give out: below 2^40, the reach of ring entries and of
 * launch descriptors, and above what the driver takes for itself. */
#define NV_VA_FIRST 0x1000000000ull
#define NV_VA_END   0x10000000000ull

/* Every range is a multiple of the GPU's big pages. */
#define NV_VA_GRANULE_BYTES 0x10000u
#define NV_HUGE_BYTES       0x200000u

/* Where programs see shared and local memory: above every buffer, 4 GiB
 * aligned and below 2^49. src: docs/hardware/nvidia-kernel.md, "Address rules"
 */
#define NV_SHARED_WINDOW 0x729400000000ull
#define NV_LOCAL_WINDOW  0x729300000000ull

/* Backings outside of pools: user pages, another card's memory. */
enum {
    NV_BACKING_PINNED = NV_MEM_KIND_COUNT,
    NV_BACKING_SHARED,
    NV_BACKING_IMPORT, /* a dma-buf */
    NV_BACKING_TEAM /* its object is there already, and goes with it, or where
                     * it fails */
};

/* A memory object of the driver, in the card's address space. Owned by
 * control->backings while it is mapped; the CPU mapping is its own, except of
 * pinned pages. */
struct nv_backing {
    struct nv_device *dev;
    uint32_t kind;   /* enum nv_mem_kind or the above */
    uint32_t parent; /* device object that the memory is below */
    uint32_t memory, carrier;
    uint64_t va, size_bytes;
    struct mem_range range; /* of va; size 0: a pool's */
    void *cpu;              /* NULL: not mapped for the CPU */
    struct nv_rm_mapping map;
    uint32_t source_client, source_memory; /* of shared memory: the owner's */
    uint32_t n_users;                      /* of shared memory */
    int import_fd;                         /* of an import being made */
    bool is_host; /* shared memory, an import: is as the host's */
    bool is_far;  /* its address is beyond NV_VA_END, if there is room */
    uint64_t missed_bytes; /* what not being mapped has cost */
};

struct nv_peer;

/* How memory gets into the card's address space, and what that asks of
 * channels. Two models: nv_vm.c, nv_uvm.c. */
struct nv_vm_ops {
    const char *name;
    bell_status (*open)(struct nv_device *dev);
    void (*close)(struct nv_device *dev);
    bell_status (*map)(struct nv_device *dev, struct nv_backing *backing,
                       uint64_t va);
    void (*unmap)(struct nv_device *dev, struct nv_backing *backing);
    /* A channel with its objects, before it is scheduled, and before it is
     * freed. */
    bell_status (*add_channel)(struct nv_device *dev, uint32_t channel,
                               struct mem_range *out_window);
    void (*remove_channel)(struct nv_device *dev, uint32_t channel,
                           struct mem_range *window);
    /* Lets the card reach the memory of another one, for which `peer` has a
     * device object. Objects that it makes below that one go with it. */
    bell_status (*add_peer)(struct nv_device *dev, struct nv_device *owner,
                            struct nv_peer *peer);
    bool same_address; /* CPU mappings lie where the card sees the memory */
};

extern const struct nv_vm_ops nv_vm_rm, nv_vm_uvm;

/* Another card whose memory this one reaches. */
struct nv_peer {
    uint32_t instance;  /* the driver's number */
    uint32_t device;    /* a device object for it below our client */
    uint32_t subdevice; /* of it; 0: the model needs none, as the next */
    uint32_t pairing;   /* an object by which both cards are peers */
};

/* Registers for processes: an object of the usermode class, mapped. */
struct nv_window {
    uint32_t usermode;
    struct nv_rm_mapping map;
};

struct nv_control {
    pthread_mutex_t lock; /* the memory fields, and all calls about memory */
    const struct nv_vm_ops *vm;
    struct nv_uvm *uvm; /* owned: the UVM model's; NULL: not in use */
    uint32_t vaspace;
    uint64_t va_first, va_bytes;   /* what is given out; the model sets it */
    uint64_t far_first, far_bytes; /* beyond NV_VA_END; 0: nothing there */
    struct nv_backing **backings;  /* owned; sorted by address */
    size_t n_backings, cap_backings;
    pthread_mutex_t grow_lock; /* one change of dev->local at a time */
    struct nv_peer *peers;     /* owned; control->lock */
    size_t n_peers, cap_peers;
    struct nv_mem old_local; /* a launch may be on its way to it */
    bool maps_video;         /* the CPU window is as large as the memory */
    bool is_exclusive;       /* nv_mode_leave has something to do */

    struct nv_window registers, bell; /* in BAR0; in BAR1, if it is used */
    /* Copy engines that do not share the graphics runlist: first those that
     * are nobody's else at all, which are the faster ones. */
    uint8_t copy_engines[64];
    uint32_t n_copy_engines;
    _Atomic uint32_t n_copy_channels; /* made so far, but staging's */
    _Atomic bool opens_staging;       /* the channel being made is staging's */

    pthread_mutex_t staging_lock; /* the fields below */
    struct hcq_queue *staging;    /* owned; NULL until needed */
    struct nv_mem staging_mem;
};

/* ---- compute mode (nv_mode.c) -------------------------------------------- */

/* Whether the card's owner lets this process compute on it: BELL_E_PERMISSION
 * with what to do, or BELL_E_KERNEL where another process has it. */
BELL_MUST_CHECK bell_status nv_mode_enter(struct nv_device *dev);
/* At closing, before the client goes; also where it was not entered. */
void nv_mode_leave(struct nv_device *dev);

/* ---- memory (nv_memory.c) ------------------------------------------------ */

/* Address space, pools and the table of backings; and their end, which frees
 * what is left. */
BELL_MUST_CHECK bell_status nv_memory_open(struct nv_device *dev);
void nv_memory_close(struct nv_device *dev);

/* Memory with a kernel object of its own: offset 0 of it. Given back with
 * nv_mem_free. */
BELL_MUST_CHECK bell_status nv_mem_alloc_own(struct nv_device *dev,
                                             uint64_t size_bytes,
                                             enum nv_mem_kind kind,
                                             struct nv_mem *out_mem);
/* Whether a buffer on a card of that size, ours or another's, has an address
 * beyond NV_VA_END. */
bool nv_memory_is_far(const struct nv_device *dev, uint64_t size_bytes);
/* Offset of the memory in its kernel object. */
uint64_t nv_mem_offset(const struct nv_mem *mem);

/* Pages of this process in the card's address space. */
BELL_MUST_CHECK bell_status nv_backing_pin(struct nv_device *dev, void *pages,
                                           uint64_t size_bytes,
                                           struct nv_backing **out_backing);
void nv_backing_unpin(struct nv_backing *backing);

/* The backing that holds all of [va, va + size_bytes), or NULL; and making and
 * dropping one of no pool, as `model` says. control->lock is held. */
struct nv_backing *nv_backing_find(const struct nv_control *control,
                                   uint64_t va, uint64_t size_bytes);
BELL_MUST_CHECK bell_status nv_backing_add(struct nv_device *dev,
                                           const struct nv_backing *model,
                                           void *pages,
                                           struct nv_backing **out_backing);
void nv_backing_drop(struct nv_backing *backing);

/* ---- other cards' memory (nv_share.c) ---- */

/* Where this card sees the owner's memory at owner_va: host memory always, the
 * card's own where the address space's model can. Shared memory may be shared
 * once more; each sharing ends with nv_memory_unshare or with the device.
 * BELL_E_UNSUPPORTED: the card cannot reach it. */
BELL_MUST_CHECK bell_status nv_memory_share(struct nv_device *dev,
                                            struct nv_device *owner,
                                            uint64_t owner_va,
                                            uint64_t *out_va);
void nv_memory_unshare(struct nv_device *dev, uint64_t va);
/* hcq_device_ops */
bell_status nv_buffer_peer(struct hcq_device *dev, const struct hcq_buffer *of,
                           struct hcq_backing *out);
/* nv_link.c */
bell_status nv_get_link(struct hcq_device *dev, struct hcq_device *other,
                        struct hcq_device_link *link);
bell_status nv_link_bytes(struct hcq_device *dev, struct hcq_device *other,
                          struct hcq_link_bytes *out_bytes);
void nv_buffer_unpeer(struct hcq_device *dev, const struct hcq_backing *mem);
bell_status nv_buffer_export(struct hcq_device *base,
                             const struct hcq_backing *mem, int *out_fd);
bell_status nv_buffer_import(struct hcq_device *base, int fd,
                             uint64_t size_bytes, struct hcq_backing *out);
void nv_buffer_unimport(struct hcq_device *base, const struct hcq_backing *mem);

/* ---- teams of cards (nv_team.c) ---- */

/* hcq_device_ops */
bell_status nv_team_check(struct hcq_device *const *devs, uint32_t n);
bell_status nv_team_create(const struct hcq_team_desc *desc, uint64_t *out_vas,
                           struct hcq_team **out_team);
void nv_team_destroy(struct hcq_team *team);

/* How far nv_memory_cpu may go. */
enum nv_cpu_reach {
    NV_CPU_HOST,   /* host memory and pinned pages */
    NV_CPU_MAPPED, /* whatever is mapped already */
    NV_CPU_WORTH,  /* memory on the card is mapped where that pays */
    NV_CPU_MAP     /* memory on the card is mapped if the CPU's window is as
                    * large as it */
};

/* Where the CPU sees [va, va + size_bytes), or NULL. */
void *nv_memory_cpu(struct nv_device *dev, uint64_t va, uint64_t size_bytes,
                    enum nv_cpu_reach reach);

/* Why cards behind switches do not work together. */
#define NV_NO_FABRIC                                                           \
    "the fabric manager has not configured the card's NVLinks (systemctl "     \
    "status nvidia-fabricmanager)"

/* Whether both speak to the same kernel: the real one, or the same simulated
 * or recorded one. */
bool nv_same_machine(const struct nv_device *a, const struct nv_device *b);

/* ---- queries (nv_chip.c), recording (nv_watch.c) ---- */

/* Fills dev->chip, and what else the driver tells of the card. */
BELL_MUST_CHECK bell_status nv_chip_query(struct nv_device *dev);
/* Ends what a channel does. Freeing its objects would do that too, after six
 * seconds of waiting for a kernel that does not end. */
void nv_channel_reset(struct nv_channel *channel);
/* Frees a channel's kernel objects, whatever it does; its memory stays. */
void nv_channel_stop(struct nv_channel *channel);
/* The release that ends a submission; va 0: none was seen. */
struct nv_release {
    uint64_t va, value;
};

/* Tells kio what the next store to the doorbell submits; and after the store,
 * waits for its end and tells kio once more, with no region. */
struct nv_release nv_watch_ring(const struct nv_channel *channel);
void nv_watch_settle(const struct nv_channel *channel,
                     const struct nv_release *release);

/* ---- buffers and signals (nv_buffer.c); hcq_device_ops ---- */

bell_status nv_buffer_alloc(struct hcq_device *dev, uint64_t size_bytes,
                            uint32_t flags, struct hcq_backing *out);
void nv_buffer_free(struct hcq_device *dev, const struct hcq_backing *mem);
bell_status nv_buffer_pin(struct hcq_device *dev, void *ptr,
                          uint64_t size_bytes, struct hcq_backing *out);
void nv_buffer_unpin(struct hcq_device *dev, const struct hcq_backing *mem);
bell_status nv_buffer_write(struct hcq_device *dev, uint64_t va,
                            const void *data, uint64_t size_bytes);
bell_status nv_buffer_read(struct hcq_device *dev, uint64_t va, void *data,
                           uint64_t size_bytes);
/* Before hcq_device_fini: gives the copy queue behind them back. */
void nv_staging_close(struct nv_device *dev);

bell_status nv_signals_open(struct nv_device *dev);
bell_status nv_signal_alloc(struct hcq_device *dev, uint64_t *out_va,
                            uint64_t **out_host);
bell_status nv_signal_alloc_near(struct hcq_device *dev, uint64_t *out_va,
                                 uint64_t **out_host);
void nv_signal_settle(struct hcq_device *dev, const struct hcq_signal *sig);
void nv_signal_free(struct hcq_device *dev, struct hcq_signal *sig);
bell_status nv_signal_map(struct hcq_device *dev, const struct hcq_signal *sig,
                          uint64_t *out_va);

/* ---- faults (nv_fault.c); hcq_device_ops ---- */

void nv_fault_check(struct hcq_device *dev);
/* hcq_device_clock_mhz (nv_clock.c). */
bell_status nv_clock_mhz(struct hcq_device *dev, uint32_t *out_mhz);
bell_status nv_fault_stop(struct hcq_device *dev);
/* For closing: ends all channels, so that none uses what is freed next. */
void nv_fault_end(struct nv_device *dev);
void nv_fault_resume(struct hcq_device *dev);

#endif
