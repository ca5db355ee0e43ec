/* Failing allocations, and what the launch path costs. */
#include "cts.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"
#if CTS_HAVE_SIM
#include "ioctl/kio.h"
#include "sim/amd/sim_amd.h"
#include "sim/nv/sim_nv.h"
#endif

/* Everything once; returns the first failure. Cleans up after itself. */
static bell_status
whole_life(const char *name, const struct hcq_program_desc *desc)
{
    const uint32_t grid[3] = {4, 1, 1};
    struct hcq_device *dev = NULL;
    struct hcq_queue *queue, *copy;
    struct hcq_buffer *buf, *big, *pinned;
    struct hcq_program *prog;
    struct hcq_signal *sig;
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    uint64_t args[3];
    bell_status status;
    uint32_t patch;
    int32_t host[4] = {0};
    int i;

#define TRY(expr)                                                              \
    do {                                                                       \
        if ((status = (expr)) != BELL_OK)                                      \
            goto out;                                                          \
    } while (0)
    TRY(hcq_device_open(name, &dev));
    TRY(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    TRY(hcq_queue_create(dev, HCQ_QUEUE_COPY, &copy));
    TRY(hcq_buffer_create(dev, 64, 0, &buf));
    TRY(hcq_buffer_create(dev, 2u << 20, 0, &big));
    status = hcq_buffer_create_pinned(dev, host, sizeof(host), &pinned);
    if (status == BELL_E_UNSUPPORTED && cts_may_lack(dev, CTS_LACK_PINS))
        status =
            hcq_buffer_create(dev, sizeof(host), HCQ_MEM_HOST_VISIBLE, &pinned);
    TRY(status);
    TRY(hcq_program_create(dev, desc, &prog));
    TRY(hcq_signal_create(dev, 0, &sig));
    args[0] = args[1] = buf->va;
    args[2] = 4;
    TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, args, 3, grid, NULL);
    hcq_cs_signal(cs, sig, 1);
    TRY(hcq_cs_submit(cs, NULL));
    TRY(hcq_signal_wait(sig, 1, LONG_NS));
    TRY(hcq_stream_create(copy, "life", &stream));
    patch = hcq_stream_patch_point(stream, "patch");
    for (i = 0; i < 2000; i++)
        hcq_cs_copy(hcq_stream_cs(stream), pinned->va, buf->va, 16);
    hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_SIZE, patch, 0);
    TRY(hcq_stream_end(stream));
    TRY(hcq_stream_patch(stream, patch, 4));
    TRY(hcq_stream_submit(stream, NULL));
    TRY(hcq_stream_wait(stream, LONG_NS));
    hcq_stream_destroy(stream);
    hcq_queue_destroy(queue);
    hcq_program_destroy(prog);
    hcq_buffer_destroy(big);
#undef TRY
out:
    hcq_device_close(dev);
    return status;
}

/* Allocation 1, 2, 3, ... fails: a clean error each time, and no leak (which
 * the sanitizer builds look for). */
static void
allocations_fail(struct cts *t)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "cts_add_one",
        .n_bufs = 2,
        .n_vals = 1,
    };
    int once;

    if (!t->provider || !t->provider->find(CTS_ADD_ONE, 0, &desc))
        cts_skip("no kernels");
    for (once = 0; once < 2; once++) {
        uint64_t n = 1;

        for (;; n++) {
            bell_status status;

            host_fail_after(n, once);
            status = whole_life(t->device, &desc);
            host_fail_after(0, 0);
            if (status == BELL_OK)
                break;
            CHECK(status == BELL_E_NO_MEMORY, "allocation %llu: %s: %s",
                  (unsigned long long)n, bell_status_name(status),
                  bell_error_last()->message);
            CHECK(bell_error_last()->message[0], "no message");
            CHECK(n < 1000, "it never succeeds");
        }
        CHECK(n > 10, "only %llu allocations", (unsigned long long)n);
    }
}

/* Nor is a device not there because memory is not. */
static void
search_fails(struct cts *t)
{
    struct hcq_device *dev;
    bell_status status;
    char name[32];
    size_t found;
    uint64_t n;

    if (t->info.flags & HCQ_DEVICE_HOST_MEMORY)
        cts_skip("nothing is searched for");
    for (n = 1;; n++) {
        host_fail_after(n, 0);
        status = hcq_device_enumerate(NULL, 0, &found);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        CHECK(status == BELL_E_NO_MEMORY, "allocation %llu: %s",
              (unsigned long long)n, bell_error_last()->message);
    }
    CHECK(n > 1, "nothing was allocated");
    snprintf(name, sizeof(name), "%s:0", t->info.backend);
    host_fail_after(1, 0);
    status = hcq_device_open(name, &dev);
    host_fail_after(0, 0);
    CHECK(status == BELL_E_NO_MEMORY, "%s: %s", bell_status_name(status),
          bell_error_last()->message);
}

/* What the simulated kernel holds for everybody, as one line; "" where the
 * kernel is not simulated. */
static void
kernel_usage(struct cts *t, char *text, size_t size_bytes)
{
    text[0] = '\0';
#if CTS_HAVE_SIM
    const char *spec = strstr(t->device, "@sim:");
    struct sim_nv_usage u;
    struct kio *kio;

    if (!spec || strcmp(t->info.backend, "NV") != 0)
        return;
    OK(sim_nv_create(spec + strlen("@sim:"), &kio));
    sim_nv_usage(kio, &u);
    kio_destroy(kio);
    snprintf(text, size_bytes,
             "%u clients, %u objects, %u files, %u mappings, %llu bytes, %llu "
             "bytes mapped for cards",
             u.clients, u.objects, u.files, u.mappings,
             (unsigned long long)u.memory_bytes,
             (unsigned long long)u.va_mapped_bytes);
#else
    (void)t;
    (void)size_bytes;
#endif
}

/* A whole life in which the calls that `rule` picks fail. True: it went well
 * all the same. */
static bool
survives(struct cts *t, const struct hcq_program_desc *desc, const char *rule)
{
    const char *at = strchr(t->device, '@');
    char name[256], before[256], after[256];
    bell_status status;

    snprintf(name, sizeof(name), "%.*s@fault:%s%s", (int)(at - t->device),
             t->device, rule, at);
    kernel_usage(t, before, sizeof(before));
    status = whole_life(name, desc);
    kernel_usage(t, after, sizeof(after));
    CHECK(strcmp(before, after) == 0, "%s leaks: %s; before: %s", rule, after,
          before);
    if (status == BELL_OK)
        return true;
    CHECK(status != BELL_E_INTERNAL && bell_error_last()->message[0],
          "%s: %s: %s", rule, bell_status_name(status),
          bell_error_last()->message);
    return false;
}

/* Call 1, 2, 3, ... to the kernel's driver fails: a clean error or none, no
 * leak, and the next opening works. */
static void
kernel_calls_fail(struct cts *t)
{
    static const char *const kinds[][2] = {
        {"open", "EMFILE"},       {"ioctl", "EIO"},   {"ioctl", "status=0x51"},
        {"ioctl", "status=0x1a"}, {"mmap", "ENOMEM"},
    };
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "cts_add_one",
        .n_bufs = 2,
        .n_vals = 1,
    };
    size_t k;

    if (!strchr(t->device, '@'))
        cts_skip("only where the interface has a name, such as @sim:");
    if (!t->provider || !t->provider->find(CTS_ADD_ONE, 0, &desc))
        cts_skip("no kernels");
    for (k = 0; k < ARRAY_LEN(kinds); k++) {
        unsigned n, n_failed = 0, in_a_row = 0;

        /* Only replies of NVIDIA's kernel driver have a status. */
        if (strncmp(kinds[k][1], "status", 6) == 0 &&
            strncmp(t->device, "NV", 2) != 0)
            continue;
        /* Some calls are not essential. After the last one all goes well. */
        for (n = 1; in_a_row < 25; n++) {
            char rule[64];

            snprintf(rule, sizeof(rule), "%s:%u=%s", kinds[k][0], n,
                     kinds[k][1]);
            if (survives(t, &desc, rule))
                in_a_row++;
            else
                in_a_row = 0, n_failed++;
            CHECK(n < 2000, "it never succeeds");
        }
        CHECK(n_failed > 0, "no %s was seen to fail", kinds[k][0]);
        OK(whole_life(t->device, &desc));
    }
}

/* ---- what comes and goes ---- */

/* Lines of /proc/self/maps, or entries of /proc/self/fd. */
static int64_t
count_own(const char *path, bool lines)
{
    FILE *file = lines ? fopen(path, "r") : NULL;
    DIR *folder = lines ? NULL : opendir(path);
    int64_t n = 0;
    int c;

    while (file && (c = getc(file)) != EOF)
        n += c == '\n';
    while (folder && readdir(folder))
        n++;
    if (file)
        fclose(file);
    if (folder)
        closedir(folder);
    return n;
}

struct held {
    int64_t maps, fds, objects, mappings;
};

static struct held
what_is_held(struct cts *t)
{
    struct held h = {count_own("/proc/self/maps", true),
                     count_own("/proc/self/fd", false), 0, 0};
#if CTS_HAVE_SIM
    const char *spec = strstr(t->device, "@sim:");

    if (spec && strcmp(t->info.backend, "NV") == 0) {
        struct sim_nv_usage u;
        struct kio *kio;
        OK(sim_nv_create(spec + strlen("@sim:"), &kio));
        sim_nv_usage(kio, &u);
        kio_destroy(kio);
        h.objects = u.objects;
        h.mappings = u.mappings + (int64_t)(u.va_mapped_bytes >> 16);
    } else if (spec) {
        struct sim_amd_usage u;
        sim_amd_usage_all(&u);
        h.objects = (int64_t)u.queues + u.events + u.buffers;
        h.mappings = (int64_t)(u.va_mapped_bytes >> 16);
    }
#else
    (void)t;
#endif
    if (CTS_ASAN || CTS_TSAN)
        h.maps = 0; /* sanitizers map memory of their own */
    return h;
}

static void
queue_goes(struct cts *t, enum hcq_queue_kind kind)
{
    struct hcq_buffer *buf = cts_buffer(t, 64);
    struct hcq_queue *queue;
    struct hcq_cs *cs;

    OK(hcq_queue_create(t->dev, kind, &queue));
    cs = cts_begin(queue);
    hcq_cs_fill(cs, buf->va, 7, 64);
    cts_finish(queue, cs);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(buf);
}

static void
compute_queue_goes(struct cts *t)
{
    queue_goes(t, HCQ_QUEUE_COMPUTE);
}

static void
copy_queue_goes(struct cts *t)
{
    queue_goes(t, HCQ_QUEUE_COPY);
}

/* Larger than what pools keep. */
static void
buffers_go(struct cts *t)
{
    static const uint32_t flags[] = {HCQ_MEM_DEVICE, HCQ_MEM_HOST_VISIBLE};
    struct hcq_buffer *buf;
    size_t i;

    for (i = 0; i < ARRAY_LEN(flags); i++) {
        bell_status status =
            hcq_buffer_create(t->dev, 80u << 20, flags[i], &buf);
        if (status == BELL_OK)
            hcq_buffer_destroy(buf);
        else
            CHECK(status == BELL_E_UNSUPPORTED, "%s",
                  bell_error_last()->message);
    }
    hcq_memory_trim(t->dev);
}

static void
pinned_goes(struct cts *t)
{
    void *pages = aligned_alloc(4096, 1u << 20);
    struct hcq_buffer *buf;

    CHECK(pages, "out of memory");
    buf = cts_pin(t->dev, pages, 1u << 20);
    hcq_buffer_destroy(buf);
    free(pages);
}

static void
signal_goes(struct cts *t)
{
    struct hcq_signal *sigs[600];
    size_t i;

    for (i = 0; i < ARRAY_LEN(sigs); i++)
        OK(hcq_signal_create(t->dev, i, &sigs[i]));
    for (i = 0; i < ARRAY_LEN(sigs); i++)
        hcq_signal_destroy(sigs[i]);
}

static void
program_goes(struct cts *t)
{
    hcq_program_destroy(cts_load(t, t->dev, CTS_ADD_ONE, 0));
}

static void
stream_goes(struct cts *t)
{
    struct hcq_buffer *buf = cts_buffer(t, 64);
    struct hcq_stream *stream;
    int i;

    OK(hcq_stream_create(t->copy, "going", &stream));
    for (i = 0; i < 4000; i++)
        hcq_cs_fill(hcq_stream_cs(stream), buf->va, (uint32_t)i, 64);
    OK(hcq_stream_end(stream));
    OK(hcq_stream_submit(stream, NULL));
    OK(hcq_stream_wait(stream, LONG_NS));
    hcq_stream_destroy(stream);
    hcq_buffer_destroy(buf);
}

/* Objects that were made and destroyed again and again leave nothing behind
 * while their device is open. */
static void
comes_and_goes(struct cts *t)
{
    static const struct {
        const char *what;
        void (*go)(struct cts *t);
    } rows[] = {
        {"compute queues", compute_queue_goes},
        {"copy queues", copy_queue_goes},
        {"buffers", buffers_go},
        {"pinned memory", pinned_goes},
        {"signals", signal_goes},
        {"programs", program_goes},
        {"streams", stream_goes},
    };
    const int n_rounds = CTS_TIMES(40);
    struct held before, after;
    size_t i;
    int n;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (n = 0; n < 4; n++)
            rows[i].go(t);
        before = what_is_held(t);
        for (n = 0; n < n_rounds; n++)
            rows[i].go(t);
        after = what_is_held(t);
        CHECK(after.maps < before.maps + n_rounds &&
                  after.fds < before.fds + n_rounds &&
                  after.objects < before.objects + n_rounds &&
                  after.mappings < before.mappings + n_rounds,
              "%d rounds of %s: mappings %lld, was %lld; files %lld, was %lld; "
              "the kernel has %lld objects, had %lld, %lld mapped, was %lld",
              n_rounds, rows[i].what, (long long)after.maps,
              (long long)before.maps, (long long)after.fds,
              (long long)before.fds, (long long)after.objects,
              (long long)before.objects, (long long)after.mappings,
              (long long)before.mappings);
    }
}

#ifdef PR_SET_SYSCALL_USER_DISPATCH
/* The kernel calls the handler instead of doing a system call while the
 * selector says so; it is for the one thread that asked for it. */
static volatile char selector;
static volatile sig_atomic_t n_system_calls, last_system_call;

static void
on_system_call(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    n_system_calls = n_system_calls + 1;
    last_system_call = info->si_syscall;
}

static bool
watch_system_calls(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_system_call;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, NULL);
    n_system_calls = 0;
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0,
                 &selector) == 0;
}

static void
launch_path_calls(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *buf = cts_ints(t, 64, 0);
    struct hcq_signal *go = cts_signal(t, 0), *sig = cts_signal(t, 0);
    const char *bell = getenv("BELL_NV_DOORBELL");
    struct hcq_stream *streams[50];
    struct hcq_cs *cs;
    uint32_t patch = 0;
    uint64_t n_allocs;
    bool ok = true;
    size_t i;

    if (CTS_ASAN || CTS_TSAN)
        cts_skip("the sanitizers make system calls of their own");
    if ((t->info.flags & HCQ_DEVICE_SIMULATED) && bell &&
        strcmp(bell, "bar0") == 0)
        cts_skip("the simulated card sees loads by way of signals");
    for (i = 0; i < ARRAY_LEN(streams); i++) {
        OK(hcq_stream_create(t->queue, "calls", &streams[i]));
        patch = hcq_stream_patch_point(streams[i], "n");
        cts_exec(hcq_stream_cs(streams[i]), prog, 8, ARGS(buf->va, buf->va, 8));
        hcq_cs_patch(hcq_stream_cs(streams[i]), HCQ_FIELD_ARG + 2, patch, 0);
        OK(hcq_stream_end(streams[i]));
    }
    /* The device is busy with a wait, so nobody has to be woken. */
    cs = cts_begin(t->queue);
    hcq_cs_signal(cs, sig, 1);
    hcq_cs_wait(cs, go, 1);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_signal_wait(sig, 1, LONG_NS));
    n_allocs = host_alloc_count();
    if (!watch_system_calls())
        cts_skip("the kernel cannot watch system calls: %s", strerror(errno));
    selector = SYSCALL_DISPATCH_FILTER_BLOCK;
    for (i = 0; i < ARRAY_LEN(streams) && ok; i++) {
        ok = hcq_queue_begin(t->queue, &cs) == BELL_OK;
        if (!ok)
            break;
        hcq_cs_wait(cs, go, 1);
        hcq_cs_barrier(cs);
        hcq_cs_timestamp(cs, sig);
        cts_exec(cs, prog, 8, ARGS(buf->va, buf->va, 8));
        hcq_cs_copy(cs, buf->va, buf->va + 128, 4);
        hcq_cs_fill(cs, buf->va, 1, 4);
        hcq_cs_write(cs, buf->va, 1, 32);
        hcq_cs_signal(cs, sig, i + 2);
        ok = hcq_cs_submit(cs, NULL) == BELL_OK &&
             hcq_stream_patch(streams[i], patch, 4) == BELL_OK &&
             hcq_stream_submit(streams[i], NULL) == BELL_OK;
    }
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
    hcq_signal_set(go, 1);
    CHECK(ok, "%s", bell_error_last()->message);
    CHECK(n_system_calls == 0, "%d system calls, the last is %d",
          (int)n_system_calls, (int)last_system_call);
    CHECK(host_alloc_count() == n_allocs, "%llu allocations",
          (unsigned long long)(host_alloc_count() - n_allocs));
    OK(hcq_queue_wait(t->queue, LONG_NS));
}
#else
static void
launch_path_calls(struct cts *t)
{
    (void)t;
    cts_skip("built without the kernel's headers for watching system calls");
}
#endif

static int
compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Measures and prints; fails only when it is absurd. */
static void
launch_costs(struct cts *t)
{
    enum {
        N = CTS_TIMES(4000)
    };
    static uint64_t ns[3][N];
    struct hcq_program *prog = cts_program(t, CTS_NOP);
    struct hcq_stream *stream;
    size_t i, k;

    OK(hcq_stream_create(t->queue, "costs", &stream));
    cts_exec(hcq_stream_cs(stream), prog, 1, 0, NULL);
    OK(hcq_stream_end(stream));
    for (i = 0; i < N; i++) {
        uint64_t start_ns = time_now_ns();
        struct hcq_cs *cs = cts_begin(t->queue);

        cts_exec(cs, prog, 1, 0, NULL);
        OK(hcq_cs_submit(cs, NULL));
        ns[0][i] = time_now_ns() - start_ns;
        if (i % 200 == 199)
            OK(hcq_queue_wait(t->queue, LONG_NS));
    }
    for (i = 0; i < N; i++) {
        uint64_t start_ns = time_now_ns();

        OK(hcq_stream_submit(stream, NULL));
        ns[1][i] = time_now_ns() - start_ns;
        if (i % 200 == 199)
            OK(hcq_queue_wait(t->queue, LONG_NS));
    }
    for (i = 0; i < N; i++) {
        uint64_t start_ns = time_now_ns();

        OK(hcq_stream_submit(stream, NULL));
        OK(hcq_stream_wait(stream, LONG_NS));
        ns[2][i] = time_now_ns() - start_ns;
    }
    for (k = 0; k < 3; k++)
        qsort(ns[k], N, sizeof(ns[k][0]), compare_ns);
    printf("# exec and submit %llu ns, stream submit %llu ns, launch and wait "
           "%llu ns (medians)\n",
           (unsigned long long)ns[0][N / 2], (unsigned long long)ns[1][N / 2],
           (unsigned long long)ns[2][N / 2]);
}

/* Processor time of the process while it sleeps for 200 ms. */
static uint64_t
sleep_and_count(void)
{
    struct timespec nap = {.tv_nsec = 200000000}, before, after;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    nanosleep(&nap, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return (uint64_t)(after.tv_sec - before.tv_sec) * SECOND_NS +
           (uint64_t)(after.tv_nsec - before.tv_nsec);
}

/* An idle device uses no processor time. It may look around for some time after
 * its last work, and what stands for a simulated card's hardware for longer. */
static void
idle_is_idle(struct cts *t)
{
    bool simulated = (t->info.flags & HCQ_DEVICE_SIMULATED) != 0;
    struct timespec moment = {.tv_nsec = simulated ? 150000000 : 20000000};
    uint64_t used_ns = UINT64_MAX;
    int n;

    cts_finish(t->queue, cts_begin(t->queue));
    nanosleep(&moment, NULL);
    for (n = 0; n < 100 && used_ns >= 20 * MS_NS; n++)
        used_ns = sleep_and_count();
    CHECK(used_ns < 20 * MS_NS, "%.1f ms of 200", (double)used_ns / 1e6);
}

const struct cts_case cts_resource_cases[] = {
    {"resource what comes and goes leaves nothing", comes_and_goes},
    {"resource every allocation fails", allocations_fail},
    {"resource looking for devices fails", search_fails},
    {"resource every call to the kernel fails", kernel_calls_fail},
    {"resource launch path calls nothing", launch_path_calls},
    {"resource launch costs", launch_costs},
    {"resource idle is idle", idle_is_idle},
    {NULL, NULL},
};
