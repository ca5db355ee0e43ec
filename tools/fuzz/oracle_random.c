/* The oracle: random numbers. A definition says the dtype and the shape; of the
 * values a judge says whether they may be: their range, and how they are
 * distributed. The runner sees that a seed gives the same numbers again. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

/* ---- distributions ---- */

struct spread {
    bool normal;
    long double low, high; /* of a uniform one; whole: of low..high-1 */
    long double mean, deviation;
    bool whole;
};

/* The share of numbers that are at most x. */
static long double
share_below(const struct spread *s, long double x)
{
    long double share;

    if (s->normal)
        return erfcl((s->mean - x) / s->deviation / sqrtl(2)) / 2;
    share = (x + s->whole - s->low) / (s->high - s->low);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static int
compare_random_numbers(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;

    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov: the greatest distance of the two shares is below
 * 2 / sqrt(n) but once in 1,500 times; seeds are fixed, so it is or is not. */
static const char *
judge_spread(struct oracle *o, const struct spread *s)
{
    const struct oracle_array *t = o->got[0];
    long double *v = arena_copy(o->arena, t->v, (t->n + 1) * sizeof(*t->v));
    size_t k;

    for (k = 0; v && k < t->n; k++) {
        if (!isfinite(v[k]))
            return "a number is not finite";
        if (!s->normal && (v[k] < s->low || v[k] > s->high ||
                           (v[k] == s->high && s->high > s->low)))
            return "a number is out of range";
        if (s->whole && v[k] != floorl(v[k]))
            return "a number is not whole";
    }
    if (!v || (!s->normal && s->low == s->high) || t->n < 1000)
        return NULL;
    qsort(v, t->n, sizeof(*v), compare_random_numbers);
    for (k = 0; k < t->n; k++) {
        long double share = (long double)(k + 1) / (long double)t->n;
        if (k + 1 < t->n && v[k + 1] == v[k])
            continue;
        if (fabsl(share - share_below(s, v[k])) >
            2 / sqrtl((long double)t->n) + 0x1p-8L)
            return "the numbers are not distributed so";
    }
    return NULL;
}

static void
any_values(struct oracle *o, enum bell_dtype dtype, const int64_t *d,
           uint32_t rank)
{
    struct oracle_array *out = oracle_out(o, dtype, d, rank);
    size_t k;

    for (k = 0; k < out->n; k++)
        out->v[k] = ORACLE_ANY;
}

/* The parameters `size` and `dtype` are at these places. */
static void
any_of(struct oracle *o, uint32_t size, uint32_t dtype, enum bell_dtype other)
{
    uint32_t n;
    const int64_t *d = oracle_ints(o, size, &n);

    any_values(o, o->a[dtype].given ? o->a[dtype].dtype : other, d, n);
}

static void
define_sized(struct oracle *o)
{
    any_of(o, 0, 1, BELL_FLOAT32);
}

static void
define_uniform(struct oracle *o)
{
    any_of(o, 0, 3, BELL_FLOAT32);
}

static void
define_normal(struct oracle *o)
{
    any_of(o, 2, 3, BELL_FLOAT32);
}

static void
define_kaiming(struct oracle *o)
{
    any_of(o, 0, 2, BELL_FLOAT32);
}

static void
define_randint(struct oracle *o)
{
    any_of(o, 2, 3, BELL_INT64);
}

static void
define_like(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);

    any_values(o, x->dtype, x->d, x->rank);
}

static const char *
judge_rand(struct oracle *o)
{
    return judge_spread(o, &(struct spread){.high = 1});
}

static const char *
judge_randn(struct oracle *o)
{
    return judge_spread(o, &(struct spread){.normal = true, .deviation = 1});
}

static const char *
judge_uniform(struct oracle *o)
{
    return judge_spread(
        o, &(struct spread){.low = oracle_num(o, 1), .high = oracle_num(o, 2)});
}

static const char *
judge_normal(struct oracle *o)
{
    return judge_spread(o, &(struct spread){.normal = true,
                                            .mean = oracle_num(o, 0),
                                            .deviation = oracle_num(o, 1)});
}

static const char *
judge_randint(struct oracle *o)
{
    return judge_spread(o, &(struct spread){.low = oracle_num(o, 0),
                                            .high = oracle_num(o, 1),
                                            .whole = true});
}

/* Weights: fan_in is the product of all sizes but the first, fan_out of all but
 * the second. */
static const char *
judge_weights(struct oracle *o)
{
    const struct oracle_array *t = o->got[0];
    const char *name = o->row->name;
    long double in = (long double)t->n / (long double)t->d[0], out, a, bound;
    struct spread s = {.normal = strcmp(name, "kaiming_normal") == 0};

    out = t->rank > 1 ? (long double)t->n / (long double)t->d[1] : 0;
    a = name[0] == 'k' ? oracle_num(o, 1) : 0;
    bound = name[0] == 's'   ? 1 / sqrtl((long double)t->n)
            : name[0] == 'g' ? sqrtl(6 / (in + out))
                             : sqrtl(2 / ((1 + a * a) * in));
    s.deviation = bound;
    if (name[0] == 'k')
        bound *= sqrtl(3);
    /* of halves: rounded */
    s.high = oracle_round(t->dtype, bound) + oracle_ulp(t->dtype, bound);
    s.low = -s.high;
    return judge_spread(o, &s);
}

/* ---- orders, draws ---- */

static void
define_randperm(struct oracle *o)
{
    int64_t n = oracle_int(o, 0);

    any_values(o, BELL_INT64, &n, 1);
}

static const char *
judge_randperm(struct oracle *o)
{
    const struct oracle_array *t = o->got[0];
    bool *seen = arena_calloc(o->arena, t->n + 1, sizeof(*seen));
    long double n = (long double)t->n, sum = 0;
    size_t k;

    for (k = 0; k < t->n; k++) {
        if (t->v[k] < 0 || t->v[k] >= n || seen[(size_t)t->v[k]])
            return "not an order of 0..n-1";
        seen[(size_t)t->v[k]] = true;
        sum += ((long double)k - (n - 1) / 2) * (t->v[k] - (n - 1) / 2);
    }
    /* the correlation of n pairs has the deviation 1 / sqrt(n - 1) */
    if (t->n > 100 && fabsl(sum) > n * n * n / 12 * 4 / sqrtl(n - 1))
        return "numbers keep to their places";
    return NULL;
}

static void
define_multinomial(struct oracle *o)
{
    const struct oracle_array *w = oracle_t(o, 0);
    int64_t d[2] = {w->d[0]};

    d[w->rank - 1] = oracle_int(o, 1);
    any_values(o, BELL_INT64, d, w->rank);
}

/* One row of weights and its draws. */
static const char *
judge_draws(struct oracle *o, const long double *w, size_t n,
            const long double *v, size_t n_draws)
{
    bool again = oracle_flag(o, 2);
    size_t *count = arena_calloc(o->arena, n + 1, sizeof(*count)), k, some = 0;
    long double all = 0, share = 0, drawn = 0;

    for (k = 0; k < n; k++) {
        all += w[k];
        some += w[k] > 0;
    }
    for (k = 0; k < n_draws; k++) {
        if (v[k] == -1 && !again && k >= some)
            continue;
        if (v[k] < 0 || v[k] >= (long double)n)
            return "no index";
        if (w[(size_t)v[k]] == 0)
            return "drawn though its weight is 0";
        if (count[(size_t)v[k]]++ && !again)
            return "drawn twice";
    }
    for (k = 0; n_draws > 1000 && k < n; k++) {
        share += w[k] / all;
        drawn += (long double)count[k] / (long double)n_draws;
        if (fabsl(share - drawn) > 2 / sqrtl((long double)n_draws))
            return "not drawn by weight";
    }
    return NULL;
}

static const char *
judge_multinomial(struct oracle *o)
{
    const struct oracle_array *w = oracle_t(o, 0);
    size_t n = (size_t)w->d[w->rank - 1], m = (size_t)oracle_int(o, 1), k;
    const char *fault = NULL;

    for (k = 0; k < w->n / n && !fault; k++)
        fault = judge_draws(o, w->v + k * n, n, o->got[0]->v + k * m, m);
    return fault;
}

/* ---- dropout ---- */

static bool
drops(const struct oracle *o)
{
    long double p = oracle_num(o, 1);

    return oracle_flag(o, 2) && p > 0 && p < 1;
}

static void
define_dropout(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *out = oracle_out(o, x->dtype, x->d, x->rank);
    bool all = oracle_flag(o, 2) && oracle_num(o, 1) == 1;
    size_t k;

    for (k = 0; k < x->n; k++)
        out->v[k] = drops(o) ? ORACLE_ANY : all ? 0 : x->v[k];
}

static void
back_dropout(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    struct oracle_array *g = oracle_like(o, x->dtype, x);
    bool all = oracle_flag(o, 2) && oracle_num(o, 1) == 1;
    size_t k;

    for (k = 0; k < x->n; k++)
        g->v[k] = drops(o) ? ORACLE_ANY : all ? 0 : o->adjoint[0]->v[k];
    o->gradient[0] = g;
}

static const char *
judge_dropout(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *t = o->got[0];
    long double p = oracle_num(o, 1), n = (long double)x->n, zeros = 0;
    size_t k;

    if (!drops(o))
        return NULL;
    for (k = 0; k < x->n; k++) {
        long double kept = x->v[k] / (1 - p);
        zeros += t->v[k] == 0;
        if (t->v[k] != 0 &&
            fabsl(t->v[k] - kept) > 2 * oracle_ulp(t->dtype, kept))
            return "neither 0 nor input / (1 - p)";
    }
    if (x->n > 1000 && fabsl(zeros - n * p) > 4 * sqrtl(n * p * (1 - p)))
        return "not so many are 0";
    return NULL;
}

#define SIZED                                                                  \
    "l50,80; l; l0,3; l3 yfloat64; l40,50 yfloat16; l40,50 ybfloat16; l1"
#define DTYPES(size)                                                           \
    size "; " size " dtype=yfloat16; " size " dtype=ybfloat16; " size          \
         " dtype=yfloat64"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"rand", SIZED, "f", .define = define_sized, .judge = judge_rand},
    {"randn", SIZED, "f", .define = define_sized, .judge = judge_randn},
    {"randint", "i0 i10 l50,80; i-5 i6 l2000; i0 i2 l; i0 i1 l9; i3 i7 l0,3; i-100 i100 l2000 yint8; i0 i256 l2000 yuint8; i0 i1000 l2000 yint32; i0 i5 l2000 yfloat32", "f", .define = define_randint, .judge = judge_randint},
    {"randperm", "i0; i1; i2; i9; i2000", "f", .define = define_randperm, .judge = judge_randperm},
    {"rand_like", "@n:50,80; @n:; @n:0,3", "hwfd", .define = define_like, .judge = judge_rand},
    {"randn_like", "@n:50,80; @n:; @n:0,3", "hwfd", .define = define_like, .judge = judge_randn},
    {"uniform", DTYPES("l40,50 f-3 f5") "; l2000; l; l0; l9 f2 f2; l2000 f1e-30 f2e-30", "f", .define = define_uniform, .judge = judge_uniform},
    {"normal", DTYPES("f2 f3 l40,50") "; f0 f1 l; f0 f1 l0; f-100 f0.01 l2000", "f", .define = define_normal, .judge = judge_normal},
    {"scaled_uniform", DTYPES("l40,50") "; l; l0,3", "f", .define = define_sized, .judge = judge_weights},
    {"glorot_uniform", DTYPES("l40,50") "; l8,5,50; l2,3", "f", .define = define_sized, .judge = judge_weights},
    {"kaiming_uniform", DTYPES("l40,50") "; l8,5,50 f2; l2,3", "f", .define = define_kaiming, .judge = judge_weights},
    {"kaiming_normal", DTYPES("l40,50") "; l8,5,50 f2; l2,3", "f", .define = define_kaiming, .judge = judge_weights},
    {"multinomial", "@p:6 i3; @p:6 i2000 b1; @b:9/f i5; @b:9/f i9; @b:2,9/f i2000 b1; @p:2,5 i5; @p:1 i1", "hwfd", .define = define_multinomial, .judge = judge_multinomial},
    {"dropout", "@p:2000; @p:40,50 f0.1; @p:9 f0; @p:9 f1; @p:9 f0.5 b0; @q:9 f0.5 b0; @p:; @p:0,3", "hwfd", .define = define_dropout, .back = back_dropout, .judge = judge_dropout},
};
/* clang-format on */

const struct oracle_table oracle_random = {rows, ARRAY_LEN(rows)};
