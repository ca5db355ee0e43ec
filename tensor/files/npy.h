/* NumPy's .npy files: one array each.
 *
 * Reads versions 1.0 to 3.0, C and Fortran order, both byte orders, the
 * dtypes bool, int8..64, uint8..64, float16, float32 and float64, and arrays
 * of shape (). Writes version 1.0. bfloat16 and 8-bit floats have no .npy
 * type; whoever wants to write one converts it to float32 first.
 * src: numpy.lib.format's description of the format.
 *
 * Files may be hostile: every size is checked before it is used, and memory
 * is asked for only after the file has proved to hold that much.
 */
#ifndef BELL_TENSOR_FILES_NPY_H
#define BELL_TENSOR_FILES_NPY_H

#include "tensor/files/array.h"

#define NPY_HEADER_MAX 512

/* Whether arrays of this dtype can be in a file. */
bool npy_has_type(enum bell_dtype dtype);

/* What a header says. */
struct npy_header {
    struct host_array array; /* without its data */
    bool swap;               /* the other byte order */
    bool fortran;            /* the first axis is the fast one */
    bool has_descr, has_order, has_shape;
    size_t start; /* of the elements */
};

/* The header at the start of `bytes`. */
BELL_MUST_CHECK bell_status npy_parse_header(const void *bytes, size_t n_bytes,
                                             struct npy_header *out_header);
/* Whether a file of that size holds all elements. */
BELL_MUST_CHECK bell_status npy_check_size(const struct npy_header *h,
                                           uint64_t n_bytes);
/* Strides of the axes where they are in Fortran's order, in elements. */
void npy_strides(const struct npy_header *h, int64_t *out_strides);

/* Reads the array at the start of `bytes`; what follows it is not looked at.
 * BELL_E_IO with a message if it is malformed or truncated, BELL_E_UNSUPPORTED
 * for dtypes that tensors lack. */
BELL_MUST_CHECK bell_status npy_parse(const void *bytes, size_t size_bytes,
                                      struct host_array *out_array);

/* The same from a file; the message names it. */
BELL_MUST_CHECK bell_status npy_read(const char *path,
                                     struct host_array *out_array);

/* Magic, version, length, dictionary, padded to a multiple of 64 bytes: into
 * NPY_HEADER_MAX bytes. Returns how many. */
size_t npy_make_header(const struct host_array *array, char *buf);

/* Writes a file whole or not at all: under another name in the same folder,
 * then renamed. (What is not a regular file, a pipe say, is written as it
 * is.) `array->data` is only read. */
BELL_MUST_CHECK bell_status npy_write(const char *path,
                                      const struct host_array *array);

#endif
