/* The memory plan: values that are alive at once never share memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/runtime/runtime.h"

#define MAX_BUFS  40
#define MAX_ITEMS 30

/* The root of each item, which is a kernel and no exchange. */
static const struct uop *sink;

struct made {
    struct sched_buf bufs[MAX_BUFS];
    struct sched_item items[MAX_ITEMS];
    uint32_t slots[MAX_ITEMS][4];
    struct rt_plan plan;
};

static uint32_t
rnd(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*seed >> 33) % n;
}

/* Every item writes a buffer of its own and reads up to three older ones. */
static void
make_plan(struct made *m, uint64_t *seed)
{
    uint32_t n_leaves = 1 + rnd(seed, 4), n = 1 + rnd(seed, MAX_ITEMS), i, j;

    memset(m, 0, sizeof(*m));
    m->plan.sched.bufs = m->bufs;
    m->plan.sched.items = m->items;
    m->plan.sched.n_leaves = n_leaves;
    m->plan.sched.n_items = n;
    m->plan.sched.n_bufs = n_leaves + n;
    for (i = 0; i < n_leaves + n; i++) {
        m->bufs[i].dtype = UOP_F32;
        m->bufs[i].n_elems = 1 + rnd(seed, 1000);
        m->bufs[i].leaf = i < n_leaves ? (int32_t)i : -1;
        m->bufs[i].root = i >= n_leaves && rnd(seed, 4) == 0 ? 0 : -1;
    }
    for (i = 0; i < n; i++) {
        m->items[i].n_bufs = 2 + rnd(seed, 3);
        m->items[i].bufs = m->slots[i];
        m->items[i].sink = sink;
        m->slots[i][0] = n_leaves + i;
        for (j = 1; j < m->items[i].n_bufs; j++)
            m->slots[i][j] = rnd(seed, n_leaves + i);
    }
}

static void
life_of(const struct made *m, uint32_t buf, int *first, int *last)
{
    uint32_t i, j;

    *first = *last = -1;
    for (i = 0; i < m->plan.sched.n_items; i++) {
        for (j = 0; j < m->items[i].n_bufs; j++) {
            if (m->slots[i][j] == buf) {
                *first = *first < 0 ? (int)i : *first;
                *last = (int)i;
            }
        }
    }
}

static void
check_plan(const struct made *m)
{
    uint32_t a, b;

    for (a = 0; a < m->plan.sched.n_bufs; a++) {
        uint64_t a0 = m->plan.offsets[a], a1 = a0 + m->bufs[a].n_elems * 4;
        int fa, la, fb, lb;

        if (m->bufs[a].leaf >= 0 || m->bufs[a].root >= 0)
            continue;
        assert_true(a1 <= m->plan.scratch_bytes);
        assert_int_equal(a0 % 64, 0);
        life_of(m, a, &fa, &la);
        for (b = 0; b < a; b++) {
            uint64_t b0 = m->plan.offsets[b], b1 = b0 + m->bufs[b].n_elems * 4;
            if (m->bufs[b].leaf >= 0 || m->bufs[b].root >= 0)
                continue;
            life_of(m, b, &fb, &lb);
            if (fa <= lb && fb <= la)
                assert_true(a1 <= b0 || b1 <= a0);
        }
    }
}

static void
test_random_plans(void **state)
{
    uint64_t seed = 1, taken = 0, least = 0;
    struct made m;
    int i;

    (void)state;
    for (i = 0; i < 3000; i++) {
        make_plan(&m, &seed);
        assert_int_equal(rt_place_buffers(&m.plan, NULL), BELL_OK);
        check_plan(&m);
        assert_true(m.plan.scratch_bytes >= m.plan.alive_bytes);
        if (i % 64 == 0) { /* again, as for another size */
            uint64_t was = m.plan.result_bytes;
            assert_int_equal(rt_place_buffers(&m.plan, NULL), BELL_OK);
            assert_true(m.plan.result_bytes == was);
            check_plan(&m);
        }
        taken += m.plan.scratch_bytes;
        least += m.plan.alive_bytes;
        host_free(m.plan.offsets);
        host_free(m.plan.takes);
    }
    assert_true((double)taken < 1.08 * (double)least);
}

/* A chain needs two places, however long it is. */
static void
test_chain_shares_memory(void **state)
{
    uint64_t seed = 1;
    struct made m;
    uint32_t i;

    (void)state;
    make_plan(&m, &seed);
    m.plan.sched.n_leaves = 1;
    m.plan.sched.n_items = 20;
    m.plan.sched.n_bufs = 21;
    for (i = 0; i <= 20; i++) {
        m.bufs[i] = (struct sched_buf){.n_elems = 64, .dtype = UOP_F32};
        m.bufs[i].leaf = i == 0 ? 0 : -1;
        m.bufs[i].root = -1;
    }
    for (i = 0; i < 20; i++) {
        m.items[i].n_bufs = 2;
        m.items[i].bufs = m.slots[i];
        m.items[i].sink = sink;
        m.slots[i][0] = i + 1;
        m.slots[i][1] = i;
    }
    assert_int_equal(rt_place_buffers(&m.plan, NULL), BELL_OK);
    check_plan(&m);
    assert_int_equal(m.plan.scratch_bytes, 512);
    host_free(m.plan.offsets);
    host_free(m.plan.takes);
}

static void
test_out_of_memory(void **state)
{
    uint64_t seed = 7, nth;
    bell_status status = BELL_E_NO_MEMORY;
    struct made m;

    (void)state;
    for (nth = 1; status != BELL_OK; nth++) {
        make_plan(&m, &seed);
        host_fail_after(nth, 0);
        status = rt_place_buffers(&m.plan, NULL);
        host_fail_after(0, 0);
        if (status != BELL_OK)
            assert_int_equal(status, BELL_E_NO_MEMORY);
        host_free(m.plan.offsets);
        host_free(m.plan.takes);
    }
    assert_true(nth > 8);
}

int
main(void)
{
    const union uop_arg none = {0};
    struct uop_graph g;
    int n_failed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_chain_shares_memory),
        cmocka_unit_test(test_out_of_memory),
    };

    uop_graph_init(&g);
    sink = uop_const_int(&g, UOP_I32, 0);
    sink = uop_make(&g, UOP_SINK, UOP_VOID, 1, none, &sink, 1);
    n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    uop_graph_fini(&g);
    return n_failed;
}
