/* The oracle: matrices, by elimination and rotations in long double, and sums
 * of products by their indices. Factors whose signs are free are judged by what
 * they are factors of. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* ---- batches ---- */

/* The axes in front of a matrix', as an array that oracle_spread takes. */
static struct oracle_array
batch_of(const struct oracle_array *t)
{
    struct oracle_array batch = *t;
    uint32_t i;

    batch.rank = t->rank - 2;
    batch.n = 1;
    for (i = 0; i < batch.rank; i++)
        batch.n *= (size_t)t->d[i];
    return batch;
}

static int64_t
rows_of(const struct oracle_array *t)
{
    return t->d[t->rank - 2];
}

static int64_t
columns_of(const struct oracle_array *t)
{
    return t->d[t->rank - 1];
}

/* A result of matrices (m, n); m < 0: of rows of n; n < 0 too: of numbers. */
static struct oracle_array *
out_matrices(struct oracle *o, const struct oracle_array *t, int64_t m,
             int64_t n)
{
    uint32_t rank = t->rank - 2;
    int64_t d[BELL_MAX_RANK];

    memcpy(d, t->d, sizeof(d));
    if (m >= 0)
        d[rank++] = m;
    if (n >= 0)
        d[rank++] = n;
    return oracle_out(o, oracle_float(t->dtype), d, rank);
}

/* Rounding errors of a matrix' elements, `each` of them, are relative to the
 * greatest. */
static void
scale_evenly(struct oracle *o, struct oracle_array *t, size_t each)
{
    long double most;
    size_t i, k;

    oracle_scales(o, t);
    for (i = 0; i + each <= t->n && each; i += each) {
        most = 0;
        for (k = i; k < i + each; k++)
            most = fmaxl(most, fabsl(t->v[k]));
        for (k = i; k < i + each; k++)
            t->scale[k] = most;
    }
}

static void
fill_any(struct oracle_array *t)
{
    size_t k;

    for (k = 0; k < t->n; k++)
        t->v[k] = ORACLE_ANY;
}

/* ---- systems ---- */

/* Gauss and Jordan with the column's greatest pivots: b (n, p) becomes a^-1 b.
 * Returns a's determinant. */
static long double
eliminate(long double *a, long double *b, int64_t n, int64_t p)
{
    long double det = 1, t;
    int64_t i, j, k, pivot;

    for (k = 0; k < n; k++) {
        for (pivot = k, i = k + 1; i < n; i++)
            pivot = fabsl(a[i * n + k]) > fabsl(a[pivot * n + k]) ? i : pivot;
        if (pivot != k)
            det = -det;
        for (j = 0; j < n; j++) {
            t = a[k * n + j];
            a[k * n + j] = a[pivot * n + j];
            a[pivot * n + j] = t;
        }
        for (j = 0; j < p; j++) {
            t = b[k * p + j];
            b[k * p + j] = b[pivot * p + j];
            b[pivot * p + j] = t;
        }
        t = a[k * n + k];
        det *= t;
        if (t == 0)
            return 0;
        for (j = 0; j < n; j++)
            a[k * n + j] /= t;
        for (j = 0; j < p; j++)
            b[k * p + j] /= t;
        for (i = 0; i < n; i++) {
            t = a[i * n + k];
            for (j = 0; j < n && i != k; j++)
                a[i * n + j] -= t * a[k * n + j];
            for (j = 0; j < p && i != k; j++)
                b[i * p + j] -= t * b[k * p + j];
        }
    }
    return det;
}

/* Element (i, j) of what a function takes its matrix for. */
typedef long double oracle_element(const struct oracle *o, const long double *a,
                                   int64_t n, int64_t i, int64_t j);

static long double
as_it_is(const struct oracle *o, const long double *a, int64_t n, int64_t i,
         int64_t j)
{
    (void)o;
    return a[i * n + j];
}

static long double
of_triangle(const struct oracle *o, const long double *a, int64_t n, int64_t i,
            int64_t j)
{
    if (i == j && oracle_flag(o, 3))
        return 1;
    return (oracle_flag(o, 2) ? i <= j : i >= j) ? a[i * n + j] : 0;
}

static void
define_system(struct oracle *o, oracle_element *element)
{
    struct oracle_array *a = oracle_t(o, 0), *b = oracle_t(o, 1), *out;
    struct oracle_array right, *both[2], batch[2];
    int64_t n = rows_of(a), p, at[BELL_MAX_RANK] = {0}, d[BELL_MAX_RANK], i, j;
    bool vector =
        b->rank == 1 || (b->rank + 1 == a->rank && element == as_it_is &&
                         memcmp(a->d, b->d, b->rank * sizeof(*b->d)) == 0);
    long double *left = arena_calloc(o->arena, (size_t)(n * n) + 1, 16);
    uint32_t rank;
    size_t k = 0;

    right = *b;
    if (vector)
        right.d[right.rank++] = 1;
    p = columns_of(&right);
    batch[0] = batch_of(a);
    batch[1] = batch_of(&right);
    both[0] = &batch[0];
    both[1] = &batch[1];
    rank = oracle_broadcast(both, 2, d);
    d[rank] = n;
    d[rank + 1] = p;
    out = oracle_out(o, oracle_float(oracle_promote(a->dtype, b->dtype)), d,
                     rank + 2 - vector);
    if (out->n == 0)
        return;
    do {
        const long double *from =
            a->v + oracle_spread(&batch[0], at, rank) * (size_t)(n * n);
        for (i = 0; i < n; i++) {
            for (j = 0; j < n; j++)
                left[i * n + j] = element(o, from, n, i, j);
        }
        memcpy(out->v + k,
               b->v + oracle_spread(&batch[1], at, rank) * (size_t)(n * p),
               (size_t)(n * p) * sizeof(*out->v));
        eliminate(left, out->v + k, n, p);
        k += (size_t)(n * p);
    } while (oracle_next(at, d, rank));
    scale_evenly(o, out, (size_t)(n * p));
}

static void
define_solve(struct oracle *o)
{
    define_system(o, as_it_is);
}

static void
define_solve_triangular(struct oracle *o)
{
    define_system(o, of_triangle);
}

/* The inverse, or the determinant. */
static void
define_square(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t n = rows_of(a), i;
    size_t each = (size_t)(n * n), k, count = batch_of(a).n;
    bool inverse = o->row->name[0] == 'i';
    struct oracle_array *out =
        out_matrices(o, a, inverse ? n : -1, inverse ? n : -1);
    long double *room = arena_calloc(o->arena, 2 * each + 1, 16), *right;

    for (k = 0; k < count; k++) {
        right = inverse ? out->v + k * each : room + each;
        memcpy(room, a->v + k * each, each * sizeof(*room));
        for (i = 0; i < n; i++)
            right[i * n + i] = 1;
        if (inverse)
            eliminate(room, right, n, n);
        else
            out->v[k] = eliminate(room, right, n, 0);
    }
    scale_evenly(o, out, inverse ? each : 1);
}

/* Takes a symmetric leaf. The values that it is differentiated by are made
 * symmetric, so that gradients are. */
static void
define_cholesky(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t n = rows_of(a), i, j, k;
    size_t each = (size_t)(n * n), b, count = batch_of(a).n;
    struct oracle_array *out = out_matrices(o, a, n, n);
    bool upper = oracle_flag(o, 1);

    for (b = 0; b < count; b++) {
        const long double *x = a->v + b * each;
        long double *l = out->v + b * each, sum;
        for (j = 0; j < n; j++) {
            for (i = j; i < n; i++) {
                sum = (x[i * n + j] + x[j * n + i]) / 2;
                for (k = 0; k < j; k++)
                    sum -= upper ? l[k * n + i] * l[k * n + j]
                                 : l[i * n + k] * l[j * n + k];
                sum = i == j ? sqrtl(sum) : sum / l[j * n + j];
                l[upper ? j * n + i : i * n + j] = sum;
            }
        }
    }
    scale_evenly(o, out, each);
}

/* ---- QR, singular values ---- */

/* Householder's reflections with LAPACK's signs: x (m, n) becomes R, and q
 * (m, m), the unit matrix before, Q. */
static void
reflect(long double *x, long double *q, int64_t m, int64_t n)
{
    int64_t i, j, k;

    for (k = 0; k < n && k < m; k++) {
        long double tail = 0, pivot = x[k * n + k], becomes, size, dot, v[16];
        for (i = k + 1; i < m; i++)
            tail += x[i * n + k] * x[i * n + k];
        if (tail == 0)
            continue;
        becomes = copysignl(sqrtl(pivot * pivot + tail), -pivot);
        for (i = k; i < m; i++)
            v[i] = i == k ? pivot - becomes : x[i * n + k];
        size = tail + v[k] * v[k];
        for (j = 0; j < n; j++) {
            for (dot = 0, i = k; i < m; i++)
                dot += v[i] * x[i * n + j];
            for (i = k; i < m; i++)
                x[i * n + j] -= 2 * dot / size * v[i];
        }
        for (j = 0; j < m; j++) {
            for (dot = 0, i = k; i < m; i++)
                dot += q[j * m + i] * v[i];
            for (i = k; i < m; i++)
                q[j * m + i] -= 2 * dot / size * v[i];
        }
    }
}

static void
define_qr(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t m = rows_of(a), n = columns_of(a), k = m < n ? m : n, i, j;
    size_t each = (size_t)(m * n), b, count = batch_of(a).n;
    struct oracle_array *out_q = out_matrices(o, a, m, k);
    struct oracle_array *out_r = out_matrices(o, a, k, n);
    long double *x = arena_calloc(o->arena, each + 1, 16), *q;

    q = arena_calloc(o->arena, (size_t)(m * m) + 1, 16);
    for (b = 0; b < count; b++) {
        memcpy(x, a->v + b * each, each * sizeof(*x));
        for (i = 0; i < m * m; i++)
            q[i] = i / m == i % m;
        reflect(x, q, m, n);
        for (i = 0; i < m; i++) {
            for (j = 0; j < k; j++)
                out_q->v[(b * (size_t)m + (size_t)i) * (size_t)k + (size_t)j] =
                    q[i * m + j];
        }
        for (i = 0; i < k; i++) {
            for (j = i; j < n; j++)
                out_r->v[(b * (size_t)k + (size_t)i) * (size_t)n + (size_t)j] =
                    x[i * n + j];
        }
    }
    scale_evenly(o, out_q, (size_t)(m * k));
    scale_evenly(o, out_r, (size_t)(k * n));
}

/* Rotates the columns of x (m, n) until they are at right angles; their lengths
 * are the singular values, which are sorted into s. */
static void
rotate_columns(long double *x, int64_t m, int64_t n, long double *s)
{
    int64_t sweep, p, q, i;

    for (sweep = 0; sweep < 40; sweep++) {
        for (p = 0; p < n; p++) {
            for (q = p + 1; q < n; q++) {
                long double a = 0, b = 0, c = 0, t;
                for (i = 0; i < m; i++) {
                    a += x[i * n + p] * x[i * n + p];
                    b += x[i * n + q] * x[i * n + q];
                    c += x[i * n + p] * x[i * n + q];
                }
                if (c == 0)
                    continue;
                t = atan2l(2 * c, b - a) / 2;
                for (i = 0; i < m; i++) {
                    long double u = x[i * n + p], v = x[i * n + q];
                    x[i * n + p] = cosl(t) * u - sinl(t) * v;
                    x[i * n + q] = sinl(t) * u + cosl(t) * v;
                }
            }
        }
    }
    for (p = 0; p < n; p++) {
        long double length = 0;
        for (i = 0; i < m; i++)
            length += x[i * n + p] * x[i * n + p];
        length = sqrtl(length);
        for (i = p; i > 0 && s[i - 1] < length; i--)
            s[i] = s[i - 1];
        s[i] = length;
    }
}

/* Singular values of all matrices, greatest first, in a new result. */
static void
out_singular(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t m = rows_of(a), n = columns_of(a), k = m < n ? m : n, i;
    size_t each = (size_t)(m * n), b, count = batch_of(a).n;
    struct oracle_array *out = out_matrices(o, a, -1, k);
    long double *x = arena_calloc(o->arena, each + 1, 16);

    for (b = 0; b < count; b++) {
        for (i = 0; i < m * n; i++)
            x[m < n ? i % n * m + i / n : i] = a->v[b * each + (size_t)i];
        rotate_columns(x, m < n ? n : m, k, out->v + b * (size_t)k);
    }
    scale_evenly(o, out, (size_t)k);
}

static void
define_svd(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t m = rows_of(a), n = columns_of(a), k = m < n ? m : n;
    bool full = oracle_flag(o, 1);

    fill_any(out_matrices(o, a, m, full ? m : k));
    out_singular(o);
    fill_any(out_matrices(o, a, full ? n : k, n));
}

/* Element (i, j) of matrix b. */
static long double
element_of(const struct oracle_array *t, size_t b, int64_t i, int64_t j)
{
    size_t m = (size_t)rows_of(t), n = (size_t)columns_of(t);

    return t->v[(b * m + (size_t)i) * n + (size_t)j];
}

/* How far a rounded product of factors may be off, for factors of size 1. */
static long double
allowance(const struct oracle_array *t)
{
    const struct oracle_dtype *type = oracle_dtype(t->dtype);
    long double size = (long double)(rows_of(t) + columns_of(t));

    return (type->digits > 20 ? 8 : 2) * size * ldexpl(1, 1 - type->digits);
}

/* Whether the columns (rows) of all matrices are orthonormal. */
static bool
is_orthonormal(const struct oracle_array *t, bool rows)
{
    int64_t n = rows ? rows_of(t) : columns_of(t), i, j, k;
    int64_t m = rows ? columns_of(t) : rows_of(t);
    size_t b, count = batch_of(t).n;

    for (b = 0; b < count; b++) {
        for (i = 0; i < n; i++) {
            for (j = 0; j <= i; j++) {
                long double sum = 0;
                for (k = 0; k < m; k++)
                    sum +=
                        rows ? element_of(t, b, i, k) * element_of(t, b, j, k)
                             : element_of(t, b, k, i) * element_of(t, b, k, j);
                if (!(fabsl(sum - (i == j)) <= allowance(t)))
                    return false;
            }
        }
    }
    return true;
}

static const char *
judge_svd(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0), *u = o->got[0];
    const struct oracle_array *s = o->got[1], *v = o->got[2];
    int64_t m = rows_of(a), n = columns_of(a), k = s->d[s->rank - 1], i, j, p;
    size_t b, count = batch_of(a).n;

    if (!is_orthonormal(u, false))
        return "U has columns that are not orthonormal";
    if (!is_orthonormal(v, true))
        return "Vh has rows that are not orthonormal";
    for (b = 0; b < count; b++) {
        for (i = 0; i < m; i++) {
            for (j = 0; j < n; j++) {
                long double sum = 0;
                const long double *own = s->v + b * (size_t)k;
                for (p = 0; p < k; p++)
                    sum += element_of(u, b, i, p) * own[p] *
                           element_of(v, b, p, j);
                if (!(fabsl(sum - element_of(a, b, i, j)) <=
                      allowance(u) * own[0] + oracle_ulp(s->dtype, 0) * 8))
                    return "U @ diag(S) @ Vh is not the input";
            }
        }
    }
    return NULL;
}

/* ---- eigenvalues ---- */

/* Jacobi: rotations of rows and columns of the symmetric x (n, n), and of v's
 * columns, until it is diagonal. */
static void
rotate_symmetric(long double *x, long double *v, int64_t n)
{
    int64_t sweep, p, q, i;

    for (sweep = 0; sweep < 40; sweep++) {
        for (p = 0; p < n; p++) {
            for (q = p + 1; q < n; q++) {
                long double t =
                    atan2l(2 * x[p * n + q], x[q * n + q] - x[p * n + p]) / 2;
                long double c = cosl(t), s = sinl(t), a, b;
                if (x[p * n + q] == 0)
                    continue;
                for (i = 0; i < n; i++) {
                    a = x[i * n + p];
                    b = x[i * n + q];
                    x[i * n + p] = c * a - s * b;
                    x[i * n + q] = s * a + c * b;
                }
                for (i = 0; i < n; i++) {
                    a = x[p * n + i];
                    b = x[q * n + i];
                    x[p * n + i] = c * a - s * b;
                    x[q * n + i] = s * a + c * b;
                    a = v[i * n + p];
                    b = v[i * n + q];
                    v[i * n + p] = c * a - s * b;
                    v[i * n + q] = s * a + c * b;
                }
            }
        }
    }
}

/* The symmetric part of matrix b of a, diagonal after rotations, which v is. */
static void
diagonalize(const struct oracle_array *a, size_t b, long double *x,
            long double *v)
{
    int64_t n = rows_of(a), i, j;

    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            x[i * n + j] = (a->v[((int64_t)b * n + i) * n + j] +
                            a->v[((int64_t)b * n + j) * n + i]) /
                           2;
            v[i * n + j] = i == j;
        }
    }
    rotate_symmetric(x, v, n);
}

/* Ascending eigenvalues; of eigh the vectors too, which are judged. */
static void
define_eigen(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t n = rows_of(a), i, k;
    size_t each = (size_t)(n * n), b, count = batch_of(a).n;
    struct oracle_array *out = out_matrices(o, a, -1, n);
    long double *x = arena_calloc(o->arena, 2 * each + 1, 16);

    for (b = 0; b < count; b++) {
        long double *to = out->v + b * (size_t)n;
        diagonalize(a, b, x, x + each);
        for (k = 0; k < n; k++) {
            for (i = k; i > 0 && to[i - 1] > x[k * n + k]; i--)
                to[i] = to[i - 1];
            to[i] = x[k * n + k];
        }
    }
    scale_evenly(o, out, (size_t)n);
    if (strcmp(o->row->name, "eigh") == 0)
        fill_any(out_matrices(o, a, n, n));
}

static const char *
judge_eigh(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0), *v = o->got[1];
    const long double *values = o->got[0]->v;
    int64_t n = rows_of(a), i, j, k;
    size_t b, count = batch_of(a).n;

    if (!is_orthonormal(v, false))
        return "V has columns that are not orthonormal";
    for (b = 0; b < count; b++, values += n) {
        long double most = fmaxl(fabsl(values[0]), fabsl(values[n - 1]));
        for (i = 0; i < n; i++) {
            for (j = 0; j < n; j++) {
                long double sum = 0;
                for (k = 0; k < n; k++)
                    sum += element_of(v, b, i, k) * values[k] *
                           element_of(v, b, j, k);
                if (!(fabsl(sum - element_of(a, b, i, j)) <=
                      allowance(v) * most + oracle_ulp(v->dtype, 0) * 8))
                    return "V @ diag(values) @ V^T is not the input";
            }
        }
    }
    return NULL;
}

static void
define_svdvals(struct oracle *o)
{
    out_singular(o);
}

static void
define_slogdet(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t n = rows_of(a);
    size_t each = (size_t)(n * n), k, count = batch_of(a).n;
    struct oracle_array *sign = out_matrices(o, a, -1, -1);
    struct oracle_array *size = out_matrices(o, a, -1, -1);
    long double *room = arena_calloc(o->arena, each + 1, 16), det;

    for (k = 0; k < count; k++) {
        memcpy(room, a->v + k * each, each * sizeof(*room));
        det = eliminate(room, NULL, n, 0);
        sign->v[k] = det > 0 ? 1 : det < 0 ? -1 : 0;
        size->v[k] = logl(fabsl(det));
    }
    oracle_scales(o, size);
    for (k = 0; k < count; k++)
        size->scale[k] = fmaxl(fabsl(size->v[k]), 1);
}

/* How many of the eigenvalues of a^T a are above the square of what counts; of
 * a symmetric a of its own. */
static void
define_rank(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t m = rows_of(a), n = columns_of(a), k = m < n ? m : n, i;
    size_t each = (size_t)(m * n), b, count = batch_of(a).n;
    bool symmetric = oracle_flag(o, 2);
    enum bell_dtype wide =
        a->dtype == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32;
    long double rtol = o->a[1].given
                           ? oracle_num(o, 1)
                           : (long double)(m > n ? m : n) * oracle_ulp(wide, 1);
    struct oracle_array *out = out_matrices(o, a, -1, -1);
    long double *x = arena_calloc(o->arena, 2 * each + 1, 16), s[16] = {0};

    out->dtype = BELL_INT64;
    for (b = 0; b < count; b++) {
        memset(s, 0, sizeof(s));
        if (symmetric) {
            diagonalize(a, b, x, x + each);
            for (i = 0; i < n; i++)
                s[i] = fabsl(x[i * n + i]);
        } else {
            for (i = 0; i < m * n; i++)
                x[m < n ? i % n * m + i / n : i] = a->v[b * each + (size_t)i];
            rotate_columns(x, m < n ? n : m, k, s);
        }
        for (x[0] = 0, i = 0; i < k; i++)
            x[0] = fmaxl(x[0], s[i]);
        for (i = 0; i < k; i++)
            out->v[b] += s[i] > rtol * x[0];
    }
}

/* For full rank: (a^T a)^-1 a^T, or its transpose of the transpose. */
static void
define_pinv(struct oracle *o)
{
    const struct oracle_array *a = oracle_t(o, 0);
    int64_t m = rows_of(a), n = columns_of(a), k = m < n ? m : n, i, j, p;
    int64_t more = m < n ? n : m;
    size_t each = (size_t)(m * n), b, count = batch_of(a).n;
    struct oracle_array *out = out_matrices(o, a, n, m);
    long double *x = arena_calloc(o->arena, each + 1, 16), *gram, *right;

    gram = arena_calloc(o->arena, (size_t)(k * k) + 1, 16);
    right = arena_calloc(o->arena, each + 1, 16);
    for (b = 0; b < count; b++) {
        for (i = 0; i < m * n; i++) { /* (more, k), and (k, more) */
            int64_t row = m < n ? i % n : i / n, column = m < n ? i / n : i % n;
            long double v = a->v[b * each + (size_t)i];
            if (oracle_flag(o, 2))
                v = (v + a->v[b * each + (size_t)(i % n * n + i / n)]) / 2;
            x[row * k + column] = right[column * more + row] = v;
        }
        for (i = 0; i < k; i++) {
            for (j = 0; j < k; j++) {
                for (gram[i * k + j] = 0, p = 0; p < more; p++)
                    gram[i * k + j] += x[p * k + i] * x[p * k + j];
            }
        }
        eliminate(gram, right, k, more);
        for (i = 0; i < m * n; i++) /* (n, m) */
            out->v[b * each + (size_t)i] =
                m < n ? right[i % m * more + i / m] : right[i];
    }
    scale_evenly(o, out, each);
}

/* ---- sums of products ---- */

#define MAX_TERMS  4
#define MAX_LABELS 64

/* The result's element of some places is the sum over the places of all other
 * labels: of the product of the operands' elements there. */
struct sums {
    const struct oracle_array *in[MAX_TERMS];
    uint8_t labels[MAX_TERMS][BELL_MAX_RANK];
    uint32_t n_in;
    uint8_t result[2 * BELL_MAX_RANK];
    uint32_t n_result;
};

/* Fills in a result that has its elements in the order of s->result. */
static void
fill_sums(struct oracle *o, const struct sums *s, struct oracle_array *out)
{
    int64_t size[MAX_LABELS] = {0}, d[MAX_LABELS], at[MAX_LABELS] = {0};
    int64_t place[MAX_LABELS] = {0};
    uint8_t order[MAX_LABELS];
    uint32_t i, k, n = 0;
    size_t wrap;

    oracle_scales(o, out);
    for (i = 0; i < s->n_in; i++) {
        for (k = 0; k < s->in[i]->rank; k++) {
            int64_t *to = &size[s->labels[i][k]];
            if (*to == 0 || *to == 1)
                *to = s->in[i]->d[k];
            if (*to == 0 || s->in[i]->d[k] == 0)
                return; /* sums of nothing */
        }
    }
    for (i = 0; i < MAX_LABELS; i++) {
        if (size[i] == 0)
            continue;
        d[n] = size[i];
        order[n++] = (uint8_t)i;
    }
    do {
        long double product = 1;
        size_t to = 0, from;
        for (i = 0; i < n; i++)
            place[order[i]] = at[i];
        for (i = 0; i < s->n_in; i++) {
            for (from = k = 0; k < s->in[i]->rank; k++)
                from =
                    from * (size_t)s->in[i]->d[k] +
                    (s->in[i]->d[k] == 1 ? 0 : (size_t)place[s->labels[i][k]]);
            product *= s->in[i]->v[from];
        }
        for (k = 0; k < s->n_result; k++)
            to = to * (size_t)size[s->result[k]] + (size_t)place[s->result[k]];
        out->v[to] += product;
        out->scale[to] += fabsl(product);
    } while (oracle_next(at, d, n));
    for (wrap = 0; wrap < out->n && !oracle_is_float(out->dtype); wrap++)
        out->v[wrap] = oracle_round(out->dtype, out->v[wrap]);
}

/* dims: the last ones of x with the first ones of y, or two lists. */
static void
define_tensordot(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    const struct oracle_arg *dims = &o->a[2];
    bool lists = dims->kind == BELL_VALUE_LIST;
    uint32_t n = lists ? dims->items[0].n : (uint32_t)dims->i, i, k;
    struct sums s = {.in = {x, y}, .n_in = 2};
    int64_t d[BELL_MAX_RANK];

    memset(s.labels, MAX_LABELS - 1, sizeof(s.labels));
    for (i = 0; i < n; i++) {
        int64_t a = lists ? dims->items[0].items[i].i : x->rank - n + i;
        int64_t b = lists ? dims->items[1].items[i].i : i;
        s.labels[0][a < 0 ? a + x->rank : a] = (uint8_t)i;
        s.labels[1][b < 0 ? b + y->rank : b] = (uint8_t)i;
    }
    for (i = 0; i < 2; i++) {
        for (k = 0; k < s.in[i]->rank; k++) {
            if (s.labels[i][k] < n)
                continue;
            d[s.n_result] = s.in[i]->d[k];
            s.labels[i][k] = (uint8_t)(n + s.n_result);
            s.result[s.n_result++] = s.labels[i][k];
        }
    }
    fill_sums(o, &s,
              oracle_out(o, oracle_promote(x->dtype, y->dtype), d, s.n_result));
}

static void
define_kron(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    struct sums s = {.in = {x, y}, .n_in = 2};
    uint32_t rank = x->rank > y->rank ? x->rank : y->rank, i, k;
    int64_t d[BELL_MAX_RANK];

    for (i = 0; i < rank; i++)
        d[i] = 1;
    for (i = 0; i < rank; i++) {
        for (k = 0; k < 2; k++) {
            uint32_t skip = rank - s.in[k]->rank;
            if (i < skip)
                continue;
            d[i] *= s.in[k]->d[i - skip];
            s.labels[k][i - skip] = (uint8_t)(2 * i + k);
            s.result[s.n_result++] = (uint8_t)(2 * i + k);
        }
    }
    fill_sums(o, &s,
              oracle_out(o, oracle_promote(x->dtype, y->dtype), d, rank));
}

/* The labels of one operand, or of the result: letters by their number, the
 * axes of "..." by theirs from the last one, which is 63. Returns how many. */
static uint32_t
read_letters(const char *text, size_t len, uint32_t n_dots, uint8_t *labels)
{
    uint32_t n = 0, k;
    size_t i;

    for (i = 0; i < len; i++) {
        char c = text[i];
        if (c >= 'a' && c <= 'z')
            labels[n++] = (uint8_t)(c - 'a' + 26);
        else if (c >= 'A' && c <= 'Z')
            labels[n++] = (uint8_t)(c - 'A');
        else if (c == '.' && (i == 0 || text[i - 1] != '.')) {
            for (k = n_dots; k > 0; k--)
                labels[n++] = (uint8_t)(MAX_LABELS - k);
        }
    }
    return n;
}

static size_t
count_letters(const char *text, size_t len)
{
    uint8_t labels[MAX_LABELS];

    return read_letters(text, len, 0, labels);
}

static void
define_einsum(struct oracle *o)
{
    const char *text = o->a[0].str, *arrow = strstr(text, "->");
    struct sums s = {.n_in = o->a[1].n};
    uint32_t i, k, most_dots = 0, n_dots, times[MAX_LABELS] = {0};
    enum bell_dtype dtype = o->a[1].items[0].t->dtype;
    int64_t d[2 * BELL_MAX_RANK];

    for (i = 0; i < s.n_in; i++) {
        size_t len = strcspn(text, ",-");
        s.in[i] = o->a[1].items[i].t;
        dtype = oracle_promote(dtype, s.in[i]->dtype);
        n_dots = s.in[i]->rank - (uint32_t)count_letters(text, len);
        most_dots = n_dots > most_dots ? n_dots : most_dots;
        read_letters(text, len, n_dots, s.labels[i]);
        for (k = 0; k < s.in[i]->rank; k++)
            times[s.labels[i][k]]++;
        text += len + 1;
    }
    if (arrow) {
        s.n_result =
            read_letters(arrow + 2, strlen(arrow + 2), most_dots, s.result);
    } else {
        for (k = most_dots; k > 0; k--)
            s.result[s.n_result++] = (uint8_t)(MAX_LABELS - k);
        for (k = 0; k < 52; k++) {
            if (times[k] == 1)
                s.result[s.n_result++] = (uint8_t)k;
        }
    }
    for (k = 0; k < s.n_result; k++) {
        uint32_t j;
        d[k] = 1;
        for (i = 0; i < s.n_in; i++) {
            for (j = 0; j < s.in[i]->rank; j++) {
                if (s.labels[i][j] == s.result[k] && s.in[i]->d[j] != 1)
                    d[k] = s.in[i]->d[j];
            }
        }
    }
    fill_sums(o, &s, oracle_out(o, dtype, d, s.n_result));
}

/* p-norms of differences; p is 0 to infinite. */
static void
define_cdist(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1), *out;
    struct oracle_array batch[2] = {batch_of(x), batch_of(y)};
    struct oracle_array *both[2] = {&batch[0], &batch[1]};
    int64_t m = rows_of(x), n = rows_of(y), width = columns_of(x);
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, i, j, k;
    uint32_t rank = oracle_broadcast(both, 2, d);
    long double p = oracle_num(o, 2);
    size_t to = 0;

    d[rank] = m;
    d[rank + 1] = n;
    out = oracle_out(o, oracle_float(oracle_promote(x->dtype, y->dtype)), d,
                     rank + 2);
    if (out->n == 0)
        return;
    do {
        size_t bx = oracle_spread(&batch[0], at, rank);
        size_t by = oracle_spread(&batch[1], at, rank);
        for (i = 0; i < m; i++) {
            for (j = 0; j < n; j++) {
                long double sum = 0;
                for (k = 0; k < width; k++) {
                    long double by_k = fabsl(element_of(x, bx, i, k) -
                                             element_of(y, by, j, k));
                    if (isinf(p))
                        sum = fmaxl(sum, by_k);
                    else
                        sum += p == 0 ? by_k != 0 : powl(by_k, p);
                }
                out->v[to++] = p == 0 || isinf(p) ? sum : powl(sum, 1 / p);
            }
        }
    } while (oracle_next(at, d, rank));
}

/* Adds the norm's slope of |x - y| along the rows: sign(d) (|d| / norm)^(p-1),
 * 0 where d is 0; in an infinite order the greatest share it. */
static void
add_slopes(struct oracle *o, size_t bx, size_t by, int64_t i, int64_t j,
           long double norm, long double w)
{
    struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    int64_t width = columns_of(x), k, ties = 0;
    long double p = oracle_num(o, 2);

    for (k = 0; k < width; k++)
        ties +=
            fabsl(element_of(x, bx, i, k) - element_of(y, by, j, k)) == norm;
    for (k = 0; k < width; k++) {
        long double d = element_of(x, bx, i, k) - element_of(y, by, j, k), s;
        size_t to_x = (bx * (size_t)rows_of(x) + (size_t)i) * (size_t)width;
        size_t to_y = (by * (size_t)rows_of(y) + (size_t)j) * (size_t)width;
        if (d == 0 || p == 0)
            continue;
        s = isinf(p) ? (long double)(fabsl(d) == norm) / ties
                     : powl(fabsl(d) / norm, p - 1);
        s *= d > 0 ? w : -w;
        o->gradient[0]->v[to_x + (size_t)k] += s;
        o->gradient[1]->v[to_y + (size_t)k] -= s;
        o->gradient[0]->scale[to_x + (size_t)k] += fabsl(s);
        o->gradient[1]->scale[to_y + (size_t)k] += fabsl(s);
    }
}

static void
back_cdist(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    struct oracle_array batch[2] = {batch_of(x), batch_of(y)};
    struct oracle_array *both[2] = {&batch[0], &batch[1]};
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, i, j;
    uint32_t rank = oracle_broadcast(both, 2, d);
    size_t from = 0;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    o->gradient[1] = oracle_like(o, y->dtype, y);
    oracle_scales(o, o->gradient[0]);
    oracle_scales(o, o->gradient[1]);
    if (o->out[0]->n == 0)
        return;
    do {
        size_t bx = oracle_spread(&batch[0], at, rank);
        size_t by = oracle_spread(&batch[1], at, rank);
        for (i = 0; i < rows_of(x); i++) {
            for (j = 0; j < rows_of(y); j++, from++)
                add_slopes(o, bx, by, i, j, o->out[0]->v[from],
                           o->adjoint[0]->v[from]);
        }
    } while (oracle_next(at, d, rank));
}

/* ---- rows ---- */

#define FLOATS    "hwfd"
#define FREE      ORACLE_SCALED | ORACLE_ZERO
#define MANY      FREE | ORACLE_GRAD
#define COMMON    .ulps = 64, .grad_ulps = 512, .flags = MANY
#define SUMS      .ulps = 16, .grad_ulps = 64, .flags = MANY
#define EACH      "@m:1,1; @m:4,4; @m:5,5; @m:2,3,3; @m:9,9; @m:0,0; @m:0,2,2"
#define SYMMETRIC "@y:1,1; @y:3,3; @y:2,4,4; @y:7,7; @y:0,0; @y:0,3,3"
#define SHAPES                                                                 \
    "@n:1,1; @n:3,3; @n:4,2; @n:2,4; @n:2,3,3; @n:6,5; @n:3,0; @n:0,2,3"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"cholesky", "@y:1,1; @y:4,4; @y:4,4 b1; @y:2,3,3; @y:9,9; @y:0,0; @y:0,2,2 b1", FLOATS, .define = define_cholesky, COMMON},
    {"solve", "@m:1,1 @n:1,1; @m:4,4 @n:4,2; @m:3,3 @n:3; @m:2,3,3 @n:2,3; @m:2,3,3 @n:3,1; @m:3,3 @n:2,1,3,2; @m:9,9 @n:9,2; @m:0,0 @n:0,2; @m:2,2 @n:2,0", FLOATS "i", .define = define_solve, COMMON},
    {"solve_triangular", "@m:1,1 @n:1,1 b0; @m:4,4 @n:4,2 b0; @m:4,4 @n:4,2 b1; @m:2,3,3 @n:3,1 b0 b1; @m:3,3 @n:2,1,3,2 b1 b1; @m:9,9 @n:9,2 b1; @m:0,0 @n:0,2 b1; @m:2,2 @n:2,0 b0", FLOATS "i", .define = define_solve_triangular, COMMON},
    {"inv", EACH, FLOATS "i", .define = define_square, COMMON},
    {"det", EACH, FLOATS "i", .define = define_square, COMMON},
    {"qr", SHAPES, FLOATS, .define = define_qr, .ulps = 1024, .grad_ulps = 1 << 14, .flags = MANY},
    {"svd", SHAPES "; @n:4,2 b1; @n:2,2,4 b1; @n:3,3 b1; @n:3,0 b1", FLOATS "i", .define = define_svd, .judge = judge_svd, .ulps = 64, .grad_ulps = 1024, .flags = MANY},
    {"svdvals", SHAPES, FLOATS "i", .define = define_svdvals, .ulps = 64, .grad_ulps = 1024, .flags = MANY},
    {"eigh", SYMMETRIC "; @y:4,4 s'U'", FLOATS "i", .define = define_eigen, .judge = judge_eigh, COMMON},
    {"eigvalsh", SYMMETRIC "; @y:4,4 s'U'", FLOATS, .define = define_eigen, COMMON},
    {"slogdet", EACH, FLOATS "i", .define = define_slogdet, COMMON},
    {"pinv", "@m:3,3; @n:5,2; @n:2,5; @n:2,6,3; @n:0,2,3; @n:3,0; @y:4,4 hermitian=b1; @n:6,2 f1e-4", FLOATS "i", .define = define_pinv, .ulps = 1024, .grad_ulps = 1 << 14, .flags = MANY},
    {"matrix_rank", "@n:4,4; @n:5,3; @n:2,2,6; @e:4,4; @m:5,5 f0.9; @n:6,6 f0.3; @y:5,5 hermitian=b1; @n:0,2,3; @n:3,0; @c:2,5,5 f0.01", FLOATS "i", .define = define_rank, .flags = FREE},

    {"tensordot", "@n:3,4 @n:4,5 i1; @n:2,3,4 @n:3,4,2; @n:3 @n:2 i0; @n:2,3,4 @n:4,5,2 ( l0,2 l2,0 ); @n:3,2 @n:2,4 ( l-1 l0 ); @n:0,3 @n:3,2 i1; @n:2,0 @n:0,3 i1; @n: @n:2 i0", FLOATS "il", .define = define_tensordot, SUMS},
    {"kron", "@n:2,3 @n:3,2; @n:3 @n:2,2; @n: @n:3; @n:2,1,2 @n:3; @n:0,2 @n:2", FLOATS "il", .define = define_kron, SUMS},
    {"einsum", "s'ij,jk->ik' ( @n:3,4 @n:4,2 ); s'ij' ( @n:2,3 ); s'ji' ( @n:2,3 ); s'ii' ( @n:3,3 ); s'ii->i' ( @n:3,3 ); s'...ij,...jk->...ik' ( @n:2,1,2,3 @n:3,3,2 ); s'...ij->...' ( @n:2,2,3 ); s'i,j->ij' ( @n:2 @n:3 ); s'bij,bj,b->bi' ( @n:2,3,4 @n:2,4 @n:2 ); s'bA,ab' ( @n:2,3 @n:4,2 ); s'ij,jk' ( @n:2,0 @n:0,3 ); s'ij,jk->ik' ( @n:3,1 @n:4,2 ); s'ii,i->i' ( @n:1,1 @n:3 ); s'i,i' ( @n:1 @n:0 )", FLOATS "il", .define = define_einsum, SUMS},
    {"cdist", "@n:3,4 @n:2,4; @n:2,3,4 @n:2,4 f1; @n:3,4 @n:1,4 f3; @n:3,4 @n:2,4 f0; @n:2,1,3,4 @n:3,2,4 finf; @n:3,4 @n:2,4 f1.5; @n:0,4 @n:2,4; @n:2,0 @n:3,0; @c:3,4 @c:2,4; @c:3,4 @c:2,4 f0.5; @c:3,4 @c:2,4 f1; @c:3,4 @c:2,4 f1.5; @c:3,4 @c:4,4 finf; @c:2,3,4 @c:1,2,4 f3; @c:4,3 @c:3,3 f0.25", FLOATS, .define = define_cdist, .back = back_cdist, .ulps = 64, .grad_ulps = 512, .flags = FREE},
};
/* clang-format on */

const struct oracle_table oracle_linalg = {rows, ARRAY_LEN(rows)};
