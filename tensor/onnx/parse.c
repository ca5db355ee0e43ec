/* Reading a model's file into graph.h's structures.
 *
 * Every message is gone through twice: to count the fields, and to read them.
 * Depth is bounded by ONNX_MAX_DEPTH; only graphs within attributes nest.
 * src: onnx 1.23, onnx.proto (messages and field numbers). */
#include "tensor/onnx/graph.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/regular_file.h"
#include "base/text.h"

/* Greatest number of elements of a tensor, as of other files. */
#define MAX_ELEMS ((uint64_t)1 << 48)

static BELL_MUST_CHECK bell_status
damaged(const char *message)
{
    return bell_fail(BELL_E_IO, "is not an ONNX model, or damaged: %s",
                     message);
}

/* `n` zeroed elements, and one more so that there is a pointer. */
static void *
take_zeroed(struct onnx_model *model, uint64_t n, size_t elem_bytes)
{
    return arena_calloc(&model->arena, n + 1, elem_bytes);
}

bell_status
onnx_text(struct onnx_model *model, const struct wire_field *field,
          const char **out_text)
{
    const char *data = (const char *)field->data;
    size_t i, n;
    char *text;

    if (field->kind != WIRE_BYTES)
        return damaged("a name is not a text");
    if (field->n_bytes > 4096)
        return damaged("a name of more than 4,096 bytes");
    for (i = 0; i < field->n_bytes; i += n) {
        n = text_name_character(data + i, field->n_bytes - i);
        if (n == 0)
            return damaged("a name has a control character, or is not UTF-8");
    }
    text = take_zeroed(model, field->n_bytes, 1);
    if (!text)
        return onnx_no_memory();
    if (field->n_bytes)
        memcpy(text, data, field->n_bytes);
    *out_text = text;
    return BELL_OK;
}

/* ---- tensors ---- */

struct tensor_source {
    uint32_t list; /* field number of the numbers; 0: none */
    const char *location, *offset, *length;
    bool external, segmented;
    uint64_t n_strings;
};

static uint32_t
count_bits(uint32_t type)
{
    switch (type) {
    case ONNX_UINT4:
    case ONNX_INT4:
    case ONNX_FLOAT4E2M1:
        return 4;
    case ONNX_UINT2:
    case ONNX_INT2:
        return 2;
    case ONNX_FLOAT8E8M0:
        return 8;
    default:
        return (uint32_t)bell_dtype_size(onnx_dtype(type)) * 8;
    }
}

/* The field that lists numbers of a type, and how each lies there. */
static uint32_t
find_number_list(uint32_t type, enum wire_kind *out_kind)
{
    *out_kind = WIRE_VARINT;
    switch (type) {
    case ONNX_FLOAT:
        *out_kind = WIRE_FIXED32;
        return 4;
    case ONNX_DOUBLE:
        *out_kind = WIRE_FIXED64;
        return 10;
    case ONNX_INT64:
        return 7;
    case ONNX_UINT32:
    case ONNX_UINT64:
        return 11;
    default:
        return 5;
    }
}

/* Numbers that are listed, as bytes of the type in the arena. Types of less
 * than a byte lie in the list as the bytes that hold several. */
static BELL_MUST_CHECK bell_status
read_list(struct onnx_model *model, struct wire wire, struct onnx_tensor *t)
{
    size_t size = count_bits(t->type) < 8 ? 1 : count_bits(t->type) / 8;
    enum wire_kind kind;
    uint32_t number = find_number_list(t->type, &kind);
    uint64_t n = wire_count_numbers(wire, number, kind), i = 0, k, here;
    struct wire_field field;
    uint64_t *values;
    uint8_t *bytes;

    t->size_bytes = n * size;
    if (n == 0)
        return BELL_OK;
    values = host_alloc((size_t)n * sizeof(*values));
    bytes = take_zeroed(model, n, size);
    if (!values || !bytes) {
        host_free(values);
        return onnx_no_memory();
    }
    while (wire_next(&wire, &field)) {
        if (field.number != number)
            continue;
        here = wire_numbers(&field, kind, values + i, n - i);
        i += here == UINT64_MAX ? 0 : here;
        if (i > n)
            break;
    }
    for (k = 0; k < n; k++)
        memcpy(bytes + k * size, &values[k], size);
    host_free(values);
    t->data = bytes;
    return BELL_OK;
}

static bool
parse_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    if (!text)
        return true;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

static BELL_MUST_CHECK bell_status
read_external(struct onnx_model *model, const struct tensor_source *source,
              struct onnx_tensor *t)
{
    uint64_t bits = count_bits(t->type);
    uint64_t offset = 0, length = (t->n_elems * bits + 7) / 8;
    const struct onnx_mapping *map;

    if (!source->location)
        return bell_fail(BELL_E_IO,
                         "tensor '%.80s': external data without a "
                         "location",
                         t->name);
    if (!parse_number(source->offset, &offset) ||
        !parse_number(source->length, &length))
        return bell_fail(BELL_E_IO,
                         "tensor '%.80s': offset or length of external data is "
                         "not a number",
                         t->name);
    BELL_TRY(onnx_external(model, source->location, &map));
    if (offset > map->size_bytes || length > map->size_bytes - offset)
        return bell_fail(
            BELL_E_IO,
            "tensor '%.80s': external data '%.80s' has %llu "
            "bytes; expected %llu from byte %llu on",
            t->name, source->location, (unsigned long long)map->size_bytes,
            (unsigned long long)length, (unsigned long long)offset);
    t->data = map->data ? map->data + offset : (const uint8_t *)"";
    t->size_bytes = length;
    t->in_file = true;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_external_entry(struct onnx_model *model, const struct wire_field *entry,
                    struct tensor_source *source)
{
    struct wire wire = wire_of(entry);
    const char *key = "", *value = "";
    struct wire_field field;

    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            BELL_TRY(onnx_text(model, &field, &key));
        else if (field.number == 2)
            BELL_TRY(onnx_text(model, &field, &value));
    }
    if (wire.bad)
        return damaged("an entry of external data ends early");
    if (strcmp(key, "location") == 0)
        source->location = value;
    else if (strcmp(key, "offset") == 0)
        source->offset = value;
    else if (strcmp(key, "length") == 0)
        source->length = value;
    else
        return bell_fail(BELL_E_UNSUPPORTED,
                         "external data has the key '%.40s', which is not "
                         "known; expected location, offset or length",
                         key);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
add_dims(struct onnx_tensor *t, const struct wire_field *field)
{
    uint64_t dims[BELL_MAX_RANK];
    uint64_t n = wire_numbers(field, WIRE_VARINT, dims, BELL_MAX_RANK), i;

    if (n == UINT64_MAX)
        return damaged("a tensor's dims end early");
    if (n > BELL_MAX_RANK - t->ndim)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a tensor of more than %u axes is not supported",
                         BELL_MAX_RANK);
    for (i = 0; i < n; i++)
        t->dims[t->ndim++] = (int64_t)dims[i];
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
count_tensor(struct onnx_tensor *t)
{
    uint32_t i;

    t->n_elems = 1;
    for (i = 0; i < t->ndim; i++) {
        if (t->dims[i] < 0 ||
            __builtin_mul_overflow(t->n_elems, (uint64_t)t->dims[i],
                                   &t->n_elems) ||
            t->n_elems > MAX_ELEMS)
            return bell_fail(BELL_E_IO,
                             "tensor '%.80s' has a negative size, or more than "
                             "2^48 elements",
                             t->name);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_bytes(const struct onnx_tensor *t)
{
    uint64_t bits = count_bits(t->type);
    uint64_t expected = (t->n_elems * bits + 7) / 8;

    if (bits == 0)
        return BELL_OK;
    if (t->size_bytes != expected)
        return bell_fail(
            BELL_E_IO,
            "tensor '%.80s' of %llu elements of %s has %llu bytes; "
            "expected %llu",
            t->name, (unsigned long long)t->n_elems, onnx_type_name(t->type),
            (unsigned long long)t->size_bytes, (unsigned long long)expected);
    return BELL_OK;
}

bell_status
onnx_tensor_parse(struct onnx_model *model, struct wire wire,
                  struct onnx_tensor *t)
{
    struct tensor_source source = {0};
    struct wire again = wire;
    struct wire_field field;
    bool is_raw = false;

    memset(t, 0, sizeof(*t));
    t->name = "";
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            BELL_TRY(add_dims(t, &field));
        else if (field.number == 2)
            t->type = field.value < ONNX_TYPE_COUNT ? (uint32_t)field.value
                                                    : ONNX_TYPE_COUNT;
        else if (field.number == 3)
            source.segmented = true;
        else if (field.number == 6)
            source.n_strings++;
        else if (field.number == 8)
            BELL_TRY(onnx_text(model, &field, &t->name));
        else if (field.number == 9 && field.kind == WIRE_BYTES) {
            is_raw = true;
            t->data = field.data;
            t->size_bytes = field.n_bytes;
            t->in_file = true;
        } else if (field.number == 13 && field.kind == WIRE_BYTES)
            BELL_TRY(read_external_entry(model, &field, &source));
        else if (field.number == 14)
            source.external = field.value == 1;
    }
    if (wire.bad)
        return damaged("a tensor ends early");
    BELL_TRY(count_tensor(t));
    if (source.segmented)
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "tensor '%.80s' is in segments, which is not supported", t->name);
    if (t->type == ONNX_STRING || count_bits(t->type) == 0)
        return BELL_OK;
    if (source.external)
        BELL_TRY(read_external(model, &source, t));
    else if (!is_raw)
        BELL_TRY(read_list(model, again, t));
    if (!t->data)
        t->data = (const uint8_t *)"";
    return check_bytes(t);
}

/* ---- types ---- */

static BELL_MUST_CHECK bell_status
read_dim(struct onnx_model *model, const struct wire_field *from,
         struct onnx_dim *dim)
{
    struct wire wire = wire_of(from);
    struct wire_field field;

    dim->size = -1;
    dim->name = "";
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            dim->size = (int64_t)field.value < 0 ? -1 : (int64_t)field.value;
        else if (field.number == 2)
            BELL_TRY(onnx_text(model, &field, &dim->name));
    }
    return wire.bad ? damaged("a shape ends early") : BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_value_shape(struct onnx_model *model, const struct wire_field *from,
                 struct onnx_value_info *info)
{
    struct wire wire = wire_of(from);
    uint64_t n = wire_count(wire, 1);
    struct wire_field field;

    info->has_shape = true;
    if (n > BELL_MAX_RANK)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "'%.80s' has %llu axes; expected at most %u",
                         info->name, (unsigned long long)n, BELL_MAX_RANK);
    info->dims = take_zeroed(model, n, sizeof(*info->dims));
    if (!info->dims)
        return onnx_no_memory();
    info->ndim = 0;
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            BELL_TRY(read_dim(model, &field, &info->dims[info->ndim++]));
    }
    return wire.bad ? damaged("a shape ends early") : BELL_OK;
}

/* A TypeProto. What a sequence or optional holds is not looked into further
 * than to the elements. */
static BELL_MUST_CHECK bell_status
read_type(struct onnx_model *model, const struct wire_field *from,
          struct onnx_value_info *info, unsigned depth)
{
    struct wire wire = wire_of(from), inner;
    struct wire_field field, part;

    if (depth > ONNX_MAX_DEPTH)
        return damaged("types are nested too deeply");
    while (wire_next(&wire, &field)) {
        const char *kind = field.number == 1   ? "tensor"
                           : field.number == 4 ? "sequence"
                           : field.number == 5 ? "map"
                           : field.number == 8 ? "sparse_tensor"
                           : field.number == 9 ? "optional"
                                               : NULL;

        if (!kind || field.kind != WIRE_BYTES)
            continue;
        if (depth == 0)
            info->kind = kind;
        inner = wire_of(&field);
        while (wire_next(&inner, &part)) {
            if (field.number == 1 && part.number == 1)
                info->type = (uint32_t)part.value;
            else if (field.number == 1 && part.number == 2)
                BELL_TRY(read_value_shape(model, &part, info));
            else if ((field.number == 4 || field.number == 9) &&
                     part.number == 1)
                BELL_TRY(read_type(model, &part, info, depth + 1));
        }
        if (inner.bad)
            return damaged("a type ends early");
    }
    return wire.bad ? damaged("a type ends early") : BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_value_info(struct onnx_model *model, const struct wire_field *from,
                struct onnx_value_info *info)
{
    struct wire wire = wire_of(from);
    struct wire_field field;

    info->name = "";
    info->kind = "unknown";
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            BELL_TRY(onnx_text(model, &field, &info->name));
        else if (field.number == 2)
            BELL_TRY(read_type(model, &field, info, 0));
    }
    return wire.bad ? damaged("an input or output ends early") : BELL_OK;
}

/* ---- nodes ---- */

static BELL_MUST_CHECK bell_status read_graph(struct onnx_model *model,
                                              const struct wire_field *from,
                                              struct onnx_graph *graph,
                                              uint32_t depth);

static BELL_MUST_CHECK bell_status
copy_bytes(struct onnx_model *model, const struct wire_field *field,
           const char **out)
{
    char *text = take_zeroed(model, field->n_bytes, 1);

    if (!text)
        return onnx_no_memory();
    if (field->n_bytes)
        memcpy(text, field->data, field->n_bytes);
    *out = text;
    return BELL_OK;
}

/* Numbers of fields 7 and 8. */
static BELL_MUST_CHECK bell_status
read_numbers(struct onnx_model *model, struct wire wire, uint32_t number,
             struct onnx_attr *attr)
{
    enum wire_kind kind = number == 7 ? WIRE_FIXED32 : WIRE_VARINT;
    uint64_t n = wire_count_numbers(wire, number, kind), i = 0, k, here;
    struct wire_field field;
    uint64_t *values;

    if (n > UINT32_MAX)
        return damaged("a list of an attribute is too long");
    values = take_zeroed(model, n, sizeof(*values));
    if (!values)
        return onnx_no_memory();
    while (wire_next(&wire, &field)) {
        if (field.number != number)
            continue;
        here = wire_numbers(&field, kind, values + i, n - i);
        i += here == UINT64_MAX ? 0 : here;
        if (i > n)
            break;
    }
    attr->n = (uint32_t)n;
    if (number == 8) {
        attr->ints = (int64_t *)values;
        return BELL_OK;
    }
    attr->floats = take_zeroed(model, n, sizeof(*attr->floats));
    if (!attr->floats)
        return onnx_no_memory();
    for (k = 0; k < n; k++)
        attr->floats[k] = wire_float(values[k]);
    return BELL_OK;
}

/* The type of an attribute that does not say it, as before IR version 2. */
static uint32_t
guess_type(uint32_t number)
{
    static const uint8_t types[] = {
        [2] = ONNX_ATTR_FLOAT,    [3] = ONNX_ATTR_INT,
        [4] = ONNX_ATTR_STRING,   [5] = ONNX_ATTR_TENSOR,
        [6] = ONNX_ATTR_GRAPH,    [7] = ONNX_ATTR_FLOATS,
        [8] = ONNX_ATTR_INTS,     [9] = ONNX_ATTR_STRINGS,
        [10] = ONNX_ATTR_TENSORS, [11] = ONNX_ATTR_GRAPHS,
        [14] = ONNX_ATTR_TYPE,    [15] = ONNX_ATTR_TYPES,
        [22] = ONNX_ATTR_SPARSE,  [23] = ONNX_ATTR_SPARSES,
    };

    return number < sizeof(types) ? types[number] : 0;
}

static BELL_MUST_CHECK bell_status
read_attr_field(struct onnx_model *model, const struct wire_field *field,
                struct onnx_attr *attr, uint32_t depth)
{
    struct onnx_tensor *t;

    switch (field->number) {
    case 1:
        return onnx_text(model, field, &attr->name);
    case 2:
        attr->f = wire_float(field->value);
        return BELL_OK;
    case 3:
        attr->i = (int64_t)field->value;
        return BELL_OK;
    case 4:
        return copy_bytes(model, field, &attr->s);
    case 5:
        t = take_zeroed(model, 1, sizeof(*t));
        if (!t)
            return onnx_no_memory();
        attr->t = t;
        return onnx_tensor_parse(model, wire_of(field), t);
    case 6:
        if (depth + 1 >= ONNX_MAX_DEPTH)
            return damaged("graphs are nested too deeply");
        attr->g = take_zeroed(model, 1, sizeof(*attr->g));
        if (!attr->g)
            return onnx_no_memory();
        return read_graph(model, field, attr->g, depth + 1);
    case 9:
        return copy_bytes(model, field, &attr->strings[attr->n++]);
    case 20:
        attr->type = (uint32_t)field->value;
        return BELL_OK;
    case 21:
        return onnx_text(model, field, &attr->ref);
    default:
        return BELL_OK;
    }
}

static BELL_MUST_CHECK bell_status
read_attr(struct onnx_model *model, const struct wire_field *from,
          struct onnx_attr *attr, uint32_t depth)
{
    struct wire wire = wire_of(from), again = wire;
    uint64_t n_strings = wire_count(wire, 9);
    struct wire_field field;
    uint32_t guess = 0;

    attr->name = attr->ref = attr->s = "";
    attr->strings = take_zeroed(model, n_strings, sizeof(*attr->strings));
    if (!attr->strings)
        return onnx_no_memory();
    while (wire_next(&wire, &field)) {
        bool is_text = field.number == 1 || field.number == 4 ||
                       field.number == 5 || field.number == 6 ||
                       field.number == 9 || field.number == 21;

        if (is_text && field.kind != WIRE_BYTES)
            return damaged("an attribute's field has another type");
        BELL_TRY(read_attr_field(model, &field, attr, depth));
        if (guess_type(field.number))
            guess = guess_type(field.number);
    }
    if (wire.bad)
        return damaged("an attribute ends early");
    if (!attr->type)
        attr->type = guess;
    if (attr->type == ONNX_ATTR_FLOATS)
        return read_numbers(model, again, 7, attr);
    if (attr->type == ONNX_ATTR_INTS)
        return read_numbers(model, again, 8, attr);
    if ((attr->type == ONNX_ATTR_TENSOR && !attr->t && !*attr->ref) ||
        (attr->type == ONNX_ATTR_GRAPH && !attr->g && !*attr->ref))
        return damaged("an attribute lacks its tensor or graph");
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_node(struct onnx_model *model, const struct wire_field *from,
          struct onnx_node *node, uint32_t depth)
{
    struct wire wire = wire_of(from);
    struct wire_field field;

    node->op = node->domain = node->name = node->overload = "";
    node->inputs =
        take_zeroed(model, wire_count(wire, 1), sizeof(*node->inputs));
    node->outputs =
        take_zeroed(model, wire_count(wire, 2), sizeof(*node->outputs));
    node->attrs = take_zeroed(model, wire_count(wire, 5), sizeof(*node->attrs));
    if (!node->inputs || !node->outputs || !node->attrs)
        return onnx_no_memory();
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            BELL_TRY(onnx_text(model, &field, &node->inputs[node->n_inputs++]));
        else if (field.number == 2)
            BELL_TRY(
                onnx_text(model, &field, &node->outputs[node->n_outputs++]));
        else if (field.number == 3)
            BELL_TRY(onnx_text(model, &field, &node->name));
        else if (field.number == 4)
            BELL_TRY(onnx_text(model, &field, &node->op));
        else if (field.number == 5 && field.kind == WIRE_BYTES)
            BELL_TRY(
                read_attr(model, &field, &node->attrs[node->n_attrs++], depth));
        else if (field.number == 7)
            BELL_TRY(onnx_text(model, &field, &node->domain));
        else if (field.number == 8)
            BELL_TRY(onnx_text(model, &field, &node->overload));
    }
    if (wire.bad)
        return damaged("a node ends early");
    if (!*node->op)
        return damaged("a node has no operator");
    if (strcmp(node->domain, "ai.onnx") == 0)
        node->domain = "";
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_graph(struct onnx_model *model, const struct wire_field *from,
           struct onnx_graph *graph, uint32_t depth)
{
    struct wire wire = wire_of(from);
    struct wire_field field;

    graph->name = "";
    graph->depth = depth;
    graph->nodes =
        take_zeroed(model, wire_count(wire, 1), sizeof(*graph->nodes));
    graph->weights =
        take_zeroed(model, wire_count(wire, 5), sizeof(*graph->weights));
    graph->inputs =
        take_zeroed(model, wire_count(wire, 11), sizeof(*graph->inputs));
    graph->outputs =
        take_zeroed(model, wire_count(wire, 12), sizeof(*graph->outputs));
    if (!graph->nodes || !graph->weights || !graph->inputs || !graph->outputs)
        return onnx_no_memory();
    while (wire_next(&wire, &field)) {
        if (field.kind != WIRE_BYTES)
            continue;
        if (field.number == 1)
            BELL_TRY(read_node(model, &field, &graph->nodes[graph->n_nodes++],
                               depth));
        else if (field.number == 2)
            BELL_TRY(onnx_text(model, &field, &graph->name));
        else if (field.number == 5)
            BELL_TRY(onnx_tensor_parse(model, wire_of(&field),
                                       &graph->weights[graph->n_weights++]));
        else if (field.number == 11)
            BELL_TRY(read_value_info(model, &field,
                                     &graph->inputs[graph->n_inputs++]));
        else if (field.number == 12)
            BELL_TRY(read_value_info(model, &field,
                                     &graph->outputs[graph->n_outputs++]));
        else if (field.number == 15)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "sparse initializers are not supported");
    }
    return wire.bad ? damaged("a graph ends early") : BELL_OK;
}

/* ---- models ---- */

static BELL_MUST_CHECK bell_status
read_opset(struct onnx_model *model, const struct wire_field *from,
           struct onnx_opset *opset)
{
    struct wire wire = wire_of(from);
    struct wire_field field;

    opset->domain = "";
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            BELL_TRY(onnx_text(model, &field, &opset->domain));
        else if (field.number == 2)
            opset->version = (int64_t)field.value;
    }
    if (strcmp(opset->domain, "ai.onnx") == 0)
        opset->domain = "";
    return wire.bad ? damaged("an opset ends early") : BELL_OK;
}

/* The fields of a function that are lists of names: inputs, outputs. */
static BELL_MUST_CHECK bell_status
add_function_value(struct onnx_model *model, const struct wire_field *field,
                   struct onnx_value_info *infos, uint32_t *n)
{
    struct onnx_value_info *info = &infos[(*n)++];

    info->kind = "unknown";
    return onnx_text(model, field, &info->name);
}

static BELL_MUST_CHECK bell_status
read_function(struct onnx_model *model, const struct wire_field *from,
              struct onnx_function *fn)
{
    struct wire wire = wire_of(from);
    struct onnx_graph *body = &fn->body;
    struct wire_field f;

    fn->name = fn->domain = fn->overload = "";
    body->name = "";
    body->inputs =
        take_zeroed(model, wire_count(wire, 4), sizeof(*body->inputs));
    body->outputs =
        take_zeroed(model, wire_count(wire, 5), sizeof(*body->outputs));
    body->nodes = take_zeroed(model, wire_count(wire, 7), sizeof(*body->nodes));
    body->weights = take_zeroed(model, 0, sizeof(*body->weights));
    fn->attr_names =
        take_zeroed(model, wire_count(wire, 6), sizeof(*fn->attr_names));
    fn->attr_defaults =
        take_zeroed(model, wire_count(wire, 11), sizeof(*fn->attr_defaults));
    fn->opsets = take_zeroed(model, wire_count(wire, 9), sizeof(*fn->opsets));
    if (!body->inputs || !body->outputs || !body->nodes || !body->weights ||
        !fn->attr_names || !fn->attr_defaults || !fn->opsets)
        return onnx_no_memory();
    while (wire_next(&wire, &f)) {
        if (f.kind != WIRE_BYTES)
            continue;
        if (f.number == 1)
            BELL_TRY(onnx_text(model, &f, &fn->name));
        else if (f.number == 4)
            BELL_TRY(
                add_function_value(model, &f, body->inputs, &body->n_inputs));
        else if (f.number == 5)
            BELL_TRY(
                add_function_value(model, &f, body->outputs, &body->n_outputs));
        else if (f.number == 6)
            BELL_TRY(onnx_text(model, &f, &fn->attr_names[fn->n_attr_names++]));
        else if (f.number == 7)
            BELL_TRY(read_node(model, &f, &body->nodes[body->n_nodes++], 0));
        else if (f.number == 9)
            BELL_TRY(read_opset(model, &f, &fn->opsets[fn->n_opsets++]));
        else if (f.number == 10)
            BELL_TRY(onnx_text(model, &f, &fn->domain));
        else if (f.number == 11)
            BELL_TRY(read_attr(model, &f,
                               &fn->attr_defaults[fn->n_attr_defaults++], 0));
        else if (f.number == 13)
            BELL_TRY(onnx_text(model, &f, &fn->overload));
    }
    if (wire.bad)
        return damaged("a function ends early");
    if (strcmp(fn->domain, "ai.onnx") == 0)
        fn->domain = "";
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_model(struct onnx_model *model, struct wire wire)
{
    struct wire_field field;
    bool has_graph = false;

    model->producer = model->producer_version = "";
    model->opsets =
        take_zeroed(model, wire_count(wire, 8), sizeof(*model->opsets));
    model->functions =
        take_zeroed(model, wire_count(wire, 25), sizeof(*model->functions));
    if (!model->opsets || !model->functions)
        return onnx_no_memory();
    while (wire_next(&wire, &field)) {
        if (field.number == 1)
            model->ir_version = (int64_t)field.value;
        if (field.kind != WIRE_BYTES)
            continue;
        if (field.number == 2)
            BELL_TRY(onnx_text(model, &field, &model->producer));
        else if (field.number == 3)
            BELL_TRY(onnx_text(model, &field, &model->producer_version));
        else if (field.number == 7 && has_graph)
            return damaged("it has two graphs");
        else if (field.number == 7) {
            BELL_TRY(read_graph(model, &field, &model->graph, 0));
            has_graph = true;
        } else if (field.number == 8)
            BELL_TRY(
                read_opset(model, &field, &model->opsets[model->n_opsets++]));
        else if (field.number == 25)
            BELL_TRY(read_function(model, &field,
                                   &model->functions[model->n_functions++]));
    }
    if (wire.bad)
        return damaged("it ends early, or is not of protocol buffers");
    if (!has_graph)
        return damaged("it has no graph");
    return BELL_OK;
}

/* ---- files ---- */

static struct onnx_model *
create_model(const char *path)
{
    struct onnx_model *model = host_calloc(1, sizeof(*model));

    if (!model)
        return NULL;
    model->n_users = 1;
    arena_init(&model->arena);
    model->path = host_strdup(path);
    if (model->path &&
        host_grow((void **)&model->mappings, &model->cap_mappings, 1,
                  sizeof(*model->mappings)) == 0)
        return model;
    onnx_model_release(model);
    return NULL;
}

static BELL_MUST_CHECK bell_status
add_own_mapping(struct onnx_model *model, void *data, uint64_t size_bytes)
{
    model->mappings[0] = (struct onnx_mapping){NULL, data, size_bytes};
    model->n_mappings = 1;
    return read_model(model,
                      (struct wire){data, (uint8_t *)data + size_bytes, false});
}

static BELL_MUST_CHECK bell_status
map_model(struct onnx_model *model)
{
    struct regular_file file;
    void *data;

    BELL_TRY(regular_file_open(model->path, &file));
    if (file.size_bytes == 0) {
        close(file.fd);
        return damaged("it is empty");
    }
    /* Writable, and this process's own: a tensor of it may be assigned to. */
    data = mmap(NULL, file.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                file.fd, 0);
    close(file.fd);
    if (data == MAP_FAILED)
        return bell_fail_file(model->path, "cannot map");
    return add_own_mapping(model, data, file.size_bytes);
}

static BELL_MUST_CHECK bell_status
finish_model(struct onnx_model *model, bell_status status,
             struct onnx_model **out_model)
{
    size_t n = strlen(model->path);

    if (status == BELL_OK) {
        *out_model = model;
        return BELL_OK;
    }
    if (strncmp(bell_error_last()->message, model->path, n) != 0)
        bell_error_prefix("%s", model->path);
    onnx_model_release(model);
    return status;
}

bell_status
onnx_model_read(const char *path, struct onnx_model **out_model)
{
    struct onnx_model *model = create_model(path);

    if (!model)
        return onnx_no_memory();
    return finish_model(model, map_model(model), out_model);
}

void
onnx_model_retain(struct onnx_model *model)
{
    model->n_users++;
}

void
onnx_model_release(struct onnx_model *model)
{
    size_t i;

    if (!model || --model->n_users)
        return;
    for (i = 0; i < model->n_mappings; i++) {
        if (model->mappings[i].data)
            munmap(model->mappings[i].data, model->mappings[i].size_bytes);
        host_free(model->mappings[i].name);
    }
    host_free(model->mappings);
    arena_fini(&model->arena);
    host_free(model->path);
    host_free(model);
}
