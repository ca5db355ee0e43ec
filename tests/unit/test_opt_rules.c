/* What the rules choose: for each kind of kernel the form that a person would
 * write, on a machine with 64-byte vectors and two threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "lower_kernels.h"

static const struct lower_target wide = {.name = "wide",
                                         .vector_bytes = 64,
                                         .n_vector_regs = 32,
                                         .n_threads = 2,
                                         .l1_bytes = 32768,
                                         .l2_bytes = 1 << 20,
                                         .has_fma = true,
                                         .joins_bits = true,
                                         .has_f16 = true};

struct fixture {
    struct lk k;
    struct lower_program p;
};

static void
begin(struct fixture *f, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const int64_t d[3] = {d0, d1, d2};

    lk_build(&f->k, lk_find(name), d);
    if (lower_kernel(&f->k.g, f->k.sink, &wide, &f->p) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

/* Where products' operands may be packed. */
static void
begin_packed(struct fixture *f, const char *name, const int64_t *d)
{
    struct lower_target target = wide;

    target.max_packed_bytes = 2 << 20;
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

/* Vector accesses with an index for each lane. */
static uint32_t
count_gathers(const struct fixture *f)
{
    uint32_t i, n = 0;

    for (i = 0; i < f->p.n_ops; i++) {
        const struct uop *u = f->p.ops[i];
        n += (u->op == UOP_LOAD || u->op == UOP_STORE) && u->src[1]->lanes > 1;
    }
    return n;
}

static uint32_t
n_groups(const struct fixture *f)
{
    return f->p.grid[0] * f->p.grid[1] * f->p.grid[2];
}

static void
check_matmul(const char *name, uint32_t max_loads)
{
    struct fixture f;
    uint32_t accs, loads;

    begin(&f, name, 1024, 1024, 1024);
    accs = count(&f, UOP_ACC, 16);
    loads = count(&f, UOP_LOAD, 0);
    assert_in_range(accs, 8, 24);
    assert_int_equal(count(&f, UOP_ACC, 0), accs);
    assert_int_equal(count(&f, UOP_MULACC, 16), accs);
    assert_in_range(loads, 2, max_loads);
    assert_in_range(n_groups(&f), 8, 64);
    end(&f);
}

static void
test_matmul(void **state)
{
    (void)state;
    check_matmul("matmul-nn", 16);
    check_matmul("matmul-nt", 12);
    check_matmul("matmul-tn", 16);
    check_matmul("matmul-tt", 16);
}

/* Panels are packed once for many rows: what the inner loop loads in vectors
 * lies side by side, whichever way the operands lie. */
static void
test_packed_matmul(void **state)
{
    static const char *const names[] = {"matmul-nn", "matmul-nt", "matmul-tn",
                                        "matmul-tt"};
    const int64_t d[3] = {1024, 1024, 1024};
    uint32_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        struct fixture f;
        begin_packed(&f, names[i], d);
        assert_int_equal(count(&f, UOP_LOCAL, 0), i < 2 ? 1 : 2);
        assert_int_equal(count(&f, UOP_ACC, 16), 24);
        assert_int_equal(count(&f, UOP_MULACC, 16), 4 * 24);
        assert_in_range(f.p.shared_bytes, 4096 * 32, 1 << 20);
        assert_in_range(n_groups(&f), 8, 16);
        end(&f);
    }
}

/* 392 columns are seven tiles of three vectors and a half. */
static void
test_halves(void **state)
{
    const int64_t d[3] = {512, 392, 1152};
    struct fixture f;

    (void)state;
    begin_packed(&f, "matmul-nn", d);
    assert_int_equal(count(&f, UOP_ACC, 16), 6 * 3);
    assert_int_equal(count(&f, UOP_ACC, 8), 6);
    assert_int_equal(count(&f, UOP_MULACC, 16), 4 * 6 * 3);
    assert_int_equal(count(&f, UOP_MULACC, 8), 4 * 6);
    assert_int_equal(f.p.shared_bytes, 1152 * 56 * sizeof(float));
    end(&f);
}

/* Loops as long as what is computed says. */
static uint32_t
count_windows(const struct fixture *f)
{
    uint32_t i, n = 0;

    for (i = 0; i < f->p.n_ops; i++)
        n += f->p.ops[i]->op == UOP_RANGE &&
             f->p.ops[i]->src[0]->op != UOP_CONST;
    return n;
}

/* Rows of a filter that see the border alone are left out where a tile's
 * columns are of one row of outputs: while they are packed, multiplied, and, by
 * 0, added up. Not for 1 % of the work. */
static void
test_windows(void **state)
{
    const int64_t few[3] = {64, 4, 16}, many[3] = {64, 64, 16};
    struct fixture f;

    (void)state;
    begin_packed(&f, "conv-many", few);
    assert_int_equal(count_windows(&f), 3);
    end(&f);
    begin_packed(&f, "conv-many", many);
    assert_int_equal(count_windows(&f), 0);
    end(&f);
}

/* Where a CPU has tile registers, products of whole steps are made by them. */
static void
test_tile_registers(void **state)
{
    static const struct {
        const char *name;
        int64_t d[3];
        uint32_t n, n_words; /* where a TILES goes by words of steps */
    } cases[] = {
        {"matmul-bf16", {256, 256, 256}, 1, 1},
        {"matmul-bf16", {200, 100, 96}, 1, 1},
        {"matmul-bf16", {33, 128, 512}, 1, 1},
        {"matmul-i8", {32, 1024, 512}, 1, 1},
        {"matmul-i8", {256, 256, 256}, 1, 1},
        {"matmul-bf16", {256, 256, 250}, 0, 1},
        {"matmul-bf16", {256, 256, 251}, 0, 0},
        {"matmul-f16", {256, 256, 256}, 0, 0},
        {"matmul-i8", {256, 256, 100}, 0, 1},
        {"matmul-i8", {256, 256, 98}, 0, 0},
        {"matmul-nn", {256, 256, 256}, 0, 0},
    };
    struct lower_target target = wide;
    uint32_t i, n;

    (void)state;
    target.max_packed_bytes = 2 << 20;
    for (i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        struct fixture f;
        n = i % 2 ? cases[i / 2].n_words : cases[i / 2].n;
        target.tiles_k[UOP_BF16] = i % 2 ? 2 : 32;
        target.tiles_k[UOP_I8] = i % 2 ? 4 : 64;
        lk_build(&f.k, lk_find(cases[i / 2].name), cases[i / 2].d);
        assert_int_equal(lower_kernel(&f.k.g, f.k.sink, &target, &f.p),
                         BELL_OK);
        assert_int_equal(count(&f, UOP_TILE_MATMUL, 0), n);
        assert_int_equal(count(&f, UOP_ACC, 0) == 0, n);
        end(&f);
    }
}

/* Sums by products of bytes: of four rows at a time, each from another quarter
 * of all, in few work-groups, since each writes the vector in digits first. */
static void
test_byte_dots(void **state)
{
    const int64_t d[3] = {4096, 64, 0};
    struct lower_target target = wide;
    struct fixture f;

    (void)state;
    target.has_byte_dots = true;
    target.max_packed_bytes = 2 << 20;
    lk_build(&f.k, lk_find("blocks"), d);
    assert_int_equal(lower_kernel(&f.k.g, f.k.sink, &target, &f.p), BELL_OK);
    assert_int_equal(count(&f, UOP_BYTE_DOT, 16), 4 * 6 + 6);
    assert_int_equal(count(&f, UOP_ACC, 16), 4);
    assert_int_equal(count_gathers(&f), 0);
    assert_in_range(n_groups(&f), 2, 4);
    end(&f);
}

static void
test_matmul_of_ten_columns(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "matmul-nn", 512, 10, 512);
    assert_in_range(count(&f, UOP_MULACC, 8), 8, 24);
    assert_int_equal(count_gathers(&f), 0);
    end(&f);
}

static void
test_tiny_is_left_alone(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "add", 4, 8, 0);
    assert_int_equal(count(&f, UOP_LOAD, 1), 2);
    assert_int_equal(count(&f, UOP_LOAD, 0), 2);
    assert_int_equal(n_groups(&f), 1);
    end(&f);
}

static void
test_small_has_one_group(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "add", 64, 64, 0);
    assert_int_equal(n_groups(&f), 1);
    assert_in_range(count(&f, UOP_LOAD, 16), 2, 16);
    assert_int_equal(count(&f, UOP_LOAD, 1), 0);
    /* the two ranges became one */
    assert_int_equal(count(&f, UOP_RANGE, 0), 1);
    end(&f);
}

static void
test_softmax(void **state)
{
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "softmax", 4096, 4096, 0);
    for (i = 0; i < f.p.n_ops; i++) {
        const struct uop *u = f.p.ops[i];
        if (u->op == UOP_LOAD)
            assert_int_equal(u->lanes, 16);
        if (u->op == UOP_STORE)
            assert_int_equal(u->src[2]->lanes, 16);
    }
    assert_int_equal(count_gathers(&f), 0);
    assert_int_equal(count(&f, UOP_LANES_REDUCE, 0), 2);
    /* chunk of rows; maximum; sum; output */
    assert_int_equal(count(&f, UOP_RANGE, 0), 4);
    assert_in_range(n_groups(&f), 8, 64);
    end(&f);
}

static void
test_row_sums(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "sum-rows", 256, 262144, 0);
    assert_in_range(count(&f, UOP_ACC, 16), 4, 8);
    assert_int_equal(count(&f, UOP_LANES_REDUCE, 0), 1);
    end(&f);
}

/* The end of a row is one masked vector, not a loop. */
/* Rows of a matrix that is larger than the caches are read one after another;
 * of a smaller one side by side, for which a vector is loaded once. */
static void
test_rows_in_turn(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "gemv", 4096, 1024, 0);
    assert_int_equal(count(&f, UOP_ACC, 16), 8);
    assert_int_equal(count(&f, UOP_LOAD, 16), 16);
    end(&f);
    begin(&f, "gemv", 128, 1024, 0);
    assert_true(count(&f, UOP_LOAD, 16) < 2 * count(&f, UOP_ACC, 16));
    end(&f);
    begin(&f, "blocks", 4096, 64, 0);
    assert_int_equal(count(&f, UOP_ACC, 16), 4);
    assert_int_equal(count(&f, UOP_LOAD, 16), 4 + 8);
    end(&f);
}

/* A block's integers become floats by their bits, and its scale is multiplied
 * by their sum. */
static void
test_blocks(void **state)
{
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "blocks", 4096, 64, 0);
    assert_int_equal(count(&f, UOP_MUL, 16), 4);
    assert_int_equal(count(&f, UOP_MULACC, 16), 8);
    assert_int_equal(count(&f, UOP_SHR, 16), 0);
    assert_int_equal(count(&f, UOP_AND, 16), 8);
    for (i = 0; i < f.p.n_ops; i++) {
        const struct uop *u = f.p.ops[i];
        if (u->op == UOP_CAST && u->dtype == UOP_F32)
            assert_int_equal(u->src[0]->dtype, UOP_F16);
    }
    end(&f);
}

static void
test_odd_row_sums(void **state)
{
    struct fixture f;
    uint32_t i, n_masked = 0;

    (void)state;
    begin(&f, "sum-rows", 64, 1003, 0);
    for (i = 0; i < f.p.n_ops; i++) {
        const struct uop *u = f.p.ops[i];
        if (u->op != UOP_LOAD)
            continue;
        assert_int_equal(u->lanes, 16);
        n_masked += u->n_src == 4;
    }
    assert_int_equal(n_masked, 1);
    end(&f);
}

static void
test_column_reduction(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "max-cols", 4096, 4096, 0);
    assert_int_equal(count_gathers(&f), 0);
    assert_in_range(count(&f, UOP_ACC, 16), 8, 24);
    assert_int_equal(count(&f, UOP_LANES_REDUCE, 0), 0);
    end(&f);
}

static void
test_transpose(void **state)
{
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "transpose", 512, 512, 0);
    for (i = 0; i < f.p.n_ops; i++) {
        const struct uop *u = f.p.ops[i];
        if (u->op == UOP_STORE)
            assert_int_equal(u->src[1]->lanes, 1);
    }
    assert_int_equal(count(&f, UOP_STORE, 0), 16);
    end(&f);
    begin(&f, "transpose", 4096, 4096, 0); /* 256 rows at a time */
    for (i = 0; i < f.p.n_ops; i++) {
        const struct uop *u = f.p.ops[i];
        if (u->op == UOP_RANGE && u->src[0]->op == UOP_CONST)
            assert_in_range(u->src[0]->arg.i, 1, 256);
    }
    assert_int_equal(n_groups(&f) % 16, 0);
    end(&f);
}

static void
test_convolution(void **state)
{
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "conv", 64, 56, 56);
    assert_int_equal(count_gathers(&f), 0);
    assert_in_range(count(&f, UOP_MULACC, 16), 8, 24);
    for (i = 0; i < f.p.n_ops; i++) {
        const struct uop *u = f.p.ops[i];
        /* lanes are compared in 32 bits */
        if (u->op == UOP_CMPLT && u->lanes > 1)
            assert_int_equal(u->src[0]->dtype, UOP_I32);
    }
    end(&f);
}

/* Rows of 7 fill no vector; those of three images together do: they are columns
 * of a product, packed one by one. Rows of 56 stay as they are. */
static void
test_small_images(void **state)
{
    const int64_t small[3] = {64, 7, 7}, large[3] = {8, 56, 56};
    const int64_t odd[3] = {64, 9, 10}; /* 7 panels, for two threads */
    struct fixture f;

    (void)state;
    begin_packed(&f, "conv-many", small);
    assert_int_equal(count(&f, UOP_LOCAL, 0), 1);
    assert_int_equal(count(&f, UOP_ACC, 16), 24);
    assert_int_equal(f.p.shared_bytes, 5 * 9 * 32 * sizeof(float));
    end(&f);
    begin_packed(&f, "conv-many", odd);
    assert_int_equal(n_groups(&f), 14);
    end(&f);
    begin_packed(&f, "conv-many", large);
    assert_int_equal(count_gathers(&f), 0);
    end(&f);
}

static void
test_bytes_fill_vectors(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "pad", 64, 1024, 0);
    assert_true(count(&f, UOP_LOAD, 64) > 0);
    assert_int_equal(count(&f, UOP_LOAD, 1), 0);
    end(&f);
}

/* Machine-code time follows the number of operations. */
static void
test_code_size(void **state)
{
    static const int64_t d[][3] = {{64, 64, 64}, {100, 37, 10}, {512, 10, 300}};
    size_t c, s;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < 3; s++) {
            struct fixture f;
            begin(&f, lk_cases[c].name, d[s][0], d[s][1], d[s][2]);
            if (f.p.n_ops > 900)
                fail_msg("%s: %u operations", lk_cases[c].name, f.p.n_ops);
            end(&f);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_packed_matmul),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_tile_registers),
        cmocka_unit_test(test_byte_dots),
        cmocka_unit_test(test_matmul_of_ten_columns),
        cmocka_unit_test(test_tiny_is_left_alone),
        cmocka_unit_test(test_small_has_one_group),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_row_sums),
        cmocka_unit_test(test_rows_in_turn),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_odd_row_sums),
        cmocka_unit_test(test_column_reduction),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_small_images),
        cmocka_unit_test(test_bytes_fill_vectors),
        cmocka_unit_test(test_code_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
