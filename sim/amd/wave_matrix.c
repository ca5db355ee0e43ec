/* Matrix instructions: WMMA of gfx11, MFMA of gfx9, and the accumulation
 * registers. src: hw/amd/CODEOBJ.md 7 (fragments, compared with the vendor's
 * calculator there). Products are summed in F64 and rounded once, which is
 * within what the hardware's own order of summing may give. */
#include <string.h>

#include "sim/amd/wave_internal.h"

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

/* Rows (of A), columns (of B), depth. */
struct shape {
    uint32_t m, n, k;
};

struct matrix {
    struct wave *w;
    const struct isa_insn *in;
    struct shape shape;
    double a[DIM_MAX][DIM_MAX], b[DIM_MAX][DIM_MAX]; /* a[i][k], b[j][k] */
    double c[DIM_MAX][DIM_MAX];
};

/* The register a source starts at, or -1 where it is a constant. */
static int
first_register(const struct isa_insn *in, unsigned i)
{
    uint32_t code = in->src[i];

    return code >= ISA_VGPR && code < 0x10000 ? (int)(code - ISA_VGPR) : -1;
}

static const uint8_t element_bits[] = {
    [E_F16] = 16, [E_BF16] = 16, [E_F32] = 32, [E_XF32] = 32,
    [E_F64] = 64, [E_I8] = 8,    [E_FP8] = 8,  [E_BF8] = 8,
};

/* XF32 is F32 with 10 bits of fraction; the others are cut off, towards zero.
 * src: ROCm/rocm-libraries, pull request 9176, on gfx942. */
#define XF32_BITS 0xffffe000u

/* Element e of a lane's registers from `reg` on. */
static double
element_at(const struct wave *w, uint32_t reg, uint32_t lane, uint32_t e,
           enum element type, bool is_signed)
{
    unsigned bits = element_bits[type], at = e * bits;
    uint32_t word = w->v[reg + at / 32][lane], part;

    if (type == E_F64)
        return wave_f64(word | (uint64_t)w->v[reg + at / 32 + 1][lane] << 32);
    part = bits == 32 ? word : word >> at % 32 & ((1u << bits) - 1);
    if (type == E_F16)
        return (double)wave_half_to_float(part);
    if (type == E_BF16)
        return (double)wave_f32(part << 16);
    if (type == E_F32)
        return (double)wave_f32(part);
    if (type == E_XF32)
        return (double)wave_f32(part & XF32_BITS);
    if (type == E_I8)
        return is_signed ? (double)(int8_t)part : (double)part;
    return (double)wave_fp8_to_float(part, type == E_BF8);
}

static void
multiply(struct matrix *x)
{
    uint32_t i, j, k;

    for (i = 0; i < x->shape.m; i++) {
        for (j = 0; j < x->shape.n; j++) {
            for (k = 0; k < x->shape.k; k++)
                x->c[i][j] += x->a[i][k] * x->b[j][k];
        }
    }
}

/* ---- WMMA, gfx11 -------------------------------------------------------------- */

/* Lane l holds row l % 16 whole; the other lanes hold copies. */
static bool
load_wmma(struct matrix *x, unsigned source, double out[DIM_MAX][DIM_MAX],
          enum element type)
{
    int reg = first_register(x->in, source);
    uint32_t lane, e;

    if (reg < 0 ||
        !wave_has_registers(x->w, (uint32_t)reg, 16 * element_bits[type] / 32))
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s: source %u",
                         isa_op_name(x->in->op), source);
    for (lane = 0; lane < 16; lane++) {
        for (e = 0; e < 16; e++)
            out[lane][e] = element_at(x->w, (uint32_t)reg, lane, e, type,
                                      x->in->neg >> source & 1);
    }
    return true;
}

/* Row of element e of a lane, of C and D. */
static uint32_t
wmma_row(const struct matrix *x, uint32_t lane, uint32_t e)
{
    return x->w->group->n_lanes == 32 ? 2 * e + lane / 16 : 4 * e + lane / 16;
}

static bool
load_wmma_c(struct matrix *x, bool halves, enum element type)
{
    uint32_t n_regs = x->w->group->n_lanes == 32 ? 8 : 4, lane, e;
    int reg = first_register(x->in, 2);
    uint32_t bits, code = x->in->src[2];

    if (reg >= 0 && !wave_has_registers(x->w, (uint32_t)reg, n_regs))
        return false;
    for (lane = 0; lane < x->w->group->n_lanes; lane++) {
        for (e = 0; e < n_regs; e++) {
            uint32_t i = wmma_row(x, lane, e), j = lane % 16;
            if (reg >= 0)
                bits = x->w->v[(uint32_t)reg + e][lane];
            else
                bits = wave_read_scalar(x->w, x->in, code);
            if (halves && x->in->opsel >> 2 & 1)
                bits >>= 16;
            if (type == E_I8)
                x->c[i][j] = (double)(int32_t)bits;
            else if (!halves)
                x->c[i][j] = (double)wave_f32(bits);
            else if (type == E_F16)
                x->c[i][j] = (double)wave_half_to_float(bits & 0xffff);
            else
                x->c[i][j] = (double)wave_f32(bits << 16);
        }
    }
    return true;
}

static bool
store_wmma(struct matrix *x, bool halves, enum element type)
{
    uint32_t n_regs = x->w->group->n_lanes == 32 ? 8 : 4, lane, e;
    uint32_t reg = x->in->dst;

    if (!wave_has_registers(x->w, reg, n_regs))
        return false;
    for (lane = 0; lane < x->w->group->n_lanes; lane++) {
        for (e = 0; e < n_regs; e++) {
            double v = x->c[wmma_row(x, lane, e)][lane % 16];
            uint32_t *d = &x->w->v[reg + e][lane], bits;
            if (type == E_I8) {
                *d = (uint32_t)(int64_t)v;
            } else if (!halves) {
                *d = wave_u32((float)v);
            } else {
                bits = type == E_F16 ? wave_double_to_half(v)
                                     : wave_float_to_bf16((float)v);
                *d = x->in->opsel >> 2 & 1 ? (*d & 0xffff) | bits << 16
                                           : (*d & 0xffff0000) | bits;
            }
        }
    }
    return true;
}

static bool
run_wmma(struct matrix *x, enum element type, bool halves)
{
    x->shape = (struct shape){16, 16, 16};
    if (!load_wmma(x, 0, x->a, type) || !load_wmma(x, 1, x->b, type) ||
        !load_wmma_c(x, halves, type))
        return false;
    multiply(x);
    return store_wmma(x, halves, type);
}

/* ---- MFMA, gfx9 ------------------------------------------------------------------ */

/* Lane l holds `per_lane` consecutive values of k of row l % m. */
static bool
load_mfma(struct matrix *x, unsigned source, double out[DIM_MAX][DIM_MAX],
          enum element type)
{
    uint32_t rows = x->shape.m, per_lane = x->shape.k * rows / 64, lane, e;
    uint32_t n_regs = (per_lane * element_bits[type] + 31) / 32;
    int reg = first_register(x->in, source);

    if (reg < 0 || !wave_has_registers(x->w, (uint32_t)reg, n_regs))
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s: source %u",
                         isa_op_name(x->in->op), source);
    for (lane = 0; lane < 64; lane++) {
        for (e = 0; e < per_lane; e++)
            out[lane % rows][per_lane * (lane / rows) + e] =
                element_at(x->w, (uint32_t)reg, lane, e, type, true);
    }
    return true;
}

/* Row of element e of a lane, of C and D. */
static uint32_t
mfma_row(const struct matrix *x, enum element type, uint32_t lane, uint32_t e)
{
    if (type == E_F64)
        return 4 * e + lane / 16;
    if (x->shape.m == 16)
        return 4 * (lane / 16) + e;
    return 8 * (e / 4) + 4 * (lane / 32) + e % 4;
}

static uint32_t
mfma_results(const struct matrix *x)
{
    return x->shape.m * x->shape.n / 64;
}

static bool
load_mfma_c(struct matrix *x, enum element type)
{
    uint32_t n = mfma_results(x), lane, e, cols = x->shape.n;
    int reg = first_register(x->in, 2);
    uint32_t value;

    if (reg < 0) {
        value = wave_read_scalar(x->w, x->in, x->in->src[2]);
        for (lane = 0; lane < 64; lane++) {
            for (e = 0; e < n; e++)
                x->c[mfma_row(x, type, lane, e)][lane % cols] =
                    type == E_I8 ? (double)(int32_t)value
                                 : (double)wave_f32(value);
        }
        return !x->w->group->failed;
    }
    if (!wave_has_registers(x->w, (uint32_t)reg, type == E_F64 ? 2 * n : n))
        return false;
    for (lane = 0; lane < 64; lane++) {
        for (e = 0; e < n; e++) {
            double *c = &x->c[mfma_row(x, type, lane, e)][lane % cols];
            if (type == E_F64)
                *c = element_at(x->w, (uint32_t)reg, lane, e, E_F64, true);
            else if (type == E_I8)
                *c = (double)(int32_t)x->w->v[(uint32_t)reg + e][lane];
            else
                *c = element_at(x->w, (uint32_t)reg, lane, e, E_F32, true);
        }
    }
    return true;
}

static bool
store_mfma(struct matrix *x, enum element type)
{
    uint32_t n = mfma_results(x), lane, e, cols = x->shape.n;
    uint32_t reg = x->in->dst + (x->in->acc_cd ? 256 : 0);

    if (!wave_has_registers(x->w, reg, type == E_F64 ? 2 * n : n))
        return false;
    for (lane = 0; lane < 64; lane++) {
        for (e = 0; e < n; e++) {
            double v = x->c[mfma_row(x, type, lane, e)][lane % cols];
            if (type == E_F64) {
                uint64_t bits = wave_u64(v);
                x->w->v[reg + 2 * e][lane] = (uint32_t)bits;
                x->w->v[reg + 2 * e + 1][lane] = (uint32_t)(bits >> 32);
            } else if (type == E_I8) {
                x->w->v[reg + e][lane] = (uint32_t)(int64_t)v;
            } else {
                x->w->v[reg + e][lane] = wave_u32((float)v);
            }
        }
    }
    return true;
}

static bool
run_mfma(struct matrix *x, uint32_t dim, uint32_t k, enum element a_type,
         enum element b_type)
{
    enum element c_type = a_type == E_F64 || a_type == E_I8 ? a_type : E_F32;

    x->shape = (struct shape){dim, dim, k};
    if (x->in->extra)
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s with cbsz, abid or blgp",
                         isa_op_name(x->in->op));
    if (!load_mfma(x, 0, x->a, a_type) || !load_mfma(x, 1, x->b, b_type) ||
        !load_mfma_c(x, c_type))
        return false;
    multiply(x);
    return store_mfma(x, c_type);
}

/* ---- accumulation registers --------------------------------------------------- */

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

bool
wave_matrix(struct wave *w, const struct isa_insn *in)
{
    struct matrix x;

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
    switch (in->op) {
    case ISA_V_WMMA_F32_16X16X16_F16:
        return run_wmma(&x, E_F16, false);
    case ISA_V_WMMA_F32_16X16X16_BF16:
        return run_wmma(&x, E_BF16, false);
    case ISA_V_WMMA_F16_16X16X16_F16:
        return run_wmma(&x, E_F16, true);
    case ISA_V_WMMA_BF16_16X16X16_BF16:
        return run_wmma(&x, E_BF16, true);
    case ISA_V_WMMA_I32_16X16X16_IU8:
        return run_wmma(&x, E_I8, false);
    case ISA_V_MFMA_F32_16X16X16_F16:
        return run_mfma(&x, 16, 16, E_F16, E_F16);
    case ISA_V_MFMA_F32_16X16X16_BF16:
        return run_mfma(&x, 16, 16, E_BF16, E_BF16);
    case ISA_V_MFMA_F32_32X32X8_F16:
        return run_mfma(&x, 32, 8, E_F16, E_F16);
    case ISA_V_MFMA_F32_32X32X8_BF16:
        return run_mfma(&x, 32, 8, E_BF16, E_BF16);
    case ISA_V_MFMA_F32_16X16X4_F32:
        return run_mfma(&x, 16, 4, E_F32, E_F32);
    case ISA_V_MFMA_F32_32X32X2_F32:
        return run_mfma(&x, 32, 2, E_F32, E_F32);
    case ISA_V_MFMA_F32_16X16X8_XF32:
        return run_mfma(&x, 16, 8, E_XF32, E_XF32);
    case ISA_V_MFMA_F32_32X32X4_XF32:
        return run_mfma(&x, 32, 4, E_XF32, E_XF32);
    case ISA_V_MFMA_F64_16X16X4_F64:
        return run_mfma(&x, 16, 4, E_F64, E_F64);
    case ISA_V_MFMA_I32_16X16X32_I8:
        return run_mfma(&x, 16, 32, E_I8, E_I8);
    case ISA_V_MFMA_I32_32X32X16_I8:
        return run_mfma(&x, 32, 16, E_I8, E_I8);
    case ISA_V_MFMA_F32_16X16X32_FP8_FP8:
        return run_mfma(&x, 16, 32, E_FP8, E_FP8);
    case ISA_V_MFMA_F32_16X16X32_FP8_BF8:
        return run_mfma(&x, 16, 32, E_FP8, E_BF8);
    case ISA_V_MFMA_F32_16X16X32_BF8_FP8:
        return run_mfma(&x, 16, 32, E_BF8, E_FP8);
    case ISA_V_MFMA_F32_16X16X32_BF8_BF8:
        return run_mfma(&x, 16, 32, E_BF8, E_BF8);
    case ISA_V_MFMA_F32_32X32X16_FP8_FP8:
        return run_mfma(&x, 32, 16, E_FP8, E_FP8);
    case ISA_V_MFMA_F32_32X32X16_FP8_BF8:
        return run_mfma(&x, 32, 16, E_FP8, E_BF8);
    case ISA_V_MFMA_F32_32X32X16_BF8_FP8:
        return run_mfma(&x, 32, 16, E_BF8, E_FP8);
    case ISA_V_MFMA_F32_32X32X16_BF8_BF8:
        return run_mfma(&x, 32, 16, E_BF8, E_BF8);
    default:
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s is not known",
                         isa_op_name(in->op));
    }
}
