/* A kernel of one's own for three kinds of devices, and its gradient: each row
 * is h[t] = a[t] h[t-1] + x[t] (docs/tutorials/custom-kernel.md). */
#include <doorbell/custom.h>
#include <doorbell/ops.h>
#include <stdio.h>

enum {
    ROWS = 3,
    STEPS = 6
};

static const char in_c[] =
    "#include <stdint.h>\n"
    "void scan(const uint64_t *args, const uint32_t *grid, uint64_t first,\n"
    "          uint64_t last)\n"
    "{\n    uint64_t n = args[3];\n"
    "    for (uint64_t row = first; row < last; row++) {\n"
    "        float *h = (float *)args[0] + row * n, now = 0;\n"
    "        const float *a = (const float *)args[1] + row * n;\n"
    "        const float *x = (const float *)args[2] + row * n;\n"
    "        for (uint64_t t = 0; t < n; t++)\n"
    "            h[t] = now = a[t] * now + x[t];\n"
    "    }\n}\n";

static const char in_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scan(.param .u64 ph, .param .u64 pa, .param .u64 px,\n"
    "                     .param .u64 pn)\n"
    "{\n"
    "    .reg .pred %p<1>; .reg .b32 %r<1>; .reg .f32 %f<3>; .reg .b64 %d<6>;\n"
    "    ld.param.u64 %d0, [ph]; ld.param.u64 %d1, [pa];\n"
    "    ld.param.u64 %d2, [px]; ld.param.u64 %d3, [pn];\n"
    "    mov.u32 %r0, %ctaid.x;    mov.f32 %f0, 0f00000000;\n"
    "    cvt.u64.u32 %d4, %r0;     mul.lo.s64 %d4, %d4, %d3;\n"
    "    shl.b64 %d4, %d4, 2;      add.s64 %d0, %d0, %d4;\n"
    "    add.s64 %d1, %d1, %d4;    add.s64 %d2, %d2, %d4;\n"
    "step:\n"
    "    ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2];\n"
    "    mul.rn.f32 %f0, %f0, %f1; add.rn.f32 %f0, %f0, %f2;\n"
    "    st.global.f32 [%d0], %f0; add.s64 %d0, %d0, 4;\n"
    "    add.s64 %d1, %d1, 4;      add.s64 %d2, %d2, 4;\n"
    "    add.s64 %d3, %d3, -1;     setp.gt.s64 %p0, %d3, 0;\n"
    "    @%p0 bra step;\n    ret;\n}\n";

static const char in_llvm[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "define amdgpu_kernel void @scan(ptr addrspace(1) %h, ptr addrspace(1) "
    "%a,\n"
    "                                ptr addrspace(1) %x, i64 %n) {\n"
    "entry:\n  %row = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "  %wide = zext i32 %row to i64\n"
    "  %begin = mul i64 %wide, %n  %end = add i64 %begin, %n\n"
    "  br label %step\n"
    "step:\n  %i = phi i64 [ %begin, %entry ], [ %next, %step ]\n"
    "  %now = phi float [ 0.0, %entry ], [ %sum, %step ]\n"
    "  %at.a = getelementptr float, ptr addrspace(1) %a, i64 %i\n"
    "  %at.x = getelementptr float, ptr addrspace(1) %x, i64 %i\n"
    "  %at.h = getelementptr float, ptr addrspace(1) %h, i64 %i\n"
    "  %f = load float, ptr addrspace(1) %at.a\n"
    "  %v = load float, ptr addrspace(1) %at.x\n"
    "  %product = fmul float %now, %f  %sum = fadd float %product, %v\n"
    "  store float %sum, ptr addrspace(1) %at.h\n"
    "  %next = add i64 %i, 1  %more = icmp ult i64 %next, %end\n"
    "  br i1 %more, label %step, label %done\n"
    "done:\n  ret void\n}\n";

/* A work-group a row. */
static struct bell_tensor *
scan(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     uint32_t n_in)
{
    const struct bell_kernel_code codes[] = {
        {"CPU", BELL_KERNEL_C, in_c, 0, {ROWS}, {1}, 0},
        {"NV", BELL_KERNEL_PTX, in_ptx, 0, {ROWS}, {1}, 0},
        {"AMD", BELL_KERNEL_LLVM, in_llvm, 0, {ROWS}, {1}, 0},
    };
    struct bell_kernel_result h = {BELL_DIMS(ROWS, STEPS), BELL_FLOAT32};
    struct bell_kernel_desc desc = {
        .struct_size = sizeof(desc),
        .name = "scan",
        .codes = codes,
        .n_codes = 3,
        .results = &h,
        .n_out = 1,
        .values = (int64_t[]){STEPS},
        .n_values = 1,
    };
    struct bell_tensor *out;

    (void)user;
    bell_custom_kernel(ctx, &desc, in, n_in, &out);
    return out;
}

/* From the last step to the first: d x[t] = grad[t] + a[t+1] d x[t+1], which is
 * the same kernel turned round, and d a[t] = h[t-1] d x[t]. */
static bell_status
scan_back(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
          uint32_t n_in, struct bell_tensor *h, struct bell_tensor *grad,
          struct bell_tensor **out_grads)
{
    struct bell_tensor *later =
        bell_pad(bell_narrow(in[0], 1, 1, STEPS - 1), BELL_DIMS(0, 1), 0);
    struct bell_tensor *before =
        bell_pad(bell_narrow(h, 1, 0, STEPS - 1), BELL_DIMS(1, 0), 0);
    struct bell_tensor *turned[2] = {bell_flip(later, BELL_DIMS(1)),
                                     bell_flip(grad, BELL_DIMS(1))};

    out_grads[1] = bell_flip(scan(ctx, user, turned, n_in), BELL_DIMS(1));
    out_grads[0] = bell_mul(before, out_grads[1]);
    return BELL_OK;
}

static bell_status
show(const char *name, struct bell_tensor *t)
{
    float d[ROWS * STEPS];
    bell_status status = bell_read(t, d, sizeof(d));

    for (float *h = d; status == BELL_OK && h < d + ROWS * STEPS; h += STEPS)
        printf("%s: %g %g %g %g %g %g\n", name, h[0], h[1], h[2], h[3], h[4],
               h[5]);
    return status;
}

int
main(int argc, char **argv)
{
    struct bell_custom_desc desc = {sizeof(desc), "scan", scan,
                                    scan_back,    NULL,   NULL};
    struct bell_tensor *in[2], *h;
    struct bell_context *ctx;
    bell_status status = bell_context_create(argc > 1 ? argv[1] : NULL, &ctx);

    if (status == BELL_OK) {
        in[0] = bell_full(ctx, BELL_DIMS(ROWS, STEPS), 0.5, BELL_FLOAT32);
        in[1] = bell_reshape(bell_arange(ctx, 0, ROWS * STEPS, 1, BELL_FLOAT32),
                             BELL_DIMS(ROWS, STEPS));
        in[0] = bell_requires_grad(in[0], true);
        h = bell_custom(&desc, in, 2);
        status = bell_backward(bell_sum(h, BELL_NO_DIMS, false));
        if (status == BELL_OK && (status = show("h", h)) == BELL_OK)
            status = show("d loss / d a", bell_grad(in[0]));
        bell_context_destroy(ctx);
    }
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    return status != BELL_OK;
}
