/* Optimisers step by step against PyTorch's (torch_optim.h), and those that it
 * does not have, or has in fewer bits, against loops; groups, schedules,
 * clipping, loss scaling, accumulation, states, and the same in a jit. */
#include <stdlib.h>

#include "base/bits.h"
#include "doorbell/jit.h"
#include "doorbell/optim.h"
#include "tests/unit/tensor_host.h"
#include "tests/unit/torch_optim.h"

#ifndef HAVE_RUNTIME
#define HAVE_RUNTIME 0 /* the reference evaluator, which knows no jit */
#endif

#define N_STEPS 6

static const double matrix[6] = {0.5, -1, 2, 0.25, -0.75, 1.5};
static const double vector[4] = {1, -2, 0.125, 0.6};

/* A training: parameters, optimiser, and how many steps were done. */
struct trial {
    struct bell_tensor *a, *b;
    struct bell_optimizer *opt;
    int step;
};

static struct bell_tensor *
make_param(const double *values, const int64_t *shape, uint32_t ndim,
           enum bell_dtype dtype)
{
    struct bell_tensor *t = bell_cast(tensor_of(values, shape, ndim), dtype);

    return bell_keep_forever(bell_requires_grad(t, true));
}

static void
make_params(struct trial *t, enum bell_dtype dtype)
{
    memset(t, 0, sizeof(*t));
    t->a = make_param(matrix, BELL_DIMS(3, 2), dtype);
    t->b = make_param(vector, BELL_DIMS(4), dtype);
}

static void
free_trial(struct trial *t)
{
    bell_optimizer_destroy(t->opt);
    bell_tensor_release(t->a);
    bell_tensor_release(t->b);
}

static struct bell_tensor *
loss_of(const struct trial *t, struct bell_tensor *factor)
{
    struct bell_tensor *w = T(V(1, 2, 3, 4, 5, 6), 3, 2), *x, *y;

    w = bell_cast(w, bell_dtype_of(t->a));
    x = bell_sum(bell_mul(bell_cos(t->a), w), BELL_NO_DIMS, false);
    y = bell_sum(bell_sin(t->b), BELL_NO_DIMS, false);
    return bell_add(x, bell_mul(y, factor));
}

static void
take_step(struct trial *t)
{
    struct bell_tensor *loss;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    loss = loss_of(t, bell_scalar(ctx, ++t->step));
    bell_optimizer_zero_grad(t->opt);
    assert_int_equal(bell_backward(bell_optimizer_scale(t->opt, loss)),
                     BELL_OK);
    if (bell_optimizer_step(t->opt, &loss, 1) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

static void
expect_params(const char *name, const struct trial *t, const double *want,
              double eps)
{
    double got[10];
    int i;

    assert_int_equal(bell_read_f64(t->a, got, 6), BELL_OK);
    assert_int_equal(bell_read_f64(t->b, got + 6, 4), BELL_OK);
    for (i = 0; i < 10; i++) {
        if (!(fabs(got[i] - want[i]) <= eps * (1 + fabs(want[i]))))
            fail_msg("%s, step %d, element %d: %.17g, not %.17g", name, t->step,
                     i, got[i], want[i]);
    }
}

/* ---- PyTorch's ---- */

static const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd),
                                            .lr = 0.05,
                                            .momentum = 0.9,
                                            .nesterov = true,
                                            .weight_decay = 0.01};
static const struct bell_adam_options adamw = {
    .struct_size = sizeof(adamw), .lr = 0.1, .weight_decay = 0.05};

static bell_status
make_sgd(const struct trial *t, struct bell_optimizer **out)
{
    return bell_sgd_create(BELL_TENSORS(t->a, t->b), &sgd, out);
}

static bell_status
make_dampened(const struct trial *t, struct bell_optimizer **out)
{
    static const struct bell_sgd_options options = {.struct_size =
                                                        sizeof(options),
                                                    .lr = 0.05,
                                                    .momentum = 0.8,
                                                    .dampening = 0.3};

    return bell_sgd_create(BELL_TENSORS(t->a, t->b), &options, out);
}

static bell_status
make_adam(const struct trial *t, struct bell_optimizer **out)
{
    static const struct bell_adam_options options = {.struct_size =
                                                         sizeof(options),
                                                     .lr = 0.1,
                                                     .beta1 = 0.8,
                                                     .beta2 = 0.95,
                                                     .eps = 1e-3,
                                                     .weight_decay = 0.02};

    return bell_adam_create(BELL_TENSORS(t->a, t->b), &options, out);
}

static bell_status
make_adamw(const struct trial *t, struct bell_optimizer **out)
{
    return bell_adamw_create(BELL_TENSORS(t->a, t->b), &adamw, out);
}

static bell_status
make_rmsprop(const struct trial *t, struct bell_optimizer **out)
{
    static const struct bell_rmsprop_options options = {.struct_size =
                                                            sizeof(options),
                                                        .lr = 0.01,
                                                        .alpha = 0.9,
                                                        .eps = 1e-3,
                                                        .weight_decay = 0.03,
                                                        .momentum = 0.5,
                                                        .centered = true};

    return bell_rmsprop_create(BELL_TENSORS(t->a, t->b), &options, out);
}

static bell_status
make_adagrad(const struct trial *t, struct bell_optimizer **out)
{
    static const struct bell_adagrad_options options = {.struct_size =
                                                            sizeof(options),
                                                        .lr = 0.1,
                                                        .lr_decay = 0.2,
                                                        .weight_decay = 0.01,
                                                        .initial_value = 0.3};

    return bell_adagrad_create(BELL_TENSORS(t->a, t->b), &options, out);
}

static bell_status
make_groups(const struct trial *t, struct bell_optimizer **out)
{
    static const struct bell_group_options options = {
        .struct_size = sizeof(options), .lr = 0.02, .weight_decay = 0.5};
    bell_status status = bell_adamw_create(&t->a, 1, &adamw, out);

    if (status != BELL_OK)
        return status;
    return bell_optimizer_add_group(*out, &t->b, 1, &options);
}

static bell_status
make_clipped(const struct trial *t, struct bell_optimizer **out)
{
    bell_status status = make_sgd(t, out);

    return status != BELL_OK ? status : bell_optimizer_set_clip(*out, 1.5, 0);
}

static bell_status
make_cut(const struct trial *t, struct bell_optimizer **out)
{
    bell_status status = make_sgd(t, out);

    return status != BELL_OK ? status : bell_optimizer_set_clip(*out, 0, 0.7);
}

static bell_status
make_scheduled(const struct trial *t, const struct bell_schedule *schedule,
               struct bell_optimizer **out)
{
    bell_status status = make_sgd(t, out);

    return status != BELL_OK ? status
                             : bell_optimizer_set_schedule(*out, schedule);
}

static bell_status
make_step(const struct trial *t, struct bell_optimizer **out)
{
    const struct bell_schedule schedule = {.struct_size = sizeof(schedule),
                                           .kind = BELL_SCHEDULE_STEP,
                                           .n_steps = 2,
                                           .gamma = 0.5};

    return make_scheduled(t, &schedule, out);
}

static bell_status
make_cosine(const struct trial *t, struct bell_optimizer **out)
{
    const struct bell_schedule schedule = {.struct_size = sizeof(schedule),
                                           .kind = BELL_SCHEDULE_COSINE,
                                           .n_steps = 5,
                                           .low = 0.1};

    return make_scheduled(t, &schedule, out);
}

static bell_status
make_one_cycle(const struct trial *t, struct bell_optimizer **out)
{
    const struct bell_schedule schedule = {.struct_size = sizeof(schedule),
                                           .kind = BELL_SCHEDULE_ONE_CYCLE,
                                           .n_steps = 8};

    return make_scheduled(t, &schedule, out);
}

static bell_status
make_warm_up(const struct trial *t, struct bell_optimizer **out)
{
    const struct bell_schedule schedule = {.struct_size = sizeof(schedule),
                                           .kind = BELL_SCHEDULE_COSINE,
                                           .n_steps = 3,
                                           .low = 0.1,
                                           .n_warmup = 3,
                                           .warmup_from = 0.1};

    return make_scheduled(t, &schedule, out);
}

static const struct kind_row {
    const char *name;
    bell_status (*make)(const struct trial *t, struct bell_optimizer **out);
} kinds[] = {
    {"sgd", make_sgd},         {"sgd_dampened", make_dampened},
    {"adam", make_adam},       {"adamw", make_adamw},
    {"rmsprop", make_rmsprop}, {"adagrad", make_adagrad},
    {"groups", make_groups},   {"clip_norm", make_clipped},
    {"clip_value", make_cut},  {"step", make_step},
    {"cosine", make_cosine},   {"one_cycle", make_one_cycle},
    {"warm_up", make_warm_up},
};

static const double *
find_values(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(torch_rows); i++) {
        if (strcmp(torch_rows[i].name, name) == 0)
            return torch_rows[i].values;
    }
    fail_msg("torch_optim.h has no %s", name);
    return NULL;
}

/* With a scaler, too, which divides by what it multiplies with: powers of 2. */
static void
check_kind(const struct kind_row *kind, enum bell_dtype dtype, bool is_scaled,
           double eps)
{
    const double *want = find_values(kind->name);
    struct trial t;

    make_params(&t, dtype);
    if (kind->make(&t, &t.opt) != BELL_OK)
        fail_msg("%s: %s", kind->name, bell_error_last()->message);
    if (is_scaled)
        assert_int_equal(bell_optimizer_set_scaler(t.opt, NULL), BELL_OK);
    while (t.step < N_STEPS) {
        take_step(&t);
        if (t.step == 1)
            expect_params(kind->name, &t, want, eps);
    }
    expect_params(kind->name, &t, want + 10, eps);
    free_trial(&t);
}

static void
test_torch(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        check_kind(&kinds[i], BELL_FLOAT64, false, 1e-12);
        check_kind(&kinds[i], BELL_FLOAT64, true, 1e-12);
        check_kind(&kinds[i], BELL_FLOAT32, false, 3e-5);
    }
}

/* ---- loops ---- */

/* A tensor's values, gradient and states in plain C. */
struct plain {
    double p[6], g[6], m[6], v[6];
    int n, t;
};

static double
plain_norm(const double *x, int n)
{
    double sum = 0;
    int i;

    for (i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void
lamb_formula(struct plain *x)
{
    double r[6], ratio;
    int i;

    for (i = 0; i < x->n; i++) {
        x->m[i] = 0.9 * x->m[i] + 0.1 * x->g[i];
        x->v[i] = 0.99 * x->v[i] + 0.01 * x->g[i] * x->g[i];
        r[i] = x->m[i] / (1 - pow(0.9, x->t)) /
                   (sqrt(x->v[i] / (1 - pow(0.99, x->t))) + 1e-6) +
               0.1 * x->p[i];
    }
    ratio = plain_norm(x->p, x->n) / plain_norm(r, x->n);
    for (i = 0; i < x->n; i++)
        x->p[i] -= 0.05 * ratio * r[i];
}

static void
lars_formula(struct plain *x)
{
    double p = plain_norm(x->p, x->n), g = plain_norm(x->g, x->n);
    double q = 0.02 * p / (g + 0.1 * p + 1e-8);
    int i;

    for (i = 0; i < x->n; i++) {
        x->m[i] = 0.9 * x->m[i] + 0.05 * q * (x->g[i] + 0.1 * x->p[i]);
        x->p[i] -= x->m[i];
    }
}

/* On the matrix' transpose, 2x3. */
static void
muon_formula(struct plain *x)
{
    double u[2][3], gram[2][2], next[2][2], fresh[2][3], norm;
    int i, j, k, n;

    for (i = 0; i < 6; i++) {
        x->m[i] = 0.9 * x->m[i] + 0.1 * x->g[i];
        u[i % 2][i / 2] = 0.1 * x->g[i] + 0.9 * x->m[i];
    }
    norm = plain_norm(&u[0][0], 6);
    for (i = 0; i < 6; i++)
        u[i / 3][i % 3] /= norm;
    for (n = 0; n < 5; n++) {
        for (i = 0; i < 4; i++) {
            double *to = &gram[i / 2][i % 2];
            for (*to = 0, k = 0; k < 3; k++)
                *to += u[i / 2][k] * u[i % 2][k];
        }
        for (i = 0; i < 4; i++) {
            double *to = &next[i / 2][i % 2];
            *to = -4.775 * gram[i / 2][i % 2];
            for (k = 0; k < 2; k++)
                *to += 2.0315 * gram[i / 2][k] * gram[k][i % 2];
        }
        for (i = 0; i < 2; i++) {
            for (j = 0; j < 3; j++) {
                fresh[i][j] = 3.4445 * u[i][j];
                for (k = 0; k < 2; k++)
                    fresh[i][j] += next[i][k] * u[k][j];
            }
        }
        memcpy(u, fresh, sizeof(u));
    }
    for (i = 0; i < 6; i++)
        x->p[i] =
            (1 - 0.02 * 0.1) * x->p[i] - 0.02 * sqrt(1.5) * u[i % 2][i / 2];
}

static void
fill_grads(struct plain *x, bool is_matrix, int step)
{
    int i;

    x->t = step;
    for (i = 0; i < x->n; i++)
        x->g[i] = is_matrix ? -sin(x->p[i]) * (i + 1) : cos(x->p[i]) * step;
}

static void
check_loops(const char *name, struct trial *t, void (*formula)(struct plain *),
            bool with_b, double eps)
{
    struct plain a = {.n = 6}, b = {.n = 4};
    double want[10];

    memcpy(a.p, matrix, sizeof(matrix));
    memcpy(b.p, vector, sizeof(vector));
    while (t->step < N_STEPS) {
        take_step(t);
        fill_grads(&a, true, t->step);
        fill_grads(&b, false, t->step);
        formula(&a);
        if (with_b)
            formula(&b);
        memcpy(want, a.p, sizeof(a.p));
        memcpy(want + 6, b.p, 4 * sizeof(double));
        expect_params(name, t, want, eps);
    }
    free_trial(t);
}

static void
test_loops(void **state)
{
    const struct bell_adam_options lamb = {.struct_size = sizeof(lamb),
                                           .lr = 0.05,
                                           .beta2 = 0.99,
                                           .weight_decay = 0.1};
    const struct bell_lars_options lars = {.struct_size = sizeof(lars),
                                           .lr = 0.05,
                                           .momentum = 0.9,
                                           .weight_decay = 0.1,
                                           .trust = 0.02};
    const struct bell_muon_options muon = {.struct_size = sizeof(muon),
                                           .lr = 0.02,
                                           .momentum = 0.9,
                                           .weight_decay = 0.1};
    struct trial t;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        enum bell_dtype dtype = i ? BELL_FLOAT32 : BELL_FLOAT64;
        double eps = i ? 3e-5 : 1e-11;

        make_params(&t, dtype);
        assert_int_equal(
            bell_lamb_create(BELL_TENSORS(t.a, t.b), &lamb, &t.opt), BELL_OK);
        check_loops("lamb", &t, lamb_formula, true, eps);
        make_params(&t, dtype);
        assert_int_equal(
            bell_lars_create(BELL_TENSORS(t.a, t.b), &lars, &t.opt), BELL_OK);
        check_loops("lars", &t, lars_formula, true, eps);
        make_params(&t, dtype);
        assert_int_equal(bell_muon_create(&t.a, 1, &muon, &t.opt), BELL_OK);
        check_loops("muon", &t, muon_formula, false, eps * 10);
    }
}

/* ---- what else ---- */

/* The gradients of a step overflow. */
static void
take_bad_step(struct trial *t)
{
    struct bell_tensor *loss;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    loss = loss_of(t, bell_scalar(ctx, (double)INFINITY));
    bell_optimizer_zero_grad(t->opt);
    assert_int_equal(bell_backward(bell_optimizer_scale(t->opt, loss)),
                     BELL_OK);
    assert_int_equal(bell_optimizer_step(t->opt, NULL, 0), BELL_OK);
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
}

/* Such a step moves nothing and counts as none: after it a training goes on as
 * one without it. The scale falls, and rises again after two good steps. */
static void
test_scaler(void **state)
{
    static const double scales[N_STEPS] = {1024, 2048, 1024, 1024, 2048, 1024};
    const struct bell_scaler_options options = {
        .struct_size = sizeof(options), .scale = 1024, .interval = 2};
    struct bell_state list = {0};
    struct trial t, plain;
    double want[10];
    uint32_t n_bad = 0;

    (void)state;
    make_params(&t, BELL_FLOAT32);
    make_params(&plain, BELL_FLOAT32);
    assert_int_equal(make_adam(&t, &t.opt), BELL_OK);
    assert_int_equal(make_adam(&plain, &plain.opt), BELL_OK);
    assert_int_equal(bell_optimizer_set_scaler(t.opt, &options), BELL_OK);
    EXPECT_STATUS(bell_optimizer_set_scaler(t.opt, NULL),
                  "bell_optimizer_set_scaler: it has one already");
    assert_int_equal(bell_optimizer_state(t.opt, NULL, NULL, &list), BELL_OK);
    while (t.step + (int)n_bad < N_STEPS) {
        int i = t.step + (int)n_bad;

        if (i == 2 || i == 5) {
            take_bad_step(&t);
            n_bad++;
        } else {
            take_step(&t);
            take_step(&plain);
        }
        assert_int_equal(bell_read_f64(plain.a, want, 6), BELL_OK);
        assert_int_equal(bell_read_f64(plain.b, want + 6, 4), BELL_OK);
        expect_params("scaled", &t, want, 1e-6);
        EXPECT(bell_state_find(&list, "scaler.scale")->tensor, scales[i]);
        EXPECT(bell_state_find(&list, "scaler.skipped")->tensor, n_bad);
    }
    EXPECT(bell_state_find(&list, "scaler.good_steps")->tensor, 0);
    bell_state_fini(&list);
    free_trial(&t);
    free_trial(&plain);
}

static void
test_rates(void **state)
{
    const struct bell_schedule cosine = {.struct_size = sizeof(cosine),
                                         .kind = BELL_SCHEDULE_COSINE,
                                         .n_steps = 4};
    struct bell_schedule bad = {.struct_size = sizeof(bad),
                                .kind = BELL_SCHEDULE_STEP};
    double before[6];
    struct trial t;

    (void)state;
    make_params(&t, BELL_FLOAT64);
    assert_int_equal(bell_adam_create(BELL_TENSORS(t.a),
                                      &BELL_OPTIONS(bell_adam_options, .lr = 0),
                                      &t.opt),
                     BELL_OK);
    assert_true(bell_optimizer_lr(t.opt) == 0);
    assert_int_equal(bell_read_f64(t.a, before, 6), BELL_OK);
    take_step(&t); /* a rate of 0 is 0 */
    EXPECT(t.a, before[0], before[1], before[2], before[3], before[4],
           before[5]);
    assert_int_equal(
        bell_optimizer_add_group(t.opt, &t.b, 1,
                                 &BELL_OPTIONS(bell_group_options, .lr = 0.5)),
        BELL_OK);
    bell_optimizer_set_group_lr(t.opt, 1, 0.25);
    bell_optimizer_set_group_lr(t.opt, 2, 9);
    assert_true(bell_optimizer_next_lr(t.opt, 1) == 0.25);
    assert_true(isnan(bell_optimizer_next_lr(t.opt, 2)));
    bell_optimizer_set_lr(t.opt, 2);
    assert_int_equal(bell_optimizer_set_schedule(t.opt, &cosine), BELL_OK);
    take_step(&t);
    assert_true(fabs(bell_optimizer_next_lr(t.opt, 1) - 1) < 1e-15);
    take_step(&t);
    take_step(&t);
    assert_true(bell_optimizer_next_lr(t.opt, 0) == 0);
    assert_int_equal(bell_optimizer_set_schedule(t.opt, NULL), BELL_OK);
    assert_true(bell_optimizer_next_lr(t.opt, 0) == 2);
    EXPECT_STATUS(bell_optimizer_set_schedule(t.opt, &bad),
                  "bell_optimizer_set_schedule: 0 steps, 0 of warm-up; "
                  "expected 1 or more, and 0 or more");
    bad = BELL_OPTIONS(bell_schedule, .kind = (enum bell_schedule_kind)9);
    EXPECT_STATUS(bell_optimizer_set_schedule(t.opt, &bad),
                  "bell_optimizer_set_schedule: kind 9 is not an enum "
                  "bell_schedule_kind");
    EXPECT_STATUS(bell_optimizer_set_clip(t.opt, -1, 0),
                  "bell_optimizer_set_clip: max_norm is -1; expected 0 or "
                  "more, and less than inf");
    EXPECT_STATUS(bell_optimizer_add_group(
                      t.opt, &t.b, 1,
                      &(struct bell_group_options){
                          .struct_size = sizeof(struct bell_group_options)}),
                  "bell_optimizer_add_group: parameter 0 is there twice");
    free_trial(&t);
}

/* Two halves of a batch, one after the other. */
static void
test_accumulation(void **state)
{
    struct bell_tensor *loss;
    struct trial t, whole;
    double want[10];
    int i;

    (void)state;
    make_params(&t, BELL_FLOAT64);
    make_params(&whole, BELL_FLOAT64);
    assert_int_equal(make_adam(&t, &t.opt), BELL_OK);
    assert_int_equal(make_adam(&whole, &whole.opt), BELL_OK);
    whole.step = 2;
    take_step(&whole);
    assert_int_equal(bell_read_f64(whole.a, want, 6), BELL_OK);
    assert_int_equal(bell_read_f64(whole.b, want + 6, 4), BELL_OK);
    bell_optimizer_zero_grad(t.opt);
    for (i = 0; i < 2; i++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        loss = bell_mul_scalar(loss_of(&t, bell_scalar(ctx, i ? 5 : 1)), 0.5);
        assert_int_equal(bell_backward(loss), BELL_OK);
        assert_int_equal(bell_optimizer_accumulate(t.opt, &loss, 1), BELL_OK);
        assert_true(bell_is_realized(loss));
        assert_true(bell_is_realized(bell_grad(t.a)));
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    assert_int_equal(bell_optimizer_step(t.opt, NULL, 0), BELL_OK);
    expect_params("accumulated", &t, want, 1e-13);
    free_trial(&t);
    free_trial(&whole);
}

/* States have names, and a training goes on from them elsewhere. */
static void
test_states(void **state)
{
    static const char *const names[] = {
        "opt.step",           "opt.groups.0.lr",    "opt.groups.1.lr",
        "opt.w.a.exp_avg",    "opt.w.a.exp_avg_sq", "opt.1.exp_avg",
        "opt.1.exp_avg_sq",   "opt.scaler.scale",   "opt.scaler.good_steps",
        "opt.scaler.skipped",
    };
    struct bell_state params = {0}, old = {0}, fresh = {0};
    struct trial t, next;
    double values[10];
    uint32_t i;

    (void)state;
    make_params(&t, BELL_FLOAT64);
    assert_int_equal(make_groups(&t, &t.opt), BELL_OK);
    assert_int_equal(bell_optimizer_set_scaler(t.opt, NULL), BELL_OK);
    take_step(&t);
    take_step(&t);
    bell_optimizer_set_group_lr(t.opt, 1, 0.03);
    assert_int_equal(bell_state_add(&params, "w", "a", BELL_STATE_PARAM, t.a),
                     BELL_OK);
    assert_int_equal(bell_optimizer_state(t.opt, &params, "opt", &old),
                     BELL_OK);
    assert_int_equal(old.n, ARRAY_LEN(names));
    for (i = 0; i < old.n; i++)
        assert_string_equal(old.items[i].name, names[i]);
    assert_true(*old.items[0].number == 2);
    EXPECT_STATUS(bell_optimizer_state(t.opt, &params, "opt", &old),
                  "bell_state_add: opt.step is there already");
    assert_int_equal(old.n, ARRAY_LEN(names));

    make_params(&next, BELL_FLOAT64);
    assert_int_equal(make_groups(&next, &next.opt), BELL_OK);
    assert_int_equal(bell_optimizer_set_scaler(next.opt, NULL), BELL_OK);
    assert_int_equal(bell_optimizer_state(next.opt, NULL, "opt", &fresh),
                     BELL_OK);
    bell_assign(next.a, t.a);
    bell_assign(next.b, t.b);
    for (i = 0; i < old.n; i++) {
        if (old.items[i].number)
            *fresh.items[i].number = *old.items[i].number;
        else
            bell_assign(fresh.items[i].tensor, old.items[i].tensor);
    }
    next.step = t.step;
    take_step(&t);
    take_step(&next);
    assert_int_equal(bell_read_f64(t.a, values, 6), BELL_OK);
    assert_int_equal(bell_read_f64(t.b, values + 6, 4), BELL_OK);
    expect_params("resumed", &next, values, 0);
    bell_state_fini(&params);
    bell_state_fini(&old);
    bell_state_fini(&fresh);
    free_trial(&t);
    free_trial(&next);
}

static void
test_misuse(void **state)
{
    const struct bell_muon_options muon = {.struct_size = sizeof(muon),
                                           .lr = 1};
    struct trial t;

    (void)state;
    make_params(&t, BELL_FLOAT32);
    EXPECT_STATUS(bell_muon_create(&t.b, 1, &muon, &t.opt),
                  "bell_muon_create: parameter 0 is (4,), not a matrix");
    EXPECT_STATUS(bell_sgd_create(BELL_TENSORS(t.a, t.b, t.a), &sgd, &t.opt),
                  "bell_sgd_create: parameter 2 is there twice");
    assert_int_equal(make_sgd(&t, &t.opt), BELL_OK);
    take_step(&t);
    bell_tensor_release(t.b);
    assert_int_equal(bell_optimizer_step(t.opt, NULL, 0), BELL_E_INVALID);
    bell_optimizer_destroy(t.opt);
    bell_tensor_release(t.a);
    bell_error_clear();
}

/* ---- in a jit ---- */

#if HAVE_RUNTIME
static bell_status
jit_step(struct bell_context *c, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    struct trial *t = user;

    (void)c;
    out[0] = loss_of(t, in[0]);
    bell_optimizer_zero_grad(t->opt);
    if (bell_backward(bell_optimizer_scale(t->opt, out[0])) != BELL_OK)
        return bell_error_last()->status;
    return bell_optimizer_step(t->opt, out, 1);
}

/* Steps that are replayed are those of PyTorch, too: rates go on by
 * themselves. */
static void
test_jit(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "step", jit_step, NULL, 1, 1};
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_tensor *loss, *factor;
    struct bell_jit *jit;
    struct trial t;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(kinds); i++) {
        const struct kind_row *kind = &kinds[i / 2];

        make_params(&t, BELL_FLOAT64);
        assert_int_equal(kind->make(&t, &t.opt), BELL_OK);
        if (i % 2)
            assert_int_equal(bell_optimizer_set_scaler(t.opt, NULL), BELL_OK);
        desc.user = &t;
        assert_int_equal(bell_jit_create(ctx, &desc, &jit), BELL_OK);
        while (t.step < N_STEPS) {
            assert_int_equal(bell_scope_begin(ctx), BELL_OK);
            factor = bell_cast(bell_scalar(ctx, ++t.step), BELL_FLOAT64);
            if (bell_jit_call(jit, &factor, &loss) != BELL_OK)
                fail_msg("%s: %s", kind->name, bell_error_last()->message);
            assert_int_equal(bell_scope_end(ctx), BELL_OK);
        }
        expect_params(kind->name, &t, find_values(kind->name) + 10, 1e-12);
        bell_jit_get_info(jit, &info);
        assert_int_equal(info.n_captures, 1);
        bell_jit_destroy(jit);
        free_trial(&t);
    }
}
#endif

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_torch),
        TEST(test_loops),
        TEST(test_scaler),
        TEST(test_rates),
        TEST(test_accumulation),
        TEST(test_states),
        TEST(test_misuse),
#if HAVE_RUNTIME
        TEST(test_jit),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
