/* Packed operations: two 16-bit or two F32 values at once, mixed multiply and
 * add, dot products. src: docs/hardware/amd-code.md, "Vector operations". */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "sim/amd/isa/wave_internal.h"

/* Sources of a packed instruction: the words, or pairs of them. */
struct packed {
    struct wave *w;
    const struct isa_insn *in;
    uint64_t exec;
    const uint32_t *p[3], *q[3]; /* low and, of pairs, high words */
    wave_row low[3], high[3];
};

/* Which constants an inline float stands for depends on the operation. */
static bool
read_packed_words(struct packed *x, unsigned i, bool halves, bool pair)
{
    uint32_t code = x->in->src[i], l;

    assert(i < 3);
    if (pair && code >= ISA_VGPR && code < 0x10000) {
        if (!wave_has_registers(x->w, code - ISA_VGPR, 2))
            return false;
        x->p[i] = x->w->v[code - ISA_VGPR];
        x->q[i] = x->w->v[code - ISA_VGPR + 1];
        return true;
    }
    if (pair) {
        uint64_t value = code < 128 ? wave_read_scalar64(x->w, x->in, code)
                                    : wave_read_scalar(x->w, x->in, code);
        for (l = 0; l < x->w->group->n_lanes; l++) {
            x->low[i][l] = (uint32_t)value;
            x->high[i][l] = code < 128 ? (uint32_t)(value >> 32) : 0;
        }
        x->p[i] = x->low[i];
        x->q[i] = x->high[i];
        return !x->w->group->failed;
    }
    x->p[i] = wave_read(x->w, x->in, code, x->low[i]);
    if (halves && code >= 240 && code <= 248) {
        for (l = 0; l < x->w->group->n_lanes; l++)
            x->low[i][l] = wave_float_to_half(wave_f32(x->p[i][l]));
        x->p[i] = x->low[i];
    }
    return !x->w->group->failed;
}

/* The half of source i that goes into the low or high result. */
static uint32_t
packed_half(const struct packed *x, unsigned i, uint32_t l, bool high)
{
    uint32_t select = high ? x->in->opsel_hi : x->in->opsel;

    assert(i < 3 && l < WAVE_LANES_MAX);
    return select >> i & 1 ? x->p[i][l] >> 16 : x->p[i][l] & 0xffff;
}

static double
float_half(const struct packed *x, unsigned i, uint32_t l, bool high)
{
    uint32_t neg = high ? x->in->neg_hi : x->in->neg;
    uint32_t bits = packed_half(x, i, l, high) ^ (neg >> i & 1 ? 0x8000u : 0);

    return (double)wave_half_to_float(bits);
}

static double
pick_packed(double a, double b, bool want_less)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return (signbit(a) != 0) == want_less ? a : b;
    return (a < b) == want_less ? a : b;
}

static uint32_t
pk_f16(const struct packed *x, uint32_t l, bool high)
{
    double a = float_half(x, 0, l, high), b = float_half(x, 1, l, high), v;

    switch (x->in->op) {
    case ISA_V_PK_ADD_F16:
        v = a + b;
        break;
    case ISA_V_PK_MUL_F16:
        v = a * b;
        break;
    case ISA_V_PK_MIN_F16:
        v = pick_packed(a, b, true);
        break;
    case ISA_V_PK_MAX_F16:
        v = pick_packed(a, b, false);
        break;
    case ISA_V_PK_MINIMUM_F16:
    case ISA_V_PK_MAXIMUM_F16:
        v = isnan(a) || isnan(b)
                ? (double)NAN
                : pick_packed(a, b, x->in->op == ISA_V_PK_MINIMUM_F16);
        break;
    default:
        v = fma(a, b, float_half(x, 2, l, high));
        break;
    }
    if (x->in->clamp)
        v = isnan(v) || v < 0 ? 0 : v > 1 ? 1 : v;
    return wave_double_to_half(v);
}

static uint32_t
pk_int(const struct packed *x, uint32_t l, bool high)
{
    uint32_t a = packed_half(x, 0, l, high), b = packed_half(x, 1, l, high);
    int32_t sa = (int16_t)a, sb = (int16_t)b;

    switch (x->in->op) {
    case ISA_V_PK_ADD_I16:
    case ISA_V_PK_ADD_U16:
        return (a + b) & 0xffff;
    case ISA_V_PK_SUB_I16:
    case ISA_V_PK_SUB_U16:
        return (a - b) & 0xffff;
    case ISA_V_PK_MUL_LO_U16:
        return a * b & 0xffff;
    case ISA_V_PK_MAD_I16:
    case ISA_V_PK_MAD_U16:
        return (a * b + packed_half(x, 2, l, high)) & 0xffff;
    case ISA_V_PK_MIN_I16:
        return sa < sb ? a : b;
    case ISA_V_PK_MAX_I16:
        return sa > sb ? a : b;
    case ISA_V_PK_MIN_U16:
        return a < b ? a : b;
    case ISA_V_PK_MAX_U16:
        return a > b ? a : b;
    case ISA_V_PK_LSHLREV_B16:
        return b << (a & 15) & 0xffff;
    case ISA_V_PK_LSHRREV_B16:
        return b >> (a & 15);
    default: /* V_PK_ASHRREV_I16 */
        return (uint32_t)(sb >> (a & 15)) & 0xffff;
    }
}

static bool
run_halves(struct packed *x, bool floats, unsigned n_src)
{
    uint32_t l, *dst = x->w->v[x->in->dst];
    wave_row r;
    unsigned i;

    assert(n_src <= 3);
    for (i = 0; i < n_src; i++) {
        if (!read_packed_words(x, i, floats, false))
            return false;
    }
    if (!wave_has_registers(x->w, x->in->dst, 1))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        r[l] = floats ? pk_f16(x, l, false) | pk_f16(x, l, true) << 16
                      : pk_int(x, l, false) | pk_int(x, l, true) << 16;
    }
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (x->exec >> l & 1)
            dst[l] = r[l];
    }
    return true;
}

/* The low or high results of all lanes. */
static void
pair_row(const struct packed *x, bool high, unsigned n_src, uint32_t *out)
{
    uint32_t select = high ? x->in->opsel_hi : x->in->opsel;
    uint32_t neg = high ? x->in->neg_hi : x->in->neg;
    uint32_t l, n = x->w->group->n_lanes, op = x->in->op, flip[3] = {0};
    const uint32_t *s[3] = {NULL};
    unsigned i;

    assert(n_src <= 3);
    if (op == ISA_V_PK_MOV_B32) { /* low from 0, high from 1 */
        i = high ? 1 : 0;
        memcpy(out, x->in->opsel >> i & 1 ? x->q[i] : x->p[i],
               n * sizeof(*out));
        return;
    }
    for (i = 0; i < n_src; i++) {
        s[i] = select >> i & 1 ? x->q[i] : x->p[i];
        flip[i] = neg >> i & 1 ? 0x80000000u : 0;
    }
    if (op == ISA_V_PK_ADD_F32) {
        for (l = 0; l < n; l++)
            out[l] = wave_u32(wave_f32(s[0][l] ^ flip[0]) +
                              wave_f32(s[1][l] ^ flip[1]));
    } else if (op == ISA_V_PK_MUL_F32) {
        for (l = 0; l < n; l++)
            out[l] = wave_u32(wave_f32(s[0][l] ^ flip[0]) *
                              wave_f32(s[1][l] ^ flip[1]));
    } else {
        for (l = 0; l < n; l++)
            out[l] = wave_u32(fmaf(wave_f32(s[0][l] ^ flip[0]),
                                   wave_f32(s[1][l] ^ flip[1]),
                                   wave_f32(s[2][l] ^ flip[2])));
    }
}

static bool
run_pairs(struct packed *x, unsigned n_src)
{
    uint32_t l, reg = x->in->dst;
    wave_row r[2];
    unsigned i;

    assert(n_src <= 3);
    for (i = 0; i < n_src; i++) {
        if (!read_packed_words(x, i, false, true))
            return false;
    }
    if (!wave_has_registers(x->w, reg, 2))
        return false;
    pair_row(x, false, n_src, r[0]);
    pair_row(x, true, n_src, r[1]);
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (!(x->exec >> l & 1))
            continue;
        x->w->v[reg][l] = r[0][l];
        x->w->v[reg + 1][l] = r[1][l];
    }
    return true;
}

/* A source of v_fma_mix: op_sel_hi says that it is a half, op_sel which one;
 * the upper negation field is the absolute value. */
static float
mix_source(const struct packed *x, unsigned i, uint32_t l)
{
    float v;

    assert(i < 3 && l < WAVE_LANES_MAX);
    if (x->in->opsel_hi >> i & 1)
        v = wave_half_to_float(x->in->opsel >> i & 1 ? x->p[i][l] >> 16
                                                     : x->p[i][l] & 0xffff);
    else
        v = wave_f32(x->p[i][l]);
    if (x->in->neg_hi >> i & 1)
        v = fabsf(v);
    return x->in->neg >> i & 1 ? -v : v;
}

static bool
run_mix(struct packed *x)
{
    uint32_t l, *dst = x->w->v[x->in->dst];
    wave_row r;
    unsigned i;

    for (i = 0; i < 3; i++) {
        bool half = x->in->opsel_hi >> i & 1;
        if (!read_packed_words(x, i, half, false))
            return false;
    }
    if (!wave_has_registers(x->w, x->in->dst, 1))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        float v =
            fmaf(mix_source(x, 0, l), mix_source(x, 1, l), mix_source(x, 2, l));
        if (x->in->clamp)
            v = isnan(v) || v < 0 ? 0 : v > 1 ? 1 : v;
        if (x->in->op == ISA_V_FMA_MIX_F32)
            r[l] = wave_u32(v);
        else if (x->in->op == ISA_V_FMA_MIXLO_F16)
            r[l] = (dst[l] & 0xffff0000) | wave_float_to_half(v);
        else
            r[l] = (dst[l] & 0xffff) | wave_float_to_half(v) << 16;
    }
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (x->exec >> l & 1)
            dst[l] = r[l];
    }
    return true;
}

static uint32_t
dot_lane(const struct packed *x, uint32_t l)
{
    uint32_t a = x->p[0][l], b = x->p[1][l], sum = x->p[2][l];
    bool sa = x->in->op == ISA_V_DOT4_I32_I8 || x->in->neg & 1;
    bool sb = x->in->op == ISA_V_DOT4_I32_I8 || x->in->neg & 2;
    unsigned i;

    switch (x->in->op) {
    case ISA_V_DOT2_F32_F16:
        return wave_u32(
            (float)(float_half(x, 0, l, false) * float_half(x, 1, l, false) +
                    float_half(x, 0, l, true) * float_half(x, 1, l, true) +
                    (double)wave_f32(sum)));
    case ISA_V_DOT2_F32_BF16:
        return wave_u32(
            (float)((double)wave_f32(a << 16) * (double)wave_f32(b << 16) +
                    (double)wave_f32(a & 0xffff0000) *
                        (double)wave_f32(b & 0xffff0000) +
                    (double)wave_f32(sum)));
    case ISA_V_DOT2_I32_I16:
        return sum + (uint32_t)((int16_t)a * (int16_t)b) +
               (uint32_t)((int16_t)(a >> 16) * (int16_t)(b >> 16));
    case ISA_V_DOT2_U32_U16:
        return sum + (a & 0xffff) * (b & 0xffff) + (a >> 16) * (b >> 16);
    case ISA_V_DOT4_U32_U8:
        sa = sb = false;
        break;
    default:
        break;
    }
    for (i = 0; i < 4; i++) {
        int32_t p = (int32_t)(a >> 8 * i & 0xff),
                q = (int32_t)(b >> 8 * i & 0xff);
        sum += (uint32_t)((sa ? (int8_t)p : p) * (sb ? (int8_t)q : q));
    }
    return sum;
}

static bool
run_dot(struct packed *x)
{
    bool halves = x->in->op == ISA_V_DOT2_F32_F16;
    uint32_t l, *dst = x->w->v[x->in->dst];
    unsigned i;

    for (i = 0; i < 3; i++) {
        if (!read_packed_words(x, i, halves && i < 2, false))
            return false;
    }
    if (!wave_has_registers(x->w, x->in->dst, 1))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (x->exec >> l & 1)
            dst[l] = dot_lane(x, l);
    }
    return true;
}

bool
wave_packed(struct wave *w, const struct isa_insn *in)
{
    struct packed x = {.w = w, .in = in, .exec = wave_exec(w)};

    switch (in->op) {
    case ISA_V_PK_ADD_F16:
    case ISA_V_PK_MUL_F16:
    case ISA_V_PK_MIN_F16:
    case ISA_V_PK_MAX_F16:
    case ISA_V_PK_MINIMUM_F16:
    case ISA_V_PK_MAXIMUM_F16:
        return run_halves(&x, true, 2);
    case ISA_V_PK_FMA_F16:
        return run_halves(&x, true, 3);
    case ISA_V_PK_MAD_I16:
    case ISA_V_PK_MAD_U16:
        return run_halves(&x, false, 3);
    case ISA_V_PK_ADD_I16:
    case ISA_V_PK_ADD_U16:
    case ISA_V_PK_SUB_I16:
    case ISA_V_PK_SUB_U16:
    case ISA_V_PK_MUL_LO_U16:
    case ISA_V_PK_MIN_I16:
    case ISA_V_PK_MAX_I16:
    case ISA_V_PK_MIN_U16:
    case ISA_V_PK_MAX_U16:
    case ISA_V_PK_LSHLREV_B16:
    case ISA_V_PK_LSHRREV_B16:
    case ISA_V_PK_ASHRREV_I16:
        return run_halves(&x, false, 2);
    case ISA_V_PK_ADD_F32:
    case ISA_V_PK_MUL_F32:
    case ISA_V_PK_MOV_B32:
        return run_pairs(&x, 2);
    case ISA_V_PK_FMA_F32:
        return run_pairs(&x, 3);
    case ISA_V_FMA_MIX_F32:
    case ISA_V_FMA_MIXLO_F16:
    case ISA_V_FMA_MIXHI_F16:
        return run_mix(&x);
    case ISA_V_DOT2_F32_F16:
    case ISA_V_DOT2_F32_BF16:
    case ISA_V_DOT2_I32_I16:
    case ISA_V_DOT2_U32_U16:
    case ISA_V_DOT4_I32_I8:
    case ISA_V_DOT4_I32_IU8:
    case ISA_V_DOT4_U32_U8:
        return run_dot(&x);
    default:
        return wave_matrix(w, in);
    }
}
