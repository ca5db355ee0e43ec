/* Sizes that change from run to run: symbols and what is computed of them. */
#include "python/py.h"

/* An expression of symbols of a context. Plain numbers are ints in Python. */
struct py_size {
    PyObject_HEAD struct py_context *context; /* a reference */
    struct bell_dim dim;
};

static struct py_size *
size_at(PyObject *object)
{
    return (struct py_size *)object;
}

bool
py_is_size(PyObject *object)
{
    return Py_TYPE(object) == py.size;
}

struct py_context *
py_size_context(PyObject *object)
{
    return size_at(object)->context;
}

/* Numbers are below 2^40 and at least -2^40; other words are expressions. */
static bool
is_number(int64_t word)
{
    return word < (int64_t)1 << 40 && word >= -((int64_t)1 << 40);
}

PyObject *
py_size_object(struct py_context *c, int64_t word)
{
    struct py_size *made;

    if (is_number(word))
        return PyLong_FromLongLong(word);
    made = PyObject_New(struct py_size, py.size);
    if (!made)
        return NULL;
    made->context = (struct py_context *)Py_NewRef((PyObject *)c);
    made->dim.word = word;
    return (PyObject *)made;
}

int
py_size_word(struct py_context *c, PyObject *object, int64_t *out)
{
    if (size_at(object)->context != c) {
        PyErr_SetString(py.classes[BELL_REASON_VALUE],
                        "a Size belongs to another context than the tensor");
        return -1;
    }
    *out = size_at(object)->dim.word;
    return py_enter(c);
}

struct bell_tensor *
py_size_value(struct py_context *c, PyObject *object, enum bell_dtype dtype)
{
    struct bell_dim dim;

    return py_size_word(c, object, &dim.word) < 0
               ? NULL
               : bell_dim_value(c->ctx, dim, dtype);
}

static void
dealloc_size(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_DECREF((PyObject *)size_at(self)->context);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- arithmetic ---- */

typedef struct bell_dim dim_fn(struct bell_context *, struct bell_dim,
                               struct bell_dim);

/* An int or a Size; 1: neither. */
static int
take_dim(struct py_context *c, PyObject *object, struct bell_dim *out)
{
    int overflow;

    if (py_is_size(object))
        return py_size_word(c, object, &out->word);
    if (!PyLong_Check(object) || PyBool_Check(object))
        return 1;
    out->word = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow && is_number(out->word))
        return 0;
    PyErr_Format(PyExc_OverflowError, "%R is too large for a size", object);
    return -1;
}

static PyObject *
combine_sizes(PyObject *a, PyObject *b, dim_fn *fn)
{
    struct py_context *c = size_at(py_is_size(a) ? a : b)->context;
    struct bell_dim x, y, made;
    int64_t min, max;
    int done;

    if (py_enter(c) < 0)
        return NULL;
    done = take_dim(c, a, &x);
    done = done ? done : take_dim(c, b, &y);
    if (done < 0)
        return NULL;
    if (done)
        Py_RETURN_NOTIMPLEMENTED;
    made = fn(c->ctx, x, y);
    if (bell_dim_bounds(c->ctx, made, &min, &max) != BELL_OK)
        return py_raise(c);
    return py_size_object(c, made.word);
}

#define COMBINE(name, fn)                                                      \
    static PyObject *name(PyObject *a, PyObject *b)                            \
    {                                                                          \
        return combine_sizes(a, b, fn);                                        \
    }
COMBINE(add, bell_dim_add)
COMBINE(sub, bell_dim_sub)
COMBINE(mul, bell_dim_mul)
COMBINE(floordiv, bell_dim_floordiv)
COMBINE(mod, bell_dim_mod)

static PyObject *
min_of(PyObject *self, PyObject *other)
{
    return combine_sizes(self, other, bell_dim_min);
}

static PyObject *
max_of(PyObject *self, PyObject *other)
{
    return combine_sizes(self, other, bell_dim_max);
}

/* a <= b, or a < b; 1: it depends on the values, with the record of that */
static int
at_most(struct py_context *c, struct bell_dim a, struct bell_dim b,
        bool is_less, bool *out_answer)
{
    if (is_less)
        a = bell_dim_add(c->ctx, a, bell_dim_of(1));
    return bell_dim_at_most(c->ctx, a, b, out_answer) == BELL_OK ? 0 : 1;
}

/* Sizes that are not equal for all values are not equal; what an order depends
 * on is an error. */
static PyObject *
compare_sizes(PyObject *a, PyObject *b, int how)
{
    struct py_context *c = size_at(a)->context;
    bool answer = false, swap = how == Py_GT || how == Py_GE;
    struct bell_dim x, y;
    int done;

    if (py_is_size(b) && size_at(b)->context != c &&
        (how == Py_EQ || how == Py_NE))
        return PyBool_FromLong(how == Py_NE);
    if (py_enter(c) < 0)
        return NULL;
    done = take_dim(c, a, &x);
    done = done ? done : take_dim(c, b, &y);
    if (done < 0)
        return NULL;
    if (done)
        Py_RETURN_NOTIMPLEMENTED;
    if (how == Py_EQ || how == Py_NE) {
        if (bell_dim_equal(c->ctx, x, y, &answer) != BELL_OK) {
            bell_error_clear();
            answer = false;
        }
        return PyBool_FromLong(answer == (how == Py_EQ));
    }
    if (at_most(c, swap ? y : x, swap ? x : y, how == Py_LT || how == Py_GT,
                &answer))
        return py_raise_last();
    return PyBool_FromLong(answer);
}

static Py_hash_t
hash_size(PyObject *self)
{
    Py_hash_t at = (Py_hash_t)size_at(self)->dim.word;

    return at == -1 ? -2 : at;
}

static PyObject *
size_as_int(PyObject *self)
{
    struct py_size *s = size_at(self);
    int64_t now;

    if (py_enter(s->context) < 0 ||
        py_check(bell_dim_now(s->context->ctx, s->dim, &now)) < 0)
        return NULL;
    return PyLong_FromLongLong(now);
}

static PyObject *
repr_size(PyObject *self)
{
    struct py_size *s = size_at(self);
    char text[256];

    if (!s->context->ctx)
        return PyUnicode_FromString("<doorbell.Size, closed>");
    if (py_enter(s->context) < 0 ||
        py_check(bell_dim_text(s->context->ctx, s->dim, text, sizeof(text))) <
            0)
        return NULL;
    return PyUnicode_FromString(text);
}

/* ---- facts and methods ---- */

static PyObject *
set_symbol(PyObject *self, PyObject *value)
{
    struct py_size *s = size_at(self);
    long long number = PyLong_AsLongLong(value);

    if (PyErr_Occurred() || py_enter(s->context) < 0 ||
        py_check(bell_symbol_set(s->context->ctx, s->dim, number)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
get_is_symbol(PyObject *self, void *unused)
{
    struct py_size *s = size_at(self);
    int64_t now;
    bool found;

    (void)unused;
    if (py_enter(s->context) < 0 ||
        py_check(bell_dim_now(s->context->ctx, s->dim, &now)) < 0)
        return NULL;
    found = bell_symbol_set(s->context->ctx, s->dim, now) == BELL_OK;
    if (!found)
        bell_error_clear();
    return PyBool_FromLong(found);
}

static PyObject *
get_bounds(PyObject *self, void *unused)
{
    struct py_size *s = size_at(self);
    int64_t min, max;

    (void)unused;
    if (py_enter(s->context) < 0 ||
        py_check(bell_dim_bounds(s->context->ctx, s->dim, &min, &max)) < 0)
        return NULL;
    return Py_BuildValue("(LL)", (long long)min, (long long)max);
}

/* value(dtype=None) */
static PyObject *
size_value(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"dtype", NULL};
    struct py_context *c = size_at(self)->context;
    PyObject *dtype_of = Py_None;
    enum bell_dtype dtype;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O:value", names, &dtype_of))
        return NULL;
    dtype = py_dtype_of(dtype_of);
    if (dtype == BELL_DTYPE_COUNT || py_enter(c) < 0)
        return NULL;
    return py_result(c, bell_dim_value(c->ctx, size_at(self)->dim, dtype), NULL,
                     NULL);
}

/* range(begin=0, dtype=None): begin, .. self - 1 */
static PyObject *
size_range(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"begin", "dtype", NULL};
    struct py_context *c = size_at(self)->context;
    PyObject *dtype_of = Py_None, *begin_of = NULL;
    struct bell_dim begin = {0};
    enum bell_dtype dtype;
    int done = 0;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|OO:range", names, &begin_of,
                                     &dtype_of))
        return NULL;
    dtype = py_dtype_of(dtype_of);
    if (dtype == BELL_DTYPE_COUNT || py_enter(c) < 0)
        return NULL;
    if (begin_of)
        done = take_dim(c, begin_of, &begin);
    if (done > 0)
        PyErr_SetString(PyExc_TypeError, "range: a size is expected");
    if (done)
        return NULL;
    return py_result(c,
                     bell_arange_dims(c->ctx, begin, size_at(self)->dim, dtype),
                     NULL, NULL);
}

/* symbol(name, min, max) */
static PyObject *
symbol(PyObject *module, PyObject *args, PyObject *named)
{
    static char *names[] = {"name", "min", "max", NULL};
    struct py_context *c = py_current();
    const char *name;
    long long min, max;
    struct bell_dim made;
    int64_t bounds[2];

    (void)module;
    if (!c ||
        !PyArg_ParseTupleAndKeywords(args, named, "sLL:symbol", names, &name,
                                     &min, &max) ||
        py_enter(c) < 0)
        return NULL;
    made = bell_symbol(c->ctx, name, min, max);
    if (bell_dim_bounds(c->ctx, made, &bounds[0], &bounds[1]) != BELL_OK)
        return py_raise(c);
    return py_size_object(c, made.word);
}

/* _sized(tensor, sizes): the tensor's values under sizes that have those of its
 * shape by now */
static PyObject *
sized(PyObject *module, PyObject *args)
{
    PyObject *tensor, *sizes_of, *made = NULL;
    int64_t sizes[BELL_MAX_RANK];
    struct py_tensor *t;
    uint64_t n_bytes;
    uint32_t n;
    void *data;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O:_sized", (PyObject *)py.tensor, &tensor,
                          &sizes_of))
        return NULL;
    t = py_tensor_of(tensor);
    if (py_sizes(t->context, sizes_of, sizes, &n) < 0)
        return NULL;
    n_bytes = bell_nbytes(t->handle);
    data = PyMem_Malloc(n_bytes ? n_bytes : 1);
    if (!data)
        return PyErr_NoMemory();
    if (py_read(t, data, n_bytes) == 0)
        made = py_result(t->context,
                         bell_from_data(t->context->ctx, sizes, n,
                                        bell_dtype_of(t->handle), data),
                         NULL, NULL);
    PyMem_Free(data);
    return made;
}

/* ---- the type ---- */

#define METHOD(fn) (PyCFunction)(void (*)(void)) fn
static PyMethodDef size_methods[] = {
    {"set", set_symbol, METH_O,
     "set($self, value, /)\n--\n\nGives a symbol its value, for what is "
     "computed from now on."},
    {"min", min_of, METH_O,
     "min($self, other, /)\n--\n\nThe smaller of two sizes."},
    {"max", max_of, METH_O,
     "max($self, other, /)\n--\n\nThe greater of two sizes."},
    {"value", METHOD(size_value), METH_VARARGS | METH_KEYWORDS,
     "value($self, dtype=None)\n--\n\nThe size as a tensor without axes."},
    {"range", METHOD(size_range), METH_VARARGS | METH_KEYWORDS,
     "range($self, begin=0, dtype=None)\n--\n\nThe tensor begin, begin + 1, "
     ".. up to the size, without it."},
    {0},
};
static PyGetSetDef size_getset[] = {
    {"bounds", get_bounds, NULL, "Least and greatest value.", NULL},
    {"is_symbol", get_is_symbol, NULL,
     "Whether it is a symbol, not computed of some.", NULL},
    {0},
};
static PyType_Slot size_slots[] = {
    {Py_tp_doc,
     "A size that changes from run to run: a symbol, or what + - * // % make "
     "of\nsymbols and numbers. It stands where a size, an offset or the end "
     "of a slice\ndoes. int() is its value by now."},
    {Py_tp_dealloc, (void *)dealloc_size},
    {Py_tp_repr, (void *)repr_size},
    {Py_tp_hash, (void *)hash_size},
    {Py_tp_richcompare, (void *)compare_sizes},
    {Py_tp_methods, size_methods},
    {Py_tp_getset, size_getset},
    {Py_nb_add, (void *)add},
    {Py_nb_subtract, (void *)sub},
    {Py_nb_multiply, (void *)mul},
    {Py_nb_floor_divide, (void *)floordiv},
    {Py_nb_remainder, (void *)mod},
    {Py_nb_int, (void *)size_as_int},
    {0, NULL},
};
static PyType_Spec size_spec = {
    .name = "doorbell.Size",
    .basicsize = sizeof(struct py_size),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = size_slots,
};
static PyMethodDef size_functions[] = {
    {"symbol", METHOD(symbol), METH_VARARGS | METH_KEYWORDS,
     "symbol(name, min, max)\n--\n\nA size of the current context that "
     "changes from run to run, between bounds.\nIts value is `min` at "
     "first.\n\n"
     ">>> n = doorbell.symbol('n', 1, 8)\n"
     ">>> x = doorbell.arange(8)[:n]\n"
     ">>> x.shape, (x + 1).shape[0] + 2\n"
     "((n,), n + 2)\n"
     ">>> n.set(3)\n"
     ">>> x.sum().item()\n3"},
    {"_sized", sized, METH_VARARGS, NULL},
    {0},
};

int
py_size_init(PyObject *module)
{
    py.size = (PyTypeObject *)PyType_FromSpec(&size_spec);
    if (!py.size ||
        PyModule_AddObjectRef(module, "Size", (PyObject *)py.size) < 0)
        return -1;
    return PyModule_AddFunctions(module, size_functions);
}
