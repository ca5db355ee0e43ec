/* Adjoints, op by op.
 *
 * tensor_gradient orders the nodes between the root and the targets, sources
 * first, and walks back, adding each node's share to its sources. Only nodes
 * that lead to a target get an adjoint. Not recursive.
 */
#include "tensor/train/gradient.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/ops/conv.h"
#include "tensor/ops/elementwise.h"
#include "tensor/ops/matmul.h"
#include "tensor/core/node.h"
#include "tensor/ops/select.h"

/* ---- the walk ---- */

enum visit {
    VISIT_NEW,
    VISIT_OPEN,
    VISIT_DONE,   /* does not lead to a target */
    VISIT_NEEDED, /* does */
};

struct backward {
    struct bell_context *ctx;
    uint8_t *state;           /* enum visit, by id */
    uint8_t *is_target;       /* by id */
    const struct uop **adj;   /* by id; NULL is zero */
    const struct uop **order; /* needed nodes, sources first */
    size_t n_order;
    bell_status status; /* of callers' functions */
    const struct uop **stack;
    uint32_t *edge; /* next edge of each stack entry */
    size_t n_stack, cap_stack, cap_edge;
};

/* What the softmax that is w, as halves perhaps, is made of. NULL: it is none,
 * or w or what leads to it is a target itself. */
static const struct uop *
softmax_of(const struct backward *bw, const struct uop *w)
{
    const struct tensor_rule *rule;

    while (w->op == UOP_CAST && !bw->is_target[w->id])
        w = w->src[0];
    rule = bw->is_target[w->id] ? NULL : tensor_rule_find(bw->ctx, w);
    return rule && rule->kind == TENSOR_RULE_SOFTMAX ? rule->a : NULL;
}

/* The rule that u is differentiated by, or NULL. */
static const struct tensor_rule *
find_rule(const struct backward *bw, const struct uop *u)
{
    const struct tensor_rule *rule = tensor_rule_find(bw->ctx, u);

    return rule && rule->kind == TENSOR_RULE_ATTEND && !softmax_of(bw, rule->a)
               ? NULL
               : rule;
}

/* Source `i` through which the gradient of u may flow, or NULL where it does
 * not; *out_end when there is none any more. */
static const struct uop *
find_edge(const struct backward *bw, const struct uop *u, uint32_t i,
          bool *out_end)
{
    const struct tensor_rule *rule = find_rule(bw, u);
    const struct uop *src = NULL;

    *out_end = false;
    if (rule && rule->kind == TENSOR_RULE_ATTEND) {
        *out_end = i > 1;
        return *out_end ? NULL : i ? rule->b : softmax_of(bw, rule->a);
    }
    if (rule && rule->kind == TENSOR_RULE_CUSTOM) {
        *out_end = i >= rule->custom->n_in;
        src = *out_end ? NULL : rule->custom->nodes[i];
        return src && tn_is_float(src) && src->op != UOP_CONST ? src : NULL;
    }
    if (rule) {
        *out_end = i > (rule->kind == TENSOR_RULE_CONV ||
                        rule->kind == TENSOR_RULE_CONV_BACK);
        return *out_end ? NULL : i ? rule->b : rule->a;
    }
    if (i >= u->n_src || u->op == UOP_DETACH || u->op == UOP_BITCAST ||
        u->op == UOP_TRUNC || u->op == UOP_FFLOORDIV || !tn_is_float(u)) {
        *out_end = true;
        return NULL;
    }
    if ((u->op == UOP_WHERE && i == 0) || (u->op == UOP_GATHER && i == 1))
        return NULL;
    src = u->src[i];
    return tn_is_float(src) && src->op != UOP_CONST ? src : NULL;
}

static bool
push_node(struct backward *bw, const struct uop *u)
{
    assert(u->id < bw->ctx->graph.n_nodes);
    if (host_grow((void **)&bw->stack, &bw->cap_stack, bw->n_stack + 1,
                  sizeof(*bw->stack)) != 0 ||
        host_grow((void **)&bw->edge, &bw->cap_edge, bw->n_stack + 1,
                  sizeof(*bw->edge)) != 0)
        return false;
    bw->state[u->id] = VISIT_OPEN;
    bw->stack[bw->n_stack] = u;
    bw->edge[bw->n_stack++] = 0;
    return true;
}

/* All edges of u were followed: is it needed? */
static void
finish_node(struct backward *bw, const struct uop *u)
{
    bool needed = bw->is_target[u->id], end;
    uint32_t i;

    assert(bw->state[u->id] != VISIT_NEEDED);
    for (i = 0;; i++) {
        const struct uop *src = find_edge(bw, u, i, &end);
        if (end)
            break;
        needed = needed || (src && bw->state[src->id] == VISIT_NEEDED);
    }
    bw->state[u->id] = needed ? VISIT_NEEDED : VISIT_DONE;
    if (needed)
        bw->order[bw->n_order++] = u;
}

/* Depth first with a stack of its own: the graph may be deeper than the
 * thread's stack. Only nodes through which a target is reached are listed. */
static bool
order_nodes(struct backward *bw, const struct uop *root)
{
    bool end;

    if (!push_node(bw, root))
        return false;
    while (bw->n_stack) {
        const struct uop *u = bw->stack[bw->n_stack - 1], *src;

        src = find_edge(bw, u, bw->edge[bw->n_stack - 1]++, &end);
        if (end) {
            bw->n_stack--;
            finish_node(bw, u);
        } else if (src && bw->state[src->id] == VISIT_NEW &&
                   !push_node(bw, src)) {
            return false;
        }
    }
    return true;
}

static bool
needs_gradient(const struct backward *bw, const struct uop *u)
{
    return bw->state[u->id] == VISIT_NEEDED;
}

static void
add_adjoint(struct backward *bw, const struct uop *u, const struct uop *g)
{
    const struct uop *old = bw->adj[u->id];

    bw->adj[u->id] = old ? tn_add(bw->ctx, old, g) : g;
}

/* ---- rules of the ops ---- */

/* The greater (or smaller) operand takes it; equal ones share it. */
static const struct uop *
pick_share(struct bell_context *ctx, const struct uop *g,
           const struct uop *wins, const struct uop *ties)
{
    return tn_where(
        ctx, wins, g,
        tn_where(ctx, ties, tn_mul_c(ctx, g, 0.5), tn_num(ctx, g, 0)));
}

/* d x^y / dx = y x^(y-1), 0 where y is 0. */
static const struct uop *
pow_base(struct bell_context *ctx, const struct uop *x, const struct uop *y,
         const struct uop *g)
{
    const struct uop *d =
        tn_mul(ctx, y, tn_alu2(ctx, UOP_POW, x, tn_add_c(ctx, y, -1)));

    assert(tn_bad(x) || tn_is_float(x));
    return tn_where(ctx, tn_eq(ctx, y, tn_num(ctx, y, 0)), tn_num(ctx, g, 0),
                    tn_mul(ctx, g, d));
}

/* d x^y / dy = x^y log x, 0 where x is 0 and y is not negative. */
static const struct uop *
pow_exponent(struct bell_context *ctx, const struct uop *u, const struct uop *x,
             const struct uop *y, const struct uop *g)
{
    const struct uop *zero = tn_num(ctx, x, 0);
    const struct uop *flat =
        tn_and(ctx, tn_eq(ctx, x, zero), tn_not(ctx, tn_lt(ctx, y, zero)));

    assert(tn_bad(x) || tn_is_float(x));
    return tn_where(ctx, flat, tn_num(ctx, g, 0),
                    tn_mul(ctx, g, tn_mul(ctx, u, tn_log(ctx, x))));
}

/* Share of operand i of a two-operand op. */
static const struct uop *
binary_share(struct bell_context *ctx, const struct uop *u, uint32_t i,
             const struct uop *g)
{
    const struct uop *a = u->src[0], *b = u->src[1], *mine = u->src[i],
                     *other = u->src[1 - i];

    assert(i < 2 && u->n_src == 2);
    switch ((int)u->op) {
    case UOP_ADD:
        return g;
    case UOP_SUB:
        return i ? tn_neg(ctx, g) : g;
    case UOP_MUL:
        return tn_mul(ctx, g, other);
    case UOP_FDIV: /* u / b and not g / b: 0 is 0 though 1 / b is infinite */
        return i ? tn_neg(ctx, tn_mul(ctx, g, tn_fdiv(ctx, u, b)))
                 : tn_fdiv(ctx, g, b);
    case UOP_FMOD:
        return i ? tn_neg(ctx, tn_mul(ctx, g, tn_trunc_divide(ctx, a, b))) : g;
    case UOP_MAX:
        return pick_share(ctx, g, tn_lt(ctx, other, mine), tn_eq(ctx, a, b));
    case UOP_MIN:
        return pick_share(ctx, g, tn_lt(ctx, mine, other), tn_eq(ctx, a, b));
    case UOP_POW:
        return i ? pow_exponent(ctx, u, a, b, g) : pow_base(ctx, a, b, g);
    default:
        return NULL;
    }
}

/* By the result where that saves computing it again: 1/x, sqrt, exp2. */
static const struct uop *
unary_share(struct bell_context *ctx, const struct uop *u, const struct uop *g)
{
    const struct uop *x = u->src[0];

    assert(u->n_src == 1);
    switch ((int)u->op) {
    case UOP_NEG:
        return tn_neg(ctx, g);
    case UOP_RECIP:
        return tn_neg(ctx, tn_mul(ctx, g, tn_mul(ctx, u, u)));
    case UOP_SQRT:
        return tn_fdiv(ctx, tn_mul_c(ctx, g, 0.5), u);
    case UOP_EXP2:
        return tn_mul(ctx, g, tn_mul_c(ctx, u, 0.69314718055994530942));
    case UOP_LOG2:
        return tn_fdiv(ctx, tn_mul_c(ctx, g, 1.4426950408889634074), x);
    case UOP_SIN:
        return tn_mul(ctx, g, tn_cos(ctx, x));
    case UOP_COS:
        return tn_neg(ctx, tn_mul(ctx, g, tn_sin(ctx, x)));
    case UOP_CAST:
        return tn_cast(ctx, g, x->dtype);
    case UOP_CONTIGUOUS:
    case UOP_LAYOUT:
        return g;
    default:
        return NULL;
    }
}

static const struct uop *
permute_back(struct bell_context *ctx, const struct uop *u, const struct uop *g)
{
    int64_t inverse[TN_MAX_RANK];
    uint32_t i;

    assert(u->op == UOP_PERMUTE);
    for (i = 0; i < u->arg.dims->n; i++)
        inverse[u->arg.dims->d[i]] = i;
    return tn_permute(ctx, g, inverse);
}

/* PAD: the part that was there; SHRINK: zeros around. */
static const struct uop *
border_back(struct bell_context *ctx, const struct uop *u, const struct uop *g)
{
    const struct uop_dims *shape = tn_shape(ctx, u->src[0]);
    const int64_t *d = u->arg.dims->d;
    int64_t list[2 * TN_MAX_RANK];
    uint32_t i;

    assert(u->op == UOP_PAD || u->op == UOP_SHRINK);
    for (i = 0; i < shape->n; i++) {
        list[2 * i] = d[2 * i];
        list[2 * i + 1] = u->op == UOP_PAD
                              ? dim_add(ctx->dims, d[2 * i], shape->d[i])
                              : dim_sub(ctx->dims, shape->d[i], d[2 * i + 1]);
    }
    return u->op == UOP_PAD ? tn_shrink(ctx, g, list) : tn_pad(ctx, g, list);
}

/* Movement is linear: its transpose is a movement, and of EXPAND a sum. */
static const struct uop *
move_share(struct bell_context *ctx, const struct uop *u, const struct uop *g)
{
    const struct uop_dims *shape = tn_shape(ctx, u->src[0]);

    switch ((int)u->op) {
    case UOP_RESHAPE:
        return tn_reshape(ctx, g, shape->d, shape->n);
    case UOP_PERMUTE:
        return permute_back(ctx, u, g);
    case UOP_EXPAND:
        return tn_sum_to(ctx, g, shape->d, shape->n);
    case UOP_PAD:
    case UOP_SHRINK:
        return border_back(ctx, u, g);
    case UOP_FLIP:
        return tn_flip(ctx, g, (uint32_t)u->arg.i);
    default:
        return NULL;
    }
}

/* The product of a product's other factors: by division where none is 0; where
 * one is, it alone has a share, and where two are, none. */
static const struct uop *
product_share(struct bell_context *ctx, const struct uop *u,
              const struct uop *g)
{
    const struct uop *x = u->src[0], *zero = tn_num(ctx, x, 0);
    const struct uop *one = tn_num(ctx, x, 1), *is_zero, *rest, *n_zeros;
    uint32_t axes = uop_reduce_axes(u);

    assert(u->op == UOP_REDUCE_AXIS);
    is_zero = tn_eq(ctx, x, zero);
    rest = tn_reduce(ctx, UOP_MUL, tn_where(ctx, is_zero, one, x), axes);
    n_zeros = tn_reduce(ctx, UOP_ADD, tn_where(ctx, is_zero, one, zero), axes);
    rest = tn_mul(ctx, g, rest);
    return tn_where(
        ctx, is_zero, tn_where(ctx, tn_eq(ctx, n_zeros, one), rest, zero),
        tn_where(ctx, tn_eq(ctx, n_zeros, zero), tn_fdiv(ctx, rest, x), zero));
}

/* Elements of x that equal u along the axes share the gradient evenly, as in
 * PyTorch's amax. */
static const struct uop *
share_ties(struct bell_context *ctx, const struct uop *x, const struct uop *u,
           uint32_t axes, const struct uop *g)
{
    const struct uop *mask = tn_eq(ctx, x, u), *count;

    g = tn_widen(ctx, g); /* more ties than halves can count */
    count = tn_where(ctx, mask, tn_num(ctx, g, 1), tn_num(ctx, g, 0));
    count = tn_sum(ctx, count, axes);
    g = tn_cast(ctx, tn_fdiv(ctx, g, count), x->dtype);
    return tn_where(ctx, mask, g, tn_num(ctx, x, 0));
}

static const struct uop *
reduce_share(struct bell_context *ctx, const struct uop *u, const struct uop *g)
{
    const struct uop *x = u->src[0];

    assert(u->op == UOP_REDUCE_AXIS);
    switch ((int)uop_reduce_op(u)) {
    case UOP_ADD:
        return tn_expand(ctx, g, tn_shape(ctx, x)->d);
    case UOP_MAX:
    case UOP_MIN:
        return share_ties(ctx, x, u, uop_reduce_axes(u), g);
    case UOP_MUL:
        return product_share(ctx, u, g);
    default:
        return NULL;
    }
}

/* Each element of x takes the sum of what was gathered from it. */
static const struct uop *
gather_back(struct bell_context *ctx, const struct uop *u, const struct uop *g)
{
    const struct uop *x = u->src[0], *index = u->src[1], *iota, *end;
    uint32_t axis = (uint32_t)u->arg.i, rank = tn_rank(ctx, x);
    enum uop_dtype dtype = index->dtype;
    int64_t size = tn_size(ctx, x, axis);

    assert(u->op == UOP_GATHER);
    if (uop_dtype_infos[dtype].size_bytes < 8) {
        index = tn_cast(ctx, index, UOP_I64);
        dtype = UOP_I64;
    }
    if (tn_size(ctx, index, axis) != 1)
        return tn_scatter(ctx, TN_COMBINE_SUM, g, axis,
                          tn_cast(ctx, index, UOP_I64), size);
    end = tn_cast(ctx, tn_count(ctx, size), dtype);
    iota = tn_iota(ctx, rank, axis, size, dtype);
    if (uop_dtype_infos[dtype].is_signed)
        index = tn_where(ctx, tn_lt(ctx, index, tn_int(ctx, dtype, 0)),
                         tn_add(ctx, index, end), index);
    return tn_where(ctx, tn_eq(ctx, iota, index), g, tn_num(ctx, g, 0));
}

/* The gradient of y = softmax(x): y * (g - sum of y * g); `dot` is that sum. */
static const struct uop *
softmax_share(struct bell_context *ctx, const struct uop *y,
              const struct uop *g, const struct uop *dot)
{
    return tn_mul(ctx, y, tn_sub(ctx, g, dot));
}

/* The gradient of w @ b, where w is softmax(x), as halves perhaps. The sum over
 * the keys in softmax's own is one over the columns of the result, which is at
 * hand; a result that is rounded then is taken so. */
static void
attend_back(struct backward *bw, const struct tensor_rule *rule,
            const struct uop *g)
{
    struct bell_context *ctx = bw->ctx;
    const struct uop *x = softmax_of(bw, rule->a), *b = rule->b, *y = rule->a,
                     *out = rule->node, *dot, *wide = tn_widen(ctx, g);
    uint32_t last = tn_rank(ctx, out) - 1, rank = tn_rank(ctx, b);

    if (needs_gradient(bw, b)) {
        uint32_t n = tn_rank(ctx, y);
        const struct uop *share =
            tn_matmul(ctx, tn_swap(ctx, y, n - 2, n - 1), g);
        add_adjoint(bw, b, tn_sum_to(ctx, share, tn_shape(ctx, b)->d, rank));
    }
    if (!needs_gradient(bw, x))
        return;
    while (y->op == UOP_CAST)
        y = y->src[0];
    if (g->op == UOP_CAST && uop_dtype_is_small(g->src[0]->dtype))
        out = tn_cast(ctx, out, g->src[0]->dtype);
    dot = tn_mul(ctx, wide, tn_widen(ctx, out));
    dot = tn_sum(ctx, dot, 1u << last);
    b = tn_widen(ctx, b);
    g = tn_matmul(ctx, wide, tn_swap(ctx, b, rank - 2, rank - 1));
    g = softmax_share(ctx, y, g, dot);
    add_adjoint(bw, x, tn_sum_to(ctx, g, tn_shape(ctx, x)->d, tn_rank(ctx, x)));
}

/* The adjoints of all results are complete: their users, and they, come before
 * what they are parts of. */
static void
custom_back(struct backward *bw, const struct tensor_custom *custom)
{
    uint32_t n = custom->n_in, i;
    const struct uop **shares =
        host_calloc((size_t)n + custom->n_out, sizeof(*shares));

    if (!shares) {
        bw->status =
            bell_fail(BELL_E_NO_MEMORY, "out of memory for %u gradients", n);
        return;
    }
    for (i = 0; i < custom->n_out; i++)
        shares[n + i] = bw->adj[custom->nodes[n + i]->id];
    bw->status = tensor_custom_back(bw->ctx, custom, shares + n, shares);
    for (i = 0; bw->status == BELL_OK && i < n; i++) {
        const struct uop *in = custom->nodes[i];
        if (shares[i] && needs_gradient(bw, in))
            add_adjoint(bw, in, shares[i]);
    }
    host_free(shares);
}

/* ---- going back over one node ---- */

static void
apply_rule(struct backward *bw, const struct tensor_rule *rule,
           const struct uop *g)
{
    struct bell_context *ctx = bw->ctx;
    const struct uop *a = rule->a, *b = rule->b;
    struct conv_shape s;

    switch (rule->kind) {
    case TENSOR_RULE_SURROGATE:
        add_adjoint(bw, a, g);
        break;
    case TENSOR_RULE_SCALE:
        add_adjoint(bw, a, tn_mul(ctx, g, b));
        break;
    case TENSOR_RULE_SOFTMAX:
        b = tn_sum(ctx, tn_mul(ctx, rule->node, g), 1u << rule->p[0]);
        add_adjoint(bw, a, softmax_share(ctx, rule->node, g, b));
        break;
    case TENSOR_RULE_ATTEND:
        attend_back(bw, rule, g);
        break;
    case TENSOR_RULE_CUSTOM:
        custom_back(bw, rule->custom);
        break;
    case TENSOR_RULE_PART:
        bw->adj[a->id] = g; /* that it has one: custom_back asks the parts */
        break;
    case TENSOR_RULE_TIES:
        add_adjoint(bw, a,
                    share_ties(ctx, a, rule->node, (uint32_t)rule->p[0], g));
        break;
    case TENSOR_RULE_UNFOLD:
        add_adjoint(bw, a,
                    tn_fold(ctx, g, (uint32_t)rule->p[0],
                            tn_size(ctx, a, (uint32_t)rule->p[0]), rule->p[1],
                            rule->p[2]));
        break;
    case TENSOR_RULE_OVERLAP:
        add_adjoint(bw, a,
                    tn_overlap(ctx, g, (uint32_t)rule->p[0],
                               tn_size(ctx, a, (uint32_t)rule->p[0])));
        break;
    case TENSOR_RULE_RESIZE:
        add_adjoint(bw, a, tn_resize_back(ctx, rule, g));
        break;
    case TENSOR_RULE_SCATTER:
        add_adjoint(bw, a, tn_scatter_back(ctx, rule, g));
        break;
    case TENSOR_RULE_CONV:
        conv_from_rule(rule->p, &s);
        g = tn_cast(ctx, g, a->dtype); /* that of a result to be rounded */
        if (needs_gradient(bw, a))
            add_adjoint(
                bw, a,
                tn_conv_back_x(ctx, g, b, &s, tn_shape(ctx, a)->d + 2, false));
        if (needs_gradient(bw, b))
            add_adjoint(bw, b,
                        tn_conv_back_w(ctx, a, g, &s, tn_shape(ctx, b)->d + 2));
        break;
    case TENSOR_RULE_CONV_BACK: /* g is of sources, a of results */
        conv_from_rule(rule->p, &s);
        g = tn_conv_reached(ctx, tn_cast(ctx, g, a->dtype), &s,
                            tn_shape(ctx, a)->d + 2, tn_shape(ctx, b)->d + 2);
        if (needs_gradient(bw, a))
            add_adjoint(bw, a, tn_conv(ctx, g, b, &s, false));
        if (needs_gradient(bw, b))
            add_adjoint(bw, b,
                        tn_conv_back_w(ctx, g, a, &s, tn_shape(ctx, b)->d + 2));
        break;
    }
}

/* The share of source i of node u. */
static const struct uop *
find_gradient_share(struct bell_context *ctx, const struct uop *u, uint32_t i,
                    const struct uop *g)
{
    if (u->op == UOP_WHERE)
        return i == 1 ? tn_where(ctx, u->src[0], g, tn_num(ctx, g, 0))
                      : tn_where(ctx, u->src[0], tn_num(ctx, g, 0), g);
    if (u->op == UOP_MULACC)
        return i == 2 ? g : tn_mul(ctx, g, u->src[1 - i]);
    if (u->op == UOP_GATHER)
        return gather_back(ctx, u, g);
    if (u->op == UOP_REDUCE_AXIS)
        return reduce_share(ctx, u, g);
    if (u->op == UOP_SCAN) { /* others have a rule of their own */
        assert(uop_scan_op(u) == UOP_ADD);
        return tn_running(ctx, UOP_ADD, g, uop_scan_axis(u), !uop_scan_back(u));
    }
    if (uop_has(u, UOP_FLAG_MOVE))
        return move_share(ctx, u, g);
    return u->n_src == 1 ? unary_share(ctx, u, g) : binary_share(ctx, u, i, g);
}

/* Whether a share takes several roundings. */
static bool
is_inexact(const struct uop *u)
{
    switch ((int)u->op) {
    case UOP_FDIV:
    case UOP_POW:
    case UOP_FMOD:
    case UOP_RECIP:
    case UOP_SQRT:
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_SIN:
    case UOP_COS:
    case UOP_MULACC:
        return true;
    case UOP_REDUCE_AXIS:
        return uop_reduce_op(u) == UOP_MUL;
    default:
        return false;
    }
}

/* The same of an op on halves in float32, rounded at the end. */
static const struct uop *
find_wide_share(struct bell_context *ctx, const struct uop *u, uint32_t i,
                const struct uop *g)
{
    const struct uop *src[3], *wide, *share;
    uint32_t k;

    if (!uop_dtype_is_small(u->dtype) || !is_inexact(u))
        return find_gradient_share(ctx, u, i, g);
    for (k = 0; k < u->n_src; k++)
        src[k] = tn_cast(ctx, u->src[k], UOP_F32);
    wide = uop_new_shaped(&ctx->graph, u->op, UOP_F32, u->arg, src, u->n_src,
                          tn_shape(ctx, u));
    if (tn_bad(wide))
        return wide;
    share = find_gradient_share(ctx, wide, i, tn_cast(ctx, g, UOP_F32));
    return share ? tn_cast(ctx, share, u->dtype) : NULL;
}

/* Users before sources: when a node's turn comes its adjoint is complete.
 * Adjoints are nodes as well, so that gradients have gradients. */
static bell_status
walk_back(struct backward *bw)
{
    struct bell_context *ctx = bw->ctx;
    size_t at;
    uint32_t i;

    for (at = bw->n_order; at-- > 0;) {
        const struct uop *u = bw->order[at], *g = bw->adj[u->id];
        const struct tensor_rule *found = find_rule(bw, u);
        bool end = false;

        if (!g)
            continue;
        ctx->labels.back_of = uop_mark(&ctx->graph, u);
        if (found) {
            struct tensor_rule rule = *found; /* rules may move */
            apply_rule(bw, &rule, g);
            BELL_TRY(bw->status);
            continue;
        }
        for (i = 0; i < u->n_src; i++) {
            const struct uop *src = find_edge(bw, u, i, &end), *share;
            if (end)
                break;
            if (!src || !needs_gradient(bw, src))
                continue;
            if (u->op == UOP_CALL || u->op == UOP_PART)
                return bell_fail(BELL_E_UNSUPPORTED,
                                 "a kernel of your own has no gradient; "
                                 "bell_custom gives it one");
            share = find_wide_share(ctx, u, i, g);
            if (!share)
                return bell_fail(BELL_E_UNSUPPORTED, "%s has no gradient",
                                 uop_op_infos[u->op].name);
            add_adjoint(bw, src, share);
        }
    }
    return BELL_OK;
}

static void
free_backward(struct backward *bw)
{
    host_free(bw->state);
    host_free(bw->is_target);
    host_free(bw->adj);
    host_free(bw->order);
    host_free(bw->stack);
    host_free(bw->edge);
}

static bool
alloc_backward(struct backward *bw, size_t n)
{
    bw->state = host_calloc(n, sizeof(*bw->state));
    bw->is_target = host_calloc(n, sizeof(*bw->is_target));
    bw->adj = host_calloc(n, sizeof(*bw->adj));
    bw->order = host_alloc(n * sizeof(*bw->order));
    return bw->state && bw->is_target && bw->adj && bw->order;
}

/* A failure of node.c as a status. */
static bell_status
take_node_error(struct bell_context *ctx)
{
    struct bell_error why = ctx->node_error;

    memset(&ctx->node_error, 0, sizeof(ctx->node_error));
    ctx->graph.failed = false;
    if (why.status != BELL_OK)
        return bell_fail(why.status, "%s", why.message);
    return bell_fail(BELL_E_NO_MEMORY, "out of memory in a graph of %zu nodes",
                     ctx->graph.n_nodes);
}

bell_status
tensor_gradient(struct bell_context *ctx, const struct uop *root,
                const struct uop *seed, const struct uop *const *targets,
                uint32_t n, const struct uop **out)
{
    struct backward bw = {.ctx = ctx};
    bell_status status = BELL_OK;
    bool failed = tn_bad(root) || tn_bad(seed);
    uint32_t i;

    assert(n > 0);
    if (failed)
        return take_node_error(ctx);
    if (!alloc_backward(&bw, ctx->graph.n_nodes)) {
        free_backward(&bw);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for gradients");
    }
    for (i = 0; i < n; i++)
        bw.is_target[targets[i]->id] = 1;
    if (!order_nodes(&bw, root)) {
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory for gradients");
    } else if (needs_gradient(&bw, root)) {
        uint32_t was = ctx->labels.back_of;
        bw.adj[root->id] = seed;
        status = walk_back(&bw);
        ctx->labels.back_of = was;
    }
    for (i = 0; i < n && status == BELL_OK; i++) {
        out[i] = bw.adj[targets[i]->id];
        failed = failed || (out[i] && tn_bad(out[i]));
    }
    free_backward(&bw);
    if (status == BELL_OK && failed)
        return take_node_error(ctx);
    return status;
}
