/* Two obvious interpreters for tests: of linear programs (stage P) and of
 * kernels (stage K). Slow; a lane goes through uop_const_eval unless it is a
 * plain sum, product or choice, or an index is compared.
 */
#ifndef BELL_TESTS_UNIT_P_INTERP_H
#define BELL_TESTS_UNIT_P_INTERP_H

#include "lower/lower.h"

/* A kernel argument. The data is as the dtype lies in memory. Where the slot
 * is a VAR's, n_elems is its value. */
struct p_buf {
    enum uop_dtype dtype;
    size_t n_elems;
    void *data;
};

/* Runs all work-groups, their threads between two barriers in some order. 0,
 * or -1 with a message in err[err_bytes]: an access out of bounds, a value
 * used outside its loop or before it is made, an op that a program may not
 * contain, a barrier that not all threads reach, LOCAL memory read before it
 * is written, memory that two threads touch without a barrier in between. */
int p_run(const struct lower_program *program, const struct p_buf *bufs,
          size_t n_bufs, char *err, size_t err_bytes);
/* The same, counting the turns that loops take. */
int p_run_counting(const struct lower_program *program,
                   const struct p_buf *bufs, size_t n_bufs, uint64_t *out_turns,
                   char *err, size_t err_bytes);
/* The same as p_run where sums, differences and products of float32 take
 * subnormal numbers for 0 of their sign, and have none among their results. */
int p_run_flushing(const struct lower_program *program,
                   const struct p_buf *bufs, size_t n_bufs, char *err,
                   size_t err_bytes);

/* Runs a kernel straight from its definition. 0 or -1 as above. */
int k_run(const struct uop *sink, const struct p_buf *bufs, size_t n_bufs,
          char *err, size_t err_bytes);

/* Element `i`, as a float (out_arg->f) or an integer (out_arg->i). */
void p_get(const struct p_buf *buf, size_t i, union uop_arg *out_arg);
void p_set(const struct p_buf *buf, size_t i, union uop_arg value);

#endif
