/* Every arithmetic instruction of the PTX interpreter on random and on
 * difficult numbers, against what this file computes; ptxas takes the same
 * texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "ptx_run.h"
#include "small_float.h"

#define THREADS 72 /* two warps and a part */
#define ROUNDS  50

/* ---- numbers ---- */

static uint64_t rng = 7;

static uint64_t
next(void)
{
    rng += 0x9e3779b97f4a7c15ull;
    return hash_mix(rng);
}

static float
f32(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float f;

    memcpy(&f, &b, sizeof(f));
    return f;
}

static double
f64(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

static uint64_t
of32(float f)
{
    uint32_t b;

    memcpy(&b, &f, sizeof(b));
    return f != f ? 0x7fffffff : b;
}

static uint64_t
of64(double d)
{
    uint64_t b;

    memcpy(&b, &d, sizeof(b));
    return d != d ? 0x7fffffffffffffffull : b;
}

static struct small_format half = {16, 10, 5, true, {0}, 0};
static struct small_format brain = {16, 7, 8, true, {0}, 0};
static struct small_format e4m3 = {8, 3, 4, false, {0}, 0};
static struct small_format e5m2 = {8, 2, 5, true, {0}, 0};

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

/* ---- what instructions should give ---- */

#define H(name, expr)                                                          \
    static uint64_t h_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t d)   \
    {                                                                          \
        (void)a;                                                               \
        (void)b;                                                               \
        (void)c;                                                               \
        (void)d;                                                               \
        return (uint64_t)(expr);                                               \
    }
#define S32(x) ((int64_t)(int32_t)(x))
#define S16(x) ((int64_t)(int16_t)(x))
#define S8(x)  ((int64_t)(int8_t)(x))

static uint64_t
clamp(int64_t x, int64_t lo, int64_t hi)
{
    return (uint64_t)(x < lo ? lo : x > hi ? hi : x);
}

H(add, a + b)
H(sub, a - b)
H(mul, a *b)
H(mad, a *b + c)
H(hi_u32, a *b >> 32)
H(hi_s32, S32(a) * S32(b) >> 32)
H(hi_u16, a *b >> 16)
H(hi_u64, (uint64_t)((u128)a *b >> 64))
H(hi_s64, (uint64_t)((s128)(int64_t)a *(int64_t)b >> 64))
H(wide_s32, S32(a) * S32(b))
H(wide_s16, S16(a) * S16(b))
H(madwide_u32, a *b + c)
H(madwide_s32, (uint64_t)(S32(a) * S32(b)) + c)
H(madhi_s32, (uint64_t)(S32(a) * S32(b) >> 32) + c)
H(mul24_s, (S32(a << 8) >> 8) * (S32(b << 8) >> 8))
H(mul24_hi_u, (a & 0xffffff) * (b & 0xffffff) >> 16)
H(mad24_u, (a & 0xffffff) * (b & 0xffffff) + c)
H(addsat, clamp(S32(a) + S32(b), INT32_MIN, INT32_MAX))
H(subsat, clamp(S32(a) - S32(b), INT32_MIN, INT32_MAX))
H(div_u, b ? a / b : UINT64_MAX)
H(rem_u, b ? a % b : a)
H(div_s32, b ? S32(a) / S32(b) : -1)
H(rem_s32, b ? S32(a) % S32(b) : S32(a))
H(div_s64, b == 0            ? -1
           : b == UINT64_MAX ? (int64_t)(0 - a)
                             : (int64_t)a / (int64_t)b)
H(min_u, a < b ? a : b)
H(max_s32, S32(a) > S32(b) ? a : b)
H(min_s16, S16(a) < S16(b) ? a : b)
H(max_s64, (int64_t)a > (int64_t)b ? a : b)
H(neg, 0 - a)
H(abs_s32, S32(a) < 0 ? 0 - a : a)
H(abs_s64, (int64_t)a < 0 ? 0 - a : a)
H(sad_s32, (S32(a) < S32(b) ? b - a : a - b) + c)
H(sad_u32, (a < b ? b - a : a - b) + c)
H(and, a &b)
H(or, a | b)
H(xor, a ^ b)
H(not, ~a)
H(shl32, b > 31 ? 0 : a << b)
H(shl64, b > 63 ? 0 : a << b)
H(shr_u32, b > 31 ? 0 : a >> b)
H(shr_s32, S32(a) >> (b > 31 ? 31 : b))
H(shr_s64, (int64_t)a >> (b > 63 ? 63 : b))
H(shr_s16, S16(a) >> (b > 15 ? 15 : b))
H(shf_l_wrap, (b << 32 | a) << (c & 31) >> 32)
H(shf_r_clamp, (b << 32 | a) >> (c > 32 ? 32 : c))
H(popc, __builtin_popcountll(a))
H(clz32, a ? __builtin_clz((unsigned)a) : 32)
H(clz64, a ? __builtin_clzll(a) : 64)
H(bfind_u32, a ? 31 - __builtin_clz((unsigned)a) : -1)
H(bfind_s64, a == 0 || a == UINT64_MAX
                 ? -1
                 : 63 - __builtin_clzll((int64_t)a < 0 ? ~a : a))
H(selp, c & 1 ? a : b)
H(mov, a)

static uint64_t
h_brev(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t r = 0;
    int i;

    (void)b;
    (void)c;
    (void)d;
    for (i = 0; i < 32; i++)
        r |= (a >> i & 1) << (31 - i);
    return r;
}

/* Bit by bit. */
static uint64_t
field(uint64_t a, unsigned bits, uint64_t pos, uint64_t len, bool is_signed)
{
    uint64_t r = 0, p = pos & 255, n = len & 255, i, last = p + n - 1;
    bool fill;

    if (n == 0)
        return 0;
    fill = is_signed && a >> (last < bits ? last : bits - 1) & 1;
    for (i = 0; i < bits; i++) {
        if (i < n && p + i < bits)
            r |= (a >> (p + i) & 1) << i;
        else
            r |= (uint64_t)fill << i;
    }
    return r;
}
H(bfe_u32, field(a, 32, b, c, false))
H(bfe_s32, field(a, 32, b, c, true))
H(bfe_u64, field(a, 64, b, c, false))
H(bfe_s64, field(a, 64, b, c, true))

static uint64_t
inserted(uint64_t a, uint64_t b, unsigned bits, uint64_t pos, uint64_t len)
{
    uint64_t i, p = pos & 255, n = len & 255;

    for (i = 0; i < n && p + i < bits; i++) {
        b &= ~((uint64_t)1 << (p + i));
        b |= (i < 64 ? a >> i & 1 : 0) << (p + i);
    }
    return b;
}
H(bfi32, inserted(a, b, 32, c, d))
H(bfi64, inserted(a, b, 64, c, d))

static uint64_t
h_prmt(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint8_t bytes[8], out[4];
    uint32_t lo = (uint32_t)a, hi = (uint32_t)b, r;
    unsigned i, n;

    (void)d;
    memcpy(bytes, &lo, 4);
    memcpy(bytes + 4, &hi, 4);
    for (i = 0; i < 4; i++) {
        n = (unsigned)(c >> 4 * i) & 15;
        out[i] = n & 8 ? (uint8_t) - (bytes[n & 7] >> 7) : bytes[n];
    }
    memcpy(&r, out, 4);
    return r;
}

static uint64_t
dot(uint64_t a, uint64_t b, uint64_t c, bool sa, bool sb)
{
    int64_t sum = (int64_t)c;
    int i;

    for (i = 0; i < 32; i += 8)
        sum += (sa ? S8(a >> i) : (int64_t)(a >> i & 255)) *
               (sb ? S8(b >> i) : (int64_t)(b >> i & 255));
    return (uint64_t)sum;
}
H(dp4a_ss, dot(a, b, c, true, true))
H(dp4a_us, dot(a, b, c, false, true))

/* floats */
static float
flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static double
least(double x, double y)
{
    if (x == y)
        return signbit(x) ? x : y;
    return x != x ? y : y != y ? x : x < y ? x : y;
}

static float
sat(float x)
{
    return x > 0 ? (x < 1 ? x : 1) : 0;
}

H(addf, of32(f32(a) + f32(b)))
H(addf_ftz, of32(flush(flush(f32(a)) + flush(f32(b)))))
H(addf_sat, of32(sat(f32(a) + f32(b))))
H(subf, of32(f32(a) - f32(b)))
H(mulf, of32(f32(a) * f32(b)))
H(mulf_ftz, of32(flush(flush(f32(a)) * flush(f32(b)))))
H(fmaf, of32(fmaf(f32(a), f32(b), f32(c))))
H(divf, of32(f32(a) / f32(b)))
H(rcpf, of32(1 / f32(a)))
H(sqrtf, of32(sqrtf(f32(a))))
H(minf, of32((float)least((double)f32(a), (double)f32(b))))
H(maxf, of32(-(float)least(-(double)f32(a), -(double)f32(b))))
H(minf_nan, of32(f32(a) != f32(a) || f32(b) != f32(b)
                     ? NAN
                     : (float)least((double)f32(a), (double)f32(b))))
H(negf, a ^ 0x80000000u)
H(absf, a & 0x7fffffff)
H(copysignf, (a & 0x80000000u) | (b & 0x7fffffff))
H(addd, of64(f64(a) + f64(b)))
H(subd, of64(f64(a) - f64(b)))
H(muld, of64(f64(a) * f64(b)))
H(fmad, of64(fma(f64(a), f64(b), f64(c))))
H(divd, of64(f64(a) / f64(b)))
H(rcpd, of64(1 / f64(a)))
H(sqrtd, of64(sqrt(f64(a))))
H(mind, of64(least(f64(a), f64(b))))
H(negd, a ^ 1ull << 63)

/* Halves: sums and products of halves are exact in long double, fma's but
 * for bits far below what counts. */
#define HD(x)    ((long double)small_decode(&half, (x)&0xffff))
#define BD(x)    ((long double)small_decode(&brain, (x)&0xffff))
#define PAIR(fn) (fn(a >> 16, b >> 16, c >> 16, d) << 16 | fn(a, b, c, d))
H(addh, small_encode(&half, HD(a) + HD(b)))
H(subh, small_encode(&half, HD(a) - HD(b)))
H(mulh, small_encode(&half, HD(a) * HD(b)))
H(fmah, small_encode(&half, HD(a) * HD(b) + HD(c)))
H(fmah_relu,
  HD(a) * HD(b) + HD(c) <= 0 ? 0 : small_encode(&half, HD(a) * HD(b) + HD(c)))
H(minh, small_encode(&half, (long double)least((double)HD(a), (double)HD(b))))
H(maxh_nan, HD(a) != HD(a) || HD(b) != HD(b)
                ? 0x7fff
                : small_encode(&half, (long double)-least(-(double)HD(a),
                                                          -(double)HD(b))))
H(negh, (a ^ 0x8000) & 0xffff)
H(absh, a & 0x7fff)
H(ex2h, small_encode(&half, (long double)exp2((double)HD(a))))
H(tanhh, small_encode(&half, (long double)tanh((double)HD(a))))
H(addh2, PAIR(h_addh))
H(mulh2, PAIR(h_mulh))
H(fmah2, PAIR(h_fmah))
H(minh2, PAIR(h_minh))
H(negh2, PAIR(h_negh))
H(addb, small_encode(&brain, BD(a) + BD(b)))
H(mulb, small_encode(&brain, BD(a) * BD(b)))
H(maxb,
  small_encode(&brain, (long double)-least(-(double)BD(a), -(double)BD(b))))
H(ex2b, small_encode(&brain, (long double)exp2((double)BD(a))))
H(addb2, PAIR(h_addb))
H(maxb2, PAIR(h_maxb))

/* BF16's fma needs more than long double has: by size. */
static uint64_t
h_fmab(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    long double p = BD(a) * BD(b), z = BD(c), s = p + z, e;

    (void)d;
    if (!(fabsl(s) < INFINITY) || s == 0)
        return small_encode(&brain, s);
    /* what s leaves out decides only where s is half way between */
    e = fabsl(p) > fabsl(z) ? z - (s - p) : p - (s - z);
    return small_encode(&brain,
                        e == 0 ? s : nextafterl(s, copysignl(INFINITY, e)));
}
H(fmab2, PAIR(h_fmab))

/* comparisons: 1 where they hold */
H(lt_s32, S32(a) < S32(b))
H(hs_u32, a >= b)
H(lt_u16, a < b)
H(ge_s16, S16(a) >= S16(b))
H(lo_u64, a < b)
H(gt_s64, (int64_t)a > (int64_t)b)
H(ne, a != b)
H(lt_f, f32(a) < f32(b))
H(ltu_f, !(f32(a) >= f32(b)))
H(gtu_f, !(f32(a) <= f32(b)))
H(ne_f, f32(a) < f32(b) || f32(a) > f32(b))
H(neu_f, f32(a) != f32(b))
H(equ_f, !(f32(a) < f32(b) || f32(a) > f32(b)))
H(num_f, f32(a) == f32(a) && f32(b) == f32(b))
H(nan_d, f64(a) != f64(a) || f64(b) != f64(b))
H(ge_d, f64(a) >= f64(b))
H(leu_d, !(f64(a) > f64(b)))
H(lt_h, HD(a) < HD(b))
H(ge_b, BD(a) >= BD(b))
H(lt_ftz, flush(f32(a)) < flush(f32(b)))
H(and_lt, S32(a) < S32(b) && c & 1)
H(xor_not, (S32(a) < S32(b)) != !(c & 1))
H(or_second, S32(a) >= S32(b) || c & 1)
H(set_u32, S32(a) < S32(b) ? UINT32_MAX : 0)
H(set_f32, f32(a) < f32(b) ? 0x3f800000 : 0)
H(finite_f, isfinite(f32(a)))
H(sub_f, f32(a) != 0 && fabsf(f32(a)) < 0x1p-126f)
H(normal_f, isfinite(f32(a)) && (f32(a) == 0 || fabsf(f32(a)) >= 0x1p-126f))
H(inf_d, isinf(f64(a)) != 0)

/* conversions */
static uint64_t
whole(double d, double lo, double hi, bool is_signed)
{
    if (d != d)
        return 0;
    if (d <= lo)
        return (uint64_t)(int64_t)lo;
    if (d >= hi)
        return is_signed ? (uint64_t)((int64_t)(hi / 2) - 1) +
                               (uint64_t)(int64_t)(hi / 2)
                         : (hi == 0x1p64 ? UINT64_MAX : (uint64_t)hi - 1);
    return is_signed ? (uint64_t)(int64_t)d : (uint64_t)d;
}
H(s32_f32, whole(trunc((double)f32(a)), -0x1p31, 0x1p31, true))
H(u32_f32, whole(trunc((double)f32(a)), 0, 0x1p32, false))
H(s32_f32_rni, whole(nearbyint((double)f32(a)), -0x1p31, 0x1p31, true))
H(s32_f32_rmi, whole(floor((double)f32(a)), -0x1p31, 0x1p31, true))
H(u32_f32_rpi, whole(ceil((double)f32(a)), 0, 0x1p32, false))
H(s64_f64,
  f64(a) != f64(a) ? 1ull << 63 : whole(trunc(f64(a)), -0x1p63, 0x1p63, true))
H(u64_f32, f32(a) != f32(a) ? 1ull << 63
                            : whole(trunc((double)f32(a)), 0, 0x1p64, false))
H(s16_f16, whole(trunc((double)HD(a)), -0x1p15, 0x1p15, true))
H(s8_f32, S8(whole(trunc((double)f32(a)), -128, 128, true)))
H(f32_s32, of32((float)S32(a)))
H(f32_u64, of32((float)a))
H(f64_s64, of64((double)(int64_t)a))
H(f16_s32, small_encode(&half, (long double)S32(a)))
H(f16_u16, small_encode(&half, (long double)a))
H(bf16_s64, small_encode(&brain, (long double)(int64_t)a))
H(bf16_f16, small_encode(&brain, HD(a)))
H(f64_f32, of64((double)f32(a)))
H(f32_f64, of32((float)f64(a)))
H(f16_f64, small_encode(&half, (long double)f64(a)))
H(f16_f32, small_encode(&half, (long double)f32(a)))
H(bf16_f32, small_encode(&brain, (long double)f32(a)))
H(f32_f16, of32((float)HD(a)))
H(f32_bf16, of32((float)BD(a)))
H(f32_f32_rni, of32(nearbyintf(f32(a))))
H(f32_f32_rzi, of32(truncf(f32(a))))
H(f32_sat, of32(sat(f32(a))))
H(s32_s8, S8(a))
H(u64_s16, S16(a))
H(u32_u8, a & 255)
H(u8_sat, clamp(S32(a), 0, 255))
H(s16_sat, clamp((int64_t)a, INT16_MIN, INT16_MAX) & 0xffff)
H(s32_usat, a > INT32_MAX ? INT32_MAX : a)
H(h2, small_encode(&half, (long double)f32(a)) << 16 |
          small_encode(&half, (long double)f32(b)))
H(b2, small_encode(&brain, (long double)f32(a)) << 16 |
          small_encode(&brain, (long double)f32(b)))
H(b2_relu, (f32(a) <= 0 ? 0 : small_encode(&brain, (long double)f32(a))) << 16 |
               (f32(b) <= 0 ? 0 : small_encode(&brain, (long double)f32(b))))
H(e4m3, small_saturated(&e4m3, f32(a)) << 8 | small_saturated(&e4m3, f32(b)))
H(e5m2, small_saturated(&e5m2, f32(a)) << 8 | small_saturated(&e5m2, f32(b)))
H(e4m3_h2, small_saturated(&e4m3, (float)HD(a >> 16)) << 8 |
               small_saturated(&e4m3, (float)HD(a)))
H(h2_e4m3, small_encode(&half, (long double)small_decode(&e4m3, a >> 8)) << 16 |
               small_encode(&half, (long double)small_decode(&e4m3, a & 255)))
H(h2_e5m2, small_encode(&half, (long double)small_decode(&e5m2, a >> 8)) << 16 |
               small_encode(&half, (long double)small_decode(&e5m2, a & 255)))
H(tf32_rna, f32(a) != f32(a)                 ? 0x7fffffff
            : (a & 0x7f800000) == 0x7f800000 ? a
                                             : (a + 0x1000) & 0xffffe000)
H(tf32_rn, f32(a) != f32(a) ? 0x7fffffff
           : (a & 0x7f800000) == 0x7f800000
               ? a
               : (a + 0xfff + (a >> 13 & 1)) & 0xffffe000)

/* ---- the table ---- */

/* An instruction, what registers it takes: result:sources, h 16 bits, w 32,
 * d 64, p a predicate; small letters hold integers, capitals floats (H F16, B
 * BF16, Z a pair of F16, Y of BF16, W F32, D F64, 4 and 5 8-bit floats), s
 * numbers small enough to count bits. "|" in the text: p1 is the second
 * result. */
struct row {
    const char *insn, *regs;
    uint64_t (*fn)(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
};

/* clang-format off */
static const struct row rows[] = {
    {"add.u32", "w:ww", h_add}, {"add.s64", "d:dd", h_add},
    {"add.u16", "h:hh", h_add}, {"add.sat.s32", "w:ww", h_addsat},
    {"sub.s32", "w:ww", h_sub}, {"sub.sat.s32", "w:ww", h_subsat},
    {"sub.s16", "h:hh", h_sub}, {"mul.lo.u32", "w:ww", h_mul},
    {"mul.lo.s64", "d:dd", h_mul}, {"mul.lo.s16", "h:hh", h_mul},
    {"mul.hi.u32", "w:ww", h_hi_u32}, {"mul.hi.s32", "w:ww", h_hi_s32},
    {"mul.hi.u16", "h:hh", h_hi_u16}, {"mul.hi.u64", "d:dd", h_hi_u64},
    {"mul.hi.s64", "d:dd", h_hi_s64}, {"mul.wide.u32", "d:ww", h_mul},
    {"mul.wide.s32", "d:ww", h_wide_s32}, {"mul.wide.s16", "w:hh", h_wide_s16},
    {"mad.lo.s32", "w:www", h_mad}, {"mad.wide.u32", "d:wwd", h_madwide_u32},
    {"mad.wide.s32", "d:wwd", h_madwide_s32},
    {"mad.hi.s32", "w:www", h_madhi_s32}, {"mad.lo.u64", "d:ddd", h_mad},
    {"mul24.lo.s32", "w:ww", h_mul24_s},
    {"mul24.hi.u32", "w:ww", h_mul24_hi_u},
    {"mad24.lo.u32", "w:www", h_mad24_u},
    {"div.u32", "w:ww", h_div_u}, {"rem.u32", "w:ww", h_rem_u},
    {"div.s32", "w:ww", h_div_s32}, {"rem.s32", "w:ww", h_rem_s32},
    {"div.s64", "d:dd", h_div_s64}, {"div.u64", "d:dd", h_div_u},
    {"min.u32", "w:ww", h_min_u}, {"max.s32", "w:ww", h_max_s32},
    {"min.s16", "h:hh", h_min_s16}, {"max.s64", "d:dd", h_max_s64},
    {"min.u64", "d:dd", h_min_u}, {"neg.s32", "w:w", h_neg},
    {"neg.s16", "h:h", h_neg}, {"abs.s32", "w:w", h_abs_s32},
    {"abs.s64", "d:d", h_abs_s64}, {"sad.s32", "w:www", h_sad_s32},
    {"sad.u32", "w:www", h_sad_u32},
    {"and.b32", "w:ww", h_and}, {"or.b64", "d:dd", h_or},
    {"xor.b16", "h:hh", h_xor}, {"not.b32", "w:w", h_not},
    {"not.b16", "h:h", h_not}, {"not.b64", "d:d", h_not},
    {"and.pred", "p:pp", h_and}, {"or.pred", "p:pp", h_or},
    {"xor.pred", "p:pp", h_xor}, {"not.pred", "p:p", h_not},
    {"mov.pred", "p:p", h_mov}, {"mov.b16", "h:h", h_mov},
    {"shl.b32", "w:ws", h_shl32}, {"shl.b64", "d:ds", h_shl64},
    {"shr.u32", "w:ws", h_shr_u32}, {"shr.s32", "w:ws", h_shr_s32},
    {"shr.s64", "d:ds", h_shr_s64}, {"shr.s16", "h:hs", h_shr_s16},
    {"shf.l.wrap.b32", "w:wws", h_shf_l_wrap},
    {"shf.r.clamp.b32", "w:wws", h_shf_r_clamp},
    {"popc.b32", "w:w", h_popc}, {"popc.b64", "w:d", h_popc},
    {"clz.b32", "w:w", h_clz32}, {"clz.b64", "w:d", h_clz64},
    {"brev.b32", "w:w", h_brev}, {"bfind.u32", "w:w", h_bfind_u32},
    {"bfind.s64", "w:d", h_bfind_s64}, {"bfe.u32", "w:wss", h_bfe_u32},
    {"bfe.s32", "w:wss", h_bfe_s32}, {"bfe.u64", "d:dss", h_bfe_u64},
    {"bfe.s64", "d:dss", h_bfe_s64}, {"bfi.b32", "w:wwss", h_bfi32},
    {"bfi.b64", "d:ddss", h_bfi64}, {"prmt.b32", "w:www", h_prmt},
    {"dp4a.s32.s32", "w:www", h_dp4a_ss}, {"dp4a.u32.s32", "w:www", h_dp4a_us},
    {"selp.b32", "w:wwp", h_selp}, {"selp.f64", "d:ddp", h_selp},
    {"selp.b16", "h:hhp", h_selp},
    {"add.rn.f32", "w:WW", h_addf}, {"add.f32", "w:WW", h_addf},
    {"add.ftz.f32", "w:WW", h_addf_ftz}, {"add.sat.f32", "w:WW", h_addf_sat},
    {"sub.rn.f32", "w:WW", h_subf}, {"mul.rn.f32", "w:WW", h_mulf},
    {"mul.rn.ftz.f32", "w:WW", h_mulf_ftz},
    {"fma.rn.f32", "w:WWW", h_fmaf}, {"div.rn.f32", "w:WW", h_divf},
    {"rcp.rn.f32", "w:W", h_rcpf}, {"sqrt.rn.f32", "w:W", h_sqrtf},
    {"min.f32", "w:WW", h_minf}, {"max.f32", "w:WW", h_maxf},
    {"min.NaN.f32", "w:WW", h_minf_nan}, {"neg.f32", "w:W", h_negf},
    {"abs.f32", "w:W", h_absf}, {"copysign.f32", "w:WW", h_copysignf},
    {"add.rn.f64", "d:DD", h_addd}, {"sub.rn.f64", "d:DD", h_subd},
    {"mul.rn.f64", "d:DD", h_muld}, {"fma.rn.f64", "d:DDD", h_fmad},
    {"div.rn.f64", "d:DD", h_divd}, {"rcp.rn.f64", "d:D", h_rcpd},
    {"sqrt.rn.f64", "d:D", h_sqrtd}, {"min.f64", "d:DD", h_mind},
    {"neg.f64", "d:D", h_negd},
    {"add.rn.f16", "h:HH", h_addh}, {"sub.f16", "h:HH", h_subh},
    {"mul.rn.f16", "h:HH", h_mulh}, {"fma.rn.f16", "h:HHH", h_fmah},
    {"fma.rn.relu.f16", "h:HHH", h_fmah_relu}, {"min.f16", "h:HH", h_minh},
    {"max.NaN.f16", "h:HH", h_maxh_nan}, {"neg.f16", "h:H", h_negh},
    {"abs.f16", "h:H", h_absh}, {"ex2.approx.f16", "h:H", h_ex2h},
    {"tanh.approx.f16", "h:H", h_tanhh}, {"add.rn.f16x2", "w:ZZ", h_addh2},
    {"mul.f16x2", "w:ZZ", h_mulh2}, {"fma.rn.f16x2", "w:ZZZ", h_fmah2},
    {"min.f16x2", "w:ZZ", h_minh2}, {"neg.f16x2", "w:Z", h_negh2},
    {"add.rn.bf16", "h:BB", h_addb}, {"mul.rn.bf16", "h:BB", h_mulb},
    {"fma.rn.bf16", "h:BBB", h_fmab}, {"max.bf16", "h:BB", h_maxb},
    {"ex2.approx.ftz.bf16", "h:B", h_ex2b}, {"add.bf16x2", "w:YY", h_addb2},
    {"fma.rn.bf16x2", "w:YYY", h_fmab2}, {"max.bf16x2", "w:YY", h_maxb2},
    {"setp.lt.s32", "p:ww", h_lt_s32}, {"setp.hs.u32", "p:ww", h_hs_u32},
    {"setp.lt.u16", "p:hh", h_lt_u16}, {"setp.ge.s16", "p:hh", h_ge_s16},
    {"setp.lo.u64", "p:dd", h_lo_u64}, {"setp.gt.s64", "p:dd", h_gt_s64},
    {"setp.ne.b16", "p:hh", h_ne}, {"setp.ne.b64", "p:dd", h_ne},
    {"setp.lt.f32", "p:WW", h_lt_f}, {"setp.ltu.f32", "p:WW", h_ltu_f},
    {"setp.gtu.f32", "p:WW", h_gtu_f}, {"setp.ne.f32", "p:WW", h_ne_f},
    {"setp.neu.f32", "p:WW", h_neu_f}, {"setp.equ.f32", "p:WW", h_equ_f},
    {"setp.num.f32", "p:WW", h_num_f}, {"setp.nan.f64", "p:DD", h_nan_d},
    {"setp.ge.f64", "p:DD", h_ge_d}, {"setp.leu.f64", "p:DD", h_leu_d},
    {"setp.lt.f16", "p:HH", h_lt_h}, {"setp.ge.bf16", "p:BB", h_ge_b},
    {"setp.lt.ftz.f32", "p:WW", h_lt_ftz},
    {"setp.lt.and.s32", "p:wwp", h_and_lt},
    {"setp.lt.xor.s32 !", "p:wwp", h_xor_not},
    {"setp.lt.or.s32 |", "p:wwp", h_or_second},
    {"set.lt.u32.s32", "w:ww", h_set_u32},
    {"set.lt.f32.f32", "w:WW", h_set_f32},
    {"testp.finite.f32", "p:W", h_finite_f},
    {"testp.subnormal.f32", "p:W", h_sub_f},
    {"testp.normal.f32", "p:W", h_normal_f},
    {"testp.infinite.f64", "p:D", h_inf_d},
    {"cvt.rzi.s32.f32", "w:W", h_s32_f32},
    {"cvt.rzi.u32.f32", "w:W", h_u32_f32},
    {"cvt.rni.s32.f32", "w:W", h_s32_f32_rni},
    {"cvt.rmi.s32.f32", "w:W", h_s32_f32_rmi},
    {"cvt.rpi.u32.f32", "w:W", h_u32_f32_rpi},
    {"cvt.rzi.s64.f64", "d:D", h_s64_f64},
    {"cvt.rzi.u64.f32", "d:W", h_u64_f32},
    {"cvt.rzi.s16.f16", "h:H", h_s16_f16},
    {"cvt.rzi.s8.f32", "w:W", h_s8_f32},
    {"cvt.rn.f32.s32", "w:w", h_f32_s32}, {"cvt.rn.f32.u64", "w:d", h_f32_u64},
    {"cvt.rn.f64.s64", "d:d", h_f64_s64}, {"cvt.rn.f16.s32", "h:w", h_f16_s32},
    {"cvt.rn.f16.u16", "h:h", h_f16_u16},
    {"cvt.rn.bf16.s64", "h:d", h_bf16_s64},
    {"cvt.rn.bf16.f16", "h:H", h_bf16_f16},
    {"cvt.f64.f32", "d:W", h_f64_f32}, {"cvt.rn.f32.f64", "w:D", h_f32_f64},
    {"cvt.rn.f16.f64", "h:D", h_f16_f64}, {"cvt.rn.f16.f32", "h:W", h_f16_f32},
    {"cvt.rn.bf16.f32", "h:W", h_bf16_f32}, {"cvt.f32.f16", "w:H", h_f32_f16},
    {"cvt.f32.bf16", "w:B", h_f32_bf16},
    {"cvt.rni.f32.f32", "w:W", h_f32_f32_rni},
    {"cvt.rzi.f32.f32", "w:W", h_f32_f32_rzi},
    {"cvt.sat.f32.f32", "w:W", h_f32_sat},
    {"cvt.s32.s8", "w:w", h_s32_s8}, {"cvt.s64.s16", "d:h", h_u64_s16},
    {"cvt.u32.u8", "w:w", h_u32_u8}, {"cvt.u16.u32", "h:w", h_mov},
    {"cvt.sat.u8.s32", "w:w", h_u8_sat}, {"cvt.sat.s16.s64", "h:d", h_s16_sat},
    {"cvt.sat.s32.u32", "w:w", h_s32_usat},
    {"cvt.rn.f16x2.f32", "w:WW", h_h2}, {"cvt.rn.bf16x2.f32", "w:WW", h_b2},
    {"cvt.rn.relu.bf16x2.f32", "w:WW", h_b2_relu},
    {"cvt.rn.satfinite.e4m3x2.f32", "h:WW", h_e4m3},
    {"cvt.rn.satfinite.e5m2x2.f32", "h:WW", h_e5m2},
    {"cvt.rn.satfinite.e4m3x2.f16x2", "h:Z", h_e4m3_h2},
    {"cvt.rn.f16x2.e4m3x2", "w:4", h_h2_e4m3},
    {"cvt.rn.f16x2.e5m2x2", "w:5", h_h2_e5m2},
    {"cvt.rna.tf32.f32", "w:W", h_tf32_rna},
    {"cvt.rn.tf32.f32", "w:W", h_tf32_rn},
};
/* clang-format on */

/* ---- numbers to try ---- */

static uint64_t
integer(unsigned bits)
{
    static const uint64_t some[] = {0,  1,  2,   7,    31,
                                    32, 64, 255, 0x80, UINT64_MAX};
    uint64_t x = next(), v = next();

    if (x % 4 == 0)
        v = some[next() % ARRAY_LEN(some)];
    else if (x % 8 == 1)
        v = (uint64_t)1 << (bits - 1);
    else if (x % 8 == 2)
        v = ((uint64_t)1 << (bits - 1)) - 1;
    else if (x % 8 == 3)
        v = 0 - next() % 100;
    return bits == 64 ? v : v & (((uint64_t)1 << bits) - 1);
}

/* A float of a format with these bits; sometimes near 1, often special. */
static uint64_t
floating(unsigned bits, unsigned fraction)
{
    uint64_t x = next(), sign = (next() & 1) << (bits - 1);
    uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    uint64_t inf = (mask >> 1) & ~(((uint64_t)1 << fraction) - 1);
    uint64_t one = inf >> 1 & inf;

    switch (x % 10) {
    case 0:
        return sign;
    case 1:
        return sign | inf;
    case 2:
        return sign | inf | (1 + next() % (((uint64_t)1 << fraction) - 1));
    case 3: /* subnormal */
        return sign | (next() & (((uint64_t)1 << fraction) - 1));
    case 4:
    case 5: /* near 1 */
        return sign | (one + (next() % 8 << fraction) +
                       (next() & (((uint64_t)1 << fraction) - 1)));
    case 6:
        return sign | (inf - 1);
    default:
        return next() & mask;
    }
}

static uint64_t
value(char kind)
{
    switch (kind) {
    case 'h':
        return integer(16);
    case 'w':
        return integer(32);
    case 'd':
        return integer(64);
    case 'p':
        return next() & 1;
    case 's':
        return next() % 80;
    case 'H':
        return floating(16, 10);
    case 'B':
        return floating(16, 7);
    case 'W':
        return next() % 8 ? floating(32, 23)
                          : (floating(16, 10) & 0x7fff) << 16; /* few digits */
    case 'D':
        return next() % 4 ? floating(64, 52)
                          : of64((double)f32(floating(32, 23)));
    case 'Z':
        return floating(16, 10) << 16 | floating(16, 10);
    case 'Y':
        return floating(16, 7) << 16 | floating(16, 7);
    default:
        return next() & 0xffff;
    }
}

/* ---- kernels ---- */

static const char *
class_of(char kind)
{
    return strchr("hHB45", kind)   ? "h"
           : strchr("wsWZY", kind) ? "r"
           : strchr("dD", kind)    ? "rd"
                                   : "p";
}

/* Loads a source, which lies as 64 bits, into its register. */
static int
put_load(char *text, size_t size, char kind, int i)
{
    const char *cls = class_of(kind);
    int n = snprintf(text, size, "ld.global.u64 %%rd8, [%%rd2+%d];\n", i * 8);

    text += n;
    size -= (size_t)n;
    if (*cls == 'h')
        return n + snprintf(text, size, "cvt.u16.u64 %%h%d, %%rd8;\n", i);
    if (*cls == 'p')
        return n + snprintf(text, size, "setp.ne.u64 %%p%d, %%rd8, 0;\n", i);
    if (cls[1])
        return n + snprintf(text, size, "mov.u64 %%rd%d, %%rd8;\n", 4 + i);
    return n + snprintf(text, size, "cvt.u32.u64 %%r%d, %%rd8;\n", 4 + i);
}

static int
put_operand(char *text, size_t size, char kind, int i, bool negated)
{
    const char *cls = class_of(kind);

    return snprintf(text, size, ", %s%%%s%d", negated ? "!" : "", cls,
                    *cls == 'r' ? 4 + i : i);
}

static int
put_insn(char *text, size_t size, const struct row *row)
{
    size_t n = strcspn(row->insn, " ");
    bool second = strchr(row->insn, '|') != NULL;
    bool negated = strchr(row->insn, '!') != NULL;
    const char *src = row->regs + 2;
    int at, i;

    at = snprintf(text, size, "%.*s %s%%%s9", (int)n, row->insn,
                  second ? "%p8|" : "", class_of(row->regs[0]));
    for (i = 0; src[i]; i++)
        at += put_operand(text + at, size - (size_t)at, src[i], i,
                          negated && src[i] == 'p');
    return at + snprintf(text + at, size - (size_t)at, ";\n");
}

static int
put_store(char *text, size_t size, char kind)
{
    const char *cls = class_of(kind);
    const char *how = *cls == 'h'   ? "cvt.u64.u16 %rd8, %h9;"
                      : *cls == 'p' ? "selp.u64 %rd8, 1, 0, %p9;"
                      : cls[1]      ? "mov.u64 %rd8, %rd9;"
                                    : "cvt.u64.u32 %rd8, %r9;";

    return snprintf(text, size,
                    "%s\nst.global.u64 [%%rd2+32], %%rd8; ret;\n}\n", how);
}

static void
put_kernel(char *text, size_t size, const struct row *row, size_t number)
{
    const char *src = row->regs + 2;
    size_t at;
    int i;

    at = (size_t)snprintf(
        text, size,
        ".visible .entry k%zu(.param .u64 p, .param .u32 n)\n{\n"
        ".reg .b16 %%h<10>; .reg .b32 %%r<10>; .reg .b64 %%rd<10>; "
        ".reg .pred %%p<10>;\nld.param.u64 %%rd1, [p]; cvta.to.global.u64 "
        "%%rd1, %%rd1;\nmov.u32 %%r0, %%tid.x; mad.wide.u32 %%rd2, %%r0, 40, "
        "%%rd1;\n",
        number);
    for (i = 0; src[i]; i++)
        at += (size_t)put_load(text + at, size - at, src[i], i);
    at += (size_t)put_insn(text + at, size - at, row);
    put_store(text + at, size - at, row->regs[0]);
}

static uint64_t
result_mask(char kind)
{
    return kind == 'p'   ? 1
           : kind == 'h' ? 0xffff
           : kind == 'w' ? UINT32_MAX
                         : UINT64_MAX;
}

static void
check_row(const struct sim_ptx_module *module, const struct row *row,
          size_t number)
{
    uint64_t data[THREADS][5], want, mask = result_mask(row->regs[0]);
    const char *src = row->regs + 2;
    char name[16];
    int i, k;

    snprintf(name, sizeof(name), "k%zu", number);
    for (i = 0; i < THREADS; i++) {
        memset(data[i], 0, sizeof(data[i]));
        for (k = 0; src[k]; k++)
            data[i][k] = value(src[k]);
        if (src[0] && src[0] == src[1] && next() % 8 == 0)
            data[i][1] = data[i][0];
    }
    ptx_run_ok(&(struct ptx_run){.module = module,
                                 .text = row->insn,
                                 .kernel = name,
                                 .data = data,
                                 .data_bytes = sizeof(data),
                                 .blocks = 1,
                                 .threads = THREADS});
    for (i = 0; i < THREADS; i++) {
        want = row->fn(data[i][0], data[i][1], data[i][2], data[i][3]) & mask;
        if (data[i][4] != want)
            fail_msg("%s of 0x%llx, 0x%llx, 0x%llx, 0x%llx is 0x%llx, not "
                     "0x%llx",
                     row->insn, (unsigned long long)data[i][0],
                     (unsigned long long)data[i][1],
                     (unsigned long long)data[i][2],
                     (unsigned long long)data[i][3],
                     (unsigned long long)data[i][4], (unsigned long long)want);
    }
}

static void
test_instructions(void **state)
{
    static char module[ARRAY_LEN(rows) * 1200];
    size_t at = strlen(PTX_HEAD), i;
    struct sim_ptx_module *m;
    int round;

    (void)state;
    small_fill(&half);
    small_fill(&brain);
    small_fill(&e4m3);
    small_fill(&e5m2);
    memcpy(module, PTX_HEAD, at);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        put_kernel(module + at, sizeof(module) - at, &rows[i], i);
        at += strlen(module + at);
    }
    if (sim_ptx_parse(module, &m) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (round = 0; round < ROUNDS; round++)
            check_row(m, &rows[i], i);
    }
    sim_ptx_destroy(m);
    ptx_run_keep(module);
    print_message("%zu instructions\n", ARRAY_LEN(rows));
}

/* lop3 has a constant, pairs of predicates two results, packs braces. */
static void
test_forms(void **state)
{
    static const char text[] = PTX_KERNEL(
        PTX_START
        ".reg .b16 %h<4>; .reg .b64 %q;\n"
        "lop3.b32 %r2, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xe8;\n"
        "st.global.u32 [%rd2], %r2;\n"
        "mov.b64 %q, {%r1, %r2}; mov.b64 {%h0, %h1, %h2, %h3}, %q;\n"
        "mov.b32 %r3, {%h2, %h0}; st.global.u32 [%rd2+128], %r3;\n"
        "mov.b32 %r4, 0x3c004000; mov.b32 %r5, 0x40003c00;\n"
        "setp.lt.f16x2 %p1|%p2, %r4, %r5; selp.u32 %r6, 1, 0, %p1;\n"
        "@%p2 add.u32 %r6, %r6, 2; st.global.u32 [%rd2+256], %r6;\n"
        "{ .reg .u32 %r1; mov.u32 %r1, 5; { .reg .u32 %r1; mov.u32 %r1, 6;\n"
        "st.global.u32 [%rd2+384], %r1; bra in; in: } bra in; in: }\n"
        "bra in; in: .pragma \"nounroll\";");
    uint32_t data[128], i;

    (void)state;
    ptx_run_ok(&(struct ptx_run){.text = text,
                                 .data = data,
                                 .data_bytes = sizeof(data),
                                 .blocks = 1,
                                 .threads = 32});
    for (i = 0; i < 32; i++) {
        assert_int_equal(data[i], 0xe8e8e8e8);
        assert_int_equal(data[32 + i], i << 16 | 0xe8e8);
        assert_int_equal(data[64 + i], 2);
        assert_int_equal(data[96 + i], 6);
    }
}

static void
test_assembler(void **state)
{
    (void)state;
    print_message("%u modules assembled\n", ptx_run_assemble());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
