/* Debug lines of the driver half, kept for who asks. */
#include "python/hcq/hq.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/log.h"

#define LINES_MAX 100000u /* later ones are counted and dropped */

/* Lines come from cards' threads, which have no interpreter's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char **lines;
static size_t n_lines, cap_lines;

static void
keep_log_line(void *user, const char *line)
{
    (void)user;
    pthread_mutex_lock(&lock);
    if (n_lines == cap_lines && n_lines < LINES_MAX) {
        size_t cap = cap_lines ? 2 * cap_lines : 64;
        char **grown = realloc(lines, cap * sizeof(*lines));

        if (grown) {
            lines = grown;
            cap_lines = cap;
        }
    }
    if (n_lines < cap_lines) {
        lines[n_lines] = strdup(line);
        n_lines += lines[n_lines] != NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* log_topics(names): lines of those topics are kept from now on; None: none. */
static PyObject *
log_topics(PyObject *module, PyObject *names)
{
    const char *text = NULL;
    bell_status status;

    (void)module;
    if (names != Py_None && !(text = PyUnicode_AsUTF8AndSize(names, NULL)))
        return NULL;
    status = bell_log_topics(text);
    if (py_check(status) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS; /* waits for the line that is on its way */
    bell_log_set(text ? keep_log_line : NULL, NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *
log_take(PyObject *module, PyObject *unused)
{
    char **taken;
    PyObject *list;
    size_t n, i;

    (void)module;
    (void)unused;
    pthread_mutex_lock(&lock);
    taken = lines;
    n = n_lines;
    lines = NULL;
    n_lines = cap_lines = 0;
    pthread_mutex_unlock(&lock);
    list = PyList_New(0);
    for (i = 0; i < n; i++) {
        PyObject *line =
            list ? PyUnicode_DecodeUTF8(taken[i], (Py_ssize_t)strlen(taken[i]),
                                        "replace")
                 : NULL;

        if (!line || PyList_Append(list, line) < 0)
            Py_CLEAR(list);
        Py_XDECREF(line);
        free(taken[i]);
    }
    free(taken);
    return list;
}

static PyMethodDef functions[] = {
    {"_log_topics", log_topics, METH_O, NULL},
    {"_log_take", log_take, METH_NOARGS, NULL},
    {0},
};

int
hq_log_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
