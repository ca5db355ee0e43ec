/* Factors column by column: reflections, Cholesky, triangular systems. */
#include "tensor/ops/factor_internal.h"

#include <assert.h>
#include <math.h>

#include "tensor/ops/elementwise.h"
#include "tensor/ops/matmul.h"

/* Rows that a kernel of tn_substitute does. */
#define SUBSTITUTE_COLUMNS 4

/* ---- small things ---- */

static const struct uop *
zero_like(struct bell_context *ctx, const struct uop *u)
{
    return tn_num(ctx, u, 0);
}

/* Elements [i, i + 1) of rows and [j, j + 1) of columns; -1: all of them. */
static const struct uop *
pick(struct bell_context *ctx, const struct uop *u, int64_t i, int64_t j)
{
    if (i >= 0)
        u = tn_shrink_axis(ctx, u, 1, i, i + 1);
    return j >= 0 ? tn_shrink_axis(ctx, u, 2, j, j + 1) : u;
}

/* a - b c */
static const struct uop *
less_product(struct bell_context *ctx, const struct uop *a, const struct uop *b,
             const struct uop *c)
{
    return tn_sub(ctx, a, tn_mul(ctx, b, c));
}

/* Where along axis `axis` of (batch, rows, columns) the place is `at`. */
static const struct uop *
is_at(struct bell_context *ctx, uint32_t axis, int64_t n, int64_t at)
{
    return tn_eq(ctx, tn_iota(ctx, 3, axis, n, UOP_I64),
                 tn_int(ctx, UOP_I64, at));
}

const struct uop *
tn_is_before(struct bell_context *ctx, uint32_t axis, int64_t n, int64_t end)
{
    return tn_lt(ctx, tn_iota(ctx, 3, axis, n, UOP_I64),
                 tn_int(ctx, UOP_I64, end));
}

const struct uop *
tn_is_diagonal(struct bell_context *ctx, int64_t rows, int64_t columns,
               int64_t first)
{
    return tn_eq(ctx, tn_iota(ctx, 3, 1, rows, UOP_I64),
                 tn_add(ctx, tn_iota(ctx, 3, 2, columns, UOP_I64),
                        tn_int(ctx, UOP_I64, -first)));
}

const struct uop *
tn_unit_matrix(struct bell_context *ctx, const struct uop *a, int64_t n)
{
    const struct uop *u = tn_cast(ctx, tn_is_diagonal(ctx, n, n, 0), a->dtype);
    const int64_t d[3] = {tn_size(ctx, a, 0), n, n};

    return tn_broadcast(ctx, u, d, 3);
}

const struct uop *
tn_scale(struct bell_context *ctx, const struct uop *a)
{
    bool wide = a->dtype == UOP_F64;
    enum uop_dtype dtype = wide ? UOP_I64 : UOP_I32;
    const struct uop *most =
        tn_reduce(ctx, UOP_MAX, tn_abs(ctx, a), 1u << 1 | 1u << 2);
    const struct uop *bits;

    if (tn_bad(most))
        return most;
    bits = tn_and(
        ctx, tn_bitcast(ctx, most, dtype),
        tn_int(ctx, dtype, wide ? (int64_t)0x7ff << 52 : (int64_t)0xff << 23));
    bits = tn_bitcast(ctx, bits, a->dtype);
    bits = tn_where(ctx, tn_eq(ctx, bits, zero_like(ctx, bits)),
                    tn_num(ctx, bits, 1), bits);
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_wrap(ctx, UOP_DETACH, bits));
}

/* ---- Householder ---- */

/* The state of the work is (batch, columns, rows), so that what is added up is
 * neighbours: n columns of the matrix, p more, one that holds everywhere the
 * number of the pivot's row, and one of the sign. The column that is next is
 * always the first, which is why each step is the same kernel. */
struct reflecting {
    struct bell_context *ctx;
    int64_t n, p, rows, columns;
    /* A column becomes the v of its reflection, 1 at the pivot, 0 where there
     * is none; not what the reflection makes of it. */
    bool keeps_v;
};

/* The first column behind the other n - 1; the others stay. */
static const struct uop *
turn_columns(const struct reflecting *f, const struct uop *s)
{
    struct bell_context *ctx = f->ctx;
    const struct uop *j = tn_iota(ctx, 3, 1, f->columns, UOP_I64), *next;
    const int64_t d[3] = {tn_size(ctx, s, 0), f->columns, f->rows};

    next = tn_add(ctx, j, tn_int(ctx, UOP_I64, 1));
    next = tn_where(ctx, tn_lt(ctx, next, tn_int(ctx, UOP_I64, f->n)), next,
                    tn_int(ctx, UOP_I64, 0));
    next = tn_where(ctx, tn_lt(ctx, j, tn_int(ctx, UOP_I64, f->n)), next, j);
    return tn_gather(ctx, s, 1, tn_broadcast(ctx, next, d, 3));
}

/* Where columns are those that went before: with k finished, the last k of
 * n. */
static const struct uop *
is_finished(const struct reflecting *f, const struct uop *k)
{
    struct bell_context *ctx = f->ctx;
    const struct uop *j = tn_iota(ctx, 3, 1, f->columns, k->dtype);

    return tn_lt(ctx, tn_num(ctx, k, (double)f->n - 1), tn_add(ctx, j, k));
}

/* One reflection: I - 2 v v^T / v^T v, v the first column from the pivot on,
 * the pivot less what it becomes. None where the column is in form already, as
 * in LAPACK. */
static const struct uop *
reflect_once(const struct reflecting *f, const struct uop *s)
{
    struct bell_context *ctx = f->ctx;
    const struct uop *zero = zero_like(ctx, s), *one = tn_num(ctx, s, 1);
    const struct uop *row = tn_iota(ctx, 3, 2, f->rows, s->dtype);
    const struct uop *k = pick(ctx, s, f->columns - 2, 0);
    const struct uop *x = pick(ctx, s, 0, -1);
    const struct uop *below, *at, *tail, *pivot, *top, *done, *norm, *becomes;
    const struct uop *less, *v, *dot, *scale, *size, *out;
    uint32_t sum = 1u << 2;

    below = tn_lt(ctx, k, row);
    at = tn_eq(ctx, k, row);
    v = tn_where(ctx, below, x, zero);
    tail = tn_sum(ctx, tn_mul(ctx, v, v), sum);
    dot = tn_sum(ctx, tn_mul(ctx, v, s), sum);
    top = tn_sum(ctx, tn_where(ctx, at, s, zero), sum);
    pivot = tn_sum(ctx, tn_where(ctx, at, x, zero), sum);
    /* less would vanish as a square */
    done =
        tn_lt(ctx, tail, tn_num(ctx, s, s->dtype == UOP_F64 ? 1e-290 : 1e-35));
    norm = tn_sqrt(ctx, tn_add(ctx, tn_mul(ctx, pivot, pivot), tail));
    becomes = tn_where(ctx, tn_lt(ctx, pivot, zero), norm, tn_neg(ctx, norm));
    becomes = tn_where(ctx, done, pivot, becomes);
    less = tn_sub(ctx, pivot, becomes);
    size = tn_add(ctx, tail, tn_mul(ctx, less, less));
    scale = tn_fdiv(ctx, tn_num(ctx, s, 2), tn_where(ctx, done, one, size));
    scale = tn_where(ctx, done, zero, scale);
    dot = tn_add(ctx, dot, tn_mul(ctx, less, top));
    v = tn_where(ctx, at, less, v);
    out = less_product(ctx, s, v, tn_mul(ctx, scale, dot));
    if (f->keeps_v) {
        x = tn_fdiv(ctx, v, tn_where(ctx, done, one, less));
        x = tn_where(ctx, done, zero, x);
        out = tn_where(ctx, is_finished(f, k), s, out);
    } else {
        x = tn_where(ctx, at, becomes, tn_where(ctx, below, zero, x));
    }
    out = tn_where(ctx, is_at(ctx, 1, f->columns, 0), x, out);
    out = tn_where(ctx, is_at(ctx, 1, f->columns, f->columns - 2),
                   tn_add(ctx, s, one), out);
    out = tn_where(ctx, is_at(ctx, 1, f->columns, f->columns - 1),
                   tn_where(ctx, done, s, tn_neg(ctx, s)), out);
    return tn_wrap(ctx, UOP_CONTIGUOUS, turn_columns(f, out));
}

/* All reflections of a state whose last column is still to hold the sign. */
static const struct uop *
reflect_all(const struct reflecting *f, const struct uop *s)
{
    struct bell_context *ctx = f->ctx;
    const struct uop *sign = is_at(ctx, 1, f->columns, f->columns - 1);
    int64_t k;

    s = tn_where(ctx, sign, tn_num(ctx, s, 1), s);
    s = tn_wrap(ctx, UOP_CONTIGUOUS, s);
    for (k = 0; k < f->n && !tn_bad(s); k++)
        s = reflect_once(f, s);
    return s;
}

const struct uop *
tn_reflect_block(struct bell_context *ctx, const struct uop *a,
                 const struct uop **out_sign)
{
    struct reflecting f = {.ctx = ctx, .keeps_v = true};
    const struct uop *s;

    f.n = tn_size(ctx, a, 2);
    f.rows = tn_size(ctx, a, 1);
    f.columns = f.n + 2;
    s = reflect_all(&f, tn_pad_axis(ctx, tn_swap(ctx, a, 1, 2), 1, 0, 2));
    if (tn_bad(s))
        return s;
    *out_sign = pick(ctx, s, f.columns - 1, 0);
    s = tn_swap(ctx, tn_shrink_axis(ctx, s, 1, 0, f.n), 1, 2);
    return tn_wrap(ctx, UOP_CONTIGUOUS, s);
}

struct tn_reflected
tn_reflect(struct bell_context *ctx, const struct uop *a, const struct uop *b)
{
    struct tn_reflected failed = {&uop_failed, &uop_failed, &uop_failed}, out;
    struct reflecting f = {.ctx = ctx};
    const struct uop *scale, *s;

    if (tn_bad(a) || tn_bad(b))
        return failed;
    f.n = tn_size(ctx, a, 2);
    if (f.n > FACTOR_MAX_REFLECTED && f.n == tn_size(ctx, a, 1))
        return tn_reflect_blocks(ctx, a, b);
    f.p = tn_size(ctx, b, 2);
    f.rows = tn_size(ctx, a, 1);
    f.columns = f.n + f.p + 2;
    assert(f.rows >= f.n && f.n > 0 && tn_size(ctx, b, 1) == f.rows);
    scale = tn_scale(ctx, a);
    s = tn_swap(ctx, tn_fdiv(ctx, a, scale), 1, 2);
    s = tn_pad_axis(ctx, s, 1, 0, f.p + 2);
    if (f.p > 0)
        s = tn_add(ctx, s, tn_pad_axis(ctx, tn_swap(ctx, b, 1, 2), 1, f.n, 2));
    s = reflect_all(&f, s);
    if (tn_bad(s))
        return failed;
    out.r = tn_shrink_axis(ctx, tn_shrink_axis(ctx, s, 1, 0, f.n), 2, 0, f.n);
    out.r = tn_mul(ctx, tn_swap(ctx, out.r, 1, 2), scale);
    out.b = tn_swap(ctx, tn_shrink_axis(ctx, s, 1, f.n, f.n + f.p), 1, 2);
    out.sign = pick(ctx, s, f.columns - 1, 0);
    return out;
}

struct tn_factors
tn_qr(struct bell_context *ctx, const struct uop *a, bool full)
{
    struct tn_factors failed = {&uop_failed, &uop_failed}, out;
    struct tn_reflected made;

    if (tn_bad(a))
        return failed;
    if (tn_size(ctx, a, 2) > FACTOR_MAX_REFLECTED)
        return tn_qr_blocks(ctx, a, full);
    made = tn_reflect(ctx, a, tn_unit_matrix(ctx, a, tn_size(ctx, a, 1)));
    if (tn_bad(made.r))
        return failed;
    out.q = tn_swap(ctx, made.b, 1, 2);
    if (!full)
        out.q = tn_shrink_axis(ctx, out.q, 2, 0, tn_size(ctx, a, 2));
    out.r = made.r;
    return out;
}

/* ---- Cholesky ---- */

/* Columns from, from + 1, ...: finished, and taken off what is to their right.
 * A column's own numbers are functions of the 4 of its row and of the 4 x 4 at
 * the diagonal. */
const struct uop *
tn_cholesky_step(struct bell_context *ctx, const struct uop *t, int64_t from)
{
    const struct uop *factor[CHOLESKY_COLUMNS][CHOLESKY_COLUMNS];
    const struct uop *column[CHOLESKY_COLUMNS], *inverse[CHOLESKY_COLUMNS];
    const struct uop *out = t, *zero = zero_like(ctx, t);
    int64_t m = tn_size(ctx, t, 1), n = tn_size(ctx, t, 2);
    int64_t count = n - from, a, b, c;

    if (count > CHOLESKY_COLUMNS)
        count = CHOLESKY_COLUMNS;
    for (b = 0; b < count; b++) {
        for (a = b; a < count; a++) {
            const struct uop *u = pick(ctx, t, from + a, from + b);
            for (c = 0; c < b; c++)
                u = less_product(ctx, u, factor[a][c], factor[b][c]);
            if (a == b) {
                u = tn_sqrt(ctx, u);
                inverse[b] = tn_recip(ctx, u);
            } else {
                u = tn_mul(ctx, u, inverse[b]);
            }
            factor[a][b] = u;
        }
        column[b] = pick(ctx, t, -1, from + b);
        for (c = 0; c < b; c++)
            column[b] = less_product(ctx, column[b], column[c], factor[b][c]);
        column[b] = tn_mul(ctx, column[b], inverse[b]);
    }
    for (b = 0; b < count; b++) {
        const struct uop *top = tn_shrink_axis(ctx, column[b], 1, 0, n);
        out = less_product(ctx, out, column[b], tn_swap(ctx, top, 1, 2));
    }
    /* what is to the left was finished before */
    out = tn_where(ctx, tn_is_before(ctx, 2, n, from), t, out);
    for (b = 0; b < count; b++)
        out = tn_where(ctx, is_at(ctx, 2, n, from + b), column[b], out);
    if (from + count == n)
        out = tn_where(ctx,
                       tn_lt(ctx, tn_iota(ctx, 3, 1, m, UOP_I64),
                             tn_iota(ctx, 3, 2, n, UOP_I64)),
                       zero, out);
    return tn_wrap(ctx, UOP_CONTIGUOUS, out);
}

const struct uop *
tn_cholesky(struct bell_context *ctx, const struct uop *a)
{
    int64_t n, from;

    if (tn_bad(a))
        return a;
    n = tn_size(ctx, a, 1);
    if (n > FACTOR_MAX_TRIANGLE)
        return tn_cholesky_blocks(ctx, a);
    for (from = 0; from < n && !tn_bad(a); from += CHOLESKY_COLUMNS)
        a = tn_cholesky_step(ctx, a, from);
    return a;
}

/* ---- triangular systems ---- */

/* Rows from, from + 1, ... of y become x, and are taken off those below. */
static const struct uop *
substitute_step(struct bell_context *ctx, const struct uop *t,
                const struct uop *y, int64_t from)
{
    const struct uop *x[SUBSTITUTE_COLUMNS], *out = y;
    int64_t n = tn_size(ctx, t, 1), count = n - from, b, c;

    if (count > SUBSTITUTE_COLUMNS)
        count = SUBSTITUTE_COLUMNS;
    for (b = 0; b < count; b++) {
        x[b] = pick(ctx, y, from + b, -1);
        for (c = 0; c < b; c++)
            x[b] =
                less_product(ctx, x[b], pick(ctx, t, from + b, from + c), x[c]);
        x[b] = tn_fdiv(ctx, x[b], pick(ctx, t, from + b, from + b));
    }
    if (from + count < n) {
        for (b = 0; b < count; b++)
            out = less_product(ctx, out, pick(ctx, t, -1, from + b), x[b]);
    }
    out = tn_where(ctx, tn_is_before(ctx, 1, n, from), y, out);
    for (b = 0; b < count; b++)
        out = tn_where(ctx, is_at(ctx, 1, n, from + b), x[b], out);
    return tn_wrap(ctx, UOP_CONTIGUOUS, out);
}

const struct uop *
tn_substitute(struct bell_context *ctx, const struct uop *t,
              const struct uop *y)
{
    int64_t n, from;

    if (tn_bad(t) || tn_bad(y))
        return &uop_failed;
    n = tn_size(ctx, t, 1);
    if (n > FACTOR_MAX_TRIANGLE)
        return tn_substitute_blocks(ctx, t, y);
    for (from = 0; from < n && !tn_bad(y); from += SUBSTITUTE_COLUMNS)
        y = substitute_step(ctx, t, y, from);
    return y;
}
