/* A queue's own words by their names: packing, decoding, what there is. */
#include "python/hcq/hq.h"

#include <stdio.h>
#include <string.h>

#include "hcq/decode/decode_queue.h"
#include "hcq/decode/encode_queue.h"

#define TOKENS_MAX 300
#define TEXT_MAX   64

/* ---- words ---- */

static uint32_t *
words_of_bytes(PyObject *object, Py_ssize_t *out_n)
{
    uint32_t *words;
    Py_buffer view;

    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    *out_n = view.len / 4;
    words = view.len % 4 ? NULL : PyMem_Malloc((size_t)view.len + 4);
    if (words)
        memcpy(words, view.buf, (size_t)view.len);
    else if (view.len % 4)
        PyErr_Format(PyExc_ValueError,
                     "words: a multiple of 4 bytes expected, got %zd",
                     view.len);
    else
        PyErr_NoMemory();
    PyBuffer_Release(&view);
    return words;
}

uint32_t *
hq_words_of(PyObject *object, Py_ssize_t *out_n)
{
    PyObject *all;
    uint32_t *words;
    Py_ssize_t i;

    if (PyObject_CheckBuffer(object))
        return words_of_bytes(object, out_n);
    all = PySequence_Tuple(object);
    if (!all)
        return NULL;
    *out_n = PyTuple_Size(all);
    words = PyMem_Malloc(sizeof(*words) * (size_t)(*out_n + 1));
    if (!words)
        PyErr_NoMemory();
    for (i = 0; words && i < *out_n; i++) {
        uint64_t value;

        if (!hq_u64(PyTuple_GetItem(all, i), &value) || value > UINT32_MAX) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError,
                             "words: item %zd has more than 32 bits", i);
            PyMem_Free(words);
            words = NULL;
            break;
        }
        words[i] = (uint32_t)value;
    }
    Py_DECREF(all);
    return words;
}

static PyObject *
list_of_words(const uint32_t *words, uint32_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    uint32_t i;

    for (i = 0; list && i < n; i++) {
        PyObject *word = PyLong_FromUnsignedLong(words[i]);

        if (!word || PyList_SetItem(list, (Py_ssize_t)i, word) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- decoding ---- */

struct lines {
    PyObject *list;
    const char *prefix;
};

static void
keep_decoded(void *user, const char *line)
{
    const struct lines *to = user;
    PyObject *text;

    if (PyErr_Occurred())
        return;
    text = PyUnicode_FromFormat("%s%s", to->prefix, line);
    if (text)
        (void)PyList_Append(to->list, text);
    Py_XDECREF(text);
}

int
hq_decode_to(struct hq_queue *q, const uint32_t *words, size_t n_words,
             const char *prefix, PyObject *list)
{
    struct lines lines = {list, prefix};
    struct regs_stream stream = {.line = keep_decoded, .user = &lines};

    if (!decode_queue_init(&stream, q->line->queue)) {
        PyErr_Format(py.classes[BELL_REASON_UNSUPPORTED],
                     "%s has no words of its own, or nothing is known of them",
                     hcq_queue_name(q->line->queue));
        return -1;
    }
    (void)regs_decode_stream(&stream, words, n_words);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *
hq_queue_decode(PyObject *self, PyObject *object)
{
    struct hq_queue *q = (struct hq_queue *)self;
    PyObject *list = NULL;
    uint32_t *words;
    Py_ssize_t n;

    if (hq_queue_enter(q) < 0 || !(words = hq_words_of(object, &n)))
        return NULL;
    list = PyList_New(0);
    if (list && hq_decode_to(q, words, (size_t)n, "", list) < 0)
        Py_CLEAR(list);
    PyMem_Free(words);
    return list;
}

/* ---- packing ---- */

/* Tokens of one packet, as a line of `doorbell send` has them. */
struct tokens {
    char text[TOKENS_MAX][TEXT_MAX];
    char *at[TOKENS_MAX];
    size_t n;
};

static int
add_token(struct tokens *to, const char *name, long element, const char *value)
{
    char *text = to->text[to->n];
    int n = element >= 0
                ? snprintf(text, TEXT_MAX, "%s[%ld]=%s", name, element, value)
            : value ? snprintf(text, TEXT_MAX, "%s=%s", name, value)
                    : snprintf(text, TEXT_MAX, "%s", name);

    if (to->n + 1 >= TOKENS_MAX || n >= TEXT_MAX) {
        PyErr_Format(PyExc_ValueError, "'%s': too many fields, or too long",
                     name);
        return -1;
    }
    to->at[to->n++] = text;
    return 0;
}

/* The text of a value: a name of one, or a number. */
static int
text_of_value(PyObject *value, char text[TEXT_MAX])
{
    uint64_t number;

    if (PyUnicode_Check(value)) {
        const char *name = PyUnicode_AsUTF8AndSize(value, NULL);

        if (!name)
            return -1;
        if (strlen(name) >= TEXT_MAX) {
            PyErr_Format(PyExc_ValueError, "%R is too long", value);
            return -1;
        }
        strcpy(text, name);
        return 0;
    }
    if (PyBool_Check(value) || PyLong_Check(value)) {
        number = PyLong_AsUnsignedLongLongMask(value);
        if (PyLong_AsLongLong(value) < 0 && !PyErr_Occurred()) {
            snprintf(text, TEXT_MAX, "-%llu", 0 - (unsigned long long)number);
            return 0;
        }
        PyErr_Clear(); /* more than 63 bits */
        number = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred())
            return -1;
    } else if (hq_address(value, &number) < 0) {
        return -1;
    }
    snprintf(text, TEXT_MAX, "0x%llx", (unsigned long long)number);
    return 0;
}

static int
add_field_tokens(struct tokens *to, const char *name, PyObject *value)
{
    char text[TEXT_MAX];
    Py_ssize_t i, n;

    if (!PyList_Check(value) && !PyTuple_Check(value))
        return text_of_value(value, text) < 0 ? -1
                                              : add_token(to, name, -1, text);
    n = PySequence_Size(value);
    for (i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int done = item ? text_of_value(item, text) : -1;

        Py_XDECREF(item);
        if (done < 0 || add_token(to, name, (long)i, text) < 0)
            return -1;
    }
    return 0;
}

static int
add_fields(struct tokens *to, PyObject *named, const char *but)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (named && PyDict_Next(named, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);

        if (!name ||
            (strcmp(name, but) != 0 && add_field_tokens(to, name, value) < 0))
            return -1;
    }
    return 0;
}

static const char *
name_argument(PyObject *args, const char *call)
{
    PyObject *name = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;

    if (name && PyUnicode_Check(name))
        return PyUnicode_AsUTF8AndSize(name, NULL);
    PyErr_Format(PyExc_TypeError, "%s: the first argument is a name", call);
    return NULL;
}

static int
fill_packet(struct tokens *to, PyObject *args, PyObject *named)
{
    const char *name = name_argument(args, "pack");
    Py_ssize_t n = PyTuple_Size(args), i;
    char text[TEXT_MAX];

    to->n = 0;
    if (!name || add_token(to, name, -1, NULL) < 0 ||
        add_fields(to, named, "") < 0)
        return -1;
    if (n > 1 && add_token(to, ":", -1, NULL) < 0)
        return -1;
    for (i = 1; i < n; i++) {
        if (text_of_value(PyTuple_GetItem(args, i), text) < 0 ||
            add_token(to, text, -1, NULL) < 0)
            return -1;
    }
    return 0;
}

PyObject *
hq_queue_pack(PyObject *self, PyObject *args, PyObject *named)
{
    struct hq_queue *q = (struct hq_queue *)self;
    uint32_t words[HCQ_WORDS_MAX], n = 0;
    struct encode e = {0};
    struct tokens *tokens;
    PyObject *made = NULL;

    if (hq_queue_enter(q) < 0)
        return NULL;
    tokens = PyMem_Malloc(sizeof(*tokens));
    if (!tokens)
        return PyErr_NoMemory();
    e.queue = q->line->queue;
    if (fill_packet(tokens, args, named) == 0 &&
        hq_check(q->device,
                 encode_packet(&e, tokens->at, tokens->n, words, &n)) == 0)
        made = list_of_words(words, n);
    PyMem_Free(tokens);
    return made;
}

/* The words that a block begins with: of `data`, or zeros. */
static int
block_from(PyObject *named, uint32_t *words, uint32_t n)
{
    PyObject *data = named ? PyDict_GetItemString(named, "data") : NULL;
    Py_ssize_t n_given;
    uint32_t *given;

    memset(words, 0, n * sizeof(*words));
    if (!data || data == Py_None)
        return 0;
    given = hq_words_of(data, &n_given);
    if (!given)
        return -1;
    if (n_given != (Py_ssize_t)n)
        PyErr_Format(PyExc_ValueError,
                     "block: data of %u words expected, got %zd", (unsigned)n,
                     n_given);
    else
        memcpy(words, given, n * sizeof(*words));
    PyMem_Free(given);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *
hq_queue_block(PyObject *self, PyObject *args, PyObject *named)
{
    struct hq_queue *q = (struct hq_queue *)self;
    const char *name = name_argument(args, "block");
    struct encode e = {0};
    const struct regs_type *type;
    struct tokens *tokens;
    uint32_t words[TOKENS_MAX];
    PyObject *made = NULL;
    unsigned gen;

    if (!name || hq_queue_enter(q) < 0)
        return NULL;
    e.queue = q->line->queue;
    if (hq_check(q->device, encode_layout(&e, name, &type, &gen)) < 0)
        return NULL;
    tokens = PyMem_Malloc(sizeof(*tokens));
    if (!tokens)
        return PyErr_NoMemory();
    tokens->n = 0;
    if (regs_dw(type, gen) > TOKENS_MAX)
        PyErr_Format(PyExc_ValueError, "block: %s is too large", name);
    else if (block_from(named, words, regs_dw(type, gen)) == 0 &&
             add_fields(tokens, named, "data") == 0 &&
             hq_check(q->device, encode_set_fields(&e, type, gen, tokens->at,
                                                   tokens->n, words)) == 0)
        made = PyBytes_FromStringAndSize((const char *)words,
                                         4 * (Py_ssize_t)regs_dw(type, gen));
    PyMem_Free(tokens);
    return made;
}

/* ---- what there is ---- */

static PyObject *
values_of(const struct regs_field *field)
{
    PyObject *made = PyDict_New();
    unsigned v;

    for (v = 0; made && field->kind == REGS_ENUM && v < field->values->n_values;
         v++) {
        PyObject *value =
            PyLong_FromUnsignedLong(field->values->values[v].value);

        if (!value || PyDict_SetItemString(made, field->values->values[v].name,
                                           value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(value);
    }
    return made;
}

/* A field as a dict. */
static PyObject *
field_facts(const struct regs_field *field)
{
    PyObject *values = values_of(field);
    bool by_itself = field->is_const || field->role == REGS_ROLE_COUNT ||
                     field->role == REGS_ROLE_PARITY;

    if (!values)
        return NULL;
    return Py_BuildValue("{s:I,s:I,s:O,s:O,s:N}", "bits", encode_bits(field),
                         "count", field->is_array ? (unsigned)field->count : 1u,
                         "signed", field->kind == REGS_INT ? Py_True : Py_False,
                         "by_itself", by_itself ? Py_True : Py_False, "values",
                         values);
}

PyObject *
hq_queue_fields(PyObject *self, PyObject *object)
{
    struct hq_queue *q = (struct hq_queue *)self;
    struct encode e = {0};
    const struct regs_type *type;
    char name[TEXT_MAX];
    PyObject *made;
    unsigned gen, f;

    if (!PyUnicode_Check(object))
        return PyErr_Format(PyExc_TypeError, "fields: a name is expected");
    if (hq_queue_enter(q) < 0 || text_of_value(object, name) < 0)
        return NULL;
    e.queue = q->line->queue;
    if (hq_check(q->device, encode_find(&e, name, &type, &gen)) < 0)
        return NULL;
    made = PyDict_New();
    for (f = 0; made && f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];
        PyObject *facts;

        if (!regs_in(gen, field->gens))
            continue;
        facts = field_facts(field);
        if (!facts || PyDict_SetItemString(made, field->name, facts) < 0)
            Py_CLEAR(made);
        Py_XDECREF(facts);
    }
    return made;
}

static void
keep_type(void *user, const struct regs_type *type)
{
    PyObject *name;

    if (PyErr_Occurred())
        return;
    name = PyUnicode_FromString(type->name);
    if (name)
        (void)PyList_Append(user, name);
    Py_XDECREF(name);
}

PyObject *
hq_queue_names(PyObject *self, PyObject *unused)
{
    struct hq_queue *q = (struct hq_queue *)self;
    struct encode e = {0};
    PyObject *list;

    (void)unused;
    if (hq_queue_enter(q) < 0 || !(list = PyList_New(0)))
        return NULL;
    e.queue = q->line->queue;
    if (hq_check(q->device, encode_each(&e, keep_type, list)) < 0 ||
        PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}
