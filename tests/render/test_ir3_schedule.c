/* Adreno's cycles of nop: chains of dependent instructions fill each other's;
 * in the program's order, one behind the other, each has its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "render/ir3/ir3.h"
#include "render_check.h"

#define N     8
#define STEPS 12

static const enum ir3_gen gens[] = {IR3_GEN_A6XX, IR3_GEN_A7XX, IR3_GEN_A7XX_3};

/* A program with `n` chains of sums and products, one behind the other, whose
 * results are added; how many cycles of nop it has, in hundredths of its
 * instructions. */
static uint32_t
idle_percent(unsigned n, enum ir3_gen gen)
{
    struct uop_graph g;
    const struct uop *at, *x, *value, *sum = NULL, *root;
    struct lower_program p;
    struct render_binary binary;
    struct p_buf bufs[2];
    uint32_t n_instrs, n_idle, i, k;
    uint64_t rng = 9;

    uop_graph_init(&g);
    check_buf(&bufs[0], UOP_F32, N, NULL);
    check_buf(&bufs[1], UOP_F32, N, &rng);
    for (k = 0; k < n; k++) {
        at = mk_int(&g, k);
        x = mk_load(&g, mk_param(&g, 1, UOP_F32), at, 1, NULL, NULL);
        value = x;
        for (i = 0; i < STEPS; i++)
            value = uop_alu2(&g, i % 2 ? UOP_MUL : UOP_ADD, value, x);
        sum = sum ? uop_alu2(&g, UOP_ADD, sum, value) : value;
    }
    root = mk_store(&g, mk_param(&g, 0, UOP_F32), mk_int(&g, 0), sum, NULL);
    check_roots(&g, &root, 1, bufs, 2, false, "chains");
    gpu_program_of(&g, &root, 1, &p);
    assert_int_equal(render_ir3(&p, gen, &binary), BELL_OK);
    render_ir3_count(binary.data, &n_instrs, &n_idle);
    render_binary_fini(&binary);
    program_free(&p);
    check_bufs_free(bufs, 2);
    uop_graph_fini(&g);
    return 100 * n_idle / n_instrs;
}

static void
test_chains(void **state)
{
    uint32_t one, many;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        one = idle_percent(1, gens[i]);
        many = idle_percent(N, gens[i]);
        print_message("one chain %u %%, eight %u %%\n", one, many);
        assert_true(one > 100);
        assert_true(many < one * 2 / 3);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains)};

    backend = &backend_ir3;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
