/* The harness of bench.h. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/thread.h"

#define MAX_RUNS 2001
#define MIN_RUNS 5

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double
bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

uint64_t
bench_peak_bytes(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024u;
}

/* The processor's name, as the kernel tells it. */
static void
read_cpu_name(char *out, size_t size_bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");

    snprintf(out, size_bytes, "unknown");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            snprintf(out, size_bytes, "%.*s", (int)strcspn(colon + 2, "\n"),
                     colon + 2);
            break;
        }
    }
    fclose(file);
}

static void
refuse_usage(const char *program)
{
    fprintf(stderr, "usage: %s [--threads N] [--seconds S] [--filter TEXT]\n",
            program);
    exit(2);
}

void
bench_begin(struct bench *bench, int argc, char **argv)
{
    char cpu[128], text[16];
    int i;

    *bench = (struct bench){.seconds = 1.0, .n_threads = thread_cpu_count()};
    for (i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            refuse_usage(argv[0]);
        if (strcmp(argv[i], "--threads") == 0)
            bench->n_threads = (unsigned)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seconds") == 0)
            bench->seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--filter") == 0)
            bench->filter = argv[i + 1];
        else
            refuse_usage(argv[0]);
    }
    if (bench->n_threads < 1 || bench->n_threads > 1024 || bench->seconds <= 0)
        refuse_usage(argv[0]);
    snprintf(text, sizeof(text), "%u", bench->n_threads);
    setenv("BELL_THREADS", text, 1);
    read_cpu_name(cpu, sizeof(cpu));
    json_init(&bench->json);
    json_str(&bench->json, "cpu", cpu);
    json_uint(&bench->json, "n_threads", bench->n_threads);
    json_array(&bench->json, "results");
}

int
bench_wants(const struct bench *bench, const char *name)
{
    return !bench->filter || strstr(name, bench->filter);
}

/* Runs one side once; milliseconds, or a negative number if it failed. */
static double
time_ours(const struct bench_case *c)
{
    uint64_t start = time_now_ns();

    if (c->ours(c->user) != 0)
        return -1;
    return (double)(time_now_ns() - start) / 1e6;
}

static double
time_peer(const struct bench_case *c)
{
    uint64_t start = time_now_ns();

    c->peer(c->user);
    return (double)(time_now_ns() - start) / 1e6;
}

static void
put_result(struct bench *bench, const struct bench_case *c, double first_ms,
           double ms, double peer_ms, size_t n_runs)
{
    struct json *json = &bench->json;

    json_object(json, NULL);
    json_str(json, "name", c->name);
    json_num(json, "time_ms", ms);
    if (c->peer) {
        json_str(json, "peer", c->peer_name);
        json_num(json, "peer_ms", peer_ms);
        json_num(json, "ratio", peer_ms / ms);
    }
    if (c->n_flops > 0)
        json_num(json, "gflops", c->n_flops / ms / 1e6);
    if (c->n_bytes > 0)
        json_num(json, "bandwidth_gb_s", c->n_bytes / ms / 1e6);
    json_num(json, "first_ms", first_ms);
    json_uint(json, "n_runs", n_runs);
    json_end(json);
}

void
bench_run(struct bench *bench, const struct bench_case *c)
{
    static double ours[MAX_RUNS], peers[MAX_RUNS];
    uint64_t end;
    double first_ms;
    size_t n = 0;

    if (!bench_wants(bench, c->name))
        return;
    /* The first runs compile, touch memory, start threads. */
    first_ms = time_ours(c);
    if (c->peer)
        time_peer(c);
    end = time_now_ns() + (uint64_t)(bench->seconds * 1e9);
    while (n < MAX_RUNS && (n < MIN_RUNS || time_now_ns() < end)) {
        ours[n] = time_ours(c);
        if (first_ms < 0 || ours[n] < 0) {
            fprintf(stderr, "%s failed\n", c->name);
            bench->n_failed++;
            return;
        }
        if (c->peer)
            peers[n] = time_peer(c);
        n++;
    }
    put_result(bench, c, first_ms, bench_median(ours, n),
               c->peer ? bench_median(peers, n) : 0, n);
}

int
bench_end(struct bench *bench)
{
    const char *text;

    json_end(&bench->json);
    json_uint(&bench->json, "peak_memory_bytes", bench_peak_bytes());
    json_int(&bench->json, "n_failed", bench->n_failed);
    text = json_text(&bench->json);
    if (text)
        fputs(text, stdout);
    json_fini(&bench->json);
    return !text || bench->n_failed ? 1 : 0;
}
