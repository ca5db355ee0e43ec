/* Writing bundles: hcq/hcq_bundle_format.h.
 *
 * Values are added first or as they are met; then, for each target, what a
 * capture launches; then the file is written.
 */
#ifndef BELL_TENSOR_RUNTIME_BUNDLE_H
#define BELL_TENSOR_RUNTIME_BUNDLE_H

#include "base/status.h"
#include "hcq/hcq_bundle_file.h"
#include "uops/uop.h"

struct rt_binary;
struct rt_bundle;
struct rt_capture;
struct tensor_buffer;

/* keeps_ir: its kernels can be searched for (docs/how-to/tuning.md). */
BELL_MUST_CHECK bell_status rt_bundle_create(bool keeps_ir,
                                             struct rt_bundle **out);
/* NULL is allowed. */
void rt_bundle_destroy(struct rt_bundle *b);

/* A value of a name that is not taken, which is copied. `data`, a reference
 * that the bundle takes on, or NULL, is read when the file is written. */
BELL_MUST_CHECK bell_status
rt_bundle_value(struct rt_bundle *b, enum bundle_kind kind, const char *name,
                enum uop_dtype dtype, const int64_t *shape, uint32_t ndim,
                struct tensor_buffer *data, uint32_t *out_number);
/* Another name of a value that has `data`, for who lists or replaces it. */
BELL_MUST_CHECK bell_status rt_bundle_alias(struct rt_bundle *b,
                                            uint32_t number, const char *name);
/* The number of the constant with this content; it is added if there is none.
 * Weights that have the same are others: they can be replaced. */
BELL_MUST_CHECK bell_status rt_bundle_constant(struct rt_bundle *b,
                                               struct tensor_buffer *data,
                                               uint32_t *out_number);

/* A symbol of a name that no other has. */
BELL_MUST_CHECK bell_status rt_bundle_symbol(struct rt_bundle *b,
                                             const char *name, int64_t min,
                                             int64_t max, uint32_t *out_number);

/* The size a op b, each a number or BUNDLE_OF a value that has one; `name` is
 * how it is shown. BELL_E_UNSUPPORTED: it, or a divisor, is out of range. */
BELL_MUST_CHECK bell_status rt_bundle_size(struct rt_bundle *b,
                                           const char *name,
                                           enum bundle_size_op op, uint64_t x,
                                           uint64_t y, uint32_t *out_number);
/* Axes of an input or output are such sizes; so are its bytes, at most. */
BELL_MUST_CHECK bell_status rt_bundle_set_sizes(struct rt_bundle *b,
                                                uint32_t value,
                                                const uint64_t *shape);

/* Where something is, or the word times * symbol + offset. */
struct rt_place {
    enum bundle_place place; /* BUNDLE_WORD: nowhere */
    uint32_t value;
    uint64_t offset;
    int32_t times; /* of BUNDLE_TIMES */
};

struct rt_bundle_copy {
    struct rt_place to, from;
    uint64_t size_bytes;
};

/* What a target runs: the launches of a capture, then copies. */
struct rt_bundle_run {
    const struct rt_capture *capture;
    const struct rt_place *slots; /* by slot of the tape */
    uint32_t n_slots;
    const struct rt_place *kept; /* by buffer that was made of data */
    const struct rt_bundle_copy *copies;
    uint32_t n_copies;
    uint64_t arena_bytes;
};

BELL_MUST_CHECK bell_status rt_bundle_target(struct rt_bundle *b,
                                             const struct rt_bundle_run *run);

/* Each input, output, state and symbol is found by its name, as `doorbell run`
 * looks for them: "name=FILE". BELL_E_INVALID: one has '=', or a name that
 * another one or a weight has, but that an output may be called as an input. */
BELL_MUST_CHECK bell_status rt_bundle_check_names(const struct rt_bundle *b);
BELL_MUST_CHECK bell_status rt_bundle_write(const struct rt_bundle *b,
                                            const char *path);

/* Another kernel in place of one of a bundle; `binary` NULL: it stays. */
struct rt_bundle_new {
    const struct rt_binary *binary;
    const char *entry;
    uint32_t grid[3];
};

/* Writes the bundle again, with other kernels: list[] is by number of kernel.
 * The file of `path` may be that of the bundle, which stays as it was open. */
BELL_MUST_CHECK bell_status rt_bundle_rewrite(const struct bundle_file *from,
                                              const struct rt_bundle_new *list,
                                              const char *path);

#endif
