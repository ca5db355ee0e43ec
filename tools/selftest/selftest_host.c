/* Selftest: the kernels that the bench measures on the CPU, in LLVM's IR: a
 * function over work-groups first to last - 1 (docs/kernel-interface.md). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "render/render.h"
#include "tools/selftest/selftest.h"

#define TEXT_BYTES 16384
#define N_CHAINS   10u /* hides the latency of two units of four clocks */

/* Lanes of a vector of floats, and whether a multiply-add is one instruction:
 * without it LLVM would call a function for it. */
static unsigned
lanes_of(const struct hcq_device_info *info, bool *out_has_fma)
{
    bool is_v4 = strcmp(info->arch, "x86-64-v4") == 0;
    bool is_v3 = strcmp(info->arch, "x86-64-v3") == 0;

    *out_has_fma = is_v4 || is_v3 || strncmp(info->arch, "x86-64", 6) != 0;
    return is_v4 ? 16 : is_v3 ? 8 : 4;
}

double
selftest_fma_flops(const struct hcq_device_info *info)
{
    bool has_fma;

    if (info->flags & HCQ_DEVICE_HOST_MEMORY)
        return 2.0 * N_CHAINS * lanes_of(info, &has_fma);
    return 2.0 * 8 * (strcmp(info->backend, "AMD") == 0 ? 2 : 4);
}

/* A chain after n multiply-adds; soon they change nothing any more. */
static float
run_chain(float x, uint64_t n, bool has_fma)
{
    const float factor = 0x1.fffep-1f;

    while (n-- > 0) {
        volatile float product = x * factor; /* rounded */
        float next = has_fma ? fmaf(x, factor, 0.5f) : product + 0.5f;

        if (next == x)
            break;
        x = next;
    }
    return x;
}

float
selftest_fma_result(const struct hcq_device_info *info, uint32_t thread,
                    uint64_t n_rounds)
{
    float c[N_CHAINS], sum;
    bool has_fma = true;
    unsigned i;

    if (info->flags & HCQ_DEVICE_HOST_MEMORY) {
        (void)lanes_of(info, &has_fma);
        sum = 0;
        for (i = 0; i < N_CHAINS; i++)
            sum += run_chain((float)(i + 1), n_rounds, has_fma);
        return sum;
    }
    n_rounds *= strcmp(info->backend, "AMD") == 0 ? 2 : 4;
    for (i = 0; i < 4; i++)
        c[i] = run_chain(i ? (float)i : (float)thread, n_rounds, true);
    sum = (c[0] + c[1]) + (c[2] + c[3]);
    return sum + sum;
}

/* Both arguments: the first is an address. */
#define ARGUMENTS                                                              \
    "%q0 = load i64, ptr %args\n%p0 = inttoptr i64 %q0 to ptr\n"               \
    "%q1 = getelementptr i64, ptr %args, i64 1\n%p1 = load i64, ptr %q1\n"

static const char store_body[] = ARGUMENTS "store i64 %p1, ptr %p0\nret void\n";

static const char count_body[] =
    ARGUMENTS "%v = load i64, ptr %p0\n%w = add i64 %v, %p1\n"
              "store i64 %w, ptr %p0\nret void\n";

static const char chase_body[] =
    ARGUMENTS "br label %step\n"
              "step:\n%x = phi i64 [ 0, %0 ], [ %x_next, %step ]\n"
              "%left = phi i64 [ %p1, %0 ], [ %left_next, %step ]\n"
              "%from = getelementptr i8, ptr %p0, i64 %x\n"
              "%x_next = load i64, ptr %from\n"
              "%left_next = sub i64 %left, 1\n"
              "%more = icmp ne i64 %left_next, 0\n"
              "br i1 %more, label %step, label %end\n"
              "end:\n%to = getelementptr i64, ptr %p0, i64 1\n"
              "store i64 %x_next, ptr %to\nret void\n";

struct text {
    char bytes[TEXT_BYTES];
    size_t used;
};

static void put(struct text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
put(struct text *text, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text->bytes + text->used, TEXT_BYTES - text->used, fmt, args);
    va_end(args);
    text->used += n > 0 ? (size_t)n : 0;
    if (text->used >= TEXT_BYTES) /* cut, which LLVM will not take */
        text->used = TEXT_BYTES - 1;
}

/* Groups first to last - 1, each p1 rounds of its chains. */
static void
put_fma(struct text *text, unsigned n_lanes, bool has_fma)
{
    unsigned i;

    put(text, "%s",
        ARGUMENTS "br label %group\n"
                  "group:\n"
                  "%g = phi i64 [ %first, %0 ], [ %g1, %done ]\n"
                  "%more = icmp ult i64 %g, %last\n"
                  "br i1 %more, label %enter, label %end\n"
                  "enter:\nbr label %round\n"
                  "round:\n"
                  "%n = phi i64 [ %p1, %enter ], [ %n1, %round ]\n");
    for (i = 0; i < N_CHAINS; i++)
        put(text,
            "%%c%u = phi <%u x float> [ splat (float %u.0), %%enter ], "
            "[ %%d%u, %%round ]\n",
            i, n_lanes, i + 1, i);
    for (i = 0; i < N_CHAINS; i++) {
        if (has_fma)
            put(text,
                "%%d%u = call <%u x float> @llvm.fma.v%uf32(<%u x float> "
                "%%c%u, <%u x float> splat (float 0x3FEFFFE000000000), "
                "<%u x float> splat (float 0.5))\n",
                i, n_lanes, n_lanes, n_lanes, i, n_lanes, n_lanes);
        else
            put(text,
                "%%m%u = fmul <%u x float> %%c%u, splat (float "
                "0x3FEFFFE000000000)\n"
                "%%d%u = fadd <%u x float> %%m%u, splat (float 0.5)\n",
                i, n_lanes, i, i, n_lanes, i);
    }
    put(text,
        "%%n1 = sub i64 %%n, 1\n%%again = icmp ne i64 %%n1, 0\n"
        "br i1 %%again, label %%round, label %%done\ndone:\n"
        "%%s0 = fadd <%u x float> %%d0, zeroinitializer\n",
        n_lanes);
    for (i = 1; i < N_CHAINS; i++)
        put(text, "%%s%u = fadd <%u x float> %%s%u, %%d%u\n", i, n_lanes, i - 1,
            i);
    put(text,
        "%%lane = extractelement <%u x float> %%s%u, i32 0\n"
        "%%to = getelementptr float, ptr %%p0, i64 %%g\n"
        "store float %%lane, ptr %%to\n%%g1 = add i64 %%g, 1\n"
        "br label %%group\nend:\nret void\n",
        n_lanes, N_CHAINS - 1);
}

bell_status
selftest_host_binary(const struct hcq_device_info *info,
                     enum selftest_kernel kernel,
                     struct selftest_binary *out_binary)
{
    static const char head[] =
        "(ptr %args, ptr %grid, i64 %first, i64 %last) {\n";
    const char *name = "st_store", *body = store_body;
    struct text text = {.used = 0};
    struct render_binary binary;
    struct lower_target target;
    unsigned n_lanes;
    bool has_fma;

    n_lanes = lanes_of(info, &has_fma);
    if (!(info->flags & HCQ_DEVICE_HOST_MEMORY) ||
        (kernel != SELFTEST_STORE && kernel != SELFTEST_COUNT &&
         kernel != SELFTEST_CHASE && kernel != SELFTEST_FMA))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s (%s) takes no kernel by hand of that kind",
                         info->name, info->arch);
    if (kernel == SELFTEST_COUNT) {
        name = "st_count";
        body = count_body;
    } else if (kernel == SELFTEST_CHASE) {
        name = "st_chase";
        body = chase_body;
    } else if (kernel == SELFTEST_FMA) {
        name = "st_fma";
        body = NULL;
        if (has_fma)
            put(&text,
                "declare <%u x float> @llvm.fma.v%uf32(<%u x float>, <%u x "
                "float>, <%u x float>)\n",
                n_lanes, n_lanes, n_lanes, n_lanes, n_lanes);
    }
    put(&text, "define void @%s%s", name, head);
    if (body)
        put(&text, "%s", body);
    else
        put_fma(&text, n_lanes, has_fma);
    put(&text, "}\n");
    BELL_TRY(render_host_target(&target));
    BELL_TRY(render_host_ir(text.bytes, name, &target, &binary));
    *out_binary =
        (struct selftest_binary){binary.data, binary.size_bytes, name, 1, 1};
    return BELL_OK;
}
