/* The splitting language: random plans must not change what a kernel
 * computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lower/expand/expand.h"
#include "lower/kernel/kernel.h"
#include "lower/linearize.h"
#include "lower/opt/opt.h"
#include "lower_kernels.h"
#include "sanitized.h"

/* Random plans of each kernel. */
#define N_PLANS (IS_SANITIZED ? 4 : 40)

static const struct lower_target target = {.name = "test",
                                           .vector_bytes = 64,
                                           .n_vector_regs = 32,
                                           .n_threads = 4,
                                           .l1_bytes = 32768,
                                           .l2_bytes = 1 << 20,
                                           .has_fma = true};

static const struct lower_target gpu = {.name = "gpu",
                                        .vector_bytes = 16,
                                        .n_vector_regs = 32,
                                        .has_fma = true,
                                        .is_gpu = true,
                                        .warp_lanes = 32,
                                        .n_units = 8,
                                        .max_threads = 64,
                                        .max_shared_bytes = 1 << 20,
                                        .max_grid = {1000, 50, 50}};

/* ---- random plans ---- */

static int64_t
pick(uint64_t *rng, int64_t n)
{
    return (int64_t)(lk_random(rng) % (uint64_t)n);
}

static bool
peel_some(struct kernel *k, uint64_t *rng)
{
    uint32_t r, i;

    for (i = 0; i < 2; i++) {
        if (!k->n_ranges)
            break;
        r = (uint32_t)pick(rng, k->n_ranges);
        if (k->reduce_ranges >> r & 1 && k->sizes[r] > 1 && pick(rng, 2) &&
            kernel_peel(k, r, 1 + pick(rng, k->sizes[r] - 1),
                        pick(rng, 2) * pick(rng, 20)) != BELL_OK)
            return false;
    }
    return true;
}

static void
split_some(struct opt_plan *plan, uint64_t *rng)
{
    static const enum uop_axis types[] = {
        UOP_AXIS_LOOP,   UOP_AXIS_GLOBAL, UOP_AXIS_UPCAST, UOP_AXIS_UPCAST,
        UOP_AXIS_REDUCE, UOP_AXIS_UNROLL, UOP_AXIS_VECTOR, UOP_AXIS_VECTOR};
    int64_t i, n = pick(rng, 7);

    for (i = 0; i < n && plan->n_axes; i++) {
        uint32_t axis = (uint32_t)pick(rng, plan->n_axes);
        enum uop_axis type = types[pick(rng, 8)];
        int64_t factor = 1 + pick(rng, type == UOP_AXIS_VECTOR ? 16 : 6);
        struct opt_plan before = *plan;
        if (pick(rng, 5) == 0 &&
            (plan->axes[axis].size <= 6 || type == UOP_AXIS_GLOBAL ||
             type == UOP_AXIS_LOOP || type == UOP_AXIS_REDUCE))
            (void)opt_retype(plan, axis, type);
        else
            (void)opt_split(plan, axis, factor, type,
                            pick(rng, 2) ? OPT_INNER : OPT_OUTER, NULL, NULL);
        if (!opt_vectors_fit(plan) || opt_expanded_nodes(plan) > 3000)
            *plan = before;
    }
}

/* May threads share the range: is it of no reduction inside another? */
static bool
may_be_shared(const struct kernel *k, uint32_t range)
{
    uint32_t i;

    for (i = 0; i < k->n_groups; i++) {
        if (k->groups[i].bound >> range & 1)
            return !(k->groups[i].context & k->reduce_ranges);
    }
    return true;
}

/* Folds two axes, and gives pieces of some axes to threads. */
static void
thread_some(struct opt_plan *plan, uint64_t *rng)
{
    uint32_t pair[2], flat, i, shift = 0, axis, piece;
    int64_t log2;

    for (i = 0; i < 2 && plan->n_axes > 1; i++) {
        pair[0] = (uint32_t)pick(rng, plan->n_axes);
        pair[1] = (uint32_t)pick(rng, plan->n_axes);
        if (pair[0] != pair[1] &&
            plan->axes[pair[0]].type == plan->axes[pair[1]].type)
            (void)opt_fold(plan, pair, 2, &flat);
    }
    for (i = 0; i < 4 && plan->n_axes; i++) {
        axis = (uint32_t)pick(rng, plan->n_axes);
        log2 = 1 + pick(rng, 3);
        if (shift + log2 > 6 || !may_be_shared(plan->k, plan->axes[axis].range))
            continue;
        if (opt_split(plan, axis, (int64_t)1 << log2, plan->axes[axis].type,
                      OPT_INNER, &piece, NULL) &&
            opt_thread(plan, piece, shift))
            shift += (uint32_t)log2;
    }
}

static void
must(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
lower_plan(struct kernel *k, struct lower_program *p)
{
    const struct uop *root;

    memset(p, 0, sizeof(*p));
    must(expand_kernel(k, &root, p));
    must(lower_decompose(k->g, &root, 1, k->target));
    must(linearize(k->g, root, &p->ops, &p->n_ops));
    must(uop_validate(k->g, p->ops, p->n_ops, UOP_STAGE_P));
}

static void
print_plan(const struct opt_plan *plan)
{
    static const char *const names[] = {"loop",  "global", "local",  "reduce",
                                        "group", "upcast", "unroll", "vector"};
    uint32_t i;

    for (i = 0; i < plan->n_axes; i++) {
        const struct opt_axis *a = &plan->axes[i];
        if (a->outer < 0)
            print_message("  axis %u of range %u: %s %lld, digit of %d\n", i,
                          a->range, names[a->type], (long long)a->size,
                          a->flat);
    }
}

static void
check_random(const struct lk_case *c, uint64_t seed,
             const struct lower_target *machine)
{
    static const int64_t dims[] = {1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 33};
    uint64_t rng = seed;
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    struct lower_program p;
    struct opt_plan plan, chosen;
    struct kernel kernel;
    char err[BELL_ERROR_MESSAGE] = "";
    int64_t d[3];
    struct lk k;
    int i, bad;

    for (i = 0; i < 3; i++)
        d[i] = dims[pick(&rng, 11)];
    lk_init(&k, c, d, seed);
    lk_copy_bufs(&k, want);
    lk_copy_bufs(&k, got);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    assert_int_equal(kernel_init(&kernel, &k.g, k.sink, machine), BELL_OK);
    assert_int_equal(kernel_canonical(&kernel), BELL_OK);
    if (pick(&rng, 2))
        must(kernel_unflatten(&kernel));
    if (pick(&rng, 2))
        must(kernel_merge(&kernel));
    if (pick(&rng, 2))
        must(kernel_fuse(&kernel));
    assert_true(peel_some(&kernel, &rng));
    opt_plan_init(&plan, &kernel);
    if (machine->is_gpu)
        thread_some(&plan, &rng);
    split_some(&plan, &rng);
    chosen = plan;
    must(opt_apply(&plan));
    lower_plan(&kernel, &p);
    bad = p_run(&p, got, k.n_bufs, err, sizeof(err)) ||
          lk_compare(&k, want, got, err, sizeof(err));
    if (bad) {
        print_plan(&chosen);
        fail_msg("%s (%d, %d, %d) seed %llu: %s", c->name, (int)d[0], (int)d[1],
                 (int)d[2], (unsigned long long)seed, err);
    }
    kernel_fini(&kernel);
    lk_free_copy(&k, want);
    lk_free_copy(&k, got);
    lk_fini(&k);
}

static void
test_random_plans(void **state)
{
    const char *more = getenv("BELL_TEST_PLANS");
    uint64_t n = more ? strtoull(more, NULL, 10) : N_PLANS, seed;
    size_t c;

    (void)state;
    for (c = 0; c < lk_n_cases; c++) {
        for (seed = 1; seed <= n; seed++)
            check_random(&lk_cases[c], seed * 1000 + c,
                         seed % 2 ? &gpu : &target);
    }
}

/* ---- single splits ---- */

struct fixture {
    struct lk k;
    struct kernel kernel;
    struct opt_plan plan;
};

static void
begin(struct fixture *f, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const int64_t d[3] = {d0, d1, d2};

    lk_init(&f->k, lk_find(name), d, 1);
    assert_int_equal(kernel_init(&f->kernel, &f->k.g, f->k.sink, &target),
                     BELL_OK);
    assert_int_equal(kernel_canonical(&f->kernel), BELL_OK);
    opt_plan_init(&f->plan, &f->kernel);
}

static void
end(struct fixture *f)
{
    kernel_fini(&f->kernel);
    lk_fini(&f->k);
}

static uint32_t
count_ops(const struct lower_program *p, enum uop_op op, uint32_t lanes)
{
    uint32_t i, n = 0;

    for (i = 0; i < p->n_ops; i++)
        n += p->ops[i]->op == op && (!lanes || p->ops[i]->lanes == lanes);
    return n;
}

static void
test_tile_of_matmul(void **state)
{
    struct lower_program p;
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "matmul-nn", 32, 64, 16);
    assert_true(
        opt_split(&f.plan, 1, 32, UOP_AXIS_UPCAST, OPT_INNER, &i, NULL));
    assert_true(
        opt_split(&f.plan, i, 16, UOP_AXIS_VECTOR, OPT_INNER, NULL, NULL));
    assert_true(opt_split(&f.plan, 0, 8, UOP_AXIS_UPCAST, OPT_INNER, NULL, &i));
    assert_true(opt_retype(&f.plan, i, UOP_AXIS_GLOBAL));
    assert_int_equal(opt_apply(&f.plan), BELL_OK);
    lower_plan(&f.kernel, &p);
    assert_int_equal(p.grid[0], 4);
    assert_int_equal(count_ops(&p, UOP_RANGE, 0), 2);
    assert_int_equal(count_ops(&p, UOP_ACC, 16), 16);
    assert_int_equal(count_ops(&p, UOP_MULACC, 16), 16);
    assert_int_equal(count_ops(&p, UOP_LOAD, 16), 2);
    assert_int_equal(count_ops(&p, UOP_LOAD, 1), 8);
    assert_int_equal(count_ops(&p, UOP_STORE, 0), 16);
    end(&f);
}

static void
test_refusals(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "matmul-nn", 32, 64, 15);
    /* 4 does not divide the reduction; larger than the size; wrong types */
    assert_false(
        opt_split(&f.plan, 2, 4, UOP_AXIS_UNROLL, OPT_INNER, NULL, NULL));
    assert_false(
        opt_split(&f.plan, 0, 33, UOP_AXIS_UPCAST, OPT_INNER, NULL, NULL));
    assert_false(
        opt_split(&f.plan, 2, 3, UOP_AXIS_GLOBAL, OPT_INNER, NULL, NULL));
    assert_false(
        opt_split(&f.plan, 0, 4, UOP_AXIS_UNROLL, OPT_INNER, NULL, NULL));
    assert_false(opt_retype(&f.plan, 0, UOP_AXIS_REDUCE));
    assert_true(opt_vectors_fit(&f.plan));
    /* two vectors in one product */
    assert_true(
        opt_split(&f.plan, 0, 16, UOP_AXIS_VECTOR, OPT_INNER, NULL, NULL));
    assert_true(
        opt_split(&f.plan, 1, 16, UOP_AXIS_VECTOR, OPT_INNER, NULL, NULL));
    assert_false(opt_vectors_fit(&f.plan));
    /* split already */
    assert_false(
        opt_split(&f.plan, 0, 2, UOP_AXIS_UPCAST, OPT_INNER, NULL, NULL));
    end(&f);
}

static void
test_div_mod_vanish(void **state)
{
    struct lower_program p;
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "divmod", 24, 16, 0);
    assert_true(
        opt_split(&f.plan, 0, 16, UOP_AXIS_VECTOR, OPT_INNER, NULL, &i));
    assert_int_equal(opt_apply(&f.plan), BELL_OK);
    lower_plan(&f.kernel, &p);
    assert_int_equal(count_ops(&p, UOP_IDIV, 0) + count_ops(&p, UOP_IMOD, 0),
                     0);
    assert_int_equal(count_ops(&p, UOP_SHR, 0) + count_ops(&p, UOP_AND, 0), 0);
    end(&f);
}

static void
test_contiguous_vector(void **state)
{
    struct lower_program p;
    struct fixture f;
    uint32_t i, n = 0;

    (void)state;
    begin(&f, "pad", 4, 40, 0);
    assert_true(
        opt_split(&f.plan, 1, 32, UOP_AXIS_VECTOR, OPT_INNER, NULL, NULL));
    assert_int_equal(opt_apply(&f.plan), BELL_OK);
    lower_plan(&f.kernel, &p);
    for (i = 0; i < p.n_ops; i++) {
        const struct uop *u = p.ops[i];
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        assert_int_equal(u->src[1]->lanes, 1);
        if (u->op == UOP_LOAD)
            assert_int_equal(u->src[3]->lanes, 32);
        n++;
    }
    assert_int_equal(n, 2);
    end(&f);
}

static void
test_peel(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "softmax", 4, 37, 0);
    assert_int_equal(f.kernel.n_groups, 2);
    assert_int_equal(kernel_peel(&f.kernel, 2, 32, 0), BELL_OK);
    assert_int_equal(f.kernel.n_groups, 3);
    assert_int_equal(f.kernel.sizes[2], 32);
    assert_int_equal(f.kernel.n_ranges, 5);
    assert_int_equal(f.kernel.sizes[4], 5);
    end(&f);
}

static void
test_fuse(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "two-sums", 4, 37, 0);
    assert_int_equal(f.kernel.n_groups, 2);
    must(kernel_fuse(&f.kernel));
    assert_int_equal(f.kernel.n_groups, 1);
    assert_int_equal(f.kernel.groups[0].n_members, 2);
    assert_int_equal(f.kernel.n_ranges, 2);
    end(&f);
    begin(&f, "softmax", 4, 37, 0); /* the sum needs the maximum */
    must(kernel_fuse(&f.kernel));
    assert_int_equal(f.kernel.n_groups, 2);
    end(&f);
}

static void
test_unflatten(void **state)
{
    struct fixture f;
    uint32_t i;

    (void)state;
    begin(&f, "divmod", 24, 16, 0);
    must(kernel_unflatten(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 2);
    assert_int_equal(f.kernel.sizes[0], 24);
    assert_int_equal(f.kernel.sizes[1], 16);
    for (i = 0; i < f.kernel.n_nodes; i++) {
        assert_int_not_equal(f.kernel.nodes[i]->op, UOP_FLOORDIV);
        assert_int_not_equal(f.kernel.nodes[i]->op, UOP_FLOORMOD);
    }
    end(&f);
    begin(&f, "divmod", 24, 3, 0); /* too short a piece */
    must(kernel_unflatten(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 1);
    end(&f);
}

static void
test_merge(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, "add", 4, 37, 0);
    must(kernel_merge(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 1);
    assert_int_equal(f.kernel.sizes[0], 4 * 37);
    end(&f);
    begin(&f, "sum-all", 6, 7, 0);
    must(kernel_merge(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 1);
    end(&f);
    begin(&f, "broadcast", 4, 37, 0);
    must(kernel_merge(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 2);
    end(&f);
    begin(&f, "softmax", 4, 37, 0);
    must(kernel_merge(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 4);
    end(&f);
    begin(&f, "two-shapes", 4, 37, 0);
    must(kernel_merge(&f.kernel));
    assert_int_equal(f.kernel.n_ranges, 3);
    end(&f);
}

/* A rest that is padded to a vector reads nothing beyond the end. */
static void
test_padded_rest(void **state)
{
    struct lower_program p;
    struct fixture f;
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[256] = "";

    (void)state;
    begin(&f, "sum-rows", 3, 37, 0);
    must(kernel_peel(&f.kernel, 1, 32, 8));
    assert_int_equal(f.kernel.sizes[2], 8);
    opt_plan_init(&f.plan, &f.kernel);
    assert_true(opt_retype(&f.plan, 2, UOP_AXIS_VECTOR));
    assert_true(
        opt_split(&f.plan, 1, 16, UOP_AXIS_VECTOR, OPT_INNER, NULL, NULL));
    must(opt_apply(&f.plan));
    lower_plan(&f.kernel, &p);
    lk_copy_bufs(&f.k, want);
    lk_copy_bufs(&f.k, got);
    assert_int_equal(k_run(f.k.sink, want, f.k.n_bufs, err, sizeof(err)), 0);
    if (p_run(&p, got, f.k.n_bufs, err, sizeof(err)) ||
        lk_compare(&f.k, want, got, err, sizeof(err)))
        fail_msg("%s", err);
    lk_free_copy(&f.k, want);
    lk_free_copy(&f.k, got);
    end(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile_of_matmul),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_div_mod_vanish),
        cmocka_unit_test(test_contiguous_vector),
        cmocka_unit_test(test_peel),
        cmocka_unit_test(test_padded_rest),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_unflatten),
        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_random_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
