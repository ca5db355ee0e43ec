/* Kernel descriptors and AQL packets, word by word. Descriptors are typed in
 * from objects that LLVM 19 made: docs/hardware/amd-code.md, "Kernel
 * descriptor". AQL words are those of docs/hardware/amd-queues.md, "AQL". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"
#include "tests/golden/amd_words.h"

#define KD      0x7f0000100000ull
#define KERNARG 0x7f0000200000ull
#define IB      0x7f0000300000ull

/* add of three pointers, relocated: the code is 0x900 before it. */
static const uint32_t add_gfx942[16] = {
    0, 0, 24, 0, 0xfffff700, 0xffffffff, 0,      0,
    0, 0, 0,  1, 0x00af0040, 0x00000084, 0x0008, 0};
/* One with 272 bytes of scratch. */
static const uint32_t stack_gfx1100[16] = {
    0, 272, 12, 0, 0xfffffa80, 0xffffffff, 0,      0,
    0, 0,   0,  0, 0x60af0000, 0x0000009f, 0x0408, 0};

static void
test_descriptors(void **state)
{
    const struct amd_object_descriptor add = {
        .kernarg_bytes = 24,
        .entry_offset = (uint64_t)-0x900,
        .rsrc3 = 1,
        .rsrc1 = 0x00af0040,
        .rsrc2 = 0x84,
        .properties = (uint16_t)amd_pack_object_properties(
            (struct amd_object_properties){.kernarg_ptr = true}),
    };
    const struct amd_object_descriptor stack = {
        .private_segment_bytes = 272,
        .kernarg_bytes = 12,
        .entry_offset = (uint64_t)-0x580,
        .rsrc1 = 0x60af0000,
        .rsrc2 = 0x9f,
        .properties = (uint16_t)amd_pack_object_properties((
            struct amd_object_properties){.kernarg_ptr = true, .wave32 = true}),
    };

    (void)state;
    assert_memory_equal(&add, add_gfx942, 64);
    assert_memory_equal(&stack, stack_gfx1100, 64);
}

/* The registers that a descriptor has the values of. */
static void
test_registers(void **state)
{
    struct amd_pm4_rsrc1 rsrc1 =
        amd_unpack_pm4_rsrc1(AMD_PM4_GEN_GFX11, stack_gfx1100[12]);
    struct amd_pm4_rsrc2 rsrc2 =
        amd_unpack_pm4_rsrc2(AMD_PM4_GEN_GFX11, stack_gfx1100[13]);

    (void)state;
    assert_int_equal(rsrc1.vgprs, 0);
    assert_int_equal(rsrc1.sgprs, 0);
    assert_int_equal(rsrc1.float_mode, 0xf0);
    assert_true(rsrc1.dx10_clamp && rsrc1.ieee_mode);
    assert_true(rsrc1.wgp_mode && rsrc1.mem_ordered && !rsrc1.fwd_progress);
    assert_true(rsrc2.scratch_en);
    assert_int_equal(rsrc2.user_sgpr, 15);
    assert_true(rsrc2.tgid_x_en && !rsrc2.tgid_y_en && !rsrc2.tgid_z_en);
    assert_int_equal(rsrc2.lds_size, 0);
    rsrc1 = amd_unpack_pm4_rsrc1(AMD_PM4_GEN_GFX9, add_gfx942[12]);
    rsrc2 = amd_unpack_pm4_rsrc2(AMD_PM4_GEN_GFX9, add_gfx942[13]);
    assert_int_equal(rsrc1.sgprs, 1);
    assert_int_equal(rsrc2.user_sgpr, 2);
    assert_true(rsrc2.tgid_x_en);
}

static uint32_t
pack_header(enum amd_object_aql_type type, uint32_t setup)
{
    return amd_pack_object_aql_header((struct amd_object_aql_header){
        .type = type,
        .barrier = true,
        .acquire = AMD_OBJECT_FENCE_SCOPE_SYSTEM,
        .release = AMD_OBJECT_FENCE_SCOPE_SYSTEM,
        .setup = setup,
    });
}

static void
test_headers(void **state)
{
    (void)state;
    assert_int_equal(pack_header(AMD_OBJECT_AQL_TYPE_VENDOR, 0), 0x1500);
    assert_int_equal(pack_header(AMD_OBJECT_AQL_TYPE_KERNEL_DISPATCH, 0),
                     0x1502);
}

static void
test_dispatch(void **state)
{
    static const uint32_t want[16] = {
        0x00031502, 0x00010100, 0x00000001, 16384,      2, 1,
        272,        1024,       0x00100000, 0x00007f00, //
        0x00200000, 0x00007f00, 0,          0,          0, 0};
    const struct amd_object_aql_dispatch packet = {
        .header = pack_header(AMD_OBJECT_AQL_TYPE_KERNEL_DISPATCH, 3),
        .wg_x = 256,
        .wg_y = 1,
        .wg_z = 1,
        .grid_x = 64 * 256,
        .grid_y = 2,
        .grid_z = 1,
        .private_bytes = 272,
        .group_bytes = 1024,
        .kernel_object = KD,
        .kernarg = KERNARG,
    };

    (void)state;
    assert_memory_equal(&packet, want, sizeof(want));
}

static void
test_vendor(void **state)
{
    static const uint32_t want[16] = {0x00011500, 0xc0023f00, 0x00300000,
                                      0x00007f00, 0x00800123, 10};
    struct amd_object_aql_pm4 packet = {
        .header = pack_header(AMD_OBJECT_AQL_TYPE_VENDOR, 1),
        .dw_count_remain = 10,
    };

    (void)state;
    amd_pack_pm4_indirect_buffer(AMD_PM4_GEN_GFX9,
                                 (struct amd_pm4_indirect_buffer){
                                     .base = IB, .size = 0x123, .valid = true},
                                 packet.indirect_buffer);
    assert_memory_equal(&packet, want, sizeof(want));
}

struct lines {
    char text[1024];
};

static void
add_line(void *user, const char *line)
{
    struct lines *lines = user;

    assert_true(strlen(lines->text) + strlen(line) + 2 < sizeof(lines->text));
    strcat(lines->text, line);
    strcat(lines->text, "\n");
}

static void
test_text(void **state)
{
    struct lines lines = {""};

    (void)state;
    regs_decode_block(regs_by_name(&amd_object_unit, "KERNEL_DESCRIPTOR"), 0,
                      stack_gfx1100, add_line, &lines);
    assert_string_equal(lines.text, "  PRIVATE_SEGMENT_BYTES = 272\n"
                                    "  KERNARG_BYTES = 12\n"
                                    "  ENTRY_OFFSET = 0xfffffffffffffa80\n"
                                    "  RSRC1 = 0x60af0000\n"
                                    "  RSRC2 = 0x9f\n"
                                    "  PROPERTIES = 0x408\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors), cmocka_unit_test(test_registers),
        cmocka_unit_test(test_headers),     cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_vendor),      cmocka_unit_test(test_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
