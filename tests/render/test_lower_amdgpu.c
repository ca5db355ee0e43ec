/* Lowering for AMD: which matrix instructions each chip gets, and in what order
 * the loop over tiles is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "amdgpu_check.h"
#include "base/alloc.h"
#include "base/bits.h"
#include "lower_kernels.h"

static void
compile_tf32(const struct lower_program *p, const struct amdgpu_target *amdgpu)
{
    struct render_binary binary;

    if (render_amdgpu(p, amdgpu, &binary) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    render_binary_fini(&binary);
}

/* Products are by matrix instructions where the chip has those that lose
 * nothing, and where TF32 is allowed by others too. */
static void
test_matrix_instructions(void **state)
{
    static const struct {
        const char *kernel;
        uint8_t k[AMDGPU_N_CHIPS]; /* steps; in the order of amdgpu_chips */
        bool tf32;
    } rows[] = {
        {"matmul-f16", {16, 16, 0, 0, 16}, false},
        {"matmul-f16", {16, 16, 16, 0, 16}, true},
        {"matmul-nn", {8, 0, 4, 0, 0}, true},
        {"matmul-bf16", {16, 16, 16, 0, 16}, false},
        {"matmul-nn", {4, 0, 4, 0, 0}, false},
        {"matmul-f64", {4, 0, 4, 0, 0}, false},
        {"matmul-i8", {32, 16, 16, 0, 16}, false},
        {"matmul-u8", {0, 16, 0, 0, 16}, false},
        {"matmul-ocp8", {16, 16, 16, 0, 16}, false}, /* as halves or bfloats */
        {"matmul-fnuz8", {32, 16, 16, 0, 16}, false},
    };
    static const int64_t d[3] = {512, 512, 512};
    unsigned chip;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (chip = 0; chip < AMDGPU_N_CHIPS; chip++) {
            struct amdgpu_target amdgpu = amdgpu_check_target(chip);
            struct lower_target target;
            struct lower_program p;
            uint32_t n = 0, at;
            bool fits = true;
            struct lk k;

            amdgpu.tf32 = rows[i].tf32;
            assert_int_equal(render_amdgpu_lower_target(&amdgpu, &target),
                             BELL_OK);
            lk_build(&k, lk_find(rows[i].kernel), d);
            assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
            for (at = 0; at < p.n_ops; at++) {
                if (p.ops[at]->op != UOP_WMMA)
                    continue;
                n++;
                fits &= uop_wmma_shape(p.ops[at]->arg.i).k == rows[i].k[chip];
            }
            if (rows[i].tf32 && n > 0)
                compile_tf32(&p, &amdgpu);
            if ((n > 0) != (rows[i].k[chip] > 0) || !fits)
                fail_msg("%s on %s: %u matrix instructions", rows[i].kernel,
                         amdgpu.gfx, n);
            assert_true(p.shared_bytes <= target.max_shared_bytes);
            lk_fini(&k);
        }
    }
}

/* Appends to `out` what instructions of the loop over tiles do, each kind once
 * where it follows itself: B barrier, L load from global memory, V wait for
 * loads, M product, W store to LOCAL memory. The loop's blocks begin with the
 * first label and end where results are stored. Returns which part of the
 * products stands before the wait. */
static double
loop_of(const char *text, char *out, size_t size)
{
    static const struct {
        const char *name;
        char kind;
    } kinds[] = {
        {"s_barrier", 'B'},  {"global_load", 'L'}, {"vmcnt(", 'V'},
        {"v_mfma", 'M'},     {"v_wmma", 'M'},      {"fmac_f32", 'M'},
        {"v_pk_fma_f", 'M'}, {"ds_write", 'W'},    {"ds_store", 'W'},
    };
    const char *line = strstr(text, "\n.LBB0_1:");
    size_t n = 0, i, products = 0, hide = 0;

    for (; line; line = strchr(line + 1, '\n')) {
        size_t length = strcspn(line + 1, "\n");
        for (i = 0; i < ARRAY_LEN(kinds); i++) {
            const char *at = strstr(line + 1, kinds[i].name);
            if (!at || at >= line + 1 + length)
                continue;
            products += kinds[i].kind == 'M';
            hide += kinds[i].kind == 'M' && !memchr(out, 'V', n);
            if (n + 1 < size && (!n || out[n - 1] != kinds[i].kind))
                out[n++] = kinds[i].kind;
        }
        if (length > 13 && strstr(line + 1, "global_store") &&
            strstr(line + 1, "global_store") < line + 1 + length)
            break;
    }
    out[n] = 0;
    return products ? (double)hide / (double)products : 0;
}

/* The next tile is loaded before the products of this one and waited for after
 * them, or most of them where it is turned beside the last, and goes to LOCAL
 * memory then: in machine code too. */
static void
test_loads_are_hidden(void **state)
{
    static const char *const names[] = {"matmul-f16", "matmul-bf16",
                                        "matmul-nn"};
    static const int64_t d[3] = {4096, 4096, 4096};
    unsigned chip, n = 0;
    size_t i;

    (void)state;
    for (chip = 0; chip < AMDGPU_N_CHIPS; chip++) {
        struct amdgpu_target amdgpu = amdgpu_check_target(chip);
        struct lower_target target;
        if (strcmp(amdgpu.gfx, "gfx942") && strcmp(amdgpu.gfx, "gfx1100"))
            continue;
        n++;
        assert_int_equal(render_amdgpu_lower_target(&amdgpu, &target), BELL_OK);
        for (i = 0; i < ARRAY_LEN(names); i++) {
            char loop[64], turned[64], *text, *begin;
            /* CDNA's halves are turned beside the second half of them */
            double hide,
                most = i < 2 && !strcmp(amdgpu.gfx, "gfx942") ? 0.5 : 0.7;
            struct lower_program p;
            struct lk k;

            lk_build(&k, lk_find(names[i]), d);
            assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
            assert_int_equal(render_amdgpu_asm(&p, &amdgpu, &text), BELL_OK);
            hide = loop_of(text, loop, sizeof(loop));
            /* blocks need not begin where the loop does: from its barrier on */
            begin = strchr(loop, 'B');
            snprintf(turned, sizeof(turned), "%s%.*s", begin ? begin : "",
                     begin ? (int)(begin - loop) : 0, loop);
            if (hide < most || strspn(turned, "B") != 1 ||
                strspn(turned + 1, "L") == 0 || !strstr(turned, "LMV") ||
                strcmp(strrchr(turned, 'M'), hide < 1 ? "MW" : "MVW"))
                fail_msg("%s on %s: %s, %.0f %% before the wait\n%s", names[i],
                         amdgpu.gfx, turned, 100 * hide, text);
            host_free(text);
            lk_fini(&k);
        }
    }
    assert_int_equal(n, 2);
}

/* Halves that lie across the sum are turned in registers: no access takes one
 * alone, neither to LOCAL memory nor of results; and no matrix is moved between
 * kinds of registers. */
static void
test_halves_go_together(void **state)
{
    static const char *const names[] = {"matmul-f16", "matmul-bf16"};
    static const char *const never[] = {
        "ds_write_b16",     "ds_store_b16",    "ds_read_u16",
        "ds_load_u16",      "global_store_sh", "global_store_b16",
        "global_store_d16", "global_load_ush", "global_load_u16",
        "v_accvgpr",        "scratch_",
    };
    static const int64_t d[3] = {4096, 4096, 4096};
    unsigned chip, n = 0;
    size_t i, j;

    (void)state;
    for (chip = 0; chip < AMDGPU_N_CHIPS; chip++) {
        struct amdgpu_target amdgpu = amdgpu_check_target(chip);
        struct lower_target target;
        assert_int_equal(render_amdgpu_lower_target(&amdgpu, &target), BELL_OK);
        for (i = 0; i < ARRAY_LEN(names); i++) {
            struct lower_program p;
            struct lk k;
            char *text;

            lk_build(&k, lk_find(names[i]), d);
            assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
            assert_int_equal(render_amdgpu_asm(&p, &amdgpu, &text), BELL_OK);
            for (j = 0; j < ARRAY_LEN(never) && target.matrix_k[UOP_F16]; j++) {
                n++;
                if (strstr(text, never[j]))
                    fail_msg("%s on %s: %s\n%s", names[i], amdgpu.gfx, never[j],
                             text);
            }
            host_free(text);
            lk_fini(&k);
        }
    }
    assert_int_equal(n, 3 * ARRAY_LEN(names) * ARRAY_LEN(never));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_instructions),
        cmocka_unit_test(test_loads_are_hidden),
        cmocka_unit_test(test_halves_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
