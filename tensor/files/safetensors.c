/* safetensors: eight bytes of length, a JSON object, the data. An index names
 * several of them.
 */
#include "tensor/files/files.h"

#include <stdio.h>
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

static BELL_MUST_CHECK bell_status
add_entry(struct bell_file *file, const struct safetensors_entry *e)
{
    struct file_tensor tensor = {
        .info = &file_no_type,
        .base = file->data,
        .base_bytes = file->size_bytes,
        .at = e->offset,
        .entry = {.type = e->type, /* the list has it, and stays */
                  .ndim = e->ndim,
                  .size_bytes = e->size_bytes},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i].name, e->type) == 0)
            tensor.info = &types[i];
    }
    for (i = 0; i < e->ndim; i++)
        tensor.entry.shape[i] = (int64_t)e->shape[i];
    tensor.entry.dtype = tensor.info->dtype;
    tensor.entry.name = host_strdup(e->name);
    if (!tensor.entry.name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a name",
                         file->path);
    return file_add_tensor(file, &tensor);
}

static BELL_MUST_CHECK bell_status
add_text(struct bell_file *file, const struct safetensors_text *t)
{
    const struct file_value value = {
        .kind = FILE_STR, .text = t->value, .n = strlen(t->value)};
    char *key = host_strdup(t->key);

    if (!key)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a key",
                         file->path);
    return file_add_meta(file, key, &value);
}

bell_status
file_read_safetensors(struct bell_file *file)
{
    uint32_t i;

    if (safetensors_read(file->data, file->size_bytes, &file->header) !=
        BELL_OK) {
        bell_error_prefix("%s", file->path);
        return bell_error_last()->status;
    }
    for (i = 0; i < file->header.n_texts; i++)
        BELL_TRY(add_text(file, &file->header.texts[i]));
    for (i = 0; i < file->header.n_entries; i++)
        BELL_TRY(add_entry(file, &file->header.entries[i]));
    return BELL_OK;
}

#if BELL_HAVE_CJSON

/* ---- shards ---- */

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
            return bell_fail(BELL_E_IO,
                             "%s: a string must not have a NUL in it",
                             file->path);
        i++; /* what is escaped begins no escape */
    }
    file->document = cJSON_ParseWithLength((const char *)text, n);
    return BELL_OK;
}

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
        return bell_fail(BELL_E_IO, "%s: tensor '%.80s': its file has no name",
                         file->path, item->string);
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

void
file_free_safetensors(struct bell_file *file)
{
    safetensors_fini(&file->header);
    cJSON_Delete(file->document);
}

#else

bell_status
file_read_index(struct bell_file *file)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: an index of safetensors needs cJSON, and this was "
                     "built without",
                     file->path);
}

void
file_free_safetensors(struct bell_file *file)
{
    safetensors_fini(&file->header);
}

#endif
