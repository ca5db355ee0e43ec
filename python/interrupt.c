/* Ctrl-C while the library waits: the main thread's waits ask Python whether a
 * signal's handler raises. */
#include "python/py.h"

/* What a handler raised while the interpreter's lock was let go. Only the main
 * thread runs handlers. */
static PyObject *raised[3];
static unsigned long raised_by;

/* Calls of this thread without the interpreter's lock: one within another's
 * callback asks no second time. */
static _Thread_local unsigned depth;

static int
ask(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int ends = raised[0] && raised_by == PyThread_get_thread_ident();

    (void)user;
    if (PyErr_CheckSignals() < 0) {
        ends = 1;
        Py_XDECREF(raised[0]);
        Py_XDECREF(raised[1]);
        Py_XDECREF(raised[2]);
        PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
        raised_by = PyThread_get_thread_ident();
    }
    PyGILState_Release(state);
    return ends;
}

bool
py_raise_interrupt(void)
{
    if (!raised[0] || raised_by != PyThread_get_thread_ident())
        return false;
    PyErr_Restore(raised[0], raised[1], raised[2]);
    raised[0] = raised[1] = raised[2] = NULL;
    return true;
}

/* The call was done all the same: its result stays, and the exception comes
 * behind it. */
static int
raise_later(void *unused)
{
    (void)unused;
    return py_raise_interrupt() ? -1 : 0;
}

PyThreadState *
py_let_go(void)
{
    if (depth++ == 0)
        bell_interrupt_set(ask, NULL);
    return PyEval_SaveThread();
}

void
py_take_back(PyThreadState *thread)
{
    PyEval_RestoreThread(thread);
    if (--depth == 0)
        bell_interrupt_set(NULL, NULL);
    if (raised[0])
        (void)Py_AddPendingCall(raise_later, NULL);
}
