/* The control half of hcq/amd on simulated cards: sizes by the table of
 * boards, opening, what is told of a card, memory of every kind, pinned pages,
 * signals, doorbells, sharing between cards, copies, recordings; and that
 * nothing of it is left in the kernel.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/map.h"
#include "base/thread.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/amd/regs/amd_object.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/sim_amd.h"
#include "tests/unit/expect.h"
#include "tests/unit/usage.h"
#include "tests/unit/sim_kept.h"

#define MIB (1u << 20)

static struct amd_device *
open_amd(const char *name)
{
    struct hcq_device *dev = NULL;
    bell_status status = hcq_device_open(name, &dev);

    if (status != BELL_OK)
        fail_msg("%s: %s", name, bell_error_last()->message);
    return amd_device_of(dev);
}

static void
close_amd(struct amd_device *dev)
{
    hcq_device_close(&dev->base);
    expect_kept();
}

static void
usage_of(const struct amd_device *dev, struct sim_amd_usage *out_usage)
{
    sim_amd_usage(dev->process->kio, out_usage);
}

static void
fill(uint8_t *data, size_t n, uint32_t seed)
{
    size_t i;

    for (i = 0; i < n; i++)
        data[i] = (uint8_t)(hash_mix(seed + i / 8) >> (i % 8 * 8));
}

/* ---- sizes --------------------------------------------------------------- */

/* src: docs/hardware/amd-kernel.md, "Save area", the table of boards;
 * docs/hardware/amd-queues.md, "Scratch", by hand. */
static const struct board {
    const char *name;
    uint32_t version, lds_kib;
    uint32_t simd_count, simd_per_cu, n_xcc, array_count, arrays_per_engine;
    uint32_t control_stack, save;
    uint64_t total;
    uint32_t lane_bytes, lane_rounded, tmpring; /* scratch */
    uint64_t xcc_bytes;
} boards[] = {
    {"7900XTX", 110000, 64, 192, 2, 1, 12, 2, 0xa000, 0x2bea000, 0x2c02000, 256,
     256, 0x40200, 50331648},
    {"9070XT", 120001, 64, 128, 2, 1, 8, 2, 0x7000, 0x1d47000, 0x1d57000, 3, 4,
     0x1200, 524288},
    {"MI300X", 90402, 64, 1216, 4, 8, 32, 1, 0x3000, 0x1621000, 0xb167000, 100,
     112, 0x74c0, 8716288},
    {"MI350X", 90402, 160, 1024, 4, 8, 32, 1, 0x3000, 0x15a3000, 0xad68000, 16,
     16, 0x1400, 1048576},
    {"gfx1030", 100300, 64, 144, 2, 1, 8, 2, 0x7000, 0x17ef000, 0x1801000, 20,
     32, 0x2900, 4718592},
    /* at their limits: the control stack's, waves of an array, waves */
    {"6900XT", 100300, 64, 160, 2, 1, 8, 2, 0x7000, 0x1a97000, 0x1aab000, 0, 0,
     0, 0},
    {"gfx90a", 90010, 64, 832, 4, 1, 8, 1, 0x9000, 0x7919000, 0x7939000, 16, 16,
     0x1fff, 6815744},
};

static void
sizes_of_boards(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(boards); i++) {
        const struct board *b = &boards[i];
        struct amd_topology t = {
            .n_xcc = b->n_xcc,
            .n_cu = b->simd_count / b->simd_per_cu / b->n_xcc,
            .n_arrays = b->array_count,
            .n_engines = b->array_count / b->arrays_per_engine / b->n_xcc,
            .scratch_slots_per_cu = 32,
        };
        struct amd_scratch_sizes scratch;
        struct amd_save_sizes sizes;
        struct amd_gen gen;

        assert_non_null(amd_gen_find(b->version));
        gen = *amd_gen_find(b->version);
        gen.max_lds_bytes = b->lds_kib * 1024; /* of gfx950 */
        amd_save_sizes(&gen, chip_amd_find(b->version)->n_regs * 4, &t, 4096,
                       &sizes);
        assert_int_equal(sizes.control_stack_bytes, b->control_stack);
        assert_int_equal(sizes.save_bytes, b->save);
        assert_int_equal(sizes.total_bytes, b->total);
        amd_scratch_sizes(&gen, &t, b->lane_bytes, &scratch);
        assert_int_equal(scratch.lane_bytes, b->lane_rounded);
        assert_int_equal(scratch.tmpring, b->tmpring);
        assert_int_equal(scratch.xcc_bytes, b->xcc_bytes);
    }
    assert_null(amd_gen_find(90500));
}

/* A kernel that thinks that the chip has fewer registers. */
static void
old_save_area(void **state)
{
    static const char *const names[] = {"AMD@sim:gfx1151",
                                        "AMD@sim:gfx1151,saves=exact",
                                        "AMD@sim:gfx1103,saves=exact"};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names); i++) {
        struct amd_device *dev = open_amd(names[i]);
        struct hcq_queue *queue;

        expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COMPUTE, &queue));
        assert_int_equal(dev->process->cards[dev->card].has_old_saves, i == 1);
        close_amd(dev);
    }
}

/* What a queue's structure says of scratch: of AQL queues alone. */
static void
queue_structure(void **state)
{
    struct amd_object_aql_queue queue, was;
    const struct amd_scratch scratch = {.mem = {.va = 0x7f1234567000},
                                        .lane_bytes = 112,
                                        .tmpring = 0x74c0,
                                        .xcc_bytes = 8716288};
    struct amd_channel channel = {.kind = AMD_RING_PM4, .scratch = &scratch};

    (void)state;
    memset(&queue, 0xee, sizeof(queue));
    was = queue;
    channel.pointers.cpu = (void *)&queue;
    amd_channel_set_scratch(&channel);
    assert_memory_equal(&queue, &was, sizeof(queue));
    channel.kind = AMD_RING_AQL;
    amd_channel_set_scratch(&channel);
    was.scratch_base = 0x7f1234567000;
    was.scratch_resource[0] = 0x34567000;
    was.scratch_resource[1] = 0x80007f12;
    was.scratch_resource[2] = 8716288;
    was.scratch_resource[3] = 0x00ea4fac;
    was.tmpring_size = 0x74c0;
    was.scratch_lane_bytes = 112;
    assert_memory_equal(&queue, &was, sizeof(queue));
}

/* src: docs/hardware/amd.md, "Generations"; docs/hardware/amd-queues.md, "PM4"
 */
static void
limits_of_generations(void **state)
{
    static const struct {
        uint32_t version, unit, bits, rsrc3, dma_max;
        bool architected, aql, priv, gcr, has_move;
        uint32_t machine, filler;
    } rows[] = {
        {90010, 1024, 13, 0x2e2d, 0x3ffffff, false, false, false, false, false,
         0x3f, 0xbf800000},
        {90402, 1024, 13, 0x2e2d, 0, true, true, false, false, true, 0x4c,
         0xbf800000},
        {100300, 1024, 13, 0x2e28, 0x3ffffff, false, false, false, true, false,
         0x36, 0xbf9f0000},
        {110000, 256, 15, 0x2e28, 0x7fff, true, false, true, true, true, 0x41,
         0xbf9f0000},
        {120001, 256, 18, 0x2e28, 0x7fff, true, false, false, true, true, 0x4e,
         0xbf9f0000},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct amd_gen *gen = amd_gen_find(rows[i].version);

        assert_non_null(gen);
        assert_int_equal(gen->scratch_unit_bytes, rows[i].unit);
        assert_int_equal(gen->scratch_size_bits, rows[i].bits);
        assert_int_equal(gen->rsrc3_reg, rows[i].rsrc3);
        assert_int_equal(gen->architected_scratch, rows[i].architected);
        assert_int_equal(gen->uses_aql, rows[i].aql);
        assert_ptr_equal(chip_amd_of_machine(rows[i].machine),
                         chip_amd_find(rows[i].version));
        assert_int_equal(gen->code_filler, rows[i].filler);
        assert_int_equal(gen->sets_priv, rows[i].priv);
        assert_int_equal(gen->has_gcr, rows[i].gcr);
        assert_true(gen->dma_max_bytes <= rows[i].dma_max);
        assert_true(gen->dma_max_bytes >= rows[i].dma_max / 2);
        assert_int_equal(gen->dma_max_bytes % 32, 0);
        assert_int_equal(gen->move != NULL, rows[i].has_move);
    }
}

/* ---- how calls are told -------------------------------------------------- */

/* The tables of ioctl/ against the structs that are sent. */
static void
names_of_calls(void **state)
{
    static const struct {
        unsigned long request;
        const char *name;
    } rows[] = {
        {KFD_GET_VERSION, "AMDKFD_IOC_GET_VERSION"},
        {KFD_CREATE_QUEUE, "AMDKFD_IOC_CREATE_QUEUE"},
        {KFD_DESTROY_QUEUE, "AMDKFD_IOC_DESTROY_QUEUE"},
        {KFD_GET_CLOCKS, "AMDKFD_IOC_GET_CLOCK_COUNTERS"},
        {KFD_UPDATE_QUEUE, "AMDKFD_IOC_UPDATE_QUEUE"},
        {KFD_CREATE_EVENT, "AMDKFD_IOC_CREATE_EVENT"},
        {KFD_DESTROY_EVENT, "AMDKFD_IOC_DESTROY_EVENT"},
        {KFD_SET_EVENT, "AMDKFD_IOC_SET_EVENT"},
        {KFD_RESET_EVENT, "AMDKFD_IOC_RESET_EVENT"},
        {KFD_WAIT_EVENTS, "AMDKFD_IOC_WAIT_EVENTS"},
        {KFD_GET_APERTURES, "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW"},
        {KFD_ACQUIRE_VM, "AMDKFD_IOC_ACQUIRE_VM"},
        {KFD_ALLOC_MEMORY, "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU"},
        {KFD_FREE_MEMORY, "AMDKFD_IOC_FREE_MEMORY_OF_GPU"},
        {KFD_MAP_MEMORY, "AMDKFD_IOC_MAP_MEMORY_TO_GPU"},
        {KFD_UNMAP_MEMORY, "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU"},
        {KFD_SET_XNACK, "AMDKFD_IOC_SET_XNACK_MODE"},
        {KFD_AVAILABLE_MEMORY, "AMDKFD_IOC_AVAILABLE_MEMORY"},
        {KFD_RUNTIME_ENABLE, "AMDKFD_IOC_RUNTIME_ENABLE"},
    };
    struct kfd_create_queue queue = {.ring_bytes = 4096,
                                     .gpu_id = 0x5001,
                                     .queue_id = 3,
                                     .control_stack_bytes = 0xa000,
                                     .sdma_engine = 7};
    struct kio_call_desc call;
    char text[256];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        kio_describe(KIO_DEV_KFD, 0, rows[i].request, &call);
        assert_true(call.known);
        assert_string_equal(call.name, rows[i].name);
        assert_int_equal(call.args->size_bytes, call.size_bytes);
    }
    kio_describe(KIO_DEV_KFD, 0, KFD_CREATE_QUEUE, &call);
    kio_struct_format(call.args, &queue, sizeof(queue), text, sizeof(text));
    assert_string_equal(text, "ring_size=4096 gpu_id=0x5001 queue_id=3 "
                              "ctl_stack_size=40960 sdma_engine_id=7");
    kio_describe(KIO_DEV_KFD, 5, KFD_CREATE_QUEUE_OLD, &call);
    assert_int_equal(call.size_bytes, 88);
    kio_struct_format(call.args, &queue, 88, text, sizeof(text));
    assert_null(strstr(text, "engine"));
    kio_describe(KIO_DEV_DRM, 0, AMDGPU_INFO_REQUEST, &call);
    assert_string_equal(call.name, "DRM_IOCTL_AMDGPU_INFO");
    assert_int_equal(call.args->size_bytes, sizeof(struct amdgpu_info));
    kio_describe(KIO_DEV_KFD, 0, 0xc0104b7f, &call);
    assert_false(call.known);
    assert_int_equal(call.size_bytes, 16);
}

/* ---- the card ------------------------------------------------------------ */

static void
tells_what_it_is(void **state)
{
    static const char *const specs[] = {"gfx1100",          "gfx942",
                                        "gfx942*2",         "gfx1100,kfd=1.11",
                                        "gfx1100,kfd=1.14", "gfx1100,kfd=1.22",
                                        "gfx942,kfd=1.23"};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(specs); i++) {
        struct hcq_device_info info = {.struct_size = sizeof(info)};
        size_t len = strcspn(specs[i], "*,");
        struct hcq_queue *queue;
        struct amd_device *dev;
        char name[64];
        uint32_t mhz;

        snprintf(name, sizeof(name), "AMD@sim:%s", specs[i]);
        dev = open_amd(name);
        hcq_device_info(&dev->base, &info);
        assert_int_equal(strlen(info.arch), len);
        assert_memory_equal(info.arch, specs[i], len);
        assert_string_equal(info.backend, "AMD");
        assert_true(info.flags & HCQ_DEVICE_SIMULATED);
        assert_true(info.n_units > 0 && info.memory_bytes >= MIB);
        assert_int_equal(info.max_shared_bytes, 65536);
        assert_int_equal(info.timestamp_hz, 100000000);
        expect_ok(hcq_device_clock_mhz(&dev->base, &mhz));
        assert_int_equal(mhz, 2100);
        assert_true(strncmp(info.model, "Simulated ", 10) == 0);
        assert_non_null(dev->process->cards[dev->card].hdp);
        snprintf(name, sizeof(name), "AMD:0@sim:%s", specs[i]);
        assert_string_equal(info.name, name);
        expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COMPUTE, &queue));
        hcq_queue_destroy(queue);
        close_amd(dev);
    }
}

static void
refuses_names(void **state)
{
    static const char *const unknown[] = {
        "AMD@sim:gfx17",
        "AMD@sim:gfx942*0",
        "AMD@sim:gfx942*9",
        "AMD@sim:gfx942*2x",
        "AMD@sim:gfx1100,kfd=1.10",
        "AMD@sim:sm_90",
        "AMD@sim:gfx1100,kfd=1.24",
        "AMD@sim:gfx1100,",
    };
    struct hcq_device *dev = NULL;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(unknown); i++) {
        assert_int_equal(hcq_device_open(unknown[i], &dev), BELL_E_NO_DEVICE);
        assert_non_null(strstr(bell_error_last()->message, "gfx942"));
    }
    assert_int_equal(hcq_device_open("AMD:1@sim:gfx1100", &dev),
                     BELL_E_NO_DEVICE);
    assert_non_null(
        strstr(bell_error_last()->message, "no card 1: there is 1"));
    assert_int_equal(hcq_device_open("AMD:2@sim:gfx942*2", &dev),
                     BELL_E_NO_DEVICE);
    assert_null(dev);
    expect_kept();
}

/* Without a real card none is told of, and none opens. */
static void
enumerates(void **state)
{
    struct hcq_device_desc list[32];
    struct hcq_device *dev = NULL;
    size_t n = 0, i, n_amd = 0;

    (void)state;
    expect_ok(hcq_device_enumerate(list, ARRAY_LEN(list), &n));
    for (i = 0; i < n && i < ARRAY_LEN(list); i++) {
        if (strcmp(list[i].backend, "AMD") != 0)
            continue;
        n_amd++;
        assert_true(list[i].usable || list[i].why_not[0]);
    }
    if (n_amd == 0)
        assert_int_not_equal(hcq_device_open("AMD", &dev), BELL_OK);
}

static void
clocks_agree(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    uint64_t before, after, ns;
    uint32_t mhz;
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_signal_create(&dev->base, 0, &sig));
    expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue));
    before = time_now_ns();
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_timestamp(cs, sig);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    after = time_now_ns();
    ns = hcq_timestamp_to_ns(&dev->base, hcq_signal_timestamp(sig));
    assert_true(ns + 2000000 > before && ns < after + 2000000);
    hcq_queue_destroy(queue);
    hcq_signal_destroy(sig);
    close_amd(dev);
    /* power management is off */
    dev = open_amd("AMD@fault:DRM_IOCTL_AMDGPU_INFO:2=ENOENT@sim:gfx1100");
    assert_int_equal(hcq_device_clock_mhz(&dev->base, &mhz),
                     BELL_E_UNSUPPORTED);
    assert_int_equal(bell_error_last()->sys_errno, ENOENT);
    close_amd(dev);
}

/* They share the kernel's process, and nothing else. */
static void
two_openings(void **state)
{
    struct amd_device *a = open_amd("AMD@sim:gfx1100");
    struct amd_device *b = open_amd("AMD:0@sim:gfx1100");
    struct sim_amd_usage usage;
    struct hcq_buffer *of_a, *of_b, *seen;
    struct hcq_signal *sig;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    (void)state;
    assert_ptr_equal(a->process, b->process);
    expect_ok(hcq_buffer_create(&a->base, 5000, HCQ_MEM_HOST_VISIBLE, &of_a));
    expect_ok(hcq_buffer_create(&b->base, 5000, HCQ_MEM_HOST_VISIBLE, &of_b));
    expect_ok(hcq_buffer_create_peer(&b->base, of_a, &seen));
    expect_ok(hcq_signal_create(&a->base, 0, &sig));
    expect_ok(hcq_queue_create(&b->base, HCQ_QUEUE_COPY, &queue));
    fill(of_a->host, 5000, 3);
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, of_b->va, seen->va, 5000);
    hcq_cs_signal(cs, sig, 9);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_signal_wait(sig, 9, HCQ_TIMEOUT_NS));
    assert_memory_equal(of_b->host, of_a->host, 5000);
    hcq_queue_destroy(queue);
    hcq_signal_destroy(sig);
    hcq_buffer_destroy(seen);
    hcq_device_close(&b->base); /* with a buffer that is still there */
    expect_ok(hcq_queue_create(&a->base, HCQ_QUEUE_COMPUTE, &queue));
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(of_a);
    usage_of(a, &usage);
    assert_int_equal(usage.queues, 0);
    close_amd(a);
}

/* ---- one process, many openings ------------------------------------------ */

/* Some work of every kind on an opening of its own. */
static void
open_and_work(const char *name, uint32_t seed)
{
    struct amd_device *dev = open_amd(name);
    struct hcq_buffer *from, *to;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    expect_ok(hcq_buffer_create(&dev->base, 9000, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(&dev->base, 9000, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_queue_create(
        &dev->base, seed % 2 ? HCQ_QUEUE_COPY : HCQ_QUEUE_COMPUTE, &queue));
    fill(from->host, 9000, seed);
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, to->va, from->va, 9000);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    assert_memory_equal(to->host, from->host, 9000);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(to);
    hcq_buffer_destroy(from);
    hcq_device_close(&dev->base);
}

/* The kernel's state of the process outlives every opening: the next one goes
 * on with it, and there is never more of it. */
static void
openings_in_sequence(void **state)
{
    static const char *const names[] = {
        "AMD@sim:gfx1100", "AMD@sim:gfx942", "AMD:0@sim:gfx942*2",
        "AMD:1@sim:gfx942*2", "AMD@sim:gfx1100,kfd=1.11"};
    struct sim_amd_usage first, last;
    struct usage before;
    uint32_t turn;
    size_t i;

    (void)state;
    for (turn = 0; turn <= 40; turn++) {
        for (i = 0; i < ARRAY_LEN(names); i++)
            open_and_work(names[i], turn);
        expect_kept();
        if (turn)
            continue;
        sim_amd_usage_all(&first);
        before = usage_now();
    }
    sim_amd_usage_all(&last);
    assert_memory_equal(&first, &last, sizeof(first));
    usage_expect(before, 40, "200 openings");
}

static void *
work_in_thread(void *user)
{
    uint32_t turn, seed = *(uint32_t *)user;

    for (turn = 0; turn < 10; turn++)
        open_and_work(seed % 3 ? "AMD@sim:gfx1100" : "AMD:1@sim:gfx942*2",
                      seed + turn);
    return NULL;
}

static void
openings_at_once(void **state)
{
    pthread_t threads[6];
    uint32_t seeds[6], i;

    (void)state;
    for (i = 0; i < 6; i++) {
        seeds[i] = i;
        assert_int_equal(
            pthread_create(&threads[i], NULL, work_in_thread, &seeds[i]), 0);
    }
    for (i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    expect_kept();
}

/* ---- waits that last ----------------------------------------------------- */

#define HOLD_NS 60000000u

static void *
let_go(void *sig)
{
    const struct timespec hold = {.tv_nsec = HOLD_NS};

    nanosleep(&hold, NULL);
    hcq_signal_set(sig, 1);
    return NULL;
}

/* A queue that is held for a while, waited for: how often the waiter gave the
 * processor back. */
static long
wait_while_held(struct hcq_device *dev, struct hcq_queue *queue)
{
    struct rusage before, after;
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    pthread_t thread;

    expect_ok(hcq_signal_create(dev, 0, &sig));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    assert_int_equal(pthread_create(&thread, NULL, let_go, sig), 0);
    getrusage(RUSAGE_THREAD, &before);
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    getrusage(RUSAGE_THREAD, &after);
    pthread_join(thread, NULL);
    hcq_signal_destroy(sig);
    return after.ru_nvcsw - before.ru_nvcsw;
}

/* The end of the work wakes who sleeps in the kernel, who did not look more
 * than a few times meanwhile. Now and then a wait ends while it looks. */
static void
long_waits_sleep(void **state)
{
    static const char *const names[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942"};
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names) * 2; i++) {
        struct amd_device *dev = open_amd(names[i / 2]);
        uint64_t age = atomic_load(&dev->process->signal_age);
        struct hcq_queue *queue;
        int turn;

        expect_ok(hcq_queue_create(&dev->base, kinds[i % 2], &queue));
        for (turn = 0; turn < 20; turn++) {
            long n_looks = wait_while_held(&dev->base, queue);

            if (n_looks > 300)
                fail_msg("%s: %ld naps in 60 ms", names[i / 2], n_looks);
            if (atomic_load(&dev->process->signal_age) != age)
                break;
        }
        if (turn == 20)
            fail_msg("%s: nothing woke %s", names[i / 2], queue->name);
        hcq_queue_destroy(queue);
        close_amd(dev);
    }
}

/* ---- memory -------------------------------------------------------------- */

/* Every kind, small and large; none overlaps another; what the CPU writes is
 * there, and all of it goes away. */
static void
kinds_and_sizes(void **state)
{
    static const uint64_t sizes[] = {0,     1,       4095,        4096,
                                     70001, 3 * MIB, 33 * MIB + 1};
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    struct amd_mem mems[AMD_MEM_KIND_COUNT][ARRAY_LEN(sizes)];
    struct sim_amd_usage before, after;
    uint32_t kind;
    size_t i;

    (void)state;
    usage_of(dev, &before);
    for (kind = 0; kind < AMD_MEM_KIND_COUNT; kind++) {
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            struct amd_mem *mem = &mems[kind][i];
            uint64_t pages = sizes[i] ? (sizes[i] + 4095) / 4096 : 1;

            expect_ok(amd_mem_alloc(dev, sizes[i], kind, mem));
            assert_int_equal(mem->size_bytes, pages * 4096);
            assert_int_equal(mem->va % (sizes[i] > 2 * MIB ? 2 * MIB : 4096),
                             0);
            assert_ptr_equal(mem->cpu, kind == AMD_MEM_VRAM
                                           ? NULL
                                           : (void *)(uintptr_t)mem->va);
            if (mem->cpu)
                fill(mem->cpu, sizes[i], kind * 100 + (uint32_t)i);
        }
    }
    for (kind = 0; kind < AMD_MEM_KIND_COUNT; kind++) {
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            struct amd_mem *mem = &mems[kind][i];
            uint8_t want[256];
            size_t n = sizes[i] < 256 ? sizes[i] : 256;

            fill(want, n, kind * 100 + (uint32_t)i);
            if (mem->cpu && n)
                assert_memory_equal(mem->cpu, want, n);
            amd_mem_free(dev, mem);
            assert_int_equal(mem->va, 0);
        }
    }
    usage_of(dev, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    close_amd(dev);
}

static void
out_of_memory(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    struct sim_amd_usage before, after;
    struct amd_mem mem = {0};

    (void)state;
    usage_of(dev, &before);
    assert_int_equal(
        amd_mem_alloc(dev, dev->base.info.memory_bytes * 2, AMD_MEM_VRAM, &mem),
        BELL_E_NO_MEMORY);
    assert_non_null(strstr(bell_error_last()->message, "AMD:0@sim:gfx1100"));
    assert_int_equal(amd_mem_alloc(dev, UINT64_MAX, AMD_MEM_GTT, &mem),
                     BELL_E_NO_MEMORY);
    amd_mem_free(dev, &mem); /* a zeroed one is allowed */
    usage_of(dev, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    close_amd(dev);
}

/* Writes and reads back, at odd offsets and of all sizes, whichever way the
 * bytes go. */
static void
check_access(struct hcq_buffer *buf, uint32_t seed)
{
    static const uint64_t sizes[] = {1, 7, 2048, 65537, 3 * MIB + 5};
    uint8_t *want = malloc(4 * MIB), *got = malloc(4 * MIB);
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t offset = i * 1237, n = sizes[i];

        fill(want, n, seed + (uint32_t)i);
        memset(got, 0, n);
        expect_ok(hcq_buffer_write(buf, offset, want, n));
        expect_ok(hcq_buffer_read(buf, offset, got, n));
        assert_memory_equal(got, want, n);
        if (buf->host)
            assert_memory_equal((uint8_t *)buf->host + offset, want, n);
    }
    free(want);
    free(got);
}

static void
host_access(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx942");
    struct hcq_buffer *on_card, *visible, *pinned;
    uint8_t *pages = malloc(4 * MIB + 3);

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, 4 * MIB, 0, &on_card));
    expect_ok(
        hcq_buffer_create(&dev->base, 4 * MIB, HCQ_MEM_HOST_VISIBLE, &visible));
    expect_ok(
        hcq_buffer_create_pinned(&dev->base, pages + 3, 4 * MIB, &pinned));
    assert_non_null(visible->host);
    assert_ptr_equal(pinned->host, pages + 3);
    assert_int_equal(pinned->va % 4096, (uintptr_t)(pages + 3) % 4096);
    check_access(on_card, 1);
    check_access(visible, 2);
    check_access(pinned, 3);
    hcq_buffer_destroy(pinned);
    hcq_buffer_destroy(visible);
    hcq_buffer_destroy(on_card);
    close_amd(dev);
    free(pages);
}

/* Each buffer's bytes, from its first to its last, are its own, pinned or not,
 * in whatever order others come and go. */
static void
buffers_in_any_order(void **state)
{
    enum {
        N = 6
    };
    static const uint8_t order[N] = {2, 0, 5, 1, 4, 3};
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    uint8_t *pages = aligned_alloc(4096, 2 * N * 4096), got[2];
    struct hcq_buffer *pinned[N], *own[N];
    uint32_t i, k;

    (void)state;
    assert_non_null(pages);
    for (i = 0; i < N; i++) {
        expect_ok(hcq_buffer_create_pinned(&dev->base, pages + (size_t)i * 8192,
                                           4096, &pinned[i]));
        expect_ok(hcq_buffer_create(&dev->base, MIB, 0, &own[i]));
    }
    for (i = 0; i < N; i++) {
        for (k = i; k < N; k++) {
            uint8_t first = (uint8_t)(16 * i + k), last = (uint8_t)~first;
            uint8_t *page = pages + (size_t)order[k] * 8192;

            expect_ok(hcq_buffer_write(pinned[order[k]], 0, &first, 1));
            expect_ok(hcq_buffer_write(pinned[order[k]], 4095, &last, 1));
            assert_true(page[0] == first && page[4095] == last);
            expect_ok(hcq_buffer_write(own[order[k]], 0, &first, 1));
            expect_ok(hcq_buffer_write(own[order[k]], MIB - 1, &last, 1));
        }
        for (k = i; k < N; k++) {
            expect_ok(hcq_buffer_read(own[order[k]], 0, got, 1));
            expect_ok(hcq_buffer_read(own[order[k]], MIB - 1, got + 1, 1));
            assert_int_equal(got[0], 16 * i + k);
            assert_int_equal(got[1], (uint8_t)~got[0]);
        }
        hcq_buffer_destroy(pinned[order[i]]);
        hcq_buffer_destroy(own[order[i]]);
        hcq_memory_trim(&dev->base);
    }
    assert_null(dev->process->pinned);
    close_amd(dev);
    free(pages);
}

/* How many pieces a copy engine has brought. */
static uint64_t
pieces_read(const struct amd_device *dev)
{
    return dev->control->reader.value;
}

/* Every size around a piece is right, from odd places too. */
static void
check_reads(struct amd_device *dev, struct hcq_buffer *buf, bool by_engine)
{
    static const uint32_t sizes[] = {16383,       16384,         262143,
                                     262144,      262145,        524288,
                                     2 * MIB - 5, 3 * 262144 + 1};
    static const uint32_t pieces[] = {0, 1, 1, 1, 2, 2, 8, 4};
    uint8_t *want = malloc(2 * MIB), *got = malloc(2 * MIB);
    uint32_t i;

    fill(want, 2 * MIB, 77);
    expect_ok(hcq_buffer_write(buf, 0, want, 2 * MIB));
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t before = pieces_read(dev);
        uint32_t at = i % 5;

        memset(got, 0, 2 * MIB);
        expect_ok(hcq_buffer_read(buf, at, got, sizes[i]));
        assert_memory_equal(got, want + at, sizes[i]);
        assert_int_equal(got[sizes[i]], 0);
        assert_int_equal(pieces_read(dev) - before, by_engine ? pieces[i] : 0);
    }
    free(want);
    free(got);
}

/* Large reads of the card's memory are a copy engine's, and where there is
 * none they are right. */
static void
reads_by_engine(void **state)
{
    static const char *const with[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942"};
    static const char *const without[] = {
        "AMD@fault:AMDKFD_IOC_CREATE_QUEUE=EINVAL@sim:gfx1100",
        "AMD@fault:AMDKFD_IOC_CREATE_QUEUE=ENOMEM@sim:gfx942"};
    const struct hcq_signal *signal;
    struct hcq_buffer *buf;
    uint64_t staging_va;
    uint32_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct amd_device *dev = open_amd(with[i]);

        expect_ok(hcq_buffer_create(&dev->base, 2 * MIB, 0, &buf));
        check_reads(dev, buf, true);
        signal = dev->control->reader.signal;
        staging_va = dev->control->reader.staging.va;
        expect_ok(hcq_device_recover(&dev->base)); /* the queue goes */
        check_reads(dev, buf, true);
        assert_ptr_equal(dev->control->reader.signal, signal);
        assert_true(dev->control->reader.staging.va == staging_va);
        hcq_buffer_destroy(buf);
        close_amd(dev);
        dev = open_amd(without[i]);
        expect_ok(hcq_buffer_create(&dev->base, 2 * MIB, 0, &buf));
        check_reads(dev, buf, false);
        assert_true(dev->control->reader.is_off);
        hcq_buffer_destroy(buf);
        close_amd(dev);
    }
}

/* A fault takes the reads' queue with all others: what is read after it is
 * right. */
static void
reads_after_a_fault(void **state)
{
    struct amd_device *dev = open_amd("AMD@fault:poll:1000000=EIO@sim:gfx1100");
    struct hcq_buffer *buf;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, 2 * MIB, 0, &buf));
    expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue));
    check_reads(dev, buf, true);
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, 0xff00000000, buf->va, 64);
    expect_ok(hcq_cs_submit(cs, NULL));
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_E_DEVICE_LOST);
    check_reads(dev, buf, false);
    assert_int_equal(hcq_device_recover(&dev->base), BELL_E_DEVICE_LOST);
    check_reads(dev, buf, false);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(buf);
    close_amd(dev);
}

/* The same page pinned twice, and pages of a buffer: the card sees them at
 * each address. */
static void
pinned_twice(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    uint8_t *pages = calloc(1, 64 * 1024);
    struct hcq_buffer *a, *b, *own, *c;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, 9000, HCQ_MEM_HOST_VISIBLE, &own));
    expect_ok(hcq_buffer_create_pinned(&dev->base, pages + 10, 5000, &a));
    expect_ok(hcq_buffer_create_pinned(&dev->base, pages + 5000, 5000, &b));
    expect_ok(hcq_buffer_create_pinned(&dev->base, (uint8_t *)own->host + 100,
                                       5000, &c));
    expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue));
    pages[5005] = 77;
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, c->va, b->va + 5, 1);          /* own[100] = 77 */
    hcq_cs_copy(cs, own->va + 1, a->va + 4995, 1); /* own[1] = 77 */
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    assert_int_equal(((uint8_t *)own->host)[100], 77);
    assert_int_equal(((uint8_t *)own->host)[1], 77);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(c);
    hcq_buffer_destroy(a);
    hcq_buffer_destroy(b);
    hcq_buffer_destroy(own);
    close_amd(dev);
    free(pages);
}

/* ---- signals ------------------------------------------------------------- */

static void
many_signals(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    struct hcq_signal *sigs[300];
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sigs); i++) {
        expect_ok(hcq_signal_create(&dev->base, i, &sigs[i]));
        assert_int_equal(sigs[i]->va % 64, 0);
    }
    for (i = 0; i < ARRAY_LEN(sigs); i++) {
        assert_int_equal(hcq_signal_value(sigs[i]), i);
        assert_int_equal(hcq_signal_timestamp(sigs[i]), 0);
        for (k = 0; k < i; k++)
            assert_int_not_equal(sigs[i]->va, sigs[k]->va);
    }
    for (i = 0; i < ARRAY_LEN(sigs); i++)
        hcq_signal_destroy(sigs[i]);
    close_amd(dev);
}

/* Another card's signal, through both kinds of queue of this one: told, and
 * waited for. */
static void
signals_between_cards(void **state)
{
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    struct amd_device *a = open_amd("AMD:0@sim:gfx942*2");
    struct amd_device *b = open_amd("AMD:1@sim:gfx942*2");
    struct amd_device *other = open_amd("AMD@sim:gfx1100");
    struct hcq_signal *sig, *far;
    struct hcq_queue *queue, *of_a;
    struct hcq_cs *cs;
    uint64_t value;
    size_t i;

    (void)state;
    expect_ok(hcq_signal_create(&a->base, 0, &sig));
    expect_ok(hcq_signal_create(&other->base, 0, &far));
    expect_ok(hcq_queue_create(&a->base, HCQ_QUEUE_COPY, &of_a));
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        value = i * 10;
        expect_ok(hcq_queue_create(&b->base, kinds[i], &queue));
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_wait(cs, sig, value + 1);
        hcq_cs_signal(cs, sig, value + 5);
        expect_ok(hcq_cs_submit(cs, NULL));
        assert_int_equal(hcq_signal_value(sig), i ? 5 : 0);
        expect_ok(hcq_queue_begin(of_a, &cs));
        hcq_cs_signal(cs, sig, value + 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_signal_wait(sig, value + 5, HCQ_TIMEOUT_NS));
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_signal(cs, far, 5);
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED);
        expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
        hcq_queue_destroy(queue);
    }
    expect_ok(hcq_queue_wait(of_a, HCQ_TIMEOUT_NS));
    hcq_queue_destroy(of_a);
    hcq_signal_destroy(far);
    hcq_signal_destroy(sig);
    hcq_device_close(&other->base);
    hcq_device_close(&b->base);
    close_amd(a);
}

/* ---- other cards' buffers ------------------------------------------------ */

/* b copies from and to memory of a's. */
static void
copies_of_peer(struct amd_device *a, struct amd_device *b, uint32_t flags,
               enum hcq_queue_kind kind)
{
    uint8_t *want = malloc(3 * MIB), *got = malloc(3 * MIB);
    struct hcq_buffer *buf, *peer, *again, *local;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    expect_ok(hcq_buffer_create(&a->base, 3 * MIB, flags, &buf));
    expect_ok(hcq_buffer_create_peer(&b->base, buf, &peer));
    expect_ok(hcq_buffer_create_peer(&b->base, buf, &again));
    assert_int_equal(again->va, buf->va);
    assert_int_equal(peer->va, buf->va);
    hcq_buffer_destroy(again);
    expect_ok(hcq_buffer_create(&b->base, 3 * MIB, 0, &local));
    expect_ok(hcq_queue_create(&b->base, kind, &queue));
    fill(want, 3 * MIB, flags + 5);
    expect_ok(hcq_buffer_write(buf, 0, want, 3 * MIB));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, local->va, peer->va, 3 * MIB);
    hcq_cs_fill(cs, peer->va, 0x01020304, 64);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    expect_ok(hcq_buffer_read(local, 0, got, 3 * MIB));
    assert_memory_equal(got, want, 3 * MIB);
    expect_ok(hcq_buffer_read(peer, 1, got, 100));
    assert_int_equal(got[0], 3);
    assert_memory_equal(got + 63, want + 64, 37);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(local);
    hcq_buffer_destroy(peer);
    hcq_buffer_destroy(buf);
    free(want);
    free(got);
}

static void
trimmed_usage(struct amd_device *a, struct amd_device *b,
              struct sim_amd_usage *out_usage)
{
    hcq_memory_trim(&a->base);
    hcq_memory_trim(&b->base);
    usage_of(a, out_usage);
}

static void
buffers_between_cards(void **state)
{
    struct amd_device *a = open_amd("AMD:0@sim:gfx942*2");
    struct amd_device *b = open_amd("AMD:1@sim:gfx942*2");
    struct amd_device *other = open_amd("AMD@sim:gfx1100");
    struct hcq_buffer *buf, *peer, *far = NULL;
    struct sim_amd_usage before, after;

    (void)state;
    /* pages of signals stay, and the kernel that copies */
    copies_of_peer(a, b, 0, HCQ_QUEUE_COMPUTE);
    copies_of_peer(b, a, 0, HCQ_QUEUE_COMPUTE);
    trimmed_usage(a, b, &before);
    copies_of_peer(a, b, HCQ_MEM_HOST_VISIBLE, HCQ_QUEUE_COPY);
    copies_of_peer(a, b, 0, HCQ_QUEUE_COMPUTE);
    copies_of_peer(b, a, HCQ_MEM_HOST_VISIBLE, HCQ_QUEUE_COMPUTE);
    copies_of_peer(b, a, 0, HCQ_QUEUE_COPY);
    copies_of_peer(a, a, 0, HCQ_QUEUE_COPY);
    trimmed_usage(a, b, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    expect_ok(hcq_buffer_create(&a->base, 100, 0, &buf));
    expect_ok(hcq_buffer_create_peer(&b->base, buf, &peer));
    assert_int_equal(hcq_buffer_create_peer(&other->base, buf, &far),
                     BELL_E_UNSUPPORTED);
    assert_int_equal(hcq_buffer_create_peer(&a->base, peer, &far),
                     BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "ask its owner"));
    hcq_buffer_destroy(peer);
    hcq_buffer_destroy(buf);
    hcq_device_close(&other->base);
    hcq_device_close(&b->base);
    close_amd(a);
}

/* Without its peer a card that reaches for the memory is stopped. */
static void
peers_end(void **state)
{
    struct amd_device *a =
        open_amd("AMD:0@fault:poll:1000000=EIO@sim:gfx942*2");
    struct amd_device *b =
        open_amd("AMD:1@fault:poll:1000000=EIO@sim:gfx942*2");
    struct hcq_buffer *buf, *peer, *local;
    struct hcq_queue *queue;
    struct hcq_fault fault;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_buffer_create(&a->base, 4096, 0, &buf));
    expect_ok(hcq_buffer_create(&b->base, 4096, 0, &local));
    expect_ok(hcq_buffer_create_peer(&b->base, buf, &peer));
    hcq_buffer_destroy(peer);
    expect_ok(hcq_queue_create(&b->base, HCQ_QUEUE_COPY, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, local->va, buf->va, 4096);
    expect_ok(hcq_cs_submit(cs, NULL));
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_E_DEVICE_LOST);
    hcq_device_fault(&b->base, &fault);
    assert_int_equal(fault.va, buf->va);
    expect_ok(hcq_device_status(&a->base));
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(local);
    hcq_buffer_destroy(buf);
    hcq_device_close(&b->base);
    close_amd(a);
}

/* ---- queues -------------------------------------------------------------- */

static void
wait_for_read(const struct amd_channel *channel, uint64_t value)
{
    uint64_t start_ns = time_now_ns();

    while (__atomic_load_n(channel->rptr, __ATOMIC_ACQUIRE) != value) {
        assert_true(time_now_ns() - start_ns < 20000000000ull);
        sched_yield();
    }
}

/* What is stored where. src: docs/hardware/amd-kernel.md, "Doorbells" */
static void
doorbells(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    struct amd_channel pm4, sdma;
    uint64_t first = 0;
    uint32_t i, turn;

    (void)state;
    expect_ok(amd_channel_init(dev, AMD_RING_PM4, 4096, &pm4));
    expect_ok(amd_channel_init(dev, AMD_RING_SDMA, 4096, &sdma));
    assert_int_equal((uintptr_t)pm4.wptr % 4096, 0x38);
    assert_int_equal((uintptr_t)pm4.rptr % 4096, 0x80);
    assert_ptr_not_equal(pm4.doorbell, sdma.doorbell);
    first = *pm4.doorbell;
    assert_true(first == UINT64_MAX);
    for (turn = 0; turn < 5; turn++) {
        for (i = 0; i < 300; i += 2) { /* NOP with one word of body */
            pm4.ring[(pm4.put + i) % 1024] = 0xc0001000;
            pm4.ring[(pm4.put + i + 1) % 1024] = 0xdead;
        }
        pm4.put += 300;
        amd_channel_ring(&pm4);
        assert_int_equal(*pm4.wptr, (turn + 1) * 300);
        assert_int_equal(*pm4.doorbell, (turn + 1) * 300);
        wait_for_read(&pm4, (turn + 1) * 300 % 1024); /* it wraps */
        memset((uint8_t *)sdma.ring + sdma.put % 4096, 0, 1024);
        sdma.put += 1024;
        amd_channel_ring(&sdma);
        assert_int_equal(*sdma.wptr, (turn + 1) * 1024);
        assert_int_equal(*sdma.doorbell, (turn + 1) * 1024);
        wait_for_read(&sdma, (turn + 1) * 1024); /* it does not */
    }
    assert_int_equal(amd_channel_room(&pm4), 1023);
    expect_ok(amd_channel_rebuild(&pm4));
    assert_int_equal(*pm4.rptr, 0);
    assert_int_equal(pm4.put, 0);
    amd_channel_fini(&sdma);
    amd_channel_fini(&pm4);
    close_amd(dev);
}

static void
aql_doorbells(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx942");
    const uint8_t *structure;
    struct amd_channel aql;
    struct amd_mem code;
    uint32_t i, turn, word, *words;

    (void)state;
    expect_ok(amd_channel_init(dev, AMD_RING_AQL, 4096, &aql));
    expect_ok(amd_mem_alloc(dev, 4096, AMD_MEM_GTT, &code));
    words = code.cpu;
    words[0] = 0xc0001000;
    words[1] = 0xdead;
    structure = aql.pointers.cpu;
    memcpy(&word, structure + 72, 4);
    assert_int_equal(word, dev->topology.n_cu * dev->topology.n_xcc - 1);
    memcpy(&word, structure + 136, 4);
    assert_int_equal(word, 0x80);
    memcpy(&word, structure + 180, 4);
    assert_int_equal(word, 10);
    for (i = 0; i < 64; i++)
        assert_int_equal(aql.ring[i * 16], 1);
    for (turn = 0; turn < 5; turn++) {
        for (i = 0; i < 20; i++) {
            uint32_t *packet = aql.ring + (aql.put + i) % 64 * 16;

            packet[1] = 0xc0023f00; /* INDIRECT_BUFFER of NOPs */
            packet[2] = (uint32_t)code.va;
            packet[3] = (uint32_t)(code.va >> 32);
            packet[4] = 2 | 1u << 23;
            packet[5] = 10;      /* words that follow */
            packet[0] = 0x10000; /* of the vendor */
        }
        aql.put += 20;
        amd_channel_ring(&aql);
        assert_int_equal(*aql.wptr, (turn + 1) * 20);
        assert_int_equal(*aql.doorbell, (turn + 1) * 20 - 1);
        wait_for_read(&aql, (turn + 1) * 20);
    }
    assert_int_equal(amd_channel_room(&aql), 64);
    amd_channel_fini(&aql);
    amd_mem_free(dev, &code);
    close_amd(dev);
}

static void
copies(void **state)
{
    static const char *const names[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942",
                                        "AMD:1@sim:gfx942*2",
                                        "AMD@sim:gfx1100,kfd=1.11"};
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names) * 2; i++) {
        struct amd_device *dev = open_amd(names[i / 2]);
        struct hcq_buffer *from, *to;
        struct hcq_queue *queue;
        struct hcq_cs *cs;

        expect_ok(
            hcq_buffer_create(&dev->base, 10000, HCQ_MEM_HOST_VISIBLE, &from));
        expect_ok(
            hcq_buffer_create(&dev->base, 10000, HCQ_MEM_HOST_VISIBLE, &to));
        expect_ok(hcq_queue_create(&dev->base, kinds[i % 2], &queue));
        for (k = 0; k < 100; k++) {
            fill(from->host, 10000, (uint32_t)k);
            expect_ok(hcq_queue_begin(queue, &cs));
            hcq_cs_copy(cs, to->va, from->va, 10000);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
            assert_memory_equal(to->host, from->host, 10000);
        }
        hcq_queue_destroy(queue);
        hcq_buffer_destroy(to);
        hcq_buffer_destroy(from);
        close_amd(dev);
    }
}

/* How large a copy engine's copy may become: as many packets as were laid out,
 * and sixteen at least. */
static void
patched_sizes(void **state)
{
    static const struct {
        uint64_t size, max;
    } rows[] = {
        {16, 16ull * 0x3ff000},
        {16ull * 0x3ff000, 16ull * 0x3ff000},
        {16ull * 0x3ff000 + 1, 17ull * 0x3ff000},
    };
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    struct hcq_stream *stream;
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    uint32_t size;
    size_t i;

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, MIB, 0, &buf));
    expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        expect_ok(hcq_stream_create(queue, "large", &stream));
        size = hcq_stream_patch_point(stream, "size");
        hcq_cs_copy(hcq_stream_cs(stream), buf->va, buf->va, rows[i].size);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_SIZE, size, 0);
        expect_ok(hcq_stream_end(stream));
        expect_ok(hcq_stream_patch(stream, size, rows[i].max));
        assert_int_equal(hcq_stream_patch(stream, size, rows[i].max + 1),
                         BELL_E_INVALID);
        hcq_stream_destroy(stream);
    }
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(buf);
    close_amd(dev);
}

/* ---- recordings ---------------------------------------------------------- */

#define RECORDED_BYTES 8192u

/* A bring-up and some copies, with what the host sees of them. */
static bell_status
bring_up(const char *device, enum hcq_queue_kind kind, uint32_t copy_bytes)
{
    struct hcq_buffer *from, *to;
    struct hcq_device *dev = NULL;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    bell_status status;
    int i;

    status = hcq_device_open(device, &dev);
    if (status == BELL_OK)
        status = hcq_queue_create(dev, kind, &queue);
    if (status == BELL_OK)
        status =
            hcq_buffer_create(dev, RECORDED_BYTES, HCQ_MEM_HOST_VISIBLE, &from);
    if (status == BELL_OK)
        status =
            hcq_buffer_create(dev, RECORDED_BYTES, HCQ_MEM_HOST_VISIBLE, &to);
    for (i = 0; i < 5 && status == BELL_OK; i++) {
        status = hcq_queue_begin(queue, &cs);
        if (status == BELL_OK) {
            hcq_cs_copy(cs, to->va, from->va, copy_bytes);
            hcq_cs_fill(cs, from->va, (uint32_t)i, 64);
            status = hcq_cs_submit(cs, NULL);
        }
        if (status == BELL_OK)
            status = hcq_queue_wait(queue, HCQ_TIMEOUT_NS);
    }
    if (status == BELL_OK) { /* else closing drops what hangs */
        hcq_buffer_destroy(to);
        hcq_buffer_destroy(from);
        hcq_queue_destroy(queue);
    }
    hcq_device_close(dev);
    return status;
}

static void
records_and_replays(void **state)
{
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    static const char *const chips[] = {"gfx1100", "gfx942"};
    char path[64], record[128], replay[96];
    unsigned i;

    (void)state;
#ifdef __SANITIZE_ADDRESS__
    /* The card's addresses are the process's, and a replay needs those of the
     * recording free: a sanitizer's allocator takes them. */
    skip();
#endif
    snprintf(path, sizeof(path), "/tmp/bell-amd-%ld.cas", (long)getpid());
    snprintf(replay, sizeof(replay), "AMD@replay:%s", path);
    for (i = 0; i < 4; i++) {
        snprintf(record, sizeof(record), "AMD@record:%s@sim:%s", path,
                 chips[i / 2]);
        expect_ok(bring_up(record, kinds[i % 2], RECORDED_BYTES));
        expect_kept();
        expect_ok(bring_up(replay, kinds[i % 2], RECORDED_BYTES));
    }
    /* Other words: a wait does not end in time but with what differs. */
    assert_int_equal(bring_up(replay, HCQ_QUEUE_COMPUTE, RECORDED_BYTES / 2),
                     BELL_E_DEVICE_LOST);
    assert_non_null(strstr(bell_error_last()->message, "recorded 0x"));
    unlink(path);
}

/* Writes of the host through the window are told to the card, which may hold
 * them back. */
static void
window_is_flushed(void **state)
{
    struct amd_device *dev = open_amd("AMD@sim:gfx1100");
    struct hcq_buffer *buf;
    uint32_t value = 7;

    (void)state;
    assert_non_null(dev->process->cards[dev->card].hdp);
    expect_ok(hcq_buffer_create(&dev->base, 4096, HCQ_MEM_DEVICE, &buf));
    dev->process->cards[dev->card].hdp[0] = 0;
    expect_ok(hcq_buffer_write(buf, 0, &value, sizeof(value)));
    assert_int_equal(dev->process->cards[dev->card].hdp[0], 1);
    hcq_buffer_destroy(buf);
    close_amd(dev);
}

/* Nodes that are all for others, in a list that has no end. */
static int
refuse_node(struct kio *kio, const char *path, void *buf, size_t cap)
{
    const char *node = strstr(path, "/nodes/");

    (void)kio, (void)buf, (void)cap;
    assert_non_null(node);
    assert_true(strtoul(node + 7, NULL, 10) < 256);
    return -EPERM;
}

static int
no_node(struct kio *kio, const char *path, void *buf, size_t cap)
{
    (void)kio, (void)buf, (void)cap;
    fail_msg("%s is read", path);
    return -ENOENT;
}

static void
lists_of_nodes(void **state)
{
    const struct kio_ops refusing = {.name = "nodes", .read_file = refuse_node};
    const struct kio_ops none = {.name = "none", .read_file = no_node};
    struct kio kio = {.ops = &refusing};
    struct amd_topology list[2];
    uint32_t n = 7;

    (void)state;
    assert_int_equal(amd_topology_list(&kio, list, 2, &n), BELL_E_PERMISSION);
    assert_int_equal(n, 7);
    kio.ops = &none;
    assert_int_equal(amd_topology_list(&kio, list, 0, &n), BELL_OK);
    assert_int_equal(n, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_is_flushed),
        cmocka_unit_test(sizes_of_boards),
        cmocka_unit_test(old_save_area),
        cmocka_unit_test(queue_structure),
        cmocka_unit_test(limits_of_generations),
        cmocka_unit_test(names_of_calls),
        cmocka_unit_test(tells_what_it_is),
        cmocka_unit_test(refuses_names),
        cmocka_unit_test(enumerates),
        cmocka_unit_test(clocks_agree),
        cmocka_unit_test(two_openings),
        cmocka_unit_test(openings_in_sequence),
        cmocka_unit_test(openings_at_once),
        cmocka_unit_test(long_waits_sleep),
        cmocka_unit_test(kinds_and_sizes),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(host_access),
        cmocka_unit_test(buffers_in_any_order),
        cmocka_unit_test(reads_by_engine),
        cmocka_unit_test(reads_after_a_fault),
        cmocka_unit_test(pinned_twice),
        cmocka_unit_test(many_signals),
        cmocka_unit_test(signals_between_cards),
        cmocka_unit_test(buffers_between_cards),
        cmocka_unit_test(peers_end),
        cmocka_unit_test(doorbells),
        cmocka_unit_test(aql_doorbells),
        cmocka_unit_test(copies),
        cmocka_unit_test(lists_of_nodes),
        cmocka_unit_test(patched_sizes),
        cmocka_unit_test(records_and_replays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
