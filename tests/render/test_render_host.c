/* Host code alone: what is refused, objects, text, threads, and LLVM's fatal
 * errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "host_run.h"
#include "render/llvm/llvm_api.h"
#include "render/render_internal.h"

static struct lower_target target;

static int
setup(void **state)
{
    (void)state;
    return render_host_target(&target) == BELL_OK ? 0 : -1;
}

/* ---- what is refused ---- */

static void
expect_refusal(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
               bell_status want, const char *words)
{
    struct render_binary binary;
    struct lower_program p;

    program_of(g, roots, n, &p);
    assert_int_equal(render_host(&p, &target, &binary), want);
    if (!strstr(bell_error_last()->message, words))
        fail_msg("\"%s\" does not say \"%s\"", bell_error_last()->message,
                 words);
    program_free(&p);
}

static void
test_refused_ops(void **state)
{
    struct uop_graph g;
    const struct uop *root, *v, *out;

    (void)state;
    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_F32);
    v = mk_load(&g, mk_param(&g, 1, UOP_F32), mk_int(&g, 0), 1, NULL, NULL);
    root = mk_store(&g, out, mk_int(&g, 0), uop_alu1(&g, UOP_SIN, v), NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "SIN");
    root = mk(&g, UOP_BARRIER, UOP_VOID, 1, 0, 0, NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "BARRIER");
    v = mk_load(&g, mk_param(&g, 1, UOP_F16), mk_int(&g, 0), 1, NULL, NULL);
    v = uop_alu2(&g, UOP_MUL, v, v);
    root = mk_store(&g, mk_param(&g, 0, UOP_F16), mk_int(&g, 0), v, NULL);
    expect_refusal(&g, &root, 1, BELL_E_UNSUPPORTED, "widened");
    uop_graph_fini(&g);
}

static void
test_refused_shapes(void **state)
{
    struct uop_graph g;
    const struct uop *root, *v, *src[2], *range, *out;
    struct lower_program p;
    struct render_binary binary;

    (void)state;
    uop_graph_init(&g);
    out = mk_param(&g, 0, UOP_I64);
    /* a value from inside a loop, used after it */
    range = uop_range(&g, 0, UOP_AXIS_LOOP, 4);
    v = mk_load(&g, mk_param(&g, 1, UOP_I64), range, 1, NULL, NULL);
    root = mk_end(&g, range, mk_store(&g, out, range, v, NULL));
    src[0] = root;
    src[1] = mk_store(&g, out, mk_int(&g, 9), v, NULL);
    expect_refusal(&g, src, 2, BELL_E_INTERNAL, "no value");
    expect_refusal(&g, &range, 1, BELL_E_INTERNAL, "not closed");
    program_of(&g, &root, 1, &p);
    p.local[0] = 2;
    assert_int_equal(render_host(&p, &target, &binary), BELL_E_UNSUPPORTED);
    program_free(&p);
    uop_graph_fini(&g);
}

/* ---- objects ---- */

static void
make_simple(struct uop_graph *g, struct lower_program *p)
{
    const struct uop *v, *root;

    uop_graph_init(g);
    v = mk_load(g, mk_param(g, 1, UOP_F32), mk_int(g, 0), 16, NULL, NULL);
    v = uop_alu2(g, UOP_MUL, v,
                 mk_splat(g, uop_const_float(g, UOP_F32, 1.7), 16));
    root = mk_store(g, mk_param(g, 0, UOP_F32), mk_int(g, 0), v, NULL);
    program_of(g, &root, 1, p);
}

/* Zeroes every pair of bytes, which makes the function's own symbol undefined
 * at one place and breaks headers at others, and cuts the object everywhere:
 * the check survives, and names the symbol. */
static void
test_object_check(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary, part;
    size_t i, n_named = 0, n_refused = 0;

    (void)state;
    make_simple(&g, &p);
    assert_int_equal(render_host(&p, &target, &binary), BELL_OK);
    assert_int_equal(render_check_object(&binary), BELL_OK);
    for (i = 0; i + 2 <= binary.size_bytes; i++) {
        uint8_t *at = (uint8_t *)binary.data + i, old[2] = {at[0], at[1]};
        at[0] = at[1] = 0;
        if (render_check_object(&binary) != BELL_OK) {
            n_refused++;
            n_named +=
                strstr(bell_error_last()->message, "needs kernel") != NULL;
        }
        at[0] = old[0];
        at[1] = old[1];
    }
    assert_true(n_named > 0 && n_refused > n_named);
    for (i = 0; i < binary.size_bytes; i += 3) {
        part.size_bytes = i;
        part.data = host_alloc(i + 1);
        memcpy(part.data, binary.data, i);
        assert_true(render_check_object(&part) != BELL_OK);
        render_binary_fini(&part);
    }
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_text(void **state)
{
    struct uop_graph g;
    struct lower_program p;
    char *text;

    (void)state;
    make_simple(&g, &p);
    assert_int_equal(render_host_text(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "define void @kernel("));
    assert_non_null(strstr(text, "fmul <16 x float>"));
    assert_non_null(strstr(text, "!noalias"));
    host_free(text);
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_target(void **state)
{
    struct lower_target again;

    (void)state;
    assert_int_equal(render_host_target(&again), BELL_OK);
    assert_string_equal(again.name, target.name);
    assert_true(strlen(target.name) > 8);
    assert_true(target.vector_bytes >= 16 && target.vector_bytes <= 64);
    assert_true(target.n_vector_regs == 16 || target.n_vector_regs == 32);
    assert_true(target.n_threads >= 1);
    assert_true(target.l1_bytes >= 8192 && target.l2_bytes >= target.l1_bytes);
    assert_true(!target.l3_bytes || target.l3_bytes >= target.l2_bytes);
    assert_int_equal(target.arg_align_bytes, 0); /* the caller's to say */
}

/* ---- robustness ---- */

/* An error that LLVM thinks fatal does not end the process, and rendering goes
 * on. */
#if defined(__x86_64__)
static void
make_bad_machine(void *arg)
{
    const struct llvm_api *ll = arg;
    char *triple = ll->GetDefaultTargetTriple(), *message = NULL;
    LLVMTargetRef t;

    if (ll->GetTargetFromTriple(triple, &t, &message) == 0)
        ll->CreateTargetMachine(t, triple, "", "", LLVMCodeGenLevelDefault,
                                LLVMRelocPIC, LLVMCodeModelTiny);
}

static void
test_fatal_error(void **state)
{
    const struct llvm_api *ll;
    struct llvm_api copy;
    struct uop_graph g;
    struct lower_program p;
    struct render_binary binary;
    bell_status status;

    (void)state;
    assert_int_equal(llvm_api_get(&ll), BELL_OK);
    copy = *ll;
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what LLVM held is lost, as told */
#endif
    status = llvm_guard(make_bad_machine, &copy);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_enable();
#endif
    assert_int_equal(status, BELL_E_COMPILE);
    assert_non_null(strstr(bell_error_last()->message, "tiny"));
    make_simple(&g, &p);
    assert_int_equal(render_host(&p, &target, &binary), BELL_OK);
    render_binary_fini(&binary);
    program_free(&p);
    uop_graph_fini(&g);
}
#endif

static void *
render_many(void *arg)
{
    struct uop_graph g;
    struct lower_program p;
    int i;

    make_simple(&g, &p);
    for (i = 0; i < 20; i++) {
        struct render_binary binary;
        if (render_host(&p, &target, &binary) != BELL_OK)
            return arg;
        render_binary_fini(&binary);
    }
    program_free(&p);
    uop_graph_fini(&g);
    return NULL;
}

static void
test_threads(void **state)
{
    pthread_t threads[4];
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, render_many, threads), 0);
    for (i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_ops),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_object_check),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_target),
#if defined(__x86_64__)
        cmocka_unit_test(test_fatal_error),
#endif
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
