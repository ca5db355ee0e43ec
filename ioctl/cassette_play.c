/* Playing a cassette on a form of the kernel. */
#include "ioctl/cassette_play.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"

#define UUID_BYTES   16
#define GAP_BYTES    16384 /* see fill_gaps */
#define PINNED_BYTES ((uint64_t)1 << 32)

/* What is mapped: an interval of the recording's addresses and where it lies
 * now. Intervals do not overlap. */
struct piece {
    uint64_t recorded, size_bytes;
    uint8_t *now;
};

struct play {
    struct kio *kio;
    const struct cas_record *record; /* the one under way */
    const char *call;                /* what its answers belong to, or NULL */
    char field[64]; /* of the last difference, without an index */
    uint32_t index;
    struct map fds;       /* recorded file -> the one of now */
    struct map devs;      /* file of now -> enum kio_dev */
    struct map given;     /* likewise handles and addresses */
    struct map names;     /* hash of 16 recorded bytes, a UUID -> its words */
    struct piece *pieces; /* owned */
    size_t n_pieces, cap_pieces;
    uint64_t *uuids; /* owned; those of now, two words each */
    size_t n_uuids, cap_uuids;
    cas_play_fn *fn;
    void *user;
    struct cas_play_report report;
};

static void tell_play(struct play *play, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
tell_play(struct play *play, const char *fmt, ...)
{
    char text[256];
    va_list args;
    int n;

    play->report.n_differ++;
    n = snprintf(text, sizeof(text), "%s %s%s",
                 cas_kind_name(play->record->kind),
                 play->call ? play->call : "", play->call ? ": " : "");
    va_start(args, fmt);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
    va_end(args);
    play->fn(play->user, play->index, text);
}

static void
differs(struct play *play, const char *what, uint64_t was, uint64_t now)
{
    tell_play(play, "%s: recorded 0x%" PRIx64 ", now 0x%" PRIx64, what, was,
              now);
}

static int
fd_now(const struct play *play, int32_t recorded)
{
    uint64_t *fd = map_get(&play->fds, (uint64_t)(uint32_t)recorded);

    return fd ? (int)(int64_t)*fd : -1;
}

/* What the record's file is now: whoever answers lays its arguments out so.
 * None knows one that was not opened: no argument of it is followed. */
static enum kio_dev
dev_now(const struct play *play)
{
    uint64_t *dev =
        map_get(&play->devs, (uint64_t)fd_now(play, play->record->fd));

    return (enum kio_dev)(dev ? *dev : play->record->dev);
}

static bell_status
play_no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory playing a cassette");
}

/* A blob as a string of the heap, or NULL. */
static char *
play_text(const struct cas_blob *blob)
{
    char *text = host_calloc(1, blob ? blob->size_bytes + 1u : 1);

    if (text && blob)
        memcpy(text, blob->data, blob->size_bytes);
    return text;
}

static bell_status
play_open(struct play *play)
{
    char *path = play_text(cas_find(play->record, CAS_PATH));
    enum kio_dev dev;
    int fd;

    if (!path)
        return play_no_memory();
    fd = play->kio->ops->open(play->kio, path, (int)play->record->args[0]);
    dev = kio_dev_of_path(path);
    host_free(path);
    if (fd >= 0 && map_put(&play->devs, (uint64_t)fd, dev) < 0)
        return play_no_memory();
    if ((fd < 0) != (play->record->result < 0))
        differs(play, "result", (uint64_t)play->record->result, (uint64_t)fd);
    if (fd < 0 || play->record->result < 0)
        return BELL_OK;
    if (map_put(&play->fds, (uint64_t)(uint32_t)play->record->fd,
                (uint64_t)fd) < 0)
        return play_no_memory();
    return BELL_OK;
}

static void
play_close(struct play *play)
{
    int fd = fd_now(play, play->record->fd);

    if (fd >= 0)
        (void)play->kio->ops->close(play->kio, fd);
    (void)map_put(&play->fds, (uint64_t)(uint32_t)play->record->fd,
                  (uint64_t)-1);
}

/* ---- memory ----------------------------------------------------------- */

/* The piece that holds all of an interval of recorded addresses, or NULL. */
static struct piece *
find_piece(struct play *play, uint64_t recorded, uint64_t size_bytes)
{
    size_t i;

    for (i = 0; i < play->n_pieces; i++) {
        struct piece *p = &play->pieces[i];
        if (recorded >= p->recorded && size_bytes <= p->size_bytes &&
            recorded - p->recorded <= p->size_bytes - size_bytes)
            return p;
    }
    return NULL;
}

static bell_status
add_piece(struct play *play, uint64_t recorded, uint64_t size_bytes,
          uint8_t *now)
{
    assert(now || !size_bytes);
    if (!size_bytes)
        return BELL_OK;
    if (host_grow((void **)&play->pieces, &play->cap_pieces, play->n_pieces + 1,
                  sizeof(*play->pieces)) < 0)
        return play_no_memory();
    play->pieces[play->n_pieces++] = (struct piece){recorded, size_bytes, now};
    return BELL_OK;
}

/* Memory of our own that a form may map over, unmap or pin: where it was in
 * the recorded program, if nothing is there now. */
static void *
play_reserve(uint64_t recorded, uint64_t size_bytes, int prot)
{
    return mmap((void *)(uintptr_t)recorded, size_bytes, prot,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Memory for what the recorded program had at an address that its kernel was
 * to keep; its contents are not in the cassette. 0: there is no room. */
static uint64_t
pinned_now(struct play *play, uint64_t recorded, uint64_t size_bytes)
{
    struct piece *piece = find_piece(play, recorded, size_bytes);
    void *own;

    if (piece)
        return (uintptr_t)piece->now + (recorded - piece->recorded);
    if (size_bytes > PINNED_BYTES)
        return 0;
    own = play_reserve(recorded, size_bytes, PROT_READ | PROT_WRITE);
    if (own == MAP_FAILED || add_piece(play, recorded, size_bytes, own))
        return 0;
    return (uintptr_t)own;
}

/* ---- ioctl ------------------------------------------------------------ */

/* The recorded argument blobs with this role, by their index. */
static uint32_t
play_collect(const struct cas_record *record, uint16_t role,
             const struct cas_blob **blobs)
{
    uint32_t n = 0, i;

    memset(blobs, 0, KIO_CAPTURE_BLOBS * sizeof(*blobs));
    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *b = &record->blobs[i];
        if (b->role != role || b->extra >= KIO_CAPTURE_BLOBS)
            continue;
        blobs[b->extra] = b;
        n = b->extra + 1 > n ? b->extra + 1 : n;
    }
    return n;
}

/* Copies of the arguments, with pointers to each other. NULL when out of
 * memory; one block, freed with host_free. */
static uint8_t *
play_rebuild(const struct cas_blob *const *in, uint32_t n, uint8_t **at,
             size_t *out_bytes)
{
    size_t total = 8;
    uint8_t *block;
    uint32_t i;

    assert(n <= KIO_CAPTURE_BLOBS);
    for (i = 0; i < n; i++)
        total += in[i] ? ((size_t)in[i]->size_bytes + 7) & ~(size_t)7 : 0;
    *out_bytes = total;
    block = host_calloc(1, total + GAP_BYTES);
    if (!block)
        return NULL;
    total = 0;
    for (i = 0; i < n; i++) {
        at[i] = block + total;
        if (!in[i])
            continue;
        memcpy(at[i], in[i]->data, in[i]->size_bytes);
        total += ((size_t)in[i]->size_bytes + 7) & ~(size_t)7;
    }
    for (i = 1; i < n; i++) {
        uint64_t addr = (uintptr_t)at[i];
        uint32_t parent = in[i] ? in[i]->parent : n;
        if (parent < i && in[parent] && in[parent]->size_bytes >= 8 &&
            in[i]->field_offset_bytes <= in[parent]->size_bytes - 8)
            memcpy(at[parent] + in[i]->field_offset_bytes, &addr, 8);
    }
    return block;
}

/* The rebuilt arguments, for reading within them alone: sizes in a cassette
 * are not trusted. */
struct block {
    const uint8_t *data;
    size_t size_bytes;
};

static bool
play_read_block(void *user, uint64_t addr, void *dst, size_t size_bytes)
{
    const struct block *block = user;
    uint64_t start = (uintptr_t)block->data;

    assert(dst);
    if (addr < start || size_bytes > block->size_bytes ||
        addr - start > block->size_bytes - size_bytes)
        return false;
    memcpy(dst, (const void *)(uintptr_t)addr, size_bytes);
    return true;
}

/* Structures that were not followed when the cassette was recorded, because
 * their layout was not known yet, read as zeros, and what is written there is
 * not compared. The zeros are at the end of the block, which grows by what is
 * used, in words of 8 bytes (so does GAP_BYTES shrink). A part that every
 * recorder followed, by the length beside it, is missed instead. */
static void
fill_gaps(const struct kio_capture *layouts, uint32_t n, uint8_t *const *at,
          struct block *block, size_t left)
{
    uint32_t i, f;

    for (i = n; i < layouts->n_blobs; i++) {
        const struct kio_blob *blob = &layouts->blobs[i], *outer;
        if (blob->size_bytes || blob->parent >= n)
            continue;
        outer = &layouts->blobs[blob->parent];
        for (f = 0; f < outer->desc->n_fields; f++) {
            const struct kio_field *field = &outer->desc->fields[f];
            uint64_t addr = (uintptr_t)block->data + block->size_bytes, bytes;
            if (!kio_field_leads(field) ||
                field->offset_bytes != blob->field_offset_bytes ||
                (kio_pointee_of(outer->desc, field)->select !=
                     KIO_SELECT_NONE &&
                 kio_pointee_bytes(outer->desc, field, outer->data,
                                   outer->size_bytes, NULL)))
                continue;
            bytes = kio_pointee_bytes(outer->desc, field, outer->data,
                                      outer->size_bytes, blob->desc);
            if (bytes > left)
                continue;
            bytes = (bytes + 7) & ~(uint64_t)7;
            memcpy(at[blob->parent] + field->offset_bytes, &addr, 8);
            block->size_bytes += bytes;
            left -= bytes;
        }
    }
}

/* The bytes of a field that lie within the argument, in whole elements. */
static uint32_t
field_bytes(const struct kio_field *field, uint32_t size_bytes)
{
    uint32_t n = field->size_bytes;

    if (field->offset_bytes >= size_bytes)
        return 0;
    n = n < size_bytes - field->offset_bytes ? n
                                             : size_bytes - field->offset_bytes;
    return n / field->each_bytes * field->each_bytes;
}

/* What names an object of the kernel, or a place that it chose: a handle, or an
 * address that leads to nothing in the argument. */
static bool
is_given(const struct kio_field *field)
{
    return field->each_bytes <= 8 &&
           (field->kind == KIO_FIELD_HANDLE ||
            (field->kind == KIO_FIELD_PTR && !field->ptr));
}

static uint64_t
play_load_field(const uint8_t *at, uint32_t size_bytes)
{
    uint64_t value = 0;

    assert(size_bytes <= 8);
    memcpy(&value, at, size_bytes);
    return value;
}

/* A UUID's two words, if another was given for it now. */
static const uint64_t *
name_now(const struct play *play, const uint8_t *recorded)
{
    uint64_t key = hash_bytes(recorded, UUID_BYTES, 0);
    uint64_t *at = map_get(&play->names, key);

    return at ? play->uuids + *at : NULL;
}

/* Replaces what the kernel named, as it was named then, in the argument: files,
 * objects, cards. */
static void
translate(struct play *play, const struct kio_struct *desc, uint8_t *data,
          uint32_t size_bytes)
{
    uint32_t i, k;

    for (i = 0; desc && i < desc->n_fields; i++) {
        const struct kio_field *field = &desc->fields[i];
        uint32_t n = field_bytes(field, size_bytes);
        uint8_t *at = data + field->offset_bytes;
        for (k = 0; k < n && is_given(field); k += field->each_bytes) {
            uint64_t value = play_load_field(at + k, field->each_bytes);
            uint64_t *now = map_get(&play->given, value);
            memcpy(at + k, now ? now : &value, field->each_bytes);
        }
        if (n == 8 && kio_field_leads(field) &&
            kio_pointee_of(desc, field)->select == KIO_SELECT_PINNED) {
            const struct kio_field *limit =
                &desc->fields[kio_pointee_of(desc, field)->length_field];
            uint64_t addr = play_load_field(at, 8);
            if (addr && field_bytes(limit, size_bytes) == 8)
                addr = pinned_now(
                    play, addr,
                    play_load_field(data + limit->offset_bytes, 8) + 1);
            memcpy(at, &addr, 8);
        }
        for (k = 0; k < n && field->kind == KIO_FIELD_FD; k += 4) {
            int32_t fd = (int32_t)play_load_field(at + k, 4);
            fd = fd < 0 ? fd : fd_now(play, fd);
            memcpy(at + k, &fd, 4);
        }
        if (field->kind == KIO_FIELD_BYTES && n >= UUID_BYTES &&
            name_now(play, at))
            memcpy(at, name_now(play, at), UUID_BYTES);
    }
}

static bell_status
learn_name(struct play *play, const uint8_t *was, const uint8_t *now)
{
    uint64_t key = hash_bytes(was, UUID_BYTES, 0);

    if (memcmp(was, now, UUID_BYTES) == 0 || map_get(&play->names, key))
        return BELL_OK;
    if (host_grow((void **)&play->uuids, &play->cap_uuids, play->n_uuids + 2,
                  sizeof(*play->uuids)) < 0 ||
        map_put(&play->names, key, play->n_uuids) < 0)
        return play_no_memory();
    memcpy(play->uuids + play->n_uuids, now, UUID_BYTES);
    play->n_uuids += 2;
    return BELL_OK;
}

/* What the kernel names in an answer for the first time may be named otherwise
 * now: handles that were not in the request, and the first bytes of a field
 * that names a card. */
static bell_status
learn(struct play *play, const struct kio_struct *desc, const uint8_t *was,
      const uint8_t *now, uint32_t size_bytes)
{
    uint32_t i, k;

    for (i = 0; desc && i < desc->n_fields; i++) {
        const struct kio_field *field = &desc->fields[i];
        uint32_t at = field->offset_bytes, n = field_bytes(field, size_bytes);
        for (k = at; k < at + n && is_given(field); k += field->each_bytes) {
            uint64_t a = play_load_field(was + k, field->each_bytes);
            uint64_t b = play_load_field(now + k, field->each_bytes);
            if (a && b && a != b && !map_get(&play->given, a) &&
                map_put(&play->given, a, b) < 0)
                return play_no_memory();
        }
        if (field->kind == KIO_FIELD_BYTES && n >= UUID_BYTES)
            BELL_TRY(learn_name(play, was + at, now + at));
    }
    return BELL_OK;
}

/* Told once for bytes that nothing describes, and for elements of an array. */
static void
field_differs(void *user, const char *field, uint64_t was, uint64_t now)
{
    struct play *play = user;
    size_t n = field[0] == '+' ? 1 : strcspn(field, "[");

    if ((field[0] == '+' || field[n]) && n < sizeof(play->field) &&
        strncmp(play->field, field, n) == 0 && !play->field[n])
        return;
    snprintf(play->field, sizeof(play->field), "%.*s", (int)n, field);
    differs(play, field, was, now);
}

/* Compares what came back with the recording. `layouts` are the descriptions
 * of the parts, by index. */
static bell_status
compare_answers(struct play *play, const struct kio_capture *layouts,
                const struct cas_blob *const *in, uint32_t n,
                uint8_t *const *at)
{
    const struct cas_blob *out[KIO_CAPTURE_BLOBS];
    uint32_t i;

    assert(n <= KIO_CAPTURE_BLOBS);
    (void)play_collect(play->record, CAS_ARG_OUT, out);
    play->call = layouts->call.name;
    for (i = 0; i < layouts->n_blobs; i++) {
        if (layouts->blobs[i].name)
            play->call = layouts->blobs[i].name;
    }
    for (i = 0; i < n; i++) {
        const struct cas_blob *was = out[i] ? out[i] : in[i];
        const struct kio_struct *desc =
            i < layouts->n_blobs ? layouts->blobs[i].desc : NULL;
        uint8_t *copy;
        if (!was || !in[i] || was->size_bytes != in[i]->size_bytes)
            continue;
        play->field[0] = 0;
        copy = host_alloc(was->size_bytes + 1u);
        if (!copy)
            return play_no_memory();
        memcpy(copy, was->data, was->size_bytes);
        if (learn(play, desc, copy, at[i], was->size_bytes) != BELL_OK) {
            host_free(copy);
            return play_no_memory();
        }
        translate(play, desc, copy, was->size_bytes);
        (void)kio_struct_diff(desc, copy, at[i], was->size_bytes,
                              KIO_DIFF_ANSWER, field_differs, play);
        host_free(copy);
    }
    return BELL_OK;
}

/* Makes the call with the rebuilt arguments. */
static bell_status
call_again(struct play *play, const struct cas_blob *const *in, uint32_t n,
           uint8_t *const *at, const struct kio_capture *layouts)
{
    const struct cas_record *r = play->record;
    uint32_t i;
    int result;

    assert(n <= KIO_CAPTURE_BLOBS);
    for (i = 0; i < n && i < layouts->n_blobs; i++) {
        if (in[i])
            translate(play, layouts->blobs[i].desc, at[i], in[i]->size_bytes);
    }
    result = play->kio->ops->ioctl(play->kio, fd_now(play, r->fd),
                                   (unsigned long)r->args[0], at[0]);
    if (result == r->result)
        return compare_answers(play, layouts, in, n, at);
    differs(play, layouts->call.name, (uint64_t)r->result, (uint64_t)result);
    return BELL_OK;
}

static bell_status
play_ioctl(struct play *play)
{
    const struct cas_record *r = play->record;
    const struct cas_blob *in[KIO_CAPTURE_BLOBS];
    uint8_t *at[KIO_CAPTURE_BLOBS];
    uint32_t n = play_collect(r, CAS_ARG_IN, in);
    struct kio_call_desc call;
    struct kio_capture layouts;
    struct block block;
    const char *field;
    uint8_t *data;
    bell_status status;

    if (r->dev != (uint32_t)dev_now(play)) {
        differs(play, "kind of file", r->dev, dev_now(play));
        return BELL_OK;
    }
    kio_describe((enum kio_dev)r->dev, play->kio->branch,
                 (unsigned long)r->args[0], &call);
    if (n && (!in[0] || in[0]->size_bytes < call.size_bytes)) {
        differs(play, "bytes of the argument", in[0] ? in[0]->size_bytes : 0,
                call.size_bytes);
        return BELL_OK;
    }
    data = play_rebuild(in, n, at, &block.size_bytes);
    if (!data)
        return play_no_memory();
    block.data = data;
    if (!n) { /* nobody knew that the call has an argument */
        at[0] = call.size_bytes && call.size_bytes <= GAP_BYTES ? data : NULL;
        block.size_bytes = GAP_BYTES;
    }
    kio_capture_init(&layouts);
    status = kio_capture_call(&layouts, (enum kio_dev)r->dev, play->kio->branch,
                              (unsigned long)r->args[0], at[0], play_read_block,
                              &block);
    if (status == BELL_OK && n && layouts.n_blobs > n) {
        fill_gaps(&layouts, n, at, &block, GAP_BYTES);
        status = kio_capture_call(&layouts, (enum kio_dev)r->dev,
                                  play->kio->branch, (unsigned long)r->args[0],
                                  at[0], play_read_block, &block);
    }
    /* Whoever answers follows pointers: only to what is in the block. */
    if (status == BELL_OK && !kio_capture_is_whole(&layouts, &field))
        tell_play(play, "%s: %s points to more than the cassette holds",
                  layouts.call.name, field);
    else if (status == BELL_OK)
        status = call_again(play, in, n, at, &layouts);
    kio_capture_fini(&layouts);
    host_free(data);
    return status;
}

/* ---- mappings --------------------------------------------------------- */

/* A fixed place is the recorded program's: ours is the same part of the same
 * mapping, or else one that we reserve. */
static bell_status
play_mmap(struct play *play)
{
    const struct cas_record *r = play->record;
    bool failed_then = r->result < 0 && r->result > -4096;
    int flags = (int)(uint32_t)r->args[2];
    bool fixed = (flags & MAP_FIXED) != 0;
    struct piece *within =
        fixed ? find_piece(play, r->args[0], r->args[1]) : NULL;
    void *addr = NULL, *own = NULL;
    int result;

    if (within)
        addr = within->now + (r->args[0] - within->recorded);
    else if (fixed)
        addr = own = play_reserve(r->args[0], r->args[1], PROT_NONE);
    if (addr == MAP_FAILED) {
        tell_play(play, "of %" PRIu64 " bytes: no room for it now", r->args[1]);
        return BELL_OK;
    }
    result = play->kio->ops->mmap(
        play->kio, &addr, r->args[1], (int)(r->args[2] >> 32), flags,
        r->fd < 0 ? -1 : fd_now(play, r->fd), r->args[3]);
    if ((result < 0) != failed_then)
        differs(play, "result", (uint64_t)r->result, (uint64_t)result);
    if (result < 0) {
        if (own)
            munmap(own, r->args[1]);
        return BELL_OK;
    }
    return within ? BELL_OK
                  : add_piece(play, failed_then ? 0 : (uint64_t)r->result,
                              r->args[1], addr);
}

/* What no piece holds is unmapped from a reservation: the form is to hear of
 * the call, and to unmap nothing else. */
static bell_status
play_munmap(struct play *play)
{
    const struct cas_record *r = play->record;
    uint64_t n = r->args[1];
    struct piece *in = find_piece(play, r->args[0], n), was;
    uint64_t before;
    void *own;

    if (in && n) {
        was = *in;
        before = r->args[0] - was.recorded;
        *in = play->pieces[--play->n_pieces];
        BELL_TRY(add_piece(play, was.recorded, before, was.now));
        BELL_TRY(add_piece(play, r->args[0] + n, was.size_bytes - before - n,
                           was.now + before + n));
        (void)play->kio->ops->munmap(play->kio, was.now + before, n);
        return BELL_OK;
    }
    own = play_reserve(0, n, PROT_NONE);
    if (own == MAP_FAILED)
        tell_play(play, "of %" PRIu64 " bytes that are not mapped", n);
    else
        (void)play->kio->ops->munmap(play->kio, own, n);
    return BELL_OK;
}

static bell_status
play_read(struct play *play)
{
    const struct cas_blob *was = cas_find(play->record, CAS_CONTENTS);
    char *path = play_text(cas_find(play->record, CAS_PATH));
    char *now = host_calloc(1, was ? was->size_bytes + 1u : 1);
    int n;

    if (!path || !now) {
        host_free(path);
        host_free(now);
        return play_no_memory();
    }
    n = play->kio->ops->read_file(play->kio, path, now,
                                  was ? was->size_bytes + 1u : 1);
    if (n != play->record->result)
        differs(play, path, (uint64_t)play->record->result, (uint64_t)n);
    else if (was && n > 0 && memcmp(now, was->data, (size_t)n) != 0)
        differs(play, path, 0, 1);
    host_free(path);
    host_free(now);
    return BELL_OK;
}

/* Tells the form of the doorbell, with the recorded contents as regions. */
static bell_status
play_doorbell(struct play *play)
{
    const struct cas_record *r = play->record;
    struct kio_region *regions;
    struct kio_bell bell = {.value = r->args[1],
                            .value_bytes = (uint32_t)r->args[2],
                            .n_regions = r->n_blobs};
    uint32_t i;

    regions = host_calloc(r->n_blobs, sizeof(*regions));
    if (!regions)
        return play_no_memory();
    for (i = 0; i < r->n_blobs; i++)
        regions[i] =
            (struct kio_region){r->blobs[i].data, r->blobs[i].addr,
                                r->blobs[i].size_bytes, r->blobs[i].extra};
    bell.regions = regions;
    kio_doorbell(play->kio, &bell);
    host_free(regions);
    return BELL_OK;
}

static void
play_poll(struct play *play)
{
    const struct cas_record *r = play->record;
    short revents; /* the result is compared */
    int result =
        play->kio->ops->poll(play->kio, fd_now(play, r->fd), (short)r->args[0],
                             (int)r->args[1], &revents);

    if (result != r->result)
        differs(play, "result", (uint64_t)r->result, (uint64_t)result);
}

/* Recorded facts are told again, where somebody listens: bytes that were hashed
 * alone by their hash. */
static bell_status
play_told(struct play *play)
{
    const struct cas_record *r = play->record;
    const struct cas_blob *contents = cas_find(r, CAS_CONTENTS);
    struct kio_told told = {
        .kind = (uint32_t)r->args[3],
        .va = r->args[0],
        .size_bytes = r->args[1],
        .hash = r->args[2],
    };
    uint8_t *copy = NULL;
    char *name;

    if (!play->kio->ops->told)
        return BELL_OK;
    name = play_text(cas_find(r, CAS_TEXT));
    if (contents && contents->size_bytes == told.size_bytes)
        copy = host_alloc(contents->size_bytes ? contents->size_bytes : 1);
    if (!name || (contents && contents->size_bytes == told.size_bytes && !copy))
        goto no_memory;
    if (copy)
        memcpy(copy, contents->data, contents->size_bytes);
    told.name = name;
    told.data = copy;
    if (play->kio->ops->told(play->kio, &told) < 0)
        tell_play(play, "%s", kio_broken(play->kio));
    host_free(copy);
    host_free(name);
    return BELL_OK;
no_memory:
    host_free(name);
    return play_no_memory();
}

/* ---- all of it -------------------------------------------------------- */

static bell_status
play_record(struct play *play)
{
    play->report.n_calls += play->record->kind != CAS_TOLD;
    play->call = NULL;
    switch (play->record->kind) {
    case CAS_OPEN:
        return play_open(play);
    case CAS_CLOSE:
        play_close(play);
        return BELL_OK;
    case CAS_IOCTL:
        return play_ioctl(play);
    case CAS_MMAP:
        return play_mmap(play);
    case CAS_MUNMAP:
        return play_munmap(play);
    case CAS_POLL:
        play_poll(play);
        return BELL_OK;
    case CAS_READ:
        return play_read(play);
    case CAS_DOORBELL:
        return play_doorbell(play);
    case CAS_TOLD:
        return play_told(play);
    default:
        play->report.n_calls--;
        return BELL_OK;
    }
}

bell_status
cas_play(const struct cas_reader *reader, struct kio *kio, cas_play_fn *fn,
         void *user, struct cas_play_report *out_report)
{
    struct play play = {.kio = kio, .fn = fn, .user = user};
    bell_status status = BELL_OK;
    uint32_t n = cas_reader_count(reader);

    assert(reader && kio && fn);
    map_init(&play.fds);
    map_init(&play.devs);
    map_init(&play.given);
    map_init(&play.names);
    for (play.index = 0; play.index < n && status == BELL_OK; play.index++) {
        play.record = cas_reader_get(reader, play.index);
        status = play_record(&play);
    }
    map_fini(&play.fds);
    map_fini(&play.devs);
    map_fini(&play.given);
    map_fini(&play.names);
    host_free(play.uuids);
    host_free(play.pieces);
    *out_report = play.report;
    return status;
}
