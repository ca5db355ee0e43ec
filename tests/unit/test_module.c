/* Names of what modules hold, their lists, freezing and release. */
#include "doorbell/nn.h"
#include "tests/unit/tensor_host.h"

#include "base/alloc.h"

struct block {
    struct bell_nn_linear up, down;
};

static const struct bell_module_field block_fields[] = {
    BELL_CHILD(struct block, up, &bell_nn_linear_type),
    BELL_CHILD_AS("down.0", struct block, down, &bell_nn_linear_type),
};
static const struct bell_module_type block_type =
    BELL_MODULE_TYPE(struct block, block_fields);

struct net {
    struct bell_nn_embedding table;
    struct block layers[2];
    struct bell_nn_layer_norm *norms; /* n_norms; the test's */
    uint32_t n_norms;
    struct bell_nn_batch_norm last;
};

static const struct bell_module_field net_fields[] = {
    BELL_CHILD(struct net, table, &bell_nn_embedding_type),
    BELL_CHILDREN(struct net, layers, &block_type),
    BELL_CHILD_LIST(struct net, norms, n_norms, &bell_nn_layer_norm_type),
    BELL_CHILD(struct net, last, &bell_nn_batch_norm_type),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

static void
make_net(struct net *net, struct bell_nn_layer_norm *norms, uint32_t n_norms)
{
    uint32_t i;

    memset(net, 0, sizeof(*net));
    assert_int_equal(bell_nn_embedding_init(ctx, 5, 4, &net->table), BELL_OK);
    for (i = 0; i < 2; i++) {
        struct block *b = &net->layers[i];

        assert_int_equal(bell_nn_linear_init(ctx, 4, 8, true, &b->up), BELL_OK);
        assert_int_equal(bell_nn_linear_init(ctx, 8, 4, false, &b->down),
                         BELL_OK);
    }
    net->norms = norms;
    net->n_norms = n_norms;
    for (i = 0; i < n_norms; i++)
        assert_int_equal(bell_nn_layer_norm_init(ctx, BELL_DIMS(4), &norms[i]),
                         BELL_OK);
    assert_int_equal(bell_nn_batch_norm_init(ctx, 4, &net->last), BELL_OK);
}

static const char *const net_names[] = {
    "table.weight",
    "layers.0.up.weight",
    "layers.0.up.bias",
    "layers.0.down.0.weight",
    "layers.1.up.weight",
    "layers.1.up.bias",
    "layers.1.down.0.weight",
    "norms.0.weight",
    "norms.0.bias",
    "last.weight",
    "last.bias",
    "last.running_mean",
    "last.running_var",
};

static void
test_names(void **state)
{
    struct bell_nn_layer_norm norms[1];
    struct bell_params params = {0};
    struct bell_state list = {0};
    double number = 3;
    struct net net;
    uint32_t i;

    (void)state;
    make_net(&net, norms, 1);
    assert_int_equal(bell_module_state(&net_type, &net, NULL, &list), BELL_OK);
    assert_int_equal(list.n, ARRAY_LEN(net_names));
    for (i = 0; i < list.n; i++) {
        assert_string_equal(list.items[i].name, net_names[i]);
        assert_int_equal(list.items[i].kind,
                         i < 11 ? BELL_STATE_PARAM : BELL_STATE_BUFFER);
        assert_null(list.items[i].number);
    }
    assert_ptr_equal(bell_state_find(&list, "layers.1.up.bias")->tensor,
                     net.layers[1].up.bias);
    assert_null(bell_state_find(&list, "layers.1.up"));
    assert_int_equal(bell_state_add_number(&list, "opt", "step", &number),
                     BELL_OK);
    assert_ptr_equal(bell_state_find(&list, "opt.step")->number, &number);
    assert_int_equal(bell_state_find(&list, "opt.step")->kind,
                     BELL_STATE_NUMBER);
    /* A tensor of two names is one parameter. */
    assert_int_equal(bell_state_add(&list, "head", "weight", BELL_STATE_PARAM,
                                    net.table.weight),
                     BELL_OK);
    assert_int_equal(bell_params_add_state(&params, &list), BELL_OK);
    assert_int_equal(params.n, 11);
    assert_ptr_equal(params.tensors[0], net.table.weight);
    bell_params_fini(&params);
    /* Twice under one name; nothing of the second one stays. */
    i = list.n;
    EXPECT_STATUS(bell_module_state(&net_type, &net, "", &list),
                  "bell_state_add: table.weight is there already");
    assert_int_equal(
        bell_module_state(&block_type, &net.layers[0], "head", &list), BELL_OK);
    assert_int_equal(list.n, i + 3);
    EXPECT_STATUS(bell_state_add(&list, "head", "up.weight", BELL_STATE_BUFFER,
                                 net.table.weight),
                  "bell_state_add: head.up.weight is there already");
    bell_state_fini(&list);
    bell_module_fini(&net_type, &net);
    assert_null(net.layers[1].up.weight);
    assert_null(norms[0].bias);
    assert_null(net.last.running_var);
    bell_module_fini(&net_type, &net); /* nothing is left */
}

static void
test_long_names(void **state)
{
    struct bell_state list = {0};
    char name[300];
    double number;

    (void)state;
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(bell_state_add_number(&list, NULL, name, &number),
                     BELL_E_INVALID);
    name[255] = '\0';
    assert_int_equal(bell_state_add_number(&list, NULL, name, &number),
                     BELL_OK);
    assert_int_equal(bell_state_add_number(&list, "b", name, &number),
                     BELL_E_INVALID);
    assert_int_equal(list.n, 1);
    bell_state_fini(&list);
}

/* Parameters that are frozen have no gradient and do not move. */
static void
test_freezing(void **state)
{
    struct bell_params params = {0};
    struct bell_state list = {0};
    struct bell_optimizer *opt;
    struct bell_tensor *loss;
    struct block block = {0};
    double before[32], after[32];
    int i;

    (void)state;
    assert_int_equal(bell_nn_linear_init(ctx, 4, 8, true, &block.up), BELL_OK);
    assert_int_equal(bell_nn_linear_init(ctx, 8, 4, true, &block.down),
                     BELL_OK);
    assert_int_equal(bell_module_state(&block_type, &block, "net", &list),
                     BELL_OK);
    assert_int_equal(bell_params_add_state(&params, &list), BELL_OK);
    assert_int_equal(bell_sgd_create(params.tensors, params.n,
                                     &BELL_OPTIONS(bell_sgd_options, .lr = 0.1),
                                     &opt),
                     BELL_OK);
    assert_int_equal(bell_state_requires_grad(&list, "net.up", false), BELL_OK);
    assert_int_equal(bell_read_f64(block.up.weight, before, 32), BELL_OK);
    for (i = 0; i < 2; i++) {
        loss = bell_nn_linear(
            &block.down,
            bell_nn_linear(&block.up, bell_cast(noise(0, 1, BELL_DIMS(3, 4)),
                                                BELL_FLOAT32)));
        loss = bell_sum(bell_square(loss), BELL_NO_DIMS, false);
        bell_optimizer_zero_grad(opt);
        assert_int_equal(bell_backward(loss), BELL_OK);
        assert_int_equal(bell_grad(block.up.weight) != NULL, i == 1);
        assert_non_null(bell_grad(block.down.weight));
        assert_int_equal(bell_optimizer_step(opt, NULL, 0), BELL_OK);
        assert_int_equal(bell_read_f64(block.up.weight, after, 32), BELL_OK);
        assert_int_equal(memcmp(before, after, sizeof(after)) != 0, i == 1);
        assert_int_equal(bell_state_requires_grad(&list, NULL, true), BELL_OK);
    }
    EXPECT_STATUS(bell_state_requires_grad(&list, "net.u", false),
                  "bell_state_requires_grad: no parameter is named \"net.u\"");
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    bell_state_fini(&list);
    bell_module_fini(&block_type, &block);
}

/* Without memory a list stays as it was. */
static void
test_no_memory(void **state)
{
    struct bell_nn_layer_norm norms[3];
    struct bell_state list = {0};
    bell_status status;
    struct net net;
    uint64_t n;

    (void)state;
    make_net(&net, norms, 3);
    for (n = 1;; n++) {
        host_fail_after(n, 0);
        status = bell_module_state(&net_type, &net, "net", &list);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
        assert_int_equal(list.n, 0);
    }
    assert_true(n > 5);
    assert_int_equal(list.n, ARRAY_LEN(net_names) + 4);
    bell_state_fini(&list);
    bell_module_fini(&net_type, &net);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_names),
        TEST(test_long_names),
        TEST(test_freezing),
        TEST(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
