/* ioctl/kio_desc and nv_abi: branches, layouts and their conversion, and all
 * tables against tests/headers/nvidia-structs.csv.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "ioctl/amdkfd_tables.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/kio_desc.h"
#include "ioctl/msm_uapi.h"
#include "ioctl/nv_abi.h"
#include "ioctl/nv_tables.h"
#include "ioctl/nv_uapi.h"
#include "ioctl/qcom_uapi.h"

/* ---- branches --------------------------------------------------------- */

static void
test_versions(void **state)
{
    static const struct {
        const char *text;
        uint32_t major, branch;
        const char *version;
    } good[] = {
        {"580.159.03", 580, 8, "580.159.03"},
        {"535.183", 535, 0, "535.183"},
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue "
         "Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 12.2.0\n",
         550, 2, "550.163.01"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.195.03"
         "  Release Build  (builder)  Sat Sep 20 00:21:24 UTC 2025\n",
         570, 6, "570.195.03"},
        {"590.48", 590, 9, "590.48"},
        {"595.45.04", 595, 10, "595.45.04"},
        {"610.43.03", 610, 11, "610.43.03"},
        {"545.29.06", 545, 1, "545.29.06"},
        {"555.58.02", 555, 3, "555.58.02"},
        {"560.35.05", 560, 4, "560.35.05"},
        {"565.77", 565, 5, "565.77"},
        {"575.64.05", 575, 7, "575.64.05"},
    };
    struct nv_abi abi;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(nv_abi_parse(good[i].text, &abi), BELL_OK);
        assert_int_equal(abi.major, good[i].major);
        assert_int_equal(abi.branch, good[i].branch);
        assert_string_equal(abi.version, good[i].version);
    }
    /* one that just fits, and one that is cut */
    assert_int_equal(nv_abi_parse("580.1234567890.1234567890.12345", &abi),
                     BELL_OK);
    assert_string_equal(abi.version, "580.1234567890.1234567890.12345");
    assert_int_equal(nv_abi_parse("580.1234567890.1234567890.123456", &abi),
                     BELL_OK);
    assert_string_equal(abi.version, "580.1234567890.1234567890.12345");
    assert_int_equal(nv_abi_parse("620.06.00", &abi), BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "620.06.00"));
    assert_non_null(strstr(
        bell_error_last()->message,
        "535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595, 610. BELL_NV"));
    assert_non_null(strstr(bell_error_last()->message, "BELL_NV_BRANCH"));
    assert_int_equal(nv_abi_parse("530.41.03", &abi), BELL_E_UNSUPPORTED);
    assert_int_equal(nv_abi_parse("no version", &abi), BELL_E_UNSUPPORTED);
    assert_int_equal(nv_abi_parse("", &abi), BELL_E_UNSUPPORTED);
}

static void
test_forced(void **state)
{
    struct nv_abi abi;
    struct kio *kio;

    (void)state;
    assert_int_equal(kio_sys_create(&kio), BELL_OK);
    setenv("BELL_NV_BRANCH", "570", 1);
    assert_int_equal(nv_abi_detect(kio, &abi), BELL_OK);
    assert_int_equal(abi.branch, 6);
    assert_true(abi.forced);
    assert_int_equal(kio->branch, 6);
    setenv("BELL_NV_BRANCH", "571", 1);
    assert_int_equal(nv_abi_detect(kio, &abi), BELL_E_INVALID);
    setenv("BELL_NV_BRANCH", "570x", 1);
    assert_int_equal(nv_abi_detect(kio, &abi), BELL_E_INVALID);
    unsetenv("BELL_NV_BRANCH");
    kio_destroy(kio);
}

/* ---- layouts ---------------------------------------------------------- */

/* The layout breaks by branch, 535 to 610, as the vendor's headers have
 * them. */
static void
test_breaks(void **state)
{
    static const struct {
        uint32_t id, bytes[NV_BRANCH_NEWEST + 1];
    } rows[] = {
        {NV_S_NV_OS46, {56, 56, 56, 56, 56, 56, 56, 56, 64, 64, 64, 64}},
        {NV_S_NV_OS47, {40, 40, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48}},
        {NV_S_NV_CHANNEL_ALLOC,
         {360, 360, 360, 360, 360, 360, 368, 368, 368, 368, 368, 376}},
        {NV_S_NV_MEMORY_ALLOC,
         {120, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128}},
        {NV_S_NV_VASPACE_ALLOC,
         {48, 48, 48, 48, 48, 48, 48, 48, 56, 56, 56, 56}},
        {NV_S_NV0000_ALLOC,
         {108, 108, 108, 108, 108, 108, 120, 120, 120, 120, 120, 120}},
        {NV_S_NVA06C_GPFIFO_SCHEDULE, {2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3}},
        {NV_S_NV2080_GR_GET_INFO_V2,
         {448, 472, 472, 472, 472, 472, 488, 488, 488, 496, 496, 528}},
        {NV_S_NV2080_FB_GET_INFO_V2,
         {436, 444, 444, 444, 460, 460, 460, 460, 1028, 1028, 1028, 1028}},
        {NV_S_NV2080_GPU_GET_ENGINES_V2,
         {252, 256, 260, 260, 340, 340, 340, 340, 340, 340, 340, 340}},
        {NV_S_NV0080_GPU_GET_CLASSLIST_V2,
         {644, 644, 700, 404, 404, 404, 404, 404, 804, 804, 804, 804}},
        {NV_S_NV2080_CE_GET_ALL_CAPS,
         {68, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136}},
        {NV_S_NV0000_GPU_GET_PROBED_IDS,
         {256, 256, 256, 256, 256, 256, 256, 256, 384, 384, 384, 384}},
        {NV_S_NV0000_SYSTEM_GET_BUILD_VERSION_V2,
         {776, 776, 776, 776, 1032, 1032, 1032, 1032, 1032, 1032, 1032, 1032}},
        {NV_S_UVM_MAP_EXTERNAL_ALLOC,
         {1200, 1200, 9264, 9264, 9264, 9264, 9264, 9264, 9264, 9264, 9264,
          9264}},
        {NV_S_UVM_ALLOC_SEMAPHORE_POOL,
         {1184, 1184, 9248, 9248, 9248, 9248, 9248, 9248, 9248, 9248, 9248,
          9248}},
        {NV_S_UVM_FREE, {24, 24, 24, 24, 24, 24, 24, 24, 24, 16, 16, 16}},
        {NV_S_UVM_UNREGISTER_CHANNEL,
         {28, 28, 28, 28, 28, 28, 28, 28, 28, 12, 12, 12}},
        {NV_S_NV2080_GPU_GET_INFO_V2,
         {516, 524, 524, 524, 524, 524, 524, 532, 564, 564, 564, 580}},
        {NV_S_NV2080_GR_GET_GLOBAL_SM_ORDER,
         {6168, 6168, 6168, 6168, 6168, 6168, 6168, 7192, 9240, 9240, 9240,
          9240}},
        {NV_S_NV0080_GPU_GET_VIRTUALIZATION_MODE,
         {4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
        {NV_S_NV906F_RESET_CHANNEL,
         {12, 12, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16}},
        {NV_S_NV_EXPORT_TO_DMA_BUF_FD,
         {2600, 2600, 2600, 2600, 2600, 2600, 2608, 2608, 2608, 2608, 2608,
          2608}},
    };
    size_t i, b;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (b = 0; b <= NV_BRANCH_NEWEST; b++)
            assert_int_equal(nv_struct((uint32_t)b, rows[i].id)->size_bytes,
                             rows[i].bytes[b]);
    }
    assert_null(nv_struct(NV_BRANCH_NEWEST + 1, 0));
    assert_null(nv_struct(0, NV_S_COUNT));
}

static void
test_convert(void **state)
{
    struct nv_abi old = {.branch = 0}, now = {.branch = 8};
    struct nv_os46 newest = {.hClient = 1,
                             .hMemory = 2,
                             .length = 0x1000,
                             .flags = 0x8110,
                             .flags2 = 7,
                             .dmaOffset = 0x200000000,
                             .status = 5};
    struct nv_os46_535 wire;
    struct nv_os46 back;
    struct uvm_map_external_alloc map = {.base = 1 << 20, .hMemory = 9};
    static struct uvm_map_external_alloc_535 map_wire;
    uint64_t value;

    (void)state;
    assert_int_equal(nv_wire_bytes(&old, NV_S_NV_OS46), sizeof(wire));
    nv_wire_pack(&old, NV_S_NV_OS46, &newest, &wire);
    assert_int_equal(wire.hMemory, 2);
    assert_int_equal(wire.dmaOffset, 0x200000000);
    assert_int_equal(wire.status, 5);
    nv_wire_unpack(&old, NV_S_NV_OS46, &wire, &back);
    newest.flags2 = 0;
    assert_memory_equal(&back, &newest, sizeof(back));
    nv_wire_pack(&now, NV_S_NV_OS46, &newest, &back);
    assert_memory_equal(&back, &newest, sizeof(back));

    map.gpuAttributesCount = 2;
    map.perGpuAttributes[0].gpuUuid[15] = 3;
    map.perGpuAttributes[1].gpuMappingType = 1;
    nv_wire_pack(&old, NV_S_UVM_MAP_EXTERNAL_ALLOC, &map, &map_wire);
    assert_int_equal(map_wire.perGpuAttributes[0].gpuUuid[15], 3);
    assert_int_equal(map_wire.perGpuAttributes[1].gpuMappingType, 1);
    assert_int_equal(map_wire.gpuAttributesCount, 2);
    assert_int_equal(map_wire.hMemory, 9);

    value = kio_struct_get(nv_struct(0, NV_S_NV_OS46), &wire, sizeof(wire),
                           "dmaOffset");
    assert_int_equal(value, 0x200000000);
    assert_int_equal(kio_struct_get(nv_struct(0, NV_S_NV_OS46), &wire,
                                    sizeof(wire), "dmaOffsets"),
                     0);
    assert_false(kio_struct_put(nv_struct(0, NV_S_NV_OS46), &wire, sizeof(wire),
                                "flags2", 1));
    assert_true(kio_struct_put(nv_struct(0, NV_S_NV_OS46), &wire, sizeof(wire),
                               "flags", 1));
    assert_int_equal(wire.flags, 1);
    assert_true(kio_struct_put(nv_struct(0, NV_S_NV_OS46), &wire,
                               offsetof(struct nv_os46_535, dmaOffset) + 8,
                               "dmaOffset", 0x123456789abcdef0));
    assert_int_equal(wire.dmaOffset, 0x123456789abcdef0);
    assert_false(kio_struct_put(nv_struct(0, NV_S_NV_OS46), &wire,
                                offsetof(struct nv_os46_535, dmaOffset) + 7,
                                "dmaOffset", 0));
    assert_int_equal(wire.dmaOffset, 0x123456789abcdef0);
}

/* ---- calls ------------------------------------------------------------ */

static void
test_requests(void **state)
{
    struct kio_call_desc call;

    (void)state;
    assert_int_equal(nv_request(NV_ESC_RM_ALLOC, 48), 0xc030462b);
    assert_int_equal(nv_request(NV_ESC_RM_MAP_MEMORY_DMA, 64), 0xc0404657);
    kio_describe(KIO_DEV_NV_CTL, 3, 0xc030462b, &call);
    assert_string_equal(call.name, "NV_ESC_RM_ALLOC");
    assert_string_equal(call.args->name, "NVOS64_PARAMETERS");
    kio_describe(KIO_DEV_NV_CTL, 3, 0xc020462b, &call);
    assert_string_equal(call.args->name, "NVOS21_PARAMETERS");
    kio_describe(KIO_DEV_NV_CTL, 3, 0xc01046fe, &call);
    assert_false(call.known);
    assert_int_equal(call.size_bytes, 16);
    kio_describe(KIO_DEV_NV_UVM, 0, 33, &call);
    assert_string_equal(call.name, "UVM_MAP_EXTERNAL_ALLOCATION");
    assert_int_equal(call.size_bytes, 1200);
    kio_describe(KIO_DEV_NV_UVM, 5, 33, &call);
    assert_int_equal(call.size_bytes, 9264);
    kio_describe(KIO_DEV_KFD, 5, 0xc0104b02, &call);
    assert_int_equal(call.size_bytes, 16);
    assert_int_equal(kio_dev_of_path("/dev/nvidia0"), KIO_DEV_NV_GPU);
    assert_int_equal(kio_dev_of_path("/dev/nvidiactl"), KIO_DEV_NV_CTL);
    assert_int_equal(kio_dev_of_path("/dev/nvidia-uvm"), KIO_DEV_NV_UVM);
    assert_int_equal(kio_dev_of_path("/dev/nvidia-caps/x"), KIO_DEV_OTHER);
    assert_int_equal(kio_dev_of_path("/dev/dri/renderD128"), KIO_DEV_DRM);
    assert_int_equal(kio_dev_of_path("/dev/kfd"), KIO_DEV_KFD);
    assert_int_equal(kio_dev_of_path("/dev/kgsl-3d0"), KIO_DEV_KGSL);
    assert_int_equal(kio_dev_of_path("/etc/passwd"), KIO_DEV_OTHER);
}

static void
test_follow(void **state)
{
    struct nv_index_data list[3] = {{.index = 0xc}, {.index = 0xd}};
    struct nv2080_gr_get_info info = {.grInfoListSize = 3,
                                      .grInfoList = (uintptr_t)list};
    struct nv_os54 control = {
        .hClient = 0xc1d00001,
        .hObject = 0x5c000002,
        .cmd = NV2080_CTRL_CMD_GR_GET_INFO,
        .params = (uintptr_t)&info,
        .paramsSize = sizeof(info),
    };
    struct kio_capture capture;
    char text[512];
    size_t n, len;

    (void)state;
    kio_capture_init(&capture);
    assert_int_equal(
        kio_capture_call(&capture, KIO_DEV_NV_CTL, 3,
                         nv_request(NV_ESC_RM_CONTROL, sizeof(control)),
                         &control, NULL, NULL),
        BELL_OK);
    assert_int_equal(capture.n_blobs, 3);
    assert_string_equal(capture.blobs[1].name, "NV2080_CTRL_CMD_GR_GET_INFO");
    assert_int_equal(capture.blobs[2].size_bytes, sizeof(list));
    assert_int_equal(capture.blobs[2].parent, 1);
    assert_memory_equal(capture.blobs[2].data, list, sizeof(list));
    (void)kio_capture_format(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "NV_ESC_RM_CONTROL(hClient=0xc1d00001"));
    assert_non_null(strstr(text, "grInfoListSize=3"));
    assert_non_null(strstr(text, " | NVXXXX_CTRL_XXX_INFO: index=12)"));
    capture.blobs[2].desc = NULL; /* nobody knows what it is */
    (void)kio_capture_format(&capture, text, sizeof(text));
    assert_non_null(strstr(text, " | bytes: 24 bytes)"));
    for (n = 1; n < strlen(text) + 4; n++) { /* what there is room for */
        char cut[sizeof(text)];

        memset(cut, 'x', sizeof(cut));
        len = kio_capture_format(&capture, cut, n);
        assert_int_equal(len, strlen(cut));
        assert_int_equal(strlen(cut), n <= strlen(text) ? n - 1 : strlen(text));
        assert_memory_equal(cut, text, strlen(cut));
        assert_int_equal(cut[n], 'x');
    }
    kio_capture_fini(&capture);
}

/* ---- every number ------------------------------------------------------ */

struct rows {
    const struct kio_number *rows;
    uint32_t n_rows;
};

/* The first of a number that has a struct of that size on the branch, else the
 * first of that number; or NULL. */
static const struct kio_number *
model_row(const struct rows *of, const struct kio_structs *structs,
          uint32_t branch, uint64_t number, uint32_t size_bytes)
{
    const struct kio_number *found = NULL;
    uint32_t i;

    for (i = of->n_rows; i-- > 0;) {
        if (of->rows[i].number == number)
            found = &of->rows[i];
    }
    for (i = of->n_rows; i-- > 0;) {
        const struct kio_struct *desc =
            kio_struct_of(structs, of->rows[i].struct_id, branch);
        if (of->rows[i].number == number && desc &&
            desc->size_bytes == size_bytes)
            found = &of->rows[i];
    }
    return found;
}

static void
check_describe(enum kio_dev dev, const struct rows *of,
               const struct kio_structs *structs, uint32_t branch,
               uint64_t request, uint64_t number, const char *other)
{
    bool is_uvm = dev == KIO_DEV_NV_UVM;
    bool is_nv = dev == KIO_DEV_NV_CTL || dev == KIO_DEV_NV_GPU;
    uint32_t size_bytes = is_uvm ? 0 : request >> 16 & 0x3fff;
    const struct kio_number *row =
        of ? model_row(of, structs, branch, number, is_nv ? size_bytes : 0)
           : NULL;
    struct kio_call_desc call;

    kio_describe(dev, branch, request, &call);
    assert_int_equal(call.known, row != NULL);
    assert_string_equal(call.name, row ? row->name : other);
    assert_ptr_equal(
        call.args, row ? kio_struct_of(structs, row->struct_id, branch) : NULL);
    if (is_uvm && call.args)
        size_bytes = call.args->size_bytes;
    assert_int_equal(call.size_bytes, size_bytes);
}

static void
test_every_number(void **state)
{
    const struct rows escapes = {nv_escape_rows, nv_n_escape_rows};
    const struct rows uvm = {nv_uvm_rows, nv_n_uvm_rows};
    const struct rows kfd = {amdkfd_kfd_rows, amdkfd_n_kfd_rows};
    const struct rows drm = {amdkfd_drm_rows, amdkfd_n_drm_rows};
    const struct {
        enum kio_dev dev;
        const struct rows *rows;
        uint32_t type;
        const char *name;
    } devs[] = {
        {KIO_DEV_NV_CTL, &escapes, 0x46, "NV_ESC"},
        {KIO_DEV_NV_GPU, &escapes, 0x46, "NV_ESC"},
        {KIO_DEV_KFD, &kfd, 0x4b, "AMDKFD_IOC"},
        {KIO_DEV_DRM, &drm, 0x64, "DRM_IOCTL"},
        {KIO_DEV_KGSL, NULL, 0x9, "IOCTL_KGSL"},
        {KIO_DEV_OTHER, NULL, 0x46, "ioctl"},
    };
    uint32_t branch, number, i, k;

    (void)state;
    for (branch = 0; branch <= NV_BRANCH_NEWEST; branch++) {
        for (i = 0; i < ARRAY_LEN(devs); i++) {
            const struct kio_structs *structs =
                devs[i].rows == &escapes ? &nv_structs : &amdkfd_structs;
            uint32_t of = structs == &nv_structs ? branch : 0;

            for (number = 0; number < 256; number++) {
                uint32_t base = devs[i].type << 8 | number;

                check_describe(devs[i].dev, devs[i].rows, structs, of,
                               base | 0xc0000000u, number, devs[i].name);
                check_describe(devs[i].dev, devs[i].rows, structs, of,
                               base | 0xffff0000u, number, devs[i].name);
                /* another's request */
                check_describe(devs[i].dev, NULL, structs, of,
                               base ^ 0xc0181f00u, number, devs[i].name);
                for (k = 0; devs[i].rows && k < devs[i].rows->n_rows; k++) {
                    const struct kio_number *row = &devs[i].rows->rows[k];
                    const struct kio_struct *desc =
                        kio_struct_of(structs, row->struct_id, of);
                    if (row->number == number && desc)
                        check_describe(devs[i].dev, devs[i].rows, structs, of,
                                       base | desc->size_bytes << 16, number,
                                       devs[i].name);
                }
            }
        }
        for (i = 0; i < nv_n_uvm_rows; i++) {
            for (k = 0; k < 3; k++) {
                uint64_t n = nv_uvm_rows[i].number + k - 1;
                check_describe(KIO_DEV_NV_UVM, &uvm, &nv_structs, branch,
                               (uint32_t)n, (uint32_t)n, "UVM");
                check_describe(KIO_DEV_NV_UVM, &uvm, &nv_structs, branch,
                               1ull << 32 | (uint32_t)n,
                               1ull << 32 | (uint32_t)n, "UVM");
            }
        }
    }
}

/* Which layout a struct has on a branch, and which it has not. */
static void
test_layouts(void **state)
{
    const struct kio_struct descs[5] = {{"0"}, {"1"}, {"2"}, {"3"}, {"4"}};
    const struct kio_layouts layouts[2] = {{1, 0x8011, 0xfff3}, {4, 4, 4}};
    const struct kio_structs structs = {descs, layouts, 2};
    uint32_t b;

    (void)state;
    for (b = 0; b < 20; b++) {
        const struct kio_struct *want = b < 2     ? &descs[1]
                                        : b < 4   ? NULL
                                        : b < 15  ? &descs[2]
                                        : b == 15 ? &descs[3]
                                                  : NULL;
        assert_ptr_equal(kio_struct_of(&structs, 0, b), want);
        assert_ptr_equal(kio_struct_of(&structs, 1, b),
                         b == 2 ? &descs[4] : NULL);
        assert_null(kio_struct_of(&structs, -1, b));
        assert_null(kio_struct_of(&structs, 2, b));
    }
}

/* Fields by name from one layout to another: as many bytes as both have, of
 * arrays of structs as many elements, and of these fields of the same size. */
static void
test_convert_arrays(void **state)
{
#define FIELD(name_, at, size, each, kind_)                                    \
    {                                                                          \
        .name = name_, .offset_bytes = at, .size_bytes = size,                 \
        .each_bytes = each, .kind = kind_                                      \
    }
    static const struct kio_field from_fields[] = {
        FIELD("long", 0, 8, 8, KIO_FIELD_UINT),
        FIELD("short", 8, 2, 2, KIO_FIELD_UINT),
        FIELD("gone", 10, 2, 2, KIO_FIELD_UINT),
        FIELD("list", 12, 24, 8, KIO_FIELD_STRUCT),
        FIELD("list[0].a", 12, 4, 4, KIO_FIELD_UINT),
        FIELD("list[0].b", 16, 2, 2, KIO_FIELD_UINT),
        FIELD("list[0].c", 18, 2, 2, KIO_FIELD_UINT),
        FIELD("lists", 36, 4, 2, KIO_FIELD_STRUCT),
        FIELD("lists[0].a", 36, 2, 2, KIO_FIELD_UINT),
    };
    static const struct kio_field to_fields[] = {
        FIELD("short", 0, 4, 4, KIO_FIELD_UINT),
        FIELD("long", 4, 4, 4, KIO_FIELD_UINT),
        FIELD("list", 8, 24, 12, KIO_FIELD_STRUCT),
        FIELD("list[0].c", 8, 2, 2, KIO_FIELD_UINT),
        FIELD("list[0].b", 10, 4, 4, KIO_FIELD_UINT), /* of another size */
        FIELD("list[0].new", 14, 2, 2, KIO_FIELD_UINT),
        FIELD("list[0].a", 16, 4, 4, KIO_FIELD_UINT),
        FIELD("lists", 32, 6, 2, KIO_FIELD_STRUCT),
        FIELD("lists[0].a", 32, 2, 2, KIO_FIELD_UINT),
    };
#undef FIELD
    static const struct kio_struct from = {"from", from_fields, 40,
                                           ARRAY_LEN(from_fields)};
    static const struct kio_struct to = {"to", to_fields, 40,
                                         ARRAY_LEN(to_fields)};
    static const uint8_t want[40] = {9,  10, 0,  0,  1,  2,  3,  4,  19, 20,
                                     0,  0,  0,  0,  0,  0,  13, 14, 15, 16,
                                     27, 28, 0,  0,  0,  0,  0,  0,  21, 22,
                                     23, 24, 37, 38, 39, 40, 0,  0,  0,  0};
    uint8_t bytes[40], got[40];
    uint8_t i;

    (void)state;
    for (i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i + 1);
    memset(got, 0xcc, sizeof(got));
    kio_struct_convert(&from, bytes, &to, got);
    assert_memory_equal(got, want, sizeof(want));
    kio_struct_convert(&to, bytes, &to, got); /* with what no field has */
    assert_memory_equal(got, bytes, sizeof(bytes));
}

/* Arguments of an allocation that says no size have their struct's. */
static void
test_sizes_of_pointees(void **state)
{
    const struct kio_struct *alloc = nv_struct(NV_BRANCH_NEWEST, NV_S_NV_OS64);
    const struct kio_struct *inner =
        nv_struct(NV_BRANCH_NEWEST, NV_S_NV0000_ALLOC);
    const struct kio_field *field = kio_struct_field(alloc, "pAllocParms");
    struct nv_os64 data = {0};

    (void)state;
    assert_true(inner->size_bytes > 1);
    assert_int_equal(
        kio_pointee_bytes(alloc, field, &data, sizeof(data), inner),
        inner->size_bytes);
    assert_int_equal(kio_pointee_bytes(alloc, field, &data, sizeof(data), NULL),
                     0);
    data.paramsSize = 1;
    assert_int_equal(
        kio_pointee_bytes(alloc, field, &data, sizeof(data), inner), 1);
}

/* ---- text and differences --------------------------------------------- */

/* A field of each kind, and an array of structs that ends the table. */
struct sample {
    uint16_t small;
    uint8_t bytes[2], pad[4];
    uint64_t large;
    int32_t fd;
    uint32_t status;
    uint64_t ptr, clock;
    uint32_t words[10];
    char text[8];
    uint8_t blob[20];
    struct {
        uint32_t a;
        uint64_t b;
    } __attribute__((packed)) array[3];
} __attribute__((packed));

#define ROW(member, each, kind_)                                               \
    {                                                                          \
        .name = #member, .offset_bytes = offsetof(struct sample, member),      \
        .size_bytes = sizeof(((struct sample *)0)->member),                    \
        .each_bytes = each, .kind = kind_                                      \
    }

static const struct kio_field sample_fields[] = {
    ROW(small, 2, KIO_FIELD_UINT),      ROW(bytes, 1, KIO_FIELD_HEX),
    ROW(large, 8, KIO_FIELD_UINT),      ROW(fd, 4, KIO_FIELD_FD),
    ROW(status, 4, KIO_FIELD_STATUS),   ROW(ptr, 8, KIO_FIELD_PTR),
    ROW(clock, 8, KIO_FIELD_CLOCK),     ROW(words, 4, KIO_FIELD_HEX),
    ROW(text, 8, KIO_FIELD_TEXT),       ROW(blob, 20, KIO_FIELD_BYTES),
    ROW(array, 12, KIO_FIELD_STRUCT),   ROW(array[0].a, 4, KIO_FIELD_UINT),
    ROW(array[0].b, 8, KIO_FIELD_UINT),
};

static const struct kio_struct sample_desc = {
    "sample", sample_fields, sizeof(struct sample),
    sizeof(sample_fields) / sizeof(sample_fields[0])};

/* Fields of up to 8 bytes are numbers, and lie within what is given. */
static void
test_put(void **state)
{
    struct sample x = {0};
    const uint32_t end = offsetof(struct sample, large) + 8;

    (void)state;
    assert_true(kio_struct_put(&sample_desc, &x, end, "large", UINT64_MAX));
    assert_true(x.large == UINT64_MAX);
    assert_false(kio_struct_put(&sample_desc, &x, end - 1, "large", 1));
    assert_false(kio_struct_put(&sample_desc, &x, sizeof(x), "blob", 1));
    assert_false(kio_struct_put(&sample_desc, &x, sizeof(x), "nothing", 1));
    assert_true(x.large == UINT64_MAX);
    assert_int_equal(x.blob[0], 0);
    assert_int_equal(kio_struct_get(&sample_desc, &x, sizeof(x), "large"),
                     UINT64_MAX);
}

/* Numbers of every size at every place of a struct that ends anywhere: little
 * endian where all of it is there and it has up to 8 bytes, else 0; and what a
 * pointer beside it leads to has so many bytes. */
static void
test_every_end(void **state)
{
    uint8_t data[24], *exact;
    uint32_t at, each, end, i;

    (void)state;
    for (i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(0x81 + i * 5);
    for (each = 1; each <= 9; each++) {
        for (at = 0; at + each <= sizeof(data); at++) {
            const struct kio_pointee pointees[] = {
                {.each_bytes = 1, .length_field = 0},
                {.each_bytes = 3, .length_field = 0},
                {.each_bytes = 7, .length_field = KIO_NO_FIELD},
                {.each_bytes = 1, .select = KIO_SELECT_PINNED}};
            const struct kio_field fields[5] = {
                {.name = "n",
                 .offset_bytes = (uint16_t)at,
                 .size_bytes = (uint16_t)each,
                 .each_bytes = (uint16_t)each},
                {.name = "one", .ptr = 1, .size_bytes = 8},
                {.name = "three", .ptr = 2, .size_bytes = 8},
                {.name = "fixed", .ptr = 3, .size_bytes = 8},
                {.name = "pinned", .ptr = 4, .size_bytes = 8},
            };
            const struct kio_struct desc = {"s", fields, sizeof(data), 5,
                                            pointees};
            uint64_t want = 0;

            for (i = 0; i < each && each <= 8; i++)
                want |= (uint64_t)data[at + i] << 8 * i;
            for (end = at; end <= at + each + 1 && end <= sizeof(data); end++) {
                uint64_t n = end >= at + each ? want : 0;

                exact = malloc(end ? end : 1); /* a byte too far is seen */
                memcpy(exact, data, end);
                assert_int_equal(kio_struct_get(&desc, exact, end, "n"), n);
                assert_int_equal(
                    kio_pointee_bytes(&desc, &fields[1], exact, end, NULL), n);
                assert_int_equal(
                    kio_pointee_bytes(&desc, &fields[2], exact, end, &desc),
                    n * 3);
                assert_int_equal(
                    kio_pointee_bytes(&desc, &fields[3], exact, end, NULL), 7);
                assert_int_equal(
                    kio_pointee_bytes(&desc, &fields[4], exact, end, NULL), 0);
                free(exact);
            }
        }
    }
}

/* A control's parameters of every length that matters: cut at a MiB, as they
 * are below; of nothing there is none. A call that is cut off has no
 * pointers. */
static void
test_capture_lengths(void **state)
{
    static const uint32_t lengths[] = {
        0, 1, 7, 8, 9, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, UINT32_MAX};
    uint8_t *params = calloc(1, (1u << 20) + 1);
    size_t i;

    (void)state;
    for (i = 0; i < (1u << 20) + 1; i++)
        params[i] = (uint8_t)(i * 7 + i / 256);
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const struct nv_os54 control = {.cmd = 0x12345678,
                                        .params = (uintptr_t)params,
                                        .paramsSize = lengths[i]};
        uint32_t want = lengths[i] < 1u << 20 ? lengths[i] : 1u << 20;
        struct kio_capture capture;
        int again;

        memset(&capture, 0xff, sizeof(capture)); /* whatever was there */
        kio_capture_init(&capture);
        for (again = 0; again < 2; again++) { /* into the same memory */
            assert_int_equal(
                kio_capture_call(&capture, KIO_DEV_NV_CTL, 0,
                                 nv_request(NV_ESC_RM_CONTROL, sizeof(control)),
                                 &control, NULL, NULL),
                BELL_OK);
            assert_int_equal(capture.n_blobs, want ? 2 : 1);
            assert_int_equal(capture.blobs[0].size_bytes, sizeof(control));
            assert_memory_equal(capture.blobs[0].data, &control,
                                sizeof(control));
            if (!want)
                continue;
            assert_int_equal(capture.blobs[1].size_bytes, want);
            assert_int_equal(capture.blobs[1].parent, 0);
            assert_int_equal(capture.blobs[1].addr, (uintptr_t)params);
            assert_int_equal(capture.blobs[1].field_offset_bytes,
                             offsetof(struct nv_os54, params));
            assert_memory_equal(capture.blobs[1].data, params, want);
        }
        kio_capture_fini(&capture);
    }
    free(params);
}

/* Every number that has a name has one of its own; others have none. */
static void
test_names_of_numbers(void **state)
{
    static const uint32_t others[] = {0x12345678, 0xffffffff, 1};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_null(nv_control_name(others[i]));
        assert_string_equal(nv_status_name(0x70000000 + others[i]), "");
    }
    assert_null(nv_class_name(0x12345678));
    assert_string_equal(nv_class_name(0xcbc0), "HOPPER_COMPUTE_A");
    assert_string_equal(nv_control_name(NV2080_CTRL_CMD_GR_GET_INFO),
                        "NV2080_CTRL_CMD_GR_GET_INFO");
    assert_string_equal(nv_status_name(0x10006), "WARN_NOTHING_TO_DO");
    assert_string_equal(nv_status_name(0x51), "NO_MEMORY");
}

static void
expect_text(const struct sample *sample, uint32_t size_bytes, const char *want)
{
    char text[256];
    size_t n = kio_struct_format(&sample_desc, sample, size_bytes, text,
                                 sizeof(text)),
           room;

    assert_string_equal(text, want);
    assert_int_equal(n, strlen(want));
    for (room = 1; room <= n; room++) {
        char cut[256];
        memset(cut, '?', sizeof(cut));
        assert_int_equal(
            kio_struct_format(&sample_desc, sample, size_bytes, cut, room),
            room - 1);
        assert_memory_equal(cut, want, room - 1);
        assert_int_equal(cut[room - 1], '\0');
        assert_int_equal(cut[room], '?');
    }
}

static void
test_text(void **state)
{
    struct sample s = {.small = 7};
    unsigned i;

    (void)state;
    expect_text(&(struct sample){0}, sizeof(s), "");
    expect_text(&s, sizeof(s), "small=7");
    expect_text(&s, 2, "small=7");
    expect_text(&s, 1, "");
    s = (struct sample){.large = 0xffff, .fd = -1, .status = 0x51};
    expect_text(&s, sizeof(s), "large=65535 fd=-1 status=0x51");
    expect_text(&s, offsetof(struct sample, status), "large=65535 fd=-1");
    s = (struct sample){.large = 0x10000, .bytes = {0, 0xab}};
    expect_text(&s, sizeof(s), "bytes=00ab large=0x10000");
    s = (struct sample){.ptr = 0x1234567890, .text = "eight!!!"};
    expect_text(&s, sizeof(s), "ptr=0x1234567890 text=\"eight!!!\"");
    s = (struct sample){.clock = 4711};
    expect_text(&s, sizeof(s), "clock=4711");
    s = (struct sample){.blob = {[15] = 15, [16] = 16}};
    expect_text(&s, sizeof(s), "blob=0000000000000000000000000000000f...");
    s = (struct sample){.words = {1, 2, [7] = 8, [8] = 9}};
    expect_text(&s, sizeof(s), "words=[0x1,0x2,0x0,0x0,0x0,0x0,0x0,0x8,...]");
    s = (struct sample){.array = {{1, 2}, {3, 4}}};
    expect_text(&s, sizeof(s), "array[0].a=1 array[0].b=2");
    for (i = 0; i < 20; i++)
        s.blob[i] = 0xff;
    expect_text(&s, offsetof(struct sample, array),
                "blob=ffffffffffffffffffffffffffffffff...");
}

static void
note_difference(void *user, const char *field, uint64_t a, uint64_t b)
{
    char *text = user;

    sprintf(text + strlen(text), "%s:%llx,%llx ", field, (unsigned long long)a,
            (unsigned long long)b);
}

static void
expect_diff(const struct kio_struct *desc, const void *a, const void *b,
            uint32_t size_bytes, uint32_t flags, const char *want)
{
    char text[1024] = "";
    uint32_t n = 0, found;
    const char *at;

    found =
        kio_struct_diff(desc, a, b, size_bytes, flags, note_difference, text);
    assert_string_equal(text, want);
    for (at = want; (at = strchr(at, ' ')) != NULL; at++)
        n++;
    assert_int_equal(found, n);
}

/* msm's GET_PARAM gives many things in one field: it is a clock where the
 * parameter is one, of both; to somebody who asks for everything, a number. */
static void
test_clock_by_another(void **state)
{
    struct kio_call_desc call;
    struct drm_msm_param a = {.param = MSM_PARAM_TIMESTAMP, .value = 5}, b = a;

    (void)state;
    kio_describe(KIO_DEV_DRM, 0, DRM_IOCTL_MSM_GET_PARAM, &call);
    assert_non_null(call.args);
    b.value = 7;
    expect_diff(call.args, &a, &b, sizeof(a), KIO_DIFF_ANSWER, "");
    expect_diff(call.args, &a, &b, sizeof(a), KIO_DIFF_REQUEST, "");
    expect_diff(call.args, &a, &b, sizeof(a), 0, "value:5,7 ");
    b.param = MSM_PARAM_FAULTS;
    expect_diff(call.args, &a, &b, sizeof(a), KIO_DIFF_ANSWER,
                "param:5,9 value:5,7 ");
    a.param = MSM_PARAM_FAULTS;
    expect_diff(call.args, &a, &b, sizeof(a), KIO_DIFF_ANSWER, "value:5,7 ");
}

static void
test_differences(void **state)
{
    struct {
        struct sample s;
        uint8_t more[4];
    } x, y;
    struct kio_struct cut = sample_desc;

    (void)state;
    memset(&x, 0x11, sizeof(x));
    y = x;
    expect_diff(&sample_desc, &x, &y, sizeof(x), 0, "");
    y.s.pad[1] = 2; /* what no field covers, within the struct */
    expect_diff(&sample_desc, &x, &y, sizeof(x), 0, "");
    y.s.small = 3;
    y.s.bytes[1] = 4;
    y.s.words[9] = 5;
    expect_diff(&sample_desc, &x, &y, sizeof(x), 0,
                "small:1111,3 bytes[1]:11,4 words[9]:11111111,5 ");
    expect_diff(&sample_desc, &x, &y, 3, 0, "small:1111,3 ");
    expect_diff(&sample_desc, &x, &y, 4, 0, "small:1111,3 bytes[1]:11,4 ");
    expect_diff(NULL, &x, &y, 4, 0, "+0x0:11,3 +0x1:11,0 +0x3:11,4 ");
    cut.n_fields = 1; /* nor is what lies behind the last field */
    expect_diff(&cut, &x, &y, sizeof(x.s), 0, "small:1111,3 ");
    y.more[0] = 6;
    expect_diff(&cut, &x, &y, sizeof(x), 0, "small:1111,3 +0x90:11,6 ");
    expect_diff(&cut, &x, &y, 4, 0, "small:1111,3 ");

    y = x;
    y.s.status = 6;
    y.s.ptr = 0x100000000;
    y.s.clock = 7;
    expect_diff(&sample_desc, &x, &y, sizeof(x), 0,
                "status:11111111,6 ptr:1111111111111111,100000000 "
                "clock:1111111111111111,7 ");
    expect_diff(&sample_desc, &x, &y, sizeof(x), KIO_DIFF_ANSWER,
                "status:11111111,6 ");
    expect_diff(&sample_desc, &x, &y, sizeof(x), KIO_DIFF_REQUEST, "");
    y.s.ptr = 0;
    expect_diff(&sample_desc, &x, &y, sizeof(x), KIO_DIFF_REQUEST,
                "ptr:1111111111111111,0 ");

    y = x;
    y.s.array[0].b = 1;
    y.s.array[2].a = 2;
    y.more[3] = 3;
    expect_diff(&sample_desc, &x, &y, sizeof(x), 0,
                "array[0].b:1111111111111111,1 array[2].a:11111111,2 "
                "+0x93:11,3 ");
    expect_diff(&sample_desc, &x, &y, sizeof(x.s), 0,
                "array[0].b:1111111111111111,1 array[2].a:11111111,2 ");
}

/* ---- against the headers ---------------------------------------------- */

/* One field of a comma-separated line with quotes; *at moves behind it. */
static void
next_column(char **at, char *out, size_t out_bytes)
{
    char *p = *at;
    size_t n = 0;
    int quoted = *p == '"';

    p += quoted;
    while (*p && *p != '\n' && (quoted ? *p != '"' : *p != ',')) {
        if (n + 1 < out_bytes)
            out[n++] = *p;
        p++;
    }
    p += quoted && *p == '"';
    *at = *p == ',' ? p + 1 : p;
    out[n] = '\0';
}

/* A row's offset and size on one branch; 0 when it is absent there. */
static int
row_on_branch(const char *notes, const char *offset, const char *size,
              const char *branch, unsigned *out_offset, unsigned *out_size)
{
    char key[16];
    const char *p;

    snprintf(key, sizeof(key), "%s:", branch);
    p = strstr(notes, key);
    if (p && strncmp(p + strlen(key), "absent", 6) == 0)
        return 0;
    if (p && sscanf(p + strlen(key), "@%u size %u", out_offset, out_size) == 2)
        return 1;
    if (!*offset)
        return 0;
    *out_offset = (unsigned)atoi(offset);
    *out_size = (unsigned)atoi(size);
    return 1;
}

/* The table's field for a CSV name: array bounds are not part of ours. */
static const struct kio_field *
field_of(const struct kio_struct *desc, const char *csv_name)
{
    char name[96], *bracket;

    snprintf(name, sizeof(name), "%s", csv_name);
    while (name[0] && name[strlen(name) - 1] == ']') {
        bracket = strrchr(name, '[');
        if (!bracket)
            break;
        *bracket = '\0';
    }
    return kio_struct_field(desc, name);
}

/* Rows that describe what another row holds already. */
static int
is_detail(const char *field, const char *ctype)
{
    return strstr(field, ".uuid[") || strstr(field, ".limbs[") ||
           strncmp(field, "gpuNameString.", 14) == 0 ||
           strcmp(ctype, "struct {...}") == 0;
}

static int
is_primitive(const char *ctype)
{
    static const char *const types[] = {
        "NvU",  "NvHandle",        "NvV",      "NvS", "NvP", "NvBool", "int",
        "char", "NvProcessorUuid", "NV_STATUS"};
    size_t i;

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strncmp(ctype, types[i], strlen(types[i])) == 0)
            return 1;
    }
    return 0;
}

/* The table has six of the branches. */
static int
has_facts(const char *branch)
{
    return strstr("535 550 570 580 590 595", branch) != NULL;
}

static const struct kio_struct *
struct_of(uint32_t branch, const char *name)
{
    const struct kio_struct *desc;
    uint32_t i;

    for (i = 0; i < NV_S_COUNT; i++) {
        desc = nv_struct(branch, i);
        if (desc && strcmp(desc->name, name) == 0)
            return desc;
    }
    return NULL;
}

static unsigned
check_row(char *line)
{
    char name[96], field[96], offset[16], size[16], ctype[64], notes[512];
    unsigned n = 0, b, at, bytes;
    char *p = line;

    next_column(&p, name, sizeof(name));
    next_column(&p, field, sizeof(field));
    next_column(&p, offset, sizeof(offset));
    next_column(&p, size, sizeof(size));
    next_column(&p, ctype, sizeof(ctype));
    next_column(&p, notes, sizeof(notes));
    for (b = 0; b <= NV_BRANCH_NEWEST; b++) {
        const struct kio_struct *desc = struct_of(b, name);
        const struct kio_field *f;
        const char *total;
        char key[16];
        if (!has_facts(nv_branch_name(b)))
            continue;
        if (!desc && b == 0 && strstr(notes, "535:absent"))
            continue;
        if (!desc && strstr(line, "nv_ioctl_wait_open_complete_t"))
            continue; /* its fields' rows do not say it again */
        if (!desc)
            fail_msg("no struct %s", name);
        if (strcmp(field, "(total)") == 0) {
            snprintf(key, sizeof(key), "%s:", nv_branch_name(b));
            total = strstr(notes, key);
            bytes = (unsigned)atoi(total ? total + strlen(key) : size);
            if (desc->size_bytes != bytes)
                fail_msg("%s on %s: %u bytes, the headers say %u", name,
                         nv_branch_name(b), desc->size_bytes, bytes);
            n++;
            continue;
        }
        if (is_detail(field, ctype) ||
            !row_on_branch(notes, offset, size, nv_branch_name(b), &at, &bytes))
            continue;
        f = field_of(desc, field);
        /* Structs within structs: their leaves have rows of their own. */
        if (!f && is_primitive(ctype))
            fail_msg("no field %s.%s on %s", name, field, nv_branch_name(b));
        if (!f)
            continue;
        if (f->offset_bytes != at || f->size_bytes != bytes)
            fail_msg("%s.%s on %s: @%u size %u, the headers say @%u size %u",
                     name, field, nv_branch_name(b), f->offset_bytes,
                     f->size_bytes, at, bytes);
        n++;
    }
    return n;
}

static void
test_facts(void **state)
{
    const char *slash = strrchr(__FILE__, '/');
    char path[512], line[1024];
    unsigned n_rows = 0, n_checked = 0;
    FILE *file;

    (void)state;
    snprintf(path, sizeof(path), "%.*s../headers/nvidia-structs.csv",
             slash ? (int)(slash + 1 - __FILE__) : 0, __FILE__);
    file = fopen(path, "r");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    assert_non_null(fgets(line, sizeof(line), file));
    while (fgets(line, sizeof(line), file)) {
        unsigned n = check_row(line);
        n_rows += n > 0;
        n_checked += n;
    }
    fclose(file);
    print_message("# %u rows, %u layouts of fields and structs\n", n_rows,
                  n_checked);
    assert_true(n_rows > 780);
    assert_true(n_checked > 4500);
}

static void
test_device_names(void **state)
{
    (void)state;
    assert_string_equal(kio_dev_name(KIO_DEV_NV_CTL), "nvidiactl");
    assert_string_equal(kio_dev_name(KIO_DEV_COUNT), "unknown");
}

/* Numbers and bytes of every length: as many as are shown. */
static void
test_array_text(void **state)
{
    uint8_t data[4 * 12];
    char text[512], expected[512];
    uint32_t n, i, each;
    size_t used;

    (void)state;
    for (i = 0; i < sizeof(data); i++)
        data[i] = i % 4 ? 0 : (uint8_t)(0x10 + i / 4);
    for (n = 1; n <= 48; n++) {
        for (each = 1; each <= 4; each += 3) {
            struct kio_field field = {.name = "f",
                                      .size_bytes = (uint16_t)n,
                                      .each_bytes = (uint16_t)each,
                                      .kind = KIO_FIELD_HEX};
            const struct kio_struct desc = {"s", &field, n, 1};
            uint32_t most = each == 1 ? 16 : 8;

            if (n % each || n == each)
                continue;
            used = (size_t)snprintf(expected, sizeof(expected), "f=%s",
                                    each == 1 ? "" : "[");
            for (i = 0; i < n / each && i < most; i++)
                used += (size_t)snprintf(
                    expected + used, sizeof(expected) - used,
                    each == 1 ? "%s%02x" : "%s0x%x", each > 1 && i ? "," : "",
                    each == 1 ? data[i] : 0x10 + i);
            snprintf(expected + used, sizeof(expected) - used, "%s",
                     n / each <= most ? each == 1 ? "" : "]"
                     : each == 1      ? "..."
                                      : ",...]");
            kio_struct_format(&desc, data, n, text, sizeof(text));
            assert_string_equal(text, expected);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_text),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_breaks),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_sizes_of_pointees),
        cmocka_unit_test(test_device_names),
        cmocka_unit_test(test_every_end),
        cmocka_unit_test(test_capture_lengths),
        cmocka_unit_test(test_names_of_numbers),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_convert_arrays),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_clock_by_another),
        cmocka_unit_test(test_facts),
    };

    return cmocka_run_group_tests_name("kio_desc", tests, NULL, NULL);
}
