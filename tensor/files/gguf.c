/* GGUF: values by key, then tensors by name, then their data.
 *
 * src: docs/gguf.md and ggml.h's enum ggml_type of the ggml project. Little
 * endian, as the hosts that we are built for.
 */
#include "tensor/files/files.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define KEY_MAX_BYTES 65535
#define GGUF_STR      8u
#define GGUF_LIST     9u

/* By ggml's number. */
static const struct file_type_info gguf_types[] = {
    [0] = {"F32", BELL_FLOAT32, FILE_PLAIN, 1, 4},
    [1] = {"F16", BELL_FLOAT16, FILE_PLAIN, 1, 2},
    [2] = {"Q4_0", BELL_FLOAT32, FILE_Q4_0, 32, 18},
    [3] = {"Q4_1", BELL_FLOAT32, FILE_Q4_1, 32, 20},
    [6] = {"Q5_0", BELL_FLOAT32, FILE_Q5_0, 32, 22},
    [7] = {"Q5_1", BELL_FLOAT32, FILE_Q5_1, 32, 24},
    [8] = {"Q8_0", BELL_FLOAT32, FILE_Q8_0, 32, 34},
    [10] = {"Q2_K", BELL_FLOAT32, FILE_Q2_K, 256, 84},
    [11] = {"Q3_K", BELL_FLOAT32, FILE_Q3_K, 256, 110},
    [12] = {"Q4_K", BELL_FLOAT32, FILE_Q4_K, 256, 144},
    [13] = {"Q5_K", BELL_FLOAT32, FILE_Q5_K, 256, 176},
    [14] = {"Q6_K", BELL_FLOAT32, FILE_Q6_K, 256, 210},
    [20] = {"IQ4_NL", BELL_FLOAT32, FILE_IQ4_NL, 32, 18},
    [23] = {"IQ4_XS", BELL_FLOAT32, FILE_IQ4_XS, 256, 136},
    [24] = {"I8", BELL_INT8, FILE_PLAIN, 1, 1},
    [25] = {"I16", BELL_INT16, FILE_PLAIN, 1, 2},
    [26] = {"I32", BELL_INT32, FILE_PLAIN, 1, 4},
    [27] = {"I64", BELL_INT64, FILE_PLAIN, 1, 8},
    [28] = {"F64", BELL_FLOAT64, FILE_PLAIN, 1, 8},
    [30] = {"BF16", BELL_BFLOAT16, FILE_PLAIN, 1, 2},
    [34] = {"TQ1_0", BELL_FLOAT32, FILE_TQ1_0, 256, 54},
    [35] = {"TQ2_0", BELL_FLOAT32, FILE_TQ2_0, 256, 66},
    [39] = {"MXFP4", BELL_FLOAT32, FILE_MXFP4, 32, 17},
};
/* Those that are not read, by the same number. */
#define UNKNOWN(number, name)                                                  \
    [number] = {name " (number " #number ")", BELL_DEFAULT, FILE_UNKNOWN, 0, 0}
static const struct file_type_info unread_types[] = {
    UNKNOWN(9, "Q8_1"),    UNKNOWN(15, "Q8_K"),    UNKNOWN(16, "IQ2_XXS"),
    UNKNOWN(17, "IQ2_XS"), UNKNOWN(18, "IQ3_XXS"), UNKNOWN(19, "IQ1_S"),
    UNKNOWN(21, "IQ3_S"),  UNKNOWN(22, "IQ2_S"),   UNKNOWN(29, "IQ1_M"),
};
#undef UNKNOWN

/* What is left of the file. */
struct cursor {
    const struct bell_file *file;
    uint64_t at;
};

static BELL_MUST_CHECK bell_status
fail_short(const struct cursor *c, uint64_t n_bytes)
{
    return bell_fail(BELL_E_IO,
                     "%s: %llu bytes are to follow byte %llu, the file has %zu",
                     c->file->path, (unsigned long long)n_bytes,
                     (unsigned long long)c->at, c->file->size_bytes);
}

static BELL_MUST_CHECK bell_status
take_gguf_bytes(struct cursor *c, uint64_t n_bytes, const uint8_t **out_bytes)
{
    if (n_bytes > c->file->size_bytes - c->at)
        return fail_short(c, n_bytes);
    *out_bytes = c->file->data + c->at;
    c->at += n_bytes;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_u32(struct cursor *c, uint32_t *out_value)
{
    const uint8_t *bytes;

    BELL_TRY(take_gguf_bytes(c, 4, &bytes));
    memcpy(out_value, bytes, 4);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_u64(struct cursor *c, uint64_t *out_value)
{
    const uint8_t *bytes;

    BELL_TRY(take_gguf_bytes(c, 8, &bytes));
    memcpy(out_value, bytes, 8);
    return BELL_OK;
}

/* A name, terminated; owned by the caller. */
static BELL_MUST_CHECK bell_status
take_gguf_name(struct cursor *c, char **out_name)
{
    uint64_t at = c->at, n;
    const uint8_t *bytes;
    char *name;

    BELL_TRY(take_u64(c, &n));
    if (n > KEY_MAX_BYTES)
        return bell_fail(
            BELL_E_IO, "%s: the name of %llu bytes at byte %llu is too long",
            c->file->path, (unsigned long long)n, (unsigned long long)at);
    BELL_TRY(take_gguf_bytes(c, n, &bytes));
    BELL_TRY(file_check_name(c->file, (const char *)bytes, n));
    name = host_strndup(bytes, n);
    if (!name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a name",
                         c->file->path);
    *out_name = name;
    return BELL_OK;
}

/* ---- values ---- */

uint32_t
file_gguf_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    return type < ARRAY_LEN(bytes) ? bytes[type] : 0;
}

bool
file_gguf_number(uint32_t type, const uint8_t *at, struct file_value *out_value)
{
    struct file_value value = {.kind = FILE_INT};
    uint64_t bits = 0;
    float f32;

    memcpy(&bits, at, file_gguf_bytes(type));
    switch (type) {
    case 1:
        value.i = (int8_t)bits;
        break;
    case 3:
        value.i = (int16_t)bits;
        break;
    case 5:
        value.i = (int32_t)bits;
        break;
    case 6:
        memcpy(&f32, at, sizeof(f32));
        value.kind = FILE_FLOAT;
        value.f = (double)f32;
        break;
    case 12:
        memcpy(&value.f, at, sizeof(value.f));
        value.kind = FILE_FLOAT;
        break;
    default: /* the unsigned ones, bool, int64; above 2^63: negative */
        value.i = (int64_t)bits;
    }
    *out_value = value;
    return file_gguf_bytes(type) != 0;
}

/* A list's strings, by where their lengths stand. */
static BELL_MUST_CHECK bell_status
take_strings(struct cursor *c, struct file_value *value)
{
    const uint8_t *bytes;
    uint64_t i, n;

    if (value->n > (c->file->size_bytes - c->at) / 8)
        return fail_short(c, value->n);
    value->places = host_calloc(value->n + 1, sizeof(*value->places));
    if (!value->places)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %llu strings",
                         c->file->path, (unsigned long long)value->n);
    for (i = 0; i < value->n; i++) {
        value->places[i] = c->at;
        BELL_TRY(take_u64(c, &n));
        BELL_TRY(take_gguf_bytes(c, n, &bytes));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_gguf_list(struct cursor *c, struct file_value *value)
{
    uint32_t n_bytes;

    value->kind = FILE_LIST;
    BELL_TRY(take_u32(c, &value->item_type));
    BELL_TRY(take_u64(c, &value->n));
    if (value->item_type == GGUF_STR) {
        value->item_kind = FILE_STR;
        return take_strings(c, value);
    }
    n_bytes = file_gguf_bytes(value->item_type);
    if (!n_bytes)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: the list at byte %llu has values of type %u, "
                         "which is not known",
                         c->file->path, (unsigned long long)c->at,
                         value->item_type);
    if (value->n > c->file->size_bytes / n_bytes)
        return fail_short(c, value->n);
    return take_gguf_bytes(c, value->n * n_bytes, &value->items);
}

static BELL_MUST_CHECK bell_status
take_value(struct cursor *c, struct file_value *value)
{
    const uint8_t *bytes;
    uint32_t type;

    BELL_TRY(take_u32(c, &type));
    if (type == GGUF_LIST)
        return take_gguf_list(c, value);
    if (type == GGUF_STR) {
        value->kind = FILE_STR;
        BELL_TRY(take_u64(c, &value->n));
        BELL_TRY(take_gguf_bytes(c, value->n, &bytes));
        value->text = (const char *)bytes;
        return BELL_OK;
    }
    if (!file_gguf_bytes(type))
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "%s: the value at byte %llu is of type %u, which is not known",
            c->file->path, (unsigned long long)c->at, type);
    BELL_TRY(take_gguf_bytes(c, file_gguf_bytes(type), &bytes));
    file_gguf_number(type, bytes, value);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_meta(struct cursor *c, struct bell_file *file)
{
    struct file_value value = {.kind = FILE_INT};
    bell_status status;
    char *key;

    BELL_TRY(take_gguf_name(c, &key));
    status = take_value(c, &value);
    if (status != BELL_OK) {
        host_free(key);
        host_free(value.places);
        return status;
    }
    return file_add_meta(file, key, &value);
}

/* ---- tensors ---- */

/* Sizes come with the innermost first. */
static BELL_MUST_CHECK bell_status
take_shape(struct cursor *c, struct bell_file_entry *entry)
{
    uint64_t size;
    uint32_t i;

    BELL_TRY(take_u32(c, &entry->ndim));
    if (entry->ndim > BELL_MAX_RANK)
        return bell_fail(
            BELL_E_IO, "%s: tensor '%.80s' has %u axes, at most %d",
            c->file->path, entry->name, entry->ndim, BELL_MAX_RANK);
    for (i = entry->ndim; i-- > 0;) {
        BELL_TRY(take_u64(c, &size));
        entry->shape[i] = size > INT64_MAX ? -1 : (int64_t)size;
    }
    return BELL_OK;
}

/* The offset goes to size_bytes until where the data begins is known. */
static BELL_MUST_CHECK bell_status
take_entry(struct cursor *c, struct file_tensor *tensor)
{
    uint32_t type;

    BELL_TRY(take_shape(c, &tensor->entry));
    BELL_TRY(take_u32(c, &type));
    BELL_TRY(take_u64(c, &tensor->entry.size_bytes));
    tensor->info = type < ARRAY_LEN(gguf_types) && gguf_types[type].name
                       ? &gguf_types[type]
                   : type < ARRAY_LEN(unread_types) && unread_types[type].name
                       ? &unread_types[type]
                       : &file_no_type;
    tensor->entry.type = tensor->info->name;
    tensor->entry.dtype = tensor->info->dtype;
    if (tensor->info != &file_no_type)
        return BELL_OK;
    return file_name_type(c->file, tensor, "number %u", type);
}

static BELL_MUST_CHECK bell_status
place_tensor(struct bell_file *file, struct file_tensor *tensor, uint64_t begin)
{
    uint64_t offset = tensor->entry.size_bytes, n = 1;
    const struct file_type_info *info = tensor->info;
    uint32_t i;

    for (i = 0; i < tensor->entry.ndim; i++) {
        if (tensor->entry.shape[i] < 0 ||
            __builtin_mul_overflow(n, (uint64_t)tensor->entry.shape[i], &n))
            n = UINT64_MAX >> 8; /* too many, which is told later */
    }
    tensor->entry.size_bytes =
        info->n_elems ? n / info->n_elems * info->n_bytes : 0;
    if (offset > file->size_bytes - begin) {
        bell_status status = bell_fail(
            BELL_E_IO,
            "%s: tensor '%.80s' begins %llu bytes behind byte %llu, the file "
            "has %zu",
            file->path, tensor->entry.name, (unsigned long long)offset,
            (unsigned long long)begin, file->size_bytes);
        host_free((void *)(uintptr_t)tensor->entry.name);
        host_free(tensor->type_name);
        return status;
    }
    tensor->base = file->data;
    tensor->base_bytes = file->size_bytes;
    tensor->at = begin + offset;
    return file_add_tensor(file, tensor);
}

static BELL_MUST_CHECK bell_status
take_entries(struct cursor *c, struct file_tensor *list, uint64_t n)
{
    uint64_t i;
    char *name;

    for (i = 0; i < n; i++) {
        BELL_TRY(take_gguf_name(c, &name));
        list[i].entry.name = name;
        BELL_TRY(take_entry(c, &list[i]));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_tensors(struct cursor *c, struct bell_file *file, uint64_t n)
{
    struct file_tensor *list = host_calloc(n + 1, sizeof(*list));
    int64_t align = 32;
    bell_status status;
    uint64_t i = 0, begin;

    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %llu tensors",
                         file->path, (unsigned long long)n);
    status = take_entries(c, list, n);
    (void)bell_file_int(file, "general.alignment", &align);
    if (status == BELL_OK &&
        (align < 1 || !is_pow2((uint64_t)align) || align > INT32_MAX))
        status = bell_fail(
            BELL_E_IO,
            "%s: data aligned to %lld; expected a power of 2 below 2^31",
            file->path, (long long)align);
    if (status == BELL_OK) {
        begin = align_up(c->at, (uint64_t)align);
        begin = begin < file->size_bytes ? begin : file->size_bytes;
        while (i < n && status == BELL_OK)
            status = place_tensor(file, &list[i++], begin);
    }
    for (; i < n; i++) {
        host_free((void *)(uintptr_t)list[i].entry.name);
        host_free(list[i].type_name);
    }
    host_free(list);
    return status;
}

bell_status
file_read_gguf(struct bell_file *file)
{
    struct cursor c = {.file = file, .at = 4};
    uint64_t n_tensors, n_metas, i;
    uint32_t version;

    BELL_TRY(take_u32(&c, &version));
    if (version != 2 && version != 3)
        return bell_fail(
            BELL_E_UNSUPPORTED, "%s: GGUF of version %u%s; 2 and 3 are read",
            file->path, version, version == 0x03000000 ? " (big endian)" : "");
    BELL_TRY(take_u64(&c, &n_tensors));
    BELL_TRY(take_u64(&c, &n_metas));
    /* each takes 12 bytes at least */
    if (n_tensors > file->size_bytes / 12 || n_metas > file->size_bytes / 12)
        return bell_fail(
            BELL_E_IO,
            "%s: %llu tensors and %llu values cannot be in %zu bytes",
            file->path, (unsigned long long)n_tensors,
            (unsigned long long)n_metas, file->size_bytes);
    for (i = 0; i < n_metas; i++)
        BELL_TRY(take_meta(&c, file));
    return take_tensors(&c, file, n_tensors);
}
