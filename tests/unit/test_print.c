/* Text form: every op there and back, errors with their place, and damaged
 * text, which must give an error or a graph but never a crash. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tests/unit/uop_sexp.h"
#include "uops/uop.h"

static void
round_trip(struct uop_graph *g, const struct uop *const *roots, size_t n)
{
    const struct uop **back;
    char *text, *again;
    size_t n_back, i;
    struct uop_graph other;

    assert_int_equal(uop_print(g, roots, n, &text), BELL_OK);
    if (uop_parse(g, text, &back, &n_back) != BELL_OK)
        fail_msg("%s in:\n%s", bell_error_last()->message, text);
    assert_int_equal(n_back, n);
    for (i = 0; i < n; i++)
        assert_ptr_equal(back[i], roots[i]);
    host_free(back);
    /* in a graph of its own it prints the same */
    uop_graph_init(&other);
    assert_int_equal(uop_parse(&other, text, &back, &n_back), BELL_OK);
    assert_int_equal(uop_print(&other, back, n_back, &again), BELL_OK);
    assert_string_equal(text, again);
    host_free(back);
    host_free(again);
    host_free(text);
    uop_graph_fini(&other);
}

/* Some node of the op with typical parts. */
static const struct uop *
sample(struct uop_graph *g, enum uop_op op, int64_t arg_i, uint32_t n_src)
{
    static const struct uop_local local = {7, 256};
    int64_t d[3] = {2, 3, arg_i};
    const struct uop *src[6];
    union uop_arg arg = {.i = arg_i};
    enum uop_dtype dtype = UOP_F32;
    uint32_t i;

    for (i = 0; i < 6; i++)
        src[i] = uop_const_float(g, UOP_F32, 1.5 + i);
    switch (uop_op_infos[op].arg_kind) {
    case UOP_ARG_DIMS:
        arg.dims = uop_dims(g, d, 3);
        break;
    case UOP_ARG_NONE:
        arg.i = 0;
        break;
    case UOP_ARG_DATA:
        if (op == UOP_LOCAL)
            arg.data = &local;
        break;
    case UOP_ARG_CONST:
        dtype = UOP_I32;
        break;
    default:
        break;
    }
    return uop_new(g, op, dtype, op == UOP_BROADCAST ? 4 : 1, arg, src, n_src);
}

static void
test_every_op(void **state)
{
    struct uop_graph g;
    int op;

    (void)state;
    uop_graph_init(&g);
    for (op = 0; op < UOP_OP_COUNT; op++) {
        uint32_t max = uop_op_infos[op].max_src, n;
        int64_t args[] = {0, 1, 5, UOP_MAX, INT64_MAX, -3};
        size_t a;
        for (n = uop_op_infos[op].min_src; n <= max && n <= 5; n++) {
            for (a = 0; a < ARRAY_LEN(args); a++) {
                const struct uop *u;
                if (uop_op_infos[op].arg_kind == UOP_ARG_CONST && a == 4)
                    continue; /* no int32 */
                u = sample(&g, op, args[a], n);
                round_trip(&g, &u, 1);
            }
        }
    }
    uop_graph_fini(&g);
}

static void
test_constants(void **state)
{
    static const double floats[] = {
        0.0,     -0.0,    1.0,      -1.5,  0.1,
        1e-300,  1e300,   INFINITY, NAN,   3.14159265358979,
        0x1p-24, 65504.0, 1.0 / 3,  5e-324};
    static const int64_t ints[] = {0, 1, -1, INT64_MAX, INT64_MIN, 255};
    struct uop_graph g;
    int dtype;
    size_t i;

    (void)state;
    uop_graph_init(&g);
    for (dtype = UOP_BOOL; dtype < UOP_DTYPE_COUNT; dtype++) {
        for (i = 0; i < ARRAY_LEN(floats); i++) {
            const struct uop *u = uop_dtype_infos[dtype].is_float
                                      ? uop_const_float(&g, dtype, floats[i])
                                      : uop_const_int(&g, dtype, ints[i % 6]);
            round_trip(&g, &u, 1);
        }
    }
    uop_graph_fini(&g);
}

static void
test_shapes(void **state)
{
    int64_t d[2] = {4, 6}, p[2] = {1, 0}, t[2] = {6, 4};
    const struct uop *roots[3], *x;
    union uop_arg arg = {.i = 0};
    struct uop_graph g;

    (void)state;
    uop_graph_init(&g);
    x = uop_new_shaped(&g, UOP_BUFFER, UOP_F32, arg, NULL, 0,
                       uop_dims(&g, d, 2));
    arg.dims = uop_dims(&g, p, 2);
    roots[0] = uop_new_shaped(&g, UOP_PERMUTE, UOP_F32, arg, &x, 1,
                              uop_dims(&g, t, 2));
    arg.i = uop_reduce_arg(UOP_MAX, 3);
    d[0] = d[1] = 1;
    roots[1] = uop_new_shaped(&g, UOP_REDUCE_AXIS, UOP_F32, arg, &x, 1,
                              uop_dims(&g, d, 2));
    arg.i = 0;
    roots[2] = uop_new_shaped(&g, UOP_BUFFER, UOP_BOOL, arg, NULL, 0,
                              uop_dims(&g, d, 0));
    round_trip(&g, roots, 3);
    round_trip(&g, roots, 0);
    uop_graph_fini(&g);
}

static const char kernel_text[] = "; c = a @ b, 8x4 by 4x8\n"
                                  "%0 = const.i64 8\n"
                                  "%1 = range.i64 #0:loop %0\n"
                                  "%2 = range.i64 #1:loop %0\n"
                                  "%3 = const.i64 4\n"
                                  "%4 = range.i64 #2:reduce %3\n"
                                  "%5 = param.f32 #0\n"
                                  "%6 = param.f32 #1\n"
                                  "%7 = param.f32 #2\n"
                                  "%8 = mul.i64 %1, %3\n"
                                  "%9 = add.i64 %8, %4\n"
                                  "%10 = load.f32 %6, %9\n"
                                  "%11 = mul.i64 %4, %0\n"
                                  "%12 = add.i64 %11, %2\n"
                                  "%13 = load.f32 %7, %12\n"
                                  "%14 = mul.f32 %10, %13\n"
                                  "%15 = reduce.f32 #add %14, %4\n"
                                  "%16 = mul.i64 %1, %0\n"
                                  "%17 = add.i64 %16, %2\n"
                                  "%18 = store.void %5, %17, %15\n"
                                  "%19 = sink.void %18\n"
                                  "roots %19\n";

static void
test_kernel(void **state)
{
    const struct uop **roots;
    struct uop_graph g;
    char *text, *dot;
    size_t n;

    (void)state;
    uop_graph_init(&g);
    assert_int_equal(uop_parse(&g, kernel_text, &roots, &n), BELL_OK);
    assert_int_equal(n, 1);
    assert_int_equal(uop_validate(&g, roots, n, UOP_STAGE_K), BELL_OK);
    round_trip(&g, roots, n);
    assert_int_equal(uop_print(&g, roots, n, &text), BELL_OK);
    assert_non_null(strstr(text, "reduce.f32 #add %14, %4\n"));
    assert_int_equal(uop_dot(&g, roots, n, &dot), BELL_OK);
    assert_non_null(strstr(dot, "digraph"));
    assert_non_null(strstr(dot, "reduce.f32 #add"));
    host_free(dot);
    host_free(text);
    host_free(roots);
    uop_graph_fini(&g);
}

static void
test_errors(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "line 1, column 1: 'roots' expected"},
        {"roots %0", "line 1, column 7: %0 is not defined above"},
        {"%0 = foo.i32\nroots", "line 1, column 6: no op 'foo'"},
        {"%0 = const.i33 5\nroots", "line 1, column 12: no dtype 'i33'"},
        {"%0 = const.i8 200\n", "line 1, column 15: 200 is outside of -128"},
        {"%0 = const.i64 99999999999999999999\n", "does not fit in 64 bits"},
        {"%0 = const.i64 1\n%0 = const.i64 2\n", "line 2, column 3"},
        {"%0 = const.i64\n", "an integer expected"},
        {"%0 = const.f32 \n 5\n", "line 1, column 16: a number expected"},
        {"%0 = const.f32 x\n", "a number expected"},
        {"%0 const.i64 1\n", "line 1, column 4: '=' expected"},
        {"%0 = const.i64 1 %0\n", "not defined above"},
        {"%0 = const.i64 1\n%1 = add.i64 %0\nroots %1\n",
         "line 2, column 16: ADD takes 2 to 2 sources, not 1"},
        {"%0 = const.i64 1\n%1 = range.i64 #0:foo %0\nroots %1\n",
         "line 2, column 19: no axis type 'foo'"},
        {"%0 = const.i64 1\n%1 = reduce.i64 #foo %0, %0\n", "no op 'foo'"},
        {"%0 = const.i64x70000 1\n", "70000 is outside of 1..65535"},
        {"%0 = buffer.f32 #0 : [2, 3\nroots %0", "']' expected"},
        {"roots\n5", "line 2, column 1: text after the roots"},
        {"hello", "line 1, column 1: '%' or 'roots' expected"},
        {"%-1 = const.i64 1", "-1 is outside of 0"},
        {"%0 = local.f32 #1", "':' expected"},
        {"%0 = ", "a name expected"},
        {"%0 = abcdefghijklmnopqrstuvwxyz.i64", "is too long"},
        {"%0 = buffer.f32 #0 : [2]\n%1 = buffer.f32 #0 : [3]\nroots",
         "line 2, column 25: the same node exists with another shape"},
    };
    size_t i, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct uop **roots;
        struct uop_graph g;
        uop_graph_init(&g);
        if (uop_parse(&g, rows[i].text, &roots, &n) != BELL_E_INVALID)
            fail_msg("accepted: %s", rows[i].text);
        if (!strstr(bell_error_last()->message, rows[i].message))
            fail_msg("%s\n  gave: %s\n  not:  %s", rows[i].text,
                     bell_error_last()->message, rows[i].message);
        uop_graph_fini(&g);
    }
}

static uint32_t
rnd(uint64_t *s, uint32_t n)
{
    *s = *s * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*s >> 33) % n);
}

static void
try_text(const char *text)
{
    static const enum uop_stage stages[] = {UOP_STAGE_T, UOP_STAGE_K,
                                            UOP_STAGE_P};
    const struct uop **roots;
    struct uop_graph g;
    char *again;
    size_t n, i;

    uop_graph_init(&g);
    if (uop_parse(&g, text, &roots, &n) == BELL_OK) {
        for (i = 0; i < 3; i++) {
            bell_status ignored = uop_validate(&g, roots, n, stages[i]);
            (void)ignored;
        }
        round_trip(&g, roots, n);
        assert_int_equal(uop_dot(&g, roots, n, &again), BELL_OK);
        host_free(again);
        host_free(roots);
    }
    uop_graph_fini(&g);
}

/* Damages the text in ways that keep some of its structure. */
static void
mutate(char *text, size_t size, uint64_t *s)
{
    static const char bits[] = "%=.,[]#:;-0123456789 \naxflrconstopmu";
    uint32_t n = 1 + rnd(s, 4), i;

    for (i = 0; i < n; i++) {
        size_t len = strlen(text);
        uint32_t at = rnd(s, (uint32_t)len + 1), to;
        switch (rnd(s, 4)) {
        case 0: /* another character */
            if (at < len)
                text[at] = bits[rnd(s, sizeof(bits) - 1)];
            break;
        case 1: /* one character more */
            if (len + 2 < size) {
                memmove(text + at + 1, text + at, len - at + 1);
                text[at] = bits[rnd(s, sizeof(bits) - 1)];
            }
            break;
        case 2: /* a piece less */
            to = at + rnd(s, 8);
            if (to <= len)
                memmove(text + at, text + to, len - to + 1);
            break;
        default: /* another op's name or a big number */
            if (len + 24 < size) {
                static const char *const words[] = {
                    "lanes_reduce", "wmma",    "9223372036854775807",
                    "sink",         "bitcast", "x65535",
                    "floormod",     "iota"};
                const char *w = words[rnd(s, ARRAY_LEN(words))];
                memmove(text + at + strlen(w), text + at, len - at + 1);
                memcpy(text + at, w, strlen(w));
            }
            break;
        }
    }
}

static void
test_damaged(void **state)
{
    uint64_t s = 1;
    int i;

    (void)state;
    for (i = 0; i < 20000; i++) {
        char text[2048];
        strcpy(text, kernel_text);
        mutate(text, sizeof(text), &s);
        try_text(text);
    }
}

static void
test_no_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t nth;

    (void)state;
    for (nth = 1; status != BELL_OK; nth++) {
        const struct uop **roots = NULL;
        struct uop_graph g;
        char *text = NULL;
        size_t n;
        uop_graph_init(&g);
        host_fail_after(nth, 1);
        status = uop_parse(&g, kernel_text, &roots, &n);
        if (status == BELL_OK)
            status = uop_validate(&g, roots, n, UOP_STAGE_K);
        if (status == BELL_OK)
            status = uop_print(&g, roots, n, &text);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
        host_free(text);
        host_free(roots);
        uop_graph_fini(&g);
    }
    assert_true(nth > 10);
}

static void
test_expressions(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"(ADD (MUL r0:8 4) r1:4)", "r0*4 + r1"},
        {"(MUL (ADD a:f32 1.0) (SUB b:f32 2.5))",
         "(p97[0] + 1.0)*(p98[0] - 2.5)"},
        {"(SUB a:f32 (SUB b:f32 c:f32))", "p97[0] - (p98[0] - p99[0])"},
        {"(NEG (ADD a:f32 b:f32))", "-(p97[0] + p98[0])"},
        {"(MAX a:f32 (EXP2 b:f32))", "max(p97[0], exp2(p98[0]))"},
        {"(CAST.i32 (ADD a:f32 b:f32))", "(i32)(p97[0] + p98[0])"},
        {"(WHERE a:bool (WHERE b:bool 1 2) 3)",
         "p97[0] ? (p98[0] ? 1 : 2) : 3"},
        {"(SHL (ADD a:i32 1) 3)", "p97[0] + 1 << 3"},
        {"(FLOORMOD (MUL a:i32 -3) 5)", "-p97[0]*3%5"},
    };
    struct uop_graph g;
    char buf[200], tiny[8];
    const struct uop *u;
    size_t i;
    union uop_arg none = {.bits = 0};

    (void)state;
    uop_graph_init(&g);
    for (i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(
            uop_expr_str(sexp_build(&g, rows[i].in, true), buf, sizeof(buf)),
            rows[i].out);
    /* short buffers are filled and ended; depth is bounded */
    assert_string_equal(
        uop_expr_str(sexp_build(&g, rows[1].in, true), tiny, sizeof(tiny)),
        "(p97[0]");
    assert_string_equal(uop_expr_str(&uop_failed, tiny, 2), "0");
    u = sexp_build(&g, "a:f32", true);
    for (i = 0; i < 100000; i++)
        u = uop_new(&g, UOP_SIN, UOP_F32, 1, none, &u, 1);
    assert_non_null(strstr(uop_expr_str(u, buf, sizeof(buf)), "sin("));
    uop_graph_fini(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op),  cmocka_unit_test(test_constants),
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_errors),    cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_expressions),
    };

    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
