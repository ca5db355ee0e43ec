/* What the kernel driver keeps for this process: files, address spaces,
 * events, doorbells.
 *
 * KFD has one state per process, not per opened file, and keeps it until the
 * process exits, whatever is closed: a second address space on a card is
 * refused then as before, and so is a second page of events.
 *
 * All devices that are opened through the same interface therefore share a
 * struct amd_process, which stays when the last of them closes, with its files,
 * for the next. It goes with the last only where no card was opened, or where
 * the kernel itself is one that was made with the stack of forms
 * (kio_outlives). A child of fork has nothing of its parent's and begins anew.
 *
 * Memory that the kernel does not take back, because a call failed, is noted
 * and tried again later; until then its addresses stay reserved, because a card
 * may still have them mapped, and the kernel would refuse another mapping
 * there. src: docs/hardware/amd-kernel.md, "Opening", "Topology", "Memory",
 * "Events", "Queues".
 */
#ifndef BELL_HCQ_AMD_AMD_KFD_H
#define BELL_HCQ_AMD_AMD_KFD_H

#include "hcq/amd/amd.h"
#include "mem/mem_slab.h"

/* Eight MI300 in CPX; a bit of amd_mem.mapped each. */
#define AMD_MAX_CARDS 64u

/* A fault that the kernel reported for a card. Plain data. */
struct amd_fault_record {
    uint32_t serial; /* grows with every fault; 0: none yet */
    bool is_memory;  /* else a reset of the card */
    uint64_t va;     /* of the page */
    bool not_present, read_only;
    uint32_t reset_cause;
};

struct amd_card {
    struct amd_topology topology;
    struct kio_file drm; /* fd -1 before the first use; then it stays */
    bool is_open;        /* space, clock and all below are there */
    uint64_t *doorbells; /* mapped with the first queue */
    uint32_t *hdp;       /* mapped with the card; NULL: it has none */
    uint64_t clock_hz;
    atomic_bool has_old_saves;     /* the kernel wants the old save area */
    struct amd_fault_record fault; /* lock */
    uint32_t n_queues;             /* that the kernel has of us; lock */
    atomic_uint n_chosen;          /* queues on engines of several, so far */
    atomic_bool engines_are_full;  /* the last call for a copy queue says so */
    /* By a memory fault or a reset: the kernel counts it for the process, and
     * queues that are made later never run either. The first one's report; "":
     * it was not decoded yet. lock */
    bool is_stopped;
    char stopped_by[256];
    bool is_reset; /* what was in its memory is lost; lock */
    /* How often its memory had been lost when it was opened, where that is
     * known; lock. */
    bool knows_losses;
    uint32_t n_losses;
};

/* Memory that the kernel has for this process. */
struct amd_held {
    struct amd_held *prev, *next; /* of all */
    uint64_t handle;              /* the kernel's */
    uint64_t moved;               /* the same in the next state */
    uint64_t va;
    uint32_t card;
    uint64_t mapped; /* bit per card of the process */
    bool is_user;    /* pages of the process */
    bool stays;      /* a page that only the CPU looks through */
};

/* A queue or memory that the kernel still has. */
struct amd_left {
    struct amd_left *next;
    bool is_queue;
    uint32_t card, queue_id;
    struct amd_mem mem;
};

struct amd_process {
    struct amd_process *next;
    uint32_t refs;
    char *interface;     /* owned */
    struct kio *kio;     /* owned */
    uint64_t page_bytes; /* the kernel's */
    struct kio_file kfd;
    uint32_t minor;   /* of KFD */
    bool has_runtime; /* the kernel tells why a queue was stopped; open_lock */
    uint32_t n_cards;
    struct amd_card cards[AMD_MAX_CARDS];
    /* Taken in this order: one opens a card, one gives back what is left. */
    pthread_mutex_t open_lock, left_lock, lock;
    struct amd_left *left; /* owned, oldest first; left_lock */
    struct amd_held *held; /* owned; lock */
    bool is_renewed;       /* the state is a secondary one; open_lock */
    /* Openings whose recovery waits for that of the others, and the round that
     * they wait in: a fresh state is the end of one. lock */
    uint32_t n_parked, round;
    struct amd_mem event_page;
    uint32_t signal_event, memory_event, hardware_event; /* 0: none yet */
    bool was_reset;              /* some card, so losses are looked for; lock */
    _Atomic uint64_t signal_age; /* of the signal event, as last seen */
    struct amd_buffer *pinned;   /* of all devices; lock */
    /* Taken behind a device's buffer_lock. */
    pthread_mutex_t share_lock;
    struct amd_buffer *shared; /* that have peers; share_lock */
    uint64_t n_shares;         /* so far; share_lock */
};

/* The process's state for an interface, with its cards listed; counted.
 * BELL_E_NO_DEVICE where there is no KFD or no card; BELL_E_INVALID where the
 * real kernel's state was opened through other forms. */
BELL_MUST_CHECK bell_status amd_process_get(const char *interface,
                                            struct amd_process **out_process);
void amd_process_put(struct amd_process *process);

/* Reads the topology of all cards, without opening any. */
BELL_MUST_CHECK bell_status amd_topology_list(struct kio *kio,
                                              struct amd_topology *out_list,
                                              uint32_t cap, uint32_t *out_n);

/* "/dev/dri/renderD128" */
void amd_render_path(const struct amd_topology *card, char *out_path,
                     size_t size_bytes);

/* How a card reaches another's memory, as sysfs has it. Plain data. */
struct amd_link {
    bool is_xgmi, is_pcie;
    uint32_t weight, engines; /* copy engines that KFD recommends, as bits */
    bool has_atomics;
    uint64_t bytes_per_s; /* 0: not known */
};
/* False: none is listed, and `out_link` is zeroed. */
bool amd_link_find(struct kio *kio, const struct amd_topology *from,
                   const struct amd_topology *to, struct amd_link *out_link);
/* The most likely cause of that. */
void amd_link_why_not(struct kio *kio, const struct amd_topology *from,
                      const struct amd_topology *to, char *text,
                      size_t size_bytes);
/* BELL_E_UNSUPPORTED, and why: KFD did not map memory of the owner, a card of
 * the process with that name, to the device's card (amd_link.c). */
bell_status amd_link_refuse(struct amd_device *dev, uint32_t owner,
                            const char *name);
/* hcq_device_ops of links. */
bell_status amd_get_link(struct hcq_device *base, struct hcq_device *of,
                         struct hcq_device_link *link);
bell_status amd_link_bytes(struct hcq_device *base, struct hcq_device *of,
                           struct hcq_link_bytes *out_bytes);

/* Opens the card's render node and its address space, once for the process,
 * and the events with the first card. What fails is tried again by the next
 * call. */
BELL_MUST_CHECK bell_status amd_card_open(struct amd_process *process,
                                          uint32_t card);

/* A call of KFD. */
BELL_MUST_CHECK bell_status amd_call(struct amd_process *process,
                                     unsigned long request, void *arg);
/* The same where a failure has no consequence: it is logged. */
void amd_call_or_log(struct amd_process *process, unsigned long request,
                     void *arg);

/* Memory of a card, mapped to it; see amd_mem_alloc. `user` not NULL: pages
 * of the process, which get an address of their own on the card, so that any
 * page can be pinned any number of times. */
BELL_MUST_CHECK bell_status amd_memory_create(
    struct amd_process *process, uint32_t card, uint64_t size_bytes,
    enum amd_mem_kind kind, void *user, struct amd_mem *out_mem);
/* All of a dma-buf, as memory of the card, mapped to no card yet and not for
 * the CPU. */
BELL_MUST_CHECK bell_status amd_memory_import(struct amd_process *process,
                                              uint32_t card, int fd,
                                              uint64_t size_bytes,
                                              struct amd_mem *out_mem);
/* A zeroed struct is allowed; it is zeroed. Never fails, and leaves the error
 * record as it is: see struct amd_left. */
void amd_memory_destroy(struct amd_process *process, struct amd_mem *mem);
/* A fresh state of the process at the kernel, with all its memory, for one that
 * a memory fault stopped (amd_renew.c). From KFD 1.19 on, where no other
 * opening uses the old one and no queue is left; BELL_E_DEVICE_LOST, and why,
 * if not. Other openings do not use it while they are parked: their recovery
 * was refused for this one's sake, and they are recovered again after it. `dev`
 * is parked by being refused; NULL: one that is not. No wait of the process is
 * under way but for those of `dev`. */
bool amd_process_can_renew(const struct amd_process *process);
BELL_MUST_CHECK bell_status amd_process_renew(struct amd_process *process,
                                              struct amd_device *dev);
/* Whether other openings are parked. */
bool amd_process_is_awaited(const struct amd_device *dev);
/* It is no longer parked: it closes, or recovered. */
void amd_process_unpark(struct amd_device *dev);
/* How many openings the process's state has. */
uint32_t amd_process_openings(struct amd_process *process);

/* The parts of opening that a fresh state takes, too. */
bell_status amd_drm_open(struct amd_process *process, uint32_t card,
                         struct kio_file *out_drm);
BELL_MUST_CHECK bell_status amd_event_create(const struct kio_file *kfd,
                                             uint32_t type, uint64_t page,
                                             uint32_t *out_id);

/* Whether the kernel runs what this process submits to the card, by what it has
 * told so far. BELL_E_DEVICE_LOST: never again. *out_must_renew: not before the
 * process has a fresh state. */
BELL_MUST_CHECK bell_status amd_card_ask(struct amd_process *process,
                                         uint32_t card, bool *out_must_renew);
/* BELL_E_DEVICE_LOST in both cases. */
BELL_MUST_CHECK bell_status amd_card_check(struct amd_process *process,
                                           uint32_t card);
/* One queue less on the card. */
void amd_queue_count_out(struct amd_process *process, uint32_t card);
/* Destroys a queue of the kernel; counts it out of the card. */
BELL_MUST_CHECK bell_status amd_queue_end(struct amd_process *process,
                                          uint32_t card, uint32_t queue_id);
/* The queue did not end, which is tried again later. Memory that is freed after
 * this stays until then. */
void amd_queue_leave(struct amd_process *process, uint32_t card,
                     uint32_t queue_id);
/* Tries again to give back what is left. */
void amd_left_retry(struct amd_process *process);
/* Maps it to one more card, if it is not there. */
BELL_MUST_CHECK bell_status amd_memory_map(struct amd_process *process,
                                           struct amd_mem *mem, uint32_t card);
/* The end of that for one card. */
void amd_memory_unmap(struct amd_process *process, struct amd_mem *mem,
                      uint32_t card);

/* Takes reports of faults from the kernel, without waiting, into the cards'
 * records. */
void amd_poll_faults(struct amd_process *process);

/* Sleeps until a submission of the process has ended that had not when `age`
 * was read of signal_age, or about as long as said. */
void amd_wait_signal(struct amd_process *process, uint64_t age,
                     uint32_t timeout_ms);

/* Signals of a device (amd_memory.c). */
BELL_MUST_CHECK bell_status amd_signals_open(struct amd_device *dev);

/* What a doorbell submits, told to those who record (amd_watch.c): before it
 * rings, with the pointer of the last ring and what is going to be stored; and
 * after it, when the card has read all, or after a while. */
void amd_watch_ring(const struct amd_channel *channel, uint64_t from,
                    uint64_t value);
void amd_watch_settle(const struct amd_channel *channel);

/* hcq_device_ops of amd_memory.c and amd_fault.c. */
bell_status amd_buffer_alloc(struct hcq_device *base, uint64_t size_bytes,
                             uint32_t flags, struct hcq_backing *out);
void amd_buffer_free(struct hcq_device *base, const struct hcq_backing *mem);
bell_status amd_buffer_pin(struct hcq_device *base, void *ptr,
                           uint64_t size_bytes, struct hcq_backing *out);
void amd_buffer_unpin(struct hcq_device *base, const struct hcq_backing *mem);
bell_status amd_buffer_peer(struct hcq_device *base,
                            const struct hcq_buffer *of,
                            struct hcq_backing *out);
void amd_buffer_unpeer(struct hcq_device *base, const struct hcq_backing *mem);
bell_status amd_buffer_export(struct hcq_device *base,
                              const struct hcq_backing *mem, int *out_fd);
bell_status amd_buffer_import(struct hcq_device *base, int fd,
                              uint64_t size_bytes, struct hcq_backing *out);
bell_status amd_buffer_write(struct hcq_device *base, uint64_t va,
                             const void *data, uint64_t size_bytes);
bell_status amd_buffer_read(struct hcq_device *base, uint64_t va, void *data,
                            uint64_t size_bytes);
bell_status amd_signal_alloc(struct hcq_device *base, uint64_t *out_va,
                             uint64_t **out_host);
/* Whether the host sees memory of the card's own, and the device is not
 * recorded: a recording knows where it answers in host memory alone. */
bool amd_has_near(const struct amd_device *dev);
bell_status amd_signal_alloc_near(struct hcq_device *base, uint64_t *out_va,
                                  uint64_t **out_host);
void amd_signal_settle(struct hcq_device *base, const struct hcq_signal *sig);
void amd_signal_free(struct hcq_device *base, struct hcq_signal *sig);
void amd_signal_sleep(struct hcq_signal *sig, uint64_t seen, uint64_t max_ns);
bell_status amd_signal_map(struct hcq_device *base,
                           const struct hcq_signal *sig, uint64_t *out_va);
void amd_fault_check(struct hcq_device *base);
void amd_fault_describe(struct hcq_device *base, char *text, size_t size_bytes);
bell_status amd_fault_stop(struct hcq_device *base);
void amd_fault_resume(struct hcq_device *base);
/* Forgets what was reported before: at opening and recovery. */
void amd_fault_forget(struct amd_device *dev);

/* Puts the kernel that copies and fills on the card, where the generation has
 * one and it is not there (amd_move.c). control->scratch_lock is held. */
BELL_MUST_CHECK bell_status amd_move_load(struct amd_device *dev);

/* Sizes of the area that the kernel saves waves to, of one queue. */
struct amd_save_sizes {
    uint32_t control_stack_bytes, save_bytes, debug_bytes; /* of an XCC */
    uint64_t total_bytes;                                  /* to be allocated */
};
/* vgpr_bytes: vector registers of a compute unit. */
void amd_save_sizes(const struct amd_gen *gen, uint32_t vgpr_bytes,
                    const struct amd_topology *t, uint64_t page_bytes,
                    struct amd_save_sizes *out);

/* What so much scratch for each lane comes to. */
struct amd_scratch_sizes {
    uint32_t lane_bytes, tmpring;
    uint64_t xcc_bytes;
};
void amd_scratch_sizes(const struct amd_gen *gen, const struct amd_topology *t,
                       uint32_t lane_bytes, struct amd_scratch_sizes *out);

/* Gives a compute queue that joins the device scratch, if programs need it.
 * control->scratch_lock is held until the queue is in the device's list, and
 * while one is taken out of it. */
BELL_MUST_CHECK bell_status amd_scratch_join(struct amd_queue *queue);
/* Frees what was used before: at closing. */
void amd_scratch_close(struct amd_device *dev);

/* Destroys the kernel's queue alone: memory stays. If the kernel cannot, the
 * queue is still there. */
BELL_MUST_CHECK bell_status amd_channel_stop(struct amd_channel *channel);
/* Tells AQL queues of the scratch that there is now. */
void amd_channel_set_scratch(struct amd_channel *channel);

/* Large reads of the card's memory by a copy engine (amd_read.c): how many of
 * the first bytes came; the window has to serve for the others. `va` is memory
 * of this card. Any thread. */
uint64_t amd_read_by_engine(struct amd_device *dev, uint64_t va, void *data,
                            uint64_t size_bytes);
/* All reads and writes of memory that the host does not see. A device that is
 * lost has no engine to do them: BELL_E_DEVICE_LOST. Any thread. */
BELL_MUST_CHECK bell_status amd_fetch_by_engine(struct amd_device *dev,
                                                uint64_t va, void *data,
                                                uint64_t size_bytes);
BELL_MUST_CHECK bell_status amd_write_by_engine(struct amd_device *dev,
                                                uint64_t va, const void *data,
                                                uint64_t size_bytes);
/* Gives its queue back, for a new one with the next read: at recovery. */
void amd_read_stop(struct amd_device *dev);
/* At closing, before the device's signals go. */
void amd_read_close(struct amd_device *dev);

/* What such reads go through. */
struct amd_reader {
    pthread_mutex_t lock;       /* of all below */
    struct amd_channel channel; /* zeroed: none yet */
    struct amd_mem staging;
    struct hcq_signal *signal; /* owned */
    uint64_t value;            /* that the last submission writes */
    uint64_t slot;             /* of the ring */
    bool is_off;               /* the window serves, up to recovery */
};

/* The device's own state of the control half. */
struct amd_control {
    struct amd_reader reader;
    uint32_t fault_serial;        /* the last that was taken */
    uint32_t parked_in;           /* a round of process's; process->lock */
    pthread_mutex_t buffer_lock;  /* the list */
    struct amd_buffer *buffers;   /* all that are out */
    pthread_mutex_t scratch_lock; /* sizes of scratch, and whose there is */
    struct amd_old_scratch *old_scratch;
};

#endif
