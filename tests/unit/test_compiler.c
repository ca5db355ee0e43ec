/* What a device is compiled for, and with what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "lower_kernels.h"
#include "tensor/runtime/runtime.h"

static struct hcq_device_info
device(const char *backend, const char *arch, uint32_t flags)
{
    struct hcq_device_info info = {
        .struct_size = sizeof(info),
        .flags = flags,
        .n_units = 6,
        .max_local_total = 512,
        .max_shared_bytes = 40000,
        .max_grid = {INT32_MAX, 65535, 65535},
    };

    snprintf(info.name, sizeof(info.name), "%s:0", backend);
    snprintf(info.backend, sizeof(info.backend), "%s", backend);
    snprintf(info.arch, sizeof(info.arch), "%s", arch);
    return info;
}

/* Compiles every kernel of the compiler's tests, looks at the files'
 * headers. */
static void
compile_all(const struct rt_target *target, unsigned os_abi, unsigned machine)
{
    const int64_t dims[] = {24, 16, 8};
    size_t c;

    for (c = 0; c < lk_n_cases; c++) {
        struct rt_binary binary = {.shared_bytes = 0};
        struct lower_program p;
        const unsigned char *file;
        char *text;
        struct lk k;

        lk_build(&k, &lk_cases[c], dims);
        assert_int_equal(lower_kernel(&k.g, k.sink, &target->lower, &p),
                         BELL_OK);
        if (target->compiler->compile(target, &p, &binary) != BELL_OK)
            fail_msg("%s: %s", lk_cases[c].name, bell_error_last()->message);
        file = binary.file.data;
        assert_memory_equal(file, "\177ELF", 4);
        assert_int_equal(file[7], os_abi);
        assert_int_equal(file[18], machine);
        assert_int_equal(target->compiler->text(target, &p, &text), BELL_OK);
        assert_non_null(strstr(text, p.name));
        host_free(text);
        render_binary_fini(&binary.file);
        lk_fini(&k);
    }
}

static void
test_simulated(void **state)
{
    static const char *const archs[] = {"sm_80", "sm_86",  "sm_89",
                                        "sm_90", "sm_100", "sm_120"};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct hcq_device_info info =
            device("NV", archs[i], HCQ_DEVICE_SIMULATED);
        struct rt_target target;

        assert_int_equal(rt_target_init(&info, 0, &target), BELL_OK);
        assert_int_equal(strncmp(target.lower.name, archs[i], 5), 0);
        assert_int_equal(target.ptx.is_arch_specific, target.ptx.sm == 90);
        assert_true(target.is_simulated);
        assert_int_equal(target.lower.n_units, 6);
        assert_int_equal(target.lower.max_threads, 512);
        assert_int_equal(target.lower.max_shared_bytes, 40000);
        assert_int_equal(target.lower.max_grid[1], 65535);
        assert_true(target.n_parallel >= 6 * 32);
        compile_all(&target, 0x41, 0xBE);
    }
}

/* Whether this build, or machine, has no LLVM. */
static bool
llvm_missing(void)
{
    const struct amdgpu_target target = {.gfx = "gfx942"};
    struct render_binary binary;

    if (render_amdgpu_ir("", "nothing", &target, &binary) != BELL_OK)
        return true;
    render_binary_fini(&binary);
    return false;
}

/* Each allowed math makes a target of another name; other bits do not count. */
static void
test_math(void **state)
{
    static const struct {
        const char *backend, *arch, *name;
        uint32_t asked, math;
    } rows[] = {
        {"NV", "sm_80", "sm_80-tf32", BELL_MATH_TF32, BELL_MATH_TF32},
        {"NV", "sm_90", "sm_90a-approx", BELL_MATH_APPROX, BELL_MATH_APPROX},
        {"NV", "sm_120", "sm_120-tf32-approx", UINT32_MAX,
         BELL_MATH_TF32 | BELL_MATH_APPROX},
        {"AMD", "gfx1100", "gfx1100-llvm19", BELL_MATH_TF32, BELL_MATH_EXACT},
        {"AMD", "gfx942", "gfx942-llvm19-tf32", BELL_MATH_TF32, BELL_MATH_TF32},
        {"AMD", "gfx90a", "gfx90a-llvm19-tf32-approx", UINT32_MAX,
         BELL_MATH_TF32 | BELL_MATH_APPROX},
        {"AMD", "gfx1030", "gfx1030-llvm19-approx", UINT32_MAX,
         BELL_MATH_APPROX},
        {"AMD", "gfx1201", "gfx1201-llvm19-approx", UINT32_MAX,
         BELL_MATH_APPROX},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_device_info info =
            device(rows[i].backend, rows[i].arch, HCQ_DEVICE_SIMULATED);
        struct rt_target target;
        assert_int_equal(rt_target_init(&info, rows[i].asked, &target),
                         BELL_OK);
        assert_int_equal(target.math, rows[i].math);
        assert_string_equal(target.lower.name, rows[i].name);
        if (rows[i].backend[0] == 'N')
            compile_all(&target, 0x41, 0xBE);
        else if (target.lower.is_approx && !llvm_missing())
            compile_all(&target, 64, 224);
    }
}

/* A card that is not simulated gets machine code, or is told what is
 * missing. */
static void
test_card(void **state)
{
    struct hcq_device_info info = device("NV", "sm_90", 0);
    const int64_t dims[] = {24, 16, 8};
    struct rt_binary binary = {.shared_bytes = 0};
    struct rt_target target;
    struct lower_program p;
    char path[256];
    struct lk k;

    (void)state;
    assert_int_equal(rt_target_init(&info, 0, &target), BELL_OK);
    assert_false(target.is_simulated);
    lk_build(&k, &lk_cases[0], dims);
    assert_int_equal(lower_kernel(&k.g, k.sink, &target.lower, &p), BELL_OK);
    if (render_ptxas_find(path, sizeof(path)) != BELL_OK) {
        assert_int_equal(target.compiler->compile(&target, &p, &binary),
                         BELL_E_UNSUPPORTED);
        assert_non_null(strstr(bell_error_last()->message, "ptxas"));
    } else {
        assert_int_equal(target.compiler->compile(&target, &p, &binary),
                         BELL_OK);
        assert_memory_equal(binary.file.data, "\177ELF", 4);
        render_binary_fini(&binary.file);
    }
    lk_fini(&k);
}

/* Code objects, where there is LLVM. */
static void
test_amd(void **state)
{
    static const char *const archs[] = {"gfx90a",  "gfx942",  "gfx1030",
                                        "gfx1100", "gfx1150", "gfx1201"};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct hcq_device_info info = device("AMD", archs[i], 0);
        struct rt_target target;

        assert_int_equal(rt_target_init(&info, 0, &target), BELL_OK);
        assert_int_equal(target.lower.n_units, 6);
        assert_int_equal(target.lower.max_threads, 512);
        assert_int_equal(target.lower.max_shared_bytes, 40000);
        assert_int_equal(target.lower.warp_lanes, archs[i][3] == '9' ? 64 : 32);
        if (llvm_missing())
            continue;
        compile_all(&target, 64, 224);
    }
}

static void
test_refused(void **state)
{
    static const struct {
        const char *backend, *arch, *part;
    } rows[] = {
        {"MALI", "g710", "no compiler for MALI devices (g710)"},
        {"QCOM", "adreno", "no compiler for 'adreno'"},
        {"AMD", "gfx1104", "'gfx1104' is not known; known: gfx906, gfx908"},
        {"AMD", "gfx950", "gfx950 (MI350X, MI355X) needs LLVM 20"},
        {"NV", "gfx942", "'gfx942', which is not sm_NN"},
        {"NV", "sm_", "'sm_'"},
        {"NV", "sm_9x", "'sm_9x'"},
        {"NV", "sm_75", "sm_75 is not known"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_device_info info = device(rows[i].backend, rows[i].arch, 0);
        struct rt_target target;

        assert_int_equal(rt_target_init(&info, 0, &target), BELL_E_UNSUPPORTED);
        assert_non_null(strstr(bell_error_last()->message, rows[i].part));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated), cmocka_unit_test(test_math),
        cmocka_unit_test(test_card),      cmocka_unit_test(test_amd),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
