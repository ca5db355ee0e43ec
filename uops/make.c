/* Construction with simplification: constants are folded, operands of
 * commutative ops put in order, the symbolic rules tried, and only then is a
 * node made. */
#include "uops/rewrite.h"
#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

#include <assert.h>
#include <string.h>

#define MAX_RULE_SRC 64 /* nodes with more sources are made as they are */

const struct uop *
uop_make_const(struct uop_graph *g, enum uop_dtype dtype, uint16_t lanes,
               union uop_arg arg)
{
    const struct uop *c = uop_new(g, UOP_CONST, dtype, 1, arg, NULL, 0);
    union uop_arg none = {.bits = 0};

    assert(lanes > 0 && dtype < UOP_DTYPE_COUNT);
    if (lanes == 1)
        return c;
    return uop_new(g, UOP_BROADCAST, dtype, lanes, none, &c, 1);
}

const struct uop *
uop_make_int(struct uop_graph *g, enum uop_dtype dtype, uint16_t lanes,
             int64_t value)
{
    union uop_arg arg = {.i = uop_wrap_int(dtype, value)};

    return uop_make_const(g, dtype, lanes, arg);
}

/* Folding goes through uop_const_eval alone, which computes as the devices do:
 * with the dtype's width, rounding and wrapping. */
static const struct uop *
fold_constants(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
               uint16_t lanes, const struct uop *const *src, uint32_t n_src)
{
    const struct uop *consts[3];
    union uop_arg arg;
    uint32_t i;

    if (n_src == 0 || n_src > 3)
        return NULL;
    for (i = 0; i < n_src; i++) {
        consts[i] = uop_scalar_const(src[i]);
        if (!consts[i])
            return NULL;
    }
    if (!uop_const_eval(op, dtype, consts, n_src, &arg))
        return NULL;
    return uop_make_const(g, dtype, lanes, arg);
}

/* Operand order of commutative ops: constants last, a chain of the same op
 * first (sums and gates lean left), else uop_order_key. */
static bool
in_order(enum uop_op op, const struct uop *a, const struct uop *b)
{
    bool ca = uop_scalar_const(a), cb = uop_scalar_const(b);

    assert(a->dtype == b->dtype && a->lanes == b->lanes);
    if (ca != cb)
        return cb;
    if (!uop_is_float(a) && (a->op == op) != (b->op == op))
        return a->op == op;
    return uop_order_key(a) <= uop_order_key(b);
}

/* A node that is not in the graph, for the rules to look at. */
struct candidate {
    _Alignas(
        struct uop) unsigned char bytes[sizeof(struct uop) +
                                        MAX_RULE_SRC * sizeof(struct uop *)];
};

/* Rules look at a node that may never be made. Its id is above all others,
 * which makes it the last in any order. */
static const struct uop *
fill_candidate(struct candidate *c, enum uop_op op, enum uop_dtype dtype,
               uint16_t lanes, union uop_arg arg, const struct uop *const *src,
               uint32_t n_src)
{
    struct uop *u = (struct uop *)c->bytes;

    u->op = (uint8_t)op;
    u->dtype = (uint8_t)dtype;
    u->lanes = lanes;
    u->id = UINT32_MAX;
    u->arg = arg;
    u->n_src = n_src;
    u->hash = 0;
    if (n_src)
        memcpy(u->src, src, n_src * sizeof(*src));
    return u;
}

/* What the rules make of these parts, or NULL. */
static const struct uop *
simplify(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
         uint16_t lanes, union uop_arg arg, const struct uop *const *src,
         uint32_t n_src)
{
    struct candidate space;
    const struct uop *u =
        fill_candidate(&space, op, dtype, lanes, arg, src, n_src);
    struct uop_bounds b;

    assert(n_src > 0);
    if (op == UOP_LANES)
        return n_src == lanes ? sym_lanes(g, u) : NULL;
    if ((uop_op_infos[op].flags & UOP_FLAG_ALU) &&
        !uop_dtype_infos[dtype].is_float) {
        b = uop_compute_bounds(g, u);
        if (b.min == b.max && (dtype != UOP_U64 || b.max != INT64_MAX))
            return uop_make_int(g, dtype, lanes, b.min);
    }
    return rw_apply(g, uop_symbolic_rules(), u, NULL);
}

const struct uop *
uop_make(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
         uint16_t lanes, union uop_arg arg, const struct uop *const *src,
         uint32_t n_src)
{
    unsigned flags = uop_op_infos[op].flags;
    const struct uop *swapped[2], *r;
    uint32_t i;

    if (g->failed)
        return &uop_failed;
    assert(
        n_src >= uop_op_infos[op].min_src &&
        (n_src <= uop_op_infos[op].max_src || uop_op_infos[op].max_src == 255));
    if (n_src == 0 || n_src > MAX_RULE_SRC)
        return uop_new(g, op, dtype, lanes, arg, src, n_src);
    for (i = 0; i < n_src; i++) {
        if (src[i] == &uop_failed)
            return uop_new(g, op, dtype, lanes, arg, src, n_src);
    }
    if ((flags & UOP_FLAG_ALU) || op == UOP_CAST || op == UOP_BITCAST) {
        r = fold_constants(g, op, dtype, lanes, src, n_src);
        if (!r && lanes > 1)
            r = sym_spread(g, op, dtype, lanes, arg, src, n_src);
        if (r)
            return r;
    }
    if ((flags & UOP_FLAG_COMM) && n_src == 2 &&
        !in_order(op, src[0], src[1])) {
        swapped[0] = src[1];
        swapped[1] = src[0];
        src = swapped;
    }
    r = simplify(g, op, dtype, lanes, arg, src, n_src);
    return r ? r : uop_new(g, op, dtype, lanes, arg, src, n_src);
}

/* Operands agree in dtype and lanes: casts and broadcasts are their own nodes,
 * made by who needs them. */
static const struct uop *
make_alu(struct uop_graph *g, enum uop_op op, const struct uop *like,
         const struct uop *const *src, uint32_t n_src)
{
    enum uop_dtype dtype =
        uop_op_infos[op].flags & UOP_FLAG_CMP ? UOP_BOOL : like->dtype;
    union uop_arg none = {.bits = 0};
    uint32_t i;

    assert(uop_op_infos[op].flags & UOP_FLAG_ALU);
    for (i = 0; i < n_src && !g->failed; i++) {
        assert(src[i]->lanes == like->lanes);
        assert(src[i]->dtype ==
               (op == UOP_WHERE && i == 0 ? UOP_BOOL : like->dtype));
    }
    return uop_make(g, op, dtype, like->lanes, none, src, n_src);
}

const struct uop *
uop_alu1(struct uop_graph *g, enum uop_op op, const struct uop *a)
{
    return make_alu(g, op, a, &a, 1);
}

const struct uop *
uop_alu2(struct uop_graph *g, enum uop_op op, const struct uop *a,
         const struct uop *b)
{
    const struct uop *src[2] = {a, b};
    return make_alu(g, op, a, src, 2);
}

const struct uop *
uop_alu3(struct uop_graph *g, enum uop_op op, const struct uop *a,
         const struct uop *b, const struct uop *c)
{
    const struct uop *src[3] = {a, b, c};
    return make_alu(g, op, op == UOP_WHERE ? b : a, src, 3);
}

const struct uop *
uop_cast(struct uop_graph *g, const struct uop *a, enum uop_dtype dtype)
{
    union uop_arg none = {.bits = 0};

    if (a->dtype == dtype)
        return a;
    return uop_make(g, UOP_CAST, dtype, a->lanes, none, &a, 1);
}
