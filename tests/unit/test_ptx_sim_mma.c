/* Matrix instructions and asynchronous copies of the PTX interpreter. Whole
 * matrices are put into fragments by the table "Matrix fragments" of
 * docs/hardware/nvidia-code.md, here written out element by element, and
 * compared with sums in long double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "ptx_run.h"

static uint64_t rng = 3;

static uint64_t
next(void)
{
    rng += 0x9e3779b97f4a7c15ull;
    return hash_mix(rng);
}

/* ---- element types ---- */

enum elem {
    F16,
    BF16,
    TF32,
    E4M3,
    E5M2,
    S8,
    U8,
    F32,
    F64,
    S32
};

static const struct {
    const char *name;
    unsigned bits, fraction, exponent;
} elems[] = {
    [F16] = {"f16", 16, 10, 5},   [BF16] = {"bf16", 16, 7, 8},
    [TF32] = {"tf32", 32, 23, 8}, [E4M3] = {"e4m3", 8, 3, 4},
    [E5M2] = {"e5m2", 8, 2, 5},   [S8] = {"s8", 8, 0, 0},
    [U8] = {"u8", 8, 0, 0},       [F32] = {"f32", 32, 23, 8},
    [F64] = {"f64", 64, 52, 11},  [S32] = {"s32", 32, 0, 0},
};

static double
decode(enum elem e, uint64_t bits)
{
    unsigned f = elems[e].fraction, x = elems[e].exponent;
    int exponent, bias = (1 << (x ? x - 1 : 0)) - 1;
    double m, d;

    if (e == S8)
        return (double)(int8_t)bits;
    if (e == U8)
        return (double)(uint8_t)bits;
    if (e == S32)
        return (double)(int32_t)bits;
    if (e == F64) {
        memcpy(&d, &bits, sizeof(d));
        return d;
    }
    exponent = (int)(bits >> f & ((1u << x) - 1));
    m = (double)(bits & (((uint64_t)1 << f) - 1));
    if (exponent)
        m += (double)((uint64_t)1 << f);
    d = m * pow(2, (exponent ? exponent : 1) - bias - (int)f);
    return bits >> (f + x) & 1 ? -d : d;
}

/* Numbers near 1, zeros among them. */
static uint64_t
random_element(enum elem e)
{
    unsigned f = elems[e].fraction, x = elems[e].exponent;
    uint64_t one = (((uint64_t)1 << (x ? x - 1 : 0)) - 1) << f;

    if (next() % 16 == 0)
        return 0;
    if (!x)
        return next() & 0xff;
    one -= (next() % 5) << f;
    one |= next() & (((uint64_t)1 << f) - 1);
    if (e == TF32)
        one &= ~(uint64_t)0x1fff;
    return one | (next() & 1) << (f + x);
}

/* ---- fragments, from the table ---- */

struct place {
    unsigned row, col;
};

/* Where element e of A's register r lies. */
static struct place
place_a(const char *shape, enum elem t, unsigned lane, unsigned r, unsigned e)
{
    unsigned g = lane >> 2, i = lane & 3;

    if (elems[t].bits == 16) /* m16n8k16, m16n8k8 */
        return (struct place){g + (r & 1 ? 8 : 0),
                              2 * i + e + (r >= 2 ? 8 : 0)};
    if (elems[t].bits == 8) /* m16n8k32, m16n8k16 */
        return (struct place){g + (r & 1 ? 8 : 0),
                              4 * i + e + (r >= 2 ? 16 : 0)};
    if (strcmp(shape, "m8n8k4") == 0)
        return (struct place){g, i};
    return (struct place){g + 8 * (r & 1), i + 4 * (r >> 1)};
}

static struct place
place_b(enum elem t, unsigned lane, unsigned r, unsigned e)
{
    unsigned g = lane >> 2, i = lane & 3;

    if (elems[t].bits == 16)
        return (struct place){2 * i + e + 8 * r, g};
    if (elems[t].bits == 8)
        return (struct place){4 * i + e + 16 * r, g};
    return (struct place){i + 4 * r, g};
}

static struct place
place_c(unsigned lane, unsigned n)
{
    unsigned g = lane >> 2, i = lane & 3;

    return (struct place){g + (n >= 2 ? 8 : 0), 2 * i + (n & 1)};
}

/* ---- one instruction ---- */

struct shape {
    const char *name;
    enum elem a, b, c;
    unsigned n_a, n_b, n_c, k, sm;
};

/* What the kernel reads and writes: 8-byte slots, by operand and lane. */
struct fragments {
    uint64_t a[8][32], b[4][32], c[4][32], d[4][32];
};

static void
put_registers(char *text, size_t size, const char *cls, unsigned first,
              unsigned n)
{
    size_t at = (size_t)snprintf(text, size, "{");
    unsigned i;

    for (i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%%%s%u", i ? ", " : "",
                               cls, first + i);
    snprintf(text + at, size - at, "}");
}

static size_t
put_loads(char *text, size_t size, const char *type, const char *cls,
          unsigned first, unsigned n, unsigned slot)
{
    size_t at = 0;
    unsigned i;

    for (i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at,
                               "ld.global.%s %%%s%u, [%%rd2+%u];\n", type, cls,
                               first + i, (slot + i) * 256);
    return at;
}

static void
write_kernel(char *text, size_t size, const struct shape *s)
{
    bool f64 = s->a == F64, f32 = s->c == F32;
    const char *in = f64 ? "fd" : "r", *out = f64 ? "fd" : f32 ? "f" : "r";
    const char *in_type = f64 ? "f64" : "u32";
    const char *out_type = f64 ? "f64" : f32 ? "f32" : "u32";
    char d[80], a[120], b[80], c[80];
    size_t at;
    unsigned i;

    at = (size_t)snprintf(
        text, size,
        ".version %s\n.target sm_%u\n.address_size 64\n.visible .entry "
        "k(.param .u64 p, .param .u32 n)\n{\n.reg .b32 %%r<40>; .reg .f32 "
        "%%f<8>; .reg .f64 %%fd<40>; .reg .b64 %%rd<4>;\nld.param.u64 %%rd1, "
        "[p]; cvta.to.global.u64 %%rd1, %%rd1;\nmov.u32 %%r1, %%tid.x; "
        "mad.wide.u32 %%rd2, %%r1, 8, %%rd1;\n",
        s->sm >= 89 ? "8.7" : "7.0", s->sm);
    at += put_loads(text + at, size - at, in_type, in, 4, s->n_a, 0);
    at += put_loads(text + at, size - at, in_type, in, 12, s->n_b, 8);
    at += put_loads(text + at, size - at, out_type, out, f32 ? 0 : 16, s->n_c,
                    12);
    put_registers(d, sizeof(d), out, f32 ? 4 : 24, s->n_c);
    put_registers(a, sizeof(a), in, 4, s->n_a);
    put_registers(b, sizeof(b), in, 12, s->n_b);
    put_registers(c, sizeof(c), out, f32 ? 0 : 16, s->n_c);
    at += (size_t)snprintf(text + at, size - at,
                           "mma.sync.aligned.%s.row.col.%s.%s.%s.%s %s, %s, "
                           "%s, %s;\n",
                           s->name, elems[s->c].name, elems[s->a].name,
                           elems[s->b].name, elems[s->c].name, d, a, b, c);
    for (i = 0; i < s->n_c; i++)
        at += (size_t)snprintf(text + at, size - at,
                               "st.global.%s [%%rd2+%u], %%%s%u;\n", out_type,
                               (16 + i) * 256, out, (f32 ? 4 : 24) + i);
    snprintf(text + at, size - at, "}\n");
}

static void
fill(struct fragments *f, const struct shape *s, double a[16][32],
     double b[32][8], double c[16][8])
{
    unsigned pa = elems[s->a].bits == 64 ? 1 : 32 / elems[s->a].bits;
    unsigned pb = elems[s->b].bits == 64 ? 1 : 32 / elems[s->b].bits;
    unsigned pc = s->c == F16 ? 2 : 1, lane, r, e;
    struct place p;
    uint64_t bits;

    memset(f, 0, sizeof(*f));
    for (lane = 0; lane < 32; lane++) {
        for (r = 0; r < s->n_a * pa; r++) {
            bits = random_element(s->a);
            p = place_a(s->name, s->a, lane, r / pa, r % pa);
            a[p.row][p.col] = decode(s->a, bits);
            f->a[r / pa][lane] |= bits << r % pa * elems[s->a].bits % 64;
        }
        for (r = 0; r < s->n_b * pb; r++) {
            bits = random_element(s->b);
            p = place_b(s->b, lane, r / pb, r % pb);
            b[p.row][p.col] = decode(s->b, bits);
            f->b[r / pb][lane] |= bits << r % pb * elems[s->b].bits % 64;
        }
        for (r = 0; r < s->n_c; r++) {
            for (e = 0; e < pc; e++) {
                bits = random_element(s->c);
                p = place_c(lane, r * pc + e);
                c[p.row][p.col] = decode(s->c, bits);
                f->c[r][lane] |= bits << e * 16;
            }
        }
    }
}

static double
result(const struct shape *s, const struct fragments *f, unsigned lane,
       unsigned n)
{
    if (s->c == F16)
        return decode(F16, f->d[n / 2][lane] >> n % 2 * 16 & 0xffff);
    return decode(s->c,
                  s->c == F64 ? f->d[n][lane] : f->d[n][lane] & UINT32_MAX);
}

static void
check_shape(const struct shape *s)
{
    static const double units[] = {
        [F16] = 0x1p-11, [F32] = 0x1p-24, [F64] = 0x1p-49, [S32] = 0};
    double a[16][32] = {{0}}, b[32][8] = {{0}}, c[16][8] = {{0}};
    static struct fragments f;
    char text[6000];
    unsigned lane, n, k;

    write_kernel(text, sizeof(text), s);
    fill(&f, s, a, b, c);
    ptx_run_ok(&(struct ptx_run){.text = text,
                                 .data = &f,
                                 .data_bytes = sizeof(f),
                                 .blocks = 1,
                                 .threads = 32});
    for (lane = 0; lane < 32; lane++) {
        for (n = 0; n < s->n_c * (s->c == F16 ? 2 : 1); n++) {
            struct place p = place_c(lane, n);
            long double want = c[p.row][p.col], size = fabsl(want);
            double got = result(s, &f, lane, n);
            for (k = 0; k < s->k; k++) {
                long double x = (long double)a[p.row][k] * b[k][p.col];
                want += x;
                size += fabsl(x);
            }
            if (fabsl(want - got) > units[s->c] * size)
                fail_msg("%s of %s: (%u, %u) is %a, not %La", s->name,
                         elems[s->a].name, p.row, p.col, got, want);
        }
    }
}

static void
test_mma(void **state)
{
    static const struct shape shapes[] = {
        {"m16n8k16", F16, F16, F32, 4, 2, 4, 16, 80},
        {"m16n8k16", BF16, BF16, F32, 4, 2, 4, 16, 80},
        {"m16n8k8", F16, F16, F32, 2, 1, 4, 8, 80},
        {"m16n8k8", BF16, BF16, F32, 2, 1, 4, 8, 80},
        {"m16n8k16", F16, F16, F16, 4, 2, 2, 16, 80},
        {"m16n8k8", F16, F16, F16, 2, 1, 2, 8, 80},
        {"m16n8k8", TF32, TF32, F32, 4, 2, 4, 8, 80},
        {"m16n8k4", TF32, TF32, F32, 2, 1, 4, 4, 80},
        {"m8n8k4", F64, F64, F64, 1, 1, 2, 4, 80},
        {"m16n8k4", F64, F64, F64, 2, 1, 4, 4, 90},
        {"m16n8k8", F64, F64, F64, 4, 2, 4, 8, 90},
        {"m16n8k16", F64, F64, F64, 8, 4, 4, 16, 90},
        {"m16n8k32", S8, S8, S32, 4, 2, 4, 32, 80},
        {"m16n8k32", U8, S8, S32, 4, 2, 4, 32, 80},
        {"m16n8k16", S8, U8, S32, 2, 1, 4, 16, 80},
        {"m16n8k32", E4M3, E4M3, F32, 4, 2, 4, 32, 89},
        {"m16n8k32", E4M3, E5M2, F32, 4, 2, 4, 32, 89},
        {"m16n8k32", E5M2, E4M3, F16, 4, 2, 2, 32, 89},
        {"m16n8k16", E5M2, E5M2, F32, 2, 1, 4, 16, 89},
    };
    size_t i;
    int round;

    (void)state;
    for (i = 0; i < ARRAY_LEN(shapes); i++) {
        for (round = 0; round < 3; round++)
            check_shape(&shapes[i]);
    }
    print_message("%zu shapes\n", ARRAY_LEN(shapes));
}

/* NaN and infinity go through; what is too large is infinite. */
static void
test_mma_specials(void **state)
{
    static const struct shape s = {"m16n8k8", TF32, TF32, F32, 4, 2, 4, 8, 80};
    static struct fragments f;
    char text[6000];

    (void)state;
    write_kernel(text, sizeof(text), &s);
    memset(&f, 0, sizeof(f));
    f.a[0][0] = 0x7f800000; /* row 0, k 0 */
    f.b[0][0] = 0x3f800000; /* k 0, column 0 */
    f.a[1][0] = 0x7f000000; /* row 8 */
    f.b[0][4] = 0x40000000; /* column 1 */
    f.c[0][1] = 0x7fc00001;
    ptx_run_ok(&(struct ptx_run){.text = text,
                                 .data = &f,
                                 .data_bytes = sizeof(f),
                                 .blocks = 1,
                                 .threads = 32});
    assert_int_equal(f.d[0][0], 0x7f800000); /* infinity times 1 */
    assert_int_equal(f.d[0][1], 0x7fffffff); /* infinity times 0 */
    assert_int_equal(f.d[2][0], 0x7f000000);
    assert_int_equal(f.d[3][0], 0x7f800000); /* beyond F32 */
}

/* ---- ldmatrix, stmatrix ---- */

static void
replace(const char *from, const char *what, const char *by, char *to)
{
    const char *at;

    while ((at = strstr(from, what)) != NULL) {
        to += sprintf(to, "%.*s%s", (int)(at - from), from, by);
        from = at + strlen(what);
    }
    sprintf(to, "%s", from);
}

static void
test_ldmatrix(void **state)
{
    /* 32 rows of 16 bytes; element i of all has the value i */
    static const char form[] = PTX_KERNEL(
        PTX_START
        ".shared .align 16 .b8 s[1024]; mul.lo.u32 %r2, %r1, 16;\n"
        "mov.u32 %r3, s; add.u32 %r3, %r3, %r2;\n"
        "shl.b32 %r4, %r1, 3; add.u32 %r5, %r4, 1; shl.b32 %r5, %r5, "
        "16;\n"
        "or.b32 %r4, %r4, %r5; add.u32 %r5, %r4, 0x20002;\n"
        "add.u32 %r6, %r5, 0x20002; add.u32 %r7, %r6, 0x20002;\n"
        "st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7}; bar.sync 0;\n"
        "mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, "
        "0;\n"
        "ldmatrix.sync.aligned.m8n8.WORDS.shared.b16 REGS, [%r3];\n"
        "bar.sync 0; stmatrix.sync.aligned.m8n8.WORDS.shared.b16 [%r3+512], "
        "REGS;\n"
        "mad.wide.u32 %rd3, %r1, 16, %rd1; bar.sync 0;\n"
        "st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};\n"
        "setp.ge.u32 %p1, %r1, COUNT; @%p1 exit;\n"
        "ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r3+512];\n"
        "st.global.v4.u32 [%rd3+512], {%r14, %r15, %r16, %r17};");
    static const struct {
        const char *words, *regs;
        unsigned n;
        bool trans;
    } rows[] = {
        {"x1", "{%r10}", 1, false},
        {"x2", "{%r10, %r11}", 2, false},
        {"x4", "{%r10, %r11, %r12, %r13}", 4, false},
        {"x1.trans", "{%r10}", 1, true},
        {"x2.trans", "{%r10, %r11}", 2, true},
        {"x4.trans", "{%r10, %r11, %r12, %r13}", 4, true},
    };
    uint32_t data[64][4], lane, j;
    char text[3000], other[3000], count[8];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(count, sizeof(count), "%u", rows[i].n * 8);
        replace(form, "WORDS", rows[i].words, text);
        replace(text, "REGS", rows[i].regs, other);
        replace(other, "COUNT", count, text);
        memset(data, 0, sizeof(data));
        ptx_run_ok(&(struct ptx_run){.text = text,
                                     .data = data,
                                     .data_bytes = sizeof(data),
                                     .blocks = 1,
                                     .threads = 32});
        for (lane = 0; lane < 32; lane++) {
            uint32_t g = lane / 4, t = lane % 4;
            for (j = 0; j < rows[i].n; j++) {
                uint32_t row = 8 * j + (rows[i].trans ? 2 * t : g);
                uint32_t col = rows[i].trans ? g : 2 * t;
                uint32_t lo = row * 8 + col;
                uint32_t hi = rows[i].trans ? lo + 8 : lo + 1;
                assert_int_equal(data[lane][j], lo | hi << 16);
            }
        }
        /* stored the same way, it is what it was */
        for (lane = 0; lane < rows[i].n * 8; lane++) {
            for (j = 0; j < 4; j++)
                assert_int_equal(data[32 + lane][j],
                                 (lane * 8 + 2 * j) | (lane * 8 + 2 * j + 1)
                                                          << 16);
        }
    }
}

/* ---- cp.async ---- */

#define COPY_START                                                             \
    PTX_START                                                                  \
    ".shared .align 16 .b8 s[2048]; mov.u32 %r3, s; mul.lo.u32 %r4, %r1, "     \
    "16;\n"                                                                    \
    "add.u32 %r3, %r3, %r4; mad.wide.u32 %rd3, %r1, 16, %rd1;\n"
#define COPY_END "st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};"
#define TAKE     "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];\n"

static void
test_copies(void **state)
{
    static const char text[] = PTX_KERNEL(
        COPY_START
        "cp.async.cg.shared.global [%r3], [%rd3], 16; cp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r3+1024], [%rd3], 4;\n"
        "cp.async.ca.shared.global.L2::128B [%r3+1032], [%rd3+8], 8, 4;\n"
        "cp.async.ca.shared.global [%r3+1028], [%rd3], 4, 0;\n"
        "cp.async.commit_group; cp.async.wait_group 1;\n" TAKE
        "cp.async.wait_all; bar.sync 0;\n"
        "xor.b32 %r4, %r4, 16; mov.u32 %r5, s; add.u32 %r5, %r5, %r4;\n"
        "ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r5+1024];\n"
        "st.global.v4.u32 [%rd3+1024], {%r14, %r15, %r16, %r17};\n"
        "add.u32 %r10, %r10, 1; " COPY_END);
    uint32_t data[128][4], i, j;

    (void)state;
    for (i = 0; i < 64; i++) {
        for (j = 0; j < 4; j++)
            data[i][j] = i * 100 + j;
    }
    ptx_run_ok(&(struct ptx_run){.text = text,
                                 .data = data,
                                 .data_bytes = sizeof(data),
                                 .blocks = 1,
                                 .threads = 64,
                                 .page_bytes = 1024});
    for (i = 0; i < 64; i++) {
        const uint32_t want[4] = {i * 100 + 1, i * 100 + 1, i * 100 + 2,
                                  i * 100 + 3};
        const uint32_t other[4] = {(i ^ 1) * 100, 0, (i ^ 1) * 100 + 2, 0};
        assert_memory_equal(data[i], want, sizeof(want));
        assert_memory_equal(data[64 + i], other, sizeof(other));
    }
}

static void
test_copy_faults(void **state)
{
    static const struct {
        const char *text;
        enum sim_ptx_fault fault;
        const char *message;
    } rows[] = {
        /* no wait */
        {PTX_KERNEL(COPY_START "cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
                               "cp.async.commit_group;\n" TAKE),
         SIM_PTX_RACE, "a copy is still to write"},
        /* waits for the group before the last */
        {PTX_KERNEL(COPY_START "cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
                               "cp.async.commit_group; cp.async.wait_group 1;\n"
                               "bar.sync 0;\n" TAKE),
         SIM_PTX_RACE, "a copy is still to write"},
        /* not in a group */
        {PTX_KERNEL(COPY_START "cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
                               "cp.async.wait_group 0;\n" TAKE),
         SIM_PTX_RACE, "a copy is still to write"},
        /* waited for, but by another warp */
        {PTX_KERNEL(COPY_START "cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
                               "cp.async.wait_all; xor.b32 %r4, %r4, 512;\n"
                               "mov.u32 %r5, s; add.u32 %r3, %r5, %r4;\n"
                               "setp.lt.u32 %p1, %r1, 32; @%p1 bra end;\n" TAKE
                               "end:"),
         SIM_PTX_RACE, "another warp has written"},
        {PTX_KERNEL(COPY_START
                    "cp.async.ca.shared.global [%r3], [%rd3], 4, 5;"),
         SIM_PTX_OUT_OF_RANGE, "more than it copies"},
        {PTX_KERNEL(COPY_START
                    "cp.async.ca.shared.global [%r3+8], [%rd3+4], 8;"),
         SIM_PTX_MISALIGNED, "misaligned"},
        {PTX_KERNEL(COPY_START
                    "cp.async.cg.shared.global [%r3], [%rd3+4096], 16;"),
         SIM_PTX_UNMAPPED, "no memory"},
        {PTX_KERNEL(COPY_START
                    "cp.async.cg.shared.global [%r3+2048], [%rd3], 16;"),
         SIM_PTX_OUT_OF_RANGE, "outside of shared"},
    };
    struct sim_ptx_report report;
    static uint32_t data[128][4];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ptx_run run = {.text = rows[i].text,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 1,
                              .threads = 64};
        if (ptx_run(&run, &report) != rows[i].fault)
            fail_msg("row %zu: %u: %s", i, report.fault,
                     bell_error_last()->message);
        if (!strstr(bell_error_last()->message, rows[i].message))
            fail_msg("row %zu: %s", i, bell_error_last()->message);
    }
}

static void
test_assembler(void **state)
{
    (void)state;
    print_message("%u modules assembled\n", ptx_run_assemble());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma),         cmocka_unit_test(test_mma_specials),
        cmocka_unit_test(test_ldmatrix),    cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copy_faults), cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
