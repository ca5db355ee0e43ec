/* Tensors: lazy arrays on one device.
 *
 * A call that returns a tensor builds a graph and computes nothing. Work is
 * done by bell_realize and by the calls that read values. Shapes, dtypes and
 * axes are checked at the call that is given them.
 *
 *     struct bell_context *ctx;
 *     bell_context_create(NULL, &ctx);
 *     bell_scope_begin(ctx);
 *     struct bell_tensor *x = bell_randn(ctx, BELL_DIMS(64, 78), BELL_FLOAT32);
 *     struct bell_tensor *y = bell_relu(bell_add(bell_matmul(x, w), b));
 *     bell_status status = bell_read(y, out, sizeof(out));
 *     bell_scope_end(ctx);
 *
 * Ownership. A tensor belongs to the scope that was innermost when it was made
 * and goes with it, so expressions nest without leaks. bell_keep moves one to
 * the enclosing scope; bell_tensor_release ends one early.
 *
 * A tensor is a handle: it denotes a value, and bell_assign makes it denote
 * another. It is a number, not an address, and no two tensors of a process ever
 * have the same. So a call that is given one that ended, or whose context was
 * destroyed, fails and names the call that ended it. The same goes for
 * contexts, optimisers and jits that were destroyed, and for NULL.
 *
 * Errors. A call that fails returns the context's error tensor, never NULL. The
 * error tensor passes through later calls untouched: they return it too, and
 * change nothing. The first failure, with its call and the values that were
 * wrong, is what the next call that returns a bell_status reports (and then
 * forgets); see bell_error_last.
 *
 * If no argument belongs to a live context there is no error tensor to return.
 * The call then returns its dead argument, so that later calls fail for the
 * same reason, or NULL if it was given none.
 *
 * Threads. A context and all that belongs to it is for one thread at a time,
 * and may go from one thread to another between calls; different contexts are
 * independent. bell_is_error and bell_context_of are for any thread.
 *
 * A call that is made while another thread is inside a call of the same context
 * fails (BELL_E_INVALID, reason thread), names both calls, and touches nothing
 * of the context: its failure is in the calling thread's record alone. That is
 * so for every call, always. Two calls that begin at the same time may both
 * fail.
 *
 * Processes. A context is for the process that made it. A child of fork may
 * make its own. With one that it inherited, the calls that compute, read or
 * write values fail (BELL_E_INVALID, saying so) and bell_context_destroy does
 * nothing: the child's copy goes with the child. The parent notices nothing of
 * it.
 *
 * A tensor that a call returns is a new handle, also where its value is an
 * argument's. Only calls that change their argument, or move it, return it:
 * bell_keep, bell_keep_forever, bell_requires_grad, bell_assign and
 * bell_assign_slice.
 *
 * Shapes are lists of int64_t sizes, outermost first, at most BELL_MAX_RANK of
 * them; a list of length 0 is a scalar. Sizes of 0 are allowed. Axes may be
 * negative: -1 is the last. In comments x[i,j] has axes i and j, and @ is the
 * matrix product. Functions have the names and the meaning of PyTorch's unless
 * their comment says otherwise.
 *
 * dtypes. Two operands of different dtype are converted to a common one, as in
 * PyTorch: categories bool < integer < float, the operand of the highest
 * category decides; within a category the wider.
 * - int8..int64 with an unsigned type of equal or greater size goes to the next
 *   wider signed type; uint64 with a signed type to float64.
 * - float16 with bfloat16 goes to float32.
 * - Operands with axes decide before operands of shape (), and those before
 *   bell_scalar's: a lower rank changes the dtype only where its category is
 *   higher.
 *
 * Integer sums and products are int64, / of integers is float32, and sums of
 * float16 and bfloat16 are accumulated in float32. The 8-bit floats only store:
 * calls that move or select elements keep them, calls that compute convert them
 * to float32 first and give float32. A number too large for them becomes an
 * infinity, or NaN where the format has none.
 */
#ifndef BELL_DOORBELL_TENSOR_H
#define BELL_DOORBELL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_context;
struct bell_tensor;

/* Greatest number of axes. */
#define BELL_MAX_RANK 32

/* A list of sizes or axes as two arguments: bell_zeros(ctx, BELL_DIMS(2, 3),
 * BELL_FLOAT32). C only. BELL_NO_DIMS is the empty list: the shape of a
 * scalar, or "all axes" where a list of axes may be empty. */
#define BELL_DIMS(...)                                                         \
    (const int64_t[]){__VA_ARGS__},                                            \
        (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define BELL_NO_DIMS NULL, 0
/* A list of tensors as two arguments: bell_cat(BELL_TENSORS(a, b), 0). */
#define BELL_TENSORS(...)                                                      \
    (struct bell_tensor *const[]){__VA_ARGS__},                                \
        (uint32_t)(sizeof((struct bell_tensor *const[]){__VA_ARGS__}) /        \
                   sizeof(struct bell_tensor *))

/* Element types. BELL_DEFAULT stands for the type a call would choose. */
enum bell_dtype {
    BELL_DEFAULT,
    BELL_BOOL, /* one byte, 0 or 1 */
    BELL_INT8,
    BELL_UINT8,
    BELL_INT16,
    BELL_UINT16,
    BELL_INT32,
    BELL_UINT32,
    BELL_INT64,
    BELL_UINT64,
    BELL_FLOAT16,
    BELL_BFLOAT16,
    BELL_FLOAT32,
    BELL_FLOAT64,
    BELL_FLOAT8_E4M3FN,   /* 8 bits: 4 of exponent, 3 of fraction; to 448 */
    BELL_FLOAT8_E5M2,     /* 5 and 2; to 57344, with infinities */
    BELL_FLOAT8_E4M3FNUZ, /* to 240; no -0. gfx942's form, as the next */
    BELL_FLOAT8_E5M2FNUZ, /* to 57344; no infinities, no -0 */
    BELL_DTYPE_COUNT
};

/* "float32" and the like; "default" for BELL_DEFAULT, "?" out of range. */
BELL_API const char *bell_dtype_name(enum bell_dtype dtype);
/* Bytes of an element; 0 for BELL_DEFAULT and out of range. */
BELL_API size_t bell_dtype_size(enum bell_dtype dtype);
/* The common dtype of two operands that have axes; BELL_DEFAULT if an
 * argument is not a dtype. */
BELL_API enum bell_dtype bell_promote(enum bell_dtype a, enum bell_dtype b);

/* ---- context and scopes ---- */

/* Opens a device ("CPU", "NV:0", ...; "NV": its first that can be used; NULL:
 * BELL_DEVICE, or the first of any that can be used) and makes a context with
 * one open scope, which only bell_context_destroy ends. BELL_E_INVALID:
 * BELL_MATH or BELL_DEBUG has a word that does not exist. After a failure
 * *out_ctx is NULL. */
BELL_API BELL_MUST_CHECK bell_status
bell_context_create(const char *device_name, struct bell_context **out_ctx);
/* Waits for pending work, releases every tensor of the context and closes the
 * device. NULL is allowed; a second time is a failure, and so is it from the
 * function of a jit that is being captured. */
BELL_API void bell_context_destroy(struct bell_context *ctx);
/* Name of the open device, "CPU:0"; lives as long as the context. */
BELL_API const char *bell_context_device(const struct bell_context *ctx);
/* Reports and forgets the first failure since the last such report. */
BELL_API BELL_MUST_CHECK bell_status
bell_context_status(struct bell_context *ctx);
/* The context's error tensor: what failed calls return. */
BELL_API struct bell_tensor *bell_error_tensor(struct bell_context *ctx);

/* Opens a scope inside the innermost one. Fails only without memory. */
BELL_API bell_status bell_scope_begin(struct bell_context *ctx);
/* Ends the innermost scope and releases its tensors, in every case; then
 * reports as bell_context_status. */
BELL_API bell_status bell_scope_end(struct bell_context *ctx);
/* Moves `t` from its scope to the enclosing one, one scope further out with
 * each call; returns `t`. From the context's own scope it moves nowhere. */
BELL_API struct bell_tensor *bell_keep(struct bell_tensor *t);
/* Moves `t` to the context's own scope: it lives until bell_tensor_release or
 * the end of the context. Returns `t`. */
BELL_API struct bell_tensor *bell_keep_forever(struct bell_tensor *t);
/* Ends `t` now. Values computed from it are not affected. NULL, the error
 * tensor, and a tensor that ended already are allowed, and nothing happens: a
 * finalizer may come late. */
BELL_API void bell_tensor_release(struct bell_tensor *t);
/* Another handle, in the innermost scope, for the value `t` denotes now. */
BELL_API struct bell_tensor *bell_alias(struct bell_tensor *t);

/* Whether layers behave as in training (dropout drops, batchnorm uses and
 * collects the batch's statistics). Off at first. Returns the old value. */
BELL_API bool bell_set_training(struct bell_context *ctx, bool training);
/* Whether layers behave as in training. */
BELL_API bool bell_is_training(const struct bell_context *ctx);

/* What a device may do less exactly, because it has faster instructions for
 * that; a bit each. Where it has none a bit changes nothing: on the CPU both.
 * docs/explanation/math.md says what each device does and how far its results
 * may be off. Only with BELL_MATH_EXACT are random numbers the same on every
 * device. */
enum bell_math {
    BELL_MATH_EXACT = 0,
    /* Factors of float32 matrix products are rounded to 10 fraction bits (TF32
     * of NVIDIA, XF32 of AMD); products and sums stay float32. On some cards
     * products of 8-bit floats are summed with fewer bits, and of halves lose
     * subnormal numbers. */
    BELL_MATH_TF32 = 1u << 0,
    /* float32 division, roots, exponentials, logarithms, sin and what is made
     * of them (of float16 and bfloat16 too, which are computed in float32)
     * come from approximate instructions. */
    BELL_MATH_APPROX = 1u << 1
};

/* Sets what is allowed, bits of enum bell_math, for all that is realized or
 * compiled from now on, also of graphs that were built before; at first it is
 * what BELL_MATH says, else BELL_MATH_EXACT. Kernels of each setting are kept:
 * going back to one compiles nothing again. BELL_E_INVALID: other bits; then
 * nothing changes. */
BELL_API BELL_MUST_CHECK bell_status
bell_context_set_math(struct bell_context *ctx, uint32_t math);
/* What is allowed now. */
BELL_API uint32_t bell_context_math(const struct bell_context *ctx);
/* The bits that make a difference on its device: it has such instructions. */
BELL_API uint32_t bell_context_device_math(const struct bell_context *ctx);
/* Bits of enum bell_math from words as in BELL_MATH: "exact", or "tf32" and
 * "approx" with commas between. BELL_E_INVALID lists the known ones. */
BELL_API BELL_MUST_CHECK bell_status bell_math_parse(const char *words,
                                                     uint32_t *out_math);

/* Sets for how many seconds the device may stand still while a call waits for
 * it; 0: for ever. The default is BELL_TIMEOUT, else 30, on a simulated device
 * 1200.
 *
 * A device moves when a submission is done and, on the CPU, when work-groups
 * begin: of a custom kernel up to 64 at a time. A kernel that is known to take
 * long gets that time in addition. After the limit the call fails with
 * BELL_E_TIMEOUT, which says what the device was doing. Later calls fail at
 * once until it moves again, or this is called. BELL_E_INVALID: seconds is
 * negative, NaN or above 1e9. */
BELL_API BELL_MUST_CHECK bell_status
bell_context_set_timeout(struct bell_context *ctx, double seconds);

/* Counts for tests, tools and tuning. Plain data. */
struct bell_context_info {
    uint32_t struct_size; /* sizeof(struct bell_context_info) */
    size_t n_tensors;     /* handles that live */
    size_t n_scopes;      /* open, the context's own included */
    size_t n_graph_nodes; /* in the graph, dead ones included */
    size_t n_buffers;     /* leaf buffers with device memory */
    size_t buffer_bytes;  /* their sizes together */
    size_t n_compactions; /* times the graph was copied to a fresh one */
};
/* Counts now. Waits for nothing. */
BELL_API void bell_context_get_info(const struct bell_context *ctx,
                                    struct bell_context_info *out_info);

/* ---- facts of a tensor (computing nothing); of one that ended they are 0,
 * NULL or false, and that is a failure of its context ---- */

/* The context that t belongs to. */
BELL_API struct bell_context *bell_context_of(const struct bell_tensor *t);
/* Whether t is not a live tensor: its context's error tensor, one that ended,
 * NULL. Asking does not fail. */
BELL_API bool bell_is_error(const struct bell_tensor *t);
/* Element type. */
BELL_API enum bell_dtype bell_dtype_of(const struct bell_tensor *t);
/* Number of axes; 0 for a scalar. */
BELL_API uint32_t bell_ndim(const struct bell_tensor *t);
/* Sizes, bell_ndim of them; valid until the next call with its context. */
BELL_API const int64_t *bell_shape(const struct bell_tensor *t);
/* Size of one axis; -1 if there is no such axis. */
BELL_API int64_t bell_size(const struct bell_tensor *t, int axis);
/* Number of elements: the product of the sizes. 0, and a failure of the
 * context: sizes of symbols (dim.h) in a function that is captured. */
BELL_API uint64_t bell_numel(const struct bell_tensor *t);
/* bell_numel times the size of an element, in bytes. */
BELL_API uint64_t bell_nbytes(const struct bell_tensor *t);
/* Whether the value is in memory (or queued to be). */
BELL_API bool bell_is_realized(const struct bell_tensor *t);

/* ---- data in and out ---- */

/* A tensor with a copy of `data`: the elements in row-major order, in host
 * byte order. */
BELL_API struct bell_tensor *bell_from_data(struct bell_context *ctx,
                                            const int64_t *shape, uint32_t ndim,
                                            enum bell_dtype dtype,
                                            const void *data);

/* A tensor whose elements are the caller's memory, not a copy: `data` has as
 * many bytes as the tensor and holds the elements in row-major order. On the
 * CPU it is aligned to an element, elsewhere to 64 bytes. On a GPU it is
 * pinned, and each use reads it over the bus. A later computation sees what the
 * caller writes there meanwhile. Assigning to the tensor may write there, but
 * not where it is not aligned to 64 bytes.
 *
 * The memory stays as it is until release(user) (or NULL) is called: then no
 * tensor and no queued work needs it any more. The thread that uses the context
 * calls it, at the context's end at the latest. It calls nothing of the
 * library. After a failure it is not called. */
BELL_API struct bell_tensor *bell_from_blob(struct bell_context *ctx,
                                            const int64_t *shape, uint32_t ndim,
                                            enum bell_dtype dtype, void *data,
                                            void (*release)(void *user),
                                            void *user);
/* A tensor of `ctx`, perhaps another device's, with t's values as they are now,
 * without history. They are computed and copied behind what is queued: directly
 * where `ctx`'s device reaches the memory of t's, else through host memory. The
 * host waits only where a device sees no host memory, runs nothing, or is
 * recorded or watched. If `ctx` is t's own: t's node, as it is, in a new
 * handle. */
BELL_API struct bell_tensor *bell_to(struct bell_tensor *t,
                                     struct bell_context *ctx);

/* Computes the values of n tensors together: what they share is computed
 * once. Queued; does not wait. */
BELL_API BELL_MUST_CHECK bell_status
bell_realize(struct bell_tensor *const *tensors, size_t n);
/* The same of one tensor. */
BELL_API BELL_MUST_CHECK bell_status bell_realize1(struct bell_tensor *t);
/* Schedules and compiles what bell_realize of the same tensors would run, and
 * runs nothing: they stay as they are. Later calls find it done. */
BELL_API BELL_MUST_CHECK bell_status
bell_compile(struct bell_tensor *const *tensors, size_t n);

/* Computes `t`, waits and copies its elements to dst; size_bytes must be
 * bell_nbytes(t). */
BELL_API BELL_MUST_CHECK bell_status bell_read(struct bell_tensor *t, void *dst,
                                               size_t size_bytes);
/* The same as double or int64_t whatever the dtype; n must be bell_numel(t).
 * Floats to int64_t truncate. */
BELL_API BELL_MUST_CHECK bell_status bell_read_f64(struct bell_tensor *t,
                                                   double *dst, size_t n);
/* As int64_t: floats truncate. */
BELL_API BELL_MUST_CHECK bell_status bell_read_i64(struct bell_tensor *t,
                                                   int64_t *dst, size_t n);
/* The value of a tensor with one element. */
BELL_API BELL_MUST_CHECK bell_status bell_item_f64(struct bell_tensor *t,
                                                   double *out_value);
/* The same as int64_t; floats truncate. */
BELL_API BELL_MUST_CHECK bell_status bell_item_i64(struct bell_tensor *t,
                                                   int64_t *out_value);

/* Makes `t` denote `value`, which must have t's shape and dtype. Values that
 * were computed from t before keep what they had. Where both t and another
 * tensor of that value require gradients, t stays a variable of its own: no
 * gradient flows from it to the other, and it is realized to its own memory.
 * Returns t, or the error tensor, t unchanged. */
BELL_API struct bell_tensor *bell_assign(struct bell_tensor *t,
                                         struct bell_tensor *value);
/* Replaces the part of `t` that begins at begin[axis] (n_begin is t's rank) and
 * has value's shape; the dtype is t's. For caches that grow: it is queued at
 * once, `t` and the inputs of `value` are realized, and one kernel writes those
 * elements in t's own memory and no others. `value` may be made of `t`. A part
 * that the values of several calls share is computed for each, unless it is
 * realized before.
 *
 * Tensors that were computed from `t` before keep their values: `t` is copied
 * whole first where another tensor is still made of t's memory (another handle
 * of it, or what was computed from it, is not realized and did not end).
 *
 * Neither may need a gradient: not `t`, and `value` after bell_detach. Returns
 * t, or the error tensor, t's elements unchanged. */
BELL_API struct bell_tensor *bell_assign_slice(struct bell_tensor *t,
                                               const int64_t *begin,
                                               uint32_t n_begin,
                                               struct bell_tensor *value);
/* Replaces the elements of `t`, as bell_assign(t, bell_from_data(...)). */
BELL_API BELL_MUST_CHECK bell_status bell_write(struct bell_tensor *t,
                                                const void *data,
                                                size_t size_bytes);

/* ---- creation ---- */

/* A number as written in a formula: shape (), gives way to the dtype of any
 * tensor of its category or a higher one (alone: float32 resp. int64). */
BELL_API struct bell_tensor *bell_scalar(struct bell_context *ctx,
                                         double value);
/* The same from an integer; alone int64. */
BELL_API struct bell_tensor *bell_scalar_int(struct bell_context *ctx,
                                             int64_t value);

/* Every element `value`, rounded to a float dtype, truncated to an integer one
 * and beyond it its nearest end; BELL_DEFAULT is float32. */
BELL_API struct bell_tensor *bell_full(struct bell_context *ctx,
                                       const int64_t *shape, uint32_t ndim,
                                       double value, enum bell_dtype dtype);
/* The same from an integer, exact beyond 2^53; BELL_DEFAULT is int64. 300 is
 * not an int8 (BELL_BAD_VALUE); -1 is a uint8, 255. */
BELL_API struct bell_tensor *bell_full_int(struct bell_context *ctx,
                                           const int64_t *shape, uint32_t ndim,
                                           int64_t value,
                                           enum bell_dtype dtype);
/* Every element 0; BELL_DEFAULT is float32. */
BELL_API struct bell_tensor *bell_zeros(struct bell_context *ctx,
                                        const int64_t *shape, uint32_t ndim,
                                        enum bell_dtype dtype);
/* Every element 1; BELL_DEFAULT is float32. */
BELL_API struct bell_tensor *bell_ones(struct bell_context *ctx,
                                       const int64_t *shape, uint32_t ndim,
                                       enum bell_dtype dtype);
/* Memory of unspecified content. */
BELL_API struct bell_tensor *bell_empty(struct bell_context *ctx,
                                        const int64_t *shape, uint32_t ndim,
                                        enum bell_dtype dtype);
/* Every element `value`, in x's shape; BELL_DEFAULT is x's dtype. */
BELL_API struct bell_tensor *bell_full_like(struct bell_tensor *x, double value,
                                            enum bell_dtype dtype);
/* Zeros. */
BELL_API struct bell_tensor *bell_zeros_like(struct bell_tensor *x,
                                             enum bell_dtype dtype);
/* Ones. */
BELL_API struct bell_tensor *bell_ones_like(struct bell_tensor *x,
                                            enum bell_dtype dtype);
/* Memory of unspecified content. */
BELL_API struct bell_tensor *bell_empty_like(struct bell_tensor *x,
                                             enum bell_dtype dtype);
/* start, start + step, ... up to but not including stop; shape (ceil((stop -
 * start) / step)). BELL_DEFAULT is int64 where all three are whole numbers,
 * else float32. Whole numbers are exact, as far as int64 goes. */
BELL_API struct bell_tensor *bell_arange(struct bell_context *ctx, double start,
                                         double stop, double step,
                                         enum bell_dtype dtype);
/* The same from integers, exact beyond 2^53; BELL_DEFAULT is int64. */
BELL_API struct bell_tensor *bell_arange_int(struct bell_context *ctx,
                                             int64_t start, int64_t stop,
                                             int64_t step,
                                             enum bell_dtype dtype);
/* `steps` values from start to stop, both included. */
BELL_API struct bell_tensor *bell_linspace(struct bell_context *ctx,
                                           double start, double stop,
                                           int64_t steps,
                                           enum bell_dtype dtype);
/* out[i,j] = i == j; shape (n, m). */
BELL_API struct bell_tensor *bell_eye(struct bell_context *ctx, int64_t n,
                                      int64_t m, enum bell_dtype dtype);
/* out[.., c] = x[..] == c, int64, for integer x. */
BELL_API struct bell_tensor *bell_one_hot(struct bell_tensor *x,
                                          int64_t num_classes);

/* ---- random numbers ----
 *
 * Threefry-2x32, counter based: the same seed and the same calls in the same
 * order give the same bits on every device. The seed is 0 at first. At most
 * 2^32 elements a call. BELL_DEFAULT is float32. */

/* Starts the sequence of this seed; what was made before keeps its values. */
BELL_API void bell_manual_seed(struct bell_context *ctx, uint64_t seed);
/* Uniform in [0, 1). Float dtypes. */
BELL_API struct bell_tensor *bell_rand(struct bell_context *ctx,
                                       const int64_t *shape, uint32_t ndim,
                                       enum bell_dtype dtype);
/* Standard normal (Box-Muller). Float dtypes. */
BELL_API struct bell_tensor *bell_randn(struct bell_context *ctx,
                                        const int64_t *shape, uint32_t ndim,
                                        enum bell_dtype dtype);
/* Integers in [low, high), high - low at most 2^32; BELL_DEFAULT is int64. */
BELL_API struct bell_tensor *bell_randint(struct bell_context *ctx, int64_t low,
                                          int64_t high, const int64_t *shape,
                                          uint32_t ndim, enum bell_dtype dtype);
/* Uniform in [low, high). Float dtypes. */
BELL_API struct bell_tensor *bell_uniform(struct bell_context *ctx,
                                          const int64_t *shape, uint32_t ndim,
                                          double low, double high,
                                          enum bell_dtype dtype);
/* Normal with this mean and standard deviation. Float dtypes. */
BELL_API struct bell_tensor *bell_normal(struct bell_context *ctx,
                                         const int64_t *shape, uint32_t ndim,
                                         double mean, double std,
                                         enum bell_dtype dtype);
/* bell_rand of x's shape and dtype. */
BELL_API struct bell_tensor *bell_rand_like(struct bell_tensor *x);
/* bell_randn of x's shape and dtype. */
BELL_API struct bell_tensor *bell_randn_like(struct bell_tensor *x);
/* A random order of 0..n-1, int64; n is at most 2^32. One sort by random
 * numbers of 64 - log2(n) bits: two that are equal keep their order (a pair in
 * every 32nd order of 2^20). */
BELL_API struct bell_tensor *bell_randperm(struct bell_context *ctx, int64_t n);
/* Uniform in [-1, 1) / sqrt(number of elements). */
BELL_API struct bell_tensor *bell_scaled_uniform(struct bell_context *ctx,
                                                 const int64_t *shape,
                                                 uint32_t ndim,
                                                 enum bell_dtype dtype);
/* Weight initialisers. fan_in is the product of all sizes but the first,
 * fan_out of all but the second; rank at least 2. The gain of kaiming is
 * sqrt(2 / ((1 + a^2) * fan_in)). Float dtypes; BELL_DEFAULT is float32. */

/* Uniform in +-sqrt(6 / (fan_in + fan_out)). */
BELL_API struct bell_tensor *bell_glorot_uniform(struct bell_context *ctx,
                                                 const int64_t *shape,
                                                 uint32_t ndim,
                                                 enum bell_dtype dtype);
/* Uniform in +-gain * sqrt(3). */
BELL_API struct bell_tensor *bell_kaiming_uniform(struct bell_context *ctx,
                                                  const int64_t *shape,
                                                  uint32_t ndim, double a,
                                                  enum bell_dtype dtype);
/* Normal, of standard deviation gain. */
BELL_API struct bell_tensor *bell_kaiming_normal(struct bell_context *ctx,
                                                 const int64_t *shape,
                                                 uint32_t ndim, double a,
                                                 enum bell_dtype dtype);
/* While the context is training: each element 0 with probability p (0 to 1),
 * the others divided by 1 - p. Else x. */
BELL_API struct bell_tensor *bell_dropout(struct bell_tensor *x, double p);

/* ---- movement: free of copies ---- */

/* The same elements in row-major order; one size may be -1. */
BELL_API struct bell_tensor *bell_reshape(struct bell_tensor *x,
                                          const int64_t *shape, uint32_t ndim);
/* Axis i of the result is axis order[i] of x. */
BELL_API struct bell_tensor *bell_permute(struct bell_tensor *x,
                                          const int64_t *order, uint32_t ndim);
/* Swaps two axes. */
BELL_API struct bell_tensor *bell_transpose(struct bell_tensor *x, int axis0,
                                            int axis1);
/* Swaps the last two axes; x of rank 0 or 1 stays. */
BELL_API struct bell_tensor *bell_t(struct bell_tensor *x);
/* Axis from[i] of x becomes axis to[i]; the others keep their order. */
BELL_API struct bell_tensor *bell_movedim(struct bell_tensor *x, int from,
                                          int to);
/* Axes of size 1 repeated, new axes in front; -1 keeps an axis. */
BELL_API struct bell_tensor *bell_expand(struct bell_tensor *x,
                                         const int64_t *shape, uint32_t ndim);
/* Adds elements around: pads = before, after of the last axis, then of the one
 * before it, ...; axes that are left out stay. Negative ones cut. */
BELL_API struct bell_tensor *bell_pad(struct bell_tensor *x,
                                      const int64_t *pads, uint32_t n_pads,
                                      double value);
/* The same with a value of one element, converted to x's dtype: exact where a
 * double is not, integers above 2^53. */
BELL_API struct bell_tensor *bell_pad_by(struct bell_tensor *x,
                                         const int64_t *pads, uint32_t n_pads,
                                         struct bell_tensor *value);
/* What stands around, going outwards from the edge. */
enum bell_pad_mode {
    BELL_PAD_REFLECT,   /* x[1], x[2], ..: the edge is not repeated */
    BELL_PAD_REPLICATE, /* x[0], x[0], .. */
    BELL_PAD_CIRCULAR,  /* x[n - 1], x[n - 2], .. */
};
/* Adds elements of x around, in the same order. At most n - 1 (REFLECT) or n
 * (CIRCULAR) of an axis of n; negative ones cut, CIRCULAR before it adds, the
 * others behind. */
BELL_API struct bell_tensor *bell_pad_with(struct bell_tensor *x,
                                           const int64_t *pads, uint32_t n_pads,
                                           enum bell_pad_mode mode);
/* The part begin..end-1 of each axis: begin, end of axis 0, then of 1, ... */
BELL_API struct bell_tensor *
bell_shrink(struct bell_tensor *x, const int64_t *bounds, uint32_t n_bounds);
/* Reverses axes; an empty list reverses all. */
BELL_API struct bell_tensor *bell_flip(struct bell_tensor *x,
                                       const int64_t *axes, uint32_t n_axes);
/* Removes axes of size 1; an empty list: all such axes. A listed axis of
 * another size stays, and so does one of the size of a symbol, also while that
 * is 1. */
BELL_API struct bell_tensor *bell_squeeze(struct bell_tensor *x,
                                          const int64_t *axes, uint32_t n_axes);
/* Puts an axis of size 1 so that it is axis `axis` of the result. */
BELL_API struct bell_tensor *bell_unsqueeze(struct bell_tensor *x, int axis);
/* Merges axes first..last into one. */
BELL_API struct bell_tensor *bell_flatten(struct bell_tensor *x, int first,
                                          int last);
/* Splits an axis into axes of the given sizes (one may be -1). */
BELL_API struct bell_tensor *bell_unflatten(struct bell_tensor *x, int axis,
                                            const int64_t *sizes,
                                            uint32_t n_sizes);
/* Joins along an axis; the other sizes agree. dtypes are promoted. */
BELL_API struct bell_tensor *bell_cat(struct bell_tensor *const *tensors,
                                      uint32_t n, int axis);
/* Joins along a new axis; all sizes agree. */
BELL_API struct bell_tensor *bell_stack(struct bell_tensor *const *tensors,
                                        uint32_t n, int axis);
/* Parts of the given sizes along an axis, which they cover; out holds n. */
BELL_API void bell_split(struct bell_tensor *x, const int64_t *sizes,
                         uint32_t n, int axis, struct bell_tensor **out);
/* Parts of ceil(size / n), the last ones smaller; n empty ones where size is 0;
 * out holds n. Returns how many parts there are (at most n); 0 after a failure,
 * then out is all error tensors. */
BELL_API uint32_t bell_chunk(struct bell_tensor *x, uint32_t n, int axis,
                             struct bell_tensor **out);
/* The whole repeated: counts per axis, new axes in front. */
BELL_API struct bell_tensor *
bell_repeat(struct bell_tensor *x, const int64_t *counts, uint32_t n_counts);
/* Each element along `axis` repeated. */
BELL_API struct bell_tensor *bell_repeat_interleave(struct bell_tensor *x,
                                                    int64_t count, int axis);
/* Shifts along an axis, wrapping round: out[i] = x[i - shift]. */
BELL_API struct bell_tensor *bell_roll(struct bell_tensor *x, int64_t shift,
                                       int axis);
/* Keeps x[.., i, j] where j <= i + diagonal (tril), j >= i + diagonal (triu);
 * 0 elsewhere. */
BELL_API struct bell_tensor *bell_tril(struct bell_tensor *x, int64_t diagonal);
/* The upper part, likewise. */
BELL_API struct bell_tensor *bell_triu(struct bell_tensor *x, int64_t diagonal);
/* Rank 1: the matrix with x on its main diagonal. Rank 2: its diagonal. */
BELL_API struct bell_tensor *bell_diag(struct bell_tensor *x);
/* out[.., k] = x with axis0 at k - min(offset, 0), axis1 at
 * k + max(offset, 0). */
BELL_API struct bell_tensor *
bell_diagonal(struct bell_tensor *x, int64_t offset, int axis0, int axis1);
/* Windows: out[.., w, .., k] = x[.., w * step + k, ..], k last; size may be 0,
 * which gives nothing, as often as there are places. x of rank 0 is taken as
 * one element, and the result has the axis of windows' elements alone. */
BELL_API struct bell_tensor *bell_unfold(struct bell_tensor *x, int axis,
                                         int64_t size, int64_t step);
/* out[n] has the shape (size of x0, size of x1, ...), varying along axis n
 * ("ij" order). Inputs of rank 1, or 0: size 1. out holds n. */
BELL_API void bell_meshgrid(struct bell_tensor *const *tensors, uint32_t n,
                            struct bell_tensor **out);
/* The size of an axis in bell_rearrange's formula. */
struct bell_named_size {
    const char *name;
    int64_t size;
};
#define BELL_SIZES(...)                                                        \
    (const struct bell_named_size[]){__VA_ARGS__},                             \
        (uint32_t)(sizeof((const struct bell_named_size[]){__VA_ARGS__}) /     \
                   sizeof(struct bell_named_size))
/* Axes by name, split, moved and merged: "b c (h w) -> b (h w) c". Axes are
 * names of letters, digits and _, those in parentheses together one axis of
 * the tensor; 1 is an axis of size 1, "..." any number of axes. Both sides
 * have the same names. sizes: of the names of which that is not clear, all but
 * one in parentheses, and of any others to be checked. */
BELL_API struct bell_tensor *bell_rearrange(struct bell_tensor *x,
                                            const char *formula,
                                            const struct bell_named_size *sizes,
                                            uint32_t n_sizes);

/* ---- indexing ----
 *
 * An index (or class) out of range is an error where its value is known on the
 * host: a number, or data that the tensor was made of (up to 2^20 elements).
 * Elsewhere what is read there is 0 and what is written there goes nowhere; the
 * environment variable BELL_CHECK=index makes that an error too, on every
 * device, by reading each index before it is used. */

/* "Absent" for begin and end of a slice. */
#define BELL_NONE INT64_MIN

/* One item between the brackets of x[...]. Use the constructors below. */
enum bell_index_kind {
    BELL_INDEX_SLICE,    /* begin:end:step */
    BELL_INDEX_INT,      /* begin; removes the axis */
    BELL_INDEX_NEW_AXIS, /* an axis of size 1 */
    BELL_INDEX_ELLIPSIS, /* as many whole axes as are left */
    BELL_INDEX_TENSOR    /* an integer or bool tensor */
};
struct bell_index_item {
    enum bell_index_kind kind;
    int64_t begin, end, step;
    struct bell_tensor *tensor;
};

static inline struct bell_index_item
bell_slice(int64_t begin, int64_t end, int64_t step)
{
    struct bell_index_item it = {BELL_INDEX_SLICE, begin, end, step, NULL};
    return it;
}
static inline struct bell_index_item
bell_whole(void)
{
    return bell_slice(BELL_NONE, BELL_NONE, 1);
}
static inline struct bell_index_item
bell_at(int64_t i)
{
    struct bell_index_item it = {BELL_INDEX_INT, i, 0, 1, NULL};
    return it;
}
static inline struct bell_index_item
bell_new_axis(void)
{
    struct bell_index_item it = {BELL_INDEX_NEW_AXIS, 0, 0, 1, NULL};
    return it;
}
static inline struct bell_index_item
bell_ellipsis(void)
{
    struct bell_index_item it = {BELL_INDEX_ELLIPSIS, 0, 0, 1, NULL};
    return it;
}
static inline struct bell_index_item
bell_by(struct bell_tensor *index)
{
    struct bell_index_item it = {BELL_INDEX_TENSOR, 0, 0, 1, index};
    return it;
}
/* Items as two arguments: bell_index(x, BELL_ITEMS(bell_whole(),
 * bell_at(0))) */
#define BELL_ITEMS(...)                                                        \
    (const struct bell_index_item[]){__VA_ARGS__},                             \
        (uint32_t)(sizeof((const struct bell_index_item[]){__VA_ARGS__}) /     \
                   sizeof(struct bell_index_item))

/* x[items], as Python's: slices clamp, steps may be negative, integers out of
 * range are errors. Integer tensors are broadcast together, and their axes
 * take the place of the first one's, in front where slices lie between them;
 * a tensor of rank 0 counts as an integer here, as in PyTorch. An element that
 * is out of range gives 0. A bool tensor has the shape of as many axes and
 * stands for the indices of what is true in it: these are counted on the host
 * (select.h). */
BELL_API struct bell_tensor *bell_index(struct bell_tensor *x,
                                        const struct bell_index_item *items,
                                        uint32_t n);
/* x with the elements that x[items] names replaced by `value`, broadcast to
 * them (of several values for one element, the last); a new tensor. What is out
 * of range writes nothing. A bool tensor alone is not counted where `value` has
 * one element. */
BELL_API struct bell_tensor *bell_index_put(struct bell_tensor *x,
                                            const struct bell_index_item *items,
                                            uint32_t n,
                                            struct bell_tensor *value);
/* The part of `axis` at i (removed), or begin..begin+length-1. */
BELL_API struct bell_tensor *bell_select(struct bell_tensor *x, int axis,
                                         int64_t i);
/* The part begin..begin+length-1, its axis kept. */
BELL_API struct bell_tensor *bell_narrow(struct bell_tensor *x, int axis,
                                         int64_t begin, int64_t length);
/* out[i..] = x[i.. with the axis at index[i..]]; index has x's rank and no
 * other axis longer than x's. Negative counts from the end; out of range
 * gives 0. Here and in the next ones, a scalar counts as one element: it goes
 * with rank 1, and the result has the index's shape (scatter: x's). */
BELL_API struct bell_tensor *bell_gather(struct bell_tensor *x, int axis,
                                         struct bell_tensor *index);
/* x with `axis` indexed by a tensor of rank 1 or 0; a scalar x stays one. */
BELL_API struct bell_tensor *bell_index_select(struct bell_tensor *x, int axis,
                                               struct bell_tensor *index);
/* The flattened x at index; of index's shape. */
BELL_API struct bell_tensor *bell_take(struct bell_tensor *x,
                                       struct bell_tensor *index);
/* out[i.., d] = weight[x[i..], d]. */
BELL_API struct bell_tensor *bell_embedding(struct bell_tensor *x,
                                            struct bell_tensor *weight);
/* x, with out[i.. with the axis at index[i..]] set to src[i..] (of several,
 * the last) or, for scatter_add, increased by it. No axis of src is shorter
 * than index's; what it has beyond is not read. An index out of range
 * writes nothing. */
BELL_API struct bell_tensor *bell_scatter(struct bell_tensor *x, int axis,
                                          struct bell_tensor *index,
                                          struct bell_tensor *src);
/* x, increased by src at the indices, as said above. */
BELL_API struct bell_tensor *bell_scatter_add(struct bell_tensor *x, int axis,
                                              struct bell_tensor *index,
                                              struct bell_tensor *src);
/* mask ? value : x; mask is broadcast to x. */
BELL_API struct bell_tensor *
bell_masked_fill(struct bell_tensor *x, struct bell_tensor *mask, double value);
/* The same with a value of one element, converted to x's dtype: exact where a
 * double is not, integers above 2^53. A bell_scalar_int must fit the dtype, as
 * for bell_full_int. Gradients of x and of value. */
BELL_API struct bell_tensor *bell_masked_fill_by(struct bell_tensor *x,
                                                 struct bell_tensor *mask,
                                                 struct bell_tensor *value);

#ifdef __cplusplus
}
#endif

#include "doorbell/ops.h"
#include "doorbell/select.h"

#endif
