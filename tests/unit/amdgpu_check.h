/* Runs programs as AMD machine code in the interpreter of sim/ and in that of
 * p_interp.h and compares every buffer. */
#ifndef BELL_TESTS_UNIT_AMDGPU_CHECK_H
#define BELL_TESTS_UNIT_AMDGPU_CHECK_H

#include "amd_object.h"
#include "p_interp.h"
#include "render/llvm/amdgpu.h"

#define AMDGPU_CHECK_MAX_BUFS 8

/* All chips. */
extern const char *const amdgpu_chips[];
#define AMDGPU_N_CHIPS 5

/* For chip `idx`; buffers are aligned to 64 bytes. */
struct amdgpu_target amdgpu_check_target(unsigned idx);

/* Compiles the program for the chip and runs it on the buffers. VARs are the
 * int64s of `vars`. Fails the test on an error, naming `what`. */
void amdgpu_check_run(const struct lower_program *p, unsigned chip,
                      const struct p_buf *bufs, uint32_t n_bufs,
                      const int64_t *vars, const char *what);

/* In both interpreters, for gfx942, gfx1100 and one of the others in turn. With
 * `zeros`, +0 and -0 are equal. */
void amdgpu_check_program(const struct lower_program *p,
                          const struct p_buf *bufs, uint32_t n_bufs, bool zeros,
                          const char *what);

/* Compiles for one chip, for every one. The descriptors are looked at. */
void amdgpu_check_compile_on(const struct lower_program *p, unsigned chip,
                             const char *what);
void amdgpu_check_compile(const struct lower_program *p, const char *what);

void amdgpu_check_buf(struct p_buf *buf, unsigned dtype, size_t n,
                      uint64_t *rng);

#endif
