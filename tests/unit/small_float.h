/* Small float formats by enumeration of their numbers: slow, and nothing like
 * what is tested with them. */
#ifndef BELL_TESTS_UNIT_SMALL_FLOAT_H
#define BELL_TESTS_UNIT_SMALL_FLOAT_H

#include <stdbool.h>
#include <stdint.h>

/* A small float format by enumeration: all its numbers that are not
 * negative, in order, and how many there are. */
struct small_format {
    unsigned bits, fraction, exponent;
    bool has_inf;
    double values[32768];
    uint32_t n;
};

/* Finds the numbers; before anything else. */
void small_fill(struct small_format *f);
double small_decode(const struct small_format *f, uint64_t bits);
/* To nearest, ties to even; long double holds what is rounded exactly. */
uint64_t small_encode(const struct small_format *f, long double d);
/* A value that is too large becomes the greatest number. */
uint64_t small_saturated(const struct small_format *f, float x);

#endif
