/* Optimisers: what moves parameters by their gradients.
 *
 * Formulas are those of torch.optim, of the papers for LAMB and LARS. Each
 * optimiser begins with one group of parameters; more groups have rates and
 * decays of their own. A step is one computation; what differs from step to
 * step (rates, which a schedule may give, and the number of steps) is data, so
 * that nothing is compiled anew, and a bell_jit that captured a step goes on
 * with them. Clipping, loss scaling and groups are as they were when it was
 * captured.
 *
 * Options. A rate of 0 is 0. Other numbers have defaults where it is said, and
 * 0 stands for these.
 *
 * States are float32, float64 for float64 parameters, and no parameter's step
 * is computed with less.
 */
#ifndef BELL_DOORBELL_OPTIM_H
#define BELL_DOORBELL_OPTIM_H

#include "doorbell/module.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_optimizer;

/* ---- kinds ---- */

struct bell_sgd_options {
    uint32_t struct_size; /* sizeof(struct bell_sgd_options) */
    double lr;
    double momentum, dampening, weight_decay;
    bool nesterov; /* needs momentum and no dampening */
};

struct bell_adam_options {
    uint32_t struct_size; /* sizeof(struct bell_adam_options) */
    double lr;
    double beta1, beta2; /* 0 means 0.9 and 0.999 */
    double eps;          /* 0 means 1e-8; LAMB: 1e-6 */
    double weight_decay;
};

struct bell_rmsprop_options {
    uint32_t struct_size; /* sizeof(struct bell_rmsprop_options) */
    double lr;
    double alpha; /* 0 means 0.99 */
    double eps;   /* 0 means 1e-8 */
    double weight_decay, momentum;
    bool centered;
};

struct bell_adagrad_options {
    uint32_t struct_size; /* sizeof(struct bell_adagrad_options) */
    double lr;
    double lr_decay;      /* the rate is lr / (1 + steps done * lr_decay) */
    double initial_value; /* of the sums of squares */
    double eps;           /* 0 means 1e-10 */
    double weight_decay;
};

struct bell_lars_options {
    uint32_t struct_size; /* sizeof(struct bell_lars_options) */
    double lr;
    double momentum, weight_decay;
    double trust; /* 0 means 0.001 */
    double eps;   /* 0 means 1e-8 */
};

struct bell_muon_options {
    uint32_t struct_size; /* sizeof(struct bell_muon_options) */
    double lr;
    double momentum; /* 0 means 0.95 */
    double weight_decay;
    bool plain;       /* the momentum alone, without Nesterov's look ahead */
    uint32_t n_iters; /* of Newton and Schulz's iteration; 0 means 5 */
    double eps;       /* 0 means 1e-7 */
};

/* Makes an optimiser of n float tensors of one context; realizes them. They
 * must outlive it. */
BELL_API BELL_MUST_CHECK bell_status bell_sgd_create(
    struct bell_tensor *const *params, uint32_t n,
    const struct bell_sgd_options *options, struct bell_optimizer **out_opt);
/* Adam; weight decay is added to the gradients. */
BELL_API BELL_MUST_CHECK bell_status bell_adam_create(
    struct bell_tensor *const *params, uint32_t n,
    const struct bell_adam_options *options, struct bell_optimizer **out_opt);
/* AdamW; weight decay acts on the weights alone. */
BELL_API BELL_MUST_CHECK bell_status bell_adamw_create(
    struct bell_tensor *const *params, uint32_t n,
    const struct bell_adam_options *options, struct bell_optimizer **out_opt);
/* RMSprop, with momentum and centred if the options say so. */
BELL_API BELL_MUST_CHECK bell_status
bell_rmsprop_create(struct bell_tensor *const *params, uint32_t n,
                    const struct bell_rmsprop_options *options,
                    struct bell_optimizer **out_opt);
/* Adagrad. */
BELL_API BELL_MUST_CHECK bell_status
bell_adagrad_create(struct bell_tensor *const *params, uint32_t n,
                    const struct bell_adagrad_options *options,
                    struct bell_optimizer **out_opt);
/* LAMB (You et al., 2019): with r = Adam's direction + weight_decay w, w moves
 * by lr |w| / |r| r, where either is 0 by lr r. */
BELL_API BELL_MUST_CHECK bell_status bell_lamb_create(
    struct bell_tensor *const *params, uint32_t n,
    const struct bell_adam_options *options, struct bell_optimizer **out_opt);
/* LARS (You et al., 2017): with r = g + weight_decay w and
 * q = trust |w| / (|g| + weight_decay |w| + eps) (1 where |w| or |g| is 0):
 * v = momentum v + lr q r, w = w - v. */
BELL_API BELL_MUST_CHECK bell_status bell_lars_create(
    struct bell_tensor *const *params, uint32_t n,
    const struct bell_lars_options *options, struct bell_optimizer **out_opt);
/* Muon: matrices move along what is left of their momentum when its singular
 * values are made about equal, times sqrt(max(1, rows / columns)). Computed in
 * the states' dtype. BELL_E_INVALID: a parameter that is not a matrix. */
BELL_API BELL_MUST_CHECK bell_status bell_muon_create(
    struct bell_tensor *const *params, uint32_t n,
    const struct bell_muon_options *options, struct bell_optimizer **out_opt);
/* Releases its states. NULL is allowed. Before or after its
 * context. */
BELL_API void bell_optimizer_destroy(struct bell_optimizer *opt);

/* ---- groups and rates ---- */

/* What a further group has of its own; the rest is as at the creation. */
struct bell_group_options {
    uint32_t struct_size; /* sizeof(struct bell_group_options) */
    double lr, weight_decay;
};
/* Adds a group of n parameters; the first one is group 0. After a failure
 * there is none. */
BELL_API BELL_MUST_CHECK bell_status bell_optimizer_add_group(
    struct bell_optimizer *opt, struct bell_tensor *const *params, uint32_t n,
    const struct bell_group_options *options);

/* Sets the rate of every group from now on; compiles nothing anew. */
BELL_API void bell_optimizer_set_lr(struct bell_optimizer *opt, double lr);
/* The same of one group; one that there is not is ignored. */
BELL_API void bell_optimizer_set_group_lr(struct bell_optimizer *opt,
                                          uint32_t group, double lr);
/* The rate that was set for group 0. */
BELL_API double bell_optimizer_lr(const struct bell_optimizer *opt);
/* The rate of a group's next step: what was set times the schedule's factor.
 * NaN: there is no such group. */
BELL_API double bell_optimizer_next_lr(const struct bell_optimizer *opt,
                                       uint32_t group);

enum bell_schedule_kind {
    BELL_SCHEDULE_CONSTANT,
    BELL_SCHEDULE_STEP,     /* gamma^floor(t / n_steps) */
    BELL_SCHEDULE_COSINE,   /* half a cosine from 1 to `low` in n_steps; then
                             * `low` */
    BELL_SCHEDULE_ONE_CYCLE /* torch's OneCycleLR of n_steps, the set rate its
                             * max_lr: half a cosine up, another one down */
};

/* A factor of all rates, of the number t of steps done. The first n_warmup
 * steps rise on a line from warmup_from to 1; t counts from their end on. */
struct bell_schedule {
    uint32_t struct_size; /* sizeof(struct bell_schedule) */
    enum bell_schedule_kind kind;
    int64_t n_steps;
    double gamma;
    double low;
    double up;        /* one-cycle: the part that rises; 0 means 0.3 */
    double div;       /* one-cycle: first factor is 1 / div; 0 means 25 */
    double final_div; /* one-cycle: last is 1 / (div final_div); 0 means 1e4 */
    int64_t n_warmup;
    double warmup_from;
};
/* The factor after t steps. */
BELL_API double bell_schedule_factor(const struct bell_schedule *schedule,
                                     int64_t t);
/* Rates follow it from now on (it is copied); NULL: none. */
BELL_API BELL_MUST_CHECK bell_status bell_optimizer_set_schedule(
    struct bell_optimizer *opt, const struct bell_schedule *schedule);

/* ---- gradients ---- */

/* Each step's gradients, of all groups together: their elements are first cut
 * to -max_value..max_value, then all of them made smaller by one factor so that
 * the norm of all elements is max_norm at most. 0: not. */
BELL_API BELL_MUST_CHECK bell_status bell_optimizer_set_clip(
    struct bell_optimizer *opt, double max_norm, double max_value);

/* Loss scaling for parameters of float16: small gradients are not lost. */
struct bell_scaler_options {
    uint32_t struct_size; /* sizeof(struct bell_scaler_options) */
    double scale;         /* at first; 0 means 65536 */
    double growth;        /* 0 means 2 */
    double backoff;       /* 0 means 0.5 */
    int64_t interval;     /* good steps before it grows; 0 means 2000 */
};
/* From now on gradients are divided by a scale, which is the loss's factor
 * (bell_optimizer_scale). A step with a gradient that is not finite moves
 * nothing, and the scale is made smaller; after `interval` good ones it grows.
 * All on the device: nothing waits. options: NULL for the defaults. Once. */
BELL_API BELL_MUST_CHECK bell_status bell_optimizer_set_scaler(
    struct bell_optimizer *opt, const struct bell_scaler_options *options);
/* loss times the scale, in float32 at least; loss itself without a scaler. */
BELL_API struct bell_tensor *bell_optimizer_scale(struct bell_optimizer *opt,
                                                  struct bell_tensor *loss);

/* bell_zero_grad on every parameter. */
BELL_API void bell_optimizer_zero_grad(struct bell_optimizer *opt);
/* Computes the gradients so far, the n tensors of `also` and what bell_assign
 * left: between the parts of a batch whose gradients add up, to keep no more
 * than a part in memory. On several devices each keeps what its part of the
 * batch gives: nothing is exchanged before the step, or before a gradient is
 * read (doorbell/mesh.h). Queued, does not wait. */
BELL_API BELL_MUST_CHECK bell_status bell_optimizer_accumulate(
    struct bell_optimizer *opt, struct bell_tensor *const *also, uint32_t n);
/* Moves every parameter that has a gradient, and computes in one go: the
 * parameters, the states, the n tensors of `also` (the loss, say), and every
 * tensor that bell_assign changed and that is not computed yet. Queued, does
 * not wait. After a failure nothing has moved. */
BELL_API BELL_MUST_CHECK bell_status bell_optimizer_step(
    struct bell_optimizer *opt, struct bell_tensor *const *also, uint32_t n);

/* ---- state ---- */

/* Appends all that its next steps depend on beside parameters and options:
 * numbers "step" and "groups.0.lr" and so on, and as buffers each parameter's
 * states by torch's names ("layers.0.weight.exp_avg"), and "scaler.scale",
 * "scaler.good_steps" and "scaler.skipped". Parameters are named as in `names`,
 * those that are not in it, or if it is NULL, by their number. */
BELL_API BELL_MUST_CHECK bell_status
bell_optimizer_state(struct bell_optimizer *opt, const struct bell_state *names,
                     const char *prefix, struct bell_state *state);

#ifdef __cplusplus
}
#endif
#endif
