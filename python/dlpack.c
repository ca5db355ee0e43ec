/* DLPack: tensors of other libraries and ours for them, as capsules. Values are
 * copied in both directions, as the library does. */
#include "python/py.h"

#include <string.h>

#include "doorbell/dlpack.h"

#define OLD      "dltensor"
#define NEW      "dltensor_versioned"
#define USED_OLD "used_dltensor"
#define USED_NEW "used_dltensor_versioned"

/* ---- out ---- */

/* A capsule that nobody took still has its tensor. */
static void
end_old(PyObject *capsule)
{
    struct bell_dl_managed *managed = PyCapsule_IsValid(capsule, OLD)
                                          ? PyCapsule_GetPointer(capsule, OLD)
                                          : NULL;

    if (managed && managed->deleter)
        managed->deleter(managed);
}

static void
end_new(PyObject *capsule)
{
    struct bell_dl_managed_versioned *managed =
        PyCapsule_IsValid(capsule, NEW) ? PyCapsule_GetPointer(capsule, NEW)
                                        : NULL;

    if (managed && managed->deleter)
        managed->deleter(managed);
}

/* Whether the one who asks knows version 1: max_version is a pair. */
static int
knows_versions(PyObject *max_version)
{
    PyObject *major;
    long value;

    if (max_version == Py_None)
        return 0;
    major = PySequence_GetItem(max_version, 0);
    value = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return PyErr_Occurred() ? -1 : value >= 1;
}

/* The CPU is the only device that an export goes to: (1, 0). */
static int
check_wanted(PyObject *stream, PyObject *dl_device, PyObject *copy)
{
    int kind = BELL_DL_CPU, number = 0;

    if (stream != Py_None) {
        PyErr_SetString(PyExc_BufferError,
                        "__dlpack__: memory of the host has no stream");
        return -1;
    }
    if (dl_device != Py_None && !PyTuple_Check(dl_device)) {
        PyErr_SetString(PyExc_TypeError,
                        "__dlpack__: dl_device is a pair of ints");
        return -1;
    }
    if (dl_device != Py_None &&
        !PyArg_ParseTuple(dl_device, "ii", &kind, &number))
        return -1;
    if (kind != BELL_DL_CPU) {
        PyErr_SetString(PyExc_BufferError,
                        "__dlpack__: exports are in the host's memory alone");
        return -1;
    }
    if (copy == Py_False) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__: exports are copies");
        return -1;
    }
    return 0;
}

PyObject *
py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None;
    PyObject *copy = Py_None;
    struct py_tensor *t = py_tensor_of(self);
    struct bell_dl_managed_versioned *new = NULL;
    struct bell_dl_managed *old = NULL;
    struct py_blocked blocked;
    bell_status status;
    int versioned;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|$OOOO:__dlpack__", names,
                                     &stream, &version, &device, &copy) ||
        check_wanted(stream, device, copy) < 0)
        return NULL;
    versioned = knows_versions(version);
    if (versioned < 0 || py_enter(t->context) < 0)
        return NULL;
    blocked = py_block(t->context);
    if (versioned)
        status = bell_to_dlpack_versioned(t->handle, &new);
    else
        status = bell_to_dlpack(t->handle, &old);
    py_unblock(&blocked);
    if (py_check(status) < 0)
        return NULL;
    return versioned ? PyCapsule_New(new, NEW, end_new)
                     : PyCapsule_New(old, OLD, end_old);
}

PyObject *
py_tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", BELL_DL_CPU, 0);
}

/* ---- in ---- */

/* The capsule of an object, of version 1 where it has that. */
static PyObject *
ask_capsule(PyObject *object)
{
    PyObject *ask = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = PyTuple_New(0), *named, *capsule = NULL;

    named = Py_BuildValue("{s:(ii)}", "max_version", (int)BELL_DL_MAJOR,
                          (int)BELL_DL_MINOR);
    if (ask && none && named) {
        capsule = PyObject_Call(ask, none, named);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear(); /* it knows no versions */
            capsule = PyObject_Call(ask, none, NULL);
        }
    }
    Py_XDECREF(ask);
    Py_XDECREF(none);
    Py_XDECREF(named);
    return capsule;
}

/* from_dlpack(object) */
static PyObject *
from_dlpack(PyObject *module, PyObject *object)
{
    struct py_context *c = py_current();
    struct bell_tensor *handle;
    PyObject *capsule;

    (void)module;
    if (!c || py_enter(c) < 0)
        return NULL;
    capsule =
        PyCapsule_CheckExact(object) ? Py_NewRef(object) : ask_capsule(object);
    if (!capsule)
        return NULL;
    if (PyCapsule_IsValid(capsule, NEW)) {
        void *managed = PyCapsule_GetPointer(capsule, NEW);

        PyCapsule_SetName(capsule, USED_NEW);
        handle = bell_from_dlpack_versioned(c->ctx, managed);
    } else if (PyCapsule_IsValid(capsule, OLD)) {
        void *managed = PyCapsule_GetPointer(capsule, OLD);

        PyCapsule_SetName(capsule, USED_OLD);
        handle = bell_from_dlpack(c->ctx, managed);
    } else {
        PyErr_SetString(PyExc_TypeError,
                        "from_dlpack: not a tensor's capsule, or one that was "
                        "taken");
        Py_DECREF(capsule);
        return NULL;
    }
    Py_DECREF(capsule);
    return py_result(c, handle, NULL, NULL);
}

static PyMethodDef dlpack_functions[] = {
    {"from_dlpack", from_dlpack, METH_O,
     "from_dlpack(object, /)\n--\n\nA tensor of the values of another "
     "library's, "
     "which lie in the host's memory;\nthey are copied.\n\n"
     ">>> doorbell.from_dlpack(doorbell.tensor([1, 2])).tolist()\n[1, 2]"},
    {0},
};

int
py_dlpack_init(PyObject *module)
{
    return PyModule_AddFunctions(module, dlpack_functions);
}
