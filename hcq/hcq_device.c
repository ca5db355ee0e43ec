/* Backends, device names, opening and closing, the lost state. */
#include "hcq/hcq_backend.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/hcq_null.h"
#include "ioctl/kio_interface.h"

/* The clocks are compared again when the last comparison is older. */
#define CLOCK_AGE_NS 1000000000ull

/* How long a host that waits for a card looks at a signal before it sleeps; and
 * how many times that for a card of metal. */
#define CARD_SPIN_NS 50000u
#define CARD_SPINS   10

/* A simulated device ends by itself what hangs, but takes minutes for what a
 * real one does in milliseconds. guess: */
#define SIM_TIMEOUT_NS (40 * HCQ_TIMEOUT_NS)
#define TIMEOUT_MAX_S  1e9

/* In order of preference for the default device. */
static const struct hcq_backend *const backends[] = {
#if BELL_HAVE_NV
    &hcq_nv_backend,
#endif
#if BELL_HAVE_AMD
    &hcq_amd_backend,
#endif
#if BELL_HAVE_QCOM
    &hcq_qcom_backend,
#endif
#if BELL_HAVE_CL
    &hcq_cl_backend,
#endif
#if BELL_HAVE_CPU
    &hcq_cpu_backend,
#endif
};

void
hcq_link_init(struct hcq_link *link)
{
    link->next = link->prev = link;
}

void
hcq_link_add(struct hcq_link *head, struct hcq_link *link)
{
    assert(link != head);
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

void
hcq_link_remove(struct hcq_link *link)
{
    assert(link->prev->next == link && link->next->prev == link);
    link->prev->next = link->next;
    link->next->prev = link->prev;
    hcq_link_init(link);
}

bell_status
hcq_device_enumerate(struct hcq_device_desc *out_list, size_t cap,
                     size_t *out_n)
{
    struct bell_error_hold hold; /* a backend without devices is not a
                                  * failure */
    struct hcq_device_desc desc;
    size_t i, n = 0;
    unsigned idx;
    bell_status status;

    if (!out_n || (!out_list && cap))
        return bell_fail(BELL_BAD_MISSING,
                         "enumerate: no place for the result");
    bell_error_hold(&hold);
    for (i = 0; i < ARRAY_LEN(backends); i++) {
        for (idx = 0;; idx++) {
            memset(&desc, 0, sizeof(desc));
            desc.backend = backends[i]->name;
            status = backends[i]->enumerate(idx, &desc);
            if (status == BELL_E_NO_DEVICE)
                break;
            BELL_TRY(status);
            if (n < cap)
                out_list[n] = desc;
            n++;
        }
    }
    bell_error_release(&hold);
    *out_n = n;
    return BELL_OK;
}

/* A device name taken apart. */
struct device_name {
    char backend[16];
    unsigned idx;
    bool has_idx;
    const char *interface; /* "" when there is none; points into the text */
    const char *part;      /* of the device's description, in place of idx, */
    size_t part_len;       /* so long; 0: there is none */
};

static const struct hcq_backend *
find_backend(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(backends); i++) {
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    }
    return NULL;
}

static bool
has_names(const char *name)
{
    const struct hcq_backend *backend = find_backend(name);

    return backend && backend->has_names;
}

static bell_status
bad_name(const char *text, const char *why)
{
    return bell_fail(BELL_BAD_NAME,
                     "device name '%.60s': %s; expected "
                     "BACKEND[:INDEX][@INTERFACE], for example CPU:0",
                     text, why);
}

static bell_status
parse_name(const char *text, struct device_name *out_name)
{
    struct device_name name = {.interface = ""};
    size_t len = strcspn(text, ":@");
    const char *at = text + len;
    size_t i;

    if (len == 0)
        return bad_name(text, "no backend");
    if (len >= sizeof(name.backend))
        return bad_name(text, "the backend is too long");
    for (i = 0; i < len; i++) {
        bool letter = (text[i] >= 'A' && text[i] <= 'Z') ||
                      (text[i] >= 'a' && text[i] <= 'z') ||
                      (i && text[i] >= '0' && text[i] <= '9');
        if (!letter)
            return bad_name(text, "a backend is letters and digits");
    }
    memcpy(name.backend, text, len);
    if (*at == ':') {
        unsigned digits = 0;

        for (at++; *at >= '0' && *at <= '9'; at++, digits++) {
            if (digits == 4)
                return bad_name(text, "the index is too large");
            name.has_idx = true;
            name.idx = name.idx * 10 + (unsigned)(*at - '0');
        }
        if (digits == 0 && has_names(name.backend) && *at && *at != '@') {
            name.part = at;
            name.part_len = strcspn(at, "@");
            at += name.part_len;
        } else if (digits == 0) {
            return bad_name(text, "no index after ':'");
        }
    }
    if (*at == '@') {
        name.interface = at + 1;
        if (at[1] == '\0')
            return bad_name(text, "no interface after '@'");
    } else if (*at != '\0') {
        return bad_name(text, "the index is not a number");
    }
    *out_name = name;
    return BELL_OK;
}

static void
list_backends(char *text, size_t size_bytes)
{
    size_t i, used = 0;

    text[0] = '\0';
    for (i = 0; i < ARRAY_LEN(backends) && used < size_bytes; i++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%s",
                                 i ? ", " : "", backends[i]->name);
    }
}

static bool
is_null_interface(const char *interface)
{
    return strncmp(interface, "null:", 5) == 0;
}

/* Behind the name of a backend's interface: a chip to compile for. Not in the
 * driver half alone. */
static bell_status
open_interface(const struct hcq_backend *backend,
               const struct device_name *name, struct hcq_device **out_dev)
{
#if BELL_HAVE_NULL
    if (is_null_interface(name->interface))
        return hcq_null_open(backend->name, name->idx,
                             strchr(name->interface, ':') + 1, out_dev);
#endif
    return backend->open(name->idx, name->interface, out_dev);
}

/* With what the backend said when it was asked for its first device. */
static bell_status
no_such_device(const struct hcq_backend *backend, unsigned idx,
               unsigned n_known)
{
    char why[256] = "";

    if (n_known == 0 && backend->has_names)
        snprintf(why, sizeof(why), ": %.*s", (int)sizeof(why) - 3,
                 bell_error_last()->message);
    else if (n_known == 0)
        snprintf(why, sizeof(why), " (doorbell doctor says what is missing)");
    return bell_fail(BELL_E_NO_DEVICE, "no device %s:%u; there %s %u of %s%s",
                     backend->name, idx, n_known == 1 ? "is" : "are", n_known,
                     backend->name, why);
}

static bool
has_part(const char *text, const char *part, size_t len)
{
    for (; *text; text++) {
        if (strncasecmp(text, part, len) == 0)
            return true;
    }
    return false;
}

/* Finds the one device whose description has name->part. */
static bell_status
find_by_part(const struct hcq_backend *backend, struct device_name *name)
{
    int len = name->part_len < 40 ? (int)name->part_len : 40;
    struct hcq_device_desc desc;
    unsigned idx, n_found = 0;
    bell_status status;
    char known[320] = "";
    size_t used = 0;

    assert(name->part && name->part_len > 0);
    for (idx = 0;; idx++) {
        status = backend->enumerate(idx, &desc);
        if (status != BELL_OK)
            break;
        if (used < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used,
                                     "%s%s (%s)", idx ? ", " : "", desc.name,
                                     desc.description);
        if (!has_part(desc.description, name->part, name->part_len))
            continue;
        name->idx = idx;
        n_found++;
    }
    if (status != BELL_E_NO_DEVICE)
        return status;
    if (idx == 0)
        return no_such_device(backend, 0, 0);
    if (n_found != 1)
        return bell_fail(BELL_E_NO_DEVICE,
                         "'%.*s' is a part of the name of %s %s device; there "
                         "are: %s",
                         len, name->part, n_found ? "more than one" : "no",
                         backend->name, known);
    return BELL_OK;
}

/* ---- the first that can be used ------------------------------------------ */

/* Devices that were not taken. */
struct passed_over {
    char text[HCQ_PASSED_OVER_BYTES]; /* hcq_device_passed_over's */
    size_t used;
    unsigned n;
    struct bell_error first; /* why the first that was tried did not open */
};

static void
pass_over(struct passed_over *passed, const char *name, const char *why)
{
    size_t room = sizeof(passed->text) - passed->used, n = strlen(name);

    if (strncmp(why, name, n) == 0 && why[n] == ':') /* it says so itself */
        why += n + 2;
    LOG(LOG_EXEC, "%s is passed over: %s", name, why);
    passed->n++;
    if (room > 1)
        passed->used +=
            (size_t)snprintf(passed->text + passed->used, room, "%s%s: %s",
                             passed->used ? "; " : "", name, why);
    if (passed->used >= sizeof(passed->text))
        passed->used = sizeof(passed->text) - 1;
}

/* These say nothing about the device, but about memory or environment. */
static bool
ends_search(bell_status status)
{
    return status == BELL_E_NO_MEMORY || status == BELL_E_INVALID;
}

/* The backend's first device that can be used; BELL_E_NO_DEVICE: it has
 * none. */
static bell_status
open_first(const struct hcq_backend *backend, struct passed_over *passed,
           struct hcq_device **out_dev)
{
    bell_status status;
    unsigned idx;

    for (idx = 0;; idx++) {
        struct hcq_device_desc desc = {.usable = false};

        status = backend->enumerate(idx, &desc);
        if (status == BELL_E_NO_MEMORY)
            return status;
        if (status != BELL_OK)
            return BELL_E_NO_DEVICE;
        if (!desc.usable) {
            pass_over(passed, desc.name, desc.why_not);
            continue;
        }
        status = backend->open(idx, "", out_dev);
        if (status == BELL_OK || ends_search(status))
            return status;
        if (passed->first.status == BELL_OK)
            passed->first = *bell_error_last();
        pass_over(passed, desc.name, bell_error_last()->message);
    }
}

#define SEARCH_MAX 64

/* Whether a failure to open is this card's alone. */
static bool
is_of_card(bell_status status)
{
    return status == BELL_E_UNSUPPORTED ||
           (status == BELL_E_NO_DEVICE && bell_error_last()->sys_errno);
}

/* The same at another kernel, which is only asked by opening: a simulated one,
 * as it is or below a form that fails calls. A recording is of the first. */
static bell_status
open_first_at(const struct hcq_backend *backend, const char *interface,
              struct passed_over *passed, struct hcq_device **out_dev)
{
    bool goes_on = kio_interface_is_sim(interface) &&
                   strncmp(interface, "record:", 7) != 0;
    bell_status status = backend->open(0, interface, out_dev);
    char name[64];
    unsigned idx;

    for (idx = 0; idx < SEARCH_MAX && goes_on && is_of_card(status); idx++) {
        if (idx == 0)
            passed->first = *bell_error_last();
        snprintf(name, sizeof(name), "%s:%u@%.40s", backend->name, idx,
                 interface);
        pass_over(passed, name, bell_error_last()->message);
        status = backend->open(idx + 1, interface, out_dev);
    }
    return idx && status != BELL_OK ? bell_error_set(&passed->first) : status;
}

/* A backend's name alone. */
static bell_status
open_bare(const struct hcq_backend *backend, const struct device_name *name,
          struct passed_over *passed, struct hcq_device **out_dev)
{
    bell_status status;

    if (name->interface[0])
        return open_first_at(backend, name->interface, passed, out_dev);
    status = open_first(backend, passed, out_dev);
    if (status != BELL_E_NO_DEVICE)
        return status;
    if (passed->n == 0)
        return no_such_device(backend, 0, 0);
    /* where none was even tried, opening says more */
    status = passed->first.status == BELL_OK ? backend->open(0, "", out_dev)
                                             : bell_error_set(&passed->first);
    if (status != BELL_OK && passed->n > 1)
        bell_error_prefix("none of the %u %s devices can be used", passed->n,
                          backend->name);
    return status;
}

static bell_status
open_named(const char *text, struct passed_over *passed,
           struct hcq_device **out_dev)
{
    const struct hcq_backend *backend;
    struct hcq_device_desc desc;
    struct device_name name;
    unsigned n_known = 0;
    bell_status status;

    BELL_TRY(parse_name(text, &name));
    backend = find_backend(name.backend);
    if (!backend) {
        char known[128];

        list_backends(known, sizeof(known));
        return bell_fail(BELL_E_NO_DEVICE,
                         "no backend '%s' in this build; known: %s",
                         name.backend, known);
    }
    if (name.part)
        BELL_TRY(find_by_part(backend, &name));
    else if (!name.has_idx && !is_null_interface(name.interface))
        return open_bare(backend, &name, passed, out_dev);
    if (name.interface[0] == '\0') {
        status = backend->enumerate(name.idx, &desc);
        if (status == BELL_E_NO_DEVICE) {
            while (n_known < name.idx &&
                   backend->enumerate(n_known, &desc) == BELL_OK)
                n_known++;
            return no_such_device(backend, name.idx, n_known);
        }
        BELL_TRY(status);
    }
    BELL_TRY(open_interface(backend, &name, out_dev));
    return BELL_OK;
}

static bell_status
open_default(struct passed_over *passed, struct hcq_device **out_dev)
{
    char why[256] = "";
    size_t i;

    for (i = 0; i < ARRAY_LEN(backends); i++) {
        bell_status status;

        if (backends[i]->stands_back && backends[i]->stands_back())
            continue;
        status = open_first(backends[i], passed, out_dev);
        if (status == BELL_OK)
            LOG(LOG_EXEC, "default device is %s", (*out_dev)->info.name);
        if (status == BELL_OK || ends_search(status))
            return status;
    }
    if (passed->first.status != BELL_OK)
        snprintf(why, sizeof(why), ": %.*s", (int)sizeof(why) - 3,
                 passed->first.message);
    return bell_fail(BELL_E_NO_DEVICE, "no backend has a usable device%s", why);
}

bell_status
hcq_device_open(const char *name, struct hcq_device **out_dev)
{
    struct passed_over passed = {.used = 0};
    struct bell_error_hold hold; /* a part that it can do without is not a
                                  * failure */

    if (!out_dev)
        return bell_fail(BELL_BAD_MISSING, "device open: no place for it");
    bell_error_hold(&hold);
    BELL_TRY(log_init());
    BELL_TRY(thread_check());
    if (!name)
        name = env_get("BELL_DEVICE");
    if (name)
        BELL_TRY(open_named(name, &passed, out_dev));
    else
        BELL_TRY(open_default(&passed, out_dev));
    memcpy((*out_dev)->passed_over, passed.text, sizeof(passed.text));
    bell_error_release(&hold);
    return BELL_OK;
}

const char *
hcq_device_passed_over(const struct hcq_device *dev)
{
    return dev->passed_over;
}

void
hcq_device_close(struct hcq_device *dev)
{
    struct bell_error_hold hold;

    if (!dev || hcq_is_inherited(dev))
        return;
    bell_error_hold(&hold);
    dev->ops->close(dev);
    bell_error_release(&hold);
}

bell_status
hcq_card_open(const struct hcq_card_driver *driver, unsigned idx,
              const char *interface, struct hcq_device **out_dev)
{
    struct hcq_device *dev = driver->alloc();
    struct hcq_device_info *info;
    bell_status status;

    if (!dev)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for device %s:%u",
                         driver->backend, idx);
    info = &dev->info;
    info->struct_size = sizeof(*info);
    info->max_args = HCQ_ARGS_MAX;
    snprintf(info->backend, sizeof(info->backend), "%s", driver->backend);
    snprintf(info->name, sizeof(info->name), "%s:%u%s%s", driver->backend, idx,
             interface[0] ? "@" : "", interface);
    /* With one CPU nobody else runs while we spin. */
    dev->spin_ns = thread_cpu_count() > 1 ? CARD_SPIN_NS : 0;
    status = driver->open(dev, idx, interface);
    if (status != BELL_OK) {
        bell_error_prefix("%s:%u%s%.40s", driver->backend, idx,
                          interface[0] ? "@" : "", interface);
        driver->release(dev);
        return status;
    }
    *out_dev = dev;
    return BELL_OK;
}

/* BELL_TIMEOUT: seconds; off or 0: no limit. */
static bell_status
read_timeout(const struct hcq_device_info *info, uint64_t *out_ns)
{
    const char *text = env_get("BELL_TIMEOUT");
    double seconds;
    char *end;

    *out_ns =
        info->flags & HCQ_DEVICE_SIMULATED ? SIM_TIMEOUT_NS : HCQ_TIMEOUT_NS;
    if (!text || !*text)
        return BELL_OK;
    if (strcmp(text, "off") == 0) {
        *out_ns = HCQ_WAIT_FOREVER;
        return BELL_OK;
    }
    seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= TIMEOUT_MAX_S))
        return bell_fail(BELL_BAD_VALUE,
                         "BELL_TIMEOUT is '%.40s'; expected seconds from 0 to "
                         "%g, or off",
                         text, TIMEOUT_MAX_S);
    *out_ns = seconds > 0 ? (uint64_t)(seconds * 1e9) : HCQ_WAIT_FOREVER;
    return BELL_OK;
}

bell_status
hcq_device_init(struct hcq_device *dev)
{
    uint64_t still_ns;

    assert(dev->ops && dev->info.name[0]);
    BELL_TRY(read_timeout(&dev->info, &still_ns));
    hcq_device_set_timeout(dev, still_ns);
    hcq_link_init(&dev->buffers);
    hcq_link_init(&dev->signals);
    hcq_link_init(&dev->programs);
    hcq_link_init(&dev->queues);
    hcq_link_init(&dev->transfers);
    dev->cache_limit_bytes = dev->info.memory_bytes / 4;
    /* A nap ends 50 us later than asked for, and a simulated card needs the
     * core itself. observed: H100, 2026-11-22: napping, waits of 355 us for a
     * kernel of 266 us */
    if (!(dev->info.flags & (HCQ_DEVICE_SIMULATED | HCQ_DEVICE_HOST_CPU)))
        dev->spin_ns *= CARD_SPINS;
    if (dev->ops->compare_clocks)
        BELL_TRY(dev->ops->compare_clocks(dev, &dev->first_clock));
    dev->last_clock = dev->first_clock;
    BELL_TRY(process_mark_init(&dev->mark));
    pthread_mutex_init(&dev->clock_lock, NULL);
    pthread_mutex_init(&dev->lock, NULL);
    return BELL_OK;
}

static void
note_leak(const struct hcq_device *dev, const char *kind, const char *name)
{
    LOG(LOG_MEM, "%s closed with a %s left: %s", dev->info.name, kind, name);
}

void
hcq_device_fini(struct hcq_device *dev)
{
    struct hcq_link *link;

    while ((link = dev->queues.next) != &dev->queues) {
        struct hcq_queue *queue = HCQ_CONTAINER(link, struct hcq_queue, link);

        note_leak(dev, "queue", queue->name);
        while (queue->streams.next != &queue->streams) {
            struct hcq_stream *stream =
                HCQ_CONTAINER(queue->streams.next, struct hcq_stream, link);
            note_leak(dev, "stream", stream->name);
            hcq_stream_destroy(stream);
        }
        hcq_link_remove(&queue->link);
        dev->ops->queue_destroy(queue);
    }
    while ((link = dev->programs.next) != &dev->programs) {
        struct hcq_program_base *prog =
            HCQ_CONTAINER(link, struct hcq_program_base, link);
        note_leak(dev, "program", prog->pub.name);
        hcq_program_destroy(&prog->pub);
    }
    hcq_memory_fini(dev);
    assert(dev->live_bytes == 0 && dev->cached_bytes == 0);
    while ((link = dev->signals.next) != &dev->signals) {
        struct hcq_signal_node *node =
            HCQ_CONTAINER(link, struct hcq_signal_node, link);
        note_leak(dev, "signal", "");
        hcq_signal_destroy(&node->pub);
    }
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->clock_lock);
    process_mark_fini(&dev->mark);
}

bool
hcq_device_is_inherited(const struct hcq_device *dev)
{
    return hcq_is_inherited(dev);
}

bell_status
hcq_check_process(const struct hcq_device *dev)
{
    if (!hcq_is_inherited(dev))
        return BELL_OK;
    return bell_fail(BELL_BAD_PROCESS,
                     "%s was opened by process %d, before a fork: a child "
                     "opens its own",
                     dev->info.name, dev->mark.pid);
}

void
hcq_device_info(struct hcq_device *dev, struct hcq_device_info *out_info)
{
    hcq_give_info(out_info, &dev->info, sizeof(dev->info));
}

const char *
hcq_device_name(const struct hcq_device *dev)
{
    return dev->info.name;
}

bell_status
hcq_device_clock_mhz(struct hcq_device *dev, uint32_t *out_mhz)
{
    BELL_TRY(hcq_check_process(dev));
    if (!dev->ops->clock_mhz)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: no driver tells its clock",
                         dev->info.name);
    return dev->ops->clock_mhz(dev, out_mhz);
}

uint64_t
hcq_timestamp_to_ns(struct hcq_device *dev, uint64_t ticks)
{
    const struct hcq_clock_pair *first = &dev->first_clock;
    const struct hcq_clock_pair *last = &dev->last_clock;
    double ns_per_tick = 1e9 / (double)dev->info.timestamp_hz;
    struct hcq_clock_pair now;

    if (!dev->ops->compare_clocks)
        return ticks;
    pthread_mutex_lock(&dev->clock_lock);
    if (time_now_ns() - last->host_ns > CLOCK_AGE_NS &&
        dev->ops->compare_clocks(dev, &now) == BELL_OK)
        dev->last_clock = now;
    if (last->host_ns - first->host_ns > CLOCK_AGE_NS / 2)
        ns_per_tick = (double)(last->host_ns - first->host_ns) /
                      (double)(last->ticks - first->ticks);
    ticks = first->host_ns +
            (uint64_t)(int64_t)((double)(int64_t)(ticks - first->ticks) *
                                ns_per_tick);
    pthread_mutex_unlock(&dev->clock_lock);
    return ticks;
}

bell_status
hcq_lost_report(struct hcq_device *dev)
{
    struct hcq_fault fault;

    hcq_device_fault(dev, &fault);
    return bell_fail(BELL_E_DEVICE_LOST, "%s is lost: %s", dev->info.name,
                     fault.kind != HCQ_FAULT_NONE
                         ? fault.text
                         : "it was recovered, and this work dropped");
}

bell_status
hcq_device_status(struct hcq_device *dev)
{
    BELL_TRY(hcq_check_process(dev));
    if (dev->ops->check)
        dev->ops->check(dev);
    if (hcq_device_is_lost(dev))
        return hcq_lost_report(dev);
    return BELL_OK;
}

void
hcq_device_fault(struct hcq_device *dev, struct hcq_fault *out_fault)
{
    memset(out_fault, 0, sizeof(*out_fault));
    if (hcq_is_inherited(dev))
        return;
    pthread_mutex_lock(&dev->lock);
    *out_fault = dev->fault;
    pthread_mutex_unlock(&dev->lock);
}

void
hcq_device_wake_all(struct hcq_device *dev)
{
    struct hcq_link *link;

    if (!dev->ops->signal_wake)
        return;
    pthread_mutex_lock(&dev->lock);
    for (link = dev->signals.next; link != &dev->signals; link = link->next) {
        dev->ops->signal_wake(
            &HCQ_CONTAINER(link, struct hcq_signal_node, link)->pub);
    }
    pthread_mutex_unlock(&dev->lock);
}

void
hcq_fault_add(struct hcq_fault *fault, const char *format, ...)
{
    size_t used = strlen(fault->text);
    va_list args;

    assert(used < sizeof(fault->text));
    va_start(args, format);
    vsnprintf(fault->text + used, sizeof(fault->text) - used, format, args);
    va_end(args);
}

void
hcq_device_set_lost(struct hcq_device *dev, const struct hcq_fault *fault)
{
    bool first;

    assert(fault->kind != HCQ_FAULT_NONE);
    pthread_mutex_lock(&dev->lock);
    first = !hcq_device_is_lost(dev);
    if (first) {
        dev->fault = *fault;
        atomic_store_explicit(&dev->lost, 1, memory_order_release);
    }
    pthread_mutex_unlock(&dev->lock);
    if (first) {
        LOG(LOG_SYNC, "%s lost: %s", dev->info.name, fault->text);
        hcq_device_wake_all(dev);
    }
}

void
hcq_device_set_cut_off(struct hcq_device *dev, const char *why)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_INTERFACE};

    snprintf(fault.text, sizeof(fault.text), "%s", why);
    hcq_device_set_lost(dev, &fault);
}

bell_status
hcq_device_synchronize(struct hcq_device *dev, uint64_t timeout_ns)
{
    struct hcq_link *link;
    struct hcq_queue *queue;
    bell_status status = BELL_OK;

    BELL_TRY(hcq_check_process(dev));
    /* The list is walked without the lock while a wait sleeps: destroying a
     * queue excludes all other use of it, and this is a use. */
    pthread_mutex_lock(&dev->lock);
    link = dev->queues.next;
    while (link != &dev->queues && status == BELL_OK) {
        queue = HCQ_CONTAINER(link, struct hcq_queue, link);
        pthread_mutex_unlock(&dev->lock);
        status = hcq_queue_wait(queue, timeout_ns);
        pthread_mutex_lock(&dev->lock);
        link = link->next;
    }
    pthread_mutex_unlock(&dev->lock);
    BELL_TRY(status);
    BELL_TRY(hcq_device_status(dev)); /* not returned: errors name this call */
    return BELL_OK;
}

bell_status
hcq_device_recover(struct hcq_device *dev)
{
    struct bell_error_hold hold;
    struct hcq_queue *queue;

    BELL_TRY(hcq_check_process(dev));
    bell_error_hold(&hold); /* what it does without is not told */
    /* Waiters look at the epoch after the value: they end with
     * BELL_E_DEVICE_LOST although the timelines complete below. */
    atomic_fetch_add(&dev->epoch, 1);
    hcq_device_wake_all(dev);
    BELL_TRY(dev->ops->stop(dev));
    pthread_mutex_lock(&dev->lock);
    for (queue = hcq_next_queue(dev, NULL); queue;
         queue = hcq_next_queue(dev, queue))
        hcq_signal_set(queue->timeline, queue->n_submitted);
    memset(&dev->fault, 0, sizeof(dev->fault));
    atomic_store_explicit(&dev->lost, 0, memory_order_release);
    pthread_mutex_unlock(&dev->lock);
    dev->ops->resume(dev);
    bell_error_release(&hold);
    LOG(LOG_SYNC, "%s recovered", dev->info.name);
    return BELL_OK;
}
