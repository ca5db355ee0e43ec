/* hcq/nv when things fail: every kernel call and every allocation of every
 * operation, one at a time; errors of the card; hung work; recovery.
 *
 * After a failed operation the simulated kernel holds exactly what it held
 * before; after a failed opening there is nothing.
 */
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
#include "hcq/nv/nv_control.h"
#include "hcq/nv/regs/nv_mem.h"
#include "ioctl/kio_fault.h"
#include "ioctl/nv_uapi.h"
#include "sim/nv/sim_nv.h"
#include "tests/unit/expect.h"
#include "tests/unit/usage.h"

#define MIB (1u << 20)

static struct hcq_device *
open_nv(const char *name)
{
    struct hcq_device *dev = NULL;

    expect_ok(hcq_device_open(name, &dev));
    return dev;
}

/* ---- opening ------------------------------------------------------------- */

static void
opening_fails(void **state)
{
    static const char *const actions[] = {"EIO", "ENOMEM", "status=0x51",
                                          "status=0x40"};
    struct hcq_device *dev;
    char name[96];
    size_t i;
    unsigned n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(actions); i++) {
        unsigned n_good = 0, n_bad = 0;

        for (n = 1; n_good < 60; n++) {
            bool vendor = strchr(actions[i], '=') != NULL;
            bell_status status;

            snprintf(name, sizeof(name), "NV@fault:%s:%u=%s@sim:sm_90",
                     vendor ? "ioctl" : "any", n, actions[i]);
            status = hcq_device_open(name, &dev);
            if (status == BELL_OK) {
                hcq_device_close(dev);
                n_good++;
            } else {
                assert_true(bell_error_last()->message[0]);
                n_good = 0;
                n_bad++;
            }
            assert_false(sim_nv_machine_exists());
        }
        assert_true(n_bad > 10);
    }
    hcq_device_close(open_nv("NV@sim:sm_90"));
}

/* From the n-th call on nothing works, clean-up neither: the call that failed
 * first is told (or the first that had to work: two in a row may fail without
 * harm), and the process keeps nothing. */
static void
opening_fails_for_ever(void **state)
{
    struct usage before = {0};
    struct hcq_device *dev;
    bell_status status = BELL_E_KERNEL;
    char name[96];
    unsigned n, told;

    (void)state;
    for (n = 1; status != BELL_OK; n++) {
        snprintf(name, sizeof(name), "NV@fault:any:%u+=EIO@sim:sm_90", n);
        status = hcq_device_open(name, &dev);
        if (status == BELL_OK) {
            hcq_device_close(dev);
        } else {
            const char *message = bell_error_last()->message;
            const char *at = strstr(message, "planned for call ");

            told = at ? (unsigned)strtoul(at + 17, NULL, 10) : 0;
            if (told < n || told > n + 3)
                fail_msg("call %u failed first, told: %s", n, message);
        }
        assert_false(sim_nv_machine_exists());
        if (n == 5)
            before = usage_now();
    }
    assert_true(n > 25);
    usage_expect(before, 10, "openings that failed");
}

static void
opening_has_no_memory(void **state)
{
    struct hcq_device *dev;
    int once;

    (void)state;
    for (once = 0; once < 2; once++) {
        uint64_t n;
        bell_status status = BELL_E_NO_MEMORY;

        for (n = 1; status != BELL_OK; n++) {
            host_fail_after(n, once);
            status = hcq_device_open("NV@sim:sm_90", &dev);
            host_fail_after(0, 0);
            assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY ||
                        status == BELL_E_KERNEL);
            if (status == BELL_OK)
                hcq_device_close(dev);
            assert_false(sim_nv_machine_exists());
        }
    }
}

/* ---- operations ---------------------------------------------------------- */

/* One thing done and undone. Returns the first failure. */
typedef bell_status operation_fn(struct nv_device *dev);

static bell_status
compute_queue(struct nv_device *dev)
{
    struct hcq_queue *queue;

    BELL_TRY(hcq_queue_create(&dev->base, HCQ_QUEUE_COMPUTE, &queue));
    hcq_queue_destroy(queue);
    return BELL_OK;
}

static bell_status
copy_queue(struct nv_device *dev)
{
    struct hcq_queue *queue;

    BELL_TRY(hcq_queue_create(&dev->base, HCQ_QUEUE_COPY, &queue));
    hcq_queue_destroy(queue);
    return BELL_OK;
}

static bell_status
own_memory(struct nv_device *dev, enum nv_mem_kind kind)
{
    struct nv_mem mem;

    BELL_TRY(nv_mem_alloc(dev, 20 * MIB, 256, kind, &mem));
    nv_mem_free(dev, &mem);
    return BELL_OK;
}

static bell_status
video_memory(struct nv_device *dev)
{
    return own_memory(dev, NV_MEM_VIDEO);
}

static bell_status
visible_memory(struct nv_device *dev)
{
    return own_memory(dev, NV_MEM_VISIBLE);
}

static bell_status
system_memory(struct nv_device *dev)
{
    return own_memory(dev, NV_MEM_SYSTEM);
}

static bell_status
pinned_memory(struct nv_device *dev)
{
    static uint8_t pages[20000];
    struct hcq_buffer *buf;

    BELL_TRY(hcq_buffer_create_pinned(&dev->base, pages, sizeof(pages), &buf));
    hcq_buffer_destroy(buf);
    return BELL_OK;
}

static bell_status
recovery(struct nv_device *dev)
{
    return hcq_device_recover(&dev->base);
}

static const struct {
    const char *name;
    operation_fn *run;
} operations[] = {
    {"compute queue", compute_queue},    {"copy queue", copy_queue},
    {"video memory", video_memory},      {"visible memory", visible_memory},
    {"system memory", system_memory},    {"pinned memory", pinned_memory},
    {"recovery with nothing", recovery},
};

static void
same_usage(const char *name, unsigned n, const struct sim_nv_usage *a,
           const struct sim_nv_usage *b)
{
    if (memcmp(a, b, sizeof(*a)) == 0)
        return;
    fail_msg("%s, call %u: objects %u to %u, files %u to %u, mappings %u to "
             "%u, memory %llu to %llu, mapped %llu to %llu",
             name, n, a->objects, b->objects, a->files, b->files, a->mappings,
             b->mappings, (unsigned long long)a->memory_bytes,
             (unsigned long long)b->memory_bytes,
             (unsigned long long)a->va_mapped_bytes,
             (unsigned long long)b->va_mapped_bytes);
}

/* The n-th call of the operation fails, for every n. */
static void
fail_calls(struct nv_device *dev, size_t op, const char *kind,
           const char *action)
{
    struct sim_nv_usage before = {0}, after = {0};
    char plan[64];
    unsigned n;

    for (n = 1;; n++) {
        bell_status status;
        uint64_t hits;

        /* A pool keeps one empty piece: have it there. */
        expect_ok(kio_fault_set(dev->kio, "poll:1000000=EIO"));
        expect_ok(operations[op].run(dev));
        sim_nv_usage(dev->kio, &before);
        snprintf(plan, sizeof(plan), "%s:%u=%s", kind, n, action);
        expect_ok(kio_fault_set(dev->kio, plan));
        status = operations[op].run(dev);
        hits = kio_fault_hits(dev->kio);
        expect_ok(kio_fault_set(dev->kio, "poll:1000000=EIO"));
        sim_nv_usage(dev->kio, &after);
        same_usage(operations[op].name, n, &before, &after);
        if (status == BELL_OK && !hits)
            break;
        assert_true(n < 500);
    }
}

static void
operations_fail(void **state)
{
    static const char *const models[] = {"rm", "uvm"};
    static const char *const rules[][2] = {
        {"open", "EMFILE"},       {"mmap", "ENOMEM"},       {"ioctl", "EIO"},
        {"ioctl", "status=0x51"}, {"ioctl", "status=0x40"},
    };
    size_t m, i, r;

    (void)state;
    for (m = 0; m < ARRAY_LEN(models); m++) {
        struct hcq_device *dev = NULL;
        bell_status status;

        setenv("BELL_NV_VM", models[m], 1);
        status = hcq_device_open("NV@fault:poll:1000000=EIO@sim:sm_90", &dev);
        unsetenv("BELL_NV_VM");
        if (m == 1 && status == BELL_E_UNSUPPORTED)
            break; /* a sanitizer has the addresses */
        expect_ok(status);
        for (i = 0; i < ARRAY_LEN(operations); i++) {
            for (r = 0; r < ARRAY_LEN(rules); r++)
                fail_calls(nv_device_of(dev), i, rules[r][0], rules[r][1]);
        }
        hcq_device_close(dev);
        assert_false(sim_nv_machine_exists());
    }
}

static void
operations_have_no_memory(void **state)
{
    struct nv_device *dev = nv_device_of(open_nv("NV@sim:sm_90"));
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(operations); i++) {
        struct sim_nv_usage before, after;
        bell_status status;
        uint64_t n;

        expect_ok(operations[i].run(dev));
        sim_nv_usage(dev->kio, &before);
        for (n = 1;; n++) {
            host_fail_after(n, 1);
            status = operations[i].run(dev);
            host_fail_after(0, 0);
            if (status == BELL_OK)
                break;
            assert_true(status == BELL_E_NO_MEMORY || status == BELL_E_KERNEL);
            sim_nv_usage(dev->kio, &after);
            same_usage(operations[i].name, (unsigned)n, &before, &after);
        }
    }
    hcq_device_close(&dev->base);
    assert_false(sim_nv_machine_exists());
}

/* ---- errors of the card -------------------------------------------------- */

/* A copy from where nothing is. */
static void
bad_copy(struct hcq_queue *queue, uint64_t dst_va)
{
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, dst_va, 0xdead000000, 4096);
    expect_ok(hcq_cs_submit(cs, NULL));
}

static void
good_copy(struct hcq_queue *queue, struct hcq_buffer *to,
          struct hcq_buffer *from)
{
    struct hcq_cs *cs;

    memset(from->host, 0x5a, 4096);
    memset(to->host, 0, 4096);
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, to->va, from->va, 4096);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    assert_memory_equal(to->host, from->host, 4096);
}

/* A copy faults; the other queue's channel is made again, too; 20 times in one
 * process, on each kind of queue. */
static void
faults_and_recovers(void **state)
{
    struct hcq_device *dev = open_nv("NV@sim:sm_90");
    struct sim_nv_usage before, after;
    struct hcq_buffer *from, *to;
    struct hcq_queue *queues[2];
    struct hcq_fault fault;
    int i;

    (void)state;
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queues[0]));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[1]));
    sim_nv_usage(nv_device_of(dev)->kio, &before);
    for (i = 0; i < 20; i++) {
        struct hcq_queue *queue = queues[i % 2];

        good_copy(queues[0], to, from);
        good_copy(queues[1], to, from);
        bad_copy(queue, to->va);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS),
                         BELL_E_DEVICE_LOST);
        assert_non_null(strstr(bell_error_last()->message, "at 0xdead000000"));
        hcq_device_fault(dev, &fault);
        assert_int_equal(fault.kind, HCQ_FAULT_MEMORY);
        assert_int_equal(fault.va, 0xdead000000);
        assert_string_equal(fault.queue, hcq_queue_name(queue));
        assert_int_equal(hcq_device_status(dev), BELL_E_DEVICE_LOST);
        expect_ok(hcq_device_recover(dev));
        expect_ok(hcq_device_status(dev));
    }
    good_copy(queues[1], to, from);
    sim_nv_usage(nv_device_of(dev)->kio, &after);
    same_usage("recovery", 0, &before, &after);
    hcq_queue_destroy(queues[0]);
    hcq_queue_destroy(queues[1]);
    hcq_buffer_destroy(from);
    hcq_buffer_destroy(to);
    hcq_device_close(dev);
}

/* Work that never ends: a timeout that says what it is, then recovery; and
 * one that is destroyed as it hangs. */
static void
hangs(void **state)
{
    struct hcq_device *dev = open_nv("NV@sim:sm_90");
    struct hcq_buffer *word;
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_buffer_create(dev, 64, HCQ_MEM_HOST_VISIBLE, &word));
    memset(word->host, 0, 64);
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_poll(cs, word->va, 0xffffffff, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    assert_int_equal(hcq_queue_wait(queue, 20000000), BELL_E_TIMEOUT);
    assert_non_null(strstr(bell_error_last()->message, "poll"));
    expect_ok(hcq_device_status(dev));
    expect_ok(hcq_device_recover(dev));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(word);
    hcq_device_close(dev);
}

/* What recovering resets: channels that do something, and no others; and that
 * it does without, as without turns by blocks. */
static void
resets(void **state)
{
    static const char rule[] = "NV906F_CTRL_CMD_RESET_CHANNEL:1+=delay=1us";
    static const char refused[] =
        "NV906F_CTRL_CMD_RESET_CHANNEL:1+=status=0x56,"
        "NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE:1+=status=0x56";
    struct hcq_device *dev = open_nv("NV@fault:poll:1000000=EIO@sim:sm_90");
    struct kio *kio = nv_device_of(dev)->kio;
    struct hcq_queue *copy, *compute;
    struct hcq_buffer *from, *to;
    struct hcq_cs *cs;
    int i;

    (void)state;
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &copy));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &compute));
    good_copy(copy, to, from);
    expect_ok(kio_fault_set(kio, rule));
    expect_ok(hcq_device_recover(dev));
    assert_int_equal(kio_fault_hits(kio), 0);
    bad_copy(copy, to->va);
    assert_int_equal(hcq_queue_wait(copy, HCQ_TIMEOUT_NS), BELL_E_DEVICE_LOST);
    expect_ok(hcq_device_recover(dev));
    assert_int_equal(kio_fault_hits(kio), 0);
    for (i = 0; i < 2; i++) {
        struct hcq_queue *queue = i ? compute : copy;

        memset(to->host, 0, 64);
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_poll(cs, to->va, 0xffffffff, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        assert_int_equal(hcq_queue_wait(queue, 1000000), BELL_E_TIMEOUT);
        if (i)
            expect_ok(kio_fault_set(kio, refused));
        expect_ok(hcq_device_recover(dev));
        assert_int_equal(kio_fault_hits(kio), i ? 2 : 1);
        good_copy(queue, to, from);
    }
    /* a lost device's queues are destroyed without waiting */
    expect_ok(kio_fault_set(kio, rule));
    memset(to->host, 0, 64);
    expect_ok(hcq_queue_begin(copy, &cs));
    hcq_cs_poll(cs, to->va, 0xffffffff, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    bad_copy(compute, to->va);
    assert_int_equal(hcq_queue_wait(compute, HCQ_TIMEOUT_NS),
                     BELL_E_DEVICE_LOST);
    hcq_queue_destroy(compute);
    assert_int_equal(kio_fault_hits(kio), 0);
    hcq_queue_destroy(copy);
    assert_int_equal(kio_fault_hits(kio), 1);
    hcq_buffer_destroy(from);
    hcq_buffer_destroy(to);
    hcq_device_close(dev);
    assert_false(sim_nv_machine_exists());
}

/* ---- what a fault is called ---------------------------------------------- */

/* As the card's driver does when a channel ends. */
static void
notify(struct hcq_queue *queue, uint32_t code)
{
    struct nv_mem_notifier *records =
        (void *)(uintptr_t)nv_queue_of(queue)->channel.notifier;

    records[NV_MEM_NOTIFIER_INDEX_ERROR].info32 = code;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    records[NV_MEM_NOTIFIER_INDEX_ERROR].status = 0xffff;
}

static void
expect_fault(struct hcq_device *dev, enum hcq_fault_kind kind,
             const char *begin, const char *part)
{
    struct hcq_fault fault;

    nv_fault_check(dev);
    hcq_device_fault(dev, &fault);
    assert_int_equal(fault.kind, kind);
    if (strncmp(fault.text, begin, strlen(begin)) != 0 ||
        !strstr(fault.text, part))
        fail_msg("not \"%s ... %s\": \"%s\"", begin, part, fault.text);
    expect_ok(hcq_device_recover(dev));
    hcq_device_fault(dev, &fault);
    assert_int_equal(fault.kind, HCQ_FAULT_NONE);
}

/* Each code's kind and words, on either queue. */
static void
names_codes(void **state)
{
    static const struct {
        uint32_t code;
        enum hcq_fault_kind kind;
        const char *text;
    } rows[] = {
        {13, HCQ_FAULT_INSTRUCTION, "kernel error on "},
        {31, HCQ_FAULT_MEMORY, "memory fault"},
        {32, HCQ_FAULT_STREAM, "bad pushbuffer on "},
        {39, HCQ_FAULT_STREAM, "copy engine error on "},
        {40, HCQ_FAULT_STREAM, "copy engine error on "},
        {41, HCQ_FAULT_STREAM, "copy engine error on "},
        {43, HCQ_FAULT_STREAM, "engine was reset on "},
        {44, HCQ_FAULT_STREAM, "error in a context switch on "},
        {45, HCQ_FAULT_STREAM, "removed because of another error on "},
        {48, HCQ_FAULT_MEMORY, "memory bit error on "},
        {69, HCQ_FAULT_STREAM, "bad method or launch descriptor on "},
        {70, HCQ_FAULT_STREAM, "copy engine error on "},
        {71, HCQ_FAULT_STREAM, "copy engine error on "},
        {72, HCQ_FAULT_STREAM, "copy engine error on "},
        {79, HCQ_FAULT_STREAM, "the card is off the bus on "},
        {94, HCQ_FAULT_MEMORY, "memory bit error on "},
        {95, HCQ_FAULT_MEMORY, "memory bit error on "},
        {109, HCQ_FAULT_STREAM, "context switch timed out on "},
        {119, HCQ_FAULT_STREAM, "the card's firmware does not answer on "},
        {120, HCQ_FAULT_STREAM, "the card's firmware failed on "},
        {7, HCQ_FAULT_STREAM, "error on "},
        {123456, HCQ_FAULT_STREAM, "error on "},
    };
    struct hcq_device *dev = open_nv("NV@sim:sm_90");
    struct hcq_queue *queues[2];
    char part[96];
    size_t i;

    (void)state;
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[0]));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queues[1]));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_queue *queue = queues[i % 2];

        notify(queue, rows[i].code);
        snprintf(part, sizeof(part), "on %s, code %u", queue->name,
                 rows[i].code);
        expect_fault(dev, rows[i].kind, rows[i].text, part);
    }
    /* what was removed is not the cause, whichever comes first */
    notify(queues[0], 45);
    notify(queues[1], 32);
    snprintf(part, sizeof(part), "on %s, code 32", queues[1]->name);
    expect_fault(dev, HCQ_FAULT_STREAM, "bad pushbuffer", part);
    notify(queues[0], 32);
    notify(queues[1], 45);
    snprintf(part, sizeof(part), "on %s, code 32", queues[0]->name);
    expect_fault(dev, HCQ_FAULT_STREAM, "bad pushbuffer", part);
    hcq_queue_destroy(queues[0]);
    hcq_queue_destroy(queues[1]);
    hcq_device_close(dev);
}

/* What each word of what the driver tells of an MMU fault becomes. */
static void
names_mmu_faults(void **state)
{
#define CHANNEL(word, value)                                                   \
    "NV906F_CTRL_CMD_GET_MMU_FAULT_INFO=reply=" #word ":" #value
#define DEBUGGER(word, value)                                                  \
    "NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO=reply=" #word ":" #value
    /* behind the 8 words of NV_ESC_RM_CONTROL's own */
    static const struct {
        const char *rule, *text;
        uint64_t va;
    } rows[] = {
        {"poll:1000000=EIO", "memory fault at 0x0 on ", 0},
        {CHANNEL(8, 1), "memory fault at 0x100000000 on ", 1ull << 32},
        {CHANNEL(9, 4660), "memory fault at 0x1234 on ", 0x1234},
        {CHANNEL(11, 25185), "memory fault at 0x0 (ab) on ", 0},
        {CHANNEL(12, 25185), "memory fault at 0x0 on ", 0},
        {CHANNEL(20, 64), "memory fault at 0x0 at 0x40 on ", 0},
        {CHANNEL(21, 1), "memory fault at 0x0 at 0x100000000 on ", 0},
        {CHANNEL(22, 64), "memory fault at 0x0 on ", 0},
        {DEBUGGER(24, 1), "memory fault at 0x0 (read) on ", 0},
        {DEBUGGER(11, 1), "memory fault at 0x0 on ", 0}, /* of no fault */
        /* the debugger's address is the one that is taken */
        {CHANNEL(9, 4660) "," DEBUGGER(24, 2), "memory fault at 0x0 (read) on ",
         0},
        {"NV906F_CTRL_CMD_GET_MMU_FAULT_INFO=status=0x56", "memory fault on ",
         0},
        {"NV906F_CTRL_CMD_GET_MMU_FAULT_INFO=status=0x56," DEBUGGER(24, 1),
         "memory fault at 0x0 (read) on ", 0},
        {CHANNEL(9, 4660) ",NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO="
                          "status=0x56",
         "memory fault at 0x1234 on ", 0x1234},
    };
#undef CHANNEL
#undef DEBUGGER
    struct hcq_device *dev = open_nv("NV@fault:poll:1000000=EIO@sim:sm_90");
    struct kio *kio = nv_device_of(dev)->kio;
    struct hcq_queue *queue;
    struct hcq_fault fault;
    size_t i;

    (void)state;
    assert_int_equal(sizeof(struct nv_os54), 8 * 4);
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        expect_ok(kio_fault_set(kio, rows[i].rule));
        notify(queue, 31);
        nv_fault_check(dev);
        hcq_device_fault(dev, &fault);
        assert_int_equal(fault.va, rows[i].va);
        expect_fault(dev, HCQ_FAULT_MEMORY, rows[i].text, "code 31");
    }
    hcq_queue_destroy(queue);
    hcq_device_close(dev);
}

/* What warps say of themselves, whichever SM they are on, with the address if
 * it is told. */
static void
names_warp_errors(void **state)
{
    static const struct {
        uint32_t esr;
        enum hcq_fault_kind kind;
        const char *begin, *part;
    } rows[] = {
        {0xe, HCQ_FAULT_MEMORY, "kernel error: address out of range",
         ", ESR 0xe on"},
        {0xf, HCQ_FAULT_MEMORY, "kernel error: misaligned address",
         ", ESR 0xf on"},
        {0x10, HCQ_FAULT_MEMORY,
         "kernel error: address in a window of shared or local memory",
         ", ESR 0x10 on"},
        {0x2000d, HCQ_FAULT_INSTRUCTION, "kernel error at 0x", ", ESR 0xd on"},
        {0x11, HCQ_FAULT_INSTRUCTION, "kernel error at 0x", ", ESR 0x11 on"},
        {0x30000, HCQ_FAULT_INSTRUCTION, "kernel error at 0x0 on", ""},
    };
    static const uint32_t sms[] = {0, 1, 99, 100, 131};
    struct hcq_device *dev = open_nv("NV@fault:poll:1000000=EIO@sim:h100");
    struct kio *kio = nv_device_of(dev)->kio;
    const struct nv83de_debug_read_all_sm_error_states *states = NULL;
    size_t state_bytes = sizeof(states->smErrorStateArray[0]);
    struct hcq_queue *queue;
    char rule[128];
    size_t i, k;

    (void)state;
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (k = 0; k < ARRAY_LEN(sms); k++) {
            size_t word =
                (sizeof(struct nv_os54) + sms[k] % 100 * state_bytes +
                 offsetof(struct nv83de_debug_read_all_sm_error_states,
                          smErrorStateArray[0].hwwWarpEsr)) /
                4;

            snprintf(rule, sizeof(rule),
                     "NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES:%u=reply="
                     "%zu:%u",
                     1 + sms[k] / 100, word, rows[i].esr);
            expect_ok(kio_fault_set(kio, rule));
            notify(queue, 13);
            expect_fault(dev, rows[i].kind, rows[i].begin, rows[i].part);
            assert_int_equal(kio_fault_hits(kio), 1);
        }
    }
    hcq_queue_destroy(queue);
    hcq_device_close(dev);
}

/* A recovery in which a call fails: the device stays as it was, and the next
 * one works. */
static void
recovery_fails(void **state)
{
    struct hcq_device *dev = open_nv("NV@fault:poll:1000000=EIO@sim:sm_90");
    struct kio *kio = nv_device_of(dev)->kio;
    struct hcq_buffer *from, *to;
    struct hcq_queue *queue;
    unsigned n, n_failed = 0;
    char plan[64];

    (void)state;
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    for (n = 1; n < 30; n++) {
        bell_status status;

        bad_copy(queue, to->va);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS),
                         BELL_E_DEVICE_LOST);
        snprintf(plan, sizeof(plan), "ioctl:%u=EIO", n);
        expect_ok(kio_fault_set(kio, plan));
        status = hcq_device_recover(dev);
        expect_ok(kio_fault_set(kio, "poll:1000000=EIO"));
        if (status != BELL_OK) {
            n_failed++;
            assert_int_equal(hcq_device_status(dev), BELL_E_DEVICE_LOST);
            expect_ok(hcq_device_recover(dev));
        }
        good_copy(queue, to, from);
    }
    assert_true(n_failed > 3);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(from);
    hcq_buffer_destroy(to);
    hcq_device_close(dev);
    assert_false(sim_nv_machine_exists());
}

/* A copy by the driver's own kernel is told as what it is, beside others. */
static void
copy_by_a_kernel(void **state)
{
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    struct hcq_fault fault;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_device_open("NV@sim:sm_90", &dev));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    expect_ok(hcq_buffer_create(dev, 1u << 20, 0, &buf));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, buf->va + (48ull << 30), buf->va, 1u << 20);
    expect_ok(hcq_cs_submit(cs, NULL));
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_E_DEVICE_LOST);
    hcq_device_fault(dev, &fault);
    assert_string_equal(fault.program, "copy or fill");
    assert_non_null(strstr(fault.text, "; copy 1048576 bytes"));
    hcq_device_close(dev);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails),
        cmocka_unit_test(opening_fails_for_ever),
        cmocka_unit_test(opening_has_no_memory),
        cmocka_unit_test(operations_fail),
        cmocka_unit_test(operations_have_no_memory),
        cmocka_unit_test(faults_and_recovers),
        cmocka_unit_test(hangs),
        cmocka_unit_test(resets),
        cmocka_unit_test(names_codes),
        cmocka_unit_test(names_mmu_faults),
        cmocka_unit_test(names_warp_errors),
        cmocka_unit_test(copy_by_a_kernel),
        cmocka_unit_test(recovery_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
