/* Packets of the copy engines, word by word, and as text. The expected words
 * are those of docs/hardware/amd-queues.md, "Reference streams", typed in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/amd/regs/amd_sdma.h"
#include "tests/golden/amd_words.h"

#define SIGNAL 0x7f0000c01000ull
#define SLOT   0x7f0000c00008ull
#define SRC    0x7f0001000000ull
#define DST    0x7f0002000000ull

/* Memory type of fences, since version 5: uncached. */
#define MTYPE_UC 3

static void
fence(struct push *p, enum amd_sdma_gen gen, uint64_t va, uint32_t value)
{
    amd_pack_sdma_fence(
        gen,
        (struct amd_sdma_fence){.mtype = gen == AMD_SDMA_GEN_V4 ? 0 : MTYPE_UC,
                                .address = va,
                                .data = value},
        push_room(p, AMD_SDMA_FENCE_DW));
}

/* Waits, copies, writes the time and the signal, interrupts. */
static void
copy_job(struct push *p, enum amd_sdma_gen gen)
{
    amd_pack_sdma_poll_regmem(gen,
                              (struct amd_sdma_poll_regmem){
                                  .function = AMD_SDMA_FUNCTION_GREATER_EQUAL,
                                  .is_memory = true,
                                  .address = SIGNAL,
                                  .value = 6,
                                  .mask = UINT32_MAX,
                                  .interval = 4,
                                  .retry_count = 0xfff},
                              push_room(p, AMD_SDMA_POLL_REGMEM_DW));
    amd_pack_sdma_copy_linear(gen,
                              (struct amd_sdma_copy_linear){
                                  .count = 0x1000 - 1, .src = SRC, .dst = DST},
                              push_room(p, AMD_SDMA_COPY_LINEAR_DW));
    amd_pack_sdma_timestamp_global(
        gen, (struct amd_sdma_timestamp_global){.address = SIGNAL + 8},
        push_room(p, AMD_SDMA_TIMESTAMP_GLOBAL_DW));
    fence(p, gen, SIGNAL, 7);
    fence(p, gen, SLOT, 1);
    amd_pack_sdma_trap(gen, (struct amd_sdma_trap){.int_context = 1},
                       push_room(p, AMD_SDMA_TRAP_DW));
}

#define JOB_NAMES "POLL_REGMEM COPY_LINEAR TIMESTAMP_GLOBAL FENCE FENCE TRAP "

static void
test_v4(void **state)
{
    struct push p = {0};

    (void)state;
    copy_job(&p, AMD_SDMA_GEN_V4);
    EXPECT(p, 0xd0000008, 0x00c01000, 0x00007f00, 0x00000006, 0xffffffff,
           0x0fff0004,
           /* */
           0x00000001, 0x00000fff, 0x00000000, 0x01000000, 0x00007f00,
           0x02000000, 0x00007f00,
           /* */
           0x0000020d, 0x00c01008, 0x00007f00,
           /* */
           0x00000005, 0x00c01000, 0x00007f00, 0x00000007,
           /* */
           0x00000005, 0x00c00008, 0x00007f00, 0x00000001,
           /* */
           0x00000006, 0x00000001);
    expect_names(&amd_sdma_unit, AMD_SDMA_GEN_V4, &p, JOB_NAMES);
}

static void
test_v6(void **state)
{
    static const enum amd_sdma_gen gens[] = {AMD_SDMA_GEN_V6, AMD_SDMA_GEN_V7};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(gens); i++) {
        struct push p = {0};

        copy_job(&p, gens[i]);
        EXPECT(p, 0xd0000008, 0x00c01000, 0x00007f00, 0x00000006, 0xffffffff,
               0x0fff0004,
               /* */
               0x00000001, 0x00000fff, 0x00000000, 0x01000000, 0x00007f00,
               0x02000000, 0x00007f00,
               /* */
               0x0000020d, 0x00c01008, 0x00007f00,
               /* */
               0x00030005, 0x00c01000, 0x00007f00, 0x00000007,
               /* */
               0x00030005, 0x00c00008, 0x00007f00, 0x00000001,
               /* */
               0x00000006, 0x00000001);
        expect_names(&amd_sdma_unit, gens[i], &p, JOB_NAMES);
    }
}

/* src: docs/hardware/amd-queues.md, "Copies (SDMA)";
 * docs/hardware/amd-kernel.md, "HDP" */
static void
test_others(void **state)
{
    struct push p = {0};

    (void)state;
    amd_pack_sdma_poll_regmem(
        AMD_SDMA_GEN_V4,
        (struct amd_sdma_poll_regmem){.address = 0x80000000ull << 32},
        push_room(&p, AMD_SDMA_POLL_REGMEM_DW)); /* flushes the HDP */
    amd_pack_sdma_write_linear(
        AMD_SDMA_GEN_V4,
        (struct amd_sdma_write_linear){.dst = SIGNAL, .count = 1},
        push_room(&p, AMD_SDMA_WRITE_LINEAR_DW));
    push_room(&p, 2)[0] = 7;
    amd_pack_sdma_const_fill(
        AMD_SDMA_GEN_V4,
        (struct amd_sdma_const_fill){.fill_size = AMD_SDMA_FILL_SIZE_WORD,
                                     .dst = DST,
                                     .data = 0x55aa55aa,
                                     .count = 0xfff},
        push_room(&p, AMD_SDMA_CONST_FILL_DW));
    amd_pack_sdma_indirect(
        AMD_SDMA_GEN_V4, (struct amd_sdma_indirect){.base = SRC, .size = 0x40},
        push_room(&p, AMD_SDMA_INDIRECT_DW));
    *push_room(&p, 1) =
        amd_pack_sdma_nop(AMD_SDMA_GEN_V4, (struct amd_sdma_nop){.count = 2});
    push_room(&p, 2)[0] = 0;
    EXPECT(
        p, 0x00000008, 0x00000000, 0x80000000, 0x00000000, 0x00000000,
        0x00000000,
        /* */
        0x00000002, 0x00c01000, 0x00007f00, 0x00000001, 0x00000007, 0x00000000,
        /* */
        0x8000000b, 0x02000000, 0x00007f00, 0x55aa55aa, 0x00000fff,
        /* */
        0x00000004, 0x01000000, 0x00007f00, 0x00000040, 0x00000000, 0x00000000,
        /* */
        0x00020000, 0x00000000, 0x00000000);
    expect_names(&amd_sdma_unit, AMD_SDMA_GEN_V4, &p,
                 "POLL_REGMEM WRITE_LINEAR CONST_FILL INDIRECT NOP ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v4),
        cmocka_unit_test(test_v6),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
