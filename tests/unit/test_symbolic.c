/* Symbolic simplification: what index expressions become, random expressions
 * against their unsimplified values, and bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/uop_sexp.h"
#include "uops/uop.h"

struct golden {
    const char *in, *out;
};

static void
check_goldens(const struct golden *rows, size_t n)
{
    struct uop_graph g;
    char buf[512];
    size_t i, n_bad = 0;

    for (i = 0; i < n; i++) {
        const struct uop *u;
        uop_graph_init(&g);
        u = sexp_build(&g, rows[i].in, false);
        uop_expr_str(u, buf, sizeof(buf));
        if (strcmp(buf, rows[i].out) != 0) {
            print_error("%s\n   gave %s\n   not  %s\n", rows[i].in, buf,
                        rows[i].out);
            n_bad++;
        }
        assert_int_equal(uop_graph_status(&g), BELL_OK);
        uop_graph_fini(&g);
    }
    assert_int_equal(n_bad, 0);
}

static void
test_sums(void **state)
{
    static const struct golden rows[] = {
        {"(ADD (ADD r1:4 3) (MUL r0:4 4))", "r0*4 + r1 + 3"},
        {"(ADD (ADD r1:4 3) (ADD r1:4 -3))", "r1*2"},
        {"(SUB r0:4 r0:4)", "0"},
        {"(SUB 15 r0:16)", "15 - r0"},
        {"(SUB 15 (SUB 15 r0:16))", "r0"},
        {"(MUL (ADD (MUL r0:4 3) (ADD r1:5 2)) 4)", "r0*12 + r1*4 + 8"},
        {"(MUL (MUL r0:4 3) 4)", "r0*12"},
        {"(MUL (MUL r0:4 3) r1:7)", "r0*r1*3"},
        {"(MUL r0:4 0)", "0"},
        {"(ADD r0:1 r1:8)", "r1"},
        {"(MUL (ADD a:i32 b:i32) 3)", "(p97[0] + p98[0])*3"},
        {"(ADD (MUL a:i32 3) (MUL a:i32 -2))", "p97[0]"},
        {"(SUB (ADD a:u8 5) 7)", "p97[0] + 5 - 7"},
        {"(ADD (MUL a:u8 200) (MUL a:u8 57))", "p97[0]"},
        {"(NEG (ADD r0:4 1))", "-r0 - 1"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

static void
test_division(void **state)
{
    static const struct golden rows[] = {
        {"(FLOORDIV (ADD (MUL r0:8 4) r1:4) 4)", "r0"},
        {"(FLOORMOD (ADD (MUL r0:8 4) r1:4) 4)", "r1"},
        {"(FLOORDIV (ADD (MUL r0:8 4) r1:5) 4)", "r0 + r1//4"},
        {"(FLOORDIV r0:7 7)", "0"},
        {"(FLOORMOD r0:7 7)", "r0"},
        {"(FLOORDIV (FLOORDIV r0:1000 4) 5)", "r0//20"},
        {"(FLOORDIV (FLOORMOD r0:1000 20) 4)", "r0//4%5"},
        {"(FLOORMOD (FLOORMOD r0:1000 20) 4)", "r0%4"},
        {"(ADD (MUL (FLOORMOD (FLOORDIV r0:1000 4) 5) 4) (FLOORMOD r0:1000 "
         "4))",
         "r0%20"},
        {"(ADD (MUL (FLOORDIV r0:12 4) 4) (FLOORMOD r0:12 4))", "r0"},
        {"(FLOORDIV (MUL r0:10 6) 4)", "r0*3//2"},
        {"(FLOORMOD (MUL r0:10 6) 4)", "r0%2*2"},
        {"(ADD (MUL (FLOORDIV (MUL r0:10 6) 4) 4) (FLOORMOD (MUL r0:10 6) "
         "4))",
         "r0*6"},
        {"(FLOORDIV (ADD (MUL r0:10 6) r1:2) 4)", "r0*3//2"},
        {"(FLOORMOD (ADD (MUL r0:10 4) r1:4) 8)", "r0%2*4 + r1"},
        {"(FLOORDIV (SUB r0:16 1) 4)", "(r0 + 3)//4 - 1"},
        {"(FLOORDIV (SUB 15 r0:16) 4)", "(15 - r0)//4"},
        {"(FLOORDIV (ADD r0:16 9) 4)", "(r0 + 1)//4 + 2"},
        {"(FLOORMOD (ADD r0:16 9) 4)", "(r0 + 1)%4"},
        {"(FLOORDIV (FLOORDIV (ADD r0:64 3) 4) 2)", "(r0 + 3)//8"},
        {"(FLOORDIV r0:100 1)", "r0"},
        {"(FLOORMOD r0:100 1)", "0"},
        {"(FLOORDIV (ADD a:i32 (MUL b:i32 4)) 4)", "(p97[0] + p98[0]*4)//4"},
        {"(FLOORDIV (CAST.i64 a:u8) 256)", "0"},
        {"(IMOD r0:4 9)", "r0"},
        {"(FLOORMOD (ADD (MUL r0:3 5) r1:5) 15)", "r0*5 + r1"},
        {"(FLOORDIV (ADD (MUL r0:4 9) r1:8) 8)", "(r0*9 + r1)//8"},
        {"(FLOORDIV (ADD (MUL r0:4 9) r1:2) 8)", "r0"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

static void
test_comparisons(void **state)
{
    static const struct golden rows[] = {
        {"(CMPLT r0:8 8)", "true"},
        {"(CMPLT r0:8 0)", "false"},
        {"(CMPLT (MUL r0:8 4) 13)", "r0 < 4"},
        {"(CMPLT (ADD (MUL r0:8 4) r1:4) 8)", "r0 < 2"},
        {"(CMPLT (ADD (MUL r0:8 4) r1:4) 9)", "r0*4 + r1 < 9"},
        {"(CMPLT (SUB 15 r0:16) 3)", "12 < r0"},
        {"(XOR (CMPLT r0:16 3) true)", "2 < r0"},
        {"(XOR (CMPLT 2 r0:16) true)", "r0 < 3"},
        {"(CMPLT (ADD r0:8 r1:8) (ADD r0:8 r2:8))", "r1 < r2"},
        {"(CMPLT (FLOORDIV r0:64 4) 3)", "r0 < 12"},
        {"(CMPLT 3 (FLOORDIV r0:64 4))", "15 < r0"},
        {"(CMPEQ (MUL r0:8 2) 5)", "false"},
        {"(CMPEQ (MUL r0:8 2) 6)", "r0 == 3"},
        {"(CMPNE (ADD r0:8 3) (ADD r0:8 4))", "true"},
        {"(CMPEQ (ADD r0:8 2) (SUB r1:8 1))", "r0 == r1 - 3"},
        {"(AND (CMPLT r0:16 5) (CMPLT r0:16 7))", "r0 < 5"},
        {"(AND (CMPLT 3 r0:16) (CMPLT r0:16 4))", "false"},
        {"(OR (CMPLT r0:16 5) (CMPLT r0:16 7))", "r0 < 7"},
        {"(OR (CMPLT 3 r0:16) (CMPLT r0:16 5))", "true"},
        {"(AND (CMPLT 2 r0:16) (CMPLT 0 (ADD r0:16 r1:4)))", "2 < r0"},
        {"(AND (AND (CMPLT r0:16 5) (CMPLT 1 r1:8)) (AND (CMPLT r1:8 6) "
         "(CMPLT r0:16 9)))",
         "r0 < 5 & 1 < r1 & r1 < 6"},
        {"(CMPLT a:i32 (ADD a:i32 1))", "p97[0] < p97[0] + 1"},
        {"(XOR (XOR a:bool true) true)", "p97[0]"},
        {"(CMPNE (CAST.i32 a:bool) 0)", "p97[0]"},
        {"(WHERE (XOR a:bool true) 1 2)", "p97[0] ? 2 : 1"},
        {"(WHERE a:bool (WHERE b:bool c:f32 0.0) 0.0)",
         "p97[0] & p98[0] ? p99[0] : 0.0"},
        {"(WHERE a:bool (WHERE a:bool 1 2) 3)", "p97[0] ? 1 : 3"},
        {"(MAX r0:8 7)", "7"},
        {"(MIN r0:8 7)", "r0"},
        {"(MAX (MAX a:f32 1.0) 2.0)", "max(p97[0], 2.0)"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

static void
test_vectors(void **state)
{
    static const struct golden rows[] = {
        {"(ADD (BROADCAST.4 r0:8) (BROADCAST.4 r1:8))", "(r0 + r1){4}"},
        {"(MUL (ADD (BROADCAST.4 (MUL r0:8 4)) ramp4) 3)",
         "(r0*12){4} + ramp4*3{4}"},
        {"(ADD (ADD (BROADCAST.4 r0:8) ramp4) (BROADCAST.4 (ADD r1:2 5)))",
         "(r0 + r1 + 5){4} + ramp4"},
        {"(FLOORDIV (ADD (BROADCAST.4 (MUL r0:8 4)) ramp4) 4)", "r0{4}"},
        {"(FLOORMOD (ADD (BROADCAST.4 (MUL r0:8 4)) ramp4) 4)", "ramp4"},
        {"(LANES (MUL r0:8 4) (ADD (MUL r0:8 4) 1) (ADD (MUL r0:8 4) 2))",
         "(r0*4){3} + ramp3"},
        {"(LANES r0:8 r0:8)", "r0{2}"},
        {"(LANES 0 2 4 6)", "ramp4*2{4}"},
        {"(LANE.2 (ADD (BROADCAST.4 r0:8) (MUL ramp4 3)))", "r0 + 6"},
        {"(LANES (LANE.0 a:f32x2) (LANE.1 a:f32x2))", "p97[0]"},
        {"(CMPLT (ADD (BROADCAST.4 (MUL r0:8 4)) ramp4) 16)", "(r0 < 4){4}"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

static void
test_floats(void **state)
{
    static const struct golden rows[] = {
        {"(MUL a:f32 1.0)", "p97[0]"},
        {"(MUL a:f32 0.0)", "p97[0]*0.0"},
        {"(ADD a:f32 0.0)", "p97[0] + 0.0"},
        {"(ADD a:f32 -0.0)", "p97[0]"},
        {"(SUB a:f32 0.0)", "p97[0]"},
        {"(SUB a:f32 a:f32)", "p97[0] - p97[0]"},
        {"(FDIV a:f32 4.0)", "p97[0]*0.25"},
        {"(FDIV a:f32 3.0)", "p97[0]/3.0"},
        {"(NEG (NEG a:f32))", "p97[0]"},
        {"(ADD 2.0 3.0)", "5.0"},
        {"(CAST.f32 (CAST.f64 a:f16))", "(f32)p97[0]"},
        {"(CAST.f16 (CAST.f32 a:f16))", "p97[0]"},
        {"(CAST.f16 (CAST.f32 a:f64))", "(f16)(f32)p97[0]"},
        {"(CAST.bool (CAST.i32 a:bool))", "p97[0]"},
        {"(CAST.i8 (CAST.i32 a:i8))", "p97[0]"},
        {"(CAST.i32 (CAST.i8 a:i32))", "(i32)(i8)p97[0]"},
        {"(CMPEQ a:f32 a:f32)", "p97[0] == p97[0]"},
        {"(XOR (CMPLT a:f32 b:f32) true)", "!(p97[0] < p98[0])"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

/* --- random expressions ------------------------------------------------- */

#define MAX_RANGES 4
#define N_RANDOM   (IS_SANITIZED ? 25000 : 100000)

struct rng {
    uint64_t s;
};

static uint32_t
rnd(struct rng *r, uint32_t n)
{
    r->s = r->s * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((r->s >> 33) % n);
}

struct gen {
    struct uop_graph *g;
    struct rng rng;
    uint32_t n_ranges;
    int64_t sizes[MAX_RANGES];
    const struct uop *ranges[MAX_RANGES];
    enum uop_dtype dtype;
    uint16_t lanes; /* more than 1: leaves are RAMPs and BROADCASTs */
};

static const struct uop *
mk(struct gen *n, bool raw, enum uop_op op, enum uop_dtype dtype,
   const struct uop *a, const struct uop *b, const struct uop *c)
{
    const struct uop *src[3] = {a, b, c};
    union uop_arg none = {.bits = 0};

    return (raw ? uop_new : uop_make)(n->g, op, dtype, n->lanes, none, src,
                                      uop_op_infos[op].min_src);
}

/* The same random expression twice: raw and simplified on the way. */
struct pair {
    const struct uop *raw, *made;
};

static struct pair
both(struct gen *n, enum uop_op op, enum uop_dtype dtype, struct pair a,
     struct pair b, struct pair c)
{
    struct pair p;

    p.raw = mk(n, true, op, dtype, a.raw, b.raw, c.raw);
    p.made = mk(n, false, op, dtype, a.made, b.made, c.made);
    return p;
}

/* A scalar leaf, in every lane. */
static struct pair
spread(struct gen *n, const struct uop *u)
{
    union uop_arg none = {.bits = 0};
    struct pair p;

    if (n->lanes > 1)
        u = uop_new(n->g, UOP_BROADCAST, u->dtype, n->lanes, none, &u, 1);
    p.raw = p.made = u;
    return p;
}

static struct pair
gen_const(struct gen *n, int64_t value)
{
    return spread(n, uop_const_int(n->g, n->dtype, value));
}

static struct pair gen_int(struct gen *n, int depth);

static struct pair
gen_bool(struct gen *n, int depth)
{
    static const enum uop_op cmps[] = {UOP_CMPLT, UOP_CMPLT, UOP_CMPEQ,
                                       UOP_CMPNE};
    static const enum uop_op logic[] = {UOP_AND,   UOP_OR,    UOP_XOR,
                                        UOP_CMPEQ, UOP_CMPNE, UOP_MUL,
                                        UOP_CMPLT, UOP_AND};
    struct pair none = {NULL, NULL}, a, b;

    if (depth <= 1 || rnd(&n->rng, 2)) {
        a = gen_int(n, depth - 1);
        b = rnd(&n->rng, 2) ? gen_int(n, depth - 1)
                            : gen_const(n, (int64_t)rnd(&n->rng, 30) - 4);
        if (rnd(&n->rng, 2))
            return both(n, cmps[rnd(&n->rng, 4)], UOP_BOOL, a, b, none);
        return both(n, cmps[rnd(&n->rng, 4)], UOP_BOOL, b, a, none);
    }
    a = gen_bool(n, depth - 1);
    if (rnd(&n->rng, 4) == 0) {
        b = spread(n, uop_const_int(n->g, UOP_BOOL, 1));
        return both(n, UOP_XOR, UOP_BOOL, a, b, none);
    }
    b = gen_bool(n, depth - 1);
    return both(n, logic[rnd(&n->rng, 8)], UOP_BOOL, a, b, none);
}

/* Nearly a value from its quotient and remainder: x // d % m * t + y % b * s,
 * with y and x, d and b, t and b*s sometimes related and sometimes not. */
static struct pair
gen_split(struct gen *n, struct pair x)
{
    struct pair none = {NULL, NULL}, y = x, quot, rem;
    int64_t b = 2 + rnd(&n->rng, 4), s = 1 + rnd(&n->rng, 3), a = 1;

    if (rnd(&n->rng, 2)) /* the same value, or not, modulo b */
        y = both(n, UOP_ADD, n->dtype, x,
                 gen_const(n, b * (int64_t)rnd(&n->rng, 3) -
                                  (int64_t)rnd(&n->rng, 2)),
                 none);
    if (rnd(&n->rng, 2)) {
        a = 2 + rnd(&n->rng, 3);
        y = both(n, UOP_FLOORDIV, n->dtype, y, gen_const(n, a), none);
    }
    rem = both(n, UOP_FLOORMOD, n->dtype, y, gen_const(n, b), none);
    rem = both(n, UOP_MUL, n->dtype, rem, gen_const(n, s), none);
    quot = both(n, UOP_FLOORDIV, n->dtype, x,
                gen_const(n, a * b + rnd(&n->rng, 4) / 3), none);
    if (rnd(&n->rng, 2))
        quot = both(n, UOP_FLOORMOD, n->dtype, quot,
                    gen_const(n, 2 + rnd(&n->rng, 3)), none);
    quot = both(n, UOP_MUL, n->dtype, quot,
                gen_const(n, b * s + rnd(&n->rng, 4) / 3), none);
    return both(n, UOP_ADD, n->dtype, quot, rem, none);
}

static struct pair
gen_int(struct gen *n, int depth)
{
    static const int64_t divisors[] = {1, 2,  3,  4,  5,  6,  7,  8,
                                       9, 12, 15, 16, 20, -1, -3, 0};
    struct pair none = {NULL, NULL}, a, b;
    uint32_t pick = rnd(&n->rng, 20);

    if (depth <= 0) {
        if (rnd(&n->rng, 4) == 0)
            return gen_const(n, (int64_t)rnd(&n->rng, 25) - 8);
        if (n->lanes > 1 && rnd(&n->rng, 2)) {
            union uop_arg arg = {.bits = 0};
            a.raw = a.made =
                uop_new(n->g, UOP_RAMP, UOP_I64, n->lanes, arg, NULL, 0);
        } else {
            a = spread(n, n->ranges[rnd(&n->rng, n->n_ranges)]);
        }
        if (n->dtype != UOP_I64)
            return both(n, UOP_CAST, n->dtype, a, none, none);
        return a;
    }
    a = gen_int(n, depth - 1);
    if (rnd(&n->rng, 12) == 0)
        return gen_split(n, a);
    if (pick < 8)
        return both(n, pick < 6 ? UOP_ADD : UOP_SUB, n->dtype, a,
                    gen_int(n, depth - 1 - (int)rnd(&n->rng, 2)), none);
    if (pick < 11)
        return both(n, UOP_MUL, n->dtype, a,
                    gen_const(n, (int64_t)rnd(&n->rng, 18) - 3), none);
    if (pick < 17) {
        static const enum uop_op divs[] = {UOP_FLOORDIV, UOP_FLOORMOD,
                                           UOP_FLOORDIV, UOP_FLOORMOD,
                                           UOP_IDIV,     UOP_IMOD};
        enum uop_op op = divs[pick - 11];
        return both(n, op, n->dtype, a,
                    gen_const(n, divisors[rnd(&n->rng, 16)]), none);
    }
    if (pick == 17)
        return both(n, UOP_WHERE, n->dtype, gen_bool(n, depth - 1), a,
                    gen_int(n, depth - 1));
    b = gen_int(n, depth - 1);
    return both(n, pick == 18 ? (rnd(&n->rng, 2) ? UOP_MIN : UOP_MAX) : UOP_MUL,
                n->dtype, a, b, none);
}

/* Values of all nodes at one point, in one lane, by id. */
static void
eval_all(const struct gen *n, const struct uop **list, size_t n_list,
         const int64_t *at, uint32_t lane, const struct uop **vals,
         struct uop_graph *scratch)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < n_list; i++) {
        const struct uop *u = list[i], *src[3];
        union uop_arg arg;
        if (u->op == UOP_CONST) {
            vals[u->id] = uop_const_int(scratch, u->dtype, u->arg.i);
            continue;
        }
        if (u->op == UOP_RANGE) {
            vals[u->id] = uop_const_int(scratch, UOP_I64, at[uop_range_id(u)]);
            continue;
        }
        if (u->op == UOP_RAMP) {
            vals[u->id] = uop_const_int(scratch, u->dtype, lane);
            continue;
        }
        if (u->op == UOP_BROADCAST || u->op == UOP_PARAM) {
            vals[u->id] = u->n_src ? vals[u->src[0]->id] : u;
            continue;
        }
        for (k = 0; k < u->n_src; k++)
            src[k] = vals[u->src[k]->id];
        assert_true(uop_const_eval(u->op, u->dtype, src, u->n_src, &arg));
        vals[u->id] = uop_const_int(scratch, u->dtype, arg.i);
        if (u->dtype == UOP_U64 && arg.i < 0) /* counts as INT64_MAX */
            arg.i = INT64_MAX;
        if (arg.i < uop_bounds(n->g, u).min ||
            arg.i > uop_bounds(n->g, u).max) {
            char buf[2000];
            fail_msg("value %lld outside of bounds %lld..%lld of %s",
                     (long long)arg.i, (long long)uop_bounds(n->g, u).min,
                     (long long)uop_bounds(n->g, u).max,
                     uop_expr_str(u, buf, sizeof(buf)));
        }
    }
}

/* Steps to the next point; false after the last. */
static bool
next_point(const struct gen *n, int64_t *at)
{
    uint32_t i;

    for (i = 0; i < n->n_ranges; i++) {
        if (++at[i] < n->sizes[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* Both of the pair agree at every point where `gate`, if any, holds; and the
 * gate itself does. */
static void
check_pair(struct gen *n, struct pair p, const struct pair *gate,
           const char *what)
{
    const struct uop *roots[4], **list, **vals;
    int64_t at[MAX_RANGES] = {0};
    struct uop_graph scratch;
    size_t n_list;
    uint32_t lane = 0;

    roots[0] = p.raw;
    roots[1] = p.made;
    roots[2] = gate ? gate->raw : p.raw;
    roots[3] = gate ? gate->made : p.made;
    uop_graph_init(&scratch);
    assert_int_equal(uop_toposort(n->g, roots, 4, &list, &n_list), BELL_OK);
    vals = calloc(n->g->n_nodes, sizeof(*vals));
    assert_non_null(vals);
    do {
        const struct uop *x, *y;
        eval_all(n, list, n_list, at, lane, vals, &scratch);
        x = vals[p.raw->id];
        y = vals[p.made->id];
        if (gate)
            assert_ptr_equal(vals[gate->raw->id], vals[gate->made->id]);
        if (x != y && (!gate || vals[gate->raw->id]->arg.i)) {
            char a[2000], b[2000];
            fail_msg("%s: %s = %lld but %s = %lld at %lld %lld %lld %lld", what,
                     uop_expr_str(p.raw, a, sizeof(a)), (long long)x->arg.i,
                     uop_expr_str(p.made, b, sizeof(b)), (long long)y->arg.i,
                     (long long)at[0], (long long)at[1], (long long)at[2],
                     (long long)at[3]);
        }
        lane = (lane + 1) % n->lanes;
    } while (lane || next_point(n, at));
    free(vals);
    host_free(list);
    uop_graph_fini(&scratch);
}

/* A gated LOAD at a random index: what its index and gate became. */
static void
check_gated(struct gen *n, const char *what)
{
    struct pair index = gen_int(n, 3), gate = gen_bool(n, 3);
    union uop_arg none = {.bits = 0};
    const struct uop *src[4], *load;

    if (rnd(&n->rng, 2)) {
        struct pair other = gen_bool(n, 2), nothing = {NULL, NULL};
        gate = both(n, UOP_AND, UOP_BOOL, gate, other, nothing);
    }
    src[0] = uop_new(n->g, UOP_PARAM, UOP_I64, 1, none, NULL, 0);
    src[1] = index.made;
    src[2] = uop_const_int(n->g, UOP_I64, 0);
    src[3] = gate.made;
    load = uop_make(n->g, UOP_LOAD, UOP_I64, 1, none, src, 4);
    if (load->op == UOP_LOAD) {
        index.made = load->src[1];
        gate.made =
            load->n_src == 4 ? load->src[3] : uop_const_int(n->g, UOP_BOOL, 1);
    } else {
        gate.made = uop_const_int(n->g, UOP_BOOL, 0);
    }
    check_pair(n, index, &gate, what);
}

enum kind {
    PLAIN,
    VECTOR,
    GATED,
};

static void
run_random(enum uop_dtype dtype, enum kind kind, uint32_t n_exprs,
           uint64_t seed)
{
    struct uop_graph g;
    struct gen n = {.g = &g, .rng = {seed}, .dtype = dtype};
    char what[32];
    uint32_t i, k;

    n.lanes = kind == VECTOR ? 4 : 1;
    for (i = 0; i < n_exprs; i++) {
        uop_graph_init(&g);
        n.n_ranges = 2 + rnd(&n.rng, 3);
        for (k = 0; k < n.n_ranges; k++) {
            n.sizes[k] = 1 + rnd(&n.rng, n.n_ranges > 2 ? 6 : 14);
            n.ranges[k] = uop_range(&g, k, UOP_AXIS_LOOP, n.sizes[k]);
        }
        snprintf(what, sizeof(what), "number %u", i);
        if (kind == GATED)
            check_gated(&n, what);
        else if (rnd(&n.rng, 4) == 0)
            check_pair(&n, gen_bool(&n, 2 + (int)rnd(&n.rng, 3)), NULL, what);
        else
            check_pair(&n, gen_int(&n, 2 + (int)rnd(&n.rng, 4)), NULL, what);
        assert_false(g.failed);
        uop_graph_fini(&g);
    }
}

static uint32_t
n_random(void)
{
    const char *text = getenv("BELL_TEST_RANDOM");

    return text ? (uint32_t)atoi(text) : N_RANDOM;
}

static void
test_random_int64(void **state)
{
    (void)state;
    run_random(UOP_I64, PLAIN, n_random() / 2, 1);
}

static void
test_random_vectors(void **state)
{
    (void)state;
    run_random(UOP_I64, VECTOR, n_random() / 8, 6);
}

static void
test_random_gates(void **state)
{
    (void)state;
    run_random(UOP_I64, GATED, n_random() / 4, 7);
}

static void
test_random_narrow(void **state)
{
    (void)state;
    run_random(UOP_I8, PLAIN, n_random() / 8, 2);
    run_random(UOP_U8, PLAIN, n_random() / 8, 3);
    run_random(UOP_I32, PLAIN, n_random() / 8, 4);
    run_random(UOP_U64, PLAIN, n_random() / 8, 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_division),
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_random_int64),
        cmocka_unit_test(test_random_narrow),
        cmocka_unit_test(test_random_vectors),
        cmocka_unit_test(test_random_gates),
    };

    return cmocka_run_group_tests_name("symbolic", tests, NULL, NULL);
}
