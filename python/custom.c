/* Functions with gradients of the caller's own, and kernels: what the package's
 * custom and kernel (python/doorbell/_custom.py) are made of.
 *
 * The library runs a custom function's two halves in scopes of their own. Their
 * Tensors are moved to the context's scope as they are made (py_wrap), so that
 * a function may keep them, as Python's do.
 */
#include "python/py.h"

#include <stdlib.h>
#include <string.h>

#include "doorbell/custom.h"

/* One call of a custom function, until the library releases it. */
struct py_custom {
    PyObject *forward, *backward; /* references */
    struct py_context *context;   /* alive as long as its graph */
    uint32_t n_out;
    bool is_tuple;          /* forward gives a tuple, else a Tensor */
    struct py_custom *next; /* in the context's list of those that ended */
};

void
py_custom_end(struct py_context *c)
{
    while (c->customs) {
        struct py_custom *custom = c->customs;

        c->customs = custom->next;
        Py_DECREF(custom->forward);
        Py_DECREF(custom->backward);
        free(custom);
    }
}

/* The library calls it, where Python's objects may not end: their ends may call
 * the library. The context's next call does it. */
static void
release_custom(void *user)
{
    struct py_custom *custom = user;

    custom->next = custom->context->customs;
    custom->context->customs = custom;
}

/* ---- handles and Tensors ---- */

/* Tensors of handles, in a tuple; NULL gives None. Names of their own: they do
 * not end with the scope. */
static PyObject *
wrap_all(struct py_context *c, struct bell_tensor *const *handles, uint32_t n)
{
    PyObject *made = PyTuple_New((Py_ssize_t)n);
    uint32_t i;

    for (i = 0; made && i < n; i++) {
        PyObject *item =
            handles[i] ? py_result(c, bell_alias(handles[i]), handles[i], NULL)
                       : Py_NewRef(Py_None);

        if (!item || PyTuple_SetItem(made, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* Puts a Tensor's value where the library wants it; None leaves NULL where that
 * is allowed. */
static int
give(struct py_context *c, PyObject *item, const char *who, bool may_be_none,
     struct bell_tensor **out)
{
    if (item == Py_None && may_be_none)
        return 0;
    if (!py_is_tensor(item)) {
        PyErr_Format(PyExc_TypeError, "%s: a tensor is expected, not %R", who,
                     (PyObject *)Py_TYPE(item));
        return -1;
    }
    if (py_tensor_of(item)->context != c) {
        PyErr_Format(py.classes[BELL_REASON_CONTEXT],
                     "%s: a tensor of another context", who);
        return -1;
    }
    *out = bell_alias(py_tensor_of(item)->handle);
    return 0;
}

/* A result that is a Tensor, or n of them in a tuple or list. */
static int
give_all(struct py_context *c, PyObject *result, const char *who, bool is_tuple,
         bool may_be_none, struct bell_tensor **out, uint32_t n)
{
    PyObject *items;
    uint32_t i;
    int done = 0;

    if (!is_tuple)
        return give(c, result, who, may_be_none, out);
    if (!PyTuple_Check(result) && !PyList_Check(result)) {
        PyErr_Format(PyExc_TypeError, "%s: a tuple of %u tensors is expected",
                     who, (unsigned)n);
        return -1;
    }
    items = PySequence_Tuple(result);
    if (items && PyTuple_Size(items) != (Py_ssize_t)n) {
        PyErr_Format(PyExc_ValueError, "%s: expected %u tensors, got %zd", who,
                     (unsigned)n, PyTuple_Size(items));
        done = -1;
    }
    for (i = 0; items && done == 0 && i < n; i++)
        done = give(c, PyTuple_GetItem(items, (Py_ssize_t)i), who, may_be_none,
                    &out[i]);
    Py_XDECREF(items);
    return items ? done : -1;
}

/* ---- the two halves ---- */

static bell_status
run_forward(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            uint32_t n_in, struct bell_tensor **out)
{
    struct py_custom *custom = user;
    struct py_context *c = custom->context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *inputs, *result = NULL;
    int done = -1;

    (void)ctx;
    c->n_callbacks++;
    inputs = wrap_all(c, in, n_in);
    if (inputs)
        result = PyObject_Call(custom->forward, inputs, NULL);
    if (result)
        done = give_all(c, result, "forward", custom->is_tuple, false, out,
                        custom->n_out);
    Py_XDECREF(inputs);
    Py_XDECREF(result);
    c->n_callbacks--;
    PyGILState_Release(state);
    return done < 0 ? BELL_E_INVALID : BELL_OK;
}

/* (grad, out, *inputs) */
static PyObject *
backward_args(const struct py_custom *custom, struct bell_tensor *const *in,
              uint32_t n_in, struct bell_tensor *const *out,
              struct bell_tensor *const *grads)
{
    struct py_context *c = custom->context;
    PyObject *g = wrap_all(c, grads, custom->n_out);
    PyObject *o = g ? wrap_all(c, out, custom->n_out) : NULL;
    PyObject *inputs = o ? wrap_all(c, in, n_in) : NULL, *head = NULL, *all;

    if (inputs && custom->is_tuple)
        head = PyTuple_Pack(2, g, o);
    else if (inputs)
        head = PyTuple_Pack(2, PyTuple_GetItem(g, 0), PyTuple_GetItem(o, 0));
    all = head ? PySequence_Concat(head, inputs) : NULL;
    Py_XDECREF(g);
    Py_XDECREF(o);
    Py_XDECREF(inputs);
    Py_XDECREF(head);
    return all;
}

static bell_status
run_backward(struct bell_context *ctx, void *user,
             struct bell_tensor *const *in, uint32_t n_in,
             struct bell_tensor *const *out, struct bell_tensor *const *grads,
             struct bell_tensor **out_grads)
{
    struct py_custom *custom = user;
    struct py_context *c = custom->context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args, *result = NULL;
    int done = -1;

    (void)ctx;
    c->n_callbacks++;
    args = backward_args(custom, in, n_in, out, grads);
    if (args)
        result = PyObject_Call(custom->backward, args, NULL);
    if (result)
        done =
            give_all(c, result, "backward", n_in > 1 || PyTuple_Check(result),
                     true, out_grads, n_in);
    Py_XDECREF(args);
    Py_XDECREF(result);
    c->n_callbacks--;
    PyGILState_Release(state);
    return done < 0 ? BELL_E_INVALID : BELL_OK;
}

/* ---- calls ---- */

/* Handles of a tuple of Tensors of one context, which out_c is; owned. */
static struct bell_tensor **
input_handles(PyObject *inputs, const char *who, struct py_context **out_c)
{
    Py_ssize_t n = PyTuple_Size(inputs), i;
    struct bell_tensor **handles =
        malloc(((size_t)n + 1) * sizeof(struct bell_tensor *));

    if (!handles)
        PyErr_NoMemory();
    *out_c = NULL;
    for (i = 0; handles && i < n; i++) {
        PyObject *item = PyTuple_GetItem(inputs, i);

        if (!py_is_tensor(item)) {
            PyErr_Format(PyExc_TypeError, "%s: a tensor is expected, not %R",
                         who, (PyObject *)Py_TYPE(item));
            free(handles);
            return NULL;
        }
        handles[i] = py_tensor_of(item)->handle;
        if (!*out_c)
            *out_c = py_tensor_of(item)->context;
    }
    return handles;
}

/* Results as a tuple; all or none. */
static PyObject *
wrap_many(struct py_context *c, struct bell_tensor **out, uint32_t n)
{
    PyObject *made = PyTuple_New((Py_ssize_t)n);
    uint32_t i;

    for (i = 0; i < n; i++) {
        PyObject *item = made ? py_result(c, out[i], NULL, NULL) : NULL;

        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SetItem(made, (Py_ssize_t)i, item);
    }
    return made;
}

/* _custom(forward, backward, name, n_out, inputs): n_out 0 is one result that
 * is not in a tuple */
static PyObject *
call_custom(PyObject *module, PyObject *args)
{
    struct bell_custom_many_desc desc = {.struct_size = sizeof(desc)};
    PyObject *forward, *backward, *inputs, *made = NULL;
    struct bell_tensor **handles, **out;
    struct py_custom *custom;
    struct py_context *c;
    unsigned int n_out;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOsIO!:_custom", &forward, &backward,
                          &desc.name, &n_out, &PyTuple_Type, &inputs))
        return NULL;
    desc.n_out = n_out ? n_out : 1;
    handles = input_handles(inputs, desc.name, &c);
    out = handles ? calloc(desc.n_out, sizeof(struct bell_tensor *)) : NULL;
    custom = out ? calloc(1, sizeof(*custom)) : NULL;
    if (handles && !custom)
        PyErr_NoMemory();
    if (custom && !c)
        PyErr_Format(PyExc_TypeError, "%s: a tensor is expected", desc.name);
    if (!custom || !c || py_enter(c) < 0) {
        free(custom);
        goto end;
    }
    *custom = (struct py_custom){Py_NewRef(forward), Py_NewRef(backward), c,
                                 desc.n_out,         n_out > 0,           NULL};
    desc.forward = run_forward;
    desc.backward = run_backward;
    desc.user = custom;
    desc.release = release_custom;
    bell_custom_many(&desc, handles, (uint32_t)PyTuple_Size(inputs), out);
    made = PyErr_Occurred() ? py_raise(c) : wrap_many(c, out, desc.n_out);
end:
    free(handles);
    free(out);
    return made;
}

/* ---- kernels ---- */

/* A form's word is the first letters of its constant's name. */
static int
form_of(const char *word, enum bell_kernel_form *out)
{
    static const char *const words[] = {
        [BELL_KERNEL_OBJECT] = "object",
        [BELL_KERNEL_PTX] = "ptx",
        [BELL_KERNEL_LLVM] = "llvm",
        [BELL_KERNEL_C] = "c",
    };
    size_t i;

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i], word) == 0) {
            *out = (enum bell_kernel_form)i;
            return 0;
        }
    }
    PyErr_Format(py.classes[BELL_REASON_NAME],
                 "kernel: '%s' is not a form; expected object, ptx, llvm or c",
                 word);
    return -1;
}

/* (device, form, code, grid, local, shared_bytes); views keep the bytes */
static int
read_code(PyObject *item, struct bell_kernel_code *out, Py_buffer *view)
{
    unsigned int *g = out->grid, *l = out->local, n_shared;
    const char *form;

    memset(out, 0, sizeof(*out));
    if (!PyArg_ParseTuple(item, "sss*(III)(III)I:kernel", &out->device, &form,
                          view, &g[0], &g[1], &g[2], &l[0], &l[1], &l[2],
                          &n_shared))
        return -1;
    out->code = view->buf;
    out->n_bytes = (size_t)view->len;
    out->n_shared_bytes = n_shared;
    return form_of(form, &out->form);
}

/* (shape, dtype) */
static int
read_result(struct py_context *c, PyObject *item, int64_t *shape,
            struct bell_kernel_result *out)
{
    PyObject *sizes, *dtype;

    if (!PyArg_ParseTuple(item, "OO:kernel", &sizes, &dtype) ||
        py_sizes(c, sizes, shape, &out->ndim) < 0)
        return -1;
    out->shape = shape;
    out->dtype = py_dtype_of(dtype);
    return out->dtype == BELL_DTYPE_COUNT ? -1 : 0;
}

/* All that a description points to. */
struct kernel_parts {
    struct bell_kernel_code codes[BELL_MAX_KERNEL_ARGS];
    Py_buffer views[BELL_MAX_KERNEL_ARGS];
    uint32_t n_views;
    struct bell_kernel_result results[BELL_MAX_KERNEL_ARGS];
    int64_t shapes[BELL_MAX_KERNEL_ARGS][BELL_MAX_RANK];
    int64_t values[BELL_MAX_KERNEL_ARGS];
    struct bell_tensor *out[BELL_MAX_KERNEL_ARGS];
};

static int
read_parts(struct py_context *c, struct kernel_parts *parts, PyObject *codes,
           PyObject *results, PyObject *values, struct bell_kernel_desc *desc)
{
    Py_ssize_t n_codes = PyTuple_Size(codes), i;
    Py_ssize_t n_out = PyTuple_Size(results), n_values = PyTuple_Size(values);

    if (n_codes > BELL_MAX_KERNEL_ARGS || n_out > BELL_MAX_KERNEL_ARGS ||
        n_values > BELL_MAX_KERNEL_ARGS) {
        PyErr_Format(PyExc_ValueError,
                     "%s: at most %d codes, results and values each",
                     desc->name, BELL_MAX_KERNEL_ARGS);
        return -1;
    }
    for (i = 0; i < n_codes; i++) {
        if (read_code(PyTuple_GetItem(codes, i), &parts->codes[i],
                      &parts->views[parts->n_views]) < 0)
            return -1;
        parts->n_views++;
    }
    for (i = 0; i < n_out; i++) {
        if (read_result(c, PyTuple_GetItem(results, i), parts->shapes[i],
                        &parts->results[i]) < 0)
            return -1;
    }
    for (i = 0; i < n_values; i++) {
        parts->values[i] = PyLong_AsLongLong(PyTuple_GetItem(values, i));
        if (parts->values[i] == -1 && PyErr_Occurred())
            return -1;
    }
    desc->codes = parts->codes;
    desc->n_codes = (uint32_t)n_codes;
    desc->results = parts->results;
    desc->n_out = (uint32_t)n_out;
    desc->values = parts->values;
    desc->n_values = (uint32_t)n_values;
    return 0;
}

/* _kernel(name, codes, results, values, inputs): a tuple */
static PyObject *
call_kernel(PyObject *module, PyObject *args)
{
    struct bell_kernel_desc desc = {.struct_size = sizeof(desc)};
    PyObject *codes, *results, *values, *inputs, *made = NULL;
    struct bell_tensor **handles;
    struct kernel_parts *parts;
    struct py_context *c;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO!O!O!O!:_kernel", &desc.name, &PyTuple_Type,
                          &codes, &PyTuple_Type, &results, &PyTuple_Type,
                          &values, &PyTuple_Type, &inputs))
        return NULL;
    handles = input_handles(inputs, desc.name, &c);
    if (!handles)
        return NULL;
    parts = calloc(1, sizeof(*parts));
    if (!parts)
        PyErr_NoMemory();
    c = c ? c : py_current();
    if (parts && c && py_enter(c) == 0 &&
        read_parts(c, parts, codes, results, values, &desc) == 0) {
        bell_custom_kernel(c->ctx, &desc, handles,
                           (uint32_t)PyTuple_Size(inputs), parts->out);
        made = desc.n_out ? wrap_many(c, parts->out, desc.n_out) : py_raise(c);
    }
    while (parts && parts->n_views)
        PyBuffer_Release(&parts->views[--parts->n_views]);
    free(parts);
    free(handles);
    return made;
}

static PyMethodDef functions[] = {
    {"_custom", call_custom, METH_VARARGS, NULL},
    {"_kernel", call_kernel, METH_VARARGS, NULL},
    {0},
};

int
py_custom_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
