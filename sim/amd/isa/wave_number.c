/* Conversions of small floats. */
#include <assert.h>
#include <math.h>

#include "sim/amd/isa/wave_internal.h"

float
wave_half_to_float(uint32_t bits)
{
    uint32_t sign = (bits & 0x8000) << 16, exp = bits >> 10 & 31;
    uint32_t man = bits & 0x3ff;

    if (exp == 31)
        return wave_f32(sign | 0x7f800000 | man << 13);
    if (exp == 0) {
        float value = (float)man * 0x1p-24f;
        return sign ? -value : value;
    }
    return wave_f32(sign | (exp + 112) << 23 | man << 13);
}

/* A finite value rounded to a multiple of 2^step_exp, ties to even: exact,
 * since a double holds all that is shifted. */
static double
round_to(double value, int step_exp)
{
    return ldexp(rint(ldexp(value, -step_exp)), step_exp);
}

/* Sign, exponent and mantissa of an already rounded finite value. */
static uint32_t
pack_small(double value, unsigned man_bits, int min_exp, int bias)
{
    uint32_t sign = signbit(value) ? 1u : 0u;
    double mag = fabs(value);
    int exp;

    assert(man_bits > 0 && man_bits < 24);
    if (mag < ldexp(1, min_exp))
        return sign << 31 | (uint32_t)ldexp(mag, (int)man_bits - min_exp);
    (void)frexp(mag, &exp);
    exp -= 1;
    return sign << 31 | (uint32_t)(exp + bias) << man_bits |
           ((uint32_t)ldexp(mag, (int)man_bits - exp) & ((1u << man_bits) - 1));
}

uint32_t
wave_double_to_half(double value)
{
    uint32_t sign = signbit(value) ? 0x8000u : 0u, bits;
    int exp;

    if (isnan(value))
        return sign | 0x7e00;
    if (isinf(value))
        return sign | 0x7c00;
    if (value == 0)
        return sign;
    (void)frexp(value, &exp);
    exp = exp - 1 < -14 ? -14 : exp - 1;
    value = round_to(value, exp - 10);
    if (fabs(value) >= 65536)
        return sign | 0x7c00;
    bits = pack_small(value, 10, -14, 15);
    return sign | (bits & 0x7fff);
}

uint32_t
wave_float_to_half(float value)
{
    return wave_double_to_half((double)value);
}

uint32_t
wave_float_to_half_rtz(float value)
{
    uint32_t bits = wave_double_to_half((double)value);

    if (isnan(value) || isinf(value))
        return bits;
    if ((bits & 0x7fff) && fabsf(wave_half_to_float(bits)) > fabsf(value))
        bits--;
    return bits;
}

uint32_t
wave_float_to_bf16(float value)
{
    uint32_t bits = wave_u32(value);

    if (isnan(value))
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

float
wave_fp8_to_float(uint32_t bits, struct wave_fp8 format)
{
    unsigned man_bits = format.is_bf8 ? 2 : 3;
    int bias = (format.is_bf8 ? 15 : 7) + (format.is_ocp ? 0 : 1);
    uint32_t exp = (bits & 0x7f) >> man_bits;
    uint32_t man = bits & ((1u << man_bits) - 1);
    float value;

    if (!format.is_ocp && (bits & 0xff) == 0x80)
        return wave_f32(0x7fc00000);
    if (format.is_ocp && format.is_bf8 && exp == 31)
        return wave_f32((bits & 0x80) << 24 | 0x7f800000 |
                        (man ? 0x400000 : 0));
    if (format.is_ocp && !format.is_bf8 && (bits & 0x7f) == 0x7f)
        return wave_f32((bits & 0x80) << 24 | 0x7fc00000);
    if (exp == 0)
        value = ldexpf((float)man, 1 - bias - (int)man_bits);
    else
        value = ldexpf((float)(man | 1u << man_bits),
                       (int)exp - bias - (int)man_bits);
    return bits & 0x80 ? -value : value;
}

/* What stands for a NaN, or for what is too large. */
static uint32_t
special_fp8(float value, struct wave_fp8 format)
{
    uint32_t sign = signbit(value) ? 0x80u : 0;

    if (!format.is_ocp)
        return 0x80;
    if (!format.is_bf8)
        return sign | 0x7f;
    return sign | (isnan(value) ? 0x7eu : 0x7cu);
}

uint32_t
wave_float_to_fp8(float value, struct wave_fp8 format)
{
    unsigned man_bits = format.is_bf8 ? 2 : 3;
    int bias = (format.is_bf8 ? 15 : 7) + (format.is_ocp ? 0 : 1);
    int min_exp = 1 - bias, exp;
    double rounded, max = format.is_bf8 ? 57344 : format.is_ocp ? 448 : 240;
    uint32_t bits;

    if (isnan(value) || isinf(value))
        return special_fp8(value, format);
    if (value == 0)
        return format.is_ocp && signbit(value) ? 0x80 : 0;
    (void)frexp((double)value, &exp);
    exp = exp - 1 < min_exp ? min_exp : exp - 1;
    rounded = round_to((double)value, exp - (int)man_bits);
    if (fabs(rounded) > max)
        return special_fp8(value, format);
    bits = pack_small(rounded, man_bits, min_exp, bias);
    if (!format.is_ocp && (bits & 0x7f) == 0)
        return 0;
    return (bits >> 31) << 7 | (bits & 0x7f);
}
