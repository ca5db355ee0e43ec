/* Recording calls to a cassette while passing them on. */
#include "ioctl/kio_record.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "base/thread.h"
#include "ioctl/amd_track.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/nv_track.h"

/* Reads up to this size are kept at once. */
#define KEPT_BYTES         ((uint64_t)16 << 20)
#define NODES_MAX          256u /* of KFD */
#define WATCH_MAX          64
#define WATCH_REGION_BYTES 4096 /* of a signal region that is looked at */

/* Mappings without a wish lie from somewhere in here on: what replays them
 * wants the same addresses, and no process has libraries, heaps or stacks
 * there. src: Linux 6.12, arch_pick_mmap_layout; compiler-rt, asan_mapping.h,
 * asan_allocator.h */
#define BAND_START 0x200000000000ull
#define BAND_BYTES 0x100000000000ull
#define PAGE_BYTES 4096u

/* Memory that the device writes, and how it looked last. */
struct watch {
    const volatile void *cpu;
    uint64_t va;
    uint32_t size_bytes;
    uint8_t last[WATCH_REGION_BYTES];
};

struct record_kio {
    struct kio kio;
    pthread_mutex_t lock;      /* of all below */
    struct cas_writer *writer; /* NULL once finished */
    struct map devs;           /* fd -> enum kio_dev */
    struct watch *watches;     /* owned: WATCH_MAX of them */
    uint32_t n_watches;
    uint64_t next_mapping; /* the address that is wished for it */
    struct amd_track *amd; /* owned; NULL: doorbells are told */
    struct nv_track *nv;   /* the same */
    bool has_opened;       /* a device node: there is something to record */
    bool failed;
    struct bell_error error; /* the first failure to record */
};

/* ---- writing ---------------------------------------------------------- */

/* Keeps the first failure; recording goes on so that the program does. */
static void
note_failure(struct record_kio *rec)
{
    if (!rec->failed)
        rec->error = *bell_error_last();
    rec->failed = true;
}

static void
record_write_locked(struct record_kio *rec, struct cas_record *record)
{
    record->pid = (uint32_t)getpid();
    record->tid = (uint32_t)syscall(SYS_gettid);
    record->time_ns = time_now_ns();
    if (rec->writer && cas_write(rec->writer, record) != BELL_OK)
        note_failure(rec);
}

static void
copy_volatile(uint8_t *dst, const volatile void *src, uint32_t n)
{
    const volatile uint8_t *p = src;
    uint32_t i = 0;

    /* Words where they are aligned: device memory is read once each. */
    if (((uintptr_t)src & 7) == 0) {
        for (; i + 8 <= n; i += 8) {
            uint64_t word = *(const volatile uint64_t *)(p + i);
            memcpy(dst + i, &word, 8);
        }
    }
    for (; i < n; i++)
        dst[i] = p[i];
}

/* Writes down what the device has changed since the last look. */
static void
look_locked(struct record_kio *rec)
{
    uint8_t now[WATCH_REGION_BYTES];
    uint32_t i;

    for (i = 0; i < rec->n_watches; i++) {
        struct watch *w = &rec->watches[i];
        struct cas_blob blob = {.role = CAS_MEMORY};
        struct cas_record record = {
            .kind = CAS_UPDATE, .fd = -1, .n_blobs = 1, .blobs = &blob};
        copy_volatile(now, w->cpu, w->size_bytes);
        if (memcmp(now, w->last, w->size_bytes) == 0)
            continue;
        memcpy(w->last, now, w->size_bytes);
        blob.addr = w->va;
        blob.cpu = (uintptr_t)w->cpu;
        blob.size_bytes = w->size_bytes;
        blob.data = w->last;
        record_write_locked(rec, &record);
    }
}

/* What a queue of a program that tells no doorbells has got, in as many records
 * as it takes. */
static void
write_sample(void *user, uint32_t queue_id, const struct kio_region *regions,
             uint32_t n_regions)
{
    struct cas_blob blobs[64];
    uint32_t i, n;

    for (i = 0; i < n_regions; i += n) {
        struct cas_record record = {
            .kind = CAS_SAMPLE, .fd = -1, .args = {queue_id}, .blobs = blobs};
        for (n = 0; n < ARRAY_LEN(blobs) && i + n < n_regions; n++) {
            const struct kio_region *r = &regions[i + n];
            blobs[n] = cas_region_blob(r, (const uint8_t *)(uintptr_t)r->cpu);
        }
        record.n_blobs = n;
        record_write_locked(user, &record);
    }
}

static void
sample_locked(struct record_kio *rec)
{
    if (rec->amd)
        amd_track_sample(rec->amd, write_sample, rec);
    if (rec->nv)
        nv_track_sample(rec->nv, write_sample, rec);
}

static void
write_record(struct record_kio *rec, struct cas_record *record)
{
    pthread_mutex_lock(&rec->lock);
    look_locked(rec);
    sample_locked(rec);
    record_write_locked(rec, record);
    pthread_mutex_unlock(&rec->lock);
}

static enum kio_dev
record_dev_of(struct record_kio *rec, int fd)
{
    uint64_t *dev;
    enum kio_dev result;

    pthread_mutex_lock(&rec->lock);
    dev = map_get(&rec->devs, (uint64_t)(unsigned)fd);
    result = dev ? (enum kio_dev) * dev : KIO_DEV_OTHER;
    pthread_mutex_unlock(&rec->lock);
    return result;
}

/* ---- calls ------------------------------------------------------------ */

/* KFD's nodes, as files that were read. */
static void
write_nodes(struct record_kio *rec)
{
    struct kio *below = rec->kio.below;
    char path[96], text[4096];
    uint32_t node;
    int n;

    for (node = 0; node < NODES_MAX; node++) {
        struct cas_blob blobs[2] = {
            {.role = CAS_PATH, .data = (const uint8_t *)path},
            {.role = CAS_CONTENTS, .data = (const uint8_t *)text}};
        struct cas_record record = {
            .kind = CAS_READ, .fd = -1, .n_blobs = 2, .blobs = blobs};

        amd_track_node_path(node, path, sizeof(path));
        n = below->ops->read_file(below, path, text, sizeof(text));
        if (n < 0)
            return;
        record.result = n;
        blobs[0].size_bytes = (uint32_t)strlen(path);
        blobs[1].size_bytes = (uint32_t)n;
        write_record(rec, &record);
    }
}

static int
record_open(struct kio *kio, const char *path, int flags)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_blob blob = {.role = CAS_PATH,
                            .size_bytes = (uint32_t)strlen(path),
                            .data = (const uint8_t *)path};
    struct cas_record record = {.kind = CAS_OPEN,
                                .dev = kio_dev_of_path(path),
                                .args = {(uint64_t)flags},
                                .n_blobs = 1,
                                .blobs = &blob};
    int fd = kio->below->ops->open(kio->below, path, flags);

    record.result = record.fd = fd;
    write_record(rec, &record);
    if (fd >= 0 && rec->amd && record.dev == KIO_DEV_KFD)
        write_nodes(rec);
    if (fd >= 0) {
        pthread_mutex_lock(&rec->lock);
        rec->has_opened = true;
        if (rec->writer && cas_writer_name(rec->writer) != BELL_OK)
            note_failure(rec);
        if (map_put(&rec->devs, (uint64_t)(unsigned)fd, record.dev) < 0) {
            (void)bell_fail(BELL_E_NO_MEMORY, "out of memory recording");
            note_failure(rec);
        }
        pthread_mutex_unlock(&rec->lock);
    }
    return fd;
}

/* A refusal is an opening that failed, marked by O_PATH; what may be opened
 * leaves no record. */
static int
record_may_open(struct kio *kio, const char *path)
{
    struct kio *below = kio->below;
    int result = below->ops->may_open ? below->ops->may_open(below, path) : 0;
    struct cas_blob blob = {.role = CAS_PATH,
                            .size_bytes = (uint32_t)strlen(path),
                            .data = (const uint8_t *)path};
    struct cas_record record = {.kind = CAS_OPEN,
                                .dev = kio_dev_of_path(path),
                                .result = result,
                                .fd = result,
                                .args = {O_RDWR | O_PATH},
                                .n_blobs = 1,
                                .blobs = &blob};

    if (result < 0)
        write_record((struct record_kio *)kio, &record);
    return result;
}

static int
record_close(struct kio *kio, int fd)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_record record = {
        .kind = CAS_CLOSE, .fd = fd, .dev = record_dev_of(rec, fd)};

    /* Written first: the number may be given out again at once. */
    write_record(rec, &record);
    if (rec->nv) {
        pthread_mutex_lock(&rec->lock);
        nv_track_close(rec->nv, fd);
        pthread_mutex_unlock(&rec->lock);
    }
    return kio->below->ops->close(kio->below, fd);
}

static bool
is_of_nvidia(uint32_t dev)
{
    return dev == KIO_DEV_NV_CTL || dev == KIO_DEV_NV_GPU ||
           dev == KIO_DEV_NV_UVM;
}

static int
record_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_blob blobs[2 * KIO_CAPTURE_BLOBS];
    struct cas_record record = {.kind = CAS_IOCTL,
                                .fd = fd,
                                .dev = record_dev_of(rec, fd),
                                .args = {request},
                                .blobs = blobs};
    struct kio_capture in, out;
    bool failed;

    kio_capture_init(&in);
    kio_capture_init(&out);
    failed = kio_capture_call(&in, (enum kio_dev)record.dev, kio->branch,
                              request, arg, NULL, NULL) != BELL_OK;
    record.result = kio->below->ops->ioctl(kio->below, fd, request, arg);
    failed = failed || kio_capture_again(&in, &out, NULL, NULL) != BELL_OK;
    record.n_blobs = cas_argument_blobs(&in, &out, blobs);
    write_record(rec, &record);
    pthread_mutex_lock(&rec->lock);
    if (failed)
        note_failure(rec);
    else if (rec->amd && record.result >= 0 && record.dev == KIO_DEV_KFD)
        amd_track_ioctl(rec->amd, &out);
    else if (rec->nv && record.result >= 0 && is_of_nvidia(record.dev))
        nv_track_ioctl(rec->nv, &out);
    pthread_mutex_unlock(&rec->lock);
    kio_capture_fini(&in);
    kio_capture_fini(&out);
    return (int)record.result;
}

static void
forget_watches_locked(struct record_kio *rec, uintptr_t addr, size_t size_bytes)
{
    uint32_t i = 0;

    while (i < rec->n_watches) {
        uintptr_t cpu = (uintptr_t)rec->watches[i].cpu;
        if (cpu < addr + size_bytes && addr < cpu + rec->watches[i].size_bytes)
            rec->watches[i] = rec->watches[--rec->n_watches];
        else
            i++;
    }
}

/* A wish for who has none. Where it cannot be met, the system chooses. */
static void *
wish_address(struct record_kio *rec, size_t size_bytes)
{
    uint64_t at;

    pthread_mutex_lock(&rec->lock);
    at = rec->next_mapping;
    rec->next_mapping += align_up(size_bytes, PAGE_BYTES);
    pthread_mutex_unlock(&rec->lock);
    return (void *)(uintptr_t)at;
}

static int
record_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot,
            int flags, int fd, uint64_t offset)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_record record = {
        .kind = CAS_MMAP,
        .fd = fd,
        .dev = record_dev_of(rec, fd),
        .args = {(uintptr_t)*addr, size_bytes,
                 (uint64_t)(unsigned)prot << 32 | (unsigned)flags, offset},
    };
    int result;

    if (flags & MAP_FIXED) { /* what was mapped there goes */
        pthread_mutex_lock(&rec->lock);
        look_locked(rec);
        forget_watches_locked(rec, (uintptr_t)*addr, size_bytes);
        if (rec->nv) {
            sample_locked(rec);
            nv_track_munmap(rec->nv, *addr, size_bytes);
        }
        pthread_mutex_unlock(&rec->lock);
    } else if (!*addr) {
        *addr = wish_address(rec, size_bytes);
    }
    result = kio->below->ops->mmap(kio->below, addr, size_bytes, prot, flags,
                                   fd, offset);
    record.result = result < 0 ? result : (int64_t)(uintptr_t)*addr;
    write_record(rec, &record);
    if (rec->nv && result >= 0 && prot & PROT_READ) {
        pthread_mutex_lock(&rec->lock);
        nv_track_mmap(rec->nv, fd, *addr, size_bytes);
        pthread_mutex_unlock(&rec->lock);
    }
    return result;
}

static int
record_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_record record = {
        .kind = CAS_MUNMAP, .fd = -1, .args = {(uintptr_t)addr, size_bytes}};

    pthread_mutex_lock(&rec->lock);
    look_locked(rec);
    forget_watches_locked(rec, (uintptr_t)addr, size_bytes);
    record.result = kio->below->ops->munmap(kio->below, addr, size_bytes);
    record_write_locked(rec, &record);
    pthread_mutex_unlock(&rec->lock);
    return (int)record.result;
}

static int
record_poll(struct kio *kio, int fd, short events, int timeout_ms,
            short *out_revents)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_record record = {
        .kind = CAS_POLL,
        .fd = fd,
        .dev = record_dev_of(rec, fd),
        .args = {(unsigned short)events, (uint64_t)(unsigned)timeout_ms}};
    int result =
        kio->below->ops->poll(kio->below, fd, events, timeout_ms, out_revents);

    record.result = result;
    record.args[2] = result >= 0 ? (unsigned short)*out_revents : 0;
    write_record(rec, &record);
    return result;
}

static int
record_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    struct record_kio *rec = (struct record_kio *)kio;
    int n = kio->below->ops->read_file(kio->below, path, buf, cap);
    struct cas_blob blobs[2] = {
        {.role = CAS_PATH,
         .size_bytes = (uint32_t)strlen(path),
         .data = (const uint8_t *)path},
        {.role = CAS_CONTENTS,
         .size_bytes = n > 0 ? (uint32_t)n : 0,
         .data = buf},
    };
    struct cas_record record = {
        .kind = CAS_READ, .fd = -1, .result = n, .n_blobs = 2, .blobs = blobs};

    write_record(rec, &record);
    return n;
}

/* ---- doorbells -------------------------------------------------------- */

static void
watch_locked(struct record_kio *rec, const struct kio_region *region)
{
    struct watch *w;
    uint32_t i;

    assert(rec->n_watches <= WATCH_MAX);
    for (i = 0; i < rec->n_watches; i++) {
        if (rec->watches[i].cpu == region->cpu)
            return;
    }
    if (rec->n_watches == WATCH_MAX)
        return;
    w = &rec->watches[rec->n_watches++];
    w->cpu = region->cpu;
    w->va = region->va;
    w->size_bytes = region->size_bytes < WATCH_REGION_BYTES
                        ? (uint32_t)region->size_bytes
                        : WATCH_REGION_BYTES;
    copy_volatile(w->last, w->cpu, w->size_bytes);
}

/* Copies the regions into one buffer and describes them as blobs. NULL when
 * out of memory; freed with host_free. */
static uint8_t *
copy_regions(const struct kio_bell *bell, uint32_t n, struct cas_blob *blobs)
{
    size_t total = 0, at = 0;
    uint8_t *data;
    uint32_t i;

    for (i = 0; i < n; i++)
        total += bell->regions[i].size_bytes;
    data = host_alloc(total ? total : 1);
    for (i = 0; data && i < n; i++) {
        const struct kio_region *r = &bell->regions[i];
        copy_volatile(data + at, r->cpu, (uint32_t)r->size_bytes);
        blobs[i] = cas_region_blob(r, data + at);
        at += r->size_bytes;
    }
    return data;
}

static void
record_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    struct record_kio *rec = (struct record_kio *)kio;
    struct cas_record record = {
        .kind = CAS_DOORBELL,
        .fd = -1,
        .args = {(uintptr_t)bell->address, bell->value, bell->value_bytes}};
    struct cas_blob *blobs;
    uint8_t *data = NULL;
    uint32_t i, n = bell->n_regions;

    n = n < CAS_BLOBS_MAX ? n : CAS_BLOBS_MAX;
    blobs = host_calloc(n, sizeof(*blobs));
    if (blobs)
        data = copy_regions(bell, n, blobs);
    pthread_mutex_lock(&rec->lock);
    look_locked(rec);
    for (i = 0; i < n; i++) {
        if (bell->regions[i].kind == KIO_REGION_SIGNAL)
            watch_locked(rec, &bell->regions[i]);
    }
    record.n_blobs = data ? n : 0;
    record.blobs = blobs;
    record_write_locked(rec, &record);
    if (!data) {
        (void)bell_fail(BELL_E_NO_MEMORY, "out of memory recording");
        note_failure(rec);
    }
    pthread_mutex_unlock(&rec->lock);
    host_free(data);
    host_free(blobs);
    if (kio->below->ops->doorbell)
        kio->below->ops->doorbell(kio->below, bell);
}

/* ---- what drivers tell ------------------------------------------------ */

static int
record_told(struct kio *kio, const struct kio_told *told)
{
    bool is_kept =
        told->size_bytes <= KEPT_BYTES &&
        (told->kind == KIO_TOLD_READ || told->kind == KIO_TOLD_LAUNCHES);
    struct cas_blob blobs[2] = {
        {.role = CAS_TEXT,
         .size_bytes = (uint32_t)strlen(told->name),
         .data = (const uint8_t *)told->name},
        {.role = CAS_CONTENTS,
         .size_bytes = is_kept ? (uint32_t)told->size_bytes : 0,
         .data = told->data},
    };
    struct cas_record record = {
        .kind = CAS_TOLD,
        .fd = -1,
        .args = {told->va, told->size_bytes,
                 hash_bytes(told->data, told->size_bytes, 0), told->kind},
        .n_blobs = is_kept ? 2 : 1,
        .blobs = blobs};

    write_record((struct record_kio *)kio, &record);
    return kio->below->ops->told ? kio->below->ops->told(kio->below, told) : 0;
}

/* ---- life ------------------------------------------------------------- */

bell_status
kio_record_finish(struct kio *kio)
{
    struct record_kio *rec = (struct record_kio *)kio;
    bell_status status = BELL_OK;

    pthread_mutex_lock(&rec->lock);
    look_locked(rec);
    sample_locked(rec);
    if (rec->writer && !rec->has_opened)
        cas_writer_drop(rec->writer);
    else if (rec->writer && cas_writer_close(rec->writer) != BELL_OK)
        note_failure(rec);
    rec->writer = NULL;
    if (rec->failed)
        status = bell_error_set(&rec->error);
    pthread_mutex_unlock(&rec->lock);
    return status;
}

static void
record_destroy(struct kio *kio)
{
    struct record_kio *rec = (struct record_kio *)kio;
    bell_status status = kio_record_finish(kio);

    (void)status;
    map_fini(&rec->devs);
    pthread_mutex_destroy(&rec->lock);
    amd_track_destroy(rec->amd);
    nv_track_destroy(rec->nv);
    host_free(rec->watches);
    host_free(rec);
}

static const struct kio_ops record_ops = {
    .name = "record",
    .destroy = record_destroy,
    .open = record_open,
    .close = record_close,
    .ioctl = record_ioctl,
    .mmap = record_mmap,
    .munmap = record_munmap,
    .poll = record_poll,
    .read_file = record_read_file,
    .may_open = record_may_open,
    .doorbell = record_doorbell,
    .told = record_told,
};

void
kio_record_foreign(struct kio *kio)
{
    for (; kio; kio = kio->below) {
        struct record_kio *rec = (struct record_kio *)kio;

        if (kio->ops == &record_ops && !rec->amd)
            rec->amd = amd_track_create();
        if (kio->ops == &record_ops && !rec->nv)
            rec->nv = nv_track_create();
    }
}

void
kio_record_unmapped(struct kio *kio, void *addr, size_t size_bytes)
{
    struct cas_record record = {
        .kind = CAS_MUNMAP, .fd = -1, .args = {(uintptr_t)addr, size_bytes}};

    for (; kio; kio = kio->below) {
        struct record_kio *rec = (struct record_kio *)kio;

        if (kio->ops != &record_ops || !rec->nv)
            continue;
        pthread_mutex_lock(&rec->lock);
        if (nv_track_overlaps(rec->nv, addr, size_bytes)) {
            sample_locked(rec);
            nv_track_munmap(rec->nv, addr, size_bytes);
            record_write_locked(rec, &record);
        }
        pthread_mutex_unlock(&rec->lock);
    }
}

bell_status
kio_record_finish_all(struct kio *kio)
{
    bell_status status = BELL_OK;

    for (; kio; kio = kio->below) {
        if (kio->ops == &record_ops && status == BELL_OK)
            status = kio_record_finish(kio);
    }
    return status;
}

bell_status
kio_record_create(struct kio *below, const char *path, struct kio **out_kio)
{
    char identity[1200];
    struct record_kio *rec = host_calloc(1, sizeof(*rec));
    bell_status status;
    int n;

    assert(below && path);
    if (rec)
        rec->watches = host_calloc(WATCH_MAX, sizeof(*rec->watches));
    if (!rec || !rec->watches) {
        host_free(rec);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for recording");
    }
    n = snprintf(identity, sizeof(identity), "%s", CAS_TELLS);
    (void)cas_identity(NULL, below->is_simulated, identity + n,
                       sizeof(identity) - (size_t)n);
    status = cas_writer_create(path, CAS_COMPRESS, identity, &rec->writer);
    if (status != BELL_OK) {
        host_free(rec->watches);
        host_free(rec);
        return status;
    }
    rec->kio = (struct kio){
        .ops = &record_ops, .below = below, .branch = below->branch};
    pthread_mutex_init(&rec->lock, NULL);
    map_init(&rec->devs);
    rec->next_mapping = BAND_START + hash_mix(time_now_ns()) %
                                         (BAND_BYTES / PAGE_BYTES) * PAGE_BYTES;
    *out_kio = &rec->kio;
    return BELL_OK;
}
