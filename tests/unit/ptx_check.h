/* Runs programs as PTX in the interpreter of sim/ and in that of p_interp.h
 * and compares every buffer; keeps kernels for ptxas. */
#ifndef BELL_TESTS_UNIT_PTX_CHECK_H
#define BELL_TESTS_UNIT_PTX_CHECK_H

#include "host_run.h"
#include "p_interp.h"
#include "render/ptx/ptx.h"
#include "sim/ptx/ptx.h"

#define PTX_CHECK_MAX_BUFS 8

/* What the interpreter of sim/ is given; buffer i begins at (i + 1) << 32. */
extern const struct ptx_target ptx_check_target;

/* Parses and runs `text` on the buffers, in blocks of p->local threads. VARs
 * are the int64s of `vars`. Fails the test on an error. */
void ptx_check_run(const struct lower_program *p, const char *text,
                   const struct p_buf *bufs, uint32_t n_bufs,
                   const int64_t *vars, const char *what);

/* Both ways, on copies. With `zeros`, +0 and -0 are equal. */
void ptx_check_program(const struct lower_program *p, const struct p_buf *bufs,
                       uint32_t n_bufs, bool zeros, const char *what);

void ptx_check_buf(struct p_buf *buf, unsigned dtype, size_t n, uint64_t *rng);

/* Keeps a program's text for every architecture, under a name of its own. */
void ptx_check_keep(const struct lower_program *p, bool approx);
/* Assembles all that was kept, a run of ptxas an architecture; returns the
 * number of kernels, 0 without ptxas. Frees them. */
uint32_t ptx_check_assemble(void);

#endif
