/* An array from a file, or for one. */
#ifndef BELL_TENSOR_FILES_ARRAY_H
#define BELL_TENSOR_FILES_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "doorbell/tensor.h"

/* Row-major, in host byte order, bools as 0 or 1. `data` is host memory of the
 * struct (host_array_fini). */
struct host_array {
    enum bell_dtype dtype;
    uint32_t ndim;
    int64_t shape[BELL_MAX_RANK];
    uint64_t n_elems;
    size_t size_bytes;
    void *data;
};

void host_array_fini(struct host_array *array);

/* n_elems and size_bytes from dtype and shape: BELL_E_IO if memory cannot hold
 * that. */
BELL_MUST_CHECK bell_status host_array_size(struct host_array *array);
/* Allocates data and copies size_bytes from src, each element's bytes turned
 * round if `swap`. */
BELL_MUST_CHECK bell_status host_array_copy(struct host_array *array,
                                            const void *src, bool swap);

/* The array's elements from where strides, in elements, have them in src, to
 * its data; their bytes turned round if `swap`. */
void host_array_gather(const struct host_array *array, const void *src,
                       const int64_t *strides, bool swap);

typedef bell_status host_array_parse_fn(const void *bytes, size_t size_bytes,
                                        struct host_array *out_array);
/* Parses a whole file; the message names it. */
BELL_MUST_CHECK bell_status host_array_read(const char *path,
                                            host_array_parse_fn *parse,
                                            struct host_array *out_array);

#endif
