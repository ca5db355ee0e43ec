/* Buffers, programs and signals of a device. */
#include "python/hcq/hq.h"

#include <stdio.h>
#include <string.h>

#include "hcq/hcq_facts.h"

/* Copies of at least so much let other threads run. */
#define LARGE_BYTES (1u << 16)

/* ---- buffers ---- */

PyObject *
hq_buffer_wrap(struct hq_device *d, struct hcq_buffer *buf, PyObject *keep)
{
    struct hq_buffer *made = PyObject_New(struct hq_buffer, hq.buffer);

    if (!made) {
        hcq_buffer_destroy(buf);
        Py_XDECREF(keep);
        return NULL;
    }
    made->device = (struct hq_device *)Py_NewRef((PyObject *)d);
    made->buf = buf;
    made->keep = keep;
    made->n_exports = 0;
    return (PyObject *)made;
}

static int
enter_buffer(struct hq_buffer *b)
{
    if (hq_enter(b->device) < 0)
        return -1;
    if (!b->buf) {
        hq_wrong_state("the buffer was closed");
        return -1;
    }
    return 0;
}

static void
dealloc_buffer(PyObject *self)
{
    struct hq_buffer *b = (struct hq_buffer *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (b->buf && b->device->dev)
        hq_end_later(b->device, HQ_BUFFER, b->buf, b->keep);
    else
        Py_XDECREF(b->keep);
    Py_DECREF((PyObject *)b->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* It may still be used by work that was submitted. */
static PyObject *
close_buffer(PyObject *self, PyObject *unused)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    (void)unused;
    if (!b->buf)
        Py_RETURN_NONE;
    if (b->n_exports) {
        PyErr_Format(PyExc_BufferError,
                     "close: %u views or copies of the buffer are in use",
                     (unsigned)b->n_exports);
        return NULL;
    }
    if (b->device->dev)
        hq_end_later(b->device, HQ_BUFFER, b->buf, b->keep);
    else
        Py_XDECREF(b->keep);
    b->buf = NULL;
    b->keep = NULL;
    Py_RETURN_NONE;
}

static int
check_range(const struct hq_buffer *b, const char *call, long long offset,
            long long n)
{
    if (offset >= 0 && n >= 0 && (uint64_t)offset <= b->buf->size_bytes &&
        (uint64_t)n <= b->buf->size_bytes - (uint64_t)offset)
        return 0;
    PyErr_Format(py.classes[BELL_REASON_INDEX],
                 "%s: %lld bytes from %lld of a buffer of %llu", call, n,
                 offset, (unsigned long long)b->buf->size_bytes);
    return -1;
}

static bell_status
move_bytes(struct hq_buffer *b, bool writes, uint64_t offset, void *data,
           uint64_t n)
{
    struct hq_call call;
    bell_status status;

    if (n < LARGE_BYTES)
        return writes ? hcq_buffer_write(b->buf, offset, data, n)
                      : hcq_buffer_read(b->buf, offset, data, n);
    b->n_exports++; /* it is not closed meanwhile */
    call = hq_begin_call(b->device, false);
    status = writes ? hcq_buffer_write(b->buf, offset, data, n)
                    : hcq_buffer_read(b->buf, offset, data, n);
    hq_end_call(&call);
    b->n_exports--;
    return status;
}

static PyObject *
read_buffer(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"n_bytes", "offset", NULL};
    struct hq_buffer *b = (struct hq_buffer *)self;
    long long n = -1, offset = 0;
    PyObject *made;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|LL:read", names, &n,
                                     &offset) ||
        enter_buffer(b) < 0)
        return NULL;
    if (n == -1 && offset >= 0)
        n = (long long)b->buf->size_bytes - offset;
    if (check_range(b, "read", offset, n) < 0)
        return NULL;
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    if (made && hq_check(b->device,
                         move_bytes(b, false, (uint64_t)offset,
                                    PyBytes_AsString(made), (uint64_t)n)) < 0)
        Py_CLEAR(made);
    return made;
}

static PyObject *
write_buffer(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"data", "offset", NULL};
    struct hq_buffer *b = (struct hq_buffer *)self;
    long long offset = 0;
    Py_buffer view;
    int done;

    if (!PyArg_ParseTupleAndKeywords(args, named, "y*|L:write", names, &view,
                                     &offset))
        return NULL;
    done = enter_buffer(b) < 0 ? -1 : check_range(b, "write", offset, view.len);
    if (done == 0)
        done = hq_check(b->device, move_bytes(b, true, (uint64_t)offset,
                                              view.buf, (uint64_t)view.len));
    PyBuffer_Release(&view);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
wrote(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"n_bytes", "offset", NULL};
    struct hq_buffer *b = (struct hq_buffer *)self;
    long long n = -1, offset = 0;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|LL:wrote", names, &n,
                                     &offset) ||
        enter_buffer(b) < 0)
        return NULL;
    if (n == -1 && offset >= 0)
        n = (long long)b->buf->size_bytes - offset;
    if (check_range(b, "wrote", offset, n) < 0 ||
        hq_check(b->device,
                 hcq_buffer_wrote(b->buf, (uint64_t)offset, (uint64_t)n)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
export_fd(PyObject *self, PyObject *unused)
{
    struct hq_buffer *b = (struct hq_buffer *)self;
    int fd;

    (void)unused;
    if (enter_buffer(b) < 0 ||
        hq_check(b->device, hcq_buffer_export(b->buf, &fd)) < 0)
        return NULL;
    return PyLong_FromLong(fd);
}

static int
get_view(PyObject *self, Py_buffer *view, int flags)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    view->obj = NULL;
    if (enter_buffer(b) < 0)
        return -1;
    if (!b->buf->host && b->buf->size_bytes) {
        PyErr_SetString(PyExc_BufferError,
                        "the buffer is not visible to the host: make it with "
                        "host_visible=True, or use read and write");
        return -1;
    }
    if (PyBuffer_FillInfo(view, self, b->buf->host,
                          (Py_ssize_t)b->buf->size_bytes, 0, flags) < 0)
        return -1;
    b->n_exports++;
    b->device->n_exports++;
    return 0;
}

static void
release_view(PyObject *self, Py_buffer *view)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    (void)view;
    b->n_exports--;
    b->device->n_exports--;
}

static Py_ssize_t
length_of(PyObject *self)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    return enter_buffer(b) < 0 ? -1 : (Py_ssize_t)b->buf->size_bytes;
}

static PyObject *
get_va(PyObject *self, void *unused)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    (void)unused;
    return enter_buffer(b) < 0 ? NULL : PyLong_FromUnsignedLongLong(b->buf->va);
}

static PyObject *
get_visible(PyObject *self, void *unused)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    (void)unused;
    return enter_buffer(b) < 0 ? NULL : PyBool_FromLong(b->buf->host != NULL);
}

static PyObject *
buffer_device(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((struct hq_buffer *)self)->device);
}

static PyObject *
buffer_closed(PyObject *self, void *unused)
{
    struct hq_buffer *b = (struct hq_buffer *)self;

    (void)unused;
    return PyBool_FromLong(!b->buf || !b->device->dev);
}

static PyObject *
repr_buffer(PyObject *self)
{
    struct hq_buffer *b = (struct hq_buffer *)self;
    char text[96];

    if (!b->buf || !b->device->dev)
        return PyUnicode_FromString("<doorbell.hcq.Buffer, closed>");
    snprintf(
        text, sizeof(text), "<doorbell.hcq.Buffer of %llu bytes at 0x%llx>",
        (unsigned long long)b->buf->size_bytes, (unsigned long long)b->buf->va);
    return PyUnicode_FromString(text);
}

int
hq_address(PyObject *object, uint64_t *out_va)
{
    if (Py_TYPE(object) == hq.buffer) {
        if (enter_buffer((struct hq_buffer *)object) < 0)
            return -1;
        *out_va = ((struct hq_buffer *)object)->buf->va;
        return 0;
    }
    if (Py_TYPE(object) == hq.signal) {
        struct hcq_signal *sig = hq_signal_of(object);

        *out_va = sig ? sig->va : 0;
        return sig ? 0 : -1;
    }
    if (!PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError,
                     "an address is an int, a Buffer or a Signal, got %R",
                     (PyObject *)Py_TYPE(object));
        return -1;
    }
    *out_va = PyLong_AsUnsignedLongLong(object);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *
hq_device_buffer(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"n_bytes", "host_visible", "shareable", "poison",
                            NULL};
    struct hq_device *d = (struct hq_device *)self;
    int visible = 0, shareable = 0, poison = 0;
    struct hcq_buffer *buf;
    long long n;

    if (!PyArg_ParseTupleAndKeywords(args, named, "L|$ppp:buffer", names, &n,
                                     &visible, &shareable, &poison) ||
        hq_enter(d) < 0)
        return NULL;
    if (n < 0)
        return PyErr_Format(PyExc_ValueError,
                            "buffer: a size of at least 0 expected, got %lld",
                            n);
    if (hq_check(d, hcq_buffer_create(d->dev, (uint64_t)n,
                                      (visible ? HCQ_MEM_HOST_VISIBLE : 0u) |
                                          (shareable ? HCQ_MEM_SHAREABLE : 0u) |
                                          (poison ? HCQ_MEM_POISON : 0u),
                                      &buf)) < 0)
        return NULL;
    return hq_buffer_wrap(d, buf, NULL);
}

PyObject *
hq_device_pin(PyObject *self, PyObject *object)
{
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_buffer *buf;
    Py_buffer view;
    PyObject *keep;
    bell_status status;

    if (hq_enter(d) < 0 || PyObject_GetBuffer(object, &view, PyBUF_CONTIG) < 0)
        return NULL;
    keep = PyMemoryView_FromObject(object); /* which holds it in its place */
    status = keep ? hcq_buffer_create_pinned(d->dev, view.buf,
                                             (uint64_t)view.len, &buf)
                  : BELL_OK;
    PyBuffer_Release(&view);
    if (!keep)
        return NULL;
    if (hq_check(d, status) < 0) {
        Py_DECREF(keep);
        return NULL;
    }
    return hq_buffer_wrap(d, buf, keep);
}

PyObject *
hq_device_peer(PyObject *self, PyObject *object)
{
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_buffer *buf;

    if (Py_TYPE(object) != hq.buffer)
        return PyErr_Format(PyExc_TypeError,
                            "peer: a Buffer is expected, got "
                            "%R",
                            (PyObject *)Py_TYPE(object));
    if (hq_enter(d) < 0 || enter_buffer((struct hq_buffer *)object) < 0 ||
        hq_check(d, hcq_buffer_create_peer(
                        d->dev, ((struct hq_buffer *)object)->buf, &buf)) < 0)
        return NULL;
    return hq_buffer_wrap(d, buf, Py_NewRef(object));
}

PyObject *
hq_device_import(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"fd", "n_bytes", "offset", NULL};
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_buffer *buf;
    long long n, offset = 0;
    int fd;

    if (!PyArg_ParseTupleAndKeywords(args, named, "iL|L:import_fd", names, &fd,
                                     &n, &offset) ||
        hq_enter(d) < 0)
        return NULL;
    if (n < 0 || offset < 0)
        return PyErr_Format(PyExc_ValueError,
                            "import_fd: %lld bytes from %lld: both are at "
                            "least 0",
                            n, offset);
    if (hq_check(d, hcq_buffer_import(d->dev, fd, (uint64_t)offset, (uint64_t)n,
                                      &buf)) < 0)
        return NULL;
    return hq_buffer_wrap(d, buf, NULL);
}

static PyMethodDef buffer_methods[] = {
    {"close", close_buffer, METH_NOARGS,
     "close($self)\n--\n\nGives the memory back, once work that was submitted "
     "is done."},
    {"read", HQ_CALL(read_buffer), METH_VARARGS | METH_KEYWORDS,
     "read($self, n_bytes=-1, offset=0)\n--\n\nA copy as bytes; waits for no "
     "queue."},
    {"write", HQ_CALL(write_buffer), METH_VARARGS | METH_KEYWORDS,
     "write($self, data, offset=0)\n--\n\nCopies bytes or another buffer in; "
     "waits for no queue."},
    {"wrote", HQ_CALL(wrote), METH_VARARGS | METH_KEYWORDS,
     "wrote($self, n_bytes=-1, offset=0)\n--\n\nTells a recording what was "
     "stored through a view."},
    {"export_fd", export_fd, METH_NOARGS,
     "export_fd($self)\n--\n\nA descriptor of the memory for other processes "
     "and drivers; the caller\ncloses it. The buffer was made with "
     "shareable=True."},
    {0},
};
static PyGetSetDef buffer_getset[] = {
    {"va", get_va, NULL, "The device's address.", NULL},
    {"host_visible", get_visible, NULL,
     "Whether memoryview(buffer) shows the memory itself.", NULL},
    {"device", buffer_device, NULL, "Its device.", NULL},
    {"closed", buffer_closed, NULL, "Whether it, or the device, was closed.",
     NULL},
    {0},
};
static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, "Memory of a device (Device.buffer). memoryview() of one that "
                "the host sees is\nthe memory itself; len() is its size."},
    {Py_tp_dealloc, (void *)dealloc_buffer},
    {Py_tp_repr, (void *)repr_buffer},
    {Py_tp_methods, buffer_methods},
    {Py_tp_getset, buffer_getset},
    {Py_sq_length, (void *)length_of},
    {Py_bf_getbuffer, (void *)get_view},
    {Py_bf_releasebuffer, (void *)release_view},
    {0, NULL},
};
static PyType_Spec buffer_spec = {
    .name = "doorbell.hcq.Buffer",
    .basicsize = sizeof(struct hq_buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = buffer_slots,
};

/* ---- programs ---- */

PyObject *
hq_program_wrap(struct hq_device *d, struct hcq_program *prog)
{
    struct hq_program *made = PyObject_New(struct hq_program, hq.program);

    if (!made) {
        hcq_program_destroy(prog);
        return NULL;
    }
    made->device = (struct hq_device *)Py_NewRef((PyObject *)d);
    made->prog = prog;
    return (PyObject *)made;
}

struct hcq_program *
hq_program_of(PyObject *object)
{
    struct hq_program *p = (struct hq_program *)object;

    if (Py_TYPE(object) != hq.program) {
        PyErr_Format(PyExc_TypeError, "a Program is expected, got %R",
                     (PyObject *)Py_TYPE(object));
        return NULL;
    }
    return hq_enter(p->device) < 0 ? NULL : p->prog;
}

static void
dealloc_program(PyObject *self)
{
    struct hq_program *p = (struct hq_program *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (p->device->dev)
        hq_end_later(p->device, HQ_PROGRAM, p->prog, NULL);
    Py_DECREF((PyObject *)p->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *
hq_device_program(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"binary",       "name",     "n_bufs",
                            "n_vals",       "entry",    "local",
                            "shared_bytes", "group_ns", NULL};
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    unsigned n_bufs = UINT32_MAX, n_vals = 0, shared_bytes = 0;
    uint64_t group_ns = 0;
    PyObject *local = Py_None;
    struct hcq_program *prog;
    bell_status status = BELL_OK;
    struct hq_call call;
    Py_buffer binary;
    int done = 0;

    if (!PyArg_ParseTupleAndKeywords(args, named, "y*s|$IIzOIO&:program", names,
                                     &binary, &desc.name, &n_bufs, &n_vals,
                                     &desc.entry, &local, &shared_bytes, hq_u64,
                                     &group_ns))
        return NULL;
    desc.binary = binary.buf;
    desc.binary_size_bytes = (uint64_t)binary.len;
    desc.n_bufs = n_bufs;
    desc.n_vals = n_vals;
    desc.shared_bytes = shared_bytes;
    desc.group_ns = group_ns;
    if (local != Py_None)
        done = hq_three(local, "program: local", desc.local);
    if (n_bufs == UINT32_MAX) {
        PyErr_SetString(PyExc_TypeError,
                        "program: n_bufs, the number of buffers, is missing");
        done = -1;
    }
    if (done == 0)
        done = hq_enter(d);
    if (done == 0) {
        call = hq_begin_call(d, false);
        status = hcq_program_create(d->dev, &desc, &prog);
        hq_end_call(&call);
        done = hq_check(d, status);
    }
    PyBuffer_Release(&binary);
    return done < 0 ? NULL : hq_program_wrap(d, prog);
}

static bell_status
keep_program_fact(void *user, const struct hcq_fact *fact)
{
    PyObject *value = fact->data ? PyBytes_FromStringAndSize(
                                       fact->data, (Py_ssize_t)fact->size_bytes)
                                 : PyLong_FromUnsignedLongLong(fact->value);

    if (value)
        (void)PyDict_SetItemString(user, fact->name, value);
    Py_XDECREF(value);
    return BELL_OK;
}

static PyObject *
program_facts(PyObject *self, PyObject *unused)
{
    struct hq_program *p = (struct hq_program *)self;
    PyObject *made;

    (void)unused;
    if (!hq_program_of(self) || !(made = PyDict_New()))
        return NULL;
    if (hq_check(p->device,
                 hcq_program_facts(p->prog, keep_program_fact, made)) < 0 ||
        PyErr_Occurred())
        Py_CLEAR(made);
    return made;
}

static PyObject *
program_name(PyObject *self, void *unused)
{
    struct hcq_program *prog = hq_program_of(self);

    (void)unused;
    return prog ? PyUnicode_FromString(prog->name) : NULL;
}

static PyObject *
program_local(PyObject *self, void *unused)
{
    struct hcq_program *prog = hq_program_of(self);

    (void)unused;
    return prog ? Py_BuildValue("III", (unsigned)prog->local[0],
                                (unsigned)prog->local[1],
                                (unsigned)prog->local[2])
                : NULL;
}

static PyMethodDef program_methods[] = {
    {"facts", program_facts, METH_NOARGS,
     "facts($self)\n--\n\nWhat a launch is made from: addresses, registers, "
     "sizes, parts of its\ndescriptor as bytes."},
    {0},
};
static PyGetSetDef program_getset[] = {
    {"name", program_name, NULL, "Its name in reports.", NULL},
    {"local", program_local, NULL, "Fixed work-group size; zeros: any.", NULL},
    {0},
};
static PyType_Slot program_slots[] = {
    {Py_tp_doc, "A loaded kernel (Device.program)."},
    {Py_tp_dealloc, (void *)dealloc_program},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_getset},
    {0, NULL},
};
static PyType_Spec program_spec = {
    .name = "doorbell.hcq.Program",
    .basicsize = sizeof(struct hq_program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = program_slots,
};

/* ---- signals ---- */

PyObject *
hq_signal_wrap(struct hq_device *d, struct hcq_signal *sig, PyObject *queue)
{
    struct hq_signal *made = PyObject_New(struct hq_signal, hq.signal);

    if (!made) {
        if (!queue)
            hcq_signal_destroy(sig);
        return NULL;
    }
    made->device = (struct hq_device *)Py_NewRef((PyObject *)d);
    made->sig = sig;
    made->queue = Py_XNewRef(queue);
    return (PyObject *)made;
}

struct hcq_signal *
hq_signal_of(PyObject *object)
{
    struct hq_signal *s = (struct hq_signal *)object;

    if (Py_TYPE(object) != hq.signal) {
        PyErr_Format(PyExc_TypeError, "a Signal is expected, got %R",
                     (PyObject *)Py_TYPE(object));
        return NULL;
    }
    if (s->queue && hq_queue_enter((struct hq_queue *)s->queue) < 0)
        return NULL;
    return hq_enter(s->device) < 0 ? NULL : s->sig;
}

static void
dealloc_signal(PyObject *self)
{
    struct hq_signal *s = (struct hq_signal *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (s->device->dev && !s->queue)
        hq_end_later(s->device, HQ_SIGNAL, s->sig, NULL);
    Py_XDECREF(s->queue);
    Py_DECREF((PyObject *)s->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *
hq_device_signal(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"value", NULL};
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_signal *sig;
    uint64_t value = 0;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O&:signal", names, hq_u64,
                                     &value) ||
        hq_enter(d) < 0 ||
        hq_check(d, hcq_signal_create(d->dev, value, &sig)) < 0)
        return NULL;
    return hq_signal_wrap(d, sig, NULL);
}

static PyObject *
wait_signal(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"value", "timeout", NULL};
    PyObject *seconds = Py_None;
    struct hcq_signal *sig;
    uint64_t timeout_ns, value;

    if (!PyArg_ParseTupleAndKeywords(args, named, "O&|O:wait", names, hq_u64,
                                     &value, &seconds) ||
        hq_timeout(seconds, &timeout_ns) < 0 || !(sig = hq_signal_of(self)) ||
        hq_wait(((struct hq_signal *)self)->device, sig, value, timeout_ns) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
get_value(PyObject *self, void *unused)
{
    struct hcq_signal *sig = hq_signal_of(self);

    (void)unused;
    return sig ? PyLong_FromUnsignedLongLong(hcq_signal_value(sig)) : NULL;
}

static int
set_value(PyObject *self, PyObject *value, void *unused)
{
    struct hcq_signal *sig = hq_signal_of(self);
    unsigned long long number;

    (void)unused;
    if (!sig)
        return -1;
    if (!value || sig->owned_by_queue) {
        hq_wrong_state(value ? "a queue sets its timeline"
                             : "the value of a signal cannot be deleted");
        return -1;
    }
    number = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred())
        return -1;
    hcq_signal_set(sig, number);
    return 0;
}

static PyObject *
get_timestamp(PyObject *self, void *unused)
{
    struct hcq_signal *sig = hq_signal_of(self);

    (void)unused;
    return sig ? PyLong_FromUnsignedLongLong(hcq_signal_timestamp(sig)) : NULL;
}

static PyObject *
signal_va(PyObject *self, void *unused)
{
    struct hcq_signal *sig = hq_signal_of(self);

    (void)unused;
    return sig ? PyLong_FromUnsignedLongLong(sig->va) : NULL;
}

static PyMethodDef signal_methods[] = {
    {"wait", HQ_CALL(wait_signal), METH_VARARGS | METH_KEYWORDS,
     "wait($self, value, timeout=None)\n--\n\nWaits until the value is that "
     "much. TimeoutError carries a report of what\nthe device's queues do; "
     "Ctrl-C ends it, and it can be waited for again."},
    {0},
};
static PyGetSetDef signal_getset[] = {
    {"value", get_value, set_value, "The value now.", NULL},
    {"timestamp", get_timestamp, NULL,
     "Ticks that the last timestamp command wrote (Device.ns).", NULL},
    {"va", signal_va, NULL, "The device's address of the value.", NULL},
    {0},
};
static PyType_Slot signal_slots[] = {
    {Py_tp_doc, "A value that host and device see (Device.signal)."},
    {Py_tp_dealloc, (void *)dealloc_signal},
    {Py_tp_methods, signal_methods},
    {Py_tp_getset, signal_getset},
    {0, NULL},
};
static PyType_Spec signal_spec = {
    .name = "doorbell.hcq.Signal",
    .basicsize = sizeof(struct hq_signal),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = signal_slots,
};

int
hq_memory_init(PyObject *module)
{
    hq.buffer = hq_add_type(module, &buffer_spec);
    hq.program = hq_add_type(module, &program_spec);
    hq.signal = hq_add_type(module, &signal_spec);
    return hq.buffer && hq.program && hq.signal ? 0 : -1;
}
