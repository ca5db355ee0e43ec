/* The suite's kernels as LLVM IR, for AMD cards and simulated ones. Written by
 * hand for LLVM 19; see programs.h for what each does. */
#ifndef BELL_TESTS_CTS_KERNELS_AMD_H
#define BELL_TESTS_CTS_KERNELS_AMD_H

#include "programs.h"

/* The module with one kernel, to be freed with free(). NULL: there is no such
 * kernel for AMD, whose integer divisions do not trap. */
char *amd_kernel(enum cts_kernel kernel);

/* Its entry, or NULL. */
const char *amd_kernel_name(enum cts_kernel kernel);

#endif
