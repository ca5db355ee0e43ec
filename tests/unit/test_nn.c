/* Layers against PyTorch's: values and gradients (torch_nn.h, whose script says
 * what they are computed of); the cache; what is refused. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/nn.h"
#include "tests/unit/tensor_host.h"
#include "tests/unit/torch_nn.h"

#define MAX_ELEMS 2048

/* Room for any of the layers. */
union any_layer {
    struct bell_nn_conv conv;
    struct bell_nn_group_norm group_norm;
    struct bell_nn_instance_norm instance_norm;
    struct bell_nn_rms_norm rms_norm;
    struct bell_nn_batch_norm batch_norm;
    struct bell_nn_cell cell;
    struct bell_nn_rnn rnn;
    struct bell_nn_attention attention;
    struct bell_nn_transformer transformer;
};

/* float32 numbers scale sin(first + step i) of a shape. */
static struct bell_tensor *
wave(const int64_t *shape, uint32_t ndim, double scale, double first,
     double step)
{
    float values[MAX_ELEMS];
    size_t n = 1, i;

    for (i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    assert_true(n <= MAX_ELEMS);
    for (i = 0; i < n; i++)
        values[i] = (float)(scale * sin(first + step * (double)i));
    return bell_from_data(ctx, shape, ndim, BELL_FLOAT32, values);
}

/* sum_i t[i] cos(step i). */
static struct bell_tensor *
weigh(struct bell_tensor *t, double step)
{
    int64_t n = (int64_t)bell_numel(t);
    struct bell_tensor *w = wave(&n, 1, 1, asin(1), step);

    return bell_sum(bell_mul(bell_reshape(t, &n, 1), w), BELL_NO_DIMS, false);
}

/* ---- rows ---- */

static bell_status
init_conv1d(union any_layer *l)
{
    const struct bell_conv_options o = {
        .struct_size = sizeof(o), .stride = {2}, .padding = {1}, .groups = 2};

    return bell_nn_conv1d_init(ctx, 2, 4, 3, &o, true, &l->conv);
}

static struct bell_tensor *
run_conv1d(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_conv1d(&l->conv, x);
}

static bell_status
init_transpose2d(union any_layer *l)
{
    const struct bell_conv_options o = {.struct_size = sizeof(o),
                                        .stride = {2, 2},
                                        .padding = {1, 1},
                                        .groups = 2,
                                        .output_padding = {1, 1}};

    return bell_nn_conv_transpose2d_init(ctx, 4, 2, 3, 2, &o, true, &l->conv);
}

static struct bell_tensor *
run_transpose2d(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_conv_transpose2d(&l->conv, x);
}

static bell_status
init_conv3d(union any_layer *l)
{
    const struct bell_conv_options o = {.struct_size = sizeof(o),
                                        .stride = {2, 1, 1},
                                        .padding = {1, 0, 1},
                                        .groups = 2};

    return bell_nn_conv3d_init(ctx, 2, 4, (const int64_t[]){3, 2, 1}, &o, true,
                               &l->conv);
}

static struct bell_tensor *
run_conv3d(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_conv3d(&l->conv, x);
}

static bell_status
init_transpose1d(union any_layer *l)
{
    const struct bell_conv_options o = {.struct_size = sizeof(o),
                                        .stride = {3},
                                        .padding = {1},
                                        .dilation = {2},
                                        .output_padding = {1}};

    return bell_nn_conv_transpose1d_init(ctx, 3, 2, 4, &o, false, &l->conv);
}

static struct bell_tensor *
run_transpose1d(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_conv_transpose1d(&l->conv, x);
}

static bell_status
init_transpose3d(union any_layer *l)
{
    const struct bell_conv_options o = {.struct_size = sizeof(o),
                                        .stride = {1, 2, 2},
                                        .padding = {0, 1, 0},
                                        .groups = 2};

    return bell_nn_conv_transpose3d_init(ctx, 2, 4, (const int64_t[]){1, 3, 2},
                                         &o, true, &l->conv);
}

static struct bell_tensor *
run_transpose3d(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_conv_transpose3d(&l->conv, x);
}

static bell_status
init_group_norm(union any_layer *l)
{
    return bell_nn_group_norm_init(ctx, 2, 4, &l->group_norm);
}

static struct bell_tensor *
run_group_norm(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_group_norm(&l->group_norm, x);
}

static bell_status
init_instance_norm(union any_layer *l)
{
    return bell_nn_instance_norm_init(ctx, 3, true, &l->instance_norm);
}

static struct bell_tensor *
run_instance_norm(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_instance_norm(&l->instance_norm, x);
}

static bell_status
init_rms_norm(union any_layer *l)
{
    return bell_nn_rms_norm_init(ctx, BELL_DIMS(5), 1e-6, &l->rms_norm);
}

static bell_status
init_rms_norm_two(union any_layer *l)
{
    return bell_nn_rms_norm_init(ctx, BELL_DIMS(3, 2), 1e-6, &l->rms_norm);
}

static struct bell_tensor *
run_rms_norm(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_rms_norm(&l->rms_norm, x);
}

static bell_status
init_batch_norm(union any_layer *l)
{
    return bell_nn_batch_norm_init(ctx, 3, &l->batch_norm);
}

static struct bell_tensor *
run_batch_norm(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_batch_norm(&l->batch_norm, x);
}

static bell_status
init_lstm_cell(union any_layer *l)
{
    return bell_nn_lstm_cell_init(ctx, 3, 2, true, &l->cell);
}

static struct bell_tensor *
run_lstm_cell(union any_layer *l, struct bell_tensor *x)
{
    struct bell_tensor *h = bell_zeros(ctx, BELL_DIMS(2, 2), BELL_FLOAT32);
    struct bell_tensor *c = h;

    h = bell_nn_lstm_cell(&l->cell, bell_select(x, 0, 0), h, c, &c);
    h = bell_nn_lstm_cell(&l->cell, bell_select(x, 0, 1), h, c, &c);
    return bell_cat(BELL_TENSORS(h, c), 0);
}

static bell_status
init_gru_cell(union any_layer *l)
{
    return bell_nn_gru_cell_init(ctx, 3, 2, true, &l->cell);
}

static struct bell_tensor *
run_gru_cell(union any_layer *l, struct bell_tensor *x)
{
    struct bell_tensor *h = bell_zeros(ctx, BELL_DIMS(2, 2), BELL_FLOAT32);

    h = bell_nn_gru_cell(&l->cell, bell_select(x, 0, 0), h);
    return bell_nn_gru_cell(&l->cell, bell_select(x, 0, 1), h);
}

static struct bell_tensor *
flat(struct bell_tensor *t)
{
    return bell_flatten(t, 0, -1);
}

static struct bell_tensor *
run_lstm(union any_layer *l, struct bell_tensor *x)
{
    struct bell_tensor *y, *h, *c;

    y = bell_nn_lstm(&l->rnn, x, NULL, NULL, &h, &c);
    return bell_cat(BELL_TENSORS(flat(y), flat(h), flat(c)), 0);
}

static struct bell_tensor *
run_gru(union any_layer *l, struct bell_tensor *x)
{
    struct bell_tensor *y, *h;

    y = bell_nn_gru(&l->rnn, x, NULL, &h);
    return bell_cat(BELL_TENSORS(flat(y), flat(h)), 0);
}

static bell_status
init_lstm(union any_layer *l)
{
    const struct bell_nn_rnn_options o = {
        .struct_size = sizeof(o), .in = 3, .hidden = 2};

    return bell_nn_lstm_init(ctx, &o, &l->rnn);
}

static bell_status
init_lstm_both(union any_layer *l)
{
    const struct bell_nn_rnn_options o = {.struct_size = sizeof(o),
                                          .in = 2,
                                          .hidden = 2,
                                          .n_layers = 2,
                                          .is_bidirectional = true,
                                          .is_batch_first = true};

    return bell_nn_lstm_init(ctx, &o, &l->rnn);
}

static bell_status
init_gru(union any_layer *l)
{
    const struct bell_nn_rnn_options o = {.struct_size = sizeof(o),
                                          .in = 3,
                                          .hidden = 2,
                                          .n_layers = 2,
                                          .without_bias = true};

    return bell_nn_gru_init(ctx, &o, &l->rnn);
}

static bell_status
init_gru_long(union any_layer *l)
{
    const struct bell_nn_rnn_options o = {
        .struct_size = sizeof(o), .in = 1, .hidden = 1};

    return bell_nn_gru_init(ctx, &o, &l->rnn);
}

static bell_status
init_attention(union any_layer *l)
{
    const struct bell_nn_attention_options o = {
        .struct_size = sizeof(o), .size = 4, .n_heads = 2};

    return bell_nn_attention_init(ctx, &o, &l->attention);
}

static struct bell_tensor *
run_attention(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_attention(&l->attention, x, NULL, NULL, false);
}

static bell_status
init_causal(union any_layer *l)
{
    const struct bell_nn_attention_options o = {
        .struct_size = sizeof(o), .size = 6, .n_heads = 3};

    return bell_nn_attention_init(ctx, &o, &l->attention);
}

static struct bell_tensor *
run_causal(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_attention(&l->attention, x, x, NULL, true);
}

static bell_status
init_transformer(union any_layer *l)
{
    const struct bell_nn_transformer_options o = {.struct_size = sizeof(o),
                                                  .size = 4,
                                                  .n_heads = 2,
                                                  .hidden = 8,
                                                  .is_relu = true};

    return bell_nn_transformer_init(ctx, &o, &l->transformer);
}

static struct bell_tensor *
run_transformer(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_transformer(&l->transformer, x, NULL, false);
}

static bell_status
init_norm_first(union any_layer *l)
{
    const struct bell_nn_transformer_options o = {.struct_size = sizeof(o),
                                                  .size = 4,
                                                  .n_heads = 2,
                                                  .hidden = 6,
                                                  .is_norm_first = true};

    return bell_nn_transformer_init(ctx, &o, &l->transformer);
}

static struct bell_tensor *
run_norm_first(union any_layer *l, struct bell_tensor *x)
{
    return bell_nn_transformer(&l->transformer, x, NULL, true);
}

static const struct layer_row {
    const char *name;
    const struct bell_module_type *type;
    bell_status (*init)(union any_layer *l);
    struct bell_tensor *(*run)(union any_layer *l, struct bell_tensor *x);
    int64_t shape[5];
    uint32_t ndim;
} rows[] = {
    {"conv1d", &bell_nn_conv_type, init_conv1d, run_conv1d, {2, 2, 5}, 3},
    {"conv3d", &bell_nn_conv_type, init_conv3d, run_conv3d, {1, 2, 3, 4, 2}, 5},
    {"conv_transpose1d",
     &bell_nn_conv_type,
     init_transpose1d,
     run_transpose1d,
     {2, 3, 4},
     3},
    {"conv_transpose2d",
     &bell_nn_conv_type,
     init_transpose2d,
     run_transpose2d,
     {1, 4, 2, 3},
     4},
    {"conv_transpose3d",
     &bell_nn_conv_type,
     init_transpose3d,
     run_transpose3d,
     {1, 2, 2, 3, 2},
     5},
    {"group_norm",
     &bell_nn_group_norm_type,
     init_group_norm,
     run_group_norm,
     {2, 4, 3},
     3},
    {"instance_norm",
     &bell_nn_instance_norm_type,
     init_instance_norm,
     run_instance_norm,
     {2, 3, 4},
     3},
    {"rms_norm",
     &bell_nn_rms_norm_type,
     init_rms_norm,
     run_rms_norm,
     {3, 5},
     2},
    {"rms_norm_two",
     &bell_nn_rms_norm_type,
     init_rms_norm_two,
     run_rms_norm,
     {4, 3, 2},
     3},
    {"batch_norm",
     &bell_nn_batch_norm_type,
     init_batch_norm,
     run_batch_norm,
     {4, 3, 2},
     3},
    {"lstm_cell",
     &bell_nn_cell_type,
     init_lstm_cell,
     run_lstm_cell,
     {2, 2, 3},
     3},
    {"gru_cell", &bell_nn_cell_type, init_gru_cell, run_gru_cell, {2, 2, 3}, 3},
    {"lstm", &bell_nn_rnn_type, init_lstm, run_lstm, {5, 2, 3}, 3},
    {"lstm_both", &bell_nn_rnn_type, init_lstm_both, run_lstm, {2, 3, 2}, 3},
    {"gru", &bell_nn_rnn_type, init_gru, run_gru, {4, 1, 3}, 3},
    {"gru_long", &bell_nn_rnn_type, init_gru_long, run_gru, {20, 1, 1}, 3},
    {"attention",
     &bell_nn_attention_type,
     init_attention,
     run_attention,
     {2, 3, 4},
     3},
    {"attention_causal",
     &bell_nn_attention_type,
     init_causal,
     run_causal,
     {1, 4, 6},
     3},
    {"transformer",
     &bell_nn_transformer_type,
     init_transformer,
     run_transformer,
     {2, 3, 4},
     3},
    {"transformer_first",
     &bell_nn_transformer_type,
     init_norm_first,
     run_norm_first,
     {2, 3, 4},
     3},
};

/* ---- values and gradients ---- */

/* The parameters of a layer, with the numbers of the script. */
static void
list_params(const struct bell_module_type *type, const void *layer,
            struct bell_params *params)
{
    uint32_t i;

    assert_int_equal(bell_params_add_module(params, type, layer), BELL_OK);
    for (i = 0; i < params->n; i++) {
        struct bell_tensor *t = params->tensors[i];
        int64_t shape[5];

        memcpy(shape, bell_shape(t), bell_ndim(t) * sizeof(*shape));
        bell_assign(t, wave(shape, bell_ndim(t), 0.4, i + 1, 0.37));
    }
}

/* n values of t; gives those that come after. */
static const double *
expect_next(const char *name, const char *what, struct bell_tensor *t,
            const double *want, double eps)
{
    double got[MAX_ELEMS];
    size_t n = (size_t)bell_numel(t), i;

    if (bell_read_f64(t, got, n) != BELL_OK)
        fail_msg("%s: %s", name, bell_error_last()->message);
    for (i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= eps * (1 + fabs(want[i]))))
            fail_msg("%s, %s %zu: %.9g, not %.9g", name, what, i, got[i],
                     want[i]);
    }
    return want + n;
}

static void
check_layer(const struct layer_row *row, const struct torch_layer *torch)
{
    struct bell_params params = {0};
    struct bell_tensor *x, *y, *sum;
    struct bell_context_info before = {.struct_size = sizeof(before)},
                             after = {.struct_size = sizeof(after)};
    const double *at = torch->values;
    union any_layer layer;
    uint32_t i;

    memset(&layer, 0, sizeof(layer));
    assert_string_equal(row->name, torch->name);
    if (row->init(&layer) != BELL_OK)
        fail_msg("%s: %s", row->name, bell_error_last()->message);
    list_params(row->type, &layer, &params);
    x = bell_requires_grad(wave(row->shape, row->ndim, 1, 0.5, 0.91), true);
    y = row->run(&layer, x);
    assert_int_equal(bell_backward(weigh(y, 0.3)), BELL_OK);
    at = expect_next(row->name, "output", y, at, 1e-5);
    at = expect_next(row->name, "input's gradient", bell_grad(x), at, 5e-5);
    for (i = 0; i < params.n; i++) {
        sum = weigh(bell_grad(params.tensors[i]), 0.2);
        at = expect_next(row->name, "parameter's gradient", sum, at, 5e-5);
    }
    assert_int_equal(at - torch->values, torch->n);
    /* A call leaves one tensor in the scope, but for what the rows make. */
    if (row->type == &bell_nn_transformer_type ||
        row->type == &bell_nn_batch_norm_type) {
        bell_context_get_info(ctx, &before);
        y = row->run(&layer, x);
        bell_context_get_info(ctx, &after);
        assert_int_equal(after.n_tensors, before.n_tensors + 1);
    }
    bell_params_fini(&params);
    bell_module_fini(row->type, &layer);
}

static void
test_torch(void **state)
{
    size_t i;

    (void)state;
    assert_int_equal(ARRAY_LEN(rows), ARRAY_LEN(torch_layers));
    bell_set_training(ctx, true);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        check_layer(&rows[i], &torch_layers[i]);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
}

/* ---- the cache ---- */

/* Positions that come one after the other, or a few at a time, give what all of
 * them at once do; also where several heads share keys. */
static void
test_cache(void **state)
{
    static const int64_t parts[] = {3, 1, 1, 2};
    const struct bell_nn_transformer_options o = {.struct_size = sizeof(o),
                                                  .size = 8,
                                                  .n_heads = 4,
                                                  .n_kv_heads = 2,
                                                  .is_norm_first = true};
    struct bell_tensor *x = wave(BELL_DIMS(2, 7, 8), 1, 0.5, 0.91), *y, *part;
    struct bell_nn_kv_cache cache;
    struct bell_nn_transformer block;
    double want[112];
    int64_t at = 0;
    size_t i;

    (void)state;
    assert_int_equal(bell_nn_transformer_init(ctx, &o, &block), BELL_OK);
    EXPECT_SHAPE(block.attn.wk.weight, 4, 8);
    assert_int_equal(bell_nn_kv_cache_init(ctx, &block.attn, 2, 8, &cache),
                     BELL_OK);
    y = bell_nn_transformer(&block, x, NULL, true);
    for (i = 0; i < ARRAY_LEN(parts); at += parts[i++]) {
        part = bell_narrow(y, 1, at, parts[i]);
        assert_int_equal(bell_read_f64(part, want, (size_t)bell_numel(part)),
                         BELL_OK);
        part = bell_narrow(x, 1, at, parts[i]);
        part = bell_nn_transformer_next(&block, &cache, part);
        expect_next("cache", "element", part, want, 1e-5);
        assert_int_equal(cache.length, at + parts[i]);
    }
    EXPECT_ERROR(bell_nn_transformer_next(&block, &cache, x),
                 "bell_nn_attention_next: x is (2, 7, 8); the cache (2, 2, 8, "
                 "2) has 7 positions: it must have room for all of x");
    assert_int_equal(cache.length, 7);
    /* Back, and on again. */
    cache.length = 6;
    part = bell_nn_transformer_next(&block, &cache, bell_narrow(x, 1, 6, 1));
    assert_int_equal(bell_read_f64(bell_narrow(y, 1, 6, 1), want, 16), BELL_OK);
    expect_next("cache", "element", part, want, 1e-5);
    bell_module_fini(&bell_nn_kv_cache_type, &cache);
    bell_module_fini(&bell_nn_transformer_type, &block);
}

/* ---- what else ---- */

static void
test_defaults(void **state)
{
    const struct bell_nn_rnn_options two = {.struct_size = sizeof(two),
                                            .in = 3,
                                            .hidden = 4,
                                            .n_layers = 2,
                                            .is_bidirectional = true};
    const struct bell_nn_attention_options heads = {
        .struct_size = sizeof(heads), .size = 8, .n_heads = 2};
    struct bell_state list = {0};
    struct bell_nn_attention attention;
    struct bell_nn_rnn lstm;
    double values[128], most = 0;
    size_t i;

    (void)state;
    assert_int_equal(bell_nn_lstm_init(ctx, &two, &lstm), BELL_OK);
    assert_int_equal(bell_module_state(&bell_nn_rnn_type, &lstm, "rnn", &list),
                     BELL_OK);
    assert_int_equal(list.n, 16);
    assert_string_equal(list.items[6].name, "rnn.bias_ih_l0_reverse");
    EXPECT_SHAPE(bell_state_find(&list, "rnn.weight_ih_l1_reverse")->tensor, 16,
                 8);
    assert_int_equal(bell_read_f64(lstm.cells[2].weight_ih, values, 128),
                     BELL_OK);
    for (i = 0; i < 128; i++)
        most = fmax(most, fabs(values[i]));
    assert_true(most > 0.4 && most <= 0.5);
    bell_state_fini(&list);
    bell_module_fini(&bell_nn_rnn_type, &lstm);
    assert_int_equal(bell_nn_attention_init(ctx, &heads, &attention), BELL_OK);
    assert_int_equal(bell_read_f64(attention.wv.weight, values, 64), BELL_OK);
    for (i = 0, most = 0; i < 64; i++)
        most = fmax(most, fabs(values[i]));
    assert_true(most > 0.38 && most <= sqrt(6.0 / 32));
    EXPECT(attention.wk.bias, 0, 0, 0, 0, 0, 0, 0, 0);
    bell_module_fini(&bell_nn_attention_type, &attention);
}

static void
test_refused(void **state)
{
    struct bell_tensor *x = wave(BELL_DIMS(2, 3), 1, 0, 1), *c;
    struct bell_nn_rnn_options o = {
        .struct_size = sizeof(o), .in = 3, .hidden = 2, .n_layers = 9};
    struct bell_nn_attention_options heads = {
        .struct_size = sizeof(heads), .size = 6, .n_heads = 4};
    struct bell_nn_instance_norm instance;
    struct bell_nn_group_norm group;
    struct bell_nn_cell cell;
    struct bell_nn_rnn rnn;
    union any_layer l;

    (void)state;
    EXPECT_STATUS(bell_nn_gru_init(ctx, &o, &rnn),
                  "bell_nn_gru_init: 9 layers with a dropout of 0; expected 8 "
                  "at most, and 0 to 1");
    o.n_layers = 1;
    assert_int_equal(bell_nn_gru_init(ctx, &o, &rnn), BELL_OK);
    EXPECT_ERROR(bell_nn_gru(&rnn, x, NULL, NULL),
                 "bell_nn_gru: x is (2, 3), not steps of 3 inputs");
    EXPECT_ERROR(bell_nn_gru(&rnn, bell_unsqueeze(x, 0), x, &c),
                 "bell_nn_gru: a beginning of (2, 3), not (1, 2, 2)");
    assert_true(bell_is_error(c));
    bell_module_fini(&bell_nn_rnn_type, &rnn);
    assert_int_equal(bell_nn_lstm_cell_init(ctx, 3, 2, true, &cell), BELL_OK);
    EXPECT_ERROR(bell_nn_lstm_cell(&cell, x, x, x, &c),
                 "bell_nn_lstm_cell: x is (2, 3), h (2, 3), c (2, 3); the cell "
                 "needs [n, 3] and [n, 2]");
    bell_module_fini(&bell_nn_cell_type, &cell);
    EXPECT_STATUS(bell_nn_attention_init(ctx, &heads, &l.attention),
                  "bell_nn_attention_init: 4 heads, 4 of keys, do not fit a "
                  "size of 6");
    heads.n_heads = 2;
    assert_int_equal(bell_nn_attention_init(ctx, &heads, &l.attention),
                     BELL_OK);
    EXPECT_ERROR(bell_nn_attention(&l.attention, x, NULL, NULL, false),
                 "bell_nn_attention: (2, 3) to (2, 3), not [n, l, 6]");
    bell_module_fini(&bell_nn_attention_type, &l.attention);
    EXPECT_STATUS(bell_nn_group_norm_init(ctx, 2, 3, &group),
                  "bell_nn_group_norm_init: 3 channels in 2 groups: the groups "
                  "must divide them");
    assert_int_equal(bell_nn_instance_norm_init(ctx, 3, false, &instance),
                     BELL_OK);
    assert_null(instance.weight);
    EXPECT_ERROR(bell_nn_instance_norm(&instance, x),
                 "bell_nn_instance_norm: x is (2, 3); axes after n and c are "
                 "needed");
}

/* An allocation that fails is an error, and nothing is left behind. */
static void
test_no_memory(void **state)
{
    const struct bell_nn_transformer_options o = {
        .struct_size = sizeof(o), .size = 4, .n_heads = 2};
    const struct bell_nn_rnn_options rnn_options = {
        .struct_size = sizeof(rnn_options), .in = 2, .hidden = 2};
    struct bell_tensor *x = wave(BELL_DIMS(2, 3, 4), 1, 0, 1), *y;
    struct bell_tensor *steps = wave(BELL_DIMS(3, 1, 2), 1, 0, 1);
    struct bell_nn_transformer block;
    struct bell_nn_rnn rnn;
    bell_status status;
    uint64_t n;

    (void)state;
    for (n = 1;; n += 3) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        memset(&block, 0, sizeof(block));
        memset(&rnn, 0, sizeof(rnn));
        host_fail_after(n, 0);
        status = bell_nn_transformer_init(ctx, &o, &block);
        if (status == BELL_OK)
            status = bell_nn_lstm_init(ctx, &rnn_options, &rnn);
        if (status == BELL_OK) {
            y = bell_nn_transformer(&block, x, NULL, true);
            y = bell_nn_lstm(&rnn, steps, NULL, NULL, NULL, NULL);
            assert_non_null(y);
            status = bell_context_status(ctx);
        }
        host_fail_after(0, 0);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        bell_module_fini(&bell_nn_rnn_type, &rnn);
        bell_module_fini(&bell_nn_transformer_type, &block);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    assert_true(n > 10);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_torch),   TEST(test_cache),     TEST(test_defaults),
        TEST(test_refused), TEST(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
