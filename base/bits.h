/* Small integer helpers. */
#ifndef BELL_BASE_BITS_H
#define BELL_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline bool
is_pow2(uint64_t x)
{
    return x && !(x & (x - 1));
}

/* Rounds up to a multiple of `align`, a power of two. */
static inline uint64_t
align_up(uint64_t x, uint64_t align)
{
    return (x + align - 1) & ~(align - 1);
}

static inline uint64_t
div_up(uint64_t x, uint64_t by)
{
    return (x + by - 1) / by;
}

/* Floor of the base-2 logarithm; x is not 0. */
static inline unsigned
log2_floor(uint64_t x)
{
    return 63u - (unsigned)__builtin_clzll(x);
}

/* For qsort. */
static inline int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The greatest power of two that divides x; 0 for 0, which all divide. */
static inline uint64_t
lowest_bit(uint64_t x)
{
    return x & (0 - x);
}

/* The one of two such that divides the other. */
static inline uint64_t
least_align(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return a | b;
    return a < b ? a : b;
}

/* Quotient and remainder that round towards minus infinity, as an index
 * expression means them; b is not 0. */
static inline int64_t
floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static inline int64_t
floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r && ((r < 0) != (b < 0)) ? r + b : r;
}

#endif
