/* The reference evaluator: what a tensor graph means, computed slowly.
 *
 * Evaluates stage-T graphs node by node into host arrays, straight from the
 * sentences of uops/ops.def. It shares no code with the compiler below the
 * node itself (uop_round_float and uop_wrap_int aside, which define the
 * dtypes), so that the two can be compared.
 *
 * Numbers. Every integer and bool element is held as int64_t (U64: its bits),
 * every float as double. After each op an integer is wrapped and a float
 * rounded to the node's dtype, so float16 and bfloat16 behave as if each op
 * were done exactly and rounded once. Transcendental ops take the C library's
 * double result.
 *
 * A REDUCE_AXIS of floats is accumulated in double (ADD with Neumaier's
 * compensation, so that float64 sums are good to about one ulp too) and rounded
 * once, at the end; no order of summation is promised by ops.def and none is
 * imitated. An empty reduction gives the op's neutral element.
 *
 * Thread safe for different graphs; a graph is only read.
 */
#ifndef BELL_REFERENCE_REFERENCE_H
#define BELL_REFERENCE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uops/uop.h"

struct bell_tensor;

/* An evaluated value: row-major elements of `shape`. `data` is host memory of
 * the array (ref_array_fini); `shape` belongs to the graph, NULL means (). */
struct ref_array {
    enum uop_dtype dtype;
    const struct uop_dims *shape;
    size_t n; /* elements */
    union {
        double *f;  /* dtype is a float */
        int64_t *i; /* dtype is an integer or BOOL */
        void *data;
    };
};

/* Errors that a correct device may make, put into an evaluation: where a float
 * op does not have an exact result, the result moves by up to `ulps` units in
 * the last place of its dtype (a few more for EXP2, LOG2, SIN and POW), and a
 * sum by as much of the sum of magnitudes; what overflows may do so or not.
 * Evaluations with different seeds
 * differ by what the graph makes of such errors: its condition, jumps
 * included. */
struct ref_noise {
    uint64_t seed;
    double ulps;
    /* The device may take subnormal float32 numbers for 0 in arithmetic, as
     * struct lower_target's flag has it; bfloat16 is computed as float32. One
     * seed of four, 1 among them, does so throughout, the others by chance. */
    bool flushes_f32;
    bool lacks_fma; /* it rounds the product of a MULACC */
    /* The device may group what it reduces in another way, as a plan for any
     * size does. A sum of one element is then one of a zero, too, so what asks
     * for a zero's sign (1 / x, a bitcast) gets either; a product that is too
     * large may meet a factor of 0 first. */
    bool regroups;
};

/* Fills the elements of a BUFFER leaf. `array` comes allocated, its dtype,
 * shape and n are the leaf's. See ref_from_bytes. */
typedef bell_status ref_leaf_fn(void *user, const struct uop *buffer,
                                struct ref_array *array);

/* Evaluates `roots`, nodes of `g`. On success out[0..n-1] hold their values,
 * each to be given back with ref_array_fini; on failure none is set. Memory
 * of an inner value is freed after its last user. Not recursive. A `noise` of
 * NULL is none.
 * Fails with BELL_E_INVALID for a node that is not of stage T or whose
 * sources' shapes or dtypes do not fit, BELL_E_NO_MEMORY, or as `leaf`. */
BELL_MUST_CHECK bell_status ref_eval(const struct uop_graph *g,
                                     const struct uop *const *roots, size_t n,
                                     ref_leaf_fn *leaf, void *user,
                                     const struct ref_noise *noise,
                                     struct ref_array *out);

/* The same of tensors of one context, computing nothing on the device; leaves
 * are read back from it (tensor/runtime/reference_tensor.c, in the tensor
 * library), and its rule for subnormal numbers takes the place of the noise's.
 * A shape in `out` is the graph's: valid until the context's next call. */
BELL_MUST_CHECK bell_status ref_eval_tensors(struct bell_tensor *const *tensors,
                                             size_t n,
                                             const struct ref_noise *noise,
                                             struct ref_array *out);

/* Whether floats are added up or multiplied along an axis on the way to the
 * tensors: the order of that, which nothing promises, shows in last bits. */
BELL_MUST_CHECK bell_status ref_reduces_floats(
    struct bell_tensor *const *tensors, size_t n, bool *out_answer);

void ref_array_fini(struct ref_array *array);

/* Elements from and to storage as devices keep it: densely packed little-
 * endian values of array->dtype, BOOL as one byte. */
void ref_from_bytes(struct ref_array *array, const void *bytes);
void ref_to_bytes(const struct ref_array *array, void *bytes);

#endif
