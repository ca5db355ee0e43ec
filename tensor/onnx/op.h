/* Running a model: values, frames, and what an operator's function is given. */
#ifndef BELL_TENSOR_ONNX_OP_H
#define BELL_TENSOR_ONNX_OP_H

#include "doorbell/dim.h"
#include "doorbell/onnx.h"
#include "tensor/onnx/graph.h"

/* Most elements of a value that is known on the host. */
#define ONNX_HOST_ELEMS 4096
/* Most elements of any value, and most nodes of a call. */
#define ONNX_MAX_ELEMS ((uint64_t)1 << 31)
#define ONNX_MAX_STEPS 250000
/* Most bytes of a call on the host: of values that are folded, and lists. */
#define ONNX_MAX_HOST_BYTES ((size_t)256 << 20)

/* Elements in the host's memory, row-major; the run's arena has them. */
struct onnx_host {
    enum bell_dtype dtype;
    uint32_t ndim;
    int64_t shape[BELL_MAX_RANK];
    uint64_t n;
    const uint8_t *bytes;
};

enum onnx_value_kind {
    ONNX_ABSENT, /* also an optional that is empty */
    ONNX_VALUE,  /* a tensor */
    ONNX_LIST    /* a sequence */
};

/* A value of a frame. Tensors are of the run's scopes, or the model's. */
struct onnx_value {
    enum onnx_value_kind kind;
    struct bell_tensor *t;        /* on the device; NULL: not made yet */
    struct bell_tensor *h;        /* in the host's context; likewise */
    const struct onnx_host *host; /* NULL: not known on the host */
    bool is_constant;             /* what is made of it alone is folded */
    bool has_sizes; /* of the host's int64, some are sizes of symbols (dim.h) */
    const struct onnx_tensor *from; /* a tensor of the file; read when needed */
    uint32_t type; /* enum onnx_type, where t's dtype does not say
                                   * it; else 0 */
    const struct onnx_value *items;
    uint32_t n_items;
};

/* A graph while it runs. */
struct onnx_frame {
    const struct onnx_graph *graph;
    struct onnx_value *values;
    struct onnx_frame *up; /* the graph around it */
    /* Inside a function: the node that called it, and where that is. */
    const struct onnx_function *function;
    const struct onnx_node *call;
    struct onnx_frame *caller;
    uint32_t depth; /* of frames */
};

struct onnx_run {
    struct onnx_model *model;
    struct bell_context *ctx, *host; /* the device, and for what is folded */
    struct arena arena;              /* of this call */
    uint64_t n_steps;
};

struct onnx_op;
typedef bell_status onnx_fn(struct onnx_op *op);

enum onnx_flag {
    ONNX_LIKE0 = 1u << 0, /* results get the dtype of input 0 */
    ONNX_NO_FOLD =
        1u << 1, /* runs on the device always, or sees to it itself */
};

/* A row of the table. `attrs` lists the attributes that are known, each as
 * name:kind, the kind being a letter: i f s t g T and, of lists, I F S; with
 * >name behind it is a parameter of `function`, and with =value that is its
 * default. */
struct onnx_row {
    const char *domain, *name;
    int16_t since; /* first opset */
    uint8_t min_in, max_in, flags;
    const char *attrs;
    const char *function; /* of functions.h, given the inputs in order */
    onnx_fn *fn;          /* or this */
};

/* A node that is about to run. */
struct onnx_op {
    struct onnx_run *run;
    struct onnx_frame *frame;
    const struct onnx_node *node;
    int64_t opset;
    struct bell_context *ctx; /* where: the device's, or the host's */
    uint32_t n_in, n_out;
    struct onnx_value **in;
    struct onnx_value *out;
};

/* ---- the table ---- */

extern const struct onnx_row onnx_rows[];
extern const uint32_t onnx_n_rows;
const struct onnx_row *onnx_find_row(const char *domain, const char *name,
                                     int64_t opset);
/* The known attribute of that name, its letter and what is behind it; or
 * NULL. */
const char *onnx_row_attr(const struct onnx_row *row, const char *name);

/* ---- model ---- */

/* Resolves names to slots and nodes to rows; what cannot be run is noted in
 * the nodes. BELL_E_IO: names are not defined, or twice. */
BELL_MUST_CHECK bell_status onnx_check(struct onnx_model *model);
/* The first node that cannot be run, also in inner graphs and functions; NULL:
 * all can. */
const struct onnx_node *onnx_first_refused(const struct onnx_graph *graph);

/* ---- running ---- */

/* A graph within op's node: names of the graphs around are seen. */
BELL_MUST_CHECK bell_status onnx_run_inner(struct onnx_op *op,
                                           const struct onnx_graph *graph,
                                           struct onnx_value *const *in,
                                           uint32_t n_in,
                                           struct onnx_value *out,
                                           uint32_t n_out);
/* Runs the model: its weights in order, and its inputs, of which those that
 * are weights may be NULL. */
BELL_MUST_CHECK bell_status onnx_run_model(struct onnx_run *run,
                                           const struct onnx_value *weights,
                                           struct onnx_value *const *in,
                                           struct onnx_value *out);
/* Makes a value of a tensor of the file, without reading it. */
void onnx_value_of(const struct onnx_tensor *from, struct onnx_value *out);
/* Its tensor in that context, made on first use. NULL context: error. */
struct bell_tensor *onnx_tensor_in(struct onnx_run *run,
                                   struct bell_context *ctx,
                                   struct onnx_value *value);
/* Its elements on the host. BELL_E_UNSUPPORTED: it is being captured. */
BELL_MUST_CHECK bell_status onnx_host_of(struct onnx_run *run,
                                         struct onnx_value *value,
                                         const struct onnx_host **out_host);

/* ---- for functions ---- */

/* BELL_E_UNSUPPORTED; the node's name is put before it by the caller. */
#define op_unsupported(...) bell_fail(BELL_E_UNSUPPORTED, __VA_ARGS__)

bool op_has(const struct onnx_op *op, uint32_t i);
/* Input i as a tensor of op->ctx; the error tensor where it is absent. */
struct bell_tensor *op_in(struct onnx_op *op, uint32_t i);
/* The same; NULL where it is absent. */
struct bell_tensor *op_in_or_null(struct onnx_op *op, uint32_t i);
/* The element type of input i. */
uint32_t op_type(struct onnx_op *op, uint32_t i);
void op_out(struct onnx_op *op, uint32_t i, struct bell_tensor *t);

const struct onnx_attr *op_attr(const struct onnx_op *op, const char *name);
int64_t op_int(const struct onnx_op *op, const char *name, int64_t fallback);
double op_float(const struct onnx_op *op, const char *name, double fallback);
const char *op_str(const struct onnx_op *op, const char *name,
                   const char *fallback);

/* A list of numbers of the host. */
struct onnx_ints {
    const int64_t *v;
    uint32_t n;
    bool given;
};
/* An attribute's; not given where it is absent. */
struct onnx_ints op_ints(const struct onnx_op *op, const char *name);
/* An input's. */
BELL_MUST_CHECK bell_status op_in_ints(struct onnx_op *op, uint32_t i,
                                       struct onnx_ints *out);
/* An input's from opset `from_opset` on, before that an attribute's. */
BELL_MUST_CHECK bell_status op_axes(struct onnx_op *op, const char *name,
                                    uint32_t i, int64_t from_opset,
                                    struct onnx_ints *out);
BELL_MUST_CHECK bell_status op_in_floats(struct onnx_op *op, uint32_t i,
                                         const double **out, uint32_t *out_n);
/* One number. */
BELL_MUST_CHECK bell_status op_in_int(struct onnx_op *op, uint32_t i,
                                      int64_t *out);
/* Memory of the run; NULL: none is left. */
void *op_take(struct onnx_op *op, uint64_t n, size_t elem_bytes);

/* Refuses a shape of too many elements. */
BELL_MUST_CHECK bell_status op_check_shape(const int64_t *shape, uint32_t ndim);

static inline int64_t
op_axis(int64_t axis, uint32_t ndim)
{
    return axis < 0 ? axis + (int64_t)ndim : axis;
}

/* ---- sizes of symbols (sizes.c) ---- */

/* Sizes are words: numbers, or symbols' (doorbell/dim.h). Operators that are
 * given tensors of such sizes ask these, not bell_shape, which has numbers
 * alone. */
bool op_is_size(int64_t word);
/* Is one of them a symbol's? */
bool op_has_sizes(const int64_t *words, uint32_t n);
const int64_t *op_dims(const struct bell_tensor *x);
int64_t op_dim(const struct bell_tensor *x, int axis);
bool op_varies(const struct bell_tensor *x);
int64_t op_dim_mul(struct onnx_op *op, int64_t a, int64_t b);
int64_t op_dim_sub(struct onnx_op *op, int64_t a, int64_t b);
/* For all values? */
bool op_dim_at_most(struct onnx_op *op, int64_t a, int64_t b);
/* `text`, with the size. */
const char *op_dim_text(struct onnx_op *op, int64_t dim, char *text,
                        size_t size_bytes);
/* op_check_shape, by the most that they may be. */
BELL_MUST_CHECK bell_status op_check_sizes(struct bell_context *ctx,
                                           const int64_t *shape, uint32_t ndim);
/* Does the row's function take such tensors, and such numbers in lists? */
bool onnx_takes_sizes(const struct onnx_row *row);
/* BELL_E_UNSUPPORTED: an input is such a tensor, and it does not. */
BELL_MUST_CHECK bell_status onnx_check_takes(struct onnx_op *op);
/* Elements of the host that are sizes, as a tensor of the device. */
struct bell_tensor *onnx_sizes_tensor(struct onnx_run *run,
                                      const struct onnx_host *host);
/* For a node of constants: where one has sizes, *out_folds says whether it runs
 * on the host, and *out_done that its outputs are computed. */
BELL_MUST_CHECK bell_status onnx_fold_sizes(struct onnx_op *op, bool *out_folds,
                                            bool *out_done);

/* x as another dtype; itself where it has it. */
struct bell_tensor *op_to(struct bell_tensor *x, enum bell_dtype dtype);

#endif
