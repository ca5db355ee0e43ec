/* Functions whose results are rounded to halves: exponentials and inverses by
 * approximate instructions, which are off by relative 2^-22, far less than
 * what rounding takes away, and shorter polynomials.
 */
#include "lower/decompose/decompose_internal.h"

#include "base/alloc.h"

static bool
is_half(unsigned dtype)
{
    return dtype == UOP_F16 || dtype == UOP_BF16;
}

/* May its sources be as inexact as it may be? */
static bool
hands_on(const struct uop *u)
{
    switch (u->op) {
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_FDIV:
    case UOP_RECIP:
    case UOP_MULACC:
    case UOP_MAX:
    case UOP_MIN:
    case UOP_NEG:
    case UOP_WHERE:
    case UOP_LANE:
    case UOP_LANES:
    case UOP_BROADCAST:
        return u->dtype == UOP_F32;
    default:
        return false;
    }
}

/* What is made of a value, of which the last counts. */
enum {
    NOTHING,
    ROUNDED,
    EXACT
};

bell_status
dec_find_rounded(const struct uop *const *list, size_t n, uint8_t **out_rounded)
{
    uint8_t *made, how;
    uint32_t i;

    made = host_calloc(n ? (size_t)list[n - 1]->id + 1 : 1, 1);
    if (!made)
        return bell_fail(BELL_E_NO_MEMORY,
                         "decomposing %zu nodes: out of memory", n);
    *out_rounded = made;
    while (n-- > 0) { /* what is made of it has been seen */
        const struct uop *u = list[n];
        if (u->op == UOP_CAST && is_half(u->dtype))
            how = ROUNDED;
        else
            how = hands_on(u) ? made[u->id] : EXACT;
        for (i = 0; i < u->n_src; i++) {
            uint8_t *own = &made[u->src[i]->id];
            *own = how > *own ? how : *own;
        }
        made[u->id] = made[u->id] == ROUNDED && u->dtype == UOP_F32;
    }
    return BELL_OK;
}

static const struct uop *
keep(const struct dec *d, const struct uop *u)
{
    if (!d->g->failed && map_put(d->kept, u->id, 1) < 0)
        d->g->failed = true;
    return u;
}

static const struct uop *
invert(const struct dec *d, const struct uop *u)
{
    if (!uop_has_normal_inverse(u)) /* the instruction takes others for 0 */
        return NULL;
    u = dec_op1(d, UOP_RECIP, u);
    return u->op == UOP_RECIP ? keep(d, u) : u;
}

const struct uop *
dec_approximate(const struct dec *d, const struct uop *u)
{
    const struct uop *r;

    if (!d->target->rounds_approx || d->target->is_approx ||
        u->dtype != UOP_F32)
        return NULL;
    switch (u->op) {
    case UOP_EXP2:
        return keep(d, u);
    case UOP_SIN:
    case UOP_COS:
        return dec_sin_rounded(d, (enum uop_op)u->op, u->src[0]);
    case UOP_RECIP:
        return invert(d, u->src[0]);
    case UOP_FDIV:
        r = invert(d, u->src[1]);
        return r ? dec_mul(d, u->src[0], r) : NULL;
    default:
        return NULL;
    }
}
