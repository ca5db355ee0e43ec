/* WMMA as PTX: each shape, its operands collected by the threads of a warp
 * as uop_wmma_place says, against sums in long double; and through ptxas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ptx_check.h"

#define MAX_LANES 16

/* A shape and how it is fed. */
struct row {
    uint32_t m, n, k;
    enum uop_dtype in, out;
    uint32_t sm;
    bool wide;           /* what lies side by side is loaded as vectors */
    enum uop_dtype in_b; /* B's; VOID: as A's */
};

static enum uop_dtype
dtype_of(const struct row *r, enum uop_wmma_operand operand)
{
    if (operand == UOP_WMMA_C)
        return r->out;
    return operand == UOP_WMMA_B && r->in_b ? r->in_b : r->in;
}

static const struct uop *
add(struct uop_graph *g, const struct uop *a, const struct uop *b)
{
    const struct uop *src[2] = {a, b};

    return mk(g, UOP_ADD, UOP_I64, 1, 0, 2, src);
}

static const struct uop *
scale(struct uop_graph *g, const struct uop *a, int64_t by)
{
    const struct uop *src[2] = {a, mk_int(g, by)};

    return mk(g, UOP_MUL, UOP_I64, 1, 0, 2, src);
}

/* Where element i of an operand lies, in the matrix row by row, or column by
 * column for B: the part of thread 0, plus what the thread's number adds. */
static const struct uop *
place(struct uop_graph *g, const struct row *r, enum uop_wmma_operand operand,
      const struct uop *group, const struct uop *in_group, uint32_t i)
{
    struct uop_wmma w = {UOP_WMMA_NV, r->m, r->n, r->k};
    uint32_t pack = uop_wmma_pack(r->in), row, col;
    const struct uop *at;

    uop_wmma_place(w, r->in, operand, 0, i, &row, &col);
    if (operand == UOP_WMMA_A) {
        at = add(g, scale(g, group, r->k), scale(g, in_group, pack));
        return add(g, at, mk_int(g, row * r->k + col));
    }
    if (operand == UOP_WMMA_B) {
        at = add(g, scale(g, group, r->k), scale(g, in_group, pack));
        return add(g, at, mk_int(g, col * r->k + row));
    }
    at = add(g, scale(g, group, r->n), scale(g, in_group, 2));
    return add(g, at, mk_int(g, row * r->n + col));
}

/* An operand's lanes from PARAM `slot`. */
static const struct uop *
collect(struct uop_graph *g, const struct row *r, enum uop_wmma_operand operand,
        const struct uop *group, const struct uop *in_group, uint32_t slot)
{
    struct uop_wmma w = {UOP_WMMA_NV, r->m, r->n, r->k};
    enum uop_dtype dtype = dtype_of(r, operand);
    uint32_t lanes = uop_wmma_lanes(w, operand), i, j;
    uint32_t step = !r->wide                ? 1
                    : operand == UOP_WMMA_C ? 2
                                            : uop_wmma_pack(r->in);
    const struct uop *param = mk_param(g, slot, dtype), *v, *list[MAX_LANES];

    for (i = 0; i < lanes; i += step) {
        v = mk_load(g, param, place(g, r, operand, group, in_group, i), step,
                    NULL, NULL);
        for (j = 0; j < step; j++)
            list[i + j] = step == 1 ? v : mk(g, UOP_LANE, dtype, 1, j, 1, &v);
    }
    if (lanes == 1)
        return list[0];
    return mk(g, UOP_LANES, dtype, lanes, 0, lanes, list);
}

static void
make_program(struct uop_graph *g, const struct row *r, struct lower_program *p,
             const struct uop **roots)
{
    struct uop_wmma w = {UOP_WMMA_NV, r->m, r->n, r->k};
    uint32_t lanes = uop_wmma_lanes(w, UOP_WMMA_C), i;
    const struct uop *extent = mk_int(g, 32), *thread, *src[3], *two[2], *d;
    const struct uop *group, *in_group;

    thread = mk(g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &extent);
    two[0] = thread;
    two[1] = mk_int(g, 2);
    group = mk(g, UOP_SHR, UOP_I64, 1, 0, 2, two);
    two[1] = mk_int(g, 3);
    in_group = mk(g, UOP_AND, UOP_I64, 1, 0, 2, two);
    for (i = 0; i < 3; i++)
        src[i] =
            collect(g, r, (enum uop_wmma_operand)i, group, in_group, i + 1);
    d = mk(g, UOP_WMMA, r->out, lanes, uop_wmma_arg(w), 3, src);
    for (i = 0; i < lanes; i++)
        roots[i] = mk_store(g, mk_param(g, 0, r->out),
                            place(g, r, UOP_WMMA_C, group, in_group, i),
                            mk(g, UOP_LANE, r->out, 1, i, 1, &d), NULL);
    gpu_program_of(g, roots, lanes, p);
    p->local[0] = 32;
}

/* What the instruction sees of an F32. */
static double
as_tf32(double d)
{
    float f = (float)d;
    uint32_t b;

    memcpy(&b, &f, sizeof(b));
    b = (b + 0x1000) & 0xffffe000u;
    memcpy(&f, &b, sizeof(f));
    return (double)f;
}

static double
get(const struct p_buf *buf, uint32_t i, bool operand)
{
    union uop_arg a;

    p_get(buf, i, &a);
    if (!uop_dtype_infos[buf->dtype].is_float)
        return (double)a.i;
    return operand && buf->dtype == UOP_F32 ? as_tf32(a.f) : a.f;
}

static void
fill(struct p_buf *buf, enum uop_dtype dtype, size_t n, uint64_t *rng)
{
    size_t i;

    check_buf(buf, dtype, n, NULL);
    for (i = 0; i < n; i++) {
        double d = (double)(int64_t)(next_random(rng) >> 40) * 0x1p-23 - 1;
        union uop_arg a = {.f = uop_round_float(dtype, d)};
        if (!uop_dtype_infos[dtype].is_float)
            a.i = (int32_t)(next_random(rng) >> 32);
        p_set(buf, i, a);
    }
}

static void
compare(const struct row *r, const struct p_buf *bufs, const char *text)
{
    long double unit = r->out == UOP_F64 ? 0x1p-49L : 0x1p-23L, want, size;
    uint32_t i, j, k;

    for (i = 0; i < r->m; i++) {
        for (j = 0; j < r->n; j++) {
            want = get(&bufs[3], i * r->n + j, false);
            size = fabsl(want);
            for (k = 0; k < r->k; k++) {
                long double x = (long double)get(&bufs[1], i * r->k + k, true) *
                                get(&bufs[2], j * r->k + k, true);
                want += x;
                size += fabsl(x);
            }
            if (r->out == UOP_I32) { /* modulo 2^32, exactly */
                want = (int32_t)(uint32_t)(int64_t)want;
                size = 0;
            }
            if (fabsl(want - get(&bufs[0], i * r->n + j, false)) > unit * size)
                fail_msg("m%un%uk%u %s (%u, %u) is %a, not %La\n%s", r->m, r->n,
                         r->k, uop_dtype_infos[r->in].short_name, i, j,
                         get(&bufs[0], i * r->n + j, false), want, text);
        }
    }
}

static void
assemble(const char *text, const struct ptx_target *target)
{
    struct render_binary cubin;
    char path[1024];

    if (render_ptxas_find(path, sizeof(path)) != BELL_OK)
        return;
    if (render_ptxas(text, target, &cubin) != BELL_OK)
        fail_msg("%s\n%s", bell_error_last()->message, text);
    render_binary_fini(&cubin);
}

static void
check_row(const struct row *r, uint64_t *rng)
{
    struct ptx_target target = {.sm = r->sm, .arg_align_bytes = 16};
    const struct uop *roots[MAX_LANES];
    struct lower_program p;
    struct p_buf bufs[4];
    struct uop_graph g;
    char *text = NULL;

    uop_graph_init(&g);
    make_program(&g, r, &p, roots);
    fill(&bufs[0], r->out, r->m * r->n, rng);
    fill(&bufs[1], r->in, r->m * r->k, rng);
    fill(&bufs[2], dtype_of(r, UOP_WMMA_B), r->k * r->n, rng);
    fill(&bufs[3], r->out, r->m * r->n, rng);
    if (uop_validate(&g, p.ops, p.n_ops, UOP_STAGE_P) != BELL_OK ||
        render_ptx(&p, &target, &text) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    assert_non_null(strstr(text, "mma.sync.aligned"));
    ptx_check_run(&p, text, bufs, 4, NULL, "wmma");
    compare(r, bufs, text);
    /* what is loaded as words goes into the instruction as it is */
    if (r->wide && uop_wmma_pack(r->in) == 2)
        assert_null(strstr(text, ", {%h"));
    if (r->wide && uop_wmma_pack(r->in) == 4)
        assert_null(strstr(text, "prmt"));
    assemble(text, &target);
    host_free(text);
    program_free(&p);
    check_bufs_free(bufs, 4);
    uop_graph_fini(&g);
}

static void
test_shapes(void **state)
{
    static const struct row rows[] = {
        {16, 8, 16, UOP_F16, UOP_F32, 80, true},
        {16, 8, 16, UOP_F16, UOP_F32, 80, false},
        {16, 8, 8, UOP_F16, UOP_F32, 86, true},
        {16, 8, 16, UOP_BF16, UOP_F32, 89, true},
        {16, 8, 8, UOP_BF16, UOP_F32, 80, false},
        {16, 8, 8, UOP_F32, UOP_F32, 80, true},
        {16, 8, 4, UOP_F32, UOP_F32, 120, false},
        {8, 8, 4, UOP_F64, UOP_F64, 80, true},
        {16, 8, 4, UOP_F64, UOP_F64, 90, true},
        {16, 8, 8, UOP_F64, UOP_F64, 90, false},
        {16, 8, 16, UOP_F64, UOP_F64, 100, true},
        {16, 8, 32, UOP_I8, UOP_I32, 80, true},
        {16, 8, 32, UOP_I8, UOP_I32, 86, false},
        {16, 8, 32, UOP_U8, UOP_I32, 89, true},
        {16, 8, 32, UOP_U8, UOP_I32, 90, true, UOP_I8},
        {16, 8, 32, UOP_I8, UOP_I32, 100, true, UOP_U8},
        {16, 8, 16, UOP_I8, UOP_I32, 120, true},
        {16, 8, 16, UOP_U8, UOP_I32, 80, false},
        {16, 8, 32, UOP_F8E4M3, UOP_F32, 89, true},
        {16, 8, 32, UOP_F8E5M2, UOP_F32, 90, false},
        {16, 8, 32, UOP_F8E4M3, UOP_F32, 100, true, UOP_F8E5M2},
        {16, 8, 32, UOP_F8E5M2, UOP_F32, 120, true, UOP_F8E4M3},
    };
    uint64_t rng = 5;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++)
        check_row(&rows[i], &rng);
}

static void
test_refused(void **state)
{
    static const struct row rows[] = {
        {16, 8, 4, UOP_F64, UOP_F64, 80, false},      /* before sm_90 */
        {16, 8, 4, UOP_F16, UOP_F32, 90, false},      /* no such K */
        {16, 8, 16, UOP_F16, UOP_F16, 90, false},     /* rounds in between */
        {16, 8, 8, UOP_I8, UOP_I32, 90, false},       /* no such K */
        {16, 8, 32, UOP_F8E4M3, UOP_F32, 86, false},  /* before sm_89 */
        {16, 8, 32, UOP_F8E4M3Z, UOP_F32, 90, false}, /* not NVIDIA's */
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ptx_target target = {.sm = rows[i].sm};
        const struct uop *roots[MAX_LANES];
        struct lower_program p;
        struct uop_graph g;
        char *text;
        uop_graph_init(&g);
        make_program(&g, &rows[i], &p, roots);
        assert_int_equal(render_ptx(&p, &target, &text), BELL_E_UNSUPPORTED);
        assert_non_null(strstr(bell_error_last()->message, "WMMA"));
        program_free(&p);
        uop_graph_fini(&g);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
