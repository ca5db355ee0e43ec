/* The conformance suite of hcq/hcq.h.
 *
 * usage: cts DEVICE [--filter TEXT]... [--without TEXT]... [--list]
 * One TAP line per case, then `N passed, N failed, N skipped`. Exit code 0,
 * 1 (something failed) or 77 (no such device, or all skipped).
 */
#include "cts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct cts_provider *const providers[] = {
    &cts_amd_provider, &cts_cl_provider,   &cts_cpu_provider,
    &cts_nv_provider,  &cts_qcom_provider,
};

static const struct cts_case *const groups[] = {
    cts_device_cases,     cts_memory_cases,   cts_queue_cases,
    cts_exec_cases,       cts_transfer_cases, cts_stream_cases,
    cts_graph_cases,      cts_fault_cases,    cts_resource_cases,
    cts_fork_cases,       cts_peer_cases,     cts_peer_life_cases,
    cts_peer_share_cases,
};

enum verdict {
    RUNNING,
    PASSED,
    FAILED,
    SKIPPED
};

static jmp_buf case_end;
static enum verdict verdict;
static char reason[1024];

void
cts_fail(const char *file, int line, const char *fmt, ...)
{
    const char *slash = strrchr(file, '/');
    va_list args;
    int used;

    used = snprintf(reason, sizeof(reason), "%s:%d: ", slash ? slash + 1 : file,
                    line);
    va_start(args, fmt);
    vsnprintf(reason + used, sizeof(reason) - (size_t)used, fmt, args);
    va_end(args);
    verdict = FAILED;
    longjmp(case_end, 1);
}

void
cts_fail_check(const char *file, int line, const char *cond, const char *fmt,
               ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    cts_fail(file, line, "%s: %s", cond, text);
}

void
cts_skip(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);
    verdict = SKIPPED;
    longjmp(case_end, 1);
}

void
cts_expect(const char *file, int line, const char *expr, bell_status got,
           bell_status want, const char *part)
{
    const char *message = bell_error_last()->message;

    if (got != want)
        cts_fail(file, line, "%s: '%s' and not '%s' (%s)", expr,
                 bell_status_name(got), bell_status_name(want),
                 got == BELL_OK ? "" : message);
    if (!strstr(message, part))
        cts_fail(file, line, "%s: no '%s' in: %s", expr, part, message);
}

void
cts_recover(const char *file, int line, struct hcq_device *dev)
{
    bell_status status = hcq_device_recover(dev);

    if (status == BELL_OK)
        return;
    if (status != BELL_E_DEVICE_LOST || !cts_may_lack(dev, CTS_LACK_RECOVERY))
        cts_fail(file, line, "recover: %s", bell_error_last()->message);
    if (!strstr(bell_error_last()->message, "recover or close its other"))
        cts_expect(file, line, "recover", status, BELL_E_DEVICE_LOST,
                   "runs nothing more of this process on this card: start "
                   "the program anew");
    snprintf(reason, sizeof(reason), "up to its first fault");
    verdict = PASSED;
    longjmp(case_end, 1);
}

static struct hcq_program *
load(struct cts *t, struct hcq_device *dev, enum cts_kernel kernel,
     unsigned variant, const char *name, uint64_t group_ns)
{
    static const struct {
        const char *name;
        uint32_t n_bufs, n_vals;
        uint32_t local; /* 0: 1; UINT32_MAX: any */
        uint32_t shared_bytes;
    } rows[CTS_KERNEL_COUNT] = {
        [CTS_NOP] = {"cts_nop", 0, 0},
        [CTS_ADD_ONE] = {"cts_add_one", 2, 1},
        [CTS_IDS] = {"cts_ids", 1, 0},
        [CTS_VALUES] = {"cts_values", 1, 3},
        [CTS_MANY] = {"cts_many", 1, HCQ_ARGS_MAX - 1},
        [CTS_SPIN] = {"cts_spin", 1, 0},
        [CTS_WORK] = {"cts_work", 1, 1},
        [CTS_POKE] = {"cts_poke", 1, 2},
        [CTS_DIVIDE] = {"cts_divide", 1, 2},
        [CTS_TRAP] = {"cts_trap", 0, 0},
        [CTS_SECTIONS] = {"cts_sections", 1, 0},
        [CTS_STACK] = {"cts_stack", 1, 0},
        [CTS_ITEMS] = {"cts_items", 1, 0, UINT32_MAX},
        [CTS_REVERSE] = {"cts_reverse", 2, 0, 128},
        [CTS_DYNAMIC] = {"cts_dynamic", 1, 0, 64, 64 << 10},
        [CTS_COUNT] = {"cts_count", 1, 0, UINT32_MAX},
    };
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = rows[kernel].name,
        .n_bufs = rows[kernel].n_bufs,
        .n_vals = rows[kernel].n_vals,
        .local = {1, 1, 1},
        .shared_bytes = rows[kernel].shared_bytes,
        .group_ns = group_ns,
    };
    struct hcq_program *prog;

    if (rows[kernel].local == UINT32_MAX)
        memset(desc.local, 0, sizeof(desc.local));
    else if (rows[kernel].local)
        desc.local[0] = rows[kernel].local;
    if (!t->provider || !t->provider->find(kernel, variant, &desc))
        cts_skip("%s has no kernel '%s'", t->device, desc.name);
    if (name && !desc.entry)
        desc.entry = desc.name;
    if (name)
        desc.name = name;
    OK(hcq_program_create(dev, &desc, &prog));
    return prog;
}

struct hcq_program *
cts_load(struct cts *t, struct hcq_device *dev, enum cts_kernel kernel,
         unsigned variant)
{
    return load(t, dev, kernel, variant, NULL, 0);
}

struct hcq_program *
cts_load_as(struct cts *t, struct hcq_device *dev, enum cts_kernel kernel,
            unsigned variant, const char *name)
{
    return load(t, dev, kernel, variant, name, 0);
}

struct hcq_program *
cts_load_slow(struct cts *t, enum cts_kernel kernel, uint64_t group_ns)
{
    return load(t, t->dev, kernel, 0, NULL, group_ns);
}

struct hcq_program *
cts_program(struct cts *t, enum cts_kernel kernel)
{
    return cts_load(t, t->dev, kernel, 0);
}

static const struct cts_provider *
find_provider(const struct hcq_device_info *info)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(providers); i++) {
        if (strcmp(providers[i]->backend, info->backend) == 0)
            return providers[i];
    }
    return NULL;
}

bool
cts_may_lack(struct hcq_device *dev, enum cts_lack what)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    const struct cts_provider *provider;

    hcq_device_info(dev, &info);
    provider = find_provider(&info);
    if (!provider || (provider->lacks & what))
        return true;
    return provider->also_lacks && (provider->also_lacks(&info) & what);
}

struct hcq_buffer *
cts_pin(struct hcq_device *dev, void *ptr, uint64_t size_bytes)
{
    struct hcq_buffer *buf;
    bell_status status = hcq_buffer_create_pinned(dev, ptr, size_bytes, &buf);

    if (status == BELL_E_UNSUPPORTED && cts_may_lack(dev, CTS_LACK_PINS))
        cts_skip("%s", bell_error_last()->message);
    OK(status);
    return buf;
}

bell_status
cts_open_other(struct cts *t, const char *name, struct hcq_device **out_dev)
{
    CHECK(t->n_others < ARRAY_LEN(t->others), "too many devices");
    BELL_TRY(hcq_device_open(name, out_dev));
    t->others[t->n_others++] = *out_dev;
    return BELL_OK;
}

void
cts_close_others(struct cts *t)
{
    while (t->n_others)
        hcq_device_close(t->others[--t->n_others]);
}

struct hcq_buffer *
cts_buffer(struct cts *t, uint64_t size_bytes)
{
    struct hcq_buffer *buf;

    OK(hcq_buffer_create(t->dev, size_bytes, HCQ_MEM_DEVICE, &buf));
    return buf;
}

struct hcq_buffer *
cts_ints(struct cts *t, uint64_t n, int32_t value)
{
    struct hcq_buffer *buf = cts_buffer(t, n * 4);
    int32_t *data = malloc((size_t)n * 4 + 1);
    uint64_t i;

    CHECK(data, "test memory");
    for (i = 0; i < n; i++)
        data[i] = value;
    OK(hcq_buffer_write(buf, 0, data, n * 4));
    free(data);
    return buf;
}

int32_t
cts_int(struct hcq_buffer *buf, uint64_t idx)
{
    int32_t value;

    OK(hcq_buffer_read(buf, idx * 4, &value, 4));
    return value;
}

struct hcq_signal *
cts_signal(struct cts *t, uint64_t value)
{
    struct hcq_signal *sig;

    OK(hcq_signal_create(t->dev, value, &sig));
    return sig;
}

struct hcq_cs *
cts_begin(struct hcq_queue *queue)
{
    struct hcq_cs *cs;

    OK(hcq_queue_begin(queue, &cs));
    return cs;
}

void
cts_exec(struct hcq_cs *cs, const struct hcq_program *prog, uint32_t grid_x,
         uint32_t n_args, const uint64_t *args)
{
    hcq_cs_exec(cs, prog, args, n_args, (const uint32_t[]){grid_x, 1, 1}, NULL);
}

void
cts_finish(struct hcq_queue *queue, struct hcq_cs *cs)
{
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_queue_wait(queue, LONG_NS));
}

void
cts_pattern(unsigned char *data, size_t size_bytes, unsigned seed)
{
    uint32_t x = seed * 2654435761u + 12345u;
    size_t i;

    for (i = 0; i < size_bytes; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (unsigned char)(x >> 24);
    }
}

/* Runs one case and sets the verdict and the reason. */
static void
run_case(struct cts *t, const struct cts_case *c)
{
    struct hcq_device *dev;

    verdict = RUNNING;
    reason[0] = '\0';
    t->dev = NULL;
    t->queue = t->copy = NULL;
    t->info.struct_size = sizeof(t->info);
    if (setjmp(case_end) == 0) {
        OK(hcq_device_open(t->device, &t->dev));
        hcq_device_info(t->dev, &t->info);
        OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &t->queue));
        OK(hcq_queue_create(t->dev, HCQ_QUEUE_COPY, &t->copy));
        c->run(t);
        verdict = PASSED;
    }
    cts_close_others(t);
    dev = t->dev;
    t->dev = NULL;
    hcq_device_close(dev);
}

/* The same in a process of its own, which has no device open yet. */
static void
run_apart(struct cts *t, const struct cts_case *c)
{
    struct told {
        enum verdict verdict;
        char reason[sizeof(reason)];
    } *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = told == MAP_FAILED ? -1 : fork();
    if (child == 0) {
        run_case(t, c);
        told->verdict = verdict;
        memcpy(told->reason, reason, sizeof(reason));
        fflush(NULL);
        _exit(0);
    }
    verdict = FAILED;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        snprintf(reason, sizeof(reason), "no child");
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        snprintf(reason, sizeof(reason), "the child ended with 0x%x", status);
    } else {
        verdict = told->verdict;
        memcpy(reason, told->reason, sizeof(reason));
    }
    if (told != MAP_FAILED)
        munmap(told, sizeof(*told));
}

static bool
find_device(struct cts *t)
{
    bell_status status = hcq_device_open(t->device, &t->dev);
    char why[400];

    if (status == BELL_E_NO_DEVICE || status == BELL_E_UNSUPPORTED ||
        status == BELL_E_PERMISSION) {
        printf("1..0 # SKIP %s\n", bell_error_last()->message);
        return false;
    }
    if (status != BELL_OK) {
        printf("not ok 1 - %s: %s\n", t->device, bell_error_last()->message);
        exit(1);
    }
    t->info.struct_size = sizeof(t->info);
    hcq_device_info(t->dev, &t->info);
    t->ends_by_fault = cts_may_lack(t->dev, CTS_LACK_RECOVERY);
    hcq_device_close(t->dev);
    t->provider = find_provider(&t->info);
    printf("# %s: %s, %s, %u units\n", t->info.name, t->info.model,
           t->info.arch, t->info.n_units);
    if (t->provider && t->provider->setup &&
        !t->provider->setup(&t->info, why, sizeof(why))) {
        printf("# no kernels: %s\n", why);
        t->provider = NULL;
    }
    return true;
}

#define MAX_FILTERS 8

/* Texts that names may have. */
struct filters {
    const char *texts[MAX_FILTERS];
    unsigned n;
};

static bool
has_one(const char *name, const struct filters *f)
{
    unsigned i;

    for (i = 0; i < f->n && !strstr(name, f->texts[i]); i++) {
    }
    return i < f->n;
}

int
main(int argc, char **argv)
{
    struct cts t = {.device = NULL};
    struct filters with = {.n = 0}, without = {.n = 0};
    unsigned counts[4] = {0}, n = 0;
    bool list = false;
    size_t g;
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc &&
            with.n < MAX_FILTERS)
            with.texts[with.n++] = argv[++i];
        else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc &&
                 without.n < MAX_FILTERS)
            without.texts[without.n++] = argv[++i];
        else if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if (argv[i][0] != '-' && !t.device)
            t.device = argv[i];
        else
            t.device = NULL, i = argc;
    }
    if (!t.device && !list) {
        fprintf(stderr, "usage: cts DEVICE [--filter TEXT]... "
                        "[--without TEXT]... [--list]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!list && !find_device(&t))
        return 77;
    for (g = 0; g < ARRAY_LEN(groups); g++) {
        const struct cts_case *c;

        for (c = groups[g]; c->name; c++) {
            uint64_t start_ns = time_now_ns();

            if ((with.n && !has_one(c->name, &with)) ||
                has_one(c->name, &without))
                continue;
            if (list) {
                printf("%s\n", c->name);
                continue;
            }
            if (c->faults && t.ends_by_fault)
                run_apart(&t, c);
            else
                run_case(&t, c);
            counts[verdict]++;
            n++;
            if (verdict == FAILED)
                printf("# %s\n", reason);
            printf("%s %u - %s%s%s", verdict == FAILED ? "not ok" : "ok", n,
                   c->name, verdict == SKIPPED ? " # SKIP " : "",
                   verdict == SKIPPED ? reason : "");
            if (verdict == PASSED && reason[0])
                printf(" # %s", reason);
            if (verdict == PASSED && time_now_ns() - start_ns > SECOND_NS)
                printf(" # %.1f s", (double)(time_now_ns() - start_ns) / 1e9);
            printf("\n");
        }
    }
    if (list)
        return 0;
    printf("1..%u\n%u passed, %u failed, %u skipped\n", n, counts[PASSED],
           counts[FAILED], counts[SKIPPED]);
    if (counts[FAILED])
        return 1;
    return counts[PASSED] ? 0 : 77;
}
