/* How index arithmetic varies within a warp.
 *
 * Of a thread's number, bits 0 and 1 are t and bits 2 to 4 are g, its place in
 * the fragments of matrix instructions. A value that is
 *     what is the same for the whole warp + per_t * t + per_g * g
 * is known to be so when it is made of such values.
 */
#include "render/ptx/ptx_internal.h"

#include "base/bits.h"

#define ALL_BITS 64

static const struct ptx_form unknown = {.shift = -1};

static bool
is_uniform(const struct ptx_form *f)
{
    return f->is_known && f->per_t == 0 && f->per_g == 0;
}

static struct ptx_form
uniform(uint64_t align)
{
    return (struct ptx_form){.is_known = true, .align = align, .shift = -1};
}

/* `width` bits of the thread's number from bit `shift` on. */
static struct ptx_form
thread_bits(int shift, int width)
{
    struct ptx_form f = uniform(1);

    if (shift >= 5) {
        f.shift = width == ALL_BITS ? (int8_t)shift : -1;
        return f;
    }
    f.align = 0;
    if (shift == 0 && width == 2) {
        f.per_t = 1;
    } else if (shift == 0 && width >= 5) {
        f.per_t = 1;
        f.per_g = 4;
        f.align = width > 5 ? 32 : 0;
    } else if (shift == 2 && width >= 3) {
        f.per_g = 1;
        f.align = width > 3 ? 8 : 0;
    } else {
        f = unknown;
        f.shift = width == ALL_BITS ? (int8_t)shift : -1;
        return f;
    }
    f.shift = width == ALL_BITS ? (int8_t)shift : -1;
    return f;
}

/* The exponent of a constant that is a power of two; -1: it is none. */
static int
exponent_of(const struct uop *u)
{
    uint64_t v = (uint64_t)u->arg.i;

    if (u->op != UOP_CONST || v == 0 || v & (v - 1))
        return -1;
    return 63 - __builtin_clzll(v);
}

/* x / 2^n and x >> n, x % 2^n and x & (2^n - 1), of the thread's bits. */
static struct ptx_form
from_bits(const struct uop *u, const struct ptx_form *x)
{
    const struct uop *by = u->src[1];
    int n;

    if (u->op == UOP_SHR)
        n = by->op == UOP_CONST && by->arg.i >= 0 && by->arg.i < 32
                ? (int)by->arg.i
                : -1;
    else if (u->op == UOP_AND)
        n = by->op == UOP_CONST && by->arg.i < INT32_MAX
                ? exponent_of(&(struct uop){.op = UOP_CONST,
                                            .arg = {.i = by->arg.i + 1}})
                : -1;
    else
        n = exponent_of(by);
    if (n < 0 || n > 31 || x->shift < 0)
        return unknown;
    if (u->op == UOP_SHR || u->op == UOP_IDIV)
        return thread_bits(x->shift + n, ALL_BITS);
    return thread_bits(x->shift, n);
}

static struct ptx_form
scaled(const struct ptx_form *x, int64_t by)
{
    struct ptx_form f = *x;

    if (by > INT32_MAX || by < INT32_MIN || !x->is_known)
        return unknown;
    f.per_t *= by;
    f.per_g *= by;
    f.align *= lowest_bit((uint64_t)by);
    f.shift = -1;
    return f;
}

static struct ptx_form
product(const struct uop *u, const struct ptx_form *x, const struct ptx_form *y)
{
    if (u->src[1]->op == UOP_CONST)
        return scaled(x, u->src[1]->arg.i);
    if (u->src[0]->op == UOP_CONST)
        return scaled(y, u->src[0]->arg.i);
    return is_uniform(x) && is_uniform(y) ? uniform(1) : unknown;
}

static struct ptx_form
sum(const struct ptx_form *x, const struct ptx_form *y, int64_t sign)
{
    struct ptx_form f = {.is_known = x->is_known && y->is_known, .shift = -1};

    f.per_t = x->per_t + sign * y->per_t;
    f.per_g = x->per_g + sign * y->per_g;
    f.align = least_align(x->align, y->align);
    return f.is_known ? f : unknown;
}

/* Of an op all of whose sources are the same for the warp. */
static struct ptx_form
if_uniform(const struct uop *u, const struct ptx_form *src)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (!is_uniform(&src[i]))
            return unknown;
    }
    return uniform(1);
}

static struct ptx_form
of_special(const struct ptx_emit *e, const struct uop *u)
{
    const uint32_t *local = e->prog->local;

    if (u->arg.i < 4)
        return uniform(1);
    if (u->arg.i > 4 || local[1] != 1 || local[2] != 1)
        return local[u->arg.i & 3] == 1 ? uniform(0) : unknown;
    return thread_bits(0, ALL_BITS);
}

struct ptx_form
ptx_form_of(const struct ptx_emit *e, const struct uop *u,
            const struct ptx_form *src)
{
    struct ptx_form f;

    switch (u->op) {
    case UOP_CONST:
        return uop_is_float(u) ? uniform(1)
                               : uniform(lowest_bit((uint64_t)u->arg.i));
    case UOP_VAR:
        return uniform(1);
    case UOP_SPECIAL:
        return of_special(e, u);
    case UOP_RANGE:
        return if_uniform(u, src);
    case UOP_ADD:
        return sum(&src[0], &src[1], 1);
    case UOP_SUB:
        return sum(&src[0], &src[1], -1);
    case UOP_MUL:
        return product(u, &src[0], &src[1]);
    case UOP_MULACC:
        f = product(u, &src[0], &src[1]);
        return sum(&f, &src[2], 1);
    case UOP_SHL:
        if (u->src[1]->op == UOP_CONST && (uint64_t)u->src[1]->arg.i < 31)
            return scaled(&src[0], (int64_t)1 << u->src[1]->arg.i);
        return if_uniform(u, src);
    case UOP_SHR:
    case UOP_AND:
    case UOP_IDIV:
    case UOP_IMOD:
        f = if_uniform(u, src);
        return f.is_known ? f : from_bits(u, &src[0]);
    default:
        return uop_has(u, UOP_FLAG_ALU) ? if_uniform(u, src) : unknown;
    }
}
