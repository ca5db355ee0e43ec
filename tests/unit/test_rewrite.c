/* Every symbolic rule, one case where it applies and one where it must not, in
 * the order of the table; and the engine: patterns, priorities, failing
 * allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "tests/unit/uop_sexp.h"
#include "uops/rewrite.h"

/* ---- the symbolic rules ---- */

struct rule_case {
    const char *name, *in, *out; /* applies */
    const char *not_in;          /* does not apply */
};

/* clang-format off */
static const struct rule_case rule_cases[] = {
    {"bool-add", "(ADD a:bool b:bool)", "p97[0] | p98[0]", "(ADD a:i32 b:i32)"},
    {"bool-mul", "(MIN a:bool b:bool)", "p97[0] & p98[0]", "(MIN a:u8 b:u8)"},
    {"bool-differ", "(CMPNE a:bool b:bool)", "p97[0] ^ p98[0]", "(CMPNE a:i8 b:i8)"},
    {"bool-equal", "(CMPEQ a:bool b:bool)", "!(p97[0] ^ p98[0])", "(CMPEQ a:f32 b:f32)"},
    {"bool-less", "(CMPLT a:bool b:bool)", "p98[0] & !p97[0]", "(CMPLT a:i32 b:i32)"},
    {"bool-neg", "(NEG a:bool)", "p97[0]", "(NEG a:i32)"},
    {"sum", "(ADD (MUL r1:4 2) r0:4)", "r0 + r1*2", "(ADD r0:4 r1:4)"},
    {"sub", "(SUB a:i32 b:i32)", "p97[0] - p98[0]", "(SUB a:u32 b:u32)"},
    {"neg", "(NEG a:i32)", "-p97[0]", "(NEG a:u32)"},
    {"mul-one", "(MUL a:i32 1)", "p97[0]", "(MUL a:i32 2)"},
    {"scale", "(MUL (ADD r0:4 3) 5)", "r0*5 + 15", "(MUL (ADD a:i32 b:i32) 5)"},
    {"mul-const-out", "(MUL (MUL a:i32 3) b:i32)", "p97[0]*p98[0]*3", "(MUL (MUL a:i32 b:i32) c:i32)"},
    {"div-one", "(IDIV a:i32 1)", "p97[0]", "(IDIV a:i32 2)"},
    {"div-minus-one", "(FLOORDIV a:i32 -1)", "-p97[0]", "(FLOORDIV a:u32 -1)"},
    {"floordiv", "(FLOORDIV (MUL r0:8 4) 8)", "r0//2", "(FLOORDIV (MUL a:i32 4) 8)"},
    {"mod-small", "(IMOD r0:4 (ADD r1:3 4))", "r0", "(IMOD r0:4 (ADD r1:3 3))"},
    {"floormod", "(FLOORMOD (ADD (MUL r0:8 4) r1:9) 4)", "r1%4", "(FLOORMOD a:i64 4)"},
    {"max-same", "(MIN a:f32 a:f32)", "p97[0]", "(MIN a:f32 b:f32)"},
    {"max-bounds", "(MAX (ADD r0:4 3) r1:4)", "r0 + 3", "(MAX (ADD r0:4 2) r1:4)"},
    {"max-max-const", "(MAX (MAX a:i32 5) 7)", "max(p97[0], 7)", "(MAX (MIN a:i32 9) 7)"},
    {"min-min-const", "(MIN (MIN a:f32 5.0) 7.0)", "min(p97[0], 5.0)", "(MIN (MAX a:f32 5.0) 7.0)"},
    {"and-ones", "(AND a:u8 255)", "p97[0]", "(AND a:u8 127)"},
    {"or-ones", "(OR a:i16 -1)", "-1", "(OR a:i16 1)"},
    {"or-zero", "(XOR a:i16 0)", "p97[0]", "(XOR a:i16 1)"},
    {"shift-zero", "(SHR a:i16 0)", "p97[0]", "(SHR a:i16 1)"},
    {"and-same", "(OR a:i16 a:i16)", "p97[0]", "(OR a:i16 b:i16)"},
    {"xor-same", "(XOR a:i16 a:i16)", "0", "(XOR a:i16 b:i16)"},
    {"xor-twice", "(XOR (XOR a:i16 5) 3)", "p97[0] ^ 6", "(XOR (OR a:i16 5) 3)"},
    {"xor-const-out", "(XOR b:i16 (XOR a:i16 5))", "p98[0] ^ p97[0] ^ 5", "(XOR b:i16 (XOR a:i16 c:i16))"},
    {"not-less", "(XOR (CMPLT a:i32 5) true)", "4 < p97[0]", "(XOR (CMPLT a:f32 5.0) true)"},
    {"not-equal", "(XOR (CMPEQ a:f32 b:f32) true)", "p97[0] != p98[0]", "(XOR (CMPEQ a:f32 b:f32) c:bool)"},
    {"not-differ", "(XOR (CMPNE a:f32 b:f32) true)", "p97[0] == p98[0]", "(XOR (CMPNE a:f32 b:f32) c:bool)"},
    {"and-absorb", "(AND (OR a:i32 b:i32) b:i32)", "p98[0]", "(AND (OR a:i32 b:i32) c:i32)"},
    {"or-absorb", "(OR a:i32 (AND a:i32 b:i32))", "p97[0]", "(OR c:i32 (AND a:i32 b:i32))"},
    {"and-gates", "(AND (CMPLT r0:9 5) (CMPLT r0:9 7))", "r0 < 5", "(AND (CMPLT r0:9 5) (CMPLT r1:9 7))"},
    {"or-gates", "(OR (CMPLT r0:9 5) (CMPLT r0:9 7))", "r0 < 7", "(OR (CMPLT r0:9 5) (CMPLT 7 r0:9))"},
    {"cast-differs", "(CMPNE (CAST.i32 a:bool) 0)", "p97[0]", "(CMPNE (CAST.i32 a:i8) 0)"},
    {"cast-differs-float", "(CMPNE (CAST.f32 a:bool) 0.0)", "p97[0]", "(CMPNE (CAST.f32 a:i8) 0.0)"},
    {"compare-selected", "(CMPLT (WHERE a:bool 1 5) 3)", "p97[0]", "(CMPLT (WHERE a:bool 1 b:i64) 3)"},
    {"less-itself", "(CMPLT a:f64 a:f64)", "false", "(CMPLT a:f64 b:f64)"},
    {"less", "(CMPLT (ADD r0:9 3) 5)", "r0 < 2", "(CMPLT r0:9 2)"},
    {"equal", "(CMPEQ (ADD r0:9 3) 5)", "r0 == 2", "(CMPEQ r0:9 2)"},
    {"where-known", "(WHERE (CMPLT r0:4 4) a:f32 b:f32)", "p97[0]", "(WHERE (CMPLT r0:4 3) a:f32 b:f32)"},
    {"where-same", "(WHERE c:bool a:f32 a:f32)", "p97[0]", "(WHERE c:bool a:f32 b:f32)"},
    {"where-not", "(WHERE (XOR c:bool true) a:f32 b:f32)", "p99[0] ? p98[0] : p97[0]", "(WHERE (XOR c:bool d:bool) a:f32 b:f32)"},
    {"where-bool", "(WHERE c:bool a:bool false)", "p99[0] & p97[0]", "(WHERE c:bool a:bool b:bool)"},
    {"where-in-true", "(WHERE c:bool (WHERE c:bool 1 2) 3)", "p99[0] ? 1 : 3", "(WHERE c:bool (WHERE d:bool 1 2) 3)"},
    {"where-in-false", "(WHERE c:bool 1 (WHERE c:bool 2 3))", "p99[0] ? 1 : 3", "(WHERE c:bool 1 (WHERE d:bool 2 3))"},
    {"where-merge", "(WHERE c:bool (WHERE d:bool a:f32 b:f32) b:f32)", "p99[0] & p100[0] ? p97[0] : p98[0]", "(WHERE c:bool (WHERE d:bool a:f32 b:f32) a:f32)"},
    {"cast-same", "(CAST.f32 a:f32)", "p97[0]", "(CAST.f64 a:f32)"},
    {"cast-cast", "(CAST.i16 (CAST.i32 a:i8))", "(i16)p97[0]", "(CAST.i16 (CAST.i8 a:i32))"},
    {"bitcast-bitcast", "(BITCAST.f32 (BITCAST.i32 a:u32))", "bitcast(p97[0])", "(BITCAST.f32 (CAST.i32 a:u32))"},
    {"fmul-one", "(MUL a:f32 1.0)", "p97[0]", "(MUL a:f32 0.0)"},
    {"fmul-minus-one", "(MUL a:f32 -1.0)", "-p97[0]", "(MUL a:f32 -2.0)"},
    {"fdiv-one", "(FDIV a:f32 1.0)", "p97[0]", "(FDIV a:f32 3.0)"},
    {"fdiv-pow2", "(FDIV a:f32 -8.0)", "p97[0]*(-0.125)", "(FDIV a:f32 6.0)"},
    {"fadd-minus-zero", "(ADD a:f32 -0.0)", "p97[0]", "(ADD a:f32 0.0)"},
    {"fsub-zero", "(SUB a:f32 0.0)", "p97[0]", "(SUB a:f32 -0.0)"},
    {"neg-neg", "(NEG (NEG a:f32))", "p97[0]", "(NEG (SQRT a:f32))"},
    {"fsub-neg", "(SUB a:f32 (NEG b:f32))", "p97[0] + p98[0]", "(SUB (NEG a:f32) b:f32)"},
    {"fadd-neg", "(ADD (NEG a:f32) b:f32)", "p98[0] - p97[0]", "(ADD a:f32 b:f32)"},
    {"broadcast-one", "(BROADCAST.1 a:f32)", "p97[0]", "(BROADCAST.2 a:f32)"},
    {"lane", "(LANE.1 (LANES a:f32 b:f32))", "p98[0]", "(LANE.1 (SQRT a:f32x2))"},
    {"load-known", "(LOAD p0:f32 r0:4 0.0 (CMPLT r0:4 4))", "p0[r0]", "(LOAD p0:f32 r0:4 0.0 (CMPLT r0:4 3))"},
    {"store-known", "(STORE p0:f32 r0:4 1.0 true)", "p0[r0] = 1.0", "(STORE p0:f32 r0:4 1.0 false)"},
    {"access-given", "(LOAD p0:f32 (FLOORMOD r0:9 4) 0.0 (CMPLT r0:9 3))", "r0 < 3 ? p0[r0] : 0.0", "(LOAD p0:f32 (FLOORMOD r0:9 4) 0.0 (CMPLT r0:9 5))"},
};
/* clang-format on */

/* The rule that applies to the root of `text`, and what it gives. */
static const char *
rule_for(struct uop_graph *g, const char *text, char *out, size_t size)
{
    const struct rw_rule *rule = NULL;
    const struct uop *u = sexp_build_root(g, text), *r;

    r = rw_apply(g, uop_symbolic_rules(), u, &rule);
    out[0] = '\0';
    if (r)
        uop_expr_str(r, out, size);
    return rule ? rule->name : "";
}

static void
test_rules(void **state)
{
    const struct rw_set *set = uop_symbolic_rules();
    struct uop_graph g;
    char out[300];
    size_t i, n_bad = 0;

    (void)state;
    assert_int_equal(rw_set_check(uop_symbolic_rules()), BELL_OK);
    assert_int_equal(set->n_rules, ARRAY_LEN(rule_cases));
    for (i = 0; i < ARRAY_LEN(rule_cases); i++) {
        const struct rule_case *c = &rule_cases[i];
        const char *got;
        assert_string_equal(c->name, set->rules[i].name);
        uop_graph_init(&g);
        got = rule_for(&g, c->in, out, sizeof(out));
        if (strcmp(got, c->name) != 0 || strcmp(out, c->out) != 0) {
            print_error("%s: %s gave '%s' by '%s'\n", c->name, c->in, out, got);
            n_bad++;
        }
        got = rule_for(&g, c->not_in, out, sizeof(out));
        if (strcmp(got, c->name) == 0) {
            print_error("%s applies to %s: '%s'\n", c->name, c->not_in, out);
            n_bad++;
        }
        uop_graph_fini(&g);
    }
    assert_int_equal(n_bad, 0);
}

/* ---- the engine ---- */

static const struct uop *
no_match(struct uop_graph *g, const struct rw_match *m)
{
    (void)g;
    (void)m;
    return NULL;
}

static const struct rw_rule demo_rules[] = {
    {.name = "never", .pat = "(SIN x)", .build = no_match},
    {.name = "exp-log", .pat = "(EXP2 (LOG2 x))", .to = "x"},
    {.name = "sin-neg", .pat = "(SIN (NEG x))", .to = "(NEG (SIN x))"},
    {.name = "distribute",
     .pat = "(ADD (MUL a b) (MUL a c))",
     .to = "(MUL a (ADD b c))"},
    {.name = "one-plus", .pat = "(ADD (LOG2 x) y:float)", .to = "(SIN y)"},
    {.name = "captured", .pat = "(SQRT s:(SQRT x))", .to = "s"},
};
RW_SET(demo_set, demo_rules);

static void
check_demo(const char *in, const char *name, const char *want)
{
    const struct rw_rule *rule = NULL;
    struct uop_graph g;
    const struct uop *r;
    char buf[200];

    uop_graph_init(&g);
    r = rw_apply(&g, &demo_set, sexp_build(&g, in, true), &rule);
    if (!want) {
        assert_null(r);
    } else {
        assert_non_null(r);
        assert_string_equal(rule->name, name);
        assert_string_equal(uop_expr_str(r, buf, sizeof(buf)), want);
    }
    uop_graph_fini(&g);
}

static void
test_matching(void **state)
{
    (void)state;
    assert_int_equal(rw_set_check(&demo_set), BELL_OK);
    check_demo("(SIN a:f32)", NULL, NULL);
    check_demo("(EXP2 (LOG2 a:f32))", "exp-log", "p97[0]");
    check_demo("(SIN (NEG a:f32))", "sin-neg", "-sin(p97[0])");
    /* all four orders of the factors */
    check_demo("(ADD (MUL a:f32 b:f32) (MUL a:f32 c:f32))", "distribute",
               "p97[0]*(p98[0] + p99[0])");
    check_demo("(ADD (MUL b:f32 a:f32) (MUL a:f32 c:f32))", "distribute",
               "p97[0]*(p98[0] + p99[0])");
    check_demo("(ADD (MUL a:f32 b:f32) (MUL c:f32 a:f32))", "distribute",
               "p97[0]*(p98[0] + p99[0])");
    check_demo("(ADD (MUL b:f32 a:f32) (MUL c:f32 a:f32))", "distribute",
               "p97[0]*(p98[0] + p99[0])");
    check_demo("(ADD (MUL a:f32 b:f32) (MUL c:f32 d:f32))", NULL, NULL);
    check_demo("(ADD a:f32 (LOG2 b:f32))", "one-plus", "sin(p97[0])");
    check_demo("(SQRT (SQRT a:f32))", "captured", "sqrt(p97[0])");
}

static void
test_bad_patterns(void **state)
{
    static const struct rw_rule rules[] = {
        {.name = "good", .pat = "(NEG (NEG x))", .to = "x"},
        {.name = "bad", .pat = NULL, .to = "x"},
    };
    static const char *const pats[][2] = {
        {"(NEG", "x"},
        {"(FOO x)", "x"},
        {"(NEG x) y", "x"},
        {"x", "x"},
        {"(NEG x:foo)", "x"},
        {"(NEG x)", "y"},
        {"(NEG x)", "(NEG x"},
        {"(NEG (ADD|SUB x y))", "x"},
        {"(NEG x)", NULL},
        {"(NEG )x)", "x"},
        {"", "x"},
        {"(NEG $)", "x"},
        {"(WHERE a b c d e)", "a"},
        {"(NEG averyveryverylongcapturename)", "x"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(pats); i++) {
        static struct rw_set set;
        struct rw_rule copy[2];
        struct uop_graph g;
        copy[0] = rules[0];
        copy[1] = rules[1];
        copy[1].pat = pats[i][0];
        copy[1].to = pats[i][1];
        memset(&set, 0, sizeof(set));
        pthread_mutex_init(&set.lock, NULL);
        set.rules = copy;
        set.n_rules = 2;
        if (rw_set_check(&set) != BELL_E_INTERNAL)
            fail_msg("pattern '%s' -> '%s' was accepted", pats[i][0],
                     pats[i][1] ? pats[i][1] : "nothing");
        assert_non_null(strstr(bell_error_last()->message, "rule bad"));
        /* the good one still works */
        uop_graph_init(&g);
        assert_non_null(rw_apply(
            &g, &set, sexp_build(&g, "(NEG (NEG a:f32))", true), NULL));
        uop_graph_fini(&g);
    }
}

/* Rules that cannot make their nodes. */
static void
test_no_memory(void **state)
{
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t nth;

    (void)state;
    for (nth = 1; status != BELL_OK; nth++) {
        struct uop_graph g;
        uop_graph_init(&g);
        host_fail_after(nth, 1);
        sexp_build(&g,
                   "(ADD (SIN (NEG (FLOORDIV (ADD (MUL r0:8 4) r1:4) 4))) "
                   "(EXP2 (LOG2 r0:8)))",
                   false);
        host_fail_after(0, 0);
        status = uop_graph_status(&g);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
        uop_graph_fini(&g);
    }
    assert_true(nth > 5);
}

/* Sums and gates much longer than the rules look at. */
static void
test_long_sums(void **state)
{
    const struct uop *sum, *sum_down, *scaled;
    uint64_t start, took;
    struct uop_graph g;
    int32_t i, n = 1000;

    (void)state;
    uop_graph_init(&g);
    start = time_now_ns();
    sum = sum_down = uop_const_int(&g, UOP_I64, 1);
    for (i = 0; i < n; i++) {
        const struct uop *r =
            uop_range(&g, (uint32_t)i, UOP_AXIS_LOOP, 4 + i % 7);
        sum = uop_alu2(&g, UOP_ADD, sum, r);
        sum_down = uop_alu2(
            &g, UOP_ADD, sum_down,
            uop_range(&g, (uint32_t)(n - i), UOP_AXIS_LOOP, 4 + i % 7));
    }
    scaled = uop_alu2(&g, UOP_MUL, sum, uop_const_int(&g, UOP_I64, 12));
    scaled = uop_alu2(&g, UOP_FLOORDIV, scaled, uop_const_int(&g, UOP_I64, 4));
    assert_non_null(scaled);
    took = time_now_ns() - start;
    assert_int_equal(uop_graph_status(&g), BELL_OK);
    assert_true(took < 1000000000); /* linear: about 2 ms */
    uop_graph_fini(&g);
}

static void
keep_line(void *user, const char *line)
{
    char *kept = user;

    if (kept[0] == '\0')
        snprintf(kept, 200, "%s", line);
}

/* BELL_DEBUG=rw: the rule, before and after. */
static void
test_log(void **state)
{
    struct uop_graph g;
    char line[200] = "";

    (void)state;
    uop_graph_init(&g);
    bell_log_set(keep_line, line);
    log_mask = LOG_RW;
    sexp_build(&g, "(MUL (ADD r0:4 3) 5)", false);
    log_mask = 0;
    bell_log_set(NULL, NULL);
    assert_non_null(strstr(line, "rw: scale: (r0 + 3)*5 -> r0*5 + 15"));
    uop_graph_fini(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_bad_patterns),

        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_log),
    };

    return cmocka_run_group_tests_name("rewrite", tests, NULL, NULL);
}
