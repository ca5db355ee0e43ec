/* OpenCL C alone: what the text says of memory, conversions and halves, and
 * what is refused. Needs no OpenCL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "host_run.h"
#include "render/cl/cl.h"

static const struct cl_target all = {.has_f64 = true, .has_fma = true};

/* The text of one store of `value` to PARAM 0 at `at`. */
static char *
text_of(struct uop_graph *g, const struct uop *at, const struct uop *value,
        const struct uop *gate)
{
    const struct uop *root =
        mk_store(g, mk_param(g, 0, value->dtype), at, value, gate);
    struct lower_program p;
    char *text = NULL;

    gpu_program_of(g, &root, 1, &p);
    p.name = "tested";
    if (render_cl(&p, &all, &text) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    program_free(&p);
    return text;
}

static void
expect(char *text, const char *has, const char *lacks)
{
    if (!strstr(text, has) || (lacks && strstr(text, lacks)))
        fail_msg("has: %s\nlacks: %s\n%s", has, lacks ? lacks : "", text);
    host_free(text);
}

static void
test_head(void **state)
{
    struct uop_graph g;

    (void)state;
    uop_graph_init(&g);
    expect(text_of(&g, mk_int(&g, 0), uop_const_int(&g, UOP_I32, 7), NULL),
           "kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
           "void tested(global uchar *b0, ulong o0)\n{\n"
           "    global int *p0_i32 = (global int *)(b0 + o0);\n\n"
           "    *(p0_i32) = 7;\n}\n",
           "half");
    expect(text_of(&g, mk_int(&g, 0), uop_const_int(&g, UOP_I32, 7), NULL),
           "#pragma OPENCL FP_CONTRACT OFF\n", NULL);
    uop_graph_fini(&g);
}

/* Consecutive lanes are vectors, whatever they are aligned to. */
static void
test_memory(void **state)
{
    struct uop_graph g;
    const struct uop *in, *gate, *other;

    (void)state;
    uop_graph_init(&g);
    in = mk_param(&g, 1, UOP_F32);
    expect(text_of(&g, mk_int(&g, 0),
                   mk_load(&g, in, mk_int(&g, 1), 4, NULL, NULL), NULL),
           "float4 v = vload4(0, p1_f32 + 1L);\n", "vload2");
    expect(text_of(&g, mk_int(&g, 3),
                   mk_load(&g, in, mk_int(&g, 0), 6, NULL, NULL), NULL),
           "vstore2((float2)(r4, r5), 0, p0_f32 + 7L);\n", NULL);
    /* An element behind a closed gate is not read. */
    gate = mk_load(&g, mk_param(&g, 2, UOP_BOOL), mk_int(&g, 0), 1, NULL, NULL);
    other = uop_const_float(&g, UOP_F32, 1);
    expect(text_of(&g, mk_int(&g, 0),
                   mk_load(&g, in, mk_int(&g, 5), 1, other, gate), NULL),
           " = r0 ? *(p1_f32 + 5L) : as_float(0x3F800000u);\n", NULL);
    expect(text_of(&g, mk_int(&g, 0),
                   mk_load(&g, in, mk_int(&g, 0), 1, NULL, NULL), gate),
           "if (r0) *(p0_f32) = r1;\n", NULL);
    uop_graph_fini(&g);
}

/* Signed overflow wraps, and is written so that compilers know it. */
static void
test_arithmetic(void **state)
{
    struct uop_graph g;
    const struct uop *a, *pair[3];

    (void)state;
    uop_graph_init(&g);
    a = mk_load(&g, mk_param(&g, 1, UOP_I32), mk_int(&g, 0), 1, NULL, NULL);
    pair[0] = pair[1] = pair[2] = a;
    expect(text_of(&g, mk_int(&g, 0), mk(&g, UOP_ADD, UOP_I32, 1, 0, 2, pair),
                   NULL),
           "r1 = (int)((uint)r0 + (uint)r0);\n", NULL);
    expect(text_of(&g, mk_int(&g, 0), mk(&g, UOP_IMOD, UOP_I32, 1, 0, 2, pair),
                   NULL),
           "r1 = r0 % r0;\n", NULL);
    a = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
    pair[0] = pair[1] = pair[2] = a;
    expect(text_of(&g, mk_int(&g, 0),
                   mk(&g, UOP_MULACC, UOP_F32, 1, 0, 3, pair), NULL),
           "r1 = fma(r0, r0, r0);\n", NULL);
    expect(
        text_of(&g, mk_int(&g, 0), uop_const_int(&g, UOP_I64, INT64_MIN), NULL),
        "((long)0x8000000000000000UL)", NULL);
    uop_graph_fini(&g);
}

/* By functions that every device has. */
static void
test_halves(void **state)
{
    struct uop_graph g;
    const struct uop *a;

    (void)state;
    uop_graph_init(&g);
    a = mk_load(&g, mk_param(&g, 1, UOP_F16), mk_int(&g, 0), 1, NULL, NULL);
    expect(text_of(&g, mk_int(&g, 0), mk(&g, UOP_CAST, UOP_F32, 1, 0, 1, &a),
                   NULL),
           "vload_half(0, (const half *)&h)", "cl_khr_fp16");
    a = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
    expect(text_of(&g, mk_int(&g, 0), mk(&g, UOP_CAST, UOP_F16, 1, 0, 1, &a),
                   NULL),
           "vstore_half_rte(x, 0, (half *)&h)", "vload_half");
    uop_graph_fini(&g);
}

static void
test_refused(void **state)
{
    static const struct cl_target less = {.has_f64 = false};
    struct lower_program p;
    struct uop_graph g;
    const struct uop *root, *a;
    char *text;

    (void)state;
    uop_graph_init(&g);
    root = mk_store(&g, mk_param(&g, 0, UOP_F64), mk_int(&g, 0),
                    uop_const_float(&g, UOP_F64, 1), NULL);
    gpu_program_of(&g, &root, 1, &p);
    assert_int_equal(render_cl(&p, &less, &text), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "cl_khr_fp64"));
    program_free(&p);
    a = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0),
                    mk(&g, UOP_EXP2, UOP_F32, 1, 0, 1, &a), NULL);
    gpu_program_of(&g, &root, 1, &p);
    assert_int_equal(render_cl(&p, &all, &text), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "decomposed"));
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_targets(void **state)
{
    static const char *const bad[] = {"",          "cl1",   "cl12+fp64+fma",
                                      "cl12+fp16", "cl12+", "sm_90"};
    struct lower_target lower;
    struct cl_target target;
    size_t i;

    (void)state;
    assert_true(render_cl_target("cl12", &target));
    assert_false(target.has_fma || target.has_f64);
    assert_true(render_cl_target("cl12+fma+fp64", &target));
    assert_true(target.has_fma && target.has_f64);
    assert_true(render_cl_target("cl12+fp64", &target));
    assert_false(target.has_fma);
    render_cl_lower_target(&target, &lower);
    assert_false(lower.has_fma);
    for (i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(render_cl_target(bad[i], &target));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_halves),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_targets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
