/* Collectives: data that several devices exchange, as commands of a graph.
 *
 *     hcq_graph_create(&graph_desc, &graph);   a compute queue of each device
 *     desc.kind = HCQ_COLLECTIVE_ALL_REDUCE;
 *     desc.ranks = ranks; desc.n_ranks = 8;    device and memory of each
 *     desc.count = 4096; desc.dtype = HCQ_DTYPE_F32;
 *     desc.get_program = get; desc.user = ..;  sum kernels
 *     hcq_collective_add(graph, &desc, &collective);
 *     hcq_graph_end(graph);
 *     loop: hcq_graph_submit(graph, NULL);
 *           hcq_collective_wait(collective, graph, HCQ_TIMEOUT_NS);
 *     hcq_graph_destroy(graph); hcq_collective_destroy(collective);
 *
 * A rank is a device with its memory. The name of each kind says what it does;
 * x[r] is the input of rank r, y[r] its output, N the number of ranks, block b
 * the elements b * count to (b + 1) * count - 1.
 *
 * Sums: terms are added in the order of ranks, ((x[0] + x[1]) + x[2]) + ...
 * float16 and bfloat16 are added in float32 and rounded once, at the end.
 * Integers wrap around. A sum of booleans is whether any is true. So the bits
 * of a result depend neither on the algorithm nor on links and sizes; nor on
 * the devices, where they add float32 and float64 as IEEE 754 has it, subnormal
 * numbers too. HCQ_COLLECTIVE_NVLS is the exception: it is only used where it
 * is asked for.
 *
 * Algorithms: a written model predicts the time of each that the links allow,
 * and the fastest is taken. It has for each step a fixed cost, and the bytes
 * over the busiest link or port divided by that one's rate. The fixed costs are
 * estimates, and are not measured on the machine. hcq_collective_explain tells
 * what would be chosen, and why.
 *
 * Memory that a device cannot reach goes through pinned host memory, which
 * belongs to the collective. Everything else moves directly: by reads, or over
 * PCI Express by writes where those are possible.
 *
 * Kernels: the driver half compiles none. The caller gives sum kernels by
 * `get_program`; those that only move data need none. Programs with the tensor
 * half use its own (tensor/runtime/sum.h), others bring theirs.
 *
 * Threads: as a graph. Adding allocates; a replay of the graph does not.
 */
#ifndef BELL_HCQ_HCQ_COLLECTIVE_H
#define BELL_HCQ_HCQ_COLLECTIVE_H

#include "hcq/hcq_graph.h"

/* As many as a graph has queues, and a backend devices. */
#define HCQ_COLLECTIVE_RANKS_MAX 64

enum hcq_dtype {
    HCQ_DTYPE_BOOL, /* a byte, 0 or 1 */
    HCQ_DTYPE_I8,
    HCQ_DTYPE_U8,
    HCQ_DTYPE_I32,
    HCQ_DTYPE_I64,
    HCQ_DTYPE_F16,
    HCQ_DTYPE_BF16,
    HCQ_DTYPE_F32,
    HCQ_DTYPE_F64,
    HCQ_DTYPE_COUNT
};

/* The root is a rank: that of the data, or of the result. */
enum hcq_collective_kind {
    /* y[r][i] = x[0][i] + x[1][i] + ..: count elements each */
    HCQ_COLLECTIVE_ALL_REDUCE,
    /* y[r] = block r of the sum: N * count elements in, count out */
    HCQ_COLLECTIVE_REDUCE_SCATTER,
    /* block s of y[r] = x[s]: count elements in, N * count out */
    HCQ_COLLECTIVE_ALL_GATHER,
    /* y[r] = x[root]: count elements; others than the root have no input */
    HCQ_COLLECTIVE_BROADCAST,
    /* block s of y[r] = block r of x[s]: N * count elements each */
    HCQ_COLLECTIVE_ALL_TO_ALL,
    /* block s of y[root] = x[s]: others than the root have no output */
    HCQ_COLLECTIVE_GATHER,
    /* y[r] = block r of x[root]: others than the root have no input */
    HCQ_COLLECTIVE_SCATTER,
    /* y[target] = x[root]: count elements; a send and its receive */
    HCQ_COLLECTIVE_SEND,
    HCQ_COLLECTIVE_KIND_COUNT
};

enum hcq_collective_algorithm {
    HCQ_COLLECTIVE_AUTO, /* the fastest by the model */
    /* Each rank reads all that it needs from where it is, and sums it. */
    HCQ_COLLECTIVE_ONE_SHOT,
    /* Each rank makes a chunk of the result; then all get all chunks. For
     * all-reduce and broadcast. */
    HCQ_COLLECTIVE_TWO_SHOT,
    /* Chunks go from neighbour to neighbour: partial sums from rank 0 to the
     * last one and results back, or blocks around. For all-reduce,
     * reduce-scatter, all-gather and broadcast. */
    HCQ_COLLECTIVE_RING,
    /* An NVSwitch adds: each rank reads a chunk as the switch's sum over all,
     * and writes it to all at once (multicast). For all-reduce, but not of
     * bytes, between NVIDIA GPUs behind one switch. Its sums are added in no
     * order that is told: floats may differ in their last bits from those of
     * the other algorithms. So HCQ_COLLECTIVE_AUTO never takes it. */
    HCQ_COLLECTIVE_NVLS,
    HCQ_COLLECTIVE_ALGORITHM_COUNT
};

/* "all-reduce", "two-shot", "float32"; static. */
const char *hcq_collective_kind_name(enum hcq_collective_kind kind);
const char *hcq_collective_algorithm_name(enum hcq_collective_algorithm by);
const char *hcq_dtype_name(enum hcq_dtype dtype);
uint32_t hcq_dtype_bytes(enum hcq_dtype dtype);

/* A kernel that sums: y[i] = x[0][i] + x[1][i] + .. of n_terms terms, in this
 * order. Its argument words are y, the x's, and the number of elements, an
 * int64. Addresses are multiples of the element's size. y may be one of the
 * x's. Plain data, a key for caches. */
struct hcq_sum_kernel {
    enum hcq_dtype dtype;
    uint32_t n_terms; /* 2 to HCQ_COLLECTIVE_RANKS_MAX */
    bool wide_first;  /* of F16, BF16: x[0] is float32, a partial sum */
    bool wide_result; /* likewise: y is float32, not rounded */
    /* y is an address of a team (multimem): its members' sum is written to all
     * of them. The x's, their memory, are not looked at. Whole pieces of 16
     * bytes may be read and written beyond the last element. */
    bool is_team;
    /* Terms are added as hcq_collective_desc.in_pairs has it. */
    bool in_pairs;
};

/* A loaded kernel. */
struct hcq_sum_program {
    struct hcq_program *prog;
    uint32_t group_elems; /* elements that a work-group makes */
    uint32_t local[3];    /* of the launch; 0: the program's own */
};

/* Fills in the program of that kernel for the device. It stays its maker's, and
 * outlives the graph. Asked for again it may give the same one. */
typedef bell_status hcq_sum_program_fn(void *user, struct hcq_device *dev,
                                       const struct hcq_sum_kernel *kernel,
                                       struct hcq_sum_program *out_program);

/* A device and its memory: buffers of that device, from a byte offset on. NULL:
 * the rank has no such side, or nothing moves. Offsets of sums are multiples of
 * the element's size, others any.
 *
 * A side may be a slot of the graph instead, which gets its memory for each
 * submission: of hcq_graph_slot_on or hcq_graph_view, as the rank's device sees
 * it. The buffer of that side is NULL then, and the offset one in the slot. */
struct hcq_collective_rank {
    struct hcq_device *dev;
    struct hcq_buffer *in, *out;
    uint64_t in_offset, out_offset;
    bool has_in_slot, has_out_slot;
    uint32_t in_slot, out_slot; /* where the rank has one */
};

struct hcq_collective_desc {
    uint32_t struct_size;
    enum hcq_collective_kind kind;
    enum hcq_collective_algorithm algorithm;
    enum hcq_dtype dtype;
    const char *name; /* for reports; NULL: none */
    uint64_t count;   /* elements, as the kind says; 0: nothing to do */
    const struct hcq_collective_rank *ranks;
    uint32_t n_ranks; /* 1 to HCQ_COLLECTIVE_RANKS_MAX */
    uint32_t root, target;
    /* All-reduce, reduce-scatter: terms are added in pairs of neighbours, then
     * sums of pairs in pairs, and so on: (x[0] + x[1]) + (x[2] + x[3]). So a
     * rank that has added up two neighbours itself changes no bit. A ring does
     * so for up to 3 ranks. */
    bool in_pairs;
    hcq_sum_program_fn *get_program; /* may be NULL where nothing is summed */
    void *user;
};

struct hcq_collective;

/* Adds the commands. With NVLS this asks the fabric manager for a team, which
 * takes its time. In place, input and output begin at one address, and with
 * blocks the rank's own block does: then it is not moved. Other overlaps of a
 * rank's two sides are BELL_E_INVALID, and so is all-to-all in place. With
 * slots both sides are the same slot; memory of different ones that overlaps is
 * refused by hcq_graph_submit.
 *
 * The graph has a compute queue of each device. Copy queues are used where it
 * has some; one for each link (hcq_queue_desc.engines) lets all links work at
 * once. The memory is not destroyed before the collective.
 *
 * BELL_E_UNSUPPORTED: the algorithm is not of that kind, or the links do not
 * allow it. What get_program returns is returned. After an error the graph can
 * only be destroyed. */
BELL_MUST_CHECK bell_status hcq_collective_add(
    struct hcq_graph *graph, const struct hcq_collective_desc *desc,
    struct hcq_collective **out_collective);

/* The slot that is a rank's input or output as the device of rank `reader` sees
 * it; HCQ_SLOT_NONE: it does not use that, or the side is not a slot. Each such
 * slot is set before a submission, by hcq_graph_set_buffer: that of the rank
 * itself to its buffer, the others to peers of that (hcq_buffer_create_peer).
 *
 *     hcq_graph_set_buffer(graph, ranks[r].in_slot, buf, 0);
 *     for (q = 0; q < n_ranks; q++) {
 *         slot = hcq_collective_view(collective, r, false, q);
 *         if (slot != HCQ_SLOT_NONE && slot != ranks[r].in_slot)
 *             hcq_graph_set_buffer(graph, slot, peer_of_buf[q], 0);
 *     }
 *
 * Sums need memory at multiples of an element: hcq_graph_set_buffer refuses
 * other memory for slots of theirs. */
uint32_t hcq_collective_view(const struct hcq_collective *collective,
                             uint32_t rank, bool is_output, uint32_t reader);

/* After the graph. NULL is allowed. */
void hcq_collective_destroy(struct hcq_collective *collective);

/* hcq_graph_wait of the graph that has it. A failure's message begins with the
 * collective: its name, kind, size and algorithm, which ranks' devices are
 * lost, and which have work that is not done. */
BELL_MUST_CHECK bell_status
hcq_collective_wait(const struct hcq_collective *collective,
                    struct hcq_graph *graph, uint64_t timeout_ns);

/* What a collective does. Bytes are those of one submission; what a rank reads
 * and writes in its own memory is not counted. Plain data, 35 KiB of it. */
struct hcq_collective_info {
    uint32_t struct_size;
    enum hcq_collective_algorithm algorithm; /* chosen, not AUTO */
    uint32_t n_ranks;
    uint32_t n_sums, n_copies; /* commands */
    uint32_t n_steps;          /* that follow one another */
    uint64_t scratch_bytes;    /* of all devices together */
    uint64_t staging_bytes;    /* of pinned host memory */
    uint64_t total_bytes;      /* between devices, and to and from the host */
    double predicted_ns;
    /* By algorithm: the model's time; 0: it cannot be used here. That of NVLS
     * is told, but does not count for AUTO. */
    double times_ns[HCQ_COLLECTIVE_ALGORITHM_COUNT];
    bool is_rate_known; /* no rate of a link had to be assumed */
    /* From the memory of one rank to another one. By multicast, too: there a
     * port carries a chunk to all ranks, and the sum of all, once. */
    uint64_t link_bytes[HCQ_COLLECTIVE_RANKS_MAX][HCQ_COLLECTIVE_RANKS_MAX];
    uint64_t to_host_bytes[HCQ_COLLECTIVE_RANKS_MAX];
    uint64_t from_host_bytes[HCQ_COLLECTIVE_RANKS_MAX];
};

/* Plans it and adds nothing: buffers of ranks may be NULL, which is planned as
 * not in place; slots are not looked at but for which are the same. Fields
 * beyond out_info->struct_size stay. */
BELL_MUST_CHECK bell_status
hcq_collective_explain(const struct hcq_collective_desc *desc,
                       struct hcq_collective_info *out_info);

/* Devices that are alike and need not be there: each pair has such a link. */
struct hcq_collective_box {
    uint32_t struct_size;
    uint32_t n_ranks;        /* 1 to HCQ_COLLECTIVE_RANKS_MAX */
    enum hcq_link_kind kind; /* HCQ_LINK_PCIE and what follows it */
    /* In one direction: of XGMI the link of a pair, of others all that a device
     * has. Not 0. */
    uint64_t bytes_per_s;
    bool has_team;   /* a switch adds: HCQ_COLLECTIVE_NVLS has a time */
    bool waits_near; /* signals lie in the memory of who waits */
};

/* hcq_collective_explain for such devices, in place where the kind can be; the
 * root is rank 0, the target the last one. BELL_E_INVALID: a value is not as
 * above, or the size overflows. BELL_E_UNSUPPORTED as there. */
BELL_MUST_CHECK bell_status hcq_collective_predict(
    const struct hcq_collective_box *box, enum hcq_collective_kind kind,
    enum hcq_collective_algorithm by, enum hcq_dtype dtype, uint64_t count,
    struct hcq_collective_info *out_info);

/* The same of one that was added. */
void hcq_collective_get_info(const struct hcq_collective *collective,
                             struct hcq_collective_info *out_info);

#endif
