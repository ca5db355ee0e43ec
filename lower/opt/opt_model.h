/* What a kernel costs on a CPU: an analytic model for the rules.
 *
 * The unit is a cycle of one core, roughly. A node costs its price times the
 * values of the ranges it varies with, over the lanes it is computed in:
 * expansion keeps everything out of the loops that it does not depend on.
 */
#ifndef BELL_LOWER_OPT_OPT_MODEL_H
#define BELL_LOWER_OPT_OPT_MODEL_H

#include "lower/kernel/kernel.h"

#define OPT_LANES_REDUCE 10.0 /* cycles: log2(lanes) shuffles, operations */

/* Facts by place in k->nodes; in the kernel's scratch memory. */
struct opt_model {
    struct kernel *k;
    bool *is_value; /* computes data, not an address or a gate */
    double *price;  /* cycles of one instance, scalar or vector */
    double *code;   /* instructions of one instance, after decomposition */
    double *trips;  /* how often, as scheduled */
    int64_t *step;  /* scratch of opt_model_steps */
};

BELL_MUST_CHECK bell_status opt_model_init(struct opt_model *m,
                                           struct kernel *k);

/* Lanes for a VECTOR over range r, from the widest data that varies with it;
 * 0 where r is too short or not constant. `overlap`: the last vector of an
 * output range may move back. */
int64_t opt_model_lanes(const struct opt_model *m, uint32_t r, bool overlap);

/* Cycles saved by making range r a VECTOR of that many lanes. */
double opt_model_gain(struct opt_model *m, uint32_t r, int64_t lanes);

/* Fills m->step: by how much each I64 node would move per lane, if r were
 * split by `lanes`; KERNEL_NONAFFINE where unknown. Divisions by multiples
 * of the vector's extent drop out. */
void opt_model_steps(struct opt_model *m, uint32_t r, int64_t lanes);

/* Total cycles, each range r taken in vectors of lanes[r]. */
double opt_model_total(const struct opt_model *m, const int64_t *lanes);

#endif
