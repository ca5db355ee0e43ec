/* Operators on numbers that were worked out by hand: those of com.microsoft,
 * which ONNX Runtime judges over shapes and attributes (onnx_peer.py), and of
 * other domains those that onnx_cases has few tests of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "doorbell/onnx.h"
#include "tests/unit/expect.h"
#include "tests/unit/onnx_write.h"

#define MAX_IN 8

/* A tensor: `kind` is the letter of its type, and '-' that it is absent. */
struct value {
    char kind;
    uint32_t ndim;
    int64_t shape[4];
    double v[16];
};

struct op_case {
    const char *op;
    /* "name=number", of floats "name:number", of words "name'word" */
    const char *attrs;
    struct value in[MAX_IN], out;
    const char *domain; /* NULL: com.microsoft */
    uint32_t output;    /* which is `out`; those before it are made, too */
};

#define ONE(kind, number)                                                      \
    {                                                                          \
        kind, 0, {0},                                                          \
        {                                                                      \
            number                                                             \
        }                                                                      \
    }

/* Letters: f float, b uint8, c int8, i int32, l int64. */
static const struct op_case cases[] = {
    /* (10 - 8) 0.5 + (3 - 4) 2 = -1, and -1 / 0.25 + 100 */
    {"QLinearAdd",
     "",
     {{'b', 1, {2}, {10, 8}},
      ONE('f', 0.5),
      ONE('b', 8),
      {'b', 1, {2}, {3, 6}},
      ONE('f', 2),
      ONE('b', 4),
      ONE('f', 0.25),
      ONE('b', 100)},
     {'b', 1, {2}, {96, 116}}},
    /* 2 0.5 (-1) 2 = -2; beyond the range it ends there */
    {"QLinearMul",
     "",
     {{'c', 1, {2}, {2, 120}},
      ONE('f', 0.5),
      ONE('c', 0),
      {'c', 1, {2}, {-1, 100}},
      ONE('f', 2),
      ONE('c', 0),
      ONE('f', 1),
      ONE('c', 5)},
     {'c', 1, {2}, {3, 127}}},
    {"QLinearLeakyRelu",
     "alpha:0.25",
     {{'b', 1, {3}, {0, 8, 12}},
      ONE('f', 1),
      ONE('b', 8),
      ONE('f', 0.5),
      ONE('b', 50)},
     {'b', 1, {3}, {46, 50, 58}}},
    /* sigmoid(0) = 1/2 */
    {"QLinearSigmoid",
     "",
     {{'b', 1, {3}, {7, 0, 255}},
      ONE('f', 9),
      ONE('b', 7),
      ONE('f', 1.0 / 256),
      ONE('b', 0)},
     {'b', 1, {3}, {128, 0, 255}}},
    {"QLinearSoftmax",
     "axis=-1 opset=13",
     {{'b', 2, {1, 2}, {9, 9}},
      ONE('f', 3),
      ONE('b', 1),
      ONE('f', 1.0 / 256),
      ONE('b', 0)},
     {'b', 2, {1, 2}, {128, 128}}},
    {"QLinearGlobalAveragePool",
     "channels_last=1",
     {{'b', 4, {1, 1, 2, 2}, {10, 20, 30, 60}},
      ONE('f', 1),
      ONE('b', 10),
      ONE('f', 2),
      ONE('b', 1)},
     {'b', 4, {1, 1, 1, 2}, {6, 16}}},
    /* 1 2 + 2 3 = 8, with the bias 10; 10 0.5 0.1 = 0.5 */
    {"QGemm",
     "",
     {{'b', 2, {1, 2}, {2, 3}},
      ONE('f', 0.5),
      ONE('b', 1),
      {'c', 2, {2, 1}, {3, 4}},
      ONE('f', 0.1),
      ONE('c', 1),
      {'i', 1, {1}, {2}}},
     {'f', 2, {1, 1}, {0.5}}},
    /* weights (0x21, 0x43, ..): 1 - 8, 2 - 8, 3 - 8, 4 - 8 and twelve of -8,
     * times 0.5; the input is 1, 0, 2 and zeros */
    {"MatMulNBits",
     "K=16 N=1 bits=4 block_size=16",
     {{'f', 2, {1, 16}, {1, 0, 2}},
      {'b', 3, {1, 1, 8}, {0x21, 0x43}},
      {'f', 1, {1}, {0.5}}},
     {'f', 2, {1, 1}, {-8.5}}},
    /* position 1 of a cache that turns by a quarter: (x, y) -> (-y, x) */
    {"RotaryEmbedding",
     "",
     {{'f', 3, {1, 1, 2}, {3, 5}},
      {'l', 1, {1}, {1}},
      {'f', 2, {2, 1}, {1, 0}},
      {'f', 2, {2, 1}, {0, 1}}},
     {'f', 3, {1, 1, 2}, {-5, 3}}},
    /* two heads share a key; scores 0 and 0: the mean of the values */
    {"GroupQueryAttention",
     "num_heads=2 kv_num_heads=1",
     {{'f', 3, {1, 1, 4}, {0, 0, 0, 0}},
      {'f', 3, {1, 1, 2}, {7, 7}},
      {'f', 3, {1, 1, 2}, {4, 6}},
      {'f', 4, {1, 1, 1, 2}, {1, 1}},
      {'f', 4, {1, 1, 1, 2}, {2, 10}},
      {'i', 1, {1}, {1}},
      ONE('i', 2)},
     {'f', 3, {1, 1, 4}, {3, 8, 3, 8}}},
    /* the second key is masked by its length */
    {"MultiHeadAttention",
     "num_heads=1",
     {{'f', 3, {1, 1, 2}, {0, 0}},
      {'f', 3, {1, 2, 2}, {1, 2, 3, 4}},
      {'f', 3, {1, 2, 2}, {5, 6, 7, 8}},
      {'-', 0, {0}, {0}},
      {'i', 1, {1}, {1}}},
     {'f', 3, {1, 1, 2}, {5, 6}}},
    {"FusedGemm",
     "alpha:2 beta:0.5",
     {{'f', 2, {1, 2}, {1, 2}}, {'f', 2, {2, 1}, {3, 4}}, {'f', 1, {1}, {6}}},
     {'f', 2, {1, 1}, {25}}},
    /* S = 0.5 3 = 1.5, then 1.5 + 0.5 (5 - 1.5) = 3.25; twice that is read */
    {"LinearAttention",
     "update_rule'delta scale:2 q_num_heads=1 kv_num_heads=1",
     {{'f', 3, {1, 2, 1}, {1, 1}},
      {'f', 3, {1, 2, 1}, {1, 1}},
      {'f', 3, {1, 2, 1}, {3, 5}},
      {'-'},
      {'-'},
      {'f', 3, {1, 2, 1}, {0.5, 0.5}}},
     {'f', 3, {1, 2, 1}, {3, 6.5}},
     ""},
    /* of a state 4: e^0 4 + 1 3 = 7; two heads read it */
    {"LinearAttention",
     "update_rule'gated scale:1 q_num_heads=2 kv_num_heads=1",
     {{'f', 3, {1, 1, 2}, {1, -1}},
      {'f', 3, {1, 1, 1}, {1}},
      {'f', 3, {1, 1, 1}, {3}},
      {'f', 4, {1, 1, 1, 1}, {4}},
      {'f', 3, {1, 1, 1}, {0}}},
     {'f', 3, {1, 1, 2}, {7, -7}},
     ""},
    /* equal scores: the mean of each head's values */
    {"FlexAttention",
     "",
     {{'f', 4, {1, 1, 1, 1}, {0}},
      {'f', 4, {1, 1, 2, 1}, {7, 9}},
      {'f', 4, {1, 1, 2, 1}, {3, 6}}},
     {'f', 4, {1, 1, 1, 1}, {4.5}},
     "ai.onnx.preview"},
    /* at 0.5, 0.75 and 2.5, where half is outside: 1.5, 1.75 and 2, by 10 */
    {"DeformConv",
     "",
     {{'f', 4, {1, 1, 1, 3}, {1, 2, 4}},
      {'f', 4, {1, 1, 1, 1}, {10}},
      {'f', 4, {1, 2, 1, 3}, {0, 0, 0, 0.5, -0.25, 0.5}},
      {'f', 1, {1}, {1}},
      {'f', 4, {1, 1, 1, 3}, {1, 2, 1}}},
     {'f', 4, {1, 1, 1, 3}, {16, 36, 21}},
     ""},
    /* one point between four: the greatest quarter */
    {"RoiAlign",
     "mode'max sampling_ratio=1",
     {{'f', 4, {1, 1, 2, 2}, {1, 2, 3, 4}},
      {'f', 2, {1, 4}, {0, 0, 2, 2}},
      {'l', 1, {1}, {0}}},
     {'f', 4, {1, 1, 1, 1}, {1}},
     ""},
    /* columns (2, 0), (1, 5), (2, 0), (1, 3) */
    {"Unique",
     "axis=1",
     {{'i', 2, {2, 4}, {2, 1, 2, 1, 0, 5, 0, 3}}},
     {'i', 2, {2, 3}, {1, 1, 2, 3, 5, 0}},
     ""},
    {"Unique",
     "axis=-1 sorted=0",
     {{'i', 2, {2, 4}, {2, 1, 2, 1, 0, 5, 0, 3}}},
     {'l', 1, {4}, {0, 1, 0, 2}},
     "",
     2},
    {"Unique",
     "axis=0",
     {{'f', 3, {3, 1, 2}, {1, 2, 0, 9, 1, 2}}},
     {'l', 1, {2}, {1, 2}},
     "",
     3},
};

static char folder[] = "/tmp/bell-onnx-ms-XXXXXX";
static char path[128];

static int64_t
type_of(char kind)
{
    return kind == 'f'   ? 1
           : kind == 'b' ? 2
           : kind == 'c' ? 3
           : kind == 'i' ? 6
                         : 7;
}

static int64_t
count_of(const struct value *v)
{
    int64_t n = 1;
    uint32_t i;

    for (i = 0; i < v->ndim; i++)
        n *= v->shape[i];
    return n;
}

/* A weight of the model, as its raw bytes. */
static void
put_weight(struct msg *graph, const char *name, const struct value *v)
{
    uint8_t bytes[128];
    size_t n = 0;
    struct msg t = {.n = 0};
    int64_t i;

    for (i = 0; i < count_of(v); i++) {
        float f = (float)v->v[i];
        int64_t whole = (int64_t)v->v[i];
        size_t size = v->kind == 'b' || v->kind == 'c' ? 1
                      : v->kind == 'l'                 ? 8
                                                       : 4;

        memcpy(bytes + n, v->kind == 'f' ? (void *)&f : (void *)&whole, size);
        n += size;
    }
    for (i = 0; i < v->ndim; i++)
        put_int(&t, 1, v->shape[i]);
    put_int(&t, 2, type_of(v->kind));
    put_text(&t, 8, name);
    put_bytes(&t, 9, bytes, n);
    put_msg(graph, 5, &t);
}

static void
put_attr_word(struct msg *node, const char *name, const char *word, size_t n)
{
    struct msg attr = {.n = 0};

    put_text(&attr, 1, name);
    put_bytes(&attr, 4, word, n);
    put_int(&attr, 20, 3);
    put_msg(node, 5, &attr);
}

static void
put_attrs(struct msg *node, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "=:'"), length;
        char name[32] = "", *end;

        memcpy(name, text, n);
        if (text[n] == '=')
            put_attr_int(node, name, strtol(text + n + 1, &end, 10));
        else if (text[n] == '\'') {
            length = strcspn(text + n + 1, " ");
            put_attr_word(node, name, text + n + 1, length);
            text += n + 1 + length;
            text += strspn(text, " ");
            continue;
        } else
            put_attr_float(node, name, strtof(text + n + 1, &end));
        text = end + strspn(end, " ");
    }
}

static void
write_model(const struct op_case *c)
{
    struct msg graph = {.n = 0}, model = {.n = 0}, opset = {.n = 0}, info;
    struct msg node = {.n = 0};
    const char *domain = c->domain ? c->domain : "com.microsoft";
    char name[4] = "x0";
    FILE *file;
    uint32_t i;

    for (i = 0; i < MAX_IN; i++) {
        name[1] = (char)('0' + i);
        put_text(&node, 1, c->in[i].kind && c->in[i].kind != '-' ? name : "");
        if (c->in[i].kind && c->in[i].kind != '-')
            put_weight(&graph, name, &c->in[i]);
        if (i + 1 == MAX_IN || !c->in[i + 1].kind)
            break;
    }
    for (i = 0; i < c->output; i++) {
        name[0] = 'z';
        name[1] = (char)('0' + i);
        put_text(&node, 2, name);
    }
    put_text(&node, 2, "y");
    put_text(&node, 4, c->op);
    put_text(&node, 7, domain);
    put_attrs(&node, c->attrs);
    put_msg(&graph, 1, &node);
    info = (struct msg){.n = 0};
    put_text(&info, 1, "y");
    put_msg(&graph, 12, &info);
    put_text(&opset, 1, domain);
    put_int(&opset, 2, *domain ? 1 : 27);
    put_int(&model, 1, 8);
    put_msg(&model, 7, &graph);
    put_msg(&model, 8, &opset);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model.bytes, 1, model.n, file), model.n);
    fclose(file);
}

static void
test_numbers(void **state)
{
    struct bell_context *ctx = *state;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct op_case *c = &cases[i];
        struct bell_tensor *y = NULL;
        struct bell_onnx *model;
        double got[16];
        int64_t k, n = count_of(&c->out);

        write_model(c);
        expect_ok(bell_onnx_open(ctx, path, &model));
        expect_ok(bell_onnx_call(ctx, model, NULL, &y));
        assert_int_equal(bell_ndim(y), c->out.ndim);
        for (k = 0; k < c->out.ndim; k++)
            assert_int_equal(bell_shape(y)[k], c->out.shape[k]);
        expect_ok(bell_read_f64(y, got, (size_t)n));
        for (k = 0; k < n; k++) {
            if (fabs(got[k] - c->out.v[k]) > 1e-6)
                fail_msg("%s: element %d is %g, expected %g", c->op, (int)k,
                         got[k], c->out.v[k]);
        }
        bell_onnx_close(model);
    }
}

static int
begin(void **state)
{
    struct bell_context *ctx;

    if (!mkdtemp(folder) || bell_context_create("CPU", &ctx) != BELL_OK)
        return -1;
    snprintf(path, sizeof(path), "%s/m.onnx", folder);
    *state = ctx;
    return 0;
}

static int
end(void **state)
{
    bell_context_destroy(*state);
    unlink(path);
    return rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};

    return cmocka_run_group_tests(tests, begin, end);
}
