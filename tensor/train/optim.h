/* Optimisers' formulas on nodes. Shared by optim*.c only. */
#ifndef BELL_TENSOR_TRAIN_OPTIM_H
#define BELL_TENSOR_TRAIN_OPTIM_H

#include "doorbell/mesh.h"
#include "tensor/core/node.h"
#include "tensor/mesh/layout.h"

#define OPTIM_STATES 3

/* What the host gives anew at each step, to each group; float64. */
enum optim_rate {
    RATE_LR,    /* the learning rate */
    RATE_STEP,  /* lr / (1 - beta1^t), for Adagrad lr / (1 + (t-1) decay) */
    RATE_MEAN,  /* 1 / (1 - beta1^t) */
    RATE_ROOT,  /* 1 / sqrt(1 - beta2^t) */
    RATE_GAIN,  /* SGD: what the gradient adds to the momentum */
    RATE_DECAY, /* 1 - lr * weight_decay */
    RATE_TIME,  /* t: 1 in the first step */
    RATE_COUNT
};

struct bell_schedule;

/* Settings of a group. */
struct optim_settings {
    double lr, weight_decay, momentum, dampening, beta1, beta2, eps;
    double lr_decay, trust;
    uint32_t n_iters;
    bool nesterov, centered, decoupled;
};

/* A parameter's move: nodes in, new parameter and states out. */
struct optim_move {
    struct bell_context *ctx;
    const struct optim_settings *settings;
    const struct uop *rates[RATE_COUNT]; /* in the dtype of the states */
    const struct uop *p, *g;             /* the same */
    const struct uop *state[OPTIM_STATES];
};

typedef void optim_move_fn(struct optim_move *m);

/* States: the momentum, if there is any. */
optim_move_fn optim_move_sgd;
/* Means of gradients and of squares; decoupled or not. */
optim_move_fn optim_move_adam;
optim_move_fn optim_move_lamb;
/* Mean of squares, then mean and momentum where they are used. */
optim_move_fn optim_move_rmsprop;
/* Sum of squares. */
optim_move_fn optim_move_adagrad;
/* The momentum. */
optim_move_fn optim_move_lars;
optim_move_fn optim_move_muon;

/* ---- on a mesh (optim_mesh.c) ---- */

/* The request of bell_optimizer_shard. */
struct optim_shards {
    uint32_t k;    /* the axis of the mesh */
    uint32_t kind; /* enum bell_shard_kind; 0: nothing */
};

/* The axis of a parameter, of which places along axis k of the mesh get parts:
 * that which is split already, or the one that leaves the least room unused.
 * MESH_WHOLE: none has two elements. */
int optim_shard_axis(struct bell_context *ctx, const struct uop *p, uint32_t k);
/* A state of a parameter as that lies, but along k. */
const struct uop *optim_lay_state(struct bell_context *ctx,
                                  const struct uop *state, const struct uop *p,
                                  uint32_t k, int axis);
/* A gradient that is to be computed before the step. What several places have
 * terms of is not added up, but along k where that has an axis. */
const struct uop *optim_lay_terms(struct bell_context *ctx, const struct uop *g,
                                  uint32_t k, int axis);
/* The optimiser's context; fails as every call of one does. */
BELL_MUST_CHECK bell_status optim_context(const char *call,
                                          const struct bell_optimizer *opt,
                                          struct bell_context **out_ctx);
/* bell_optimizer_shard, with the axis found. */
BELL_MUST_CHECK bell_status optim_shard(struct bell_optimizer *opt,
                                        const char *call,
                                        struct optim_shards shards);

/* bell_schedule_factor of one that the library has (schedule.c). */
double optim_schedule_factor(const struct bell_schedule *schedule, int64_t t);

/* sqrt(sum of squares) over all axes, which stay with size 1. */
const struct uop *optim_norm(struct bell_context *ctx, const struct uop *u);

#endif
