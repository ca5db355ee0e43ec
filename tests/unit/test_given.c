/* Kernels of the caller's own: the same numbers on every device, in graphs,
 * jits and bundles; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/custom.h"
#include "doorbell/jit.h"
#include "doorbell/stats.h"
#include "hcq/hcq_bundle.h"

#define N      1000
#define FACTOR 3

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "NV@sim:sm_80",
                                      "AMD@sim:gfx942", "AMD@sim:gfx1100"};

/* ---- a kernel: sum = FACTOR x + y, is_more = x > y ---- */

static const char c_text[] =
    "#include <stdbool.h>\n#include <stdint.h>\n"
    "void mix(const uint64_t *args, const uint32_t grid[3], uint64_t first,\n"
    "         uint64_t last)\n"
    "{\n"
    "    float *sum = (float *)args[0];\n"
    "    bool *is_more = (bool *)args[1];\n"
    "    const float *x = (const float *)args[2];\n"
    "    const float *y = (const float *)args[3];\n"
    "    uint64_t n = args[4];\n"
    "    for (uint64_t i = first * 256; i < last * 256 && i < n; i++) {\n"
    "        sum[i] = (float)(int64_t)args[5] * x[i] + y[i];\n"
    "        is_more[i] = x[i] > y[i];\n"
    "    }\n"
    "}\n";

static const char ptx_text[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .entry mix(.param .u64 p0, .param .u64 p1, .param .u64 p2,\n"
    "                    .param .u64 p3, .param .u64 p4, .param .u64 p5)\n"
    "{\n"
    "    .reg .pred %p<3>;\n    .reg .b16 %h<2>;\n    .reg .b32 %r<5>;\n"
    "    .reg .f32 %f<5>;\n    .reg .b64 %d<16>;\n"
    "    .shared .align 4 .b8 tile[1024];\n"
    "    mov.u32 %r0, %ctaid.x;\n    mov.u32 %r1, %tid.x;\n"
    "    mad.lo.s32 %r2, %r0, 256, %r1;\n"
    "    cvt.u64.u32 %d0, %r2;\n"
    "    ld.param.u64 %d1, [p4];\n"
    "    setp.ge.u64 %p0, %d0, %d1;\n"
    "    @%p0 bra done;\n"
    "    ld.param.u64 %d2, [p0];\n    ld.param.u64 %d3, [p1];\n"
    "    ld.param.u64 %d4, [p2];\n    ld.param.u64 %d5, [p3];\n"
    "    ld.param.u64 %d6, [p5];\n"
    "    shl.b64 %d7, %d0, 2;\n"
    "    add.s64 %d8, %d2, %d7;\n    add.s64 %d9, %d4, %d7;\n"
    "    add.s64 %d10, %d5, %d7;\n    add.s64 %d11, %d3, %d0;\n"
    "    ld.global.f32 %f0, [%d9];\n"
    "    mov.u32 %r3, tile;\n    shl.b32 %r4, %r1, 2;\n"
    "    add.s32 %r3, %r3, %r4;\n"
    "    st.shared.f32 [%r3], %f0;\n    ld.shared.f32 %f1, [%r3];\n"
    "    ld.global.f32 %f2, [%d10];\n"
    "    cvt.rn.f32.s64 %f3, %d6;\n"
    "    mul.rn.f32 %f4, %f3, %f1;\n    add.rn.f32 %f4, %f4, %f2;\n"
    "    st.global.f32 [%d8], %f4;\n"
    "    setp.gt.f32 %p1, %f1, %f2;\n    selp.b16 %h0, 1, 0, %p1;\n"
    "    st.global.b8 [%d11], %h0;\n"
    "done:\n    ret;\n}\n";

static const char amd_text[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "define amdgpu_kernel void @mix(ptr addrspace(1) %sum,\n"
    "    ptr addrspace(1) %more, ptr addrspace(1) %x, ptr addrspace(1) %y,\n"
    "    i64 %n, i64 %factor) #0 {\n"
    "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %b = shl i32 %g, 8\n"
    "  %i32 = add i32 %b, %t\n"
    "  %i = zext i32 %i32 to i64\n"
    "  %in = icmp ult i64 %i, %n\n"
    "  br i1 %in, label %body, label %done\n"
    "body:\n"
    "  %xa = getelementptr float, ptr addrspace(1) %x, i64 %i\n"
    "  %ya = getelementptr float, ptr addrspace(1) %y, i64 %i\n"
    "  %sa = getelementptr float, ptr addrspace(1) %sum, i64 %i\n"
    "  %ma = getelementptr i8, ptr addrspace(1) %more, i64 %i\n"
    "  %xv = load float, ptr addrspace(1) %xa\n"
    "  %yv = load float, ptr addrspace(1) %ya\n"
    "  %f = sitofp i64 %factor to float\n"
    "  %p = fmul float %f, %xv\n"
    "  %s = fadd float %p, %yv\n"
    "  store float %s, ptr addrspace(1) %sa\n"
    "  %c = fcmp ogt float %xv, %yv\n"
    "  %cb = zext i1 %c to i8\n"
    "  store i8 %cb, ptr addrspace(1) %ma\n"
    "  br label %done\n"
    "done:\n"
    "  ret void\n}\n"
    "attributes #0 = { nounwind "
    "\"amdgpu-flat-work-group-size\"=\"1,1024\" "
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "
    "\"amdgpu-no-implicitarg-ptr\" }\n";

static const char host_text[] =
    "define void @mix(ptr %args, ptr %grid, i64 %first, i64 %last) {\n"
    "entry:\n"
    "  %sum = load ptr, ptr %args\n"
    "  %a1 = getelementptr i64, ptr %args, i64 1\n"
    "  %more = load ptr, ptr %a1\n"
    "  %a2 = getelementptr i64, ptr %args, i64 2\n"
    "  %x = load ptr, ptr %a2\n"
    "  %a3 = getelementptr i64, ptr %args, i64 3\n"
    "  %y = load ptr, ptr %a3\n"
    "  %a4 = getelementptr i64, ptr %args, i64 4\n"
    "  %n = load i64, ptr %a4\n"
    "  %a5 = getelementptr i64, ptr %args, i64 5\n"
    "  %factor = load i64, ptr %a5\n"
    "  %begin = shl i64 %first, 8\n"
    "  %stop = shl i64 %last, 8\n"
    "  %less = icmp ult i64 %stop, %n\n"
    "  %end = select i1 %less, i64 %stop, i64 %n\n"
    "  br label %head\n"
    "head:\n"
    "  %i = phi i64 [ %begin, %entry ], [ %next, %body ]\n"
    "  %in = icmp ult i64 %i, %end\n"
    "  br i1 %in, label %body, label %done\n"
    "body:\n"
    "  %xa = getelementptr float, ptr %x, i64 %i\n"
    "  %ya = getelementptr float, ptr %y, i64 %i\n"
    "  %sa = getelementptr float, ptr %sum, i64 %i\n"
    "  %ma = getelementptr i8, ptr %more, i64 %i\n"
    "  %xv = load float, ptr %xa\n"
    "  %yv = load float, ptr %ya\n"
    "  %f = sitofp i64 %factor to float\n"
    "  %p = fmul float %f, %xv\n"
    "  %s = fadd float %p, %yv\n"
    "  store float %s, ptr %sa\n"
    "  %c = fcmp ogt float %xv, %yv\n"
    "  %cb = zext i1 %c to i8\n"
    "  store i8 %cb, ptr %ma\n"
    "  %next = add i64 %i, 1\n"
    "  br label %head\n"
    "done:\n"
    "  ret void\n}\n";

#define GRID                                                                   \
    {                                                                          \
        (N + 255) / 256, 0, 0                                                  \
    }

static const struct bell_kernel_code codes[] = {
    {"CPU", BELL_KERNEL_LLVM, host_text, 0, GRID, {0, 0, 0}, 0},
    {"NV", BELL_KERNEL_PTX, ptx_text, 0, GRID, {256, 1, 1}, 0},
    {"AMD:gfx1100", BELL_KERNEL_LLVM, amd_text, 0, GRID, {256, 1, 1}, 0},
    {"AMD", BELL_KERNEL_LLVM, amd_text, 0, GRID, {256, 1, 1}, 0},
};
static const struct bell_kernel_code in_c = {"CPU", BELL_KERNEL_C, c_text, 0,
                                             GRID,  {1, 1, 1},     0};

static const int64_t shape[2] = {N / 10, 10}, values[2] = {N, FACTOR};
static const struct bell_kernel_result results[2] = {{shape, 2, BELL_FLOAT32},
                                                     {shape, 2, BELL_BOOL}};

static const struct bell_kernel_desc mix = {
    .struct_size = sizeof(mix),
    .name = "mix",
    .codes = codes,
    .n_codes = ARRAY_LEN(codes),
    .results = results,
    .n_out = 2,
    .values = values,
    .n_values = 2,
};

/* ---- helpers ---- */

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_error(bell_status status, bell_status wanted, const char *text)
{
    if (status != wanted || !strstr(bell_error_last()->message, text))
        fail_msg("%d, '%s' is not '%s'", (int)status,
                 bell_error_last()->message, text);
    bell_error_clear();
}

static struct bell_context *
open_context(const char *device)
{
    struct bell_context *ctx;

    expect_ok(bell_context_create(device, &ctx));
    return ctx;
}

static void
fill(float *x, float *y)
{
    uint32_t seed = 7, i;

    for (i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)(seed >> 8) * 0x1p-20f;
        seed = seed * 1664525u + 1013904223u;
        y[i] = (float)(int32_t)(seed >> 8) * 0x1p-20f;
    }
}

static struct bell_tensor *
tensor(struct bell_context *ctx, const float *data)
{
    return bell_from_data(ctx, shape, 2, BELL_FLOAT32, data);
}

static void
expect_sum(struct bell_tensor *sum, const float *x, const float *y, int swap)
{
    float got[N];
    int i;

    expect_ok(bell_read(sum, got, sizeof(got)));
    for (i = 0; i < N; i++) {
        float a = swap ? y[i] : x[i], b = swap ? x[i] : y[i];
        if (got[i] != FACTOR * a + b)
            fail_msg("%d: %g, not %g", i, got[i], FACTOR * a + b);
    }
}

static void
expect_more(struct bell_tensor *more, const float *x, const float *y)
{
    bool got[N];
    int i;

    expect_ok(bell_read(more, got, sizeof(got)));
    for (i = 0; i < N; i++)
        assert_int_equal(got[i], x[i] > y[i]);
}

/* ---- tests ---- */

static void
test_numbers(void **state)
{
    struct bell_tensor *in[2], *out[2], *other[2];
    float x[N], y[N];
    size_t d;

    (void)state;
    fill(x, y);
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        struct bell_context *ctx = open_context(devices[d]);
        struct bell_stats stats = {.struct_size = sizeof(stats)};

        in[0] = tensor(ctx, x);
        in[1] = tensor(ctx, y);
        bell_custom_kernel(ctx, &mix, in, 2, out);
        assert_int_equal(bell_dtype_of(out[1]), BELL_BOOL);
        expect_ok(bell_realize(out, 2));
        bell_context_stats(ctx, &stats);
        assert_int_equal(stats.n_launches, 1); /* for both */
        expect_sum(out[0], x, y, 0);
        expect_more(out[1], x, y);
        /* again, the other way round: the same kernel */
        in[0] = out[0];
        in[0] = tensor(ctx, y);
        in[1] = tensor(ctx, x);
        bell_custom_kernel(ctx, &mix, in, 2, other);
        expect_sum(other[0], x, y, 1);
        bell_context_stats(ctx, &stats);
        assert_int_equal(stats.n_kernels_compiled, 1);
        bell_context_destroy(ctx);
    }
}

/* One kernel with the same inputs, and results of other shapes. */
static void
test_shapes(void **state)
{
    static const int64_t turned[2] = {N / 4, 4}, flat[1] = {N};
    static const struct bell_kernel_result others[2] = {
        {turned, 2, BELL_FLOAT32}, {flat, 1, BELL_BOOL}};
    struct bell_context *ctx = open_context("CPU");
    struct bell_tensor *in[2], *out[2], *other[2];
    struct bell_kernel_desc desc = mix;
    float x[N], y[N];

    (void)state;
    fill(x, y);
    in[0] = tensor(ctx, x);
    in[1] = tensor(ctx, y);
    bell_custom_kernel(ctx, &mix, in, 2, out);
    desc.results = others;
    bell_custom_kernel(ctx, &desc, in, 2, other);
    assert_int_equal(bell_ndim(other[0]), 2);
    assert_int_equal(bell_shape(other[0])[0], N / 4);
    assert_int_equal(bell_ndim(other[1]), 1);
    assert_int_equal(bell_shape(out[0])[0], shape[0]);
    expect_sum(bell_neg(bell_neg(other[0])), x, y, 0);
    expect_more(other[1], x, y);
    expect_sum(out[0], x, y, 0);
    bell_context_destroy(ctx);
}

/* One of the results alone; inputs that are computed, moved, or constants; a
 * kernel behind another; both read by others. */
static void
test_graphs(void **state)
{
    struct bell_tensor *in[2], *out[2], *next[2], *sum;
    float x[N], y[N], got[N], want, total;
    size_t d;
    int i;

    (void)state;
    fill(x, y);
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        struct bell_context *ctx = open_context(devices[d]);

        in[0] = tensor(ctx, x);
        in[1] = tensor(ctx, y);
        bell_custom_kernel(ctx, &mix, in, 2, out);
        expect_more(out[1], x, y);
        bell_custom_kernel(ctx, &mix, in, 2, out);
        expect_sum(out[0], x, y, 0);
        /* x.T.T, and y computed */
        in[0] =
            bell_transpose(bell_contiguous(bell_transpose(in[0], 0, 1)), 0, 1);
        in[1] = bell_neg(bell_neg(in[1]));
        bell_custom_kernel(ctx, &mix, in, 2, out);
        expect_sum(out[0], x, y, 0);
        in[0] = bell_where(out[1], out[0], bell_scalar(ctx, 0));
        in[1] = bell_full(ctx, shape, 2, 0.5, BELL_FLOAT32);
        bell_custom_kernel(ctx, &mix, in, 2, next);
        sum = bell_add(next[0], bell_cast(next[1], BELL_FLOAT32));
        total = 0;
        expect_ok(bell_read(sum, got, sizeof(got)));
        for (i = 0; i < N; i++) {
            want = x[i] > y[i] ? FACTOR * x[i] + y[i] : 0;
            want = FACTOR * want + 0.5f + (want > 0.5f);
            total += want;
            if (got[i] != want)
                fail_msg("%s %d: %g, not %g", devices[d], i, got[i], want);
        }
        /* within a larger graph, read twice */
        bell_custom_kernel(ctx, &mix, in, 2, next);
        sum = bell_sum(bell_mul(bell_add(next[0], next[0]),
                                bell_cast(next[1], BELL_FLOAT32)),
                       BELL_NO_DIMS, false);
        expect_ok(bell_realize(&sum, 1));
        (void)total;
        bell_context_destroy(ctx);
    }
}

static bell_status
jitted(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
       struct bell_tensor **out)
{
    struct bell_tensor *args[2] = {bell_mul_scalar(in[0], 1.0), in[1]};

    (void)user;
    bell_custom_kernel(ctx, &mix, args, 2, out);
    out[0] = bell_relu(out[0]);
    return BELL_OK;
}

static void
test_jit(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "mix", jitted, NULL, 2, 2};
    float x[N], y[N], got[N];
    size_t d;
    int i, turn;

    (void)state;
    fill(x, y);
    for (d = 0; d < ARRAY_LEN(devices); d++) {
        struct bell_context *ctx = open_context(devices[d]);
        struct bell_tensor *in[2], *out[2];
        struct bell_jit *jit;

        expect_ok(bell_jit_create(ctx, &desc, &jit));
        for (turn = 0; turn < 3; turn++) {
            x[turn] += 1;
            in[0] = tensor(ctx, x);
            in[1] = tensor(ctx, y);
            expect_ok(bell_jit_call(jit, in, out));
            expect_ok(bell_read(out[0], got, sizeof(got)));
            for (i = 0; i < N; i++) {
                float want = FACTOR * x[i] + y[i];
                assert_true(got[i] == (want > 0 ? want : 0));
            }
            expect_more(out[1], x, y);
        }
        bell_jit_destroy(jit);
        bell_context_destroy(ctx);
    }
}

/* Saved for all, and run by the driver half alone. */
static void
test_bundle(void **state)
{
    static const char *const all[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx942"};
    struct bell_jit_desc desc = {sizeof(desc), "mix", jitted, NULL, 2, 2};
    struct bell_jit_save_desc where = {
        .struct_size = sizeof(where), .targets = all, .n_targets = 3};
    struct bell_context *ctx = open_context("CPU");
    struct bell_tensor *in[2];
    float x[N], y[N], got[N];
    struct bell_jit *jit;
    char path[64];
    size_t d;
    int i;

    (void)state;
    fill(x, y);
    snprintf(path, sizeof(path), "/tmp/bell_given_%d", (int)getpid());
    in[0] = tensor(ctx, x);
    in[1] = tensor(ctx, y);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_ok(bell_jit_save(jit, in, &where, path));
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
    for (d = 0; d < ARRAY_LEN(all); d++) {
        struct hcq_device *dev;
        struct hcq_bundle *b;

        expect_ok(hcq_device_open(all[d], &dev));
        expect_ok(hcq_bundle_open(dev, path, &b));
        expect_ok(hcq_bundle_write(
            b, hcq_bundle_find(b, HCQ_BUNDLE_INPUT, "in0"), x, sizeof(x)));
        expect_ok(hcq_bundle_write(
            b, hcq_bundle_find(b, HCQ_BUNDLE_INPUT, "in1"), y, sizeof(y)));
        expect_ok(hcq_bundle_run(b, NULL));
        expect_ok(hcq_bundle_read(b,
                                  hcq_bundle_find(b, HCQ_BUNDLE_OUTPUT, "out0"),
                                  got, sizeof(got)));
        for (i = 0; i < N; i++) {
            float want = FACTOR * x[i] + y[i];
            assert_true(got[i] == (want > 0 ? want : 0));
        }
        hcq_bundle_close(b);
        hcq_device_close(dev);
    }
    unlink(path);
}

/* ---- gradients ---- */

static struct bell_tensor *
forward(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
        uint32_t n_in)
{
    struct bell_tensor *out[2];

    (void)user;
    bell_custom_kernel(ctx, &mix, in, n_in, out);
    return out[0];
}

static bell_status
backward(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
         struct bell_tensor **out_grads)
{
    (void)ctx;
    (void)user;
    (void)in;
    (void)n_in;
    (void)out;
    out_grads[0] = bell_mul_scalar(grad, FACTOR);
    out_grads[1] = grad;
    return BELL_OK;
}

static void
test_gradients(void **state)
{
    struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                    .name = "mix",
                                    .forward = forward,
                                    .backward = backward};
    struct bell_context *ctx = open_context("CPU");
    struct bell_tensor *in[2], *out[2], *grad;
    float x[N], y[N], got[N];
    int i;

    (void)state;
    fill(x, y);
    in[0] = bell_requires_grad(tensor(ctx, x), true);
    in[1] = tensor(ctx, y);
    grad = bell_custom(&desc, in, 2);
    expect_ok(
        bell_backward(bell_sum(bell_mul(grad, in[1]), BELL_NO_DIMS, false)));
    expect_ok(bell_read(bell_grad(in[0]), got, sizeof(got)));
    for (i = 0; i < N; i++)
        assert_true(got[i] == FACTOR * y[i]);
    bell_custom_kernel(ctx, &mix, in, 2, out);
    expect_error(bell_backward(bell_sum(out[0], BELL_NO_DIMS, false)),
                 BELL_E_UNSUPPORTED, "a kernel of your own has no gradient");
    bell_context_destroy(ctx);
}

/* ---- the host's compiler ---- */

static void
test_c(void **state)
{
    struct bell_context *ctx = open_context("CPU");
    struct bell_kernel_code code = in_c;
    struct bell_kernel_desc desc = mix;
    struct bell_tensor *in[2], *out[2];
    float x[N], y[N];
    bell_status status;

    (void)state;
    fill(x, y);
    in[0] = tensor(ctx, x);
    in[1] = tensor(ctx, y);
    desc.codes = &code;
    desc.n_codes = 1;
    bell_custom_kernel(ctx, &desc, in, 2, out);
    status = bell_realize(out, 2);
    if (status == BELL_E_UNSUPPORTED) { /* no compiler */
        bell_context_destroy(ctx);
        skip();
    }
    expect_ok(status);
    expect_sum(out[0], x, y, 0);
    expect_more(out[1], x, y);
    code.code = "void mix(const long *args) { sum(args[0]) }";
    bell_custom_kernel(ctx, &desc, in, 2, out);
    expect_error(bell_realize(out, 1), BELL_E_COMPILE, "error:");
    code.code = "void other(void) {}";
    bell_custom_kernel(ctx, &desc, in, 2, out);
    expect_error(bell_realize(out, 1), BELL_E_INVALID, "mix");
    code.code = "int puts(const char *);\n"
                "void mix(const long *args) { puts((const char *)args[0]); }";
    bell_custom_kernel(ctx, &desc, in, 2, out);
    expect_error(bell_realize(out, 1), BELL_E_INVALID, "puts");
    bell_context_destroy(ctx);
}

/* ---- what is refused ---- */

/* The call with the description as changed fails, with those words. */
#define REFUSED(ctx, words, ...)                                               \
    do {                                                                       \
        struct bell_kernel_desc d = mix;                                       \
        struct bell_kernel_code c = codes[1];                                  \
        struct bell_kernel_result r[2] = {results[0], results[1]};             \
        d.results = r;                                                         \
        (void)c;                                                               \
        __VA_ARGS__;                                                           \
        bell_custom_kernel(ctx, &d, in, 2, out);                               \
        if (bell_realize(out, 1) == BELL_OK)                                   \
            fail_msg("taken: %s", words);                                      \
        if (!strstr(bell_error_last()->message, words))                        \
            fail_msg("'%s' has no '%s'", bell_error_last()->message, words);   \
        bell_error_clear();                                                    \
    } while (0)

static void
test_refused(void **state)
{
    struct bell_context *ctx = open_context("NV@sim:sm_90");
    struct bell_context *cpu = open_context("CPU");
    struct bell_tensor *in[2], *out[2], *empty[2];
    struct bell_kernel_desc small = mix;
    int64_t none[2] = {0, 10}, huge[2] = {INT64_MAX, 10};
    float x[N], y[N];

    (void)state;
    fill(x, y);
    in[0] = tensor(ctx, x);
    in[1] = tensor(ctx, y);
    small.struct_size = 8;
    bell_custom_kernel(ctx, &small, in, 2, out);
    expect_error(bell_realize(in, 1), BELL_E_INVALID,
                 "struct_size is 8, not its size, ");
    bell_custom_kernel(ctx, NULL, in, 2, out);
    expect_error(bell_realize(in, 1), BELL_E_INVALID, "description is NULL");
    REFUSED(ctx, "name is of 1 to 127", d.name = NULL);
    REFUSED(ctx, "name is of 1 to 127", d.name = "");
    REFUSED(ctx, "has no results", d.results = NULL);
    REFUSED(ctx, "has no code", d.n_codes = 0);
    REFUSED(ctx, "has no values", d.values = NULL);
    REFUSED(ctx, "65 arguments, of 64 at most", d.n_values = 61);
    REFUSED(ctx, "code 0 has no device", c.device = NULL; d.codes = &c);
    REFUSED(ctx, "code 0 has no text", c.code = NULL; d.codes = &c);
    REFUSED(ctx, "is of form 4", c.form = 4; d.codes = &c; d.n_codes = 1);
    REFUSED(ctx, "PTX cannot be for 'AMD'", c.device = "AMD"; d.codes = &c);
    REFUSED(ctx, "PTX cannot be for 'NVX'", c.device = "NVX"; d.codes = &c);
    REFUSED(ctx, "the object has no bytes", c.form = BELL_KERNEL_OBJECT;
            d.codes = &c);
    REFUSED(ctx, "has a zero in it", c.n_bytes = sizeof(ptx_text);
            d.codes = &c);
    REFUSED(ctx, "groups of 256 x 8 x 1", c.local[1] = 8; d.codes = &c);
    REFUSED(ctx, "groups of 2 x 0 x 0", c = codes[0]; c.local[0] = 2;
            d.codes = &c);
    REFUSED(ctx, "result 0 of kernel 'mix' has no elements", r[0].shape = none);
    REFUSED(ctx, "bell_custom_kernel", r[1].shape = huge);
    REFUSED(ctx, "bell_custom_kernel", r[1].dtype = (enum bell_dtype)99);
    /* by the compiler and the device */
    REFUSED(ctx, "no code for NV:sm_90; the first it has is for CPU",
            d.n_codes = 1);
    REFUSED(ctx, "no code for NV:sm_90", c.device = "NV:sm_80"; d.codes = &c;
            d.n_codes = 1);
    REFUSED(ctx, "mix", c.code = "no PTX"; d.codes = &c; d.n_codes = 1);
    REFUSED(ctx, "a grid of 1 x 70000 x 1", c.grid[0] = 1; c.grid[1] = 70000;
            d.codes = &c; d.n_codes = 1);
    empty[0] = in[0];
    empty[1] = bell_zeros(ctx, none, 2, BELL_FLOAT32);
    bell_custom_kernel(ctx, &mix, empty, 2, out);
    expect_error(bell_realize(out, 1), BELL_E_INVALID,
                 "input 1 of kernel 'mix' has no elements");
    bell_custom_kernel(cpu, &mix, in, 2, out);
    expect_error(bell_realize(out, 1), BELL_E_INVALID, "another context");
    bell_custom_kernel(NULL, &mix, in, 2, out);
    assert_null(out[0]);
    bell_custom_kernel(ctx, &mix, in, 2, NULL);
    bell_error_clear();
    /* the context is as it was */
    bell_custom_kernel(ctx, &mix, in, 2, out);
    expect_sum(out[0], x, y, 0);
    bell_context_destroy(cpu);
    bell_context_destroy(ctx);
}

/* Every allocation fails in turn, of the call and of what realises it: it says
 * so, and the next one is right. */
static void
test_no_memory(void **state)
{
    struct bell_context *ctx = open_context("AMD@sim:gfx1100");
    struct bell_kernel_desc desc = mix;
    struct bell_tensor *in[2], *out[2];
    int64_t numbers[2] = {N, FACTOR};
    float x[N], y[N];
    bell_status status;
    uint64_t n;
    int done;

    (void)state;
    fill(x, y);
    in[0] = tensor(ctx, x);
    in[1] = tensor(ctx, y);
    desc.values = numbers;
    for (n = 1, done = 0; done < 2; n++) {
        expect_ok(bell_scope_begin(ctx));
        numbers[1] = FACTOR + (int64_t)n; /* another kernel */
        host_fail_after(n, 1);
        bell_custom_kernel(ctx, &desc, in, 2, out);
        status = bell_realize(out, 2);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            done++;
        else
            assert_int_equal(bell_error_last()->status, BELL_E_NO_MEMORY);
        bell_error_clear();
        bell_custom_kernel(ctx, &mix, in, 2, out);
        expect_sum(out[0], x, y, 0);
        expect_ok(bell_scope_end(ctx));
    }
    assert_true(n > 20);
    bell_context_destroy(ctx);
}

/* A kernel that does not end is reported after the limit, and at once to later
 * calls; its context can be destroyed. */
static void
test_hung(void **state)
{
    static const char host[] =
        "define void @hung(ptr %args, ptr %grid, i64 %first, i64 %last) {\n"
        "  %flag = alloca i32\n  store volatile i32 0, ptr %flag\n"
        "  br label %again\nagain:\n"
        "  %v = load volatile i32, ptr %flag\n"
        "  %z = icmp eq i32 %v, 0\n"
        "  br i1 %z, label %again, label %done\ndone:\n  ret void\n}\n";
    static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                              ".visible .entry hung(.param .u64 p0)\n"
                              "{\nagain:\n    bra again;\n}\n";
    static const struct bell_kernel_code both[] = {
        {"CPU", BELL_KERNEL_LLVM, host, 0, {1, 0, 0}, {0, 0, 0}, 0},
        {"NV", BELL_KERNEL_PTX, ptx, 0, {1, 0, 0}, {1, 1, 1}, 0},
    };
    static const struct bell_kernel_desc hung = {
        .struct_size = sizeof(hung),
        .name = "hung",
        .codes = both,
        .n_codes = ARRAY_LEN(both),
        .results = results,
        .n_out = 1,
    };
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct bell_context *ctx = open_context(devices[i]);
        struct bell_tensor *out[1], *ones;
        const char *text;
        float got[N];

        expect_error(bell_context_set_timeout(ctx, -1), BELL_E_INVALID,
                     "-1 seconds");
        expect_error(bell_context_set_timeout(ctx, (double)NAN), BELL_E_INVALID,
                     "expected 0 to");
        expect_ok(bell_context_set_timeout(ctx, 0.05));
        ones = bell_ones(ctx, shape, 2, BELL_FLOAT32);
        bell_custom_kernel(ctx, &hung, NULL, 0, out);
        assert_int_equal(bell_read(out[0], got, sizeof(got)), BELL_E_TIMEOUT);
        text = bell_error_last()->message;
        if (!strstr(text, "nothing moved for") ||
            !strstr(text, "BELL_TIMEOUT") || !strstr(text, "hung"))
            fail_msg("%s", text);
        expect_error(bell_read(ones, got, sizeof(got)), BELL_E_TIMEOUT,
                     "nothing moved since");
        bell_context_destroy(ctx);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_graphs),    cmocka_unit_test(test_jit),
        cmocka_unit_test(test_bundle),    cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_c),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_hung),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
