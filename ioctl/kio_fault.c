/* Making chosen calls fail. */
#include "ioctl/kio_fault.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"

#define RULES_MAX     16
#define WHY_BYTES     96
#define CALL_NAME_MAX 160

enum call_kind {
    CALL_OPEN,
    CALL_CLOSE,
    CALL_IOCTL,
    CALL_MMAP,
    CALL_MUNMAP,
    CALL_POLL,
    CALL_READ,
    CALL_ANY,
    CALL_NAMED, /* an ioctl by name */
};

static const char *const kind_names[] = {
    "open", "close", "ioctl", "mmap", "munmap", "poll", "read", "any",
};

enum action {
    ACTION_ERRNO,
    ACTION_STATUS,
    ACTION_TRUNCATE,
    ACTION_DELAY,
    ACTION_REPLY,
    ACTION_RANDOM,
};

struct rule {
    enum call_kind kind;
    char name[CALL_NAME_MAX]; /* of a named ioctl */
    uint64_t nth, seen;
    bool every_later;
    enum action action;
    uint64_t value; /* errno, status, bytes, nanoseconds, word or seed */
    uint64_t word;  /* of ACTION_REPLY: which */
};

struct fault_kio {
    struct kio kio;
    pthread_mutex_t lock; /* of all below */
    struct rule rules[RULES_MAX];
    uint32_t n_rules;
    uint64_t n_hits;
    struct map devs; /* fd -> enum kio_dev */
};

/* Belongs to the calling thread: which backend failed its last call, and
 * why. */
static _Thread_local struct {
    const struct fault_kio *of;
    char text[WHY_BYTES];
} last_hit;

/* ---- plans ------------------------------------------------------------ */

static const struct {
    const char *name;
    int error;
} errors[] = {
    {"EPERM", EPERM},   {"ENOENT", ENOENT},
    {"EINTR", EINTR},   {"EIO", EIO},
    {"ENXIO", ENXIO},   {"EAGAIN", EAGAIN},
    {"ENOMEM", ENOMEM}, {"EACCES", EACCES},
    {"EFAULT", EFAULT}, {"EBUSY", EBUSY},
    {"ENODEV", ENODEV}, {"EINVAL", EINVAL},
    {"EMFILE", EMFILE}, {"ENOTTY", ENOTTY},
    {"ENOSPC", ENOSPC}, {"ETIMEDOUT", ETIMEDOUT},
    {"ETIME", ETIME},   {"EOVERFLOW", EOVERFLOW},
};

static bool
parse_action(const char *text, struct rule *rule)
{
    const char *number = strchr(text, '=');
    char *end;
    size_t i;

    for (i = 0; i < ARRAY_LEN(errors); i++) {
        if (strcmp(text, errors[i].name) == 0) {
            rule->action = ACTION_ERRNO;
            rule->value = (uint64_t)errors[i].error;
            return true;
        }
    }
    if (!number)
        return false;
    rule->value = strtoull(number + 1, &end, 0);
    if (end == number + 1)
        return false;
    if (strncmp(text, "status=", 7) == 0) {
        rule->action = ACTION_STATUS;
        return *end == '\0';
    }
    if (strncmp(text, "truncate=", 9) == 0) {
        rule->action = ACTION_TRUNCATE;
        return *end == '\0';
    }
    if (strncmp(text, "random=", 7) == 0) {
        rule->action = ACTION_RANDOM;
        return *end == '\0';
    }
    if (strncmp(text, "reply=", 6) == 0 && *end == ':') {
        number = end;
        rule->action = ACTION_REPLY;
        rule->word = rule->value;
        rule->value = strtoull(number + 1, &end, 0);
        return end != number + 1 && *end == '\0';
    }
    if (strncmp(text, "delay=", 6) != 0)
        return false;
    rule->action = ACTION_DELAY;
    rule->value *= strcmp(end, "us") == 0   ? 1000ull
                   : strcmp(end, "ms") == 0 ? 1000000ull
                   : strcmp(end, "s") == 0  ? 1000000000ull
                                            : 0;
    return rule->value != 0;
}

/* KIND[:N[+]] */
static bool
fault_parse_target(char *text, struct rule *rule)
{
    char *colon = strchr(text, ':'), *end;
    size_t i;

    rule->nth = 1;
    if (colon) {
        *colon = '\0';
        rule->nth = strtoull(colon + 1, &end, 10);
        rule->every_later = *end == '+';
        if (!rule->nth || end[rule->every_later ? 1 : 0] != '\0')
            return false;
    }
    for (i = 0; i < ARRAY_LEN(kind_names); i++) {
        if (strcmp(text, kind_names[i]) == 0) {
            rule->kind = (enum call_kind)i;
            return true;
        }
    }
    rule->kind = CALL_NAMED;
    snprintf(rule->name, sizeof(rule->name), "%s", text);
    /* Names of calls are upper case; a mistyped kind is not one. */
    return text[0] >= 'A' && text[0] <= 'Z';
}

static bell_status
fault_parse_plan(const char *plan, struct rule *rules, uint32_t *out_n_rules)
{
    uint32_t n = 0;

    while (*plan) {
        char text[160], *equals;
        size_t len = strcspn(plan, ",");
        if (n == RULES_MAX || len >= sizeof(text))
            return bell_fail(BELL_E_INVALID,
                             "fault plan: more than %d rules, or one of more "
                             "than 159 characters",
                             RULES_MAX);
        memcpy(text, plan, len);
        text[len] = '\0';
        equals = strchr(text, '=');
        memset(&rules[n], 0, sizeof(rules[n]));
        if (equals)
            *equals = '\0';
        if (!equals || !fault_parse_target(text, &rules[n]) ||
            !parse_action(equals + 1, &rules[n]))
            return bell_fail(BELL_E_INVALID,
                             "fault plan: '%.*s' is not KIND[:N[+]]=ACTION "
                             "(ENOMEM, status=0x51, truncate=8, delay=5ms, "
                             "reply=3:0xffffffff, random=1)",
                             (int)len, plan);
        n++;
        plan += len + (plan[len] == ',');
    }
    *out_n_rules = n;
    return BELL_OK;
}

/* ---- hits ------------------------------------------------------------- */

/* Whether the names of an ioctl (its own, its command's or its class's)
 * include this one. */
static bool
has_name(const struct kio_capture *capture, const char *name)
{
    uint32_t i;

    if (strcmp(capture->call.name, name) == 0)
        return true;
    for (i = 0; i < capture->n_blobs; i++) {
        if (capture->blobs[i].name && strcmp(capture->blobs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* The rule that this call meets, copied to *out; delays are slept off here.
 * `capture` is NULL for other calls than ioctls. */
static bool
fault_meet(struct fault_kio *fault, enum call_kind kind,
           const struct kio_capture *capture, struct rule *out)
{
    uint64_t sleep_ns = 0;
    bool hit = false;
    uint32_t i;

    assert(fault->n_rules <= RULES_MAX);
    pthread_mutex_lock(&fault->lock);
    for (i = 0; i < fault->n_rules; i++) {
        struct rule *rule = &fault->rules[i];
        if (rule->kind != kind && rule->kind != CALL_ANY &&
            !(rule->kind == CALL_NAMED && capture &&
              has_name(capture, rule->name)))
            continue;
        rule->seen++;
        if (rule->every_later ? rule->seen < rule->nth
                              : rule->seen != rule->nth)
            continue;
        fault->n_hits++;
        if (rule->action == ACTION_DELAY) {
            sleep_ns += rule->value;
        } else if (!hit) {
            *out = *rule;
            hit = true;
        }
    }
    pthread_mutex_unlock(&fault->lock);
    if (sleep_ns)
        nanosleep(&(struct timespec){(time_t)(sleep_ns / 1000000000u),
                                     (long)(sleep_ns % 1000000000u)},
                  NULL);
    last_hit.of = hit ? fault : NULL;
    if (hit && out->action == ACTION_ERRNO)
        snprintf(last_hit.text, sizeof(last_hit.text),
                 "%s (as planned for call %llu)", strerror((int)out->value),
                 (unsigned long long)out->seen);
    else if (hit)
        snprintf(last_hit.text, sizeof(last_hit.text),
                 "as planned for call %llu", (unsigned long long)out->seen);
    return hit;
}

static const char *
fault_explain(struct kio *kio)
{
    return last_hit.of == (const struct fault_kio *)kio ? last_hit.text : NULL;
}

/* The same for calls that only an errno can hit: it, negative, or 0. */
static int
meet_errno(struct fault_kio *fault, enum call_kind kind)
{
    struct rule rule;

    if (!fault_meet(fault, kind, NULL, &rule) || rule.action != ACTION_ERRNO)
        return 0;
    return -(int)rule.value;
}

/* ---- calls ------------------------------------------------------------ */

static int
fault_open(struct kio *kio, const char *path, int flags)
{
    struct fault_kio *fault = (struct fault_kio *)kio;
    int r = meet_errno(fault, CALL_OPEN);

    if (r)
        return r;
    r = kio->below->ops->open(kio->below, path, flags);
    if (r < 0)
        return r;
    pthread_mutex_lock(&fault->lock);
    if (map_put(&fault->devs, (uint64_t)(unsigned)r, kio_dev_of_path(path)) <
        0) {
        kio->below->ops->close(kio->below, r);
        r = -ENOMEM;
    }
    pthread_mutex_unlock(&fault->lock);
    return r;
}

static int
fault_close(struct kio *kio, int fd)
{
    int r = meet_errno((struct fault_kio *)kio, CALL_CLOSE);
    int result = kio->below->ops->close(kio->below, fd);

    /* Closed all the same, as Linux does it. */
    return r ? r : result;
}

/* False: the call has no place for a status. */
static bool
set_status(const struct kio_capture *capture, void *arg, uint32_t status)
{
    const struct kio_struct *desc = capture->call.args;
    bool found = false;
    uint32_t i;

    for (i = 0; desc && arg && i < desc->n_fields; i++) {
        if (desc->fields[i].kind != KIO_FIELD_STATUS)
            continue;
        memcpy((uint8_t *)arg + desc->fields[i].offset_bytes, &status, 4);
        found = true;
    }
    return found;
}

/* An ioctl whose struct comes back only in part. */
static int
truncated_ioctl(struct kio *below, int fd, unsigned long request, void *arg,
                const struct kio_capture *before, uint64_t keep_bytes)
{
    int result = below->ops->ioctl(below, fd, request, arg);
    const struct kio_blob *blob = &before->blobs[0];

    if (before->n_blobs && keep_bytes < blob->size_bytes)
        memcpy((uint8_t *)arg + keep_bytes, blob->data + keep_bytes,
               blob->size_bytes - keep_bytes);
    return result;
}

/* Makes a part of a reply a lie. *word counts its 4-byte words, those of the
 * parts before it included. */
static void
lie(const struct rule *rule, uint8_t *data, size_t size_bytes, uint64_t *word)
{
    size_t at;

    for (at = 0; at < size_bytes; at += 4, ++*word) {
        uint64_t draw = hash_add(hash_add(rule->value, rule->seen), *word);
        uint32_t value = (uint32_t)rule->value;
        if (rule->action == ACTION_REPLY && *word != rule->word)
            continue;
        if (rule->action == ACTION_RANDOM) {
            if (draw & 0x38) /* one word in eight */
                continue;
            value = draw & 4 ? (uint32_t)(draw >> 32) : draw & 2 ? ~0u : 0;
        }
        memcpy(data + at, &value, size_bytes - at < 4 ? size_bytes - at : 4);
    }
}

/* An ioctl that comes back with something else than was answered: in the
 * struct and in what its pointers led to before the call. */
static int
lying_ioctl(struct kio *below, int fd, unsigned long request, void *arg,
            const struct kio_capture *before, const struct rule *rule)
{
    int result = below->ops->ioctl(below, fd, request, arg);
    uint64_t word = 0;
    uint32_t i;

    for (i = 0; i < before->n_blobs; i++)
        lie(rule, (uint8_t *)(uintptr_t)before->blobs[i].addr,
            before->blobs[i].size_bytes, &word);
    return result;
}

static int
fault_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct fault_kio *fault = (struct fault_kio *)kio;
    struct kio_capture capture;
    struct rule rule;
    uint64_t *dev;
    enum kio_dev of = KIO_DEV_OTHER;
    int result;

    pthread_mutex_lock(&fault->lock);
    dev = map_get(&fault->devs, (uint64_t)(unsigned)fd);
    if (dev)
        of = (enum kio_dev) * dev;
    pthread_mutex_unlock(&fault->lock);
    kio_capture_init(&capture);
    if (kio_capture_call(&capture, of, kio->branch, request, arg, NULL, NULL) !=
        BELL_OK) {
        result = -ENOMEM;
    } else if (!fault_meet(fault, CALL_IOCTL, &capture, &rule)) {
        result = kio->below->ops->ioctl(kio->below, fd, request, arg);
    } else if (rule.action == ACTION_ERRNO) {
        result = -(int)rule.value;
    } else if (rule.action == ACTION_STATUS) {
        result = set_status(&capture, arg, (uint32_t)rule.value)
                     ? 0
                     : kio->below->ops->ioctl(kio->below, fd, request, arg);
    } else if (rule.action == ACTION_REPLY || rule.action == ACTION_RANDOM) {
        result = lying_ioctl(kio->below, fd, request, arg, &capture, &rule);
    } else {
        result =
            truncated_ioctl(kio->below, fd, request, arg, &capture, rule.value);
    }
    kio_capture_fini(&capture);
    return result;
}

static int
fault_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
           int fd, uint64_t offset)
{
    int r = meet_errno((struct fault_kio *)kio, CALL_MMAP);

    return r ? r
             : kio->below->ops->mmap(kio->below, addr, size_bytes, prot, flags,
                                     fd, offset);
}

static int
fault_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    int r = meet_errno((struct fault_kio *)kio, CALL_MUNMAP);
    int result = kio->below->ops->munmap(kio->below, addr, size_bytes);

    return r ? r : result;
}

static int
fault_poll(struct kio *kio, int fd, short events, int timeout_ms,
           short *out_revents)
{
    int r = meet_errno((struct fault_kio *)kio, CALL_POLL);

    return r ? r
             : kio->below->ops->poll(kio->below, fd, events, timeout_ms,
                                     out_revents);
}

static int
fault_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    struct rule rule;
    bool hit = fault_meet((struct fault_kio *)kio, CALL_READ, NULL, &rule);
    uint64_t word = 0;
    int n;

    if (hit && rule.action == ACTION_ERRNO)
        return -(int)rule.value;
    n = kio->below->ops->read_file(kio->below, path, buf, cap);
    if (hit && rule.action == ACTION_TRUNCATE && n > (int)rule.value)
        n = (int)rule.value;
    if (hit && n > 0 &&
        (rule.action == ACTION_REPLY || rule.action == ACTION_RANDOM))
        lie(&rule, buf, (size_t)n, &word);
    return n;
}

/* Makes no call of the plan's: nothing is opened. */
static int
fault_may_open(struct kio *kio, const char *path)
{
    struct kio *below = kio->below;

    return below->ops->may_open ? below->ops->may_open(below, path) : 0;
}

static void
fault_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    kio->below->ops->doorbell(kio->below, bell);
}

static int
fault_told(struct kio *kio, const struct kio_told *told)
{
    return kio->below->ops->told(kio->below, told);
}

/* ---- life ------------------------------------------------------------- */

static void
fault_destroy(struct kio *kio)
{
    struct fault_kio *fault = (struct fault_kio *)kio;

    pthread_mutex_destroy(&fault->lock);
    map_fini(&fault->devs);
    host_free(fault);
}

#define FAULT_CALLS                                                            \
    .name = "fault", .destroy = fault_destroy, .open = fault_open,             \
    .close = fault_close, .ioctl = fault_ioctl, .mmap = fault_mmap,            \
    .munmap = fault_munmap, .poll = fault_poll, .read_file = fault_read_file,  \
    .may_open = fault_may_open, .explain = fault_explain

/* Two tables, so that doorbells cost nothing where nobody below looks. */
static const struct kio_ops fault_ops = {FAULT_CALLS};
static const struct kio_ops fault_watching_ops = {
    FAULT_CALLS, .doorbell = fault_doorbell, .told = fault_told};

bell_status
kio_fault_create(struct kio *below, const char *plan, struct kio **out_kio)
{
    struct fault_kio *fault = host_calloc(1, sizeof(*fault));
    bell_status status;

    assert(below && plan);
    if (!fault)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a fault plan");
    status = fault_parse_plan(plan, fault->rules, &fault->n_rules);
    if (status != BELL_OK) {
        host_free(fault);
        return status;
    }
    fault->kio = (struct kio){
        .ops = below->ops->doorbell ? &fault_watching_ops : &fault_ops,
        .below = below,
        .branch = below->branch,
    };
    pthread_mutex_init(&fault->lock, NULL);
    map_init(&fault->devs);
    *out_kio = &fault->kio;
    return BELL_OK;
}

bell_status
kio_fault_set(struct kio *kio, const char *plan)
{
    struct fault_kio *fault = (struct fault_kio *)kio;
    struct rule rules[RULES_MAX];
    uint32_t n_rules;

    BELL_TRY(fault_parse_plan(plan, rules, &n_rules));
    pthread_mutex_lock(&fault->lock);
    memcpy(fault->rules, rules, n_rules * sizeof(rules[0]));
    fault->n_rules = n_rules;
    fault->n_hits = 0;
    pthread_mutex_unlock(&fault->lock);
    return BELL_OK;
}

uint64_t
kio_fault_hits(const struct kio *kio)
{
    return ((const struct fault_kio *)kio)->n_hits;
}
