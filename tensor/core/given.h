/* Kernels that callers give (doorbell/custom.h), as a context keeps them. */
#ifndef BELL_TENSOR_CORE_GIVEN_H
#define BELL_TENSOR_CORE_GIVEN_H

#include <stddef.h>
#include <stdint.h>

#include "doorbell/custom.h"
#include "uops/uop.h"

struct tensor_given_code {
    char device[64];
    enum bell_kernel_form form;
    char *data; /* owned; one byte of 0 behind it */
    size_t n_bytes;
    uint32_t grid[3], local[3], n_shared_bytes;
};

/* Immutable once made. */
struct tensor_given {
    char name[128];
    uint32_t n_out, n_values, n_codes;
    enum uop_dtype *dtypes; /* of the results */
    int64_t *n_elems;
    int64_t *values;
    struct tensor_given_code *codes;
};

/* All of a context; a UOP_CALL names one by its number. */
struct tensor_givens {
    struct tensor_given **list;
    size_t n, cap;
};

void tensor_givens_fini(struct tensor_givens *g);

#endif
