/* The IR: interned, immutable nodes, one kind from tensor graph to program.
 *
 * A node is equal to another iff the pointers are equal. Nodes live in the
 * arena of their graph and go with it. Every source has a smaller id than its
 * user, so ids are a topological order. A graph is not thread safe.
 *
 * Stages (enum uop_stage; uop_validate checks what may occur in each):
 *   T  tensor graph: nodes have a shape (uop_shape); elementwise sources have
 *      the very shape of the result, broadcasting is explicit RESHAPE+EXPAND,
 *      except CONST, whose shape is () and which a use elsewhere expands.
 *   K  kernel: SINK of STOREs; index expressions of dtype I64 over RANGEs.
 *      A STORE is done for all values of the RANGEs it depends on that no
 *      REDUCE binds; a REDUCE binds the RANGEs in src1...
 *   P  program: linear list, in order; loops are RANGE ... END.
 */
#ifndef BELL_UOPS_UOP_H
#define BELL_UOPS_UOP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum uop_dtype {
    UOP_VOID,
    UOP_BOOL,
    UOP_I8,
    UOP_U8,
    UOP_I16,
    UOP_U16,
    UOP_I32,
    UOP_U32,
    UOP_I64,
    UOP_U64,
    UOP_F16,
    UOP_BF16,
    UOP_F32,
    UOP_F64,
    UOP_F8E4M3, /* 8-bit floats of the OCP: e4m3 has no infinities */
    UOP_F8E5M2,
    UOP_F8E4M3Z, /* those of CDNA3 ("fnuz"): no infinities, no -0, one NaN */
    UOP_F8E5M2Z,
    UOP_DTYPE_COUNT
};

enum uop_op {
#define UOP(name, min, max, flags, arg, doc) UOP_##name,
#include "uops/ops.def"
#undef UOP
    UOP_OP_COUNT
};

enum uop_argkind {
    UOP_ARG_NONE,
    UOP_ARG_INT,
    UOP_ARG_CONST,
    UOP_ARG_DIMS,
    UOP_ARG_DATA,
};

enum uop_flag {
    UOP_FLAG_T = 1u << 0,
    UOP_FLAG_K = 1u << 1,
    UOP_FLAG_P = 1u << 2,
    UOP_FLAG_ALU = 1u << 3,
    UOP_FLAG_COMM = 1u << 4,
    UOP_FLAG_CMP = 1u << 5,
    UOP_FLAG_INT = 1u << 6,
    UOP_FLAG_FLT = 1u << 7,
    UOP_FLAG_EFFECT = 1u << 8,
    UOP_FLAG_MOVE = 1u << 9,
};

enum uop_stage {
    UOP_STAGE_T = UOP_FLAG_T,
    UOP_STAGE_K = UOP_FLAG_K,
    UOP_STAGE_P = UOP_FLAG_P,
};

/* How a RANGE is run. */
enum uop_axis {
    UOP_AXIS_LOOP,   /* a loop over outputs, in order */
    UOP_AXIS_GLOBAL, /* work-groups of the grid */
    UOP_AXIS_LOCAL,  /* threads of a work-group */
    UOP_AXIS_REDUCE, /* a loop of a reduction */
    UOP_AXIS_GROUP,  /* a reduction's work shared by a work-group's threads */
    UOP_AXIS_UPCAST, /* unrolled copies of outputs, in registers */
    UOP_AXIS_UNROLL, /* unrolled steps of a reduction */
    UOP_AXIS_VECTOR, /* lanes of a vector; at most one such range a value */
    UOP_AXIS_COUNT
};

/* Interned list of integers: dims, axis order, begin/end pairs. Equal lists
 * of one graph have equal pointers. */
struct uop_dims {
    uint32_t n;
    uint32_t hash;
    int64_t d[];
};

/* Payload of LOCAL: one work-group allocation. Interned by address. */
struct uop_local {
    uint32_t id;
    uint32_t n_elems;
};

union uop_arg {
    int64_t i; /* INT; CONST of bool and integers (u64: its bits) */
    double f;  /* CONST of floats, a value exact in the dtype */
    const struct uop_dims *dims;
    const void *data;
    uint64_t bits; /* what interning compares */
};

/* A node. Immutable, owned by the graph. */
struct uop {
    uint8_t op;     /* enum uop_op */
    uint8_t dtype;  /* enum uop_dtype, of one lane */
    uint16_t lanes; /* 1, or the width of the vector */
    uint32_t id;    /* dense; greater than that of every source */
    union uop_arg arg;
    uint32_t n_src;
    uint32_t hash;
    const struct uop *src[];
};

/* Inclusive bounds of an integer value (0..1 for BOOL). */
struct uop_bounds {
    int64_t min, max;
};
#define UOP_ANY_BOUNDS ((struct uop_bounds){INT64_MIN, INT64_MAX})

struct uop_graph {
    struct arena arena;
    const struct uop **table; /* interning: power of two, open addressing */
    size_t n_table, n_nodes;
    const struct uop_dims **dims_table;
    size_t n_dims_table, n_dims;
    const struct uop_dims *last_dims[8]; /* found last, by rank and last size */
    const struct uop **nodes;            /* by id */
    const struct uop_dims **shapes;      /* by id; NULL where not stage T */
    struct uop_bounds *bounds; /* by id below n_bounds; full range above */
    size_t n_bounds;
    size_t cap_nodes, cap_shapes, cap_bounds;
    /* What each node was made for, by id, where has_marks; a node that is found
     * keeps its mark. New ones get what mark_of says, or `mark` without it.
     * Nothing else depends on marks. */
    uint32_t *marks;
    size_t cap_marks;
    uint32_t (*mark_of)(void *user);
    void *mark_user;
    uint32_t mark; /* 0: for nothing that is known */
    bool has_marks;
    struct dim_table *sizes; /* borrowed: of which shapes and args have
                              * expressions (uops/dim.h); NULL: none has */
    bool failed; /* sticky: out of memory; nodes are then &uop_failed */
};

/* What a failed construction returns: a VOID CONST. Using it as a source is
 * allowed and gives it again; uop_graph.failed tells. Never NULL. It has no
 * sources, but 64 are there to be read, which are itself, and as `dims` a list
 * of no sizes, of which 32 can be read as 1. */
extern const struct uop uop_failed;

/* Static facts of an opcode, from ops.def. */
struct uop_op_info {
    const char *name, *doc;
    uint8_t min_src, max_src, arg_kind;
    uint16_t flags;
};
extern const struct uop_op_info uop_op_infos[UOP_OP_COUNT];

struct uop_dtype_info {
    const char *name;       /* PyTorch's: "float32" */
    const char *short_name; /* "f32", in printed IR */
    uint8_t size_bytes;
    bool is_float, is_signed, is_int; /* BOOL: none of them */
    uint8_t fraction_bits;            /* of floats, with all that follows */
    int16_t min_exp;                  /* of normal numbers, 2^min_exp is one */
    bool has_inf, has_minus_zero;
    double greatest; /* finite number */
};
extern const struct uop_dtype_info uop_dtype_infos[UOP_DTYPE_COUNT];

void uop_graph_init(struct uop_graph *g);
void uop_graph_fini(struct uop_graph *g);

/* The mark of a node; 0 where the graph has none. */
static inline uint32_t
uop_mark(const struct uop_graph *g, const struct uop *u)
{
    return g->has_marks && u->id < g->n_nodes ? g->marks[u->id] : 0;
}

/* BELL_OK, or BELL_E_NO_MEMORY when a construction failed. */
BELL_MUST_CHECK bell_status uop_graph_status(const struct uop_graph *g);

/* The node with these parts, found or made; nothing is simplified. Sources
 * belong to `g`. Never NULL (uop_failed when out of memory). */
const struct uop *uop_new(struct uop_graph *g, enum uop_op op,
                          enum uop_dtype dtype, uint16_t lanes,
                          union uop_arg arg, const struct uop *const *src,
                          uint32_t n_src);

/* The same, with a shape: for the tensor graph. */
const struct uop *uop_new_shaped(struct uop_graph *g, enum uop_op op,
                                 enum uop_dtype dtype, union uop_arg arg,
                                 const struct uop *const *src, uint32_t n_src,
                                 const struct uop_dims *shape);

/* An interned list; NULL when out of memory (sticky). */
const struct uop_dims *uop_dims(struct uop_graph *g, const int64_t *d,
                                uint32_t n);

/* Shape of a tensor-graph node. */
static inline const struct uop_dims *
uop_shape(const struct uop_graph *g, const struct uop *u)
{
    return u->id < g->n_nodes ? g->shapes[u->id] : NULL;
}

static inline struct uop_bounds
uop_bounds(const struct uop_graph *g, const struct uop *u)
{
    assert(g->failed || (u->id < g->n_nodes && g->nodes[u->id] == u));
    return u->id < g->n_bounds ? g->bounds[u->id] : UOP_ANY_BOUNDS;
}

/* For qsort of pointers to nodes: as they were made. */
static inline int
uop_compare_ids(const void *a, const void *b)
{
    const struct uop *const *x = a, *const *y = b;

    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static inline bool
uop_dtype_is_float(unsigned dtype)
{
    return uop_dtype_infos[dtype].is_float;
}

static inline bool
uop_is_float(const struct uop *u)
{
    return uop_dtype_is_float(u->dtype);
}

/* Floats of 8 and 16 bits: storage formats, computed in F32. */
static inline bool
uop_dtype_is_small(unsigned dtype)
{
    return uop_dtype_infos[dtype].is_float &&
           uop_dtype_infos[dtype].size_bytes <= 2;
}
static inline bool
uop_dtype_is_f8(unsigned dtype)
{
    return uop_dtype_infos[dtype].is_float &&
           uop_dtype_infos[dtype].size_bytes == 1;
}

static inline bool
uop_has(const struct uop *u, enum uop_flag flag)
{
    return (uop_op_infos[u->op].flags & flag) != 0;
}

/* Constants. A float is rounded to the dtype, an integer wrapped. */
const struct uop *uop_const_int(struct uop_graph *g, enum uop_dtype dtype,
                                int64_t value);
const struct uop *uop_const_float(struct uop_graph *g, enum uop_dtype dtype,
                                  double value);
/* The first value of a reduction by ALU op `op`: x op identity == x. */
const struct uop *uop_identity(struct uop_graph *g, enum uop_op op,
                               enum uop_dtype dtype);
/* A constant of any dtype from a double or, where it is integer, from `i`. */
const struct uop *uop_const_like(struct uop_graph *g, const struct uop *like,
                                 int64_t i);

/* Value of `value` after rounding to a float dtype, or wrapping to an integer
 * one. */
double uop_round_float(enum uop_dtype dtype, double value);
/* The bits of a value that is exact in a float dtype (one form of NaN), and
 * back. */
uint64_t uop_float_bits(enum uop_dtype dtype, double value);
double uop_float_value(enum uop_dtype dtype, uint64_t bits);
int64_t uop_wrap_int(enum uop_dtype dtype, int64_t value);

/* Between what a float's values lie, but for NaN and for what rounding adds:
 * without bounds where the ops that made it do not tell soon. */
struct uop_float_range {
    double min, max;
};

struct uop_float_range uop_float_range(const struct uop *u);
/* Are F32 u and its inverse surely normal numbers? */
bool uop_has_normal_inverse(const struct uop *u);
/* For a BITCAST that clears a float's sign: the bits with the sign; else
 * NULL. */
const struct uop *uop_abs_bits(const struct uop *u);

/* Bounds of a dtype's values (U64: 0..INT64_MAX, floats: all of int64). */
struct uop_bounds uop_dtype_bounds(enum uop_dtype dtype);

/* The most sources of a node of the tensor graph but SINK: a CALL's. */
#define UOP_MAX_CALL_SRC 64

/* arg of SCAN: the op (0: ADD), the axis, and whether results are of what
 * follows. */
static inline int64_t
uop_scan_arg(enum uop_op op, uint32_t axis, bool back)
{
    return (int64_t)(op == UOP_ADD ? 0 : op) << 8 | (int64_t)axis << 1 | back;
}
static inline uint32_t
uop_scan_axis(const struct uop *u)
{
    assert(u->op == UOP_SCAN);
    return (uint32_t)(u->arg.i >> 1 & 0x7f);
}
static inline enum uop_op
uop_scan_op(const struct uop *u)
{
    assert(u->op == UOP_SCAN);
    return u->arg.i >> 8 ? (enum uop_op)(u->arg.i >> 8) : UOP_ADD;
}
static inline bool
uop_scan_back(const struct uop *u)
{
    assert(u->op == UOP_SCAN);
    return u->arg.i & 1;
}

/* arg of REDUCE_AXIS. */
static inline int64_t
uop_reduce_arg(enum uop_op op, uint32_t axis_mask)
{
    return (int64_t)((uint64_t)axis_mask << 8 | (uint64_t)op);
}
static inline enum uop_op
uop_reduce_op(const struct uop *u)
{
    assert(u->op == UOP_REDUCE_AXIS);
    return (u->arg.i & 0xff);
}
static inline uint32_t
uop_reduce_axes(const struct uop *u)
{
    assert(u->op == UOP_REDUCE_AXIS);
    return (uint32_t)((uint64_t)u->arg.i >> 8);
}

/* A reduction of floats whose order shows in last bits: maxima have none. */
static inline bool
uop_sums_floats(const struct uop *u)
{
    enum uop_op op = UOP_MAX;

    if (u->op == UOP_REDUCE_AXIS)
        op = uop_reduce_op(u);
    else if (u->op == UOP_SCAN)
        op = uop_scan_op(u);
    return uop_is_float(u) && op != UOP_MAX && op != UOP_MIN;
}

/* arg of RANGE. Ids are small and unique within a kernel. */
static inline int64_t
uop_range_arg(uint32_t id, enum uop_axis axis)
{
    return (int64_t)((uint64_t)id << 8 | (uint64_t)axis);
}
static inline uint32_t
uop_range_id(const struct uop *u)
{
    assert(u->op == UOP_RANGE);
    return (uint32_t)((uint64_t)u->arg.i >> 8);
}
static inline enum uop_axis
uop_range_axis(const struct uop *u)
{
    assert(u->op == UOP_RANGE);
    return (enum uop_axis)(u->arg.i & 0xff);
}

/* arg of INDEX: a power of two that divides src1, and whether src1 times 8 is
 * known to be in 0..INT32_MAX. */
static inline int64_t
uop_index_arg(uint32_t align, bool is_short)
{
    return (int64_t)((uint64_t)align << 1 | is_short);
}
static inline uint32_t
uop_index_align(const struct uop *u)
{
    return (uint32_t)((uint64_t)u->arg.i >> 1);
}
static inline bool
uop_index_is_short(const struct uop *u)
{
    return u->arg.i & 1;
}

/* The INDEX behind AFTERs, or NULL; the PARAM, LOCAL or ACC behind both. */
static inline const struct uop *
uop_index_of(const struct uop *u)
{
    while (u->op == UOP_AFTER && u->n_src)
        u = u->src[0];
    return u->op == UOP_INDEX ? u : NULL;
}
static inline const struct uop *
uop_memory(const struct uop *u)
{
    while ((u->op == UOP_AFTER || u->op == UOP_INDEX) && u->n_src)
        u = u->src[0];
    return u;
}
/* The most keys of a SORT_AXIS; of more than UOP_MOST_IN_REGISTERS a kernel
 * is a SORT. */
#define UOP_MOST_EXCHANGED    4096
#define UOP_MOST_IN_REGISTERS 16

static inline bool
uop_is_memory(const struct uop *u)
{
    u = uop_memory(u);
    return u->op == UOP_PARAM || u->op == UOP_LOCAL;
}
/* Looks at an index: true where lane i is *out_first + i * *out_step.
 * Consecutive elements that have one index have step 1. */
bool uop_index_steps(const struct uop *index, int64_t *out_first,
                     int64_t *out_step);

/* The node with these parts after constant folding and the symbolic rules of
 * uops/symbolic.c; for the kernel and program stages, where shapes are gone.
 * Both may return a node of another op. */
const struct uop *uop_make(struct uop_graph *g, enum uop_op op,
                           enum uop_dtype dtype, uint16_t lanes,
                           union uop_arg arg, const struct uop *const *src,
                           uint32_t n_src);

/* uop_make for ALU ops; dtype and lanes come from the sources. */
const struct uop *uop_alu1(struct uop_graph *g, enum uop_op op,
                           const struct uop *a);
const struct uop *uop_alu2(struct uop_graph *g, enum uop_op op,
                           const struct uop *a, const struct uop *b);
const struct uop *uop_alu3(struct uop_graph *g, enum uop_op op,
                           const struct uop *a, const struct uop *b,
                           const struct uop *c);
const struct uop *uop_cast(struct uop_graph *g, const struct uop *a,
                           enum uop_dtype dtype);
const struct uop *uop_range(struct uop_graph *g, uint32_t id,
                            enum uop_axis axis, int64_t size);

/* Value of an ALU, CAST or BITCAST op on constants: the one place that says
 * what each op means on numbers. False where it has no constant value. */
bool uop_const_eval(enum uop_op op, enum uop_dtype dtype,
                    const struct uop *const *src, uint32_t n_src,
                    union uop_arg *out_arg);

/* All nodes reachable from the roots, sources first. *out_list is host
 * memory, the caller's to free with host_free. */
BELL_MUST_CHECK bell_status uop_toposort(const struct uop_graph *g,
                                         const struct uop *const *roots,
                                         size_t n_roots,
                                         const struct uop ***out_list,
                                         size_t *out_n);

/* The same under one root, in an order that the structure alone decides: not
 * the ids, which tell what else was made before. */
BELL_MUST_CHECK bell_status uop_canonical_order(const struct uop *root,
                                                const struct uop ***out_list,
                                                size_t *out_n);

/* Rebuilds `roots` in `g` (in place) with from[i] replaced by to[i], through
 * uop_make. Iterative, visits each node once. */
BELL_MUST_CHECK bell_status uop_substitute(
    struct uop_graph *g, const struct uop **roots, size_t n_roots,
    const struct uop *const *from, const struct uop *const *to, size_t n_pairs);

/* Copies what is under `root`, of the kernel or program stage, into another,
 * graph, in its canonical order: equal roots become equal copies. */
BELL_MUST_CHECK bell_status uop_graph_copy(const struct uop *root,
                                           struct uop_graph *to,
                                           const struct uop **out_root);

/* Checks what may occur in a stage: ops, source counts, dtypes, lanes, args,
 * bound ranges. The message names the node as printed. */
BELL_MUST_CHECK bell_status uop_validate(const struct uop_graph *g,
                                         const struct uop *const *roots,
                                         size_t n_roots, enum uop_stage stage);

/* What every pass does with what it made: uop_validate in debug builds, where
 * the message says which `pass` it was; BELL_OK in others. A failed graph is
 * BELL_E_NO_MEMORY in both. */
BELL_MUST_CHECK bell_status uop_validate_pass(const struct uop_graph *g,
                                              const struct uop *const *roots,
                                              size_t n_roots,
                                              enum uop_stage stage,
                                              const char *pass);

/* Text form (uops/print.c, uops/parse.c); parse(print(x)) == x in one graph.
 * *out_text is the caller's to free with host_free. */
BELL_MUST_CHECK bell_status uop_print(const struct uop_graph *g,
                                      const struct uop *const *roots,
                                      size_t n_roots, char **out_text);
BELL_MUST_CHECK bell_status uop_parse(struct uop_graph *g, const char *text,
                                      const struct uop ***out_roots,
                                      size_t *out_n_roots);
/* Graphviz source of the graph under the roots. */
BELL_MUST_CHECK bell_status uop_dot(const struct uop_graph *g,
                                    const struct uop *const *roots,
                                    size_t n_roots, char **out_text);
/* One expression on one line, C-like: "x*4 + i0". For messages and tests;
 * writes at most size_bytes, returns `buf`. */
char *uop_expr_str(const struct uop *u, char *buf, size_t size_bytes);

#endif
