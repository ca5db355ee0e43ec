/* Gradients against finite differences, both by the reference in float64.
 *
 * The loss is the sum of root 0 times fixed weights. Along a random direction
 * v of a leaf its slope is estimated by the five-point rule, whose error is of
 * order h^4, and compared with the gradient's product with v. A kink between
 * the points spoils the estimate, so that two of four places must agree.
 */
#include "tools/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define N_PLACES  4
#define N_NEEDED  2
#define STEP      2e-5
#define ROUGH     0.1  /* relative, of differences over one and two steps */
#define TOLERANCE 2e-5 /* relative; erf's own is 2e-7 absolute */

/* One leaf, moved along one direction. */
struct grad_probe {
    struct bell_context *ctx;
    const struct fuzz_program *prog; /* its seed is the place */
    uint32_t leaf;
    struct bell_tensor *nodes[FUZZ_MAX_NODES];
};

/* Element k of the direction: a unit step either way, or none. */
static double
direction(const struct grad_probe *p, size_t k)
{
    uint64_t bits = hash_add(p->prog->seed ^ p->leaf, k);

    return bits % 3 == 0 ? 0 : bits & 64 ? 1 : -1;
}

static struct bell_tensor *
weighted_sum(struct bell_context *ctx, struct bell_tensor *y, uint64_t seed)
{
    size_t n = (size_t)bell_numel(y), k;
    double *w = host_alloc((n + 1) * sizeof(*w));
    struct bell_tensor *weights;

    if (!w)
        return NULL;
    for (k = 0; k < n; k++)
        w[k] = 0.5 + (double)(hash_add(seed, k) % 1024) / 1024;
    weights = bell_from_data(ctx, bell_shape(y), bell_ndim(y), BELL_FLOAT64, w);
    host_free(w);
    return bell_sum(bell_mul(bell_cast(y, BELL_FLOAT64), weights), BELL_NO_DIMS,
                    false);
}

/* The leaf with `by` times the direction added. */
static struct bell_tensor *
moved_leaf(struct grad_probe *p, double by)
{
    const struct fuzz_node *leaf = &p->prog->nodes[p->leaf];
    struct ref_array array = {.dtype = UOP_F64, .n = 1};
    struct bell_tensor *t;
    uint32_t i;
    size_t k;

    for (i = 0; i < leaf->n_list; i++)
        array.n *= (size_t)leaf->list[i];
    array.data = host_alloc((array.n + 1) * 8);
    if (!array.data)
        return NULL;
    fuzz_fill(p->prog, p->leaf, &array);
    for (k = 0; k < array.n; k++)
        array.f[k] += by * direction(p, k);
    t = bell_from_data(p->ctx, leaf->list, leaf->n_list, BELL_FLOAT64, array.f);
    host_free(array.data);
    return t;
}

/* The loss with the leaf moved. */
static BELL_MUST_CHECK bell_status
loss_at(struct grad_probe *p, double by, struct bell_tensor **out)
{
    uint32_t i;

    for (i = 0; i < p->prog->n_nodes; i++) {
        const struct fuzz_node *node = &p->prog->nodes[i];
        if (node->op == 0 && i != p->leaf)
            continue; /* fuzz_build has made it */
        p->nodes[i] = node->op != 0 ? fuzz_call(p->ctx, node, p->nodes)
                                    : moved_leaf(p, by);
        if (!p->nodes[i])
            return bell_fail(BELL_E_NO_MEMORY, "leaf t%u: out of memory", i);
    }
    *out = weighted_sum(p->ctx, p->nodes[p->prog->roots[0]], p->prog->seed);
    return bell_context_status(p->ctx);
}

/* What a place says. */
enum outcome {
    AGREES,
    DISAGREES,
    SAYS_NOTHING
};

struct slopes {
    double by_gradient, magnitude; /* sum of g * v, and of |g * v| */
    double by_difference, loss;
    double near, far; /* differences over one and two steps alone */
};

static BELL_MUST_CHECK bell_status
measure_grad(struct grad_probe *p, struct slopes *out)
{
    static const double steps[] = {-2, -1, 1, 2};
    struct bell_tensor *all[6], *target = p->nodes[p->leaf];
    struct ref_array values[6];
    size_t k;

    all[0] = weighted_sum(p->ctx, p->nodes[p->prog->roots[0]], p->prog->seed);
    BELL_TRY(bell_gradient(all[0], &target, 1, &all[1]));
    for (k = 0; k < 4; k++)
        BELL_TRY(loss_at(p, steps[k] * STEP, &all[2 + k]));
    BELL_TRY(ref_eval_tensors(all, 6, NULL, values));
    memset(out, 0, sizeof(*out));
    for (k = 0; k < values[1].n; k++) {
        double part = values[1].f[k] * direction(p, k);
        out->by_gradient += part;
        out->magnitude += fabs(part);
    }
    out->loss = values[0].f[0];
    out->by_difference = (8 * (values[4].f[0] - values[3].f[0]) -
                          (values[5].f[0] - values[2].f[0])) /
                         (12 * STEP);
    out->near = (values[4].f[0] - values[3].f[0]) / (2 * STEP);
    out->far = (values[5].f[0] - values[2].f[0]) / (4 * STEP);
    for (k = 0; k < 6; k++)
        ref_array_fini(&values[k]);
    return BELL_OK;
}

static enum outcome
judge_gradient(const struct slopes *s)
{
    double scale = s->magnitude + fabs(s->by_difference);
    double error = fabs(s->by_gradient - s->by_difference);

    if (!isfinite(s->loss) || !isfinite(s->by_difference) ||
        fabs(s->loss) > 1e8)
        return SAYS_NOTHING;
    if (!isfinite(s->by_gradient))
        return SAYS_NOTHING;
    /* it jumps between the places, as a remainder of great numbers does */
    if (fabs(s->near - s->far) > ROUGH * (fabs(s->near) + fabs(s->far)) +
                                     1e-10 * (1 + fabs(s->loss)) / STEP)
        return SAYS_NOTHING;
    return error <= TOLERANCE * scale + 1e-8 * (1 + fabs(s->loss)) ? AGREES
                                                                   : DISAGREES;
}

/* Tries a leaf at several places. */
static BELL_MUST_CHECK bell_status
check_leaf(struct grad_probe *p, struct fuzz_verdict *out)
{
    struct fuzz_program place = *p->prog;
    unsigned agree = 0, disagree = 0, i;
    const struct fuzz_program *prog = p->prog;

    p->prog = &place;
    for (i = 0; i < N_PLACES && agree < N_NEEDED; i++) {
        struct slopes s;
        enum outcome outcome;
        place.seed = prog->seed + i;
        if (fuzz_build(p->ctx, &place, p->nodes) != BELL_OK) {
            out->invalid = true;
            break;
        }
        BELL_TRY(measure_grad(p, &s));
        outcome = judge_gradient(&s);
        agree += outcome == AGREES;
        disagree += outcome == DISAGREES;
        if (outcome == DISAGREES)
            snprintf(out->what, sizeof(out->what),
                     "gradient by leaf t%u: %.9g along a direction in which "
                     "differences give %.9g",
                     p->leaf, s.by_gradient, s.by_difference);
    }
    p->prog = prog;
    if (agree < N_NEEDED && disagree >= N_PLACES - N_NEEDED + 1) {
        out->failed = true;
        return BELL_OK;
    }
    out->n_compared++;
    out->n_unstable += agree < N_NEEDED;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_leaves(struct grad_probe *p, struct fuzz_verdict *out)
{
    uint32_t i;

    for (i = 0; i < p->prog->n_nodes && !out->failed && !out->invalid; i++) {
        if (p->prog->nodes[i].op != 0 ||
            p->prog->nodes[i].dtype != BELL_FLOAT64)
            continue;
        p->leaf = i;
        BELL_TRY(check_leaf(p, out));
    }
    return BELL_OK;
}

bell_status
fuzz_check_grad(struct bell_context *ctx, const struct fuzz_program *prog,
                struct fuzz_verdict *out)
{
    struct grad_probe *p = host_calloc(1, sizeof(*p));
    bell_status status;

    memset(out, 0, sizeof(*out));
    if (!p)
        return bell_fail(BELL_E_NO_MEMORY, "a gradient check: out of memory");
    p->ctx = ctx;
    p->prog = prog;
    status = bell_scope_begin(ctx);
    if (status == BELL_OK) {
        status = fuzz_build(ctx, prog, p->nodes);
        if (status != BELL_OK || prog->n_roots == 0 ||
            !fuzz_is_float(p->nodes[prog->roots[0]])) {
            out->invalid = true;
            status = BELL_OK;
        } else {
            status = check_leaves(p, out);
        }
        if (status != BELL_OK) { /* the library failed: that is a finding */
            out->failed = true;
            snprintf(out->what, sizeof(out->what), "%.380s",
                     bell_error_last()->message);
            status = BELL_OK;
        }
        if (bell_scope_end(ctx) != BELL_OK && !out->invalid && !out->failed)
            status = bell_fail(BELL_E_INTERNAL, "gradient check: %.300s",
                               bell_error_last()->message);
    }
    host_free(p);
    return status;
}
