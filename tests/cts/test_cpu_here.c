/* Kernels of few steps run on the thread that submits them: which do, in what
 * order, and what that leaves of the thread.
 */
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/thread.h"
#include "hcq/cpu/cpu_internal.h"

#define FEW        256u /* steps of a submission */
#define GROUPS_MAX 300u
#define NEAR_BYTES (1u << 16)

static unsigned char object[1u << 18];
static size_t object_bytes;

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    uint64_t *words; /* of buf */
};

static int
read_object(void **state)
{
    FILE *file = fopen(CTS_OBJECT_PIC, "rb");

    (void)state;
    if (!file)
        return -1;
    object_bytes = fread(object, 1, sizeof(object), file);
    fclose(file);
    return object_bytes > 64 ? 0 : -1;
}

static void
begin(struct rig *rig)
{
    assert_int_equal(hcq_device_open("CPU", &rig->dev), BELL_OK);
    assert_int_equal(hcq_queue_create(rig->dev, HCQ_QUEUE_COMPUTE, &rig->queue),
                     BELL_OK);
    assert_int_equal(
        hcq_buffer_create(rig->dev, GROUPS_MAX * 8, HCQ_MEM_DEVICE, &rig->buf),
        BELL_OK);
    rig->words = rig->buf->host;
    memset(rig->words, 0, GROUPS_MAX * 8);
}

static struct hcq_program *
load(const struct rig *rig, const char *entry, uint32_t n_args,
     uint32_t max_steps)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = entry,
        .binary = object,
        .binary_size_bytes = object_bytes,
        .n_bufs = n_args,
        .max_steps = max_steps,
    };
    struct hcq_program *prog = NULL;

    assert_int_equal(hcq_program_create(rig->dev, &desc, &prog), BELL_OK);
    return prog;
}

static struct hcq_cs *
fresh(const struct rig *rig)
{
    struct hcq_cs *cs = NULL;

    assert_int_equal(hcq_queue_begin(rig->queue, &cs), BELL_OK);
    return cs;
}

static void
submit(struct hcq_cs *cs)
{
    assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
}

/* The thread gives its last packet back behind the signal: what is submitted
 * then finds nothing before it. */
static void
finish(const struct rig *rig)
{
    const struct hcq_feed *feed = hcq_feed(rig->queue);

    assert_int_equal(hcq_queue_wait(rig->queue, HCQ_TIMEOUT_NS), BELL_OK);
    while (atomic_load(&feed->read) != atomic_load(&feed->write))
        continue;
}

static void
exec(const struct rig *rig, struct hcq_cs *cs, const struct hcq_program *prog,
     uint32_t n_groups, uint64_t at)
{
    const uint64_t args[] = {rig->buf->va + 8 * at};
    const uint32_t grid[3] = {n_groups, 1, 1};

    hcq_cs_exec(cs, prog, args, 1, grid, NULL);
}

/* Whether the address is on the caller's stack, near its end. */
static bool
is_here(uint64_t at)
{
    uint64_t here = (uintptr_t)__builtin_frame_address(0);

    return at - (here - NEAR_BYTES) < 2 * NEAR_BYTES;
}

/* ---- which --------------------------------------------------------------- */

static void
test_which(void **state)
{
    static const struct {
        uint32_t max_steps, n_groups;
        bool is_here;
    } rows[] = {
        {1, 1, true},           {FEW, 1, true},
        {FEW + 1, 1, false},    {0, 1, false},
        {FEW / 2, 2, true},     {FEW / 2, 3, false},
        {1, FEW, true},         {1, FEW + 1, false},
        {3, FEW / 3, true},     {3, FEW / 3 + 1, false},
        {UINT32_MAX, 1, false},
    };
    struct rig rig;
    size_t i, k;

    (void)state;
    begin(&rig);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hcq_program *prog = load(&rig, "where", 1, rows[i].max_steps);
        struct hcq_cs *cs = fresh(&rig);

        exec(&rig, cs, prog, rows[i].n_groups, 0);
        submit(cs);
        /* what runs here has run */
        if (rows[i].is_here)
            assert_int_equal(hcq_signal_value(rig.queue->timeline),
                             rig.queue->n_submitted);
        finish(&rig);
        for (k = 0; k < rows[i].n_groups; k++) {
            if (is_here(rig.words[k]) != rows[i].is_here)
                fail_msg("%u steps, %u groups: group %zu", rows[i].max_steps,
                         rows[i].n_groups, k);
        }
        hcq_program_destroy(prog);
    }
    hcq_device_close(rig.dev);
}

/* All kernels of a submission together, and of a bound stream. */
static void
test_several(void **state)
{
    struct hcq_stream *stream;
    struct hcq_program *prog;
    struct rig rig;
    struct hcq_cs *cs;
    unsigned i, k;

    (void)state;
    begin(&rig);
    prog = load(&rig, "where", 1, FEW / 2);
    assert_int_equal(hcq_stream_create(rig.queue, "three", &stream), BELL_OK);
    for (k = 0; k < 3; k++)
        exec(&rig, hcq_stream_cs(stream), prog, 1, k);
    assert_int_equal(hcq_stream_end(stream), BELL_OK);
    for (i = 0; i < 4; i++) {
        memset(rig.words, 0, 3 * 8);
        if (i & 1) {
            assert_int_equal(hcq_stream_submit(stream, NULL), BELL_OK);
        } else {
            cs = fresh(&rig);
            for (k = 0; k < 3; k++)
                exec(&rig, cs, prog, 1, k);
            submit(cs);
        }
        assert_true(is_here(rig.words[0]));
        assert_true(is_here(rig.words[1]));
        finish(&rig);
        assert_true(rig.words[2] != 0);
        assert_false(is_here(rig.words[2]));
    }
    hcq_stream_destroy(stream);
    hcq_device_close(rig.dev);
}

/* Other commands, and signals for others, are the thread's, and what is behind
 * them. */
static void
test_others(void **state)
{
    struct hcq_signal *sig;
    struct hcq_program *prog;
    struct rig rig;
    struct hcq_cs *cs;

    (void)state;
    begin(&rig);
    prog = load(&rig, "where", 1, 1);
    assert_int_equal(hcq_signal_create(rig.dev, 0, &sig), BELL_OK);
    cs = fresh(&rig);
    exec(&rig, cs, prog, 1, 0);
    hcq_cs_copy(cs, rig.buf->va + 8, rig.buf->va, 8);
    exec(&rig, cs, prog, 1, 2);
    hcq_cs_signal(cs, sig, 5);
    submit(cs);
    assert_true(is_here(rig.words[0]));
    finish(&rig);
    assert_true(rig.words[1] == rig.words[0]);
    assert_true(rig.words[2] != 0);
    assert_false(is_here(rig.words[2]));
    assert_int_equal(hcq_signal_value(sig), 5);
    cs = fresh(&rig);
    hcq_cs_signal(cs, sig, 6);
    exec(&rig, cs, prog, 1, 3);
    submit(cs);
    finish(&rig);
    assert_int_equal(hcq_signal_value(sig), 6);
    assert_false(is_here(rig.words[3]));
    hcq_signal_destroy(sig);
    hcq_device_close(rig.dev);
}

/* Nothing goes before what was submitted earlier; when that is done, work
 * comes here again. */
static void
test_order(void **state)
{
    struct hcq_signal *sig;
    struct hcq_program *prog;
    struct rig rig;
    struct hcq_cs *cs;
    unsigned i;

    (void)state;
    begin(&rig);
    prog = load(&rig, "where", 1, 1);
    assert_int_equal(hcq_signal_create(rig.dev, 0, &sig), BELL_OK);
    for (i = 1; i <= 3; i++) {
        memset(rig.words, 0, 16);
        cs = fresh(&rig);
        hcq_cs_wait(cs, sig, i);
        submit(cs);
        cs = fresh(&rig);
        exec(&rig, cs, prog, 1, 0);
        submit(cs);
        assert_int_equal(rig.words[0], 0);
        hcq_signal_set(sig, i);
        finish(&rig);
        assert_true(rig.words[0] != 0);
        assert_false(is_here(rig.words[0]));
        cs = fresh(&rig);
        exec(&rig, cs, prog, 1, 1);
        submit(cs);
        assert_true(is_here(rig.words[1]));
    }
    hcq_signal_destroy(sig);
    hcq_device_close(rig.dev);
}

/* ---- the ring ------------------------------------------------------------ */

/* A submission is as large as its ring, but for the signal of its end. */
static void
test_ring_sizes(void **state)
{
    static const struct {
        uint32_t asked, bytes; /* 0: the default */
    } rows[] = {{4096, 4096}, {8192, 8192}, {0, 256u << 10}};
    struct rig rig;
    size_t i;

    (void)state;
    begin(&rig);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                            .kind = HCQ_QUEUE_COMPUTE,
                                            .ring_size_bytes = rows[i].asked};
        uint32_t n_words = rows[i].bytes / 8 - 3, more, k;
        struct hcq_queue *queue;
        struct hcq_cs *cs;

        assert_int_equal(hcq_queue_create_with(rig.dev, &desc, &queue),
                         BELL_OK);
        for (more = 0; more < 2; more++) {
            assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
            for (k = 0; k < n_words + more; k++)
                hcq_cs_barrier(cs);
            assert_int_equal(hcq_cs_submit(cs, NULL),
                             more ? BELL_E_INVALID : BELL_OK);
            assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
        }
        hcq_queue_destroy(queue);
    }
    hcq_device_close(rig.dev);
}

/* Packets that the thread has not come to stay in the ring, up to its last
 * word; one that does not fit is refused when its time is over, and not
 * before. */
static void
test_full_ring(void **state)
{
    static const struct {
        uint32_t n_barriers, n_fit;
    } rows[] = {
        /* 512 words, of which 6 are the wait's */
        {20, 22}, {8, 46}, {10, 38}, {503, 1}, {504, 0}, {0, 168},
    };
    const struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                        .kind = HCQ_QUEUE_COMPUTE,
                                        .ring_size_bytes = 4096,
                                        .submit_timeout_ns = 20000000};
    struct hcq_queue *queue;
    struct hcq_signal *go;
    struct rig rig;
    size_t i;

    (void)state;
    begin(&rig);
    assert_int_equal(hcq_signal_create(rig.dev, 0, &go), BELL_OK);
    assert_int_equal(hcq_queue_create_with(rig.dev, &desc, &queue), BELL_OK);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t n = 0, k;
        bell_status status;
        struct hcq_cs *cs;
        const char *text;
        uint64_t start_ns, ns;
        double ms = 0;

        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        hcq_cs_wait(cs, go, i + 1);
        submit(cs);
        for (;;) {
            assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
            for (k = 0; k < rows[i].n_barriers; k++)
                hcq_cs_barrier(cs);
            start_ns = time_now_ns();
            status = hcq_cs_submit(cs, NULL);
            ns = time_now_ns() - start_ns;
            if (status != BELL_OK)
                break;
            n++;
        }
        assert_int_equal(status, BELL_E_TIMEOUT);
        assert_int_equal(n, rows[i].n_fit);
        assert_true(ns >= desc.submit_timeout_ns);
        text = strstr(bell_error_last()->message, " in the ring of 512 after ");
        assert_non_null(text);
        assert_int_equal(sscanf(text, " in the ring of 512 after %lf ms", &ms),
                         1);
        assert_true(ms >= 20 && ms <= (double)ns / 1e6 + 0.1);
        hcq_signal_set(go, i + 1);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
    }
    hcq_queue_destroy(queue);
    hcq_signal_destroy(go);
    hcq_device_close(rig.dev);
}

/* Commands of every size, many times around a small ring: each is done, where
 * it lies over the end as well, in order. */
static void
test_around_the_ring(void **state)
{
    const struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                        .kind = HCQ_QUEUE_COMPUTE,
                                        .ring_size_bytes = 4096};
    struct hcq_program *prog;
    struct hcq_queue *queue;
    struct rig rig;
    struct hcq_cs *cs;
    uint32_t x = 1;
    unsigned i, k;

    (void)state;
    begin(&rig);
    prog = load(&rig, "add_one", 3, 0);
    assert_int_equal(hcq_queue_create_with(rig.dev, &desc, &queue), BELL_OK);
    for (i = 1; i <= 1000; i++) {
        const uint64_t args[] = {rig.buf->va, rig.buf->va, 1};

        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        x = x * 1664525u + 1013904223u;
        for (k = 0; k < x >> 27; k++) {
            hcq_cs_barrier(cs);
            hcq_cs_write(cs, rig.buf->va + 8 * k + 8, i, 64);
        }
        hcq_cs_exec(cs, prog, args, 3, (const uint32_t[]){1, 1, 1}, NULL);
        hcq_cs_copy(cs, rig.buf->va + 8 * k + 8, rig.buf->va, 8);
        submit(cs);
        if (i % 50 == 0) {
            assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
            assert_int_equal(rig.words[0], i);
            assert_int_equal(rig.words[k + 1], i);
            while (k-- > 0)
                assert_int_equal(rig.words[k + 1], i);
        }
    }
    hcq_queue_destroy(queue);
    hcq_device_close(rig.dev);
}

/* ---- calls of the system ------------------------------------------------- */

static pthread_t counted; /* whose calls are; set by main */
static unsigned n_calls;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long
__wrap_syscall(long number, ...)
{
    va_list list;
    long args[6];
    size_t i;

    va_start(list, number);
    for (i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if (pthread_equal(pthread_self(), counted))
        n_calls++;
    return __real_syscall(number, args[0], args[1], args[2], args[3], args[4],
                          args[5]);
}

/* The thread sleeps, and is not woken for what runs here; for the rest it
 * is. */
static void
test_sleeping(void **state)
{
    struct hcq_program *few, *many;
    struct rig rig;
    struct hcq_cs *cs;
    unsigned i;

    (void)state;
    setenv("BELL_SPIN_US", "0", 1);
    begin(&rig);
    few = load(&rig, "where", 1, 1);
    many = load(&rig, "where", 1, 0);
    for (i = 0; i < 3; i++) {
        while (atomic_load(&hcq_feed(rig.queue)->sleeping) != HCQ_FEED_SLEEPS)
            continue;
        n_calls = 0;
        cs = fresh(&rig);
        exec(&rig, cs, few, 1, 0);
        submit(cs);
        finish(&rig);
        assert_int_equal(n_calls, 0);
        assert_int_equal(atomic_load(&hcq_feed(rig.queue)->sleeping),
                         HCQ_FEED_SLEEPS);
        cs = fresh(&rig);
        exec(&rig, cs, many, 1, 1);
        submit(cs);
        assert_int_equal(n_calls, 1);
        finish(&rig);
        assert_false(is_here(rig.words[1]));
    }
    hcq_device_close(rig.dev);
    unsetenv("BELL_SPIN_US");
}

/* ---- floats -------------------------------------------------------------- */

/* Whoever runs a kernel, and whatever he does with floats: it rounds to nearest
 * and keeps subnormals, and leaves no trace. */
static void
test_floats(void **state)
{
    static const uint32_t steps[] = {1, 0};
    const double third = 1.0 / 3.0;
    fenv_t old;
    size_t i;

    (void)state;
    assert_int_equal(fegetenv(&old), 0);
    for (i = 0; i < 2; i++) {
        struct hcq_program *prog;
        uint64_t args[3];
        struct rig rig;
        struct hcq_cs *cs;
        double *numbers;

        fesetround(FE_UPWARD); /* threads begin with their creator's */
        begin(&rig);
        prog = load(&rig, "quotient", 3, steps[i]);
        numbers = (double *)(void *)rig.words;
        numbers[1] = 1;
        numbers[2] = 3;
        args[0] = rig.buf->va;
        args[1] = rig.buf->va + 8;
        args[2] = rig.buf->va + 16;
        feclearexcept(FE_ALL_EXCEPT);
        cs = fresh(&rig);
        hcq_cs_exec(cs, prog, args, 3, (const uint32_t[]){1, 1, 1}, NULL);
        submit(cs);
        finish(&rig);
        assert_true(numbers[0] == third);
        assert_int_equal(fegetround(), FE_UPWARD);
        assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
        hcq_device_close(rig.dev);
        fesetenv(&old);
    }
}

/* ---- faults -------------------------------------------------------------- */

static sigjmp_buf back;
static volatile sig_atomic_t n_caught;

static void
catch_fault(int sig)
{
    (void)sig;
    n_caught = n_caught + 1;
    siglongjmp(back, 1);
}

/* A kernel's bad address loses the device, as anywhere; the thread goes on, and
 * its own faults are its own. */
static void
test_faults(void **state)
{
    static const char *const entries[] = {"where", "trap"};
    struct sigaction action = {.sa_handler = catch_fault,
                               .sa_flags = SA_NODEFER};
    struct sigaction old;
    sigset_t mask, before, after;
    struct hcq_program *good;
    struct hcq_fault fault;
    struct rig rig;
    struct hcq_cs *cs;
    char *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t i;

    (void)state;
    assert_ptr_not_equal(bad, MAP_FAILED);
    assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    begin(&rig);
    good = load(&rig, "where", 1, 1);
    for (i = 0; i < 4; i++) {
        struct hcq_program *prog = load(&rig, entries[i & 1], 1, 1);
        const uint64_t args[] = {(uintptr_t)bad};

        n_caught = 0;
        cs = fresh(&rig);
        hcq_cs_exec(cs, prog, args, 1, (const uint32_t[]){1, 1, 1}, NULL);
        submit(cs);
        /* here: it is known already */
        assert_int_equal(hcq_device_status(rig.dev), BELL_E_DEVICE_LOST);
        hcq_device_fault(rig.dev, &fault);
        assert_string_equal(fault.program, entries[i & 1]);
        assert_int_equal(fault.kind,
                         i & 1 ? HCQ_FAULT_INSTRUCTION : HCQ_FAULT_MEMORY);
        assert_int_equal(hcq_queue_wait(rig.queue, HCQ_TIMEOUT_NS),
                         BELL_E_DEVICE_LOST);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        assert_true(sigismember(&after, SIGUSR1) == 1);
        assert_true(sigismember(&after, SIGUSR2) ==
                    sigismember(&before, SIGUSR2));
        assert_true(sigismember(&after, SIGSEGV) == 0);
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)bad = 1;
        assert_int_equal(n_caught, 1);
        assert_int_equal(hcq_device_recover(rig.dev), BELL_OK);
        rig.words[0] = 0;
        cs = fresh(&rig);
        exec(&rig, cs, good, 1, 0);
        submit(cs);
        finish(&rig);
        assert_true(is_here(rig.words[0]));
        hcq_program_destroy(prog);
    }
    hcq_device_close(rig.dev);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGSEGV, &old, NULL);
    munmap(bad, 4096);
}

/* Other threads one after the other. */
static void *
run_elsewhere(void *user)
{
    const struct rig *rig = user;
    struct hcq_program *prog = load(rig, "where", 1, 1);
    struct hcq_cs *cs = fresh(rig);

    exec(rig, cs, prog, 1, 0);
    submit(cs);
    finish(rig);
    assert_true(is_here(rig->words[0]));
    return NULL;
}

static void
test_threads(void **state)
{
    struct rig rig;
    pthread_t thread;
    unsigned i;

    (void)state;
    begin(&rig);
    for (i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, &rig), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    hcq_device_close(rig.dev);
}

/* A queue takes two places, or none. */
static void
test_places(void **state)
{
    static struct cpu_worker workers[CPU_MAX_WORKERS + 1];
    struct hcq_queue *queue = NULL;
    struct rig rig;
    unsigned n = 0, left, i;

    (void)state;
    begin(&rig);
    while (n <= CPU_MAX_WORKERS) {
        workers[n].dev = cpu_device(rig.dev);
        if (cpu_fault_take_place(&workers[n]) != BELL_OK)
            break;
        n++;
    }
    assert_true(n < CPU_MAX_WORKERS); /* the device has some */
    for (left = 0; left < 3; left++) {
        bell_status status =
            hcq_queue_create(rig.dev, HCQ_QUEUE_COMPUTE, &queue);

        if (left < 2) {
            assert_int_equal(status, BELL_E_UNSUPPORTED);
            assert_non_null(strstr(bell_error_last()->message, "threads"));
        } else {
            assert_int_equal(status, BELL_OK);
        }
        if (left < 2)
            cpu_fault_leave_place(&workers[--n]);
    }
    for (i = 0; i < n; i++)
        cpu_fault_leave_place(&workers[i]);
    hcq_device_close(rig.dev);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_ring_sizes),
        cmocka_unit_test(test_full_ring),
        cmocka_unit_test(test_around_the_ring),
        cmocka_unit_test(test_sleeping),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_places),
    };

    counted = pthread_self();
    return cmocka_run_group_tests(tests, read_object, NULL);
}
