/* The function table as Python's functions and methods.
 *
 * Each row has two entries in C, one for the module and one for Tensor: their
 * only difference is the number of the row. Names, parameters and texts come
 * from the table when the module is imported, so that it is always that of the
 * library. Rows whose arguments are plain go straight to the function behind
 * (direct.def); the others, and unusual arguments, by bell_function_call.
 */
#include "python/py.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/linalg.h"
#include "doorbell/nn.h"

#define MAX_ROWS 512
#define MAX_ARGS 64
#define N_VALUES 96

/* How a C function is called: its arguments' letters (functions.h). */
enum direct_kind {
    DIRECT_NONE,
    DIRECT_T,
    DIRECT_TT,
    DIRECT_TA
};
union direct_fn {
    struct bell_tensor *(*t)(struct bell_tensor *);
    struct bell_tensor *(*tt)(struct bell_tensor *, struct bell_tensor *);
    struct bell_tensor *(*ta)(struct bell_tensor *, int);
};
static const struct direct {
    const char *name;
    enum direct_kind kind;
    union direct_fn fn;
} directs[] = {
#define T(name, function)  {#name, DIRECT_T, {.t = function}},
#define TT(name, function) {#name, DIRECT_TT, {.tt = function}},
#define TA(name, function) {#name, DIRECT_TA, {.ta = function}},
#include "python/direct.def"
#undef T
#undef TT
#undef TA
};

/* A row of the table as it is called. */
struct row {
    const struct bell_function *function;
    const struct direct *direct; /* or NULL */
    int64_t axis;                /* default of the second parameter */
    bool has_axis;
    bool takes_dtype_second; /* to, bitcast */
    bool waits;              /* counts on the host: others run meanwhile */
    PyTypeObject *results;   /* a named tuple, or NULL */
};
static struct row rows[MAX_ROWS];

/* Rows that compute to know the size of their result (select.h, "On the
 * host"). */
static const char *const waiting[] = {
    "masked_select",     "nonzero",     "unique", "unique_consecutive",
    "repeat_interleave", "bincount",    "nms",    "histc",
    "multinomial",       "matrix_rank", "pinv",   "index_put",
};

/* Results that have names in PyTorch. */
static const struct named_results {
    const char *names, *fields[4];
} named_results[] = {
    {" max min sort topk cummax cummin median nanmedian mode kthvalue ",
     {"values", "indices"}},
    {" qr ", {"Q", "R"}},
    {" svd ", {"U", "S", "Vh"}},
    {" eigh ", {"eigenvalues", "eigenvectors"}},
    {" slogdet ", {"sign", "logabsdet"}},
    {" aminmax ", {"min", "max"}},
};

/* ---- arguments ---- */

/* One call's arguments, made of Python's. */
struct call_args {
    struct py_context *context;
    struct bell_arg args[MAX_ARGS];
    uint32_t n_args;
    struct bell_value values[N_VALUES]; /* of short lists */
    uint32_t n_values;
    struct bell_value *lists[MAX_ARGS]; /* of long ones; owned */
    uint32_t n_lists;
    PyObject *made[MAX_ARGS]; /* tensors of arrays; owned */
    uint32_t n_made;
    const char *name; /* of the function */
    bool has_size;    /* the last argument is a Size, or has one in it */
    bool has_big;     /* the last argument is an int beyond int64 */
    bool any_big;     /* one of the arguments is that */
};

static void
end_args(struct call_args *a)
{
    while (a->n_lists)
        free(a->lists[--a->n_lists]);
    while (a->n_made)
        Py_DECREF(a->made[--a->n_made]);
}

static struct bell_value *
take_values(struct call_args *a, size_t n)
{
    struct bell_value *list;

    if (n <= N_VALUES - a->n_values) {
        a->n_values += (uint32_t)n;
        return &a->values[a->n_values - n];
    }
    list = a->n_lists < MAX_ARGS ? malloc(n * sizeof(*list)) : NULL;
    if (list)
        a->lists[a->n_lists++] = list;
    else
        PyErr_NoMemory();
    return list;
}

static int convert(struct call_args *a, PyObject *object,
                   struct bell_value *out, int depth);

static int
convert_list(struct call_args *a, PyObject *list, struct bell_value *out,
             int depth)
{
    bool is_tuple = PyTuple_Check(list);
    Py_ssize_t n = is_tuple ? PyTuple_Size(list) : PyList_Size(list), i;
    struct bell_value *items = take_values(a, (size_t)n + 1);

    if (!items)
        return -1;
    if (depth == BELL_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "%s: lists are nested too deep",
                     a->name);
        return -1;
    }
    for (i = 0; i < n; i++) {
        PyObject *item =
            is_tuple ? PyTuple_GetItem(list, i) : PyList_GetItem(list, i);
        if (convert(a, item, &items[i], depth + 1) < 0)
            return -1;
    }
    *out = bell_of_list(items, (uint32_t)n);
    return 0;
}

static int
convert_int(struct call_args *a, PyObject *object, struct bell_value *out)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);

    *out =
        overflow ? bell_of_float(PyLong_AsDouble(object)) : bell_of_int(value);
    a->has_big |= overflow != 0;
    return PyErr_Occurred() ? -1 : 0;
}

/* Numbers and arrays of other libraries. */
static int
convert_other(struct call_args *a, PyObject *object, struct bell_value *out)
{
    PyObject *made;
    int done;

    if (py_is_dtype(object)) {
        enum bell_dtype dtype = py_dtype_of(object);

        *out = bell_of_dtype(dtype);
        return dtype == BELL_DTYPE_COUNT ? -1 : 0;
    }
    if (PyIndex_Check(object)) {
        made = PyNumber_Index(object);
        if (made) {
            done = convert_int(a, made, out);
            Py_DECREF(made);
            return done;
        }
        PyErr_Clear(); /* an array has the slot, too */
    }
    made = a->n_made < MAX_ARGS
               ? py_tensor_from_buffer(a->context, object, BELL_DEFAULT)
               : NULL;
    if (made) {
        a->made[a->n_made++] = made;
        *out = bell_of_tensor(py_tensor_of(made)->handle);
        return 0;
    }
    if (PyErr_Occurred())
        return -1;
    if (PyObject_HasAttrString(object, "type") &&
        PyObject_HasAttrString(object, "itemsize")) { /* NumPy's dtype */
        enum bell_dtype dtype = py_dtype_of(object);

        *out = bell_of_dtype(dtype);
        return dtype == BELL_DTYPE_COUNT ? -1 : 0;
    }
    PyErr_Format(PyExc_TypeError, "%s: an argument is of %R", a->name,
                 (PyObject *)Py_TYPE(object));
    return -1;
}

static int
convert(struct call_args *a, PyObject *object, struct bell_value *out,
        int depth)
{
    if (py_is_tensor(object)) {
        *out = bell_of_tensor(py_tensor_of(object)->handle);
    } else if (object == Py_None) {
        *out = bell_of_none();
    } else if (PyBool_Check(object)) {
        *out = bell_of_bool(object == Py_True);
    } else if (PyLong_Check(object)) {
        return convert_int(a, object, out);
    } else if (PyFloat_Check(object)) {
        *out = bell_of_float(PyFloat_AsDouble(object));
    } else if (PyUnicode_Check(object)) {
        const char *text = PyUnicode_AsUTF8AndSize(object, NULL);

        if (!text)
            return -1;
        *out = bell_of_str(text);
    } else if (PyList_Check(object) || PyTuple_Check(object)) {
        return convert_list(a, object, out, depth);
    } else if (py_is_size(object)) {
        int64_t word;

        if (py_size_word(a->context, object, &word) < 0)
            return -1;
        a->has_size = true;
        *out = bell_of_int(word);
    } else {
        return convert_other(a, object, out);
    }
    return 0;
}

/* A text where a dtype is wanted. */
static int
settle_dtype(const struct row *row, struct call_args *a, uint32_t i)
{
    struct bell_arg *arg = &a->args[i];
    bool wanted = arg->name ? strcmp(arg->name, "dtype") == 0
                            : row->takes_dtype_second && i == 1;
    enum bell_dtype dtype;

    if (!wanted || arg->value.kind != BELL_VALUE_STR)
        return 0;
    dtype = bell_dtype_find(arg->value.str);
    if (dtype == BELL_DEFAULT) {
        PyErr_Format(py.classes[BELL_REASON_DTYPE], "%s: '%s' is not a dtype",
                     a->name, arg->value.str);
        return -1;
    }
    arg->value = bell_of_dtype(dtype);
    return 0;
}

static enum bell_param_kind
kind_of_arg(const struct row *row, const char *name, uint32_t i)
{
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n = bell_function_params(row->function, params), k;

    if (!name)
        return i < n ? params[i].kind : BELL_PARAM_INT;
    for (k = 0; k < n; k++) {
        if (strcmp(params[k].name, name) == 0)
            return params[k].kind;
    }
    return BELL_PARAM_INT; /* another name of an axis, or one that is not there */
}

/* An argument with a Size in it: its word goes where sizes do, its value where
 * a tensor is wanted. */
static int
settle_size(struct call_args *a, const struct row *row, PyObject *object)
{
    struct bell_arg *arg = &a->args[a->n_args];
    enum bell_param_kind kind = kind_of_arg(row, arg->name, a->n_args);
    PyObject *made;

    switch (kind) {
    case BELL_PARAM_INT:
    case BELL_PARAM_INTS:
    case BELL_PARAM_INTS_SPREAD:
    case BELL_PARAM_INTS_OR_STR:
        return 0;
    case BELL_PARAM_TENSOR:
        if (!py_is_size(object) || a->n_made == MAX_ARGS)
            break;
        made = py_result(a->context,
                         py_size_value(a->context, object, BELL_DEFAULT), NULL,
                         NULL);
        if (!made)
            return -1;
        a->made[a->n_made++] = made;
        arg->value = bell_of_tensor(py_tensor_of(made)->handle);
        return 0;
    case BELL_PARAM_TENSORS:
    case BELL_PARAM_TENSORS_SPREAD:
    case BELL_PARAM_FLOAT:
    case BELL_PARAM_NUMBER:
    case BELL_PARAM_BOOL:
    case BELL_PARAM_STR:
    case BELL_PARAM_DTYPE:
    case BELL_PARAM_DATA:
    case BELL_PARAM_FLOATS:
        break;
    }
    PyErr_Format(PyExc_TypeError,
                 "%s: a Size is not a number: its value() is a tensor, its "
                 "range() a tensor of numbers up to it",
                 a->name);
    return -1;
}

/* An int beyond int64 where a tensor is wanted: beside the tensor before it,
 * but for conditions. */
static int
settle_big(struct call_args *a, const struct row *row, PyObject *object)
{
    struct bell_arg *arg = &a->args[a->n_args];
    enum bell_dtype beside = BELL_FLOAT64;
    struct bell_tensor *handle;
    PyObject *made;
    uint32_t i;

    for (i = 0; i < a->n_args; i++) {
        if (a->args[i].value.kind == BELL_VALUE_TENSOR &&
            bell_dtype_of(a->args[i].value.tensor) != BELL_BOOL)
            beside = bell_dtype_of(a->args[i].value.tensor);
    }
    if (!PyLong_Check(object) || beside > BELL_UINT64 ||
        kind_of_arg(row, arg->name, a->n_args) != BELL_PARAM_TENSOR ||
        a->n_made == MAX_ARGS)
        return 0;
    handle = py_big_int(a->context, object, beside);
    made = handle ? py_result(a->context, handle, NULL, NULL) : NULL;
    if (!made)
        return -1;
    a->made[a->n_made++] = made;
    arg->value = bell_of_tensor(py_tensor_of(made)->handle);
    return 0;
}

/* Numbers for a tensor of uint64, of the dtype that is given or, without one,
 * of the first tensor: ints beyond int64 by their bits, which are not rounded.
 */
static int
settle_unsigned(struct call_args *a, PyObject *const *args, uint32_t first)
{
    enum bell_dtype dtype = BELL_DEFAULT;
    uint32_t i;

    for (i = 0; i < a->n_args; i++) {
        if (a->args[i].value.kind == BELL_VALUE_DTYPE)
            dtype = a->args[i].value.dtype;
    }
    if (dtype == BELL_DEFAULT && a->n_args &&
        a->args[0].value.kind == BELL_VALUE_TENSOR)
        dtype = bell_dtype_of(a->args[0].value.tensor);
    for (i = first; dtype == BELL_UINT64 && i < a->n_args; i++) {
        PyObject *object = args[i - first];

        if (a->args[i].value.kind != BELL_VALUE_FLOAT || !PyLong_Check(object))
            continue;
        a->args[i].value =
            bell_of_int((int64_t)PyLong_AsUnsignedLongLong(object));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* The context of the first Tensor, also one in a list; NULL: none. */
static struct py_context *
context_among(PyObject *const *args, Py_ssize_t n)
{
    Py_ssize_t i;

    for (i = 0; i < n; i++) {
        PyObject *first = args[i];

        if (PyList_Check(first) && PyList_Size(first) > 0)
            first = PyList_GetItem(first, 0);
        else if (PyTuple_Check(first) && PyTuple_Size(first) > 0)
            first = PyTuple_GetItem(first, 0);
        if (py_is_tensor(first))
            return py_tensor_of(first)->context;
        if (py_is_size(first))
            return py_size_context(first);
    }
    return NULL;
}

static int
add_arg(struct call_args *a, const struct row *row, const char *name,
        PyObject *object)
{
    if (a->n_args == MAX_ARGS) {
        PyErr_Format(PyExc_TypeError, "%s: more than %d arguments", a->name,
                     MAX_ARGS);
        return -1;
    }
    a->args[a->n_args].name = name;
    a->has_size = a->has_big = false;
    if (convert(a, object, &a->args[a->n_args].value, 0) < 0 ||
        (a->has_size && settle_size(a, row, object) < 0) ||
        (a->has_big && settle_big(a, row, object) < 0))
        return -1;
    a->any_big |= a->has_big;
    return settle_dtype(row, a, a->n_args++);
}

static int
collect_args(struct call_args *a, const struct row *row, PyObject *self,
             PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t n_named = names ? PyTuple_Size(names) : 0, i;

    a->n_args = a->n_values = a->n_lists = a->n_made = 0;
    a->any_big = false;
    a->name = row->function->name;
    a->context =
        self ? py_tensor_of(self)->context : context_among(args, n + n_named);
    if (!a->context)
        a->context = py_current();
    if (!a->context || py_enter(a->context) < 0 ||
        (self && add_arg(a, row, NULL, self) < 0))
        return -1;
    for (i = 0; i < n; i++) {
        if (add_arg(a, row, NULL, args[i]) < 0)
            return -1;
    }
    for (i = 0; i < n_named; i++) {
        const char *name =
            PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
        if (!name || add_arg(a, row, name, args[n + i]) < 0)
            return -1;
    }
    return a->any_big ? settle_unsigned(a, args, self ? 1 : 0) : 0;
}

/* ---- calls ---- */

static PyObject *
wrap_results(const struct row *row, struct py_context *c,
             const struct bell_call *call)
{
    PyObject *made;
    uint32_t i;

    if (call->n_results == 1 && !row->function->returns_list)
        return py_result(c, call->results[0], NULL, NULL);
    made = row->results && call->n_results > 1
               ? PyStructSequence_New(row->results)
               : PyTuple_New((Py_ssize_t)call->n_results);
    for (i = 0; i < call->n_results; i++) {
        PyObject *item =
            made ? py_result(c, call->results[i], NULL, NULL) : NULL;

        if (!item)
            Py_CLEAR(made);
        else if (row->results && call->n_results > 1)
            PyStructSequence_SetItem(made, (Py_ssize_t)i, item);
        else
            PyTuple_SetItem(made, (Py_ssize_t)i, item);
    }
    return made;
}

static PyObject *
call_by_name(const struct row *row, PyObject *self, PyObject *const *args,
             Py_ssize_t n, PyObject *names)
{
    struct call_args a;
    struct bell_call call;
    PyObject *made = NULL;
    bell_status status;

    if (collect_args(&a, row, self, args, n, names) == 0) {
        call.function = row->function;
        call.args = a.args;
        call.n_args = a.n_args;
        if (row->waits) {
            struct py_blocked blocked = py_block(a.context);
            status = bell_function_call(a.context->ctx, &call);
            py_unblock(&blocked);
        } else {
            status = bell_function_call(a.context->ctx, &call);
        }
        made = status == BELL_OK ? wrap_results(row, a.context, &call)
                                 : py_raise_last();
    }
    end_args(&a);
    return made;
}

/* By position, nothing but tensors of one context, and an axis. */
static PyObject *
call_row(size_t number, PyObject *self, PyObject *const *args, Py_ssize_t n,
         PyObject *names)
{
    const struct row *row = &rows[number];
    PyObject *first = self ? self : n ? args[0] : NULL;
    Py_ssize_t n_more = self ? n : n - 1;
    PyObject *second = n_more == 1 ? args[n - 1] : NULL;
    struct py_tensor *x = py_tensor_of(first), *y;
    long axis;

    if (!row->direct || names || !first || Py_TYPE(first) != py.tensor ||
        n_more > 1)
        return call_by_name(row, self, args, n, names);
    switch (row->direct->kind) {
    case DIRECT_T:
        if (second || py_enter(x->context) < 0)
            break;
        return py_result(x->context, row->direct->fn.t(x->handle), x->handle,
                         NULL);
    case DIRECT_TT:
        y = py_tensor_of(second);
        if (!second || Py_TYPE(second) != py.tensor ||
            x->context != y->context || py_enter(x->context) < 0)
            break;
        return py_result(x->context, row->direct->fn.tt(x->handle, y->handle),
                         x->handle, y->handle);
    case DIRECT_TA:
        axis = (long)row->axis;
        if (second && PyLong_Check(second) && !PyBool_Check(second))
            axis = PyLong_AsLong(second);
        else if (second || !row->has_axis)
            break;
        if (axis != (int)axis || py_enter(x->context) < 0)
            break;
        return py_result(x->context, row->direct->fn.ta(x->handle, (int)axis),
                         x->handle, NULL);
    case DIRECT_NONE:
        break;
    }
    if (PyErr_Occurred())
        PyErr_Clear();
    return call_by_name(row, self, args, n, names);
}

/* Two entries for each row. */
/* clang-format off */
#define ENTRY(a, b, c)                                                         \
    static PyObject *function_##a##b##c(PyObject *module,                      \
                                        PyObject *const *args, Py_ssize_t n,   \
                                        PyObject *names)                       \
    {                                                                          \
        (void)module;                                                          \
        return call_row(0x##a##b##c, NULL, args, n, names);                    \
    }                                                                          \
    static PyObject *method_##a##b##c(PyObject *self, PyObject *const *args,   \
                                      Py_ssize_t n, PyObject *names)           \
    {                                                                          \
        return call_row(0x##a##b##c, self, args, n, names);                    \
    }
#define FUNCTION(a, b, c) (PyCFunction)(void (*)(void)) function_##a##b##c,
#define METHOD(a, b, c)   (PyCFunction)(void (*)(void)) method_##a##b##c,
#define SIXTEEN(M, a, b)                                                       \
    M(a, b, 0)                                                                 \
    M(a, b, 1)                                                                 \
    M(a, b, 2)                                                                 \
    M(a, b, 3)                                                                 \
    M(a, b, 4)                                                                 \
    M(a, b, 5) M(a, b, 6) M(a, b, 7) M(a, b, 8) M(a, b, 9) M(a, b, A)          \
        M(a, b, B) M(a, b, C) M(a, b, D) M(a, b, E) M(a, b, F)
#define HUNDREDS(M, a)                                                         \
    SIXTEEN(M, a, 0)                                                           \
    SIXTEEN(M, a, 1)                                                           \
    SIXTEEN(M, a, 2)                                                           \
    SIXTEEN(M, a, 3)                                                           \
    SIXTEEN(M, a, 4)                                                           \
    SIXTEEN(M, a, 5) SIXTEEN(M, a, 6) SIXTEEN(M, a, 7) SIXTEEN(M, a, 8)        \
        SIXTEEN(M, a, 9) SIXTEEN(M, a, A) SIXTEEN(M, a, B) SIXTEEN(M, a, C)    \
            SIXTEEN(M, a, D) SIXTEEN(M, a, E) SIXTEEN(M, a, F)
HUNDREDS(ENTRY, 0)
HUNDREDS(ENTRY, 1)
static const PyCFunction function_entries[MAX_ROWS] = {
    HUNDREDS(FUNCTION, 0) HUNDREDS(FUNCTION, 1)};
static const PyCFunction method_entries[MAX_ROWS] = {HUNDREDS(METHOD, 0)
                                                         HUNDREDS(METHOD, 1)};

/* clang-format on */

/* ---- texts ---- */

/* Texts and names of all rows, kept as long as the process. */
struct texts {
    char *begin;
    size_t n, cap;
    bool failed;
};

static void add_text(struct texts *texts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void
add_text(struct texts *texts, const char *format, ...)
{
    size_t room = texts->cap - texts->n;
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(texts->begin + texts->n, room, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= room)
        texts->failed = true;
    else
        texts->n += (size_t)n;
}

static void
add_default(struct texts *texts, const struct bell_value *value)
{
    switch (value->kind) {
    case BELL_VALUE_BOOL:
        add_text(texts, "=%s", value->b ? "True" : "False");
        break;
    case BELL_VALUE_INT:
        add_text(texts, "=%lld", (long long)value->i);
        break;
    case BELL_VALUE_FLOAT:
        add_text(texts, "=%g", value->f);
        break;
    case BELL_VALUE_STR:
        add_text(texts, "='%s'", value->str);
        break;
    case BELL_VALUE_NONE:
    case BELL_VALUE_DTYPE:
    case BELL_VALUE_TENSOR:
    case BELL_VALUE_LIST:
        add_text(texts, "=None");
        break;
    }
}

/* "name(a, b=1)\n--\n\n" as Python reads signatures from. */
static void
add_signature(struct texts *texts, const char *name,
              const struct bell_param *params, uint32_t n, bool is_method)
{
    bool spread = false;
    uint32_t i;

    add_text(texts, "%s(", name);
    for (i = 0; i < n; i++) {
        const struct bell_param *p = &params[i];
        bool is_spread = p->kind == BELL_PARAM_INTS_SPREAD ||
                         p->kind == BELL_PARAM_TENSORS_SPREAD;

        add_text(texts, "%s", i ? ", " : "");
        if (i == 0 && is_method)
            add_text(texts, "$self");
        else
            add_text(texts, "%s%s", is_spread && !spread ? "*" : "", p->name);
        spread |= is_spread;
        if (!p->required && !is_spread && !(i == 0 && is_method))
            add_default(texts, &p->fallback);
    }
    add_text(texts, ")\n--\n\n");
}

/* A text of docs.py: the comment above a C function (its name without bell_),
 * or the example of a row. */
struct row_doc {
    const char *name;
    int is_example;
    const char *text;
};
static const struct row_doc docs[] = {
#include "python/doorbell/docs.inc"
    {0},
};

static const char *
find_doc(const char *name, int is_example)
{
    size_t i;

    for (i = 0; docs[i].name; i++) {
        if (docs[i].is_example == is_example && strcmp(docs[i].name, name) == 0)
            return docs[i].text;
    }
    return NULL;
}

/* Rules of shapes, dtypes and errors: of the C function behind a row, or of
 * that with its name. */
static const char *
rules_of(const struct bell_function *function)
{
    struct bell_function_c c;

    if (bell_function_c(function, &c))
        return find_doc(c.name + sizeof("bell_") - 1, 0);
    return find_doc(function->name, 0);
}

static void
add_body(struct texts *texts, const struct bell_function *function,
         const struct bell_param *params, uint32_t n)
{
    const char *rules = rules_of(function);
    const char *example = find_doc(function->name, 1);
    uint32_t i;

    add_text(texts, "%s.\n\n", function->doc);
    for (i = 0; i < n; i++)
        add_text(texts, "%s: %s%s\n", params[i].name,
                 bell_param_kind_name(params[i].kind),
                 params[i].required ? "" : ", optional");
    if (rules)
        add_text(texts, "\n%s\n", rules);
    if (example)
        add_text(texts, "\n%s\n", example);
}

/* ---- the rows ---- */

/* _direct_rows(): names of the rows that are called without the table */
static PyObject *
direct_rows(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    size_t i;

    (void)module;
    (void)unused;
    for (i = 0; list && i < MAX_ROWS && rows[i].function; i++) {
        PyObject *name = rows[i].direct
                             ? PyUnicode_FromString(rows[i].function->name)
                             : NULL;
        if (name && PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyTypeObject *
make_results(const struct named_results *named)
{
    static PyTypeObject *made[sizeof(named_results) / sizeof(named_results[0])];
    PyStructSequence_Field fields[5] = {{0}};
    PyStructSequence_Desc desc = {
        .name = "doorbell.Results",
        .doc = "Several tensors, by name and in order.",
        .fields = fields,
    };
    size_t at = (size_t)(named - named_results);

    for (; named->fields[desc.n_in_sequence]; desc.n_in_sequence++)
        fields[desc.n_in_sequence].name = named->fields[desc.n_in_sequence];
    if (!made[at])
        made[at] = PyStructSequence_NewType(&desc);
    return made[at];
}

/* Whether the table says that a row is a function of those arguments. */
static bool
is_direct(const struct bell_function *function, enum direct_kind kind)
{
    static const char *const letters[] = {[DIRECT_NONE] = "",
                                          [DIRECT_T] = "t",
                                          [DIRECT_TT] = "tt",
                                          [DIRECT_TA] = "ta"};
    struct bell_function_c c;

    return bell_function_c(function, &c) &&
           strcmp(c.args, letters[kind]) == 0 && c.params[0] == '0' &&
           (kind == DIRECT_T || c.params[1] == '1');
}

static int
describe_row(struct row *row, const struct bell_function *function,
             const struct bell_param *params, uint32_t n)
{
    char word[64];
    size_t i;

    row->function = function;
    for (i = 0; i < sizeof(directs) / sizeof(directs[0]); i++) {
        if (strcmp(directs[i].name, function->name) == 0 &&
            is_direct(function, directs[i].kind))
            row->direct = &directs[i];
    }
    if (n > 1 && params[1].kind == BELL_PARAM_INT && !params[1].required &&
        params[1].fallback.kind == BELL_VALUE_INT) {
        row->axis = params[1].fallback.i;
        row->has_axis = true;
    }
    row->takes_dtype_second = n > 1 && params[1].kind == BELL_PARAM_DTYPE;
    for (i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        row->waits |= strcmp(waiting[i], function->name) == 0;
    snprintf(word, sizeof(word), " %s ", function->name);
    for (i = 0; i < sizeof(named_results) / sizeof(named_results[0]); i++) {
        if (!strstr(named_results[i].names, word))
            continue;
        row->results = make_results(&named_results[i]);
        if (!row->results)
            return -1;
    }
    return 0;
}

/* One name of a row: in the module, and as a method where its first parameter
 * is a tensor and Tensor has none of that name. */
static int
add_name(PyObject *module, size_t number, const char *name, const char *doc,
         const char *method_doc)
{
    static PyMethodDef defs[4 * MAX_ROWS];
    static size_t n_defs;
    PyMethodDef *def;
    PyObject *made;
    int done = 0;

    if (n_defs + 2 > sizeof(defs) / sizeof(defs[0]))
        return 0;
    if (bell_dtype_find(rows[number].function->name) == BELL_DEFAULT &&
        strcmp(name, "tensor") != 0) {
        def = &defs[n_defs++];
        *def = (PyMethodDef){name, function_entries[number],
                             METH_FASTCALL | METH_KEYWORDS, doc};
        made = PyCFunction_New(def, module);
        done = made ? PyModule_AddObjectRef(module, name, made) : -1;
        Py_XDECREF(made);
    }
    if (done < 0 || !method_doc ||
        PyObject_HasAttrString((PyObject *)py.tensor, name))
        return done;
    def = &defs[n_defs++];
    *def = (PyMethodDef){name, method_entries[number],
                         METH_FASTCALL | METH_KEYWORDS, method_doc};
    made = PyDescr_NewMethod(py.tensor, def);
    done =
        made ? PyObject_SetAttrString((PyObject *)py.tensor, name, made) : -1;
    Py_XDECREF(made);
    return done;
}

/* The texts of one name of a row. */
static int
add_named(PyObject *module, struct texts *texts, size_t number,
          const char *given, const struct bell_param *params, uint32_t n)
{
    bool is_method = n && params[0].kind == BELL_PARAM_TENSOR;
    const char *name = texts->begin + texts->n, *doc, *method_doc = NULL;

    add_text(texts, "%s%c", given, 0);
    doc = texts->begin + texts->n;
    add_signature(texts, given, params, n, false);
    add_body(texts, rows[number].function, params, n);
    add_text(texts, "%c", 0);
    if (is_method) {
        method_doc = texts->begin + texts->n;
        add_signature(texts, given, params, n, true);
        add_body(texts, rows[number].function, params, n);
        add_text(texts, "%c", 0);
    }
    if (texts->failed) {
        PyErr_NoMemory();
        return -1;
    }
    return add_name(module, number, name, doc, method_doc);
}

static int
add_row(PyObject *module, struct texts *texts, size_t number)
{
    const struct bell_function *function = bell_function_at(number);
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n = bell_function_params(function, params);
    char aliases[256], *name, *rest = NULL;

    if (describe_row(&rows[number], function, params, n) < 0 ||
        add_named(module, texts, number, function->name, params, n) < 0)
        return -1;
    bell_function_aliases(function, aliases, sizeof(aliases));
    for (name = strtok_r(aliases, " ", &rest); name;
         name = strtok_r(NULL, " ", &rest)) {
        if (add_named(module, texts, number, name, params, n) < 0)
            return -1;
    }
    return 0;
}

/* torch.float and the like are dtypes, not functions. */
static int
add_dtype_names(PyObject *module)
{
    static const char *const names[] = {"float", "double", "half", "int",
                                        "long",  "short",  "bool", "bfloat16"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        PyObject *dtype = py_dtype_object(bell_dtype_find(names[i]));
        if (PyModule_AddObjectRef(module, names[i], dtype) < 0)
            return -1;
    }
    return 0;
}

static PyMethodDef functions[] = {
    {"_direct_rows", direct_rows, METH_NOARGS, NULL},
    {0},
};

int
py_call_init(PyObject *module)
{
    struct texts texts = {.cap = 1 << 20};
    size_t n = bell_function_count(), i;

    texts.begin = malloc(texts.cap);
    if (!texts.begin) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < n && i < MAX_ROWS; i++) {
        if (add_row(module, &texts, i) < 0)
            return -1;
    }
    return add_dtype_names(module) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}
