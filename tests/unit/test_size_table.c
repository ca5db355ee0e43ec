/* Every function of the table with sizes of one and of two symbols: it gives
 * what plain sizes give, by one plan for all values, or it is listed here with
 * the reason why it refuses them.
 *
 * A call is a name and its arguments, as in test_call_edges: letters are
 * tensors, of the shapes below, S and B the two sizes; nN an int, fN a float,
 * bN a bool, 'S' a string, ( .. ) a list, NAME=ARG. With one symbol B is 2.
 * Rows without a call here are called with x, or with x and y. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/functions.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "tests/unit/sanitized.h"

#define MAX_S     12
#define MAX_B     24
#define MAX_WORDS 24
#define MAX_ELEMS 131072

/* Sizes of leaves and of arguments: numbers, or one of these. */
#define S (-1)
#define B (-2)
#define W (-3) /* B + 5: of images */

enum content {
    PARTS, /* 0.1 .. 0.9 */
    SIGNED,
    PLACES, /* 0, 1, 2, 3 */
    TRUTH,
};

static const struct leaf {
    char letter;
    enum content content;
    uint32_t n;
    int64_t d[5];
} leaves[] = {
    {'x', PARTS, 3, {B, S, 4}},
    {'y', SIGNED, 3, {B, S, 4}},
    {'z', SIGNED, 3, {B, S, 4}},
    {'i', PLACES, 2, {B, S}},
    {'j', PLACES, 3, {B, S, 4}},
    {'b', TRUTH, 3, {B, S, 4}},
    {'r', SIGNED, 2, {S, B}},
    {'s', SIGNED, 1, {S}},
    {'t', PARTS, 1, {S}},
    {'p', PLACES, 1, {S}},
    {'a', SIGNED, 2, {S, 4}},
    {'m', SIGNED, 2, {4, S}},
    {'M', SIGNED, 3, {B, 4, S}},
    {'w', SIGNED, 2, {4, 4}},
    {'f', PARTS, 1, {4}},
    {'g', SIGNED, 1, {4}},
    {'E', SIGNED, 2, {5, 4}},
    {'Q', SIGNED, 4, {B, 2, S, 4}},
    {'K', SIGNED, 4, {B, 2, S, 4}},
    {'V', SIGNED, 4, {B, 2, S, 4}},
    {'c', SIGNED, 3, {S, 4, W}},
    {'C', SIGNED, 4, {S, 4, 6, W}},
    {'D', SIGNED, 5, {S, 4, 3, 3, W}},
    {'1', SIGNED, 3, {4, 4, 3}},
    {'2', SIGNED, 4, {4, 4, 3, 3}},
    {'3', SIGNED, 5, {4, 4, 2, 2, 2}},
    {'q', SIGNED, 3, {S, 3, 3}},
    {'v', PARTS, 1, {3}},
    {'k', TRUTH, 2, {S, S}},
    {'h', SIGNED, 2, {S, S}},
    {'G', PARTS, 4, {S, 3, B, 2}},
    {'o', TRUTH, 1, {S}},
    {'O', PLACES, 2, {S, 4}},
    {'u', PARTS, 2, {S, 16}},
    {'I', PLACES, 3, {S, 4, W}},
    {'J', PLACES, 4, {S, 4, 6, W}},
    {'L', PLACES, 5, {S, 4, 3, 3, W}},
    {'e', SIGNED, 2, {MAX_S, 4}},
    {'R', PARTS, 2, {S, 5}},
    {'N', PARTS, 2, {S, 4}},
    {'P', PARTS, 2, {B, S}},
    {'U', SIGNED, 4, {S, 4, 4, 6}},
    {'Y', SIGNED, 3, {B, S, 4}},
    {'H', PARTS, 3, {B, S, 4}},
    {'T', PLACES, 2, {B, S}},
    {'X', SIGNED, 3, {B, 4, S}},
    {'l', SIGNED, 4, {B, S, 4, 2}},
    {'A', SIGNED, 4, {S, 3, 6, 2}},
};

/* clang-format off */
static const char *const calls[] = {
    "lerp x y z", "addcmul x y z", "addcdiv y z x", "clamp y f-0.5 f0.5",
    "bitwise_and j j", "bitwise_or j j", "bitwise_xor j j", "bitwise_not j",
    "bitwise_left_shift j j", "bitwise_right_shift j j", "where b x y",
    "bitcast x dint32", "to x dfloat64",
    "t a", "sum x n1", "prod x n1", "mean x n1", "any b n1", "all b n0", "count_nonzero b n1",
    "var x n1", "std x ( n0 n1 )", "var_mean x n0", "std_mean x n1", "norm y n2 n1",
    "logsumexp y n1", "argmax y n1", "argmin y", "softmax y n1", "log_softmax y n1",
    "softmin y n1", "normalize y n2 n1", "cumsum y n1", "cumprod x n1", "sort y n2", "msort w",
    "argsort y n2", "topk y n2 n2", "solve q q", "solve_triangular q q b0", "inv q", "cholesky q",
    "det q", "qr q", "svd q", "svdvals q", "eigh q", "eigvalsh q", "slogdet q", "pinv q",
    "matrix_rank q", "fft l dim=n2", "ifft l dim=n2", "rfft y dim=n2", "irfft l dim=n2", "stft u n4",
    "istft A n4",
    "reshape x ( B n-1 )", "permute x ( n2 n0 n1 )", "transpose x n0 n1", "movedim x n0 n2",
    "expand a ( n3 S n4 )", "squeeze x n1", "unsqueeze x n1", "flatten x n0 n1", "unflatten x n2 ( n2 n2 )",
    "flip x ( n1 )", "roll x n2 n1", "pad x ( n1 n0 n2 n1 )", "repeat x ( n1 n2 n3 )", "tile x ( n2 n1 )",
    "repeat_interleave x n3 n1", "tril x", "triu x", "diag s", "diagonal h", "trace h",
    "rearrange x 'b_s_(h_d)_->_b_h_s_d' h=n2", "unfold x n1 n3 n2", "cat ( x y ) n1", "stack ( x y ) n1",
    "split x n2 n2", "chunk x n2 n2", "unbind x n2", "meshgrid s t", "select x n1 n0",
    "narrow x n1 n0 n1", "gather x n1 j", "index_select x n2 p", "take x i", "assign_slice e ( n0 n0 ) a",
    "masked_fill x b f2.5", "embedding i E", "one_hot i n4", "scatter x n2 j y", "scatter_add x n2 j y",
    "scatter_reduce x n2 j y 'amax'", "index_add E n0 p a", "index_copy E n0 p a",
    "index_put E ( p ) f1.5", "take_along_dim x j n2",
    "max y n1", "min y n1", "amax y n1", "amin y n1", "aminmax y dim=n1", "cummax y n1", "cummin y n1",
    "median y n2", "nanmedian y n2", "mode y n2", "kthvalue y n2 n2", "quantile y f0.5 n2",
    "nanquantile y f0.5 n2", "searchsorted f y", "bucketize y f", "histc y n5 n-1 n1", "bincount p minlength=n5",
    "unique p", "unique_consecutive p", "nonzero x size=n5", "masked_select x b size=n5", "logcumsumexp y n1",
    "multinomial P n2", "cdist x y", "tensordot x m n1", "kron a w",
    "kl_div y x", "smooth_l1_loss x y", "matmul x M", "mm a w", "mv a g", "bmm x M", "dot s t", "outer s g",
    "addmm a a w", "einsum 'bsd,de->bse' x w", "linear x w g", "scaled_dot_product_attention Q K V is_causal=b1",
    "conv1d c 1 g padding=n1", "conv2d C 2 g n2 n1", "conv3d D 3 g", "conv_transpose1d c 1 g",
    "conv_transpose2d C 2 g", "conv_transpose3d D 3 g", "max_pool1d c n2", "max_pool2d C n3 n2 n1", "max_pool3d D n2",
    "max_unpool1d c I n2", "max_unpool2d C J n2", "max_unpool3d D L n2", "avg_pool1d c n2", "avg_pool2d C n3 n2 n1",
    "avg_pool3d D n2", "adaptive_avg_pool1d c n3", "adaptive_avg_pool2d C n3", "adaptive_avg_pool3d D n3",
    "interpolate C scale_factor=f2.0", "grid_sample C G", "roi_align U R n2 sampling_ratio=n2", "nms N t f0.5",
    "pixel_shuffle C n2", "pixel_unshuffle U n2", "dropout x f0.5",
    "layer_norm x ( n4 ) f g", "rms_norm x ( n4 ) f", "batch_norm M g f training=b1", "group_norm M n2 f g",
    "instance_norm M", "cross_entropy a p", "nll_loss a p", "mse_loss x y", "l1_loss x y", "huber_loss x y",
    "binary_cross_entropy x x", "binary_cross_entropy_with_logits y x",
    "zeros ( S n4 )", "ones ( S n4 )", "full ( S B ) n3", "full_like x n3", "rand ( S n4 )", "randn ( S n4 )",
    "eye S", "arange S", "linspace n0 n1 S", "randint n0 n5 ( S n4 )", "randperm S", "uniform ( S n4 )",
    "normal n0 n1 ( S n4 )", "scaled_uniform ( S n4 )", "glorot_uniform ( S n4 )", "kaiming_uniform ( S n4 )",
    "kaiming_normal ( S n4 )", "tensor ( f1.0 f2.0 )",
};
/* clang-format on */

/* The reason for images whose sides are symbols; their number may be one. */
#define PLACE "places in images are computed from their sides"

/* Rows that refuse, in the modes (1: one symbol, 2: two), and why. */
static const struct {
    const char *name;
    int modes;
    const char *why;
} refusals[] = {
    {"conv_transpose1d", 2, PLACE},
    {"conv_transpose2d", 2, PLACE},
    {"conv_transpose3d", 2, PLACE},
    {"max_unpool1d", 2, PLACE},
    {"max_unpool2d", 2, PLACE},
    {"max_unpool3d", 2, PLACE},
    {"adaptive_avg_pool1d", 2, PLACE},
    {"adaptive_avg_pool2d", 2, PLACE},
    {"adaptive_avg_pool3d", 2, PLACE},
    {"interpolate", 2, PLACE},
    {"grid_sample", 2, PLACE},
    {"nms", 3, "how many are kept depends on values"},
    {"bincount", 3, "how many there are depends on values"},
    {"unique", 3, "how many there are depends on values"},
    {"unique_consecutive", 3, "how many there are depends on values"},
    {"multinomial", 3, "a network of sorting is for one size"},
    {"linspace", 3, "its steps are a number"},
    {"scaled_uniform", 3, "bounds of weights are numbers"},
    {"glorot_uniform", 3, "bounds of weights are numbers"},
    {"kaiming_uniform", 3, "bounds of weights are numbers"},
    {"kaiming_normal", 3, "bounds of weights are numbers"},
    {"randperm", 3, "a network of sorting is for one size"},
};

static struct bell_context *ctx;
static struct bell_dim now_s, now_b; /* of the calls that are made */
static struct bell_tensor *base[ARRAY_LEN(leaves)];

static struct bell_dim
size_of(int64_t d)
{
    return d == S   ? now_s
           : d == B ? now_b
           : d == W ? bell_dim_add(ctx, now_b, 5)
                    : bell_dim_of(d);
}

static float
value_of(enum content content, size_t i)
{
    size_t noise = (i + 3) * 7919 % 1009;

    switch (content) {
    case PARTS:
        return 0.1f + 0.8f * (float)noise / 1009;
    case SIGNED:
        return (float)noise / 400 - 1.2f;
    case PLACES:
        return (float)(noise % 4);
    case TRUTH:
        return noise % 3 == 0;
    }
    return 0;
}

/* Leaves as great as they can be, of which the calls take the first. */
static void
make_leaves(void)
{
    static float v[MAX_ELEMS];
    static const enum bell_dtype dtypes[] = {
        [PARTS] = BELL_FLOAT32,
        [SIGNED] = BELL_FLOAT32,
        [PLACES] = BELL_INT64,
        [TRUTH] = BELL_BOOL,
    };
    int64_t d[5];
    size_t i, k, n;
    uint32_t a;

    for (i = 0; i < ARRAY_LEN(leaves); i++) {
        const struct leaf *l = &leaves[i];
        for (a = 0, n = 1; a < l->n; a++) {
            d[a] = l->d[a] == S   ? MAX_S
                   : l->d[a] == B ? MAX_B
                   : l->d[a] == W ? MAX_B + 5
                                  : l->d[a];
            n *= (size_t)d[a];
        }
        assert_true(n <= ARRAY_LEN(v));
        for (k = 0; k < n; k++)
            v[k] = value_of(l->content, k * 3 + i);
        base[i] = bell_cast(bell_from_data(ctx, d, l->n, BELL_FLOAT32, v),
                            dtypes[l->content]);
    }
    assert_int_equal(bell_realize(base, ARRAY_LEN(base)), BELL_OK);
}

static struct bell_tensor *
leaf(char letter)
{
    struct bell_tensor *t;
    size_t i;
    uint32_t a;

    for (i = 0; i < ARRAY_LEN(leaves) && leaves[i].letter != letter; i++)
        ;
    if (i == ARRAY_LEN(leaves))
        fail_msg("no tensor '%c'", letter);
    for (t = base[i], a = 0; a < leaves[i].n; a++) {
        if (leaves[i].d[a] < 0)
            t = bell_narrow(t, (int)a, 0, size_of(leaves[i].d[a]));
    }
    return t;
}

/* ---- calls as text ---- */

struct text_call {
    char text[200];
    struct bell_arg args[BELL_MAX_PARAMS];
    struct bell_value items[MAX_WORDS];
    uint32_t n_items;
    struct bell_call call;
};

static struct bell_value
make_value(char *word)
{
    char *c;

    if (strcmp(word, "S") == 0)
        return bell_of_int(now_s.word);
    if (strcmp(word, "B") == 0)
        return bell_of_int(now_b.word);
    if (word[0] == 'n' && word[1])
        return bell_of_int(strtoll(word + 1, NULL, 10));
    if (word[0] == 'f' && word[1])
        return bell_of_float(strtod(word + 1, NULL));
    if (word[0] == 'b' && word[1])
        return bell_of_bool(word[1] == '1');
    if (word[0] == 'd' && word[1])
        return bell_of_dtype(bell_dtype_find(word + 1));
    if (word[0] == '\'') {
        word[strlen(word) - 1] = 0;
        for (c = word; *c; c++)
            *c = *c == '_' ? ' ' : *c;
        return bell_of_str(word + 1);
    }
    return bell_of_tensor(leaf(word[0]));
}

static bell_status
call_text(struct text_call *t, const char *text)
{
    char *word, *rest, *equals;

    assert_true(strlen(text) < sizeof(t->text));
    memset(t, 0, sizeof(*t));
    memcpy(t->text, text, strlen(text) + 1);
    word = strtok_r(t->text, " ", &rest);
    t->call.function = bell_function_find(word);
    t->call.args = t->args;
    if (!t->call.function)
        fail_msg("no function '%s'", word);
    while ((word = strtok_r(NULL, " ", &rest))) {
        struct bell_arg *arg = &t->args[t->call.n_args++];
        const struct bell_value *first = &t->items[t->n_items];
        equals = word[0] == '\'' ? NULL : strchr(word, '=');
        if (equals) {
            *equals = 0;
            arg->name = word;
            word = equals + 1;
        }
        if (word[0] != '(') {
            arg->value = make_value(word);
            continue;
        }
        while ((word = strtok_r(NULL, " ", &rest)) && word[0] != ')')
            t->items[t->n_items++] = make_value(word);
        arg->value =
            bell_of_list(first, (uint32_t)(&t->items[t->n_items] - first));
    }
    return bell_function_call(ctx, &t->call);
}

/* The call of a row: listed, or by how many tensors it needs. */
static const char *
text_of(const struct bell_function *f, char room[static 200])
{
    struct bell_param params[BELL_MAX_PARAMS];
    size_t len = strlen(f->name), i;
    uint32_t n;

    for (i = 0; i < ARRAY_LEN(calls); i++) {
        if (strncmp(calls[i], f->name, len) == 0 && calls[i][len] == ' ')
            return calls[i];
    }
    n = bell_function_params(f, params);
    snprintf(room, 200, "%s x%s", f->name,
             n > 1 && params[1].required && params[1].kind == BELL_PARAM_TENSOR
                 ? " y"
                 : "");
    return room;
}

/* ---- a row ---- */

struct results {
    uint32_t n;
    size_t n_elems[4];
    double v[4][MAX_ELEMS / 4];
};

/* The first results; false after a failure. */
static bool
compute(const char *text, struct results *r)
{
    struct text_call t;
    bool ok;
    uint32_t i;

    assert_int_equal(bell_scope_begin(ctx), BELL_OK);
    bell_manual_seed(ctx, 5);
    ok = call_text(&t, text) == BELL_OK;
    r->n = ok ? t.call.n_results : 0;
    r->n = r->n < 4 ? r->n : 4;
    if (ok)
        ok = bell_realize(t.call.results, r->n) == BELL_OK;
    for (i = 0; ok && i < r->n; i++) {
        r->n_elems[i] = bell_numel(t.call.results[i]);
        assert_true(r->n_elems[i] <= ARRAY_LEN(r->v[i]));
        ok =
            bell_read_f64(t.call.results[i], r->v[i], r->n_elems[i]) == BELL_OK;
    }
    assert_int_equal(bell_scope_end(ctx), BELL_OK);
    return ok;
}

/* 0: the same bits, 1: within what another order of sums gives, 2: other. */
static int
compare(const struct results *a, const struct results *b)
{
    int worst = a->n != b->n ? 2 : 0;
    uint32_t i;
    size_t k;

    for (i = 0; i < a->n && worst < 2; i++) {
        if (a->n_elems[i] != b->n_elems[i])
            return 2;
        for (k = 0; k < a->n_elems[i]; k++) {
            double x = a->v[i][k], y = b->v[i][k];
            if (memcmp(&x, &y, sizeof(x)) == 0 || (isnan(x) && isnan(y)))
                continue;
            worst = worst > 1 || !(fabs(x - y) <= 2e-5 * (1 + fabs(y))) ? 2 : 1;
        }
    }
    return worst;
}

/* Does it add floats up along an axis of a symbol, which a plan for all sizes
 * does in an order of its own? What is added up along axes of plain sizes is
 * the same to the bit. (conv_transpose3d: on sm_90 alone it is not.) */
static bool
adds_floats(const char *name)
{
    static const char *const names[] = {
        "batch_norm",
        "binary_cross_entropy",
        "conv_transpose3d",
        "cross_entropy",
        "dot",
        "eigh",
        "eigvalsh",
        "group_norm",
        "huber_loss",
        "instance_norm",
        "istft",
        "kl_div",
        "l1_loss",
        "log_softmax",
        "logsumexp",
        "mean",
        "mse_loss",
        "nll_loss",
        "norm",
        "normalize",
        "prod",
        "scaled_dot_product_attention",
        "smooth_l1_loss",
        "softmax",
        "softmin",
        "std",
        "std_mean",
        "sum",
        "trace",
        "var",
        "var_mean",
        "binary_cross_entropy_with_logits",
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static const int64_t sizes[][2] = {{5, 2}, {12, 4}, {7, 3}};

/* NULL: it takes sizes; else what is wrong, or how it refuses. */
static const char *
try_row(const struct bell_function *f, int mode, size_t n_sizes,
        struct bell_dim s, struct bell_dim b, bool *out_refused, int *out_worst)
{
    static struct results want, got;
    static char why[800];
    char room[200];
    const char *text = text_of(f, room);
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    size_t k;
    int same;

    *out_refused = false;
    *out_worst = 0;
    for (k = 0; k < n_sizes; k++) {
        now_s = bell_dim_of(sizes[k][0]);
        now_b = bell_dim_of(mode == 1 ? 2 : sizes[k][1]);
        if (!compute(text, &want)) {
            snprintf(why, sizeof(why), "%s: plain sizes: %s", text,
                     bell_error_last()->message);
            bell_error_clear();
            return why;
        }
        assert_int_equal(bell_symbol_set(ctx, s, sizes[k][0]), BELL_OK);
        assert_int_equal(bell_symbol_set(ctx, b, sizes[k][1]), BELL_OK);
        now_s = s;
        now_b = mode == 1 ? now_b : b;
        bell_context_stats(ctx, &before);
        if (!compute(text, &got)) {
            *out_refused = bell_error_last()->status == BELL_E_INVALID ||
                           bell_error_last()->status == BELL_E_UNSUPPORTED;
            snprintf(why, sizeof(why), "%s: %s", text,
                     bell_error_last()->message);
            bell_error_clear();
            return why;
        }
        bell_context_stats(ctx, &after);
        same = compare(&got, &want);
        *out_worst = same > *out_worst ? same : *out_worst;
        if (same > adds_floats(f->name)) {
            snprintf(why, sizeof(why), "%s: other %s at %d", text,
                     same == 2 ? "values" : "bits", (int)sizes[k][0]);
            return why;
        }
        if (k && after.n_plans > before.n_plans) {
            snprintf(why, sizeof(why), "%s: run %d made a plan", text, (int)k);
            return why;
        }
    }
    return NULL;
}

static void
walk(const char *device, int mode, bool few)
{
    uint32_t n_takes = 0, n_exact = 0, n_bad = 0;
    struct bell_dim s, b;
    size_t i, k;

    assert_int_equal(bell_context_create(device, &ctx), BELL_OK);
    s = bell_symbol(ctx, "s", 4, MAX_S);
    b = bell_symbol(ctx, "b", 1, MAX_B);
    make_leaves();
    for (i = 0; i < bell_function_count(); i++) {
        const struct bell_function *f = bell_function_at(i);
        const char *why, *listed = NULL;
        bool refused;
        int worst;

        for (k = 0; k < ARRAY_LEN(refusals); k++) {
            if (strcmp(refusals[k].name, f->name) == 0 &&
                refusals[k].modes & mode)
                listed = refusals[k].why;
        }
        why = try_row(f, mode, few ? 2 : ARRAY_LEN(sizes), s, b, &refused,
                      &worst);
        n_takes += why == NULL;
        n_exact += why == NULL && worst == 0;
        if (why == NULL && worst)
            print_message("OTHER %s %d %s\n", device, mode, f->name);
        if (why && listed && refused)
            continue;
        if (why)
            print_message("ERROR: %s, %d symbols: %s\n", device, mode, why);
        else if (listed)
            print_message(
                "ERROR: %s, %d symbols: %s takes them, and is listed: "
                "%s\n",
                device, mode, f->name, listed);
        n_bad += why || listed;
    }
    print_message("%s, %d symbols: %u of %u rows take them, %u to the bit\n",
                  device, mode, n_takes, (unsigned)bell_function_count(),
                  n_exact);
    bell_context_destroy(ctx);
    assert_int_equal(n_bad, 0);
}

static void
test_one(void **state)
{
    (void)state;
    walk("CPU", 1, true);
    if (!IS_SANITIZED)
        walk("NV@sim:sm_90", 1, true);
}

static void
test_two(void **state)
{
    (void)state;
    walk("CPU", 2, IS_SANITIZED);
    if (!IS_SANITIZED)
        walk("AMD@sim:gfx1100", 2, true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_two),
    };

    return cmocka_run_group_tests_name("size_table", tests, NULL, NULL);
}
