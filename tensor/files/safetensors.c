/* safetensors: eight bytes of length, a JSON object, the data.
 *
 * src: the Format section of the safetensors project's README: "No holes", and
 * Metadata::validate of its safetensors/src/tensor.rs.
 */
#include "tensor/files/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if BELL_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"

static const struct file_type_info types[] = {
    {"BOOL", BELL_BOOL, FILE_PLAIN, 1, 1},
    {"I8", BELL_INT8, FILE_PLAIN, 1, 1},
    {"U8", BELL_UINT8, FILE_PLAIN, 1, 1},
    {"I16", BELL_INT16, FILE_PLAIN, 1, 2},
    {"U16", BELL_UINT16, FILE_PLAIN, 1, 2},
    {"I32", BELL_INT32, FILE_PLAIN, 1, 4},
    {"U32", BELL_UINT32, FILE_PLAIN, 1, 4},
    {"I64", BELL_INT64, FILE_PLAIN, 1, 8},
    {"U64", BELL_UINT64, FILE_PLAIN, 1, 8},
    {"F16", BELL_FLOAT16, FILE_PLAIN, 1, 2},
    {"BF16", BELL_BFLOAT16, FILE_PLAIN, 1, 2},
    {"F32", BELL_FLOAT32, FILE_PLAIN, 1, 4},
    {"F64", BELL_FLOAT64, FILE_PLAIN, 1, 8},
    {"F8_E4M3", BELL_FLOAT8_E4M3FN, FILE_PLAIN, 1, 1},
    {"F8_E5M2", BELL_FLOAT8_E5M2, FILE_PLAIN, 1, 1},
};

const char *
file_safetensors_type(enum bell_dtype dtype)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].dtype == dtype)
            return types[i].name;
    }
    return NULL;
}

#if BELL_HAVE_CJSON

#define HEADER_MAX_BYTES 100000000ull /* as the reference has it */

/* A number that is a size, exactly. */
static bool
get_size(const cJSON *item, uint64_t *out_size)
{
    double value = cJSON_IsNumber(item) ? cJSON_GetNumberValue(item) : -1;

    if (!(value >= 0) || value > 9007199254740992.0 || value != floor(value))
        return false;
    *out_size = (uint64_t)value;
    return true;
}

static BELL_MUST_CHECK bell_status
fail_entry(const struct bell_file *file, const char *name, const char *what)
{
    return bell_fail(BELL_E_IO, "%s: tensor '%.80s': %s", file->path, name,
                     what);
}

static BELL_MUST_CHECK bell_status
read_shape(const struct bell_file *file, const char *name, const cJSON *shape,
           struct bell_file_entry *entry)
{
    const cJSON *item;
    uint64_t size;

    if (!cJSON_IsArray(shape))
        return fail_entry(file, name, "has no shape");
    cJSON_ArrayForEach(item, shape)
    {
        if (entry->ndim == BELL_MAX_RANK || !get_size(item, &size))
            return fail_entry(
                file, name, "a shape of more than 16 axes, or an invalid size");
        entry->shape[entry->ndim++] = (int64_t)size;
    }
    return BELL_OK;
}

/* The part of the data; `begin` is where that begins. */
static BELL_MUST_CHECK bell_status
read_place(const struct bell_file *file, const char *name, const cJSON *places,
           uint64_t begin, struct file_tensor *tensor)
{
    uint64_t first, last;

    if (cJSON_GetArraySize(places) != 2 ||
        !get_size(cJSON_GetArrayItem(places, 0), &first) ||
        !get_size(cJSON_GetArrayItem(places, 1), &last) || last < first ||
        last > file->size_bytes - begin)
        return fail_entry(file, name, "its data_offsets are not in the file");
    tensor->base = file->data;
    tensor->base_bytes = file->size_bytes;
    tensor->at = begin + first;
    tensor->entry.size_bytes = last - first;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_entry(struct bell_file *file, const cJSON *item, uint64_t begin)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItem(item, "dtype"));
    struct file_tensor tensor = {.info = &file_no_type};
    size_t i;

    if (!type)
        return fail_entry(file, item->string, "has no dtype");
    for (i = 0; i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i].name, type) == 0)
            tensor.info = &types[i];
    }
    BELL_TRY(read_shape(file, item->string, cJSON_GetObjectItem(item, "shape"),
                        &tensor.entry));
    BELL_TRY(read_place(file, item->string,
                        cJSON_GetObjectItem(item, "data_offsets"), begin,
                        &tensor));
    /* one that is not known: the header has it, and stays */
    BELL_TRY(file_check_name(file, type, strlen(type)));
    tensor.entry.type = type;
    tensor.entry.dtype = tensor.info->dtype;
    tensor.entry.name = host_strdup(item->string);
    if (!tensor.entry.name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a name",
                         file->path);
    return file_add_tensor(file, &tensor);
}

static BELL_MUST_CHECK bell_status
read_texts(struct bell_file *file, const cJSON *texts)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, texts)
    {
        struct file_value value = {.kind = FILE_STR};
        char *key;
        if (!cJSON_IsString(item))
            return bell_fail(BELL_E_IO,
                             "%s: __metadata__ has a value that is not text",
                             file->path);
        value.text = item->valuestring;
        value.n = strlen(item->valuestring);
        BELL_TRY(file_check_name(file, item->string, strlen(item->string)));
        key = host_strdup(item->string);
        if (!key)
            return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a key",
                             file->path);
        BELL_TRY(file_add_meta(file, key, &value));
    }
    return BELL_OK;
}

/* Where a tensor lies. */
struct extent {
    uint64_t begin, end;
    const char *name;
};

static int
by_place(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* The tensors make up the data from `begin` on, without holes or overlaps. */
static BELL_MUST_CHECK bell_status
check_places(const struct bell_file *file, uint64_t begin)
{
    struct extent *list = host_calloc(file->n_tensors + 1, sizeof(*list));
    bell_status status = BELL_OK;
    uint64_t at = begin;
    size_t i;

    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %zu tensors",
                         file->path, file->n_tensors);
    for (i = 0; i < file->n_tensors; i++) {
        const struct file_tensor *t = &file->tensors[i];
        list[i] =
            (struct extent){t->at, t->at + t->entry.size_bytes, t->entry.name};
    }
    qsort(list, file->n_tensors, sizeof(*list), by_place);
    for (i = 0; i < file->n_tensors && status == BELL_OK; i++) {
        if (list[i].begin != at)
            status = bell_fail(
                BELL_E_IO,
                "%s: tensor '%.80s' begins at byte %llu of the data, "
                "expected %llu: tensors must neither overlap nor leave holes",
                file->path, list[i].name,
                (unsigned long long)(list[i].begin - begin),
                (unsigned long long)(at - begin));
        at = list[i].end;
    }
    if (status == BELL_OK && at != file->size_bytes)
        status = bell_fail(
            BELL_E_IO,
            "%s: %llu bytes behind the last tensor belong to no tensor",
            file->path, (unsigned long long)(file->size_bytes - at));
    host_free(list);
    return status;
}

/* Keeps the file's JSON. Strings with a NUL in them, which cJSON would cut
 * short there, are refused: names of tensors and of files would be others. */
static bell_status
parse_document(struct bell_file *file, const uint8_t *text, size_t n)
{
    size_t i;

    for (i = 0; i + 6 <= n; i++) {
        if (text[i] != '\\')
            continue;
        if (memcmp(text + i, "\\u0000", 6) == 0)
            return bell_fail(BELL_E_IO, "%s: a string with a NUL in it",
                             file->path);
        i++; /* what is escaped begins no escape */
    }
    file->document = cJSON_ParseWithLength((const char *)text, n);
    return BELL_OK;
}

bell_status
file_read_safetensors(struct bell_file *file)
{
    const cJSON *item;
    uint64_t n;

    memcpy(&n, file->data, sizeof(n));
    if (n > HEADER_MAX_BYTES || n > file->size_bytes - 8)
        return bell_fail(BELL_E_IO,
                         "%s: a header of %llu bytes, the file has %zu, and "
                         "%llu are possible",
                         file->path, (unsigned long long)n, file->size_bytes,
                         HEADER_MAX_BYTES);
    BELL_TRY(parse_document(file, file->data + 8, n));
    if (!cJSON_IsObject((cJSON *)file->document))
        return bell_fail(BELL_E_IO, "%s: the header is not a JSON object",
                         file->path);
    cJSON_ArrayForEach(item, (cJSON *)file->document)
    {
        BELL_TRY(file_check_name(file, item->string, strlen(item->string)));
        if (strcmp(item->string, "__metadata__") == 0)
            BELL_TRY(read_texts(file, item));
        else
            BELL_TRY(read_entry(file, item, 8 + n));
    }
    return check_places(file, 8 + n);
}

void
file_free_safetensors(struct bell_file *file)
{
    cJSON_Delete(file->document);
}

/* ---- shards ---- */

/* The shards of an index that are open: hash of a name, or of a device and an
 * inode -> number. */
struct shard_maps {
    struct map of_name, of_inode;
};

static uint64_t
inode_key(const struct regular_file *opened)
{
    const uint64_t words[2] = {opened->device, opened->inode};

    return hash_bytes(words, sizeof(words), 0);
}

/* The number of what another name has opened; file->n_shards: a new one. Takes
 * the descriptor. */
static BELL_MUST_CHECK bell_status
open_shard(struct bell_file *file, struct shard_maps *maps, const char *path,
           uint64_t *out_number)
{
    struct regular_file opened;
    const uint64_t *found;

    BELL_TRY(regular_file_open(path, &opened));
    found = map_get(&maps->of_inode, inode_key(&opened));
    if (found && file->shards[*found]->device == opened.device &&
        file->shards[*found]->inode == opened.inode) {
        close(opened.fd);
        *out_number = *found;
        return BELL_OK;
    }
    if (host_grow((void **)&file->shards, &file->cap_shards, file->n_shards + 1,
                  sizeof(struct bell_file *)) != 0 ||
        map_put(&maps->of_inode, inode_key(&opened), file->n_shards) != 0) {
        close(opened.fd);
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a shard",
                         file->path);
    }
    BELL_TRY(file_open_shard(path, &opened, &file->shards[file->n_shards]));
    *out_number = file->n_shards++;
    return BELL_OK;
}

/* The file of that name beside the index, which is opened once, by however
 * many names. */
static BELL_MUST_CHECK bell_status
find_shard(struct bell_file *file, struct shard_maps *maps, const char *name,
           struct bell_file **out_shard)
{
    uint64_t key = hash_bytes(name, strlen(name), 0), number;
    const uint64_t *found = map_get(&maps->of_name, key);
    const char *slash = strrchr(file->path, '/');
    size_t n_folder = slash ? (size_t)(slash - file->path) + 1 : 0;
    char path[4096];
    int n;

    if (found) {
        *out_shard = file->shards[*found];
        return BELL_OK;
    }
    n = snprintf(path, sizeof(path), "%.*s%s", (int)n_folder, file->path, name);
    if (!*name || strchr(name, '/') || n >= (int)sizeof(path))
        return bell_fail(BELL_E_IO,
                         "%s: '%.80s' is not the name of a file "
                         "beside it",
                         file->path, name);
    BELL_TRY(open_shard(file, maps, path, &number));
    if (map_put(&maps->of_name, key, number) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a shard",
                         file->path);
    *out_shard = file->shards[number];
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_weight(struct bell_file *file, struct shard_maps *maps, const cJSON *item)
{
    struct bell_file *shard;
    struct file_tensor tensor;
    const uint64_t *found;

    BELL_TRY(file_check_name(file, item->string, strlen(item->string)));
    if (!cJSON_IsString(item))
        return fail_entry(file, item->string, "its file has no name");
    BELL_TRY(
        file_check_name(file, item->valuestring, strlen(item->valuestring)));
    BELL_TRY(find_shard(file, maps, item->valuestring, &shard));
    found = map_get(&shard->tensor_of,
                    hash_bytes(item->string, strlen(item->string), 0));
    if (!found || strcmp(shard->tensors[*found].entry.name, item->string) != 0)
        return bell_fail(BELL_E_IO, "%s: '%.80s' lacks the tensor '%.80s'",
                         file->path, item->valuestring, item->string);
    tensor = shard->tensors[*found];
    tensor.entry.name = host_strdup(item->string);
    if (!tensor.entry.name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a name",
                         file->path);
    return file_add_tensor(file, &tensor);
}

bell_status
file_read_index(struct bell_file *file)
{
    const cJSON *weights, *item;
    bell_status status = BELL_OK;
    struct shard_maps maps;

    BELL_TRY(parse_document(file, file->data, file->size_bytes));
    weights = cJSON_GetObjectItemCaseSensitive(file->document, "weight_map");
    if (!cJSON_IsObject(weights))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: no index of safetensors: no JSON with a "
                         "weight_map",
                         file->path);
    map_init(&maps.of_name);
    map_init(&maps.of_inode);
    cJSON_ArrayForEach(item, weights)
    {
        status = read_weight(file, &maps, item);
        if (status != BELL_OK)
            break;
    }
    map_fini(&maps.of_name);
    map_fini(&maps.of_inode);
    return status;
}

#else

bell_status
file_read_safetensors(struct bell_file *file)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: safetensors need cJSON, and this was built without",
                     file->path);
}

bell_status
file_read_index(struct bell_file *file)
{
    return file_read_safetensors(file);
}

void
file_free_safetensors(struct bell_file *file)
{
    (void)file;
}

#endif
