/* Operands and results of elementwise calls; functions on nodes that several
 * files use. Shared by the files of tensor/ only. */
#ifndef BELL_TENSOR_OPS_ELEMENTWISE_H
#define BELL_TENSOR_OPS_ELEMENTWISE_H

#include "tensor/core/node.h"

/* Which dtypes a call computes in. */
enum tensor_kind {
    TENSOR_ANY,
    TENSOR_FLOAT,   /* integers and bool are made float32 */
    TENSOR_INT,     /* integers and bool only */
    TENSOR_NO_BOOL, /* bool is refused */
};

/* Operands of one elementwise call in their common dtype; halves of a
 * TENSOR_FLOAT call in float32, so that its result is rounded once. */
struct tensor_operands {
    struct bell_context *ctx;
    enum uop_dtype dtype; /* of the result, where that is a float */
    bool weak;            /* the result is a bell_scalar too */
    const struct uop *u[3];
};

/* Checks n (at most 3) operands and converts them; false after a failure,
 * with *out what the call returns. */
bool tensor_operands(const char *call, struct bell_tensor *const *tensors,
                     uint32_t n, enum tensor_kind kind,
                     struct tensor_operands *out_ops, struct bell_tensor **out);
/* The result of the call. */
struct bell_tensor *tensor_result(const char *call,
                                  const struct tensor_operands *ops,
                                  const struct uop *u);

typedef const struct uop *tn_unary_fn(struct bell_context *ctx,
                                      const struct uop *x);
typedef const struct uop *tn_binary_fn(struct bell_context *ctx,
                                       const struct uop *x,
                                       const struct uop *y);

/* A whole call from a function on nodes. */
struct bell_tensor *tensor_unary(const char *call, struct bell_tensor *x,
                                 enum tensor_kind kind, tn_unary_fn *build);
struct bell_tensor *tensor_binary(const char *call, struct bell_tensor *x,
                                  struct bell_tensor *y, enum tensor_kind kind,
                                  tn_binary_fn *build);

/* Public calls of that kind: their names are whole, for grep. */
#define TENSOR_UNARY(name, kind, build)                                        \
    struct bell_tensor *name(struct bell_tensor *x)                            \
    {                                                                          \
        return tensor_unary(__func__, x, kind, build);                         \
    }
#define TENSOR_BINARY(name, kind, build)                                       \
    struct bell_tensor *name(struct bell_tensor *x, struct bell_tensor *y)     \
    {                                                                          \
        return tensor_binary(__func__, x, y, kind, build);                     \
    }

/* x + factor y, or less it, rounded once: for functions/. */
struct bell_tensor *tensor_add_scaled(const char *call, struct bell_tensor *x,
                                      struct bell_tensor *y,
                                      struct bell_tensor *factor, bool minus);
/* A weak scalar for a number given to a call on x. */
struct bell_tensor *tensor_number(struct bell_tensor *x, double value);

/* On nodes (unary.c, activation.c). */
const struct uop *tn_abs(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_sign(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_floor(struct bell_context *ctx, const struct uop *x);
/* To nearest, ties to even. */
const struct uop *tn_round_even(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_expm1(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_log1p(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_erf(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_atan(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_tanh(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_sigmoid(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_logsigmoid(struct bell_context *ctx, const struct uop *x);
const struct uop *tn_isnan(struct bell_context *ctx, const struct uop *x);
/* x / y rounded towards zero (elementwise.c). */
const struct uop *tn_trunc_divide(struct bell_context *ctx, const struct uop *x,
                                  const struct uop *y);
const struct uop *tn_le(struct bell_context *ctx, const struct uop *x,
                        const struct uop *y);
/* c[0] x^(n-1) + ... + c[n-1]. */
const struct uop *tn_poly(struct bell_context *ctx, const struct uop *x,
                          const double *c, uint32_t n);
/* bell_dropout; NULL after a failure of `call` (random.c). */
const struct uop *tn_dropout(const char *call, struct bell_context *ctx,
                             const struct uop *x, double p);
/* x != 0. */
const struct uop *tn_bool(struct bell_context *ctx, const struct uop *x);

#endif
