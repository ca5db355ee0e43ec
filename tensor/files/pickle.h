/* Python's pickles, as PyTorch's files have them: numbers, strings, tuples,
 * lists, dictionaries, storages and tensors. Nothing of a pickle is ever
 * called: a name stands for one of those, or for an object that is not known,
 * of which the name is all that there is.
 *
 * src: the comments of CPython's Lib/pickletools.py; what torch.save writes.
 */
#ifndef BELL_TENSOR_FILES_PICKLE_H
#define BELL_TENSOR_FILES_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "doorbell/tensor.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_MARK, /* on the stack only */
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_STR,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,    /* keys and values by turns */
    PICKLE_NAME,    /* of what may be called */
    PICKLE_STORAGE, /* text: its key */
    PICKLE_TENSOR,
    PICKLE_DTYPE,
    PICKLE_OBJECT /* not known: of a type, or by a call, of its name */
};

/* What a value is, by number; 0 is None. */
struct pickle_value {
    enum pickle_kind kind;
    enum bell_dtype dtype; /* of a storage, tensor or name */
    int64_t i;             /* and of a tensor where it begins, in elements;
                            * of a storage how many elements it has */
    double f;
    const char *text; /* in the pickle, n bytes */
    uint32_t n;
    /* What an object is called, or a storage or tensor whose dtype is
     * BELL_DEFAULT; in the pickle, or constant. */
    const char *module, *name;
    uint32_t n_module, n_name;
    uint32_t first, last;    /* cells of a tuple, list or dictionary; 0: none */
    uint32_t storage;        /* of a tensor: a value */
    uint32_t shape, strides; /* of a tensor: tuples */
    uint32_t call;           /* of a name */
};

struct pickle_cell {
    uint32_t value, next;
};

struct pickle {
    struct pickle_value *values; /* owned, as the others */
    size_t n_values, cap_values;
    struct pickle_cell *cells;
    size_t n_cells, cap_cells;
    uint32_t *stack;
    size_t n_stack, cap_stack;
    uint32_t *memo;
    size_t n_memo, cap_memo;
    uint32_t root;
};

/* Writes what an object, storage or tensor is called, "torch.complex64". */
void pickle_print_name(const struct pickle_value *value, char *out,
                       size_t size_bytes);

/* BELL_E_IO: damaged; BELL_E_UNSUPPORTED: an operation that is not known.
 * Texts stay in `bytes`. After a failure as well:
 * pickle_fini. */
BELL_MUST_CHECK bell_status pickle_read(const uint8_t *bytes, size_t n_bytes,
                                        struct pickle *out_pickle);
void pickle_fini(struct pickle *pickle);

#endif
