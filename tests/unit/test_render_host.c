/* Host code: memory forms, loops, variables and grids against the
 * interpreter; what is refused; objects; running out of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "host_check.h"
#include "render/llvm/llvm_api.h"
#include "render/render_internal.h"

#define N 256 /* elements of most buffers */

static const unsigned lane_counts[] = {1, 4, 16};

static struct lower_target target;

static int
setup(void **state)
{
    (void)state;
    return render_host_target(&target) == BELL_OK ? 0 : -1;
}

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
    check_buf_make(&bufs[0], dtype, store ? (size_t)n : N);
    check_buf_make(&bufs[1], dtype, store ? N : (size_t)n);
    check_buf_random(&bufs[0], &rng);
    check_buf_random(&bufs[1], &rng);
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
    check_roots(&g, &target, &root, 1, bufs, 2, false, what);
    check_buf_free(&bufs[0]);
    check_buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static void
test_memory(void **state)
{
    unsigned dtype, form, k;

    (void)state;
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (k = 0; k < ARRAY_LEN(lane_counts); k++) {
            for (form = 0; form < 24; form++) {
                struct access_form f = {.lanes = lane_counts[k],
                                        .gather = form & 1,
                                        .gate = form / 2 % 3,
                                        .const_other = form / 6 % 2};
                bool store = form >= 12;
                if ((f.lanes == 1 && (f.gather || f.gate == 2)) ||
                    (f.const_other && (store || !f.gate)))
                    continue;
                check_access(dtype, &f, store);
            }
        }
    }
}

/* Index vectors with steps of -5 to 5, ungated and gated, and one that is no
 * such thing; the buffer ends with the last element. */
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
    check_buf_make(&bufs[0], dtype, store ? (size_t)span : lanes);
    check_buf_make(&bufs[1], dtype, store ? lanes : (size_t)span);
    check_buf_random(&bufs[0], &rng);
    check_buf_random(&bufs[1], &rng);
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
    check_roots(&g, &target, &root, 1, bufs, 2, false, what);
    check_buf_free(&bufs[0]);
    check_buf_free(&bufs[1]);
    uop_graph_fini(&g);
}

static void
test_steps(void **state)
{
    static const enum uop_dtype dtypes[] = {UOP_BOOL, UOP_F16, UOP_F32,
                                            UOP_F64};
    static const unsigned widths[] = {2, 3, 8, 16};
    unsigned d, w, form;
    int64_t step;

    (void)state;
    for (d = 0; d < ARRAY_LEN(dtypes); d++) {
        for (w = 0; w < ARRAY_LEN(widths); w++) {
            for (step = -5; step <= 5; step++) {
                for (form = 0; form < 4; form++)
                    check_steps(dtypes[d], widths[w], step, form & 1, form & 2);
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
        check_buf_make(&bufs[n], UOP_I64, n == 0 ? 8 : 4 + n);
        check_buf_random(&bufs[n], &rng);
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
    check_roots(&g, &target, &root, 1, bufs, 3, false, "nested");
    for (n = 0; n < 3; n++)
        check_buf_free(&bufs[n]);
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
    check_buf_make(&bufs[0], UOP_F32, 4);
    check_buf_make(&bufs[1], UOP_F32, 16);
    check_buf_make(&bufs[2], UOP_I64, 1);
    check_buf_random(&bufs[0], &rng);
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
    check_roots(&g, &target, &root, 1, bufs, 3, false, "extent");
    for (i = 0; i < 3; i++)
        check_buf_free(&bufs[i]);
    uop_graph_fini(&g);
}

static void
test_extent_at_run_time(void **state)
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
        check_buf_make(&bufs[i], UOP_I32, 9);
        check_buf_random(&bufs[i], &rng);
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
    check_roots(&g, &target, roots, 1, bufs, 3, false, "order");

    arena_init(&arena);
    program_of(&g, roots, 1, &p);
    assert_int_equal(render_order(&p, &arena, &ops), BELL_OK);
    for (i = 0; i < p.n_ops; i++) {
        at_load = ops[i] == w ? i : at_load;
        at_end = ops[i] == end ? i : at_end;
    }
    assert_int_equal(at_load > at_end, !aliased);
    program_free(&p);
    arena_fini(&arena);
    for (i = 0; i < 3; i++)
        check_buf_free(&bufs[i]);
    uop_graph_fini(&g);
}

static void
test_order(void **state)
{
    (void)state;
    check_order(false);
    check_order(true);
}

/* ---- grid and arguments ---- */

/* out[z][y][x] = x + 10 y + 100 z + var, by pieces of the grid. */
static void
check_grid(const int64_t *dims)
{
    static const int64_t weight[3] = {1, 10, 100};
    struct uop_graph g;
    const struct uop *at = NULL, *value, *root;
    struct lower_program p;
    struct host_code code;
    int64_t out[120], n = dims[0] * dims[1] * dims[2], step = 1, i;
    uint64_t args[2] = {(uint64_t)(uintptr_t)out, 7}, first;
    unsigned d;

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
    host_compile(&p, &target, &code);
    for (i = 0; i < n; i++)
        out[i] = -1;
    for (first = 0; first < (uint64_t)n; first += 5) {
        uint64_t last = first + 5 < (uint64_t)n ? first + 5 : (uint64_t)n;
        code.fn(args, p.grid, first, first);
        assert_int_equal(out[first], -1); /* an empty piece does nothing */
        code.fn(args, p.grid, first, last);
    }
    for (i = 0; i < n; i++)
        assert_int_equal(out[i], i % dims[0] + 10 * (i / dims[0] % dims[1]) +
                                     100 * (i / dims[0] / dims[1]) + 7);
    host_release(&code);
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

/* ---- what is refused ---- */

static void
expect_refusal(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
               bell_status want, const char *words)
{
    struct render_binary binary;
    struct lower_program p;

    program_of(g, roots, n, &p);
    assert_int_equal(render_host(&p, &target, &binary), want);
    if (!strstr(bell_error_last()->message, words))
        fail_msg("\"%s\" does not say \"%s\"", bell_error_last()->message,
                 words);
    program_free(&p);
}

static void
test_refused_ops(void **state)
{
    struct uop_graph g;
    const struct uop *root, *v, *out;

    (void)state;
    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_F32);
    v = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
    root = mk_store(&g, out, mk_int(&g, 0), uop_alu1(&g, UOP_SIN, v), NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "SIN");
    root = mk(&g, UOP_BARRIER, UOP_VOID, 1, 0, 0, NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "BARRIER");
    v = uop_alu2(&g, UOP_CMPLT, v, v);
    root = mk(&g, UOP_IF, UOP_VOID, 1, 0, 1, &v);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "IF");
    v = mk_load(&g, mk_param(&g, 1, UOP_F16), mk_int(&g, 0), 1, NULL, NULL);
    v = uop_alu2(&g, UOP_MUL, v, v);
    root = mk_store(&g, mk_param(&g, 0, UOP_F16), mk_int(&g, 0), v, NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "widened");
    uop_graph_fini(&g);
}

static void
test_refused_shapes(void **state)
{
    struct uop_graph g;
    const struct uop *root, *v, *src[2], *range, *out;
    struct lower_program p;
    struct render_binary binary;

    (void)state;
    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_I64);
    /* a value from inside a loop, used after it */
    range = uop_range(&g, 0, UOP_AXIS_LOOP, 4);
    v = mk_load(&g, mk_param(&g, 1, UOP_I64), range, 1, NULL, NULL);
    root = mk_end(&g, range, mk_store(&g, out, range, v, NULL));
    src[0] = root;
    src[1] = mk_store(&g, out, mk_int(&g, 9), v, NULL);
    expect_refusal(&g, src, 2, BELL_E_INTERNAL, "no value");
    expect_refusal(&g, &range, 1, BELL_E_INTERNAL, "not closed");
    program_of(&g, &root, 1, &p);
    p.local[0] = 2;
    assert_int_equal(render_host(&p, &target, &binary), BELL_E_UNSUPPORTED);
    program_free(&p);
    uop_graph_fini(&g);
}

/* ---- objects ---- */

static void
make_simple(struct uop_graph *g, struct lower_program *p)
{
    const struct uop *v, *root;

    uop_graph_init(g);
    v = mk_load(g, mk_param(g, 1, UOP_F32), mk_int(g, 0), 16, NULL, NULL);
    v = uop_alu2(g, UOP_MUL, v,
                 mk_splat(g, uop_const_float(g, UOP_F32, 1.7), 16));
    root = mk_store(g, mk_param(g, 0, UOP_F32), mk_int(g, 0), v, NULL);
    program_of(g, &root, 1, p);
}

/* Zeroes every pair of bytes, which makes the function's own symbol undefined
 * at one place and breaks headers at others, and cuts the object everywhere:
 * the check survives, and names the symbol. */
static void
test_object_check(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary, part;
    size_t i, n_named = 0, n_refused = 0;

    (void)state;
    make_simple(&g, &p);
    assert_int_equal(render_host(&p, &target, &binary), BELL_OK);
    assert_int_equal(render_check_object(&binary), BELL_OK);
    for (i = 0; i + 2 <= binary.size_bytes; i++) {
        uint8_t *at = (uint8_t *)binary.data + i, old[2] = {at[0], at[1]};
        at[0] = at[1] = 0;
        if (render_check_object(&binary) != BELL_OK) {
            n_refused++;
            n_named +=
                strstr(bell_error_last()->message, "needs kernel") != NULL;
        }
        at[0] = old[0];
        at[1] = old[1];
    }
    assert_true(n_named > 0 && n_refused > n_named);
    for (i = 0; i < binary.size_bytes; i += 3) {
        part.size_bytes = i;
        part.data = host_alloc(i + 1);
        memcpy(part.data, binary.data, i);
        assert_true(render_check_object(&part) != BELL_OK);
        render_binary_fini(&part);
    }
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_text(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    char *text;

    (void)state;
    make_simple(&g, &p);
    assert_int_equal(render_host_text(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "define void @kernel("));
    assert_non_null(strstr(text, "fmul <16 x float>"));
    assert_non_null(strstr(text, "!noalias"));
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_target(void **state)
{
    struct lower_target again;

    (void)state;
    assert_int_equal(render_host_target(&again), BELL_OK);
    assert_string_equal(again.name, target.name);
    assert_true(strlen(target.name) > 8);
    assert_true(target.vector_bytes >= 16 && target.vector_bytes <= 64);
    assert_true(target.n_vector_regs == 16 || target.n_vector_regs == 32);
    assert_true(target.n_threads >= 1);
    assert_true(target.l1_bytes >= 8192 && target.l2_bytes >= target.l1_bytes);
}

/* ---- robustness ---- */

/* Every allocation of a rendering fails once; each failure is clean. */
static void
test_out_of_memory(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary;
    uint64_t nth;
    bell_status status = BELL_E_NO_MEMORY;

    (void)state;
    make_simple(&g, &p);
    for (nth = 1; status != BELL_OK; nth++) {
        assert_true(nth < 100);
        host_fail_after(nth, 1);
        status = render_host(&p, &target, &binary);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
    }
    assert_true(nth > 5);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

/* What LLVM thinks fatal does not end the process, and rendering goes on. */
#if defined(__x86_64__)
static void
make_bad_machine(void *arg)
{
    const struct llvm_api *ll = arg;
    char *triple = ll->GetDefaultTargetTriple(), *message = NULL;
    LLVMTargetRef t;

    if (ll->GetTargetFromTriple(triple, &t, &message) == 0)
        ll->CreateTargetMachine(t, triple, "", "", LLVMCodeGenLevelDefault,
                                LLVMRelocPIC, LLVMCodeModelTiny);
}

static void
test_fatal_error(void **state)
{
    const struct llvm_api *ll;
    struct llvm_api copy;
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary;
    bell_status status;

    (void)state;
    assert_int_equal(llvm_api_get(&ll), BELL_OK);
    copy = *ll;
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what LLVM held is lost, as told */
#endif
    status = llvm_guard(make_bad_machine, &copy);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_enable();
#endif
    assert_int_equal(status, BELL_E_COMPILE);
    assert_non_null(strstr(bell_error_last()->message, "tiny"));
    make_simple(&g, &p);
    assert_int_equal(render_host(&p, &target, &binary), BELL_OK);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}
#endif

static void *
render_many(void *arg)
{
    struct uop_graph g;
    struct lower_program p;
    int i;

    make_simple(&g, &p);
    for (i = 0; i < 20; i++) {
        struct render_binary binary;
        if (render_host(&p, &target, &binary) != BELL_OK)
            return arg;
        render_binary_fini(&binary);
    }
    program_free(&p);
    uop_graph_fini(&g);
    return NULL;
}

static void
test_threads(void **state)
{
    pthread_t threads[4];
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, render_many, threads), 0);
    for (i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_nested_loops),
        cmocka_unit_test(test_extent_at_run_time),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_refused_ops),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_object_check),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_out_of_memory),
#if defined(__x86_64__)
        cmocka_unit_test(test_fatal_error),
#endif
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
