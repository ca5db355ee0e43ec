/* The extension module doorbell._c: what its files share.
 *
 * A Tensor is a handle of the library and the Context that it belongs to; its
 * end is the handle's. All state is in one structure, `py`: slots such as
 * nb_add are given no module.
 *
 * Threads. Calls that only build a graph keep the interpreter's lock. Those
 * that wait, compile or read let it go between py_block and py_unblock, which
 * mark the context as busy: another thread that wants it waits (py_enter). A
 * Tensor that ends meanwhile is put on the context's list and released by the
 * next call.
 */
#ifndef BELL_PYTHON_PY_H
#define BELL_PYTHON_PY_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "doorbell/dim.h"
#include "doorbell/functions.h"
#include "doorbell/tensor.h"

/* A context, the tensors that ended while it was busy, and who has it. */
struct py_context {
    PyObject_HEAD struct bell_context *ctx; /* NULL: closed */
    struct bell_tensor *error;              /* its error tensor */
    struct bell_tensor **ended;             /* to release; owned */
    size_t n_ended, cap_ended;
    struct py_custom *customs; /* functions that ended (custom.c); owned */
    unsigned int n_callbacks;  /* custom functions that run */
    PyThread_type_lock lock;   /* held while busy */
    unsigned long owner;       /* thread that has it while busy */
    bool busy;
    bool no_grad; /* results are detached */
};

/* A tensor. */
struct py_tensor {
    PyObject_HEAD struct bell_tensor *handle;
    struct py_context *context; /* a reference */
    PyObject *weak;             /* weak references */
    bool borrowed;              /* the handle is not ours to release */
    bool wants_grad;            /* requires_grad_ was called */
};

/* An element type. */
struct py_dtype {
    PyObject_HEAD enum bell_dtype dtype;
};

/* All that the module keeps. */
struct py_state {
    PyObject *error; /* doorbell.Error */
    PyObject *classes[BELL_REASON_COUNT];
    PyTypeObject *tensor, *context, *dtype, *size;
    PyObject *dtypes[BELL_DTYPE_COUNT];
    PyObject *contexts; /* by name of device: dict */
};
extern struct py_state py;

/* ---- error.c ---- */

/* Makes the classes of errors and adds them to the module. */
int py_error_init(PyObject *module);
/* Raises the thread's record of a failed call; NULL. */
PyObject *py_raise_last(void);
/* Raises if the status is not BELL_OK: -1. */
int py_check(bell_status status);

/* ---- interrupt.c ---- */

/* Lets the interpreter's lock go and takes it back, around calls that may wait:
 * those of the main thread end where a signal's handler raises. */
PyThreadState *py_let_go(void);
void py_take_back(PyThreadState *thread);
/* Raises what a handler raised meanwhile; false: none did. */
bool py_raise_interrupt(void);

/* ---- context.c ---- */

/* Raises what the context says, or the thread's record; NULL. */
PyObject *py_raise(struct py_context *c);
int py_context_init(PyObject *module);
/* The context that new tensors belong to, made if there is none: borrowed;
 * NULL with an exception. */
struct py_context *py_current(void);
/* Waits until the context is ours; -1 with an exception: it was closed. */
int py_enter_slowly(struct py_context *c);
/* Puts a handle on the list of those to release. */
void py_end_later(struct py_context *c, struct bell_tensor *handle);

/* Before each call with a context. */
static inline int
py_enter(struct py_context *c)
{
    if (c->busy || c->n_ended || c->customs || !c->ctx)
        return py_enter_slowly(c);
    return 0;
}

/* A call that may take long: others run meanwhile. */
struct py_blocked {
    struct py_context *context;
    PyThreadState *thread;
    bool nested; /* inside another call of this thread, in a callback */
};
struct py_blocked py_block(struct py_context *c);
void py_unblock(const struct py_blocked *blocked);

/* ---- dtype.c ---- */

int py_dtype_init(PyObject *module);
/* The object of an element type: borrowed. */
PyObject *py_dtype_object(enum bell_dtype dtype);
/* The element type that an object means: a DType, its name, float, int, bool,
 * NumPy's; None is BELL_DEFAULT. BELL_DTYPE_COUNT with an exception. */
enum bell_dtype py_dtype_of(PyObject *object);
/* Whether an object can only mean an element type, and is not a text. */
bool py_is_dtype(PyObject *object);
/* The format of struct for an element type, NULL: there is none. */
const char *py_dtype_format(enum bell_dtype dtype);
/* The element type of a format and a size; BELL_DTYPE_COUNT: none. */
enum bell_dtype py_dtype_of_format(const char *format, Py_ssize_t item_bytes);

/* ---- tensor.c ---- */

int py_tensor_init(PyObject *module);
/* A Tensor that owns the handle; raises what failed where the handle is an
 * error, or one of the arguments a and b (which a dead one comes back as). */
PyObject *py_result(struct py_context *c, struct bell_tensor *handle,
                    struct bell_tensor *a, struct bell_tensor *b);
/* A Tensor of a handle that is known to be good. */
PyObject *py_wrap(struct py_context *c, struct bell_tensor *handle);

static inline bool
py_is_tensor(PyObject *object)
{
    return Py_TYPE(object) == py.tensor ||
           PyType_IsSubtype(Py_TYPE(object), py.tensor);
}
static inline struct py_tensor *
py_tensor_of(PyObject *object)
{
    return (struct py_tensor *)object;
}

/* An operand: a Tensor's handle, or a temporary one of a number or an array. */
struct py_operand {
    struct bell_tensor *handle;
    bool temporary;
};
/* 0; -1 with an exception; 1: the object is none. `beside` is the dtype that it
 * is combined with, which says what becomes of ints beyond int64. */
int py_operand(struct py_context *c, PyObject *object, enum bell_dtype beside,
               struct py_operand *out_operand);
/* An int beyond int64 as a tensor without axes: of uint64 beside that, a float
 * beside floats; NULL with an exception: no integer dtype has it. */
struct bell_tensor *py_big_int(struct py_context *c, PyObject *object,
                               enum bell_dtype beside);
void py_operand_end(struct py_operand *operand);

/* ---- values.c: data in and out ---- */

int py_values_init(PyObject *module);
/* A Tensor of numbers in lists, a buffer, an array or a Tensor. */
PyObject *py_tensor_from(struct py_context *c, PyObject *data,
                         enum bell_dtype dtype);
/* A Tensor of a buffer's values, or NULL without an exception if the object
 * has none. */
PyObject *py_tensor_from_buffer(struct py_context *c, PyObject *data,
                                enum bell_dtype dtype);
/* Computes, waits and copies; -1 with an exception. */
int py_read(struct py_tensor *t, void *out, size_t n_bytes);
/* Sizes as a tuple. */
PyObject *py_shape(const struct py_tensor *t);
/* Sizes of a tuple, list, number or Size; -1 with an exception. */
int py_sizes(struct py_context *c, PyObject *object, int64_t *out,
             uint32_t *out_n);
PyObject *py_tensor_item(PyObject *self, PyObject *unused);
PyObject *py_tensor_tolist(PyObject *self, PyObject *unused);
PyObject *py_tensor_array(PyObject *self, PyObject *args, PyObject *named);
PyObject *py_tensor_tobytes(PyObject *self, PyObject *unused);
int py_tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void py_tensor_releasebuffer(PyObject *self, Py_buffer *view);

/* ---- subscript.c ---- */

PyObject *py_subscript(PyObject *self, PyObject *key);
int py_assign_subscript(PyObject *self, PyObject *key, PyObject *value);

/* ---- call.c: the function table ---- */

int py_call_init(PyObject *module);

/* ---- train.c: gradients, optimisers ---- */

int py_train_init(PyObject *module);
PyObject *py_tensor_requires_grad(PyObject *self, PyObject *on);
PyObject *py_tensor_backward(PyObject *self, PyObject *unused);
PyObject *py_tensor_grad(PyObject *self, void *unused);
int py_tensor_set_grad(PyObject *self, PyObject *value, void *unused);

/* ---- jit.c ---- */

int py_jit_init(PyObject *module);

/* ---- custom.c: functions and kernels of the caller's ---- */

int py_custom_init(PyObject *module);
/* Lets go of the Python functions that the library released. */
void py_custom_end(struct py_context *c);

/* ---- dlpack.c ---- */

int py_dlpack_init(PyObject *module);
PyObject *py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *named);
PyObject *py_tensor_dlpack_device(PyObject *self, PyObject *unused);

/* ---- size.c: sizes that change from run to run ---- */

int py_size_init(PyObject *module);
bool py_is_size(PyObject *object);
/* An int, or a Size. */
PyObject *py_size_object(struct py_context *c, int64_t word);
/* Its context: borrowed. */
struct py_context *py_size_context(PyObject *object);
/* The number that stands for a Size in lists; -1: it is of another context. */
int py_size_word(struct py_context *c, PyObject *object, int64_t *out_word);
/* A Size as a tensor of no axes; NULL with an exception, or a failure. */
struct bell_tensor *py_size_value(struct py_context *c, PyObject *object,
                                  enum bell_dtype dtype);

/* ---- loader.c ---- */

int py_loader_init(PyObject *module);

/* ---- onnx.c ---- */

int py_onnx_init(PyObject *module);

/* ---- mesh.c ---- */

int py_mesh_init(PyObject *module);
PyObject *py_context_set_mesh(PyObject *self, PyObject *args);
PyObject *py_context_places(PyObject *self, void *unused);

/* ---- file.c ---- */

int py_file_init(PyObject *module);

#endif
