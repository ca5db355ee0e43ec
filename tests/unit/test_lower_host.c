/* Every kernel of lower_kernels.c as machine code: what the rules choose for
 * this machine, and for one with narrow vectors, must give what the kernel's
 * definition gives. The memory after each buffer cannot be touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "host_run.h"
#include "lower_kernels.h"

static const int64_t sizes[][3] = {
    {1, 1, 1},   {5, 7, 3},   {16, 32, 48}, {9, 33, 20},
    {1, 100, 9}, {67, 19, 4}, {3, 515, 2},
};

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

static void
run_code(struct lk *k, const struct lower_target *target,
         const struct p_buf *got)
{
    struct lower_program p;
    struct host_code code;
    void *bufs[LK_MAX_BUFS];
    size_t b;

    if (lower_kernel(&k->g, k->sink, target, &p) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    for (b = 0; b < k->n_bufs; b++) {
        bufs[b] = guarded_alloc(buf_bytes(&got[b]));
        memcpy(bufs[b], got[b].data, buf_bytes(&got[b]));
    }
    host_compile(&p, target, &code);
    host_call(&code, &p, bufs);
    host_release(&code);
    for (b = 0; b < k->n_bufs; b++) {
        memcpy(got[b].data, bufs[b], buf_bytes(&got[b]));
        guarded_free(bufs[b], buf_bytes(&got[b]));
    }
}

static void
check_kernel(const struct lk_case *c, const int64_t *d,
             const struct lower_target *targets, size_t n_targets)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[256] = "";
    struct lk k;
    size_t i;

    lk_init(&k, c, d, 11);
    lk_copy_bufs(&k, want);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    for (i = 0; i < n_targets; i++) {
        lk_copy_bufs(&k, got);
        run_code(&k, &targets[i], got);
        if (lk_compare(&k, want, got, err, sizeof(err)))
            fail_msg("%s (%d, %d, %d) for %u-byte vectors: %s", c->name,
                     (int)d[0], (int)d[1], (int)d[2], targets[i].vector_bytes,
                     err);
        lk_free_copy(&k, got);
    }
    lk_free_copy(&k, want);
    lk_fini(&k);
}

static void
test_machine_code(void **state)
{
    struct lower_target targets[2];
    size_t c, s;

    (void)state;
    assert_int_equal(render_host_target(&targets[0]), BELL_OK);
    targets[0].n_threads = 3;
    targets[1] = targets[0];
    targets[1].vector_bytes = 16;
    targets[1].n_vector_regs = 16;
    targets[1].has_fma = false;
    for (c = 0; c < lk_n_cases; c++) {
        for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            check_kernel(&lk_cases[c], sizes[s], targets, 2);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
