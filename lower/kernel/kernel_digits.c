/* Sums of products with small integers that share a scale in blocks, as
 * weights of a file do: what of such a sum is what.
 */
#include "lower/kernel/kernel.h"

#include <string.h>

#define MAX_FACTORS 8
#define MAX_SUM     256 /* of the greatest integers of a word of each part */

/* Factors of the product u; 0: too many. */
static uint32_t
list_factors(const struct uop *u, const struct uop **f)
{
    uint32_t n = 1, i = 0;

    f[0] = u;
    while (i < n) {
        if (f[i]->op != UOP_MUL) {
            i++;
        } else if (n == MAX_FACTORS) {
            return 0;
        } else {
            f[n++] = f[i]->src[1];
            f[i] = f[i]->src[0];
        }
    }
    return n;
}

/* Without a gate, from a PARAM. */
static bool
is_plain_load(const struct uop *u)
{
    return u->op == UOP_LOAD && u->n_src == 2 && u->src[0]->op == UOP_PARAM;
}

/* Which ranges of the sum are what, by how the bytes lie. */
static bool
find_digit_ranges(const struct kernel *k, uint64_t bound,
                  struct kernel_digits *d)
{
    d->lane = d->block = d->part = -1;
    for (; bound; bound &= bound - 1) {
        int32_t r = __builtin_ctzll(bound);
        int64_t step = kernel_coef(k, d->bytes->src[1], (uint32_t)r);
        int32_t *is = step == 1                     ? &d->lane
                      : step == KERNEL_DIGITS_LANES ? &d->block
                      : step == 0                   ? &d->part
                                                    : NULL;
        if (!is || *is >= 0)
            return false;
        *is = r;
    }
    return d->lane >= 0 && d->block >= 0 &&
           k->sizes[d->lane] == KERNEL_DIGITS_LANES &&
           k->sizes[d->block] >= KERNEL_DIGITS_BLOCKS &&
           k->sizes[d->block] % KERNEL_DIGITS_BLOCKS == 0;
}

/* Does it take bits of a byte src0, which are not negative? */
static bool
is_of_bits(const struct kernel *k, const struct uop *u)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[u->dtype];
    struct uop_bounds by;

    switch ((int)u->op) {
    case UOP_CAST:
        return info->is_int && info->size_bytes > 1;
    case UOP_AND:
        return u->src[1]->op == UOP_CONST && u->src[1]->arg.i >= 0;
    case UOP_SHR:
        by = uop_bounds(k->g, u->src[1]);
        return by.min >= 0 && by.max < 8;
    default:
        return false;
    }
}

/* (bits of a byte, by the part) + bias, as F32. */
static bool
find_small(const struct kernel *k, uint64_t bound, const struct uop *u,
           struct kernel_digits *d)
{
    struct uop_bounds b;
    int64_t most, parts;
    uint32_t i;

    if (u->op != UOP_CAST || !uop_dtype_infos[u->src[0]->dtype].is_int)
        return false;
    u = u->src[0];
    b = uop_bounds(k->g, u);
    d->bias = 0;
    if (u->op == UOP_ADD && u->src[1]->op == UOP_CONST) {
        d->bias = u->src[1]->arg.i;
        u = u->src[0];
    }
    d->n_chain = 0;
    for (; is_of_bits(k, u) && d->n_chain < KERNEL_DIGITS_CHAIN; u = u->src[0])
        d->chain[d->n_chain++] = u;
    d->bytes = u;
    if (!is_plain_load(u) || u->dtype != UOP_U8 ||
        !find_digit_ranges(k, bound, d))
        return false;
    parts = d->part < 0 ? 1 : k->sizes[d->part];
    for (i = 0; i < d->n_chain; i++) {
        uint64_t part = d->part < 0 ? 0 : (uint64_t)1 << d->part;
        if (d->chain[i]->op == UOP_SHR &&
            kernel_deps(k, d->chain[i]->src[1]) & ~part)
            return false;
    }
    most = -b.min > b.max ? -b.min : b.max;
    return b.min >= -MAX_SUM && b.max <= MAX_SUM && parts >= 1 && parts <= 2 &&
           most * parts * 4 < MAX_SUM;
}

/* One for each block of a row, as they lie. */
static bool
is_scale(const struct kernel *k, const struct uop *u,
         const struct kernel_digits *d)
{
    if (u->op == UOP_CAST)
        u = u->src[0];
    return is_plain_load(u) && (u->dtype == UOP_F16 || u->dtype == UOP_F32) &&
           kernel_coef(k, u->src[1], (uint32_t)d->block) == 1 &&
           kernel_coef(k, u->src[1], (uint32_t)d->lane) == 0 &&
           (d->part < 0 || kernel_coef(k, u->src[1], (uint32_t)d->part) == 0);
}

bool
kernel_find_digits(const struct kernel *k, const struct kernel_group *group,
                   const struct uop *reduce, struct kernel_digits *d)
{
    const struct uop *f[MAX_FACTORS], *small = NULL;
    uint32_t n = list_factors(reduce->src[0], f), i;

    memset(d, 0, sizeof(*d));
    if (reduce->arg.i != UOP_ADD || reduce->dtype != UOP_F32)
        return false;
    for (i = 0; i < n && !small; i++) {
        if (kernel_deps(k, f[i]) & ~k->reduce_ranges &&
            find_small(k, group->bound, f[i], d))
            small = f[i];
    }
    for (i = 0; small && i < n; i++) {
        if (f[i] == small)
            continue;
        if (!(kernel_deps(k, f[i]) & ~k->reduce_ranges)) {
            if (d->n_factors == KERNEL_DIGITS_FACTORS ||
                k->levels[kernel_pos(k, f[i])])
                return false;
            d->factors[d->n_factors++] = f[i];
        } else if (d->scale || !is_scale(k, f[i], d)) {
            return false;
        } else {
            d->scale = f[i];
        }
    }
    return d->scale && d->n_factors > 0;
}
