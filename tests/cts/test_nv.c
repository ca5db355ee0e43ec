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
#include "sim/ptx/ptx.h"

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

/* The driver's loader takes what ptxas makes as it takes the containers. A
 * simulated card cannot run it, and says so. */
static void
test_cubins_load(void **state)
{
    static const uint32_t sims[] = {80, 90, 120};
    char path[256], name[32];
    size_t c;
    int k;

    (void)state;
    if (render_ptxas_find(path, sizeof(path)) != BELL_OK)
        skip();
    for (c = 0; c < ARRAY_LEN(sims); c++) {
        const struct ptx_target target = {.sm = sims[c]};
        struct hcq_device *dev;
        struct hcq_queue *queue;
        struct hcq_cs *cs;

        snprintf(name, sizeof(name), "NV@sim:sm_%u", sims[c]);
        assert_int_equal(hcq_device_open(name, &dev), BELL_OK);
        assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue),
                         BELL_OK);
        for (k = 0; k < CTS_KERNEL_COUNT; k++) {
            struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
            const uint32_t grid[3] = {1, 1, 1};
            struct nv_container_desc d;
            struct hcq_program *prog;
            struct render_binary b;
            char *text;

            if (!nv_kernel((enum cts_kernel)k, sims[c], &d, &text))
                continue;
            assert_int_equal(render_ptxas(text, &target, &b), BELL_OK);
            desc.name = desc.entry = d.entry;
            desc.binary = b.data;
            desc.binary_size_bytes = b.size_bytes;
            desc.n_vals = d.n_params;
            desc.shared_bytes = d.has_dynamic ? 65536 : 0;
            if (hcq_program_create(dev, &desc, &prog) != BELL_OK)
                fail_msg("%s on %s: %s", d.entry, name,
                         bell_error_last()->message);
            if (k == CTS_NOP) {
                assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
                hcq_cs_exec(cs, prog, NULL, 0, grid, NULL);
                assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
                assert_int_equal(hcq_queue_wait(queue, 10000000000ull),
                                 BELL_E_DEVICE_LOST);
                assert_int_equal(hcq_device_recover(dev), BELL_OK);
            }
            hcq_program_destroy(prog);
            render_binary_fini(&b);
            free(text);
        }
        hcq_device_close(dev);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_ptxas),
        cmocka_unit_test(test_cubins_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
