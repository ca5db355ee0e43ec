/* Layers and losses over batches and sequences of the sizes of symbols: what
 * plain sizes give, gradients too, by one plan of about as many kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/sanitized.h"

#define MAX_B  4
#define MAX_S  24
#define WIDTH  16
#define VOCAB  11
#define N_OUT  4
#define N_ROOM 4096

static const char *const devices[] = {"CPU", "NV@sim:sm_90"};

static struct bell_context *ctx;
static struct bell_nn_embedding embedding;
static struct bell_nn_transformer layer;
static struct bell_nn_linear head;
static struct bell_nn_rnn gru;
static struct bell_tensor *tokens, *q, *k, *mask;

/* Fills out[] with results of batch b and sequence s; how many. */
typedef uint32_t step_fn(struct bell_dim b, struct bell_dim s,
                         struct bell_tensor **out);

static struct bell_tensor *
first(struct bell_tensor *t, struct bell_dim b, struct bell_dim s)
{
    return bell_narrow(bell_narrow(t, 0, 0, b), 1, 0, s);
}

/* Heads in front of the sequence. */
static struct bell_tensor *
heads(struct bell_tensor *t, struct bell_dim b, struct bell_dim s)
{
    return bell_narrow(bell_narrow(t, 0, 0, b), 2, 0, s);
}

static uint32_t
causal(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    out[0] = bell_scaled_dot_product_attention(
        heads(q, b, s), heads(k, b, s), heads(k, b, s), NULL, 0, true, 0);
    return 1;
}

/* Two heads of queries for each of keys, and a mask. */
static uint32_t
grouped(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    struct bell_tensor *few = bell_narrow(heads(k, b, s), 1, 0, 2);

    out[0] = bell_scaled_dot_product_attention(
        heads(q, b, s), few, few,
        bell_narrow(bell_narrow(mask, 0, 0, s), 1, 0, s), 0, false, 0);
    return 1;
}

/* One query against the keys so far. */
static uint32_t
decode(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    struct bell_tensor *last =
        bell_narrow(bell_narrow(q, 0, 0, b), 2, bell_dim_sub(ctx, s, 1), 1);

    out[0] = bell_scaled_dot_product_attention(
        last, heads(k, b, s), heads(k, b, s), NULL, 0, false, 0);
    return 1;
}

/* Steps of a recurrent layer, of a batch. */
static uint32_t
recur(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    struct bell_tensor *x = bell_nn_embedding(
        &embedding, bell_narrow(bell_narrow(tokens, 0, 0, 3), 1, 0, s));

    (void)b;
    out[0] = bell_nn_gru(&gru, x, NULL, &out[1]);
    return 2;
}

/* Running results of more elements than are looked at at once. */
static uint32_t
running(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    struct bell_tensor *x = bell_flatten(heads(q, b, s), 1, 3);

    bell_cummax_at(bell_narrow(x, 1, 0, bell_dim_mul(ctx, s, 6)), 1, &out[0],
                   &out[1]);
    out[1] = bell_cast(out[1], BELL_FLOAT32);
    out[2] = bell_cumprod(bell_narrow(x, 1, 0, s), 1);
    return 3;
}

static struct bell_tensor *
logits(struct bell_dim b, struct bell_dim s)
{
    struct bell_tensor *x = bell_nn_embedding(&embedding, first(tokens, b, s));

    x = bell_nn_transformer(&layer, x, NULL, true);
    return bell_nn_linear(&head, x);
}

static uint32_t
forward(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    out[0] = logits(b, s);
    return 1;
}

static uint32_t
training(struct bell_dim b, struct bell_dim s, struct bell_tensor **out)
{
    struct bell_tensor *of[] = {embedding.weight, layer.attn.wq.weight,
                                layer.norm1.weight};
    struct bell_tensor *x = logits(b, s);

    x = bell_reshape(x, BELL_SHAPE(bell_dim_mul(ctx, b, s), VOCAB));
    out[0] = bell_cross_entropy(x, bell_flatten(first(tokens, b, s), 0, -1), 0,
                                BELL_IGNORE_NONE, BELL_MEAN);
    assert_int_equal(bell_gradient(out[0], of, 3, out + 1), BELL_OK);
    return 4;
}

static const struct {
    const char *name;
    step_fn *fn;
    uint64_t most; /* kernels */
} steps[] = {
    {"causal", causal, 1},      {"grouped", grouped, 2},
    {"recur", recur, 24},       {"running", running, 6},
    {"decode", decode, 4},      {"forward", forward, 23},
    {"training", training, 42},
};

static const int64_t sizes[][2] = {{4, 24}, {2, 7}, {1, 3}, {3, 16}};

static struct bell_tensor *
numbers(const int64_t *shape, uint32_t n, enum bell_dtype dtype, double scale)
{
    static float v[MAX_B * 4 * MAX_S * WIDTH];
    size_t count = 1, i;
    uint32_t a;

    for (a = 0; a < n; a++)
        count *= (size_t)shape[a];
    assert_true(count <= ARRAY_LEN(v));
    for (i = 0; i < count; i++)
        v[i] = (float)(scale * (double)((i + 5) * 7919 % 1009) / 1009);
    return bell_cast(bell_from_data(ctx, shape, n, BELL_FLOAT32, v), dtype);
}

static void
make_model(void)
{
    const struct bell_nn_transformer_options options = {.struct_size =
                                                            sizeof(options),
                                                        .size = WIDTH,
                                                        .n_heads = 4,
                                                        .is_norm_first = true};
    const struct bell_nn_rnn_options rnn = {.struct_size = sizeof(rnn),
                                            .in = WIDTH,
                                            .hidden = WIDTH,
                                            .n_layers = 1};
    struct bell_tensor *all[4];

    bell_manual_seed(ctx, 3);
    assert_int_equal(bell_nn_embedding_init(ctx, VOCAB, WIDTH, &embedding),
                     BELL_OK);
    assert_int_equal(bell_nn_transformer_init(ctx, &options, &layer), BELL_OK);
    assert_int_equal(bell_nn_linear_init(ctx, WIDTH, VOCAB, true, &head),
                     BELL_OK);
    assert_int_equal(bell_nn_gru_init(ctx, &rnn, &gru), BELL_OK);
    all[0] = tokens = numbers(BELL_DIMS(MAX_B, MAX_S), BELL_INT64, VOCAB - 1);
    all[1] = q = numbers(BELL_DIMS(MAX_B, 4, MAX_S, 8), BELL_FLOAT32, 2);
    all[2] = k = numbers(BELL_DIMS(MAX_B, 4, MAX_S, 8), BELL_FLOAT32, -1.5);
    all[3] = mask = numbers(BELL_DIMS(MAX_S, MAX_S), BELL_FLOAT32, -3);
    assert_int_equal(bell_realize(all, 4), BELL_OK);
}

static void
end_model(void)
{
    bell_module_fini(&bell_nn_embedding_type, &embedding);
    bell_module_fini(&bell_nn_transformer_type, &layer);
    bell_module_fini(&bell_nn_linear_type, &head);
    bell_module_fini(&bell_nn_rnn_type, &gru);
}

/* The results one after the other, and how many plans and kernels. */
static size_t
compute(step_fn *fn, struct bell_dim b, struct bell_dim s,
        float v[static N_OUT * N_ROOM], uint64_t *plans, uint64_t *kernels)
{
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    struct bell_tensor *out[N_OUT];
    size_t used = 0, n;
    uint32_t count, i;

    bell_context_stats(ctx, &before);
    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    count = fn(b, s, out);
    if (bell_realize(out, count) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < count; i++) {
        n = bell_numel(out[i]);
        assert_true(used + n <= N_OUT * N_ROOM);
        assert_int_equal(bell_read(out[i], v + used, n * sizeof(*v)), BELL_OK);
        used += n;
    }
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    bell_context_stats(ctx, &after);
    *plans = after.n_plans - before.n_plans;
    *kernels = after.n_kernels_planned - before.n_kernels_planned;
    return used;
}

static void
test_layers(void **state)
{
    static float want[N_OUT * N_ROOM], got[N_OUT * N_ROOM];
    uint64_t plans, kernels, plain = 0;
    struct bell_dim b, s;
    size_t d, i, r, n, j;

    (void)state;
    for (d = 0; d < ARRAY_LEN(devices) - IS_SANITIZED; d++) {
        assert_int_equal(bell_context_create(devices[d], &ctx), BELL_OK);
        b = bell_symbol(ctx, "b", 1, MAX_B);
        s = bell_symbol(ctx, "s", 1, MAX_S);
        make_model();
        for (i = 0; i < ARRAY_LEN(steps); i++) {
            for (r = 0; r < ARRAY_LEN(sizes); r++) {
                n = compute(steps[i].fn, bell_dim_of(sizes[r][0]),
                            bell_dim_of(sizes[r][1]), want, &plans, &kernels);
                plain = r ? plain : kernels;
                assert_int_equal(bell_symbol_set(ctx, b, sizes[r][0]), BELL_OK);
                assert_int_equal(bell_symbol_set(ctx, s, sizes[r][1]), BELL_OK);
                assert_int_equal(
                    compute(steps[i].fn, b, s, got, &plans, &kernels), n);
                if (plans != (r == 0))
                    fail_msg("%s, %s: run %d made %d plans", devices[d],
                             steps[i].name, (int)r, (int)plans);
                if (r == 0)
                    print_message("%s, %s: %d kernels, %d of plain sizes\n",
                                  devices[d], steps[i].name, (int)kernels,
                                  (int)plain);
                if (kernels > steps[i].most)
                    fail_msg("%s, %s: %d kernels", devices[d], steps[i].name,
                             (int)kernels);
                for (j = 0; j < n; j++) {
                    if (!(fabsf(got[j] - want[j]) <=
                          3e-5f * (1 + fabsf(want[j]))))
                        fail_msg("%s, %s: run %d, element %d: %g, not %g",
                                 devices[d], steps[i].name, (int)r, (int)j,
                                 (double)got[j], (double)want[j]);
                }
            }
        }
        end_model();
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests_name("size_layers", tests, NULL, NULL);
}
