/* Files of tensors: GGUF and safetensors.
 *
 *     bell_file_open("model.gguf", &file);
 *     w = bell_file_tensor(ctx, file, "blk.0.attn_q.weight");
 *     ...
 *     bell_file_close(file);
 *
 * The file is mapped, and read as far as tensors are asked for. It may be
 * hostile: what it says of itself is checked when it is opened, and a tensor
 * never reaches beyond it. (It must not be made shorter while it is open.)
 *
 * Weights that were quantised in blocks stay so in the device's memory: their
 * tensor is computed of them where it is used, in float32, with the roundings
 * of the reference (ggml's dequantize_row). 5- and 6-bit weights take a byte.
 * What realizes them makes them float32, and so does a jit that uses them from
 * outside.
 *
 * Threads: an open file is read by any number at a time.
 * src: docs/gguf.md of the ggml project, versions 2 and 3; the description of
 * safetensors in its README.
 */
#ifndef BELL_DOORBELL_FILES_H
#define BELL_DOORBELL_FILES_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_file;

/* A tensor of a file. Owned by the file. */
struct bell_file_entry {
    const char *name;
    const char *type;      /* as its format says it: "Q4_K", "BF16" */
    enum bell_dtype dtype; /* of elements; BELL_FLOAT32 for blocks, and
                            * BELL_DEFAULT for what no tensor can be made of */
    uint32_t ndim;
    int64_t shape[BELL_MAX_RANK]; /* outermost first */
    uint64_t size_bytes;          /* in the file */
};

/* BELL_E_IO: cannot be read, or is damaged, with the place; BELL_E_UNSUPPORTED:
 * another format, or another version. */
BELL_API BELL_MUST_CHECK bell_status
bell_file_open(const char *path, struct bell_file **out_file);
/* Tensors that were made of it stay. NULL is allowed. */
BELL_API void bell_file_close(struct bell_file *file);

/* Number of tensors. */
BELL_API uint32_t bell_file_count(const struct bell_file *file);
/* Tensor number i; NULL: there are not that many. */
BELL_API const struct bell_file_entry *
bell_file_at(const struct bell_file *file, uint32_t i);
/* The tensor of that name; NULL: there is none. */
BELL_API const struct bell_file_entry *
bell_file_find(const struct bell_file *file, const char *name);

/* The values of the tensor of that name, of the entry's shape and dtype. */
BELL_API struct bell_tensor *bell_file_tensor(struct bell_context *ctx,
                                              const struct bell_file *file,
                                              const char *name);

/* What a file says beside its tensors: GGUF's metadata, safetensors' texts.
 * Strings are not terminated. False: there is no such key, or it is of another
 * kind (integers are numbers too). */
BELL_API bool bell_file_int(const struct bell_file *file, const char *key,
                            int64_t *out_value);
/* A number. */
BELL_API bool bell_file_float(const struct bell_file *file, const char *key,
                              double *out_value);
/* A string. */
BELL_API bool bell_file_str(const struct bell_file *file, const char *key,
                            const char **out_text, size_t *out_size_bytes);
/* Number of items of a list; 0: there is none. */
BELL_API uint64_t bell_file_list(const struct bell_file *file, const char *key);
/* Item i of a list of integers (and bools), numbers or strings. */
BELL_API bool bell_file_list_int(const struct bell_file *file, const char *key,
                                 uint64_t i, int64_t *out_value);
/* The same of a list of numbers. */
BELL_API bool bell_file_list_float(const struct bell_file *file,
                                   const char *key, uint64_t i,
                                   double *out_value);
/* The same of a list of strings. */
BELL_API bool bell_file_list_str(const struct bell_file *file, const char *key,
                                 uint64_t i, const char **out_text,
                                 size_t *out_size_bytes);

#ifdef __cplusplus
}
#endif
#endif
