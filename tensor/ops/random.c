/* Random numbers: Threefry-2x32 with 20 rounds on the element's number.
 *
 * A call's key and number are a leaf of four 32-bit words, so that the graph
 * of a training step is the same graph in every step. The counter of element
 * i of call c is (i, c), the key is the seed. Each element has two words of
 * its own, enough for a double or for one normal number.
 * src: J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
 */
#include "tensor/core/node.h"

#include <assert.h>
#include <math.h>

#include "tensor/ops/elementwise.h"
#include "tensor/ops/select.h"
#include "tensor/core/trace.h"

/* ---- the generator ---- */

static const struct uop *
rotate(struct bell_context *ctx, const struct uop *x, int64_t by)
{
    assert(by > 0 && by < 32);
    return tn_or(ctx, tn_alu2(ctx, UOP_SHL, x, tn_int(ctx, UOP_U32, by)),
                 tn_alu2(ctx, UOP_SHR, x, tn_int(ctx, UOP_U32, 32 - by)));
}

/* One block: x[0..1] encrypted with key[0..1]; U32. */
static void
threefry(struct bell_context *ctx, const struct uop *x[2],
         const struct uop *const key[2])
{
    static const int64_t turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const struct uop *ks[3] = {key[0], key[1], NULL};
    int round, i;

    assert(tn_bad(x[0]) || tn_bad(x[1]) ||
           (x[0]->dtype == UOP_U32 && x[1]->dtype == UOP_U32));
    ks[2] = tn_xor(ctx, tn_xor(ctx, key[0], key[1]),
                   tn_int(ctx, UOP_U32, 0x1BD11BDA));
    x[0] = tn_add(ctx, x[0], ks[0]);
    x[1] = tn_add(ctx, x[1], ks[1]);
    for (round = 0; round < 5; round++) {
        for (i = 0; i < 4; i++) {
            x[0] = tn_add(ctx, x[0], x[1]);
            x[1] = rotate(ctx, x[1], turns[round % 2 * 4 + i]);
            x[1] = tn_xor(ctx, x[1], x[0]);
        }
        x[0] = tn_add(ctx, x[0], ks[(round + 1) % 3]);
        x[1] = tn_add(ctx, x[1], ks[(round + 2) % 3]);
        x[1] = tn_add(ctx, x[1], tn_int(ctx, UOP_U32, round + 1));
    }
}

/* Word `i` of a leaf of words, shape (1). */
static const struct uop *
take_random_word(struct bell_context *ctx, const struct uop *leaf, int64_t i)
{
    return tn_shrink_axis(ctx, leaf, 0, i, i + 1);
}

void
tensor_generator_words(struct bell_context *ctx, uint32_t *words)
{
    words[0] = (uint32_t)ctx->seed;
    words[1] = (uint32_t)(ctx->seed >> 32);
    words[2] = (uint32_t)ctx->rng_calls;
    words[3] = (uint32_t)(ctx->rng_calls >> 32);
    ctx->rng_calls++;
}

/* Two random words for each of n elements, shape (n) each; false after a
 * failure of `call`. */
static bool
random_words(const char *call, struct bell_context *ctx, int64_t n,
             const struct uop *words[2])
{
    uint32_t state[4];
    const struct uop *leaf, *key[2];
    int64_t least, most;

    assert(n >= 0);
    dim_bounds(ctx->dims, n, &least, &most);
    if (most > (int64_t)1 << 32) {
        tensor_fail(ctx, call, BELL_BAD_SHAPE,
                    "%lld elements, more than 2^32 in one call",
                    (long long)most);
        return false;
    }
    tensor_generator_words(ctx, state);
    leaf = tensor_feed_leaf(ctx, call, UOP_U32, 4, state, NULL, 0);
    if (!leaf) {
        ctx->rng_calls--;
        return false;
    }
    key[0] = take_random_word(ctx, leaf, 0);
    key[1] = tn_xor(ctx, take_random_word(ctx, leaf, 1),
                    take_random_word(ctx, leaf, 3));
    words[0] = tn_iota(ctx, 1, 0, n, UOP_U32);
    words[1] = take_random_word(ctx, leaf, 2);
    threefry(ctx, words, key);
    return true;
}

void
bell_manual_seed(struct bell_context *ctx, uint64_t seed)
{
    if (!tensor_context_check(__func__, ctx))
        return;
    if (ctx->trace) {
        tensor_fail(ctx, __func__, BELL_BAD_STATE,
                    "in a function that is captured: replays would not start "
                    "the sequence again");
        return;
    }
    ctx->seed = seed;
    ctx->rng_calls = 0;
}

/* ---- from bits to numbers ---- */

static const struct uop *
shift_word_right(struct bell_context *ctx, const struct uop *x, int64_t by)
{
    assert(by >= 0 && by < 64);
    return tn_alu2(ctx, UOP_SHR, x, tn_int(ctx, x->dtype, by));
}

/* The top bits as a whole number, times 2^-bits: in [0, 1), every value a
 * multiple of the dtype's spacing just below 1. */
static const struct uop *
unit_interval(struct bell_context *ctx, const struct uop *const words[2],
              enum uop_dtype dtype)
{
    int bits = uop_dtype_infos[dtype].fraction_bits + 1;
    const struct uop *u, *low;

    assert(uop_dtype_infos[dtype].is_float);
    if (dtype != UOP_F64) {
        u = tn_cast(ctx, shift_word_right(ctx, words[0], 32 - bits), UOP_F32);
        return tn_cast(ctx, tn_mul_c(ctx, u, ldexp(1, -bits)), dtype);
    }
    u = tn_cast(ctx, shift_word_right(ctx, words[0], 5), UOP_F64);
    low = tn_cast(ctx, shift_word_right(ctx, words[1], 6), UOP_F64);
    u = tn_add(ctx, tn_mul_c(ctx, u, 0x1p26), low);
    return tn_mul_c(ctx, u, 0x1p-53);
}

/* sqrt(-2 ln u) cos(2 pi v) with u in (0, 1], v in [0, 1). */
static const struct uop *
normal_numbers(struct bell_context *ctx, const struct uop *const words[2],
               enum uop_dtype dtype)
{
    enum uop_dtype wide = dtype == UOP_F64 ? UOP_F64 : UOP_F32;
    int bits = wide == UOP_F64 ? 32 : 24;
    const struct uop *u, *v;

    assert(uop_dtype_infos[dtype].is_float);
    u = tn_cast(ctx, shift_word_right(ctx, words[0], 32 - bits), wide);
    u = tn_mul_c(ctx, tn_add_c(ctx, u, 1), ldexp(1, -bits));
    v = tn_cast(ctx, shift_word_right(ctx, words[1], 32 - bits), wide);
    v = tn_mul_c(ctx, v, ldexp(6.283185307179586477, -bits));
    u = tn_sqrt(ctx, tn_mul_c(ctx, tn_log(ctx, u), -2));
    return tn_cast(ctx, tn_mul(ctx, u, tn_cos(ctx, v)), dtype);
}

/* The elements of a shape, a size; -1: too many. */
static int64_t
count_of(struct bell_context *ctx, const int64_t *shape, uint32_t ndim)
{
    return dims_in(shape, ndim) ? dim_product(ctx->dims, shape, ndim)
                                : tn_product(shape, ndim);
}

typedef const struct uop *bits_to_numbers(struct bell_context *ctx,
                                          const struct uop *const words[2],
                                          enum uop_dtype dtype);

/* scale * numbers + offset in a shape; stored, so that every use sees them
 * computed once. */
static struct bell_tensor *
make_random(const char *call, struct bell_context *ctx, const int64_t *shape,
            uint32_t ndim, enum bell_dtype dtype, bits_to_numbers *convert,
            double scale, double offset)
{
    const struct uop *words[2], *u;
    enum uop_dtype type;

    if (!tensor_context_check(call, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, call, dtype, UOP_F32);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, call, shape, ndim))
        return ctx->error_tensor;
    if (!uop_dtype_infos[type].is_float)
        return tensor_fail(ctx, call, BELL_BAD_DTYPE,
                           "of %s, not a float dtype",
                           uop_dtype_infos[type].name);
    if (!random_words(call, ctx, count_of(ctx, shape, ndim), words))
        return ctx->error_tensor;
    u = convert(ctx, words, type);
    if (uop_dtype_is_f8(type))
        u = tn_widen(ctx, u);
    if (scale != 1)
        u = tn_mul_c(ctx, u, scale);
    if (offset != 0)
        u = tn_add_c(ctx, u, offset);
    u = tn_cast(ctx, tn_reshape(ctx, u, shape, ndim), type);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, u);
    return tensor_new(ctx, call, u);
}

struct bell_tensor *
bell_rand(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
          enum bell_dtype dtype)
{
    return make_random(__func__, ctx, shape, ndim, dtype, unit_interval, 1, 0);
}

struct bell_tensor *
bell_randn(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
           enum bell_dtype dtype)
{
    return make_random(__func__, ctx, shape, ndim, dtype, normal_numbers, 1, 0);
}

struct bell_tensor *
bell_uniform(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
             double low, double high, enum bell_dtype dtype)
{
    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!(low <= high))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "low is %g, high %g: expected low <= high", low,
                           high);
    return make_random(__func__, ctx, shape, ndim, dtype, unit_interval,
                       high - low, low);
}

struct bell_tensor *
bell_normal(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
            double mean, double std, enum bell_dtype dtype)
{
    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!(std >= 0))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "the standard deviation is %g; expected 0 or more",
                           std);
    return make_random(__func__, ctx, shape, ndim, dtype, normal_numbers, std,
                       mean);
}

struct bell_tensor *
bell_rand_like(struct bell_tensor *x)
{
    struct bell_tensor *out;

    if (!tensor_takes(__func__, x, &out))
        return out;
    return make_random(__func__, tensor_at(x)->ctx, tensor_at(x)->shape->d,
                       tensor_at(x)->shape->n, bell_dtype_of(x), unit_interval,
                       1, 0);
}

struct bell_tensor *
bell_randn_like(struct bell_tensor *x)
{
    struct bell_tensor *out;

    if (!tensor_takes(__func__, x, &out))
        return out;
    return make_random(__func__, tensor_at(x)->ctx, tensor_at(x)->shape->d,
                       tensor_at(x)->shape->n, bell_dtype_of(x), normal_numbers,
                       1, 0);
}

/* (word * range) >> 32 spreads the words evenly over 0..range-1. */
struct bell_tensor *
bell_randint(struct bell_context *ctx, int64_t low, int64_t high,
             const int64_t *shape, uint32_t ndim, enum bell_dtype dtype)
{
    const struct uop *words[2], *u;
    enum uop_dtype type;
    uint64_t range;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_I64);
    if (type == UOP_VOID || !tensor_takes_shape(ctx, __func__, shape, ndim))
        return ctx->error_tensor;
    range = (uint64_t)high - (uint64_t)low;
    if (low >= high || range > (uint64_t)1 << 32)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "low %lld, high %lld: expected low < high, and 2^32 "
                           "numbers at most",
                           (long long)low, (long long)high);
    if (!random_words(__func__, ctx, count_of(ctx, shape, ndim), words))
        return ctx->error_tensor;
    u = tn_cast(ctx, words[0], UOP_U64);
    u = tn_mul(ctx, u, tn_int(ctx, UOP_U64, (int64_t)range));
    u = tn_cast(ctx, shift_word_right(ctx, u, 32), UOP_I64);
    u = tn_cast(ctx, tn_add(ctx, u, tn_int(ctx, UOP_I64, low)), type);
    u = tn_wrap(ctx, UOP_CONTIGUOUS, tn_reshape(ctx, u, shape, ndim));
    return tensor_new(ctx, __func__, u);
}

/* The places of n random 64-bit numbers in their order. */
struct bell_tensor *
bell_randperm(struct bell_context *ctx, int64_t n)
{
    const struct uop *words[2], *key;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!tensor_shape_arg(ctx, __func__, &n, 1) ||
        !random_words(__func__, ctx, n, words))
        return ctx->error_tensor;
    if (n > TN_MAX_ORDERED)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%lld, more than 2^32", (long long)n);
    key = tn_alu2(ctx, UOP_SHL, tn_cast(ctx, words[0], UOP_U64),
                  tn_int(ctx, UOP_U64, 32));
    key = tn_or(ctx, key, tn_cast(ctx, words[1], UOP_U64));
    return tensor_new(ctx, __func__, tn_shuffle(ctx, key));
}

/* ---- sampling ---- */

/* For each of n draws a row: the first place where the running sum of weights
 * is above a share of the whole that is uniform in [0, 1), of those that have a
 * weight. */
static const struct uop *
draw_again(struct bell_context *ctx, const struct uop *w,
           const struct uop *shares)
{
    uint32_t last = tn_rank(ctx, w) - 1;
    int64_t n = tn_size(ctx, w, last);
    const struct uop *sums, *all, *at, *top, *some;

    sums = tn_wrap(ctx, UOP_CONTIGUOUS, tn_scan(ctx, UOP_ADD, w, last));
    all = tn_shrink_axis(ctx, sums, last, dim_sub(ctx->dims, n, 1), n);
    at = tn_search(ctx, sums, tn_mul(ctx, shares, all), true);
    /* rounding may reach the sum itself: the last that has a weight */
    some = tn_lt(ctx, tn_num(ctx, w, 0), w);
    top = tn_where(ctx, some, tn_iota(ctx, last + 1, last, n, UOP_I64),
                   tn_int(ctx, UOP_I64, -1));
    top = tn_reduce(ctx, UOP_MAX, top, tn_axis_bit(last));
    return tn_min(ctx, at, top);
}

/* Zeros in place of rows that have a negative weight or one that is not finite:
 * nothing can be drawn from them. */
static const struct uop *
keep_valid_rows(struct bell_context *ctx, const struct uop *w)
{
    const struct uop *zero = tn_num(ctx, w, 0), *ok;

    ok = tn_and(ctx, tn_le(ctx, zero, w),
                tn_lt(ctx, w, tn_num(ctx, w, (double)INFINITY)));
    ok = tn_reduce(ctx, UOP_MIN, tn_cast(ctx, ok, UOP_I32),
                   1u << (tn_bad(w) ? 0 : tn_rank(ctx, w) - 1));
    return tn_where(ctx, tn_bool(ctx, ok), w, zero);
}

/* The greatest n of weight / e with e exponential: each is the greatest with a
 * probability that is its weight's share. src: P. Efraimidis, P. Spirakis,
 * "Weighted random sampling with a reservoir", 2006. */
static const struct uop *
draw_once(struct bell_context *ctx, const struct uop *w,
          const struct uop *shares, int64_t n)
{
    uint32_t last = tn_rank(ctx, w) - 1;
    const struct uop *e, *key, *order, *some;

    e = tn_neg(ctx, tn_log1p(ctx, tn_neg(ctx, shares)));
    some = tn_lt(ctx, tn_num(ctx, w, 0), w);
    /* an e of 0 is as good as any that is very small */
    e = tn_max(ctx, e, tn_num(ctx, e, 0x1p-60));
    key = tn_where(ctx, some, tn_fdiv(ctx, w, e), tn_num(ctx, w, -1));
    key = tn_wrap(ctx, UOP_CONTIGUOUS, key);
    order = tn_order_axis(ctx, key, last, true, n);
    key = tn_gather(ctx, key, last, order);
    return tn_where(ctx, tn_lt(ctx, key, tn_num(ctx, key, 0)),
                    tn_int(ctx, UOP_I64, -1), order);
}

struct bell_tensor *
bell_multinomial(struct bell_tensor *weights, int64_t n, bool replacement)
{
    const struct uop *words[2], *w, *shares;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t d[2], size;
    uint32_t rank;

    if (!tensor_takes(__func__, weights, &out))
        return out;
    ctx = tensor_at(weights)->ctx;
    rank = tensor_at(weights)->shape->n;
    size = rank ? tensor_at(weights)->shape->d[rank - 1] : 0;
    if (!uop_dtype_infos[tensor_at(weights)->dtype].is_float || rank < 1 ||
        rank > 2 || size < 1 || (size > TN_MAX_ORDERED && !dim_is_expr(size)))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "weights of %s %s; a float dtype, one axis or two "
                           "and 1 to 2^32 weights in a row are needed",
                           DTYPE_OF(weights), SHAPE_OF(weights));
    if (n < 1 || (!replacement && n > size))
        return tensor_fail(
            ctx, __func__, BELL_BAD_VALUE,
            "%lld draws%s from weights of shape %s%s", (long long)n,
            replacement ? "" : " without replacement", SHAPE_OF(weights),
            n < 1 ? "; at least 1 is needed" : ", which has fewer in a row");
    if (!replacement &&
        !tensor_plain_axes(__func__, weights, tn_axis_bit(rank - 1),
                           "a network of sorting is for one size", &out))
        return out;
    w = keep_valid_rows(ctx, tn_widen(ctx, tensor_node(weights)));
    if (tn_bad(w)) /* out of memory */
        return tensor_new(ctx, __func__, w);
    d[0] = tensor_at(weights)->shape->d[0];
    d[rank - 1] = replacement ? n : size;
    if (!tensor_takes_shape(ctx, __func__, d, rank) ||
        !random_words(__func__, ctx, count_of(ctx, d, rank), words))
        return ctx->error_tensor;
    shares = unit_interval(ctx, (const struct uop *const *)words, w->dtype);
    shares = tn_reshape(ctx, shares, d, rank);
    w = replacement ? draw_again(ctx, w, shares) : draw_once(ctx, w, shares, n);
    return tensor_new(ctx, __func__, tn_wrap(ctx, UOP_CONTIGUOUS, w));
}

/* ---- initialisers ---- */

struct bell_tensor *
bell_scaled_uniform(struct bell_context *ctx, const int64_t *shape,
                    uint32_t ndim, enum bell_dtype dtype)
{
    int64_t n;
    double bound;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!tensor_shape_arg(ctx, __func__, shape, ndim))
        return ctx->error_tensor;
    n = tn_product(shape, ndim);
    bound = n > 0 ? 1 / sqrt((double)n) : 1;
    return make_random(__func__, ctx, shape, ndim, dtype, unit_interval,
                       2 * bound, -bound);
}

/* Sizes of a weight's two sides; false after a failure of `call`. */
static bool
find_fans(const char *call, struct bell_context *ctx, const int64_t *shape,
          uint32_t ndim, double *out_in, double *out_out)
{
    if (!tensor_shape_arg(ctx, call, shape, ndim))
        return false;
    if (ndim < 2 || tn_product(shape, ndim) == 0) {
        char text[TENSOR_SHAPE_STR];
        tensor_fail(ctx, call, BELL_BAD_SHAPE,
                    "a weight of shape %s has no fan-in and fan-out",
                    tensor_shape_str(shape, ndim, text, sizeof(text)));
        return false;
    }
    *out_in = (double)tn_product(shape + 1, ndim - 1);
    *out_out = (double)shape[0] * (double)tn_product(shape + 2, ndim - 2);
    return true;
}

struct bell_tensor *
bell_glorot_uniform(struct bell_context *ctx, const int64_t *shape,
                    uint32_t ndim, enum bell_dtype dtype)
{
    double fan_in, fan_out, bound;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!find_fans(__func__, ctx, shape, ndim, &fan_in, &fan_out))
        return ctx->error_tensor;
    bound = sqrt(6 / (fan_in + fan_out));
    return make_random(__func__, ctx, shape, ndim, dtype, unit_interval,
                       2 * bound, -bound);
}

struct bell_tensor *
bell_kaiming_uniform(struct bell_context *ctx, const int64_t *shape,
                     uint32_t ndim, double a, enum bell_dtype dtype)
{
    double fan_in, fan_out, bound;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!find_fans(__func__, ctx, shape, ndim, &fan_in, &fan_out))
        return ctx->error_tensor;
    bound = sqrt(6 / ((1 + a * a) * fan_in));
    return make_random(__func__, ctx, shape, ndim, dtype, unit_interval,
                       2 * bound, -bound);
}

struct bell_tensor *
bell_kaiming_normal(struct bell_context *ctx, const int64_t *shape,
                    uint32_t ndim, double a, enum bell_dtype dtype)
{
    double fan_in, fan_out;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!find_fans(__func__, ctx, shape, ndim, &fan_in, &fan_out))
        return ctx->error_tensor;
    return make_random(__func__, ctx, shape, ndim, dtype, normal_numbers,
                       sqrt(2 / ((1 + a * a) * fan_in)), 0);
}

/* ---- dropout ---- */

/* The bits that keep elements are stored (CONTIGUOUS): the backward pass reads
 * them instead of making the bits again. p = 1 multiplies by 0, so that a NaN
 * stays one. */
const struct uop *
tn_dropout(const char *call, struct bell_context *ctx, const struct uop *x,
           double p)
{
    const struct uop_dims *shape = tn_shape(ctx, x);
    double cut = floor(p * 0x1p32);
    const struct uop *words[2], *keep;

    assert(p >= 0 && p <= 1);
    if (!ctx->training || cut < 1 || tn_bad(x))
        return x;
    if (p == 1)
        return tn_mul_c(ctx, x, 0);
    if (!random_words(call, ctx, tn_elems(ctx, x), words))
        return NULL;
    keep = tn_lt(ctx, words[0], tn_int(ctx, UOP_U32, (int64_t)(0x1p32 - cut)));
    keep = tn_reshape(ctx, keep, shape->d, shape->n);
    keep = tn_wrap(ctx, UOP_CONTIGUOUS, keep);
    return tn_where(ctx, keep, tn_mul_c(ctx, x, 1 / (1 - p)),
                    tn_const(ctx, x->dtype, 0));
}

struct bell_tensor *
bell_dropout(struct bell_tensor *x, double p)
{
    struct tensor_operands ops;
    struct bell_tensor *out;
    const struct uop *u;

    if (!tensor_takes(__func__, x, &out) ||
        !tensor_operands(__func__, &x, 1, TENSOR_FLOAT, &ops, &out))
        return out;
    if (!(p >= 0 && p <= 1))
        return tensor_fail(ops.ctx, __func__, BELL_BAD_VALUE,
                           "probability %g is not in 0..1", p);
    u = tn_dropout(__func__, ops.ctx, ops.u[0], p);
    return u ? tensor_result(__func__, &ops, u) : ops.ctx->error_tensor;
}
