/* Captured functions: a Python function behind a bell_jit. The package's jit
 * makes one for each signature (python/doorbell/_jit.py). */
#include "python/py.h"

#include <stdlib.h>
#include <string.h>

#include "doorbell/jit.h"
#include "doorbell/module.h"

struct py_jit {
    PyObject_HEAD struct bell_jit *jit; /* NULL: not made */
    struct py_context *context;
    PyObject *function;
    Py_ssize_t n_in, n_out; /* n_out < 0: counts only, see run_function */
    Py_ssize_t counted;
};

/* Inputs as Tensors that are the library's, for the length of the call. */
static PyObject *
lend_inputs(struct py_jit *j, struct bell_tensor *const *in)
{
    PyObject *list = PyList_New(j->n_in);
    Py_ssize_t i;

    for (i = 0; list && i < j->n_in; i++) {
        bool no_grad = j->context->no_grad;
        PyObject *item;

        j->context->no_grad = false; /* not a result */
        item = py_wrap(j->context, in[i]);
        j->context->no_grad = no_grad;
        if (item)
            py_tensor_of(item)->borrowed = true;
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Inputs end with the call, wherever a function has kept them. */
static void
take_back(PyObject *list)
{
    Py_ssize_t i, n = list ? PyList_Size(list) : 0;

    for (i = 0; i < n; i++)
        py_tensor_of(PyList_GetItem(list, i))->handle = NULL;
    Py_XDECREF(list);
}

/* Whether an object is a list of Tensors. */
static bool
is_tensor_list(PyObject *list)
{
    Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1, i;

    for (i = 0; i < n && py_is_tensor(PyList_GetItem(list, i)); i++)
        ;
    if (i == n)
        return true;
    PyErr_SetString(PyExc_TypeError, "jit: a list of tensors is expected");
    return false;
}

/* Handles of a list of Tensors, and `n_more` beside them; owned. */
static struct bell_tensor **
list_handles(PyObject *list, Py_ssize_t n_more)
{
    Py_ssize_t n = PyList_Size(list), i;
    struct bell_tensor **handles =
        calloc((size_t)(n + n_more) + 1, sizeof(struct bell_tensor *));

    for (i = 0; handles && i < n; i++)
        handles[i] = py_tensor_of(PyList_GetItem(list, i))->handle;
    if (!handles)
        PyErr_NoMemory();
    return handles;
}

/* The function gives a list of Tensors. Where n_out is not known yet, that is
 * counted, and the capture is refused: nothing has happened then. */
static bell_status
run_function(struct bell_context *ctx, void *user,
             struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct py_jit *j = user;
    PyGILState_STATE state = PyGILState_Ensure();
    unsigned int n_callbacks = j->context->n_callbacks;
    PyObject *list, *results;
    bell_status status = BELL_E_INVALID;
    Py_ssize_t n = -1, i;

    (void)ctx;
    j->context->n_callbacks = 0; /* tensors are the capture's */
    list = lend_inputs(j, in);
    results =
        list ? PyObject_CallFunctionObjArgs(j->function, list, NULL) : NULL;
    if (results && is_tensor_list(results))
        n = PyList_Size(results);
    if (n >= 0 && j->n_out < 0) {
        j->counted = n;
    } else if (n >= 0 && n == j->n_out) {
        for (i = 0; i < n; i++)
            out[i] =
                bell_alias(py_tensor_of(PyList_GetItem(results, i))->handle);
        status = BELL_OK;
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(py.classes[BELL_REASON_STATE],
                        "jit: the function gave other results than before");
    }
    Py_XDECREF(results);
    take_back(list);
    j->context->n_callbacks = n_callbacks;
    PyGILState_Release(state);
    return status;
}

/* _Jit(function, context, name, n_in, n_out) */
static PyObject *
new_jit(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct bell_jit_desc desc = {.struct_size = sizeof(desc)};
    struct py_jit *made;
    PyObject *function, *context;
    Py_ssize_t n_in, n_out;

    (void)named;
    if (!PyArg_ParseTuple(args, "OO!snn:_Jit", &function,
                          (PyObject *)py.context, &context, &desc.name, &n_in,
                          &n_out) ||
        py_enter((struct py_context *)context) < 0)
        return NULL;
    if (n_in < 0 || n_in > INT32_MAX || n_out > INT32_MAX)
        return PyErr_Format(PyExc_ValueError,
                            "jit: %zd inputs and %zd results are not possible",
                            n_in, n_out);
    made = PyObject_GC_New(struct py_jit, type);
    if (!made)
        return NULL;
    made->jit = NULL;
    made->function = Py_NewRef(function);
    made->context = (struct py_context *)Py_NewRef(context);
    made->n_in = n_in;
    made->n_out = n_out;
    made->counted = -1;
    desc.fn = run_function;
    desc.user = made;
    desc.n_in = (uint32_t)n_in;
    desc.n_out = n_out < 0 ? 0 : (uint32_t)n_out;
    PyObject_GC_Track(made);
    if (py_check(bell_jit_create(made->context->ctx, &desc, &made->jit)) < 0) {
        Py_DECREF((PyObject *)made);
        return NULL;
    }
    return (PyObject *)made;
}

static int
traverse_jit(PyObject *self, visitproc visit, void *arg)
{
    struct py_jit *j = (struct py_jit *)self;

    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT(j->function);
    Py_VISIT((PyObject *)j->context);
    return 0;
}

static int
clear_jit(PyObject *self)
{
    Py_CLEAR(((struct py_jit *)self)->function);
    return 0;
}

static void
dealloc_jit(PyObject *self)
{
    struct py_jit *j = (struct py_jit *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (j->jit && j->context->ctx && py_enter(j->context) == 0)
        bell_jit_destroy(j->jit);
    else if (j->jit)
        PyErr_Clear();
    Py_XDECREF(j->function);
    Py_XDECREF((PyObject *)j->context);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* The results' Tensors; none is made where one fails. */
static PyObject *
wrap_outputs(struct py_jit *j, struct bell_tensor **out)
{
    PyObject *list = PyList_New(j->n_out);
    Py_ssize_t i;

    for (i = 0; i < j->n_out; i++) {
        PyObject *item = list ? py_wrap(j->context, out[i]) : NULL;

        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, item);
    }
    return list;
}

/* call(inputs): a list of results; where n_out was not known, their number */
static PyObject *
call_jit(PyObject *self, PyObject *inputs)
{
    struct py_jit *j = (struct py_jit *)self;
    struct bell_tensor **handles, **out;
    PyObject *made = NULL;
    struct py_blocked blocked;
    bell_status status;

    if (!is_tensor_list(inputs))
        return NULL;
    if (PyList_Size(inputs) != j->n_in) {
        PyErr_SetString(PyExc_ValueError, "jit: other inputs than before");
        return NULL;
    }
    handles = list_handles(inputs, j->n_out < 0 ? 0 : j->n_out);
    if (!handles || py_enter(j->context) < 0)
        goto end;
    out = handles + j->n_in;
    blocked = py_block(j->context);
    status = bell_jit_call(j->jit, handles, out);
    py_unblock(&blocked);
    if (j->n_out < 0 && j->counted >= 0 && !PyErr_Occurred()) {
        bell_error_clear();
        made = PyLong_FromSsize_t(j->counted);
    } else if (PyErr_Occurred()) { /* the function's own */
        bell_error_clear();
    } else if (py_check(status) == 0) {
        made = wrap_outputs(j, out);
    }
end:
    free(handles);
    return made;
}

static PyObject *
jit_info(PyObject *self, PyObject *unused)
{
    struct py_jit *j = (struct py_jit *)self;
    struct bell_jit_info info = {.struct_size = sizeof(info)};

    (void)unused;
    if (py_enter(j->context) < 0)
        return NULL;
    bell_jit_get_info(j->jit, &info);
    return Py_BuildValue("{s:I,s:I,s:I,s:I,s:K}", "captures", info.n_captures,
                         "kernels", info.n_kernels, "used", info.n_used,
                         "state", info.n_state, "held_bytes",
                         (unsigned long long)info.held_bytes);
}

/* Texts of a list, for as long as that; owned, NULL: an exception. */
static const char **
texts_of(PyObject *list)
{
    Py_ssize_t n = PyList_Size(list), i;
    const char **texts =
        n < 0 ? NULL : calloc((size_t)n + 1, sizeof(const char *));

    for (i = 0; texts && i < n; i++) {
        texts[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
        if (!texts[i]) {
            free(texts);
            return NULL;
        }
    }
    if (!texts && !PyErr_Occurred())
        PyErr_NoMemory();
    return texts;
}

/* save(path, inputs, targets, in_names, out_names, n_steps) */
static PyObject *
save_jit(PyObject *self, PyObject *args)
{
    struct py_jit *j = (struct py_jit *)self;
    struct bell_jit_save_desc desc = {.struct_size = sizeof(desc)};
    struct bell_tensor **handles = NULL;
    const char **targets = NULL, **in_names = NULL, **out_names = NULL;
    PyObject *inputs, *target_list, *in_list, *out_list;
    const char *path;
    unsigned long long n_steps;
    bell_status status = BELL_OK;
    int done = -1;

    if (!PyArg_ParseTuple(args, "sO!O!O!O!K:save", &path, &PyList_Type, &inputs,
                          &PyList_Type, &target_list, &PyList_Type, &in_list,
                          &PyList_Type, &out_list, &n_steps) ||
        py_enter(j->context) < 0)
        return NULL;
    targets = texts_of(target_list);
    in_names = targets ? texts_of(in_list) : NULL;
    out_names = in_names ? texts_of(out_list) : NULL;
    if (out_names && is_tensor_list(inputs) && PyList_Size(inputs) == j->n_in)
        handles = list_handles(inputs, 0);
    if (handles) {
        struct py_blocked blocked;

        desc.targets = targets;
        desc.n_targets = (uint32_t)PyList_Size(target_list);
        desc.in_names = PyList_Size(in_list) ? in_names : NULL;
        desc.out_names = PyList_Size(out_list) ? out_names : NULL;
        desc.n_steps = n_steps;
        blocked = py_block(j->context);
        status = bell_jit_save(j->jit, handles, &desc, path);
        py_unblock(&blocked);
        done = py_check(status);
    }
    free(handles);
    free(targets);
    free(in_names);
    free(out_names);
    if (done < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "jit: other inputs than before");
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* _jit_key(args): contexts, dtypes and shapes of a tuple of plain Tensors as
 * bytes; None where something else is among them. */
static PyObject *
key_of(PyObject *module, PyObject *args)
{
    int64_t key[512];
    Py_ssize_t n = PyTuple_Check(args) ? PyTuple_Size(args) : -1, i;
    size_t at = 0;

    (void)module;
    if (n < 1)
        Py_RETURN_NONE;
    for (i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(args, i);
        struct py_tensor *t = py_tensor_of(item);
        const int64_t *shape;
        uint32_t ndim;

        if (Py_TYPE(item) != py.tensor)
            Py_RETURN_NONE;
        ndim = bell_ndim(t->handle);
        shape = bell_shape(t->handle);
        if (!shape || at + 2 + ndim > sizeof(key) / sizeof(key[0])) {
            bell_error_clear();
            Py_RETURN_NONE;
        }
        key[at++] = (int64_t)(uintptr_t)t->context;
        key[at++] = (int64_t)bell_dtype_of(t->handle) << 32 | ndim;
        memcpy(key + at, shape, ndim * sizeof(*shape));
        at += ndim;
    }
    return PyBytes_FromStringAndSize((const char *)key,
                                     (Py_ssize_t)(at * sizeof(key[0])));
}

static PyMethodDef jit_functions[] = {
    {"_jit_key", key_of, METH_O, NULL},
    {0},
};
static PyMethodDef jit_methods[] = {
    {"call", call_jit, METH_O, NULL},
    {"info", jit_info, METH_NOARGS, NULL},
    {"save", save_jit, METH_VARARGS, NULL},
    {0},
};
static PyType_Slot jit_slots[] = {
    {Py_tp_new, (void *)new_jit},
    {Py_tp_dealloc, (void *)dealloc_jit},
    {Py_tp_traverse, (void *)traverse_jit},
    {Py_tp_clear, (void *)clear_jit},
    {Py_tp_methods, jit_methods},
    {0, NULL},
};
static PyType_Spec jit_spec = {
    .name = "doorbell._c._Jit",
    .basicsize = sizeof(struct py_jit),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = jit_slots,
};

int
py_jit_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&jit_spec);
    int done = type ? PyModule_AddObjectRef(module, "_Jit", type) : -1;

    Py_XDECREF(type);
    return done < 0 ? -1 : PyModule_AddFunctions(module, jit_functions);
}
