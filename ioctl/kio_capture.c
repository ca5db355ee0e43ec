/* Following the pointers in call arguments. */
#include "ioctl/kio_capture.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void
kio_capture_init(struct kio_capture *capture)
{
    memset(capture, 0, sizeof(*capture));
}

void
kio_capture_fini(struct kio_capture *capture)
{
    host_free(capture->buf);
    memset(capture, 0, sizeof(*capture));
}

/* Room for size_bytes more; moves the blobs' data along with the buffer. */
static bool
capture_reserve(struct kio_capture *capture, size_t size_bytes)
{
    size_t need = capture->used_bytes + ((size_bytes + 7) & ~(size_t)7);
    size_t cap = capture->cap_bytes ? capture->cap_bytes : 1024;
    uint8_t *old = capture->buf, *buf;
    uint32_t i;

    assert(capture->used_bytes <= capture->cap_bytes);
    if (need <= capture->cap_bytes)
        return true;
    while (cap < need)
        cap *= 2;
    buf = host_realloc(old, cap);
    if (!buf)
        return false;
    for (i = 0; i < capture->n_blobs; i++)
        capture->blobs[i].data = buf + (capture->blobs[i].data - old);
    capture->buf = buf;
    capture->cap_bytes = cap;
    return true;
}

static bool
copy(kio_read_fn *read, void *user, uint64_t addr, void *dst, size_t n)
{
    if (read)
        return read(user, addr, dst, n);
    memcpy(dst, (const void *)(uintptr_t)addr, n);
    return true;
}

/* Appends a copied blob; one that cannot be read is empty. */
static bell_status
capture_append(struct kio_capture *capture, const struct kio_blob *blob,
               kio_read_fn *read, void *user)
{
    struct kio_blob *slot;

    assert(capture->n_blobs <= KIO_CAPTURE_BLOBS);
    if (!capture_reserve(capture, blob->size_bytes))
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for %u bytes of a call's argument",
                         blob->size_bytes);
    slot = &capture->blobs[capture->n_blobs++];
    *slot = *blob;
    slot->data = capture->buf + capture->used_bytes;
    if (!copy(read, user, slot->addr, slot->data, slot->size_bytes))
        slot->size_bytes = 0;
    capture->used_bytes += ((size_t)slot->size_bytes + 7) & ~(size_t)7;
    return BELL_OK;
}

/* What the pointer `field` of the blob `parent` leads to: false if nothing. */
static bool
find_pointee(const struct kio_capture *capture, uint32_t parent,
             const struct kio_field *field, struct kio_blob *out_blob,
             uint64_t *out_bytes)
{
    const struct kio_blob *outer = &capture->blobs[parent];
    struct kio_blob blob = {.parent = parent,
                            .field_offset_bytes = field->offset_bytes};

    assert(parent < capture->n_blobs);
    if (!kio_field_leads(field) || field->offset_bytes + 8u > outer->size_bytes)
        return false;
    memcpy(&blob.addr, outer->data + field->offset_bytes, 8);
    if (!blob.addr)
        return false;
    blob.desc =
        kio_pointee_struct(capture->dev, capture->branch, outer->desc, field,
                           outer->data, outer->size_bytes, &blob.name);
    *out_bytes = kio_pointee_bytes(outer->desc, field, outer->data,
                                   outer->size_bytes, blob.desc);
    blob.size_bytes = (uint32_t)(*out_bytes < KIO_CAPTURE_BLOB_BYTES
                                     ? *out_bytes
                                     : KIO_CAPTURE_BLOB_BYTES);
    *out_blob = blob;
    return blob.size_bytes != 0;
}

/* Appends what the pointers of the blob `parent` lead to. */
static bell_status
follow(struct kio_capture *capture, uint32_t parent, bool view,
       kio_read_fn *read, void *user)
{
    const struct kio_struct *desc = capture->blobs[parent].desc;
    struct kio_blob blob;
    uint64_t n;
    uint32_t i;

    assert(parent < capture->n_blobs);
    for (i = 0; desc && i < desc->n_fields; i++) {
        if (!find_pointee(capture, parent, &desc->fields[i], &blob, &n) ||
            capture->n_blobs == KIO_CAPTURE_BLOBS)
            continue;
        if (view) {
            blob.data = (uint8_t *)(uintptr_t)blob.addr;
            capture->blobs[capture->n_blobs++] = blob;
        } else {
            BELL_TRY(capture_append(capture, &blob, read, user));
        }
    }
    return BELL_OK;
}

/* The argument itself and, in turn, all that it leads to; the array of blobs
 * bounds it. */
static bell_status
capture_all(struct kio_capture *capture, enum kio_dev dev, uint32_t branch,
            unsigned long request, const void *arg, bool view,
            kio_read_fn *read, void *user)
{
    struct kio_blob blob = {.addr = (uintptr_t)arg};
    uint32_t i;

    assert(!view || !read);
    capture->n_blobs = 0;
    capture->used_bytes = 0;
    capture->dev = dev;
    capture->branch = branch;
    kio_describe(dev, branch, request, &capture->call);
    blob.desc = capture->call.args;
    blob.size_bytes = capture->call.size_bytes;
    if (!arg || !blob.size_bytes)
        return BELL_OK;
    if (view) {
        blob.data = (uint8_t *)(uintptr_t)arg;
        capture->blobs[capture->n_blobs++] = blob;
    } else {
        BELL_TRY(capture_append(capture, &blob, read, user));
    }
    for (i = 0; i < capture->n_blobs; i++)
        BELL_TRY(follow(capture, i, view, read, user));
    return BELL_OK;
}

void
kio_capture_view(struct kio_capture *capture, enum kio_dev dev, uint32_t branch,
                 unsigned long request, void *arg)
{
    bell_status status =
        capture_all(capture, dev, branch, request, arg, true, NULL, NULL);

    (void)status; /* nothing is allocated */
}

bell_status
kio_capture_call(struct kio_capture *capture, enum kio_dev dev, uint32_t branch,
                 unsigned long request, const void *arg, kio_read_fn *read,
                 void *user)
{
    return capture_all(capture, dev, branch, request, arg, false, read, user);
}

bool
kio_capture_is_whole(const struct kio_capture *capture, const char **out_field)
{
    uint32_t i, f, k;

    assert(capture->n_blobs <= KIO_CAPTURE_BLOBS);
    for (i = 0; i < capture->n_blobs; i++) {
        const struct kio_struct *desc = capture->blobs[i].desc;
        for (f = 0; desc && f < desc->n_fields; f++) {
            const struct kio_field *field = &desc->fields[f];
            struct kio_blob blob;
            uint64_t n;
            if (!find_pointee(capture, i, field, &blob, &n))
                continue;
            for (k = i + 1; k < capture->n_blobs; k++) {
                if (capture->blobs[k].parent == i &&
                    capture->blobs[k].field_offset_bytes == field->offset_bytes)
                    break;
            }
            if (k < capture->n_blobs && capture->blobs[k].size_bytes == n)
                continue;
            *out_field = field->name;
            return false;
        }
    }
    return true;
}

bell_status
kio_capture_again(const struct kio_capture *before, struct kio_capture *after,
                  kio_read_fn *read, void *user)
{
    uint32_t i;

    assert(before->n_blobs <= KIO_CAPTURE_BLOBS);
    after->n_blobs = 0;
    after->used_bytes = 0;
    after->call = before->call;
    after->dev = before->dev;
    after->branch = before->branch;
    for (i = 0; i < before->n_blobs; i++)
        BELL_TRY(capture_append(after, &before->blobs[i], read, user));
    return BELL_OK;
}

void
kio_capture_describe(struct kio_capture *capture, enum kio_dev dev,
                     uint32_t branch)
{
    uint32_t i, f;

    assert(capture->n_blobs <= KIO_CAPTURE_BLOBS);
    for (i = 1; i < capture->n_blobs; i++) {
        struct kio_blob *blob = &capture->blobs[i];
        const struct kio_blob *outer;
        if (blob->parent >= i)
            continue;
        outer = &capture->blobs[blob->parent];
        for (f = 0; outer->desc && f < outer->desc->n_fields; f++) {
            const struct kio_field *field = &outer->desc->fields[f];
            if (kio_field_leads(field) &&
                field->offset_bytes == blob->field_offset_bytes)
                blob->desc = kio_pointee_struct(dev, branch, outer->desc, field,
                                                outer->data, outer->size_bytes,
                                                &blob->name);
        }
    }
}

size_t
kio_capture_format(const struct kio_capture *capture, char *buf,
                   size_t buf_bytes)
{
    uint32_t i;
    size_t len;
    int n;

    assert(buf_bytes > 0);
    n = snprintf(buf, buf_bytes, "%s(", capture->call.name);
    len = n > 0 && (size_t)n < buf_bytes ? (size_t)n : buf_bytes - 1;
    for (i = 0; i < capture->n_blobs; i++) {
        const struct kio_blob *blob = &capture->blobs[i];
        const char *name = blob->name        ? blob->name
                           : i && blob->desc ? blob->desc->name
                           : i               ? "bytes"
                                             : "";
        n = snprintf(buf + len, buf_bytes - len, "%s%s%s", i ? " | " : "", name,
                     i ? ": " : "");
        len += n > 0 ? (size_t)n : 0;
        if (len >= buf_bytes)
            return buf_bytes - 1;
        if (blob->desc)
            len += kio_struct_format(blob->desc, blob->data, blob->size_bytes,
                                     buf + len, buf_bytes - len);
        else
            n = snprintf(buf + len, buf_bytes - len, "%u bytes",
                         blob->size_bytes),
            len += n > 0 ? (size_t)n : 0;
        if (len >= buf_bytes)
            return buf_bytes - 1;
    }
    if (len + 2 <= buf_bytes) {
        buf[len++] = ')';
        buf[len] = '\0';
    }
    return len;
}
