/* Files of tensors: reading by name, and saving. */
#include "python/py.h"

#include <string.h>

#include "doorbell/files.h"

struct py_file {
    PyObject_HEAD struct bell_file *file; /* NULL: closed */
};

static PyObject *
new_file(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"path", NULL};
    PyObject *path = NULL;
    PyThreadState *thread;
    struct py_file *made;
    bell_status status;

    if (!PyArg_ParseTupleAndKeywords(args, named, "O&:File", names,
                                     PyUnicode_FSConverter, &path))
        return NULL;
    made = PyObject_New(struct py_file, type);
    if (made) {
        made->file = NULL;
        thread = PyEval_SaveThread();
        status = bell_file_open(PyBytes_AsString(path), &made->file);
        PyEval_RestoreThread(thread);
        if (py_check(status) < 0)
            Py_CLEAR(made);
    }
    Py_DECREF(path);
    return (PyObject *)made;
}

static void
dealloc_file(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    bell_file_close(((struct py_file *)self)->file);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t
count(PyObject *self)
{
    return (Py_ssize_t)bell_file_count(((struct py_file *)self)->file);
}

/* Names of the tensors, or of what else the file says. */
static PyObject *
names_of(struct bell_file *file, bool is_meta)
{
    PyObject *list = PyList_New(0);
    uint32_t i;

    for (i = 0; list; i++) {
        const struct bell_file_entry *entry = bell_file_at(file, i);
        const char *name = is_meta ? bell_file_key(file, i)
                           : entry ? entry->name
                                   : NULL;
        PyObject *text;

        if (!name)
            break;
        text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *
keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    return names_of(((struct py_file *)self)->file, false);
}

static PyObject *
iterate_names(PyObject *self)
{
    PyObject *list = keys(self, NULL), *made;

    if (!list)
        return NULL;
    made = PyObject_GetIter(list);
    Py_DECREF(list);
    return made;
}

static int
contains(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);

    if (!text)
        return -1;
    return bell_file_find(((struct py_file *)self)->file, text) != NULL;
}

static PyObject *
tensor_named(PyObject *self, PyObject *name)
{
    struct py_context *c = py_current();
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    struct py_file *f = (struct py_file *)self;
    struct bell_tensor *handle;
    struct py_blocked blocked;

    if (!text || !c || py_enter(c) < 0)
        return NULL;
    if (!bell_file_find(f->file, text)) {
        PyErr_SetObject(PyExc_KeyError, name);
        return NULL;
    }
    blocked = py_block(c);
    handle = bell_file_tensor(c->ctx, f->file, text);
    py_unblock(&blocked);
    return py_result(c, handle, NULL, NULL);
}

/* A number, a text, or a list of them. */
static PyObject *
meta_value(const struct bell_file *file, const char *key)
{
    const char *text;
    size_t n_bytes;
    int64_t whole;
    double number;

    if (bell_file_int(file, key, &whole))
        return PyLong_FromLongLong(whole);
    if (bell_file_float(file, key, &number))
        return PyFloat_FromDouble(number);
    if (bell_file_str(file, key, &text, &n_bytes))
        return PyUnicode_DecodeUTF8(text, (Py_ssize_t)n_bytes, "replace");
    return NULL;
}

static PyObject *
meta_item(const struct bell_file *file, const char *key, uint64_t i)
{
    const char *text;
    size_t n_bytes;
    int64_t whole;
    double number;

    if (bell_file_list_int(file, key, i, &whole))
        return PyLong_FromLongLong(whole);
    if (bell_file_list_float(file, key, i, &number))
        return PyFloat_FromDouble(number);
    if (bell_file_list_str(file, key, i, &text, &n_bytes))
        return PyUnicode_DecodeUTF8(text, (Py_ssize_t)n_bytes, "replace");
    return Py_NewRef(Py_None);
}

static PyObject *
meta(PyObject *self, PyObject *key)
{
    const struct bell_file *file = ((struct py_file *)self)->file;
    const char *text = PyUnicode_AsUTF8AndSize(key, NULL);
    PyObject *made = text ? meta_value(file, text) : NULL;
    uint64_t n = text ? bell_file_list(file, text) : 0, i;

    if (made || PyErr_Occurred())
        return made;
    if (n == 0) {
        PyErr_SetObject(PyExc_KeyError, key);
        return NULL;
    }
    made = PyList_New(0);
    for (i = 0; made && i < n; i++) {
        PyObject *item = meta_item(file, text, i);
        if (!item || PyList_Append(made, item) < 0)
            Py_CLEAR(made);
        Py_XDECREF(item);
    }
    return made;
}

static PyObject *
meta_keys(PyObject *self, PyObject *unused)
{
    (void)unused;
    return names_of(((struct py_file *)self)->file, true);
}

/* ---- saving ---- */

static int
fill_state(struct bell_state *state, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);

        if (!name)
            return -1;
        if (!py_is_tensor(value)) {
            PyErr_Format(PyExc_TypeError, "save: '%s' is not a tensor", name);
            return -1;
        }
        if (py_check(bell_state_add(state, NULL, name, BELL_STATE_BUFFER,
                                    py_tensor_of(value)->handle)) < 0)
            return -1;
    }
    return 0;
}

/* save(path, tensors): a dict; the ending says which format */
static PyObject *
save_dict(PyObject *module, PyObject *args)
{
    struct bell_state state = {0};
    struct py_context *c = NULL;
    PyObject *path, *dict, *key, *value;
    Py_ssize_t at = 0;
    int done = -1;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&O!:_save", PyUnicode_FSConverter, &path,
                          &PyDict_Type, &dict))
        return NULL;
    if (fill_state(&state, dict) == 0) {
        while (PyDict_Next(dict, &at, &key, &value))
            c = py_tensor_of(value)->context;
        if (!c)
            PyErr_SetString(PyExc_ValueError, "save: nothing to save");
        else if (py_enter(c) == 0) {
            struct py_blocked blocked = py_block(c);
            bell_status status = bell_file_save(PyBytes_AsString(path), &state);
            py_unblock(&blocked);
            done = py_check(status);
        }
    }
    bell_state_fini(&state);
    Py_DECREF(path);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef file_methods[] = {
    {"keys", keys, METH_NOARGS, "keys($self)\n--\n\nNames of the tensors."},
    {"meta", meta, METH_O,
     "meta($self, key, /)\n--\n\nA number, text or list that the file has "
     "beside "
     "its tensors."},
    {"meta_keys", meta_keys, METH_NOARGS,
     "meta_keys($self)\n--\n\nKeys of meta."},
    {0},
};
static PyType_Slot file_slots[] = {
    {Py_tp_doc,
     "File(path)\n--\n\nAn open file of tensors (GGUF, safetensors, "
     ".npy, .npz, .pth, .onnx, IDX, CIFAR-10):\na mapping from names to "
     "tensors, which are read when they are asked for."},
    {Py_tp_new, (void *)new_file},
    {Py_tp_dealloc, (void *)dealloc_file},
    {Py_tp_iter, (void *)iterate_names},
    {Py_tp_methods, file_methods},
    {Py_mp_length, (void *)count},
    {Py_mp_subscript, (void *)tensor_named},
    {Py_sq_contains, (void *)contains},
    {0, NULL},
};
static PyType_Spec file_spec = {
    .name = "doorbell.File",
    .basicsize = sizeof(struct py_file),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = file_slots,
};
static PyMethodDef functions[] = {
    {"_save", save_dict, METH_VARARGS, NULL},
    {0},
};

int
py_file_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&file_spec);
    int done = type ? PyModule_AddObjectRef(module, "File", type) : -1;

    Py_XDECREF(type);
    return done < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
