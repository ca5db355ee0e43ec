/* Stepping through simulated cards: a card's thread waits at what is wanted,
 * and does what the interpreter's thread asks it for, as what it shows is its
 * own. */
#include "python/hcq/hq.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hcq/decode/decode_queue.h"
#include "hcq/hcq_facts.h"
#include "ioctl/sim_step.h"

#define SLICE_NS      50000000 /* between looks at signals */
#define REGISTERS_MAX 4096u
#define READ_MAX      (1u << 20)

static const char *const kinds[SIM_STOP_COUNT] = {"submit", "packet", "kernel",
                                                  "wave", "instruction"};
static const char *const formats[] = {"",     "nv-ring", "nv",   "pm4",
                                      "sdma", "aql",     "code", "qmd"};

enum request {
    ASK_NOTHING,
    ASK_READ,
    ASK_REGISTERS
};

/* Stepping belongs to the process. `lock` guards it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t card, user;
    bool is_on, is_held, goes_on;
    uint64_t n_stops; /* so far: which one is held */
    struct sim_place place;
    char queue[64], kernel[HCQ_NAME_MAX], text[160];
    uint32_t words[SIM_STEP_DW];
    enum request request;
    uint64_t va;
    uint8_t *bytes; /* of the request; owned */
    uint32_t n_bytes;
    bool is_mapped;
    struct sim_register *registers; /* of the request; owned */
    uint32_t n_registers;
} at = {.lock = PTHREAD_MUTEX_INITIALIZER,
        .card = PTHREAD_COND_INITIALIZER,
        .user = PTHREAD_COND_INITIALIZER};

/* A call asks the card: `at.bytes` and `at.registers` are its own. Guarded by
 * the interpreter's lock. */
static bool asks;

struct hq_step {
    PyObject_HEAD struct hq_device *device; /* NULL: closed */
};

/* ---- the card's thread ---- */

static void
keep_place(const struct sim_place *place)
{
    at.place = *place;
    snprintf(at.queue, sizeof(at.queue), "%s",
             place->queue ? place->queue : "");
    snprintf(at.kernel, sizeof(at.kernel), "%s",
             place->kernel ? place->kernel : "");
    at.text[0] = '\0';
    if (place->text)
        snprintf(at.text, sizeof(at.text), "%.*s",
                 (int)strcspn(place->text, "\n"), place->text);
    at.place.n_words =
        place->n_words < SIM_STEP_DW ? place->n_words : SIM_STEP_DW;
    if (at.place.n_words)
        memcpy(at.words, place->words, at.place.n_words * sizeof(*at.words));
}

static void
answer(const struct sim_place *place)
{
    if (at.request == ASK_READ)
        at.is_mapped = place->read(place, at.va, at.bytes, at.n_bytes);
    for (at.n_registers = 0;
         at.request == ASK_REGISTERS && at.n_registers < REGISTERS_MAX &&
         place->find_register(place, at.n_registers,
                              &at.registers[at.n_registers]);)
        at.n_registers++;
    at.request = ASK_NOTHING;
    pthread_cond_broadcast(&at.user);
}

static void
come_to(void *user, const struct sim_place *place)
{
    (void)user;
    pthread_mutex_lock(&at.lock);
    if (at.is_on) {
        keep_place(place);
        at.n_stops++;
        at.is_held = true;
        at.goes_on = false;
        pthread_cond_broadcast(&at.user);
        while (at.is_on && !at.goes_on) {
            if (at.request != ASK_NOTHING)
                answer(place);
            else
                pthread_cond_wait(&at.card, &at.lock);
        }
        at.is_held = false;
        at.request = ASK_NOTHING;
        pthread_cond_broadcast(&at.user);
    }
    pthread_mutex_unlock(&at.lock);
}

/* ---- the interpreter's thread ---- */

static uint32_t
bits_of(PyObject *stops)
{
    PyObject *all = PyUnicode_Check(stops) ? PyTuple_Pack(1, stops)
                                           : PySequence_Tuple(stops);
    uint32_t bits = 0;
    Py_ssize_t i;
    int k;

    for (i = 0; all && i < PyTuple_Size(all) && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GetItem(all, i);

        for (k = 0; k < SIM_STOP_COUNT; k++) {
            if (PyUnicode_Check(item) &&
                PyUnicode_CompareWithASCIIString(item, kinds[k]) == 0)
                break;
        }
        if (k == SIM_STOP_COUNT)
            PyErr_Format(PyExc_ValueError,
                         "stops: submit, packet, kernel, wave or instruction "
                         "expected, got %R",
                         item);
        else
            bits |= 1u << k;
    }
    Py_XDECREF(all);
    return PyErr_Occurred() ? 0 : bits;
}

static PyObject *
new_step(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"device", "stops", NULL};
    PyObject *device, *stops = NULL;
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hq_step *made;
    struct hq_device *d;
    uint32_t bits = 1u << SIM_STOP_PACKET;
    bool was_on;

    if (!PyArg_ParseTupleAndKeywords(args, named, "O!|O:Step", names, hq.device,
                                     &device, &stops) ||
        hq_enter((struct hq_device *)device) < 0 ||
        (stops && !(bits = bits_of(stops)) && PyErr_Occurred()))
        return NULL;
    d = (struct hq_device *)device;
    hcq_device_info(d->dev, &info);
    if (!(info.flags & HCQ_DEVICE_SIMULATED)) {
        PyErr_Format(py.classes[BELL_REASON_UNSUPPORTED],
                     "%s is not simulated: it cannot be stepped through",
                     hcq_device_name(d->dev));
        return NULL;
    }
    made = hq_new(type);
    if (!made)
        return NULL;
    made->device = NULL;
    pthread_mutex_lock(&at.lock);
    was_on = at.is_on;
    at.is_on = true;
    pthread_mutex_unlock(&at.lock);
    if (was_on) {
        hq_wrong_state("somebody steps already: one at a time");
        Py_DECREF((PyObject *)made);
        return NULL;
    }
    made->device = (struct hq_device *)Py_NewRef(device);
    d->n_steps++;
    hcq_device_wait_forever(d->dev);
    sim_step_begin(come_to, NULL, bits);
    return (PyObject *)made;
}

/* Cards run on; nobody is held any more. */
static void
end_step(struct hq_step *s)
{
    struct hq_device *d = s->device;

    if (!d)
        return;
    s->device = NULL;
    pthread_mutex_lock(&at.lock);
    at.is_on = false;
    pthread_cond_broadcast(&at.card);
    pthread_mutex_unlock(&at.lock);
    Py_BEGIN_ALLOW_THREADS;
    sim_step_end();
    Py_END_ALLOW_THREADS;
    d->n_steps--;
    free(at.bytes);
    free(at.registers);
    at.bytes = NULL;
    at.registers = NULL;
    Py_DECREF((PyObject *)d);
}

static void
dealloc_step(PyObject *self)
{
    end_step((struct hq_step *)self);
    hq_free(self);
}

static int
step_is_on(struct hq_step *s)
{
    if (s->device && !asks)
        return 0;
    hq_wrong_state(s->device ? "another thread asks the card"
                             : "stepping was ended");
    return -1;
}

static PyObject *
close_step(PyObject *self, PyObject *args)
{
    struct hq_step *s = (struct hq_step *)self;

    (void)args;
    if (s->device && step_is_on(s) < 0)
        return NULL;
    end_step(s);
    Py_RETURN_NONE;
}

static PyObject *
enter_step(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *
sizes_at(const uint32_t n[3])
{
    return Py_BuildValue("III", (unsigned)n[0], (unsigned)n[1], (unsigned)n[2]);
}

/* The place that is held. The lock is held. */
static PyObject *
make_stop(struct hq_step *s)
{
    const struct sim_place *place = &at.place;
    PyObject *made = PyStructSequence_New(hq.stop);
    PyObject *words = PyTuple_New((Py_ssize_t)place->n_words);
    uint32_t i;

    if (!at.kernel[0] && place->kind >= SIM_STOP_KERNEL && s->device->dev &&
        place->kind == SIM_STOP_KERNEL)
        (void)hcq_program_name_at(s->device->dev, place->va, at.kernel);
    for (i = 0; words && i < place->n_words; i++) {
        if (!hq_put(words, (Py_ssize_t)i, PyLong_FromUnsignedLong(at.words[i])))
            Py_CLEAR(words);
    }
    if (made && hq_put(made, 0, PyUnicode_FromString(kinds[place->kind])) &&
        hq_put(made, 1, PyUnicode_FromString(at.queue)) &&
        hq_put(made, 2, PyLong_FromUnsignedLongLong(place->va)) &&
        hq_put(made, 3, PyUnicode_FromString(formats[place->format])) &&
        hq_put(made, 4, words) &&
        hq_put(made, 5, PyUnicode_FromString(at.kernel)) &&
        hq_put(made, 6, sizes_at(place->grid)) &&
        hq_put(made, 7, sizes_at(place->local)) &&
        hq_put(made, 8, sizes_at(place->group)) &&
        hq_put(made, 9, PyLong_FromUnsignedLong(place->wave)) &&
        hq_put(made, 10, PyUnicode_FromString(at.text)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static struct timespec
slice_end(void)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += SLICE_NS;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    return end;
}

/* Waits up to a slice for the stop behind number `seen`. */
static bool
wait_slice(uint64_t seen)
{
    struct timespec end = slice_end();
    int error = 0;
    bool came;

    pthread_mutex_lock(&at.lock);
    while (!(came = at.is_held && at.n_stops > seen) && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&at.user, &at.lock, &end);
    pthread_mutex_unlock(&at.lock);
    return came;
}

/* next(timeout): lets the card go on; the stop that comes next, or None */
static PyObject *
next_stop(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"timeout", NULL};
    struct hq_step *s = (struct hq_step *)self;
    PyObject *seconds = Py_None, *made;
    uint64_t timeout_ns, waited_ns = 0, seen;
    bool came = false;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O:next", names, &seconds) ||
        hq_timeout(seconds, &timeout_ns) < 0 || step_is_on(s) < 0)
        return NULL;
    if (seconds == Py_None)
        timeout_ns = 1000000000ull;
    pthread_mutex_lock(&at.lock);
    seen = at.n_stops;
    if (at.is_held) {
        at.goes_on = true;
        pthread_cond_broadcast(&at.card);
    }
    pthread_mutex_unlock(&at.lock);
    while (!came && waited_ns <= timeout_ns) {
        Py_BEGIN_ALLOW_THREADS;
        came = wait_slice(seen);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() < 0)
            return NULL;
        waited_ns += SLICE_NS;
    }
    if (!came || step_is_on(s) < 0)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    pthread_mutex_lock(&at.lock);
    made = make_stop(s);
    pthread_mutex_unlock(&at.lock);
    return made;
}

/* Has the card's thread do what is asked; -1 with an exception: none is
 * held. */
static int
ask_card(enum request request)
{
    bool done = false;

    asks = true;
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&at.lock);
    if (at.is_held && !at.goes_on) {
        at.request = request;
        pthread_cond_broadcast(&at.card);
        while (at.request != ASK_NOTHING && at.is_held)
            pthread_cond_wait(&at.user, &at.lock);
        done = at.is_held;
    }
    pthread_mutex_unlock(&at.lock);
    Py_END_ALLOW_THREADS;
    asks = false;
    if (done)
        return 0;
    hq_wrong_state("no card is held: run to something first");
    return -1;
}

static PyObject *
read_memory(PyObject *self, PyObject *args)
{
    struct hq_step *s = (struct hq_step *)self;
    unsigned n_bytes;
    PyObject *where;
    uint64_t va;

    if (!PyArg_ParseTuple(args, "OI:read", &where, &n_bytes) ||
        hq_address(where, &va) < 0 || step_is_on(s) < 0)
        return NULL;
    if (n_bytes > READ_MAX)
        return PyErr_Format(PyExc_ValueError, "read: %u bytes at most",
                            READ_MAX);
    free(at.bytes);
    at.bytes = calloc(n_bytes + 1, 1);
    if (!at.bytes)
        return PyErr_NoMemory();
    at.va = va;
    at.n_bytes = n_bytes;
    if (ask_card(ASK_READ) < 0)
        return NULL;
    if (at.is_mapped)
        return PyBytes_FromStringAndSize((const char *)at.bytes,
                                         (Py_ssize_t)n_bytes);
    PyErr_Format(py.classes[BELL_REASON_INDEX],
                 "read: %R and %u bytes: not all of it is mapped", where,
                 n_bytes);
    return NULL;
}

/* A queue's register by the name that the queue's words have for it. */
static PyObject *
name_of_register(const struct regs_stream *stream,
                 const struct sim_register *of)
{
    const struct regs_unit *unit = stream->common;
    unsigned gen = stream->common_gen, element = 0, dw = 0;
    const struct regs_type *type = NULL;

    if (of->name[0])
        return PyUnicode_FromString(of->name);
    if (of->slot < REGS_SLOTS && stream->slots[of->slot]) {
        unit = stream->slots[of->slot];
        gen = stream->slot_gens[of->slot];
    }
    if (unit)
        type = regs_by_address(unit, gen, of->number, &element, &dw);
    if (!type)
        return PyUnicode_FromFormat("0x%x", (unsigned)of->number);
    if (type->count > 1)
        return PyUnicode_FromFormat("%s[%u]", type->name, element);
    return dw ? PyUnicode_FromFormat("%s+%u", type->name, dw)
              : PyUnicode_FromString(type->name);
}

static PyObject *
value_of_register(const struct sim_register *of)
{
    PyObject *made;
    uint32_t i;

    if (of->n_lanes <= 1)
        return PyLong_FromUnsignedLongLong(of->values[0]);
    made = PyTuple_New((Py_ssize_t)of->n_lanes);
    for (i = 0; made && i < of->n_lanes; i++) {
        if (!hq_put(made, (Py_ssize_t)i,
                    of->defined >> i & 1
                        ? PyLong_FromUnsignedLongLong(of->values[i])
                        : Py_NewRef(Py_None)))
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *
registers(PyObject *self, PyObject *args)
{
    struct hq_step *s = (struct hq_step *)self;
    struct regs_stream stream = {0};
    PyObject *queue = Py_None, *made;
    uint32_t i;

    if (!PyArg_ParseTuple(args, "|O:registers", &queue) || step_is_on(s) < 0)
        return NULL;
    if (queue != Py_None && Py_TYPE(queue) != hq.queue)
        return PyErr_Format(PyExc_TypeError, "registers: a Queue is expected");
    if (queue != Py_None && hq_queue_enter((struct hq_queue *)queue) < 0)
        return NULL;
    if (queue != Py_None)
        (void)decode_queue_init(&stream,
                                ((struct hq_queue *)queue)->line->queue);
    free(at.registers);
    at.registers = calloc(REGISTERS_MAX, sizeof(*at.registers));
    if (!at.registers)
        return PyErr_NoMemory();
    if (ask_card(ASK_REGISTERS) < 0)
        return NULL;
    made = PyDict_New();
    for (i = 0; made && i < at.n_registers; i++) {
        const struct sim_register *of = &at.registers[i];
        PyObject *name, *value;

        if (!of->defined)
            continue;
        name = name_of_register(&stream, of);
        value = name ? value_of_register(of) : NULL;
        if (!value || PyDict_SetItem(made, name, value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return made;
}

static PyObject *
want(PyObject *self, PyObject *stops)
{
    struct hq_step *s = (struct hq_step *)self;
    uint32_t bits = bits_of(stops);

    if (PyErr_Occurred() || step_is_on(s) < 0)
        return NULL;
    sim_step_want(bits);
    Py_RETURN_NONE;
}

static PyMethodDef step_methods[] = {
    {"__enter__", enter_step, METH_NOARGS, NULL},
    {"__exit__", close_step, METH_VARARGS, NULL},
    {"close", close_step, METH_NOARGS,
     "close($self)\n--\n\nLets cards run on."},
    {"next", HQ_CALL(next_stop), METH_VARARGS | METH_KEYWORDS,
     "next($self, timeout=1.0)\n--\n\nLets the card that is held go on; the "
     "stop that comes next, or None."},
    {"read", read_memory, METH_VARARGS,
     "read($self, va, n_bytes, /)\n--\n\nMemory as the queue that is held sees "
     "it."},
    {"registers", registers, METH_VARARGS,
     "registers($self, queue=None, /)\n--\n\nRegisters of the wave or queue "
     "that is held; with a queue by their names.\nVector registers are "
     "tuples of lanes, None where a lane has no value."},
    {"want", want, METH_O,
     "want($self, stops, /)\n--\n\nWhere cards stop from now on."},
    {0},
};
static PyType_Slot step_slots[] = {
    {Py_tp_doc, "The handle of a Step."},
    {Py_tp_new, (void *)new_step},
    {Py_tp_dealloc, (void *)dealloc_step},
    {Py_tp_methods, step_methods},
    {0, NULL},
};
static PyType_Spec step_spec = {
    .name = "doorbell.hcq.StepBase",
    .basicsize = sizeof(struct hq_step),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_BASETYPE,
    .slots = step_slots,
};

static PyStructSequence_Field stop_fields[] = {
    {"kind", "submit, packet, kernel, wave, instruction"},
    {"queue", "of the card: 'channel 0x4'"},
    {"va", "of the words; of a kernel, its code"},
    {"format", "what the words are: nv, nv-ring, pm4, sdma, aql, code, qmd"},
    {"words", NULL},
    {"kernel", "its name, or ''"},
    {"grid", NULL},
    {"local", NULL},
    {"group", "of a wave and an instruction"},
    {"wave", NULL},
    {"text", "of an instruction"},
    {0},
};
static PyStructSequence_Desc stop_desc = {
    "doorbell.hcq.Stop", "Where a simulated card is held.", stop_fields, 11};

int
hq_step_init(PyObject *module)
{
    hq.step = hq_add_type(module, &step_spec);
    hq.stop = hq_add_tuple(module, &stop_desc);
    return hq.step && hq.stop ? 0 : -1;
}
