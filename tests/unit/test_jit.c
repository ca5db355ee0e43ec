/* Functions that are captured: the same bits as without, whatever changes
 * between calls; what is refused; memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/jit.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx1100"};

#define IN(...)                                                                \
    (struct bell_tensor *const[])                                              \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_error(bell_status status, const char *text)
{
    assert_int_not_equal(status, BELL_OK);
    if (!strstr(bell_error_last()->message, text))
        fail_msg("'%s' is not in '%s'", text, bell_error_last()->message);
    bell_error_clear();
}

static struct bell_context *
open_device(const char *device)
{
    struct bell_context *ctx;

    expect_ok(bell_context_create(device, &ctx));
    return ctx;
}

typedef bell_status fn_type(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in,
                            struct bell_tensor **out);

static struct bell_jit *
make_jit(struct bell_context *ctx, const char *name, fn_type *fn, void *user,
         uint32_t n_in, uint32_t n_out)
{
    struct bell_jit_desc desc = {sizeof(desc), name, fn, user, n_in, n_out};
    struct bell_jit *jit;

    expect_ok(bell_jit_create(ctx, &desc, &jit));
    return jit;
}

static struct bell_tensor *
vector(struct bell_context *ctx, int64_t n, float first)
{
    float data[64];
    int64_t i;

    for (i = 0; i < n; i++)
        data[i] = first + (float)i;
    return bell_from_data(ctx, &n, 1, BELL_FLOAT32, data);
}

static void
expect_vector(struct bell_tensor *t, int64_t n, float first)
{
    float got[64];
    int64_t i;

    expect_ok(bell_read(t, got, (size_t)n * sizeof(*got)));
    for (i = 0; i < n; i++) {
        if (got[i] != first + (float)i)
            fail_msg("element %d is %g, not %g", (int)i, (double)got[i],
                     (double)(first + (float)i));
    }
}

/* ---- training ---- */

#define BATCH 8
#define N_IN  12
#define N_HID 16
#define N_CLS 5

enum optimizer {
    SGD,
    ADAM,
    N_OPTIMIZERS
};

struct net {
    struct bell_context *ctx;
    struct bell_nn_linear layers[2];
    struct bell_nn_batch_norm norm;
    struct bell_optimizer *opt;
    struct bell_params params;
    struct bell_jit *jit;
    uint32_t n_runs;
};

static bell_status
train_step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    struct net *net = user;
    struct bell_tensor *h;
    bell_status status;

    (void)ctx;
    net->n_runs++;
    h = bell_relu(bell_nn_linear(&net->layers[0], in[0]));
    h = bell_dropout(bell_nn_batch_norm(&net->norm, h), 0.25);
    h = bell_nn_linear(&net->layers[1], h);
    out[0] = bell_cross_entropy(h, in[1], 0, BELL_IGNORE_NONE, BELL_MEAN);
    bell_optimizer_zero_grad(net->opt);
    status = bell_backward(out[0]);
    return status == BELL_OK ? bell_optimizer_step(net->opt, out, 1) : status;
}

static void
make_net(struct net *net, const char *device, enum optimizer kind)
{
    const struct bell_sgd_options sgd = {
        .struct_size = sizeof(sgd), .lr = 0.05, .momentum = 0.9};
    const struct bell_adam_options adam = {.struct_size = sizeof(adam),
                                           .lr = 0.01};
    uint32_t i;

    memset(net, 0, sizeof(*net));
    net->ctx = open_device(device);
    bell_manual_seed(net->ctx, 42);
    bell_set_training(net->ctx, true);
    expect_ok(
        bell_nn_linear_init(net->ctx, N_IN, N_HID, true, &net->layers[0]));
    expect_ok(bell_nn_batch_norm_init(net->ctx, N_HID, &net->norm));
    expect_ok(
        bell_nn_linear_init(net->ctx, N_HID, N_CLS, true, &net->layers[1]));
    for (i = 0; i < 2; i++)
        expect_ok(bell_params_add_module(&net->params, &bell_nn_linear_type,
                                         &net->layers[i]));
    expect_ok(bell_params_add_module(&net->params, &bell_nn_batch_norm_type,
                                     &net->norm));
    expect_ok(kind == SGD ? bell_sgd_create(net->params.tensors, net->params.n,
                                            &sgd, &net->opt)
                          : bell_adam_create(net->params.tensors, net->params.n,
                                             &adam, &net->opt));
    net->jit = make_jit(net->ctx, "step", train_step, net, 2, 1);
}

static void
free_net(struct net *net)
{
    bell_jit_destroy(net->jit);
    bell_optimizer_destroy(net->opt);
    bell_params_fini(&net->params);
    bell_context_destroy(net->ctx);
}

static void
make_batch(struct bell_context *ctx, uint32_t step, struct bell_tensor *in[2])
{
    float x[BATCH * N_IN];
    int32_t y[BATCH];
    uint32_t i;

    for (i = 0; i < BATCH * N_IN; i++)
        x[i] = (float)((i * 7919 + step * 104729) % 1000) / 500 - 1;
    for (i = 0; i < BATCH; i++)
        y[i] = (int32_t)((i + step) % N_CLS);
    in[0] = bell_from_data(ctx, BELL_DIMS(BATCH, N_IN), BELL_FLOAT32, x);
    in[1] = bell_from_data(ctx, BELL_DIMS(BATCH), BELL_INT32, y);
}

static float
do_step(struct net *net, uint32_t step, bool jitted)
{
    static const float ones[N_HID] = {1, 1, 1};
    struct bell_tensor *in[2], *loss;
    float value;

    expect_ok(bell_scope_begin(net->ctx));
    make_batch(net->ctx, step, in);
    if (step == 7)
        bell_optimizer_set_lr(net->opt, 0.02);
    if (step == 11) /* another value between two calls */
        expect_ok(bell_write(net->layers[0].bias, ones, sizeof(ones)));
    expect_ok(jitted ? bell_jit_call(net->jit, in, &loss)
                     : train_step(net->ctx, net, in, &loss));
    expect_ok(bell_read(loss, &value, sizeof(value)));
    expect_ok(bell_scope_end(net->ctx));
    return value;
}

static void
expect_same(struct bell_tensor *a, struct bell_tensor *b)
{
    static float x[1024], y[1024];
    size_t size = bell_nbytes(a);

    assert_true(size <= sizeof(x));
    expect_ok(bell_read(a, x, size));
    expect_ok(bell_read(b, y, size));
    assert_memory_equal(x, y, size);
}

/* 20 steps with and without, to the bit: parameters, statistics, losses; and
 * some of each, taken in turns. */
static void
test_training(void **state)
{
    struct net plain, jitted, mixed;
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    uint32_t k, kind, step, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        for (kind = 0; kind < N_OPTIMIZERS; kind++) {
            make_net(&plain, devices[k], kind);
            make_net(&jitted, devices[k], kind);
            make_net(&mixed, devices[k], kind);
            for (step = 0; step < 20; step++) {
                float loss = do_step(&plain, step, false);
                float got[2] = {do_step(&jitted, step, true),
                                do_step(&mixed, step, step % 3 != 0)};
                if (got[0] != loss || got[1] != loss)
                    fail_msg("%s: step %u: %.9g, jitted %.9g, both %.9g",
                             devices[k], step, (double)loss, (double)got[0],
                             (double)got[1]);
            }
            for (i = 0; i < plain.params.n; i++) {
                expect_same(plain.params.tensors[i], jitted.params.tensors[i]);
                expect_same(plain.params.tensors[i], mixed.params.tensors[i]);
            }
            expect_same(plain.norm.running_var, jitted.norm.running_var);
            assert_int_equal(jitted.n_runs, 1);
            bell_jit_get_info(jitted.jit, &info);
            if (kind == ADAM) /* some kernels allow it */
                assert_true(info.n_in_place > 0);
            assert_true(info.n_in_place < info.n_state);
            free_net(&plain);
            free_net(&jitted);
            free_net(&mixed);
        }
    }
}

/* ---- decoding ---- */

#define N_LEN 24
#define N_DIM 8

struct decoder {
    struct bell_tensor *keys, *values, *weight;
    struct bell_jit *jit;
};

/* Attention to what was put into the caches so far, at a place that is given
 * as a number. */
static bell_status
decode(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    struct decoder *d = user;
    struct bell_tensor *place, *here, *x, *scores;

    place = bell_arange(ctx, 0, N_LEN, 1, BELL_INT64);
    here = bell_unsqueeze(bell_eq(place, in[1]), 1);
    x = bell_matmul(in[0], d->weight);
    bell_assign(d->keys, bell_where(here, x, d->keys));
    bell_assign(d->values, bell_where(here, bell_tanh(x), d->values));
    scores = bell_matmul(in[0], bell_t(d->keys));
    scores = bell_masked_fill(scores, bell_unsqueeze(bell_gt(place, in[1]), 0),
                              -1e30);
    out[0] = bell_matmul(bell_softmax(scores, -1), d->values);
    return BELL_OK;
}

/* The same with rows that are written in place. */
static bell_status
decode_rows(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            struct bell_tensor **out)
{
    struct decoder *d = user;
    struct bell_tensor *x;

    (void)ctx;
    x = bell_matmul(in[0], d->weight);
    bell_assign_slice(d->keys, BELL_DIMS(3, 0), x);
    bell_assign_slice(d->values, BELL_DIMS(3, 0),
                      bell_add(bell_narrow(d->keys, 0, 3, 1),
                               bell_narrow(d->values, 0, 4, 1)));
    bell_assign_slice(d->values, BELL_DIMS(4, 0), x);
    out[0] = bell_matmul(in[0], bell_t(d->values));
    return BELL_OK;
}

static void
make_decoder(struct bell_context *ctx, struct decoder *d, fn_type *fn)
{
    d->keys = bell_zeros(ctx, BELL_DIMS(N_LEN, N_DIM), BELL_FLOAT32);
    d->values = bell_zeros(ctx, BELL_DIMS(N_LEN, N_DIM), BELL_FLOAT32);
    d->weight =
        bell_mul_scalar(bell_sin(bell_reshape(
                            bell_arange(ctx, 0, N_DIM * N_DIM, 1, BELL_FLOAT32),
                            BELL_DIMS(N_DIM, N_DIM))),
                        0.5);
    expect_ok(bell_realize(IN(d->keys, d->values, d->weight), 3));
    d->jit = make_jit(ctx, "decode", fn, d, 2, 1);
}

static void
run_decoder(const char *device, fn_type *fn)
{
    struct bell_tensor *x[2], *place, *y[2];
    struct bell_stats early = {.struct_size = sizeof(early)},
                      stats = {.struct_size = sizeof(stats)};
    struct bell_context *ctx[2];
    struct decoder d[2];
    int t, i;

    for (i = 0; i < 2; i++) {
        ctx[i] = open_device(device);
        make_decoder(ctx[i], &d[i], fn);
        x[i] = bell_ones(ctx[i], BELL_DIMS(1, N_DIM), BELL_FLOAT32);
        expect_ok(bell_realize1(x[i]));
    }
    for (t = 0; t < N_LEN; t++) {
        for (i = 0; i < 2; i++) {
            expect_ok(bell_scope_begin(ctx[i]));
            place = bell_scalar_int(ctx[i], t);
            if (i == 0 || t % 3 == 2) /* a number, or what has memory */
                place = bell_full_int(ctx[i], BELL_NO_DIMS, t, BELL_INT64);
            if (i == 0 || t < 2 || t % 3 == 0)
                expect_ok(bell_realize1(place));
            expect_ok(i ? bell_jit_call(d[i].jit, IN(x[i], place), &y[i])
                        : fn(ctx[i], &d[i], IN(x[i], place), &y[i]));
            expect_ok(bell_realize(IN(y[i], d[i].values, d[i].keys), 3));
            bell_assign(x[i], bell_sigmoid(bell_narrow(y[i], 1, 0, N_DIM)));
        }
        expect_same(x[0], x[1]);
        expect_same(d[0].values, d[1].values);
        for (i = 0; i < 2; i++)
            expect_ok(bell_scope_end(ctx[i]));
        bell_context_stats(ctx[1], &stats);
        if (t == 2)
            early = stats;
    }
    assert_int_equal(stats.n_kernels_compiled, early.n_kernels_compiled);
    assert_int_equal(stats.n_plans, early.n_plans);
    for (i = 0; i < 2; i++) {
        bell_jit_destroy(d[i].jit);
        bell_context_destroy(ctx[i]);
    }
}

static void
test_decoding(void **state)
{
    uint32_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        run_decoder(devices[k], decode);
        run_decoder(devices[k], decode_rows);
    }
}

/* ---- tensors that change hands ---- */

struct pair {
    struct bell_tensor *a, *b, *fixed;
    struct bell_jit *inner;
};

/* a, b = b, a + in; the outputs are an input, a tensor, what it was, and data
 * of its own. */
static bell_status
swap(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct pair *p = user;
    struct bell_tensor *old = bell_alias(p->a);

    bell_assign(p->a, p->b);
    bell_assign(p->b, bell_add(old, in[0]));
    out[0] = bell_reshape(in[0], BELL_DIMS(2, 2));
    out[1] = p->a;
    out[2] = old;
    out[3] = vector(ctx, 4, 100);
    return BELL_OK;
}

static void
test_swap(void **state)
{
    struct bell_tensor *x, *out[4], *kept;
    struct bell_context *ctx;
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct pair p = {0};
    struct bell_jit *jit;
    float a = 0, b = 10, old;
    uint32_t k;
    int i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++, a = 0, b = 10) {
        ctx = open_device(devices[k]);
        p.a = vector(ctx, 4, a);
        p.b = bell_add_scalar(vector(ctx, 4, 0), 10); /* not realized */
        jit = make_jit(ctx, "swap", swap, &p, 1, 4);
        for (i = 0; i < 5; i++) {
            expect_ok(bell_scope_begin(ctx));
            x = bell_zeros(ctx, BELL_DIMS(4), BELL_FLOAT32);
            if (i == 3) { /* another memory, seen by another handle */
                a = 50;
                kept = vector(ctx, 4, a);
                bell_assign(p.a, kept);
            }
            expect_ok(bell_jit_call(jit, &x, out));
            old = a, a = b, b = old;
            expect_vector(p.a, 4, a);
            expect_vector(p.b, 4, b);
            expect_vector(out[1], 4, a);
            expect_vector(out[2], 4, old);
            expect_vector(out[3], 4, 100);
            assert_int_equal(bell_ndim(out[0]), 2);
            if (i == 3)
                expect_vector(kept, 4, 50);
            expect_ok(bell_scope_end(ctx));
        }
        bell_jit_get_info(jit, &info);
        assert_int_equal(info.n_captures, 1);
        assert_int_equal(info.n_used, 2);
        assert_int_equal(info.n_state, 2);
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

struct same {
    struct bell_tensor *t[6], *read;
    int n;
};

static bell_status
triple(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    struct same *s = user;
    int i;

    (void)ctx;
    out[0] = in[0];
    for (i = 0; i < s->n; i++) {
        bell_assign_slice(s->t[i], BELL_DIMS(0), bell_mul_scalar(out[0], 2));
        out[0] =
            bell_add(out[0], bell_sum(s->t[i], BELL_DIMS(0), /*keepdim=*/true));
    }
    if (s->read)
        out[0] = bell_add(out[0], bell_narrow(s->read, 0, 0, 1));
    return BELL_OK;
}

/* Tensors of equal values that are realized together are in one buffer, until
 * one is written: any number of them, with one that is only read or not. */
static void
test_one_buffer(void **state)
{
    struct bell_tensor *x, *y, *list[7];
    struct bell_context *ctx;
    struct bell_jit *jit;
    struct same s;
    float got, want;
    int k, i, call;

    (void)state;
    for (k = 0; k < 12 * (int)ARRAY_LEN(devices); k++) {
        ctx = open_device(devices[k / 12]);
        s = (struct same){.n = k % 6 + 1};
        for (i = 0; i < s.n; i++)
            list[i] = s.t[i] = bell_zeros(ctx, BELL_DIMS(4), BELL_FLOAT32);
        if (k / 6 % 2)
            list[i++] = s.read = bell_zeros(ctx, BELL_DIMS(4), BELL_FLOAT32);
        expect_ok(bell_realize(list, (size_t)i));
        jit = make_jit(ctx, "triple", triple, &s, 1, 1);
        for (call = 1; call <= 3; call++) {
            want = (float)call;
            x = bell_from_data(ctx, BELL_DIMS(1), BELL_FLOAT32, &want);
            for (i = 0; i < s.n; i++)
                want *= 3;
            expect_ok(bell_jit_call(jit, &x, &y));
            expect_ok(bell_read(y, &got, sizeof(got)));
            assert_float_equal(got, want, 0);
        }
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

static bell_status
add_row(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    struct pair *p = user;

    (void)ctx;
    bell_assign_slice(p->a, BELL_DIMS(1),
                      bell_add(bell_narrow(p->a, 0, 1, 2), in[0]));
    out[0] = p->a;
    return BELL_OK;
}

/* A tensor that is written in place was copied for others, whatever they
 * are. */
static void
test_aliases(void **state)
{
    const float want[4][4] = {
        {0, 1, 2, 3}, {0, 2, 4, 3}, {0, 3, 6, 3}, {0, 4, 8, 3}};
    struct bell_tensor *x, *out[4], *alias, *made;
    struct bell_context *ctx;
    struct pair p = {0};
    struct bell_jit *jit;
    float got[4];
    uint32_t k;
    int i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        ctx = open_device(devices[k]);
        p.a = vector(ctx, 4, 0);
        x = vector(ctx, 2, 1);
        jit = make_jit(ctx, "rows", add_row, &p, 1, 1);
        alias = bell_alias(p.a);
        made = bell_add_scalar(p.a, 0.5);
        for (i = 0; i < 3; i++)
            expect_ok(bell_jit_call(jit, &x, &out[i + 1]));
        out[0] = alias;
        for (i = 0; i < 4; i++) {
            expect_ok(bell_read(out[i], got, sizeof(got)));
            assert_memory_equal(got, want[i], sizeof(got));
        }
        expect_vector(made, 4, 0.5f);
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

/* What is above 2 of four numbers, and where. */
static bell_status
select_sized(struct bell_context *ctx, void *user,
             struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct bell_tensor *mask = bell_gt(in[0], bell_scalar(ctx, 2));

    (void)user;
    out[0] = bell_masked_select_sized(in[0], mask, 3, bell_scalar(ctx, -1));
    out[1] = bell_cast(bell_nonzero_sized(mask, 3, 9), BELL_FLOAT32);
    return BELL_OK;
}

/* Sizes are given: what is chosen changes from call to call. */
static void
test_sized(void **state)
{
    const float want[3][6] = {
        {3, -1, -1, 3, 9, 9}, {3, 4, -1, 2, 3, 9}, {5, 6, 7, 0, 1, 2}};
    struct bell_tensor *x, *out[2];
    struct bell_context *ctx;
    struct bell_jit *jit;
    float got[6];
    uint32_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        ctx = open_device(devices[k]);
        jit = make_jit(ctx, "sized", select_sized, NULL, 1, 2);
        for (i = 0; i < 3; i++) {
            x = vector(ctx, 4, i == 2 ? 5 : (float)i);
            expect_ok(bell_jit_call(jit, &x, out));
            expect_ok(bell_read(out[0], got, 3 * sizeof(*got)));
            expect_ok(bell_read(out[1], got + 3, 3 * sizeof(*got)));
            assert_memory_equal(got, want[i], sizeof(got));
        }
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

static bell_status
add_both(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_add(in[0], in[1]);
    return BELL_OK;
}

/* A number that is an input does not become a double on the way. */
static void
test_wide_integer(void **state)
{
    const int64_t numbers[] = {1, (1ll << 53) + 1, INT64_MIN, INT64_MAX}, z = 0;
    struct bell_context *ctx;
    struct bell_tensor *y;
    struct bell_jit *jit;
    int64_t have;
    uint32_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        ctx = open_device(devices[k]);
        jit = make_jit(ctx, "wide", add_both, NULL, 2, 1);
        for (i = 0; i < ARRAY_LEN(numbers); i++) {
            expect_ok(bell_jit_call(
                jit,
                IN(bell_from_data(ctx, BELL_DIMS(1), BELL_INT64, &z),
                   bell_scalar_int(ctx, numbers[i])),
                &y));
            expect_ok(bell_read(y, &have, sizeof(have)));
            assert_true(have == numbers[i]);
        }
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

static bell_status
change(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    struct pair *p = user;

    (void)ctx;
    bell_assign(p->a, bell_add(p->a, in[0]));
    out[0] = bell_neg(p->a);
    return BELL_OK;
}

/* A new value lies where the old one was, if nobody else sees that: the memory
 * of tensors is the same, and a call's that of the jit. */
static void
test_in_place(void **state)
{
    struct bell_context_info before = {.struct_size = sizeof(before)},
                             after = {.struct_size = sizeof(after)};
    struct bell_tensor *x, *out[2], *alias, *made;
    struct bell_context *ctx;
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct pair p = {0};
    struct bell_jit *jit;
    uint32_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        ctx = open_device(devices[k]);
        p.a = vector(ctx, 64, 0);
        x = bell_ones(ctx, BELL_DIMS(64), BELL_FLOAT32);
        expect_ok(bell_realize1(x));
        jit = make_jit(ctx, "change", change, &p, 1, 1);
        expect_ok(bell_jit_call(jit, &x, &out[0]));
        bell_jit_get_info(jit, &info);
        assert_int_equal(info.n_in_place, 1);
        assert_int_equal(info.n_state, 1);
        assert_int_equal(info.held_bytes, 0);
        bell_context_get_info(ctx, &before);
        for (i = 0; i < 5; i++) {
            bell_tensor_release(out[0]);
            expect_ok(bell_jit_call(jit, &x, &out[0]));
        }
        bell_context_get_info(ctx, &after);
        assert_true(after.n_buffers <= before.n_buffers + 5); /* outputs */
        expect_vector(p.a, 64, 6);
        /* seen by another handle; by what is made of it; by an input */
        alias = bell_alias(p.a);
        expect_ok(bell_jit_call(jit, &x, &out[0]));
        made = bell_add(p.a, x);
        expect_ok(bell_jit_call(jit, &x, &out[0]));
        expect_vector(alias, 64, 6);
        expect_vector(made, 64, 8);
        expect_vector(p.a, 64, 8);
        alias = bell_alias(p.a);
        expect_ok(bell_jit_call(jit, &alias, &out[1]));
        expect_vector(alias, 64, 8);
        expect_ok(bell_jit_call(jit, &out[0], &out[1]));
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

/* ---- one inside another ---- */

static bell_status
cube(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_mul(in[0], bell_mul(in[0], in[0]));
    return BELL_OK;
}

static bell_status
slope_of_cube(struct bell_context *ctx, void *user,
              struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct pair *p = user;
    struct bell_tensor *y;
    bell_status status = bell_jit_call(p->inner, in, &y);

    (void)ctx;
    return status == BELL_OK
               ? bell_gradient(bell_sum(y, BELL_NO_DIMS, false), in, 1, out)
               : status;
}

static void
test_nested(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    struct bell_tensor *x, *y;
    struct pair p = {0};
    struct bell_jit *jit;
    float got[3];
    int i;

    (void)state;
    p.inner = make_jit(ctx, "cube", cube, NULL, 1, 1);
    jit = make_jit(ctx, "slope", slope_of_cube, &p, 1, 1);
    for (i = 1; i < 5; i++) {
        x = vector(ctx, 3, (float)i);
        expect_ok(bell_jit_call(jit, &x, &y));
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_true(got[1] == 3.0f * (float)((i + 1) * (i + 1)));
    }
    expect_ok(bell_jit_call(p.inner, &x, &y));
    expect_ok(bell_read(y, got, sizeof(got)));
    assert_true(got[0] == 64);
    bell_jit_destroy(p.inner);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* ---- misuse ---- */

enum misuse {
    FINE,
    READS,
    SEEDS,
    NO_OUTPUT,
    LEAVES_SCOPE,
    ENDS_SCOPE,
    CALLS_ITSELF,
    FAILS,
    FAILS_SILENTLY,
    LEAVES_GRADIENT,
    CHANGES_NUMBER,
    KEEPS
};

struct misuser {
    enum misuse kind;
    struct bell_jit *jit;
    struct bell_tensor *param, *number, *kept;
};

static bell_status
misuse(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    struct misuser *m = user;
    struct bell_tensor *again;
    float value;

    out[0] = bell_mul(in[0], m->param);
    switch (m->kind) {
    case READS:
        return bell_read(bell_narrow(out[0], 0, 0, 1), &value, sizeof(value));
    case SEEDS:
        bell_manual_seed(ctx, 3);
        break;
    case NO_OUTPUT:
        out[0] = NULL;
        break;
    case LEAVES_SCOPE:
        return bell_scope_begin(ctx);
    case ENDS_SCOPE:
        return bell_scope_end(ctx);
    case CALLS_ITSELF:
        return bell_jit_call(m->jit, in, &again);
    case FAILS:
        bell_add(out[0], bell_ones(ctx, BELL_DIMS(7), BELL_FLOAT32));
        break;
    case FAILS_SILENTLY:
        return BELL_E_IO;
    case LEAVES_GRADIENT:
        return bell_backward(bell_sum(out[0], BELL_NO_DIMS, false));
    case CHANGES_NUMBER:
        bell_assign(m->number, bell_zeros(ctx, BELL_NO_DIMS, BELL_FLOAT64));
        bell_assign(m->number, bell_cast(bell_scalar(ctx, 2), BELL_FLOAT32));
        break;
    case KEEPS:
        m->kept = bell_keep_forever(bell_neg(out[0]));
        break;
    case FINE:
    default:
        break;
    }
    return BELL_OK;
}

static void
test_function_misuse(void **state)
{
    static const struct {
        enum misuse kind;
        const char *text;
    } rows[] = {
        {READS, "has no value yet"},
        {SEEDS, "bell_manual_seed"},
        {NO_OUTPUT, "output 0 NULL"},
        {LEAVES_SCOPE, "scopes"},
        {ENDS_SCOPE, "bell_scope_end"},
        {CALLS_ITSELF, "inside its function"},
        {FAILS, "bell_add"},
        {FAILS_SILENTLY, "the function of 'misuse' returned 'file error' "
                         "and no message"},
        {LEAVES_GRADIENT, "leaves a gradient"},
    };
    struct bell_context *ctx = open_device("CPU");
    struct bell_context_info before = {.struct_size = sizeof(before)},
                             after = {.struct_size = sizeof(after)};
    struct misuser m = {0};
    struct bell_tensor *x, *y;
    uint32_t i;

    (void)state;
    m.param = bell_requires_grad(vector(ctx, 4, 2), true);
    m.number = bell_scalar(ctx, 2);
    x = vector(ctx, 4, 1);
    m.jit = make_jit(ctx, "misuse", misuse, &m, 1, 1);
    bell_context_get_info(ctx, &before);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        m.kind = rows[i].kind;
        expect_error(bell_jit_call(m.jit, &x, &y), rows[i].text);
        bell_context_get_info(ctx, &after);
        assert_int_equal(after.n_tensors, before.n_tensors);
        assert_int_equal(after.n_scopes, before.n_scopes);
        assert_null(bell_grad(m.param));
        expect_vector(m.param, 4, 2);
    }
    /* what it keeps for itself has no value */
    m.kind = KEEPS;
    expect_ok(bell_jit_call(m.jit, &x, &y));
    expect_error(bell_realize1(m.kept), "has no value");
    expect_error(bell_realize1(bell_neg(m.kept)), "has no value");
    bell_jit_destroy(m.jit);
    bell_context_destroy(ctx);
}

static void
test_call_misuse(void **state)
{
    struct bell_context *ctx = open_device("CPU"), *other = open_device("CPU");
    struct bell_tensor *x, *y, *bad;
    struct bell_jit *jit, *writer;
    struct bell_jit_desc desc = {.n_in = 1, .n_out = 1};
    struct misuser m = {0};
    struct pair p = {0};

    (void)state;
    m.param = vector(ctx, 4, 0);
    x = vector(ctx, 4, 1);
    expect_error(bell_jit_create(ctx, NULL, &jit), "description is NULL");
    expect_error(bell_jit_create(ctx, &desc, &jit),
                 "struct_size is 0, not its size, ");
    assert_null(jit);
    desc.struct_size = sizeof(desc);
    expect_error(bell_jit_create(ctx, &desc, &jit), "function is NULL");
    expect_error(bell_jit_create(ctx, &desc, NULL), "result is NULL");
    jit = make_jit(ctx, "misuse", misuse, &m, 1, 1);
    expect_ok(bell_jit_call(jit, &x, &y));
    bad = vector(ctx, 3, 1);
    expect_error(bell_jit_call(jit, &bad, &y),
                 "was captured with float32 (4,)");
    bad = bell_cast(x, BELL_INT32);
    expect_error(bell_jit_call(jit, &bad, &y), "is int32 (4,)");
    bad = vector(other, 4, 1);
    expect_error(bell_jit_call(jit, &bad, &y), "another context");
    bad = bell_add(x, bad); /* fails */
    expect_error(bell_jit_call(jit, &bad, &y), "different contexts");
    bad = NULL;
    expect_error(bell_jit_call(jit, &bad, &y), "NULL");
    expect_error(bell_jit_call(jit, NULL, &y), "NULL");
    expect_error(bell_jit_call(jit, &x, NULL), "NULL");
    expect_error(bell_jit_call(NULL, &x, &y), "NULL");
    expect_ok(bell_jit_call(jit, &x, &y));

    p.a = vector(ctx, 4, 0);
    writer = make_jit(ctx, "writer", add_row, &p, 1, 1);
    bad = vector(ctx, 2, 1);
    expect_ok(bell_jit_call(writer, &bad, &y));
    expect_error(bell_jit_call(writer, &p.a, &y), "was captured with");
    bell_jit_destroy(writer);

    bell_tensor_release(m.param);
    expect_error(bell_jit_call(jit, &x, &y),
                 "was ended by bell_tensor_release");
    m.param = vector(ctx, 4, 5); /* may have the handle of the old one */
    expect_error(bell_jit_call(jit, &x, &y),
                 "was ended by bell_tensor_release");
    bell_context_destroy(ctx);
    expect_error(bell_jit_call(jit, &x, &y), "context of 'misuse'");
    bell_jit_destroy(jit);
    bell_jit_destroy(NULL);
    bell_context_destroy(other);
}

/* An input that is changed; an optimiser that ends. */
static void
test_state_misuse(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    struct bell_tensor *x, *y, *in[2];
    struct pair p = {0};
    struct bell_jit *jit;
    struct net net;

    (void)state;
    p.a = vector(ctx, 4, 0);
    x = vector(ctx, 4, 1);
    jit = make_jit(ctx, "change", change, &p, 1, 1);
    expect_error(bell_jit_call(jit, &p.a, &y), "a tensor that the function");
    expect_ok(bell_jit_call(jit, &x, &y));
    expect_error(bell_jit_call(jit, &p.a, &y), "a tensor that the function");
    x = bell_alias(p.a); /* another handle for the same memory does no harm */
    expect_ok(bell_jit_call(jit, &x, &y));
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);

    make_net(&net, "CPU", ADAM);
    make_batch(net.ctx, 0, in);
    expect_ok(bell_jit_call(net.jit, in, &y));
    bell_optimizer_destroy(net.opt);
    net.opt = NULL;
    expect_error(bell_jit_call(net.jit, in, &y), "optimiser");
    free_net(&net);
}

/* ---- settings ---- */

static bell_status
drop(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_dropout(in[0], 0.5);
    return BELL_OK;
}

static void
test_settings(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_tensor *x, *y;
    struct bell_jit *jit;

    (void)state;
    x = vector(ctx, 8, 1);
    jit = make_jit(ctx, "drop", drop, NULL, 1, 1);
    expect_ok(bell_jit_call(jit, &x, &y));
    expect_vector(y, 8, 1);
    bell_set_training(ctx, true);
    expect_ok(bell_jit_call(jit, &x, &y));
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 2);
    assert_int_equal(info.n_kernels, 1);
    bell_set_training(ctx, false);
    expect_ok(bell_jit_call(jit, &x, &y));
    expect_vector(y, 8, 1);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* ---- memory ---- */

static void
test_flat(void **state)
{
    struct bell_context_info early = {.struct_size = sizeof(early)},
                             late = {.struct_size = sizeof(late)};
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct net net;
    uint32_t i;

    (void)state;
    make_net(&net, "CPU", ADAM);
    for (i = 0; i < 100; i++)
        do_step(&net, i, true);
    bell_context_get_info(net.ctx, &early);
    for (; i < 1000; i++)
        do_step(&net, i, true);
    bell_context_get_info(net.ctx, &late);
    assert_int_equal(late.n_tensors, early.n_tensors);
    assert_true(late.buffer_bytes <= early.buffer_bytes + (1u << 20));
    bell_jit_get_info(net.jit, &info);
    assert_int_equal(info.n_captures, 1);
    free_net(&net);
}

/* Every allocation fails in turn: the call says so, and what it changes is as
 * it was, or as it is behind a call. */
static void
test_no_memory(void **state)
{
    struct bell_context *ctx = open_device("CPU");
    struct bell_tensor *x, *y;
    struct pair p = {0};
    struct bell_jit *jit;
    float value = 0;
    uint64_t n;
    int done;
    bell_status status;

    (void)state;
    p.a = vector(ctx, 4, 0);
    x = bell_ones(ctx, BELL_DIMS(4), BELL_FLOAT32);
    expect_ok(bell_realize1(x));
    jit = make_jit(ctx, "change", change, &p, 1, 1); /* compiles */
    expect_ok(bell_jit_call(jit, &x, &y));
    bell_jit_destroy(jit);
    value = 1;
    for (n = 1, done = 0; done < 2; n++) {
        expect_ok(bell_scope_begin(ctx));
        jit = make_jit(ctx, "change", change, &p, 1, 1);
        host_fail_after(n, 1);
        status = bell_jit_call(jit, &x, &y);
        if (status == BELL_OK) {
            value += 1;
            status = bell_jit_call(jit, &x, &y);
            value += status == BELL_OK;
        }
        host_fail_after(0, 0);
        if (status == BELL_OK)
            done++;
        else
            assert_int_equal(bell_error_last()->status, BELL_E_NO_MEMORY);
        bell_error_clear();
        assert_int_equal(bell_context_status(ctx), BELL_OK);
        expect_vector(p.a, 4, value);
        expect_ok(bell_jit_call(jit, &x, &y));
        value += 1;
        expect_vector(p.a, 4, value);
        bell_jit_destroy(jit);
        expect_ok(bell_scope_end(ctx));
    }
    bell_context_destroy(ctx);
}

/* The same of a step of training: its generator, its optimiser's step and its
 * parameters are then those of so many steps. */
static void
test_no_memory_training(void **state)
{
    struct bell_tensor *in[2], *loss;
    struct net plain, net;
    uint64_t n, at = 1;
    uint32_t steps = 0, i;
    bell_status status;

    (void)state;
    make_net(&plain, "CPU", ADAM);
    make_net(&net, "CPU", ADAM);
    do_step(&net, steps++, true); /* compiles */
    for (n = 0; n < 2; at += 1 + at / 16) {
        expect_ok(bell_scope_begin(net.ctx));
        if (n == 0) {
            bell_jit_destroy(net.jit);
            net.jit = make_jit(net.ctx, "step", train_step, &net, 2, 1);
        }
        make_batch(net.ctx, steps, in);
        host_fail_after(at, 1);
        status = bell_jit_call(net.jit, in, &loss);
        host_fail_after(0, 0);
        if (status == BELL_OK) {
            n++;
            at = 1;
            steps++;
        } else {
            if (bell_error_last()->status != BELL_E_NO_MEMORY)
                fail_msg("allocation %d: %s", (int)at,
                         bell_error_last()->message);
        }
        bell_error_clear();
        expect_ok(bell_scope_end(net.ctx));
    }
    for (i = 0; i < steps; i++)
        do_step(&plain, i, false);
    for (i = 0; i < plain.params.n; i++)
        expect_same(plain.params.tensors[i], net.params.tensors[i]);
    free_net(&plain);
    free_net(&net);
}

/* Outputs may go where the inputs are: x = f(x). */
static bell_status
turn(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct bell_jit *inner = user;

    (void)ctx;
    if (inner) {
        out[0] = in[0];
        out[1] = in[1];
        return bell_jit_call(inner, out, out);
    }
    out[0] = bell_add(in[0], in[1]);
    out[1] = bell_sub(in[0], in[1]);
    return BELL_OK;
}

static void
test_same_list(void **state)
{
    uint32_t k, i;

    (void)state;
    for (k = 0; k < 2 * ARRAY_LEN(devices); k++) {
        struct bell_context *ctx = open_device(devices[k / 2]);
        struct bell_jit *inner = make_jit(ctx, "turn", turn, NULL, 2, 2);
        struct bell_jit *jit = make_jit(ctx, "outer", turn, inner, 2, 2);
        struct bell_tensor *x[2] = {vector(ctx, 5, 1), vector(ctx, 5, 1)};

        bell_assign(x[1], bell_zeros_like(x[1], BELL_DEFAULT));
        for (i = 0; i < 6; i++)
            expect_ok(bell_jit_call(k % 2 ? jit : inner, x, x));
        /* twice is times two */
        x[0] = bell_div_scalar(x[0], 8);
        expect_vector(x[0], 5, 1);
        bell_jit_destroy(jit);
        bell_jit_destroy(inner);
        bell_context_destroy(ctx);
    }
}

/* ---- realizes that recur ---- */

/* Several kernels, a number and an offset that vary, a row of `rows`
 * written. */
static struct bell_tensor *
recur(struct bell_context *c, struct bell_tensor *x, struct bell_tensor *rows,
      int64_t i)
{
    struct bell_tensor *y, *s;

    (void)c;
    y = bell_contiguous(bell_softmax(bell_matmul(x, bell_t(x)), 1));
    y = bell_contiguous(bell_matmul(y, x));
    s = bell_contiguous(bell_sum(y, BELL_DIMS(0), true));
    y = bell_add(bell_mul_scalar(y, 1 + 0.01 * (double)i),
                 bell_narrow(rows, 0, i % 3, 1));
    bell_assign_slice(rows, (int64_t[]){(i + 1) % 3, 0}, 2, s);
    return y;
}

#define RECURS 16

/* From the eighth time of a plan on they are graphs; the bits are those of
 * contexts that realize once. */
static void
test_recurring(void **state)
{
    static const char *const names[] = {"CPU", "NV@sim:sm_80", "AMD@sim:gfx942",
                                        "AMD@sim:gfx1100"};
    float x[2][96], rows[2][48];
    struct bell_tensor *tx, *trows;
    struct bell_context *one, *many;
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    size_t d, k;
    int64_t i;

    (void)state;
    for (d = 0; d < ARRAY_LEN(names); d++) {
        for (k = 0; k < 96; k++)
            x[0][k] = (float)((k * 7919) % 97) / 60 - 0.7f;
        memset(rows, 0, sizeof(rows));
        memcpy(x[1], x[0], sizeof(x[0]));
        assert_int_equal(bell_context_create(names[d], &many), BELL_OK);
        trows = bell_from_data(many, BELL_DIMS(3, 16), BELL_FLOAT32, rows[0]);
        tx = bell_from_data(many, BELL_DIMS(6, 16), BELL_FLOAT32, x[0]);
        for (i = 0; i < RECURS; i++) {
            struct bell_tensor *ox, *orows;
            tx = recur(many, tx, trows, i);
            assert_int_equal(bell_read(tx, x[0], sizeof(x[0])), BELL_OK);
            assert_int_equal(bell_read(trows, rows[0], sizeof(rows[0])),
                             BELL_OK);
            bell_context_stats(many, &stats);
            if (i < 6)
                assert_int_equal(stats.n_graphs, 0);
            assert_int_equal(bell_context_create(names[d], &one), BELL_OK);
            orows =
                bell_from_data(one, BELL_DIMS(3, 16), BELL_FLOAT32, rows[1]);
            ox = bell_from_data(one, BELL_DIMS(6, 16), BELL_FLOAT32, x[1]);
            ox = recur(one, ox, orows, i);
            assert_int_equal(bell_read(ox, x[1], sizeof(x[1])), BELL_OK);
            assert_int_equal(bell_read(orows, rows[1], sizeof(rows[1])),
                             BELL_OK);
            bell_context_destroy(one);
            assert_memory_equal(x[0], x[1], sizeof(x[0]));
            assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
        }
        assert_true(stats.n_graphs >= 8);
        bell_context_destroy(many);
    }
}

/* Two of the caller's arrays that share memory: what is written of one is read
 * of the other, in the order of the calls. */
static void
test_recurring_shared(void **state)
{
    static float memory[2][1024 + 16] __attribute__((aligned(64)));
    struct bell_context *c[2];
    struct bell_tensor *a, *b, *s, *v;
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    float copy[1024];
    int64_t i;
    int k;

    (void)state;
    for (i = 0; i < 1040; i++)
        memory[0][i] = memory[1][i] = (float)(i % 13) / 13;
    assert_int_equal(bell_context_create("CPU", &c[0]), BELL_OK);
    for (i = 0; i < 12; i++) {
        assert_int_equal(bell_context_create("CPU", &c[1]), BELL_OK);
        for (k = 0; k < 2; k++) {
            assert_int_equal(bell_scope_begin(c[k]), BELL_OK);
            a = bell_from_blob(c[k], BELL_DIMS(1024), BELL_FLOAT32, memory[k],
                               NULL, NULL);
            b = bell_from_blob(c[k], BELL_DIMS(1024), BELL_FLOAT32,
                               memory[k] + 16, NULL, NULL);
            s = bell_contiguous(bell_mean(b, BELL_DIMS(0), true));
            v = bell_contiguous(bell_mul(bell_narrow(b, 0, 0, 16), s));
            v = bell_sub(v, bell_max(bell_mul(v, v), BELL_DIMS(0), true));
            bell_assign_slice(a, (int64_t[]){16 * i + 8}, 1, v);
            assert_int_equal(bell_read(a, copy, sizeof(copy)), BELL_OK);
            bell_context_stats(c[k], &stats);
            assert_int_equal(stats.n_graphs, 0);
            assert_int_equal(bell_scope_end(c[k]), BELL_OK);
        }
        bell_context_destroy(c[1]);
        assert_memory_equal(memory[0], memory[1], sizeof(memory[0]));
    }
    bell_context_destroy(c[0]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_swap),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_one_buffer),
        cmocka_unit_test(test_sized),
        cmocka_unit_test(test_wide_integer),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_function_misuse),
        cmocka_unit_test(test_call_misuse),
        cmocka_unit_test(test_state_misuse),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_training),
        cmocka_unit_test(test_same_list),
        cmocka_unit_test(test_recurring),
        cmocka_unit_test(test_recurring_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
