/* Files of tensors, inside: what each format is read into. */
#ifndef BELL_TENSOR_FILES_FILES_H
#define BELL_TENSOR_FILES_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/map.h"
#include "base/regular_file.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "doorbell/files.h"
#include "tensor/files/array.h"
#include "tensor/files/pickle.h"
#include "tensor/files/zip.h"

/* How elements lie in a file. */
enum file_type {
    FILE_PLAIN, /* as in a tensor */
    FILE_Q4_0,
    FILE_Q4_1,
    FILE_Q5_0,
    FILE_Q5_1,
    FILE_Q8_0,
    FILE_Q2_K,
    FILE_Q3_K,
    FILE_Q4_K,
    FILE_Q5_K,
    FILE_Q6_K,
    FILE_IQ4_NL,
    FILE_IQ4_XS,
    FILE_TQ1_0,
    FILE_TQ2_0,
    FILE_MXFP4,
    FILE_UNKNOWN /* no tensor can be made of it */
};

/* A type's name, dtype and block. */
struct file_type_info {
    const char *name;
    enum bell_dtype dtype; /* BELL_DEFAULT: FILE_UNKNOWN */
    enum file_type type;
    uint32_t n_elems, n_bytes; /* of a block; of an element: 1 and its size */
};

/* Elements begin `at` bytes into what `base` points to. */
struct file_tensor {
    struct bell_file_entry entry;
    const struct file_type_info *info;
    char *type_name;     /* owned: entry.type, where that is not a constant */
    const uint8_t *base; /* NULL: what `member` unpacks to */
    uint64_t base_bytes, at;
    struct zip_member *member; /* NULL: of no archive */
    const uint8_t *data;       /* base + at, or NULL; file_add_tensor sets it */
    bool swap;                 /* the bytes of elements are turned round */
    bool is_strided;           /* elements are not in row-major order, but: */
    int64_t strides[BELL_MAX_RANK]; /* in elements, none negative */
};

enum file_kind {
    FILE_INT,
    FILE_FLOAT,
    FILE_STR,
    FILE_LIST
};

struct onnx_model;

/* A value beside the tensors. */
struct file_value {
    enum file_kind kind, item_kind;
    int64_t i;
    double f;
    const char *text;     /* in the file, or owned by it */
    uint64_t n;           /* bytes of the text, items of the list */
    const uint8_t *items; /* of a list of numbers, in the file */
    uint32_t item_type;   /* GGUF's */
    uint64_t *places;     /* owned; of a list of strings: their lengths' */
};

struct file_meta {
    char *key; /* owned */
    struct file_value value;
};

/* At an address that is never used again (base/once.h). */
struct bell_file {
    bool is_open;
    char *path;          /* owned */
    const uint8_t *data; /* mapped, or `streamed` */
    size_t size_bytes;
    struct file_tensor *tensors; /* owned */
    size_t n_tensors, cap_tensors;
    struct file_meta *metas; /* owned */
    size_t n_metas, cap_metas;
    struct map tensor_of, meta_of; /* hash of a name -> number */
    struct safetensors header;     /* of a file of safetensors */
    void *document;                /* owned: an index of them, parsed */
    struct onnx_model *onnx;       /* owned: of an ONNX model; or NULL */
    struct zip zip;                /* whose members tensors are */
    struct pickle pickle;          /* of PyTorch's files */
    struct file_bytes streamed;    /* of what cannot be mapped */
    struct file_bytes unpacked;    /* of a compressed file */
    struct bell_file **shards;     /* owned: that an index names */
    size_t n_shards, cap_shards;
    uint64_t device, inode; /* of a shard */
};

/* What the only tensor of a file is called that has no name for it. */
#define FILE_ONLY_NAME "data"

/* Elements of a dtype as in a tensor; file_no_type: what tensors lack. */
const struct file_type_info *file_plain_type(enum bell_dtype dtype);
extern const struct file_type_info file_no_type;

/* Names and keys go into messages: they are UTF-8 without control characters.
 * BELL_E_IO. */
BELL_MUST_CHECK bell_status file_check_name(const struct bell_file *file,
                                            const char *name, size_t n_bytes);

/* Sets how messages call the type of a tensor that cannot be read. */
BELL_MUST_CHECK bell_status file_name_type(const struct bell_file *file,
                                           struct file_tensor *tensor,
                                           const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a tensor whose name, shape and place are set; takes its name and
 * type_name, which are owned, also on failure. BELL_E_IO: the name is taken,
 * the elements are not size_bytes, or lie beyond the file. */
BELL_MUST_CHECK bell_status file_add_tensor(struct bell_file *file,
                                            struct file_tensor *tensor);
/* The same of a value; takes the key. */
BELL_MUST_CHECK bell_status file_add_meta(struct bell_file *file, char *key,
                                          const struct file_value *value);

/* The same of an array in host_array's words, of a copy of the name. */
BELL_MUST_CHECK bell_status file_add_array(struct bell_file *file,
                                           const char *name,
                                           const struct host_array *array,
                                           struct file_tensor *tensor);

/* Whether a call may look into it; else it has failed. */
bool file_is_open(const char *call, const struct bell_file *file);
/* Name NULL: the only one. NULL: there is none. */
const struct file_tensor *file_find_tensor(const struct bell_file *file,
                                           const char *name);

/* What is written to a file of safetensors beside its tensors. */
struct file_text {
    const char *key, *text;
};
/* bell_file_save, with texts (which only safetensors have); `safely`: it is on
 * the disk then. */
BELL_MUST_CHECK bell_status file_save(const char *path,
                                      const struct bell_state *state,
                                      const struct file_text *texts,
                                      size_t n_texts, bool safely);
/* What safetensors call a dtype; NULL: they lack it. */
const char *file_safetensors_type(enum bell_dtype dtype);

/* Formats that are told by how they begin. */
BELL_MUST_CHECK bell_status file_read_gguf(struct bell_file *file);
BELL_MUST_CHECK bell_status file_read_npy(struct bell_file *file);
BELL_MUST_CHECK bell_status file_read_idx(struct bell_file *file);
BELL_MUST_CHECK bell_status file_read_cifar(struct bell_file *file);
bool file_is_cifar(const struct bell_file *file);
/* A model's weights, by the end of its name. */
BELL_MUST_CHECK bell_status file_read_onnx(struct bell_file *file);
bool file_is_onnx(const struct bell_file *file);
void file_free_onnx(struct bell_file *file);
/* Read an archive of NumPy's arrays, or PyTorch's. */
BELL_MUST_CHECK bell_status file_read_zip(struct bell_file *file);
BELL_MUST_CHECK bell_status file_read_torch(struct bell_file *file,
                                            struct zip_member *pickle);
/* A list of safetensors files, and which holds what. */
BELL_MUST_CHECK bell_status file_read_index(struct bell_file *file);
/* Opens a file that an index names: it is a regular file of safetensors, and
 * no other format is looked for, so that it names no file itself. Takes the
 * descriptor. Closed with bell_file_close. */
BELL_MUST_CHECK bell_status file_open_shard(const char *path,
                                            const struct regular_file *opened,
                                            struct bell_file **out_shard);
BELL_MUST_CHECK bell_status file_read_safetensors(struct bell_file *file);
void file_free_safetensors(struct bell_file *file);

/* A number of GGUF's type, at `at`. */
bool file_gguf_number(uint32_t type, const uint8_t *at,
                      struct file_value *out_value);
/* Bytes of such a number; 0: it is none. */
uint32_t file_gguf_bytes(uint32_t type);

/* The values of a tensor of blocks, for the public call `call`. */
struct bell_tensor *file_unpack(struct bell_context *ctx,
                                const struct file_tensor *tensor);

#endif
