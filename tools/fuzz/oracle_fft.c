/* The oracle: Fourier transforms, by their sums. Complex numbers are pairs
 * along the last axis. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

struct number {
    long double re, im;
};

/* e^(2 pi i k / n); k may be negative. */
static struct number
root(int64_t k, int64_t n)
{
    long double angle = 2 * acosl(-1) * (long double)(k % n) / (long double)n;

    return (struct number){cosl(angle), sinl(angle)};
}

/* sum_j v[j] e^(sign 2 pi i j k / n); *size, the sum of magnitudes. */
static struct number
transform(const struct number *v, int64_t n, int64_t k, int sign,
          long double *size)
{
    struct number sum = {0, 0};
    int64_t j;

    *size = 0;
    for (j = 0; j < n; j++) {
        struct number w = root(sign * j * k, n);
        sum.re += v[j].re * w.re - v[j].im * w.im;
        sum.im += v[j].re * w.im + v[j].im * w.re;
        *size += fabsl(v[j].re) + fabsl(v[j].im);
    }
    return sum;
}

static long double
norm_of(const char *norm, bool inverse, int64_t n)
{
    if (norm[0] == 'o')
        return 1 / sqrtl((long double)n);
    return inverse == (norm[0] == 'b') ? 1 / (long double)n : 1;
}

/* ---- along an axis ---- */

struct pass {
    bool real_in, real_out, inverse;
    int64_t n, n_in, n_out; /* of the transform; numbers taken and given */
    size_t before, behind;
    long double norm;
};

/* One run of numbers: cut or with zeros behind. */
static void
take_run(const struct pass *p, const struct oracle_array *x, size_t i, size_t j,
         struct number *v)
{
    int64_t k, have = p->n_in, n = p->real_out ? p->n / 2 + 1 : p->n;
    size_t at;

    memset(v, 0, (size_t)p->n * sizeof(*v));
    for (k = 0; k < n && k < have; k++) {
        at = (i * (size_t)have + (size_t)k) * p->behind + j;
        v[k].re = p->real_in ? x->v[at] : x->v[2 * at];
        v[k].im = p->real_in ? 0 : x->v[2 * at + 1];
    }
    if (!p->real_out)
        return;
    v[0].im = 0; /* the others are the conjugates of these */
    if (p->n % 2 == 0)
        v[p->n / 2].im = 0;
    for (k = n; k < p->n; k++) {
        v[k].re = v[p->n - k].re;
        v[k].im = -v[p->n - k].im;
    }
}

static void
define_fft(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    const char *name = o->row->name;
    struct pass p = {.real_in = name[0] == 'r',
                     .real_out = name[0] == 'i' && name[1] == 'r',
                     .inverse = name[0] == 'i'};
    struct oracle_array outer = *x, *out;
    int64_t d[BELL_MAX_RANK], k;
    struct number *v;
    uint32_t axis;
    size_t along, i, j;

    outer.rank -= !p.real_in;
    axis = oracle_axis(o, 2, &outer);
    oracle_split(&outer, axis, &p.before, &along, &p.behind);
    p.n_in = (int64_t)along;
    p.n = o->a[1].given ? oracle_int(o, 1)
          : p.real_out  ? 2 * (p.n_in - 1)
                        : p.n_in;
    p.n_out = p.real_in ? p.n / 2 + 1 : p.n;
    p.norm = norm_of(o->a[3].str, p.inverse, p.n);
    memcpy(d, outer.d, sizeof(d));
    d[axis] = p.n_out;
    d[outer.rank] = 2;
    out = oracle_out(o, oracle_float(x->dtype), d, outer.rank + !p.real_out);
    oracle_scales(o, out);
    v = arena_calloc(o->arena, (size_t)p.n + 1, sizeof(*v));
    for (i = 0; i < p.before; i++) {
        for (j = 0; j < p.behind; j++) {
            take_run(&p, x, i, j, v);
            for (k = 0; k < p.n_out; k++) {
                size_t at = (i * (size_t)p.n_out + (size_t)k) * p.behind + j;
                long double size;
                struct number sum =
                    transform(v, p.n, k, p.inverse ? 1 : -1, &size);
                size_t step = p.real_out ? 1 : 2;
                out->v[step * at] = sum.re * p.norm;
                out->scale[step * at] = size * p.norm;
                if (p.real_out)
                    continue;
                out->v[2 * at + 1] = sum.im * p.norm;
                out->scale[2 * at + 1] = size * p.norm;
            }
        }
    }
}

/* ---- of windows ---- */

struct fft_windows {
    int64_t n_fft, hop, n_bins, margin; /* margin: mirrored at each end */
    long double *window;                /* n_fft of them, zeros around */
    long double norm;                   /* of the forward transform */
};

static struct fft_windows
take_windows(const struct oracle *o)
{
    struct fft_windows w = {.n_fft = oracle_int(o, 1)};
    int64_t length = o->a[3].given ? oracle_int(o, 3) : w.n_fft;
    int64_t first = (w.n_fft - length) / 2, k;

    w.hop = o->a[2].given ? oracle_int(o, 2) : w.n_fft / 4;
    w.n_bins = oracle_flag(o, 7) ? w.n_fft / 2 + 1 : w.n_fft;
    w.margin = oracle_flag(o, 5) ? w.n_fft / 2 : 0;
    w.norm = oracle_flag(o, 6) ? 1 / sqrtl((long double)w.n_fft) : 1;
    w.window = arena_calloc(o->arena, (size_t)w.n_fft, sizeof(*w.window));
    for (k = 0; k < length; k++)
        w.window[first + k] = oracle_t(o, 4) ? oracle_t(o, 4)->v[k] : 1;
    return w;
}

/* Element k of a row of n, mirrored beyond its ends. */
static long double
mirrored(const long double *v, int64_t n, int64_t k)
{
    k = k < 0 ? -k : k;
    return v[k < n ? k : 2 * (n - 1) - k];
}

static void
define_stft(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct fft_windows w = take_windows(o);
    int64_t n = x->d[x->rank - 1], count, d[BELL_MAX_RANK], f, k, j;
    size_t rows = x->n / (size_t)n, r;
    struct oracle_array *out;
    struct number *v;

    count = (n + 2 * w.margin - w.n_fft) / w.hop + 1;
    memcpy(d, x->d, sizeof(d));
    d[x->rank - 1] = w.n_bins;
    d[x->rank] = count;
    d[x->rank + 1] = 2;
    out = oracle_out(o, oracle_float(x->dtype), d, x->rank + 2);
    oracle_scales(o, out);
    v = arena_calloc(o->arena, (size_t)w.n_fft, sizeof(*v));
    for (r = 0; r < rows; r++) {
        for (f = 0; f < count; f++) {
            for (j = 0; j < w.n_fft; j++)
                v[j].re = w.window[j] * mirrored(x->v + r * (size_t)n, n,
                                                 f * w.hop + j - w.margin);
            for (k = 0; k < w.n_bins; k++) {
                size_t at =
                    ((r * (size_t)w.n_bins + (size_t)k) * (size_t)count +
                     (size_t)f) *
                    2;
                long double size;
                struct number sum = transform(v, w.n_fft, k, -1, &size);
                out->v[at] = sum.re * w.norm;
                out->v[at + 1] = sum.im * w.norm;
                out->scale[at] = out->scale[at + 1] = size * w.norm;
            }
        }
    }
}

/* The numbers of window f. */
static void
take_window(const struct fft_windows *w, const struct oracle_array *x, size_t r,
            int64_t f, int64_t count, struct number *v)
{
    int64_t k;

    for (k = 0; k < w->n_bins; k++) {
        size_t at =
            ((r * (size_t)w->n_bins + (size_t)k) * (size_t)count + (size_t)f) *
            2;
        v[k].re = x->v[at];
        v[k].im = x->v[at + 1];
    }
    if (w->n_bins == w->n_fft)
        return;
    v[0].im = 0;
    if (w->n_fft % 2 == 0)
        v[w->n_fft / 2].im = 0;
    for (k = w->n_bins; k < w->n_fft; k++) {
        v[k].re = v[w->n_fft - k].re;
        v[k].im = -v[w->n_fft - k].im;
    }
}

/* Sums of windows times their transforms, over the sums of their squares. */
static void
define_istft(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct fft_windows w = take_windows(o);
    int64_t count = x->d[x->rank - 2], all, n, d[BELL_MAX_RANK], f, j;
    size_t rows = x->n / (size_t)(w.n_bins * count * 2), r;
    long double *sum, *size, *squares;
    struct oracle_array *out;
    struct number *v;

    all = (count - 1) * w.hop + w.n_fft;
    n = o->a[8].given ? oracle_int(o, 8) : all - 2 * w.margin;
    memcpy(d, x->d, sizeof(d));
    d[x->rank - 3] = n;
    out = oracle_out(o, oracle_float(x->dtype), d, x->rank - 2);
    oracle_scales(o, out);
    v = arena_calloc(o->arena, (size_t)w.n_fft, sizeof(*v));
    sum = arena_calloc(o->arena, (size_t)(3 * all), sizeof(*sum));
    size = sum + all;
    squares = size + all;
    for (r = 0; r < rows; r++) {
        memset(sum, 0, (size_t)(3 * all) * sizeof(*sum));
        for (f = 0; f < count; f++) {
            take_window(&w, x, r, f, count, v);
            for (j = 0; j < w.n_fft; j++) {
                long double own, by = w.window[j];
                struct number t = transform(v, w.n_fft, j, 1, &own);
                sum[f * w.hop + j] += by * t.re / (long double)w.n_fft / w.norm;
                size[f * w.hop + j] +=
                    fabsl(by) * own / (long double)w.n_fft / w.norm;
                squares[f * w.hop + j] += by * by;
            }
        }
        for (j = 0; j < n; j++) {
            int64_t at = j + w.margin;
            size_t to = r * (size_t)n + (size_t)j;
            if (at >= all)
                continue;
            out->v[to] = sum[at] / squares[at];
            out->scale[to] = fabsl(size[at] / squares[at]);
        }
    }
}

#define FLOATS "hwfd"
#define MANY   ORACLE_SCALED | ORACLE_ZERO | ORACLE_GRAD
#define COMMON .ulps = 24, .grad_ulps = 64, .flags = MANY
#define PAIRS                                                                  \
    "@n:8,2; @n:7,2; @n:3,4,2; @n:3,4,2 dim=i0; @n:2,3,5,2 dim=i-2; @n:6,2 "   \
    "i4; @n:6,2 i9 norm=s'ortho'; @n:1,2; @n:5,2 norm=s'forward'; @n:16,2"
#define REALS                                                                  \
    "@n:8; @n:7; @n:3,4; @n:3,4 dim=i0; @n:2,3,5 dim=i-2; @n:6 i4; @n:6 i9 "   \
    "norm=s'ortho'; @n:1; @n:5 norm=s'forward'; @n:16"
#define INVERSE                                                                \
    "@n:5,2; @n:4,2 i7; @n:3,4,2; @n:3,4,2 dim=i0; @n:2,3,5,2 dim=i-2; "       \
    "@n:6,2 i4; @n:3,2 i9 norm=s'ortho'; @n:2,2; @n:5,2 norm=s'forward'; "     \
    "@n:1,2 i1"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"fft", PAIRS, FLOATS "i", .define = define_fft, COMMON},
    {"ifft", PAIRS, FLOATS "i", .define = define_fft, COMMON},
    {"rfft", REALS, FLOATS "i", .define = define_fft, COMMON},
    {"irfft", INVERSE, FLOATS "i", .define = define_fft, COMMON},
    {"stft", "@n:20 i8; @n:2,20 i8 i3; @n:20 i8 i4 i6 @p:6; @n:20 i7 center=b0 hop_length=i2; @n:20 i8 normalized=b1; @n:20 i8 onesided=b0; @n:9 i4 i2 window=@p:4 normalized=b1", FLOATS, .define = define_stft, COMMON},
    {"istft", "@n:5,4,2 i8 i2 i8 @p:8; @n:2,5,4,2 i8 i3; @n:8,4,2 i8 onesided=b0; @n:5,4,2 i8 i2 normalized=b1; @n:4,3,2 i7 i2 center=b0; @n:5,4,2 i8 length=i5; @n:5,4,2 i8 i2 i6 @p:6 length=i6", FLOATS, .define = define_istft, COMMON},
};
/* clang-format on */

const struct oracle_table oracle_fft = {rows, ARRAY_LEN(rows)};
