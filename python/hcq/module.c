/* The extension module doorbell._hcq. */
#include "python/hcq/hq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct py_state py;
struct hq_state hq;

PyObject *
hq_wrong_state(const char *message)
{
    PyErr_SetString(py.classes[BELL_REASON_STATE], message);
    return NULL;
}

PyTypeObject *
hq_add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);

    if (type &&
        PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

PyTypeObject *
hq_add_tuple(PyObject *module, PyStructSequence_Desc *desc)
{
    PyTypeObject *type = PyStructSequence_NewType(desc);

    if (type && PyModule_AddObjectRef(module, strrchr(desc->name, '.') + 1,
                                      (PyObject *)type) < 0)
        Py_CLEAR(type);
    return type;
}

void *
hq_new(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void
hq_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

int
hq_timeout(PyObject *seconds, uint64_t *out_ns)
{
    double value;

    *out_ns = HCQ_WAIT_WHILE_MOVING;
    if (!seconds || seconds == Py_None)
        return 0;
    value = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred())
        return -1;
    if (isnan(value) || value < 0) {
        PyErr_Format(PyExc_ValueError,
                     "timeout: seconds of at least 0, or None, expected; got "
                     "%R",
                     seconds);
        return -1;
    }
    *out_ns = value < 1e9 ? (uint64_t)(value * 1e9) : HCQ_WAIT_FOREVER;
    return 0;
}

int
hq_three(PyObject *object, const char *what, uint32_t out[3])
{
    PyObject *all = PyLong_Check(object) ? PyTuple_Pack(1, object)
                                         : PySequence_Tuple(object);
    Py_ssize_t n, i;

    if (!all)
        return -1;
    n = PyTuple_Size(all);
    out[0] = out[1] = out[2] = 1;
    if (n < 1 || n > 3)
        PyErr_Format(PyExc_ValueError, "%s: 1 to 3 sizes expected, got %zd",
                     what, n);
    for (i = 0; i < n && !PyErr_Occurred(); i++) {
        unsigned long long value =
            PyLong_AsUnsignedLongLong(PyTuple_GetItem(all, i));

        if (!PyErr_Occurred() && value > UINT32_MAX)
            PyErr_Format(PyExc_ValueError, "%s: %llu is beyond 32 bits", what,
                         value);
        out[i] = (uint32_t)value;
    }
    Py_DECREF(all);
    return PyErr_Occurred() ? -1 : 0;
}

int
hq_u64(PyObject *object, void *out)
{
    PyObject *number = PyNumber_Index(object);

    if (!number)
        return 0;
    *(uint64_t *)out = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return !PyErr_Occurred();
}

bool
hq_put(PyObject *tuple, Py_ssize_t at, PyObject *item)
{
    if (!item)
        return false;
    if (PyTuple_Check(tuple) && !PyTuple_CheckExact(tuple)) {
        PyStructSequence_SetItem(tuple, at, item);
        return true;
    }
    return PyTuple_SetItem(tuple, at, item) == 0;
}

/* Errors are those of doorbell._c. */
static int
find_errors(void)
{
    PyObject *of = PyImport_ImportModule("doorbell._c");
    int reason;

    py.error = of ? PyObject_GetAttrString(of, "Error") : NULL;
    Py_XDECREF(of);
    for (reason = BELL_REASON_NONE + 1; py.error && reason < BELL_REASON_COUNT;
         reason++) {
        char name[64];

        snprintf(name, sizeof(name), "%sError",
                 bell_reason_name((enum bell_reason)reason));
        name[0] = (char)(name[0] - 'a' + 'A');
        py.classes[reason] = PyObject_GetAttrString(py.error, name);
        if (!py.classes[reason])
            return -1;
    }
    return py.error ? 0 : -1;
}

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "doorbell._hcq",
    .m_doc = "Hardware queues of libdoorbell-hcq.",
    .m_size = -1, /* one interpreter: state is the process's */
};

PyMODINIT_FUNC PyInit__hcq(void);
PyMODINIT_FUNC
PyInit__hcq(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    if (find_errors() < 0 || hq_device_init(module) < 0 ||
        hq_memory_init(module) < 0 || hq_queue_init(module) < 0 ||
        hq_graph_init(module) < 0 || hq_step_init(module) < 0 ||
        hq_log_init(module) < 0)
        Py_CLEAR(module);
    return module;
}
