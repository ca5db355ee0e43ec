/* Contexts: a device, the tensors on it, and who may call. */
#include "python/py.h"

#include <stdlib.h>
#include <string.h>

/* The contexts of this thread's with statements, innermost last. */
static _Thread_local struct {
    struct py_context **items; /* references */
    size_t n, cap;
} entered;

PyObject *
py_raise(struct py_context *c)
{
    bell_status status = c->ctx ? bell_context_status(c->ctx) : BELL_OK;

    (void)status; /* the thread's record has it either way */
    return py_raise_last();
}

/* ---- one at a time ---- */

static void
release_ended(struct py_context *c)
{
    size_t i, n = c->n_ended;

    c->n_ended = 0;
    for (i = 0; i < n && c->ctx; i++)
        bell_tensor_release(c->ended[i]);
}

int
py_enter_slowly(struct py_context *c)
{
    while (c->busy && c->owner != PyThread_get_thread_ident()) {
        Py_BEGIN_ALLOW_THREADS;
        PyThread_acquire_lock(c->lock, WAIT_LOCK);
        PyThread_release_lock(c->lock);
        Py_END_ALLOW_THREADS;
    }
    if (!c->ctx) {
        PyErr_SetString(py.classes[BELL_REASON_STATE],
                        "the context was closed");
        return -1;
    }
    release_ended(c);
    py_custom_end(c);
    return 0;
}

void
py_end_later(struct py_context *c, struct bell_tensor *handle)
{
    if (c->n_ended == c->cap_ended) {
        size_t cap = c->cap_ended ? 2 * c->cap_ended : 64;
        struct bell_tensor **grown =
            realloc(c->ended, cap * sizeof(struct bell_tensor *));
        if (!grown)
            return; /* it ends with its context */
        c->ended = grown;
        c->cap_ended = cap;
    }
    c->ended[c->n_ended++] = handle;
}

struct py_blocked
py_block(struct py_context *c)
{
    struct py_blocked blocked = {.context = c, .nested = c->busy};

    if (!blocked.nested) {
        PyThread_acquire_lock(c->lock, WAIT_LOCK);
        c->busy = true;
        c->owner = PyThread_get_thread_ident();
    }
    blocked.thread = py_let_go();
    return blocked;
}

void
py_unblock(const struct py_blocked *blocked)
{
    py_take_back(blocked->thread);
    if (!blocked->nested) {
        blocked->context->busy = false;
        PyThread_release_lock(blocked->context->lock);
    }
}

/* ---- making and closing ---- */

static PyObject *
open_context(const char *name)
{
    struct py_context *made = PyObject_New(struct py_context, py.context);
    PyThreadState *thread;
    bell_status status;

    if (!made)
        return NULL;
    memset((char *)made + sizeof(PyObject), 0,
           sizeof(*made) - sizeof(PyObject));
    made->lock = PyThread_allocate_lock();
    thread = PyEval_SaveThread();
    status = bell_context_create(name, &made->ctx);
    PyEval_RestoreThread(thread);
    if (!made->lock)
        PyErr_NoMemory();
    else if (py_check(status) == 0)
        made->error = bell_error_tensor(made->ctx);
    if (!made->error) {
        Py_DECREF(made);
        return NULL;
    }
    return (PyObject *)made;
}

static void
close_context(struct py_context *c)
{
    struct bell_context *ctx = c->ctx;
    PyThreadState *thread;

    if (!ctx)
        return;
    c->ctx = NULL;
    c->n_ended = 0;
    thread = PyEval_SaveThread();
    bell_context_destroy(ctx);
    PyEval_RestoreThread(thread);
    py_custom_end(c);
}

static void
dealloc_context(PyObject *self)
{
    struct py_context *c = (struct py_context *)self;
    PyTypeObject *type = Py_TYPE(self);

    close_context(c);
    if (c->lock)
        PyThread_free_lock(c->lock);
    free(c->ended);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *
new_context(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"device", NULL};
    const char *name = NULL;

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, named, "|z:Context", names, &name))
        return NULL;
    return open_context(name);
}

/* device(name=None): the context of that name, made at the first call */
static PyObject *
device(PyObject *module, PyObject *args)
{
    PyObject *name = Py_None, *found;
    const char *text = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "|O:device", &name))
        return NULL;
    if (Py_TYPE(name) == py.context)
        return Py_NewRef(name);
    if (name != Py_None) {
        if (!PyUnicode_Check(name)) {
            PyErr_SetString(PyExc_TypeError,
                            "device: a name such as 'CPU' is expected");
            return NULL;
        }
        text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!text)
            return NULL;
    }
    found = PyDict_GetItemWithError(py.contexts, name);
    if (found && ((struct py_context *)found)->ctx)
        return Py_NewRef(found);
    if (PyErr_Occurred())
        return NULL;
    found = open_context(text);
    if (found && PyDict_SetItem(py.contexts, name, found) < 0)
        Py_CLEAR(found);
    return found;
}

struct py_context *
py_current(void)
{
    struct py_context *c = NULL;
    PyObject *made;

    if (entered.n)
        return entered.items[entered.n - 1];
    c = (struct py_context *)PyDict_GetItemWithError(py.contexts, Py_None);
    if (c && c->ctx)
        return c;
    made = PyErr_Occurred() ? NULL : open_context(NULL);
    if (!made)
        return NULL;
    if (PyDict_SetItem(py.contexts, Py_None, made) < 0)
        c = NULL;
    else
        c = (struct py_context *)made;
    Py_DECREF(made); /* the dict has it */
    return c;
}

/* ---- methods ---- */

static PyObject *
enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (entered.n == entered.cap) {
        size_t cap = entered.cap + 8;
        struct py_context **grown =
            realloc(entered.items, cap * sizeof(struct py_context *));
        if (!grown)
            return PyErr_NoMemory();
        entered.items = grown;
        entered.cap = cap;
    }
    entered.items[entered.n++] = (struct py_context *)Py_NewRef(self);
    return Py_NewRef(self);
}

static PyObject *
leave(PyObject *self, PyObject *args)
{
    (void)args;
    if (!entered.n || entered.items[entered.n - 1] != (void *)self) {
        PyErr_SetString(py.classes[BELL_REASON_STATE],
                        "this thread's innermost context is another one");
        return NULL;
    }
    entered.n--;
    Py_DECREF(self);
    if (!entered.n) { /* threads come and go */
        free(entered.items);
        memset(&entered, 0, sizeof(entered));
    }
    Py_RETURN_FALSE;
}

static PyObject *
close_now(PyObject *self, PyObject *unused)
{
    struct py_context *c = (struct py_context *)self;

    (void)unused;
    if (!c->ctx)
        Py_RETURN_NONE;
    if (py_enter(c) < 0)
        return NULL;
    if (c->busy) {
        PyErr_SetString(py.classes[BELL_REASON_STATE],
                        "close: the context is inside a call, whose function "
                        "this is");
        return NULL;
    }
    close_context(c);
    Py_RETURN_NONE;
}

static PyObject *
manual_seed(PyObject *self, PyObject *seed)
{
    struct py_context *c = (struct py_context *)self;
    unsigned long long value = PyLong_AsUnsignedLongLongMask(seed);

    if (PyErr_Occurred() || py_enter(c) < 0)
        return NULL;
    bell_manual_seed(c->ctx, value);
    Py_RETURN_NONE;
}

static PyObject *
context_info(PyObject *self, PyObject *unused)
{
    struct py_context *c = (struct py_context *)self;
    struct bell_context_info counts = {.struct_size = sizeof(counts)};

    (void)unused;
    if (py_enter(c) < 0)
        return NULL;
    bell_context_get_info(c->ctx, &counts);
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n}", "tensors",
                         (Py_ssize_t)counts.n_tensors, "graph_nodes",
                         (Py_ssize_t)counts.n_graph_nodes, "buffers",
                         (Py_ssize_t)counts.n_buffers, "buffer_bytes",
                         (Py_ssize_t)counts.buffer_bytes, "compactions",
                         (Py_ssize_t)counts.n_compactions);
}

static PyObject *
set_timeout(PyObject *self, PyObject *seconds)
{
    struct py_context *c = (struct py_context *)self;
    double value = PyFloat_AsDouble(seconds);

    if (PyErr_Occurred() || py_enter(c) < 0 ||
        py_check(bell_context_set_timeout(c->ctx, value)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
get_device(PyObject *self, void *unused)
{
    struct py_context *c = (struct py_context *)self;

    (void)unused;
    if (py_enter(c) < 0)
        return NULL;
    return PyUnicode_FromString(bell_context_device(c->ctx));
}

static PyObject *
get_training(PyObject *self, void *unused)
{
    struct py_context *c = (struct py_context *)self;

    (void)unused;
    if (py_enter(c) < 0)
        return NULL;
    return PyBool_FromLong(bell_is_training(c->ctx));
}

static int
set_training(PyObject *self, PyObject *value, void *unused)
{
    struct py_context *c = (struct py_context *)self;
    int on = value ? PyObject_IsTrue(value) : 0;

    (void)unused;
    if (on < 0 || py_enter(c) < 0)
        return -1;
    bell_set_training(c->ctx, on != 0);
    return 0;
}

static PyObject *
get_no_grad(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct py_context *)self)->no_grad);
}

static int
set_no_grad(PyObject *self, PyObject *value, void *unused)
{
    int on = value ? PyObject_IsTrue(value) : 0;

    (void)unused;
    if (on < 0)
        return -1;
    ((struct py_context *)self)->no_grad = on != 0;
    return 0;
}

static PyObject *
repr_context(PyObject *self)
{
    struct py_context *c = (struct py_context *)self;

    return c->ctx ? PyUnicode_FromFormat("<doorbell.Context of %s>",
                                         bell_context_device(c->ctx))
                  : PyUnicode_FromString("<doorbell.Context, closed>");
}

/* ---- the type ---- */

static PyMethodDef context_methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {"close", close_now, METH_NOARGS,
     "close($self)\n--\n\nEnds it with all its tensors."},
    {"manual_seed", manual_seed, METH_O,
     "manual_seed($self, seed, /)\n--\n\nStarts the random numbers of a seed."},
    {"info", context_info, METH_NOARGS,
     "info($self)\n--\n\nCounts: tensors, graph nodes, buffers, their bytes."},
    {"set_mesh", py_context_set_mesh, METH_VARARGS,
     "set_mesh($self, sizes, names, /)\n--\n\nPuts the devices in a grid whose "
     "axes have\nnames. Before the first shard."},
    {"set_timeout", set_timeout, METH_O,
     "set_timeout($self, seconds, /)\n--\n\nHow long the device may stand "
     "still; "
     "0: for ever."},
    {0},
};
static PyGetSetDef context_getset[] = {
    {"device", get_device, NULL, "Name of the device: 'CPU:0'.", NULL},
    {"places", py_context_places, NULL, "Number of devices of the mesh.", NULL},
    {"training", get_training, set_training,
     "Whether layers of the library behave as in training.", NULL},
    {"no_grad", get_no_grad, set_no_grad,
     "Whether results are detached (see doorbell.no_grad).", NULL},
    {0},
};
static PyType_Slot context_slots[] = {
    {Py_tp_doc,
     "Context(device=None)\n--\n\nA device and the tensors on it. In a with "
     "statement new tensors are made there."},
    {Py_tp_new, (void *)new_context},
    {Py_tp_dealloc, (void *)dealloc_context},
    {Py_tp_repr, (void *)repr_context},
    {Py_tp_methods, context_methods},
    {Py_tp_getset, context_getset},
    {0, NULL},
};
static PyType_Spec context_spec = {
    .name = "doorbell.Context",
    .basicsize = sizeof(struct py_context),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = context_slots,
};

static PyObject *
current_context(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_XNewRef((PyObject *)py_current());
}

/* At the interpreter's end, before objects are torn down in any order. */
static PyObject *
close_all(PyObject *module, PyObject *unused)
{
    PyObject *name, *context;
    Py_ssize_t at = 0;

    (void)module;
    (void)unused;
    while (PyDict_Next(py.contexts, &at, &name, &context))
        close_context((struct py_context *)context);
    PyDict_Clear(py.contexts);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"device", device, METH_VARARGS,
     "device(name=None)\n--\n\nThe context of a device, made at the first call "
     "and then the same.\n`with doorbell.device('NV:0'):` makes new tensors "
     "there."},
    {"current_context", current_context, METH_NOARGS,
     "current_context()\n--\n\nThe context that new tensors belong to."},
    {"_close_all", close_all, METH_NOARGS, NULL},
    {0},
};

static int
register_end(PyObject *module)
{
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *end = PyObject_GetAttrString(module, "_close_all");
    PyObject *done = atexit && end
                         ? PyObject_CallMethod(atexit, "register", "O", end)
                         : NULL;

    Py_XDECREF(atexit);
    Py_XDECREF(end);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int
py_context_init(PyObject *module)
{
    py.contexts = PyDict_New();
    py.context = (PyTypeObject *)PyType_FromSpec(&context_spec);
    if (!py.contexts || !py.context ||
        PyModule_AddObjectRef(module, "Context", (PyObject *)py.context) < 0 ||
        PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return register_end(module);
}
