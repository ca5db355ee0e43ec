/* Operands of matrix instructions out of LOCAL memory: WMMA_ROWS as ldmatrix,
 * LOADs of a thread's part, and that the products are right either way. Which
 * of them it is: test_lower_gpu. Two warps multiply rows of their own with one
 * matrix. */
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

#define THREADS 64
#define M       16
#define N       8

enum kind {
    ROWS,   /* WMMA_ROWS */
    LOADED, /* LOADs */
    LOOPED, /* WMMA_ROWS of tiles that move through their arrays in a loop */
};

struct row {
    enum uop_dtype dtype;
    uint32_t k;
    bool a_turned, b_turned; /* A by columns, B by rows */
    int64_t a_pitch, b_pitch;
    enum kind kind;
    const char *a, *b; /* instructions that load them */
};

/* A program being made. */
struct made {
    struct uop_graph g;
    const struct row *row;
    struct uop_local locals[2];
    const struct uop *tid, *memory[2], *after[2], *shift;
    const struct uop *roots[16];
    uint32_t n_roots;
};

static const struct uop *
op2(struct made *m, enum uop_op op, const struct uop *a, int64_t b)
{
    return uop_alu2(&m->g, op, a, mk_int(&m->g, b));
}

static const struct uop *
add(struct made *m, const struct uop *a, const struct uop *b)
{
    return uop_alu2(&m->g, UOP_ADD, a, b);
}

/* Element (row, col) of an operand in its array. */
static const struct uop *
place(struct made *m, bool turned, int64_t pitch, const struct uop *row,
      const struct uop *col)
{
    return turned ? add(m, op2(m, UOP_MUL, col, pitch), row)
                  : add(m, op2(m, UOP_MUL, row, pitch), col);
}

/* The threads bring an operand of `rows` x `cols` into its array. */
static void
stage(struct made *m, int which, uint32_t rows, uint32_t cols, bool turned,
      int64_t pitch, const struct uop **stores, uint32_t *n)
{
    enum uop_dtype dtype = m->row->dtype;
    int64_t at;

    m->locals[which] = (struct uop_local){
        .id = (uint32_t)which,
        .n_elems = (uint32_t)((turned ? cols : rows) * pitch) + 64};
    m->memory[which] =
        uop_new(&m->g, UOP_LOCAL, dtype, 1,
                (union uop_arg){.data = &m->locals[which]}, NULL, 0);
    for (at = 0; at < (int64_t)rows * cols; at += THREADS) {
        const struct uop *i = op2(m, UOP_ADD, m->tid, at), *v, *to;
        v = mk_load(&m->g, mk_param(&m->g, 1 + which, dtype), i, 1, NULL, NULL);
        to = place(m, turned, pitch, op2(m, UOP_IDIV, i, cols),
                   op2(m, UOP_IMOD, i, cols));
        stores[(*n)++] = mk_store(&m->g, m->memory[which], to, v, NULL);
    }
}

static const struct uop *
barrier_after(struct made *m, const struct uop *const *effects, uint32_t n)
{
    return mk(&m->g, UOP_BARRIER, UOP_VOID, 1, 0, n, effects);
}

static const struct uop *
bits_of_thread(struct made *m, int64_t shift, int64_t mask)
{
    return op2(m, UOP_AND, op2(m, UOP_SHR, m->tid, shift), mask);
}

/* The operand by rows: thread 8 r + i names row i of register r. Registers of
 * A are below each other first. */
static const struct uop *
take_rows(struct made *m, bool is_a, bool turned, int64_t pitch, uint32_t lanes)
{
    const struct row *r = m->row;
    uint32_t pack = uop_wmma_pack(r->dtype);
    bool lies_by_steps = turned != is_a; /* rows are of steps */
    const struct uop *i = bits_of_thread(m, 0, 7), *warp, *output, *step;
    const struct uop *src[2] = {m->after[is_a ? 0 : 1], NULL};

    output = lies_by_steps ? i : mk_int(&m->g, 0);
    step = lies_by_steps ? mk_int(&m->g, 0) : i;
    warp = op2(m, UOP_MUL, bits_of_thread(m, 5, 1), M);
    if (is_a) {
        const struct uop *low =
            op2(m, UOP_MUL, bits_of_thread(m, 3, lanes > pack), 8);
        output = add(m, add(m, output, low), warp);
        step = add(
            m, step,
            op2(m, UOP_MUL, bits_of_thread(m, 4, lanes > 2 * pack), 4 * pack));
        src[1] = place(m, turned, pitch, output, step);
    } else {
        step =
            add(m, step,
                op2(m, UOP_MUL, bits_of_thread(m, 3, lanes > pack), 4 * pack));
        src[1] = place(m, turned, pitch, step, output);
    }
    if (m->shift)
        src[1] = add(m, src[1], op2(m, UOP_MUL, m->shift, 8 * pitch));
    return mk(&m->g, UOP_WMMA_ROWS, r->dtype, lanes, !lies_by_steps, 2, src);
}

/* The lanes of A or B: from where thread 0 finds them, plus what the others
 * add. */
static const struct uop *
collect(struct made *m, enum uop_wmma_operand operand)
{
    const struct row *r = m->row;
    struct uop_wmma w = {UOP_WMMA_NV, M, N, r->k};
    bool is_a = operand == UOP_WMMA_A;
    bool turned = is_a ? r->a_turned : r->b_turned;
    int64_t pitch = is_a ? r->a_pitch : r->b_pitch;
    /* k lies side by side: what fills a register is loaded at once */
    uint32_t pack = uop_wmma_pack(r->dtype), step = turned == is_a ? 1 : pack;
    uint32_t n = uop_wmma_lanes(w, operand), i, j, row, col;
    const struct uop *g = bits_of_thread(m, 2, 7), *base, *list[16], *v, *at;
    const struct uop *t = op2(m, UOP_MUL, bits_of_thread(m, 0, 3), pack);
    const struct uop *warp = op2(m, UOP_SHR, m->tid, 5);

    if (r->kind != LOADED)
        return take_rows(m, is_a, turned, pitch, n);
    if (is_a)
        base = place(m, turned, pitch, add(m, g, op2(m, UOP_MUL, warp, M)), t);
    else
        base = place(m, turned, pitch, t, g);
    for (i = 0; i < n; i += step) {
        uop_wmma_place(w, r->dtype, operand, 0, i, &row, &col);
        at = place(m, turned, pitch, mk_int(&m->g, row), mk_int(&m->g, col));
        v = mk_load(&m->g, m->after[is_a ? 0 : 1], add(m, base, at), step, NULL,
                    NULL);
        for (j = 0; j < step; j++)
            list[i + j] =
                step == 1 ? v : mk(&m->g, UOP_LANE, r->dtype, 1, j, 1, &v);
    }
    return mk(&m->g, UOP_LANES, r->dtype, n, 0, n, list);
}

/* Where lane i of the result goes. */
static const struct uop *
result_place(struct made *m, uint32_t i)
{
    const struct uop *g = op2(m, UOP_AND, op2(m, UOP_SHR, m->tid, 2), 7);
    const struct uop *t = op2(m, UOP_MUL, op2(m, UOP_AND, m->tid, 3), 2);
    const struct uop *row;

    row = add(m, g, op2(m, UOP_MUL, op2(m, UOP_SHR, m->tid, 5), M));
    row = op2(m, UOP_ADD, row, 8 * (i / 2));
    return add(m, op2(m, UOP_MUL, row, N), op2(m, UOP_ADD, t, i % 2));
}

static void
make_program(struct made *m, struct lower_program *p)
{
    const struct row *r = m->row;
    const struct uop *extent = mk_int(&m->g, THREADS), *stores[32], *src[3];
    const struct uop *barrier, *d;
    enum uop_dtype sum = uop_wmma_sum(r->dtype);
    uint32_t n = 0, i;

    m->tid = mk(&m->g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &extent);
    stage(m, 0, 2 * M, r->k, r->a_turned, r->a_pitch, stores, &n);
    stage(m, 1, r->k, N, r->b_turned, r->b_pitch, stores, &n);
    barrier = barrier_after(m, stores, n);
    for (i = 0; i < 2; i++) {
        src[0] = m->memory[i];
        src[1] = barrier;
        m->after[i] = mk(&m->g, UOP_AFTER, r->dtype, 1, 0, 2, src);
    }
    if (r->kind == LOOPED)
        m->shift = uop_range(&m->g, 0, UOP_AXIS_LOOP, 1);
    src[0] = collect(m, UOP_WMMA_A);
    src[1] = collect(m, UOP_WMMA_B);
    src[2] = mk_splat(&m->g, uop_const_int(&m->g, sum, 0), 4);
    d = mk(&m->g, UOP_WMMA, sum, 4,
           uop_wmma_arg((struct uop_wmma){UOP_WMMA_NV, M, N, r->k}), 3, src);
    for (i = 0; i < 4; i++)
        m->roots[m->n_roots++] =
            mk_store(&m->g, mk_param(&m->g, 0, sum), result_place(m, i),
                     mk(&m->g, UOP_LANE, sum, 1, i, 1, &d), NULL);
    if (m->shift) {
        const struct uop *end[5] = {m->shift};
        memcpy(end + 1, m->roots, 4 * sizeof(*end));
        m->roots[m->n_roots++] = mk(&m->g, UOP_END, UOP_VOID, 1, 0, 5, end);
    }
    gpu_program_of(&m->g, m->roots, m->n_roots, p);
    p->local[0] = THREADS;
}

static double
get(const struct p_buf *buf, uint32_t i)
{
    union uop_arg a;

    p_get(buf, i, &a);
    return uop_dtype_infos[buf->dtype].is_float ? a.f : (double)a.i;
}

static void
compare(const struct row *r, const struct p_buf *bufs, const char *text)
{
    uint32_t i, j, k;

    for (i = 0; i < 2 * M; i++) {
        for (j = 0; j < N; j++) {
            double want = 0, size = 0, x;
            for (k = 0; k < r->k; k++) {
                x = get(&bufs[1], i * r->k + k) * get(&bufs[2], k * N + j);
                want += x;
                size += fabs(x);
            }
            if (fabs(want - get(&bufs[0], i * N + j)) > 0x1p-22 * size)
                fail_msg("(%u, %u) is %a, not %a\n%s", i, j,
                         get(&bufs[0], i * N + j), want, text);
        }
    }
}

static void
check_row(const struct row *r)
{
    static const struct ptx_target target = {.sm = 80, .arg_align_bytes = 16};
    struct made m = {.row = r};
    struct lower_program p;
    char err[BELL_ERROR_MESSAGE];
    struct p_buf bufs[3];
    uint64_t rng = 3;
    char *text;
    uint32_t i, j;

    uop_graph_init(&m.g);
    make_program(&m, &p);
    for (i = 0; i < 3; i++) {
        check_buf(&bufs[i], i ? r->dtype : uop_wmma_sum(r->dtype), 2 * M * 32,
                  NULL);
        for (j = 0; i && j < bufs[i].n_elems; j++) {
            double d = (double)(next_random(&rng) >> 48) * 0x1p-15 - 1;
            union uop_arg a = {.f = uop_round_float(r->dtype, d)};
            if (!uop_dtype_infos[r->dtype].is_float)
                a.i = (int32_t)(next_random(&rng) >> 32);
            p_set(&bufs[i], j, a);
        }
    }
    if (render_ptx(&p, &target, &text) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    ptx_check_run(&p, text, bufs, 3, NULL, "ldmatrix");
    compare(r, bufs, text);
    if (!strstr(text, r->a) || !strstr(text, r->b))
        fail_msg("%s and %s are not in\n%s", r->a, r->b, text);
    if (p_run(&p, bufs, 3, err, sizeof(err)))
        fail_msg("%s", err);
    compare(r, bufs, text);
    ptx_check_keep(&p, false);
    host_free(text);
    program_free(&p);
    check_bufs_free(bufs, 3);
    uop_graph_fini(&m.g);
}

static void
test_operands(void **state)
{
    static const struct row rows[] = {
        {UOP_F16, 16, false, false, 16, 8, ROWS, ".x4.shared",
         ".x2.trans.shared"},
        {UOP_BF16, 16, false, true, 24, 16, ROWS, ".x4.shared", ".x2.shared"},
        {UOP_F16, 16, true, false, 40, 24, ROWS, ".x4.trans.shared",
         ".x2.trans.shared"},
        {UOP_F16, 16, true, true, 32, 40, ROWS, ".x4.trans.shared",
         ".x2.shared"},
        {UOP_BF16, 8, false, false, 8, 8, ROWS, ".x2.shared",
         ".x1.trans.shared"},
        {UOP_F16, 8, true, true, 32, 8, ROWS, ".x2.trans.shared", ".x1.shared"},
        {UOP_F16, 16, false, false, 16, 8, LOOPED, ".x4.shared",
         ".x2.trans.shared"},
        /* rows that do not begin at multiples of 16 bytes */
        {UOP_F16, 16, false, false, 20, 12, LOADED, "ld.shared.b32",
         "ld.shared.b16"},
        {UOP_F16, 16, true, true, 33, 18, LOADED, "ld.shared.b16",
         "ld.shared.b32"},
        /* bytes: only along k */
        {UOP_I8, 32, false, true, 32, 48, ROWS, ".x4.shared", ".x2.shared"},
        {UOP_U8, 32, false, true, 48, 32, LOOPED, ".x4.shared", ".x2.shared"},
        {UOP_I8, 16, false, true, 16, 16, ROWS, ".x2.shared", ".x1.shared"},
        {UOP_U8, 32, true, false, 32, 16, LOADED, "ld.shared.u8",
         "ld.shared.u8"},
        {UOP_I8, 32, false, false, 40, 16, LOADED, "ld.shared.b32",
         "ld.shared.s8"},
        {UOP_I8, 32, false, true, 32, 36, LOADED, "ld.shared.b32",
         "ld.shared.b32"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++)
        check_row(&rows[i]);
}

static void
test_out_of_memory(void **state)
{
    static const struct ptx_target target = {.sm = 80, .arg_align_bytes = 16};
    static const struct row row = {UOP_F16, 16,   false, false, 16,
                                   8,       ROWS, NULL,  NULL};
    struct made m = {.row = &row};
    bell_status status = BELL_E_NO_MEMORY;
    struct lower_program p;
    uint32_t nth;
    char *text;

    (void)state;
    uop_graph_init(&m.g);
    make_program(&m, &p);
    for (nth = 1; status == BELL_E_NO_MEMORY && nth < 1000; nth++) {
        host_fail_after(nth, 1);
        status = render_ptx(&p, &target, &text);
        host_fail_after(0, 0);
    }
    assert_int_equal(status, BELL_OK);
    assert_true(nth > 10);
    host_free(text);
    program_free(&p);
    uop_graph_fini(&m.g);
}

static void
test_assembler(void **state)
{
    (void)state;
    print_message("%u kernels assembled\n", ptx_check_assemble());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
