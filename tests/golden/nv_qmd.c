/* NVIDIA launch descriptors, word by word. The expected words are those of
 * docs/hardware/nvidia-queues.md, "Test vectors", typed in. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/nv/regs/nv_qmd.h"

/* What the three vectors have in common. */
static const uint64_t program_va = 0x1234567800, bank_va = 0xf87654000;

struct word {
    unsigned dw;
    uint32_t value;
};

static void
expect(const uint32_t *got, unsigned n_dw, const struct word *want, unsigned n)
{
    uint32_t all[128] = {0};

    for (unsigned i = 0; i < n; i++)
        all[want[i].dw] = want[i].value;
    for (unsigned i = 0; i < n_dw; i++)
        if (got[i] != all[i])
            fail_msg("word %u: %08x, want %08x", i, got[i], all[i]);
}

/* SM configuration of that much shared memory. */
static uint32_t
smem_config(unsigned kib)
{
    return kib / 4 + 1;
}

static struct nv_qmd_launch
hopper(void)
{
    return (struct nv_qmd_launch){
        .qmd_type = NV_QMD_TYPE_GRID_CTA,
        .cbuf_valid[0] = true,
        .cbuf_invalidate[0] = true,
        .cbuf_addr[0] = bank_va,
        .cbuf_size[0] = 0x230,
        .sass_version = 0x90,
        .local_high_size = 0x240,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .shared_memory_size = 0x800,
        .invalidate_texture_header_cache = true,
        .invalidate_texture_sampler_cache = true,
        .invalidate_texture_data_cache = true,
        .invalidate_shader_data_cache = true,
        .min_smem_config = smem_config(32),
        .max_smem_config = smem_config(228),
        .target_smem_config = smem_config(32),
        .grid_width = 132,
        .grid_height = 2,
        .grid_depth = 3,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .cta_x = 256,
        .cta_y = 1,
        .cta_z = 1,
        .register_count = 32,
        .barrier_count = 1,
        .program_address = program_va,
    };
}

static const struct word want_hopper[] = {
    {0, 0x01000000},  {13, 0x00000009}, {16, 0x90000000}, {17, 0x01000240},
    {18, 0x3c080040}, {19, 0x00009e89}, {32, 0x00000084}, {33, 0x00000002},
    {34, 0x00000003}, {35, 0x00010000}, {36, 0x00010100}, {37, 0x08200001},
    {38, 0x34567800}, {39, 0x00000012}, {48, 0x3e1d9500}, {49, 0x01180000},
};

static void
test_hopper(void **state)
{
    struct nv_qmd_launch qmd = hopper();
    uint32_t w[NV_QMD_LAUNCH_DW];

    (void)state;
    nv_pack_qmd_launch(NV_QMD_GEN_V4, &qmd, w);
    expect(w, nv_size_qmd_launch(NV_QMD_GEN_V4), want_hopper,
           ARRAY_LEN(want_hopper));
    /* Where section 9 saw them in a descriptor that libcuda made. */
    assert_int_equal(w[0x98 / 4] | (uint64_t)w[0x9c / 4] << 32, program_va);
    assert_int_equal(w[0xc0 / 4], bank_va >> 6);
    assert_true(nv_match_qmd_launch(NV_QMD_GEN_V4, w));
    assert_false(nv_match_qmd_launch(NV_QMD_GEN_V5, w));
}

/* A descriptor of another launch, patched into this one. */
static void
test_setters(void **state)
{
    struct nv_qmd_launch qmd = hopper();
    uint32_t w[NV_QMD_LAUNCH_DW];

    (void)state;
    qmd.grid_width = UINT32_MAX;
    qmd.grid_height = qmd.grid_depth = UINT16_MAX;
    qmd.cta_x = qmd.cta_y = qmd.cta_z = UINT16_MAX;
    qmd.cbuf_addr[0] = 0x1ffffffffffffc0;
    assert_null(nv_check_qmd_launch(NV_QMD_GEN_V4, &qmd));
    nv_pack_qmd_launch(NV_QMD_GEN_V4, &qmd, w);
    nv_set_qmd_launch_grid_width(NV_QMD_GEN_V4, w, 132);
    nv_set_qmd_launch_grid_height(NV_QMD_GEN_V4, w, 2);
    nv_set_qmd_launch_grid_depth(NV_QMD_GEN_V4, w, 3);
    nv_set_qmd_launch_cta_x(NV_QMD_GEN_V4, w, 256);
    nv_set_qmd_launch_cta_y(NV_QMD_GEN_V4, w, 1);
    nv_set_qmd_launch_cta_z(NV_QMD_GEN_V4, w, 1);
    nv_set_qmd_launch_cbuf_addr(NV_QMD_GEN_V4, w, 0, bank_va);
    expect(w, nv_size_qmd_launch(NV_QMD_GEN_V4), want_hopper,
           ARRAY_LEN(want_hopper));
}

/* In every version they set what the unpacker reads, and nothing else. */
static void
test_setters_of_all(void **state)
{
    enum nv_qmd_gen gen;

    (void)state;
    for (gen = NV_QMD_GEN_V3; gen != NV_QMD_GEN_COUNT; gen++) {
        struct nv_qmd_launch want = {
            .grid_width = 132,
            .grid_height = 2,
            .grid_depth = 3,
            .cta_x = 256,
            .cta_y = 4,
            .cta_z = 5,
            .cbuf_addr = {0, bank_va},
            .dependent_qmd_enable = {true, true},
            .dependent_qmd_action[1] = 3,
            .dependent_qmd_prefetch[1] = true,
            .dependent_qmd0_pointer = 0x12345678,
            .cwd_membar_type = NV_QMD_MEMBAR_L1_MEMBAR,
            .release0_enable = true,
            .release0_size = NV_QMD_RELEASE_SIZE_SEMAPHORE_TWO_WORDS,
            .release0_payload64b = true,
            .release0_addr = bank_va,
            .release0_payload = UINT64_MAX,
        };
        uint32_t packed[NV_QMD_LAUNCH_DW], w[NV_QMD_LAUNCH_DW];

        nv_pack_qmd_launch(gen, &(struct nv_qmd_launch){0}, w);
        nv_set_qmd_launch_grid_width(gen, w, 132);
        nv_set_qmd_launch_grid_height(gen, w, 2);
        nv_set_qmd_launch_grid_depth(gen, w, 3);
        nv_set_qmd_launch_cta_x(gen, w, 256);
        nv_set_qmd_launch_cta_y(gen, w, 4);
        nv_set_qmd_launch_cta_z(gen, w, 5);
        nv_set_qmd_launch_cbuf_addr(gen, w, 1, bank_va);
        nv_set_qmd_launch_dependent_qmd_enable(gen, w, 0, true);
        nv_set_qmd_launch_dependent_qmd_enable(gen, w, 1, true);
        nv_set_qmd_launch_dependent_qmd_action(gen, w, 1, 3);
        nv_set_qmd_launch_dependent_qmd_prefetch(gen, w, 1, true);
        nv_set_qmd_launch_dependent_qmd0_pointer(gen, w, 0x12345678);
        nv_set_qmd_launch_cwd_membar_type(gen, w, NV_QMD_MEMBAR_L1_MEMBAR);
        nv_set_qmd_launch_release0_enable(gen, w, true);
        nv_set_qmd_launch_release0_size(
            gen, w, NV_QMD_RELEASE_SIZE_SEMAPHORE_TWO_WORDS);
        nv_set_qmd_launch_release0_payload64b(gen, w, true);
        nv_set_qmd_launch_release0_addr(gen, w, bank_va);
        nv_set_qmd_launch_release0_payload(gen, w, UINT64_MAX);
        if (gen != NV_QMD_GEN_V3) {
            want.membar_chasing = true;
            nv_set_qmd_launch_membar_chasing(gen, w, true);
        }
        nv_pack_qmd_launch(gen, &want, packed);
        assert_memory_equal(w, packed, nv_size_qmd_launch(gen) * 4);
    }
}

static void
test_ampere(void **state)
{
    static const struct word want[] = {
        {4, 0x0000007f},  {5, 0x3c000000},  {11, 0x04010000}, {12, 0x00000084},
        {13, 0x00000002}, {14, 0x00000003}, {17, 0x54240800}, {18, 0x01000030},
        {19, 0x00010001}, {20, 0x00122001}, {23, 0x08000000}, {32, 0x87654000},
        {33, 0x00c4000f}, {48, 0x34567800}, {49, 0x00000012}, {50, 0x00000240},
        {51, 0x80000000},
    };
    struct nv_qmd_launch qmd = {
        .qmd_group_id = 0x3f,
        .sm_global_caching_enable = true,
        .invalidate_texture_header_cache = true,
        .invalidate_texture_sampler_cache = true,
        .invalidate_texture_data_cache = true,
        .invalidate_shader_data_cache = true,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .grid_width = 132,
        .grid_height = 2,
        .grid_depth = 3,
        .shared_memory_size = 0x800,
        .min_smem_config = smem_config(32),
        .max_smem_config = smem_config(164),
        .target_smem_config = smem_config(32),
        .cta_x = 256,
        .cta_y = 1,
        .cta_z = 1,
        .cbuf_valid[0] = true,
        .cbuf_invalidate[0] = true,
        .cbuf_addr[0] = bank_va,
        .cbuf_size[0] = 0x180,
        .register_count = 32,
        .barrier_count = 1,
        .program_address = program_va,
        .local_high_size = 0x240,
        .sass_version = 0x80,
    };
    uint32_t w[NV_QMD_LAUNCH_DW];

    (void)state;
    nv_pack_qmd_launch(NV_QMD_GEN_V3, &qmd, w);
    expect(w, nv_size_qmd_launch(NV_QMD_GEN_V3), want, ARRAY_LEN(want));
}

static void
test_blackwell(void **state)
{
    static const struct word want[] = {
        {4, 0x011f0000},  {14, 0x00500100}, {19, 0x00010000}, {32, 0x23456780},
        {33, 0x00000001}, {34, 0x00010100}, {35, 0x00022001}, {36, 0x04f44810},
        {37, 0x00240000}, {39, 0x00000084}, {40, 0x00000002}, {41, 0x00000003},
        {42, 0x3e1d9500}, {43, 0x01d00000}, {58, 0x00000009},
    };
    struct nv_qmd_launch qmd = {
        .qmd_group_id = 0x1f,
        .qmd_type = NV_QMD_TYPE_GRID_CTA,
        .api_visible_call_limit = NV_QMD_CALL_LIMIT_NO_CHECK,
        .sampler_index = NV_QMD_SAMPLER_INDEX_INDEPENDENTLY,
        .cwd_membar_type = NV_QMD_MEMBAR_L1_SYSMEMBAR,
        .program_address = program_va,
        .cta_x = 256,
        .cta_y = 1,
        .cta_z = 1,
        .register_count = 32,
        .barrier_count = 1,
        .shared_memory_size = 0x800,
        .min_smem_config = smem_config(32),
        .max_smem_config = smem_config(228),
        .target_smem_config = smem_config(32),
        .local_high_size = 0x240,
        .grid_width = 132,
        .grid_height = 2,
        .grid_depth = 3,
        .cbuf_addr[0] = bank_va,
        .cbuf_size[0] = 0x3a0,
        .cbuf_valid[0] = true,
        .cbuf_invalidate[0] = true,
    };
    uint32_t w[NV_QMD_LAUNCH_DW];

    (void)state;
    nv_pack_qmd_launch(NV_QMD_GEN_V5, &qmd, w);
    expect(w, nv_size_qmd_launch(NV_QMD_GEN_V5), want, ARRAY_LEN(want));
}

/* A value that does not fit is refused by name, and nothing is written. */
static void
test_refused(void **state)
{
    struct nv_qmd_launch qmd = hopper();
    uint32_t w[NV_QMD_LAUNCH_DW] = {0x5a5a5a5a};

    (void)state;
    qmd.grid_height = 0x10000;
    assert_int_equal(nv_try_qmd_launch(NV_QMD_GEN_V4, &qmd, w), BELL_E_INVALID);
    assert_string_equal(bell_error_last()->message,
                        "nv_qmd: LAUNCH.GRID_HEIGHT: beyond 16 bits");
    assert_int_equal(w[0], 0x5a5a5a5a);
    qmd = hopper();
    qmd.cbuf_addr[7] = 0x20;
    assert_string_equal(nv_check_qmd_launch(NV_QMD_GEN_V4, &qmd),
                        "CONSTANT_BUFFER_ADDR: not a multiple of 64");
    qmd = hopper();
    qmd.program_address = UINT64_C(1) << 57;
    assert_string_equal(nv_check_qmd_launch(NV_QMD_GEN_V4, &qmd),
                        "PROGRAM_ADDRESS: beyond 57 bits");
    qmd = hopper();
    assert_int_equal(nv_try_qmd_launch(NV_QMD_GEN_V4, &qmd, w), BELL_OK);
    assert_int_equal(w[0], 0x01000000);
}

/* A packer given what does not fit stops a build that has assertions. */
static void
test_asserts(void **state)
{
    (void)state;
#ifdef NDEBUG
    print_message("# skipped: built without assertions\n");
    skip();
#else
    struct nv_qmd_launch qmd = hopper();
    uint32_t w[NV_QMD_LAUNCH_DW];
    int status = 0;
    pid_t child;

    qmd.register_count = 512;
    fflush(NULL);
    child = fork();
    if (!child) {
        struct rlimit none = {0, 0};

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        nv_pack_qmd_launch(NV_QMD_GEN_V4, &qmd, w);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hopper),         cmocka_unit_test(test_setters),
        cmocka_unit_test(test_setters_of_all), cmocka_unit_test(test_ampere),
        cmocka_unit_test(test_blackwell),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_asserts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
