/* The simulated kernel driver's own structures.
 * src: docs/hardware/amd-kernel.md. */
#ifndef BELL_SIM_AMD_KFD_KFD_H
#define BELL_SIM_AMD_KFD_KFD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ioctl/kio.h"
#include "sim/amd/gpu/gpu.h"
#include "sim/text.h"

#define KFD_MAX_CARDS       64u /* partitions, too */
#define KFD_FIRST_FD        3000
#define KFD_PAGE            4096u
#define KFD_DOORBELL_BYTES  0x2000u
#define KFD_MAX_EVENTS      4096u
#define KFD_EXCEPTION_FIRST 0x40000000u /* ids of those without a slot */
#define KFD_CPU_NODES       1u
#define KFD_DRM_FIRST       128u /* minor of the first render node */

struct kfd_machine;

struct kfd_card {
    struct kfd_machine *machine;
    struct amdsim *gpu;
    uint32_t index, gpu_id, render_minor;
    uint64_t used_bytes;  /* of the card's memory */
    atomic_uint n_losses; /* of all that was in it */
};

struct kfd_machine {
    struct kfd_machine *next;
    char *spec;                  /* owned */
    pid_t pid;                   /* whose it is: forking makes no second one */
    struct amd_dump *dump;       /* owned; NULL: none */
    bool exact_saves;            /* a kernel from before December 2025 */
    struct amdsim_chip own_chip; /* as the SPEC says */
    const struct amdsim_chip *chip; /* own_chip */
    uint32_t n_cards, refs, kfd_minor;
    bool waits_block; /* queues that stand in a plain wait cannot be unmapped */
    /* Cards, as bits, whose render node a container does not have; which its
     * rules forbid. */
    uint64_t hidden, denied;
    uint32_t n_partitions; /* of each GPU; each is a card here */
    uint32_t bar_mib;   /* of a card's memory that its window shows; 0: all */
    uint32_t hive_gpus; /* GPUs of a hive, which XGMI connects; 0: no hives */
    bool has_p2p;       /* the kernel knows peers over PCIe, */
    bool p2p_is_off;    /* and its parameter says no; */
    bool acs_redirects; /* or an IOMMU translates, and ACS sends all to it */
    uint64_t engine_queues[KFD_MAX_CARDS]
                          [32]; /* of SDMA that are taken: bits */
    bool is_virtual;            /* cards are virtual functions (SR-IOV) */
    bool first_is_old;          /* the first card is a gfx90c, and says so */
    bool kernel_is_old;         /* KFD does not tell the chip */
    struct kfd_card cards[KFD_MAX_CARDS];
    struct sim_links *traffic; /* owned */
    pthread_mutex_t lock;      /* all of the kernel's state */
    struct kfd_process *processes;
    /* Owned: memory that no process has by a handle, while descriptors of it
     * were out. */
    struct kfd_store *left;
};

enum kfd_file_kind {
    KFD_FILE_NONE,
    KFD_FILE_KFD,
    KFD_FILE_DRM
};

/* Numbers are taken anew, files are not: the kernel knows one by itself. */
struct kfd_file {
    enum kfd_file_kind kind;
    uint32_t card;
    uint32_t serial;               /* never the same twice */
    struct kfd_process *secondary; /* CREATE_PROCESS's; ends with the file */
};

/* Memory behind a handle: the card's, the host's, or an imported dma-buf, which
 * counts where it was made. */
struct kfd_store {
    struct kfd_store *next; /* machine->left */
    uint32_t card, flags;
    bool is_import, was_exported;
    uint64_t size_bytes;
    int fd; /* memory file */
};

/* Memory of a process. */
struct kfd_buffer {
    uint64_t handle, va, size_bytes;
    uint32_t card, flags;
    struct kfd_store *store; /* owned; NULL: a user's, or doorbells */
    int fd;                  /* memory file; -1: the process's own memory */
    void *host;              /* where the simulator sees it */
    uint64_t mapped;         /* bit per card */
    bool is_event_page;
};

struct kfd_event {
    uint32_t id, type;
    bool auto_reset, is_set;
    uint64_t age; /* from 1; grows as it is set */
    uint32_t gpu_index;
    /* what happened, of exceptions */
    uint64_t va;
    bool not_present, read_only, memory_lost;
};

struct kfd_queue {
    uint32_t id, card, doorbell; /* its number on the card */
    bool is_sdma;
    uint32_t engine, slot; /* of SDMA: engine, and its queue there */
    uint64_t save_va;      /* 0: it has no save area */
    struct amdsim_queue *queue;
    struct kfd_process *process;
};

/* A process's side of one card. */
struct kfd_vm {
    struct amdsim_space *space; /* NULL before ACQUIRE_VM */
    uint32_t drm_serial;        /* the file that it was acquired with */
    int doorbell_fd;            /* memory file of 8 KiB */
    uint64_t *doorbells;        /* the simulator's mapping */
    uint64_t doorbell_used[16]; /* bit set of doorbells in use */
    uint32_t n_queues;
    bool is_evicted; /* by a reset: the space that comes is, too */
};

/* What the kernel keeps for a process, whatever it has open: all of it stays
 * until the process exits. src: Linux 6.12, kfd_process.c: a kfd_process hangs
 * on the mm and goes in kfd_process_notifier_release; kfd_chardev.c,
 * kfd_release, drops a reference */
struct kfd_process {
    struct kfd_machine *machine;
    struct kfd_process *next;
    bool is_own; /* a form's: it exits with it. Else this program's */
    struct kfd_process
        *primary;           /* NULL: it is one; else whose files there are */
    uint32_t n_secondaries; /* so far */
    struct kfd_file *files;
    size_t n_files, cap_files;
    uint32_t n_opened; /* serials of files so far */
    struct kfd_vm vms[KFD_MAX_CARDS];
    struct kfd_buffer **buffers; /* owned */
    size_t n_buffers, cap_buffers;
    uint32_t next_handle;
    struct kfd_queue **queues; /* owned */
    size_t n_queues, cap_queues;
    uint32_t next_queue;
    bool has_runtime; /* RUNTIME_ENABLE: reasons are told */

    /* Events have a lock of their own: queues signal them. */
    pthread_mutex_t event_lock;
    pthread_cond_t event_cond;
    struct kfd_event **events; /* owned */
    size_t n_events, cap_events;
    uint32_t next_event, next_exception;
    uint32_t n_waiters;   /* in WAIT_EVENTS */
    bool is_ending;       /* they leave */
    uint64_t *event_page; /* NULL before the first event */
    char fault_text[256];
};

/* Why the calling thread's last call failed, for kio's explain. Returns the
 * negative errno. */
int kfd_fail(int error, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *kfd_why(void);
void kfd_why_clear(void);

/* NULL with a reason where there is no such card. */
struct kfd_card *kfd_card_of(struct kfd_process *p, uint32_t gpu_id);

/* What the first card of a machine is whose first is another: Renoir's GPU, in
 * a processor. src: Linux, amdgpu/gmc_v9_0.c, kfd_device.c (90012) */
#define KFD_OLD_NAME    "gfx90c"
#define KFD_OLD_VERSION 90012u

/* An open file, or NULL with a reason (sim_amd.c). */
struct kfd_file *kfd_file_of(struct kfd_process *p, int fd);

/* An ioctl of /dev/kfd, but for WAIT_EVENTS (kfd_call.c); of a card's render
 * node (kfd_render.c). The machine's lock is held. */
int kfd_call(struct kfd_process *p, unsigned long request, void *arg);
int kfd_render_call(struct kfd_process *p, uint32_t card, unsigned long request,
                    void *arg);
/* Undoes ACQUIRE_VM, if it was called. */
void kfd_drop_vm(struct kfd_vm *vm);

/* How a card reaches another's memory (kfd_links.c). */
enum kfd_link {
    KFD_LINK_NONE,
    KFD_LINK_PCIE,
    KFD_LINK_XGMI
};
enum kfd_link kfd_link_between(const struct kfd_machine *machine, uint32_t a,
                               uint32_t b);
/* Whether cards reach others' windows over PCIe. */
bool kfd_reaches_bar(const struct kfd_machine *machine);
uint64_t kfd_hive_id(const struct kfd_card *card); /* 0: in none */
/* Copy engines of a card: ordinary ones, and behind them those for XGMI. */
uint32_t kfd_n_sdma(const struct kfd_machine *machine);
uint32_t kfd_n_sdma_xgmi(const struct kfd_machine *machine);
/* Those that a node lists in io_links, or in p2p_links. */
uint32_t kfd_count_links(const struct kfd_machine *machine, uint32_t node,
                         bool is_p2p);
bool kfd_put_link(struct sim_text *text, const struct kfd_machine *machine,
                  uint32_t node, bool is_p2p, uint32_t number);

/* A card's place on PCI, its partition in the highest bits (kfd_files.c). */
uint64_t kfd_location(const struct kfd_card *card);
/* The text of a sysfs or procfs file: bytes, or a negative errno
 * (kfd_files.c). */
int kfd_read_file(struct kfd_machine *machine, const char *path, void *buf,
                  size_t cap);

/* ioctls; the machine's lock is held (kfd_memory.c, kfd_queue.c). */
int kfd_do_alloc(struct kfd_process *p, void *arg);
int kfd_do_free(struct kfd_process *p, void *arg);
int kfd_do_map(struct kfd_process *p, void *arg);
int kfd_do_unmap(struct kfd_process *p, void *arg);
int kfd_do_available(struct kfd_process *p, void *arg);
int kfd_do_export(struct kfd_process *p, void *arg);
int kfd_do_import(struct kfd_process *p, void *arg);
int kfd_do_dmabuf_info(struct kfd_process *p, void *arg);
/* Frees memory whose last descriptor was closed since. */
void kfd_sweep_stores(struct kfd_machine *machine);
/* All of it, at the machine's end. */
void kfd_drop_stores(struct kfd_machine *machine);
/* A number for a file; negative errno (sim_amd.c). */
int kfd_add_file(struct kfd_process *p, const struct kfd_file *file);
int kfd_do_create_queue(struct kfd_process *p, void *arg);
int kfd_do_destroy_queue(struct kfd_process *p, void *arg);
int kfd_do_update_queue(struct kfd_process *p, void *arg);

/* The buffer with this handle, or that the card has at va; NULL if there is
 * none. */
struct kfd_buffer *kfd_find_handle(struct kfd_process *p, uint64_t handle);
struct kfd_buffer *kfd_find_va(struct kfd_process *p, uint32_t card,
                               uint64_t va);
/* What mmap of a render node at that offset maps. */
struct kfd_buffer *kfd_find_offset(struct kfd_process *p, uint64_t offset);
/* Unmaps from all cards, forgets it. */
void kfd_drop_buffer(struct kfd_process *p, struct kfd_buffer *buf);
void kfd_drop_queue(struct kfd_process *p, struct kfd_queue *queue);

/* Events; the machine's lock is not held by the wait (kfd_event.c). */
int kfd_do_create_event(struct kfd_process *p, void *arg);
int kfd_do_destroy_event(struct kfd_process *p, void *arg);
int kfd_do_set_event(struct kfd_process *p, void *arg, bool set);
/* Takes one from n_waiters. */
int kfd_do_wait(struct kfd_process *p, void *arg);
/* From queues. */
void kfd_interrupt(void *user, uint32_t context_id);
void kfd_queue_fault(void *user, const struct amdsim_fault *fault);
/* The card resets; no lock is held. */
void kfd_card_reset(void *card);
/* The same where the machine's is. */
void kfd_card_reset_locked(struct kfd_card *card);

#endif
