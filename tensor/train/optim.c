/* Optimisers: a step is a graph over parameters, states and gradients, and
 * one realize. Rates and what else changes from step to step are in leaves of
 * float64 numbers, one a group, so that the graph is the same in every step.
 */
#include "doorbell/optim.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/once.h"
#include "tensor/ops/elementwise.h"
#include "tensor/train/module.h"
#include "tensor/train/optim.h"
#include "tensor/core/trace.h"

/* Scalars that one kernel puts together. */
#define MAX_FOLD 32

struct optim_param {
    struct bell_tensor *t; /* not owned */
    struct bell_tensor *states[OPTIM_STATES];
    uint32_t group;
    int axis; /* that is split by optim_shards, or MESH_WHOLE */
};

/* What a scaler keeps on the device: tensors of shape (), owned. */
struct optim_scaler {
    struct bell_scaler_options options;
    struct bell_tensor *scale;   /* the loss's factor, float32; NULL: none */
    struct bell_tensor *good;    /* steps since it changed, float32 */
    struct bell_tensor *skipped; /* steps that moved nothing, float64 */
};

/* At an address that is never used again (base/once.h). */
struct bell_optimizer {
    struct bell_context *ctx;
    const char *call; /* that made it */
    optim_move_fn *move;
    const char *names[OPTIM_STATES]; /* of the states */
    double initial;                  /* value of theirs */
    struct optim_param *params;
    struct optim_settings **groups; /* of heap memory each: numbers stay */
    size_t cap_params, cap_groups;
    uint32_t n, n_states, n_groups;
    struct bell_schedule schedule; /* constant: none */
    struct optim_scaler scaler;
    struct optim_shards shards;
    double clip_norm, clip_value; /* 0: not */
    double t;                     /* steps done */
    uint32_t refcount;            /* its user, and what replays its steps */
    bool is_live;                 /* its user has not destroyed it */
};

/* ---- life ---- */

/* Not NULL, nor destroyed. */
static bell_status
optim_usable(const char *call, const struct bell_optimizer *opt)
{
    if (opt && opt->is_live)
        return BELL_OK;
    return bell_fail_at(call, opt ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the optimiser %s", call,
                        opt ? "was destroyed" : "is NULL");
}

/* Nor its context. */
static bell_status
optim_works(const char *call, const struct bell_optimizer *opt)
{
    BELL_TRY(optim_usable(call, opt));
    return tensor_context_usable(call, opt->ctx);
}

bell_status
optim_context(const char *call, const struct bell_optimizer *opt,
              struct bell_context **out_ctx)
{
    BELL_TRY(optim_works(call, opt));
    *out_ctx = opt->ctx;
    return BELL_OK;
}

/* What every creation is given first; there is no optimiser yet. Its options
 * are
 * *out_options from then on. */
static bell_status
begin_create(const char *call, const void *options, size_t options_bytes,
             void *out_options, struct bell_optimizer **out_opt)
{
    if (out_opt)
        *out_opt = NULL;
    if (out_opt && options)
        return tensor_options(call, options, options_bytes, options_bytes,
                              out_options);
    return bell_fail_at(call, BELL_BAD_MISSING, "%s: %s NULL", call,
                        out_opt ? "the options are" : "the result is");
}

/* The optimiser's own, which ended with the context if that did. */
static void
release_own(struct bell_tensor *t)
{
    if (handle_find(t))
        bell_tensor_release(t);
}

static bell_status
check_optim_params(const struct bell_optimizer *opt, const char *call,
                   struct bell_tensor *const *params, uint32_t n)
{
    const struct bell_context *ctx;
    const struct tensor *t;
    uint32_t i, k;

    if (n == 0 || !params)
        return bell_fail_at(call, BELL_BAD_MISSING, "%s: no parameters", call);
    for (i = 0; i < n; i++) {
        BELL_TRY(tensor_usable(call, params[i]));
        t = tensor_at(params[i]);
        ctx = opt->ctx ? opt->ctx : tensor_at(params[0])->ctx;
        if (t->ctx != ctx || !uop_dtype_infos[t->dtype].is_float)
            return bell_fail_at(
                call, t->ctx != ctx ? BELL_BAD_CONTEXT : BELL_BAD_DTYPE,
                "%s: parameter %u is %s%s", call, i, DTYPE_OF(params[i]),
                t->ctx != ctx ? " of another context"
                              : "; a float dtype is needed");
        if (opt->move == optim_move_muon && t->shape->n != 2)
            return bell_fail_at(call, BELL_BAD_SHAPE,
                                "%s: parameter %u is %s, not a matrix", call, i,
                                SHAPE_OF(params[i]));
        for (k = 0; k < opt->n + i; k++) {
            if (params[i] ==
                (k < opt->n ? opt->params[k].t : params[k - opt->n]))
                return bell_fail_at(call, BELL_BAD_VALUE,
                                    "%s: parameter %u is there twice", call, i);
        }
    }
    return BELL_OK;
}

/* A constant in memory. */
static struct bell_tensor *
make_state(struct bell_context *ctx, const char *call, enum uop_dtype dtype,
           const int64_t *shape, uint32_t ndim, double value)
{
    uint64_t n = (uint64_t)tn_product(shape, ndim), i;
    size_t size = n * uop_dtype_infos[dtype].size_bytes;
    void *data = host_calloc(1, size + 1);
    struct bell_tensor *t;

    if (!data)
        return tensor_fail(ctx, call, BELL_E_NO_MEMORY,
                           "out of memory for %zu bytes", size);
    for (i = 0; value != 0 && i < n; i++) {
        if (dtype == UOP_F64)
            ((double *)data)[i] = value;
        else
            ((float *)data)[i] = (float)value;
    }
    t = tensor_from_bytes(ctx, call, dtype, shape, ndim, data);
    host_free(data);
    return bell_keep_forever(t);
}

/* The dtype that t is moved in. */
static enum uop_dtype
state_dtype(const struct tensor *t)
{
    return t->dtype == UOP_F64 ? UOP_F64 : UOP_F32;
}

/* Takes parameters and groups off the end. */
static void
drop_groups(struct bell_optimizer *opt, uint32_t n, uint32_t n_groups)
{
    uint32_t k;

    while (opt->n > n) {
        opt->n--;
        for (k = 0; k < opt->n_states; k++)
            release_own(opt->params[opt->n].states[k]);
    }
    while (opt->n_groups > n_groups)
        host_free(opt->groups[--opt->n_groups]);
}

static bell_status
fill_group(struct bell_optimizer *opt, const char *call,
           struct bell_tensor *const *params, uint32_t n)
{
    uint32_t i, k;

    for (i = 0; i < n; i++) {
        struct optim_param *p = &opt->params[opt->n];

        *p = (struct optim_param){
            .t = params[i], .group = opt->n_groups - 1, .axis = MESH_WHOLE};
        opt->n++;
        for (k = 0; k < opt->n_states; k++) {
            const struct tensor *t = tensor_at(params[i]);
            struct bell_tensor *state =
                make_state(opt->ctx, call, state_dtype(t), t->shape->d,
                           t->shape->n, opt->initial);

            if (bell_is_error(state))
                return tensor_report(opt->ctx);
            p->states[k] = state;
        }
    }
    return BELL_OK;
}

/* Parameters from `first` on, and their states, in their layouts on a mesh. */
static bell_status
shard_params(struct bell_optimizer *opt, const char *call, uint32_t first)
{
    const struct optim_shards *shards = &opt->shards;
    size_t room = (size_t)(opt->n - first) * (1 + opt->n_states), n = 0;
    struct bell_tensor **list;
    bell_status status;
    uint32_t i, k;

    if (!opt->ctx->mesh || !mesh_is_split(opt->ctx->mesh, shards->k))
        return BELL_OK;
    opt->ctx->mesh->is_used = true;
    list = host_alloc(room * sizeof(*list) + 1);
    if (!list)
        return bell_fail_at(call, BELL_E_NO_MEMORY,
                            "%s: out of memory for %zu tensors", call, room);
    for (i = first; i < opt->n; i++) {
        struct optim_param *param = &opt->params[i];
        const struct uop *p = tensor_at(param->t)->uop, *u;

        param->axis = optim_shard_axis(opt->ctx, p, shards->k);
        for (k = 0; k < opt->n_states; k++) {
            u = tensor_at(param->states[k])->uop;
            u = optim_lay_state(opt->ctx, u, p, shards->k, param->axis);
            tensor_set_node(param->states[k], u);
            list[n++] = param->states[k];
        }
        if (shards->kind != BELL_SHARD_PARAMS || param->axis < 0)
            continue;
        u = mesh_lay(opt->ctx, p, shards->k, param->axis);
        tensor_set_node(param->t, u);
        list[n++] = param->t;
    }
    status = tensor_realize_list(call, list, (uint32_t)n);
    host_free(list);
    return status;
}

/* A group of checked parameters. */
static bell_status
add_group(struct bell_optimizer *opt, const char *call,
          struct bell_tensor *const *params, uint32_t n,
          const struct optim_settings *settings)
{
    uint32_t n_before = opt->n, n_groups_before = opt->n_groups;
    struct optim_settings *copy = host_alloc(sizeof(*copy));
    bell_status status;

    if (!copy ||
        host_grow((void **)&opt->params, &opt->cap_params, (size_t)opt->n + n,
                  sizeof(*opt->params)) != 0 ||
        host_grow((void **)&opt->groups, &opt->cap_groups,
                  (size_t)opt->n_groups + 1, sizeof(*opt->groups)) != 0) {
        host_free(copy);
        return bell_fail_at(call, BELL_E_NO_MEMORY,
                            "%s: out of memory for %u parameters", call, n);
    }
    *copy = *settings;
    opt->groups[opt->n_groups++] = copy;
    status = tensor_realize_list(call, params, n);
    if (status == BELL_OK)
        status = fill_group(opt, call, params, n);
    if (status == BELL_OK && opt->shards.kind)
        status = shard_params(opt, call, n_before);
    if (status != BELL_OK)
        drop_groups(opt, n_before, n_groups_before);
    return status;
}

static bell_status
create_optimizer(const struct bell_optimizer *kind,
                 const struct optim_settings *settings,
                 struct bell_tensor *const *params, uint32_t n,
                 struct bell_optimizer **out_opt)
{
    struct bell_optimizer *opt;
    struct bell_context *ctx;
    bell_status status;

    BELL_TRY(check_optim_params(kind, kind->call, params, n));
    ctx = tensor_at(params[0])->ctx;
    opt = once_alloc(sizeof(*opt), TENSOR_IS_OPTIMIZER, ctx);
    if (!opt)
        return bell_fail_at(kind->call, BELL_E_NO_MEMORY, "%s: out of memory",
                            kind->call);
    *opt = *kind;
    opt->ctx = ctx;
    opt->refcount = 1;
    opt->is_live = true;
    status = add_group(opt, kind->call, params, n, settings);
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
    if (!opt || optim_usable(__func__, opt) != BELL_OK)
        return;
    drop_groups(opt, 0, 0);
    release_own(opt->scaler.scale);
    release_own(opt->scaler.good);
    release_own(opt->scaler.skipped);
    host_free(opt->params);
    host_free(opt->groups);
    opt->params = NULL;
    opt->groups = NULL;
    opt->is_live = false;
    tensor_optimizer_release(opt);
}

void
tensor_optimizer_release(struct bell_optimizer *opt)
{
    assert(opt->refcount > 0);
    if (--opt->refcount == 0)
        once_end(opt, sizeof(*opt));
}

bool
tensor_optimizer_is_dead(const struct bell_optimizer *opt)
{
    return !opt->is_live;
}

/* ---- kinds ---- */

static bell_status
check_hyper_range(const char *call, const char *name, double value, double low,
                  double high)
{
    if (value >= low && value < high)
        return BELL_OK;
    return bell_fail_at(call, BELL_BAD_VALUE,
                        "%s: %s is %g; expected %g or more, and less than %g",
                        call, name, value, low, high);
}

/* Those that every kind has. */
static bell_status
check_settings(const char *call, const struct optim_settings *set)
{
    const double infinity = (double)INFINITY;

    BELL_TRY(check_hyper_range(call, "lr", set->lr, 0, infinity));
    BELL_TRY(check_hyper_range(call, "weight_decay", set->weight_decay, 0,
                               infinity));
    BELL_TRY(check_hyper_range(call, "momentum", set->momentum, 0, infinity));
    return check_hyper_range(call, "eps", set->eps, 0, infinity);
}

static double
number_or(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

bell_status
bell_sgd_create(struct bell_tensor *const *params, uint32_t n,
                const struct bell_sgd_options *options,
                struct bell_optimizer **out_opt)
{
    struct bell_sgd_options o;

    BELL_TRY(begin_create(__func__, options, sizeof(o), &o, out_opt));

    const struct bell_optimizer kind = {
        .call = __func__,
        .move = optim_move_sgd,
        .names = {"momentum_buffer"},
        .n_states = o.momentum != 0,
    };
    const struct optim_settings set = {
        .lr = o.lr,
        .momentum = o.momentum,
        .dampening = o.dampening,
        .weight_decay = o.weight_decay,
        .nesterov = o.nesterov,
    };

    BELL_TRY(check_settings(__func__, &set));
    if (set.nesterov && (set.momentum == 0 || set.dampening != 0))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_sgd_create: nesterov with momentum %g and "
                         "dampening %g; it needs a momentum, and a dampening "
                         "of 0",
                         set.momentum, set.dampening);
    return create_optimizer(&kind, &set, params, n, out_opt);
}

static bell_status
create_adam(const char *call, optim_move_fn *move, double eps, bool decoupled,
            struct bell_tensor *const *params, uint32_t n,
            const struct bell_adam_options *options,
            struct bell_optimizer **out_opt)
{
    struct bell_adam_options o;

    BELL_TRY(begin_create(call, options, sizeof(o), &o, out_opt));

    const struct bell_optimizer kind = {
        .call = call,
        .move = move,
        .names = {"exp_avg", "exp_avg_sq"},
        .n_states = 2,
    };
    const struct optim_settings set = {
        .lr = o.lr,
        .beta1 = number_or(o.beta1, 0.9),
        .beta2 = number_or(o.beta2, 0.999),
        .eps = number_or(o.eps, eps),
        .weight_decay = o.weight_decay,
        .decoupled = decoupled,
    };

    BELL_TRY(check_settings(call, &set));
    BELL_TRY(check_hyper_range(call, "beta1", set.beta1, 0, 1));
    BELL_TRY(check_hyper_range(call, "beta2", set.beta2, 0, 1));
    return create_optimizer(&kind, &set, params, n, out_opt);
}

bell_status
bell_adam_create(struct bell_tensor *const *params, uint32_t n,
                 const struct bell_adam_options *options,
                 struct bell_optimizer **out_opt)
{
    return create_adam(__func__, optim_move_adam, 1e-8, false, params, n,
                       options, out_opt);
}

bell_status
bell_adamw_create(struct bell_tensor *const *params, uint32_t n,
                  const struct bell_adam_options *options,
                  struct bell_optimizer **out_opt)
{
    return create_adam(__func__, optim_move_adam, 1e-8, true, params, n,
                       options, out_opt);
}

bell_status
bell_lamb_create(struct bell_tensor *const *params, uint32_t n,
                 const struct bell_adam_options *options,
                 struct bell_optimizer **out_opt)
{
    return create_adam(__func__, optim_move_lamb, 1e-6, true, params, n,
                       options, out_opt);
}

bell_status
bell_rmsprop_create(struct bell_tensor *const *params, uint32_t n,
                    const struct bell_rmsprop_options *options,
                    struct bell_optimizer **out_opt)
{
    struct bell_rmsprop_options o;

    BELL_TRY(begin_create(__func__, options, sizeof(o), &o, out_opt));

    const struct bell_optimizer kind = {
        .call = __func__,
        .move = optim_move_rmsprop,
        .names = {"square_avg", o.centered ? "grad_avg" : "momentum_buffer",
                  "momentum_buffer"},
        .n_states = 1u + o.centered + (o.momentum != 0),
    };
    const struct optim_settings set = {
        .lr = o.lr,
        .beta1 = number_or(o.alpha, 0.99),
        .eps = number_or(o.eps, 1e-8),
        .momentum = o.momentum,
        .weight_decay = o.weight_decay,
        .centered = o.centered,
    };

    BELL_TRY(check_settings(__func__, &set));
    BELL_TRY(check_hyper_range(__func__, "alpha", set.beta1, 0, 1));
    return create_optimizer(&kind, &set, params, n, out_opt);
}

bell_status
bell_adagrad_create(struct bell_tensor *const *params, uint32_t n,
                    const struct bell_adagrad_options *options,
                    struct bell_optimizer **out_opt)
{
    struct bell_adagrad_options o;

    BELL_TRY(begin_create(__func__, options, sizeof(o), &o, out_opt));

    const struct bell_optimizer kind = {
        .call = __func__,
        .move = optim_move_adagrad,
        .names = {"sum"},
        .n_states = 1,
        .initial = o.initial_value,
    };
    const struct optim_settings set = {
        .lr = o.lr,
        .lr_decay = o.lr_decay,
        .eps = number_or(o.eps, 1e-10),
        .weight_decay = o.weight_decay,
    };

    BELL_TRY(check_settings(__func__, &set));
    BELL_TRY(check_hyper_range(__func__, "lr_decay", set.lr_decay, 0,
                               (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "initial_value", kind.initial, 0,
                               (double)INFINITY));
    return create_optimizer(&kind, &set, params, n, out_opt);
}

bell_status
bell_lars_create(struct bell_tensor *const *params, uint32_t n,
                 const struct bell_lars_options *options,
                 struct bell_optimizer **out_opt)
{
    struct bell_lars_options o;

    BELL_TRY(begin_create(__func__, options, sizeof(o), &o, out_opt));

    const struct bell_optimizer kind = {
        .call = __func__,
        .move = optim_move_lars,
        .names = {"momentum_buffer"},
        .n_states = 1,
    };
    const struct optim_settings set = {
        .lr = o.lr,
        .momentum = o.momentum,
        .weight_decay = o.weight_decay,
        .trust = number_or(o.trust, 1e-3),
        .eps = number_or(o.eps, 1e-8),
    };

    BELL_TRY(check_settings(__func__, &set));
    BELL_TRY(
        check_hyper_range(__func__, "trust", set.trust, 0, (double)INFINITY));
    return create_optimizer(&kind, &set, params, n, out_opt);
}

bell_status
bell_muon_create(struct bell_tensor *const *params, uint32_t n,
                 const struct bell_muon_options *options,
                 struct bell_optimizer **out_opt)
{
    struct bell_muon_options o;

    BELL_TRY(begin_create(__func__, options, sizeof(o), &o, out_opt));

    const struct bell_optimizer kind = {
        .call = __func__,
        .move = optim_move_muon,
        .names = {"momentum_buffer"},
        .n_states = 1,
    };
    const struct optim_settings set = {
        .lr = o.lr,
        .momentum = number_or(o.momentum, 0.95),
        .weight_decay = o.weight_decay,
        .eps = number_or(o.eps, 1e-7),
        .n_iters = o.n_iters ? o.n_iters : 5,
        .nesterov = !o.plain,
    };

    BELL_TRY(check_settings(__func__, &set));
    BELL_TRY(check_hyper_range(__func__, "n_iters", set.n_iters, 1, 100));
    return create_optimizer(&kind, &set, params, n, out_opt);
}

/* ---- groups, rates, what is done to gradients ---- */

bell_status
bell_optimizer_add_group(struct bell_optimizer *opt,
                         struct bell_tensor *const *params, uint32_t n,
                         const struct bell_group_options *options)
{
    struct bell_group_options o;
    struct optim_settings set;

    BELL_TRY(optim_works(__func__, opt));
    if (!options)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_optimizer_add_group: the options are NULL");
    BELL_TRY(tensor_options(__func__, options, sizeof(o), sizeof(o), &o));
    set = *opt->groups[0];
    set.lr = o.lr;
    set.weight_decay = o.weight_decay;
    BELL_TRY(check_settings(__func__, &set));
    BELL_TRY(check_optim_params(opt, __func__, params, n));
    return add_group(opt, __func__, params, n, &set);
}

void
bell_optimizer_set_lr(struct bell_optimizer *opt, double lr)
{
    uint32_t i;

    if (optim_usable(__func__, opt) != BELL_OK)
        return;
    for (i = 0; i < opt->n_groups; i++)
        opt->groups[i]->lr = lr;
}

void
bell_optimizer_set_group_lr(struct bell_optimizer *opt, uint32_t group,
                            double lr)
{
    if (optim_usable(__func__, opt) == BELL_OK && group < opt->n_groups)
        opt->groups[group]->lr = lr;
}

double
bell_optimizer_lr(const struct bell_optimizer *opt)
{
    return optim_usable(__func__, opt) == BELL_OK ? opt->groups[0]->lr
                                                  : (double)NAN;
}

double
bell_optimizer_next_lr(const struct bell_optimizer *opt, uint32_t group)
{
    if (optim_usable(__func__, opt) != BELL_OK || group >= opt->n_groups)
        return (double)NAN;
    return opt->groups[group]->lr *
           optim_schedule_factor(&opt->schedule, (int64_t)opt->t);
}

bell_status
bell_optimizer_set_schedule(struct bell_optimizer *opt,
                            const struct bell_schedule *schedule)
{
    struct bell_schedule s;
    bool is_timed;

    BELL_TRY(optim_usable(__func__, opt));
    BELL_TRY(tensor_options(__func__, schedule, sizeof(s), sizeof(s), &s));
    is_timed = s.kind != BELL_SCHEDULE_CONSTANT;
    if ((unsigned)s.kind > BELL_SCHEDULE_ONE_CYCLE)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_optimizer_set_schedule: kind %d is not an enum "
                         "bell_schedule_kind",
                         (int)s.kind);
    if ((is_timed && s.n_steps < 1) || s.n_warmup < 0)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_optimizer_set_schedule: %lld steps, %lld of "
                         "warm-up; expected 1 or more, and 0 or more",
                         (long long)s.n_steps, (long long)s.n_warmup);
    BELL_TRY(check_hyper_range(__func__, "up", s.up, 0, 1));
    BELL_TRY(check_hyper_range(__func__, "div", s.div, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "final_div", s.final_div, 0,
                               (double)INFINITY));
    BELL_TRY(
        check_hyper_range(__func__, "gamma", s.gamma, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "low", s.low, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "warmup_from", s.warmup_from, 0,
                               (double)INFINITY));
    opt->schedule = s;
    return BELL_OK;
}

bell_status
bell_optimizer_set_clip(struct bell_optimizer *opt, double max_norm,
                        double max_value)
{
    BELL_TRY(optim_usable(__func__, opt));
    BELL_TRY(
        check_hyper_range(__func__, "max_norm", max_norm, 0, (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "max_value", max_value, 0,
                               (double)INFINITY));
    opt->clip_norm = max_norm;
    opt->clip_value = max_value;
    return BELL_OK;
}

bell_status
bell_optimizer_set_scaler(struct bell_optimizer *opt,
                          const struct bell_scaler_options *options)
{
    struct optim_scaler s = {.scale = NULL};
    struct bell_scaler_options *o = &s.options;

    BELL_TRY(optim_works(__func__, opt));
    BELL_TRY(tensor_options(__func__, options, sizeof(*o), sizeof(*o), o));
    o->scale = number_or(o->scale, 65536);
    o->growth = number_or(o->growth, 2);
    o->backoff = number_or(o->backoff, 0.5);
    o->interval = o->interval ? o->interval : 2000;
    if (opt->scaler.scale)
        return bell_fail(BELL_BAD_STATE,
                         "bell_optimizer_set_scaler: it has one already");
    BELL_TRY(check_hyper_range(__func__, "scale", s.options.scale, 0,
                               (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "growth", s.options.growth, 1,
                               (double)INFINITY));
    BELL_TRY(check_hyper_range(__func__, "backoff", s.options.backoff, 0, 1));
    BELL_TRY(check_hyper_range(__func__, "interval", (double)s.options.interval,
                               1, 1 << 24));
    s.scale = make_state(opt->ctx, __func__, UOP_F32, NULL, 0, s.options.scale);
    s.good = make_state(opt->ctx, __func__, UOP_F32, NULL, 0, 0);
    s.skipped = make_state(opt->ctx, __func__, UOP_F64, NULL, 0, 0);
    if (bell_is_error(s.scale) || bell_is_error(s.good) ||
        bell_is_error(s.skipped)) {
        bell_tensor_release(s.scale);
        bell_tensor_release(s.good);
        bell_tensor_release(s.skipped);
        return tensor_report(opt->ctx);
    }
    opt->scaler = s;
    return BELL_OK;
}

struct bell_tensor *
bell_optimizer_scale(struct bell_optimizer *opt, struct bell_tensor *loss)
{
    struct bell_tensor *out;

    if (!tensor_check(__func__, loss, &out))
        return out;
    if (optim_works(__func__, opt) != BELL_OK)
        return tensor_fail_told(tensor_at(loss)->ctx);
    if (!opt->scaler.scale)
        return loss;
    if (tensor_at(loss)->dtype != UOP_F64)
        loss = bell_cast(loss, BELL_FLOAT32);
    return bell_mul(loss, opt->scaler.scale);
}

void
bell_optimizer_zero_grad(struct bell_optimizer *opt)
{
    char fate[HANDLE_FATE];
    uint32_t i;

    if (optim_works(__func__, opt) != BELL_OK)
        return;
    for (i = 0; i < opt->n; i++) {
        const struct bell_tensor *t = opt->params[i].t;
        if (!handle_find(t))
            tensor_fail(opt->ctx, __func__, BELL_BAD_STATE, "parameter %u %s",
                        i, handle_fate(t, fate, sizeof(fate)));
        else
            bell_zero_grad(opt->params[i].t);
    }
}

/* ---- state ---- */

static bell_status
add_param_states(struct bell_optimizer *opt, uint32_t i,
                 const struct bell_state *names, const char *prefix,
                 struct bell_state *state)
{
    const char *name = NULL;
    char text[320], number[16];
    uint32_t k;

    for (k = 0; names && k < names->n && !name; k++) {
        if (names->items[k].tensor == opt->params[i].t)
            name = names->items[k].name;
    }
    snprintf(number, sizeof(number), "%u", i);
    for (k = 0; k < opt->n_states; k++) {
        snprintf(text, sizeof(text), "%s.%s", name ? name : number,
                 opt->names[k]);
        BELL_TRY(bell_state_add(state, prefix, text, BELL_STATE_BUFFER,
                                opt->params[i].states[k]));
    }
    return BELL_OK;
}

static bell_status
add_opt_state(struct bell_optimizer *opt, const struct bell_state *names,
              const char *prefix, struct bell_state *state)
{
    const struct optim_scaler *s = &opt->scaler;
    char text[32];
    uint32_t i;

    BELL_TRY(bell_state_add_number(state, prefix, "step", &opt->t));
    for (i = 0; i < opt->n_groups; i++) {
        snprintf(text, sizeof(text), "groups.%u.lr", i);
        BELL_TRY(
            bell_state_add_number(state, prefix, text, &opt->groups[i]->lr));
    }
    for (i = 0; i < opt->n; i++)
        BELL_TRY(add_param_states(opt, i, names, prefix, state));
    BELL_TRY(bell_state_add(state, prefix, "scaler.scale", BELL_STATE_BUFFER,
                            s->scale));
    BELL_TRY(bell_state_add(state, prefix, "scaler.good_steps",
                            BELL_STATE_BUFFER, s->good));
    return bell_state_add(state, prefix, "scaler.skipped", BELL_STATE_BUFFER,
                          s->skipped);
}

bell_status
bell_optimizer_state(struct bell_optimizer *opt, const struct bell_state *names,
                     const char *prefix, struct bell_state *state)
{
    uint32_t n_before;
    bell_status status;

    BELL_TRY(optim_works(__func__, opt));
    if (!state)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_optimizer_state: the list is NULL");
    n_before = state->n;
    status = add_opt_state(opt, names, prefix, state);
    if (status != BELL_OK)
        module_state_cut(state, n_before);
    return status;
}

/* ---- rates ---- */

static void
fill_rates(const struct bell_optimizer *opt, uint32_t group,
           double rates[RATE_COUNT])
{
    const struct optim_settings *set = opt->groups[group];
    double lr = bell_optimizer_next_lr(opt, group), t = opt->t + 1;

    rates[RATE_LR] = lr;
    rates[RATE_MEAN] = 1 / (1 - pow(set->beta1, t));
    rates[RATE_STEP] = set->lr_decay != 0 ? lr / (1 + (t - 1) * set->lr_decay)
                                          : lr / (1 - pow(set->beta1, t));
    rates[RATE_ROOT] = 1 / sqrt(1 - pow(set->beta2, t));
    rates[RATE_GAIN] = t == 1 ? 1 : 1 - set->dampening;
    rates[RATE_DECAY] = 1 - lr * set->weight_decay;
    rates[RATE_TIME] = t;
}

void
tensor_optimizer_advance(struct bell_optimizer *opt, uint32_t group,
                         void *out_rates)
{
    double rates[RATE_COUNT];

    fill_rates(opt, group, rates);
    memcpy(out_rates, rates, sizeof(rates));
    opt->t += group == 0; /* its leaf was made last */
}

void
tensor_optimizer_retreat(struct bell_optimizer *opt, uint32_t group)
{
    assert(opt->t > 0);
    opt->t -= group == 0;
}

/* Do all steps from the next one on have the same rates, but for their time? */
static bool
is_settled(const struct bell_optimizer *opt, const struct optim_settings *set)
{
    const struct bell_schedule *s = &opt->schedule;
    double t = opt->t + 1;

    if (set->lr_decay != 0 || t < 2 || 1 - pow(set->beta1, t) != 1 ||
        1 - pow(set->beta2, t) != 1 || s->kind == BELL_SCHEDULE_STEP)
        return false;
    return t > (double)s->n_warmup +
                   (s->kind == BELL_SCHEDULE_CONSTANT ? 0 : (double)s->n_steps);
}

bell_status
tensor_optimizer_table(struct bell_optimizer *opt, uint32_t group,
                       uint64_t n_most, double **out_rows, uint64_t *out_n,
                       uint32_t *out_n_rates)
{
    const double before = opt->t;
    double *rows = NULL;
    size_t cap = 0;
    uint64_t n = 0;
    bool last = false;

    for (; n < n_most && !last; n++, opt->t++) {
        if (host_grow((void **)&rows, &cap, (n + 1) * RATE_COUNT,
                      sizeof(*rows)) != 0)
            break;
        last = is_settled(opt, opt->groups[group]);
        fill_rates(opt, group, rows + n * RATE_COUNT);
    }
    opt->t = before;
    if (n < n_most && !last) {
        host_free(rows);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for rates");
    }
    *out_rows = rows;
    *out_n = n;
    *out_n_rates = RATE_COUNT;
    return BELL_OK;
}

/* 1 / (1 - beta^t). */
static const struct uop *
correct_mean(struct bell_context *ctx, double beta, const struct uop *t)
{
    const struct uop *power;

    if (beta == 0)
        return tn_num(ctx, t, 1);
    power = tn_exp2(ctx, tn_mul_c(ctx, t, log2(beta)));
    return tn_recip(ctx, tn_sub(ctx, tn_num(ctx, t, 1), power));
}

/* The rates that depend on the number of steps, which with a scaler the device
 * knows alone. */
static void
correct_rates(const struct bell_optimizer *opt,
              const struct optim_settings *set,
              const struct uop *rates[RATE_COUNT])
{
    struct bell_context *ctx = opt->ctx;
    const struct uop *lr = rates[RATE_LR], *t, *mean, *slow;

    t = tn_sub(ctx, rates[RATE_TIME], tensor_at(opt->scaler.skipped)->uop);
    mean = correct_mean(ctx, set->beta1, t);
    rates[RATE_MEAN] = mean;
    slow = tn_add_c(ctx, tn_mul_c(ctx, tn_add_c(ctx, t, -1), set->lr_decay), 1);
    rates[RATE_STEP] =
        set->lr_decay != 0 ? tn_fdiv(ctx, lr, slow) : tn_mul(ctx, lr, mean);
    rates[RATE_ROOT] = tn_sqrt(ctx, correct_mean(ctx, set->beta2, t));
    rates[RATE_GAIN] =
        tn_where(ctx, tn_lt(ctx, t, tn_num(ctx, t, 1.5)), tn_num(ctx, t, 1),
                 tn_num(ctx, t, 1 - set->dampening));
}

/* ---- a step ---- */

/* What a step changes, so that a failure can be undone, and what it is made
 * of. */
struct optim_step {
    struct bell_tensor **list;  /* everything to realize */
    const struct uop **old;     /* nodes of the first n_old of them */
    const struct uop **grads;   /* of each parameter; NULL: it has none */
    const struct uop **leaves;  /* rates of each group */
    const struct uop **scalars; /* scratch: one a parameter */
    const struct uop *is_good;  /* every gradient is finite; NULL: unknown */
    size_t n, n_old;
};

/* One scalar of n by an op. */
static const struct uop *
fold_scalars(struct bell_context *ctx, enum uop_op op, const struct uop **list,
             uint32_t n)
{
    uint32_t i, k, n_next;

    for (; n > 1; n = n_next) {
        n_next = 0;
        for (i = 0; i < n; i += MAX_FOLD) {
            const struct uop *u = list[i];

            for (k = i + 1; k < n && k < i + MAX_FOLD; k++)
                u = tn_alu2(ctx, op, u, list[k]);
            list[n_next++] = n > MAX_FOLD ? tn_wrap(ctx, UOP_CONTIGUOUS, u) : u;
        }
    }
    return tn_wrap(ctx, UOP_CONTIGUOUS, list[0]);
}

/* u reduced to one scalar, of the dtype. */
static const struct uop *
reduce_all(struct bell_context *ctx, enum uop_op op, const struct uop *u,
           enum uop_dtype dtype)
{
    uint32_t mask = (uint32_t)((1ull << tn_rank(ctx, u)) - 1);

    u = tn_squeeze(ctx, tn_reduce(ctx, op, u, mask), mask);
    return tn_cast(ctx, u, dtype);
}

/* Gradients in the dtype of states, without the loss's factor, cut. */
static void
take_grads(const struct bell_optimizer *opt, struct optim_step *s)
{
    struct bell_context *ctx = opt->ctx;
    const struct uop *g, *limit;
    uint32_t i, n = 0;

    for (i = 0; i < opt->n; i++) {
        const struct tensor *p = tensor_at(opt->params[i].t);
        enum uop_dtype dtype = state_dtype(p);

        if (!p->grad)
            continue;
        g = tensor_at(p->grad)->uop;
        if (opt->params[i].axis >= 0)
            g = mesh_lay(ctx, g, opt->shards.k, opt->params[i].axis);
        g = tn_cast(ctx, g, dtype);
        if (opt->scaler.scale) {
            const struct uop *scale =
                tn_cast(ctx, tensor_at(opt->scaler.scale)->uop, dtype);
            g = tn_mul(ctx, g, tn_recip(ctx, scale));
            s->scalars[n++] = reduce_all(ctx, UOP_MAX, tn_abs(ctx, g), UOP_F32);
        }
        if (opt->clip_value != 0) {
            limit = tn_num(ctx, g, opt->clip_value);
            g = tn_max(ctx, tn_min(ctx, g, limit), tn_neg(ctx, limit));
        }
        s->grads[i] = g;
    }
    if (n) {
        g = fold_scalars(ctx, UOP_MAX, s->scalars, n);
        s->is_good = tn_lt(ctx, g, tn_num(ctx, g, (double)INFINITY));
    }
}

/* Makes all gradients smaller together, if they are too large. */
static void
clip_grads(const struct bell_optimizer *opt, struct optim_step *s)
{
    struct bell_context *ctx = opt->ctx;
    enum uop_dtype dtype = UOP_F32;
    const struct uop *norm, *factor, *g;
    uint32_t i, k, n = 0;

    /* with blocks, too: the norm is a sum over all that is split, and rounded
     * to float32 it is then the same however that is split */
    for (k = 0; ctx->mesh && k < ctx->mesh->n_axes; k++) {
        if (ctx->mesh->blocks[k] > 1 && tensor_device_has_f64(ctx))
            dtype = UOP_F64;
    }
    for (i = 0; i < opt->n; i++) {
        if (s->grads[i] && s->grads[i]->dtype == UOP_F64)
            dtype = UOP_F64;
    }
    for (i = 0; i < opt->n; i++) {
        if (s->grads[i]) {
            g = tn_cast(ctx, s->grads[i], dtype);
            s->scalars[n++] =
                reduce_all(ctx, UOP_ADD, tn_mul(ctx, g, g), dtype);
        }
    }
    if (n == 0)
        return;
    norm = tn_sqrt(ctx, fold_scalars(ctx, UOP_ADD, s->scalars, n));
    factor = tn_fdiv(ctx, tn_num(ctx, norm, opt->clip_norm),
                     tn_add_c(ctx, norm, 1e-6));
    factor = tn_min(ctx, factor, tn_num(ctx, factor, 1));
    for (i = 0; i < opt->n; i++) {
        if (s->grads[i])
            s->grads[i] = tn_mul(ctx, s->grads[i],
                                 tn_cast(ctx, factor, s->grads[i]->dtype));
    }
}

/* Sets t's node, or keeps the old one in a bad step; the old one is noted.
 * False: a node could not be made. */
static bool
change_node(struct optim_step *s, struct bell_tensor *t, const struct uop *u)
{
    const struct uop *old = tensor_at(t)->uop;

    if (s->is_good)
        u = tn_where(tensor_at(t)->ctx, s->is_good, u, old);
    if (tn_bad(u))
        return false;
    s->list[s->n] = t;
    s->old[s->n++] = old;
    tensor_set_node(t, u);
    return true;
}

/* The new values of parameter i; false when a node could not be made. */
static bool
move_param(const struct bell_optimizer *opt, uint32_t i, struct optim_step *s)
{
    const struct optim_param *param = &opt->params[i];
    const struct optim_settings *set = opt->groups[param->group];
    struct optim_move m = {.ctx = opt->ctx, .settings = set};
    const struct tensor *p = tensor_at(param->t);
    enum uop_dtype dtype = state_dtype(p);
    uint32_t k;

    for (k = 0; k < RATE_COUNT; k++)
        m.rates[k] =
            tn_squeeze(opt->ctx,
                       tn_shrink_axis(opt->ctx, s->leaves[param->group], 0, k,
                                      (int64_t)k + 1),
                       1);
    if (opt->scaler.scale)
        correct_rates(opt, set, m.rates);
    for (k = 0; k < RATE_COUNT; k++)
        m.rates[k] = tn_cast(opt->ctx, m.rates[k], dtype);
    for (k = 0; k < opt->n_states; k++)
        m.state[k] = tensor_at(param->states[k])->uop;
    m.p = tn_cast(opt->ctx, p->uop, dtype);
    m.g = s->grads[i];
    opt->move(&m);
    m.p = tn_cast(opt->ctx, m.p, p->dtype);
    if (param->axis >= 0) {
        for (k = 0; k < opt->n_states; k++)
            m.state[k] =
                mesh_lay(opt->ctx, m.state[k], opt->shards.k, param->axis);
        m.p = mesh_lay(opt->ctx, m.p, opt->shards.k,
                       opt->shards.kind == BELL_SHARD_PARAMS ? param->axis
                                                             : MESH_WHOLE);
    }
    for (k = 0; k < opt->n_states; k++) {
        if (!change_node(s, param->states[k], m.state[k]))
            return false;
    }
    if (!change_node(s, param->t, m.p))
        return false;
    tensor_at(p->grad)->flags |= TENSOR_SPENT;
    return true;
}

/* The scale and its counts after this step. */
static bool
move_scaler(const struct bell_optimizer *opt, struct optim_step *s)
{
    const struct optim_scaler *scaler = &opt->scaler;
    const struct uop *good, *is_good = s->is_good, *is_due, *scale, *skipped;
    struct bell_context *ctx = opt->ctx;

    if (!is_good)
        return true;
    good = tn_add_c(ctx, tensor_at(scaler->good)->uop, 1);
    is_due = tn_lt(
        ctx, tn_num(ctx, good, (double)scaler->options.interval - 0.5), good);
    good = tn_where(ctx, is_due, tn_num(ctx, good, 0), good);
    good = tn_where(ctx, is_good, good, tn_num(ctx, good, 0));
    scale = tn_where(
        ctx, is_due,
        tn_mul_c(ctx, tensor_at(scaler->scale)->uop, scaler->options.growth),
        tensor_at(scaler->scale)->uop);
    scale = tn_where(
        ctx, is_good, scale,
        tn_mul_c(ctx, tensor_at(scaler->scale)->uop, scaler->options.backoff));
    skipped = tensor_at(scaler->skipped)->uop;
    skipped = tn_where(ctx, is_good, skipped, tn_add_c(ctx, skipped, 1));
    s->is_good = NULL; /* these change in either case */
    return change_node(s, scaler->good, good) &&
           change_node(s, scaler->scale, scale) &&
           change_node(s, scaler->skipped, skipped);
}

/* Adds what bell_assign left to compute. */
static void
add_assigned(struct bell_context *ctx, struct optim_step *s)
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

/* The leaves of all groups, the first group's last. */
static bool
make_leaves(struct bell_optimizer *opt, struct optim_step *s)
{
    const struct tensor_trace *trace = opt->ctx->trace;
    double rates[RATE_COUNT];
    size_t n_feeds;
    uint32_t i;

    for (i = opt->n_groups; i-- > 0;) {
        n_feeds = trace ? trace->n_feeds : 0;
        fill_rates(opt, i, rates);
        s->leaves[i] = tensor_feed_leaf(opt->ctx, "bell_optimizer_step",
                                        UOP_F64, RATE_COUNT, rates, opt, i);
        if (trace && trace->n_feeds > n_feeds) /* which names it */
            opt->refcount++;
        if (!s->leaves[i])
            return false;
    }
    return true;
}

static bell_status
run_optim_step(struct bell_optimizer *opt, struct bell_tensor *const *also,
               uint32_t n, struct optim_step *s)
{
    struct bell_context *ctx = opt->ctx;
    bool is_made = true;
    uint32_t i;

    if (!make_leaves(opt, s))
        return tensor_report(ctx);
    take_grads(opt, s);
    if (opt->clip_norm != 0)
        clip_grads(opt, s);
    for (i = 0; i < opt->n && is_made; i++)
        is_made = !s->grads[i] || move_param(opt, i, s);
    if (!is_made || !move_scaler(opt, s)) {
        (void)tensor_new(ctx, "bell_optimizer_step", &uop_failed);
        return tensor_report(ctx);
    }
    s->n_old = s->n;
    for (i = 0; i < n; i++)
        s->list[s->n++] = also[i];
    add_assigned(ctx, s);
    return tensor_realize_list("bell_optimizer_step", s->list, s->n);
}

/* Its context's first failure, and whether all that a step needs is there. */
static bell_status
check_step(const struct bell_optimizer *opt, const char *call,
           struct bell_tensor *const *also, uint32_t n)
{
    char fate[HANDLE_FATE];
    uint32_t i, k;

    BELL_TRY(optim_works(call, opt));
    BELL_TRY(tensor_report(opt->ctx));
    if (n && !also)
        return bell_fail_at(call, BELL_BAD_MISSING,
                            "%s: the list of tensors is NULL", call);
    for (i = 0; i < opt->n; i++) {
        struct tensor *param = handle_find(opt->params[i].t);
        if (param)
            tensor_trace_touch(param);
        else
            return bell_fail_at(
                call, BELL_BAD_STATE, "%s: parameter %u %s", call, i,
                handle_fate(opt->params[i].t, fate, sizeof(fate)));
        for (k = 0; k < opt->n_states; k++)
            BELL_TRY(tensor_usable(call, opt->params[i].states[k]));
    }
    for (i = 0; i < n; i++)
        BELL_TRY(tensor_usable(call, also[i]));
    return BELL_OK;
}

static void
free_optim_step(struct optim_step *s)
{
    host_free(s->list);
    host_free(s->old);
    host_free(s->grads);
    host_free(s->leaves);
    host_free(s->scalars);
}

static bell_status
begin_step(const struct bell_optimizer *opt, uint32_t n, struct optim_step *s)
{
    size_t room =
        (size_t)opt->n * (1 + opt->n_states) + 3 + n + opt->ctx->n_assigned;

    s->list = host_calloc(room, sizeof(*s->list));
    s->old = host_calloc(room, sizeof(*s->old));
    s->grads = host_calloc(opt->n, sizeof(*s->grads));
    s->scalars = host_calloc(opt->n, sizeof(*s->scalars));
    s->leaves = host_calloc(opt->n_groups, sizeof(*s->leaves));
    if (s->list && s->old && s->grads && s->scalars && s->leaves)
        return BELL_OK;
    return bell_fail(BELL_E_NO_MEMORY,
                     "bell_optimizer_step: out of memory for %zu tensors",
                     room);
}

bell_status
bell_optimizer_step(struct bell_optimizer *opt, struct bell_tensor *const *also,
                    uint32_t n)
{
    struct optim_step s = {0};
    bell_status status;
    uint32_t i;

    BELL_TRY(check_step(opt, __func__, also, n));
    status = begin_step(opt, n, &s);
    if (status == BELL_OK)
        status = run_optim_step(opt, also, n, &s);
    if (status == BELL_OK) {
        opt->t += !opt->ctx->trace; /* counted by each replay */
    } else {
        for (i = 0; i < (s.n_old ? s.n_old : s.n); i++)
            tensor_set_node(s.list[i], s.old[i]);
    }
    free_optim_step(&s);
    return status;
}

bell_status
optim_shard(struct bell_optimizer *opt, const char *call,
            struct optim_shards shards)
{
    BELL_TRY(check_step(opt, call, NULL, 0));
    if (opt->shards.kind || opt->ctx->trace)
        return bell_fail_at(call, BELL_BAD_STATE, "%s: %s", call,
                            opt->ctx->trace ? "in a function that is captured"
                                            : "the optimiser is split already");
    if (shards.kind < BELL_SHARD_STATES || shards.kind > BELL_SHARD_PARAMS)
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: kind %u is not an enum bell_shard_kind", call,
                            shards.kind);
    opt->shards = shards;
    return shard_params(opt, call, 0);
}

bell_status
bell_optimizer_accumulate(struct bell_optimizer *opt,
                          struct bell_tensor *const *also, uint32_t n)
{
    struct optim_step s = {0};
    const struct uop *g_node;
    bell_status status;
    uint32_t i;

    BELL_TRY(check_step(opt, __func__, also, n));
    status = begin_step(opt, n, &s);
    if (status == BELL_OK) {
        for (i = 0; i < opt->n; i++) {
            struct bell_tensor *g = tensor_at(opt->params[i].t)->grad;

            if (!g)
                continue;
            s.list[s.n++] = g;
            if (!opt->ctx->mesh || opt->ctx->mesh->n_places == 1 ||
                bell_is_realized(g))
                continue;
            g_node = optim_lay_terms(opt->ctx, tensor_at(g)->uop, opt->shards.k,
                                     opt->shards.kind >= BELL_SHARD_GRADIENTS
                                         ? opt->params[i].axis
                                         : MESH_WHOLE);
            if (!tn_bad(g_node))
                tensor_set_node(g, g_node);
        }
        for (i = 0; i < n; i++)
            s.list[s.n++] = also[i];
        add_assigned(opt->ctx, &s);
        status = tensor_realize_list(__func__, s.list, s.n);
    }
    free_optim_step(&s);
    return status;
}
