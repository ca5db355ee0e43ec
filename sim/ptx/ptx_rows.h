/* Instructions done on the 32 lanes of a warp at once, in loops that the
 * compiler makes vectors of. ptx_rows.inc holds them; it is compiled once for
 * every processor and once for those with AVX2 and FMA. Other operations are
 * done lane by lane (ptx_alu.c), with the same results.
 */
#ifndef BELL_SIM_PTX_PTX_ROWS_H
#define BELL_SIM_PTX_PTX_ROWS_H

#include "sim/ptx/ptx_internal.h"

#define PX_MAX_K 32 /* of a matrix instruction */

/* An instruction without ftz, sat or a rounding of its own. `aux` is of mul
 * and mad enum px_half, of cvt the type of the source. */
struct px_row_op {
    uint8_t op, type, aux;
    px_rows_fn fn;
};

/* A comparison. */
struct px_row_test {
    uint8_t type, cmp;
    px_test_fn fn;
};

/* c += a b: rows of 8 in c and b, 16 rows of PX_MAX_K in a, of which k count.
 * With `fused`, products are not rounded; else they are exact. */
typedef void (*px_multiply_fn)(double *c, const double *a, const double *b,
                               uint32_t k, bool fused);

struct px_row_set {
    const struct px_row_op *ops;
    const struct px_row_test *tests;
    size_t n_ops, n_tests;
    px_multiply_fn multiply;
};

extern const struct px_row_set px_rows_plain;
#if defined(__x86_64__)
extern const struct px_row_set px_rows_avx2;
#endif

/* The set for this processor. */
const struct px_row_set *px_row_set(void);

/* dst := src in the lanes of `mask`. */
void px_blend(void *dst, const void *src, uint32_t mask, bool wide);

#endif
