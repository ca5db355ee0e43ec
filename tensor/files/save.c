/* Writing files of tensors: safetensors, .npz and .npy. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/json.h"
#include "base/new_file.h"
#include "tensor/files/files.h"
#include "tensor/files/npy.h"

/* A file that is written. */
struct saver {
    struct new_file file;
    const struct bell_state *state;
    struct zip_writer zip;
    struct json header; /* of safetensors */
};

typedef bell_status save_fn(struct saver *s, const struct file_text *texts,
                            size_t n_texts);

static BELL_MUST_CHECK bell_status
write_bytes(const struct saver *s, const void *data, size_t n_bytes)
{
    const uint8_t *at = data;

    while (n_bytes > 0) {
        ssize_t n = write(s->file.fd, at, n_bytes);
        if (n < 0 && errno != EINTR)
            return bell_fail_file(s->file.path, "cannot write");
        at += n > 0 ? n : 0;
        n_bytes -= n > 0 ? (size_t)n : 0;
    }
    return BELL_OK;
}

/* ---- items ---- */

static enum bell_dtype
dtype_of(const struct bell_state_item *item)
{
    return item->tensor ? bell_dtype_of(item->tensor) : BELL_FLOAT64;
}

/* An item's values in host memory: host_array_fini. */
static BELL_MUST_CHECK bell_status
read_item(const struct bell_state_item *item, struct host_array *out_array)
{
    struct host_array array = {.dtype = dtype_of(item), .n_elems = 1};
    bell_status status;

    if (item->tensor) {
        array.ndim = bell_ndim(item->tensor);
        array.n_elems = bell_numel(item->tensor);
        if (array.ndim)
            memcpy(array.shape, bell_shape(item->tensor),
                   array.ndim * sizeof(int64_t));
    }
    array.size_bytes = array.n_elems * bell_dtype_size(array.dtype);
    array.data = host_alloc(array.size_bytes + 1);
    if (!array.data)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for %zu bytes of '%.80s'",
                         array.size_bytes, item->name);
    if (!item->tensor) {
        memcpy(array.data, item->number, sizeof(double));
    } else {
        status = bell_read(item->tensor, array.data, array.size_bytes);
        if (status != BELL_OK) {
            host_array_fini(&array);
            return status;
        }
    }
    *out_array = array;
    return BELL_OK;
}

/* Names go into JSON and into zip archives: printable ASCII. */
static BELL_MUST_CHECK bell_status
check_items(const struct saver *s)
{
    const char *c;
    uint32_t i;

    for (i = 0; i < s->state->n; i++) {
        for (c = s->state->items[i].name; *c; c++) {
            if (*c < ' ' || *c > '~')
                return bell_fail(BELL_BAD_NAME,
                                 "%s: item %u has a name with byte 0x%02x",
                                 s->file.path, i, (uint8_t)*c);
        }
    }
    return BELL_OK;
}

/* All of them at once: what they share is computed once. */
static BELL_MUST_CHECK bell_status
realize_items(const struct bell_state *state)
{
    struct bell_tensor **list =
        host_calloc(state->n + 1u, sizeof(struct bell_tensor *));
    bell_status status;
    uint32_t i;
    size_t n = 0;

    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u tensors",
                         state->n);
    for (i = 0; i < state->n; i++) {
        if (state->items[i].tensor)
            list[n++] = state->items[i].tensor;
    }
    status = bell_realize(list, n);
    host_free(list);
    return status;
}

/* ---- safetensors ---- */

static void
put_texts(struct json *json, const struct file_text *texts, size_t n)
{
    size_t i;

    json_object(json, "__metadata__");
    for (i = 0; i < n; i++)
        json_str(json, texts[i].key, texts[i].text);
    json_end(json);
}

static BELL_MUST_CHECK bell_status
put_entry(struct saver *s, const struct bell_state_item *item, uint64_t *at)
{
    const char *type = file_safetensors_type(dtype_of(item));
    uint64_t n_bytes = item->tensor ? bell_nbytes(item->tensor) : 8;
    uint32_t ndim = item->tensor ? bell_ndim(item->tensor) : 0, i;

    if (!type)
        return bell_fail(
            BELL_E_UNSUPPORTED, "%s: '%.80s' is %s, which safetensors lack",
            s->file.path, item->name, bell_dtype_name(dtype_of(item)));
    json_object(&s->header, item->name);
    json_str(&s->header, "dtype", type);
    json_array(&s->header, "shape");
    for (i = 0; i < ndim; i++)
        json_int(&s->header, NULL, bell_shape(item->tensor)[i]);
    json_end(&s->header);
    json_array(&s->header, "data_offsets");
    json_uint(&s->header, NULL, *at);
    json_uint(&s->header, NULL, *at + n_bytes);
    json_end(&s->header);
    json_end(&s->header);
    *at += n_bytes;
    return BELL_OK;
}

/* The header, and blanks up to a multiple of 64 bits. */
static BELL_MUST_CHECK bell_status
write_header(struct saver *s)
{
    const char *text = json_text(&s->header);
    uint64_t n_blanks = (8 - s->header.n_bytes % 8) % 8;
    uint64_t n = s->header.n_bytes + n_blanks;

    if (!text)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for its header",
                         s->file.path);
    BELL_TRY(write_bytes(s, &n, sizeof(n)));
    BELL_TRY(write_bytes(s, text, s->header.n_bytes));
    return write_bytes(s, "        ", n_blanks);
}

/* Wide elements first: then each lies at a multiple of its size. */
static bell_status
save_safetensors(struct saver *s, const struct file_text *texts, size_t n_texts)
{
    struct host_array array;
    bell_status status;
    uint64_t at = 0;
    uint32_t pass, i;

    json_init_compact(&s->header);
    if (n_texts)
        put_texts(&s->header, texts, n_texts);
    for (pass = 8; pass > 0; pass /= 2) {
        for (i = 0; i < s->state->n; i++) {
            if (bell_dtype_size(dtype_of(&s->state->items[i])) == pass)
                BELL_TRY(put_entry(s, &s->state->items[i], &at));
        }
    }
    BELL_TRY(write_header(s));
    for (pass = 8; pass > 0; pass /= 2) {
        for (i = 0; i < s->state->n; i++) {
            if (bell_dtype_size(dtype_of(&s->state->items[i])) != pass)
                continue;
            BELL_TRY(read_item(&s->state->items[i], &array));
            status = write_bytes(s, array.data, array.size_bytes);
            host_array_fini(&array);
            BELL_TRY(status);
        }
    }
    return BELL_OK;
}

/* ---- NumPy ---- */

static BELL_MUST_CHECK bell_status
check_npy_type(const struct saver *s, const struct bell_state_item *item)
{
    if (npy_has_type(dtype_of(item)))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: '%.80s' is %s, which NumPy lacks; cast it to float32",
                     s->file.path, item->name, bell_dtype_name(dtype_of(item)));
}

static bell_status
save_npy(struct saver *s, const struct file_text *texts, size_t n_texts)
{
    struct host_array array;
    char header[NPY_HEADER_MAX];
    bell_status status;

    (void)texts;
    (void)n_texts;
    if (s->state->n != 1)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: .npy is a file of one tensor, not of %u",
                         s->file.path, s->state->n);
    BELL_TRY(check_npy_type(s, &s->state->items[0]));
    BELL_TRY(read_item(&s->state->items[0], &array));
    status = write_bytes(s, header, npy_make_header(&array, header));
    if (status == BELL_OK)
        status = write_bytes(s, array.data, array.size_bytes);
    host_array_fini(&array);
    return status;
}

static BELL_MUST_CHECK bell_status
add_member(struct saver *s, const struct bell_state_item *item)
{
    struct zip_part parts[2];
    char header[NPY_HEADER_MAX], name[512];
    struct host_array array;
    bell_status status;

    BELL_TRY(check_npy_type(s, item));
    if (snprintf(name, sizeof(name), "%s.npy", item->name) >= (int)sizeof(name))
        return bell_fail(BELL_BAD_NAME, "%s: '%.80s' is too long a name",
                         s->file.path, item->name);
    BELL_TRY(read_item(item, &array));
    parts[0] = (struct zip_part){header, npy_make_header(&array, header)};
    parts[1] = (struct zip_part){array.data, array.size_bytes};
    status = zip_add(&s->zip, name, parts);
    host_array_fini(&array);
    return status;
}

static bell_status
save_npz(struct saver *s, const struct file_text *texts, size_t n_texts)
{
    bell_status status = BELL_OK;
    uint32_t i;

    (void)texts;
    (void)n_texts;
    s->zip.fd = s->file.fd;
    s->zip.path = s->file.path;
    for (i = 0; i < s->state->n && status == BELL_OK; i++)
        status = add_member(s, &s->state->items[i]);
    return zip_finish(&s->zip, status);
}

/* ---- files ---- */

static save_fn *
find_format(const char *path)
{
    static const struct {
        const char *end;
        save_fn *save;
    } formats[] = {
        {".safetensors", save_safetensors},
        {".npz", save_npz},
        {".npy", save_npy},
    };
    size_t n = strlen(path), i;

    for (i = 0; i < ARRAY_LEN(formats); i++) {
        size_t n_end = strlen(formats[i].end);
        if (n > n_end && strcmp(path + n - n_end, formats[i].end) == 0)
            return formats[i].save;
    }
    return NULL;
}

/* new_file_keep, and it is on the disk: whatever happens to the machine, there
 * is the old file or this one. */
static BELL_MUST_CHECK bell_status
keep_safely(const struct new_file *file)
{
    char folder[NEW_FILE_PATH_MAX];
    const char *slash = strrchr(file->path, '/');
    int fd, failed;

    if (fsync(file->fd) != 0)
        return bell_fail_file(file->path, "cannot write to the disk");
    BELL_TRY(new_file_keep(file));
    snprintf(folder, sizeof(folder), "%.*s",
             slash ? (int)(slash - file->path) + 1 : 1,
             slash ? file->path : ".");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return bell_fail_file(folder, "cannot open the folder");
    failed = fsync(fd) != 0 && errno != EINVAL; /* of some file systems */
    close(fd);
    return failed ? bell_fail_file(folder, "cannot write to the disk")
                  : BELL_OK;
}

bell_status
file_save(const char *path, const struct bell_state *state,
          const struct file_text *texts, size_t n_texts, bool safely)
{
    save_fn *save = find_format(path);
    struct saver s = {.state = state};
    bell_status status;

    if (!save)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: ends in none of .safetensors, .npz and .npy",
                         path);
    BELL_TRY(realize_items(state));
    BELL_TRY(new_file_create(path, &s.file));
    status = check_items(&s);
    if (status == BELL_OK)
        status = save(&s, texts, n_texts);
    if (status == BELL_OK)
        status = safely ? keep_safely(&s.file) : new_file_keep(&s.file);
    if (status != BELL_OK)
        new_file_drop(&s.file);
    close(s.file.fd);
    json_fini(&s.header);
    return status;
}

bell_status
bell_file_save(const char *path, const struct bell_state *state)
{
    if (!path || !state)
        return bell_fail(BELL_BAD_MISSING, "bell_file_save: %s is NULL",
                         path ? "the list" : "the path");
    return file_save(path, state, NULL, 0, false);
}
