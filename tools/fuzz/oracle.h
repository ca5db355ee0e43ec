/* The oracle: what each function of the table is, by its definition.
 *
 * The fuzzer's reference evaluates the graph that a call made, so it cannot see
 * a call that makes the wrong graph. Here every function has a row with its
 * definition in long double, from libm or from a few lines of C, and with calls
 * at its edges: zeros of both signs, subnormals, borders, infinities, NaN,
 * ties, integers' ends, empty tensors and tensors of rank 0. `doorbell fuzz
 * --each` runs all of them on a device and compares values and gradients.
 *
 * Shares no code with tensor/, uops/ and the reference. Numbers of all dtypes
 * are long double, which holds 64-bit integers exactly.
 *
 * Calls. `cases` are separated by ';', each the arguments in order or as
 * NAME=ARG:
 *     @KIND:SIZES/D  a tensor; SIZES separated by commas, none: rank 0; D: a
 *                    letter for its dtype, where it is not the row's current
 *     i3  f0.5  b1   a number, float or bool      s'x'  a string
 *     l1,2           a list of ints               yfloat16  a dtype
 *     -              None                         ( .. )  a list of ARGs
 * Kinds of tensors:
 *     x      special values, in a row as long as there are; no SIZES
 *     X Y    the product of fewer ones;  U V W  of three; no SIZES
 *     n p u  floats in -1..1, 0.1..1.1, 0.05..0.95 times the scale
 *     c      whole numbers -2..2          e   1.5 times the scale everywhere
 *     q      0, -0, infinities, NaN, 1 among numbers
 *     iN     integers 0..N-1              wN  integers -N..N-1
 *     b      bools                        a   0, 1, 2 ... ascending
 *     m y    like n, the size added to the diagonals of the last two axes; y:
 *            and symmetric
 *     sN     different ints 0..N-1 along the last axis
 * Dtypes: h w f d for float16, bfloat16, float32, float64; c s i l and C S I L
 * for int8 to int64 and uint8 to uint64; ? bool; 0 1 2 3 for 8-bit floats.
 */
#ifndef BELL_TOOLS_FUZZ_ORACLE_H
#define BELL_TOOLS_FUZZ_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "doorbell/functions.h"

/* ---- dtypes ----------------------------------------------------------- */

struct oracle_dtype {
    char letter;
    bool is_float, is_signed, has_inf;
    uint8_t size_bytes;
    int8_t digits;         /* of the significand, the leading one included */
    int16_t min_exp, bias; /* of the least normal number: 2^min_exp */
    long double max;
};

/* NULL for BELL_DEFAULT. */
const struct oracle_dtype *oracle_dtype(enum bell_dtype dtype);
enum bell_dtype oracle_letter(char letter);
/* v as a number of that dtype: floats to nearest even, integers wrap. */
long double oracle_round(enum bell_dtype dtype, long double v);
/* The same from a float to an integer: truncated, saturated, NaN is 0. */
long double oracle_convert(enum bell_dtype from, enum bell_dtype to,
                           long double v);
/* An integer's bits, and the integer that bits are, wrapped to the dtype. */
uint64_t oracle_bits(long double v);
long double oracle_of_bits(enum bell_dtype dtype, uint64_t bits);
/* Distance of v from the next number of that float dtype. */
long double oracle_ulp(enum bell_dtype dtype, long double v);
/* The dtype of a result by PyTorch's rules, of two tensors that have axes. */
enum bell_dtype oracle_promote(enum bell_dtype a, enum bell_dtype b);

/* ---- values ----------------------------------------------------------- */

/* Elements in row-major order, in a call's arena. */
struct oracle_array {
    enum bell_dtype dtype;
    uint32_t rank;
    int64_t d[BELL_MAX_RANK];
    size_t n;
    long double *v;
    /* In a result: the magnitude that rounding errors are relative to; for a
     * sum the sum of magnitudes. NULL: each value's own. */
    long double *scale;
    /* A leaf's gradient, set by `back`. */
    struct oracle_array *gradient;
};

struct oracle_arg {
    bool given;
    enum bell_value_kind kind;
    struct oracle_array *t; /* TENSOR */
    int64_t i;
    long double f; /* INT, FLOAT, BOOL */
    const char *str;
    enum bell_dtype dtype;
    uint32_t n; /* LIST */
    struct oracle_arg *items;
};

/* An int by a name that is not a parameter's, where a function takes such. */
struct oracle_extra {
    char name[16];
    int64_t value;
};

#define ORACLE_MAX_OUT   8
#define ORACLE_MAX_EXTRA 4
/* A value that is not compared: a random one, a slope that does not exist. */
#define ORACLE_ANY 0x1p16001L

struct oracle_row;

/* A call that is being defined. */
struct oracle {
    const struct oracle_row *row;
    struct arena *arena;
    enum bell_dtype dtype; /* the row's current one */
    struct oracle_arg a[BELL_MAX_PARAMS];
    struct oracle_extra extra[ORACLE_MAX_EXTRA];
    uint32_t n_extra;
    struct oracle_array *out[ORACLE_MAX_OUT], *got[ORACLE_MAX_OUT];
    uint32_t n_out;
    /* For `back`: the adjoint of each float result, and the gradient of each
     * parameter (or in the tensor itself). */
    struct oracle_array *adjoint[ORACLE_MAX_OUT], *gradient[BELL_MAX_PARAMS];
};

/* Fills in o->out. */
typedef void oracle_define(struct oracle *o);
/* What is wrong with o->got, the results of a device; NULL: nothing. */
typedef const char *oracle_judge(struct oracle *o);

typedef long double oracle_f1(long double x);
typedef long double oracle_f2(long double x, long double y);
typedef uint64_t oracle_i2(uint64_t x, uint64_t y,
                           const struct oracle_dtype *t);

enum oracle_flag {
    ORACLE_SCALED = 1, /* halves also at 1e-4, 300 and 3000 */
    ORACLE_GRAD = 2,   /* differentiated by differences of the definition */
    ORACLE_BOOL = 4,   /* elementwise: the result is bool */
    ORACLE_SAME = 8,   /* elementwise: integers stay what they are */
    ORACLE_ZERO = 16,  /* the sign of a zero is of no matter */
    ORACLE_WIDE = 32,  /* also at 1e20 and 1e-25, where there is float64 */
};

struct oracle_row {
    const char *name;
    const char *cases;
    const char *dtypes; /* letters; each case is run with each */
    oracle_define *define;
    /* Elementwise functions: the value, its slopes by x and y, where there are
     * such; for integers i2 (of which x alone for functions of one). */
    oracle_f1 *f1, *slope;
    oracle_f2 *f2, *slope_x, *slope_y;
    oracle_i2 *i2;
    oracle_define *back;
    /* For random functions: they are called with a seed, with it again, and
     * with another one. */
    oracle_judge *judge;
    /* How far floats may be off, in units in the last place of float32 or
     * float64, which halves are computed in; 0: rounded to nearest. A half's
     * own rounding comes on top, and `half` times the value. */
    double ulps, grad_ulps, half;
    /* A value's, a slope's error is relative to this at least. */
    double scale, slope_scale;
    unsigned flags;
};

struct oracle_table {
    const struct oracle_row *rows;
    size_t n_rows;
};

extern const struct oracle_table oracle_unary, oracle_binary, oracle_reduce,
    oracle_nn, oracle_loss, oracle_create, oracle_conv, oracle_shape,
    oracle_fft, oracle_random, oracle_select, oracle_linalg, oracle_order;

/* ---- for definitions -------------------------------------------------- */

/* A result, of zeros; its values may be set. */
struct oracle_array *oracle_out(struct oracle *o, enum bell_dtype dtype,
                                const int64_t *d, uint32_t rank);
/* An array that is not a result. */
struct oracle_array *oracle_new(struct oracle *o, enum bell_dtype dtype,
                                const int64_t *d, uint32_t rank);
/* One like t. */
struct oracle_array *oracle_like(struct oracle *o, enum bell_dtype dtype,
                                 const struct oracle_array *t);
/* Magnitudes for a result, zeros. */
void oracle_scales(struct oracle *o, struct oracle_array *t);

/* Parameter k: a tensor, a number, an axis of t counted from its first, flags
 * for the axes listed (all if none are). */
struct oracle_array *oracle_t(const struct oracle *o, uint32_t k);
long double oracle_num(const struct oracle *o, uint32_t k);
int64_t oracle_int(const struct oracle *o, uint32_t k);
bool oracle_flag(const struct oracle *o, uint32_t k);
uint32_t oracle_axis(const struct oracle *o, uint32_t k,
                     const struct oracle_array *t);
/* Ints of parameter k, one or a list; n is set. */
const int64_t *oracle_ints(const struct oracle *o, uint32_t k, uint32_t *n);
uint32_t oracle_axes(const struct oracle *o, uint32_t k,
                     const struct oracle_array *t);

/* at[0..rank-1] becomes the next place in row-major order; false at the end,
 * when it is zeros again. */
bool oracle_next(int64_t *at, const int64_t *d, uint32_t rank);
/* The element of t at a place of something of `rank` axes that t is broadcast
 * to; the first of an axis that something lacks. */
size_t oracle_spread(const struct oracle_array *t, const int64_t *at,
                     uint32_t rank);
/* The shape that arrays are broadcast to; NULLs are left out. */
uint32_t oracle_broadcast(struct oracle_array *const *list, uint32_t n,
                          int64_t *d);
/* Elements before, along and behind an axis: n = before * along * behind. */
void oracle_split(const struct oracle_array *t, uint32_t axis, size_t *before,
                  size_t *along, size_t *behind);
/* Whether a dtype is float; float32 in place of one that is not. */
bool oracle_is_float(enum bell_dtype dtype);
enum bell_dtype oracle_float(enum bell_dtype dtype);
/* The reduction that a string asks for: 'm', 's' or 'n'. */
char oracle_reduction(const struct oracle *o, uint32_t k);

/* ---- calls for other judges ------------------------------------------- */

#define ORACLE_MAX_LEAVES 12

/* What a device gave as the gradient of leaves `of` by a result. */
struct oracle_gradient {
    uint32_t result, n;
    uint32_t of[ORACLE_MAX_LEAVES];
    struct oracle_array *adjoint, *values[ORACLE_MAX_LEAVES];
};

/* A call with what a device gave: o->got. */
struct oracle_call {
    const struct oracle *o;
    const char *text; /* the case */
    size_t text_len;
    const struct bell_param *params;
    const bool *given; /* by parameter; the others have their defaults */
    uint32_t n_params;
    struct oracle_array *leaves[ORACLE_MAX_LEAVES];
    uint32_t n_leaves;
    struct oracle_gradient gradients[ORACLE_MAX_OUT];
    uint32_t n_gradients;
};

/* Elements in memory as the device has them. */
void oracle_encode(const struct oracle_array *t, uint8_t *bytes);
/* Appends a line; errors stay with the file. */
void oracle_dump(FILE *f, const struct oracle_call *call);

/* ---- running ---------------------------------------------------------- */

struct oracle_report {
    uint64_t n_rows, n_calls, n_points, n_differ; /* n_differ: calls */
    uint64_t n_refused; /* by a device without float64 */
    char first[400];    /* of the first difference */
};

/* The row of a function, or NULL. */
const struct oracle_row *oracle_find(const char *name);

struct oracle_run {
    struct bell_context *ctx;
    bool lacks_f64;
    /* The device takes float32's subnormals for 0: what is of them, or one, is
     * not compared. */
    bool flushes;
    bool quiet; /* print nothing but differences, on stderr */
    FILE *dump; /* calls are written there; NULL: nowhere */
    struct oracle_report report;
};

/* Sets run->flushes. */
BELL_MUST_CHECK bell_status oracle_ask_flushes(struct oracle_run *run);

/* All calls of a row. Differences are printed and counted; the status is a
 * failure of the oracle itself or of a device that is lost. */
BELL_MUST_CHECK bell_status oracle_check(struct oracle_run *run,
                                         const struct oracle_row *row);
/* The first call of a row and its gradients in contexts where one allocation
 * after the other fails, alone or with all behind it. A failure for any other
 * reason is told and counted. */
BELL_MUST_CHECK bell_status oracle_check_memory(struct oracle_run *run,
                                                const struct oracle_row *row);

/* Adds v, and its magnitude, to element k. */
static inline void
oracle_add_term(struct oracle_array *out, size_t k, long double v)
{
    out->v[k] += v;
    out->scale[k] += v < 0 ? -v : v;
}

/* The place in row-major order of an element of t. */
static inline size_t
oracle_flat(const struct oracle_array *t, const int64_t *at)
{
    size_t k = 0;
    uint32_t i;

    for (i = 0; i < t->rank; i++)
        k = k * (size_t)t->d[i] + (size_t)at[i];
    return k;
}

#endif
