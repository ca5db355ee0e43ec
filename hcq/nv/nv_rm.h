/* A client of NVIDIA's kernel driver: the resource manager's object tree.
 *
 * Opens the nodes, finds the driver's branch, makes client, device and
 * subdevice, and wraps the calls that make, map and free what is below them.
 * It knows nothing of channels or of what memory is for.
 *
 * Structs are filled in the newest layout (ioctl/nv_uapi.h) and converted to
 * the running branch's here. Object handles are chosen by us, from a counter,
 * so that a run can be compared with a recorded one. A failure names call,
 * class or command, handles and the driver's status; nothing is left behind.
 *
 * Threads: any, one object at a time. src: docs/hardware/nvidia-kernel.md,
 * "Device files", "Calls", "Object tree", "Memory objects", "CPU mappings".
 */
#ifndef BELL_HCQ_NV_NV_RM_H
#define BELL_HCQ_NV_NV_RM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ioctl/kio.h"
#include "ioctl/nv_abi.h"

#define NV_RM_MAX_CARDS  32
#define NV_RM_PATH_BYTES 32

/* A card as the control node lists it. Plain data. */
struct nv_rm_card {
    uint32_t gpu_id, minor;
    uint32_t domain, bus, slot;
    uint32_t pci_device;
    uint64_t bar1_bytes; /* the window through which the CPU sees memory */
};

/* Client, device and subdevice of one card. Owned by who created it; its
 * fields are for reading. */
struct nv_rm {
    struct kio *kio; /* borrowed; outlives it */
    struct nv_abi abi;
    struct kio_file ctl;  /* /dev/nvidiactl: the client lives as long */
    struct kio_file node; /* /dev/nvidiaN: keeps the card up */
    char node_path[NV_RM_PATH_BYTES];
    struct nv_rm_card card;
    uint32_t client, device, subdevice;
    uint32_t instance; /* the driver's number of the device */
    _Atomic uint32_t last_handle;
};

/* Memory or registers that the CPU sees. Each is made with a file of its own:
 * the driver keeps one mapping for a file. Owned by who made it. */
struct nv_rm_mapping {
    void *cpu; /* NULL: none */
    uint64_t size_bytes;
    struct kio_file file;    /* open until it is mapped */
    uint32_t parent, memory; /* as given to nv_rm_map; 0: not made with it */
    uint64_t linear;         /* the driver's name for it */
    bool reserved;           /* lies in a range that stays reserved */
};

enum nv_rm_map_flag {
    NV_RM_MAP_SYSTEM = 1u << 0, /* host memory: through the control node */
    NV_RM_MAP_READ_ONLY = 1u << 1,
};

/* The cards whose nodes this process may open, numbered as they come, and the
 * driver's branch. Others are named under BELL_DEBUG=exec; BELL_E_PERMISSION
 * where there are only such. BELL_E_NO_DEVICE where there is no driver. */
BELL_MUST_CHECK bell_status
nv_rm_list(struct kio *kio, struct nv_rm_card out_cards[NV_RM_MAX_CARDS],
           uint32_t *out_n, struct nv_abi *out_abi);

/* Opens card `idx` of that list. */
BELL_MUST_CHECK bell_status nv_rm_create(struct kio *kio, uint32_t idx,
                                         struct nv_rm **out_rm);
/* Frees every object that is left, and closes the nodes. NULL is allowed. */
void nv_rm_destroy(struct nv_rm *rm);

/* A new object of `nv_class` below `parent`. `params`, in the newest layout
 * of struct_id (enum nv_struct_id), may be NULL; what the driver changes in
 * it comes back. */
BELL_MUST_CHECK bell_status nv_rm_alloc(struct nv_rm *rm, uint32_t parent,
                                        uint32_t nv_class, uint32_t struct_id,
                                        void *params, uint32_t *out_handle);
/* Frees an object and what is below it. Handle 0 is allowed. A refusal is
 * logged (BELL_DEBUG=ioctl): the object then goes with the client. */
void nv_rm_free(struct nv_rm *rm, uint32_t parent, uint32_t handle);

/* A second device object of the client, for another card. */
BELL_MUST_CHECK bell_status nv_rm_alloc_device(struct nv_rm *rm,
                                               uint32_t instance,
                                               uint32_t *out_device);

/* A control call on an object; `params` is in the newest layout, in and out.
 */
BELL_MUST_CHECK bell_status nv_rm_control(struct nv_rm *rm, uint32_t object,
                                          uint32_t command, uint32_t struct_id,
                                          void *params);

/* The same, but the driver's status is the caller's to judge. */
BELL_MUST_CHECK bell_status
nv_rm_control_status(struct nv_rm *rm, uint32_t object, uint32_t command,
                     uint32_t struct_id, void *params, uint32_t *out_status);

/* One that has no parameters. */
BELL_MUST_CHECK bell_status nv_rm_command(struct nv_rm *rm, uint32_t object,
                                          uint32_t command);

/* BELL_E_UNSUPPORTED where confidential computing is on. A driver that does not
 * tell has it off. */
BELL_MUST_CHECK bell_status nv_rm_check_confidential(struct nv_rm *rm);

/* Maps [offset, offset + size_bytes) of a memory object for the CPU. `parent`
 * is the device or subdevice it belongs to. `flags`: enum nv_rm_map_flag.
 * `addr`: where to (a reserved range is replaced), or NULL. */
BELL_MUST_CHECK bell_status nv_rm_map(struct nv_rm *rm, uint32_t parent,
                                      uint32_t memory, uint64_t offset_bytes,
                                      uint64_t size_bytes, unsigned flags,
                                      void *addr,
                                      struct nv_rm_mapping *out_map);
/* Undoes either kind of mapping; an empty one is allowed. It is emptied. */
void nv_rm_unmap(struct nv_rm *rm, struct nv_rm_mapping *map);

/* Host memory of the driver's, cached. out_map holds the file that
 * nv_rm_map_system maps; nv_rm_unmap gives both back, and the memory goes
 * with nv_rm_free below the device. */
BELL_MUST_CHECK bell_status nv_rm_alloc_system(struct nv_rm *rm,
                                               uint64_t size_bytes,
                                               uint32_t *out_memory,
                                               struct nv_rm_mapping *out_map);
/* `addr` as in nv_rm_map. */
BELL_MUST_CHECK bell_status nv_rm_map_system(struct nv_rm *rm, void *addr,
                                             struct nv_rm_mapping *map);
/* Whole pages of this process, pinned while the object lives. */
BELL_MUST_CHECK bell_status nv_rm_pin(struct nv_rm *rm, void *pages,
                                      uint64_t size_bytes,
                                      uint32_t *out_memory);
/* A dma-buf of video memory below the device, all of it: a descriptor of the
 * process. BELL_E_UNSUPPORTED: the driver has none for this card. */
BELL_MUST_CHECK bell_status nv_rm_export(struct nv_rm *rm, uint32_t memory,
                                         uint64_t size_bytes, int *out_fd);
/* All of another driver's dma-buf, below the device. */
BELL_MUST_CHECK bell_status nv_rm_import(struct nv_rm *rm, int fd,
                                         uint64_t size_bytes,
                                         uint32_t *out_memory);
/* Another client's object under a handle of ours, below `parent`, a device of
 * the same card, or any device of ours for host memory. */
BELL_MUST_CHECK bell_status nv_rm_dup(struct nv_rm *rm, uint32_t parent,
                                      uint32_t source_client,
                                      uint32_t source_object,
                                      uint32_t *out_handle);

/* Puts a memory object at `va` of an address space that the carrier (class
 * 0x50A0) belongs to. `flags` are NVOS46's. */
BELL_MUST_CHECK bell_status nv_rm_map_dma(struct nv_rm *rm, uint32_t carrier,
                                          uint32_t memory, uint64_t va,
                                          uint64_t size_bytes, uint32_t flags);
void nv_rm_unmap_dma(struct nv_rm *rm, uint32_t carrier, uint32_t memory,
                     uint64_t va, uint64_t size_bytes);

#endif
