/* Generators of the fuzzer's nodes: what they share. */
#ifndef BELL_TOOLS_FUZZ_FUZZ_GEN_H
#define BELL_TOOLS_FUZZ_FUZZ_GEN_H

#include "tools/fuzz/fuzz.h"

#define FUZZ_MAX_KNOWN 64

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
    /* FUZZ_SHAPES_SYMBOLS: the nodes with the context's symbols, and which size
     * a number is in the first run */
    struct bell_tensor *sized[FUZZ_MAX_NODES];
    struct bell_dim symbols[FUZZ_MAX_SYMBOLS], sizes[FUZZ_MAX_SIZES];
    struct {
        int64_t value;
        uint16_t size;
    } known[FUZZ_MAX_KNOWN];
    uint32_t n_known;
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

/* ---- sizes of symbols (fuzz_gen_sizes.c) ---- */

/* Chooses symbols and sizes of them, and declares them. */
BELL_MUST_CHECK bell_status fuzz_sizes_begin(struct fuzz_gen *g);
/* Is it a program of symbols? */
static inline bool
fuzz_has_sizes(const struct fuzz_gen *g)
{
    return g->shapes == FUZZ_SHAPES_SYMBOLS;
}
/* What one of its sizes is in the first run. */
int64_t fuzz_some_size(struct fuzz_gen *g);
/* How many elements the node has in each run at least. */
int64_t fuzz_least_numel(struct fuzz_gen *g, int node);
/* Indices of a leaf stay below a number, or below the size that stands for it:
 * is that what the axis of the node has in every run? Node -1: the number. */
bool fuzz_indices_fit(const struct fuzz_gen *g, int64_t number, int node,
                      int axis);
/* Can an axis of the node that has the size of a symbol be 1? */
bool fuzz_may_be_one(const struct fuzz_gen *g, int node);
/* Puts sizes in place of the numbers of the node that was appended last, and
 * builds it with them too. False where the API refuses that. */
bool fuzz_sizes_append(struct fuzz_gen *g);

/* low..high, both included. */
static inline int64_t
between(struct fuzz_gen *g, int64_t low, int64_t high)
{
    if (fuzz_has_sizes(g) && fuzz_one_in(&g->rng, 4)) {
        int64_t size = fuzz_some_size(g);

        if (size >= low && size <= high)
            return size;
    }
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
