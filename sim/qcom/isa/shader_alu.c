/* Moves, conversions and arithmetic of Adreno's shaders.
 *
 * src: docs/hardware/adreno-code.md, "Encodings", "Arithmetic"
 */
#include <math.h>
#include <string.h>

#include "sim/qcom/isa/shader_internal.h"

/* What an operation takes its sources for. */
enum kind {
    KIND_FLOAT,
    KIND_SIGNED,
    KIND_UNSIGNED,
    KIND_BITS
};

static float
to_f32(uint32_t bits)
{
    float f;

    if ((bits & 0x7f800000) == 0)
        bits &= 0x80000000;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t
of_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if ((bits & 0x7f800000) == 0)
        bits &= 0x80000000;
    return bits;
}

static enum kind
kind_of(enum shader_op op)
{
    if (op >= SHADER_RCP && op <= SHADER_HEXP2)
        return KIND_FLOAT;
    switch ((int)op) {
    case SHADER_ADD_F:
    case SHADER_MIN_F:
    case SHADER_MAX_F:
    case SHADER_MUL_F:
    case SHADER_SIGN_F:
    case SHADER_CMPS_F:
    case SHADER_ABSNEG_F:
    case SHADER_FLOOR_F:
    case SHADER_CEIL_F:
    case SHADER_RNDNE_F:
    case SHADER_RNDAZ_F:
    case SHADER_TRUNC_F:
    case SHADER_MAD_F16:
    case SHADER_MAD_F32:
        return KIND_FLOAT;
    case SHADER_ADD_S:
    case SHADER_SUB_S:
    case SHADER_CMPS_S:
    case SHADER_MIN_S:
    case SHADER_MAX_S:
    case SHADER_ABSNEG_S:
    case SHADER_MUL_S24:
    case SHADER_ASHR_B:
    case SHADER_CLZ_S:
    case SHADER_MAD_S16:
    case SHADER_MAD_S24:
    case SHADER_SAD_S32:
        return KIND_SIGNED;
    case SHADER_AND_B:
    case SHADER_OR_B:
    case SHADER_NOT_B:
    case SHADER_XOR_B:
        return KIND_BITS;
    default:
        return KIND_UNSIGNED;
    }
}

/* Values as the operation takes them: floats as bits of float32, numbers
 * extended to 32 bits. */
static void
prepare(const struct shader_operand *o, bool is_half, enum kind kind,
        uint32_t n, uint32_t *x)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint32_t v = x[i];
        if (kind == KIND_FLOAT) {
            if (is_half)
                v = of_f32(shader_half_to_float(v));
            v &= o->abs ? 0x7fffffff : UINT32_MAX;
            v ^= o->neg ? 0x80000000 : 0;
        } else {
            if (is_half)
                v = kind == KIND_SIGNED ? (uint32_t)(int16_t)v : v & 0xffff;
            if (o->abs && (int32_t)v < 0)
                v = 0 - v;
            if (o->neg)
                v = kind == KIND_BITS ? ~v : 0 - v;
        }
        x[i] = v;
    }
}

/* Results to the width of the destination. */
static void
finish(const struct shader_insn *in, enum kind kind, bool src_half, uint32_t n,
       uint32_t *x)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint32_t v = x[i];
        if (kind == KIND_FLOAT) {
            if (in->sat) {
                float f = to_f32(v);
                v = of_f32(f > 0 ? f < 1 ? f : 1.0f : 0.0f);
            }
            if (src_half || in->dst_half)
                v = shader_float_to_half(to_f32(v));
            if (src_half && !in->dst_half)
                v = of_f32(shader_half_to_float(v));
        } else if (src_half && !in->dst_half) {
            v = kind == KIND_SIGNED ? (uint32_t)(int16_t)v : v & 0xffff;
        }
        x[i] = v;
    }
}

static bool
compare(uint32_t cond, bool lt, bool eq, bool unordered)
{
    switch (cond) {
    case 0:
        return lt;
    case 1:
        return lt || eq;
    case 2:
        return !lt && !eq && !unordered;
    case 3:
        return !lt && !unordered;
    case 4:
        return eq;
    default:
        return !eq;
    }
}

/* One unit off, up or down; of subnormal numbers the chips give nothing. */
static uint32_t
approximate(double exact, float x)
{
    uint32_t bits = of_f32((float)exact), e = bits >> 23 & 0xff;

    if (e == 0 || e >= 254 || fpclassify(x) == FP_SUBNORMAL)
        return bits;
    if ((bits & 0x7fffff) == 0) /* powers of two come out right */
        return bits;
    return (bits * 2654435761u) >> 31 ? bits + 1 : bits - 1;
}

static uint32_t
special(enum shader_op op, uint32_t bits)
{
    float x = to_f32(bits);

    switch ((int)op) {
    case SHADER_RCP:
        return approximate(1.0 / (double)x, x);
    case SHADER_RSQ:
    case SHADER_HRSQ:
        return approximate(1.0 / sqrt((double)x), x);
    case SHADER_LOG2:
    case SHADER_HLOG2:
        return approximate(log2((double)x), x);
    case SHADER_EXP2:
    case SHADER_HEXP2:
        return approximate(exp2((double)x), x);
    case SHADER_SIN:
        return approximate(sin((double)x), x);
    case SHADER_COS:
        return approximate(cos((double)x), x);
    default:
        return approximate(sqrt((double)x), x);
    }
}

#define EACH(expr)                                                             \
    do {                                                                       \
        for (i = 0; i < n; i++) {                                              \
            uint32_t a = x[i], b = y[i];                                       \
            (void)a, (void)b;                                                  \
            out[i] = (expr);                                                   \
        }                                                                      \
    } while (0)

static uint32_t
reversed(uint32_t v, bool is_half)
{
    uint32_t out = 0, i, n = is_half ? 16 : 32;

    for (i = 0; i < n; i++)
        out |= (v >> i & 1) << (n - 1 - i);
    return out;
}

/* From the highest bit that differs from the sign. */
static uint32_t
leading_of_signed(uint32_t a)
{
    a ^= (uint32_t)((int32_t)a >> 31);
    return a ? (uint32_t)__builtin_clz(a) : UINT32_MAX;
}

static bool
floats2(struct shader_wave *w, const struct shader_insn *in, const uint32_t *x,
        const uint32_t *y, uint32_t *out)
{
    uint32_t n = w->n_lanes, i;

#define A to_f32(a)
#define B to_f32(b)
    switch ((int)in->op) {
    case SHADER_ADD_F:
        EACH(of_f32(A + B));
        return true;
    case SHADER_MUL_F:
        EACH(of_f32(A * B));
        return true;
    case SHADER_MIN_F:
        EACH(of_f32(isnan(A) || B < A ? B : A));
        return true;
    case SHADER_MAX_F:
        EACH(of_f32(isnan(A) || B > A ? B : A));
        return true;
    case SHADER_SIGN_F:
        EACH(of_f32(A > 0 ? 1.0f : A < 0 ? -1.0f : A));
        return true;
    case SHADER_CMPS_F:
        EACH(compare(in->cond, A < B, A == B, isnan(A) || isnan(B)));
        return true;
    case SHADER_ABSNEG_F:
        EACH(of_f32(A));
        return true;
    case SHADER_FLOOR_F:
        EACH(of_f32(floorf(A)));
        return true;
    case SHADER_CEIL_F:
        EACH(of_f32(ceilf(A)));
        return true;
    case SHADER_RNDNE_F:
        EACH(of_f32(rintf(A)));
        return true;
    case SHADER_RNDAZ_F:
        EACH(of_f32(roundf(A)));
        return true;
    case SHADER_TRUNC_F:
        EACH(of_f32(truncf(A)));
        return true;
    }
#undef A
#undef B
    return shader_fail(w, in, "is not known here");
}

static bool
shifts(struct shader_wave *w, const struct shader_insn *in, const uint32_t *x,
       const uint32_t *y, uint32_t *out)
{
    uint32_t n = w->n_lanes, i;

    /* what more does is not known */
    for (i = 0; i < n; i++) {
        if (shader_lane_on(&w->active, i) && y[i] > 31)
            return shader_fail(w, in, "a shift by %u", y[i]);
    }
    if (in->op == SHADER_SHL_B)
        EACH(a << (b & 31));
    else if (in->op == SHADER_SHR_B)
        EACH(a >> (b & 31));
    else
        EACH((uint32_t)((int32_t)a >> (b & 31)));
    return true;
}

static bool
integers2(struct shader_wave *w, const struct shader_insn *in,
          const uint32_t *x, const uint32_t *y, uint32_t *out)
{
    bool is_half = in->src[0].is_half;
    uint32_t n = w->n_lanes, i;

    switch ((int)in->op) {
    case SHADER_ADD_U:
    case SHADER_ADD_S:
        EACH(a + b);
        return true;
    case SHADER_SUB_U:
    case SHADER_SUB_S:
        EACH(a - b);
        return true;
    case SHADER_CMPS_U:
        EACH(compare(in->cond, a < b, a == b, false));
        return true;
    case SHADER_CMPS_S:
        EACH(compare(in->cond, (int32_t)a < (int32_t)b, a == b, false));
        return true;
    case SHADER_MIN_U:
        EACH(a < b ? a : b);
        return true;
    case SHADER_MAX_U:
        EACH(a > b ? a : b);
        return true;
    case SHADER_MIN_S:
        EACH((int32_t)a < (int32_t)b ? a : b);
        return true;
    case SHADER_MAX_S:
        EACH((int32_t)a > (int32_t)b ? a : b);
        return true;
    case SHADER_ABSNEG_S:
        EACH(a);
        return true;
    case SHADER_NOT_B:
        EACH(~a);
        return true;
    case SHADER_AND_B:
        EACH(a & b);
        return true;
    case SHADER_OR_B:
        EACH(a | b);
        return true;
    case SHADER_XOR_B:
        EACH(a ^ b);
        return true;
    case SHADER_MUL_U24:
        EACH((a & 0xffffff) * (b & 0xffffff));
        return true;
    case SHADER_MUL_S24:
        EACH((uint32_t)((int64_t)((int32_t)(a << 8) >> 8) *
                        ((int32_t)(b << 8) >> 8)));
        return true;
    case SHADER_MULL_U:
        EACH((a & 0xffff) * (b & 0xffff));
        return true;
    case SHADER_BFREV_B:
        EACH(reversed(a, is_half));
        return true;
    case SHADER_CLZ_B:
        EACH(a ? (uint32_t)__builtin_clz(a) - (is_half ? 16 : 0) : UINT32_MAX);
        return true;
    case SHADER_CLZ_S:
        EACH(leading_of_signed(a));
        return true;
    case SHADER_CBITS_B:
        EACH((uint32_t)__builtin_popcount(a & 0xffff));
        return true;
    case SHADER_GETBIT_B:
        EACH(a >> (b & 31) & 1);
        return true;
    case SHADER_SHL_B:
    case SHADER_SHR_B:
    case SHADER_ASHR_B:
        return shifts(w, in, x, y, out);
    }
    return shader_fail(w, in, "is not known here");
}

static bool
alu3(struct shader_wave *w, const struct shader_insn *in, const uint32_t *x,
     const uint32_t *y, const uint32_t *z, uint32_t *out)
{
    uint32_t n = w->n_lanes, i;

    switch ((int)in->op) {
    case SHADER_MAD_F32:
    case SHADER_MAD_F16:
        /* that the product is rounded is a guess */
        for (i = 0; i < n; i++) {
            volatile float product = to_f32(x[i]) * to_f32(y[i]);
            out[i] = of_f32(to_f32(of_f32(product)) + to_f32(z[i]));
        }
        return true;
    case SHADER_SEL_B32:
    case SHADER_SEL_B16:
        EACH(b ? a : z[i]);
        return true;
    case SHADER_MADSH_M16:
        EACH(((a & 0xffff) * (b >> 16) << 16) + z[i]);
        return true;
    case SHADER_MAD_U16:
    case SHADER_MAD_S16:
        EACH(a * b + z[i]);
        return true;
    case SHADER_MAD_U24:
        EACH((a & 0xffffff) * (b & 0xffffff) + z[i]);
        return true;
    case SHADER_MAD_S24:
        EACH((uint32_t)((int64_t)((int32_t)(a << 8) >> 8) *
                        ((int32_t)(b << 8) >> 8)) +
             z[i]);
        return true;
    case SHADER_SAD_S32:
        EACH(a + b + z[i]);
        return true;
    case SHADER_SHRM:
        EACH((b >> (a & 31)) & z[i]);
        return true;
    case SHADER_SHLM:
        EACH((b << (a & 31)) & z[i]);
        return true;
    case SHADER_SHRG:
        EACH((b >> (a & 31)) | z[i]);
        return true;
    case SHADER_SHLG:
        EACH((b << (a & 31)) | z[i]);
        return true;
    case SHADER_ANDG:
        EACH((b & a) | z[i]);
        return true;
    }
    return shader_fail(w, in, "is not known here");
}

/* ---- conversions ---- */

static bool
is_float_type(uint32_t type)
{
    return type == SHADER_F16 || type == SHADER_F32;
}

static bool
is_signed_type(uint32_t type)
{
    return type == SHADER_S16 || type == SHADER_S32;
}

/* A whole number as float32: to nearest, or cut. */
static float
float_of(double value, bool to_nearest)
{
    float f = (float)value;

    if (!to_nearest && fabs((double)f) > fabs(value))
        f = nextafterf(f, 0);
    return f;
}

static double
rounded(double x, uint32_t round)
{
    return round == 0   ? trunc(x)
           : round == 1 ? rint(x)
           : round == 2 ? ceil(x)
                        : floor(x);
}

static bool
convert_one(struct shader_wave *w, const struct shader_insn *in, uint32_t x,
            uint32_t *out)
{
    uint32_t from = in->src_type, to = in->type;
    bool to_16 = to == SHADER_U16 || to == SHADER_S16;
    double value, lo, hi;
    float f;

    if (from == SHADER_F16 || from == SHADER_F32) {
        f = from == SHADER_F16 ? shader_half_to_float(x) : to_f32(x);
        if (to == SHADER_F32) {
            *out = of_f32(f);
            return true;
        }
        if (to == SHADER_F16) {
            *out = shader_float_to_half(f);
            /* cut, where it was rounded away from 0 */
            if (in->round == 0 && isfinite(f) && (*out & 0x7fff) &&
                fabsf(shader_half_to_float(*out)) > fabsf(f))
                *out -= 1;
            return true;
        }
        value = rounded((double)f, in->round);
        lo = is_signed_type(to) ? (to_16 ? -0x1p15 : -0x1p31) : 0;
        hi = is_signed_type(to) ? (to_16 ? 0x1p15 : 0x1p31)
                                : (to_16 ? 0x1p16 : 0x1p32);
        /* beyond the bounds nobody knows what it gives */
        if (!(value >= lo && value < hi))
            return shader_fail(w, in, "%g as a number", (double)f);
        *out = value < 0 ? (uint32_t)(int32_t)value : (uint32_t)value;
        return true;
    }
    if (from == SHADER_U8 || from == SHADER_U8_32) {
        if (!is_signed_type(to))
            return shader_fail(w, in, "does not extend 8 bits");
        *out = (uint32_t)(int8_t)x;
        return true;
    }
    if (from == SHADER_S16)
        x = (uint32_t)(int16_t)x;
    else if (from == SHADER_U16)
        x &= 0xffff;
    if (is_float_type(to)) {
        value = is_signed_type(from) ? (double)(int32_t)x : (double)x;
        f = float_of(value, in->round == 1);
        *out = to == SHADER_F32 ? of_f32(f) : shader_float_to_half(f);
        return true;
    }
    *out = to == SHADER_U8 || to == SHADER_U8_32 ? x & 0xff : x;
    return true;
}

static bool
move(struct shader_wave *w, const struct shader_insn *in, uint32_t step)
{
    uint32_t out[SHADER_MAX_LANES], i, dst = in->dst + step;
    struct shader_operand o = in->src[0];

    if (in->dst_rel)
        return shader_fail(w, in, "a destination by a0.x is not known here");
    if (!shader_source(w, in, &o, step, out))
        return false;
    if (in->dst == SHADER_A1)
        return shader_fail(w, in, "a1.x is not known here");
    for (i = 0; in->src_type != in->type && i < w->n_lanes; i++) {
        if (shader_lane_on(&w->active, i) &&
            !convert_one(w, in, out[i], &out[i]))
            return false;
    }
    return shader_put(w, in, dst, in->dst_half, out);
}

static bool
operate(struct shader_wave *w, const struct shader_insn *in, uint32_t step)
{
    enum kind kind = kind_of(in->op);
    uint32_t v[3][SHADER_MAX_LANES] = {{0}}, out[SHADER_MAX_LANES];
    bool is_half = in->src[0].is_half || in->src[1].is_half ||
                   in->src[2].is_half || shader_rows[in->op].is_half;
    bool is_compare = in->op == SHADER_CMPS_F || in->op == SHADER_CMPS_S ||
                      in->op == SHADER_CMPS_U;
    uint32_t i;
    bool ok;

    /* an immediate has no width of its own */
    if (in->cat == 2 || in->cat == 4)
        is_half = !(in->word >> 52 & 1) || shader_rows[in->op].is_half;
    else if (in->layout == SHADER_AS_ALU3B)
        is_half = !(in->word >> 42 & 1);
    if (in->ei || (in->sat && kind != KIND_FLOAT))
        return shader_fail(w, in, "(ei), (sat) of numbers: not known here");
    for (i = 0; i < 3; i++) {
        if (in->src[i].kind == SHADER_NO_OPERAND)
            continue;
        if (!shader_source(w, in, &in->src[i], step, v[i]))
            return false;
        prepare(&in->src[i], is_half, kind, w->n_lanes, v[i]);
    }
    if (in->cat == 4) {
        for (i = 0; i < w->n_lanes; i++)
            out[i] =
                shader_lane_on(&w->active, i) ? special(in->op, v[0][i]) : 0;
        ok = true;
    } else if (in->cat == 3) {
        ok = alu3(w, in, v[0], v[1], v[2], out);
    } else if (kind == KIND_FLOAT) {
        ok = floats2(w, in, v[0], v[1], out);
    } else {
        ok = integers2(w, in, v[0], v[1], out);
    }
    if (!ok)
        return false;
    if (!is_compare)
        finish(in, kind, is_half, w->n_lanes, out);
    return shader_put(w, in, in->dst + (in->dst < SHADER_FULLS ? step : 0),
                      in->dst_half, out);
}

/* Words of who runs. */
static bool
move_mask(struct shader_wave *w, const struct shader_insn *in)
{
    return shader_fail(w, in, "is not known here");
}

bool
shader_alu(struct shader_wave *w, const struct shader_insn *in)
{
    uint32_t step;

    if (in->layout == SHADER_AS_MOVMSK || in->layout == SHADER_AS_SWIZZLE)
        return move_mask(w, in);
    for (step = 0; step <= in->repeat; step++) {
        if (in->layout == SHADER_AS_MOVE ? !move(w, in, step)
                                         : !operate(w, in, step))
            return false;
    }
    return true;
}
