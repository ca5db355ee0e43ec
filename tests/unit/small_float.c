/* See small_float.h. */
#include "small_float.h"

#include <math.h>

void
small_fill(struct small_format *f)
{
    uint32_t i, last = 1u << (f->bits - 1);
    int bias = (1 << (f->exponent - 1)) - 1;

    for (i = 0; i < last; i++) {
        int e = (int)(i >> f->fraction);
        double m = i & ((1u << f->fraction) - 1);
        if (f->has_inf && e == (1 << f->exponent) - 1)
            break;
        if (!f->has_inf && i == last - 1)
            break;
        m = e ? m + (1 << f->fraction) : m;
        f->values[i] = m * pow(2, (e ? e : 1) - bias - (int)f->fraction);
    }
    f->n = i;
}

double
small_decode(const struct small_format *f, uint64_t bits)
{
    uint32_t top = 1u << (f->bits - 1), i = (uint32_t)bits & (top - 1);
    double d = i < f->n                  ? f->values[i]
               : f->has_inf && i == f->n ? INFINITY
                                         : NAN;

    return bits & top ? -d : d;
}

uint64_t
small_encode(const struct small_format *f, long double d)
{
    uint64_t sign = signbit(d) ? 1u << (f->bits - 1) : 0;
    uint32_t lo = 0, hi = f->n - 1, mid;
    long double a, b, x = fabsl(d);
    double step = f->values[f->n - 1] - f->values[f->n - 2];

    if (d != d)
        return (1u << (f->bits - 1)) - 1;
    if (x >= (long double)f->values[f->n - 1] + (long double)step / 2)
        return sign | f->n;
    while (hi - lo > 1) {
        mid = (lo + hi) / 2;
        if ((long double)f->values[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    a = x - (long double)f->values[lo];
    b = (long double)f->values[hi] - x;
    return sign | (a < b || (a == b && lo % 2 == 0) ? lo : hi);
}

uint64_t
small_saturated(const struct small_format *f, float x)
{
    float max = (float)f->values[f->n - 1];

    return small_encode(f, x > max ? max : x < -max ? -max : x);
}
