/* RNN, GRU and LSTM, step after step. src: onnx 1.23, Operators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

/* Steps of both directions together. */
#define MAX_STEPS 4096

struct activation {
    const char *name;
    double alpha, beta;
};

/* A direction of a layer. */
struct cell {
    struct onnx_op *op;
    char kind; /* 'R', 'G', 'L' */
    int64_t n_gates, hidden, batch;
    struct bell_tensor *w, *r, *wb, *rb, *p; /* transposed; biases or NULL */
    /* Quantised weights, less their zeros, have scales: what they are
     * multiplied by is quantised then, too. */
    struct bell_tensor *w_scale, *r_scale;
    struct activation acts[3];
    double clip;
    bool linear_before_reset, input_forget;
};

static struct bell_tensor *
activate(const struct activation *a, struct bell_tensor *x, double clip)
{
    const char *n = a->name;

    if (clip > 0)
        x = bell_clip(x, -clip, clip);
    if (strcmp(n, "Sigmoid") == 0)
        return bell_sigmoid(x);
    if (strcmp(n, "Tanh") == 0)
        return bell_tanh(x);
    if (strcmp(n, "Relu") == 0)
        return bell_relu(x);
    if (strcmp(n, "Affine") == 0)
        return bell_add_scalar(bell_mul_scalar(x, a->alpha), a->beta);
    if (strcmp(n, "LeakyRelu") == 0)
        return bell_leaky_relu(x, a->alpha);
    if (strcmp(n, "ScaledTanh") == 0)
        return bell_mul_scalar(bell_tanh(bell_mul_scalar(x, a->beta)),
                               a->alpha);
    if (strcmp(n, "HardSigmoid") == 0)
        return bell_clip(bell_add_scalar(bell_mul_scalar(x, a->alpha), a->beta),
                         0, 1);
    if (strcmp(n, "Elu") == 0)
        return bell_elu(x, a->alpha);
    if (strcmp(n, "Softsign") == 0)
        return bell_softsign(x);
    return bell_softplus(x, 1);
}

static bool
is_activation(const char *name)
{
    static const char *const names[] = {
        "Sigmoid",    "Tanh",        "Relu", "Affine",   "LeakyRelu",
        "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

static bell_status
read_activations(struct cell *c, uint32_t dir)
{
    const struct onnx_attr *names = op_attr(c->op, "activations");
    const struct onnx_attr *alpha = op_attr(c->op, "activation_alpha");
    const struct onnx_attr *beta = op_attr(c->op, "activation_beta");
    uint32_t n = c->kind == 'L' ? 3 : c->kind == 'G' ? 2 : 1, i;

    for (i = 0; i < n; i++) {
        struct activation *a = &c->acts[i];
        uint32_t k = dir * n + i;

        a->name = i == 0 && c->kind != 'R' ? "Sigmoid" : "Tanh";
        if (names && k < names->n)
            a->name = names->strings[k];
        if (!is_activation(a->name))
            return op_unsupported("activation '%.40s' is not known", a->name);
        a->alpha = strcmp(a->name, "LeakyRelu") == 0     ? (double)0.01f
                   : strcmp(a->name, "HardSigmoid") == 0 ? (double)0.2f
                                                         : 1;
        a->beta = strcmp(a->name, "HardSigmoid") == 0 ? 0.5 : 0;
        if (alpha && k < alpha->n)
            a->alpha = (double)alpha->floats[k];
        if (beta && k < beta->n)
            a->beta = (double)beta->floats[k];
    }
    return BELL_OK;
}

/* x @ w; of a quantised w as DynamicQuantizeLSTM has it. */
static struct bell_tensor *
product(const struct cell *c, struct bell_tensor *x, struct bell_tensor *w,
        struct bell_tensor *w_scale)
{
    struct bell_tensor *scale, *zero;

    if (!w_scale)
        return bell_matmul(x, w);
    op_quantise_by_range(c->op, x, &x, &scale, &zero);
    x = bell_sub(bell_cast(x, BELL_INT32), bell_cast(zero, BELL_INT32));
    return bell_mul(bell_cast(bell_matmul(x, w), BELL_FLOAT32),
                    bell_mul(scale, w_scale));
}

/* Gate number g of [batch, n_gates hidden]. */
static struct bell_tensor *
gate_of(const struct cell *c, struct bell_tensor *x, int64_t g)
{
    return bell_narrow(x, 1, g * c->hidden, c->hidden);
}

static struct bell_tensor *
peep(const struct cell *c, struct bell_tensor *x, int64_t k,
     struct bell_tensor *state)
{
    return c->p ? bell_add(x, bell_mul(bell_narrow(c->p, 0, k * c->hidden,
                                                   c->hidden),
                                       state))
                : x;
}

static void
lstm_step(const struct cell *c, struct bell_tensor *x, struct bell_tensor **h,
          struct bell_tensor **s)
{
    struct bell_tensor *all = bell_add(x, product(c, *h, c->r, c->r_scale));
    struct bell_tensor *i, *o, *f, *cand, *next;

    if (c->rb)
        all = bell_add(all, c->rb);
    i = activate(&c->acts[0], peep(c, gate_of(c, all, 0), 0, *s), c->clip);
    f = activate(&c->acts[0], peep(c, gate_of(c, all, 2), 2, *s), c->clip);
    cand = activate(&c->acts[1], gate_of(c, all, 3), c->clip);
    if (c->input_forget)
        f = bell_sub(bell_ones_like(i, BELL_DEFAULT), i);
    next = bell_add(bell_mul(f, *s), bell_mul(i, cand));
    o = activate(&c->acts[0], peep(c, gate_of(c, all, 1), 1, next), c->clip);
    *s = next;
    *h = bell_mul(o, activate(&c->acts[2], next, 0));
}

static void
gru_step(const struct cell *c, struct bell_tensor *x, struct bell_tensor **h)
{
    struct bell_tensor *hr, *z, *r, *cand, *part;
    int64_t n = c->hidden;

    hr = bell_matmul(*h, bell_narrow(c->r, 1, 0, 2 * n));
    if (c->rb)
        hr = bell_add(hr, bell_narrow(c->rb, 0, 0, 2 * n));
    z = activate(&c->acts[0], bell_add(gate_of(c, x, 0), gate_of(c, hr, 0)),
                 c->clip);
    r = activate(&c->acts[0], bell_add(gate_of(c, x, 1), gate_of(c, hr, 1)),
                 c->clip);
    if (c->linear_before_reset) {
        part = bell_matmul(*h, bell_narrow(c->r, 1, 2 * n, n));
        if (c->rb)
            part = bell_add(part, bell_narrow(c->rb, 0, 2 * n, n));
        part = bell_mul(r, part);
    } else {
        part = bell_matmul(bell_mul(r, *h), bell_narrow(c->r, 1, 2 * n, n));
        if (c->rb)
            part = bell_add(part, bell_narrow(c->rb, 0, 2 * n, n));
    }
    cand = activate(&c->acts[1], bell_add(gate_of(c, x, 2), part), c->clip);
    *h = bell_add(bell_mul(bell_sub(bell_ones_like(z, BELL_DEFAULT), z), cand),
                  bell_mul(z, *h));
}

static void
rnn_step(const struct cell *c, struct bell_tensor *x, struct bell_tensor **h)
{
    struct bell_tensor *all = bell_add(x, bell_matmul(*h, c->r));

    if (c->rb)
        all = bell_add(all, c->rb);
    *h = activate(&c->acts[0], all, c->clip);
}

/* x[l, batch, in]; *h and *s are the state. `valid[l, batch, 1]` or NULL: what
 * belongs to its sequence. */
static struct bell_tensor *
run_direction(const struct cell *c, struct bell_tensor *x,
              struct bell_tensor *valid, bool reverse, struct bell_tensor **h,
              struct bell_tensor **s, struct bell_tensor **steps)
{
    int64_t length = op_dim(x, 0), i;
    struct bell_tensor *all = product(c, x, c->w, c->w_scale);

    if (c->wb)
        all = bell_add(all, c->wb);
    for (i = 0; i < length; i++) {
        int64_t t = reverse ? length - 1 - i : i;
        struct bell_tensor *at = bell_select(all, 0, t), *h0 = *h, *s0 = *s;
        struct bell_tensor *shown, *mask;

        if (c->kind == 'L')
            lstm_step(c, at, h, s);
        else if (c->kind == 'G')
            gru_step(c, at, h);
        else
            rnn_step(c, at, h);
        shown = *h;
        if (valid) {
            mask = bell_select(valid, 0, t);
            shown = bell_where(mask, *h, bell_zeros_like(*h, BELL_DEFAULT));
            *h = bell_where(mask, *h, h0);
            if (c->kind == 'L')
                *s = bell_where(mask, *s, s0);
        }
        steps[t] = shown;
    }
    return bell_stack(steps, (uint32_t)length, 0);
}

static struct bell_tensor *
of_direction(struct onnx_op *op, uint32_t i, int64_t dir)
{
    struct bell_tensor *t = op_in_or_null(op, i);

    return t ? bell_select(t, 0, dir) : NULL;
}

static char
kind_of(const struct onnx_op *op)
{
    return *op->node->op == 'D' ? 'L' : *op->node->op;
}

/* The weight of input i, which DynamicQuantizeLSTM has transposed, less the
 * zero of input k + 1; its scale is that of input k. One of either or one for
 * each column. */
static struct bell_tensor *
quantised_weight(struct onnx_op *op, int64_t dir, uint32_t i, uint32_t k,
                 struct bell_tensor **out_scale)
{
    struct bell_tensor *w = bell_cast(of_direction(op, i, dir), BELL_INT32);
    struct bell_tensor *zero = of_direction(op, k + 1, dir);

    *out_scale = bell_select(op_in(op, k), 0, dir);
    return zero ? bell_sub(w, bell_cast(zero, BELL_INT32)) : w;
}

static bell_status
make_cell(struct onnx_op *op, int64_t dir, struct cell *c)
{
    struct bell_tensor *b = of_direction(op, 3, dir);

    memset(c, 0, sizeof(*c));
    c->op = op;
    c->kind = kind_of(op);
    c->n_gates = c->kind == 'L' ? 4 : c->kind == 'G' ? 3 : 1;
    if (*op->node->op == 'D') {
        c->w = quantised_weight(op, dir, 1, 8, &c->w_scale);
        c->r = quantised_weight(op, dir, 2, 10, &c->r_scale);
    } else {
        c->w = bell_t(of_direction(op, 1, dir));
        c->r = bell_t(of_direction(op, 2, dir));
    }
    if (bell_is_error(c->r) || bell_ndim(c->r) != 2 || op_varies(c->r))
        return bell_fail(BELL_BAD_SHAPE, "R has other axes");
    c->hidden = bell_shape(c->r)[0];
    if (op_int(op, "hidden_size", c->hidden) != c->hidden ||
        bell_shape(c->r)[1] != c->n_gates * c->hidden)
        return bell_fail(BELL_BAD_SHAPE, "R is of another hidden_size");
    if (b) {
        c->wb = bell_narrow(b, 0, 0, c->n_gates * c->hidden);
        c->rb =
            bell_narrow(b, 0, c->n_gates * c->hidden, c->n_gates * c->hidden);
    }
    if (c->kind == 'L')
        c->p = of_direction(op, 7, dir);
    c->clip = op_float(op, "clip", 0);
    c->linear_before_reset = op_int(op, "linear_before_reset", 0);
    c->input_forget = op_int(op, "input_forget", 0);
    return read_activations(c, (uint32_t)dir);
}

static struct bell_tensor *
valid_steps(struct onnx_op *op, int64_t length, int64_t batch)
{
    struct bell_tensor *lens = op_in_or_null(op, 4), *t;

    if (!lens)
        return NULL;
    t = bell_reshape(bell_arange_int(op->ctx, 0, length, 1, BELL_INT64),
                     BELL_DIMS(length, 1, 1));
    return bell_lt(
        t, bell_reshape(op_to(lens, BELL_INT64), BELL_DIMS(1, batch, 1)));
}

bell_status
onnx_op_recurrent(struct onnx_op *op)
{
    const char *direction = op_str(op, "direction", "forward");
    bool both = strcmp(direction, "bidirectional") == 0;
    bool batch_first = op_int(op, "layout", 0), is_lstm = kind_of(op) == 'L';
    struct bell_tensor *x = op_in(op, 0), *ys[2], *hs[2], *ss[2], *valid;
    struct bell_tensor **steps, *h0, *s0, *y;
    int64_t length, batch, n_dirs = both ? 2 : 1, d;
    struct cell cell;

    if (!both && strcmp(direction, "forward") != 0 &&
        strcmp(direction, "reverse") != 0)
        return op_unsupported("direction '%.40s' is not known", direction);
    if (bell_ndim(x) != 3)
        return bell_fail(BELL_BAD_SHAPE, "X has %u axes", bell_ndim(x));
    if (batch_first)
        x = bell_transpose(x, 0, 1);
    length = op_dim(x, 0);
    batch = op_dim(x, 1);
    if (op_is_size(length))
        return op_unsupported("its steps are a symbol's: give a number");
    if (length < 1 || length > MAX_STEPS)
        return op_unsupported("%lld steps; expected 1 to %d", (long long)length,
                              MAX_STEPS);
    steps = op_take(op, (uint64_t)length, sizeof(*steps));
    if (!steps)
        return onnx_no_memory();
    valid = valid_steps(op, length, batch);
    h0 = op_in_or_null(op, 5);
    s0 = is_lstm ? op_in_or_null(op, 6) : NULL;
    if (batch_first && h0)
        h0 = bell_transpose(h0, 0, 1);
    if (batch_first && s0)
        s0 = bell_transpose(s0, 0, 1);
    for (d = 0; d < n_dirs; d++) {
        bool reverse = both ? d == 1 : *direction == 'r';

        BELL_TRY(make_cell(op, d, &cell));
        hs[d] = h0 ? bell_select(h0, 0, d)
                   : bell_zeros(op->ctx, BELL_DIMS(batch, cell.hidden),
                                bell_dtype_of(x));
        ss[d] = s0 ? bell_select(s0, 0, d)
                   : bell_zeros(op->ctx, BELL_DIMS(batch, cell.hidden),
                                bell_dtype_of(x));
        ys[d] = run_direction(&cell, x, valid, reverse, &hs[d], &ss[d], steps);
    }
    y = bell_stack(ys, (uint32_t)n_dirs, 1); /* [l, dirs, batch, hidden] */
    op_out(op, 0, batch_first ? bell_permute(y, BELL_DIMS(2, 0, 1, 3)) : y);
    op_out(op, 1, bell_stack(hs, (uint32_t)n_dirs, batch_first ? 1 : 0));
    if (is_lstm)
        op_out(op, 2, bell_stack(ss, (uint32_t)n_dirs, batch_first ? 1 : 0));
    return BELL_OK;
}
