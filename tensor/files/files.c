/* Files of tensors: opening them, and what is in them by name. */
#include "tensor/files/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/once.h"
#include "tensor/tensor_internal.h"

/* ---- filling in ---- */

bell_status
file_check_name(const struct bell_file *file, const char *name, size_t n_bytes)
{
    size_t i;

    for (i = 0; i < n_bytes; i++) {
        if (name[i] < ' ' || name[i] > '~')
            return bell_fail(BELL_E_IO, "%s: a name with byte 0x%02x",
                             file->path, (uint8_t)name[i]);
    }
    return BELL_OK;
}

static uint64_t
name_key(const char *name)
{
    return hash_bytes(name, strlen(name), 0);
}

/* Elements of the shape; false: too many. */
static bool
count_elems(const struct bell_file_entry *entry, uint64_t *out_n)
{
    uint64_t n = 1;
    uint32_t i;

    for (i = 0; i < entry->ndim; i++) {
        if (entry->shape[i] < 0 ||
            __builtin_mul_overflow(n, (uint64_t)entry->shape[i], &n) ||
            n > (uint64_t)1 << 48)
            return false;
    }
    *out_n = n;
    return true;
}

static BELL_MUST_CHECK bell_status
check_tensor(const struct bell_file *file, const struct file_tensor *tensor)
{
    const struct bell_file_entry *entry = &tensor->entry;
    const struct file_type_info *info = tensor->info;
    uint64_t place = (uint64_t)(tensor->data - file->data), n, row;

    if (!count_elems(entry, &n))
        return bell_fail(BELL_E_IO, "%s: tensor '%.80s' has too many elements",
                         file->path, entry->name);
    row = entry->ndim ? (uint64_t)entry->shape[entry->ndim - 1] : 1;
    if (info->n_elems && row % info->n_elems)
        return bell_fail(BELL_E_IO,
                         "%s: tensor '%.80s': rows of %llu elements are no "
                         "blocks of %u",
                         file->path, entry->name, (unsigned long long)row,
                         info->n_elems);
    if (info->n_elems && n / info->n_elems * info->n_bytes != entry->size_bytes)
        return bell_fail(BELL_E_IO,
                         "%s: tensor '%.80s' of %llu elements of %s has %llu "
                         "bytes",
                         file->path, entry->name, (unsigned long long)n,
                         info->name, (unsigned long long)entry->size_bytes);
    if (place > file->size_bytes ||
        entry->size_bytes > file->size_bytes - place)
        return bell_fail(BELL_E_IO,
                         "%s: tensor '%.80s' ends at byte %llu, the file has "
                         "%zu",
                         file->path, entry->name,
                         (unsigned long long)(place + entry->size_bytes),
                         file->size_bytes);
    if (bell_file_find(file, entry->name))
        return bell_fail(BELL_E_IO, "%s: two tensors are called '%.80s'",
                         file->path, entry->name);
    return BELL_OK;
}

/* Names of one hash are not told apart: the second is refused. */
bell_status
file_add_tensor(struct bell_file *file, struct file_tensor *tensor)
{
    char *name = (char *)(uintptr_t)tensor->entry.name;
    bell_status status = check_tensor(file, tensor);

    if (status == BELL_OK &&
        (host_grow((void **)&file->tensors, &file->cap_tensors,
                   file->n_tensors + 1, sizeof(*file->tensors)) != 0 ||
         map_put(&file->tensor_of, name_key(name), file->n_tensors) != 0))
        status = bell_fail(BELL_E_NO_MEMORY, "%s: no memory for tensor %zu",
                           file->path, file->n_tensors);
    if (status != BELL_OK) {
        host_free(name);
        return status;
    }
    file->tensors[file->n_tensors++] = *tensor;
    return BELL_OK;
}

bell_status
file_add_meta(struct bell_file *file, char *key, const struct file_value *value)
{
    bell_status status = BELL_OK;

    if (map_get(&file->meta_of, name_key(key)))
        status = bell_fail(BELL_E_IO, "%s: the key '%.80s' is there twice",
                           file->path, key);
    else if (host_grow((void **)&file->metas, &file->cap_metas,
                       file->n_metas + 1, sizeof(*file->metas)) != 0 ||
             map_put(&file->meta_of, name_key(key), file->n_metas) != 0)
        status = bell_fail(BELL_E_NO_MEMORY, "%s: no memory for key %zu",
                           file->path, file->n_metas);
    if (status != BELL_OK) {
        host_free(key);
        host_free(value->places);
        return status;
    }
    file->metas[file->n_metas++] = (struct file_meta){key, *value};
    return BELL_OK;
}

/* ---- opening ---- */

static BELL_MUST_CHECK bell_status
map_file(struct bell_file *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    bell_status status = BELL_OK;
    struct stat st;
    void *data;

    if (fd < 0)
        return bell_fail_file(file->path, "cannot open");
    if (fstat(fd, &st) != 0) {
        status = bell_fail_file(file->path, "cannot look at");
    } else if (!S_ISREG(st.st_mode) || st.st_size < 16) {
        status =
            bell_fail(BELL_E_IO, "%s: %s", file->path,
                      S_ISREG(st.st_mode) ? "is too short for a file of tensors"
                                          : "is no file");
    } else {
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            status = bell_fail_file(file->path, "cannot map");
        } else {
            file->data = data;
            file->size_bytes = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

static BELL_MUST_CHECK bell_status
read_file(struct bell_file *file)
{
    BELL_TRY(map_file(file));
    if (memcmp(file->data, "GGUF", 4) == 0)
        return file_read_gguf(file);
    if (file->data[8] == '{')
        return file_read_safetensors(file);
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: is neither GGUF nor safetensors, from how it begins",
                     file->path);
}

/* Whether a call may look into it. */
static bool
is_open(const char *call, const struct bell_file *file)
{
    if (file && file->is_open)
        return true;
    (void)bell_fail_at(call, file ? BELL_BAD_STATE : BELL_BAD_MISSING,
                       "%s: the file %s", call,
                       file ? "was closed" : "is NULL");
    return false;
}

bell_status
bell_file_open(const char *path, struct bell_file **out_file)
{
    struct bell_file *file;
    bell_status status;

    if (!path || !out_file)
        return bell_fail(BELL_BAD_MISSING, "bell_file_open: %s is NULL",
                         path ? "the result" : "the path");
    *out_file = NULL;
    file = once_alloc(sizeof(*file));
    if (!file)
        return bell_fail(BELL_E_NO_MEMORY, "bell_file_open: out of memory");
    file->is_open = true;
    map_init(&file->tensor_of);
    map_init(&file->meta_of);
    file->path = host_strdup(path);
    status = file->path
                 ? read_file(file)
                 : bell_fail(BELL_E_NO_MEMORY, "bell_file_open: out of memory");
    if (status != BELL_OK) {
        bell_file_close(file);
        bell_error_frame(__func__);
        return status;
    }
    *out_file = file;
    return BELL_OK;
}

void
bell_file_close(struct bell_file *file)
{
    size_t i;

    if (!file || !is_open(__func__, file))
        return;
    for (i = 0; i < file->n_tensors; i++)
        host_free((void *)(uintptr_t)file->tensors[i].entry.name);
    for (i = 0; i < file->n_metas; i++) {
        host_free(file->metas[i].key);
        host_free(file->metas[i].value.places);
    }
    file_free_safetensors(file);
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->size_bytes);
    map_fini(&file->tensor_of);
    map_fini(&file->meta_of);
    host_free(file->tensors);
    host_free(file->metas);
    host_free(file->path);
    once_end(file, sizeof(*file));
}

/* ---- tensors ---- */

uint32_t
bell_file_count(const struct bell_file *file)
{
    return is_open(__func__, file) ? (uint32_t)file->n_tensors : 0;
}

const struct bell_file_entry *
bell_file_at(const struct bell_file *file, uint32_t i)
{
    return is_open(__func__, file) && i < file->n_tensors
               ? &file->tensors[i].entry
               : NULL;
}

static const struct file_tensor *
find_tensor(const struct bell_file *file, const char *name)
{
    uint64_t *found = name ? map_get(&file->tensor_of, name_key(name)) : NULL;

    if (!found || strcmp(file->tensors[*found].entry.name, name) != 0)
        return NULL;
    return &file->tensors[*found];
}

const struct bell_file_entry *
bell_file_find(const struct bell_file *file, const char *name)
{
    const struct file_tensor *tensor =
        is_open(__func__, file) ? find_tensor(file, name) : NULL;

    return tensor ? &tensor->entry : NULL;
}

struct bell_tensor *
bell_file_tensor(struct bell_context *ctx, const struct bell_file *file,
                 const char *name)
{
    const struct file_tensor *tensor;
    const struct bell_file_entry *entry;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!is_open(__func__, file))
        return tensor_fail_told(ctx);
    tensor = find_tensor(file, name);
    if (!tensor)
        return tensor_fail(ctx, __func__, BELL_BAD_NAME,
                           "%s: no tensor '%.80s'", file->path,
                           name ? name : "(null)");
    entry = &tensor->entry;
    if (tensor->info->type == FILE_UNKNOWN)
        return tensor_fail(ctx, __func__, BELL_E_UNSUPPORTED,
                           "%s: tensor '%.80s' is of type %s", file->path, name,
                           entry->type);
    if (tensor->info->type == FILE_PLAIN)
        return bell_from_data(ctx, entry->dtype, entry->shape, entry->ndim,
                              tensor->data);
    return file_unpack(ctx, tensor);
}

/* ---- values ---- */

static const struct file_value *
find_value(const char *call, const struct bell_file *file, const char *key)
{
    uint64_t *found = is_open(call, file) && key
                          ? map_get(&file->meta_of, name_key(key))
                          : NULL;

    if (!found || strcmp(file->metas[*found].key, key) != 0)
        return NULL;
    return &file->metas[*found].value;
}

static bool
get_int(const struct file_value *value, int64_t *out_value)
{
    if (!value || value->kind != FILE_INT)
        return false;
    *out_value = value->i;
    return true;
}

static bool
get_float(const struct file_value *value, double *out_value)
{
    if (!value || (value->kind != FILE_INT && value->kind != FILE_FLOAT))
        return false;
    *out_value = value->kind == FILE_INT ? (double)value->i : value->f;
    return true;
}

bool
bell_file_int(const struct bell_file *file, const char *key, int64_t *out_value)
{
    return get_int(find_value(__func__, file, key), out_value);
}

bool
bell_file_float(const struct bell_file *file, const char *key,
                double *out_value)
{
    return get_float(find_value(__func__, file, key), out_value);
}

bool
bell_file_str(const struct bell_file *file, const char *key,
              const char **out_text, size_t *out_size_bytes)
{
    const struct file_value *value = find_value(__func__, file, key);

    if (!value || value->kind != FILE_STR)
        return false;
    *out_text = value->text;
    *out_size_bytes = value->n;
    return true;
}

static const struct file_value *
find_list(const char *call, const struct bell_file *file, const char *key,
          uint64_t i)
{
    const struct file_value *value = find_value(call, file, key);

    return value && value->kind == FILE_LIST && i < value->n ? value : NULL;
}

uint64_t
bell_file_list(const struct bell_file *file, const char *key)
{
    const struct file_value *value = find_value(__func__, file, key);

    return value && value->kind == FILE_LIST ? value->n : 0;
}

/* Item i of a list of numbers. */
static bool
find_number(const char *call, const struct bell_file *file, const char *key,
            uint64_t i, struct file_value *out_value)
{
    const struct file_value *list = find_list(call, file, key, i);

    return list && list->item_kind != FILE_STR &&
           file_gguf_number(list->item_type,
                            list->items + i * file_gguf_bytes(list->item_type),
                            out_value);
}

bool
bell_file_list_int(const struct bell_file *file, const char *key, uint64_t i,
                   int64_t *out_value)
{
    struct file_value value;

    return find_number(__func__, file, key, i, &value) &&
           get_int(&value, out_value);
}

bool
bell_file_list_float(const struct bell_file *file, const char *key, uint64_t i,
                     double *out_value)
{
    struct file_value value;

    return find_number(__func__, file, key, i, &value) &&
           get_float(&value, out_value);
}

bool
bell_file_list_str(const struct bell_file *file, const char *key, uint64_t i,
                   const char **out_text, size_t *out_size_bytes)
{
    const struct file_value *list = find_list(__func__, file, key, i);
    uint64_t n;

    if (!list || list->item_kind != FILE_STR)
        return false;
    memcpy(&n, file->data + list->places[i], sizeof(n));
    *out_text = (const char *)file->data + list->places[i] + sizeof(n);
    *out_size_bytes = n;
    return true;
}
