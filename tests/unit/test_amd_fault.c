/* hcq/amd when things fail: every kernel call and every allocation of every
 * operation, one at a time; faults of the card; hung work; recovery; scratch
 * that grows under busy queues.
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
#include "tests/unit/expect.h"
#include "tests/unit/usage.h"
#include "tests/unit/sim_kept.h"

#define MIB     (1u << 20)
#define NO_PLAN "poll:1000000=EIO"
#define BAD_VA  0xdead000000ull

static struct hcq_device *
open_amd(const char *name)
{
    struct hcq_device *dev = NULL;

    expect_ok(hcq_device_open(name, &dev));
    return dev;
}

static struct kio *
kio_of(struct hcq_device *dev)
{
    return amd_device_of(dev)->process->kio;
}

/* ---- opening -------------------------------------------------------------------- */

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

/* ---- kernels -------------------------------------------------------------------- */

/* The tests' own kernels for a chip; NULL: LLVM's tools are not here. */
static void *
read_object(const char *arch, uint64_t *out_bytes)
{
#ifdef AMD_OBJECTS
    uint8_t *data = malloc(1u << 16);
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/control_%s.o", AMD_OBJECTS, arch);
    file = fopen(path, "rb");
    assert_non_null(file);
    *out_bytes = fread(data, 1, 1u << 16, file);
    fclose(file);
    return data;
#else
    (void)arch;
    *out_bytes = 0;
    return NULL;
#endif
}

static bell_status
load_kernel_as(struct hcq_device *dev, const char *name, const char *entry,
               uint32_t n_bufs, struct hcq_program **out_prog)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = name,
        .entry = entry,
        .n_bufs = n_bufs,
        .n_vals = 2 - n_bufs,
    };
    bell_status status;
    void *object;

    object = read_object(dev->info.arch, &desc.binary_size_bytes);
    desc.binary = object;
    status = hcq_program_create(dev, &desc, out_prog);
    free(object);
    return status;
}

static bell_status
load_kernel(struct hcq_device *dev, const char *entry, uint32_t n_bufs,
            struct hcq_program **out_prog)
{
    return load_kernel_as(dev, entry, entry, n_bufs, out_prog);
}

static bool
has_kernels(void)
{
#ifdef AMD_OBJECTS
    return true;
#else
    return false;
#endif
}

static void
launch(struct hcq_queue *queue, const struct hcq_program *prog, uint64_t a,
       uint64_t b, uint32_t n)
{
    const uint32_t grid[3] = {1, 1, 1}, local[3] = {n, 1, 1};
    const uint64_t args[2] = {a, b};
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, args, 2, grid, local);
    expect_ok(hcq_cs_submit(cs, NULL));
}

/* ---- operations ----------------------------------------------------------------- */

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

static void
same_usage(const char *name, unsigned n, const struct sim_amd_usage *a,
           const struct sim_amd_usage *b)
{
    if (memcmp(a, b, sizeof(*a)) == 0)
        return;
    fail_msg("%s, call %u: files %u to %u, queues %u to %u, events %u to %u, "
             "buffers %u to %u, memory %llu to %llu, mapped %llu to %llu",
             name, n, a->files, b->files, a->queues, b->queues, a->events,
             b->events, a->buffers, b->buffers,
             (unsigned long long)a->memory_bytes,
             (unsigned long long)b->memory_bytes,
             (unsigned long long)a->va_mapped_bytes,
             (unsigned long long)b->va_mapped_bytes);
}

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

/* ---- faults of the card ----------------------------------------------------------- */

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

/* A copy from where nothing is. */
static void
bad_copy(struct hcq_queue *queue, uint64_t dst_va)
{
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, dst_va, BAD_VA, 4096);
    expect_ok(hcq_cs_submit(cs, NULL));
}

/* The wait for it fails, and the report names it all. */
static void
expect_fault(struct hcq_queue *queue, uint64_t va, const char *program)
{
    struct hcq_device *dev = queue->dev;
    struct hcq_fault fault;
    char part[64];

    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_E_DEVICE_LOST);
    snprintf(part, sizeof(part), "at 0x%llx", (unsigned long long)va);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("no '%s' in: %s", part, bell_error_last()->message);
    hcq_device_fault(dev, &fault);
    assert_int_equal(fault.kind, HCQ_FAULT_MEMORY);
    assert_int_equal(fault.va, va);
    assert_string_equal(fault.queue, hcq_queue_name(queue));
    if (program)
        assert_string_equal(fault.program, program);
    assert_int_equal(hcq_device_status(dev), BELL_E_DEVICE_LOST);
}

/* At once, and with what came first. */
static void
expect_end(bell_status status, const char *what, uint64_t va)
{
    const char *text = bell_error_last()->message;
    char part[64];

    if (status != BELL_E_DEVICE_LOST)
        fail_msg("%s: %s", what, bell_status_name(status));
    snprintf(part, sizeof(part), "memory fault at 0x%llx (not mapped)",
             (unsigned long long)va);
    if (!strstr(text, part) ||
        !strstr(text, "KFD 1.17 runs nothing more of this process on this "
                      "card: start the program anew"))
        fail_msg("%s: %s", what, text);
}

/* After a memory fault nothing of the process runs on the card again, and
 * everything says so at once; what is in memory can still be read. Another card
 * of the process goes on, and so does another process on this one. */
static void
fault_is_the_end(void **state)
{
    static const char *const chips[] = {"gfx1100*2", "gfx942*2"};
    struct hcq_buffer *from, *to, *from1, *to1;
    struct hcq_queue *queues[2], *queue1, *more;
    struct hcq_device *dev, *dev1, *again, *other;
    struct hcq_cs *cs;
    uint64_t start_ns;
    uint32_t word;
    char name[96];
    size_t i;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(chips); i++) {
        const char *chip = chips[i / 2];

        snprintf(name, sizeof(name), "AMD@fault:" NO_PLAN "@sim:%s", chip);
        dev = open_amd(name);
        snprintf(name, sizeof(name), "AMD:1@fault:" NO_PLAN "@sim:%s", chip);
        dev1 = open_amd(name);
        snprintf(name, sizeof(name), "AMD@fault:any:900000=EIO@sim:%s", chip);
        other = open_amd(name);
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queues[0]));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[1]));
        good_copy(queues[0], to, from);
        good_copy(queues[1], to, from);
        bad_copy(queues[i % 2], to->va);
        expect_fault(queues[i % 2], BAD_VA, NULL);
        start_ns = time_now_ns();
        expect_end(hcq_queue_begin(queues[0], &cs), "begin", BAD_VA);
        expect_end(hcq_queue_wait(queues[i % 2], HCQ_TIMEOUT_NS), "wait",
                   BAD_VA);
        expect_end(hcq_device_recover(dev), "recover", BAD_VA);
        expect_end(hcq_device_recover(dev), "recover again", BAD_VA);
        expect_end(hcq_device_status(dev), "status", BAD_VA);
        expect_end(hcq_queue_begin(queues[1], &cs), "begin", BAD_VA);
        expect_end(hcq_queue_create(dev, HCQ_QUEUE_COPY, &more), "queue",
                   BAD_VA);
        snprintf(name, sizeof(name), "AMD@fault:" NO_PLAN "@sim:%s", chip);
        expect_end(hcq_device_open(name, &again), "open", BAD_VA);
        assert_true(time_now_ns() - start_ns < 1000000000ull);
        expect_ok(hcq_buffer_read(from, 0, &word, 4));
        assert_int_equal(word, 0x5a5a5a5a);

        expect_ok(hcq_device_status(dev1));
        expect_ok(hcq_buffer_create(dev1, 4096, HCQ_MEM_HOST_VISIBLE, &from1));
        expect_ok(hcq_buffer_create(dev1, 4096, HCQ_MEM_HOST_VISIBLE, &to1));
        expect_ok(hcq_queue_create(dev1, HCQ_QUEUE_COPY, &queue1));
        good_copy(queue1, to1, from1);
        hcq_device_close(dev1);
        expect_ok(hcq_buffer_create(other, 4096, HCQ_MEM_HOST_VISIBLE, &from1));
        expect_ok(hcq_buffer_create(other, 4096, HCQ_MEM_HOST_VISIBLE, &to1));
        expect_ok(hcq_queue_create(other, HCQ_QUEUE_COMPUTE, &queue1));
        good_copy(queue1, to1, from1);
        hcq_device_close(other);
        hcq_device_close(dev);
        expect_kept();
    }
}

/* A kernel reads where nothing is, and writes there; its name is one from its
 * first letter on. */
static void
kernels_fault(void **state)
{
    static const char *const names[] = {"AMD@fault:" NO_PLAN "@sim:gfx1100",
                                        "AMD@fault:" NO_PLAN "@sim:gfx942"};
    static const char *const programs[] = {"move", "move", "m"};
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_queue *queue;
    struct hcq_fault fault;
    char part[32];
    size_t i;

    (void)state;
    if (!has_kernels())
        skip();
    for (i = 0; i < ARRAY_LEN(names) * ARRAY_LEN(programs); i++) {
        struct hcq_device *dev = open_amd(names[i / ARRAY_LEN(programs)]);
        const char *program = programs[i % ARRAY_LEN(programs)];
        uint64_t va = BAD_VA + i * 0x3000;

        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &buf));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
        expect_ok(load_kernel_as(dev, program, "move", 2, &prog));
        ((uint32_t *)buf->host)[5] = 77;
        launch(queue, prog, buf->va, buf->va + 20, 1);
        expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
        assert_int_equal(*(uint32_t *)buf->host, 77);
        launch(queue, prog, i % 2 ? va : buf->va, i % 2 ? buf->va : va, 1);
        expect_fault(queue, va, program);
        hcq_device_fault(dev, &fault);
        assert_non_null(strstr(fault.text, "not mapped"));
        snprintf(part, sizeof(part), " in '%s' on ", program);
        assert_non_null(strstr(fault.text, part));
        snprintf(part, sizeof(part), "exec %s 1x1x1", program);
        assert_non_null(strstr(fault.text, part));
        expect_end(hcq_device_recover(dev), "recover", va);
        assert_non_null(strstr(bell_error_last()->message, program));
        hcq_program_destroy(prog);
        hcq_queue_destroy(queue);
        hcq_buffer_destroy(buf);
        hcq_device_close(dev);
        expect_kept();
    }
}

/* A fault stops all of the process's queues on the card: those of another
 * opening, too, which is told when it looks. */
static void
two_openings_fault(void **state)
{
    static const char name[] = "AMD@fault:" NO_PLAN "@sim:gfx1100";
    struct hcq_device *a = open_amd(name), *b = open_amd(name), *c;
    struct hcq_buffer *from, *to;
    struct hcq_queue *qa, *qb;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_queue_create(a, HCQ_QUEUE_COPY, &qa));
    expect_ok(hcq_queue_create(b, HCQ_QUEUE_COMPUTE, &qb));
    expect_ok(hcq_buffer_create(b, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(b, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    good_copy(qb, to, from);
    bad_copy(qa, BAD_VA + 4096);
    expect_fault(qa, BAD_VA, NULL);
    expect_ok(hcq_queue_wait(qb, 0)); /* nothing to do */
    /* It has not looked, and submits: the wait tells. */
    expect_ok(hcq_queue_begin(qb, &cs));
    hcq_cs_copy(cs, to->va, from->va, 4096);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_end(hcq_queue_wait(qb, HCQ_TIMEOUT_NS), "wait", BAD_VA);
    expect_end(hcq_device_recover(b), "recover", BAD_VA);
    expect_end(hcq_device_recover(a), "recover", BAD_VA);
    expect_end(hcq_device_open(name, &c), "open", BAD_VA);
    hcq_device_close(b);
    expect_end(hcq_device_recover(a), "recover", BAD_VA);
    hcq_device_close(a);
    expect_kept();
}

/* Another process's work resets the card: a device with work under way is lost
 * for good, with the reason; one that has nothing to do is told when it looks. A
 * process that begins later has the card. */
static void
card_is_reset(void **state)
{
    static const char *const names[] = {
        "AMD@fault:" NO_PLAN "@sim:%s,reset=4",
        "AMD@fault:any:900000=EIO@sim:%s,reset=4",
        "AMD@fault:any:900001=EIO@sim:%s,reset=4"};
    static const char *const chips[] = {"gfx1100", "gfx942"};
    struct hcq_device *devs[3];
    struct hcq_queue *queues[3];
    struct hcq_buffer *from[3], *to[3];
    struct hcq_signal *never;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    char name[96];
    size_t c, i;

    (void)state;
    for (c = 0; c < ARRAY_LEN(chips); c++) {
        for (i = 0; i < 2; i++) {
            snprintf(name, sizeof(name), names[i], chips[c]);
            devs[i] = open_amd(name);
            expect_ok(hcq_buffer_create(devs[i], 4096, HCQ_MEM_HOST_VISIBLE,
                                        &from[i]));
            expect_ok(
                hcq_buffer_create(devs[i], 4096, HCQ_MEM_HOST_VISIBLE, &to[i]));
            expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COMPUTE, &queues[i]));
            good_copy(queues[i], to[i], from[i]);
        }
        expect_ok(hcq_signal_create(devs[0], 0, &never));
        expect_ok(hcq_queue_begin(queues[0], &cs));
        hcq_cs_wait(cs, never, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        assert_int_equal(hcq_queue_wait(queues[0], 20000000), BELL_E_TIMEOUT);
        expect_ok(hcq_queue_begin(queues[1], &cs)); /* the fourth */
        hcq_cs_fill(cs, to[1]->va, 0, 4096);
        expect_ok(hcq_cs_submit(cs, NULL));
        for (i = 0; i < 2; i++) {
            const char *text = bell_error_last()->message;

            assert_int_equal(hcq_queue_wait(queues[1 - i], HCQ_TIMEOUT_NS),
                             BELL_E_DEVICE_LOST);
            hcq_device_fault(devs[1 - i], &fault);
            assert_int_equal(fault.kind, HCQ_FAULT_RESET);
            if (!strstr(text, "the card was reset (something hung, here or of "
                              "another process), its memory is lost; KFD 1.17 "
                              "runs nothing more of this process on this card"))
                fail_msg("%s", text);
            assert_int_equal(hcq_device_recover(devs[1 - i]),
                             BELL_E_DEVICE_LOST);
            assert_non_null(strstr(text, "start the program anew; the first "
                                         "fault: the card was reset"));
            assert_int_equal(hcq_queue_begin(queues[1 - i], &cs),
                             BELL_E_DEVICE_LOST);
        }
        snprintf(name, sizeof(name), names[2], chips[c]);
        devs[2] = open_amd(name);
        expect_ok(
            hcq_buffer_create(devs[2], 4096, HCQ_MEM_HOST_VISIBLE, &from[2]));
        expect_ok(
            hcq_buffer_create(devs[2], 4096, HCQ_MEM_HOST_VISIBLE, &to[2]));
        expect_ok(hcq_queue_create(devs[2], HCQ_QUEUE_COPY, &queues[2]));
        good_copy(queues[2], to[2], from[2]);
        for (i = 0; i < 3; i++)
            hcq_device_close(devs[i]);
        expect_kept();
    }
}

/* Submits a write whose packet no card knows: its opcode is changed while the
 * queue waits. */
static void
bad_packet(struct hcq_queue *queue, uint64_t va)
{
    const struct amd_mem *push = &amd_queue_of(queue)->push;
    uint32_t *words = push->cpu, i, n_changed = 0;
    struct hcq_signal *sig;
    struct hcq_cs *cs;

    expect_ok(hcq_signal_create(queue->dev, 0, &sig));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, sig, 1);
    hcq_cs_write(cs, va, 1, 32);
    expect_ok(hcq_cs_submit(cs, NULL));
    for (i = 0; i < push->size_bytes / 4; i++) {
        if (words[i] == 0xc0033700 && words[i + 2] == (uint32_t)va) {
            words[i] = 0xc0037700;
            n_changed++;
        }
    }
    assert_true(n_changed > 0);
    hcq_signal_set(sig, 1);
}

/* What the card refuses the kernel tells where it was asked to: the device is
 * lost, with the reason, and recovers, because queues can be destroyed. Before
 * KFD 1.14, and where the runtime is refused, the wait takes its time. */
static void
packets_are_refused(void **state)
{
    static const struct {
        const char *name;
        bool is_told;
    } rows[] = {
        {"AMD@fault:" NO_PLAN "@sim:gfx1100", true},
        {"AMD@fault:" NO_PLAN "@sim:gfx942", true},
        {"AMD@fault:" NO_PLAN "@sim:gfx1100,kfd=1.13", false},
        {"AMD@fault:AMDKFD_IOC_RUNTIME_ENABLE=EBUSY@sim:gfx1100", false},
    };
    size_t i;
    int turn;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_device *dev = open_amd(rows[i].name);
        struct hcq_buffer *from, *to;
        struct hcq_queue *queue;
        struct hcq_fault fault;
        bell_status status;

        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
        for (turn = 0; turn < 3; turn++) {
            good_copy(queue, to, from);
            bad_packet(queue, to->va);
            status = hcq_queue_wait(queue, rows[i].is_told ? HCQ_TIMEOUT_NS
                                                           : 20000000);
            hcq_device_fault(dev, &fault);
            if (!rows[i].is_told) {
                assert_int_equal(status, BELL_E_TIMEOUT);
                assert_int_equal(fault.kind, HCQ_FAULT_NONE);
            } else {
                assert_int_equal(status, BELL_E_DEVICE_LOST);
                assert_int_equal(fault.kind, HCQ_FAULT_STREAM);
                assert_string_equal(fault.queue, hcq_queue_name(queue));
                assert_non_null(strstr(fault.text, "an unsupported packet"));
            }
            expect_ok(hcq_device_recover(dev));
            expect_ok(hcq_device_status(dev));
        }
        good_copy(queue, to, from);
        hcq_device_close(dev);
        expect_kept();
    }
}

/* Work that never ends, of both kinds of queue: a timeout that says what it
 * is, then recovery; and a device that is closed as it hangs. */
static void
hangs(void **state)
{
    static const char *const names[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942"};
    static const enum hcq_queue_kind kinds[] = {HCQ_QUEUE_COPY,
                                                HCQ_QUEUE_COMPUTE};
    struct hcq_buffer *from, *to;
    struct hcq_signal *sig;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    uint64_t start_ns;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names) * 2; i++) {
        struct hcq_device *dev = open_amd(names[i / 2]);

        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
        expect_ok(hcq_signal_create(dev, 0, &sig));
        expect_ok(hcq_queue_create(dev, kinds[i % 2], &queue));
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_wait(cs, sig, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        assert_int_equal(hcq_queue_wait(queue, 20000000), BELL_E_TIMEOUT);
        assert_non_null(strstr(bell_error_last()->message, "wait"));
        expect_ok(hcq_device_status(dev));
        expect_ok(hcq_device_recover(dev));
        expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
        good_copy(queue, to, from);
        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_wait(cs, sig, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        start_ns = time_now_ns();
        hcq_device_close(dev); /* drops it, with all that is there */
        assert_true(time_now_ns() - start_ns < 10000000000ull);
        expect_kept();
    }
}

/* A recovery in which a call fails: the next one works. */
static void
recovery_fails(void **state)
{
    struct hcq_device *dev = open_amd("AMD@fault:" NO_PLAN "@sim:gfx1100");
    struct hcq_buffer *from, *to;
    struct hcq_signal *never;
    struct hcq_queue *queue;
    unsigned n, n_failed = 0;
    struct hcq_cs *cs;
    char plan[64];

    (void)state;
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_signal_create(dev, 0, &never));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    for (n = 1; n < 20; n++) {
        bell_status status;

        expect_ok(hcq_queue_begin(queue, &cs));
        hcq_cs_wait(cs, never, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        assert_int_equal(hcq_queue_wait(queue, 1000000), BELL_E_TIMEOUT);
        snprintf(plan, sizeof(plan), "ioctl:%u=EIO", n);
        expect_ok(kio_fault_set(kio_of(dev), plan));
        status = hcq_device_recover(dev);
        expect_ok(kio_fault_set(kio_of(dev), NO_PLAN));
        if (status != BELL_OK) {
            n_failed++;
            expect_ok(hcq_device_recover(dev));
        }
        good_copy(queue, to, from);
    }
    assert_true(n_failed > 0);
    hcq_queue_destroy(queue);
    hcq_signal_destroy(never);
    hcq_buffer_destroy(from);
    hcq_buffer_destroy(to);
    hcq_device_close(dev);
    expect_kept();
}

/* ---- scratch -------------------------------------------------------------------- */

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

/* A queue waits for the host as a program comes that needs more: PM4 queues
 * do not mind. What is bound launches with what it has. */
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
        cmocka_unit_test(fault_is_the_end),
        cmocka_unit_test(kernels_fault),
        cmocka_unit_test(two_openings_fault),
        cmocka_unit_test(card_is_reset),
        cmocka_unit_test(packets_are_refused),
        cmocka_unit_test(hangs),
        cmocka_unit_test(recovery_fails),
        cmocka_unit_test(scratch_grows_under_work),
        cmocka_unit_test(scratch_of_aql),
        cmocka_unit_test(scratch_fails),
        cmocka_unit_test(long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
