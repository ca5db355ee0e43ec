/* Bundles: other weights, from files of safetensors. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/regular_file.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_file.h"

bell_status
bundle_check_renewable(const char *name)
{
    switch (bundle_naming(name)) {
    case BUNDLE_UNNAMED:
        return bell_fail(BELL_BAD_VALUE,
                         "bundle: weight '%.60s' was saved without a name, and "
                         "is not to be replaced",
                         name);
    case BUNDLE_CONSTANT:
        return bell_fail(BELL_BAD_VALUE,
                         "bundle: '%.60s' is a constant of the function, and "
                         "is not to be replaced",
                         name);
    case BUNDLE_NAMED:
    default:
        return BELL_OK;
    }
}

uint32_t
bundle_first_name(const struct bundle_file *f, uint32_t weight)
{
    const struct bundle_value *v = &f->values[weight];
    uint32_t i;

    for (i = 0; i < weight; i++) {
        if (f->values[i].kind == BUNDLE_WEIGHT &&
            f->values[i].data_offset == v->data_offset &&
            f->values[i].size_bytes == v->size_bytes)
            break;
    }
    return i;
}

/* "float32 (4, 784)" */
static void
describe(const char *dtype, const uint64_t *shape, uint32_t ndim, char *text,
         size_t size_bytes)
{
    size_t n = (size_t)snprintf(text, size_bytes, "%s (", dtype);
    uint32_t i;

    for (i = 0; i < ndim && n < size_bytes; i++)
        n += (size_t)snprintf(text + n, size_bytes - n, "%s%llu", i ? ", " : "",
                              (unsigned long long)shape[i]);
    if (n < size_bytes)
        snprintf(text + n, size_bytes - n, ")");
}

/* A weight, or else a state; n_values: there is neither. */
static uint32_t
find_value(const struct bundle_file *f, const char *name)
{
    uint32_t state = f->n_values, i;

    for (i = 0; i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];

        if (strcmp(f->names + v->name, name) != 0)
            continue;
        if (v->kind == BUNDLE_WEIGHT)
            return i;
        if (v->kind == BUNDLE_STATE)
            state = i;
    }
    return state;
}

/* The tensor can be that value's content. */
static bell_status
check_entry(const struct bundle_file *f, const struct safetensors_entry *e,
            uint32_t number)
{
    const struct bundle_value *v = &f->values[number];
    const char *dtype = safetensors_dtype(e->type), *wanted;
    char is[200], wants[200];
    uint32_t size_bytes, i;
    bool same;

    if (number == f->n_values)
        return bell_fail(BELL_BAD_NAME,
                         "it has '%.80s', which is not a weight or state of "
                         "the bundle",
                         e->name);
    if (v->kind == BUNDLE_WEIGHT)
        BELL_TRY(bundle_check_renewable(e->name));
    wanted = bundle_dtype(v->dtype, &size_bytes);
    same = dtype && strcmp(dtype, wanted) == 0 && e->ndim == v->ndim;
    for (i = 0; same && i < v->ndim; i++)
        same = e->shape[i] == v->shape[i];
    if (!same) {
        describe(dtype ? dtype : e->type, e->shape, e->ndim, is, sizeof(is));
        describe(wanted, v->shape, v->ndim, wants, sizeof(wants));
        return bell_fail(BELL_BAD_SHAPE, "'%.80s' is %s; the bundle's is %s",
                         e->name, is, wants);
    }
    if (e->size_bytes != v->size_bytes)
        return bell_fail(BELL_E_IO, "'%.80s' has %llu bytes, expected %llu",
                         e->name, (unsigned long long)e->size_bytes,
                         (unsigned long long)v->size_bytes);
    return BELL_OK;
}

/* Every weight that has a name is there, under one of its names; by value,
 * entries[] is 1 + the number of its tensor. */
static bell_status
check_all(const struct bundle_file *f, const uint32_t *entries)
{
    uint32_t i;

    for (i = 0; i < f->n_values; i++) {
        const char *name = f->names + f->values[i].name;

        if (f->values[i].kind != BUNDLE_WEIGHT ||
            entries[bundle_first_name(f, i)] ||
            bundle_naming(name) == BUNDLE_CONSTANT)
            continue;
        if (bundle_naming(name) == BUNDLE_UNNAMED)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "the bundle has a weight '%.60s', which was saved "
                             "without a name: save it anew with names",
                             name);
        return bell_fail(BELL_BAD_NAME,
                         "it lacks '%.80s', a weight of the bundle", name);
    }
    return BELL_OK;
}

/* Notes that tensor number `i` is there. Two that are one weight are the
 * same. */
static bell_status
note_entry(const struct bundle_file *f, const struct bundle_weights *w,
           uint32_t i, uint32_t *entries)
{
    const struct safetensors_entry *e = &w->list.entries[i], *other;
    uint32_t number = w->numbers[i];
    const uint8_t *bytes = w->map;

    if (f->values[number].kind == BUNDLE_WEIGHT)
        number = bundle_first_name(f, number);
    if (!entries[number]) {
        entries[number] = i + 1;
        return BELL_OK;
    }
    other = &w->list.entries[entries[number] - 1];
    if (memcmp(bytes + e->offset, bytes + other->offset, e->size_bytes) == 0)
        return BELL_OK;
    return bell_fail(BELL_BAD_VALUE,
                     "'%.60s' and '%.60s' are one weight of the bundle, and "
                     "differ",
                     other->name, e->name);
}

static bell_status
match(const struct bundle_file *f, struct bundle_weights *w)
{
    uint32_t *entries = host_calloc((size_t)f->n_values + 1, sizeof(*entries));
    bell_status status = BELL_OK;
    uint32_t i;

    w->numbers = host_calloc((size_t)w->list.n_entries + 1, sizeof(uint32_t));
    if (!entries || !w->numbers)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory for its names");
    for (i = 0; status == BELL_OK && i < w->list.n_entries; i++) {
        w->numbers[i] = find_value(f, w->list.entries[i].name);
        status = check_entry(f, &w->list.entries[i], w->numbers[i]);
        if (status == BELL_OK)
            status = note_entry(f, w, i, entries);
    }
    if (status == BELL_OK)
        status = check_all(f, entries);
    host_free(entries);
    return status;
}

static bell_status
map_weights(const char *path, struct bundle_weights *w)
{
    struct regular_file file;
    int error;

    BELL_TRY(regular_file_open(path, &file));
    if (!file.size_bytes) {
        close(file.fd);
        return bell_fail(BELL_E_IO, "%s: is empty", path);
    }
    w->map =
        mmap(NULL, (size_t)file.size_bytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
    error = errno;
    close(file.fd);
    if (w->map == MAP_FAILED) {
        w->map = NULL;
        return bell_fail_errno(BELL_E_IO, error, "%s: %s", path,
                               strerror(error));
    }
    w->map_bytes = (size_t)file.size_bytes;
    return BELL_OK;
}

bell_status
bundle_weights_open(const struct bundle_file *f, const char *path,
                    const struct bundle_check *check,
                    struct bundle_weights *out)
{
    struct bundle_weights w = {.map = NULL};
    bell_status status = BELL_OK;

    BELL_TRY(map_weights(path, &w));
    if (check->fn)
        status = check->fn(check->user, path, w.map, w.map_bytes);
    if (status != BELL_OK) {
        bundle_weights_close(&w);
        return status;
    }
    status = safetensors_read(w.map, w.map_bytes, &w.list);
    if (status == BELL_OK)
        status = match(f, &w);
    if (status != BELL_OK) {
        bell_error_prefix("%s", path);
        bundle_weights_close(&w);
        return status;
    }
    *out = w;
    return BELL_OK;
}

void
bundle_weights_close(struct bundle_weights *w)
{
    safetensors_fini(&w->list);
    host_free(w->numbers);
    if (w->map)
        munmap(w->map, w->map_bytes);
    w->map = NULL;
    w->numbers = NULL;
}
