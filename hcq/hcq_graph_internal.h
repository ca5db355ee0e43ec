/* Shared by hcq_graph*.c: what a graph is. */
#ifndef BELL_HCQ_HCQ_GRAPH_INTERNAL_H
#define BELL_HCQ_HCQ_GRAPH_INTERNAL_H

#include "hcq/hcq_backend.h"
#include "hcq/hcq_graph.h"
#include "hcq/hcq_shared.h"

#define GRAPH_COPIES 2 /* that may be in flight */

enum graph_kind {
    GRAPH_EXEC,
    GRAPH_COPY,
    GRAPH_FILL,
    GRAPH_AWAIT, /* the host: a signal's value */
    GRAPH_TELL
};

struct graph_patch {
    uint32_t command, field, slot;
    int64_t addend;
};

/* Moments of a queue are numbered: its begin, then its commands' ends. */
#define GRAPH_BEGIN 1u

struct graph_command {
    enum graph_kind kind;
    struct hcq_device *dev;
    const struct hcq_program *prog;
    uint32_t grid[3], local[3];
    bool has_local;
    /* For a copy: dst, src; a fill: dst; a step of the host's: value,
     * memory. */
    uint32_t first_arg, n_args;
    const struct hcq_signal *sig; /* of a step of the host's */
    uint32_t on_queue;            /* and where */
    uint64_t size_bytes;
    uint32_t pattern;
    uint32_t first_patch, n_patches;
    /* from hcq_graph_order: */
    uint32_t queue;
    uint64_t waiters; /* the other queues that wait for its end: bits */
    uint32_t first_wait, n_waits; /* in graph->waits */
};

/* Until that moment of another queue. */
struct graph_wait {
    uint32_t queue, moment;
};

/* Lists of slots that were set: what each copy has not got yet, and what was
 * not looked at. */
enum graph_list {
    GRAPH_COPY_0,
    GRAPH_COPY_1,
    GRAPH_UNSEEN,
    GRAPH_LIST_COUNT
};

struct graph_slot {
    uint64_t size_bytes, value;
    uint64_t max;                 /* of the value */
    uint64_t low_bits;            /* that are 0 in the value */
    const struct hcq_device *dev; /* that uses it; NULL: not used, a word */
    bool is_set;
    bool is_written;
    uint8_t lists;  /* bits: on which it stands */
    bool has_home;  /* of hcq_graph_slot_on, or a view of one */
    uint32_t first; /* the slot that it is a view of, or itself */
    /* With a home: */
    uint32_t next_view;                /* or HCQ_SLOT_NONE */
    bool is_home_written;              /* of the first: by it or a view */
    const struct hcq_device *home_dev; /* of the value; NULL: host memory */
    uint64_t home_at;
};

/* Fixed memory that is used, sorted, none overlapping another. */
struct graph_range {
    const struct hcq_device *dev;
    uint64_t begin, end;
};

struct graph_ranges {
    struct graph_range *list; /* owned */
    size_t n;
};

/* Slots of memory; at first those that are written. */
struct graph_sorted {
    uint32_t *ids; /* owned */
    uint32_t n, n_written;
};

/* Fields of a queue that a submission looks at, together: there are many, and
 * each object that is looked at is a line that the caches may have lost. */
struct graph_part {
    struct hcq_stream *stream; /* NULL: the queue has nothing to do */
    struct hcq_device *dev;
    const uint64_t *timeline; /* the queue's; the host's address */
    uint64_t value;           /* it has when the last submission is done */
    uint64_t *signal;         /* the host's address; NULL: nobody waits by it */
};

/* The streams of a submission. */
struct graph_copy {
    struct graph_part parts[HCQ_GRAPH_QUEUES_MAX];
    struct hcq_stream *streams[HCQ_GRAPH_QUEUES_MAX]; /* owned; or NULL */
    /* Owned, or among graph->aliases; or NULL. */
    struct hcq_signal *signals[HCQ_GRAPH_QUEUES_MAX];
    /* Owned: [queue * n_queues + waiter], in the waiter's memory; NULL in the
     * place of those that do not wait, or do so for `signals`. Or NULL. */
    struct hcq_signal **near;
    bool is_near_dirty;  /* a value there may be any */
    uint64_t near_epoch; /* sum of the devices' epochs when it was not */
    uint32_t *patches[HCQ_GRAPH_QUEUES_MAX]; /* owned; by slot; or NULL */
};

/* Host memory that copies between two devices go through, chunk after chunk. */
struct graph_stage {
    struct graph_stage *next;
    struct hcq_device *devs[2]; /* that sees shared->bufs[0], [1] */
    struct hcq_shared *shared;  /* owned */
    uint64_t chunk_bytes;
    uint32_t n_used; /* chunks so far */
};

enum graph_state {
    GRAPH_BUILDING,
    GRAPH_READY,
    GRAPH_BROKEN
};

struct hcq_graph {
    char name[HCQ_NAME_MAX];
    uint32_t flags;
    enum graph_state state;
    bell_status status;      /* the first error of building */
    struct bell_error error; /* its record */
    struct hcq_queue *queues[HCQ_GRAPH_QUEUES_MAX];
    uint32_t n_queues, n_used;
    struct hcq_device *devs[HCQ_GRAPH_QUEUES_MAX]; /* of the queues */
    uint32_t n_devs;
    uint8_t dev_of[HCQ_GRAPH_QUEUES_MAX]; /* by queue */
    bool is_used[HCQ_GRAPH_QUEUES_MAX];   /* the first always */

    struct graph_slot *slots; /* owned, as all these */
    struct hcq_name *names;   /* theirs */
    size_t n_slots, cap_slots, cap_names;
    struct map slot_of; /* hash of a name -> the first slot that has it */
    struct graph_command *commands;
    size_t n_commands, cap_commands;
    struct hcq_graph_arg *args;
    size_t n_args, cap_args;
    struct graph_patch *patches;
    size_t n_patches, cap_patches;
    struct graph_wait *waits; /* of commands, then of the end */
    size_t n_waits, cap_waits;
    uint32_t n_last_waits; /* the last of them: the first queue's, at the end */
    uint64_t begin_waiters; /* for the first queue's begin: bits */
    /* Fixed: by address of the device that uses it, and by home, where that is
     * known, there are several devices and slots with a home. */
    struct graph_ranges written, read, home_written, home_read;

    uint32_t n_unset; /* slots without a value */
    uint32_t *lists[GRAPH_LIST_COUNT];
    uint32_t n_listed[GRAPH_LIST_COUNT];
    struct graph_sorted by_address;
    struct graph_sorted by_home; /* without views */
    /* Where not all devices reach each other's signals: signals in host memory,
     * for each copy, device and queue as that device sees it. */
    struct hcq_shared *signal_memory; /* owned; or NULL */
    struct hcq_signal *aliases;       /* owned; or NULL */
    struct graph_stage *stages;       /* owned: a list */
    /* A submission does not end: devices may use its memory for ever. */
    bool is_stuck;
    struct graph_copy copies[GRAPH_COPIES];
    uint32_t last; /* copy of the last submission */
};

/* Decides on which queue each command runs, and what waits for what. */
BELL_MUST_CHECK bell_status hcq_graph_order(struct hcq_graph *graph);

/* Looks at the memory of slots that changed. */
BELL_MUST_CHECK bell_status hcq_graph_check(struct hcq_graph *graph);

/* Keeps the thread's error record as the graph's first. */
void hcq_graph_fail(struct hcq_graph *graph, bell_status status);

/* The slot's memory begins at a multiple of `bytes`, a power of two. */
void hcq_graph_align_slot(struct hcq_graph *graph, uint32_t slot,
                          uint64_t bytes);

void hcq_graph_free_stages(struct hcq_graph *graph);

/* The number of the device among those of the graph; n_devs: none of them. */
uint32_t hcq_graph_device(const struct hcq_graph *graph,
                          const struct hcq_device *dev);

/* ---- signals in the memory of who waits (hcq_graph_near.c) ---- */

/* Makes them, of a copy, for pairs of queues where all that is needed is
 * there. */
BELL_MUST_CHECK bell_status hcq_graph_near_create(struct hcq_graph *graph,
                                                  struct graph_copy *copy);
void hcq_graph_near_destroy(struct hcq_graph *graph, struct graph_copy *copy);
/* Waiters set theirs to 0 when they have come to their end. */
void hcq_graph_near_emit_clear(const struct hcq_graph *graph,
                               struct graph_copy *copy);
/* Before a submission whose `epoch` is the sum of its devices': the host sets
 * all to 0 where a device may have left another value. */
void hcq_graph_near_check(const struct hcq_graph *graph,
                          struct graph_copy *copy, uint64_t epoch);
/* Lets those go on that wait for the queue. */
void hcq_graph_near_set(const struct hcq_graph *graph, struct graph_copy *copy,
                        uint32_t of, uint64_t value);

/* The signal by which `queue` tells `waiter`; NULL: that of the queue. */
static inline struct hcq_signal *
hcq_graph_near(const struct hcq_graph *graph, const struct graph_copy *copy,
               uint32_t queue, uint32_t waiter)
{
    return copy->near ? copy->near[queue * graph->n_queues + waiter] : NULL;
}

/* Makes the streams, in all copies. */
BELL_MUST_CHECK bell_status hcq_graph_bind(struct hcq_graph *graph);
void hcq_graph_unbind(struct hcq_graph *graph);

#endif
