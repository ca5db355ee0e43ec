/* Generators of the fuzzer's nodes: what they share. */
#ifndef BELL_TOOLS_FUZZ_FUZZ_GEN_H
#define BELL_TOOLS_FUZZ_FUZZ_GEN_H

#include "tools/fuzz/fuzz.h"

/* A program in the making. The nodes are built as they are chosen, so that
 * the context says which shapes and dtypes there are. */
struct fuzz_gen {
    struct fuzz_rng rng;
    struct fuzz_program *prog;
    struct bell_context *ctx;
    const struct fuzz_op *op; /* being made */
    int x;                    /* its first operand, where it is taken */
    struct bell_tensor *tensors[FUZZ_MAX_NODES];
    uint64_t max_elems;
    bool grad; /* float64 and differentiable ops only */
    bool lacks_f64;
    enum fuzz_shapes shapes;
};

/* A function that is in the program and, as NAME_text, in what it prints. */
#define HELPER(name, ...)                                                      \
    __VA_ARGS__                                                                \
    static const char name##_text[] = #__VA_ARGS__;

/* Appends a leaf; returns its number, or -1 when the program is full. */
int fuzz_leaf(struct fuzz_gen *g, enum bell_dtype dtype, const int64_t *shape,
              uint32_t ndim, enum fuzz_data data, int64_t bound);
/* A node of the given properties: an existing one, or a new leaf; -1. */
int fuzz_pick(struct fuzz_gen *g, bool (*fits)(struct bell_tensor *t),
              enum fuzz_data data);
int fuzz_pick_rank(struct fuzz_gen *g, bool (*fits)(struct bell_tensor *t),
                   uint32_t min_rank, uint32_t max_rank, enum fuzz_data data);
/* One that broadcasts with node x. */
int fuzz_pick_like(struct fuzz_gen *g, int x,
                   bool (*fits)(struct bell_tensor *t), enum fuzz_data data);
int64_t fuzz_random_size(struct fuzz_gen *g);
enum bell_dtype fuzz_random_dtype(struct fuzz_gen *g);
enum bell_dtype fuzz_random_float(struct fuzz_gen *g);
/* A random subset of 0..rank-1 (some negative) into node->list. */
void fuzz_random_axes(struct fuzz_gen *g, uint32_t rank,
                      struct fuzz_node *node);
int64_t fuzz_random_axis(struct fuzz_gen *g, uint32_t rank);

/* Takes an operand; false if there is none. */
static inline bool
take(struct fuzz_node *n, int node)
{
    if (node < 0)
        return false;
    n->src[n->n_src++] = (uint16_t)node;
    return true;
}

/* low..high, both included. */
static inline int64_t
between(struct fuzz_gen *g, int64_t low, int64_t high)
{
    return low + (int64_t)fuzz_below(&g->rng, (uint64_t)(high - low + 1));
}

static inline uint32_t
rank_of(const struct fuzz_gen *g, int x)
{
    return bell_ndim(g->tensors[x]);
}

static inline const int64_t *
shape_of(const struct fuzz_gen *g, int x)
{
    return bell_shape(g->tensors[x]);
}

static inline int64_t
size_of(const struct fuzz_gen *g, int x, int64_t axis)
{
    return bell_size(g->tensors[x], (int)axis);
}

#endif
