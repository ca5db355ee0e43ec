/* sim/qcom: the simulated kernels and card: streams of others run, what is
 * stale is seen stale, what is wrong is refused, noise does no harm. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "ioctl/kgsl_uapi.h"
#include "ioctl/kio.h"
#include "ioctl/kio_interface.h"
#include "ioctl/msm_uapi.h"
#include "ioctl/qcom_uapi.h"
#include "qcom_shaders.h"
#include "sim/qcom/sim_qcom.h"
#include "tests/golden/qcom_golden.h"

#define N       1000u
#define PAGE    4096u
#define CONTEXT 0x40000a12u /* PREAMBLE, NO_GMEM, no replay, FAULT_INFO .. */

/* A process on a card; memory of the golden streams: code, fence, a, b, c,
 * words. */
enum part {
    CODE,
    FENCE,
    A,
    B,
    C,
    WORDS,
    N_PARTS
};

struct rig {
    struct kio *kio;
    struct kio_file file;
    bool is_msm, is_a7, is_a750;
    uint32_t context, timestamp;
    struct {
        uint32_t id;
        uint64_t va, size_bytes;
        void *cpu;
    } parts[N_PARTS];
    uint32_t n_words;
};

static int
call(struct rig *r, unsigned long request, void *arg)
{
    if (kio_ioctl(&r->file, request, arg) == BELL_OK)
        return 0;
    return bell_error_last()->sys_errno ? -bell_error_last()->sys_errno : -1;
}

#define CALL(r, request, arg)                                                  \
    do {                                                                       \
        if (call(r, request, arg) != 0)                                        \
            fail_msg("%s: %s", #request, bell_error_last()->message);          \
    } while (0)
#define REFUSED(r, error, request, arg)                                        \
    assert_int_equal(call(r, request, arg), -(error))

static void
add_part(struct rig *r, enum part part, uint64_t size_bytes, uint64_t flags)
{
    struct kgsl_gpuobj_alloc a = {.size = size_bytes, .flags = flags};
    struct kgsl_gpuobj_info info = {0};
    struct drm_msm_gem_new new_ = {.size = size_bytes, .flags = MSM_BO_WC};
    struct drm_msm_gem_info at = {0}, offset = {0};
    uint64_t where;

    if (r->is_msm) {
        CALL(r, DRM_IOCTL_MSM_GEM_NEW, &new_);
        at.handle = offset.handle = r->parts[part].id = new_.handle;
        at.info = MSM_INFO_GET_IOVA;
        CALL(r, DRM_IOCTL_MSM_GEM_INFO, &at);
        offset.info = MSM_INFO_GET_OFFSET;
        CALL(r, DRM_IOCTL_MSM_GEM_INFO, &offset);
        r->parts[part].va = at.value;
        where = offset.value;
    } else {
        CALL(r, IOCTL_KGSL_GPUOBJ_ALLOC, &a);
        info.id = r->parts[part].id = a.id;
        CALL(r, IOCTL_KGSL_GPUOBJ_INFO, &info);
        assert_int_equal(info.size, a.mmapsize);
        r->parts[part].va = info.gpuaddr;
        where = (uint64_t)a.id << 12;
    }
    r->parts[part].size_bytes = (size_bytes + PAGE - 1) / PAGE * PAGE;
    if (kio_mmap(r->kio, &r->file, NULL, r->parts[part].size_bytes,
                 PROT_READ | PROT_WRITE, MAP_SHARED, where,
                 &r->parts[part].cpu) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
new_context(struct rig *r)
{
    struct kgsl_drawctxt_create create = {CONTEXT, 0};
    struct drm_msm_submitqueue queue = {0};

    if (r->is_msm)
        CALL(r, DRM_IOCTL_MSM_SUBMITQUEUE_NEW, &queue);
    else
        CALL(r, IOCTL_KGSL_DRAWCTXT_CREATE, &create);
    r->context = r->is_msm ? queue.id : create.drawctxt_id;
}

/* What the constants of a launch are in the golden stream: LOAD_STATE6 of two
 * units, direct. */
#define CONSTANTS_DW 12u
#define UBO_OFFSET   1024u /* in the memory of the words */

static uint32_t *
find_word(struct rig *r, uint32_t value)
{
    uint32_t *words = r->parts[WORDS].cpu, i;

    for (i = 0; i < r->n_words && words[i] != value; i++) {
    }
    assert_true(i < r->n_words);
    return words + i;
}

/* The same constants in memory, behind a descriptor; the rest is a NOP. */
static void
move_constants(struct rig *r)
{
    uint64_t va = r->parts[WORDS].va + UBO_OFFSET;
    uint32_t *words = find_word(r, 0x7034000b);
    const uint32_t ubo[CONSTANTS_DW] = {0x70348005,
                                        0x00748000,
                                        0,
                                        0,
                                        (uint32_t)va,
                                        (uint32_t)(va >> 32) | 2u << 17,
                                        0x70108005,
                                        0};

    memcpy((uint8_t *)r->parts[WORDS].cpu + UBO_OFFSET, words + 4, 32);
    memcpy(words, ubo, sizeof(ubo));
}

/* The golden stream with the addresses that memory has here. */
static void
write_stream(struct rig *r)
{
    static const uint32_t bases[] = {0x100000, 0x300000, 0x400000, 0x500000,
                                     0x600000};
    const uint32_t *words = r->is_a7 ? a740_words : a630_words;
    uint32_t *to = r->parts[WORDS].cpu, i, k;
    uint64_t va;

    r->n_words = r->is_a7 ? ARRAY_LEN(a740_words) : ARRAY_LEN(a630_words);
    memcpy(to, words, r->n_words * 4);
    for (i = 0; i + 1 < r->n_words; i++) {
        for (k = 0; k < ARRAY_LEN(bases); k++) {
            if ((words[i] & ~15u) != bases[k] || words[i + 1] != 1)
                continue;
            va = r->parts[CODE + k].va + (words[i] & 15);
            to[i] = (uint32_t)va;
            to[i + 1] = (uint32_t)(va >> 32);
        }
    }
    if (r->is_a750)
        move_constants(r);
}

static void
fill(struct rig *r)
{
    float *a = r->parts[A].cpu, *b = r->parts[B].cpu;
    uint32_t i;

    for (i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = (float)(3 * i % 17);
    }
    memset(r->parts[C].cpu, 0, 4 * N);
    memset(r->parts[FENCE].cpu, 0, 64);
}

static void
open_rig(struct rig *r, const char *spec, uint64_t flags)
{
    uint32_t i;

    memset(r, 0, sizeof(*r));
    r->is_msm = strstr(spec, "-msm") != NULL;
    r->is_a750 = strstr(spec, "a750") != NULL;
    r->is_a7 = strstr(spec, "a740") || r->is_a750;
    assert_int_equal(kio_sim_create("QCOM", spec, &r->kio), BELL_OK);
    if (kio_open(r->kio, r->is_msm ? "/dev/dri/renderD128" : "/dev/kgsl-3d0",
                 O_RDWR, &r->file) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    new_context(r);
    for (i = 0; i < N_PARTS; i++)
        add_part(r, (enum part)i, i == CODE || i == FENCE ? PAGE : 4 * PAGE,
                 flags);
    memcpy(r->parts[CODE].cpu,
           r->is_a750 ? qcom_shader_ubo
           : r->is_a7 ? qcom_shader_a7xx
                      : qcom_shader_a6xx,
           sizeof(qcom_shader_a6xx));
    fill(r);
    write_stream(r);
}

static void
close_rig(struct rig *r)
{
    struct sim_qcom_usage usage;
    uint32_t i;

    for (i = 0; i < N_PARTS; i++)
        kio_munmap(r->kio, r->parts[i].cpu, r->parts[i].size_bytes);
    kio_close(&r->file);
    sim_qcom_held(r->kio, &usage);
    assert_int_equal(usage.files + usage.contexts + usage.buffers, 0);
    assert_int_equal(usage.memory_bytes + usage.va_mapped_bytes, 0);
    kio_destroy(r->kio);
}

static int
submit(struct rig *r)
{
    struct kgsl_command_object ib = {.gpuaddr = r->parts[WORDS].va,
                                     .size = r->n_words * 4,
                                     .flags = KGSL_CMDLIST_IB};
    struct kgsl_gpu_command command = {.cmdlist = (uintptr_t)&ib,
                                       .cmdsize = sizeof(ib),
                                       .numcmds = 1,
                                       .context_id = r->context};
    struct drm_msm_gem_submit_bo bos[N_PARTS] = {0};
    struct drm_msm_gem_submit_cmd cmd = {.type = MSM_SUBMIT_CMD_BUF,
                                         .submit_idx = WORDS,
                                         .size = r->n_words * 4};
    struct drm_msm_gem_submit s = {.flags = MSM_PIPE_3D0,
                                   .nr_bos = N_PARTS,
                                   .nr_cmds = 1,
                                   .bos = (uintptr_t)bos,
                                   .cmds = (uintptr_t)&cmd,
                                   .queueid = r->context};
    uint32_t i;
    int result;

    for (i = 0; i < N_PARTS; i++) {
        bos[i].flags = MSM_SUBMIT_BO_READ | MSM_SUBMIT_BO_WRITE;
        bos[i].handle = r->parts[i].id;
    }
    result = r->is_msm ? call(r, DRM_IOCTL_MSM_GEM_SUBMIT, &s)
                       : call(r, IOCTL_KGSL_GPU_COMMAND, &command);
    r->timestamp = r->is_msm ? s.fence : command.timestamp;
    return result;
}

static int
await(struct rig *r)
{
    struct kgsl_device_waittimestamp_ctxtid w = {r->context, r->timestamp,
                                                 60000};
    struct drm_msm_wait_fence f = {.fence = r->timestamp,
                                   .queueid = r->context};
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    f.timeout.tv_sec = (uint64_t)t.tv_sec + 60;
    return r->is_msm ? call(r, DRM_IOCTL_MSM_WAIT_FENCE, &f)
                     : call(r, IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID, &w);
}

static void
run(struct rig *r)
{
    char text[512];

    if (submit(r) != 0)
        fail_msg("%s", bell_error_last()->message);
    if (await(r) != 0)
        fail_msg("%s", bell_error_last()->message);
    sim_qcom_fault_text(r->kio, text, sizeof(text));
    if (text[0])
        fail_msg("%s", text);
}

static void
check(struct rig *r, float scale)
{
    const float *a = r->parts[A].cpu, *b = r->parts[B].cpu,
                *c = r->parts[C].cpu;
    uint32_t i;

    for (i = 0; i < N; i++) {
        if (c[i] != scale * a[i] + b[i])
            fail_msg("%u: %g", i, (double)c[i]);
    }
    assert_true(c[N] == 0);
}

static const char *const specs[] = {"a630",     "a740", "a630-msm",
                                    "a740-msm", "a750", "a750-msm"};

static void
test_streams(void **state)
{
    const uint64_t *fence;
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(specs); i++) {
        open_rig(&r, specs[i], 0);
        run(&r);
        check(&r, 2);
        fence = r.parts[FENCE].cpu;
        assert_int_equal((uint32_t)fence[0], 1);
        assert_true(fence[1] != 0);
        run(&r); /* again: the same state, other timestamps */
        check(&r, 2);
        assert_int_equal(r.timestamp, 2);
        close_rig(&r);
    }
}

/* What the card has read once it reads again from its cache, until it is
 * told. */
static void
test_stale(void **state)
{
    static const char *const kgsl[] = {"a630", "a740", "a750"};
    struct rig r;
    float *a;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(kgsl); i++) {
        uint32_t head, *invalidate;
        float scale = 3, *kept;
        open_rig(&r, kgsl[i], 0);
        run(&r);
        a = r.parts[A].cpu;
        a[5] = 100;
        /* an argument in memory is what was read, too */
        kept = (void *)((uint8_t *)r.parts[WORDS].cpu + UBO_OFFSET + 24);
        *kept = scale;
        /* EVENT_WRITE of an invalidation becomes a NOP */
        invalidate = find_word(&r, r.is_a7 ? 51 : 49) - 1;
        head = *invalidate;
        *invalidate = 0x70100001;
        run(&r);
        assert_true(((float *)r.parts[C].cpu)[5] == 2 * 5 + 15);
        *invalidate = head;
        run(&r);
        check(&r, r.is_a750 ? scale : 2);
        close_rig(&r);
    }
}

static void
sync_part(struct rig *r, enum part part, uint32_t op)
{
    struct kgsl_gpuobj_sync_obj o = {.id = r->parts[part].id, .op = op};
    struct kgsl_gpuobj_sync s = {(uintptr_t)&o, sizeof(o), 1};

    CALL(r, IOCTL_KGSL_GPUOBJ_SYNC, &s);
}

/* Cached by the CPU, and not coherent: each side sees the other's only when it
 * is told to. */
static void
test_not_coherent(void **state)
{
    uint64_t cached = (uint64_t)KGSL_CACHEMODE_WRITEBACK
                      << KGSL_CACHEMODE_SHIFT;
    struct kgsl_gpuobj_info info = {0};
    struct rig r;
    uint32_t i;

    (void)state;
    open_rig(&r, "a630", cached | KGSL_MEMFLAGS_IOCOHERENT);
    info.id = r.parts[A].id;
    CALL(&r, IOCTL_KGSL_GPUOBJ_INFO, &info);
    assert_false(info.flags & KGSL_MEMFLAGS_IOCOHERENT);
    assert_int_equal(submit(&r), 0);
    assert_int_equal(await(&r), -EPROTO); /* no words there, it seems */
    new_context(&r);
    sync_part(&r, WORDS, KGSL_CACHE_CLEAN);
    sync_part(&r, CODE, KGSL_CACHE_CLEAN);
    sync_part(&r, A, KGSL_CACHE_CLEAN);
    assert_int_equal(submit(&r), 0);
    assert_int_equal(await(&r), 0);
    assert_true(((float *)r.parts[C].cpu)[7] == 0);
    sync_part(&r, C, KGSL_CACHE_INVALIDATE);
    for (i = 0; i < N; i++) /* b was not cleaned */
        assert_true(((float *)r.parts[C].cpu)[i] == 2 * (float)i);
    close_rig(&r);

    open_rig(&r, "a740", cached | KGSL_MEMFLAGS_IOCOHERENT);
    info.id = r.parts[A].id;
    CALL(&r, IOCTL_KGSL_GPUOBJ_INFO, &info);
    assert_true(info.flags & KGSL_MEMFLAGS_IOCOHERENT);
    run(&r);
    check(&r, 2);
    close_rig(&r);
}

/* Constants of a750: none comes with a launch; buffers of them are what their
 * descriptors say, and read by way of the cache. */
static void
test_ubos(void **state)
{
    static const struct {
        const char *what;
        uint32_t at, bits; /* of the packet's words, that are changed */
        const char *text;
    } rows[] = {
        {"constants", 1, 0x00c0c000, "constants come from memory"},
        {"themselves from memory", 1, 0x20000, "not known here"},
        {"two of them", 1, 0x00c00000, "a wrong count of descriptors"},
        {"number 1", 1, 1, "there is no buffer 0 of constants"},
        {"number 16", 1, 16, "more buffers of constants"},
        {"an address as well", 2, 64, "a wrong count of descriptors"},
        {"of one unit", 5, 3u << 17, "constant 1 of the 1 in buffer 0"},
        {"in the middle of a line", 4, 16, "an address not aligned"},
        {"elsewhere", 4, 0x10000000, "not mapped"},
    };
    struct rig r;
    uint32_t *words;
    char text[512];
    size_t i;

    (void)state;
    open_rig(&r, "a750", 0);
    words = find_word(&r, 0x70348005);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        words[rows[i].at] ^= rows[i].bits;
        assert_int_equal(submit(&r), 0);
        assert_int_equal(await(&r), -EPROTO);
        sim_qcom_fault_text(r.kio, text, sizeof(text));
        if (!strstr(text, rows[i].text))
            fail_msg("%s: %s", rows[i].what, text);
        words[rows[i].at] ^= rows[i].bits;
        new_context(&r);
    }
    assert_int_equal(submit(&r), 0);
    assert_int_equal(await(&r), 0);
    check(&r, 2);
    close_rig(&r);
}

static uint32_t
reset_stat(struct rig *r)
{
    uint32_t value = r->context;
    struct kgsl_device_getproperty p = {.type = KGSL_PROP_GPU_RESET_STAT,
                                        .value = (uintptr_t)&value,
                                        .sizebytes = sizeof(value)};

    CALL(r, IOCTL_KGSL_DEVICE_GETPROPERTY, &p);
    return value;
}

static void
test_page_fault(void **state)
{
    struct kgsl_pagefault_report report = {0};
    struct kgsl_fault fault = {0};
    struct kgsl_fault_report list = {0};
    struct kgsl_drawctxt_destroy destroy;
    struct rig r;
    uint32_t *word;
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        open_rig(&r, specs[i], 0);
        word = find_word(&r, (uint32_t)r.parts[C].va);
        *word = (uint32_t)r.parts[C].va + 0x10000000;
        assert_int_equal(reset_stat(&r), KGSL_CTX_STAT_NO_ERROR);
        assert_int_equal(submit(&r), 0);
        assert_int_equal(await(&r), -EPROTO);
        assert_int_equal(await(&r), -EDEADLK);
        assert_int_equal(submit(&r), -EDEADLK);
        assert_int_equal(reset_stat(&r), KGSL_CTX_STAT_GUILTY);
        list.context_id = r.context;
        CALL(&r, IOCTL_KGSL_GET_FAULT_REPORT, &list);
        assert_int_equal(list.faultnents, 1);
        list.faultlist = (uintptr_t)&fault;
        list.faultsize = sizeof(fault);
        fault = (struct kgsl_fault){0};
        CALL(&r, IOCTL_KGSL_GET_FAULT_REPORT, &list);
        assert_int_equal(fault.type, KGSL_FAULT_TYPE_PAGEFAULT);
        assert_int_equal(fault.count, 1);
        fault.fault = (uintptr_t)&report;
        fault.size = sizeof(report);
        CALL(&r, IOCTL_KGSL_GET_FAULT_REPORT, &list);
        assert_int_equal(report.fault_addr & ~0xfffull,
                         r.parts[C].va + 0x10000000);
        assert_int_equal(report.fault_type,
                         KGSL_PAGEFAULT_WRITE | KGSL_PAGEFAULT_TRANSLATION);
        list = (struct kgsl_fault_report){0};
        /* a new context runs */
        destroy.drawctxt_id = r.context;
        CALL(&r, IOCTL_KGSL_DRAWCTXT_DESTROY, &destroy);
        new_context(&r);
        *word = (uint32_t)r.parts[C].va;
        assert_int_equal(submit(&r), 0);
        assert_int_equal(await(&r), 0);
        check(&r, 2);
        close_rig(&r);
    }
}

/* A stream that waits for what never comes. */
static void
test_hang(void **state)
{
    struct drm_msm_submitqueue_query q = {0};
    uint32_t words[] = {0x70bc8006, 0x15, 0, 0, 1, UINT32_MAX, 16}, n_faults;
    struct rig r;

    (void)state;
    open_rig(&r, "a740-msm", 0);
    words[2] = (uint32_t)r.parts[FENCE].va;
    words[3] = (uint32_t)(r.parts[FENCE].va >> 32);
    memcpy(r.parts[WORDS].cpu, words, sizeof(words));
    r.n_words = ARRAY_LEN(words);
    assert_int_equal(submit(&r), 0);
    *(uint32_t *)r.parts[FENCE].cpu = 1;
    assert_int_equal(await(&r), 0);
    q.id = r.context;
    q.data = (uintptr_t)&n_faults;
    q.len = sizeof(n_faults);
    CALL(&r, DRM_IOCTL_MSM_SUBMITQUEUE_QUERY, &q);
    assert_int_equal(n_faults, 0);
    *(uint32_t *)r.parts[FENCE].cpu = 0;
    assert_int_equal(submit(&r), 0);
    assert_int_equal(await(&r), 0);
    CALL(&r, DRM_IOCTL_MSM_SUBMITQUEUE_QUERY, &q);
    assert_int_equal(n_faults, 1);
    close_rig(&r);
}

/* Buffers that are in no list are not there. */
static void
test_unlisted(void **state)
{
    struct drm_msm_param p = {MSM_PIPE_3D0, MSM_PARAM_FAULTS, 0, 0, 0};
    struct rig r;
    char text[512];

    (void)state;
    open_rig(&r, "a630-msm", 0);
    r.parts[B].id = r.parts[A].id;
    assert_int_equal(submit(&r), -EINVAL); /* twice */
    add_part(&r, B, PAGE, 0);
    assert_int_equal(submit(&r), 0); /* the words say where b was */
    assert_int_equal(await(&r), 0);
    CALL(&r, DRM_IOCTL_MSM_GET_PARAM, &p);
    assert_int_equal(p.value, 1);
    sim_qcom_fault_text(r.kio, text, sizeof(text));
    assert_non_null(strstr(text, "in no buffer of the submission"));
    close_rig(&r);
}

static void
test_refusals(void **state)
{
    struct kgsl_drawctxt_create create = {0x10, 0};
    struct kgsl_gpuobj_alloc alloc = {0};
    struct kgsl_device_getproperty p = {
        .type = 0x77, .value = (uintptr_t)&create, .sizebytes = 4};
    struct kgsl_device_waittimestamp_ctxtid w = {77, 0, 1};
    struct kgsl_command_object ib = {.flags = KGSL_CMDLIST_IB};
    struct kgsl_gpu_command c = {.cmdlist = (uintptr_t)&ib, .numcmds = 1};
    uint32_t level = 1;
    struct kgsl_device_constraint constraint = {1, 0, (uintptr_t)&level, 4};
    struct kgsl_gpuobj_free free_ = {.id = 12345};
    struct rig r;
    void *at;

    (void)state;
    open_rig(&r, "a740", 0);
    REFUSED(&r, EINVAL, IOCTL_KGSL_DRAWCTXT_CREATE, &create);
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPUOBJ_ALLOC, &alloc);
    alloc.size = 1ull << 32;
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPUOBJ_ALLOC, &alloc);
    REFUSED(&r, EINVAL, IOCTL_KGSL_DEVICE_GETPROPERTY, &p);
    REFUSED(&r, ENOENT, IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID, &w);
    w.context_id = r.context;
    w.timestamp = 1;
    REFUSED(&r, EINVAL, IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID, &w);
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPUOBJ_FREE, &free_);
    p = (struct kgsl_device_getproperty){.type = KGSL_PROP_PWR_CONSTRAINT,
                                         .value = (uintptr_t)&constraint,
                                         .sizebytes = 20};
    constraint.context_id = r.context;
    REFUSED(&r, EINVAL, IOCTL_KGSL_SETPROPERTY, &p);
    p.sizebytes = 24;
    CALL(&r, IOCTL_KGSL_SETPROPERTY, &p);
    level = 2;
    REFUSED(&r, EINVAL, IOCTL_KGSL_SETPROPERTY, &p);
    c.context_id = r.context;
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPU_COMMAND, &c); /* cmdsize */
    c.cmdsize = sizeof(ib);
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPU_COMMAND, &c); /* no size */
    ib.gpuaddr = r.parts[WORDS].va + 2;
    ib.size = 16;
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPU_COMMAND, &c); /* not aligned */
    ib.gpuaddr = r.parts[WORDS].va;
    ib.flags = 8;
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPU_COMMAND, &c);
    ib.flags = 1;
    c.flags = 1u << 12;
    REFUSED(&r, EINVAL, IOCTL_KGSL_GPU_COMMAND, &c);
    REFUSED(&r, ENOTTY, 0xc0045477, &c);
    assert_int_not_equal(kio_mmap(r.kio, &r.file, NULL, 2 * PAGE, PROT_READ,
                                  MAP_SHARED, (uint64_t)r.parts[CODE].id << 12,
                                  &at),
                         BELL_OK);
    close_rig(&r);
}

/* Each word of the stream is changed in turn: what still runs gives the right
 * numbers, or others are wrong for a reason that no card could see. */
static void
test_wrong_words(void **state)
{
    uint32_t i, bit, word, n = 0, n_refused = 0, *words;
    struct rig r;
    size_t k;

    (void)state;
    for (k = 0; k < 2; k++) {
        open_rig(&r, specs[k], 0);
        words = r.parts[WORDS].cpu;
        for (i = 0; i < r.n_words; i++) {
            for (bit = 0; bit < 32; bit += 5) {
                word = words[i];
                words[i] ^= 1u << bit;
                n++;
                assert_int_equal(submit(&r), 0);
                if (await(&r) != 0) {
                    n_refused++;
                    new_context(&r);
                }
                words[i] = word;
            }
        }
        close_rig(&r);
    }
    print_message("%u of %u changed streams refused\n", n_refused, n);
    assert_true(2 * n_refused > n);
}

/* Without a register: the launch asks for each of those that it needs. */
static void
test_missing_state(void **state)
{
    static const uint32_t regs[2][18] = {
        {0xab00, 0xae0f, 0xb987, 0xa9bb, 0xa9b0, 0xa9b3, 0xa9bd, 0xb997, 0xb990,
         0xb999},
        {0xab00, 0xae0f, 0xa9cd, 0xa9bb, 0xa9b0, 0xa9b3, 0xa9bd, 0xa9c5, 0xa9db,
         0xa9c6, 0xa9c2, 0xa9be, 0xa9d4, 0xa9dc, 0xa9df}};
    struct rig r;
    uint32_t i, k, j, *words;
    char text[512];

    (void)state;
    for (k = 0; k < 2; k++) {
        for (j = 0; regs[k][j]; j++) {
            open_rig(&r, specs[k], 0);
            words = r.parts[WORDS].cpu;
            for (i = 0; i < r.n_words; i++) {
                if (words[i] >> 28 == 4 &&
                    (words[i] >> 8 & 0x3ffff) == regs[k][j] &&
                    (words[i] & 0x7f) < 8)
                    break;
            }
            assert_true(i < r.n_words);
            /* a NOP of as many words */
            words[i] = 0x70100000 | (words[i] & 0x7f) |
                       (uint32_t) !(__builtin_popcount(words[i] & 0x7f) & 1)
                           << 15;
            assert_int_equal(submit(&r), 0);
            assert_int_equal(await(&r), -EPROTO);
            sim_qcom_fault_text(r.kio, text, sizeof(text));
            assert_non_null(strstr(text, "was not written"));
            close_rig(&r);
        }
    }
}

static void
test_noise(void **state)
{
    uint32_t round, i, *words;
    struct rig r;

    (void)state;
    srand(7);
    open_rig(&r, "a740", 0);
    words = r.parts[WORDS].cpu;
    for (round = 0; round < 2000; round++) {
        write_stream(&r);
        if (round % 4 == 0) {
            for (i = 0; i < r.n_words; i++)
                words[i] = (uint32_t)rand() * 3u;
        }
        for (i = 0; i < 3; i++)
            words[(uint32_t)rand() % r.n_words] = (uint32_t)rand() * 3u;
        ((uint32_t *)r.parts[CODE].cpu)[rand() % 32] ^= 1u << rand() % 32;
        if (submit(&r) != 0 || await(&r) != 0)
            new_context(&r);
    }
    close_rig(&r);
}

/* Calls with arguments at random, pointers among them to memory or nowhere. */
static void
test_noise_calls(void **state)
{
    static const unsigned long requests[] = {
        IOCTL_KGSL_DEVICE_GETPROPERTY,
        IOCTL_KGSL_SETPROPERTY,
        IOCTL_KGSL_DRAWCTXT_CREATE,
        IOCTL_KGSL_DRAWCTXT_DESTROY,
        IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID,
        IOCTL_KGSL_GPUOBJ_INFO,
        IOCTL_KGSL_GPUOBJ_FREE,
        IOCTL_KGSL_GPUMEM_GET_INFO,
        IOCTL_KGSL_GPUOBJ_SYNC,
        IOCTL_KGSL_GPUMEM_SYNC_CACHE,
        IOCTL_KGSL_GPU_COMMAND,
        IOCTL_KGSL_GET_FAULT_REPORT,
        DRM_IOCTL_MSM_GET_PARAM,
        DRM_IOCTL_MSM_GEM_INFO,
        DRM_IOCTL_MSM_GEM_CPU_PREP,
        DRM_IOCTL_MSM_GEM_SUBMIT,
        DRM_IOCTL_MSM_SUBMITQUEUE_NEW,
        DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE,
        DRM_IOCTL_MSM_SUBMITQUEUE_QUERY,
        DRM_IOCTL_GEM_CLOSE,
    };
    static uint64_t memory[8192];
    uint32_t round, i;
    struct rig r;
    size_t k;

    (void)state;
    srand(3);
    for (k = 1; k < 4; k += 2) {
        open_rig(&r, specs[k], 0);
        for (round = 0; round < 20000; round++) {
            uint64_t arg[16] = {0};
            uint32_t *half = (uint32_t *)arg;
            for (i = 0; i < 16; i++) {
                half[2 * i] = (uint32_t)rand() % 9;
                half[2 * i + 1] = rand() % 3 ? 0 : (uint32_t)rand() % 40;
                if (rand() % 3 == 0)
                    arg[i] = (uintptr_t)memory;
                else if (arg[i] >> 32 && rand() % 2)
                    arg[i] = 0;
            }
            for (i = 0; i < 64; i++)
                memory[i] = (uint32_t)rand() % 70;
            /* what looks like an address elsewhere is one of nothing */
            for (i = 0; i < 16; i++) {
                if (arg[i] >> 32 && arg[i] != (uintptr_t)memory)
                    arg[i] &= UINT32_MAX;
                if (arg[i] != (uintptr_t)memory && arg[i] > 200)
                    arg[i] = 0;
            }
            /* not by kio_ioctl, which prints what pointers lead to */
            (void)r.kio->ops->ioctl(
                r.kio, r.file.fd,
                requests[(size_t)rand() % ARRAY_LEN(requests)], arg);
        }
        close_rig(&r);
    }
}

static void
test_capture(void **state)
{
    char path[] = "/tmp/qcom_rdXXXXXX", spec[64];
    uint32_t head[2], seen[16] = {0}, words[3];
    uint64_t chip = 0, at = 0;
    struct rig r;
    FILE *f;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(spec, sizeof(spec), "a740,rd=%s", path);
    open_rig(&r, spec, 0);
    run(&r);
    run(&r);
    at = r.parts[WORDS].va;
    close_rig(&r);
    f = fopen(path, "rb");
    assert_non_null(f);
    while (fread(head, 8, 1, f) == 1) {
        assert_true(head[0] < ARRAY_LEN(seen));
        if (head[0] == 14) {
            assert_int_equal(fread(&chip, 8, 1, f), 1);
        } else if (head[0] == 6) {
            assert_int_equal(fread(words, 12, 1, f), 1);
            assert_int_equal(words[0] | (uint64_t)words[2] << 32, at);
            assert_int_equal(words[1], ARRAY_LEN(a740_words));
        } else {
            assert_int_equal(fseek(f, (long)head[1], SEEK_CUR), 0);
        }
        seen[head[0]]++;
    }
    fclose(f);
    remove(path);
    assert_int_equal(chip, 0x43050a01);
    assert_int_equal(seen[6], 2);
    assert_int_equal(seen[3], 2 * N_PARTS);
    assert_int_equal(seen[12], 2 * N_PARTS);
}

static void
test_specs(void **state)
{
    static const char *const wrong[] = {"",       "a630x",    "a610",
                                        "x1-85x", "a740,rd=", "a740,x=1",
                                        "-msm",   "gfx942"};
    struct kio *kio;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(kio_sim_create("QCOM", wrong[i], &kio),
                         BELL_E_NO_DEVICE);
        assert_non_null(strstr(bell_error_last()->message, "a740"));
    }
    assert_int_equal(kio_sim_create("QCOM", "a740,rd=/nowhere/file", &kio),
                     BELL_E_IO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_ubos),
        cmocka_unit_test(test_not_coherent),
        cmocka_unit_test(test_page_fault),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_unlisted),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wrong_words),
        cmocka_unit_test(test_missing_state),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_noise_calls),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_specs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
