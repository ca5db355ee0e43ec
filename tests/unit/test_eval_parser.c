/* Expressions: values by the reference evaluator, and where faults are said
 * to lie. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "doorbell/functions.h"
#include "tools/eval/eval_expr.h"
#include "tools/eval/eval_lex.h"

#define MAX_VALUES 64

/* x = [[1, 2, 3], [4, 5, 6]] float32; i = [2, 0, 1] int64; b = [[T, F, T]];
 * s = 2.5 of shape (). */
static struct eval_input inputs[4];

static int
set_up(void **state)
{
    static const float x[] = {1, 2, 3, 4, 5, 6}, s = 2.5f;
    static const int64_t i[] = {2, 0, 1};
    static const uint8_t b[] = {1, 0, 1};

    if (make_context(state) != 0)
        return -1;
    inputs[0] = (struct eval_input){
        "x", bell_from_data(ctx, BELL_DIMS(2, 3), BELL_FLOAT32, x)};
    inputs[1] = (struct eval_input){
        "i", bell_from_data(ctx, BELL_DIMS(3), BELL_INT64, i)};
    inputs[2] = (struct eval_input){
        "b", bell_from_data(ctx, BELL_DIMS(1, 3), BELL_BOOL, b)};
    inputs[3] = (struct eval_input){
        "s", bell_from_data(ctx, BELL_NO_DIMS, BELL_FLOAT32, &s)};
    return 0;
}

static struct bell_tensor *
eval(const char *text)
{
    struct bell_tensor *t = NULL;
    size_t at = 999;

    if (eval_expr(ctx, text, inputs, 4, &t, &at) != BELL_OK)
        fail_msg("%s: column %zu: %s", text, at + 1,
                 bell_error_last()->message);
    return t;
}

static void
check(int line, const char *text, enum bell_dtype dtype, const double *want,
      size_t n)
{
    struct bell_tensor *t = eval(text);

    if (bell_dtype_of(t) != dtype)
        fail_msg("line %d: %s is %s", line, text,
                 bell_dtype_name(bell_dtype_of(t)));
    expect_values(text, line, t, want, n, 1e-6);
}

#define VALUES(text, dtype, ...)                                               \
    check(__LINE__, text, dtype, (double[]){__VA_ARGS__},                      \
          ARRAY_LEN(((double[]){__VA_ARGS__})))
#define F(text, ...) VALUES(text, BELL_FLOAT32, __VA_ARGS__)
#define N(text, ...) VALUES(text, BELL_INT64, __VA_ARGS__)
#define B(text, ...) VALUES(text, BELL_BOOL, __VA_ARGS__)

/* `column` counts from 1. */
static void
refuses(int line, const char *text, size_t column, const char *part)
{
    struct bell_tensor *t = NULL;
    size_t at = 999;
    bell_status status = eval_expr(ctx, text, inputs, 4, &t, &at);

    if (status != BELL_E_INVALID)
        fail_msg("line %d: %s gives status %d", line, text, status);
    if (!strstr(bell_error_last()->message, part) || at + 1 != column)
        fail_msg("line %d: %s\n  column %zu: %s\n  wanted column %zu: %s", line,
                 text, at + 1, bell_error_last()->message, column, part);
    assert_null(t);
}

#define REFUSES(text, column, part) refuses(__LINE__, text, column, part)

/* ---- what is understood ----------------------------------------------- */

static void
test_numbers(void **state)
{
    (void)state;
    N("42", 42);
    N("0x1f", 31);
    N("0b101", 5);
    N("0o17", 15);
    N("1_000_000", 1000000);
    N("0", 0);
    N("9223372036854775807", (double)INT64_MAX);
    N("-9223372036854775808", (double)INT64_MIN);
    N("-0x8000000000000000", (double)INT64_MIN);
    N("-9223372036854775808 + 9223372036854775807", -1);
    N("-2 ** 63", (double)INT64_MIN);
    N("-8**21 + 9223372036854775807", -1);
    N("-2 ** 3", -8);
    F("-2 ** -1", -0.5);
    N("-2 ** 0", -1);
    F("1.5", 1.5);
    F(".5", 0.5);
    F("2.", 2);
    F("1e-3", 0.001);
    F("1E+2", 100);
    F("1_0.5", 10.5);
    B("True", 1);
    B("False", 0);
    F("inf", INFINITY);
    F("-inf", -INFINITY);
    F("nan", NAN);
    F("pi", 3.14159265);
    F("e", 2.71828183);
}

static void
test_python_numbers(void **state)
{
    (void)state;
    N("7 // 2", 3);
    N("-7 // 2", -4);
    N("-7 % 3", 2);
    N("7 % -3", -2);
    F("7 / 2", 3.5);
    F("6 / 2", 3);
    N("2 ** 10", 1024);
    F("2 ** -1", 0.5);
    N("2 ** 3 ** 2", 512);
    N("-2 ** 2", -4);
    N("(-2) ** 3", -8);
    N("0 ** 0", 1);
    N("(-1) ** 1000000000000", 1);
    F("7.5 // 2", 3);
    F("-7.5 % 2", 0.5);
    F("1.0 // 0.1", 9);
    F("-5.0 // inf", -1);
    F("-1.0 % 0.1", 5.551115123125783e-17);
    F("5.0 % -inf", -INFINITY);
    N("1 << 5", 32);
    N("-9 >> 1", -5);
    N("1 >> 100", 0);
    N("6 & 3", 2);
    N("6 | 3", 7);
    N("6 ^ 3", 5);
    N("~5", -6);
    N("+5", 5);
    N("True + True", 2);
    B("True & False", 0);
    B("1 < 2", 1);
    B("1 == 1.0", 1);
    B("2 != 2", 0);
    B("3 >= 3", 1);
    B("9007199254740993 == 9007199254740992", 0);
    N("- - 3", 3);
}

static void
test_precedence(void **state)
{
    (void)state;
    N("1 + 2 * 3", 7);
    N("(1 + 2) * 3", 9);
    N("10 - 3 - 2", 5);
    N("100 // 10 // 3", 3);
    N("1 | 2 ^ 3 & 2", 1 | (2 ^ (3 & 2)));
    N("1 << 2 + 1", 8);
    B("1 + 1 == 2", 1);
    B("1 | 2 == 3", 1);
    N("2 * -3", -6);
    N("-3 ** 2", -9);
    F("2 ** -x[0, 0]", 0.5);
    F("-x[0] ** 2", -1, -4, -9);
    F("x[0] @ x[1] * 2", 64);
    F("2 * x[0] @ x[1]", 64);
    B("x[0] > 1 & 3", 0, 1, 1);
}

static void
test_operators(void **state)
{
    (void)state;
    F("x + 1", 2, 3, 4, 5, 6, 7);
    F("1 - x[0]", 0, -1, -2);
    F("x * i", 2, 0, 3, 8, 0, 6);
    F("6 / x[0]", 6, 3, 2);
    F("x[1] // 2", 2, 2, 3);
    F("x[0] % 2", 1, 0, 1);
    F("x[0] ** 2", 1, 4, 9);
    F("2 ** x[0]", 2, 4, 8);
    F("x @ x.T", 14, 32, 32, 77);
    N("i + 1", 3, 1, 2);
    F("i + 0.5", 2.5, 0.5, 1.5);
    N("i // 2", 1, 0, 0);
    F("i / 2", 1, 0, 0.5);
    N("i & 1", 0, 0, 1);
    N("i << 1", 4, 0, 2);
    N("~i", -3, -1, -2);
    B("~b", 0, 1, 0);
    B("b | (i == 0)", 1, 1, 1);
    B("b ^ True", 0, 1, 0);
    B("x < 3", 1, 1, 0, 0, 0, 0);
    B("3 <= x[0]", 0, 0, 1);
    B("i != i", 0, 0, 0);
    F("+x[0]", 1, 2, 3);
    F("s * 2", 5);
    F("x[0] + [10, 20, 30]", 11, 22, 33);
}

static void
test_indexing(void **state)
{
    (void)state;
    F("x[0]", 1, 2, 3);
    F("x[-1]", 4, 5, 6);
    F("x[1, 2]", 6);
    F("x[:, 1]", 2, 5);
    F("x[:, 1:]", 2, 3, 5, 6);
    F("x[:, ::2]", 1, 3, 4, 6);
    F("x[::-1, 0]", 4, 1);
    F("x[0, ::-1]", 3, 2, 1);
    F("x[0, -2:]", 2, 3);
    F("x[0, None:None:None]", 1, 2, 3);
    F("sum(x[0, 5:])", 0);
    F("x[..., 0]", 1, 4);
    F("x[0, ...]", 1, 2, 3);
    F("x[None, 0, None, 1]", 2);
    F("x[:, i]", 3, 1, 2, 6, 4, 5);
    F("x[:, [0, -1]]", 1, 3, 4, 6);
    F("x[[1, 0], [0, 2]]", 4, 3);
    F("x[1,]", 4, 5, 6);
    F("x[i[1]]", 1, 2, 3);
    F("x[1 - 1, 1 + 1]", 3);
    F("x.T[2]", 3, 6);
    N("x.shape[1]", 3);
    N("x.shape[-1] * 2", 6);
    N("x.ndim", 2);
    F("x.sum(1)[0]", 6);
    F("(x * 2)[1][0]", 8);
}

static void
test_calls(void **state)
{
    (void)state;
    F("sum(x)", 21);
    F("sum(x, 1)", 6, 15);
    F("sum(x, dim=0)", 5, 7, 9);
    F("sum(x, axis=0, keepdims=True)[0]", 5, 7, 9);
    F("x.sum(0, keepdim=True)[0]", 5, 7, 9);
    F("x.sum((0, 1))", 21);
    F("x.sum([-1],)", 6, 15);
    F("torch.sum(x, 1)", 6, 15);
    F("F.relu(x[0] - 2)", 0, 0, 1);
    F("torch.nn.functional.relu(x[0] - 2)", 0, 0, 1);
    F("x.reshape(3, 2)[2]", 5, 6);
    F("x.reshape((3, -1))[2]", 5, 6);
    F("x.flip(0, 1)[0]", 6, 5, 4);
    F("cat([x, x])[3]", 4, 5, 6);
    F("cat((x[0], i), dim=-1)", 1, 2, 3, 2, 0, 1);
    F("where(x[0] > 1, x[0], 0)", 0, 2, 3);
    F("clamp(x[0], max=2)", 1, 2, 2);
    F("topk(x, 1)[0].flatten()", 3, 6);
    N("topk(x, 1)[-1].flatten()", 2, 2);
    F("split(x, [1, 2], 1)[1][0]", 2, 3);
    F("einsum('ij,j->i', x, x[0])", 14, 32);
    F("div(x[0], 2, rounding_mode='floor')", 0, 1, 1);
    N("x[0].to(int64)", 1, 2, 3);
    N("x[0].long()", 1, 2, 3);
    N("zeros(2, dtype=i.dtype)", 0, 0);
    F("full((2,), 7.0)", 7, 7);
    N("arange(3)", 0, 1, 2);
    N("[1, 2, 3]", 1, 2, 3);
    F("[[1, 2], [3, 4.5]]", 1, 2, 3, 4.5);
    B("[True, False]", 1, 0);
    F("tensor([1, 2], dtype=float32)", 1, 2);
    F("softmax(x * 0, axis=-1)[:, 1:].sum()", 4.0 / 3);
    F("max(x, 1)[0]", 3, 6);
    F("amax(x, 1)", 3, 6);
    F("x.max()", 6);
    F(" x [ 0 ] . sum ( ) ", 6);
    F("(\n x[0]\n + 1\n)", 2, 3, 4);
}

/* ---- what is not ------------------------------------------------------ */

static void
test_syntax_errors(void **state)
{
    (void)state;
    REFUSES("", 1, "empty");
    REFUSES("  ", 1, "empty");
    REFUSES("1 +", 4, "expected a value, not the end");
    REFUSES("(1", 3, "expected ')'");
    REFUSES("(", 1, "not closed");
    REFUSES("[1, 2", 6, "expected ']'");
    REFUSES("1 2", 3, "expected an operator or the end, not a number");
    REFUSES("x x", 3, "not 'x'");
    REFUSES("x)", 2, "not ')'");
    REFUSES("* x", 1, "expected a value, not '*'");
    REFUSES("x[", 3, "expected a value, not the end");
    REFUSES("x[]", 2, "index is missing");
    REFUSES("x[0", 4, "expected ']'");
    REFUSES("x[0 1]", 5, "expected ']'");
    REFUSES("sum(x 1)", 7, "expected ')'");
    REFUSES("x.", 3, "name is missing");
    REFUSES("x.1", 2, "expected an operator");
    REFUSES("x = 1", 3, "write ==");
    REFUSES("x $ 1", 3, "unexpected '$'");
    REFUSES("x \x01", 3, "byte 0x01");
    REFUSES("x + \xc3\xa9", 5, "byte 0xc3");
    REFUSES("'abc", 1, "no end");
    REFUSES("'a\\n'", 1, "escapes");
    REFUSES("1e", 1, "not a number");
    REFUSES("0x", 1, "not a number");
    REFUSES("0b12", 1, "not a number");
    REFUSES("1abc", 1, "not a number");
    REFUSES("1.2.3", 1, "not a number");
    REFUSES("2j", 1, "not a number");
    REFUSES("007", 1, "does not begin with 0");
    REFUSES("9223372036854775808", 1, "64 bits");
    REFUSES("-9223372036854775809", 2, "64 bits");
    REFUSES("--9223372036854775808", 1, "64-bit");
    REFUSES("-9223372036854775808 ** 1", 2, "64 bits");
    REFUSES("{1: 2}", 1, "expected a value, not '{'");
    REFUSES("x := 1", 3, "expected an operator");
    REFUSES("sum(*x)", 5, "'*' before an argument");
    REFUSES("not x", 1, "'not' is not supported");
    REFUSES("x and x", 3, "'and' is not supported");
    REFUSES("x or x", 3, "'or' is not supported");
    REFUSES("1 if x else 2", 3, "where(condition");
    REFUSES("x in x", 3, "'in'");
    REFUSES("lambda: 1", 1, "'lambda'");
    REFUSES("1 < x < 2", 7, "chained");
}

static void
test_name_errors(void **state)
{
    (void)state;
    REFUSES("y + 1", 1, "no input 'y'");
    REFUSES("1 + zz", 5, "--in zz=FILE.npy");
    REFUSES("sofmax(x)", 1, "did you mean 'softmax'");
    REFUSES("x + x.sofmax()", 7, "did you mean 'softmax'");
    REFUSES("qqqqqqqqqqqq(x)", 1, "--list");
    REFUSES("softmax", 1, "'softmax' is a function");
    REFUSES("x.sum", 3, "write .sum()");
    REFUSES("x.foo", 3, "no attribute 'foo'");
    REFUSES("x(1)", 2, "'x' is an input");
    REFUSES("1(2)", 2, "an int cannot be called");
    REFUSES("x[0](1)", 5, "a tensor cannot be called");
}

static void
test_value_errors(void **state)
{
    (void)state;
    REFUSES("x + i[:2]", 3, "do not broadcast");
    REFUSES("x @ x", 3, "(2, 3)");
    REFUSES("x & 1", 3, "float32");
    REFUSES("~x", 1, "float32");
    REFUSES("x[2]", 2, "2");
    REFUSES("x[0, 0, 0]", 2, "");
    REFUSES("x[b]", 2, "a mask of shape");
    REFUSES("x[1.5]", 3, "not a float");
    REFUSES("x['a']", 3, "not a string");
    REFUSES("x[1:'a']", 5, "not a string");
    REFUSES("x[1.5:]", 3, "not a float");
    REFUSES("x[::0]", 4, "step");
    REFUSES("1[0]", 2, "cannot be indexed");
    REFUSES("split(x, 1)[5]", 12, "index 5 of a list of 2");
    REFUSES("split(x, 1)[:]", 12, "one integer");
    REFUSES("split(x, 1)", 1, "a list of 2");
    REFUSES("[x, x]", 1, "a tensor among the numbers");
    REFUSES("[[1, 2], [3]]", 1, "not all of one shape");
    REFUSES("'abc'", 1, "a string, not a tensor");
    REFUSES("None", 1, "None, not a tensor");
    REFUSES("float32", 1, "a dtype");
    REFUSES("x + 'a'", 3, "not a string");
    REFUSES("x + None", 3, "not None");
    REFUSES("-'a'", 1, "not a string");
    REFUSES("1 // 0", 3, "division by zero");
    REFUSES("1 % 0", 3, "division by zero");
    REFUSES("1.0 / 0", 5, "division by zero");
    REFUSES("2 ** 63", 3, "does not fit");
    REFUSES("1 - 2 ** 63", 7, "does not fit");
    REFUSES("-(2 ** 63)", 5, "does not fit");
    REFUSES("-2 ** 64", 4, "does not fit");
    REFUSES("1 << 63", 3, "does not fit");
    REFUSES("1 << -1", 3, "negative shift");
    REFUSES("9223372036854775807 + 1", 21, "does not fit");
    REFUSES("(-9223372036854775807 - 1) // -1", 28, "does not fit");
    REFUSES("1.5 & 1", 5, "integers");
    REFUSES("~1.5", 1, "integers");
    REFUSES("1 @ 2", 3, "tensors");
}

static void
test_call_errors(void **state)
{
    (void)state;
    REFUSES("sum()", 1, "'input' is missing");
    REFUSES("sum(x, dim='a')", 8, "'dim' must be an int or a list of ints");
    REFUSES("sum(x, [1.5])", 8, "not a list with a float");
    REFUSES("sum(x, 5)", 1, "5");
    REFUSES("sum(x, 1, 2)", 11, "'keepdim' must be a bool");
    REFUSES("sum(x, dum=1)", 8, "did you mean 'dim'");
    REFUSES("sum(x, qqqqqq=1)", 8, "no parameter 'qqqqqq'");
    REFUSES("sum(x, 0, dim=1)", 11, "'dim' is given twice");
    REFUSES("sum(x, dim=0, axis=1)", 15, "'dim' is given twice");
    REFUSES("sum(dim=0, x)", 12, "positional argument after");
    REFUSES("exp(x, x)", 8, "takes at most 1");
    REFUSES("exp('a')", 5, "must be a tensor or number");
    REFUSES("x.softmax(1.5)", 11, "must be an int, not a float");
    REFUSES("gelu(x, approximate='no')", 1, "'no' is not");
    REFUSES("mse_loss(x, x, reduction='no')", 1, "'no' is not");
    REFUSES("x.reshape(4, 4)", 3, "(4, 4)");
    REFUSES("x.to(5)", 6, "must be a dtype");
    REFUSES("cat(x)", 5, "must be a list of tensors");
    REFUSES("cat([x, 'a'])", 5, "with a string");
    REFUSES("div(x, 2, rounding_mode='up')", 1, "'up' is not");
    REFUSES("layer_norm(x, [2])", 1, "last axes");
    REFUSES("split(x, 0)", 1, "size 0");
    REFUSES("conv2d(x, x, stride=0)", 1, "not positive");
    REFUSES("pad(x, (1, 2, 3))", 1, "3 numbers");
    REFUSES("zeros(-1)", 1, "-1");
    REFUSES("zeros(4611686018427387904, 8)", 1, "");
}

/* Deep and long texts: an answer, and the stack stays. */
static void
test_hostile(void **state)
{
    static const char *const units[] = {"(",   "[",   "-",  "~",  "sum(",
                                        "x[",  "2**", "1+", "x,", ".T",
                                        "x.T", "[x",  "(x,"};
    const size_t n = 20000;
    char *text = malloc(n + 16);
    size_t k, at, len;

    (void)state;
    assert_non_null(text);
    for (k = 0; k < ARRAY_LEN(units); k++) {
        struct bell_tensor *t = NULL;
        len = 0;
        while (len < n) {
            memcpy(text + len, units[k], strlen(units[k]));
            len += strlen(units[k]);
        }
        text[len] = 0;
        assert_int_not_equal(eval_expr(ctx, text, inputs, 4, &t, &at), BELL_OK);
        assert_true(at <= len);
    }
    for (len = 0; len < n; len += 2)
        memcpy(text + len, "1+", 2);
    memcpy(text + len, "1", 2);
    N(text, (double)n / 2 + 1);
    memset(text, 'a', n);
    text[n] = 0;
    REFUSES(text, 1, "too long");
    memset(text, '7', n);
    REFUSES(text, 1, "too long");
    memset(text, '(', EVAL_MAX_DEPTH + 1);
    text[EVAL_MAX_DEPTH + 1] = 0;
    assert_int_equal(
        eval_expr(ctx, text, inputs, 4, &(struct bell_tensor *){0}, &at),
        BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "nested more than"));
    free(text);
}

/* Fails at each allocation in turn, in a context of its own. */
static void
test_no_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    struct bell_tensor *t = NULL;
    uint64_t nth;
    size_t at;

    for (nth = 1; status != BELL_OK; nth++) {
        host_fail_after(nth, 1);
        status = eval_expr(ctx, "softmax(cat([x, x]), axis=-1)[:, [0, 1]]",
                           inputs, 4, &t, &at);
        host_fail_after(0, 0);
        if (status != BELL_OK && status != BELL_E_NO_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)nth,
                     bell_error_last()->message);
        assert_int_equal(end_context(state), 0);
        assert_int_equal(set_up(state), 0);
    }
    assert_true(nth > 5);
}

/* ---- the table -------------------------------------------------------- */

static void
test_table(void **state)
{
    struct bell_param params[BELL_MAX_PARAMS];
    const struct bell_function *f;
    char aliases[128], *word;
    size_t i;

    (void)state;
    assert_true(bell_function_count() > 180);
    assert_null(bell_function_at(bell_function_count()));
    for (i = 0; (f = bell_function_at(i)); i++) {
        uint32_t n = bell_function_params(f, params), k;
        bool defaults = false;
        if (n == 0)
            fail_msg("%s: \"%s\" does not parse", f->name, f->params);
        for (k = 0; k < n; k++) {
            if (params[k].required && defaults)
                fail_msg("%s: a required parameter after one with a default",
                         f->name);
            defaults |= !params[k].required;
        }
        assert_true(f->doc[0] && f->section[0]);
        if (bell_function_find(f->name) != f)
            fail_msg("%s is in the table twice", f->name);
        assert_true(bell_function_aliases(f, aliases, sizeof(aliases)) <
                    sizeof(aliases));
        for (word = strtok(aliases, " "); word; word = strtok(NULL, " ")) {
            if (bell_function_find(word) != f)
                fail_msg("%s, alias of %s, is another's name", word, f->name);
        }
    }
    assert_null(bell_function_find("nothing_like_it"));
    assert_null(bell_function_nearest("nothing_like_it"));
    assert_string_equal(bell_function_nearest("arcsine"), "asin");
    assert_int_equal(bell_dtype_find("half"), BELL_FLOAT16);
    assert_int_equal(bell_dtype_find("uint64"), BELL_UINT64);
    assert_int_equal(bell_dtype_find("default"), BELL_DEFAULT);
}

static void
test_lexer_places(void **state)
{
    struct eval_lexer lexer = {.text = "  ab\t<=\n 1.5"};
    struct eval_token tok;

    (void)state;
    assert_int_equal(eval_lex(&lexer, &tok), BELL_OK);
    assert_int_equal(tok.at, 2);
    assert_string_equal(tok.text, "ab");
    assert_int_equal(eval_lex(&lexer, &tok), BELL_OK);
    assert_int_equal(tok.at, 5);
    assert_true(eval_is_op(&tok, "<="));
    assert_int_equal(eval_lex(&lexer, &tok), BELL_OK);
    assert_int_equal(tok.at, 9);
    assert_true(tok.value.f == 1.5);
    assert_int_equal(eval_lex(&lexer, &tok), BELL_OK);
    assert_int_equal(tok.kind, EVAL_TOKEN_END);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_numbers),       TEST(test_python_numbers),
        TEST(test_precedence),    TEST(test_operators),
        TEST(test_indexing),      TEST(test_calls),
        TEST(test_syntax_errors), TEST(test_name_errors),
        TEST(test_value_errors),  TEST(test_call_errors),
        TEST(test_hostile),       TEST(test_no_memory),
        TEST(test_table),         TEST(test_lexer_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
