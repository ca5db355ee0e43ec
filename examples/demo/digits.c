/* Strokes of each digit, warped and drawn with soft edges. */
#include "examples/demo/digits.h"

#include <math.h>

#include "base/map.h"

#define MAX_POINTS 24

/* A point of a stroke in a unit square, y downwards. x of PEN_UP lifts the
 * pen: the next point begins a stroke. */
struct point {
    float x, y;
};
#define PEN_UP (-1.0f)
/* clang-format off */
#define UP {PEN_UP, 0}

/* Two ways to write each digit; a list ends at END. */
#define END {-2.0f, 0}
static const struct point glyphs[10][2][MAX_POINTS] = {
    {{{.50f, .02f}, {.26f, .12f}, {.14f, .38f}, {.14f, .64f}, {.28f, .90f},
      {.50f, .98f}, {.72f, .90f}, {.86f, .64f}, {.86f, .38f}, {.74f, .12f},
      {.50f, .02f}, END},
     {{.62f, .04f}, {.36f, .08f}, {.22f, .34f}, {.22f, .70f}, {.40f, .96f},
      {.62f, .92f}, {.76f, .66f}, {.76f, .30f}, {.62f, .04f}, END}},
    {{{.34f, .22f}, {.54f, .02f}, {.54f, .98f}, END},
     {{.52f, .02f}, {.50f, .50f}, {.48f, .98f}, END}},
    {{{.16f, .26f}, {.30f, .06f}, {.56f, .02f}, {.78f, .16f}, {.78f, .38f},
      {.52f, .66f}, {.14f, .98f}, {.86f, .98f}, END},
     {{.18f, .18f}, {.46f, .02f}, {.74f, .14f}, {.72f, .42f}, {.44f, .74f},
      {.18f, .92f}, {.24f, .80f}, {.44f, .84f}, {.66f, .96f}, {.88f, .88f},
      END}},
    {{{.18f, .12f}, {.46f, .02f}, {.76f, .12f}, {.76f, .34f}, {.44f, .46f},
      {.78f, .58f}, {.82f, .80f}, {.54f, .98f}, {.16f, .88f}, END},
     {{.16f, .04f}, {.80f, .04f}, {.46f, .40f}, {.74f, .50f}, {.82f, .74f},
      {.62f, .94f}, {.34f, .98f}, {.14f, .86f}, END}},
    {{{.66f, .98f}, {.66f, .02f}, {.10f, .66f}, {.92f, .66f}, END},
     {{.22f, .04f}, {.16f, .50f}, {.80f, .50f}, UP, {.74f, .04f}, {.70f, .98f},
      END}},
    {{{.80f, .04f}, {.26f, .04f}, {.20f, .44f}, {.50f, .36f}, {.80f, .50f},
      {.82f, .78f}, {.54f, .98f}, {.16f, .88f}, END},
     {{.30f, .08f}, {.24f, .42f}, {.56f, .42f}, {.74f, .62f}, {.66f, .88f},
      {.40f, .98f}, {.16f, .90f}, UP, {.30f, .06f}, {.82f, .02f}, END}},
    {{{.70f, .04f}, {.40f, .20f}, {.20f, .52f}, {.18f, .78f}, {.38f, .98f},
      {.66f, .96f}, {.82f, .76f}, {.70f, .54f}, {.44f, .50f}, {.22f, .66f},
      END},
     {{.44f, .02f}, {.28f, .34f}, {.24f, .74f}, {.40f, .96f}, {.62f, .92f},
      {.70f, .72f}, {.54f, .60f}, {.28f, .70f}, END}},
    {{{.14f, .04f}, {.86f, .04f}, {.58f, .46f}, {.42f, .98f}, END},
     {{.16f, .10f}, {.82f, .04f}, {.46f, .98f}, UP, {.34f, .52f}, {.74f, .50f},
      END}},
    {{{.50f, .48f}, {.24f, .34f}, {.26f, .12f}, {.50f, .02f}, {.74f, .12f},
      {.76f, .34f}, {.50f, .48f}, {.22f, .66f}, {.22f, .86f}, {.50f, .98f},
      {.78f, .86f}, {.78f, .66f}, {.50f, .48f}, END},
     {{.74f, .10f}, {.44f, .02f}, {.28f, .22f}, {.44f, .42f}, {.68f, .62f},
      {.70f, .86f}, {.46f, .98f}, {.26f, .84f}, {.34f, .60f}, {.64f, .36f},
      {.74f, .10f}, END}},
    {{{.80f, .30f}, {.66f, .06f}, {.36f, .04f}, {.18f, .26f}, {.32f, .48f},
      {.60f, .48f}, {.80f, .30f}, {.76f, .64f}, {.58f, .98f}, END},
     {{.72f, .18f}, {.48f, .02f}, {.26f, .20f}, {.34f, .42f}, {.60f, .40f},
      {.72f, .16f}, {.70f, .98f}, END}},
};
/* clang-format on */

uint64_t
rng_next(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15ull;
    return hash_mix(rng->state);
}

double
rng_uniform(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

uint32_t
rng_below(struct rng *rng, uint32_t n)
{
    return (uint32_t)((rng_next(rng) >> 32) * n >> 32);
}

/* Uniform in [low, high). */
static float
between(struct rng *rng, double low, double high)
{
    return (float)(low + (high - low) * rng_uniform(rng));
}

/* Places a glyph's points on the image. Returns how many. */
static size_t
place_glyph(struct rng *rng, const struct point *glyph, struct point *out)
{
    float angle = between(rng, -0.35, 0.35), slant = between(rng, -0.4, 0.4);
    float height = between(rng, 13.0, 22.0);
    float width = height * between(rng, 0.5, 1.0);
    float x0 = 13.5f + between(rng, -2.5, 2.5);
    float y0 = 13.5f + between(rng, -2.5, 2.5);
    float c = cosf(angle), s = sinf(angle);
    size_t n = 0;

    for (; glyph[n].x > -1.5f; n++) {
        float x = (glyph[n].x - 0.5f + between(rng, -0.09, 0.09)) * width;
        float y = (glyph[n].y - 0.5f + between(rng, -0.08, 0.08)) * height;
        x -= slant * y;
        out[n] = (struct point){x0 + c * x - s * y, y0 + s * x + c * y};
        if (glyph[n].x == PEN_UP)
            out[n].x = PEN_UP;
    }
    return n;
}

static int
clamp_pixel(float v)
{
    return v < 0 ? 0 : v > DIGITS_SIDE - 1 ? DIGITS_SIDE - 1 : (int)v;
}

/* Raises ink to what a pen of this radius leaves between two points. */
static void
draw_line(float *ink, struct point a, struct point b, float radius)
{
    float dx = b.x - a.x, dy = b.y - a.y;
    float len2 = dx * dx + dy * dy + 1e-6f, reach = radius + 1.0f;
    int x_min = clamp_pixel(fminf(a.x, b.x) - reach);
    int x_max = clamp_pixel(fmaxf(a.x, b.x) + reach + 1.0f);
    int y_min = clamp_pixel(fminf(a.y, b.y) - reach);
    int y_max = clamp_pixel(fmaxf(a.y, b.y) + reach + 1.0f);
    int x, y;

    for (y = y_min; y <= y_max; y++) {
        for (x = x_min; x <= x_max; x++) {
            float px = (float)x - a.x, py = (float)y - a.y;
            float t = fminf(1.0f, fmaxf(0.0f, (px * dx + py * dy) / len2));
            float ex = px - t * dx, ey = py - t * dy;
            float far = sqrtf(ex * ex + ey * ey) - radius;
            float value = fminf(1.0f, fmaxf(0.0f, 0.5f - far * 0.8f));
            float *pixel = &ink[y * DIGITS_SIDE + x];
            *pixel = fmaxf(*pixel, value);
        }
    }
}

static void
draw_digit(struct rng *rng, unsigned digit, uint8_t *image)
{
    float ink[DIGITS_PIXELS] = {0};
    struct point points[MAX_POINTS];
    size_t n = place_glyph(rng, glyphs[digit][rng_below(rng, 2)], points), i;
    float radius = between(rng, 0.5, 1.8), dark = between(rng, 0.5, 1.0);

    for (i = 0; i + 1 < n; i++) {
        if (points[i].x != PEN_UP && points[i + 1].x != PEN_UP)
            draw_line(ink, points[i], points[i + 1], radius);
    }
    for (i = 0; i < DIGITS_PIXELS; i++) {
        float noise = between(rng, -0.25, 0.25);
        float value = ink[i] * dark + noise * (ink[i] > 0.02f ? 1.0f : 0.4f);
        image[i] = (uint8_t)(fminf(1.0f, fmaxf(0.0f, value)) * 255.0f + 0.5f);
    }
}

void
digits_draw(uint64_t seed, size_t n, uint8_t *images, uint8_t *labels)
{
    size_t i;

    for (i = 0; i < n; i++) {
        /* Each image has its own stream, so that n does not change it. */
        struct rng rng = {hash_add(seed, i)};
        labels[i] = (uint8_t)rng_below(&rng, 10);
        draw_digit(&rng, labels[i], images + i * DIGITS_PIXELS);
    }
}
