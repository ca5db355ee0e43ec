/* Two labelled blocks, forward and backward, for test_labels.py.
 *
 * usage: labels_program [plain|other|jit|module|apart]
 *
 * plain: no labels; other: the same graph under other ones; jit: captured, and
 * replayed; module: layers that have names; apart: two blocks of one structure,
 * one after the other.
 */
#include <stdio.h>
#include <string.h>

#include "doorbell/jit.h"
#include "doorbell/label.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"

#define ROWS  64
#define WIDTH 96

struct mlp {
    struct bell_context *ctx;
    struct bell_tensor *x, *w1, *w2;
    const char *outer, *first, *second; /* labels; first NULL: none */
    double value;
};

static bell_status
begin(const struct mlp *m, const char *label)
{
    return m->first ? bell_label_begin(m->ctx, label) : BELL_OK;
}

static bell_status
end(const struct mlp *m)
{
    return m->first ? bell_label_end(m->ctx) : BELL_OK;
}

/* The mean of what both blocks make of x, and gradients of w1 and w2. */
static bell_status
run_blocks(const struct mlp *m, struct bell_tensor *x,
           struct bell_tensor *out[3])
{
    struct bell_tensor *const weights[2] = {m->w1, m->w2};
    struct bell_tensor *h, *y;
    bell_status status = BELL_OK;

    status |= begin(m, m->outer);
    status |= begin(m, m->first);
    h = bell_relu(bell_matmul(x, m->w1));
    status |= end(m);
    status |= begin(m, m->second);
    y = bell_softmax(bell_matmul(h, m->w2), -1);
    status |= end(m);
    status |= end(m);
    out[0] = bell_sum(bell_square(y), BELL_NO_DIMS, false);
    if (status != BELL_OK)
        return BELL_E_INTERNAL;
    return bell_gradient(out[0], weights, 2, out + 1);
}

static bell_status
run_once(struct mlp *m)
{
    struct bell_tensor *out[3];

    if (run_blocks(m, m->x, out) != BELL_OK || bell_realize(out, 3) != BELL_OK)
        return bell_error_last()->status;
    return bell_item_f64(out[0], &m->value);
}

static bell_status
captured(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    (void)ctx;
    return run_blocks(user, in[0], out);
}

static bell_status
run_jit(struct mlp *m)
{
    struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                 .fn = captured,
                                 .user = m,
                                 .n_in = 1,
                                 .n_out = 3};
    struct bell_tensor *out[3];
    struct bell_jit *jit;
    bell_status status;
    int i;

    if (bell_jit_create(m->ctx, &desc, &jit) != BELL_OK)
        return bell_error_last()->status;
    status = bell_jit_call(jit, &m->x, out);
    m->first = "of no capture";
    for (i = 0; i < 3 && status == BELL_OK; i++)
        status = bell_jit_call(jit, &m->x, out);
    if (status == BELL_OK)
        status = bell_item_f64(out[0], &m->value);
    bell_jit_destroy(jit);
    return status;
}

/* Label "net" of the module, in label "step". */
static bell_status
run_module(struct mlp *m)
{
    const struct bell_nn_transformer_options options = {
        .struct_size = sizeof(options), .size = WIDTH, .n_heads = 4};
    struct bell_nn_transformer layer = {0};
    struct bell_tensor *y;
    bell_status status;

    if (bell_nn_transformer_init(m->ctx, &options, &layer) != BELL_OK ||
        bell_module_label(&bell_nn_transformer_type, &layer, "net.block") !=
            BELL_OK)
        return bell_error_last()->status;
    status = bell_label_begin(m->ctx, "step");
    y = bell_reshape(m->x, BELL_DIMS(2, ROWS / 2, WIDTH));
    y = bell_nn_transformer(&layer, y, NULL, false);
    status |= bell_label_end(m->ctx);
    y = bell_sum(y, BELL_NO_DIMS, false);
    return status ? status : bell_item_f64(y, &m->value);
}

/* One plan, run under each of two labels. */
static bell_status
run_apart(struct mlp *m)
{
    struct bell_tensor *const weights[2] = {m->w1, m->w2};
    const char *const labels[2] = {m->first, m->second};
    struct bell_tensor *h = m->x;
    bell_status status;
    int i;

    for (i = 0; i < 2; i++) {
        status = bell_label_begin(m->ctx, labels[i]);
        h = bell_relu(bell_matmul(h, weights[i]));
        status |= bell_label_end(m->ctx);
        if (status != BELL_OK || bell_realize1(h) != BELL_OK)
            return BELL_E_INTERNAL;
    }
    return bell_item_f64(bell_sum(h, BELL_NO_DIMS, false), &m->value);
}

static bell_status
run(struct mlp *m, const char *how)
{
    m->x = bell_uniform(m->ctx, BELL_DIMS(ROWS, WIDTH), -1, 1, BELL_FLOAT32);
    m->w1 = bell_uniform(m->ctx, BELL_DIMS(WIDTH, WIDTH), -1, 1, BELL_FLOAT32);
    m->w2 = bell_uniform(m->ctx, BELL_DIMS(WIDTH, WIDTH), -1, 1, BELL_FLOAT32);
    if (bell_realize((struct bell_tensor *const[]){m->x, m->w1, m->w2}, 3) !=
        BELL_OK)
        return bell_error_last()->status;
    bell_requires_grad(m->w1, true);
    bell_requires_grad(m->w2, true);
    if (strcmp(how, "jit") == 0)
        return run_jit(m);
    if (strcmp(how, "module") == 0)
        return run_module(m);
    if (strcmp(how, "apart") == 0)
        return run_apart(m);
    return run_once(m);
}

int
main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct mlp m = {
        .outer = "mlp", .first = "block 1 \"a\"", .second = "block 2"};
    bell_status status = bell_context_create(NULL, &m.ctx);
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    if (strcmp(how, "plain") == 0)
        m.first = NULL;
    if (strcmp(how, "other") == 0)
        m.first = m.second = "quite another";
    if (status == BELL_OK) {
        status = run(&m, how);
        bell_context_stats(m.ctx, &stats);
        bell_context_destroy(m.ctx);
    }
    if (status != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    fprintf(stderr, "value %.9g, %d plans, %d kernels compiled\n", m.value,
            (int)stats.n_plans, (int)stats.n_kernels_compiled);
    return 0;
}
