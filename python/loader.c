/* Loaders: batches of arrays, copied to the device ahead of their use. */
#include "python/py.h"

#include <string.h>

#include "doorbell/loader.h"

/* A loader, the arrays that it reads, and its context. */
struct py_loader {
    PyObject_HEAD struct bell_loader *loader; /* NULL: not made */
    struct py_context *context;               /* a reference */
    Py_buffer views[BELL_LOADER_MAX_FIELDS];  /* held while it lives */
    uint32_t n_views;
};

/* Holds an array's memory and describes it; -1 with an exception. */
static int
add_field(struct py_loader *l, PyObject *array, struct bell_loader_desc *desc,
          struct bell_loader_field *field)
{
    Py_buffer *view = &l->views[l->n_views];
    int i;

    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
        return -1;
    l->n_views++;
    field->dtype = py_dtype_of_format(view->format, view->itemsize);
    if (field->dtype == BELL_DTYPE_COUNT) {
        PyErr_Format(py.classes[BELL_REASON_DTYPE],
                     "Loader: elements of format '%s' are not supported",
                     view->format ? view->format : "B");
        return -1;
    }
    if (view->ndim < 1 || view->ndim > BELL_MAX_RANK ||
        (l->n_views > 1 && view->shape[0] != desc->n_items)) {
        PyErr_Format(py.classes[BELL_REASON_SHAPE],
                     "Loader: array %u has not as many items as array 0",
                     (unsigned)l->n_views - 1);
        return -1;
    }
    desc->n_items = view->shape[0];
    field->ndim = (uint32_t)view->ndim - 1;
    for (i = 1; i < view->ndim; i++)
        field->shape[i - 1] = view->shape[i];
    field->data = view->buf;
    return 0;
}

static int
hold_arrays(struct py_loader *l, PyObject *arrays,
            struct bell_loader_desc *desc, struct bell_loader_field *fields)
{
    Py_ssize_t n = PyTuple_Size(arrays), i;

    if (n < 1 || n > BELL_LOADER_MAX_FIELDS) {
        PyErr_Format(PyExc_ValueError, "Loader: 1 to %d arrays are expected",
                     BELL_LOADER_MAX_FIELDS);
        return -1;
    }
    for (i = 0; i < n; i++) {
        if (add_field(l, PyTuple_GetItem(arrays, i), desc, &fields[i]) < 0)
            return -1;
    }
    desc->fields = fields;
    desc->n_fields = (uint32_t)n;
    return 0;
}

/* _Loader(arrays, batch_size, shuffle, drop_last, seed, n_threads, n_ahead) */
static PyObject *
new_loader(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct bell_loader_field fields[BELL_LOADER_MAX_FIELDS];
    struct bell_loader_desc desc = {.struct_size = sizeof(desc)};
    struct py_context *c = py_current();
    struct py_loader *l;
    struct py_blocked blocked;
    PyObject *arrays;
    long long n_batch;
    unsigned long long seed;
    int shuffled, drop_last;
    bell_status status;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

    (void)named;
    memset(fields, 0, sizeof(fields));
    if (!c ||
        !PyArg_ParseTuple(args, "O!LppKII:Loader", (PyObject *)&PyTuple_Type,
                          &arrays, &n_batch, &shuffled, &drop_last, &seed,
                          &desc.n_threads, &desc.n_ahead))
        return NULL;
    l = (struct py_loader *)alloc(type, 0);
    if (!l)
        return NULL;
    l->context = (struct py_context *)Py_NewRef((PyObject *)c);
    desc.n_batch = n_batch;
    desc.shuffled = shuffled;
    desc.drop_last = drop_last;
    desc.seed = seed;
    if (hold_arrays(l, arrays, &desc, fields) < 0 || py_enter(c) < 0)
        goto fail;
    blocked = py_block(c);
    status = bell_loader_create(c->ctx, &desc, &l->loader);
    py_unblock(&blocked);
    if (py_check(status) < 0)
        goto fail;
    return (PyObject *)l;
fail:
    Py_DECREF((PyObject *)l);
    return NULL;
}

static void
dealloc_loader(PyObject *self)
{
    struct py_loader *l = (struct py_loader *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc end = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject *kind, *value, *trace;

    PyErr_Fetch(&kind, &value, &trace);
    if (l->loader && py_enter(l->context) == 0) {
        struct py_blocked blocked = py_block(l->context);

        bell_loader_destroy(l->loader);
        py_unblock(&blocked);
    } else if (l->loader) { /* the context was closed */
        bell_loader_destroy(l->loader);
    }
    PyErr_Restore(kind, value, trace);
    while (l->n_views)
        PyBuffer_Release(&l->views[--l->n_views]);
    Py_XDECREF((PyObject *)l->context);
    end(self);
    Py_DECREF((PyObject *)type);
}

/* next(): a tuple of tensors; None at the end of an epoch */
static PyObject *
next_batch(PyObject *self, PyObject *unused)
{
    struct py_loader *l = (struct py_loader *)self;
    struct bell_tensor *out[BELL_LOADER_MAX_FIELDS] = {NULL};
    struct py_blocked blocked;
    PyObject *made;
    bell_status status;
    int64_t n = 0;
    uint32_t i;

    (void)unused;
    if (py_enter(l->context) < 0)
        return NULL;
    blocked = py_block(l->context);
    status = bell_loader_next(l->loader, out, &n);
    py_unblock(&blocked);
    if (py_check(status) < 0)
        return NULL;
    if (n == 0)
        Py_RETURN_NONE;
    made = PyTuple_New((Py_ssize_t)l->n_views);
    for (i = 0; i < l->n_views; i++) {
        PyObject *item = made ? py_wrap(l->context, out[i]) : NULL;

        if (!made)
            bell_tensor_release(out[i]);
        else if (!item || PyTuple_SetItem(made, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* seek(epoch, batch) */
static PyObject *
seek(PyObject *self, PyObject *args)
{
    struct py_loader *l = (struct py_loader *)self;
    struct py_blocked blocked;
    long long epoch, batch;
    bell_status status;

    if (!PyArg_ParseTuple(args, "LL:seek", &epoch, &batch) ||
        py_enter(l->context) < 0)
        return NULL;
    blocked = py_block(l->context);
    status = bell_loader_seek(l->loader, epoch, batch);
    py_unblock(&blocked);
    if (py_check(status) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* info(): batches of an epoch, and the next one's epoch and number */
static PyObject *
info(PyObject *self, PyObject *unused)
{
    struct py_loader *l = (struct py_loader *)self;
    struct bell_loader_info found = {.struct_size = sizeof(found)};

    (void)unused;
    if (py_enter(l->context) < 0)
        return NULL;
    bell_loader_get_info(l->loader, &found);
    return Py_BuildValue("(LLL)", (long long)found.n_batches,
                         (long long)found.epoch, (long long)found.batch);
}

static PyMethodDef loader_methods[] = {
    {"next", next_batch, METH_NOARGS, NULL},
    {"seek", seek, METH_VARARGS, NULL},
    {"info", info, METH_NOARGS, NULL},
    {0},
};
static PyType_Slot loader_slots[] = {
    {Py_tp_new, (void *)new_loader},
    {Py_tp_dealloc, (void *)dealloc_loader},
    {Py_tp_methods, loader_methods},
    {0, NULL},
};
static PyType_Spec loader_spec = {
    .name = "doorbell._Loader",
    .basicsize = sizeof(struct py_loader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = loader_slots,
};

int
py_loader_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&loader_spec);
    int done = type ? PyModule_AddObjectRef(module, "_Loader", type) : -1;

    Py_XDECREF(type);
    return done;
}
