/* ONNX models, made here byte by byte: what they compute, what is refused, and
 * what hostile ones try. The operators are judged by onnx_cases.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doorbell/jit.h"
#include "doorbell/onnx.h"
#include "tests/unit/expect.h"
#include "tests/unit/onnx_write.h"
#include "tests/unit/sanitized.h"

static char folder[] = "/tmp/bell-onnx-XXXXXX";
static char path[128];

/* It failed, for any reason, with a message that has this part. */
static void
expect_failure(bell_status status, const char *part)
{
    expect_fails(status, status ? status : BELL_E_INVALID, part);
}

static struct msg
make_model(const struct msg *graph)
{
    struct msg model = {.n = 0}, opset = {.n = 0};

    put_int(&opset, 2, 21);
    put_int(&model, 1, 10);
    put_msg(&model, 7, graph);
    put_msg(&model, 8, &opset);
    return model;
}

static const char *
path_in(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void
write_bytes(const char *name, const void *data, size_t n)
{
    FILE *file = fopen(path_in(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

static bell_status
open_graph(struct bell_context *ctx, const struct msg *graph,
           struct bell_onnx **out)
{
    struct msg model = make_model(graph);

    write_bytes("m.onnx", model.bytes, model.n);
    return bell_onnx_open(ctx, path_in("m.onnx"), out);
}

/* y = Relu(x + w), x of n rows of 3. */
static struct msg
small_graph(void)
{
    static const float w[] = {1, -2, 3};
    struct msg graph = {.n = 0}, add = make_node("Add", "x w", "s");
    struct msg relu = make_node("Relu", "s", "y");
    struct msg t = make_tensor("w", 1, w, sizeof(w), 3);

    put_msg(&graph, 1, &add);
    put_msg(&graph, 1, &relu);
    put_msg(&graph, 5, &t);
    put_value(&graph, 11, "x", (const int64_t[]){-1, 3}, 2);
    put_value(&graph, 12, "y", (const int64_t[]){-1, 3}, 2);
    return graph;
}

/* A model whose function f calls g, and g an operator that does not exist. */
static struct msg
refused_in_function(void)
{
    struct msg model = {.n = 0}, graph = {.n = 0}, opset = {.n = 0}, node;
    unsigned i;

    put_int(&opset, 2, 21);
    put_msg(&model, 8, &opset);
    node = make_node("f", "x", "y");
    put_text(&node, 7, "own");
    put_msg(&graph, 1, &node);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    put_msg(&model, 7, &graph);
    for (i = 0; i < 2; i++) {
        struct msg fn = {.n = 0};

        put_text(&fn, 1, i ? "g" : "f");
        put_text(&fn, 4, "a");
        put_text(&fn, 5, "b");
        put_text(&fn, 10, "own");
        node = make_node(i ? "Frobnicate" : "g", "a", "b");
        if (!i)
            put_text(&node, 7, "own");
        put_msg(&fn, 7, &node);
        put_msg(&fn, 9, &opset);
        put_msg(&model, 25, &fn);
    }
    return model;
}

/* A model of two functions f, which its node tells apart by `overload`: of "a"
 * it is Neg, of "b" Relu. */
static struct msg
overloaded(const char *overload)
{
    struct msg model = {.n = 0}, graph = {.n = 0}, opset = {.n = 0}, node;
    unsigned i;

    put_int(&opset, 2, 21);
    put_msg(&model, 8, &opset);
    node = make_node("f", "x", "y");
    put_text(&node, 7, "own");
    put_text(&node, 8, overload);
    put_msg(&graph, 1, &node);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    put_msg(&model, 7, &graph);
    for (i = 0; i < 2; i++) {
        struct msg fn = {.n = 0};

        put_text(&fn, 1, "f");
        put_text(&fn, 4, "in");
        put_text(&fn, 5, "out");
        put_text(&fn, 10, "own");
        node = make_node(i ? "Relu" : "Neg", "in", "out");
        put_msg(&fn, 7, &node);
        put_msg(&fn, 9, &opset);
        put_text(&fn, 13, i ? "b" : "a");
        put_msg(&model, 25, &fn);
    }
    return model;
}

/* ---- tests --------------------------------------------------------------- */

static void
test_call(void **state)
{
    static const float data[] = {0, 0, 0, -5, 5, -5};
    static const float want[] = {1, 0, 3, 0, 3, 0};
    struct bell_context *ctx = *state;
    struct bell_onnx_info info = {.struct_size = sizeof(info)};
    struct bell_jit_desc desc = {sizeof(desc), "m", bell_onnx_call, NULL, 1, 1};
    struct msg graph = small_graph();
    const struct bell_onnx_value *v;
    struct bell_tensor *x, *y = NULL;
    struct bell_onnx *model;
    struct bell_jit *jit;
    float got[6];

    expect_ok(open_graph(ctx, &graph, &model));
    bell_onnx_get_info(model, &info);
    assert_int_equal(info.n_nodes, 2);
    assert_int_equal(info.n_refused, 0);
    assert_int_equal(info.opset, 21);
    assert_int_equal(info.weight_bytes, 12);
    assert_int_equal(bell_onnx_n_inputs(model), 1);
    assert_int_equal(bell_onnx_n_outputs(model), 1);
    v = bell_onnx_input(model, 0);
    assert_string_equal(v->name, "x");
    assert_string_equal(v->dims[0].name, "n");
    assert_int_equal(v->dims[1].size, 3);
    assert_int_equal(v->dtype, BELL_FLOAT32);
    assert_null(bell_onnx_input(model, 1));
    assert_string_equal(bell_onnx_weight(model, 0)->name, "w");
    assert_non_null(bell_onnx_weight_tensor(model, "w"));
    assert_null(bell_onnx_weight_tensor(model, "v"));
    assert_string_equal(bell_onnx_node(model, 1)->op, "Relu");

    x = bell_from_data(ctx, BELL_DIMS(2, 3), BELL_FLOAT32, data);
    expect_ok(bell_onnx_call(ctx, model, &x, &y));
    expect_ok(bell_read(y, got, sizeof(got)));
    assert_memory_equal(got, want, sizeof(want));
    desc.user = model;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_ok(bell_jit_call(jit, &x, &y));
    expect_ok(bell_read(y, got, sizeof(got)));
    assert_memory_equal(got, want, sizeof(want));
    bell_jit_destroy(jit);
    bell_onnx_close(model);
    bell_onnx_close(model);
    assert_non_null(strstr(bell_error_last()->message, "the model was closed"));
}

/* Shapes are computed on the host: a function that is captured has none to
 * read. */
static void
test_shapes_in_jit(void **state)
{
    static const int64_t first[] = {0}, rest[] = {-1};
    struct bell_context *ctx = *state;
    struct bell_jit_desc desc = {sizeof(desc), "m", bell_onnx_call, NULL, 1, 1};
    struct msg graph = {.n = 0}, node, t;
    struct bell_tensor *x, *y;
    struct bell_onnx *model;
    struct bell_jit *jit;

    node = make_node("Shape", "x", "s");
    put_msg(&graph, 1, &node);
    node = make_node("Gather", "s zero", "b");
    put_msg(&graph, 1, &node);
    node = make_node("Concat", "b rest", "to");
    put_attr_int(&node, "axis", 0);
    put_msg(&graph, 1, &node);
    node = make_node("Reshape", "x to", "y");
    put_msg(&graph, 1, &node);
    t = make_tensor("zero", 7, first, sizeof(first), 1);
    put_msg(&graph, 5, &t);
    t = make_tensor("rest", 7, rest, sizeof(rest), 1);
    put_msg(&graph, 5, &t);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_ok(open_graph(ctx, &graph, &model));
    desc.user = model;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    x = bell_ones(ctx, BELL_DIMS(2, 3, 4), BELL_FLOAT32);
    expect_ok(bell_jit_call(jit, &x, &y));
    assert_int_equal(bell_ndim(y), 2);
    assert_int_equal(bell_size(y, 0), 2);
    assert_int_equal(bell_size(y, 1), 12);
    bell_jit_destroy(jit);
    bell_onnx_close(model);
}

/* If(c) { y = -x } else { y = |x| }: called it takes one branch, captured the
 * device chooses. */
static void
test_if(void **state)
{
    static const float data[] = {1, -2};
    static const float want[2][2] = {{1, 2}, {-1, 2}};
    struct bell_context *ctx = *state;
    struct bell_jit_desc desc = {sizeof(desc), "m", bell_onnx_call, NULL, 2, 1};
    struct msg graph = {.n = 0}, node = make_node("If", "c", "y"), type;
    struct bell_tensor *in[2], *y;
    struct bell_onnx *model;
    struct bell_jit *jit;
    unsigned i;
    float got[2];

    for (i = 0; i < 2; i++) {
        struct msg branch = {.n = 0}, attr = {.n = 0};
        struct msg inner = make_node(i ? "Abs" : "Neg", "x", "b");

        put_msg(&branch, 1, &inner);
        put_value(&branch, 12, "b", NULL, UINT32_MAX);
        put_text(&attr, 1, i ? "else_branch" : "then_branch");
        put_msg(&attr, 6, &branch);
        put_int(&attr, 20, 5);
        put_msg(&node, 5, &attr);
    }
    put_msg(&graph, 1, &node);
    type.n = 0; /* bool */
    put_bytes(&type, 1, "c", 1);
    put_bytes(&type, 2, "\x0a\x02\x08\x09", 4);
    put_msg(&graph, 11, &type);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_ok(open_graph(ctx, &graph, &model));
    desc.user = model;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    in[1] = bell_from_data(ctx, BELL_DIMS(2), BELL_FLOAT32, data);
    for (i = 0; i < 2; i++) {
        in[0] = bell_contiguous(bell_full(ctx, BELL_NO_DIMS, i, BELL_BOOL));
        expect_ok(bell_onnx_call(ctx, model, in, &y));
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_memory_equal(got, want[i], sizeof(got));
        expect_ok(bell_jit_call(jit, in, &y));
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_memory_equal(got, want[i], sizeof(got));
    }
    bell_jit_destroy(jit);
    bell_onnx_close(model);
}

/* Opens a graph of one node that is refused, and calls it. */
static void
expect_refused(struct bell_context *ctx, const struct msg *node,
               const char *text)
{
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32), *y;
    struct msg graph = {.n = 0};
    struct bell_onnx *model;

    put_msg(&graph, 1, node);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_ok(open_graph(ctx, &graph, &model));
    assert_non_null(bell_onnx_node(model, 0)->refused);
    assert_non_null(strstr(bell_onnx_node(model, 0)->refused, text));
    assert_int_equal(bell_onnx_call(ctx, model, &x, &y), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, text));
    assert_non_null(strstr(bell_error_last()->message, "'here'"));
    bell_onnx_close(model);
}

static void
test_refused(void **state)
{
    struct bell_context *ctx = *state;
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32), *y;
    struct msg node = make_node("Frobnicate", "x", "y"), bytes;
    struct bell_onnx *model;

    expect_refused(ctx, &node, "operator Frobnicate of ai.onnx, opset 21");
    node = make_node("Relu", "x", "y");
    put_attr_int(&node, "slope", 1);
    expect_refused(ctx, &node, "attribute 'slope' of Relu is not known");
    node = make_node("LeakyRelu", "x", "y");
    put_attr_int(&node, "alpha", 1);
    expect_refused(ctx, &node, "'alpha' of LeakyRelu is of another type");
    node = make_node("Relu", "x x", "y");
    expect_refused(ctx, &node, "Relu has 2 inputs; expected 1 to 1");
    node = make_node("Relu", "x", "y");
    put_text(&node, 7, "org.example");
    expect_refused(ctx, &node, "operator Relu of org.example");
    node = make_node("Relu", "", "y");
    put_bytes(&node, 1, "", 0);
    expect_refused(ctx, &node, "input 0 of Relu is missing");

    bytes = refused_in_function();
    write_bytes("m.onnx", bytes.bytes, bytes.n);
    expect_ok(bell_onnx_open(ctx, path_in("m.onnx"), &model));
    expect_fails(bell_onnx_call(ctx, model, &x, &y), BELL_E_UNSUPPORTED,
                 "operator Frobnicate");
    bell_onnx_close(model);
}

static void
test_overloads(void **state)
{
    static const float data[] = {2, -3};
    static const float want[2][2] = {{-2, 3}, {2, 0}};
    struct bell_context *ctx = *state;
    struct bell_tensor *x =
        bell_from_data(ctx, BELL_DIMS(2), BELL_FLOAT32, data);
    struct bell_tensor *y;
    struct bell_onnx *model;
    struct msg bytes;
    float got[2];
    unsigned i;

    for (i = 0; i < 2; i++) {
        bytes = overloaded(i ? "b" : "a");
        write_bytes("m.onnx", bytes.bytes, bytes.n);
        expect_ok(bell_onnx_open(ctx, path_in("m.onnx"), &model));
        expect_ok(bell_onnx_call(ctx, model, &x, &y));
        expect_ok(bell_read(y, got, sizeof(got)));
        assert_memory_equal(got, want[i], sizeof(got));
        bell_onnx_close(model);
    }
    bytes = overloaded("c");
    write_bytes("m.onnx", bytes.bytes, bytes.n);
    expect_ok(bell_onnx_open(ctx, path_in("m.onnx"), &model));
    expect_fails(bell_onnx_call(ctx, model, &x, &y), BELL_E_UNSUPPORTED,
                 "no function f of overload 'c'");
    bell_onnx_close(model);
}

static void
test_inputs(void **state)
{
    struct bell_context *ctx = *state;
    struct msg graph = small_graph();
    struct bell_tensor *x, *y;
    struct bell_onnx *model;

    expect_ok(open_graph(ctx, &graph, &model));
    x = bell_ones(ctx, BELL_DIMS(2, 3), BELL_INT32);
    expect_failure(bell_onnx_call(ctx, model, &x, &y),
                   "input 'x' is int32; expected float");
    x = bell_ones(ctx, BELL_DIMS(3), BELL_FLOAT32);
    expect_failure(bell_onnx_call(ctx, model, &x, &y),
                   "has 1 axes; expected 2");
    x = bell_ones(ctx, BELL_DIMS(2, 4), BELL_FLOAT32);
    expect_failure(bell_onnx_call(ctx, model, &x, &y),
                   "axis 1 has size 4; expected 3");
    bell_onnx_close(model);
}

/* Names that are not defined, or twice. */
static void
test_names(void **state)
{
    struct bell_context *ctx = *state;
    struct msg graph = {.n = 0}, node = make_node("Relu", "later", "y");
    struct bell_onnx *model;

    put_msg(&graph, 1, &node);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_failure(open_graph(ctx, &graph, &model),
                   "'later' is not defined before it is used");
    graph.n = 0;
    node = make_node("Relu", "x", "x");
    put_msg(&graph, 1, &node);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    expect_failure(open_graph(ctx, &graph, &model),
                   "two values are called 'x'");
}

/* Every beginning of a model is refused or is one; none crashes. */
static void
test_damaged(void **state)
{
    struct bell_context *ctx = *state;
    struct msg graph = small_graph(), model_bytes = make_model(&graph);
    struct bell_onnx *model;
    size_t n;

    for (n = 0; n < model_bytes.n; n++) {
        write_bytes("cut.onnx", model_bytes.bytes, n);
        if (bell_onnx_open(ctx, path_in("cut.onnx"), &model) == BELL_OK)
            bell_onnx_close(model);
        else
            assert_non_null(strstr(bell_error_last()->message, "cut.onnx"));
    }
}

/* A model whose weight "w", three floats, is external; `key` is what the
 * last entry is called. */
static struct msg
external_keys(const char *location, const char *offset, const char *key,
              const char *length)
{
    struct msg graph = {.n = 0}, t = {.n = 0};
    struct msg node = make_node("Identity", "w", "y");
    const char *const keys[] = {"location", "offset", key};
    const char *const values[] = {location, offset, length};
    unsigned i;

    put_int(&t, 1, 3);
    put_int(&t, 2, 1);
    put_text(&t, 8, "w");
    for (i = 0; i < 3; i++) {
        struct msg entry = {.n = 0};

        if (!values[i])
            continue;
        put_text(&entry, 1, keys[i]);
        put_text(&entry, 2, values[i]);
        put_msg(&t, 13, &entry);
    }
    put_int(&t, 14, 1);
    put_msg(&graph, 1, &node);
    put_msg(&graph, 5, &t);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    return graph;
}

static struct msg
external_graph(const char *location, const char *offset, const char *length)
{
    return external_keys(location, offset, "length", length);
}

static void
expect_external(struct bell_context *ctx, const char *location,
                const char *offset, const char *length, const char *text)
{
    struct msg graph = external_graph(location, offset, length);
    struct bell_onnx *model;

    expect_failure(open_graph(ctx, &graph, &model), text);
}

static void
test_external(void **state)
{
    static const float data[] = {9, 1, 2, 3};
    struct bell_context *ctx = *state;
    struct msg graph;
    struct bell_onnx *model;
    struct bell_tensor *y;
    char to[128];
    float got[3];

    write_bytes("w.bin", data, sizeof(data));
    graph = external_graph("w.bin", "4", "12");
    expect_ok(open_graph(ctx, &graph, &model));
    expect_ok(bell_onnx_call(ctx, model, NULL, &y));
    expect_ok(bell_read(y, got, sizeof(got)));
    assert_memory_equal(got, data + 1, sizeof(got));
    bell_onnx_close(model);

    graph = external_keys("w.bin", "4", "checksum", "12");
    expect_failure(open_graph(ctx, &graph, &model), "the key 'checksum'");
    expect_external(ctx, "/etc/hostname", NULL, NULL, "is an absolute path");
    expect_external(ctx, "../w.bin", NULL, NULL, "leaves the model's folder");
    expect_external(ctx, "a/../../w.bin", NULL, NULL,
                    "leaves the model's folder");
    expect_external(ctx, "", NULL, NULL, "has no name");
    expect_external(ctx, NULL, NULL, NULL, "without a location");
    expect_external(ctx, "a//b", NULL, NULL, "empty name");
    expect_external(ctx, "none.bin", NULL, NULL, "No such file");
    expect_external(ctx, ".", NULL, NULL, "is not a regular file");
    expect_external(ctx, "w.bin", "18446744073709551615", NULL,
                    "has 16 bytes; expected 12 from byte");
    expect_external(ctx, "w.bin", "99999999999999999999", NULL,
                    "is not a number");
    expect_external(ctx, "w.bin", "-4", NULL, "is not a number");
    expect_external(ctx, "w.bin", "8", "12", "expected 12 from byte 8");
    expect_external(ctx, "w.bin", "0", "16", "has 16 bytes; expected 12");

    snprintf(to, sizeof(to), "%s/w.bin", folder);
    assert_int_equal(symlink(to, path_in("link.bin")), 0);
    expect_external(ctx, "link.bin", NULL, NULL, "is a symbolic link");
    assert_int_equal(symlink(folder, path_in("sub")), 0);
    expect_external(ctx, "sub/w.bin", NULL, NULL, "symbolic link");
    assert_int_equal(mkfifo(path_in("fifo"), 0600), 0);
    expect_external(ctx, "fifo", NULL, NULL, "is not a regular file");
    if (geteuid() == 0) { /* only root makes another's file */
        write_bytes("other.bin", data, sizeof(data));
        assert_int_equal(chown(path_in("other.bin"), 65534, 65534), 0);
        expect_external(ctx, "other.bin", NULL, NULL, "another user");
        unlink(path_in("other.bin"));
    }
    unlink(path_in("link.bin"));
    unlink(path_in("sub"));
    unlink(path_in("fifo"));
    unlink(path_in("w.bin"));
}

/* A graph whose one node gets int64 numbers, which ask for much. */
static void
expect_bomb(struct bell_context *ctx, const char *op, const char *inputs,
            const int64_t *numbers, int64_t n, const char *text)
{
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32), *y;
    struct msg graph = {.n = 0}, node = make_node(op, inputs, "y");
    struct msg t = make_tensor("n", 7, numbers, (size_t)n * 8, n);
    struct bell_onnx *model;

    put_msg(&graph, 1, &node);
    put_msg(&graph, 5, &t);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_ok(open_graph(ctx, &graph, &model));
    expect_failure(bell_onnx_call(ctx, model, &x, &y), text);
    assert_non_null(strstr(bell_error_last()->message, "'here'"));
    bell_onnx_close(model);
}

/* Functions that call the next one ten times, `depth` of them. */
static struct msg
nested_model(unsigned depth)
{
    struct msg model = {.n = 0}, graph = {.n = 0}, opset = {.n = 0}, node;
    unsigned i, k;

    put_int(&opset, 2, 21);
    put_msg(&model, 8, &opset);
    opset.n = 0;
    put_text(&opset, 1, "own");
    put_int(&opset, 2, 1);
    put_msg(&model, 8, &opset);
    node = make_node("f0", "x", "y");
    put_text(&node, 7, "own");
    put_msg(&graph, 1, &node);
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    put_msg(&model, 7, &graph);
    for (i = 0; i < depth; i++) {
        struct msg fn = {.n = 0};
        char name[16], to[16], from[16];

        snprintf(name, sizeof(name), "f%u", i);
        put_text(&fn, 1, name);
        put_text(&fn, 4, "a");
        put_text(&fn, 5, "b");
        put_text(&fn, 10, "own");
        snprintf(name, sizeof(name), "f%u", i + 1);
        for (k = 0; k < 10; k++) {
            snprintf(from, sizeof(from), k ? "t%u" : "a", k);
            snprintf(to, sizeof(to), k < 9 ? "t%u" : "b", k + 1);
            node = make_node(i + 1 < depth ? name : "Relu", from, to);
            if (i + 1 < depth)
                put_text(&node, 7, "own");
            put_msg(&fn, 7, &node);
        }
        opset.n = 0;
        put_int(&opset, 2, 21);
        put_msg(&fn, 9, &opset);
        opset.n = 0;
        put_text(&opset, 1, "own");
        put_int(&opset, 2, 1);
        put_msg(&fn, 9, &opset);
        put_msg(&model, 25, &fn);
    }
    return model;
}

/* A loop whose every turn gives 4,096 numbers that the host knows. */
static void
expect_loop_bomb(struct bell_context *ctx)
{
    static const int64_t numbers[] = {0, 4096, 1, 16384};
    static const char *const names[] = {"zero", "most", "one", "turns"};
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32), *y;
    struct msg graph = {.n = 0}, body = {.n = 0}, attr = {.n = 0}, node;
    struct bell_onnx *model;
    unsigned i;

    node = make_node("Identity", "go", "go2");
    put_msg(&body, 1, &node);
    node = make_node("Range", "zero most one", "row");
    put_msg(&body, 1, &node);
    put_value(&body, 11, "i", NULL, UINT32_MAX);
    put_value(&body, 11, "go", NULL, UINT32_MAX);
    put_value(&body, 12, "go2", NULL, UINT32_MAX);
    put_value(&body, 12, "row", NULL, UINT32_MAX);
    put_text(&attr, 1, "body");
    put_msg(&attr, 6, &body);
    put_int(&attr, 20, 5);
    node = make_node("Loop", "turns", "y");
    put_bytes(&node, 1, "", 0);
    put_msg(&node, 5, &attr);
    put_msg(&graph, 1, &node);
    for (i = 0; i < 4; i++) {
        struct msg t = make_tensor(names[i], 7, &numbers[i], 8, -1);

        put_msg(&graph, 5, &t);
    }
    put_value(&graph, 11, "x", NULL, UINT32_MAX);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_ok(open_graph(ctx, &graph, &model));
    expect_fails(bell_onnx_call(ctx, model, &x, &y), BELL_E_UNSUPPORTED,
                 "more than 256 MiB on the host");
    bell_onnx_close(model);
}

/* Most memory that the process has had. */
static int64_t
most_kib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void
test_bombs(void **state)
{
    int64_t before_kib = most_kib();
    static const int64_t many[] = {1 << 20, 1 << 20}, huge[] = {INT64_MAX};
    static const int64_t times[] = {(int64_t)1 << 40};
    struct bell_context *ctx = *state;
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32), *y;
    struct bell_onnx *model;
    struct msg m;

    expect_bomb(ctx, "ConstantOfShape", "n", many, 2, "2^31 elements");
    expect_bomb(ctx, "ConstantOfShape", "n", huge, 1, "2^31 elements");
    expect_bomb(ctx, "Expand", "x n", huge, 1, "is not expanded to");
    expect_bomb(ctx, "Tile", "x n", times, 1, "2^31 elements");
    expect_bomb(ctx, "Tile", "x n", huge, 1, "repeats");
    expect_bomb(ctx, "OneHot", "n n x", huge, 1, "depth");
    expect_loop_bomb(ctx);

    m = nested_model(3);
    write_bytes("m.onnx", m.bytes, m.n);
    expect_ok(bell_onnx_open(ctx, path_in("m.onnx"), &model));
    expect_ok(bell_onnx_call(ctx, model, &x, &y));
    bell_onnx_close(model);
    m = nested_model(8);
    write_bytes("m.onnx", m.bytes, m.n);
    expect_ok(bell_onnx_open(ctx, path_in("m.onnx"), &model));
    expect_failure(bell_onnx_call(ctx, model, &x, &y), "a call of more than");
    bell_onnx_close(model);
    /* 256 MiB on the host, and as much again for what holds it; sanitizers keep
     * what was freed */
    if (!IS_SANITIZED)
        assert_true(most_kib() - before_kib < 512 << 10);
}

/* ---- sizes that are open ------------------------------------------------- */

/* y = Reshape(x + Cast(Range(0, n)), (n / 1, 1, -1)), by nodes of Shape, x of
 * n rows of 3: sizes that are moved, computed, and elements. */
static struct msg
open_sizes_graph(void)
{
    static const int64_t zero = 0, one = 1, rest = -1;
    struct msg graph = {.n = 0}, node, t;

    node = make_node("Shape", "x", "shape");
    put_msg(&graph, 1, &node);
    node = make_node("Gather", "shape zero", "n");
    put_attr_int(&node, "axis", 0);
    put_msg(&graph, 1, &node);
    node = make_node("Range", "zero n one", "count");
    put_msg(&graph, 1, &node);
    node = make_node("Cast", "count", "number");
    put_attr_int(&node, "to", 1);
    put_msg(&graph, 1, &node);
    node = make_node("Unsqueeze", "number axes", "column");
    put_msg(&graph, 1, &node);
    node = make_node("Add", "x column", "s");
    put_msg(&graph, 1, &node);
    node = make_node("Div", "n one", "m");
    put_msg(&graph, 1, &node);
    node = make_node("Unsqueeze", "m first", "m1");
    put_msg(&graph, 1, &node);
    node = make_node("Concat", "m1 axes rest", "sizes");
    put_attr_int(&node, "axis", 0);
    put_msg(&graph, 1, &node);
    node = make_node("Reshape", "s sizes", "y");
    put_msg(&graph, 1, &node);
    t = make_tensor("zero", 7, &zero, 8, -1);
    put_msg(&graph, 5, &t);
    t = make_tensor("one", 7, &one, 8, -1);
    put_msg(&graph, 5, &t);
    t = make_tensor("axes", 7, &one, 8, 1);
    put_msg(&graph, 5, &t);
    t = make_tensor("first", 7, &zero, 8, 1);
    put_msg(&graph, 5, &t);
    t = make_tensor("rest", 7, &rest, 8, 1);
    put_msg(&graph, 5, &t);
    put_value(&graph, 11, "x", (const int64_t[]){-1, 3}, 2);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    return graph;
}

/* One capture is for all sizes within the bounds. */
static void
test_symbols(void **state)
{
    struct bell_context *ctx = *state;
    struct msg graph = open_sizes_graph();
    struct bell_jit_desc desc = {sizeof(desc), "model", bell_onnx_call,
                                 NULL,         1,       1};
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_dim n = bell_symbol(ctx, "n", 1, 100);
    struct bell_tensor *x, *y;
    int64_t shape[BELL_MAX_RANK], size;
    struct bell_onnx *model;
    struct bell_jit *jit;
    float got[300];
    uint32_t ndim;

    expect_ok(open_graph(ctx, &graph, &model));
    expect_fails(bell_onnx_input_shape(model, 0, shape, &ndim), BELL_E_INVALID,
                 "axis 0 is open, called n");
    expect_fails(bell_onnx_set_dim(model, "m", n), BELL_E_INVALID,
                 "they have n");
    expect_fails(bell_onnx_set_dim(model, "n", bell_dim_of(-1)), BELL_E_INVALID,
                 "0 or more");
    expect_fails(bell_onnx_set_input_shape(model, 0, BELL_DIMS(5, 4)),
                 BELL_E_INVALID, "expected 3");
    expect_ok(bell_onnx_set_dim(model, "n", n));
    expect_ok(bell_onnx_input_shape(model, 0, shape, &ndim));
    assert_int_equal(ndim, 2);
    assert_int_equal(shape[0], n.word);
    assert_int_equal(shape[1], 3);
    desc.user = model;
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    x = bell_zeros(ctx, shape, ndim, BELL_FLOAT32);
    expect_ok(bell_jit_call(jit, &x, &y));
    for (size = 1; size <= 100; size += 33) {
        x = bell_full(ctx, BELL_DIMS(size, 3), 0.5, BELL_FLOAT32);
        expect_ok(bell_jit_call(jit, &x, &y));
        expect_ok(bell_read(y, got, (size_t)size * 12));
        assert_int_equal(bell_size(y, 0), size);
        assert_int_equal(bell_size(y, 2), 3);
        assert_true(got[size * 3 - 1] == 0.5f + (float)(size - 1));
    }
    bell_jit_get_info(jit, &info);
    assert_int_equal(info.n_captures, 1);
    x = bell_full(ctx, BELL_DIMS(101, 3), 0.5, BELL_FLOAT32);
    expect_failure(bell_jit_call(jit, &x, &y), "100");
    expect_fails(bell_onnx_call(ctx, model, &x, &y), BELL_E_INVALID,
                 "axis 0 has size 101; n is 1 to 100");
    bell_jit_destroy(jit);
    bell_onnx_close(model);
}

/* An operator that takes numbers alone says so. */
static void
test_symbols_refused(void **state)
{
    struct bell_context *ctx = *state;
    struct msg graph = {.n = 0}, node = make_node("NonZero", "x", "y");
    struct bell_dim n = bell_symbol(ctx, "rows", 1, 100);
    struct bell_onnx *model;
    struct bell_tensor *x, *y;

    put_msg(&graph, 1, &node);
    put_value(&graph, 11, "x", (const int64_t[]){-1, 3}, 2);
    put_value(&graph, 12, "y", NULL, UINT32_MAX);
    expect_ok(open_graph(ctx, &graph, &model));
    x = bell_zeros(ctx, BELL_SHAPE(n, 3), BELL_FLOAT32);
    expect_fails(bell_onnx_call(ctx, model, &x, &y), BELL_E_UNSUPPORTED,
                 "input 0 has the sizes (rows, 3)");
    bell_onnx_close(model);
}

/* Failing allocations, one after the other. */
static void
test_memory(void **state)
{
    struct bell_context *ctx = *state;
    struct msg graph = small_graph(), bytes = make_model(&graph);
    bell_status status = BELL_E_NO_MEMORY;
    struct bell_onnx *model;
    uint64_t nth;

    write_bytes("m.onnx", bytes.bytes, bytes.n);
    path_in("m.onnx");
    for (nth = 1; status != BELL_OK; nth++) {
        host_fail_after(nth, 1);
        status = bell_onnx_open(ctx, path, &model);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            bell_onnx_close(model);
        assert_true(nth < 2000);
    }
}

static int
begin(void **state)
{
    struct bell_context *ctx;

    if (!mkdtemp(folder) || bell_context_create("CPU", &ctx) != BELL_OK)
        return -1;
    *state = ctx;
    return 0;
}

static int
end(void **state)
{
    bell_context_destroy(*state);
    unlink(path_in("m.onnx"));
    unlink(path_in("cut.onnx"));
    return rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_shapes_in_jit),
        cmocka_unit_test(test_if),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_overloads),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_symbols_refused),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
