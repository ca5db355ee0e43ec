/* Between what a float lies, from the ops that made it. */
#include <math.h>

#include "uops/uop.h"

#define MAX_DEPTH 6 /* of ops that are looked at */

/* The inverses of F32s between these are normal numbers, as they are, also
 * where what made them was rounded: F32's are from 2^-126 to 2^128. */
#define LEAST_DIVISOR 0x1p-125
#define MOST_DIVISOR  0x1p125

static const struct uop_float_range anything = {-INFINITY, INFINITY};

static struct uop_float_range range_of(const struct uop *u, unsigned depth);

static struct uop_float_range
product(struct uop_float_range a, struct uop_float_range b)
{
    const double corners[4] = {a.min * b.min, a.min * b.max, a.max * b.min,
                               a.max * b.max};
    struct uop_float_range r = {INFINITY, -INFINITY};
    unsigned i;

    for (i = 0; i < 4; i++) {
        if (isnan(corners[i])) /* 0 times an infinity */
            return anything;
        r.min = fmin(r.min, corners[i]);
        r.max = fmax(r.max, corners[i]);
    }
    return r;
}

static struct uop_float_range
sum(struct uop_float_range a, struct uop_float_range b)
{
    struct uop_float_range r = {a.min + b.min, a.max + b.max};

    return isnan(r.min) || isnan(r.max) ? anything : r;
}

static struct uop_float_range
either(struct uop_float_range a, struct uop_float_range b)
{
    return (struct uop_float_range){fmin(a.min, b.min), fmax(a.max, b.max)};
}

static struct uop_float_range
negative(struct uop_float_range a)
{
    return (struct uop_float_range){-a.max, -a.min};
}

/* Is it max(x, -x)? */
static bool
is_absolute(const struct uop *u)
{
    const struct uop *a = u->src[0], *b = u->src[1];

    return (a->op == UOP_NEG && a->src[0] == b) ||
           (b->op == UOP_NEG && b->src[0] == a);
}

static struct uop_float_range
range_of_two(const struct uop *u, unsigned depth)
{
    struct uop_float_range a = range_of(u->src[0], depth - 1),
                           b = range_of(u->src[1], depth - 1);

    switch (u->op) {
    case UOP_ADD:
        return sum(a, b);
    case UOP_SUB:
        return sum(a, negative(b));
    case UOP_MUL:
        return product(a, b);
    case UOP_MIN:
        return (struct uop_float_range){fmin(a.min, b.min), fmin(a.max, b.max)};
    default: /* MAX */
        if (is_absolute(u))
            return (struct uop_float_range){0, fmax(-a.min, a.max)};
        return (struct uop_float_range){fmax(a.min, b.min), fmax(a.max, b.max)};
    }
}

static struct uop_float_range
range_of(const struct uop *u, unsigned depth)
{
    struct uop_float_range a;

    if (depth == 0)
        return anything;
    switch (u->op) {
    case UOP_CONST:
        return isnan(u->arg.f) ? anything
                               : (struct uop_float_range){u->arg.f, u->arg.f};
    case UOP_BROADCAST:
        return range_of(u->src[0], depth);
    case UOP_NEG:
        return negative(range_of(u->src[0], depth - 1));
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_MIN:
    case UOP_MAX:
        return range_of_two(u, depth);
    case UOP_MULACC:
        a = product(range_of(u->src[0], depth - 1),
                    range_of(u->src[1], depth - 1));
        return sum(a, range_of(u->src[2], depth - 1));
    case UOP_WHERE:
        return either(range_of(u->src[1], depth - 1),
                      range_of(u->src[2], depth - 1));
    case UOP_EXP2:
        a = range_of(u->src[0], depth - 1);
        return (struct uop_float_range){exp2(a.min), exp2(a.max)};
    case UOP_BITCAST:
        return uop_abs_bits(u) ? (struct uop_float_range){0, INFINITY}
                               : anything;
    default:
        return anything;
    }
}

struct uop_float_range
uop_float_range(const struct uop *u)
{
    return uop_is_float(u) ? range_of(u, MAX_DEPTH) : anything;
}

bool
uop_has_normal_inverse(const struct uop *u)
{
    struct uop_float_range range = uop_float_range(u);

    return range.min >= LEAST_DIVISOR && range.max <= MOST_DIVISOR;
}

const struct uop *
uop_abs_bits(const struct uop *u)
{
    const struct uop *bits, *mask;
    int64_t all = u->dtype == UOP_F64 ? INT64_MAX : INT32_MAX;

    if (u->op != UOP_BITCAST || (u->dtype != UOP_F32 && u->dtype != UOP_F64) ||
        u->src[0]->op != UOP_AND)
        return NULL;
    bits = u->src[0];
    mask = bits->src[1];
    if (mask->op == UOP_BROADCAST)
        mask = mask->src[0];
    return mask->op == UOP_CONST && mask->arg.i == all ? bits->src[0] : NULL;
}
