/* Ordering, searching and combining by index, on nodes. Shared by the files of
 * tensor/ only.
 *
 * Axes are in range and shapes agree: the callers checked. Nothing here is
 * quadratic where there is much to do: what is scattered is put in the order
 * of its indices (sort.c), and runs of one index are combined.
 */
#ifndef BELL_TENSOR_OPS_SELECT_H
#define BELL_TENSOR_OPS_SELECT_H

#include "tensor/core/rules.h"
#include "tensor/core/node.h"

/* The places along `axis` of its first `count` elements in order, I64, u's
 * shape but along the axis (sort.c). Equal ones stay in their order, NaN is
 * the greatest. */
const struct uop *tn_order_axis(struct bell_context *ctx, const struct uop *u,
                                uint32_t axis, bool descending, int64_t count);
/* Unsigned integers below 2^*out_bits in the order of u's elements: of equal
 * ones if u's are taken for equal there. */
const struct uop *tn_order_keys(struct bell_context *ctx, const struct uop *u,
                                uint32_t *out_bits);
/* The places along `axis` of the elements that are at k of that order, as
 * tn_order_axis has it, without ordering all (kth.c). k: I64, in range, u's
 * shape but along the axis, which is not empty; so is the result. */
const struct uop *tn_kth_axis(struct bell_context *ctx, const struct uop *u,
                              uint32_t axis, const struct uop *k);

/* Running results along an axis: ADD, MUL, MAX, MIN (scan.c). */
const struct uop *tn_scan(struct bell_context *ctx, enum uop_op op,
                          const struct uop *u, uint32_t axis);
/* The same along the last axis within each run of equal keys; keys has u's
 * shape and ascends. */
const struct uop *tn_scan_runs(struct bell_context *ctx, enum uop_op op,
                               const struct uop *u, const struct uop *keys);
/* log of running sums of exp along an axis; u is float32 or float64. */
const struct uop *tn_scan_logsumexp(struct bell_context *ctx,
                                    const struct uop *u, uint32_t axis);

/* Along the last axis, for each value how many elements of `sorted` come before
 * it: those less than it, or (right) not greater. NaN is the greatest. I64. The
 * other axes agree, the dtypes too. */
const struct uop *tn_search(struct bell_context *ctx, const struct uop *sorted,
                            const struct uop *values, bool right);

/* What tn_scatter makes of several elements with one index. */
enum tn_combine {
    TN_COMBINE_SUM, /* 0 where there is none, as for LAST */
    TN_COMBINE_PROD,
    TN_COMBINE_MAX,
    TN_COMBINE_MIN,
    TN_COMBINE_LAST,
};
/* out[.., s, ..], s < size at `axis`, of the v[.., k, ..] whose
 * index[.., k, ..] is s; negative ones count from the end, those out of range
 * nothing. index: I64, of v's shape. */
const struct uop *tn_scatter(struct bell_context *ctx, enum tn_combine combine,
                             const struct uop *v, uint32_t axis,
                             const struct uop *index, int64_t size);
/* How many that are, I64. */
const struct uop *tn_scatter_count(struct bell_context *ctx, uint32_t axis,
                                   const struct uop *index, int64_t size);
/* What v of a TENSOR_RULE_SCATTER takes of its adjoint. */
const struct uop *tn_scatter_back(struct bell_context *ctx,
                                  const struct tensor_rule *rule,
                                  const struct uop *g);

/* Axis `at` of u by an I64 index of any shape, whose axes take its place
 * (index.c). Out of range: 0. */
const struct uop *tn_gather_axis(struct bell_context *ctx, const struct uop *u,
                                 uint32_t at, const struct uop *index);

/* ---- results whose size depends on values (mask.c) ---- */

/* The places, I64 of rank 1, of what is true in the bools of `mask`, as a
 * tensor that is the caller's to release; NULL after a failure of `call`. Reads
 * how many they are: a safe point. */
struct bell_tensor *tensor_find_true(const char *call,
                                     struct bell_tensor *mask);

#endif
