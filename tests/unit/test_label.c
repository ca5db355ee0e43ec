/* Labels: what is open, what nodes are marked with, what becomes of it. */
#include <stdio.h>
#include <stdlib.h>

#include "doorbell/custom.h"
#include "doorbell/label.h"
#include "doorbell/ops.h"
#include "tensor/core/tensor_internal.h"
#include "tests/unit/tensor_host.h"

static int
make_recording(void **state)
{
    setenv("BELL_PROFILE", "/dev/null", 1);
    return make_context(state);
}

static int
end_recording(void **state)
{
    unsetenv("BELL_PROFILE");
    return end_context(state);
}

/* What a kernel that computed this one node would be called. */
static const char *
text_of(const struct uop *u)
{
    uint32_t mark = uop_mark(&ctx->graph, u);
    bool is_main = true;
    const char *text = tensor_label_text(&ctx->labels, &mark, &is_main, 1);

    return text ? text : "";
}

static void
expect_text(struct bell_tensor *t, const char *text)
{
    assert_string_equal(text_of(tensor_at(t)->uop), text);
}

static void
begin(const char *label)
{
    assert_int_equal(bell_label_begin(ctx, label), BELL_OK);
}

static void
end(void)
{
    assert_int_equal(bell_label_end(ctx), BELL_OK);
}

/* ---- the calls ---- */

/* The same answers, whether labels are recorded or not. */
static void
test_calls(void **state)
{
    char longest[BELL_LABEL_BYTES + 2];

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[BELL_LABEL_BYTES + 1] = '\0';
    assert_int_equal(bell_label_end(ctx), BELL_E_INVALID);
    assert_int_equal(bell_label_begin(ctx, NULL), BELL_E_INVALID);
    assert_int_equal(bell_label_begin(ctx, ""), BELL_E_INVALID);
    assert_int_equal(bell_label_begin(ctx, longest), BELL_E_INVALID);
    longest[BELL_LABEL_BYTES] = '\0';
    begin(longest);
    begin("a");
    end();
    end();
    assert_int_equal(bell_label_end(ctx), BELL_E_INVALID);
    assert_int_equal(bell_label_begin(NULL, "a"), BELL_E_INVALID);
    /* such failures are the call's, not the context's */
    assert_int_equal(bell_context_status(ctx), BELL_OK);
}

static struct bell_tensor *
forward(struct bell_context *c, void *user, struct bell_tensor *const *in,
        uint32_t n)
{
    (void)user;
    assert_int_equal(n, 1);
    assert_int_equal(bell_label_end(c), BELL_E_INVALID); /* none of its own */
    assert_int_equal(bell_label_begin(c, "inside"), BELL_OK);
    return bell_exp(in[0]); /* and leaves it open */
}

static bell_status
backward(struct bell_context *c, void *user, struct bell_tensor *const *in,
         uint32_t n, struct bell_tensor *out, struct bell_tensor *grad,
         struct bell_tensor **out_grads)
{
    (void)c;
    (void)user;
    (void)in;
    (void)n;
    out_grads[0] = bell_mul(grad, out);
    return BELL_OK;
}

static void
test_callback(void **state)
{
    struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                    .name = "mine",
                                    .forward = forward,
                                    .backward = backward};
    struct bell_tensor *x = hidden(T(V(1, 2, 3), 3)), *y;

    (void)state;
    begin("outside");
    y = bell_custom(&desc, &x, 1);
    assert_false(bell_is_error(y));
    end();
    assert_int_equal(bell_label_end(ctx), BELL_E_INVALID);
}

/* ---- what nodes are called ---- */

static void
test_texts(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2, 3, 4), 2, 2)), *y, *z;

    (void)state;
    y = bell_exp(x);
    expect_text(y, "exp");
    begin("encoder");
    begin("block 3");
    expect_text(bell_softmax(x, -1), "encoder/block 3: softmax");
    end();
    expect_text(bell_sin(x), "encoder: sin");
    /* one node, which was there */
    expect_text(bell_exp(x), "exp");
    begin("a \"quote\" and \xc3\xa4");
    expect_text(bell_cos(x), "encoder/a ?quote? and ??: cos");
    end();
    end();
    z = bell_tan(x);
    expect_text(z, "tan");
    assert_ptr_equal(tensor_at(bell_exp(x))->uop, tensor_at(y)->uop);
}

/* The innermost label around all, and three functions at most. */
static void
test_fused(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2, 3, 4), 2, 2));
    const char *text;
    uint32_t marks[6];
    bool is_main[6] = {false};

    (void)state;
    begin("net");
    begin("one");
    marks[0] = uop_mark(&ctx->graph, tensor_at(bell_exp(x))->uop);
    begin("deep");
    marks[1] = uop_mark(&ctx->graph, tensor_at(bell_sin(x))->uop);
    end();
    end();
    begin("two");
    marks[2] = uop_mark(&ctx->graph, tensor_at(bell_cos(x))->uop);
    end();
    end();
    marks[3] = uop_mark(&ctx->graph, tensor_at(bell_sqrt(x))->uop);
    marks[4] = 0;
    marks[5] = marks[0];
    text = tensor_label_text(&ctx->labels, marks, is_main, 1);
    assert_string_equal(text, "net/one: exp");
    text = tensor_label_text(&ctx->labels, marks, is_main, 2);
    assert_string_equal(text, "net/one: exp, sin");
    text = tensor_label_text(&ctx->labels, marks, is_main, 3);
    assert_string_equal(text, "net: exp, sin, cos");
    is_main[1] = true;
    text = tensor_label_text(&ctx->labels, marks, is_main, 6);
    assert_string_equal(text, "net: sin, cos, sqrt, ..");
    assert_null(tensor_label_text(&ctx->labels, marks + 4, is_main, 1));
    assert_null(tensor_label_text(&ctx->labels, marks, is_main, 0));
}

static void
test_gradients(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2, 3, 4), 2, 2)), *y, *g, *gg;

    (void)state;
    begin("part");
    y = bell_sin(x);
    end();
    y = bell_sum(bell_mul(y, y), BELL_NO_DIMS, false);
    assert_int_equal(bell_gradient(y, &x, 1, &g), BELL_OK);
    expect_text(g, "part: gradient of sin");
    assert_int_equal(
        bell_gradient(bell_sum(g, BELL_NO_DIMS, false), &x, 1, &gg), BELL_OK);
    assert_non_null(strstr(text_of(tensor_at(gg)->uop), "gradient of"));
    /* the next tensor is not a gradient */
    expect_text(bell_tanh(x), "tanh");
}

/* What lives is copied to another graph, with its labels. */
static void
test_compaction(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2, 3, 4), 2, 2)), *y;
    struct bell_context_info info = {.struct_size = sizeof(info)};
    int i, k;

    (void)state;
    begin("kept");
    y = bell_sin(x);
    end();
    for (i = 0; i < 200 && info.n_compactions == 0; i++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        for (k = 0; k < 200; k++)
            bell_add(x, bell_scalar(ctx, i * 200 + k + 0.5));
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
        bell_context_get_info(ctx, &info);
    }
    assert_true(info.n_compactions > 0);
    expect_text(y, "kept: sin");
    expect_text(bell_cos(x), "cos");
}

/* Labels without end take no memory without end. */
static void
test_many(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2), 2));
    char name[32];
    uint32_t i;

    (void)state;
    begin("around");
    for (i = 0; i < BELL_LABELS + 10; i++) {
        snprintf(name, sizeof(name), "step %u", i);
        begin(name);
        if (i > BELL_LABELS)
            begin("more");
        if (i == 5)
            expect_text(bell_sin(x), "around/step 5: sin");
        if (i == BELL_LABELS + 9)
            expect_text(bell_cos(x), "around: cos");
        if (i > BELL_LABELS)
            end();
        end();
    }
    assert_true(ctx->labels.n_scopes <= BELL_LABELS);
    end();
    expect_text(bell_tan(x), "tan");
}

/* A path that is too long is cut, which shows; so does a text of one. */
static void
test_cut(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2), 2)), *y;
    char name[BELL_LABEL_BYTES + 1], want[300] = "";
    const char *text;
    uint32_t i;

    (void)state;
    memset(name, 'x', sizeof(name));
    name[BELL_LABEL_BYTES] = '\0';
    for (i = 0; i < 4; i++) { /* 255 bytes: they fit */
        begin(name);
        snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%s",
                 i ? "/" : "", name);
    }
    assert_int_equal(strlen(want), 255);
    strcat(want, ": sin");
    expect_text(bell_sin(x), want);
    for (; i < 9; i++) {
        begin("more");
        memcpy(want + 253, "..: cos", sizeof("..: cos"));
        y = bell_cos(bell_add_scalar(x, i));
        text = text_of(tensor_at(y)->uop);
        if (strncmp(text, want, 255) != 0 || !strstr(text, "..: "))
            fail_msg("%s", text);
    }
    for (; i > 0; i--)
        end();
}

/* Nobody looks: nodes have no marks. */
static void
test_off(void **state)
{
    struct bell_tensor *x = hidden(T(V(1, 2), 2));

    (void)state;
    begin("a");
    assert_int_equal(uop_mark(&ctx->graph, tensor_at(bell_sin(x))->uop), 0);
    end();
    assert_false(ctx->graph.has_marks);
    assert_null(ctx->labels.scopes);
}

int
main(void)
{
#define RECORDED(test)                                                         \
    cmocka_unit_test_setup_teardown(test, make_recording, end_recording)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, make_context, end_context),
        RECORDED(test_calls),
        cmocka_unit_test_setup_teardown(test_callback, make_context,
                                        end_context),
        RECORDED(test_callback),
        RECORDED(test_texts),
        RECORDED(test_fused),
        RECORDED(test_gradients),
        RECORDED(test_compaction),
        RECORDED(test_many),
        RECORDED(test_cut),
        cmocka_unit_test_setup_teardown(test_off, make_context, end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
