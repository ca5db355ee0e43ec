/* Files of arrays as files of tensors: .npy, .npz, IDX and CIFAR-10. */
#include <string.h>

#include "base/alloc.h"
#include "tensor/files/files.h"
#include "tensor/files/idx.h"
#include "tensor/files/npy.h"

/* ---- NumPy ---- */

/* A deflated member's header has to end within this many bytes. */
#define HEADER_ROOM 16384u

static BELL_MUST_CHECK bell_status
add_npy(struct bell_file *file, const char *name, const struct npy_header *h,
        struct file_tensor *tensor)
{
    BELL_TRY(npy_check_size(h, tensor->base_bytes));
    tensor->at = h->start;
    tensor->swap = h->swap;
    if (h->fortran && h->array.ndim > 1) {
        tensor->is_strided = true;
        npy_strides(h, tensor->strides);
    }
    return file_add_array(file, name, &h->array, tensor);
}

bell_status
file_read_npy(struct bell_file *file)
{
    struct file_tensor tensor = {.base = file->data,
                                 .base_bytes = file->size_bytes};
    struct npy_header h;

    BELL_TRY(npy_parse_header(file->data, file->size_bytes, &h));
    return add_npy(file, FILE_ONLY_NAME, &h, &tensor);
}

static BELL_MUST_CHECK bell_status
read_member_header(struct zip_member *member, struct npy_header *out_header)
{
    uint64_t n = member->n_bytes < HEADER_ROOM ? member->n_bytes : HEADER_ROOM;
    bell_status status;
    uint8_t *bytes;

    if (!member->deflated)
        return npy_parse_header(member->data, member->n_bytes, out_header);
    bytes = host_alloc(n + 1);
    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a header");
    status = zip_read(member, bytes, n);
    if (status == BELL_OK)
        status = npy_parse_header(bytes, n, out_header);
    host_free(bytes);
    return status;
}

/* An array of what tensors lack, and a member that is not an array, have a
 * place in the list, and no value. */
static BELL_MUST_CHECK bell_status
add_unknown_array(struct bell_file *file, const char *name,
                  const struct zip_member *member)
{
    struct host_array none = {.dtype = BELL_DEFAULT,
                              .size_bytes = member->n_bytes};
    struct file_tensor tensor = {.base = member->data,
                                 .base_bytes = member->n_bytes};

    return file_add_array(file, name, &none, &tensor);
}

static bool
is_npy_name(const char *name)
{
    size_t n = strlen(name);

    return n >= 5 && strcmp(name + n - 4, ".npy") == 0;
}

static BELL_MUST_CHECK bell_status
add_npz_member(struct bell_file *file, struct zip_member *member)
{
    struct file_tensor tensor = {
        .base = member->deflated ? NULL : member->data,
        .base_bytes = member->n_bytes,
        .member = member,
    };
    size_t n_name = strlen(member->name);
    struct npy_header h;
    bell_status status;
    char *name;

    if (!is_npy_name(member->name))
        return add_unknown_array(file, member->name, member);
    name = host_strdup(member->name);
    if (!name)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a name");
    name[n_name - 4] = '\0';
    status = read_member_header(member, &h);
    if (status == BELL_OK)
        status = add_npy(file, name, &h, &tensor);
    else if (status == BELL_E_UNSUPPORTED)
        status = add_unknown_array(file, name, member);
    if (status != BELL_OK)
        bell_error_prefix("member '%.80s'", member->name);
    host_free(name);
    return status;
}

bell_status
file_read_zip(struct bell_file *file)
{
    struct zip_member *member;
    const char *slash;
    size_t i, n_arrays = 0;

    BELL_TRY(zip_open(file->data, file->size_bytes, &file->zip));
    for (i = 0; i < file->zip.n_members; i++) {
        member = &file->zip.members[i];
        slash = strchr(member->name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0)
            return file_read_torch(file, member);
        n_arrays += is_npy_name(member->name);
    }
    if (file->zip.n_members > 0 && n_arrays == 0)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "member '%.80s': neither an array of NumPy (.npy) "
                         "nor a file of PyTorch",
                         file->zip.members[0].name);
    for (i = 0; i < file->zip.n_members; i++)
        BELL_TRY(add_npz_member(file, &file->zip.members[i]));
    return BELL_OK;
}

/* ---- IDX ---- */

bell_status
file_read_idx(struct bell_file *file)
{
    const uint16_t one = 1; /* its first byte: on a little-endian host */
    struct file_tensor tensor = {.base = file->data,
                                 .base_bytes = file->size_bytes};
    struct host_array array = {.ndim = 0};
    size_t start;

    if (idx_is_packed(file->data, file->size_bytes)) {
        BELL_TRY(idx_unpack(file->data, file->size_bytes, &file->unpacked));
        tensor.base = file->unpacked.data;
        tensor.base_bytes = file->unpacked.size_bytes;
    }
    BELL_TRY(idx_parse_header(tensor.base, tensor.base_bytes, &array, &start));
    BELL_TRY(idx_check_size(&array, start, tensor.base_bytes));
    tensor.at = start;
    tensor.swap = *(const uint8_t *)&one && bell_dtype_size(array.dtype) > 1;
    return file_add_array(file, FILE_ONLY_NAME, &array, &tensor);
}

/* ---- CIFAR-10 ----
 *
 * src: the CIFAR-10 page of the University of Toronto: rows of a class, 0 to
 * 9, and 3 planes of 32 by 32 bytes. */

#define CIFAR_ROW     3073u
#define CIFAR_CLASSES 10u

bool
file_is_cifar(const struct bell_file *file)
{
    size_t at;

    for (at = 0; at < file->size_bytes; at += CIFAR_ROW) {
        if (file->data[at] >= CIFAR_CLASSES)
            return false;
    }
    return file->size_bytes % CIFAR_ROW == 0;
}

bell_status
file_read_cifar(struct bell_file *file)
{
    int64_t n = (int64_t)(file->size_bytes / CIFAR_ROW);
    struct file_tensor labels = {
        .base = file->data,
        .base_bytes = file->size_bytes,
        .is_strided = true,
        .strides = {CIFAR_ROW},
    };
    struct file_tensor images = {
        .base = file->data,
        .base_bytes = file->size_bytes,
        .at = 1,
        .is_strided = true,
        .strides = {CIFAR_ROW, 1024, 32, 1},
    };
    const struct host_array label_rows = {
        .dtype = BELL_UINT8, .ndim = 1, .shape = {n}, .size_bytes = (size_t)n};
    const struct host_array image_rows = {.dtype = BELL_UINT8,
                                          .ndim = 4,
                                          .shape = {n, 3, 32, 32},
                                          .size_bytes = (size_t)n * 3072};

    BELL_TRY(file_add_array(file, "labels", &label_rows, &labels));
    return file_add_array(file, "images", &image_rows, &images);
}
