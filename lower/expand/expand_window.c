/* Sums that leave out what is 0 times something (kernel_find_window).
 *
 * The loop over the range goes through the window alone, while the columns are
 * packed and while they are multiplied. 0 times a number is 0, but 0 times what
 * is infinite or no number is none: the row operand's values outside, times 0,
 * are added up once for all columns, and the sum is added to theirs.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

static const union uop_arg no_arg = {.bits = 0};

/* The first value of the range that is in the window, and the first behind it,
 * at the present value of the output's range. */
static void
find_ends(struct expand *e, const struct kernel_window *w,
          const struct uop **out_begin, const struct uop **out_end)
{
    const struct uop *begin = expand_num(e, 0), *end, *x;
    int64_t size = e->k->sizes[w->range];
    uint32_t i;

    end = expand_num(e, size);
    for (i = 0; i < w->n; i++) {
        const struct kernel_condition *c = &w->conditions[i];
        x = expand_op_num(e, UOP_MUL, e->base[w->at],
                          c->range > 0 ? -c->at : c->at);
        if (c->range > 0) { /* range > (-at * b - first) / a */
            x = expand_op_num(e, UOP_ADD, x, -c->first);
            x = expand_op_num(e, UOP_FLOORDIV, x, c->range);
            begin =
                uop_alu2(e->g, UOP_MAX, begin, expand_op_num(e, UOP_ADD, x, 1));
        } else { /* range < (at * b + first) / -a */
            x = expand_op_num(e, UOP_ADD, x, c->first - c->range - 1);
            x = expand_op_num(e, UOP_FLOORDIV, x, -c->range);
            end = uop_alu2(e->g, UOP_MIN, end, x);
        }
    }
    *out_begin = expand_op_num(e, UOP_MIN, begin, size);
    *out_end = uop_alu2(e->g, UOP_MAX, end, *out_begin);
}

/* The factors of the one product that the kernel adds up; which has a pack of
 * columns, or -1. */
static int
packed_factor(const struct expand *e, const struct uop **factors)
{
    const struct kernel *k = e->k;
    const struct uop *mul = k->groups[0].members[0]->src[0];
    int i, found = -1;

    if (k->n_groups != 1 || k->groups[0].n_members != 1 || mul->op != UOP_MUL ||
        k->groups[0].members[0]->arg.i != UOP_ADD)
        return -1;
    for (i = 0; i < 2; i++) {
        const struct expand_inst *inst = &e->inst[kernel_pos(k, mul->src[i])];
        factors[i] = mul->src[i];
        if (inst->pack && inst->vec >= 0)
            found = i;
    }
    return found;
}

void
expand_begin_window(struct expand *e, union uop_arg arg)
{
    struct expand_window *w = &e->window;

    assert(w->on);
    w->loop = uop_new(e->g, UOP_RANGE, UOP_I64, 1, arg, &w->n, 1);
    e->base[w->of.range] = uop_alu2(e->g, UOP_ADD, w->begin, w->loop);
}

void
expand_find_window(struct expand *e)
{
    const struct kernel *k = e->k;
    struct expand_window *w = &e->window;
    const struct uop *factors[2], *end;
    uint64_t outputs = (e->globals | e->loops) & ~k->reduce_ranges & ~k->packed;
    int at;

    if (!e->n_packs || (at = packed_factor(e, factors)) < 0 ||
        !kernel_find_window(k, factors[at], outputs, &w->of) ||
        !(e->loops >> w->of.range & 1) ||
        e->base[w->of.range] != k->ranges[w->of.range]) /* it ends elsewhere */
        return;
    find_ends(e, &w->of, &w->begin, &end);
    w->n = uop_alu2(e->g, UOP_SUB, end, w->begin);
    w->pack = e->inst[kernel_pos(k, factors[at])].pack;
    w->on = true;
    expand_begin_window(e, k->ranges[w->of.range]->arg);
}

/* Loops over all ranges of the sum, of the window's over what is outside. */
static void
set_loops_outside(struct expand *e, uint64_t loops)
{
    struct expand_window *w = &e->window;
    const struct uop *n, *before;

    for (; loops; loops &= loops - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(loops);
        e->base[r] = expand_filling_loop(e, e->n_packs * KERNEL_MAX_RANGES + r,
                                         e->k->sizes[r]);
    }
    n = uop_alu2(e->g, UOP_SUB, expand_num(e, e->k->sizes[w->of.range]), w->n);
    w->loop =
        uop_new(e->g, UOP_RANGE, UOP_I64, 1, e->base[w->of.range]->arg, &n, 1);
    before = uop_alu2(e->g, UOP_CMPLT, w->loop, w->begin);
    e->base[w->of.range] = uop_alu3(e->g, UOP_WHERE, before, w->loop,
                                    uop_alu2(e->g, UOP_ADD, w->loop, w->n));
}

/* The sums of the rows' values outside, times 0: of each copy of theirs, to
 * sums[]; *out_copied: the ranges that these count. */
static bell_status
sum_outside(struct expand *e, const struct kernel_group *group,
            const struct uop *rows, const struct uop ***out_sums,
            uint64_t *out_copied)
{
    const struct uop *reduce = group->members[0], **acc, **sums, **src;
    uint64_t unrolled = group->bound & e->copied,
             loops = group->bound & e->loops,
             window = (uint64_t)1 << e->window.of.range, copied;
    struct expand_inst *before;
    uint32_t n_steps = expand_count(e, unrolled), n, i;

    set_loops_outside(e, loops);
    e->window.of.n = 0; /* they hold inside */
    BELL_TRY(expand_apart(e, rows, &before));
    copied = e->inst[kernel_pos(e->k, rows)].copied & ~group->bound;
    n = expand_count(e, copied);
    acc = arena_alloc(&e->k->mem, (size_t)n * n_steps * sizeof(*acc));
    src = arena_alloc(&e->k->mem, ((size_t)n * n_steps + 1) * sizeof(*src));
    sums = arena_alloc(&e->k->mem, n * sizeof(*sums));
    if (!acc || !src || !sums)
        return expand_no_memory(e);
    for (i = 0; i < n * n_steps; i++) {
        const struct uop *set[2], *at[KERNEL_MAX_RANGES];
        uint32_t n_at = expand_add_loops(e, loops, at, 0);
        expand_set_digits(e, copied, i / n_steps);
        expand_set_digits(e, unrolled, i % n_steps);
        acc[i] = expand_make_acc(e, reduce, 1, group->context);
        set[0] = acc[i];
        set[1] = uop_alu2(e->g, UOP_MUL, expand_value(e, rows, 1),
                          uop_const_int(e->g, reduce->dtype, 0));
        set[1] = expand_accumulate(e, UOP_ADD,
                                   expand_get_acc(e, acc[i], at, n_at), set[1]);
        src[1 + i] = uop_new(e->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, set, 2);
    }
    i = expand_close_filling(e, loops & ~window, true, src, n * n_steps);
    (void)expand_close_filling(e, window, true, src, i);
    for (i = 0; i < n * n_steps; i++)
        acc[i] = expand_get_acc(e, acc[i], &src[1], 1);
    for (i = 0; i < n; i++)
        sums[i] = expand_join_values(e, UOP_ADD, acc + i * n_steps, n_steps);
    e->inst = before;
    *out_sums = sums;
    *out_copied = copied;
    return BELL_OK;
}

bell_status
expand_add_outside(struct expand *e, const struct kernel_group *group)
{
    const struct uop *factors[2], **sums, *base[KERNEL_MAX_RANGES];
    struct expand_window window = e->window;
    struct expand_inst *inst = &e->inst[kernel_pos(e->k, group->members[0])];
    struct expand_inst of_sums = {.copied = 0};
    uint32_t i;
    int at;

    if (!e->window.on || !uop_is_float(group->members[0]))
        return BELL_OK;
    at = packed_factor(e, factors);
    assert(at >= 0 && inst->vec >= 0);
    memcpy(base, e->base, sizeof(base));
    BELL_TRY(sum_outside(e, group, factors[1 - at], &sums, &of_sums.copied));
    memcpy(e->base, base, sizeof(base));
    e->window = window;
    for (i = 0; i < inst->n_copies; i++) {
        const struct uop *sum;
        expand_set_digits(e, inst->copied, i);
        sum = sums[expand_copy(e, &of_sums)];
        inst->vector[i] =
            uop_alu2(e->g, UOP_ADD, inst->vector[i],
                     expand_broadcast(e, sum, inst->vector[i]->lanes));
    }
    return uop_graph_status(e->g);
}
