/* Small kernels for tests of hcq/amd, compiled from LLVM's text. */
#ifndef BELL_TESTS_UNIT_AMD_KERNELS_H
#define BELL_TESTS_UNIT_AMD_KERNELS_H

#include "tests/unit/launch_rig.h"
#include "render/llvm/amdgpu.h"

/* All take the address `out` and a number `value`. */
struct amd_kernel {
    const char *name;
    uint32_t n_bufs, n_vals, shared_bytes;
    const char *text;
};

/* out[(((z * 2) + y) * 4 + x) * 8 + thread] = value + groups * 100 + threads,
 * both along x, as the compiler's own arguments tell them. */
extern const struct amd_kernel amd_shape_kernel;
/* out[t] = value + 63 - t + 7 * (63 - t), through LDS of both kinds. */
extern const struct amd_kernel amd_lds_kernel;
/* out[0] += value, whoever else does */
extern const struct amd_kernel amd_count_kernel;
/* The same, compiled for groups of up to 64. */
extern const struct amd_kernel amd_small_kernel;

/* For group g, one of 64: to[g] += from[(g + 1) % 64] + 1; `from` lies value %
 * 2^32 bytes behind out, `to` value / 2^32. */
extern const struct amd_kernel amd_step_kernel;
/* Group 1 waits for out[0] to be no longer 0. */
extern const struct amd_kernel amd_stuck_kernel;

/* The caller's: render_binary_fini. */
struct render_binary amd_kernel_build(const struct amd_kernel *k,
                                      const char *gfx);
/* Borrows the binary. */
struct hcq_program_desc amd_kernel_desc(const struct amd_kernel *k,
                                        const struct render_binary *binary);
struct hcq_program *amd_kernel_load(struct hcq_device *dev,
                                    const struct amd_kernel *k);
/* out[t] = value + t, with a stack of n words for each lane. */
struct hcq_program *amd_kernel_load_stack(struct hcq_device *dev, uint32_t n);

/* With the rig's buffer as `out`. */
void amd_kernel_exec(struct hcq_cs *cs, const struct rig *r,
                     const struct hcq_program *prog, uint64_t value,
                     const uint32_t grid[3], uint32_t threads);
void amd_kernel_exec_x(struct hcq_cs *cs, const struct rig *r,
                       const struct hcq_program *prog, uint64_t value,
                       uint32_t x, uint32_t threads);

#endif
