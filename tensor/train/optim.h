/* Optimisers' formulas on nodes. Shared by optim*.c only. */
#ifndef BELL_TENSOR_TRAIN_OPTIM_H
#define BELL_TENSOR_TRAIN_OPTIM_H

#include "tensor/core/node.h"

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

/* bell_schedule_factor of one that the library has (schedule.c). */
double optim_schedule_factor(const struct bell_schedule *schedule, int64_t t);

/* sqrt(sum of squares) over all axes, which stay with size 1. */
const struct uop *optim_norm(struct bell_context *ctx, const struct uop *u);

#endif
