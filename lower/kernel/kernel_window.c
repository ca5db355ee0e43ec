/* Windows: parts of a sum's range outside of which an operand is 0.
 *
 * A convolution's input with zeros around it, seen from a row of outputs, has
 * none of a filter's rows that lie beyond the border. Conditions are sums of
 * multiples of the two ranges:  a * range + b * at + first > 0.
 */
#include "lower/kernel/kernel.h"

#include "base/bits.h"

#define MIN_OUTSIDE 0.03 /* that is worth it. guess */
#define MAX_DEPTH   16
#define MAX_ALL     16   /* conditions of a load */
#define MAX_SIZE    4096 /* of what is counted */

/* The conditions under which the operand is a LOAD, and 0 otherwise; how many,
 * 0: it is something else. */
static uint32_t
find_conditions(const struct uop *u, const struct uop **list)
{
    const struct uop *zero, *stack[MAX_ALL];
    uint32_t n = 0, n_stack = 1;

    while (u->op == UOP_CAST)
        u = u->src[0];
    if (u->op == UOP_WHERE) {
        stack[0] = u->src[0];
        zero = u->src[2];
    } else if (u->op == UOP_LOAD && u->n_src > 3) {
        stack[0] = u->src[3];
        zero = u->src[2];
    } else {
        return 0;
    }
    if (zero->op != UOP_CONST || zero->arg.bits)
        return 0;
    while (n_stack) {
        u = stack[--n_stack];
        if (u->op == UOP_AND && n_stack + 2 <= MAX_ALL) {
            stack[n_stack++] = u->src[0];
            stack[n_stack++] = u->src[1];
        } else if (u->op == UOP_CMPLT && n < MAX_ALL) {
            list[n++] = u;
        }
    }
    return n;
}

/* What an index is where all ranges are 0. */
static bool
value_at_zero(const struct uop *u, uint32_t depth, int64_t *out)
{
    int64_t a, b;

    *out = 0;
    if (u->op == UOP_RANGE)
        return true;
    if (u->op == UOP_CONST) {
        *out = u->arg.i;
        return true;
    }
    if (depth == MAX_DEPTH ||
        (u->op != UOP_ADD && u->op != UOP_SUB && u->op != UOP_MUL) ||
        !value_at_zero(u->src[0], depth + 1, &a) ||
        !value_at_zero(u->src[1], depth + 1, &b))
        return false;
    return u->op == UOP_ADD   ? !__builtin_add_overflow(a, b, out)
           : u->op == UOP_SUB ? !__builtin_sub_overflow(a, b, out)
                              : !__builtin_mul_overflow(a, b, out);
}

/* Do sums of some multiples, by numbers below MAX_SIZE, not overflow? */
static bool
is_small(int64_t x)
{
    return x > -((int64_t)1 << 40) && x < (int64_t)1 << 40;
}

/* The comparison as a condition of a window of these outputs; false: it is
 * none. */
static bool
read_condition(const struct kernel *k, const struct uop *less, uint64_t outputs,
               uint32_t *out_range, uint32_t *out_at,
               struct kernel_condition *out)
{
    const struct uop *a = less->src[0], *b = less->src[1];
    uint64_t deps = kernel_deps(k, less), sum = deps & k->reduce_ranges;
    int64_t coef[2][2], first[2];
    uint32_t i;

    deps &= ~sum;
    if (a->dtype != UOP_I64 || !sum || sum & (sum - 1) || !deps ||
        deps & (deps - 1) || deps & ~outputs ||
        !value_at_zero(a, 0, &first[0]) || !value_at_zero(b, 0, &first[1]))
        return false;
    *out_range = (uint32_t)__builtin_ctzll(sum);
    *out_at = (uint32_t)__builtin_ctzll(deps);
    for (i = 0; i < 2; i++) {
        coef[i][0] = kernel_coef(k, less->src[i], *out_range);
        coef[i][1] = kernel_coef(k, less->src[i], *out_at);
        if (coef[i][0] == KERNEL_NONAFFINE || coef[i][1] == KERNEL_NONAFFINE ||
            !is_small(coef[i][0]) || !is_small(coef[i][1]) ||
            !is_small(first[i]))
            return false;
    }
    out->node = less;
    out->range = coef[1][0] - coef[0][0];
    out->at = coef[1][1] - coef[0][1];
    out->first = first[1] - first[0];
    return out->range != 0;
}

/* The part of all values of both ranges that lies outside. */
static double
part_outside(const struct kernel *k, const struct kernel_window *w)
{
    int64_t n_at = k->sizes[w->at], n = k->sizes[w->range], i, j, count = 0;
    uint32_t c;

    for (i = 0; i < n_at; i++) {
        for (j = 0; j < n; j++) {
            for (c = 0; c < w->n; c++) {
                const struct kernel_condition *x = &w->conditions[c];
                if (x->range * j + x->at * i + x->first <= 0) {
                    count++;
                    break;
                }
            }
        }
    }
    return (double)count / ((double)n_at * (double)n);
}

bool
kernel_find_window(const struct kernel *k, const struct uop *u,
                   uint64_t outputs, struct kernel_window *out)
{
    const struct uop *list[MAX_ALL];
    struct kernel_condition condition;
    uint32_t n = find_conditions(u, list), i, j, range, at;

    out->outside = 0;
    for (i = 0; i < n; i++) {
        struct kernel_window w = {.n = 0};
        if (!read_condition(k, list[i], outputs, &w.range, &w.at, &condition) ||
            k->sizes[w.range] <= 0 || k->sizes[w.at] <= 0 ||
            k->sizes[w.range] > MAX_SIZE / k->sizes[w.at])
            continue;
        for (j = 0; j < n && w.n < ARRAY_LEN(w.conditions); j++) {
            if (read_condition(k, list[j], outputs, &range, &at, &condition) &&
                range == w.range && at == w.at)
                w.conditions[w.n++] = condition;
        }
        w.outside = part_outside(k, &w);
        if (w.outside > out->outside)
            *out = w;
    }
    return out->outside >= MIN_OUTSIDE;
}
