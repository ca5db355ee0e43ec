/* Tests of AMD machine code alone: what backend_amdgpu.c has beside the
 * backend. */
#ifndef BELL_TESTS_RENDER_AMDGPU_CHECK_H
#define BELL_TESTS_RENDER_AMDGPU_CHECK_H

#include "amd_object.h"
#include "render/llvm/amdgpu.h"
#include "render_check.h"

/* All chips. */
extern const char *const amdgpu_chips[];
#define AMDGPU_N_CHIPS 5

/* For chip `idx`; buffers are aligned to 64 bytes. */
struct amdgpu_target amdgpu_check_target(unsigned idx);

/* Compiles the program for the chip and runs it on the buffers: backend.run. */
void amdgpu_check_run(const struct lower_program *p, unsigned chip,
                      const struct p_buf *bufs, uint32_t n_bufs,
                      const int64_t *vars, const char *what);

/* Compiles for one chip. The descriptor is looked at. */
void amdgpu_check_compile_on(const struct lower_program *p, unsigned chip,
                             const char *what);

#endif
