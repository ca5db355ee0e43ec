/* From the graph of whole values to the graph that every place runs.
 *
 * All places run one graph, with shapes of parts. Where it differs from place
 * to place is the offset of SHRINKs, an argument of kernels. An exchange of
 * places is a CALL whose number says which collective it is: kernels and
 * schedules see opaque steps with whole buffers in and out.
 */
#ifndef BELL_TENSOR_MESH_SPLIT_H
#define BELL_TENSOR_MESH_SPLIT_H

#include "tensor/mesh/layout.h"

struct bell_context;
struct tensor_buffer;

/* The values of a buffer, which the host has, in another layout: a buffer that
 * is the first one's. NULL: out of memory. */
struct tensor_buffer *mesh_laid(struct tensor_buffer *buf,
                                const struct tensor_part parts[BELL_MESH_AXES]);

/* ---- numbers of CALLs ---- */

enum mesh_call_kind {
    MESH_ALL_REDUCE,
    MESH_REDUCE_SCATTER, /* part c of the first axis of the source's sum */
    MESH_ALL_GATHER,     /* one after the other along a new first axis */
};

/* Which places exchange: those that differ in one coordinate. */
struct mesh_call {
    enum mesh_call_kind kind;
    uint32_t size, stride; /* of the axis of the mesh */
    bool in_pairs;         /* sums: hcq_collective_desc */
};

#define MESH_CALL ((int64_t)1 << 40) /* no program has so many kernels */

/* turn: tells apart equal exchanges of one value that are not to be one. */
static inline int64_t
mesh_call_number(const struct mesh_call *call, uint32_t turn)
{
    return MESH_CALL | (int64_t)call->kind | (int64_t)call->size << 8 |
           (int64_t)call->stride << 16 | (int64_t)(turn & 0xff) << 24 |
           (int64_t)call->in_pairs << 32;
}

static inline bool
mesh_is_call(int64_t number)
{
    return number & MESH_CALL;
}

static inline struct mesh_call
mesh_call_of(int64_t number)
{
    return (struct mesh_call){
        (enum mesh_call_kind)(number & 3), (uint32_t)(number >> 8 & 0xff),
        (uint32_t)(number >> 16 & 0xff), (bool)(number >> 32 & 1)};
}

/* ---- offsets ---- */

/* The arg of a SHRINK that is another at each place: begin, end of each axis,
 * then for each axis two numbers: 0, 0 where it is the same everywhere, or
 * mesh_offset and how far the next part is. */
static inline int64_t
mesh_offset(uint32_t n_coords, uint32_t stride)
{
    return (int64_t)n_coords | (int64_t)stride << 16;
}

static inline uint16_t
mesh_offset_coords(int64_t offset)
{
    return (uint16_t)offset;
}

static inline uint16_t
mesh_offset_stride(int64_t offset)
{
    return (uint16_t)(offset >> 16);
}

/* ---- the split ---- */

/* A node with numbers or offsets, and that of the graph of a place that has the
 * same ones: by id. */
struct mesh_copied {
    uint32_t from, to;
};

/* Where numbers and offsets of the graph of a place are from. */
struct mesh_copies {
    struct mesh_copied *list; /* owned by the caller: host_free */
    size_t n, cap;
    /* One node of the graph of a place is from two, or also one of the split's
     * own: with other numbers it would be another graph. */
    bool is_mixed;
    /* Leaves under bell_shard: what becomes of these depends on whether the
     * host has their values. Owned by the caller as well. */
    struct tensor_buffer **laid;
    size_t n_laid, cap_laid;
};

/* Makes the graph of a place, in `to`, which is empty: nodes[i] is what it does
 * of roots[i], nodes of the context's graph, and layouts[i] where that lies,
 * with nothing partial but under a LAYOUT that says so. `tells`: what is
 * exchanged goes to BELL_DEBUG=mesh. copies (NULL: not wanted) is empty.
 * BELL_E_UNSUPPORTED: a root needs what there is on one device only. */
BELL_MUST_CHECK bell_status mesh_split(const struct bell_context *ctx,
                                       const struct uop *const *roots, size_t n,
                                       bool tells, struct uop_graph *to,
                                       const struct uop **nodes,
                                       struct mesh_layout *layouts,
                                       struct mesh_copies *copies);

#endif
