/* The oracle: tensors from numbers and at random. */
#include "tools/fuzz/oracle.h"

#include <math.h>

#include "base/bits.h"

/* A number as that dtype: floats into integers saturate. */
static long double
number_as(const struct oracle_arg *a, enum bell_dtype dtype)
{
    bool is_float = a->kind == BELL_VALUE_FLOAT;

    return oracle_convert(is_float ? BELL_FLOAT64 : BELL_INT64, dtype, a->f);
}

static struct oracle_array *
sized(struct oracle *o, uint32_t k, enum bell_dtype dtype)
{
    uint32_t n;
    const int64_t *d = oracle_ints(o, k, &n);

    return oracle_out(o, dtype, d, n);
}

static enum bell_dtype
dtype_or(const struct oracle *o, uint32_t k, enum bell_dtype other)
{
    return o->a[k].given ? o->a[k].dtype : other;
}

static void
fill(struct oracle_array *out, long double v)
{
    size_t i;

    for (i = 0; i < out->n; i++)
        out->v[i] = v;
}

static void
define_constant(struct oracle *o)
{
    fill(sized(o, 0, dtype_or(o, 1, BELL_FLOAT32)), o->row->name[0] == 'o');
}

static void
define_full(struct oracle *o)
{
    enum bell_dtype dtype =
        dtype_or(o, 2,
                 o->a[1].kind == BELL_VALUE_BOOL  ? BELL_BOOL
                 : o->a[1].kind == BELL_VALUE_INT ? BELL_INT64
                                                  : BELL_FLOAT32);

    fill(sized(o, 0, dtype), number_as(&o->a[1], dtype));
}

static void
define_like(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0);
    bool full = o->row->name[0] == 'f';
    enum bell_dtype dtype = dtype_or(o, full ? 2 : 1, x->dtype);

    fill(oracle_out(o, dtype, x->d, x->rank),
         full ? number_as(&o->a[1], dtype) : o->row->name[0] == 'o');
}

static void
define_eye(struct oracle *o)
{
    int64_t d[2] = {oracle_int(o, 0),
                    o->a[1].given ? oracle_int(o, 1) : oracle_int(o, 0)};
    struct oracle_array *out =
        oracle_out(o, dtype_or(o, 2, BELL_FLOAT32), d, 2);
    int64_t i;

    for (i = 0; i < d[0] && i < d[1]; i++)
        out->v[i * d[1] + i] = 1;
}

static void
define_arange(struct oracle *o)
{
    bool one = !o->a[1].given;
    bool whole = o->a[0].kind == BELL_VALUE_INT &&
                 (one || o->a[1].kind == BELL_VALUE_INT) &&
                 o->a[2].kind == BELL_VALUE_INT;
    long double start = one ? 0 : o->a[0].f, end = one ? o->a[0].f : o->a[1].f;
    long double step = o->a[2].f, n = ceill((end - start) / step);
    enum bell_dtype dtype = dtype_or(o, 3, whole ? BELL_INT64 : BELL_FLOAT32);
    int64_t size = n > 0 ? (int64_t)n : 0, i;
    struct oracle_array *out = oracle_out(o, dtype, &size, 1);

    for (i = 0; i < size; i++)
        out->v[i] = oracle_convert(whole ? BELL_INT64 : BELL_FLOAT64, dtype,
                                   start + (long double)i * step);
}

static void
define_linspace(struct oracle *o)
{
    long double start = o->a[0].f, end = o->a[1].f;
    int64_t n = oracle_int(o, 2), i;
    struct oracle_array *out =
        oracle_out(o, dtype_or(o, 3, BELL_FLOAT32), &n, 1);

    oracle_scales(o, out);
    for (i = 0; i < n; i++) {
        out->v[i] = n < 2 ? start
                          : start + (end - start) * (long double)i /
                                        (long double)(n - 1);
        out->scale[i] = fmaxl(fabsl(start), fabsl(end));
    }
}

/* Numbers in lists, nested up to twice. */
static void
define_tensor(struct oracle *o)
{
    const struct oracle_arg *a = &o->a[0];
    bool any_float = false, any_int = false;
    const struct oracle_arg *leaf[64];
    struct oracle_array *out;
    int64_t d[2];
    uint32_t rank = 0, n = 0, i, k;
    enum bell_dtype dtype;

    if (a->kind != BELL_VALUE_LIST) {
        leaf[n++] = a;
    } else if (a->n && a->items[0].kind == BELL_VALUE_LIST) {
        d[0] = a->n;
        d[1] = a->items[0].n;
        rank = 2;
        for (i = 0; i < a->n; i++) {
            for (k = 0; k < a->items[i].n; k++)
                leaf[n++] = &a->items[i].items[k];
        }
    } else {
        d[0] = a->n;
        rank = 1;
        for (i = 0; i < a->n; i++)
            leaf[n++] = &a->items[i];
    }
    for (i = 0; i < n; i++) {
        any_float |= leaf[i]->kind == BELL_VALUE_FLOAT;
        any_int |= leaf[i]->kind == BELL_VALUE_INT;
    }
    dtype = dtype_or(o, 1,
                     any_float || n == 0 ? BELL_FLOAT32
                     : any_int           ? BELL_INT64
                                         : BELL_BOOL);
    out = oracle_out(o, dtype, d, rank);
    for (i = 0; i < n; i++)
        out->v[i] = number_as(leaf[i], dtype);
}

#define INTO(v)                                                                \
    v " yint8; " v " yuint8; " v " yint16; " v " yuint16; " v " yint32; " v    \
      " yuint32; " v " yint64; " v " yuint64; " v " ybool; " v " yfloat16; " v \
      " yfloat32"
#define FILLS(size)                                                                                                \
    INTO(size " finf")                                                                                             \
    "; " INTO(size " f-inf") "; " INTO(size " fnan") "; " INTO(size " f1e10") "; " INTO(size " f-1e10") "; " INTO( \
        size                                                                                                       \
        " f300.7") "; " INTO(size                                                                                  \
                             " f-1.5") "; " INTO(size                                                              \
                                                 " i-1") "; " INTO(size                                            \
                                                                   " i100") "; " size                              \
                                                                            " i9223372036854775807; " size         \
                                                                            " f2.5; " size                         \
                                                                            " b1"

/* clang-format off */
static const struct oracle_row rows[] = {
    {"tensor", INTO("( f1e10 f-1e10 fnan finf f-inf f1.5 f-1.5 f255.9 )") "; ( ( i1 i2 ) ( i3 f4.5 ) ); ( b1 b0 ); ( b1 i3 ); ( ); f2.5; i3; b1; ( i100 i-1 i-128 ) yint8; ( i200 i-1 ) yuint8", "f", .define = define_tensor},
    {"zeros", "l3,4; l; l0,3; l2 yint8; l2 yfloat64; l2 ybool", "f", .define = define_constant},
    {"ones", "l3,4; l; l0,3; l2 yint8; l2 yfloat64; l2 ybool", "f", .define = define_constant},
    {"full", FILLS("l2"), "f", .define = define_full},
    {"zeros_like", "@n:3,4; @n:; @n:0; @n:3 yint8", "hwfdilC?", .define = define_like},
    {"ones_like", "@n:3,4; @n:; @n:0; @n:3 yint8", "hwfdilC?", .define = define_like},
    {"full_like", FILLS("@n:2/f"), "f", .define = define_like},
    {"eye", "i3; i3 i5; i4 i2 dtype=yint8; i0; i3 dtype=ybool", "f", .define = define_eye},
    {"arange", "i5; i2 i9; i2 i9 i3; i9 i2 i-3; f0 f1 f0.25; f5; i0; i5 dtype=yfloat16; f0 f2.5 f0.5 yint32; i3 i3; i-5 i5 i2 yint8", "f", .define = define_arange, .ulps = 1},
    {"linspace", "f0 f1 i5; f-3 f3 i7; f1 f1 i3; f0 f1 i1; f0 f1 i0; f10 f-10 i9 yfloat64; f0 f3000 i9 yfloat16", "f", .define = define_linspace, .ulps = 2},
};
/* clang-format on */

const struct oracle_table oracle_create = {rows, ARRAY_LEN(rows)};
