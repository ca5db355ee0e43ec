/* Shared by the files that decompose ops: what a target lacks, as what it
 * has. All take nodes of any number of lanes and give nodes of as many, and
 * never make an op that would have to be decomposed again.
 */
#ifndef BELL_LOWER_DECOMPOSE_DECOMPOSE_INTERNAL_H
#define BELL_LOWER_DECOMPOSE_DECOMPOSE_INTERNAL_H

#include "base/map.h"
#include "lower/lower.h"

struct dec {
    struct uop_graph *g;
    const struct lower_target *target;
    struct map *kept; /* ids of EXP2s and RECIPs that remain */
};

/* ---- what asserts ask; out of memory, nodes have no dtype ---- */

static inline bool
dec_is(const struct dec *d, const struct uop *x, enum uop_dtype dtype)
{
    return d->g->failed || x->dtype == dtype;
}

static inline bool
dec_is_wide_float(const struct dec *d, const struct uop *x)
{
    return dec_is(d, x, UOP_F32) || x->dtype == UOP_F64;
}

/* ---- what is rounded to halves (decompose_rounded.c) ---- */

/* *out_rounded: by id, up to the last node's of the list, which has sources
 * first: does everything that is made of the F32 end in a CAST to halves,
 * by sums, products, quotients and choices alone? A sum that cancels then shows
 * some four times what F32's rounding would leave. Owned by the caller, with
 * host_free. */
BELL_MUST_CHECK bell_status dec_find_rounded(const struct uop *const *list,
                                             size_t n, uint8_t **out_rounded);
/* u, an op whose result is rounded, on its final sources, by approximate
 * instructions; NULL where it is not such an op. */
const struct uop *dec_approximate(const struct dec *d, const struct uop *u);

/* sin or cos of an F32 to relative 2^-19 (decompose_sin.c). */
const struct uop *dec_sin_rounded(const struct dec *d, enum uop_op op,
                                  const struct uop *x);

/* ---- node shorthands (decompose.c) ---- */

/* Constants of a dtype with the lanes of `like`. */
const struct uop *dec_int(const struct dec *d, const struct uop *like,
                          enum uop_dtype dtype, int64_t value);
const struct uop *dec_float(const struct dec *d, const struct uop *like,
                            enum uop_dtype dtype, double value);
/* The integer that every lane is; false where it is not constant. */
bool dec_const_int(const struct uop *u, int64_t *out_value);
/* The same bits as another dtype. */
const struct uop *dec_bits(const struct dec *d, const struct uop *a,
                           enum uop_dtype dtype);
/* a*b + c, rounded once where the target can. */
const struct uop *dec_madd(const struct dec *d, const struct uop *a,
                           const struct uop *b, const struct uop *c);
/* c[0] + c[1]*x + ... by Horner's rule. */
const struct uop *dec_poly(const struct dec *d, const struct uop *x,
                           enum uop_dtype dtype, const double *c, unsigned n);

static inline const struct uop *
dec_op1(const struct dec *d, enum uop_op op, const struct uop *a)
{
    return uop_alu1(d->g, op, a);
}

static inline const struct uop *
dec_op2(const struct dec *d, enum uop_op op, const struct uop *a,
        const struct uop *b)
{
    return uop_alu2(d->g, op, a, b);
}

static inline const struct uop *
dec_add(const struct dec *d, const struct uop *a, const struct uop *b)
{
    return uop_alu2(d->g, UOP_ADD, a, b);
}

static inline const struct uop *
dec_sub(const struct dec *d, const struct uop *a, const struct uop *b)
{
    return uop_alu2(d->g, UOP_SUB, a, b);
}

static inline const struct uop *
dec_mul(const struct dec *d, const struct uop *a, const struct uop *b)
{
    return uop_alu2(d->g, UOP_MUL, a, b);
}

static inline const struct uop *
dec_where(const struct dec *d, const struct uop *cond, const struct uop *a,
          const struct uop *b)
{
    return uop_alu3(d->g, UOP_WHERE, cond, a, b);
}

/* op(a, constant) */
static inline const struct uop *
dec_opi(const struct dec *d, enum uop_op op, const struct uop *a, int64_t i)
{
    return uop_alu2(d->g, op, a, dec_int(d, a, a->dtype, i));
}

static inline const struct uop *
dec_opf(const struct dec *d, enum uop_op op, const struct uop *a, double f)
{
    return uop_alu2(d->g, op, a, dec_float(d, a, a->dtype, f));
}

/* ---- integers (decompose_int.c) ---- */

/* IDIV, IMOD, FLOORDIV or FLOORMOD of x and y. */
const struct uop *dec_div(const struct dec *d, enum uop_op op,
                          const struct uop *x, const struct uop *y);
/* SHL or SHR. */
const struct uop *dec_shift(const struct dec *d, enum uop_op op,
                            const struct uop *x, const struct uop *y);
/* An ALU op on BOOLs; NULL where it may stay. */
const struct uop *dec_bool(const struct dec *d, const struct uop *u);

/* ---- small floats and conversions (decompose_float.c) ---- */

/* CAST of `x`. */
const struct uop *dec_cast(const struct dec *d, const struct uop *x,
                           enum uop_dtype dtype);

/* ---- functions: x is F32 or F64 ---- */

/* A product with log2(e) becomes the exponential of the other factor. */
const struct uop *dec_exp2(const struct dec *d, const struct uop *x);
const struct uop *dec_log2(const struct dec *d, const struct uop *x);
const struct uop *dec_sin_or_cos(const struct dec *d, enum uop_op op,
                                 const struct uop *x);
const struct uop *dec_pow(const struct dec *d, const struct uop *x,
                          const struct uop *y);
/* FMOD, FFLOORDIV (decompose_mod.c). */
const struct uop *dec_fmod(const struct dec *d, const struct uop *x,
                           const struct uop *y);
const struct uop *dec_ffloordiv(const struct dec *d, const struct uop *x,
                                const struct uop *y);

/* 2^p and log2 of F64s, good for a result that is rounded to F32. log2 takes
 * what is positive and finite: zero gives about -1074 and the like. */
const struct uop *dec_exp2_short(const struct dec *d, const struct uop *p);
const struct uop *dec_log2_short(const struct dec *d, const struct uop *x);

/* 2^(p + low), |low| at most some units in p's last place and 0 where p is not
 * finite: within 0.6 units in the last place, and what the dtype holds is met.
 * log2 in two parts, to 34 (F32) and 63 bits (F64), of what is positive and
 * finite. */
const struct uop *dec_exp2_parts(const struct dec *d, const struct uop *p,
                                 const struct uop *low);
const struct uop *dec_log2_parts(const struct dec *d, const struct uop *x,
                                 const struct uop **out_lo);
/* a * b, and in *out_lo what rounding it lost. */
const struct uop *dec_two_product(const struct dec *d, const struct uop *a,
                                  const struct uop *b,
                                  const struct uop **out_lo);

#endif
