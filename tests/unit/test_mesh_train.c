/* Training on a mesh: parameters after some steps are those of one device, to
 * the bit where all sums are exact; what is split lies as it was asked for, and
 * places exchange as many bytes as ZeRO's stages need.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/files.h"
#include "doorbell/jit.h"
#include "doorbell/mesh.h"
#include "doorbell/nn.h"
#include "doorbell/optim.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

#define IN     24
#define HIDDEN 48
#define BATCH  12
#define STEPS  2
#define PARTS  3 /* of a batch */
#define PARAMS 5

typedef struct bell_tensor *tensor;

static const char *one_name, *many_name;

/* ---- a network ----------------------------------------------------------- */

struct block {
    struct bell_nn_linear up, down;
};

struct net {
    struct block layers[1];
    tensor scale; /* of one element: stays whole */
};

static const struct bell_module_field block_fields[] = {
    BELL_CHILD(struct block, up, &bell_nn_linear_type),
    BELL_CHILD(struct block, down, &bell_nn_linear_type),
};
static const struct bell_module_type block_type =
    BELL_MODULE_TYPE(struct block, block_fields);
static const struct bell_module_field net_fields[] = {
    BELL_CHILDREN(struct net, layers, &block_type),
    BELL_PARAM(struct net, scale),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

/* Whole numbers, most of them 0, of that size. */
static tensor
numbers(struct bell_context *c, const int64_t *shape, uint32_t ndim,
        uint32_t salt, double by)
{
    static double values[IN * HIDDEN];
    size_t n = 1, i;

    for (i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    assert_true(n <= ARRAY_LEN(values));
    for (i = 0; i < n; i++)
        values[i] = (double)((i * 7 + i / 5 + salt * 3) % 5 / 2) * by - by;
    return bell_from_data(c, shape, ndim, BELL_FLOAT64, values);
}

static tensor
make_param(struct bell_context *c, const int64_t *shape, uint32_t ndim,
           uint32_t salt, double by)
{
    tensor t = numbers(c, shape, ndim, salt, by);

    expect_ok(bell_realize1(t));
    return bell_keep_forever(bell_requires_grad(t, true));
}

static void
make_net(struct bell_context *c, double by, struct net *out)
{
    struct block *b = &out->layers[0];

    b->up.weight = make_param(c, BELL_DIMS(HIDDEN, IN), 1, by);
    b->up.bias = make_param(c, BELL_DIMS(HIDDEN), 2, by);
    b->down.weight = make_param(c, BELL_DIMS(IN, HIDDEN), 3, by);
    b->down.bias = make_param(c, BELL_DIMS(IN), 4, by);
    out->scale = make_param(c, BELL_DIMS(1), 5, by);
}

static tensor
forward(const struct net *net, tensor x)
{
    const struct block *b = &net->layers[0];

    x = bell_relu(bell_nn_linear(&b->up, x));
    return bell_mul(bell_nn_linear(&b->down, x), net->scale);
}

struct training {
    struct bell_context *c;
    struct net net;
    struct bell_params params;
    struct bell_state state; /* of the network */
    struct bell_optimizer *opt;
};

/* enum bell_shard_kind, or 0: nothing is split. */
struct way {
    const char *name;
    uint32_t kind;
    bool is_exact; /* SGD of whole numbers; else Adam, and a clipped norm */
    bool is_split; /* layers are, along a second axis of the mesh */
};

/* The first layer's outputs, the second one's inputs. */
static const struct bell_shard_rule model_rules[] = {
    {"layers.*.up.*", "model", 0},
    {"layers.*.down.weight", "model", -1},
};

static void
set_two_axes(struct bell_context *c)
{
    static const char *const names[] = {"data", "model"};
    int64_t n = bell_mesh_places(c);
    int64_t sizes[] = {n % 2 ? n : 2, n % 2 ? 1 : n / 2};

    expect_ok(bell_mesh_set(c, sizes, 2, names));
}

static void
begin(const char *devices, const struct way *way, bool is_many,
      struct training *out)
{
    const struct bell_adam_options adam = {.struct_size = sizeof(adam),
                                           .lr = 0.01};
    const struct bell_sgd_options sgd = {
        .struct_size = sizeof(sgd), .lr = 0.0625, .momentum = 0.5};

    memset(out, 0, sizeof(*out));
    expect_ok(bell_context_create(devices, &out->c));
    if (way->is_split)
        set_two_axes(out->c);
    make_net(out->c, way->is_exact ? 1 : 0.0625, &out->net);
    expect_ok(bell_params_add_module(&out->params, &net_type, &out->net));
    expect_ok(bell_module_state(&net_type, &out->net, NULL, &out->state));
    assert_int_equal(out->params.n, PARAMS);
    if (way->is_split)
        expect_ok(
            bell_state_shard(&out->state, model_rules, ARRAY_LEN(model_rules)));
    if (way->is_exact) {
        expect_ok(bell_sgd_create(out->params.tensors, out->params.n, &sgd,
                                  &out->opt));
        /* so that numbers need few bits */
        expect_ok(bell_optimizer_set_clip(out->opt, 0, 1));
    } else {
        expect_ok(bell_adam_create(out->params.tensors, out->params.n, &adam,
                                   &out->opt));
        expect_ok(bell_optimizer_set_clip(out->opt, 0.5, 0));
    }
    if (way->kind && is_many)
        expect_ok(bell_optimizer_shard(out->opt, "data",
                                       (enum bell_shard_kind)way->kind));
}

static void
end(struct training *t)
{
    bell_optimizer_destroy(t->opt);
    bell_params_fini(&t->params);
    bell_state_fini(&t->state);
    bell_context_destroy(t->c);
}

/* Adds the gradients of a batch, or a part of one. */
static bell_status
add_gradients(struct training *t, uint32_t salt)
{
    tensor x = numbers(t->c, BELL_DIMS(BATCH, IN), salt, 1);
    tensor y = numbers(t->c, BELL_DIMS(BATCH, IN), salt + 1, 1);

    y = bell_mul(forward(&t->net, bell_shard(x, "data", 0)),
                 bell_shard(y, "data", 0));
    return bell_backward(bell_sum(y, NULL, 0, false));
}

static struct bell_stats
stats_of(const struct bell_context *c)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(c, &stats);
    return stats;
}

/* Bytes that each place has of tensors of a list. */
static uint64_t
place_bytes(const struct bell_state *state, enum bell_state_kind kind)
{
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < state->n; i++) {
        if (state->items[i].kind != kind)
            continue;
        expect_ok(bell_layout_of(state->items[i].tensor, &layout));
        n += layout.place_bytes;
    }
    return n;
}

static void
expect_same(const struct training *a, const struct training *b,
            const struct way *way)
{
    static double want[IN * HIDDEN], got[IN * HIDDEN];
    size_t i, n;
    uint32_t p;

    for (p = 0; p < PARAMS; p++) {
        n = bell_numel(a->params.tensors[p]);
        expect_ok(bell_read(a->params.tensors[p], want, n * sizeof(double)));
        expect_ok(bell_read(b->params.tensors[p], got, n * sizeof(double)));
        for (i = 0; i < n; i++) {
            /* Adam moves by about its rate, whatever the gradient's size */
            bool good = way->is_exact
                            ? memcmp(&want[i], &got[i], sizeof(double)) == 0
                            : fabs(want[i] - got[i]) <= 1e-9;
            if (!good)
                fail_msg("%s: parameter %u, element %zu is %.17g, not %.17g",
                         way->name, p, i, got[i], want[i]);
        }
    }
}

/* ---- ZeRO ---------------------------------------------------------------- */

static const struct way ways[] = {
    {"whole, SGD", 0, true},
    {"whole, Adam", 0, false},
    {"states, SGD", BELL_SHARD_STATES, true},
    {"states, Adam", BELL_SHARD_STATES, false},
    {"gradients, SGD", BELL_SHARD_GRADIENTS, true},
    {"gradients, Adam", BELL_SHARD_GRADIENTS, false},
    {"params, SGD", BELL_SHARD_PARAMS, true},
    {"params, Adam", BELL_SHARD_PARAMS, false},
};

/* Adam on simulated devices, which are slow. */
static bool
is_left_out(const struct way *way)
{
    return strstr(one_name, "@sim") && !way->is_exact;
}

/* A place's part of what is split, and one element. */
static uint64_t
split_bytes(uint64_t n_places)
{
    uint64_t h = (HIDDEN + n_places - 1) / n_places;
    uint64_t i = (IN + n_places - 1) / n_places, both;

    both = h * IN < HIDDEN * i ? h * IN : HIDDEN * i;
    return (both + h + both + i + 1) * sizeof(double);
}

static uint64_t
whole_bytes(void)
{
    return (2 * HIDDEN * IN + HIDDEN + IN + 1) * sizeof(double);
}

static void
expect_place_bytes(struct training *t, const struct way *way)
{
    uint64_t n_states = way->is_exact ? 1 : 2, n = bell_mesh_places(t->c);
    struct bell_state state = {0};

    expect_ok(bell_optimizer_state(t->opt, &t->state, "opt", &state));
    assert_int_equal(place_bytes(&state, BELL_STATE_BUFFER),
                     n_states * (way->kind ? split_bytes(n) : whole_bytes()));
    assert_int_equal(place_bytes(&t->state, BELL_STATE_PARAM),
                     way->kind == BELL_SHARD_PARAMS ? split_bytes(n)
                                                    : whole_bytes());
    bell_state_fini(&state);
}

/* Gradients up and parameters back, which once more are gathered for gradients.
 * Small sums go to all places at once. Uneven parts are of equal room, and what
 * is left is scalars. */
static void
expect_bytes(const struct way *way, uint64_t n, uint64_t moved)
{
    uint64_t rounds = way->kind == BELL_SHARD_PARAMS ? 3 : way->kind ? 2 : n;
    uint64_t most = (n - 1) * n * split_bytes(n) * rounds;

    print_message("# %s: %.2f of all gradients'\n", way->name,
                  (double)moved / (double)whole_bytes());
    if (moved > most + 1024 * n)
        fail_msg("%s: %llu bytes, at most %llu", way->name,
                 (unsigned long long)moved, (unsigned long long)most);
}

static void
test_stages(void **state)
{
    struct training one, many;
    uint64_t first;
    size_t w;
    uint32_t i;

    (void)state;
    for (w = 0; w < ARRAY_LEN(ways); w++) {
        if (is_left_out(&ways[w]))
            continue;
        begin(one_name, &ways[w], false, &one);
        begin(many_name, &ways[w], true, &many);
        for (i = 0; i < STEPS; i++) {
            expect_ok(bell_scope_begin(one.c));
            expect_ok(bell_scope_begin(many.c));
            bell_optimizer_zero_grad(one.opt);
            bell_optimizer_zero_grad(many.opt);
            expect_ok(add_gradients(&one, i));
            expect_ok(add_gradients(&many, i));
            first = stats_of(many.c).exchanged_bytes;
            expect_ok(bell_optimizer_step(one.opt, NULL, 0));
            expect_ok(bell_optimizer_step(many.opt, NULL, 0));
            expect_bytes(&ways[w], bell_mesh_places(many.c),
                         stats_of(many.c).exchanged_bytes - first);
            expect_same(&one, &many, &ways[w]);
            if (ways[w].kind)
                expect_place_bytes(&many, &ways[w]);
            expect_ok(bell_scope_end(many.c));
            expect_ok(bell_scope_end(one.c));
        }
        end(&one);
        end(&many);
    }
}

/* ---- memory of a step ---------------------------------------------------- */

#define LAYERS 8
#define WIDTH  64

struct cost {
    uint64_t peak, scratch; /* bytes of a place */
    uint64_t moved;         /* by all */
};

/* A step of a deep network, which needs less and less with each stage. */
static struct cost
cost_of(const char *devices, uint32_t kind)
{
    static float values[WIDTH * WIDTH];
    const struct bell_sgd_options sgd = {
        .struct_size = sizeof(sgd), .lr = 0.5, .momentum = 0.5};
    struct bell_tensor *w[LAYERS], *x;
    struct bell_optimizer *opt;
    struct bell_context *c;
    struct bell_stats first, last;
    uint32_t i;

    for (i = 0; i < WIDTH * WIDTH; i++)
        values[i] = (float)(i % 3) - 1;
    expect_ok(bell_context_create(devices, &c));
    for (i = 0; i < LAYERS; i++) {
        w[i] = bell_from_data(c, BELL_DIMS(WIDTH, WIDTH), BELL_FLOAT32, values);
        bell_keep_forever(bell_requires_grad(w[i], true));
    }
    expect_ok(bell_sgd_create(w, LAYERS, &sgd, &opt));
    if (kind)
        expect_ok(
            bell_optimizer_shard(opt, "data", (enum bell_shard_kind)kind));
    x = bell_from_data(c, BELL_DIMS(16, WIDTH), BELL_FLOAT32, values);
    x = bell_shard(x, "data", 0);
    for (i = 0; i < LAYERS; i++)
        x = bell_relu(bell_matmul(x, w[i]));
    expect_ok(bell_backward(bell_sum(bell_mul(x, x), NULL, 0, false)));
    first = stats_of(c);
    expect_ok(bell_optimizer_step(opt, NULL, 0));
    last = stats_of(c);
    bell_optimizer_destroy(opt);
    bell_context_destroy(c);
    return (struct cost){last.peak_bytes, last.scratch_bytes,
                         last.exchanged_bytes - first.exchanged_bytes};
}

static void
test_memory(void **state)
{
    const uint64_t n_bytes = LAYERS * WIDTH * WIDTH * sizeof(float);
    struct bell_context *c;
    struct cost costs[4];
    uint64_t n, room;
    uint32_t k;

    (void)state;
    expect_ok(bell_context_create(many_name, &c));
    n = bell_mesh_places(c);
    bell_context_destroy(c);
    room = (WIDTH + n - 1) / n * n * n_bytes / WIDTH; /* of all parts */
    for (k = 0; k < 4; k++) {
        costs[k] = cost_of(many_name, k);
        print_message("# stage %u: peak %.2f of the parameters, between %.2f, "
                      "exchanged %.2f\n",
                      k, (double)costs[k].peak / (double)n_bytes,
                      (double)costs[k].scratch / (double)n_bytes,
                      (double)costs[k].moved / (double)n_bytes);
    }
    assert_true(costs[1].peak < costs[0].peak);
    assert_int_equal(costs[2].peak, costs[1].peak); /* of one part */
    assert_true(costs[3].peak < costs[2].peak);
    /* no more than parameters of two layers are there at once */
    assert_true(costs[3].scratch <= costs[2].scratch + 2 * room / LAYERS);
    assert_true(costs[1].moved <= 2 * (n - 1) * room);
    assert_true(costs[3].moved <= 3 * (n - 1) * room);
    assert_true(costs[3].moved > 2 * (n - 1) * room);
}

/* ---- parts of a batch ---------------------------------------------------- */

/* Gradients of two devices are the same, read while they are terms. */
static void
expect_gradients(const struct training *a, const struct training *b,
                 const struct way *way)
{
    static double want[IN * HIDDEN], got[IN * HIDDEN];
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    uint32_t p, n;

    for (p = 0; p < PARAMS; p++) {
        tensor x = bell_grad(a->params.tensors[p]);
        tensor y = bell_grad(b->params.tensors[p]);

        n = (uint32_t)bell_nbytes(x);
        expect_ok(bell_read(x, want, n));
        expect_ok(bell_read(y, got, n));
        if (way->is_exact && memcmp(want, got, n) != 0)
            fail_msg("%s: gradient %u has other bits", way->name, p);
        expect_ok(bell_layout_of(y, &layout));
        if (way->kind < BELL_SHARD_GRADIENTS)
            assert_int_equal(layout.axes[0], BELL_MESH_TERMS);
        else if (n > sizeof(double))
            assert_true(layout.axes[0] >= 0);
        /* a value like any other */
        expect_ok(bell_read(bell_mul_scalar(bell_grad(b->params.tensors[p]), 1),
                            got, n));
        if (way->is_exact && memcmp(want, got, n) != 0)
            fail_msg("%s: gradient %u times 1 has other bits", way->name, p);
    }
}

static void
test_accumulation(void **state)
{
    struct training one, many;
    struct bell_stats first, last;
    uint32_t i, k;
    size_t w;

    (void)state;
    for (w = 0; w < ARRAY_LEN(ways); w++) {
        if (is_left_out(&ways[w]))
            continue;
        begin(one_name, &ways[w], false, &one);
        begin(many_name, &ways[w], true, &many);
        for (i = 0; i < STEPS * PARTS; i++) {
            expect_ok(bell_scope_begin(one.c));
            expect_ok(bell_scope_begin(many.c));
            if (i % PARTS == 0) {
                bell_optimizer_zero_grad(one.opt);
                bell_optimizer_zero_grad(many.opt);
            }
            expect_ok(add_gradients(&one, i));
            expect_ok(add_gradients(&many, i));
            first = stats_of(many.c);
            for (k = 0; k < 2; k++) /* again: nothing is left to do */
                expect_ok(bell_optimizer_accumulate(many.opt, NULL, 0));
            expect_ok(bell_optimizer_accumulate(one.opt, NULL, 0));
            last = stats_of(many.c);
            if (ways[w].kind < BELL_SHARD_GRADIENTS)
                assert_int_equal(last.n_exchanges, first.n_exchanges);
            if (i == PARTS - 1)
                expect_gradients(&one, &many, &ways[w]);
            if (i % PARTS == PARTS - 1) {
                expect_ok(bell_optimizer_step(one.opt, NULL, 0));
                expect_ok(bell_optimizer_step(many.opt, NULL, 0));
                expect_same(&one, &many, &ways[w]);
            }
            expect_ok(bell_scope_end(many.c));
            expect_ok(bell_scope_end(one.c));
        }
        end(&one);
        end(&many);
    }
}

/* ---- jits ---------------------------------------------------------------- */

static bell_status
step(struct bell_context *c, void *user, tensor const *in, tensor *out)
{
    struct training *t = user;
    tensor x = bell_shard(in[0], "data", 0);

    (void)c;
    out[0] = bell_mul(forward(&t->net, x), x);
    out[0] = bell_sum(out[0], NULL, 0, false);
    bell_optimizer_zero_grad(t->opt);
    BELL_TRY(bell_backward(out[0]));
    return bell_optimizer_step(t->opt, NULL, 0);
}

static void
test_jit(void **state)
{
    struct training one, many;
    struct bell_jit *jit;
    double want, got;
    tensor x, y;
    uint32_t i;
    size_t w;

    (void)state;
    for (w = 0; w < ARRAY_LEN(ways); w++) {
        struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                     .name = "step",
                                     .fn = step,
                                     .user = &many,
                                     .n_in = 1,
                                     .n_out = 1};

        if (is_left_out(&ways[w]))
            continue;
        begin(one_name, &ways[w], false, &one);
        begin(many_name, &ways[w], true, &many);
        expect_ok(bell_jit_create(many.c, &desc, &jit));
        for (i = 0; i < STEPS + 1; i++) {
            expect_ok(bell_scope_begin(one.c));
            expect_ok(bell_scope_begin(many.c));
            x = numbers(one.c, BELL_DIMS(BATCH, IN), i, 1);
            expect_ok(step(one.c, &one, &x, &y));
            expect_ok(bell_read(y, &want, sizeof(want)));
            x = numbers(many.c, BELL_DIMS(BATCH, IN), i, 1);
            expect_ok(bell_jit_call(jit, &x, &y));
            expect_ok(bell_read(y, &got, sizeof(got)));
            assert_true(fabs(want - got) <= 1e-9 * fabs(want));
            expect_same(&one, &many, &ways[w]);
            expect_ok(bell_scope_end(many.c));
            expect_ok(bell_scope_end(one.c));
        }
        if (ways[w].kind)
            expect_place_bytes(&many, &ways[w]);
        bell_jit_destroy(jit);
        end(&one);
        end(&many);
    }
}

/* ---- rules by name ------------------------------------------------------- */

static const struct bell_shard_rule rules[] = {
    {"scale", NULL, 0},
    {"layers.*.up.*", "data", 0},
    {"layers.*.down.weight", "data", -1},
    {"*e", "data", 0}, /* which "scale" does not take */
};

static void
test_rules(void **state)
{
    static const int axes[PARAMS] = {0, 0, 1, -1, -1};
    static const struct way way = {"rules", 0, true};
    static const struct bell_shard_rule missing[] = {
        {"layers.*", "data", 0},
        {"layers.*.wq.weight", "data", 0},
    };
    static const struct bell_shard_rule no_axis[] = {
        {"layers.*.weight", "data", 1}, {"*.bias", "data", 1}};
    static const struct bell_shard_rule no_name[] = {{NULL, "data", 0}};
    static const struct bell_shard_rule no_mesh[] = {{"*", "modle", 0}};
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    struct training one, many;
    struct bell_state empty = {0};
    uint32_t i;

    (void)state;
    begin(one_name, &way, false, &one);
    begin(many_name, &way, true, &many);
    expect_ok(bell_state_shard(&one.state, rules, ARRAY_LEN(rules)));
    expect_fails(bell_state_shard(&many.state, missing, 2), BELL_E_INVALID,
                 "no name matches 'layers.*.wq.weight'");
    expect_fails(bell_state_shard(&many.state, no_axis, 2), BELL_E_INVALID,
                 "layers.0.up.bias has shape (48,)");
    assert_int_equal(bell_state_shard(&many.state, no_name, 1), BELL_E_INVALID);
    expect_fails(bell_state_shard(&many.state, no_mesh, 1), BELL_E_INVALID,
                 "no axis 'modle'");
    assert_int_equal(bell_state_shard(&many.state, NULL, 1), BELL_E_INVALID);
    assert_int_equal(bell_state_shard(&empty, rules, 1), BELL_E_INVALID);
    assert_int_equal(bell_state_shard(NULL, rules, 1), BELL_E_INVALID);
    for (i = 0; i < PARAMS; i++) {
        expect_ok(bell_layout_of(many.params.tensors[i], &layout));
        assert_int_equal(layout.axes[0], -1);
    }
    expect_ok(bell_state_shard(&many.state, rules, ARRAY_LEN(rules)));
    for (i = 0; i < PARAMS; i++) {
        expect_ok(bell_layout_of(many.params.tensors[i], &layout));
        assert_int_equal(layout.axes[0], axes[i]);
    }
    for (i = 0; i < STEPS; i++) {
        bell_optimizer_zero_grad(one.opt);
        bell_optimizer_zero_grad(many.opt);
        expect_ok(add_gradients(&one, i));
        expect_ok(add_gradients(&many, i));
        expect_ok(bell_optimizer_step(one.opt, NULL, 0));
        expect_ok(bell_optimizer_step(many.opt, NULL, 0));
        expect_same(&one, &many, &way);
    }
    end(&one);
    end(&many);
}

/* ---- checkpoints --------------------------------------------------------- */

/* Parameters, states and numbers. */
static void
list_all(struct training *t, struct bell_state *out)
{
    memset(out, 0, sizeof(*out));
    expect_ok(bell_module_state(&net_type, &t->net, NULL, out));
    expect_ok(bell_optimizer_state(t->opt, &t->state, "opt", out));
}

static void
take_step(struct training *t, uint32_t salt)
{
    expect_ok(bell_scope_begin(t->c));
    bell_optimizer_zero_grad(t->opt);
    expect_ok(add_gradients(t, salt));
    expect_ok(bell_optimizer_step(t->opt, NULL, 0));
    expect_ok(bell_scope_end(t->c));
}

/* Checkpoints of a mesh load on others, and on one device. */
static void
test_checkpoints(void **state)
{
    static const struct way from = {"saved", BELL_SHARD_PARAMS, true};
    static const struct way ways_to[] = {
        {"one device", BELL_SHARD_PARAMS, true},
        {"other parts", BELL_SHARD_STATES, true},
        {"two places", BELL_SHARD_PARAMS, true},
    };
    const char *names[] = {one_name, many_name, "CPU:0,CPU:1"};
    struct training saved, loaded;
    struct bell_state list;
    char path[64];
    int64_t at;
    size_t i;

    (void)state;
    snprintf(path, sizeof(path), "mesh_train_%ld.safetensors", (long)getpid());
    begin(many_name, &from, true, &saved);
    take_step(&saved, 0);
    list_all(&saved, &list);
    expect_ok(bell_checkpoint_save(path, saved.c, &list, 1));
    bell_state_fini(&list);
    take_step(&saved, 1);
    for (i = 0; i < ARRAY_LEN(ways_to); i++) {
        begin(names[i], &ways_to[i], true, &loaded);
        list_all(&loaded, &list);
        expect_ok(bell_checkpoint_load(path, loaded.c, &list, &at));
        assert_int_equal(at, 1);
        bell_state_fini(&list);
        expect_place_bytes(&loaded, &ways_to[i]);
        take_step(&loaded, 1);
        expect_same(&saved, &loaded, &ways_to[i]);
        expect_place_bytes(&loaded, &ways_to[i]);
        end(&loaded);
    }
    end(&saved);
    unlink(path);
}

/* ---- two axes ------------------------------------------------------------ */

/* Layers along one axis, ZeRO along the other, and parts of a batch. */
static void
test_two_axes(void **state)
{
    static const struct way split[] = {
        {"layers", 0, true, true},
        {"layers, Adam", 0, false, true},
        {"layers, states", BELL_SHARD_STATES, true, true},
        {"layers, gradients", BELL_SHARD_GRADIENTS, true, true},
        {"layers, params", BELL_SHARD_PARAMS, true, true},
        {"layers, params, Adam", BELL_SHARD_PARAMS, false, true},
    };
    static double want[IN * HIDDEN], got[IN * HIDDEN];
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    struct training one, many;
    uint32_t i, p;
    size_t w, n;

    (void)state;
    for (w = 0; w < ARRAY_LEN(split); w++) {
        if (is_left_out(&split[w]))
            continue;
        begin(one_name, &split[w], false, &one);
        begin(many_name, &split[w], true, &many);
        for (i = 0; i < 2 * STEPS; i++) {
            expect_ok(bell_scope_begin(one.c));
            expect_ok(bell_scope_begin(many.c));
            expect_ok(add_gradients(&one, i));
            expect_ok(add_gradients(&many, i));
            expect_ok(bell_optimizer_accumulate(one.opt, NULL, 0));
            expect_ok(bell_optimizer_accumulate(many.opt, NULL, 0));
            for (p = 0; p < PARAMS && split[w].is_exact; p++) {
                n = bell_nbytes(one.params.tensors[p]);
                expect_ok(bell_read(bell_grad(one.params.tensors[p]), want, n));
                expect_ok(bell_read(bell_grad(many.params.tensors[p]), got, n));
                if (memcmp(want, got, n) != 0)
                    fail_msg("%s: gradient %u has other bits", split[w].name,
                             p);
            }
            if (i % 2) {
                expect_ok(bell_optimizer_step(one.opt, NULL, 0));
                expect_ok(bell_optimizer_step(many.opt, NULL, 0));
                expect_same(&one, &many, &split[w]);
                bell_optimizer_zero_grad(one.opt);
                bell_optimizer_zero_grad(many.opt);
            }
            expect_ok(bell_scope_end(many.c));
            expect_ok(bell_scope_end(one.c));
        }
        expect_ok(bell_layout_of(many.net.layers[0].up.weight, &layout));
        assert_int_equal(layout.axes[1], layout.sizes[1] > 1 ? 0 : -1);
        assert_int_equal(layout.axes[0], split[w].kind != BELL_SHARD_PARAMS
                                             ? -1
                                             : layout.sizes[1] > 1);
        end(&one);
        end(&many);
    }
}

/* ---- sequence parallel --------------------------------------------------- */

#define LENGTH 6

/* x + layers(norm(x)): the norm and the sum on parts of the sequence, the
 * layers on parts of their width. */
static tensor
run_sequence(struct training *t, tensor norm, tensor x)
{
    const struct block *b = &t->net.layers[0];
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    bool is_split = bell_mesh_places(t->c) == 4;
    tensor h;

    x = bell_shard(bell_shard(x, "data", 0), "model", 1);
    h = bell_rms_norm(x, norm, 1e-5);
    expect_ok(bell_layout_of(h, &layout));
    assert_int_equal(layout.axes[1], is_split ? 1 : -1);
    h = bell_relu(bell_nn_linear(&b->up, bell_replicate(h, "model")));
    expect_ok(bell_layout_of(h, &layout));
    assert_int_equal(layout.axes[1], is_split ? 2 : -1);
    h = bell_shard(bell_linear(h, b->down.weight, NULL), "model", 1);
    return bell_add(x, bell_add(h, b->down.bias));
}

static void
test_sequence(void **state)
{
    static const struct way way = {"sequence", 0, false, true};
    static double want[IN * HIDDEN], got[IN * HIDDEN];
    struct training t[2];
    tensor norms[2], x, y, grads[2];
    uint64_t first[2], moved;
    uint32_t i, p;
    size_t k;

    (void)state;
    if (strcmp(many_name, "CPU:0,CPU:1,CPU:2,CPU:3") != 0)
        skip();
    for (i = 0; i < 2; i++) {
        begin(i ? many_name : one_name, &way, i, &t[i]);
        norms[i] = make_param(t[i].c, BELL_DIMS(IN), 6, 0.5);
        x = bell_reshape(numbers(t[i].c, BELL_DIMS(4 * LENGTH, IN), 1, 1),
                         BELL_DIMS(4, LENGTH, IN));
        expect_ok(bell_realize1(x));
        first[i] = stats_of(t[i].c).exchanged_bytes;
        y = run_sequence(&t[i], norms[i], x);
        expect_ok(bell_realize1(y));
        moved = stats_of(t[i].c).exchanged_bytes - first[i];
        /* both pairs of places gather what the norm has made, and add up the
         * layers' terms in parts: twice 4 * LENGTH * IN */
        assert_int_equal(moved, i ? 2 * 4 * LENGTH * IN * sizeof(double) : 0);
        y = run_sequence(&t[i], norms[i], x);
        expect_ok(bell_backward(bell_sum(bell_mul(y, y), NULL, 0, false)));
    }
    for (p = 0; p < PARAMS; p++) {
        for (i = 0; i < 2; i++) /* that of the scale is the norm's */
            grads[i] =
                bell_grad(p + 1 < PARAMS ? t[i].params.tensors[p] : norms[i]);
        k = bell_numel(grads[0]);
        expect_ok(bell_read(grads[0], want, k * sizeof(*want)));
        expect_ok(bell_read(grads[1], got, k * sizeof(*got)));
        while (k-- > 0)
            assert_true(fabs(want[k] - got[k]) <= 1e-9 * (1 + fabs(want[k])));
    }
    end(&t[0]);
    end(&t[1]);
}

/* ---- optimisers ---------------------------------------------------------- */

enum kind {
    SGD,
    ADAM,
    ADAMW,
    LAMB,
    RMSPROP,
    ADAGRAD,
    LARS,
    MUON,
    N_KINDS
};

static struct bell_optimizer *
make_optimizer(enum kind kind, tensor const *params, uint32_t n)
{
    const struct bell_sgd_options sgd = {
        .struct_size = sizeof(sgd), .lr = 0.1, .weight_decay = 0.1};
    const struct bell_adam_options adam = {
        .struct_size = sizeof(adam), .lr = 0.01, .weight_decay = 0.1};
    const struct bell_rmsprop_options rmsprop = {.struct_size = sizeof(rmsprop),
                                                 .lr = 0.01,
                                                 .momentum = 0.5,
                                                 .centered = true};
    const struct bell_adagrad_options adagrad = {
        .struct_size = sizeof(adagrad), .lr = 0.01, .initial_value = 0.5};
    const struct bell_lars_options lars = {.struct_size = sizeof(lars),
                                           .lr = 0.1,
                                           .momentum = 0.5,
                                           .weight_decay = 0.1};
    const struct bell_muon_options muon = {.struct_size = sizeof(muon),
                                           .lr = 0.01};
    struct bell_optimizer *opt = NULL;
    bell_status status = BELL_OK;

    switch (kind) {
    case SGD:
        status = bell_sgd_create(params, n, &sgd, &opt);
        break;
    case ADAM:
        status = bell_adam_create(params, n, &adam, &opt);
        break;
    case ADAMW:
        status = bell_adamw_create(params, n, &adam, &opt);
        break;
    case LAMB:
        status = bell_lamb_create(params, n, &adam, &opt);
        break;
    case RMSPROP:
        status = bell_rmsprop_create(params, n, &rmsprop, &opt);
        break;
    case ADAGRAD:
        status = bell_adagrad_create(params, n, &adagrad, &opt);
        break;
    case LARS:
        status = bell_lars_create(params, n, &lars, &opt);
        break;
    case MUON:
        status = bell_muon_create(params, n, &muon, &opt);
        break;
    case N_KINDS:
        break;
    }
    expect_ok(status);
    return opt;
}

/* Matrices in one group, and in another one, added later, the rest but for
 * Muon; the loss is scaled. */
static void
begin_kind(const char *devices, enum kind kind, uint32_t stage,
           struct training *out)
{
    const struct bell_group_options group = {.struct_size = sizeof(group),
                                             .lr = 0.02};
    tensor matrices[2], rest[3];

    memset(out, 0, sizeof(*out));
    expect_ok(bell_context_create(devices, &out->c));
    make_net(out->c, 0.0625, &out->net);
    expect_ok(bell_params_add_module(&out->params, &net_type, &out->net));
    matrices[0] = out->net.layers[0].up.weight;
    matrices[1] = out->net.layers[0].down.weight;
    rest[0] = out->net.layers[0].up.bias;
    rest[1] = out->net.layers[0].down.bias;
    rest[2] = out->net.scale;
    out->opt = make_optimizer(kind, matrices, 2);
    if (stage)
        expect_ok(bell_optimizer_shard(out->opt, "data",
                                       (enum bell_shard_kind)stage));
    if (kind != MUON)
        expect_ok(bell_optimizer_add_group(out->opt, rest, 3, &group));
    expect_ok(bell_optimizer_set_scaler(out->opt, NULL));
}

static void
step_scaled(struct training *t, uint32_t salt)
{
    tensor x =
        bell_shard(numbers(t->c, BELL_DIMS(BATCH, IN), salt, 1), "data", 0);
    tensor loss = bell_sum(bell_mul(forward(&t->net, x), x), NULL, 0, false);

    bell_optimizer_zero_grad(t->opt);
    expect_ok(bell_backward(bell_optimizer_scale(t->opt, loss)));
    expect_ok(bell_optimizer_step(t->opt, NULL, 0));
}

static void
test_kinds(void **state)
{
    static const struct way way = {"optimisers", 0, false, false};
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    struct training one, many;
    uint32_t k, stage, i;

    (void)state;
    /* what they ask of a mesh does not depend on its size */
    if (is_left_out(&way) || strcmp(many_name, "CPU:0,CPU:1,CPU:2") != 0)
        skip();
    for (k = 0; k < N_KINDS; k++) {
        for (stage = 1; stage <= 3; stage += 2) {
            begin_kind(one_name, (enum kind)k, 0, &one);
            begin_kind(many_name, (enum kind)k, stage, &many);
            for (i = 0; i < STEPS; i++) {
                step_scaled(&one, i);
                step_scaled(&many, i);
                expect_same(&one, &many, &way);
            }
            expect_ok(bell_layout_of(many.net.layers[0].up.bias, &layout));
            assert_int_equal(layout.axes[0], stage == 3 && k != MUON ? 0 : -1);
            end(&one);
            end(&many);
        }
    }
}

/* ---- refusals ------------------------------------------------------------ */

static void
test_refusals(void **state)
{
    static const struct way way = {"refusals", 0, true};
    struct training t;

    (void)state;
    begin(many_name, &way, true, &t);
    assert_int_equal(bell_optimizer_shard(NULL, "data", BELL_SHARD_STATES),
                     BELL_E_INVALID);
    expect_fails(bell_optimizer_shard(t.opt, "model", BELL_SHARD_STATES),
                 BELL_E_INVALID, "no axis 'model'; it has 'data'");
    assert_int_equal(bell_optimizer_shard(t.opt, NULL, BELL_SHARD_STATES),
                     BELL_E_INVALID);
    assert_int_equal(
        bell_optimizer_shard(t.opt, "data", (enum bell_shard_kind)4),
        BELL_E_INVALID);
    assert_int_equal(
        bell_optimizer_shard(t.opt, "data", (enum bell_shard_kind)0),
        BELL_E_INVALID);
    expect_ok(bell_optimizer_shard(t.opt, "data", BELL_SHARD_STATES));
    assert_int_equal(bell_optimizer_shard(t.opt, "data", BELL_SHARD_STATES),
                     BELL_E_INVALID);
    end(&t);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_stages),
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_jit),
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_two_axes),     cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_sequence),
    };

    one_name = argc > 1 ? argv[1] : "CPU:0";
    many_name = argc > 2 ? argv[2] : "CPU:0,CPU:1,CPU:2";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
