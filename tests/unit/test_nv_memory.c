/* The control half of hcq/nv on simulated cards: opening, what is told of a
 * card, memory of every kind and where it lies, host access, pinned pages,
 * signals, sharing between cards, copies through a queue, and that nothing of
 * it is left in the kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "base/thread.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/regs/nv_qmd.h"
#include "ioctl/kio_fault.h"
#include "sim/nv/sim_nv.h"
#include "tests/unit/expect.h"

#define MIB (1u << 20)

static struct nv_device *
open_nv(const char *name)
{
    struct hcq_device *dev = NULL;
    bell_status status = hcq_device_open(name, &dev);

    if (status != BELL_OK)
        fail_msg("%s: %s", name, bell_error_last()->message);
    return nv_device_of(dev);
}

static void
close_nv(struct nv_device *dev)
{
    hcq_device_close(&dev->base);
    assert_false(sim_nv_machine_exists());
}

static void
fill(uint8_t *data, size_t n, uint32_t seed)
{
    size_t i;

    for (i = 0; i < n; i++)
        data[i] = (uint8_t)(hash_mix(seed + i / 8) >> (i % 8 * 8));
}

/* ---- the card ------------------------------------------------------------ */

static void
tells_what_it_is(void **state)
{
    static const struct {
        const char *spec, *arch;
        uint32_t shared_bytes, qmd;
    } chips[] = {
        {"sm_80", "sm_80", 163 * 1024, 3},
        {"sm_89", "sm_89", 99 * 1024, 3},
        {"sm_90", "sm_90", 227 * 1024, 4},
        {"sm_120", "sm_120", 99 * 1024, 5},
        {"sm_90,branch=535", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=545", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=550", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=555", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=560", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=565", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=570", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=575", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=580", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=590", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=595", "sm_90", 227 * 1024, 4},
        {"sm_90,branch=610", "sm_90", 227 * 1024, 4},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        struct hcq_device_info info = {.struct_size = sizeof(info)};
        struct nv_device *dev;
        char name[64];

        snprintf(name, sizeof(name), "NV@sim:%s", chips[i].spec);
        dev = open_nv(name);
        hcq_device_info(&dev->base, &info);
        assert_string_equal(info.arch, chips[i].arch);
        assert_string_equal(info.backend, "NV");
        assert_int_equal(info.max_shared_bytes, chips[i].shared_bytes);
        assert_int_equal(nv_qmd_unit.gen_ids[dev->chip.compute->launch->gen],
                         chips[i].qmd);
        assert_true(info.flags & HCQ_DEVICE_SIMULATED);
        assert_true(info.n_units > 0 && info.memory_bytes >= MIB);
        assert_true(info.model[0]);
        snprintf(name, sizeof(name), "NV:0@sim:%s", chips[i].spec);
        assert_string_equal(info.name, name);
        close_nv(dev);
    }
}

/* The card's frequency, where the branch's page is known; the kernel's driver
 * may refuse it. */
static void
frequency(void **state)
{
    static const char *const refusing[] = {
        "NV@fault:RM_USER_SHARED_DATA=status=0x56@sim:sm_80",
        "NV@fault:NV_ESC_RM_MAP_MEMORY:3=status=0x56@sim:sm_90"};
    struct hcq_device *dev;
    uint32_t i, mhz;

    (void)state;
    for (i = 0; nv_branch_name(i); i++) {
        char name[40];
        bool known = i > 0 && i < NV_BRANCH_NEWEST;

        snprintf(name, sizeof(name), "NV@sim:sm_120,branch=%s",
                 nv_branch_name(i));
        expect_ok(hcq_device_open(name, &dev));
        mhz = 1;
        assert_int_equal(hcq_device_clock_mhz(dev, &mhz),
                         known ? BELL_OK : BELL_E_UNSUPPORTED);
        assert_int_equal(mhz, known ? 1980 : 1);
        close_nv(nv_device_of(dev));
    }
    for (i = 0; i < ARRAY_LEN(refusing); i++) {
        expect_ok(hcq_device_open(refusing[i], &dev));
        assert_int_equal(hcq_device_clock_mhz(dev, &mhz), BELL_E_KERNEL);
        assert_non_null(strstr(bell_error_last()->message, "0x56"));
        close_nv(nv_device_of(dev));
    }
    expect_ok(hcq_device_open("CPU", &dev));
    assert_int_equal(hcq_device_clock_mhz(dev, &mhz), BELL_E_UNSUPPORTED);
    hcq_device_close(dev);
}

/* GPCs of which the last one is not whole. */
static void
counts_sms(void **state)
{
    static const uint32_t sms[] = {2, 18, 20, 114, 132, 148, 512};
    char name[40];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sms); i++) {
        struct nv_device *dev;

        snprintf(name, sizeof(name), "NV@sim:sm_90,sms=%u", sms[i]);
        dev = open_nv(name);
        assert_int_equal(dev->chip.n_sm, sms[i]);
        assert_true(dev->chip.n_gpc * dev->chip.n_tpc_per_gpc * 2 >= sms[i]);
        close_nv(dev);
    }
}

/* Where confidential computing is on, opening says so, on the oldest layout of
 * the query too. A driver that did not tell then is asked again by the first
 * mapping that fails; and what is not its fault does not say so. */
static void
confidential(void **state)
{
    static const char *const layouts[] = {"NV@sim:sm_90,cc",
                                          "NV@sim:sm_90,branch=535,cc"};
    static const char *const names[] = {
        "NV@fault:NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES:1=EIO@sim:"
        "sm_90,cc",
        "NV@fault:NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES:1=EIO@sim:"
        "sm_90,branch=535,cc"};
    struct hcq_device *none;
    struct nv_device *dev;
    struct nv_mem mem;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(layouts); i++)
        expect_fails(hcq_device_open(layouts[i], &none), BELL_E_UNSUPPORTED,
                     "confidential computing is on");
    for (i = 0; i < ARRAY_LEN(names); i++) {
        dev = open_nv(names[i]);
        expect_fails(nv_mem_alloc(dev, MIB, 4096, NV_MEM_VISIBLE, &mem),
                     BELL_E_KERNEL, "confidential computing is on");
        assert_non_null(
            strstr(bell_error_last()->message, "0x56 NOT_SUPPORTED"));
        close_nv(dev);
    }
    dev = open_nv("NV@fault:poll:1000000=EIO@sim:sm_90");
    expect_ok(kio_fault_set(dev->kio, "NV_ESC_RM_MAP_MEMORY:1+=status=0x56"));
    expect_fails(nv_mem_alloc(dev, MIB, 4096, NV_MEM_VISIBLE, &mem),
                 BELL_E_KERNEL, "0x56 NOT_SUPPORTED");
    assert_null(strstr(bell_error_last()->message, "confidential"));
    close_nv(dev);
}

/* A number of classes that no card has, and one that changes. */
static void
lies_about_classes(void **state)
{
    static const struct {
        const char *plan;
        bell_status want;
        const char *part;
    } lies[] = {
        {"1=reply=8:4096", BELL_OK, NULL},
        {"1=reply=8:4097", BELL_E_KERNEL, "tells of 4097 classes"},
        {"1=reply=8:4294967295", BELL_E_KERNEL, "tells of 4294967295 classes"},
        {"1=reply=8:0", BELL_E_UNSUPPORTED, "none of the 0 classes"},
        {"2=reply=8:4294967295", BELL_OK, NULL},
        {"2=reply=8:0", BELL_E_UNSUPPORTED, "nvidia-smi -mig 0"},
        {"2=reply=8:1", BELL_E_UNSUPPORTED, "none of the 1 classes"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(lies); i++) {
        struct hcq_device *dev = NULL;
        char name[128];

        snprintf(name, sizeof(name), "NV@fault:%s:%s@sim:sm_90",
                 "NV0080_CTRL_CMD_GPU_GET_CLASSLIST", lies[i].plan);
        if (lies[i].want == BELL_OK)
            close_nv(open_nv(name));
        else
            expect_fails(hcq_device_open(name, &dev), lies[i].want,
                         lies[i].part);
    }
}

/* What the driver says of the card, one word of it changed; memory_mib: what
 * is then told on. */
static void
lies_about_the_card(void **state)
{
    static const struct {
        const char *plan;
        uint64_t memory_mib; /* 0: refused */
        const char *part;
    } lies[] = {
        /* a version that is not known: the lowest of the class */
        {"NV2080_CTRL_CMD_GR_GET_INFO=reply=17:291", 8192, NULL},
        {"NV2080_CTRL_CMD_GR_GET_INFO=reply=19:0", 0, "2 SMs, 0 warps"},
        {"NV2080_CTRL_CMD_GR_GET_INFO=reply=21:0", 0, "tells of 0 GPCs"},
        {"NV2080_CTRL_CMD_GR_GET_INFO=reply=23:0", 0, "2 GPCs, 0 TPCs"},
        {"NV2080_CTRL_CMD_GR_GET_INFO=reply=25:0", 0, "2 TPCs, 0 SMs"},
        /* usable memory, and where nothing is said of it all */
        {"NV2080_CTRL_CMD_FB_GET_INFO=reply=15:1048576", 1024, NULL},
        {"NV2080_CTRL_CMD_FB_GET_INFO=reply=15:0", 8192, NULL},
        {"NV2080_CTRL_CMD_FB_GET_INFO=reply=13:0", 8192, NULL},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(lies); i++) {
        struct hcq_device *base = NULL;
        struct nv_device *dev;
        char name[128];

        snprintf(name, sizeof(name), "NV@fault:%s@sim:sm_90", lies[i].plan);
        if (lies[i].part) {
            assert_int_not_equal(hcq_device_open(name, &base), BELL_OK);
            if (!strstr(bell_error_last()->message, lies[i].part))
                fail_msg("%s: %s", lies[i].plan, bell_error_last()->message);
            continue;
        }
        dev = open_nv(name);
        assert_int_equal(dev->base.info.memory_bytes / MIB, lies[i].memory_mib);
        close_nv(dev);
    }
}

static void
refuses_names(void **state)
{
    struct hcq_device *dev = NULL;

    (void)state;
    assert_int_equal(hcq_device_open("NV@sim:sm_17", &dev), BELL_E_NO_DEVICE);
    assert_int_equal(hcq_device_open("NV:1@sim:sm_90", &dev), BELL_E_NO_DEVICE);
    assert_non_null(strstr(bell_error_last()->message, "no card 1"));
    setenv("BELL_NV_VM", "x", 1);
    assert_int_equal(hcq_device_open("NV@sim:sm_90", &dev), BELL_E_INVALID);
    unsetenv("BELL_NV_VM");
    setenv("BELL_NV_DOORBELL", "x", 1);
    assert_int_equal(hcq_device_open("NV@sim:sm_90", &dev), BELL_E_INVALID);
    unsetenv("BELL_NV_DOORBELL");
    assert_null(dev);
    assert_false(sim_nv_machine_exists());
}

/* A page there and back, again and again: a ring that is lost is waited for in
 * vain. */
static void
check_rings(struct hcq_device *dev)
{
    struct hcq_buffer *host, *there;
    struct hcq_queue *queue;
    uint32_t i;

    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue));
    expect_ok(hcq_buffer_create(dev, 8, HCQ_MEM_HOST_VISIBLE, &host));
    expect_ok(hcq_buffer_create(dev, 4, 0, &there));
    for (i = 1; i <= 60; i++) {
        uint32_t *words = host->host;
        struct hcq_cs *cs;

        words[0] = i;
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_copy(cs, there->va, host->va, 4);
        hcq_cs_barrier(cs);
        hcq_cs_copy(cs, host->va + 4, there->va, 4);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_wait(queue, 5000000000u));
        assert_int_equal(words[1], i);
    }
    hcq_buffer_destroy(there);
    hcq_buffer_destroy(host);
    hcq_queue_destroy(queue);
}

/* Which doorbell is rung, and whether GPPut is read back before: from Hopper
 * on that of BAR1; of BAR0 where that is wanted, or BAR1's is not to be had. */
static void
doorbells(void **state)
{
    static const struct {
        const char *name, *bell; /* bell: BELL_NV_DOORBELL */
        bell_status want;
        bool is_bar1, reads_put;
    } rows[] = {
        {"NV@sim:sm_80", NULL, BELL_OK, false, false},
        {"NV@sim:sm_80", "bar0", BELL_OK, false, false},
        {"NV@sim:sm_80", "bar1", BELL_E_UNSUPPORTED, false, false},
        {"NV@sim:sm_90", NULL, BELL_OK, true, false},
        {"NV@sim:sm_90", "bar1", BELL_OK, true, false},
        {"NV@sim:sm_90", "bar0", BELL_OK, false, true},
        {"NV@sim:sm_120", NULL, BELL_OK, true, false},
        {"NV@sim:sm_120", "bar0", BELL_OK, false, true},
        {"NV@fault:HOPPER_USERMODE_A=status=0x56@sim:sm_90", NULL, BELL_OK,
         false, true},
        {"NV@fault:NV_ESC_RM_MAP_MEMORY:2=status=0x56@sim:sm_90", NULL, BELL_OK,
         false, true},
        {"NV@fault:HOPPER_USERMODE_A=status=0x56@sim:sm_90", "bar1",
         BELL_E_KERNEL, false, false},
        {"NV@fault:NV_ESC_RM_MAP_MEMORY:2=status=0x56@sim:sm_90", "bar1",
         BELL_E_KERNEL, false, false},
        {"NV@fault:NV_ESC_RM_MAP_MEMORY=status=0x56@sim:sm_90", NULL,
         BELL_E_KERNEL, false, false},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_device *dev = NULL;
        bell_status status;

        if (rows[i].bell)
            setenv("BELL_NV_DOORBELL", rows[i].bell, 1);
        status = hcq_device_open(rows[i].name, &dev);
        unsetenv("BELL_NV_DOORBELL");
        if (status != rows[i].want)
            fail_msg("row %zu: %s", i, bell_error_last()->message);
        if (status == BELL_OK) {
            const struct nv_device *nv = nv_device_of(dev);

            if ((nv->control->bell.usermode != 0) != rows[i].is_bar1 ||
                nv->reads_put != rows[i].reads_put)
                fail_msg("row %zu: the other doorbell", i);
            check_rings(dev);
            hcq_device_close(dev);
        }
        assert_false(sim_nv_machine_exists());
    }
}

/* The simulated card's clock stands while its thread waits for a core: of many
 * readings some are not late. */
static void
clocks_agree(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct timespec nap = {.tv_nsec = 20000000};
    uint64_t before, ticks, after, ns;
    bool agree = false;
    int i;

    (void)state;
    for (i = 0; i < 200 && !agree; i++) {
        if (i)
            nanosleep(&nap, NULL);
        before = time_now_ns();
        ticks = (uint64_t)dev->gpu_time[1] << 32 | dev->gpu_time[0];
        after = time_now_ns();
        ns = hcq_timestamp_to_ns(&dev->base, ticks);
        agree = ns + 2000000 > before && ns < after + 2000000;
    }
    assert_true(agree);
    close_nv(dev);
}

/* A clock that stands still is looked at for a while; its value is told. */
static void
clock_stands_still(void **state)
{
    static const uint32_t still[2] = {5, 1};
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    const volatile uint32_t *own = dev->gpu_time;
    uint64_t start_ns = time_now_ns();
    struct hcq_clock_pair pair;

    (void)state;
    dev->gpu_time = still;
    expect_ok(dev->base.ops->compare_clocks(&dev->base, &pair));
    dev->gpu_time = own;
    assert_true(pair.ticks == ((uint64_t)1 << 32 | 5));
    assert_true(pair.host_ns >= start_ns && pair.host_ns <= time_now_ns());
    assert_true(time_now_ns() - start_ns >= 100000000);
    close_nv(dev);
}

/* ---- memory -------------------------------------------------------------- */

static void
check_mem(const struct nv_mem *mem, uint64_t size_bytes, uint64_t align_bytes,
          uint32_t kind)
{
    assert_int_equal(mem->size_bytes, size_bytes);
    assert_int_equal(mem->va % align_bytes, 0);
    assert_true(mem->va >= NV_VA_FIRST && mem->va + size_bytes <= NV_VA_END);
    assert_int_equal(mem->kind, kind);
    assert_int_equal(mem->cpu != NULL, kind != NV_MEM_VIDEO);
    assert_int_not_equal(mem->handle, 0);
}

/* Every kind, small and large; none overlaps another; what the CPU writes is
 * there, and all of it goes away. */
static void
kinds_and_sizes(void **state)
{
    static const uint64_t sizes[] = {1, 256, 4096, 70000, 3 * MIB, 33 * MIB};
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct nv_mem mems[NV_MEM_KIND_COUNT][ARRAY_LEN(sizes)];
    struct sim_nv_usage before, after;
    uint32_t kind;
    size_t i;

    (void)state;
    sim_nv_usage(dev->kio, &before);
    for (kind = 0; kind < NV_MEM_KIND_COUNT; kind++) {
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            struct nv_mem *mem = &mems[kind][i];

            expect_ok(nv_mem_alloc(dev, sizes[i], 256, kind, mem));
            check_mem(mem, sizes[i], 256, kind);
            if (mem->cpu)
                fill(mem->cpu, sizes[i], kind * 100 + (uint32_t)i);
        }
    }
    for (kind = 0; kind < NV_MEM_KIND_COUNT; kind++) {
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            struct nv_mem *mem = &mems[kind][i];
            uint8_t want[256];
            size_t n = sizes[i] < 256 ? sizes[i] : 256;

            fill(want, n, kind * 100 + (uint32_t)i);
            if (mem->cpu)
                assert_memory_equal(mem->cpu, want, n);
            /* the host's memory is that which is not on the card */
            assert_ptr_equal(nv_memory_cpu(dev, mem->va, n, NV_CPU_HOST),
                             kind == NV_MEM_SYSTEM ? mem->cpu : NULL);
            assert_ptr_equal(nv_memory_cpu(dev, mem->va, n, NV_CPU_MAPPED),
                             mem->cpu);
            nv_mem_free(dev, mem);
            assert_int_equal(mem->va, 0);
        }
    }
    sim_nv_usage(dev->kio, &after);
    /* One empty chunk of each pool may stay. */
    assert_true(after.memory_bytes <= before.memory_bytes + 11 * MIB);
    close_nv(dev);
}

static void
alignments(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_80");
    uint64_t align;

    (void)state;
    for (align = 256; align <= 2 * MIB; align *= 2) {
        struct nv_mem a, b;

        expect_ok(nv_mem_alloc(dev, 300, align, NV_MEM_VISIBLE, &a));
        expect_ok(nv_mem_alloc(dev, 300, align, NV_MEM_SYSTEM, &b));
        check_mem(&a, 300, align, NV_MEM_VISIBLE);
        check_mem(&b, 300, align, NV_MEM_SYSTEM);
        nv_mem_free(dev, &a);
        nv_mem_free(dev, &b);
    }
    close_nv(dev);
}

static void
out_of_memory(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct nv_mem mem = {0};

    (void)state;
    assert_int_equal(nv_mem_alloc(dev, dev->base.info.memory_bytes * 2, 256,
                                  NV_MEM_VIDEO, &mem),
                     BELL_E_NO_MEMORY);
    assert_non_null(strstr(bell_error_last()->message, "NV:0@sim:sm_90"));
    nv_mem_free(dev, &mem); /* a zeroed one is allowed */
    close_nv(dev);
}

/* ---- buffers ------------------------------------------------------------- */

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
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct hcq_buffer *on_card, *visible, *pinned;
    uint8_t *pages = malloc(4 * MIB + 3);

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, 4 * MIB, 0, &on_card));
    expect_ok(
        hcq_buffer_create(&dev->base, 4 * MIB, HCQ_MEM_HOST_VISIBLE, &visible));
    expect_ok(
        hcq_buffer_create_pinned(&dev->base, pages + 3, 4 * MIB, &pinned));
    assert_null(on_card->host);
    assert_non_null(visible->host);
    assert_ptr_equal(pinned->host, pages + 3);
    assert_int_equal(pinned->va % 4096, (uintptr_t)(pages + 3) % 4096);
    check_access(on_card, 1);
    check_access(visible, 2);
    check_access(pinned, 3);
    hcq_buffer_destroy(pinned);
    hcq_buffer_destroy(visible);
    hcq_buffer_destroy(on_card);
    close_nv(dev);
    free(pages);
}

/* A card whose memory the CPU does not reach: everything goes through the
 * copy engine. */
static void
without_a_window(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct hcq_buffer *buf;

    (void)state;
    dev->control->maps_video = false;
    expect_ok(hcq_buffer_create(&dev->base, 4 * MIB, 0, &buf));
    check_access(buf, 9);
    hcq_buffer_destroy(buf);
    close_nv(dev);
}

/* The driver has no such addresses, or not all of them: told with what was
 * asked for, and not as a lack of memory; that is what it says itself. */
static void
addresses_refused(void **state)
{
    static const struct {
        const char *plan;
        bell_status want;
        const char *part;
    } rows[] = {
        {"NV50_MEMORY_VIRTUAL:1+=status=0x1a", BELL_E_KERNEL, "status 0x1a"},
        {"NV50_MEMORY_VIRTUAL:1+=status=0x51", BELL_E_NO_MEMORY, "status 0x51"},
        {"NV_ESC_RM_MAP_MEMORY_DMA:1+=status=0x1f", BELL_E_KERNEL, "0x1f"},
    };
    struct hcq_device *dev;
    struct hcq_buffer *buf;
    size_t i;

    (void)state;
    expect_ok(hcq_device_open("NV@fault:poll:1000000=EIO@sim:sm_90", &dev));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const char *message = bell_error_last()->message;

        expect_ok(kio_fault_set(nv_device_of(dev)->kio, rows[i].plan));
        assert_int_equal(
            hcq_buffer_create(dev, 3 * MIB, HCQ_MEM_HOST_VISIBLE, &buf),
            rows[i].want);
        if (!strstr(message, "0x300000 bytes at 0xc4") ||
            !strstr(message, "in pages of 4 KiB") ||
            !strstr(message, rows[i].part))
            fail_msg("%s: %s", rows[i].plan, message);
    }
    expect_ok(kio_fault_set(nv_device_of(dev)->kio, "poll:1000000=EIO"));
    expect_ok(hcq_buffer_create(dev, 3 * MIB, HCQ_MEM_HOST_VISIBLE, &buf));
    hcq_buffer_destroy(buf);
    hcq_device_close(dev);
}

/* The engine that shares nothing is the first queue's, whatever staging took
 * before; then they take turns. */
static void
copy_engines_in_turns(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:h100");
    struct hcq_queue *queues[4];
    struct hcq_buffer *buf;
    uint8_t *data = calloc(1, MIB);
    uint32_t engines[4], i;

    (void)state;
    assert_non_null(data);
    expect_ok(hcq_buffer_create(&dev->base, MIB, 0, &buf));
    expect_ok(hcq_buffer_write(buf, 0, data, MIB));
    for (i = 0; i < 4; i++) {
        expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queues[i]));
        engines[i] = nv_queue_of(queues[i])->channel.engine;
    }
    assert_int_equal(engines[0], 9 + 4);
    assert_int_equal(engines[1], 9 + 2);
    assert_int_equal(engines[2], 9 + 3);
    assert_int_equal(engines[3], 9 + 4);
    for (i = 0; i < 4; i++)
        hcq_queue_destroy(queues[i]);
    hcq_buffer_destroy(buf);
    free(data);
    hcq_device_close(&dev->base);
}

/* Any of the 64 that the driver can tell of is used. */
static void
copy_engines_told_of(void **state)
{
    /* the upper half of `present`, behind what each can do */
    struct nv_device *dev = open_nv("NV@fault:NV2080_CTRL_CMD_CE_GET_ALL_CAPS="
                                    "reply=41:0xc0000000@sim:sm_90");
    const struct nv_control *control = dev->control;
    uint32_t i;

    (void)state;
    for (i = 0; i < control->n_copy_engines; i++) {
        if (control->copy_engines[i] == 62)
            break;
    }
    assert_true(i + 1 < control->n_copy_engines);
    assert_int_equal(control->copy_engines[i + 1], 63);
    close_nv(dev);
}

/* Their numbers in the driver's calls, which go on elsewhere from the tenth on:
 * no simulated card has these. */
static void
copy_engines_by_number(void **state)
{
    static const struct {
        uint8_t idx;
        const char *type;
    } rows[] = {{9, "engineType=0x12)"},
                {10, "engineType=0x34)"},
                {19, "engineType=0x3d)"}};
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct nv_control *control = dev->control;
    uint8_t own = control->copy_engines[0];
    struct nv_channel channel;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        control->copy_engines[0] = rows[i].idx;
        atomic_store(&control->n_copy_channels, 0);
        expect_fails(nv_channel_init(dev, true, 64, &channel), BELL_E_KERNEL,
                     rows[i].type);
    }
    control->copy_engines[0] = own;
    close_nv(dev);
}

static bool
is_mapped(struct nv_device *dev, const struct hcq_buffer *buf)
{
    return nv_memory_cpu(dev, buf->va, 1, NV_CPU_MAPPED) != NULL;
}

/* Three quarters of the addresses are the card's memory's, the rest is the
 * host's: neither has more. */
static void
addresses_end(void **state)
{
    const uint64_t all = NV_VA_END - NV_VA_FIRST, host = all - all / 4 * 3;
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct mem_range range;

    (void)state;
    assert_true(dev->card_va == NV_VA_FIRST);
    assert_true(dev->card_va_end == NV_VA_FIRST + all / 4 * 3);
    assert_int_equal(mem_va_alloc(dev->va, all / 4 * 3 + NV_VA_GRANULE_BYTES,
                                  NV_VA_GRANULE_BYTES, &range),
                     BELL_E_NO_MEMORY);
    assert_int_equal(mem_va_alloc(dev->host_va, host + NV_VA_GRANULE_BYTES,
                                  NV_VA_GRANULE_BYTES, &range),
                     BELL_E_NO_MEMORY);
    expect_ok(
        mem_va_alloc(dev->host_va, host / 2, NV_VA_GRANULE_BYTES, &range));
    assert_true(range.addr >= dev->card_va_end &&
                range.addr + host / 2 <= NV_VA_END);
    mem_va_free(dev->host_va, &range);
    close_nv(dev);
}

/* A large buffer is mapped for the CPU when writes to it have been many; what
 * a pool gives out in pieces at once. Each way the bytes arrive. */
static void
mapped_when_it_pays(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    uint8_t *data = malloc(MIB), *got = malloc(MIB);
    struct hcq_buffer *small, *large;
    unsigned n = 0;

    (void)state;
    fill(data, MIB, 77);
    expect_ok(hcq_buffer_create(&dev->base, 4096, 0, &small));
    expect_ok(hcq_buffer_create(&dev->base, 16 * MIB, 0, &large));
    expect_ok(hcq_buffer_write(small, 0, data, 8));
    assert_true(is_mapped(dev, small));
    expect_ok(hcq_buffer_write(large, 0, data, 8));
    assert_false(is_mapped(dev, large));
    while (!is_mapped(dev, large)) {
        expect_ok(hcq_buffer_write(large, n * 1001, data + n, MIB - n));
        expect_ok(hcq_buffer_read(large, n * 1001, got, MIB - n));
        assert_memory_equal(got, data + n, MIB - n);
        n++;
    }
    assert_in_range(n, 60, 70);
    hcq_buffer_destroy(large);
    hcq_memory_trim(&dev->base);
    expect_ok(hcq_buffer_create(&dev->base, 16 * MIB, 0, &large));
    for (n = 0; !is_mapped(dev, large); n++)
        expect_ok(hcq_buffer_write(large, n * 8, data, 8));
    assert_int_equal(n, 16);
    hcq_buffer_destroy(small);
    hcq_buffer_destroy(large);
    free(data);
    free(got);
    close_nv(dev);
}

/* Where BAR1 is smaller than the card's memory, its room is for rings: nothing
 * else is mapped, however often it is written. */
static void
not_mapped_through_a_small_window(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90,bar1=256");
    struct hcq_buffer *buf;
    uint32_t i, got = 0;

    (void)state;
    expect_ok(hcq_buffer_create(&dev->base, 4096, 0, &buf));
    for (i = 0; i < 100; i++)
        expect_ok(hcq_buffer_write(buf, 4, &i, 4));
    expect_ok(hcq_buffer_read(buf, 4, &got, 4));
    assert_int_equal(got, 99);
    assert_false(is_mapped(dev, buf));
    assert_string_equal(dev->control->staging->name,
                        "NV:0@sim:sm_90,bar1=256/staging");
    hcq_buffer_destroy(buf);
    close_nv(dev);
}

/* The same page pinned twice, and pages of a buffer that is pinned again. */
static void
pinned_twice(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    uint8_t *pages = malloc(64 * 1024);
    struct hcq_buffer *a, *b;
    uint8_t byte = 0;

    (void)state;
    expect_ok(hcq_buffer_create_pinned(&dev->base, pages + 10, 5000, &a));
    expect_ok(hcq_buffer_create_pinned(&dev->base, pages + 5000, 5000, &b));
    pages[5005] = 77;
    expect_ok(hcq_buffer_read(a, 4995, &byte, 1));
    assert_int_equal(byte, 77);
    expect_ok(hcq_buffer_read(b, 5, &byte, 1));
    assert_int_equal(byte, 77);
    hcq_buffer_destroy(a);
    hcq_buffer_destroy(b);
    close_nv(dev);
    free(pages);
}

/* Stacks of kernels grow by steps; on a card that is lost they stay. */
static void
stacks(void **state)
{
    const struct hcq_fault fault = {.kind = HCQ_FAULT_MEMORY};
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct hcq_queue *queue;
    uint32_t epoch;
    uint64_t va;

    (void)state;
    expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(nv_local_grow(dev, 1001));
    assert_int_equal(dev->local.thread_bytes, 1024);
    epoch = dev->local.epoch;
    va = dev->local.mem.va;
    expect_ok(nv_local_grow(dev, 1024));
    assert_int_equal(dev->local.epoch, epoch);
    hcq_device_set_lost(&dev->base, &fault);
    assert_int_equal(nv_local_grow(dev, 1025), BELL_E_DEVICE_LOST);
    assert_int_equal(dev->local.thread_bytes, 1024);
    assert_int_equal(dev->local.epoch, epoch);
    assert_true(dev->local.mem.va == va);
    expect_ok(hcq_device_recover(&dev->base));
    expect_ok(nv_local_grow(dev, 1025));
    assert_int_equal(dev->local.thread_bytes, 1056);
    assert_int_not_equal(dev->local.epoch, epoch);
    assert_true(dev->local.mem.va != va);
    hcq_queue_destroy(queue);
    close_nv(dev);
}

/* ---- signals ------------------------------------------------------------- */

static void
many_signals(void **state)
{
    struct nv_device *dev = open_nv("NV@sim:sm_90");
    struct hcq_signal *sigs[300];
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sigs); i++) {
        expect_ok(hcq_signal_create(&dev->base, i, &sigs[i]));
        assert_int_equal(sigs[i]->va % 32, 0);
    }
    for (i = 0; i < ARRAY_LEN(sigs); i++) {
        assert_int_equal(hcq_signal_value(sigs[i]), i);
        assert_int_equal(hcq_signal_timestamp(sigs[i]), 0);
        for (k = 0; k < i; k++)
            assert_int_not_equal(sigs[i]->va, sigs[k]->va);
    }
    for (i = 0; i < ARRAY_LEN(sigs); i++)
        hcq_signal_destroy(sigs[i]);
    close_nv(dev);
}

/* Another card's signal, through a queue of this one. */
static void
signals_between_cards(void **state)
{
    struct nv_device *a = open_nv("NV:0@sim:sm_90*2");
    struct nv_device *b = open_nv("NV:1@sim:sm_90*2");
    struct nv_device *other = open_nv("NV@sim:sm_80");
    struct hcq_signal *sig, *far;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_signal_create(&a->base, 0, &sig));
    expect_ok(hcq_signal_create(&other->base, 0, &far));
    expect_ok(hcq_queue_create(&b->base, HCQ_QUEUE_COPY, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_signal(cs, sig, 5);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_signal_wait(sig, 5, HCQ_TIMEOUT_NS));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_signal(cs, far, 5);
    assert_int_equal(hcq_cs_submit(cs, NULL), BELL_E_UNSUPPORTED);
    hcq_signal_destroy(far);
    hcq_signal_destroy(sig);
    hcq_queue_destroy(queue);
    hcq_device_close(&other->base);
    hcq_device_close(&b->base);
    close_nv(a);
}

/* Copies what `peer` sees of `buf`, and fills a little of it. */
static void
copy_of_peer(struct hcq_queue *queue, struct hcq_buffer *buf,
             struct hcq_buffer *peer, uint32_t seed)
{
    uint8_t *want = malloc(3 * MIB), *got = malloc(3 * MIB);
    struct hcq_buffer *local;
    struct hcq_cs *cs;

    expect_ok(hcq_buffer_create(queue->dev, 3 * MIB, 0, &local));
    fill(want, 3 * MIB, seed);
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
    hcq_buffer_destroy(local);
    free(want);
    free(got);
}

/* The other card copies from and to memory of this one's. False: it cannot
 * reach it. */
static bool
copies_of_peer(struct nv_device *a, struct nv_device *b, uint32_t flags)
{
    struct hcq_buffer *buf, *peer, *again;
    struct hcq_queue *queue;
    uint32_t kind;
    bool reached;

    expect_ok(hcq_buffer_create(&a->base, 3 * MIB, flags, &buf));
    reached = hcq_buffer_create_peer(&b->base, buf, &peer) == BELL_OK;
    if (reached) {
        expect_ok(hcq_buffer_create_peer(&b->base, buf, &again));
        assert_int_equal(again->va, peer->va);
        hcq_buffer_destroy(again);
        /* Its address tells whether a kernel may be the faster one. */
        assert_int_equal(peer->va - b->card_va < b->card_va_end - b->card_va,
                         !(flags & HCQ_MEM_HOST_VISIBLE));
        /* Host memory is the CPU's where it is, whoever's address is used. */
        assert_ptr_equal(nv_memory_cpu(b, peer->va + 5, 1, NV_CPU_HOST),
                         flags & HCQ_MEM_HOST_VISIBLE ? (uint8_t *)buf->host + 5
                                                      : NULL);
        for (kind = 0; kind < HCQ_QUEUE_KIND_COUNT; kind++) {
            expect_ok(hcq_queue_create(&b->base, kind, &queue));
            copy_of_peer(queue, buf, peer, flags + kind);
            hcq_queue_destroy(queue);
        }
        hcq_buffer_destroy(peer);
    } else {
        if (bell_error_last()->status != BELL_E_UNSUPPORTED)
            fail_msg("%s", bell_error_last()->message);
    }
    hcq_buffer_destroy(buf);
    return reached;
}

static void
buffers_between_cards(void **state)
{
    struct nv_device *a = open_nv("NV:0@sim:sm_90*2");
    struct nv_device *b = open_nv("NV:1@sim:sm_90*2");
    struct sim_nv_usage before, after;

    (void)state;
    copies_of_peer(a, b, HCQ_MEM_HOST_VISIBLE);
    copies_of_peer(a, b, 0);
    hcq_memory_trim(&a->base);
    hcq_memory_trim(&b->base);
    sim_nv_usage(a->kio, &before);
    assert_true(copies_of_peer(a, b, HCQ_MEM_HOST_VISIBLE));
    assert_true(copies_of_peer(a, b, 0));
    assert_true(copies_of_peer(b, a, HCQ_MEM_HOST_VISIBLE));
    assert_true(copies_of_peer(b, a, 0));
    assert_true(copies_of_peer(a, a, HCQ_MEM_HOST_VISIBLE));
    assert_true(copies_of_peer(a, a, 0));
    hcq_memory_trim(&a->base);
    hcq_memory_trim(&b->base);
    sim_nv_usage(a->kio, &after);
    assert_true(after.memory_bytes < before.memory_bytes + 16 * MIB);
    hcq_device_close(&b->base);
    close_nv(a);
}

/* What another card may be given: bytes of the owner's memory, up to the last,
 * and neither pages of the host nor what is another's already. */
static void
what_is_shared(void **state)
{
    struct nv_device *a = open_nv("NV:0@sim:sm_90*2");
    struct nv_device *b = open_nv("NV:1@sim:sm_90*2");
    uint8_t *pages = malloc(MIB);
    struct hcq_buffer *pinned;
    const struct nv_backing *of;
    struct nv_mem mem = {0};
    uint64_t end, va, again;

    (void)state;
    expect_ok(nv_mem_alloc(a, 5 * MIB, 4096, NV_MEM_SYSTEM, &mem));
    of = nv_backing_find(a->control, mem.va, 1);
    end = of->va + of->size_bytes;
    expect_ok(nv_memory_share(b, a, end - 1, &va));
    assert_ptr_equal(nv_memory_cpu(b, va, 1, NV_CPU_HOST),
                     (uint8_t *)of->cpu + (of->size_bytes - 1));
    expect_fails(nv_memory_share(b, a, end, &again), BELL_E_INVALID,
                 "has nothing at");
    expect_ok(nv_memory_share(b, a, mem.va, &again));
    assert_true(va - again == end - 1 - mem.va);
    expect_fails(nv_memory_share(a, b, va, &again), BELL_E_UNSUPPORTED,
                 "is pinned or another's");
    nv_memory_unshare(b, va);
    assert_non_null(nv_memory_cpu(b, va, 1, NV_CPU_HOST));
    nv_memory_unshare(b, va);
    assert_null(nv_memory_cpu(b, va, 1, NV_CPU_HOST));
    expect_ok(hcq_buffer_create_pinned(&a->base, pages, MIB, &pinned));
    expect_fails(nv_memory_share(b, a, pinned->va, &va), BELL_E_UNSUPPORTED,
                 "is pinned or another's");
    expect_fails(nv_memory_share(b, a, 4096, &va), BELL_E_INVALID,
                 "has nothing at 0x1000");
    hcq_buffer_destroy(pinned);
    nv_mem_free(a, &mem);
    hcq_device_close(&b->base);
    close_nv(a);
    free(pages);
}

/* A card reaches memory of two others; what it takes to reach a card is made
 * once, or not at all. */
static void
three_cards(void)
{
    struct nv_device *owners[2] = {open_nv("NV:0@sim:sm_90*3,link=pcie"),
                                   open_nv("NV:1@sim:sm_90*3,link=pcie")};
    struct nv_device *c =
        open_nv("NV:2@fault:poll:1000000=EIO@sim:sm_90*3,link=pcie");
    struct nv_mem mem[4];
    uint64_t va[4];
    uint32_t i;

    for (i = 0; i < 4; i++)
        expect_ok(
            nv_mem_alloc(owners[i % 2], 5 * MIB, 4096, NV_MEM_VIDEO, &mem[i]));
    expect_ok(kio_fault_set(c->kio, "UVM_ENABLE_PEER_ACCESS:1=status=0x1a"));
    expect_fails(nv_memory_share(c, owners[0], mem[0].va, &va[0]),
                 BELL_E_NO_MEMORY, "UVM_ENABLE_PEER_ACCESS");
    expect_ok(kio_fault_set(c->kio, "poll:1000000=EIO"));
    for (i = 0; i < 4; i++)
        expect_ok(nv_memory_share(c, owners[i % 2], mem[i].va, &va[i]));
    assert_int_equal(c->control->n_peers, 2);
    for (i = 0; i < 4; i++)
        nv_memory_unshare(c, va[i]);
    hcq_device_close(&c->base);
    for (i = 0; i < 4; i++)
        nv_mem_free(owners[i % 2], &mem[i]);
    hcq_device_close(&owners[1]->base);
    close_nv(owners[0]);
}

/* A channel that UVM does not take has no addresses. */
static void
channels_refused(void)
{
    struct nv_device *dev = open_nv("NV@fault:poll:1000000=EIO@sim:sm_90");
    struct hcq_queue *queue;
    uint64_t window = 0;
    int i;

    for (i = 0; i < 3; i++) {
        expect_ok(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue));
        if (i)
            assert_true(nv_queue_of(queue)->channel.window.addr == window);
        window = nv_queue_of(queue)->channel.window.addr;
        hcq_queue_destroy(queue);
        expect_ok(kio_fault_set(dev->kio, "UVM_REGISTER_CHANNEL=EIO"));
        expect_fails(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue),
                     BELL_E_KERNEL, "UVM_REGISTER_CHANNEL");
        expect_ok(kio_fault_set(dev->kio, "poll:1000000=EIO"));
    }
    close_nv(dev);
}

/* ---- queues -------------------------------------------------------------- */

static void
copies(void **state)
{
    static const char *const names[] = {"NV@sim:sm_80", "NV@sim:sm_89",
                                        "NV@sim:sm_90", "NV@sim:sm_120"};
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    size_t n_names = ARRAY_LEN(names), i, k;

    (void)state;
    for (i = 0; i < (n_names + NV_BRANCH_NEWEST + 1) * 2; i++) {
        char name[40];
        struct nv_device *dev;
        struct hcq_buffer *from, *to;
        struct hcq_queue *queue;
        struct hcq_cs *cs;

        if (i / 2 < n_names)
            snprintf(name, sizeof(name), "%s", names[i / 2]);
        else
            snprintf(name, sizeof(name), "NV@sim:sm_90,branch=%s",
                     nv_branch_name((uint32_t)(i / 2 - n_names)));
        dev = open_nv(name);
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
        close_nv(dev);
    }
}

/* ---- the other model ----------------------------------------------------- */

/* Everything above once more where UVM keeps the addresses. */
static void
through_uvm(void **state)
{
    struct hcq_device *dev = NULL;
    bell_status status;

    setenv("BELL_NV_VM", "uvm", 1);
    status = hcq_device_open("NV@sim:sm_90", &dev);
    if (status == BELL_E_UNSUPPORTED) { /* a sanitizer has the addresses */
        unsetenv("BELL_NV_VM");
        skip();
    }
    expect_ok(status);
    close_nv(nv_device_of(dev));
    kinds_and_sizes(state);
    alignments(state);
    host_access(state);
    pinned_twice(state);
    many_signals(state);
    signals_between_cards(state);
    buffers_between_cards(state);
    what_is_shared(state);
    three_cards();
    channels_refused();
    copies(state);
    unsetenv("BELL_NV_VM");
}

static void
same_addresses(void **state)
{
    struct hcq_device *dev = NULL;
    struct hcq_buffer *buf, *pinned;
    uint8_t *pages = malloc(10000);

    (void)state;
    setenv("BELL_NV_VM", "uvm", 1);
    if (hcq_device_open("NV@sim:sm_90", &dev) == BELL_OK) {
        expect_ok(hcq_buffer_create(dev, 5000, HCQ_MEM_HOST_VISIBLE, &buf));
        expect_ok(hcq_buffer_create_pinned(dev, pages, 10000, &pinned));
        assert_int_equal(buf->va, (uintptr_t)buf->host);
        assert_int_equal(pinned->va, (uintptr_t)pages);
        hcq_buffer_destroy(pinned);
        hcq_buffer_destroy(buf);
        close_nv(nv_device_of(dev));
    }
    unsetenv("BELL_NV_VM");
    free(pages);
}

/* Pages have their addresses on the card but where those mean something else
 * to a kernel: in the windows of shared and local memory, to the byte. */
static void
addresses_in_windows(void **state)
{
    enum {
        N = 65536
    };
    static const struct {
        uint64_t at;
        bool same;
    } rows[] = {
        {NV_LOCAL_WINDOW - N, true},
        {NV_LOCAL_WINDOW - N + 4096, false},
        {NV_LOCAL_WINDOW, false},
        {NV_SHARED_WINDOW, false},
        {NV_SHARED_WINDOW + (4ull << 30) - 4096, false},
        {NV_SHARED_WINDOW + (4ull << 30), true},
    };
    struct hcq_device *dev = NULL;
    size_t i;

    (void)state;
    setenv("BELL_NV_VM", "uvm", 1);
    for (i = 0; i < ARRAY_LEN(rows) &&
                hcq_device_open("NV@sim:sm_90", &dev) == BELL_OK;
         i++) {
        void *want = (void *)(uintptr_t)rows[i].at;
        void *pages = mmap(want, N, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct hcq_buffer *pinned;

        assert_true(pages != MAP_FAILED);
        if (pages == want) { /* nobody else has it */
            expect_ok(hcq_buffer_create_pinned(dev, pages, N, &pinned));
            assert_int_equal(pinned->va == rows[i].at, rows[i].same);
            hcq_buffer_destroy(pinned);
        }
        munmap(pages, N);
        close_nv(nv_device_of(dev));
    }
    unsetenv("BELL_NV_VM");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_it_is),
        cmocka_unit_test(frequency),
        cmocka_unit_test(counts_sms),
        cmocka_unit_test(confidential),
        cmocka_unit_test(lies_about_classes),
        cmocka_unit_test(lies_about_the_card),
        cmocka_unit_test(refuses_names),
        cmocka_unit_test(doorbells),
        cmocka_unit_test(clocks_agree),
        cmocka_unit_test(clock_stands_still),
        cmocka_unit_test(kinds_and_sizes),
        cmocka_unit_test(alignments),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(host_access),
        cmocka_unit_test(without_a_window),
        cmocka_unit_test(copy_engines_in_turns),
        cmocka_unit_test(copy_engines_told_of),
        cmocka_unit_test(copy_engines_by_number),
        cmocka_unit_test(addresses_end),
        cmocka_unit_test(mapped_when_it_pays),
        cmocka_unit_test(not_mapped_through_a_small_window),
        cmocka_unit_test(pinned_twice),
        cmocka_unit_test(addresses_refused),
        cmocka_unit_test(stacks),
        cmocka_unit_test(many_signals),
        cmocka_unit_test(signals_between_cards),
        cmocka_unit_test(buffers_between_cards),
        cmocka_unit_test(what_is_shared),
        cmocka_unit_test(copies),
        cmocka_unit_test(through_uvm),
        cmocka_unit_test(same_addresses),
        cmocka_unit_test(addresses_in_windows),
    };

    unsetenv("BELL_NV_BRANCH");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
