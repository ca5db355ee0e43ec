/* Factors of matrices that are large: blocks of columns, and products.
 *
 * A block's columns are factored one by one, as in factor.c; what they make of
 * the columns to their right is a product. The matrix that is left then moves
 * up and to the left by a block, zeros behind it: so the next block, of the
 * same sizes, takes the same kernels. Sizes are rounded up to whole blocks.
 *
 * Reflections of a block together are I - V T V^T, where the inverse of T is
 * the upper triangle of V^T V with half its diagonal (Joffrain, Low,
 * Quintana-Orti, van de Geijn, Van Zee: Accumulating Householder
 * transformations, revisited; ACM TOMS 32, 2006).
 */
#include "tensor/ops/factor_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/ops/matmul.h"

#define CHOLESKY_BLOCK  64
#define TRIANGLE_BLOCK  64
#define REFLECTED_BLOCK 32

/* n as whole blocks. */
static int64_t
round_up(int64_t n, int64_t block)
{
    return (n + block - 1) / block * block;
}

static const struct uop *
keep(struct bell_context *ctx, const struct uop *u)
{
    return tn_wrap(ctx, UOP_CONTIGUOUS, u);
}

/* Zeros behind the rows and columns, to these sizes. */
static const struct uop *
extend(struct bell_context *ctx, const struct uop *u, int64_t m, int64_t n)
{
    u = tn_pad_axis(ctx, u, 1, 0, m - tn_size(ctx, u, 1));
    return tn_pad_axis(ctx, u, 2, 0, n - tn_size(ctx, u, 2));
}

/* The same with ones on the diagonal of what is behind. */
static const struct uop *
extend_unit(struct bell_context *ctx, const struct uop *u, int64_t n)
{
    int64_t was = tn_size(ctx, u, 1);
    const struct uop *behind;

    if (was == n)
        return u;
    behind = tn_and(ctx, tn_is_diagonal(ctx, n, n, 0),
                    tn_not(ctx, tn_is_before(ctx, 1, n, was)));
    return tn_where(ctx, behind, tn_num(ctx, u, 1), extend(ctx, u, n, n));
}

/* Without the first rows and columns, zeros behind. */
static const struct uop *
shift(struct bell_context *ctx, const struct uop *u, int64_t rows,
      int64_t columns)
{
    int64_t m = tn_size(ctx, u, 1), n = tn_size(ctx, u, 2);

    u = tn_shrink_axis(ctx, u, 1, rows, m);
    return extend(ctx, tn_shrink_axis(ctx, u, 2, columns, n), m, n);
}

/* u's elements along `axis`, moved by `by` blocks more than the other axis,
 * which is `other`, has in front of them; zeros where there are none. */
static const struct uop *
skew(struct bell_context *ctx, const struct uop *u, uint32_t axis,
     uint32_t other, int64_t block, int64_t sign, int64_t more)
{
    int64_t n = tn_size(ctx, u, axis), m = tn_size(ctx, u, other);
    const struct uop *from = tn_iota(ctx, 3, axis, n, UOP_I64), *ok, *before;
    int64_t d[3];

    if (tn_bad(u))
        return u;
    memcpy(d, tn_shape(ctx, u)->d, sizeof(d));
    before = tn_and(ctx, tn_iota(ctx, 3, other, m, UOP_I64),
                    tn_int(ctx, UOP_I64, -block));
    from = sign < 0 ? tn_sub(ctx, from, before) : tn_add(ctx, from, before);
    from = tn_add(ctx, from, tn_int(ctx, UOP_I64, more * block));
    ok = tn_and(ctx, tn_lt(ctx, from, tn_int(ctx, UOP_I64, n)),
                tn_lt(ctx, tn_int(ctx, UOP_I64, -1), from));
    from = tn_where(ctx, ok, from, tn_int(ctx, UOP_I64, 0));
    u = tn_gather(ctx, u, axis, tn_broadcast(ctx, from, d, 3));
    return tn_where(ctx, ok, u, tn_num(ctx, u, 0));
}

/* Room for a node of each block. */
static const struct uop **
make_list(struct bell_context *ctx, int64_t n)
{
    const struct uop **list = host_alloc((size_t)n * sizeof(*list));

    if (!list)
        (void)tn_fail(ctx, BELL_E_NO_MEMORY, "out of memory for %lld blocks",
                      (long long)n);
    return list;
}

/* ---- Cholesky ---- */

const struct uop *
tn_cholesky_blocks(struct bell_context *ctx, const struct uop *a)
{
    int64_t size = tn_size(ctx, a, 1), n = round_up(size, CHOLESKY_BLOCK);
    int64_t count = n / CHOLESKY_BLOCK, k, from;
    const struct uop **columns = make_list(ctx, count), *block, *below;

    if (!columns)
        return &uop_failed;
    a = keep(ctx, extend_unit(ctx, a, n));
    for (k = 0; k < count; k++) {
        block = tn_shrink_axis(ctx, a, 2, 0, CHOLESKY_BLOCK);
        for (from = 0; from < CHOLESKY_BLOCK && !tn_bad(block);
             from += CHOLESKY_COLUMNS)
            block = tn_cholesky_step(ctx, block, from);
        columns[k] = block;
        if (k + 1 == count || tn_bad(block))
            continue;
        below = keep(ctx, shift(ctx, block, CHOLESKY_BLOCK, 0));
        a = tn_sub(ctx, shift(ctx, a, CHOLESKY_BLOCK, CHOLESKY_BLOCK),
                   tn_matmul(ctx, below, tn_swap(ctx, below, 1, 2)));
        a = keep(ctx, a);
    }
    a = keep(ctx, tn_join(ctx, columns, (uint32_t)count, 2));
    host_free(columns);
    a = skew(ctx, a, 1, 2, CHOLESKY_BLOCK, -1, 0);
    a = tn_shrink_axis(ctx, tn_shrink_axis(ctx, a, 1, 0, size), 2, 0, size);
    return keep(ctx, a);
}

/* ---- triangular systems ---- */

const struct uop *
tn_substitute_blocks(struct bell_context *ctx, const struct uop *t,
                     const struct uop *y)
{
    int64_t size = tn_size(ctx, t, 1), n = round_up(size, TRIANGLE_BLOCK);
    int64_t count = n / TRIANGLE_BLOCK, k, width = tn_size(ctx, y, 2);
    const struct uop **rows = make_list(ctx, count), *below, *block;

    if (!rows)
        return &uop_failed;
    t = keep(ctx, extend_unit(ctx, t, n));
    y = keep(ctx, extend(ctx, y, n, width));
    below = keep(ctx, skew(ctx, t, 1, 2, TRIANGLE_BLOCK, 1, 1));
    for (k = 0; k < count && !tn_bad(y); k++) {
        int64_t from = k * TRIANGLE_BLOCK, end = from + TRIANGLE_BLOCK;
        block = tn_shrink_axis(ctx, t, 1, from, end);
        block = tn_shrink_axis(ctx, block, 2, from, end);
        rows[k] = tn_shrink_axis(ctx, y, 1, 0, TRIANGLE_BLOCK);
        rows[k] = tn_substitute(ctx, block, rows[k]);
        if (end == n || tn_bad(rows[k]))
            continue;
        block = tn_shrink_axis(ctx, below, 2, from, end);
        y = tn_sub(ctx, shift(ctx, y, TRIANGLE_BLOCK, 0),
                   tn_matmul(ctx, block, rows[k]));
        y = keep(ctx, y);
    }
    if (!tn_bad(y))
        y = tn_join(ctx, rows, (uint32_t)count, 1);
    host_free(rows);
    return keep(ctx, tn_shrink_axis(ctx, y, 1, 0, size));
}

/* ---- Householder ---- */

/* The reflections of each block: their V (batch, rows, block), moved up by the
 * blocks before, and the transposed T (batch, block, block). */
struct blocks {
    int64_t count, rows, columns; /* columns: in whole blocks */
    const struct uop **v, **t;    /* owned */
};

static void
fini_blocks(struct blocks *b)
{
    host_free(b->v);
    host_free(b->t);
}

/* T^T of V. A column of V that is 0 reflects nothing. */
static const struct uop *
invert_t(struct bell_context *ctx, const struct uop *v)
{
    int64_t n = tn_size(ctx, v, 2);
    const struct uop *s = tn_matmul(ctx, tn_swap(ctx, v, 1, 2), v);
    const struct uop *zero = tn_num(ctx, v, 0), *half;

    half = tn_where(ctx, tn_eq(ctx, s, zero), tn_num(ctx, v, 1),
                    tn_mul_c(ctx, s, 0.5));
    s = tn_where(ctx, tn_is_diagonal(ctx, n, n, 0), half, s);
    return tn_substitute(ctx, keep(ctx, s), tn_unit_matrix(ctx, v, n));
}

/* x - V T V^T x, with T^T in place of T if asked for. */
static const struct uop *
apply_block(struct bell_context *ctx, const struct blocks *b, int64_t k,
            const struct uop *x, bool transposed)
{
    const struct uop *v = b->v[k], *t = b->t[k];
    const struct uop *w = tn_matmul(ctx, tn_swap(ctx, v, 1, 2), x);

    w = tn_matmul(ctx, transposed ? t : tn_swap(ctx, t, 1, 2), keep(ctx, w));
    return keep(ctx, tn_sub(ctx, x, tn_matmul(ctx, v, keep(ctx, w))));
}

/* Reflects the columns of a, divided by its scale, and b with them: the first n
 * rows of both, (batch, columns, columns + p). False after a failure. */
static bool
reflect_blocks(struct bell_context *ctx, const struct uop *a,
               const struct uop *b, struct blocks *out,
               const struct uop **out_rows, const struct uop **out_sign)
{
    int64_t m = tn_size(ctx, a, 1), p = tn_size(ctx, b, 2), k;
    const struct uop **rows, *x, *sign = tn_num(ctx, a, 1);

    out->columns = round_up(tn_size(ctx, a, 2), REFLECTED_BLOCK);
    out->rows = m > out->columns ? m : out->columns;
    out->count = out->columns / REFLECTED_BLOCK;
    out->v = make_list(ctx, out->count);
    out->t = make_list(ctx, out->count);
    rows = make_list(ctx, out->count);
    if (!out->v || !out->t || !rows) {
        host_free(rows);
        return false;
    }
    x = extend(ctx, a, out->rows, out->columns + p);
    if (p > 0)
        x = tn_add(
            ctx, x,
            tn_pad_axis(ctx, extend(ctx, b, out->rows, p), 2, out->columns, 0));
    x = keep(ctx, x);
    for (k = 0; k < out->count && !tn_bad(x); k++) {
        const struct uop *own;
        out->v[k] = tn_reflect_block(
            ctx, tn_shrink_axis(ctx, x, 2, 0, REFLECTED_BLOCK), &own);
        if (tn_bad(out->v[k]))
            x = out->v[k];
        if (tn_bad(x))
            break;
        sign = tn_mul(ctx, sign, own);
        out->t[k] = invert_t(ctx, out->v[k]);
        x = apply_block(ctx, out, k, x, true);
        rows[k] = tn_shrink_axis(ctx, x, 1, 0, REFLECTED_BLOCK);
        x = keep(ctx, shift(ctx, x, REFLECTED_BLOCK, REFLECTED_BLOCK));
    }
    if (!tn_bad(x))
        x = keep(ctx, tn_join(ctx, rows, (uint32_t)out->count, 1));
    host_free(rows);
    *out_rows = keep(ctx, skew(ctx, x, 2, 1, REFLECTED_BLOCK, -1, 0));
    *out_sign = sign;
    return !tn_bad(x);
}

/* R of the first rows. */
static const struct uop *
take_r(struct bell_context *ctx, const struct uop *rows, int64_t n,
       const struct uop *scale)
{
    const struct uop *r = tn_shrink_axis(ctx, rows, 1, 0, n);
    const struct uop *below = tn_lt(ctx, tn_iota(ctx, 3, 2, n, UOP_I64),
                                    tn_iota(ctx, 3, 1, n, UOP_I64));

    r = tn_shrink_axis(ctx, r, 2, 0, n);
    r = tn_where(ctx, below, tn_num(ctx, r, 0), tn_mul(ctx, r, scale));
    return keep(ctx, r);
}

struct tn_reflected
tn_reflect_blocks(struct bell_context *ctx, const struct uop *a,
                  const struct uop *b)
{
    struct tn_reflected failed = {&uop_failed, &uop_failed, &uop_failed}, out;
    const struct uop *scale = tn_scale(ctx, a), *rows;
    int64_t n = tn_size(ctx, a, 2), p = tn_size(ctx, b, 2);
    struct blocks blocks = {0};
    bool ok;

    assert(tn_size(ctx, a, 1) == n);
    ok = reflect_blocks(ctx, tn_fdiv(ctx, a, scale), b, &blocks, &rows,
                        &out.sign);
    fini_blocks(&blocks);
    if (!ok)
        return failed;
    out.r = take_r(ctx, rows, n, scale);
    out.b = tn_shrink_axis(ctx, rows, 1, 0, n);
    out.b = tn_shrink_axis(ctx, out.b, 2, blocks.columns, blocks.columns + p);
    return out;
}

struct tn_factors
tn_qr_blocks(struct bell_context *ctx, const struct uop *a, bool full)
{
    struct tn_factors failed = {&uop_failed, &uop_failed}, out;
    const struct uop *scale = tn_scale(ctx, a), *rows, *sign, *q, *unit;
    int64_t m = tn_size(ctx, a, 1), n = tn_size(ctx, a, 2), k, width;
    const struct uop *none = tn_shrink_axis(ctx, a, 2, 0, 0);
    struct blocks b = {0};

    if (!reflect_blocks(ctx, tn_fdiv(ctx, a, scale), none, &b, &rows, &sign)) {
        fini_blocks(&b);
        return failed;
    }
    out.r = take_r(ctx, rows, n, scale);
    /* from the last block to the first: the unit matrix' columns before a
     * block's are theirs still */
    width = full ? b.rows : b.columns;
    unit = tn_is_diagonal(ctx, b.rows, width, 0);
    q = tn_unit_matrix(ctx, a, b.rows);
    q = tn_shrink_axis(ctx, q, 2, 0, width);
    unit = tn_and(ctx, unit, tn_is_before(ctx, 1, b.rows, REFLECTED_BLOCK));
    for (k = b.count; k-- > 0 && !tn_bad(q);) {
        q = tn_pad_axis(ctx, q, 1, REFLECTED_BLOCK, 0);
        q = tn_pad_axis(ctx, q, 2, REFLECTED_BLOCK, 0);
        q = tn_shrink_axis(ctx, q, 1, 0, b.rows);
        q = tn_shrink_axis(ctx, q, 2, 0, width);
        q = tn_where(ctx, unit, tn_num(ctx, a, 1), q);
        q = apply_block(ctx, &b, k, keep(ctx, q), false);
    }
    fini_blocks(&b);
    out.q = tn_shrink_axis(ctx, q, 1, 0, m);
    out.q = tn_shrink_axis(ctx, out.q, 2, 0, full ? m : n);
    return out;
}
