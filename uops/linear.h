/* Sums of integer terms with constant coefficients.
 *
 * The canonical form of an integer sum is (((t0 + t1) + t2) ... + k): terms
 * x or x*c in the order of uop_order_key, no two with the same x, the
 * constant last and only if it is not 0. In a vector the scalar part comes
 * first, as one BROADCAST: BROADCAST(sum) + v0*c0 ... .
 *
 * Coefficients wrap like the dtype, so a form always equals its node. Where
 * lin_range succeeds it equals it without wrapping.
 */
#ifndef BELL_UOPS_LINEAR_H
#define BELL_UOPS_LINEAR_H

#include "uops/uop.h"

#define LIN_MAX_TERMS 24

struct lin_term {
    const struct uop *x; /* in a vector's form also scalars: broadcast */
    int64_t c;           /* not 0 */
};

struct lin {
    enum uop_dtype dtype;
    uint16_t lanes;
    uint32_t n;
    int64_t k;
    struct lin_term t[LIN_MAX_TERMS];
};

/* The form of an integer node; false where it has too many terms or is not a
 * signed or narrow integer (BOOL, U64, floats). Terms are in order. */
bool lin_of(const struct uop_graph *g, const struct uop *u, struct lin *out);
/* The form of a constant. */
void lin_const(struct lin *lin, const struct uop *like, int64_t k);
/* lin += c * u; false where there are too many terms. */
bool lin_add(const struct uop_graph *g, struct lin *lin, const struct uop *u,
             int64_t c);
/* lin += c * x as one term, not looked into. */
bool lin_add_term(struct lin *lin, const struct uop *x, int64_t c);
/* Sorts the terms and drops those whose coefficient is 0. */
void lin_sort(struct lin *lin);
/* The canonical node. */
const struct uop *lin_build(struct uop_graph *g, const struct lin *lin);
/* lin_build(g, lin), or NULL if that has the parts of `u`, a node that need
 * not be in the graph. */
const struct uop *lin_rebuild(struct uop_graph *g, const struct lin *lin,
                              const struct uop *u);

/* Bounds of the sum as exact integers; false where they leave the dtype. */
bool lin_range(const struct uop_graph *g, const struct lin *lin,
               struct uop_bounds *out);
/* lin_range where also all coefficients and bounds are below a quarter of the
 * dtype's greatest value, so that sums and differences of two do not wrap. */
bool lin_small_range(const struct uop_graph *g, const struct lin *lin,
                     struct uop_bounds *out);
/* Bounds of c*x as exact integers. */
bool lin_term_range(const struct uop_graph *g, const struct lin_term *term,
                    struct uop_bounds *out);
/* True if a - b is a multiple of m > 0 in every term and constant. */
bool lin_congruent(const struct lin *a, const struct lin *b, int64_t m);

/* Greatest common divisor of magnitudes; gcd(0, x) = |x|. */
int64_t int_gcd(int64_t a, int64_t b);

/* x <=> the parts of two nodes are equal. */
bool uop_same_parts(const struct uop *a, const struct uop *b);

#endif
