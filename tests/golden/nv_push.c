/* NVIDIA pushbuffers and ring entries, word by word. The expected words are
 * those of docs/hardware/nvidia-queues.md, "Test vectors", typed in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/nv/regs/nv_ce.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"

/* Words being built. */
struct push {
    uint32_t w[16];
    unsigned n;
};

static uint32_t *
method(struct push *push, enum nv_host_subchannel subchannel, uint32_t address,
       unsigned n_dw)
{
    uint32_t *out;

    push->w[push->n++] = nv_pack_host_incr(
        NV_HOST_GEN_C86F, (struct nv_host_incr){.address = address,
                                                .subchannel = subchannel,
                                                .count = n_dw});
    out = push->w + push->n;
    push->n += n_dw;
    return out;
}

#define EXPECT(push, ...)                                                      \
    do {                                                                       \
        static const uint32_t want[] = {__VA_ARGS__};                          \
        assert_int_equal((push).n, ARRAY_LEN(want));                           \
        assert_memory_equal((push).w, want, sizeof(want));                     \
    } while (0)

static void
test_bind(void **state)
{
    struct push p = {0};

    (void)state;
    *method(&p, NV_HOST_SUBCHANNEL_COMPUTE, NV_HOST_SET_OBJECT, 1) =
        nv_pack_host_set_object(NV_HOST_GEN_C86F,
                                (struct nv_host_set_object){.nvclass = 0xcbc0});
    EXPECT(p, 0x20012000, 0x0000cbc0);
}

static void
test_windows(void **state)
{
    struct push p = {0};

    (void)state;
    nv_pack_compute_shared_window(
        NV_COMPUTE_GEN_CBC0,
        (struct nv_compute_shared_window){.base_address = 0x729400000000},
        method(&p, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_SHARED_WINDOW,
               NV_COMPUTE_SHARED_WINDOW_DW));
    nv_pack_compute_local_window(
        NV_COMPUTE_GEN_CBC0,
        (struct nv_compute_local_window){.base_address = 0x729300000000},
        method(&p, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_LOCAL_WINDOW,
               NV_COMPUTE_LOCAL_WINDOW_DW));
    EXPECT(p, 0x200220a8, 0x00007294, 0x00000000, 0x200221ec, 0x00007293,
           0x00000000);
}

static void
test_invalidate(void **state)
{
    struct push p = {0};

    (void)state;
    *method(&p, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_INVALIDATE_NO_WFI, 1) =
        nv_pack_compute_invalidate_no_wfi(
            NV_COMPUTE_GEN_CBC0,
            (struct nv_compute_invalidate_no_wfi){
                .instruction = true, .global_data = true, .constant = true});
    EXPECT(p, 0x200125a6, 0x00001011);
}

static void
test_launch(void **state)
{
    struct push p = {0};

    (void)state;
    *method(&p, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_PCAS_A, 1) =
        nv_pack_compute_pcas_a(
            NV_COMPUTE_GEN_CBC0,
            (struct nv_compute_pcas_a){.qmd_address = 0xab00000100});
    *method(&p, NV_HOST_SUBCHANNEL_COMPUTE, NV_COMPUTE_PCAS2_B, 1) =
        nv_pack_compute_pcas2_b(
            NV_COMPUTE_GEN_CBC0,
            (struct nv_compute_pcas2_b){
                .pcas_action =
                    NV_COMPUTE_PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE});
    EXPECT(p, 0x200120ad, 0xab000001, 0x200120b0, 0x0000000a);
}

static void
test_host_release(void **state)
{
    struct push p = {0};

    (void)state;
    nv_pack_host_sem(
        NV_HOST_GEN_C86F,
        (struct nv_host_sem){.offset = 0x1000200010,
                             .payload = 5,
                             .operation = NV_HOST_SEM_OP_RELEASE,
                             .release_wfi = true,
                             .payload_size = NV_HOST_SEM_PAYLOAD_64BIT,
                             .release_timestamp = true},
        method(&p, NV_HOST_SUBCHANNEL_HOST, NV_HOST_SEM, NV_HOST_SEM_DW));
    EXPECT(p, 0x20050017, 0x00200010, 0x00000010, 0x00000005, 0x00000000,
           0x03100001);
}

static void
test_host_acquire(void **state)
{
    struct push p = {0};

    (void)state;
    nv_pack_host_sem(
        NV_HOST_GEN_C86F,
        (struct nv_host_sem){.offset = 0x1000200010,
                             .payload = 5,
                             .operation = NV_HOST_SEM_OP_ACQ_CIRC_GEQ,
                             .payload_size = NV_HOST_SEM_PAYLOAD_64BIT},
        method(&p, NV_HOST_SUBCHANNEL_HOST, NV_HOST_SEM, NV_HOST_SEM_DW));
    EXPECT(p, 0x20050017, 0x00200010, 0x00000010, 0x00000005, 0x00000000,
           0x01000003);
}

static void
test_copy(void **state)
{
    struct push p = {0};
    uint32_t *w;

    (void)state;
    w = method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_OFFSET_IN, 4);
    nv_pack_ce_offset_in(NV_CE_GEN_C8B5,
                         (struct nv_ce_offset_in){.address = 0x2000000000}, w);
    nv_pack_ce_offset_out(NV_CE_GEN_C8B5,
                          (struct nv_ce_offset_out){.address = 0x3000000000},
                          w + 2);
    *method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_LINE_LENGTH_IN, 1) =
        nv_pack_ce_line_length_in(
            NV_CE_GEN_C8B5, (struct nv_ce_line_length_in){.value = 0x1000});
    *method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_LAUNCH_DMA, 1) =
        nv_pack_ce_launch_dma(
            NV_CE_GEN_C8B5,
            (struct nv_ce_launch_dma){.data_transfer_type =
                                          NV_CE_TRANSFER_NON_PIPELINED,
                                      .src_memory_layout = NV_CE_LAYOUT_PITCH,
                                      .dst_memory_layout = NV_CE_LAYOUT_PITCH});
    EXPECT(p, 0x20048100, 0x00000020, 0x00000000, 0x00000030, 0x00000000,
           0x20018106, 0x00001000, 0x200180c0, 0x00000182);
}

static void
test_copy_release(void **state)
{
    struct push p = {0};

    (void)state;
    nv_pack_ce_release(
        NV_CE_GEN_C8B5,
        (struct nv_ce_release){.address = 0x1000200020, .payload = 7},
        method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_RELEASE, NV_CE_RELEASE_DW));
    *method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_LAUNCH_DMA, 1) =
        nv_pack_ce_launch_dma(
            NV_CE_GEN_C8B5,
            (struct nv_ce_launch_dma){
                .flush_enable = true,
                .semaphore_type = NV_CE_SEMAPHORE_RELEASE_FOUR_WORD_SEMAPHORE});
    EXPECT(p, 0x20038090, 0x00000010, 0x00200020, 0x00000007, 0x200180c0,
           0x00000014);
}

static void
test_fill(void **state)
{
    struct push p = {0};
    uint32_t *w;

    (void)state;
    w = method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_SET_REMAP_CONST_B, 2);
    w[0] = nv_pack_ce_set_remap_const_b(
        NV_CE_GEN_C8B5, (struct nv_ce_set_remap_const_b){.v = 0xdeadbeef});
    w[1] = nv_pack_ce_remap_components(
        NV_CE_GEN_C8B5, (struct nv_ce_remap_components){
                            .dst_x = NV_CE_REMAP_CONST_B,
                            .component_size = NV_CE_COMPONENTS_FOUR});
    nv_pack_ce_offset_out(
        NV_CE_GEN_C8B5, (struct nv_ce_offset_out){.address = 0x3000000000},
        method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_OFFSET_OUT, 2));
    *method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_LINE_LENGTH_IN, 1) =
        nv_pack_ce_line_length_in(
            NV_CE_GEN_C8B5, (struct nv_ce_line_length_in){.value = 0x1000});
    *method(&p, NV_HOST_SUBCHANNEL_COPY, NV_CE_LAUNCH_DMA, 1) =
        nv_pack_ce_launch_dma(
            NV_CE_GEN_C8B5,
            (struct nv_ce_launch_dma){.data_transfer_type =
                                          NV_CE_TRANSFER_NON_PIPELINED,
                                      .src_memory_layout = NV_CE_LAYOUT_PITCH,
                                      .dst_memory_layout = NV_CE_LAYOUT_PITCH,
                                      .remap_enable = true});
    EXPECT(p, 0x200281c1, 0xdeadbeef, 0x00030005, 0x20028102, 0x00000030,
           0x00000000, 0x20018106, 0x00001000, 0x200180c0, 0x00000582);
}

static void
test_ring_entries(void **state)
{
    struct nv_host_gp_entry entry = {.get = 0x1234567000, .length = 40};
    uint64_t word;

    (void)state;
    assert_int_equal(nv_pack_host_gp_entry(NV_HOST_GEN_C86F, entry),
                     0x0000a01234567000);
    entry.level = NV_HOST_LEVEL_SUBROUTINE;
    assert_int_equal(nv_pack_host_gp_entry(NV_HOST_GEN_C56F, entry),
                     0x0000a21234567000);
    /* 0x7f1234567000: the base first, then the low 40 bits as above. */
    word = nv_pack_host_gp_extended_base(
        NV_HOST_GEN_C86F,
        (struct nv_host_gp_extended_base){.base = 0x7f0000000000});
    assert_int_equal(word, 0x0000000400007f00);
}

/* Single words that sections 7 and 10 name. */
static void
test_words(void **state)
{
    struct nv_host_sem sem = {.operation = NV_HOST_SEM_OP_RELEASE,
                              .release_wfi = true};
    struct nv_ce_launch_dma dma = {
        .flush_enable = true,
        .semaphore_type = NV_CE_SEMAPHORE_RELEASE_ONE_WORD_SEMAPHORE};
    uint32_t w[NV_HOST_SEM_DW], op[NV_HOST_MEM_OP_DW];

    (void)state;
    nv_pack_host_sem(NV_HOST_GEN_C56F, sem, w);
    assert_int_equal(w[4], 0x00100001);
    sem.release_wfi = false;
    sem.payload_size = NV_HOST_SEM_PAYLOAD_64BIT;
    nv_pack_host_sem(NV_HOST_GEN_C56F, sem, w);
    assert_int_equal(w[4], 0x01000001);
    nv_pack_host_mem_op(
        NV_HOST_GEN_C86F,
        (struct nv_host_mem_op){.membar_type = NV_HOST_MEMBAR_SYS_MEMBAR,
                                .operation = NV_HOST_MEM_OPERATION_MEMBAR},
        op);
    assert_int_equal(op[0] | op[1] | op[2], 0);
    assert_int_equal(op[3], 0x28000000);
    assert_int_equal(nv_pack_ce_launch_dma(NV_CE_GEN_C8B5, dma), 0x0000000c);
    dma.data_transfer_type = NV_CE_TRANSFER_NON_PIPELINED;
    dma.src_memory_layout = dma.dst_memory_layout = NV_CE_LAYOUT_PITCH;
    assert_int_equal(nv_pack_ce_launch_dma(NV_CE_GEN_C8B5, dma), 0x0000018e);
}

/* Older channels take shorter addresses. */
static void
test_generations(void **state)
{
    struct nv_host_sem sem = {.offset = UINT64_C(1) << 40};
    struct nv_ce_offset_in in = {.address = UINT64_C(1) << 49};

    (void)state;
    assert_string_equal(nv_check_host_sem(NV_HOST_GEN_C56F, &sem),
                        "OFFSET: beyond 40 bits");
    assert_null(nv_check_host_sem(NV_HOST_GEN_C86F, &sem));
    sem.offset = 2;
    assert_string_equal(nv_check_host_sem(NV_HOST_GEN_C86F, &sem),
                        "OFFSET: not a multiple of 4");
    assert_string_equal(nv_check_ce_offset_in(NV_CE_GEN_C7B5, &in),
                        "ADDRESS: beyond 49 bits");
    assert_null(nv_check_ce_offset_in(NV_CE_GEN_C8B5, &in));
    assert_string_equal(
        nv_check_ce_launch_dma(
            NV_CE_GEN_C6B5,
            &(struct nv_ce_launch_dma){.memory_scrub_enable = true}),
        "MEMORY_SCRUB_ENABLE: absent from this generation");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_invalidate),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_host_release),
        cmocka_unit_test(test_host_acquire),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_release),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_ring_entries),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_generations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
