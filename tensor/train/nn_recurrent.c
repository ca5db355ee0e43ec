/* LSTM and GRU. The inputs' part of all steps' gates is one product; each step
 * is then a product with h and what the gates do. */
#include "tensor/train/nn.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/ops/elementwise.h"

/* Steps that one kernel puts together. */
#define MAX_JOIN 16

/* ---- cells ---- */

static const struct bell_module_field cell_fields[] = {
    BELL_PARAM(struct bell_nn_cell, weight_ih),
    BELL_PARAM(struct bell_nn_cell, weight_hh),
    BELL_PARAM(struct bell_nn_cell, bias_ih),
    BELL_PARAM(struct bell_nn_cell, bias_hh),
};
const struct bell_module_type bell_nn_cell_type =
    BELL_MODULE_TYPE(struct bell_nn_cell, cell_fields);

enum {
    N_LSTM = 4,
    N_GRU = 3
};

static bell_status
init_cell(const char *call, struct bell_context *ctx, int64_t n_gates,
          int64_t in, int64_t hidden, bool with_bias,
          struct bell_nn_cell *out_cell)
{
    const int64_t sizes[2] = {in, hidden};
    struct bell_nn_cell cell = {0};
    double bound;

    BELL_TRY(nn_begin_init(call, ctx, out_cell, out_cell));
    BELL_TRY(nn_check_sizes(call, sizes, 2));
    if (hidden > INT64_MAX / n_gates)
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: %lld hidden are too many", call,
                            (long long)hidden);
    bound = 1 / sqrt((double)hidden);
    cell.weight_ih = nn_uniform(ctx, BELL_DIMS(n_gates * hidden, in), bound);
    cell.weight_hh =
        nn_uniform(ctx, BELL_DIMS(n_gates * hidden, hidden), bound);
    if (with_bias) {
        cell.bias_ih = nn_uniform(ctx, BELL_DIMS(n_gates * hidden), bound);
        cell.bias_hh = nn_uniform(ctx, BELL_DIMS(n_gates * hidden), bound);
    }
    BELL_TRY(nn_finish(ctx, &bell_nn_cell_type, &cell));
    *out_cell = cell;
    return BELL_OK;
}

bell_status
bell_nn_lstm_cell_init(struct bell_context *ctx, int64_t in, int64_t hidden,
                       bool with_bias, struct bell_nn_cell *out_cell)
{
    return init_cell(__func__, ctx, N_LSTM, in, hidden, with_bias, out_cell);
}

bell_status
bell_nn_gru_cell_init(struct bell_context *ctx, int64_t in, int64_t hidden,
                      bool with_bias, struct bell_nn_cell *out_cell)
{
    return init_cell(__func__, ctx, N_GRU, in, hidden, with_bias, out_cell);
}

/* Gate number k of [n, gates hidden]. */
static struct bell_tensor *
gate(struct bell_tensor *gates, int64_t k, int64_t hidden)
{
    return bell_narrow(gates, 1, k * hidden, hidden);
}

static struct bell_tensor *
hidden_part(const struct bell_nn_cell *cell, struct bell_tensor *h)
{
    return bell_linear(h, cell->weight_hh, cell->bias_hh);
}

/* The next h of the inputs' part of the gates. What the next step looks at
 * more than once is stored: *c and h. */
static struct bell_tensor *
step_lstm(const struct bell_nn_cell *cell, struct bell_tensor *from_x,
          struct bell_tensor *h, struct bell_tensor **c)
{
    struct bell_tensor *all =
        bell_contiguous(bell_add(from_x, hidden_part(cell, h)));
    int64_t n = bell_size(h, 1);
    struct bell_tensor *kept, *fresh;

    kept = bell_mul(bell_sigmoid(gate(all, 1, n)), *c);
    fresh = bell_mul(bell_sigmoid(gate(all, 0, n)), bell_tanh(gate(all, 2, n)));
    *c = bell_contiguous(bell_add(kept, fresh));
    return bell_contiguous(
        bell_mul(bell_sigmoid(gate(all, 3, n)), bell_tanh(*c)));
}

static struct bell_tensor *
step_gru(const struct bell_nn_cell *cell, struct bell_tensor *from_x,
         struct bell_tensor *h)
{
    struct bell_tensor *from_h = bell_contiguous(hidden_part(cell, h));
    int64_t n = bell_size(h, 1);
    struct bell_tensor *r, *z, *fresh;

    r = bell_sigmoid(bell_add(gate(from_x, 0, n), gate(from_h, 0, n)));
    z = bell_sigmoid(bell_add(gate(from_x, 1, n), gate(from_h, 1, n)));
    fresh = bell_tanh(
        bell_add(gate(from_x, 2, n), bell_mul(r, gate(from_h, 2, n))));
    /* (1 - z) fresh + z h */
    return bell_contiguous(bell_add(fresh, bell_mul(z, bell_sub(h, fresh))));
}

/* x and h (and c, or NULL) fit the cell; else *out is what `call` returns. */
static bool
check_cell(const char *call, const struct bell_nn_cell *cell,
           struct bell_tensor *x, struct bell_tensor *h, struct bell_tensor *c,
           struct bell_tensor **out)
{
    int64_t in, hidden;
    struct bell_tensor *all[5] = {x, h, c ? c : h, cell->weight_ih,
                                  cell->weight_hh};

    if (!tensor_takes_n(call, all, 5, out))
        return false;
    in = bell_size(cell->weight_ih, 1);
    hidden = bell_size(cell->weight_hh, 1);
    if (bell_ndim(x) == 2 && tensor_at(x)->shape->d[1] == in &&
        bell_ndim(h) == 2 &&
        tensor_at(h)->shape->d[0] == tensor_at(x)->shape->d[0] &&
        tensor_at(h)->shape->d[1] == hidden &&
        (!c || tensor_at(c)->shape == tensor_at(h)->shape))
        return true;
    *out =
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "x is %s, h %s%s%s; the cell needs [n, %lld] and [n, %lld]",
                    SHAPE_OF(x), SHAPE_OF(h), c ? ", c " : "",
                    c ? SHAPE_OF(c) : "", (long long)in, (long long)hidden);
    return false;
}

struct bell_tensor *
bell_nn_lstm_cell(const struct bell_nn_cell *cell, struct bell_tensor *x,
                  struct bell_tensor *h, struct bell_tensor *c,
                  struct bell_tensor **out_c)
{
    struct bell_tensor *results[2] = {NULL, c}, *unused;
    struct label_hold hold;

    out_c = out_c ? out_c : &unused;
    if (!cell)
        return *out_c = nn_no_layer(__func__, x);
    if (!check_cell(__func__, cell, x, h, c, &results[0]) ||
        !nn_begin(__func__, x, &results[0])) {
        *out_c = results[0];
        return results[0];
    }
    hold = tensor_label_layer(__func__, cell->weight_ih, 0);
    results[0] = step_lstm(cell, bell_linear(x, cell->weight_ih, cell->bias_ih),
                           h, &results[1]);
    tensor_label_layer_end(&hold);
    nn_end(bell_context_of(x), results, 2);
    *out_c = results[1];
    return results[0];
}

struct bell_tensor *
bell_nn_gru_cell(const struct bell_nn_cell *cell, struct bell_tensor *x,
                 struct bell_tensor *h)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!cell)
        return nn_no_layer(__func__, x);
    if (!check_cell(__func__, cell, x, h, NULL, &out) ||
        !nn_begin(__func__, x, &out))
        return out;
    hold = tensor_label_layer(__func__, cell->weight_ih, 0);
    out = step_gru(cell, bell_linear(x, cell->weight_ih, cell->bias_ih), h);
    tensor_label_layer_end(&hold);
    nn_end(bell_context_of(x), &out, 1);
    return out;
}

/* ---- layers ---- */

#define CELL_ROW(as, i, member)                                                \
    {                                                                          \
        .name = (as), .kind = BELL_FIELD_PARAM,                                \
        .offset = offsetof(struct bell_nn_rnn, cells) +                        \
                  (i) * sizeof(struct bell_nn_cell) +                          \
                  offsetof(struct bell_nn_cell, member)                        \
    }
#define CELL_ROWS(suffix, i)                                                   \
    CELL_ROW("weight_ih_" suffix, i, weight_ih),                               \
        CELL_ROW("weight_hh_" suffix, i, weight_hh),                           \
        CELL_ROW("bias_ih_" suffix, i, bias_ih),                               \
        CELL_ROW("bias_hh_" suffix, i, bias_hh)
#define LAYER_ROWS(suffix, k)                                                  \
    CELL_ROWS(suffix, 2 * (k)), CELL_ROWS(suffix "_reverse", 2 * (k) + 1)

static const struct bell_module_field rnn_fields[] = {
    LAYER_ROWS("l0", 0), LAYER_ROWS("l1", 1), LAYER_ROWS("l2", 2),
    LAYER_ROWS("l3", 3), LAYER_ROWS("l4", 4), LAYER_ROWS("l5", 5),
    LAYER_ROWS("l6", 6), LAYER_ROWS("l7", 7),
};
const struct bell_module_type bell_nn_rnn_type =
    BELL_MODULE_TYPE(struct bell_nn_rnn, rnn_fields);

static bell_status
init_rnn(const char *call, struct bell_context *ctx, int64_t n_gates,
         const struct bell_nn_rnn_options *options,
         struct bell_nn_rnn *out_layer)
{
    struct bell_nn_rnn layer = {0};
    struct bell_nn_rnn_options *o = &layer.options;
    bell_status status = BELL_OK;
    uint32_t k, step;

    BELL_TRY(nn_begin_init(call, ctx, options, out_layer));
    BELL_TRY(tensor_options(call, options, sizeof(*o), sizeof(*o), o));
    step = o->is_bidirectional ? 1 : 2;
    o->n_layers = o->n_layers ? o->n_layers : 1;
    if (o->n_layers > BELL_NN_RNN_LAYERS || !(o->dropout >= 0) ||
        o->dropout > 1)
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: %u layers with a dropout of %g; expected %d "
                            "at most, and 0 to 1",
                            call, o->n_layers, o->dropout, BELL_NN_RNN_LAYERS);
    for (k = 0; k < 2 * o->n_layers && status == BELL_OK; k += step) {
        int64_t in = k < 2 ? o->in : (o->is_bidirectional ? 2 : 1) * o->hidden;

        status = init_cell(call, ctx, n_gates, in, o->hidden, !o->without_bias,
                           &layer.cells[k]);
    }
    if (status == BELL_OK)
        *out_layer = layer;
    else
        bell_module_fini(&bell_nn_rnn_type, &layer);
    return status;
}

bell_status
bell_nn_lstm_init(struct bell_context *ctx,
                  const struct bell_nn_rnn_options *options,
                  struct bell_nn_rnn *out_layer)
{
    return init_rnn(__func__, ctx, N_LSTM, options, out_layer);
}

bell_status
bell_nn_gru_init(struct bell_context *ctx,
                 const struct bell_nn_rnn_options *options,
                 struct bell_nn_rnn *out_layer)
{
    return init_rnn(__func__, ctx, N_GRU, options, out_layer);
}

/* A call of a layer. */
struct rnn_run {
    const struct bell_nn_rnn *layer;
    bool is_lstm;
    int64_t n_steps, n_batch;
    struct bell_tensor **steps;                    /* n_steps; scratch */
    struct bell_tensor *h[2 * BELL_NN_RNN_LAYERS]; /* at the end */
    struct bell_tensor *c[2 * BELL_NN_RNN_LAYERS];
};

/* The steps put together, [l, n, hidden]; a few at a time, so that no kernel
 * has to choose among many. */
static struct bell_tensor *
join_steps(struct bell_tensor **steps, int64_t n)
{
    int64_t i, n_next;
    bool is_first = true;

    for (; n > 1 || is_first; n = n_next, is_first = false) {
        n_next = 0;
        for (i = 0; i < n; i += MAX_JOIN) {
            uint32_t count = (uint32_t)(n - i < MAX_JOIN ? n - i : MAX_JOIN);
            struct bell_tensor *part = is_first
                                           ? bell_stack(steps + i, count, 0)
                                           : bell_cat(steps + i, count, 0);

            steps[n_next++] = bell_contiguous(part);
        }
    }
    return steps[0];
}

/* One direction of a layer. */
static struct bell_tensor *
run_cell(struct rnn_run *run, uint32_t k, struct bell_tensor *x)
{
    const struct bell_nn_cell *cell = &run->layer->cells[k];
    struct bell_tensor *from_x, *h = run->h[k];
    int64_t i;

    from_x = bell_contiguous(bell_linear(x, cell->weight_ih, cell->bias_ih));
    for (i = 0; i < run->n_steps; i++) {
        int64_t at = k % 2 ? run->n_steps - 1 - i : i;
        struct bell_tensor *part = bell_select(from_x, 0, at);

        h = run->is_lstm ? step_lstm(cell, part, h, &run->c[k])
                         : step_gru(cell, part, h);
        run->steps[at] = h;
    }
    run->h[k] = h;
    return join_steps(run->steps, run->n_steps);
}

static struct bell_tensor *
run_layers(struct rnn_run *run, struct bell_tensor *x)
{
    const struct bell_nn_rnn_options *o = &run->layer->options;
    struct bell_tensor *both[2];
    uint32_t k;

    for (k = 0; k < o->n_layers; k++) {
        if (k > 0)
            x = bell_dropout(x, o->dropout);
        both[0] = run_cell(run, 2 * k, x);
        if (o->is_bidirectional) {
            both[1] = run_cell(run, 2 * k + 1, x);
            x = bell_cat(both, 2, 2);
        } else {
            x = both[0];
        }
    }
    return x;
}

/* What the cells begin with, of `given` or zeros. */
static bool
begin_cells(const char *call, const struct rnn_run *run, struct bell_tensor *x,
            struct bell_tensor *given, struct bell_tensor **cells,
            struct bell_tensor **out)
{
    const struct bell_nn_rnn_options *o = &run->layer->options;
    uint32_t step = o->is_bidirectional ? 1 : 2, k;
    int64_t n = o->n_layers * (o->is_bidirectional ? 2 : 1);
    const int64_t due[3] = {n, run->n_batch, o->hidden};
    char text[128];

    if (given && !tensor_takes2(call, x, given, out))
        return false;
    if (given && (bell_ndim(given) != 3 ||
                  memcmp(tensor_at(given)->shape->d, due, sizeof(due)) != 0)) {
        *out = tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                           "a beginning of %s, not %s", SHAPE_OF(given),
                           tensor_sizes_str(tensor_at(x)->ctx->dims, due, 3,
                                            text, sizeof(text)));
        return false;
    }
    for (k = 0; k < 2 * o->n_layers; k += step)
        cells[k] = given ? bell_select(given, 0, k / step)
                         : bell_zeros(tensor_at(x)->ctx,
                                      BELL_DIMS(run->n_batch, o->hidden),
                                      bell_dtype_of(x));
    return true;
}

static struct bell_tensor *
join_cells(const struct rnn_run *run, struct bell_tensor *const *cells)
{
    struct bell_tensor *list[2 * BELL_NN_RNN_LAYERS];
    uint32_t step = run->layer->options.is_bidirectional ? 1 : 2, k, n = 0;

    for (k = 0; k < 2 * run->layer->options.n_layers; k += step)
        list[n++] = cells[k];
    return bell_stack(list, n, 0);
}

static bool
check_rnn(const char *call, const struct bell_nn_rnn *layer,
          struct bell_tensor *x, struct bell_tensor **out)
{
    uint32_t steps = layer->options.is_batch_first;

    if (!tensor_takes2(call, x, layer->cells[0].weight_ih, out))
        return false;
    if (bell_ndim(x) == 3 && tensor_at(x)->shape->d[2] == layer->options.in &&
        tensor_at(x)->shape->d[steps] > 0)
        return tensor_plain_axes(call, x, 1u << steps,
                                 "there are kernels for each step", out);
    *out = tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                       "x is %s, not steps of %lld inputs", SHAPE_OF(x),
                       (long long)layer->options.in);
    return false;
}

static struct bell_tensor *
run_rnn(const char *call, struct rnn_run *run, struct bell_tensor *x,
        struct bell_tensor *h0, struct bell_tensor *c0)
{
    bool is_batch_first = run->layer->options.is_batch_first;
    struct bell_tensor *out;

    run->n_steps = bell_size(x, is_batch_first);
    run->n_batch = tensor_at(x)->shape->d[!is_batch_first];
    if (!begin_cells(call, run, x, h0, run->h, &out) ||
        (run->is_lstm && !begin_cells(call, run, x, c0, run->c, &out)))
        return out;
    run->steps = host_calloc((size_t)run->n_steps, sizeof(*run->steps));
    if (!run->steps)
        return tensor_fail(tensor_at(x)->ctx, call, BELL_E_NO_MEMORY,
                           "out of memory for %lld steps",
                           (long long)run->n_steps);
    out = run_layers(run, is_batch_first ? bell_transpose(x, 0, 1) : x);
    host_free(run->steps);
    return is_batch_first ? bell_transpose(out, 0, 1) : out;
}

/* A whole call; out[1] and out[2] are what the cells end with, if `wanted`. */
static void
call_rnn(const char *call, struct rnn_run *run, struct bell_tensor *x,
         struct bell_tensor *h0, struct bell_tensor *c0, const bool wanted[3],
         struct bell_tensor *out[3])
{
    struct label_hold hold;

    if (!run->layer)
        out[0] = nn_no_layer(call, x);
    if (!run->layer || !check_rnn(call, run->layer, x, &out[0]) ||
        !nn_begin(call, x, &out[0])) {
        out[1] = out[2] = out[0];
        return;
    }
    hold = tensor_label_layer(call, run->layer->cells[0].weight_ih, 0);
    out[1] = out[2] = out[0] = run_rnn(call, run, x, h0, c0);
    tensor_label_layer_end(&hold);
    if (wanted[1] && !bell_is_error(out[0]))
        out[1] = join_cells(run, run->h);
    if (wanted[2] && !bell_is_error(out[0]))
        out[2] = join_cells(run, run->c);
    nn_end(bell_context_of(x), out, 3);
}

struct bell_tensor *
bell_nn_lstm(const struct bell_nn_rnn *layer, struct bell_tensor *x,
             struct bell_tensor *h0, struct bell_tensor *c0,
             struct bell_tensor **out_h, struct bell_tensor **out_c)
{
    struct rnn_run run = {.layer = layer, .is_lstm = true};
    const bool wanted[3] = {true, out_h != NULL, out_c != NULL};
    struct bell_tensor *out[3];

    call_rnn(__func__, &run, x, h0, c0, wanted, out);
    if (out_h)
        *out_h = out[1];
    if (out_c)
        *out_c = out[2];
    return out[0];
}

struct bell_tensor *
bell_nn_gru(const struct bell_nn_rnn *layer, struct bell_tensor *x,
            struct bell_tensor *h0, struct bell_tensor **out_h)
{
    struct rnn_run run = {.layer = layer};
    const bool wanted[3] = {true, out_h != NULL, false};
    struct bell_tensor *out[3];

    call_rnn(__func__, &run, x, h0, NULL, wanted, out);
    if (out_h)
        *out_h = out[1];
    return out[0];
}
