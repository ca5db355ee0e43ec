/* hcq/cpu/cpu_reloc.c: what each relocation writes, for the processor that this
 * is and for the other kind alike.
 *
 * The words of AArch64 are those that GNU ld 2.40 wrote for the same places and
 * addresses.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/cpu/cpu_reloc.h"

#define NEAR  0x12345ab0u
#define FAR   0x23456ab0u
#define BACK  0x10000010u
#define BACK2 0x11fff000u
#define SMALL 0xbeefu
#define MID   0x89abcdefu
#define MID2  0x7654fedc3210u
#define BIG   0xfedcba9876543210u

static const struct {
    uint32_t place, type;
    uint64_t target;
    uint32_t before, after;
} words[] = {
    {0x12345000, R_AARCH64_ADR_PREL_LO21, NEAR, 0x10000003, 0x10005583},
    {0x12345004, R_AARCH64_LD_PREL_LO19, NEAR, 0x58000003, 0x58005563},
    {0x12345008, R_AARCH64_ADR_PREL_PG_HI21, FAR, 0x90000003, 0xb0088883},
    {0x1234500c, R_AARCH64_ADD_ABS_LO12_NC, FAR, 0x91000063, 0x912ac063},
    {0x12345010, R_AARCH64_LDST8_ABS_LO12_NC, FAR, 0x39400063, 0x396ac063},
    {0x12345014, R_AARCH64_LDST16_ABS_LO12_NC, FAR, 0x79400063, 0x79556063},
    {0x12345018, R_AARCH64_LDST32_ABS_LO12_NC, FAR, 0xb9400063, 0xb94ab063},
    {0x1234501c, R_AARCH64_LDST64_ABS_LO12_NC, FAR, 0xf9400063, 0xf9455863},
    {0x12345020, R_AARCH64_LDST128_ABS_LO12_NC, FAR, 0x3dc00063, 0x3dc2ac63},
    {0x12345024, R_AARCH64_TSTBR14, NEAR, 0xb6080003, 0xb6085463},
    {0x12345028, R_AARCH64_CONDBR19, NEAR, 0x54000001, 0x54005441},
    {0x1234502c, R_AARCH64_JUMP26, NEAR, 0x14000000, 0x140002a1},
    {0x12345030, R_AARCH64_CALL26, NEAR, 0x94000000, 0x940002a0},
    {0x12345034, R_AARCH64_MOVW_UABS_G0, SMALL, 0xd2800003, 0xd297dde3},
    {0x12345038, R_AARCH64_MOVW_UABS_G0_NC, BIG, 0xf2800003, 0xf2864203},
    {0x1234503c, R_AARCH64_MOVW_UABS_G1, MID, 0xd2a00003, 0xd2b13563},
    {0x12345040, R_AARCH64_MOVW_UABS_G1_NC, BIG, 0xf2a00003, 0xf2aeca83},
    {0x12345044, R_AARCH64_MOVW_UABS_G2, MID2, 0xd2c00003, 0xd2ceca83},
    {0x12345048, R_AARCH64_MOVW_UABS_G2_NC, BIG, 0xf2c00003, 0xf2d75303},
    {0x1234504c, R_AARCH64_MOVW_UABS_G3, BIG, 0xf2e00003, 0xf2ffdb83},
    {0x12345050, R_AARCH64_ADR_PREL_LO21, NEAR + 2, 0x10000003, 0x50005303},
    {0x12345054, R_AARCH64_ADR_PREL_PG_HI21, BACK, 0x90000003, 0xf0fee5c3},
    {0x12345058, R_AARCH64_JUMP26, BACK2, 0x14000000, 0x17f2e7ea},
    {0x1234505c, R_AARCH64_ADR_PREL_PG_HI21_NC, FAR, 0x90000005, 0xb0088885},
    {0x12345060, R_AARCH64_PREL32, NEAR, 0, 0xa50},
    {0x1234506c, R_AARCH64_ABS32, FAR, 0, FAR},
    /* through a slot at that address */
    {0x12345008, R_AARCH64_ADR_GOT_PAGE, FAR, 0x90000003, 0xb0088883},
    {0x1234501c, R_AARCH64_LD64_GOT_LO12_NC, FAR, 0xf9400063, 0xf9455863},
    {0x12345004, R_AARCH64_GOT_LD_PREL19, NEAR, 0x58000003, 0x58005563},
    {0x12345060, 314 /* PLT32 */, NEAR, 0, 0xa50},
};

/* The field's earlier content does not count, and nothing else changes. */
static void
test_words(void **state)
{
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(words); i++) {
        const struct cpu_reloc *reloc =
            cpu_reloc_find(EM_AARCH64, words[i].type);
        uint32_t field = words[i].before ^ words[i].after;

        assert_non_null(reloc);
        for (k = 0; k < 2; k++) {
            uint32_t got[3] = {0x5a5a5a5a, words[i].before, 0x5a5a5a5a};

            if (k)
                got[1] ^= field;
            if (!cpu_reloc_apply(reloc, (uint8_t *)&got[1], words[i].place,
                                 words[i].target) ||
                got[1] != words[i].after || got[0] != 0x5a5a5a5a ||
                got[2] != 0x5a5a5a5a)
                fail_msg("row %zu, type %u: 0x%08x, not 0x%08x", i,
                         words[i].type, got[1], words[i].after);
        }
    }
}

#define AT 0x123456000u

/* The last that fits, and the first that does not. */
static const struct {
    unsigned machine;
    uint32_t type;
    uint64_t good, bad;
} borders[] = {
    {EM_X86_64, R_X86_64_PC32, AT + INT32_MAX, AT + (1u << 31)},
    {EM_X86_64, R_X86_64_PLT32, AT - (1u << 31), AT - (1u << 31) - 1},
    {EM_X86_64, R_X86_64_GOTPCREL, AT + INT32_MAX, AT + (1u << 31)},
    {EM_X86_64, R_X86_64_32, UINT32_MAX, 1ull << 32},
    {EM_X86_64, R_X86_64_32S, UINT64_MAX << 31, (UINT64_MAX << 31) - 1},
    {EM_AARCH64, R_AARCH64_CALL26, AT + (128u << 20) - 4, AT + (128u << 20)},
    {EM_AARCH64, R_AARCH64_CALL26, AT - (128u << 20), AT - (128u << 20) - 4},
    {EM_AARCH64, R_AARCH64_JUMP26, AT + 4, AT + 2},
    {EM_AARCH64, R_AARCH64_CONDBR19, AT + (1u << 20) - 4, AT + (1u << 20)},
    {EM_AARCH64, R_AARCH64_CONDBR19, AT - (1u << 20), AT - (1u << 20) - 4},
    {EM_AARCH64, R_AARCH64_LD_PREL_LO19, AT + 8, AT + 7},
    {EM_AARCH64, R_AARCH64_TSTBR14, AT + 32764, AT + 32768},
    {EM_AARCH64, R_AARCH64_TSTBR14, AT - 32768, AT - 32772},
    {EM_AARCH64, R_AARCH64_ADR_PREL_LO21, AT + (1u << 20) - 1, AT + (1u << 20)},
    {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, AT + 0xffffffffu,
     AT + 0x100000000u},
    {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, AT - 0x100000000u,
     AT - 0x100000001u},
    {EM_AARCH64, R_AARCH64_ADR_GOT_PAGE, AT + 0xffffffffu, AT + 0x100000000u},
    {EM_AARCH64, R_AARCH64_LDST16_ABS_LO12_NC, AT + 2, AT + 1},
    {EM_AARCH64, R_AARCH64_LDST32_ABS_LO12_NC, AT + 4, AT + 6},
    {EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, AT + 0xff8, AT + 0xff4},
    {EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, AT + 0xff0, AT + 0xff8},
    {EM_AARCH64, R_AARCH64_LD64_GOT_LO12_NC, AT + 8, AT + 12},
    {EM_AARCH64, R_AARCH64_ABS32, UINT32_MAX, 1ull << 32},
    {EM_AARCH64, R_AARCH64_ABS32, UINT64_MAX << 31, (UINT64_MAX << 31) - 1},
    {EM_AARCH64, R_AARCH64_ABS16, 0xffff, 0x10000},
    {EM_AARCH64, R_AARCH64_PREL32, AT + UINT32_MAX, AT + (1ull << 32)},
    {EM_AARCH64, R_AARCH64_PREL32, AT - (1u << 31), AT - (1u << 31) - 1},
    {EM_AARCH64, R_AARCH64_PREL16, AT + 0xffff, AT + 0x10000},
    {EM_AARCH64, 314 /* PLT32 */, AT + INT32_MAX, AT + (1u << 31)},
    {EM_AARCH64, R_AARCH64_MOVW_UABS_G0, 0xffff, 0x10000},
    {EM_AARCH64, R_AARCH64_MOVW_UABS_G1, UINT32_MAX, 1ull << 32},
    {EM_AARCH64, R_AARCH64_MOVW_UABS_G2, (1ull << 48) - 1, 1ull << 48},
};

static void
test_borders(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(borders); i++) {
        const struct cpu_reloc *reloc =
            cpu_reloc_find(borders[i].machine, borders[i].type);
        uint8_t place[8] = {0}, before[8];

        assert_non_null(reloc);
        if (!cpu_reloc_apply(reloc, place, AT, borders[i].good))
            fail_msg("row %zu: the last one is refused", i);
        memcpy(before, place, sizeof(place));
        if (cpu_reloc_apply(reloc, place, AT, borders[i].bad))
            fail_msg("row %zu: the first one beyond is taken", i);
        assert_memory_equal(before, place, sizeof(place));
    }
}

/* As many bytes as the type has, little-endian. */
static void
test_data(void **state)
{
    static const struct {
        unsigned machine;
        uint32_t type, n_bytes;
        bool is_relative;
    } rows[] = {
        {EM_X86_64, R_X86_64_64, 8, false},
        {EM_X86_64, R_X86_64_PC64, 8, true},
        {EM_X86_64, R_X86_64_PC32, 4, true},
        {EM_X86_64, R_X86_64_REX_GOTPCRELX, 4, true},
        {EM_AARCH64, R_AARCH64_ABS64, 8, false},
        {EM_AARCH64, R_AARCH64_PREL64, 8, true},
        {EM_AARCH64, R_AARCH64_PREL32, 4, true},
        {EM_AARCH64, R_AARCH64_PREL16, 2, true},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t target = AT + 0x1234,
                 want = rows[i].is_relative ? 0x1234 : target;
        uint8_t place[12];

        memset(place, 0x5a, sizeof(place));
        assert_true(cpu_reloc_apply(
            cpu_reloc_find(rows[i].machine, rows[i].type), place, AT, target));
        assert_memory_equal(place, &want, rows[i].n_bytes);
        assert_int_equal(place[rows[i].n_bytes], 0x5a);
    }
}

static void
test_find(void **state)
{
    uint8_t place[4] = {1, 2, 3, 4};

    (void)state;
    assert_null(cpu_reloc_find(EM_X86_64, R_X86_64_TPOFF32));
    assert_null(cpu_reloc_find(EM_AARCH64, R_AARCH64_TLSLE_ADD_TPREL_LO12));
    assert_null(cpu_reloc_find(EM_RISCV, 0));
    assert_int_equal(cpu_reloc_find(EM_X86_64, R_X86_64_NONE)->field,
                     CPU_RELOC_NOTHING);
    assert_true(cpu_reloc_apply(cpu_reloc_find(EM_AARCH64, R_AARCH64_NONE),
                                place, 0, 77));
    assert_memory_equal(place, ((uint8_t[4]){1, 2, 3, 4}), 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_find),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
