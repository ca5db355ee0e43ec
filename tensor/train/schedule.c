/* Learning rates as functions of the number of steps. */
#include "doorbell/optim.h"

#include <math.h>

#include "tensor/train/optim.h"
#include "tensor/core/tensor_internal.h"

#define PI 3.14159265358979323846

/* Half a cosine from a to b, at x in 0..1. */
static double
swing(double a, double b, double x)
{
    return b + (a - b) / 2 * (1 + cos(PI * x));
}

static double
one_cycle(const struct bell_schedule *s, double t)
{
    double low = 1 / (s->div != 0 ? s->div : 25);
    double last = low / (s->final_div != 0 ? s->final_div : 1e4);
    double top = (s->up != 0 ? s->up : 0.3) * (double)s->n_steps - 1;
    double end = (double)s->n_steps - 1;

    if (t >= end)
        return last;
    if (top > 0 && t <= top)
        return swing(low, 1, t / top);
    return swing(1, last, (t - top) / (end - top));
}

double
optim_schedule_factor(const struct bell_schedule *schedule, int64_t t)
{
    int64_t n_warmup = schedule->n_warmup;
    double from = schedule->warmup_from;

    if (t < n_warmup)
        return from + (1 - from) * (double)t / (double)n_warmup;
    t -= n_warmup;
    switch (schedule->kind) {
    case BELL_SCHEDULE_STEP:
        return pow(schedule->gamma, (double)(t / schedule->n_steps));
    case BELL_SCHEDULE_COSINE:
        return t >= schedule->n_steps
                   ? schedule->low
                   : swing(1, schedule->low,
                           (double)t / (double)schedule->n_steps);
    case BELL_SCHEDULE_ONE_CYCLE:
        return one_cycle(schedule, (double)t);
    case BELL_SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}

double
bell_schedule_factor(const struct bell_schedule *schedule, int64_t t)
{
    struct bell_schedule s;

    if (tensor_options(__func__, schedule, sizeof(s), sizeof(s), &s) != BELL_OK)
        return (double)NAN;
    return optim_schedule_factor(&s, t);
}
