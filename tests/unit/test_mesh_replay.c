/* A replay of a jit on a mesh, once the memory of the call is known, takes no
 * allocation, lock or call of the kernel on the thread that calls, as on one
 * device. The function changes state in place and has
 * collectives.
 */
#include <stdio.h>
#include <string.h>

#include "doorbell/jit.h"
#include "doorbell/mesh.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/nv/nv.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/jit/jit_internal.h"
#include "tensor/runtime/capture.h"
#include "tensor/runtime/mesh_places.h"
#include "tests/unit/launch_rig.h"

#define ROWS      12
#define COLS      20
#define N_REPLAYS 100 /* more than may be in flight */

static struct kio *
kio_of(struct hcq_device *dev)
{
    if (strcmp(dev->info.backend, "NV") == 0)
        return nv_device_of(dev)->kio;
    if (strcmp(dev->info.backend, "AMD") == 0)
        return amd_device_of(dev)->process->kio;
    return NULL; /* the CPU has none */
}

static void
count_all(const struct bell_context *c, bool on)
{
    const struct rt_places *places = c->runtime->places;
    struct kio *first = kio_of(c->runtime->dev), *kio;
    uint32_t p;

    for (p = 0; p < (places ? places->n : 1); p++) {
        kio = kio_of(places ? places->list[p]->dev : c->runtime->dev);
        if (!kio || (p > 0 && kio == first))
            continue; /* AMD's devices share one */
        if (on)
            count_kio(kio);
        else
            stop_counting(kio);
    }
}

struct state {
    struct bell_tensor *sum, *x;
};

/* sum += column sums of x * scale. */
static bell_status
step(struct bell_context *c, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    struct state *s = user;
    struct bell_tensor *y = bell_mul(s->x, in[0]);

    (void)out;
    y = bell_add(s->sum, bell_sum(y, BELL_DIMS(0), false));
    bell_assign_slice(s->sum, BELL_DIMS(0), y); /* in its memory */
    return bell_context_status(c);
}

static void
replay(const char *name)
{
    struct state s;
    const struct bell_jit_desc desc = {sizeof(desc), "step", step, &s, 1, 0};
    struct bell_stats before = {.struct_size = sizeof(before)},
                      after = {.struct_size = sizeof(after)};
    float x[ROWS * COLS], got[COLS], two = 2;
    struct bell_tensor *scale;
    struct bell_context *c;
    struct bell_jit *jit;
    uint32_t i, n_places;

    expect_ok(bell_context_create(name, &c));
    n_places = bell_mesh_places(c);
    for (i = 0; i < ROWS * COLS; i++)
        x[i] = (float)(i % 7) - 2;
    s.x = bell_shard(bell_from_data(c, BELL_DIMS(ROWS, COLS), BELL_FLOAT32, x),
                     "data", 0);
    s.sum = bell_contiguous(bell_zeros(c, BELL_DIMS(COLS), BELL_FLOAT32));
    expect_ok(bell_realize1(s.x));
    expect_ok(bell_realize1(s.sum));
    scale = bell_from_data(c, BELL_DIMS(1, 1), BELL_FLOAT32, &two);
    expect_ok(bell_jit_create(c, &desc, &jit));
    for (i = 0; i < 3; i++)
        expect_ok(bell_jit_call(jit, &scale, NULL));
    expect_ok(bell_read(s.sum, got, sizeof(got)));
    memset(&counts, 0, sizeof(counts));
    bell_context_stats(c, &before);
    for (i = 0; i < N_REPLAYS; i++) {
        struct counts then;

        count_all(c, true);
        expect_ok(rt_capture_replay(jit->capture));
        count_all(c, false);
        then = counts;
        expect_ok(bell_read(s.sum, got, sizeof(got)));
        counts = then;
    }
    bell_context_stats(c, &after);
    if (counts.allocations || counts.locks || counts.calls)
        fail_msg("%s: %u allocations, %u locks, %u calls", name,
                 counts.allocations, counts.locks, counts.calls);
    assert_int_equal(after.n_graphs - before.n_graphs, N_REPLAYS);
    assert_int_equal(after.n_splits, before.n_splits);
    print_message("# %s: %u places, %u replays, one graph each, %u "
                  "allocations, %u locks, %u calls\n",
                  name, n_places, N_REPLAYS, counts.allocations, counts.locks,
                  counts.calls);
    for (i = 0; i < COLS; i++) {
        float sum = 0;
        uint32_t r;

        for (r = 0; r < ROWS; r++)
            sum += 2 * x[r * COLS + i];
        assert_true(got[i] == sum * (N_REPLAYS + 3));
    }
    bell_jit_destroy(jit);
    bell_context_destroy(c);
}

static void
test_replays(void **state)
{
    (void)state;
    replay("CPU");
    replay("NV@sim:sm_90");
    replay("AMD@sim:gfx1100");
    replay("CPU:0,CPU:1,CPU:2");
    replay("NV:*@sim:sm_90*2");
    replay("AMD:*@sim:gfx1100*2");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_replays)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
