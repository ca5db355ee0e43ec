/* Graphs: kernels, copies and fills that are submitted as one, again and again.
 *
 * Commands are added in an order that would be right if each waited for the
 * one before it. hcq_graph_end finds from the byte ranges which have to wait
 * for which, puts copies and fills on a copy queue where one was given and
 * something can be done meanwhile, orders queues by as few signals as that
 * takes, and makes bound streams: two of each, so that the next submission is
 * prepared while the last one runs.
 *
 * A device may have several copy queues, one for each link: a copy from or to
 * the memory of another device takes that which has one of the engines of the
 * link (hcq_device_get_link), or, where none is said, each device another one.
 *
 *     hcq_graph_create(&desc, &graph);             desc.queues: {queue}
 *     x = hcq_graph_slot(graph, "x", n_bytes);
 *     args[0] = hcq_graph_memory(y->va, n_bytes, HCQ_ACCESS_WRITE);
 *     args[1] = hcq_graph_in_slot(x, 0, n_bytes, HCQ_ACCESS_READ);
 *     hcq_graph_exec(graph, prog, args, 2, grid, NULL);
 *     hcq_graph_end(graph);
 *     loop: hcq_graph_set(graph, x, buf->va); hcq_graph_submit(graph, &value);
 *
 * A submission counts as one of the first queue: what was submitted to that
 * queue before is done when it begins, what is submitted there afterwards
 * begins when it is done, and it has a value of that queue's timeline. The
 * other queues take part in between; what else they do is not waited for.
 *
 * Slots are what may differ from one submission to the next: addresses of
 * memory, or words. Memory that a submission writes must not overlap what it
 * uses by another slot or a fixed address: the order was found without
 * knowing of that. hcq_graph_submit looks. Memory of a slot is used on one
 * device; on others by views of the slot, if it has a home:
 *
 *     x = hcq_graph_slot_on(graph, "x", n_bytes, dev0);
 *     y = hcq_graph_view(graph, x, dev1);     dev1's address of that memory
 *     ...
 *     hcq_graph_set_buffer(graph, x, buf, 0);        buf is of dev0
 *     hcq_graph_set_buffer(graph, y, peer, 0);       hcq_buffer_create_peer
 *
 * Two commands of different devices wait for each other, as they were added,
 * where they use one memory and one of them writes it. That is known of
 * addresses in buffers, of a peer or pinned too, which live when the graph is
 * ended, and of slots with a home. A command that has memory of another slot,
 * or in no buffer, waits for all commands of other devices before it, and those
 * behind it wait for it.
 *
 * Threads: a graph and its queues are used by one host thread at a time.
 *
 * Launch path: hcq_graph_set, hcq_graph_set_buffer and hcq_graph_submit
 * allocate nothing and take no lock. A submission costs what changed, and one
 * of each queue.
 */
#ifndef BELL_HCQ_HCQ_GRAPH_H
#define BELL_HCQ_HCQ_GRAPH_H

#include "hcq/hcq.h"

struct hcq_graph;

#define HCQ_SLOT_NONE UINT32_MAX

enum hcq_access {
    HCQ_ACCESS_NONE = 0, /* a word, no memory */
    HCQ_ACCESS_READ = 1u << 0,
    HCQ_ACCESS_WRITE = 1u << 1,
};

/* An argument word of an exec, or a side of a copy. */
struct hcq_graph_arg {
    uint32_t access;     /* bits of enum hcq_access */
    uint32_t slot;       /* HCQ_SLOT_NONE: always the same */
    uint64_t value;      /* address or word; with a slot added to its value */
    uint64_t size_bytes; /* of memory: what may be accessed from there */
};

/* Memory at an address. */
static inline struct hcq_graph_arg
hcq_graph_memory(uint64_t va, uint64_t size_bytes, uint32_t access)
{
    return (struct hcq_graph_arg){access, HCQ_SLOT_NONE, va, size_bytes};
}

/* Memory from `offset` of a slot's. */
static inline struct hcq_graph_arg
hcq_graph_in_slot(uint32_t slot, uint64_t offset, uint64_t size_bytes,
                  uint32_t access)
{
    return (struct hcq_graph_arg){access, slot, offset, size_bytes};
}

static inline struct hcq_graph_arg
hcq_graph_word(uint64_t word)
{
    return (struct hcq_graph_arg){HCQ_ACCESS_NONE, HCQ_SLOT_NONE, word, 0};
}

enum hcq_graph_flag {
    /* hcq_graph_submit does not look whether slots overlap: the caller knows
     * that they do not. The order of commands is the same without it. */
    HCQ_GRAPH_TRUSTED = 1u << 0,
};

struct hcq_graph_desc {
    uint32_t struct_size;
    uint32_t flags;   /* enum hcq_graph_flag */
    const char *name; /* for reports */
    /* One compute queue at most for a device, and any number of copy queues;
     * the first is a compute queue. They outlive the graph. */
    struct hcq_queue *const *queues;
    uint32_t n_queues;
};

#define HCQ_GRAPH_QUEUES_MAX 64

BELL_MUST_CHECK bell_status hcq_graph_create(const struct hcq_graph_desc *desc,
                                             struct hcq_graph **out_graph);
/* Waits for what was submitted while its devices move (HCQ_WAIT_WHILE_MOVING),
 * then its streams go with their queues. NULL is allowed. */
void hcq_graph_destroy(struct hcq_graph *graph);

/* A slot for memory of that size, or, of size 0, for a word. On failure
 * HCQ_SLOT_NONE; the error is hcq_graph_end's. */
uint32_t hcq_graph_slot(struct hcq_graph *graph, const char *name,
                        uint64_t size_bytes);
/* A slot for memory of that size, as `dev` sees it, that other devices may see
 * by views. It is set by hcq_graph_set_buffer. */
uint32_t hcq_graph_slot_on(struct hcq_graph *graph, const char *name,
                           uint64_t size_bytes, struct hcq_device *dev);
/* A slot for the memory of `slot`, which has a home or is a view, as `dev` sees
 * it: with an address of its own, and the same hazards. The one that there is,
 * if the device has one. It has to be set like any other slot. */
uint32_t hcq_graph_view(struct hcq_graph *graph, uint32_t slot,
                        struct hcq_device *dev);
/* The slot of that name, or HCQ_SLOT_NONE. */
uint32_t hcq_graph_find_slot(const struct hcq_graph *graph, const char *name);

/* What is added returns nothing: the first error is kept for hcq_graph_end.
 * Everything given is copied, but for programs, which outlive the graph. */

/* On the compute queue of prog's device, as hcq_cs_exec. */
void hcq_graph_exec(struct hcq_graph *graph, const struct hcq_program *prog,
                    const struct hcq_graph_arg *args, uint32_t n_args,
                    const uint32_t grid[3], const uint32_t local[3]);
/* By `dev`, as hcq_cs_copy and hcq_cs_fill; the access of both sides is known.
 * NULL: the first queue's device. */
void hcq_graph_copy(struct hcq_graph *graph, struct hcq_device *dev,
                    const struct hcq_graph_arg *dst,
                    const struct hcq_graph_arg *src, uint64_t size_bytes);
/* From memory as src_dev sees it to memory as dst_dev sees it, of any two
 * devices of the graph, also of different backends. It is one copy where a slot
 * of one has a view on the other, or where fixed memory of one is in a buffer
 * of the other as well (hcq_buffer_create_peer; pages of the host that both
 * have pinned, or that are the CPU's): that buffer must then outlive the graph.
 *
 * Else each device copies its half, chunk after chunk, through host memory that
 * both see and the graph owns. Each such call looks at all buffers of both. Not
 * for hcq_graph_patch. The graph's error is BELL_E_UNSUPPORTED where a device
 * cannot see host memory. */
void hcq_graph_move(struct hcq_graph *graph, struct hcq_device *dst_dev,
                    const struct hcq_graph_arg *dst, struct hcq_device *src_dev,
                    const struct hcq_graph_arg *src, uint64_t size_bytes);
void hcq_graph_fill(struct hcq_graph *graph, struct hcq_device *dev,
                    const struct hcq_graph_arg *dst, uint32_t pattern,
                    uint64_t size_bytes);
/* The queue (NULL: the first) goes on when the host, or whoever else, has set
 * the signal to the value or more: a word, fixed or of a slot, that differs in
 * each submission. `memory` is what the host writes meanwhile, with
 * HCQ_ACCESS_WRITE: commands that use it come before or behind as they were
 * added. The queue's device sees the signal, which outlives the graph. Whoever
 * waits for it waits until the host has set it, also when a device is lost. */
void hcq_graph_await(struct hcq_graph *graph, struct hcq_queue *queue,
                     const struct hcq_signal *sig,
                     const struct hcq_graph_arg *value,
                     const struct hcq_graph_arg *memory, uint32_t n_memory);
/* Sets the signal for the host (hcq_signal_wait), or whoever else, when what
 * was added before and wrote `memory` (HCQ_ACCESS_READ) is done. Commands
 * behind it do not wait for the host: hcq_graph_await says when it has read. */
void hcq_graph_tell(struct hcq_graph *graph, struct hcq_queue *queue,
                    const struct hcq_signal *sig,
                    const struct hcq_graph_arg *value,
                    const struct hcq_graph_arg *memory, uint32_t n_memory);
/* A field of what was added last (enum hcq_field: GRID, LOCAL, SIZE, VALUE)
 * becomes the word of the slot + addend. Sizes stay within what the arguments
 * say. */
void hcq_graph_patch(struct hcq_graph *graph, unsigned field, uint32_t slot,
                     int64_t addend);

/* Ends building; returns the first error. After one the graph can only be
 * destroyed. */
BELL_MUST_CHECK bell_status hcq_graph_end(struct hcq_graph *graph);

/* The slot's value for submissions from now on. BELL_E_INVALID: no such slot;
 * memory that would end behind the last address; a size beyond what the
 * arguments say; a slot with a home, but for HCQ_GRAPH_TRUSTED. */
BELL_MUST_CHECK bell_status hcq_graph_set(struct hcq_graph *graph,
                                          uint32_t slot, uint64_t value);
/* A slot of memory becomes a buffer's, from that offset. The buffer lives while
 * submissions use it; a buffer that replaces it is set again, whatever its
 * address. BELL_E_INVALID: no such slot, or a word; a buffer of another device
 * than the one that uses the slot; bytes beyond its end. hcq_graph_submit
 * refuses a view that is set to other memory than its slot. */
BELL_MUST_CHECK bell_status hcq_graph_set_buffer(struct hcq_graph *graph,
                                                 uint32_t slot,
                                                 const struct hcq_buffer *buf,
                                                 uint64_t offset_bytes);
/* *out_value (may be NULL) is of the first queue's timeline. Waits while two
 * submissions before it run, if there are several queues or a slot changed.
 * Nothing was submitted where it is BELL_E_INVALID: a slot has no value, or
 * one that a command cannot take (hcq_stream_patch), or overlaps another. With
 * several queues, a failure of a later one's submission breaks the graph: what
 * was submitted ends, and the graph can only be destroyed. */
BELL_MUST_CHECK bell_status hcq_graph_submit(struct hcq_graph *graph,
                                             uint64_t *out_value);
/* Whether a submission is not done yet. */
bool hcq_graph_busy(const struct hcq_graph *graph);
/* Waits until it is not. If one of several devices is lost, the others are let
 * go on without it, and that is BELL_E_DEVICE_LOST. */
BELL_MUST_CHECK bell_status hcq_graph_wait(struct hcq_graph *graph,
                                           uint64_t timeout_ns);

/* What became of it. Plain data. */
struct hcq_graph_info {
    uint32_t struct_size;
    uint32_t n_commands, n_slots;
    uint32_t n_queues;  /* that have something to do */
    uint32_t n_copies;  /* commands on copy queues */
    uint32_t n_signals; /* of a submission, between queues */
    uint32_t n_waits;
};

/* Fills *out_info, whose struct_size is set; fields beyond it stay. The graph
 * was ended. */
void hcq_graph_get_info(const struct hcq_graph *graph,
                        struct hcq_graph_info *out_info);

#endif
