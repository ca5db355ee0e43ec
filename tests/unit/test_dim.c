/* Sizes of symbols: one form for equal sizes, values and bounds of random
 * expressions against numbers, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bits.h"
#include "uops/dim.h"
#include "uops/uop.h"

enum {
    N_SYMBOLS = 3
};

struct rig {
    struct dim_table t;
    int64_t n, m, k; /* 1..2048, 2..8, -5..5 */
};

static void
begin(struct rig *r)
{
    dim_table_init(&r->t);
    r->n = dim_symbol(&r->t, "n", 1, 2048);
    r->m = dim_symbol(&r->t, "m", 2, 8);
    r->k = dim_symbol(&r->t, "k", -5, 5);
    assert_true(dim_is_expr(r->n) && dim_is_expr(r->m) && dim_is_expr(r->k));
}

static int64_t
product(struct rig *r, int64_t a, int64_t b, int64_t c)
{
    return dim_product(&r->t, (int64_t[]){a, b, c}, 3);
}

static void
expect_text(struct rig *r, int64_t d, const char *want)
{
    char text[128];

    dim_print(&r->t, d, text, sizeof(text));
    assert_string_equal(text, want);
}

static void
expect_bounds(struct rig *r, int64_t d, int64_t min, int64_t max)
{
    int64_t a, b;

    dim_bounds(&r->t, d, &a, &b);
    assert_int_equal(a, min);
    assert_int_equal(b, max);
}

static void
test_forms(void **state)
{
    struct dim_table *t;
    struct rig r;
    int64_t n1, sum;

    (void)state;
    begin(&r);
    t = &r.t;
    n1 = dim_add(t, r.n, 1);
    assert_int_equal(dim_sub(t, n1, r.n), 1);
    assert_int_equal(dim_sub(t, n1, n1), 0);
    assert_int_equal(dim_mul(t, r.n, r.m), dim_mul(t, r.m, r.n));
    sum = dim_add(t, dim_mul(t, n1, n1), dim_mul(t, -1, dim_mul(t, r.n, r.n)));
    assert_int_equal(sum, dim_add(t, dim_mul(t, r.n, 2), 1));
    expect_text(&r, sum, "2*n + 1");
    expect_text(&r, dim_sub(t, 7, dim_mul(t, r.m, r.n)), "-n*m + 7");
    expect_text(&r, dim_floordiv(t, dim_add(t, r.n, 5), 4), "((n + 1)//4) + 1");
    expect_text(&r, dim_floormod(t, dim_mul(t, 3, r.n), 64), "((3*n)%64)");
    expect_text(&r, dim_min(t, r.n, 64), "min(64, n)");
    assert_int_equal(dim_min(t, r.n, 4096), r.n);
    assert_int_equal(dim_max(t, r.n, 0), r.n);
    /* What divides, divides. */
    assert_int_equal(dim_floordiv(t, product(&r, 12, r.n, r.m), r.m),
                     dim_mul(t, 12, r.n));
    assert_int_equal(dim_divide(t, dim_mul(t, n1, r.m), n1), r.m);
    assert_int_equal(dim_divide(t, dim_sub(t, dim_mul(t, r.n, r.n), 1), n1),
                     dim_sub(t, r.n, 1));
    assert_int_equal(dim_divide(t, r.n, r.m), DIM_BAD);
    assert_string_equal(dim_why(t), "one does not divide the other");
    assert_int_equal(dim_floordiv(t, dim_add(t, dim_mul(t, r.n, r.m), 1), r.m),
                     r.n); /* as m is at least 2 */
    assert_int_equal(dim_floormod(t, dim_add(t, dim_mul(t, r.n, r.m), 1), r.m),
                     1);
    assert_int_equal(dim_symbol_of(t, r.m), 1);
    assert_int_equal(dim_symbol_of(t, n1), -1);
    assert_int_equal(dim_symbols(t, dim_floordiv(t, r.k, r.m)), 6);
    dim_table_fini(t);
}

static void
test_bounds(void **state)
{
    struct dim_table *t;
    int64_t min, max;
    struct rig r;

    (void)state;
    begin(&r);
    t = &r.t;
    expect_bounds(&r, dim_sub(t, 100, dim_mul(t, 2, r.n)), -3996, 98);
    expect_bounds(&r, dim_mul(t, r.n, dim_sub(t, r.n, 1)), 0, 2048 * 2047);
    expect_bounds(&r, dim_floordiv(t, r.k, 2), -3, 2);
    expect_bounds(&r, dim_floordiv(t, r.n, r.m), 0, 1024);
    expect_bounds(&r, dim_floormod(t, r.n, r.m), 0, 7);
    expect_bounds(&r, dim_max(t, r.n, 64), 64, 2048);
    dim_bounds_within(t, dim_floordiv(t, dim_mul(t, r.n, r.n), r.m),
                      (int64_t[]){3, 2, 0}, (int64_t[]){7, 3, 0}, &min, &max);
    assert_int_equal(min, 3);
    assert_int_equal(max, 24);
    assert_int_equal(dim_at_most(t, r.n, dim_mul(t, r.n, r.m)), DIM_ALWAYS);
    assert_int_equal(dim_at_most(t, dim_add(t, r.n, 1), r.n), DIM_NEVER);
    assert_int_equal(dim_at_most(t, r.n, 1000), DIM_UNKNOWN);
    assert_int_equal(dim_equal(t, r.n, 1000), DIM_UNKNOWN);
    assert_int_equal(dim_equal(t, r.n, 0), DIM_NEVER);
    assert_int_equal(dim_equal(t, r.n, r.n), DIM_ALWAYS);
    dim_table_fini(t);
}

static void
test_refused(void **state)
{
    struct dim_table *t;
    struct rig r;
    int64_t d, i;

    (void)state;
    begin(&r);
    t = &r.t;
    assert_int_equal(dim_floordiv(t, r.n, r.k), DIM_BAD);
    assert_string_equal(dim_why(t), "a divisor may be 0 or less");
    assert_int_equal(dim_floormod(t, 4, 0), DIM_BAD);
    assert_int_equal(dim_add(t, INT64_MAX, r.n), DIM_BAD);
    assert_int_equal(dim_mul(t, DIM_LIMIT - 1, dim_mul(t, r.n, 2)), DIM_BAD);
    assert_string_equal(dim_why(t), "its numbers are too large");
    for (d = r.n, i = 0; i < DIM_MAX_DEGREE - 1; i++)
        d = dim_mul(t, d, r.n);
    assert_true(dim_is_expr(d));
    assert_int_equal(dim_mul(t, d, r.m), DIM_BAD);
    assert_string_equal(dim_why(t), "it is a product of too many symbols");
    assert_int_equal(dim_mul(t, DIM_BAD, 0), DIM_BAD);
    for (d = r.n, i = 0; i < DIM_MAX_DEPTH; i++)
        d = dim_floordiv(t, dim_add(t, dim_mul(t, d, d), r.n), 7);
    assert_true(dim_is_expr(d));
    assert_int_equal(dim_floordiv(t, dim_add(t, d, r.m), 7), DIM_BAD);
    assert_int_equal(dim_symbol(t, "x", 3, 2), DIM_BAD);
    for (i = N_SYMBOLS; i < DIM_MAX_SYMBOLS; i++)
        assert_true(dim_is_expr(dim_symbol(t, "x", 0, i)));
    assert_int_equal(dim_symbol(t, "x", 0, 1), DIM_BAD);
    dim_table_fini(t);
}

/* ---- random expressions ------------------------------------------------ */

struct made {
    int64_t d;
    int64_t values[8]; /* for each of the draws of the symbols */
};

static uint64_t seed = 1;

static uint64_t
draw(uint64_t n)
{
    seed = hash_mix(seed + 0x9e3779b97f4a7c15ull);
    return seed % n;
}

/* What a number is, with the operation done on numbers. */
static bool
apply(struct dim_table *t, uint64_t op, const struct made *a,
      const struct made *b, struct made *out)
{
    int64_t (*const ops[])(struct dim_table *, int64_t, int64_t) = {
        dim_add, dim_sub, dim_mul, dim_floordiv, dim_floormod, dim_min, dim_max,
    };
    uint32_t i;

    out->d = ops[op](t, a->d, b->d);
    if (out->d == DIM_BAD)
        return false;
    for (i = 0; i < 8; i++) {
        int64_t x = a->values[i], y = b->values[i], *v = &out->values[i];

        switch (op) {
        case 0:
            *v = x + y;
            break;
        case 1:
            *v = x - y;
            break;
        case 2:
            if (__builtin_mul_overflow(x, y, v))
                return false;
            break;
        case 3:
            *v = floor_div(x, y);
            break;
        case 4:
            *v = x - floor_div(x, y) * y;
            break;
        case 5:
            *v = x < y ? x : y;
            break;
        default:
            *v = x > y ? x : y;
            break;
        }
        if (*v > (int64_t)1 << 50 || *v < -((int64_t)1 << 50))
            return false;
    }
    return true;
}

static void
check_made(struct dim_table *t, const struct made *made,
           int64_t draws[8][N_SYMBOLS])
{
    const struct uop *vars[N_SYMBOLS], *u;
    int64_t min, max;
    uint32_t i, k;

    dim_bounds(t, made->d, &min, &max);
    for (i = 0; i < 8; i++) {
        struct uop_graph g;

        assert_int_equal(dim_value(t, made->d, draws[i]), made->values[i]);
        assert_true(made->values[i] >= min && made->values[i] <= max);
        if (i)
            continue;
        uop_graph_init(&g);
        for (k = 0; k < N_SYMBOLS; k++)
            vars[k] = uop_const_int(&g, UOP_I64, draws[i][k]);
        u = dim_uop(t, &g, made->d, vars);
        assert_int_equal(u->op, UOP_CONST);
        assert_int_equal(u->arg.i, made->values[i]);
        uop_graph_fini(&g);
    }
}

static void
test_random(void **state)
{
    const int64_t bounds[N_SYMBOLS][2] = {{1, 2048}, {2, 8}, {-5, 5}};
    int64_t draws[8][N_SYMBOLS];
    struct made made[40];
    uint32_t round, i, k, n, n_exprs = 0, n_same = 0;

    (void)state;
    for (round = 0; round < 400; round++) {
        struct rig r;

        begin(&r);
        for (i = 0; i < 8; i++) {
            for (k = 0; k < N_SYMBOLS; k++)
                draws[i][k] =
                    bounds[k][0] +
                    (int64_t)draw((uint64_t)(bounds[k][1] - bounds[k][0] + 1));
        }
        for (n = 0; n < 6; n++) {
            int64_t number = (int64_t)draw(80) - 9;

            made[n].d = n < 3 ? (int64_t[]){r.n, r.m, r.k}[n] : number;
            for (i = 0; i < 8; i++)
                made[n].values[i] = n < 3 ? draws[i][n] : number;
        }
        for (i = 0; i < 200 && n < 40; i++) {
            const struct made *a = &made[draw(n)], *b = &made[draw(n)];
            struct made back, *out = &made[n];
            uint64_t op = draw(7);

            if (!apply(&r.t, op, a, b, out))
                continue;
            check_made(&r.t, out, draws);
            n_exprs += dim_is_expr(out->d);
            n++;
            /* (a + b) - b, and a * b over b, are a, the same word. */
            if (op == 0)
                assert_int_equal(dim_sub(&r.t, out->d, b->d), a->d);
            if (op == 2 && b->d != 0)
                assert_int_equal(dim_divide(&r.t, out->d, b->d), a->d);
            n_same += op == 0 || op == 2;
            if (apply(&r.t, op, a, b, &back))
                assert_int_equal(back.d, out->d);
        }
        dim_table_fini(&r.t);
    }
    assert_true(n_exprs > 4000 && n_same > 1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests_name("dim", tests, NULL, NULL);
}
