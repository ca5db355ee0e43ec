/* Devices of hcq/amd that are lost or hang: faults of the card, resets, packets
 * that are refused, work that never ends; what is said, and recovery.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kio_fault.h"
#include "sim/amd/sim_amd.h"
#include "tests/unit/amd_case.h"
#include "tests/unit/expect.h"
#include "tests/unit/sim_kept.h"

#define BAD_VA 0xdead000000ull

/* ---- faults of the card -------------------------------------------------- */

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

/* The queue stands in a wait, or is about to: it has come that far. */
static void
stand(struct hcq_queue *queue, struct hcq_buffer *host)
{
    volatile uint32_t *word = host->host;
    uint64_t start_ns = time_now_ns();
    struct hcq_signal *never;
    struct hcq_cs *cs;

    *word = 0;
    expect_ok(hcq_signal_create(queue->dev, 0, &never));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_write(cs, host->va, 1, 32);
    hcq_cs_wait(cs, never, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    while (*word != 1) {
        assert_true(time_now_ns() - start_ns < 20000000000ull);
        thread_relax();
    }
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

/* A card that cannot preempt a plain wait: recovery of a queue that waits
 * resets it, and the device says so; with the preemptable wait it recovers. */
static void
waits_that_block(void **state)
{
    static const char *const kinds[] = {NULL, "plain", "preemptable"};
    static const char *const chips[] = {"gfx1030", "gfx942", "gfx1100"};
    size_t i;

    (void)state;
    setenv("BELL_AMD_WAIT", "both", 1);
    expect_fails(hcq_device_open("AMD@sim:gfx1030", &(struct hcq_device *){0}),
                 BELL_E_INVALID, "BELL_AMD_WAIT is 'both'");
    for (i = 0; i < ARRAY_LEN(kinds) * ARRAY_LEN(chips); i++) {
        const char *kind = kinds[i % ARRAY_LEN(kinds)];
        bool yields = kind && strcmp(kind, "preemptable") == 0;
        struct hcq_device *dev;
        struct hcq_queue *queue;
        struct hcq_buffer *host;
        bell_status status;
        char name[96];

        unsetenv("BELL_AMD_WAIT");
        if (kind)
            setenv("BELL_AMD_WAIT", kind, 1);
        snprintf(name, sizeof(name), "AMD@fault:" NO_PLAN "@sim:%s,waits=block",
                 chips[i / ARRAY_LEN(kinds)]);
        dev = open_amd(name);
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &host));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
        stand(queue, host);
        status = hcq_device_recover(dev);
        if (yields) {
            assert_int_equal(status, BELL_OK);
        } else {
            assert_true(status != BELL_OK);
            expect_fails(hcq_device_status(dev), BELL_E_DEVICE_LOST,
                         "the card was reset");
        }
        hcq_device_close(dev);
        expect_kept();
    }
    unsetenv("BELL_AMD_WAIT");
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

/* From KFD 1.19 on the device recovers in the process, again and again:
 * buffers, programs and bound streams stay, of any kind of memory, and nothing
 * piles up behind the first time. */
static void
recovers_in_a_fresh_state(void **state)
{
    static const char *const names[] = {
        "AMD@fault:" NO_PLAN "@sim:gfx1100,kfd=1.19",
        "AMD@fault:" NO_PLAN "@sim:gfx942,kfd=1.23"};
    const uint32_t grid[3] = {1, 1, 1};
    struct sim_amd_usage first, before = {0}, after;
    struct hcq_buffer *from, *to, *card;
    struct hcq_program *prog = NULL;
    struct hcq_stream *stream;
    struct hcq_queue *queues[2];
    struct hcq_fault fault;
    uint32_t word;
    size_t m;
    int i;

    (void)state;
    for (m = 0; m < ARRAY_LEN(names); m++) {
        struct hcq_device *dev = open_amd(names[m]);
        uint64_t args[2];

        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
        expect_ok(hcq_buffer_create(dev, 3 * MIB, 0, &card));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queues[0]));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queues[1]));
        if (has_kernels()) {
            expect_ok(load_kernel(dev, "move", 2, &prog));
            args[0] = to->va;
            args[1] = card->va + 3 * MIB - 4;
            expect_ok(hcq_stream_create(queues[1], "kept", &stream));
            hcq_cs_exec(hcq_stream_cs(stream), prog, args, 2, grid, grid);
            expect_ok(hcq_stream_end(stream));
        }
        sim_amd_usage(kio_of(dev), &first);
        for (i = 0; i < 12; i++) {
            word = 0x1000 + (uint32_t)i;
            expect_ok(hcq_buffer_write(card, 3 * MIB - 4, &word, 4));
            bad_copy(queues[i % 2], to->va);
            expect_fault(queues[i % 2], BAD_VA, NULL);
            hcq_device_fault(dev, &fault);
            assert_null(strstr(fault.text, "anew"));
            expect_ok(hcq_device_recover(dev));
            expect_ok(hcq_device_status(dev));
            expect_ok(hcq_buffer_read(card, 3 * MIB - 4, &word, 4));
            assert_int_equal(word, 0x1000 + i);
            good_copy(queues[0], to, from);
            good_copy(queues[1], to, from);
            if (prog) {
                expect_ok(hcq_stream_submit(stream, NULL));
                expect_ok(hcq_queue_wait(queues[1], HCQ_TIMEOUT_NS));
                assert_int_equal(*(uint32_t *)to->host, 0x1000 + i);
            }
            sim_amd_usage(kio_of(dev), &after);
            if (i == 0) /* the first state has its page of events for good */
                before = after;
            assert_int_equal(after.buffers, first.buffers + 1);
            same_usage("recovery", (unsigned)i, &before, &after);
        }
        /* a hang, as ever */
        bad_packet(queues[1], to->va);
        assert_int_equal(hcq_queue_wait(queues[1], HCQ_TIMEOUT_NS),
                         BELL_E_DEVICE_LOST);
        expect_ok(hcq_device_recover(dev));
        good_copy(queues[1], to, from);
        if (prog) {
            hcq_stream_destroy(stream);
            hcq_program_destroy(prog);
        }
        hcq_device_close(dev);
        expect_kept();
    }
}

/* What stands in the way of that, each said; and after it. */
static void
fresh_state_is_refused(void **state)
{
    static const char name[] = "AMD@fault:" NO_PLAN "@sim:gfx1100*2,kfd=1.19";
    static uint8_t pages[8192] __attribute__((aligned(4096)));
    struct hcq_device *dev = open_amd(name), *again, *other;
    struct hcq_buffer *from, *to, *pinned;
    struct hcq_queue *queue, *more;

    (void)state;
    other = open_amd("AMD:1@fault:" NO_PLAN "@sim:gfx1100*2,kfd=1.19");
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_buffer_create_pinned(dev, pages, sizeof(pages), &pinned));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue));
    bad_copy(queue, to->va);
    expect_fault(queue, BAD_VA, NULL);
#define REFUSED(expr, part)                                                    \
    do {                                                                       \
        assert_int_equal(expr, BELL_E_DEVICE_LOST);                            \
        if (!strstr(bell_error_last()->message, part))                         \
            fail_msg("%s", bell_error_last()->message);                        \
    } while (0)
    REFUSED(hcq_device_open(name, &again), "recover the device that has it");
    REFUSED(hcq_queue_create(dev, HCQ_QUEUE_COPY, &more), "is lost");
    REFUSED(hcq_device_recover(dev), "recover or close its other AMD devices");
    hcq_device_close(other);
    REFUSED(hcq_device_recover(dev), "destroy pinned buffers");
    REFUSED(hcq_device_status(dev), "memory fault");
    hcq_buffer_destroy(pinned);
    expect_ok(hcq_device_recover(dev));
    good_copy(queue, to, from);
#undef REFUSED
    assert_int_equal(
        hcq_buffer_create_pinned(dev, pages, sizeof(pages), &pinned),
        BELL_E_UNSUPPORTED);
    assert_non_null(strstr(bell_error_last()->message, "after a recovery"));
    other = open_amd("AMD:1@fault:" NO_PLAN "@sim:gfx1100*2,kfd=1.19");
    again = open_amd(name);
    hcq_device_close(again);
    hcq_device_close(other);
    hcq_device_close(dev);
}

/* Each of two openings is told to wait for the other: whichever recovers last
 * makes the fresh state, and the first has it when it asks again. So do three,
 * in any order, and one of a card that nothing befell. */
static void
fresh_state_of_several(void **state)
{
    static const struct {
        unsigned n, order[6];
    } plans[] = {
        {2, {0, 1, 0}}, {2, {0, 0, 1}}, {3, {1, 0, 2}}, {3, {2, 1, 0}}};
    struct hcq_device *devs[3];
    struct hcq_buffer *from[3], *to[3];
    struct hcq_queue *queues[3];
    size_t p;
    unsigned i, n_parked;

    (void)state;
    for (p = 0; p < 2 * ARRAY_LEN(plans); p++) {
        unsigned n = plans[p / 2].n;
        bool parked[3] = {false};

        for (i = 0; i < n; i++) {
            devs[i] = open_amd("AMD@fault:" NO_PLAN "@sim:gfx1100,kfd=1.19");
            expect_ok(hcq_buffer_create(devs[i], 4096, HCQ_MEM_HOST_VISIBLE,
                                        &from[i]));
            expect_ok(
                hcq_buffer_create(devs[i], 4096, HCQ_MEM_HOST_VISIBLE, &to[i]));
            expect_ok(hcq_queue_create(
                devs[i], i == 1 ? HCQ_QUEUE_COMPUTE : HCQ_QUEUE_COPY,
                &queues[i]));
            good_copy(queues[i], to[i], from[i]);
        }
        bad_copy(queues[0], to[0]->va);
        expect_fault(queues[0], BAD_VA, NULL);
        for (i = n_parked = 0; n_parked + 1 < n; i++) {
            unsigned k = plans[p / 2].order[i];

            expect_fails(hcq_device_recover(devs[k]), BELL_E_DEVICE_LOST,
                         "recover or close its other AMD devices");
            n_parked += !parked[k];
            parked[k] = true;
        }
        if (p % 2) { /* one that closes is not waited for */
            for (i = 0; !parked[i]; i++)
                continue;
            hcq_device_close(devs[i]);
            devs[i] = NULL;
        }
        for (i = 0; i < n; i++) {
            if (!parked[i])
                expect_ok(hcq_device_recover(devs[i]));
        }
        for (i = 0; i < n; i++) {
            if (!devs[i])
                continue;
            if (parked[i])
                expect_ok(hcq_device_recover(devs[i]));
            good_copy(queues[i], to[i], from[i]);
        }
        for (i = 0; i < n; i++)
            hcq_device_close(devs[i]);
        expect_kept();
    }
}

/* Another card's device is not lost: it recovers in any case, and takes the
 * waiting one along. */
static void
fresh_state_by_another_card(void **state)
{
    struct hcq_device *dev, *other;
    struct hcq_buffer *from[2], *to[2];
    struct hcq_queue *queues[2];

    (void)state;
    dev = open_amd("AMD@fault:" NO_PLAN "@sim:gfx1100*2,kfd=1.19");
    other = open_amd("AMD:1@fault:" NO_PLAN "@sim:gfx1100*2,kfd=1.19");
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COPY, &queues[0]));
    expect_ok(hcq_queue_create(other, HCQ_QUEUE_COPY, &queues[1]));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from[0]));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to[0]));
    expect_ok(hcq_buffer_create(other, 4096, HCQ_MEM_HOST_VISIBLE, &from[1]));
    expect_ok(hcq_buffer_create(other, 4096, HCQ_MEM_HOST_VISIBLE, &to[1]));
    bad_copy(queues[0], to[0]->va);
    expect_fault(queues[0], BAD_VA, NULL);
    expect_fails(hcq_device_recover(dev), BELL_E_DEVICE_LOST, "other AMD");
    good_copy(queues[1], to[1], from[1]);
    expect_ok(hcq_device_recover(other));
    good_copy(queues[1], to[1], from[1]);
    expect_ok(hcq_device_recover(dev));
    good_copy(queues[0], to[0], from[0]);
    good_copy(queues[1], to[1], from[1]);
    hcq_device_close(other);
    hcq_device_close(dev);
    expect_kept();
}

/* Every call of it fails once: the device stays lost, with all it had, and the
 * next recovery works. */
static void
fresh_state_fails(void **state)
{
    static const char *const kinds[] = {"ioctl", "open", "mmap"};
    struct hcq_device *dev =
        open_amd("AMD@fault:" NO_PLAN "@sim:gfx1100,kfd=1.19");
    struct hcq_buffer *from, *to;
    struct hcq_queue *queue;
    struct sim_amd_usage before, after;
    unsigned n, n_failed = 0;
    uint64_t hits = 1;
    char plan[64];
    size_t k;

    (void)state;
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
    expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        for (n = 1, hits = 1; hits; n++) {
            bell_status status;

            bad_copy(queue, to->va);
            expect_fault(queue, BAD_VA, NULL);
            snprintf(plan, sizeof(plan), "%s:%u=EIO", kinds[k], n);
            expect_ok(kio_fault_set(kio_of(dev), plan));
            status = hcq_device_recover(dev);
            hits = kio_fault_hits(kio_of(dev));
            expect_ok(kio_fault_set(kio_of(dev), NO_PLAN));
            if (status != BELL_OK) {
                n_failed++;
                assert_int_equal(hcq_device_status(dev), BELL_E_DEVICE_LOST);
                expect_ok(hcq_device_recover(dev));
            }
            good_copy(queue, to, from);
        }
    }
    assert_true(n_failed > 20);
    bad_copy(queue, to->va);
    expect_fault(queue, BAD_VA, NULL);
    expect_ok(hcq_device_recover(dev));
    sim_amd_usage(kio_of(dev), &before);
    bad_copy(queue, to->va);
    expect_fault(queue, BAD_VA, NULL);
    expect_ok(hcq_device_recover(dev));
    sim_amd_usage(kio_of(dev), &after);
    same_usage("recovery", 0, &before, &after);
    hcq_device_close(dev);
}

/* A device that faulted is closed without being recovered: who opens the card
 * next has a fresh state, unless somebody else of the process is still
 * there. */
static void
closed_after_a_fault(void **state)
{
    static const char name[] = "AMD@sim:gfx1100*2,kfd=1.19";
    struct hcq_device *dev, *again, *other;
    struct hcq_buffer *from, *to;
    struct hcq_queue *queue;
    int i;

    (void)state;
    for (i = 0; i < 4; i++) {
        dev = open_amd(name);
        other = open_amd("AMD:1@sim:gfx1100*2,kfd=1.19");
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &from));
        expect_ok(hcq_buffer_create(dev, 4096, HCQ_MEM_HOST_VISIBLE, &to));
        expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
        good_copy(queue, to, from);
        bad_copy(queue, to->va);
        expect_fault(queue, BAD_VA, NULL);
        hcq_device_close(dev);
        assert_int_equal(hcq_device_open(name, &again), BELL_E_DEVICE_LOST);
        hcq_device_close(other);
    }
    dev = open_amd(name);
    hcq_device_close(dev);
}

/* The card was reset: what it held cannot be read, much or little. */
static void
expect_unreadable(struct hcq_buffer *card)
{
    static uint8_t data[64 * 1024];
    static const uint64_t sizes[] = {4, 4096, sizeof(data)};
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        assert_int_equal(hcq_buffer_read(card, 0, data, sizes[i]),
                         BELL_E_DEVICE_LOST);
        if (!strstr(bell_error_last()->message, "its memory is lost"))
            fail_msg("%s", bell_error_last()->message);
    }
}

/* Another process's work resets the card: a device with work under way is lost
 * for good, with the reason; one that has nothing to do is told when it looks.
 * A process that begins later has the card. */
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
    struct hcq_buffer *from[3], *to[3], *card[2];
    struct hcq_fault fault;
    struct hcq_cs *cs;
    char name[96];
    uint32_t word;
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
            expect_ok(hcq_buffer_create(devs[i], 64 * 1024, 0, &card[i]));
            word = 7;
            expect_ok(hcq_buffer_write(card[i], 0, &word, sizeof(word)));
            word = 0;
            expect_ok(hcq_buffer_read(card[i], 0, &word, sizeof(word)));
            assert_int_equal(word, 7);
        }
        stand(queues[0], to[0]);
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
            expect_unreadable(card[1 - i]);
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

/* The kernel tells of the card's refusals where it was asked to: the device is
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_is_the_end),
        cmocka_unit_test(kernels_fault),
        cmocka_unit_test(two_openings_fault),
        cmocka_unit_test(recovers_in_a_fresh_state),
        cmocka_unit_test(fresh_state_is_refused),
        cmocka_unit_test(fresh_state_of_several),
        cmocka_unit_test(fresh_state_by_another_card),
        cmocka_unit_test(fresh_state_fails),
        cmocka_unit_test(card_is_reset),
        cmocka_unit_test(packets_are_refused),
        cmocka_unit_test(waits_that_block),
        cmocka_unit_test(hangs),
        cmocka_unit_test(recovery_fails),
        cmocka_unit_test(closed_after_a_fault), /* the last: KFD keeps it */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
