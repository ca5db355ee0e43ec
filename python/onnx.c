/* ONNX models: what doorbell.onnx is made of (python/doorbell/onnx.py). */
#include "python/py.h"

#include <string.h>

#include "doorbell/onnx.h"

/* The most inputs, and results, of a model. */
#define MOST_VALUES 64

struct py_onnx {
    PyObject_HEAD struct bell_onnx *model; /* NULL: not opened */
    struct py_context *context;            /* a reference */
};

static struct py_onnx *
onnx_at(PyObject *object)
{
    return (struct py_onnx *)object;
}

/* _Onnx(path) */
static PyObject *
new_onnx(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct py_context *c = py_current();
    struct py_blocked blocked;
    struct py_onnx *made;
    bell_status status;
    PyObject *path;

    (void)named;
    if (!c || !PyArg_ParseTuple(args, "O&:_Onnx", PyUnicode_FSConverter, &path))
        return NULL;
    made = py_enter(c) == 0 ? PyObject_New(struct py_onnx, type) : NULL;
    if (made) {
        made->model = NULL;
        made->context = (struct py_context *)Py_NewRef((PyObject *)c);
        blocked = py_block(c);
        status = bell_onnx_open(c->ctx, PyBytes_AsString(path), &made->model);
        py_unblock(&blocked);
        if (py_check(status) < 0)
            Py_CLEAR(made);
    }
    Py_DECREF(path);
    return (PyObject *)made;
}

static void
dealloc_onnx(PyObject *self)
{
    struct py_onnx *m = onnx_at(self);
    PyTypeObject *type = Py_TYPE(self);

    /* before or after the context's end */
    if (m->model && (!m->context->ctx || py_enter(m->context) == 0))
        bell_onnx_close(m->model);
    else if (m->model)
        PyErr_Clear();
    Py_DECREF((PyObject *)m->context);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Sizes as a tuple: numbers, names, None where neither is known; None for a
 * shape that is not known. */
static PyObject *
shape_of_value(const struct bell_onnx_value *v)
{
    PyObject *shape = v->has_shape ? PyTuple_New(v->ndim) : Py_NewRef(Py_None);
    uint32_t i;

    for (i = 0; shape && v->has_shape && i < v->ndim; i++) {
        PyObject *size =
            v->dims[i].size >= 0 ? PyLong_FromLongLong(v->dims[i].size)
            : *v->dims[i].name   ? PyUnicode_FromString(v->dims[i].name)
                                 : Py_NewRef(Py_None);

        if (!size || PyTuple_SetItem(shape, i, size) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

typedef const struct bell_onnx_value *value_fn(const struct bell_onnx *,
                                               uint32_t);

/* (name, dtype or None, type's text, shape) of each. */
static PyObject *
list_values(PyObject *self, value_fn *at)
{
    PyObject *list =
        py_enter(onnx_at(self)->context) < 0 ? NULL : PyList_New(0);
    const struct bell_onnx_value *v;
    uint32_t i;

    for (i = 0; list && (v = at(onnx_at(self)->model, i)); i++) {
        PyObject *shape = shape_of_value(v), *item;
        PyObject *dtype =
            v->dtype == BELL_DEFAULT ? Py_None : py_dtype_object(v->dtype);

        item = shape ? Py_BuildValue("(sOsN)", v->name, dtype, v->type, shape)
                     : NULL;
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *
list_inputs(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_values(self, bell_onnx_input);
}

static PyObject *
list_outputs(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_values(self, bell_onnx_output);
}

static PyObject *
list_weights(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_values(self, bell_onnx_weight);
}

/* refused(): (operator, name of the node, why) of those that cannot run. */
static PyObject *
list_refused(PyObject *self, PyObject *unused)
{
    PyObject *list =
        py_enter(onnx_at(self)->context) < 0 ? NULL : PyList_New(0);
    const struct bell_onnx_node *node;
    uint32_t i;

    (void)unused;
    for (i = 0; list && (node = bell_onnx_node(onnx_at(self)->model, i)); i++) {
        PyObject *item =
            node->refused
                ? Py_BuildValue("(sss)", node->op, node->name, node->refused)
                : NULL;

        if (node->refused && (!item || PyList_Append(list, item) < 0))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* weight(name): the model's own tensor; None: a number of the graph. */
static PyObject *
weight_named(PyObject *self, PyObject *name)
{
    struct py_onnx *m = onnx_at(self);
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    struct bell_tensor *handle;
    bool no_grad = m->context->no_grad;
    PyObject *made;

    if (!text || py_enter(m->context) < 0)
        return NULL;
    handle = bell_onnx_weight_tensor(m->model, text);
    if (!handle)
        Py_RETURN_NONE;
    m->context->no_grad = false; /* not a result */
    made = py_wrap(m->context, handle);
    m->context->no_grad = no_grad;
    if (made)
        py_tensor_of(made)->borrowed = true;
    return made;
}

/* set_dim(name, size): an int or a Size. */
static PyObject *
set_dim(PyObject *self, PyObject *args)
{
    struct py_context *c = onnx_at(self)->context;
    struct bell_dim dim;
    const char *name;
    PyObject *size;

    if (!PyArg_ParseTuple(args, "sO:set_dim", &name, &size))
        return NULL;
    if (py_is_size(size)) {
        if (py_size_word(c, size, &dim.word) < 0)
            return NULL;
    } else {
        dim.word = PyLong_AsLongLong(size);
        if ((dim.word == -1 && PyErr_Occurred()) || py_enter(c) < 0)
            return NULL;
    }
    if (py_check(bell_onnx_set_dim(onnx_at(self)->model, name, dim)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The outputs' Tensors; none is made where one fails. */
static PyObject *
wrap_model_outputs(struct py_context *c, struct bell_tensor **out, uint32_t n)
{
    PyObject *list = PyList_New(n);
    uint32_t i;

    for (i = 0; i < n; i++) {
        PyObject *item = list ? py_wrap(c, out[i]) : NULL;

        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, item);
    }
    return list;
}

/* call(inputs): a list of Tensors for a list of them. */
static PyObject *
call_onnx(PyObject *self, PyObject *inputs)
{
    struct bell_tensor *in[MOST_VALUES], *out[MOST_VALUES];
    struct py_onnx *m = onnx_at(self);
    struct py_blocked blocked;
    bell_status status;
    uint32_t n_in, n_out, i;

    if (py_enter(m->context) < 0)
        return NULL;
    n_in = bell_onnx_n_inputs(m->model);
    n_out = bell_onnx_n_outputs(m->model);
    if (n_in > MOST_VALUES || n_out > MOST_VALUES || !PyList_Check(inputs) ||
        PyList_Size(inputs) != (Py_ssize_t)n_in)
        return PyErr_Format(PyExc_ValueError,
                            "the model has %u inputs and %u outputs; expected "
                            "a list of them, at most %d",
                            n_in, n_out, MOST_VALUES);
    for (i = 0; i < n_in; i++) {
        PyObject *item = PyList_GetItem(inputs, i);

        if (!py_is_tensor(item)) {
            PyErr_SetString(PyExc_TypeError, "a model takes tensors");
            return NULL;
        }
        in[i] = py_tensor_of(item)->handle;
    }
    blocked = py_block(m->context);
    status = bell_onnx_call(m->context->ctx, m->model, in, out);
    py_unblock(&blocked);
    return py_check(status) < 0 ? NULL
                                : wrap_model_outputs(m->context, out, n_out);
}

static PyMethodDef onnx_methods[] = {
    {"inputs", list_inputs, METH_NOARGS, NULL},
    {"outputs", list_outputs, METH_NOARGS, NULL},
    {"weights", list_weights, METH_NOARGS, NULL},
    {"refused", list_refused, METH_NOARGS, NULL},
    {"weight", weight_named, METH_O, NULL},
    {"set_dim", set_dim, METH_VARARGS, NULL},
    {"call", call_onnx, METH_O, NULL},
    {0},
};
static PyType_Slot onnx_slots[] = {
    {Py_tp_new, (void *)new_onnx},
    {Py_tp_dealloc, (void *)dealloc_onnx},
    {Py_tp_methods, onnx_methods},
    {0, NULL},
};
static PyType_Spec onnx_spec = {
    .name = "doorbell._Onnx",
    .basicsize = sizeof(struct py_onnx),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = onnx_slots,
};

int
py_onnx_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&onnx_spec);
    int done = type ? PyModule_AddObjectRef(module, "_Onnx", type) : -1;

    Py_XDECREF(type);
    return done;
}
