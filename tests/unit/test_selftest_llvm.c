/* The selftest's kernels for AMD: IR of which LLVM makes code objects for every
 * generation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tools/selftest/selftest.h"

static const char *const archs[] = {"gfx90a",  "gfx942",  "gfx1030",
                                    "gfx1100", "gfx1150", "gfx1201"};

static struct hcq_device_info
info_of(const char *arch)
{
    struct hcq_device_info info = {.name = "AMD:0"};

    snprintf(info.arch, sizeof(info.arch), "%s", arch);
    return info;
}

static void
skip_without_llvm(void)
{
    struct hcq_device_info info = info_of("gfx1100");
    struct selftest_binary binary;

    if (selftest_kernel_binary(&info, SELFTEST_STORE, &binary) == BELL_OK) {
        host_free(binary.data);
        return;
    }
    assert_int_equal(bell_error_last()->status, BELL_E_UNSUPPORTED);
    print_message("%s\n", bell_error_last()->message);
    skip();
}

/* Whether the object has a symbol of that name: strings are in its tables. */
static bool
contains(const struct selftest_binary *binary, const char *text)
{
    const char *data = binary->data;
    size_t n = strlen(text) + 1, i;

    for (i = 0; i + n <= binary->size_bytes; i++) {
        if (memcmp(data + i, text, n) == 0)
            return true;
    }
    return false;
}

static void
test_compiled(void **state)
{
    size_t i;
    int k;

    (void)state;
    skip_without_llvm();
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct hcq_device_info info = info_of(archs[i]);
        for (k = 0; k < SELFTEST_KERNEL_COUNT; k++) {
            struct selftest_binary binary;
            char descriptor[64];
            if (selftest_kernel_binary(&info, (enum selftest_kernel)k,
                                       &binary) != BELL_OK)
                fail_msg("kernel %d for %s: %s", k, archs[i],
                         bell_error_last()->message);
            assert_memory_equal(binary.data, "\177ELF", 4);
            assert_true(strncmp(binary.name, "st_", 3) == 0);
            snprintf(descriptor, sizeof(descriptor), "%s.kd", binary.name);
            assert_true(contains(&binary, binary.name));
            assert_true(contains(&binary, descriptor));
            assert_true(binary.n_bufs >= 1 && binary.n_vals <= 1);
            host_free(binary.data);
        }
    }
}

static void
test_unknown(void **state)
{
    static const char *const others[] = {"gfx", "gfx906x", "gfx9999"};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(others); i++) {
        struct hcq_device_info info = info_of(others[i]);
        struct selftest_binary binary;
        assert_int_equal(selftest_kernel_binary(&info, SELFTEST_STORE, &binary),
                         BELL_E_UNSUPPORTED);
    }
}

/* Every allocation that fails is an error and leaks nothing. */
static void
test_no_memory(void **state)
{
    struct hcq_device_info info = info_of("gfx1100");
    struct selftest_binary binary;
    uint64_t nth;

    (void)state;
    skip_without_llvm();
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
        cmocka_unit_test(test_compiled),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
