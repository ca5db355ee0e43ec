/* Matrix instructions: WMMA of gfx11 and gfx12, MFMA of gfx9, and the
 * accumulation registers. src: docs/hardware/amd-code.md, "Matrix fragments".
 * Products are summed in F64 and rounded once, which is
 * within what the hardware's own order of summing may give. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "sim/amd/isa/wave_internal.h"

enum element {
    E_F16,
    E_BF16,
    E_F32,
    E_XF32,
    E_F64,
    E_I8,
    E_FP8,
    E_BF8
};

#define DIM_MAX 32

/* A is m by k, B is k by m. WMMA has one block, of 16. */
struct shape {
    uint16_t op;
    uint8_t m, k, n_blocks;
    uint8_t a, b; /* enum element */
    uint8_t c;    /* of C and D; E_I8: whole numbers of 32 bits */
};

struct matrix {
    struct wave *w;
    const struct isa_insn *in;
    struct shape shape;
    double a[DIM_MAX][DIM_MAX], b[DIM_MAX][DIM_MAX]; /* a[i][k], b[k][j] */
    double c[DIM_MAX][DIM_MAX];
};

/* All that are known. C of MFMA is F32 unless it is F64 or whole numbers. */
static const struct shape shapes[] = {
    {ISA_V_WMMA_F32_16X16X16_F16, 16, 16, 1, E_F16, E_F16, E_F32},
    {ISA_V_WMMA_F32_16X16X16_BF16, 16, 16, 1, E_BF16, E_BF16, E_F32},
    {ISA_V_WMMA_F16_16X16X16_F16, 16, 16, 1, E_F16, E_F16, E_F16},
    {ISA_V_WMMA_BF16_16X16X16_BF16, 16, 16, 1, E_BF16, E_BF16, E_BF16},
    {ISA_V_WMMA_I32_16X16X16_IU8, 16, 16, 1, E_I8, E_I8, E_I8},
    {ISA_V_WMMA_F32_16X16X16_FP8_FP8, 16, 16, 1, E_FP8, E_FP8, E_F32},
    {ISA_V_WMMA_F32_16X16X16_FP8_BF8, 16, 16, 1, E_FP8, E_BF8, E_F32},
    {ISA_V_WMMA_F32_16X16X16_BF8_FP8, 16, 16, 1, E_BF8, E_FP8, E_F32},
    {ISA_V_WMMA_F32_16X16X16_BF8_BF8, 16, 16, 1, E_BF8, E_BF8, E_F32},
    {ISA_V_MFMA_F32_32X32X1_2B_F32, 32, 1, 2, E_F32, E_F32, E_F32},
    {ISA_V_MFMA_F32_16X16X1_4B_F32, 16, 1, 4, E_F32, E_F32, E_F32},
    {ISA_V_MFMA_F32_4X4X1_16B_F32, 4, 1, 16, E_F32, E_F32, E_F32},
    {ISA_V_MFMA_F32_32X32X2_F32, 32, 2, 1, E_F32, E_F32, E_F32},
    {ISA_V_MFMA_F32_16X16X4_F32, 16, 4, 1, E_F32, E_F32, E_F32},
    {ISA_V_MFMA_F32_32X32X4_2B_F16, 32, 4, 2, E_F16, E_F16, E_F32},
    {ISA_V_MFMA_F32_16X16X4_4B_F16, 16, 4, 4, E_F16, E_F16, E_F32},
    {ISA_V_MFMA_F32_4X4X4_16B_F16, 4, 4, 16, E_F16, E_F16, E_F32},
    {ISA_V_MFMA_F32_32X32X8_F16, 32, 8, 1, E_F16, E_F16, E_F32},
    {ISA_V_MFMA_F32_16X16X16_F16, 16, 16, 1, E_F16, E_F16, E_F32},
    {ISA_V_MFMA_I32_32X32X4_2B_I8, 32, 4, 2, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_I32_16X16X4_4B_I8, 16, 4, 4, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_I32_4X4X4_16B_I8, 4, 4, 16, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_I32_32X32X8_I8, 32, 8, 1, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_I32_16X16X16_I8, 16, 16, 1, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_I32_32X32X16_I8, 32, 16, 1, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_I32_16X16X32_I8, 16, 32, 1, E_I8, E_I8, E_I8},
    {ISA_V_MFMA_F32_32X32X4_2B_BF16, 32, 4, 2, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_16X16X4_4B_BF16, 16, 4, 4, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_4X4X4_16B_BF16, 4, 4, 16, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_32X32X8_BF16, 32, 8, 1, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_16X16X16_BF16, 16, 16, 1, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_32X32X2_2B_BF16, 32, 2, 2, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_16X16X2_4B_BF16, 16, 2, 4, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_4X4X2_16B_BF16, 4, 2, 16, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_32X32X4_BF16, 32, 4, 1, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_16X16X8_BF16, 16, 8, 1, E_BF16, E_BF16, E_F32},
    {ISA_V_MFMA_F32_32X32X4_XF32, 32, 4, 1, E_XF32, E_XF32, E_F32},
    {ISA_V_MFMA_F32_16X16X8_XF32, 16, 8, 1, E_XF32, E_XF32, E_F32},
    {ISA_V_MFMA_F64_16X16X4_F64, 16, 4, 1, E_F64, E_F64, E_F64},
    {ISA_V_MFMA_F64_4X4X4_4B_F64, 4, 4, 4, E_F64, E_F64, E_F64},
    {ISA_V_MFMA_F32_16X16X32_FP8_FP8, 16, 32, 1, E_FP8, E_FP8, E_F32},
    {ISA_V_MFMA_F32_16X16X32_FP8_BF8, 16, 32, 1, E_FP8, E_BF8, E_F32},
    {ISA_V_MFMA_F32_16X16X32_BF8_FP8, 16, 32, 1, E_BF8, E_FP8, E_F32},
    {ISA_V_MFMA_F32_16X16X32_BF8_BF8, 16, 32, 1, E_BF8, E_BF8, E_F32},
    {ISA_V_MFMA_F32_32X32X16_FP8_FP8, 32, 16, 1, E_FP8, E_FP8, E_F32},
    {ISA_V_MFMA_F32_32X32X16_FP8_BF8, 32, 16, 1, E_FP8, E_BF8, E_F32},
    {ISA_V_MFMA_F32_32X32X16_BF8_FP8, 32, 16, 1, E_BF8, E_FP8, E_F32},
    {ISA_V_MFMA_F32_32X32X16_BF8_BF8, 32, 16, 1, E_BF8, E_BF8, E_F32},
};

/* The register a source starts at, or -1 where it is a constant. */
static int
first_register(const struct isa_insn *in, unsigned i)
{
    uint32_t code = in->src[i];

    assert(i < 3);
    return code >= ISA_VGPR && code < 0x10000 ? (int)(code - ISA_VGPR) : -1;
}

static const uint8_t element_bits[] = {
    [E_F16] = 16, [E_BF16] = 16, [E_F32] = 32, [E_XF32] = 32,
    [E_F64] = 64, [E_I8] = 8,    [E_FP8] = 8,  [E_BF8] = 8,
};

/* XF32 is F32 with 10 bits of fraction; the others are cut off, towards zero.
 * src: ROCm/rocm-libraries, pull request 9176, on gfx942. */
#define XF32_BITS 0xffffe000u

/* gfx90a takes subnormal halves and bfloats for 0, and gives 0 for what would
 * be one. src: AMD's ROCm documentation, "Precision support": MFMA of MI200 */
static double
flush_factor(const struct wave *w, enum element type, double v)
{
    double least = type == E_F16 ? 0x1p-14 : 0x1p-126;

    return w->group->gen == ISA_GFX90A && v < least && v > -least ? 0 : v;
}

/* Element e of a lane's registers from `reg` on. */
static double
element_at(const struct wave *w, uint32_t reg, uint32_t lane, uint32_t e,
           enum element type, bool is_signed)
{
    unsigned bits = element_bits[type], at = e * bits;
    uint32_t word = w->v[reg + at / 32][lane], part;

    assert(type < ARRAY_LEN(element_bits));
    if (type == E_F64)
        return wave_f64(word | (uint64_t)w->v[reg + at / 32 + 1][lane] << 32);
    part = bits == 32 ? word : word >> at % 32 & ((1u << bits) - 1);
    if (type == E_F16)
        return flush_factor(w, type, (double)wave_half_to_float(part));
    if (type == E_BF16)
        return flush_factor(w, type, (double)wave_f32(part << 16));
    if (type == E_F32)
        return (double)wave_f32(part);
    if (type == E_XF32)
        return (double)wave_f32(part & XF32_BITS);
    if (type == E_I8)
        return is_signed ? (double)(int8_t)part : (double)part;
    return (double)wave_fp8_to_float(
        part, (struct wave_fp8){type == E_BF8, w->group->gen == ISA_GFX12});
}

/* The first that is a NaN, made quiet: the sum so far, a, b. */
static double
add_product(double sum, double a, double b)
{
    double product = isnan(a) ? a + 0 : isnan(b) ? b + 0 : a * b;

    return isnan(sum) ? sum + 0 : isnan(product) ? product : sum + product;
}

/* Each sum goes over k in order; a row of them at once. Which of two NaNs a
 * processor's sum is depends on the order of its operands, which is the
 * compiler's to choose: sums that are NaN are made again, one by one. */
static void
multiply_matrix(struct matrix *x)
{
    uint32_t i, j, k, n = x->shape.m;
    double sum[DIM_MAX];

    for (i = 0; i < n; i++) {
        memcpy(sum, x->c[i], sizeof(sum));
        for (k = 0; k < x->shape.k; k++) {
            for (j = 0; j < n; j++)
                sum[j] += x->a[i][k] * x->b[k][j];
        }
        for (j = 0; j < n; j++) {
            if (isnan(sum[j])) {
                sum[j] = x->c[i][j];
                for (k = 0; k < x->shape.k; k++)
                    sum[j] = add_product(sum[j], x->a[i][k], x->b[k][j]);
            }
        }
        memcpy(x->c[i], sum, sizeof(sum));
    }
}

/* A whole number of 32 bits. */
static uint32_t
mfma_to_int(const struct matrix *x, double v)
{
    if (x->in->clamp && v > INT32_MAX)
        return INT32_MAX;
    if (x->in->clamp && v < INT32_MIN)
        return 0x80000000u;
    return (uint32_t)(int64_t)v;
}

/* Element k of row i of A, or of column i of B. */
static void
set_factor(struct matrix *x, unsigned source, uint32_t i, uint32_t k, double v)
{
    assert(i < DIM_MAX && k < DIM_MAX && source < 2);
    if (source == 0)
        x->a[i][k] = v;
    else
        x->b[k][i] = v;
}

static bool
no_register(struct matrix *x, unsigned source)
{
    assert(source < 3);
    return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s: source %u is a constant",
                     isa_op_name(x->in->op), source);
}

/* ---- WMMA ---- */

/* gfx11: lane l holds row l % 16 whole; the other lanes hold copies. gfx12:
 * lanes 16 to 31 hold the other half of the depth, in groups of four 16-bit
 * elements, or eight bytes. */
static bool
load_wmma(struct matrix *x, unsigned source, enum element type)
{
    bool halved = x->w->group->gen == ISA_GFX12;
    uint32_t n_lanes = halved ? 32 : 16, n = halved ? 8 : 16, lane, e;
    uint32_t step = element_bits[type] == 8 ? 8 : 4;
    int reg = first_register(x->in, source);

    assert(source < 3);
    if (reg < 0)
        return no_register(x, source);
    if (!wave_has_registers(x->w, (uint32_t)reg, n * element_bits[type] / 32))
        return false;
    for (lane = 0; lane < n_lanes; lane++) {
        for (e = 0; e < n; e++) {
            uint32_t k =
                halved ? 2 * step * (e / step) + step * (lane / 16) + e % step
                       : e;

            set_factor(x, source, lane % 16, k,
                       element_at(x->w, (uint32_t)reg, lane, e, type,
                                  x->in->neg >> source & 1));
        }
    }
    return true;
}

/* Where element e of a lane of C and D is: its row; which register, from the
 * first; which half of it. */
struct wmma_place {
    uint32_t row, reg;
    bool high;
};

static inline struct wmma_place
wmma_at(const struct matrix *x, uint32_t lane, uint32_t e)
{
    bool halves = element_bits[x->shape.c] == 16;

    assert(lane < WAVE_LANES_MAX);
    if (x->w->group->gen == ISA_GFX12)
        return (struct wmma_place){e + 8 * (lane / 16), halves ? e / 2 : e,
                                   halves && e % 2};
    return (struct wmma_place){x->w->group->n_lanes == 32 ? 2 * e + lane / 16
                                                          : 4 * e + lane / 16,
                               e, halves && x->in->opsel >> 2 & 1};
}

/* Registers of C and D, elements of a lane. */
static uint32_t
wmma_registers(const struct matrix *x, uint32_t *out_elements)
{
    *out_elements = x->w->group->n_lanes == 32 ? 8 : 4;
    return x->w->group->gen == ISA_GFX12 && element_bits[x->shape.c] == 16
               ? *out_elements / 2
               : *out_elements;
}

static bool
load_wmma_c(struct matrix *x)
{
    uint32_t n, n_regs = wmma_registers(x, &n), lane, e;
    int reg = first_register(x->in, 2);
    uint32_t bits, code = x->in->src[2];
    double constant;

    if (reg >= 0 && !wave_has_registers(x->w, (uint32_t)reg, n_regs))
        return false;
    for (lane = 0; lane < x->w->group->n_lanes; lane++) {
        for (e = 0; e < n; e++) {
            struct wmma_place p = wmma_at(x, lane, e);
            double *c = &x->c[p.row][lane % 16];

            if (reg < 0 && wave_float_constant(code, &constant)) {
                *c = constant;
                continue;
            }
            if (reg >= 0)
                bits = x->w->v[(uint32_t)reg + p.reg][lane];
            else
                bits = wave_read_scalar(x->w, x->in, code);
            if (reg >= 0 && p.high)
                bits >>= 16;
            if (x->shape.c == E_I8)
                *c = (double)(int32_t)bits;
            else if (x->shape.c == E_F32)
                *c = (double)wave_f32(bits);
            else if (x->shape.c == E_F16)
                *c = (double)wave_half_to_float(bits & 0xffff);
            else
                *c = (double)wave_f32(bits << 16);
        }
    }
    return !x->w->group->failed;
}

static bool
store_wmma(struct matrix *x)
{
    uint32_t n, n_regs = wmma_registers(x, &n), lane, e, reg = x->in->dst;

    if (!wave_has_registers(x->w, reg, n_regs))
        return false;
    for (lane = 0; lane < x->w->group->n_lanes; lane++) {
        for (e = 0; e < n; e++) {
            struct wmma_place p = wmma_at(x, lane, e);
            double v = x->c[p.row][lane % 16];
            uint32_t *d = &x->w->v[reg + p.reg][lane], bits;

            if (x->shape.c == E_I8) {
                *d = mfma_to_int(x, v);
                continue;
            }
            if (x->shape.c == E_F32) {
                *d = wave_u32((float)v);
                continue;
            }
            bits = x->shape.c == E_F16 ? wave_double_to_half(v)
                                       : wave_float_to_bf16((float)v);
            *d = p.high ? (*d & 0xffff) | bits << 16 : (*d & 0xffff0000) | bits;
        }
    }
    return true;
}

/* Which bytes are signed is in the bits that negate other elements. */
static bool
run_wmma(struct matrix *x)
{
    if (x->shape.c != E_I8 && (x->in->neg || x->in->neg_hi))
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s with signs changed",
                         isa_op_name(x->in->op));
    if (x->w->group->gen == ISA_GFX12 && x->w->group->n_lanes == 64)
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s in a wave of 64",
                         isa_op_name(x->in->op));
    if (!load_wmma(x, 0, (enum element)x->shape.a) ||
        !load_wmma(x, 1, (enum element)x->shape.b) || !load_wmma_c(x))
        return false;
    multiply_matrix(x);
    return store_wmma(x);
}

/* ---- MFMA, gfx9 ---- */

/* Lane l holds consecutive values of k of row l % m of a block; the blocks
 * first, then the depth, go over the lanes. */
static bool
load_mfma(struct matrix *x, unsigned source, uint32_t block, enum element type)
{
    uint32_t m = x->shape.m, n_blocks = x->shape.n_blocks, lane, e;
    uint32_t per_lane = x->shape.k * m * n_blocks / 64;
    uint32_t n_regs = (per_lane * element_bits[type] + 31) / 32;
    int reg = first_register(x->in, source);

    assert(source < 3);
    if (reg < 0)
        return no_register(x, source);
    if (!wave_has_registers(x->w, (uint32_t)reg, n_regs))
        return false;
    for (lane = 0; lane < 64; lane++) {
        if (lane / m % n_blocks != block)
            continue;
        for (e = 0; e < per_lane; e++)
            set_factor(x, source, lane % m,
                       per_lane * (lane / m / n_blocks) + e,
                       element_at(x->w, (uint32_t)reg, lane, e, type, true));
    }
    return true;
}

/* The place in its block of element e of a lane's results for it. */
static uint32_t
mfma_row(const struct shape *s, uint32_t lane, uint32_t e)
{
    assert(lane < WAVE_LANES_MAX);
    if (s->c == E_F64)
        return 4 * e + lane / 16;
    if (s->m == 4)
        return e;
    if (s->m == 16)
        return 4 * (lane / 16) + e;
    return 8 * (e / 4) + 4 * (lane / 32) + e % 4;
}

/* C and D of a block: how many elements each lane has of it, from which on.
 * Blocks of 4 by 4 are of some lanes alone. */
static uint32_t
mfma_results(const struct shape *s, uint32_t block, uint32_t lane,
             uint32_t *out_first)
{
    uint32_t n = (uint32_t)s->m * s->m / 64;

    *out_first = s->m == 4 ? 0 : n * block;
    if (s->m != 4)
        return n;
    if (lane / 4 % s->n_blocks != block)
        return 0;
    return s->c == E_F64 ? 1 : 4;
}

static bool
load_mfma_c(struct matrix *x, uint32_t block)
{
    const struct shape *s = &x->shape;
    int reg = first_register(x->in, 2);
    uint32_t lane, e, first, value = 0;
    double constant = 0;
    bool known = wave_float_constant(x->in->src[2], &constant);

    if (reg < 0)
        value = wave_read_scalar(x->w, x->in, x->in->src[2]);
    for (lane = 0; lane < 64; lane++) {
        uint32_t n = mfma_results(s, block, lane, &first);

        for (e = 0; e < n; e++) {
            double *c = &x->c[mfma_row(s, lane, e)][lane % s->m];

            if (reg < 0)
                *c = s->c == E_I8 ? (double)(int32_t)value
                     : known      ? constant
                                  : (double)wave_f32(value);
            else if (s->c == E_I8)
                *c = (double)(int32_t)x->w->v[(uint32_t)reg + first + e][lane];
            else
                *c = element_at(x->w, (uint32_t)reg, lane, first + e,
                                (enum element)s->c, true);
        }
    }
    return !x->w->group->failed;
}

static void
store_mfma(struct matrix *x, uint32_t block, wave_row *out)
{
    const struct shape *s = &x->shape;
    uint32_t lane, e, first;

    for (lane = 0; lane < 64; lane++) {
        uint32_t n = mfma_results(s, block, lane, &first);

        for (e = 0; e < n; e++) {
            double v = x->c[mfma_row(s, lane, e)][lane % s->m];
            uint32_t at = first + e;

            if (s->a == E_F16 || s->a == E_BF16)
                v = flush_factor(x->w, E_BF16, v);

            if (s->c == E_F64) {
                uint64_t bits = wave_u64(v);
                out[2 * at][lane] = (uint32_t)bits;
                out[2 * at + 1][lane] = (uint32_t)(bits >> 32);
            } else {
                out[at][lane] =
                    s->c == E_I8 ? mfma_to_int(x, v) : wave_u32((float)v);
            }
        }
    }
}

/* All blocks are read before one is written. */
static bool
run_mfma(struct matrix *x)
{
    const struct shape *s = &x->shape;
    uint32_t n_regs = (uint32_t)s->m * s->m * s->n_blocks / 64, block;
    uint32_t dst = x->in->dst + (x->in->acc_cd ? 256 : 0);
    int c = first_register(x->in, 2);
    wave_row out[DIM_MAX];

    if (s->c == E_F64)
        n_regs *= 2;
    if (x->in->extra)
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s with cbsz, abid or blgp",
                         isa_op_name(x->in->op));
    if (!wave_has_registers(x->w, dst, n_regs) ||
        (c >= 0 && !wave_has_registers(x->w, (uint32_t)c, n_regs)))
        return false;
    for (block = 0; block < s->n_blocks; block++) {
        if (!load_mfma(x, 0, block, (enum element)s->a) ||
            !load_mfma(x, 1, block, (enum element)s->b) ||
            !load_mfma_c(x, block))
            return false;
        multiply_matrix(x);
        store_mfma(x, block, out);
    }
    memcpy(x->w->v[dst], out, n_regs * sizeof(*out));
    return true;
}

/* ---- accumulation registers ---- */

static bool
move_accumulator(struct wave *w, const struct isa_insn *in)
{
    uint32_t reg = in->dst + (in->op == ISA_V_ACCVGPR_WRITE_B32 ? 256 : 0), l;
    wave_row buf;
    const uint32_t *src = wave_read(w, in, in->src[0], buf);
    uint64_t exec = wave_exec(w);

    if (w->group->failed || !wave_has_registers(w, reg, 1))
        return false;
    for (l = 0; l < w->group->n_lanes; l++) {
        if (exec >> l & 1)
            w->v[reg][l] = src[l];
    }
    return true;
}

/* Both are accumulation registers, which the encoding numbers as others. */
static bool
copy_accumulator(struct wave *w, const struct isa_insn *in)
{
    uint32_t to = in->dst + 256, from = in->src[0] - ISA_VGPR + 256, l;
    uint64_t exec = wave_exec(w);

    if (in->src[0] < ISA_VGPR)
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s from no register",
                         isa_op_name(in->op));
    if (!wave_has_registers(w, to, 1) || !wave_has_registers(w, from, 1))
        return false;
    for (l = 0; l < w->group->n_lanes; l++) {
        if (exec >> l & 1)
            w->v[to][l] = w->v[from][l];
    }
    return true;
}

/* For who counts. */
static void
count_product(struct wave_counts *c, const struct shape *s)
{
    enum chip_rate rate = s->a == E_F64    ? CHIP_MATRIX_F64
                          : s->a == E_F32  ? CHIP_MATRIX_F32
                          : s->a == E_XF32 ? CHIP_MATRIX_TF32
                          : s->a <= E_BF16 ? CHIP_MATRIX_F16
                                           : CHIP_MATRIX_8;

    c->sum.matrix_flops[rate] += 2.0 * s->m * s->m * s->k * s->n_blocks;
}

bool
wave_matrix(struct wave *w, const struct isa_insn *in)
{
    struct matrix x;
    size_t i;

    if (in->op == ISA_V_ACCVGPR_MOV_B32)
        return copy_accumulator(w, in);
    if (in->op == ISA_V_ACCVGPR_READ_B32 || in->op == ISA_V_ACCVGPR_WRITE_B32)
        return move_accumulator(w, in);
    if (wave_exec(w) != w->group->all_lanes)
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s while lanes are switched off",
                         isa_op_name(in->op));
    x.w = w;
    x.in = in;
    memset(x.c, 0, sizeof(x.c));
    for (i = 0; i < ARRAY_LEN(shapes); i++) {
        if (shapes[i].op != in->op)
            continue;
        x.shape = shapes[i];
        if (w->group->counts)
            count_product(w->group->counts, &x.shape);
        return isa_is_gfx9(w->group->gen) ? run_mfma(&x) : run_wmma(&x);
    }
    return wave_fail(w, AMD_WAVE_ILLEGAL, "%s is not known",
                     isa_op_name(in->op));
}
