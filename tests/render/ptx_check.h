/* Tests of PTX alone: what backend_ptx.c has beside the backend. */
#ifndef BELL_TESTS_RENDER_PTX_CHECK_H
#define BELL_TESTS_RENDER_PTX_CHECK_H

#include "render/ptx/ptx.h"
#include "render_check.h"
#include "sim/ptx/ptx.h"

/* What the interpreter of sim/ is given; buffer i begins at (i + 1) << 32. */
extern const struct ptx_target ptx_check_target;

/* Parses and runs `text` on the buffers, in blocks of p->local threads. VARs
 * are the int64s of `vars`. Fails the test on an error. */
void ptx_check_run(const struct lower_program *p, const char *text,
                   const struct p_buf *bufs, uint32_t n_bufs,
                   const int64_t *vars, const char *what);

/* Keeps a program's text for every architecture, under a name of its own. */
void ptx_check_keep(const struct lower_program *p, bool approx);
/* Assembles all that was kept, a run of ptxas an architecture; returns the
 * number of kernels, 0 without ptxas. Frees them. */
uint32_t ptx_check_assemble(void);

#endif
