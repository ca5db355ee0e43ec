/* Gradients and optimisers. */
#include "python/py.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/optim.h"

/* ---- gradients ---- */

PyObject *
py_tensor_requires_grad(PyObject *self, PyObject *on)
{
    struct py_tensor *t = py_tensor_of(self);
    int wanted = PyObject_IsTrue(on);

    if (wanted < 0 || py_enter(t->context) < 0)
        return NULL;
    if (bell_requires_grad(t->handle, wanted != 0) != t->handle)
        return py_raise(t->context);
    t->wants_grad = wanted != 0;
    return Py_NewRef(self);
}

PyObject *
py_tensor_backward(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = py_tensor_of(self);

    (void)unused;
    if (py_enter(t->context) < 0 || py_check(bell_backward(t->handle)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *
py_tensor_grad(PyObject *self, void *unused)
{
    struct py_tensor *t = py_tensor_of(self);
    struct bell_tensor *grad;

    (void)unused;
    if (py_enter(t->context) < 0)
        return NULL;
    grad = bell_grad(t->handle);
    if (!grad)
        Py_RETURN_NONE;
    return py_result(t->context, bell_alias(grad), grad, NULL);
}

int
py_tensor_set_grad(PyObject *self, PyObject *value, void *unused)
{
    struct py_tensor *t = py_tensor_of(self);

    (void)unused;
    if (value && value != Py_None) {
        PyErr_SetString(PyExc_ValueError,
                        "grad can be set to None, which forgets it");
        return -1;
    }
    if (py_enter(t->context) < 0)
        return -1;
    bell_zero_grad(t->handle);
    return 0;
}

/* Handles of a list or tuple of Tensors; owned by the caller. */
static struct bell_tensor **
handles_of(PyObject *list, uint32_t *out_n)
{
    PyObject *fast = PySequence_Tuple(list);
    struct bell_tensor **handles = NULL;
    Py_ssize_t n = fast ? PyTuple_Size(fast) : 0, i;

    if (fast)
        handles = malloc(((size_t)n + 1) * sizeof(struct bell_tensor *));
    if (fast && !handles)
        PyErr_NoMemory();
    for (i = 0; handles && i < n; i++) {
        PyObject *item = PyTuple_GetItem(fast, i);

        if (!py_is_tensor(item)) {
            PyErr_Format(PyExc_TypeError, "tensors are expected, not %R",
                         (PyObject *)Py_TYPE(item));
            free(handles);
            handles = NULL;
            break;
        }
        handles[i] = py_tensor_of(item)->handle;
    }
    Py_XDECREF(fast);
    *out_n = (uint32_t)n;
    return handles;
}

/* The context of the first Tensor of a sequence. */
static struct py_context *
context_of_list(PyObject *list)
{
    PyObject *first =
        PySequence_Size(list) > 0 ? PySequence_GetItem(list, 0) : NULL;
    struct py_context *c = NULL;

    if (first && py_is_tensor(first))
        c = py_tensor_of(first)->context;
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a list of tensors is expected");
    Py_XDECREF(first);
    return c;
}

/* grad(output, inputs, vector=None): a tuple of gradients */
static PyObject *
gradient(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"output", "inputs", "vector", NULL};
    PyObject *output, *inputs, *vector = Py_None, *made = NULL;
    struct bell_tensor **targets = NULL, **grads = NULL;
    struct py_tensor *x;
    uint32_t n = 0, i;
    bell_status status;

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!O|O:grad", names,
                                     (PyObject *)py.tensor, &output, &inputs,
                                     &vector) ||
        py_enter(py_tensor_of(output)->context) < 0)
        return NULL;
    x = py_tensor_of(output);
    inputs = py_is_tensor(inputs) ? PyTuple_Pack(1, inputs) : Py_NewRef(inputs);
    targets = inputs ? handles_of(inputs, &n) : NULL;
    Py_XDECREF(inputs);
    grads =
        targets ? calloc((size_t)n + 1, sizeof(struct bell_tensor *)) : NULL;
    if (targets && !grads)
        PyErr_NoMemory();
    if (!grads)
        goto end;
    if (vector == Py_None)
        status = bell_gradient(x->handle, targets, n, grads);
    else if (py_is_tensor(vector))
        status = bell_vjp(x->handle, py_tensor_of(vector)->handle, targets, n,
                          grads);
    else {
        PyErr_SetString(PyExc_TypeError, "grad: the vector is a tensor");
        goto end;
    }
    if (py_check(status) < 0)
        goto end;
    made = PyTuple_New((Py_ssize_t)n);
    for (i = 0; made && i < n; i++) {
        PyObject *item = py_wrap(x->context, grads[i]);
        if (!item || PyTuple_SetItem(made, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(made);
    }
end:
    free(targets);
    free(grads);
    return made;
}

/* ---- optimisers ---- */

struct py_optimizer {
    PyObject_HEAD struct bell_optimizer *opt; /* NULL: not made */
    struct py_context *context;
    PyObject *params; /* list of Tensors, which must outlive it */
};

/* An option of Python and the field that it is. */
struct option {
    const char *name;
    size_t offset;
    char type; /* d: double, b: bool, u: uint32_t */
};
union options {
    uint32_t struct_size;
    struct bell_sgd_options sgd;
    struct bell_adam_options adam;
    struct bell_rmsprop_options rmsprop;
    struct bell_adagrad_options adagrad;
    struct bell_lars_options lars;
    struct bell_muon_options muon;
};
typedef bell_status create_fn(struct bell_tensor *const *params, uint32_t n,
                              const union options *options,
                              struct bell_optimizer **out);
#define CREATE(kind)                                                           \
    static bell_status create_##kind(struct bell_tensor *const *params,        \
                                     uint32_t n, const union options *options, \
                                     struct bell_optimizer **out)              \
    {                                                                          \
        return bell_##kind##_create(params, n, (const void *)options, out);    \
    }
CREATE(sgd)
CREATE(adam)
CREATE(adamw)
CREATE(rmsprop)
CREATE(adagrad)
CREATE(lamb)
CREATE(lars)
CREATE(muon)
#define FIELD(type, field, letter)                                             \
    {                                                                          \
#field, offsetof(struct bell_##type##_options, field), letter          \
    }
static const struct option sgd_options[] = {
    FIELD(sgd, lr, 'd'),        FIELD(sgd, momentum, 'd'),
    FIELD(sgd, dampening, 'd'), FIELD(sgd, weight_decay, 'd'),
    FIELD(sgd, nesterov, 'b'),  {0},
};
static const struct option adam_options[] = {
    FIELD(adam, lr, 'd'),           FIELD(adam, beta1, 'd'),
    FIELD(adam, beta2, 'd'),        FIELD(adam, eps, 'd'),
    FIELD(adam, weight_decay, 'd'), {0},
};
static const struct option rmsprop_options[] = {
    FIELD(rmsprop, lr, 'd'),
    FIELD(rmsprop, alpha, 'd'),
    FIELD(rmsprop, eps, 'd'),
    FIELD(rmsprop, weight_decay, 'd'),
    FIELD(rmsprop, momentum, 'd'),
    FIELD(rmsprop, centered, 'b'),
    {0},
};
static const struct option adagrad_options[] = {
    FIELD(adagrad, lr, 'd'),
    FIELD(adagrad, lr_decay, 'd'),
    FIELD(adagrad, initial_value, 'd'),
    FIELD(adagrad, eps, 'd'),
    FIELD(adagrad, weight_decay, 'd'),
    {0},
};
static const struct option lars_options[] = {
    FIELD(lars, lr, 'd'),           FIELD(lars, momentum, 'd'),
    FIELD(lars, weight_decay, 'd'), FIELD(lars, trust, 'd'),
    FIELD(lars, eps, 'd'),          {0},
};
static const struct option muon_options[] = {
    FIELD(muon, lr, 'd'),
    FIELD(muon, momentum, 'd'),
    FIELD(muon, weight_decay, 'd'),
    FIELD(muon, plain, 'b'),
    FIELD(muon, n_iters, 'u'),
    FIELD(muon, eps, 'd'),
    {0},
};
static const struct optimizer_kind {
    const char *name;
    create_fn *create;
    const struct option *options;
    size_t size_bytes;
} kinds[] = {
    {"sgd", create_sgd, sgd_options, sizeof(struct bell_sgd_options)},
    {"adam", create_adam, adam_options, sizeof(struct bell_adam_options)},
    {"adamw", create_adamw, adam_options, sizeof(struct bell_adam_options)},
    {"rmsprop", create_rmsprop, rmsprop_options,
     sizeof(struct bell_rmsprop_options)},
    {"adagrad", create_adagrad, adagrad_options,
     sizeof(struct bell_adagrad_options)},
    {"lamb", create_lamb, adam_options, sizeof(struct bell_adam_options)},
    {"lars", create_lars, lars_options, sizeof(struct bell_lars_options)},
    {"muon", create_muon, muon_options, sizeof(struct bell_muon_options)},
};

static int
set_option(union options *options, const struct option *known, const char *name,
           PyObject *value)
{
    char *field;
    double number = PyFloat_AsDouble(value);

    if (number == -1 && PyErr_Occurred())
        return -1;
    for (; known->name && strcmp(known->name, name); known++)
        ;
    if (!known->name) {
        PyErr_Format(PyExc_TypeError, "the optimiser has no option '%s'", name);
        return -1;
    }
    field = (char *)options + known->offset;
    if (known->type == 'd')
        *(double *)(void *)field = number;
    else if (known->type == 'b')
        *(bool *)(void *)field = number != 0;
    else if (number >= 0 && number <= UINT32_MAX)
        *(uint32_t *)(void *)field = (uint32_t)number;
    else
        return PyErr_Format(PyExc_ValueError, "%s must be 0 to 2^32 - 1", name),
               -1;
    return 0;
}

static const struct optimizer_kind *
find_kind(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    PyErr_Format(
        PyExc_ValueError,
        "'%s' is not an optimiser; expected sgd, adam, adamw, rmsprop, "
        "adagrad, lamb, lars or muon",
        name);
    return NULL;
}

static int
read_options(const struct optimizer_kind *kind, PyObject *given,
             union options *out)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    memset(out, 0, sizeof(*out));
    out->struct_size = (uint32_t)kind->size_bytes;
    while (given && PyDict_Next(given, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name || set_option(out, kind->options, name, value) < 0)
            return -1;
    }
    return 0;
}

/* _Optimizer(kind, params, **options) */
static PyObject *
new_optimizer(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct py_optimizer *made;
    const struct optimizer_kind *kind;
    struct bell_tensor **handles;
    PyObject *params, *list;
    union options options;
    const char *name;
    uint32_t n;
    struct py_blocked blocked;
    bell_status status;

    (void)type;
    if (!PyArg_ParseTuple(args, "sO:_Optimizer", &name, &params))
        return NULL;
    kind = find_kind(name);
    if (!kind || read_options(kind, named, &options) < 0)
        return NULL;
    list = PySequence_List(params);
    made = list ? (struct py_optimizer *)((allocfunc)PyType_GetSlot(
                      type, Py_tp_alloc))(type, 0)
                : NULL;
    if (!made) {
        Py_XDECREF(list);
        return NULL;
    }
    made->opt = NULL;
    made->params = list;
    made->context = context_of_list(list);
    Py_XINCREF((PyObject *)made->context);
    handles = made->context && py_enter(made->context) == 0
                  ? handles_of(list, &n)
                  : NULL;
    if (handles) {
        blocked = py_block(made->context);
        status = kind->create(handles, n, &options, &made->opt);
        py_unblock(&blocked);
        free(handles);
        if (py_check(status) == 0)
            return (PyObject *)made;
    }
    Py_DECREF((PyObject *)made);
    return NULL;
}

static void
dealloc_optimizer(PyObject *self)
{
    struct py_optimizer *o = (struct py_optimizer *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (o->opt && o->context->ctx && py_enter(o->context) == 0)
        bell_optimizer_destroy(o->opt);
    else if (o->opt)
        PyErr_Clear();
    Py_XDECREF(o->params);
    Py_XDECREF((PyObject *)o->context);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* step(*also): moves the parameters, computes `also` with them */
static PyObject *
step(PyObject *self, PyObject *also)
{
    struct py_optimizer *o = (struct py_optimizer *)self;
    struct bell_tensor **handles;
    struct py_blocked blocked;
    bell_status status;
    uint32_t n;

    if (py_enter(o->context) < 0)
        return NULL;
    handles = handles_of(also, &n);
    if (!handles)
        return NULL;
    blocked = py_block(o->context);
    status = bell_optimizer_step(o->opt, handles, n);
    py_unblock(&blocked);
    free(handles);
    if (py_check(status) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
zero_grad(PyObject *self, PyObject *unused)
{
    struct py_optimizer *o = (struct py_optimizer *)self;

    (void)unused;
    if (py_enter(o->context) < 0)
        return NULL;
    bell_optimizer_zero_grad(o->opt);
    Py_RETURN_NONE;
}

static PyObject *
scale_loss(PyObject *self, PyObject *loss)
{
    struct py_optimizer *o = (struct py_optimizer *)self;
    struct bell_tensor *scaled;

    if (!py_is_tensor(loss)) {
        PyErr_SetString(PyExc_TypeError, "scale: a tensor is expected");
        return NULL;
    }
    if (py_enter(o->context) < 0)
        return NULL;
    scaled = bell_optimizer_scale(o->opt, py_tensor_of(loss)->handle);
    if (scaled == py_tensor_of(loss)->handle)
        scaled = bell_alias(scaled);
    return py_result(o->context, scaled, NULL, NULL);
}

static PyObject *
set_scaler(PyObject *self, PyObject *unused)
{
    struct py_optimizer *o = (struct py_optimizer *)self;

    (void)unused;
    if (py_enter(o->context) < 0 ||
        py_check(bell_optimizer_set_scaler(o->opt, NULL)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
set_clip(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"max_norm", "max_value", NULL};
    struct py_optimizer *o = (struct py_optimizer *)self;
    double norm = 0, value = 0;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|dd:set_clip", names, &norm,
                                     &value) ||
        py_enter(o->context) < 0 ||
        py_check(bell_optimizer_set_clip(o->opt, norm, value)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
set_schedule(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"kind",        "n_steps", "gamma",     "low",
                            "up",          "div",     "final_div", "n_warmup",
                            "warmup_from", NULL};
    static const char *const words[] = {
        [BELL_SCHEDULE_CONSTANT] = "constant",
        [BELL_SCHEDULE_STEP] = "step",
        [BELL_SCHEDULE_COSINE] = "cosine",
        [BELL_SCHEDULE_ONE_CYCLE] = "one_cycle",
    };
    struct py_optimizer *o = (struct py_optimizer *)self;
    struct bell_schedule s = {.struct_size = sizeof(s)};
    long long n_steps = 0, n_warmup = 0;
    const char *word;
    size_t i;

    if (!PyArg_ParseTupleAndKeywords(args, named, "s|LdddddLd:set_schedule",
                                     names, &word, &n_steps, &s.gamma, &s.low,
                                     &s.up, &s.div, &s.final_div, &n_warmup,
                                     &s.warmup_from) ||
        py_enter(o->context) < 0)
        return NULL;
    for (i = 0; i < 4 && strcmp(words[i], word); i++)
        ;
    if (i == 4) {
        PyErr_Format(PyExc_ValueError,
                     "'%s' is not a schedule; expected constant, step, cosine "
                     "or one_cycle",
                     word);
        return NULL;
    }
    s.kind = (enum bell_schedule_kind)i;
    s.n_steps = n_steps;
    s.n_warmup = n_warmup;
    if (py_check(bell_optimizer_set_schedule(o->opt, &s)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
add_group(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"params", "lr", "weight_decay", NULL};
    struct py_optimizer *o = (struct py_optimizer *)self;
    struct bell_group_options options = {.struct_size = sizeof(options)};
    struct bell_tensor **handles;
    PyObject *params;
    uint32_t n;
    int done;

    if (!PyArg_ParseTupleAndKeywords(args, named, "Od|d:add_group", names,
                                     &params, &options.lr,
                                     &options.weight_decay) ||
        py_enter(o->context) < 0)
        return NULL;
    handles = handles_of(params, &n);
    if (!handles)
        return NULL;
    done = py_check(bell_optimizer_add_group(o->opt, handles, n, &options));
    free(handles);
    if (done < 0)
        return NULL;
    return PyObject_CallMethod(o->params, "extend", "O", params);
}

static PyObject *
get_lr(PyObject *self, void *unused)
{
    struct py_optimizer *o = (struct py_optimizer *)self;

    (void)unused;
    return py_enter(o->context) < 0
               ? NULL
               : PyFloat_FromDouble(bell_optimizer_lr(o->opt));
}

static int
set_lr(PyObject *self, PyObject *value, void *unused)
{
    struct py_optimizer *o = (struct py_optimizer *)self;
    double lr = value ? PyFloat_AsDouble(value) : 0;

    (void)unused;
    if (PyErr_Occurred() || py_enter(o->context) < 0)
        return -1;
    bell_optimizer_set_lr(o->opt, lr);
    return 0;
}

static PyObject *
get_params(PyObject *self, void *unused)
{
    (void)unused;
    return PySequence_Tuple(((struct py_optimizer *)self)->params);
}

/* A tensor or number of an optimiser's state as an item of a dict. */
static int
add_state(PyObject *dict, struct py_context *c,
          const struct bell_state_item *item)
{
    PyObject *value = item->number ? PyFloat_FromDouble(*item->number)
                                   : py_result(c, bell_alias(item->tensor),
                                               item->tensor, NULL);
    int done = value ? PyDict_SetItemString(dict, item->name, value) : -1;

    Py_XDECREF(value);
    return done;
}

static PyObject *
state_dict(PyObject *self, PyObject *unused)
{
    struct py_optimizer *o = (struct py_optimizer *)self;
    struct bell_state state = {0};
    PyObject *dict;
    uint32_t i;

    (void)unused;
    if (py_enter(o->context) < 0)
        return NULL;
    dict = PyDict_New();
    if (dict && py_check(bell_optimizer_state(o->opt, NULL, NULL, &state)) < 0)
        Py_CLEAR(dict);
    for (i = 0; dict && i < state.n; i++) {
        if (add_state(dict, o->context, &state.items[i]) < 0)
            Py_CLEAR(dict);
    }
    bell_state_fini(&state);
    return dict;
}

/* Sets one item of the state to what a dict has. */
static int
load_state(PyObject *dict, struct py_context *c,
           const struct bell_state_item *item)
{
    PyObject *value = PyDict_GetItemString(dict, item->name);

    if (!value) {
        PyErr_Format(PyExc_KeyError, "%s", item->name);
        return -1;
    }
    if (item->number) {
        *item->number = PyFloat_AsDouble(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (!py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "%s: a tensor is expected", item->name);
        return -1;
    }
    if (bell_assign(item->tensor, py_tensor_of(value)->handle) !=
        item->tensor) {
        py_raise(c);
        return -1;
    }
    return 0;
}

static PyObject *
load_state_dict(PyObject *self, PyObject *dict)
{
    struct py_optimizer *o = (struct py_optimizer *)self;
    struct bell_state state = {0};
    int done = 0;
    uint32_t i;

    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "load_state_dict: a dict is expected");
        return NULL;
    }
    if (py_enter(o->context) < 0 ||
        py_check(bell_optimizer_state(o->opt, NULL, NULL, &state)) < 0)
        return NULL;
    for (i = 0; done == 0 && i < state.n; i++)
        done = load_state(dict, o->context, &state.items[i]);
    bell_state_fini(&state);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

#define CALL(fn) (PyCFunction)(void (*)(void)) fn
static PyMethodDef optimizer_methods[] = {
    {"step", step, METH_VARARGS,
     "step($self, *also)\n--\n\nMoves the parameters by their gradients and "
     "computes `also`, such as the loss,\nin the same run. Does not wait."},
    {"zero_grad", zero_grad, METH_NOARGS,
     "zero_grad($self)\n--\n\nForgets the gradients."},
    {"scale", scale_loss, METH_O,
     "scale($self, loss, /)\n--\n\nThe loss times the scale of set_scaler."},
    {"set_scaler", set_scaler, METH_NOARGS,
     "set_scaler($self)\n--\n\nLoss scaling, for float16 parameters."},
    {"set_clip", CALL(set_clip), METH_VARARGS | METH_KEYWORDS,
     "set_clip($self, max_norm=0, max_value=0)\n--\n\nLimits of each step's "
     "gradients; 0: none."},
    {"set_schedule", CALL(set_schedule), METH_VARARGS | METH_KEYWORDS,
     "set_schedule($self, kind, n_steps=0, gamma=0, low=0, up=0, div=0, "
     "final_div=0, n_warmup=0, warmup_from=0)\n--\n\nA factor of the rates: "
     "'constant', 'step', 'cosine' or 'one_cycle' (optim.h)."},
    {"add_group", CALL(add_group), METH_VARARGS | METH_KEYWORDS,
     "add_group($self, params, lr, weight_decay=0)\n--\n\nMore parameters, "
     "with a rate of their own."},
    {"state_dict", state_dict, METH_NOARGS,
     "state_dict($self)\n--\n\nWhat its next steps depend on, by name."},
    {"load_state_dict", load_state_dict, METH_O,
     "load_state_dict($self, state, /)\n--\n\nGoes on from such a state."},
    {0},
};
static PyGetSetDef optimizer_getset[] = {
    {"lr", get_lr, set_lr, "The rate of the first group.", NULL},
    {"params", get_params, NULL, "The parameters.", NULL},
    {0},
};
static PyType_Slot optimizer_slots[] = {
    {Py_tp_doc, "_Optimizer(kind, params, **options)\n--\n\n"},
    {Py_tp_new, (void *)new_optimizer},
    {Py_tp_dealloc, (void *)dealloc_optimizer},
    {Py_tp_methods, optimizer_methods},
    {Py_tp_getset, optimizer_getset},
    {0, NULL},
};
static PyType_Spec optimizer_spec = {
    .name = "doorbell._c._Optimizer",
    .basicsize = sizeof(struct py_optimizer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = optimizer_slots,
};

static PyMethodDef functions[] = {
    {"grad", CALL(gradient), METH_VARARGS | METH_KEYWORDS,
     "grad(output, inputs, vector=None)\n--\n\nThe gradients of `output` (one "
     "element, or with `vector` of its shape the\nproduct of the two) for a "
     "tensor or a list of them: a tuple. They are graphs and\ncan be "
     "differentiated again.\n\n"
     ">>> x = doorbell.tensor([1., 2.])\n"
     ">>> doorbell.grad((x * x).sum(), x)[0].tolist()\n[2.0, 4.0]"},
    {0},
};

int
py_train_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&optimizer_spec);
    int done = type ? PyModule_AddObjectRef(module, "_Optimizer", type) : -1;

    Py_XDECREF(type);
    return done < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
