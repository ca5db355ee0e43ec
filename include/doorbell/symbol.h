/* Sizes and offsets with a name, which change from run to run.
 *
 * A symbol is declared once, with its bounds, and is then given wherever a
 * size, an offset or the length of a range is an int64_t; it may be added to,
 * subtracted from and multiplied by numbers first. What is built of it is
 * compiled once, for all its values, and computed with the value that it has by
 * then:
 *
 *     int64_t n = bell_symbol(ctx, "n", 1, 2048);
 *     k = bell_narrow(keys, 0, 0, n);
 *     y = bell_matmul(bell_softmax(bell_matmul(q, bell_t(k)), -1), ...);
 *     for (i = 1; i <= 2048; i++)
 *         status = bell_symbol_set(ctx, n, i); .. bell_jit_call(..)
 *
 * Where. A symbol may be
 * - where bell_narrow, bell_select, bell_shrink and bell_assign_slice begin,
 *   and how much they take;
 * - the end of bell_arange;
 * - a size of bell_full, bell_zeros, bell_ones, bell_empty, bell_from_data,
 *   bell_expand, bell_reshape and bell_pad.
 *
 * A tensor with such an axis may be given to elementwise functions, movements
 * (also bell_cat), sums, products, extremes, bell_cumsum, bell_mean,
 * bell_logsumexp, softmaxes, bell_matmul and bell_linear. Other functions
 * refuse it, and no gradient goes through it. bell_size and bell_shape return a
 * size that may be given to other calls. bell_symbol_value says what it is now,
 * bell_numel how many elements there would be now.
 *
 * One graph that is realized can have sizes of one symbol, and offsets of any.
 * A size is at least 1, and offset and size end where the tensor ends, for all
 * values in bounds: that is checked at the call that is given them.
 *
 * A tensor that is realized has the sizes that it was realized with. One that
 * bell_from_data or bell_empty made stays what it was made with: used while the
 * symbol has another value, it is an error of the call that realizes.
 *
 * Within bell_jit_call the value is what it is at each call: nothing is
 * captured or compiled again. A bundle keeps them (bell_jit_save): who runs it
 * says what they are.
 *
 * Results are those of plain sizes, to the bit, but for sums and products of
 * floats along such an axis: those add up in one order for all values.
 *
 * Not a number. A formula of C in which a symbol stands for the size (1.0 / n)
 * means nothing. A function that is given its value as a number refuses it if
 * it is c * n, c / n or n / c for whole c up to 1024, a root of n or 1 / n, or
 * a logarithm of n (of base e, 10 or, in a double, 2) or 1 / it; other formulas
 * are not noticed. bell_div(one, bell_symbol_tensor(ctx, n)) is 1 / n.
 */
#ifndef BELL_DOORBELL_SYMBOL_H
#define BELL_DOORBELL_SYMBOL_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most symbols of a context. */
#define BELL_MAX_SYMBOLS 8
/* Greatest value of one. */
#define BELL_MAX_SYMBOL 1048576

/* A new symbol of the context, which it ends with; its value is `min` at first.
 * The name is for messages (up to 15 characters; NULL: "n"). The result is not
 * a number to compute with: it stands for the value. -1, and a failure of the
 * context, if not 0 <= min <= max <= BELL_MAX_SYMBOL, or it has as many as
 * there can be. */
BELL_API int64_t bell_symbol(struct bell_context *ctx, const char *name,
                             int64_t min, int64_t max);
/* The value for all that is realized, or called in a jit, from now on.
 * BELL_E_INVALID, and nothing changed: it is out of bounds, `symbol` is not of
 * this context, or a function is being captured. */
BELL_API BELL_MUST_CHECK bell_status bell_symbol_set(struct bell_context *ctx,
                                                     int64_t symbol,
                                                     int64_t value);
/* What a size is now: the value of a symbol, of 2 * n + 1, or of what bell_size
 * gives; a plain number is itself. -1 and a failure of the context: it is of
 * another context; or a function is being captured, which is for all values:
 * what the host would make of one would stay. */
BELL_API int64_t bell_symbol_value(struct bell_context *ctx, int64_t size);
/* The same as a tensor of shape (), int64: for masks, means and places. */
BELL_API struct bell_tensor *bell_symbol_tensor(struct bell_context *ctx,
                                                int64_t size);

#ifdef __cplusplus
}
#endif
#endif
