/* The simulated kernel driver's own structures (the "resource manager", RM).
 *
 * A machine has cards and processes. A process (one kio form) has files; a
 * control file has clients; a client is the root of a tree of objects that
 * are named by handles. Memory, address spaces and channels are counted
 * things that objects refer to, so they live as long as anything uses them.
 *
 * Everything here is under machine->lock, which every call of the form takes,
 * but for a group's list of channels: that has a lock of its own, because the
 * cards' threads look at it when a channel faults.
 *
 * Calls return RM's status (enum rm_status); why a call was refused is logged
 * under BELL_DEBUG=ioctl. src: docs/hardware/nvidia-kernel.md. Where behaviour
 * is not on that page, a comment says "lead".
 */
#ifndef BELL_SIM_NV_RM_RM_H
#define BELL_SIM_NV_RM_RM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ioctl/kio.h"
#include "ioctl/nv_abi.h"
#include "sim/nv/gpu/gpu.h"
#include "sim/nv/sim_nv.h"

#define RM_MAX_CARDS     8
#define RM_PAGE_BYTES    4096u
#define RM_BIG_BYTES     (64u << 10)
#define RM_HUGE_BYTES    (2u << 20)
#define RM_WINDOW_BYTES  (64u << 10)
#define RM_FIRST_FD      1000 /* so that no real file is taken for ours */
#define RM_SCRATCH_BYTES 16384

/* RM's status numbers. src: docs/hardware/nvidia-queues.md, "Status numbers" */
enum rm_status {
    RM_OK = 0,
    RM_BUFFER_TOO_SMALL = 0x02,
    RM_ILLEGAL_ACTION = 0x16,
    RM_IN_USE = 0x17,
    RM_INSERT_DUPLICATE = 0x19,
    RM_INSUFFICIENT_RESOURCES = 0x1a,
    RM_INSUFFICIENT_PERMISSIONS = 0x1b,
    RM_INVALID_ADDRESS = 0x1e,
    RM_INVALID_ARGUMENT = 0x1f,
    RM_INVALID_CHANNEL = 0x21,
    RM_INVALID_CLASS = 0x22,
    RM_INVALID_CLIENT = 0x23,
    RM_INVALID_DEVICE = 0x26,
    RM_INVALID_EVENT = 0x28,
    RM_INVALID_FLAGS = 0x29,
    RM_INVALID_LIMIT = 0x2e,
    RM_INVALID_OBJECT = 0x31,
    RM_INVALID_OBJECT_HANDLE = 0x33,
    RM_INVALID_OBJECT_PARENT = 0x36,
    RM_INVALID_OFFSET = 0x37,
    RM_INVALID_OPERATION = 0x38,
    RM_INVALID_PARAM_STRUCT = 0x3a,
    RM_INVALID_PARAMETER = 0x3b,
    RM_INVALID_STATE = 0x40,
    RM_NO_MEMORY = 0x51,
    RM_NOT_READY = 0x55,
    RM_NOT_SUPPORTED = 0x56,
    RM_OBJECT_NOT_FOUND = 0x57,
    RM_OPERATING_SYSTEM = 0x59,
    RM_OUT_OF_RANGE = 0x5b,
    RM_STATE_IN_USE = 0x63,
    RM_UVM_ADDRESS_IN_USE = 0x68,
    RM_FABRIC_NOT_READY = 0x81,
    RM_WARN_NOTHING_TO_DO = 0x10006,
};

struct nv_export_to_dma_buf_fd;
struct nv_memory_alloc;
struct rm_export;
struct rm_machine;
struct rm_mapping;
struct rm_object;
struct rm_process;
struct rm_team;
struct rm_uvm;
struct sim_links;

/* ---- cards and machines -------------------------------------------------- */

enum rm_compute_mode {
    RM_MODE_DEFAULT,
    RM_MODE_EXCLUSIVE, /* of a thread, long ago */
    RM_MODE_PROHIBITED,
    RM_MODE_EXCLUSIVE_PROCESS
};

struct rm_card {
    struct rm_machine *machine;
    uint32_t index;     /* and minor number, and device instance */
    struct nvgpu *gpu;  /* owned */
    int vidmem_fd;      /* sparse: every allocation at offsets of its own */
    uint64_t next_byte; /* of that file that was never given out */
    uint64_t used_bytes, bar1_used_bytes;
    uint32_t n_attached;  /* open nodes, and ATTACH_IDS that were asked for */
    bool has_uvm;         /* it was registered with UVM once */
    uint32_t reserved_by; /* client, by ACQUIRE_COMPUTE_MODE_RESERVATION */
    uint8_t bus;          /* PCI 0000:BUS:00.0 */
    uint32_t gpu_id;
    uint8_t uuid[16];
    uint64_t bar0_base, bar1_base;
};

/* How two cards reach each other, in the worst order. */
enum rm_link {
    RM_LINK_NONE,
    RM_LINK_PCIE, /* by mailboxes in BAR1 */
    RM_LINK_BAR1, /* all of the memory lies in BAR1 */
    RM_LINK_NVLINK,
};

/* Shared by processes; in the registry (sim_nv.c). */
struct rm_machine {
    struct rm_machine *next; /* of the registry */
    char spec[120];          /* in one way of writing */
    uint32_t refs;           /* processes; under the registry's lock */
    const struct nvgpu_chip *chip;
    struct nvgpu_chip own_chip; /* what `chip` is: as was asked for */
    bool confidential;          /* confidential computing is on */
    /* Cards, as bits, whose node a container does not have; whose node its
     * rules forbid; that fell off the bus. CARD_INFO lists them all. */
    uint32_t hidden, denied, gone;
    uint32_t compute_mode; /* NV2080_CTRL_GPU_COMPUTE_MODE_RULES_* of all */
    bool first_is_old;     /* the first card's classes are of a GV100 */
    uint8_t links[RM_MAX_CARDS][RM_MAX_CARDS]; /* enum rm_link; symmetric */
    uint32_t n_nvlinks;                        /* of a card that has some */
    bool no_fabric; /* nobody has configured the switches between them */
    /* Objects that make two cards peers. */
    uint32_t n_peerings[RM_MAX_CARDS][RM_MAX_CARDS];
    struct sim_links *traffic; /* owned */
    struct nv_abi abi;         /* the driver that it plays */
    pthread_mutex_t lock;
    uint32_t n_cards;
    struct rm_card cards[RM_MAX_CARDS];
    int sysmem_fd; /* as vidmem_fd */
    uint64_t sysmem_next_byte;
    struct rm_process *processes;
    struct rm_client *clients;
    struct rm_vas *spaces;     /* all */
    struct rm_view *views;     /* RM_MAP_MEMORY's, all */
    struct rm_team *teams;     /* all */
    struct rm_export *exports; /* owned: whose descriptors were out */
    uint32_t last_client, last_handle;
    uint32_t last_cid; /* groups and channels are numbered together */
    uint64_t memory_bytes;
    /* of the call in progress: parameters as passed, and as newest */
    uint64_t wire[RM_SCRATCH_BYTES / 8], params[RM_SCRATCH_BYTES / 8];
};

/* ---- memory (rm_memory.c) ------------------------------------------------ */

enum rm_mem_kind {
    RM_MEM_VIDEO,
    RM_MEM_SYSTEM,
    RM_MEM_USER,   /* pages of the process, pinned */
    RM_MEM_IMPORT, /* another driver's dma-buf */
    RM_MEM_WINDOW, /* a card's usermode registers */
    RM_MEM_TEAM    /* what several cards' memory has in common */
};

/* Backing, counted. */
struct rm_mem {
    struct rm_machine *machine;
    uint32_t refs;
    enum rm_mem_kind kind;
    struct rm_card *card; /* NULL: not of one */
    uint64_t size_bytes;
    uint32_t page_bytes; /* largest that it may be mapped with */
    int fd;              /* borrowed; -1: user pages, an import */
    int own_fd;          /* owned: a file of it alone; -1: none */
    uint64_t file_offset;
    uint8_t *host;        /* as the card sees it; aligned to page_bytes */
    struct rm_team *team; /* owned: of a team's */
};

/* What RM writes back into an allocation's flags, attributes and format: what
 * was left to it is named. Physicality is the caller's to add.
 * src: memmgrDeterminePageSize, memmgrAllocHwResources_GM107,
 * stdmemValidateParams; observed: H100, 2026-11-22 */
#define RM_ATTR_PAGE(n)        ((uint32_t)(n) << 23)
#define RM_ATTR_LOCATION(n)    ((uint32_t)(n) << 25)
#define RM_ATTR_PHYSICALITY(n) ((uint32_t)(n) << 27)
#define RM_NONCONTIGUOUS       1u
#define RM_CONTIGUOUS          2u
void rm_answer_attr(struct nv_memory_alloc *params, uint32_t page_bytes);

enum rm_status rm_mem_create_system(struct rm_machine *machine,
                                    uint64_t size_bytes,
                                    struct rm_mem **out_mem);

/* Addresses that a graphics channel's context takes in a space of UVM's.
 * src: observed: H100, 2026-11-22 */
#define RM_CONTEXT_BYTES 0x52c000u

/* Takes the file on success. */
enum rm_status rm_mem_import(struct rm_machine *machine, int fd,
                             uint64_t size_bytes, struct rm_mem **out_mem);
/* Frees its part of the file of all memory. */
void rm_mem_punch(const struct rm_mem *mem);
/* The file to map, and from where on. */
int rm_mem_file(const struct rm_mem *mem, uint64_t *out_offset);
void rm_mem_retain(struct rm_mem *mem);
/* The last one frees it: CPU mappings of it become inaccessible, as the real
 * driver revokes them. NULL is allowed. */
void rm_mem_release(struct rm_mem *mem);

/* A CPU mapping context made by RM_MAP_MEMORY: of an object. */
struct rm_view {
    struct rm_view *next;
    struct rm_object *object;
    struct rm_mem *mem; /* borrowed: the object has it */
    uint64_t linear;    /* RM's name for it */
    uint64_t bar_bytes; /* of BAR1 that it takes */
};
/* Forgets those of an object that goes. */
void rm_views_forget(struct rm_object *object);

/* ---- dma-bufs (rm_dmabuf.c) ---------------------------------------------- */

/* On a card's node. */
enum rm_status rm_export_dmabuf(struct rm_process *process, int file,
                                struct nv_export_to_dma_buf_fd *p);
/* Releases memory whose descriptors were closed since; all, at the machine's
 * end. */
void rm_exports_sweep(struct rm_machine *machine);
void rm_exports_drop(struct rm_machine *machine);

/* ---- address spaces (rm_space.c) ----------------------------------------- */

/* Memory in an address space. */
struct rm_map {
    struct rm_map *next;
    uint64_t va, size_bytes;
    struct rm_mem *mem;        /* counted */
    struct rm_object *memory;  /* NULL: UVM's */
    struct rm_object *carrier; /* NULL: UVM's */
    struct rm_uvm *uvm;        /* NULL: RM's */
};

/* Addresses that carriers hold. */
struct rm_range {
    struct rm_range *next; /* by address */
    uint64_t va, size_bytes;
};

/* An address space, counted. */
struct rm_vas {
    struct rm_vas *next; /* of the machine's */
    uint32_t refs;
    struct rm_card *card;
    struct nvgpu_space *space; /* owned */
    bool external;             /* UVM's to map in */
    struct rm_uvm *uvm;        /* that it is registered with, and counts it */
    uint64_t start, end;       /* addresses that RM may choose */
    struct rm_range *ranges;   /* owned */
    struct rm_map *maps;       /* owned */
};

/* NULL: there is none (rm_control.c). */
struct rm_card *rm_card_of_id(struct rm_machine *machine, uint32_t gpu_id);

/* Whether two ranges have an address in common. */
static inline bool
rm_ranges_meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

enum rm_status rm_vas_create(struct rm_card *card, bool external,
                             uint64_t start, uint64_t end,
                             struct rm_vas **out_vas);
void rm_vas_retain(struct rm_vas *vas);
void rm_vas_release(struct rm_vas *vas); /* NULL is allowed */

/* A place for memory, what is there, and taking it away. */
struct rm_map_desc {
    uint64_t va, size_bytes, offset_bytes; /* in the memory */
    uint32_t page_bytes;                   /* 0: as large as it can be */
    bool read_only, snooped;
    struct rm_mem *mem;
    struct rm_object *memory, *carrier;
    struct rm_uvm *uvm;
};
enum rm_status rm_map_add(struct rm_vas *vas, const struct rm_map_desc *d);
void rm_map_remove(struct rm_vas *vas, struct rm_map *map);
/* The mapping that holds va; NULL: none. */
struct rm_map *rm_map_find(struct rm_vas *vas, uint64_t va);
/* All of an object or of a UVM file. */
void rm_maps_forget(struct rm_machine *machine, const struct rm_object *object,
                    const struct rm_uvm *uvm);

/* ---- channels (rm_channel.c) --------------------------------------------- */

/* Counted: its object, and its channels. */
struct rm_group {
    uint32_t refs;
    struct rm_card *card;
    struct rm_vas *vas;      /* counted */
    struct rm_mem *notifier; /* counted; may be NULL */
    uint32_t engine;         /* NV2080 engine type */
    bool uses_share, uses_none;
    bool by_block;            /* preemption mode: other than waiting for idle */
    pthread_mutex_t lock;     /* of the list: taken by cards' threads */
    struct rm_channel *chans; /* those that live */
};

struct rm_channel {
    struct rm_channel *next;
    struct rm_group *group;  /* counted */
    struct nvgpu_chan *chan; /* owned */
    struct rm_vas *vas;      /* counted: the group's or its share's */
    struct rm_mem *userd;    /* counted */
    uint64_t userd_offset;
    struct rm_mem *notifier; /* counted; may be NULL */
    uint64_t ring_va;
    uint32_t token_record; /* of the notifier, for the token */
    bool has_object, enabled, errors_cleared;
    struct rm_uvm *uvm; /* that it is registered with */
    uint64_t uvm_base, uvm_bytes;
};

/* ---- objects (rm_object.c) ----------------------------------------------- */

enum rm_kind {
    RM_KIND_CLIENT,
    RM_KIND_DEVICE,
    RM_KIND_SUBDEVICE,
    RM_KIND_VAS,
    RM_KIND_CARRIER, /* virtual memory: 0x50A0, 0x70 */
    RM_KIND_MEMORY,
    RM_KIND_USERMODE,
    RM_KIND_GROUP,
    RM_KIND_SHARE,
    RM_KIND_CHANNEL,
    RM_KIND_COMPUTE,
    RM_KIND_COPY,
    RM_KIND_DEBUGGER,
    RM_KIND_CONFIDENTIAL, /* asks about confidential computing */
    RM_KIND_BINAPI,       /* private commands: none is known */
    RM_KIND_MASTER,       /* asks about error interrupts */
    RM_KIND_P2P,          /* for other devices' drivers */
    RM_KIND_PEERS,        /* two cards that reach each other */
    RM_KIND_EVENT,        /* accepted, never comes */
    RM_KIND_COUNT         /* as a class's parent: any */
};

struct rm_object {
    struct rm_client *client;
    struct rm_object *parent;   /* NULL: a client's root */
    struct rm_object *children; /* newest first */
    struct rm_object *sibling;
    uint32_t handle, nv_class;
    enum rm_kind kind;
    struct rm_card *card;   /* of devices and all below */
    struct rm_vas *vas;     /* counted: of a space, carrier, share; a device's
                             default one, made when first needed */
    struct rm_mem *mem;     /* counted: of memory and usermode windows */
    struct rm_group *group; /* counted: of a group */
    struct rm_channel *channel; /* owned: of a channel; a compute or copy
                                   object's is its parent's */
    struct rm_object *target;   /* of a debugger: a compute object */
    struct rm_card *peer;       /* of peers: the other card */
    uint64_t va, size_bytes;    /* of a carrier */
    bool has_range;             /* of a carrier: it holds those addresses */
    uint32_t n_registered;      /* of a P2P object: spaces; a group: shares */
    uint32_t engine;            /* of a copy object: NV2080 type */
};

/* A root with its objects by handle. */
struct rm_client {
    struct rm_client *next;
    struct rm_process *process;
    int file; /* control file it was made on */
    struct rm_object *root;
    struct rm_object **objects; /* owned; by handle, the root is not in it */
    size_t n_objects, cap_objects;
};

/* An allocation in progress: what a class's function gets. */
struct rm_alloc {
    struct rm_machine *machine;
    struct rm_process *process;
    struct rm_client *client;
    struct rm_object *parent;
    struct rm_object *object; /* new: handle, class, kind, card are set */
    void *params;             /* newest layout, written back; NULL: none */
};

/* The client, if it was made on that control file. */
struct rm_client *rm_client_find(struct rm_process *process, int ctl_file,
                                 uint32_t handle);
/* Any client of the machine. */
struct rm_client *rm_client_any(struct rm_machine *machine, uint32_t handle);
/* The object of that kind; the client's own handle is its root's. NULL: there
 * is none. */
struct rm_object *rm_find(struct rm_client *client, uint32_t handle);
struct rm_object *rm_find_kind(struct rm_client *client, uint32_t handle,
                               enum rm_kind kind);
/* Made by the class's function; *handle 0: RM chooses. */
enum rm_status rm_object_alloc(struct rm_process *process, int ctl_file,
                               uint32_t root, uint32_t parent,
                               uint32_t nv_class, uint64_t params_addr,
                               uint32_t *handle);
/* An object of memory that is there already; it counts it. */
enum rm_status rm_object_add_memory(struct rm_client *client,
                                    struct rm_object *parent, uint32_t nv_class,
                                    struct rm_mem *mem, uint32_t *handle);
/* The object and all below it; channels first. */
void rm_object_free(struct rm_object *object);
void rm_client_destroy(struct rm_client *client);
/* A space by handle below a device; 0: the device's own. Borrowed. */
enum rm_status rm_vas_of(struct rm_client *client, struct rm_object *device,
                         uint32_t handle, struct rm_vas **out_vas);

/* Functions of classes. */
enum rm_status rm_alloc_device(struct rm_alloc *a);
enum rm_status rm_alloc_subdevice(struct rm_alloc *a);
enum rm_status rm_alloc_vas(struct rm_alloc *a);
enum rm_status rm_alloc_virtual(struct rm_alloc *a); /* 0x50A0 */
enum rm_status rm_alloc_dynamic(struct rm_alloc *a); /* 0x70 */
enum rm_status rm_alloc_video(struct rm_alloc *a);
enum rm_status rm_alloc_system(struct rm_alloc *a);
enum rm_status rm_alloc_usermode(struct rm_alloc *a);
enum rm_status rm_alloc_group(struct rm_alloc *a);
enum rm_status rm_alloc_share(struct rm_alloc *a);
enum rm_status rm_alloc_channel(struct rm_alloc *a);
enum rm_status rm_alloc_compute(struct rm_alloc *a);
enum rm_status rm_alloc_copy(struct rm_alloc *a);
enum rm_status rm_alloc_debugger(struct rm_alloc *a);
enum rm_status rm_alloc_shared_data(struct rm_alloc *a); /* 0xDE */
enum rm_status rm_alloc_event(struct rm_alloc *a);       /* 0x79 */
enum rm_status rm_alloc_peers(struct rm_alloc *a);       /* 0x503B */
enum rm_status rm_alloc_team(struct rm_alloc *a);        /* 0xFD */
enum rm_status rm_alloc_os_desc(struct rm_alloc *a);     /* 0x71 */

/* The process has mapped memory: a channel's USERD may be in it. */
void rm_channels_mapped(struct rm_machine *machine, const struct rm_mapping *m);

/* Ends what an object has; called once, its children are gone. */
void rm_group_release(struct rm_group *group);
void rm_channel_destroy(struct rm_channel *channel);
/* An object on it goes: RM waits for its kernels for a while. */
void rm_channel_lose_object(const struct rm_channel *channel);
void rm_carrier_fini(struct rm_object *object);
void rm_peers_fini(struct rm_object *object);
void rm_peers_forget(struct rm_object *subdevice);

/* ---- processes and files (sim_nv.c, rm.c) ---- */

enum rm_file_kind {
    RM_FILE_NONE,
    RM_FILE_CTL,
    RM_FILE_GPU,
    RM_FILE_UVM
};

struct rm_file {
    enum rm_file_kind kind;
    struct rm_card *card; /* of a card's node */
    int ctl;              /* index of the registered control file; -1 */
    struct rm_uvm *uvm;   /* owned */
    /* the one mapping context that mmap looks at */
    bool has_view, is_bar;
    bool is_team_member;   /* of a card's node: ATTACH_GPU holds it */
    uint32_t event_client; /* an OS event of this one is on the file; or 0 */
    struct rm_mem *mem;    /* borrowed; NULL: it is gone */
    uint64_t view_offset, view_bytes;
};

/* A CPU mapping that the process made. */
struct rm_mapping {
    uint8_t *addr;
    uint64_t size_bytes;
    struct rm_mem *mem;    /* borrowed; NULL: anonymous, or it is gone */
    uint64_t offset_bytes; /* in the memory */
};

struct rm_process {
    struct kio kio; /* first */
    struct rm_machine *machine;
    struct rm_process *next; /* of the machine's */
    uint32_t attached;       /* cards, as bits, by ATTACH_IDS */
    struct rm_file *files;   /* owned */
    size_t n_files, cap_files;
    struct rm_mapping *mappings; /* owned */
    size_t n_mappings, cap_mappings;
};

/* One request on a file: 0 or a negative errno. */
int rm_ioctl(struct rm_process *process, int file, unsigned long request,
             void *arg);
/* Ends what hangs on a file. */
void rm_file_close(struct rm_process *process, int file);
/* The file behind a number that the process passed, or NULL. */
struct rm_file *rm_file_of(struct rm_process *process, int fd, int *out_idx);

/* The calls of rm_memory.c and rm_space.c, in newest layouts. */
struct nv_os02_fd;
struct nv_os33_fd;
struct nv_os34;
struct nv_os46;
struct nv_os47;
struct nv_os56;
enum rm_status rm_alloc_memory(struct rm_process *process, int file,
                               struct nv_os02_fd *call);
enum rm_status rm_map_memory(struct rm_process *process, int file,
                             struct nv_os33_fd *call);
enum rm_status rm_unmap_memory(struct rm_process *process, int file,
                               const struct nv_os34 *call);
enum rm_status rm_update_mapping(struct rm_process *process, int file,
                                 const struct nv_os56 *call);
enum rm_status rm_map_memory_dma(struct rm_process *process, int file,
                                 struct nv_os46 *call);
enum rm_status rm_unmap_memory_dma(struct rm_process *process, int file,
                                   const struct nv_os47 *call);

/* Packs machine->params over machine->wire; what the branch's layout has and
 * the newest has not stays as it was passed. */
void rm_wire_answer(struct rm_machine *machine, uint32_t struct_id);

/* Memory of the process, which may not be there: false then. */
bool rm_user_read(void *dst, uint64_t addr, size_t n_bytes);
bool rm_user_write(uint64_t addr, const void *src, size_t n_bytes);

/* ---- controls (rm_control*.c) ---- */

/* A control in progress. */
struct rm_control {
    struct rm_machine *machine;
    struct rm_process *process;
    struct rm_object *object;
    uint32_t command;
    void *params; /* newest layout, in and out */
    uint32_t params_bytes;
};

typedef enum rm_status rm_control_fn(struct rm_control *c);

#define RM_NO_PARAMS UINT32_MAX

struct rm_control_row {
    uint32_t command;
    uint32_t struct_id; /* RM_NO_PARAMS: none */
    uint32_t kinds;     /* 1u << enum rm_kind */
    rm_control_fn *fn;
};

enum rm_status rm_control(struct rm_process *process, int ctl_file,
                          uint32_t client, uint32_t object, uint32_t command,
                          uint64_t params, uint32_t params_bytes);

/* Rows of rm_channel.c, rm_peer.c, rm_query.c and rm_team.c; the others are
 * rm_control.c's own. */
extern const struct rm_control_row rm_channel_controls[], rm_peer_controls[],
    rm_query_controls[], rm_team_controls[];
extern const size_t rm_n_channel_controls, rm_n_peer_controls,
    rm_n_query_controls, rm_n_team_controls;

/* NV2080 engine types. src: docs/hardware/nvidia-kernel.md, "Bring-up", step
 * 14. */
#define RM_ENGINE_GR0 1u
/* Engine type of a copy engine; 0 where the branch has no number for it. */
uint32_t rm_copy_engine_type(const struct rm_machine *machine, uint32_t idx);
/* Whether it is the type of one of the chip's; its number in *out_idx. */
bool rm_copy_engine_idx(const struct rm_machine *machine, uint32_t engine,
                        uint32_t *out_idx);

/* ---- peers (rm_peer.c) ---- */

/* The link of two cards now: NONE also where the fabric is not ready. */
enum rm_link rm_link_of(const struct rm_machine *machine, uint32_t a,
                        uint32_t b);
bool rm_has_nvlink(const struct rm_machine *machine, uint32_t card);
/* Two cards are peers once more, once less. */
void rm_peering_add(struct rm_machine *machine, uint32_t a, uint32_t b);
void rm_peering_remove(struct rm_machine *machine, uint32_t a, uint32_t b);

/* ---- teams of cards (rm_team.c) ---- */

/* Whether that memory may be mapped by the card: NOT_READY, and one time less
 * until it is; INVALID_STATE where the card is not attached. OK: no team's. */
enum rm_status rm_team_check(const struct rm_mem *mem,
                             const struct rm_card *card);
/* What is attached of an object that goes is detached. */
void rm_teams_forget(struct rm_machine *machine,
                     const struct rm_object *memory);
/* With the last of its objects and mappings. */
void rm_team_destroy(struct rm_mem *mem);

/* ---- UVM (rm_uvm.c) ---- */

struct rm_uvm *rm_uvm_create(void);
void rm_uvm_destroy(struct rm_process *process, struct rm_uvm *uvm);
int rm_uvm_ioctl(struct rm_process *process, int file, unsigned long request,
                 void *arg);
/* The memory of a semaphore pool of those addresses; NULL: there is none. */
struct rm_mem *rm_uvm_pool(struct rm_uvm *uvm, uint64_t base, uint64_t length);
/* A channel that goes is forgotten by the UVM file that it is with. */
void rm_uvm_forget_channel(struct rm_uvm *uvm, struct rm_channel *channel);

/* ---- text files (rm_files.c) ---- */

/* A procfs or sysfs file: bytes, or a negative errno. */
int rm_read_file(const struct rm_machine *machine, const char *path, char *buf,
                 size_t cap);

/* ---- why ---- */

/* Logs why a call is refused (BELL_DEBUG=ioctl). Returns `status`. */
enum rm_status rm_refuse(enum rm_status status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for what fails as a system call, which kio_ops.explain tells too;
 * returns -error. */
int rm_fail(int error, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The text of this thread's last failure; "" if there was none since it was
 * cleared. */
const char *rm_why(void);
void rm_why_clear(void);

#endif
