/* What the PTX interpreter does on 32 lanes at once against what it does lane
 * by lane, bit by bit, in every set of loops that this processor can run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "sim/ptx/ptx_rows.h"

#define ROUNDS 400

static uint64_t rng = 1;

static uint64_t
next(void)
{
    rng += 0x9e3779b97f4a7c15ull;
    return hash_mix(rng);
}

/* Bits that are likely to be interesting as a number of that type. */
static uint64_t
value(unsigned type)
{
    static const uint32_t f32[] = {
        0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
        0xffc12345, 1,          0x007fffff, 0x00800000, 0x7f7fffff,
        0x3f800000, 0x4f000000, 0xcf000000, 0x4f800000, 0x477fefff,
        0x477ff000, 0x33000000, 0x33000001, 0x38800000, 0x387fffff};
    static const uint64_t f64[] = {0,
                                   1ull << 63,
                                   0x7ff0000000000000,
                                   0x7ff8000000000000,
                                   1,
                                   0x3ff0000000000000,
                                   0x41e0000000000000,
                                   0x47f0000000000000,
                                   0x36a0000000000000,
                                   0x380fffffe0000000};
    static const uint64_t ints[] = {
        0,          1,          2,  UINT64_MAX, INT64_MIN, INT64_MAX,
        0x80000000, 0x7fffffff, 31, 32,         63,        64};
    const struct px_type_info *t = &px_types[type];
    uint64_t x = next(), v;

    if (x >> 62 == 0)
        v = type == PX_F64   ? f64[x % ARRAY_LEN(f64)]
            : t->kind == 'f' ? f32[x % ARRAY_LEN(f32)]
                             : ints[x % ARRAY_LEN(ints)];
    else if (x >> 62 == 1 && type == PX_F32)
        v = (next() & 0x807fffff) | (100 + x % 60) << 23; /* middling */
    else if (x >> 62 == 1 && type == PX_F16)
        v = next() & 0xffff;
    else
        v = next();
    if (type == PX_F16 || type == PX_BF16)
        v = x >> 62 ? v : v >> 16;
    return v & px_mask(t->bits);
}

static unsigned
wide_of(unsigned type)
{
    return type == PX_U32 ? PX_U64 : PX_S64;
}

/* The types of the sources; returns how many there are. */
static unsigned
sources(const struct px_row_op *op, unsigned type[3])
{
    type[0] = type[1] = type[2] = op->type;
    switch (op->op) {
    case PX_CVT:
        type[0] = op->aux;
        return 1;
    case PX_MAD:
        if (op->aux == PX_WIDE)
            type[2] = wide_of(op->type);
        return 3;
    case PX_FMA:
        return 3;
    case PX_SELP:
        type[2] = PX_PRED;
        return 3;
    case PX_SHL:
    case PX_SHR:
        type[1] = PX_U32;
        return 2;
    case PX_MOV:
    case PX_NEG:
    case PX_ABS:
    case PX_NOT:
    case PX_RCP:
    case PX_SQRT:
        return 1;
    default:
        return 2;
    }
}

static struct px_insn
insn_of(const struct px_row_op *op)
{
    struct px_insn in = {.op = op->op, .type = op->type};
    unsigned to = px_types[op->type].bits;

    if (op->op == PX_CVT) {
        in.type2 = op->aux;
        if (px_types[op->type].kind != 'f' && px_types[op->aux].kind == 'f')
            in.mod[PX_MOD_ROUND] = PX_RZI;
    } else if (op->op == PX_MIN || op->op == PX_MAX) {
        in.mod[PX_MOD_NAN] = op->aux;
    } else {
        in.mod[PX_MOD_HALF] = op->aux;
    }
    if (op->aux == PX_WIDE && op->op != PX_CVT)
        to *= 2;
    in.dst.bits = to == 64 ? 64 : 32;
    return in;
}

static void
put(uint32_t *row, unsigned type, uint32_t lane, uint64_t v)
{
    if (px_types[type].bits == 64)
        memcpy(row + 2 * lane, &v, 8);
    else if (type == PX_PRED)
        row[0] |= (uint32_t)v << lane;
    else
        row[lane] = (uint32_t)v;
}

static void
check_op(const struct px_row_op *op, const char *set)
{
    struct px_insn in = insn_of(op);
    uint32_t src[3][2 * PX_LANES], dst[2 * PX_LANES];
    uint64_t v[PX_LANES][4], got, want;
    unsigned type[3], n = sources(op, type), i;
    uint32_t lane;

    memset(src, 0, sizeof(src));
    memset(v, 0, sizeof(v));
    for (lane = 0; lane < PX_LANES; lane++) {
        for (i = 0; i < n; i++) {
            v[lane][i] = value(type[i]);
            put(src[i], type[i], lane, v[lane][i]);
        }
    }
    op->fn(dst, src[0], src[1], src[2]);
    for (lane = 0; lane < PX_LANES; lane++) {
        want = px_eval(&in, v[lane]);
        got = dst[lane];
        if (in.dst.bits == 64)
            memcpy(&got, dst + 2 * lane, 8);
        if (got != want)
            fail_msg("%s: %s.%s (%u) of 0x%llx, 0x%llx, 0x%llx is 0x%llx, "
                     "not 0x%llx",
                     set, px_op_name(op->op), px_types[op->type].name, op->aux,
                     (unsigned long long)v[lane][0],
                     (unsigned long long)v[lane][1],
                     (unsigned long long)v[lane][2], (unsigned long long)got,
                     (unsigned long long)want);
    }
    /* the result may lie in a source's place */
    if (in.dst.bits == (px_types[type[0]].bits == 64 ? 64 : 32)) {
        op->fn(src[0], src[0], src[1], src[2]);
        assert_memory_equal(src[0], dst, in.dst.bits == 64 ? 256 : 128);
    }
}

static void
check_test(const struct px_row_test *t, const char *set)
{
    struct px_insn in = {.op = PX_SETP, .type = t->type};
    uint32_t a[2 * PX_LANES] = {0}, b[2 * PX_LANES] = {0}, lane, got;
    uint64_t x, y;
    uint64_t xs[PX_LANES], ys[PX_LANES];

    in.mod[PX_MOD_CMP] = (uint8_t)(t->cmp + 1);
    for (lane = 0; lane < PX_LANES; lane++) {
        xs[lane] = x = value(t->type);
        ys[lane] = y = next() % 4 ? value(t->type) : x;
        put(a, t->type, lane, x);
        put(b, t->type, lane, y);
    }
    got = t->fn(a, b);
    for (lane = 0; lane < PX_LANES; lane++) {
        if ((got >> lane & 1) != px_eval_test(&in, xs[lane], ys[lane]))
            fail_msg("%s: setp %u .%s of 0x%llx, 0x%llx is %u", set, t->cmp,
                     px_types[t->type].name, (unsigned long long)xs[lane],
                     (unsigned long long)ys[lane], got >> lane & 1);
    }
}

static void
check_set(const struct px_row_set *set, const char *name)
{
    size_t i;
    int round;

    for (i = 0; i < set->n_ops; i++) {
        for (round = 0; round < ROUNDS; round++)
            check_op(&set->ops[i], name);
    }
    for (i = 0; i < set->n_tests; i++) {
        for (round = 0; round < ROUNDS; round++)
            check_test(&set->tests[i], name);
    }
    print_message("%s: %zu instructions, %zu comparisons\n", name, set->n_ops,
                  set->n_tests);
}

static void
test_plain(void **state)
{
    (void)state;
    check_set(&px_rows_plain, "plain");
}

static void
test_avx2(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        check_set(&px_rows_avx2, "AVX2");
        return;
    }
#endif
    skip();
}

/* Every F16, and every F32 whose lower bits are few, there and back. */
static void
test_all_halves(void **state)
{
    static const uint8_t types[] = {PX_F16, PX_BF16};
    uint32_t src[PX_LANES], dst[PX_LANES], lane, h, t;

    (void)state;
    for (t = 0; t < ARRAY_LEN(types); t++) {
        struct px_insn up = {.op = PX_CVT, .type = PX_F32, .type2 = types[t]};
        struct px_insn down = {.op = PX_CVT, .type = types[t], .type2 = PX_F32};
        up.dst.bits = up.src[0].bits = 32;
        down.dst.bits = down.src[0].bits = 32;
        down.mod[PX_MOD_ROUND] = PX_RN;
        for (h = 0; h < 65536; h += PX_LANES) {
            for (lane = 0; lane < PX_LANES; lane++)
                src[lane] = h + lane;
            px_find_rows (&up)(dst, src, NULL, NULL);
            for (lane = 0; lane < PX_LANES; lane++)
                assert_int_equal(dst[lane], px_eval_cvt(&up, h + lane, 0));
            for (lane = 0; lane < PX_LANES; lane++)
                src[lane] = (h + lane) << 16 | (uint32_t)(next() & 0xffff);
            px_find_rows (&down)(dst, src, NULL, NULL);
            for (lane = 0; lane < PX_LANES; lane++)
                assert_int_equal(dst[lane], px_eval_cvt(&down, src[lane], 0));
        }
    }
}

static void
test_blend(void **state)
{
    uint32_t a[2 * PX_LANES], b[2 * PX_LANES], c[2 * PX_LANES], i, mask;
    int round;

    (void)state;
    for (round = 0; round < 100; round++) {
        for (i = 0; i < 2 * PX_LANES; i++) {
            a[i] = c[i] = (uint32_t)next();
            b[i] = (uint32_t)next();
        }
        mask = (uint32_t)next();
        px_blend(c, b, mask, false);
        for (i = 0; i < PX_LANES; i++)
            assert_int_equal(c[i], mask >> i & 1 ? b[i] : a[i]);
        memcpy(c, a, sizeof(c));
        px_blend(c, b, mask, true);
        for (i = 0; i < 2 * PX_LANES; i++)
            assert_int_equal(c[i], mask >> i / 2 & 1 ? b[i] : a[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_all_halves),
        cmocka_unit_test(test_blend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
