/* Products by a CPU's tile registers.
 *
 * The columns' operand is packed first, as in expand_pack.c, in words of 4
 * bytes that hold neighbouring steps of a column. A TILE_MATMUL makes 32 x 32
 * results in LOCAL memory, from where what follows takes them as vectors.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

#define TILE  32 /* rows and columns */
#define HALF  16 /* columns of a register */
#define BYTES 4  /* of a word */

static const union uop_arg no_arg = {.bits = 0};

struct tiles {
    const struct uop *rows, *columns; /* LOADs */
    uint64_t loops;             /* over panels, while the columns are packed */
    uint32_t row, step, column; /* ranges: of a tile's rows, of the sum, of the
                                 * halves of a tile's columns */
    int64_t n_steps, n_words;   /* of a column */
};

static void
find_tiles(const struct expand *e, const struct kernel_group *group,
           struct tiles *t)
{
    const struct kernel *k = e->k;
    const struct uop *mul = group->members[0]->src[0];
    uint64_t set;
    uint32_t i;

    for (i = 0; i < 2; i++) {
        if (kernel_deps(k, mul->src[i]) & e->vectors)
            t->columns = mul->src[i]->src[0];
        else
            t->rows = mul->src[i]->src[0];
    }
    assert(t->columns && t->rows);
    t->step = (uint32_t)__builtin_ctzll(group->bound);
    set = kernel_deps(k, t->columns);
    t->column = (uint32_t)__builtin_ctzll(set & e->copied);
    t->loops = set & k->packed & e->loops & ~group->bound;
    t->row = (uint32_t)__builtin_ctzll(kernel_deps(k, t->rows) & e->copied);
    t->n_steps = k->sizes[t->step];
    t->n_words =
        t->n_steps * uop_dtype_infos[t->rows->dtype].size_bytes / BYTES;
}

/* Number of the panel that base[] stands at. */
static const struct uop *
panel_number(struct expand *e, const struct tiles *t)
{
    const struct uop *n = expand_num(e, 0);
    uint64_t set;

    for (set = t->loops; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        n = uop_alu2(e->g, UOP_ADD,
                     expand_op_num(e, UOP_MUL, n, e->k->sizes[r]), e->base[r]);
    }
    return n;
}

/* The columns' bits at step `first` + i of a word, moved to their place. */
static bell_status
word_part(struct expand *e, const struct tiles *t, const struct uop *first,
          int64_t i, const struct uop **out_halves)
{
    uint32_t bytes = uop_dtype_infos[t->columns->dtype].size_bytes, copy;
    const struct expand_inst *inst;
    struct expand_inst *before;

    e->base[t->step] = expand_op_num(e, UOP_ADD, first, i);
    BELL_TRY(expand_apart(e, t->columns, &before));
    inst = &e->inst[kernel_pos(e->k, t->columns)];
    assert(inst->n_copies == 2 && inst->lanes == HALF);
    for (copy = 0; copy < 2; copy++) {
        const struct uop *u = inst->vector[copy];
        u = uop_make(e->g, UOP_BITCAST, bytes == 2 ? UOP_U16 : UOP_U8, HALF,
                     no_arg, &u, 1);
        u = uop_make(e->g, UOP_CAST, UOP_U32, HALF, no_arg, &u, 1);
        if (i > 0)
            u = uop_alu2(e->g, UOP_SHL, u,
                         uop_const_like(e->g, u, 8 * bytes * i));
        out_halves[copy] =
            i > 0 ? uop_alu2(e->g, UOP_OR, out_halves[copy], u) : u;
    }
    e->inst = before;
    return BELL_OK;
}

/* Packs the columns; *out_memory is the array as it is then. */
static bell_status
pack_columns(struct expand *e, const struct tiles *t,
             const struct uop **out_memory)
{
    int64_t pack = t->n_steps / t->n_words, i;
    uint64_t panels = expand_count(e, t->loops), set;
    const struct uop *memory =
        expand_local(e, UOP_U32, panels * (uint64_t)t->n_words * TILE);
    const struct uop *base[KERNEL_MAX_RANGES], *half[2], *src[3], *place, *word;
    uint32_t n;

    memcpy(base, e->base, sizeof(base));
    for (set = t->loops; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        e->base[r] = expand_filling_loop(e, r, e->k->sizes[r]);
    }
    word = expand_filling_loop(e, t->step, t->n_words);
    for (i = 0; i < pack; i++)
        BELL_TRY(
            word_part(e, t, expand_op_num(e, UOP_MUL, word, pack), i, half));
    e->base[t->step] = word;
    place = expand_op_num(e, UOP_MUL, panel_number(e, t), t->n_words * TILE);
    place =
        uop_alu2(e->g, UOP_ADD, place, expand_op_num(e, UOP_MUL, word, HALF));
    for (i = 0; i < 2; i++) {
        const struct uop *store[3] = {
            memory, expand_op_num(e, UOP_ADD, place, i * t->n_words * HALF),
            half[i]};
        src[1 + i] = uop_new(e->g, UOP_STORE, UOP_VOID, 1, no_arg, store, 3);
    }
    n = expand_close_filling(e, t->loops | (uint64_t)1 << t->step, false, src,
                             2);
    memcpy(e->base, base, sizeof(base));
    src[0] = memory;
    *out_memory = uop_new(e->g, UOP_AFTER, UOP_U32, 1, no_arg, src, n + 1);
    return uop_graph_status(e->g);
}

/* Index of the first row's first step. */
static bell_status
rows_begin(struct expand *e, const struct tiles *t, const struct uop **out)
{
    const struct uop *base = e->base[t->step], *index = t->rows->src[1];
    struct expand_inst *before;

    e->base[t->step] = expand_num(e, 0);
    BELL_TRY(expand_apart(e, index, &before));
    *out = e->inst[kernel_pos(e->k, index)].scalar[0];
    e->inst = before;
    e->base[t->step] = base;
    return BELL_OK;
}

bell_status
expand_tiles(struct expand *e, const struct kernel_group *group)
{
    const struct uop *reduce = group->members[0], *src[7], *after[2];
    struct expand_inst *inst = &e->inst[kernel_pos(e->k, reduce)];
    struct tiles t = {.rows = NULL};
    uint32_t copy;

    find_tiles(e, group, &t);
    src[0] = expand_local(e, reduce->dtype, TILE * TILE);
    src[1] = expand_num(e, 0);
    src[2] = t.rows->src[0];
    BELL_TRY(rows_begin(e, &t, &src[3]));
    BELL_TRY(pack_columns(e, &t, &src[4]));
    src[5] = expand_op_num(e, UOP_MUL, panel_number(e, &t), t.n_words * TILE);
    src[6] = expand_num(e, kernel_coef(e->k, t.rows->src[1], t.row));
    after[0] = src[0];
    after[1] = uop_new(e->g, UOP_TILE_MATMUL, UOP_VOID, 1,
                       (union uop_arg){.i = t.n_steps}, src, 7);
    after[0] = uop_new(e->g, UOP_AFTER, reduce->dtype, 1, no_arg, after, 2);
    for (copy = 0; copy < inst->n_copies; copy++) {
        expand_set_digits(e, inst->copied, copy);
        after[1] = expand_num(e, (int64_t)e->digit[t.row] * TILE +
                                     (int64_t)e->digit[t.column] * HALF);
        inst->vector[copy] =
            uop_make(e->g, UOP_LOAD, reduce->dtype, HALF, no_arg, after, 2);
    }
    return uop_graph_status(e->g);
}
