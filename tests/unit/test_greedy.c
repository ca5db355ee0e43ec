/* Greedy decoding: the text grows by a token, and after the third one nothing
 * is compiled. GPT-2 computes the whole text again, of a size that is a symbol;
 * Llama assigns to a cache at the symbol's place, and attends to the rows so
 * far. Their tokens are those of plain sizes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "doorbell/dim.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/runtime/runtime.h"

#define VOCAB    29
#define WIDTH    16
#define HEADS    4
#define GROUPS   2 /* of heads with keys of their own, in Llama */
#define SIDE     (WIDTH / HEADS)
#define N_LAYERS 2
#define MAX_TEXT 48
#define N_TOKENS 40
#define N_PLAIN  8 /* that plain sizes compute, too */
#define N_WARM   3

/* What the weights of both are for; each is a matrix of WIDTH columns. */
enum {
    WORDS,
    PLACES,
    QUERY,
    KEY,
    VALUE,
    PROJECT,
    WIDEN,
    NARROW,
    N_WEIGHTS
};

struct model {
    struct bell_context *ctx;
    struct bell_tensor *w[N_LAYERS][N_WEIGHTS];
    struct bell_tensor *tokens, *keys[N_LAYERS], *values[N_LAYERS];
    struct bell_tensor *cosines, *sines;
};

/* The logits after `n` tokens. */
typedef struct bell_tensor *next_fn(struct model *m, struct bell_dim n);

static struct bell_tensor *
weight(struct bell_context *ctx, int64_t rows)
{
    return bell_mul_scalar(
        bell_randn(ctx, BELL_DIMS(rows, WIDTH), BELL_FLOAT32), 0.5);
}

static void
begin_model(struct model *m)
{
    struct bell_tensor *at, *angle;
    int i, k;

    assert_int_equal(bell_context_create("CPU", &m->ctx), BELL_OK);
    for (i = 0; i < N_LAYERS; i++) {
        for (k = 0; k < N_WEIGHTS; k++)
            m->w[i][k] = weight(m->ctx, k == WORDS    ? VOCAB
                                        : k == PLACES ? MAX_TEXT
                                                      : WIDTH);
        m->keys[i] =
            bell_zeros(m->ctx, BELL_DIMS(GROUPS, MAX_TEXT, SIDE), BELL_FLOAT32);
        m->values[i] =
            bell_zeros(m->ctx, BELL_DIMS(GROUPS, MAX_TEXT, SIDE), BELL_FLOAT32);
        assert_int_equal(bell_realize(m->w[i], N_WEIGHTS), BELL_OK);
        assert_int_equal(bell_realize1(m->keys[i]), BELL_OK);
        assert_int_equal(bell_realize1(m->values[i]), BELL_OK);
    }
    at = bell_cast(bell_arange(m->ctx, 0, MAX_TEXT, 1, BELL_INT32),
                   BELL_FLOAT32);
    angle = bell_mul_scalar(bell_reshape(at, BELL_DIMS(MAX_TEXT, 1)), 0.3);
    m->cosines = bell_cos(angle);
    m->sines = bell_sin(angle);
    assert_int_equal(bell_realize1(m->cosines), BELL_OK);
    assert_int_equal(bell_realize1(m->sines), BELL_OK);
}

/* x[n, WIDTH] as [heads, n, SIDE]. */
static struct bell_tensor *
heads(struct bell_tensor *x, struct bell_dim n, int64_t count)
{
    return bell_transpose(bell_reshape(x, BELL_SHAPE(n, count, SIDE)), 0, 1);
}

static struct bell_tensor *
merge(struct bell_tensor *x, struct bell_dim n)
{
    return bell_reshape(bell_transpose(x, 0, 1), BELL_SHAPE(n, WIDTH));
}

static struct bell_tensor *
feed(struct bell_tensor *const *w, struct bell_tensor *x, bool gates)
{
    struct bell_tensor *y = bell_linear(x, w[WIDEN], NULL);

    y = gates ? bell_mul(bell_silu(y), bell_linear(x, w[QUERY], NULL))
              : bell_gelu(y, true);
    return bell_linear(y, w[NARROW], NULL);
}

static struct bell_tensor *
run_gpt2(struct model *m, struct bell_dim n)
{
    struct bell_tensor *x, *y;
    int i;

    x = bell_add(
        bell_embedding(bell_narrow(m->tokens, 0, 0, n), m->w[0][WORDS]),
        bell_narrow(m->w[0][PLACES], 0, 0, n));
    for (i = 0; i < N_LAYERS; i++) {
        struct bell_tensor **w = m->w[i];

        y = bell_layer_norm(x, 1, NULL, NULL, 1e-5);
        y = bell_scaled_dot_product_attention(
            heads(bell_linear(y, w[QUERY], NULL), n, HEADS),
            heads(bell_linear(y, w[KEY], NULL), n, HEADS),
            heads(bell_linear(y, w[VALUE], NULL), n, HEADS), NULL, 0, true, 0);
        x = bell_add(x, bell_linear(merge(y, n), w[PROJECT], NULL));
        y = bell_layer_norm(x, 1, NULL, NULL, 1e-5);
        x = bell_add(x, feed(w, y, false));
    }
    x = bell_narrow(x, 0, bell_dim_sub(m->ctx, n, 1), 1);
    return bell_linear(x, m->w[0][WORDS], NULL);
}

/* Pairs of halves, by the angle of the place. */
static struct bell_tensor *
turn(const struct model *m, struct bell_tensor *x, struct bell_dim place)
{
    struct bell_tensor *cosine = bell_narrow(m->cosines, 0, place, 1);
    struct bell_tensor *sine = bell_narrow(m->sines, 0, place, 1);
    struct bell_tensor *a = bell_narrow(x, -1, 0, SIDE / 2);
    struct bell_tensor *b = bell_narrow(x, -1, SIDE / 2, SIDE / 2);
    struct bell_tensor *halves[2] = {
        bell_sub(bell_mul(a, cosine), bell_mul(b, sine)),
        bell_add(bell_mul(b, cosine), bell_mul(a, sine)),
    };

    return bell_cat(halves, 2, -1);
}

static struct bell_tensor *
few(struct bell_tensor *x)
{
    return bell_narrow(x, 1, 0, GROUPS * SIDE);
}

static struct bell_tensor *
run_llama(struct model *m, struct bell_dim n)
{
    struct bell_dim place = bell_dim_sub(m->ctx, n, 1), one = bell_dim_of(1);
    struct bell_tensor *x, *y, *q, *k, *v;
    int i;

    x = bell_embedding(bell_narrow(m->tokens, 0, place, 1), m->w[0][WORDS]);
    for (i = 0; i < N_LAYERS; i++) {
        struct bell_tensor **w = m->w[i];

        y = bell_rms_norm(x, NULL, 1e-5);
        q = turn(m, heads(bell_linear(y, w[QUERY], NULL), one, HEADS), place);
        k = heads(few(bell_linear(y, w[KEY], NULL)), one, GROUPS);
        v = heads(few(bell_linear(y, w[VALUE], NULL)), one, GROUPS);
        bell_assign_slice(m->keys[i], BELL_SHAPE(0, place, 0),
                          turn(m, k, place));
        bell_assign_slice(m->values[i], BELL_SHAPE(0, place, 0), v);
        y = bell_scaled_dot_product_attention(
            q, bell_narrow(m->keys[i], 1, 0, n),
            bell_narrow(m->values[i], 1, 0, n), NULL, 0, false, 0);
        x = bell_add(x, bell_linear(merge(y, one), w[PROJECT], NULL));
        x = bell_add(x, feed(w, bell_rms_norm(x, NULL, 1e-5), true));
    }
    return bell_linear(x, m->w[0][WORDS], NULL);
}

/* Greedy tokens behind the first. `varies`: the size is a symbol. */
static void
decode(next_fn *next, bool varies, int n_tokens, int32_t *tokens)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    uint64_t n_kernels = 0, n_plans = 0;
    struct model m = {0};
    struct bell_dim n;
    int64_t best;
    int i;

    begin_model(&m);
    n = bell_symbol(m.ctx, "n", 1, MAX_TEXT);
    for (i = 1; i <= n_tokens; i++) {
        assert_int_equal(bell_scope_begin(m.ctx), BELL_OK);
        m.tokens =
            bell_from_data(m.ctx, BELL_DIMS(MAX_TEXT), BELL_INT32, tokens);
        assert_int_equal(bell_symbol_set(m.ctx, n, i), BELL_OK);
        if (bell_item_i64(
                bell_argmax(next(&m, varies ? n : bell_dim_of(i)), -1, false),
                &best) != BELL_OK)
            fail_msg("token %d: %s", i, bell_error_last()->message);
        assert_int_equal(bell_scope_end(m.ctx), BELL_OK);
        tokens[i] = (int32_t)best;
        bell_context_stats(m.ctx, &stats);
        if (i > N_WARM && varies) {
            assert_int_equal(stats.n_kernels_compiled, n_kernels);
            assert_int_equal(stats.n_plans, n_plans);
        }
        n_kernels = stats.n_kernels_compiled;
        n_plans = stats.n_plans;
    }
    bell_context_destroy(m.ctx);
}

static void
check_decoding(next_fn *next)
{
    int32_t tokens[MAX_TEXT] = {7}, plain[MAX_TEXT] = {7};
    int i, n_same = 0;

    decode(next, true, N_TOKENS, tokens);
    decode(next, false, N_PLAIN, plain);
    for (i = 1; i <= N_PLAIN; i++)
        assert_int_equal(tokens[i], plain[i]);
    for (i = 1; i <= N_TOKENS; i++)
        n_same += tokens[i] == tokens[1];
    assert_true(n_same < N_TOKENS); /* a text */
}

static void
test_gpt2(void **state)
{
    (void)state;
    check_decoding(run_gpt2);
}

static void
test_llama(void **state)
{
    (void)state;
    check_decoding(run_llama);
}

#define N_ROWS 4000
#define N_COLS 256

/* Scratch memory is for the size at hand, and over many sizes nothing is kept:
 * a step whose sum is stored before it is used. */
static void
test_memory(void **state)
{
    size_t n_graph = 0, n_kernels = 0, n_dims = 0;
    const struct tensor_runtime *rt;
    struct bell_context *ctx;
    struct bell_tensor *x, *y;
    uint64_t least = UINT64_MAX, most = 0;
    struct bell_dim n;
    float got;
    int i;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    n = bell_symbol(ctx, "n", 1, N_ROWS);
    x = bell_full(ctx, BELL_DIMS(N_ROWS, N_COLS), 1, BELL_FLOAT32);
    assert_int_equal(bell_realize1(x), BELL_OK);
    rt = ctx->runtime;
    for (i = 0; i < 2000; i++) {
        int64_t now = 1 + (int64_t)i * 1237 % 63;

        now = i % 500 ? now : N_ROWS;
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        assert_int_equal(bell_symbol_set(ctx, n, now), BELL_OK);
        y = bell_contiguous(bell_add_scalar(bell_narrow(x, 0, 0, n), 1));
        y = bell_sum(bell_mul(y, bell_flip(y, BELL_DIMS(0))), NULL, 0, false);
        assert_int_equal(bell_read(y, &got, sizeof(got)), BELL_OK);
        assert_true(got == 4 * (float)now * N_COLS);
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        assert_int_equal(rt->n_plans, 2);
        least = rt->plans[1].scratch_bytes < least ? rt->plans[1].scratch_bytes
                                                   : least;
        most = rt->plans[1].scratch_bytes > most ? rt->plans[1].scratch_bytes
                                                 : most;
        if (i == 2) {
            n_graph = rt->graphs.n_nodes;
            n_kernels = rt->kernels.n_nodes;
            n_dims = ctx->dims->n_exprs;
        }
    }
    assert_true(most >= (uint64_t)N_ROWS * N_COLS * sizeof(float));
    assert_true(least <= (uint64_t)100 * N_COLS * sizeof(float));
    assert_int_equal(rt->graphs.n_nodes, n_graph);
    assert_int_equal(rt->kernels.n_nodes, n_kernels);
    assert_int_equal(ctx->dims->n_exprs, n_dims);
    bell_context_destroy(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("greedy", tests, NULL, NULL);
}
