/* Inputs of collectives, and their sums by plain loops. */
#include "collective_numbers.h"

#include <assert.h>
#include <string.h>

#define BLOCK_BYTES 4096u

union block {
    uint8_t bytes[BLOCK_BYTES];
    uint16_t halves[BLOCK_BYTES / 2];
    uint32_t words[BLOCK_BYTES / 4];
    uint64_t longs[BLOCK_BYTES / 8];
    float floats[BLOCK_BYTES / 4];
    double doubles[BLOCK_BYTES / 8];
};

uint64_t
numbers_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static float
float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t
bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* ---- halves -------------------------------------------------------------- */

static float
from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    float tiny = (float)rest * 0x1p-24f; /* exact */
    uint32_t normal = (rest << 13) + (112u << 23);

    return float_of(sign | (rest < 0x400 ? bits_of(tiny) : normal));
}

/* To nearest, ties to even. Below the least normal number an addition rounds:
 * the last bit of 0.5 is 2^-24. */
static uint16_t
to_half(float x)
{
    uint32_t sign = bits_of(x) >> 16 & 0x8000u, a = bits_of(x) & 0x7fffffffu;
    uint32_t tiny = bits_of(float_of(a) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t h = a < bits_of(0x1p-14f) ? tiny : normal;

    return (uint16_t)(sign | (a >= bits_of(65520.0f) ? 0x7c00 : h));
}

static uint16_t
to_bfloat(float x)
{
    uint32_t bits = bits_of(x);

    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* ---- inputs -------------------------------------------------------------- */

/* How floats of a dtype are made of bits. */
struct form {
    unsigned n_bits, n_mantissa;
    uint64_t bias;
};

static const struct form forms[HCQ_DTYPE_COUNT] = {
    [HCQ_DTYPE_F16] = {16, 10, 15},
    [HCQ_DTYPE_BF16] = {16, 7, 127},
    [HCQ_DTYPE_F32] = {32, 23, 127},
    [HCQ_DTYPE_F64] = {64, 52, 1023},
};

static uint64_t
float_bits(const struct form *form, uint64_t r)
{
    uint64_t sign = 1ull << (form->n_bits - 1), e = (r >> 52 & 255) * 12 >> 8;
    uint64_t mantissa = (1ull << form->n_mantissa) - 1;

    return (r & (sign | mantissa)) | (form->bias - 6 + e) << form->n_mantissa;
}

/* -15 to 16: the first 1 bit becomes the hidden one. */
static uint64_t
whole_bits(const struct form *form, uint64_t r)
{
    int x = (int)(r & 31) - 15;
    uint64_t sign = x < 0 ? 1ull << (form->n_bits - 1) : 0;
    uint64_t a = (uint64_t)(x < 0 ? -x : x), e = 0;

    while (a >> (e + 1))
        e++;
    if (a == 0)
        return 0;
    return sign | (form->bias + e) << form->n_mantissa |
           (a ^ 1ull << e) << (form->n_mantissa - e);
}

static void
fill_floats(const struct form *form, const uint64_t *wholes, union block *b,
            uint64_t *state)
{
    uint32_t n = BLOCK_BYTES * 8 / form->n_bits, i;

    for (i = 0; i < n; i++) {
        uint64_t r = numbers_random(state);
        uint64_t bits = wholes ? wholes[r & 31] : float_bits(form, r);

        if (form->n_bits == 16)
            b->halves[i] = (uint16_t)bits;
        else if (form->n_bits == 32)
            b->words[i] = (uint32_t)bits;
        else
            b->longs[i] = bits;
    }
}

void
numbers_fill(enum hcq_dtype dtype, bool whole, uint8_t *to, uint64_t n_bytes,
             uint64_t *state)
{
    uint64_t wholes[32], at, i, rest = n_bytes % hcq_dtype_bytes(dtype);
    const struct form *form = &forms[dtype];
    union block b;

    for (i = 0; i < 32 && form->n_bits; i++)
        wholes[i] = whole_bits(form, i);
    for (at = 0; at < n_bytes; at += BLOCK_BYTES) {
        if (form->n_bits) {
            fill_floats(form, whole ? wholes : NULL, &b, state);
        } else {
            for (i = 0; i < BLOCK_BYTES / 8; i++)
                b.longs[i] = numbers_random(state);
            for (i = 0; i < BLOCK_BYTES / 8 && dtype == HCQ_DTYPE_BOOL; i++)
                b.longs[i] &= b.longs[i] >> 1 & 0x0101010101010101ull;
        }
        memcpy(to + at, b.bytes,
               n_bytes - at < BLOCK_BYTES ? n_bytes - at : BLOCK_BYTES);
    }
    memset(to + n_bytes - rest, 0, rest);
}

/* ---- sums ---------------------------------------------------------------- */

/* Adds a block; 8-bit and wider words wrap around. */
static void
add_block(enum hcq_dtype dtype, union block *sum, const union block *x)
{
    uint32_t i, n = BLOCK_BYTES / hcq_dtype_bytes(dtype);

    switch (dtype) {
    case HCQ_DTYPE_BOOL:
        for (i = 0; i < n; i++)
            sum->bytes[i] |= x->bytes[i];
        return;
    case HCQ_DTYPE_I8:
    case HCQ_DTYPE_U8:
        for (i = 0; i < n; i++)
            sum->bytes[i] = (uint8_t)(sum->bytes[i] + x->bytes[i]);
        return;
    case HCQ_DTYPE_I32:
        for (i = 0; i < n; i++)
            sum->words[i] += x->words[i];
        return;
    case HCQ_DTYPE_I64:
        for (i = 0; i < n; i++)
            sum->longs[i] += x->longs[i];
        return;
    case HCQ_DTYPE_F32:
        for (i = 0; i < n; i++)
            sum->floats[i] += x->floats[i];
        return;
    case HCQ_DTYPE_F64:
        for (i = 0; i < n; i++)
            sum->doubles[i] += x->doubles[i];
        return;
    case HCQ_DTYPE_F16:
    case HCQ_DTYPE_BF16:
    case HCQ_DTYPE_COUNT:
        break;
    }
    assert(!"halves are added in float32");
}

static void
add_halves(enum hcq_dtype dtype, float *sum, const union block *x, bool first)
{
    uint32_t i;

    for (i = 0; i < BLOCK_BYTES / 2; i++) {
        float term = dtype == HCQ_DTYPE_F16
                         ? from_half(x->halves[i])
                         : float_of((uint32_t)x->halves[i] << 16);

        sum[i] = first ? term : sum[i] + term;
    }
}

static void
round_halves(enum hcq_dtype dtype, const float *sum, union block *to)
{
    uint32_t i;

    for (i = 0; i < BLOCK_BYTES / 2; i++)
        to->halves[i] =
            dtype == HCQ_DTYPE_F16 ? to_half(sum[i]) : to_bfloat(sum[i]);
}

void
numbers_sum(enum hcq_dtype dtype, uint8_t *const *terms, uint32_t n,
            uint64_t n_bytes, uint8_t *to)
{
    bool is_half = dtype == HCQ_DTYPE_F16 || dtype == HCQ_DTYPE_BF16;
    union block sum = {{0}}, x = {{0}};
    float wide[BLOCK_BYTES / 2];
    uint64_t at, left;
    uint32_t r;

    assert(n > 0);
    for (at = 0; at < n_bytes; at += BLOCK_BYTES) {
        left = n_bytes - at < BLOCK_BYTES ? n_bytes - at : BLOCK_BYTES;
        memcpy(sum.bytes, terms[0] + at, left);
        if (is_half)
            add_halves(dtype, wide, &sum, true);
        for (r = 1; r < n; r++) {
            memcpy(x.bytes, terms[r] + at, left);
            if (is_half)
                add_halves(dtype, wide, &x, false);
            else
                add_block(dtype, &sum, &x);
        }
        if (is_half)
            round_halves(dtype, wide, &sum);
        memcpy(to + at, sum.bytes, left);
    }
}
