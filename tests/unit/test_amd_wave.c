/* sim/amd: decoding and running machine code that LLVM made of
 * tests/unit/amd, against the same computations in C.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "amd_object.h"
#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "ioctl/sim_count.h"
#include "sanitized.h"

#define N 256 /* elements of most kernels: four groups of 64 */

static const char *const chips[ISA_GEN_COUNT] = {
    [ISA_GFX906] = "gfx906", [ISA_GFX908] = "gfx908",  [ISA_GFX101] = "gfx1012",
    [ISA_GFX90A] = "gfx90a", [ISA_GFX942] = "gfx942",  [ISA_GFX10] = "gfx1030",
    [ISA_GFX11] = "gfx1100", [ISA_GFX115] = "gfx1150", [ISA_GFX12] = "gfx1201",
};

/* Whose words of the tables below a generation has: a later or earlier one's of
 * the same encoding. */
static enum isa_gen
words_like(enum isa_gen gen)
{
    return gen == ISA_GFX115   ? ISA_GFX11
           : gen == ISA_GFX101 ? ISA_GFX10
           : gen <= ISA_GFX908 ? ISA_GFX90A
                               : gen;
}

/* One chip's kernels, loaded. */
struct machine {
    enum isa_gen gen;
    struct arena_memory memory;
    struct amd_object object;
    struct amd_code *code;
    struct amd_wave_report report;
    uint64_t seed;
};

static uint64_t
next(struct machine *m)
{
    m->seed += 0x9e3779b97f4a7c15ull;
    return hash_mix(m->seed);
}

static float
next_float(struct machine *m)
{
    return ((float)(next(m) >> 40) / 16777216.0f - 0.5f) * 200.0f;
}

static void
start(struct machine *m, enum isa_gen gen, const char *kernels)
{
    char path[512];

    memset(m, 0, sizeof(*m));
    m->gen = gen;
    m->seed = 7;
    memory_init(&m->memory, 4u << 20);
    snprintf(path, sizeof(path), "%s/%s_%s.o", AMD_OBJECTS, kernels,
             chips[gen]);
    object_load(&m->object, &m->memory, path);
    assert_int_equal(amd_code_create(gen, &m->code), BELL_OK);
}

static void
stop(struct machine *m)
{
    amd_code_destroy(m->code);
    object_free(&m->object);
    memory_fini(&m->memory);
}

/* A launch of a kernel with these arguments, one group of 64. */
static struct amd_launch
prepare(struct machine *m, const char *name, const void *args,
        size_t args_bytes)
{
    struct amd_launch launch = {.grid = {1, 1, 1}, .local = {64, 1, 1}};
    uint64_t va = memory_put(&m->memory, args, args_bytes);

    object_user_data(&m->object, m->gen,
                     object_kernel(&m->object, name, &launch), va, &launch);
    launch.wave32 = !isa_is_gfx9(m->gen);
    launch.memory = memory_access(&m->memory);
    launch.seed = next(m);
    return launch;
}

static bell_status
run(struct machine *m, const struct amd_launch *launch)
{
    return amd_wave_run(m->code, launch, &m->report);
}

static void
run_groups(struct machine *m, const char *name, uint32_t n_groups,
           const uint64_t *args, size_t n_args)
{
    struct amd_launch launch = prepare(m, name, args, n_args * sizeof(*args));

    launch.grid[0] = n_groups;
    if (run(m, &launch) != BELL_OK)
        fail_msg("%s on %s: %s", name, chips[m->gen],
                 bell_error_last()->message);
}
#define RUN(m, name, n_groups, ...)                                            \
    run_groups(m, name, n_groups, (const uint64_t[]){__VA_ARGS__},             \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void
expect_near(const char *what, int i, double got, double want, double tolerance)
{
    if (isnan(got) && isnan(want))
        return;
    if (got == want || fabs(got - want) <= tolerance * fabs(want))
        return;
    fail_msg("%s[%d] is %.17g, not %.17g", what, i, got, want);
}

static void
expect_int(const char *what, int i, int64_t got, int64_t want)
{
    if (got != want)
        fail_msg("%s[%d] is %lld, not %lld", what, i, (long long)got,
                 (long long)want);
}

/* ---- whole kernels ------------------------------------------------------- */

static void
floats(struct machine *m)
{
    float a[N], b[N], *r;
    uint64_t out = memory_put(&m->memory, NULL, N * 16), va, vb;
    int i;

    for (i = 0; i < N; i++) {
        a[i] = next_float(m);
        b[i] = next_float(m);
    }
    va = memory_put(&m->memory, a, sizeof(a));
    vb = memory_put(&m->memory, b, sizeof(b));
    RUN(m, "ew", 4, out, va, vb);
    r = memory_at(&m->memory, out);
    for (i = 0; i < N; i++)
        expect_near("ew", i, r[i], a[i] * b[i] + a[i] / b[i], 1e-6);

    a[0] = 1e-40f;
    a[1] = 0;
    a[2] = INFINITY;
    a[3] = NAN;
    va = memory_put(&m->memory, a, sizeof(a));
    RUN(m, "math", 4, out, va);
    for (i = 0; i < N; i++) {
        expect_near("sqrt", i, r[4 * i], sqrtf(a[i]), 1e-6);
        expect_near("exp2", i, r[4 * i + 1], exp2f(a[i]), 1e-5);
        expect_near("log2", i, r[4 * i + 2], log2f(a[i]), 1e-6);
        expect_near("floor", i, r[4 * i + 3], floorf(a[i]) + truncf(-a[i]), 0);
    }
}

static void
doubles(struct machine *m)
{
    uint64_t out = memory_put(&m->memory, NULL, N * 32), va, vb;
    double a[N], b[N], *r;
    int i;

    for (i = 0; i < N; i++) {
        a[i] = (double)next_float(m) * 1e3;
        b[i] = (double)next_float(m) * 1e-3;
    }
    va = memory_put(&m->memory, a, sizeof(a));
    vb = memory_put(&m->memory, b, sizeof(b));
    RUN(m, "dmath", 4, out, va, vb);
    r = memory_at(&m->memory, out);
    for (i = 0; i < N; i++) {
        expect_near("quotient", i, r[4 * i], a[i] / b[i], 1e-15);
        expect_near("sqrt", i, r[4 * i + 1], sqrt(a[i]), 1e-15);
        expect_near("fma", i, r[4 * i + 2], fma(a[i], b[i], a[i]), 0);
        expect_near("casts", i, r[4 * i + 3],
                    (double)(int64_t)a[i] + (double)(float)b[i], 0);
    }
}

static void
integers(struct machine *m)
{
    uint64_t out = memory_put(&m->memory, NULL, N * 64), va, vb;
    int64_t a[N], b[N], *r;
    int i;

    for (i = 0; i < N; i++) {
        a[i] = (int64_t)next(m);
        b[i] = (int64_t)next(m) >> i % 64;
        if (b[i] == 0 || b[i] == -1)
            b[i] = 3;
        if ((int32_t)a[i] == INT32_MIN)
            a[i]++;
    }
    va = memory_put(&m->memory, a, sizeof(a));
    vb = memory_put(&m->memory, b, sizeof(b));
    RUN(m, "imath", 4, out, va, vb);
    r = memory_at(&m->memory, out);
    for (i = 0; i < N; i++, r += 8) {
        int64_t x = a[i], y = b[i];
        expect_int("signed quotient", i, r[0], x / y);
        expect_int("signed rest", i, r[1], x % y);
        expect_int("quotient", i, r[2], (int64_t)((uint64_t)x / (uint64_t)y));
        expect_int("product", i, r[3], (int64_t)((uint64_t)x * (uint64_t)y));
        expect_int("quotient of 32 bits", i, r[4],
                   (int32_t)x / (int32_t)(y | 1));
        expect_int("shift", i, r[5], x >> (y & 63));
        expect_int("rest of 32 bits", i, r[6], (uint32_t)x % (uint32_t)(y | 1));
        expect_int("minimum", i, r[7], x < y ? x : y);
    }
}

static void
small_types(struct machine *m)
{
    uint64_t out = memory_put(&m->memory, NULL, N);
    uint64_t halves = memory_put(&m->memory, NULL, N * 2);
    uint8_t a[N], *bytes;
    uint16_t b[N], *h;
    float f[N];
    int i;

    for (i = 0; i < N; i++) {
        a[i] = (uint8_t)next(m);
        b[i] = (uint16_t)next(m);
        f[i] = (float)(int)(next(m) % 400) / 4 - 50; /* exact as a half */
    }
    RUN(m, "small", 4, out, memory_put(&m->memory, a, sizeof(a)),
        memory_put(&m->memory, b, sizeof(b)), halves,
        memory_put(&m->memory, f, sizeof(f)));
    bytes = memory_at(&m->memory, out);
    h = memory_at(&m->memory, halves);
    for (i = 0; i < N; i++) {
        double got = ldexp((h[i] & 0x3ff) | 0x400, (h[i] >> 10 & 31) - 25);
        expect_int("byte", i, bytes[i], (uint8_t)(a[i] + b[i]));
        if (f[i] != 0)
            expect_near("half", i, h[i] & 0x8000 ? -got : got,
                        (double)f[i] * 2.5, 0x1p-10);
    }
}

static void
reduction(struct machine *m)
{
    struct {
        uint64_t out, in;
        int32_t n;
    } args = {.n = 1000};
    struct amd_launch launch;
    float a[1000], *r;
    double sum = 0;
    int i;

    for (i = 0; i < 1000; i++) {
        a[i] = next_float(m);
        sum += (double)a[i];
    }
    args.out = memory_put(&m->memory, NULL, 64);
    args.in = memory_put(&m->memory, a, sizeof(a));
    launch = prepare(m, "red", &args, sizeof(args));
    launch.grid[0] = 3;
    assert_int_equal(run(m, &launch), BELL_OK);
    r = memory_at(&m->memory, args.out);
    for (i = 0; i < 3; i++)
        expect_near("sum", i, r[i], sum, 1e-4);
}

static int
collatz(int x)
{
    int n;

    for (n = 0; x > 1; n++)
        x = x & 1 ? 3 * x + 1 : x >> 1;
    return n;
}

static void
divergence(struct machine *m)
{
    uint64_t out = memory_put(&m->memory, NULL, N * 4);
    int32_t a[N], *r, sum = 0;
    int i, k;

    for (i = 0; i < N; i++)
        a[i] = i + 1;
    RUN(m, "div", 4, out, memory_put(&m->memory, a, sizeof(a)));
    r = memory_at(&m->memory, out);
    for (i = 0; i < N; i++)
        expect_int("steps", i, r[i], collatz(i + 1));

    for (i = 0; i < N; i++)
        a[i] = (int32_t)(next(m) & 1023);
    RUN(m, "scratch", 4, out, memory_put(&m->memory, a, sizeof(a)));
    for (i = 0; i < N; i++) {
        int32_t want = 0;
        for (k = 0; k < 64; k++) {
            int at = (k * 7 + a[i]) & 63;
            want += a[(i + at) & 63] * at;
        }
        expect_int("scratch", i, r[i], want);
    }

    r[0] = 0;
    for (i = 0; i < N; i++)
        sum += a[i];
    RUN(m, "at", 4, out, memory_put(&m->memory, a, sizeof(a)));
    expect_int("atomic sum", 0, r[0], sum);
}

/* Pointers into LDS, scratch and memory, used as one kind. */
static void
generic(struct machine *m)
{
    static const int32_t factors[3] = {3, 5, 1};
    uint64_t out = memory_put(&m->memory, NULL, 64 * 4);
    int32_t a[64], *r;
    int i;

    for (i = 0; i < 64; i++)
        a[i] = (int32_t)(next(m) & 0xffff);
    RUN(m, "generic", 1, out, memory_put(&m->memory, a, sizeof(a)));
    r = memory_at(&m->memory, out);
    for (i = 0; i < 64; i++)
        expect_int("generic", i, r[i], a[i] * factors[i % 3] + 1);
}

static void
indices(struct machine *m)
{
    uint64_t out = memory_put(&m->memory, NULL, 12 * 24 * 4);
    struct amd_launch launch = prepare(m, "ids", &out, sizeof(out));
    uint32_t *r, g, l;

    launch.grid[0] = 3;
    launch.grid[1] = launch.grid[2] = 2;
    launch.local[0] = 4;
    launch.local[1] = 3;
    launch.local[2] = 2;
    assert_int_equal(run(m, &launch), BELL_OK);
    r = memory_at(&m->memory, out);
    for (g = 0; g < 12; g++) {
        for (l = 0; l < 24; l++)
            expect_int("index", (int)(g * 24 + l), r[g * 24 + l],
                       g % 3 + 10 * (g / 3 % 2) + 100 * (g / 6) +
                           1000 * (l % 4) + 10000 * (l / 4 % 3) +
                           100000 * (l / 12));
    }
    /* the groups of one die of two */
    memset(r, 0, 12 * 24 * 4);
    launch.first_group = 1;
    launch.group_step = 2;
    assert_int_equal(run(m, &launch), BELL_OK);
    for (g = 0; g < 12; g++)
        assert_int_equal(r[g * 24 + 23] != 0, g % 2);
}

static void
test_kernels(void **state)
{
    int gen;

    (void)state;
    for (gen = 0; gen < ISA_GEN_COUNT; gen++) {
        struct machine m;

        start(&m, (enum isa_gen)gen, "kernels");
        floats(&m);
        doubles(&m);
        integers(&m);
        small_types(&m);
        reduction(&m);
        divergence(&m);
        indices(&m);
        generic(&m);
        assert_true(m.report.n_insns > 0 && m.report.n_lane_ops > 0);
        stop(&m);
    }
}

/* ---- matrix instructions ------------------------------------------------- */

enum layout {
    WMMA,   /* gfx11, A: row lane % 16, element k */
    WMMA12, /* gfx12: lanes 16 to 31 have every second part of k */
    MFMA,   /* A: row lane % m, elements of k in turn */
};

/* A kernel of matrix_*.ll. */
struct matrix_case {
    const char *name;
    enum layout layout;
    int dim, k;
    char type; /* h: half, b: bf16, f, d, c: signed byte, u: unsigned, 8: fp8,
             * x: xf32 with more digits than it takes, o: fp8 of the OCP */
};

static unsigned
type_bytes(char type)
{
    return type == 'd'                  ? 8
           : type == 'f' || type == 'x' ? 4
           : type == 'h' || type == 'b' ? 2
                                        : 1;
}

/* Small integers, exact in every type: -4 to 4 (0 to 4 unsigned). */
static void
put_element(unsigned char *at, char type, int value)
{
    /* -4..4 in the two formats: fp8 here has a bias of 8 */
    static const uint16_t half[9] = {0xc400, 0xc200, 0xc000, 0xbc00, 0,
                                     0x3c00, 0x4000, 0x4200, 0x4400};
    static const uint8_t fp8[9] = {0xd0, 0xcc, 0xc8, 0xc0, 0,
                                   0x40, 0x48, 0x4c, 0x50};
    float f = (float)value;
    double d = value;
    uint32_t bits;

    memcpy(&bits, &f, 4);
    switch (type) {
    case 'h':
        memcpy(at, &half[value + 4], 2);
        break;
    case 'b':
        bits >>= 16;
        memcpy(at, &bits, 2);
        break;
    case 'x': /* what lies below its fraction is cut off */
        bits += value ? 0x1fff : 0;
        memcpy(at, &bits, 4);
        break;
    case 'f':
        memcpy(at, &f, 4);
        break;
    case 'd':
        memcpy(at, &d, 8);
        break;
    case '8':
        *at = fp8[value + 4];
        break;
    case 'o': /* a bias of 7 */
        *at = (unsigned char)(fp8[value + 4] - (value ? 8 : 0));
        break;
    default:
        *at = (unsigned char)value;
        break;
    }
}

/* Fragments of a matrix m[row][k] as the lanes hold them. */
static uint64_t
put_fragments(struct machine *m, const struct matrix_case *c, int v[32][32],
              int n_lanes)
{
    int per_lane = c->layout == WMMA     ? 16
                   : c->layout == WMMA12 ? 8
                                         : c->k * c->dim / 64;
    int lane, e, part;
    unsigned bytes = type_bytes(c->type);
    static unsigned char data[64 * 64];

    memset(data, 0, sizeof(data));
    part = bytes == 1 ? 8 : 4;
    for (lane = 0; lane < n_lanes; lane++) {
        for (e = 0; e < per_lane; e++) {
            int row = lane % c->dim;
            int k = c->layout == WMMA ? e
                    : c->layout == WMMA12
                        ? 2 * part * (e / part) + part * (lane / 16) + e % part
                        : per_lane * (lane / c->dim) + e;
            put_element(data + (size_t)(lane * per_lane + e) * bytes, c->type,
                        v[row][k]);
        }
    }
    return memory_put(&m->memory, data, sizeof(data));
}

static int
result_row(const struct matrix_case *c, int lane, int e)
{
    if (c->layout == WMMA)
        return 2 * e + lane / 16;
    if (c->layout == WMMA12)
        return e + 8 * (lane / 16);
    if (c->type == 'd')
        return 4 * e + lane / 16;
    if (c->dim == 16)
        return 4 * (lane / 16) + e;
    return 8 * (e / 4) + 4 * (lane / 32) + e % 4;
}

static double
read_result(const void *at, char type, int index)
{
    if (type == 'd')
        return ((const double *)at)[index];
    if (type == 'c')
        return ((const int32_t *)at)[index];
    return (double)((const float *)at)[index];
}

static void
one_matrix(struct machine *m, const struct matrix_case *c)
{
    int n_lanes = isa_is_gfx9(m->gen) ? 64 : 32, lane, e, k;
    int n = c->dim * c->dim / n_lanes, a[32][32], b[32][32], i, j;
    uint64_t args[4];
    struct amd_launch launch;
    const void *r;

    for (i = 0; i < 32; i++) {
        for (k = 0; k < 32; k++) {
            a[i][k] = (int)(next(m) % 9) - 4;
            b[i][k] = (int)(next(m) % 9) - 4;
            if (c->type == 'c' && c->layout != MFMA && b[i][k] < 0)
                b[i][k] += 200; /* unsigned there */
        }
    }
    args[0] = memory_put(&m->memory, NULL, 64 * 16 * 8);
    args[1] = put_fragments(m, c, a, n_lanes);
    args[2] = put_fragments(m, c, b, n_lanes);
    args[3] = memory_put(&m->memory, NULL, 64 * 16 * 8);
    for (i = 0; i < n_lanes * n; i++) { /* C: 1, 2, 3, ... */
        float f = (float)(i + 1);
        double d = i + 1;
        int32_t w = i + 1;
        char *at = memory_at(&m->memory, args[3]);
        if (c->type == 'd')
            memcpy(at + 8 * i, &d, 8);
        else
            memcpy(at + 4 * i, c->type == 'c' ? (void *)&w : (void *)&f, 4);
    }
    launch = prepare(m, c->name, args, sizeof(args));
    launch.local[0] = (uint32_t)n_lanes;
    if (run(m, &launch) != BELL_OK)
        fail_msg("%s: %s", c->name, bell_error_last()->message);
    r = memory_at(&m->memory, args[0]);
    for (lane = 0; lane < n_lanes; lane++) {
        for (e = 0; e < n; e++) {
            double want = lane * n + e + 1;
            i = result_row(c, lane, e);
            j = lane % c->dim;
            for (k = 0; k < c->k; k++)
                want += a[i][k] * b[j][k];
            expect_near(c->name, lane * n + e,
                        read_result(r, c->type, lane * n + e), want, 0);
        }
    }
}

static void
run_matrices(enum isa_gen gen, const struct matrix_case *cases, size_t n)
{
    struct machine m;
    size_t i;

    start(&m, gen, "matrix");
    for (i = 0; i < n; i++)
        one_matrix(&m, &cases[i]);
    stop(&m);
}

static void
test_matrices(void **state)
{
    static const struct matrix_case gfx942[] = {
        {"f16_16", MFMA, 16, 16, 'h'}, {"bf16_16", MFMA, 16, 16, 'b'},
        {"f16_32", MFMA, 32, 8, 'h'},  {"f32_16", MFMA, 16, 4, 'f'},
        {"f32_32", MFMA, 32, 2, 'f'},  {"i8_16", MFMA, 16, 32, 'c'},
        {"xf32_16", MFMA, 16, 8, 'x'}, {"xf32_32", MFMA, 32, 4, 'x'},
        {"fp8_16", MFMA, 16, 32, '8'}, {"fp8_32", MFMA, 32, 16, '8'},
        {"f64_16", MFMA, 16, 4, 'd'},
    };
    static const struct matrix_case gfx1100[] = {
        {"f16_16", WMMA, 16, 16, 'h'},
        {"bf16_16", WMMA, 16, 16, 'b'},
        {"i8_16", WMMA, 16, 16, 'c'},
    };
    static const struct matrix_case gfx90a[] = {
        {"f16_16", MFMA, 16, 16, 'h'}, {"bf16_16", MFMA, 16, 16, 'b'},
        {"f16_32", MFMA, 32, 8, 'h'},  {"f32_16", MFMA, 16, 4, 'f'},
        {"f32_32", MFMA, 32, 2, 'f'},  {"i8_16", MFMA, 16, 16, 'c'},
        {"i8_32", MFMA, 32, 8, 'c'},   {"bf16_32", MFMA, 32, 8, 'b'},
        {"f64_16", MFMA, 16, 4, 'd'},  {"bf16_old", MFMA, 16, 8, 'b'},
    };
    static const struct matrix_case gfx1201[] = {
        {"f16_16", WMMA12, 16, 16, 'h'},
        {"bf16_16", WMMA12, 16, 16, 'b'},
        {"i8_16", WMMA12, 16, 16, 'c'},
        {"fp8_16", WMMA12, 16, 16, 'o'},
    };

    (void)state;
    run_matrices(ISA_GFX90A, gfx90a, ARRAY_LEN(gfx90a));
    run_matrices(ISA_GFX942, gfx942, ARRAY_LEN(gfx942));
    run_matrices(ISA_GFX11, gfx1100, ARRAY_LEN(gfx1100));
    run_matrices(ISA_GFX115, gfx1100, ARRAY_LEN(gfx1100));
    run_matrices(ISA_GFX12, gfx1201, ARRAY_LEN(gfx1201));
}

/* ---- what goes wrong ----------------------------------------------------- */

static void
expect_fault(struct machine *m, const struct amd_launch *launch,
             bell_status status, enum amd_wave_fault fault, const char *part)
{
    assert_int_equal(run(m, launch), status);
    assert_int_equal(m->report.fault, fault);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("'%s' lacks '%s'", bell_error_last()->message, part);
}

/* Code made of words, at an address. */
static uint64_t
put_code(struct machine *m, const uint32_t *words, size_t n)
{
    return memory_put(&m->memory, words, n * 4);
}

static void
test_faults(void **state)
{
    static const uint32_t forever[] = {0xbf820000 | 0xffff}; /* s_branch -1 */
    static const uint32_t unknown[] = {0xbfff0000};
    static const uint32_t trap[] = {0xbf920002};
    static const uint32_t far_register[] = {0x7e000200 | 0xff << 17 | 5};
    _Atomic uint32_t flag = 1;
    struct machine m;
    uint64_t out;
    struct amd_launch launch;

    (void)state;
    start(&m, ISA_GFX942, "kernels");
    out = 0x1000; /* nobody's */
    launch = prepare(&m, "ids", &out, sizeof(out));
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_UNMAPPED, "0x1000");
    assert_int_equal(m.report.va, 0x1000);
    assert_true(m.report.is_write);

    launch.pc = put_code(&m, unknown, 1);
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_ILLEGAL,
                 "0xbfff0000");
    launch.pc = put_code(&m, trap, 1);
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_TRAP, "s_trap 2");
    launch.pc = put_code(&m, far_register, 1);
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_RANGE,
                 "register 255");
    launch.pc = 0x5000;
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_FETCH, "not mapped");
    launch.pc = put_code(&m, forever, 1);
    launch.max_insns = 10000;
    expect_fault(&m, &launch, BELL_E_TIMEOUT, AMD_WAVE_HUNG, "10000");
    launch.max_insns = 0;
    launch.stop = &flag;
    expect_fault(&m, &launch, BELL_E_TIMEOUT, AMD_WAVE_STOPPED, "stopped");
    launch.local[0] = 1025;
    expect_fault(&m, &launch, BELL_E_INVALID, AMD_WAVE_BAD_LAUNCH, "1024");
    launch.local[0] = 64;
    launch.wave32 = true;
    expect_fault(&m, &launch, BELL_E_INVALID, AMD_WAVE_BAD_LAUNCH, "gfx9");
    stop(&m);
}

/* Neighbours' stores are one access, but for where memory ends: those before
 * are done, and the first lane beyond is told. */
static void
test_fault_in_run(void **state)
{
    static const uint32_t before = 0xabababab;
    struct amd_launch launch;
    struct machine m;
    uint64_t out, end;
    uint32_t i, got;

    (void)state;
    start(&m, ISA_GFX942, "kernels");
    out = memory_put(&m.memory, NULL, 64);
    m.memory.size_bytes -= 24;
    end = out + (uint64_t)(m.memory.bytes + m.memory.size_bytes -
                           (unsigned char *)memory_at(&m.memory, out));
    out = end - 40;
    assert_int_equal(out % 64, 0);
    for (i = 0; i < 10; i++)
        memcpy(memory_at(&m.memory, out + 4 * i), &before, 4);
    launch = prepare(&m, "ids", &out, sizeof(out));
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_UNMAPPED,
                 "of 4 bytes");
    assert_int_equal(m.report.va, end);
    assert_int_equal(m.report.lane, 10);
    assert_true(m.report.is_write);
    for (i = 0; i < 10; i++) {
        memcpy(&got, memory_at(&m.memory, out + 4 * i), 4);
        assert_int_not_equal(got, before);
    }
    stop(&m);
}

/* Scratch that the launch was not given, or by a wrong descriptor. */
static void
test_scratch_range(void **state)
{
    /* bits of its words, which must not change */
    static const uint32_t bits[3][2] = {
        {1, 1u << 31}, {3, 1u << 21}, {3, 1u << 24}};
    uint64_t args[2] = {0};
    int gen;

    (void)state;
    for (gen = 0; gen < ISA_GEN_COUNT; gen++) {
        size_t n = isa_is_gfx9((enum isa_gen)gen) ? 2 : 3, i;
        struct amd_launch launch, wrong;
        struct machine m;

        start(&m, (enum isa_gen)gen, "kernels");
        args[0] = memory_put(&m.memory, NULL, N * 4);
        args[1] = memory_put(&m.memory, NULL, N * 4);
        launch = prepare(&m, "scratch", args, sizeof(args));
        wrong = launch;
        wrong.scratch_bytes = 16;
        expect_fault(&m, &wrong, BELL_E_DEVICE_LOST, AMD_WAVE_RANGE, "scratch");
        for (i = 0; isa_has_scratch_buffer(m.gen) && i < n; i++) {
            wrong = launch;
            wrong.user_data[bits[i][0]] ^= bits[i][1];
            expect_fault(&m, &wrong, BELL_E_DEVICE_LOST, AMD_WAVE_ILLEGAL,
                         "a scratch descriptor with");
        }
        stop(&m);
    }
}

/* Code that changes is seen after an invalidation, and not before. */
static void
test_instruction_cache(void **state)
{
    static const uint32_t end = 0xbf810000, trap = 0xbf920002;
    uint64_t nothing = 0;
    struct machine m;
    struct amd_launch launch;

    (void)state;
    start(&m, ISA_GFX942, "kernels");
    launch = prepare(&m, "ids", &nothing, sizeof(nothing));
    launch.pc = put_code(&m, &end, 1);
    assert_int_equal(run(&m, &launch), BELL_OK);
    memcpy(memory_at(&m.memory, launch.pc), &trap, 4);
    assert_int_equal(run(&m, &launch), BELL_OK);
    amd_code_invalidate(m.code);
    expect_fault(&m, &launch, BELL_E_DEVICE_LOST, AMD_WAVE_TRAP, "trap");
    stop(&m);
}

/* ---- inline constants ---------------------------------------------------- */

/* Float constants as sources of 64, 32 and 16 bits. 1.0 stands for all: its
 * code is the lowest field of a word, or the second source of a long one. The
 * words are LLVM 19's:
 *   v_mov_b32 v0, 0
 *   s_mov_b64 s[4:5], 1.0         v_mov_b32 v2, s4          v_mov_b32 v3, s5
 *   s_and_b64 s[6:7], 1.0, -1     v_mov_b32 v4, s6          v_mov_b32 v5, s7
 *   v_add_f64 v[6:7], 1.0, 0      v_lshlrev_b64 v[8:9], 0, 1.0
 *   v_mov_b32 v10, 1.0
 *   s_mov_b32 s8, 1.0             v_mov_b32 v11, s8
 *   v_add_f16 v12, 1.0, v0
 *   global_store of v[2:5], v[6:9], v[10:12] at s[0:1]      s_endpgm */
#define N_CONSTANT_WORDS 25u

static const uint32_t constant_words[ISA_GEN_COUNT][N_CONSTANT_WORDS] = {
    [ISA_GFX90A] = {0x7e000280, 0xbe8401f2, 0x7e040204, 0x7e060205, 0x8686c1f2,
                    0x7e080206, 0x7e0a0207, 0xd2800006, 0x000100f2, 0xd28f0008,
                    0x0001e480, 0x7e1402f2, 0xbe8800f2, 0x7e160208, 0x3e1800f2,
                    0xdc7c8000, 0x00000200, 0xdc7c8010, 0x00000600, 0xdc788020,
                    0x00000a00, 0xbf810000},
    [ISA_GFX942] = {0x7e000280, 0xbe8401f2, 0x7e040204, 0x7e060205, 0x8686c1f2,
                    0x7e080206, 0x7e0a0207, 0xd2800006, 0x000100f2, 0xd28f0008,
                    0x0001e480, 0x7e1402f2, 0xbe8800f2, 0x7e160208, 0x3e1800f2,
                    0xdc7c8000, 0x00000200, 0xdc7c8010, 0x00000600, 0xdc788020,
                    0x00000a00, 0xbf810000},
    [ISA_GFX10] = {0x7e000280, 0xbe8404f2, 0x7e040204, 0x7e060205, 0x8786c1f2,
                   0x7e080206, 0x7e0a0207, 0xd5640006, 0x000100f2, 0xd6ff0008,
                   0x0001e480, 0x7e1402f2, 0xbe8803f2, 0x7e160208, 0x641800f2,
                   0xdc788000, 0x00000200, 0xdc788010, 0x00000600, 0xdc7c8020,
                   0x00000a00, 0xbf810000},
    [ISA_GFX11] = {0x7e000280, 0xbe8401f2, 0x7e040204, 0x7e060205, 0x8b86c1f2,
                   0x7e080206, 0x7e0a0207, 0xd7270006, 0x000100f2, 0xd73c0008,
                   0x0001e480, 0x7e1402f2, 0xbe8800f2, 0x7e160208, 0x641800f2,
                   0xdc760000, 0x00000200, 0xdc760010, 0x00000600, 0xdc720020,
                   0x00000a00, 0xbfb00000},
    [ISA_GFX12] = {0x7e000280, 0xbe8401f2, 0x7e040204, 0x7e060205, 0x8b86c1f2,
                   0x7e080206, 0x7e0a0207, 0xd5020006, 0x000100f2, 0xd51f0008,
                   0x0001e480, 0x7e1402f2, 0xbe8800f2, 0x7e160208, 0x641800f2,
                   0xee074000, 0x01000000, 0x00000000, 0xee074000, 0x03000000,
                   0x00001000, 0xee070000, 0x05000000, 0x00002000, 0xbfb00000},
};

/* src: docs/hardware/amd-code.md, "Operands"; 1/(2*pi) as LLVM writes it. */
static const struct {
    uint32_t code;
    uint64_t f64;
    uint32_t f32, f16;
} constants[] = {
    {240, 0x3fe0000000000000, 0x3f000000, 0x3800}, /* 0.5 */
    {241, 0xbfe0000000000000, 0xbf000000, 0xb800},
    {242, 0x3ff0000000000000, 0x3f800000, 0x3c00}, /* 1 */
    {243, 0xbff0000000000000, 0xbf800000, 0xbc00},
    {244, 0x4000000000000000, 0x40000000, 0x4000}, /* 2 */
    {245, 0xc000000000000000, 0xc0000000, 0xc000},
    {246, 0x4010000000000000, 0x40800000, 0x4400}, /* 4 */
    {247, 0xc010000000000000, 0xc0800000, 0xc400},
    {248, 0x3fc45f306dc9c882, 0x3e22f983, 0x3118}, /* 1/(2*pi) */
};

static void
check_constant(enum isa_gen gen, size_t which)
{
    uint32_t words[N_CONSTANT_WORDS], i, low[3];
    uint32_t code = constants[which].code;
    struct amd_launch launch;
    struct machine m;
    uint64_t out, pairs[4];

    start(&m, gen, "kernels");
    out = memory_put(&m.memory, NULL, 256);
    memcpy(words, constant_words[words_like(gen)], sizeof(words));
    for (i = 0; i < N_CONSTANT_WORDS; i++) {
        if ((words[i] & 0x1ff) == 242 || (words[i] & 0xff) == 242)
            words[i] = (words[i] & ~0xffu) | code;
    }
    words[10] = (words[10] & ~(0x1ffu << 9)) | code << 9;
    launch = prepare(&m, "ids", NULL, 0);
    launch.rsrc1 = 7; /* 64 vector registers; denormals go, which is the same */
    launch.rsrc3 = isa_is_gfx9(gen) ? 15 : 0; /* none for accumulation */
    launch.user_data[0] = (uint32_t)out;
    launch.user_data[1] = (uint32_t)(out >> 32);
    launch.pc = put_code(&m, words, N_CONSTANT_WORDS);
    if (run(&m, &launch) != BELL_OK)
        fail_msg("constant %u on %s: %s", code, chips[gen],
                 bell_error_last()->message);
    memcpy(pairs, memory_at(&m.memory, out), sizeof(pairs));
    memcpy(low, memory_at(&m.memory, out + 32), sizeof(low));
    for (i = 0; i < 4; i++) /* s_mov, s_and, v_add_f64, v_lshlrev */
        expect_int(chips[gen], (int)(4 * which + i), (int64_t)pairs[i],
                   (int64_t)constants[which].f64);
    expect_int("v_mov_b32", (int)which, low[0], constants[which].f32);
    expect_int("s_mov_b32", (int)which, low[1], constants[which].f32);
    expect_int("v_add_f16", (int)which, low[2] & 0xffff, constants[which].f16);
    stop(&m);
}

static void
test_float_constants(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ISA_GEN_COUNT * ARRAY_LEN(constants); i++)
        check_constant((enum isa_gen)(i / ARRAY_LEN(constants)),
                       i % ARRAY_LEN(constants));
}

/* 32 bits of literal as 64-bit sources: s_mov_b64, s_and_b64 with -1,
 * s_ashr_i64 by 1 and s_lshl_b64 by 1 of 0x80000000, each moved to two vector
 * registers of v[2:9], which are stored. The words are LLVM 19's. */
#define N_LITERAL_WORDS 24u

static const uint32_t literal_words[ISA_GEN_COUNT][N_LITERAL_WORDS] = {
    [ISA_GFX90A] = {0x7e000280, 0xbe8401ff, 0x80000000, 0x7e040204, 0x7e060205,
                    0x8686c1ff, 0x80000000, 0x7e080206, 0x7e0a0207, 0x908681ff,
                    0x80000000, 0x7e0c0206, 0x7e0e0207, 0x8e8681ff, 0x80000000,
                    0x7e100206, 0x7e120207, 0xdc7c8000, 0x00000200, 0xdc7c8010,
                    0x00000600, 0xbf810000},
    [ISA_GFX942] = {0x7e000280, 0xbe8401ff, 0x80000000, 0x7e040204, 0x7e060205,
                    0x8686c1ff, 0x80000000, 0x7e080206, 0x7e0a0207, 0x908681ff,
                    0x80000000, 0x7e0c0206, 0x7e0e0207, 0x8e8681ff, 0x80000000,
                    0x7e100206, 0x7e120207, 0xdc7c8000, 0x00000200, 0xdc7c8010,
                    0x00000600, 0xbf810000},
    [ISA_GFX10] = {0x7e000280, 0xbe8404ff, 0x80000000, 0x7e040204, 0x7e060205,
                   0x8786c1ff, 0x80000000, 0x7e080206, 0x7e0a0207, 0x918681ff,
                   0x80000000, 0x7e0c0206, 0x7e0e0207, 0x8f8681ff, 0x80000000,
                   0x7e100206, 0x7e120207, 0xdc788000, 0x00000200, 0xdc788010,
                   0x00000600, 0xbf810000},
    [ISA_GFX11] = {0x7e000280, 0xbe8401ff, 0x80000000, 0x7e040204, 0x7e060205,
                   0x8b86c1ff, 0x80000000, 0x7e080206, 0x7e0a0207, 0x868681ff,
                   0x80000000, 0x7e0c0206, 0x7e0e0207, 0x848681ff, 0x80000000,
                   0x7e100206, 0x7e120207, 0xdc760000, 0x00000200, 0xdc760010,
                   0x00000600, 0xbfb00000},
    [ISA_GFX12] = {0x7e000280, 0xbe8401ff, 0x80000000, 0x7e040204, 0x7e060205,
                   0x8b86c1ff, 0x80000000, 0x7e080206, 0x7e0a0207, 0x868681ff,
                   0x80000000, 0x7e0c0206, 0x7e0e0207, 0x848681ff, 0x80000000,
                   0x7e100206, 0x7e120207, 0xee074000, 0x01000000, 0x00000000,
                   0xee074000, 0x03000000, 0x00001000, 0xbfb00000},
};

static void
test_literals(void **state)
{
    static const uint64_t want[4] = {0x80000000, 0x80000000, 0xffffffffc0000000,
                                     0x100000000};
    int gen, i;

    (void)state;
    for (gen = 0; gen < ISA_GEN_COUNT; gen++) {
        struct amd_launch launch;
        struct machine m;
        uint64_t out, got[4];

        start(&m, (enum isa_gen)gen, "kernels");
        out = memory_put(&m.memory, NULL, 256);
        launch = prepare(&m, "ids", NULL, 0);
        launch.rsrc1 = 7;
        launch.rsrc3 = isa_is_gfx9(gen) ? 15 : 0;
        launch.user_data[0] = (uint32_t)out;
        launch.user_data[1] = (uint32_t)(out >> 32);
        launch.pc = put_code(&m, literal_words[words_like((enum isa_gen)gen)],
                             N_LITERAL_WORDS);
        if (run(&m, &launch) != BELL_OK)
            fail_msg("%s: %s", chips[gen], bell_error_last()->message);
        memcpy(got, memory_at(&m.memory, out), sizeof(got));
        for (i = 0; i < 4; i++)
            expect_int(chips[gen], i, (int64_t)got[i], (int64_t)want[i]);
        stop(&m);
    }
}

/* Every word of the kernels decodes, one instruction after the other. */
static void
test_decode_all(void **state)
{
    int gen;

    (void)state;
    for (gen = 0; gen < ISA_GEN_COUNT; gen++) {
        struct machine m;
        struct isa_insn in;
        const char *why;
        const uint32_t *words;
        size_t bytes, i;

        start(&m, (enum isa_gen)gen, "kernels");
        words =
            memory_at(&m.memory, object_section(&m.object, ".text", &bytes));
        for (i = 0; i < bytes / 4; i += in.n_dw) {
            if (!isa_decode(m.gen, words + i, (uint32_t)(bytes / 4 - i), &in,
                            &why))
                fail_msg("%s: word %d, 0x%08x: %s", chips[gen], (int)i,
                         words[i], why);
            assert_non_null(isa_op_name(in.op));
        }
        stop(&m);
    }
}

/* Random words: refused or decoded, never past the end. */
static void
test_decode_random(void **state)
{
    struct machine m = {.seed = 3};
    uint32_t words[3], i, n;

    (void)state;
    for (i = 0; i < (IS_SANITIZED ? 100000 : 500000); i++) {
        struct isa_insn in;
        const char *why = NULL;
        uint32_t *copy;

        words[0] = (uint32_t)next(&m);
        words[1] = (uint32_t)next(&m);
        words[2] = (uint32_t)next(&m);
        n = (uint32_t)(next(&m) % 4);
        copy = malloc(n * 4 + 1); /* the sanitizer sees what is beyond */
        memcpy(copy, words, n * 4);
        if (isa_decode((enum isa_gen)(i % ISA_GEN_COUNT), copy, n, &in, &why))
            assert_in_range(in.n_dw, 1, n);
        else
            assert_non_null(why);
        free(copy);
    }
}

/* Whatever the tables have, the interpreter has too: words of all upper halves
 * that decode run, or fail for what is in their registers. */
static void
test_known(void **state)
{
    uint64_t nothing = 0;
    int gen;

    (void)state;
    for (gen = 0; gen < ISA_GEN_COUNT; gen++) {
        struct amd_launch launch;
        uint32_t words[5] = {0}, i;
        struct machine m;

        start(&m, (enum isa_gen)gen, "kernels");
        launch = prepare(&m, "ids", &nothing, sizeof(nothing));
        launch.rsrc1 = 31; /* 256 vector registers */
        launch.rsrc3 = isa_is_gfx9(m.gen) ? 31 : 0;
        launch.pc = memory_put(&m.memory, NULL, sizeof(words));
        launch.max_insns = 40;
        for (i = 0; i < 1u << 19; i++) {
            struct isa_insn in;
            const char *why;

            words[0] = i << 16 | (uint32_t)(next(&m) & 0xffff);
            /* where numbers are below, they are tried more often */
            if (i >> 16 > 1 && words[0] >> 23 != 0x17d &&
                words[0] >> 25 != 0x3f)
                continue;
            words[1] = (uint32_t)next(&m);
            words[2] = (uint32_t)next(&m);
            if (!isa_decode(m.gen, words, 3, &in, &why))
                continue;
            words[in.n_dw] = m.gen < ISA_GFX11 ? 0xbf810000 : 0xbfb00000;
            memcpy(memory_at(&m.memory, launch.pc), words, sizeof(words));
            amd_code_invalidate(m.code);
            if (run(&m, &launch) != BELL_OK &&
                strstr(bell_error_last()->message, "is not known"))
                fail_msg("%s: 0x%08x 0x%08x: %s", chips[gen], words[0],
                         words[1], bell_error_last()->message);
        }
        stop(&m);
    }
}

static void
test_out_of_memory(void **state)
{
    uint64_t out, nth;
    struct machine m;
    struct amd_launch launch;
    bell_status status;

    (void)state;
    start(&m, ISA_GFX11, "kernels");
    out = memory_put(&m.memory, NULL, 12 * 24 * 4);
    launch = prepare(&m, "ids", &out, sizeof(out));
    for (nth = 1;; nth++) {
        amd_code_invalidate(m.code);
        host_fail_after(nth, 1);
        status = run(&m, &launch);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_true(status == BELL_E_NO_MEMORY || status == BELL_E_DEVICE_LOST);
    }
    assert_true(nth > 5);
    stop(&m);
}

/* Rows have two vectors of 16 bytes. CDNA serves lanes of different rows and
 * vectors together: it takes 0-3 with 20-23. Taken eight by eight, as all lanes
 * write and RDNA's read, two vectors of a row meet in a bank. */
static void
test_wide_reads(void **state)
{
    struct sim_counts c;
    struct machine m;
    uint32_t place[64], lane, *got;
    uint64_t out, in;
    int gen;

    (void)state;
    for (lane = 0; lane < 64; lane++)
        place[lane] = lane % 16 * 2 + lane / 16 % 2;
    for (gen = 0; gen < ISA_GEN_COUNT; gen++) {
        start(&m, (enum isa_gen)gen, "kernels");
        out = memory_put(&m.memory, NULL, sizeof(place));
        in = memory_put(&m.memory, place, sizeof(place));
        sim_count_begin(0);
        RUN(&m, "wide", 1, out, in);
        sim_count_take(&c);
        sim_count_end();
        got = memory_at(&m.memory, out);
        for (lane = 0; lane < 64; lane++)
            assert_int_equal(got[lane], place[lane]);
        assert_int_equal(c.least_wavefronts, 8 + 8);
        assert_int_equal(c.n_wavefronts, 8 + (isa_is_gfx9(m.gen) ? 8 : 16));
        stop(&m);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_wide_reads),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_fault_in_run),
        cmocka_unit_test(test_scratch_range),
        cmocka_unit_test(test_instruction_cache),
        cmocka_unit_test(test_float_constants),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_decode_all),
        cmocka_unit_test(test_decode_random),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
