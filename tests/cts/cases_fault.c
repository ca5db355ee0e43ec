/* Kernels that fault or hang: a report, and the process goes on, or is told at
 * once that it cannot. */
#include "cts.h"

#include <stdatomic.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

/* Commands, unlike kernels, are code that the sanitizer knows. */
#define NO_COMMAND_FAULTS                                                      \
    "the thread sanitizer's memory accesses cannot be left by a jump"

/* An address that nobody may access. The thread sanitizer has its shadow
 * almost everywhere, so there a page without rights has to do. */
static uint64_t
bad_va(const struct cts *t)
{
    static uint64_t va;

    if (!(t->info.flags & HCQ_DEVICE_HOST_MEMORY) || !CTS_TSAN)
        return 0x123456789000ull;
    if (!va) {
        void *map = mmap(NULL, 32u << 20, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(map != MAP_FAILED, "mmap");
        va = (uint64_t)(uintptr_t)map;
    }
    return va;
}

/* The device works: one kernel, one copy. */
static void
check_alive(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *buf = cts_ints(t, 64, 1), *to = cts_ints(t, 64, 0);
    struct hcq_cs *cs = cts_begin(t->queue);
    struct hcq_fault fault;

    OK(hcq_device_status(t->dev));
    hcq_device_fault(t->dev, &fault);
    CHECK(fault.kind == HCQ_FAULT_NONE, "%s", fault.text);
    cts_exec(cs, prog, 16, ARGS(buf->va, buf->va, 4));
    cts_finish(t->queue, cs);
    cs = cts_begin(t->copy);
    hcq_cs_copy(cs, to->va, buf->va, 256);
    cts_finish(t->copy, cs);
    CHECK(cts_int(to, 0) == 2 && cts_int(to, 63) == 2, "%d", cts_int(to, 0));
    hcq_program_destroy(prog);
    hcq_buffer_destroy(buf);
    hcq_buffer_destroy(to);
}

/* A fault that nobody told the cause of, where this is so. */
static bool
is_untold(const struct cts *t, const struct hcq_fault *fault)
{
    return cts_may_lack(t->dev, CTS_LACK_CAUSES) && fault->va == 0 &&
           (fault->kind == HCQ_FAULT_INSTRUCTION ||
            fault->kind == HCQ_FAULT_STREAM);
}

static bool
is_of_memory(const struct cts *t, const struct hcq_fault *fault)
{
    return fault->kind == HCQ_FAULT_MEMORY || is_untold(t, fault);
}

/* The address that a fault names. Cards name the page. */
static bool
is_at(const struct cts *t, const struct hcq_fault *fault, uint64_t va)
{
    bool by_page = !(t->info.flags & HCQ_DEVICE_HOST_MEMORY);

    return fault->va == va || (by_page && fault->va == (va & ~4095ull)) ||
           is_untold(t, fault);
}

/* Part of its report. */
static const char *
told_address(struct cts *t)
{
    return cts_may_lack(t->dev, CTS_LACK_CAUSES) ? "" : "at 0x";
}

/* The device is lost by `kind`; every call says so. */
static struct hcq_fault
check_lost(struct cts *t, enum hcq_fault_kind kind, const char *program)
{
    struct hcq_queue *queue;
    struct hcq_fault fault;
    struct hcq_cs *cs;

    hcq_device_fault(t->dev, &fault);
    CHECK(kind == HCQ_FAULT_MEMORY ? is_of_memory(t, &fault)
                                   : fault.kind == kind,
          "kind %d: %s", (int)fault.kind, fault.text);
    CHECK(strcmp(fault.program, program) == 0, "%s", fault.program);
    CHECK(strstr(fault.text, program), "%s", fault.text);
    FAILS(hcq_device_status(t->dev), BELL_E_DEVICE_LOST, program);
    FAILS(hcq_queue_begin(t->queue, &cs), BELL_E_DEVICE_LOST, program);
    FAILS(hcq_queue_create(t->dev, HCQ_QUEUE_COPY, &queue), BELL_E_DEVICE_LOST,
          program);
    FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, program);
    FAILS(hcq_device_synchronize(t->dev, LONG_NS), BELL_E_DEVICE_LOST, program);
    return fault;
}

/* Where the report's text names groups, they are those of its numbers. */
static void
check_groups_told(const struct hcq_fault *fault)
{
    const char *told = strstr(fault->text, ", work-group");
    char want[96];

    if (fault->last_group - fault->first_group == 1)
        snprintf(want, sizeof(want), ", work-group %llu (",
                 (unsigned long long)fault->first_group);
    else
        snprintf(want, sizeof(want), ", work-groups %llu to %llu (",
                 (unsigned long long)fault->first_group,
                 (unsigned long long)fault->last_group - 1);
    CHECK(!told || strncmp(told, want, strlen(want)) == 0, "%s, not %s",
          fault->text, want);
}

static void
bad_address(struct cts *t)
{
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_buffer *buf = cts_ints(t, 16, 77);
    struct hcq_fault fault;
    struct hcq_cs *cs;
    char text[64];
    int i;

    for (i = 0; i < 10; i++) {
        cs = cts_begin(t->queue);
        cts_exec(cs, poke, 1, ARGS(buf->va, 0, bad_va(t) + (unsigned)i * 8));
        hcq_cs_signal(cs, sig, 1);
        OK(hcq_cs_submit(cs, NULL));
        FAILS(hcq_signal_wait(sig, 1, LONG_NS), BELL_E_DEVICE_LOST, "cts_poke");
        fault = check_lost(t, HCQ_FAULT_MEMORY, "cts_poke");
        CHECK(is_at(t, &fault, bad_va(t) + (unsigned)i * 8), "0x%llx",
              (unsigned long long)fault.va);
        snprintf(text, sizeof(text), "at 0x%llx", (unsigned long long)fault.va);
        CHECK(is_untold(t, &fault) || strstr(fault.text, text), "%s",
              fault.text);
        CHECK(strcmp(fault.queue, hcq_queue_name(t->queue)) == 0, "%s",
              fault.queue);
        CHECK(fault.first_group == 0 && fault.last_group == 1, "groups");
        check_groups_told(&fault);
        RECOVER(t->dev);
        /* Commands after the fault were dropped; memory is as it was. */
        CHECK(hcq_signal_value(sig) == 0, "went on after the fault");
        CHECK(cts_int(buf, 15) == 77, "memory");
        check_alive(t);
    }
}

/* The report's kernel and grid are the launch's, whatever its program is called
 * and whatever stands in front of it. */
static void
bad_names(struct cts *t)
{
    static const char *const names[] = {
        "two words",
        "exec 7x7x7 of",
        "%s%n",
        "a_name_of_eighty_characters_which_is_more_than_the_sixty_three_that_"
        "are_kept_of_it",
    };
    struct hcq_buffer *buf = cts_ints(t, 64, 5);
    struct hcq_fault fault;
    char kept[HCQ_NAME_MAX];
    size_t i, k;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct hcq_program *poke =
            cts_load_as(t, t->dev, CTS_POKE, 0, names[i]);
        struct hcq_cs *cs = cts_begin(t->queue);

        snprintf(kept, sizeof(kept), "%s", names[i]);
        for (k = 0; k < 8; k++) /* more than a line of the report holds */
            hcq_cs_copy(cs, buf->va + 128, buf->va, 64);
        cts_exec(cs, poke, 1, ARGS(buf->va, 0, bad_va(t)));
        OK(hcq_cs_submit(cs, NULL));
        FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, kept);
        fault = check_lost(t, HCQ_FAULT_MEMORY, kept);
        CHECK(fault.first_group == 0 && fault.last_group == 1,
              "'%s': groups %llu to %llu", kept,
              (unsigned long long)fault.first_group,
              (unsigned long long)fault.last_group);
        RECOVER(t->dev);
        hcq_program_destroy(poke);
    }
    check_alive(t);
}

/* The middle one of three launches in a row: the third never runs, and the
 * same stream does its work once the address is good. */
static void
bad_row(struct cts *t)
{
    struct hcq_program *add = cts_program(t, CTS_ADD_ONE);
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_buffer *a = cts_ints(t, 1, 0), *buf = cts_ints(t, 16, 77);
    struct hcq_stream *stream;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    bool keeps = !cts_may_lack(t->dev, CTS_LACK_STORES);
    int32_t seen = 0, before;
    uint32_t va;
    int i;

    OK(hcq_stream_create(t->queue, "row", &stream));
    va = hcq_stream_patch_point(stream, "va");
    cs = hcq_stream_cs(stream);
    cts_exec(cs, add, 1, ARGS(a->va, a->va, 1));
    cts_exec(cs, poke, 1, ARGS(buf->va, 0, bad_va(t)));
    hcq_cs_patch(cs, HCQ_FIELD_ARG + 2, va, 0);
    cts_exec(cs, add, 1, ARGS(a->va, a->va, 1));
    OK(hcq_stream_end(stream));
    for (i = 0; i < 6; i++) {
        if (i & 1) {
            OK(hcq_stream_submit(stream, NULL));
        } else {
            cs = cts_begin(t->queue);
            cts_exec(cs, add, 1, ARGS(a->va, a->va, 1));
            cts_exec(cs, poke, 1, ARGS(buf->va, 0, bad_va(t)));
            cts_exec(cs, add, 1, ARGS(a->va, a->va, 1));
            OK(hcq_cs_submit(cs, NULL));
        }
        /* Cards that do not tell where name the first. */
        FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, "cts_");
        hcq_device_fault(t->dev, &fault);
        CHECK(is_of_memory(t, &fault), "%s", fault.text);
        RECOVER(t->dev);
        before = seen;
        seen = cts_int(a, 0);
        CHECK(seen == before + 1 || (!keeps && seen == before), "%d", seen);
    }
    OK(hcq_stream_patch(stream, va, buf->va));
    OK(hcq_stream_submit(stream, NULL));
    OK(hcq_stream_wait(stream, LONG_NS));
    CHECK(cts_int(a, 0) == seen + 2, "%d", cts_int(a, 0));
    check_alive(t);
    hcq_stream_destroy(stream);
}

/* One group of many faults, on whatever worker has it. */
static void
bad_group(struct cts *t)
{
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_buffer *buf = cts_ints(t, 16, 0);
    static const uint64_t groups[] = {0, 1, 499, 998, 999};
    size_t i;

    for (i = 0; i < ARRAY_LEN(groups); i++) {
        struct hcq_cs *cs = cts_begin(t->queue);
        struct hcq_fault fault;

        cts_exec(cs, poke, 1000, ARGS(buf->va, groups[i], bad_va(t)));
        OK(hcq_cs_submit(cs, NULL));
        FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST,
              "cts_poke");
        fault = check_lost(t, HCQ_FAULT_MEMORY, "cts_poke");
        CHECK(fault.first_group <= groups[i] && groups[i] < fault.last_group,
              "[%llu, %llu)", (unsigned long long)fault.first_group,
              (unsigned long long)fault.last_group);
        check_groups_told(&fault);
        RECOVER(t->dev);
        check_alive(t);
    }
}

/* Accesses that only a device's own memory system refuses. */
static void
bad_access(struct cts *t)
{
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_program *add = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *buf = cts_ints(t, 16, 5), *large;
    int first = cts_may_lack(t->dev, CTS_LACK_ALIGNMENT) ? 1 : 0, i;
    uint64_t gone_va;

    if (t->info.flags & HCQ_DEVICE_HOST_MEMORY)
        cts_skip("the host's memory is aligned and freed in its own ways");
    large = cts_buffer(t, 64u << 20);
    gone_va = large->va + (32u << 20);
    hcq_buffer_destroy(large);
    hcq_memory_trim(t->dev);
    for (i = first; i < 4; i++) {
        struct hcq_cs *cs = cts_begin(t->queue);
        const char *name = i < 2 ? "cts_poke" : "cts_add_one";
        struct hcq_fault fault;

        if (i == 0) /* not a multiple of the word's size */
            cts_exec(cs, poke, 4, ARGS(buf->va, 3, buf->va + 2));
        else if (i == 1) /* memory that was given back */
            cts_exec(cs, poke, 4, ARGS(buf->va, 3, gone_va));
        else /* a read, and a read of page 0 */
            cts_exec(cs, add, 1, ARGS(buf->va, i == 2 ? bad_va(t) : 0, 4));
        OK(hcq_cs_submit(cs, NULL));
        FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, name);
        fault = check_lost(t, HCQ_FAULT_MEMORY, name);
        CHECK(i != 0 || strstr(fault.text, "misaligned"), "%s", fault.text);
        CHECK(i == 0 || is_at(t, &fault,
                              i == 1   ? gone_va
                              : i == 2 ? bad_va(t)
                                       : 0),
              "%d: 0x%llx", i, (unsigned long long)fault.va);
        RECOVER(t->dev);
        check_alive(t);
    }
    /* The word around the misaligned address may be written to, no other. */
    CHECK(cts_int(buf, 0) == 5 || cts_int(buf, 0) == 1, "%d", cts_int(buf, 0));
    for (i = 1; i < 16; i++)
        CHECK(cts_int(buf, (uint64_t)i) == 5, "%d: written to", i);
}

static void
bad_command(struct cts *t)
{
    struct hcq_buffer *buf = cts_ints(t, 16, 0);
    static const char *const names[] = {"copy", "copy", "fill", "write32",
                                        "write64"};
    size_t i;

    if (CTS_TSAN)
        cts_skip(NO_COMMAND_FAULTS);
    for (i = 0; i < ARRAY_LEN(names); i++) {
        struct hcq_cs *cs = cts_begin(t->copy);
        struct hcq_fault fault;

        if (i == 0)
            hcq_cs_copy(cs, bad_va(t), buf->va, 64);
        else if (i == 1)
            hcq_cs_copy(cs, buf->va, bad_va(t), 64);
        else if (i == 2)
            hcq_cs_fill(cs, bad_va(t), 1, 64);
        else
            hcq_cs_write(cs, bad_va(t), 1, i == 3 ? 32 : 64);
        OK(hcq_cs_submit(cs, NULL));
        FAILS(hcq_queue_wait(t->copy, LONG_NS), BELL_E_DEVICE_LOST,
              told_address(t));
        hcq_device_fault(t->dev, &fault);
        CHECK(is_of_memory(t, &fault), "kind %d", (int)fault.kind);
        CHECK(strstr(fault.text, names[i]) || t->info.backend[0] != 'C', "%s",
              fault.text);
        RECOVER(t->dev);
        check_alive(t);
    }
}

/* A large transfer is split among workers, or a kernel's; then, too, the
 * report tells of a transfer. */
static void
bad_large_copy(struct cts *t)
{
    uint64_t size = 16u << 20;
    struct hcq_buffer *buf = cts_buffer(t, size);
    /* Where a device has its buffers, and where it has none; but not past the
     * addresses that processes have, where a sanitizer finds it first. */
    const uint64_t far = 48ull << 30;
    const uint64_t bad[] = {
        bad_va(t), buf->va + far < 1ull << 47 ? buf->va + far : buf->va - far};
    struct hcq_queue *queues[] = {t->copy, t->queue};
    size_t i;

    if (CTS_TSAN)
        cts_skip(NO_COMMAND_FAULTS);
    for (i = 0; i < 6; i++) {
        struct hcq_queue *queue = queues[i / 3];
        struct hcq_cs *cs = cts_begin(queue);
        uint64_t va = bad[i % 3 != 0];
        struct hcq_fault fault;

        if (i % 3 == 2)
            hcq_cs_fill(cs, va, 7, size);
        else
            hcq_cs_copy(cs, va, buf->va, size);
        OK(hcq_cs_submit(cs, NULL));
        FAILS(hcq_queue_wait(queue, LONG_NS), BELL_E_DEVICE_LOST,
              told_address(t));
        hcq_device_fault(t->dev, &fault);
        CHECK(is_untold(t, &fault) ||
                  (fault.kind == HCQ_FAULT_MEMORY && fault.va - va < size),
              "kind %d at 0x%llx", (int)fault.kind,
              (unsigned long long)fault.va);
        CHECK(strstr(fault.text, i % 3 == 2 ? "fill" : "copy"), "%s",
              fault.text);
        RECOVER(t->dev);
        check_alive(t);
    }
}

/* Pinned memory that the host protects. */
static void
read_only(struct cts *t)
{
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_buffer *buf;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    void *page;

    if (!(t->info.flags & HCQ_DEVICE_HOST_MEMORY))
        cts_skip("the device does not see the host's page protection");
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED, "mmap");
    buf = cts_pin(t->dev, page, 4096);
    cs = cts_begin(t->queue);
    cts_exec(cs, poke, 4, ARGS(buf->va, 2, buf->va + 8));
    OK(hcq_cs_submit(cs, NULL));
    FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, "not allowed");
    fault = check_lost(t, HCQ_FAULT_MEMORY, "cts_poke");
    CHECK(fault.va == buf->va + 8, "0x%llx", (unsigned long long)fault.va);
    OK(hcq_device_recover(t->dev));
    check_alive(t);
    munmap(page, 4096);
}

static void
illegal_instruction(struct cts *t)
{
    struct hcq_program *trap = cts_load_as(t, t->dev, CTS_TRAP, 0, "k");
    struct hcq_cs *cs = cts_begin(t->queue);

    cts_exec(cs, trap, 1, 0, NULL);
    OK(hcq_cs_submit(cs, NULL));
    if (cts_may_lack(t->dev, CTS_LACK_TRAPS)) {
        HANGS(hcq_queue_wait(t->queue, 50 * MS_NS),
              "a kernel does not end: 'k'; ");
        OK(hcq_device_status(t->dev));
    } else {
        FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, "'k'");
        check_lost(t, HCQ_FAULT_INSTRUCTION, "k");
    }
    OK(hcq_device_recover(t->dev));
    hcq_program_destroy(trap);
    check_alive(t);
}

static void
division(struct cts *t)
{
    struct hcq_buffer *buf = cts_ints(t, 1, 0);
    struct hcq_program *divide = cts_program(t, CTS_DIVIDE);
    struct hcq_cs *cs = cts_begin(t->queue);

    cts_exec(cs, divide, 1, ARGS(buf->va, 84, 2));
    cts_exec(cs, divide, 1, ARGS(buf->va, 84, 0));
    OK(hcq_cs_submit(cs, NULL));
    FAILS(hcq_queue_wait(t->queue, LONG_NS), BELL_E_DEVICE_LOST, "cts_divide");
    check_lost(t, HCQ_FAULT_ARITHMETIC, "cts_divide");
    CHECK(cts_int(buf, 0) == 42, "%d", cts_int(buf, 0));
    OK(hcq_device_recover(t->dev));
    check_alive(t);
}

/* A kernel that does not end: the wait times out and says which; recovery
 * makes the threads leave it. */
static void
hang(struct cts *t)
{
    static const uint32_t grids[] = {1, 2, 1000};
    struct hcq_program *spin = cts_program(t, CTS_SPIN);
    struct hcq_buffer *flag = cts_ints(t, 1, 0), *other = cts_ints(t, 1, 0);
    struct hcq_signal *sig = cts_signal(t, 0);
    uint64_t limit_ms = cts_may_lack(t->dev, CTS_SLOW_RESET) ? 8000 : 2500;
    size_t i;

    for (i = 0; i < ARRAY_LEN(grids); i++) {
        struct hcq_cs *cs = cts_begin(t->queue);
        uint64_t start_ns;

        cts_exec(cs, spin, grids[i], ARGS(flag->va));
        hcq_cs_signal(cs, sig, 1);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(t->queue); /* and more behind it */
        hcq_cs_write(cs, other->va, 1, 32);
        OK(hcq_cs_submit(cs, NULL));
        HANGS(hcq_queue_wait(t->queue, 50 * MS_NS), "cts_spin");
        HANGS(hcq_signal_wait(sig, 1, MS_NS), "waited");
        OK(hcq_device_status(t->dev)); /* slow is not lost */
        start_ns = time_now_ns();
        OK(hcq_device_recover(t->dev));
        CHECK(time_now_ns() - start_ns < limit_ms * MS_NS, "slow recovery");
        CHECK(cts_int(other, 0) == 0, "the rest was run");
        check_alive(t);
        /* The same kernel still works. */
        cs = cts_begin(t->queue);
        hcq_cs_write(cs, flag->va, 1, 32);
        cts_exec(cs, spin, grids[i], ARGS(flag->va));
        hcq_cs_write(cs, flag->va, 0, 32);
        cts_finish(t->queue, cs);
    }
}

static void *
release_later(void *flag)
{
    struct timespec nap = {.tv_nsec = 100 * MS_NS};

    nanosleep(&nap, NULL);
    __atomic_store_n((int32_t *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Waits for as long as the device moves. A kernel that does not end is reported
 * after the limit, and at once from then on, also when its queue is destroyed;
 * one whose program says that it takes long is waited for. */
static void
hang_stands_still(struct cts *t)
{
    struct hcq_program *spin = cts_program(t, CTS_SPIN), *slow;
    struct hcq_buffer *flag;
    struct hcq_queue *queue;
    pthread_t thread;
    struct hcq_cs *cs;

    OK(hcq_buffer_create(t->dev, 64, HCQ_MEM_HOST_VISIBLE, &flag));
    *(volatile int32_t *)flag->host = 0;
    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queue));
    hcq_device_set_timeout(t->dev, 50 * MS_NS);
    cs = cts_begin(queue);
    cts_exec(cs, spin, 2, ARGS(flag->va));
    OK(hcq_cs_submit(cs, NULL));
    FAILS(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
          "nothing moved for");
    FAILS(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
          "nothing moved since");
    FAILS(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
          "BELL_TIMEOUT");
    OK(hcq_device_status(t->dev)); /* slow is not lost */
    if (cts_may_lack(t->dev,
                     CTS_SLOW_RESET)) { /* nor sees what the host does */
        OK(hcq_device_recover(t->dev));
        hcq_queue_destroy(queue);
        check_alive(t);
        return;
    }
    __atomic_store_n((int32_t *)flag->host, 1, __ATOMIC_RELEASE);
    OK(hcq_queue_wait(queue, LONG_NS));
    OK(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING));
    /* A launch that may take an hour is none that hangs. */
    slow = cts_load_slow(t, CTS_SPIN, 3600 * SECOND_NS);
    __atomic_store_n((int32_t *)flag->host, 0, __ATOMIC_RELEASE);
    cs = cts_begin(queue);
    cts_exec(cs, slow, 1, ARGS(flag->va));
    OK(hcq_cs_submit(cs, NULL));
    CHECK(pthread_create(&thread, NULL, release_later, flag->host) == 0,
          "no thread");
    OK(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING));
    pthread_join(thread, NULL);
    /* The long work is over: the next is called hung again. */
    __atomic_store_n((int32_t *)flag->host, 0, __ATOMIC_RELEASE);
    cs = cts_begin(queue);
    cts_exec(cs, spin, 2, ARGS(flag->va));
    OK(hcq_cs_submit(cs, NULL));
    FAILS(hcq_queue_wait(queue, HCQ_WAIT_WHILE_MOVING), BELL_E_TIMEOUT,
          "nothing moved for");
    OK(hcq_device_recover(t->dev));
    hcq_queue_destroy(queue);
    hcq_program_destroy(slow);
    check_alive(t);
}

/* One queue hangs in a kernel that another one uses at the same time. */
static void
hang_beside_work(struct cts *t)
{
    struct hcq_program *spin = cts_program(t, CTS_SPIN);
    struct hcq_buffer *zero = cts_ints(t, 1, 0), *set = cts_ints(t, 1, 1);
    bell_status status = BELL_OK;
    struct hcq_fault fault;
    struct hcq_queue *hung;
    struct hcq_cs *cs;
    int i;

    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &hung));
    cs = cts_begin(hung);
    cts_exec(cs, spin, 1, ARGS(zero->va));
    OK(hcq_cs_submit(cs, NULL));
    for (i = 0; i < 200 && status == BELL_OK; i++) {
        status = hcq_queue_begin(t->queue, &cs);
        if (status != BELL_OK)
            break;
        cts_exec(cs, spin, 8, ARGS(set->va));
        status = hcq_cs_submit(cs, NULL);
        if (status == BELL_OK)
            status = hcq_queue_wait(t->queue, LONG_NS);
    }
    if (status == BELL_OK) {
        HANGS(hcq_device_synchronize(t->dev, 20 * MS_NS), hcq_queue_name(hung));
    } else { /* taken away, for keeping the others waiting */
        CHECK(status == BELL_E_DEVICE_LOST, "%s", bell_error_last()->message);
        FAILS(hcq_queue_wait(hung, LONG_NS), BELL_E_DEVICE_LOST, "cts_spin");
        hcq_device_fault(t->dev, &fault);
        CHECK(strcmp(fault.program, "cts_spin") == 0, "%s", fault.program);
        CHECK(strcmp(fault.queue, hcq_queue_name(hung)) == 0 &&
                  strstr(fault.text, cts_may_lack(t->dev, CTS_SLOW_RESET)
                                         ? "reset"
                                         : "context switch"),
              "%s", fault.text);
    }
    OK(hcq_device_recover(t->dev));
    check_alive(t);
    /* A hung queue can be closed with the device, too. */
    cs = cts_begin(hung);
    cts_exec(cs, spin, 4, ARGS(zero->va));
    OK(hcq_cs_submit(cs, NULL));
}

/* A long grid of short groups lets others have their turn. */
static void
turns_beside_work(struct cts *t)
{
    bool simulated = t->info.flags & HCQ_DEVICE_SIMULATED;
    struct hcq_program *work = cts_program(t, CTS_WORK);
    uint32_t n = simulated ? 200 : t->info.n_units * 640;
    struct hcq_buffer *many = cts_ints(t, n, 0), *few = cts_ints(t, 8, 0);
    struct hcq_signal *start = cts_signal(t, 0), *end[2];
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    int i;

    if (t->info.flags & HCQ_DEVICE_HOST_MEMORY)
        cts_skip("groups of the host's have no turns");
    if (cts_may_lack(t->dev, CTS_LACK_TURNS))
        cts_skip("no turns between queues are promised");
    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queue));
    for (i = 0; i < 2; i++)
        end[i] = cts_signal(t, 0);
    cs = cts_begin(queue);
    hcq_cs_signal(cs, start, 1);
    cts_exec(cs, work, n, ARGS(many->va, cts_steps(t, 250000)));
    hcq_cs_timestamp(cs, end[0]);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_signal_wait(start, 1, LONG_NS));
    cs = cts_begin(t->queue);
    cts_exec(cs, work, 1, ARGS(few->va, 20));
    hcq_cs_timestamp(cs, end[1]);
    cts_finish(t->queue, cs);
    OK(hcq_queue_wait(queue, LONG_NS));
    CHECK(hcq_signal_timestamp(end[1]) < hcq_signal_timestamp(end[0]),
          "the short one ended %llu ticks behind the long one",
          (unsigned long long)(hcq_signal_timestamp(end[1]) -
                               hcq_signal_timestamp(end[0])));
}

static void
hang_in_command(struct cts *t)
{
    struct hcq_signal *never = cts_signal(t, 0);
    struct hcq_buffer *buf = cts_ints(t, 1, 0);
    struct hcq_cs *cs = cts_begin(t->queue);

    hcq_cs_wait(cs, never, 123);
    OK(hcq_cs_submit(cs, NULL));
    cs = cts_begin(t->copy);
    hcq_cs_poll(cs, buf->va, UINT32_MAX, 1);
    OK(hcq_cs_submit(cs, NULL));
    HANGS(hcq_queue_wait(t->queue, 20 * MS_NS), ">= 123");
    HANGS(hcq_queue_wait(t->copy, 20 * MS_NS), "poll");
    OK(hcq_device_recover(t->dev));
    OK(hcq_queue_wait(t->queue, 0)); /* the timelines are complete */
    OK(hcq_queue_wait(t->copy, 0));
    check_alive(t);
}

struct waiter {
    struct hcq_signal *sig;
    bell_status status;
    atomic_bool done;
};

static void *
wait_in_thread(void *arg)
{
    struct waiter *w = arg;

    w->status = hcq_signal_wait(w->sig, 5, LONG_NS);
    atomic_store(&w->done, true);
    return NULL;
}

/* Whoever waits on another thread learns of the fault, or the recovery. */
static void
waiters_learn(struct cts *t)
{
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_buffer *buf = cts_ints(t, 1, 0);
    int by_fault;

    for (by_fault = 0; by_fault < 2; by_fault++) {
        struct waiter w[3];
        pthread_t threads[3];
        uint64_t start_ns;
        int i;

        for (i = 0; i < 3; i++) {
            w[i] = (struct waiter){.sig = cts_signal(t, 0)};
            CHECK(pthread_create(&threads[i], NULL, wait_in_thread, &w[i]) == 0,
                  "thread");
        }
        start_ns = time_now_ns();
        while (time_now_ns() - start_ns < 20 * MS_NS)
            thread_relax();
        if (by_fault) {
            struct hcq_cs *cs = cts_begin(t->queue);
            cts_exec(cs, poke, 1, ARGS(buf->va, 0, bad_va(t)));
            OK(hcq_cs_submit(cs, NULL));
        } else {
            /* again for who begins to wait late, on a busy machine */
            do {
                OK(hcq_device_recover(t->dev));
                start_ns = time_now_ns();
                while (time_now_ns() - start_ns < 5 * MS_NS)
                    thread_relax();
                for (i = 0; i < 3 && atomic_load(&w[i].done); i++)
                    continue;
            } while (i < 3);
        }
        for (i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
            CHECK(w[i].status == BELL_E_DEVICE_LOST, "%s",
                  bell_status_name(w[i].status));
        }
    }
    RECOVER(t->dev);
    check_alive(t);
}

/* Bound streams, signals and other queues survive. */
static void
streams_survive(struct cts *t)
{
    struct hcq_program *add = cts_program(t, CTS_ADD_ONE);
    struct hcq_program *poke = cts_program(t, CTS_POKE);
    struct hcq_buffer *buf = cts_ints(t, 64, 0);
    struct hcq_signal *line = cts_signal(t, 0);
    struct hcq_stream *stream;
    uint64_t va_patch_value = buf->va;
    uint32_t where;
    int i;

    OK(hcq_stream_create(t->queue, "survivor", &stream));
    where = hcq_stream_patch_point(stream, "where");
    cts_exec(hcq_stream_cs(stream), add, 8, ARGS(buf->va, buf->va, 8));
    cts_exec(hcq_stream_cs(stream), poke, 1, ARGS(buf->va, 0, buf->va + 4));
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG + 2, where, 0);
    OK(hcq_stream_end(stream));
    for (i = 0; i < 20; i++) {
        uint64_t v = (uint64_t)i + 1;
        struct hcq_cs *cs = cts_begin(t->copy);

        hcq_cs_wait(cs, line, v - 1);
        hcq_cs_wait(cs, hcq_queue_timeline(t->queue), 3 * (uint64_t)i + 2);
        hcq_cs_signal(cs, line, v);
        OK(hcq_cs_submit(cs, NULL));
        OK(hcq_stream_patch(stream, where, va_patch_value));
        OK(hcq_stream_submit(stream, NULL));
        OK(hcq_stream_wait(stream, LONG_NS));
        OK(hcq_stream_patch(stream, where, bad_va(t)));
        OK(hcq_stream_submit(stream, NULL));
        FAILS(hcq_stream_wait(stream, LONG_NS), BELL_E_DEVICE_LOST, "cts_poke");
        FAILS(hcq_stream_submit(stream, NULL), BELL_E_DEVICE_LOST, "cts_poke");
        RECOVER(t->dev);
        CHECK(!hcq_stream_busy(stream), "busy");
        CHECK(hcq_signal_value(line) <= v, "past it");
        hcq_signal_set(line, v);
        check_alive(t);
    }
    /* What a faulting one stored before may be lost. */
    i = cts_may_lack(t->dev, CTS_LACK_STORES) ? 20 : 40;
    CHECK(cts_int(buf, 63) >= i && cts_int(buf, 63) <= 40, "%d",
          cts_int(buf, 63));
}

const struct cts_case cts_fault_cases[] = {
    {"fault bad address", bad_address, true},
    {"fault in kernels of any name", bad_names, true},
    {"fault in a row of launches", bad_row, true},
    {"fault in one group of many", bad_group, true},
    {"fault misaligned, freed, read", bad_access, true},
    {"fault in a command", bad_command, true},
    {"fault in a large copy", bad_large_copy, true},
    {"fault read-only memory", read_only},
    {"fault illegal instruction", illegal_instruction},
    {"fault division by zero", division},
    {"fault streams and timelines survive", streams_survive, true},
    {"fault waiters learn of it", waiters_learn, true},
    {"hang in a kernel", hang},
    {"hang is no movement", hang_stands_still},
    {"hang beside work in the same kernel", hang_beside_work},
    {"turns beside a long kernel", turns_beside_work},
    {"hang in wait and poll", hang_in_command},
    {NULL, NULL},
};
