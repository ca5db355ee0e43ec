/* The extension module doorbell._hcq: what its files share.
 *
 * It has a copy of the driver half of its own, with simulated cards, recordings
 * and decoders: devices, queues and memory, without tensors. Its objects know
 * nothing of those of doorbell._c, errors apart.
 *
 * Ends. A finalizer calls nothing: it puts the handle on the device's list, and
 * a later call that finds the work done which was submitted until then destroys
 * it. Closing a device ends all that is its own.
 *
 * Threads. Calls hold the interpreter's lock, but for those that wait, submit
 * or open: these count themselves in the device, which cannot be closed
 * meanwhile, and take a queue for one thread (hq_queue_take).
 */
#ifndef BELL_PYTHON_HCQ_HQ_H
#define BELL_PYTHON_HCQ_HQ_H

#include "python/py.h"

#include "hcq/hcq.h"
#include "hcq/hcq_graph.h"

/* What is to be destroyed. */
enum hq_kind {
    HQ_BUFFER,
    HQ_PROGRAM,
    HQ_SIGNAL,
    HQ_STREAM,
    HQ_GRAPH,
    HQ_QUEUE
};

struct hq_ended {
    enum hq_kind kind;
    void *handle;
    PyObject *keep; /* what outlives it; a reference, or NULL */
};

/* A queue, and who has it. Owned by its device's list until it is destroyed. */
struct hq_line {
    struct hq_line *next;
    struct hcq_queue *queue;
    struct hcq_cs *orphan;   /* an open stream that nobody has any more */
    PyThread_type_lock lock; /* held while busy */
    uint64_t submitted;      /* value of its timeline */
    uint64_t mark;           /* when what is old was marked */
    unsigned long owner;     /* the thread that has it, while busy */
    uint32_t n_waits;        /* of Device.synchronize, for it */
    bool busy;
};

struct hq_device {
    PyObject_HEAD struct hcq_device *dev; /* NULL: closed */
    struct hq_line *lines;
    struct hq_ended *ended; /* the first n_old were marked */
    size_t n_ended, n_old, cap_ended;
    uint32_t n_calls, n_waits; /* without the interpreter's lock */
    uint32_t n_steps;          /* 1: somebody steps through its card */
    uint32_t n_exports;        /* views of its buffers */
};

struct hq_buffer {
    PyObject_HEAD struct hq_device *device;
    struct hcq_buffer *buf; /* NULL: closed */
    PyObject *keep;         /* whose memory it is, or NULL */
    uint32_t n_exports;     /* views, and copies on their way */
};

struct hq_program {
    PyObject_HEAD struct hq_device *device;
    struct hcq_program *prog;
};

struct hq_signal {
    PyObject_HEAD struct hq_device *device;
    struct hcq_signal *sig;
    PyObject *queue; /* whose timeline it is, or NULL */
};

struct hq_queue {
    PyObject_HEAD struct hq_device *device;
    struct hq_line *line; /* NULL: closed */
};

/* A fresh stream or a bound one. */
struct hq_commands {
    PyObject_HEAD struct hq_queue *queue;
    struct hcq_cs *cs;         /* takes commands; NULL: no longer */
    struct hcq_stream *stream; /* NULL: fresh, or closed */
    PyObject *kept;            /* list: what commands use */
};

struct hq_state {
    PyTypeObject *device, *buffer, *program, *signal, *queue, *commands,
        *stream, *graph, *step;
    PyTypeObject *info, *fault, *link, *link_bytes, *graph_info, *stop;
};
extern struct hq_state hq;

#define HQ_CALL(fn) (PyCFunction)(void (*)(void)) fn

/* ---- module.c ---- */

/* Raises StateError with a message; NULL. */
PyObject *hq_wrong_state(const char *message);
/* Makes a type and puts it into the module under its last name; NULL: not. */
PyTypeObject *hq_add_type(PyObject *module, PyType_Spec *spec);
PyTypeObject *hq_add_tuple(PyObject *module, PyStructSequence_Desc *desc);
/* An object of a type that Python may derive from, zeroed, and its end. */
void *hq_new(PyTypeObject *type);
void hq_free(PyObject *object);
/* Timeout of an argument: None waits while the device moves. */
int hq_timeout(PyObject *seconds, uint64_t *out_ns);
/* Up to 3 numbers of an int or a sequence, 1 where there are fewer. */
int hq_three(PyObject *object, const char *what, uint32_t out[3]);
/* A converter of PyArg_Parse: an int of 64 bits, without a sign. */
int hq_u64(PyObject *object, void *out);
/* Sets item `at` of a tuple or a structure; takes the reference, which may be
 * NULL. Returns false with an exception. */
bool hq_put(PyObject *tuple, Py_ssize_t at, PyObject *item);

/* ---- device.c ---- */

int hq_device_init(PyObject *module);
/* Before each call: the device is open and this process's. Destroys what ended.
 * -1 with an exception. */
int hq_enter(struct hq_device *d);
/* Raises the record; a lost device's fault is with it. NULL. */
PyObject *hq_raise(struct hq_device *d);
/* Raises if the status is not BELL_OK: -1. */
int hq_check(struct hq_device *d, bell_status status);
/* To be destroyed later; takes the reference to `keep`. */
void hq_end_later(struct hq_device *d, enum hq_kind kind, void *handle,
                  PyObject *keep);
/* Destroys what ended and is done. */
void hq_drain(struct hq_device *d);

/* Without the interpreter's lock. A wait of the main thread ends with a signal,
 * whose exception hq_end_call leaves. */
struct hq_call {
    struct hq_device *device;
    PyThreadState *thread;
    bool waits;
};
struct hq_call hq_begin_call(struct hq_device *d, bool waits);
void hq_end_call(const struct hq_call *call);
/* Waits for a signal's value; -1 with an exception. */
int hq_wait(struct hq_device *d, struct hcq_signal *sig, uint64_t value,
            uint64_t timeout_ns);

/* ---- memory.c: buffers, programs, signals ---- */

int hq_memory_init(PyObject *module);
PyObject *hq_buffer_wrap(struct hq_device *d, struct hcq_buffer *buf,
                         PyObject *keep);
PyObject *hq_signal_wrap(struct hq_device *d, struct hcq_signal *sig,
                         PyObject *queue);
PyObject *hq_program_wrap(struct hq_device *d, struct hcq_program *prog);
/* The open signal or program of an object; NULL with an exception. */
struct hcq_signal *hq_signal_of(PyObject *object);
struct hcq_program *hq_program_of(PyObject *object);
/* The address that an int or a Buffer means; an open Buffer. -1 with an
 * exception. */
int hq_address(PyObject *object, uint64_t *out_va);
/* Methods of Device. */
PyObject *hq_device_buffer(PyObject *self, PyObject *args, PyObject *named);
PyObject *hq_device_pin(PyObject *self, PyObject *object);
PyObject *hq_device_peer(PyObject *self, PyObject *object);
PyObject *hq_device_import(PyObject *self, PyObject *args, PyObject *named);
PyObject *hq_device_program(PyObject *self, PyObject *args, PyObject *named);
PyObject *hq_device_signal(PyObject *self, PyObject *args, PyObject *named);

/* ---- queue.c ---- */

int hq_queue_init(PyObject *module);
PyObject *hq_device_queue(PyObject *self, PyObject *args, PyObject *named);
/* The queue is open, and this thread's until it is given back; -1 with an
 * exception. */
int hq_queue_take(struct hq_queue *q);
void hq_queue_give(struct hq_queue *q);
/* The queue is open; -1 with an exception. */
int hq_queue_enter(struct hq_queue *q);

/* ---- words.c: a queue's words by their names ---- */

PyObject *hq_queue_pack(PyObject *self, PyObject *args, PyObject *named);
PyObject *hq_queue_block(PyObject *self, PyObject *args, PyObject *named);
PyObject *hq_queue_decode(PyObject *self, PyObject *words);
PyObject *hq_queue_fields(PyObject *self, PyObject *name);
PyObject *hq_queue_names(PyObject *self, PyObject *unused);
/* Lines of the words, appended to a list with the prefix. */
int hq_decode_to(struct hq_queue *q, const uint32_t *words, size_t n_words,
                 const char *prefix, PyObject *list);
/* 32-bit words of a sequence of ints or of bytes; PyMem_Free. NULL with an
 * exception. */
uint32_t *hq_words_of(PyObject *object, Py_ssize_t *out_n);

/* ---- graph.c ---- */

int hq_graph_init(PyObject *module);

/* ---- step.c ---- */

int hq_step_init(PyObject *module);

/* ---- log.c ---- */

int hq_log_init(PyObject *module);

#endif
