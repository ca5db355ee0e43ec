/* The selftest's kernels: PTX that the real assembler takes for every chip,
 * and that packs for simulated ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "render/ptx/nv_container.h"
#include "tools/selftest/selftest.h"

static const char *const archs[] = {"sm_80", "sm_86",  "sm_89",
                                    "sm_90", "sm_100", "sm_120"};

static void
make_all(uint32_t flags)
{
    size_t i;
    int k;

    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct hcq_device_info info = {.flags = flags, .name = "NV:0"};
        snprintf(info.arch, sizeof(info.arch), "%s", archs[i]);
        for (k = 0; k < SELFTEST_KERNEL_COUNT; k++) {
            struct selftest_binary binary;
            if (selftest_kernel_binary(&info, (enum selftest_kernel)k,
                                       &binary) != BELL_OK)
                fail_msg("kernel %d for %s: %s", k, archs[i],
                         bell_error_last()->message);
            assert_memory_equal(binary.data, "\177ELF", 4);
            assert_true(binary.size_bytes > 64);
            assert_true(strncmp(binary.name, "st_", 3) == 0);
            host_free(binary.data);
        }
    }
}

static void
test_packed(void **state)
{
    (void)state;
    make_all(HCQ_DEVICE_SIMULATED);
}

static void
test_assembled(void **state)
{
    char path[256];

    (void)state;
    if (render_ptxas_find(path, sizeof(path)) != BELL_OK) {
        print_message("no ptxas: %s\n", bell_error_last()->message);
        skip();
    }
    make_all(0);
}

static void
test_other_archs(void **state)
{
    static const char *const others[] = {"x86-64-v4", "sm_", "sm_9x", ""};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(others); i++) {
        struct hcq_device_info info = {.name = "CPU:0"};
        struct selftest_binary binary;
        snprintf(info.arch, sizeof(info.arch), "%s", others[i]);
        assert_int_equal(selftest_kernel_binary(&info, SELFTEST_STORE, &binary),
                         BELL_E_UNSUPPORTED);
    }
}

/* Every allocation that fails is an error and leaks nothing. */
static void
test_no_memory(void **state)
{
    struct hcq_device_info info = {
        .flags = HCQ_DEVICE_SIMULATED, .arch = "sm_90", .name = "NV:0"};
    struct selftest_binary binary;
    uint64_t nth;

    (void)state;
    for (nth = 1;; nth++) {
        bell_status status;
        host_fail_after(nth, 1);
        status = selftest_kernel_binary(&info, SELFTEST_ATOMICS, &binary);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    host_free(binary.data);
    assert_true(nth > 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_assembled),
        cmocka_unit_test(test_other_archs),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
