/* Copies into LOCAL memory as PTX: where cp.async may do them, where not, and
 * that what is read after a barrier is right either way. */
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
    READ_GATE,    /* 0 where it does not hold */
    OTHER_GATE,   /* 1 where it does not hold */
    WRITE_GATE,   /* half of the threads copy nothing; the others read it */
    ALSO_WRITTEN, /* the memory that is read */
    USED_TWICE,
    PAST_BARRIER, /* loaded before one, stored after it */
    READ_AT_ONCE, /* by the thread itself, without a barrier */
};

struct row {
    enum uop_dtype dtype;
    unsigned lanes;
    int64_t scale, offset; /* element of thread t: t * scale + offset */
    enum kind kind;
    const char *has; /* NULL: no cp.async */
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

/* The LOAD of a thread's part in a step. */
static const struct uop *
make_load(struct made *m)
{
    const struct row *r = m->row;
    const struct uop *index, *gate = NULL, *other = NULL;

    index = uop_alu2(&m->g, UOP_ADD, op2(m, UOP_MUL, m->tid, r->scale),
                     op2(m, UOP_MUL, m->step, r->scale * THREADS));
    index = op2(m, UOP_ADD, index, r->offset);
    if (r->kind == READ_GATE || r->kind == OTHER_GATE) {
        gate = op2(m, UOP_CMPNE, op2(m, UOP_IMOD, m->tid, 3), 1);
        other = uop_dtype_infos[r->dtype].is_float
                    ? uop_const_float(&m->g, r->dtype, r->kind == OTHER_GATE)
                    : uop_const_int(&m->g, r->dtype, r->kind == OTHER_GATE);
        if (r->lanes > 1)
            other = mk_splat(&m->g, other, r->lanes);
    }
    return mk_load(&m->g, mk_param(&m->g, 1, r->dtype), index, r->lanes, other,
                   gate);
}

static const struct uop *
make_barrier(struct made *m, const struct uop *after)
{
    return mk(&m->g, UOP_BARRIER, UOP_VOID, 1, 0, after ? 1 : 0, &after);
}

/* What another thread has stored, or this one. */
static const struct uop *
make_read(struct made *m, const struct uop *effect)
{
    const struct row *r = m->row;
    const struct uop *src[2] = {m->memory, effect}, *whose = m->tid;

    if (r->kind == WRITE_GATE) {
        whose = op2(m, UOP_IMOD, op2(m, UOP_ADD, m->tid, 7), THREADS / 2);
    } else if (r->kind != READ_AT_ONCE) {
        const struct uop *two[2] = {mk_int(&m->g, THREADS - 1), m->tid};
        whose = mk(&m->g, UOP_SUB, UOP_I64, 1, 0, 2, two);
    }
    src[0] = mk(&m->g, UOP_AFTER, r->dtype, 1, 0, 2, src);
    return mk_load(&m->g, src[0], op2(m, UOP_MUL, whose, r->lanes), r->lanes,
                   NULL, NULL);
}

static void
make_program(struct made *m, struct lower_program *p)
{
    const struct row *r = m->row;
    const struct uop *extent = mk_int(&m->g, THREADS), *v, *at, *gate = NULL;
    const struct uop *store, *barrier, *read, *src[4], *before = NULL;

    m->tid = mk(&m->g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &extent);
    m->local = (struct uop_local){.n_elems = THREADS * r->lanes};
    m->memory = uop_new(&m->g, UOP_LOCAL, r->dtype, 1,
                        (union uop_arg){.data = &m->local}, NULL, 0);
    m->step = uop_range(&m->g, 0, UOP_AXIS_LOOP, STEPS);
    v = make_load(m);
    if (r->kind == PAST_BARRIER)
        before = make_barrier(m, NULL);
    if (r->kind == WRITE_GATE) /* half of them, for themselves and others */
        gate = op2(m, UOP_CMPLT, m->tid, THREADS / 2);
    at = op2(m, UOP_MUL, m->tid, r->lanes);
    store = mk_store(&m->g, m->memory, at, v, gate);
    barrier = r->kind == READ_AT_ONCE ? store : make_barrier(m, store);
    if (r->kind == READ_AT_ONCE)
        m->roots[m->n_roots++] = make_barrier(m, store);
    read = make_read(m, barrier);
    at = uop_alu2(&m->g, UOP_ADD, op2(m, UOP_MUL, m->step, THREADS), m->tid);
    at = op2(m, UOP_MUL, at, r->lanes);
    m->roots[m->n_roots++] =
        mk_store(&m->g, mk_param(&m->g, 0, r->dtype), at, read, NULL);
    if (r->kind == USED_TWICE)
        m->roots[m->n_roots++] =
            mk_store(&m->g, mk_param(&m->g, 2, r->dtype), at, v, NULL);
    if (r->kind == ALSO_WRITTEN)
        m->roots[m->n_roots++] =
            mk_store(&m->g, mk_param(&m->g, 1, r->dtype),
                     op2(m, UOP_ADD, at, 4000), read, NULL);
    m->roots[m->n_roots] = make_barrier(m, m->roots[m->n_roots - 1]);
    m->n_roots++;
    if (before)
        m->roots[m->n_roots++] = before;
    src[0] = m->step;
    src[1] = m->roots[m->n_roots - 1];
    m->roots[m->n_roots++] = mk(&m->g, UOP_END, UOP_VOID, 1, 0, 2, src);
    program_of(&m->g, m->roots, m->n_roots, p);
    p->local[0] = THREADS;
}

static void
check_row(const struct row *r, size_t number)
{
    struct lower_program p;
    struct p_buf bufs[3];
    struct made m = {.row = r};
    uint64_t rng = number + 1;
    char what[32], *text;
    uint32_t i;

    snprintf(what, sizeof(what), "row %zu", number);
    uop_graph_init(&m.g);
    make_program(&m, &p);
    for (i = 0; i < 3; i++)
        check_buf(&bufs[i], r->dtype, 8000, i == 1 ? &rng : NULL);
    assert_int_equal(render_ptx(&p, &ptx_check_target, &text), BELL_OK);
    if (r->has ? !strstr(text, r->has) || !strstr(text, "wait_all")
               : strstr(text, "cp.async.c") != NULL)
        fail_msg("%s:\n%s", what, text);
    host_free(text);
    check_program(&backend_ptx, &p, bufs, 3, false, what);
    ptx_check_keep(&p, false);
    check_bufs_free(bufs, 3);
    program_free(&p);
    uop_graph_fini(&m.g);
}

static void
test_copies(void **state)
{
    static const struct row rows[] = {
        {UOP_F32, 4, 4, 0, PLAIN, "cp.async.cg.shared.global [%r"},
        {UOP_F32, 1, 1, 0, PLAIN, "], 4;"},
        {UOP_F32, 4, 4, 2, PLAIN, "+8], [%rd1+16], 8;"},
        {UOP_F32, 4, 4, 1, PLAIN, "+4], 4;"},
        {UOP_F16, 8, 8, 0, PLAIN, "], 16;"},
        {UOP_BF16, 2, 2, 2, PLAIN, "+4], 4;"},
        {UOP_F16, 1, 1, 0, PLAIN, NULL},
        {UOP_F16, 4, 4, 1, PLAIN, NULL},
        {UOP_U8, 4, 4, 0, PLAIN, "], 4;"},
        {UOP_I16, 2, 2, 0, PLAIN, "], 4;"},
        {UOP_BOOL, 4, 4, 0, PLAIN, NULL},
        {UOP_F64, 2, 2, 0, PLAIN, "], 16;"},
        {UOP_I64, 1, 3, 0, PLAIN, "], 8;"},
        {UOP_F32, 8, 8, 0, READ_GATE, "], 16, %r"},
        {UOP_F16, 8, 8, 0, READ_GATE, "], 16, %r"},
        {UOP_F32, 4, 4, 0, WRITE_GATE, " cp.async.cg"},
        {UOP_F32, 4, 4, 0, OTHER_GATE, NULL},
        {UOP_F32, 4, 4, 0, ALSO_WRITTEN, NULL},
        {UOP_F32, 4, 4, 0, USED_TWICE, NULL},
        {UOP_F32, 4, 4, 0, PAST_BARRIER, NULL},
        {UOP_F32, 4, 4, 0, READ_AT_ONCE, NULL},
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
