/* Memory forms, loops, variables, grids, threads, and running out of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/bits.h"
#include "render/render_internal.h"
#include "render_check.h"

#define N 96 /* elements of most buffers */

/* ---- memory ---- */

/* What a gated access looks like. */
struct access_form {
    unsigned lanes;
    bool gather;      /* as many indices as lanes */
    unsigned gate;    /* 0: none, 1: of one lane, 2: of every lane */
    bool const_other; /* the value beside the gate is a constant */
};

/* base + stride * (0, 1, 2...), written so that nobody recognises it. */
static const struct uop *
ramp_from(struct uop_graph *g, const struct uop *base, unsigned lanes,
          unsigned stride)
{
    const struct uop *src[2];

    src[0] = mk(g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
    src[1] = mk_splat(g, mk_int(g, stride), lanes);
    src[0] = mk(g, UOP_MUL, UOP_I64, lanes, 0, 2, src);
    src[1] = mk_splat(g, base, lanes);
    src[0] = mk(g, UOP_ADD, UOP_I64, lanes, 0, 2, src);
    src[1] = mk_splat(g, mk_int(g, 0), lanes);
    return mk(g, UOP_OR, UOP_I64, lanes, 0, 2, src);
}

/* An access that ends, by its gate, three elements (or, with one gate for all
 * lanes, three vectors) before N; the buffer ends there too. */
static void
check_access(enum uop_dtype dtype, const struct access_form *f, bool store)
{
    int64_t n = f->gate == 1   ? N - 3 * (int64_t)f->lanes
                : f->gate == 2 ? N - 3
                               : N;
    unsigned stride = f->gather && f->gate == 2 ? 3 : 1;
    const struct uop *range, *base, *index, *gate = NULL, *other = NULL;
    const struct uop *in, *out, *root;
    struct uop_graph g;
    struct p_buf bufs[2];
    uint64_t rng = dtype;
    char what[96];

    uop_graph_init(&g);
    check_buf(&bufs[0], dtype, store ? (size_t)n : N, &rng);
    check_buf(&bufs[1], dtype, store ? N : (size_t)n, &rng);
    out = mk_param(&g, 0, dtype);
    in = mk_param(&g, 1, dtype);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, N / f->lanes);
    base = uop_alu2(&g, UOP_MUL, range, mk_int(&g, f->lanes));
    index = f->gather ? ramp_from(&g, base, f->lanes, stride) : base;
    if (f->gate == 1)
        gate = uop_alu2(&g, UOP_CMPLT, base, mk_int(&g, n));
    if (f->gate == 2)
        gate = uop_alu2(&g, UOP_CMPLT, ramp_from(&g, base, f->lanes, stride),
                        mk_splat(&g, mk_int(&g, n), f->lanes));
    if (gate && f->const_other)
        other = mk_splat(&g, uop_const_float(&g, dtype, 3), f->lanes);
    else if (gate)
        other = mk_splat(&g, mk_load(&g, in, mk_int(&g, 1), 1, NULL, NULL),
                         f->lanes);
    if (store)
        root = mk_store(&g, out, index,
                        mk_load(&g, in, base, f->lanes, NULL, NULL), gate);
    else
        root = mk_store(&g, out, base,
                        mk_load(&g, in, index, f->lanes, other, gate), NULL);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "%s %s x%u%s gate %u%s",
             store ? "store" : "load", uop_dtype_infos[dtype].short_name,
             f->lanes, f->gather ? " gather" : "", f->gate,
             f->const_other ? " const" : "");
    check_roots(&g, &root, 1, bufs, 2, false, what);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

static void
test_memory(void **state)
{
    static const unsigned widths[] = {1, 4, 16};
    unsigned dtype, form, k, n = 0;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (k = 0; k < ARRAY_LEN(widths); k++) {
            for (form = 0; form < 24; form++) {
                struct access_form f = {.lanes = widths[k],
                                        .gather = form & 1,
                                        .gate = form / 2 % 3,
                                        .const_other = form / 6 % 2};
                bool store = form >= 12;
                if ((f.lanes == 1 && (f.gather || f.gate == 2)) ||
                    (f.const_other && (store || !f.gate)))
                    continue;
                if (n++ % backend->thin == 0)
                    check_access(dtype, &f, store);
            }
        }
    }
}

/* Index vectors with steps of -5 to 5, ungated and gated, and one without such
 * steps; the buffer ends with the last element. */
static void
check_steps(enum uop_dtype dtype, unsigned lanes, int64_t step, bool gated,
            bool store)
{
    int64_t low = step < 0 ? step * ((int64_t)lanes - 1) : 0, span;
    const struct uop *index, *gate = NULL, *other = NULL, *pair[2], *root;
    const struct uop *in, *out;
    struct uop_graph g;
    struct p_buf bufs[2];
    uint64_t rng = lanes;
    char what[64];

    span = (step < 0 ? -step : step) * ((int64_t)lanes - 1) + 1;
    uop_graph_init(&g);
    check_buf(&bufs[0], dtype, store ? (size_t)span : lanes, &rng);
    check_buf(&bufs[1], dtype, store ? lanes : (size_t)span, &rng);
    out = mk_param(&g, 0, dtype);
    in = mk_param(&g, 1, dtype);
    index = mk(&g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
    if (gated) {
        pair[0] = mk_splat(&g, mk_int(&g, 3), lanes);
        pair[1] = index;
        gate = mk(&g, UOP_CMPLT, UOP_BOOL, lanes, 0, 2, pair);
        other = mk_splat(&g, uop_const_float(&g, dtype, 1), lanes);
    }
    pair[0] = index;
    pair[1] = mk_splat(&g, mk_int(&g, step), lanes);
    pair[1] = mk(&g, UOP_MUL, UOP_I64, lanes, 0, 2, pair);
    pair[0] = mk_splat(&g, mk_int(&g, -low), lanes);
    index = mk(&g, UOP_ADD, UOP_I64, lanes, 0, 2, pair);
    if (store)
        root =
            mk_store(&g, out, index,
                     mk_load(&g, in, mk_int(&g, 0), lanes, NULL, NULL), gate);
    else
        root = mk_store(&g, out, mk_int(&g, 0),
                        mk_load(&g, in, index, lanes, other, gate), NULL);
    snprintf(what, sizeof(what), "%s %s x%u step %d%s",
             store ? "store" : "load", uop_dtype_infos[dtype].short_name, lanes,
             (int)step, gated ? " gated" : "");
    check_roots(&g, &root, 1, bufs, 2, false, what);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

/* Lanes that are a quotient of consecutive numbers, as of elements that are
 * repeated, under one gate or none; the buffer ends with the last element. */
static void
check_repeated(enum uop_dtype dtype, unsigned lanes, int64_t begin, int64_t by,
               int gated)
{
    const struct uop *index, *gate = NULL, *other = NULL, *pair[2], *root;
    size_t n = (size_t)((begin + lanes - 1) / by + 1);
    struct uop_graph g;
    struct p_buf bufs[2];
    uint64_t rng = lanes;
    char what[64];

    uop_graph_init(&g);
    check_buf(&bufs[0], dtype, lanes, &rng);
    check_buf(&bufs[1], dtype, n, &rng);
    if (gated) {
        pair[0] = mk_int(&g, gated);
        pair[1] = mk_int(&g, 2);
        gate = mk(&g, UOP_CMPLT, UOP_BOOL, 1, 0, 2, pair);
        other = mk_splat(&g, uop_const_float(&g, dtype, 1), lanes);
    }
    pair[0] = mk_splat(&g, mk_int(&g, begin), lanes);
    pair[1] = mk(&g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
    pair[0] = mk(&g, UOP_ADD, UOP_I64, lanes, 0, 2, pair);
    pair[1] = mk_splat(&g, mk_int(&g, by == 2 ? 1 : by), lanes);
    index = mk(&g, by == 2 ? UOP_SHR : UOP_IDIV, UOP_I64, lanes, 0, 2, pair);
    root = mk_store(
        &g, mk_param(&g, 0, dtype), mk_int(&g, 0),
        mk_load(&g, mk_param(&g, 1, dtype), index, lanes, other, gate), NULL);
    snprintf(what, sizeof(what), "load %s x%u of (%d + lane) / %d gate %d",
             uop_dtype_infos[dtype].short_name, lanes, (int)begin, (int)by,
             gated);
    check_roots(&g, &root, 1, bufs, 2, false, what);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
}

static void
test_repeated(void **state)
{
    static const enum uop_dtype dtypes[] = {UOP_F16, UOP_F32, UOP_I32, UOP_F64};
    static const unsigned widths[] = {4, 16};
    unsigned form;

    (void)state;
    for (form = 0; form < 4 * 2 * 3 * 3 * 3; form++)
        check_repeated(dtypes[form % 4], widths[form / 4 % 2], form / 8 % 3,
                       2 + form / 24 % 3, (int)(form / 72 % 3));
}

static void
test_steps(void **state)
{
    static const enum uop_dtype dtypes[] = {UOP_BOOL, UOP_F16, UOP_F32,
                                            UOP_F64};
    static const unsigned widths[] = {2, 3, 8, 16};
    unsigned d, w, form, n = 0;
    int64_t step;

    (void)state;
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        for (w = 0; w < ARRAY_LEN(widths); w++) {
            for (step = -5; step <= 5; step++) {
                for (form = 0; form < 4; form++) {
                    if (n++ % backend->thin == 0)
                        check_steps(dtypes[d], widths[w], step, form & 1,
                                    form & 2);
                }
            }
        }
    }
}

/* ---- loops and variables ---- */

static const struct uop *
acc_get(struct uop_graph *g, const struct uop *acc, const struct uop *after)
{
    const struct uop *src[2] = {acc, after};

    return mk(g, UOP_ACC_GET, acc->dtype, acc->lanes, 0, 2, src);
}

static const struct uop *
acc_set(struct uop_graph *g, const struct uop *acc, const struct uop *value)
{
    const struct uop *src[2] = {acc, value};

    return mk(g, UOP_ACC_SET, UOP_VOID, 1, 0, 2, src);
}

static const struct uop *
acc_new(struct uop_graph *g, int64_t id, const struct uop *first,
        const struct uop *outside_of)
{
    const struct uop *src[2] = {first, outside_of};

    return mk(g, UOP_ACC, first->dtype, first->lanes, id, 2, src);
}

/* c[i] = i + sum over j of (sum over k of a[j] * b[k]): a variable of the
 * outer loop and one that each of its steps begins anew. */
static void
test_nested_loops(void **state)
{
    struct uop_graph g;
    const struct uop *i, *j, *k, *total, *part, *v, *end, *root, *a, *b;
    struct p_buf bufs[3];
    uint64_t rng = 10;
    unsigned n;

    (void)state;
    uop_graph_init(&g);
    for (n = 0; n < 3; n++) {
        check_buf(&bufs[n], UOP_I64, n == 0 ? 8 : 4 + n, &rng);
    }
    i = uop_range(&g, 0, UOP_AXIS_LOOP, 8);
    total = acc_new(&g, 0, i, i);
    j = uop_range(&g, 1, UOP_AXIS_REDUCE, 5);
    a = mk_load(&g, mk_param(&g, 1, UOP_I64), j, 1, NULL, NULL);
    part = acc_new(&g, 1, mk_int(&g, 0), j);
    k = uop_range(&g, 2, UOP_AXIS_REDUCE, 6);
    b = mk_load(&g, mk_param(&g, 2, UOP_I64), k, 1, NULL, NULL);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, part, k),
                 uop_alu2(&g, UOP_MUL, a, b));
    end = mk_end(&g, k, acc_set(&g, part, v));
    v = acc_get(&g, part, end);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, total, j), v);
    end = mk_end(&g, j, acc_set(&g, total, v));
    v = acc_get(&g, total, end);
    root = mk_end(&g, i, mk_store(&g, mk_param(&g, 0, UOP_I64), i, v, NULL));
    check_roots(&g, &root, 1, bufs, 3, false, "nested");
    check_bufs_free(bufs, 3);
    uop_graph_fini(&g);
}

/* Both lanes of `u`, exchanged. */
static const struct uop *
crossed(struct uop_graph *g, const struct uop *u)
{
    const struct uop *part[2] = {mk(g, UOP_LANE, u->dtype, 1, 1, 1, &u),
                                 mk(g, UOP_LANE, u->dtype, 1, 0, 1, &u)};

    return mk(g, UOP_LANES, u->dtype, 2, 0, 2, part);
}

/* The value that was read of a variable stays, also when that is set before the
 * value is used: two variables that are exchanged, and one that an inner loop
 * adds to itself as it was outside. */
static void
test_read_before_set(void **state)
{
    struct uop_graph g;
    const struct uop *i, *k, *a, *b, *total, *v, *w, *end[3], *roots[3];
    struct p_buf bufs[3];
    uint64_t rng = 12;
    uint32_t n;

    (void)state;
    uop_graph_init(&g);
    for (n = 0; n < 3; n++)
        check_buf(&bufs[n], UOP_I32, 2, &rng);
    v = uop_const_int(&g, UOP_I32, 1);
    w = uop_const_int(&g, UOP_I32, 2);
    v = mk(&g, UOP_LANES, UOP_I32, 2, 0, 2, (const struct uop *[]){v, w});
    a = mk(&g, UOP_ACC, UOP_I32, 2, 0, 1, &v);
    w = uop_alu2(&g, UOP_ADD, v, v);
    b = mk(&g, UOP_ACC, UOP_I32, 2, 1, 1, &w);
    v = uop_const_int(&g, UOP_I32, 7);
    total = mk(&g, UOP_ACC, UOP_I32, 1, 2, 1, &v);
    i = uop_range(&g, 0, UOP_AXIS_REDUCE, 3);
    v = acc_get(&g, total, i);
    k = uop_range(&g, 1, UOP_AXIS_REDUCE, 4);
    w = uop_alu2(&g, UOP_ADD, acc_get(&g, total, k), v);
    end[0] = mk_end(&g, k, acc_set(&g, total, w));
    v = acc_get(&g, a, i);
    w = acc_get(&g, b, i);
    v = mk(&g, UOP_END, UOP_VOID, 1, 0, 4,
           (const struct uop *[]){i, end[0], acc_set(&g, a, crossed(&g, w)),
                                  acc_set(&g, b, crossed(&g, v))});
    end[0] = acc_get(&g, a, v);
    end[1] = acc_get(&g, b, v);
    end[2] = acc_get(&g, total, v);
    for (n = 0; n < 3; n++)
        roots[n] = mk_store(&g, mk_param(&g, (int)n, UOP_I32), mk_int(&g, 0),
                            end[n], NULL);
    check_roots(&g, roots, 3, bufs, 3, false, "read before set");
    check_bufs_free(bufs, 3);
    uop_graph_fini(&g);
}

/* A vector variable over a loop whose extent comes from memory. */
static void
check_extent(int64_t n)
{
    struct uop_graph g;
    const struct uop *extent, *r, *acc, *v, *root;
    struct p_buf bufs[3];
    uint64_t rng = 11;
    size_t i;

    uop_graph_init(&g);
    check_buf(&bufs[0], UOP_F32, 4, &rng);
    check_buf(&bufs[1], UOP_F32, 16, NULL);
    check_buf(&bufs[2], UOP_I64, 1, NULL);
    for (i = 0; i < 16; i++)
        p_set(&bufs[1], i, (union uop_arg){.f = (double)i});
    p_set(&bufs[2], 0, (union uop_arg){.i = n});
    extent =
        mk_load(&g, mk_param(&g, 2, UOP_I64), mk_int(&g, 0), 1, NULL, NULL);
    v = mk_splat(&g, uop_const_float(&g, UOP_F32, 1), 4);
    acc = mk(&g, UOP_ACC, UOP_F32, 4, 0, 1, &v);
    r = mk(&g, UOP_RANGE, UOP_I64, 1, uop_range_arg(0, UOP_AXIS_REDUCE), 1,
           &extent);
    v = mk_load(&g, mk_param(&g, 1, UOP_F32),
                uop_alu2(&g, UOP_MUL, r, mk_int(&g, 4)), 4, NULL, NULL);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, acc, r), v);
    v = acc_get(&g, acc, mk_end(&g, r, acc_set(&g, acc, v)));
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), v, NULL);
    check_roots(&g, &root, 1, bufs, 3, false, "extent");
    check_bufs_free(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_extent_from_memory(void **state)
{
    int64_t n;

    (void)state;
    for (n = -1; n <= 4; n++)
        check_extent(n);
}

/* out[0] = sum of in[1..8] + w[0], where w[0] and the index of its use stand
 * before the loop. With `aliased`, w is out, which the loop stores to. */
static void
check_order(bool aliased)
{
    struct uop_graph g;
    const struct uop *w, *r, *acc, *v, *end, *roots[2], *both[3], *in, *out;
    const struct uop *const *ops;
    struct lower_program p;
    struct p_buf bufs[3];
    struct arena arena;
    uint64_t rng = 3;
    uint32_t i, at_load = 0, at_end = 0;

    uop_graph_init(&g);
    for (i = 0; i < 3; i++) {
        check_buf(&bufs[i], UOP_I32, 9, &rng);
    }
    out = mk_param(&g, 0, UOP_I32);
    in = mk_param(&g, 1, UOP_I32);
    w = mk_load(&g, aliased ? out : mk_param(&g, 2, UOP_I32), mk_int(&g, 0), 1,
                NULL, NULL);
    v = uop_const_int(&g, UOP_I32, 0);
    acc = mk(&g, UOP_ACC, UOP_I32, 1, 0, 1, &v);
    r = uop_range(&g, 0, UOP_AXIS_REDUCE, 8);
    v = mk_load(&g, in, uop_alu2(&g, UOP_ADD, r, mk_int(&g, 1)), 1, NULL, NULL);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, acc, r), v);
    both[0] = r;
    both[1] = acc_set(&g, acc, v);
    both[2] = mk_store(&g, out, r, v, NULL);
    end = mk(&g, UOP_END, UOP_VOID, 1, 0, 3, both);
    v = uop_alu2(&g, UOP_ADD, acc_get(&g, acc, end), w);
    roots[0] = mk_store(&g, out, mk_int(&g, 8), v, NULL);
    check_roots(&g, roots, 1, bufs, 3, false, "order");

    arena_init(&arena);
    program_of(&g, roots, 1, &p);
    assert_int_equal(render_order(&p, false, &arena, &ops), BELL_OK);
    for (i = 0; i < p.n_ops; i++) {
        at_load = ops[i] == w ? i : at_load;
        at_end = ops[i] == end ? i : at_end;
    }
    assert_int_equal(at_load > at_end, !aliased);
    program_free(&p);
    arena_fini(&arena);
    check_bufs_free(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_order(void **state)
{
    (void)state;
    check_order(false);
    check_order(true);
}

/* out[i] = in[i] + in[i + 4] for i = 0..3, all LOADs first. In late order each
 * is behind the STORE before; where out is in, all stay. */
static void
check_late_order(bool aliased)
{
    struct uop_graph g;
    const struct uop *load[8], *roots[12], *out, *in;
    const struct uop *const *ops;
    struct lower_program p;
    struct arena arena;
    uint32_t i, n_stores = 0;

    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_I32);
    in = aliased ? out : mk_param(&g, 1, UOP_I32);
    for (i = 0; i < 8; i++)
        roots[i] = load[i] = mk_load(&g, in, mk_int(&g, i), 1, NULL, NULL);
    for (i = 0; i < 4; i++)
        roots[8 + i] =
            mk_store(&g, out, mk_int(&g, i),
                     uop_alu2(&g, UOP_ADD, load[i], load[i + 4]), NULL);
    program_of(&g, roots, 12, &p);
    arena_init(&arena);
    assert_int_equal(render_order(&p, true, &arena, &ops), BELL_OK);
    for (i = 0; i < p.n_ops; i++) {
        if (ops[i]->op == UOP_LOAD)
            assert_int_equal(n_stores,
                             aliased ? 0 : (uint32_t)ops[i]->src[1]->arg.i % 4);
        n_stores += ops[i]->op == UOP_STORE;
    }
    program_free(&p);
    arena_fini(&arena);
    uop_graph_fini(&g);
}

static void
test_late_order(void **state)
{
    (void)state;
    check_late_order(false);
    check_late_order(true);
}

/* ---- grid and arguments ---- */

/* out[z][y][x] = x + 10 y + 100 z + var. */
static void
check_grid(const int64_t *dims)
{
    static const int64_t weight[3] = {1, 10, 100}, seven = 7;
    unsigned chips[8], n_chips = check_chips(backend, chips), c, d;
    struct uop_graph g;
    const struct uop *at = NULL, *value, *root;
    struct lower_program p;
    int64_t out[256], n = dims[0] * dims[1] * dims[2], step = 1, i;
    struct p_buf buf = {UOP_I64, (size_t)n, out};

    assert_true((size_t)n <= ARRAY_LEN(out));
    uop_graph_init(&g);
    value = mk(&g, UOP_VAR, UOP_I64, 1, 1, 0, NULL);
    for (d = 0; d < 3; d++) {
        const struct uop *size = mk_int(&g, dims[d]);
        const struct uop *s = mk(&g, UOP_SPECIAL, UOP_I64, 1, d, 1, &size);
        const struct uop *term = uop_alu2(&g, UOP_MUL, s, mk_int(&g, step));
        at = at ? uop_alu2(&g, UOP_ADD, at, term) : term;
        step *= dims[d];
        term = uop_alu2(&g, UOP_MUL, s, mk_int(&g, weight[d]));
        value = uop_alu2(&g, UOP_ADD, value, term);
    }
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), at, value, NULL);
    program_of(&g, &root, 1, &p);
    for (d = 0; d < 3; d++)
        p.grid[d] = (uint32_t)dims[d];
    for (c = 0; c < n_chips; c++) {
        memset(out, -1, sizeof(out));
        backend->run(&p, chips[c], &buf, 1, &seven, "a grid");
        for (i = 0; i < n; i++)
            assert_int_equal(out[i], i % dims[0] +
                                         10 * (i / dims[0] % dims[1]) +
                                         100 * (i / dims[0] / dims[1]) + 7);
    }
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_grid(void **state)
{
    static const int64_t dims[][3] = {{1, 1, 1}, {7, 1, 1}, {1, 6, 1},
                                      {1, 1, 5}, {4, 6, 1}, {3, 1, 8},
                                      {1, 8, 8}, {4, 5, 6}};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(dims); i++)
        check_grid(dims[i]);
}

/* ---- threads ---- */

/* Threads write what they have into shared memory, wait, and read what their
 * opposite wrote; only even ones store. */
static void
check_shared(uint32_t n_elems)
{
    struct uop_local local = {.id = 0, .n_elems = n_elems};
    const struct uop *tid, *memory, *v, *store, *barrier, *after, *gate, *begin;
    const struct uop *src[3], *roots[4], *n64, *index;
    int32_t out[128], in[128];
    struct p_buf bufs[2] = {{UOP_I32, 128, out}, {UOP_I32, 128, in}};
    struct lower_program p;
    struct uop_graph g;
    unsigned chip;
    int i;

    for (i = 0; i < 128; i++)
        in[i] = i * 3;
    uop_graph_init(&g);
    n64 = mk_int(&g, 64);
    tid = mk(&g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &n64);
    src[0] = mk_int(&g, 2);
    index = mk(&g, UOP_SPECIAL, UOP_I64, 1, 0, 1, src);
    index = uop_alu2(&g, UOP_ADD, uop_alu2(&g, UOP_MUL, index, n64), tid);
    v = mk_load(&g, mk_param(&g, 1, UOP_I32), index, 1, NULL, NULL);
    memory = uop_new(&g, UOP_LOCAL, UOP_I32, 1, (union uop_arg){.data = &local},
                     NULL, 0);
    store = mk_store(&g, memory, tid, v, NULL);
    barrier = mk(&g, UOP_BARRIER, UOP_VOID, 1, 0, 1, &store);
    src[0] = memory;
    src[1] = barrier;
    after = mk(&g, UOP_AFTER, UOP_I32, 1, 0, 2, src);
    v = mk_load(&g, after, uop_alu2(&g, UOP_SUB, mk_int(&g, 63), tid), 1, NULL,
                NULL);
    gate = uop_alu2(&g, UOP_IMOD, tid, mk_int(&g, 2));
    gate = uop_alu2(&g, UOP_CMPEQ, gate, mk_int(&g, 0));
    begin = mk(&g, UOP_IF, UOP_VOID, 1, 0, 1, &gate);
    roots[0] = begin;
    roots[1] = mk_store(&g, mk_param(&g, 0, UOP_I32), index, v, NULL);
    src[0] = begin;
    src[1] = roots[1];
    roots[2] = mk(&g, UOP_ENDIF, UOP_VOID, 1, 0, 2, src);
    program_of(&g, roots, 3, &p);
    p.local[0] = 64;
    p.grid[0] = 2;
    p.shared_bytes = n_elems * 4;
    for (chip = 0; chip < backend->n_chips; chip++) {
        memset(out, -1, sizeof(out));
        backend->run(&p, chip, bufs, 2, NULL, "shared memory");
        for (i = 0; i < 128; i++)
            assert_int_equal(out[i],
                             i % 2 ? -1 : in[i / 64 * 64 + 63 - i % 64]);
    }
    if (n_elems == 64)
        check_keep(&p, "shared memory");
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_shared_memory(void **state)
{
    (void)state;
    if (!backend->is_gpu)
        skip();
    check_shared(64);
    if (backend->max_shared_bytes == 0)
        check_shared(16384); /* more than a PTX module may declare */
}

/* A loop whose extent is an argument, 0 to some, with a register variable. */
static void
test_extent_at_run_time(void **state)
{
    static const int64_t extents[] = {0, 1, 5, -3, INT64_C(1) << 33};
    const struct uop *var, *range, *acc, *get, *pair[2], *v, *root, *zero;
    struct lower_program p;
    struct uop_graph g;
    int64_t out;
    struct p_buf buf = {UOP_I64, 1, &out};
    unsigned chip;
    size_t i;

    (void)state;
    uop_graph_init(&g);
    var = mk(&g, UOP_VAR, UOP_I64, 1, 1, 0, NULL);
    zero = mk_int(&g, 0);
    acc = mk(&g, UOP_ACC, UOP_I64, 1, 0, 1, &zero);
    pair[0] = var;
    pair[1] = mk_int(&g, 6);
    range = mk(&g, UOP_MIN, UOP_I64, 1, 0, 2, pair);
    range = mk(&g, UOP_RANGE, UOP_I64, 1, uop_range_arg(0, UOP_AXIS_LOOP), 1,
               &range);
    pair[0] = acc;
    pair[1] = range;
    get = mk(&g, UOP_ACC_GET, UOP_I64, 1, 0, 2, pair);
    pair[0] = get;
    pair[1] = range;
    v = mk(&g, UOP_ADD, UOP_I64, 1, 0, 2, pair);
    pair[0] = acc;
    pair[1] = v;
    v = mk(&g, UOP_ACC_SET, UOP_VOID, 1, 0, 2, pair);
    root = mk_end(&g, range, v);
    pair[0] = acc;
    pair[1] = root;
    v = mk(&g, UOP_ACC_GET, UOP_I64, 1, 0, 2, pair);
    root = mk_store(&g, mk_param(&g, 0, UOP_I64), mk_int(&g, 0), v, NULL);
    program_of(&g, &root, 1, &p);
    p.n_params = 1;
    p.n_vars = 1;
    for (i = 0; i < ARRAY_LEN(extents); i++) {
        int64_t n = extents[i] < 6 ? extents[i] : 6;
        for (chip = 0; chip < backend->n_chips; chip++) {
            out = -1;
            backend->run(&p, chip, &buf, 1, &extents[i], "extent");
            assert_int_equal(out, n > 0 ? n * (n - 1) / 2 : 0);
        }
    }
    check_keep(&p, "extent");
    program_free(&p);
    uop_graph_fini(&g);
}

/* ---- offsets ---- */

/* A LOAD and STORE at some offset and width, with and without a gate. */
static void
check_offset(enum uop_dtype dtype, unsigned lanes, int64_t offset,
             unsigned gates, uint64_t *rng)
{
    const struct uop *range, *at, *gate = NULL, *other, *v, *root, *index;
    const struct uop *pair[2];
    struct uop_graph g;
    struct p_buf bufs[3];
    char what[80];

    uop_graph_init(&g);
    check_buf(&bufs[0], dtype, N + 16, rng);
    check_buf(&bufs[1], dtype, N + 16, rng);
    check_buf(&bufs[2], UOP_BOOL, N + 16, rng);
    range = uop_range(&g, 0, UOP_AXIS_LOOP, 6);
    at = uop_alu2(&g, UOP_MUL, range, mk_int(&g, 8));
    index = uop_alu2(&g, UOP_ADD, at, mk_int(&g, offset));
    if (gates)
        gate = mk_load(&g, mk_param(&g, 2, UOP_BOOL), at,
                       gates == 1 ? 1 : lanes, NULL, NULL);
    other = uop_dtype_infos[dtype].is_float ? uop_const_float(&g, dtype, 2.5)
                                            : uop_const_int(&g, dtype, 1);
    other = lanes > 1 ? mk_splat(&g, other, lanes) : other;
    if (lanes > 1 && gates == 2) { /* a gather, backwards */
        pair[0] = mk_splat(&g, uop_alu2(&g, UOP_ADD, index, mk_int(&g, lanes)),
                           lanes);
        pair[1] = mk(&g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL);
        index = mk(&g, UOP_SUB, UOP_I64, lanes, 0, 2, pair);
    }
    v = mk_load(&g, mk_param(&g, 1, dtype), index, lanes, gate ? other : NULL,
                gate);
    root = mk_store(&g, mk_param(&g, 0, dtype), index, v, gate);
    root = mk_end(&g, range, root);
    snprintf(what, sizeof(what), "access of %s x%u + %d, gates %u",
             uop_dtype_infos[dtype].short_name, lanes, (int)offset, gates);
    check_roots(&g, &root, 1, bufs, 3,
                offset == 4 && dtype % 3 == 0 && lanes == 7, what);
    check_bufs_free(bufs, 3);
    uop_graph_fini(&g);
}

static void
test_offsets(void **state)
{
    static const unsigned widths[] = {1, 2, 3, 4, 7, 8, 16};
    static const int64_t offsets[] = {0, 3, 4};
    uint64_t rng = 9;
    unsigned dtype, w, gates, o, n = 0;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (w = 0; w < ARRAY_LEN(widths); w++) {
            for (gates = 0; gates < 3; gates++) {
                for (o = 0; o < ARRAY_LEN(offsets); o++) {
                    if (n++ % backend->thin == 0)
                        check_offset(dtype, widths[w], offsets[o], gates, &rng);
                }
            }
        }
    }
}

/* ---- errors ---- */

static void
make_sum(struct uop_graph *g, struct lower_program *out)
{
    const struct uop *range, *at, *v, *root;

    range = uop_range(g, 0, UOP_AXIS_LOOP, 6);
    at = uop_alu2(g, UOP_MUL, range, mk_int(g, 4));
    v = mk_load(g, mk_param(g, 1, UOP_F32), at, 4, NULL, NULL);
    v = mk(g, UOP_LANES_REDUCE, UOP_F32, 1, UOP_ADD, 1, &v);
    root = mk_store(g, mk_param(g, 0, UOP_F32), at, v, NULL);
    root = mk_end(g, range, root);
    program_of(g, &root, 1, out);
}

static void
test_out_of_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    struct render_binary binary;
    struct lower_program p;
    struct uop_graph g;
    uint32_t nth;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    for (nth = 1; status == BELL_E_NO_MEMORY && nth < 1000; nth++) {
        host_fail_after(nth, 1);
        status = backend->render(&p, 0, &binary);
        host_fail_after(0, 0);
    }
    assert_int_equal(status, BELL_OK);
    assert_true(nth > 5);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_same_bytes_each_time(void **state)
{
    struct render_binary a, b;
    struct lower_program p;
    struct uop_graph g;
    unsigned chip;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    for (chip = 0; chip < backend->n_chips; chip++) {
        assert_int_equal(backend->render(&p, chip, &a), BELL_OK);
        assert_int_equal(backend->render(&p, chip, &b), BELL_OK);
        assert_int_equal(a.size_bytes, b.size_bytes);
        assert_memory_equal(a.data, b.data, a.size_bytes);
        render_binary_fini(&a);
        render_binary_fini(&b);
    }
    program_free(&p);
    uop_graph_fini(&g);
}

int
memory_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_nested_loops),
        cmocka_unit_test(test_read_before_set),
        cmocka_unit_test(test_extent_from_memory),
        cmocka_unit_test(test_extent_at_run_time),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_late_order),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_same_bytes_each_time),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
