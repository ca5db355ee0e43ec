/* Control flow and sequences: on the host, nodes one after the other. src: onnx
 * 1.23, Operators. */
#include "tensor/onnx/ops.h"

#include <string.h>

/* Most iterations of a loop. */
#define MAX_TURNS 16384

/* Both branches, of which the device takes one: where the condition has no
 * value yet. Their outputs must have the same shapes. */
static bell_status
run_both(struct onnx_op *op)
{
    const struct onnx_attr *then = op_attr(op, "then_branch");
    const struct onnx_attr *other = op_attr(op, "else_branch");
    struct onnx_value *a = op_take(op, op->n_out, sizeof(*a));
    struct onnx_value *b = op_take(op, op->n_out, sizeof(*b));
    struct bell_tensor *condition = bell_reshape(op_in(op, 0), BELL_NO_DIMS);
    uint32_t i;

    if (!a || !b)
        return onnx_no_memory();
    if (!then || !then->g || !other || !other->g)
        return bell_fail(BELL_E_IO, "it lacks a branch");
    BELL_TRY(onnx_run_inner(op, then->g, NULL, 0, a, op->n_out));
    BELL_TRY(onnx_run_inner(op, other->g, NULL, 0, b, op->n_out));
    for (i = 0; i < op->n_out; i++) {
        struct bell_tensor *x, *y;

        if (a[i].kind != ONNX_VALUE || b[i].kind != ONNX_VALUE)
            return op_unsupported("a condition that is not known, of what is "
                                  "not a tensor");
        x = onnx_tensor_in(op->run, op->ctx, &a[i]);
        y = onnx_tensor_in(op->run, op->ctx, &b[i]);
        if (bell_is_error(x) || bell_is_error(y) ||
            bell_dtype_of(x) != bell_dtype_of(y) ||
            bell_ndim(x) != bell_ndim(y) ||
            memcmp(op_dims(x), op_dims(y), bell_ndim(x) * sizeof(int64_t)) != 0)
            return op_unsupported("a condition that is not known, of branches "
                                  "with other shapes");
        op_out(op, i, bell_where(condition, x, y));
    }
    return BELL_OK;
}

bell_status
onnx_op_if(struct onnx_op *op)
{
    const struct onnx_attr *branch;
    int64_t condition;

    /* A function that is captured cannot read a value. */
    if (op_in_int(op, 0, &condition) != BELL_OK) {
        if (!op_has(op, 0) || !op->in[0]->t)
            return bell_error_last()->status;
        return run_both(op);
    }
    branch = op_attr(op, condition ? "then_branch" : "else_branch");
    if (!branch || !branch->g)
        return bell_fail(BELL_E_IO, "it lacks a branch");
    return onnx_run_inner(op, branch->g, NULL, 0, op->out, op->n_out);
}

/* A number of the host as a value of rank 0. */
static bell_status
number_value(struct onnx_op *op, int64_t number, enum bell_dtype dtype,
             struct onnx_value *out)
{
    struct onnx_host *host = op_take(op, 1, sizeof(*host));
    uint8_t *bytes = op_take(op, 1, sizeof(number));

    if (!host || !bytes)
        return onnx_no_memory();
    memcpy(bytes, &number, sizeof(number));
    host->dtype = dtype;
    host->n = 1;
    host->bytes = bytes;
    *out = (struct onnx_value){
        .kind = ONNX_VALUE, .host = host, .is_constant = true};
    return BELL_OK;
}

/* Rows of a loop that are stacked along a new axis when it ends. */
struct rows {
    struct onnx_value *v;
    size_t n, cap;
};

/* The stack of rows; of no rows it has size 0, as far as a shape is known. */
static bell_status
stack_rows(struct onnx_op *op, struct onnx_value *const *rows, uint32_t n,
           int axis, struct onnx_value *out)
{
    struct bell_tensor **list = op_take(op, n, sizeof(*list));
    uint32_t i;

    if (!list)
        return onnx_no_memory();
    if (n == 0)
        return op_unsupported("a loop of no iterations that gives rows");
    for (i = 0; i < n; i++)
        list[i] = onnx_tensor_in(op->run, op->ctx, rows[i]);
    *out =
        (struct onnx_value){.kind = ONNX_VALUE, .t = bell_stack(list, n, axis)};
    return BELL_OK;
}

/* The rows of output k of every turn, stacked. */
static bell_status
stack_turns(struct onnx_op *op, struct onnx_value **turns, uint32_t n_turns,
            uint32_t k, int axis, bool reverse, struct onnx_value *out)
{
    struct onnx_value **rows = op_take(op, n_turns, sizeof(*rows));
    uint32_t i;

    if (!rows)
        return onnx_no_memory();
    for (i = 0; i < n_turns; i++)
        rows[i] = &turns[reverse ? n_turns - 1 - i : i][k];
    return stack_rows(op, rows, n_turns, axis, out);
}

static bell_status
host_flag(struct onnx_op *op, struct onnx_value *v, int64_t *out)
{
    struct onnx_value *in[1] = {v};
    struct onnx_op probe = *op;

    probe.in = in;
    probe.n_in = 1;
    return op_in_int(&probe, 0, out);
}

bell_status
onnx_op_loop(struct onnx_op *op)
{
    const struct onnx_attr *body = op_attr(op, "body");
    struct onnx_value **turns = op_take(op, MAX_TURNS, sizeof(*turns));
    struct onnx_value **in, *state, *out, turn, condition;
    int64_t limit = INT64_MAX, go = 1;
    uint32_t n_state, n_body_out, i, n = 0;

    if (!body || !body->g || op->n_in < 2)
        return bell_fail(BELL_E_IO, "it lacks a body");
    n_state = op->n_in - 2;
    n_body_out = body->g->n_outputs;
    if (body->g->n_inputs != n_state + 2 || n_body_out < n_state + 1 ||
        op->n_out > n_body_out - 1)
        return bell_fail(BELL_E_IO, "its body has other inputs or outputs");
    if (op_has(op, 0))
        BELL_TRY(op_in_int(op, 0, &limit));
    if (op_has(op, 1))
        BELL_TRY(op_in_int(op, 1, &go));
    in = op_take(op, n_state + 2u, sizeof(*in));
    state = op_take(op, n_state, sizeof(*state));
    if (!turns || !in || !state)
        return onnx_no_memory();
    for (i = 0; i < n_state; i++) {
        if (op->in[2 + i])
            state[i] = *op->in[2 + i];
        in[2 + i] = &state[i];
    }
    in[0] = &turn;
    in[1] = &condition;
    for (; n < limit && go; n++) {
        if (n >= MAX_TURNS)
            return op_unsupported("a loop of more than %d iterations",
                                  MAX_TURNS);
        BELL_TRY(number_value(op, n, BELL_INT64, &turn));
        BELL_TRY(number_value(op, 1, BELL_BOOL, &condition));
        out = op_take(op, n_body_out, sizeof(*out));
        if (!out)
            return onnx_no_memory();
        BELL_TRY(onnx_run_inner(op, body->g, in, n_state + 2, out, n_body_out));
        turns[n] = out + 1 + n_state;
        memcpy(state, out + 1, n_state * sizeof(*state));
        /* A condition that is not looked at further need not be known. */
        if (n + 1 < limit)
            BELL_TRY(host_flag(op, &out[0], &go));
    }
    for (i = 0; i < op->n_out; i++) {
        if (i < n_state)
            op->out[i] = state[i];
        else
            BELL_TRY(
                stack_turns(op, turns, n, i - n_state, 0, false, &op->out[i]));
    }
    return BELL_OK;
}

struct scan_node {
    struct onnx_op *op;
    const struct onnx_graph *body;
    uint32_t n_state, n_scan; /* inputs */
    uint32_t first;           /* input number of the first state */
    struct onnx_ints in_axes, in_reverse, out_axes, out_reverse;
};

static int64_t
list_at(const struct onnx_ints *list, uint32_t i)
{
    return list->given && i < list->n ? list->v[i] : 0;
}

/* Runs all turns on inputs of x; the results of `out` are like the node's. */
static bell_status
run_scan(const struct scan_node *s, struct bell_tensor *const *x,
         struct onnx_value *state, struct onnx_value *out, uint32_t n_out)
{
    struct onnx_op *op = s->op;
    struct onnx_value **turns, **in, *slices, *made;
    uint32_t n_in = s->n_state + s->n_scan, i, n_made = s->body->n_outputs;
    int64_t length = -1, t;

    for (i = 0; i < s->n_scan; i++) {
        int64_t size = bell_size(x[i], (int)list_at(&s->in_axes, i));

        if (length >= 0 && size != length)
            return bell_fail(BELL_BAD_SHAPE,
                             "its inputs have %lld and %lld "
                             "elements",
                             (long long)length, (long long)size);
        length = size;
    }
    if (length < 0 || length > MAX_TURNS)
        return op_unsupported("a scan of %lld", (long long)length);
    turns = op_take(op, (uint64_t)length, sizeof(*turns));
    in = op_take(op, n_in, sizeof(*in));
    if (!turns || !in)
        return onnx_no_memory();
    for (t = 0; t < length; t++) {
        slices = op_take(op, s->n_scan, sizeof(*slices));
        made = op_take(op, n_made, sizeof(*made));
        if (!slices || !made)
            return onnx_no_memory();
        for (i = 0; i < s->n_state; i++)
            in[i] = &state[i];
        for (i = 0; i < s->n_scan; i++) {
            slices[i].kind = ONNX_VALUE;
            slices[i].t =
                bell_select(x[i], (int)list_at(&s->in_axes, i),
                            list_at(&s->in_reverse, i) ? length - 1 - t : t);
            in[s->n_state + i] = &slices[i];
        }
        BELL_TRY(onnx_run_inner(op, s->body, in, n_in, made, n_made));
        memcpy(state, made, s->n_state * sizeof(*state));
        turns[t] = made + s->n_state;
    }
    for (i = 0; i < n_out; i++) {
        uint32_t k = i - s->n_state;

        if (i < s->n_state)
            out[i] = state[i];
        else
            BELL_TRY(stack_turns(op, turns, (uint32_t)length, k,
                                 (int)list_at(&s->out_axes, k),
                                 list_at(&s->out_reverse, k), &out[i]));
    }
    return BELL_OK;
}

/* Before opset 9 axis 0 is a batch, and each of it is scanned by itself. */
static bell_status
scan_batch(const struct scan_node *s, struct bell_tensor *const *x)
{
    struct onnx_op *op = s->op;
    struct onnx_value *state, **outs, **rows;
    struct bell_tensor **one;
    int64_t batch, b;
    uint32_t i;

    if (op_has(op, 0))
        return op_unsupported("sequence_lens");
    batch = s->n_scan ? bell_size(x[0], 0) : 0;
    if (batch < 1 || batch > MAX_TURNS)
        return op_unsupported("a batch of %lld", (long long)batch);
    outs = op_take(op, (uint64_t)batch, sizeof(*outs));
    rows = op_take(op, (uint64_t)batch, sizeof(*rows));
    one = op_take(op, s->n_scan, sizeof(*one));
    state = op_take(op, s->n_state, sizeof(*state));
    if (!outs || !rows || !one || !state)
        return onnx_no_memory();
    for (b = 0; b < batch; b++) {
        for (i = 0; i < s->n_state; i++)
            state[i] = (struct onnx_value){
                .kind = ONNX_VALUE,
                .t = bell_select(op_in(op, s->first + i), 0, b)};
        for (i = 0; i < s->n_scan; i++)
            one[i] = bell_select(x[i], 0, b);
        outs[b] = op_take(op, op->n_out, sizeof(**outs));
        if (!outs[b])
            return onnx_no_memory();
        BELL_TRY(run_scan(s, one, state, outs[b], op->n_out));
    }
    for (i = 0; i < op->n_out; i++) {
        for (b = 0; b < batch; b++)
            rows[b] = &outs[b][i];
        BELL_TRY(stack_rows(op, rows, (uint32_t)batch, 0, &op->out[i]));
    }
    return BELL_OK;
}

bell_status
onnx_op_scan(struct onnx_op *op)
{
    const struct onnx_attr *body = op_attr(op, "body");
    struct scan_node s = {.op = op, .first = op->opset < 9 ? 1 : 0};
    struct bell_tensor **x;
    struct onnx_value *state;
    uint32_t i;

    if (!body || !body->g)
        return bell_fail(BELL_E_IO, "it lacks a body");
    s.body = body->g;
    s.n_scan = (uint32_t)op_int(op, "num_scan_inputs", 0);
    if (op->n_in < s.first || s.n_scan > op->n_in - s.first)
        return bell_fail(BELL_E_IO, "num_scan_inputs is more than its inputs");
    s.n_state = op->n_in - s.first - s.n_scan;
    if (s.body->n_outputs < s.n_state || op->n_out > s.body->n_outputs)
        return bell_fail(BELL_E_IO, "its body has other outputs");
    s.in_axes = op_ints(op, "scan_input_axes");
    s.in_reverse =
        op_ints(op, op->opset < 9 ? "directions" : "scan_input_directions");
    s.out_axes = op_ints(op, "scan_output_axes");
    s.out_reverse = op_ints(op, "scan_output_directions");
    x = op_take(op, s.n_scan, sizeof(*x));
    state = op_take(op, s.n_state, sizeof(*state));
    if (!x || !state)
        return onnx_no_memory();
    for (i = 0; i < s.n_scan; i++)
        x[i] = op_in(op, s.first + s.n_state + i);
    if (op->opset < 9)
        return scan_batch(&s, x);
    for (i = 0; i < s.n_state; i++) {
        if (op->in[i])
            state[i] = *op->in[i];
    }
    return run_scan(&s, x, state, op->out, op->n_out);
}

/* ---- sequences ---- */

static bell_status
put_list(struct onnx_op *op, struct onnx_value *items, uint32_t n)
{
    op->out[0] =
        (struct onnx_value){.kind = ONNX_LIST, .items = items, .n_items = n};
    return BELL_OK;
}

bell_status
onnx_op_sequence_construct(struct onnx_op *op)
{
    struct onnx_value *items = op_take(op, op->n_in, sizeof(*items));
    uint32_t i;

    if (!items)
        return onnx_no_memory();
    for (i = 0; i < op->n_in; i++) {
        if (!op_has(op, i))
            return bell_fail(BELL_BAD_MISSING, "input %u is absent", i);
        items[i] = *op->in[i];
    }
    return put_list(op, items, op->n_in);
}

bell_status
onnx_op_sequence_empty(struct onnx_op *op)
{
    return put_list(op, NULL, 0);
}

static bell_status
need_list(const struct onnx_op *op, uint32_t i)
{
    return i < op->n_in && op->in[i] && op->in[i]->kind == ONNX_LIST
               ? BELL_OK
               : op_unsupported("input %u is not a sequence", i);
}

bell_status
onnx_op_sequence_length(struct onnx_op *op)
{
    BELL_TRY(need_list(op, 0));
    return number_value(op, op->in[0]->n_items, BELL_INT64, &op->out[0]);
}

/* The position that input i says, of n; n itself where it is absent. */
static bell_status
read_position(struct onnx_op *op, uint32_t i, uint32_t n, uint32_t extra,
              uint32_t *out)
{
    int64_t at = n - 1 + extra;

    if (op_has(op, i)) {
        BELL_TRY(op_in_int(op, i, &at));
        at = at < 0 ? at + n : at;
    }
    if (at < 0 || at >= (int64_t)n + extra)
        return bell_fail(BELL_BAD_INDEX, "position %lld is not one of %u",
                         (long long)at, n);
    *out = (uint32_t)at;
    return BELL_OK;
}

bell_status
onnx_op_sequence_at(struct onnx_op *op)
{
    uint32_t at;

    BELL_TRY(need_list(op, 0));
    BELL_TRY(read_position(op, 1, op->in[0]->n_items, 0, &at));
    op->out[0] = op->in[0]->items[at];
    return BELL_OK;
}

bell_status
onnx_op_sequence_insert(struct onnx_op *op)
{
    const struct onnx_value *from;
    struct onnx_value *items;
    uint32_t at, i, n;

    BELL_TRY(need_list(op, 0));
    from = op->in[0];
    n = from->n_items;
    BELL_TRY(read_position(op, 2, n, 1, &at));
    items = op_take(op, n + 1u, sizeof(*items));
    if (!items || !op->in[1])
        return onnx_no_memory();
    for (i = 0; i <= n; i++)
        items[i] = i == at ? *op->in[1] : from->items[i - (i > at)];
    return put_list(op, items, n + 1);
}

bell_status
onnx_op_sequence_erase(struct onnx_op *op)
{
    struct onnx_value *items;
    uint32_t at, i, n;

    BELL_TRY(need_list(op, 0));
    n = op->in[0]->n_items;
    BELL_TRY(read_position(op, 1, n, 0, &at));
    items = op_take(op, n, sizeof(*items));
    if (!items)
        return onnx_no_memory();
    for (i = 0; i + 1 < n; i++)
        items[i] = op->in[0]->items[i + (i >= at)];
    return put_list(op, items, n - 1);
}

bell_status
onnx_op_split_to_sequence(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), **parts;
    int64_t axis = op_axis(op_int(op, "axis", 0), bell_ndim(x)), size, *sizes;
    bool keep = op_int(op, "keepdims", 1), is_list = false;
    struct onnx_ints want;
    struct onnx_value *items;
    const int64_t *shape;
    uint32_t n, i, ndim;

    BELL_TRY(op_in_ints(op, 1, &want));
    if (want.given) {
        BELL_TRY(op_shape(op, 1, &shape, &ndim));
        is_list = ndim > 0;
    }
    if (axis < 0 || axis >= bell_ndim(x))
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u",
                         bell_ndim(x));
    size = bell_shape(x)[axis];
    if (size > MAX_TURNS || (want.given && want.n == 0) ||
        (want.given && !is_list && want.v[0] < 1))
        return op_unsupported("parts of %lld", (long long)size);
    n = is_list      ? want.n
        : want.given ? (uint32_t)((size + want.v[0] - 1) / want.v[0])
                     : (uint32_t)size;
    parts = op_take(op, n, sizeof(*parts));
    sizes = op_take(op, n, sizeof(*sizes));
    items = op_take(op, n, sizeof(*items));
    if (!parts || !sizes || !items)
        return onnx_no_memory();
    for (i = 0; i < n; i++) {
        sizes[i] = is_list ? want.v[i] : want.given ? want.v[0] : 1;
        if (!is_list && sizes[i] > size)
            sizes[i] = size;
        size -= sizes[i];
    }
    bell_split(x, sizes, n, (int)axis, parts);
    for (i = 0; i < n; i++) {
        items[i].kind = ONNX_VALUE;
        items[i].t =
            keep || want.given ? parts[i] : bell_select(parts[i], (int)axis, 0);
    }
    return put_list(op, items, n);
}

bell_status
onnx_op_concat_from_sequence(struct onnx_op *op)
{
    int axis = (int)op_int(op, "axis", 0);
    struct bell_tensor **list;
    uint32_t i, n;

    BELL_TRY(need_list(op, 0));
    n = op->in[0]->n_items;
    list = op_take(op, n, sizeof(*list));
    if (!list)
        return onnx_no_memory();
    for (i = 0; i < n; i++) {
        struct onnx_value item = op->in[0]->items[i];

        list[i] = onnx_tensor_in(op->run, op->ctx, &item);
    }
    op_out(op, 0,
           op_int(op, "new_axis", 0) ? bell_stack(list, n, axis)
                                     : bell_cat(list, n, axis));
    return BELL_OK;
}

bell_status
onnx_op_sequence_map(struct onnx_op *op)
{
    const struct onnx_attr *body = op_attr(op, "body");
    struct onnx_value **in, *args, *made, **lists;
    uint32_t n, i, k;

    if (!body || !body->g)
        return bell_fail(BELL_E_IO, "it lacks a body");
    BELL_TRY(need_list(op, 0));
    n = op->in[0]->n_items;
    in = op_take(op, op->n_in, sizeof(*in));
    lists = op_take(op, op->n_out, sizeof(*lists));
    made = op_take(op, op->n_out, sizeof(*made));
    if (!in || !lists || !made)
        return onnx_no_memory();
    for (k = 0; k < op->n_out; k++) {
        lists[k] = op_take(op, n, sizeof(**lists));
        if (!lists[k])
            return onnx_no_memory();
    }
    for (i = 0; i < n; i++) {
        args = op_take(op, op->n_in, sizeof(*args));
        if (!args)
            return onnx_no_memory();
        for (k = 0; k < op->n_in; k++) {
            if (!op->in[k])
                continue;
            if (op->in[k]->kind == ONNX_LIST && i >= op->in[k]->n_items)
                return bell_fail(BELL_BAD_SHAPE,
                                 "sequences of %u and %u are not of one length",
                                 n, op->in[k]->n_items);
            args[k] =
                op->in[k]->kind == ONNX_LIST ? op->in[k]->items[i] : *op->in[k];
            in[k] = &args[k];
        }
        BELL_TRY(onnx_run_inner(op, body->g, in, op->n_in, made, op->n_out));
        for (k = 0; k < op->n_out; k++)
            lists[k][i] = made[k];
    }
    for (k = 0; k < op->n_out; k++)
        op->out[k] = (struct onnx_value){
            .kind = ONNX_LIST, .items = lists[k], .n_items = n};
    return BELL_OK;
}

/* ---- optionals: a value, or none ---- */

bell_status
onnx_op_optional_has(struct onnx_op *op)
{
    return number_value(op, op_has(op, 0), BELL_BOOL, &op->out[0]);
}

bell_status
onnx_op_optional_get(struct onnx_op *op)
{
    if (!op_has(op, 0))
        return bell_fail(BELL_BAD_MISSING, "an optional that is empty");
    op->out[0] = *op->in[0];
    return BELL_OK;
}
