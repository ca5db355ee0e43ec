/* Bundles: compiled functions in files, which need no compiler.
 *
 *     hcq_bundle_open(dev, "mnist.bundle", &bundle);
 *     x = hcq_bundle_find(bundle, HCQ_BUNDLE_INPUT, "x");
 *     y = hcq_bundle_find(bundle, HCQ_BUNDLE_OUTPUT, "y");
 *     loop: hcq_bundle_write(bundle, x, image, sizeof(image));
 *           hcq_bundle_run(bundle, NULL);
 *           hcq_bundle_read(bundle, y, scores, sizeof(scores));
 *
 * A bundle has inputs, outputs, state that one run leaves to the next, weights
 * that stay, and symbols, of which sizes and offsets that vary are made. An
 * input or output whose axes are such sizes has as many elements as these are:
 * hcq_bundle_fit makes them what a shape says. docs/reference/bundle-format.md
 * describes the file.
 *
 * Files are taken for hostile: each number in one is checked before it is used,
 * and what does not fit is refused with the section and the offset in it. The
 * kernels' actions are not checked: whoever runs a bundle trusts whoever made
 * it, as with any program.
 *
 * Threads: as queues; a bundle has one.
 */
#ifndef BELL_HCQ_HCQ_BUNDLE_H
#define BELL_HCQ_HCQ_BUNDLE_H

#include "hcq/hcq.h"

struct hcq_bundle;

#define HCQ_BUNDLE_RANK_MAX 8
#define HCQ_BUNDLE_NONE     UINT32_MAX

enum hcq_bundle_kind {
    HCQ_BUNDLE_INPUT,
    HCQ_BUNDLE_OUTPUT,
    HCQ_BUNDLE_STATE,
    HCQ_BUNDLE_WEIGHT,
    HCQ_BUNDLE_SYMBOL, /* a number: how much of something, or where */
    HCQ_BUNDLE_SIZE,   /* computed of symbols, for axes; not for callers */
    HCQ_BUNDLE_KIND_COUNT
};

/* Elements are row-major. Plain data; lives as long as the bundle. */
struct hcq_bundle_value {
    const char *name;
    enum hcq_bundle_kind kind;
    uint32_t dtype; /* for hcq_bundle_dtype_name */
    uint32_t ndim;
    uint64_t shape[HCQ_BUNDLE_RANK_MAX]; /* of a symbol, which has no axes, its
                                          * least and its greatest value; of an
                                          * input or output its sizes by now */
    uint64_t size_bytes;                 /* by now */
};

/* What is loaded. Plain data; lives as long as the bundle. */
struct hcq_bundle_info {
    uint32_t struct_size; /* sizeof(struct hcq_bundle_info) */
    const char *arch;     /* that its kernels are for: "sm_90" */
    const char *tools;    /* that made them */
    uint32_t n_values, n_kernels, n_commands;
    uint64_t weight_bytes, arena_bytes;
    bool weights_in_place; /* the device reads the file's pages */
};

/* Reads a file and loads what it has for the device. The file stays as it is
 * while the bundle is open. BELL_E_IO, malformed; BELL_E_UNSUPPORTED, of
 * another version, without kernels for this device (the message says which
 * it has), or with a grid that it does not take; and as hcq_program_create and
 * hcq_buffer_create. */
BELL_MUST_CHECK bell_status hcq_bundle_open(struct hcq_device *dev,
                                            const char *path,
                                            struct hcq_bundle **out_bundle);
/* Judges a file's bytes before anything in them is used: by a signature, say.
 * BELL_OK, or why it is refused (bell_fail). */
typedef bell_status hcq_bundle_check_fn(void *user, const char *path,
                                        const void *data, uint64_t size_bytes);
/* hcq_bundle_open of a file that `check` accepts, which also judges the files
 * of hcq_bundle_load_weights; NULL: no check. `user` outlives the bundle. The
 * bytes are those that are used then: who may write to the file while it is
 * open can still change them. */
BELL_MUST_CHECK bell_status hcq_bundle_open_checked(
    struct hcq_device *dev, const char *path, hcq_bundle_check_fn *check,
    void *user, struct hcq_bundle **out_bundle);
/* The same from memory, at an address that is a multiple of 4096, which
 * outlives the bundle. */
BELL_MUST_CHECK bell_status
hcq_bundle_open_memory(struct hcq_device *dev, const void *data,
                       uint64_t size_bytes, struct hcq_bundle **out_bundle);
/* Waits for its work; after a wait that gave up, hcq_device_recover drops that
 * work first. NULL is allowed. */
void hcq_bundle_close(struct hcq_bundle *bundle);

/* Fills *out_info, whose struct_size is set; fields beyond it stay. */
void hcq_bundle_get_info(const struct hcq_bundle *bundle,
                         struct hcq_bundle_info *out_info);

/* Value number `number` of info.n_values, those of a kind in the order in which
 * they were saved; NULL: there are no more. */
const struct hcq_bundle_value *hcq_bundle_value(const struct hcq_bundle *bundle,
                                                uint32_t number);
/* The number of the value of that name, or HCQ_BUNDLE_NONE. */
uint32_t hcq_bundle_find(const struct hcq_bundle *bundle,
                         enum hcq_bundle_kind kind, const char *name);

/* "float32" and the like, and the bytes of an element; NULL: no dtype. */
const char *hcq_bundle_dtype_name(uint32_t dtype, uint32_t *out_size_bytes);

/* How an axis of an input or output varies: the name of its size, a symbol's or
 * "2*n + 1"; NULL, with both bounds the size: it does not. */
const char *hcq_bundle_axis(const struct hcq_bundle *bundle, uint32_t value,
                            uint32_t axis, uint64_t *out_min,
                            uint64_t *out_max);
/* Gives the symbols the values by which an input or output has this shape, for
 * runs from now on. Symbols that its axes do not decide stay. BELL_E_INVALID,
 * which names value, axis, size and bounds, and nothing changed: another number
 * of axes, one that does not vary and differs, one out of bounds, or two that
 * do not go together. */
BELL_MUST_CHECK bell_status hcq_bundle_fit(struct hcq_bundle *bundle,
                                           uint32_t value,
                                           const uint64_t *shape,
                                           uint32_t ndim);

/* Sets an input, state or weight from host memory; waits for runs that use it.
 * A symbol is an int64_t for runs from now on, its least value at first; that
 * waits for nothing. An input of the sizes of symbols has those that they are
 * by now, and is written again where they change. A weight can be written that
 * has a name of its own: not "weight0", nor a constant, "data.0" or "rates0.0".
 * The file stays as it is. BELL_E_INVALID: another kind of value, not its size,
 * or a symbol out of bounds. */
BELL_MUST_CHECK bell_status hcq_bundle_write(struct hcq_bundle *bundle,
                                             uint32_t value, const void *data,
                                             uint64_t size_bytes);
/* Writes all weights that have names of their own, and the states that the file
 * names, from a file of safetensors: as a bundle computes that was saved anew
 * with these. It has every such weight under its name, of its dtype and shape,
 * and nothing else. Nothing is written before all that is checked. BELL_E_IO,
 * malformed; BELL_E_INVALID, the names, dtypes or shapes differ;
 * BELL_E_UNSUPPORTED, the bundle has a weight that was saved without a name. */
BELL_MUST_CHECK bell_status hcq_bundle_load_weights(struct hcq_bundle *bundle,
                                                    const char *path);
/* Waits for all runs and copies a value out that is not a symbol. An output has
 * undefined content before the first run, and so has an input that was not
 * written. */
BELL_MUST_CHECK bell_status hcq_bundle_read(struct hcq_bundle *bundle,
                                            uint32_t value, void *data,
                                            uint64_t size_bytes);
/* Runs from now on have an input or output in the caller's buffer (of the same
 * device), from `offset_bytes`, a multiple of 64; NULL: in the bundle's own,
 * where an input has what was last written, and is not set if nothing was. The
 * buffer has room for the most that sizes can be.
 * Inputs and outputs do not overlap. */
BELL_MUST_CHECK bell_status hcq_bundle_bind(struct hcq_bundle *bundle,
                                            uint32_t value,
                                            const struct hcq_buffer *buf,
                                            uint64_t offset_bytes);

/* Queues a run; does not wait. On a processor kernels of few steps may be done
 * by this thread, before it returns (hcq_program_desc.max_steps). Every input
 * was written or bound, with the sizes that symbols give it by now.
 * *out_value (may be NULL) is what the timeline of hcq_bundle_queue reaches
 * when it is done; the next run overwrites its outputs. */
BELL_MUST_CHECK bell_status hcq_bundle_run(struct hcq_bundle *bundle,
                                           uint64_t *out_value);
/* Waits for all runs so far. */
BELL_MUST_CHECK bell_status hcq_bundle_wait(struct hcq_bundle *bundle,
                                            uint64_t timeout_ns);
/* Owned by the bundle. */
struct hcq_queue *hcq_bundle_queue(struct hcq_bundle *bundle);

#endif
