/* Programs on one device and on several: the same values, whatever the layouts
 * of what they begin with.
 *
 * Leaves are whole numbers, so that sums of floats are exact in any order:
 * results are equal to the bit. Those of programs that divide or take roots
 * before they add are within bounds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/loader.h"
#include "doorbell/mesh.h"
#include "doorbell/optim.h"
#include "doorbell/select.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"
#include "tests/unit/sanitized.h"

#define MAX_BYTES 65536
#define ROWS      12
#define COLS      24

static const char *one_name, *many_name;
static struct bell_context *one, *many;

static int
open_both(void **state)
{
    (void)state;
    if (bell_context_create(one_name, &one) != BELL_OK ||
        bell_context_create(many_name, &many) != BELL_OK) {
        print_error("%s\n", bell_error_last()->message);
        return -1;
    }
    return 0;
}

static int
close_both(void **state)
{
    bell_status status = bell_context_status(many);

    (void)state;
    if (status != BELL_OK)
        print_error("an error was left: %s\n", bell_error_last()->message);
    bell_context_destroy(one);
    bell_context_destroy(many);
    one = many = NULL;
    return status == BELL_OK ? 0 : -1;
}

/* ---- leaves -------------------------------------------------------------- */

#define WHOLE (-1)

/* Along the only axis of the mesh. */
struct leaves {
    struct bell_tensor *x, *w, *b, *i; /* 12x24, 24x12, 12; int64, 12 */
};

static struct bell_tensor *
numbers(struct bell_context *c, int64_t rows, int64_t cols, int salt)
{
    float values[ROWS * COLS];
    int64_t i;

    for (i = 0; i < rows * cols; i++)
        values[i] = (float)((i * 7 + salt * 5 + i / 5) % 11 - 5);
    if (cols == 1)
        return bell_from_data(c, BELL_DIMS(rows), BELL_FLOAT32, values);
    return bell_from_data(c, BELL_DIMS(rows, cols), BELL_FLOAT32, values);
}

static struct bell_tensor *
place_leaf(struct bell_tensor *t, int axis)
{
    t = axis == WHOLE ? t : bell_shard(t, "data", axis);
    expect_ok(bell_realize1(t));
    return t;
}

static void
make_leaves(struct bell_context *c, int x, int w, int b, struct leaves *out)
{
    int64_t indices[ROWS], i;

    for (i = 0; i < ROWS; i++)
        indices[i] = i * 5 % ROWS;
    out->x = place_leaf(numbers(c, ROWS, COLS, 1), x);
    out->w = place_leaf(numbers(c, COLS, ROWS, 2), w);
    out->b = place_leaf(numbers(c, ROWS, 1, 3), b);
    out->i =
        place_leaf(bell_from_data(c, BELL_DIMS(ROWS), BELL_INT64, indices), b);
}

/* ---- programs ------------------------------------------------------------ */

typedef struct bell_tensor *tensor;

static tensor
p_leaf(const struct leaves *l)
{
    return l->x;
}

static tensor
p_add(const struct leaves *l)
{
    return bell_add(l->x, bell_t(l->w));
}

static tensor
p_mix(const struct leaves *l)
{
    tensor y = bell_maximum(bell_mul(l->x, l->x), bell_t(l->w));

    return bell_where(bell_lt(y, bell_t(l->w)), bell_neg(y),
                      bell_add_scalar(y, 1));
}

static tensor
p_bias(const struct leaves *l)
{
    return bell_relu(bell_add(l->w, l->b));
}

static tensor
p_casts(const struct leaves *l)
{
    return bell_cast(bell_cast(l->x, BELL_BFLOAT16), BELL_INT16);
}

static tensor
p_flat(const struct leaves *l)
{
    return bell_mul_scalar(bell_reshape(l->x, BELL_DIMS(ROWS * COLS)), 2);
}

static tensor
p_fold(const struct leaves *l)
{
    return bell_neg(bell_reshape(l->x, BELL_DIMS(3, 4, 2, 12)));
}

static tensor
p_turn(const struct leaves *l)
{
    return bell_neg(bell_permute(bell_reshape(l->x, BELL_DIMS(ROWS, 2, 12)),
                                 BELL_DIMS(2, 0, 1)));
}

static tensor
p_pad(const struct leaves *l)
{
    static const int64_t pads[] = {1, 2};

    return bell_add(bell_pad(l->x, pads, 2, 3),
                    bell_pad(bell_t(l->w), pads, 2, 0));
}

static tensor
p_narrow(const struct leaves *l)
{
    return bell_add(bell_narrow(l->x, 0, 2, 7),
                    bell_narrow(bell_t(l->w), 0, 5, 7));
}

static tensor
p_first_rows(const struct leaves *l)
{
    return bell_neg(bell_narrow(l->x, 0, 0, 4));
}

static tensor
p_narrow_cols(const struct leaves *l)
{
    return bell_neg(bell_narrow(l->x, 1, 3, 11));
}

static tensor
p_flip(const struct leaves *l)
{
    return bell_add(bell_flip(l->x, BELL_DIMS(0)),
                    bell_flip(l->x, BELL_DIMS(1)));
}

static tensor
p_cat(const struct leaves *l)
{
    tensor parts[2] = {l->x, bell_t(l->w)};

    return bell_cat(parts, 2, 0);
}

static tensor
p_sum(const struct leaves *l)
{
    return bell_sum(bell_mul(l->x, l->x), NULL, 0, false);
}

static tensor
p_sum_rows(const struct leaves *l)
{
    return bell_sum(l->x, BELL_DIMS(0), true);
}

static tensor
p_sum_cols(const struct leaves *l)
{
    return bell_add(bell_sum(l->x, BELL_DIMS(1), false), l->b);
}

/* Sums of sums, which are added up once. */
static tensor
p_sums(const struct leaves *l)
{
    tensor a = bell_sum(l->x, BELL_DIMS(0), false);
    tensor b = bell_sum(bell_mul(l->x, bell_t(l->w)), BELL_DIMS(0), false);

    return bell_sum(bell_neg(bell_sub(a, b)), NULL, 0, false);
}

static tensor
p_max(const struct leaves *l)
{
    return bell_max(bell_mul(l->x, bell_t(l->w)), BELL_DIMS(0), false);
}

static tensor
p_min_cols(const struct leaves *l)
{
    return bell_min(l->x, BELL_DIMS(1), true);
}

static tensor
p_prod(const struct leaves *l)
{
    return bell_prod(bell_cast(l->x, BELL_INT64), BELL_DIMS(0), false);
}

static tensor
p_any(const struct leaves *l)
{
    return bell_any(bell_gt(l->x, bell_add_scalar(bell_t(l->w), 8)),
                    BELL_DIMS(0), false);
}

static tensor
p_argmax(const struct leaves *l)
{
    return bell_argmax(l->x, 0, false);
}

static tensor
p_small_ints(const struct leaves *l)
{
    return bell_sum(bell_cast(l->x, BELL_UINT8), BELL_DIMS(0), false);
}

static tensor
p_matmul(const struct leaves *l)
{
    return bell_matmul(l->x, l->w);
}

static tensor
p_layer(const struct leaves *l)
{
    return bell_relu(bell_add(bell_matmul(l->x, l->w), l->b));
}

static tensor
p_two_layers(const struct leaves *l)
{
    tensor y = bell_relu(bell_add(bell_matmul(l->x, l->w), l->b));

    return bell_matmul(bell_t(l->w), bell_matmul(l->w, y));
}

static tensor
p_half(const struct leaves *l)
{
    return bell_matmul(bell_cast(l->x, BELL_BFLOAT16),
                       bell_cast(l->w, BELL_BFLOAT16));
}

static tensor
p_cumsum(const struct leaves *l)
{
    return bell_add(bell_cumsum(l->x, 0), bell_cumsum(l->x, 1));
}

static tensor
p_sort(const struct leaves *l)
{
    tensor values, order;

    bell_topk(l->x, 5, 0, true, &values, &order);
    return bell_add(values, bell_cast(order, BELL_FLOAT32));
}

static tensor
p_rows(const struct leaves *l)
{
    return bell_index_select(l->x, 0, l->i);
}

static tensor
p_one_hot(const struct leaves *l)
{
    return bell_matmul(bell_cast(bell_one_hot(l->i, ROWS), BELL_FLOAT32), l->x);
}

/* A counter is each place's own part of it. */
static tensor
p_counter(const struct leaves *l)
{
    tensor n = bell_arange(bell_context_of(l->x), 0, ROWS, 1, BELL_FLOAT32);

    return bell_mul(bell_reshape(n, BELL_DIMS(ROWS, 1)), l->x);
}

static tensor
p_random(const struct leaves *l)
{
    struct bell_context *c = bell_context_of(l->x);

    bell_manual_seed(c, 3);
    return bell_mul(bell_rand(c, BELL_DIMS(ROWS, COLS), BELL_FLOAT32), l->x);
}

static tensor
p_gradient(const struct leaves *l)
{
    struct bell_context *c = bell_context_of(l->x);
    tensor w = bell_requires_grad(bell_alias(l->w), true);
    tensor y = bell_relu(bell_add(bell_matmul(l->x, w), l->b));

    if (bell_backward(bell_sum(bell_mul(y, y), NULL, 0, false)) != BELL_OK)
        return bell_error_tensor(c);
    return bell_grad(w);
}

/* Values stay what they are in other layouts. */
static tensor
p_layouts(const struct leaves *l)
{
    struct bell_context *c = bell_context_of(l->x);
    tensor x = bell_requires_grad(bell_alias(l->x), true), y;

    y = bell_mul(bell_shard(x, "data", 0), bell_shard(x, "data", 1));
    y = bell_mul(bell_replicate(y, "data"), x);
    if (bell_backward(bell_sum(bell_shard(y, "data", 1), NULL, 0, false)) !=
        BELL_OK)
        return bell_error_tensor(c);
    return bell_grad(x);
}

static tensor
p_softmax(const struct leaves *l)
{
    return bell_softmax(bell_mul(l->x, bell_t(l->w)), 0);
}

static tensor
p_norm(const struct leaves *l)
{
    return bell_layer_norm(bell_add(l->w, l->b), 1, l->b, l->b, 1e-5);
}

static tensor
p_loss(const struct leaves *l)
{
    return bell_cross_entropy(bell_matmul(l->x, l->w), l->i, 0, -100,
                              BELL_MEAN);
}

static const struct {
    const char *name;
    tensor (*run)(const struct leaves *l);
    bool rounds;  /* before it adds */
    bool is_slow; /* on simulated cards */
} programs[] = {
    {"leaf", p_leaf, false, false},
    {"add", p_add, false, false},
    {"mix", p_mix, false, false},
    {"bias", p_bias, false, false},
    {"casts", p_casts, false, false},
    {"flat", p_flat, false, false},
    {"fold", p_fold, false, false},
    {"turn", p_turn, false, false},
    {"pad", p_pad, false, false},
    {"narrow", p_narrow, false, false},
    {"first rows", p_first_rows, false, false},
    {"narrow cols", p_narrow_cols, false, false},
    {"flip", p_flip, false, false},
    {"cat", p_cat, false, false},
    {"sum", p_sum, false, false},
    {"sum rows", p_sum_rows, false, false},
    {"sum cols", p_sum_cols, false, false},
    {"sums", p_sums, false, false},
    {"max", p_max, false, false},
    {"min cols", p_min_cols, false, false},
    {"prod", p_prod, false, false},
    {"any", p_any, false, false},
    {"argmax", p_argmax, false, false},
    {"small ints", p_small_ints, false, false},
    {"matmul", p_matmul, false, false},
    {"layer", p_layer, false, false},
    {"two layers", p_two_layers, false, false},
    {"half", p_half, false, false},
    {"cumsum", p_cumsum, false, false},
    {"sort", p_sort, false, true},
    {"rows", p_rows, false, false},
    {"one hot", p_one_hot, false, false},
    {"counter", p_counter, false, false},
    {"random", p_random, false, false},
    {"gradient", p_gradient, false, false},
    {"layouts", p_layouts, false, false},
    {"softmax", p_softmax, true, false},
    {"norm", p_norm, true, false},
    {"loss", p_loss, true, false},
};

/* ---- comparisons --------------------------------------------------------- */

static size_t
read_values(tensor t, const char *name, uint8_t *out)
{
    size_t n = bell_nbytes(t);

    if (n > MAX_BYTES || bell_read(t, out, n) != BELL_OK)
        fail_msg("%s: %s", name, bell_error_last()->message);
    return n;
}

static size_t
find_difference(const uint8_t *want, const uint8_t *got)
{
    size_t i = 0;

    while (want[i] == got[i])
        i++;
    return i;
}

static void
compare(const char *name, bool rounds, size_t n, const uint8_t *want,
        const uint8_t *got)
{
    size_t i;

    if (!rounds && memcmp(want, got, n) != 0)
        fail_msg("%s: other bits on several devices, from byte %zu of %zu on",
                 name, find_difference(want, got), n);
    for (i = 0; rounds && i < n; i += sizeof(float)) {
        float a, b;

        memcpy(&a, want + i, sizeof(a));
        memcpy(&b, got + i, sizeof(b));
        if (!(a - b < 2e-5f && b - a < 2e-5f))
            fail_msg("%s: %.9g is %.9g on several devices", name, a, b);
    }
}

static bool
is_simulated(void)
{
    return strstr(many_name, "@sim") != NULL;
}

/* Every program with the leaves laid out so. */
static void
run_all(int x, int w, int b)
{
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    struct leaves l;
    char name[96];
    size_t i, n;

    for (i = 0; i < ARRAY_LEN(programs); i++) {
        if (is_simulated() && programs[i].is_slow)
            continue;
        snprintf(name, sizeof(name), "%s, x %d, w %d, b %d", programs[i].name,
                 x, w, b);
        expect_ok(bell_scope_begin(one));
        expect_ok(bell_scope_begin(many));
        make_leaves(one, WHOLE, WHOLE, WHOLE, &l);
        n = read_values(programs[i].run(&l), name, want);
        make_leaves(many, x, w, b, &l);
        assert_int_equal(read_values(programs[i].run(&l), name, got), n);
        compare(name, programs[i].rounds, n, want, got);
        expect_ok(bell_scope_end(many));
        expect_ok(bell_scope_end(one));
    }
}

/* ---- jits ---------------------------------------------------------------- */

/* Program number `user`, of leaves that are inputs. */
static bell_status
call_program(struct bell_context *c, void *user, tensor const *in, tensor *out)
{
    const struct leaves l = {in[0], in[1], in[2], in[3]};

    (void)c;
    *out = programs[*(size_t *)user].run(&l);
    return BELL_OK;
}

/* A program whose function has been captured, again and again, with other
 * memory: the bits are those of the same calls without a jit. */
static void
run_jit(size_t i, int x, int w, int b)
{
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    struct bell_jit_desc desc = {sizeof(desc), "program", call_program,
                                 &i,           4,         1};
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_jit *jit;
    char name[96];
    size_t n, k;

    snprintf(name, sizeof(name), "jit of %s, x %d, w %d, b %d",
             programs[i].name, x, w, b);
    expect_ok(bell_jit_create(many, &desc, &jit));
    for (k = 0; k < 3; k++) {
        struct leaves l;
        tensor in[4], out;

        expect_ok(bell_scope_begin(many));
        make_leaves(many, x, w, b, &l);
        if (k == 2) /* other values */
            l.x = bell_sub(l.x, bell_mul_scalar(l.x, 2));
        n = read_values(programs[i].run(&l), name, want);
        memcpy(in, &l, sizeof(in));
        bell_manual_seed(many, 3);
        expect_ok(bell_jit_call(jit, in, &out));
        assert_int_equal(read_values(out, name, got), n);
        compare(name, false, n, want, got);
        expect_ok(bell_scope_end(many));
    }
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 1);
    bell_jit_destroy(jit);
}

/* Those that a function cannot do while it is captured. */
static bool
is_jit(size_t i)
{
    return programs[i].run != p_random; /* it sets the seed */
}

static void
test_jits(void **state)
{
    static const int layouts[][3] = {
        {0, WHOLE, WHOLE}, {1, 0, WHOLE}, {0, 1, 0}, {WHOLE, WHOLE, WHOLE}};
    size_t i, k, n = is_simulated() ? 2 : ARRAY_LEN(layouts);

    (void)state;
    for (k = 0; k < n; k++) {
        for (i = 0; i < ARRAY_LEN(programs); i++) {
            if (is_jit(i) && !(is_simulated() && programs[i].is_slow))
                run_jit(i, layouts[k][0], layouts[k][1], layouts[k][2]);
        }
    }
}

static void
test_programs(void **state)
{
    static const int layouts[][3] = {
        {WHOLE, WHOLE, WHOLE}, {0, WHOLE, WHOLE}, {1, 0, WHOLE}, {0, 1, 0},
        {WHOLE, 1, 0},         {1, WHOLE, 0},     {WHOLE, 0, 0},
    };
    size_t i, n = is_simulated() ? 3 : bell_mesh_places(many) > 2 ? 4 : 7;

    (void)state;
    for (i = 0; i < n; i++)
        run_all(layouts[i][0], layouts[i][1], layouts[i][2]);
}

static uint64_t
splits(void)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(many, &stats);
    return stats.n_splits;
}

/* ---- training ------------------------------------------------------------ */

#define STEPS 5

/* The loss of each step, and the parameters after the last. `axis`: of the
 * mesh, along which the batch is split; NULL: not. `split`: w as well. */
static void
train(struct bell_context *c, const char *axis, bool split, bool adam,
      float *losses, float *out_w)
{
    struct bell_sgd_options sgd = {
        .struct_size = sizeof(sgd), .lr = 0.1, .momentum = 0.5};
    struct bell_adam_options adam_options = {.struct_size =
                                                 sizeof(adam_options)};
    struct bell_optimizer *opt;
    struct leaves l;
    tensor params[2];
    int step;

    expect_ok(bell_scope_begin(c));
    make_leaves(c, WHOLE, WHOLE, WHOLE, &l);
    l.w = bell_mul_scalar(l.w, 0.0625);
    if (split)
        l.w = bell_shard(l.w, axis, 1);
    params[0] = l.w;
    params[1] = l.b;
    expect_ok(bell_realize(params, 2));
    bell_requires_grad(l.w, true);
    bell_requires_grad(l.b, true);
    expect_ok(adam ? bell_adam_create(params, 2, &adam_options, &opt)
                   : bell_sgd_create(params, 2, &sgd, &opt));
    for (step = 0; step < STEPS; step++) {
        tensor x, loss;

        expect_ok(bell_scope_begin(c));
        x = axis ? bell_shard(l.x, axis, 0) : l.x;
        bell_optimizer_zero_grad(opt);
        loss = bell_cross_entropy(bell_add(bell_matmul(x, l.w), l.b), l.i, 0,
                                  -100, BELL_MEAN);
        expect_ok(bell_backward(loss));
        expect_ok(bell_optimizer_step(opt, &loss, 1));
        expect_ok(bell_read(loss, &losses[step], sizeof(losses[0])));
        expect_ok(bell_scope_end(c));
    }
    expect_ok(bell_read(l.w, out_w, COLS * ROWS * sizeof(*out_w)));
    bell_optimizer_destroy(opt);
    expect_ok(bell_scope_end(c));
}

static void expect_axis(tensor t, int32_t axis);

struct trainee {
    struct leaves l;
    struct bell_optimizer *opt;
    const char *axis;
};

static bell_status
train_once(struct bell_context *c, void *user, tensor const *in, tensor *out)
{
    struct trainee *t = user;
    tensor x = bell_shard(in[0], t->axis, 0), drop;

    drop = bell_gt(bell_rand(c, BELL_DIMS(ROWS, COLS), BELL_FLOAT32),
                   bell_scalar(c, 0.25));
    x = bell_mul(x, bell_cast(drop, BELL_FLOAT32));
    *out = bell_cross_entropy(bell_add(bell_matmul(x, t->l.w), t->l.b), t->l.i,
                              0, -100, BELL_MEAN);
    bell_optimizer_zero_grad(t->opt);
    BELL_TRY(bell_backward(*out));
    return bell_optimizer_step(t->opt, out, 1);
}

/* A training step as a graph: losses and parameters have the bits of the same
 * calls without a jit; and so has the next step without one. */
static void
train_jit(bool split, bool is_jit_used, float *losses, float *out_w)
{
    struct bell_adam_options options = {.struct_size = sizeof(options)};
    struct trainee t = {.axis = "data"};
    struct bell_jit_desc desc = {sizeof(desc), "step", train_once, &t, 1, 1};
    struct bell_jit *jit;
    tensor params[2], loss;
    float x[ROWS * COLS];
    uint64_t first = 0;
    int step;

    expect_ok(bell_scope_begin(many));
    bell_manual_seed(many, 9);
    make_leaves(many, WHOLE, WHOLE, WHOLE, &t.l);
    /* whole at each place, as a jit has it: without that the host writes
     * parts, of which kernels may add in another order */
    expect_ok(bell_read(t.l.x, x, sizeof(x)));
    t.l.w = bell_mul_scalar(t.l.w, 0.0625);
    if (split)
        t.l.w = bell_shard(t.l.w, t.axis, 1);
    params[0] = t.l.w;
    params[1] = t.l.b;
    expect_ok(bell_realize(params, 2));
    bell_requires_grad(t.l.w, true);
    bell_requires_grad(t.l.b, true);
    expect_ok(bell_adam_create(params, 2, &options, &t.opt));
    expect_ok(bell_jit_create(many, &desc, &jit));
    for (step = 0; step < STEPS; step++) {
        expect_ok(bell_scope_begin(many));
        if (is_jit_used && step < STEPS - 1)
            expect_ok(bell_jit_call(jit, &t.l.x, &loss));
        else
            expect_ok(train_once(many, &t, &t.l.x, &loss));
        expect_ok(bell_read(loss, &losses[step], sizeof(losses[0])));
        if (step > 1 && step < STEPS - 1) /* from the second step on */
            assert_int_equal(splits(), first);
        first = splits();
        expect_ok(bell_scope_end(many));
    }
    expect_ok(bell_read(t.l.w, out_w, COLS * ROWS * sizeof(*out_w)));
    bell_jit_destroy(jit);
    bell_optimizer_destroy(t.opt);
    expect_ok(bell_scope_end(many));
}

static void
test_training_jit(void **state)
{
    float want[STEPS], got[STEPS], want_w[COLS * ROWS], got_w[COLS * ROWS];
    int split;

    (void)state;
    for (split = 0; split < 2; split++) {
        train_jit(split, false, want, want_w);
        train_jit(split, true, got, got_w);
        compare("losses of a jit", false, sizeof(want), (uint8_t *)want,
                (uint8_t *)got);
        compare("weights of a jit", false, sizeof(want_w), (uint8_t *)want_w,
                (uint8_t *)got_w);
    }
}

/* An input in another layout is captured for anew; numbers are fed. */
static void
test_jit_inputs(void **state)
{
    static const int layouts[] = {0, 0, 1, WHOLE, 0};
    static const uint32_t captures[] = {1, 1, 2, 3, 4};
    size_t i, add = 1;
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_jit_desc desc = {sizeof(desc), "add", call_program, &add, 4, 1};
    float want[ROWS * COLS], got[ROWS * COLS];
    struct bell_jit *jit;

    (void)state;
    assert_string_equal(programs[add].name, "add");
    expect_ok(bell_jit_create(many, &desc, &jit));
    for (i = 0; i < ARRAY_LEN(layouts); i++) {
        struct leaves l;
        tensor in[4], out;

        expect_ok(bell_scope_begin(many));
        make_leaves(many, layouts[i], WHOLE, WHOLE, &l);
        expect_ok(bell_read(bell_add(l.x, bell_t(l.w)), want, sizeof(want)));
        l.x = bell_neg(bell_neg(l.x)); /* not realized */
        memcpy(in, &l, sizeof(in));
        expect_ok(bell_jit_call(jit, in, &out));
        expect_axis(out, layouts[i]);
        expect_ok(bell_read(out, got, sizeof(got)));
        assert_memory_equal(want, got, sizeof(want));
        bell_jit_get_info(jit, &info);
        assert_int_equal(info.n_captures, captures[i]);
        expect_ok(bell_scope_end(many));
    }
    bell_jit_destroy(jit);
}

static void
compare_training(const char *axis, bool split, bool adam)
{
    float want[STEPS], got[STEPS], want_w[COLS * ROWS], got_w[COLS * ROWS];

    train(one, NULL, false, adam, want, want_w);
    train(many, axis, split, adam, got, got_w);
    compare("losses", true, sizeof(want), (uint8_t *)want, (uint8_t *)got);
    compare("weights", true, sizeof(want_w), (uint8_t *)want_w,
            (uint8_t *)got_w);
}

static void
test_training(void **state)
{
    (void)state;
    compare_training("data", false, false);
    compare_training("data", false, true);
    if (!is_simulated())
        compare_training("data", true, false);
}

/* ---- what is where ------------------------------------------------------- */

static void
expect_layout(tensor t, int32_t first, int32_t second, uint64_t place_bytes)
{
    struct bell_layout layout = {.struct_size = sizeof(layout)};

    expect_ok(bell_layout_of(t, &layout));
    assert_int_equal(layout.axes[0], first);
    assert_int_equal(layout.axes[1], second);
    assert_int_equal(layout.axes[2], WHOLE);
    assert_int_equal(layout.place_bytes, place_bytes);
}

/* Bytes of a part of an axis of that size, with so many floats for each. */
static uint64_t
part_bytes(uint64_t size, uint64_t inner)
{
    uint64_t n = bell_mesh_places(many);

    return (size + n - 1) / n * inner * sizeof(float);
}

static void
expect_axis(tensor t, int32_t axis)
{
    uint64_t n = bell_mesh_places(many), bytes = bell_nbytes(t), size;

    if (axis != WHOLE) {
        size = (uint64_t)bell_size(t, axis);
        bytes = bytes / size * ((size + n - 1) / n);
    }
    expect_layout(t, axis, WHOLE, bytes);
    expect_ok(bell_realize1(t));
    expect_layout(t, axis, WHOLE, bytes);
}

static void
test_layouts(void **state)
{
    struct leaves l;
    tensor x, sum;

    (void)state;
    if (COLS % bell_mesh_places(many))
        return;
    expect_ok(bell_scope_begin(many));
    make_leaves(many, 0, WHOLE, WHOLE, &l);
    x = l.x;
    expect_axis(l.w, WHOLE);
    expect_axis(x, 0);
    expect_axis(bell_neg(x), 0);
    expect_axis(bell_t(x), 1);
    /* parts of rows are parts of all, where they are equal */
    expect_axis(bell_reshape(x, BELL_DIMS(ROWS * COLS)),
                ROWS % bell_mesh_places(many) ? WHOLE : 0);
    expect_axis(bell_reshape(x, BELL_DIMS(ROWS, 1, 2, COLS / 2)), 0);
    expect_axis(bell_sum(x, BELL_DIMS(1), false), 0);
    expect_axis(bell_cumsum(x, 1), 0);
    expect_axis(bell_cumsum(x, 0), WHOLE);
    expect_axis(bell_narrow(x, 0, 1, 8), WHOLE);
    expect_axis(bell_matmul(x, l.w), 0);
    expect_axis(bell_add(l.x, bell_t(l.w)), 0);
    sum = bell_matmul(bell_t(x), x);
    expect_axis(sum, WHOLE);
    expect_axis(bell_shard(bell_matmul(bell_t(x), x), "data", 1), 1);
    expect_axis(bell_replicate(x, "data"), WHOLE);
    expect_axis(bell_shard(x, "data", -1), 1);
    expect_ok(bell_scope_end(many));
}

/* The last parts are smaller, or empty: what is there instead of elements goes
 * into no sum and to no host. */
static void
test_uneven(void **state)
{
    uint32_t n = bell_mesh_places(many), size, i;
    float values[40], got[40];

    (void)state;
    expect_ok(bell_scope_begin(many));
    for (i = 0; i < ARRAY_LEN(values); i++)
        values[i] = (float)(i % 9) - 7;
    for (size = 1; size <= 2 * n + 3; size++) {
        tensor x = bell_shard(
            bell_from_data(many, BELL_DIMS(2, size), BELL_FLOAT32, values),
            "data", 1);
        tensor y = bell_exp(bell_neg(x)); /* not 0 where there is nothing */
        float sum = 0, least = 100, value;

        expect_layout(y, size == 1 ? WHOLE : 1, WHOLE,
                      size == 1 ? 8 : part_bytes(size, 2));
        y = bell_add_scalar(x, 3);
        expect_ok(bell_realize1(y));
        expect_ok(bell_read(y, got, 2 * size * sizeof(*got)));
        for (i = 0; i < 2 * size; i++) {
            assert_true(got[i] == values[i] + 3);
            sum += got[i];
            least = got[i] < least ? got[i] : least;
        }
        expect_ok(bell_read(bell_sum(y, NULL, 0, false), &value, 4));
        assert_true(value == sum);
        expect_ok(bell_read(bell_min(y, NULL, 0, false), &value, 4));
        assert_true(value == least);
        expect_ok(bell_read(bell_shard(bell_t(y), "data", 0), got,
                            2 * size * sizeof(*got)));
        for (i = 0; i < size; i++)
            assert_true(got[2 * i + 1] == values[size + i] + 3);
    }
    expect_ok(bell_scope_end(many));
}

/* Two that share what is in memory of one shape: (2, 4) by rows and (4, 2) by
 * columns. */
static void
test_shared_memory(void **state)
{
    uint32_t n = bell_mesh_places(many), i;
    float values[4 * BELL_MESH_PLACES], got[2][ARRAY_LEN(values)];
    tensor x, both[2];

    (void)state;
    for (i = 0; i < ARRAY_LEN(values); i++)
        values[i] = (float)i;
    expect_ok(bell_scope_begin(many));
    x = bell_shard(bell_from_data(many, BELL_DIMS(n, 4), BELL_FLOAT32, values),
                   "data", 0);
    both[0] = bell_neg(x);
    both[1] = bell_t(both[0]);
    expect_ok(bell_realize(both, 2));
    expect_ok(bell_read(both[0], got[0], bell_nbytes(x)));
    expect_ok(bell_read(both[1], got[1], bell_nbytes(x)));
    for (i = 0; i < 4 * n; i++) {
        assert_true(got[0][i] == -values[i]);
        assert_true(got[1][i] == -values[i % n * 4 + i / n]);
    }
    expect_ok(bell_scope_end(many));
}

/* Two that are the same at each place, and not the same tensor. */
static void
test_same_parts(void **state)
{
    uint32_t n = bell_mesh_places(many), i;
    float got[4 * BELL_MESH_PLACES];
    tensor both[2];

    (void)state;
    expect_ok(bell_scope_begin(many));
    both[0] =
        bell_shard(bell_ones(many, BELL_DIMS(4 * n), BELL_FLOAT32), "data", 0);
    both[1] = bell_ones(many, BELL_DIMS(4), BELL_FLOAT32);
    expect_ok(bell_realize(both, 2));
    expect_layout(both[0], 0, WHOLE, 16);
    expect_layout(both[1], WHOLE, WHOLE, 16);
    expect_ok(bell_read(both[0], got, bell_nbytes(both[0])));
    for (i = 0; i < 4 * n; i++)
        assert_true(got[i] == 1);
    expect_ok(bell_read(both[1], got, 16));
    expect_ok(bell_scope_end(many));
}

/* A number, an offset and two pads that are one at first. */
static tensor
varied(const struct leaves *l, int at)
{
    static const int64_t pads[2][2] = {{0, 1}, {1, 0}};
    tensor a = bell_pad(l->w, pads[at == 2], 2, 0);
    tensor b = bell_pad(bell_shard(l->w, "data", 0), pads[at > 0], 2, 0);
    tensor c = bell_narrow(l->x, 1, at, 13);

    c = bell_maximum(c, bell_scalar(bell_context_of(l->x), 2 * at));
    c = bell_sum(c, BELL_DIMS(0), true); /* uneven parts have 0 there, too */
    return bell_add(bell_sub(bell_mul_scalar(a, 3), b), c);
}

/* The split is done once for a structure and layouts of leaves, and then used
 * for other numbers, offsets and memory. */
static void
test_known_splits(void **state)
{
    static uint8_t want[MAX_BYTES], got[MAX_BYTES];
    static const int layouts[][2] = {
        {WHOLE, WHOLE}, {0, WHOLE}, {1, 0}, {0, 1}};
    static const int ats[] = {0, 0, 1, 2, 0, 2, 1};
    struct leaves l;
    uint64_t first, n;
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(layouts); i++) {
        for (k = 0; k < ARRAY_LEN(ats); k++) {
            expect_ok(bell_scope_begin(one));
            expect_ok(bell_scope_begin(many));
            make_leaves(one, WHOLE, WHOLE, WHOLE, &l);
            n = read_values(varied(&l, ats[k]), "varied", want);
            make_leaves(many, layouts[i][0], layouts[i][1], WHOLE, &l);
            first = splits();
            assert_int_equal(read_values(varied(&l, ats[k]), "varied", got), n);
            compare("varied", false, n, want, got);
            if (k == 1)
                assert_int_equal(splits(), first);
            expect_ok(bell_scope_end(many));
            expect_ok(bell_scope_end(one));
        }
    }
    /* a training step splits nothing from its second time on */
    train(many, "data", true, true, (float *)(void *)got,
          (float *)(void *)want);
    first = splits();
    train(many, "data", true, true, (float *)(void *)got,
          (float *)(void *)want);
    assert_int_equal(splits(), first);
    /* nor do a number and an offset that nothing else is */
    make_leaves(many, 0, WHOLE, WHOLE, &l);
    for (i = 0; i < 4; i++) {
        tensor y = bell_mul_scalar(bell_narrow(l.x, 1, (int64_t)i + 1, 5),
                                   (double)i + 5);

        read_values(y, "loop", got);
        if (i == 0)
            first = splits();
        assert_int_equal(splits(), first);
    }
}

/* Everything of train() on a mesh of two axes: the batch along one, the
 * parameters along the other. */
static void
test_two_axes(void **state)
{
    static const char *const names[] = {"data", "model"};
    float want[COLS * ROWS], got[COLS * ROWS];
    struct leaves l;
    tensor y;

    (void)state;
    if (bell_mesh_places(many) != 4)
        return;
    expect_ok(bell_mesh_set(many, BELL_DIMS(2, 2), names));
    expect_ok(bell_scope_begin(one));
    expect_ok(bell_scope_begin(many));
    make_leaves(one, WHOLE, WHOLE, WHOLE, &l);
    y = bell_matmul(bell_t(l.x), bell_relu(bell_matmul(l.x, l.w)));
    expect_ok(bell_read(y, want, sizeof(want)));
    make_leaves(many, 0, WHOLE, WHOLE, &l);
    l.x = bell_shard(l.x, "model", 1);
    expect_layout(l.x, 0, 1, ROWS * COLS);
    l.w = bell_shard(l.w, "model", 0);
    expect_ok(bell_realize1(l.x));
    y = bell_matmul(l.x, l.w);
    expect_layout(y, 0, WHOLE, ROWS * ROWS * 2);
    y = bell_matmul(bell_t(l.x), bell_relu(y));
    expect_layout(y, WHOLE, 0, ROWS * COLS * 2);
    expect_ok(bell_read(y, got, sizeof(got)));
    compare("two axes", false, sizeof(want), (uint8_t *)want, (uint8_t *)got);
    /* parts of parts: along the other axis first */
    y = bell_shard(bell_shard(l.x, "model", 0), "data", 1);
    expect_layout(y, 1, 0, ROWS * COLS);
    expect_ok(bell_read(bell_neg(y), got, ROWS * COLS * sizeof(*got)));
    expect_ok(bell_read(bell_neg(l.x), want, ROWS * COLS * sizeof(*got)));
    compare("two axes turned", false, sizeof(want), (uint8_t *)want,
            (uint8_t *)got);
    /* an axis that both would split is the second one's */
    y = bell_shard(l.x, "model", 0);
    expect_layout(y, WHOLE, 0, ROWS * COLS * 2);
    /* terms of a sum go to places along the first axis, of which the second one
     * has split the same axis */
    y = bell_sum(l.x, BELL_DIMS(0), false);
    expect_ok(bell_read(bell_neg(y), want, COLS * sizeof(*want)));
    y = bell_shard(y, "data", 0);
    expect_layout(y, 0, WHOLE, COLS * 2);
    expect_ok(bell_read(bell_neg(y), got, COLS * sizeof(*got)));
    compare("terms of parts", true, COLS * sizeof(*want), (uint8_t *)want,
            (uint8_t *)got);
    /* from the host, the inner axis along the first one, of unequal parts */
    y = bell_from_data(many, BELL_DIMS(5, 7), BELL_FLOAT32, want);
    expect_ok(
        bell_realize1(y = bell_shard(bell_shard(y, "data", 1), "model", 0)));
    expect_layout(y, 1, 0, 3 * 4 * sizeof(*got));
    expect_ok(bell_read(y, got, 5 * 7 * sizeof(*got)));
    assert_memory_equal(want, got, 5 * 7 * sizeof(*got));
    expect_ok(bell_scope_end(many));
    expect_ok(bell_scope_end(one));
}

/* ---- memory -------------------------------------------------------------- */

static uint32_t n_released;

static void
release(void *user)
{
    (void)user;
    n_released++;
}

static void
test_memory(void **state)
{
    static _Alignas(64) float data[ROWS * COLS];
    float got[ROWS * COLS];
    struct leaves l;
    tensor t;
    int i;

    (void)state;
    for (i = 0; i < ROWS * COLS; i++)
        data[i] = (float)i;
    expect_ok(bell_scope_begin(many));
    n_released = 0;
    t = bell_from_blob(many, BELL_DIMS(ROWS, COLS), BELL_FLOAT32, data, release,
                       NULL);
    t = bell_mul_scalar(bell_shard(t, "data", 0), 2);
    expect_ok(bell_read(t, got, sizeof(got)));
    for (i = 0; i < ROWS * COLS; i++)
        assert_true(got[i] == 2 * (float)i);
    /* values that are written, to all of it and to a part */
    expect_ok(bell_write(t, data, sizeof(data)));
    expect_layout(t, WHOLE, WHOLE, sizeof(data));
    make_leaves(many, 1, WHOLE, WHOLE, &l);
    l.b = bell_alias(l.x); /* which keeps the value */
    bell_assign_slice(
        l.x, BELL_DIMS(2, 0),
        bell_from_data(many, BELL_DIMS(1, COLS), BELL_FLOAT32, data));
    expect_ok(bell_read(l.x, got, sizeof(got)));
    for (i = 0; i < COLS; i++)
        assert_true(got[2 * COLS + i] == (float)i);
    expect_layout(l.x, 1, WHOLE, part_bytes(COLS, ROWS));
    assert_true(got[3 * COLS] ==
                (float)((3 * COLS * 7 + 5 + 3 * COLS / 5) % 11 - 5));
    expect_ok(bell_scope_end(many));
    assert_int_equal(bell_context_status(many), BELL_OK);
}

static uint64_t
written(void)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(many, &stats);
    return stats.written_bytes;
}

/* The host writes to each place what it has: of a tensor that only bell_shard
 * uses a part. */
static void
test_written(void **state)
{
    uint64_t n = bell_mesh_places(many), first;
    float got[COLS * ROWS], want[COLS * ROWS];
    tensor x, y, w, grad;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) { /* the second time its split is known */
        expect_ok(bell_scope_begin(many));
        first = written();
        x = numbers(many, ROWS, COLS, 1);
        assert_int_equal(written(), first);
        y = bell_shard(x, "data", 0);
        expect_layout(y, 0, WHOLE, part_bytes(ROWS, COLS));
        assert_int_equal(written(), first);
        expect_ok(bell_realize1(y));
        expect_layout(y, 0, WHOLE, part_bytes(ROWS, COLS));
        assert_int_equal(written() - first, n * part_bytes(ROWS, COLS));
        /* once, whoever asks for that layout */
        expect_ok(
            bell_read(bell_neg(bell_shard(x, "data", 0)), got, sizeof(got)));
        assert_int_equal(written() - first, n * part_bytes(ROWS, COLS));
        /* what is made of it is not what x becomes */
        bell_assign_slice(y, BELL_DIMS(0, 1),
                          bell_ones(many, BELL_DIMS(ROWS, 2), BELL_FLOAT32));
        expect_ok(bell_read(bell_shard(x, "data", 0), want, sizeof(want)));
        expect_ok(bell_read(x, got, sizeof(got)));
        assert_memory_equal(want, got, sizeof(got));
        assert_int_equal(written() - first,
                         n * (part_bytes(ROWS, COLS) + sizeof(got)));
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_true(got[2] == 1 && got[3] == want[3] && got[0] == want[0]);
        /* one leaf of a place that is two of the graph, and then another */
        x = numbers(many, ROWS, COLS, 1);
        w = y = bell_shard(x, "data", 0);
        expect_ok(bell_realize1(y));
        y = bell_sub(bell_shard(x, "data", 0), i ? bell_neg(y) : y);
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_true(got[5] == (i ? 2 * want[5] : 0));
        w = bell_add_scalar(w, 3);
        expect_ok(bell_realize1(w));
        y = bell_sub(bell_shard(x, "data", 0), i ? bell_neg(w) : w);
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_true(got[5] == (i ? 2 * want[5] + 3 : -3));
        /* whole and parts in one graph, and the gradient through it */
        first = written();
        w = bell_requires_grad(numbers(many, ROWS, COLS, 2), true);
        y = bell_mul(bell_shard(w, "data", 1), bell_add_scalar(w, 1));
        expect_ok(bell_backward(bell_sum(y, NULL, 0, false)));
        grad = bell_grad(w);
        expect_ok(bell_read(grad, got, sizeof(got)));
        expect_ok(bell_read(w, want, sizeof(want)));
        assert_true(got[5] == 2 * want[5] + 1);
        assert_int_equal(written() - first,
                         n * (part_bytes(COLS, ROWS) + sizeof(got)));
        expect_ok(bell_scope_end(many));
    }
}

/* To a context of one device and back. */
static void
test_to_others(void **state)
{
    float want[ROWS * COLS], got[ROWS * COLS];
    struct leaves l;
    tensor t;

    (void)state;
    expect_ok(bell_scope_begin(one));
    expect_ok(bell_scope_begin(many));
    make_leaves(many, 1, WHOLE, WHOLE, &l);
    expect_ok(bell_read(l.x, want, sizeof(want)));
    t = bell_to(bell_to(bell_neg(bell_neg(l.x)), one), many);
    expect_ok(bell_read(t, got, sizeof(got)));
    assert_memory_equal(want, got, sizeof(want));
    expect_ok(bell_scope_end(many));
    expect_ok(bell_scope_end(one));
}

/* ---- what is refused ----------------------------------------------------- */

static bell_status
no_step(struct bell_context *c, void *user, tensor const *in, tensor *out)
{
    (void)c;
    (void)user;
    (void)in;
    (void)out;
    return BELL_OK;
}

static void
expect_bad(tensor t, const char *part)
{
    bell_status status = bell_context_status(many);

    assert_ptr_equal(t, bell_error_tensor(many));
    if (status == BELL_OK || !strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

static void
test_refused(void **state)
{
    static const char *const names[] = {"data", "model", "data"};
    const char *too_long[] = {"a name that is longer than names may be"};
    struct bell_jit_desc desc = {sizeof(desc), "step", no_step, NULL, 0, 0};
    int64_t n = bell_mesh_places(many);
    struct bell_layout small = {.struct_size = 4};
    static const float item[2];
    struct bell_loader_field field = {BELL_FLOAT32, 1, {1}, item};
    struct bell_loader_desc loads = {.struct_size = sizeof(loads),
                                     .n_items = 2,
                                     .n_batch = 1,
                                     .fields = &field,
                                     .n_fields = 1};
    struct bell_loader *loader;
    struct bell_jit_save_desc save = {.struct_size = sizeof(save)};
    struct bell_jit *jit;
    struct leaves l;
    tensor x;

    (void)state;
    expect_fails(bell_mesh_set(many, BELL_DIMS(n + 1), names), BELL_E_INVALID,
                 "places; the context has");
    expect_fails(bell_mesh_set(many, BELL_DIMS(1, n, 1), names), BELL_E_INVALID,
                 "axes 0 and 2 are both 'data'");
    expect_fails(bell_mesh_set(many, BELL_DIMS(n), too_long), BELL_E_INVALID,
                 "is not of 1 to 31 bytes");
    expect_fails(bell_mesh_set(many, NULL, 0, names), BELL_E_INVALID, "NULL");
    expect_ok(bell_mesh_set(many, BELL_DIMS(1, n), names));
    expect_ok(bell_mesh_set(one, BELL_DIMS(1, 1), names));
    expect_ok(bell_scope_begin(many));
    make_leaves(many, WHOLE, WHOLE, WHOLE, &l);
    expect_bad(bell_shard(l.x, "stage", 0),
               "no axis 'stage'; it has 'data', 'model'");
    expect_bad(bell_shard(l.x, NULL, 0), "is NULL");
    expect_bad(bell_shard(l.x, "model", 2), "axis 2");
    expect_bad(bell_shard(bell_scalar(many, 1), "model", 0), "no axis");
    x = bell_shard(l.x, "model", 0);
    expect_fails(bell_mesh_set(many, BELL_DIMS(n), names), BELL_E_INVALID,
                 "has a layout");
    expect_fails(bell_layout_of(x, &small), BELL_E_INVALID, "struct_size");
    expect_fails(bell_layout_of(x, NULL), BELL_E_INVALID, "NULL");
    expect_bad(
        bell_assign_slice(x, BELL_DIMS(1, 0),
                          bell_ones(many, BELL_DIMS(2, COLS), BELL_FLOAT32)),
        "split along an axis of the part");
    expect_ok(bell_jit_create(many, &desc, &jit));
    expect_fails(bell_jit_save(jit, &l.x, &save, "/tmp/no-such-bundle"),
                 BELL_E_UNSUPPORTED, "a bundle is for one device");
    bell_jit_destroy(jit);
    expect_fails(bell_loader_create(many, &loads, &loader), BELL_E_UNSUPPORTED,
                 "loaders are for one device");
    expect_ok(bell_scope_end(many));
}

/* For the whole context, from then on. */
static void
test_symbols(void **state)
{
    struct bell_dim n;
    struct leaves l;

    (void)state;
    expect_ok(bell_scope_begin(many));
    make_leaves(many, WHOLE, WHOLE, WHOLE, &l);
    n = bell_symbol(many, "n", 1, ROWS);
    (void)n;
    expect_fails(bell_realize1(bell_neg(l.x)), BELL_E_UNSUPPORTED,
                 "sizes of symbols are for one device");
    expect_ok(bell_scope_end(many));
}

static void
test_search(void **state)
{
    struct bell_context *c;

    (void)state;
    setenv("BELL_BEAM", "2", 1);
    expect_fails(bell_context_create(many_name, &c), BELL_E_UNSUPPORTED,
                 "a search for schedules is for one device");
    unsetenv("BELL_BEAM");
}

/* ---- memory that is at an end -------------------------------------------- */

static bell_status
sum_once(double *out_sum)
{
    struct bell_context *c;
    bell_status status;
    tensor x;

    BELL_TRY(bell_context_create(many_name, &c));
    x = bell_shard(numbers(c, ROWS, COLS, 1), "data", 0);
    x = bell_sum(bell_mul(x, bell_sum(x, BELL_DIMS(0), true)), NULL, 0, false);
    status = bell_item_f64(x, out_sum);
    if (status == BELL_E_NO_MEMORY) { /* the context goes on */
        host_fail_after(0, 0);
        status = bell_item_f64(bell_neg(bell_ones(c, BELL_DIMS(2, 3, 1, 1),
                                                  BELL_FLOAT32)),
                               out_sum) == BELL_E_INVALID
                     ? BELL_E_NO_MEMORY
                     : BELL_E_INTERNAL;
    }
    bell_context_destroy(c);
    return status;
}

/* Each allocation fails in turn, or a part of them: what follows is an error
 * that says so, or nothing. */
static void
test_no_memory(void **state)
{
    uint64_t nth, step = IS_SANITIZED ? 331 : 37;
    bell_status status = BELL_E_NO_MEMORY;
    double want, sum = 0;
    int n_good = 0;

    (void)state;
    if (is_simulated())
        return;
    expect_ok(sum_once(&want));
    for (nth = 1; n_good < 3; nth += step) {
        host_fail_after(nth, 1);
        status = sum_once(&sum);
        host_fail_after(0, 0);
        if (status != BELL_OK && status != BELL_E_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)nth,
                     bell_error_last()->message);
        assert_true(status != BELL_OK || sum == want);
        n_good = status == BELL_OK ? n_good + 1 : 0;
    }
}

/* Names of devices: what is a list, and what fails of it. */
static void
test_names(void **state)
{
    struct bell_context *c;
    char mixed[64];

    (void)state;
    assert_string_equal(bell_context_device(many), many_name);
    assert_int_equal(bell_mesh_places(one), 1);
    expect_fails(bell_context_create("CPU:0,CPU:1,NOPE:0", &c),
                 BELL_E_NO_DEVICE, "NOPE");
    expect_fails(bell_context_create("NOPE:*", &c), BELL_E_NO_DEVICE, "NOPE");
    assert_int_equal(bell_mesh_places(NULL), 0);
    if (is_simulated()) {
        snprintf(mixed, sizeof(mixed), "%s,CPU:0", one_name);
        expect_fails(bell_context_create(mixed, &c), BELL_E_UNSUPPORTED,
                     "the devices of one context are of one chip");
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_programs, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_training, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_jits, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_training_jit, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(test_jit_inputs, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_layouts, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_uneven, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_shared_memory, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(test_same_parts, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_known_splits, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(test_two_axes, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_memory, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_written, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_to_others, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_refused, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_symbols, open_both, close_both),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test_setup_teardown(test_names, open_both, close_both),
    };

    if (argc != 3) {
        fprintf(stderr, "usage: test_mesh DEVICE DEVICES\n");
        return 2;
    }
    one_name = argv[1];
    many_name = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
