/* Sources and results of vector instructions: registers and constants, DPP and
 * SDWA, modifiers, halves and pairs. src: docs/hardware/amd-code.md,
 * "Operands", "Memory instructions", "Vector operations". */
#include "sim/amd/isa/wave_operand.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The lane that DPP reads in place of `lane`, or -1. */
static int
dpp_lane(const struct isa_insn *in, int lane, int n_lanes)
{
    uint32_t ctrl = in->extra >> 8 & 0x1ff;
    int row = lane & ~15, at = lane & 15, n = (int)(ctrl & 15);

    assert(lane < n_lanes && n_lanes <= WAVE_LANES_MAX);
    if (in->has_dpp8)
        return (lane & ~7) | (int)(in->extra >> (8 + 3 * (lane & 7)) & 7);
    if (ctrl < 0x100)
        return (lane & ~3) | (int)(ctrl >> 2 * (lane & 3) & 3);
    switch (ctrl >> 4) {
    case 0x10:
        return at + n < 16 ? lane + n : -1;
    case 0x11:
        return at >= n ? lane - n : -1;
    case 0x12:
        return row | ((at - n) & 15);
    case 0x15:
        return row | n;
    case 0x16:
        return row | (at ^ n);
    default:
        break;
    }
    switch (ctrl) {
    case 0x130:
        return lane + 1 < n_lanes ? lane + 1 : -1;
    case 0x134:
        return (lane + 1) % n_lanes;
    case 0x138:
        return lane - 1;
    case 0x13c:
        return (lane + n_lanes - 1) % n_lanes;
    case 0x140:
        return row | (15 - at);
    case 0x141:
        return (lane & ~7) | (7 - (lane & 7));
    case 0x142:
        return lane >= 16 ? row - 1 : -1;
    case 0x143:
        return lane >= 32 ? 31 : -1;
    default:
        return -2;
    }
}

/* Source 0 as DPP sees it; lanes that may not be written leave exec. */
static bool
apply_dpp(struct valu *x, wave_row buf, const uint32_t *p)
{
    int n = (int)x->w->group->n_lanes, l;
    uint64_t exec = wave_exec(x->w);
    bool zero = !x->in->has_dpp8 && x->in->extra >> 19 & 1;
    bool inactive = x->in->has_dpp8 || x->in->extra >> 18 & 1;
    wave_row out = {0};

    for (l = 0; l < n; l++) {
        int from = dpp_lane(x->in, l, n);
        bool masked =
            !x->in->has_dpp8 && (!(x->in->extra >> (28 + (l >> 4 & 3)) & 1) ||
                                 !(x->in->extra >> (24 + (l >> 2 & 3)) & 1));
        if (from == -2)
            return wave_fail(x->w, AMD_WAVE_ILLEGAL, "DPP control 0x%x",
                             x->in->extra >> 8 & 0x1ff);
        if (from >= 0 && !inactive && !(exec >> from & 1))
            from = -1;
        if (from >= 0)
            out[l] = p[from];
        if (masked || (from < 0 && !zero))
            x->exec &= ~(1ull << l);
    }
    memcpy(buf, out, sizeof(out));
    return true;
}

static void
apply_sdwa(struct valu *x, unsigned i, wave_row buf, const uint32_t *p)
{
    uint32_t select = x->in->extra >> (i ? 24 : 16) & 7;
    bool sext = x->in->extra >> (i ? 27 : 19) & 1;
    uint32_t l;

    assert(x->in->has_sdwa);
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint32_t v = p[l];
        if (select < 4) {
            v = v >> select * 8 & 0xff;
            v = sext ? (uint32_t)(int8_t)v : v;
        } else if (select < 6) {
            v = v >> (select - 4) * 16 & 0xffff;
            v = sext ? (uint32_t)(int16_t)v : v;
        }
        buf[l] = v;
    }
}

bool
wave_float_constant(uint32_t code, double *out)
{
    static const double values[9] = {
        0.5, -0.5, 1, -1, 2, -2, 4, -4, 0.15915494309189532,
    };

    if (code < 240 || code > 248)
        return false;
    *out = values[code - 240];
    return true;
}

static bool
read_pair(struct valu *x, unsigned i, bool is_float)
{
    struct source *s = &x->src[i];
    uint32_t code = x->in->src[i], l, n = x->w->group->n_lanes;
    uint64_t value;
    double constant;

    assert(i < 3);
    if (code >= ISA_VGPR && code < 0x10000) {
        const uint32_t *lo = x->w->v[code - ISA_VGPR];
        const uint32_t *hi = x->w->v[code - ISA_VGPR + 1];

        if (!wave_has_registers(x->w, code - ISA_VGPR, 2))
            return false;
        for (l = 0; l < n; l++)
            s->q[l] = lo[l] | (uint64_t)hi[l] << 32;
        return true;
    }
    if (wave_float_constant(code, &constant))
        value = wave_u64(constant);
    else if (is_float && code == ISA_LITERAL)
        value = (uint64_t)x->in->literal << 32;
    else
        value = wave_read_scalar64(x->w, x->in, code);
    for (l = 0; l < n; l++)
        s->q[l] = value;
    return !x->w->group->failed;
}

/* Which half of a register a 16-bit operand is. */
static bool
is_high(const struct valu *x, unsigned i)
{
    return x->in->opsel >> i & 1;
}

static bool
read_half(struct valu *x, unsigned i)
{
    struct source *s = &x->src[i];
    uint32_t code = x->in->src[i], l, n = x->w->group->n_lanes;
    bool high = x->in->is_e64 && is_high(x, i);
    double constant;

    assert(i < 3);
    if (x->w->group->gen >= ISA_GFX11 && !x->in->is_e64 && code >= 384 &&
        code < 512) {
        high = true; /* the upper half of the first 128 registers */
        code -= 128;
    }
    if (wave_float_constant(code, &constant)) {
        for (l = 0; l < n; l++)
            s->buf[l] = wave_double_to_half(constant);
        s->p = s->buf;
        return true;
    }
    s->p = wave_read(x->w, x->in, code, s->buf);
    if (x->w->group->failed)
        return false;
    if (i == 0 && (x->in->has_dpp || x->in->has_dpp8) &&
        !apply_dpp(x, s->buf, s->p))
        return false;
    if (x->in->has_sdwa && i < 2)
        apply_sdwa(x, i, s->buf, s->p);
    if ((i == 0 && (x->in->has_dpp || x->in->has_dpp8)) ||
        (x->in->has_sdwa && i < 2))
        s->p = s->buf;
    for (l = 0; l < n; l++)
        s->buf[l] = (high ? s->p[l] >> 16 : s->p[l]) & 0xffff;
    s->p = s->buf;
    return true;
}

static bool
read_operand_word(struct valu *x, unsigned i)
{
    struct source *s = &x->src[i];

    s->p = wave_read(x->w, x->in, x->in->src[i], s->buf);
    if (x->w->group->failed)
        return false;
    if (i == 0 && (x->in->has_dpp || x->in->has_dpp8)) {
        if (!apply_dpp(x, s->buf, s->p))
            return false;
        s->p = s->buf;
    }
    if (x->in->has_sdwa && i < 2) {
        apply_sdwa(x, i, s->buf, s->p);
        s->p = s->buf;
    }
    return true;
}

/* A constant is the low half. */
static bool
read_halves(struct valu *x, unsigned i)
{
    struct source *s = &x->src[i];
    double constant;
    uint32_t l;

    assert(i < 3);
    if (!wave_float_constant(x->in->src[i], &constant))
        return read_operand_word(x, i);
    for (l = 0; l < x->w->group->n_lanes; l++)
        s->buf[l] = wave_double_to_half(constant);
    s->p = s->buf;
    return true;
}

/* abs, then neg, on the sign bit; denormals flushed where the mode says. */
static void
modify(struct valu *x, unsigned i, enum kind kind)
{
    struct source *s = &x->src[i];
    bool abs = x->in->abs >> i & 1, neg = x->in->neg >> i & 1;
    uint32_t l, n = x->w->group->n_lanes;
    uint32_t sign = kind == KIND_F16 ? 0x8000u : 0x80000000u;
    bool flush = kind == KIND_F32 && wave_flushes(x->w);

    if (kind == KIND_F64) {
        for (l = 0; (abs || neg) && l < n; l++) {
            s->q[l] &= abs ? ~(1ull << 63) : UINT64_MAX;
            s->q[l] ^= neg ? 1ull << 63 : 0;
        }
        return;
    }
    if (!abs && !neg && !flush)
        return;
    for (l = 0; l < n; l++) {
        uint32_t v = s->p[l];
        if (flush && (v & 0x7f800000) == 0)
            v &= sign;
        v &= abs ? ~sign : UINT32_MAX;
        s->buf[l] = v ^ (neg ? sign : 0);
    }
    s->p = s->buf;
}

static void
fill_lanes(struct valu *x, unsigned i, uint32_t value)
{
    uint32_t l;

    for (l = 0; l < x->w->group->n_lanes; l++)
        x->src[i].buf[l] = value;
    x->src[i].p = x->src[i].buf;
}

bool
wave_read_source(struct valu *x, unsigned i, enum kind kind)
{
    uint32_t l;

    assert(i < 3);
    switch (kind) {
    case KIND_X:
        return true;
    case KIND_B32:
    case KIND_F32:
        if (!read_operand_word(x, i))
            return false;
        break;
    case KIND_B16:
    case KIND_F16:
        if (!read_half(x, i))
            return false;
        break;
    case KIND_P16:
        if (!read_halves(x, i))
            return false;
        break;
    case KIND_B64:
    case KIND_F64:
        if (!read_pair(x, i, kind == KIND_F64))
            return false;
        break;
    case KIND_OLD32:
    case KIND_OLD16:
        x->src[i].p = x->w->v[x->in->dst];
        return wave_has_registers(x->w, x->in->dst, 1);
    case KIND_OLD64:
        if (!wave_has_registers(x->w, x->in->dst, 2))
            return false;
        for (l = 0; l < x->w->group->n_lanes; l++)
            x->src[i].q[l] = x->w->v[x->in->dst][l] |
                             (uint64_t)x->w->v[x->in->dst + 1][l] << 32;
        return true;
    case KIND_K32:
    case KIND_K16:
        fill_lanes(x, i, x->in->literal);
        return true;
    }
    if (kind == KIND_F32 || kind == KIND_F16 || kind == KIND_F64)
        modify(x, i, kind);
    return true;
}

/* ---- results ---- */

static void
finish_f32(struct valu *x)
{
    static const float factors[4] = {1, 2, 4, 0.5f};
    uint32_t l, n = x->w->group->n_lanes;

    for (l = 0; (x->in->omod || x->in->clamp) && l < n; l++) {
        float v = wave_f32(x->r[l]) * factors[x->in->omod];
        if (x->in->clamp)
            v = isnan(v) ? 0 : v < 0 ? 0 : v > 1 ? 1 : v;
        x->r[l] = wave_u32(v);
    }
    for (l = 0; wave_flushes(x->w) && l < n; l++) {
        if ((x->r[l] & 0x7f800000) == 0)
            x->r[l] &= 0x80000000;
    }
}

static void
store_sdwa(struct valu *x, uint32_t *dst)
{
    uint32_t select = x->in->extra >> 8 & 7, unused = x->in->extra >> 11 & 3;
    unsigned shift = select < 4 ? select * 8 : select == 5 ? 16 : 0;
    uint32_t mask = select < 4 ? 0xffu : select < 6 ? 0xffffu : UINT32_MAX;
    uint32_t l;

    assert(x->in->has_sdwa);
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint32_t v = (x->r[l] & mask) << shift;
        if (!(x->exec >> l & 1))
            continue;
        if (unused == 2)
            v |= dst[l] & ~(mask << shift);
        else if (unused == 1 && mask != UINT32_MAX)
            v = (uint32_t)((int32_t)(v << (select < 4 ? 24 - shift
                                                      : 16 - shift)) >>
                           (select < 4 ? 24 : 16))
                << shift;
        dst[l] = v;
    }
}

bool
wave_store_word(struct valu *x)
{
    uint32_t *dst = x->w->v[x->in->dst], l, n = x->w->group->n_lanes;

    if (!wave_has_registers(x->w, x->in->dst, 1))
        return false;
    if (x->in->has_sdwa) {
        store_sdwa(x, dst);
    } else if (x->exec == x->w->group->all_lanes) {
        memcpy(dst, x->r, n * sizeof(*dst));
    } else {
        for (l = 0; l < n; l++)
            dst[l] = x->exec >> l & 1 ? x->r[l] : dst[l];
    }
    return true;
}

/* gfx9 clears the other half, except in operations that have only the long
 * form; later chips keep it. */
bool
wave_store_half(struct valu *x)
{
    uint32_t reg = x->in->dst, l;
    bool high = x->in->is_e64 && x->in->opsel >> 3 & 1;
    bool keeps = !isa_is_gfx9(x->w->group->gen);

    if (x->in->has_sdwa)
        return wave_store_word(x);
    if (x->w->group->gen >= ISA_GFX11 && !x->in->is_e64 && reg >= 128) {
        high = true;
        reg -= 128;
    }
    if (!wave_has_registers(x->w, reg, 1))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint32_t *d = &x->w->v[reg][l], v = x->r[l] & 0xffff;
        if (!(x->exec >> l & 1))
            continue;
        if (high)
            *d = (*d & 0xffff) | v << 16;
        else if (keeps)
            *d = (*d & 0xffff0000) | v;
        else
            *d = v;
    }
    return true;
}

bool
wave_store_pair(struct valu *x)
{
    uint32_t reg = x->in->dst, l;

    if (!wave_has_registers(x->w, reg, 2))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (!(x->exec >> l & 1))
            continue;
        x->w->v[reg][l] = (uint32_t)x->q[l];
        x->w->v[reg + 1][l] = (uint32_t)(x->q[l] >> 32);
    }
    return true;
}

bool
wave_store(struct valu *x, enum kind kind)
{
    uint32_t l;

    if (kind == KIND_F32)
        finish_f32(x);
    if (kind == KIND_F32 || kind == KIND_B32)
        return wave_store_word(x);
    if (kind == KIND_F64 || kind == KIND_B64)
        return wave_store_pair(x);
    for (l = 0; x->in->clamp && kind == KIND_F16 && l < x->w->group->n_lanes;
         l++) {
        double v = (double)wave_half_to_float(x->r[l]);
        v = isnan(v) || v < 0 ? 0 : v > 1 ? 1 : v;
        x->r[l] = wave_double_to_half(v);
    }
    return wave_store_half(x);
}
