/* A model as its file has it: plain data in an arena, nothing computed.
 *
 * Names are copied, weights are not: they lie in the mapped file, in the mapped
 * file of external data, or, where the model lists them as numbers, in the
 * arena.
 * src: onnx 1.23, onnx.proto (field numbers), IR, ExternalData.
 */
#ifndef BELL_TENSOR_ONNX_GRAPH_H
#define BELL_TENSOR_ONNX_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "doorbell/tensor.h"
#include "tensor/onnx/wire.h"

/* Graphs within graphs, and functions within functions. */
#define ONNX_MAX_DEPTH 16

/* TensorProto.DataType. */
enum onnx_type {
    ONNX_UNDEFINED,
    ONNX_FLOAT,
    ONNX_UINT8,
    ONNX_INT8,
    ONNX_UINT16,
    ONNX_INT16,
    ONNX_INT32,
    ONNX_INT64,
    ONNX_STRING,
    ONNX_BOOL,
    ONNX_FLOAT16,
    ONNX_DOUBLE,
    ONNX_UINT32,
    ONNX_UINT64,
    ONNX_COMPLEX64,
    ONNX_COMPLEX128,
    ONNX_BFLOAT16,
    ONNX_FLOAT8E4M3FN,
    ONNX_FLOAT8E4M3FNUZ,
    ONNX_FLOAT8E5M2,
    ONNX_FLOAT8E5M2FNUZ,
    ONNX_UINT4,
    ONNX_INT4,
    ONNX_FLOAT4E2M1,
    ONNX_FLOAT8E8M0,
    ONNX_UINT2,
    ONNX_INT2,
    ONNX_TYPE_COUNT
};

/* Fails: out of memory. */
BELL_MUST_CHECK bell_status onnx_no_memory(void);

/* The dtype of tensors of such elements; BELL_DEFAULT: they have none. */
enum bell_dtype onnx_dtype(uint32_t type);
/* As the standard writes it: "tensor(float16)" without tensor(). */
const char *onnx_type_name(uint32_t type);
/* The other way around. */
enum onnx_type onnx_type_of(enum bell_dtype dtype);

/* A tensor of the file. */
struct onnx_tensor {
    const char *name; /* "" for none */
    uint32_t type;    /* enum onnx_type, or a number that is not known */
    uint32_t ndim;
    int64_t dims[BELL_MAX_RANK];
    uint64_t n_elems;
    const uint8_t *data; /* NULL: of strings and types that are not read */
    uint64_t size_bytes;
    struct bell_tensor *made; /* while it is open, in its context; or NULL */
    bool in_file; /* in the mapping, which outlives the arena's reading */
};

struct onnx_graph;

/* AttributeProto.AttributeType. */
enum onnx_attr_type {
    ONNX_ATTR_UNDEFINED,
    ONNX_ATTR_FLOAT,
    ONNX_ATTR_INT,
    ONNX_ATTR_STRING,
    ONNX_ATTR_TENSOR,
    ONNX_ATTR_GRAPH,
    ONNX_ATTR_FLOATS,
    ONNX_ATTR_INTS,
    ONNX_ATTR_STRINGS,
    ONNX_ATTR_TENSORS,
    ONNX_ATTR_GRAPHS,
    ONNX_ATTR_SPARSE,
    ONNX_ATTR_SPARSES,
    ONNX_ATTR_TYPE,
    ONNX_ATTR_TYPES,
};

struct onnx_attr {
    const char *name;
    const char *ref; /* inside a function: its attribute; else "" */
    uint32_t type;   /* enum onnx_attr_type */
    float f;
    int64_t i;
    const char *s; /* with a 0 behind */
    struct onnx_tensor *t;
    struct onnx_graph *g;
    uint32_t n; /* of the list that there is */
    float *floats;
    int64_t *ints;
    const char **strings;
};

/* Where a value is: the frame `up` graphs further out, slot `slot`. */
struct onnx_ref {
    uint32_t up, slot;
};
#define ONNX_NO_SLOT UINT32_MAX /* the name is "": absent */

struct onnx_row;
struct onnx_function;

struct onnx_node {
    const char *op, *domain, *name, *overload;
    const char **inputs, **outputs;
    uint32_t n_inputs, n_outputs, n_attrs;
    struct onnx_attr *attrs;
    /* Set when the model is checked: */
    struct onnx_ref *refs; /* of inputs */
    uint32_t *slots;       /* of outputs */
    const struct onnx_row *row;
    const struct onnx_function *function; /* of the model; or NULL */
    int64_t opset;                        /* of its domain */
    const char *refused; /* why it cannot be run; NULL: it can */
};

struct onnx_dim {
    int64_t size;     /* -1: not said */
    const char *name; /* "" or dim_param */
};

/* An input or output. */
struct onnx_value_info {
    const char *name;
    const char *kind; /* "tensor", "sequence", "optional", "map", .. */
    uint32_t type;    /* of elements */
    bool has_shape;
    uint32_t ndim;
    struct onnx_dim *dims;
};

struct onnx_graph {
    const char *name;
    struct onnx_node *nodes;
    struct onnx_tensor *weights;
    struct onnx_value_info *inputs, *outputs;
    uint32_t n_nodes, n_weights, n_inputs, n_outputs;
    /* Set when the model is checked: */
    uint32_t n_slots;       /* values that live in a frame of it */
    uint32_t *input_slots;  /* of inputs */
    uint32_t *weight_slots; /* of weights: an input's, where it has its name */
    struct onnx_ref *output_refs;
    uint32_t depth; /* 0: the model's own */
};

struct onnx_opset {
    const char *domain;
    int64_t version;
};

/* A function of the model: a graph with names alone, and attributes. */
struct onnx_function {
    const char *name, *domain, *overload;
    const char **attr_names; /* that a call must give */
    struct onnx_attr *attr_defaults;
    uint32_t n_attr_names, n_attr_defaults;
    struct onnx_opset *opsets;
    uint32_t n_opsets;
    struct onnx_graph body;
    const struct onnx_node *refused; /* its first, when the model is checked */
};

/* A mapped file; the model's own is the first. */
struct onnx_mapping {
    char *name; /* as external data calls it; NULL: the model's */
    uint8_t *data;
    uint64_t size_bytes;
};

/* All that was read. Counted by those that use memory of it. */
struct onnx_model {
    uint32_t n_users;
    struct arena arena;
    char *path;
    struct onnx_mapping *mappings;
    size_t n_mappings, cap_mappings;
    int64_t ir_version;
    const char *producer, *producer_version;
    struct onnx_opset *opsets;
    uint32_t n_opsets;
    struct onnx_graph graph;
    struct onnx_function *functions;
    uint32_t n_functions;
};

/* Reads the file at `path`. BELL_E_IO: it cannot be read, or is damaged, with
 * the place; BELL_E_PERMISSION, BELL_E_NO_MEMORY. */
BELL_MUST_CHECK bell_status onnx_model_read(const char *path,
                                            struct onnx_model **out_model);
void onnx_model_retain(struct onnx_model *model);
/* The last one ends it. */
void onnx_model_release(struct onnx_model *model);

/* A TensorProto alone. */
BELL_MUST_CHECK bell_status onnx_tensor_parse(struct onnx_model *model,
                                              struct wire wire,
                                              struct onnx_tensor *out_tensor);
/* Text of a file as a string, where it has no control characters. */
BELL_MUST_CHECK bell_status onnx_text(struct onnx_model *model,
                                      const struct wire_field *field,
                                      const char **out_text);

/* Maps the file that external data names, below the model's folder: every
 * component is opened by itself, none of them a link, and what is at the end is
 * a regular file of the model's owner or ours. Mapped once. */
BELL_MUST_CHECK bell_status onnx_external(struct onnx_model *model,
                                          const char *location,
                                          const struct onnx_mapping **out_map);

#endif
