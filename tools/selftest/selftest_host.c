/* Selftest: the kernels that the bench measures on the CPU, in LLVM's IR: a
 * function over work-groups first to last - 1
 * (docs/reference/kernel-interface.md). */
#include <stdio.h>

#include "base/bits.h"
#include "render/render.h"
#include "tools/selftest/selftest.h"

#define TEXT_BYTES 1024

/* Both arguments: the first is an address. */
#define ARGUMENTS                                                              \
    "%q0 = load i64, ptr %args\n%p0 = inttoptr i64 %q0 to ptr\n"               \
    "%q1 = getelementptr i64, ptr %args, i64 1\n%p1 = load i64, ptr %q1\n"

static const struct {
    enum selftest_kernel kernel;
    const char *name, *body;
} kernels[] = {
    {SELFTEST_STORE, "st_store",
     ARGUMENTS "store i64 %p1, ptr %p0\nret void\n"},
    {SELFTEST_COUNT, "st_count",
     ARGUMENTS "%v = load i64, ptr %p0\n%w = add i64 %v, %p1\n"
               "store i64 %w, ptr %p0\nret void\n"},
    {SELFTEST_CHASE, "st_chase",
     ARGUMENTS "br label %step\n"
               "step:\n%x = phi i64 [ 0, %0 ], [ %x_next, %step ]\n"
               "%left = phi i64 [ %p1, %0 ], [ %left_next, %step ]\n"
               "%from = getelementptr i8, ptr %p0, i64 %x\n"
               "%x_next = load i64, ptr %from\n"
               "%left_next = sub i64 %left, 1\n"
               "%more = icmp ne i64 %left_next, 0\n"
               "br i1 %more, label %step, label %end\n"
               "end:\n%to = getelementptr i64, ptr %p0, i64 1\n"
               "store i64 %x_next, ptr %to\nret void\n"},
};

bell_status
selftest_host_binary(const struct hcq_device_info *info,
                     enum selftest_kernel kernel,
                     struct selftest_binary *out_binary)
{
    struct render_binary binary;
    struct lower_target target;
    char text[TEXT_BYTES];
    size_t i;

    for (i = 0; i < ARRAY_LEN(kernels) && kernels[i].kernel != kernel; i++)
        ;
    if (!(info->flags & HCQ_DEVICE_HOST_MEMORY) || i == ARRAY_LEN(kernels))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s (%s) takes no kernel by hand of that kind",
                         info->name, info->arch);
    snprintf(text, sizeof(text),
             "define void @%s(ptr %%args, ptr %%grid, i64 %%first, i64 %%last) "
             "{\n%s}\n",
             kernels[i].name, kernels[i].body);
    BELL_TRY(render_host_target(&target));
    BELL_TRY(render_host_ir(text, kernels[i].name, &target, &binary));
    *out_binary = (struct selftest_binary){binary.data, binary.size_bytes,
                                           kernels[i].name, 1, 1};
    return BELL_OK;
}
