/* Shared by the reference evaluator's files: what ops mean on one element. */
#ifndef BELL_REFERENCE_REFERENCE_INTERNAL_H
#define BELL_REFERENCE_REFERENCE_INTERNAL_H

#include "reference/reference.h"

/* Is `op` defined on sources of `dtype`? */
bool ref_alu_known(enum uop_op op, enum uop_dtype dtype);

/* Unary and binary ops; `y` is ignored by unary ones. `dtype` is that of the
 * sources and, comparisons aside, of the result. */
double ref_alu_float(enum uop_op op, enum uop_dtype dtype, double x, double y);
int64_t ref_alu_int(enum uop_op op, enum uop_dtype dtype, int64_t x, int64_t y);
int64_t ref_compare_float(enum uop_op op, double x, double y);
int64_t ref_compare_int(enum uop_op op, enum uop_dtype dtype, int64_t x,
                        int64_t y);

/* Where the noise of element k is drawn. With even seeds, elements of equal
 * operands move alike: a device that computes rows in one way breaks no tie
 * among equal ones, and shares a gradient among them. */
uint64_t ref_noise_salt(const struct ref_noise *noise, const struct uop *u,
                        size_t k, double x, double y);

/* `value`, which `op` gave of x and y, moved as far as a device may be off. */
double ref_noisy_alu(const struct ref_noise *noise, uint64_t salt,
                     enum uop_op op, enum uop_dtype dtype, double x, double y,
                     double value);
/* x, or 0 of its sign if it is subnormal and the device may take it for 0. */
double ref_noisy_flush(const struct ref_noise *noise, uint64_t salt,
                       enum uop_dtype dtype, double x);
/* `value`, rounded to `dtype`, where it may be rounded before it is divided. */
double ref_noisy_round(const struct ref_noise *noise, uint64_t salt,
                       enum uop_dtype dtype, double value);
/* Another NaN: of the other sign, here or in all elements, or (as NVIDIA's
 * cards make them) with other bits of fraction. */
uint64_t ref_noisy_nan(const struct ref_noise *noise, uint64_t salt,
                       enum uop_dtype dtype, uint64_t bits);
/* Either zero in place of one, where noise has any of them. */
double ref_noisy_zero(const struct ref_noise *noise, uint64_t salt, double x);
/* `total`, reduced from n elements; the magnitudes of the finite ones have the
 * sum `mass`. MUL: 2^mass is the product of those above 1, 2^dust of those
 * below. `fine` tells that each is a multiple of 2^-8, `nan` that they give no
 * number in any order. The sign of a sum that is 0 is nowhere promised. */
double ref_noisy_reduce(const struct ref_noise *noise, uint64_t salt,
                        enum uop_op op, enum uop_dtype dtype, double total,
                        double mass, double dust, size_t n, bool fine,
                        bool nan);

/* CAST between floats and integers. */
int64_t ref_float_to_int(enum uop_dtype to, double x);
double ref_int_to_float(enum uop_dtype from, enum uop_dtype to, int64_t x);

/* What a reduction of nothing gives. */
double ref_neutral_float(enum uop_op op);
int64_t ref_neutral_int(enum uop_op op, enum uop_dtype dtype);

#endif
