/* Floats in scalar registers, which gfx11.5 and gfx12 have. The operations are
 * those of the vector instructions by these names. src: AMD's RDNA 4
 * instruction set guide, SOP1, SOP2, SOPC. Halves are rounded once, from a
 * double. */
#include <assert.h>
#include <math.h>

#include "sim/amd/isa/wave_internal.h"

static float
read_f32(struct wave *w, const struct isa_insn *in, unsigned i)
{
    uint32_t bits = wave_read_scalar(w, in, in->src[i]);

    assert(i < 3);
    if (wave_flushes(w) && (bits & 0x7f800000) == 0)
        bits &= 0x80000000;
    return wave_f32(bits);
}

static double
read_f16(struct wave *w, const struct isa_insn *in, unsigned i)
{
    double constant;

    assert(i < 3);
    if (wave_float_constant(in->src[i], &constant))
        return (double)wave_half_to_float(wave_double_to_half(constant));
    return (double)wave_half_to_float(wave_read_scalar(w, in, in->src[i]) &
                                      0xffff);
}

static bool
write_f32(struct wave *w, const struct isa_insn *in, float value)
{
    uint32_t bits = wave_u32(value);

    if (wave_flushes(w) && (bits & 0x7f800000) == 0)
        bits &= 0x80000000;
    wave_write_scalar(w, in->sdst, bits);
    return !w->group->failed;
}

static bool
write_f16(struct wave *w, const struct isa_insn *in, double value)
{
    wave_write_scalar(w, in->sdst, wave_double_to_half(value));
    return !w->group->failed;
}

/* A NaN is the smallest and the largest of all. */
static float
pick_f32(float a, float b, bool less)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return less ? wave_min_f32(a, b) : wave_max_f32(a, b);
}

static bool
compare_floats(struct wave *w, const struct isa_insn *in)
{
    bool halves = in->type == ISA_F16;
    double a = halves ? read_f16(w, in, 0) : (double)read_f32(w, in, 0);
    double b = halves ? read_f16(w, in, 1) : (double)read_f32(w, in, 1);
    unsigned outcome = a < b    ? ISA_LT
                       : a == b ? ISA_EQ
                       : a > b  ? ISA_GT
                                : ISA_UNORDERED;

    w->scc = (outcome & in->cond) != 0;
    return !w->group->failed;
}

static uint32_t
f32_to_i32(float a)
{
    if (isnan(a))
        return 0;
    if (a >= 0x1p31f)
        return INT32_MAX;
    return a <= -0x1p31f ? 0x80000000u : (uint32_t)(int32_t)a;
}

static uint32_t
f32_to_u32(float a)
{
    if (!(a > 0))
        return 0;
    return a >= 0x1p32f ? UINT32_MAX : (uint32_t)a;
}

bool
wave_salu_float(struct wave *w, const struct isa_insn *in, bool *out_known)
{
    uint32_t a, old;

#define F32(i)     read_f32(w, in, i)
#define F16(i)     read_f16(w, in, i)
#define OUT_F32(v) return write_f32(w, in, v)
#define OUT_F16(v) return write_f16(w, in, v)
    *out_known = true;
    switch (in->op) {
    case ISA_S_CMP:
        return compare_floats(w, in);
    case ISA_S_CEIL_F32:
        OUT_F32(ceilf(F32(0)));
    case ISA_S_FLOOR_F32:
        OUT_F32(floorf(F32(0)));
    case ISA_S_TRUNC_F32:
        OUT_F32(truncf(F32(0)));
    case ISA_S_RNDNE_F32:
        OUT_F32(rintf(F32(0)));
    case ISA_S_CVT_F32_I32:
        OUT_F32((float)(int32_t)wave_read_scalar(w, in, in->src[0]));
    case ISA_S_CVT_F32_U32:
        OUT_F32((float)wave_read_scalar(w, in, in->src[0]));
    case ISA_S_CVT_I32_F32:
        wave_write_scalar(w, in->sdst, f32_to_i32(F32(0)));
        return !w->group->failed;
    case ISA_S_CVT_U32_F32:
        wave_write_scalar(w, in->sdst, f32_to_u32(F32(0)));
        return !w->group->failed;
    case ISA_S_CVT_F16_F32:
        OUT_F16((double)F32(0));
    case ISA_S_CVT_F32_F16:
        OUT_F32((float)F16(0));
    case ISA_S_CVT_HI_F32_F16:
        a = wave_read_scalar(w, in, in->src[0]);
        OUT_F32(wave_half_to_float(a >> 16));
    case ISA_S_CEIL_F16:
        OUT_F16(ceil(F16(0)));
    case ISA_S_FLOOR_F16:
        OUT_F16(floor(F16(0)));
    case ISA_S_TRUNC_F16:
        OUT_F16(trunc(F16(0)));
    case ISA_S_RNDNE_F16:
        OUT_F16(rint(F16(0)));
    case ISA_S_ADD_F32:
        OUT_F32(F32(0) + F32(1));
    case ISA_S_SUB_F32:
        OUT_F32(F32(0) - F32(1));
    case ISA_S_MUL_F32:
        OUT_F32(F32(0) * F32(1));
    case ISA_S_MIN_F32:
        OUT_F32(wave_min_f32(F32(0), F32(1)));
    case ISA_S_MAX_F32:
        OUT_F32(wave_max_f32(F32(0), F32(1)));
    case ISA_S_MINIMUM_F32:
        OUT_F32(pick_f32(F32(0), F32(1), true));
    case ISA_S_MAXIMUM_F32:
        OUT_F32(pick_f32(F32(0), F32(1), false));
    case ISA_S_FMAC_F32:
        old = wave_read_scalar(w, in, in->sdst);
        OUT_F32(fmaf(F32(0), F32(1), wave_f32(old)));
    case ISA_S_FMAAK_F32:
        OUT_F32(fmaf(F32(0), F32(1), wave_f32(in->literal)));
    case ISA_S_FMAMK_F32:
        OUT_F32(fmaf(F32(0), wave_f32(in->literal), F32(1)));
    case ISA_S_CVT_PK_RTZ_F16_F32:
        a = wave_float_to_half_rtz(F32(0));
        wave_write_scalar(w, in->sdst,
                          a | wave_float_to_half_rtz(F32(1)) << 16);
        return !w->group->failed;
    case ISA_S_ADD_F16:
        OUT_F16(F16(0) + F16(1));
    case ISA_S_SUB_F16:
        OUT_F16(F16(0) - F16(1));
    case ISA_S_MUL_F16:
        OUT_F16(F16(0) * F16(1));
    case ISA_S_MIN_F16:
        OUT_F16((double)wave_min_f32((float)F16(0), (float)F16(1)));
    case ISA_S_MAX_F16:
        OUT_F16((double)wave_max_f32((float)F16(0), (float)F16(1)));
    case ISA_S_MINIMUM_F16:
        OUT_F16((double)pick_f32((float)F16(0), (float)F16(1), true));
    case ISA_S_MAXIMUM_F16:
        OUT_F16((double)pick_f32((float)F16(0), (float)F16(1), false));
    case ISA_S_FMAC_F16:
        old = wave_read_scalar(w, in, in->sdst) & 0xffff;
        OUT_F16(fma(F16(0), F16(1), (double)wave_half_to_float(old)));
    default:
        *out_known = false;
        return false;
    }
#undef F32
#undef F16
#undef OUT_F32
#undef OUT_F16
}
