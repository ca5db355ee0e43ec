/* The suite's kernels for NVIDIA without a device: every text is taken by the
 * interpreter of sim/, packed for every chip, and assembled by ptxas where
 * there is ptxas. What they compute is seen on the simulated cards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kernels_nv.h"
#include "sim/nv/ptx.h"

static const uint32_t chips[] = {80, 86, 89, 90, 100, 120};

/* Facts given to the loader are those of the text. */
static void
check_facts(const struct nv_container_desc *d)
{
    struct sim_ptx_kernel_info info;
    struct sim_ptx_module *module;

    if (sim_ptx_parse(d->text, &module) != BELL_OK)
        fail_msg("%s for sm_%u: %s\n%s", d->entry, d->sm,
                 bell_error_last()->message, d->text);
    assert_true(sim_ptx_kernel(module, NULL, 0, &info));
    assert_string_equal(info.name, d->entry);
    assert_int_equal(info.param_bytes, 8 * d->n_params);
    assert_int_equal(info.shared_bytes, d->shared_bytes);
    assert_int_equal(info.local_bytes, d->stack_bytes);
    assert_memory_equal(info.reqntid, d->reqntid, sizeof(d->reqntid));
    sim_ptx_destroy(module);
}

static void
test_kernels(void **state)
{
    size_t c;
    int k;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        for (k = 0; k < CTS_KERNEL_COUNT; k++) {
            struct nv_container_desc d;
            struct render_binary b;
            char *text;

            if (!nv_kernel((enum cts_kernel)k, chips[c], &d, &text)) {
                assert_int_equal(k, CTS_DIVIDE);
                continue;
            }
            check_facts(&d);
            assert_int_equal(render_nv_container(&d, &b), BELL_OK);
            render_binary_fini(&b);
            free(text);
        }
    }
}

static void
test_ptxas(void **state)
{
    char path[256];
    size_t c;
    int k;

    (void)state;
    if (render_ptxas_find(path, sizeof(path)) != BELL_OK) {
        print_message("%s\n", bell_error_last()->message);
        skip();
    }
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        const struct ptx_target target = {.sm = chips[c]};
        for (k = 0; k < CTS_KERNEL_COUNT; k++) {
            struct nv_container_desc d;
            struct render_binary b;
            char *text;

            if (!nv_kernel((enum cts_kernel)k, chips[c], &d, &text))
                continue;
            if (render_ptxas(text, &target, &b) != BELL_OK)
                fail_msg("%s for sm_%u: %s", d.entry, d.sm,
                         bell_error_last()->message);
            render_binary_fini(&b);
            free(text);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_ptxas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
