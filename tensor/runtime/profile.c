/* Traces in the format that Chrome's trace viewer and Perfetto read. src: the
 * document "Trace Event Format" of the Chromium project: X (complete), C
 * (counter), M (metadata), s and f (flow) events; times in microseconds. */
#include "tensor/runtime/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "tensor/runtime/runtime.h"

#define NAME_BYTES 48
/* The rows of the viewer. */
#define HOST       1
#define DEVICE     2
#define COPIES_ROW 1000000 /* beside the threads of the host */

struct event {
    enum rt_profile_kind kind;
    uint32_t thread; /* of the host */
    uint64_t start_ns, end_ns;
    uint64_t call; /* number of the call that it is of; 0: none */
    double n_flops, n_bytes;
    uint64_t memory_bytes; /* of the device in use, behind it */
    const char *text;      /* what a kernel computes; or NULL */
    char name[NAME_BYTES];
};

struct rt_profile {
    struct hcq_device *dev;
    const char *path; /* of the environment; NULL: no file */
    struct hcq_signal *before, *after;
    uint64_t base_ns, n_calls, n_lost;
    struct event *events;
    size_t n_events, cap_events;
};

static const char *const span_names[RT_PROFILE_COUNT] = {
    "call", "schedule", "lower", "code", "write", "read", "kernel",
};

/* ---- noting -------------------------------------------------------------- */

/* NULL: it is lost. */
static struct event *
add_event(struct rt_profile *profile, enum rt_profile_kind kind,
          const char *name)
{
    struct event *event;
    uint64_t cached;

    if (profile->n_events == profile->cap_events &&
        host_grow((void **)&profile->events, &profile->cap_events,
                  profile->n_events + 1, sizeof(*profile->events)) != 0) {
        profile->n_lost++;
        return NULL;
    }
    event = &profile->events[profile->n_events++];
    memset(event, 0, sizeof(*event));
    event->kind = kind;
    event->thread = (uint32_t)gettid();
    event->call = profile->n_calls;
    hcq_memory_usage(profile->dev, &event->memory_bytes, &cached);
    snprintf(event->name, sizeof(event->name), "%.*s", NAME_BYTES - 1, name);
    return event;
}

void
rt_profile_span(struct rt_profile *profile, enum rt_profile_kind kind,
                const char *name, uint64_t start_ns, double n_bytes)
{
    struct event *event = profile ? add_event(profile, kind, name) : NULL;

    if (!event)
        return;
    event->start_ns = start_ns;
    event->end_ns = time_now_ns();
    event->n_bytes = n_bytes;
}

void
rt_profile_job(struct rt_profile *profile, const struct rt_job *job)
{
    struct event *event;

    if (!profile || job->is_found || !job->start_ns)
        return;
    event = add_event(profile, RT_PROFILE_LOWER, job->name);
    if (event) {
        event->thread = job->thread;
        event->start_ns = job->start_ns;
        event->end_ns = job->start_ns + job->lower_ns;
    }
    event = add_event(profile, RT_PROFILE_CODE, job->name);
    if (event) {
        event->thread = job->thread;
        event->start_ns = job->render_start_ns;
        event->end_ns = job->render_start_ns + job->render_ns;
        event->n_bytes = (double)job->binary.file.size_bytes;
    }
}

void
rt_profile_call(struct rt_profile *profile)
{
    if (profile)
        profile->n_calls++;
}

void
rt_profile_before(struct rt_profile *profile, struct hcq_cs *cs)
{
    if (profile)
        hcq_cs_timestamp(cs, profile->before);
}

void
rt_profile_after(struct rt_profile *profile, struct hcq_cs *cs)
{
    if (profile)
        hcq_cs_timestamp(cs, profile->after);
}

void
rt_profile_kernel(struct rt_profile *profile, const struct rt_kernel *kernel,
                  size_t number, const char *text, uint64_t start_ns)
{
    uint64_t from, to, now = time_now_ns();
    struct event *event;
    char name[NAME_BYTES];

    if (!profile)
        return;
    /* different kernels may have one name */
    snprintf(name, sizeof(name), "%.*s #%zu", NAME_BYTES - 24,
             kernel->program->name, number);
    event = add_event(profile, RT_PROFILE_KERNEL, name);
    if (!event)
        return;
    from = hcq_signal_timestamp(profile->before);
    to = hcq_signal_timestamp(profile->after);
    event->start_ns = start_ns; /* of a device without a clock */
    event->end_ns = now;
    if (from && to >= from) {
        event->start_ns = hcq_timestamp_to_ns(profile->dev, from);
        event->end_ns = hcq_timestamp_to_ns(profile->dev, to);
    }
    event->text = text;
    event->n_flops = kernel->facts.n_flops;
    event->n_bytes = kernel->facts.n_bytes;
}

/* ---- BELL_DEBUG=kernels -------------------------------------------------- */

static const char *
text_of(const struct event *event)
{
    return event->text ? event->text : "";
}

/* The same kernel's together, for what it computes. */
static int
compare_kernels(const void *a, const void *b)
{
    const struct event *x = *(const struct event *const *)a;
    const struct event *y = *(const struct event *const *)b;
    int order = strcmp(x->name, y->name);

    return order ? order : strcmp(text_of(x), text_of(y));
}

static double
ns_of(const struct event *event)
{
    return event->end_ns > event->start_ns
               ? (double)(event->end_ns - event->start_ns)
               : 1;
}

/* A line for list[0..n), which are of one kernel. */
static void
tell_kernel(const struct event *const *list, size_t n, double all_ns)
{
    double ns = 0, n_flops = 0, n_bytes = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        ns += ns_of(list[i]);
        n_flops += list[i]->n_flops;
        n_bytes += list[i]->n_bytes;
    }
    LOG(LOG_KERNELS, "%s: %zu x %.1f us, %.2f GFLOP/s, %.2f GB/s, %.1f %%%s%s",
        list[0]->name, n, ns / 1e3 / (double)n, n_flops / ns, n_bytes / ns,
        100 * ns / all_ns, list[0]->text ? ": " : "", text_of(list[0]));
}

static void
tell_kernels(const struct rt_profile *profile)
{
    const struct event **list =
        host_calloc(profile->n_events + 1, sizeof(*list));
    size_t n = 0, i, first = 0;
    double all_ns = 0;

    if (!list)
        return;
    for (i = 0; i < profile->n_events; i++) {
        if (profile->events[i].kind != RT_PROFILE_KERNEL)
            continue;
        list[n++] = &profile->events[i];
        all_ns += ns_of(&profile->events[i]);
    }
    if (n)
        qsort(list, n, sizeof(*list), compare_kernels);
    for (i = 1; i <= n; i++) {
        if (i < n && compare_kernels(&list[i], &list[first]) == 0)
            continue;
        tell_kernel(list + first, i - first, all_ns);
        first = i;
    }
    host_free(list);
}

/* ---- the file ------------------------------------------------------------ */

static double
us_of(const struct rt_profile *profile, uint64_t ns)
{
    return ns > profile->base_ns ? (double)(ns - profile->base_ns) / 1e3 : 0;
}

/* An event that is of a kind, of a row of a process; json_end follows. */
static void
begin_event(struct json *json, const char *kind, const char *name, int pid,
            unsigned tid)
{
    json_object(json, NULL);
    json_str(json, "ph", kind);
    json_str(json, "name", name);
    json_int(json, "pid", pid);
    json_uint(json, "tid", tid);
}

static void
put_event(struct json *json, const struct rt_profile *profile,
          const struct event *event)
{
    bool is_kernel = event->kind == RT_PROFILE_KERNEL;
    bool is_copy =
        event->kind == RT_PROFILE_WRITE || event->kind == RT_PROFILE_READ;
    uint64_t start =
        event->start_ns > profile->base_ns ? event->start_ns : profile->base_ns;

    begin_event(json, "X", event->name, is_kernel ? DEVICE : HOST,
                is_kernel ? 1
                : is_copy ? COPIES_ROW
                          : event->thread);
    json_str(json, "cat", span_names[event->kind]);
    json_num(json, "ts", us_of(profile, start));
    json_num(json, "dur",
             event->end_ns > start ? (double)(event->end_ns - start) / 1e3 : 0);
    json_object(json, "args");
    json_uint(json, "call", event->call);
    json_num(json, "flops", event->n_flops);
    json_num(json, "bytes", event->n_bytes);
    if (event->text)
        json_str(json, "label", event->text);
    json_end(json);
    json_end(json);
    begin_event(json, "C", "device memory", DEVICE, 0);
    json_num(json, "ts", us_of(profile, event->end_ns));
    json_object(json, "args");
    json_uint(json, "bytes", event->memory_bytes);
    json_end(json);
    json_end(json);
}

/* One end of an arrow. */
static void
put_flow(struct json *json, const char *kind, size_t number, int pid,
         unsigned tid, double ts)
{
    begin_event(json, kind, "launch", pid, tid);
    json_str(json, "cat", "flow");
    json_uint(json, "id", number);
    json_num(json, "ts", ts);
    if (kind[0] == 'f')
        json_str(json, "bp", "e");
    json_end(json);
}

/* An arrow from the call to each kernel that it led to. */
static void
put_flows(struct json *json, const struct rt_profile *profile)
{
    const struct event **calls =
        host_calloc(profile->n_calls + 1, sizeof(*calls));
    size_t i;

    if (!calls) {
        json->failed = true;
        return;
    }
    for (i = 0; i < profile->n_events; i++) {
        if (profile->events[i].kind == RT_PROFILE_CALL)
            calls[profile->events[i].call] = &profile->events[i];
    }
    for (i = 0; i < profile->n_events; i++) {
        const struct event *event = &profile->events[i];
        const struct event *call = calls[event->call];

        if (event->kind != RT_PROFILE_KERNEL || !call)
            continue;
        put_flow(json, "s", i + 1, HOST, call->thread,
                 us_of(profile, call->start_ns));
        put_flow(json, "f", i + 1, DEVICE, 1, us_of(profile, event->start_ns));
    }
    host_free(calls);
}

static void
put_name(struct json *json, const char *what, int pid, unsigned tid,
         const char *name)
{
    begin_event(json, "M", what, pid, tid);
    json_object(json, "args");
    json_str(json, "name", name);
    json_end(json);
    json_end(json);
}

static void
put_trace(struct json *json, const struct rt_profile *profile)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    size_t i;

    hcq_device_info(profile->dev, &info);
    json_init_compact(json);
    json_object(json, "otherData"); /* is_own knows how it begins */
    json_uint(json, "doorbell_profile", 1);
    json_int(json, "process", getpid());
    json_str(json, "device", info.name);
    json_str(json, "model", info.model);
    json_uint(json, "lost", profile->n_lost);
    json_end(json);
    json_str(json, "displayTimeUnit", "ns");
    json_array(json, "traceEvents");
    put_name(json, "process_name", HOST, 0, "host");
    put_name(json, "process_name", DEVICE, 0, info.name);
    put_name(json, "thread_name", DEVICE, 1, "kernels");
    put_name(json, "thread_name", HOST, COPIES_ROW, "copies");
    for (i = 0; i < profile->n_events; i++)
        put_event(json, profile, &profile->events[i]);
    put_flows(json, profile);
}

/* Whether the file is of another context of this process. */
static bool
is_own(const char *path)
{
    char want[128], got[128] = "";
    FILE *file = fopen(path, "re");
    size_t n;

    if (!file)
        return false;
    n = fread(got, 1, sizeof(got) - 1, file);
    got[n] = '\0';
    fclose(file);
    snprintf(want, sizeof(want),
             "{\"otherData\":{\"doorbell_profile\":1,\"process\":%d,",
             (int)getpid());
    return strncmp(got, want, strlen(want)) == 0;
}

static bell_status
write_trace(const struct rt_profile *profile)
{
    char path[4096];
    bell_status status;
    const char *text;
    struct json json;
    unsigned i = 1;

    snprintf(path, sizeof(path), "%s", profile->path);
    while (is_own(path) && ++i < 1000)
        snprintf(path, sizeof(path), "%s.%u", profile->path, i);
    put_trace(&json, profile);
    text = json_text(&json);
    status = text ? file_write(path, &(struct file_part){text, json.n_bytes}, 1)
                  : bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    json_fini(&json);
    return status;
}

/* ---- its life ------------------------------------------------------------ */

bell_status
rt_profile_create(struct tensor_runtime *rt)
{
    const char *path = env_get("BELL_PROFILE");
    struct rt_profile *profile;
    bell_status status;

    if (path && !*path)
        path = NULL;
    if (!path && !LOG_ON(LOG_KERNELS))
        return BELL_OK;
    if (path)
        BELL_TRY(file_check_writable(path));
    profile = host_calloc(1, sizeof(*profile));
    if (!profile)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a profile");
    profile->dev = rt->dev;
    profile->path = path;
    profile->base_ns = time_now_ns();
    rt->profile = profile;
    status = hcq_signal_create(rt->dev, 0, &profile->before);
    if (status == BELL_OK)
        status = hcq_signal_create(rt->dev, 0, &profile->after);
    return status;
}

void
rt_profile_destroy(struct tensor_runtime *rt)
{
    struct rt_profile *profile = rt->profile;
    char text[1024];

    if (!profile)
        return;
    /* a child of fork has its parent's, which writes it */
    if (profile->path && !hcq_device_is_inherited(rt->dev) &&
        profile->n_events && write_trace(profile) != BELL_OK) {
        snprintf(text, sizeof(text), "BELL_PROFILE: %s",
                 bell_error_last()->message);
        log_lose(text);
    }
    if (LOG_ON(LOG_KERNELS))
        tell_kernels(profile);
    hcq_signal_destroy(profile->before);
    hcq_signal_destroy(profile->after);
    host_free(profile->events);
    host_free(profile);
    rt->profile = NULL;
}
