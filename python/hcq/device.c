/* Devices: opening, facts, faults, links, and the ends of what is theirs. */
#include "python/hcq/hq.h"

#include <stdlib.h>
#include <string.h>

#include "hcq/hcq_facts.h"

/* ---- the ends of objects ---- */

void
hq_end_later(struct hq_device *d, enum hq_kind kind, void *handle,
             PyObject *keep)
{
    if (d->n_ended == d->cap_ended) {
        size_t cap = d->cap_ended ? 2 * d->cap_ended : 64;
        struct hq_ended *grown = realloc(d->ended, cap * sizeof(*grown));

        if (!grown)
            return; /* it ends with its device; so does what it needs */
        d->ended = grown;
        d->cap_ended = cap;
    }
    d->ended[d->n_ended++] = (struct hq_ended){kind, handle, keep};
}

static bool
is_line_idle(const struct hq_line *line)
{
    return !line->busy &&
           hcq_signal_value(hcq_queue_timeline(line->queue)) >= line->submitted;
}

static void
free_line(struct hq_device *d, struct hq_line *line)
{
    struct hq_line **at = &d->lines;

    while (*at != line)
        at = &(*at)->next;
    *at = line->next;
    PyThread_free_lock(line->lock);
    free(line);
}

/* False: not yet. */
static bool
destroy_ended(struct hq_device *d, const struct hq_ended *ended)
{
    struct hq_queue *of;
    struct hq_line *line;

    switch (ended->kind) {
    case HQ_BUFFER:
        hcq_buffer_destroy(ended->handle);
        break;
    case HQ_PROGRAM:
        hcq_program_destroy(ended->handle);
        break;
    case HQ_SIGNAL:
        hcq_signal_destroy(ended->handle);
        break;
    case HQ_STREAM:
        of = (struct hq_queue *)ended->keep;
        if (of->line && !is_line_idle(of->line))
            return false;
        if (of->line)
            hcq_stream_destroy(ended->handle);
        break;
    case HQ_GRAPH:
        if (hcq_graph_busy(ended->handle))
            return false;
        hcq_graph_destroy(ended->handle);
        break;
    case HQ_QUEUE:
        line = ended->handle;
        if (line->n_waits || !is_line_idle(line))
            return false;
        hcq_cs_discard(line->orphan);
        hcq_queue_destroy(line->queue);
        free_line(d, line);
        break;
    }
    return true;
}

/* What is older than the marks, once all queues have come to them. Ends may
 * bring others with them. */
void
hq_drain(struct hq_device *d)
{
    struct hq_line *line;
    struct hq_ended *batch;
    size_t n, i;

    if (!d->n_old) {
        for (line = d->lines; line; line = line->next)
            line->mark = line->submitted;
        d->n_old = d->n_ended;
    }
    for (line = d->lines; line; line = line->next) {
        if (hcq_signal_value(hcq_queue_timeline(line->queue)) < line->mark)
            return;
    }
    n = d->n_old;
    batch = d->ended;
    d->ended = malloc(d->cap_ended * sizeof(*d->ended));
    if (!d->ended) {
        d->ended = batch;
        return;
    }
    d->n_ended -= n;
    memcpy(d->ended, batch + n, d->n_ended * sizeof(*batch));
    d->n_old = 0;
    for (i = 0; i < n; i++) {
        if (destroy_ended(d, &batch[i]))
            continue;
        hq_end_later(d, batch[i].kind, batch[i].handle, batch[i].keep);
        batch[i].keep = NULL;
    }
    /* last, as what goes may call, and close the device */
    for (i = 0; i < n; i++)
        Py_XDECREF(batch[i].keep);
    free(batch);
}

int
hq_enter(struct hq_device *d)
{
    if (!d->dev) {
        hq_wrong_state("the device was closed");
        return -1;
    }
    if (hcq_device_is_inherited(d->dev)) {
        PyErr_Format(py.classes[BELL_REASON_PROCESS],
                     "%s was opened before a fork: a child opens its own",
                     hcq_device_name(d->dev));
        return -1;
    }
    if (d->n_ended)
        hq_drain(d);
    return 0;
}

/* ---- calls without the interpreter's lock ---- */

struct hq_call
hq_begin_call(struct hq_device *d, bool waits)
{
    struct hq_call call = {.device = d, .waits = waits};

    ++*(waits ? &d->n_waits : &d->n_calls);
    call.thread = py_let_go();
    return call;
}

void
hq_end_call(const struct hq_call *call)
{
    py_take_back(call->thread);
    --*(call->waits ? &call->device->n_waits : &call->device->n_calls);
}

int
hq_wait(struct hq_device *d, struct hcq_signal *sig, uint64_t value,
        uint64_t timeout_ns)
{
    bell_status status = BELL_OK;
    struct hq_call call;

    if (hcq_signal_value(sig) < value) {
        call = hq_begin_call(d, true);
        status = hcq_signal_wait(sig, value, timeout_ns);
        hq_end_call(&call);
    }
    return hq_check(d, status);
}

/* ---- errors ---- */

static const char *const fault_kinds[HCQ_FAULT_COUNT] = {
    [HCQ_FAULT_NONE] = "none",
    [HCQ_FAULT_MEMORY] = "memory",
    [HCQ_FAULT_INSTRUCTION] = "instruction",
    [HCQ_FAULT_ARITHMETIC] = "arithmetic",
    [HCQ_FAULT_STREAM] = "stream",
    [HCQ_FAULT_INTERFACE] = "interface",
    [HCQ_FAULT_RESET] = "reset",
};

static PyObject *
make_fault(struct hcq_device *dev)
{
    PyObject *made = PyStructSequence_New(hq.fault);
    struct hcq_fault fault;

    hcq_device_fault(dev, &fault);
    if (made &&
        hq_put(made, 0, PyUnicode_FromString(fault_kinds[fault.kind])) &&
        hq_put(made, 1, PyLong_FromUnsignedLongLong(fault.va)) &&
        hq_put(made, 2, PyLong_FromUnsignedLongLong(fault.first_group)) &&
        hq_put(made, 3, PyLong_FromUnsignedLongLong(fault.last_group)) &&
        hq_put(made, 4, PyUnicode_FromString(fault.program)) &&
        hq_put(made, 5, PyUnicode_FromString(fault.queue)) &&
        hq_put(made, 6, PyUnicode_FromString(fault.text)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

PyObject *
hq_raise(struct hq_device *d)
{
    PyObject *type, *value, *trace, *fault;

    py_raise_last();
    if (!d->dev || !PyErr_ExceptionMatches(py.classes[BELL_REASON_LOST]))
        return NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    fault = make_fault(d->dev);
    if (!fault || PyObject_SetAttrString(value, "fault", fault) < 0)
        PyErr_Clear();
    Py_XDECREF(fault);
    PyErr_Restore(type, value, trace);
    return NULL;
}

int
hq_check(struct hq_device *d, bell_status status)
{
    if (status == BELL_OK)
        return 0;
    hq_raise(d);
    return -1;
}

/* ---- opening and closing ---- */

/* What ends here is gone with the device; references are not. */
static void
forget_ended(struct hq_device *d)
{
    while (d->n_ended) {
        PyObject *keep = d->ended[--d->n_ended].keep;

        d->n_old = 0;
        Py_XDECREF(keep); /* may add others */
    }
}

static void
close_device(struct hq_device *d)
{
    struct hcq_device *dev = d->dev;
    PyThreadState *thread;

    if (!dev)
        return;
    d->dev = NULL;
    thread = PyEval_SaveThread();
    hcq_device_close(dev);
    PyEval_RestoreThread(thread);
    forget_ended(d);
    while (d->lines)
        free_line(d, d->lines);
}

static PyObject *
new_device(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"name", NULL};
    const char *name = NULL;
    struct hq_device *made;
    PyThreadState *thread;
    bell_status status;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|z:Device", names, &name))
        return NULL;
    made = PyObject_New(struct hq_device, type);
    if (!made)
        return NULL;
    memset((char *)made + sizeof(PyObject), 0,
           sizeof(*made) - sizeof(PyObject));
    thread = PyEval_SaveThread();
    status = hcq_device_open(name, &made->dev);
    PyEval_RestoreThread(thread);
    if (py_check(status) < 0) {
        made->dev = NULL;
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

static void
dealloc_device(PyObject *self)
{
    struct hq_device *d = (struct hq_device *)self;
    PyTypeObject *type = Py_TYPE(self);

    close_device(d);
    free(d->ended);
    PyObject_Free(self);
    Py_DECREF(type);
}

static bool
has_busy_line(const struct hq_device *d)
{
    const struct hq_line *line = d->lines;

    while (line && !line->busy)
        line = line->next;
    return line != NULL;
}

static PyObject *
close_open_device(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;

    (void)unused;
    if (!d->dev)
        Py_RETURN_NONE;
    if (d->n_calls || d->n_waits || has_busy_line(d))
        return hq_wrong_state("close: another thread is in a call of the "
                              "device");
    if (d->n_steps)
        return hq_wrong_state("close: the device is stepped through: close "
                              "the Step first");
    if (d->n_exports) {
        PyErr_Format(PyExc_BufferError,
                     "close: %u views of the device's buffers are in use",
                     (unsigned)d->n_exports);
        return NULL;
    }
    close_device(d);
    Py_RETURN_NONE;
}

static PyObject *
enter_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (hq_enter((struct hq_device *)self) < 0)
        return NULL;
    return Py_NewRef(self);
}

static PyObject *
exit_device(PyObject *self, PyObject *args)
{
    (void)args;
    return close_open_device(self, NULL);
}

/* ---- methods ---- */

static PyObject *
synchronize(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"timeout", NULL};
    struct hq_device *d = (struct hq_device *)self;
    PyObject *seconds = Py_None;
    uint64_t timeout_ns;
    struct hq_line *line;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O:synchronize", names,
                                     &seconds) ||
        hq_timeout(seconds, &timeout_ns) < 0 || hq_enter(d) < 0)
        return NULL;
    for (line = d->lines; line; line = line->next) {
        int done;

        line->n_waits++; /* nobody else may have the queue */
        done = hq_wait(d, hcq_queue_timeline(line->queue), line->submitted,
                       timeout_ns);
        line->n_waits--;
        if (done < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
recover(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;
    bell_status status;
    struct hq_call call;

    (void)unused;
    if (hq_enter(d) < 0)
        return NULL;
    if (d->n_calls)
        return hq_wrong_state("recover: another thread is in a call of the "
                              "device");
    call = hq_begin_call(d, false);
    status = hcq_device_recover(d->dev);
    hq_end_call(&call);
    if (hq_check(d, status) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
check_status(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;

    (void)unused;
    if (hq_enter(d) < 0 || hq_check(d, hcq_device_status(d->dev)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
set_still_limit(PyObject *self, PyObject *seconds)
{
    struct hq_device *d = (struct hq_device *)self;
    uint64_t ns;

    if (seconds == Py_None) {
        PyErr_SetString(PyExc_TypeError, "set_still_limit: seconds expected");
        return NULL;
    }
    if (hq_timeout(seconds, &ns) < 0 || hq_enter(d) < 0)
        return NULL;
    hcq_device_set_timeout(d->dev, ns);
    Py_RETURN_NONE;
}

static PyObject *
ticks_to_ns(PyObject *self, PyObject *ticks)
{
    struct hq_device *d = (struct hq_device *)self;
    unsigned long long value = PyLong_AsUnsignedLongLong(ticks);

    if (PyErr_Occurred() || hq_enter(d) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(hcq_timestamp_to_ns(d->dev, value));
}

static PyObject *
clock_mhz(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;
    bell_status status;
    struct hq_call call;
    uint32_t mhz = 0;

    (void)unused;
    if (hq_enter(d) < 0)
        return NULL;
    call = hq_begin_call(d, false);
    status = hcq_device_clock_mhz(d->dev, &mhz);
    hq_end_call(&call);
    return hq_check(d, status) < 0 ? NULL : PyLong_FromUnsignedLong(mhz);
}

static PyObject *
memory_usage(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;
    uint64_t live, cached;

    (void)unused;
    if (hq_enter(d) < 0)
        return NULL;
    hcq_memory_usage(d->dev, &live, &cached);
    return Py_BuildValue("KK", (unsigned long long)live,
                         (unsigned long long)cached);
}

static PyObject *
memory_trim(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;

    (void)unused;
    if (hq_enter(d) < 0)
        return NULL;
    hcq_memory_trim(d->dev);
    Py_RETURN_NONE;
}

static struct hq_device *
other_device(PyObject *object)
{
    if (Py_TYPE(object) != hq.device) {
        PyErr_Format(PyExc_TypeError, "a Device is expected, got %R",
                     (PyObject *)Py_TYPE(object));
        return NULL;
    }
    return hq_enter((struct hq_device *)object) < 0
               ? NULL
               : (struct hq_device *)object;
}

static PyObject *
get_link(PyObject *self, PyObject *object)
{
    struct hq_device *d = (struct hq_device *)self, *other;
    struct hcq_device_link link = {.struct_size = sizeof(link)};
    PyObject *made;

    if (hq_enter(d) < 0 || !(other = other_device(object)) ||
        hq_check(d, hcq_device_get_link(d->dev, other->dev, &link)) < 0)
        return NULL;
    made = PyStructSequence_New(hq.link);
    if (made &&
        hq_put(made, 0, PyUnicode_FromString(hcq_link_kind_name(link.kind))) &&
        hq_put(made, 1, PyLong_FromUnsignedLong(link.hops)) &&
        hq_put(made, 2, PyLong_FromUnsignedLong(link.engines)) &&
        hq_put(made, 3, PyLong_FromUnsignedLongLong(link.bytes_per_s)) &&
        hq_put(made, 4, PyBool_FromLong(link.reads)) &&
        hq_put(made, 5, PyBool_FromLong(link.writes)) &&
        hq_put(made, 6, PyBool_FromLong(link.atomics)) &&
        hq_put(made, 7, PyUnicode_FromString(link.reason)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
get_link_bytes(PyObject *self, PyObject *object)
{
    struct hq_device *d = (struct hq_device *)self, *other;
    struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};
    PyObject *made;

    if (hq_enter(d) < 0 || !(other = other_device(object)) ||
        hq_check(d, hcq_device_link_bytes(d->dev, other->dev, &bytes)) < 0)
        return NULL;
    made = PyStructSequence_New(hq.link_bytes);
    if (made && hq_put(made, 0, PyLong_FromUnsignedLongLong(bytes.copy_read)) &&
        hq_put(made, 1, PyLong_FromUnsignedLongLong(bytes.copy_written)) &&
        hq_put(made, 2, PyLong_FromUnsignedLongLong(bytes.kernel_read)) &&
        hq_put(made, 3, PyLong_FromUnsignedLongLong(bytes.kernel_written)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

/* A fact as an item of a dict. */
static bell_status
keep_fact(void *user, const struct hcq_fact *fact)
{
    PyObject *value = fact->data ? PyBytes_FromStringAndSize(
                                       fact->data, (Py_ssize_t)fact->size_bytes)
                                 : PyLong_FromUnsignedLongLong(fact->value);

    if (value)
        (void)PyDict_SetItemString(user, fact->name, value);
    Py_XDECREF(value);
    return BELL_OK; /* the exception is seen by who asked */
}

static PyObject *
device_facts(PyObject *self, PyObject *unused)
{
    struct hq_device *d = (struct hq_device *)self;
    PyObject *made;

    (void)unused;
    if (hq_enter(d) < 0 || !(made = PyDict_New()))
        return NULL;
    if (hq_check(d, hcq_device_facts(d->dev, keep_fact, made)) < 0 ||
        PyErr_Occurred())
        Py_CLEAR(made);
    return made;
}

static PyObject *
enumerate_devices(PyObject *module, PyObject *unused)
{
    struct hcq_device_desc descs[64];
    PyObject *made;
    bell_status status;
    PyThreadState *thread;
    size_t n = 0, i;

    (void)module;
    (void)unused;
    thread = PyEval_SaveThread();
    status = hcq_device_enumerate(descs, 64, &n);
    PyEval_RestoreThread(thread);
    if (py_check(status) < 0)
        return NULL;
    n = n < 64 ? n : 64;
    made = PyList_New((Py_ssize_t)n);
    for (i = 0; made && i < n; i++) {
        PyObject *row = Py_BuildValue(
            "{s:s,s:s,s:s,s:O,s:s}", "name", descs[i].name, "description",
            descs[i].description, "backend", descs[i].backend, "usable",
            descs[i].usable ? Py_True : Py_False, "why_not", descs[i].why_not);

        if (!row || PyList_SetItem(made, (Py_ssize_t)i, row) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* ---- attributes ---- */

static PyObject *
three_sizes(const uint32_t numbers[3])
{
    return Py_BuildValue("III", (unsigned)numbers[0], (unsigned)numbers[1],
                         (unsigned)numbers[2]);
}

static PyObject *
device_info(PyObject *self, void *unused)
{
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    PyObject *made;

    (void)unused;
    if (hq_enter(d) < 0)
        return NULL;
    hcq_device_info(d->dev, &info);
    made = PyStructSequence_New(hq.info);
    if (made && hq_put(made, 0, PyUnicode_FromString(info.name)) &&
        hq_put(made, 1, PyUnicode_FromString(info.backend)) &&
        hq_put(made, 2, PyUnicode_FromString(info.arch)) &&
        hq_put(made, 3, PyUnicode_FromString(info.model)) &&
        hq_put(made, 4,
               PyBool_FromLong((info.flags & HCQ_DEVICE_SIMULATED) != 0)) &&
        hq_put(made, 5,
               PyBool_FromLong((info.flags & HCQ_DEVICE_HOST_MEMORY) != 0)) &&
        hq_put(made, 6,
               PyBool_FromLong((info.flags & HCQ_DEVICE_POLL_MASKS) != 0)) &&
        hq_put(made, 7, PyLong_FromUnsignedLong(info.n_units)) &&
        hq_put(made, 8, three_sizes(info.max_grid)) &&
        hq_put(made, 9, three_sizes(info.max_local)) &&
        hq_put(made, 10, PyLong_FromUnsignedLong(info.max_local_total)) &&
        hq_put(made, 11, PyLong_FromUnsignedLong(info.max_shared_bytes)) &&
        hq_put(made, 12, PyLong_FromUnsignedLong(info.max_args)) &&
        hq_put(made, 13, PyLong_FromUnsignedLongLong(info.memory_bytes)) &&
        hq_put(made, 14, PyLong_FromUnsignedLongLong(info.max_buffer_bytes)) &&
        hq_put(made, 15, PyLong_FromUnsignedLongLong(info.timestamp_hz)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyObject *
device_name(PyObject *self, void *unused)
{
    struct hq_device *d = (struct hq_device *)self;

    (void)unused;
    return hq_enter(d) < 0 ? NULL
                           : PyUnicode_FromString(hcq_device_name(d->dev));
}

static PyObject *
device_fault(PyObject *self, void *unused)
{
    struct hq_device *d = (struct hq_device *)self;

    (void)unused;
    return hq_enter(d) < 0 ? NULL : make_fault(d->dev);
}

static PyObject *
get_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!((struct hq_device *)self)->dev);
}

static PyObject *
repr_device(PyObject *self)
{
    struct hq_device *d = (struct hq_device *)self;

    return d->dev ? PyUnicode_FromFormat("<doorbell.hcq.Device %s>",
                                         hcq_device_name(d->dev))
                  : PyUnicode_FromString("<doorbell.hcq.Device, closed>");
}

static PyMethodDef device_methods[] = {
    {"__enter__", enter_device, METH_NOARGS, NULL},
    {"__exit__", exit_device, METH_VARARGS, NULL},
    {"close", close_open_device, METH_NOARGS,
     "close($self)\n--\n\nStops the device; all that is its own ends. Work "
     "that "
     "is queued is dropped."},
    {"buffer", HQ_CALL(hq_device_buffer), METH_VARARGS | METH_KEYWORDS,
     "buffer($self, n_bytes, *, host_visible=False, shareable=False, "
     "poison=False)\n--\n\nMemory that the device can address.\n\n"
     ">>> with hcq.Device('CPU') as dev:\n"
     "...     x = dev.buffer(8, host_visible=True)\n"
     "...     x.write(b'doorbell')\n"
     "...     bytes(memoryview(x)[4:])\n"
     "b'bell'"},
    {"pin", hq_device_pin, METH_O,
     "pin($self, data, /)\n--\n\nMakes the memory of a writable buffer, such "
     "as "
     "a bytearray, addressable\nby the device: nothing is copied."},
    {"peer", hq_device_peer, METH_O,
     "peer($self, buffer, /)\n--\n\nA buffer of another device, as this one "
     "sees "
     "it: the same memory."},
    {"import_fd", HQ_CALL(hq_device_import), METH_VARARGS | METH_KEYWORDS,
     "import_fd($self, fd, n_bytes, offset=0)\n--\n\nMemory behind a "
     "descriptor "
     "that Buffer.export_fd, or another driver, gave."},
    {"program", HQ_CALL(hq_device_program), METH_VARARGS | METH_KEYWORDS,
     "program($self, binary, name, *, n_bufs, n_vals=0, entry=None, "
     "local=None, shared_bytes=0, group_ns=0)\n--\n\nLoads a kernel's binary: "
     "an "
     "ELF object, a cubin, a code object. It takes\nn_bufs addresses, then "
     "n_vals "
     "numbers."},
    {"signal", HQ_CALL(hq_device_signal), METH_VARARGS | METH_KEYWORDS,
     "signal($self, value=0)\n--\n\nA 64-bit value and a timestamp that host "
     "and "
     "device see.\n\n"
     ">>> with hcq.Device('CPU') as dev:\n"
     "...     s = dev.signal(3)\n"
     "...     s.value = 5\n"
     "...     s.wait(4)\n"
     "...     s.value\n"
     "5"},
    {"queue", HQ_CALL(hq_device_queue), METH_VARARGS | METH_KEYWORDS,
     "queue($self, kind='compute', *, ring_bytes=0, engines=0, "
     "submit_timeout=None)\n--\n\nA queue: 'compute' takes every command, "
     "'copy' "
     "all but exec."},
    {"synchronize", HQ_CALL(synchronize), METH_VARARGS | METH_KEYWORDS,
     "synchronize($self, timeout=None)\n--\n\nWaits for all that was "
     "submitted. "
     "Without a timeout it waits as long as the device moves."},
    {"recover", recover, METH_NOARGS,
     "recover($self)\n--\n\nBrings a lost or hung device back. Buffers and "
     "programs stay."},
    {"check", check_status, METH_NOARGS,
     "check($self)\n--\n\nRaises LostError if the device is lost."},
    {"set_timeout", set_still_limit, METH_O,
     "set_timeout($self, seconds, /)\n--\n\nHow long the device may stand "
     "still "
     "in waits without a timeout."},
    {"ns", ticks_to_ns, METH_O,
     "ns($self, ticks, /)\n--\n\nA timestamp as nanoseconds of the host's "
     "clock."},
    {"clock_mhz", clock_mhz, METH_NOARGS,
     "clock_mhz($self)\n--\n\nThe frequency that it runs at."},
    {"memory_usage", memory_usage, METH_NOARGS,
     "memory_usage($self)\n--\n\nBytes of live buffers, and of memory kept for "
     "reuse."},
    {"memory_trim", memory_trim, METH_NOARGS,
     "memory_trim($self)\n--\n\nGives memory that is kept for reuse back."},
    {"link", get_link, METH_O,
     "link($self, other, /)\n--\n\nHow this device reaches the memory of "
     "another."},
    {"link_bytes", get_link_bytes, METH_O,
     "link_bytes($self, other, /)\n--\n\nBytes of the other device's memory "
     "that simulated cards have moved."},
    {"facts", device_facts, METH_NOARGS,
     "facts($self)\n--\n\nNumbers that the driver knows of the card: classes, "
     "engines."},
    {0},
};
static PyGetSetDef device_getset[] = {
    {"info", device_info, NULL, "What the device is and can.", NULL},
    {"name", device_name, NULL, "The name that opens it: 'CPU:0'.", NULL},
    {"fault", device_fault, NULL, "Why it was lost; of kind 'none': it is not.",
     NULL},
    {"closed", get_closed, NULL, "Whether it was closed.", NULL},
    {0},
};
static PyType_Slot device_slots[] = {
    {Py_tp_doc, "Device(name=None)\n--\n\nOpens a device: 'CPU', 'NV:0', "
                "'AMD@sim:gfx1100', 'NV@null:h100'.\n\n"
                ">>> with hcq.Device('AMD@sim:gfx1100') as dev:\n"
                "...     dev.info.arch, dev.info.simulated\n"
                "('gfx1100', True)"},
    {Py_tp_new, (void *)new_device},
    {Py_tp_dealloc, (void *)dealloc_device},
    {Py_tp_repr, (void *)repr_device},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getset},
    {0, NULL},
};
static PyType_Spec device_spec = {
    .name = "doorbell.hcq.Device",
    .basicsize = sizeof(struct hq_device),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = device_slots,
};

/* ---- structures ---- */

static PyStructSequence_Field info_fields[] = {
    {"name", "opens it"},
    {"backend", NULL},
    {"arch", "what to compile for"},
    {"model", "for people"},
    {"simulated", "no hardware is behind it"},
    {"host_memory", "every buffer is visible to the host"},
    {"poll_masks", "polls may look at some bits alone"},
    {"n_units", "worker threads, SMs, compute units"},
    {"max_grid", "work-groups per axis"},
    {"max_local", "work-items per axis of a work-group"},
    {"max_local_total", "work-items of a work-group"},
    {"max_shared_bytes", "of a work-group"},
    {"max_args", "words of one exec"},
    {"memory_bytes", NULL},
    {"max_buffer_bytes", NULL},
    {"timestamp_hz", NULL},
    {0},
};
static PyStructSequence_Field fault_fields[] = {
    {"kind", "none, memory, instruction, arithmetic, stream, interface, reset"},
    {"va", "the address that faulted, or the code's"},
    {"first_group", "the fault is in [first, last) of the grid"},
    {"last_group", NULL},
    {"program", "kernel, or the command"},
    {"queue", NULL},
    {"text", "all of it as one line"},
    {0},
};
static PyStructSequence_Field link_fields[] = {
    {"kind", "none, host, self, pcie, bar1, nvlink, xgmi"},
    {"hops", NULL},
    {"engines", "copy engines that suit it best, a bit each"},
    {"bytes_per_s", "at most; 0: not known"},
    {"reads", NULL},
    {"writes", NULL},
    {"atomics", NULL},
    {"reason", "why not directly, or where the facts are from"},
    {0},
};
static PyStructSequence_Field link_bytes_fields[] = {
    {"copy_read", NULL},
    {"copy_written", NULL},
    {"kernel_read", NULL},
    {"kernel_written", NULL},
    {0},
};
static PyStructSequence_Desc info_desc = {
    "doorbell.hcq.DeviceInfo", "What a device is and can.", info_fields, 16};
static PyStructSequence_Desc fault_desc = {
    "doorbell.hcq.Fault", "Why a device was lost.", fault_fields, 7};
static PyStructSequence_Desc link_desc = {
    "doorbell.hcq.Link", "How a device reaches another's memory.", link_fields,
    8};
static PyStructSequence_Desc link_bytes_desc = {
    "doorbell.hcq.LinkBytes", "What simulated cards have moved.",
    link_bytes_fields, 4};

static PyMethodDef functions[] = {
    {"enumerate", enumerate_devices, METH_NOARGS,
     "enumerate()\n--\n\nThe devices of every backend, usable or not.\n\n"
     ">>> [row['usable'] for row in hcq.enumerate() if row['name'] == "
     "'CPU:0']\n"
     "[True]"},
    {0},
};

int
hq_device_init(PyObject *module)
{
    hq.device = hq_add_type(module, &device_spec);
    hq.info = hq_add_tuple(module, &info_desc);
    hq.fault = hq_add_tuple(module, &fault_desc);
    hq.link = hq_add_tuple(module, &link_desc);
    hq.link_bytes = hq_add_tuple(module, &link_bytes_desc);
    return hq.device && hq.info && hq.fault && hq.link && hq.link_bytes
               ? PyModule_AddFunctions(module, functions)
               : -1;
}
