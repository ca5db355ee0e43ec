/* Runs kernels as people write them in the interpreter of sim/, on one buffer,
 * and keeps their texts for ptxas. A kernel takes (u64 buffer, u32 n). */
#ifndef BELL_TESTS_UNIT_PTX_RUN_H
#define BELL_TESTS_UNIT_PTX_RUN_H

#include "sim/ptx/ptx.h"

#define PTX_BASE 0x100000000ull

#define PTX_HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"
#define PTX_KERNEL(body)                                                       \
    PTX_HEAD ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n" body "\n}" \
             "\n"
/* %rd1: the buffer; %r1: the thread; %rd2: its 4-byte element; %r0: n */
#define PTX_START                                                              \
    ".reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .pred %p<8>; "                  \
    ".reg .f32 %f<16>;\n"                                                      \
    "ld.param.u64 %rd0, [p]; cvta.to.global.u64 %rd1, %rd0;\n"                 \
    "mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1;\n"                  \
    "ld.param.u32 %r0, [n];\n"

struct ptx_run {
    const struct sim_ptx_module *module; /* of the text; NULL: to be read */
    const char *text, *kernel;           /* NULL: the first */
    void *data;
    size_t data_bytes;
    uint32_t blocks, threads, n, dynamic_shared_bytes;
    uint32_t page_bytes;
    uint64_t max_warp_steps; /* 0: a million */
};

/* Runs it; the fault that it ends with. A text that is refused fails the
 * test. Variables of the module lie where the buffer ends. */
enum sim_ptx_fault ptx_run(const struct ptx_run *run,
                           struct sim_ptx_report *out_report);
/* Fails the test on a fault. */
void ptx_run_ok(const struct ptx_run *run);
/* Keeps a text; ptx_run_ok does so by itself with kernels named "k". */
void ptx_run_keep(const char *text);
/* Assembles what was kept, each for the chip that it names; returns how many,
 * 0 without ptxas. Frees them. */
uint32_t ptx_run_assemble(void);

#endif
