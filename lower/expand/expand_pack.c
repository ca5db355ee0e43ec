/* Packed operands.
 *
 * An operand of a product, whatever it is computed from, is computed before
 * the loops that would do so again and again, and kept in LOCAL memory in the
 * order in which the tile reads it:
 *
 *     loops over the panel and the steps of the sum
 *         the values of one step of a tile are stored side by side
 *     loops over other tiles
 *         loops over the steps: operands come from LOCAL memory
 *
 * There is one thread for it, which needs no BARRIER.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const union uop_arg no_arg = {.bits = 0};

/* Strides of the array: tiles, then steps, then what a step reads. */
static int64_t
lay_out(const struct expand *e, struct expand_pack *p)
{
    const struct kernel *k = e->k;
    uint64_t vector = p->ranges & e->vectors;
    uint64_t copies = p->ranges & e->copied & ~k->reduce_ranges;
    uint64_t steps = p->ranges & k->reduce_ranges;
    uint64_t order[4] = {vector, copies, steps,
                         p->ranges & ~(vector | copies | steps)};
    int64_t stride = 1;
    uint32_t i;

    for (i = 0; i < 4; i++) {
        while (order[i]) {
            uint32_t r = 63u - (uint32_t)__builtin_clzll(order[i]);
            order[i] &= ~((uint64_t)1 << r);
            p->stride[r] = stride;
            stride *= k->sizes[r];
        }
    }
    return stride;
}

static void
find_pack(struct expand *e, const struct uop *u)
{
    const struct kernel *k = e->k;
    struct expand_inst *inst = &e->inst[kernel_pos(k, u)];
    uint64_t ranges = kernel_deps(k, u) & k->packed;
    struct expand_pack *p;

    if (!(ranges & k->reduce_ranges) || (inst->vec < 0 && !k->packs_rows) ||
        e->n_packs == EXPAND_MAX_PACKS)
        return;
    p = &e->packs[e->n_packs++];
    inst->pack = e->n_packs;
    p->value = u;
    p->ranges = ranges;
    p->memory = expand_local(e, u->dtype, (uint64_t)lay_out(e, p));
}

void
expand_find_packs(struct expand *e)
{
    const struct kernel *k = e->k;
    uint32_t i, j;

    if (!k->packed || k->tiled || k->by_rows)
        return;
    for (i = 0; i < k->n_groups; i++) {
        const struct uop *mul = k->groups[i].members[0]->src[0];
        for (j = 0; mul->op == UOP_MUL && j < 2; j++)
            find_pack(e, mul->src[j]);
    }
}

/* Place in the array, at digit[] and base[]. */
static const struct uop *
packed_index(struct expand *e, const struct expand_pack *p)
{
    const struct uop *index = expand_num(e, 0);
    uint64_t set;
    int64_t offset = 0;

    for (set = p->ranges & ~e->vectors; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (e->copied >> r & 1)
            offset += p->stride[r] * (int64_t)e->digit[r];
        else
            index =
                uop_alu2(e->g, UOP_ADD, index,
                         expand_op_num(e, UOP_MUL, e->base[r], p->stride[r]));
    }
    return expand_op_num(e, UOP_ADD, index, offset);
}

const struct uop *
expand_packed_value(struct expand *e, const struct expand_inst *inst,
                    uint16_t lanes)
{
    const struct expand_pack *p = &e->packs[inst->pack - 1];
    const struct uop *src[2] = {p->memory, packed_index(e, p)};

    return uop_make(e->g, UOP_LOAD, p->value->dtype, lanes, no_arg, src, 2);
}

const struct uop *
expand_filling_loop(struct expand *e, uint32_t number, int64_t size)
{
    union uop_arg arg = {
        .i = uop_range_arg(KERNEL_MAX_RANGES + number, UOP_AXIS_LOOP)};
    const struct uop *extent = expand_num(e, size);

    return uop_new(e->g, UOP_RANGE, UOP_I64, 1, arg, &extent, 1);
}

uint32_t
expand_close_filling(struct expand *e, uint64_t loops, bool sum_inside,
                     const struct uop **src, uint32_t n)
{
    uint64_t sum = loops & e->k->reduce_ranges, others = loops & ~sum;
    uint64_t order[2] = {sum_inside ? sum : others, sum_inside ? others : sum};
    uint32_t i;

    for (i = 0; i < 2; i++) {
        while (order[i]) {
            uint32_t r = 63u - (uint32_t)__builtin_clzll(order[i]);
            order[i] &= ~((uint64_t)1 << r);
            src[0] = expand_loop(e, r);
            src[1] = uop_new(e->g, UOP_END, UOP_VOID, 1, no_arg, src, n + 1);
            n = 1;
        }
    }
    return n;
}

/* The least step in memory of a loop, in elements; INT64_MAX: unknown. */
static int64_t
least_step(const struct kernel *k, const struct uop *load, uint64_t loops)
{
    int64_t least = INT64_MAX, step;

    for (; loops; loops &= loops - 1) {
        step = kernel_coef(k, load->src[1], (uint32_t)__builtin_ctzll(loops));
        if (step != KERNEL_NONAFFINE && step && llabs(step) < least)
            least = llabs(step);
    }
    return least;
}

/* Does what is packed lie along the sum? */
static bool
lies_along_sum(const struct kernel *k, const struct uop *u, uint64_t loops)
{
    while (u->op == UOP_CAST)
        u = u->src[0];
    return u->op == UOP_LOAD && least_step(k, u, loops & k->reduce_ranges) <
                                    least_step(k, u, loops & ~k->reduce_ranges);
}

static bell_status
fill_pack(struct expand *e, uint32_t number)
{
    struct kernel *k = e->k;
    struct expand_pack *p = &e->packs[number];
    struct expand_inst *before, *inst;
    const struct uop *base[KERNEL_MAX_RANGES], **src, *fill;
    struct expand_window window = e->window;
    uint64_t loops = p->ranges & e->loops, set;
    uint32_t copy, n;

    assert(number < e->n_packs);
    memcpy(base, e->base, sizeof(base));
    e->window.on &= e->window.pack == number + 1;
    for (set = loops; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        fill =
            expand_filling_loop(e, number * KERNEL_MAX_RANGES + r, k->sizes[r]);
        if (e->base[r]->op == UOP_RANGE) /* ends as the loop */
            fill = uop_new(e->g, UOP_RANGE, UOP_I64, 1, fill->arg,
                           &e->base[r]->src[0], 1);
        e->base[r] = fill; /* a window's is a part of all */
        if (e->window.on && e->window.of.range == r)
            expand_begin_window(e, e->base[r]->arg);
    }
    BELL_TRY(expand_apart(e, p->value, &before));
    inst = &e->inst[kernel_pos(k, p->value)];
    src = arena_alloc(&k->mem, (inst->n_copies + 1) * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (copy = 0; copy < inst->n_copies; copy++) {
        const struct uop *store[3] = {p->memory};
        expand_set_digits(e, inst->copied, copy);
        store[1] = packed_index(e, p);
        store[2] = expand_value(e, p->value, inst->lanes);
        src[1 + copy] = uop_new(e->g, UOP_STORE, UOP_VOID, 1, no_arg, store, 3);
    }
    n = expand_close_filling(e, loops, lies_along_sum(k, p->value, loops), src,
                             inst->n_copies);
    src[0] = p->memory;
    e->inst = before;
    memcpy(e->base, base, sizeof(base));
    e->window = window;
    p->memory =
        uop_new(e->g, UOP_AFTER, p->memory->dtype, 1, no_arg, src, n + 1);
    return uop_graph_status(e->g);
}

bell_status
expand_fill_packs(struct expand *e)
{
    uint32_t i;

    for (i = 0; i < e->n_packs; i++)
        BELL_TRY(fill_pack(e, i));
    return BELL_OK;
}
