/* Runs hand-made programs as machine code and in the interpreter and compares
 * every buffer; for tests of rendering. */
#ifndef BELL_TESTS_UNIT_HOST_CHECK_H
#define BELL_TESTS_UNIT_HOST_CHECK_H

#include "host_run.h"
#include "p_interp.h"

/* A buffer in guarded memory, zeroed. */
void check_buf_make(struct p_buf *buf, unsigned dtype, size_t n);
void check_buf_random(struct p_buf *buf, uint64_t *rng);
void check_buf_free(struct p_buf *buf);

/* Runs a program both ways on copies of the buffers. With `zeros`, +0 and -0
 * are equal. A difference fails the test, naming `what`. */
void check_program(const struct lower_program *p,
                   const struct lower_target *target, const struct p_buf *bufs,
                   uint32_t n_bufs, bool zeros, const char *what);
/* The same with the program of a list of roots. */
void check_roots(struct uop_graph *g, const struct lower_target *target,
                 const struct uop *const *roots, uint32_t n,
                 const struct p_buf *bufs, uint32_t n_bufs, bool zeros,
                 const char *what);

#endif
