/* Tensor-graph nodes: what public calls, compositions and gradients build
 * with.
 *
 * "tn" is tensor node. Arguments were checked by the caller: dtypes of the
 * operands agree, axes are in range, shapes broadcast. Calls do the trivial
 * simplifications (a reshape to the same shape, x * 1, constants folded,
 * reductions and padding of nothing) and never fail but by giving
 * uop_failed, which passes through: out of memory, or a shape with too many
 * elements or axes (ctx->node_error). tensor_new turns that into an error.
 * The shape of uop_failed is readable: no axes, but sizes of 1.
 */
#ifndef BELL_TENSOR_CORE_NODE_H
#define BELL_TENSOR_CORE_NODE_H

#include "tensor/core/tensor_internal.h"

/* Most axes of a node: a set of axes is a mask of 32 bits. A composition that
 * splits axes fails where a tensor has so many that it comes to more. */
#define TN_MOST_AXES 32
/* Length of lists of axes: those of a composition may be twice
 * BELL_MAX_RANK before a node refuses them. */
#define TN_MAX_RANK (2 * BELL_MAX_RANK)
/* Most elements of a node: their bytes fit in int64_t. */
#define TN_MAX_NUMEL ((int64_t)1 << 58)

/* The mask of one axis; none where it is one too many, as the last axis of what
 * failed for that. */
static inline uint32_t
tn_axis_bit(uint32_t axis)
{
    return axis < TN_MOST_AXES ? 1u << axis : 0;
}

/* The mask of the first n axes. */
static inline uint32_t
tn_axes_below(uint32_t n)
{
    return n < TN_MOST_AXES ? (1u << n) - 1 : UINT32_MAX;
}

static inline bool
tn_bad(const struct uop *u)
{
    return u == &uop_failed;
}

static inline bool
tn_is_float(const struct uop *u)
{
    return uop_dtype_infos[u->dtype].is_float;
}

/* Shape of a node; a CONST's is (). */
static inline const struct uop_dims *
tn_shape(const struct bell_context *ctx, const struct uop *u)
{
    const struct uop_dims *shape;

    if (tn_bad(u))
        return u->arg.dims;
    shape = ctx->graph.shapes[u->id];
    return shape ? shape : ctx->scalar_dims;
}

static inline uint32_t
tn_rank(const struct bell_context *ctx, const struct uop *u)
{
    return tn_shape(ctx, u)->n;
}

static inline int64_t
tn_size(const struct bell_context *ctx, const struct uop *u, uint32_t axis)
{
    return tn_shape(ctx, u)->d[axis];
}

/* Number of elements; where sizes vary, the most that there can be. */
int64_t tn_numel(const struct bell_context *ctx, const struct uop *u);
/* The same as a size. */
int64_t tn_elems(const struct bell_context *ctx, const struct uop *u);
/* All elements along one axis. */
const struct uop *tn_flat(struct bell_context *ctx, const struct uop *u);
/* Product of the numbers d[0..n-1], or -1 if that is more than TN_MAX_NUMEL. */
int64_t tn_product(const int64_t *d, uint32_t n);
/* uop_failed, with a reason for tensor_new. */
const struct uop *tn_fail(struct bell_context *ctx, bell_status status,
                          const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- leaves ---- */

const struct uop *tn_int(struct bell_context *ctx, enum uop_dtype dtype,
                         int64_t value);
const struct uop *tn_float(struct bell_context *ctx, enum uop_dtype dtype,
                           double value);
/* A float or integer dtype's constant from a double. */
const struct uop *tn_const(struct bell_context *ctx, enum uop_dtype dtype,
                           double value);
/* A size as a number, I64, of shape (); of a symbol it is what that is in each
 * run (dims.c). */
const struct uop *tn_count(struct bell_context *ctx, int64_t size);
/* The number of u's elements along the axes, in a float dtype: a constant if
 * sizes are plain. */
const struct uop *tn_count_axes(struct bell_context *ctx, const struct uop *u,
                                uint32_t axis_mask, enum uop_dtype dtype);
/* The same of another node's dtype. */
static inline const struct uop *
tn_num(struct bell_context *ctx, const struct uop *like, double value)
{
    return tn_const(ctx, like->dtype, value);
}
/* The constant `c` in every element of a shape. */
const struct uop *tn_full(struct bell_context *ctx, const struct uop *c,
                          const int64_t *d, uint32_t n);
/* The CONST that every element of u is, or NULL. */
const struct uop *tn_peel(const struct uop *u);
/* 0..n-1 along `axis` of a shape of `rank` axes, the others of size 1. */
const struct uop *tn_iota(struct bell_context *ctx, uint32_t rank,
                          uint32_t axis, int64_t n, enum uop_dtype dtype);

/* ---- elementwise; operands broadcast ---- */

const struct uop *tn_alu1(struct bell_context *ctx, enum uop_op op,
                          const struct uop *a);
const struct uop *tn_alu2(struct bell_context *ctx, enum uop_op op,
                          const struct uop *a, const struct uop *b);
/* a * b + c on floats, rounded once where the device can. */
const struct uop *tn_madd(struct bell_context *ctx, const struct uop *a,
                          const struct uop *b, const struct uop *c);
const struct uop *tn_where(struct bell_context *ctx, const struct uop *cond,
                           const struct uop *a, const struct uop *b);
const struct uop *tn_cast(struct bell_context *ctx, const struct uop *a,
                          enum uop_dtype dtype);
/* Floats of 8 and 16 bits as float32, others as they are. */
static inline const struct uop *
tn_widen(struct bell_context *ctx, const struct uop *a)
{
    return uop_dtype_is_small(a->dtype) ? tn_cast(ctx, a, UOP_F32) : a;
}
const struct uop *tn_bitcast(struct bell_context *ctx, const struct uop *a,
                             enum uop_dtype dtype);
/* A number as an integer or bool of that dtype, as CAST converts floats. */
int64_t tn_saturate(enum uop_dtype dtype, double value);
/* CONTIGUOUS or DETACH. */
const struct uop *tn_wrap(struct bell_context *ctx, enum uop_op op,
                          const struct uop *a);
/* The shape that n shapes broadcast to; false if they do not (or have more
 * than TN_MAX_RANK axes). */
bool tn_broadcast_shape(const struct uop_dims *const *shapes, uint32_t n,
                        int64_t *out_d, uint32_t *out_n);

#define TN_ALU1(name, op)                                                      \
    static inline const struct uop *tn_##name(struct bell_context *ctx,        \
                                              const struct uop *a)             \
    {                                                                          \
        return tn_alu1(ctx, op, a);                                            \
    }
#define TN_ALU2(name, op)                                                      \
    static inline const struct uop *tn_##name(                                 \
        struct bell_context *ctx, const struct uop *a, const struct uop *b)    \
    {                                                                          \
        return tn_alu2(ctx, op, a, b);                                         \
    }
TN_ALU1(neg, UOP_NEG)
TN_ALU1(recip, UOP_RECIP)
TN_ALU1(sqrt, UOP_SQRT)
TN_ALU1(exp2, UOP_EXP2)
TN_ALU1(log2, UOP_LOG2)
TN_ALU1(sin, UOP_SIN)
TN_ALU1(cos, UOP_COS)
TN_ALU1(trunc, UOP_TRUNC)
TN_ALU2(add, UOP_ADD)
TN_ALU2(sub, UOP_SUB)
TN_ALU2(mul, UOP_MUL)
TN_ALU2(fdiv, UOP_FDIV)
TN_ALU2(max, UOP_MAX)
TN_ALU2(min, UOP_MIN)
TN_ALU2(and, UOP_AND)
TN_ALU2(or, UOP_OR)
TN_ALU2(xor, UOP_XOR)
TN_ALU2(lt, UOP_CMPLT)
TN_ALU2(eq, UOP_CMPEQ)
TN_ALU2(ne, UOP_CMPNE)
#undef TN_ALU1
#undef TN_ALU2

/* With a constant of a's dtype. */
const struct uop *tn_add_c(struct bell_context *ctx, const struct uop *a,
                           double c);
const struct uop *tn_mul_c(struct bell_context *ctx, const struct uop *a,
                           double c);
/* not a, of bool. */
const struct uop *tn_not(struct bell_context *ctx, const struct uop *a);
/* 2^(a log2 e), ln a. */
const struct uop *tn_exp(struct bell_context *ctx, const struct uop *a);
/* exp(a) as value * scale. Where a is below -80 the value is exp(a + 40), so
 * that factors which bring the result back among normal numbers may come
 * between: a subnormal exponential has few digits, and on some devices none. */
struct tn_scaled {
    const struct uop *value, *scale;
};
struct tn_scaled tn_scaled_exp(struct bell_context *ctx, const struct uop *a);
const struct uop *tn_log(struct bell_context *ctx, const struct uop *a);

/* ---- movement; pads and bounds are pairs, one per axis ---- */

const struct uop *tn_reshape(struct bell_context *ctx, const struct uop *u,
                             const int64_t *d, uint32_t n);
const struct uop *tn_permute(struct bell_context *ctx, const struct uop *u,
                             const int64_t *order);
const struct uop *tn_swap(struct bell_context *ctx, const struct uop *u,
                          uint32_t axis0, uint32_t axis1);
/* Axis `from` becomes axis `to`; the others keep their order. */
const struct uop *tn_move_axis(struct bell_context *ctx, const struct uop *u,
                               uint32_t from, uint32_t to);
/* Axes of size 1 repeated; same rank. */
const struct uop *tn_expand(struct bell_context *ctx, const struct uop *u,
                            const int64_t *d);
/* New axes in front, then axes of size 1 repeated. */
const struct uop *tn_broadcast(struct bell_context *ctx, const struct uop *u,
                               const int64_t *d, uint32_t n);
const struct uop *tn_pad(struct bell_context *ctx, const struct uop *u,
                         const int64_t *pads);
const struct uop *tn_shrink(struct bell_context *ctx, const struct uop *u,
                            const int64_t *bounds);
const struct uop *tn_flip(struct bell_context *ctx, const struct uop *u,
                          uint32_t axis_mask);
/* The same on one axis. */
const struct uop *tn_pad_axis(struct bell_context *ctx, const struct uop *u,
                              uint32_t axis, int64_t before, int64_t after);
const struct uop *tn_shrink_axis(struct bell_context *ctx, const struct uop *u,
                                 uint32_t axis, int64_t begin, int64_t end);
/* An axis of size 1 put in; axes of size 1 taken out. */
const struct uop *tn_unsqueeze(struct bell_context *ctx, const struct uop *u,
                               uint32_t axis);
const struct uop *tn_squeeze(struct bell_context *ctx, const struct uop *u,
                             uint32_t axis_mask);
/* Axis `axis` split in two of sizes outer, inner; axes merged with the next.
 */
const struct uop *tn_split_axis(struct bell_context *ctx, const struct uop *u,
                                uint32_t axis, int64_t outer, int64_t inner);
const struct uop *tn_merge_axes(struct bell_context *ctx, const struct uop *u,
                                uint32_t axis, uint32_t count);
/* Every step-th element of an axis, from `begin` on, `count` of them. */
const struct uop *tn_stride_axis(struct bell_context *ctx, const struct uop *u,
                                 uint32_t axis, int64_t begin, int64_t step,
                                 int64_t count);
/* steps-1 zeros after each element but the last. */
const struct uop *tn_stuff_axis(struct bell_context *ctx, const struct uop *u,
                                uint32_t axis, int64_t step);

/* Padded with a value (movement.c). */
const struct uop *tn_pad_value(struct bell_context *ctx, const struct uop *u,
                               const int64_t *pads, double value);
/* With `before` and `after` elements that the mode takes from the axis, which
 * has enough of them (movement.c). */
const struct uop *tn_pad_mode(struct bell_context *ctx, const struct uop *u,
                              uint32_t axis, int64_t before, int64_t after,
                              enum bell_pad_mode mode);
/* n parts (at least one), joined along an axis; the list is overwritten
 * (movement.c). */
const struct uop *tn_join(struct bell_context *ctx, const struct uop **parts,
                          uint32_t n, uint32_t axis);
/* The first n elements of the main diagonal of the last two axes. */
const struct uop *tn_diagonal(struct bell_context *ctx, const struct uop *u,
                              int64_t n);

/* ---- reductions; reduced axes stay with size 1 ---- */

/* The constant that changes nothing: of ADD, MUL, MAX, MIN. */
const struct uop *tn_neutral(struct bell_context *ctx, enum uop_op op,
                             enum uop_dtype dtype);
/* In u's own dtype. */
const struct uop *tn_reduce(struct bell_context *ctx, enum uop_op op,
                            const struct uop *u, uint32_t axis_mask);
/* ADD or MUL; floats of 8 and 16 bits accumulate in float32. */
const struct uop *tn_accumulate(struct bell_context *ctx, enum uop_op op,
                                const struct uop *u, uint32_t axis_mask);
static inline const struct uop *
tn_sum(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask)
{
    return tn_accumulate(ctx, UOP_ADD, u, axis_mask);
}
/* The sum of u over the axes that broadcasting added or repeated to come from
 * shape d[0..n-1] to u's. */
const struct uop *tn_sum_to(struct bell_context *ctx, const struct uop *u,
                            const int64_t *d, uint32_t n);

/* ---- indexing ---- */

/* UOP_GATHER; x's and index' sizes agree but on `axis`. */
const struct uop *tn_gather(struct bell_context *ctx, const struct uop *x,
                            uint32_t axis, const struct uop *index);
/* UOP_SCAN; not of BOOL. */
const struct uop *tn_running(struct bell_context *ctx, enum uop_op op,
                             const struct uop *u, uint32_t axis, bool back);

/* UOP_SORT_AXIS. */
const struct uop *tn_exchange(struct bell_context *ctx, const struct uop *u,
                              bool bitonic);
/* The most elements of an axis that may be ordered. */
#define TN_MAX_ORDERED ((int64_t)1 << 32)
/* The positions of the elements of u, of one axis, I64, in the order of u's
 * high bits: those that the number of its elements leaves. With 64 random bits
 * each it is a random order (sort.c). */
const struct uop *tn_shuffle(struct bell_context *ctx, const struct uop *u);
/* Windows of an axis: its place is taken by the windows' number, and the
 * window's `size` elements are a new axis just after it:
 * out[.., w, k, ..] = x[.., w * step + k * dilation, ..]. n windows. */
const struct uop *tn_unfold(struct bell_context *ctx, const struct uop *u,
                            uint32_t axis, int64_t n, int64_t size,
                            int64_t step, int64_t dilation);
/* The adjoint of tn_unfold: adds each window's elements to where they came
 * from; x_size is the size of the axis that was unfolded. */
const struct uop *tn_fold(struct bell_context *ctx, const struct uop *u,
                          uint32_t axis, int64_t x_size, int64_t step,
                          int64_t dilation);

#endif
