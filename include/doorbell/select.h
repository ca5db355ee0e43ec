/* Choosing and counting: combining by index, by mask, order statistics,
 * histograms, sampling. Included by tensor.h, whose header comment holds here.
 *
 * "On the host" after a function means: the size of its result depends on
 * values, so the call computes what it needs, waits, and reads that number. In
 * a function that is captured it is an error. Work is n log^2 n at most of
 * what is ordered, n log n of what is searched.
 */
#ifndef BELL_DOORBELL_SELECT_H
#define BELL_DOORBELL_SELECT_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- combining by index ---- */

/* What becomes of several elements with one index. */
enum bell_combine {
    BELL_COMBINE_LAST, /* the last of them; x's own counts nothing */
    BELL_COMBINE_SUM,
    BELL_COMBINE_PROD,
    BELL_COMBINE_MEAN, /* of integers rounded down */
    BELL_COMBINE_AMAX, /* the gradient is shared equally among equal ones */
    BELL_COMBINE_AMIN,
};

/* x, with out[i.. with the axis at index[i..]] made of all src[i..] that go
 * there and, where include_self, of what x has there. Shapes and indices as
 * bell_scatter's. */
BELL_API struct bell_tensor *
bell_scatter_reduce(struct bell_tensor *x, int axis, struct bell_tensor *index,
                    struct bell_tensor *src, enum bell_combine combine,
                    bool include_self);
/* x with `value` added to the elements that x[items] names, each time that it
 * names them; else as bell_index_put. */
BELL_API struct bell_tensor *
bell_index_put_add(struct bell_tensor *x, const struct bell_index_item *items,
                   uint32_t n, struct bell_tensor *value);

/* ---- by mask; on the host ---- */

/* The places of what is not 0, in row-major order: int64 [count, rank]. */
BELL_API struct bell_tensor *bell_nonzero(struct bell_tensor *x);
/* The elements of x where mask (bool, both broadcast) is true, in row-major
 * order; rank 1. */
BELL_API struct bell_tensor *bell_masked_select(struct bell_tensor *x,
                                                struct bell_tensor *mask);
/* bell_nonzero, its first `size` rows; where it has fewer, rows of `fill`:
 * int64 [size, rank]. Not on the host: captured functions may call it. */
BELL_API struct bell_tensor *bell_nonzero_sized(struct bell_tensor *x,
                                                int64_t size, int64_t fill);
/* bell_masked_select, its first `size` elements; where it has fewer, `fill` as
 * x's dtype (one element; NULL: 0). Not on the host. Gradients of x and of
 * `fill`. */
BELL_API struct bell_tensor *bell_masked_select_sized(struct bell_tensor *x,
                                                      struct bell_tensor *mask,
                                                      int64_t size,
                                                      struct bell_tensor *fill);
/* Repeats each index of an axis (BELL_FLAT: each element) as often as `counts`
 * says: integers that are not negative, one for each index or one for all.
 * `size` is the size of that axis in the result: missing elements are 0,
 * surplus ones are left out; -1: the sum of the counts, read on the host. The
 * gradient of an element is the sum over its copies. */
BELL_API struct bell_tensor *
bell_repeat_interleave_by(struct bell_tensor *x, struct bell_tensor *counts,
                          int axis, int64_t size);
/* The different elements of x, ascending, rank 1; every NaN is one of its own.
 * out_inverse, of x's shape: where each element is among them; out_counts: how
 * often each occurs; int64, either may be NULL. */
BELL_API void bell_unique(struct bell_tensor *x,
                          struct bell_tensor **out_values,
                          struct bell_tensor **out_inverse,
                          struct bell_tensor **out_counts);
/* The same of runs of equal elements of the flattened x, in their order. */
BELL_API void bell_unique_consecutive(struct bell_tensor *x,
                                      struct bell_tensor **out_values,
                                      struct bell_tensor **out_inverse,
                                      struct bell_tensor **out_counts);
/* out[v] = how often v occurs in x (integers, none negative; rank 1), or the
 * sum of the weights there (x's shape; or NULL). As long as the greatest asks
 * for, at least min_length. int64, or the weights' dtype (float64 of
 * integers). */
BELL_API struct bell_tensor *bell_bincount(struct bell_tensor *x,
                                           struct bell_tensor *weights,
                                           int64_t min_length);

/* ---- extremes with their places ---- */

/* The greatest along an axis and where it is, int64: the first of equals, or
 * the first NaN. The gradient goes there. */
BELL_API void bell_max_at(struct bell_tensor *x, int axis, bool keepdim,
                          struct bell_tensor **out_values,
                          struct bell_tensor **out_indices);
/* The smallest, likewise. */
BELL_API void bell_min_at(struct bell_tensor *x, int axis, bool keepdim,
                          struct bell_tensor **out_values,
                          struct bell_tensor **out_indices);
/* bell_cummax and where each running greatest is, int64: the latest of equals,
 * or the latest NaN. The gradient goes there. */
BELL_API void bell_cummax_at(struct bell_tensor *x, int axis,
                             struct bell_tensor **out_values,
                             struct bell_tensor **out_indices);
/* bell_cummin, likewise. */
BELL_API void bell_cummin_at(struct bell_tensor *x, int axis,
                             struct bell_tensor **out_values,
                             struct bell_tensor **out_indices);
/* out[i] = log(exp(x[0]) + .. + exp(x[i])) along an axis, without overflow on
 * the way; float. */
BELL_API struct bell_tensor *bell_logcumsumexp(struct bell_tensor *x, int axis);

/* ---- order statistics ---- */

/* Between two places in order. */
enum bell_interpolation {
    BELL_LINEAR,
    BELL_LOWER,
    BELL_HIGHER,
    BELL_NEAREST, /* of two as near the even place */
    BELL_MIDPOINT,
};

/* The element a share q of the way through the order along an axis
 * (BELL_FLAT: of all). q: float, shape () or (m); NaN where it is outside of
 * 0..1. The result has q's axis in front. NaN where x has one; float dtypes,
 * not of no elements. Two elements that it lies between have their shares of
 * the gradient, also where they are equal. */
BELL_API struct bell_tensor *
bell_quantile(struct bell_tensor *x, struct bell_tensor *q, int axis,
              bool keepdim, enum bell_interpolation interpolation);
/* The same of what is not NaN; NaN where there is nothing. */
BELL_API struct bell_tensor *
bell_nanquantile(struct bell_tensor *x, struct bell_tensor *q, int axis,
                 bool keepdim, enum bell_interpolation interpolation);
/* The middle element along an axis (BELL_FLAT: of all), the lower of two, and
 * where it is; the first NaN where there is one. */
BELL_API void bell_median(struct bell_tensor *x, int axis, bool keepdim,
                          struct bell_tensor **out_values,
                          struct bell_tensor **out_indices);
/* The same of what is not NaN; the first NaN where there is nothing else. */
BELL_API void bell_nanmedian(struct bell_tensor *x, int axis, bool keepdim,
                             struct bell_tensor **out_values,
                             struct bell_tensor **out_indices);
/* The k-th smallest along an axis, k from 1 on, and where it is. */
BELL_API void bell_kthvalue(struct bell_tensor *x, int64_t k, int axis,
                            bool keepdim, struct bell_tensor **out_values,
                            struct bell_tensor **out_indices);
/* The most frequent element along an axis, of several the smallest, and its
 * last place. Every NaN is one of its own. */
BELL_API void bell_mode(struct bell_tensor *x, int axis, bool keepdim,
                        struct bell_tensor **out_values,
                        struct bell_tensor **out_indices);
/* How many elements of `sorted` come before each value: those less than it, or
 * (right) not greater; NaN is the greatest. int64. `sorted` ascends along its
 * last axis; it has rank 1, or values' shape but along that axis. */
BELL_API struct bell_tensor *bell_searchsorted(struct bell_tensor *sorted,
                                               struct bell_tensor *values,
                                               bool right);
/* How many of x's elements lie in each of n_bins equal parts of low..high, both
 * included; low == high: x's own extremes, and where one of those is not finite
 * no element counts. x's dtype, a float. */
BELL_API struct bell_tensor *bell_histc(struct bell_tensor *x, int64_t n_bins,
                                        double low, double high);

/* ---- sampling ---- */

/* n indices into the last axis of weights (float, not negative, rank 1 or 2,
 * not all 0), each drawn with a probability that is its weight's share: int64
 * [.., n]. Without replacement none twice. Where there is nothing left that
 * could be drawn, and where a weight of the row is negative or not finite: -1.
 */
BELL_API struct bell_tensor *bell_multinomial(struct bell_tensor *weights,
                                              int64_t n, bool replacement);

/* ---- products and distances ---- */

/* out[b.., i, j] = (sum_k |x[b.., i, k] - y[b.., j, k]|^p)^(1/p); p from 0
 * (how many differ) to INFINITY. Batch axes broadcast; float. */
BELL_API struct bell_tensor *bell_cdist(struct bell_tensor *x,
                                        struct bell_tensor *y, double p);
/* The sum of products over n pairs of axes, one of x and one of y; the axes
 * that are left, x's first. */
BELL_API struct bell_tensor *bell_tensordot(struct bell_tensor *x,
                                            struct bell_tensor *y,
                                            const int64_t *x_axes,
                                            const int64_t *y_axes, uint32_t n);
/* Kronecker product: out[i * m + k, ..] = x[i, ..] * y[k, ..] with m the size
 * of y's axis; of any ranks. */
BELL_API struct bell_tensor *bell_kron(struct bell_tensor *x,
                                       struct bell_tensor *y);

#ifdef __cplusplus
}
#endif
#endif
