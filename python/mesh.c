/* Meshes: a context of several devices, and which part of a tensor each has. */
#include "python/py.h"

#include "doorbell/mesh.h"

/* shard(tensor, mesh_axis, dim) */
static PyObject *
shard(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"input", "mesh_axis", "dim", NULL};
    const char *mesh_axis;
    struct py_tensor *t;
    PyObject *tensor;
    long long dim;

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!sL:shard", names,
                                     (PyObject *)py.tensor, &tensor, &mesh_axis,
                                     &dim))
        return NULL;
    t = py_tensor_of(tensor);
    if (py_enter(t->context) < 0)
        return NULL;
    return py_result(t->context, bell_shard(t->handle, mesh_axis, dim),
                     t->handle, NULL);
}

/* replicate(tensor, mesh_axis) */
static PyObject *
replicate(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"input", "mesh_axis", NULL};
    const char *mesh_axis;
    struct py_tensor *t;
    PyObject *tensor;

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!s:replicate", names,
                                     (PyObject *)py.tensor, &tensor,
                                     &mesh_axis))
        return NULL;
    t = py_tensor_of(tensor);
    if (py_enter(t->context) < 0)
        return NULL;
    return py_result(t->context, bell_replicate(t->handle, mesh_axis),
                     t->handle, NULL);
}

/* layout_of(tensor): a dict */
static PyObject *
layout_of(PyObject *module, PyObject *tensor)
{
    struct bell_layout layout = {.struct_size = sizeof(layout)};
    PyObject *sizes, *axes, *made = NULL;
    struct py_tensor *t;
    uint32_t i;

    (void)module;
    if (!py_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "layout_of: %R is not a tensor",
                            (PyObject *)Py_TYPE(tensor));
    t = py_tensor_of(tensor);
    if (py_enter(t->context) < 0 ||
        py_check(bell_layout_of(t->handle, &layout)) < 0)
        return NULL;
    sizes = PyTuple_New((Py_ssize_t)layout.n_axes);
    axes = PyTuple_New((Py_ssize_t)layout.n_axes);
    for (i = 0; sizes && axes && i < layout.n_axes; i++) {
        PyObject *size = PyLong_FromLongLong(layout.sizes[i]);
        PyObject *axis = layout.axes[i] < 0 ? Py_NewRef(Py_None)
                                            : PyLong_FromLong(layout.axes[i]);

        if (!size || PyTuple_SetItem(sizes, (Py_ssize_t)i, size) < 0)
            Py_CLEAR(sizes);
        if (!axis || PyTuple_SetItem(axes, (Py_ssize_t)i, axis) < 0)
            Py_CLEAR(axes);
    }
    if (sizes && axes)
        made = Py_BuildValue("{s:O,s:O,s:K}", "sizes", sizes, "dims", axes,
                             "place_bytes",
                             (unsigned long long)layout.place_bytes);
    Py_XDECREF(sizes);
    Py_XDECREF(axes);
    return made;
}

PyObject *
py_context_set_mesh(PyObject *self, PyObject *args)
{
    struct py_context *c = (struct py_context *)self;
    const char *names[BELL_MESH_AXES] = {NULL};
    int64_t sizes[BELL_MAX_RANK];
    PyObject *sizes_of, *names_of, *made = NULL;
    uint32_t n, i;

    if (!PyArg_ParseTuple(args, "OO:set_mesh", &sizes_of, &names_of) ||
        py_sizes(c, sizes_of, sizes, &n) < 0)
        return NULL;
    names_of = PyUnicode_Check(names_of) ? PyTuple_Pack(1, names_of)
                                         : PySequence_Tuple(names_of);
    if (!names_of)
        return NULL;
    if (n == 0 || n > BELL_MESH_AXES ||
        PyTuple_Size(names_of) != (Py_ssize_t)n) {
        PyErr_Format(PyExc_ValueError,
                     "set_mesh: 1 to %d sizes are expected, and a name for "
                     "each",
                     BELL_MESH_AXES);
        goto end;
    }
    for (i = 0; i < n; i++) {
        names[i] = PyUnicode_AsUTF8AndSize(
            PyTuple_GetItem(names_of, (Py_ssize_t)i), NULL);
        if (!names[i])
            goto end;
    }
    if (py_enter(c) == 0 &&
        py_check(bell_mesh_set(c->ctx, sizes, n, names)) == 0)
        made = Py_NewRef(Py_None);
end:
    Py_DECREF(names_of);
    return made;
}

PyObject *
py_context_places(PyObject *self, void *unused)
{
    struct py_context *c = (struct py_context *)self;

    (void)unused;
    return py_enter(c) < 0 ? NULL
                           : PyLong_FromUnsignedLong(bell_mesh_places(c->ctx));
}

#define CALL(fn) (PyCFunction)(void (*)(void)) fn
static PyMethodDef mesh_functions[] = {
    {"shard", CALL(shard), METH_VARARGS | METH_KEYWORDS,
     "shard(input, mesh_axis, dim)\n--\n\nThe same values, with the axis `dim` "
     "split along an axis of the mesh.\n\n"
     ">>> with doorbell.device('CPU:0,CPU:1'):\n"
     "...     x = doorbell.shard(doorbell.arange(6), 'data', 0)\n"
     ">>> x.sum().item()\n15"},
    {"replicate", CALL(replicate), METH_VARARGS | METH_KEYWORDS,
     "replicate(input, mesh_axis)\n--\n\nThe same values, whole at each place "
     "along an axis of the mesh.\n\n"
     ">>> with doorbell.device('CPU:0,CPU:1'):\n"
     "...     x = doorbell.shard(doorbell.ones(4), 'data', 0)\n"
     ">>> doorbell.layout_of(doorbell.replicate(x, 'data'))['dims']\n(None,)"},
    {"layout_of", layout_of, METH_O,
     "layout_of(input, /)\n--\n\nWhere a tensor is: `sizes` of the mesh's "
     "axes, "
     "`dims` that are split along them\n(None: whole), `place_bytes` that each "
     "place has. Computes nothing.\n\n"
     ">>> with doorbell.device('CPU:0,CPU:1'):\n"
     "...     x = doorbell.shard(doorbell.ones(4, 3), 'data', -1)\n"
     ">>> doorbell.layout_of(x)['sizes'], doorbell.layout_of(x)['dims']\n"
     "((2,), (1,))"},
    {0},
};

int
py_mesh_init(PyObject *module)
{
    return PyModule_AddFunctions(module, mesh_functions);
}
