/* What instructions read and write: registers, constants, immediates. */
#include <math.h>
#include <string.h>

#include "sim/qcom/isa/shader_internal.h"

float
shader_half_to_float(uint32_t bits)
{
    uint32_t sign = (bits & 0x8000) << 16, exp = bits >> 10 & 31;
    uint32_t out = sign | (exp + 112) << 23 | (bits & 0x3ff) << 13;
    float f;

    if (exp == 0)
        out = sign; /* subnormal numbers are 0 */
    else if (exp == 31)
        out = sign | 0x7f800000 | (bits & 0x3ff) << 13;
    memcpy(&f, &out, 4);
    return f;
}

/* To nearest, ties to even; subnormal results are 0. */
uint32_t
shader_float_to_half(float value)
{
    uint32_t bits, sign, man;
    int32_t exp;

    memcpy(&bits, &value, 4);
    sign = bits >> 16 & 0x8000;
    if (isnan(value))
        return sign | 0x7e00;
    exp = (int32_t)(bits >> 23 & 255) - 112;
    man = bits & 0x7fffff;
    man += 0xfff + (man >> 13 & 1);
    if (man >> 23) {
        man = 0;
        exp++;
    }
    if (exp >= 31)
        return sign | 0x7c00;
    if (exp <= 0)
        return sign;
    return sign | (uint32_t)exp << 10 | man >> 13;
}

/* Were all running threads' halves set? */
static bool
check_set(struct shader_wave *w, const struct shader_insn *in, uint32_t half)
{
    const struct shader_mask *set = &w->set[half];

    if ((w->active.w[0] & ~set->w[0]) | (w->active.w[1] & ~set->w[1]))
        return shader_fail(w, in, "hr%u.%c is read and was never set", half / 4,
                           "xyzw"[half & 3]);
    return true;
}

static bool
check_footprint(struct shader_wave *w, const struct shader_insn *in,
                uint32_t reg, bool is_half)
{
    const struct shader_launch *l = w->group->launch;
    uint32_t vec4 = (is_half ? reg / 2 : reg) / 4;
    uint32_t most = l->n_full_vec4;

    if (is_half && (l->has_own_halves || (l->n_half_vec4 + 1) / 2 > most))
        most = (l->n_half_vec4 + 1) / 2;
    if (reg >= SHADER_FULLS || vec4 >= most)
        return shader_fail(w, in, "register %u is beyond the footprint of %u",
                           reg, most);
    return true;
}

bool
shader_get(struct shader_wave *w, const struct shader_insn *in, uint32_t reg,
           bool is_half, uint32_t *out)
{
    uint32_t i, shift;

    if (reg >= SHADER_FULLS && reg < SHADER_FULLS + SHADER_SHAREDS) {
        uint32_t s = reg - SHADER_FULLS;
        if (!(w->shared_set >> s & 1))
            return shader_fail(w, in, "r%u.%c is read and was never set",
                               reg / 4, "xyzw"[reg & 3]);
        for (i = 0; i < w->n_lanes; i++)
            out[i] = w->shared[s];
        return true;
    }
    if (!check_footprint(w, in, reg, is_half))
        return false;
    if (is_half) {
        reg = shader_half_at(w->group->launch, reg);
        if (!check_set(w, in, reg))
            return false;
        shift = reg & 1 ? 16 : 0;
        for (i = 0; i < w->n_lanes; i++)
            out[i] = w->r[reg / 2][i] >> shift & 0xffff;
        return true;
    }
    if (!check_set(w, in, 2 * reg) || !check_set(w, in, 2 * reg + 1))
        return false;
    memcpy(out, w->r[reg], w->n_lanes * 4);
    return true;
}

static void
mark_set(struct shader_wave *w, uint32_t half)
{
    w->set[half].w[0] |= w->active.w[0];
    w->set[half].w[1] |= w->active.w[1];
}

static bool
put_uniform(struct shader_wave *w, const struct shader_insn *in, uint32_t reg,
            const uint32_t *values)
{
    uint32_t i, s = reg - SHADER_FULLS;
    bool has = false;

    for (i = 0; i < w->n_lanes; i++) {
        if (!shader_lane_on(&w->active, i))
            continue;
        if (has && w->shared[s] != values[i])
            return shader_fail(w, in, "threads differ in a shared register");
        w->shared[s] = values[i];
        has = true;
    }
    w->shared_set |= 1u << s;
    return true;
}

bool
shader_put(struct shader_wave *w, const struct shader_insn *in, uint32_t reg,
           bool is_half, const uint32_t *values)
{
    uint32_t i, shift;

    if (reg >= SHADER_P0 && reg < SHADER_P0 + 4) {
        struct shader_mask *p = &w->p[reg - SHADER_P0];
        for (i = 0; i < w->n_lanes; i++) {
            if (!shader_lane_on(&w->active, i))
                continue;
            p->w[i / 64] &= ~(1ull << (i & 63));
            p->w[i / 64] |= (uint64_t)(values[i] & 1) << (i & 63);
        }
        w->p_set |= 1u << (reg - SHADER_P0);
        return true;
    }
    if (reg >= SHADER_FULLS && reg < SHADER_FULLS + SHADER_SHAREDS)
        return put_uniform(w, in, reg, values);
    if (reg == SHADER_A0) {
        for (i = 0; i < w->n_lanes; i++)
            w->a0[i] =
                shader_lane_on(&w->active, i) ? (int16_t)values[i] : w->a0[i];
        return true;
    }
    if (!check_footprint(w, in, reg, is_half))
        return false;
    if (is_half) {
        reg = shader_half_at(w->group->launch, reg);
        shift = reg & 1 ? 16 : 0;
        for (i = 0; i < w->n_lanes; i++) {
            if (shader_lane_on(&w->active, i))
                w->r[reg / 2][i] = (w->r[reg / 2][i] & ~(0xffffu << shift)) |
                                   (values[i] & 0xffff) << shift;
        }
        mark_set(w, reg);
        return true;
    }
    for (i = 0; i < w->n_lanes; i++) {
        if (shader_lane_on(&w->active, i))
            w->r[reg][i] = values[i];
    }
    mark_set(w, 2 * reg);
    mark_set(w, 2 * reg + 1);
    return true;
}

/* One constant; halves are converted, or are halves of constants. */
static bool
constant(struct shader_wave *w, const struct shader_insn *in, uint32_t id,
         bool is_half, uint32_t *out)
{
    const struct shader_launch *l = w->group->launch;
    uint32_t at = is_half && !l->demotes ? id / 2 : id;
    bool is_float =
        in->cat == 1 ? in->src_type == SHADER_F16 : in->op <= SHADER_TRUNC_F;
    float f;

    if (at >= l->n_consts)
        return shader_fail(w, in, "c%u.%c is beyond the %u constants", at / 4,
                           "xyzw"[at & 3], l -> n_consts);
    if (l->consts_set && !(l->consts_set[at / 256] >> (at / 4 % 64) & 1))
        return shader_fail(w, in, "c%u was not loaded", at / 4);
    *out = l->consts[at];
    if (!is_half)
        return true;
    if (!l->demotes) {
        *out = *out >> (id & 1 ? 16 : 0) & 0xffff;
    } else if (is_float || in->op == SHADER_MAD_F16) {
        memcpy(&f, out, 4);
        *out = shader_float_to_half(f);
    } else {
        *out &= 0xffff;
    }
    return true;
}

static bool
relative(struct shader_wave *w, const struct shader_insn *in,
         const struct shader_operand *o, uint32_t step, uint32_t *out)
{
    uint32_t buf[SHADER_MAX_LANES], i;
    int32_t at;

    for (i = 0; i < w->n_lanes; i++) {
        out[i] = 0;
        if (!shader_lane_on(&w->active, i))
            continue;
        at = (int32_t)o->v + w->a0[i] + (int32_t)step;
        if (at < 0 || at >= 2048)
            return shader_fail(w, in, "a register %d by a0.x", at);
        if (o->kind == SHADER_REL_CONST) {
            if (!constant(w, in, (uint32_t)at, o->is_half, &out[i]))
                return false;
            continue;
        }
        if (!shader_get(w, in, (uint32_t)at, o->is_half, buf))
            return false;
        out[i] = buf[i];
    }
    return true;
}

bool
shader_source(struct shader_wave *w, const struct shader_insn *in,
              const struct shader_operand *o, uint32_t step, uint32_t *out)
{
    uint32_t by = o->advances ? step : 0, value = o->v, i;

    switch (o->kind) {
    case SHADER_GPR:
        return shader_get(w, in, o->v + by, o->is_half, out);
    case SHADER_REL_GPR:
    case SHADER_REL_CONST:
        return relative(w, in, o, by, out);
    case SHADER_CONST:
        if (!constant(w, in, o->v + by, o->is_half, &value))
            return false;
        break;
    case SHADER_IMM:
        break;
    case SHADER_NO_OPERAND:
        return shader_fail(w, in, "an operand that is not a register");
    }
    for (i = 0; i < w->n_lanes; i++)
        out[i] = value;
    return true;
}
