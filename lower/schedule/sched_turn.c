/* Factors of large products, turned first.
 *
 * In TF32, WGMMA takes words along the sum alone. A factor that lies the other
 * way would be turned on its way to each tile that it is in; a kernel that
 * stores it turned is soon worth its time. observed: H100, 2026-11-23: x @ w of
 * 4096 took 700 us, and so takes 400; x.T @ w, both turned, 875 and 450.
 *
 * A CPU packs the columns that a vector has anyway (lower/opt/opt_product.c),
 * but rows again for each few of them.
 */
#include "lower/schedule/sched_internal.h"

#define MIN_STEPS   256 /* of the sum, where they are a multiple of STEP_WORDS */
#define STEP_WORDS  4   /* 16 bytes */
#define MIN_OUTPUTS 128  /* of the factor */
#define MIN_USES    1024 /* of each of its elements */

/* Does the PERMUTE make the last axis, of so many, of one that lies otherwise
 * in memory? What was made words of less is multiplied as what it was. */
static bool
is_across(struct uop_graph *g, const struct uop *u, int64_t steps)
{
    const struct uop *src = u->src[0], *base = src;
    const struct uop_dims *to = uop_shape(g, u), *from = uop_shape(g, src);
    uint32_t last = to->n - 1;

    while (base->op == UOP_RESHAPE)
        base = base->src[0];
    return base->op != UOP_CAST && !uop_has(base, UOP_FLAG_MOVE) && to->n > 1 &&
           to->d[last] == steps && u->arg.dims->d[last] != (int64_t)last &&
           from->d[last] >= MIN_OUTPUTS;
}

/* The factor as it is, or made of what is stored turned. */
static const struct uop *
turn(struct uop_graph *g, const struct uop *u, int64_t steps, double n)
{
    const union uop_arg no_arg = {.bits = 0};
    const struct uop *src;

    if (u->op == UOP_PERMUTE) {
        if (!is_across(g, u, steps) ||
            n < MIN_USES * sched_numel(uop_shape(g, u)))
            return u;
        return uop_new_shaped(g, UOP_CONTIGUOUS, u->dtype, no_arg, &u, 1,
                              uop_shape(g, u));
    }
    if (u->op != UOP_EXPAND && u->op != UOP_RESHAPE)
        return u;
    src = turn(g, u->src[0], steps, n);
    return src == u->src[0] ? u
                            : uop_new_shaped(g, u->op, u->dtype, u->arg, &src,
                                             1, uop_shape(g, u));
}

/* Is the factor the same along the axis? */
static bool
is_repeated(struct uop_graph *g, const struct uop *u, uint32_t axis)
{
    return u->op == UOP_EXPAND && uop_shape(g, u->src[0])->d[axis] == 1;
}

const struct uop *
sched_turn(struct uop_graph *g, const struct uop *u,
           const struct sched_target *target)
{
    const struct uop *body = u->src[0], *src[2];
    const struct uop_dims *dims = uop_shape(g, body);
    int64_t steps = dims->n ? dims->d[dims->n - 1] : 0;
    double n = sched_numel(dims);
    uint32_t i;

    if (body->op != UOP_MUL || body->dtype != UOP_F32 ||
        uop_reduce_op(u) != UOP_ADD ||
        uop_reduce_axes(u) != 1u << (dims->n - 1) || steps < MIN_STEPS ||
        steps % STEP_WORDS)
        return u;
    for (i = 0; i < 2; i++) {
        src[i] = body->src[i];
        if (target->turns_words ||
            (dims->n > 2 && is_repeated(g, src[i], dims->n - 2)))
            src[i] = turn(g, src[i], steps, n);
    }
    if (src[0] == body->src[0] && src[1] == body->src[1])
        return u;
    body = uop_new_shaped(g, UOP_MUL, UOP_F32, body->arg, src, 2, dims);
    return uop_new_shaped(g, u->op, u->dtype, u->arg, &body, 1,
                          uop_shape(g, u));
}
