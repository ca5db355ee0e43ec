/* Drawn digits: 28x28 grey images of handwriting-like strokes, for training
 * where there is no data set. The same seed draws the same images (but for the
 * last bit of the C library's sine and cosine).
 */
#ifndef BELL_EXAMPLES_DEMO_DIGITS_H
#define BELL_EXAMPLES_DEMO_DIGITS_H

#include <stddef.h>
#include <stdint.h>

#define DIGITS_SIDE   28
#define DIGITS_PIXELS (DIGITS_SIDE * DIGITS_SIDE)

/* Random numbers of the tools: SplitMix64. */
struct rng {
    uint64_t state;
};

uint64_t rng_next(struct rng *rng);
/* Uniform in [0, 1). */
double rng_uniform(struct rng *rng);
/* Uniform integer in [0, n), n > 0. */
uint32_t rng_below(struct rng *rng, uint32_t n);

/* Draws n digits: images[i] of DIGITS_PIXELS bytes, 0 paper to 255 ink, and
 * labels[i] 0..9. Shapes vary in their strokes' points, thickness, slant,
 * rotation, scale, place and noise. */
void digits_draw(uint64_t seed, size_t n, uint8_t *images, uint8_t *labels);

#endif
