/* Construction with simplification: constants are folded, operands of
 * commutative ops put in order, the symbolic rules tried, and only then is a
 * node made. */
#include "uops/uop.h"
#include "uops/uops_internal.h"

/* The constant that every lane of `u` is, or NULL. */
static const struct uop *
scalar_const(const struct uop *u)
{
    if (u->op == UOP_BROADCAST && u->n_src == 1)
        u = u->src[0];
    return u->op == UOP_CONST ? u : NULL;
}

/* A constant with `lanes` equal lanes. */
static const struct uop *
make_const(struct uop_graph *g, enum uop_dtype dtype, uint16_t lanes,
           union uop_arg arg)
{
    const struct uop *c = uop_new(g, UOP_CONST, dtype, 1, arg, NULL, 0);
    union uop_arg none = {.bits = 0};

    if (lanes == 1)
        return c;
    return uop_new(g, UOP_BROADCAST, dtype, lanes, none, &c, 1);
}

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
        consts[i] = scalar_const(src[i]);
        if (!consts[i])
            return NULL;
    }
    if (!uop_const_eval(op, dtype, consts, n_src, &arg))
        return NULL;
    return make_const(g, dtype, lanes, arg);
}

const struct uop *
uop_make(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
         uint16_t lanes, union uop_arg arg, const struct uop *const *src,
         uint32_t n_src)
{
    unsigned flags = uop_op_infos[op].flags;
    const struct uop *swapped[2], *folded;

    if (!(flags & UOP_FLAG_ALU) && op != UOP_CAST && op != UOP_BITCAST)
        return uop_new(g, op, dtype, lanes, arg, src, n_src);
    folded = fold_constants(g, op, dtype, lanes, src, n_src);
    if (folded)
        return folded;
    if ((flags & UOP_FLAG_COMM) && n_src == 2) {
        bool c0 = scalar_const(src[0]), c1 = scalar_const(src[1]);
        if (c0 != c1 ? c0 : src[0]->id > src[1]->id) {
            swapped[0] = src[1];
            swapped[1] = src[0];
            src = swapped;
        }
    }
    return uop_new(g, op, dtype, lanes, arg, src, n_src);
}

static const struct uop *
make_alu(struct uop_graph *g, enum uop_op op, const struct uop *like,
         const struct uop *const *src, uint32_t n_src)
{
    enum uop_dtype dtype = uop_op_infos[op].flags & UOP_FLAG_CMP
                               ? UOP_BOOL
                               : (enum uop_dtype)like->dtype;
    union uop_arg none = {.bits = 0};

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
