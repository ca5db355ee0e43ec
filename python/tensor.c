/* Tensors: operators, facts, and what Python asks of an object. */
#include "python/py.h"

#include <stddef.h>
#include <structmember.h>

typedef struct bell_tensor *binary_fn(struct bell_tensor *,
                                      struct bell_tensor *);
typedef struct bell_tensor *unary_fn(struct bell_tensor *);

/* ---- life ---- */

PyObject *
py_wrap(struct py_context *c, struct bell_tensor *handle)
{
    struct py_tensor *made = PyObject_New(struct py_tensor, py.tensor);

    if (!made) {
        bell_tensor_release(handle);
        return NULL;
    }
    if (c->no_grad) {
        struct bell_tensor *detached = bell_detach(handle);
        bell_tensor_release(handle);
        handle = detached;
    }
    if (c->n_callbacks) /* it lives as long as this object, not as the scope */
        bell_keep_forever(handle);
    Py_INCREF((PyObject *)c);
    made->handle = handle;
    made->context = c;
    made->weak = NULL;
    made->borrowed = false;
    made->wants_grad = false;
    return (PyObject *)made;
}

PyObject *
py_result(struct py_context *c, struct bell_tensor *handle,
          struct bell_tensor *a, struct bell_tensor *b)
{
    if (!handle || handle == c->error || handle == a || handle == b)
        return py_raise(c);
    return py_wrap(c, handle);
}

static void
dealloc(PyObject *self)
{
    struct py_tensor *t = py_tensor_of(self);
    struct py_context *c = t->context;
    PyTypeObject *type = Py_TYPE(self);

    if (t->weak)
        PyObject_ClearWeakRefs(self);
    if (c && c->ctx && t->handle && !t->borrowed) {
        if (c->busy && c->owner != PyThread_get_thread_ident())
            py_end_later(c, t->handle);
        else
            bell_tensor_release(t->handle);
    }
    Py_XDECREF((PyObject *)c);
    if (type == py.tensor) {
        PyObject_Free(self);
    } else {
        freefunc end = (freefunc)PyType_GetSlot(type, Py_tp_free);
        end(self);
    }
    Py_DECREF((PyObject *)type);
}

/* Tensor(data, dtype=None), for classes derived of it too */
static PyObject *
new_tensor(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"data", "dtype", NULL};
    PyObject *data, *dtype_of = Py_None, *made, *base;
    struct py_context *c = py_current();
    enum bell_dtype dtype;
    allocfunc alloc;

    if (!c || !PyArg_ParseTupleAndKeywords(args, named, "O|O:Tensor", names,
                                           &data, &dtype_of))
        return NULL;
    dtype = py_dtype_of(dtype_of);
    if (dtype == BELL_DTYPE_COUNT)
        return NULL;
    if (py_is_tensor(data))
        c = py_tensor_of(data)->context;
    base = py_tensor_from(c, data, dtype);
    if (!base || type == py.tensor)
        return base;
    alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    made = alloc(type, 0);
    if (made) { /* what the plain one has, goes over */
        struct py_tensor *to = py_tensor_of(made), *from = py_tensor_of(base);

        to->handle = from->handle;
        to->context = (struct py_context *)Py_NewRef((PyObject *)from->context);
        from->handle = NULL;
    }
    Py_DECREF(base);
    return made;
}

/* ---- operators ---- */

struct bell_tensor *
py_big_int(struct py_context *c, PyObject *object, enum bell_dtype beside)
{
    unsigned long long value;
    double rounded;

    if (beside == BELL_UINT64) {
        value = PyLong_AsUnsignedLongLong(object);
        return PyErr_Occurred()
                   ? NULL
                   : bell_from_data(c->ctx, BELL_NO_DIMS, BELL_UINT64, &value);
    }
    if (beside < BELL_UINT64) {
        PyErr_Format(PyExc_OverflowError, "%R is not a number of %s", object,
                     bell_dtype_name(beside));
        return NULL;
    }
    rounded = PyLong_AsDouble(object);
    return PyErr_Occurred() ? NULL : bell_scalar(c->ctx, rounded);
}

int
py_operand(struct py_context *c, PyObject *object, enum bell_dtype beside,
           struct py_operand *out)
{
    struct bell_tensor *handle = NULL;

    out->temporary = false;
    if (py_is_tensor(object)) {
        out->handle = py_tensor_of(object)->handle;
        return 0;
    }
    if (PyFloat_Check(object)) {
        handle = bell_scalar(c->ctx, PyFloat_AsDouble(object));
    } else if (PyBool_Check(object)) {
        handle = bell_full(c->ctx, BELL_NO_DIMS, object == Py_True, BELL_BOOL);
    } else if (PyLong_Check(object)) {
        int overflow;
        long long value = PyLong_AsLongLongAndOverflow(object, &overflow);

        handle = overflow ? py_big_int(c, object, beside)
                          : bell_scalar_int(c->ctx, value);
        if (PyErr_Occurred())
            return -1;
    } else if (py_is_size(object)) {
        handle = py_size_value(c, object, BELL_DEFAULT);
        if (!handle)
            return -1;
    } else {
        PyObject *made = py_tensor_from_buffer(c, object, BELL_DEFAULT);

        if (!made)
            return PyErr_Occurred() ? -1 : 1;
        handle = py_tensor_of(made)->handle;
        py_tensor_of(made)->handle = NULL;
        Py_DECREF(made);
    }
    if (handle == c->error) {
        py_raise(c);
        return -1;
    }
    out->handle = handle;
    out->temporary = true;
    return 0;
}

void
py_operand_end(struct py_operand *operand)
{
    if (operand->temporary)
        bell_tensor_release(operand->handle);
}

/* One of the two may be a number or an array. */
static PyObject *
binary_mixed(PyObject *a, PyObject *b, binary_fn *fn)
{
    struct py_tensor *t = py_tensor_of(py_is_tensor(a) ? a : b);
    struct py_context *c = t->context;
    enum bell_dtype dtype = bell_dtype_of(t->handle);
    struct py_operand left, right;
    PyObject *made = NULL;
    int done;

    if (py_enter(c) < 0)
        return NULL;
    done = py_operand(c, a, dtype, &left);
    if (done)
        goto fail;
    done = py_operand(c, b, dtype, &right);
    if (done == 0) {
        made = py_result(c, fn(left.handle, right.handle), left.handle,
                         right.handle);
        py_operand_end(&right);
    }
    py_operand_end(&left);
fail:
    if (done > 0)
        Py_RETURN_NOTIMPLEMENTED;
    return made;
}

static inline PyObject *
binary(PyObject *a, PyObject *b, binary_fn *fn)
{
    struct py_tensor *x = py_tensor_of(a), *y = py_tensor_of(b);

    if (Py_TYPE(a) != py.tensor || Py_TYPE(b) != py.tensor ||
        x->context != y->context)
        return binary_mixed(a, b, fn);
    if (py_enter(x->context) < 0)
        return NULL;
    return py_result(x->context, fn(x->handle, y->handle), x->handle,
                     y->handle);
}

static inline PyObject *
unary(PyObject *a, unary_fn *fn)
{
    struct py_tensor *x = py_tensor_of(a);

    if (py_enter(x->context) < 0)
        return NULL;
    return py_result(x->context, fn(x->handle), x->handle, NULL);
}

#define BINARY(name, fn)                                                       \
    static PyObject *name(PyObject *a, PyObject *b)                            \
    {                                                                          \
        return binary(a, b, fn);                                               \
    }
#define UNARY(name, fn)                                                        \
    static PyObject *name(PyObject *a)                                         \
    {                                                                          \
        return unary(a, fn);                                                   \
    }
BINARY(op_add, bell_add)
BINARY(op_sub, bell_sub)
BINARY(op_mul, bell_mul)
BINARY(op_div, bell_div)
BINARY(op_floor_div, bell_floor_divide)
BINARY(op_remainder, bell_remainder)
BINARY(op_matmul, bell_matmul)
BINARY(op_and, bell_bitwise_and)
BINARY(op_or, bell_bitwise_or)
BINARY(op_xor, bell_bitwise_xor)
BINARY(op_lshift, bell_lshift)
BINARY(op_rshift, bell_rshift)
UNARY(op_neg, bell_neg)
UNARY(op_abs, bell_abs)
UNARY(op_not, bell_bitwise_not)
UNARY(op_positive, bell_alias)

static PyObject *
op_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary(a, b, bell_pow);
}

static PyObject *
op_divmod(PyObject *a, PyObject *b)
{
    PyObject *quotient = binary(a, b, bell_floor_divide), *rest, *both;

    if (!quotient || quotient == Py_NotImplemented)
        return quotient;
    rest = binary(a, b, bell_remainder);
    both = rest ? PyTuple_Pack(2, quotient, rest) : NULL;
    Py_DECREF(quotient);
    Py_XDECREF(rest);
    return both;
}

static PyObject *
compare(PyObject *a, PyObject *b, int how)
{
    static binary_fn *const fns[] = {
        [Py_LT] = bell_lt, [Py_LE] = bell_le, [Py_EQ] = bell_eq,
        [Py_NE] = bell_ne, [Py_GT] = bell_gt, [Py_GE] = bell_ge,
    };

    return binary(a, b, fns[how]);
}

/* ---- numbers of one element ---- */

static int
read_f64(PyObject *self, double *out)
{
    struct py_tensor *t = py_tensor_of(self);
    struct py_blocked blocked;
    bell_status status;

    if (py_enter(t->context) < 0)
        return -1;
    blocked = py_block(t->context);
    status = bell_item_f64(t->handle, out);
    py_unblock(&blocked);
    return py_check(status);
}

static int
is_true(PyObject *self)
{
    double value = 0;

    if (read_f64(self, &value) < 0)
        return -1;
    return value != 0;
}

static PyObject *
as_float(PyObject *self)
{
    double value = 0;

    return read_f64(self, &value) < 0 ? NULL : PyFloat_FromDouble(value);
}

static PyObject *
as_complex(PyObject *self, PyObject *unused)
{
    double value = 0;

    (void)unused;
    return read_f64(self, &value) < 0 ? NULL : PyComplex_FromDoubles(value, 0);
}

static PyObject *
as_int(PyObject *self)
{
    PyObject *item = py_tensor_item(self, NULL), *made;

    if (!item)
        return NULL;
    made = PyNumber_Long(item);
    Py_DECREF(item);
    return made;
}

static PyObject *
as_index(PyObject *self)
{
    enum bell_dtype dtype = bell_dtype_of(py_tensor_of(self)->handle);

    if (dtype > BELL_UINT64) {
        PyErr_Format(PyExc_TypeError, "a tensor of %s is not an index",
                     bell_dtype_name(dtype));
        return NULL;
    }
    return as_int(self);
}

static Py_ssize_t
length(PyObject *self)
{
    struct py_tensor *t = py_tensor_of(self);

    if (py_enter(t->context) < 0)
        return -1;
    if (bell_ndim(t->handle) == 0) {
        PyErr_SetString(PyExc_TypeError, "a tensor without axes has no length");
        return -1;
    }
    return (Py_ssize_t)bell_size(t->handle, 0);
}

static PyObject *
item_at(PyObject *self, Py_ssize_t i)
{
    PyObject *key = PyLong_FromSsize_t(i), *made;

    if (!key)
        return NULL;
    made = py_subscript(self, key);
    Py_DECREF(key);
    return made;
}

static PyObject *
iterate(PyObject *self)
{
    return length(self) < 0 ? NULL : PySeqIter_New(self);
}

static Py_hash_t
hash(PyObject *self)
{
    size_t at = (size_t)self >> 4;

    return (Py_hash_t)(at ? at : 1);
}

/* ---- facts ---- */

static PyObject *
get_shape(PyObject *self, void *unused)
{
    (void)unused;
    return py_enter(py_tensor_of(self)->context) < 0
               ? NULL
               : py_shape(py_tensor_of(self));
}

static PyObject *
get_dtype(PyObject *self, void *unused)
{
    enum bell_dtype dtype = bell_dtype_of(py_tensor_of(self)->handle);

    (void)unused;
    if (dtype == BELL_DEFAULT)
        return py_raise(py_tensor_of(self)->context);
    return Py_NewRef(py_dtype_object(dtype));
}

static PyObject *
get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(bell_ndim(py_tensor_of(self)->handle));
}

static PyObject *
get_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(bell_numel(py_tensor_of(self)->handle));
}

static PyObject *
get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(bell_nbytes(py_tensor_of(self)->handle));
}

static PyObject *
get_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(
        bell_dtype_size(bell_dtype_of(py_tensor_of(self)->handle)));
}

static PyObject *
get_context(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)py_tensor_of(self)->context);
}

static PyObject *
get_device_name(PyObject *self, void *unused)
{
    struct py_context *c = py_tensor_of(self)->context;

    (void)unused;
    if (py_enter(c) < 0)
        return NULL;
    return PyUnicode_FromString(bell_context_device(c->ctx));
}

static PyObject *
get_is_realized(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(bell_is_realized(py_tensor_of(self)->handle));
}

static PyObject *
get_requires_grad(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(py_tensor_of(self)->wants_grad);
}

static int
set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    PyObject *done = py_tensor_requires_grad(self, value ? value : Py_False);

    (void)unused;
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* All axes in reverse order. */
static PyObject *
get_T(PyObject *self, void *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    int64_t order[BELL_MAX_RANK];
    uint32_t n, i;

    (void)unused;
    if (py_enter(t->context) < 0)
        return NULL;
    n = bell_ndim(t->handle);
    for (i = 0; i < n; i++)
        order[i] = (int64_t)(n - 1 - i);
    return py_result(t->context, bell_permute(t->handle, order, n), t->handle,
                     NULL);
}

static PyObject *
get_mT(PyObject *self, void *unused)
{
    (void)unused;
    return unary(self, bell_t);
}

/* ---- methods ---- */

static PyObject *
realize(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    struct py_blocked blocked;
    bell_status status;

    (void)unused;
    if (py_enter(t->context) < 0)
        return NULL;
    blocked = py_block(t->context);
    status = bell_realize1(t->handle);
    py_unblock(&blocked);
    return py_check(status) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *
numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    return get_size(self, NULL);
}

static PyObject *
size(PyObject *self, PyObject *args)
{
    struct py_tensor *t = py_tensor_of(self);
    int axis;
    int64_t n;

    if (PyTuple_Size(args) == 0)
        return get_shape(self, NULL);
    if (!PyArg_ParseTuple(args, "i:size", &axis) || py_enter(t->context) < 0)
        return NULL;
    n = bell_dim_at(t->handle, axis).word;
    if (n == -1)
        return PyErr_Format(py.classes[BELL_REASON_AXIS],
                            "size: axis %d is out of bounds for %u axes", axis,
                            (unsigned)bell_ndim(t->handle));
    return py_size_object(t->context, n);
}

static PyObject *
dim(PyObject *self, PyObject *unused)
{
    (void)unused;
    return get_ndim(self, NULL);
}

static PyObject *
copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return unary(self, bell_alias);
}

/* A value of its own memory, a variable again where this is one. */
static PyObject *
deep_copy(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    struct bell_tensor *detached;
    PyObject *made, *done;

    (void)unused;
    if (py_enter(t->context) < 0)
        return NULL;
    detached = bell_detach(t->handle);
    made = py_result(t->context, bell_contiguous(detached), detached, NULL);
    bell_tensor_release(detached);
    if (!made || !t->wants_grad)
        return made;
    done = py_tensor_requires_grad(made, Py_True);
    Py_XDECREF(done);
    if (!done)
        Py_CLEAR(made);
    return made;
}

/* assign(value): this handle denotes that value from now on */
static PyObject *
assign(PyObject *self, PyObject *value)
{
    struct py_tensor *t = py_tensor_of(self);
    struct py_operand operand;
    struct bell_tensor *done;
    int found;

    if (py_enter(t->context) < 0)
        return NULL;
    found = py_operand(t->context, value, bell_dtype_of(t->handle), &operand);
    if (found > 0)
        PyErr_SetString(PyExc_TypeError, "assign: a tensor is expected");
    if (found)
        return NULL;
    done = bell_assign(t->handle, operand.handle);
    py_operand_end(&operand);
    return done == t->handle ? Py_NewRef(self) : py_raise(t->context);
}

/* to(dtype | context | name of a device) */
static PyObject *
to(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"where", "dtype", NULL};
    struct py_tensor *t = py_tensor_of(self);
    PyObject *where = Py_None, *dtype = Py_None;
    enum bell_dtype want;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|OO:to", names, &where,
                                     &dtype) ||
        py_enter(t->context) < 0)
        return NULL;
    if (Py_TYPE(where) == py.context) {
        struct py_context *c = (struct py_context *)where;
        struct py_blocked blocked;
        struct bell_tensor *moved;

        if (py_enter(c) < 0)
            return NULL;
        blocked = py_block(c);
        moved = bell_to(t->handle, c->ctx);
        py_unblock(&blocked);
        return py_result(c, moved, t->handle, NULL);
    }
    want = py_dtype_of(where != Py_None ? where : dtype);
    if (want == BELL_DTYPE_COUNT)
        return NULL;
    if (want == BELL_DEFAULT)
        return unary(self, bell_alias);
    return py_result(t->context, bell_cast(t->handle, want), t->handle, NULL);
}

static PyObject *
where(PyObject *self, PyObject *args)
{
    struct py_context *c = py_tensor_of(self)->context;
    PyObject *cond, *other, *made = NULL;
    struct py_operand y;
    int found;

    if (!PyArg_ParseTuple(args, "O!O:where", (PyObject *)py.tensor, &cond,
                          &other) ||
        py_enter(c) < 0)
        return NULL;
    found = py_operand(c, other, bell_dtype_of(py_tensor_of(self)->handle), &y);
    if (found > 0)
        PyErr_SetString(PyExc_TypeError, "where: a tensor or number is "
                                         "expected");
    if (found == 0) {
        made =
            py_result(c,
                      bell_where(py_tensor_of(cond)->handle,
                                 py_tensor_of(self)->handle, y.handle),
                      py_tensor_of(cond)->handle, py_tensor_of(self)->handle);
        py_operand_end(&y);
    }
    return made;
}

/* requires_grad_(on=True) */
static PyObject *
requires_grad(PyObject *self, PyObject *args)
{
    PyObject *on = Py_True;

    return PyArg_ParseTuple(args, "|O:requires_grad_", &on)
               ? py_tensor_requires_grad(self, on)
               : NULL;
}

/* Printing is Python's: imported when it is first asked for. */
static PyObject *
printed(PyObject *self, const char *how)
{
    PyObject *module = PyImport_ImportModule("doorbell._repr");
    PyObject *text =
        module ? PyObject_CallMethod(module, how, "O", self) : NULL;

    Py_XDECREF(module);
    return text;
}

static PyObject *
repr(PyObject *self)
{
    return printed(self, "repr_of");
}

static PyObject *
str(PyObject *self)
{
    return printed(self, "str_of");
}

static PyObject *
repr_html(PyObject *self, PyObject *unused)
{
    (void)unused;
    return printed(self, "html_of");
}

static PyObject *
reduce_ex(PyObject *self, PyObject *protocol)
{
    PyObject *module = PyImport_ImportModule("doorbell._pickle");
    PyObject *made =
        module ? PyObject_CallMethod(module, "reduce", "OO", self, protocol)
               : NULL;

    Py_XDECREF(module);
    return made;
}

/* The Array API's module, imported when it is first asked for. */
static PyObject *
array_namespace(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"api_version", NULL};
    PyObject *version = Py_None, *module, *found;

    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|$O:__array_namespace__",
                                     names, &version))
        return NULL;
    module = PyImport_ImportModule("doorbell.xp._array");
    found =
        module ? PyObject_CallMethod(module, "namespace", "O", version) : NULL;
    Py_XDECREF(module);
    return found;
}

#define METHOD(name, fn, flags, doc)                                           \
    {                                                                          \
        name, (PyCFunction)(void (*)(void))fn, flags, doc                      \
    }
static PyMethodDef methods[] = {
    METHOD("__array__", py_tensor_array, METH_VARARGS | METH_KEYWORDS, NULL),
    METHOD("__bytes__", py_tensor_tobytes, METH_NOARGS, NULL),
    METHOD("__copy__", copy, METH_NOARGS, NULL),
    METHOD("__deepcopy__", deep_copy, METH_O, NULL),
    METHOD(
        "__array_namespace__", array_namespace, METH_VARARGS | METH_KEYWORDS,
        "__array_namespace__($self, /, *, api_version=None)\n--\n\nThe module "
        "doorbell.xp."),
    METHOD("__complex__", as_complex, METH_NOARGS, NULL),
    METHOD(
        "__dlpack__", py_tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
        "__dlpack__($self, /, *, stream=None, max_version=None, "
        "dl_device=None, copy=None)\n--\n\nA capsule of the values, copied."),
    METHOD("__dlpack_device__", py_tensor_dlpack_device, METH_NOARGS,
           "__dlpack_device__($self, /)\n--\n\nThe host: (1, 0)."),
    METHOD("__reduce_ex__", reduce_ex, METH_O, NULL),
    METHOD("_repr_html_", repr_html, METH_NOARGS,
           "_repr_html_($self)\n--\n\nFor notebooks; computes nothing."),
    METHOD(
        "assign", assign, METH_O,
        "assign($self, value, /)\n--\n\nMakes this tensor denote another value "
        "of its shape and dtype.\nTensors computed from it before keep "
        "theirs."),
    METHOD("backward", py_tensor_backward, METH_NOARGS,
           "backward($self)\n--\n\nAdds the gradient to .grad of every tensor "
           "with requires_grad that this depends on."),
    METHOD("dim", dim, METH_NOARGS, "dim($self)\n--\n\nNumber of axes."),
    METHOD("item", py_tensor_item, METH_NOARGS,
           "item($self)\n--\n\nThe value of the only element; computes and "
           "waits."),
    METHOD("numel", numel, METH_NOARGS,
           "numel($self)\n--\n\nNumber of elements."),
    METHOD("realize", realize, METH_NOARGS,
           "realize($self)\n--\n\nComputes; does not wait. Returns itself."),
    METHOD("requires_grad_", requires_grad, METH_VARARGS,
           "requires_grad_($self, on=True)\n--\n\nMarks it for backward; "
           "returns itself."),
    METHOD("size", size, METH_VARARGS,
           "size($self, dim=None)\n--\n\nThe shape, or one of its sizes."),
    METHOD("to", to, METH_VARARGS | METH_KEYWORDS,
           "to($self, where=None, dtype=None)\n--\n\nConverted to a dtype, or "
           "copied to a context."),
    METHOD("tobytes", py_tensor_tobytes, METH_NOARGS,
           "tobytes($self)\n--\n\nThe elements in row-major order."),
    METHOD("tolist", py_tensor_tolist, METH_NOARGS,
           "tolist($self)\n--\n\nThe elements as nested lists."),
    METHOD("where", where, METH_VARARGS,
           "where($self, condition, other)\n--\n\ncondition ? self : other, "
           "elementwise."),
    {0},
};
static PyGetSetDef getset[] = {
    {"T", get_T, NULL, "All axes in reverse order.", NULL},
    {"context", get_context, NULL, "The context it belongs to.", NULL},
    {"device", get_device_name, NULL, "Name of its device.", NULL},
    {"dtype", get_dtype, NULL, "Element type.", NULL},
    {"grad", py_tensor_grad, py_tensor_set_grad,
     "The gradient that backward left, or None. Setting None forgets it.",
     NULL},
    {"is_realized", get_is_realized, NULL, "Whether it is computed.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"mT", get_mT, NULL, "The last two axes swapped.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Whether requires_grad_ was asked of it.", NULL},
    {"shape", get_shape, NULL, "Sizes of the axes.", NULL},
    {0},
};
static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_tensor, weak),
     READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "Tensor(data, dtype=None)\n--\n\nAn array on a device, "
                "computed when its values are asked for."},
    {Py_tp_new, (void *)new_tensor},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_repr, (void *)repr},
    {Py_tp_str, (void *)str},
    {Py_tp_hash, (void *)hash},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_iter, (void *)iterate},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_nb_add, (void *)op_add},
    {Py_nb_subtract, (void *)op_sub},
    {Py_nb_multiply, (void *)op_mul},
    {Py_nb_true_divide, (void *)op_div},
    {Py_nb_floor_divide, (void *)op_floor_div},
    {Py_nb_remainder, (void *)op_remainder},
    {Py_nb_divmod, (void *)op_divmod},
    {Py_nb_matrix_multiply, (void *)op_matmul},
    {Py_nb_power, (void *)op_pow},
    {Py_nb_and, (void *)op_and},
    {Py_nb_or, (void *)op_or},
    {Py_nb_xor, (void *)op_xor},
    {Py_nb_lshift, (void *)op_lshift},
    {Py_nb_rshift, (void *)op_rshift},
    {Py_nb_negative, (void *)op_neg},
    {Py_nb_positive, (void *)op_positive},
    {Py_nb_absolute, (void *)op_abs},
    {Py_nb_invert, (void *)op_not},
    {Py_nb_bool, (void *)is_true},
    {Py_nb_int, (void *)as_int},
    {Py_nb_float, (void *)as_float},
    {Py_nb_index, (void *)as_index},
    {Py_mp_length, (void *)length},
    {Py_mp_subscript, (void *)py_subscript},
    {Py_mp_ass_subscript, (void *)py_assign_subscript},
    {Py_sq_length, (void *)length},
    {Py_sq_item, (void *)item_at},
    {Py_bf_getbuffer, (void *)py_tensor_getbuffer},
    {Py_bf_releasebuffer, (void *)py_tensor_releasebuffer},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "doorbell.Tensor",
    .basicsize = sizeof(struct py_tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

int
py_tensor_init(PyObject *module)
{
    PyObject *first = PyLong_FromLong(1000);
    int done;

    py.tensor = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!py.tensor || !first)
        return -1;
    /* NumPy's operators leave mixed ones to us. */
    done = PyObject_SetAttrString((PyObject *)py.tensor, "__array_priority__",
                                  first);
    Py_DECREF(first);
    return done < 0
               ? -1
               : PyModule_AddObjectRef(module, "Tensor", (PyObject *)py.tensor);
}
