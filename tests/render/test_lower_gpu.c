/* Lowering for GPUs: the rules choose what a person would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "lower_kernels.h"
#include "ptx_check.h"

static void
gpu_target(struct lower_target *out)
{
    if (render_ptx_lower_target(&ptx_check_target, out) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

/* ---- what the rules choose ---- */

struct fixture {
    struct lk k;
    struct lower_program p;
};

static void
begin(struct fixture *f, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const int64_t d[3] = {d0, d1, d2};
    struct lower_target target;

    gpu_target(&target);
    lk_build(&f->k, lk_find(name), d);
    if (lower_kernel(&f->k.g, f->k.sink, &target, &f->p) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
end(struct fixture *f)
{
    lk_fini(&f->k);
}

/* Ops of a kind and width (0: any). */
static uint32_t
count(const struct fixture *f, enum uop_op op, uint32_t lanes)
{
    uint32_t i, n = 0;

    for (i = 0; i < f->p.n_ops; i++)
        n += f->p.ops[i]->op == op && (!lanes || f->p.ops[i]->lanes == lanes);
    return n;
}

/* Gates of accesses to arguments. */
static uint32_t
count_gates(const struct fixture *f)
{
    uint32_t i, n = 0;

    for (i = 0; i < f->p.n_ops; i++)
        n += f->p.ops[i]->op == UOP_STORE && f->p.ops[i]->n_src > 3;
    return n;
}

static void
test_elementwise(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "add", 1024, 4096, 0);
    assert_int_equal(f.p.local[0], 256);
    assert_int_equal(f.p.grid[0], 1024 * 4096 / 4 / 256);
    assert_int_equal(count(&f, UOP_LOAD, 4), count(&f, UOP_LOAD, 0));
    assert_int_equal(count(&f, UOP_RANGE, 0), 0);
    assert_int_equal(count_gates(&f), 0);
    end(&f);
    begin(&f, "add", 77, 333, 0); /* no multiple of 2: single elements */
    assert_int_equal(count(&f, UOP_LOAD, 4), 0);
    assert_int_equal(count_gates(&f), 1);
    assert_in_range((uint64_t)f.p.grid[0] * f.p.local[0], 77 * 333,
                    77 * 333 + 256);
    end(&f);
}

/* Loaded and stored in parts of 16 bytes, which each thread exchanges; of sizes
 * that are odd, stored along the threads. */
static void
test_transpose(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "transpose", 4096, 4096, 0);
    assert_int_equal(count(&f, UOP_LOAD, 0), 4);
    assert_int_equal(count(&f, UOP_LOAD, 4), 4);
    assert_int_equal(count(&f, UOP_STORE, 0), 4);
    assert_int_equal(f.p.grid[0], 4096 * 4096 / 16 / 256);
    end(&f);
    begin(&f, "transpose", 4097, 4099, 0);
    assert_int_equal(count(&f, UOP_STORE, 0), 1);
    end(&f);
}

/* A reduction that reads single elements or vectors of four, side by side. */
static void
check_reduction(const char *name, int64_t d0, int64_t d1, uint32_t lanes,
                uint32_t least_threads)
{
    struct fixture f;

    begin(&f, name, d0, d1, 0);
    assert_true(count(&f, UOP_LOAD, lanes) > 0);
    assert_in_range(count(&f, UOP_BARRIER, 0), 1, 2);
    assert_true((uint64_t)f.p.grid[0] * f.p.local[0] >= least_threads);
    assert_true(f.p.shared_bytes > 0);
    end(&f);
}

static void
test_reductions(void **state)
{
    (void)state;
    check_reduction("sum-rows", 4096, 4096, 4, 1 << 17);
    check_reduction("sum-rows", 100000, 64, 4, 1 << 17);
    check_reduction("sum-rows", 4, 1 << 20, 4, 4 * 512);
    check_reduction("max-cols", 4096, 1024, 1, 1 << 16);
    check_reduction("sum-all", 1024, 1024, 4, 512);
}

/* LOADs of a buffer. */
static size_t
count_buffer_loads(const struct fixture *f)
{
    size_t n = 0;
    uint32_t i;

    for (i = 0; i < f->p.n_ops; i++) {
        const struct uop *u = f->p.ops[i];
        n += u->op == UOP_LOAD && uop_memory(u->src[0])->op == UOP_PARAM;
    }
    return n;
}

/* The row's sums and its elements are made by the same threads, which read it
 * once and keep it. */
static void
test_rows(void **state)
{
    static const char *const names[] = {"softmax", "layernorm"};
    static const int64_t rows[] = {4096, 8192, 32768};
    struct fixture f;
    size_t i, r;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names); i++) {
        for (r = 0; r < ARRAY_LEN(rows); r++) {
            size_t n;
            begin(&f, names[i], 2048, rows[r], 0);
            assert_int_equal(f.p.grid[0], 2048);
            assert_int_equal(count(&f, UOP_BARRIER, 0), 4);
            assert_in_range(f.p.local[0], 128, 1024);
            n = (size_t)rows[r] / 4 / f.p.local[0];
            assert_int_equal(count_buffer_loads(&f), (i + 1) * n); /* weights */
            assert_int_equal(count(&f, UOP_STORE, 0) - count_gates(&f), 2 + n);
            assert_int_equal(count(&f, UOP_RANGE, 0), 0);
            end(&f);
        }
    }
}

/* Two streams of vectors: a thread has registers for all that a step loads. */
static void
test_wanted_registers(void **state)
{
    struct fixture f;
    uint32_t n;

    (void)state;
    begin(&f, "matmul-nt", 1, 16384, 4096);
    n = (uint32_t)count_buffer_loads(&f);
    assert_int_equal(n, 8);
    assert_in_range(f.p.want_regs, 4 * n + 4, 4 * n + 32);
    end(&f);
    begin(&f, "sum-rows", 4096, 4096, 0);
    assert_int_equal(f.p.want_regs, 0);
    end(&f);
}

/* Few short rows: a thread for each element reduces the row anew, rather than
 * one for each row all that is in it. Many rows keep threads busy as they
 * are. */
static void
test_short_rows(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "softmax", 64, 10, 0);
    assert_int_equal(f.p.grid[0] * f.p.local[0], 640);
    end(&f);
    begin(&f, "softmax", 1 << 20, 10, 0);
    assert_int_equal(f.p.grid[0] * f.p.local[0], 1 << 20);
    end(&f);
}

static void
test_tiles(void **state)
{
    static const char *const names[] = {"matmul-nn", "matmul-nt", "matmul-tn",
                                        "matmul-tt"};
    struct fixture f;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names); i++) {
        begin(&f, names[i], 4096, 4096, 4096);
        assert_int_equal(f.p.grid[0] * f.p.grid[1], 32 * 32);
        assert_int_equal(f.p.local[0], 256);
        assert_int_equal(count(&f, UOP_ACC, 4), 16);    /* 64 of a thread */
        assert_int_equal(count(&f, UOP_BARRIER, 0), 1); /* two buffers */
        assert_true(f.p.shared_bytes <= 48 * 1024);
        end(&f);
    }
    begin(&f, "conv-wide", 64, 56, 56);
    assert_int_equal(count(&f, UOP_BARRIER, 0), 1);
    end(&f);
}

static void
test_matrix_instructions(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "matmul-f16", 4096, 4096, 4096);
    assert_int_equal(count(&f, UOP_WMMA, 0), 4 * 8 * 2);
    assert_int_equal(f.p.grid[0] * f.p.grid[1], 32 * 16);
    assert_int_equal(count(&f, UOP_COMMIT, 0), 4); /* three tiles ahead */
    end(&f);
    begin(&f, "matmul-bf16", 100, 70, 50);
    assert_true(count(&f, UOP_WMMA, 0) > 0);
    end(&f);
    begin(&f, "matmul-f64", 512, 512, 512);
    assert_true(count(&f, UOP_WMMA, 0) > 0);
    end(&f);
    begin(&f, "matmul-i8", 4096, 4096, 4096);
    assert_int_equal(count(&f, UOP_WMMA, 0), 4 * 8 * 2);
    assert_int_equal(f.p.grid[0] * f.p.grid[1], 32 * 16);
    assert_int_equal(count(&f, UOP_COMMIT, 0), 4); /* three tiles ahead */
    end(&f);
    begin(&f, "matmul-u8", 100, 70, 50);
    assert_true(count(&f, UOP_WMMA, 0) > 0);
    end(&f);
    begin(&f, "matmul-ocp8", 512, 512, 512);
    assert_true(count(&f, UOP_WMMA, 0) > 0);
    end(&f);
    begin(&f, "matmul-fnuz8", 512, 512, 512); /* as halves */
    assert_true(count(&f, UOP_WMMA, 0) > 0);
    end(&f);
    begin(&f, "matmul-nn", 512, 512, 512); /* F32 stays exact */
    assert_int_equal(count(&f, UOP_WMMA, 0), 0);
    end(&f);
}

/* ---- how operands get into LOCAL memory, and out of it ---- */

/* Accesses to LOCAL memory by an op; `bytes` are a COPY's (0: any). */
static uint32_t
count_local(const struct lower_program *p, enum uop_op op, int64_t bytes)
{
    uint32_t i, n = 0;

    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];
        n += u->op == op && uop_memory(u->src[0])->op == UOP_LOCAL &&
             (!bytes || u->arg.i == bytes);
    }
    return n;
}

/* In the loop over tiles, is all that comes from arguments loaded before the
 * products, and all that goes to LOCAL memory stored after them? */
static bool
hides_loads(const struct lower_program *p)
{
    uint32_t i = 0, n_loads = 0, n_products = 0, n_stores = 0;

    while (i < p->n_ops && p->ops[i]->op != UOP_RANGE)
        i++;
    for (; i < p->n_ops && p->ops[i]->op != UOP_END; i++) {
        const struct uop *u = p->ops[i];
        if (u->op == UOP_LOAD && uop_memory(u->src[0])->op == UOP_PARAM) {
            n_loads++;
            if (n_products)
                return false;
        }
        n_products += u->op == UOP_WMMA || u->op == UOP_MULACC;
        n_stores += u->op == UOP_STORE;
        if (n_stores && u->op == UOP_WMMA)
            return false;
    }
    return n_loads && n_products && n_stores;
}

/* The kernel against its definition, as a program and as PTX. */
static void
check_on(const struct lower_target *target, const struct lk_case *c,
         const int64_t *d, uint64_t seed)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "", *text;
    struct lower_program p;
    int pass;
    struct lk k;

    lk_init(&k, c, d, seed);
    lk_copy_bufs(&k, want);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    if (lower_kernel(&k.g, k.sink, target, &p) != BELL_OK ||
        render_ptx(&p, &ptx_check_target, &text) != BELL_OK)
        fail_msg("%s: %s", c->name, bell_error_last()->message);
    for (pass = 0; pass < 2; pass++) {
        lk_copy_bufs(&k, got);
        if (pass)
            ptx_check_run(&p, text, got, (uint32_t)k.n_bufs, NULL, c->name);
        else if (p_run(&p, got, k.n_bufs, err, sizeof(err)))
            fail_msg("%s: %s", c->name, err);
        if (lk_compare(&k, want, got, err, sizeof(err)))
            fail_msg("%s%s: %s", c->name, pass ? " as PTX" : "", err);
        lk_free_copy(&k, got);
    }
    host_free(text);
    lk_free_copy(&k, want);
    lk_fini(&k);
}

static void
test_copies(void **state)
{
    static const struct {
        const char *kernel;
        int64_t n;
        uint32_t most;  /* bytes of a COPY, of the target */
        uint32_t bytes; /* those that it has; 0: none */
        bool also_stores, has_rows;
    } rows[] = {
        {"matmul-f16", 4096, 16, 16, false, true},
        {"matmul-bf16", 4096, 16, 16, false, true},
        {"matmul-f16", 4096, 8, 8, false, true},
        {"matmul-f16", 4096, 4, 4, false, true},
        {"matmul-f16", 4096, 0, 0, true, true},
        {"matmul-f16", 4095, 16, 0, true, true},
        {"matmul-u8", 4096, 16, 16, false, true},
        {"matmul-i8", 4096, 16, 16, true, true}, /* one is turned */
        {"matmul-f64", 512, 16, 16, false, false},
        {"matmul-nt", 1001, 16, 4, false, false},
        {"matmul-ones", 1024, 16, 16, true, false}, /* a COPY gives 0 */
        {"matmul-fnuz8", 512, 16, 0, true, true},   /* cast on the way */
    };
    static const int64_t small[2][3] = {{64, 64, 32}, {40, 33, 20}};
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    size_t i, s;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct lk_case *c = lk_find(rows[i].kernel);
        const int64_t d[3] = {rows[i].n, rows[i].n, rows[i].n};
        uint32_t n, all;
        gpu_target(&target);
        target.copy_bytes = rows[i].most;
        lk_build(&k, c, d);
        assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
        n = count_local(&p, UOP_COPY, rows[i].bytes);
        all = count_local(&p, UOP_COPY, 0);
        if (n != all || (n > 0) != (rows[i].bytes > 0) ||
            (count_local(&p, UOP_STORE, 0) > 0) != rows[i].also_stores ||
            (count_local(&p, UOP_WMMA_ROWS, 0) > 0) != rows[i].has_rows)
            fail_msg("%s of %d: %u COPYs, %u of %u bytes, %u STOREs, %u rows",
                     c->name, (int)d[0], all, n, rows[i].bytes,
                     count_local(&p, UOP_STORE, 0),
                     count_local(&p, UOP_WMMA_ROWS, 0));
        lk_fini(&k);
        for (s = 0; s < 2; s++)
            check_on(&target, c, small[s], 3);
    }
}

/* Without COPYs what is loaded for the next tile waits until this one's
 * products are made; and without WMMA_ROWS each thread loads its own part. */
static void
test_without_copies(void **state)
{
    static const char *const names[] = {"matmul-f16", "matmul-i8",
                                        "matmul-f64"};
    static const int64_t big[3] = {1024, 1024, 1024}, small[3] = {48, 64, 70};
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    size_t i;

    (void)state;
    gpu_target(&target);
    target.copy_bytes = 0;
    target.has_wmma_rows = false;
    for (i = 0; i < ARRAY_LEN(names); i++) {
        lk_build(&k, lk_find(names[i]), big);
        assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
        assert_int_equal(count_local(&p, UOP_COPY, 0), 0);
        assert_int_equal(count_local(&p, UOP_WMMA_ROWS, 0), 0);
        if (!hides_loads(&p))
            fail_msg("%s: loads and products do not overlap", names[i]);
        lk_fini(&k);
        check_on(&target, lk_find(names[i]), small, 5);
    }
}

/* 8-bit floats: where the sums are those of F32, or may be less. */
static void
test_f8(void **state)
{
    static const struct {
        uint32_t sm;
        bool exact, tf32; /* is it a matrix instruction? */
    } rows[] = {
        {80, false, false}, {86, false, false}, {89, false, true},
        {90, true, true},   {100, true, true},  {120, false, true},
    };
    struct lower_target target;
    size_t i;
    int tf32;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (tf32 = 0; tf32 < 2; tf32++) {
            struct ptx_target ptx = {.sm = rows[i].sm, .tf32 = tf32};
            bool has = tf32 ? rows[i].tf32 : rows[i].exact;
            assert_int_equal(render_ptx_lower_target(&ptx, &target), BELL_OK);
            assert_int_equal(target.matrix_k[UOP_F8E4M3], has ? 32 : 0);
            assert_int_equal(target.matrix_k[UOP_F8E5M2], has ? 32 : 0);
            assert_int_equal(target.matrix_k[UOP_F8E4M3Z], 0);
        }
    }
}

/* Values that become halves on their way to WGMMAs are loaded before the
 * BARRIER that they wait on, where ptxas cannot put it behind them. */
static void
test_early_loads(void **state)
{
    static const struct ptx_target hopper = {
        .sm = 90, .is_arch_specific = true, .arg_align_bytes = 16};
    static const int64_t d[3] = {4096, 4096, 4096};
    struct lower_target target;
    uint32_t i = 0, n_loads = 0;
    struct lower_program p;
    struct lk k;

    (void)state;
    assert_int_equal(render_ptx_lower_target(&hopper, &target), BELL_OK);
    lk_build(&k, lk_find("matmul-ocp8"), d);
    if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    while (i < p.n_ops && p.ops[i]->op != UOP_RANGE)
        i++;
    for (; i < p.n_ops && p.ops[i]->op != UOP_BARRIER; i++)
        n_loads += p.ops[i]->op == UOP_LOAD;
    assert_true(n_loads > 0 && i < p.n_ops);
    for (; i < p.n_ops && p.ops[i]->op != UOP_END; i++)
        assert_false(p.ops[i]->op == UOP_LOAD &&
                     uop_memory(p.ops[i]->src[0])->op == UOP_PARAM);
    lk_fini(&k);
}

/* The summand of a product is loaded behind the loop, and a few elements at a
 * time: registers hold the sums and little else. */
static void
test_late_loads(void **state)
{
    static const struct ptx_target targets[] = {
        {.sm = 80, .arg_align_bytes = 16},
        {.sm = 80, .tf32 = true, .arg_align_bytes = 16},
        {.sm = 90,
         .is_arch_specific = true,
         .tf32 = true,
         .arg_align_bytes = 16},
    };
    static const int64_t d[3] = {4096, 4096, 4096};
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    size_t t;

    (void)state;
    for (t = 0; t < ARRAY_LEN(targets); t++) {
        uint32_t i, waiting = 0, most = 0, n = 0;
        bool behind = false;

        assert_int_equal(render_ptx_lower_target(&targets[t], &target),
                         BELL_OK);
        lk_build(&k, lk_find("matmul-residual"), d);
        if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
        for (i = 0; i < p.n_ops; i++) {
            const struct uop *u = p.ops[i];
            behind |= u->op == UOP_END;
            if (u->op == UOP_LOAD && uop_memory(u->src[0])->arg.i == 3) {
                assert_true(behind);
                waiting += u->lanes;
                n += u->lanes;
            }
            most = waiting > most ? waiting : most;
            if (u->op == UOP_STORE && uop_memory(u->src[0])->op == UOP_PARAM)
                waiting -= u->src[2]->lanes;
        }
        if (n < 64 || most > 16 || waiting)
            fail_msg("target %zu: %u loaded, %u before they are stored", t, n,
                     most);
        lk_fini(&k);
    }
}

/* Without optimisations one thread does all. */
static void
test_no_opts(void **state)
{
    static const int64_t d[3] = {64, 64, 64};
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    size_t c;

    (void)state;
    gpu_target(&target);
    target.no_opts = true;
    for (c = 0; c < lk_n_cases; c++) {
        lk_build(&k, &lk_cases[c], d);
        assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
        assert_int_equal(p.grid[0] * p.local[0], 1);
        assert_int_equal(p.shared_bytes, 0);
        lk_fini(&k);
    }
}

/* A grid that a card cannot have: loops take the rest. */
static void
test_grid_limits(void **state)
{
    static const struct {
        const char *name;
        int64_t d[3];
    } rows[] = {
        {"add", {100, 60, 40}},       {"sum-rows", {100, 60, 40}},
        {"matmul-nn", {100, 60, 40}}, {"softmax", {100, 60, 40}},
        {"conv-wide", {30, 20, 12}},
    };
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[256] = "";
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct lower_target target;
        struct lower_program p;
        struct lk k;
        gpu_target(&target);
        target.max_grid[0] = 7;
        target.max_grid[1] = target.max_grid[2] = 3;
        lk_init(&k, lk_find(rows[i].name), rows[i].d, 3);
        lk_copy_bufs(&k, want);
        lk_copy_bufs(&k, got);
        assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
        if (lower_kernel(&k.g, k.sink, &target, &p) != BELL_OK)
            fail_msg("%s: %s", rows[i].name, bell_error_last()->message);
        assert_true(p.grid[0] <= 7 && p.grid[1] <= 3 && p.grid[2] <= 3);
        if (p_run(&p, got, k.n_bufs, err, sizeof(err)) ||
            lk_compare(&k, want, got, err, sizeof(err)))
            fail_msg("%s: %s", rows[i].name, err);
        lk_free_copy(&k, want);
        lk_free_copy(&k, got);
        lk_fini(&k);
    }
}

/* Every allocation fails once: a clean error, then success. */
static void
test_out_of_memory(void **state)
{
    static const char *const names[] = {"matmul-nn", "matmul-f16", "softmax",
                                        "add"};
    static const int64_t d[3] = {64, 64, 64};
    struct lower_target target;
    size_t i;

    (void)state;
    gpu_target(&target);
    for (i = 0; i < ARRAY_LEN(names); i++) {
        bell_status status = BELL_E_NO_MEMORY;
        uint64_t nth;
        for (nth = 1; status != BELL_OK; nth++) {
            struct lower_program p;
            struct lk k;

            lk_build(&k, lk_find(names[i]), d);
            host_fail_after(nth, 1);
            status = lower_kernel(&k.g, k.sink, &target, &p);
            host_fail_after(0, 0);
            lk_fini(&k);
            assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
            assert_true(nth < 10000);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_short_rows),
        cmocka_unit_test(test_wanted_registers),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_matrix_instructions),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_without_copies),
        cmocka_unit_test(test_f8),
        cmocka_unit_test(test_early_loads),
        cmocka_unit_test(test_late_loads),
        cmocka_unit_test(test_no_opts),
        cmocka_unit_test(test_grid_limits),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
