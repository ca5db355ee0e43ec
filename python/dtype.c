/* Element types: doorbell.float32 and the like. */
#include "python/py.h"

#include <string.h>

PyObject *
py_dtype_object(enum bell_dtype dtype)
{
    return py.dtypes[dtype];
}

/* Formats of the struct module; bfloat16 and 8-bit floats have none. */
static const char *const formats[BELL_DTYPE_COUNT] = {
    [BELL_BOOL] = "?",    [BELL_INT8] = "b",    [BELL_UINT8] = "B",
    [BELL_INT16] = "h",   [BELL_UINT16] = "H",  [BELL_INT32] = "i",
    [BELL_UINT32] = "I",  [BELL_INT64] = "q",   [BELL_UINT64] = "Q",
    [BELL_FLOAT16] = "e", [BELL_FLOAT32] = "f", [BELL_FLOAT64] = "d",
};

const char *
py_dtype_format(enum bell_dtype dtype)
{
    return formats[dtype];
}

enum bell_dtype
py_dtype_of_format(const char *format, Py_ssize_t item_bytes)
{
    static const struct {
        char letters[8];
        enum bell_dtype by_log2[4];
    } kinds[] = {
        {"bhilqn", {BELL_INT8, BELL_INT16, BELL_INT32, BELL_INT64}},
        {"BHILQNc", {BELL_UINT8, BELL_UINT16, BELL_UINT32, BELL_UINT64}},
        {"efd", {BELL_DTYPE_COUNT, BELL_FLOAT16, BELL_FLOAT32, BELL_FLOAT64}},
        {"?", {BELL_BOOL}},
    };
    size_t i;
    int log2 = 0;

    if (!format)
        format = "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    while ((Py_ssize_t)1 << log2 < item_bytes && log2 < 4)
        log2++;
    if (!format[0] || format[1] || log2 == 4 ||
        (Py_ssize_t)1 << log2 != item_bytes)
        return BELL_DTYPE_COUNT;
    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strchr(kinds[i].letters, format[0]) && kinds[i].by_log2[log2])
            return kinds[i].by_log2[log2];
    }
    return BELL_DTYPE_COUNT;
}

bool
py_is_dtype(PyObject *object)
{
    return Py_TYPE(object) == py.dtype || PyType_Check(object);
}

/* NumPy's dtypes have a name; its types, such as numpy.float32, one, too. */
static enum bell_dtype
dtype_named_by(PyObject *object)
{
    static const char *const attributes[] = {"name", "__name__"};
    enum bell_dtype found = BELL_DEFAULT;
    size_t i;

    for (i = 0; i < 2 && found == BELL_DEFAULT; i++) {
        PyObject *name = PyObject_GetAttrString(object, attributes[i]);
        const char *text = name && PyUnicode_Check(name)
                               ? PyUnicode_AsUTF8AndSize(name, NULL)
                               : NULL;
        if (text)
            found = bell_dtype_find(text);
        Py_XDECREF(name);
        PyErr_Clear();
    }
    return found;
}

enum bell_dtype
py_dtype_of(PyObject *object)
{
    enum bell_dtype found = BELL_DEFAULT;

    if (Py_TYPE(object) == py.dtype)
        return ((struct py_dtype *)object)->dtype;
    if (object == Py_None)
        return BELL_DEFAULT;
    if (object == (PyObject *)&PyFloat_Type)
        return BELL_FLOAT64;
    if (object == (PyObject *)&PyLong_Type)
        return BELL_INT64;
    if (object == (PyObject *)&PyBool_Type)
        return BELL_BOOL;
    if (PyUnicode_Check(object)) {
        const char *text = PyUnicode_AsUTF8AndSize(object, NULL);
        found = text ? bell_dtype_find(text) : BELL_DEFAULT;
    } else {
        found = dtype_named_by(object);
    }
    if (found != BELL_DEFAULT)
        return found;
    if (!PyErr_Occurred())
        PyErr_Format(py.classes[BELL_REASON_DTYPE], "%R is not a dtype",
                     object);
    return BELL_DTYPE_COUNT;
}

static PyObject *
repr_dtype(PyObject *self)
{
    return PyUnicode_FromFormat(
        "doorbell.%s", bell_dtype_name(((struct py_dtype *)self)->dtype));
}

/* pickle and copy: the name under which the package has it */
static PyObject *
reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(
        bell_dtype_name(((struct py_dtype *)self)->dtype));
}

static PyObject *
get_name(PyObject *self, void *unused)
{
    (void)unused;
    return reduce(self, NULL);
}

static PyObject *
get_item_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(bell_dtype_size(((struct py_dtype *)self)->dtype));
}

static PyObject *
get_is_float(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct py_dtype *)self)->dtype >= BELL_FLOAT16);
}

static PyGetSetDef getset[] = {
    {"name", get_name, NULL, "the name", NULL},
    {"itemsize", get_item_size, NULL, "bytes of an element", NULL},
    {"is_floating_point", get_is_float, NULL, "whether it is a float", NULL},
    {0},
};
static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "An element type."},
    {Py_tp_repr, (void *)repr_dtype},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "doorbell.DType",
    .basicsize = sizeof(struct py_dtype),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int
py_dtype_init(PyObject *module)
{
    int i;

    py.dtype = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!py.dtype ||
        PyModule_AddObjectRef(module, "DType", (PyObject *)py.dtype) < 0)
        return -1;
    for (i = BELL_DEFAULT + 1; i < BELL_DTYPE_COUNT; i++) {
        struct py_dtype *made = PyObject_New(struct py_dtype, py.dtype);

        if (!made)
            return -1;
        made->dtype = (enum bell_dtype)i;
        py.dtypes[i] = (PyObject *)made;
        if (PyModule_AddObjectRef(module, bell_dtype_name((enum bell_dtype)i),
                                  (PyObject *)made) < 0)
            return -1;
    }
    return 0;
}
