/* COPYs into LOCAL memory as PTX: cp.async of 4, 8 and 16 bytes, and that what
 * is read after a barrier is right. Which they are: test_lower_gpu. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ptx_check.h"

#define THREADS 40
#define STEPS   3

enum kind {
    PLAIN,
    READ_GATE,  /* 0 where it does not hold */
    WRITE_GATE, /* half of the threads copy nothing; the others read it */
    BOTH_GATES,
};

struct row {
    enum uop_dtype dtype;
    uint32_t bytes;
    int64_t scale, offset; /* element of thread t: t * scale + offset */
    enum kind kind;
    const char *has;
};

/* A program being made. */
struct made {
    struct uop_graph g;
    const struct row *row;
    struct uop_local local;
    const struct uop *tid, *step, *memory, *roots[8];
    uint32_t n_roots;
};

static const struct uop *
op2(struct made *m, enum uop_op op, const struct uop *a, int64_t b)
{
    return uop_alu2(&m->g, op, a, mk_int(&m->g, b));
}

static uint32_t
lanes_of(const struct row *r)
{
    return r->bytes / uop_dtype_infos[r->dtype].size_bytes;
}

/* A thread's part in a step, to element `at` of the array. */
static const struct uop *
make_copy(struct made *m, const struct uop *at)
{
    const struct row *r = m->row;
    const struct uop *index, *src[6] = {m->memory, at};
    bool gates = r->kind == WRITE_GATE || r->kind == BOTH_GATES;

    index = uop_alu2(&m->g, UOP_ADD, op2(m, UOP_MUL, m->tid, r->scale),
                     op2(m, UOP_MUL, m->step, r->scale * THREADS));
    src[2] = mk_param(&m->g, 1, r->dtype);
    src[3] = op2(m, UOP_ADD, index, r->offset);
    src[4] = uop_const_int(&m->g, UOP_BOOL, 1);
    if (r->kind == READ_GATE || r->kind == BOTH_GATES)
        src[4] = op2(m, UOP_CMPNE, op2(m, UOP_IMOD, m->tid, 3), 1);
    if (gates) /* half of them, for themselves and others */
        src[5] = op2(m, UOP_CMPLT, m->tid, THREADS / 2);
    return mk(&m->g, UOP_COPY, UOP_VOID, 1, r->bytes,
              gates                  ? 6
              : r->kind == READ_GATE ? 5
                                     : 4,
              src);
}

static const struct uop *
make_barrier(struct made *m, const struct uop *after)
{
    return mk(&m->g, UOP_BARRIER, UOP_VOID, 1, 0, 1, &after);
}

/* What another thread has copied. */
static const struct uop *
make_read(struct made *m, const struct uop *effect)
{
    const struct row *r = m->row;
    const struct uop *src[2] = {m->memory, effect}, *whose = m->tid;

    if (r->kind == WRITE_GATE || r->kind == BOTH_GATES) {
        whose = op2(m, UOP_IMOD, op2(m, UOP_ADD, m->tid, 7), THREADS / 2);
    } else {
        const struct uop *two[2] = {mk_int(&m->g, THREADS - 1), m->tid};
        whose = mk(&m->g, UOP_SUB, UOP_I64, 1, 0, 2, two);
    }
    src[0] = mk(&m->g, UOP_AFTER, r->dtype, 1, 0, 2, src);
    return mk_load(&m->g, src[0], op2(m, UOP_MUL, whose, lanes_of(r)),
                   lanes_of(r), NULL, NULL);
}

static void
make_program(struct made *m, struct lower_program *p)
{
    const struct row *r = m->row;
    const struct uop *extent = mk_int(&m->g, THREADS), *at, *read, *src[2];

    m->tid = mk(&m->g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &extent);
    m->local = (struct uop_local){.n_elems = THREADS * lanes_of(r)};
    m->memory = uop_new(&m->g, UOP_LOCAL, r->dtype, 1,
                        (union uop_arg){.data = &m->local}, NULL, 0);
    m->step = uop_range(&m->g, 0, UOP_AXIS_LOOP, STEPS);
    at = op2(m, UOP_MUL, m->tid, lanes_of(r));
    read = make_read(m, make_barrier(m, make_copy(m, at)));
    at = uop_alu2(&m->g, UOP_ADD, op2(m, UOP_MUL, m->step, THREADS), m->tid);
    at = op2(m, UOP_MUL, at, lanes_of(r));
    src[0] = m->step;
    src[1] = make_barrier(
        m, mk_store(&m->g, mk_param(&m->g, 0, r->dtype), at, read, NULL));
    m->roots[m->n_roots++] = mk(&m->g, UOP_END, UOP_VOID, 1, 0, 2, src);
    gpu_program_of(&m->g, m->roots, m->n_roots, p);
    p->local[0] = THREADS;
}

static void
check_row(const struct row *r, size_t number)
{
    struct lower_program p;
    struct p_buf bufs[2];
    struct made m = {.row = r};
    uint64_t rng = number + 1;
    char what[32], *text;
    uint32_t i;

    snprintf(what, sizeof(what), "row %zu", number);
    uop_graph_init(&m.g);
    make_program(&m, &p);
    for (i = 0; i < 2; i++)
        check_buf(&bufs[i], r->dtype, 8000, i == 1 ? &rng : NULL);
    assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
    if (!strstr(text, r->has) || !strstr(text, "wait_all"))
        fail_msg("%s:\n%s", what, text);
    host_free(text);
    check_program(&backend_ptx, &p, bufs, 2, what);
    ptx_check_keep(&p, false);
    check_bufs_free(bufs, 2);
    program_free(&p);
    uop_graph_fini(&m.g);
}

static void
test_copies(void **state)
{
    static const struct row rows[] = {
        {UOP_F32, 16, 4, 0, PLAIN, "cp.async.cg.shared.global [%r"},
        {UOP_F32, 16, 4, 8, PLAIN, "+32], 16;"},
        {UOP_F32, 4, 1, 0, PLAIN, "cp.async.ca.shared.global [%r"},
        {UOP_F32, 4, 1, 1, PLAIN, "+4], 4;"},
        {UOP_F32, 8, 4, 2, PLAIN, "+8], 8;"},
        {UOP_F16, 16, 8, 0, PLAIN, "], 16;"},
        {UOP_BF16, 4, 2, 2, PLAIN, "+4], 4;"},
        {UOP_U8, 4, 4, 0, PLAIN, "], 4;"},
        {UOP_I16, 4, 2, 0, PLAIN, "], 4;"},
        {UOP_F64, 16, 2, 0, PLAIN, "], 16;"},
        {UOP_I64, 8, 3, 0, PLAIN, "], 8;"},
        {UOP_F32, 16, 4, 0, READ_GATE, "], 16, %r"},
        {UOP_F16, 16, 8, 0, READ_GATE, "], 16, %r"},
        {UOP_F32, 16, 4, 0, WRITE_GATE, " cp.async.cg"},
        {UOP_F32, 16, 4, 0, BOTH_GATES, "], 16, %r"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++)
        check_row(&rows[i], i);
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
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_assembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
