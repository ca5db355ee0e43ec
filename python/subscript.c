/* x[...] and x[...] = value. */
#include "python/py.h"

/* The items of a subscript and what was made for them. */
struct subscript {
    struct bell_index_item items[2 * BELL_MAX_RANK];
    uint32_t n;
    PyObject *made[2 * BELL_MAX_RANK]; /* owned */
    uint32_t n_made;
    bool waits; /* a mask: its true elements are counted */
};

static void
end_subscript(struct subscript *s)
{
    while (s->n_made)
        Py_DECREF(s->made[--s->n_made]);
}

static int
add_tensor(struct subscript *s, PyObject *tensor)
{
    struct bell_tensor *handle = py_tensor_of(tensor)->handle;

    s->waits |= bell_dtype_of(handle) == BELL_BOOL;
    s->items[s->n++] = bell_by(handle);
    return 0;
}

/* A slice with a Size in it: ends of all values. 0: there is none. */
static int
add_sized_slice(struct subscript *s, struct py_context *c, PyObject *slice)
{
    static const char *const names[] = {"start", "stop", "step"};
    int64_t words[3] = {0, INT64_MAX, 1};
    bool any = false;
    int i, done = 0;

    for (i = 0; i < 3 && done == 0; i++) {
        PyObject *part = PyObject_GetAttrString(slice, names[i]);

        if (!part)
            return -1;
        if (py_is_size(part)) {
            any = true;
            done = py_size_word(c, part, &words[i]);
        } else if (part != Py_None) {
            words[i] = PyNumber_AsSsize_t(part, NULL);
            done = words[i] == -1 && PyErr_Occurred() ? -1 : 0;
        }
        Py_DECREF(part);
    }
    if (done < 0 && !any) { /* for the plain way to say */
        PyErr_Clear();
        return 0;
    }
    if (done < 0)
        return -1;
    if (any)
        s->items[s->n++] = bell_slice(words[0], words[1], words[2]);
    return any;
}

static int
add_slice(struct subscript *s, struct py_context *c, PyObject *slice)
{
    Py_ssize_t begin, end, step;
    int done;

    if (PySlice_Unpack(slice, &begin, &end, &step) == 0) {
        s->items[s->n++] = bell_slice(begin, end, step);
        return 0;
    }
    PyErr_Clear(); /* a Size is not an index */
    done = add_sized_slice(s, c, slice);
    if (done == 0) /* nor is there one: what Python says of it */
        done = PySlice_Unpack(slice, &begin, &end, &step);
    return done < 0 ? -1 : 0;
}

/* A list, an array, True or False. */
static int
add_data(struct subscript *s, struct py_context *c, PyObject *data)
{
    PyObject *made = py_tensor_from(c, data, BELL_DEFAULT);

    if (!made)
        return -1;
    if (bell_numel(py_tensor_of(made)->handle) == 0 &&
        bell_dtype_of(py_tensor_of(made)->handle) > BELL_UINT64) {
        Py_DECREF(made); /* [] has no floats in it */
        made = py_tensor_from(c, data, BELL_INT64);
        if (!made)
            return -1;
    }
    s->made[s->n_made++] = made;
    return add_tensor(s, made);
}

static int
add_item(struct subscript *s, struct py_context *c, PyObject *item)
{
    if (s->n == 2 * BELL_MAX_RANK) {
        PyErr_SetString(py.classes[BELL_REASON_INDEX],
                        "a subscript of too many items");
        return -1;
    }
    if (PyLong_Check(item) && !PyBool_Check(item)) {
        int overflow;
        long long i = PyLong_AsLongLongAndOverflow(item, &overflow);

        s->items[s->n++] = bell_at(overflow ? INT64_MAX : i);
        return 0;
    }
    if (PySlice_Check(item))
        return add_slice(s, c, item);
    if (item == Py_None) {
        s->items[s->n++] = bell_new_axis();
        return 0;
    }
    if (item == Py_Ellipsis) {
        s->items[s->n++] = bell_ellipsis();
        return 0;
    }
    if (py_is_tensor(item))
        return add_tensor(s, item);
    if (py_is_size(item)) {
        int64_t word;

        if (py_size_word(c, item, &word) < 0)
            return -1;
        s->items[s->n++] = bell_at(word);
        return 0;
    }
    if (!PyBool_Check(item) && PyIndex_Check(item) &&
        !PyObject_CheckBuffer(item)) {
        Py_ssize_t i = PyNumber_AsSsize_t(item, PyExc_IndexError);

        if (i == -1 && PyErr_Occurred())
            return -1;
        s->items[s->n++] = bell_at(i);
        return 0;
    }
    return add_data(s, c, item);
}

static int
parse_subscript(struct subscript *s, struct py_context *c, PyObject *key)
{
    Py_ssize_t n, i;

    s->n = s->n_made = 0;
    s->waits = false;
    if (!PyTuple_Check(key))
        return add_item(s, c, key);
    n = PyTuple_Size(key);
    for (i = 0; i < n; i++) {
        if (add_item(s, c, PyTuple_GetItem(key, i)) < 0)
            return -1;
    }
    return 0;
}

PyObject *
py_subscript(PyObject *self, PyObject *key)
{
    struct py_tensor *t = py_tensor_of(self);
    struct bell_tensor *found;
    struct subscript s;
    PyObject *made = NULL;

    if (py_enter(t->context) < 0)
        return NULL;
    if (parse_subscript(&s, t->context, key) == 0) {
        if (s.waits) {
            struct py_blocked blocked = py_block(t->context);
            found = bell_index(t->handle, s.items, s.n);
            py_unblock(&blocked);
        } else {
            found = bell_index(t->handle, s.items, s.n);
        }
        made = py_result(t->context, found, t->handle, NULL);
    }
    end_subscript(&s);
    return made;
}

/* t with those elements replaced is what t denotes from then on. */
static int
put(struct py_tensor *t, const struct subscript *s, struct bell_tensor *value)
{
    struct py_context *c = t->context;
    struct bell_tensor *cast = bell_cast(value, bell_dtype_of(t->handle));
    struct bell_tensor *whole, *done;

    if (s->waits) {
        struct py_blocked blocked = py_block(c);
        whole = bell_index_put(t->handle, s->items, s->n, cast);
        py_unblock(&blocked);
    } else {
        whole = bell_index_put(t->handle, s->items, s->n, cast);
    }
    done = bell_assign(t->handle, whole);
    bell_tensor_release(whole);
    bell_tensor_release(cast);
    if (done == t->handle && whole != c->error)
        return 0;
    py_raise(c);
    return -1;
}

int
py_assign_subscript(PyObject *self, PyObject *key, PyObject *value)
{
    struct py_tensor *t = py_tensor_of(self);
    struct py_operand operand = {0};
    PyObject *listed = NULL;
    struct subscript s;
    int done = -1;

    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements cannot be deleted");
        return -1;
    }
    if (py_enter(t->context) < 0)
        return -1;
    if (PyList_Check(value) || PyTuple_Check(value)) {
        listed = py_tensor_from(t->context, value, BELL_DEFAULT);
        if (!listed)
            return -1;
        value = listed;
    }
    if (parse_subscript(&s, t->context, key) == 0) {
        done =
            py_operand(t->context, value, bell_dtype_of(t->handle), &operand);
        if (done > 0)
            PyErr_Format(PyExc_TypeError,
                         "a number or tensor is expected, "
                         "not %R",
                         (PyObject *)Py_TYPE(value));
        done = done ? -1 : put(t, &s, operand.handle);
        py_operand_end(&operand);
    }
    end_subscript(&s);
    Py_XDECREF(listed);
    return done;
}
