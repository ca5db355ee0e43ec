/* AMD machine code alone: matrix instructions, targets, and what LLVM cannot
 * do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "amdgpu_check.h"
#include "base/alloc.h"
#include "base/bits.h"

/* ---- matrix instructions ---- */

/* Element i of what this thread has of an operand, in the buffer of a slot. */
static const struct uop *
get_part(struct uop_graph *g, const struct uop *thread, uint32_t slot,
         enum uop_dtype dtype, uint32_t lanes)
{
    const struct uop *at = uop_alu2(g, UOP_MUL, thread, mk_int(g, lanes));

    return mk_load(g, mk_param(g, slot, dtype), at, lanes, NULL, NULL);
}

/* Values for operand i, thread after thread: floats, or all bits of integers.
 * The halves of a gfx11 warp have the same of A and B. */
static void
fill_part(struct p_buf *buf, struct uop_wmma w, bool copies, uint64_t *rng)
{
    size_t half = buf->n_elems / 2, j;

    for (j = 0; j < buf->n_elems; j++) {
        double v = (double)(next_random(rng) >> 52) * 0x1p-11 - 1;
        union uop_arg a = {.f = uop_round_float(buf->dtype, v)};
        if (!uop_dtype_infos[buf->dtype].is_float)
            a.i = (int32_t)(next_random(rng) >> 32);
        if (w.layout == UOP_WMMA_RDNA3 && copies && j >= half)
            p_get(buf, j - half, &a);
        p_set(buf, j, a);
    }
}

static void
expect_close(const struct p_buf *got, const struct p_buf *want,
             const char *what)
{
    union uop_arg a, b;
    size_t i;

    for (i = 0; i < want->n_elems; i++) {
        p_get(want, i, &a);
        p_get(got, i, &b);
        if (!uop_dtype_infos[want->dtype].is_float && a.i != b.i)
            fail_msg("%s: element %zu is %lld, not %lld", what, i,
                     (long long)b.i, (long long)a.i);
        if (uop_dtype_infos[want->dtype].is_float && !(fabs(a.f - b.f) <= 1e-5))
            fail_msg("%s: element %zu is %g, not %g", what, i, b.f, a.f);
    }
}

/* One instruction, whose operands lie in memory thread after thread. */
static void
check_matrix(unsigned chip, struct uop_wmma w, enum uop_dtype dtype,
             enum uop_dtype other, uint64_t *rng)
{
    enum uop_dtype sum = uop_wmma_sum(dtype);
    const enum uop_dtype dtypes[4] = {sum, dtype, other, sum};
    const uint32_t n = uop_wmma_threads(w),
                   lanes[4] = {uop_wmma_lanes(w, UOP_WMMA_C),
                               uop_wmma_lanes(w, UOP_WMMA_A),
                               uop_wmma_lanes(w, UOP_WMMA_B),
                               uop_wmma_lanes(w, UOP_WMMA_C)};
    const struct uop *extent, *thread, *src[3], *d, *root;
    struct p_buf bufs[4], got[4];
    struct lower_program p;
    struct uop_graph g;
    char err[256];
    uint32_t i;

    uop_graph_init(&g);
    extent = mk_int(&g, n);
    thread = mk(&g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &extent);
    for (i = 0; i < 4; i++) {
        check_buf(&bufs[i], dtypes[i], n * lanes[i], NULL);
        fill_part(&bufs[i], w, i == 1 || i == 2, rng);
        check_bufs_copy(&got[i], &bufs[i], 1);
        if (i)
            src[i - 1] = get_part(&g, thread, i, dtypes[i], lanes[i]);
    }
    d = mk(&g, UOP_WMMA, sum, lanes[0], uop_wmma_arg(w), 3, src);
    root = uop_alu2(&g, UOP_MUL, thread, mk_int(&g, lanes[0]));
    root = mk_store(&g, mk_param(&g, 0, sum), root, d, NULL);
    gpu_program_of(&g, &root, 1, &p);
    p.local[0] = n;
    if (p_run(&p, bufs, 4, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    amdgpu_check_run(&p, chip, got, 4, NULL, "a matrix instruction");
    expect_close(&got[0], &bufs[0], uop_dtype_infos[dtype].name);
    check_bufs_free(bufs, 4);
    check_bufs_free(got, 4);
    program_free(&p);
    uop_graph_fini(&g);
}

/* Each layout's elements lie where uops/wmma.h says. */
static void
test_matrix_instructions(void **state)
{
    static const struct uop_wmma mfma16 = {UOP_WMMA_CDNA, 16, 16, 16},
                                 mfma4 = {UOP_WMMA_CDNA, 16, 16, 4},
                                 mfma32 = {UOP_WMMA_CDNA, 16, 16, 32},
                                 wmma16 = {UOP_WMMA_RDNA3, 16, 16, 16},
                                 wmma12 = {UOP_WMMA_RDNA4, 16, 16, 16};
    uint64_t rng = 21;

    (void)state;
    check_matrix(0, mfma16, UOP_F16, UOP_F16, &rng);
    check_matrix(0, mfma16, UOP_BF16, UOP_BF16, &rng);
    check_matrix(0, mfma4, UOP_F32, UOP_F32, &rng);
    check_matrix(0, mfma4, UOP_F64, UOP_F64, &rng);
    check_matrix(1, wmma16, UOP_F16, UOP_F16, &rng);
    check_matrix(1, wmma16, UOP_BF16, UOP_BF16, &rng);
    check_matrix(0, mfma32, UOP_I8, UOP_I8, &rng);
    check_matrix(0, mfma32, UOP_F8E4M3Z, UOP_F8E4M3Z, &rng);
    check_matrix(0, mfma32, UOP_F8E5M2Z, UOP_F8E5M2Z, &rng);
    check_matrix(0, mfma32, UOP_F8E4M3Z, UOP_F8E5M2Z, &rng);
    check_matrix(0, mfma32, UOP_F8E5M2Z, UOP_F8E4M3Z, &rng);
    check_matrix(1, wmma16, UOP_I8, UOP_I8, &rng);
    check_matrix(1, wmma16, UOP_U8, UOP_U8, &rng);
    check_matrix(1, wmma16, UOP_I8, UOP_U8, &rng);
    check_matrix(1, wmma16, UOP_U8, UOP_I8, &rng);
    check_matrix(2, mfma16, UOP_I8, UOP_I8, &rng);
    check_matrix(2, mfma16, UOP_BF16, UOP_BF16, &rng);
    check_matrix(2, mfma4, UOP_F32, UOP_F32, &rng);
    check_matrix(2, mfma4, UOP_F64, UOP_F64, &rng);
    check_matrix(4, wmma12, UOP_F16, UOP_F16, &rng);
    check_matrix(4, wmma12, UOP_BF16, UOP_BF16, &rng);
    check_matrix(4, wmma12, UOP_I8, UOP_I8, &rng);
    check_matrix(4, wmma12, UOP_I8, UOP_U8, &rng);
    check_matrix(4, wmma12, UOP_F8E4M3, UOP_F8E4M3, &rng);
    check_matrix(4, wmma12, UOP_F8E5M2, UOP_F8E4M3, &rng);
}

/* ---- errors ---- */

static void
make_sum(struct uop_graph *g, struct lower_program *out)
{
    const struct uop *range, *at, *v, *root;

    range = uop_range(g, 0, UOP_AXIS_LOOP, 6);
    at = uop_alu2(g, UOP_MUL, range, mk_int(g, 4));
    v = mk_load(g, mk_param(g, 1, UOP_F32), at, 4, NULL, NULL);
    v = mk(g, UOP_LANES_REDUCE, UOP_F32, 1, UOP_ADD, 1, &v);
    root = mk_store(g, mk_param(g, 0, UOP_F32), at, v, NULL);
    root = mk_end(g, range, root);
    gpu_program_of(g, &root, 1, out);
}

/* No target but the known ones. */
static void
test_targets(void **state)
{
    struct amdgpu_target target = amdgpu_check_target(1);
    struct render_binary a;
    struct lower_target lower;
    struct lower_program p;
    struct uop_graph g;
    char *text;

    (void)state;
    uop_graph_init(&g);
    make_sum(&g, &p);
    assert_int_equal(render_amdgpu_text(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "define amdgpu_kernel void @kernel"));
    host_free(text);
    assert_int_equal(render_amdgpu_asm(&p, &target, &text), BELL_OK);
    assert_non_null(strstr(text, "s_endpgm"));
    host_free(text);
    snprintf(target.gfx, sizeof(target.gfx), "gfx803");
    assert_int_equal(render_amdgpu(&p, &target, &a), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "known: gfx906"));
    assert_int_equal(render_amdgpu_lower_target(&target, &lower),
                     BELL_E_UNSUPPORTED);
    program_free(&p);
    uop_graph_fini(&g);
}

/* A program that LLVM cannot compile is an error with its words, not the end of
 * the process; the next kernel compiles. */
static void
test_bad_ir(void **state)
{
    static const struct {
        const char *ir, *words;
    } rows[] = {
        {"define amdgpu_kernel void @k( {", "expected type"},
        {"declare float @llvm.amdgcn.cvt.f32.fp8(i32, i32)\n"
         "define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %x) {\n"
         "  %f = call float @llvm.amdgcn.cvt.f32.fp8(i32 %x, i32 0)\n"
         "  store float %f, ptr addrspace(1) %p\n  ret void\n}\n",
         "select"},
        {"declare double @llvm.exp2.f64(double)\n"
         "define amdgpu_kernel void @k(ptr addrspace(1) %p, double %x) {\n"
         "  %f = call double @llvm.exp2.f64(double %x)\n"
         "  store double %f, ptr addrspace(1) %p\n  ret void\n}\n",
         "exp2"},
        {"declare void @outside()\n"
         "define amdgpu_kernel void @k() {\n"
         "  call void @outside()\n  ret void\n}\n",
         "outside"},
    };
    struct amdgpu_target target = amdgpu_check_target(1);
    struct render_binary binary;
    bell_status status;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
#if defined(__SANITIZE_ADDRESS__)
        __lsan_disable(); /* what LLVM held when it gave up is lost */
#endif
        status = render_amdgpu_ir(rows[i].ir, "k", &target, &binary);
#if defined(__SANITIZE_ADDRESS__)
        __lsan_enable();
#endif
        assert_int_equal(status, BELL_E_COMPILE);
        if (!strstr(bell_error_last()->message, rows[i].words))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
    assert_int_equal(
        render_amdgpu_ir("define amdgpu_kernel void @k() { ret void }", "k",
                         &target, &binary),
        BELL_OK);
    render_binary_fini(&binary);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_instructions),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_bad_ir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
