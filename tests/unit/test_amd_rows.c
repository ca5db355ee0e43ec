/* What the interpreter of AMD code does on a row of lanes at once against plain
 * loops, lane by lane and bit by bit, over numbers that are special: pairs of
 * F32, and a product of matrices, whose first NaN is the one that comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "sim/amd/isa/wave_internal.h"

#define ROUNDS 3000

static uint64_t rng = 1;
static wave_row v[256], before[256];

static uint64_t
next(void)
{
    rng += 0x9e3779b97f4a7c15ull;
    return hash_mix(rng);
}

/* Bits of an F32, or of two halves. */
static uint32_t
value(bool with_nans)
{
    static const uint32_t special[] = {
        0,          0x80000000, 0x7f800000, 0xff800000, 1,
        0x807fffff, 0x00800000, 0x7f7fffff, 0x3f800000, 0xbf800000,
        0x7c00fc00, 0x04008400, 0x00018001, 0x7bff3c00, 0x7fc00000,
        0xffc12345, 0x7f812345, 0x7e00fe01, 0x7d23fd45};
    uint64_t x = next();

    if (x >> 61 == 0)
        return special[x % (ARRAY_LEN(special) - (with_nans ? 0 : 5))];
    if (x >> 61 < 5)
        return (uint32_t)((x & 0x807fffff) | (100 + x % 60) << 23);
    return with_nans ? (uint32_t)x : (uint32_t)x & 0xbfffbfff;
}

static void
start(struct wave_group *g, struct wave *w, enum isa_gen gen, uint64_t exec)
{
    static struct amd_launch launch;
    static struct amd_wave_report report;
    bool wide = isa_is_gfx9(gen);
    uint32_t i, l;

    memset(w, 0, sizeof(*w));
    *g = (struct wave_group){.launch = &launch,
                             .report = &report,
                             .gen = gen,
                             .n_lanes = wide ? 64 : 32,
                             .all_lanes = wide ? UINT64_MAX : UINT32_MAX,
                             .n_vgprs = 256};
    w->group = g;
    w->v = v;
    for (i = 0; i < ARRAY_LEN(w->s); i++)
        w->s[i] = value(true);
    w->s[ISA_EXEC_LO] = (uint32_t)exec;
    w->s[ISA_EXEC_LO + 1] = (uint32_t)(exec >> 32);
    for (i = 0; i < 16; i++) {
        for (l = 0; l < WAVE_LANES_MAX; l++)
            v[i][l] = value(next() % 8 == 0);
    }
    memcpy(before, v, sizeof(before));
}

/* ---- pairs of F32 ---- */

static float
factor(const struct isa_insn *in, const uint64_t pairs[3], unsigned i,
       bool high)
{
    uint32_t select = high ? in->opsel_hi : in->opsel;
    uint32_t neg = high ? in->neg_hi : in->neg;
    uint32_t bits = (uint32_t)(select >> i & 1 ? pairs[i] >> 32 : pairs[i]);

    return wave_f32(bits ^ (neg >> i & 1 ? 0x80000000u : 0));
}

static uint32_t
expected(const struct isa_insn *in, const uint64_t pairs[3], bool high)
{
    unsigned i = high ? 1 : 0;
    float a = factor(in, pairs, 0, high), b = factor(in, pairs, 1, high);

    switch (in->op) {
    case ISA_V_PK_MOV_B32:
        return (uint32_t)(in->opsel >> i & 1 ? pairs[i] >> 32 : pairs[i]);
    case ISA_V_PK_ADD_F32:
        return wave_u32(a + b);
    case ISA_V_PK_MUL_F32:
        return wave_u32(a * b);
    default:
        return wave_u32(fmaf(a, b, factor(in, pairs, 2, high)));
    }
}

static bool
same_f32(uint32_t a, uint32_t b)
{
    /* which of two NaNs comes out is the compiler's to choose */
    return a == b || (isnan(wave_f32(a)) && isnan(wave_f32(b)));
}

static void
test_pairs(void **state)
{
    static const uint16_t ops[] = {ISA_V_PK_ADD_F32, ISA_V_PK_MUL_F32,
                                   ISA_V_PK_FMA_F32, ISA_V_PK_MOV_B32};
    struct wave_group g;
    struct wave w;
    uint32_t round, l, i;

    (void)state;
    for (round = 0; round < ROUNDS; round++) {
        uint64_t exec = next() % 3 ? UINT64_MAX : next();
        struct isa_insn in = {.op = ops[round % ARRAY_LEN(ops)],
                              .format = ISA_VOP3P,
                              .opsel = next() & 7,
                              .opsel_hi = next() & 7,
                              .neg = next() & 7,
                              .neg_hi = next() & 7,
                              .dst = (uint8_t)(next() % 14)};

        for (i = 0; i < 3; i++)
            in.src[i] = (uint16_t)(ISA_VGPR + next() % 14);
        if (next() % 4 == 0)
            in.src[next() % 3] = (uint16_t)(2 * (next() % 40)); /* scalars */
        start(&g, &w, next() % 2 ? ISA_GFX90A : ISA_GFX942, exec);
        assert_true(wave_packed(&w, &in));
        for (l = 0; l < g.n_lanes; l++) {
            uint64_t pairs[3];

            for (i = 0; i < 3; i++) {
                uint32_t code = in.src[i];
                pairs[i] = code >= ISA_VGPR
                               ? before[code - ISA_VGPR][l] |
                                     (uint64_t)before[code - ISA_VGPR + 1][l]
                                         << 32
                               : w.s[code] | (uint64_t)w.s[code + 1] << 32;
            }
            for (i = 0; i < 2; i++) {
                uint32_t want = exec >> l & 1 ? expected(&in, pairs, i != 0)
                                              : before[in.dst + i][l];
                if (!same_f32(v[in.dst + i][l], want))
                    fail_msg("%s, round %u, lane %u: 0x%08x, not 0x%08x",
                             isa_op_name(in.op), round, l, v[in.dst + i][l],
                             want);
            }
        }
    }
}

/* ---- a product of matrices ---- */

static double
half_at(uint32_t reg, uint32_t lane, uint32_t k)
{
    return (double)wave_half_to_float(before[reg + k / 2][lane] >> k % 2 * 16 &
                                      0xffff);
}

/* One element, by plain additions; the first NaN is the result. */
static float
dot(uint32_t a, uint32_t row, uint32_t b, uint32_t column, float sum)
{
    double s = (double)sum, nan = 0;
    bool found = isnan(sum);
    uint32_t k;

    nan = found ? s : 0;
    for (k = 0; k < 16 && !found; k++) {
        double x = half_at(a, row, k), y = half_at(b, column, k);

        s = s + (isnan(x) || isnan(y) ? 0 : x * y);
        found = isnan(x) || isnan(y) || isnan(s);
        nan = isnan(x) ? x : isnan(y) ? y : s;
    }
    return (float)(found ? nan : s);
}

/* gfx11 in waves of 32: A in v[0:7], B in v[8:15], a row or column a lane; C
 * and D have rows 2e and 2e + 1 in register e. */
static void
test_product(void **state)
{
    const struct isa_insn in = {.op = ISA_V_WMMA_F32_16X16X16_F16,
                                .format = ISA_VOP3P,
                                .src = {ISA_VGPR, ISA_VGPR + 8, ISA_VGPR + 16},
                                .dst = 24};
    struct wave_group g;
    struct wave w;
    uint32_t round, l, e;

    (void)state;
    for (round = 0; round < ROUNDS / 10; round++) {
        start(&g, &w, ISA_GFX11, UINT32_MAX);
        for (e = 0; e < 16; e++) {
            for (l = 0; l < 32; l++) { /* few NaNs: other results count too */
                if (next() % 16)
                    v[e][l] &= 0xbfffbfff;
                v[16 + e][l] = value(next() % 32 == 0);
            }
        }
        memcpy(before, v, sizeof(before));
        assert_true(wave_packed(&w, &in));
        for (l = 0; l < 32; l++) {
            for (e = 0; e < 8; e++) {
                uint32_t want = wave_u32(dot(0, 2 * e + l / 16, 8, l % 16,
                                             wave_f32(before[16 + e][l])));

                if (isnan(wave_f32(want)))
                    want |= 0x00400000; /* quiet */
                if (v[24 + e][l] != want)
                    fail_msg("round %u, lane %u, element %u: 0x%08x, not "
                             "0x%08x",
                             round, l, e, v[24 + e][l], want);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_product),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
