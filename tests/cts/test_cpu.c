/* The CPU device from inside: signal handlers of the process, the loader's
 * memory protection, commands that cannot be decoded, calls that fail.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <linux/membarrier.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/thread.h"
#include "hcq/cpu/cpu_object.h"
#include "hcq/hcq_packet.h"

static unsigned char object[1u << 18];
static size_t object_bytes;

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

static struct hcq_device *
open_device(void)
{
    struct hcq_device *dev = NULL;

    assert_int_equal(hcq_device_open("CPU", &dev), BELL_OK);
    return dev;
}

/* ---- handlers ------------------------------------------------------------ */

static sigjmp_buf back;
static volatile sig_atomic_t n_caught;

static void
catch_fault(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    (void)context;
    n_caught = n_caught + 1;
    siglongjmp(back, 1);
}

static void
install(struct sigaction *old)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = catch_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    assert_int_equal(sigaction(SIGSEGV, &action, old), 0);
}

static bool
handler_is_ours(void)
{
    struct sigaction now;

    assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
    return now.sa_sigaction == catch_fault;
}

/* Faults on this thread, which is not a worker. */
static void
fault_here(void)
{
    char *page =
        mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(page, MAP_FAILED);
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)page = 1;
    munmap(page, 4096);
}

/* A fault that is not ours reaches the handler that was there before. */
static void
test_chains(void **state)
{
    struct sigaction old;
    struct hcq_device *dev, *dev2;

    (void)state;
    install(&old);
    n_caught = 0;
    dev = open_device();
    assert_false(handler_is_ours());
    fault_here();
    assert_int_equal(n_caught, 1);
    dev2 = open_device();
    hcq_device_close(dev);
    fault_here();
    assert_int_equal(n_caught, 2);
    hcq_device_close(dev2);
    /* Installed only while a device is open. */
    assert_true(handler_is_ours());
    fault_here();
    assert_int_equal(n_caught, 3);
    sigaction(SIGSEGV, &old, NULL);
}

/* Somebody installs a handler on top of ours, and it stays. */
static void
test_stacked(void **state)
{
    struct sigaction under, top_old;
    struct hcq_device *dev = open_device();
    int i;

    (void)state;
    install(&top_old);
    n_caught = 0;
    hcq_device_close(dev);
    assert_true(handler_is_ours());
    for (i = 0; i < 3; i++) {
        dev = open_device();
        fault_here();
        hcq_device_close(dev);
    }
    assert_int_equal(n_caught, 3);
    /* Put ours back in order, and see that it goes away in the end. */
    sigaction(SIGSEGV, &top_old, NULL);
    dev = open_device();
    hcq_device_close(dev);
    assert_int_equal(sigaction(SIGSEGV, NULL, &under), 0);
    assert_ptr_not_equal(under.sa_sigaction, top_old.sa_sigaction);
}

/* With nobody before us, a fault outside of kernels ends the process. */
static void
test_default_action(void **state)
{
    int wait_status = 0;
    pid_t child;

    (void)state;
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct hcq_device *dev;
        static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
        char *page;
        size_t i;

        for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
            signal(signals[i], SIG_DFL);
        page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED && hcq_device_open("CPU", &dev) == BELL_OK)
            *(volatile char *)page = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFSIGNALED(wait_status));
    assert_int_equal(WTERMSIG(wait_status), SIGSEGV);
}

/* A handler of the old kind is called all the same. */
static void
catch_plainly(int sig)
{
    (void)sig;
    n_caught = n_caught + 1;
    siglongjmp(back, 1);
}

static void
test_plain_handler(void **state)
{
    struct sigaction action = {.sa_flags = SA_NODEFER}, old;
    struct hcq_device *dev;

    (void)state;
    action.sa_handler = catch_plainly;
    assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
    n_caught = 0;
    dev = open_device();
    fault_here();
    assert_int_equal(n_caught, 1);
    hcq_device_close(dev);
    sigaction(SIGSEGV, &old, NULL);
}

/* ---- the environment ----------------------------------------------------- */

/* How long workers spin: whole numbers up to a second. */
static void
test_spin_time(void **state)
{
    static const struct {
        const char *value;
        bool is_taken;
    } rows[] = {{"0", true},        {"9", true},    {"1000000", true},
                {"1000001", false}, {"", false},    {"-1", false},
                {"5x", false},      {" 5", false},  {":", false},
                {"/", false},       {"0x5", false}, {"99999999999999", false}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hcq_device *dev = NULL;
        bell_status status;

        setenv("BELL_SPIN_US", rows[i].value, 1);
        status = hcq_device_open("CPU", &dev);
        if ((status == BELL_OK) != rows[i].is_taken)
            fail_msg("'%s': %d", rows[i].value, status);
        if (status == BELL_OK) {
            assert_int_equal(dev->spin_ns,
                             strtoull(rows[i].value, NULL, 10) * 1000);
            hcq_device_close(dev);
            continue;
        }

        assert_non_null(
            strstr(bell_error_last()->message, "BELL_SPIN_US is '"));
    }
    unsetenv("BELL_SPIN_US");
}

/* ---- workers ------------------------------------------------------------- */

/* With any number of threads, one of which has no helpers. */
static void
test_threads(void **state)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "k",
        .entry = "nop",
        .binary = object,
        .binary_size_bytes = object_bytes,
    };
    static const char *const values[] = {"1", "2", "5"};
    static const uint32_t sizes[] = {1, 2, 7, 64, 1000, 4097};
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct hcq_program *prog;
        struct hcq_device *dev;
        struct hcq_queue *queue;
        struct hcq_cs *cs;

        setenv("BELL_THREADS", values[i], 1);
        dev = open_device();
        assert_int_equal(dev->info.n_units, (unsigned)atoi(values[i]));
        assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue),
                         BELL_OK);
        assert_int_equal(hcq_program_create(dev, &desc, &prog), BELL_OK);
        for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            const uint32_t grid[3] = {sizes[k], 1, 1};

            assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
            hcq_cs_exec(cs, prog, NULL, 0, grid, NULL);
            assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
            assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
        }
        hcq_device_close(dev);
    }
    unsetenv("BELL_THREADS");
}

/* Groups that wait for each other: each has a thread of its own. */
static void
test_helpers(void **state)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "meet",
        .n_bufs = 1,
        .binary = object,
        .binary_size_bytes = object_bytes,
    };
    const uint32_t grid[3] = {3, 1, 1};
    struct hcq_program *prog;
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    unsigned i;

    (void)state;
    setenv("BELL_THREADS", "3", 1);
    dev = open_device();
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_program_create(dev, &desc, &prog), BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, 4, HCQ_MEM_DEVICE, &buf), BELL_OK);
    for (i = 0; i < 20; i++) {
        *(uint32_t *)buf->host = 0;
        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        hcq_cs_exec(cs, prog, &buf->va, 1, grid, NULL);
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
        assert_int_equal(*(uint32_t *)buf->host, 3);
    }
    hcq_device_close(dev);
    unsetenv("BELL_THREADS");
}

/* Threads of this process. */
static unsigned
count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned n = 0;

    assert_non_null(tasks);
    while (readdir(tasks))
        n++;
    closedir(tasks);
    return n - 2; /* . and .. */
}

static unsigned n_at_first; /* threads that are not a device's */

/* ThreadSanitizer has one of its own from the first that is created on. */
static void *
count_others(void *arg)
{
    (void)arg;
    n_at_first = count_threads() - 1;
    return NULL;
}

/* Fails unless the devices' threads end within ten seconds. A thread that was
 * joined has left its stack, and stands in /proc a little longer. */
static void
expect_no_threads(void)
{
    const uint64_t deadline_ns = time_now_ns() + 10000000000ull;

    while (count_threads() > n_at_first && time_now_ns() < deadline_ns)
        usleep(100);
    assert_int_equal(count_threads(), n_at_first);
}

/* The signals that a thread blocks, one bit each; false: another's thread. */
static bool
blocked_by(const char *task, const char *thread_name, uint64_t *out_signals)
{
    char path[300], line[256];
    bool is_it = false, is_known = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "Name:", 5) == 0)
            is_it = strstr(line, thread_name) != NULL;
        if (strncmp(line, "SigBlk:", 7) == 0) {
            *out_signals = strtoull(line + 7, NULL, 16);
            is_known = true;
        }
    }
    if (file)
        fclose(file);
    return is_it && is_known;
}

/* Helpers take no signals but those of their own faults. */
static void
test_blocked_signals(void **state)
{
    static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                              SIGTRAP, SIGABRT, SIGKILL, SIGSTOP};
    struct hcq_device *dev;
    struct dirent *entry;
    uint64_t want = UINT64_MAX, got;
    unsigned n = 0, i;
    DIR *tasks;

    (void)state;
    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        want &= ~(1ull << (own[i] - 1));
    want &= ~(3ull << 31); /* the C library's own */
    setenv("BELL_THREADS", "3", 1);
    dev = open_device();
    while (n < 2) { /* they name themselves when they begin */
        n = 0;
        tasks = opendir("/proc/self/task");
        assert_non_null(tasks);
        while ((entry = readdir(tasks)) != NULL) {
            if (!blocked_by(entry->d_name, "bell-helper", &got))
                continue;
            assert_int_equal(got & ~(3ull << 31), want);
            n++;
        }
        closedir(tasks);
    }
    hcq_device_close(dev);
    unsetenv("BELL_THREADS");
}

static unsigned n_when_asked; /* threads, at the first question; or 0 */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Between hcq/ and the C library: sees when fences are asked for. */
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
    if (number == SYS_membarrier && !n_when_asked &&
        (int)args[0] == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
        n_when_asked = count_threads();
    return __real_syscall(number, args[0], args[1], args[2], args[3], args[4],
                          args[5]);
}

/* The kernel takes some 20 ms to let a process with several threads use fences
 * and none for one with one thread: it is asked before helpers are started. */
static void
test_asks_early(void **state)
{
    struct hcq_device *dev;

    (void)state;
    expect_no_threads();
    n_when_asked = 0;
    dev = open_device();
    assert_int_equal(n_when_asked, n_at_first);
    hcq_device_close(dev);
}

static _Atomic uint64_t yield_ns; /* how long one takes at least */
static _Atomic unsigned n_yields;

int __wrap_sched_yield(void);

int
__wrap_sched_yield(void)
{
    uint64_t start = time_now_ns();

    n_yields++;
    while (time_now_ns() - start < yield_ns)
        continue;
    return 0;
}

/* A thread that waits yields at every look while that lets others run, else now
 * and then. */
static void
test_spinner(void **state)
{
    struct hcq_spinner spinner = {0};
    unsigned i, n;

    (void)state;
    yield_ns = 5000;
    n_yields = 0;
    hcq_spinner_begin(&spinner, time_now_ns());
    for (i = 1; i <= 3; i++) {
        hcq_spinner_turn(&spinner, time_now_ns());
        assert_int_equal(n_yields, i);
        assert_int_equal(spinner.calm_ns, 0);
    }
    yield_ns = 0;
    for (i = 0; i < 10000 && !spinner.calm_ns; i++)
        hcq_spinner_turn(&spinner, time_now_ns());
    assert_true(spinner.calm_ns > 0);
    n = n_yields;
    hcq_spinner_turn(&spinner, spinner.yield_ns - 1);
    assert_int_equal(n_yields, n);
    hcq_spinner_turn(&spinner, spinner.yield_ns);
    assert_int_equal(n_yields, n + 1);
}

/* ---- the loader ---------------------------------------------------------- */

/* No page of the process is writable and executable. */
static void
check_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        const char *rights = strchr(line, ' ');
        assert_false(rights && rights[2] == 'w' && rights[3] == 'x');
    }
    fclose(maps);
}

static void
test_write_xor_execute(void **state)
{
    struct cpu_object loaded[3];
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++)
        assert_int_equal(
            cpu_object_load(object, object_bytes, "k", "sections", &loaded[i]),
            BELL_OK);
    check_maps();
    assert_int_equal(cpu_object_set_executable(&loaded[1], false), 0);
    assert_int_equal(cpu_object_set_executable(&loaded[1], true), 0);
    check_maps();
    for (i = 0; i < 3; i++)
        cpu_object_unload(&loaded[i]);
}

/* The first section header with these flags. */
static Elf64_Shdr *
find_section(unsigned char *data, uint64_t flags)
{
    Elf64_Ehdr *hdr = (Elf64_Ehdr *)(void *)data;
    Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(data + hdr->e_shoff);
    int i;

    for (i = 0; i < hdr->e_shnum; i++) {
        if (sections[i].sh_flags == flags && sections[i].sh_size)
            return &sections[i];
    }
    fail_msg("no section with flags 0x%llx", (unsigned long long)flags);
    return NULL;
}

static void
check_refused(const unsigned char *data, const char *part)
{
    struct cpu_object loaded;

    assert_int_equal(cpu_object_load(data, object_bytes, "k", "nop", &loaded),
                     BELL_E_INVALID);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("no '%s' in: %s", part, bell_error_last()->message);
}

static void
test_hostile_sections(void **state)
{
    static unsigned char data[sizeof(object)];
    const uint64_t text = SHF_ALLOC | SHF_EXECINSTR;
    const uint64_t bss = SHF_ALLOC | SHF_WRITE;

    (void)state;
#define FRESH() memcpy(data, object, object_bytes)
    FRESH();
    find_section(data, text)->sh_flags |= SHF_WRITE;
    check_refused(data, "writable and executable");
    FRESH();
    find_section(data, text)->sh_flags |= SHF_COMPRESSED;
    check_refused(data, "compressed");
    FRESH();
    find_section(data, bss)->sh_flags |= SHF_TLS;
    check_refused(data, "thread-local");
    FRESH();
    find_section(data, text)->sh_addralign = 3;
    check_refused(data, "aligned to 3");
    FRESH();
    find_section(data, text)->sh_addralign = 1ull << 40;
    check_refused(data, "aligned to");
    FRESH();
    find_section(data, text)->sh_offset = UINT64_MAX - 4;
    check_refused(data, "truncated");
    FRESH();
    find_section(data, text)->sh_type = SHT_INIT_ARRAY;
    check_refused(data, "cannot be loaded");
    FRESH();
    find_section(data, bss)->sh_type = SHT_NOBITS;
    find_section(data, bss)->sh_size = 1ull << 62;
    check_refused(data, "are possible");
#undef FRESH
}

/* ---- streams ------------------------------------------------------------- */

/* Words that are not a command lose the device, with a report. */
static void
test_bad_words(void **state)
{
    static const uint64_t headers[] = {
        0,                        /* nothing */
        0xff | 2u << 16,          /* no operation */
        HCQ_OP_SIGNAL,            /* of no size */
        HCQ_OP_SIGNAL | 2u << 16, /* less than it needs */
        HCQ_OP_SIGNAL | 0xffffu << 16,
        HCQ_OP_EXEC | 4u << 16,
        UINT64_MAX,
    };
    struct hcq_device *dev = open_device();
    struct hcq_queue *queue;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    size_t i;

    (void)state;
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        memcpy(cs->words + cs->n_dw, &headers[i], 8);
        cs->n_dw += 2;
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS),
                         BELL_E_DEVICE_LOST);
        hcq_device_fault(dev, &fault);
        assert_int_equal(fault.kind, HCQ_FAULT_STREAM);
        assert_non_null(strstr(fault.text, "cannot be decoded"));
        assert_int_equal(hcq_device_recover(dev), BELL_OK);
    }
    hcq_device_close(dev);
}

/* A bad address is a fault in every command that has one. */
static void
test_bad_addresses(void **state)
{
    static const char *const names[] = {"poll", "copy",    "copy",
                                        "fill", "write32", "write64"};
    struct hcq_device *dev = open_device();
    struct hcq_buffer *buf;
    struct hcq_queue *queue;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    size_t i;
    void *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t va;

    (void)state;
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, 64, HCQ_MEM_DEVICE, &buf), BELL_OK);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        /* another one each time: what is jumped out of may be an atomic store
         * of ThreadSanitizer's, which then has its word locked for ever */
        va = (uintptr_t)bad + 64 * i;
        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        if (i == 0)
            hcq_cs_poll(cs, va, 1, 1);
        else if (i == 1)
            hcq_cs_copy(cs, va, buf->va, 16);
        else if (i == 2)
            hcq_cs_copy(cs, buf->va, va, 16);
        else if (i == 3)
            hcq_cs_fill(cs, va, 7, 16);
        else
            hcq_cs_write(cs, va, 7, i == 4 ? 32 : 64);
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
        assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS),
                         BELL_E_DEVICE_LOST);
        hcq_device_fault(dev, &fault);
        assert_int_equal(fault.kind, HCQ_FAULT_MEMORY);
        assert_true(fault.va == va);
        assert_string_equal(fault.program, names[i]);
        assert_int_equal(hcq_device_recover(dev), BELL_OK);
    }
    munmap(bad, 4096);
    hcq_device_close(dev);
}

/* Memory of a file that has no such bytes. */
static void
test_bus_error(void **state)
{
    struct hcq_device *dev = open_device();
    FILE *file = tmpfile();
    struct hcq_queue *queue;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    char *page;

    (void)state;
    assert_non_null(file);
    page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
    hcq_cs_fill(cs, (uintptr_t)page + 8, 7, 16);
    assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_E_DEVICE_LOST);
    hcq_device_fault(dev, &fault);
    assert_true(fault.va == (uintptr_t)page + 8);
    assert_non_null(strstr(fault.text, "bus error"));
    munmap(page, 4096);
    fclose(file);
    hcq_device_close(dev);
}

static void
keep_text(void *user, const char *line)
{
    char *text = user;

    snprintf(text + strlen(text), 4096 - strlen(text), "%s\n", line);
}

/* A kernel that does not end is stopped by taking its code away: no fault of
 * its own. */
static void
test_eviction(void **state)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "spin",
        .n_bufs = 1,
        .binary = object,
        .binary_size_bytes = object_bytes,
    };
    const uint32_t grid[3] = {4, 1, 1};
    struct hcq_program *prog;
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_buffer *buf;
    struct hcq_cs *cs;
    char text[4096] = "";
    unsigned i;

    (void)state;
    setenv("BELL_THREADS", "2", 1);
    dev = open_device();
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_program_create(dev, &desc, &prog), BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, 4, HCQ_MEM_DEVICE, &buf), BELL_OK);
    bell_log_set(keep_text, text);
    for (i = 0; i < 3; i++) {
        *(volatile uint32_t *)buf->host = i == 2;
        assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
        hcq_cs_exec(cs, prog, &buf->va, 1, grid, NULL);
        assert_int_equal(hcq_cs_submit(cs, NULL), BELL_OK);
        if (i == 2)
            break;
        assert_int_equal(hcq_queue_wait(queue, 10000000), BELL_E_TIMEOUT);
        log_mask = LOG_SYNC;
        assert_int_equal(hcq_device_recover(dev), BELL_OK);
        log_mask = 0;
    }
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
    bell_log_set(NULL, NULL);
    assert_non_null(strstr(text, " recovered\n"));
    assert_null(strstr(text, " lost: "));
    hcq_device_close(dev);
    unsetenv("BELL_THREADS");
}

/* The words of each command, as BELL_DEBUG=push shows them: the header's size
 * is where the next one begins. */
static void
test_words(void **state)
{
    static const char *const lines[] = {
        "+0000 barrier\n",
        "+0008 copy 16 bytes 0x",
        "+0028 fill 16 bytes at 0x",
        "+0048 write32 0x9 at 0x",
        "+0060 write64 0x9 at 0x",
        "+0078 poll 0x",
        "+0098 timestamp 0x",
        "+00a8 signal 0x",
        "+00c0 wait for signal 0x",
        "+00d8 barrier\n",
        "+00e0 exec k 2x3x4 of 1x1x1, 2 args: 0x5 0x6\n",
    };
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "k",
        .entry = "nop",
        .n_vals = 2,
        .binary = object,
        .binary_size_bytes = object_bytes,
    };
    const uint32_t grid[3] = {2, 3, 4};
    const uint64_t args[2] = {5, 6};
    struct hcq_program *prog;
    struct hcq_device *dev = open_device();
    struct hcq_buffer *buf;
    struct hcq_signal *sig;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    char text[4096] = "", want[64];
    size_t i;

    (void)state;
    assert_int_equal(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue), BELL_OK);
    assert_int_equal(hcq_buffer_create(dev, 64, HCQ_MEM_DEVICE, &buf), BELL_OK);
    assert_int_equal(hcq_signal_create(dev, 0, &sig), BELL_OK);
    assert_int_equal(hcq_program_create(dev, &desc, &prog), BELL_OK);
    assert_int_equal(hcq_queue_begin(queue, &cs), BELL_OK);
    hcq_cs_barrier(cs);
    hcq_cs_copy(cs, buf->va, buf->va + 32, 16);
    hcq_cs_fill(cs, buf->va, 7, 16);
    hcq_cs_write(cs, buf->va, 9, 32);
    hcq_cs_write(cs, buf->va + 8, 9, 64);
    hcq_cs_poll(cs, buf->va, 0xff, 9);
    hcq_cs_timestamp(cs, sig);
    hcq_cs_signal(cs, sig, 3);
    hcq_cs_wait(cs, sig, 3);
    hcq_cs_barrier(cs);
    hcq_cs_exec(cs, prog, args, 2, grid, NULL);
    bell_log_set(keep_text, text);
    log_mask = LOG_PUSH;
    if (hcq_cs_submit(cs, NULL) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    log_mask = 0;
    bell_log_set(NULL, NULL);
    assert_int_equal(hcq_queue_wait(queue, HCQ_TIMEOUT_NS), BELL_OK);
    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (!strstr(text, lines[i]))
            fail_msg("no '%s' in %s", lines[i], text);
    }
    snprintf(want, sizeof(want), " fill 16 bytes at 0x%llx with 0x7\n",
             (unsigned long long)buf->va);
    assert_non_null(strstr(text, want));
    hcq_device_close(dev);
}

/* ---- calls that the system refuses --------------------------------------- */

static unsigned n_calls, failing; /* of those below; the one that fails, or 0 */
static size_t mapped_bytes;

/* Whether the system makes this call. */
static bool
is_made(void)
{
    if (++n_calls != failing)
        return true;
    errno = ENOMEM;
    return false;
}

void *__real_mmap64(void *addr, size_t n, int prot, int flags, int fd,
                    off_t at);
void *__wrap_mmap64(void *addr, size_t n, int prot, int flags, int fd,
                    off_t at);
int __real_munmap(void *addr, size_t n);
int __wrap_munmap(void *addr, size_t n);
int __real_mprotect(void *addr, size_t n, int prot);
int __wrap_mprotect(void *addr, size_t n, int prot);
int __real_pthread_attr_setstacksize(pthread_attr_t *attr, size_t n);
int __wrap_pthread_attr_setstacksize(pthread_attr_t *attr, size_t n);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*body)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*body)(void *), void *arg);

void *
__wrap_mmap64(void *addr, size_t n, int prot, int flags, int fd, off_t at)
{
    void *p = MAP_FAILED;

    if (is_made())
        p = __real_mmap64(addr, n, prot, flags, fd, at);
    if (p != MAP_FAILED && !(flags & MAP_FIXED)) /* in others' place */
        mapped_bytes += n;
    return p;
}

int
__wrap_munmap(void *addr, size_t n)
{
    int result = __real_munmap(addr, n);

    if (result == 0)
        mapped_bytes -= n;
    return result;
}

int
__wrap_mprotect(void *addr, size_t n, int prot)
{
    return is_made() ? __real_mprotect(addr, n, prot) : -1;
}

int
__wrap_pthread_attr_setstacksize(pthread_attr_t *attr, size_t n)
{
    return is_made() ? __real_pthread_attr_setstacksize(attr, n) : ENOMEM;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*body)(void *), void *arg)
{
    return is_made() ? __real_pthread_create(thread, attr, body, arg) : ENOMEM;
}

/* A device's life. */
static bell_status
live(void)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "k",
        .entry = "sections",
        .binary = object,
        .binary_size_bytes = object_bytes,
    };
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    bell_status status;

    BELL_TRY(hcq_device_open("CPU", &dev));
    status = hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue);
    if (status == BELL_OK)
        status = hcq_program_create(dev, &desc, &prog);
    if (status == BELL_OK)
        status = hcq_buffer_create(dev, 5000001, 0, &buf);
    hcq_device_close(dev);
    return status;
}

static void
test_refused_calls(void **state)
{
    unsigned n, i, n_refused_code = 0, n_made_up = 0;
    size_t bytes;

    (void)state;
    setenv("BELL_THREADS", "3", 1);
    assert_int_equal(live(), BELL_OK);
    bytes = mapped_bytes;
    n_calls = 0;
    assert_int_equal(live(), BELL_OK);
    n = n_calls;
    assert_int_equal(n, 11); /* a mark, three threads, a program, a buffer */
    for (i = 1; i <= n; i++) {
        bell_status status;

        n_calls = 0;
        failing = i;
        status = live();
        if (status == BELL_E_KERNEL) {
            n_refused_code++;
            assert_non_null(strstr(bell_error_last()->message,
                                   "refuses executable memory"));
        } else if (status == BELL_OK) { /* memfd_create in its place */
            n_made_up++;
        } else {
            assert_int_equal(status, BELL_E_NO_MEMORY);
            assert_non_null(strstr(bell_error_last()->message, "memory"));
        }
        failing = 0;
        expect_no_threads();
        assert_int_equal(mapped_bytes, bytes);
    }
    assert_int_equal(n_refused_code, 1);
    assert_int_equal(n_made_up, 1);
    unsetenv("BELL_THREADS");
}

int
main(void)
{
    pthread_t thread;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_stacked),
        cmocka_unit_test(test_default_action),
        cmocka_unit_test(test_plain_handler),
        cmocka_unit_test(test_spin_time),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_helpers),
        cmocka_unit_test(test_blocked_signals),
        cmocka_unit_test(test_asks_early),
        cmocka_unit_test(test_spinner),
        cmocka_unit_test(test_write_xor_execute),
        cmocka_unit_test(test_hostile_sections),
        cmocka_unit_test(test_bad_words),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_bus_error),
        cmocka_unit_test(test_eviction),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_refused_calls),
    };

    if (__real_pthread_create(&thread, NULL, count_others, NULL) != 0 ||
        pthread_join(thread, NULL) != 0)
        return 1;
    return cmocka_run_group_tests_name("cpu", tests, read_object, NULL);
}
