/* PyTorch's files: a zip archive of a pickle and of the storages that its
 * tensors are parts of. Names are the keys on the way to a tensor, with points
 * between: what torch.save({'model': net.state_dict()}) has of a layer is
 * "model.0.weight". Numbers and strings are values of such names.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/files/files.h"

#define NAME_MAX_BYTES 512u
#define DEPTH_MAX      64u

/* A container that is being walked over. */
struct level {
    uint32_t cell;   /* the next one; 0: done */
    bool is_dict;    /* keys and values by turns */
    uint64_t number; /* of the next item, of others */
    size_t n_name;   /* of its own name */
};

struct walk {
    struct bell_file *file;
    const char *folder; /* of the archive: what stands before "data.pkl" */
    size_t n_folder;
    bool swap; /* written on a machine of the other byte order */
    char name[NAME_MAX_BYTES];
    size_t n_name;
    struct level levels[DEPTH_MAX];
    uint32_t n_levels;
    size_t n_seen;
};

/* ---- tensors ---- */

/* The sizes or strides of a tensor. */
static BELL_MUST_CHECK bell_status
take_torch_sizes(const struct walk *w, uint32_t tuple, int64_t *sizes,
                 uint32_t *out_n)
{
    const struct pickle *p = &w->file->pickle;
    uint32_t cell, n = 0;

    for (cell = p->values[tuple].first; cell; cell = p->cells[cell].next) {
        const struct pickle_value *size = &p->values[p->cells[cell].value];
        if (n == BELL_MAX_RANK || size->kind != PICKLE_INT || size->i < 0)
            return bell_fail(
                BELL_E_IO,
                "tensor '%.80s': more than %d axes, or an invalid size",
                w->name, BELL_MAX_RANK);
        sizes[n++] = size->i;
    }
    *out_n = n;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
find_storage(const struct walk *w, const struct pickle_value *storage,
             struct zip_member **out_member)
{
    char path[NAME_MAX_BYTES];
    int n = snprintf(path, sizeof(path), "%.*sdata/%.*s", (int)w->n_folder,
                     w->folder, (int)(storage->n < 64 ? storage->n : 64),
                     storage->text);

    *out_member = n < (int)sizeof(path) ? zip_find(&w->file->zip, path) : NULL;
    if (!*out_member)
        return bell_fail(BELL_E_IO, "tensor '%.80s': no storage of its key",
                         w->name);
    return BELL_OK;
}

static bool
is_row_major(const struct host_array *array, const int64_t *strides)
{
    int64_t stride = 1;
    uint32_t i;

    for (i = array->ndim; i-- > 0;) {
        if (array->shape[i] != 1 && strides[i] != stride)
            return false;
        stride *= array->shape[i];
    }
    return true;
}

/* Unknown objects are listed: it has a name and a type, and no elements. */
static BELL_MUST_CHECK bell_status
add_unknown_torch(struct walk *w, const struct pickle_value *value)
{
    struct file_tensor tensor = {.info = &file_no_type,
                                 .base = w->file->data,
                                 .base_bytes = w->file->size_bytes};
    char type[96];
    bell_status status = BELL_OK;

    if (value->kind == PICKLE_TENSOR)
        BELL_TRY(take_torch_sizes(w, value->shape, tensor.entry.shape,
                                  &tensor.entry.ndim));
    pickle_print_name(value, type, sizeof(type));
    tensor.entry.dtype = BELL_DEFAULT;
    tensor.entry.name = host_strdup(w->name);
    if (!tensor.entry.name)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory for a name");
    if (status == BELL_OK)
        status = file_name_type(w->file, &tensor, "%s", type);
    if (status == BELL_OK)
        return file_add_tensor(w->file, &tensor);
    host_free((void *)(uintptr_t)tensor.entry.name);
    return status;
}

static BELL_MUST_CHECK bell_status
add_tensor(struct walk *w, const struct pickle_value *value)
{
    const struct pickle *p = &w->file->pickle;
    struct host_array array = {.dtype = value->dtype};
    struct file_tensor tensor = {.swap = w->swap};
    size_t size = bell_dtype_size(value->dtype);
    uint32_t n_strides;

    BELL_TRY(take_torch_sizes(w, value->shape, array.shape, &array.ndim));
    BELL_TRY(take_torch_sizes(w, value->strides, tensor.strides, &n_strides));
    BELL_TRY(find_storage(w, &p->values[value->storage], &tensor.member));
    BELL_TRY(host_array_size(&array));
    if (n_strides != array.ndim || value->i < 0 ||
        value->i > INT64_MAX / (int64_t)size)
        return bell_fail(BELL_E_IO,
                         "tensor '%.80s': %u strides for %u axes, from "
                         "element %" PRId64 "; expected one each, and 0 or "
                         "more",
                         w->name, n_strides, array.ndim, value->i);
    tensor.is_strided = array.n_elems && !is_row_major(&array, tensor.strides);
    tensor.swap = w->swap && size > 1;
    tensor.base = tensor.member->deflated ? NULL : tensor.member->data;
    tensor.base_bytes = tensor.member->n_bytes;
    tensor.at = (uint64_t)value->i * size;
    return file_add_array(w->file, w->name, &array, &tensor);
}

/* ---- the walk ---- */

static BELL_MUST_CHECK bell_status
add_meta(struct walk *w, const struct pickle_value *value)
{
    struct file_value meta = {.kind = FILE_INT, .i = value->i};
    char *key;

    if (value->kind == PICKLE_FLOAT) {
        meta.kind = FILE_FLOAT;
        meta.f = value->f;
    } else if (value->kind == PICKLE_STR) {
        meta.kind = FILE_STR;
        meta.text = value->text;
        meta.n = value->n;
    }
    key = host_strdup(w->name);
    if (!key)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a key");
    return file_add_meta(w->file, key, &meta);
}

static BELL_MUST_CHECK bell_status
enter(struct walk *w, const struct pickle_value *value)
{
    if (w->n_levels == DEPTH_MAX)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "'%.80s': nested more than %u deep", w->name,
                         DEPTH_MAX);
    w->levels[w->n_levels++] =
        (struct level){.cell = value->first,
                       .is_dict = value->kind == PICKLE_DICT,
                       .n_name = w->n_name};
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
visit(struct walk *w, const struct pickle_value *value)
{
    switch ((int)value->kind) {
    case PICKLE_TENSOR:
        return value->dtype == BELL_DEFAULT ? add_unknown_torch(w, value)
                                            : add_tensor(w, value);
    case PICKLE_OBJECT:
        return add_unknown_torch(w, value);
    case PICKLE_BOOL:
    case PICKLE_INT:
    case PICKLE_FLOAT:
    case PICKLE_STR:
        return add_meta(w, value);
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_DICT:
        return enter(w, value);
    default: /* None, a dtype, a storage: there is nothing to keep */
        return BELL_OK;
    }
}

/* The name of an item: the container's, a point, and its key or number. */
static BELL_MUST_CHECK bell_status
set_name(struct walk *w, const struct level *level,
         const struct pickle_value *key)
{
    size_t room = sizeof(w->name) - level->n_name;
    char *at = w->name + level->n_name;
    const char *point = level->n_name ? "." : "";
    int n;

    if (!key)
        n = snprintf(at, room, "%s%" PRIu64, point, level->number);
    else if (key->kind == PICKLE_INT)
        n = snprintf(at, room, "%s%" PRId64, point, key->i);
    else if (key->kind == PICKLE_STR && key->n < NAME_MAX_BYTES)
        n = snprintf(at, room, "%s%.*s", point, (int)key->n, key->text);
    else /* neither a short string nor an integer */
        n = snprintf(at, room, "%s?%" PRIu64, point, level->number);
    if (n < 0 || (size_t)n >= room)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "'%.80s': a name of more than %u characters", w->name,
                         NAME_MAX_BYTES);
    w->n_name = level->n_name + (size_t)n;
    return file_check_name(w->file, w->name, w->n_name);
}

static BELL_MUST_CHECK bell_status
next_item(struct walk *w)
{
    const struct pickle *p = &w->file->pickle;
    struct level *level = &w->levels[w->n_levels - 1];
    const struct pickle_value *key = NULL;
    uint32_t value;

    if (level->cell == 0) {
        w->n_name = level->n_name;
        w->n_levels--;
        return BELL_OK;
    }
    /* a container may be there many times, and in itself */
    if (++w->n_seen > 4 * p->n_cells)
        return bell_fail(BELL_E_UNSUPPORTED, "its values contain each other");
    if (level->is_dict) {
        key = &p->values[p->cells[level->cell].value];
        level->cell = p->cells[level->cell].next;
    }
    value = p->cells[level->cell].value;
    level->cell = p->cells[level->cell].next;
    BELL_TRY(set_name(w, level, key));
    level->number++;
    return visit(w, &p->values[value]);
}

static BELL_MUST_CHECK bell_status
read_order(struct walk *w)
{
    char path[NAME_MAX_BYTES], order[4] = "";
    struct zip_member *member;

    snprintf(path, sizeof(path), "%.*sbyteorder", (int)w->n_folder, w->folder);
    member = zip_find(&w->file->zip, path);
    if (!member)
        return BELL_OK;
    if (member->n_bytes >= 3)
        BELL_TRY(zip_read(member, order, 3));
    w->swap = memcmp(order, "big", 3) == 0;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
walk_over(struct walk *w)
{
    const struct pickle *p = &w->file->pickle;
    const struct pickle_value *root = &p->values[p->root];

    if (root->kind == PICKLE_TENSOR)
        w->n_name =
            (size_t)snprintf(w->name, sizeof(w->name), "%s", FILE_ONLY_NAME);
    else if (root->kind == PICKLE_OBJECT) {
        pickle_print_name(root, w->name, sizeof(w->name));
        return bell_fail(BELL_E_UNSUPPORTED,
                         "it holds a %s; only tensors, numbers, strings and "
                         "plain containers of them are read",
                         w->name);
    } else if (root->kind != PICKLE_DICT && root->kind != PICKLE_LIST &&
               root->kind != PICKLE_TUPLE)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "it holds neither a tensor nor a container");
    BELL_TRY(visit(w, root));
    while (w->n_levels)
        BELL_TRY(next_item(w));
    return BELL_OK;
}

bell_status
file_read_torch(struct bell_file *file, struct zip_member *pickle)
{
    struct walk *w;
    bell_status status;
    void *bytes;

    /* its strings stay in it */
    bytes = host_alloc(pickle->n_bytes + 1);
    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pickle");
    file->unpacked.data = bytes;
    file->unpacked.size_bytes = pickle->n_bytes;
    BELL_TRY(zip_read(pickle, bytes, pickle->n_bytes));
    BELL_TRY(pickle_read(bytes, pickle->n_bytes, &file->pickle));
    w = host_calloc(1, sizeof(*w));
    if (!w)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for its names");
    w->file = file;
    w->folder = pickle->name;
    w->n_folder = strlen(pickle->name) - strlen("data.pkl");
    status = w->n_folder < NAME_MAX_BYTES / 2
                 ? read_order(w)
                 : bell_fail(BELL_E_UNSUPPORTED,
                             "the name of its folder is too long");
    if (status == BELL_OK)
        status = walk_over(w);
    host_free(w);
    return status;
}
