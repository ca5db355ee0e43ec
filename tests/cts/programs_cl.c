/* The suite's kernels for OpenCL, as source, and ways to break it. Kernels that
 * take an address that the host made up do not exist here: OpenCL 1.2's kernels
 * cannot use it. Nor has what does not end: nothing could stop it. */
#include <stdio.h>
#include <string.h>

#include "programs.h"

#define BUF(i)      "global uchar *b" #i ", ulong o" #i
#define AT(type, i) "((global " type " *)(b" #i " + o" #i "))"
#define HEAD        "kernel void cts_"
#define GROUP                                                                  \
    "    ulong g = get_group_id(0) + get_num_groups(0) * (get_group_id(1) +"   \
    " get_num_groups(1) * get_group_id(2));\n"
#define LOCAL_ID                                                               \
    "    uint l = get_local_id(0) + get_local_size(0) * (get_local_id(1) +"    \
    " get_local_size(1) * get_local_id(2));\n"

/* clang-format off */
static const char *const sources[CTS_KERNEL_COUNT] = {
    [CTS_NOP] = HEAD "nop(void)\n{\n}\n",
    [CTS_ADD_ONE] = HEAD "add_one(" BUF(0) ", " BUF(1) ", long n)\n{\n"
        "    long i, g = get_group_id(0);\n"
        "    for (i = g * n; i < (g + 1) * n; i++)\n"
        "        " AT("int", 0) "[i] = " AT("int", 1) "[i] + 1;\n}\n",
    [CTS_IDS] = HEAD "ids(" BUF(0) ")\n{\n" GROUP
        "    " AT("int", 0) "[g] += (int)(get_group_id(0) + 1000 *"
        " get_group_id(1) + 1000000 * get_group_id(2) + 1);\n}\n",
    [CTS_VALUES] = HEAD "values(" BUF(0) ", long a, long b, long c)\n{\n"
        "    " AT("long", 0) "[0] = a + 3 * b + 5 * c;\n}\n",
    [CTS_WORK] = HEAD "work(" BUF(0) ", long n)\n{\n"
        "    uint x = get_group_id(0);\n    long i;\n"
        "    for (i = 0; i < n; i++)\n"
        "        x = (x ^ x >> 15) * 1664525u + 1013904223u;\n"
        "    " AT("uint", 0) "[get_group_id(0)] = x;\n}\n",
    [CTS_STACK] = HEAD "stack(" BUF(0) ")\n{\n"
        "    volatile int a[32768];\n    int i, sum = 0;\n"
        "    for (i = 0; i < 32768; i++)\n        a[i] = i & 3;\n"
        "    for (i = 0; i < 32768; i++)\n        sum += a[i];\n"
        "    " AT("int", 0) "[0] = sum;\n}\n",
    [CTS_ITEMS] = HEAD "items(" BUF(0) ")\n{\n" GROUP LOCAL_ID
        "    ulong n = get_local_size(0) * get_local_size(1) *"
        " get_local_size(2);\n"
        "    " AT("int", 0) "[g * n + l] += (int)(get_local_id(0) + 1000 *"
        " get_local_id(1) + 1000000 * get_local_id(2) + 1);\n}\n",
    [CTS_REVERSE] = "kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
        "void cts_reverse(" BUF(0) ", " BUF(1) ")\n{\n"
        "    local int m[128];\n"
        "    uint i = get_local_id(0), g = get_group_id(0) * 128;\n"
        "    m[i] = " AT("int", 1) "[g + i];\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    " AT("int", 0) "[g + i] = m[127 - i];\n}\n",
    [CTS_DYNAMIC] = HEAD "dynamic(" BUF(0) ", local int *m)\n{\n"
        "    uint i = get_local_id(0), g = get_group_id(0) * 64;\n"
        "    m[i * 256] = (int)(g + i);\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    " AT("int", 0) "[g + i] = m[(i + 1) % 64 * 256];\n}\n",
    [CTS_COUNT] = HEAD "count(" BUF(0) ")\n{\n"
        "    volatile global uint *b = " AT("uint", 0) ";\n    uint old;\n"
        "    atomic_add(b, (uint)get_local_id(0) + 1);\n"
        "    old = atomic_inc(b + 1);\n"
        "    atomic_max(b + 2, old);\n}\n",
};
/* clang-format on */

static bool
find(enum cts_kernel kernel, unsigned variant, struct hcq_program_desc *desc)
{
    (void)variant;
    if (!sources[kernel])
        return false;
    desc->binary = sources[kernel];
    desc->binary_size_bytes = strlen(sources[kernel]);
    return true;
}

static bool
bad(unsigned idx, struct cts_bad *out)
{
    static const struct {
        const char *text, *entry, *expect;
    } rows[] = {
        {"kernel void cts_bad(void) { nonsense; }", NULL,
         "CL_BUILD_PROGRAM_FAILURE"},
        {"kernel void cts_bad(void) { }", "nowhere", "no entry 'nowhere'"},
        {"void cts_bad(void) { }", NULL, "cts_bad"},
        {"kernel void cts_bad(", NULL, "CL_BUILD_PROGRAM_FAILURE"},
        {"#error never\n", NULL, "never"},
        {"kernel void cts_bad(global uchar *b) { }", NULL,
         "the kernel has 1 arguments, not those of 0 + 0"},
        {"kernel __attribute__((reqd_work_group_size(7, 1, 1))) "
         "void cts_bad(void) { }",
         NULL, "groups of 7x1x1, not 1x1x1"},
        {"\177ELF\2\1\1\1 no binary of this device", NULL,
         "clCreateProgramWithBinary"},
        {"kernel void cts_bad(void) { int x = outside(3); }", NULL,
         "CL_BUILD_PROGRAM_FAILURE"},
    };

    if (idx >= sizeof(rows) / sizeof(rows[0]))
        return false;
    *out = (struct cts_bad){
        .data = rows[idx].text,
        .size_bytes = strlen(rows[idx].text),
        .entry = rows[idx].entry,
        .expect = rows[idx].expect,
    };
    return true;
}

const struct cts_provider cts_cl_provider = {
    .backend = "CL",
    /* OpenCL promises no turns between queues, and shares the host's memory
     * alone. */
    .lacks =
        CTS_LACK_TURNS | CTS_LACK_PEERS | CTS_LACK_EXPORTS | CTS_LACK_IMPORTS,
    .find = find,
    .n_variants = 1,
    .bad = bad,
};
