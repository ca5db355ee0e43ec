/* Tensor-graph nodes: leaves, elementwise ops, reductions, gather. Movement is
 * in move.c.
 */
#include "tensor/core/node.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tensor/core/rules.h"

static const union uop_arg no_arg = {.bits = 0};

/* An empty tensor may have sizes whose product would overflow: zeros are
 * looked for first. -1: more elements than are counted. */
int64_t
tn_product(const int64_t *d, uint32_t n)
{
    int64_t p = 1;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (d[i] == 0)
            return 0;
    }
    for (i = 0; i < n; i++) {
        if (d[i] > TN_MAX_NUMEL / p)
            return -1;
        p *= d[i];
    }
    return p;
}

int64_t
tn_numel(const struct bell_context *ctx, const struct uop *u)
{
    const struct uop_dims *shape = tn_shape(ctx, u);

    return dims_most(ctx->dims, shape->d, shape->n);
}

int64_t
tn_elems(const struct bell_context *ctx, const struct uop *u)
{
    const struct uop_dims *shape = tn_shape(ctx, u);

    return dims_in(shape->d, shape->n)
               ? dim_product(ctx->dims, shape->d, shape->n)
               : tn_product(shape->d, shape->n);
}

const struct uop *
tn_flat(struct bell_context *ctx, const struct uop *u)
{
    int64_t n = tn_elems(ctx, u);

    return tn_bad(u) ? u : tn_reshape(ctx, u, &n, 1);
}

const struct uop *
tn_count_axes(struct bell_context *ctx, const struct uop *u, uint32_t axis_mask,
              enum uop_dtype dtype)
{
    int64_t d[TN_MAX_RANK];
    uint32_t n = 0, i;

    for (i = 0; i < tn_rank(ctx, u); i++) {
        if (axis_mask & 1u << i)
            d[n++] = tn_size(ctx, u, i);
    }
    if (!dims_in(d, n))
        return tn_const(ctx, dtype, (double)tn_product(d, n));
    return tn_cast(ctx, tn_count(ctx, dim_product(ctx->dims, d, n)), dtype);
}

/* The first reason is kept: what follows from a failed node says nothing new.
 * */
const struct uop *
tn_fail(struct bell_context *ctx, bell_status status, const char *fmt, ...)
{
    struct bell_error *why = &ctx->node_error;
    va_list args;

    if (why->status == BELL_OK) {
        why->status = status;
        va_start(args, fmt);
        vsnprintf(why->message, sizeof(why->message), fmt, args);
        va_end(args);
    }
    return &uop_failed;
}

/* ---- leaves ---- */

/* A CONST has no axes wherever it is: interned constants carry the scalar's
 * shape. */
static const struct uop *
shape_const(struct bell_context *ctx, const struct uop *u)
{
    if (!tn_bad(u))
        ctx->graph.shapes[u->id] = ctx->scalar_dims;
    return u;
}

const struct uop *
tn_int(struct bell_context *ctx, enum uop_dtype dtype, int64_t value)
{
    if (dtype == UOP_VOID) /* that of uop_failed */
        return &uop_failed;
    return shape_const(ctx, uop_const_int(&ctx->graph, dtype, value));
}

const struct uop *
tn_float(struct bell_context *ctx, enum uop_dtype dtype, double value)
{
    if (dtype == UOP_VOID)
        return &uop_failed;
    return shape_const(ctx, uop_const_float(&ctx->graph, dtype, value));
}

/* As CAST converts: truncated, beyond the dtype its nearest end, NaN 0. */
const struct uop *
tn_const(struct bell_context *ctx, enum uop_dtype dtype, double value)
{
    if (uop_dtype_infos[dtype].is_float)
        return tn_float(ctx, dtype, value);
    return tn_int(ctx, dtype, tn_saturate(dtype, value));
}

int64_t
tn_saturate(enum uop_dtype dtype, double value)
{
    struct uop_bounds bounds = uop_dtype_bounds(dtype);

    if (dtype == UOP_BOOL)
        return value != 0;
    if (isnan(value))
        return 0;
    if (dtype == UOP_U64)
        return value >= 0x1p64   ? -1
               : value >= 0x1p63 ? (int64_t)(uint64_t)value
               : value <= 0      ? 0
                                 : (int64_t)value;
    if (value >= (double)bounds.max)
        return bounds.max;
    return value <= (double)bounds.min ? bounds.min : (int64_t)value;
}

const struct uop *
tn_full(struct bell_context *ctx, const struct uop *c, const int64_t *d,
        uint32_t n)
{
    return n ? tn_broadcast(ctx, c, d, n) : c;
}

/* The constant that fills a tensor, through the movement that spread it, or
 * NULL. Arithmetic on such tensors is done while the graph is built. */
const struct uop *
tn_peel(const struct uop *u)
{
    if (u->op == UOP_EXPAND)
        u = u->src[0];
    if (u->op == UOP_RESHAPE)
        u = u->src[0];
    return u->op == UOP_CONST ? u : NULL;
}

/* 0, 1, ... along one axis, of size 1 elsewhere: users broadcast it. A row of
 * one is a constant and folds. */
const struct uop *
tn_iota(struct bell_context *ctx, uint32_t rank, uint32_t axis, int64_t n,
        enum uop_dtype dtype)
{
    union uop_arg arg = {.i = n};
    const struct uop_dims *shape = uop_dims(&ctx->graph, &n, 1);
    int64_t d[TN_MAX_RANK];
    const struct uop *u;
    uint32_t i;

    assert(n >= 0 && rank <= TN_MAX_RANK);
    if (!shape || axis >= rank) { /* the rank of a node that failed */
        assert(ctx->graph.failed || ctx->node_error.status != BELL_OK);
        return &uop_failed;
    }
    if (n <= 1)
        u = tn_full(ctx, tn_int(ctx, UOP_I64, 0), &n, 1);
    else
        u = uop_new_shaped(&ctx->graph, UOP_IOTA, UOP_I64, arg, NULL, 0, shape);
    for (i = 0; i < rank; i++)
        d[i] = 1;
    d[axis] = n;
    return tn_cast(ctx, tn_reshape(ctx, u, d, rank), dtype);
}

/* ---- elementwise ---- */

/* Sizes are compared from the last axis on; a size of 1 fits any. */
bool
tn_broadcast_shape(const struct uop_dims *const *shapes, uint32_t n,
                   int64_t *out_d, uint32_t *out_n)
{
    uint32_t rank = 0, i, j;

    for (i = 0; i < n; i++) {
        if (shapes[i]->n > rank)
            rank = shapes[i]->n;
    }
    if (rank > TN_MOST_AXES)
        return false;
    for (j = 0; j < rank; j++)
        out_d[j] = 1;
    for (i = 0; i < n; i++) {
        uint32_t skip = rank - shapes[i]->n;
        for (j = skip; j < rank; j++) {
            int64_t size = shapes[i]->d[j - skip];
            if (size == 1 || size == out_d[j])
                continue;
            if (out_d[j] != 1)
                return false;
            out_d[j] = size;
        }
    }
    *out_n = rank;
    return true;
}

/* A CONST with the op done on constants, or NULL. */
static const struct uop *
fold_consts(struct bell_context *ctx, enum uop_op op, enum uop_dtype dtype,
            const struct uop *const *src, uint32_t n)
{
    union uop_arg arg;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (src[i]->op != UOP_CONST)
            return NULL;
    }
    if (!uop_const_eval(op, dtype, src, n, &arg))
        return NULL;
    return shape_const(ctx,
                       uop_new(&ctx->graph, UOP_CONST, dtype, 1, arg, NULL, 0));
}

/* An op on sources of one shape (or CONST), all of them not failed. */
static const struct uop *
make_alu_node(struct bell_context *ctx, enum uop_op op, enum uop_dtype dtype,
              const struct uop *const *src, uint32_t n,
              const struct uop_dims *shape)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        assert(src[i]->op == UOP_CONST || tn_shape(ctx, src[i]) == shape);
        assert(src[i]->dtype == src[n - 1]->dtype ||
               (op == UOP_WHERE && i == 0 && src[0]->dtype == UOP_BOOL));
    }
    return uop_new_shaped(&ctx->graph, op, dtype, no_arg, src, n, shape);
}

/* Brings sources to one shape: CONSTs stay what they are where another source
 * has the whole shape. Returns the shape, NULL when out of memory. */
static const struct uop_dims *
align_sources(struct bell_context *ctx, const struct uop **src, uint32_t n)
{
    const struct uop_dims *shapes[3], *shape;
    int64_t d[TN_MAX_RANK];
    bool full = false, as_is = true;
    uint32_t i, rank;

    for (i = 0; i < n; i++) {
        shapes[i] = tn_shape(ctx, src[i]);
        as_is = as_is && shapes[i] == shapes[0] && !tn_peel(src[i]);
    }
    if (as_is)
        return shapes[0];
    if (!tn_broadcast_shape(shapes, n, d, &rank))
        return NULL;
    shape = uop_dims(&ctx->graph, d, rank);
    for (i = 0; i < n; i++)
        full = full || (shapes[i] == shape && !tn_peel(src[i]));
    for (i = 0; i < n && shape; i++) {
        const struct uop *c = full ? tn_peel(src[i]) : NULL;
        src[i] = c ? c : tn_broadcast(ctx, src[i], d, rank);
        if (tn_bad(src[i]))
            return NULL;
    }
    return shape;
}

/* The op on sources that are constant in every element: folded. */
static const struct uop *
fold_full(struct bell_context *ctx, enum uop_op op, enum uop_dtype dtype,
          const struct uop *const *src, uint32_t n,
          const struct uop_dims *shape)
{
    const struct uop *peeled[3], *folded;
    uint32_t i;

    for (i = 0; i < n; i++) {
        peeled[i] = tn_peel(src[i]);
        if (!peeled[i])
            return NULL;
    }
    folded = fold_consts(ctx, op, dtype, peeled, n);
    return folded ? tn_full(ctx, folded, shape->d, shape->n) : NULL;
}

/* Where all sources are constants the result is one: no node of the op is
 * made. */
static const struct uop *
align_and_make(struct bell_context *ctx, enum uop_op op, enum uop_dtype dtype,
               const struct uop **src, uint32_t n)
{
    const struct uop_dims *shape = align_sources(ctx, src, n);
    const struct uop *folded;

    if (!shape)
        return &uop_failed;
    folded = fold_full(ctx, op, dtype, src, n, shape);
    return folded ? folded : make_alu_node(ctx, op, dtype, src, n, shape);
}

const struct uop *
tn_alu1(struct bell_context *ctx, enum uop_op op, const struct uop *a)
{
    enum uop_dtype dtype = a->dtype;
    const struct uop *folded;

    if (tn_bad(a))
        return a;
    folded = fold_full(ctx, op, dtype, &a, 1, tn_shape(ctx, a));
    return folded ? folded
                  : make_alu_node(ctx, op, dtype, &a, 1, tn_shape(ctx, a));
}

static bool
is_one(const struct uop *u)
{
    return u->op == UOP_CONST &&
           (tn_is_float(u) ? u->arg.f == 1.0 : u->arg.i == 1);
}

/* The short cuts cover what training steps build most: sources of one shape,
 * and one constant. x * 1 and x / 1 are x to the bit, NaN and -0.0 as well. */
const struct uop *
tn_alu2(struct bell_context *ctx, enum uop_op op, const struct uop *a,
        const struct uop *b)
{
    enum uop_dtype dtype = op == UOP_CMPLT || op == UOP_CMPEQ || op == UOP_CMPNE
                               ? UOP_BOOL
                               : a->dtype;
    const struct uop *src[2] = {a, b};

    if (tn_bad(a) || tn_bad(b))
        return &uop_failed;
    if (a->op != UOP_CONST && a->op != UOP_EXPAND && b->op != UOP_EXPAND) {
        const struct uop_dims *shape = tn_shape(ctx, a);
        if (b->op == UOP_CONST) {
            if ((op == UOP_MUL || op == UOP_FDIV) && is_one(b))
                return a;
            return make_alu_node(ctx, op, dtype, src, 2, shape);
        }
        if (shape == tn_shape(ctx, b))
            return make_alu_node(ctx, op, dtype, src, 2, shape);
    }
    if (op == UOP_MUL && is_one(a))
        return b;
    return align_and_make(ctx, op, dtype, src, 2);
}

const struct uop *
tn_madd(struct bell_context *ctx, const struct uop *a, const struct uop *b,
        const struct uop *c)
{
    const struct uop *src[3] = {a, b, c};

    if (tn_bad(a) || tn_bad(b) || tn_bad(c))
        return &uop_failed;
    return align_and_make(ctx, UOP_MULACC, a->dtype, src, 3);
}

const struct uop *
tn_where(struct bell_context *ctx, const struct uop *cond, const struct uop *a,
         const struct uop *b)
{
    const struct uop *src[3] = {cond, a, b}, *c;
    const struct uop_dims *shape;

    if (tn_bad(cond) || tn_bad(a) || tn_bad(b))
        return &uop_failed;
    c = tn_peel(cond);
    if (c) {
        shape = align_sources(ctx, src, 3);
        if (!shape)
            return &uop_failed;
        return tn_broadcast(ctx, c->arg.i ? src[1] : src[2], shape->d,
                            shape->n);
    }
    return align_and_make(ctx, UOP_WHERE, a->dtype, src, 3);
}

const struct uop *
tn_cast(struct bell_context *ctx, const struct uop *a, enum uop_dtype dtype)
{
    const struct uop *folded;

    if (tn_bad(a) || a->dtype == dtype)
        return a;
    folded = fold_full(ctx, UOP_CAST, dtype, &a, 1, tn_shape(ctx, a));
    return folded
               ? folded
               : make_alu_node(ctx, UOP_CAST, dtype, &a, 1, tn_shape(ctx, a));
}

const struct uop *
tn_bitcast(struct bell_context *ctx, const struct uop *a, enum uop_dtype dtype)
{
    const struct uop *folded;

    if (tn_bad(a) || a->dtype == dtype)
        return a;
    folded = fold_full(ctx, UOP_BITCAST, dtype, &a, 1, tn_shape(ctx, a));
    return folded ? folded
                  : make_alu_node(ctx, UOP_BITCAST, dtype, &a, 1,
                                  tn_shape(ctx, a));
}

const struct uop *
tn_wrap(struct bell_context *ctx, enum uop_op op, const struct uop *a)
{
    if (tn_bad(a) || (a->op == op && !tensor_rule_find(ctx, a)) ||
        (op == UOP_CONTIGUOUS && a->op == UOP_BUFFER) ||
        (op == UOP_DETACH && a->op == UOP_CONST))
        return a;
    return make_alu_node(ctx, op, a->dtype, &a, 1, tn_shape(ctx, a));
}

const struct uop *
tn_add_c(struct bell_context *ctx, const struct uop *a, double c)
{
    return tn_add(ctx, a, tn_const(ctx, a->dtype, c));
}

const struct uop *
tn_mul_c(struct bell_context *ctx, const struct uop *a, double c)
{
    return tn_mul(ctx, a, tn_const(ctx, a->dtype, c));
}

const struct uop *
tn_not(struct bell_context *ctx, const struct uop *a)
{
    return tn_ne(ctx, a, tn_int(ctx, UOP_BOOL, 1));
}

const struct uop *
tn_exp(struct bell_context *ctx, const struct uop *a)
{
    const struct uop *y = tn_exp2(ctx, tn_mul_c(ctx, a, 1.4426950408889634074));

    return tensor_slope(ctx, y, a, y);
}

struct tn_scaled
tn_scaled_exp(struct bell_context *ctx, const struct uop *a)
{
    const struct uop *far = tn_lt(ctx, a, tn_num(ctx, a, -80));
    struct tn_scaled e;

    e.value = tn_exp(ctx, tn_where(ctx, far, tn_add_c(ctx, a, 40), a));
    e.scale = tn_where(ctx, far, tn_num(ctx, a, 4.248354255291589e-18),
                       tn_num(ctx, a, 1));
    return e;
}

const struct uop *
tn_log(struct bell_context *ctx, const struct uop *a)
{
    const struct uop *y =
        tn_mul_c(ctx, tn_log2(ctx, a), 0.69314718055994530942);

    return tensor_slope(ctx, y, a, tn_recip(ctx, a));
}

/* ---- reductions ---- */

const struct uop *
tn_neutral(struct bell_context *ctx, enum uop_op op, enum uop_dtype dtype)
{
    struct uop_bounds bounds = uop_dtype_bounds(dtype);
    bool is_max = op == UOP_MAX;

    if (op == UOP_ADD || op == UOP_MUL)
        return tn_const(ctx, dtype, op == UOP_MUL);
    if (uop_dtype_infos[dtype].is_float)
        return tn_float(ctx, dtype, is_max ? -INFINITY : INFINITY);
    if (dtype == UOP_U64)
        return tn_int(ctx, dtype, is_max ? 0 : -1);
    return tn_int(ctx, dtype, is_max ? bounds.min : bounds.max);
}

/* Whether reducing copies of the constant gives the constant. */
static bool
is_idempotent(enum uop_op op, const struct uop *c)
{
    double v = tn_is_float(c) ? c->arg.f : (double)c->arg.i;

    return op == UOP_MAX || op == UOP_MIN || (op == UOP_ADD && v == 0) ||
           (op == UOP_MUL && v == 1);
}

const struct uop *
tn_reduce(struct bell_context *ctx, enum uop_op op, const struct uop *u,
          uint32_t axis_mask)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    union uop_arg arg;
    int64_t d[TN_MAX_RANK];
    const struct uop *c;
    bool empty = false;
    uint32_t i;

    if (tn_bad(u))
        return u;
    axis_mask &= (uint32_t)((1ull << shape->n) - 1);
    for (i = 0; i < shape->n; i++) {
        d[i] = shape->d[i];
        if (!(axis_mask & 1u << i))
            continue;
        empty = empty || d[i] == 0;
        if (d[i] == 1)
            axis_mask &= ~(1u << i);
        d[i] = 1;
    }
    if (axis_mask == 0)
        return u;
    if (empty)
        return tn_full(ctx, tn_neutral(ctx, op, u->dtype), d, shape->n);
    c = tn_peel(u);
    if (c && is_idempotent(op, c))
        return tn_full(ctx, c, d, shape->n);
    arg.i = uop_reduce_arg(op, axis_mask);
    shape = uop_dims(&ctx->graph, d, shape->n);
    if (!shape)
        return &uop_failed;
    return uop_new_shaped(&ctx->graph, UOP_REDUCE_AXIS, u->dtype, arg, &u, 1,
                          shape);
}

const struct uop *
tn_accumulate(struct bell_context *ctx, enum uop_op op, const struct uop *u,
              uint32_t axis_mask)
{
    enum uop_dtype dtype = u->dtype;

    if (!uop_dtype_is_small(dtype))
        return tn_reduce(ctx, op, u, axis_mask);
    return tn_cast(ctx, tn_reduce(ctx, op, tn_cast(ctx, u, UOP_F32), axis_mask),
                   dtype);
}

const struct uop *
tn_sum_to(struct bell_context *ctx, const struct uop *u, const int64_t *d,
          uint32_t n)
{
    const struct uop_dims *shape = tn_shape(ctx, u);
    uint32_t skip, mask = 0, i;

    if (tn_bad(u))
        return u;
    skip = shape->n - n;
    for (i = 0; i < shape->n; i++) {
        if (i < skip || (d[i - skip] == 1 && shape->d[i] != 1))
            mask |= 1u << i;
    }
    return tn_reshape(ctx, tn_sum(ctx, u, mask), d, n);
}

/* ---- indexing ---- */

const struct uop *
tn_gather(struct bell_context *ctx, const struct uop *x, uint32_t axis,
          const struct uop *index)
{
    const struct uop *src[2] = {x, index};
    const struct uop_dims *shape = tn_shape(ctx, index);
    union uop_arg arg = {.i = axis};

    if (tn_bad(x) || tn_bad(index))
        return &uop_failed;
    if (tn_numel(ctx, x) == 0)
        return tn_full(ctx, tn_const(ctx, x->dtype, 0), shape->d, shape->n);
    return uop_new_shaped(&ctx->graph, UOP_GATHER, x->dtype, arg, src, 2,
                          shape);
}

const struct uop *
tn_running(struct bell_context *ctx, enum uop_op op, const struct uop *u,
           uint32_t axis, bool back)
{
    union uop_arg arg = {.i = uop_scan_arg(op, axis, back)};

    return tn_bad(u) ? u
                     : uop_new_shaped(&ctx->graph, UOP_SCAN, u->dtype, arg, &u,
                                      1, tn_shape(ctx, u));
}

const struct uop *
tn_exchange(struct bell_context *ctx, const struct uop *u, bool bitonic)
{
    union uop_arg arg = {.i = bitonic};

    return tn_bad(u) ? u
                     : uop_new_shaped(&ctx->graph, UOP_SORT_AXIS, u->dtype, arg,
                                      &u, 1, tn_shape(ctx, u));
}
