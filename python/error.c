/* Errors: a class for each reason of status.h, mixed with Python's own. */
#include "python/py.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Python's classes beside doorbell.Error, as docs/reference/errors.md has them:
 * a second one where people expect either. */
static void
builtins_of(enum bell_reason reason, PyObject *out[2])
{
    out[0] = PyExc_RuntimeError;
    out[1] = NULL;
    switch ((int)reason) {
    case BELL_REASON_SHAPE:
    case BELL_REASON_VALUE:
    case BELL_REASON_SIZE:
    case BELL_REASON_MISSING:
        out[0] = PyExc_ValueError;
        break;
    case BELL_REASON_DTYPE:
        out[0] = PyExc_TypeError;
        break;
    case BELL_REASON_NAME:
        out[0] = PyExc_ValueError;
        out[1] = PyExc_TypeError;
        break;
    case BELL_REASON_AXIS:
        out[0] = PyExc_IndexError;
        out[1] = PyExc_ValueError;
        break;
    case BELL_REASON_INDEX:
        out[0] = PyExc_IndexError;
        break;
    case BELL_REASON_MEMORY:
        out[0] = PyExc_MemoryError;
        break;
    case BELL_REASON_PERMISSION:
        out[0] = PyExc_PermissionError;
        break;
    case BELL_REASON_DEVICE:
        out[0] = PyExc_FileNotFoundError;
        break;
    case BELL_REASON_IO:
        out[0] = PyExc_OSError;
        break;
    case BELL_REASON_TIMEOUT:
        out[0] = PyExc_TimeoutError;
        break;
    case BELL_REASON_UNSUPPORTED:
        out[0] = PyExc_NotImplementedError;
        break;
    default:
        break;
    }
}

static PyObject *
make_class(enum bell_reason reason)
{
    const char *word = bell_reason_name(reason);
    char name[64];
    PyObject *builtins[2], *bases, *made;

    snprintf(name, sizeof(name), "doorbell.errors.%c%sError",
             toupper((unsigned char)word[0]), word + 1);
    builtins_of(reason, builtins);
    bases = builtins[1] ? PyTuple_Pack(3, py.error, builtins[0], builtins[1])
                        : PyTuple_Pack(2, py.error, builtins[0]);
    if (!bases)
        return NULL;
    made = PyErr_NewException(name, bases, NULL);
    Py_DECREF(bases);
    return made;
}

int
py_error_init(PyObject *module)
{
    int reason;

    py.error = PyErr_NewExceptionWithDoc(
        "doorbell.Error",
        "A call failed. `reason` is one word (docs/reference/errors.md), "
        "`status` its status,\n`errno` what the system said or 0, `frames` the "
        "functions of the library.",
        NULL, NULL);
    if (!py.error || PyModule_AddObjectRef(module, "Error", py.error) < 0)
        return -1;
    for (reason = BELL_REASON_NONE + 1; reason < BELL_REASON_COUNT; reason++) {
        PyObject *made = make_class((enum bell_reason)reason);
        const char *name;
        char buf[64];

        if (!made)
            return -1;
        py.classes[reason] = made;
        name = bell_reason_name((enum bell_reason)reason);
        snprintf(buf, sizeof(buf), "%c%sError", toupper((unsigned char)name[0]),
                 name + 1);
        /* in the module as _errors.ShapeError; errors.py shows them */
        if (PyObject_SetAttrString(py.error, buf, made) < 0)
            return -1;
    }
    return 0;
}

static int
set_text(PyObject *to, const char *name, const char *text)
{
    PyObject *value =
        PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    int done = value ? PyObject_SetAttrString(to, name, value) : -1;

    Py_XDECREF(value);
    return done;
}

/* The fields of the record beside the message. */
static int
describe(PyObject *made, const struct bell_error *record)
{
    PyObject *frames = PyTuple_New((Py_ssize_t)record->n_frames);
    PyObject *number = PyLong_FromLong(record->sys_errno);
    int done = frames && number ? 0 : -1;
    uint32_t i;

    for (i = 0; done == 0 && i < record->n_frames; i++) {
        PyObject *name = PyUnicode_FromString(record->frames[i]);
        done = name ? PyTuple_SetItem(frames, (Py_ssize_t)i, name) : -1;
    }
    done = done ? done : PyObject_SetAttrString(made, "frames", frames);
    done = done ? done : PyObject_SetAttrString(made, "errno", number);
    done = done ? done
                : set_text(made, "status", bell_status_name(record->status));
    done = done ? done
                : set_text(made, "reason", bell_reason_name(record->reason));
    if (done == 0 && record->n_suppressed) {
        PyObject *none = PyObject_CallMethod(
            made, "add_note", "N",
            PyUnicode_FromFormat("%u calls failed since",
                                 (unsigned)record->n_suppressed));
        done = none ? 0 : -1;
        Py_XDECREF(none);
    }
    Py_XDECREF(frames);
    Py_XDECREF(number);
    return done;
}

PyObject *
py_raise_last(void)
{
    struct bell_error record = *bell_error_last();
    PyObject *class = py.error, *text, *made;

    if (py_raise_interrupt() || PyErr_Occurred()) { /* of a callback */
        bell_error_clear();
        return NULL;
    }
    if (record.reason > BELL_REASON_NONE && record.reason < BELL_REASON_COUNT)
        class = py.classes[record.reason];
    text = PyUnicode_DecodeUTF8(record.message,
                                (Py_ssize_t)strlen(record.message), "replace");
    made = text ? PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;
    Py_XDECREF(text);
    if (made && describe(made, &record) == 0)
        PyErr_SetObject(class, made);
    Py_XDECREF(made);
    bell_error_clear();
    return NULL;
}

int
py_check(bell_status status)
{
    if (status == BELL_OK)
        return 0;
    py_raise_last();
    return -1;
}
