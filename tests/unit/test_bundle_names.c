/* Bundles' weights by the names of the program that saved them: what is called
 * how, which names are refused, that a constant which happens to equal a weight
 * is not that weight, and that other weights give what a bundle gives that was
 * saved with them.
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
#include "doorbell/files.h"
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

static char *
path_of(const char *end, char path[64])
{
    snprintf(path, 64, "/tmp/bell_bundle_names_%d%s", (int)getpid(), end);
    return path;
}

static const char *
temp_path(void)
{
    static char path[64];

    return path_of("", path);
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

/* Two inputs and two outputs; the count, which a run changes, and the shift. */
static bell_status
both(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct net *net = user;

    (void)ctx;
    out[0] = bell_add(bell_mul(in[0], net->shift), net->count);
    out[1] = bell_sub(in[0], in[1]);
    bell_assign(net->count, bell_add_scalar(net->count, 1.0));
    return BELL_OK;
}

static bell_status
save_both(struct bell_context *ctx, struct net *net,
          const char *const *in_names, const char *const *out_names)
{
    const struct bell_jit_desc desc = {sizeof(desc), "both", both, net, 2, 2};
    struct bell_state names = {0};
    const struct bell_jit_save_desc where = {
        .struct_size = sizeof(where),
        .targets = devices,
        .n_targets = 1,
        .in_names = in_names,
        .out_names = out_names,
        .state = &names,
    };
    struct bell_tensor *in[2] = {vector(ctx, 1.0f), vector(ctx, 2.0f)};
    struct bell_jit *jit;
    bell_status status;

    expect_ok(
        bell_state_add(&names, NULL, "shift", BELL_STATE_PARAM, net->shift));
    expect_ok(
        bell_state_add(&names, NULL, "count", BELL_STATE_BUFFER, net->count));
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    status = bell_jit_save(jit, in, &where, temp_path());
    bell_jit_destroy(jit);
    bell_state_fini(&names);
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
        {"\xc3", "bytes that are not UTF-8"},
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

/* Names of inputs and outputs: those by which `doorbell run` finds one
 * value. */
static void
test_ends(void **state)
{
    static const struct {
        const char *first, *second;
        const char *in_text, *out_text; /* NULL: allowed */
    } rows[] = {
        {"x", "y", NULL, NULL},
        {"\xc3\xa9", "weight0", NULL, NULL},
        {NULL, "y", "name of input 0 is NULL", "name of output 0 is NULL"},
        {"x", NULL, "name of input 1 is NULL", "name of output 1 is NULL"},
        {"", "y", "name of input 0 is empty", "name of output 0 is empty"},
        {"x", "y\n", "name of input 1 is", "name of output 1 is"},
        {"x", "\x7f", "name of input 1 is", "name of output 1 is"},
        {"x", "\xc2\x80", "name of input 1 is", "name of output 1 is"},
        {"x", "a=b", "name of input 1 is", "name of output 1 is"},
        {"\xff", "y", "name of input 0 is", "name of output 0 is"},
        {"x", "x", "inputs 0 and 1 are both called 'x'",
         "outputs 0 and 1 are both called 'x'"},
        {"x", "count", "both called 'count'", "both called 'count'"},
        {"shift", "y", "both called 'shift'", "both called 'shift'"},
    };
    struct bell_context *ctx;
    struct net net;
    size_t i, k;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_net(ctx, &net);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const names[] = {rows[i].first, rows[i].second};

        for (k = 0; k < 2; k++) {
            const char *text = k ? rows[i].out_text : rows[i].in_text;
            bell_status status =
                save_both(ctx, &net, k ? NULL : names, k ? names : NULL);
            if (!text) {
                expect_ok(status);
                unlink(temp_path());
                continue;
            }
            expect_fails(status, BELL_E_INVALID, text);
            assert_int_not_equal(access(temp_path(), F_OK), 0);
        }
    }
    bell_context_destroy(ctx);
}

/* A member of a description that is NULL, or not its size, is named. */
static void
test_description(void **state)
{
    static const char *const one_null[] = {"CPU", NULL};
    const struct bell_jit_desc desc = {sizeof(desc), "both", both, NULL, 0, 0};
    struct bell_jit_save_desc where = {.struct_size = sizeof(where),
                                       .n_targets = 2};
    struct bell_context *ctx;
    struct bell_jit *jit;
    char text[96];

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_fails(bell_jit_save(jit, NULL, NULL, temp_path()), BELL_E_INVALID,
                 "the description is NULL");
    expect_fails(bell_jit_save(jit, NULL, &where, NULL), BELL_E_INVALID,
                 "the path is NULL");
    expect_fails(bell_jit_save(jit, NULL, &where, temp_path()), BELL_E_INVALID,
                 "the list of targets is NULL");
    where.targets = one_null;
    expect_fails(bell_jit_save(jit, NULL, &where, temp_path()), BELL_E_INVALID,
                 "target 1 is NULL");
    where.n_targets = 0;
    expect_fails(bell_jit_save(jit, NULL, &where, temp_path()), BELL_E_INVALID,
                 "no targets");
    where.struct_size = 0;
    snprintf(text, sizeof(text),
             "bell_jit_save: the description's struct_size is 0, not its size, "
             "%zu",
             sizeof(where));
    expect_fails(bell_jit_save(jit, NULL, &where, temp_path()), BELL_E_INVALID,
                 text);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* ---- other weights ---- */

/* The parameters are other ones from now on; the biases of both layers are the
 * same. */
static void
change(struct bell_context *ctx, struct net *net)
{
    int i;

    for (i = 0; i < 2; i++) {
        bell_assign(net->layers[i].bias, vector(ctx, -3.5f));
        bell_assign(net->layers[i].weight,
                    bell_mul_scalar(net->layers[i].weight, 1.0 + i));
    }
    bell_assign(net->shift, vector(ctx, 0.25f));
    bell_assign(net->count, vector(ctx, 7.0f));
}

/* Two runs of the file, of which the second has what the first left. */
static void
run(const char *device, const char *weights, float got[2][2 * WIDTH])
{
    float x[2 * WIDTH];
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    int i;

    for (i = 0; i < 2 * WIDTH; i++)
        x[i] = (float)i - 2.5f;
    expect_ok(hcq_device_open(device, &dev));
    expect_ok(hcq_bundle_open(dev, temp_path(), &bundle));
    expect_ok(hcq_bundle_write(bundle,
                               hcq_bundle_find(bundle, HCQ_BUNDLE_INPUT, "in0"),
                               x, sizeof(x)));
    if (weights)
        expect_ok(hcq_bundle_load_weights(bundle, weights));
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_bundle_run(bundle, NULL));
        expect_ok(hcq_bundle_read(
            bundle, hcq_bundle_find(bundle, HCQ_BUNDLE_OUTPUT, "out0"), got[i],
            sizeof(got[i])));
    }
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
}

static void
test_renewed(void **state)
{
    float first[2][2 * WIDTH], anew[2][2 * WIDTH], got[2][2 * WIDTH];
    struct bell_state names = {0};
    struct bell_context *ctx;
    char weights[64];
    struct net net;
    size_t d;

    (void)state;
    path_of(".safetensors", weights);
    expect_ok(bell_context_create("CPU", &ctx));
    make_net(ctx, &net);
    expect_ok(bell_module_state(&net_type, &net, NULL, &names));
    expect_ok(
        bell_state_add(&names, "net", "shift", BELL_STATE_BUFFER, net.shift));
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        expect_ok(save(ctx, &net, &names));
        run(devices[d], NULL, first);
        change(ctx, &net);
        expect_ok(bell_file_save(weights, &names));
        run(devices[d], weights, got);
        expect_ok(save(ctx, &net, &names));
        run(devices[d], NULL, anew);
        assert_memory_equal(got, anew, sizeof(got));
        assert_memory_not_equal(got, first, sizeof(got));
        assert_memory_not_equal(got[0], got[1], sizeof(got[0]));
    }
    bell_state_fini(&names);
    bell_context_destroy(ctx);
    unlink(weights);
    unlink(temp_path());
}

/* The net's list, with the shift under those of two names. */
static void
list_shared(struct net *net, bool first, bool second, struct bell_tensor *other,
            struct bell_state *out)
{
    memset(out, 0, sizeof(*out));
    expect_ok(bell_module_state(&net_type, net, NULL, out));
    if (first)
        expect_ok(
            bell_state_add(out, NULL, "shift", BELL_STATE_PARAM, net->shift));
    if (second)
        expect_ok(bell_state_add(out, NULL, "again", BELL_STATE_PARAM,
                                 other ? other : net->shift));
}

/* What weights of such a list give. */
static void
run_shared(const char *device, struct net *net, bool first, bool second,
           float got[2][2 * WIDTH])
{
    struct bell_state list;
    char weights[64];

    path_of(".safetensors", weights);
    list_shared(net, first, second, NULL, &list);
    expect_ok(bell_file_save(weights, &list));
    run(device, weights, got);
    bell_state_fini(&list);
    unlink(weights);
}

/* Two lists of one tensor differ, or have neither of its names. */
static void
refuse_shared(struct bell_context *ctx, struct net *net)
{
    struct hcq_bundle *bundle;
    struct hcq_device *dev;
    struct bell_state list;
    char weights[64];
    int i;

    path_of(".safetensors", weights);
    expect_ok(hcq_device_open("CPU", &dev));
    expect_ok(hcq_bundle_open(dev, temp_path(), &bundle));
    for (i = 0; i < 2; i++) {
        list_shared(net, i == 0, i == 0, vector(ctx, 0.5f), &list);
        expect_ok(bell_file_save(weights, &list));
        expect_fails(hcq_bundle_load_weights(bundle, weights), BELL_E_INVALID,
                     i ? "it lacks 'shift'" : "are one weight of the bundle");
        bell_state_fini(&list);
    }
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
    unlink(weights);
}

/* One tensor under two names: either is enough, and either is written. */
static void
test_shared(void **state)
{
    const float shift[WIDTH] = {5, 6, 7, 8};
    float both[2][2 * WIDTH], one[2][2 * WIDTH], read[WIDTH];
    struct bell_state names;
    struct bell_context *ctx;
    struct net net;
    size_t d;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_net(ctx, &net);
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        struct hcq_bundle *b;
        struct hcq_device *dev;
        uint32_t first, second;

        list_shared(&net, true, true, NULL, &names);
        expect_ok(save(ctx, &net, &names));
        bell_state_fini(&names);
        change(ctx, &net);
        run_shared(devices[d], &net, true, true, both);
        run_shared(devices[d], &net, true, false, one);
        assert_memory_equal(both, one, sizeof(one));
        run_shared(devices[d], &net, false, true, one);
        assert_memory_equal(both, one, sizeof(one));
        refuse_shared(ctx, &net);
        expect_ok(hcq_device_open(devices[d], &dev));
        expect_ok(hcq_bundle_open(dev, temp_path(), &b));
        first = hcq_bundle_find(b, HCQ_BUNDLE_WEIGHT, "shift");
        second = hcq_bundle_find(b, HCQ_BUNDLE_WEIGHT, "again");
        assert_int_not_equal(first, second);
        expect_ok(hcq_bundle_write(b, second, shift, sizeof(shift)));
        expect_ok(hcq_bundle_read(b, first, read, sizeof(read)));
        assert_memory_equal(read, shift, sizeof(read));
        hcq_bundle_close(b);
        hcq_device_close(dev);
    }
    bell_context_destroy(ctx);
    unlink(temp_path());
}

/* Written one by one, between runs too. */
static void
test_written(void **state)
{
    const float shift[WIDTH] = {1, 2, 3, 4};
    float x[2 * WIDTH] = {0}, got[4][2 * WIDTH], read[WIDTH];
    struct bell_state names = {0};
    struct bell_context *ctx;
    struct net net;
    size_t d;
    int i;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    make_net(ctx, &net);
    expect_ok(
        bell_state_add(&names, NULL, "shift", BELL_STATE_BUFFER, net.shift));
    expect_ok(save(ctx, &net, &names));
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        struct hcq_bundle *b;
        struct hcq_device *dev;
        uint32_t out, number;

        expect_ok(hcq_device_open(devices[d], &dev));
        expect_ok(hcq_bundle_open(dev, temp_path(), &b));
        out = hcq_bundle_find(b, HCQ_BUNDLE_OUTPUT, "out0");
        number = hcq_bundle_find(b, HCQ_BUNDLE_WEIGHT, "shift");
        expect_ok(hcq_bundle_write(
            b, hcq_bundle_find(b, HCQ_BUNDLE_INPUT, "in0"), x, sizeof(x)));
        for (i = 0; i < 4; i++) {
            if (i > 1) /* the second time in place of the first */
                expect_ok(hcq_bundle_write(b, number, shift, sizeof(shift)));
            expect_ok(hcq_bundle_run(b, NULL));
            expect_ok(hcq_bundle_read(b, out, got[i], sizeof(got[i])));
        }
        for (i = 0; i < 2 * WIDTH;
             i++) { /* out = .. + (1..4) * shift + count */
            float first = (float)(i % WIDTH + 1);
            float was = first * (float)(9 + i % WIDTH);

            assert_true(got[1][i] - got[0][i] == 1);
            assert_true(got[3][i] - got[2][i] == 1);
            assert_float_equal(got[2][i] - got[1][i] - 1,
                               first * shift[i % WIDTH] - was, 1e-3);
        }
        expect_ok(hcq_bundle_read(b, number, read, sizeof(read)));
        assert_memory_equal(read, shift, sizeof(read));
        expect_fails(hcq_bundle_write(b, number, shift, 4), BELL_E_INVALID,
                     "'shift' has 16 bytes, 4 are to be written");
        expect_fails(
            hcq_bundle_write(b, hcq_bundle_find(b, HCQ_BUNDLE_WEIGHT, "data.8"),
                             shift, sizeof(shift)),
            BELL_E_INVALID, "'data.8' is a constant");
        expect_fails(hcq_bundle_write(
                         b, hcq_bundle_find(b, HCQ_BUNDLE_WEIGHT, "weight2"),
                         shift, sizeof(shift)),
                     BELL_E_INVALID, "'weight2' was saved without a name");
        expect_fails(hcq_bundle_load_weights(b, NULL), BELL_E_INVALID,
                     "the path is NULL");
        expect_fails(hcq_bundle_load_weights(b, "/nonexistent"), BELL_E_IO,
                     "/nonexistent: ");
        hcq_bundle_close(b);
        hcq_device_close(dev);
    }
    bell_state_fini(&names);
    bell_context_destroy(ctx);
    unlink(temp_path());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_description),
        cmocka_unit_test(test_renewed), cmocka_unit_test(test_shared),
        cmocka_unit_test(test_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
