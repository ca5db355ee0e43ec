/* `doorbell fuzz`: random tensor programs, run on a device and compared with
 * the reference evaluator.
 *
 * A program is a list of nodes, each a leaf with data from a seed or a call of
 * the tensor API on earlier nodes; some nodes are roots, which are realized
 * together. It can be made from a seed, built in any context, shrunk and
 * printed as C. Plain data throughout.
 *
 * Tolerance. Integers and bools must be equal. Each program is evaluated by the
 * reference without noise and a few times with (struct ref_noise): how far
 * those results lie apart, element by element, is what correct rounding errors
 * come to in this very graph, its jumps included.
 *
 * A float may differ by 4 times that plus 4 units in the last place of its
 * dtype; an element whose integer, NaN or infinity changes under noise is not
 * compared. Before a mismatch counts, 64 more evaluations with noise up to 4
 * times as large widen the bounds.
 */
#ifndef BELL_TOOLS_FUZZ_FUZZ_H
#define BELL_TOOLS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/map.h"
#include "doorbell/dim.h"
#include "doorbell/functions.h"
#include "reference/reference.h"
#include "tensor/functions/signature.h"

#define FUZZ_MAX_NODES 160
#define FUZZ_MAX_ROOTS 4
#define FUZZ_MAX_SRC   5
#define FUZZ_MAX_LIST  24
#define FUZZ_MAX_OPS   512 /* rows of all tables together, at most */
/* Programs with symbols: how many there are, how many sizes are made of them
 * at first, and with how many values they run. */
#define FUZZ_MAX_SYMBOLS 2
#define FUZZ_MAX_SIZES   4
#define FUZZ_N_VALUES    3
#define FUZZ_N_NUMBERS   3 /* of a node's i, which may be sizes */

/* A stream of random numbers (SplitMix64). */
struct fuzz_rng {
    uint64_t state, first; /* first: what it began with */
};

static inline struct fuzz_rng
fuzz_rng(uint64_t seed)
{
    struct fuzz_rng rng = {seed, hash_mix(seed)};
    return rng;
}

static inline uint64_t
fuzz_next(struct fuzz_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15ull;
    return hash_mix(rng->state);
}
/* 0..n-1; 0 where n is 0. */
static inline uint64_t
fuzz_below(struct fuzz_rng *rng, uint64_t n)
{
    return n ? (fuzz_next(rng) >> 11) % n : 0;
}
/* True once in n. */
static inline bool
fuzz_one_in(struct fuzz_rng *rng, uint64_t n)
{
    return fuzz_below(rng, n) == 0;
}
/* Uniform in [low, high). */
static inline double
fuzz_uniform(struct fuzz_rng *rng, double low, double high)
{
    return low + (high - low) * (double)(fuzz_next(rng) >> 11) * 0x1p-53;
}

/* What a leaf's data looks like. */
enum fuzz_data {
    FUZZ_DATA_NORMAL,   /* floats about 1, small integers */
    FUZZ_DATA_COARSE,   /* multiples of 1/4 */
    FUZZ_DATA_POSITIVE, /* 0.2..2.2; integers 1..9 */
    FUZZ_DATA_UNIT,     /* 0.05..0.95 */
    FUZZ_DATA_INDEX,    /* integers -bound..bound-1 */
    FUZZ_DATA_CLASS,    /* integers 0..bound-1 */
    FUZZ_DATA_WIDE,     /* any bits of an integer; floats of any size */
    FUZZ_DATA_SPECIAL,  /* NaN, infinities, zeros, extremes among others */
    FUZZ_DATA_DISTINCT, /* no two floats close to each other */
    FUZZ_DATA_COUNT
};

/* One call. Which fields mean what is the op's affair. */
struct fuzz_node {
    uint16_t op; /* index into fuzz_op_at; 0 is the leaf */
    uint8_t n_src, n_list;
    uint8_t dtype; /* enum bell_dtype; of a leaf or conversion */
    /* On a mesh, along its first and second axis: 1 + the axis of the value,
     * modulo the rank, that bell_shard splits; 0: none. */
    uint8_t split[2];
    uint16_t src[FUZZ_MAX_SRC]; /* earlier nodes */
    int64_t list[FUZZ_MAX_LIST];
    int64_t i[6]; /* a leaf's: kind of data, bound, salt */
    double f[2];
    /* Which size of a program with symbols stands in place of list[k] and i[k]:
     * 0, none; 1 + s, sizes[s]; FUZZ_AXIS(node, axis), what that axis of an
     * earlier node has. A leaf's bound is at most its size. */
    uint16_t list_size[FUZZ_MAX_LIST], i_size[FUZZ_N_NUMBERS];
};
#define FUZZ_AXIS(node, axis) ((uint16_t)(8 * ((node) + 1) + (axis)))

/* A symbol: its bounds, and its value in each run. */
struct fuzz_symbol {
    int64_t min, max, value[FUZZ_N_VALUES];
};

/* A size of up to two symbols n, m: by[0] n + by[1] m + both n m + plus. */
struct fuzz_size {
    int64_t by[FUZZ_MAX_SYMBOLS], both, plus;
};

struct fuzz_program {
    uint64_t seed; /* of the leaves' data */
    /* Also a root: the gradient of root 0's sum, or of its square's, by each of
     * the first n_grads float leaves. */
    uint32_t n_grads;
    bool is_squared;
    bool lacks_f64; /* made for a device without float64 */
    /* 0: all sizes are numbers */
    uint32_t n_symbols, n_sizes;
    bool was_sized; /* fuzz_settle made it of one with symbols */
    struct fuzz_symbol symbols[FUZZ_MAX_SYMBOLS];
    struct fuzz_size sizes[FUZZ_MAX_SIZES];
    uint32_t n_nodes, n_roots;
    uint16_t roots[FUZZ_MAX_ROOTS];
    struct fuzz_node nodes[FUZZ_MAX_NODES];
};

/* ---- making programs -------------------------------------------------- */

struct fuzz_gen;
/* Fills in a node for g->op: sources, numbers. False if nothing fits. */
typedef bool fuzz_gen_fn(struct fuzz_gen *g, struct fuzz_node *node);

struct fuzz_op {
    struct fn_signature to; /* what it calls */
    /* What each of its arguments is, a letter for a letter of the signature:
     *   0..4  of tensors: that source, NULL where there are fewer; -: NULL
     *   *     all sources        l    the list      a..d  number i[0..3]
     *   x y   number f[0..1]     0..9 that number   q     i[0] == 1
     *   !     not i[0]           N    BELL_IGNORE_NONE
     *   M U Q 1e-3, 1e-6, 0.75
     *   .     what the signature says: the node's dtype, the list as index
     *         items, numbers as options, an einsum's formula */
    const char *args;
    fuzz_gen_fn *gen; /* NULL: there is nothing more to fill in */
    bool (*fits)(struct bell_tensor *t); /* of the operands */
    /* Unless 0, the first operand is taken before gen, of these ranks. */
    uint32_t min_rank, max_rank;
    unsigned weight;
    bool differentiable;
    enum fuzz_data data; /* of leaves made for it; NORMAL: any */
    const char *helper;  /* its text, if it is not a function of the API */
    bool seeded;         /* bell_manual_seed(i[0]) comes first */
    const char *spec;    /* what it calls by name (fuzz_ops_named.c), or NULL */
};

/* Tables of ops, one per source file; the first row of the first is the
 * leaf. */
struct fuzz_op_table {
    const struct fuzz_op *rows;
    size_t n_rows;
};
extern const struct fuzz_op_table fuzz_ops_elementwise, fuzz_ops_shape,
    fuzz_ops_nn, fuzz_ops_small, fuzz_ops_named;

/* The formula that an einsum node's i[0] stands for. */
const char *fuzz_einsum_formula(int64_t row);

/* A node's arguments but for tensors, and what they point to. */
#define FUZZ_ITEM_NUMBERS 4 /* of the list: kind, begin, end, step */
struct fuzz_args {
    struct fn_arg a[FN_MAX_ARGS];
    struct bell_conv_options conv;
    struct bell_pool_options pool;
    struct bell_index_item items[FUZZ_MAX_LIST / FUZZ_ITEM_NUMBERS];
};
void fuzz_args(const struct fuzz_node *node, struct fuzz_args *out);
/* Its signature's letters without the context. */
const char *fuzz_letters(const struct fuzz_op *op);
/* Calls the API; tensors: by node. */
struct bell_tensor *fuzz_call(struct bell_context *ctx,
                              const struct fuzz_node *node,
                              struct bell_tensor *const *tensors);

size_t fuzz_op_count(void);
const struct fuzz_op *fuzz_op_at(size_t i);

/* Does the context's device compute in float64? */
BELL_MUST_CHECK bell_status fuzz_ask_f64(struct bell_context *ctx,
                                         bool *out_lacks_f64);

/* Which sizes and shapes a program's leaves are to have, as far as its calls
 * allow: any; odd sizes; sizes that are 0; shapes that broadcast; sizes of
 * symbols, of which each program takes two of the context's. */
enum fuzz_shapes {
    FUZZ_SHAPES_ANY,
    FUZZ_SHAPES_ODD,
    FUZZ_SHAPES_EMPTY,
    FUZZ_SHAPES_SPREAD,
    FUZZ_SHAPES_SYMBOLS,
    FUZZ_SHAPES_COUNT
};

/* A random program of at most max_ops calls, of float64 and differentiable
 * ops alone if `grad`, with float32 in place of float64 if `lacks_f64`; with
 * `only_op` each call is that one. */
BELL_MUST_CHECK bell_status fuzz_generate(struct bell_context *ctx,
                                          uint64_t seed, uint32_t max_ops,
                                          bool grad, bool lacks_f64,
                                          int only_op, enum fuzz_shapes shapes,
                                          struct fuzz_program *out_prog);

bool fuzz_any(struct bell_tensor *t);
bool fuzz_is_float(struct bell_tensor *t);
bool fuzz_is_int(struct bell_tensor *t);
bool fuzz_is_number(struct bell_tensor *t); /* not bool */
bool fuzz_is_bits(struct bell_tensor *t);   /* integer or bool */
bool fuzz_is_bool(struct bell_tensor *t);

/* ---- running ---------------------------------------------------------- */

/* A leaf's elements: a value, not storage. array: dtype, n, memory given. */
void fuzz_fill(const struct fuzz_program *prog, uint32_t node,
               struct ref_array *array);

/* Builds every node in the innermost scope; out holds n_nodes. Reports the
 * context's first failure. */
BELL_MUST_CHECK bell_status fuzz_build(struct bell_context *ctx,
                                       const struct fuzz_program *prog,
                                       struct bell_tensor **out);

/* How a program came out. */
struct fuzz_verdict {
    bool failed;
    bool invalid;    /* the API refuses the program: it says nothing */
    bool refused;    /* the device does, which lacks float64; invalid as well */
    bool unplanned;  /* there is no plan for all sizes; invalid as well */
    bool lost;       /* the device is dead: the context is of no more use */
    char what[400];  /* the first mismatch, or the failing call */
    bool is_sized;   /* a root or gradient has the size of a symbol */
    bool to_the_bit; /* compared with plain sizes */
    uint32_t root;   /* number of the root with the mismatch */
    uint64_t n_compared, n_unstable; /* elements */
};

/* The library's last call of `prog` failed, `where`. */
void fuzz_note_failure(struct fuzz_verdict *out,
                       const struct fuzz_program *prog, const char *where);

/* Appends d sum(root 0) / d leaf for the first prog->n_grads float leaves to
 * `roots`, which hold *n of at most FUZZ_MAX_OUT. */
#define FUZZ_MAX_OUT (FUZZ_MAX_ROOTS + 4)
BELL_MUST_CHECK bell_status fuzz_append_grads(const struct fuzz_program *prog,
                                              struct bell_tensor *const *nodes,
                                              struct bell_tensor **roots,
                                              uint32_t *n);

/* Runs on the device and compares. A failure of the library is a verdict;
 * the status is one only when the fuzzer itself cannot go on. */
BELL_MUST_CHECK bell_status fuzz_run(struct bell_context *ctx,
                                     const struct fuzz_program *prog,
                                     struct fuzz_verdict *out);

/* Compares d sum(root 0 * weights) / d leaf, for every float leaf, with
 * finite differences, both by the reference in float64. */
BELL_MUST_CHECK bell_status fuzz_check_grad(struct bell_context *ctx,
                                            const struct fuzz_program *prog,
                                            struct fuzz_verdict *out);

/* Runs it with other numbers and offsets too; each run is to give what it
 * gives alone, to the bit; then with other sizes (fuzz_vary.c). */
BELL_MUST_CHECK bell_status fuzz_check_vary(struct bell_context *ctx,
                                            const struct fuzz_program *prog,
                                            struct fuzz_verdict *out);

/* What came of the roots of one run. */
struct fuzz_result {
    uint32_t n;
    enum uop_dtype dtype[FUZZ_MAX_OUT];
    size_t size_bytes[FUZZ_MAX_OUT], n_elems[FUZZ_MAX_OUT];
    void *bytes[FUZZ_MAX_OUT];
    /* By element: what is promised does not decide it. NULL before
     * fuzz_judge. */
    uint8_t *undecided[FUZZ_MAX_OUT];
    bool reduces_floats; /* to the last bit it depends on the order of that */
    bool is_sized;       /* one has the size of a symbol */
};
void fuzz_result_fini(struct fuzz_result *result);
/* Realizes and reads the roots, and the gradients, of a program whose nodes are
 * built. */
BELL_MUST_CHECK bell_status fuzz_read_roots(const struct fuzz_program *prog,
                                            struct bell_tensor *const *nodes,
                                            struct fuzz_result *out);
/* Builds, realizes and reads. */
BELL_MUST_CHECK bell_status fuzz_run_once(struct bell_context *ctx,
                                          const struct fuzz_program *prog,
                                          struct fuzz_result *out);

/* Compares what came of the program elsewhere with the reference, and notes
 * what is undecided. Adds to the verdict. */
BELL_MUST_CHECK bell_status fuzz_judge(struct bell_context *ctx,
                                       const struct fuzz_program *prog,
                                       struct fuzz_result *result,
                                       struct fuzz_verdict *out);

/* The program as one of plain sizes, those of its run number `run`. Fails where
 * the API refuses it. */
BELL_MUST_CHECK bell_status fuzz_settle(struct bell_context *ctx,
                                        const struct fuzz_program *prog,
                                        uint32_t run, struct fuzz_program *out);
/* Declares the program's symbols, of their first values, and makes its sizes of
 * them. */
BELL_MUST_CHECK bell_status fuzz_declare(struct bell_context *ctx,
                                         const struct fuzz_program *prog,
                                         struct bell_dim *symbols,
                                         struct bell_dim *sizes);
/* The symbols' values in that run. */
BELL_MUST_CHECK bell_status fuzz_set_symbols(struct bell_context *ctx,
                                             const struct fuzz_program *prog,
                                             const struct bell_dim *symbols,
                                             uint32_t run);
/* The node with words in place of its sizes. False: it names an axis that there
 * is none of. */
bool fuzz_place_sizes(const struct fuzz_program *prog, uint32_t node,
                      const struct bell_dim *sizes,
                      struct bell_tensor *const *nodes, struct fuzz_node *out);
/* Makes the node a leaf of the dtype and shape that it has; its sizes are the
 * program's or those of axes of earlier nodes. Fails where one is neither. */
BELL_MUST_CHECK bell_status fuzz_size_leaf(struct bell_context *like,
                                           struct fuzz_program *prog,
                                           uint32_t node);
/* A leaf's tensor; `shape` is its list, perhaps as words of the same size. */
struct bell_tensor *fuzz_build_leaf(struct bell_context *ctx,
                                    const struct fuzz_program *prog,
                                    uint32_t node, const int64_t *shape);

/* Runs a program with symbols: each value gives what the reference has, one
 * plan does for all, in any order and again; to the bit what plain sizes give
 * where no floats are reduced and which NaN it is decides nothing
 * (fuzz_symbols.c). */
BELL_MUST_CHECK bell_status fuzz_check_symbols(struct bell_context *ctx,
                                               const struct fuzz_program *prog,
                                               struct fuzz_verdict *out);

/* The first of n elements that differs, and what it is; NaN is equal to NaN.
 * False: none does. */
bool fuzz_find_difference(enum uop_dtype dtype, size_t n, const void *a,
                          const void *b, size_t *out_at, double *out_a,
                          double *out_b);

/* Runs it with changes of its inputs in between, plainly and as a jit: the same
 * to the bit (fuzz_inputs.c). Adds to the verdict. */
BELL_MUST_CHECK bell_status fuzz_check_inputs(struct bell_context *ctx,
                                              const struct fuzz_program *prog,
                                              struct fuzz_verdict *out);

/* Captures it (doorbell/jit.h) and runs it with other leaves twice more, each
 * time as fuzz_run does; then fuzz_check_inputs. */
BELL_MUST_CHECK bell_status fuzz_check_jit(struct bell_context *ctx,
                                           const struct fuzz_program *prog,
                                           struct fuzz_verdict *out);

typedef bell_status fuzz_check_fn(struct bell_context *ctx,
                                  const struct fuzz_program *prog,
                                  struct fuzz_verdict *out);

/* Makes a failing program smaller while it still fails. `verdict` is the
 * smaller one's afterwards. Where a try loses the device, *ctx becomes a fresh
 * context. */
BELL_MUST_CHECK bell_status fuzz_shrink(struct bell_context **ctx,
                                        const char *device,
                                        fuzz_check_fn *check,
                                        struct fuzz_program *prog,
                                        struct fuzz_verdict *verdict);

/* A program of one call of `op` with such shapes, or (*out_shapes) with others
 * where it has none such or the API refuses them; no calls where there is none
 * at all whose leaves have other shapes than the n_seen that `seen` hashes. */
BELL_MUST_CHECK bell_status fuzz_make_one(struct bell_context *ctx,
                                          uint64_t seed, int op, bool lacks_f64,
                                          const uint64_t *seen, uint32_t n_seen,
                                          enum fuzz_shapes *shapes,
                                          struct fuzz_program *out_prog);
/* A hash of its leaves' shapes and, where it has none, of its numbers. */
uint64_t fuzz_hash_shapes(const struct fuzz_program *prog);

/* Whether a call of the function is among the ops. If not, why it is not to
 * be; NULL: it is missing. */
bool fuzz_covers(const struct bell_function *function, const char **out_reason);

/* Is the context's mesh one of two axes, "data" and "model"? */
bool fuzz_has_two_axes(const struct bell_context *ctx);

/* Replaces *ctx (which may be NULL) by a fresh context on the device. */
BELL_MUST_CHECK bell_status fuzz_fresh_context(struct bell_context **ctx,
                                               const char *device);

/* Sizes that are axes of a node become those of node moved[that]. */
void fuzz_redirect_sizes(struct fuzz_node *node, const uint16_t *moved);

/* Removes the nodes that no root needs. */
void fuzz_drop_dead(struct fuzz_program *prog);

/* Prints a C program that does the same with include/doorbell alone and shows
 * each root's values beside the reference's. */
BELL_MUST_CHECK bell_status fuzz_print_c(FILE *out, struct bell_context *ctx,
                                         const struct fuzz_program *prog,
                                         const char *title);

#endif
