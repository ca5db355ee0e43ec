/* Answering calls from a cassette. */
#include "ioctl/kio_replay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/nv_abi.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define WHY_BYTES 320

/* A mapping of the recording and where it lies now. */
struct moved {
    uint64_t recorded, size_bytes;
    uint8_t *now;
};

struct replay_kio {
    struct kio kio;
    pthread_mutex_t lock; /* of all below */
    struct cas_reader *reader;
    uint32_t next;      /* record that comes next */
    struct moved *maps; /* owned */
    size_t n_maps, cap_maps;
    struct map devs;     /* fd -> enum kio_dev, of what was opened last */
    char why[WHY_BYTES]; /* the first difference; "" while there is none */
    atomic_bool differs; /* `why` stays as it is; read without the lock */
    bool tells;          /* what drivers tell was recorded too */
};

/* ---- differences ------------------------------------------------------ */

static void fail(struct replay_kio *replay, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Keeps the first difference. */
static void
fail(struct replay_kio *replay, const char *fmt, ...)
{
    va_list args;
    int n;

    if (replay->why[0])
        return;
    n = snprintf(replay->why, sizeof(replay->why),
                 "call %u of the cassette: ", replay->next);
    va_start(args, fmt);
    vsnprintf(replay->why + n, sizeof(replay->why) - (size_t)n, fmt, args);
    va_end(args);
}

static void
add_field(void *user, const char *field, uint64_t a, uint64_t b)
{
    struct replay_kio *replay = user;
    size_t n = strlen(replay->why);

    snprintf(replay->why + n, sizeof(replay->why) - n,
             " %s: recorded 0x%" PRIx64 ", now 0x%" PRIx64 ";", field, a, b);
}

/* ---- records ---------------------------------------------------------- */

/* Where a recorded address lies now; NULL if it is in no mapping. */
static uint8_t *
address_now(const struct replay_kio *replay, uint64_t recorded, uint64_t n)
{
    size_t i;

    for (i = 0; i < replay->n_maps; i++) {
        const struct moved *m = &replay->maps[i];
        if (recorded >= m->recorded && n <= m->size_bytes &&
            recorded - m->recorded <= m->size_bytes - n)
            return m->now + (recorded - m->recorded);
    }
    return NULL;
}

/* Plays what the device wrote up to the next call. */
static void
apply_updates(struct replay_kio *replay)
{
    while (replay->next < cas_reader_count(replay->reader)) {
        const struct cas_record *r =
            cas_reader_get(replay->reader, replay->next);
        uint32_t i;
        if (r->kind != CAS_UPDATE && r->kind != CAS_NOTE &&
            r->kind != CAS_START && r->kind != CAS_EXIT &&
            r->kind != CAS_SAMPLE && (r->kind != CAS_TOLD || replay->tells))
            return;
        for (i = 0; r->kind == CAS_UPDATE && i < r->n_blobs; i++) {
            const struct cas_blob *b = &r->blobs[i];
            uint8_t *to = address_now(replay, b->cpu, b->size_bytes);
            if (to)
                memcpy(to, b->data, b->size_bytes);
        }
        replay->next++;
    }
}

/* Passes by recorded waits that are not made now. How often a driver asks
 * whether something has happened depends on time, and what the device wrote
 * during a wait is in place before it here. `request` is 0 for other calls than
 * ioctls. */
static void
skip_waits(struct replay_kio *replay, enum cas_kind kind, uint64_t request)
{
    while (replay->next < cas_reader_count(replay->reader)) {
        const struct cas_record *r =
            cas_reader_get(replay->reader, replay->next);

        if (!cas_is_wait(r) ||
            (r->kind == kind && (kind != CAS_IOCTL || r->args[0] == request)))
            return;
        replay->next++;
        apply_updates(replay);
    }
}

static const char *
record_name(const struct cas_record *record)
{
    return record->kind == CAS_TOLD ? cas_told_name(record->args[3])
                                    : cas_kind_name(record->kind);
}

/* The record that must be of this kind, or NULL after a difference. */
static const struct cas_record *
expect_request(struct replay_kio *replay, enum cas_kind kind, const char *what,
               uint64_t request)
{
    const struct cas_record *record;

    if (replay->why[0])
        return NULL;
    apply_updates(replay);
    skip_waits(replay, kind, request);
    if (replay->next >= cas_reader_count(replay->reader)) {
        fail(replay, "%s after the end", what);
        return NULL;
    }
    record = cas_reader_get(replay->reader, replay->next);
    if (record->kind != kind) {
        fail(replay, "recorded %s, now %s", record_name(record), what);
        return NULL;
    }
    return record;
}

static const struct cas_record *
replay_expect(struct replay_kio *replay, enum cas_kind kind, const char *what)
{
    return expect_request(replay, kind, what, 0);
}

/* Ends the serving of a record: the result, or EPROTO after a difference. */
static int
served(struct replay_kio *replay, int result)
{
    assert(replay->reader);
    if (!replay->why[0]) {
        replay->next++;
        apply_updates(replay);
    } else {
        atomic_store_explicit(&replay->differs, true, memory_order_release);
        result = -EPROTO;
    }
    pthread_mutex_unlock(&replay->lock);
    return result;
}

static void
replay_check_value(struct replay_kio *replay, const char *what,
                   uint64_t recorded, uint64_t now)
{
    if (recorded != now)
        fail(replay, "%s: recorded 0x%" PRIx64 ", now 0x%" PRIx64, what,
             recorded, now);
}

static void
check_path(struct replay_kio *replay, const struct cas_record *record,
           const char *path)
{
    const struct cas_blob *blob = cas_find(record, CAS_PATH);

    if (!blob || blob->size_bytes != strlen(path) ||
        memcmp(blob->data, path, blob->size_bytes) != 0)
        fail(replay, "path: recorded %.*s, now %s",
             blob ? (int)blob->size_bytes : 0,
             blob ? (const char *)blob->data : "", path);
}

/* ---- calls ------------------------------------------------------------ */

static int
replay_open(struct kio *kio, const char *path, int flags)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;

    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_OPEN, "open");
    if (r) {
        check_path(replay, r, path);
        replay_check_value(replay, "open flags", r->args[0], (uint64_t)flags);
        if (r->result >= 0 && map_put(&replay->devs, (uint64_t)r->result,
                                      kio_dev_of_path(path)) < 0)
            fail(replay, "out of memory");
    }
    return served(replay, r ? (int)r->result : -EPROTO);
}

/* Refusals alone were recorded. */
static int
replay_may_open(struct kio *kio, const char *path)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r = NULL;

    pthread_mutex_lock(&replay->lock);
    apply_updates(replay);
    if (!replay->why[0] && replay->next < cas_reader_count(replay->reader))
        r = cas_reader_get(replay->reader, replay->next);
    if (r && r->kind == CAS_OPEN && r->args[0] & O_PATH && r->result < 0) {
        check_path(replay, r, path);
        return served(replay, (int)r->result);
    }
    pthread_mutex_unlock(&replay->lock);
    return 0;
}

static int
replay_close(struct kio *kio, int fd)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;

    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_CLOSE, "close");
    if (r)
        replay_check_value(replay, "close of file", (uint64_t)r->fd,
                           (uint64_t)fd);
    return served(replay, r ? (int)r->result : -EPROTO);
}

/* The blob with this role and index among the arguments, or NULL. */
static const struct cas_blob *
argument(const struct cas_record *record, uint16_t role, uint32_t index)
{
    uint32_t i;

    for (i = 0; i < record->n_blobs; i++) {
        if (record->blobs[i].role == role && record->blobs[i].extra == index)
            return &record->blobs[i];
    }
    return NULL;
}

static void
check_argument(struct replay_kio *replay, const struct kio_capture *now,
               const struct cas_record *record, uint32_t index)
{
    const struct kio_blob *blob = &now->blobs[index];
    const struct cas_blob *was = argument(record, CAS_ARG_IN, index);
    const char *name = blob->name ? blob->name : now->call.name;
    size_t len = strlen(replay->why);

    assert(index < now->n_blobs);
    /* It was not followed then: its layout is known since. That it was there
     * and how long it was is the outer struct's to compare. */
    if (!was && (index > 0 || record->n_blobs == 0))
        return;
    if (!was || was->size_bytes != blob->size_bytes) {
        fail(replay, "%s: recorded %u bytes, now %u", name,
             was ? was->size_bytes : 0, blob->size_bytes);
        return;
    }
    /* The heading first, taken back when nothing differs. */
    fail(replay, "%s:", name);
    if (kio_struct_diff(blob->desc, was->data, blob->data, blob->size_bytes,
                        KIO_DIFF_REQUEST, add_field, replay) == 0)
        replay->why[len] = '\0';
}

/* Whether a pointer is one that the caller passed: what a kernel names of its
 * own where the caller may pin memory is none. */
static bool
is_passed(const struct kio_struct *desc, const struct kio_field *field,
          const uint8_t *data)
{
    static const uint8_t none[8];

    return kio_field_leads(field) &&
           (kio_pointee_of(desc, field)->select != KIO_SELECT_PINNED ||
            memcmp(data, none, sizeof(none)) != 0);
}

/* Writes the recorded answer to where the arguments lie now. Pointers in it
 * are the recording's: they keep what the caller has. */
static void
replay_answer(const struct kio_capture *now, const struct cas_record *record)
{
    uint32_t i, f;

    for (i = 0; i < now->n_blobs; i++) {
        const struct kio_blob *blob = &now->blobs[i];
        const struct cas_blob *out = argument(record, CAS_ARG_OUT, i);
        uint8_t *to = (uint8_t *)(uintptr_t)blob->addr;
        if (!out || out->size_bytes != blob->size_bytes)
            continue;
        memcpy(to, out->data, out->size_bytes);
        for (f = 0; blob->desc && f < blob->desc->n_fields; f++) {
            const struct kio_field *field = &blob->desc->fields[f];
            if (field->offset_bytes + field->size_bytes <= blob->size_bytes &&
                is_passed(blob->desc, field, blob->data + field->offset_bytes))
                memcpy(to + field->offset_bytes,
                       blob->data + field->offset_bytes, field->size_bytes);
        }
    }
}

/* The caller's layout of an argument is its file's, whatever a record says. */
static void
check_dev(struct replay_kio *replay, const struct cas_record *record, int fd)
{
    const uint64_t *dev = map_get(&replay->devs, (uint64_t)fd);
    enum kio_dev now = dev ? (enum kio_dev) * dev : KIO_DEV_OTHER;

    if (record->dev != (uint32_t)now)
        fail(replay, "ioctl on %s, now on %s",
             kio_dev_name((enum kio_dev)record->dev), kio_dev_name(now));
}

static int
replay_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;
    struct kio_capture now;
    uint32_t i;

    kio_capture_init(&now);
    pthread_mutex_lock(&replay->lock);
    r = expect_request(replay, CAS_IOCTL, "ioctl", request);
    if (r) {
        replay_check_value(replay, "ioctl on file", (uint64_t)r->fd,
                           (uint64_t)fd);
        replay_check_value(replay, "ioctl request", r->args[0], request);
        check_dev(replay, r, fd);
    }
    if (!replay->why[0]) { /* so there is a record */
        if (kio_capture_call(&now, (enum kio_dev)r->dev, kio->branch, request,
                             arg, NULL, NULL) != BELL_OK)
            fail(replay, "out of memory");
        for (i = 0; i < now.n_blobs && !replay->why[0]; i++)
            check_argument(replay, &now, r, i);
        if (!replay->why[0])
            replay_answer(&now, r);
    }
    kio_capture_fini(&now);
    return served(replay, r ? (int)r->result : -EPROTO);
}

/* Takes an interval of our addresses out of the mappings: one of them may be
 * left in two pieces. False when out of memory. */
static bool
forget_mapped(struct replay_kio *replay, const void *addr, size_t size_bytes)
{
    uintptr_t start = (uintptr_t)addr, end = start + size_bytes;
    size_t i, n = replay->n_maps;

    for (i = n; i-- > 0;) {
        struct moved m = replay->maps[i], rest = m;
        uintptr_t now = (uintptr_t)m.now, last = now + m.size_bytes;
        if (last <= start || end <= now)
            continue;
        if (host_grow((void **)&replay->maps, &replay->cap_maps, n + 1,
                      sizeof(*replay->maps)) < 0)
            return false;
        replay->maps[i] = replay->maps[--n];
        if (now < start) {
            m.size_bytes = start - now;
            replay->maps[n++] = m;
        }
        if (end < last) {
            rest.recorded += end - now;
            rest.size_bytes = last - end;
            rest.now += end - now;
            replay->maps[n++] = rest;
        }
        replay->n_maps = n;
    }
    return true;
}

/* Memory in place of a mapping, at the recorded address if that is free. */
static bool
map_memory(struct replay_kio *replay, uint64_t recorded, void *wish,
           size_t size_bytes, int flags, void **out_addr)
{
    int base = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    struct moved moved = {recorded, size_bytes, NULL};
    void *p = MAP_FAILED;

    assert(size_bytes > 0);
    if (flags & MAP_FIXED && !forget_mapped(replay, wish, size_bytes))
        return false;
    if (host_grow((void **)&replay->maps, &replay->cap_maps, replay->n_maps + 1,
                  sizeof(*replay->maps)) < 0)
        return false;
    if (flags & MAP_FIXED)
        p = mmap(wish, size_bytes, PROT_READ | PROT_WRITE, base | MAP_FIXED, -1,
                 0);
    else if (recorded)
        p = mmap((void *)(uintptr_t)recorded, size_bytes,
                 PROT_READ | PROT_WRITE, base | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED)
        p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, base, -1, 0);
    if (p == MAP_FAILED)
        return false;
    moved.now = p;
    replay->maps[replay->n_maps++] = moved;
    *out_addr = p;
    return true;
}

static int
replay_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot,
            int flags, int fd, uint64_t offset)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;
    int result = 0;

    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_MMAP, "mmap");
    if (r) {
        replay_check_value(replay, "mmap of file", (uint64_t)r->fd,
                           (uint64_t)fd);
        replay_check_value(replay, "mmap bytes", r->args[1], size_bytes);
        replay_check_value(replay, "mmap flags", r->args[2],
                           (uint64_t)(unsigned)prot << 32 | (unsigned)flags);
        replay_check_value(replay, "mmap offset", r->args[3], offset);
    }
    if (!replay->why[0]) { /* so there is a record */
        /* A failure's result is a small negative number, an address is not. */
        if (r->result < 0 && r->result > -4096)
            result = (int)r->result;
        else if (!map_memory(replay, (uint64_t)r->result, *addr, size_bytes,
                             flags, addr))
            result = -ENOMEM;
    }
    return served(replay, result);
}

static int
replay_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;

    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_MUNMAP, "munmap");
    if (r)
        replay_check_value(replay, "munmap bytes", r->args[1], size_bytes);
    if (forget_mapped(replay, addr, size_bytes))
        munmap(addr, size_bytes);
    return served(replay, r ? (int)r->result : -EPROTO);
}

static int
replay_poll(struct kio *kio, int fd, short events, int timeout_ms,
            short *out_revents)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;

    (void)timeout_ms; /* waiting is not repeated */
    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_POLL, "poll");
    if (r) {
        replay_check_value(replay, "poll of file", (uint64_t)r->fd,
                           (uint64_t)fd);
        replay_check_value(replay, "poll events", r->args[0],
                           (unsigned short)events);
        *out_revents = (short)r->args[2];
    }
    return served(replay, r ? (int)r->result : -EPROTO);
}

static int
replay_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;
    const struct cas_blob *text = NULL;
    int result = -EPROTO;

    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_READ, "read");
    if (r) {
        check_path(replay, r, path);
        text = cas_find(r, CAS_CONTENTS);
        result = (int)r->result;
    }
    if (result > 0 && !text)
        fail(replay, "read: the cassette has no contents");
    if (text && result > 0) {
        result = text->size_bytes < cap ? (int)text->size_bytes : (int)cap;
        memcpy(buf, text->data, (size_t)result);
    }
    return served(replay, result);
}

/* Compares what a submission reaches; what the device writes is not part of
 * the request. */
static void
check_regions(struct replay_kio *replay, const struct cas_record *record,
              const struct kio_bell *bell)
{
    uint32_t i, k;

    replay_check_value(replay, "regions at a doorbell", record->n_blobs,
                       bell->n_regions);
    for (i = 0; i < bell->n_regions && !replay->why[0]; i++) {
        const struct kio_region *now = &bell->regions[i];
        const struct cas_blob *was = &record->blobs[i];
        const volatile uint8_t *bytes = now->cpu;
        replay_check_value(replay, "kind of region", was->extra, now->kind);
        replay_check_value(replay, "address of region", was->addr, now->va);
        replay_check_value(replay, "bytes of region", was->size_bytes,
                           now->size_bytes);
        if (now->kind == KIO_REGION_SIGNAL || now->kind == KIO_REGION_CONTROL)
            continue;
        for (k = 0; k < was->size_bytes && !replay->why[0]; k++) {
            if (bytes[k] != was->data[k])
                fail(replay,
                     "region %u (kind %u) at 0x%" PRIx64
                     " + 0x%x: recorded 0x%02x, now 0x%02x",
                     i, now->kind, now->va, k, was->data[k], bytes[k]);
        }
    }
}

static void
replay_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;

    pthread_mutex_lock(&replay->lock);
    r = replay_expect(replay, CAS_DOORBELL, "doorbell");
    if (r) {
        replay_check_value(replay, "doorbell value", r->args[1], bell->value);
        check_regions(replay, r, bell);
    }
    (void)served(replay, 0);
}

/* ---- what drivers tell ------------------------------------------------ */

static void
check_name(struct replay_kio *replay, const struct cas_record *record,
           const char *name)
{
    const struct cas_blob *was = cas_find(record, CAS_TEXT);
    uint32_t n = was ? was->size_bytes : 0;

    if (n != strlen(name) || (n && memcmp(was->data, name, n) != 0))
        fail(replay, "%s: recorded '%.*s', now '%s'",
             cas_told_name(record->args[3]), (int)n,
             was ? (const char *)was->data : "", name);
}

/* The first word that differs, where the recording has them. */
static void
check_words(struct replay_kio *replay, const struct kio_told *told,
            const struct cas_blob *was)
{
    uint64_t i, a, b;

    for (i = 0; told->data && was && i + 8 <= told->size_bytes; i += 8) {
        memcpy(&a, was->data + i, 8);
        memcpy(&b, (const uint8_t *)told->data + i, 8);
        if (a != b) {
            fail(replay,
                 "launches of '%s', word %" PRIu64 ": recorded 0x%" PRIx64
                 ", now 0x%" PRIx64,
                 told->name, i / 8, a, b);
            return;
        }
    }
}

static void
check_told(struct replay_kio *replay, const struct cas_record *record,
           const struct kio_told *told)
{
    const struct cas_blob *was = cas_find(record, CAS_CONTENTS);
    const char *what = cas_told_name(told->kind);
    uint64_t hash = told->hash;

    if (record->args[3] != told->kind) {
        fail(replay, "recorded %s, now %s", record_name(record), what);
        return;
    }
    check_name(replay, record, told->name);
    if (record->args[0] != told->va || record->args[1] != told->size_bytes)
        fail(replay,
             "%s: recorded 0x%" PRIx64 " bytes at 0x%" PRIx64 ", now 0x%" PRIx64
             " at 0x%" PRIx64,
             what, record->args[1], record->args[0], told->size_bytes,
             told->va);
    if (was && was->size_bytes != told->size_bytes)
        fail(replay, "%s: the cassette has %u of %" PRIu64 " bytes", what,
             was->size_bytes, told->size_bytes);
    if (replay->why[0])
        return;
    if (told->kind == KIO_TOLD_READ) {
        if (was && told->data)
            memcpy(told->data, was->data, was->size_bytes);
        else if (told->data)
            fail(replay, "%" PRIu64 " bytes are read, which are not in it",
                 told->size_bytes);
        return;
    }
    if (told->kind == KIO_TOLD_LAUNCHES)
        check_words(replay, told, was);
    if (told->data)
        hash = hash_bytes(told->data, told->size_bytes, 0);
    if (hash != record->args[2])
        fail(replay, "%s '%s' of %" PRIu64 " bytes: others were recorded", what,
             told->name, told->size_bytes);
}

static int
replay_told(struct kio *kio, const struct kio_told *told)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    const struct cas_record *r;

    pthread_mutex_lock(&replay->lock);
    if (!replay->tells && told->kind != KIO_TOLD_READ && !replay->why[0]) {
        pthread_mutex_unlock(&replay->lock);
        return 0;
    }
    if (!replay->tells)
        fail(replay, "%" PRIu64 " bytes are read; no results are in it",
             told->size_bytes);
    r = replay_expect(replay, CAS_TOLD, cas_told_name(told->kind));
    if (r)
        check_told(replay, r, told);
    return served(replay, 0);
}

/* ---- life ------------------------------------------------------------- */

/* Why a call failed, and why all later ones will. */
static const char *
replay_broken(struct kio *kio)
{
    struct replay_kio *replay = (struct replay_kio *)kio;

    return atomic_load_explicit(&replay->differs, memory_order_acquire)
               ? replay->why
               : NULL;
}

static void
replay_destroy(struct kio *kio)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    size_t i;

    for (i = 0; i < replay->n_maps; i++)
        munmap(replay->maps[i].now, replay->maps[i].size_bytes);
    host_free(replay->maps);
    map_fini(&replay->devs);
    cas_reader_close(replay->reader);
    pthread_mutex_destroy(&replay->lock);
    host_free(replay);
}

static const struct kio_ops replay_ops = {
    .name = "replay",
    .destroy = replay_destroy,
    .open = replay_open,
    .close = replay_close,
    .ioctl = replay_ioctl,
    .mmap = replay_mmap,
    .munmap = replay_munmap,
    .poll = replay_poll,
    .read_file = replay_read_file,
    .may_open = replay_may_open,
    .doorbell = replay_doorbell,
    .told = replay_told,
    .explain = replay_broken,
    .broken = replay_broken,
};

bell_status
kio_replay_create(const char *path, struct kio **out_kio)
{
    struct replay_kio *replay = host_calloc(1, sizeof(*replay));
    bell_status status;

    if (!replay)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for replaying");
    status = cas_reader_open(path, &replay->reader);
    if (status != BELL_OK) {
        host_free(replay);
        return status;
    }
    replay->kio = (struct kio){.ops = &replay_ops, .branch = NV_BRANCH_NEWEST};
    replay->kio.is_simulated =
        cas_identity_is_simulated(cas_reader_identity(replay->reader));
    replay->tells = cas_identity_tells(cas_reader_identity(replay->reader));
    map_init(&replay->devs);
    pthread_mutex_init(&replay->lock, NULL);
    *out_kio = &replay->kio;
    return BELL_OK;
}

bell_status
kio_replay_finish(struct kio *kio)
{
    struct replay_kio *replay = (struct replay_kio *)kio;
    uint32_t n = cas_reader_count(replay->reader);

    apply_updates(replay);
    skip_waits(replay, CAS_KIND_COUNT, 0);
    if (replay->why[0])
        return bell_fail(BELL_E_INTERNAL, "replay: %s", replay->why);
    if (replay->next < n)
        return bell_fail(
            BELL_E_INTERNAL,
            "replay: %u of the recorded calls were not made; the next was %s",
            n - replay->next,
            cas_kind_name(cas_reader_get(replay->reader, replay->next)->kind));
    return BELL_OK;
}
