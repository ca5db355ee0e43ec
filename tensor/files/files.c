/* Files of tensors: opening them, and what is in them by name. */
#include "tensor/files/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/once.h"
#include "base/text.h"
#include "tensor/core/tensor_internal.h"

/* ---- filling in ---- */

bell_status
file_check_name(const struct bell_file *file, const char *name, size_t n_bytes)
{
    size_t i, n;

    for (i = 0; i < n_bytes; i += n) {
        n = text_name_character(name + i, n_bytes - i);
        if (n == 0)
            return bell_fail(BELL_E_IO,
                             "%s: a name with byte 0x%02x, which is a control "
                             "character or not UTF-8",
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
check_blocks(const struct bell_file *file, const struct file_tensor *tensor,
             uint64_t n)
{
    const struct bell_file_entry *entry = &tensor->entry;
    const struct file_type_info *info = tensor->info;
    uint64_t row = entry->ndim ? (uint64_t)entry->shape[entry->ndim - 1] : 1;

    if (info->n_elems && row % info->n_elems)
        return bell_fail(
            BELL_E_IO,
            "%s: tensor '%.80s': rows of %llu elements are not blocks of %u",
            file->path, entry->name, (unsigned long long)row, info->n_elems);
    if (info->n_elems && n / info->n_elems * info->n_bytes != entry->size_bytes)
        return bell_fail(BELL_E_IO,
                         "%s: tensor '%.80s' of %llu elements of %s has %llu "
                         "bytes",
                         file->path, entry->name, (unsigned long long)n,
                         info->name, (unsigned long long)entry->size_bytes);
    return BELL_OK;
}

/* Bytes from the first element to the end of the last; false: too many, or
 * more elements than places, not counting what is repeated. */
static bool
measure_strides(const struct file_tensor *tensor, uint64_t *out_bytes)
{
    const struct bell_file_entry *entry = &tensor->entry;
    uint64_t last = 0, n = 1, step;
    uint32_t i;

    for (i = 0; i < entry->ndim; i++) {
        if (entry->shape[i] == 0) {
            *out_bytes = 0;
            return true;
        }
    }
    for (i = 0; i < entry->ndim; i++) {
        if (tensor->strides[i] < 0 ||
            __builtin_mul_overflow((uint64_t)tensor->strides[i],
                                   (uint64_t)entry->shape[i] - 1, &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
        if (tensor->strides[i] && entry->shape[i] > 1)
            n *= (uint64_t)entry->shape[i];
    }
    return last < (uint64_t)1 << 48 && n <= last + 1 &&
           !__builtin_mul_overflow(last + 1, tensor->info->n_bytes, out_bytes);
}

static BELL_MUST_CHECK bell_status
check_tensor(const struct bell_file *file, const struct file_tensor *tensor)
{
    const struct bell_file_entry *entry = &tensor->entry;
    uint64_t n, n_bytes = entry->size_bytes;

    if (!count_elems(entry, &n))
        return bell_fail(BELL_E_IO, "%s: tensor '%.80s' has too many elements",
                         file->path, entry->name);
    BELL_TRY(check_blocks(file, tensor, n));
    if (tensor->is_strided && !measure_strides(tensor, &n_bytes))
        return bell_fail(BELL_E_IO,
                         "%s: tensor '%.80s' has strides that overlap or "
                         "overflow",
                         file->path, entry->name);
    if (tensor->at > tensor->base_bytes ||
        n_bytes > tensor->base_bytes - tensor->at)
        return bell_fail(BELL_E_IO,
                         "%s: tensor '%.80s' ends at byte %llu, the %s has "
                         "%llu",
                         file->path, entry->name,
                         (unsigned long long)(tensor->at + n_bytes),
                         tensor->member ? "member" : "file",
                         (unsigned long long)tensor->base_bytes);
    if (bell_file_find(file, entry->name))
        return bell_fail(BELL_E_IO, "%s: two tensors are called '%.80s'",
                         file->path, entry->name);
    return BELL_OK;
}

bell_status
file_name_type(const struct bell_file *file, struct file_tensor *tensor,
               const char *fmt, ...)
{
    char text[96];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    tensor->type_name = host_strdup(text);
    if (!tensor->type_name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a type",
                         file->path);
    tensor->entry.type = tensor->type_name;
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
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for tensor %zu",
                           file->path, file->n_tensors);
    if (status != BELL_OK) {
        host_free(name);
        host_free(tensor->type_name);
        return status;
    }
    tensor->data = tensor->base ? tensor->base + tensor->at : NULL;
    file->tensors[file->n_tensors++] = *tensor;
    return BELL_OK;
}

const struct file_type_info file_no_type = {"of a type that tensors lack",
                                            BELL_DEFAULT, FILE_UNKNOWN, 0, 0};

const struct file_type_info *
file_plain_type(enum bell_dtype dtype)
{
    static const struct file_type_info types[] = {
        [BELL_BOOL] = {"bool", BELL_BOOL, FILE_PLAIN, 1, 1},
        [BELL_INT8] = {"int8", BELL_INT8, FILE_PLAIN, 1, 1},
        [BELL_UINT8] = {"uint8", BELL_UINT8, FILE_PLAIN, 1, 1},
        [BELL_INT16] = {"int16", BELL_INT16, FILE_PLAIN, 1, 2},
        [BELL_UINT16] = {"uint16", BELL_UINT16, FILE_PLAIN, 1, 2},
        [BELL_INT32] = {"int32", BELL_INT32, FILE_PLAIN, 1, 4},
        [BELL_UINT32] = {"uint32", BELL_UINT32, FILE_PLAIN, 1, 4},
        [BELL_INT64] = {"int64", BELL_INT64, FILE_PLAIN, 1, 8},
        [BELL_UINT64] = {"uint64", BELL_UINT64, FILE_PLAIN, 1, 8},
        [BELL_FLOAT16] = {"float16", BELL_FLOAT16, FILE_PLAIN, 1, 2},
        [BELL_BFLOAT16] = {"bfloat16", BELL_BFLOAT16, FILE_PLAIN, 1, 2},
        [BELL_FLOAT32] = {"float32", BELL_FLOAT32, FILE_PLAIN, 1, 4},
        [BELL_FLOAT64] = {"float64", BELL_FLOAT64, FILE_PLAIN, 1, 8},
        [BELL_FLOAT8_E4M3FN] = {"float8_e4m3fn", BELL_FLOAT8_E4M3FN, FILE_PLAIN,
                                1, 1},
        [BELL_FLOAT8_E5M2] = {"float8_e5m2", BELL_FLOAT8_E5M2, FILE_PLAIN, 1,
                              1},
        [BELL_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", BELL_FLOAT8_E4M3FNUZ,
                                  FILE_PLAIN, 1, 1},
        [BELL_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", BELL_FLOAT8_E5M2FNUZ,
                                  FILE_PLAIN, 1, 1},
    };

    return dtype == BELL_DEFAULT ? &file_no_type : &types[dtype];
}

bell_status
file_add_array(struct bell_file *file, const char *name,
               const struct host_array *array, struct file_tensor *tensor)
{
    struct bell_file_entry *entry = &tensor->entry;

    tensor->info = file_plain_type(array->dtype);
    entry->type = tensor->info->name;
    entry->dtype = array->dtype;
    entry->ndim = array->ndim;
    memcpy(entry->shape, array->shape, sizeof(entry->shape));
    entry->size_bytes = array->size_bytes;
    entry->name = host_strdup(name);
    if (!entry->name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a name",
                         file->path);
    return file_add_tensor(file, tensor);
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
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for key %zu",
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

/* Reads a file that is not a regular one, such as a pipe. */
static BELL_MUST_CHECK bell_status
read_stream(struct bell_file *file)
{
    BELL_TRY(file_read(file->path, &file->streamed));
    file->data = file->streamed.data;
    file->size_bytes = file->streamed.size_bytes;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
map_open(struct bell_file *file, int fd, size_t size_bytes)
{
    void *data;

    if (size_bytes == 0)
        return BELL_OK;
    data = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return bell_fail_file(file->path, "cannot map");
    file->data = data;
    file->size_bytes = size_bytes;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
map_file(struct bell_file *file)
{
    struct regular_file opened;
    bell_status status;
    struct stat st;

    if (stat(file->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        status = read_stream(file);
    } else {
        BELL_TRY(regular_file_open(file->path, &opened));
        status = map_open(file, opened.fd, opened.size_bytes);
        close(opened.fd);
    }
    if (status == BELL_OK && file->size_bytes < 5)
        return bell_fail(BELL_E_IO, "%s: is too short for a file of tensors",
                         file->path);
    return status;
}

/* Two zeros and one of its types. */
static bool
is_idx(const struct bell_file *file)
{
    return !file->data[0] && !file->data[1] && file->data[2] >= 8 &&
           file->data[2] <= 14;
}

/* Eight bytes of the header's length, and a brace: which in an IDX file may be
 * an element. */
static bool
is_safetensors(const struct bell_file *file)
{
    uint64_t n;

    if (file->size_bytes < 9 || file->data[8] != '{')
        return false;
    memcpy(&n, file->data, sizeof(n));
    return n <= file->size_bytes || !is_idx(file);
}

static bool
begins(const struct bell_file *file, const char *with, size_t n_bytes)
{
    return memcmp(file->data, with, n_bytes) == 0;
}

static BELL_MUST_CHECK bell_status
read_format(struct bell_file *file)
{
    if (begins(file, "GGUF", 4))
        return file_read_gguf(file);
    if (begins(file, "\x93NUMP", 5))
        return file_read_npy(file);
    if (begins(file, "PK\3\4", 4) || begins(file, "PK\5\6", 4))
        return file_read_zip(file);
    if (file_is_onnx(file))
        return file_read_onnx(file);
    if (is_safetensors(file))
        return file_read_safetensors(file);
    if (file->data[0] == '{')
        return file_read_index(file);
    if (file_is_cifar(file))
        return file_read_cifar(file);
    if (is_idx(file) || begins(file, "\x1f\x8b", 2))
        return file_read_idx(file);
    if (begins(file, "\x80\2", 2))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a bare pickle, as PyTorch wrote them before 1.6; "
                         "torch.save it again",
                         file->path);
    return bell_fail(
        BELL_E_UNSUPPORTED,
        "%s: is not one of GGUF, safetensors (and its index), .npy, "
        ".npz, .pth, .onnx, IDX and CIFAR-10, from how it begins",
        file->path);
}

/* Messages name the file, once. */
static BELL_MUST_CHECK bell_status
read_file(struct bell_file *file)
{
    size_t n_path = strlen(file->path);
    bell_status status;

    BELL_TRY(map_file(file));
    status = read_format(file);
    if (status != BELL_OK &&
        strncmp(bell_error_last()->message, file->path, n_path) != 0)
        bell_error_prefix("%s", file->path);
    return status;
}

bool
file_is_open(const char *call, const struct bell_file *file)
{
    if (file && file->is_open)
        return true;
    (void)bell_fail_at(call, file ? BELL_BAD_STATE : BELL_BAD_MISSING,
                       "%s: the file %s", call,
                       file ? "was closed" : "is NULL");
    return false;
}

/* A file without content; NULL: out of memory. */
static struct bell_file *
create_file(const char *path)
{
    struct bell_file *file = once_alloc(sizeof(*file), TENSOR_IS_FILE, NULL);

    if (!file)
        return NULL;
    file->is_open = true;
    map_init(&file->tensor_of);
    map_init(&file->meta_of);
    file->path = host_strdup(path);
    if (file->path)
        return file;
    bell_file_close(file);
    return NULL;
}

bell_status
file_open_shard(const char *path, const struct regular_file *opened,
                struct bell_file **out_shard)
{
    struct bell_file *shard = create_file(path);
    bell_status status;

    if (!shard)
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    else
        status = map_open(shard, opened->fd, opened->size_bytes);
    close(opened->fd);
    if (status == BELL_OK && !is_safetensors(shard))
        status = bell_fail(BELL_E_IO, "%s: expected a safetensors file", path);
    if (status == BELL_OK)
        status = file_read_safetensors(shard);
    if (status != BELL_OK) {
        bell_file_close(shard);
        return status;
    }
    shard->device = opened->device;
    shard->inode = opened->inode;
    *out_shard = shard;
    return BELL_OK;
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
    file = create_file(path);
    if (!file)
        return bell_fail(BELL_E_NO_MEMORY, "bell_file_open: out of memory");
    status = read_file(file);
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

    if (!file || !file_is_open(__func__, file))
        return;
    for (i = 0; i < file->n_tensors; i++) {
        host_free((void *)(uintptr_t)file->tensors[i].entry.name);
        host_free(file->tensors[i].type_name);
    }
    for (i = 0; i < file->n_metas; i++) {
        host_free(file->metas[i].key);
        host_free(file->metas[i].value.places);
    }
    for (i = 0; i < file->n_shards; i++)
        bell_file_close(file->shards[i]);
    host_free(file->shards);
    file_free_safetensors(file);
    file_free_onnx(file);
    zip_fini(&file->zip);
    pickle_fini(&file->pickle);
    file_bytes_fini(&file->unpacked);
    if (file->data && !file->streamed.data)
        munmap((void *)(uintptr_t)file->data, file->size_bytes);
    file_bytes_fini(&file->streamed);
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
    return file_is_open(__func__, file) ? (uint32_t)file->n_tensors : 0;
}

const struct bell_file_entry *
bell_file_at(const struct bell_file *file, uint32_t i)
{
    return file_is_open(__func__, file) && i < file->n_tensors
               ? &file->tensors[i].entry
               : NULL;
}

const char *
bell_file_key(const struct bell_file *file, uint32_t i)
{
    return file_is_open(__func__, file) && i < file->n_metas
               ? file->metas[i].key
               : NULL;
}

const struct file_tensor *
file_find_tensor(const struct bell_file *file, const char *name)
{
    uint64_t *found;

    if (!name)
        return file->n_tensors == 1 ? &file->tensors[0] : NULL;
    found = map_get(&file->tensor_of, name_key(name));
    if (!found || strcmp(file->tensors[*found].entry.name, name) != 0)
        return NULL;
    return &file->tensors[*found];
}

const struct bell_file_entry *
bell_file_find(const struct bell_file *file, const char *name)
{
    const struct file_tensor *tensor =
        file_is_open(__func__, file) ? file_find_tensor(file, name) : NULL;

    return tensor ? &tensor->entry : NULL;
}

static bool
is_plain_bool(const uint8_t *data, size_t n_bytes)
{
    size_t i;

    for (i = 0; i < n_bytes && data[i] <= 1; i++)
        ;
    return i == n_bytes;
}

/* A tensor of elements that are not as tensors have them, `from` on. An element
 * that is repeated in memory is repeated where it is used. */
static struct bell_tensor *
arrange(struct bell_context *ctx, const struct file_tensor *tensor,
        const uint8_t *from)
{
    const struct bell_file_entry *entry = &tensor->entry;
    struct host_array array = {.dtype = entry->dtype, .ndim = entry->ndim};
    int64_t strides[BELL_MAX_RANK];
    uint64_t stride = 1; /* of what is empty it may go over */
    struct bell_tensor *t;
    uint8_t *data;
    uint32_t i;
    size_t k;

    array.n_elems = 1;
    for (i = entry->ndim; i-- > 0;) {
        strides[i] = tensor->is_strided ? tensor->strides[i] : (int64_t)stride;
        stride *= (uint64_t)entry->shape[i];
        array.shape[i] =
            strides[i] || entry->shape[i] == 0 ? entry->shape[i] : 1;
        array.n_elems *= (uint64_t)array.shape[i];
    }
    array.size_bytes = (size_t)array.n_elems * tensor->info->n_bytes;
    array.data = data = host_alloc(array.size_bytes + 1);
    if (!data)
        return tensor_fail(ctx, "bell_file_tensor", BELL_E_NO_MEMORY,
                           "out of memory for %zu bytes of '%.80s'",
                           array.size_bytes, entry->name);
    host_array_gather(&array, from, strides, tensor->swap);
    for (k = 0; entry->dtype == BELL_BOOL && k < array.size_bytes; k++)
        data[k] = data[k] != 0;
    t = bell_from_data(ctx, array.shape, array.ndim, array.dtype, data);
    host_free(data);
    if (memcmp(array.shape, entry->shape, entry->ndim * sizeof(int64_t)) != 0)
        t = bell_expand(t, entry->shape, entry->ndim);
    return t;
}

static struct bell_tensor *
tensor_of_bytes(struct bell_context *ctx, const struct file_tensor *tensor,
                const uint8_t *from)
{
    const struct bell_file_entry *entry = &tensor->entry;

    if (tensor->is_strided || tensor->swap ||
        (entry->dtype == BELL_BOOL && !is_plain_bool(from, entry->size_bytes)))
        return arrange(ctx, tensor, from);
    return bell_from_data(ctx, entry->shape, entry->ndim, entry->dtype, from);
}

/* The tensor of an archive's member: its CRC is checked first, and a deflated
 * member is unpacked. */
static struct bell_tensor *
tensor_of_member(struct bell_context *ctx, const struct file_tensor *tensor)
{
    struct zip_member *member = tensor->member;
    struct bell_tensor *t;
    uint8_t *bytes;

    if (tensor->data)
        return zip_check(member) == BELL_OK
                   ? tensor_of_bytes(ctx, tensor, tensor->data)
                   : tensor_fail_last(ctx, "bell_file_tensor");
    bytes = host_alloc(member->n_bytes + 1);
    if (!bytes)
        return tensor_fail(ctx, "bell_file_tensor", BELL_E_NO_MEMORY,
                           "out of memory for %llu bytes of '%.80s'",
                           (unsigned long long)member->n_bytes, member->name);
    if (zip_read(member, bytes, member->n_bytes) == BELL_OK)
        t = tensor_of_bytes(ctx, tensor, bytes + tensor->at);
    else
        t = tensor_fail_last(ctx, "bell_file_tensor");
    host_free(bytes);
    return t;
}

const void *
bell_file_data(const struct bell_file *file, const char *name)
{
    const struct file_tensor *tensor =
        file_is_open(__func__, file) ? file_find_tensor(file, name) : NULL;

    return !tensor || tensor->swap || tensor->is_strided ? NULL : tensor->data;
}

struct bell_tensor *
bell_file_tensor(struct bell_context *ctx, const struct bell_file *file,
                 const char *name)
{
    const struct file_tensor *tensor;
    const struct bell_file_entry *entry;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!file_is_open(__func__, file))
        return tensor_fail_told(ctx);
    tensor = file_find_tensor(file, name);
    if (!tensor)
        return tensor_fail(ctx, __func__, BELL_BAD_NAME,
                           "%s: no tensor '%.80s'", file->path,
                           name ? name : "(null)");
    entry = &tensor->entry;
    if (tensor->info->type == FILE_UNKNOWN)
        return tensor_fail(ctx, __func__, BELL_E_UNSUPPORTED,
                           "%s: tensor '%.80s' is of type %.80s, which is not "
                           "supported",
                           file->path, entry->name, entry->type);
    if (tensor->info->type == FILE_PLAIN)
        return tensor->member ? tensor_of_member(ctx, tensor)
                              : tensor_of_bytes(ctx, tensor, tensor->data);
    return file_unpack(ctx, tensor);
}

/* ---- values ---- */

static const struct file_value *
find_value(const char *call, const struct bell_file *file, const char *key)
{
    uint64_t *found = file_is_open(call, file) && key
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
