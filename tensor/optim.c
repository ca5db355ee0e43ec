/* Optimisers: a step is a graph over parameters, states and gradients, and
 * one realize. Rates and what else changes from step to step are in a leaf of
 * float64 numbers, so that the graph is the same in every step.
 */
#include "doorbell/nn.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/node.h"
#include "tensor/trace.h"

#define MAX_STATES 3

enum rate {
    RATE_LR,    /* the learning rate */
    RATE_STEP,  /* Adam: lr / (1 - beta1^t) */
    RATE_ROOT,  /* Adam: 1 / sqrt(1 - beta2^t) */
    RATE_GAIN,  /* SGD: what the gradient adds to the momentum */
    RATE_DECAY, /* AdamW: 1 - lr * weight_decay */
    RATE_COUNT
};

struct bell_optimizer;

/* A parameter's move: nodes in, new parameter and states out. */
struct move {
    struct bell_context *ctx;
    const struct uop *rates[RATE_COUNT]; /* in the dtype of the states */
    const struct uop *p, *g;             /* the same */
    const struct uop *state[MAX_STATES];
};

typedef void move_fn(const struct bell_optimizer *opt, struct move *m);

struct bell_optimizer {
    struct bell_context *ctx;
    move_fn *move;
    struct bell_tensor **params; /* owned array; the tensors are not */
    struct bell_tensor **states; /* n_states for each; owned */
    uint32_t n, n_states;
    uint64_t t;        /* steps done */
    uint32_t refcount; /* its user, and what replays its steps */
    bool is_dead;      /* its user has destroyed it */
    double lr, weight_decay, momentum, dampening, beta1, beta2, eps;
    bool nesterov, centered, decoupled;
};

/* ---- formulas ---- */

/* a * x + b * y with numbers a, b. */
static const struct uop *
blend(struct bell_context *ctx, const struct uop *x, double a,
      const struct uop *y, double b)
{
    return tn_add(ctx, tn_mul_c(ctx, x, a), tn_mul_c(ctx, y, b));
}

static void
decay_gradient(const struct bell_optimizer *opt, struct move *m)
{
    if (opt->weight_decay != 0 && !opt->decoupled)
        m->g = tn_add(m->ctx, m->g, tn_mul_c(m->ctx, m->p, opt->weight_decay));
}

static void
move_sgd(const struct bell_optimizer *opt, struct move *m)
{
    struct bell_context *ctx = m->ctx;
    const struct uop *step = m->g;

    decay_gradient(opt, m);
    step = m->g;
    if (opt->momentum != 0) {
        m->state[0] = tn_add(ctx, tn_mul_c(ctx, m->state[0], opt->momentum),
                             tn_mul(ctx, m->g, m->rates[RATE_GAIN]));
        step = opt->nesterov ? tn_add(ctx, m->g,
                                      tn_mul_c(ctx, m->state[0], opt->momentum))
                             : m->state[0];
    }
    m->p = tn_sub(ctx, m->p, tn_mul(ctx, step, m->rates[RATE_LR]));
}

static void
move_adam(const struct bell_optimizer *opt, struct move *m)
{
    struct bell_context *ctx = m->ctx;
    const struct uop *root;

    decay_gradient(opt, m);
    if (opt->decoupled && opt->weight_decay != 0)
        m->p = tn_mul(ctx, m->p, m->rates[RATE_DECAY]);
    m->state[0] = blend(ctx, m->state[0], opt->beta1, m->g, 1 - opt->beta1);
    m->state[1] = blend(ctx, m->state[1], opt->beta2, tn_mul(ctx, m->g, m->g),
                        1 - opt->beta2);
    root = tn_mul(ctx, tn_sqrt(ctx, m->state[1]), m->rates[RATE_ROOT]);
    root = tn_fdiv(ctx, m->state[0], tn_add_c(ctx, root, opt->eps));
    m->p = tn_sub(ctx, m->p, tn_mul(ctx, root, m->rates[RATE_STEP]));
}

/* States: mean of squares, then momentum and mean where they are used. */
static void
move_rmsprop(const struct bell_optimizer *opt, struct move *m)
{
    struct bell_context *ctx = m->ctx;
    const struct uop *v, *step;
    uint32_t at = 1;

    decay_gradient(opt, m);
    m->state[0] = blend(ctx, m->state[0], opt->beta1, tn_mul(ctx, m->g, m->g),
                        1 - opt->beta1);
    v = m->state[0];
    if (opt->centered) {
        m->state[at] =
            blend(ctx, m->state[at], opt->beta1, m->g, 1 - opt->beta1);
        v = tn_sub(ctx, v, tn_mul(ctx, m->state[at], m->state[at]));
        at++;
    }
    step = tn_fdiv(ctx, m->g, tn_add_c(ctx, tn_sqrt(ctx, v), opt->eps));
    if (opt->momentum != 0) {
        m->state[at] =
            tn_add(ctx, tn_mul_c(ctx, m->state[at], opt->momentum), step);
        step = m->state[at];
    }
    m->p = tn_sub(ctx, m->p, tn_mul(ctx, step, m->rates[RATE_LR]));
}

/* ---- life ---- */

static bell_status
check_optim_params(const char *call, struct bell_tensor *const *params,
                   uint32_t n)
{
    uint32_t i;

    if (n == 0)
        return bell_fail_at(call, BELL_BAD_MISSING, "%s: no parameters", call);
    for (i = 0; i < n; i++) {
        BELL_TRY(tensor_usable(call, params[i]));
        if (tensor_at(params[i])->ctx != tensor_at(params[0])->ctx ||
            !uop_dtype_infos[tensor_at(params[i])->dtype].is_float)
            return bell_fail_at(
                call,
                tensor_at(params[i])->ctx != tensor_at(params[0])->ctx
                    ? BELL_BAD_CONTEXT
                    : BELL_BAD_DTYPE,
                "%s: parameter %u is %s%s", call, i, DTYPE_OF(params[i]),
                tensor_at(params[i])->ctx != tensor_at(params[0])->ctx
                    ? " of another context"
                    : "; a float dtype is needed");
    }
    return BELL_OK;
}

/* Zeros in memory, in the dtype that p is moved in. */
static struct bell_tensor *
make_state(const char *call, const struct bell_tensor *p)
{
    enum uop_dtype dtype = tensor_at(p)->dtype == UOP_F64 ? UOP_F64 : UOP_F32;
    size_t size = bell_numel(p) * uop_dtype_infos[dtype].size_bytes;
    void *zeros = host_calloc(1, size + 1);
    struct bell_tensor *t;

    if (!zeros)
        return tensor_fail(tensor_at(p)->ctx, call, BELL_E_NO_MEMORY,
                           "out of memory for %zu bytes", size);
    t = tensor_from_bytes(tensor_at(p)->ctx, call, dtype,
                          tensor_at(p)->shape->d, tensor_at(p)->shape->n,
                          zeros);
    host_free(zeros);
    return bell_keep_forever(t);
}

/* Fills the lists; what was made is released by bell_optimizer_destroy. */
static bell_status
fill_lists(const char *call, struct bell_optimizer *opt,
           struct bell_tensor *const *params)
{
    uint32_t i, n_all = opt->n * opt->n_states;

    opt->params = host_calloc(opt->n, sizeof(*opt->params));
    opt->states = host_calloc((size_t)n_all + 1, sizeof(*opt->states));
    if (!opt->params || !opt->states)
        return bell_fail_at(call, BELL_E_NO_MEMORY,
                            "%s: out of memory for %u parameters", call,
                            opt->n);
    memcpy(opt->params, params, opt->n * sizeof(*params));
    BELL_TRY(tensor_realize_list(call, params, opt->n));
    for (i = 0; i < n_all; i++) {
        opt->states[i] = make_state(call, params[i / opt->n_states]);
        BELL_TRY(tensor_report(opt->ctx));
    }
    return BELL_OK;
}

static bell_status
create_optimizer(const char *call, const struct bell_optimizer *settings,
                 struct bell_tensor *const *params, uint32_t n,
                 struct bell_optimizer **out_opt)
{
    struct bell_optimizer *opt;
    bell_status status;

    BELL_TRY(check_optim_params(call, params, n));
    opt = host_alloc(sizeof(*opt));
    if (!opt)
        return bell_fail_at(call, BELL_E_NO_MEMORY, "%s: out of memory", call);
    *opt = *settings;
    opt->ctx = tensor_at(params[0])->ctx;
    opt->n = n;
    opt->refcount = 1;
    status = fill_lists(call, opt, params);
    if (status != BELL_OK) {
        bell_optimizer_destroy(opt);
        return status;
    }
    *out_opt = opt;
    return BELL_OK;
}

void
bell_optimizer_destroy(struct bell_optimizer *opt)
{
    uint32_t i;

    if (!opt)
        return;
    for (i = 0; opt->states && i < opt->n * opt->n_states; i++)
        bell_tensor_release(opt->states[i]);
    host_free(opt->params);
    host_free(opt->states);
    opt->params = opt->states = NULL;
    opt->is_dead = true;
    tensor_optimizer_release(opt);
}

void
tensor_optimizer_retain(struct bell_optimizer *opt)
{
    opt->refcount++;
}

void
tensor_optimizer_release(struct bell_optimizer *opt)
{
    assert(opt->refcount > 0);
    if (--opt->refcount == 0)
        host_free(opt);
}

bool
tensor_optimizer_is_dead(const struct bell_optimizer *opt)
{
    return opt->is_dead;
}

static bell_status
check_hyper_range(const char *call, const char *name, double value, double low,
                  double high)
{
    if (value >= low && value < high)
        return BELL_OK;
    return bell_fail_at(call, BELL_BAD_VALUE, "%s: %s is %g", call, name,
                        value);
}

bell_status
bell_sgd_create(struct bell_tensor *const *params, uint32_t n,
                const struct bell_sgd_options *options,
                struct bell_optimizer **out_opt)
{
    struct bell_optimizer opt = {
        .move = move_sgd,
        .n_states = options->momentum != 0,
        .lr = options->lr,
        .momentum = options->momentum,
        .dampening = options->dampening,
        .weight_decay = options->weight_decay,
        .nesterov = options->nesterov,
    };

    BELL_TRY(check_hyper_range(__func__, "lr", opt.lr, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "momentum", opt.momentum, 0,
                               (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "weight_decay", opt.weight_decay, 0,
                               (double)INFINITY));
    if (opt.nesterov && (opt.momentum == 0 || opt.dampening != 0))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_sgd_create: nesterov with momentum %g and "
                         "dampening %g",
                         opt.momentum, opt.dampening);
    return create_optimizer(__func__, &opt, params, n, out_opt);
}

static bell_status
create_adam(const char *call, struct bell_tensor *const *params, uint32_t n,
            const struct bell_adam_options *options, bool decoupled,
            struct bell_optimizer **out_opt)
{
    struct bell_optimizer opt = {
        .move = move_adam,
        .n_states = 2,
        .lr = options->lr != 0 ? options->lr : 1e-3,
        .beta1 = options->beta1 != 0 ? options->beta1 : 0.9,
        .beta2 = options->beta2 != 0 ? options->beta2 : 0.999,
        .eps = options->eps != 0 ? options->eps : 1e-8,
        .weight_decay = options->weight_decay,
        .decoupled = decoupled,
    };

    BELL_TRY(check_hyper_range(call, "lr", opt.lr, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(call, "beta1", opt.beta1, 0, 1));
    BELL_TRY(check_hyper_range(call, "beta2", opt.beta2, 0, 1));
    BELL_TRY(check_hyper_range(call, "eps", opt.eps, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(call, "weight_decay", opt.weight_decay, 0,
                               (double)INFINITY));
    return create_optimizer(call, &opt, params, n, out_opt);
}

bell_status
bell_adam_create(struct bell_tensor *const *params, uint32_t n,
                 const struct bell_adam_options *options,
                 struct bell_optimizer **out_opt)
{
    return create_adam(__func__, params, n, options, false, out_opt);
}

bell_status
bell_adamw_create(struct bell_tensor *const *params, uint32_t n,
                  const struct bell_adam_options *options,
                  struct bell_optimizer **out_opt)
{
    return create_adam(__func__, params, n, options, true, out_opt);
}

bell_status
bell_rmsprop_create(struct bell_tensor *const *params, uint32_t n,
                    const struct bell_rmsprop_options *options,
                    struct bell_optimizer **out_opt)
{
    struct bell_optimizer opt = {
        .move = move_rmsprop,
        .n_states = 1u + options->centered + (options->momentum != 0),
        .lr = options->lr != 0 ? options->lr : 0.01,
        .beta1 = options->alpha != 0 ? options->alpha : 0.99,
        .eps = options->eps != 0 ? options->eps : 1e-8,
        .momentum = options->momentum,
        .weight_decay = options->weight_decay,
        .centered = options->centered,
    };

    BELL_TRY(check_hyper_range(__func__, "lr", opt.lr, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "alpha", opt.beta1, 0, 1));
    BELL_TRY(check_hyper_range(__func__, "eps", opt.eps, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "momentum", opt.momentum, 0,
                               (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "weight_decay", opt.weight_decay, 0,
                               (double)INFINITY));
    return create_optimizer(__func__, &opt, params, n, out_opt);
}

void
bell_optimizer_set_lr(struct bell_optimizer *opt, double lr)
{
    opt->lr = lr;
}

double
bell_optimizer_lr(const struct bell_optimizer *opt)
{
    return opt->lr;
}

void
bell_optimizer_zero_grad(struct bell_optimizer *opt)
{
    uint32_t i;

    for (i = 0; i < opt->n; i++)
        bell_zero_grad(opt->params[i]);
}

/* ---- a step ---- */

/* What a step changes, so that a failure can be undone. */
struct step {
    struct bell_tensor **list; /* everything to realize */
    const struct uop **old;    /* nodes of the first n_old of them */
    size_t n, n_old;
};

static void
fill_rates(const struct bell_optimizer *opt, double rates[RATE_COUNT])
{
    double t = (double)(opt->t + 1);

    rates[RATE_LR] = opt->lr;
    rates[RATE_STEP] = opt->lr / (1 - pow(opt->beta1, t));
    rates[RATE_ROOT] = 1 / sqrt(1 - pow(opt->beta2, t));
    rates[RATE_GAIN] = opt->t == 0 ? 1 : 1 - opt->dampening;
    rates[RATE_DECAY] = 1 - opt->lr * opt->weight_decay;
}

static const struct uop *
make_rates(struct bell_optimizer *opt)
{
    double rates[RATE_COUNT];

    fill_rates(opt, rates);
    return tensor_feed_leaf(opt->ctx, "bell_optimizer_step", UOP_F64,
                            RATE_COUNT, rates, opt);
}

void
tensor_optimizer_advance(struct bell_optimizer *opt, void *out_rates)
{
    double rates[RATE_COUNT];

    fill_rates(opt, rates);
    memcpy(out_rates, rates, sizeof(rates));
    opt->t++;
}

void
tensor_optimizer_retreat(struct bell_optimizer *opt)
{
    assert(opt->t > 0);
    opt->t--;
}

/* Sets t's node, noting the old one. */
static void
change_node(struct step *s, struct bell_tensor *t, const struct uop *u)
{
    s->list[s->n] = t;
    s->old[s->n++] = tensor_at(t)->uop;
    tensor_set_node(t, u);
}

/* The new values of parameter i; false when a node could not be made. */
static bool
move_param(const struct bell_optimizer *opt, uint32_t i, const struct uop *leaf,
           struct step *s)
{
    struct bell_tensor *p = opt->params[i];
    enum uop_dtype wide = tensor_at(p)->dtype == UOP_F64 ? UOP_F64 : UOP_F32;
    struct move m = {.ctx = opt->ctx};
    uint32_t k;

    for (k = 0; k < RATE_COUNT; k++) {
        const struct uop *rate =
            tn_shrink_axis(opt->ctx, leaf, 0, k, (int64_t)k + 1);
        m.rates[k] = tn_cast(opt->ctx, tn_squeeze(opt->ctx, rate, 1), wide);
    }
    for (k = 0; k < opt->n_states; k++)
        m.state[k] = tensor_at(opt->states[i * opt->n_states + k])->uop;
    m.p = tn_cast(opt->ctx, tensor_at(p)->uop, wide);
    m.g = tn_cast(opt->ctx, tensor_at(tensor_at(p)->grad)->uop, wide);
    opt->move(opt, &m);
    m.p = tn_cast(opt->ctx, m.p, tensor_at(p)->dtype);
    for (k = 0; k < opt->n_states; k++) {
        if (tn_bad(m.state[k]))
            return false;
    }
    if (tn_bad(m.p))
        return false;
    tensor_at(tensor_at(p)->grad)->flags |= TENSOR_SPENT;
    change_node(s, p, m.p);
    for (k = 0; k < opt->n_states; k++)
        change_node(s, opt->states[i * opt->n_states + k], m.state[k]);
    return true;
}

/* Adds what bell_assign left to compute. */
static void
add_assigned(struct bell_context *ctx, struct step *s)
{
    const struct tensor *t;
    struct tensor_iter it;

    if (ctx->n_assigned == 0)
        return;
    for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it)) {
        if (t->flags & TENSOR_ASSIGNED)
            s->list[s->n++] = handle_of(t);
    }
}

static bell_status
run_optim_step(struct bell_optimizer *opt, struct bell_tensor *const *also,
               uint32_t n, struct step *s)
{
    struct bell_context *ctx = opt->ctx;
    const struct uop *leaf = make_rates(opt);
    uint32_t i;

    if (!leaf)
        return tensor_report(ctx);
    for (i = 0; i < opt->n; i++) {
        if (tensor_at(opt->params[i])->grad && !move_param(opt, i, leaf, s)) {
            (void)tensor_new(ctx, "bell_optimizer_step", &uop_failed);
            return tensor_report(ctx);
        }
    }
    s->n_old = s->n;
    for (i = 0; i < n; i++)
        s->list[s->n++] = also[i];
    add_assigned(ctx, s);
    return tensor_realize_list("bell_optimizer_step", s->list, s->n);
}

bell_status
bell_optimizer_step(struct bell_optimizer *opt, struct bell_tensor *const *also,
                    uint32_t n)
{
    size_t room =
        (size_t)opt->n * (1 + opt->n_states) + n + opt->ctx->n_assigned;
    struct step s = {0};
    bell_status status;
    uint32_t i;

    BELL_TRY(tensor_report(opt->ctx));
    for (i = 0; i < n; i++)
        BELL_TRY(tensor_usable(__func__, also[i]));
    s.list = host_calloc(room + 1, sizeof(*s.list));
    s.old = host_calloc(room + 1, sizeof(*s.old));
    if (!s.list || !s.old)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "bell_optimizer_step: out of memory for %zu "
                           "tensors",
                           room);
    else
        status = run_optim_step(opt, also, n, &s);
    if (status == BELL_OK) {
        opt->t += !opt->ctx->trace; /* counted by each replay */
    } else if (s.old) {
        for (i = 0; i < (s.n_old ? s.n_old : s.n); i++)
            tensor_set_node(s.list[i], s.old[i]);
    }
    host_free(s.list);
    host_free(s.old);
    return status;
}
