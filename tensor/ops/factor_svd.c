/* Singular values and eigenvalues by one-sided Jacobi rotations.
 *
 * Columns are turned, two and two, until they are all at right angles; all
 * pairs of a round are different columns, and after a sweep of rounds each
 * column has met each other one. The columns have become u s, and the same
 * rotations make v of the unit matrix. The columns' lengths differ as the
 * singular values do, so u is made of them by reflections: its columns are at
 * right angles also where a singular value is 0.
 *
 * A symmetric a, with a multiple of the unit matrix that makes it positive
 * definite, is l l^T: the columns that l's become are eigenvectors times
 * lengths that are not small, so v is not needed. The values are v^T a v, which
 * have no part of the multiple.
 */
#include "tensor/ops/factor_internal.h"

#include <assert.h>

#include "tensor/ops/elementwise.h"
#include "tensor/ops/matmul.h"

/* The most columns of a tall matrix that are turned as they are, not those of
 * its R. */
#define MAX_TURNED 32

/* The state: (batch, pairs, 2, rows + n). */
struct turning {
    struct bell_context *ctx;
    int64_t n_pairs, rows, all_rows;
};

/* The sum over the matrix' rows of a product of two of the state's columns. */
static const struct uop *
dot(const struct turning *f, const struct uop *a, const struct uop *b)
{
    struct bell_context *ctx = f->ctx;
    const struct uop *u = tn_mul(ctx, tn_shrink_axis(ctx, a, 3, 0, f->rows),
                                 tn_shrink_axis(ctx, b, 3, 0, f->rows));

    return tn_sum(ctx, u, 1u << 3);
}

/* Each pair turned by the angle that makes it one at right angles, of the two
 * the lesser. */
static const struct uop *
turn_pairs(const struct turning *f, const struct uop *s)
{
    struct bell_context *ctx = f->ctx;
    const struct uop *p = tn_shrink_axis(ctx, s, 2, 0, 1);
    const struct uop *q = tn_shrink_axis(ctx, s, 2, 1, 2);
    const struct uop *one = tn_num(ctx, s, 1), *zero = tn_num(ctx, s, 0);
    const struct uop *a = dot(f, p, p), *b = dot(f, q, q), *c = dot(f, p, q);
    const struct uop *none = tn_eq(ctx, c, zero), *half, *tan, *cosine, *sine;
    const struct uop *less, *turned;

    /* cot 2 phi */
    half = tn_fdiv(ctx, tn_sub(ctx, b, a),
                   tn_mul_c(ctx, tn_where(ctx, none, one, c), 2));
    tan = tn_sqrt(ctx, tn_add(ctx, tn_mul(ctx, half, half), one));
    tan = tn_recip(ctx, tn_add(ctx, tn_abs(ctx, half), tan));
    tan = tn_where(ctx, tn_lt(ctx, half, zero), tn_neg(ctx, tan), tan);
    tan = tn_where(ctx, none, zero, tan);
    cosine =
        tn_recip(ctx, tn_sqrt(ctx, tn_add(ctx, tn_mul(ctx, tan, tan), one)));
    sine = tn_mul(ctx, cosine, tan);
    /* 1 - cosine: a cosine that is rounded to 1 would let lengths grow */
    less = tn_fdiv(ctx, tn_mul(ctx, sine, sine), tn_add(ctx, cosine, one));
    /* cos p - sin q, cos q + sin p */
    sine = tn_where(
        ctx,
        tn_eq(ctx, tn_iota(ctx, 4, 2, 2, UOP_I64), tn_int(ctx, UOP_I64, 0)),
        tn_neg(ctx, sine), sine);
    turned = tn_mul(ctx, tn_flip(ctx, s, 1u << 2), sine);
    return tn_add(ctx, s, tn_sub(ctx, turned, tn_mul(ctx, s, less)));
}

/* The next round's pairs: the first column stays, the others move on one place
 * around: along the pairs' first columns and back along their second ones. */
static const struct uop *
next_pairs(const struct turning *f, const struct uop *s)
{
    struct bell_context *ctx = f->ctx;
    int64_t h = f->n_pairs, batch = tn_size(ctx, s, 0);
    const int64_t flat[3] = {batch, 2 * h, f->all_rows};
    const int64_t pairs[4] = {batch, h, 2, f->all_rows};
    const struct uop *at = tn_iota(ctx, 3, 1, 2 * h, UOP_I64), *two, *from;
    const struct uop *one = tn_int(ctx, UOP_I64, 1), *is_first;

    if (h < 2)
        return s;
    two = tn_int(ctx, UOP_I64, 2);
    is_first = tn_eq(ctx, tn_and(ctx, at, one), tn_int(ctx, UOP_I64, 0));
    from = tn_where(ctx, is_first, tn_sub(ctx, at, two), tn_add(ctx, at, two));
    from = tn_where(ctx, tn_eq(ctx, at, tn_int(ctx, UOP_I64, 0)), at, from);
    from = tn_where(ctx, tn_eq(ctx, at, two), one, from);
    from = tn_where(ctx, tn_eq(ctx, at, tn_int(ctx, UOP_I64, 2 * h - 1)),
                    tn_int(ctx, UOP_I64, 2 * h - 2), from);
    s = tn_reshape(ctx, s, flat, 3);
    s = tn_gather(ctx, s, 1, tn_broadcast(ctx, from, flat, 3));
    return tn_reshape(ctx, s, pairs, 4);
}

/* Sweeps after which the angles are right ones to the last bits, found by trial
 * with random, graded and nearly dependent columns, triangles and repeated
 * values. Values that are far closer to each other than to others are told
 * apart late: in float64 that takes as many sweeps again. */
static int64_t
count_sweeps(enum uop_dtype dtype, int64_t n)
{
    if (n <= 2)
        return 2;
    if (dtype == UOP_F64)
        return 10 + 2 * (n > 8) + 2 * (n > 16) + 4 * (n > 24) + 2 * (n > 32) +
               2 * (n > 64) + 2 * (n > 256);
    return 7 + (n > 8) + (n > 16) + (n > 32) + (n > 64) + (n > 128);
}

/* The places of numbers (batch, columns, 1) from the greatest to the least. NaN
 * are all that a matrix has then, and stay where they are. */
static const struct uop *
find_order(struct bell_context *ctx, const struct uop *length)
{
    int64_t n = tn_size(ctx, length, 1);
    const struct uop *other = tn_swap(ctx, length, 1, 2), *before, *rank;
    const struct uop *i = tn_iota(ctx, 3, 1, n, UOP_I64);
    const struct uop *j = tn_iota(ctx, 3, 2, n, UOP_I64);

    before = tn_or(ctx, tn_lt(ctx, length, other),
                   tn_and(ctx, tn_eq(ctx, length, other), tn_lt(ctx, j, i)));
    rank = tn_sum(ctx, tn_cast(ctx, before, UOP_I64), 1u << 2);
    /* row i: the place of what i are before */
    rank = tn_eq(ctx, tn_swap(ctx, rank, 1, 2), i);
    rank = tn_where(ctx, rank, j, tn_int(ctx, UOP_I64, 0));
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_sum(ctx, rank, 1u << 2));
}

/* The columns of (batch, columns, rows) in that order. */
static const struct uop *
put_in_order(struct bell_context *ctx, const struct uop *u,
             const struct uop *order)
{
    const int64_t d[3] = {tn_size(ctx, u, 0), tn_size(ctx, u, 1),
                          tn_size(ctx, u, 2)};

    u = tn_gather(ctx, u, 1, tn_expand(ctx, order, d));
    return tn_wrap(ctx, UOP_CONTIGUOUS, u);
}

/* What the rotations make of the columns of a, with `below` of those of the
 * unit matrix below them: (batch, n, rows + n), else (batch, n, rows). */
static const struct uop *
turn_svd_columns(struct bell_context *ctx, const struct uop *a, bool below,
                 int64_t n_sweeps)
{
    int64_t n = tn_size(ctx, a, 2), n_even = n + n % 2;
    int64_t batch = tn_size(ctx, a, 0), i, n_rounds;
    struct turning f = {ctx, n_even / 2, tn_size(ctx, a, 1), 0};
    const struct uop *unit, *s;

    f.all_rows = f.rows + (below ? n_even : 0);
    s = tn_pad_axis(ctx, tn_swap(ctx, a, 1, 2), 1, 0, n_even - n);
    if (below) {
        unit = tn_is_diagonal(ctx, n_even, f.all_rows, f.rows);
        s = tn_pad_axis(ctx, s, 2, 0, n_even);
        s = tn_where(ctx, unit, tn_num(ctx, a, 1), s);
    }
    s = tn_reshape(ctx, s, (const int64_t[]){batch, f.n_pairs, 2, f.all_rows},
                   4);
    s = tn_wrap(ctx, UOP_CONTIGUOUS, s);
    n_rounds = (n_even - 1) * n_sweeps;
    for (i = 0; i < n_rounds && !tn_bad(s); i++) {
        s = tn_wrap(ctx, UOP_CONTIGUOUS, turn_pairs(&f, s));
        s = next_pairs(&f, s);
    }
    s = tn_reshape(ctx, s, (const int64_t[]){batch, n_even, f.all_rows}, 3);
    s = tn_shrink_axis(ctx, s, 1, 0, n);
    return below ? tn_shrink_axis(ctx, s, 2, 0, f.rows + n) : s;
}

/* The same of a that is not much taller than wide, or has few columns. */
static struct tn_singular
turn_matrix(struct bell_context *ctx, const struct uop *a, bool full)
{
    struct tn_singular failed = {&uop_failed, &uop_failed, &uop_failed}, out;
    const struct uop *scale = tn_scale(ctx, a), *s, *length, *us, *wrong;
    const struct uop *order;
    int64_t m = tn_size(ctx, a, 1), n = tn_size(ctx, a, 2);
    struct tn_factors made;

    s = turn_svd_columns(ctx, tn_fdiv(ctx, a, scale), true,
                         count_sweeps(a->dtype, n));
    us = tn_shrink_axis(ctx, s, 2, 0, m);
    length = tn_sqrt(ctx, tn_sum(ctx, tn_mul(ctx, us, us), 1u << 2));
    length = tn_wrap(ctx, UOP_CONTIGUOUS, length);
    if (tn_bad(length))
        return failed;
    order = find_order(ctx, length);
    s = put_in_order(ctx, s, order);
    length = put_in_order(ctx, length, order);
    if (tn_bad(s))
        return failed;
    us = tn_shrink_axis(ctx, s, 2, 0, m);
    out.v = tn_swap(ctx, tn_shrink_axis(ctx, s, 2, m, m + n), 1, 2);
    made = tn_qr(ctx, tn_swap(ctx, us, 1, 2), full);
    if (tn_bad(made.r))
        return failed;
    out.s = tn_mul(ctx, tn_swap(ctx, length, 1, 2), scale);
    wrong = tn_lt(ctx, tn_unsqueeze(ctx, tn_diagonal(ctx, made.r, n), 1),
                  tn_num(ctx, a, 0));
    if (full)
        wrong = tn_and(ctx, tn_is_before(ctx, 2, m, n),
                       tn_pad_axis(ctx, wrong, 2, 0, m - n));
    out.u = tn_where(ctx, wrong, tn_neg(ctx, made.q), made.q);
    return out;
}

struct tn_singular
tn_svd(struct bell_context *ctx, const struct uop *a, bool full)
{
    struct tn_singular failed = {&uop_failed, &uop_failed, &uop_failed}, out;
    struct tn_factors tall;
    int64_t m, n;

    if (tn_bad(a))
        return failed;
    m = tn_size(ctx, a, 1);
    n = tn_size(ctx, a, 2);
    assert(m >= n && n > 0);
    if (m == n || n <= MAX_TURNED)
        return turn_matrix(ctx, a, full);
    tall = tn_qr(ctx, a, full);
    if (tn_bad(tall.q))
        return failed;
    out = turn_matrix(ctx, tall.r, false);
    if (tn_bad(out.u))
        return failed;
    out.u = tn_matmul(ctx, tn_shrink_axis(ctx, tall.q, 2, 0, n), out.u);
    if (full)
        out.u = tn_join(
            ctx,
            (const struct uop *[]){out.u, tn_shrink_axis(ctx, tall.q, 2, n, m)},
            2, 2);
    return out;
}

/* ---- symmetric matrices ---- */

/* A number (batch, 1, 1) that is no less than any eigenvalue's magnitude, and
 * at most 1.8 times the greatest: the norm of a's eighth power, of which the
 * sum of the squares of all eigenvalues counts. */
static const struct uop *
bound_eigenvalues(struct bell_context *ctx, const struct uop *a)
{
    const uint32_t both = 1u << 1 | 1u << 2;
    const struct uop *size, *power, *none, *one = tn_num(ctx, a, 1);
    int i;

    size = tn_sqrt(ctx, tn_sum(ctx, tn_mul(ctx, a, a), both));
    size = tn_wrap(ctx, UOP_CONTIGUOUS, size);
    none = tn_eq(ctx, size, tn_num(ctx, a, 0));
    size = tn_where(ctx, none, one, size);
    power = tn_wrap(ctx, UOP_CONTIGUOUS, tn_fdiv(ctx, a, size));
    for (i = 0; i < 3; i++)
        power = tn_wrap(ctx, UOP_CONTIGUOUS, tn_matmul(ctx, power, power));
    power = tn_sqrt(ctx, tn_sum(ctx, tn_mul(ctx, power, power), both));
    for (i = 0; i < 3; i++)
        power = tn_sqrt(ctx, power);
    size = tn_mul(ctx, size, tn_where(ctx, none, one, power));
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_mul_c(ctx, size, 1.125));
}

struct tn_eigen
tn_eigh(struct bell_context *ctx, const struct uop *a)
{
    struct tn_eigen failed = {&uop_failed, &uop_failed}, out;
    const struct uop *scale = tn_scale(ctx, a), *s, *shift, *length, *order;
    int64_t n, sweeps;

    if (tn_bad(a) || tn_bad(scale))
        return failed;
    n = tn_size(ctx, a, 1);
    a = tn_wrap(ctx, UOP_CONTIGUOUS, tn_fdiv(ctx, a, scale));
    shift = tn_mul(ctx, tn_unit_matrix(ctx, a, n), bound_eigenvalues(ctx, a));
    s = tn_cholesky(ctx, tn_wrap(ctx, UOP_CONTIGUOUS, tn_add(ctx, a, shift)));
    sweeps = count_sweeps(a->dtype, n);
    if (n > 2 && a->dtype == UOP_F64) /* all are as close as the multiple is */
        sweeps += 4;
    s = turn_svd_columns(ctx, s, false, sweeps);
    length = tn_sqrt(ctx, tn_sum(ctx, tn_mul(ctx, s, s), 1u << 2));
    s = tn_wrap(ctx, UOP_CONTIGUOUS, tn_fdiv(ctx, s, length));
    if (tn_bad(s))
        return failed;
    length = tn_sum(ctx, tn_mul(ctx, tn_matmul(ctx, s, a), s), 1u << 2);
    length = tn_wrap(ctx, UOP_CONTIGUOUS, length);
    order = find_order(ctx, tn_neg(ctx, length));
    s = put_in_order(ctx, s, order);
    length = put_in_order(ctx, length, order);
    out.v = tn_swap(ctx, s, 1, 2);
    out.values = tn_mul(ctx, tn_swap(ctx, length, 1, 2), scale);
    return out;
}
