/* The oracle: products of matrices, attention, normalisation. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* ---- products ---- */

/* x[.., m, k] @ y[.., k, n] with leading axes that broadcast; vectors have an
 * axis of size 1 that goes. */
static struct oracle_array *
product(struct oracle *o, const struct oracle_array *x,
        const struct oracle_array *y)
{
    struct oracle_array a = *x, b = *y, *out, outer[2], *list[2];
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, i, j, k, m, n, inner;
    bool is_float = oracle_is_float(x->dtype);
    uint32_t rank, r;

    if (x->rank == 1) {
        a.rank = 2;
        a.d[1] = a.d[0];
        a.d[0] = 1;
    }
    if (y->rank == 1) {
        b.rank = 2;
        b.d[1] = 1;
    }
    m = a.d[a.rank - 2];
    inner = a.d[a.rank - 1];
    n = b.d[b.rank - 1];
    outer[0] = a;
    outer[1] = b;
    for (r = 0; r < 2; r++) {
        outer[r].rank -= 2;
        list[r] = &outer[r];
    }
    rank = oracle_broadcast(list, 2, d);
    d[rank] = m;
    d[rank + 1] = n;
    out = oracle_new(o, x->dtype, d, rank + 2);
    oracle_scales(o, out);
    if (out->n == 0)
        return out;
    do {
        int64_t p = (int64_t)oracle_spread(&outer[0], at, rank) * m * inner;
        int64_t q = (int64_t)oracle_spread(&outer[1], at, rank) * inner * n;
        int64_t s = 0;
        for (r = 0; r < rank; r++)
            s = s * d[r] + at[r];
        for (i = 0; i < m; i++) {
            for (j = 0; j < n; j++) {
                size_t cell = (size_t)((s * m + i) * n + j);
                const long double *row = a.v + p + i * inner,
                                  *col = b.v + q + j;
                long double sum = 0, scale = 0;
                uint64_t bits = 0; /* integers wrap */
                for (k = 0; k < inner; k++) {
                    long double v = row[k] * col[k * n];
                    if (!is_float)
                        bits += oracle_bits(row[k]) * oracle_bits(col[k * n]);
                    sum += v;
                    scale += isfinite(v) ? fabsl(v) : 0;
                }
                out->v[cell] = is_float ? sum : oracle_of_bits(x->dtype, bits);
                out->scale[cell] = scale;
            }
        }
    } while (oracle_next(at, d, rank));
    return out;
}

static void
give(struct oracle *o, struct oracle_array *out)
{
    o->out[o->n_out++] = out;
}

static void
define_matmul(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    struct oracle_array *out = product(o, x, y);

    if (y->rank == 1)
        out->rank--;
    if (x->rank == 1) {
        out->rank--;
        if (y->rank > 1)
            out->d[out->rank - 1] = out->d[out->rank];
    }
    give(o, out);
}

static void
define_outer(struct oracle *o)
{
    struct oracle_array a = *oracle_t(o, 0), b = *oracle_t(o, 1);

    a.rank = b.rank = 2;
    a.d[1] = 1;
    b.d[1] = b.d[0];
    b.d[0] = 1;
    give(o, product(o, &a, &b));
}

static void
define_addmm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *p = product(o, oracle_t(o, 1), oracle_t(o, 2));
    int64_t at[2] = {0};
    size_t k = 0;

    do {
        long double v = x->v[oracle_spread(x, at, 2)];
        v = oracle_num(o, 3) == 0 ? 0 : v * oracle_num(o, 3);
        p->v[k] = p->v[k] * oracle_num(o, 4) + v;
        p->scale[k] = p->scale[k] * fabsl(oracle_num(o, 4)) + fabsl(v);
        k++;
    } while (oracle_next(at, p->d, 2));
    give(o, p);
}

/* x @ w.T + bias */
static void
define_linear(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *w = oracle_t(o, 1);
    const struct oracle_array *bias = oracle_t(o, 2);
    int64_t d[BELL_MAX_RANK];
    size_t n = w->rank == 1 ? 1 : (size_t)w->d[0];
    size_t inner = (size_t)w->d[w->rank - 1], i, j, k;
    struct oracle_array *out;

    memcpy(d, x->d, sizeof(d));
    d[x->rank - 1] = w->d[0];
    out = oracle_out(o, x->dtype, d, x->rank - (w->rank == 1));
    oracle_scales(o, out);
    for (i = 0; i < out->n / n; i++) {
        for (j = 0; j < n; j++) {
            long double sum = bias ? bias->v[j] : 0, scale = fabsl(sum);
            for (k = 0; k < inner; k++) {
                long double v = x->v[i * inner + k] * w->v[j * inner + k];
                sum += v;
                scale += fabsl(v);
            }
            out->v[i * n + j] = sum;
            out->scale[i * n + j] = scale;
        }
    }
}

/* softmax(q k^T * scale + mask) v; a row that sees nothing is 0. There are
 * three axes; the mask has two. A head of k, one of v, serves several of q. */
static void
define_attention(struct oracle *o)
{
    const struct oracle_array *q = oracle_t(o, 0), *k = oracle_t(o, 1);
    const struct oracle_array *v = oracle_t(o, 2), *mask = oracle_t(o, 3);
    size_t n = (size_t)q->d[1], m = (size_t)k->d[1], e = (size_t)q->d[2];
    size_t w = (size_t)v->d[2], b, i, j, c;
    int64_t d[3] = {q->d[0], q->d[1], v->d[2]};
    struct oracle_array *out = oracle_out(o, q->dtype, d, 3);
    long double *s = arena_calloc(o->arena, m + 1, sizeof(*s));
    long double scale =
        o->a[6].given ? oracle_num(o, 6) : 1 / sqrtl((long double)e);

    oracle_scales(o, out);
    for (b = 0; b < (size_t)q->d[0]; b++) {
        size_t kb = b * (size_t)k->d[0] / (size_t)q->d[0];
        size_t vb = b * (size_t)v->d[0] / (size_t)q->d[0];
        for (i = 0; i < n; i++) {
            long double most = -(long double)INFINITY, sum = 0;
            for (j = 0; j < m; j++) {
                bool hidden = oracle_flag(o, 5) && j > i;
                s[j] = 0;
                for (c = 0; c < e; c++)
                    s[j] +=
                        q->v[(b * n + i) * e + c] * k->v[(kb * m + j) * e + c];
                s[j] *= scale;
                if (mask && mask->dtype == BELL_BOOL)
                    hidden = mask->v[i * m + j] == 0;
                else if (mask)
                    s[j] += mask->v[i * m + j];
                if (hidden)
                    s[j] = -(long double)INFINITY;
                most = fmaxl(most, s[j]);
            }
            for (j = 0; j < m; j++) {
                s[j] = isinf(most) ? 0 : expl(s[j] - most);
                sum += s[j];
            }
            for (c = 0; c < w; c++) {
                size_t cell = (b * n + i) * w + c;
                for (j = 0; j < m && sum > 0; j++) {
                    long double x = s[j] / sum * v->v[(vb * m + j) * w + c];
                    out->v[cell] += x;
                    out->scale[cell] += fabsl(x);
                }
            }
        }
    }
}

/* ---- normalisation ---- */

/* Each group of `size` numbers, `step` apart, from its mean (if it is
 * subtracted) over the root of its mean square. */
static void
normalise(long double *v, size_t size, size_t step, bool centred,
          long double eps)
{
    long double mean = 0, square = 0;
    size_t i;

    for (i = 0; i < size && centred; i++)
        mean += v[i * step];
    mean /= (long double)size;
    for (i = 0; i < size; i++)
        square += (v[i * step] - mean) * (v[i * step] - mean);
    square = sqrtl(square / (long double)size + eps);
    for (i = 0; i < size; i++)
        v[i * step] = (v[i * step] - mean) / square;
}

static struct oracle_array *
copy_of(struct oracle *o, const struct oracle_array *x)
{
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);

    memcpy(out->v, x->v, x->n * sizeof(*x->v));
    oracle_scales(o, out);
    return out;
}

/* Times weight, plus bias, of which element k has number k / step % n. */
static void
scale_and_shift(struct oracle_array *out, const struct oracle_array *weight,
                const struct oracle_array *bias, size_t step, size_t n)
{
    size_t k;

    for (k = 0; k < out->n; k++) {
        size_t at = k / step % n;
        if (weight)
            out->v[k] *= weight->v[at];
        if (bias)
            out->v[k] += bias->v[at];
        out->scale[k] = fabsl(out->v[k]) + (bias ? fabsl(bias->v[at]) : 0) +
                        (weight ? fabsl(weight->v[at]) : 1);
    }
}

/* The gradients of groups of `size` numbers that lie together, of weight and
 * bias in parameters w and w + 1. With y the normalised numbers, s their
 * deviation and g the adjoint times weight: (g - mean g - y mean(g y)) / s. */
static void
back_groups(struct oracle *o, size_t size, size_t step, size_t channels,
            long double eps, uint32_t w)
{
    struct oracle_array *x = oracle_t(o, 0), *weight = oracle_t(o, w), *g;
    long double *y = arena_calloc(o->arena, 2 * size + 2, sizeof(*y)), n = size;
    long double *by = y + size + 1, mean, square, most = 0;
    size_t k, i, at;

    g = o->gradient[0] = oracle_like(o, x->dtype, x);
    oracle_scales(o, g);
    for (i = w; i < w + 2; i++) {
        if (!oracle_t(o, (uint32_t)i))
            continue;
        o->gradient[i] = oracle_like(o, x->dtype, oracle_t(o, (uint32_t)i));
        oracle_scales(o, o->gradient[i]);
    }
    for (k = 0; k < x->n; k += size) {
        long double sum = 0, with = 0;
        for (i = 0, mean = 0; i < size; i++)
            mean += x->v[k + i] / n;
        for (i = 0, square = eps; i < size; i++)
            square += (x->v[k + i] - mean) * (x->v[k + i] - mean) / n;
        for (i = 0; i < size; i++) {
            long double a = o->adjoint[0]->v[k + i];
            at = (k + i) / step % channels;
            y[i] = (x->v[k + i] - mean) / sqrtl(square);
            by[i] = a * (weight ? weight->v[at] : 1);
            sum += by[i] / n;
            with += by[i] * y[i] / n;
            if (weight) {
                o->gradient[w]->v[at] += a * y[i];
                o->gradient[w]->scale[at] += fabsl(a) * (fabsl(y[i]) + 1);
            }
            if (o->gradient[w + 1]) {
                o->gradient[w + 1]->v[at] += a;
                o->gradient[w + 1]->scale[at] += fabsl(a);
            }
        }
        for (i = 0; i < size; i++) {
            g->v[k + i] = (by[i] - sum - y[i] * with) / sqrtl(square);
            most = fmaxl(most, fabsl(by[i]) / sqrtl(square));
        }
    }
    for (k = 0; k < x->n; k++)
        g->scale[k] = most;
}

static void
back_layer_norm(struct oracle *o)
{
    uint32_t n, i;
    const int64_t *sizes = oracle_ints(o, 1, &n);
    size_t size = 1;

    for (i = 0; i < n; i++)
        size *= (size_t)sizes[i];
    back_groups(o, size, 1, size, oracle_num(o, 4), 2);
}

static void
back_group_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    size_t channels = (size_t)x->d[1], area = x->n / (size_t)x->d[0] / channels;

    back_groups(o, channels / (size_t)oracle_int(o, 1) * area, area, channels,
                oracle_num(o, 4), 2);
}

static void
back_instance_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    size_t channels = (size_t)x->d[1], area = x->n / (size_t)x->d[0] / channels;

    back_groups(o, area, area, channels, oracle_num(o, 7), 3);
}

static void
define_layer_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = copy_of(o, x);
    bool rms = o->row->name[0] == 'r';
    size_t size = 1, k;
    uint32_t n, i;
    const int64_t *sizes = oracle_ints(o, 1, &n);
    long double eps = rms ? (o->a[3].given              ? oracle_num(o, 3)
                             : x->dtype == BELL_FLOAT64 ? 0x1p-52L
                                                        : 0x1p-23L)
                          : oracle_num(o, 4);

    for (i = 0; i < n; i++)
        size *= (size_t)sizes[i];
    for (k = 0; k < x->n; k += size)
        normalise(out->v + k, size, 1, !rms, eps);
    scale_and_shift(out, oracle_t(o, 2), rms ? NULL : oracle_t(o, 3), 1, size);
}

/* Groups of channels of each image; batch_norm: each channel of all. */
static void
define_group_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = copy_of(o, x);
    size_t images = (size_t)x->d[0], channels = (size_t)x->d[1], k;
    size_t area = x->n / images / channels;
    size_t size = channels / (size_t)oracle_int(o, 1) * area;

    for (k = 0; k < x->n; k += size)
        normalise(out->v + k, size, 1, true, oracle_num(o, 4));
    scale_and_shift(out, oracle_t(o, 2), oracle_t(o, 3), area, channels);
}

static void
define_instance_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = copy_of(o, x);
    size_t channels = (size_t)x->d[1];
    size_t area = x->n / (size_t)x->d[0] / channels, k;

    for (k = 0; k < x->n; k += area)
        normalise(out->v + k, area, 1, true, oracle_num(o, 7));
    scale_and_shift(out, oracle_t(o, 3), oracle_t(o, 4), area, channels);
}

static void
define_batch_norm(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *mean = oracle_t(o, 1);
    const struct oracle_array *var = oracle_t(o, 2);
    struct oracle_array *out = copy_of(o, x);
    size_t images = (size_t)x->d[0], channels = (size_t)x->d[1];
    size_t area = x->n / images / channels, i, c, k;
    long double *v = arena_calloc(o->arena, images * area + 1, sizeof(*v));

    for (c = 0; c < channels; c++) {
        size_t n = 0;
        for (i = 0; i < images; i++) {
            for (k = 0; k < area; k++)
                v[n++] = x->v[(i * channels + c) * area + k];
        }
        if (oracle_flag(o, 5))
            normalise(v, n, 1, true, oracle_num(o, 7));
        for (k = 0; k < n && !oracle_flag(o, 5); k++)
            v[k] = (v[k] - mean->v[c]) / sqrtl(var->v[c] + oracle_num(o, 7));
        for (i = n = 0; i < images; i++) {
            for (k = 0; k < area; k++)
                out->v[(i * channels + c) * area + k] = v[n++];
        }
    }
    scale_and_shift(out, oracle_t(o, 3), oracle_t(o, 4), area, channels);
}

#define FLOATS "hwfd"
#define INTS   "csilCSIL"
#define MANY   ORACLE_SCALED | ORACLE_ZERO | ORACLE_GRAD
#define COMMON .ulps = 12, .grad_ulps = 24, .flags = MANY
#define NORMS  .ulps = 24, .grad_ulps = 300

/* clang-format off */
static const struct oracle_row rows[] = {
    {"matmul", "@n:5,7 @n:7,4; @n:2,3,5 @n:5,4; @n:2,1,3,5 @n:4,5,2; @n:5 @n:5,3; @n:3,5 @n:5; @n:5 @n:5; @n:3,0 @n:0,4; @n:0,3 @n:3,4; @q:4,5 @n:5,3; @w40:9,16/c @w40:16,9/c", FLOATS INTS, .define = define_matmul, COMMON},
    {"mm", "@n:5,7 @n:7,4; @n:17,33 @n:33,18", FLOATS "i", .define = define_matmul, COMMON},
    {"mv", "@n:5,7 @n:7", FLOATS "i", .define = define_matmul, COMMON},
    {"bmm", "@n:2,5,7 @n:2,7,4", FLOATS "i", .define = define_matmul, COMMON},
    {"dot", "@n:40 @n:40; @n:0 @n:0", FLOATS "i", .define = define_matmul, COMMON},
    {"outer", "@n:5 @n:7", FLOATS "i", .define = define_outer, COMMON},
    {"addmm", "@n:5,4 @n:5,7 @n:7,4; @n:4 @n:5,7 @n:7,4 f0.5 f-2; @n:1,4 @n:5,7 @n:7,4; @q:5,4 @n:5,7 @n:7,4 beta=f0; @c:5,4/i @c:5,7/i @c:7,4/i f3 f-2", FLOATS, .define = define_addmm, COMMON},
    {"linear", "@n:5,7 @n:4,7; @n:2,5,7 @n:4,7 @n:4; @n:7 @n:4,7; @n:7 @n:7; @n:2,5,7 @n:7", FLOATS, .define = define_linear, COMMON},
    /* halves: the weights are rounded to them, docs/explanation/math.md */
    {"scaled_dot_product_attention", "@n:2,5,8 @n:2,7,8 @n:2,7,4; @n:2,5,8 @n:2,7,8 @n:2,7,4 @b:5,7; @n:1,9,8 @n:1,3,8 @n:1,3,4 @b:9,3; @n:2,5,8 @n:2,7,8 @n:2,7,4 @n:5,7; @n:2,5,8 @n:2,7,8 @n:2,7,4 is_causal=b1; @n:2,5,8 @n:2,7,8 @n:2,7,4 scale=f0.1; @c:1,16,16 @c:1,16,16 @n:1,16,16 @b:16,16; @n:6,5,8 @n:2,7,8 @n:2,7,4 enable_gqa=b1; @n:4,3,8 @n:1,7,8 @n:2,7,4 @b:3,7 enable_gqa=b1", FLOATS, .define = define_attention, .ulps = 24, .half = 0x1p-6, .grad_ulps = 400, .slope_scale = 1, .flags = ORACLE_ZERO | ORACLE_GRAD},
    {"layer_norm", "@n:5,9 l9; @n:2,3,4 l3,4 @p:3,4 @n:3,4; @n:4,9 l9 @p:9; @e:2,4 l4", FLOATS, .define = define_layer_norm, .back = back_layer_norm, NORMS, .flags = ORACLE_SCALED | ORACLE_ZERO},
    {"rms_norm", "@n:5,9 l9; @n:2,3,4 l3,4 @p:3,4; @n:4,9 l9 eps=f0.001", FLOATS, .define = define_layer_norm, NORMS, .flags = MANY},
    {"batch_norm", "@n:4,3,5 training=b1; @n:9,3 weight=@p:3 bias=@n:3 training=b1; @n:4,3,5 @n:3 @p:3; @n:4,3,2,2 @n:3 @p:3 @p:3 @n:3", FLOATS, .define = define_batch_norm, NORMS, .flags = MANY},
    {"group_norm", "@n:2,6,5 i3; @n:2,6,5 i2 @p:6 @n:6; @n:3,12 i2", FLOATS, .define = define_group_norm, .back = back_group_norm, NORMS, .flags = ORACLE_SCALED | ORACLE_ZERO},
    {"instance_norm", "@n:2,3,9; @n:2,3,9 weight=@p:3 bias=@n:3", FLOATS, .define = define_instance_norm, .back = back_instance_norm, NORMS, .flags = ORACLE_SCALED | ORACLE_ZERO},
};
/* clang-format on */

const struct oracle_table oracle_nn = {rows, ARRAY_LEN(rows)};
