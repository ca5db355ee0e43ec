/* The driver side of the contract: what a backend implements and what the
 * common layer in hcq/ does for it. Not for the layers above.
 *
 * The common layer checks arguments, keeps lists, the memory cache, command
 * streams, patch points, waits and the lost state. A backend gives memory,
 * signals, programs, queues, and packs commands.
 */
#ifndef BELL_HCQ_HCQ_BACKEND_H
#define BELL_HCQ_HCQ_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/process.h"
#include "hcq/hcq.h"

/* Doubly linked list with a head node; an unlinked node points at itself. */
struct hcq_link {
    struct hcq_link *next, *prev;
};

void hcq_link_init(struct hcq_link *link);
void hcq_link_add(struct hcq_link *head, struct hcq_link *link);
void hcq_link_remove(struct hcq_link *link);

#define HCQ_CONTAINER(ptr, type, member)                                       \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Writes what a caller's structure has room for, by its first member, the
 * struct_size that the caller set, which stays. */
static inline void
hcq_give_info(void *out_info, const void *info, size_t size_bytes)
{
    uint32_t size;

    memcpy(&size, out_info, sizeof(size));
    if (size > sizeof(size))
        memcpy((char *)out_info + sizeof(size),
               (const char *)info + sizeof(size),
               (size < size_bytes ? size : size_bytes) - sizeof(size));
}

/* ---- command streams --------------------------------------------------- */

/* Largest packet of any backend, in 32-bit words. */
#define HCQ_CS_PACKET_DW (2 * HCQ_ARGS_MAX + 32)

/* A sticky, bounded buffer of command words. Owned by its queue (fresh) or
 * stream (bound, grows while it is built). One host thread. */
struct hcq_cs {
    struct hcq_queue *queue;
    struct hcq_stream *stream; /* NULL: fresh */
    uint32_t *words;           /* 8-byte aligned; owned */
    uint32_t n_dw, cap_dw;
    uint32_t last_dw;        /* where the last command starts */
    bool has_last;           /* a command was emitted */
    bool open;               /* takes commands */
    uint64_t expect_ns;      /* its launches may take, by their group_ns */
    bell_status status;      /* first error */
    struct bell_error error; /* its record, when status is not BELL_OK */
    uint64_t sink[HCQ_CS_PACKET_DW / 2]; /* where words go after an error */
};

/* Keeps the calling thread's error record as the stream's first error. */
void hcq_cs_fail(struct hcq_cs *cs, bell_status status);

/* hcq_cs_words without a look at the words. */
void hcq_cs_put_words(struct hcq_cs *cs, const uint32_t *words,
                      uint32_t n_words);

/* A place in a stream that a patch writes. */
struct hcq_place {
    uint32_t patch; /* id */
    uint32_t dw;    /* offset in the stream */
    uint32_t n_dw;  /* 1 or 2, low word first */
    uint32_t align; /* a power of two; the value is a multiple */
    int64_t addend;
    uint64_t min, max; /* allowed values */
    void *card; /* bound: where the card reads these 8 bytes as they are, an
                 * argument of a launch; NULL: packet_repack */
};

/* What packets become for a card, at most: words, units of data behind them,
 * slots of the channel's ring. Units and slots are the driver's. */
struct hcq_extent {
    uint64_t n_dw;
    uint32_t n_units, n_slots;
};

/* ---- objects ------------------------------------------------------------ */

/* Memory as a backend gives it. Owned by the backend until freed. */
struct hcq_backing {
    uint64_t va;
    void *host; /* NULL: the host cannot see it */
    uint64_t size_bytes;
    uint64_t priv; /* the backend's */
};

/* Base of every backend's program; `pub` is first. */
struct hcq_program_base {
    struct hcq_program pub;
    struct hcq_link link;     /* dev->programs */
    uint32_t max_local_total; /* of a group: the device's, or less */
    uint32_t max_steps;       /* of a group; 0: not known */
    uint64_t group_ns;        /* of a group; 0: not known */
    /* What a launch becomes, fresh and in a bound stream: a card's driver
     * says */
    struct hcq_extent extent, bound;
};

struct hcq_signal_node {
    struct hcq_signal pub;
    struct hcq_link link; /* dev->signals */
};

/* What a queue's own words are. */
enum hcq_words {
    HCQ_WORDS_NONE, /* it has none */
    HCQ_WORDS_NV,   /* methods */
    HCQ_WORDS_PM4,  /* packets of AMD's command processors */
    HCQ_WORDS_SDMA, /* of its copy engines */
    HCQ_WORDS_PKT7, /* packets of Adreno's */
};

/* Base of every backend's queue. */
struct hcq_queue {
    /* A cache line of what each submission looks at: */
    struct hcq_device *dev;
    struct hcq_signal *timeline; /* owned */
    struct hcq_ring *ring;       /* a card's (hcq_ring.h); else NULL */
    uint64_t n_submitted;        /* host thread of the queue */
    /* The longest expect_ns of what was submitted since the queue was idle. */
    _Atomic uint64_t expect_ns;

    uint64_t submit_timeout_ns;
    enum hcq_queue_kind kind;
    uint32_t engines; /* as it was asked for; 0: any */
    char name[HCQ_NAME_MAX];
    struct hcq_link link; /* dev->queues */
    struct hcq_link streams;
    struct hcq_cs cs;      /* the fresh stream */
    uint32_t *packets;     /* owned: where fresh streams lie */
    struct hcq_link bound; /* streams that may be submitted; dev->lock */
    bool compares_halves;  /* waits look at each half of a value by itself */
    uint64_t sync_va_end;  /* of waits, signals, timestamps and polls */
    uint64_t copy_va_end;  /* of copies, fills and writes */
    uint8_t words;         /* enum hcq_words: of hcq_cs_words */
    /* A bound stream may set a signal to 0 that it has waited for: nobody looks
     * at it any more, or not behind a write of 64 bits. */
    bool clears_signals, clears_behind_write;
};

struct hcq_patch {
    uint32_t first, n_places; /* in stream->places, once ended */
};

/* Kept apart from what is named, which is gone through at launches. */
struct hcq_name {
    char text[HCQ_NAME_MAX];
};

enum hcq_stream_state {
    HCQ_STREAM_BUILDING,
    HCQ_STREAM_READY,
    HCQ_STREAM_BROKEN
};

/* What a bound stream is for a card: base of its driver's. Owned by the
 * stream. */
struct hcq_bound {
    uint32_t n_too_large;   /* launches that were patched to be */
    struct hcq_spot *spots; /* owned: of packets, or of places, as the driver
                             * has it */
};

/* A bound stream. Owned by its creator; used by the queue's host thread. */
struct hcq_stream {
    struct hcq_queue *queue;
    struct hcq_bound *form; /* from stream_bind; NULL: not ended */
    uint64_t last_value;    /* the queue's timeline at the last submission */
    enum hcq_stream_state state;
    struct hcq_cs cs;
    char name[HCQ_NAME_MAX];
    struct hcq_link link;      /* queue->streams */
    struct hcq_link bound;     /* queue->bound */
    struct hcq_patch *patches; /* owned */
    struct hcq_name *names;    /* owned: theirs */
    size_t n_patches, cap_patches, cap_names;
    struct map patch_of; /* hash of a name -> the first patch that has it */
    struct hcq_place *places; /* owned; sorted by patch once ended */
    size_t n_places, cap_places;
};

/* ---- devices ------------------------------------------------------------ */

struct hcq_packet;
struct kio;
struct kio_told;

/* BELL_DEBUG=push, in builds that have a decoder: a queue's words as lines.
 * `what` is the submission's, or a bound stream's name. */
void hcq_decode_words(const struct hcq_queue *queue, const char *what,
                      const uint32_t *words, size_t n_words);
/* The same of packets in an AQL queue's ring. */
void hcq_decode_aql(const struct hcq_queue *queue, const uint32_t *words,
                    size_t n_words);

/* What was just written for the card, up to `end`. */
static inline void
hcq_log_words(const struct hcq_queue *queue, const char *what,
              const uint32_t *words, const uint32_t *end)
{
#if BELL_HAVE_DECODER
    if (LOG_ON(LOG_PUSH))
        hcq_decode_words(queue, what, words, (size_t)(end - words));
#else
    (void)queue;
    (void)what;
    (void)words;
    (void)end;
#endif
}

/* The device's clock, in ticks, and the host's. */
struct hcq_clock_pair {
    uint64_t ticks, host_ns;
};

/* A file's pages with code, mapped to be read and executed. Plain data. */
struct hcq_code_file {
    const void *map;
    uint64_t offset_bytes; /* of the map in the file */
    int fd;                /* borrowed: open while programs use it */
};

/* Memory of several devices that is one team's: each has `size_bytes` from
 * `offsets` on of a buffer of its own, multiples of HCQ_TEAM_BYTES. What is
 * read by the team's address is a sum over the devices, what is written goes to
 * all of them; only kernels that know of it use such an address. */
#define HCQ_TEAM_BYTES (2u << 20)
#define HCQ_TEAM_MAX   64u
struct hcq_team;
struct hcq_team_desc {
    struct hcq_device *const *devs;
    struct hcq_buffer *const *bufs; /* which outlive it */
    const uint64_t *offsets;
    uint32_t n; /* 2 to HCQ_TEAM_MAX */
    uint64_t size_bytes;
};

/* BELL_E_UNSUPPORTED where the kernel's descriptors are not this process's
 * (kio_gives_descriptors). */
BELL_MUST_CHECK bell_status hcq_check_descriptors(const struct hcq_device *dev,
                                                  const struct kio *kio);
/* The same for a dma-buf that is to be imported; BELL_E_INVALID: the descriptor
 * is of something else. The driver that made it; NULL: whoever. */
BELL_MUST_CHECK bell_status hcq_check_dmabuf(const struct hcq_device *dev,
                                             struct kio *kio, int fd,
                                             char out_exporter[HCQ_NAME_MAX]);

struct hcq_device_ops {
    /* Packets of streams (hcq_packet.h). NULL: nothing is to be done. */
    /* What a packet that was appended, no exec, becomes. May fail the
     * stream. */
    struct hcq_extent (*packet_measure)(struct hcq_cs *cs,
                                        struct hcq_packet *packet);
    /* A field of a packet that is not an exec will be patched: where that may
     * take more words, or other ones, sets HCQ_HEAD_FIXED. May narrow the
     * place's range. */
    void (*packet_fix)(const struct hcq_cs *cs, struct hcq_packet *packet,
                       unsigned field, struct hcq_place *place);
    /* A patch was put into a place of a bound stream (one of stream->places):
     * makes what follows from the packet anew. */
    void (*packet_repack)(struct hcq_stream *stream,
                          const struct hcq_place *place);

    void (*close)(struct hcq_device *dev);
    /* Stops all queues, whatever they do, and drops what is queued. */
    bell_status (*stop)(struct hcq_device *dev);
    /* Starts them again. */
    void (*resume)(struct hcq_device *dev);
    /* What each busy queue does, as one line; for reports. Any thread. */
    void (*describe)(struct hcq_device *dev, char *text, size_t size_bytes);
    /* A number that changes while a command makes progress. Any thread; the
     * device's lock is held. NULL: a command is done or it is not. */
    uint64_t (*progress)(struct hcq_device *dev);
    /* Both clocks at one moment. NULL: a tick is one of the host's ns. */
    bell_status (*compare_clocks)(struct hcq_device *dev,
                                  struct hcq_clock_pair *out_pair);
    /* NULL: nobody tells of the device's frequency. */
    bell_status (*clock_mhz)(struct hcq_device *dev, uint32_t *out_mhz);
    /* Looks whether the hardware reported a fault, and calls
     * hcq_device_set_lost if so. Any thread. NULL: faults come by
     * themselves. */
    void (*check)(struct hcq_device *dev);

    bell_status (*mem_alloc)(struct hcq_device *dev, uint64_t size_bytes,
                             uint32_t flags, struct hcq_backing *out);
    void (*mem_free)(struct hcq_device *dev, const struct hcq_backing *mem);
    bell_status (*mem_pin)(struct hcq_device *dev, void *ptr,
                           uint64_t size_bytes, struct hcq_backing *out);
    void (*mem_unpin)(struct hcq_device *dev, const struct hcq_backing *mem);
    /* Where `dev` sees another device's buffer, and the end of that.
     * BELL_E_UNSUPPORTED where it cannot. NULL: never can. */
    bell_status (*mem_peer)(struct hcq_device *dev, const struct hcq_buffer *of,
                            struct hcq_backing *out);
    void (*mem_unpeer)(struct hcq_device *dev, const struct hcq_backing *mem);
    /* hcq_buffer_export of memory that mem_alloc gave for HCQ_MEM_SHAREABLE,
     * which it refuses where this cannot be. NULL: never can. */
    bell_status (*mem_export)(struct hcq_device *dev,
                              const struct hcq_backing *mem, int *out_fd);
    /* All of a descriptor's memory, `size_bytes`, and the end of that. NULL:
     * never can. */
    bell_status (*mem_import)(struct hcq_device *dev, int fd,
                              uint64_t size_bytes, struct hcq_backing *out);
    void (*mem_unimport)(struct hcq_device *dev, const struct hcq_backing *mem);
    /* How `dev` reaches the memory of another device that has the same
     * operations; what it does not know stays 0. NULL: through host memory. */
    bell_status (*get_link)(struct hcq_device *dev, struct hcq_device *other,
                            struct hcq_device_link *link);
    /* hcq_device_link_bytes, of the same pairs. NULL: nobody counts. */
    bell_status (*link_bytes)(struct hcq_device *dev, struct hcq_device *other,
                              struct hcq_link_bytes *out_bytes);
    /* Whether those devices, all of these operations, may form a team:
     * BELL_E_UNSUPPORTED says why not. NULL: never. */
    bell_status (*team_check)(struct hcq_device *const *devs, uint32_t n);
    /* The team's address for each of the devices. */
    bell_status (*team_create)(const struct hcq_team_desc *desc,
                               uint64_t *out_vas, struct hcq_team **out_team);
    void (*team_destroy)(struct hcq_team *team);
    /* size_bytes is not 0. */
    bell_status (*mem_write)(struct hcq_device *dev, uint64_t va,
                             const void *data, uint64_t size_bytes);
    bell_status (*mem_read)(struct hcq_device *dev, uint64_t va, void *data,
                            uint64_t size_bytes);
    /* kio_tell. Called where is_told; NULL where that never is. */
    bell_status (*tell)(struct hcq_device *dev, const struct kio_told *told);

    bell_status (*signal_alloc)(struct hcq_device *dev, uint64_t *out_va,
                                uint64_t **out_host);
    /* The same in memory of the device's own that the host sees, too: what it
     * waits for comes to it there. The host stores to it when need be, by
     * signal_settle. BELL_E_UNSUPPORTED: there is none. NULL: there never is.
     * Freed by signal_free. */
    bell_status (*signal_alloc_near)(struct hcq_device *dev, uint64_t *out_va,
                                     uint64_t **out_host);
    /* The device sees what the host has stored to such a signal when this
     * returns: a round trip. */
    void (*signal_settle)(struct hcq_device *dev, const struct hcq_signal *sig);
    void (*signal_free)(struct hcq_device *dev, struct hcq_signal *sig);
    /* Wakes host threads and queues that sleep on the signal. NULL: they look
     * for themselves. */
    void (*signal_wake)(struct hcq_signal *sig);
    /* The host waits for the value: does a part of what it waits for. `sleeps`:
     * it goes to sleep next. NULL: there is nothing that the host could do. */
    void (*signal_help)(struct hcq_signal *sig, uint64_t value, bool sleeps);
    /* Sleeps until the value is not `seen`, or max_ns passed, or a wake. */
    void (*signal_sleep)(struct hcq_signal *sig, uint64_t seen,
                         uint64_t max_ns);
    /* The address under which `dev` sees another device's signal. */
    bell_status (*signal_map)(struct hcq_device *dev,
                              const struct hcq_signal *sig, uint64_t *out_va);

    /* Sets code_va, code_size_bytes and what is the backend's own; the rest
     * of the base is filled in already by hcq_program_init. */
    bell_status (*program_create)(struct hcq_device *dev,
                                  const struct hcq_program_desc *desc,
                                  struct hcq_program_base **out_prog);
    /* The same of a binary that lies in a mapped file and stays there; NULL: it
     * is copied. */
    bell_status (*program_use)(struct hcq_device *dev,
                               const struct hcq_program_desc *desc,
                               const struct hcq_code_file *file,
                               struct hcq_program_base **out_prog);
    void (*program_destroy)(struct hcq_program_base *prog);

    /* Allocates the backend's queue; the base is filled by
     * hcq_queue_init, which the backend calls. */
    bell_status (*queue_create)(struct hcq_device *dev,
                                const struct hcq_queue_desc *desc,
                                struct hcq_queue **out_queue);
    /* Drops what is still queued. */
    void (*queue_destroy)(struct hcq_queue *queue);
    /* Puts the fresh stream into the ring, then a signal of the queue's
     * timeline with `value`. */
    bell_status (*queue_submit)(struct hcq_queue *queue, uint64_t value);
    /* Makes an ended stream ready to run: the words do not move again. */
    bell_status (*stream_bind)(struct hcq_stream *stream);
    void (*stream_unbind)(struct hcq_stream *stream);
    bell_status (*stream_submit)(struct hcq_stream *stream, uint64_t value);
};

/* Sizes between powers of two come in eighths. */
#define HCQ_CACHE_CLASSES (64 * 8)

struct hcq_buffer_node;

#define HCQ_PASSED_OVER_BYTES 320

/* Base of every backend's device. */
struct hcq_device {
    const struct hcq_device_ops *ops;
    struct process_mark mark; /* of the process that opened it */
    _Atomic uint64_t epoch;   /* recoveries */
    _Atomic uint32_t lost;    /* the fault is set */
    bool is_told;             /* a recording is made or played: see tell */
    struct hcq_device_info info;
    bool waits_near;    /* signal_alloc_near has memory, for all its queues */
    bool waits_forever; /* no limit holds: somebody steps through the card */
    uint64_t spin_ns;   /* how long an idle thread spins before it sleeps */
    _Atomic uint64_t still_limit_ns; /* hcq_device_set_timeout */
    /* hcq_stillness.seen when a wait last gave up; 0: none did. */
    _Atomic uint64_t still_reported;
    uint32_t timestamp_word; /* of a signal's memory, in 64-bit words: 1, or
                              * where the backend's
                              * timestamps go */
    _Atomic uint64_t last_wait_ns; /* how long the host's last wait took */
    _Atomic uint64_t wait_calm_ns; /* its hcq_spinner's calm_ns at its end */

    pthread_mutex_t clock_lock;
    struct hcq_clock_pair first_clock, last_clock; /* comparisons */

    /* hcq_device_passed_over */
    char passed_over[HCQ_PASSED_OVER_BYTES];

    pthread_mutex_t lock; /* the lists, the fault and the memory fields */
    struct hcq_link buffers, signals, programs, queues;
    struct hcq_link transfers; /* to and from it, not released; see there */
    uint32_t n_queues_made[HCQ_QUEUE_KIND_COUNT]; /* for names */
    struct hcq_fault fault;

    uint64_t live_bytes, cached_bytes, cache_limit_bytes;
    uint64_t peak_bytes; /* of live_bytes */
    struct hcq_buffer_node *cache[HCQ_CACHE_CLASSES];
};

/* A backend: static table rows. */
struct hcq_backend {
    const char *name;
    const char *interfaces; /* for messages: "sim, record", or "" */
    /* A device may be named by a part of its description instead of its
     * index. */
    bool has_names;
    /* True: it is not to be the default device; called when those before it are
     * not. NULL: it may be. */
    bool (*stands_back)(void);
    /* Device `idx` of this backend. BELL_E_NO_DEVICE: there are no more; it
     * need not be recorded. BELL_E_NO_MEMORY: nobody knows. */
    bell_status (*enumerate)(unsigned idx, struct hcq_device_desc *out);
    /* Opens device `idx`; `interface` is "" or what followed the '@'. */
    bell_status (*open)(unsigned idx, const char *interface,
                        struct hcq_device **out_dev);
};

extern const struct hcq_backend hcq_cpu_backend;
extern const struct hcq_backend hcq_nv_backend;
extern const struct hcq_backend hcq_amd_backend;
extern const struct hcq_backend hcq_qcom_backend;
extern const struct hcq_backend hcq_cl_backend;

/* How cards of one maker are opened. */
struct hcq_card_driver {
    const char *backend;
    /* A device's memory, with its operations and locks; NULL: there is none. */
    struct hcq_device *(*alloc)(void);
    /* Card `idx`: its name is in dev->info. hcq_device_init comes last. */
    bell_status (*open)(struct hcq_device *dev, unsigned idx,
                        const char *interface);
    /* Gives back what of it is there, in reverse order, and the memory. */
    void (*release)(struct hcq_device *dev);
};

/* hcq_backend.open of such cards: all of it or nothing, and errors say which
 * card's they are. */
BELL_MUST_CHECK bell_status hcq_card_open(const struct hcq_card_driver *driver,
                                          unsigned idx, const char *interface,
                                          struct hcq_device **out_dev);

/* Fills the base in: lists, locks, the clocks' first comparison.
 * `dev->ops`, `dev->info` and `dev->spin_ns` are set, and clocks can be
 * read. */
BELL_MUST_CHECK bell_status hcq_device_init(struct hcq_device *dev);
/* Destroys what is left and the base's own; called by ops->close before the
 * backend goes. */
void hcq_device_fini(struct hcq_device *dev);
/* The queue behind `queue` in the device's list, the first for NULL; NULL:
 * there are no more. */
static inline struct hcq_queue *
hcq_next_queue(struct hcq_device *dev, const struct hcq_queue *queue)
{
    struct hcq_link *link = queue ? queue->link.next : dev->queues.next;

    return link == &dev->queues ? NULL
                                : HCQ_CONTAINER(link, struct hcq_queue, link);
}

/* printf onto the end of the fault's text; what does not fit is left out. */
__attribute__((format(printf, 2, 3))) void
hcq_fault_add(struct hcq_fault *fault, const char *format, ...);
/* Marks the device lost; the first fault wins. Wakes all waiters. */
void hcq_device_set_lost(struct hcq_device *dev, const struct hcq_fault *fault);
/* The same for a kernel interface that cannot go on (kio_broken). */
void hcq_device_set_cut_off(struct hcq_device *dev, const char *why);
/* For hcq_device_ops.link_bytes: what the kernel at the bottom has counted of
 * the cards at these places of PCI. kio NULL: they have different kernels. */
BELL_MUST_CHECK bell_status hcq_read_link_bytes(
    const struct hcq_device *dev, const struct hcq_device *other,
    struct kio *kio, uint32_t place, uint32_t other_place,
    struct hcq_link_bytes *out_bytes);
/* Wakes everyone who sleeps on a signal of the device. */
void hcq_device_wake_all(struct hcq_device *dev);

static inline bool
hcq_device_is_lost(struct hcq_device *dev)
{
    return atomic_load_explicit(&dev->lost, memory_order_acquire) != 0;
}

/* hcq_device_is_inherited for the launch path. The device's memory is a copy
 * then, its locks may be held by threads that are not there: nothing of it is
 * used. */
static inline bool
hcq_is_inherited(const struct hcq_device *dev)
{
    return !process_mark_is_ours(&dev->mark);
}

/* BELL_E_INVALID if so. */
BELL_MUST_CHECK bell_status hcq_check_process(const struct hcq_device *dev);

/* One step of a spin that has lasted spun_ns: some dozens of cycles at first,
 * for what is handed over then comes within hundreds; later the core is offered
 * to whoever else is ready to run. That may be the very thread that is waited
 * for, where threads outnumber cores. */
void hcq_spin(uint64_t spun_ns);

/* Spinning of a thread that also finds out whether others want its CPU, the one
 * it waits for among them: sched_yield then takes as long as they run, and is
 * called at once the next time. Else it is called now and then only, for
 * meanwhile nothing is seen. Zeros at first; kept from wait to wait. */
struct hcq_spinner {
    uint64_t calm_ns;  /* from one sched_yield to the next */
    uint64_t yield_ns; /* when the next is due */
};

static inline void
hcq_spinner_begin(struct hcq_spinner *spinner, uint64_t now_ns)
{
    spinner->yield_ns = now_ns + spinner->calm_ns;
}
/* The awaited value was not there at now_ns. */
void hcq_spinner_turn(struct hcq_spinner *spinner, uint64_t now_ns);

/* What a queue's ring takes: as asked for, or 1 MiB. BELL_E_INVALID unless that
 * is a power of two of at least 4 KiB and at most max_bytes. */
BELL_MUST_CHECK bell_status hcq_queue_ring_bytes(
    const struct hcq_device *dev, const struct hcq_queue_desc *desc,
    uint32_t max_bytes, uint32_t *out_bytes);

/* hcq_device_ops.signal_sleep where nobody wakes a thread: naps that grow, and
 * a look for faults now and then. */
void hcq_signal_nap(struct hcq_signal *sig, uint64_t seen, uint64_t max_ns);

/* Fills the base of a queue in; of a card's, `ring` is made already. A fresh
 * stream takes cs_size_bytes of packets. */
BELL_MUST_CHECK bell_status hcq_queue_init(struct hcq_queue *queue,
                                           struct hcq_device *dev,
                                           const struct hcq_queue_desc *desc,
                                           uint32_t cs_size_bytes);
void hcq_queue_fini(struct hcq_queue *queue);

/* As hcq_program_create; desc->binary lies in the file, which stays mapped as
 * long as the program lives. NULL: it does not. */
BELL_MUST_CHECK bell_status hcq_program_create_in(
    struct hcq_device *dev, const struct hcq_program_desc *desc,
    const struct hcq_code_file *file, struct hcq_program **out_prog);

/* Copies the descriptor's plain fields. */
void hcq_program_init(struct hcq_program_base *prog, struct hcq_device *dev,
                      const struct hcq_program_desc *desc);

/* Gives every cached buffer's memory back; the lock is not held. */
void hcq_memory_fini(struct hcq_device *dev);

/* A live buffer and where its memory is: two bytes with one home are one,
 * whatever addresses they have. */
struct hcq_home {
    uint64_t va, size_bytes;
    const struct hcq_device *dev; /* NULL: host memory */
    uint64_t at;                  /* there */
    struct hcq_device *owner;     /* of the buffer that it is a peer of, or of
                                     * itself */
};
/* A live buffer's. No lock. */
void hcq_buffer_home(const struct hcq_buffer *buf, struct hcq_home *out_home);
/* Where `other` sees memory of a live buffer of dev's, by a buffer of its own:
 * memory of a peer, or pages that both have pinned. False: by none. Each call
 * looks at all buffers of both. */
bool hcq_memory_seen_by(struct hcq_device *dev, uint64_t va,
                        uint64_t size_bytes, struct hcq_device *other,
                        uint64_t *out_va);
/* The buffer is somebody's for a while: hcq_memory_seen_by does not find it. */
void hcq_buffer_hide(struct hcq_buffer *buf);
/* Fills in those of the device's buffers, `cap` at most; returns how many there
 * are. */
size_t hcq_memory_homes(struct hcq_device *dev, struct hcq_home *homes,
                        size_t cap);

/* hcq_stream_patch of a stream that is built, of this process and not in
 * flight: nothing of this is looked at. */
BELL_MUST_CHECK bell_status hcq_stream_put(struct hcq_stream *stream,
                                           uint32_t id, uint64_t value);

/* hcq_stream_submit of streams that wait for each other: the caller has looked
 * whether the device is this process's and not lost, and BELL_DEBUG=sync waits
 * when all of them are submitted. */
BELL_MUST_CHECK bell_status hcq_stream_submit_part(struct hcq_stream *stream,
                                                   uint64_t *out_value);

/* hcq_signal_create of ops->signal_alloc_near. */
BELL_MUST_CHECK bell_status hcq_signal_create_near(struct hcq_device *dev,
                                                   struct hcq_signal **out_sig);

/* Raises BELL_E_TIMEOUT with what is wanted, seen and going on. */
bell_status hcq_timeout_report(struct hcq_device *dev, const char *what);

/* How long devices have stood still, for waits of HCQ_WAIT_WHILE_MOVING. All
 * zeros before the first look. */
struct hcq_stillness {
    uint64_t seen;      /* their progress at the last look */
    uint64_t since_ns;  /* when it last changed; 0: no look yet */
    uint64_t looked_ns; /* of the wait, at the last look */
};

/* Whether a wait of `timeout_ns` that has lasted for waited_ns is over;
 * *out_left_ns (may be NULL): how long it may last at most from here on. Under
 * HCQ_WAIT_WHILE_MOVING the device is looked at now and then, under its lock.
 * The wait is over when the device has stood still for longer than its limit
 * and what its launches may take, or at the first look if it was still when a
 * wait gave up and has not moved since. `salt`: what is waited for. */
bool hcq_wait_is_over(struct hcq_device *dev, uint64_t salt,
                      uint64_t timeout_ns, uint64_t waited_ns,
                      struct hcq_stillness *still, uint64_t *out_left_ns);
/* A look at several devices: how far they are together. Zeros at first. */
struct hcq_look {
    uint64_t progress, limit_ns;
};
void hcq_look_add(struct hcq_look *look, struct hcq_device *dev);
/* Whether they have all stood still for longer than their limit. */
bool hcq_look_is_still(const struct hcq_look *look,
                       struct hcq_stillness *still);
/* Whether the devices of several queues have all stood still for that long. */
bool hcq_all_stand_still(struct hcq_queue *const *queues, uint32_t n_queues,
                         struct hcq_stillness *still);
/* Says so, for the report: "nothing moved for 30.0 s (...)". */
void hcq_stillness_text(struct hcq_device *dev,
                        const struct hcq_stillness *still, char *text,
                        size_t size_bytes);

/* Ends a wait: BELL_E_DEVICE_LOST with the fault. */
bell_status hcq_lost_report(struct hcq_device *dev);

#endif
