/* The rules that uop_make applies. Floats: only what is exact in IEEE
 * arithmetic, also for NaN, infinities and signed zeros. */
#include "uops/linear.h"
#include "uops/symbolic_internal.h"
#include "uops/uops_internal.h"

#include <math.h>

static enum uop_dtype
dtype_of(const struct uop *u)
{
    return u->dtype;
}

/* x % y where 0 <= x < y. */
static const struct uop *
mod_of_small(struct uop_graph *g, const struct rw_match *m)
{
    struct uop_bounds x = uop_bounds(g, m->v[0]), y = uop_bounds(g, m->v[1]);

    return x.min >= 0 && x.max < y.min ? m->v[0] : NULL;
}

/* max and min of what the bounds order. */
static const struct uop *
pick_by_bounds(struct uop_graph *g, const struct rw_match *m)
{
    const struct uop *a = m->v[0], *b = m->v[1], *low, *high;
    struct uop_bounds ba = uop_bounds(g, a), bb = uop_bounds(g, b);

    if (a->dtype == UOP_U64 && (ba.max == INT64_MAX || bb.max == INT64_MAX))
        return NULL;
    if (ba.min >= bb.max) {
        high = a;
        low = b;
    } else if (bb.min >= ba.max) {
        high = b;
        low = a;
    } else {
        return NULL;
    }
    return m->root->op == UOP_MAX ? high : low;
}

/* Comparison of a selection between constants with a constant. */
static const struct uop *
compare_selected(struct uop_graph *g, const struct rw_match *m)
{
    enum uop_op op = m->root->op;

    return uop_alu3(g, UOP_WHERE, m->v[0], uop_alu2(g, op, m->v[1], m->v[3]),
                    uop_alu2(g, op, m->v[2], m->v[3]));
}

/* Nothing, NaN included, is less than itself. */
static const struct uop *
less_itself(struct uop_graph *g, const struct rw_match *m)
{
    return sym_bool(g, m->v[0], false);
}

static const struct uop *
select_known(struct uop_graph *g, const struct rw_match *m)
{
    struct uop_bounds b = uop_bounds(g, m->v[0]);

    if (b.min != b.max)
        return NULL;
    return m->v[b.min ? 1 : 2];
}

/* A selection of bools where one of them is constant. */
static const struct uop *
select_bool(struct uop_graph *g, const struct rw_match *m)
{
    const struct uop *c = m->v[0], *a = m->v[1], *b = m->v[2];
    const struct uop *ka = uop_scalar_const(a), *kb = uop_scalar_const(b);
    const struct uop *not_c;

    if (!ka && !kb)
        return NULL;
    if (ka && ka->arg.i)
        return uop_alu2(g, UOP_OR, c, b);
    if (kb && !kb->arg.i)
        return uop_alu2(g, UOP_AND, c, a);
    not_c = uop_alu2(g, UOP_XOR, c, uop_make_int(g, UOP_BOOL, c->lanes, 1));
    if (ka)
        return uop_alu2(g, UOP_AND, not_c, b);
    return uop_alu2(g, UOP_OR, not_c, a);
}

/* True if every value of `from` that lies in `b` is one of `to`. */
static bool
keeps_values(enum uop_dtype from, struct uop_bounds b, enum uop_dtype to)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[from];
    const struct uop_dtype_info *t = &uop_dtype_infos[to];
    struct uop_bounds all = uop_dtype_bounds(to);

    if (to == UOP_BOOL || from == to)
        return from == to;
    if (f->is_float)
        return t->is_float && t->size_bytes > f->size_bytes;
    if (t->is_float)
        return false;
    if (from == UOP_U64 && b.max == INT64_MAX)
        return false;
    return b.min >= all.min && b.max <= all.max;
}

/* (x ^ c) ^ y -> (x ^ y) ^ c */
static const struct uop *
xor_const_out(struct uop_graph *g, const struct rw_match *m)
{
    if (uop_scalar_const(m->v[2]))
        return NULL;
    return uop_alu2(g, UOP_XOR, uop_alu2(g, UOP_XOR, m->v[0], m->v[2]),
                    m->v[1]);
}

/* A cast of a cast that lost nothing. */
static const struct uop *
cast_of_cast(struct uop_graph *g, const struct rw_match *m)
{
    const struct uop *x = m->v[1], *mid = m->v[0];

    if (!keeps_values(dtype_of(x), uop_bounds(g, x), dtype_of(mid)))
        return NULL;
    return uop_cast(g, x, dtype_of(m->root));
}

/* A cast or bitcast to the dtype that its source has. */
static const struct uop *
cast_to_same(struct uop_graph *g, const struct rw_match *m)
{
    (void)g;
    return m->v[0]->dtype == m->root->dtype ? m->v[0] : NULL;
}

static const struct uop *
bitcast_of_bitcast(struct uop_graph *g, const struct rw_match *m)
{
    union uop_arg none = {.bits = 0};
    const struct uop *x = m->v[0];

    if (x->dtype == m->root->dtype)
        return x;
    return uop_make(g, UOP_BITCAST, dtype_of(m->root), m->root->lanes, none, &x,
                    1);
}

/* Division by a power of two whose reciprocal is a normal number. */
static const struct uop *
divide_by_pow2(struct uop_graph *g, const struct rw_match *m)
{
    const struct uop *c = uop_scalar_const(m->v[1]);
    enum uop_dtype dtype = dtype_of(m->root);
    union uop_arg arg;
    double mantissa;
    int exp;

    if (!isfinite(c->arg.f) || c->arg.f == 0)
        return NULL;
    mantissa = frexp(c->arg.f, &exp);
    /* |exp| <= 14 is normal both ways in every float dtype */
    if (fabs(mantissa) != 0.5 || exp > 14 || exp < -13)
        return NULL;
    arg.f = 1.0 / c->arg.f;
    return uop_alu2(g, UOP_MUL, m->v[0],
                    uop_make_const(g, dtype, m->root->lanes, arg));
}

/* The index of a gated access matters only where the gate holds. */
static const struct uop *
access_given(struct uop_graph *g, const struct rw_match *m)
{
    const struct uop *src[4], *index;
    struct sym_bounds known;

    if (!sym_has_division(m->v[1]))
        return NULL;
    sym_gate_bounds(g, m->v[3], &known);
    index = sym_given(g, m->v[1], &known);
    if (index == m->v[1])
        return NULL;
    src[0] = m->v[0];
    src[1] = index;
    src[2] = m->v[2];
    src[3] = m->v[3];
    return uop_make(g, m->root->op, dtype_of(m->root), m->root->lanes,
                    m->root->arg, src, 4);
}

/* An access whose gate is known. */
static const struct uop *
load_known(struct uop_graph *g, const struct rw_match *m)
{
    struct uop_bounds gate = uop_bounds(g, m->v[3]);
    union uop_arg none = {.bits = 0};

    if (gate.min != gate.max)
        return NULL;
    if (!gate.min)
        return m->v[2];
    return uop_new(g, UOP_LOAD, dtype_of(m->root), m->root->lanes, none,
                   m->root->src, 2);
}

static const struct uop *
store_known(struct uop_graph *g, const struct rw_match *m)
{
    union uop_arg none = {.bits = 0};

    if (uop_bounds(g, m->v[3]).min != 1)
        return NULL;
    return uop_new(g, UOP_STORE, UOP_VOID, m->root->lanes, none, m->root->src,
                   3);
}

/* clang-format off */
static const struct rw_rule symbolic[] = {
    /* bool arithmetic becomes logic */
    {.name = "bool-add", .pat = "(ADD|MAX a:bool b)", .to = "(OR a b)"},
    {.name = "bool-mul", .pat = "(MUL|MIN a:bool b)", .to = "(AND a b)"},
    {.name = "bool-differ", .pat = "(CMPNE|SUB a:bool b)", .to = "(XOR a b)"},
    {.name = "bool-equal", .pat = "(CMPEQ a:bool b)", .to = "(XOR (XOR a b) 1)"},
    {.name = "bool-less", .pat = "(CMPLT a:bool b)", .to = "(AND (XOR a 1) b)"},
    {.name = "bool-neg", .pat = "(NEG a:bool)", .to = "a"},

    /* sums and products */
    {.name = "sum", .pat = "(ADD a:int b)", .build = sym_sum},
    {.name = "sub", .pat = "(SUB a:sint b)", .to = "(ADD a (MUL b -1))"},
    {.name = "neg", .pat = "(NEG a:sint)", .to = "(MUL a -1)"},
    {.name = "mul-one", .pat = "(MUL a:int 1)", .to = "a"},
    {.name = "scale", .pat = "(MUL a:int c:const)", .build = sym_scale},
    {.name = "mul-const-out", .pat = "(MUL (MUL a:int c:const) b)", .build = sym_const_out},

    /* division */
    {.name = "div-one", .pat = "(IDIV|FLOORDIV a 1)", .to = "a"},
    {.name = "div-minus-one", .pat = "(IDIV|FLOORDIV a:sint -1)", .to = "(MUL a -1)"},
    {.name = "floordiv", .pat = "(FLOORDIV a:int c:const)", .build = sym_floordiv},
    {.name = "mod-small", .pat = "(IMOD|FLOORMOD a:int b)", .build = mod_of_small},
    {.name = "floormod", .pat = "(FLOORMOD a:int c:const)", .build = sym_floormod},

    /* extremes */
    {.name = "max-same", .pat = "(MAX|MIN a a)", .to = "a"},
    {.name = "max-bounds", .pat = "(MAX|MIN a:int b)", .build = pick_by_bounds},
    {.name = "max-max-const", .pat = "(MAX (MAX a c:const) d:const)", .to = "(MAX a (MAX c d))"},
    {.name = "min-min-const", .pat = "(MIN (MIN a c:const) d:const)", .to = "(MIN a (MIN c d))"},

    /* bits and logic */
    {.name = "and-ones", .pat = "(AND a -1)", .to = "a"},
    {.name = "or-ones", .pat = "(OR a -1)", .to = "-1"},
    {.name = "or-zero", .pat = "(OR|XOR a 0)", .to = "a"},
    {.name = "shift-zero", .pat = "(SHL|SHR a 0)", .to = "a"},
    {.name = "and-same", .pat = "(AND|OR a a)", .to = "a"},
    {.name = "xor-same", .pat = "(XOR a a)", .to = "0"},
    {.name = "xor-twice", .pat = "(XOR (XOR a c:const) d:const)", .to = "(XOR a (XOR c d))"},
    {.name = "xor-const-out", .pat = "(XOR (XOR a c:const) b)", .build = xor_const_out},
    {.name = "not-less", .pat = "(XOR (CMPLT a:int b) 1)", .build = sym_not_less},
    {.name = "not-equal", .pat = "(XOR (CMPEQ a b) 1)", .to = "(CMPNE a b)"},
    {.name = "not-differ", .pat = "(XOR (CMPNE a b) 1)", .to = "(CMPEQ a b)"},
    {.name = "and-absorb", .pat = "(AND a (OR a b))", .to = "a"},
    {.name = "or-absorb", .pat = "(OR a (AND a b))", .to = "a"},
    {.name = "and-gates", .pat = "(AND a:bool b)", .build = sym_gates},
    {.name = "or-gates", .pat = "(OR a:bool b)", .build = sym_gates},

    /* comparisons */
    {.name = "cast-differs", .pat = "(CMPNE (CAST a:bool) 0)", .to = "a"},
    {.name = "cast-differs-float", .pat = "(CMPNE (CAST a:bool) 0.0)", .to = "a"},
    {.name = "compare-selected", .pat = "(CMPLT|CMPEQ|CMPNE (WHERE c a:const b:const) d:const)", .build = compare_selected},
    /* LLVM 19 divides wrongly by a selection when it finds this out itself. */
    {.name = "less-itself", .pat = "(CMPLT a:float a)", .build = less_itself},
    {.name = "less", .pat = "(CMPLT a:int b)", .build = sym_less},
    {.name = "equal", .pat = "(CMPEQ|CMPNE a:int b)", .build = sym_equal},

    /* selection */
    {.name = "where-known", .pat = "(WHERE c a b)", .build = select_known},
    {.name = "where-same", .pat = "(WHERE c a a)", .to = "a"},
    {.name = "where-not", .pat = "(WHERE (XOR c:bool 1) a b)", .to = "(WHERE c b a)"},
    {.name = "where-bool", .pat = "(WHERE c a:bool b)", .build = select_bool},
    {.name = "where-in-true", .pat = "(WHERE c (WHERE c a b) d)", .to = "(WHERE c a d)"},
    {.name = "where-in-false", .pat = "(WHERE c a (WHERE c b d))", .to = "(WHERE c a d)"},
    {.name = "where-merge", .pat = "(WHERE c (WHERE d a b) b)", .to = "(WHERE (AND c d) a b)"},

    /* conversions */
    {.name = "cast-same", .pat = "(CAST|BITCAST a)", .build = cast_to_same},
    {.name = "cast-cast", .pat = "(CAST m:(CAST a))", .build = cast_of_cast},
    {.name = "bitcast-bitcast", .pat = "(BITCAST (BITCAST a))", .build = bitcast_of_bitcast},

    /* floats */
    {.name = "fmul-one", .pat = "(MUL a 1.0)", .to = "a"},
    {.name = "fmul-minus-one", .pat = "(MUL a -1.0)", .to = "(NEG a)"},
    {.name = "fdiv-one", .pat = "(FDIV a 1.0)", .to = "a"},
    {.name = "fdiv-pow2", .pat = "(FDIV a:float c:const)", .build = divide_by_pow2},
    {.name = "fadd-minus-zero", .pat = "(ADD a -0.0)", .to = "a"},
    {.name = "fsub-zero", .pat = "(SUB a 0.0)", .to = "a"},
    {.name = "neg-neg", .pat = "(NEG (NEG a))", .to = "a"},
    {.name = "fsub-neg", .pat = "(SUB a:float (NEG b))", .to = "(ADD a b)"},
    {.name = "fadd-neg", .pat = "(ADD a:float (NEG b))", .to = "(SUB a b)"},

    /* vectors and accesses */
    {.name = "broadcast-one", .pat = "(BROADCAST a)", .build = sym_broadcast},
    {.name = "lane", .pat = "(LANE a)", .build = sym_lane},
    {.name = "load-known", .pat = "(LOAD p i a c:bool)", .build = load_known},
    {.name = "store-known", .pat = "(STORE p i a c:bool)", .build = store_known},
    {.name = "access-given", .pat = "(LOAD|STORE p i a c:bool)", .build = access_given},
};
/* clang-format on */

RW_SET(symbolic_set, symbolic);

struct rw_set *
uop_symbolic_rules(void)
{
    return &symbolic_set;
}
