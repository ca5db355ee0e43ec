/* Running a model: frames of values, node after node. */
#include "tensor/onnx/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doorbell/functions.h"
#include "reference/reference.h"

/* ---- values ---- */

void
onnx_value_of(const struct onnx_tensor *from, struct onnx_value *out)
{
    enum bell_dtype dtype = onnx_dtype(from->type);

    *out = (struct onnx_value){.kind = ONNX_VALUE, .from = from};
    if (dtype == BELL_DEFAULT)
        out->type = from->type;
    /* Floats of more elements may be marked for gradients. */
    out->is_constant =
        from->n_elems <= ONNX_HOST_ELEMS &&
        (from->n_elems == 1 || (dtype >= BELL_BOOL && dtype <= BELL_UINT64));
}

/* Elements of less than a byte as one each. */
static const uint8_t *
unpack_small(struct onnx_run *run, const struct onnx_tensor *t)
{
    bool is_signed = t->type == ONNX_INT4 || t->type == ONNX_INT2;
    unsigned bits = t->type == ONNX_INT2 || t->type == ONNX_UINT2 ? 2 : 4;
    uint8_t *bytes = arena_alloc(&run->arena, t->n_elems + 1);
    uint64_t i;

    for (i = 0; bytes && i < t->n_elems; i++) {
        unsigned v =
            t->data[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);

        bytes[i] =
            (uint8_t)(is_signed && v >> (bits - 1) ? v - (1u << bits) : v);
    }
    return bytes;
}

/* The dtype that holds a small integer type; BELL_DEFAULT: none does. */
static enum bell_dtype
holder(uint32_t type)
{
    if (type == ONNX_INT4 || type == ONNX_INT2)
        return BELL_INT8;
    return type == ONNX_UINT4 || type == ONNX_UINT2 ? BELL_UINT8
                                                    : onnx_dtype(type);
}

/* A tensor of the file as elements on the host. */
static BELL_MUST_CHECK bell_status
read_from(struct onnx_run *run, const struct onnx_tensor *from,
          const struct onnx_host **out)
{
    struct onnx_host *host = arena_calloc(&run->arena, 1, sizeof(*host));
    uint64_t i;

    if (!host)
        return onnx_no_memory();
    host->dtype = holder(from->type);
    if (host->dtype == BELL_DEFAULT || !from->data)
        return op_unsupported("tensor '%.80s' of %s is not supported",
                              from->name, onnx_type_name(from->type));
    host->ndim = from->ndim;
    memcpy(host->shape, from->dims, sizeof(host->shape));
    host->n = from->n_elems;
    host->bytes = from->data;
    if (onnx_dtype(from->type) == BELL_DEFAULT)
        host->bytes = unpack_small(run, from);
    if (host->dtype == BELL_BOOL) {
        uint8_t *flags = arena_alloc(&run->arena, host->n + 1);

        for (i = 0; flags && i < host->n; i++)
            flags[i] = from->data[i] != 0;
        host->bytes = flags;
    }
    if (!host->bytes)
        return onnx_no_memory();
    *out = host;
    return BELL_OK;
}

/* One value everywhere is a number of the graph, not memory. */
static struct bell_tensor *
fill_uniform(struct bell_context *ctx, const struct onnx_host *host)
{
    size_t size = bell_dtype_size(host->dtype);
    uint64_t i, bits = 0;
    int64_t whole;

    if (host->n == 0 || host->dtype > BELL_UINT64)
        return NULL;
    for (i = 1; i < host->n; i++) {
        if (memcmp(host->bytes, host->bytes + i * size, size) != 0)
            return NULL;
    }
    memcpy(&bits, host->bytes, size);
    whole = (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size);
    if (host->dtype == BELL_BOOL)
        return bell_full(ctx, host->shape, host->ndim, (double)bits, BELL_BOOL);
    return bell_full_int(ctx, host->shape, host->ndim, whole, host->dtype);
}

static struct bell_tensor *
tensor_of_host(struct bell_context *ctx, const struct onnx_host *host)
{
    struct bell_tensor *t = NULL;

    if (host->n == 1 && host->dtype == BELL_FLOAT32) {
        float f;

        memcpy(&f, host->bytes, sizeof(f));
        if (isfinite(f))
            return bell_full(ctx, host->shape, host->ndim, (double)f,
                             BELL_FLOAT32);
    }
    if (host->n <= ONNX_HOST_ELEMS)
        t = fill_uniform(ctx, host);
    return t ? t
             : bell_from_data(ctx, host->shape, host->ndim, host->dtype,
                              host->bytes);
}

static BELL_MUST_CHECK bell_status
read_device(struct onnx_run *run, struct bell_tensor *t,
            const struct onnx_host **out)
{
    struct onnx_host *host = arena_calloc(&run->arena, 1, sizeof(*host));
    uint8_t *bytes;
    uint64_t n;

    BELL_TRY(bell_context_status(run->ctx));
    if (op_varies(t))
        return op_unsupported("a value of a symbol's size is needed on the "
                              "host, which is for all sizes");
    n = bell_numel(t);
    if (n > ONNX_HOST_ELEMS)
        return op_unsupported("a value of %llu elements is needed on the host; "
                              "expected at most %u",
                              (unsigned long long)n, ONNX_HOST_ELEMS);
    bytes = arena_alloc(&run->arena, bell_nbytes(t) + 1);
    if (!host || !bytes)
        return onnx_no_memory();
    host->dtype = bell_dtype_of(t);
    host->ndim = bell_ndim(t);
    memcpy(host->shape, bell_shape(t), host->ndim * sizeof(int64_t));
    host->n = n;
    host->bytes = bytes;
    BELL_TRY(bell_read(t, bytes, bell_nbytes(t)));
    *out = host;
    return BELL_OK;
}

bell_status
onnx_host_of(struct onnx_run *run, struct onnx_value *value,
             const struct onnx_host **out_host)
{
    if (value->kind != ONNX_VALUE)
        return op_unsupported(
            "a sequence or an empty optional is not a tensor");
    if (!value->host && value->from) {
        if (value->from->n_elems > ONNX_HOST_ELEMS)
            return op_unsupported(
                "tensor '%.80s' of %llu elements is needed on "
                "the host; expected at most %u",
                value->from->name, (unsigned long long)value->from->n_elems,
                ONNX_HOST_ELEMS);
        BELL_TRY(read_from(run, value->from, &value->host));
    } else if (!value->host && value->t) {
        BELL_TRY(read_device(run, value->t, &value->host));
    }
    if (!value->host)
        return bell_fail(BELL_E_INTERNAL, "a value has no elements");
    *out_host = value->host;
    return BELL_OK;
}

static struct bell_tensor *
fail_tensor(struct bell_context *ctx)
{
    /* The failure is in the thread's record; the caller looks there. */
    return bell_error_tensor(ctx);
}

struct bell_tensor *
onnx_tensor_in(struct onnx_run *run, struct bell_context *ctx,
               struct onnx_value *value)
{
    struct bell_tensor **made = ctx == run->host ? &value->h : &value->t;
    const struct onnx_host *host = value->host;

    if (*made)
        return *made;
    if (value->from && value->from->made && ctx == run->ctx)
        return value->from->made;
    if (!host && value->from && read_from(run, value->from, &host) != BELL_OK)
        return fail_tensor(ctx);
    if (!host && onnx_host_of(run, value, &host) != BELL_OK)
        return fail_tensor(ctx);
    if (value->has_sizes && ctx != run->host)
        return *made = onnx_sizes_tensor(run, host);
    *made = tensor_of_host(ctx, host);
    return *made;
}

/* A value of the host's context as elements: it is computed now. False: it has
 * too many. */
static BELL_MUST_CHECK bell_status
settle(struct onnx_run *run, struct onnx_value *value, bool *out_fits)
{
    struct onnx_host *host;
    struct ref_array array;
    uint8_t *bytes;

    *out_fits = bell_numel(value->h) <= ONNX_HOST_ELEMS;
    if (!*out_fits)
        return BELL_OK;
    host = arena_calloc(&run->arena, 1, sizeof(*host));
    bytes = arena_alloc(&run->arena, bell_nbytes(value->h) + 1);
    if (!host || !bytes)
        return onnx_no_memory();
    host->dtype = bell_dtype_of(value->h);
    host->ndim = bell_ndim(value->h);
    if (host->ndim)
        memcpy(host->shape, bell_shape(value->h), host->ndim * sizeof(int64_t));
    host->n = bell_numel(value->h);
    BELL_TRY(ref_eval_tensors(&value->h, 1, NULL, &array));
    ref_to_bytes(&array, bytes);
    ref_array_fini(&array);
    host->bytes = bytes;
    value->host = host;
    value->h = NULL;
    value->is_constant = true;
    /* the host's context has no symbols: the words were moved there */
    value->has_sizes =
        host->dtype == BELL_INT64 &&
        op_has_sizes((const int64_t *)(const void *)bytes, (uint32_t)host->n);
    return BELL_OK;
}

/* ---- a node that is a call of the table of functions ---- */

/* "name:kind>param=value": the next of them. */
struct spec {
    char name[32], param[32], value[16];
    char kind;
};

static const char *
next_spec(const char *at, struct spec *out)
{
    size_t n;

    at += strspn(at, " ");
    if (!*at)
        return NULL;
    memset(out, 0, sizeof(*out));
    n = strcspn(at, ":");
    memcpy(out->name, at, n < sizeof(out->name) ? n : sizeof(out->name) - 1);
    at += n + 1;
    out->kind = *at++;
    if (*at == '>') {
        at++;
        n = strcspn(at, "= ");
        memcpy(out->param, at,
               n < sizeof(out->param) ? n : sizeof(out->param) - 1);
        at += n;
    }
    if (*at == '=') {
        at++;
        n = strcspn(at, " ");
        memcpy(out->value, at,
               n < sizeof(out->value) ? n : sizeof(out->value) - 1);
        at += n;
    }
    return at;
}

static struct bell_value
value_of_attr(const struct onnx_op *op, const struct spec *spec)
{
    const struct onnx_attr *attr = op_attr(op, spec->name);
    double number = 0;
    bool has_number = spec->value[0] == '-' ||
                      (spec->value[0] >= '0' && spec->value[0] <= '9');

    if (has_number)
        number = (double)(spec->kind == 'i' ? atol(spec->value) : 0);
    if (spec->kind == 'f' && has_number)
        number = atof(spec->value);
    switch (spec->kind) {
    case 'i':
        return attr || has_number
                   ? bell_of_int(attr ? attr->i : (int64_t)number)
                   : bell_of_none();
    case 'f':
        return attr || has_number
                   ? bell_of_float(attr ? (double)attr->f : number)
                   : bell_of_none();
    case 's':
        return attr || spec->value[0]
                   ? bell_of_str(attr ? attr->s : spec->value)
                   : bell_of_none();
    default:
        return bell_of_none();
    }
}

static bell_status
run_direct(struct onnx_op *op)
{
    const struct onnx_row *row = op->node->row;
    struct bell_arg args[BELL_MAX_PARAMS];
    struct bell_call call = {.args = args};
    struct spec specs[BELL_MAX_PARAMS];
    const char *at = row->attrs;
    uint32_t n = 0, n_specs = 0, i;

    call.function = bell_function_find(row->function);
    if (!call.function)
        return bell_fail(BELL_E_INTERNAL, "no function %s", row->function);
    for (i = 0; i < op->n_in && n < BELL_MAX_PARAMS; i++) {
        struct bell_tensor *t = op_in_or_null(op, i);

        args[n].name = NULL;
        args[n++].value = t ? bell_of_tensor(t) : bell_of_none();
    }
    while (n_specs < BELL_MAX_PARAMS && n < BELL_MAX_PARAMS &&
           (at = next_spec(at, &specs[n_specs]))) {
        struct spec *spec = &specs[n_specs++];
        struct bell_value value = value_of_attr(op, spec);

        if (!spec->param[0] || value.kind == BELL_VALUE_NONE)
            continue;
        args[n].name = spec->param;
        args[n++].value = value;
    }
    call.n_args = n;
    BELL_TRY(bell_function_call(op->ctx, &call));
    for (i = 0; i < op->n_out && i < call.n_results; i++)
        op_out(op, i, call.results[i]);
    return BELL_OK;
}

/* ---- a node ---- */

static struct onnx_value *
find_in_frames(struct onnx_frame *frame, struct onnx_ref ref)
{
    if (ref.slot == ONNX_NO_SLOT)
        return NULL;
    for (; ref.up && frame; ref.up--)
        frame = frame->up;
    return frame ? &frame->values[ref.slot] : NULL;
}

static bool
folds(const struct onnx_op *op)
{
    uint32_t i, n = 0;

    if (op->node->row->flags & ONNX_NO_FOLD)
        return false;
    for (i = 0; i < op->n_in; i++) {
        if (!op->in[i])
            continue;
        if (op->in[i]->kind != ONNX_VALUE || !op->in[i]->is_constant)
            return false;
        n++;
    }
    return n > 0;
}

static BELL_MUST_CHECK bell_status
finish_tensor(struct onnx_op *op, struct bell_tensor **t)
{
    if (bell_is_error(*t)) {
        BELL_TRY(bell_context_status(op->ctx));
        return bell_error_last()->status != BELL_OK
                   ? bell_error_last()->status
                   : bell_fail(BELL_E_INTERNAL, "a value failed");
    }
    if (op->node->row->flags & ONNX_LIKE0 && op_has(op, 0)) {
        struct bell_tensor *like = op_in(op, 0);

        *t = op_to(*t, bell_dtype_of(like));
    }
    return op_check_sizes(op->ctx, op_dims(*t), bell_ndim(*t));
}

/* Runs it in op->ctx. *out_fits: false where what was folded is too large. */
static BELL_MUST_CHECK bell_status
run_in(struct onnx_op *op, bool *out_fits)
{
    bool on_host = op->ctx == op->run->host;
    uint32_t i;

    *out_fits = true;
    memset(op->out, 0, op->n_out * sizeof(*op->out));
    bell_error_clear();
    BELL_TRY(onnx_check_takes(op));
    BELL_TRY(op->node->row->fn ? op->node->row->fn(op) : run_direct(op));
    BELL_TRY(bell_context_status(op->ctx));
    for (i = 0; i < op->n_out; i++) {
        struct onnx_value *v = &op->out[i];

        if (v->kind != ONNX_VALUE)
            continue;
        if (v->t)
            BELL_TRY(finish_tensor(op, &v->t));
        if (!v->h || !on_host)
            continue;
        BELL_TRY(finish_tensor(op, &v->h));
        BELL_TRY(settle(op->run, v, out_fits));
        if (!*out_fits)
            return BELL_OK;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status run_frame(struct onnx_run *run,
                                             struct onnx_frame *frame,
                                             struct onnx_value *const *in,
                                             uint32_t n_in,
                                             struct onnx_value *out,
                                             uint32_t n_out);

static BELL_MUST_CHECK bell_status
run_model_function(struct onnx_op *op)
{
    const struct onnx_function *fn = op->node->function;
    struct onnx_frame frame = {.graph = &fn->body,
                               .function = fn,
                               .call = op->node,
                               .caller = op->frame,
                               .depth = op->frame->depth + 1};

    if (frame.depth > ONNX_MAX_DEPTH)
        return op_unsupported("functions are nested more than %d deep",
                              ONNX_MAX_DEPTH);
    return run_frame(op->run, &frame, op->in, op->n_in, op->out, op->n_out);
}

static BELL_MUST_CHECK bell_status
run_node(struct onnx_run *run, struct onnx_frame *frame,
         const struct onnx_node *node)
{
    struct onnx_op op = {run, frame,           node, node->opset, run->ctx,
                         0,   node->n_outputs, NULL, NULL};
    bool fits, on_host, done = false;
    uint32_t i;

    if (++run->n_steps > ONNX_MAX_STEPS)
        return op_unsupported("a call of more than %d nodes", ONNX_MAX_STEPS);
    if (run->arena.used_bytes > ONNX_MAX_HOST_BYTES)
        return op_unsupported("a call of more than 256 MiB on the host");
    op.n_in = node->n_inputs;
    op.in = op_take(&op, op.n_in, sizeof(*op.in));
    op.out = op_take(&op, op.n_out, sizeof(*op.out));
    if (!op.in || !op.out)
        return onnx_no_memory();
    for (i = 0; i < op.n_in; i++) {
        op.in[i] = find_in_frames(frame, node->refs[i]);
        if (op.in[i] && op.in[i]->kind == ONNX_ABSENT && node->row &&
            node->row->function)
            op.in[i] = NULL;
    }
    if (node->function) {
        BELL_TRY(run_model_function(&op));
    } else {
        on_host = folds(&op);
        if (on_host)
            BELL_TRY(onnx_fold_sizes(&op, &on_host, &done));
        if (on_host && !done)
            op.ctx = run->host;
        fits = true;
        if (!done)
            BELL_TRY(run_in(&op, &fits));
        if (!fits) {
            op.ctx = run->ctx;
            BELL_TRY(run_in(&op, &fits));
        }
    }
    for (i = 0; i < op.n_out; i++) {
        if (node->slots[i] != ONNX_NO_SLOT)
            frame->values[node->slots[i]] = op.out[i];
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
run_nodes(struct onnx_run *run, struct onnx_frame *frame)
{
    const struct onnx_graph *graph = frame->graph;
    uint32_t i;

    for (i = 0; i < graph->n_nodes; i++) {
        const struct onnx_node *node = &graph->nodes[i];
        bell_status status = run_node(run, frame, node);

        if (status != BELL_OK) {
            bell_error_prefix("node '%.60s' (%.40s)",
                              *node->name       ? node->name
                              : node->n_outputs ? node->outputs[0]
                                                : "",
                              node->op);
            return status;
        }
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
run_frame(struct onnx_run *run, struct onnx_frame *frame,
          struct onnx_value *const *in, uint32_t n_in, struct onnx_value *out,
          uint32_t n_out)
{
    const struct onnx_graph *graph = frame->graph;
    struct onnx_value *found;
    uint32_t i;

    if (n_in > graph->n_inputs || n_out > graph->n_outputs)
        return bell_fail(BELL_BAD_SHAPE,
                         "a graph has %u inputs and %u outputs; it is called "
                         "with %u and %u",
                         graph->n_inputs, graph->n_outputs, n_in, n_out);
    if (!frame->values) {
        frame->values = arena_calloc(&run->arena, graph->n_slots + 1u,
                                     sizeof(*frame->values));
        if (!frame->values)
            return onnx_no_memory();
        for (i = 0; i < graph->n_weights; i++)
            onnx_value_of(&graph->weights[i],
                          &frame->values[graph->weight_slots[i]]);
    }
    for (i = 0; i < n_in; i++) {
        if (in[i])
            frame->values[graph->input_slots[i]] = *in[i];
    }
    BELL_TRY(run_nodes(run, frame));
    for (i = 0; i < n_out; i++) {
        found = find_in_frames(frame, graph->output_refs[i]);
        if (found)
            out[i] = *found;
        else
            memset(&out[i], 0, sizeof(out[i]));
    }
    return BELL_OK;
}

bell_status
onnx_run_inner(struct onnx_op *op, const struct onnx_graph *graph,
               struct onnx_value *const *in, uint32_t n_in,
               struct onnx_value *out, uint32_t n_out)
{
    struct onnx_frame frame = {.graph = graph,
                               .up = op->frame,
                               .function = op->frame->function,
                               .call = op->frame->call,
                               .caller = op->frame->caller,
                               .depth = op->frame->depth + 1};

    if (frame.depth > ONNX_MAX_DEPTH)
        return op_unsupported("graphs are nested more than %d deep",
                              ONNX_MAX_DEPTH);
    return run_frame(op->run, &frame, in, n_in, out, n_out);
}

bell_status
onnx_run_model(struct onnx_run *run, const struct onnx_value *weights,
               struct onnx_value *const *in, struct onnx_value *out)
{
    const struct onnx_graph *graph = &run->model->graph;
    struct onnx_frame frame = {.graph = graph};
    uint32_t i;

    frame.values =
        arena_calloc(&run->arena, graph->n_slots + 1u, sizeof(*frame.values));
    if (!frame.values)
        return onnx_no_memory();
    for (i = 0; i < graph->n_weights; i++)
        frame.values[graph->weight_slots[i]] = weights[i];
    return run_frame(run, &frame, in, graph->n_inputs, out, graph->n_outputs);
}
