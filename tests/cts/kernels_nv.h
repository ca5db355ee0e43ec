/* The suite's kernels as PTX, for NVIDIA cards and simulated ones. Written by
 * hand for sm_80 and later; see programs.h for what each does. */
#ifndef BELL_TESTS_CTS_KERNELS_NV_H
#define BELL_TESTS_CTS_KERNELS_NV_H

#include "programs.h"
#include "render/ptx/nv_container.h"

/* The module with one kernel for that chip, in memory of the caller's that is
 * freed with free(); the descriptor's text and arrays are part of it or live
 * for ever. False: there is no such kernel for NVIDIA. */
bool nv_kernel(enum cts_kernel kernel, uint32_t sm,
               struct nv_container_desc *out_desc, char **out_text);

/* Its entry, or NULL. */
const char *nv_kernel_name(enum cts_kernel kernel);

#endif
