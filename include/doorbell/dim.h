/* Sizes and offsets that change from run to run: symbols, and what is computed
 * of them.
 *
 * A size is a number or an expression of symbols. A symbol is declared once,
 * with its bounds; sums, products, quotients, minima and maxima of sizes are
 * sizes. They are given wherever a size, an offset or the length of a range is
 * a number. What is built of them is compiled once, for all values, and is
 * computed with the values that the symbols have by then:
 *
 *     struct bell_dim n = bell_symbol(ctx, "n", 1, 2048);
 *     k = bell_narrow(keys, 0, 0, n);
 *     y = bell_matmul(bell_softmax(bell_matmul(q, bell_t(k)), -1), ...);
 *     for (i = 1; i <= 2048; i++)
 *         status = bell_symbol_set(ctx, n, i); .. bell_jit_call(..)
 *
 * It is a structure, so that C's arithmetic refuses it: 1.0 / n does not
 * compile. bell_dim_value(ctx, n, BELL_FLOAT32) is n as a tensor.
 *
 * Where. bell_narrow and bell_select take numbers and sizes (C and C++).
 * BELL_SHAPE(n, 768) is a list of both, as BELL_DIMS(2, 3) is one of numbers:
 * for shapes, also of random numbers, and for the lists of bell_shrink,
 * bell_assign_slice, bell_pad, bell_repeat, bell_split. To the library a size
 * is its word, an int64_t among numbers: bell_slice(0, n.word, 1), and what
 * other languages give.
 *
 * A tensor with such axes may be given to all functions but these, whose error
 * says why, and gradients go through it:
 *   - those whose result's shape depends on values, as bell_nonzero;
 *   - orders along such an axis (bell_sort, bell_topk, bell_median) and
 *     transforms (bell_fft): of other axes they take any;
 *   - those of images whose sides are such, where they are resized or sampled
 *     (bell_interpolate, transposed convolutions, adaptive pools): they take
 *     any number of images. No gradient goes to such an image;
 *   - matrices of bell_solve and the like, weights of convolutions, what is
 *     assigned to, caches of bell_nn_attention_next, steps of recurrent layers,
 *     custom kernels.
 * A slice of such an axis (bell_slice) is not clamped: for all values it is in
 * bounds and has an element, or it is an error. bell_dims and bell_dim_at
 * return sizes; bell_shape and bell_size, which return numbers, fail.
 * bell_numel is how many elements there would be now.
 *
 * A size is at least 1, and offset and size end where the tensor ends, for all
 * values in bounds: that is checked at the call that is given them. A graph may
 * have sizes of several symbols.
 *
 * A tensor that is realized has the sizes that it was realized with. One that
 * bell_from_data or bell_empty made stays what it was made with: used while the
 * symbol has another value, it is an error of the call that realizes.
 *
 * Within bell_jit_call the value is what it is at each call: nothing is
 * captured again. Inputs of such sizes may be given numbers, which say what the
 * symbols are in that call. A bundle keeps them (bell_jit_save): who runs it
 * says what they are, or its inputs do.
 *
 * On a GPU kernels that reduce along symbols are compiled once for each power
 * of two by which sizes of a launch are below their bounds.
 *
 * Results are those of plain sizes, to the bit, but for sums and products of
 * floats: those add up in one order for all values, or on a GPU for all of such
 * a power, on a CPU often in that of plain sizes (docs/explanation/plans.md).
 *
 * Sizes belong to the context that made them, and end with it.
 */
#ifndef BELL_DOORBELL_DIM_H
#define BELL_DOORBELL_DIM_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most symbols of a context. */
#define BELL_MAX_SYMBOLS 32
/* Greatest value of one. */
#define BELL_MAX_SYMBOL 1048576

/* A size. Its word is a number below 2^40, or names an expression. */
struct bell_dim {
    int64_t word;
};

/* The number as a size. */
static inline struct bell_dim
bell_dim_of(int64_t number)
{
    struct bell_dim dim = {number};

    return dim;
}

/* A new symbol of the context, which it ends with; its value is `min` at first.
 * The name is for messages (up to 15 characters; NULL: "n"). A size that
 * nothing takes, and a failure of the context, if not 0 <= min <= max <=
 * BELL_MAX_SYMBOL, or it has as many as there can be. */
BELL_API struct bell_dim bell_symbol(struct bell_context *ctx, const char *name,
                                     int64_t min, int64_t max);
/* The value for all that is realized, or called in a jit, from now on.
 * BELL_E_INVALID, and nothing changed: it is out of bounds, `symbol` is not a
 * symbol of this context, or a function is being captured. */
BELL_API BELL_MUST_CHECK bell_status bell_symbol_set(struct bell_context *ctx,
                                                     struct bell_dim symbol,
                                                     int64_t value);

/* a + b. A size that nothing takes, and a failure of the context with the
 * reason, here and in the next ones: a divisor that may be 0, numbers of 2^40
 * and more, more than 24 terms, products of more than 6 symbols. */
BELL_API struct bell_dim bell_dim_add(struct bell_context *ctx,
                                      struct bell_dim a, struct bell_dim b);
/* a - b. */
BELL_API struct bell_dim bell_dim_sub(struct bell_context *ctx,
                                      struct bell_dim a, struct bell_dim b);
/* a * b. */
BELL_API struct bell_dim bell_dim_mul(struct bell_context *ctx,
                                      struct bell_dim a, struct bell_dim b);
/* a / b, rounded down; b is at least 1 for all values. */
BELL_API struct bell_dim bell_dim_floordiv(struct bell_context *ctx,
                                           struct bell_dim a,
                                           struct bell_dim b);
/* What then remains, 0 to b - 1. */
BELL_API struct bell_dim bell_dim_mod(struct bell_context *ctx,
                                      struct bell_dim a, struct bell_dim b);
/* The smaller. */
BELL_API struct bell_dim bell_dim_min(struct bell_context *ctx,
                                      struct bell_dim a, struct bell_dim b);
/* The greater. */
BELL_API struct bell_dim bell_dim_max(struct bell_context *ctx,
                                      struct bell_dim a, struct bell_dim b);

/* What the size is now. BELL_E_INVALID: it is not a size of this context; a
 * function is being captured, which is for all values: what the host would make
 * of one would stay. */
BELL_API BELL_MUST_CHECK bell_status bell_dim_now(struct bell_context *ctx,
                                                  struct bell_dim dim,
                                                  int64_t *out_value);
/* Bounds that hold for all values: exact for a * symbol + b, else perhaps
 * wider. BELL_E_INVALID: it is not a size of this context. */
BELL_API BELL_MUST_CHECK bell_status bell_dim_bounds(struct bell_context *ctx,
                                                     struct bell_dim dim,
                                                     int64_t *out_min,
                                                     int64_t *out_max);
/* The size as messages write it, "2*n + 1", cut to fit `size` bytes with the
 * 0 at its end. BELL_E_INVALID: it is not a size of this context; `text` is
 * NULL or `size` is 0. */
BELL_API BELL_MUST_CHECK bell_status bell_dim_text(struct bell_context *ctx,
                                                   struct bell_dim dim,
                                                   char *text, size_t size);
/* Whether a <= b for all values; false: for none. BELL_E_INVALID: it depends on
 * the values, or the bounds do not decide it. */
BELL_API BELL_MUST_CHECK bell_status bell_dim_at_most(struct bell_context *ctx,
                                                      struct bell_dim a,
                                                      struct bell_dim b,
                                                      bool *out_answer);
/* The same of a == b. */
BELL_API BELL_MUST_CHECK bell_status bell_dim_equal(struct bell_context *ctx,
                                                    struct bell_dim a,
                                                    struct bell_dim b,
                                                    bool *out_answer);
/* The size as a tensor of shape (), for masks, means and places; BELL_DEFAULT
 * is int64. */
BELL_API struct bell_tensor *bell_dim_value(struct bell_context *ctx,
                                            struct bell_dim dim,
                                            enum bell_dtype dtype);

/* A list of sizes where one of numbers is taken. */
static inline const int64_t *
bell_dim_words(const struct bell_dim *list)
{
    return list ? &list->word : NULL;
}

/* The sizes of a tensor, as many as it has axes; they live while it does and
 * keeps its shape. NULL: it does not live. */
BELL_API const struct bell_dim *bell_dims(const struct bell_tensor *t);
/* One of them; an axis that there is none of is -1. */
BELL_API struct bell_dim bell_dim_at(const struct bell_tensor *t, int axis);

/* begin, begin + 1, .. end - 1; BELL_DEFAULT is int64. */
BELL_API struct bell_tensor *bell_arange_dims(struct bell_context *ctx,
                                              struct bell_dim begin,
                                              struct bell_dim end,
                                              enum bell_dtype dtype);

#ifdef __cplusplus
}
#endif

/* ---- one name for numbers and sizes ------------------------------------- */

#ifdef __cplusplus

inline bell_tensor *
bell_narrow(bell_tensor *x, int axis, bell_dim begin, bell_dim length)
{
    return bell_narrow(x, axis, begin.word, length.word);
}

inline bell_tensor *
bell_select(bell_tensor *x, int axis, bell_dim i)
{
    return bell_select(x, axis, i.word);
}

#elif !defined(BELL_PLAIN_SIZES)

static inline struct bell_dim
bell_dim_same_(struct bell_dim dim)
{
    return dim;
}

/* A number or a size, as a size. C only. */
#define BELL_DIM(x)                                                            \
    _Generic((x), struct bell_dim                                              \
             : bell_dim_same_, char                                            \
             : bell_dim_of, signed char                                        \
             : bell_dim_of, unsigned char                                      \
             : bell_dim_of, short                                              \
             : bell_dim_of, unsigned short                                     \
             : bell_dim_of, int                                                \
             : bell_dim_of, unsigned                                           \
             : bell_dim_of, long                                               \
             : bell_dim_of, unsigned long                                      \
             : bell_dim_of, long long                                          \
             : bell_dim_of, unsigned long long                                 \
             : bell_dim_of)(x)

/* BELL_SHAPE(n, 768): a list of up to 8 numbers and sizes as two arguments,
 * wherever one of numbers is taken. C only. */
#define BELL_SHAPE(...)                                                        \
    (const int64_t[]){                                                         \
        BELL_EACH_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)(__VA_ARGS__)},      \
        (uint32_t)(sizeof((const int64_t[]){BELL_EACH_(__VA_ARGS__, 8, 7, 6,   \
                                                       5, 4, 3, 2, 1,          \
                                                       0)(__VA_ARGS__)}) /     \
                   sizeof(int64_t))
#define BELL_EACH_(a, b, c, d, e, f, g, h, n, ...) BELL_EACH_##n##_
#define BELL_EACH_1_(a)                            BELL_DIM(a).word
#define BELL_EACH_2_(a, ...)                       BELL_DIM(a).word, BELL_EACH_1_(__VA_ARGS__)
#define BELL_EACH_3_(a, ...)                       BELL_DIM(a).word, BELL_EACH_2_(__VA_ARGS__)
#define BELL_EACH_4_(a, ...)                       BELL_DIM(a).word, BELL_EACH_3_(__VA_ARGS__)
#define BELL_EACH_5_(a, ...)                       BELL_DIM(a).word, BELL_EACH_4_(__VA_ARGS__)
#define BELL_EACH_6_(a, ...)                       BELL_DIM(a).word, BELL_EACH_5_(__VA_ARGS__)
#define BELL_EACH_7_(a, ...)                       BELL_DIM(a).word, BELL_EACH_6_(__VA_ARGS__)
#define BELL_EACH_8_(a, ...)                       BELL_DIM(a).word, BELL_EACH_7_(__VA_ARGS__)

#define bell_dim_add(ctx, a, b) bell_dim_add(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_dim_sub(ctx, a, b) bell_dim_sub(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_dim_mul(ctx, a, b) bell_dim_mul(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_dim_floordiv(ctx, a, b)                                           \
    bell_dim_floordiv(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_dim_mod(ctx, a, b) bell_dim_mod(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_dim_min(ctx, a, b) bell_dim_min(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_dim_max(ctx, a, b) bell_dim_max(ctx, BELL_DIM(a), BELL_DIM(b))
#define bell_narrow(x, axis, begin, length)                                    \
    bell_narrow(x, axis, BELL_DIM(begin).word, BELL_DIM(length).word)
#define bell_select(x, axis, i) bell_select(x, axis, BELL_DIM(i).word)

#endif
#endif
