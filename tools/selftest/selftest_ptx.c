/* Selftest: kernels by hand, in PTX; assembled by ptxas for cards, packed for
 * simulated ones. Every parameter is 64 bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "render/ptx/nv_container.h"
#include "tools/selftest/selftest.h"

#define TEXT_BYTES 8192

struct ptx_kernel {
    const char *name;
    uint32_t n_bufs, n_vals;
    const char *outside; /* of the entry: declarations */
    const char *body;
    uint32_t shared_bytes, stack_bytes, n_barriers;
    bool has_dynamic;
};

/* clang-format off */

/* %r10: number of this thread in its block; %r11: of threads in a block;
 * %r12: number of this block; %r13: number of this thread in the grid. */
#define NUMBERS                                                                \
    "mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z;\n"         \
    "mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y; mov.u32 %r5, %ntid.z;\n"      \
    "mad.lo.u32 %r10, %r2, %r4, %r1; mad.lo.u32 %r10, %r10, %r3, %r0;\n"       \
    "mul.lo.u32 %r11, %r3, %r4; mul.lo.u32 %r11, %r11, %r5;\n"                 \
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z;\n"   \
    "mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;\n"                        \
    "mad.lo.u32 %r12, %r2, %r4, %r1; mad.lo.u32 %r12, %r12, %r3, %r0;\n"       \
    "mad.lo.u32 %r13, %r12, %r11, %r10;\n"

#define LOAD_PARAMS                                                            \
    "ld.param.u64 %rd0, [p0]; cvta.to.global.u64 %rd0, %rd0;\n"                \
    "ld.param.u64 %rd1, [p1];\n"

/* A word to %rd0 + 12 * 4 * thread + at */
#define STORE_SPECIAL(name, at)                                                \
    "mov.u32 %r20, " name "; st.global.u32 [%rd2+" at "], %r20;\n"

#define READ                                                                   \
    "and.b32 %r21, %r21, 4080; add.u32 %r22, %r20, %r21;\n"                    \
    "ld.shared.v4.u32 {%r23, %r24, %r25, %r26}, [%r22];\n"                     \
    "add.u32 %r23, %r23, %r24; add.u32 %r25, %r25, %r26;\n"                    \
    "add.u32 %r23, %r23, %r25; add.u32 %r28, %r28, %r23;\n"                    \
    "add.u32 %r21, %r21, 16;\n"

static const struct ptx_kernel kernels[SELFTEST_KERNEL_COUNT] = {
    [SELFTEST_STORE] = {"st_store", 1, 1, "",
        LOAD_PARAMS
        "st.global.u64 [%rd0], %rd1;\n", 0, 0, 0, false},
    [SELFTEST_NUMBER] = {"st_number", 1, 1, "",
        LOAD_PARAMS NUMBERS
        "cvt.u32.u64 %r20, %rd1; mad.lo.u32 %r21, %r13, 3, %r20;\n"
        "mul.wide.u32 %rd2, %r13, 4; add.u64 %rd2, %rd0, %rd2;\n"
        "st.global.u32 [%rd2], %r21;\n", 0, 0, 0, false},
    [SELFTEST_DIMS] = {"st_dims", 1, 0, "",
        "ld.param.u64 %rd0, [p0]; cvta.to.global.u64 %rd0, %rd0;\n"
        NUMBERS
        "mul.wide.u32 %rd2, %r13, 48; add.u64 %rd2, %rd0, %rd2;\n"
        STORE_SPECIAL("%tid.x", "0") STORE_SPECIAL("%tid.y", "4")
        STORE_SPECIAL("%tid.z", "8") STORE_SPECIAL("%ctaid.x", "12")
        STORE_SPECIAL("%ctaid.y", "16") STORE_SPECIAL("%ctaid.z", "20")
        STORE_SPECIAL("%ntid.x", "24") STORE_SPECIAL("%ntid.y", "28")
        STORE_SPECIAL("%ntid.z", "32") STORE_SPECIAL("%nctaid.x", "36")
        STORE_SPECIAL("%nctaid.y", "40") STORE_SPECIAL("%nctaid.z", "44"),
        0, 0, 0, false},
    /* Blocks of 256. */
    [SELFTEST_SHARED] = {"st_shared", 2, 0, "",
        ".shared .align 4 .b8 tile[1024];\n"
        LOAD_PARAMS "cvta.to.global.u64 %rd1, %rd1;\n" NUMBERS
        "mul.wide.u32 %rd2, %r13, 4; add.u64 %rd3, %rd1, %rd2;\n"
        "ld.global.u32 %r20, [%rd3];\n"
        "mov.u32 %r21, tile; shl.b32 %r22, %r10, 2;\n"
        "add.u32 %r22, %r21, %r22; st.shared.u32 [%r22], %r20;\n"
        "bar.sync 0;\n"
        "sub.u32 %r23, %r11, %r10; sub.u32 %r23, %r23, 1;\n"
        "shl.b32 %r23, %r23, 2; add.u32 %r23, %r21, %r23;\n"
        "ld.shared.u32 %r24, [%r23];\n"
        "add.u64 %rd3, %rd0, %rd2; st.global.u32 [%rd3], %r24;\n",
        1024, 0, 1, false},
    /* Every thread fills its share of the p1 bytes with its address, a word at
     * a time; after the barrier each adds up what the next thread wrote. */
    [SELFTEST_DYNAMIC] = {"st_dynamic", 1, 1,
        ".extern .shared .align 16 .b8 pool[];\n",
        LOAD_PARAMS NUMBERS
        "cvt.u32.u64 %r20, %rd1; mov.u32 %r21, pool;\n"
        "shl.b32 %r22, %r10, 2; shl.b32 %r23, %r11, 2;\n"
        "$fill: setp.ge.u32 %p0, %r22, %r20; @%p0 bra $filled;\n"
        "add.u32 %r24, %r21, %r22; mad.lo.u32 %r25, %r12, 7, %r22;\n"
        "st.shared.u32 [%r24], %r25;\n"
        "add.u32 %r22, %r22, %r23; bra $fill;\n"
        "$filled: bar.sync 0;\n"
        "add.u32 %r26, %r10, 1; rem.u32 %r26, %r26, %r11;\n"
        "shl.b32 %r22, %r26, 2; mov.u32 %r27, 0;\n"
        "$sum: setp.ge.u32 %p1, %r22, %r20; @%p1 bra $summed;\n"
        "add.u32 %r24, %r21, %r22; ld.shared.u32 %r25, [%r24];\n"
        "add.u32 %r27, %r27, %r25;\n"
        "add.u32 %r22, %r22, %r23; bra $sum;\n"
        "$summed: mul.wide.u32 %rd2, %r12, 4; add.u64 %rd2, %rd0, %rd2;\n"
        "red.global.add.u32 [%rd2], %r27;\n", 0, 0, 1, true},
    /* array[i] = i * 5 + thread; then the sum in an order that the compiler
     * cannot see through. */
    [SELFTEST_STACK] = {"st_stack", 1, 1, "",
        ".local .align 16 .b8 array[1024];\n"
        LOAD_PARAMS NUMBERS
        "mov.u64 %rd4, array; mov.u32 %r20, 0;\n"
        "$write: mad.lo.u32 %r21, %r20, 5, %r13;\n"
        "mul.wide.u32 %rd5, %r20, 4; add.u64 %rd5, %rd4, %rd5;\n"
        "st.local.u32 [%rd5], %r21; add.u32 %r20, %r20, 1;\n"
        "setp.lt.u32 %p0, %r20, 256; @%p0 bra $write;\n"
        "cvt.u32.u64 %r22, %rd1; mov.u32 %r20, 0; mov.u32 %r23, 0;\n"
        "$read: and.b32 %r24, %r22, 255; mul.wide.u32 %rd5, %r24, 4;\n"
        "add.u64 %rd5, %rd4, %rd5; ld.local.u32 %r25, [%rd5];\n"
        "add.u32 %r23, %r23, %r25; add.u32 %r22, %r22, 77;\n"
        "add.u32 %r20, %r20, 1; setp.lt.u32 %p1, %r20, 256;\n"
        "@%p1 bra $read;\n"
        "mul.wide.u32 %rd2, %r13, 4; add.u64 %rd2, %rd0, %rd2;\n"
        "st.global.u32 [%rd2], %r23;\n", 0, 1024, 0, false},
    /* Blocks of at most 1024: a value goes 64 places around the block. */
    [SELFTEST_BARRIERS] = {"st_barriers", 1, 1, "",
        ".shared .align 4 .b8 ring[4096];\n"
        LOAD_PARAMS NUMBERS
        "mov.u32 %r20, ring; shl.b32 %r21, %r10, 2;\n"
        "add.u32 %r21, %r20, %r21;\n"
        "add.u32 %r22, %r10, 1; rem.u32 %r22, %r22, %r11;\n"
        "shl.b32 %r22, %r22, 2; add.u32 %r22, %r20, %r22;\n"
        "cvt.u32.u64 %r23, %rd1; add.u32 %r24, %r13, %r23;\n"
        "mov.u32 %r25, 0;\n"
        "$round: st.shared.u32 [%r21], %r24; bar.sync 0;\n"
        "ld.shared.u32 %r24, [%r22]; bar.sync 0;\n"
        "add.u32 %r25, %r25, 1; setp.lt.u32 %p0, %r25, 64;\n"
        "@%p0 bra $round;\n"
        "mul.wide.u32 %rd2, %r13, 4; add.u64 %rd2, %rd0, %rd2;\n"
        "st.global.u32 [%rd2], %r24;\n", 4096, 0, 1, false},
    /* p0[0] += 1 by every thread; p0[1] += what the block counted in shared
     * memory; p0[2] by compare-and-swap in thread 0 of each block; p0[3] the
     * largest number. */
    [SELFTEST_ATOMICS] = {"st_atomics", 1, 0, "",
        ".shared .align 4 .b8 count[4];\n"
        "ld.param.u64 %rd0, [p0]; cvta.to.global.u64 %rd0, %rd0;\n" NUMBERS
        "setp.ne.u32 %p0, %r10, 0; mov.u32 %r20, 0; mov.u32 %r26, count;\n"
        "@!%p0 st.shared.u32 [%r26], %r20;\n"
        "bar.sync 0;\n"
        "atom.global.add.u32 %r21, [%rd0], 1;\n"
        "atom.shared.add.u32 %r22, [%r26], 2;\n"
        "atom.global.max.u32 %r23, [%rd0+12], %r13;\n"
        "bar.sync 0;\n"
        "@%p0 ret;\n"
        "ld.shared.u32 %r22, [%r26]; red.global.add.u32 [%rd0+4], %r22;\n"
        "ld.global.u32 %r23, [%rd0+8];\n"
        "$again: add.u32 %r24, %r23, 5;\n"
        "atom.global.cas.b32 %r25, [%rd0+8], %r23, %r24;\n"
        "setp.eq.u32 %p1, %r25, %r23; mov.u32 %r23, %r25;\n"
        "@!%p1 bra $again;\n", 4, 0, 1, false},
    [SELFTEST_WIDE] = {"st_wide", 2, 0, "",
        LOAD_PARAMS "cvta.to.global.u64 %rd1, %rd1;\n" NUMBERS
        "mul.wide.u32 %rd2, %r13, 16; add.u64 %rd3, %rd1, %rd2;\n"
        "ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd3];\n"
        "add.u64 %rd3, %rd0, %rd2;\n"
        "st.global.v4.u32 [%rd3], {%r20, %r21, %r22, %r23};\n",
        0, 0, 0, false},
    [SELFTEST_SPIN] = {"st_spin", 1, 0, "",
        "ld.param.u64 %rd0, [p0]; cvta.to.global.u64 %rd0, %rd0;\n"
        "$loop: ld.volatile.global.u32 %r0, [%rd0];\n"
        "setp.eq.u32 %p0, %r0, 0; @%p0 bra $loop;\n", 0, 0, 0, false},
    [SELFTEST_LOAD] = {"st_load", 1, 1, "",
        LOAD_PARAMS "cvta.to.global.u64 %rd1, %rd1;\n"
        "ld.global.u64 %rd2, [%rd1]; st.global.u64 [%rd0], %rd2;\n",
        0, 0, 0, false},
    [SELFTEST_STEP] = {"st_step", 1, 1, "",
        LOAD_PARAMS "cvta.to.global.u64 %rd1, %rd1;\n"
        "mov.u32 %r0, %ctaid.x; add.u32 %r1, %r0, 1; and.b32 %r1, %r1, 511;\n"
        "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;\n"
        "mul.wide.u32 %rd3, %r0, 4; add.u64 %rd3, %rd0, %rd3;\n"
        "ld.global.u32 %r2, [%rd2]; ld.global.u32 %r3, [%rd3];\n"
        "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, 1;\n"
        "st.global.u32 [%rd3], %r2;\n", 0, 0, 0, false},
    [SELFTEST_COUNT] = {"st_count", 1, 1, "",
        LOAD_PARAMS
        "ld.global.u64 %rd2, [%rd0]; add.u64 %rd2, %rd2, %rd1;\n"
        "st.global.u64 [%rd0], %rd2;\n", 0, 0, 0, false},
    [SELFTEST_CHASE] = {"st_chase", 1, 1, "",
        LOAD_PARAMS "mov.u64 %rd2, 0;\n"
        "$step: add.u64 %rd3, %rd0, %rd2; ld.global.u64 %rd2, [%rd3];\n"
        "sub.u64 %rd1, %rd1, 1; setp.ne.u64 %p0, %rd1, 0; @%p0 bra $step;\n"
        "st.global.u64 [%rd0+8], %rd2;\n", 0, 0, 0, false},
    [SELFTEST_READS] = {"st_reads", 1, 1, "",
        ".shared .align 16 .b8 pool[4096];\n"
        LOAD_PARAMS NUMBERS
        "mov.u32 %r20, pool; shl.b32 %r21, %r10, 4;\n"
        "add.u32 %r22, %r20, %r21; shl.b32 %r23, %r10, 2;\n"
        "add.u32 %r24, %r23, 1; add.u32 %r25, %r23, 2;\n"
        "add.u32 %r26, %r23, 3;\n"
        "st.shared.v4.u32 [%r22], {%r23, %r24, %r25, %r26};\n"
        "bar.sync 0; cvt.u32.u64 %r27, %rd1; mov.u32 %r28, 0;\n"
        "$round: " READ READ READ READ
        "sub.u32 %r27, %r27, 1; setp.ne.u32 %p0, %r27, 0; @%p0 bra $round;\n"
        "mul.wide.u32 %rd2, %r13, 4; add.u64 %rd2, %rd0, %rd2;\n"
        "st.global.u32 [%rd2], %r28;\n", 4096, 0, 1, false},
};

/* clang-format on */

static bell_status
write_text(const struct ptx_kernel *kernel, const struct ptx_target *target,
           char *text, size_t cap)
{
    unsigned version = render_ptx_version(target);
    uint32_t n = kernel->n_bufs + kernel->n_vals;
    int used;

    used = snprintf(
        text, cap,
        ".version %u.%u\n.target sm_%u\n.address_size 64\n%s"
        ".visible .entry %s(.param .u64 p0%s)\n{\n"
        ".reg .pred %%p<4>; .reg .b32 %%r<32>; .reg .b64 %%rd<8>;\n%sret;\n}\n",
        version / 10, version % 10, target->sm, kernel->outside, kernel->name,
        n > 1 ? ", .param .u64 p1" : "", kernel->body);
    if (used < 0 || (size_t)used >= cap)
        return bell_fail(BELL_E_INTERNAL, "%s: more than %zu bytes of PTX",
                         kernel->name, cap);
    return BELL_OK;
}

static bell_status
make_binary(const struct ptx_kernel *kernel, const char *text,
            const struct ptx_target *target, bool is_simulated,
            struct render_binary *out)
{
    struct nv_container_desc desc = {
        .text = text,
        .entry = kernel->name,
        .sm = target->sm,
        .n_params = kernel->n_bufs + kernel->n_vals,
        .shared_bytes = kernel->shared_bytes,
        .has_dynamic = kernel->has_dynamic,
        .stack_bytes = kernel->stack_bytes,
        .n_regs = 40,
        .n_barriers = kernel->n_barriers,
    };

    return is_simulated ? render_nv_container(&desc, out)
                        : render_ptxas(text, target, out);
}

bell_status
selftest_kernel_binary(const struct hcq_device_info *info,
                       enum selftest_kernel kernel,
                       struct selftest_binary *out_binary)
{
    const struct ptx_kernel *k = &kernels[kernel];
    struct render_binary binary;
    struct ptx_target target;
    char text[TEXT_BYTES];

    if (strncmp(info->arch, "gfx", 3) == 0)
        return selftest_llvm_binary(info, kernel, out_binary);
    if (!render_ptx_target(info->arch, &target) || !render_ptx_version(&target))
        return selftest_host_binary(info, kernel, out_binary);
    target.is_arch_specific = false;
    BELL_TRY(write_text(k, &target, text, sizeof(text)));
    BELL_TRY(make_binary(k, text, &target,
                         (info->flags & HCQ_DEVICE_SIMULATED) != 0, &binary));
    *out_binary = (struct selftest_binary){binary.data, binary.size_bytes,
                                           k->name, k->n_bufs, k->n_vals};
    return BELL_OK;
}
