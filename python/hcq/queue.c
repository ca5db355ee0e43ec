/* Queues, fresh command streams and bound ones. */
#include "python/hcq/hq.h"

#include <stdlib.h>
#include <string.h>

#include "hcq/hcq_facts.h"

/* ---- one thread at a time ---- */

int
hq_queue_enter(struct hq_queue *q)
{
    if (hq_enter(q->device) < 0)
        return -1;
    if (!q->line) {
        hq_wrong_state("the queue was closed");
        return -1;
    }
    return 0;
}

int
hq_queue_take(struct hq_queue *q)
{
    unsigned long self = PyThread_get_thread_ident();

    while (hq_queue_enter(q) == 0) {
        if (!q->line->busy) {
            PyThread_acquire_lock(q->line->lock, WAIT_LOCK);
            q->line->busy = true;
            q->line->owner = self;
            return 0;
        }
        if (q->line->owner == self) { /* a handler, or a finalizer */
            hq_wrong_state("this thread is in a call of the queue already");
            return -1;
        }
        q->device->n_waits++; /* which keeps the line */
        Py_BEGIN_ALLOW_THREADS;
        PyThread_acquire_lock(q->line->lock, WAIT_LOCK);
        PyThread_release_lock(q->line->lock);
        Py_END_ALLOW_THREADS;
        q->device->n_waits--;
    }
    return -1;
}

void
hq_queue_give(struct hq_queue *q)
{
    q->line->busy = false;
    PyThread_release_lock(q->line->lock);
}

/* A call that may wait for room, or run kernels itself. */
static struct hq_call
begin_submission(struct hq_queue *q)
{
    return hq_begin_call(q->device, false);
}

/* ---- the queue ---- */

static enum hcq_queue_kind
queue_kind_of(const char *text)
{
    return strcmp(text, "compute") == 0 ? HCQ_QUEUE_COMPUTE
           : strcmp(text, "copy") == 0  ? HCQ_QUEUE_COPY
                                        : HCQ_QUEUE_KIND_COUNT;
}

static struct hq_line *
make_line(struct hcq_queue *queue)
{
    struct hq_line *line = calloc(1, sizeof(*line));

    if (!line)
        return NULL;
    line->queue = queue;
    line->lock = PyThread_allocate_lock();
    if (line->lock)
        return line;
    free(line);
    return NULL;
}

PyObject *
hq_device_queue(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"kind", "ring_bytes", "engines", "submit_timeout",
                            NULL};
    struct hq_device *d = (struct hq_device *)self;
    struct hcq_queue_desc desc = {.struct_size = sizeof(desc)};
    const char *kind = "compute";
    unsigned ring_bytes = 0, engines = 0;
    PyObject *seconds = Py_None;
    struct hcq_queue *queue = NULL;
    struct hq_queue *made;
    struct hq_call call;
    bell_status status;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|s$IIO:queue", names, &kind,
                                     &ring_bytes, &engines, &seconds) ||
        hq_timeout(seconds, &desc.submit_timeout_ns) < 0 || hq_enter(d) < 0)
        return NULL;
    desc.kind = queue_kind_of(kind);
    desc.ring_size_bytes = ring_bytes;
    desc.engines = engines;
    if (desc.kind == HCQ_QUEUE_KIND_COUNT)
        return PyErr_Format(PyExc_ValueError,
                            "queue: kind is 'compute' or 'copy', got '%s'",
                            kind);
    call = hq_begin_call(d, false);
    status = hcq_queue_create_with(d->dev, &desc, &queue);
    hq_end_call(&call);
    if (hq_check(d, status) < 0)
        return NULL;
    made = PyObject_New(struct hq_queue, hq.queue);
    if (made) {
        made->device = (struct hq_device *)Py_NewRef(self);
        made->line = make_line(queue);
    }
    if (!made || !made->line) {
        hcq_queue_destroy(queue);
        Py_XDECREF((PyObject *)made);
        return made ? PyErr_NoMemory() : NULL;
    }
    made->line->next = d->lines;
    d->lines = made->line;
    return (PyObject *)made;
}

static void
dealloc_queue(PyObject *self)
{
    struct hq_queue *q = (struct hq_queue *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (q->device->dev && q->line)
        hq_end_later(q->device, HQ_QUEUE, q->line, NULL);
    Py_DECREF((PyObject *)q->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *
wait_queue(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"timeout", NULL};
    struct hq_queue *q = (struct hq_queue *)self;
    PyObject *seconds = Py_None;
    uint64_t timeout_ns;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O:wait", names, &seconds) ||
        hq_timeout(seconds, &timeout_ns) < 0 || hq_queue_enter(q) < 0 ||
        hq_wait(q->device, hcq_queue_timeline(q->line->queue),
                q->line->submitted, timeout_ns) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
queue_name(PyObject *self, void *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;

    (void)unused;
    return hq_queue_enter(q) < 0
               ? NULL
               : PyUnicode_FromString(hcq_queue_name(q->line->queue));
}

static PyObject *
queue_submitted(PyObject *self, void *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;

    (void)unused;
    return hq_queue_enter(q) < 0
               ? NULL
               : PyLong_FromUnsignedLongLong(q->line->submitted);
}

static PyObject *
queue_idle(PyObject *self, void *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;

    (void)unused;
    return hq_queue_enter(q) < 0
               ? NULL
               : PyBool_FromLong(hcq_signal_value(hcq_queue_timeline(
                                     q->line->queue)) >= q->line->submitted);
}

static PyObject *
queue_timeline(PyObject *self, void *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;

    (void)unused;
    return hq_queue_enter(q) < 0
               ? NULL
               : hq_signal_wrap(q->device, hcq_queue_timeline(q->line->queue),
                                self);
}

static PyObject *
queue_has_words(PyObject *self, void *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;

    (void)unused;
    return hq_queue_enter(q) < 0
               ? NULL
               : PyBool_FromLong(hcq_queue_has_words(q->line->queue));
}

static PyObject *
queue_device(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((struct hq_queue *)self)->device);
}

/* ---- streams that take commands ---- */

static struct hq_commands *
make_commands(PyTypeObject *type, struct hq_queue *q)
{
    struct hq_commands *made = PyObject_New(struct hq_commands, type);

    if (!made)
        return NULL;
    made->queue = (struct hq_queue *)Py_NewRef((PyObject *)q);
    made->cs = NULL;
    made->stream = NULL;
    made->kept = PyList_New(0);
    if (!made->kept) {
        Py_DECREF((PyObject *)made);
        return NULL;
    }
    return made;
}

static PyObject *
begin_commands(PyObject *self, PyObject *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;
    struct hq_commands *made;

    (void)unused;
    if (hq_queue_take(q) < 0)
        return NULL;
    hcq_cs_discard(q->line->orphan); /* nobody has it any more */
    q->line->orphan = NULL;
    made = make_commands(hq.commands, q);
    if (made &&
        hq_check(q->device, hcq_queue_begin(q->line->queue, &made->cs)) < 0) {
        made->cs = NULL;
        Py_CLEAR(made);
    }
    hq_queue_give(q);
    return (PyObject *)made;
}

static PyObject *
make_stream(PyObject *self, PyObject *args)
{
    struct hq_queue *q = (struct hq_queue *)self;
    struct hq_commands *made;
    const char *name;

    if (!PyArg_ParseTuple(args, "s:stream", &name) || hq_queue_take(q) < 0)
        return NULL;
    made = make_commands(hq.stream, q);
    if (made && hq_check(q->device, hcq_stream_create(q->line->queue, name,
                                                      &made->stream)) < 0) {
        made->stream = NULL;
        Py_CLEAR(made);
    }
    if (made)
        made->cs = hcq_stream_cs(made->stream);
    hq_queue_give(q);
    return (PyObject *)made;
}

static void
dealloc_commands(PyObject *self)
{
    struct hq_commands *c = (struct hq_commands *)self;
    PyTypeObject *type = Py_TYPE(self);
    struct hq_queue *q = c->queue;

    if (c->stream && q->device->dev && q->line) {
        hq_end_later(q->device, HQ_STREAM, c->stream, Py_NewRef((PyObject *)q));
    } else if (c->cs && q->device->dev && q->line) {
        q->line->orphan = c->cs;
    }
    Py_XDECREF(c->kept);
    Py_DECREF((PyObject *)q);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Before a command: the stream takes some. The queue is taken. */
static int
take_commands(struct hq_commands *c)
{
    if (hq_queue_take(c->queue) < 0)
        return -1;
    if (c->cs)
        return 0;
    hq_queue_give(c->queue);
    hq_wrong_state("the stream takes no more commands: it was ended, "
                   "submitted or discarded");
    return -1;
}

/* Behind it: its error is told at once. */
static PyObject *
told(struct hq_commands *c)
{
    int done = hq_check(c->queue->device, hcq_cs_end(c->cs));

    hq_queue_give(c->queue);
    if (done < 0)
        return NULL;
    return Py_NewRef((PyObject *)c);
}

static int
keep(struct hq_commands *c, PyObject *object)
{
    return PyLong_Check(object) ? 0 : PyList_Append(c->kept, object);
}

static PyObject *
add_copy(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"dst", "src", "n_bytes", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    PyObject *dst, *src;
    uint64_t to, from, n;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OOO&:copy", names, &dst,
                                     &src, hq_u64, &n) ||
        hq_address(dst, &to) < 0 || hq_address(src, &from) < 0 ||
        keep(c, dst) < 0 || keep(c, src) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_copy(c->cs, to, from, n);
    return told(c);
}

static PyObject *
add_fill(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"dst", "pattern", "n_bytes", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    uint64_t to, pattern, n;
    PyObject *dst;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OO&O&:fill", names, &dst,
                                     hq_u64, &pattern, hq_u64, &n))
        return NULL;
    if (pattern > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "fill: the pattern has 32 bits");
    if (hq_address(dst, &to) < 0 || keep(c, dst) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_fill(c->cs, to, (uint32_t)pattern, n);
    return told(c);
}

static PyObject *
add_write(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"dst", "value", "bits", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    uint64_t to, value;
    unsigned bits = 64;
    PyObject *dst;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OO&|I:write", names, &dst,
                                     hq_u64, &value, &bits))
        return NULL;
    if ((bits != 32 && bits != 64) || (bits == 32 && value > UINT32_MAX))
        return PyErr_Format(PyExc_ValueError,
                            "write: a value of 32 or 64 bits, got %u bits",
                            bits);
    if (hq_address(dst, &to) < 0 || keep(c, dst) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_write(c->cs, to, value, bits);
    return told(c);
}

static PyObject *
add_poll(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"va", "value", "mask", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    uint64_t at, value, mask = UINT32_MAX;
    PyObject *va;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OO&|O&:poll", names, &va,
                                     hq_u64, &value, hq_u64, &mask))
        return NULL;
    if (value > UINT32_MAX || mask > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError,
                            "poll: value and mask have 32 bits");
    if (hq_address(va, &at) < 0 || keep(c, va) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_poll(c->cs, at, (uint32_t)mask, (uint32_t)value);
    return told(c);
}

static PyObject *
add_wait(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"signal", "value", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    struct hcq_signal *sig;
    PyObject *object;
    uint64_t value;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OO&:wait", names, &object,
                                     hq_u64, &value) ||
        !(sig = hq_signal_of(object)) || keep(c, object) < 0 ||
        take_commands(c) < 0)
        return NULL;
    hcq_cs_wait(c->cs, sig, value);
    return told(c);
}

static PyObject *
add_signal(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"signal", "value", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    struct hcq_signal *sig;
    PyObject *object;
    uint64_t value;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OO&:signal", names, &object,
                                     hq_u64, &value) ||
        !(sig = hq_signal_of(object)) || keep(c, object) < 0 ||
        take_commands(c) < 0)
        return NULL;
    hcq_cs_signal(c->cs, sig, value);
    return told(c);
}

static PyObject *
add_timestamp(PyObject *self, PyObject *object)
{
    struct hq_commands *c = (struct hq_commands *)self;
    struct hcq_signal *sig = hq_signal_of(object);

    if (!sig || keep(c, object) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_timestamp(c->cs, sig);
    return told(c);
}

static PyObject *
add_barrier(PyObject *self, PyObject *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;

    (void)unused;
    if (take_commands(c) < 0)
        return NULL;
    hcq_cs_barrier(c->cs);
    return told(c);
}

static PyObject *
add_exec(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"program", "args", "grid", "local", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    PyObject *object, *list, *grid_of, *local_of = Py_None, *all;
    uint64_t words[HCQ_ARGS_MAX];
    uint32_t grid[3], local[3];
    struct hcq_program *prog;
    Py_ssize_t n, i;

    if (!PyArg_ParseTupleAndKeywords(args, named, "OOO|O:exec", names, &object,
                                     &list, &grid_of, &local_of) ||
        !(prog = hq_program_of(object)) ||
        hq_three(grid_of, "exec: grid", grid) < 0 ||
        (local_of != Py_None && hq_three(local_of, "exec: local", local) < 0) ||
        !(all = PySequence_Tuple(list)))
        return NULL;
    n = PyTuple_Size(all);
    if (n > HCQ_ARGS_MAX)
        PyErr_Format(PyExc_ValueError, "exec: %d arguments at most, got %zd",
                     HCQ_ARGS_MAX, n);
    for (i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GetItem(all, i);

        /* a number may be negative: as two's complement */
        if (PyLong_Check(item))
            words[i] = PyLong_AsUnsignedLongLongMask(item);
        else if (hq_address(item, &words[i]) == 0)
            (void)keep(c, item);
    }
    Py_DECREF(all);
    if (PyErr_Occurred() || keep(c, object) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_exec(c->cs, prog, words, (uint32_t)n, grid,
                local_of == Py_None ? NULL : local);
    return told(c);
}

static int
put_words(struct hq_commands *c, PyObject *object, bool unchecked)
{
    Py_ssize_t n;
    uint32_t *words = hq_words_of(object, &n);
    int done = -1;

    if (words && n > HCQ_WORDS_MAX)
        PyErr_Format(py.classes[BELL_REASON_SIZE],
                     "words: %zd at once; %d are possible", n, HCQ_WORDS_MAX);
    if (!words || PyErr_Occurred() || take_commands(c) < 0) {
        PyMem_Free(words);
        return -1;
    }
    hcq_cs_words(c->cs, words, (uint32_t)n,
                 unchecked ? HCQ_WORDS_UNCHECKED : 0);
    done = hq_check(c->queue->device, hcq_cs_end(c->cs));
    PyMem_Free(words);
    hq_queue_give(c->queue);
    return done;
}

static PyObject *
add_words(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"words", "unchecked", NULL};
    PyObject *words;
    int unchecked = 0;

    if (!PyArg_ParseTupleAndKeywords(args, named, "O|$p:words", names, &words,
                                     &unchecked) ||
        put_words((struct hq_commands *)self, words, unchecked) < 0)
        return NULL;
    return Py_NewRef(self);
}

/* What an argument of a packet is, or has, that addresses are of. */
static int
keep_all(struct hq_commands *c, PyObject *value)
{
    Py_ssize_t i;

    if (!PyList_Check(value) && !PyTuple_Check(value))
        return PyUnicode_Check(value) ? 0 : keep(c, value);
    for (i = 0; i < PySequence_Size(value); i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int done = !item ? -1 : PyUnicode_Check(item) ? 0 : keep(c, item);

        Py_XDECREF(item);
        if (done < 0)
            return -1;
    }
    return 0;
}

static PyObject *
add_packet(PyObject *self, PyObject *args, PyObject *named)
{
    struct hq_commands *c = (struct hq_commands *)self;
    PyObject *words = hq_queue_pack((PyObject *)c->queue, args, named), *value;
    PyObject *key;
    Py_ssize_t at = 0;
    int done;

    if (!words)
        return NULL;
    done = keep_all(c, args);
    while (done == 0 && named && PyDict_Next(named, &at, &key, &value))
        done = keep_all(c, value);
    if (done == 0)
        done = put_words(c, words, false);
    Py_DECREF(words);
    return done < 0 ? NULL : Py_NewRef(self);
}

/* ---- looking at them ---- */

struct listing {
    struct hq_queue *queue;
    PyObject *list;
};

static void
list_command(void *user, const struct hcq_command *command)
{
    const struct listing *to = user;
    PyObject *line;

    if (PyErr_Occurred())
        return;
    line = PyUnicode_FromString(command->text);
    if (line)
        (void)PyList_Append(to->list, line);
    Py_XDECREF(line);
    if (line && command->words)
        (void)hq_decode_to(to->queue, command->words, command->n_words, "  ",
                           to->list);
}

static PyObject *
decode_commands(PyObject *self, PyObject *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;
    struct listing listing = {.queue = c->queue};
    struct hcq_cs *cs;

    (void)unused;
    if (hq_queue_take(c->queue) < 0)
        return NULL;
    cs = c->stream ? hcq_stream_cs(c->stream) : c->cs;
    if (!cs) {
        hq_wrong_state("decode: the stream was submitted or discarded");
    } else if ((listing.list = PyList_New(0)) != NULL) {
        hcq_cs_tell(cs, list_command, &listing);
        if (PyErr_Occurred())
            Py_CLEAR(listing.list);
    }
    hq_queue_give(c->queue);
    return listing.list;
}

/* ---- fresh streams ---- */

static PyObject *
submit_commands(PyObject *self, PyObject *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;
    struct hq_queue *q = c->queue;
    struct hq_call call;
    uint64_t value = 0;
    bell_status status;

    (void)unused;
    if (take_commands(c) < 0)
        return NULL;
    call = begin_submission(q);
    status = hcq_cs_submit(c->cs, &value);
    hq_end_call(&call);
    c->cs = NULL; /* gone, also where that failed */
    if (status == BELL_OK)
        q->line->submitted = value;
    hq_queue_give(q);
    (void)PyList_SetSlice(c->kept, 0, PyList_Size(c->kept), NULL);
    if (hq_check(q->device, status) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *
discard_commands(PyObject *self, PyObject *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;

    (void)unused;
    if (hq_queue_take(c->queue) < 0)
        return NULL;
    hcq_cs_discard(c->cs);
    c->cs = NULL;
    hq_queue_give(c->queue);
    Py_RETURN_NONE;
}

static PyObject *
enter_commands(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* Submits, unless the block failed or did so itself. */
static PyObject *
exit_commands(PyObject *self, PyObject *args)
{
    struct hq_commands *c = (struct hq_commands *)self;
    PyObject *type = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    PyObject *done;

    if (!c->cs)
        Py_RETURN_FALSE;
    if (type && type != Py_None && !c->queue->device->dev)
        Py_RETURN_FALSE;
    done = type && type != Py_None ? discard_commands(self, NULL)
                                   : submit_commands(self, NULL);
    if (!done)
        return NULL;
    Py_DECREF(done);
    Py_RETURN_FALSE;
}

#define HQ_EMITTERS                                                            \
    {"exec", HQ_CALL(add_exec), METH_VARARGS | METH_KEYWORDS,                  \
     "exec($self, program, args, grid, local=None)\n--\n\nRuns a kernel: "     \
     "buffers or addresses, then numbers."},                                   \
        {"copy", HQ_CALL(add_copy), METH_VARARGS | METH_KEYWORDS,              \
         "copy($self, dst, src, n_bytes)\n--\n\nCopies between buffers, or "   \
         "addresses, that do not overlap."},                                   \
        {"fill", HQ_CALL(add_fill), METH_VARARGS | METH_KEYWORDS,              \
         "fill($self, dst, pattern, n_bytes)\n--\n\nRepeats a pattern of 32 "  \
         "bits."},                                                             \
        {"write", HQ_CALL(add_write), METH_VARARGS | METH_KEYWORDS,            \
         "write($self, dst, value, bits=64)\n--\n\nStores a word of 32 or 64 " \
         "bits."},                                                             \
        {"poll", HQ_CALL(add_poll), METH_VARARGS | METH_KEYWORDS,              \
         "poll($self, va, value, mask=0xffffffff)\n--\n\nGoes on when the "    \
         "word at the address, masked, is the value."},                        \
        {"wait", HQ_CALL(add_wait), METH_VARARGS | METH_KEYWORDS,              \
         "wait($self, signal, value)\n--\n\nGoes on when the signal's value "  \
         "is at least that."},                                                 \
        {"signal", HQ_CALL(add_signal), METH_VARARGS | METH_KEYWORDS,          \
         "signal($self, signal, value)\n--\n\nStores the value when all "      \
         "commands before are done."},                                         \
        {"timestamp", add_timestamp, METH_O,                                   \
         "timestamp($self, signal, /)\n--\n\nWrites the time into the "        \
         "signal's timestamp when all commands\nbefore are done."},            \
        {"barrier", add_barrier, METH_NOARGS,                                  \
         "barrier($self)\n--\n\nCommands behind it see what was stored "       \
         "before."},                                                           \
        {"words", HQ_CALL(add_words), METH_VARARGS | METH_KEYWORDS,            \
         "words($self, words, *, unchecked=False)\n--\n\nWords of the card's " \
         "own, as numbers or bytes. They are decoded first, and\nrefused "     \
         "where they cannot be meant."},                                       \
        {"packet", HQ_CALL(add_packet), METH_VARARGS | METH_KEYWORDS,          \
         "packet($self, name, /, *words, **fields)\n--\n\nA packet, register " \
         "or method by its name and fields (Queue.pack)."},                    \
    {                                                                          \
        "decode", decode_commands, METH_NOARGS,                                \
            "decode($self)\n--\n\nThe commands so far as lines; words of the " \
            "card's own with their fields."                                    \
    }

static PyMethodDef commands_methods[] = {
    {"__enter__", enter_commands, METH_NOARGS, NULL},
    {"__exit__", exit_commands, METH_VARARGS, NULL},
    HQ_EMITTERS,
    {"submit", submit_commands, METH_NOARGS,
     "submit($self)\n--\n\nHands the commands to the device; the value that "
     "the "
     "queue's timeline has\nwhen they are done."},
    {"discard", discard_commands, METH_NOARGS,
     "discard($self)\n--\n\nEnds the stream; nothing is submitted."},
    {0},
};
static PyType_Slot commands_slots[] = {
    {Py_tp_doc,
     "A fresh command stream (Queue.begin). Each command returns the stream. "
     "The end\nof a with statement submits it."},
    {Py_tp_dealloc, (void *)dealloc_commands},
    {Py_tp_methods, commands_methods},
    {0, NULL},
};
static PyType_Spec commands_spec = {
    .name = "doorbell.hcq.Commands",
    .basicsize = sizeof(struct hq_commands),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = commands_slots,
};

/* ---- bound streams ---- */

static int
take_stream(struct hq_commands *c)
{
    if (hq_queue_take(c->queue) < 0)
        return -1;
    if (c->stream)
        return 0;
    hq_queue_give(c->queue);
    hq_wrong_state("the stream was closed");
    return -1;
}

static PyObject *
patch_point(PyObject *self, PyObject *args)
{
    struct hq_commands *c = (struct hq_commands *)self;
    const char *name;
    uint32_t point;

    if (!PyArg_ParseTuple(args, "s:patch_point", &name) || take_commands(c) < 0)
        return NULL;
    point = hcq_stream_patch_point(c->stream, name);
    if (point == HCQ_PATCH_NONE)
        return told(c);
    hq_queue_give(c->queue);
    return PyLong_FromUnsignedLong(point);
}

/* "arg2", "grid0" and the fields without a number. */
static int
field_of(const char *text, unsigned *out)
{
    static const struct {
        const char *name;
        unsigned field, count;
    } fields[] = {
        {"addr", HCQ_FIELD_ADDR, 0},
        {"value", HCQ_FIELD_VALUE, 0},
        {"mask", HCQ_FIELD_MASK, 0},
        {"dst", HCQ_FIELD_DST, 0},
        {"src", HCQ_FIELD_SRC, 0},
        {"size", HCQ_FIELD_SIZE, 0},
        {"grid", HCQ_FIELD_GRID, 3},
        {"local", HCQ_FIELD_LOCAL, 3},
        {"arg", HCQ_FIELD_ARG, HCQ_ARGS_MAX},
    };
    size_t i;

    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        size_t n = strlen(fields[i].name);
        unsigned long number = 0;
        char *end;

        if (strncmp(text, fields[i].name, n) != 0)
            continue;
        *out = fields[i].field;
        if (!fields[i].count && !text[n])
            return 0;
        if (!fields[i].count || text[n] < '0' || text[n] > '9')
            continue;
        number = strtoul(text + n, &end, 10);
        *out += (unsigned)number;
        if (!*end && number < fields[i].count)
            return 0;
    }
    PyErr_Format(py.classes[BELL_REASON_NAME],
                 "'%s': a field is addr, value, mask, dst, src, size, grid0 to "
                 "grid2, local0 to local2, or arg0 to arg%d",
                 text, HCQ_ARGS_MAX - 1);
    return -1;
}

static PyObject *
add_patch(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"field", "point", "addend", NULL};
    struct hq_commands *c = (struct hq_commands *)self;
    long long addend = 0;
    unsigned point, field;
    const char *text;

    if (!PyArg_ParseTupleAndKeywords(args, named, "sI|L:patch", names, &text,
                                     &point, &addend) ||
        field_of(text, &field) < 0 || take_commands(c) < 0)
        return NULL;
    hcq_cs_patch(c->cs, field, point, addend);
    return told(c);
}

static PyObject *
end_stream(PyObject *self, PyObject *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;
    int done;

    (void)unused;
    if (take_commands(c) < 0)
        return NULL;
    c->cs = NULL;
    done = hq_check(c->queue->device, hcq_stream_end(c->stream));
    hq_queue_give(c->queue);
    return done < 0 ? NULL : Py_NewRef(self);
}

/* set(point or its name, value) */
static PyObject *
set_patch(PyObject *self, PyObject *args)
{
    struct hq_commands *c = (struct hq_commands *)self;
    PyObject *point, *value;
    uint32_t number;
    uint64_t word;
    int done;

    if (!PyArg_ParseTuple(args, "OO:set", &point, &value) ||
        hq_address(value, &word) < 0 || take_stream(c) < 0)
        return NULL;
    if (PyUnicode_Check(point)) {
        const char *name = PyUnicode_AsUTF8AndSize(point, NULL);

        number = name ? hcq_stream_find_patch(c->stream, name) : HCQ_PATCH_NONE;
        if (name && number == HCQ_PATCH_NONE)
            PyErr_Format(py.classes[BELL_REASON_NAME],
                         "set: no patch point '%s'", name);
    } else {
        number = (uint32_t)PyLong_AsUnsignedLong(point);
    }
    done = PyErr_Occurred()
               ? -1
               : hq_check(c->queue->device,
                          hcq_stream_patch(c->stream, number, word));
    if (done == 0)
        done = keep(c, value); /* as long as the stream lives */
    hq_queue_give(c->queue);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
submit_stream(PyObject *self, PyObject *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;
    struct hq_queue *q = c->queue;
    struct hq_call call;
    uint64_t value = 0;
    bell_status status;

    (void)unused;
    if (take_stream(c) < 0)
        return NULL;
    call = begin_submission(q);
    status = hcq_stream_submit(c->stream, &value);
    hq_end_call(&call);
    if (status == BELL_OK)
        q->line->submitted = value;
    hq_queue_give(q);
    if (hq_check(q->device, status) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *
stream_busy(PyObject *self, void *unused)
{
    struct hq_commands *c = (struct hq_commands *)self;
    bool busy;

    (void)unused;
    if (take_stream(c) < 0)
        return NULL;
    busy = hcq_stream_busy(c->stream);
    hq_queue_give(c->queue);
    return PyBool_FromLong(busy);
}

static PyMethodDef stream_methods[] = {
    HQ_EMITTERS,
    {"patch_point", patch_point, METH_VARARGS,
     "patch_point($self, name, /)\n--\n\nA new value that may differ from one "
     "submission to the next."},
    {"patch", HQ_CALL(add_patch), METH_VARARGS | METH_KEYWORDS,
     "patch($self, field, point, addend=0)\n--\n\nMakes a field of the last "
     "command that point's value, plus the addend:\n'arg0', 'grid1', 'dst'."},
    {"end", end_stream, METH_NOARGS,
     "end($self)\n--\n\nEnds building; now it can be submitted."},
    {"set", set_patch, METH_VARARGS,
     "set($self, point, value, /)\n--\n\nGives a patch point, by number or "
     "name, its value. Not in flight."},
    {"submit", submit_stream, METH_NOARGS,
     "submit($self)\n--\n\nSubmits it, again and again; the timeline's value "
     "when it is done."},
    {0},
};
static PyGetSetDef stream_getset[] = {
    {"busy", stream_busy, NULL, "Whether a submission of it is not done.",
     NULL},
    {0},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_doc, "A bound stream (Queue.stream): built once, submitted many "
                "times."},
    {Py_tp_dealloc, (void *)dealloc_commands},
    {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_getset},
    {0, NULL},
};
static PyType_Spec stream_spec = {
    .name = "doorbell.hcq.Stream",
    .basicsize = sizeof(struct hq_commands),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stream_slots,
};

/* ---- the queue's type ---- */

static PyMethodDef queue_methods[] = {
    {"begin", begin_commands, METH_NOARGS,
     "begin($self)\n--\n\nStarts a fresh command stream; one at a time.\n\n"
     ">>> with hcq.Device('CPU') as dev:\n"
     "...     q = dev.queue()\n"
     "...     x = dev.buffer(8)\n"
     "...     with q.begin() as cs:\n"
     "...         _ = cs.fill(x, 0x01020304, 8)\n"
     "...     q.wait()\n"
     "...     x.read().hex()\n"
     "'0403020104030201'"},
    {"stream", make_stream, METH_VARARGS,
     "stream($self, name, /)\n--\n\nA stream that is built once and submitted "
     "many times."},
    {"wait", HQ_CALL(wait_queue), METH_VARARGS | METH_KEYWORDS,
     "wait($self, timeout=None)\n--\n\nWaits until all that was submitted to "
     "the "
     "queue is done."},
    {"pack", HQ_CALL(hq_queue_pack), METH_VARARGS | METH_KEYWORDS,
     "pack($self, name, /, *words, **fields)\n--\n\nThe words of a packet, "
     "register or method. A field's value is a number, a\nname of one, a "
     "buffer; "
     "of an array a list. Words follow a packet.\n\n"
     ">>> with hcq.Device('AMD@sim:gfx1100') as dev:\n"
     "...     words = dev.queue().pack('WRITE_DATA', 7, DST_SEL='MEMORY', "
     "ADDRESS=0x1000)\n"
     ">>> hex(words[0]), words[-1]\n"
     "('0xc0033700', 7)"},
    {"block", HQ_CALL(hq_queue_block), METH_VARARGS | METH_KEYWORDS,
     "block($self, name, /, data=None, **fields)\n--\n\nA descriptor in memory "
     "as bytes: from `data` on, or from nothing on."},
    {"decode", hq_queue_decode, METH_O,
     "decode($self, words, /)\n--\n\nWords of the queue's own, numbers or "
     "bytes, "
     "as lines."},
    {"fields", hq_queue_fields, METH_O,
     "fields($self, name, /)\n--\n\nWhat fields a packet, register, method or "
     "descriptor has: bits, and names of\nvalues.\n\n"
     ">>> with hcq.Device('AMD@sim:gfx1100') as dev:\n"
     "...     dev.queue().fields('WRITE_DATA')['DST_SEL']['values']['MEMORY']\n"
     "5"},
    {"names", hq_queue_names, METH_NOARGS,
     "names($self)\n--\n\nAll packets, registers, methods and descriptors of "
     "the "
     "queue."},
    {0},
};
static PyGetSetDef queue_getset[] = {
    {"name", queue_name, NULL, "'CPU:0/compute0'.", NULL},
    {"submitted", queue_submitted, NULL,
     "What the timeline is when all that was submitted is done.", NULL},
    {"idle", queue_idle, NULL, "Whether it is.", NULL},
    {"timeline", queue_timeline, NULL,
     "The signal that submissions set to 1, 2, 3, ...", NULL},
    {"has_words", queue_has_words, NULL,
     "Whether it takes words of the card's own.", NULL},
    {"device", queue_device, NULL, "Its device.", NULL},
    {0},
};
static PyType_Slot queue_slots[] = {
    {Py_tp_doc, "A queue of a device (Device.queue). Its commands take effect "
                "in order."},
    {Py_tp_dealloc, (void *)dealloc_queue},
    {Py_tp_methods, queue_methods},
    {Py_tp_getset, queue_getset},
    {0, NULL},
};
static PyType_Spec queue_spec = {
    .name = "doorbell.hcq.Queue",
    .basicsize = sizeof(struct hq_queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = queue_slots,
};

int
hq_queue_init(PyObject *module)
{
    hq.queue = hq_add_type(module, &queue_spec);
    hq.commands = hq_add_type(module, &commands_spec);
    hq.stream = hq_add_type(module, &stream_spec);
    return hq.queue && hq.commands && hq.stream ? 0 : -1;
}
