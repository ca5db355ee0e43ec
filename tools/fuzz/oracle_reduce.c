/* The oracle: reductions, running results, order. */
#include "tools/fuzz/oracle.h"

#include <math.h>

#include "base/bits.h"

/* ---- the frame ---- */

/* The value of n numbers; *scale, which is 0, what its error is relative to
 * beside itself. */
typedef long double fold_fn(const struct oracle *o, const long double *v,
                            size_t n, long double *scale);

/* The cell of the result that element k of x goes to. */
static size_t
cell_of(const struct oracle_array *x, uint32_t mask, size_t k)
{
    size_t cell = 0, step = 1;
    uint32_t i;

    for (i = x->rank; i-- > 0;) {
        size_t at = k % (size_t)x->d[i];
        k /= (size_t)x->d[i];
        if (mask & 1u << i)
            continue;
        cell += at * step;
        step *= (size_t)x->d[i];
    }
    return cell;
}

static struct oracle_array *
reduced(struct oracle *o, const struct oracle_array *x, uint32_t mask,
        bool keep, enum bell_dtype dtype)
{
    int64_t d[BELL_MAX_RANK];
    uint32_t rank = 0, i;

    for (i = 0; i < x->rank; i++) {
        if (!(mask & 1u << i))
            d[rank++] = x->d[i];
        else if (keep)
            d[rank++] = 1;
    }
    return oracle_out(o, dtype, d, rank);
}

/* Reduces x over the axes by `fold`. */
static struct oracle_array *
fold(struct oracle *o, const struct oracle_array *x, uint32_t mask, bool keep,
     enum bell_dtype dtype, fold_fn *fn)
{
    struct oracle_array *out = reduced(o, x, mask, keep, dtype);
    size_t each = out->n ? x->n / out->n : 0, k;
    long double *v = arena_calloc(o->arena, x->n + 1, sizeof(*v));
    size_t *used = arena_calloc(o->arena, out->n + 1, sizeof(*used));

    oracle_scales(o, out);
    for (k = 0; k < x->n; k++) {
        size_t cell = cell_of(x, mask, k);
        v[cell * each + used[cell]++] = x->v[k];
    }
    for (k = 0; k < out->n; k++)
        out->v[k] = fn(o, v + k * each, each, &out->scale[k]);
    return out;
}

/* ---- sums and products ---- */

static long double
add_up(const struct oracle *o, const long double *v, size_t n,
       long double *scale)
{
    long double sum = 0;
    size_t i;

    (void)o;
    for (i = 0; i < n; i++) {
        sum += v[i];
        *scale += isfinite(v[i]) ? fabsl(v[i]) : 0;
    }
    return sum;
}

static long double
multiply(const struct oracle *o, const long double *v, size_t n,
         long double *scale)
{
    long double product = 1;
    size_t i;

    (void)o;
    (void)scale;
    for (i = 0; i < n; i++)
        product *= v[i];
    return product;
}

static long double
add_bits(const struct oracle *o, const long double *v, size_t n,
         long double *scale)
{
    uint64_t sum = 0;
    size_t i;

    (void)scale;
    for (i = 0; i < n; i++)
        sum += oracle_bits(v[i]);
    return oracle_of_bits(o->out[0]->dtype, sum);
}

static long double
multiply_bits(const struct oracle *o, const long double *v, size_t n,
              long double *scale)
{
    uint64_t product = 1;
    size_t i;

    (void)scale;
    for (i = 0; i < n; i++)
        product *= oracle_bits(v[i]);
    return oracle_of_bits(o->out[0]->dtype, product);
}

static long double
average(const struct oracle *o, const long double *v, size_t n,
        long double *scale)
{
    long double sum = add_up(o, v, n, scale);

    *scale /= (long double)n;
    return sum / (long double)n;
}

/* x as the dtype that parameter k says; integers as int64 where it does not. */
static struct oracle_array *
as_summed(struct oracle *o, uint32_t k, bool floats_only)
{
    const struct oracle_array *x = oracle_t(o, 0);
    enum bell_dtype dtype = x->dtype;
    struct oracle_array *out;
    size_t i;

    if (o->a[k].given)
        dtype = o->a[k].dtype;
    else if (!oracle_is_float(dtype) && !floats_only)
        dtype = BELL_INT64;
    out = oracle_like(o, dtype, x);
    for (i = 0; i < x->n; i++)
        out->v[i] = oracle_is_float(dtype)
                        ? x->v[i]
                        : oracle_convert(x->dtype, dtype, x->v[i]);
    return out;
}

static void
define_sum(struct oracle *o)
{
    struct oracle_array *x = as_summed(o, 3, false);
    bool product = o->row->name[0] == 'p', f = oracle_is_float(x->dtype);

    fold(o, x, oracle_axes(o, 1, x), oracle_flag(o, 2), x->dtype,
         product ? (f ? multiply : multiply_bits) : (f ? add_up : add_bits));
}

/* The adjoint of the sum that an element is in. */
static void
back_sum(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0);
    uint32_t mask = oracle_axes(o, 1, x);
    size_t k;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    for (k = 0; k < x->n; k++)
        o->gradient[0]->v[k] = o->adjoint[0]->v[cell_of(x, mask, k)];
}

static void
define_mean(struct oracle *o)
{
    struct oracle_array *x = as_summed(o, 3, true);

    fold(o, x, oracle_axes(o, 1, x), oracle_flag(o, 2), x->dtype, average);
}

static long double
count_true(const struct oracle *o, const long double *v, size_t n,
           long double *scale)
{
    size_t i, count = 0;

    (void)scale;
    for (i = 0; i < n; i++)
        count += v[i] != 0;
    return o->row->name[0] == 'c'   ? count
           : o->row->name[1] == 'n' ? count > 0
                                    : count == n;
}

static void
define_truth(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool counts = o->row->name[0] == 'c';

    fold(o, x, oracle_axes(o, 1, x), !counts && oracle_flag(o, 2),
         counts ? BELL_INT64 : BELL_BOOL, count_true);
}

/* ---- moments ---- */

static long double
variance(const struct oracle *o, const long double *v, size_t n,
         long double *scale)
{
    long double unused = 0, mean = average(o, v, n, &unused), sum = 0;
    long double rest = (long double)n - oracle_num(o, 2);
    size_t i;

    (void)scale;
    for (i = 0; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    return sum / (rest > 0 ? rest : 0);
}

static long double
deviation(const struct oracle *o, const long double *v, size_t n,
          long double *scale)
{
    return sqrtl(variance(o, v, n, scale));
}

static void
define_var(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    const char *name = o->row->name;
    uint32_t mask = oracle_axes(o, 1, x);

    fold(o, x, mask, oracle_flag(o, 3), x->dtype,
         name[0] == 'v' ? variance : deviation);
    if (name[3])
        fold(o, x, mask, oracle_flag(o, 3), x->dtype, average);
}

/* (x - mean) / (n - correction), over the deviation of std; where that is 0 so
 * is the slope. */
static void
back_var(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0), *g = oracle_like(o, x->dtype, x);
    uint32_t mask = oracle_axes(o, 1, x);
    const struct oracle_array *mean;
    struct oracle own = *o;
    size_t k, n;
    long double most = 0;

    own.n_out = 0;
    mean = fold(&own, x, mask, true, x->dtype, average);
    n = mean->n ? x->n / mean->n : 0;
    for (k = 0; k < x->n; k++) {
        size_t cell = cell_of(x, mask, k);
        long double rest = (long double)n - oracle_num(o, 2), d, s;
        if (o->adjoint[1]) {
            g->v[k] = o->adjoint[1]->v[cell] / (long double)n;
            continue;
        }
        s = o->out[0]->v[cell];
        d = (x->v[k] - mean->v[cell]) / (rest > 0 ? rest : 0);
        g->v[k] = o->adjoint[0]->v[cell] * (o->row->name[0] == 'v' ? 2 * d
                                            : s == 0               ? 0
                                                                   : d / s);
        if (rest <= 0)
            g->v[k] = ORACLE_ANY;
    }
    oracle_scales(o, g);
    for (k = 0; k < x->n; k++)
        most = g->v[k] == ORACLE_ANY ? most : fmaxl(most, fabsl(g->v[k]));
    for (k = 0; k < x->n; k++)
        g->scale[k] = most;
    o->gradient[0] = g;
}

/* ---- norms ---- */

static long double
norm_of(const long double *v, size_t n, long double p)
{
    long double sum = 0, most = 0, least = (long double)INFINITY;
    bool nan = false;
    size_t i;

    for (i = 0; i < n; i++) {
        nan |= isnan(v[i]);
        most = fmaxl(most, fabsl(v[i]));
        least = fminl(least, fabsl(v[i]));
        sum += p == 0 ? v[i] != 0 : powl(fabsl(v[i]), p);
    }
    if (isinf(p))
        return nan ? (long double)NAN : p > 0 ? most : least;
    return p == 0 ? sum : powl(sum, 1 / p);
}

static long double
fold_norm(const struct oracle *o, const long double *v, size_t n,
          long double *scale)
{
    (void)scale;
    return norm_of(v, n, oracle_num(o, 1));
}

static void
define_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);

    fold(o, x, oracle_axes(o, 2, x), oracle_flag(o, 3), x->dtype, fold_norm);
}

static long double
sign_of(long double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/* sign(x) |x|^(p-1) / norm^(p-1); of the greatest an equal part. */
static void
back_norm(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0), *g = oracle_like(o, x->dtype, x);
    uint32_t mask = oracle_axes(o, 2, x);
    long double p = oracle_num(o, 1), *ties;
    size_t k;

    ties = arena_calloc(o->arena, o->out[0]->n + 1, sizeof(*ties));
    for (k = 0; k < x->n; k++) {
        size_t cell = cell_of(x, mask, k);
        ties[cell] += fabsl(x->v[k]) == o->out[0]->v[cell];
    }
    for (k = 0; k < x->n; k++) {
        size_t cell = cell_of(x, mask, k);
        long double norm = o->out[0]->v[cell], a = fabsl(x->v[k]), s;
        if (!isfinite(norm))
            s = 0;
        else if (p == 0 || norm == 0 || a == 0)
            s = 0;
        else if (isinf(p))
            s = a == norm ? 1 / ties[cell] : 0;
        else
            s = powl(a / norm, p - 1);
        g->v[k] = isfinite(norm) ? o->adjoint[0]->v[cell] * s * sign_of(x->v[k])
                                 : ORACLE_ANY;
    }
    o->gradient[0] = g;
}

static void
define_normalize(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t mask = x->rank ? 1u << oracle_axis(o, 2, x) : 0;
    struct oracle own = *o;
    const struct oracle_array *norm;
    struct oracle_array *out;
    size_t k;

    own.n_out = 0;
    norm = fold(&own, x, mask, true, x->dtype, fold_norm);
    out = oracle_out(o, x->dtype, x->d, x->rank);
    for (k = 0; k < x->n; k++) {
        long double n = norm->v[cell_of(x, mask, k)];
        out->v[k] = x->v[k] / (n < oracle_num(o, 3) ? oracle_num(o, 3) : n);
    }
}

/* a / N - x' (a . x) / N^2, x' the slope of the norm N; the norm takes none
 * where it is less than eps. */
static void
back_normalize(struct oracle *o)
{
    struct oracle_array *x = oracle_t(o, 0), *g = oracle_like(o, x->dtype, x);
    uint32_t mask = x->rank ? 1u << oracle_axis(o, 2, x) : 0;
    long double eps = oracle_num(o, 3), *dot, *most;
    struct oracle own = *o;
    const struct oracle_array *norm, *a = o->adjoint[0];
    size_t k;

    own.n_out = 0;
    norm = fold(&own, x, mask, true, x->dtype, fold_norm);
    dot = arena_calloc(o->arena, norm->n + 1, sizeof(*dot));
    most = arena_calloc(o->arena, norm->n + 1, sizeof(*most));
    oracle_scales(o, g);
    for (k = 0; k < x->n; k++) {
        size_t cell = cell_of(x, mask, k);
        dot[cell] += a->v[k] * x->v[k];
        most[cell] += fabsl(a->v[k] * x->v[k]);
    }
    for (k = 0; k < x->n; k++) {
        size_t cell = cell_of(x, mask, k);
        long double n = norm->v[cell], v = x->v[k], s = 0;
        if (n > eps && v != 0)
            s = sign_of(v) * powl(fabsl(v) / n, oracle_num(o, 1) - 1) / n / n;
        n = n < eps ? eps : n;
        g->v[k] = a->v[k] / n - s * dot[cell];
        g->scale[k] = fabsl(a->v[k] / n) + fabsl(s) * most[cell];
    }
    o->gradient[0] = g;
}

/* ---- exponentials ---- */

static long double
greatest(const long double *v, size_t n)
{
    long double m = -(long double)INFINITY;
    size_t i;

    for (i = 0; i < n; i++)
        m = isnan(v[i]) || v[i] > m ? v[i] : m;
    return m;
}

static long double
log_sum(const struct oracle *o, const long double *v, size_t n,
        long double *scale)
{
    long double m = greatest(v, n), sum = 0;
    size_t i;

    (void)o;
    if (!isfinite(m))
        m = 0;
    for (i = 0; i < n; i++)
        sum += expl(v[i] - m);
    *scale = fabsl(m) + 1;
    return logl(sum) + m;
}

static void
define_logsumexp(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);

    fold(o, x, oracle_axes(o, 1, x), oracle_flag(o, 2), oracle_float(x->dtype),
         log_sum);
}

static void
define_softmax(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    enum bell_dtype dtype =
        o->a[2].given ? o->a[2].dtype : oracle_float(x->dtype);
    struct oracle_array *out = oracle_out(o, dtype, x->d, x->rank);
    size_t before, along, behind, i, j, k;
    bool is_log = o->row->name[0] == 'l',
         is_min = o->row->name[4] == 'm' && o->row->name[5] == 'i';
    long double *v;

    oracle_split(x, oracle_axis(o, 1, x), &before, &along, &behind);
    v = arena_calloc(o->arena, along + 1, sizeof(*v));
    oracle_scales(o, out);
    for (i = 0; i < before; i++) {
        for (j = 0; j < behind; j++) {
            size_t at = i * along * behind + j;
            long double m, sum = 0;
            for (k = 0; k < along; k++)
                v[k] = is_min ? -x->v[at + k * behind] : x->v[at + k * behind];
            m = greatest(v, along);
            for (k = 0; k < along; k++)
                sum += expl(v[k] - m);
            for (k = 0; k < along; k++) {
                out->v[at + k * behind] =
                    is_log ? v[k] - m - logl(sum) : expl(v[k] - m) / sum;
                if (is_log && isfinite(v[k]))
                    out->scale[at + k * behind] = 1;
            }
        }
    }
}

/* ---- running results ---- */

static void
define_cumsum(struct oracle *o)
{
    struct oracle_array *x = as_summed(o, 2, false);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    bool product = o->row->name[3] == 'p', f = oracle_is_float(x->dtype);
    size_t before, along, behind, k;

    oracle_split(x, oracle_axis(o, 1, x), &before, &along, &behind);
    oracle_scales(o, out);
    for (k = 0; k < x->n; k++) {
        bool first = k / behind % along == 0;
        long double was = first ? product : out->v[k - behind];
        if (f)
            out->v[k] = product ? was * x->v[k] : was + x->v[k];
        else
            out->v[k] = oracle_of_bits(
                x->dtype, product ? oracle_bits(was) * oracle_bits(x->v[k])
                                  : oracle_bits(was) + oracle_bits(x->v[k]));
        if (!product && isfinite(x->v[k]))
            out->scale[k] =
                fabsl(x->v[k]) + (first ? 0 : out->scale[k - behind]);
    }
}

/* ---- order ---- */

/* NaN is the greatest. */
static bool
is_above(long double a, long double b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

static long double
reduce_place_of(const struct oracle *o, const long double *v, size_t n,
                long double *scale)
{
    bool most = o->row->name[3] == 'm' && o->row->name[4] == 'a';
    size_t i, best = 0;

    (void)scale;
    for (i = 1; i < n && !isnan(v[best]); i++) {
        if (isnan(v[i]) || (most ? v[i] > v[best] : v[i] < v[best]))
            best = i;
    }
    return best;
}

static void
define_argmax(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    uint32_t mask = o->a[1].given && x->rank ? 1u << oracle_axis(o, 1, x)
                                             : (1u << x->rank) - 1;

    fold(o, x, mask, oracle_flag(o, 2), BELL_INT64, reduce_place_of);
}

/* Places in order, stable; by insertion. */
static void
order_places(const long double *v, size_t n, bool descending, size_t *places)
{
    size_t i, k;

    for (i = 0; i < n; i++) {
        for (k = i; k > 0; k--) {
            long double a = v[places[k - 1]], b = v[i];
            if (!(descending ? is_above(b, a) : is_above(a, b)))
                break;
            places[k] = places[k - 1];
        }
        places[k] = i;
    }
}

/* The first `count` in order along an axis: values, places, both. */
static void
define_order(struct oracle *o, uint32_t axis, size_t count, bool descending,
             bool values, bool indices)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = NULL, *at = NULL;
    int64_t d[BELL_MAX_RANK];
    size_t before, along, behind, i, j, k, *places;
    uint32_t rank = x->rank;
    long double *v;

    for (i = 0; i < rank; i++)
        d[i] = i == axis ? (int64_t)count : x->d[i];
    if (rank == 0 && count == 0) /* no element of a number */
        d[rank++] = 0;
    if (values)
        out = oracle_out(o, x->dtype, d, rank);
    if (indices)
        at = oracle_out(o, BELL_INT64, d, rank);
    oracle_split(x, axis, &before, &along, &behind);
    v = arena_calloc(o->arena, along + 1, sizeof(*v));
    places = arena_calloc(o->arena, along + 1, sizeof(*places));
    for (i = 0; i < before; i++) {
        for (j = 0; j < behind; j++) {
            for (k = 0; k < along; k++)
                v[k] = x->v[(i * along + k) * behind + j];
            order_places(v, along, descending, places);
            for (k = 0; k < count; k++) {
                if (out)
                    out->v[(i * count + k) * behind + j] = v[places[k]];
                if (at)
                    at->v[(i * count + k) * behind + j] = places[k];
            }
        }
    }
}

static size_t
size_along(const struct oracle_array *x, uint32_t axis)
{
    return x->rank ? (size_t)x->d[axis] : 1;
}

static void
define_sort(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool is_arg = o->row->name[0] == 'a', is_m = o->row->name[0] == 'm';
    uint32_t axis = is_m ? 0 : oracle_axis(o, 1, x);

    define_order(o, axis, size_along(x, axis), !is_m && oracle_flag(o, 2),
                 !is_arg, is_arg || !is_m);
}

static void
define_topk(struct oracle *o)
{
    define_order(o, oracle_axis(o, 2, oracle_t(o, 0)), (size_t)oracle_int(o, 1),
                 oracle_flag(o, 3), true, true);
}

#define FLOATS "hwfd"
#define ALL    "hwfdcsilCSIL?"
#define MANY   ORACLE_SCALED | ORACLE_ZERO
#define SPREAD                                                                 \
    "@n:5,40; @n:3,4,5 dim=l0,2; @e:30; @n:2,30 dim=l1 keepdim=b1; @n:50 "     \
    "correction=f0; @n:1; @n:4 correction=f4; @n:"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"sum", "@n:5,40; @n:3,4,5 dim=l0,2; @x; @n:4,7 l1 b1; @n:; @n:0,3 dim=l0; @n:9 dtype=yuint8; @n:3,9 dim=l1 dtype=yint16; @n:9 dtype=yfloat32; @e:1000; @q:8,5 dim=l1", ALL, .define = define_sum, .back = back_sum, .ulps = 12, .flags = MANY},
    {"prod", "@n:5,4; @n:3,4,5 dim=l0,2; @n:4,7 l1 b1; @n:; @n:0,3 dim=l0; @n:9 dtype=yuint8; @n:3,9 dim=l1 dtype=yint16; @q:8,5 dim=l1; @c:9", ALL, .define = define_sum, .ulps = 12, .flags = ORACLE_ZERO | ORACLE_GRAD, .grad_ulps = 20},
    {"mean", "@n:5,40; @n:3,4,5 dim=l0,2; @n:4,7 l1 b1; @n:; @n:0; @e:1000; @q:8,5 dim=l1; @n:9 dtype=yfloat64", "hwf", .define = define_mean, .ulps = 12, .flags = MANY | ORACLE_GRAD, .grad_ulps = 2},
    {"any", "@q:8,5 dim=l1; @c:7; @n:; @n:0,3 dim=l0; @n:0", ALL, .define = define_truth},
    {"all", "@q:8,5 dim=l1; @c:7; @n:; @n:0,3 dim=l0; @n:0", ALL, .define = define_truth},
    {"count_nonzero", "@q:8,5 dim=l1; @c:7; @n:; @n:0,3 dim=l0; @n:0", ALL, .define = define_truth},
    {"var", SPREAD, FLOATS, .define = define_var, .back = back_var, .ulps = 24, .grad_ulps = 32, .flags = MANY, .scale = 0x1p-110},
    {"std", SPREAD, FLOATS, .define = define_var, .back = back_var, .ulps = 24, .grad_ulps = 32, .flags = MANY | ORACLE_WIDE, .scale = 0x1p-110},
    {"var_mean", SPREAD, FLOATS, .define = define_var, .back = back_var, .ulps = 24, .grad_ulps = 32, .flags = MANY, .scale = 0x1p-110},
    {"std_mean", SPREAD, FLOATS, .define = define_var, .back = back_var, .ulps = 24, .grad_ulps = 32, .flags = MANY | ORACLE_WIDE, .scale = 0x1p-110},
    {"norm", "@n:7,30; @n:5,40 dim=l1; @n:9 f3; @n:3,9 f1 l1 b1; @n:5,6 finf l0; @e:4,6 finf l1; @e:5,6 f-inf l0; @c:9 f0; @n:; @n:0; @e:1000; @q:8,5 dim=l1; @p:9 f-1; @n:9 f0.5; @c:3,1 dim=l1; @c:12 f0.5; @c:4,5 f0.5 l1; @c:9 f0.25; @c:9 f1; @c:12 f1.5; @c:9 f-1; @c:9 f3; @b:3,4/f f0.5 l0", FLOATS, .define = define_norm, .back = back_norm, .ulps = 24, .grad_ulps = 64, .flags = MANY, .scale = 0x1p-110},
    {"normalize", "@n:5,7; @n:3,9 f1; @n:4,5 f3 i0; @n:3,4 dim=i-1; @e:2,4; @e:1,100; @c:3,9 f0.5; @c:3,9 f1.5; @c:4,5; @c:4,5 f1 i0; @b:3,4/f f0.5", FLOATS, .define = define_normalize, .back = back_normalize, .ulps = 24, .grad_ulps = 64, .flags = MANY},
    {"logsumexp", "@n:5,40; @n:3,4,5 dim=l0,2; @q:8,5 dim=l1; @n:; @e:9", FLOATS "i", .define = define_logsumexp, .ulps = 4, .grad_ulps = 300, .flags = MANY | ORACLE_GRAD},
    {"argmax", "@n:5,40; @c:6,7 i1; @q:8,5 i1; @n: ; @n:4,5 i0 b1; @e:9", ALL, .define = define_argmax},
    {"argmin", "@n:5,40; @c:6,7 i1; @q:8,5 i1; @n: ; @n:4,5 i0 b1; @e:9", ALL, .define = define_argmax},
    {"softmax", "@n:5,40; @n:3,4,5 i1; @q:20,5; @n:; @c:9; @n:0,3; @n:3,4 i0 yfloat64", "hwf", .define = define_softmax, .ulps = 6, .scale = 0x1p-16, .grad_ulps = 8, .slope_scale = 1, .flags = MANY | ORACLE_GRAD},
    {"log_softmax", "@n:5,40; @n:3,4,5 i1; @q:20,5; @n:; @c:9; @n:0,3", FLOATS, .define = define_softmax, .ulps = 6, .scale = 0x1p-16, .grad_ulps = 8, .slope_scale = 1, .flags = MANY | ORACLE_GRAD},
    {"softmin", "@n:5,40; @n:3,4,5 i1; @q:20,5; @n:; @c:9; @n:0,3", FLOATS, .define = define_softmax, .ulps = 6, .scale = 0x1p-16, .grad_ulps = 8, .slope_scale = 1, .flags = MANY | ORACLE_GRAD},
    {"cumsum", "@n:5,40 i1; @n:3,4,5 i1; @n:4,7 i0; @n: i0; @n:0,3 i1; @n:9 i0 yuint8; @n:70 i0 yint16; @q:8,5 i1", ALL, .define = define_cumsum, .ulps = 12, .grad_ulps = 20, .flags = MANY | ORACLE_GRAD},
    {"cumprod", "@n:5,9 i1; @n:3,4,5 i1; @n: i0; @n:0,3 i1; @n:9 i0 yuint8; @n:70 i0 yint16; @q:8,5 i1", ALL, .define = define_cumsum, .ulps = 20, .grad_ulps = 64, .flags = ORACLE_ZERO | ORACLE_GRAD},
    {"sort", "@n:5,40; @c:6,9; @q:8,9; @q:8,9 i0 b1; @n:; @c:70 i0 b1; @n:0,3; @n:3,0", ALL, .define = define_sort, .flags = ORACLE_ZERO},
    {"msort", "@n:5,40; @c:6,9; @q:8,9; @n:; @n:0,3", ALL, .define = define_sort, .flags = ORACLE_ZERO},
    {"argsort", "@n:5,40; @c:6,9; @q:8,9; @q:8,9 i0 b1; @n:; @n:0,3", ALL, .define = define_sort},
    {"topk", "@n:5,40 i3; @c:6,9 i4; @q:8,9 i5; @q:8,9 i2 i0 b0; @n: i1; @n: i0; @n:3,4 i0; @n:0,3 i2", ALL, .define = define_topk, .flags = ORACLE_ZERO},
};
/* clang-format on */

const struct oracle_table oracle_reduce = {rows, ARRAY_LEN(rows)};
