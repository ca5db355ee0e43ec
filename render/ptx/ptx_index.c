/* What is known of index arithmetic: bounds, which decide whether 32 bits do,
 * and divisors, which decide how wide an access may be.
 *
 * A result that might leave the 64 bits has no bounds. Facts are of all lanes
 * at once, so lane operations join or pass them on.
 */
#include "render/ptx/ptx_internal.h"

#include "base/bits.h"

static const struct ptx_fact no_fact = {INT64_MIN, INT64_MAX, 1};

struct ptx_fact
ptx_fact_const(int64_t value)
{
    return (struct ptx_fact){value, value, lowest_bit((uint64_t)value)};
}

bool
ptx_fact_fits(struct ptx_fact f)
{
    return f.min >= INT32_MIN && f.max <= INT32_MAX;
}

static struct ptx_fact
from_products(struct ptx_fact a, struct ptx_fact b)
{
    int64_t x[2] = {a.min, a.max}, y[2] = {b.min, b.max}, v;
    struct ptx_fact r = {INT64_MAX, INT64_MIN, lowest_bit(a.align * b.align)};
    int i;

    if (a.align && b.align && r.align == 0)
        r.align = (uint64_t)1 << 32;
    for (i = 0; i < 4; i++) {
        if (__builtin_mul_overflow(x[i & 1], y[i >> 1], &v))
            return (struct ptx_fact){INT64_MIN, INT64_MAX, r.align};
        r.min = v < r.min ? v : r.min;
        r.max = v > r.max ? v : r.max;
    }
    return r;
}

static struct ptx_fact
from_sum(struct ptx_fact a, struct ptx_fact b, bool minus)
{
    struct ptx_fact r = no_fact;
    bool over;

    if (minus)
        over = __builtin_sub_overflow(a.min, b.max, &r.min) ||
               __builtin_sub_overflow(a.max, b.min, &r.max);
    else
        over = __builtin_add_overflow(a.min, b.min, &r.min) ||
               __builtin_add_overflow(a.max, b.max, &r.max);
    if (over)
        r = no_fact;
    r.align = least_align(a.align, b.align);
    return r;
}

/* Of x / y, x >> y and x % y for x and y not negative. */
static struct ptx_fact
from_quotient(unsigned op, struct ptx_fact a, struct ptx_fact b)
{
    struct ptx_fact r = {0, a.max, 1};

    if (a.min < 0 || b.min < 0)
        return no_fact;
    if (op == UOP_IMOD) {
        if (b.max > 0 && b.max - 1 < r.max)
            r.max = b.max - 1;
        r.align = least_align(a.align, b.align);
        r.align = r.align ? r.align : 1;
    } else if (op == UOP_SHR) {
        r.max = b.min > 62 ? 0 : a.max >> b.min;
    } else if (b.min > 0) {
        r.max = a.max / b.min;
    }
    return r;
}

static struct ptx_fact
joined(struct ptx_fact a, struct ptx_fact b)
{
    return (struct ptx_fact){a.min < b.min ? a.min : b.min,
                             a.max > b.max ? a.max : b.max,
                             least_align(a.align, b.align)};
}

static struct ptx_fact
from_extreme(unsigned op, struct ptx_fact a, struct ptx_fact b)
{
    struct ptx_fact r = joined(a, b);

    if (op == UOP_MAX)
        r.min = a.min > b.min ? a.min : b.min;
    else
        r.max = a.max < b.max ? a.max : b.max;
    return r;
}

/* Bitwise ops on what is not negative. */
static struct ptx_fact
from_bits(unsigned op, struct ptx_fact a, struct ptx_fact b)
{
    struct ptx_fact r = no_fact;
    uint64_t high;

    r.align = least_align(a.align, b.align);
    if (a.min < 0 || b.min < 0)
        return r;
    r.min = 0;
    if (op == UOP_AND) {
        r.max = a.max < b.max ? a.max : b.max;
        return r;
    }
    high = (uint64_t)a.max | (uint64_t)b.max;
    r.max = high ? (int64_t)(UINT64_MAX >> __builtin_clzll(high)) : 0;
    return r;
}

static struct ptx_fact
from_shift(struct ptx_fact a, struct ptx_fact b)
{
    if (b.min != b.max || b.min < 0 || b.min > 31)
        return no_fact;
    return from_products(a, ptx_fact_const((int64_t)1 << b.min));
}

struct ptx_fact
ptx_fact_of(const struct uop *u, const struct ptx_fact *src)
{
    struct uop_bounds b;
    uint32_t i;
    struct ptx_fact r;

    switch (u->op) {
    case UOP_SPECIAL:
    case UOP_RANGE:
        r = (struct ptx_fact){0, src[0].max < 1 ? 0 : src[0].max - 1, 1};
        return r.max == 0 ? ptx_fact_const(0) : r;
    case UOP_RAMP:
        return (struct ptx_fact){0, u->lanes - 1, 1};
    case UOP_BROADCAST:
    case UOP_LANE:
        return src[0];
    case UOP_LANES:
        r = src[0];
        for (i = 1; i < u->n_src; i++)
            r = joined(r, src[i]);
        return r;
    case UOP_CAST:
        if (uop_is_float(u->src[0]) || u->src[0]->dtype == UOP_U64)
            return no_fact;
        if (u->src[0]->dtype == UOP_I64)
            return src[0];
        b = uop_dtype_bounds(u->src[0]->dtype);
        return (struct ptx_fact){b.min, b.max, 1};
    case UOP_ADD:
        return from_sum(src[0], src[1], false);
    case UOP_SUB:
        return from_sum(src[0], src[1], true);
    case UOP_NEG:
        return from_sum(ptx_fact_const(0), src[0], true);
    case UOP_MUL:
        return from_products(src[0], src[1]);
    case UOP_MULACC:
        return from_sum(from_products(src[0], src[1]), src[2], false);
    case UOP_SHL:
        return from_shift(src[0], src[1]);
    case UOP_SHR:
    case UOP_IDIV:
    case UOP_IMOD:
        return from_quotient(u->op, src[0], src[1]);
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR:
        return from_bits(u->op, src[0], src[1]);
    case UOP_MAX:
    case UOP_MIN:
        return from_extreme(u->op, src[0], src[1]);
    case UOP_WHERE:
        return joined(src[1], src[2]);
    default:
        return no_fact;
    }
}
