/* Structures that begin with struct_size: options of programs that were built
 * with another version, and results that have room for less.
 */
#include <stdio.h>

#include "doorbell/fft.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/optim.h"
#include "doorbell/vision.h"
#include "tests/unit/tensor_host.h"

/* What a call that was given a struct_size of `size` says. */
static void
expect_refusal(const char *call, bell_status status, uint32_t size)
{
    char want[128];

    assert_int_equal(status, BELL_E_INVALID);
    assert_int_equal(bell_error_last()->reason, BELL_REASON_VALUE);
    snprintf(want, sizeof(want),
             "%s: the options' struct_size is %u, not their size", call, size);
    if (!strstr(bell_error_last()->message, want))
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_refused(const char *call, struct bell_tensor *t, uint32_t size)
{
    assert_true(bell_is_error(t));
    expect_refusal(call, bell_context_status(ctx), size);
}

/* Zeros from before there was a struct_size are not taken for options. */
static void
refuse_options(uint32_t size)
{
    struct bell_tensor *x =
        hidden(bell_ones(ctx, BELL_DIMS(1, 1, 4, 4), BELL_FLOAT32));
    struct bell_tensor *w =
        hidden(bell_ones(ctx, BELL_DIMS(1, 1, 2, 2), BELL_FLOAT32));
    const struct bell_conv_options conv = {.struct_size = size};
    const struct bell_pool_options pool = {.struct_size = size,
                                           .kernel = {2, 2}};
    const struct bell_stft_options stft = {.struct_size = size};
    const struct bell_resize_options resize = {.struct_size = size};
    const struct bell_sgd_options sgd = {.struct_size = size, .lr = 1};
    const struct bell_adam_options adam = {.struct_size = size, .lr = 1};
    const struct bell_rmsprop_options rms = {.struct_size = size, .lr = 1};
    const struct bell_adagrad_options grad = {.struct_size = size, .lr = 1};
    const struct bell_lars_options lars = {.struct_size = size, .lr = 1};
    const struct bell_muon_options muon = {.struct_size = size, .lr = 1};
    const struct bell_nn_rnn_options rnn = {
        .struct_size = size, .in = 2, .hidden = 2};
    const struct bell_nn_attention_options heads = {
        .struct_size = size, .size = 4, .n_heads = 2};
    const struct bell_nn_transformer_options block = {
        .struct_size = size, .size = 4, .n_heads = 2};
    struct bell_optimizer *opt;
    struct bell_nn_conv layer;
    struct bell_nn_rnn cells;
    struct bell_nn_attention attention;
    struct bell_nn_transformer transformer;

    expect_refused("bell_conv2d", bell_conv2d(x, w, NULL, &conv), size);
    expect_refused("bell_conv_transpose2d",
                   bell_conv_transpose2d(x, w, NULL, &conv), size);
    expect_refused("bell_max_pool2d", bell_max_pool2d(x, &pool), size);
    expect_refused("bell_avg_pool2d", bell_avg_pool2d(x, &pool), size);
    expect_refused("bell_stft", bell_stft(x, 4, &stft), size);
    expect_refused("bell_resize", bell_resize(x, BELL_DIMS(2, 2), &resize),
                   size);
#define REFUSED(call, ...) expect_refusal(#call, call(__VA_ARGS__), size)
    REFUSED(bell_sgd_create, &w, 1, &sgd, &opt);
    REFUSED(bell_adam_create, &w, 1, &adam, &opt);
    REFUSED(bell_adamw_create, &w, 1, &adam, &opt);
    REFUSED(bell_lamb_create, &w, 1, &adam, &opt);
    REFUSED(bell_rmsprop_create, &w, 1, &rms, &opt);
    REFUSED(bell_adagrad_create, &w, 1, &grad, &opt);
    REFUSED(bell_lars_create, &w, 1, &lars, &opt);
    REFUSED(bell_muon_create, &w, 1, &muon, &opt);
    REFUSED(bell_nn_conv2d_init, ctx, 1, 1, 2, 2, &conv, true, &layer);
    REFUSED(bell_nn_lstm_init, ctx, &rnn, &cells);
    REFUSED(bell_nn_attention_init, ctx, &heads, &attention);
    REFUSED(bell_nn_transformer_init, ctx, &block, &transformer);
}

static void
test_refused(void **state)
{
    (void)state;
    refuse_options(0);
    refuse_options(4);
}

static void
test_refused_optimizer(void **state)
{
    struct bell_tensor *w = bell_requires_grad(T(V(1, 2), 2), true);
    struct bell_tensor *v = bell_requires_grad(T(V(1, 3), 2), true);
    const struct bell_group_options group = {.lr = 1};
    const struct bell_schedule schedule = {.kind = BELL_SCHEDULE_CONSTANT};
    const struct bell_scaler_options scaler = {.scale = 2};
    struct bell_optimizer *opt;
    const uint32_t size = 0;

    (void)state;
    assert_int_equal(
        bell_sgd_create(&w, 1, &BELL_OPTIONS(bell_sgd_options, .lr = 1), &opt),
        BELL_OK);
    REFUSED(bell_optimizer_add_group, opt, &v, 1, &group);
    REFUSED(bell_optimizer_set_schedule, opt, &schedule);
    REFUSED(bell_optimizer_set_scaler, opt, &scaler);
    assert_true(isnan(bell_schedule_factor(&schedule, 1)));
    assert_int_equal(bell_optimizer_set_schedule(opt, NULL), BELL_OK);
    assert_int_equal(bell_optimizer_set_scaler(opt, NULL), BELL_OK);
    assert_true(bell_optimizer_next_lr(opt, 0) == 1);
    bell_optimizer_destroy(opt);
}

/* A program that was built with a later version: what it knows more is left. */
static void
test_later_options(void **state)
{
    struct {
        struct bell_pool_options known;
        uint64_t later[4];
    } options = {.known = {.struct_size = sizeof(options), .kernel = {2}},
                 .later = {1, 2, 3, 4}};

    (void)state;
    EXPECT(bell_max_pool1d(hidden(T(V(1, 3, 2, 4), 4)), &options.known), 3, 4);
}

/* ---- results ---- */

/* Bytes beyond struct_size stay, those within it are written. */
static void
test_results(void **state)
{
    struct {
        struct bell_context_info info;
        uint8_t beyond[64];
    } room, later;

    (void)state;
    memset(&room, 0x5a, sizeof(room));
    room.info.struct_size = sizeof(room.info);
    bell_context_get_info(ctx, &room.info);
    assert_int_equal(room.info.struct_size, sizeof(room.info));
    assert_int_equal(room.info.n_scopes, 1);
    assert_int_equal(room.beyond[0], 0x5a);
    /* of a later version: what is not known is not written */
    memset(&later, 0x5a, sizeof(later));
    later.info.struct_size = sizeof(later);
    bell_context_get_info(ctx, &later.info);
    assert_int_equal(later.info.struct_size, sizeof(later));
    assert_int_equal(later.info.n_scopes, 1);
    assert_int_equal(later.beyond[0], 0x5a);
    /* nothing is written where there is no room, and that is told */
    memset(&room, 0x5a, sizeof(room));
    room.info.struct_size = 0;
    bell_error_clear();
    bell_context_get_info(ctx, &room.info);
    assert_int_equal(room.info.n_scopes, (size_t)0x5a5a5a5a5a5a5a5a);
    assert_int_equal(bell_error_last()->status, BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message,
                           "bell_context_get_info: the result's struct_size "
                           "is 0"));
    /* zeros, within it, of what there is no information about */
    memset(&room, 0x5a, sizeof(room));
    room.info.struct_size = sizeof(room.info);
    bell_context_get_info(NULL, &room.info);
    assert_int_equal(room.info.struct_size, sizeof(room.info));
    assert_int_equal(room.info.n_scopes, 0);
    assert_int_equal(room.beyond[0], 0x5a);
}

int
main(void)
{
#define TESTED(test)                                                           \
    cmocka_unit_test_setup_teardown(test, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TESTED(test_refused),
        TESTED(test_refused_optimizer),
        TESTED(test_later_options),
        TESTED(test_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
