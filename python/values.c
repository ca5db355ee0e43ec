/* Values in and out: nested lists, buffers, numbers. */
#include "python/py.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- in: nested lists ---- */

/* Elements of nested lists as they are read: integers until a float comes. */
struct listed {
    int64_t shape[BELL_MAX_RANK];
    uint32_t ndim;
    uint64_t n, at;
    union number {
        int64_t i;
        double f;
    } * numbers;                    /* owned */
    bool is_float, is_bool, is_big; /* is_big: beyond int64, within uint64 */
};

static bool
is_list(PyObject *object)
{
    return PyList_Check(object) || PyTuple_Check(object);
}

static Py_ssize_t
list_size(PyObject *list)
{
    return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
}

static PyObject *
list_item(PyObject *list, Py_ssize_t i)
{
    return PyList_Check(list) ? PyList_GetItem(list, i)
                              : PyTuple_GetItem(list, i);
}

/* The shape by the first elements. */
static int
measure(struct listed *l, PyObject *data)
{
    l->n = 1;
    while (is_list(data)) {
        Py_ssize_t n = list_size(data);

        if (l->ndim == BELL_MAX_RANK) {
            PyErr_Format(py.classes[BELL_REASON_SHAPE],
                         "tensor: lists are nested deeper than %d",
                         BELL_MAX_RANK);
            return -1;
        }
        l->shape[l->ndim++] = n;
        l->n *= (uint64_t)n;
        if (n == 0)
            break;
        data = list_item(data, 0);
    }
    return 0;
}

static void
put_float(struct listed *l, double value)
{
    uint64_t i;

    if (!l->is_float) {
        for (i = 0; i < l->at; i++)
            l->numbers[i].f = (double)l->numbers[i].i;
        l->is_float = true;
    }
    l->is_bool = false;
    l->numbers[l->at++].f = value;
}

static int
put_int(struct listed *l, PyObject *number)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);

    if (overflow > 0) {
        value = (long long)PyLong_AsUnsignedLongLong(number);
        l->is_big = true;
    } else if (overflow < 0) {
        PyErr_SetString(PyExc_OverflowError,
                        "tensor: an int is less than any int64");
    }
    if (PyErr_Occurred())
        return -1;
    l->is_bool = false;
    if (l->is_float)
        l->numbers[l->at++].f =
            overflow > 0 ? (double)(uint64_t)value : (double)value;
    else
        l->numbers[l->at++].i = value;
    return 0;
}

static int
put_number(struct listed *l, PyObject *number)
{
    PyObject *made;
    int done = 0;

    if (PyFloat_Check(number)) {
        put_float(l, PyFloat_AsDouble(number));
    } else if (PyBool_Check(number)) {
        if (l->is_float)
            l->numbers[l->at++].f = number == Py_True;
        else
            l->numbers[l->at++].i = number == Py_True;
    } else if (PyLong_Check(number)) {
        done = put_int(l, number);
    } else if (py_is_tensor(number)) {
        made = py_tensor_item(number, NULL);
        done = made ? put_number(l, made) : -1;
        Py_XDECREF(made);
    } else if (PyIndex_Check(number)) {
        made = PyNumber_Index(number);
        done = made ? put_int(l, made) : -1;
        Py_XDECREF(made);
    } else {
        double value = PyFloat_AsDouble(number);

        if (value == -1 && PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError,
                         "tensor: a number is expected, not %R",
                         (PyObject *)Py_TYPE(number));
            return -1;
        }
        put_float(l, value);
    }
    return done;
}

/* Depth is at most BELL_MAX_RANK. */
static int
collect(struct listed *l, PyObject *data, uint32_t axis)
{
    Py_ssize_t n = is_list(data) ? list_size(data) : -1, i;

    if (axis == l->ndim && n < 0)
        return put_number(l, data);
    if (axis == l->ndim || n != (Py_ssize_t)l->shape[axis]) {
        PyErr_Format(py.classes[BELL_REASON_SHAPE],
                     "tensor: lists of different lengths: axis %d has %zd, "
                     "then %zd",
                     (int)axis,
                     axis < l->ndim ? (Py_ssize_t)l->shape[axis]
                                    : (Py_ssize_t)0,
                     n < 0 ? (Py_ssize_t)0 : n);
        return -1;
    }
    for (i = 0; i < n; i++) {
        if (collect(l, list_item(data, i), axis + 1) < 0)
            return -1;
    }
    return 0;
}

/* The range of integer dtypes narrower than what was read. */
static bool
fits(enum bell_dtype dtype, int64_t value)
{
    size_t bits = 8 * bell_dtype_size(dtype);
    bool is_signed = dtype == BELL_INT8 || dtype == BELL_INT16 ||
                     dtype == BELL_INT32 || dtype == BELL_INT64;

    if (bits == 64 || dtype == BELL_BOOL)
        return is_signed || dtype == BELL_BOOL || value >= 0;
    if (is_signed)
        return value >= -((int64_t)1 << (bits - 1)) &&
               value < (int64_t)1 << (bits - 1);
    return value >= 0 && value < (int64_t)1 << bits;
}

/* Integers as `dtype`, in place: elements are not wider than 8 bytes. */
static int
narrow_ints(struct listed *l, enum bell_dtype dtype)
{
    size_t size = bell_dtype_size(dtype);
    uint64_t i;

    for (i = 0; i < l->n; i++) {
        int64_t value = l->numbers[i].i;

        if (!l->is_big && !fits(dtype, value)) {
            PyErr_Format(py.classes[BELL_REASON_VALUE],
                         "tensor: %lld is not a number of %s", (long long)value,
                         bell_dtype_name(dtype));
            return -1;
        }
        if (dtype == BELL_BOOL)
            value = value != 0;
        memcpy((char *)l->numbers + i * size, &value, size); /* low bytes */
    }
    return 0;
}

/* Floats that were read for an integer dtype: truncated; bool: != 0. */
static int
truncate_floats(struct listed *l, enum bell_dtype want)
{
    uint64_t i;

    for (i = 0; i < l->n; i++) {
        double value = l->numbers[i].f;

        if (want == BELL_BOOL) {
            l->numbers[i].i = value != 0;
        } else if (value >= -0x1p63 && value < 0x1p63) {
            l->numbers[i].i = (int64_t)value;
        } else {
            PyErr_Format(py.classes[BELL_REASON_VALUE],
                         "tensor: a float is not a number of %s",
                         bell_dtype_name(want));
            return -1;
        }
    }
    l->is_float = false;
    return 0;
}

/* The numbers as host data of a dtype that is near `want`. */
static int
settle(struct listed *l, enum bell_dtype want, enum bell_dtype *out)
{
    uint64_t i;

    if (want == BELL_DEFAULT)
        want = l->is_float ? BELL_FLOAT32 : l->is_bool ? BELL_BOOL : BELL_INT64;
    if (l->is_float && want < BELL_FLOAT16 && truncate_floats(l, want) < 0)
        return -1;
    if (l->is_big && !l->is_float && want < BELL_FLOAT16 &&
        want != BELL_UINT64) {
        PyErr_SetString(PyExc_OverflowError,
                        "tensor: an int is greater than any int64");
        return -1;
    }
    if (!l->is_float && want < BELL_FLOAT16) {
        *out = want;
        return narrow_ints(l, want);
    }
    for (i = 0; !l->is_float && i < l->n; i++)
        l->numbers[i].f = l->is_big ? (double)(uint64_t)l->numbers[i].i
                                    : (double)l->numbers[i].i;
    *out = want == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32;
    for (i = 0; *out == BELL_FLOAT32 && i < l->n; i++) {
        float value = (float)l->numbers[i].f;
        memcpy((char *)l->numbers + i * sizeof(value), &value, sizeof(value));
    }
    return 0;
}

/* A Tensor of host data, which is copied, as `want`. */
static PyObject *
from_host(struct py_context *c, const int64_t *shape, uint32_t ndim,
          enum bell_dtype dtype, const void *data, enum bell_dtype want)
{
    struct bell_tensor *handle =
        bell_from_data(c->ctx, shape, ndim, dtype, data);

    if (want != BELL_DEFAULT && want != dtype && handle != c->error) {
        struct bell_tensor *cast = bell_cast(handle, want);
        bell_tensor_release(handle);
        handle = cast;
    }
    return py_result(c, handle, NULL, NULL);
}

static PyObject *
from_lists(struct py_context *c, PyObject *data, enum bell_dtype dtype)
{
    struct listed l = {.is_bool = true};
    enum bell_dtype host = BELL_DEFAULT;
    PyObject *made = NULL;

    if (measure(&l, data) < 0)
        return NULL;
    l.numbers = malloc((l.n + 1) * sizeof(*l.numbers));
    if (!l.numbers)
        return PyErr_NoMemory();
    if (l.n == 0)
        l.is_float = true; /* as PyTorch's: float32 */
    if ((l.n == 0 || collect(&l, data, 0) == 0) &&
        settle(&l, dtype, &host) == 0)
        made = from_host(c, l.shape, l.ndim, host, l.numbers, dtype);
    free(l.numbers);
    return made;
}

/* ---- in: buffers ---- */

static PyObject *
from_view(struct py_context *c, Py_buffer *view, enum bell_dtype want)
{
    enum bell_dtype dtype = py_dtype_of_format(view->format, view->itemsize);
    int64_t shape[BELL_MAX_RANK];
    void *copy = NULL;
    PyObject *made = NULL;
    int i;

    if (dtype == BELL_DTYPE_COUNT) {
        PyErr_Format(py.classes[BELL_REASON_DTYPE],
                     "tensor: elements of format '%s' have no dtype here",
                     view->format ? view->format : "B");
        return NULL;
    }
    if (view->ndim > BELL_MAX_RANK) {
        PyErr_Format(py.classes[BELL_REASON_SHAPE],
                     "tensor: %d axes, more than %d", view->ndim,
                     BELL_MAX_RANK);
        return NULL;
    }
    for (i = 0; i < view->ndim; i++)
        shape[i] = view->shape[i];
    if (!PyBuffer_IsContiguous(view, 'C')) {
        copy = malloc((size_t)view->len + 1);
        if (!copy)
            return PyErr_NoMemory();
        if (PyBuffer_ToContiguous(copy, view, view->len, 'C') < 0)
            goto end;
    }
    made = from_host(c, shape, (uint32_t)view->ndim, dtype,
                     copy ? copy : view->buf, want);
end:
    free(copy);
    return made;
}

PyObject *
py_tensor_from_buffer(struct py_context *c, PyObject *data,
                      enum bell_dtype dtype)
{
    Py_buffer view;
    PyObject *made;

    if (!PyObject_CheckBuffer(data))
        return NULL;
    if (PyObject_GetBuffer(data, &view, PyBUF_FULL_RO) < 0)
        return NULL;
    made = from_view(c, &view, dtype);
    PyBuffer_Release(&view);
    return made;
}

/* Objects of other libraries that say how to be an array. */
static PyObject *
from_array_like(struct py_context *c, PyObject *data, enum bell_dtype dtype)
{
    PyObject *array = PyObject_CallMethod(data, "__array__", NULL);
    PyObject *made = array ? py_tensor_from_buffer(c, array, dtype) : NULL;

    Py_XDECREF(array);
    if (!made && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "tensor: __array__ gave no array");
    return made;
}

PyObject *
py_tensor_from(struct py_context *c, PyObject *data, enum bell_dtype dtype)
{
    PyObject *made;

    if (py_enter(c) < 0)
        return NULL;
    if (py_is_tensor(data)) {
        struct bell_tensor *handle = py_tensor_of(data)->handle;
        struct bell_tensor *detached = bell_detach(handle);

        if (dtype != BELL_DEFAULT) {
            struct bell_tensor *cast = bell_cast(detached, dtype);
            bell_tensor_release(detached);
            detached = cast;
        }
        return py_result(c, detached, handle, NULL);
    }
    if (is_list(data))
        return from_lists(c, data, dtype);
    made = py_tensor_from_buffer(c, data, dtype);
    if (made || PyErr_Occurred())
        return made;
    if (PyObject_HasAttrString(data, "__array__"))
        return from_array_like(c, data, dtype);
    return from_lists(c, data, dtype);
}

/* tensor(data, dtype=None, requires_grad=False) */
static PyObject *
tensor(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"data", "dtype", "requires_grad", NULL};
    struct py_context *c;
    PyObject *data, *dtype_of = Py_None, *made;
    enum bell_dtype dtype;
    int wants_grad = 0;

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O|Op:tensor", names, &data,
                                     &dtype_of, &wants_grad))
        return NULL;
    dtype = py_dtype_of(dtype_of);
    if (dtype == BELL_DTYPE_COUNT)
        return NULL;
    c = py_is_tensor(data) ? py_tensor_of(data)->context : py_current();
    made = c ? py_tensor_from(c, data, dtype) : NULL;
    if (made && wants_grad) {
        PyObject *done = py_tensor_requires_grad(made, Py_True);
        Py_XDECREF(done);
        if (!done)
            Py_CLEAR(made);
    }
    return made;
}

/* _from_bytes(data, dtype, shape): elements as tobytes gives them */
static PyObject *
from_bytes(PyObject *module, PyObject *args)
{
    struct py_context *c = py_current();
    PyObject *dtype_of, *sizes, *made = NULL;
    int64_t shape[BELL_MAX_RANK];
    uint64_t n_bytes;
    uint32_t ndim, i;
    Py_buffer view;
    enum bell_dtype dtype;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*OO!:_from_bytes", &view, &dtype_of,
                          &PyTuple_Type, &sizes))
        return NULL;
    dtype = py_dtype_of(dtype_of);
    if (c && py_enter(c) == 0 && dtype != BELL_DTYPE_COUNT &&
        py_sizes(c, sizes, shape, &ndim) == 0) {
        n_bytes = bell_dtype_size(dtype);
        for (i = 0; i < ndim && shape[i] >= 0; i++) {
            if (__builtin_mul_overflow(n_bytes, (uint64_t)shape[i], &n_bytes))
                break;
        }
        if (i < ndim || n_bytes != (uint64_t)view.len)
            PyErr_Format(py.classes[BELL_REASON_SIZE],
                         "_from_bytes: %zd bytes do not match the shape",
                         view.len);
        else
            made = from_host(c, shape, ndim, dtype, view.buf, dtype);
    }
    PyBuffer_Release(&view);
    return made;
}

/* ---- out ---- */

PyObject *
py_shape(const struct py_tensor *t)
{
    uint32_t n = bell_ndim(t->handle), i;
    const struct bell_dim *shape = bell_dims(t->handle);
    PyObject *made;

    if (!shape)
        return py_raise(t->context);
    made = PyTuple_New((Py_ssize_t)n);
    for (i = 0; made && i < n; i++) {
        PyObject *size = py_size_object(t->context, shape[i].word);
        if (!size || PyTuple_SetItem(made, (Py_ssize_t)i, size) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* Its sizes as numbers: of symbols what they are by now. */
static int
shape_now(const struct py_tensor *t, int64_t *out)
{
    const struct bell_dim *shape = bell_dims(t->handle);
    uint32_t n = bell_ndim(t->handle), i;

    for (i = 0; shape && i < n; i++) {
        if (bell_dim_now(t->context->ctx, shape[i], &out[i]) != BELL_OK)
            shape = NULL;
    }
    if (shape)
        return 0;
    py_raise_last();
    return -1;
}

int
py_sizes(struct py_context *c, PyObject *object, int64_t *out, uint32_t *out_n)
{
    Py_ssize_t n = is_list(object) ? list_size(object) : 1, i;

    if (n > BELL_MAX_RANK) {
        PyErr_Format(py.classes[BELL_REASON_SHAPE], "%zd axes, more than %d", n,
                     BELL_MAX_RANK);
        return -1;
    }
    for (i = 0; i < n; i++) {
        PyObject *item = is_list(object) ? list_item(object, i) : object;

        if (py_is_size(item)) {
            if (py_size_word(c, item, &out[i]) < 0)
                return -1;
            continue;
        }
        out[i] = PyNumber_AsSsize_t(item, PyExc_OverflowError);
        if (out[i] == -1 && PyErr_Occurred())
            return -1;
    }
    *out_n = (uint32_t)n;
    return 0;
}

int
py_read(struct py_tensor *t, void *out, size_t n_bytes)
{
    struct py_blocked blocked;
    bell_status status;

    if (py_enter(t->context) < 0)
        return -1;
    blocked = py_block(t->context);
    status = bell_read(t->handle, out, n_bytes);
    py_unblock(&blocked);
    return py_check(status);
}

/* Elements as Python's numbers: read as doubles or 64-bit integers. */
struct numbers {
    enum bell_dtype dtype;
    uint64_t n;
    union number *values; /* owned */
};

static int
read_numbers(struct py_tensor *t, struct numbers *out)
{
    struct py_blocked blocked;
    bell_status status;

    if (py_enter(t->context) < 0)
        return -1;
    out->dtype = bell_dtype_of(t->handle);
    out->n = bell_numel(t->handle);
    out->values = malloc((out->n + 1) * sizeof(*out->values));
    if (!out->values) {
        PyErr_NoMemory();
        return -1;
    }
    blocked = py_block(t->context);
    if (out->dtype >= BELL_FLOAT16)
        status = bell_read_f64(t->handle, &out->values->f, out->n);
    else if (out->dtype == BELL_UINT64)
        status = bell_read(t->handle, out->values, out->n * 8);
    else
        status = bell_read_i64(t->handle, &out->values->i, out->n);
    py_unblock(&blocked);
    if (py_check(status) == 0)
        return 0;
    free(out->values);
    return -1;
}

static PyObject *
number_at(const struct numbers *numbers, uint64_t i)
{
    const union number *value = &numbers->values[i];

    if (numbers->dtype >= BELL_FLOAT16)
        return PyFloat_FromDouble(value->f);
    if (numbers->dtype == BELL_BOOL)
        return PyBool_FromLong(value->i != 0);
    if (numbers->dtype == BELL_UINT64)
        return PyLong_FromUnsignedLongLong((uint64_t)value->i);
    return PyLong_FromLongLong(value->i);
}

PyObject *
py_tensor_item(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    struct numbers numbers;
    PyObject *made;

    (void)unused;
    if (py_enter(t->context) < 0)
        return NULL;
    if (bell_numel(t->handle) != 1) {
        PyErr_Format(py.classes[BELL_REASON_SHAPE],
                     "item: a tensor of %llu elements, not one",
                     (unsigned long long)bell_numel(t->handle));
        return NULL;
    }
    if (read_numbers(t, &numbers) < 0)
        return NULL;
    made = number_at(&numbers, 0);
    free(numbers.values);
    return made;
}

/* Depth is at most BELL_MAX_RANK. */
static PyObject *
nest(const struct numbers *numbers, const int64_t *shape, uint32_t ndim,
     uint64_t *at)
{
    PyObject *made;
    int64_t i;

    if (ndim == 0)
        return number_at(numbers, (*at)++);
    made = PyList_New((Py_ssize_t)shape[0]);
    for (i = 0; made && i < shape[0]; i++) {
        PyObject *item = nest(numbers, shape + 1, ndim - 1, at);
        if (!item || PyList_SetItem(made, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(made);
    }
    return made;
}

PyObject *
py_tensor_tolist(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    int64_t shape[BELL_MAX_RANK];
    struct numbers numbers;
    uint32_t ndim;
    uint64_t at = 0;
    PyObject *made;

    (void)unused;
    if (read_numbers(t, &numbers) < 0)
        return NULL;
    ndim = bell_ndim(t->handle);
    made = shape_now(t, shape) < 0 ? NULL : nest(&numbers, shape, ndim, &at);
    free(numbers.values);
    return made;
}

PyObject *
py_tensor_tobytes(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    PyObject *made;

    (void)unused;
    if (py_enter(t->context) < 0)
        return NULL;
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bell_nbytes(t->handle));
    if (made && py_read(t, PyBytes_AsString(made), bell_nbytes(t->handle)) < 0)
        Py_CLEAR(made);
    return made;
}

/* ---- out: the buffer protocol ---- */

/* A copy of the elements with its sizes, the view's `internal`. */
struct exported {
    Py_ssize_t shape[BELL_MAX_RANK], strides[BELL_MAX_RANK];
    _Alignas(64) char data[];
};

static void
describe_view(Py_buffer *view, struct exported *e, const struct py_tensor *t,
              const int64_t *shape, int flags)
{
    enum bell_dtype dtype = bell_dtype_of(t->handle);
    Py_ssize_t stride = (Py_ssize_t)bell_dtype_size(dtype);
    uint32_t i;

    view->buf = e->data;
    view->itemsize = stride;
    view->len = (Py_ssize_t)bell_nbytes(t->handle);
    view->readonly = 1;
    view->ndim = (int)bell_ndim(t->handle);
    view->format =
        flags & PyBUF_FORMAT ? (char *)(uintptr_t)py_dtype_format(dtype) : NULL;
    for (i = (uint32_t)view->ndim; i-- > 0;) {
        e->shape[i] = (Py_ssize_t)shape[i];
        e->strides[i] = stride;
        stride *= e->shape[i] ? e->shape[i] : 1;
    }
    view->shape = flags & PyBUF_ND ? e->shape : NULL;
    view->strides =
        (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->strides : NULL;
    view->suboffsets = NULL;
    view->internal = e;
}

int
py_tensor_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct py_tensor *t = py_tensor_of(self);
    int64_t shape[BELL_MAX_RANK];
    struct exported *e;
    uint64_t n_bytes;

    view->obj = NULL;
    if (py_enter(t->context) < 0)
        return -1;
    if (flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "a tensor's buffer is read-only");
        return -1;
    }
    if (!py_dtype_format(bell_dtype_of(t->handle))) {
        PyErr_Format(PyExc_BufferError,
                     "%s has no buffer format: convert it first, as by "
                     ".float()",
                     bell_dtype_name(bell_dtype_of(t->handle)));
        return -1;
    }
    n_bytes = bell_nbytes(t->handle);
    e = aligned_alloc(64, (sizeof(*e) + n_bytes + 127) / 64 * 64);
    if (!e) {
        PyErr_NoMemory();
        return -1;
    }
    if (py_read(t, e->data, n_bytes) < 0 || shape_now(t, shape) < 0) {
        free(e);
        return -1;
    }
    describe_view(view, e, t, shape, flags);
    view->obj = Py_NewRef(self);
    return 0;
}

void
py_tensor_releasebuffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    free(view->internal);
}

/* __array__(dtype=None, copy=None): NumPy asks, so it is there */
PyObject *
py_tensor_array(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None, *numpy, *view, *array = NULL;
    enum bell_dtype own = bell_dtype_of(py_tensor_of(self)->handle);

    if (!PyArg_ParseTupleAndKeywords(args, named, "|OO:__array__", names,
                                     &dtype, &copy))
        return NULL;
    if (!py_dtype_format(own)) {
        PyErr_Format(PyExc_TypeError,
                     "NumPy has no %s: convert it first, as by .float()",
                     bell_dtype_name(own));
        return NULL;
    }
    numpy = PyImport_ImportModule("numpy");
    view = numpy ? PyMemoryView_FromObject(self) : NULL;
    if (view)
        array = PyObject_CallMethod(numpy, "array", "OO", view, dtype);
    Py_XDECREF(view);
    Py_XDECREF(numpy);
    return array;
}

static PyMethodDef functions[] = {
    {"tensor", (PyCFunction)(void (*)(void))tensor,
     METH_VARARGS | METH_KEYWORDS,
     "tensor(data, dtype=None, requires_grad=False)\n--\n\nA tensor of numbers "
     "in nested lists, of anything with the buffer protocol\n(NumPy's arrays "
     "too, which are copied), or of a tensor. Without a dtype floats\nin lists "
     "are float32, ints int64, bools bool; buffers keep theirs.\n\n"
     ">>> doorbell.tensor([[1, 2], [3, 4]]).shape\n(2, 2)"},
    {"_from_bytes", from_bytes, METH_VARARGS, NULL},
    {0},
};

int
py_values_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
