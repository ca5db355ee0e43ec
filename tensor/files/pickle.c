/* Pickles: the stack machine, with the few calls that files of tensors have. */
#include "tensor/files/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

/* What a name does when it is called. */
enum pickle_call {
    CALL_NONE, /* it is a type of elements only */
    CALL_DICT,
    CALL_TUPLE,     /* of the tuple it is given */
    CALL_TENSOR,    /* storage, begin, shape, strides, ... */
    CALL_TYPED,     /* the same, with a dtype behind */
    CALL_PARAMETER, /* the first argument */
    CALL_STORAGE    /* never called: a storage's type */
};

static const struct {
    const char *name;
    enum pickle_call call;
    enum bell_dtype dtype;
} names[] = {
    {"collections OrderedDict", CALL_DICT, BELL_DEFAULT},
    {"torch Size", CALL_TUPLE, BELL_DEFAULT},
    {"torch._utils _rebuild_tensor_v2", CALL_TENSOR, BELL_DEFAULT},
    {"torch._utils _rebuild_tensor_v3", CALL_TYPED, BELL_DEFAULT},
    {"torch._utils _rebuild_parameter", CALL_PARAMETER, BELL_DEFAULT},
    {"torch BoolStorage", CALL_STORAGE, BELL_BOOL},
    {"torch CharStorage", CALL_STORAGE, BELL_INT8},
    {"torch ByteStorage", CALL_STORAGE, BELL_UINT8},
    {"torch ShortStorage", CALL_STORAGE, BELL_INT16},
    {"torch IntStorage", CALL_STORAGE, BELL_INT32},
    {"torch LongStorage", CALL_STORAGE, BELL_INT64},
    {"torch HalfStorage", CALL_STORAGE, BELL_FLOAT16},
    {"torch BFloat16Storage", CALL_STORAGE, BELL_BFLOAT16},
    {"torch FloatStorage", CALL_STORAGE, BELL_FLOAT32},
    {"torch DoubleStorage", CALL_STORAGE, BELL_FLOAT64},
    {"torch.storage UntypedStorage", CALL_STORAGE, BELL_UINT8},
    {"torch bool", CALL_NONE, BELL_BOOL},
    {"torch int8", CALL_NONE, BELL_INT8},
    {"torch uint8", CALL_NONE, BELL_UINT8},
    {"torch int16", CALL_NONE, BELL_INT16},
    {"torch uint16", CALL_NONE, BELL_UINT16},
    {"torch int32", CALL_NONE, BELL_INT32},
    {"torch uint32", CALL_NONE, BELL_UINT32},
    {"torch int64", CALL_NONE, BELL_INT64},
    {"torch uint64", CALL_NONE, BELL_UINT64},
    {"torch float16", CALL_NONE, BELL_FLOAT16},
    {"torch bfloat16", CALL_NONE, BELL_BFLOAT16},
    {"torch float32", CALL_NONE, BELL_FLOAT32},
    {"torch float64", CALL_NONE, BELL_FLOAT64},
    {"torch float8_e4m3fn", CALL_NONE, BELL_FLOAT8_E4M3FN},
    {"torch float8_e5m2", CALL_NONE, BELL_FLOAT8_E5M2},
    {"torch float8_e4m3fnuz", CALL_NONE, BELL_FLOAT8_E4M3FNUZ},
    {"torch float8_e5m2fnuz", CALL_NONE, BELL_FLOAT8_E5M2FNUZ},
};

/* A pickle that is being read. */
struct pickle_reader {
    struct pickle *pickle;
    const uint8_t *bytes;
    size_t n_bytes, at;
};

/* ---- what is made ---- */

static BELL_MUST_CHECK bell_status
fail_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pickle's values");
}

static BELL_MUST_CHECK bell_status
fail_at(const struct pickle_reader *r, const char *what)
{
    return bell_fail(BELL_E_IO, "the pickle is damaged at byte %zu: %s", r->at,
                     what);
}

static BELL_MUST_CHECK bell_status
push_number(struct pickle_reader *r, uint32_t number)
{
    struct pickle *p = r->pickle;

    if (host_grow((void **)&p->stack, &p->cap_stack, p->n_stack + 1,
                  sizeof(*p->stack)) != 0)
        return fail_memory();
    p->stack[p->n_stack++] = number;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
push_value(struct pickle_reader *r, const struct pickle_value *value)
{
    struct pickle *p = r->pickle;

    if (host_grow((void **)&p->values, &p->cap_values, p->n_values + 1,
                  sizeof(*p->values)) != 0)
        return fail_memory();
    p->values[p->n_values] = *value;
    return push_number(r, (uint32_t)p->n_values++);
}

static BELL_MUST_CHECK bell_status
push_int(struct pickle_reader *r, int64_t i)
{
    return push_value(r, &(struct pickle_value){.kind = PICKLE_INT, .i = i});
}

static BELL_MUST_CHECK bell_status
push_kind(struct pickle_reader *r, enum pickle_kind kind)
{
    return push_value(r, &(struct pickle_value){.kind = kind});
}

/* An object of that name. */
static struct pickle_value
object_of(const char *module, size_t n_module, const char *name, size_t n_name)
{
    return (struct pickle_value){.kind = PICKLE_OBJECT,
                                 .module = module,
                                 .n_module = (uint32_t)n_module,
                                 .name = name,
                                 .n_name = (uint32_t)n_name};
}

/* One of Python's own. */
static BELL_MUST_CHECK bell_status
push_builtin(struct pickle_reader *r, const char *name)
{
    const struct pickle_value value =
        object_of("builtins", 8, name, strlen(name));

    return push_value(r, &value);
}

/* An object that goes by the name of another value. */
static BELL_MUST_CHECK bell_status
push_like(struct pickle_reader *r, uint32_t number)
{
    const struct pickle_value *v = &r->pickle->values[number];
    const struct pickle_value value =
        object_of(v->module, v->n_module, v->name, v->n_name);

    return push_value(r, &value);
}

void
pickle_print_name(const struct pickle_value *value, char *out,
                  size_t size_bytes)
{
    char *c;

    snprintf(out, size_bytes, "%.*s.%.*s",
             value->n_module < 75 ? (int)value->n_module : 75, value->module,
             value->n_name < 75 ? (int)value->n_name : 75, value->name);
    for (c = out; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
}

/* Appends to a tuple, list or dictionary. */
static BELL_MUST_CHECK bell_status
append_pickled(struct pickle_reader *r, uint32_t to, uint32_t number)
{
    struct pickle *p = r->pickle;
    struct pickle_value *value = &p->values[to];
    uint32_t cell;

    if (host_grow((void **)&p->cells, &p->cap_cells, p->n_cells + 1,
                  sizeof(*p->cells)) != 0)
        return fail_memory();
    cell = (uint32_t)p->n_cells++;
    p->cells[cell] = (struct pickle_cell){number, 0};
    if (value->first)
        p->cells[value->last].next = cell;
    else
        value->first = cell;
    value->last = cell;
    value->n++;
    return BELL_OK;
}

/* ---- the stack ---- */

static BELL_MUST_CHECK bell_status
pop(struct pickle_reader *r, uint32_t *out_number)
{
    struct pickle *p = r->pickle;

    if (p->n_stack == 0 ||
        p->values[p->stack[p->n_stack - 1]].kind == PICKLE_MARK)
        return fail_at(r, "it takes from an empty stack");
    *out_number = p->stack[--p->n_stack];
    return BELL_OK;
}

/* Where the values above the last mark begin. */
static BELL_MUST_CHECK bell_status
find_mark(const struct pickle_reader *r, size_t *out_first)
{
    const struct pickle *p = r->pickle;
    size_t i = p->n_stack;

    while (i > 0 && p->values[p->stack[i - 1]].kind != PICKLE_MARK)
        i--;
    if (i == 0)
        return fail_at(r, "a mark is missing");
    *out_first = i;
    return BELL_OK;
}

/* The value below place `first` takes what is above, in its own way. */
static BELL_MUST_CHECK bell_status
fill_pickled(struct pickle_reader *r, size_t first, size_t n_below,
             enum pickle_kind kind)
{
    struct pickle *p = r->pickle;
    uint32_t to;
    size_t i;

    if (first < n_below + 1)
        return fail_at(r, "it takes from an empty stack");
    to = p->stack[first - n_below - 1];
    if (p->values[to].kind == PICKLE_OBJECT) {
        p->n_stack = first - n_below; /* items of what is not known */
        return BELL_OK;
    }
    if (p->values[to].kind != kind ||
        (kind == PICKLE_DICT && (p->n_stack - first) % 2))
        return fail_at(r, "items for what takes none of them");
    for (i = first; i < p->n_stack; i++)
        BELL_TRY(append_pickled(r, to, p->stack[i]));
    p->n_stack = first - n_below;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
fill_marked(struct pickle_reader *r, enum pickle_kind kind)
{
    size_t first;

    BELL_TRY(find_mark(r, &first));
    return fill_pickled(r, first, 1, kind);
}

/* A tuple, list or dictionary of the values from place `first` on. */
static BELL_MUST_CHECK bell_status
gather(struct pickle_reader *r, size_t first, size_t n_marks,
       enum pickle_kind kind)
{
    struct pickle *p = r->pickle;
    struct pickle_value value = {.kind = kind};
    size_t i, n = p->n_stack;
    uint32_t to;

    if (kind == PICKLE_DICT && (n - first) % 2)
        return fail_at(r, "a dictionary of keys without values");
    BELL_TRY(push_value(r, &value));
    to = p->stack[n];
    for (i = first; i < n; i++)
        BELL_TRY(append_pickled(r, to, p->stack[i]));
    p->n_stack = first - n_marks;
    return push_number(r, to);
}

static BELL_MUST_CHECK bell_status
gather_marked(struct pickle_reader *r, enum pickle_kind kind)
{
    size_t first;

    BELL_TRY(find_mark(r, &first));
    return gather(r, first, 1, kind);
}

static BELL_MUST_CHECK bell_status
gather_last(struct pickle_reader *r, size_t n)
{
    struct pickle *p = r->pickle;
    size_t i;

    for (i = 0; i < n; i++) {
        if (p->n_stack < n ||
            p->values[p->stack[p->n_stack - 1 - i]].kind == PICKLE_MARK)
            return fail_at(r, "it takes from an empty stack");
    }
    return gather(r, p->n_stack - n, 0, PICKLE_TUPLE);
}

static BELL_MUST_CHECK bell_status
memo_put(struct pickle_reader *r, uint64_t at)
{
    struct pickle *p = r->pickle;
    size_t old = p->n_memo;

    if (p->n_stack == 0 || at > r->n_bytes)
        return fail_at(r, "it keeps what is not there");
    if (at >= old) {
        if (host_grow((void **)&p->memo, &p->cap_memo, (size_t)at + 1,
                      sizeof(*p->memo)) != 0)
            return fail_memory();
        memset(p->memo + old, 0, ((size_t)at + 1 - old) * sizeof(*p->memo));
        p->n_memo = (size_t)at + 1;
    }
    p->memo[at] = p->stack[p->n_stack - 1];
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
memo_get(struct pickle_reader *r, uint64_t at)
{
    if (at >= r->pickle->n_memo || r->pickle->memo[at] == 0)
        return fail_at(r, "it asks for what it did not keep");
    return push_number(r, r->pickle->memo[at]);
}

/* ---- calls ---- */

/* Item i of a tuple, or NULL. */
static const struct pickle_value *
item_of(const struct pickle *p, uint32_t tuple, uint32_t i, uint32_t *out_at)
{
    const struct pickle_value *value = &p->values[tuple];
    uint32_t cell = value->first;

    if (value->kind != PICKLE_TUPLE || i >= value->n)
        return NULL;
    while (i-- > 0)
        cell = p->cells[cell].next;
    *out_at = p->cells[cell].value;
    return &p->values[*out_at];
}

static bool
is_kind(const struct pickle_value *value, enum pickle_kind kind)
{
    return value && value->kind == kind;
}

/* Whether a tensor comes with more than its elements: a bit that negates or
 * conjugates them when they are looked at, or what a later PyTorch has.
 * src: torch/_utils.py, set_tensor_metadata */
static bool
has_metadata(const struct pickle *p, uint32_t args, bool typed)
{
    const struct pickle_value *data, *value;
    uint32_t at, cell, i;

    data = item_of(p, args, typed ? 7 : 6, &at);
    if (!data || (data->kind == PICKLE_DICT && !data->n) ||
        data->kind == PICKLE_NONE)
        return false;
    if (data->kind != PICKLE_DICT)
        return true;
    for (cell = data->first, i = 0; cell; cell = p->cells[cell].next, i++) {
        value = &p->values[p->cells[cell].value];
        if (i % 2 && !(value->kind == PICKLE_BOOL && !value->i))
            return true;
    }
    return false;
}

static BELL_MUST_CHECK bell_status
make_tensor(struct pickle_reader *r, uint32_t args, bool typed)
{
    const struct pickle *p = r->pickle;
    struct pickle_value tensor = {.kind = PICKLE_TENSOR};
    static const char bits[] = "Tensor with its bit neg or conj set";
    const struct pickle_value *begin, *dtype, *named;
    uint32_t at;

    begin = item_of(p, args, 1, &at);
    if (!is_kind(item_of(p, args, 0, &tensor.storage), PICKLE_STORAGE) ||
        !is_kind(begin, PICKLE_INT) ||
        !is_kind(item_of(p, args, 2, &tensor.shape), PICKLE_TUPLE) ||
        !is_kind(item_of(p, args, 3, &tensor.strides), PICKLE_TUPLE))
        return fail_at(r, "a tensor is not made of a storage, a place, sizes "
                          "and strides");
    named = &p->values[tensor.storage];
    if (typed) {
        dtype = item_of(p, args, 6, &at);
        if (!is_kind(dtype, PICKLE_DTYPE) && !is_kind(dtype, PICKLE_OBJECT))
            return fail_at(r, "a tensor without its dtype");
        named = dtype;
    }
    tensor.i = begin->i;
    tensor.dtype = named->dtype;
    tensor.module = named->module;
    tensor.n_module = named->n_module;
    tensor.name = named->name;
    tensor.n_name = named->n_name;
    if (has_metadata(p, args, typed)) {
        tensor.dtype = BELL_DEFAULT;
        tensor.module = "torch";
        tensor.n_module = 5;
        tensor.name = bits;
        tensor.n_name = sizeof(bits) - 1;
    }
    return push_value(r, &tensor);
}

static BELL_MUST_CHECK bell_status
call(struct pickle_reader *r)
{
    const struct pickle *p = r->pickle;
    uint32_t args, function, at;

    BELL_TRY(pop(r, &args));
    BELL_TRY(pop(r, &function));
    if (p->values[function].kind == PICKLE_OBJECT)
        return push_like(r, function);
    if (p->values[function].kind != PICKLE_NAME ||
        p->values[args].kind != PICKLE_TUPLE)
        return fail_at(r, "a call of what cannot be called");
    switch ((int)p->values[function].call) {
    case CALL_DICT:
        if (p->values[args].n)
            return fail_at(r, "an OrderedDict with arguments");
        return push_kind(r, PICKLE_DICT);
    case CALL_TUPLE:
        if (!is_kind(item_of(p, args, 0, &at), PICKLE_TUPLE))
            return fail_at(r, "a Size of no tuple");
        return push_number(r, at);
    case CALL_TENSOR:
    case CALL_TYPED:
        return make_tensor(r, args, p->values[function].call == CALL_TYPED);
    case CALL_PARAMETER:
        if (!is_kind(item_of(p, args, 0, &at), PICKLE_TENSOR) &&
            !is_kind(item_of(p, args, 0, &at), PICKLE_OBJECT))
            return fail_at(r, "a parameter of no tensor");
        return push_number(r, at);
    default:
        return fail_at(r, "a call of what cannot be called");
    }
}

/* What stands for "module name". */
static BELL_MUST_CHECK bell_status
push_name(struct pickle_reader *r, const char *module, size_t n_module,
          const char *name, size_t n_name)
{
    struct pickle_value value = {.kind = PICKLE_NAME};
    char whole[160];
    size_t i;

    snprintf(whole, sizeof(whole), "%.*s %.*s",
             n_module < 75 ? (int)n_module : 75, module,
             n_name < 75 ? (int)n_name : 75, name);
    for (i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i].name, whole) == 0) {
            value.call = (uint32_t)names[i].call;
            value.dtype = names[i].dtype;
            if (names[i].call == CALL_NONE)
                value.kind = PICKLE_DTYPE;
            return push_value(r, &value);
        }
    }
    value = object_of(module, n_module, name, n_name);
    return push_value(r, &value);
}

/* ('storage', type, key, device, number of elements) */
static BELL_MUST_CHECK bell_status
make_storage(struct pickle_reader *r)
{
    const struct pickle *p = r->pickle;
    struct pickle_value storage = {.kind = PICKLE_STORAGE};
    const struct pickle_value *type, *key, *n;
    uint32_t tuple, at;

    BELL_TRY(pop(r, &tuple));
    type = item_of(p, tuple, 1, &at);
    key = item_of(p, tuple, 2, &at);
    n = item_of(p, tuple, 4, &at);
    if ((!is_kind(type, PICKLE_OBJECT) &&
         (!is_kind(type, PICKLE_NAME) || type->call != CALL_STORAGE)) ||
        !is_kind(key, PICKLE_STR) || !is_kind(n, PICKLE_INT) || n->i < 0)
        return fail_at(r, "a persistent id that is not a storage");
    storage.dtype = type->dtype;
    storage.module = type->module;
    storage.n_module = type->n_module;
    storage.name = type->name;
    storage.n_name = type->n_name;
    storage.text = key->text;
    storage.n = key->n;
    storage.i = n->i;
    return push_value(r, &storage);
}

/* ---- reading ---- */

static BELL_MUST_CHECK bell_status
take_bytes(struct pickle_reader *r, uint64_t n_bytes, const uint8_t **out_bytes)
{
    if (n_bytes > r->n_bytes - r->at)
        return fail_at(r, "it ends there");
    *out_bytes = r->bytes + r->at;
    r->at += n_bytes;
    return BELL_OK;
}

/* An unsigned number of n bytes, the least first. */
static BELL_MUST_CHECK bell_status
take_pickle_size(struct pickle_reader *r, unsigned n_bytes, uint64_t *out_value)
{
    const uint8_t *bytes;
    uint64_t value = 0;
    unsigned i;

    BELL_TRY(take_bytes(r, n_bytes, &bytes));
    for (i = 0; i < n_bytes; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    *out_value = value;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_line(struct pickle_reader *r, const char **out_text, size_t *out_n)
{
    const uint8_t *text = r->bytes + r->at;
    const uint8_t *end = memchr(text, '\n', r->n_bytes - r->at);

    if (!end)
        return fail_at(r, "it ends in a name");
    *out_text = (const char *)text;
    *out_n = (size_t)(end - text);
    r->at += *out_n + 1;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_text(struct pickle_reader *r, unsigned n_size)
{
    struct pickle_value value = {.kind = PICKLE_STR};
    const uint8_t *bytes;
    uint64_t n;

    BELL_TRY(take_pickle_size(r, n_size, &n));
    BELL_TRY(take_bytes(r, n, &bytes));
    if (n > UINT32_MAX)
        return fail_at(r, "a string of more than 4 GiB");
    value.text = (const char *)bytes;
    value.n = (uint32_t)n;
    return push_value(r, &value);
}

/* Bytes, which are not read. */
static BELL_MUST_CHECK bell_status
take_binary(struct pickle_reader *r, unsigned n_size)
{
    const uint8_t *bytes;
    uint64_t n;

    BELL_TRY(take_pickle_size(r, n_size, &n));
    BELL_TRY(take_bytes(r, n, &bytes));
    return push_builtin(r, "bytes");
}

static BELL_MUST_CHECK bell_status
take_long(struct pickle_reader *r, unsigned n_size)
{
    const uint8_t *bytes;
    uint64_t n, bits = 0;
    unsigned i;

    BELL_TRY(take_pickle_size(r, n_size, &n));
    BELL_TRY(take_bytes(r, n, &bytes));
    if (n > 8) /* more than int64 */
        return push_builtin(r, "int");
    if (n > 0 && bytes[n - 1] & 0x80)
        bits = UINT64_MAX;
    for (i = 0; i < n; i++)
        bits = (bits & ~(0xffull << 8 * i)) | (uint64_t)bytes[i] << 8 * i;
    return push_int(r, (int64_t)bits);
}

/* Eight bytes, the greatest first. */
static BELL_MUST_CHECK bell_status
take_float(struct pickle_reader *r)
{
    struct pickle_value value = {.kind = PICKLE_FLOAT};
    const uint8_t *bytes;
    uint64_t bits = 0;
    unsigned i;

    BELL_TRY(take_bytes(r, 8, &bytes));
    for (i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&value.f, &bits, 8);
    return push_value(r, &value);
}

static BELL_MUST_CHECK bell_status
take_pickle_name(struct pickle_reader *r)
{
    const char *module, *name;
    size_t n_module, n_name;

    BELL_TRY(take_line(r, &module, &n_module));
    BELL_TRY(take_line(r, &name, &n_name));
    return push_name(r, module, n_module, name, n_name);
}

/* The same, its parts being strings on the stack. */
static BELL_MUST_CHECK bell_status
take_stacked_name(struct pickle_reader *r)
{
    const struct pickle_value *values;
    uint32_t name, module;

    BELL_TRY(pop(r, &name));
    BELL_TRY(pop(r, &module));
    values = r->pickle->values;
    if (values[name].kind != PICKLE_STR || values[module].kind != PICKLE_STR)
        return fail_at(r, "a name that is not a string");
    return push_name(r, values[module].text, values[module].n,
                     values[name].text, values[name].n);
}

static BELL_MUST_CHECK bell_status
take_number(struct pickle_reader *r, uint8_t op)
{
    uint64_t n;

    BELL_TRY(take_pickle_size(r, op == 'J' ? 4 : op == 'M' ? 2 : 1, &n));
    return push_int(r, op == 'J' ? (int64_t)(int32_t)n : (int64_t)n);
}

static BELL_MUST_CHECK bell_status
take_memo(struct pickle_reader *r, uint8_t op)
{
    uint64_t at;

    BELL_TRY(take_pickle_size(r, op == 'r' || op == 'j' ? 4 : 1, &at));
    return op == 'q' || op == 'r' ? memo_put(r, at) : memo_get(r, at);
}

/* An object that is made without a call: class, arguments, and named ones. */
static BELL_MUST_CHECK bell_status
take_new(struct pickle_reader *r, bool has_named)
{
    uint32_t class, args;

    if (has_named)
        BELL_TRY(pop(r, &args));
    BELL_TRY(pop(r, &args));
    BELL_TRY(pop(r, &class));
    if (r->pickle->values[class].kind != PICKLE_OBJECT)
        return fail_at(r, "an object of what is not a class");
    return push_like(r, class);
}

/* A set: what is above a mark, put into one that is below it, or as one. */
static BELL_MUST_CHECK bell_status
take_set(struct pickle_reader *r, bool is_new)
{
    struct pickle *p = r->pickle;
    size_t first;

    BELL_TRY(find_mark(r, &first));
    if (!is_new &&
        (first < 2 || p->values[p->stack[first - 2]].kind != PICKLE_OBJECT))
        return fail_at(r, "items for what takes none of them");
    p->n_stack = first - 1;
    return is_new ? push_builtin(r, "frozenset") : BELL_OK;
}

/* A state for an object: an OrderedDict's attributes, which nobody needs. */
static BELL_MUST_CHECK bell_status
take_state(struct pickle_reader *r)
{
    const struct pickle *p = r->pickle;
    uint32_t state;

    BELL_TRY(pop(r, &state));
    if (p->n_stack == 0 ||
        (p->values[p->stack[p->n_stack - 1]].kind != PICKLE_DICT &&
         p->values[p->stack[p->n_stack - 1]].kind != PICKLE_OBJECT))
        return fail_at(r, "a state for what has none");
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
fail_op(const struct pickle_reader *r, uint8_t op)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "byte 0x%02x at place %zu of the pickle is not one of the "
                     "operations that files of tensors need",
                     op, r->at - 1);
}

static BELL_MUST_CHECK bell_status
step(struct pickle_reader *r, uint8_t op)
{
    struct pickle *p = r->pickle;
    uint64_t n;
    uint32_t popped;

    switch (op) {
    case 0x80: /* PROTO */
        BELL_TRY(take_pickle_size(r, 1, &n));
        if (n < 2 || n > 5)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a pickle of protocol %llu; 2 to 5 are read",
                             (unsigned long long)n);
        return BELL_OK;
    case 0x95: /* FRAME */
        return take_pickle_size(r, 8, &n);
    case '(':
        return push_kind(r, PICKLE_MARK);
    case 'N':
        return push_kind(r, PICKLE_NONE);
    case 0x88:
    case 0x89: /* True, False */
        return push_value(
            r, &(struct pickle_value){.kind = PICKLE_BOOL, .i = op == 0x88});
    case 'J':
    case 'K':
    case 'M':
        return take_number(r, op);
    case 0x8a:
    case 0x8b:
        return take_long(r, op == 0x8a ? 1 : 4);
    case 'C':
        return take_binary(r, 1);
    case 'B':
        return take_binary(r, 4);
    case 0x8e:
    case 0x96:
        return take_binary(r, 8);
    case 0x81:
    case 0x92:
        return take_new(r, op == 0x92);
    case 0x8f:
        return push_builtin(r, "set");
    case 0x90:
    case 0x91:
        return take_set(r, op == 0x91);
    case 'G':
        return take_float(r);
    case 'X':
        return take_text(r, 4);
    case 0x8c:
        return take_text(r, 1);
    case 0x8d:
        return take_text(r, 8);
    case '}':
        return push_kind(r, PICKLE_DICT);
    case ']':
        return push_kind(r, PICKLE_LIST);
    case ')':
        return push_kind(r, PICKLE_TUPLE);
    case 0x85:
    case 0x86:
    case 0x87:
        return gather_last(r, op - 0x84u);
    case 't':
        return gather_marked(r, PICKLE_TUPLE);
    case 'l':
        return gather_marked(r, PICKLE_LIST);
    case 'd':
        return gather_marked(r, PICKLE_DICT);
    case 's':
        return p->n_stack < 3 ? fail_at(r, "it takes from an empty stack")
                              : fill_pickled(r, p->n_stack - 2, 0, PICKLE_DICT);
    case 'u':
        return fill_marked(r, PICKLE_DICT);
    case 'a':
        return p->n_stack < 2 ? fail_at(r, "it takes from an empty stack")
                              : fill_pickled(r, p->n_stack - 1, 0, PICKLE_LIST);
    case 'e':
        return fill_marked(r, PICKLE_LIST);
    case 'q':
    case 'r':
    case 'h':
    case 'j':
        return take_memo(r, op);
    case 0x94:
        return memo_put(r, p->n_memo);
    case 'c':
        return take_pickle_name(r);
    case 0x93:
        return take_stacked_name(r);
    case 'Q':
        return make_storage(r);
    case 'R':
        return call(r);
    case 'b':
        return take_state(r);
    case '0':
        return pop(r, &popped);
    default:
        return fail_op(r, op);
    }
}

bell_status
pickle_read(const uint8_t *bytes, size_t n_bytes, struct pickle *out_pickle)
{
    struct pickle_reader r = {out_pickle, bytes, n_bytes, 0};
    struct pickle_value none = {.kind = PICKLE_NONE};
    uint64_t op;

    if (n_bytes >= UINT32_MAX)
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "a pickle of %zu bytes is too large; expected fewer than 2^32",
            n_bytes);
    /* number 0 of the values and of the cells is nobody's */
    BELL_TRY(push_value(&r, &none));
    out_pickle->n_stack = 0;
    if (host_grow((void **)&out_pickle->cells, &out_pickle->cap_cells, 1,
                  sizeof(*out_pickle->cells)) != 0)
        return fail_memory();
    out_pickle->n_cells = 1;
    for (;;) {
        BELL_TRY(take_pickle_size(&r, 1, &op));
        if (op == '.')
            break;
        BELL_TRY(step(&r, (uint8_t)op));
    }
    return pop(&r, &out_pickle->root);
}

void
pickle_fini(struct pickle *pickle)
{
    host_free(pickle->values);
    host_free(pickle->cells);
    host_free(pickle->stack);
    host_free(pickle->memo);
    memset(pickle, 0, sizeof(*pickle));
}
