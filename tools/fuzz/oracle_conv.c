/* The oracle: convolution, pooling, padding, resampling, regions. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

#define MAX_AXES 3

/* ---- windows ---- */

/* Windows over the last n axes of x, before which there is what is left. */
struct conv_windows {
    uint32_t n;
    int64_t size[MAX_AXES], kernel[MAX_AXES], stride[MAX_AXES];
    int64_t before[MAX_AXES], after[MAX_AXES], dilation[MAX_AXES];
    int64_t out[MAX_AXES];
};

/* A function's name ends in "1d" to "3d". */
static uint32_t
count_axes(const struct oracle *o)
{
    return (uint32_t)(o->row->name[strlen(o->row->name) - 2] - '0');
}

/* Parameter k, one number for all axes or one each; `none` where there is no
 * such. */
static void
read_each(const struct oracle *o, uint32_t k, uint32_t n, int64_t none,
          int64_t *out)
{
    uint32_t given, i;
    const int64_t *list = oracle_ints(o, k, &given);

    for (i = 0; i < n; i++)
        out[i] = given == 0 ? none : list[given == 1 ? 0 : i];
}

static int64_t
count_all(const int64_t *d, uint32_t n)
{
    int64_t all = 1;
    uint32_t i;

    for (i = 0; i < n; i++)
        all *= d[i];
    return all;
}

/* The number of the element that window `at` has at `offset`, among those of
 * the last axes; -1 in the border. */
static int64_t
find_element(const struct conv_windows *w, const int64_t *at,
             const int64_t *offset)
{
    int64_t number = 0, k;
    uint32_t i;

    for (i = 0; i < w->n; i++) {
        k = at[i] * w->stride[i] + offset[i] * w->dilation[i] - w->before[i];
        if (k < 0 || k >= w->size[i])
            return -1;
        number = number * w->size[i] + k;
    }
    return number;
}

/* ---- convolution ---- */

/* Parameter k of a convolution: numbers, 'valid', 'same' or two for each axis,
 * the last one first. */
static void
read_padding(const struct oracle *o, uint32_t k, struct conv_windows *w)
{
    uint32_t given, i;
    const int64_t *list;

    for (i = 0; o->a[k].kind == BELL_VALUE_STR && i < w->n; i++) {
        int64_t all = w->dilation[i] * (w->kernel[i] - 1);
        if (o->a[k].str[0] == 'v')
            all = 0;
        w->before[i] = all / 2;
        w->after[i] = all - all / 2;
    }
    if (o->a[k].kind == BELL_VALUE_STR)
        return;
    list = oracle_ints(o, k, &given);
    for (i = 0; i < w->n; i++) {
        uint32_t pair = 2 * (w->n - 1 - i);
        w->before[i] =
            given == 2 * w->n ? list[pair] : list[given == 1 ? 0 : i];
        w->after[i] = given == 2 * w->n ? list[pair + 1] : w->before[i];
    }
}

/* The bias of each channel; `area` elements are a channel's. */
static void
add_bias(struct oracle_array *out, const struct oracle_array *bias, size_t area,
         size_t channels)
{
    size_t k;

    for (k = 0; bias && k < out->n; k++)
        oracle_add_term(out, k, bias->v[k / area % channels]);
}

/* Parameters 3: stride, then padding and dilation at `k_padding`,
 * `k_dilation`. */
static void
read_conv(const struct oracle *o, uint32_t k_padding, uint32_t k_dilation,
          struct conv_windows *w)
{
    const struct oracle_array *x = oracle_t(o, 0), *weight = oracle_t(o, 1);

    w->n = count_axes(o);
    memcpy(w->size, x->d + x->rank - w->n, w->n * sizeof(*w->size));
    memcpy(w->kernel, weight->d + 2, w->n * sizeof(*w->kernel));
    read_each(o, 3, w->n, 1, w->stride);
    read_each(o, k_dilation, w->n, 1, w->dilation);
    read_padding(o, k_padding, w);
}

static void
define_conv(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *w = oracle_t(o, 1);
    struct conv_windows s;
    int64_t d[BELL_MAX_RANK], at[MAX_AXES] = {0}, offset[MAX_AXES] = {0};
    size_t images, in, per = (size_t)w->d[1], n_out = (size_t)w->d[0], cell = 0;
    size_t each = n_out / (size_t)oracle_int(o, 6), area, n_taps, b, c, i;
    struct oracle_array *out;
    uint32_t lead, a;

    read_conv(o, 4, 5, &s);
    lead = x->rank - s.n - 1;
    images = lead ? (size_t)x->d[0] : 1;
    in = (size_t)x->d[lead];
    d[0] = (int64_t)images;
    d[lead] = (int64_t)n_out;
    for (a = 0; a < s.n; a++)
        d[lead + 1 + a] = (s.size[a] + s.before[a] + s.after[a] -
                           s.dilation[a] * (s.kernel[a] - 1) - 1) /
                              s.stride[a] +
                          1;
    memcpy(s.out, d + lead + 1, s.n * sizeof(*d));
    out = oracle_out(o, x->dtype, d, x->rank);
    oracle_scales(o, out);
    area = (size_t)count_all(s.size, s.n);
    n_taps = (size_t)count_all(s.kernel, s.n);
    for (b = 0; b < images && out->n; b++) {
        for (c = 0; c < n_out; c++) {
            do {
                size_t tap = 0;
                do {
                    int64_t k = find_element(&s, at, offset);
                    for (i = 0; i < per && k >= 0; i++)
                        oracle_add_term(
                            out, cell,
                            x->v[(b * in + c / each * per + i) * area +
                                 (size_t)k] *
                                w->v[(c * per + i) * n_taps + tap]);
                    tap++;
                } while (oracle_next(offset, s.kernel, s.n));
                cell++;
            } while (oracle_next(at, s.out, s.n));
        }
    }
    add_bias(out, oracle_t(o, 2), (size_t)count_all(s.out, s.n), n_out);
}

/* Every element of x is spread over a window of the result. */
static void
define_conv_transpose(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *w = oracle_t(o, 1);
    struct conv_windows s, t;
    int64_t d[BELL_MAX_RANK], at[MAX_AXES] = {0}, offset[MAX_AXES] = {0};
    int64_t extra[MAX_AXES];
    size_t groups = (size_t)oracle_int(o, 6), per = (size_t)w->d[1], images, in;
    size_t n_out = per * groups, area, n_taps, b, c, i, from;
    struct oracle_array *out;
    uint32_t lead, a;

    read_conv(o, 4, 7, &s);
    read_each(o, 5, s.n, 0, extra);
    lead = x->rank - s.n - 1;
    images = lead ? (size_t)x->d[0] : 1;
    in = (size_t)x->d[lead];
    d[0] = (int64_t)images;
    d[lead] = (int64_t)n_out;
    for (a = 0; a < s.n; a++)
        d[lead + 1 + a] = (s.size[a] - 1) * s.stride[a] - 2 * s.before[a] +
                          s.dilation[a] * (s.kernel[a] - 1) + 1 + extra[a];
    out = oracle_out(o, x->dtype, d, x->rank);
    oracle_scales(o, out);
    t = s; /* windows over the result */
    memcpy(t.size, d + lead + 1, s.n * sizeof(*d));
    area = (size_t)count_all(t.size, s.n);
    n_taps = (size_t)count_all(s.kernel, s.n);
    for (b = 0; b < images && x->n; b++) {
        for (c = 0; c < in; c++) {
            from = (b * in + c) * (size_t)count_all(s.size, s.n);
            do {
                size_t tap = 0;
                do {
                    int64_t k = find_element(&t, at, offset);
                    for (i = 0; i < per && k >= 0; i++)
                        oracle_add_term(
                            out,
                            (b * n_out + c / (in / groups) * per + i) * area +
                                (size_t)k,
                            x->v[from] * w->v[(c * per + i) * n_taps + tap]);
                    tap++;
                } while (oracle_next(offset, s.kernel, s.n));
                from++;
            } while (oracle_next(at, s.size, s.n));
        }
    }
    add_bias(out, oracle_t(o, 2), area, n_out);
}

/* ---- pooling ---- */

/* Parameters 1, 2, 3: kernel_size, stride, padding; whether a partial window
 * counts. */
static struct oracle_array *
read_pool(struct oracle *o, bool ceils, struct conv_windows *s)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK], space;
    uint32_t i;

    s->n = count_axes(o);
    memcpy(d, x->d, sizeof(d));
    memcpy(s->size, x->d + x->rank - s->n, s->n * sizeof(*s->size));
    read_each(o, 1, s->n, 0, s->kernel);
    read_each(o, 2, s->n, 0, s->stride);
    read_each(o, 3, s->n, 0, s->before);
    for (i = 0; i < s->n; i++)
        s->dilation[i] = 1;
    if (o->row->name[0] == 'm')
        read_each(o, 4, s->n, 1, s->dilation);
    for (i = 0; i < s->n; i++) {
        if (s->stride[i] == 0)
            s->stride[i] = s->kernel[i];
        s->after[i] = s->before[i];
        space = s->size[i] + 2 * s->before[i] -
                s->dilation[i] * (s->kernel[i] - 1) - 1;
        s->out[i] = space / s->stride[i] + 1;
        if (ceils && space % s->stride[i] &&
            s->out[i] * s->stride[i] < s->size[i] + s->before[i])
            s->out[i]++;
        d[x->rank - s->n + i] = s->out[i];
    }
    return oracle_out(o, x->dtype, d, x->rank);
}

static void
define_max_pool(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t at[MAX_AXES] = {0}, offset[MAX_AXES] = {0}, k, where;
    struct oracle_array *out, *index = NULL;
    struct conv_windows s;
    size_t area, cell = 0, from;

    out = read_pool(o, oracle_flag(o, 5), &s);
    if (oracle_flag(o, 6))
        index = oracle_out(o, BELL_INT64, out->d, out->rank);
    area = (size_t)count_all(s.size, s.n);
    for (from = 0; from < x->n && out->n; from += area) {
        do {
            where = -1;
            do {
                k = find_element(&s, at, offset);
                if (k >= 0 &&
                    (where < 0 || isnan(x->v[from + (size_t)k]) ||
                     x->v[from + (size_t)k] > x->v[from + (size_t)where]))
                    where = k;
            } while (oracle_next(offset, s.kernel, s.n));
            out->v[cell] = x->v[from + (size_t)where];
            if (index)
                index->v[cell] = where;
            cell++;
        } while (oracle_next(at, s.out, s.n));
    }
}

/* Equal ones share what comes to their window. */
static void
back_max_pool(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = o->adjoint[0];
    int64_t at[MAX_AXES] = {0}, offset[MAX_AXES] = {0}, k;
    struct oracle_array *g = oracle_like(o, x->dtype, x);
    size_t area, cell = 0, from;
    struct conv_windows s;

    o->gradient[0] = g;
    oracle_scales(o, g);
    o->n_out = 0;
    define_max_pool(o);
    read_pool(o, oracle_flag(o, 5), &s);
    area = (size_t)count_all(s.size, s.n);
    for (from = 0; y && from < x->n && y->n; from += area) {
        do {
            long double most = o->out[0]->v[cell];
            int pass, n_equal = 0;
            for (pass = 0; pass < 2; pass++) {
                do {
                    k = find_element(&s, at, offset);
                    if (k < 0)
                        continue;
                    if (isnan(most))
                        g->v[from + (size_t)k] = ORACLE_ANY;
                    else if (x->v[from + (size_t)k] == most && pass == 0)
                        n_equal++;
                    else if (x->v[from + (size_t)k] == most &&
                             g->v[from + (size_t)k] != ORACLE_ANY)
                        oracle_add_term(g, from + (size_t)k,
                                        y->v[cell] / n_equal);
                } while (oracle_next(offset, s.kernel, s.n));
            }
            cell++;
        } while (oracle_next(at, s.out, s.n));
    }
}

static void
define_avg_pool(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t at[MAX_AXES] = {0}, offset[MAX_AXES] = {0}, k, j;
    struct oracle_array *out;
    struct conv_windows s;
    size_t area, cell = 0, from;

    out = read_pool(o, oracle_flag(o, 4), &s);
    oracle_scales(o, out);
    area = (size_t)count_all(s.size, s.n);
    for (from = 0; from < x->n && out->n; from += area) {
        do {
            int64_t n_in = 0, n_all = 0;
            do {
                uint32_t i;
                bool counts = true; /* with its border, not what ceils add */
                for (i = 0; i < s.n; i++) {
                    j = at[i] * s.stride[i] + offset[i] - s.before[i];
                    counts &= j < s.size[i] + s.after[i];
                }
                n_all += counts;
                k = find_element(&s, at, offset);
                if (k < 0)
                    continue;
                n_in++;
                oracle_add_term(out, cell, x->v[from + (size_t)k]);
            } while (oracle_next(offset, s.kernel, s.n));
            n_all = oracle_flag(o, 5) ? n_all : n_in;
            out->v[cell] /= n_all;
            out->scale[cell++] /= n_all;
        } while (oracle_next(at, s.out, s.n));
    }
}

static void
define_adaptive_pool(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    int64_t d[BELL_MAX_RANK], at[MAX_AXES] = {0}, first[MAX_AXES], n[MAX_AXES];
    int64_t offset[MAX_AXES] = {0}, out_size[MAX_AXES];
    uint32_t axes = count_axes(o), lead = x->rank - axes, i;
    struct oracle_array *out;
    size_t cell = 0, from, area;

    memcpy(d, x->d, sizeof(d));
    read_each(o, 1, axes, 1, out_size);
    memcpy(d + lead, out_size, axes * sizeof(*d));
    out = oracle_out(o, x->dtype, d, x->rank);
    oracle_scales(o, out);
    area = (size_t)count_all(x->d + lead, axes);
    for (from = 0; from < x->n && out->n; from += area) {
        do {
            for (i = 0; i < axes; i++) {
                int64_t size = x->d[lead + i], m = out_size[i];
                first[i] = at[i] * size / m;
                n[i] = ((at[i] + 1) * size + m - 1) / m - first[i];
            }
            do {
                size_t k = 0;
                for (i = 0; i < axes; i++)
                    k = k * (size_t)x->d[lead + i] +
                        (size_t)(first[i] + offset[i]);
                oracle_add_term(out, cell, x->v[from + k]);
            } while (oracle_next(offset, n, axes));
            out->v[cell] /= count_all(n, axes);
            out->scale[cell++] /= count_all(n, axes);
        } while (oracle_next(at, out_size, axes));
    }
}

/* input, indices, kernel_size, stride, padding, output_size */
static void
define_max_unpool(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *index = oracle_t(o, 1);
    int64_t d[BELL_MAX_RANK], kernel[MAX_AXES], stride[MAX_AXES];
    int64_t padding[MAX_AXES];
    uint32_t n = count_axes(o), lead = x->rank - n, given, i;
    const int64_t *sizes = oracle_ints(o, 5, &given);
    struct oracle_array *out;
    size_t k, from, to;

    read_each(o, 2, n, 0, kernel);
    read_each(o, 3, n, 0, stride);
    read_each(o, 4, n, 0, padding);
    memcpy(d, x->d, sizeof(d));
    for (i = 0; i < n; i++) {
        if (stride[i] == 0)
            stride[i] = kernel[i];
        d[lead + i] = given ? sizes[given - n + i]
                            : (x->d[lead + i] - 1) * stride[i] -
                                  2 * padding[i] + kernel[i];
    }
    out = oracle_out(o, x->dtype, d, x->rank);
    from = (size_t)count_all(x->d + lead, n);
    to = (size_t)count_all(d + lead, n);
    for (k = 0; k < x->n; k++)
        out->v[k / from * to + (size_t)index->v[k]] = x->v[k];
}

/* ---- borders, blocks ---- */

/* Where element k of a padded axis comes from, -1: from nowhere. pads[2]: what
 * is cut on both sides goes round no more. */
static int64_t
find_source(int64_t k, int64_t size, char mode, const int64_t *pads)
{
    int64_t first = pads[0] < 0 ? -pads[0] : 0;
    int64_t left = size - first - (pads[1] < 0 ? -pads[1] : 0);

    if (mode == 'i')
        return first + ((k - first) % left + left) % left;
    if (k >= 0 && k < size)
        return k;
    switch (mode) {
    case 'c': /* constant and circular differ in their next letter */
        return -1;
    case 'r':
        return k < 0 ? -k : 2 * (size - 1) - k;
    default: /* replicate */
        return k < 0 ? 0 : size - 1;
    }
}

/* input, pad, mode, value */
static void
define_pad(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    const char *mode = o->a[2].str;
    char how = strcmp(mode, "circular") == 0    ? 'i'
               : strcmp(mode, "replicate") == 0 ? 'e'
                                                : mode[0];
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0}, from;
    uint32_t n, i;
    const int64_t *pads = oracle_ints(o, 1, &n);
    struct oracle_array *out;
    size_t cell = 0;

    memcpy(d, x->d, sizeof(d));
    for (i = 0; i < n; i++)
        d[x->rank - 1 - i / 2] += pads[i];
    out = oracle_out(o, x->dtype, d, x->rank);
    if (out->n == 0)
        return;
    do {
        size_t k = 0;
        bool is_in = true;
        for (i = 0; i < x->rank; i++) {
            uint32_t pair = 2 * (x->rank - 1 - i);
            const int64_t none[2] = {0, 0};
            const int64_t *both = pair < n ? pads + pair : none;
            from = find_source(at[i] - both[0], x->d[i], how, both);
            is_in &= from >= 0;
            k = k * (size_t)x->d[i] + (size_t)(from < 0 ? 0 : from);
        }
        out->v[cell++] =
            is_in ? x->v[k]
                  : oracle_convert(BELL_FLOAT64, x->dtype, oracle_num(o, 3));
    } while (oracle_next(at, d, x->rank));
}

/* x[.., c f f, h, w] to [.., c, h f, w f], or the way back. */
static void
define_shuffle(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool back = strstr(o->row->name, "un") != NULL;
    int64_t f = oracle_int(o, 1), d[BELL_MAX_RANK], *size = d + x->rank - 3;
    int64_t h, w, c, p, q, y, z, area;
    struct oracle_array *out;
    size_t from, big, small;

    memcpy(d, x->d, sizeof(d));
    size[0] = back ? size[0] * f * f : size[0] / f / f;
    size[1] = back ? size[1] / f : size[1] * f;
    size[2] = back ? size[2] / f : size[2] * f;
    out = oracle_out(o, x->dtype, d, x->rank);
    c = back ? x->d[x->rank - 3] : size[0];
    h = back ? size[1] : x->d[x->rank - 2];
    w = back ? size[2] : x->d[x->rank - 1];
    area = c * f * f * h * w;
    for (from = 0; from < x->n; from += (size_t)area) {
        int64_t k;
        for (k = 0; k < area; k++) {
            z = k % w;
            y = k / w % h;
            q = k / w / h % f;
            p = k / w / h / f % f;
            small = from + (size_t)k;
            big =
                from + (size_t)(((k / w / h / f / f * h + y) * f + p) * w * f +
                                z * f + q);
            if (back)
                out->v[small] = x->v[big];
            else
                out->v[big] = x->v[small];
        }
    }
}

/* ---- resampling ---- */

/* Keys' kernel with constant a. */
static long double
cubic(long double x, long double a)
{
    x = fabsl(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int64_t
limit(int64_t k, int64_t size)
{
    return k < 0 ? 0 : k >= size ? size - 1 : k;
}

struct resizing {
    const char *mode;
    bool align, alias;
    long double scale; /* given, or 0 */
    bool bytes;
};

/* The weight of each of `size` elements in result i of n. */
static void
weigh(const struct resizing *r, int64_t size, int64_t n, int64_t i,
      long double *weight)
{
    long double step =
        r->scale > 0 ? 1 / r->scale : (long double)size / (long double)n;
    long double at, wide, sum = 0;
    bool is_cubic = r->mode[0] == 'b' && r->mode[2] == 'c';
    int64_t k, first;

    memset(weight, 0, (size_t)size * sizeof(*weight));
    if (strncmp(r->mode, "nearest", 7) == 0) {
        at = r->mode[7] ? (i + 0.5L) * step : i * step;
        weight[limit((int64_t)floorl(at), size)] = 1;
        return;
    }
    if (r->align)
        step = n > 1 ? (long double)(size - 1) / (long double)(n - 1) : 0;
    if (r->alias) {
        wide = fmaxl(step, 1);
        at = (i + 0.5L) * step;
        for (k = 0; k < size; k++) {
            long double x = fabsl((long double)k + 0.5L - at) / wide;
            weight[k] = is_cubic ? cubic(x, -0.5L) : fmaxl(1 - x, 0);
            sum += weight[k];
        }
        for (k = 0; k < size; k++)
            weight[k] /= sum;
        return;
    }
    at = r->align ? i * step : (i + 0.5L) * step - 0.5L;
    if (!is_cubic)
        at = fmaxl(at, 0);
    first = (int64_t)floorl(at);
    for (k = first - 1; k < first + 3; k++) {
        long double x = fabsl(at - (long double)k);
        weight[limit(k, size)] += is_cubic ? cubic(x, -0.75L) : fmaxl(1 - x, 0);
    }
}

/* Means of parts that overlap. */
static void
weigh_area(int64_t size, int64_t n, int64_t i, long double *weight)
{
    int64_t first = i * size / n, end = ((i + 1) * size + n - 1) / n, k;

    memset(weight, 0, (size_t)size * sizeof(*weight));
    for (k = first; k < end; k++)
        weight[k] = 1 / (long double)(end - first);
}

/* The same in parts of a power of 2, whole ones, of which the greatest of all
 * results has 15 bits: as PyTorch's. */
static void
weigh_whole(const struct resizing *r, int64_t size, int64_t n, int64_t i,
            long double *weight)
{
    long double most = 0, unit = 1;
    int64_t o, k;

    for (o = 0; o < n; o++) {
        weigh(r, size, n, o, weight);
        for (k = 0; k < size; k++)
            most = fmaxl(most, weight[k]);
    }
    while (0.5L + most * unit * 2 < 32768)
        unit *= 2;
    weigh(r, size, n, i, weight);
    for (k = 0; k < size; k++)
        weight[k] =
            copysignl(floorl(fabsl(weight[k]) * unit + 0.5L), weight[k]) / unit;
}

/* One axis of u by its weights. */
static struct oracle_array *
resize_axis(struct oracle *o, const struct oracle_array *u, uint32_t axis,
            int64_t n, const struct resizing *r)
{
    int64_t d[BELL_MAX_RANK], i, size = u->d[axis], k;
    size_t before, along, behind, a, b;
    struct oracle_array *out;
    long double *w = arena_calloc(o->arena, (size_t)size + 1, sizeof(*w));

    memcpy(d, u->d, sizeof(d));
    d[axis] = n;
    out = oracle_new(o, u->dtype, d, u->rank);
    oracle_scales(o, out);
    oracle_split(u, axis, &before, &along, &behind);
    for (i = 0; i < n; i++) {
        if (r->mode[0] == 'a')
            weigh_area(size, n, i, w);
        else if (r->bytes)
            weigh_whole(r, size, n, i, w);
        else
            weigh(r, size, n, i, w);
        for (a = 0; a < before; a++) {
            for (b = 0; b < behind; b++) {
                size_t cell = (a * (size_t)n + (size_t)i) * behind + b;
                for (k = 0; k < size; k++) {
                    size_t from = (a * along + (size_t)k) * behind + b;
                    if (w[k] == 0)
                        continue;
                    out->v[cell] += w[k] * u->v[from];
                    out->scale[cell] +=
                        fabsl(w[k] * (u->scale ? u->scale[from] : u->v[from]));
                }
            }
        }
    }
    return out;
}

/* input, size, scale_factor, mode, align_corners, recompute_scale_factor,
 * antialias */
static void
define_interpolate(struct oracle *o)
{
    struct resizing r = {o->a[3].str, oracle_flag(o, 4), oracle_flag(o, 6), 0,
                         false};
    struct oracle_array *u = oracle_t(o, 0);
    const struct oracle_arg *factor = &o->a[2];
    uint32_t given, axis, i;
    const int64_t *sizes = oracle_ints(o, 1, &given);
    size_t k;

    r.bytes = u->dtype == BELL_UINT8 && r.mode[0] != 'n' && r.mode[0] != 'a';
    for (i = 2; i < u->rank; i++) {
        int64_t n = 0;
        /* of uint8 the last axis first, and each is rounded, halves up */
        axis = r.bytes ? u->rank + 1 - i : i;
        r.scale = 0;
        if (given) {
            n = sizes[given == 1 ? 0 : axis - 2];
        } else {
            r.scale = factor->kind == BELL_VALUE_LIST
                          ? factor->items[axis - 2].f
                          : factor->f;
            n = (int64_t)floorl((long double)u->d[axis] * r.scale);
        }
        if (oracle_flag(o, 5))
            r.scale = 0;
        u = resize_axis(o, u, axis, n, &r);
        for (k = 0; r.bytes && k < u->n; k++)
            u->v[k] = fminl(fmaxl(floorl(u->v[k] + 0.5L), 0), 255);
    }
    o->out[o->n_out++] = u;
}

/* ---- sampling at points ---- */

struct sampling {
    const char *mode, *padding;
    bool align;
};

static long double
reflect(long double at, long double low, long double high)
{
    long double span = high - low, rest;

    if (span == 0)
        return 0;
    at = fabsl(at - low);
    rest = fmodl(at, span);
    return fmodl(floorl(at / span), 2) == 0 ? low + rest : high - rest;
}

/* A place in the image; zeros are elsewhere. */
static long double
fold(const struct sampling *s, long double at, int64_t size)
{
    long double last = (long double)(size - 1);

    if (s->padding[0] == 'z')
        return at;
    if (s->padding[0] == 'r')
        at = s->align ? reflect(at, 0, last) : reflect(at, -0.5L, last + 0.5L);
    return at >= 0 ? fminl(at, last) : 0;
}

/* Adds up to four elements and weights of a point g of an axis. */
static uint32_t
find_taps(const struct sampling *s, long double g, int64_t size, int64_t *index,
          long double *weight)
{
    bool is_cubic = strcmp(s->mode, "bicubic") == 0;
    long double at, first;
    uint32_t n = is_cubic ? 4 : s->mode[0] == 'n' ? 1 : 2, i;

    g = isnan(g) ? -1 : g;
    at = s->align ? (g + 1) / 2 * (long double)(size - 1)
                  : ((g + 1) * (long double)size - 1) / 2;
    if (!is_cubic)
        at = fold(s, at, size);
    first = n == 1 ? rintl(at) : floorl(at) - (n == 4);
    for (i = 0; i < n; i++) {
        long double k = first + i;
        weight[i] = n == 1   ? 1
                    : n == 2 ? 1 - fabsl(at - k)
                             : cubic(at - k, -0.75L);
        if (is_cubic)
            k = fold(s, k, size);
        index[i] = k >= 0 && k < (long double)size ? (int64_t)k : -1;
    }
    return n;
}

/* input, grid, mode, padding_mode, align_corners */
static void
define_grid_sample(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *grid = oracle_t(o, 1);
    struct sampling s = {o->a[2].str, o->a[3].str, oracle_flag(o, 4)};
    int64_t d[BELL_MAX_RANK], index[MAX_AXES][4];
    long double weight[MAX_AXES][4];
    uint32_t axes = x->rank - 2, i, t, n = 1, all;
    size_t points, area, c, p, k;
    struct oracle_array *out;

    memcpy(d, x->d, sizeof(d));
    memcpy(d + 2, grid->d + 1, axes * sizeof(*d));
    out = oracle_out(o, x->dtype, d, x->rank);
    oracle_scales(o, out);
    points = (size_t)count_all(d + 2, axes);
    area = (size_t)count_all(x->d + 2, axes);
    for (p = 0; p < (size_t)x->d[0] * points; p++) {
        all = 1;
        for (i = 0; i < axes; i++, all *= n)
            n = find_taps(&s, grid->v[p * axes + axes - 1 - i], x->d[2 + i],
                          index[i], weight[i]);
        for (c = 0; c < (size_t)x->d[1]; c++) {
            size_t image = p / points * (size_t)x->d[1] + c;
            size_t cell = image * points + p % points;
            for (t = 0; t < all; t++) {
                long double w = 1;
                uint32_t rest = t;
                bool is_in = true;
                for (i = 0, k = 0; i < axes; i++, rest /= n) {
                    is_in &= index[i][rest % n] >= 0;
                    k = k * (size_t)x->d[2 + i] + (size_t)index[i][rest % n];
                    w *= weight[i][rest % n];
                }
                if (is_in)
                    oracle_add_term(out, cell, w * x->v[image * area + k]);
            }
        }
    }
}

/* ---- regions ---- */

/* Between four elements of an image; 0 farther away than one. */
static long double
take_between(const long double *v, int64_t h, int64_t w, long double y,
             long double x)
{
    int64_t y0, x0, y1, x1;

    if (!(y >= -1 && y <= (long double)h && x >= -1 && x <= (long double)w))
        return 0;
    y = fminl(fmaxl(y, 0), (long double)(h - 1));
    x = fminl(fmaxl(x, 0), (long double)(w - 1));
    y0 = (int64_t)y;
    x0 = (int64_t)x;
    y1 = limit(y0 + 1, h);
    x1 = limit(x0 + 1, w);
    y -= y0;
    x -= x0;
    return (1 - y) * ((1 - x) * v[y0 * w + x0] + x * v[y0 * w + x1]) +
           y * ((1 - x) * v[y1 * w + x0] + x * v[y1 * w + x1]);
}

/* input, boxes, output_size, spatial_scale, sampling_ratio, aligned */
static void
define_roi_align(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *boxes = oracle_t(o, 1);
    long double scale = oracle_num(o, 3), off = oracle_flag(o, 5) ? 0.5L : 0;
    int64_t parts[2], d[4] = {boxes->d[0], x->d[1]}, k, c, p, q, i, j;
    int64_t h = x->d[2], w = x->d[3];
    struct oracle_array *out;
    size_t cell = 0;

    read_each(o, 2, 2, 1, parts);
    memcpy(d + 2, parts, sizeof(parts));
    out = oracle_out(o, x->dtype, d, 4);
    oracle_scales(o, out);
    for (k = 0; k < d[0]; k++) {
        const long double *b = boxes->v + 5 * k;
        long double left = b[1] * scale - off, top = b[2] * scale - off;
        long double wide = b[3] * scale - off - left;
        long double high = b[4] * scale - off - top, n;
        int64_t rows = oracle_int(o, 4), columns = rows;
        if (off == 0) {
            wide = fmaxl(wide, 1);
            high = fmaxl(high, 1);
        }
        wide /= (long double)parts[1];
        high /= (long double)parts[0];
        if (rows <= 0) {
            rows = (int64_t)ceill(high);
            columns = (int64_t)ceill(wide);
        }
        n = rows > 0 && columns > 0 ? (long double)(rows * columns) : 1;
        for (c = 0; c < d[1]; c++) {
            const long double *v = x->v + ((int64_t)b[0] * d[1] + c) * h * w;
            for (p = 0; p < parts[0]; p++) {
                for (q = 0; q < parts[1]; q++, cell++) {
                    for (i = 0; i < rows; i++) {
                        for (j = 0; j < columns; j++)
                            oracle_add_term(
                                out, cell,
                                take_between(
                                    v, h, w,
                                    top + high * (p + (i + 0.5L) / rows),
                                    left + wide * (q + (j + 0.5L) / columns)) /
                                    n);
                    }
                }
            }
        }
    }
}

static long double
overlap(const long double *p, const long double *q)
{
    long double w = fminl(p[2], q[2]) - fmaxl(p[0], q[0]);
    long double h = fminl(p[3], q[3]) - fmaxl(p[1], q[1]);
    long double both = fmaxl(w, 0) * fmaxl(h, 0);

    return both / ((p[2] - p[0]) * (p[3] - p[1]) +
                   (q[2] - q[0]) * (q[3] - q[1]) - both);
}

/* boxes, scores, iou_threshold */
static void
define_nms(struct oracle *o)
{
    const struct oracle_array *b = oracle_t(o, 0), *score = oracle_t(o, 1);
    size_t n = score->n, i, k, best;
    int64_t kept = 0;
    bool *gone = arena_calloc(o->arena, n + 1, sizeof(*gone));
    int64_t *list = arena_calloc(o->arena, n + 1, sizeof(*list));
    struct oracle_array *out;

    for (i = 0; i < n; i++) {
        for (best = n, k = 0; k < n; k++) {
            if (!gone[k] && (best == n || score->v[k] > score->v[best]))
                best = k;
        }
        if (best == n)
            break;
        list[kept++] = (int64_t)best;
        gone[best] = true;
        for (k = 0; k < n; k++)
            gone[k] |=
                overlap(b->v + 4 * best, b->v + 4 * k) > oracle_num(o, 2);
    }
    out = oracle_out(o, BELL_INT64, &kept, 1);
    for (i = 0; i < (size_t)kept; i++)
        out->v[i] = list[i];
}

#define FLOATS "hwfd"
#define SUMS   .ulps = 16, .grad_ulps = 64
#define LINEAR ORACLE_ZERO | ORACLE_GRAD

/* clang-format off */
static const struct oracle_row rows[] = {
    {"conv1d", "@n:2,4,9 @n:3,4,3; @n:2,4,9 @n:6,2,3 @n:6 l2 l1 l2 i2; @n:4,9 @n:3,4,4 @n:3 padding=s'same'; @n:2,4,9 @n:3,4,4 dilation=i2 padding=s'same'; @n:2,4,9 @n:3,4,3 padding=l2,0 stride=i2; @n:0,4,9 @n:3,4,3 padding=s'valid'", FLOATS, .define = define_conv, SUMS, .flags = ORACLE_SCALED | LINEAR},
    {"conv2d", "@n:2,2,5,4 @n:3,2,3,2; @n:1,4,5,6 @n:4,2,2,3 @n:4 l2,1 l1,0 l1,2 i2; @n:2,5,4 @n:3,2,2,3 @n:3 padding=s'same'; @n:1,2,5,4 @n:2,2,2,2 padding=l1,2,0,3; @n:2,2,0,4 @n:3,2,1,1 padding=i1; @n:1,2,6,7 @n:2,2,2,3 padding=i-1; @n:1,2,6,7 @n:2,2,2,3 padding=l-2,1,3,-1", FLOATS, .define = define_conv, SUMS, .flags = LINEAR},
    {"conv3d", "@n:1,2,4,3,5 @n:2,2,2,3,2 @n:2; @n:2,4,3,3 @n:2,1,2,1,2 stride=l2,1,1 padding=i1 groups=i2; @n:1,1,3,4,3 @n:1,1,2,2,3 padding=s'same' dilation=l1,2,1", FLOATS, .define = define_conv, SUMS, .flags = LINEAR},
    {"conv_transpose1d", "@n:2,4,5 @n:4,3,3; @n:2,4,5 @n:4,3,3 @n:6 i2 i1 i1 i2 i2; @n:4,5 @n:4,3,4 @n:3 stride=i3; @n:0,4,5 @n:4,3,3; @q:2,2,30 @p:2,3,3 stride=i2; @q:2,2,30 @p:2,3,3 stride=i2 padding=i1; @q:1,2,20 @p:2,3,5 stride=i3 padding=i2 output_padding=i1; @q:1,2,20 @p:2,3,1 stride=i3; @q:1,2,20 @p:2,3,2 stride=i20; @n:1,2,9 @p:2,3,5 stride=i3 padding=i1; @n:1,4,9 @p:4,1,7 stride=i5 padding=i4 groups=i2", FLOATS, .define = define_conv_transpose, SUMS, .flags = ORACLE_SCALED | LINEAR},
    {"conv_transpose2d", "@n:2,2,3,4 @n:2,3,3,2; @n:1,4,3,2 @n:4,2,2,3 @n:4 l2,3 l1,0 l1,2 i2; @n:2,3,4 @n:2,3,2,2 @n:3 stride=i2 dilation=i2 output_padding=i1; @q:2,2,6,5 @p:2,2,3,3 stride=i2 padding=i1; @q:1,2,6,5 @p:2,2,3,1 stride=l3,2; @n:1,2,3,4 @p:2,2,4,5 stride=l3,4 padding=l1,2 output_padding=l1,2; @n:1,2,3,2 @p:2,2,7,3 stride=l5,4; @n:1,2,2,3 @p:2,2,1,1 stride=l3,1 dilation=l1,2 output_padding=l2,1; @n:1,1,1,2 @p:1,2,1,2 stride=l2,3 padding=l1,0 dilation=l3,1 output_padding=l2,1", FLOATS, .define = define_conv_transpose, SUMS, .flags = LINEAR},
    {"conv_transpose3d", "@n:1,2,2,3,2 @n:2,2,2,1,2 @n:2; @n:2,2,2,3 @n:2,1,2,2,1 stride=l1,2,1 padding=l1,0,0; @q:1,2,3,3,2 @p:2,1,3,3,1 stride=i2 padding=l1,1,0; @n:1,1,2,1,2 @p:1,2,1,2,1 stride=l1,2,3 dilation=l2,3,1 output_padding=l1,2,2", FLOATS, .define = define_conv_transpose, SUMS, .flags = LINEAR},

    /* ties, of which a zero has either sign; windows of a border */
    {"max_pool1d", "@n:2,9 i3; @n:2,3,9 i3 i2 i1; @n:2,9 i2 i1 i0 i3; @n:1,9 i2 return_indices=b1; @c:3,9 i3 i2 i1 return_indices=b1; @n:2,8 i3 i2 ceil_mode=b1 return_indices=b1; @q:9,12 i3 i2 i1 return_indices=b1; @q:40,5 i2 i2 i1; @q:20,6 i3 i3 i1 ceil_mode=b1; @n:2,1 i2 i2 ceil_mode=b1; @n:2,1 i4 i3 i1 ceil_mode=b1; @c:2,3 i2 i3 i0 i3 ceil_mode=b1; @n:0,9 i3", FLOATS "iC", .define = define_max_pool, .back = back_max_pool, .grad_ulps = 16, .flags = ORACLE_ZERO},
    {"max_pool2d", "@n:2,5,6 i2; @n:1,2,5,6 l3,2 i2 l1,0 return_indices=b1; @c:2,5,6 i3 i2 i1 return_indices=b1; @n:2,5,6 i2 i1 i0 l2,1 b1 b1; @q:2,6,6 i2 i1 return_indices=b1; @q:9,5,3 l2,1 l2,1 l1,0 return_indices=b1", FLOATS "i", .define = define_max_pool, .back = back_max_pool, .grad_ulps = 16, .flags = ORACLE_ZERO},
    {"max_pool3d", "@n:1,4,5,3 i2; @n:1,2,4,5,3 l2,3,1 i1 l1,1,0 return_indices=b1; @c:1,4,4,4 i2 return_indices=b1", FLOATS, .define = define_max_pool, .back = back_max_pool, .grad_ulps = 16, .flags = ORACLE_ZERO},
    {"max_unpool1d", "@n:2,4 @s8:2,4 i2; @n:1,2,3 @s6:1,2,3 i3 i2 i1 l6; @n:2,4 @s9:2,4 i2 output_size=i9", FLOATS "i", .define = define_max_unpool, .grad_ulps = 2, .flags = ORACLE_SCALED | LINEAR},
    {"max_unpool2d", "@n:2,2,2 @s16:2,2,2 i2; @n:1,2,2,2 @s16:1,2,2,2 l2,3 i2; @n:2,2,2 @s20:2,2,2 i2 output_size=l5,4", FLOATS, .define = define_max_unpool, .grad_ulps = 2, .flags = LINEAR},
    {"max_unpool3d", "@n:1,2,2,2 @s64:1,2,2,2 i2; @n:1,1,2,2,2 @s64:1,1,2,2,2 i2 i2 i0 l1,1,4,4,4", FLOATS, .define = define_max_unpool, .grad_ulps = 2, .flags = LINEAR},
    {"avg_pool1d", "@n:2,9 i3; @n:2,3,9 i3 i2 i1; @n:2,8 i3 i2 i1 b1; @n:2,8 i3 i2 i1 b1 b0; @n:2,1 i2 i2 ceil_mode=b1; @n:2,1 i4 i3 i1 b1; @n:2,1 i4 i3 i1 b1 b0; @q:2,9 i3; @n:0,9 i3", FLOATS, .define = define_avg_pool, SUMS, .flags = ORACLE_SCALED | LINEAR},
    {"avg_pool2d", "@n:2,5,6 i2; @n:1,2,5,6 l3,2 i2 l1,0; @n:2,5,6 i3 i2 i1 b1; @n:2,5,6 i3 i2 i1 b1 b0", FLOATS, .define = define_avg_pool, SUMS, .flags = LINEAR},
    {"avg_pool3d", "@n:1,4,5,3 i2; @n:1,2,4,5,3 l2,3,1 i1 l1,1,0 count_include_pad=b0; @n:1,4,4,5 i3 i2 i1 b1", FLOATS, .define = define_avg_pool, SUMS, .flags = LINEAR},
    {"adaptive_avg_pool1d", "@n:2,9 i3; @n:2,3,7 i5; @n:2,3 i7; @n:2,3 i0; @n:0,9 i3", FLOATS, .define = define_adaptive_pool, SUMS, .flags = ORACLE_SCALED | LINEAR},
    {"adaptive_avg_pool2d", "@n:2,5,6 i2; @n:1,2,5,6 l3,6; @n:1,2,5,6 l0,3; @n:1,2,5,6 l2,0", FLOATS, .define = define_adaptive_pool, SUMS, .flags = LINEAR},
    {"adaptive_avg_pool3d", "@n:1,4,5,3 i2; @n:1,2,4,5,3 l4,1,2", FLOATS, .define = define_adaptive_pool, SUMS, .flags = LINEAR},

    {"pad", "@n:5 l1,2; @n:2,4 l-1,2,3,0 value=f1.5; @n:2,4 l-1,-2; @n:2,5 l2,1 s'reflect'; @n:2,5 l3,1,1,0 s'replicate'; @n:2,5 l2,5 s'circular'; @n:2,5 l-1,3 s'circular'; @n:2,5 l3,-2 s'circular'; @n:2,5 l-1,-2 s'circular'; @n:2,5 l1,-3 s'replicate'; @n:2,5 l-3,1 s'reflect'; @n:3,5 l2,-1,-1,1 s'reflect'; @n:0,3 l1,1; @q:9 l1,1", FLOATS "ci?", .define = define_pad, .grad_ulps = 16, .flags = LINEAR},
    {"pixel_shuffle", "@n:2,8,3,2 i2; @n:9,1,2 i3; @n:4,0,2 i2", FLOATS "i", .define = define_shuffle, .grad_ulps = 2, .flags = LINEAR},
    {"pixel_unshuffle", "@n:2,2,6,4 i2; @n:1,3,6 i3", FLOATS "i", .define = define_shuffle, .grad_ulps = 2, .flags = LINEAR},

    {"interpolate", "@n:1,2,5 i7; @n:1,2,5 i3; @n:1,1,5 scale_factor=f2.5 mode=s'nearest-exact'; @n:1,2,5 i8 mode=s'linear'; @n:1,1,5,4 l3,7 mode=s'bilinear'; @n:1,1,5,4 l3,7 mode=s'bilinear' align_corners=b1; @n:1,1,5,6 scale_factor=( f0.7 f1.75 ) mode=s'bilinear'; @n:1,1,5,6 scale_factor=( f0.7 f1.75 ) mode=s'bilinear' recompute_scale_factor=b1; @n:1,1,5,4 l4,9 mode=s'bicubic'; @n:1,1,5,6 scale_factor=( f1.3 f0.75 ) mode=s'bicubic'; @n:1,1,3,2,4 i5 mode=s'trilinear'; @n:1,1,5,7 l3,4 mode=s'area'; @n:1,1,9,7 l4,9 mode=s'bilinear' antialias=b1; @n:1,1,9,7 l4,3 mode=s'bicubic' antialias=b1; @n:1,1,7,9 scale_factor=( f0.4 f1.5 ) mode=s'bicubic' antialias=b1; @n:1,1,9,7 l4,3 mode=s'bilinear' align_corners=b1 antialias=b1; @i256:1,2,5,4/C l7,3; @i256:1,2,5,4/C l7,3 mode=s'bicubic'; @i256:1,2,5,4/C l7,3 mode=s'bilinear' antialias=b1", FLOATS, .define = define_interpolate, .ulps = 32, .grad_ulps = 64, .flags = LINEAR},
    {"grid_sample", "@n:1,2,5,6 @n:1,3,4,2; @n:2,1,6,4 @u:2,2,3,2 align_corners=b1; @n:1,1,5,6 @q:1,4,5,2; @n:1,1,5,6 @q:1,4,5,2 padding_mode=s'border'; @n:1,1,4,6 @u:1,4,5,2 padding_mode=s'border' align_corners=b1; @n:1,1,5,6 @n:1,4,5,2 padding_mode=s'reflection'; @n:1,1,4,6 @u:1,4,5,2 padding_mode=s'reflection' align_corners=b1; @n:1,1,4,6 @u:1,4,5,2 s'nearest'; @n:1,1,5,6 @n:1,4,5,2 s'nearest' s'border'; @n:1,1,5,6 @n:1,3,3,2 s'bicubic'; @n:1,1,5,6 @n:1,3,3,2 s'bicubic' s'border' b1; @n:1,1,5,6 @n:1,3,3,2 s'bicubic' s'reflection'; @n:1,1,3,4,5 @n:1,2,2,3,3; @n:1,1,3,4,5 @n:1,2,2,3,3 s'bilinear' s'reflection'; @n:1,1,3,4,5 @n:1,2,2,3,3 s'nearest'; @n:1,1,1,1 @n:1,2,2,2 s'bilinear' s'reflection' b1; @n:0,2,3,4 @n:0,2,2,2", FLOATS, .define = define_grid_sample, .ulps = 128, .grad_ulps = 1024, .scale = 1, .slope_scale = 4, .flags = LINEAR},
    {"roi_align", "@n:1,2,6,5 @p:2,5 l2,3 f4 i2; @n:1,2,6,5 @p:2,5 i2 f3 i3 b1; @n:1,1,6,5 @p:3,5 l3,2 f5; @n:1,1,6,5 @p:3,5 i2 f7 i-1 b1; @n:1,2,6,5 @n:0,5 i2 sampling_ratio=i2", "fd", .define = define_roi_align, .ulps = 128, .grad_ulps = 1024, .scale = 1, .slope_scale = 1, .flags = ORACLE_ZERO},
    {"nms", "@p:7,4 @a:7 f0.1; @a:5,4 @n:5 f0.2; @c:9,4 @c:9 f0.5; @n:0,4 @n:0 f0.5", "fd", .define = define_nms},
};
/* clang-format on */

const struct oracle_table oracle_conv = {rows, ARRAY_LEN(rows)};
