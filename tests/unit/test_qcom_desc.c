/* ioctl/kgsl.uapi and msm.uapi: which struct a request has, what follows its
 * pointers, requests that amdgpu's render node has too, and all tables and
 * numbers against tests/headers/adreno-structs.csv.
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
#include "ioctl/kgsl_tables.h"
#include "ioctl/kgsl_uapi.h"
#include "ioctl/kio_capture.h"
#include "ioctl/kio_desc.h"
#include "ioctl/msm_tables.h"
#include "ioctl/msm_uapi.h"
#include "ioctl/qcom_uapi.h"

static void
test_requests(void **state)
{
    struct kio_call_desc call;

    (void)state;
    kio_describe(KIO_DEV_KGSL, 0, IOCTL_KGSL_GPU_COMMAND, &call);
    assert_true(call.known);
    assert_string_equal(call.name, "IOCTL_KGSL_GPU_COMMAND");
    assert_string_equal(call.args->name, "kgsl_gpu_command");
    assert_int_equal(call.size_bytes, 64);
    kio_describe(KIO_DEV_KGSL, 0, IOCTL_KGSL_TIMELINE_DESTROY, &call);
    assert_true(call.known);
    assert_null(call.args);
    assert_int_equal(call.size_bytes, 4);
    kio_describe(KIO_DEV_KGSL, 0, 0xc041094a, &call);
    assert_false(call.known);
    assert_string_equal(call.name, "IOCTL_KGSL");
    assert_int_equal(call.size_bytes, 65);
    kio_describe(KIO_DEV_DRM, 0, DRM_IOCTL_MSM_GEM_CPU_FINI, &call);
    assert_string_equal(call.name, "DRM_IOCTL_MSM_GEM_CPU_FINI");
    assert_string_equal(call.args->name, "drm_msm_gem_cpu_fini");
    /* the same number, of amdgpu */
    kio_describe(KIO_DEV_DRM, 0, 0x40206445, &call);
    assert_string_equal(call.name, "DRM_IOCTL_AMDGPU_INFO");
    assert_string_equal(call.args->name, "drm_amdgpu_info");
}

/* The lists of a submission are part of the call. */
static void
test_follow(void **state)
{
    struct kgsl_command_object ibs[2] = {
        {.gpuaddr = 0x4000000000, .size = 400, .flags = KGSL_CMDLIST_IB},
        {.gpuaddr = 0x4000001000, .size = 16, .flags = KGSL_CMDLIST_IB}};
    struct kgsl_cmd_syncpoint_timestamp after = {.context_id = 3,
                                                 .timestamp = 9};
    struct kgsl_command_syncpoint sync = {.priv = (uintptr_t)&after,
                                          .size = sizeof(after)};
    struct kgsl_gpu_command command = {.cmdlist = (uintptr_t)ibs,
                                       .cmdsize = sizeof(ibs[0]),
                                       .numcmds = 2,
                                       .synclist = (uintptr_t)&sync,
                                       .syncsize = sizeof(sync),
                                       .numsyncs = 1,
                                       .context_id = 3};
    struct drm_msm_gem_submit_bo bos[3] = {{.flags = 3, .handle = 7}};
    struct drm_msm_gem_submit_cmd cmd = {.type = MSM_SUBMIT_CMD_BUF,
                                         .size = 64};
    struct drm_msm_gem_submit submit = {.flags = MSM_PIPE_3D0,
                                        .nr_bos = 3,
                                        .nr_cmds = 1,
                                        .bos = (uintptr_t)bos,
                                        .cmds = (uintptr_t)&cmd};
    struct kio_capture capture;
    char text[1024];

    (void)state;
    kio_capture_init(&capture);
    assert_int_equal(kio_capture_call(&capture, KIO_DEV_KGSL, 0,
                                      IOCTL_KGSL_GPU_COMMAND, &command, NULL,
                                      NULL),
                     BELL_OK);
    assert_int_equal(capture.n_blobs, 4);
    (void)kio_capture_format(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "IOCTL_KGSL_GPU_COMMAND(cmdlist="));
    assert_non_null(strstr(text, "kgsl_command_object: gpuaddr=0x4000000000"));
    assert_non_null(strstr(text, "kgsl_command_syncpoint: "));
    assert_int_equal(capture.blobs[3].size_bytes, sizeof(after));
    assert_memory_equal(capture.blobs[3].data, &after, sizeof(after));

    assert_int_equal(kio_capture_call(&capture, KIO_DEV_DRM, 0,
                                      DRM_IOCTL_MSM_GEM_SUBMIT, &submit, NULL,
                                      NULL),
                     BELL_OK);
    assert_int_equal(capture.n_blobs, 3);
    assert_int_equal(capture.blobs[1].size_bytes, sizeof(bos));
    (void)kio_capture_format(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "drm_msm_gem_submit_cmd: type=1 size=64"));
    kio_capture_fini(&capture);
}

/* ---- against the headers ----------------------------------------------- */

/* Next column, commas inside quotes apart. */
static char *
next_column(char **at)
{
    char *start = *at, *p = start;
    int quoted = 0;

    for (; *p && (quoted || *p != ','); p++)
        quoted ^= *p == '"';
    if (*p)
        *p++ = '\0';
    *at = p;
    return start;
}

static const struct kio_struct *
find_struct(const char *name)
{
    uint32_t i;

    for (i = 0; i < KGSL_S_COUNT; i++) {
        const struct kio_struct *desc = kio_struct_of(&kgsl_structs, i, 0);
        if (strcmp(desc->name, name) == 0)
            return desc;
    }
    for (i = 0; i < MSM_S_COUNT; i++) {
        const struct kio_struct *desc = kio_struct_of(&msm_structs, i, 0);
        if (strcmp(desc->name, name) == 0)
            return desc;
    }
    return NULL;
}

#define NAMED(name)                                                            \
    {                                                                          \
#name, (uint64_t)(name)                                                \
    }
static const struct {
    const char *name;
    uint64_t value;
} constants[] = {
    NAMED(KGSL_PROP_DEVICE_INFO),
    NAMED(KGSL_PROP_DEVICE_SHADOW),
    NAMED(KGSL_PROP_GPU_RESET_STAT),
    NAMED(KGSL_PROP_PWR_CONSTRAINT),
    NAMED(KGSL_PROP_UCHE_GMEM_VADDR),
    NAMED(KGSL_PROP_HIGHEST_BANK_BIT),
    NAMED(KGSL_PROP_DEVICE_BITNESS),
    NAMED(KGSL_PROP_UBWC_MODE),
    NAMED(KGSL_PROP_SPEED_BIN),
    NAMED(KGSL_PROP_QUERY_CAPABILITIES),
    NAMED(KGSL_PROP_CONTEXT_PROPERTY),
    NAMED(KGSL_PROP_GPU_MODEL),
    NAMED(KGSL_PROP_IS_LPAC_ENABLED),
    NAMED(KGSL_PROP_GPU_VA64_SIZE),
    NAMED(KGSL_CTX_STAT_NO_ERROR),
    NAMED(KGSL_CONTEXT_NO_GMEM_ALLOC),
    NAMED(KGSL_CONTEXT_PREAMBLE),
    NAMED(KGSL_CONTEXT_PER_CONTEXT_TS),
    NAMED(KGSL_CONTEXT_USER_GENERATED_TS),
    NAMED(KGSL_CONTEXT_NO_FAULT_TOLERANCE),
    NAMED(KGSL_CONTEXT_PWR_CONSTRAINT),
    NAMED(KGSL_CONTEXT_PRIORITY_MASK),
    NAMED(KGSL_CONTEXT_PRIORITY_SHIFT),
    NAMED(KGSL_CONTEXT_SECURE),
    NAMED(KGSL_CONTEXT_TYPE_MASK),
    NAMED(KGSL_CONTEXT_TYPE_SHIFT),
    NAMED(KGSL_CONTEXT_TYPE_CL),
    NAMED(KGSL_CONTEXT_PREEMPT_STYLE_MASK),
    NAMED(KGSL_CONTEXT_PREEMPT_STYLE_SHIFT),
    NAMED(KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN),
    NAMED(KGSL_CONTEXT_INVALIDATE_ON_FAULT),
    NAMED(KGSL_CONTEXT_LPAC),
    NAMED(KGSL_CONTEXT_FAULT_INFO),
    NAMED(KGSL_MEMFLAGS_GPUREADONLY),
    NAMED(KGSL_MEMFLAGS_USE_CPU_MAP),
    NAMED(KGSL_MEMFLAGS_IOCOHERENT),
    NAMED(KGSL_MEMFLAGS_FORCE_32BIT),
    NAMED(KGSL_MEMFLAGS_GUARD_PAGE),
    NAMED(KGSL_CACHEMODE_MASK),
    NAMED(KGSL_CACHEMODE_SHIFT),
    NAMED(KGSL_CACHEMODE_WRITECOMBINE),
    NAMED(KGSL_CACHEMODE_UNCACHED),
    NAMED(KGSL_CACHEMODE_WRITETHROUGH),
    NAMED(KGSL_CACHEMODE_WRITEBACK),
    NAMED(KGSL_MEMTYPE_MASK),
    NAMED(KGSL_MEMTYPE_SHIFT),
    NAMED(KGSL_MEMTYPE_CL),
    NAMED(KGSL_MEMTYPE_COMMAND),
    NAMED(KGSL_MEMALIGN_MASK),
    NAMED(KGSL_MEMALIGN_SHIFT),
    NAMED(KGSL_GPUOBJ_FREE_ON_EVENT),
    NAMED(KGSL_GPU_EVENT_TIMESTAMP),
    NAMED(KGSL_GPU_EVENT_FENCE),
    NAMED(KGSL_CMDBATCH_MARKER),
    NAMED(KGSL_CMDBATCH_SUBMIT_IB_LIST),
    NAMED(KGSL_CMDBATCH_PROFILING),
    NAMED(KGSL_CMDBATCH_END_OF_FRAME),
    NAMED(KGSL_CMDBATCH_SYNC),
    NAMED(KGSL_CMDBATCH_PWR_CONSTRAINT),
    NAMED(KGSL_CMDLIST_IB),
    NAMED(KGSL_CMDLIST_IB_PREAMBLE),
    NAMED(KGSL_OBJLIST_MEMOBJ),
    NAMED(KGSL_OBJLIST_PROFILE),
    NAMED(KGSL_TIMESTAMP_CONSUMED),
    NAMED(KGSL_TIMESTAMP_RETIRED),
    NAMED(KGSL_TIMESTAMP_QUEUED),
    NAMED(KGSL_CONSTRAINT_PWRLEVEL),
    NAMED(KGSL_CONSTRAINT_PWR_MIN),
    NAMED(KGSL_CONSTRAINT_PWR_MAX),
    NAMED(KGSL_CONTEXT_PROP_FAULTS),
    NAMED(KGSL_FAULT_TYPE_PAGEFAULT),
    {"KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT", KGSL_CTX_STAT_GUILTY},
    {"KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT", KGSL_CTX_STAT_INNOCENT},
    {"KGSL_CTX_STAT_UNKNOWN_CONTEXT_RESET_EXT", KGSL_CTX_STAT_UNKNOWN},
    {"KGSL_GPUMEM_CACHE_CLEAN", KGSL_CACHE_CLEAN},
    {"KGSL_GPUMEM_CACHE_INV", KGSL_CACHE_INVALIDATE},
    {"KGSL_USER_MEM_TYPE_ADDR", KGSL_USER_MEM_ADDR},
    {"KGSL_USER_MEM_TYPE_DMABUF", KGSL_USER_MEM_DMABUF},
    {"KGSL_CMDLIST_CTXTSWITCH_PREAMBLE", KGSL_CMDLIST_CTXTSWITCH},
    {"KGSL_CMD_SYNCPOINT_TYPE_TIMESTAMP", KGSL_SYNCPOINT_TIMESTAMP},
    {"KGSL_CMD_SYNCPOINT_TYPE_FENCE", KGSL_SYNCPOINT_FENCE},
    {"KGSL_PAGEFAULT_TYPE_READ", KGSL_PAGEFAULT_READ},
    {"KGSL_PAGEFAULT_TYPE_WRITE", KGSL_PAGEFAULT_WRITE},
    {"KGSL_PAGEFAULT_TYPE_TRANSLATION", KGSL_PAGEFAULT_TRANSLATION},
    {"KGSL_PAGEFAULT_TYPE_PERMISSION", KGSL_PAGEFAULT_PERMISSION},
    {"KGSL_PAGEFAULT_TYPE_EXTERNAL", KGSL_PAGEFAULT_EXTERNAL},
    {"KGSL_PAGEFAULT_TYPE_TRANSACTION_STALLED", KGSL_PAGEFAULT_STALLED},
    NAMED(MSM_PIPE_3D0),
    NAMED(MSM_PARAM_GPU_ID),
    NAMED(MSM_PARAM_GMEM_SIZE),
    NAMED(MSM_PARAM_CHIP_ID),
    NAMED(MSM_PARAM_MAX_FREQ),
    NAMED(MSM_PARAM_TIMESTAMP),
    NAMED(MSM_PARAM_GMEM_BASE),
    NAMED(MSM_PARAM_PRIORITIES),
    NAMED(MSM_PARAM_FAULTS),
    NAMED(MSM_PARAM_SUSPENDS),
    NAMED(MSM_PARAM_VA_START),
    NAMED(MSM_PARAM_VA_SIZE),
    NAMED(MSM_PARAM_HIGHEST_BANK_BIT),
    NAMED(MSM_PARAM_RAYTRACING),
    NAMED(MSM_BO_GPU_READONLY),
    NAMED(MSM_BO_CACHE_MASK),
    NAMED(MSM_BO_CACHED),
    NAMED(MSM_BO_WC),
    NAMED(MSM_BO_UNCACHED),
    NAMED(MSM_BO_CACHED_COHERENT),
    NAMED(MSM_INFO_GET_OFFSET),
    NAMED(MSM_INFO_GET_IOVA),
    NAMED(MSM_INFO_SET_NAME),
    NAMED(MSM_INFO_GET_NAME),
    NAMED(MSM_INFO_SET_IOVA),
    NAMED(MSM_INFO_GET_FLAGS),
    NAMED(MSM_PREP_READ),
    NAMED(MSM_PREP_WRITE),
    NAMED(MSM_PREP_NOSYNC),
    NAMED(MSM_SUBMIT_NO_IMPLICIT),
    NAMED(MSM_SUBMIT_FENCE_FD_IN),
    NAMED(MSM_SUBMIT_FENCE_FD_OUT),
    NAMED(MSM_SUBMIT_SYNCOBJ_IN),
    NAMED(MSM_SUBMIT_SYNCOBJ_OUT),
    NAMED(MSM_SUBMIT_FENCE_SN_IN),
    NAMED(MSM_SUBMIT_CMD_BUF),
    NAMED(MSM_SUBMIT_BO_READ),
    NAMED(MSM_SUBMIT_BO_WRITE),
    NAMED(MSM_SUBMIT_BO_DUMP),
    NAMED(MSM_SUBMITQUEUE_ALLOW_PREEMPT),
    NAMED(MSM_SUBMITQUEUE_PARAM_FAULTS),
};

static unsigned
check_constant(const char *name, uint64_t value)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(constants); i++) {
        if (strcmp(constants[i].name, name) != 0)
            continue;
        if (constants[i].value != value)
            fail_msg("%s is 0x%llx, the headers say 0x%llx", name,
                     (unsigned long long)constants[i].value,
                     (unsigned long long)value);
        return 1;
    }
    return 0;
}

/* How often each kind of row was found. */
struct found {
    unsigned calls, structs, fields, constants;
};

static void
check_row(char *line, struct found *found)
{
    const char *iface = next_column(&line), *kind = next_column(&line),
               *name = next_column(&line), *field = next_column(&line);
    unsigned offset = (unsigned)atoi(next_column(&line));
    unsigned size = (unsigned)atoi(next_column(&line));
    const struct kio_struct *desc = find_struct(name);
    uint64_t value;

    (void)next_column(&line);
    value = strtoull(next_column(&line), NULL, 0);
    if (strcmp(kind, "const") == 0) {
        found->constants += check_constant(name, value);
    } else if (strcmp(kind, "ioctl") == 0) {
        struct kio_call_desc call;
        kio_describe(strcmp(iface, "kgsl") == 0 ? KIO_DEV_KGSL : KIO_DEV_DRM, 0,
                     value, &call);
        assert_true(call.known);
        assert_string_equal(call.name, name);
        assert_int_equal(call.size_bytes, size);
        assert_true(!call.args || call.args->size_bytes == size);
        found->calls++;
    } else if (desc && strcmp(kind, "struct") == 0) {
        assert_int_equal(desc->size_bytes, size);
        found->structs++;
    } else if (desc) {
        const struct kio_field *f = kio_struct_field(desc, field);
        if (!f && strncmp(field, "__", 2) == 0)
            f = kio_struct_field(desc, field + 2);
        if (strcmp(field, "timeout") == 0 && size == 16) {
            f = kio_struct_field(desc, "timeout.tv_sec");
            size = 8;
        }
        if (strcmp(field, "or") == 0) /* a name in C++ */
            f = kio_struct_field(desc, "or_bits");
        if (!f || f->offset_bytes != offset || f->size_bytes != size)
            fail_msg("%s.%s: the headers say @%u size %u", name, field, offset,
                     size);
        found->fields++;
    }
}

static void
test_facts(void **state)
{
    const char *slash = strrchr(__FILE__, '/');
    char path[512], line[2048];
    struct found found = {0};
    FILE *file;

    (void)state;
    snprintf(path, sizeof(path), "%.*s../headers/adreno-structs.csv",
             slash ? (int)(slash + 1 - __FILE__) : 0, __FILE__);
    file = fopen(path, "r");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    assert_non_null(fgets(line, sizeof(line), file));
    while (fgets(line, sizeof(line), file))
        check_row(line, &found);
    fclose(file);
    assert_int_equal(found.calls, kgsl_n_kgsl_rows + msm_n_render_rows);
    /* one of them has two names */
    assert_int_equal(found.structs, KGSL_S_COUNT + MSM_S_COUNT - 1);
    assert_int_equal(found.constants, ARRAY_LEN(constants));
    assert_true(found.fields > 250);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_facts),
    };

    return cmocka_run_group_tests_name("qcom_desc", tests, NULL, NULL);
}
