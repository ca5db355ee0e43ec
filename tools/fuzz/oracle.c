/* The oracle's numbers and arrays, and which function has which row. */
#include "tools/fuzz/oracle.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

/* ---- dtypes ----------------------------------------------------------- */

#define INT(letter, is_signed, size)                                           \
    {                                                                          \
        letter, false, is_signed, false, size, 0, 0, 0, 0                      \
    }

/* clang-format off */
static const struct oracle_dtype dtypes[BELL_DTYPE_COUNT] = {
    [BELL_BOOL] = INT('?', false, 1),
    [BELL_INT8] = INT('c', true, 1),   [BELL_UINT8] = INT('C', false, 1),
    [BELL_INT16] = INT('s', true, 2),  [BELL_UINT16] = INT('S', false, 2),
    [BELL_INT32] = INT('i', true, 4),  [BELL_UINT32] = INT('I', false, 4),
    [BELL_INT64] = INT('l', true, 8),  [BELL_UINT64] = INT('L', false, 8),
    [BELL_FLOAT16] = {'h', true, true, true, 2, 11, -14, 15, 65504},
    [BELL_BFLOAT16] = {'w', true, true, true, 2, 8, -126, 127, 0x1.fep127L},
    [BELL_FLOAT32] = {'f', true, true, true, 4, 24, -126, 127,
                      0x1.fffffep127L},
    [BELL_FLOAT64] = {'d', true, true, true, 8, 53, -1022, 1023,
                      0x1.fffffffffffffp1023L},
    [BELL_FLOAT8_E4M3FN] = {'0', true, true, false, 1, 4, -6, 7, 448},
    [BELL_FLOAT8_E5M2] = {'1', true, true, true, 1, 3, -14, 15, 57344},
    [BELL_FLOAT8_E4M3FNUZ] = {'2', true, true, false, 1, 4, -7, 8, 240},
    [BELL_FLOAT8_E5M2FNUZ] = {'3', true, true, false, 1, 3, -15, 16, 57344},
};
/* clang-format on */

const struct oracle_dtype *
oracle_dtype(enum bell_dtype dtype)
{
    return dtype > BELL_DEFAULT && dtype < BELL_DTYPE_COUNT ? &dtypes[dtype]
                                                            : NULL;
}

enum bell_dtype
oracle_letter(char letter)
{
    int i;

    for (i = BELL_BOOL; i < BELL_DTYPE_COUNT; i++) {
        if (dtypes[i].letter == letter)
            return (enum bell_dtype)i;
    }
    return BELL_DEFAULT;
}

long double
oracle_ulp(enum bell_dtype dtype, long double v)
{
    const struct oracle_dtype *t = &dtypes[dtype];
    int e;

    if (v == 0 || !isfinite(v))
        return ldexpl(1, t->min_exp - t->digits + 1);
    frexpl(v, &e);
    return ldexpl(1, (e - 1 < t->min_exp ? t->min_exp : e - 1) - t->digits + 1);
}

/* To a whole number of units in the last place; rintl rounds to even. */
static long double
round_float(const struct oracle_dtype *t, long double v)
{
    long double unit = oracle_ulp(oracle_letter(t->letter), v), r;

    if (!isfinite(v))
        return isnan(v) || t->has_inf ? v : (long double)NAN;
    r = rintl(v / unit) * unit;
    if (r == 0) /* fnuz has one zero */
        return t->letter >= '2' && t->letter <= '3' ? 0 : copysignl(0, v);
    if (fabsl(r) > t->max)
        return t->has_inf ? copysignl((long double)INFINITY, v)
                          : (long double)NAN;
    return r;
}

static long double
wrap_int(const struct oracle_dtype *t, long double v)
{
    long double size = ldexpl(1, 8 * t->size_bytes);

    if (t->letter == '?')
        return v != 0;
    v = fmodl(v, size);
    if (v < 0)
        v += size;
    return t->is_signed && v >= size / 2 ? v - size : v;
}

long double
oracle_round(enum bell_dtype dtype, long double v)
{
    const struct oracle_dtype *t = &dtypes[dtype];

    return t->is_float ? round_float(t, v) : wrap_int(t, v);
}

long double
oracle_convert(enum bell_dtype from, enum bell_dtype to, long double v)
{
    const struct oracle_dtype *t = &dtypes[to];
    long double low, high;

    if (!dtypes[from].is_float || t->is_float || to == BELL_BOOL)
        return to == BELL_BOOL ? v != 0 : oracle_round(to, v);
    if (isnan(v))
        return 0;
    high = ldexpl(1, 8 * t->size_bytes - t->is_signed) - 1;
    low = t->is_signed ? -high - 1 : 0;
    v = truncl(v);
    return v < low ? low : v > high ? high : v + 0.0L;
}

uint64_t
oracle_bits(long double v)
{
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

long double
oracle_of_bits(enum bell_dtype dtype, uint64_t bits)
{
    const struct oracle_dtype *t = &dtypes[dtype];
    uint32_t n = 64 - 8u * t->size_bytes;

    if (t->letter == '?')
        return bits != 0;
    bits <<= n;
    return t->is_signed ? (long double)((int64_t)bits >> n)
                        : (long double)(bits >> n);
}

bool
oracle_is_float(enum bell_dtype dtype)
{
    return dtypes[dtype].is_float;
}

enum bell_dtype
oracle_float(enum bell_dtype dtype)
{
    return dtypes[dtype].is_float && dtypes[dtype].size_bytes > 1
               ? dtype
               : BELL_FLOAT32;
}

enum bell_dtype
oracle_promote(enum bell_dtype a, enum bell_dtype b)
{
    const struct oracle_dtype *x = &dtypes[a], *y = &dtypes[b];
    bool a_is_more;

    if (a == b || b == BELL_BOOL)
        return a;
    if (a == BELL_BOOL)
        return b;
    if (x->is_float != y->is_float)
        return x->is_float ? a : b;
    if (x->is_float && x->size_bytes == y->size_bytes)
        return BELL_FLOAT32;
    if (x->is_float || x->is_signed == y->is_signed)
        return x->size_bytes > y->size_bytes ? a : b;
    /* signed and unsigned: the signed one that holds both */
    a_is_more = x->is_signed;
    if (a_is_more ? x->size_bytes > y->size_bytes
                  : y->size_bytes > x->size_bytes)
        return a_is_more ? a : b;
    switch (a_is_more ? y->size_bytes : x->size_bytes) {
    case 1:
        return BELL_INT16;
    case 2:
        return BELL_INT32;
    default:
        return BELL_INT64;
    }
}

/* ---- arrays ----------------------------------------------------------- */

struct oracle_array *
oracle_new(struct oracle *o, enum bell_dtype dtype, const int64_t *d,
           uint32_t rank)
{
    struct oracle_array *t = arena_calloc(o->arena, 1, sizeof(*t));
    uint32_t i;

    if (!t)
        return NULL;
    t->dtype = dtype;
    t->rank = rank;
    t->n = 1;
    for (i = 0; i < rank; i++) {
        t->d[i] = d[i];
        t->n *= (size_t)d[i];
    }
    t->v = arena_calloc(o->arena, t->n + 1, sizeof(*t->v));
    return t->v ? t : NULL;
}

struct oracle_array *
oracle_out(struct oracle *o, enum bell_dtype dtype, const int64_t *d,
           uint32_t rank)
{
    struct oracle_array *t = oracle_new(o, dtype, d, rank);

    o->out[o->n_out++] = t;
    return t;
}

struct oracle_array *
oracle_like(struct oracle *o, enum bell_dtype dtype,
            const struct oracle_array *t)
{
    return oracle_new(o, dtype, t->d, t->rank);
}

void
oracle_scales(struct oracle *o, struct oracle_array *t)
{
    t->scale = arena_calloc(o->arena, t->n + 1, sizeof(*t->scale));
}

bool
oracle_next(int64_t *at, const int64_t *d, uint32_t rank)
{
    uint32_t i;

    for (i = rank; i-- > 0;) {
        if (++at[i] < d[i])
            return true;
        at[i] = 0;
    }
    return false;
}

size_t
oracle_spread(const struct oracle_array *t, const int64_t *at, uint32_t rank)
{
    size_t k = 0, place;
    uint32_t i;

    for (i = 0; i < t->rank; i++) {
        place = i + rank < t->rank || t->d[i] == 1
                    ? 0
                    : (size_t)at[i + rank - t->rank];
        k = k * (size_t)t->d[i] + place;
    }
    return k;
}

uint32_t
oracle_broadcast(struct oracle_array *const *list, uint32_t n, int64_t *d)
{
    uint32_t rank = 0, i, k;

    for (i = 0; i < n; i++) {
        if (list[i] && list[i]->rank > rank)
            rank = list[i]->rank;
    }
    for (k = 0; k < rank; k++)
        d[k] = 1;
    for (i = 0; i < n; i++) {
        for (k = 0; list[i] && k < list[i]->rank; k++) {
            if (list[i]->d[k] != 1)
                d[rank - list[i]->rank + k] = list[i]->d[k];
        }
    }
    return rank;
}

void
oracle_split(const struct oracle_array *t, uint32_t axis, size_t *before,
             size_t *along, size_t *behind)
{
    uint32_t i;

    *before = *behind = *along = 1;
    for (i = 0; i < t->rank; i++) {
        size_t *of = i < axis ? before : i == axis ? along : behind;
        *of *= (size_t)t->d[i];
    }
}

/* ---- arguments -------------------------------------------------------- */

struct oracle_array *
oracle_t(const struct oracle *o, uint32_t k)
{
    return o->a[k].given ? o->a[k].t : NULL;
}

long double
oracle_num(const struct oracle *o, uint32_t k)
{
    return o->a[k].t ? o->a[k].t->v[0] : o->a[k].f;
}

int64_t
oracle_int(const struct oracle *o, uint32_t k)
{
    return o->a[k].i;
}

bool
oracle_flag(const struct oracle *o, uint32_t k)
{
    return o->a[k].given && o->a[k].i != 0;
}

uint32_t
oracle_axis(const struct oracle *o, uint32_t k, const struct oracle_array *t)
{
    int64_t i = o->a[k].i;

    return (uint32_t)(i < 0 && t->rank ? i + t->rank : i < 0 ? 0 : i);
}

const int64_t *
oracle_ints(const struct oracle *o, uint32_t k, uint32_t *n)
{
    const struct oracle_arg *a = &o->a[k];
    int64_t *list;
    uint32_t i;

    *n = !a->given ? 0 : a->kind == BELL_VALUE_LIST ? a->n : 1;
    list = arena_calloc(o->arena, *n + 1u, sizeof(*list));
    for (i = 0; i < *n && list; i++)
        list[i] = a->kind == BELL_VALUE_LIST ? a->items[i].i : a->i;
    return list;
}

uint32_t
oracle_axes(const struct oracle *o, uint32_t k, const struct oracle_array *t)
{
    uint32_t n, i, mask = 0;
    const int64_t *list = oracle_ints(o, k, &n);

    if (n == 0)
        return (1u << t->rank) - 1;
    for (i = 0; i < n; i++)
        mask |= 1u << (list[i] < 0 ? list[i] + t->rank : list[i]);
    return t->rank ? mask : 0;
}

char
oracle_reduction(const struct oracle *o, uint32_t k)
{
    return o->a[k].str[0];
}

/* ---- rows ------------------------------------------------------------- */

static const struct oracle_table *const tables[] = {
    &oracle_unary,  &oracle_binary, &oracle_reduce, &oracle_nn,  &oracle_loss,
    &oracle_create, &oracle_conv,   &oracle_shape,  &oracle_fft, &oracle_random,
    &oracle_select, &oracle_linalg, &oracle_order,
};

const struct oracle_row *
oracle_find(const char *name)
{
    size_t i, k;

    for (i = 0; i < ARRAY_LEN(tables); i++) {
        for (k = 0; k < tables[i]->n_rows; k++) {
            if (strcmp(tables[i]->rows[k].name, name) == 0)
                return &tables[i]->rows[k];
        }
    }
    return NULL;
}
