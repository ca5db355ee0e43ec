/* One life of a device on a simulated card, as the kernel and the card see it:
 * every call with its argument, and at each doorbell the words that it submits.
 * The text is the same from run to run: mappings lie where this program wants
 * them, and values that depend on when a thread looks are left out.
 *
 * usage: life DEVICE            all of it
 *        life --brief DEVICE    a number for each argument and submission
 *        life --fail ERRNO DEVICE
 *             the n-th call fails with that number, for every n: what the
 *             driver says, and a number for what it asks of the kernel then
 *        life --starve DEVICE   the n-th allocation of memory fails
 *        life --lie DEVICE      the n-th word of an answer is another
 *        life --cassette DEVICE
 *             what a recorder writes of it, the calls that are made when that
 *             is played, and what becomes of it when memory ends
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "hcq/hcq.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_play.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/kio_interface.h"
#include "ioctl/qcom_uapi.h"
#include "tests/cts/programs.h"

#define HERE       0x6e0000000000ull /* where mappings begin */
#define PINNED     0x6d0000000000ull
#define DIGITS     "0123456789abcdef"
#define ALIGN      0x200000u
#define LINE_BYTES 8192
#define CALLS_MAX  2000u
#define LONG_NS    (100ull * 1000000000)

/* ---- what is written ----------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    bool is_brief, is_always_brief, is_quiet, is_short, is_lying, is_adreno;
    char last[LINE_BYTES]; /* again and again the same is one line */
    uint64_t sum;          /* of the lines since the call that failed */
    unsigned n_calls, fail_at;
    int error;
    unsigned lie_at, lie_word, n_words; /* of which answer, how many it has */
    char failed[64];                    /* the name of the call */
    uint64_t next;                      /* mapping */
    unsigned n_lives;
    uint64_t starve_at, n_allocs, mark; /* which allocation fails */
} life = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where Linux and the sanitizers have programs, heaps and stacks, by an
 * address's first digits. */
static bool
is_ours(char first, char second)
{
    return first == '7' || (first == '5' && strchr("56", second)) ||
           (first == '6' && strchr("0123", second));
}

/* A star for each address of this process's own. */
static void
mask(char *text)
{
    char *at = text, *to = text;

    while (*at) {
        if (strncmp(at, "0x", 2) == 0 && strspn(at + 2, DIGITS) == 12 &&
            is_ours(at[2], at[3])) {
            *to++ = '*';
            at += 14;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

static void
put_line(const char *text)
{
    if (strcmp(text, life.last) == 0 && text[0] != ' ')
        return;
    snprintf(life.last, sizeof(life.last), "%s", text);
    if (life.failed[0])
        life.sum = hash_bytes(text, strlen(text), life.sum);
    if (!life.is_quiet)
        puts(text);
}

__attribute__((format(printf, 1, 2))) static void
say(const char *fmt, ...)
{
    char text[LINE_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    pthread_mutex_lock(&life.lock);
    put_line(text);
    pthread_mutex_unlock(&life.lock);
}

/* Whether the next call is the one that fails. */
static bool
fails_now(const char *name)
{
    if (++life.n_calls != life.fail_at)
        return false;
    snprintf(life.failed, sizeof(life.failed), "%s", name);
    life.sum = 0;
    return true;
}

/* A sum of all bytes but addresses of our own. */
static uint64_t
sum_of(const uint8_t *data, size_t size_bytes)
{
    uint64_t sum = size_bytes, word;
    size_t i;

    for (i = 0; i < size_bytes; i += 8) {
        word = 0;
        memcpy(&word, data + i, size_bytes - i < 8 ? size_bytes - i : 8);
        if (word >> 48 || !is_ours(DIGITS[word >> 44], DIGITS[word >> 40 & 15]))
            sum = hash_mix(sum ^ word) + i;
    }
    return sum;
}

/* Adreno's without what lies between the fields of structs: it may be
 * anything. */
static uint64_t
sum_of_blob(const struct kio_blob *blob)
{
    static uint8_t copy[1 << 16];
    const struct kio_struct *desc = blob->desc;
    uint32_t at, i;

    if (!life.is_adreno || !desc || blob->size_bytes > sizeof(copy))
        return sum_of(blob->data, blob->size_bytes);
    memset(copy, 0, blob->size_bytes);
    for (at = 0; at < blob->size_bytes; at += desc->size_bytes) {
        for (i = 0; i < desc->n_fields; i++) {
            const struct kio_field *f = &desc->fields[i];

            if (at + f->offset_bytes + f->size_bytes <= blob->size_bytes)
                memcpy(copy + at + f->offset_bytes,
                       blob->data + at + f->offset_bytes, f->size_bytes);
        }
    }
    return sum_of(copy, blob->size_bytes);
}

/* What depends on time: how often it is asked, or until when it waits. */
static bool
is_left_out(const char *name)
{
    return strstr(name, "WAIT_EVENTS") || strstr(name, "CLOCK_COUNTERS") ||
           strstr(name, "GET_ENGINE_EXCEPTION") ||
           strstr(name, "SUBMITQUEUE_QUERY") || strstr(name, "WAIT_FENCE");
}

/* What the call's argument leads to last: the command, the class. */
static const char *
name_of(const struct kio_capture *capture)
{
    uint32_t i = capture->n_blobs;

    while (i > 0 && !capture->blobs[i - 1].name)
        i--;
    return i ? capture->blobs[i - 1].name : capture->call.name;
}

/* The same of KGSL's: faults are asked for while one waits, and who submits for
 * another waits for what is recorded, for a moment. */
static bool
is_passed_over(const struct kio_capture *capture)
{
    const char *name = name_of(capture);
    const struct kio_blob *args = &capture->blobs[0];

    if (strcmp(name, "IOCTL_KGSL_DEVICE_GETPROPERTY") == 0)
        return kio_struct_get(args->desc, args->data, args->size_bytes,
                              "type") == KGSL_PROP_GPU_RESET_STAT;
    if (strcmp(name, "IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID") == 0)
        return kio_struct_get(args->desc, args->data, args->size_bytes,
                              "timeout") < 1000;
    return is_left_out(name);
}

static void
put_ioctl(int fd, const struct kio_capture *capture)
{
    char text[LINE_BYTES], *at = text;
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < capture->n_blobs; i++)
        sum = hash_mix(sum ^ sum_of_blob(&capture->blobs[i]));
    at += sprintf(at, "ioctl %d ", fd);
    if (life.is_brief)
        at += snprintf(at, LINE_BYTES / 2, "%s", name_of(capture));
    else
        at += kio_capture_format(capture, at, LINE_BYTES / 2);
    sprintf(at, " #%08" PRIx32, (uint32_t)sum);
    mask(text);
    put_line(text);
}

static const char *const region_names[] = {"data",       "ring",    "push",
                                           "descriptor", "control", "signal"};

/* Whether the driver alone writes it. */
static bool
is_sent(const struct kio_region *r)
{
    return r->kind != KIO_REGION_CONTROL && r->kind != KIO_REGION_SIGNAL;
}

static void
put_region(const struct kio_region *r)
{
    const volatile uint32_t *words = r->cpu;
    uint64_t n_dw = r->size_bytes / 4, i, k;
    char text[128], *at;

    snprintf(text, sizeof(text), "  %s at 0x%" PRIx64, region_names[r->kind],
             r->va);
    put_line(text);
    for (i = 0; i < n_dw; i += 8) {
        at = text + sprintf(text, "    %03" PRIx64 ":", i * 4);
        for (k = i; k < n_dw && k < i + 8; k++)
            at += sprintf(at, " %08x", words[k]);
        put_line(text);
    }
}

/* Where each region is, how long and with what in it. */
static uint64_t
sum_regions(const struct kio_bell *bell)
{
    uint64_t sum = 0, k;
    uint32_t i;

    for (i = 0; i < bell->n_regions; i++) {
        const struct kio_region *r = &bell->regions[i];
        const volatile uint32_t *words = r->cpu;

        if (!is_sent(r))
            continue;
        sum = hash_mix(sum ^ r->va) + r->size_bytes;
        for (k = 0; k < r->size_bytes / 4; k++)
            sum = hash_mix(sum ^ words[k]);
    }
    return sum;
}

/* The simulated kernel's allocations are not the driver's. */
static void
enter_kernel(void)
{
    if (!life.starve_at)
        return;
    life.n_allocs += host_alloc_count() - life.mark;
    host_fail_after(0, 0);
}

static void
leave_kernel(void)
{
    if (!life.starve_at)
        return;
    life.mark = host_alloc_count();
    if (life.n_allocs < life.starve_at)
        host_fail_after(life.starve_at - life.n_allocs, 1);
}

/* ---- lies ---------------------------------------------------------------- */

/* Whether the answer of this call is the one, and this word of it. */
static bool
lies_now(void)
{
    return life.is_lying && life.n_calls == life.lie_at &&
           life.n_words++ == life.lie_word;
}

static uint64_t
lie(uint64_t value, const char *name)
{
    snprintf(life.failed, sizeof(life.failed), "%s", name);
    life.sum = 0;
    return value * 2 + 1;
}

/* Lies about one of the words that the kernel has changed. */
static void
lie_in_call(const struct kio_capture *now, const uint32_t *before)
{
    uint32_t i, k, value;

    for (i = 0; i < now->n_blobs; i++) {
        const struct kio_blob *blob = &now->blobs[i];
        for (k = 0; k < blob->size_bytes / 4; k++, before++) {
            memcpy(&value, blob->data + 4 * k, 4);
            if (value == *before || !lies_now())
                continue;
            value = (uint32_t)lie(value, name_of(now));
            memcpy(blob->data + 4 * k, &value, 4);
        }
    }
}

static void
copy_words(const struct kio_capture *capture, uint32_t *words, size_t cap)
{
    uint32_t i;

    for (i = 0; i < capture->n_blobs; i++) {
        const struct kio_blob *blob = &capture->blobs[i];
        if (blob->size_bytes / 4 > cap)
            abort();
        memcpy(words, blob->data, blob->size_bytes / 4 * 4);
        words += blob->size_bytes / 4;
        cap -= blob->size_bytes / 4;
    }
}

/* Lies about one of the numbers in a file. Returns its size. */
static int
lie_in_text(const char *path, char *text, int size, size_t cap)
{
    char before[8192], *end;
    int at = 0;

    if (size < 0 || (size_t)size >= sizeof(before))
        return size;
    memcpy(before, text, (size_t)size);
    before[size] = '\0';
    while (at < size) {
        bool begins = strchr("0123456789", before[at]) &&
                      (at == 0 || strchr(" \n", before[at - 1]));
        if (begins && lies_now()) {
            uint64_t value = lie(strtoull(before + at, &end, 10), path);
            size = snprintf(text, cap, "%.*s%" PRIu64 "%s", at, before, value,
                            end);
            return (size_t)size < cap ? size : (int)cap;
        }
        at++;
    }
    return size;
}

/* ---- a form between driver and simulated kernel -------------------------- */

#define FDS_MAX 4096

struct life_kio {
    struct kio kio;
    uint8_t devs[FDS_MAX]; /* enum kio_dev */
};

static int
life_open(struct kio *kio, const char *path, int flags)
{
    struct life_kio *own = (struct life_kio *)kio;
    int fd;

    pthread_mutex_lock(&life.lock);
    enter_kernel();
    fd = fails_now("open") ? -life.error
                           : kio->below->ops->open(kio->below, path, flags);
    leave_kernel();
    if (fd >= FDS_MAX)
        abort();
    if (fd >= 0)
        own->devs[fd] = (uint8_t)kio_dev_of_path(path);
    pthread_mutex_unlock(&life.lock);
    say("open %s 0x%x = %d", path, flags, fd);
    return fd;
}

static int
life_close(struct kio *kio, int fd)
{
    int result;

    say("close %d", fd);
    pthread_mutex_lock(&life.lock);
    enter_kernel();
    result = kio->below->ops->close(kio->below, fd);
    leave_kernel();
    if (fails_now("close"))
        result = -life.error;
    pthread_mutex_unlock(&life.lock);
    return result;
}

static int
life_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct life_kio *own = (struct life_kio *)kio;
    static uint32_t before[1 << 18];
    struct kio_capture capture;
    bool fails = false, is_told = false;
    int result;

    pthread_mutex_lock(&life.lock);
    kio_capture_view(&capture, (enum kio_dev)own->devs[fd], kio->branch,
                     request, arg);
    if (!is_passed_over(&capture)) {
        put_ioctl(fd, &capture);
        fails = fails_now(name_of(&capture));
        is_told = life.is_lying && life.n_calls == life.lie_at;
    }
    if (is_told)
        copy_words(&capture, before, ARRAY_LEN(before));
    pthread_mutex_unlock(&life.lock);
    enter_kernel();
    result = fails ? -life.error
                   : kio->below->ops->ioctl(kio->below, fd, request, arg);
    leave_kernel();
    if (is_told)
        lie_in_call(&capture, before);
    return result;
}

static int
life_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
          int fd, uint64_t offset)
{
    bool fails;
    int result;

    say("mmap %d %zu bytes at 0x%" PRIxPTR " offset 0x%" PRIx64
        " prot 0x%x flags 0x%x",
        fd, size_bytes, (uintptr_t)*addr, offset, (unsigned)prot,
        (unsigned)flags);
    pthread_mutex_lock(&life.lock);
    fails = fails_now("mmap");
    if (!*addr || !(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))) {
        /* nothing, or a wish: a recorder's are random */
        *addr = (void *)(uintptr_t)life.next;
        life.next += align_up(size_bytes, ALIGN) + ALIGN;
    }
    pthread_mutex_unlock(&life.lock);
    enter_kernel();
    result = fails ? -life.error
                   : kio->below->ops->mmap(kio->below, addr, size_bytes, prot,
                                           flags, fd, offset);
    leave_kernel();
    return result;
}

static int
life_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    int result;

    say("munmap 0x%" PRIxPTR " %zu bytes", (uintptr_t)addr, size_bytes);
    enter_kernel();
    result = kio->below->ops->munmap(kio->below, addr, size_bytes);
    leave_kernel();
    return result;
}

static int
life_poll(struct kio *kio, int fd, short events, int timeout_ms,
          short *out_revents)
{
    return kio->below->ops->poll(kio->below, fd, events, timeout_ms,
                                 out_revents);
}

static int
life_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    bool fails;
    int result;

    say("read %s, up to %zu bytes", path, cap);
    pthread_mutex_lock(&life.lock);
    fails = fails_now("read");
    pthread_mutex_unlock(&life.lock);
    enter_kernel();
    result = fails ? -life.error
                   : kio->below->ops->read_file(kio->below, path, buf, cap);
    leave_kernel();
    return lie_in_text(path, buf, result, cap);
}

static int
life_may_open(struct kio *kio, const char *path)
{
    struct kio *below = kio->below;

    return below->ops->may_open ? below->ops->may_open(below, path) : 0;
}

static void
life_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    uint32_t i, n_sent = 0;

    (void)kio;
    for (i = 0; i < bell->n_regions; i++)
        n_sent += is_sent(&bell->regions[i]);
    /* its end: how far the card is */
    if (life.is_adreno ? !n_sent : !bell->value_bytes || !bell->value)
        return;
    pthread_mutex_lock(&life.lock);
    for (i = 0; i < bell->n_regions && !life.is_brief; i++) {
        if (is_sent(&bell->regions[i]))
            put_region(&bell->regions[i]);
    }
    pthread_mutex_unlock(&life.lock);
    say("doorbell of %" PRIu32 " bytes: 0x%" PRIx64 " #%08" PRIx32,
        bell->value_bytes, bell->value, (uint32_t)sum_regions(bell));
}

/* Not what the simulated kernel said of another call. */
static const char *
life_explain(struct kio *kio)
{
    (void)kio;
    return life.n_calls == life.fail_at ? "this one" : NULL;
}

static void
life_destroy(struct kio *kio)
{
    free(kio);
}

static struct kio_ops life_ops = {
    .name = "life",
    .destroy = life_destroy,
    .open = life_open,
    .close = life_close,
    .ioctl = life_ioctl,
    .mmap = life_mmap,
    .munmap = life_munmap,
    .poll = life_poll,
    .read_file = life_read_file,
    .may_open = life_may_open,
    .doorbell = life_doorbell,
    .explain = life_explain,
};

/* The linker puts these in the place of the simulators' (meson.build). */
bell_status __real_kio_sim_create(const char *backend, const char *spec,
                                  struct kio **out_kio);
bell_status __wrap_kio_sim_create(const char *backend, const char *spec,
                                  struct kio **out_kio);
bell_status __wrap_kio_sim_join(const char *backend, const char *spec,
                                struct kio **out_kio);

bell_status
__wrap_kio_sim_create(const char *backend, const char *spec,
                      struct kio **out_kio)
{
    struct life_kio *own = calloc(1, sizeof(*own));
    struct kio *below;

    if (!own)
        abort();
    enter_kernel();
    BELL_TRY(__real_kio_sim_create(backend, spec, &below));
    leave_kernel();
    own->kio =
        (struct kio){.ops = &life_ops, .below = below, .branch = below->branch};
    *out_kio = &own->kio;
    return BELL_OK;
}

/* What KFD keeps of a process ends with the form here: the next life begins
 * with nothing. */
bell_status
__wrap_kio_sim_join(const char *backend, const char *spec, struct kio **out_kio)
{
    return __wrap_kio_sim_create(backend, spec, out_kio);
}

/* ---- the life ------------------------------------------------------------ */

struct user {
    struct hcq_device *dev;
    const struct cts_provider *provider;
    struct hcq_queue *queue, *copy;
    struct hcq_buffer *card, *host, *large, *pinned;
    struct hcq_signal *sig, *gate;
    struct hcq_program *add, *stack, *shared, *items, *poke;
    uint32_t mask; /* of a poll */
};

static bell_status
load(struct user *u, enum cts_kernel kernel, const char *name, uint32_t n_bufs,
     uint32_t n_vals, uint32_t local, uint32_t shared_bytes,
     struct hcq_program **out)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = name,
        .n_bufs = n_bufs,
        .n_vals = n_vals,
        .local = {local, local > 0, local > 0}, /* 0: any */
        .shared_bytes = shared_bytes,
    };

    say("-- load %s", name);
    if (!u->provider->find(kernel, 0, &desc))
        abort();
    return hcq_program_create(u->dev, &desc, out);
}

static bell_status
begin(struct hcq_queue *queue, const char *what, struct hcq_cs **out_cs)
{
    say("-- %s: %s", hcq_queue_name(queue), what);
    return hcq_queue_begin(queue, out_cs);
}

static bell_status
end(struct hcq_queue *queue, struct hcq_cs *cs)
{
    BELL_TRY(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(queue, LONG_NS);
}

/* Everything but launches, in both kinds of queues. */
static bell_status
transfer(struct user *u, struct hcq_queue *queue)
{
    static const uint32_t sizes[] = {0, 1, 3, 4, 7, 64, 4097, 1 << 20};
    uint64_t from = u->host->va, to = u->card->va;
    struct hcq_cs *cs;
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        BELL_TRY(begin(queue, "copy and fill", &cs));
        say("-- %" PRIu32 " bytes", sizes[i]);
        hcq_cs_copy(cs, to + i, from + 2 * i, sizes[i]);
        hcq_cs_fill(cs, to + 4 * i, 0x01020304, sizes[i]);
        BELL_TRY(end(queue, cs));
    }
    BELL_TRY(begin(queue, "a large copy, a large fill", &cs));
    hcq_cs_copy(cs, u->large->va + 5, u->large->va + (9 << 20), 5 << 20);
    hcq_cs_fill(cs, u->large->va, 0x55, 9 << 20);
    BELL_TRY(end(queue, cs));
    if (u->pinned) {
        BELL_TRY(begin(queue, "pinned memory", &cs));
        hcq_cs_copy(cs, u->pinned->va, from, 100);
        hcq_cs_copy(cs, to, u->pinned->va + 1, 100);
        BELL_TRY(end(queue, cs));
    }
    BELL_TRY(begin(queue, "stores", &cs));
    hcq_cs_write(cs, to, 0x1122334455667788, 64);
    hcq_cs_write(cs, to + 12, 0x99aabbcc, 32);
    hcq_cs_barrier(cs);
    hcq_cs_write(cs, from, 0x1122334455667788, 64);
    hcq_cs_write(cs, from + 8, 0x99aabbcc, 32);
    hcq_cs_poll(cs, from, 0xffffffff, 0x55667788);
    hcq_cs_poll(cs, from + 8, u->mask, 0x99aabbcc & u->mask);
    BELL_TRY(end(queue, cs));
    BELL_TRY(begin(queue, "signals", &cs));
    hcq_signal_set(u->sig, 0);
    hcq_cs_timestamp(cs, u->sig);
    hcq_cs_signal(cs, u->sig, 1);
    hcq_cs_wait(cs, u->sig, 1);
    hcq_cs_signal(cs, u->sig, 0x500000007);
    hcq_cs_wait(cs, u->sig, 0x500000006);
    return end(queue, cs);
}

static const uint32_t one[3] = {1, 1, 1};

static bell_status
launch(struct user *u)
{
    const uint64_t add[] = {u->card->va, u->host->va, 3};
    const uint32_t grid[3] = {5, 2, 3}, wide[3] = {64, 1, 1};
    const uint32_t wider[3] = {128, 1, 1};
    const uint32_t deep[3] = {4, 2, 3};
    struct hcq_cs *cs;

    BELL_TRY(begin(u->queue, "a launch", &cs));
    hcq_cs_exec(cs, u->add, add, 3, one, one);
    BELL_TRY(end(u->queue, cs));
    if (life.is_adreno) {
        BELL_TRY(load(u, CTS_REVERSE, "cts_reverse", 2, 0, 128, 0, &u->shared));
        BELL_TRY(load(u, CTS_COUNT, "cts_count", 1, 0, 0, 0, &u->items));
    } else {
        BELL_TRY(load(u, CTS_DYNAMIC, "cts_dynamic", 1, 0, 64, 64 << 10,
                      &u->shared));
        BELL_TRY(load(u, CTS_ITEMS, "cts_items", 1, 0, 0, 0, &u->items));
    }
    BELL_TRY(begin(u->queue, "a launch in three axes", &cs));
    hcq_cs_exec(cs, u->items, add, 1, grid, deep);
    BELL_TRY(end(u->queue, cs));
    BELL_TRY(begin(u->queue, "launches in a row", &cs));
    hcq_cs_exec(cs, u->add, add, 3, grid, one);
    hcq_cs_exec(cs, u->add, add, 3, one, one);
    hcq_cs_barrier(cs);
    if (life.is_adreno)
        hcq_cs_exec(cs, u->shared, add, 2, grid, wider);
    else
        hcq_cs_exec(cs, u->shared, add, 1, grid, wide);
    hcq_cs_fill(cs, u->card->va, 1, 64);
    hcq_cs_exec(cs, u->add, add, 3, one, one);
    hcq_cs_signal(cs, u->sig, 9);
    return end(u->queue, cs);
}

/* Memory for the stack grows: last, for some chips have little else left. */
static bell_status
grow(struct user *u)
{
    const uint64_t args[] = {u->card->va, u->host->va, 3};
    struct hcq_cs *cs;

    BELL_TRY(load(u, CTS_STACK, "cts_stack", 1, 0, 1, 0, &u->stack));
    BELL_TRY(begin(u->queue, "a launch with a stack", &cs));
    hcq_cs_exec(cs, u->stack, args, 1, one, one);
    BELL_TRY(end(u->queue, cs));
    BELL_TRY(begin(u->queue, "one after it", &cs));
    hcq_cs_exec(cs, u->add, args, 3, one, one);
    return end(u->queue, cs);
}

/* Submissions while others are under way. */
static bell_status
hold(struct user *u, struct hcq_queue *queue)
{
    struct hcq_cs *cs;
    uint64_t value;
    unsigned i;

    hcq_signal_set(u->gate, 0);
    BELL_TRY(begin(queue, "a wait for the host", &cs));
    hcq_cs_wait(cs, u->gate, 1);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    for (i = 0; i < 3; i++) {
        BELL_TRY(begin(queue, "behind it", &cs));
        hcq_cs_fill(cs, u->card->va, i, 16);
        BELL_TRY(hcq_cs_submit(cs, &value));
    }
    say("-- value %" PRIu64, value);
    hcq_signal_set(u->gate, 1);
    return hcq_queue_wait(queue, LONG_NS);
}

static bell_status
stream(struct user *u, struct hcq_queue *queue)
{
    uint64_t args[] = {u->card->va, u->host->va, 2};
    struct hcq_stream *stream = NULL;
    struct hcq_cs *cs;
    uint32_t size, grid = HCQ_PATCH_NONE, value;
    bell_status status;
    unsigned i;

    say("-- a stream for %s", hcq_queue_name(queue));
    BELL_TRY(hcq_stream_create(queue, "bound", &stream));
    size = hcq_stream_patch_point(stream, "size");
    value = hcq_stream_patch_point(stream, "value");
    cs = hcq_stream_cs(stream);
    hcq_cs_copy(cs, u->card->va, u->host->va, 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, size, 4);
    if (queue == u->queue) {
        grid = hcq_stream_patch_point(stream, "grid");
        hcq_cs_exec(cs, u->add, args, 3, one, one);
        hcq_cs_patch(cs, HCQ_FIELD_GRID, grid, 0);
        hcq_cs_patch(cs, HCQ_FIELD_ARG + 2, value, 0);
        hcq_cs_exec(cs, u->add, args, 3, one, one);
    }
    hcq_cs_signal(cs, u->sig, 1);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, value, 1);
    status = hcq_stream_end(stream);
    for (i = 1; i < 4 && status == BELL_OK; i++) {
        say("-- submission %u", i);
        status = hcq_stream_patch(stream, size, i * 1000);
        if (status == BELL_OK)
            status = hcq_stream_patch(stream, value, i);
        if (status == BELL_OK && grid != HCQ_PATCH_NONE)
            status = hcq_stream_patch(stream, grid, i);
        if (status == BELL_OK)
            status = hcq_stream_submit(stream, NULL);
        if (status == BELL_OK)
            status = hcq_stream_wait(stream, LONG_NS);
    }
    hcq_stream_destroy(stream);
    return status;
}

static bell_status
read_and_write(struct user *u)
{
    static uint8_t data[9000001], back[sizeof(data)];
    size_t i;

    for (i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)hash_mix(i);
    say("-- write");
    BELL_TRY(hcq_buffer_write(u->large, 3, data, sizeof(data)));
    BELL_TRY(hcq_buffer_write(u->card, 0, data, 8));
    say("-- read");
    BELL_TRY(hcq_buffer_read(u->large, 3, back, sizeof(back)));
    if (memcmp(data, back, sizeof(data)) != 0)
        return bell_fail(BELL_E_INTERNAL, "not what was written");
    return hcq_buffer_read(u->card, 1, data, 8);
}

/* A queue of the smallest rings goes round. */
static bell_status
wrap(struct user *u, enum hcq_queue_kind kind)
{
    const struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc), .kind = kind, .ring_size_bytes = 4096};
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    bell_status status;
    unsigned i;

    say("-- a queue of small rings");
    life.is_brief = true; /* they are many */
    BELL_TRY(hcq_queue_create_with(u->dev, &desc, &queue));
    status = BELL_OK;
    for (i = 0; i < 40 && status == BELL_OK; i++) {
        status = begin(queue, "fills and copies", &cs);
        if (status != BELL_OK)
            break;
        hcq_cs_fill(cs, u->card->va, i, 1000 + i);
        hcq_cs_copy(cs, u->card->va, u->host->va, 999 - i);
        hcq_cs_signal(cs, u->sig, i);
        status = end(queue, cs);
    }
    hcq_queue_destroy(queue);
    life.is_brief = life.is_always_brief;
    return status;
}

static bell_status
recover(struct user *u)
{
    struct hcq_cs *cs;

    say("-- recover");
    BELL_TRY(hcq_device_recover(u->dev));
    BELL_TRY(begin(u->queue, "after it", &cs));
    hcq_cs_fill(cs, u->card->va, 7, 16);
    return end(u->queue, cs);
}

/* What KFD can recover from: a queue that waits for ever. */
static bell_status
hang(struct user *u)
{
    struct hcq_cs *cs;

    BELL_TRY(begin(u->queue, "a hang", &cs));
    hcq_cs_wait(cs, u->gate, UINT32_MAX);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    if (hcq_queue_wait(u->queue, 1000000) != BELL_E_TIMEOUT)
        return bell_fail(BELL_E_INTERNAL, "no hang");
    bell_error_clear();
    return recover(u);
}

static bell_status
lose(struct user *u)
{
    const uint64_t args[] = {u->card->va, 0, 0x123456789000};
    struct hcq_fault fault;
    struct hcq_cs *cs;

    BELL_TRY(load(u, CTS_POKE, "cts_poke", 1, 2, 1, 0, &u->poke));
    BELL_TRY(begin(u->queue, "a fault", &cs));
    hcq_cs_exec(cs, u->poke, args, 3, one, one);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    if (hcq_queue_wait(u->queue, LONG_NS) != BELL_E_DEVICE_LOST)
        return bell_fail(BELL_E_INTERNAL, "no fault");
    hcq_device_fault(u->dev, &fault);
    say("-- fault %d 0x%" PRIx64 ": %s", (int)fault.kind, fault.va, fault.text);
    bell_error_clear();
    if (u->provider != &cts_amd_provider)
        return recover(u);
    if (hcq_device_recover(u->dev) != BELL_E_DEVICE_LOST)
        return bell_fail(BELL_E_INTERNAL, "no end");
    say("-- %s", bell_error_last()->message);
    bell_error_clear();
    return BELL_OK;
}

static bell_status
live(struct user *u)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    bell_status status;
    void *memory;

    hcq_device_info(u->dev, &info);
    if (life.is_adreno) /* the host's */
        info.memory_bytes = info.max_buffer_bytes = 0;
    say("-- %s, %s, %s: %" PRIu32 " units, groups of %" PRIu32 " to %" PRIu32
        " x %" PRIu32 " x %" PRIu32 ", %" PRIu32 " bytes shared, %" PRIu64
        " of memory, %" PRIu64 " a buffer, flags 0x%x, %" PRIu64 " Hz",
        info.name, info.arch, info.model, info.n_units, info.max_local_total,
        info.max_grid[0], info.max_grid[1], info.max_grid[2],
        info.max_shared_bytes, info.memory_bytes, info.max_buffer_bytes,
        info.flags, info.timestamp_hz);
    say("-- queues");
    u->mask = info.flags & HCQ_DEVICE_POLL_MASKS ? 0xff00 : UINT32_MAX;
    BELL_TRY(hcq_queue_create(u->dev, HCQ_QUEUE_COMPUTE, &u->queue));
    BELL_TRY(hcq_queue_create(u->dev, HCQ_QUEUE_COPY, &u->copy));
    if (life.is_lying && life.is_adreno)
        return load(u, CTS_COUNT, "cts_count", 1, 0, 0, 0, &u->items);
    if (life.is_lying) /* who knows what the card would do */
        return load(u, CTS_STACK, "cts_stack", 1, 0, 1, 0, &u->stack);
    say("-- memory");
    /* Poison, as in debug builds anyway. */
    BELL_TRY(hcq_buffer_create(u->dev, 2 << 20, HCQ_MEM_POISON, &u->card));
    BELL_TRY(hcq_buffer_create(
        u->dev, 1234567, HCQ_MEM_HOST_VISIBLE | HCQ_MEM_POISON, &u->host));
    BELL_TRY(hcq_buffer_create(u->dev, 17 << 20, HCQ_MEM_POISON, &u->large));
    memory = mmap((void *)PINNED, 16384, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (memory != (void *)PINNED)
        abort();
    status = hcq_buffer_create_pinned(u->dev, (uint8_t *)memory + 100, 8000,
                                      &u->pinned);
    if (status == BELL_E_UNSUPPORTED)
        bell_error_clear();
    else if (status != BELL_OK)
        return status;
    BELL_TRY(hcq_signal_create(u->dev, 0, &u->sig));
    BELL_TRY(hcq_signal_create(u->dev, 0, &u->gate));
    if (!life.is_short) {
        BELL_TRY(read_and_write(u));
        BELL_TRY(transfer(u, u->queue));
        BELL_TRY(transfer(u, u->copy));
    }
    BELL_TRY(load(u, CTS_ADD_ONE, "cts_add_one", 2, 1, 1, 0, &u->add));
    BELL_TRY(stream(u, u->queue));
    if (!life.is_short) {
        BELL_TRY(launch(u));
        BELL_TRY(hold(u, u->queue));
        BELL_TRY(hold(u, u->copy));
        BELL_TRY(stream(u, u->copy));
        BELL_TRY(wrap(u, HCQ_QUEUE_COMPUTE));
        BELL_TRY(wrap(u, HCQ_QUEUE_COPY));
    }
    if (!life.is_adreno)
        BELL_TRY(grow(u));
    if (u->provider == &cts_amd_provider)
        BELL_TRY(hang(u));
    BELL_TRY(lose(u));
    say("-- the end");
    hcq_buffer_destroy(u->pinned);
    hcq_buffer_destroy(u->large);
    hcq_memory_trim(u->dev);
    hcq_program_destroy(u->stack);
    hcq_signal_destroy(u->gate);
    hcq_queue_destroy(u->copy);
    return BELL_OK;
}

static bell_status
run(const char *name)
{
    struct user u = {.provider = life.is_adreno ? &cts_qcom_provider
                                 : strncmp(name, "AMD", 3) == 0
                                     ? &cts_amd_provider
                                     : &cts_nv_provider};
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    bell_status status;
    char why[256];

    life.next = HERE;
    life.last[0] = '\0';
    bell_error_clear();
    BELL_TRY(hcq_device_open(name, &u.dev));
    hcq_device_info(u.dev, &info);
    if (life.n_lives++ == 0 && u.provider->setup &&
        !u.provider->setup(&info, why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    status = live(&u);
    hcq_device_close(u.dev);
    return status;
}

/* What became of the n-th call or allocation. */
static void
tell(unsigned n, const char *what, bell_status status)
{
    const struct bell_error *error = bell_error_last();
    char text[sizeof(error->message)];

    snprintf(text, sizeof(text), "%s", error->message);
    mask(text);
    printf("%u %s: %s: %.160s #%08" PRIx32 "\n", n, what,
           error->status ? bell_status_name(error->status) : "not told", text,
           (uint32_t)life.sum);
    if ((status == BELL_OK) != (error->status == BELL_OK))
        puts("    and its result says otherwise");
}

static void
run_failing(const char *name)
{
    unsigned n;

    for (n = 1; n < CALLS_MAX; n++) {
        bell_status status;

        life.n_calls = 0;
        life.fail_at = n;
        life.failed[0] = '\0';
        status = run(name);
        if (!life.failed[0])
            break;
        tell(n, life.failed, status);
    }
}

static void
run_starving(const char *name)
{
    unsigned n;

    if (run(name) != BELL_OK) { /* the kernels are made */
        tell(0, "none", BELL_E_INTERNAL);
        return;
    }
    for (n = 1; n < CALLS_MAX; n++) {
        bell_status status;

        life.starve_at = n;
        life.n_allocs = 0;
        leave_kernel();
        status = run(name);
        enter_kernel();
        if (life.n_allocs < n)
            break;
        tell(n, "allocation", status);
    }
}

/* The first words of each answer; of calls with the same name the first two. */
static void
run_lying(const char *name)
{
    unsigned at, word, n_same = 0;
    char last[64] = "";

    life.is_lying = true;
    for (at = 1;; at++) {
        for (word = 0; word < 40; word++) {
            bell_status status;

            life.n_calls = life.n_words = 0;
            life.lie_at = at;
            life.lie_word = word;
            life.failed[0] = '\0';
            status = run(name);
            if (!life.failed[0])
                break;
            n_same = strcmp(last, life.failed) == 0 ? n_same + !word : 0;
            snprintf(last, sizeof(last), "%s", life.failed);
            tell(word, life.failed, status);
            if (n_same > 1)
                break;
        }
        if (life.n_calls < at)
            break;
    }
}

/* ---- cassettes ----------------------------------------------------------- */

/* What the card writes as it goes on. */
static bool
is_racy(const struct cas_blob *b)
{
    return b->role == CAS_REGION &&
           (b->extra == KIO_REGION_CONTROL || b->extra == KIO_REGION_SIGNAL);
}

static void
show_record(const struct cas_record *r)
{
    char text[256];
    uint32_t i;

    snprintf(text, sizeof(text),
             "%s fd %" PRId32 " dev %" PRIu32 " args 0x%" PRIx64 " 0x%" PRIx64
             " 0x%" PRIx64 " 0x%" PRIx64 " = 0x%" PRIx64,
             cas_kind_name(r->kind), r->fd, r->dev, r->args[0], r->args[1],
             r->args[2], r->args[3], (uint64_t)r->result);
    mask(text);
    say("%s", text);
    for (i = 0; i < r->n_blobs; i++) {
        const struct cas_blob *b = &r->blobs[i];

        snprintf(text, sizeof(text),
                 "  %u: of %u at %" PRIu32 ": 0x%" PRIx64 " 0x%" PRIx64
                 " %" PRIu32 " bytes, %" PRIu32 " #%08" PRIx32,
                 b->role, b->parent, b->field_offset_bytes, b->addr, b->cpu,
                 b->size_bytes, b->extra,
                 is_racy(b) ? 0 : (uint32_t)sum_of(b->data, b->size_bytes));
        mask(text);
        say("%s", text);
    }
}

static bool
is_timed(const struct cas_record *r)
{
    struct kio_call_desc call;

    if (r->kind != CAS_IOCTL)
        return false;
    kio_describe((enum kio_dev)r->dev, 3, (unsigned long)r->args[0], &call);
    return is_left_out(call.name);
}

/* How often the first two come, and what they tell, depends on time. */
static bool
is_shown(const struct cas_record *r)
{
    return r->kind != CAS_UPDATE && r->kind != CAS_SAMPLE &&
           r->kind != CAS_POLL && !is_timed(r);
}

static void
say_difference(void *user, uint32_t record, const char *text)
{
    (void)user;
    (void)record;
    if (!is_left_out(text))
        say("  differs: %s", text);
}

/* On a kernel whose files have other numbers. */
static bell_status
play(const char *name, const struct cas_reader *reader,
     struct cas_play_report *report)
{
    bool is_amd = strncmp(name, "AMD", 3) == 0;
    struct kio *kio;
    bell_status status;
    int fd;

    life.next = HERE;
    life.last[0] = '\0';
    BELL_TRY(
        kio_open_interface(is_amd ? "AMD" : "NV", strchr(name, '@') + 1, &kio));
    if (!is_amd)
        kio_set_branch(kio, 3);
    fd = kio->ops->open(kio, is_amd ? "/dev/kfd" : "/dev/nvidiactl", O_RDWR);
    status = cas_play(reader, kio, say_difference, NULL, report);
    (void)kio->ops->close(kio, fd);
    kio_destroy(kio);
    return status;
}

static bell_status
run_cassette(const char *name)
{
    char path[] = "/tmp/life-XXXXXX", device[96];
    struct cas_play_report report;
    struct cas_reader *reader;
    bell_status status = BELL_E_NO_MEMORY;
    uint32_t i;
    int fd = mkstemp(path);

    close(fd);
    snprintf(device, sizeof(device), "%.*s@record:%s%s",
             (int)strcspn(name, "@"), name, path, strchr(name, '@'));
    BELL_TRY(run(device));
    BELL_TRY(cas_reader_open(path, &reader));
    unlink(path);
    life.is_quiet = false;
    for (i = 0; i < cas_reader_count(reader); i++) {
        if (is_shown(cas_reader_get(reader, i)))
            show_record(cas_reader_get(reader, i));
    }
    say("-- played");
    BELL_TRY(play(name, reader, &report));
    life.is_quiet = true;
    for (i = 1; status != BELL_OK; i++) {
        life.starve_at = i;
        life.n_allocs = 0;
        leave_kernel();
        status = play(name, reader, &report);
        enter_kernel();
        if (status == BELL_OK && life.n_allocs >= i)
            status = BELL_E_NO_MEMORY; /* it did without */
    }
    life.starve_at = 0;
    cas_reader_close(reader);
    return BELL_OK;
}

int
main(int argc, char **argv)
{
    const char *name = argv[argc - 1];
    bell_status status;

    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    life.is_adreno = strncmp(name, "QCOM", 4) == 0;
    life.is_always_brief = argc == 3 && strcmp(argv[1], "--brief") == 0;
    life.is_brief = life.is_always_brief;
    if (argc > 2 && !life.is_brief) {
        life.is_short = life.is_quiet = true;
        life_ops.doorbell = NULL; /* nobody looks: the driver is not delayed */
    }
    if (argc == 4 && strcmp(argv[1], "--fail") == 0) {
        life.error = atoi(argv[2]);
        run_failing(name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--lie") == 0) {
        run_lying(name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--starve") == 0) {
        run_starving(name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--cassette") == 0)
        status = run_cassette(name);
    else if (argc == 2 || life.is_brief)
        status = run(name);
    else
        return 2;
    if (status != BELL_OK) {
        printf("%s\n", bell_error_last()->message);
        return 1;
    }
    return 0;
}
