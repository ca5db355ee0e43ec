/* Files of tensors: GGUF, safetensors (one file, or the index of several),
 * NumPy's .npy and .npz, PyTorch's .pth, weights of ONNX models, IDX and
 * CIFAR-10. Which one it is, how a file begins tells; ONNX also by its name's
 * end, .onnx.
 *
 *     bell_file_open("model.gguf", &file);
 *     w = bell_file_tensor(ctx, file, "blk.0.attn_q.weight");
 *     ...
 *     bell_file_close(file);
 *
 * The file is mapped, and read as far as tensors are asked for. It may be
 * hostile: what it says of itself is checked when it is opened, and a tensor
 * never reaches beyond it. (It must not be made shorter while it is open.)
 * An index names safetensors files beside it, and is the only file that names
 * others: docs/reference/files.md tells what such a file may be.
 *
 * Weights that were quantised in blocks stay so in the device's memory: their
 * tensor is computed of them where it is used, in float32, with the roundings
 * of the reference (ggml's dequantize_row). Weights of other than 4 or 8 bits,
 * and of IQ4, TQ and MXFP4, take a byte.
 * A jit that uses them from outside reads the blocks, too, and is captured anew
 * when their tensor is assigned or realized; that makes it float32.
 *
 * Threads: an open file is read by any number at a time.
 *
 * A .pth is a pickle: nothing in it is ever called. What torch.save has made of
 * {'model': net.state_dict()} holds "model.0.weight". Any object but a
 * tensor, number, string or plain container is listed with dtype BELL_DEFAULT,
 * and so is what lies in an .npz beside its arrays.
 * Names are UTF-8 without control characters.
 * src: docs/gguf.md of the ggml project, versions 2 and 3; the description of
 * safetensors in its README; numpy.lib.format's description of .npy.
 */
#ifndef BELL_DOORBELL_FILES_H
#define BELL_DOORBELL_FILES_H

#include "doorbell/module.h"
#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_file;

/* A tensor of a file. Owned by the file. */
struct bell_file_entry {
    const char *name;
    const char *type;      /* as its format says it: "Q4_K", "BF16"; of one
                            * that is not read also "torch.device" */
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

/* The values of the tensor of that name, of the entry's shape and dtype. Name
 * NULL: the only one of the file (.npy and IDX have none; it is "data"
 * here). */
BELL_API struct bell_tensor *bell_file_tensor(struct bell_context *ctx,
                                              const struct bell_file *file,
                                              const char *name);

/* Its elements where the file has them as tensors do, in row-major order:
 * entry->size_bytes in the mapped file, until that is closed. Else NULL: they
 * are in blocks, compressed, of the other byte order, or with gaps. */
BELL_API const void *bell_file_data(const struct bell_file *file,
                                    const char *name);

/* What a file says beside its tensors: GGUF's metadata, safetensors' texts,
 * the numbers and strings of a .pth ("optimizer.param_groups.0.lr").
 * Strings are not terminated. False: there is no such key, or it is of another
 * kind (integers are numbers too). */
BELL_API bool bell_file_int(const struct bell_file *file, const char *key,
                            int64_t *out_value);
/* Key number i, in the order of the file; NULL: there are not that many. */
BELL_API const char *bell_file_key(const struct bell_file *file, uint32_t i);
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

/* ---- saving, and lists of names ---- */

/* Writes a list's tensors under their names (module.h), its numbers as float64
 * of shape (). The path's end says how: .safetensors; .npz; .npy, of one
 * tensor. The file appears whole or not at all. BELL_E_UNSUPPORTED: another
 * ending, or a dtype that the format lacks. */
BELL_API BELL_MUST_CHECK bell_status
bell_file_save(const char *path, const struct bell_state *state);

/* What a file may have less, or more, than a list. */
enum bell_load_flag {
    BELL_LOAD_STRICT = 0,
    BELL_LOAD_MISSING = 1u << 0,   /* items that are not in the file stay */
    BELL_LOAD_UNEXPECTED = 1u << 1 /* what is in it alone is left there */
};

/* What was there and what was not. Names are the list's and the file's. */
struct bell_load {
    uint32_t struct_size; /* sizeof(struct bell_load) */
    uint32_t n_loaded;
    const char **missing; /* the list's, owned as the next */
    uint32_t n_missing;
    const char **unexpected;
    uint32_t n_unexpected;
};

/* Gives the list's tensors and numbers the values that the file has under their
 * names, or under "prefix.name" (NULL: no prefix); of another dtype they are
 * converted. All or none: BELL_E_INVALID, with the names, if one is missing or
 * unexpected and `flags` do not allow that, or of another shape; a struct_size
 * of
 * *out_load that is too small. *out_load (or NULL) is set whether or not it is
 * allowed, and freed by bell_load_fini. */
BELL_API BELL_MUST_CHECK bell_status
bell_state_load(const struct bell_state *state, const struct bell_file *file,
                const char *prefix, uint32_t flags, struct bell_load *out_load);
/* Frees the lists of names. NULL is allowed. */
BELL_API void bell_load_fini(struct bell_load *load);

/* A checkpoint of a training: the list (of a module's bell_module_state and an
 * optimiser's bell_optimizer_state), the state of the context's random numbers,
 * and the number of the step, as a safetensors file. On return it is on the
 * disk; whenever the process is killed, the file is the old one or the new
 * one. A training that goes on from it computes the same bits. */
BELL_API BELL_MUST_CHECK bell_status
bell_checkpoint_save(const char *path, struct bell_context *ctx,
                     const struct bell_state *state, int64_t step);
/* Restores all that. BELL_E_INVALID: it is of another list, or no
 * checkpoint. */
BELL_API BELL_MUST_CHECK bell_status
bell_checkpoint_load(const char *path, struct bell_context *ctx,
                     const struct bell_state *state, int64_t *out_step);

#ifdef __cplusplus
}
#endif
#endif
