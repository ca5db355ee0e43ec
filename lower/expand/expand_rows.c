/* Sums over the rows of a matrix, as kernel.by_rows says: in LOCAL memory.
 *
 *     loop over rows, some at a time
 *         loop over columns
 *             sums of a tile are loaded, 0 before the first rows, and stored
 *     sums are loaded for what is made of them
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>

static const union uop_arg no_arg = {.bits = 0};

/* Place of a copy's sum while the loop over columns stands at `column`. */
static const struct uop *
sum_place_of(struct expand *e, const struct expand_inst *inst,
             const struct uop *column, uint32_t copy)
{
    int64_t lanes = inst->lanes;
    const struct uop *tile =
        expand_op_num(e, UOP_MUL, column, (int64_t)inst->n_copies * lanes);

    return expand_op_num(e, UOP_ADD, tile, copy * lanes);
}

/* The STORE of a copy's sum with another row, or some, added. */
static const struct uop *
add_rows(struct expand *e, const struct kernel_group *group,
         const struct expand_inst *inst, const struct uop *memory,
         uint32_t column, uint32_t copy)
{
    const struct uop *reduce = group->members[0], *src[4] = {memory};
    uint64_t steps = group->bound & e->copied;
    uint32_t row = (uint32_t)__builtin_ctzll(group->bound & e->loops), i;
    enum uop_op op = (enum uop_op)reduce->arg.i;

    src[1] = sum_place_of(e, inst, e->base[column], copy);
    src[2] =
        expand_broadcast(e, uop_identity(e->g, op, reduce->dtype), inst->lanes);
    src[3] = uop_alu2(e->g, UOP_CMPLT, expand_num(e, 0), e->base[row]);
    src[2] =
        uop_make(e->g, UOP_LOAD, reduce->dtype, inst->lanes, no_arg, src, 4);
    for (i = 0; i < expand_count(e, steps); i++) {
        expand_set_digits(e, inst->copied, copy);
        expand_set_digits(e, steps, i);
        src[2] = expand_accumulate(
            e, op, src[2], expand_value(e, reduce->src[0], inst->lanes));
    }
    return uop_new(e->g, UOP_STORE, UOP_VOID, 1, no_arg, src, 3);
}

bell_status
expand_rows(struct expand *e, const struct kernel_group *group)
{
    struct kernel *k = e->k;
    const struct uop *reduce = group->members[0], **src, *memory, *base, *fill;
    struct expand_inst *inst = &e->inst[kernel_pos(k, reduce)], *before;
    uint32_t column = (uint32_t)__builtin_ctzll(k->packed), copy, n;
    uint64_t rows = group->bound & e->loops;

    assert(group->n_members == 1 && rows && !(rows & (rows - 1)));
    assert(inst->vec >= 0 && e->loops >> column & 1);
    src = arena_alloc(&k->mem, (inst->n_copies + 1) * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    memory =
        expand_local(e, reduce->dtype,
                     (uint64_t)k->sizes[column] * inst->n_copies * inst->lanes);
    base = e->base[column];
    fill = expand_filling_loop(e, column, k->sizes[column]);
    e->base[column] =
        uop_new(e->g, UOP_RANGE, UOP_I64, 1, fill->arg, &base->src[0], 1);
    BELL_TRY(expand_apart(e, reduce->src[0], &before));
    for (copy = 0; copy < inst->n_copies; copy++)
        src[1 + copy] = add_rows(e, group, inst, memory, column, copy);
    n = expand_close_filling(e, rows | (uint64_t)1 << column, false, src,
                             inst->n_copies);
    e->inst = before;
    e->base[column] = base;
    src[0] = memory;
    src[0] = uop_new(e->g, UOP_AFTER, reduce->dtype, 1, no_arg, src, n + 1);
    for (copy = 0; copy < inst->n_copies; copy++) {
        src[1] = sum_place_of(e, inst, base, copy);
        inst->vector[copy] = uop_make(e->g, UOP_LOAD, reduce->dtype,
                                      inst->lanes, no_arg, src, 2);
    }
    return uop_graph_status(e->g);
}
