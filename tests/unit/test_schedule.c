/* The scheduler: random tensor graphs, scheduled and run kernel by kernel,
 * against the reference evaluator; and how many kernels well-known graphs
 * become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "k_interp.h"
#include "lower/schedule/overwrite.h"
#include "lower/schedule/schedule.h"
#include "reference/reference.h"
#include "tensor/runtime/runtime.h"

/* ---- building tensor graphs ---- */

static const struct uop_dims *
dims_of(struct uop_graph *g, uint32_t n, ...)
{
    int64_t d[16];
    va_list args;
    uint32_t i;

    va_start(args, n);
    for (i = 0; i < n; i++)
        d[i] = va_arg(args, int);
    va_end(args);
    return uop_dims(g, d, n);
}

static const struct uop *
leaf(struct uop_graph *g, int number, enum uop_dtype dtype,
     const struct uop_dims *shape)
{
    int64_t d[17];
    union uop_arg arg = {.bits = 0};

    d[0] = number;
    memcpy(d + 1, shape->d, shape->n * sizeof(*d));
    arg.dims = uop_dims(g, d, shape->n + 1);
    return uop_new_shaped(g, UOP_BUFFER, dtype, arg, NULL, 0, shape);
}

static const struct uop *
alu(struct uop_graph *g, enum uop_op op, const struct uop *a,
    const struct uop *b)
{
    const struct uop *src[2] = {a, b};
    union uop_arg none = {.bits = 0};
    bool cmp = uop_op_infos[op].flags & UOP_FLAG_CMP;

    return uop_new_shaped(
        g, op, cmp ? UOP_BOOL : a->dtype, none, src, b ? 2 : 1,
        uop_shape(g, a)->n || !b ? uop_shape(g, a) : uop_shape(g, b));
}

static const struct uop *
move(struct uop_graph *g, enum uop_op op, const struct uop *a,
     const struct uop_dims *arg_dims, const struct uop_dims *shape)
{
    union uop_arg arg = {.bits = 0};

    arg.dims = arg_dims;
    return uop_new_shaped(g, op, a->dtype, arg, &a, 1, shape);
}

static const struct uop *
expand(struct uop_graph *g, const struct uop *a, const struct uop_dims *shape)
{
    return move(g, UOP_EXPAND, a, shape, shape);
}

static const struct uop *
reshape(struct uop_graph *g, const struct uop *a, const struct uop_dims *shape)
{
    return move(g, UOP_RESHAPE, a, shape, shape);
}

static const struct uop *
reduce(struct uop_graph *g, enum uop_op op, const struct uop *a, uint32_t axes)
{
    const struct uop_dims *from = uop_shape(g, a);
    int64_t d[16];
    uint32_t i;
    union uop_arg arg = {.i = uop_reduce_arg(op, axes)};

    for (i = 0; i < from->n; i++)
        d[i] = axes >> i & 1 ? 1 : from->d[i];
    return uop_new_shaped(g, UOP_REDUCE_AXIS, a->dtype, arg, &a, 1,
                          uop_dims(g, d, from->n));
}

/* a @ b for (n,k) and (k,m). */
static const struct uop *
matmul(struct uop_graph *g, const struct uop *a, const struct uop *b)
{
    int64_t n = uop_shape(g, a)->d[0], k = uop_shape(g, a)->d[1];
    int64_t m = uop_shape(g, b)->d[1];
    const struct uop_dims *full = dims_of(g, 3, (int)n, (int)k, (int)m);

    a = expand(g, reshape(g, a, dims_of(g, 3, (int)n, (int)k, 1)), full);
    b = expand(g, reshape(g, b, dims_of(g, 3, 1, (int)k, (int)m)), full);
    a = reduce(g, UOP_ADD, alu(g, UOP_MUL, a, b), 2);
    return reshape(g, a, dims_of(g, 2, (int)n, (int)m));
}

/* x reduced over its last axis and repeated along it. */
static const struct uop *
row(struct uop_graph *g, enum uop_op op, const struct uop *x)
{
    const struct uop_dims *shape = uop_shape(g, x);

    return expand(g, reduce(g, op, x, 1u << (shape->n - 1)), shape);
}

static const struct uop *
softmax(struct uop_graph *g, const struct uop *x)
{
    const struct uop *e =
        alu(g, UOP_EXP2, alu(g, UOP_SUB, x, row(g, UOP_MAX, x)), NULL);

    return alu(g, UOP_FDIV, e, row(g, UOP_ADD, e));
}

/* ---- scheduling and running ---- */

/* Values in the place of others: in plans, and wherever that may be. */
static uint32_t n_taken, n_overwritten, n_refused;

struct world {
    struct uop_graph g, kernels;
    struct sched_plan plan;
};

static void
setup(struct world *w)
{
    uop_graph_init(&w->g);
    uop_graph_init(&w->kernels);
}

static void
teardown(struct world *w)
{
    uop_graph_fini(&w->g);
    uop_graph_fini(&w->kernels);
}

static uint32_t
schedule_for(struct world *w, const struct sched_target *target,
             const struct uop *const *roots, uint32_t n)
{
    uint32_t i;

    assert_int_equal(
        sched_build(&w->g, roots, n, target, &w->kernels, &w->plan), BELL_OK);
    for (i = 0; i < w->plan.n_items; i++) {
        if (uop_validate(&w->kernels, &w->plan.items[i].sink, 1, UOP_STAGE_K) !=
            BELL_OK)
            fail_msg("%s", bell_error_last()->message);
    }
    return w->plan.n_items;
}

static uint32_t
schedule(struct world *w, const struct uop *const *roots, uint32_t n)
{
    struct sched_target target = {.n_parallel = 2};

    return schedule_for(w, &target, roots, n);
}

static int64_t
leaf_value(const struct uop *buffer, size_t i)
{
    uint64_t x = (uint64_t)buffer->arg.dims->d[0] * 7919 + i * 104729 + 17;

    x = x * 0x9e3779b97f4a7c15ull >> 40;
    return (int64_t)(x % 41) - 20;
}

static bell_status
fill_leaf(void *user, const struct uop *buffer, struct ref_array *array)
{
    size_t i;

    (void)user;
    for (i = 0; i < array->n; i++) {
        if (uop_dtype_infos[array->dtype].is_float)
            array->f[i] = (double)leaf_value(buffer, i);
        else
            array->i[i] = leaf_value(buffer, i);
    }
    return BELL_OK;
}

/* Each output of the item in the memory of each input that it may have: are the
 * results those of the item? slots[] are left as they were. */
static bool
overwrites_right(struct world *w, const struct sched_item *item,
                 const struct k_buffer *slots)
{
    const struct sched_buf *bufs = w->plan.bufs;
    struct k_buffer want[64], got[64];
    uint32_t o, i, k, at;
    bool ok = true, may;

    for (k = 0; k < item->n_bufs; k++) {
        want[k] = got[k] = slots[k];
        want[k].elems =
            k < item->n_outs ? malloc(slots[k].n * 8 + 8) : slots[k].elems;
    }
    ok = k_run(item->sink, want, item->n_bufs);
    for (o = 0; o < item->n_outs; o++) {
        for (i = item->n_outs; i < item->n_bufs; i++) {
            struct sched_item in_place = *item;
            if (slots[i].n != slots[o].n ||
                bufs[item->bufs[i]].dtype != bufs[item->bufs[o]].dtype)
                continue;
            assert_int_equal(
                sched_may_overwrite(&w->kernels, item->sink, o, i, &may),
                BELL_OK);
            if (!may) {
                n_refused++;
                continue;
            }
            n_overwritten++;
            assert_int_equal(sched_overwrite(&w->kernels, &in_place, o, i),
                             BELL_OK);
            assert_int_equal(in_place.n_bufs, item->n_bufs - 1);
            for (k = at = 0; k < item->n_bufs; k++) {
                if (k == i)
                    continue;
                assert_int_equal(in_place.bufs[at], item->bufs[k]);
                got[at] = slots[k];
                if (k < item->n_outs)
                    got[at].elems = malloc(slots[k].n * 8 + 8);
                if (k == o)
                    memcpy(got[at].elems, slots[i].elems, slots[i].n * 8);
                at++;
            }
            ok = ok && k_run(in_place.sink, got, in_place.n_bufs);
            for (k = 0; k < item->n_outs; k++) {
                ok = ok &&
                     memcmp(got[k].elems, want[k].elems, want[k].n * 8) == 0;
                free(got[k].elems);
            }
        }
    }
    for (k = 0; k < item->n_outs; k++)
        free(want[k].elems);
    return ok;
}

/* Where each value lies: those between leaves and roots in one arena, in which
 * a byte of the plan's is an element of any dtype. */
static void
find_memory(const struct sched_plan *plan, const uint64_t *offsets,
            struct k_buffer *arena, struct k_buffer *bufs)
{
    uint32_t i;

    for (i = 0; i < plan->n_bufs; i++) {
        bufs[i].n = plan->bufs[i].n_elems;
        if (plan->bufs[i].leaf < 0 && plan->bufs[i].root < 0)
            bufs[i].elems = arena->elems + offsets[i];
        else
            bufs[i].elems = calloc(bufs[i].n + 1, sizeof(*bufs[i].elems));
    }
}

/* Runs the plan's kernels; compares each root with the reference. */
static bool
run_matches(struct world *w, const struct uop *const *roots, uint32_t n_roots,
            const struct uop *const *leaves)
{
    struct k_buffer *bufs = calloc(w->plan.n_bufs, sizeof(*bufs)), slots[64];
    struct ref_array *want = calloc(n_roots, sizeof(*want));
    struct rt_plan memory = {.sched = w->plan};
    struct k_buffer arena;
    bool ok = true;
    uint32_t i, j;

    assert_int_equal(rt_place_buffers(&memory, &w->kernels), BELL_OK);
    n_taken += memory.n_taken;
    arena.n = memory.scratch_bytes;
    arena.elems = calloc(arena.n + 1, sizeof(*arena.elems));
    for (j = 0; j < arena.n; j++)
        arena.elems[j].i = 0x5a5a5a5a5a;
    find_memory(&w->plan, memory.offsets, &arena, bufs);
    for (i = 0; i < w->plan.n_bufs; i++) {
        if (w->plan.bufs[i].leaf < 0 && w->plan.bufs[i].root < 0)
            continue;
        for (j = 0; j < bufs[i].n; j++) {
            bufs[i].elems[j].i = 0x5a5a5a5a5a;
            if (w->plan.bufs[i].leaf >= 0)
                bufs[i].elems[j].i =
                    leaf_value(leaves[w->plan.bufs[i].leaf], j);
        }
    }
    for (i = 0; i < w->plan.n_items && ok; i++) {
        for (j = 0; j < w->plan.items[i].n_bufs; j++)
            slots[j] = bufs[w->plan.items[i].bufs[j]];
        ok = overwrites_right(w, &w->plan.items[i], slots);
        ok = ok && k_run(w->plan.items[i].sink, slots, w->plan.items[i].n_bufs);
    }
    assert_int_equal(
        ref_eval(&w->g, roots, n_roots, fill_leaf, NULL, NULL, want), BELL_OK);
    for (i = 0; i < n_roots; i++) {
        const struct k_buffer *got = &bufs[w->plan.root_bufs[i]];
        assert_int_equal(got->n, want[i].n);
        for (j = 0; j < got->n && ok; j++) {
            ok = got->elems[j].i == want[i].i[j];
            if (!ok)
                fprintf(stderr, "root %u element %u: %lld, want %lld\n", i, j,
                        (long long)got->elems[j].i, (long long)want[i].i[j]);
        }
        ref_array_fini(&want[i]);
    }
    for (i = 0; i < w->plan.n_bufs; i++) {
        if (w->plan.bufs[i].leaf >= 0 || w->plan.bufs[i].root >= 0)
            free(bufs[i].elems);
    }
    free(arena.elems);
    host_free(memory.offsets);
    host_free(memory.takes);
    free(bufs);
    free(want);
    return ok;
}

/* ---- random graphs ---- */

static uint32_t
rnd(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*seed >> 33) % n;
}

static const struct uop *
random_move(struct uop_graph *g, uint64_t *seed, const struct uop *a)
{
    const struct uop_dims *from = uop_shape(g, a);
    int64_t d[34], s[17];
    uint32_t i, n = from->n, axis = n ? rnd(seed, n) : 0;
    int64_t numel = 1;

    for (i = 0; i < n; i++) {
        s[i] = from->d[i];
        numel *= s[i];
    }
    switch (rnd(seed, 6)) {
    case 0: /* permute */
        for (i = 0; i < n; i++)
            d[i] = (axis + i) % n;
        for (i = 0; i < n; i++)
            s[i] = from->d[d[i]];
        return move(g, UOP_PERMUTE, a, uop_dims(g, d, n), uop_dims(g, s, n));
    case 1: /* flip */
        return uop_new_shaped(g, UOP_FLIP, a->dtype,
                              (union uop_arg){.i = n ? 1 << axis : 0}, &a, 1,
                              from);
    case 2: /* shrink or pad */
        for (i = 0; i < n; i++) {
            d[2 * i] = 0;
            d[2 * i + 1] = from->d[i];
        }
        if (!n || rnd(seed, 2)) {
            for (i = 0; i < n; i++) {
                d[2 * i] = i == axis ? rnd(seed, 3) : 0;
                d[2 * i + 1] = i == axis ? rnd(seed, 3) : 0;
                s[i] += d[2 * i] + d[2 * i + 1];
            }
            if (numel > 300)
                return a;
            return move(g, UOP_PAD, a, uop_dims(g, d, 2 * n),
                        uop_dims(g, s, n));
        }
        d[2 * axis] = rnd(seed, (uint32_t)from->d[axis]);
        s[axis] = from->d[axis] - d[2 * axis];
        return move(g, UOP_SHRINK, a, uop_dims(g, d, 2 * n), uop_dims(g, s, n));
    case 3: /* flatten some axes */
        if (n < 2)
            return a;
        axis = rnd(seed, n - 1);
        s[axis] *= s[axis + 1];
        for (i = axis + 1; i + 1 < n; i++)
            s[i] = s[i + 1];
        return reshape(g, a, uop_dims(g, s, n - 1));
    case 4: /* split an axis */
        if (n == 0 || n > 5 || s[axis] % 2 || s[axis] < 2)
            return a;
        for (i = n; i > axis + 1; i--)
            s[i] = s[i - 1];
        s[axis + 1] = from->d[axis] / 2;
        s[axis] = 2;
        return reshape(g, a, uop_dims(g, s, n + 1));
    default: /* a new axis, repeated */
        if (n > 5 || numel > 100)
            return a;
        for (i = n; i > axis; i--)
            s[i] = s[i - 1];
        s[axis] = 1;
        a = reshape(g, a, uop_dims(g, s, n + 1));
        s[axis] = 1 + rnd(seed, 4);
        return expand(g, a, uop_dims(g, s, n + 1));
    }
}

/* b made to have a's shape. */
static const struct uop *
fit(struct uop_graph *g, const struct uop *b, const struct uop_dims *shape)
{
    const struct uop_dims *from = uop_shape(g, b);
    int64_t d[16];
    uint32_t i;

    if (from == shape)
        return b;
    b = reduce(g, UOP_ADD, b, (1u << from->n) - 1);
    for (i = 0; i < shape->n; i++)
        d[i] = 1;
    return expand(g, reshape(g, b, uop_dims(g, d, shape->n)), shape);
}

static const struct uop *
random_step(struct uop_graph *g, uint64_t *seed, const struct uop *a,
            const struct uop *b)
{
    static const enum uop_op ops[] = {UOP_ADD, UOP_MUL, UOP_MAX,
                                      UOP_SUB, UOP_MIN, UOP_FLOORMOD};
    static const enum uop_op folds[] = {UOP_ADD, UOP_MAX, UOP_MIN};
    const struct uop_dims *shape = uop_shape(g, a);
    const struct uop *src[3];
    union uop_arg none = {.bits = 0};

    switch (rnd(seed, 8)) {
    case 0:
    case 1:
    case 2:
        return random_move(g, seed, a);
    case 3:
        if (shape->n == 0)
            return a;
        return reduce(g, folds[rnd(seed, 3)], a,
                      1u << rnd(seed, shape->n) | 1u << rnd(seed, shape->n));
    case 4:
        if (shape->n == 0)
            return a;
        b = row(g, folds[rnd(seed, 3)], a);
        return alu(g, ops[rnd(seed, 6)], a, b);
    case 5:
        src[0] = alu(g, UOP_CMPLT, a, fit(g, b, shape));
        src[1] = a;
        src[2] = uop_new_shaped(g, UOP_CONST, UOP_I64, (union uop_arg){.i = 3},
                                NULL, 0, dims_of(g, 0));
        return uop_new_shaped(g, UOP_WHERE, UOP_I64, none, src, 3, shape);
    case 6:
        if (shape->n == 0 || shape->d[0] == 0)
            return a;
        src[0] = a;
        src[1] = fit(g, b, shape);
        src[1] = alu(g, UOP_FLOORMOD, src[1],
                     uop_new_shaped(g, UOP_CONST, UOP_I64,
                                    (union uop_arg){.i = shape->d[0] + 1}, NULL,
                                    0, dims_of(g, 0)));
        return uop_new_shaped(g, UOP_GATHER, UOP_I64,
                              (union uop_arg){.i = rnd(seed, shape->n)}, src, 2,
                              shape);
    default:
        return alu(g, ops[rnd(seed, 6)], a, fit(g, b, shape));
    }
}

static void
test_random(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 1500; seed++) {
        const struct uop *pool[24], *leaves[2], *roots[3];
        uint64_t s = seed * 977;
        uint32_t n = 0, i, n_steps = 3 + rnd(&s, 14);
        struct world w;

        setup(&w);
        leaves[0] = leaf(
            &w.g, 0, UOP_I64,
            dims_of(&w.g, 3, 1 + rnd(&s, 5), 1 + rnd(&s, 6), 1 + rnd(&s, 4)));
        leaves[1] = leaf(&w.g, 1, UOP_I64, dims_of(&w.g, 2, 1 + rnd(&s, 7), 4));
        pool[n++] = leaves[0];
        pool[n++] = leaves[1];
        for (i = 0; i < n_steps; i++) {
            pool[n] = random_step(&w.g, &s, pool[n - 1 - rnd(&s, 2)],
                                  pool[rnd(&s, n)]);
            n++;
        }
        roots[0] = pool[n - 1];
        roots[1] = pool[n - 1 - rnd(&s, 3)];
        roots[2] = pool[rnd(&s, n)];
        schedule(&w, roots, 3);
        if (!run_matches(&w, roots, 3, leaves))
            fail_msg("seed %llu", (unsigned long long)seed);
        teardown(&w);
    }
    assert_true(n_taken > 0 && n_overwritten > 500 && n_refused > 500);
}

/* ---- fusion ---- */

static void
test_softmax_is_one_kernel(void **state)
{
    struct world w;
    const struct uop *x, *y;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 4096, 4096));
    y = softmax(&w.g, x);
    assert_int_equal(schedule(&w, &y, 1), 1);
    assert_int_equal(w.plan.items[0].n_bufs, 2);
    teardown(&w);
}

static void
test_layernorm_is_one_kernel(void **state)
{
    struct world w;
    const struct uop *x, *d, *y, *c;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 4096, 4096));
    c = uop_new_shaped(&w.g, UOP_CONST, UOP_F32, (union uop_arg){.f = 0x1p-12},
                       NULL, 0, dims_of(&w.g, 0));
    d = alu(&w.g, UOP_SUB, x, alu(&w.g, UOP_MUL, row(&w.g, UOP_ADD, x), c));
    y = row(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, d, d));
    y = alu(&w.g, UOP_FDIV, d, alu(&w.g, UOP_SQRT, y, NULL));
    assert_int_equal(schedule(&w, &y, 1), 1);
    teardown(&w);
}

/* Both at hand in one loop, with what they are made of, which nobody else
 * reads and is not stored; the values are right. */
static void
test_several_outputs(void **state)
{
    struct world w;
    const struct uop *p, *g, *leaves[3], *roots[3];

    (void)state;
    /* of the same inputs, one of another's value */
    setup(&w);
    leaves[0] = leaf(&w.g, 0, UOP_I64, dims_of(&w.g, 2, 8, 9));
    leaves[1] = leaf(&w.g, 1, UOP_I64, dims_of(&w.g, 2, 8, 9));
    p = leaves[0];
    g = leaves[1];
    roots[0] = alu(&w.g, UOP_ADD, p, g);
    roots[1] = alu(&w.g, UOP_MUL, g, g);
    roots[2] = alu(&w.g, UOP_SUB, roots[0], roots[1]);
    assert_int_equal(schedule(&w, roots, 3), 1);
    assert_int_equal(w.plan.items[0].n_outs, 3);
    assert_int_equal(w.plan.items[0].n_bufs, 5);
    assert_true(run_matches(&w, roots, 3, leaves));
    teardown(&w);
    /* a row's value, and what is made of it and the row */
    setup(&w);
    leaves[0] = leaf(&w.g, 0, UOP_I64, dims_of(&w.g, 2, 8, 9));
    roots[0] = reduce(&w.g, UOP_MAX, leaves[0], 2);
    roots[1] = alu(&w.g, UOP_SUB, leaves[0],
                   expand(&w.g, roots[0], dims_of(&w.g, 2, 8, 9)));
    assert_int_equal(schedule(&w, roots, 2), 1);
    assert_int_equal(w.plan.items[0].n_outs, 2);
    assert_true(run_matches(&w, roots, 2, leaves));
    teardown(&w);
    /* read elsewhere than where it is made, and of different sizes */
    setup(&w);
    leaves[0] = leaf(&w.g, 0, UOP_I64, dims_of(&w.g, 2, 8, 9));
    leaves[1] = leaf(&w.g, 1, UOP_I64, dims_of(&w.g, 1, 8));
    roots[0] = alu(&w.g, UOP_MUL, leaves[0], leaves[0]);
    roots[1] = uop_new_shaped(&w.g, UOP_FLIP, UOP_I64, (union uop_arg){.i = 1},
                              &roots[0], 1, dims_of(&w.g, 2, 8, 9));
    roots[1] = alu(&w.g, UOP_ADD, roots[1], leaves[0]);
    roots[2] = alu(&w.g, UOP_ADD, leaves[1], leaves[1]);
    assert_int_equal(schedule(&w, roots, 3), 3);
    assert_true(run_matches(&w, roots, 3, leaves));
    teardown(&w);
}

static void
test_matmul_keeps_its_epilogue(void **state)
{
    struct world w;
    const struct uop *x, *a, *b, *y;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 512, 784));
    a = leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 2, 784, 512));
    b = leaf(&w.g, 2, UOP_F32, dims_of(&w.g, 2, 512, 512));
    y = matmul(&w.g, x, a);
    y = alu(&w.g, UOP_MAX, y,
            uop_new_shaped(&w.g, UOP_CONST, UOP_F32, (union uop_arg){.f = 0},
                           NULL, 0, dims_of(&w.g, 0)));
    y = matmul(&w.g, y, b);
    y = alu(&w.g, UOP_EXP2, y, NULL);
    assert_int_equal(schedule(&w, &y, 1), 2);
    teardown(&w);
}

static const struct uop *
cast(struct uop_graph *g, const struct uop *a, enum uop_dtype dtype)
{
    union uop_arg none = {.bits = 0};

    return uop_new_shaped(g, UOP_CAST, dtype, none, &a, 1, uop_shape(g, a));
}

/* Halves that are multiplied as floats are stored as halves, so that matrix
 * instructions take them. */
static void
test_widened_values_are_not_stored(void **state)
{
    struct world w;
    const struct uop *x, *a, *y;
    uint32_t i;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_BF16, dims_of(&w.g, 2, 512, 512));
    a = leaf(&w.g, 1, UOP_BF16, dims_of(&w.g, 2, 512, 512));
    for (y = x, i = 0; i < 3; i++)
        y = cast(&w.g,
                 matmul(&w.g, cast(&w.g, y, UOP_F32), cast(&w.g, a, UOP_F32)),
                 UOP_BF16);
    assert_int_equal(schedule(&w, &y, 1), 3);
    for (i = 0; i < 3; i++)
        assert_int_equal(w.plan.items[i].sink->src[0]->src[0]->dtype, UOP_BF16);
    teardown(&w);
}

static void
test_equal_kernels_are_one_node(void **state)
{
    struct world w;
    const struct uop *roots[2], *x[4];
    int i;

    (void)state;
    setup(&w);
    for (i = 0; i < 4; i++)
        x[i] = leaf(&w.g, i, UOP_F32, dims_of(&w.g, 2, 33, 65));
    for (i = 0; i < 2; i++)
        roots[i] =
            alu(&w.g, UOP_ADD, x[2 * i],
                row(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x[2 * i], x[2 * i + 1])));
    assert_int_equal(schedule(&w, roots, 2), 2);
    assert_ptr_equal(w.plan.items[0].sink, w.plan.items[1].sink);
    teardown(&w);
}

static void
test_roots_that_are_leaves(void **state)
{
    struct world w;
    const struct uop *roots[3], *x;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_I64, dims_of(&w.g, 2, 4, 6));
    roots[0] = reshape(&w.g, x, dims_of(&w.g, 1, 24));
    roots[1] = alu(&w.g, UOP_ADD, x, x);
    roots[2] = reshape(&w.g, roots[1], dims_of(&w.g, 2, 8, 3));
    assert_int_equal(schedule(&w, roots, 3), 1);
    assert_int_equal(w.plan.root_bufs[0], 0);
    assert_int_equal(w.plan.root_bufs[1], w.plan.root_bufs[2]);
    assert_true(run_matches(&w, roots, 3, &x));
    teardown(&w);
}

/* An operand that is read many times over is stored once, instead of computed
 * each time, where a kernel would read too many buffers. */
static void
test_too_many_leaves(void **state)
{
    const struct uop *x[2] = {NULL}, *y;
    struct world w;
    uint32_t i;

    (void)state;
    setup(&w);
    for (i = 0; i < 30; i++) {
        const struct uop_dims *dims =
            i < 20 ? dims_of(&w.g, 2, 1, 64) : dims_of(&w.g, 2, 512, 64);
        const struct uop *a = leaf(&w.g, (int)i, UOP_F32, dims);
        const struct uop **sum = &x[i >= 20];
        *sum = *sum ? alu(&w.g, UOP_ADD, *sum, a) : a;
    }
    x[0] = expand(&w.g, x[0], dims_of(&w.g, 2, 512, 64));
    y = reduce(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x[0], x[1]), 2);
    assert_int_equal(schedule(&w, &y, 1), 2);
    assert_int_equal(w.plan.n_bufs, w.plan.n_leaves + 2);
    for (i = w.plan.n_leaves; i < w.plan.n_bufs; i++) {
        if (w.plan.bufs[i].root < 0)
            assert_int_equal(w.plan.bufs[i].n_elems, 64);
    }
    teardown(&w);
}

/* A large value is summed up as soon as it is there, however late that is asked
 * for. */
static void
test_order_minds_memory(void **state)
{
    const struct uop *a, *b, *large[8], *y[8];
    struct rt_plan memory;
    struct world w;
    int i;

    (void)state;
    setup(&w);
    a = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 64, 16));
    for (i = 0; i < 8; i++) {
        b = leaf(&w.g, i + 1, UOP_F32, dims_of(&w.g, 2, 16, 64));
        large[i] = matmul(&w.g, a, b);
    }
    for (i = 0; i < 8; i++) /* two reads: they are stored */
        y[i] = alu(&w.g, UOP_ADD, reduce(&w.g, UOP_MAX, large[i], 3),
                   reduce(&w.g, UOP_ADD, large[i], 3));
    assert_int_equal(schedule(&w, y, 8), 16);
    memory = (struct rt_plan){.sched = w.plan};
    assert_int_equal(rt_place_buffers(&memory, NULL), BELL_OK);
    assert_in_range(memory.alive_bytes, 64 * 64 * 4, 64 * 64 * 4 + 256);
    assert_in_range(memory.scratch_bytes, 64 * 64 * 4, 64 * 64 * 4 + 20 * 256);
    host_free(memory.offsets);
    host_free(memory.takes);
    teardown(&w);
}

/* A chain of a million nodes: near-linear, and kernels of bounded size. */
static void
test_long_chain(void **state)
{
    struct world w;
    const struct uop *x, *y;
    uint32_t i, n;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 1, 64));
    for (y = x, i = 0; i < 1000000; i++)
        y = alu(&w.g, i & 1 ? UOP_MUL : UOP_ADD, y, x);
    n = schedule(&w, &y, 1);
    assert_in_range(n, 1000, 4000);
    teardown(&w);
}

static void
test_big_sum_is_split(void **state)
{
    struct world w;
    const struct uop *x, *y;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 1, 64 << 20));
    y = reduce(&w.g, UOP_ADD, x, 1);
    assert_int_equal(schedule(&w, &y, 1), 2);
    assert_in_range(w.plan.bufs[1].n_elems, 64, 1024);
    teardown(&w);
}

/* Parts that a processor would take longer than seconds for are more parts. */
/* Lengths without divisors are split, too, in parts that are not equal. */
static void
test_prime_sum_is_split(void **state)
{
    static const enum uop_op ops[] = {UOP_ADD, UOP_MUL, UOP_MAX, UOP_MIN};
    struct world w;
    const struct uop *x, *y;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(ops); i++) {
        setup(&w);
        x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 1, 15485863));
        y = reduce(&w.g, ops[i], x, 1);
        assert_int_equal(schedule(&w, &y, 1), 2);
        assert_in_range(w.plan.bufs[1].n_elems, 64, 1024);
        teardown(&w);
    }
}

static void
test_huge_sum_is_split(void **state)
{
    const int sizes[] = {1 << 30, 400000000, 1000000};
    struct world w;
    const struct uop *x, *y;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        int64_t n = 1024ll * sizes[i];
        setup(&w);
        x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 1024, sizes[i]));
        y = reduce(&w.g, UOP_ADD, x, 3);
        assert_int_equal(schedule(&w, &y, 1), 2);
        assert_true(n / (int64_t)w.plan.bufs[1].n_elems <= 1 << 27);
        assert_in_range(w.plan.bufs[1].n_elems, 64, 65536);
        teardown(&w);
    }
}

/* A sum that is too long to be packed is cut: outer axes wholly, and one by a
 * divisor. */
static void
test_long_products_are_split(void **state)
{
    static const struct {
        int k[3], parts; /* the sum's axes, outermost first */
    } cases[] = {{{8, 64, 64}, 8},   {{3, 8, 512}, 3},  {{3, 70, 70}, 6},
                 {{1, 1, 4096}, 1},  {{1, 1, 4098}, 2}, {{1, 1, 20011}, 1},
                 {{20011, 1, 1}, 1}, {{2, 1, 9000}, 6}, {{100, 1, 1000}, 25},
                 {{3, 5, 4096}, 15}};
    const struct sched_target target = {.n_parallel = 2,
                                        .product_bytes = 4 * 4096};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        const int *k = cases[i].k;
        const struct uop_dims *full;
        const struct uop *x, *y;
        struct world w;
        setup(&w);
        full = dims_of(&w.g, 5, 20, 30, k[0], k[1], k[2]);
        x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 4, 20, k[0], k[1], k[2]));
        y = leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 4, 30, k[0], k[1], k[2]));
        x = expand(&w.g,
                   reshape(&w.g, x, dims_of(&w.g, 5, 20, 1, k[0], k[1], k[2])),
                   full);
        y = expand(&w.g,
                   reshape(&w.g, y, dims_of(&w.g, 5, 1, 30, k[0], k[1], k[2])),
                   full);
        y = reduce(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x, y), 7 << 2);
        assert_int_equal(schedule_for(&w, &target, &y, 1),
                         cases[i].parts > 1 ? 2 : 1);
        if (cases[i].parts > 1)
            assert_int_equal(w.plan.bufs[2].n_elems, 600 * cases[i].parts);
        teardown(&w);
    }
}

/* Likewise where 40 operations compute one of the factors. */
static void
test_long_products_of_more_are_split(void **state)
{
    const struct sched_target target = {.n_parallel = 2,
                                        .product_bytes = 4 * 4096};
    const struct uop *x, *y;
    struct world w;
    uint32_t i;
    bool found = false;

    (void)state;
    setup(&w);
    x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 20, 8192));
    y = leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 2, 30, 8192));
    for (i = 0; i < 40; i++)
        x = alu(&w.g, i % 2 ? UOP_ADD : UOP_MUL, x, x);
    x = expand(&w.g, reshape(&w.g, x, dims_of(&w.g, 3, 20, 1, 8192)),
               dims_of(&w.g, 3, 20, 30, 8192));
    y = expand(&w.g, reshape(&w.g, y, dims_of(&w.g, 3, 1, 30, 8192)),
               dims_of(&w.g, 3, 20, 30, 8192));
    y = reduce(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x, y), 4);
    assert_in_range(schedule_for(&w, &target, &y, 1), 2, 3);
    for (i = 0; i < w.plan.n_bufs; i++)
        found |= w.plan.bufs[i].n_elems == 2 * 600;
    assert_true(found);
    teardown(&w);
}

/* A factor of a sum over several axes is copied first where its last axis lies
 * across memory or in reverse and each of its elements is used often. */
static void
test_rows_of_windows_are_copied(void **state)
{
    static const struct {
        int columns;
        int order[3]; /* of [64, 16, 20] from what is in memory */
        bool is_reversed;
        uint32_t n_kernels;
    } cases[] = {{400, {2, 0, 1}, false, 2},
                 {400, {0, 1, 2}, true, 2},
                 {400, {1, 0, 2}, false, 1},
                 {400, {0, 1, 2}, false, 1},
                 {32, {2, 0, 1}, false, 1}};
    static const int sizes[3] = {64, 16, 20};
    const struct sched_target target = {.n_parallel = 2, .turns_rows = true};
    size_t i, at;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        int columns = cases[i].columns, lies[3];
        const struct uop_dims *full, *rows;
        const struct uop *x, *y;
        union uop_arg arg;
        struct world w;
        setup(&w);
        for (at = 0; at < 3; at++)
            lies[cases[i].order[at]] = sizes[at];
        full = dims_of(&w.g, 4, 64, columns, 16, 20);
        rows = dims_of(&w.g, 3, 64, 16, 20);
        x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 3, lies[0], lies[1], lies[2]));
        arg.dims = dims_of(&w.g, 3, cases[i].order[0], cases[i].order[1],
                           cases[i].order[2]);
        x = uop_new_shaped(&w.g, UOP_PERMUTE, UOP_F32, arg, &x, 1, rows);
        arg.i = 1 << 2;
        if (cases[i].is_reversed)
            x = uop_new_shaped(&w.g, UOP_FLIP, UOP_F32, arg, &x, 1, rows);
        x = expand(&w.g, reshape(&w.g, x, dims_of(&w.g, 4, 64, 1, 16, 20)),
                   full);
        y = leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 3, columns, 16, 20));
        y = expand(&w.g, reshape(&w.g, y, dims_of(&w.g, 4, 1, columns, 16, 20)),
                   full);
        y = reduce(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x, y), 3 << 2);
        assert_int_equal(schedule_for(&w, &target, &y, 1), cases[i].n_kernels);
        if (cases[i].n_kernels > 1)
            assert_int_equal(w.plan.bufs[2].n_elems, 64 * 16 * 20);
        teardown(&w);
    }
}

/* Where tiles take so many steps of small numbers, rows that are not multiples
 * of that get zeros first. */
static void
test_sums_for_tiles(void **state)
{
    static const struct {
        enum uop_dtype from, to;
        int m, k;
        uint32_t n_kernels;
    } cases[] = {
        {UOP_BF16, UOP_F32, 100, 1000, 3}, {UOP_BF16, UOP_F32, 100, 1024, 1},
        {UOP_BF16, UOP_F32, 20, 1000, 1},  {UOP_BF16, UOP_F32, 100, 40, 1},
        {UOP_F16, UOP_F32, 100, 1000, 1},  {UOP_I8, UOP_I32, 100, 1000, 3},
        {UOP_U8, UOP_I32, 100, 960, 1}};
    static const uint8_t tiles_k[UOP_DTYPE_COUNT] = {
        [UOP_BF16] = 32, [UOP_I8] = 64, [UOP_U8] = 64};
    const struct sched_target target = {
        .n_parallel = 2, .turns_rows = true, .tiles_k = tiles_k};
    const union uop_arg none = {.bits = 0};
    size_t i, at;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        int m = cases[i].m, k = cases[i].k;
        const struct uop *x[2];
        struct world w;
        setup(&w);
        for (at = 0; at < 2; at++) {
            const struct uop_dims *d = dims_of(&w.g, 2, at ? 130 : m, k);
            x[at] = leaf(&w.g, (int)at, cases[i].from, d);
            d = dims_of(&w.g, 3, at ? 1 : m, at ? 130 : 1, k);
            x[at] = reshape(&w.g, x[at], d);
            x[at] =
                uop_new_shaped(&w.g, UOP_CAST, cases[i].to, none, &x[at], 1, d);
            x[at] = expand(&w.g, x[at], dims_of(&w.g, 3, m, 130, k));
        }
        x[0] = reduce(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x[0], x[1]), 4);
        assert_int_equal(schedule_for(&w, &target, x, 1), cases[i].n_kernels);
        if (cases[i].n_kernels > 1) {
            int step = tiles_k[cases[i].from];
            assert_int_equal(w.plan.bufs[2].n_elems + w.plan.bufs[3].n_elems,
                             (m + 130) * ((k + step - 1) / step * step));
        }
        teardown(&w);
    }
}

/* A constant has no axes: sums of its products are as other sums, whichever
 * factors the device wants in another order or padded. */
static void
test_constant_factors(void **state)
{
    static const uint8_t k16[UOP_DTYPE_COUNT] = {
        [UOP_F32] = 8, [UOP_BF16] = 16};
    static const struct sched_target targets[] = {
        {.n_parallel = 2, .turns_rows = true},
        {.n_parallel = 2, .turns_rows = true, .tiles_k = k16},
        {.n_parallel = 1024, .matrix_k = k16, .copies = true},
        {.n_parallel = 1024,
         .matrix_k = k16,
         .turns_words = true,
         .channel_uses = 256,
         .odd_channel_uses = 64}};
    static const struct {
        int d[4];
        uint32_t axes;
    } sums[] = {{{1, 32, 32, 32}, 12},
                {{1, 32, 32, 32}, 8},
                {{1, 1, 4096, 4096}, 8},
                {{1, 4096, 1, 4096}, 8}};
    const union uop_arg half = {.f = 0.5};
    size_t i, at, second;

    (void)state;
    for (i = 0; i < ARRAY_LEN(targets) * ARRAY_LEN(sums); i++) {
        for (second = 0; second < 2; second++) {
            const struct uop *x[2];
            struct world w;
            setup(&w);
            at = i % ARRAY_LEN(sums);
            x[second] = uop_new_shaped(&w.g, UOP_CONST, UOP_F32, half, NULL, 0,
                                       dims_of(&w.g, 0));
            x[!second] = leaf(&w.g, 0, UOP_F32,
                              dims_of(&w.g, 4, sums[at].d[0], sums[at].d[1],
                                      sums[at].d[2], sums[at].d[3]));
            x[0] = reduce(&w.g, UOP_ADD, alu(&w.g, UOP_MUL, x[0], x[1]),
                          sums[at].axes);
            assert_int_equal(uop_graph_status(&w.g), BELL_OK);
            assert_true(schedule_for(&w, &targets[i / ARRAY_LEN(sums)], x, 1));
            teardown(&w);
        }
    }
}

/* On 132 processors whose threads share reductions a work-group a row is
 * enough; few rows that are long are cut, and so are products of few
 * results. */
static void
test_a_group_a_row(void **state)
{
    static const struct {
        int rows, columns;
        uint32_t n_softmax, n_rows, n_columns;
    } sizes[] = {{4096, 4096, 1, 1, 1},
                 {100, 32768, 1, 1, 1},
                 {100000, 64, 1, 1, 2},
                 {64, 1024, 1, 1, 1},
                 {4, 1 << 20, 5, 2, 1}};
    const struct sched_target target = {.n_parallel = 132 * 128,
                                        .n_shared = 1024};
    size_t i, what;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        const uint32_t want[] = {sizes[i].n_softmax, sizes[i].n_rows,
                                 sizes[i].n_columns};
        for (what = 0; what < 3; what++) {
            struct world w;
            const struct uop *x;
            setup(&w);
            x = leaf(&w.g, 0, UOP_F32,
                     dims_of(&w.g, 2, sizes[i].rows, sizes[i].columns));
            x = what == 0 ? softmax(&w.g, x)
                          : reduce(&w.g, UOP_ADD, x, what == 1 ? 2 : 1);
            assert_int_equal(schedule_for(&w, &target, &x, 1), want[what]);
            teardown(&w);
        }
    }
    for (what = 0; what < 2; what++) {
        struct world w;
        const struct uop *x;
        setup(&w);
        x = matmul(
            &w.g, leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, what ? 32 : 1, 8192)),
            leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 2, 8192, 2048)));
        assert_int_equal(schedule_for(&w, &target, &x, 1), what + 1);
        teardown(&w);
    }
}

/* Kernels that read a product several times read it as stored: rows after it
 * are one kernel, and it is stored with the values that they share. */
static void
test_rows_of_a_product(void **state)
{
    static const struct sched_target targets[] = {
        {.n_parallel = 2}, {.n_parallel = 132 * 128, .n_shared = 1024}};
    size_t i, what;

    (void)state;
    for (i = 0; i < ARRAY_LEN(targets); i++) {
        for (what = 0; what < 4; what++) {
            const int n = 512;
            struct world w;
            const struct uop *x, *r, *v;
            setup(&w);
            x = matmul(&w.g, leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, n, n)),
                       leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 2, n, n)));
            r = leaf(&w.g, 2, UOP_F32, dims_of(&w.g, 2, n, n));
            v = leaf(&w.g, 3, UOP_F32, dims_of(&w.g, 2, n, n));
            if (what & 1)
                x = alu(&w.g, UOP_ADD, x, r);
            x = softmax(&w.g, x);
            if (what & 2)
                x = matmul(&w.g, x, v);
            assert_int_equal(schedule_for(&w, &targets[i], &x, 1),
                             what & 2 ? 3 : 2);
            teardown(&w);
        }
    }
}

/* Parts of a product that is cut are products: the parts count slowest. */
static void
test_parts_of_a_product(void **state)
{
    const struct sched_target target = {.n_parallel = 8 * 128};
    const struct uop *x, *store;
    char text[160];
    struct world w;

    (void)state;
    setup(&w);
    x = matmul(&w.g, leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 32, 8192)),
               leaf(&w.g, 1, UOP_F32, dims_of(&w.g, 2, 8192, 64)));
    assert_int_equal(schedule_for(&w, &target, &x, 1), 2);
    store = w.plan.items[0].sink->src[0];
    uop_expr_str(store->src[1], text, sizeof(text));
    assert_string_equal(text, "r0*2048 + r1*64 + r2");
    teardown(&w);
}

static void
test_out_of_memory(void **state)
{
    uint64_t nth;

    (void)state;
    for (nth = 1; nth < 500; nth++) {
        struct sched_target target = {.n_parallel = 2};
        struct world w;
        const struct uop *x, *y;
        bell_status status;

        setup(&w);
        x = leaf(&w.g, 0, UOP_F32, dims_of(&w.g, 2, 40, 50));
        y = softmax(&w.g, x);
        assert_int_equal(uop_graph_status(&w.g), BELL_OK);
        host_fail_after(nth, 0);
        status = sched_build(&w.g, &y, 1, &target, &w.kernels, &w.plan);
        host_fail_after(0, 0);
        teardown(&w);
        if (status == BELL_OK)
            return;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    fail_msg("never succeeded");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_is_one_kernel),
        cmocka_unit_test(test_layernorm_is_one_kernel),
        cmocka_unit_test(test_several_outputs),
        cmocka_unit_test(test_matmul_keeps_its_epilogue),
        cmocka_unit_test(test_widened_values_are_not_stored),
        cmocka_unit_test(test_equal_kernels_are_one_node),
        cmocka_unit_test(test_roots_that_are_leaves),
        cmocka_unit_test(test_big_sum_is_split),
        cmocka_unit_test(test_prime_sum_is_split),
        cmocka_unit_test(test_huge_sum_is_split),
        cmocka_unit_test(test_long_products_are_split),
        cmocka_unit_test(test_long_products_of_more_are_split),
        cmocka_unit_test(test_rows_of_windows_are_copied),
        cmocka_unit_test(test_sums_for_tiles),
        cmocka_unit_test(test_constant_factors),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_too_many_leaves),
        cmocka_unit_test(test_order_minds_memory),
        cmocka_unit_test(test_long_chain),
        cmocka_unit_test(test_a_group_a_row),
        cmocka_unit_test(test_rows_of_a_product),
        cmocka_unit_test(test_parts_of_a_product),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
