/* Vector instructions, lane by lane. src: docs/hardware/amd-code.md,
 * "Execution", "Vector operations"; the operations themselves are in
 * wave_ops.def.
 *
 * Approximations (exp, log, sin, rcp, sqrt): those of F32 give either of the
 * numbers next to the exact result, and all but sin take subnormals for 0 and
 * give 0 instead; others give the rounded exact result.
 * v_div_scale never scales, and v_div_fixup divides.
 */
#include "sim/amd/isa/wave_operand.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"

/* ---- helpers of wave_ops.def -------------------------------------------- */

static uint32_t
bit_reverse(uint32_t a)
{
    uint32_t r = 0;
    int i;

    for (i = 0; i < 32; i++)
        r |= (a >> i & 1) << (31 - i);
    return r;
}

static uint32_t
sign_bits(uint32_t a)
{
    uint32_t x = (int32_t)a < 0 ? ~a : a;

    return x ? (uint32_t)__builtin_clz(x) : UINT32_MAX;
}

static uint32_t
to_u32(double a)
{
    if (!(a > 0))
        return 0;
    return a >= 0x1p32 ? UINT32_MAX : (uint32_t)a;
}

static uint32_t
to_i32(double a)
{
    if (isnan(a))
        return 0;
    if (a >= 0x1p31)
        return INT32_MAX;
    return a <= -0x1p31 ? 0x80000000u : (uint32_t)(int32_t)a;
}

static uint32_t
to_u16(double a)
{
    if (!(a > 0))
        return 0;
    return a >= 65535 ? 65535 : (uint32_t)a;
}

static uint32_t
to_i16(double a)
{
    if (isnan(a))
        return 0;
    if (a >= 32767)
        return 32767;
    return (a <= -32768 ? 0x8000u : (uint32_t)(int32_t)a) & 0xffff;
}

static uint32_t
saturate16(uint32_t a)
{
    return to_i16((double)(int32_t)a);
}

float
wave_min_f32(float a, float b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

float
wave_max_f32(float a, float b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

static double
min_f64(double a, double b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double
max_f64(double a, double b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    if (a == b)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

/* With a NaN among them it is the smallest. */
static float
med_f32(float a, float b, float c)
{
    if (isnan(a) || isnan(b) || isnan(c))
        return wave_min_f32(wave_min_f32(a, b), c);
    return wave_max_f32(wave_min_f32(a, b),
                        wave_min_f32(wave_max_f32(a, b), c));
}

/* With a NaN among them it is a NaN. */
static float
minimum(float a, float b)
{
    return isnan(a) || isnan(b) ? NAN : wave_min_f32(a, b);
}

static float
maximum(float a, float b)
{
    return isnan(a) || isnan(b) ? NAN : wave_max_f32(a, b);
}

/* A product of halves is one too, before it is added. */
static double
twice_rounded(double product, double c)
{
    return (double)wave_half_to_float(wave_double_to_half(product)) + c;
}

static uint32_t
saturate_u8(int32_t a)
{
    return (uint32_t)(a < 0 ? 0 : a > 255 ? 255 : a);
}

/* The sum of the differences of parts of n_bits. */
static uint32_t
sad(uint32_t a, uint32_t b, unsigned n_bits)
{
    uint32_t mask = n_bits == 32 ? UINT32_MAX : (1u << n_bits) - 1, sum = 0;
    unsigned at;

    assert(n_bits == 8 || n_bits == 16 || n_bits == 32);
    for (at = 0; at < 32; at += n_bits) {
        uint32_t p = a >> at & mask, q = b >> at & mask;

        sum += p > q ? p - q : q - p;
    }
    return sum;
}

static int64_t
min2(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t
min3(int64_t a, int64_t b, int64_t c)
{
    return min2(min2(a, b), c);
}

static int64_t
max3(int64_t a, int64_t b, int64_t c)
{
    return max2(max2(a, b), c);
}

static int64_t
med3(int64_t a, int64_t b, int64_t c)
{
    return max2(min2(a, b), min2(max2(a, b), c));
}

static int64_t
sext24(uint32_t a)
{
    return (int32_t)(a << 8) >> 8;
}

static uint32_t
bfe_i32(uint32_t a, uint32_t offset, uint32_t width)
{
    if (width == 0)
        return 0;
    a = a >> offset << (32 - width);
    return (uint32_t)((int32_t)a >> (32 - width));
}

static int
clamp_exp(int32_t a)
{
    return a > 5000 ? 5000 : a < -5000 ? -5000 : a;
}

/* Subnormals become 0. src: AMD's RDNA 3 instruction set guide, 16.8
 * ("denormals are flushed"); LLVM 19's code for gfx942 scales around them
 * too. */
static float
flush_denormal(float a)
{
    return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a;
}

/* One unit in the last place is what the approximations may be off: one of the
 * two numbers around the exact result, as its bits decide.
 * src: docs/hardware/amd-code.md, "Vector operations" */
static float
nearly(double exact)
{
    float r = (float)exact;
    uint64_t bits;

    memcpy(&bits, &exact, sizeof(bits));
    if (!isfinite(r) || fabsf(r) < 0x1p-125f || (double)r == exact ||
        !(hash_mix(bits) & 1))
        return r;
    return nextafterf(r, (double)r < exact ? INFINITY : -INFINITY);
}

/* The angle of a number of revolutions. */
static double
revolutions_to_radians(double a)
{
    return (a - floor(a)) * 6.283185307179586;
}

static uint32_t
frexp_exp(double a)
{
    int exp = 0;

    if (a != 0 && isfinite(a))
        (void)frexp(a, &exp);
    return (uint32_t)exp;
}

static double
frexp_mant(double a)
{
    int exp;

    return isfinite(a) ? frexp(a, &exp) : a;
}

static uint32_t
permute_bytes(uint64_t data, uint32_t select)
{
    uint32_t out = 0;
    int i;

    for (i = 0; i < 4; i++) {
        uint32_t s = select >> i * 8 & 0xff, byte;
        if (s <= 7)
            byte = (uint32_t)(data >> s * 8) & 0xff;
        else if (s <= 11) /* sign of bytes 1, 3, 5, 7 */
            byte = data >> ((s - 8) * 16 + 15) & 1 ? 0xff : 0;
        else
            byte = s == 12 ? 0 : 0xff;
        out |= byte << i * 8;
    }
    return out;
}

static uint64_t
two_floats(uint32_t a, struct wave_fp8 format)
{
    return wave_u32(wave_fp8_to_float(a & 0xff, format)) |
           (uint64_t)wave_u32(wave_fp8_to_float(a >> 8 & 0xff, format)) << 32;
}

static float
dot_halves(uint32_t a, uint32_t b, float sum)
{
    return (float)((double)wave_half_to_float(a & 0xffff) *
                       (double)wave_half_to_float(b & 0xffff) +
                   (double)wave_half_to_float(a >> 16) *
                       (double)wave_half_to_float(b >> 16) +
                   (double)sum);
}

static uint32_t
dot_bytes(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    int i;

    for (i = 0; i < 32; i += 8)
        sum += (uint32_t)((int8_t)(a >> i) * (int8_t)(b >> i));
    return sum;
}

/* ---- operations by table ---- */

#define T_X     int
#define T_B32   uint32_t
#define T_F32   float
#define T_B16   uint32_t
#define T_F16   double
#define T_P16   uint32_t
#define T_B64   uint64_t
#define T_F64   double
#define T_OLD32 float
#define T_OLD64 double
#define T_OLD16 double
#define T_K32   float
#define T_K16   double

#define LOAD_X(s)     0
#define LOAD_B32(s)   x->src[s].p[l]
#define LOAD_F32(s)   wave_f32(x->src[s].p[l])
#define LOAD_B16(s)   x->src[s].p[l]
#define LOAD_F16(s)   (double)wave_half_to_float(x->src[s].p[l])
#define LOAD_P16(s)   x->src[s].p[l]
#define LOAD_B64(s)   x->src[s].q[l]
#define LOAD_F64(s)   wave_f64(x->src[s].q[l])
#define LOAD_OLD32(s) wave_f32(x->src[s].p[l])
#define LOAD_OLD64(s) wave_f64(x->src[s].q[l])
#define LOAD_OLD16(s) (double)wave_half_to_float(x->src[s].p[l] & 0xffff)
#define LOAD_K32(s)   wave_f32(x->src[s].p[l])
#define LOAD_K16(s)   (double)wave_half_to_float(x->src[s].p[l] & 0xffff)

#define SAVE_B32(value) x->r[l] = (value)
#define SAVE_F32(value) x->r[l] = wave_u32(value)
#define SAVE_B16(value) x->r[l] = (value)
#define SAVE_F16(value) x->r[l] = wave_double_to_half(value)
#define SAVE_B64(value) x->q[l] = (value)
#define SAVE_F64(value) x->q[l] = wave_u64(value)

#define WAVE_OP(name, out, s0, s1, s2, value)                                  \
    case ISA_##name:                                                           \
        if (!wave_read_source(x, 0, KIND_##s0) ||                              \
            !wave_read_source(x, 1, KIND_##s1) ||                              \
            !wave_read_source(x, 2, KIND_##s2))                                \
            return false;                                                      \
        for (l = 0; l < n; l++) {                                              \
            T_##s0 A = LOAD_##s0(0);                                           \
            T_##s1 B = LOAD_##s1(1);                                           \
            T_##s2 C = LOAD_##s2(2);                                           \
            (void)A, (void)B, (void)C;                                         \
            SAVE_##out(value);                                                 \
        }                                                                      \
        return wave_store(x, KIND_##out);

static bool
run_table(struct valu *x, bool *out_known)
{
    uint32_t l, n = x->w->group->n_lanes;
    bool gfx12 = x->w->group->gen == ISA_GFX12;
    struct wave_fp8 fp8 = {false, gfx12}, bf8 = {true, gfx12};
    /* v_cvt_f32_fp8: which byte, by SDWA on gfx9 */
    uint32_t byte =
        gfx12 ? (x->in->opsel & 1u) << 1 | (x->in->opsel >> 1 & 1) : 0;

    *out_known = true;
    switch (x->in->op) {
#include "sim/amd/isa/wave_ops.def"
    default:
        *out_known = false;
        return false;
    }
}

/* ---- operations with masks ---- */

static bool
run_carry(struct valu *x)
{
    uint64_t carry_in = 0, carry = 0;
    uint32_t l, n = x->w->group->n_lanes, op = x->in->op;
    bool chained = op == ISA_V_ADD_CO_CI_U32 || op == ISA_V_SUB_CO_CI_U32 ||
                   op == ISA_V_SUBREV_CO_CI_U32;
    bool adds = op == ISA_V_ADD_CO_U32 || op == ISA_V_ADD_CO_CI_U32;
    bool reversed = op == ISA_V_SUBREV_CO_U32 || op == ISA_V_SUBREV_CO_CI_U32;

    if (!wave_read_source(x, 0, KIND_B32) || !wave_read_source(x, 1, KIND_B32))
        return false;
    if (chained)
        carry_in = wave_read_mask(x->w, x->in,
                                  x->in->is_e64 ? x->in->src[2] : ISA_VCC_LO);
    for (l = 0; l < n; l++) {
        uint64_t a = x->src[0].p[l], b = x->src[1].p[l], sum;
        uint64_t c = carry_in >> l & 1;
        if (adds)
            sum = a + b + c;
        else
            sum = reversed ? b - a - c : a - b - c;
        x->r[l] = (uint32_t)sum;
        carry |= (sum >> 32 & 1) << l;
    }
    wave_write_mask(x->w, x->in->sdst, carry & x->exec);
    return wave_store_word(x);
}

static bool
run_cndmask(struct valu *x)
{
    uint64_t mask =
        wave_read_mask(x->w, x->in, x->in->is_e64 ? x->in->src[2] : ISA_VCC_LO);
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_F32) || !wave_read_source(x, 1, KIND_F32))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++)
        x->r[l] = mask >> l & 1 ? x->src[1].p[l] : x->src[0].p[l];
    return wave_store_word(x);
}

static bool
run_cndmask16(struct valu *x)
{
    uint64_t mask = wave_read_mask(x->w, x->in, x->in->src[2]);
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_F16) || !wave_read_source(x, 1, KIND_F16))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++)
        x->r[l] = mask >> l & 1 ? x->src[1].p[l] : x->src[0].p[l];
    return wave_store_half(x);
}

static bool
run_mad64(struct valu *x)
{
    bool is_signed = x->in->op == ISA_V_MAD_I64_I32;
    uint64_t carry = 0;
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_B32) ||
        !wave_read_source(x, 1, KIND_B32) || !wave_read_source(x, 2, KIND_B64))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint32_t a = x->src[0].p[l], b = x->src[1].p[l];
        uint64_t product = is_signed
                               ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b)
                               : (uint64_t)a * b;
        x->q[l] = product + x->src[2].q[l];
        carry |= (uint64_t)(x->q[l] < product) << l;
    }
    wave_write_mask(x->w, x->in->sdst, carry & x->exec);
    return wave_store_pair(x);
}

static bool
run_div_scale(struct valu *x)
{
    wave_write_mask(x->w, x->in->sdst, 0);
    if (x->in->op == ISA_V_DIV_SCALE_F64) {
        if (!wave_read_source(x, 0, KIND_F64))
            return false;
        memcpy(x->q, x->src[0].q, sizeof(x->q));
        return wave_store_pair(x);
    }
    if (!wave_read_source(x, 0, KIND_F32))
        return false;
    memcpy(x->r, x->src[0].p, x->w->group->n_lanes * 4);
    return wave_store_word(x);
}

static bool
run_div_fmas(struct valu *x)
{
    uint64_t vcc = wave_read_mask(x->w, x->in, ISA_VCC_LO);
    bool wide = x->in->op == ISA_V_DIV_FMAS_F64;
    unsigned i;
    uint32_t l;

    for (i = 0; i < 3; i++) {
        if (!wave_read_source(x, i, wide ? KIND_F64 : KIND_F32))
            return false;
    }
    for (l = 0; l < x->w->group->n_lanes; l++) {
        bool scaled = vcc >> l & 1;
        if (wide) {
            double v = fma(wave_f64(x->src[0].q[l]), wave_f64(x->src[1].q[l]),
                           wave_f64(x->src[2].q[l]));
            x->q[l] = wave_u64(scaled ? v * 0x1p64 : v);
        } else {
            float v = fmaf(wave_f32(x->src[0].p[l]), wave_f32(x->src[1].p[l]),
                           wave_f32(x->src[2].p[l]));
            x->r[l] = wave_u32(scaled ? v * 0x1p32f : v);
        }
    }
    return wave_store(x, wide ? KIND_F64 : KIND_F32);
}

/* ---- compares ---- */

static enum kind
compare_kind(uint32_t type)
{
    switch (type) {
    case ISA_F16:
        return KIND_F16;
    case ISA_F32:
        return KIND_F32;
    case ISA_F64:
        return KIND_F64;
    case ISA_I16:
    case ISA_U16:
        return KIND_B16;
    case ISA_I64:
    case ISA_U64:
        return KIND_B64;
    default:
        return KIND_B32;
    }
}

/* One of the four outcomes. */
#define ORDER(a, b)                                                            \
    ((a) < (b)    ? ISA_LT                                                     \
     : (a) == (b) ? ISA_EQ                                                     \
     : (a) > (b)  ? ISA_GT                                                     \
                  : ISA_UNORDERED)

static int
compare_lane(const struct valu *x, uint32_t l)
{
    const struct source *a = &x->src[0], *b = &x->src[1];

    assert(l < WAVE_LANES_MAX);
    switch (x->in->type) {
    case ISA_F16:
        return ORDER(wave_half_to_float(a->p[l]), wave_half_to_float(b->p[l]));
    case ISA_F32:
        return ORDER(wave_f32(a->p[l]), wave_f32(b->p[l]));
    case ISA_F64:
        return ORDER(wave_f64(a->q[l]), wave_f64(b->q[l]));
    case ISA_I16:
        return ORDER((int16_t)a->p[l], (int16_t)b->p[l]);
    case ISA_U16:
    case ISA_U32:
        return ORDER(a->p[l], b->p[l]);
    case ISA_I32:
        return ORDER((int32_t)a->p[l], (int32_t)b->p[l]);
    case ISA_I64:
        return ORDER((int64_t)a->q[l], (int64_t)b->q[l]);
    default:
        return ORDER(a->q[l], b->q[l]);
    }
}

static bool
finish_compare(struct valu *x, uint64_t mask)
{
    mask &= x->exec;
    if (!x->in->is_x || isa_is_gfx9(x->w->group->gen))
        wave_write_mask(x->w, x->in->sdst, mask);
    if (x->in->is_x)
        wave_write_mask(x->w, ISA_EXEC_LO, mask);
    return !x->w->group->failed;
}

static bool
run_compare(struct valu *x)
{
    enum kind kind = compare_kind(x->in->type);
    uint64_t mask = 0;
    uint32_t l;

    if (!wave_read_source(x, 0, kind) || !wave_read_source(x, 1, kind))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++)
        mask |= (uint64_t)((compare_lane(x, l) & x->in->cond) != 0) << l;
    return finish_compare(x, mask);
}

static uint32_t
fp_class_bits(double v, double min_normal, bool quiet)
{
    bool neg = signbit(v);

    if (isnan(v))
        return quiet ? 2 : 1;
    if (isinf(v))
        return neg ? 4 : 0x200;
    if (v == 0)
        return neg ? 0x20 : 0x40;
    if (fabs(v) < min_normal)
        return neg ? 0x10 : 0x80;
    return neg ? 8 : 0x100;
}

static bool
run_class(struct valu *x)
{
    enum kind kind = compare_kind(x->in->type);
    uint64_t mask = 0;
    uint32_t l, class;

    if (!wave_read_source(x, 0, kind) || !wave_read_source(x, 1, KIND_B32))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (kind == KIND_F64)
            class = fp_class_bits(wave_f64(x->src[0].q[l]), 0x1p-1022,
                                  x->src[0].q[l] >> 51 & 1);
        else if (kind == KIND_F16)
            class = fp_class_bits((double)wave_half_to_float(x->src[0].p[l]),
                                  0x1p-14, x->src[0].p[l] >> 9 & 1);
        else
            class = fp_class_bits((double)wave_f32(x->src[0].p[l]), 0x1p-126,
                                  x->src[0].p[l] >> 22 & 1);
        mask |= (uint64_t)((class & x->src[1].p[l]) != 0) << l;
    }
    return finish_compare(x, mask);
}

/* ---- between lanes ---- */

static bool
run_readfirstlane(struct valu *x)
{
    uint64_t exec = wave_exec(x->w);
    uint32_t lane = exec ? (uint32_t)__builtin_ctzll(exec) : 0;

    if (!wave_read_source(x, 0, KIND_B32))
        return false;
    wave_write_scalar(x->w, x->in->sdst, x->src[0].p[lane]);
    return !x->w->group->failed;
}

static bool
run_readlane(struct valu *x)
{
    uint32_t lane;

    if (!wave_read_source(x, 0, KIND_B32))
        return false;
    lane = wave_read_scalar(x->w, x->in, x->in->src[1]);
    wave_write_scalar(x->w, x->in->sdst,
                      x->src[0].p[lane & (x->w->group->n_lanes - 1)]);
    return !x->w->group->failed;
}

static bool
run_writelane(struct valu *x)
{
    uint32_t value = wave_read_scalar(x->w, x->in, x->in->src[0]);
    uint32_t lane = wave_read_scalar(x->w, x->in, x->in->src[1]);

    if (!wave_has_registers(x->w, x->in->dst, 1))
        return false;
    x->w->v[x->in->dst][lane & (x->w->group->n_lanes - 1)] = value;
    return !x->w->group->failed;
}

/* v_permlane16 and x16: a lane of the row, or of the row beside it, by four
 * bits of two scalars. */
static bool
run_permlane(struct valu *x)
{
    uint64_t select, active = wave_exec(x->w);
    bool other = x->in->op == ISA_V_PERMLANEX16_B32;
    bool inactive = x->in->opsel & 1, zero = x->in->opsel >> 1 & 1;
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_B32) ||
        !wave_has_registers(x->w, x->in->dst, 1))
        return false;
    select = wave_read_scalar(x->w, x->in, x->in->src[1]) |
             (uint64_t)wave_read_scalar(x->w, x->in, x->in->src[2]) << 32;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint32_t from =
            ((l & ~15u) ^ (other ? 16u : 0)) | (select >> 4 * (l & 15) & 15);
        bool there = inactive || active >> from & 1;

        x->r[l] = there ? x->src[0].p[from] : zero ? 0 : x->w->v[x->in->dst][l];
    }
    return wave_store_word(x);
}

static bool
run_permlane64(struct valu *x)
{
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_B32))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++)
        x->r[l] = x->src[0].p[x->w->group->n_lanes == 64 ? l ^ 32 : l];
    return wave_store_word(x);
}

static bool
run_swap(struct valu *x)
{
    uint32_t other = x->in->src[0] - ISA_VGPR, l, old;

    if (!wave_has_registers(x->w, x->in->dst, 1) ||
        !wave_has_registers(x->w, other, 1))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        if (!(x->exec >> l & 1))
            continue;
        old = x->w->v[x->in->dst][l];
        x->w->v[x->in->dst][l] = x->w->v[other][l];
        x->w->v[other][l] = old;
    }
    return true;
}

/* v_s_*: of a scalar, in a scalar. */
static bool
run_of_scalar(struct valu *x)
{
    static const struct {
        uint16_t op, vector;
    } ops[] = {
        {ISA_V_S_EXP_F32, ISA_V_EXP_F32},   {ISA_V_S_EXP_F16, ISA_V_EXP_F16},
        {ISA_V_S_LOG_F32, ISA_V_LOG_F32},   {ISA_V_S_LOG_F16, ISA_V_LOG_F16},
        {ISA_V_S_RCP_F32, ISA_V_RCP_F32},   {ISA_V_S_RCP_F16, ISA_V_RCP_F16},
        {ISA_V_S_RSQ_F32, ISA_V_RSQ_F32},   {ISA_V_S_RSQ_F16, ISA_V_RSQ_F16},
        {ISA_V_S_SQRT_F32, ISA_V_SQRT_F32}, {ISA_V_S_SQRT_F16, ISA_V_SQRT_F16},
    };
    struct isa_insn vector = *x->in;
    uint32_t old = x->w->v[0][0];
    bool known, good;
    size_t i;

    for (i = 0; i < ARRAY_LEN(ops); i++) {
        if (ops[i].op == x->in->op)
            vector.op = ops[i].vector;
    }
    /* the operation of one lane, in a register that is put back */
    vector.dst = 0;
    x->in = &vector;
    x->exec = 1;
    x->w->v[0][0] = 0;
    good = run_table(x, &known);
    if (good)
        wave_write_scalar(x->w, vector.sdst, x->w->v[0][0]);
    x->w->v[0][0] = old;
    return good && !x->w->group->failed;
}

static bool
run_mbcnt(struct valu *x)
{
    bool high = x->in->op == ISA_V_MBCNT_HI_U32_B32;
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_B32) || !wave_read_source(x, 1, KIND_B32))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint64_t below = (1ull << l) - 1;
        uint32_t part = (uint32_t)(high ? below >> 32 : below);
        x->r[l] = (uint32_t)__builtin_popcount(x->src[0].p[l] & part) +
                  x->src[1].p[l];
    }
    return wave_store_word(x);
}

static bool
run_cvt_pk_fp8(struct valu *x)
{
    struct wave_fp8 format = {x->in->op == ISA_V_CVT_PK_BF8_F32,
                              x->w->group->gen == ISA_GFX12};
    bool high = x->in->opsel >> 3 & 1;
    uint32_t l;

    if (!wave_read_source(x, 0, KIND_F32) ||
        !wave_read_source(x, 1, KIND_F32) ||
        !wave_has_registers(x->w, x->in->dst, 1))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        uint32_t old = x->w->v[x->in->dst][l];
        uint32_t two = wave_float_to_fp8(wave_f32(x->src[0].p[l]), format) |
                       wave_float_to_fp8(wave_f32(x->src[1].p[l]), format) << 8;
        x->r[l] = high ? (old & 0xffff) | two << 16 : (old & 0xffff0000) | two;
    }
    return wave_store_word(x);
}

/* Integer saturation, which `clamp` asks for. */
static bool
run_saturating(struct valu *x)
{
    uint32_t l, op = x->in->op;

    if (!wave_read_source(x, 0, KIND_B32) || !wave_read_source(x, 1, KIND_B32))
        return false;
    for (l = 0; l < x->w->group->n_lanes; l++) {
        int64_t a = x->src[0].p[l], b = x->src[1].p[l], v;
        int64_t max = UINT32_MAX, min = 0;
        if (op == ISA_V_ADD_NC_I32 || op == ISA_V_SUB_NC_I32) {
            a = (int32_t)a;
            b = (int32_t)b;
            max = INT32_MAX;
            min = INT32_MIN;
        }
        if (op == ISA_V_ADD_NC_U32 || op == ISA_V_ADD_NC_I32)
            v = a + b;
        else
            v = op == ISA_V_SUBREV_NC_U32 ? b - a : a - b;
        x->r[l] = (uint32_t)(v > max ? max : v < min ? min : v);
    }
    return wave_store_word(x);
}

/* ---- dispatch ---- */

static bool
run_special(struct valu *x)
{
    switch (x->in->op) {
    case ISA_V_CMP:
        return run_compare(x);
    case ISA_V_CMP_CLASS:
        return run_class(x);
    case ISA_V_CNDMASK_B32:
        return run_cndmask(x);
    case ISA_V_CNDMASK_B16:
        return run_cndmask16(x);
    case ISA_V_ADD_CO_U32:
    case ISA_V_SUB_CO_U32:
    case ISA_V_SUBREV_CO_U32:
    case ISA_V_ADD_CO_CI_U32:
    case ISA_V_SUB_CO_CI_U32:
    case ISA_V_SUBREV_CO_CI_U32:
        return run_carry(x);
    case ISA_V_MAD_U64_U32:
    case ISA_V_MAD_I64_I32:
        return run_mad64(x);
    case ISA_V_DIV_SCALE_F32:
    case ISA_V_DIV_SCALE_F64:
        return run_div_scale(x);
    case ISA_V_DIV_FMAS_F32:
    case ISA_V_DIV_FMAS_F64:
        return run_div_fmas(x);
    case ISA_V_READFIRSTLANE_B32:
        return run_readfirstlane(x);
    case ISA_V_READLANE_B32:
        return run_readlane(x);
    case ISA_V_WRITELANE_B32:
        return run_writelane(x);
    case ISA_V_MBCNT_LO_U32_B32:
    case ISA_V_MBCNT_HI_U32_B32:
        return run_mbcnt(x);
    case ISA_V_PERMLANE16_B32:
    case ISA_V_PERMLANEX16_B32:
        return run_permlane(x);
    case ISA_V_PERMLANE64_B32:
        return run_permlane64(x);
    case ISA_V_SWAP_B32:
        return run_swap(x);
    case ISA_V_S_EXP_F32:
    case ISA_V_S_EXP_F16:
    case ISA_V_S_LOG_F32:
    case ISA_V_S_LOG_F16:
    case ISA_V_S_RCP_F32:
    case ISA_V_S_RCP_F16:
    case ISA_V_S_RSQ_F32:
    case ISA_V_S_RSQ_F16:
    case ISA_V_S_SQRT_F32:
    case ISA_V_S_SQRT_F16:
        return run_of_scalar(x);
    case ISA_V_CVT_PK_FP8_F32:
    case ISA_V_CVT_PK_BF8_F32:
        return run_cvt_pk_fp8(x);
    default:
        return wave_fail(x->w, AMD_WAVE_ILLEGAL, "%s is not known",
                         isa_op_name(x->in->op));
    }
}

static bool
saturates(const struct isa_insn *in)
{
    return in->clamp &&
           (in->op == ISA_V_ADD_NC_U32 || in->op == ISA_V_SUB_NC_U32 ||
            in->op == ISA_V_SUBREV_NC_U32 || in->op == ISA_V_ADD_NC_I32 ||
            in->op == ISA_V_SUB_NC_I32);
}

static bool
run_one(struct valu *x)
{
    bool known, good;

    if (saturates(x->in))
        return run_saturating(x);
    good = run_table(x, &known);
    return known ? good : run_special(x);
}

/* Both halves read before either writes. */
static bool
run_dual(struct wave *w, const struct isa_insn *in)
{
    struct isa_insn first = *in, second = *in;
    struct valu x = {.w = w, .in = &first, .exec = wave_exec(w)};
    wave_row old, result;

    first.format = second.format = ISA_VOP2;
    second.op = in->op_y;
    second.dst = in->dst_y;
    second.src[0] = in->src_y[0];
    second.src[1] = in->src_y[1];
    if (!wave_has_registers(w, in->dst, 1))
        return false;
    memcpy(old, w->v[in->dst], sizeof(old));
    if (!run_one(&x))
        return false;
    memcpy(result, w->v[in->dst], sizeof(result));
    memcpy(w->v[in->dst], old, sizeof(old));
    x.in = &second;
    if (!run_one(&x))
        return false;
    memcpy(w->v[in->dst], result, sizeof(result));
    return true;
}

bool
wave_valu(struct wave *w, const struct isa_insn *in)
{
    struct valu x;

    if (in->format == ISA_VOPD)
        return run_dual(w, in);
    if (in->op == ISA_V_ACCVGPR_MOV_B32)
        return wave_matrix(w, in);
    x.w = w;
    x.in = in;
    x.exec = wave_exec(w);
    return run_one(&x);
}
