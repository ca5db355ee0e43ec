/* Adreno's arguments: as many as a launch can have, with as few registers as a
 * thread of a full work-group has, in a loop. Those that come from memory take
 * no private memory: what finds no register is loaded again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/hcq.h"
#include "render/ir3/ir3.h"
#include "render_check.h"

#define N_STEPS   3
#define N_THREADS 1024
#define N_BUFS    CHECK_MAX_BUFS
#define N_VARS    (HCQ_ARGS_MAX - N_BUFS)

/* out[thread] is what a loop makes of n_bufs - 1 buffers and n_vars numbers. */
static void
make_program(struct uop_graph *g, uint32_t n_bufs, uint32_t n_vars,
             struct lower_program *out)
{
    const struct uop *size = mk_int(g, N_THREADS), *src[2];
    const struct uop *thread = mk(g, UOP_SPECIAL, UOP_I64, 1, 4, 1, &size);
    const struct uop *acc, *step, *value, *end, *root;
    uint32_t i;

    src[0] = mk_int(g, 5);
    acc = mk(g, UOP_ACC, UOP_I64, 1, 0, 1, src);
    step = uop_range(g, 0, UOP_AXIS_REDUCE, N_STEPS);
    src[0] = acc;
    src[1] = step;
    value = mk(g, UOP_ACC_GET, UOP_I64, 1, 0, 2, src);
    for (i = 1; i < n_bufs; i++)
        value = uop_alu2(
            g, UOP_ADD, value,
            mk_load(g, mk_param(g, i, UOP_I64), thread, 1, NULL, NULL));
    for (i = 0; i < n_vars; i++)
        value = uop_alu2(g, i % 2 ? UOP_XOR : UOP_ADD, value,
                         mk(g, UOP_VAR, UOP_I64, 1, n_bufs + i, 0, NULL));
    src[1] = value;
    end = mk_end(g, step, mk(g, UOP_ACC_SET, UOP_VOID, 1, 0, 2, src));
    src[1] = end;
    value = mk(g, UOP_ACC_GET, UOP_I64, 1, 0, 2, src);
    root = mk_store(g, mk_param(g, 0, UOP_I64), thread, value, NULL);
    program_of(g, &root, 1, out);
    out->local[0] = N_THREADS;
}

static int64_t
expected(const struct p_buf *bufs, uint32_t n_bufs, const int64_t *vars,
         uint32_t n_vars, uint32_t thread)
{
    uint64_t value = 5;
    uint32_t step, i;

    for (step = 0; step < N_STEPS; step++) {
        for (i = 1; i < n_bufs; i++)
            value += ((uint64_t *)bufs[i].data)[thread];
        for (i = 0; i < n_vars; i++)
            value =
                i % 2 ? value ^ (uint64_t)vars[i] : value + (uint64_t)vars[i];
    }
    return (int64_t)value;
}

static void
check(uint32_t n_bufs, uint32_t n_vars)
{
    static int64_t data[N_BUFS][N_THREADS];
    struct p_buf bufs[N_BUFS];
    int64_t vars[N_VARS];
    struct lower_program p;
    struct render_binary binary;
    const struct ir3_object *object;
    struct uop_graph g;
    uint64_t rng = 3;
    uint32_t i, k, chip;
    char what[64];

    for (i = 0; i < n_bufs; i++) {
        bufs[i] = (struct p_buf){UOP_I64, N_THREADS, data[i]};
        for (k = 0; k < N_THREADS; k++)
            data[i][k] = (int64_t)next_random(&rng);
    }
    for (i = 0; i < n_vars; i++)
        vars[i] = (int64_t)next_random(&rng);
    uop_graph_init(&g);
    make_program(&g, n_bufs, n_vars, &p);
    for (chip = 0; chip < backend->n_chips; chip++) {
        snprintf(what, sizeof(what), "%u buffers, %u numbers", n_bufs, n_vars);
        backend->run(&p, chip, bufs, n_bufs, vars, what);
        for (k = 0; k < N_THREADS; k++)
            assert_int_equal(data[0][k],
                             expected(bufs, n_bufs, vars, n_vars, k));
        assert_int_equal(backend->render(&p, chip, &binary), BELL_OK);
        object = binary.data;
        assert_int_equal(object->private_bytes, 0);
        assert_true(object->gen != IR3_GEN_A7XX_3 || !object->n_const_vec4);
        render_binary_fini(&binary);
    }
    program_free(&p);
    uop_graph_fini(&g);
}

static void
test_args(void **state)
{
    static const uint32_t n_vars[] = {0, 1, 2, 13, 29, N_VARS};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(n_vars); i++) {
        check(2, n_vars[i]);
        check(N_BUFS, n_vars[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_args)};

    backend = &backend_ir3;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
