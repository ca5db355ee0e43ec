/* Reads a bundle: after it every number in the file that is used is known to
 * be in range. Asks no device. No state: any thread. */
#ifndef BELL_HCQ_HCQ_BUNDLE_FILE_H
#define BELL_HCQ_HCQ_BUNDLE_FILE_H

#include <stdbool.h>

#include "base/safetensors.h"
#include "base/status.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_format.h"

/* A bundle's tables. Borrows the file's bytes. */
struct bundle_file {
    const uint8_t *data;
    uint64_t size_bytes;
    const struct bundle_header *header;
    const struct bundle_target *targets;
    const struct bundle_value *values;
    const struct bundle_kernel *kernels;
    const struct bundle_command *commands;
    const struct bundle_arg *args;
    const char *names;
    const uint8_t *objects;
    const char *ir;    /* texts, of which the first is empty; NULL: none */
    uint64_t ir_bytes; /* of them */
    uint32_t n_targets, n_values, n_kernels, n_commands, n_args;
    uint64_t weight_bytes; /* of DATA, up to the end of the last weight */
};

/* `data` is at a multiple of 64. BELL_E_IO: malformed; BELL_E_UNSUPPORTED: of
 * another version. */
BELL_MUST_CHECK bell_status bundle_file_open(const void *data,
                                             uint64_t size_bytes,
                                             struct bundle_file *out_file);

/* a op b. */
int64_t bundle_size_apply(enum bundle_size_op op, int64_t a, int64_t b);
/* The bounds of a op b, from those of a and b, which are beyond no
 * BUNDLE_SIZE_MAX. False: a divisor can be 0, or the result is too large. */
bool bundle_size_bounds(enum bundle_size_op op, const int64_t a[2],
                        const int64_t b[2], int64_t out[2]);
/* Bounds of a number, or of what stands for one, in a file that was checked so
 * far. */
void bundle_bounds(const struct bundle_file *f, uint64_t number,
                   int64_t out[2]);

struct hcq_device_info;

/* The number of the target that suits the device best; BELL_E_UNSUPPORTED: of
 * none. */
BELL_MUST_CHECK bell_status
bundle_choose_target(const struct bundle_file *f,
                     const struct hcq_device_info *info, uint32_t *out_target);

/* For who writes a file, before its checksums are made: links the objects of
 * processors where they lie. `file` begins at a multiple of 4096, and header,
 * kernels and objects are there. */
void bundle_link_objects(uint8_t *file, const struct bundle_header *header);

/* Who named a weight or a state. */
enum bundle_naming {
    BUNDLE_NAMED,    /* who saved it */
    BUNDLE_UNNAMED,  /* nobody: "weight0", "state0" */
    BUNDLE_CONSTANT, /* it is the bundle's own: "data.0", "rates0.0", "steps0",
                      * "random" */
};
enum bundle_naming bundle_naming(const char *name);

/* The first of the weights that are one in DATA, under several names. */
uint32_t bundle_first_name(const struct bundle_file *f, uint32_t weight);

/* A file of safetensors whose tensors are weights and states of a bundle. */
struct bundle_weights {
    void *map;
    size_t map_bytes;
    struct safetensors list;
    uint32_t *numbers; /* by tensor of the list: of a value */
};

/* Who judges a file first; fn NULL: nobody. */
struct bundle_check {
    hcq_bundle_check_fn *fn;
    void *user;
};

/* Maps it and compares it with a bundle, as hcq_bundle_load_weights says. Freed
 * by bundle_weights_close. Messages begin with the path. */
BELL_MUST_CHECK bell_status bundle_weights_open(
    const struct bundle_file *f, const char *path,
    const struct bundle_check *check, struct bundle_weights *out);
void bundle_weights_close(struct bundle_weights *w);

/* Whether a weight can have other content: else BELL_E_INVALID says why not. */
BELL_MUST_CHECK bell_status bundle_check_renewable(const char *name);

/* "float32", and bytes of an element; NULL: no dtype. */
const char *bundle_dtype(uint32_t dtype, uint32_t *out_size_bytes);

#endif
