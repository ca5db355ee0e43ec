/* Sums in blocks (bell_mesh_set_blocks): training has the same bits on one
 * device, on two and on four, with the batch, the layers or the parameters
 * split.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/mesh.h"
#include "doorbell/nn.h"
#include "doorbell/optim.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

#define IN     40
#define HIDDEN 64
#define OUT    32
#define BATCH  64
#define STEPS  12 /* on the processor; small differences grow meanwhile */
#define PARAMS 5

typedef struct bell_tensor *tensor;

static const char *one_name;
static char **many_names;
static int n_many;

struct net {
    struct bell_nn_linear up, down;
    struct bell_nn_rms_norm norm;
};

static const struct bell_module_field net_fields[] = {
    BELL_CHILD(struct net, up, &bell_nn_linear_type),
    BELL_CHILD(struct net, norm, &bell_nn_rms_norm_type),
    BELL_CHILD(struct net, down, &bell_nn_linear_type),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

static const struct bell_shard_rule model_rules[] = {
    {"up.*", "model", 0},
    {"down.weight", "model", 1},
};

/* How a training is split. */
struct way {
    const char *name;
    uint32_t zero; /* an enum bell_shard_kind, or 0 */
    bool has_layers, clips;
};

static const struct way ways[] = {
    {"batch", 0, false, false},
    {"batch, clipped", 0, false, true},
    {"ZeRO-1", BELL_SHARD_STATES, false, false},
    {"ZeRO-3", BELL_SHARD_PARAMS, false, false},
    {"layers", 0, true, false},
    {"layers and ZeRO-3", BELL_SHARD_PARAMS, true, false},
};

struct result {
    double losses[STEPS];
    float params[PARAMS][IN * HIDDEN];
};

static uint32_t
steps_of(const char *devices)
{
    return strstr(devices, "@sim") ? 1 : STEPS;
}

/* Sums of these are never exact. */
static tensor
draw(struct bell_context *c, int64_t n, int64_t width)
{
    return bell_randn(c, BELL_DIMS(n, width), BELL_FLOAT32);
}

static void
set_mesh(struct bell_context *c, const struct way *way, int64_t n_blocks)
{
    static const char *const names[] = {"data", "model"};
    int64_t n = bell_mesh_places(c), sizes[2];

    sizes[1] = way->has_layers && n > 1 ? 2 : 1;
    sizes[0] = n / sizes[1];
    expect_ok(bell_mesh_set(c, sizes, 2, names));
    expect_ok(bell_mesh_set_blocks(c, "data", n_blocks));
    expect_ok(bell_mesh_set_blocks(c, "model", 2));
}

static tensor
take_loss(const struct net *net, tensor x, tensor y)
{
    x = bell_relu(bell_nn_linear(&net->up, bell_shard(x, "data", 0)));
    x = bell_nn_linear(&net->down, bell_nn_rms_norm(&net->norm, x));
    return bell_mse_loss(x, bell_shard(y, "data", 0), BELL_MEAN);
}

static void
train(const char *devices, const struct way *way, int64_t n_blocks,
      struct result *out)
{
    const struct bell_adam_options adam = {.struct_size = sizeof(adam),
                                           .lr = 0.01};
    struct bell_params params = {0};
    struct bell_state state = {0};
    struct bell_optimizer *opt;
    struct bell_context *c;
    struct net net;
    tensor loss;
    uint32_t i;

    memset(out, 0, sizeof(*out));
    expect_ok(bell_context_create(devices, &c));
    set_mesh(c, way, n_blocks);
    bell_manual_seed(c, 7);
    expect_ok(bell_nn_linear_init(c, IN, HIDDEN, true, &net.up));
    expect_ok(bell_nn_rms_norm_init(c, BELL_DIMS(HIDDEN), 1e-5, &net.norm));
    expect_ok(bell_nn_linear_init(c, HIDDEN, OUT, true, &net.down));
    expect_ok(bell_params_add_module(&params, &net_type, &net));
    assert_int_equal(params.n, PARAMS);
    if (way->has_layers) {
        expect_ok(bell_module_state(&net_type, &net, NULL, &state));
        expect_ok(
            bell_state_shard(&state, model_rules, ARRAY_LEN(model_rules)));
    }
    expect_ok(bell_adam_create(params.tensors, params.n, &adam, &opt));
    if (way->zero)
        expect_ok(
            bell_optimizer_shard(opt, "data", (enum bell_shard_kind)way->zero));
    if (way->clips)
        expect_ok(bell_optimizer_set_clip(opt, 0.05, 0));
    for (i = 0; i < steps_of(devices); i++) {
        expect_ok(bell_scope_begin(c));
        loss = take_loss(&net, draw(c, BATCH, IN), draw(c, BATCH, OUT));
        bell_optimizer_zero_grad(opt);
        expect_ok(bell_backward(loss));
        expect_ok(bell_optimizer_step(opt, &loss, 1));
        expect_ok(bell_item_f64(loss, &out->losses[i]));
        expect_ok(bell_scope_end(c));
    }
    for (i = 0; i < PARAMS; i++)
        expect_ok(bell_read(params.tensors[i], out->params[i],
                            bell_nbytes(params.tensors[i])));
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    bell_state_fini(&state);
    bell_context_destroy(c);
}

static void
test_same_bits(void **state)
{
    static struct result one, many;
    int64_t n_blocks = strstr(one_name, "@sim") ? 2 : 4;
    size_t w, i;
    int m;

    (void)state;
    for (w = 0; w < ARRAY_LEN(ways); w++) {
        if (strstr(one_name, "@sim") && w % 3 != 0)
            continue; /* simulated devices are slow */
        train(one_name, &ways[w], n_blocks, &one);
        for (m = 0; m < n_many; m++) {
            train(many_names[m], &ways[w], n_blocks, &many);
            for (i = 0; i < STEPS; i++) {
                if (one.losses[i] != many.losses[i])
                    fail_msg("%s on %s: step %zu has a loss of %.17g, not "
                             "%.17g",
                             ways[w].name, many_names[m], i, many.losses[i],
                             one.losses[i]);
            }
            assert_memory_equal(one.params, many.params, sizeof(one.params));
        }
    }
}

/* Blocks change bits, and nothing else. */
static void
test_near_plain(void **state)
{
    static struct result plain, blocks;
    uint32_t i;

    (void)state;
    if (strstr(one_name, "@sim"))
        skip();
    train(one_name, &ways[0], 1, &plain);
    train(one_name, &ways[0], 8, &blocks);
    for (i = 0; i < STEPS; i++)
        assert_true(plain.losses[i] - blocks.losses[i] < 1e-5 &&
                    blocks.losses[i] - plain.losses[i] < 1e-5);
}

/* An axis that blocks do not divide, one that is shorter, integers, and sums
 * over two axes that are split: values are right. */
static void
test_odd_sums(void **state)
{
    static const char *const names[] = {"data", "model"};
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 12, 13};
    struct bell_context *c;
    double got, want;
    size_t i, j;
    int m;

    (void)state;
    for (m = -1; m < n_many; m++) {
        expect_ok(bell_context_create(m < 0 ? one_name : many_names[m], &c));
        j = bell_mesh_places(c);
        expect_ok(bell_mesh_set(c, BELL_DIMS((int64_t)j, 1), names));
        expect_ok(bell_mesh_set_blocks(c, "data", 4));
        expect_ok(bell_mesh_set_blocks(c, "model", 8));
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            for (j = 0; j < ARRAY_LEN(sizes); j++) {
                int64_t a = sizes[i], b = sizes[j];
                tensor t = bell_arange(c, 0, (double)(a * b), 1,
                                       j % 2 ? BELL_FLOAT32 : BELL_INT32);

                t = bell_reshape(t, BELL_DIMS(a, b));
                t = bell_shard(bell_shard(t, "data", 0), "model", 1);
                want = (double)(a * b) * (double)(a * b - 1) / 2;
                expect_ok(bell_item_f64(
                    bell_sum(bell_sum(t, BELL_DIMS(1), false), NULL, 0, false),
                    &got));
                assert_true(got == want);
                expect_ok(bell_item_f64(bell_sum(t, NULL, 0, false), &got));
                assert_true(got == want);
            }
        }
        bell_context_destroy(c);
    }
}

static void
test_refused_blocks(void **state)
{
    struct bell_context *c;
    tensor t;

    (void)state;
    expect_ok(bell_context_create(many_names[0], &c));
    expect_fails(bell_mesh_set_blocks(c, "data", 3), BELL_E_INVALID,
                 "expected a power of 2");
    expect_fails(bell_mesh_set_blocks(c, "data", 1), BELL_E_INVALID,
                 "a multiple of the 2 places along 'data'");
    expect_fails(bell_mesh_set_blocks(c, "data", 128), BELL_E_INVALID,
                 "at most 64");
    expect_fails(bell_mesh_set_blocks(c, "rows", 4), BELL_E_INVALID,
                 "no axis 'rows'");
    t = bell_shard(bell_ones(c, BELL_DIMS(4), BELL_FLOAT32), "data", 0);
    expect_fails(bell_mesh_set_blocks(c, "data", 4), BELL_E_INVALID,
                 "has a layout on the mesh already");
    assert_false(bell_is_error(t));
    bell_context_destroy(c);
}

int
main(int argc, char **argv)
{
    static char two[] = "CPU:0,CPU:1", four[] = "CPU:0,CPU:1,CPU:2,CPU:3";
    static char *all[] = {two, four};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_near_plain),
        cmocka_unit_test(test_odd_sums),
        cmocka_unit_test(test_refused_blocks),
    };

    one_name = argc > 1 ? argv[1] : "CPU:0";
    many_names = argc > 2 ? argv + 2 : all;
    n_many = argc > 2 ? argc - 2 : 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
