/* How many bytes the places of a mesh exchange: no more than the smallest value
 * takes from which each can go on alone; and how often: gradients are joined.
 * Values are those of one device.
 */
#include <string.h>

#include "base/bits.h"
#include "doorbell/jit.h"
#include "doorbell/mesh.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/expect.h"

#define ROWS  12
#define COLS  24
#define MOST  65536 /* bytes of a result */
#define BYTES (ROWS * COLS * sizeof(float))

static const char *one_name, *many_name;

typedef struct bell_tensor *tensor;

static struct bell_stats
stats_of(const struct bell_context *c)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    bell_context_stats(c, &stats);
    return stats;
}

/* Whole numbers, split along an axis. */
static tensor
leaf(struct bell_context *c, int64_t rows, int64_t cols, int axis)
{
    float values[ROWS * COLS];
    int64_t i;
    tensor t;

    for (i = 0; i < rows * cols; i++)
        values[i] = (float)(i * 7 % 11 - 5);
    t = bell_from_data(c, BELL_DIMS(rows, cols), BELL_FLOAT32, values);
    t = bell_shard(t, "data", axis);
    expect_ok(bell_realize1(t));
    return t;
}

/* ---- programs: of a leaf of 12x24, or 24x12, that is split --------------- */

static tensor
p_product(tensor x)
{
    return bell_matmul(leaf(bell_context_of(x), COLS, ROWS, 0), x);
}

static tensor
p_other_columns(tensor x)
{
    return bell_matmul(x, leaf(bell_context_of(x), COLS, ROWS, 1));
}

static tensor
p_repeated(tensor x)
{
    tensor y = bell_expand(bell_reshape(x, BELL_DIMS(ROWS, 1, COLS)),
                           BELL_DIMS(ROWS, 7, COLS));

    return bell_replicate(y, "data");
}

static tensor
p_tiled(tensor x)
{
    return bell_replicate(bell_repeat(x, BELL_DIMS(1, 3)), "data");
}

static tensor
p_padded(tensor x)
{
    static const int64_t pads[] = {5, 6};

    return bell_replicate(bell_neg(bell_pad(x, pads, 2, 3)), "data");
}

static tensor
p_padded_in_turn(tensor x)
{
    static const int64_t pads[] = {0, 0, 2, 1};
    tensor y = bell_permute(x, BELL_DIMS(1, 0));

    y = bell_expand(bell_reshape(y, BELL_DIMS(1, COLS, ROWS)),
                    BELL_DIMS(4, COLS, ROWS));
    return bell_replicate(bell_flip(bell_pad(y, pads, 4, 1), BELL_DIMS(0)),
                          "data");
}

static tensor
p_wider(tensor x)
{
    return bell_replicate(bell_cast(x, BELL_FLOAT64), "data");
}

static tensor
p_computed(tensor x)
{
    tensor y = bell_expand(bell_reshape(x, BELL_DIMS(ROWS, COLS, 1)),
                           BELL_DIMS(ROWS, COLS, 5));

    return bell_replicate(bell_mul_scalar(bell_add_scalar(y, 1), 3), "data");
}

/* Parts of a repeated axis are wanted. */
static tensor
p_sum_repeated(tensor x)
{
    tensor y =
        bell_expand(bell_sum(x, BELL_DIMS(0), true), BELL_DIMS(ROWS, COLS));

    return bell_mul(leaf(bell_context_of(x), ROWS, COLS, 0), y);
}

/* Parts of an axis that is there before it is repeated. */
static tensor
p_sum_parts(tensor x)
{
    tensor y =
        bell_expand(bell_sum(x, BELL_DIMS(0), true), BELL_DIMS(ROWS, COLS));

    return bell_mul(leaf(bell_context_of(x), ROWS, COLS, 1), y);
}

static tensor
p_narrowed(tensor x)
{
    return bell_replicate(bell_narrow(x, 1, 3, 4), "data");
}

static tensor
p_summed_once(tensor x)
{
    tensor y =
        bell_expand(bell_sum(x, BELL_DIMS(0), true), BELL_DIMS(ROWS, COLS));

    return bell_mul_scalar(
        bell_narrow(bell_sum(y, BELL_DIMS(0), true), 1, 2, 6), 2);
}

/* Bytes of what goes over; n - 1 times that are exchanged by n places, or up to
 * n (n - 1) times where it is a sum. */
static const struct {
    const char *name;
    tensor (*run)(tensor x);
    uint64_t n_bytes;
    bool is_sum;
} programs[] = {
    {"product", p_product, BYTES, false},
    {"other columns", p_other_columns, BYTES, false},
    {"repeated", p_repeated, BYTES, false},
    {"tiled", p_tiled, BYTES, false},
    {"padded", p_padded, BYTES, false},
    {"padded in turn", p_padded_in_turn, BYTES, false},
    {"wider", p_wider, BYTES, false},
    {"computed", p_computed, BYTES, false},
    {"sum, repeated", p_sum_repeated, COLS * sizeof(float), true},
    {"sum, parts", p_sum_parts, COLS * sizeof(float), true},
    {"narrowed", p_narrowed, ROWS * 4 * sizeof(float), false},
    {"summed once", p_summed_once, 6 * sizeof(float), true},
};

static void
test_bytes(void **state)
{
    static uint8_t want[MOST], got[MOST];
    struct bell_context *one, *many;
    uint64_t n, first, bytes, most;
    size_t i, size;
    tensor y;

    (void)state;
    expect_ok(bell_context_create(one_name, &one));
    expect_ok(bell_context_create(many_name, &many));
    n = bell_mesh_places(many);
    for (i = 0; i < ARRAY_LEN(programs); i++) {
        expect_ok(bell_scope_begin(one));
        expect_ok(bell_scope_begin(many));
        y = programs[i].run(leaf(one, ROWS, COLS, 0));
        size = bell_nbytes(y);
        assert_true(size <= MOST);
        expect_ok(bell_read(y, want, size));
        y = programs[i].run(leaf(many, ROWS, COLS, 0));
        first = stats_of(many).exchanged_bytes;
        expect_ok(bell_realize1(y));
        bytes = stats_of(many).exchanged_bytes - first;
        expect_ok(bell_read(y, got, size));
        most = programs[i].n_bytes * (n - 1) * (programs[i].is_sum ? n : 1);
        if (bytes == 0 || bytes > most)
            fail_msg("%s: %llu bytes, at most %llu", programs[i].name,
                     (unsigned long long)bytes, (unsigned long long)most);
        if (memcmp(want, got, size) != 0)
            fail_msg("%s: other bits on several devices", programs[i].name);
        expect_ok(bell_scope_end(many));
        expect_ok(bell_scope_end(one));
    }
    bell_context_destroy(one);
    bell_context_destroy(many);
}

/* ---- data parallel ------------------------------------------------------- */

#define WIDTH  128
#define LAYERS 3
#define BATCH  16
#define PLACES 8
#define GRADS  (2 * LAYERS)

struct network {
    tensor params[GRADS]; /* weight, bias of each layer */
};

/* Two numbers of each column are not 0, so that all sums are exact. */
static void
make_network(struct bell_context *c, struct network *out)
{
    static float w[WIDTH * WIDTH], b[WIDTH];
    uint32_t l, i;

    for (l = 0; l < LAYERS; l++) {
        memset(w, 0, sizeof(w));
        for (i = 0; i < WIDTH; i++) {
            w[(i * 5 + l) % WIDTH * WIDTH + i] = 1;
            w[(i * 3 + 7) % WIDTH * WIDTH + i] = -2;
            b[i] = (float)((i + l) % 3);
        }
        out->params[2 * l] =
            bell_from_data(c, BELL_DIMS(WIDTH, WIDTH), BELL_FLOAT32, w);
        out->params[2 * l + 1] =
            bell_from_data(c, BELL_DIMS(WIDTH), BELL_FLOAT32, b);
    }
    expect_ok(bell_realize(out->params, GRADS));
}

/* The gradients of all parameters. */
static bell_status
find_gradients(struct bell_context *c, void *user, tensor const *in,
               tensor *out)
{
    struct network *net = user;
    tensor y = bell_shard(in[0], "data", 0);
    uint32_t l;

    for (l = 0; l < LAYERS; l++)
        y = bell_relu(bell_add(bell_matmul(y, net->params[2 * l]),
                               net->params[2 * l + 1]));
    BELL_TRY(
        bell_gradient(bell_sum(y, NULL, 0, false), net->params, GRADS, out));
    return bell_context_status(c);
}

static tensor
batch_of(struct bell_context *c, uint32_t salt)
{
    float x[BATCH * WIDTH];
    uint32_t i;
    tensor t;

    for (i = 0; i < BATCH * WIDTH; i++)
        x[i] = (float)((i * 7 + salt + i / 9) % 5) - 2;
    t = bell_from_data(c, BELL_DIMS(BATCH, WIDTH), BELL_FLOAT32, x);
    expect_ok(bell_realize1(t));
    return t;
}

/* Gradients of a step are one exchange, of 2 (n - 1) times their bytes; and the
 * bits of one device. */
static void
expect_step(const char *name, struct bell_stats first, struct bell_stats last,
            const tensor *want, const tensor *got)
{
    static float a[WIDTH * WIDTH], b[WIDTH * WIDTH];
    uint64_t n_bytes = 0, n = last.n_exchanges - first.n_exchanges;
    uint64_t moved = last.exchanged_bytes - first.exchanged_bytes;
    uint32_t i;

    for (i = 0; i < GRADS; i++)
        n_bytes += bell_nbytes(got[i]);
    print_message("# %s: %llu exchanges, %llu bytes, %.2f of all gradients'\n",
                  name, (unsigned long long)n, (unsigned long long)moved,
                  (double)moved / (double)n_bytes);
    assert_int_equal(n, 1);
    assert_true(moved <= 2 * (PLACES - 1) * n_bytes);
    for (i = 0; i < GRADS; i++) {
        expect_ok(bell_read(want[i], a, bell_nbytes(want[i])));
        expect_ok(bell_read(got[i], b, bell_nbytes(want[i])));
        if (memcmp(a, b, bell_nbytes(want[i])) != 0)
            fail_msg("%s: gradient %u has other bits", name, i);
    }
}

static void
test_data_parallel(void **state)
{
    struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                 .name = "step",
                                 .fn = find_gradients,
                                 .n_in = 1,
                                 .n_out = GRADS};
    struct bell_context *one, *many;
    struct network net, same;
    tensor want[GRADS], got[GRADS], x;
    struct bell_stats first;
    struct bell_jit *jit;
    uint32_t i;

    (void)state;
    expect_ok(bell_context_create("CPU", &one));
    expect_ok(bell_context_create(
        "CPU:0,CPU:1,CPU:2,CPU:3,CPU:4,CPU:5,CPU:6,CPU:7", &many));
    make_network(one, &net);
    make_network(many, &same);
    desc.user = &same;
    expect_ok(bell_jit_create(many, &desc, &jit));
    for (i = 0; i < 4; i++) {
        expect_ok(bell_scope_begin(one));
        expect_ok(bell_scope_begin(many));
        x = batch_of(one, i);
        expect_ok(find_gradients(one, &net, &x, want));
        expect_ok(bell_realize(want, GRADS));
        x = batch_of(many, i);
        first = stats_of(many);
        if (i == 0) {
            expect_ok(find_gradients(many, &same, &x, got));
            expect_ok(bell_realize(got, GRADS));
        } else {
            expect_ok(bell_jit_call(jit, &x, got));
        }
        if (i != 1) /* which captures */
            expect_step(i ? "jit" : "plain", first, stats_of(many), want, got);
        expect_ok(bell_scope_end(many));
        expect_ok(bell_scope_end(one));
    }
    bell_jit_destroy(jit);
    bell_context_destroy(one);
    bell_context_destroy(many);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_data_parallel)};

    one_name = argc > 1 ? argv[1] : "CPU:0";
    many_name = argc > 2 ? argv[2] : "CPU:0,CPU:1,CPU:2";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
