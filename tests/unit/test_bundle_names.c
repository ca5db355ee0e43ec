/* Bundles' weights by the names of the program that saved them: what is called
 * how, which names are refused, and that a constant which happens to equal a
 * weight is not that weight.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/jit.h"
#include "doorbell/module.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "hcq/hcq_bundle.h"
#include "tests/unit/expect.h"

#define WIDTH 4

struct net {
    struct bell_nn_linear layers[2];
    struct bell_tensor *shift; /* without a name */
    struct bell_tensor *count; /* which a run changes */
};

static const struct bell_module_field net_fields[] = {
    BELL_CHILDREN(struct net, layers, &bell_nn_linear_type),
    BELL_BUFFER(struct net, count),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

static const char *const devices[] = {"CPU", "NV@sim:sm_90"};

static const char *
temp_path(void)
{
    static char path[64];

    snprintf(path, sizeof(path), "/tmp/bell_bundle_names_%d", (int)getpid());
    return path;
}

static struct bell_tensor *
vector(struct bell_context *ctx, float first)
{
    float data[WIDTH];
    int i;

    for (i = 0; i < WIDTH; i++)
        data[i] = first + (float)i;
    return bell_from_data(ctx, BELL_DIMS(WIDTH), BELL_FLOAT32, data);
}

/* The second layer's bias is a constant too, to the byte. */
static bell_status
forward(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        struct bell_tensor **out)
{
    struct net *net = user;
    struct bell_tensor *x = in[0];
    int i;

    for (i = 0; i < 2; i++)
        x = bell_nn_linear(&net->layers[i], x);
    x = bell_add(x, bell_mul(vector(ctx, 1.0f), net->shift));
    out[0] = bell_add(x, net->count);
    bell_assign(net->count, bell_add_scalar(net->count, 1.0));
    return BELL_OK;
}

static void
make_net(struct bell_context *ctx, struct net *net)
{
    struct bell_tensor *bias;
    int i;

    memset(net, 0, sizeof(*net));
    for (i = 0; i < 2; i++) {
        expect_ok(
            bell_nn_linear_init(ctx, WIDTH, WIDTH, true, &net->layers[i]));
        bias = vector(ctx, (float)i);
        bell_assign(net->layers[i].bias, bias);
    }
    net->shift = vector(ctx, 9.0f);
    net->count = vector(ctx, 20.0f);
}

static bell_status
save(struct bell_context *ctx, struct net *net, const struct bell_state *state)
{
    const struct bell_jit_desc desc = {sizeof(desc), "net", forward, net, 1, 1};
    const struct bell_jit_save_desc where = {
        .struct_size = sizeof(where),
        .targets = devices,
        .n_targets = ARRAY_LEN(devices),
        .state = state,
    };
    struct bell_tensor *in = bell_zeros(ctx, BELL_DIMS(2, WIDTH), BELL_FLOAT32);
    struct bell_jit *jit;
    bell_status status;

    expect_ok(bell_jit_create(ctx, &desc, &jit));
    status = bell_jit_save(jit, &in, &where, temp_path());
    bell_jit_destroy(jit);
    return status;
}

/* The bundle has these weights and states (names of several words), in any
 * order, and no others. */
static void
expect_values(const char *const *weights, const char *const *states)
{
    const char *const *lists[] = {weights, states};
    const enum hcq_bundle_kind kinds[] = {HCQ_BUNDLE_WEIGHT, HCQ_BUNDLE_STATE};
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    uint32_t n = 0, i, k;

    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_bundle_open(dev, temp_path(), &bundle));
    for (k = 0; k < 2; k++) {
        for (i = 0; lists[k][i]; i++, n++) {
            if (hcq_bundle_find(bundle, kinds[k], lists[k][i]) ==
                HCQ_BUNDLE_NONE)
                fail_msg("no '%s'", lists[k][i]);
        }
    }
    assert_non_null(hcq_bundle_value(bundle, n + 1)); /* input, output */
    assert_null(hcq_bundle_value(bundle, n + 2));
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
}

/* The shift has no name; the constant is apart from the bias that it equals.
 * Names of what the function does not use do not matter. */
static void
test_names(void **state)
{
    static const char *const weights[] = {"net.layers.0.weight",
                                          "net.layers.0.bias",
                                          "net.layers.1.weight",
                                          "net.layers.1.bias",
                                          "weight1",
                                          "data.8",
                                          NULL};
    static const char *const unnamed[] = {
        "weight1", "weight2", "weight3", "weight4", "weight5", "data.8", NULL};
    struct bell_state names = {0};
    struct bell_context *ctx;
    struct net net;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_net(ctx, &net);
    expect_ok(bell_module_state(&net_type, &net, "net", &names));
    expect_ok(bell_state_add(&names, NULL, "unused", BELL_STATE_PARAM,
                             vector(ctx, 0.0f)));
    expect_ok(
        bell_state_add(&names, NULL, "again", BELL_STATE_PARAM, net.count));
    expect_ok(save(ctx, &net, &names));
    expect_values(weights, (const char *const[]){"net.count", NULL});
    expect_ok(save(ctx, &net, NULL));
    expect_values(unnamed, (const char *const[]){"state0", NULL});
    bell_state_fini(&names);
    bell_context_destroy(ctx);
    unlink(temp_path());
}

static void
test_refused(void **state)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"", "has an empty name"},
        {"a\nb", "or one with control characters"},
        {"a\x7f", "or one with control characters"},
        {"weight0", "a tensor is called 'weight0'"},
        {"state12", "a tensor is called 'state12'"},
        {"data.3", "a tensor is called 'data.3'"},
        {"steps0", "a tensor is called 'steps0'"},
        {"rates0.1", "a tensor is called 'rates0.1'"},
        {"random", "a tensor is called 'random'"},
        {"weight", NULL},
        {"weight0.bias", NULL},
        {"weightx", NULL},
        {"data.0.weight", NULL},
        {"rates0", NULL},
        {"rates0.1x", NULL},
        {"random.weight", NULL},
        {"\xc3\xa9", NULL},
    };
    struct bell_context *ctx;
    struct net net;
    size_t i;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_net(ctx, &net);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct bell_state names = {0};

        expect_ok(bell_state_add(&names, NULL, rows[i].name, BELL_STATE_PARAM,
                                 net.shift));
        unlink(temp_path());
        if (!rows[i].text) {
            expect_ok(save(ctx, &net, &names));
        } else {
            expect_fails(save(ctx, &net, &names), BELL_E_INVALID, rows[i].text);
            assert_int_not_equal(access(temp_path(), F_OK), 0);
        }
        bell_state_fini(&names);
    }
    bell_context_destroy(ctx);
    unlink(temp_path());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
