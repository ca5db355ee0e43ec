/* PM4 of gfx942, gfx1100 and gfx1201, word by word, and as text. The expected
 * words are those of docs/hardware/amd-queues.md, "Reference streams", typed
 * in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"
#include "tests/golden/amd_words.h"

/* Inputs of the reference streams. */
#define ENTRY   0x7f0000100100ull
#define KERNARG 0x7f0000200000ull
#define SCRATCH 0x7f0000800000ull
#define SIGNAL  0x7f0000c01000ull
#define SLOT    0x7f0000c00008ull

#define GFX9  AMD_PM4_GEN_GFX9
#define GFX11 AMD_PM4_GEN_GFX11
#define GFX12 AMD_PM4_GEN_GFX12

/* ---- packets ------------------------------------------------------------- */

static void
acquire_gfx9(struct push *p, bool full)
{
    amd_pack_pm4_acquire_mem_gfx9(
        GFX9,
        (struct amd_pm4_acquire_mem_gfx9){.tc_wb = full,
                                          .tcl1_inv = true,
                                          .tc_inv = full,
                                          .kcache_inv = true,
                                          .icache_inv = full,
                                          .size_lo = UINT32_MAX,
                                          .size_hi = UINT32_MAX,
                                          .interval = 10},
        push_room(p, AMD_PM4_ACQUIRE_MEM_GFX9_DW));
}

/* All caches; `full`: those of instructions and the second level too. */
static void
acquire(struct push *p, enum amd_pm4_gen gen, bool full)
{
    if (gen == GFX9) {
        acquire_gfx9(p, full);
        return;
    }
    amd_pack_pm4_acquire_mem(
        gen,
        (struct amd_pm4_acquire_mem){.size_lo = UINT32_MAX,
                                     .size_hi = UINT32_MAX,
                                     .gli_inv = full ? AMD_PM4_INV_RANGE_ALL
                                                     : AMD_PM4_INV_RANGE_NONE,
                                     .glm_wb = true,
                                     .glm_inv = true,
                                     .glk_wb = true,
                                     .glk_inv = true,
                                     .glv_inv = true,
                                     .gl1_inv = true,
                                     .gl2_inv = full,
                                     .gl2_wb = full},
        push_room(p, AMD_PM4_ACQUIRE_MEM_DW));
}

static void
hdp_flush(struct push *p, enum amd_pm4_gen gen)
{
    amd_pack_pm4_wait_reg_mem(
        gen,
        (struct amd_pm4_wait_reg_mem){
            .function = AMD_PM4_WAIT_FUNCTION_GREATER_EQUAL,
            .operation = AMD_PM4_WAIT_OPERATION_WRITE_WAIT_WRITE,
            .address = 0xe26 | 0xe27ull << 32,
            .reference = UINT32_MAX,
            .mask = UINT32_MAX,
            .interval = 4},
        push_room(p, AMD_PM4_WAIT_REG_MEM_DW));
}

/* Room for n registers from `reg` on. */
static uint32_t *
set_sh(struct push *p, enum amd_pm4_gen gen, uint32_t reg, uint32_t n)
{
    amd_pack_pm4_set_sh_reg(
        gen, (struct amd_pm4_set_sh_reg){.count = n, .offset = reg - 0x2c00},
        push_room(p, AMD_PM4_SET_SH_REG_DW));
    return push_room(p, n);
}

static void
set_user_data(struct push *p, enum amd_pm4_gen gen, uint64_t value)
{
    uint32_t *w = set_sh(p, gen, AMD_PM4_USER_DATA(0), 2);

    w[0] = amd_pack_pm4_user_data(gen,
                                  (struct amd_pm4_user_data){(uint32_t)value});
    w[1] = amd_pack_pm4_user_data(
        gen, (struct amd_pm4_user_data){(uint32_t)(value >> 32)});
}

static void
set_group(struct push *p, enum amd_pm4_gen gen)
{
    uint32_t *w = set_sh(p, gen, AMD_PM4_START, 8);

    amd_pack_pm4_start(gen, (struct amd_pm4_start){0}, w);
    amd_pack_pm4_num_thread(
        gen, (struct amd_pm4_num_thread){.x = 256, .y = 1, .z = 1}, w + 3);
    w[6] = amd_pack_pm4_pipelinestat(gen, (struct amd_pm4_pipelinestat){0});
    w[7] = amd_pack_pm4_perfcount(gen, (struct amd_pm4_perfcount){0});
}

/* As kernels' descriptors have them, but for PRIV and the LDS. */
struct kernel {
    enum amd_pm4_gen gen;
    uint32_t rsrc1, rsrc2, rsrc3;
    bool priv;
};

static const struct kernel kernels[] = {
    {GFX9, 0x00af0040, 0x84, 1, false},
    {GFX11, 0x60af0080, 0x9e, 0, true},
    {GFX12, 0x600f0040, 0x84, 0, false},
};

static void
set_rsrc(struct push *p, const struct kernel *k)
{
    struct amd_pm4_rsrc1 rsrc1 = amd_unpack_pm4_rsrc1(k->gen, k->rsrc1);
    struct amd_pm4_rsrc2 rsrc2 = amd_unpack_pm4_rsrc2(k->gen, k->rsrc2);
    uint32_t *w = set_sh(p, k->gen, AMD_PM4_RSRC1, 2);

    rsrc1.priv = k->priv;
    rsrc2.lds_size = 1024 / 512;
    w[0] = amd_pack_pm4_rsrc1(k->gen, rsrc1);
    w[1] = amd_pack_pm4_rsrc2(k->gen, rsrc2);
    if (k->gen == GFX9)
        *set_sh(p, k->gen, AMD_PM4_RSRC3_GFX9, 1) = amd_pack_pm4_rsrc3_gfx9(
            k->gen, amd_unpack_pm4_rsrc3_gfx9(k->gen, k->rsrc3));
    else
        *set_sh(p, k->gen, AMD_PM4_RSRC3, 1) =
            amd_pack_pm4_rsrc3(k->gen, amd_unpack_pm4_rsrc3(k->gen, k->rsrc3));
}

static void
dispatch_packet(struct push *p, enum amd_pm4_gen gen)
{
    uint32_t initiator = amd_pack_pm4_initiator(
        gen, (struct amd_pm4_initiator){.compute_shader_en = true,
                                        .force_start_at_000 = true,
                                        .cs_w32_en = gen != GFX9});

    amd_pack_pm4_dispatch_direct(
        gen,
        (struct amd_pm4_dispatch_direct){
            .dim_x = 64, .dim_y = 2, .dim_z = 1, .initiator = initiator},
        push_room(p, AMD_PM4_DISPATCH_DIRECT_DW));
    amd_pack_pm4_event_write(
        gen,
        (struct amd_pm4_event_write){
            .event_type = AMD_PM4_EVENT_CS_PARTIAL_FLUSH,
            .event_index = AMD_PM4_EVENT_INDEX_PARTIAL_FLUSH},
        push_room(p, AMD_PM4_EVENT_WRITE_DW));
}

static void
dispatch(struct push *p, const struct kernel *k)
{
    enum amd_pm4_gen gen = k->gen;

    acquire(p, gen, false);
    amd_pack_pm4_pgm(gen, (struct amd_pm4_pgm){ENTRY},
                     set_sh(p, gen, AMD_PM4_PGM, AMD_PM4_PGM_DW));
    set_rsrc(p, k);
    *set_sh(p, gen, AMD_PM4_TMPRING, 1) = amd_pack_pm4_tmpring(
        gen, (struct amd_pm4_tmpring){.waves = 0x200, .wavesize = 0x20});
    amd_pack_pm4_scratch_base(
        gen, (struct amd_pm4_scratch_base){SCRATCH},
        set_sh(p, gen, AMD_PM4_SCRATCH_BASE, AMD_PM4_SCRATCH_BASE_DW));
    amd_pack_pm4_restart(gen, (struct amd_pm4_restart){0},
                         set_sh(p, gen, AMD_PM4_RESTART, 3));
    set_user_data(p, gen, KERNARG);
    *set_sh(p, gen, AMD_PM4_LIMITS, 1) =
        amd_pack_pm4_limits(gen, (struct amd_pm4_limits){0});
    set_group(p, gen);
    dispatch_packet(p, gen);
}

static struct amd_pm4_release_mem
release_event(void)
{
    return (struct amd_pm4_release_mem){
        .event_type = AMD_PM4_EVENT_CACHE_FLUSH_AND_INV_TS,
        .event_index = AMD_PM4_EVENT_INDEX_END_OF_PIPE,
    };
}

static void
put_release(struct push *p, enum amd_pm4_gen gen,
            struct amd_pm4_release_mem release)
{
    amd_pack_pm4_release_mem(gen, release,
                             push_room(p, AMD_PM4_RELEASE_MEM_DW));
}

static void
timestamp(struct push *p, enum amd_pm4_gen gen)
{
    struct amd_pm4_release_mem release = release_event();

    release.int_sel = AMD_PM4_INT_SEL_AFTER_WRITE;
    put_release(p, gen, release);
    release = release_event();
    release.data_sel = AMD_PM4_DATA_SEL_GPU_CLOCK;
    release.address = SIGNAL + 8;
    put_release(p, gen, release);
    acquire(p, gen, true);
}

static void
signal_value(struct push *p, enum amd_pm4_gen gen)
{
    struct amd_pm4_release_mem release = release_event();

    release.data_sel = AMD_PM4_DATA_SEL_32BIT;
    release.address = SIGNAL;
    release.data = 7;
    if (gen == GFX9) {
        release.tc_wb = release.tc_nc = true;
    } else {
        release.glm_wb = release.glm_inv = true;
        release.glv_inv = release.gl1_inv = true;
        release.gl2_inv = release.gl2_wb = true;
        release.seq = AMD_PM4_SEQUENCE_FORWARD;
    }
    put_release(p, gen, release);
    release = release_event();
    release.data_sel = AMD_PM4_DATA_SEL_32BIT;
    release.int_sel = AMD_PM4_INT_SEL_AFTER_WRITE;
    release.address = SLOT;
    release.data = 1;
    release.int_context = gen == GFX9 ? 0 : 1;
    put_release(p, gen, release);
}

/* ---- streams ------------------------------------------------------------- */

static void
test_flush(void **state)
{
    struct push p = {0};

    (void)state;
    hdp_flush(&p, GFX9);
    acquire(&p, GFX9, true);
    EXPECT(p, 0xc0053c00, 0x00000045, 0x00000e26, 0x00000e27, 0xffffffff,
           0xffffffff, 0x00000004,
           /* */
           0xc0055800, 0x28c40000, 0xffffffff, 0xffffffff, 0x00000000,
           0x00000000, 0x0000000a);
    expect_names(&amd_pm4_unit, GFX9, &p, "WAIT_REG_MEM ACQUIRE_MEM_GFX9 ");
}

static void
test_flush_gfx11(void **state)
{
    static const enum amd_pm4_gen gens[] = {GFX11, GFX12};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct push p = {0};

        hdp_flush(&p, gens[i]);
        acquire(&p, gens[i], true);
        EXPECT(p, 0xc0053c00, 0x00000045, 0x00000e26, 0x00000e27, 0xffffffff,
               0xffffffff, 0x00000004,
               /* */
               0xc0065800, 0x00000000, 0xffffffff, 0xffffffff, 0x00000000,
               0x00000000, 0x00000000, 0x0000c3f1);
        expect_names(&amd_pm4_unit, gens[i], &p, "WAIT_REG_MEM ACQUIRE_MEM ");
    }
}

#define SET_NINE                                                               \
    "SET_SH_REG SET_SH_REG SET_SH_REG SET_SH_REG SET_SH_REG SET_SH_REG "       \
    "SET_SH_REG SET_SH_REG SET_SH_REG "

static void
test_dispatch(void **state)
{
    struct push p = {0};

    (void)state;
    dispatch(&p, &kernels[0]);
    EXPECT(p, 0xc0055800, 0x08400000, 0xffffffff, 0xffffffff, 0x00000000,
           0x00000000, 0x0000000a,
           /* */
           0xc0027600, 0x0000020c, 0x00001001, 0x0000007f,
           /* */
           0xc0027600, 0x00000212, 0x00af0040, 0x00010084,
           /* */
           0xc0017600, 0x0000022d, 0x00000001,
           /* */
           0xc0017600, 0x00000218, 0x00020200,
           /* */
           0xc0027600, 0x00000210, 0x00008000, 0x0000007f,
           /* */
           0xc0037600, 0x0000021b, 0x00000000, 0x00000000, 0x00000000,
           /* */
           0xc0027600, 0x00000240, 0x00200000, 0x00007f00,
           /* */
           0xc0017600, 0x00000215, 0x00000000,
           /* */
           0xc0087600, 0x00000204, 0x00000000, 0x00000000, 0x00000000,
           0x00000100, 0x00000001, 0x00000001, 0x00000000, 0x00000000,
           /* */
           0xc0031500, 0x00000040, 0x00000002, 0x00000001, 0x00000005,
           /* */
           0xc0004600, 0x00000407);
    expect_names(&amd_pm4_unit, GFX9, &p,
                 "ACQUIRE_MEM_GFX9 " SET_NINE "DISPATCH_DIRECT EVENT_WRITE ");
}

/* The two differ in the words of the descriptor alone. */
static void
check_dispatch(const struct kernel *k, uint32_t rsrc1, uint32_t rsrc2)
{
    const uint32_t want[] = {
        0xc0065800, 0x00000000, 0xffffffff, 0xffffffff, 0x00000000, 0x00000000,
        0x00000000, 0x000003f0,
        /* */
        0xc0027600, 0x0000020c, 0x00001001, 0x0000007f,
        /* */
        0xc0027600, 0x00000212, rsrc1, rsrc2,
        /* */
        0xc0017600, 0x00000228, 0x00000000,
        /* */
        0xc0017600, 0x00000218, 0x00020200,
        /* */
        0xc0027600, 0x00000210, 0x00008000, 0x0000007f,
        /* */
        0xc0037600, 0x0000021b, 0x00000000, 0x00000000, 0x00000000,
        /* */
        0xc0027600, 0x00000240, 0x00200000, 0x00007f00,
        /* */
        0xc0017600, 0x00000215, 0x00000000,
        /* */
        0xc0087600, 0x00000204, 0x00000000, 0x00000000, 0x00000000, 0x00000100,
        0x00000001, 0x00000001, 0x00000000, 0x00000000,
        /* */
        0xc0031500, 0x00000040, 0x00000002, 0x00000001, 0x00008005,
        /* */
        0xc0004600, 0x00000407};
    struct push p = {0};

    dispatch(&p, k);
    expect_words(&p, want, ARRAY_LEN(want));
    expect_names(&amd_pm4_unit, k->gen, &p,
                 "ACQUIRE_MEM " SET_NINE "DISPATCH_DIRECT EVENT_WRITE ");
}

static void
test_dispatch_gfx11(void **state)
{
    (void)state;
    check_dispatch(&kernels[1], 0x60bf0080, 0x0001009e);
    check_dispatch(&kernels[2], 0x600f0040, 0x00010084);
}

static void
test_timestamp(void **state)
{
    struct push p = {0};

    (void)state;
    timestamp(&p, GFX9);
    EXPECT(p, 0xc0064900, 0x00000514, 0x02000000, 0x00000000, 0x00000000,
           0x00000000, 0x00000000, 0x00000000,
           /* */
           0xc0064900, 0x00000514, 0x60000000, 0x00c01008, 0x00007f00,
           0x00000000, 0x00000000, 0x00000000,
           /* */
           0xc0055800, 0x28c40000, 0xffffffff, 0xffffffff, 0x00000000,
           0x00000000, 0x0000000a);
    expect_names(&amd_pm4_unit, GFX9, &p,
                 "RELEASE_MEM RELEASE_MEM ACQUIRE_MEM_GFX9 ");
}

static void
test_timestamp_gfx11(void **state)
{
    static const enum amd_pm4_gen gens[] = {GFX11, GFX12};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct push p = {0};

        timestamp(&p, gens[i]);
        EXPECT(p, 0xc0064900, 0x00000514, 0x02000000, 0x00000000, 0x00000000,
               0x00000000, 0x00000000, 0x00000000,
               /* */
               0xc0064900, 0x00000514, 0x60000000, 0x00c01008, 0x00007f00,
               0x00000000, 0x00000000, 0x00000000,
               /* */
               0xc0065800, 0x00000000, 0xffffffff, 0xffffffff, 0x00000000,
               0x00000000, 0x00000000, 0x0000c3f1);
        expect_names(&amd_pm4_unit, gens[i], &p,
                     "RELEASE_MEM RELEASE_MEM ACQUIRE_MEM ");
    }
}

static void
test_signal(void **state)
{
    struct push p = {0};

    (void)state;
    signal_value(&p, GFX9);
    EXPECT(p, 0xc0064900, 0x00088514, 0x20000000, 0x00c01000, 0x00007f00,
           0x00000007, 0x00000000, 0x00000000,
           /* */
           0xc0064900, 0x00000514, 0x22000000, 0x00c00008, 0x00007f00,
           0x00000001, 0x00000000, 0x00000000);
    expect_names(&amd_pm4_unit, GFX9, &p, "RELEASE_MEM RELEASE_MEM ");
}

static void
test_signal_gfx11(void **state)
{
    static const enum amd_pm4_gen gens[] = {GFX11, GFX12};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct push p = {0};

        signal_value(&p, gens[i]);
        EXPECT(p, 0xc0064900, 0x0070f514, 0x20000000, 0x00c01000, 0x00007f00,
               0x00000007, 0x00000000, 0x00000000,
               /* */
               0xc0064900, 0x00000514, 0x22000000, 0x00c00008, 0x00007f00,
               0x00000001, 0x00000000, 0x00000001);
        expect_names(&amd_pm4_unit, gens[i], &p, "RELEASE_MEM RELEASE_MEM ");
    }
}

static void
test_wait(void **state)
{
    static const enum amd_pm4_gen gens[] = {GFX9, GFX11, GFX12};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct push p = {0};

        amd_pack_pm4_wait_reg_mem(
            gens[i],
            (struct amd_pm4_wait_reg_mem){
                .function = AMD_PM4_WAIT_FUNCTION_GREATER_EQUAL,
                .space = AMD_PM4_SPACE_MEMORY,
                .address = SIGNAL,
                .reference = 7,
                .mask = UINT32_MAX,
                .interval = 4},
            push_room(&p, AMD_PM4_WAIT_REG_MEM_DW));
        EXPECT(p, 0xc0053c00, 0x00000015, 0x00c01000, 0x00007f00, 0x00000007,
               0xffffffff, 0x00000004);
        expect_names(&amd_pm4_unit, gens[i], &p, "WAIT_REG_MEM ");
    }
}

/* For the first of eight dies alone. */
static void
test_pred_exec(void **state)
{
    struct push p = {0};

    (void)state;
    amd_pack_pm4_pred_exec(
        GFX9,
        (struct amd_pm4_pred_exec){.exec_count = 2 * AMD_PM4_RELEASE_MEM_DW,
                                   .xcc_mask = 1},
        push_room(&p, AMD_PM4_PRED_EXEC_DW));
    signal_value(&p, GFX9);
    EXPECT(p, 0xc0002300, 0x01000010,
           /* */
           0xc0064900, 0x00088514, 0x20000000, 0x00c01000, 0x00007f00,
           0x00000007, 0x00000000, 0x00000000,
           /* */
           0xc0064900, 0x00000514, 0x22000000, 0x00c00008, 0x00007f00,
           0x00000001, 0x00000000, 0x00000000);
    expect_names(&amd_pm4_unit, GFX9, &p, "PRED_EXEC RELEASE_MEM RELEASE_MEM ");
}

/* Words of the table, put together. src: docs/hardware/amd-queues.md, "PM4" */
static void
test_others(void **state)
{
    struct push p = {0};

    (void)state;
    amd_pack_pm4_indirect_buffer(GFX9,
                                 (struct amd_pm4_indirect_buffer){
                                     .base = KERNARG, .size = 5, .valid = true},
                                 push_room(&p, AMD_PM4_INDIRECT_BUFFER_DW));
    amd_pack_pm4_write_data(
        GFX9,
        (struct amd_pm4_write_data){.count = 3,
                                    .dst_sel = AMD_PM4_WRITE_DST_MEMORY,
                                    .wr_confirm = true,
                                    .address = SIGNAL},
        push_room(&p, AMD_PM4_WRITE_DATA_DW));
    *push_room(&p, 1) = 0xc0ffee;
    amd_pack_pm4_copy_data(
        GFX9,
        (struct amd_pm4_copy_data){.src_sel = AMD_PM4_COPY_SRC_GPU_CLOCK,
                                   .dst_sel = AMD_PM4_COPY_DST_MEMORY,
                                   .is_64bit = true,
                                   .wr_confirm = true,
                                   .dst = SIGNAL},
        push_room(&p, AMD_PM4_COPY_DATA_DW));
    amd_pack_pm4_dma_data(
        GFX9,
        (struct amd_pm4_dma_data){.src_sel = AMD_PM4_DMA_SRC_DATA,
                                  .dst_sel = AMD_PM4_DMA_DST_L2,
                                  .cp_sync = true,
                                  .src = 0x04030201,
                                  .dst = SIGNAL,
                                  .byte_count = 0x1000,
                                  .raw_wait = true},
        push_room(&p, AMD_PM4_DMA_DATA_DW));
    *push_room(&p, 1) =
        amd_pack_pm4_nop(GFX9, (struct amd_pm4_nop){.count = 1});
    push_room(&p, 2)[0] = 0;
    *push_room(&p, 1) = amd_pack_pm4_nop_word(GFX9);
    EXPECT(p, 0xc0023f00, 0x00200000, 0x00007f00, 0x00800005,
           /* */
           0xc0033700, 0x00100500, 0x00c01000, 0x00007f00, 0x00c0ffee,
           /* */
           0xc0044000, 0x00110509, 0x00000000, 0x00000000, 0x00c01000,
           0x00007f00,
           /* */
           0xc0055000, 0xc0300000, 0x04030201, 0x00000000, 0x00c01000,
           0x00007f00, 0x40001000,
           /* */
           0xc0011000, 0x00000000, 0x00000000,
           /* */
           0xffff1000);
    expect_names(&amd_pm4_unit, GFX9, &p,
                 "INDIRECT_BUFFER WRITE_DATA COPY_DATA DMA_DATA NOP NOP_WORD ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_flush_gfx11),
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_dispatch_gfx11),
        cmocka_unit_test(test_timestamp),
        cmocka_unit_test(test_timestamp_gfx11),
        cmocka_unit_test(test_signal),
        cmocka_unit_test(test_signal_gfx11),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_pred_exec),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
