/* hcq/amd when things fail: every kernel call and every allocation of every
 * operation, one at a time; scratch that grows under busy queues. What faults
 * on the card, and recovery: test_amd_lost.c.
 *
 * After a failed operation the simulated kernel holds exactly what it held
 * before; after a failed opening there is nothing.
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

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kio_fault.h"
#include "sim/amd/sim_amd.h"
#include "tests/unit/amd_case.h"
#include "tests/unit/expect.h"
#include "tests/unit/usage.h"
#include "tests/unit/sim_kept.h"

/* ---- opening ------------------------------------------------------------- */

static void
opening_fails(void **state)
{
    static const char *const kinds[] = {"any", "ioctl", "mmap", "open", "read"};
    static const char *const actions[] = {"EIO", "ENOMEM", "EPERM"};
    struct hcq_device *dev;
    char name[96];
    size_t i;
    unsigned n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(actions) * ARRAY_LEN(kinds); i++) {
        unsigned n_good = 0, n_bad = 0;

        for (n = 1; n_good < 40; n++) {
            bell_status status;

            snprintf(name, sizeof(name), "AMD@fault:%s:%u=%s@sim:gfx1100",
                     kinds[i / ARRAY_LEN(actions)], n,
                     actions[i % ARRAY_LEN(actions)]);
            status = hcq_device_open(name, &dev);
            if (status == BELL_OK) {
                hcq_device_close(dev);
                n_good++;
            } else {
                assert_true(bell_error_last()->message[0]);
                n_good = 0;
                n_bad++;
            }
            expect_kept();
        }
        assert_true(n_bad > 0);
    }
    hcq_device_close(open_amd("AMD@sim:gfx1100"));
}

/* The signal's event is asked for with the page and, where that is refused,
 * without; where both are, the first refusal says why. Its number is one that
 * packets have room for, other events' may be any. */
static void
events_fail(void **state)
{
#define EVENT "AMDKFD_IOC_CREATE_EVENT"
    static const struct {
        const char *plan;
        bell_status want;
        int sys_errno;
        const char *part;
    } rows[] = {
        /* this kernel has seen no page, and refuses the second, too */
        {EVENT ":1=EINVAL", BELL_E_KERNEL, EINVAL, "for call 1"},
        {EVENT ":1=EINVAL," EVENT ":2=EINVAL", BELL_E_KERNEL, EINVAL,
         "kfd: Invalid argument (as planned for call 1)"},
        {EVENT ":2=EIO", BELL_E_KERNEL, EIO, "for call 2) (event_type=8"},
        {EVENT ":1=EINVAL," EVENT ":2=EIO", BELL_E_KERNEL, EIO, "for call 2"},
        {EVENT ":1=EIO", BELL_E_KERNEL, EIO, "for call 1"},
        {EVENT ":1=reply=6:4095", BELL_OK, 0, ""},
        {EVENT ":1=reply=6:4096", BELL_E_KERNEL, 0,
         "signal event 4096 of 4096"},
        {EVENT ":2=reply=6:4096", BELL_OK, 0, ""},
    };
#undef EVENT
    struct hcq_device *dev;
    char name[160];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        bell_status status;

        snprintf(name, sizeof(name), "AMD@fault:%s@sim:gfx1100", rows[i].plan);
        status = hcq_device_open(name, &dev);
        if (status != rows[i].want)
            fail_msg("%s: %s", rows[i].plan, bell_error_last()->message);
        if (status == BELL_OK) {
            hcq_device_close(dev);
        } else {
            if (!strstr(bell_error_last()->message, rows[i].part))
                fail_msg("%s: %s", rows[i].plan, bell_error_last()->message);
            assert_int_equal(bell_error_last()->sys_errno, rows[i].sys_errno);
        }
        expect_kept();
    }
}

/* A process of its own ends with the opening; this program's keeps what there
 * is so far, and the next opening goes on from there. */
static void
opening_has_no_memory(void **state)
{
    static const char *const names[] = {"AMD@fault:" NO_PLAN "@sim:gfx942*2",
                                        "AMD:1@sim:gfx942*2"};
    struct hcq_device *dev;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(names); i++) {
        uint64_t n;
        bell_status status = BELL_E_NO_MEMORY;

        for (n = 1; status != BELL_OK; n++) {
            host_fail_after(n, i % 2);
            status = hcq_device_open(names[i / 2], &dev);
            host_fail_after(0, 0);
            assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY ||
                        status == BELL_E_KERNEL);
            if (status == BELL_OK)
                hcq_device_close(dev);
            if (status == BELL_OK || i / 2 == 0)
                expect_kept();
        }
    }
}

/* The second card of a process whose first is there already. */
static void
second_opening_fails(void **state)
{
    static const char first[] = "AMD:0@fault:" NO_PLAN "@sim:gfx942*2";
    static const char second[] = "AMD:1@fault:" NO_PLAN "@sim:gfx942*2";
    static const char *const kinds[] = {"ioctl", "mmap", "open"};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        struct hcq_device *a = open_amd(first), *b;
        struct hcq_signal *sig;
        bell_status status = BELL_E_IO;
        unsigned n, n_bad = 0;
        char plan[32];

        for (n = 1; n < 40; n++) {
            snprintf(plan, sizeof(plan), "%s:%u=EIO", kinds[i], n);
            expect_ok(kio_fault_set(kio_of(a), plan));
            status = hcq_device_open(second, &b);
            if (status == BELL_OK) { /* and its first memory */
                status = hcq_signal_create(b, 0, &sig);
                if (status == BELL_OK)
                    hcq_signal_destroy(sig);
                expect_ok(kio_fault_set(kio_of(a), NO_PLAN));
                hcq_device_close(b);
            }
            expect_ok(kio_fault_set(kio_of(a), NO_PLAN));
            n_bad += status != BELL_OK;
        }
        assert_int_equal(status, BELL_OK);
        assert_true(n_bad > 0);
        hcq_device_close(a);
        expect_kept();
    }
}

/* A card whose opening failed opens in the same process, from wherever that
 * got to: a page of events that the kernel has, though its first event failed,
 * is not set again. */
static void
opens_again(void **state)
{
    static const char *const kinds[] = {"memory", "ioctl", "mmap", "open"};
    struct amd_process *process;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        bell_status status = BELL_E_IO;
        unsigned n;

        for (n = 1; n < 30; n++) {
            char plan[32];

            expect_ok(
                amd_process_get("fault:" NO_PLAN "@sim:gfx1100", &process));
            snprintf(plan, sizeof(plan), "%s:%u=EIO", kinds[i], n);
            if (i == 0)
                host_fail_after(n, 1);
            else
                expect_ok(kio_fault_set(process->kio, plan));
            status = amd_card_open(process, 0);
            host_fail_after(0, 0);
            expect_ok(kio_fault_set(process->kio, NO_PLAN));
            expect_ok(amd_card_open(process, 0));
            assert_non_null(process->cards[0].hdp);
            expect_kept();
            amd_process_put(process);
        }
        assert_int_equal(status, BELL_OK);
    }
}

/* ---- operations ---------------------------------------------------------- */

/* One thing done and undone. Returns the first failure. */
typedef bell_status operation_fn(struct hcq_device *dev);

static bell_status
make_queue(struct hcq_device *dev, enum hcq_queue_kind kind)
{
    struct hcq_queue *queue;

    BELL_TRY(hcq_queue_create(dev, kind, &queue));
    hcq_queue_destroy(queue);
    return BELL_OK;
}

static bell_status
compute_queue(struct hcq_device *dev)
{
    return make_queue(dev, HCQ_QUEUE_COMPUTE);
}

static bell_status
copy_queue(struct hcq_device *dev)
{
    return make_queue(dev, HCQ_QUEUE_COPY);
}

static bell_status
own_memory(struct hcq_device *dev, enum amd_mem_kind kind)
{
    struct amd_mem mem;

    BELL_TRY(amd_mem_alloc(amd_device_of(dev), 5 * MIB + 7, kind, &mem));
    amd_mem_free(amd_device_of(dev), &mem);
    return BELL_OK;
}

static bell_status
card_memory(struct hcq_device *dev)
{
    return own_memory(dev, AMD_MEM_VRAM);
}

static bell_status
visible_memory(struct hcq_device *dev)
{
    return own_memory(dev, AMD_MEM_VISIBLE);
}

static bell_status
host_memory(struct hcq_device *dev)
{
    return own_memory(dev, AMD_MEM_GTT);
}

static bell_status
pinned_memory(struct hcq_device *dev)
{
    static uint8_t pages[20000];
    struct hcq_buffer *buf;

    BELL_TRY(hcq_buffer_create_pinned(dev, pages, sizeof(pages), &buf));
    hcq_buffer_destroy(buf);
    return BELL_OK;
}

/* More than a page of them holds. */
static bell_status
signals(struct hcq_device *dev)
{
    struct hcq_signal *sigs[100];
    bell_status status = BELL_OK;
    size_t n = 0;

    while (n < ARRAY_LEN(sigs) && status == BELL_OK) {
        status = hcq_signal_create(dev, 0, &sigs[n]);
        n += status == BELL_OK;
    }
    while (n)
        hcq_signal_destroy(sigs[--n]);
    return status;
}

static bell_status
program(struct hcq_device *dev)
{
    struct hcq_program *prog;

    if (!has_kernels())
        return BELL_OK;
    BELL_TRY(load_kernel(dev, "move", 2, &prog));
    hcq_program_destroy(prog);
    return BELL_OK;
}

/* A queue, a program and buffers, and a launch that has to be right if it
 * ends. */
static bell_status
run_kernel(struct hcq_device *dev, struct hcq_queue *queue,
           struct hcq_buffer *buf)
{
    const uint32_t grid[3] = {1, 1, 1};
    uint64_t args[2] = {buf->va, buf->va + 64};
    uint32_t *words = buf->host;
    struct hcq_program *prog;
    struct hcq_cs *cs;
    bell_status status;

    BELL_TRY(load_kernel(dev, "move", 2, &prog));
    words[0] = 0;
    words[16] = 0x12345;
    status = hcq_queue_begin(queue, &cs);
    if (status == BELL_OK) {
        hcq_cs_exec(cs, prog, args, 2, grid, grid);
        status = hcq_cs_submit(cs, NULL);
    }
    if (status == BELL_OK)
        status = hcq_queue_wait(queue, HCQ_TIMEOUT_NS);
    if (status == BELL_OK)
        assert_int_equal(words[0], 0x12345);
    hcq_program_destroy(prog);
    return status;
}

static bell_status
whole_launch(struct hcq_device *dev)
{
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    bell_status status;

    if (!has_kernels())
        return BELL_OK;
    BELL_TRY(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    status = hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &buf);
    if (status == BELL_OK) {
        status = run_kernel(dev, queue, buf);
        hcq_buffer_destroy(buf);
        hcq_memory_trim(dev);
    }
    hcq_queue_destroy(queue);
    return status;
}

static bell_status
recovery(struct hcq_device *dev)
{
    return hcq_device_recover(dev);
}

static const struct {
    const char *name;
    operation_fn *run;
} operations[] = {
    {"compute queue", compute_queue},
    {"copy queue", copy_queue},
    {"card memory", card_memory},
    {"visible memory", visible_memory},
    {"host memory", host_memory},
    {"pinned memory", pinned_memory},
    {"signals", signals},
    {"program", program},
    {"launch", whole_launch},
    {"recovery with nothing", recovery},
};

/* The n-th call of the operation fails, for every n. Giving something back
 * tells nobody of a failure; what the kernel refused to take it keeps. */
static void
fail_calls(struct hcq_device *dev, size_t op, const char *kind,
           const char *action)
{
    struct sim_amd_usage before = {0}, after = {0};
    struct kio *kio = kio_of(dev);
    unsigned n;
    char plan[64];

    for (n = 1;; n++) {
        bell_status status;
        uint64_t hits;

        /* A pool keeps one empty piece: have it there. */
        expect_ok(kio_fault_set(kio, NO_PLAN));
        expect_ok(operations[op].run(dev));
        sim_amd_usage(kio, &before);
        snprintf(plan, sizeof(plan), "%s:%u=%s", kind, n, action);
        expect_ok(kio_fault_set(kio, plan));
        status = operations[op].run(dev);
        hits = kio_fault_hits(kio);
        expect_ok(kio_fault_set(kio, NO_PLAN));
        if (status == BELL_OK && !hits)
            break;
        sim_amd_usage(kio, &after);
        if (status != BELL_OK) {
            assert_true(bell_error_last()->message[0]);
            same_usage(operations[op].name, n, &before, &after);
        }
        assert_true(n < 500);
    }
}

static void
operations_fail(void **state)
{
    static const char *const names[] = {
        "AMD@fault:" NO_PLAN "@sim:gfx1100",
        "AMD@fault:" NO_PLAN "@sim:gfx942",
    };
    static const char *const rules[][2] = {
        {"open", "EMFILE"},
        {"mmap", "ENOMEM"},
        {"ioctl", "EIO"},
        {"ioctl", "ENOMEM"},
    };
    size_t m, i, r;

    (void)state;
    for (m = 0; m < ARRAY_LEN(names); m++) {
        struct hcq_device *dev = open_amd(names[m]);

        for (i = 0; i < ARRAY_LEN(operations); i++) {
            for (r = 0; r < ARRAY_LEN(rules); r++)
                fail_calls(dev, i, rules[r][0], rules[r][1]);
        }
        hcq_device_close(dev);
        expect_kept();
    }
}

static void
operations_have_no_memory(void **state)
{
    struct hcq_device *dev = open_amd("AMD@sim:gfx1100");
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(operations); i++) {
        struct sim_amd_usage before, after;
        bell_status status;
        uint64_t n;

        expect_ok(operations[i].run(dev));
        sim_amd_usage(kio_of(dev), &before);
        for (n = 1;; n++) {
            host_fail_after(n, 1);
            status = operations[i].run(dev);
            host_fail_after(0, 0);
            if (status == BELL_OK)
                break;
            assert_true(status == BELL_E_NO_MEMORY || status == BELL_E_KERNEL);
            sim_amd_usage(kio_of(dev), &after);
            same_usage(operations[i].name, (unsigned)n, &before, &after);
        }
    }
    hcq_device_close(dev);
    expect_kept();
}

/* Closing tells nobody that a call failed; the process's end gives all back. */
static void
closing_fails(void **state)
{
    unsigned n;

    (void)state;
    for (n = 1; n < 40; n++) {
        struct hcq_device *dev = open_amd("AMD@fault:" NO_PLAN "@sim:gfx1100");
        struct hcq_queue *queue;
        struct hcq_buffer *buf;
        char plan[32];

        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
        expect_ok(hcq_buffer_create(dev, 4096, 0, &buf));
        snprintf(plan, sizeof(plan), "ioctl:%u=EIO", n);
        expect_ok(kio_fault_set(kio_of(dev), plan));
        hcq_device_close(dev);
        expect_kept();
    }
}

#define TURNS 100u

/* A whole life with a launch; the first failure. */
static bell_status
live(const char *name, const char *plan)
{
    struct hcq_device *dev;
    bell_status status;
    size_t i;

    BELL_TRY(hcq_device_open(name, &dev));
    status = plan ? kio_fault_set(kio_of(dev), plan) : BELL_OK;
    for (i = 0; i < ARRAY_LEN(operations) && status == BELL_OK; i++)
        status = operations[i].run(dev);
    hcq_device_close(dev);
    return status;
}

/* Every call fails from the n-th on: neither the program nor the kernel has
 * more after a hundred such lives than after the first. A process of its own
 * takes all with it; one that is kept gives back later what it could not. */
static void
calls_fail_for_ever(void **state)
{
    static const char *const plans[] = {"any:%u+=EIO", "ioctl:%u+=ENOMEM",
                                        "AMDKFD_IOC_FREE_MEMORY_OF_GPU+=EIO",
                                        "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU+=EIO",
                                        "AMDKFD_IOC_DESTROY_QUEUE+=EIO"};
    static const char kept[] = "AMD@fault:" NO_PLAN "@sim:gfx942";
    struct sim_amd_usage first, last;
    struct usage before;
    struct hcq_device *dev;
    unsigned turn, n_failed = 0;
    char name[96], plan[64];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(plans); i++) {
        for (turn = 0; turn <= TURNS; turn++) {
            snprintf(plan, sizeof(plan), plans[i], 10 + turn);
            snprintf(name, sizeof(name), "AMD@fault:%s@sim:gfx1100", plan);
            n_failed += live(name, NULL) != BELL_OK;
            expect_kept();
            if (turn == 0)
                before = usage_now();
        }
        usage_expect(before, TURNS / 5, "lives");
    }
    assert_true(n_failed > TURNS);

    dev = open_amd(kept);
    for (i = 0; i < ARRAY_LEN(plans); i++) {
        for (turn = 0; turn <= TURNS; turn++) {
            snprintf(plan, sizeof(plan), plans[i], turn % 60 + 1);
            (void)live(kept, plan);
            expect_ok(kio_fault_set(kio_of(dev), NO_PLAN));
            expect_ok(live(kept, NULL));
            if (turn == 0) {
                sim_amd_usage(kio_of(dev), &first);
                before = usage_now();
            }
        }
        sim_amd_usage(kio_of(dev), &last);
        same_usage(plans[i], turn, &first, &last);
        usage_expect(before, TURNS / 5, "lives");
    }
    hcq_device_close(dev);
    expect_kept();
}

/* ---- scratch ------------------------------------------------------------- */

static void
check_deep(struct hcq_queue *queue, const struct hcq_program *prog,
           struct hcq_buffer *buf)
{
    uint32_t *words = buf->host, i;

    memset(words, 0xff, 4096);
    launch(queue, prog, buf->va, 99, 64);
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    for (i = 0; i < 64; i++)
        assert_int_equal(words[i], i);
}

/* A queue waits for the host as a program comes that needs more: PM4 queues do
 * not mind. A bound stream launches with the memory that it has. */
static void
scratch_grows_under_work(void **state)
{
    struct hcq_device *dev;
    struct hcq_program *deep, *deeper;
    struct hcq_stream *stream;
    struct hcq_buffer *buf;
    struct hcq_queue *queue, *other;
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    const uint32_t grid[3] = {1, 1, 1}, local[3] = {64, 1, 1};
    uint64_t args[2], start_ns;
    uint32_t lane_bytes, i;

    (void)state;
    if (!has_kernels())
        skip();
    dev = open_amd("AMD@sim:gfx1100");
    expect_ok(hcq_buffer_create(dev, 8192, HCQ_MEM_HOST_VISIBLE, &buf));
    expect_ok(hcq_signal_create(dev, 0, &sig));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &other));
    expect_ok(load_kernel(dev, "deep", 1, &deep));
    lane_bytes = amd_device_of(dev)->scratch.lane_bytes;
    assert_int_equal(lane_bytes, 512);
    check_deep(queue, deep, buf);
    args[0] = buf->va + 4096;
    args[1] = 3;
    expect_ok(hcq_stream_create(other, "bound", &stream));
    hcq_cs_exec(hcq_stream_cs(stream), deep, args, 2, grid, local);
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    args[0] = buf->va;
    hcq_cs_exec(cs, deep, args, 2, grid, local);
    expect_ok(hcq_cs_submit(cs, NULL));
    start_ns = time_now_ns();
    expect_ok(load_kernel(dev, "deeper", 1, &deeper));
    assert_true(time_now_ns() - start_ns < 5000000000ull);
    assert_int_equal(amd_device_of(dev)->scratch.lane_bytes, 4096);
    check_deep(other, deeper, buf);
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_queue_wait(other, HCQ_TIMEOUT_NS));
    memset(buf->host, 0xff, 4096);
    hcq_signal_set(sig, 1);
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    for (i = 0; i < 64; i++) {
        assert_int_equal(((uint32_t *)buf->host)[i], i);
        assert_int_equal(((uint32_t *)buf->host)[1024 + i], i);
    }
    hcq_stream_destroy(stream);
    hcq_program_destroy(deep);
    hcq_program_destroy(deeper);
    hcq_queue_destroy(queue);
    hcq_queue_destroy(other);
    hcq_signal_destroy(sig);
    hcq_buffer_destroy(buf);
    hcq_device_close(dev);
    expect_kept();
}

static void *
set_later(void *sig)
{
    struct timespec nap = {.tv_sec = 1, .tv_nsec = 100000000};

    nanosleep(&nap, NULL);
    hcq_signal_set(sig, 1);
    return NULL;
}

/* AQL queues have to be idle: loading waits until they are, or while the device
 * moves; then it fails and says why. */
static void
scratch_of_aql(void **state)
{
    struct sim_amd_usage before, after;
    struct hcq_program *deep, *deeper = NULL;
    struct hcq_buffer *buf;
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_device *dev;
    struct hcq_cs *cs;
    pthread_t thread;
    uint64_t start_ns;

    (void)state;
    if (!has_kernels())
        skip();
    dev = open_amd("AMD@sim:gfx942");
    expect_ok(hcq_buffer_create(dev, 8192, HCQ_MEM_HOST_VISIBLE, &buf));
    expect_ok(hcq_signal_create(dev, 0, &sig));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(load_kernel(dev, "deep", 1, &deep));
    check_deep(queue, deep, buf);
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    sim_amd_usage(kio_of(dev), &before);
    start_ns = time_now_ns();
    hcq_device_set_timeout(dev, 50000000);
    assert_int_equal(load_kernel(dev, "deeper", 1, &deeper), BELL_E_TIMEOUT);
    assert_true(time_now_ns() - start_ns < 10000000000ull);
    assert_non_null(strstr(bell_error_last()->message, "idle"));
    sim_amd_usage(kio_of(dev), &after);
    same_usage("scratch", 0, &before, &after);
    hcq_device_set_timeout(dev, 60000000000ull);
    assert_int_equal(pthread_create(&thread, NULL, set_later, sig), 0);
    expect_ok(load_kernel(dev, "deeper", 1, &deeper));
    pthread_join(thread, NULL);
    check_deep(queue, deeper, buf);
    check_deep(queue, deep, buf);
    hcq_program_destroy(deep);
    hcq_program_destroy(deeper);
    hcq_queue_destroy(queue);
    hcq_signal_destroy(sig);
    hcq_buffer_destroy(buf);
    hcq_device_close(dev);
}

/* Growing, in steps, with every failure; the sum of what is kept. */
static void
scratch_fails(void **state)
{
    struct hcq_device *dev = open_amd("AMD@fault:" NO_PLAN "@sim:gfx1100");
    struct amd_device *amd = amd_device_of(dev);
    struct sim_amd_usage start, before, after;
    struct hcq_queue *queues[2];
    const struct amd_scratch *scratch[2];
    uint32_t bytes, step = 0, i;

    (void)state;
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[i]));
        scratch[i] = &amd_queue_of(queues[i])->scratch;
    }
    sim_amd_usage(kio_of(dev), &start);
    for (bytes = 100; bytes < 20000; bytes = bytes * 5 / 4 + 1, step++) {
        bell_status status = BELL_E_IO;
        unsigned n;

        for (n = 1; status != BELL_OK; n++) {
            char plan[32];

            sim_amd_usage(kio_of(dev), &before);
            snprintf(plan, sizeof(plan), "%s:%u=EIO",
                     step % 2 ? "ioctl" : "mmap", n);
            expect_ok(kio_fault_set(kio_of(dev), plan));
            status = amd_scratch_grow(amd, bytes);
            expect_ok(kio_fault_set(kio_of(dev), NO_PLAN));
            sim_amd_usage(kio_of(dev), &after);
            if (status != BELL_OK)
                same_usage("scratch", n, &before, &after);
        }
        assert_true(amd->scratch.lane_bytes >= bytes);
        assert_true(amd->scratch.lane_bytes < 2 * bytes ||
                    amd->scratch.lane_bytes == 128);
        for (i = 0; i < 2; i++) { /* each has its own */
            assert_int_equal(scratch[i]->lane_bytes, amd->scratch.lane_bytes);
            assert_int_equal(scratch[i]->mem.size_bytes,
                             amd->scratch.xcc_bytes);
        }
        assert_true(scratch[0]->mem.va - scratch[1]->mem.va >=
                        scratch[1]->mem.size_bytes &&
                    scratch[1]->mem.va - scratch[0]->mem.va >=
                        scratch[0]->mem.size_bytes);
        assert_true(after.memory_bytes - start.memory_bytes <
                    4 * scratch[0]->mem.size_bytes);
    }
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[0]));
    assert_int_equal(amd_queue_of(queues[0])->scratch.mem.size_bytes,
                     amd->scratch.xcc_bytes);
    hcq_queue_destroy(queues[0]);
    host_fail_after(2, 0);
    assert_int_equal(amd_scratch_grow(amd, 60000), BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
    /* 15 bits of 256 bytes for 64 lanes */
    assert_int_equal(amd_scratch_grow(amd, 131073), BELL_E_UNSUPPORTED);
    assert_int_equal(amd_scratch_grow(amd, 1u << 22), BELL_E_UNSUPPORTED);
    assert_int_equal(amd_scratch_grow(amd, UINT32_MAX), BELL_E_UNSUPPORTED);
    hcq_device_close(dev);
    expect_kept();
}

/* A device's name may be as long as a path, or a plan, makes it. */
static void
long_names(void **state)
{
    char name[512] = "AMD@fault:" NO_PLAN;
    struct hcq_device *dev, *same;

    (void)state;
    while (strlen(name) < 240)
        strcat(name, "," NO_PLAN);
    strcat(name, "@sim:gfx1100");
    dev = open_amd(name);
    same = open_amd(name);
    assert_ptr_equal(amd_device_of(dev)->process, amd_device_of(same)->process);
    hcq_device_close(dev);
    hcq_device_close(same);
    expect_kept();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails),
        cmocka_unit_test(events_fail),
        cmocka_unit_test(opening_has_no_memory),
        cmocka_unit_test(second_opening_fails),
        cmocka_unit_test(opens_again),
        cmocka_unit_test(operations_fail),
        cmocka_unit_test(operations_have_no_memory),
        cmocka_unit_test(closing_fails),
        cmocka_unit_test(calls_fail_for_ever),
        cmocka_unit_test(scratch_grows_under_work),
        cmocka_unit_test(scratch_of_aql),
        cmocka_unit_test(scratch_fails),
        cmocka_unit_test(long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
