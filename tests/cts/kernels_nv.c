#include "kernels_nv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

struct kernel {
    const char *name;
    uint32_t n_params;
    const char *outside; /* variables of the module */
    const char *body;
    uint32_t shared_bytes, stack_bytes, n_barriers, reqntid[3];
    bool has_dynamic;
    const struct nv_container_var *vars;
    uint32_t n_vars;
};

/* As the .const and .global declarations of `sections`. */
static const int32_t squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
static const int32_t counter = 41;
static const struct nv_container_var section_vars[] = {
    {"squares", 32, 4, squares, true},
    {"counter", 4, 4, &counter, false},
    {"zeros", 4096, 4, NULL, false},
};

/* %r9 = linear work-group. */
#define LINEAR_GROUP                                                           \
    "\tmov.u32 %r0, %ctaid.x;\n"                                               \
    "\tmov.u32 %r1, %ctaid.y;\n"                                               \
    "\tmov.u32 %r2, %ctaid.z;\n"                                               \
    "\tmov.u32 %r3, %nctaid.x;\n"                                              \
    "\tmov.u32 %r4, %nctaid.y;\n"                                              \
    "\tmad.lo.u32 %r9, %r2, %r4, %r1;\n"                                       \
    "\tmad.lo.u32 %r9, %r9, %r3, %r0;\n"

static const struct kernel kernels[CTS_KERNEL_COUNT] = {
    [CTS_NOP] = {.name = "nop", .body = "", .reqntid = {1, 1, 1}},
    [CTS_ADD_ONE] =
        {
            .name = "add_one",
            .n_params = 3,
            .reqntid = {1, 1, 1},
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tld.param.u64 %rd1, [p1];\n"
                    "\tld.param.u64 %rd2, [p2];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tcvta.to.global.u64 %rd1, %rd1;\n"
                    "\tmov.u32 %r0, %ctaid.x;\n"
                    "\tcvt.u64.u32 %rd3, %r0;\n"
                    "\tmul.lo.u64 %rd3, %rd3, %rd2;\n"
                    "\tshl.b64 %rd3, %rd3, 2;\n"
                    "\tadd.u64 %rd0, %rd0, %rd3;\n"
                    "\tadd.u64 %rd1, %rd1, %rd3;\n"
                    "\tsetp.eq.u64 %p0, %rd2, 0;\n"
                    "\t@%p0 bra $end;\n"
                    "$loop:\n"
                    "\tld.global.u32 %r1, [%rd1];\n"
                    "\tadd.u32 %r1, %r1, 1;\n"
                    "\tst.global.u32 [%rd0], %r1;\n"
                    "\tadd.u64 %rd0, %rd0, 4;\n"
                    "\tadd.u64 %rd1, %rd1, 4;\n"
                    "\tsub.u64 %rd2, %rd2, 1;\n"
                    "\tsetp.ne.u64 %p1, %rd2, 0;\n"
                    "\t@%p1 bra $loop;\n"
                    "$end:\n",
        },
    [CTS_IDS] =
        {
            .name = "ids",
            .n_params = 1,
            .reqntid = {1, 1, 1},
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n" LINEAR_GROUP
                    "\tmul.wide.u32 %rd1, %r9, 4;\n"
                    "\tadd.u64 %rd0, %rd0, %rd1;\n"
                    "\tld.global.u32 %r5, [%rd0];\n"
                    "\tadd.u32 %r5, %r5, %r0;\n"
                    "\tmad.lo.u32 %r5, %r1, 1000, %r5;\n"
                    "\tmad.lo.u32 %r5, %r2, 1000000, %r5;\n"
                    "\tadd.u32 %r5, %r5, 1;\n"
                    "\tst.global.u32 [%rd0], %r5;\n",
        },
    [CTS_VALUES] =
        {
            .name = "values",
            .n_params = 4,
            .reqntid = {1, 1, 1},
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tld.param.u64 %rd1, [p1];\n"
                    "\tld.param.u64 %rd2, [p2];\n"
                    "\tld.param.u64 %rd3, [p3];\n"
                    "\tmad.lo.s64 %rd1, %rd2, 3, %rd1;\n"
                    "\tmad.lo.s64 %rd1, %rd3, 5, %rd1;\n"
                    "\tst.global.u64 [%rd0], %rd1;\n",
        },
    /* The body is written by put_many. */
    [CTS_MANY] =
        {
            .name = "many",
            .n_params = HCQ_ARGS_MAX,
            .reqntid = {1, 1, 1},
        },
    [CTS_SPIN] =
        {
            .name = "spin",
            .n_params = 1,
            .reqntid = {1, 1, 1},
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "$loop:\n"
                    "\tld.volatile.global.u32 %r0, [%rd0];\n"
                    "\tsetp.eq.u32 %p0, %r0, 0;\n"
                    "\t@%p0 bra $loop;\n",
        },
    [CTS_WORK] =
        {
            .name = "work",
            .n_params = 2,
            .reqntid = {1, 1, 1},
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tld.param.u64 %rd1, [p1];\n"
                    "\tmov.u32 %r0, %ctaid.x;\n"
                    "\tmul.wide.u32 %rd2, %r0, 4;\n"
                    "\tadd.u64 %rd0, %rd0, %rd2;\n"
                    "\tsetp.eq.u64 %p0, %rd1, 0;\n"
                    "\t@%p0 bra $end;\n"
                    "$loop:\n"
                    "\tshr.u32 %r1, %r0, 15;\n"
                    "\txor.b32 %r0, %r0, %r1;\n"
                    "\tmad.lo.u32 %r0, %r0, 1664525, 1013904223;\n"
                    "\tsub.u64 %rd1, %rd1, 1;\n"
                    "\tsetp.ne.u64 %p1, %rd1, 0;\n"
                    "\t@%p1 bra $loop;\n"
                    "$end:\n"
                    "\tst.global.u32 [%rd0], %r0;\n",
        },
    [CTS_POKE] =
        {
            .name = "poke",
            .n_params = 3,
            .reqntid = {1, 1, 1},
            .body = "\tld.param.u64 %rd0, [p1];\n"
                    "\tld.param.u64 %rd1, [p2];\n"
                    "\tcvta.to.global.u64 %rd1, %rd1;\n"
                    "\tmov.u32 %r0, %ctaid.x;\n"
                    "\tcvt.u64.u32 %rd2, %r0;\n"
                    "\tsetp.ne.u64 %p0, %rd0, %rd2;\n"
                    "\t@%p0 bra $end;\n"
                    "\tmov.u32 %r1, 1;\n"
                    "\tst.volatile.global.u32 [%rd1], %r1;\n"
                    "$end:\n",
        },
    [CTS_TRAP] = {.name = "trap", .body = "\ttrap;\n", .reqntid = {1, 1, 1}},
    /* b0[i] = pick(i): see cts_pick in kernels_cpu.c. A table of addresses is
     * not among the cases: what it would hold is of the loader's making. */
    [CTS_SECTIONS] =
        {
            .name = "sections",
            .n_params = 1,
            .reqntid = {1, 1, 1},
            .vars = section_vars,
            .n_vars = ARRAY_LEN(section_vars),
            .outside = ".const .align 4 .b32 squares[8] = "
                       "{0, 1, 4, 9, 16, 25, 36, 49};\n"
                       ".global .align 4 .b32 counter[1] = {41};\n"
                       ".global .align 4 .b32 zeros[1024];\n",
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tmov.u64 %rd2, zeros;\n"
                    "\tmov.u64 %rd3, squares;\n"
                    "\tmov.u32 %r0, 0;\n"
                    "$next:\n"
                    "\tsetp.eq.u32 %p0, %r0, 0;\n"
                    "\t@%p0 bra $case0;\n"
                    "\tsetp.eq.u32 %p0, %r0, 1;\n"
                    "\t@%p0 bra $case1;\n"
                    "\tsetp.eq.u32 %p0, %r0, 2;\n"
                    "\t@%p0 bra $case2;\n"
                    "\tsetp.eq.u32 %p0, %r0, 3;\n"
                    "\t@%p0 bra $case3;\n"
                    "\tsetp.eq.u32 %p0, %r0, 4;\n"
                    "\t@%p0 bra $case4;\n"
                    "\tsetp.eq.u32 %p0, %r0, 5;\n"
                    "\t@%p0 bra $case5;\n"
                    "\tmov.u32 %r1, -1;\n"
                    "\tbra $store;\n"
                    "$case0:\n"
                    "\tld.const.u32 %r1, [squares+28];\n"
                    "\tbra $store;\n"
                    "$case1:\n"
                    "\tld.global.u32 %r1, [counter];\n"
                    "\tbra $store;\n"
                    "$case2:\n" /* an address that is computed */
                    "\tmul.wide.u32 %rd4, %r0, 6;\n"
                    "\tadd.u64 %rd4, %rd3, %rd4;\n"
                    "\tld.const.u32 %r1, [%rd4];\n"
                    "\tbra $store;\n"
                    "$case3:\n"
                    "\tmov.u64 %rd4, counter;\n"
                    "\tld.global.u32 %r1, [%rd4];\n"
                    "\tadd.u32 %r1, %r1, 1;\n"
                    "\tbra $store;\n"
                    "$case4:\n"
                    "\tld.global.u32 %r1, [%rd2+4092];\n"
                    "\tbra $store;\n"
                    "$case5:\n"
                    "\tmov.u32 %r1, 32;\n"
                    "$store:\n"
                    "\tst.global.u32 [%rd0], %r1;\n"
                    "\tadd.u64 %rd0, %rd0, 4;\n"
                    "\tadd.u32 %r0, %r0, 1;\n"
                    "\tsetp.lt.u32 %p0, %r0, 7;\n"
                    "\t@%p0 bra $next;\n"
                    "\tld.global.u32 %r2, [%rd2+4092];\n"
                    "\tadd.u32 %r2, %r2, 1;\n"
                    "\tst.global.u32 [%rd2+4092], %r2;\n",
        },
    [CTS_STACK] =
        {
            .name = "stack",
            .n_params = 1,
            .reqntid = {1, 1, 1},
            .stack_bytes = 131072,
            .body = "\t.local .align 4 .b8 array[131072];\n"
                    "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tmov.u64 %rd1, array;\n"
                    "\tmov.u64 %rd2, %rd1;\n"
                    "\tmov.u32 %r0, 0;\n"
                    "$fill:\n"
                    "\tand.b32 %r1, %r0, 3;\n"
                    "\tst.local.u32 [%rd2], %r1;\n"
                    "\tadd.u64 %rd2, %rd2, 4;\n"
                    "\tadd.u32 %r0, %r0, 1;\n"
                    "\tsetp.lt.u32 %p0, %r0, 32768;\n"
                    "\t@%p0 bra $fill;\n"
                    "\tmov.u64 %rd2, %rd1;\n"
                    "\tmov.u32 %r0, 0;\n"
                    "\tmov.u32 %r2, 0;\n"
                    "$sum:\n"
                    "\tld.local.u32 %r1, [%rd2];\n"
                    "\tadd.u32 %r2, %r2, %r1;\n"
                    "\tadd.u64 %rd2, %rd2, 4;\n"
                    "\tadd.u32 %r0, %r0, 1;\n"
                    "\tsetp.lt.u32 %p0, %r0, 32768;\n"
                    "\t@%p0 bra $sum;\n"
                    "\tst.global.u32 [%rd0], %r2;\n",
        },
    [CTS_ITEMS] =
        {
            .name = "items",
            .n_params = 1,
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n" LINEAR_GROUP
                    "\tmov.u32 %r0, %tid.x;\n"
                    "\tmov.u32 %r1, %tid.y;\n"
                    "\tmov.u32 %r2, %tid.z;\n"
                    "\tmov.u32 %r3, %ntid.x;\n"
                    "\tmov.u32 %r4, %ntid.y;\n"
                    "\tmov.u32 %r5, %ntid.z;\n"
                    "\tmad.lo.u32 %r9, %r9, %r5, %r2;\n"
                    "\tmad.lo.u32 %r9, %r9, %r4, %r1;\n"
                    "\tmad.lo.u32 %r9, %r9, %r3, %r0;\n"
                    "\tmul.wide.u32 %rd1, %r9, 4;\n"
                    "\tadd.u64 %rd0, %rd0, %rd1;\n"
                    "\tld.global.u32 %r6, [%rd0];\n"
                    "\tadd.u32 %r6, %r6, %r0;\n"
                    "\tmad.lo.u32 %r6, %r1, 1000, %r6;\n"
                    "\tmad.lo.u32 %r6, %r2, 1000000, %r6;\n"
                    "\tadd.u32 %r6, %r6, 1;\n"
                    "\tst.global.u32 [%rd0], %r6;\n",
        },
    [CTS_REVERSE] =
        {
            .name = "reverse",
            .n_params = 2,
            .reqntid = {128, 1, 1},
            .shared_bytes = 512,
            .n_barriers = 1,
            .body = "\t.shared .align 4 .b8 room[512];\n"
                    "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tld.param.u64 %rd1, [p1];\n"
                    "\tcvta.to.global.u64 %rd1, %rd1;\n"
                    "\tmov.u32 %r0, %ctaid.x;\n"
                    "\tmov.u32 %r1, %tid.x;\n"
                    "\tmad.lo.u32 %r2, %r0, 128, %r1;\n"
                    "\tmul.wide.u32 %rd2, %r2, 4;\n"
                    "\tadd.u64 %rd0, %rd0, %rd2;\n"
                    "\tadd.u64 %rd1, %rd1, %rd2;\n"
                    "\tmov.u32 %r3, room;\n"
                    "\tmad.lo.u32 %r4, %r1, 4, %r3;\n"
                    "\tld.global.u32 %r5, [%rd1];\n"
                    "\tst.shared.u32 [%r4], %r5;\n"
                    "\tbar.sync 0;\n"
                    "\tsub.u32 %r6, 127, %r1;\n"
                    "\tmad.lo.u32 %r4, %r6, 4, %r3;\n"
                    "\tld.shared.u32 %r5, [%r4];\n"
                    "\tst.global.u32 [%rd0], %r5;\n",
        },
    [CTS_DYNAMIC] =
        {
            .name = "dynamic",
            .n_params = 1,
            .reqntid = {64, 1, 1},
            .has_dynamic = true,
            .n_barriers = 1,
            .outside = ".extern .shared .align 16 .b8 room[];\n",
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tmov.u32 %r0, %ctaid.x;\n"
                    "\tmov.u32 %r1, %tid.x;\n"
                    "\tmad.lo.u32 %r2, %r0, 64, %r1;\n"
                    "\tmul.wide.u32 %rd1, %r2, 4;\n"
                    "\tadd.u64 %rd0, %rd0, %rd1;\n"
                    "\tmov.u32 %r3, room;\n"
                    "\tmad.lo.u32 %r4, %r1, 1024, %r3;\n"
                    "\tst.shared.u32 [%r4+1020], %r2;\n"
                    "\tbar.sync 0;\n"
                    "\tadd.u32 %r5, %r1, 1;\n"
                    "\tand.b32 %r5, %r5, 63;\n"
                    "\tmad.lo.u32 %r4, %r5, 1024, %r3;\n"
                    "\tld.shared.u32 %r6, [%r4+1020];\n"
                    "\tst.global.u32 [%rd0], %r6;\n",
        },
    [CTS_COUNT] =
        {
            .name = "count",
            .n_params = 1,
            .body = "\tld.param.u64 %rd0, [p0];\n"
                    "\tcvta.to.global.u64 %rd0, %rd0;\n"
                    "\tmov.u32 %r0, %tid.x;\n"
                    "\tadd.u32 %r0, %r0, 1;\n"
                    "\tred.global.add.u32 [%rd0], %r0;\n"
                    "\tatom.global.add.u32 %r1, [%rd0+4], 1;\n"
                    "\tatom.global.max.u32 %r2, [%rd0+8], %r1;\n",
        },
};

/* A text of bounded length. */
struct text {
    char *at;
    size_t left;
};

static void
put(struct text *t, const char *s)
{
    size_t n = strlen(s);

    if (n >= t->left)
        abort(); /* the bound below is wrong */
    memcpy(t->at, s, n + 1);
    t->at += n;
    t->left -= n;
}

static void
put_number(struct text *t, const char *before, unsigned n, const char *after)
{
    char line[128];

    snprintf(line, sizeof(line), "%s%u%s", before, n, after);
    put(t, line);
}

static void
put_many(struct text *t)
{
    unsigned i;

    put(t, "\tld.param.u64 %rd0, [p0];\n\tcvta.to.global.u64 %rd0, %rd0;\n"
           "\tmov.u64 %rd1, 0;\n");
    for (i = 1; i < HCQ_ARGS_MAX; i++) {
        put_number(t, "\tld.param.u64 %rd2, [p", i, "];\n");
        put_number(t, "\tmad.lo.s64 %rd1, %rd2, ", i, ", %rd1;\n");
    }
    put(t, "\tst.global.u64 [%rd0], %rd1;\n");
}

static void
put_head(struct text *t, const struct kernel *k, uint32_t sm)
{
    /* src: docs/hardware/nvidia-code.md, "PTX versions" */
    unsigned version = sm >= 120   ? 87
                       : sm >= 100 ? 86
                       : sm >= 89  ? 78
                       : sm >= 86  ? 71
                                   : 70;
    unsigned i;

    put_number(t, ".version ", version / 10, ".");
    put_number(t, "", version % 10, "\n");
    put_number(t, ".target sm_", sm, "\n.address_size 64\n\n");
    put(t, k->outside ? k->outside : "");
    put(t, ".visible .entry ");
    put(t, k->name);
    put(t, "(");
    for (i = 0; i < k->n_params; i++)
        put_number(t, i ? ",\n\t.param .u64 p" : "\n\t.param .u64 p", i, "");
    put(t, ")\n");
    if (k->reqntid[0]) {
        put_number(t, ".reqntid ", k->reqntid[0], ", ");
        put_number(t, "", k->reqntid[1], ", ");
        put_number(t, "", k->reqntid[2], "\n");
    }
    put(t, "{\n\t.reg .pred %p<4>;\n\t.reg .b32 %r<16>;\n"
           "\t.reg .b64 %rd<8>;\n");
}

const char *
nv_kernel_name(enum cts_kernel kernel)
{
    return kernels[kernel].name;
}

bool
nv_kernel(enum cts_kernel kernel, uint32_t sm,
          struct nv_container_desc *out_desc, char **out_text)
{
    const struct kernel *k = &kernels[kernel];
    struct text t = {NULL, 64u << 10};

    if (!k->name)
        return false;
    t.at = *out_text = malloc(t.left);
    if (!t.at)
        abort();
    put_head(&t, k, sm);
    if (kernel == CTS_MANY)
        put_many(&t);
    else
        put(&t, k->body);
    put(&t, "\tret;\n}\n");
    *out_desc = (struct nv_container_desc){
        .text = *out_text,
        .entry = k->name,
        .sm = sm,
        .n_params = k->n_params,
        .shared_bytes = k->shared_bytes,
        .has_dynamic = k->has_dynamic,
        .stack_bytes = k->stack_bytes,
        .n_regs = 32,
        .n_barriers = k->n_barriers,
        .reqntid = {k->reqntid[0], k->reqntid[1], k->reqntid[2]},
        .vars = k->vars,
        .n_vars = k->n_vars,
    };
    return true;
}
