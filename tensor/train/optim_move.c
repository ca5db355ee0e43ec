/* Optimisers' formulas: a parameter's next value and states as nodes.
 * src: the algorithm boxes of torch.optim's documentation; You, Gitman,
 * Ginsburg 2017 (LARS); You et al. 2019 (LAMB); Jordan 2024 (Muon). */
#include "tensor/train/optim.h"

#include <math.h>

#include "tensor/ops/matmul.h"

static uint32_t
all_axes(const struct bell_context *ctx, const struct uop *u)
{
    return (uint32_t)((1ull << tn_rank(ctx, u)) - 1);
}

const struct uop *
optim_norm(struct bell_context *ctx, const struct uop *u)
{
    return tn_sqrt(ctx, tn_sum(ctx, tn_mul(ctx, u, u), all_axes(ctx, u)));
}

/* a * x + b * y with numbers a, b. */
static const struct uop *
blend(struct bell_context *ctx, const struct uop *x, double a,
      const struct uop *y, double b)
{
    return tn_add(ctx, tn_mul_c(ctx, x, a), tn_mul_c(ctx, y, b));
}

/* x, or 1 where either norm is 0. */
static const struct uop *
trust_where(struct bell_context *ctx, const struct uop *x, const struct uop *a,
            const struct uop *b)
{
    const struct uop *zero = tn_num(ctx, a, 0);
    const struct uop *is_used =
        tn_and(ctx, tn_lt(ctx, zero, a), tn_lt(ctx, zero, b));

    return tn_where(ctx, is_used, x, tn_num(ctx, x, 1));
}

static void
decay_gradient(struct optim_move *m)
{
    double decay = m->settings->weight_decay;

    if (decay != 0 && !m->settings->decoupled)
        m->g = tn_add(m->ctx, m->g, tn_mul_c(m->ctx, m->p, decay));
}

/* p := p - x * a rate. */
static void
descend(struct optim_move *m, const struct uop *x, enum optim_rate rate)
{
    m->p = tn_sub(m->ctx, m->p, tn_mul(m->ctx, x, m->rates[rate]));
}

void
optim_move_sgd(struct optim_move *m)
{
    const struct optim_settings *set = m->settings;
    struct bell_context *ctx = m->ctx;
    const struct uop *step;

    decay_gradient(m);
    step = m->g;
    if (set->momentum != 0) {
        m->state[0] = tn_add(ctx, tn_mul_c(ctx, m->state[0], set->momentum),
                             tn_mul(ctx, m->g, m->rates[RATE_GAIN]));
        step = set->nesterov ? tn_add(ctx, m->g,
                                      tn_mul_c(ctx, m->state[0], set->momentum))
                             : m->state[0];
    }
    descend(m, step, RATE_LR);
}

/* Adam's moments; the direction is the result's mean over its root, without
 * the first moment's correction. */
static const struct uop *
advance_moments(struct optim_move *m)
{
    const struct optim_settings *set = m->settings;
    struct bell_context *ctx = m->ctx;
    const struct uop *root;

    m->state[0] = blend(ctx, m->state[0], set->beta1, m->g, 1 - set->beta1);
    m->state[1] = blend(ctx, m->state[1], set->beta2, tn_mul(ctx, m->g, m->g),
                        1 - set->beta2);
    root = tn_mul(ctx, tn_sqrt(ctx, m->state[1]), m->rates[RATE_ROOT]);
    return tn_fdiv(ctx, m->state[0], tn_add_c(ctx, root, set->eps));
}

void
optim_move_adam(struct optim_move *m)
{
    decay_gradient(m);
    if (m->settings->decoupled && m->settings->weight_decay != 0)
        m->p = tn_mul(m->ctx, m->p, m->rates[RATE_DECAY]);
    descend(m, advance_moments(m), RATE_STEP);
}

void
optim_move_lamb(struct optim_move *m)
{
    struct bell_context *ctx = m->ctx;
    const struct uop *r = advance_moments(m), *norm_p, *norm_r, *ratio;

    r = tn_mul(ctx, r, m->rates[RATE_MEAN]);
    r = tn_add(ctx, r, tn_mul_c(ctx, m->p, m->settings->weight_decay));
    norm_p = optim_norm(ctx, m->p);
    norm_r = optim_norm(ctx, r);
    ratio = trust_where(ctx, tn_fdiv(ctx, norm_p, norm_r), norm_p, norm_r);
    descend(m, tn_mul(ctx, r, ratio), RATE_LR);
}

void
optim_move_rmsprop(struct optim_move *m)
{
    const struct optim_settings *set = m->settings;
    struct bell_context *ctx = m->ctx;
    const struct uop *v, *step;
    uint32_t at = 1;

    decay_gradient(m);
    m->state[0] = blend(ctx, m->state[0], set->beta1, tn_mul(ctx, m->g, m->g),
                        1 - set->beta1);
    v = m->state[0];
    if (set->centered) {
        m->state[at] =
            blend(ctx, m->state[at], set->beta1, m->g, 1 - set->beta1);
        v = tn_sub(ctx, v, tn_mul(ctx, m->state[at], m->state[at]));
        at++;
    }
    step = tn_fdiv(ctx, m->g, tn_add_c(ctx, tn_sqrt(ctx, v), set->eps));
    if (set->momentum != 0) {
        m->state[at] =
            tn_add(ctx, tn_mul_c(ctx, m->state[at], set->momentum), step);
        step = m->state[at];
    }
    descend(m, step, RATE_LR);
}

void
optim_move_adagrad(struct optim_move *m)
{
    struct bell_context *ctx = m->ctx;
    const struct uop *root;

    decay_gradient(m);
    m->state[0] = tn_add(ctx, m->state[0], tn_mul(ctx, m->g, m->g));
    root = tn_add_c(ctx, tn_sqrt(ctx, m->state[0]), m->settings->eps);
    descend(m, tn_fdiv(ctx, m->g, root), RATE_STEP);
}

void
optim_move_lars(struct optim_move *m)
{
    const struct optim_settings *set = m->settings;
    struct bell_context *ctx = m->ctx;
    const struct uop *norm_p = optim_norm(ctx, m->p);
    const struct uop *norm_g = optim_norm(ctx, m->g), *q, *step;

    q = tn_add(ctx, norm_g, tn_mul_c(ctx, norm_p, set->weight_decay));
    q = tn_fdiv(ctx, tn_mul_c(ctx, norm_p, set->trust),
                tn_add_c(ctx, q, set->eps));
    q = tn_mul(ctx, trust_where(ctx, q, norm_p, norm_g), m->rates[RATE_LR]);
    decay_gradient(m);
    step = tn_mul(ctx, m->g, q);
    m->state[0] = tn_add(ctx, tn_mul_c(ctx, m->state[0], set->momentum), step);
    m->p = tn_sub(ctx, m->p, m->state[0]);
}

/* x with its singular values brought near 1: the odd polynomial of the paper,
 * n times. x has no more rows than columns. */
static const struct uop *
level_values(struct bell_context *ctx, const struct uop *x, double eps,
             uint32_t n)
{
    const struct uop *norm = optim_norm(ctx, x), *gram, *update;
    uint32_t i;

    x = tn_fdiv(ctx, x, tn_max(ctx, norm, tn_num(ctx, norm, eps)));
    for (i = 0; i < n; i++) {
        gram = tn_matmul(ctx, x, tn_swap(ctx, x, 0, 1));
        update = blend(ctx, gram, -4.775, tn_matmul(ctx, gram, gram), 2.0315);
        x = tn_add(ctx, tn_mul_c(ctx, x, 3.4445), tn_matmul(ctx, update, x));
    }
    return x;
}

void
optim_move_muon(struct optim_move *m)
{
    const struct optim_settings *set = m->settings;
    struct bell_context *ctx = m->ctx;
    double rows = (double)tn_size(ctx, m->p, 0);
    double columns = (double)tn_size(ctx, m->p, 1);
    const struct uop *step;

    m->state[0] =
        blend(ctx, m->state[0], set->momentum, m->g, 1 - set->momentum);
    step = set->nesterov
               ? blend(ctx, m->g, 1 - set->momentum, m->state[0], set->momentum)
               : m->state[0];
    if (rows > columns)
        step = tn_swap(ctx, step, 0, 1);
    step = level_values(ctx, step, set->eps, set->n_iters);
    if (rows > columns)
        step = tn_mul_c(ctx, tn_swap(ctx, step, 0, 1), sqrt(rows / columns));
    if (set->weight_decay != 0)
        m->p = tn_mul(ctx, m->p, m->rates[RATE_DECAY]);
    descend(m, step, RATE_LR);
}
