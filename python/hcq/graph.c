/* Graphs: kernels, copies and fills that are submitted as one. */
#include "python/hcq/hq.h"

#include <stdlib.h>
#include <string.h>

#include "hcq/hcq_facts.h"

struct hq_graph {
    PyObject_HEAD PyObject *queues; /* tuple */
    struct hcq_graph *graph;
    PyObject *kept; /* list: what commands use */
    bool is_ended;
};

static struct hq_queue *
queue_at(const struct hq_graph *g, Py_ssize_t i)
{
    return (struct hq_queue *)PyTuple_GetItem(g->queues, i);
}

/* Gives back the first n queues. */
static void
give_queues(struct hq_graph *g, Py_ssize_t n)
{
    while (n > 0)
        hq_queue_give(queue_at(g, --n));
}

/* All queues are this thread's. They are taken in the order of their
 * addresses, so that two threads with the same queues do not wait for each
 * other: the tuple is sorted so. */
static int
take_queues(struct hq_graph *g)
{
    Py_ssize_t n = PyTuple_Size(g->queues), i;

    for (i = 0; i < n; i++) {
        if (hq_queue_take(queue_at(g, i)) < 0) {
            give_queues(g, i);
            return -1;
        }
    }
    return 0;
}

static int
compare_queues(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (PyObject *const *)a;
    uintptr_t y = (uintptr_t) * (PyObject *const *)b;

    return x < y ? -1 : x > y;
}

/* The queues as a sorted tuple. */
static PyObject *
sort_queues(PyObject *list, Py_ssize_t n)
{
    PyObject *items[HCQ_GRAPH_QUEUES_MAX], *made = PyTuple_New(n);
    Py_ssize_t i;

    for (i = 0; i < n; i++)
        items[i] = PyTuple_GetItem(list, i);
    qsort(items, (size_t)n, sizeof(*items), compare_queues);
    for (i = 0; made && i < n; i++)
        (void)PyTuple_SetItem(made, i, Py_NewRef(items[i]));
    return made;
}

static PyObject *
new_graph(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"queues", "name", "trusted", NULL};
    struct hcq_queue *handles[HCQ_GRAPH_QUEUES_MAX];
    struct hcq_graph_desc desc = {.struct_size = sizeof(desc)};
    struct hq_device *first = NULL;
    PyObject *queues, *list;
    struct hq_graph *made;
    int trusted = 0;
    Py_ssize_t n, i;

    desc.name = "graph";
    if (!PyArg_ParseTupleAndKeywords(args, named, "O|s$p:Graph", names, &queues,
                                     &desc.name, &trusted) ||
        !(list = PySequence_Tuple(queues)))
        return NULL;
    n = PyTuple_Size(list);
    if (n < 1 || n > HCQ_GRAPH_QUEUES_MAX)
        PyErr_Format(PyExc_ValueError,
                     "Graph: 1 to %d queues expected, got "
                     "%zd",
                     HCQ_GRAPH_QUEUES_MAX, n);
    for (i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GetItem(list, i);

        if (Py_TYPE(item) != hq.queue)
            PyErr_Format(PyExc_TypeError, "Graph: a Queue is expected, got %R",
                         (PyObject *)Py_TYPE(item));
        else if (hq_queue_enter((struct hq_queue *)item) == 0)
            handles[i] = ((struct hq_queue *)item)->line->queue;
    }
    made = PyErr_Occurred() ? NULL : hq_new(type);
    if (!made) {
        Py_DECREF(list);
        return NULL;
    }
    first = ((struct hq_queue *)PyTuple_GetItem(list, 0))->device;
    made->graph = NULL;
    made->is_ended = false;
    made->kept = PyList_New(0);
    made->queues = sort_queues(list, n);
    desc.queues = handles;
    desc.n_queues = (uint32_t)n;
    desc.flags = trusted ? HCQ_GRAPH_TRUSTED : 0;
    if (!made->kept || !made->queues ||
        PyList_Append(made->kept, list) < 0 || /* the first comes first */
        hq_check(first, hcq_graph_create(&desc, &made->graph)) < 0) {
        made->graph = NULL;
        Py_CLEAR(made);
    }
    Py_DECREF(list);
    return (PyObject *)made;
}

/* The first queue, as it was given: submissions count there. */
static struct hq_queue *
first_queue(const struct hq_graph *g)
{
    return (struct hq_queue *)PyTuple_GetItem(PyList_GetItem(g->kept, 0), 0);
}

static bool
is_alive(const struct hq_graph *g)
{
    Py_ssize_t i;

    for (i = 0; i < PyTuple_Size(g->queues); i++) {
        if (!queue_at(g, i)->device->dev)
            return false;
    }
    return true;
}

/* It ends before its queues and what its commands use: `kept` has both. */
static void
dealloc_graph(PyObject *self)
{
    struct hq_graph *g = (struct hq_graph *)self;

    if (g->graph && is_alive(g)) {
        hq_end_later(first_queue(g)->device, HQ_GRAPH, g->graph, g->kept);
        g->kept = NULL;
    }
    Py_XDECREF(g->kept);
    Py_XDECREF(g->queues);
    hq_free(self);
}

/* Taken, and being built or ended as the call wants it. */
static int
take_graph(struct hq_graph *g, bool ended)
{
    if (take_queues(g) < 0)
        return -1;
    if (g->is_ended == ended)
        return 0;
    give_queues(g, PyTuple_Size(g->queues));
    hq_wrong_state(ended ? "the graph is not ended yet"
                         : "the graph takes no more commands: it was ended");
    return -1;
}

static PyObject *
give_graph(struct hq_graph *g, int done)
{
    give_queues(g, PyTuple_Size(g->queues));
    if (done < 0)
        return NULL;
    return Py_NewRef((PyObject *)g);
}

/* (access, slot, value, n_bytes, object): what doorbell.hcq makes of
 * arguments. */
static int
read_arg(struct hq_graph *g, PyObject *item, struct hcq_graph_arg *out)
{
    unsigned long long n_bytes;
    unsigned access;
    PyObject *keep, *address;
    long slot;
    uint64_t va = 0;

    if (!PyTuple_Check(item)) {
        PyErr_Format(PyExc_TypeError, "a graph's argument is expected, got %R",
                     (PyObject *)Py_TYPE(item));
        return -1;
    }
    if (!PyArg_ParseTuple(item, "IlOKO", &access, &slot, &address, &n_bytes,
                          &keep))
        return -1;
    if (PyLong_Check(address))
        va = PyLong_AsUnsignedLongLongMask(address);
    else if (hq_address(address, &va) < 0)
        return -1;
    if (PyErr_Occurred() ||
        (keep != Py_None && PyList_Append(g->kept, keep) < 0))
        return -1;
    *out = (struct hcq_graph_arg){
        .access = access,
        .slot = slot < 0 ? HCQ_SLOT_NONE : (uint32_t)slot,
        .value = va,
        .size_bytes = n_bytes,
    };
    return 0;
}

static PyObject *
graph_slot(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *device = Py_None;
    uint64_t n_bytes = 0;
    const char *name;
    uint32_t slot;

    if (!PyArg_ParseTuple(args, "s|O&O:slot", &name, hq_u64, &n_bytes, &device))
        return NULL;
    if (device != Py_None && Py_TYPE(device) != hq.device)
        return PyErr_Format(PyExc_TypeError, "slot: a Device is expected");
    if (take_graph(g, false) < 0)
        return NULL;
    slot = device == Py_None
               ? hcq_graph_slot(g->graph, name, n_bytes)
               : hcq_graph_slot_on(g->graph, name, n_bytes,
                                   ((struct hq_device *)device)->dev);
    give_queues(g, PyTuple_Size(g->queues));
    if (slot == HCQ_SLOT_NONE)
        return py_raise_last();
    return PyLong_FromUnsignedLong(slot);
}

static PyObject *
graph_view(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *device;
    unsigned slot;
    uint32_t view;

    if (!PyArg_ParseTuple(args, "IO!:view", &slot, hq.device, &device) ||
        hq_enter((struct hq_device *)device) < 0 || take_graph(g, false) < 0)
        return NULL;
    view = hcq_graph_view(g->graph, slot, ((struct hq_device *)device)->dev);
    give_queues(g, PyTuple_Size(g->queues));
    if (view == HCQ_SLOT_NONE)
        return py_raise_last();
    return PyLong_FromUnsignedLong(view);
}

static PyObject *
graph_exec(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *object, *list, *grid_of, *local_of, *all;
    struct hcq_graph_arg words[HCQ_ARGS_MAX];
    uint32_t grid[3], local[3];
    struct hcq_program *prog;
    Py_ssize_t n, i;

    if (!PyArg_ParseTuple(args, "OOOO:exec", &object, &list, &grid_of,
                          &local_of) ||
        !(prog = hq_program_of(object)) ||
        hq_three(grid_of, "exec: grid", grid) < 0 ||
        (local_of != Py_None && hq_three(local_of, "exec: local", local) < 0) ||
        !(all = PySequence_Tuple(list)))
        return NULL;
    n = PyTuple_Size(all);
    if (n > HCQ_ARGS_MAX)
        PyErr_Format(PyExc_ValueError, "exec: %d arguments at most, got %zd",
                     HCQ_ARGS_MAX, n);
    for (i = 0; i < n && !PyErr_Occurred(); i++)
        (void)read_arg(g, PyTuple_GetItem(all, i), &words[i]);
    Py_DECREF(all);
    if (PyErr_Occurred() || PyList_Append(g->kept, object) < 0 ||
        take_graph(g, false) < 0)
        return NULL;
    hcq_graph_exec(g->graph, prog, words, (uint32_t)n, grid,
                   local_of == Py_None ? NULL : local);
    return give_graph(g, 0);
}

/* The device of a command; None: the first queue's. */
static int
device_of(PyObject *object, struct hcq_device **out)
{
    *out = NULL;
    if (object == Py_None)
        return 0;
    if (Py_TYPE(object) != hq.device) {
        PyErr_Format(PyExc_TypeError, "a Device is expected, got %R",
                     (PyObject *)Py_TYPE(object));
        return -1;
    }
    if (hq_enter((struct hq_device *)object) < 0)
        return -1;
    *out = ((struct hq_device *)object)->dev;
    return 0;
}

static PyObject *
graph_copy(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *to, *from, *device;
    struct hcq_graph_arg dst, src;
    struct hcq_device *dev;
    uint64_t n_bytes;

    if (!PyArg_ParseTuple(args, "OOOO&:copy", &device, &to, &from, hq_u64,
                          &n_bytes) ||
        device_of(device, &dev) < 0 || read_arg(g, to, &dst) < 0 ||
        read_arg(g, from, &src) < 0 || take_graph(g, false) < 0)
        return NULL;
    hcq_graph_copy(g->graph, dev, &dst, &src, n_bytes);
    return give_graph(g, 0);
}

static PyObject *
graph_move(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *to, *from, *to_device, *from_device;
    struct hcq_device *dst_dev, *src_dev;
    struct hcq_graph_arg dst, src;
    uint64_t n_bytes;

    if (!PyArg_ParseTuple(args, "OOOOO&:move", &to_device, &to, &from_device,
                          &from, hq_u64, &n_bytes) ||
        device_of(to_device, &dst_dev) < 0 ||
        device_of(from_device, &src_dev) < 0 || read_arg(g, to, &dst) < 0 ||
        read_arg(g, from, &src) < 0)
        return NULL;
    if (!dst_dev || !src_dev)
        return PyErr_Format(PyExc_TypeError, "move: both devices are expected");
    if (take_graph(g, false) < 0)
        return NULL;
    hcq_graph_move(g->graph, dst_dev, &dst, src_dev, &src, n_bytes);
    return give_graph(g, 0);
}

static PyObject *
graph_fill(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    struct hcq_graph_arg dst;
    struct hcq_device *dev;
    PyObject *to, *device;
    uint64_t pattern, n_bytes;

    if (!PyArg_ParseTuple(args, "OOO&O&:fill", &device, &to, hq_u64, &pattern,
                          hq_u64, &n_bytes))
        return NULL;
    if (pattern > UINT32_MAX)
        return PyErr_Format(PyExc_ValueError, "fill: the pattern has 32 bits");
    if (device_of(device, &dev) < 0 || read_arg(g, to, &dst) < 0 ||
        take_graph(g, false) < 0)
        return NULL;
    hcq_graph_fill(g->graph, dev, &dst, (uint32_t)pattern, n_bytes);
    return give_graph(g, 0);
}

static PyObject *
end_graph(PyObject *self, PyObject *unused)
{
    struct hq_graph *g = (struct hq_graph *)self;
    int done;

    (void)unused;
    if (take_graph(g, false) < 0)
        return NULL;
    done = hq_check(first_queue(g)->device, hcq_graph_end(g->graph));
    g->is_ended = true;
    return give_graph(g, done);
}

/* A slot by its number or name. */
static int
slot_of(const struct hq_graph *g, PyObject *object, uint32_t *out)
{
    const char *name;

    if (!PyUnicode_Check(object)) {
        *out = (uint32_t)PyLong_AsUnsignedLong(object);
        return PyErr_Occurred() ? -1 : 0;
    }
    name = PyUnicode_AsUTF8AndSize(object, NULL);
    if (!name)
        return -1;
    *out = hcq_graph_find_slot(g->graph, name);
    if (*out != HCQ_SLOT_NONE)
        return 0;
    PyErr_Format(py.classes[BELL_REASON_NAME], "set: no slot '%s'", name);
    return -1;
}

static PyObject *
set_slot(PyObject *self, PyObject *args)
{
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *slot, *value;
    uint64_t offset = 0, word = 0;
    bell_status status;
    uint32_t number;
    bool is_buffer;
    int done;

    if (!PyArg_ParseTuple(args, "OO|O&:set", &slot, &value, hq_u64, &offset))
        return NULL;
    is_buffer = Py_TYPE(value) == hq.buffer;
    if (PyLong_Check(value))
        word = PyLong_AsUnsignedLongLongMask(value);
    else if (hq_address(value, &word) < 0)
        return NULL;
    if (PyErr_Occurred() || take_graph(g, true) < 0)
        return NULL;
    done = slot_of(g, slot, &number);
    if (done == 0) {
        status =
            is_buffer
                ? hcq_graph_set_buffer(g->graph, number,
                                       ((struct hq_buffer *)value)->buf, offset)
                : hcq_graph_set(g->graph, number, word + offset);
        done = hq_check(first_queue(g)->device, status);
    }
    if (done == 0 && is_buffer)
        done = PyList_Append(g->kept, value); /* while the graph lives */
    return give_graph(g, done);
}

static PyObject *
submit_graph(PyObject *self, PyObject *unused)
{
    struct hq_graph *g = (struct hq_graph *)self;
    struct hq_queue *first = first_queue(g);
    struct hq_call call;
    uint64_t value = 0;
    bell_status status;
    Py_ssize_t i;

    (void)unused;
    if (take_graph(g, true) < 0)
        return NULL;
    call = hq_begin_call(first->device, false);
    status = hcq_graph_submit(g->graph, &value);
    hq_end_call(&call);
    for (i = 0; i < PyTuple_Size(g->queues); i++) { /* those with a part */
        struct hq_line *line = queue_at(g, i)->line;

        line->submitted = hcq_queue_submitted(line->queue);
    }
    give_queues(g, PyTuple_Size(g->queues));
    if (hq_check(first->device, status) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *
wait_graph(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {"timeout", NULL};
    struct hq_graph *g = (struct hq_graph *)self;
    PyObject *seconds = Py_None;
    struct hq_call call;
    uint64_t timeout_ns;
    bell_status status;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O:wait", names, &seconds) ||
        hq_timeout(seconds, &timeout_ns) < 0 || take_graph(g, true) < 0)
        return NULL;
    call = hq_begin_call(first_queue(g)->device, true);
    status = hcq_graph_wait(g->graph, timeout_ns);
    hq_end_call(&call);
    give_queues(g, PyTuple_Size(g->queues));
    if (hq_check(first_queue(g)->device, status) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
graph_info(PyObject *self, void *unused)
{
    struct hq_graph *g = (struct hq_graph *)self;
    struct hcq_graph_info info = {.struct_size = sizeof(info)};
    PyObject *made;

    (void)unused;
    if (take_graph(g, true) < 0)
        return NULL;
    hcq_graph_get_info(g->graph, &info);
    give_queues(g, PyTuple_Size(g->queues));
    made = PyStructSequence_New(hq.graph_info);
    if (made && hq_put(made, 0, PyLong_FromUnsignedLong(info.n_commands)) &&
        hq_put(made, 1, PyLong_FromUnsignedLong(info.n_slots)) &&
        hq_put(made, 2, PyLong_FromUnsignedLong(info.n_queues)) &&
        hq_put(made, 3, PyLong_FromUnsignedLong(info.n_copies)) &&
        hq_put(made, 4, PyLong_FromUnsignedLong(info.n_signals)) &&
        hq_put(made, 5, PyLong_FromUnsignedLong(info.n_waits)))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static PyMethodDef graph_methods[] = {
    {"_slot", graph_slot, METH_VARARGS, NULL},
    {"_view", graph_view, METH_VARARGS, NULL},
    {"_exec", graph_exec, METH_VARARGS, NULL},
    {"_copy", graph_copy, METH_VARARGS, NULL},
    {"_move", graph_move, METH_VARARGS, NULL},
    {"_fill", graph_fill, METH_VARARGS, NULL},
    {"end", end_graph, METH_NOARGS,
     "end($self)\n--\n\nFinds which commands wait for which; now it can be "
     "submitted."},
    {"_set", set_slot, METH_VARARGS, NULL},
    {"submit", submit_graph, METH_NOARGS,
     "submit($self)\n--\n\nSubmits it; the value of the first queue's timeline "
     "when it is done."},
    {"wait", HQ_CALL(wait_graph), METH_VARARGS | METH_KEYWORDS,
     "wait($self, timeout=None)\n--\n\nWaits until no submission runs."},
    {0},
};
static PyGetSetDef graph_getset[] = {
    {"info", graph_info, NULL, "What became of it: commands, signals, waits.",
     NULL},
    {0},
};
static PyType_Slot graph_slots[] = {
    {Py_tp_doc, "The handle of a Graph."},  {Py_tp_new, (void *)new_graph},
    {Py_tp_dealloc, (void *)dealloc_graph}, {Py_tp_methods, graph_methods},
    {Py_tp_getset, graph_getset},           {0, NULL},
};
static PyType_Spec graph_spec = {
    .name = "doorbell.hcq.GraphBase",
    .basicsize = sizeof(struct hq_graph),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_BASETYPE,
    .slots = graph_slots,
};

static PyStructSequence_Field info_fields[] = {
    {"n_commands", NULL},
    {"n_slots", NULL},
    {"n_queues", "that have something to do"},
    {"n_copies", "commands on copy queues"},
    {"n_signals", "of a submission, between queues"},
    {"n_waits", NULL},
    {0},
};
static PyStructSequence_Desc info_desc = {
    "doorbell.hcq.GraphInfo", "What became of a graph.", info_fields, 6};

int
hq_graph_init(PyObject *module)
{
    hq.graph = hq_add_type(module, &graph_spec);
    hq.graph_info = hq_add_tuple(module, &info_desc);
    return hq.graph && hq.graph_info ? 0 : -1;
}
