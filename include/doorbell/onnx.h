/* ONNX models: files of networks that other programs write.
 *
 *     bell_onnx_open(ctx, "model.onnx", &model);
 *     struct bell_jit_desc desc = {sizeof(desc), "model", bell_onnx_call, model,
 *                                  bell_onnx_n_inputs(model),
 *                                  bell_onnx_n_outputs(model)};
 *     status = bell_jit_create(ctx, &desc, &jit);
 *     status = bell_jit_call(jit, &x, &y);
 *     ...
 *     bell_jit_destroy(jit);
 *     bell_onnx_close(model);
 *
 * bell_onnx_call has the form of a jit's function (jit.h), so a model is called
 * as it is, captured, tuned and saved as a bundle by the same calls as any
 * other function.
 *
 * The file is mapped. On the CPU a tensor of its weights is that memory where
 * it is aligned to an element; elsewhere it is a copy on the device. The file
 * may be hostile:
 * - every length and count is checked when it is opened;
 * - external data is below the model's folder, not behind a link, and ends
 *   where its file does;
 * - graphs and functions nest 16 deep at most, a call runs 250,000 nodes at
 *   most, and no value of it has more than 2^31 elements;
 * - what a call computes on the host takes 256 MiB at most.
 * (It must not be made shorter while it is open.)
 *
 * Operators that are not known, and attributes that are not known, are refused
 * by name before anything runs: bell_onnx_node tells each, and bell_onnx_call
 * the first. docs/reference/onnx.md lists what is known.
 *
 * Values on the host. Shapes, axes, counts and conditions are numbers of the
 * host. Values of shapes and constants alone are computed there. Any
 * other is read back from the device; in a function that is captured that is an
 * error, which names the node. Loops are unrolled, conditions take one branch.
 *
 * Sizes. A model names sizes that it leaves open, "batch" or "seq".
 * bell_onnx_set_dim says what one is: a number, or a symbol (dim.h), so that
 * one capture, and one bundle, is for all its values:
 *
 *     struct bell_dim seq = bell_symbol(ctx, "seq", 1, 512);
 *     status = bell_onnx_set_dim(model, "seq", seq);
 *     status = bell_onnx_input_shape(model, 0, shape, &ndim);
 *     x = bell_empty(ctx, shape, ndim, BELL_INT64);
 *     status = bell_jit_call(jit, &x, &y);
 *     ... further calls are given tensors of any length in bounds
 *
 * An operator that takes numbers alone says so by name when it is captured
 * (docs/reference/onnx.md).
 *
 * Threads: as its context.
 * Opsets 7 to 28. src: onnx 1.23, IR and Operators.
 */
#ifndef BELL_DOORBELL_ONNX_H
#define BELL_DOORBELL_ONNX_H

#include "doorbell/dim.h"
#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_onnx;

/* A size that the model gives a number (size >= 0), a name, or neither: then
 * size is -1 and name is "". */
struct bell_onnx_dim {
    int64_t size;
    const char *name;
};

/* An input, output or weight. Owned by the model. */
struct bell_onnx_value {
    const char *name;
    const char *kind;      /* "tensor", "sequence", "optional", .. */
    const char *type;      /* of elements, as the standard writes it: "float" */
    enum bell_dtype dtype; /* BELL_DEFAULT: tensors have no such elements */
    bool has_shape;        /* false: the model does not say it */
    uint32_t ndim;
    struct bell_onnx_dim dims[BELL_MAX_RANK];
};

/* A node of the model's graph. Owned by the model. */
struct bell_onnx_node {
    const char *op;
    const char *domain;  /* "" for ai.onnx */
    const char *name;    /* "" if it has none */
    int64_t opset;       /* version of its domain in the model */
    const char *refused; /* why it cannot be run; NULL: it can */
};

/* Facts of a model. Plain data. */
struct bell_onnx_info {
    uint32_t struct_size; /* sizeof(struct bell_onnx_info) */
    uint32_t n_inputs, n_outputs, n_weights, n_nodes;
    uint32_t n_refused;        /* of n_nodes */
    int64_t ir_version, opset; /* opset: of ai.onnx */
    uint64_t weight_bytes;
};

/* Reads the model, and makes tensors of its weights in `ctx`, which live until
 * bell_onnx_close. BELL_E_IO: it cannot be read, or is damaged, with the place;
 * BELL_E_PERMISSION; BELL_E_UNSUPPORTED: it has something that cannot even be
 * listed, such as a tensor of 33 axes. */
BELL_API BELL_MUST_CHECK bell_status bell_onnx_open(
    struct bell_context *ctx, const char *path, struct bell_onnx **out_model);
/* Ends it, before or after its context. Tensors that were computed stay; a jit
 * that captured it goes on with the weights that it found, and is not captured
 * again. NULL is allowed. */
BELL_API void bell_onnx_close(struct bell_onnx *model);

/* Facts. */
BELL_API void bell_onnx_get_info(const struct bell_onnx *model,
                                 struct bell_onnx_info *out_info);
/* How many inputs a call takes: those of the graph that no weight has the name
 * of. */
BELL_API uint32_t bell_onnx_n_inputs(const struct bell_onnx *model);
/* How many outputs a call gives. */
BELL_API uint32_t bell_onnx_n_outputs(const struct bell_onnx *model);
/* Input number i; NULL: there are not that many. */
BELL_API const struct bell_onnx_value *
bell_onnx_input(const struct bell_onnx *model, uint32_t i);
/* Output number i. */
BELL_API const struct bell_onnx_value *
bell_onnx_output(const struct bell_onnx *model, uint32_t i);
/* Weight number i: an initializer of the graph. */
BELL_API const struct bell_onnx_value *
bell_onnx_weight(const struct bell_onnx *model, uint32_t i);
/* The tensor of the weight of that name, the model's own: it may be marked for
 * bell_backward, assigned to, and saved. NULL: there is none, or it has
 * elements that tensors have not. */
BELL_API struct bell_tensor *
bell_onnx_weight_tensor(const struct bell_onnx *model, const char *name);
/* Node number i of the graph, in the order in which they run. */
BELL_API const struct bell_onnx_node *
bell_onnx_node(const struct bell_onnx *model, uint32_t i);

/* The size of every axis of inputs that the model gives that name, from now on:
 * a number, or one of symbols of the model's context. BELL_E_INVALID: no input
 * has that name (the message lists those there are), or the size is not one of
 * the context. */
BELL_API BELL_MUST_CHECK bell_status bell_onnx_set_dim(struct bell_onnx *model,
                                                       const char *name,
                                                       struct bell_dim size);
/* The sizes of input i, numbers or sizes as in BELL_SHAPE, for a model that
 * leaves them open. BELL_E_INVALID: they are not what the model says. */
BELL_API BELL_MUST_CHECK bell_status bell_onnx_set_input_shape(
    struct bell_onnx *model, uint32_t i, const int64_t *shape, uint32_t ndim);
/* The sizes of input i: the model's, and those that were set. `out_shape` has
 * room for BELL_MAX_RANK. BELL_E_INVALID: one is open; the message says which
 * axis of which input. */
BELL_API BELL_MUST_CHECK bell_status
bell_onnx_input_shape(const struct bell_onnx *model, uint32_t i,
                      int64_t *out_shape, uint32_t *out_ndim);

/* Runs the model, a struct bell_onnx of `ctx`: in[] are its inputs in order, of
 * which dtypes and sizes are checked, those of the model and those that were
 * set, and out[] new tensors of the innermost scope, its outputs.
 * BELL_E_UNSUPPORTED: it has a node that cannot be run, by name; then nothing
 * has run. */
BELL_API BELL_MUST_CHECK bell_status
bell_onnx_call(struct bell_context *ctx, void *model,
               struct bell_tensor *const *in, struct bell_tensor **out);

/* An operator that is known. */
struct bell_onnx_operator {
    const char *name, *domain; /* domain "": ai.onnx */
    const char *function;      /* of functions.h; NULL: several */
    const char *attributes;    /* "name:kind", separated by blanks; kinds: i
                                * f s t g T, and of lists I F S */
};
/* Row i of the table of operators; false: there are not that many. Thread
 * safe. */
BELL_API bool bell_onnx_operator_at(uint32_t i, struct bell_onnx_operator *out);

#ifdef __cplusplus
}
#endif
#endif
