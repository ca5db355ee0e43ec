/* The Adreno driver's own structures: what its files share.
 *
 * Two halves meet here. The control half (qcom_kgsl.c, qcom_msm.c behind one
 * table of operations, qcom_memory.c, qcom_device.c, qcom_fault.c) talks to the
 * kernel driver: memory, contexts, submissions. The command half (qcom_chip.c,
 * qcom_cp.c, qcom_move.c, qcom_program.c, qcom_queue.c, qcom_feed.c,
 * qcom_stream.c) fills indirect buffers; the kernel's ring runs them, one after
 * the other, whichever queue they come from.
 *
 * src: docs/hardware/adreno.md and the pages that it names. No GPU has run
 * any of this.
 */
#ifndef BELL_HCQ_QCOM_QCOM_H
#define BELL_HCQ_QCOM_QCOM_H

#include <stdbool.h>
#include <stdint.h>

#include "hcq/hcq_ring.h"
#include "hcq/hcq_signal_pages.h"
#include "ioctl/kio.h"

struct qcom_device;

/* ---- chips (qcom_chip.c) ---- */

#define QCOM_END_INSTRS 3u

/* What differs between generations. Constant. */
struct qcom_gen {
    uint8_t cp;             /* enum qcom_cp_gen */
    bool has_threads;       /* of the command processor: the first is chosen */
    bool has_demotion_regs; /* of the 6xx: more static registers */
    bool preloads;          /* instructions before a launch */
    bool has_tiles;         /* registers of the 7xx for ids, order and size */
    bool writes_64;         /* events store 64 bits */
    uint32_t invalidate_event, clean_event;
    uint32_t invalidate_all; /* value of: */
    uint32_t invalidate_reg, constlen_reg, range_reg, groups_reg;
    uint32_t max_const_vec4;
    bool args_in_memory; /* behind a descriptor: no constants with launches */
    uint32_t code_gen;   /* of objects: enum ir3_gen */
    uint64_t end[QCOM_END_INSTRS]; /* what ends code that has branches */
    uint32_t n_end;
};

struct chip_arch; /* base/chip.h */

const struct qcom_gen *qcom_gen_of(const struct chip_arch *chip);

/* ---- memory (qcom_memory.c) ---- */

enum qcom_mem_kind {
    QCOM_MEM_DEVICE, /* the CPU's copy of it may be stale: see qcom_memory.c */
    QCOM_MEM_SHARED, /* coherent, or written through: always up to date */
    QCOM_MEM_KIND_COUNT
};

/* Plain data; owned by who allocated it. */
struct qcom_mem {
    uint64_t va, size_bytes; /* whole pages */
    void *cpu;
    uint32_t handle; /* the kernel's */
    bool is_stale;   /* needs maintenance between CPU and chip */
    bool is_pinned;  /* the caller's pages */
};

BELL_MUST_CHECK bell_status qcom_mem_alloc(struct qcom_device *dev,
                                           uint64_t size_bytes,
                                           enum qcom_mem_kind kind,
                                           struct qcom_mem *out_mem);
/* Nothing uses it any more. A zeroed struct is allowed; it is zeroed. */
void qcom_mem_free(struct qcom_device *dev, struct qcom_mem *mem);

/* ---- programs (qcom_program.c, qcom_cp.c) ---- */

/* Words of a launch, and where in them lies what differs from one to the next;
 * 0: it is not there. Arguments that shaders read from memory lie among them as
 * well, at the first place from args_at on that has the alignment. Constant
 * once made. */
struct qcom_launch {
    uint32_t n_dw;
    uint32_t range_at, exec_at, args_at; /* of data */
    uint32_t tile_at, last_at;           /* 7xx */
    uint32_t ubo_at; /* packet that loads their descriptor */
    uint32_t *words; /* owned */
};

struct qcom_program {
    struct hcq_program_base base; /* first */
    struct qcom_mem code, scratch;
    uint32_t n_instrs, n_full_vec4, n_const_vec4, branch_depth;
    uint32_t shared_bytes;
    uint32_t fiber_bytes; /* private memory of a thread; 0: none */
    uint32_t sp_bytes;    /* of a shader processor */
    bool is_wide;         /* waves of 128 threads, not 64 */
    struct qcom_launch launch;
};

/* ---- words (qcom_cp.c, qcom_move.c) ---- */

#define QCOM_BEGIN_DW 48u

/* What a queue's words are made for. Plain data. */
struct qcom_engine {
    const struct chip_arch *chip;
    uint64_t idle_va;                 /* a word that events may write to */
    const struct qcom_program *moves; /* QCOM_MOVE_COUNT */
    uint32_t n_begin, begin[QCOM_BEGIN_DW]; /* words before a submission's */
};

/* Where words go: to `at`, in `mem`. */
struct qcom_push {
    const struct qcom_engine *engine;
    const struct qcom_mem *mem;
    uint32_t *at;
};

/* `idle_va` and `moves` are set later. */
void qcom_engine_init(struct qcom_engine *engine, const struct chip_arch *chip);
/* Makes prog->launch for n_args words of arguments, and the base's extents. */
BELL_MUST_CHECK bell_status qcom_launch_make(const struct chip_arch *chip,
                                             struct qcom_program *prog,
                                             uint32_t n_args);
/* Arguments of a launch whose words are these, of memory of the chip. */
uint32_t *qcom_launch_args(const struct qcom_launch *launch, uint32_t *words);
/* How many threads of such a program a work-group can have; in waves of 128,
 * or 64. */
uint32_t qcom_launch_threads(const struct chip_arch *chip, uint32_t n_full_vec4,
                             bool is_wide);
/* Most words of a packet; an exec's are in its program. */
uint64_t qcom_packet_dw(const struct qcom_engine *engine,
                        const struct hcq_packet *packet);
void qcom_put_begin(struct qcom_push *push);
void qcom_put_exec(struct qcom_push *push, const struct hcq_exec *exec);
void qcom_put_signal(struct qcom_push *push, uint64_t va, uint64_t value);
/* Into the word at va, of 8 bytes. */
void qcom_put_timestamp(struct qcom_push *push, uint64_t va);
void qcom_put_nothing(struct qcom_push *push, uint32_t n_dw);
void qcom_put_packet(struct qcom_push *push, const struct hcq_packet *packet);
#define QCOM_SIGNAL_DW 16u
#define QCOM_FLUSH_DW  6u
/* Memory has what was stored before; 1 is stored to idle_va. */
void qcom_put_flush(struct qcom_push *push);
/* Waits in the chip: a wait or poll without a gate. */
void qcom_put_wait(struct qcom_push *push, const struct hcq_packet *packet);

/* ---- the kernel driver (qcom_kgsl.c, qcom_msm.c) ---- */

/* A context of KGSL, a submit queue of msm. Plain data. */
struct qcom_context {
    bool is_made;
    uint32_t id;
    uint64_t n_faults; /* msm: seen so far */
};

/* An indirect buffer: part of memory. */
struct qcom_ib {
    const struct qcom_mem *mem;
    uint64_t offset_bytes;
    uint32_t n_dw;
};

/* What the kernel says of a fault. */
struct qcom_fault_record {
    bool has_address;
    uint64_t va;
    char text[96]; /* why, in the kernel's words */
};

/* One of the two kernel interfaces. Any thread, but for contexts, each of which
 * is used by one at a time. Failures are of kio, with errno. */
struct qcom_kernel {
    const char *name; /* "KGSL" */
    /* Opens the interface's node number `idx` and reads what chip it is:
     * BELL_E_NO_DEVICE where it is another driver's, or there is none. */
    bell_status (*open)(struct kio *kio, unsigned idx, struct kio_file *out);
    bell_status (*identify)(const struct kio_file *file, uint32_t *out_chip_id);
    /* Sets dev->is_coherent and what else it must know. */
    bell_status (*begin)(struct qcom_device *dev);
    void (*end)(struct qcom_device *dev);

    bell_status (*mem_alloc)(struct qcom_device *dev, enum qcom_mem_kind kind,
                             struct qcom_mem *mem); /* size_bytes is set */
    bell_status (*mem_pin)(struct qcom_device *dev, void *ptr,
                           struct qcom_mem *mem); /* whole pages */
    void (*mem_free)(struct qcom_device *dev, struct qcom_mem *mem);
    /* Makes the CPU's caches follow; of stale memory only. */
    bell_status (*mem_sync)(struct qcom_device *dev, const struct qcom_mem *mem,
                            uint64_t offset, uint64_t size_bytes, bool to_chip);

    bell_status (*context_make)(struct qcom_device *dev,
                                struct qcom_context *context);
    void (*context_drop)(struct qcom_device *dev, struct qcom_context *context);
    bell_status (*submit)(struct qcom_device *dev, struct qcom_context *context,
                          const struct qcom_ib *ibs, uint32_t n,
                          uint32_t *out_stamp);
    bell_status (*wait)(struct qcom_device *dev, struct qcom_context *context,
                        uint32_t stamp, uint32_t timeout_ms);
    /* Whether the context has had a fault since it was asked last. */
    bool (*faulted)(struct qcom_device *dev, struct qcom_context *context,
                    struct qcom_fault_record *record);
    bell_status (*clock)(struct qcom_device *dev, uint64_t *out_ticks);
};

extern const struct qcom_kernel qcom_kgsl, qcom_msm;

/* Indirect buffers of one submission to the kernel. */
#define QCOM_SUBMIT_IBS 32u

/* ---- the device (qcom_device.c) ---- */

/* Where memory lies; in order of addresses. */
struct qcom_map {
    const struct qcom_mem *mem;
    uint64_t va;
};

/* What msm must be told with each submission (qcom_msm.c). */
struct qcom_bo_list;

struct qcom_device {
    struct hcq_device base; /* first */
    struct kio *kio;        /* owned */
    struct kio_file file;
    const struct qcom_kernel *kernel;
    const struct chip_arch *chip;
    bool is_begun;    /* by the kernel's `begin` */
    bool is_coherent; /* the CPU's caches and the chip's know each other */
    pthread_mutex_t map_lock;
    struct qcom_map *maps; /* owned; map_lock */
    size_t n_maps, cap_maps;
    struct qcom_bo_list *bos;         /* owned; msm */
    struct hcq_signal_pages *signals; /* owned */
    struct qcom_mem spare_code; /* of the last program that went; map_lock */
    struct qcom_mem move_code;
    struct qcom_program moves[4];      /* QCOM_MOVE_COUNT */
    struct qcom_context clock_context; /* KGSL: made with the first look */
    struct qcom_mem clock_mem;
};

/* Addresses have 48 bits. Behind them are those of the CPU, of signals of other
 * openings, which are waited for by the CPU alone. */
#define QCOM_VA_END    (1ull << 48)
#define QCOM_VA_HOST   (1ull << 62)
#define QCOM_VA_SYNCED (1ull << 63)

static inline struct qcom_device *
qcom_device_of(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct qcom_device, base);
}

/* Looks whether a busy queue's context has had a fault, and loses the device
 * then. Any thread. (qcom_fault.c) */
void qcom_fault_check(struct hcq_device *base);
bell_status qcom_fault_stop(struct hcq_device *base);
void qcom_fault_resume(struct hcq_device *base);

/* The memory at va, which is mapped for the CPU: *out_cpu is where. False: it
 * is not ours. (qcom_memory.c) */
bool qcom_mem_find(struct qcom_device *dev, uint64_t va, uint64_t size_bytes,
                   struct qcom_mem *out_mem, uint8_t **out_cpu);

/* hcq_device_ops of memory. */
bell_status qcom_buffer_alloc(struct hcq_device *base, uint64_t size_bytes,
                              uint32_t flags, struct hcq_backing *out);
void qcom_buffer_free(struct hcq_device *base,
                      const struct hcq_backing *backing);
bell_status qcom_buffer_pin(struct hcq_device *base, void *ptr,
                            uint64_t size_bytes, struct hcq_backing *out);
bell_status qcom_buffer_write(struct hcq_device *base, uint64_t va,
                              const void *data, uint64_t size_bytes);
bell_status qcom_buffer_read(struct hcq_device *base, uint64_t va, void *data,
                             uint64_t size_bytes);
BELL_MUST_CHECK bell_status qcom_signals_open(struct qcom_device *dev);
bell_status qcom_signal_alloc(struct hcq_device *base, uint64_t *out_va,
                              uint64_t **out_host);
void qcom_signal_free(struct hcq_device *base, struct hcq_signal *sig);
bell_status qcom_signal_map(struct hcq_device *base,
                            const struct hcq_signal *sig, uint64_t *out_va);

/* ---- queues (qcom_feed.c, qcom_queue.c, qcom_stream.c) ---- */

/* What must be so before an indirect buffer goes to the kernel, whose ring
 * would stand still otherwise, for all queues, and be reset. */
struct qcom_gate {
    const volatile void *at; /* NULL: nothing */
    uint64_t value;          /* of 64 bits that are to be no less, or: */
    uint32_t mask;           /* not 0: bits of 32 that are to be equal */
    bool is_stale;           /* it must be made anew for the CPU first: */
    uint32_t handle;
    uint64_t offset_bytes;
};

struct qcom_piece {
    struct qcom_gate gate;
    struct qcom_ib ib;
};

/* Pieces on their way to the kernel, in order. A thread of the feed's own looks
 * at the gates that the queue's thread found closed. Pieces are the slots of
 * the queue's ring: there is room for those under way.
 *
 * The queue's thread does not wait for the feed's: where that has the lock, it
 * leaves the pieces to it. The feed's thread sleeps only where it has said so
 * and then found nothing. */
#define QCOM_FEED_PIECES 16384u
struct qcom_feed {
    struct qcom_device *dev;
    struct qcom_context context;
    struct qcom_piece *pieces; /* owned; a ring */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t more;
    uint64_t get;   /* those from here to put are waiting */
    uint32_t stamp; /* of the last submission */
    bool quits;
    _Atomic uint64_t put;  /* the queue's thread's, with or without the lock */
    _Atomic bool is_awake; /* the feed's thread, or it is not there yet */
};

BELL_MUST_CHECK bell_status qcom_feed_init(struct qcom_feed *feed,
                                           struct qcom_device *dev);
/* Waiting commands are dropped. A zeroed struct is allowed. */
void qcom_feed_fini(struct qcom_feed *feed);
/* The i-th piece that is to come; there is room. The queue's thread. */
static inline struct qcom_piece *
qcom_feed_piece(struct qcom_feed *feed, uint64_t i)
{
    return &feed->pieces[(feed->put + i) % QCOM_FEED_PIECES];
}
/* Hands n pieces over. On failure the kernel got none of them. */
BELL_MUST_CHECK bell_status qcom_feed_push(struct qcom_feed *feed, uint64_t n);
/* Drops what waits and what the context does, and makes it anew. */
BELL_MUST_CHECK bell_status qcom_feed_restart(struct qcom_feed *feed);
/* The same for good: nothing more goes to the kernel. */
void qcom_feed_stop(struct qcom_feed *feed);

struct qcom_queue {
    struct hcq_queue base; /* first */
    struct qcom_engine engine;
    struct qcom_mem push;
    struct hcq_ring ring;
    struct qcom_feed feed;
};

static inline struct qcom_queue *
qcom_queue_of(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct qcom_queue, base);
}

/* The gate of a wait or poll; `at` is NULL where the card has to look
 * itself. */
struct qcom_gate qcom_gate_of(struct qcom_device *dev,
                              const struct hcq_packet *packet);

/* Words that pieces are made of. */
struct qcom_build {
    struct qcom_push push;
    struct qcom_device *dev;
    uint32_t *start;       /* of the open piece */
    struct qcom_gate gate; /* its */
    /* Where pieces go: an array, or a queue's feed. */
    struct qcom_piece *pieces;
    struct qcom_feed *feed;
    uint32_t n_pieces;
};

/* Opens the first piece. */
void qcom_build_begin(struct qcom_build *build);
/* Adds a packet; a wait opens a piece, and so does what an indirect buffer
 * would not hold. */
void qcom_build_packet(struct qcom_build *build,
                       const struct hcq_packet *packet);
/* Ends the last piece. */
void qcom_build_end(struct qcom_build *build);

/* hcq_device_ops of queues. */
bell_status qcom_program_create(struct hcq_device *base,
                                const struct hcq_program_desc *desc,
                                struct hcq_program_base **out_prog);
void qcom_program_destroy(struct hcq_program_base *base);
/* The driver's own, which copy and fill. */
BELL_MUST_CHECK bell_status qcom_moves_load(struct qcom_device *dev);
void qcom_moves_free(struct qcom_device *dev);
bell_status qcom_queue_create(struct hcq_device *base,
                              const struct hcq_queue_desc *desc,
                              struct hcq_queue **out_queue);
void qcom_queue_destroy(struct hcq_queue *base);
struct hcq_extent qcom_packet_measure(struct hcq_cs *cs,
                                      struct hcq_packet *packet);
void qcom_packet_fix(const struct hcq_cs *cs, struct hcq_packet *packet,
                     unsigned field, struct hcq_place *place);
bell_status qcom_queue_submit(struct hcq_queue *base, uint64_t value);
bell_status qcom_stream_bind(struct hcq_stream *stream);
void qcom_stream_unbind(struct hcq_stream *stream);
void qcom_stream_repack(struct hcq_stream *stream,
                        const struct hcq_place *place);
bell_status qcom_stream_submit(struct hcq_stream *stream, uint64_t value);

/* Tells who records of what goes to the kernel (qcom_watch.c). */
void qcom_watch_submit(struct qcom_device *dev, const struct qcom_ib *ibs,
                       uint32_t n);
/* The same of what the chip wrote, once it is done, or after a while. */
void qcom_watch_settle(struct qcom_device *dev, struct qcom_context *context,
                       uint32_t stamp);

#endif
