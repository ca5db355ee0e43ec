/* Shared by schedule.c (what is stored), sched_items.c (the plan of it),
 * sched_index.c (movement ops as index arithmetic) and sched_kernel.c (building
 * kernels).
 */
#ifndef BELL_LOWER_SCHEDULE_SCHED_INTERNAL_H
#define BELL_LOWER_SCHEDULE_SCHED_INTERNAL_H

#include <assert.h>

#include "base/map.h"
#include "lower/schedule/schedule.h"

#define SCHED_MAX_LEAVES 24  /* buffers that one kernel may read */
#define SCHED_MAX_RANGES 60  /* ranges of one kernel */
#define SCHED_MAX_NODES  512 /* values computed by one kernel */
#define SCHED_MAX_RANK   32
#define SCHED_NONE       UINT32_MAX
#define SCHED_VAR_SLOT   1024 /* and VAR's number: until kernels are complete */

/* Where a value is read: one index expression an axis, or for a FLAT one the
 * row-major element number alone. */
struct sched_idx {
    uint32_t n;
    bool flat; /* e[0] is the element number, n is 1 */
    const struct uop *e[];
};

/* Sorted set of local node numbers; shared between nodes, never changed. */
struct sched_set {
    uint32_t n;
    uint32_t item[];
};

/* What a node is in a kernel that is attention. */
enum sched_attend {
    SCHED_ATTEND_NONE,
    SCHED_ATTEND_INNER, /* made of the scores: not stored */
    SCHED_ATTEND_KEYS,  /* the same, a reduction over the keys */
    SCHED_ATTEND_KEPT,  /* the same, stored beside the root for the others */
    SCHED_ATTEND_ROOT,  /* what is made of them in the end */
    SCHED_ATTEND_BACK,  /* another product, of scores that are made again */
};

static inline bool
sched_is_keys(enum sched_attend role)
{
    return role == SCHED_ATTEND_KEYS || role == SCHED_ATTEND_KEPT;
}

/* What is known of one node of the tensor graph. */
struct sched_node {
    const struct uop *u;
    const struct uop_dims *shape;
    double numel;
    double cost;       /* work per element, in a tenth of a cycle, fused */
    uint32_t src_base; /* first of its sources in sched.srcs (local numbers) */
    uint32_t first_req;
    uint32_t buf;                   /* number in the plan, or SCHED_NONE */
    const struct sched_set *leaves; /* buffers read if all below is fused */
    uint32_t n_users;
    /* The same two for who reads it: a contraction counts as stored, and what
     * several users make of one. */
    const struct sched_set *seen;
    double seen_cost;
    /* The contraction that it is made of, element by element, besides nodes
     * that are not made of a reduction; or SCHED_NONE. */
    uint32_t product;
    /* The node with several users, of such a product, that it is made of alone,
     * element by element, or itself; or SCHED_NONE. And the work from there. */
    uint32_t origin;
    double origin_cost;
    uint32_t kernel; /* number of its own, in sched.roots, or SCHED_NONE */
    uint32_t part;   /* CALL, PART: the next PART of that CALL, or SCHED_NONE */
    bool reduces;    /* a reduction is below */
    bool forced;     /* must be stored */
    bool stored;     /* has a buffer and a kernel */
    bool flat_ok;    /* readable by element number alone */
    uint8_t attend;  /* enum sched_attend */
};

/* More of a node that has a kernel: few of a great graph have. */
struct sched_root {
    uint64_t chain[4]; /* axis sets, nested, to be outermost */
    uint32_t n_chain;
    uint32_t kept[2]; /* nodes that the kernel stores, too */
    uint32_t n_kept;
    bool attends; /* it is attention */
};

/* Everything of one sched_build. */
struct sched {
    struct uop_graph *g; /* the tensor graph */
    struct uop_graph *k; /* the kernels */
    const struct sched_target *target;
    struct arena scratch;
    struct sched_node *nodes;
    uint32_t n_nodes;
    struct sched_root *roots; /* by sched_node.kernel, in the scratch arena */
    uint32_t n_roots;
    bool not_attention; /* a kernel that was to be it */
    bool keeps;         /* a kernel stores more than its node */
    uint32_t *srcs;     /* local numbers of all nodes' sources */
    uint64_t *masks;    /* by uop id in k: RANGE ids below 64 it depends on */
    size_t cap_masks, n_masks;
};

/* Local number of source i of a node. */
static inline uint32_t
sched_source(const struct sched *s, uint32_t node, uint32_t i)
{
    assert(node < s->n_nodes);
    return s->srcs[s->nodes[node].src_base + i];
}

/* The node whose row-major elements are those of `at`. */
uint32_t sched_base_of(const struct sched *s, uint32_t at);

bell_status sched_no_memory(const struct sched *s);
/* n numbers in the scratch arena, each SCHED_NONE; NULL when out of memory. */
uint32_t *sched_numbers(struct sched *s, size_t n);

/* The plan of what is stored: s->nodes and s->roots are decided. local[] has
 * the local numbers by id (lower/schedule/sched_items.c). */
BELL_MUST_CHECK bell_status sched_items(struct sched *s, const uint32_t *local,
                                        const struct uop *const *roots,
                                        uint32_t n_roots,
                                        struct sched_plan *plan);

/* The size, an index of s->k: a CONST, but for those that vary. */
const struct uop *sched_size(struct sched *s, int64_t d);
/* The most that it is. */
int64_t sched_most(const struct uop_graph *g, int64_t d);
bool sched_dims_vary(const struct uop_dims *dims);
const struct uop *sched_range(struct sched *s, uint32_t id, enum uop_axis axis,
                              int64_t d);

/* The set of RANGEs that an expression of s->k depends on, a bit an id. */
uint64_t sched_mask(struct sched *s, const struct uop *u);

/* A new index of n axes in the scratch arena; NULL when out of memory. */
struct sched_idx *sched_idx_new(struct sched *s, uint32_t n);

/* Index of one RANGE an axis, 0 for axes of size 1. ids[axis] are the RANGE
 * ids to give. */
struct sched_idx *sched_idx_ranges(struct sched *s, const struct uop_dims *dims,
                                   const uint32_t *ids, enum uop_axis axis);

/* The row-major element number of `idx` in `dims`. */
const struct uop *sched_idx_linear(struct sched *s, const struct sched_idx *idx,
                                   const struct uop_dims *dims);

/* For a movement, elementwise or conversion node `u`: where its source `src`
 * is read when it is read at `idx` under `*valid` (NULL: always). PAD narrows
 * *valid. Returns `idx` itself where nothing changes; NULL when out of
 * memory. */
const struct sched_idx *sched_idx_source(struct sched *s, const struct uop *u,
                                         uint32_t src,
                                         const struct sched_idx *idx,
                                         const struct uop **valid);

/* Are there too few of n_outputs reductions of `length` elements to keep the
 * device busy? `side_by_side`: their elements are, more or less. */
bool sched_too_few(const struct sched_target *target, double n_outputs,
                   double length, bool side_by_side);

/* a AND b, either may be NULL (true). */
const struct uop *sched_and(struct sched *s, const struct uop *a,
                            const struct uop *b);

bool sched_idx_same(const struct sched_idx *a, const struct sched_idx *b);

/* The most elements that such a shape has. */
double sched_numel(const struct uop_graph *g, const struct uop_dims *dims);

/* Nodes of the tensor graph, of u's dtype where nothing is said, with their
 * shapes (lower/schedule/sched_make.c). &uop_failed when out of memory, which
 * they take, too. */
const struct uop *sched_reshape(struct uop_graph *g, const struct uop *u,
                                const int64_t *d, uint32_t n);
const struct uop *sched_expand(struct uop_graph *g, const struct uop *u,
                               const struct uop_dims *to);
const struct uop *sched_permute(struct uop_graph *g, const struct uop *u,
                                const int64_t *order);
/* The first d[axis] elements along each axis. */
const struct uop *sched_first(struct uop_graph *g, const struct uop *u,
                              const int64_t *d);
/* The axis `size` long, with zeros behind what there is. */
const struct uop *sched_pad(struct uop_graph *g, const struct uop *u,
                            uint32_t axis, int64_t size);
const struct uop *sched_reduce(struct uop_graph *g, enum uop_op op,
                               const struct uop *u, uint32_t axes);
/* Element by element, of a's shape; b may be NULL. */
const struct uop *sched_each(struct uop_graph *g, enum uop_op op,
                             enum uop_dtype dtype, const struct uop *a,
                             const struct uop *b);

/* The REDUCE_AXIS, or where it is a product one whose factors lie along the sum
 * and in rows as the target wants them, stored so first
 * (lower/schedule/sched_turn.c). */
const struct uop *sched_turn(struct uop_graph *g, const struct uop *u,
                             const struct sched_target *target);

/* The REDUCE_AXIS, or where it is a large convolution one of image and filters
 * that are stored channels last first (lower/schedule/sched_channels.c). It was
 * made of `old`, whose nodes have so many users, by id. */
const struct uop *sched_channels(struct uop_graph *g, const struct uop *u,
                                 const struct uop *old, const uint32_t *n_users,
                                 const struct sched_target *target);

/* Splits reductions of much to little in two, so that the first half runs in
 * parallel, but for those of attention (sched_attend_roles), and turns factors
 * where the target wants that; replaces roots in place
 * (lower/schedule/sched_split.c). */
BELL_MUST_CHECK bell_status sched_split(struct sched *s,
                                        const struct uop **roots,
                                        uint32_t n_roots, const uint8_t *roles);

/* Moves the divisions of softmaxes that are factors behind the products, where
 * that makes attention of them; replaces roots in place (sched_attend.c). */
BELL_MUST_CHECK bell_status sched_attend(struct sched *s,
                                         const struct uop **roots,
                                         uint32_t n_roots);

/* enum sched_attend of all nodes under the roots, in uop_toposort's order, or
 * NULL: all are none; in the scratch arena. */
BELL_MUST_CHECK bell_status sched_attend_roles(struct sched *s,
                                               const struct uop *const *roots,
                                               uint32_t n_roots,
                                               uint8_t **out_roles);

/* Builds the kernel of a stored node, whose buffer in `plan` gets the marks of
 * what it computes. bufs[] gets the plan's buffer number of
 * each slot; those of what is kept follow the node's. */
BELL_MUST_CHECK bell_status sched_kernel(struct sched *s,
                                         struct sched_plan *plan, uint32_t node,
                                         const struct uop **out_sink,
                                         uint32_t *bufs, uint32_t *out_n_bufs);

/* Adds the marks of such nodes to those of what a kernel stores. */
BELL_MUST_CHECK bell_status sched_note_marks(struct sched *s,
                                             struct sched_buf *buf,
                                             const uint32_t *nodes, size_t n);

/* Does it run a kernel that was given? */
static inline bool
sched_is_given(const struct sched_item *item)
{
    return item->sink->src[0]->op == UOP_CUSTOM;
}

/* Makes one of kernels that share loops and values; fixed[] are the items to
 * stay as they are (lower/schedule/sched_join.c). */
BELL_MUST_CHECK bell_status sched_join(struct sched *s, struct sched_plan *plan,
                                       const bool *fixed);

/* Which items are to stay behind which, as one stores to a buffer that the
 * other stores to or loads from. In the scratch arena. */
struct sched_waits {
    uint32_t *n_before;           /* by item: pairs that it is the second of */
    uint32_t *first_user, *users; /* users[first_user[i] ..] of item i are
                                   * the second ones, to first_user[i + 1] */
};

BELL_MUST_CHECK bell_status sched_waits_find(struct sched *s,
                                             const struct sched_plan *plan,
                                             struct sched_waits *out);

/* Puts the items in an order that needs less memory at once, if there is one;
 * *out_bytes is what it needs then (lower/schedule/sched_order.c). */
BELL_MUST_CHECK bell_status sched_order(struct sched *s,
                                        struct sched_plan *plan,
                                        uint64_t *out_bytes);

/* Makes one launch of kernels that do not wait for each other, in an order of
 * its own (lower/schedule/sched_pack.c). With a limit of memory at once, but
 * UINT64_MAX, the order at hand is kept where it can be. */
BELL_MUST_CHECK bell_status sched_pack(struct sched *s, struct sched_plan *plan,
                                       uint64_t limit_bytes);

#endif
