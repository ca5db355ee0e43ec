/* Shared by expand.c (values) and expand_loops.c (accumulators, stores). */
#ifndef BELL_LOWER_EXPAND_EXPAND_INTERNAL_H
#define BELL_LOWER_EXPAND_EXPAND_INTERNAL_H

#include "lower/expand/expand.h"

/* What users want of a node. */
enum expand_need {
    NEED_BASE = 1u << 0,   /* lane 0 of copy 0 */
    NEED_SCALAR = 1u << 1, /* lane 0 of every copy */
    NEED_VECTOR = 1u << 2, /* all lanes of every copy */
};

/* The copies of one node. A node that varies with no VECTOR range has only
 * the scalar ones. */
struct expand_inst {
    uint64_t copied;           /* UPCAST and UNROLL ranges it varies with */
    int32_t vec;               /* VECTOR range it varies with, or -1 */
    uint16_t lanes;            /* size of that range, else 1 */
    uint8_t need;              /* enum expand_need */
    uint32_t stage;            /* number of its stage, from 1; 0: none */
    uint32_t pack;             /* likewise of its struct expand_pack */
    uint32_t n_copies;         /* product of the copied ranges' sizes */
    const struct uop **scalar; /* by copy */
    const struct uop **vector;
};

/* An operand whose tile lies in LOCAL memory. */
struct expand_stage {
    const struct uop *load;
    enum uop_dtype dtype;     /* of the array: the LOAD's, or what holds it */
    uint64_t ranges;          /* that it varies with in a tile */
    uint32_t range;           /* along which neighbours lie in the buffer */
    bool along;               /* WGMMA: rows of the array are of steps */
    int64_t size;             /* elements of a tile, with padding */
    const struct uop *memory; /* the array, behind the copy's BARRIER */
    const struct uop *half;   /* where in it the present tile begins */
    int64_t box_stride;       /* elements from row to row; 0: no TMA_COPYs */
    /* Behind `line` elements of rows of steps there are `line_pad` others, and
     * behind `block` elements, 0: none, `block_pad`. line 0: neither. */
    int64_t line, line_pad, block, block_pad;
    int32_t piece; /* range of what a thread reads at once, or -1: a part */
    uint32_t n_dims;
    struct {
        uint32_t range;
        int64_t stride;        /* elements */
        int64_t weight;        /* WGMMA: in the number of the step or output */
    } dims[KERNEL_MAX_RANGES]; /* the fastest last */
};

/* An operand that is packed (struct kernel). */
struct expand_pack {
    const struct uop *value;
    uint64_t ranges; /* that it varies with in the array */
    int64_t stride[KERNEL_MAX_RANGES];
    const struct uop *memory; /* the array, filled */
};

#define EXPAND_MAX_PACKS 2

/* A STORE to LOCAL memory, made or to be made. */
struct expand_store {
    const struct uop *memory, *index, *value, *gate, *made;
};

struct expand_stores {
    struct expand_store *v;
    uint32_t n;
};

struct expand_effect {
    const struct uop *node;
    struct expand_effect *next;
};

struct expand {
    struct kernel *k;
    struct uop_graph *g;
    uint64_t copied, vectors, loops; /* ranges by kind */
    uint64_t globals, threads, staged;
    struct expand_stage *stages;
    uint32_t n_stages;
    struct expand_pack packs[EXPAND_MAX_PACKS];
    uint32_t n_packs;
    int32_t tile_loop;                /* range of the loop over tiles, or -1 */
    uint32_t n_buffers;               /* tiles of an operand at once */
    uint32_t ahead;                   /* tiles copied before they are needed */
    const struct uop *commit;         /* of the next tile's STOREs, or NULL */
    struct expand_stores first, next; /* of the first tile, of the next */
    const struct uop *base[KERNEL_MAX_RANGES]; /* first value of each range */
    /* The values of a range of the sum that count: n of them from `begin` on.
     * Elsewhere the operand with number `pack`, from 1, is 0
     * (expand_window.c). */
    struct expand_window {
        bool on;
        struct kernel_window of;
        uint32_t pack;
        const struct uop *begin, *n;
        const struct uop *loop; /* the RANGE that base[of.range] is made of */
    } window;
    uint32_t digit[KERNEL_MAX_RANGES]; /* copy being made, by range */
    struct expand_inst *inst;          /* by place in k->nodes */
    uint32_t n_accs, n_locals, shared_bytes;
    const struct uop *tid; /* the thread's number; NULL without threads */
    uint64_t barrier_ends; /* loops whose bodies end with a BARRIER */
    /* STOREs and ENDs by the innermost range around them; last: none */
    struct expand_effect *effects[KERNEL_MAX_RANGES + 1];
    uint64_t around[KERNEL_MAX_RANGES]; /* loops around the range's loop */
};

static inline const struct uop *
expand_num(const struct expand *e, int64_t value)
{
    return uop_const_int(e->g, UOP_I64, value);
}

/* Elements of `memory` from `index` on. */
static inline const struct uop *
expand_load(const struct expand *e, const struct uop *memory,
            const struct uop *index, uint16_t lanes)
{
    const struct uop *src[2] = {memory, index};
    const union uop_arg none = {.bits = 0};

    return uop_make(e->g, UOP_LOAD, memory->dtype, lanes, none, src, 2);
}

/* `memory`, as it is behind an END or a BARRIER. */
static inline const struct uop *
expand_after(const struct expand *e, const struct uop *memory,
             const struct uop *end)
{
    const struct uop *src[2] = {memory, end};
    const union uop_arg none = {.bits = 0};

    return uop_new(e->g, UOP_AFTER, memory->dtype, 1, none, src, 2);
}

/* op(a, constant) */
static inline const struct uop *
expand_op_num(const struct expand *e, enum uop_op op, const struct uop *a,
              int64_t b)
{
    return uop_alu2(e->g, op, a, expand_num(e, b));
}

/* Number of the copy of `inst` that digit[] stands at. */
uint32_t expand_copy(const struct expand *e, const struct expand_inst *inst);

/* Sets digit[] of the ranges in `set` to copy number `copy`. */
void expand_set_digits(struct expand *e, uint64_t set, uint32_t copy);

/* Product of the sizes of the ranges in `set`. */
uint32_t expand_count(const struct expand *e, uint64_t set);

/* The value of source `u` of a node of `lanes` lanes, at digit[]. */
const struct uop *expand_value(struct expand *e, const struct uop *u,
                               uint16_t lanes);

/* lane number times `step`, plus `first` (may be NULL) in every lane. */
const struct uop *expand_ramp(struct expand *e, const struct uop *first,
                              enum uop_dtype dtype, uint16_t lanes,
                              int64_t step);

/* a + lane * (step of a) OP b + lane * (step of b), in 32 bits; `step` is the
 * difference of the steps, each of which expand_is_short. */
const struct uop *expand_ramp_compare(struct expand *e, enum uop_op op,
                                      const struct uop *a, const struct uop *b,
                                      uint16_t lanes, int64_t step);

static inline bool
expand_is_short(int64_t step)
{
    return step > -(1 << 20) && step < 1 << 20;
}

/* `u` in every lane; `u` itself where lanes is 1 or it is a vector. */
const struct uop *expand_broadcast(struct expand *e, const struct uop *u,
                                   uint16_t lanes);

/* ---- threads (expand_threads.c) ---- */

/* Gives the GLOBAL, LOCAL and GROUP ranges their values. */
BELL_MUST_CHECK bell_status expand_map_threads(struct expand *e,
                                               struct lower_program *program);

/* Does this thread store what depends on `deps`? NULL: every one does. */
const struct uop *expand_store_gate(struct expand *e, uint64_t deps);

/* A LOCAL array. */
const struct uop *expand_local(struct expand *e, enum uop_dtype dtype,
                               uint64_t n_elems);

/* What is done for each value of the ranges `context` uses LOCAL memory: all
 * threads are to be done with it before the next value. */
void expand_end_with_barrier(struct expand *e, uint64_t context);

/* A value that threads have a part of each. */
struct expand_part {
    enum uop_op op;
    const struct uop **value; /* replaced by the whole */
};

/* Joins the threads' parts of a reduction over `bound`, which is done once
 * for each value of the ranges `context`. */
BELL_MUST_CHECK bell_status expand_join_parts(struct expand *e, uint64_t bound,
                                              uint64_t context,
                                              const struct expand_part *parts,
                                              uint32_t n_parts);

/* ---- tiles (expand_stage.c) ---- */

/* Finds the operands; before anything is made. */
BELL_MUST_CHECK bell_status expand_find_stages(struct expand *e);

/* Makes the copies of their tiles. */
BELL_MUST_CHECK bell_status expand_copy_stages(struct expand *e);

/* The operand of inst->stage, at digit[]: a scalar, or with inst->vec all
 * lanes. */
const struct uop *expand_staged_value(struct expand *e,
                                      const struct expand_inst *inst);

/* The same as expand_group, by matrix instructions (expand_matrix.c). */
BELL_MUST_CHECK bell_status
expand_matrix_group(struct expand *e, const struct kernel_group *group);

/* May threads that have parts of the same rows exchange what they store, so
 * that each stores 16 bytes of a row? Then expand_turn_store makes the STOREs
 * (expand_matrix.c). */
bool expand_can_turn(const struct expand *e, const struct uop *store);
BELL_MUST_CHECK bell_status expand_turn_store(struct expand *e,
                                              const struct uop *store);

/* Place in LOCAL memory, in a tile for WGMMA, of the output and step with
 * these numbers in it. */
const struct uop *expand_wgmma_index(struct expand *e,
                                     const struct expand_stage *s,
                                     const struct uop *output,
                                     const struct uop *step);

/* TMA_COPYs (expand_box.c). How far apart in the buffer are the rows of the
 * operand's tiles? 0: TMA_COPYs cannot copy these. */
int64_t expand_box_stride(const struct expand *e, const struct expand_stage *s);

/* The TMA_COPYs of the tile with number `tile`, where `gate` (NULL: always)
 * holds, to the part of the array that begins at `half`. */
BELL_MUST_CHECK bell_status expand_add_boxes(struct expand *e,
                                             const struct expand_stage *s,
                                             const struct uop *tile,
                                             const struct uop *gate,
                                             const struct uop *half,
                                             struct expand_stores *stores);

/* Place in LOCAL memory, in a tile with lines, of what is `step` elements into
 * the row that begins at element `rows`. */
const struct uop *expand_line_index(struct expand *e,
                                    const struct expand_stage *s,
                                    const struct uop *rows,
                                    const struct uop *step);

/* The END of the loop over tiles, whose body has the effects. */
const struct uop *expand_end_tile(struct expand *e, const struct uop *range,
                                  const struct uop *const *effects, uint32_t n);

/* Does the reduction over `bound` read operands from LOCAL memory? */
bool expand_has_tile(const struct expand *e, uint64_t bound);

/* A power of two that divides u, an index; 0: it is 0. `depth` is 0. */
uint64_t expand_divisor(const struct uop *u, uint32_t depth);

/* ---- packed operands (expand_pack.c) ---- */

/* Finds them; before anything is made. */
void expand_find_packs(struct expand *e);

/* Makes the loops that fill their arrays. */
BELL_MUST_CHECK bell_status expand_fill_packs(struct expand *e);

/* The operand of inst->pack, at digit[]: `lanes` that lie side by side. */
const struct uop *expand_packed_value(struct expand *e,
                                      const struct expand_inst *inst,
                                      uint16_t lanes);

/* The same as expand_group, if the group's sums are of a product whose tile is
 * some halves of a vector wide; *out_done tells (expand_halves.c). */
BELL_MUST_CHECK bell_status expand_halves(struct expand *e,
                                          const struct kernel_group *group,
                                          bool *out_done);

/* The product of kernel.tiled: its operands' packing, the TILE_MATMUL, and what
 * it made (expand_tiles.c). */
BELL_MUST_CHECK bell_status expand_tiles(struct expand *e,
                                         const struct kernel_group *group);

/* The sums of kernel.digits: their factors in digits, and the products of those
 * with bytes (expand_digits.c). */
BELL_MUST_CHECK bell_status expand_digits(struct expand *e,
                                          const struct kernel_group *group);

/* The sum of kernel.by_rows (expand_rows.c). */
BELL_MUST_CHECK bell_status expand_rows(struct expand *e,
                                        const struct kernel_group *group);

/* Closes loops of e->base[] around the effects in src[1..n], those of the sum
 * inside or outside. Returns how many effects are there then. */
uint32_t expand_close_filling(struct expand *e, uint64_t loops, bool sum_inside,
                              const struct uop **src, uint32_t n);

/* A loop as long as `size` that fills an array; `number` tells those of a
 * kernel apart. */
const struct uop *expand_filling_loop(struct expand *e, uint32_t number,
                                      int64_t size);

/* Finds the window, and begins it; behind expand_find_packs. */
void expand_find_window(struct expand *e);
/* Lets the window's range be counted by a RANGE with that arg. */
void expand_begin_window(struct expand *e, union uop_arg arg);

/* Is this a condition that holds in the window? */
static inline bool
expand_holds(const struct expand *e, const struct uop *u)
{
    uint32_t i;

    for (i = 0; e->window.on && i < e->window.of.n; i++) {
        if (e->window.of.conditions[i].node == u)
            return true;
    }
    return false;
}

/* The RANGE of a loop. */
static inline const struct uop *
expand_loop(const struct expand *e, uint32_t r)
{
    return e->window.on && e->window.of.range == r ? e->window.loop
                                                   : e->base[r];
}

/* Adds what lies outside of the window to the group's sums. */
BELL_MUST_CHECK bell_status
expand_add_outside(struct expand *e, const struct kernel_group *group);

/* Makes all that `u`, which is in no loop of a reduction, is made of once
 * more, with the present base[]: e->inst are these instances then, and
 * *out_before those there were. */
BELL_MUST_CHECK bell_status expand_apart(struct expand *e, const struct uop *u,
                                         struct expand_inst **out_before);

/* ---- reductions and stores (expand_loops.c) ---- */

/* RANGE nodes of the loops in `set`, outermost first, put after src[n]; returns
 * how many are there then. */
uint32_t expand_add_loops(const struct expand *e, uint64_t set,
                          const struct uop **src, uint32_t n);

BELL_MUST_CHECK bell_status expand_no_memory(const struct expand *e);

/* An accumulator of the REDUCE, for each value of the ranges `context`. */
const struct uop *expand_make_acc(struct expand *e, const struct uop *reduce,
                                  uint16_t lanes, uint64_t context);
/* What it is behind these. */
const struct uop *expand_get_acc(struct expand *e, const struct uop *acc,
                                 const struct uop *const *after,
                                 uint32_t n_after);

/* op(acc, x), a multiply-add where that is one instruction. */
const struct uop *expand_accumulate(struct expand *e, enum uop_op op,
                                    const struct uop *acc, const struct uop *x);

/* Joins n values pairwise, in place. */
const struct uop *expand_join_values(struct expand *e, enum uop_op op,
                                     const struct uop **x, uint32_t n);

/* ENDs of the loops in `set`, innermost first, with what a tile in them needs.
 * src[1..] hold the effects and are overwritten. NULL without loops. */
const struct uop *expand_close_loops(struct expand *e, uint64_t set,
                                     const struct uop **src,
                                     uint32_t n_effects);

/* Makes the copies of all members of a group. */
BELL_MUST_CHECK bell_status expand_group(struct expand *e,
                                         const struct kernel_group *group);

/* Puts a made STORE into the loops that `deps` says. */
BELL_MUST_CHECK bell_status expand_add_store(struct expand *e, uint64_t deps,
                                             const struct uop *store);

/* Closes all loops around the stores; gives the SINK. */
BELL_MUST_CHECK bell_status expand_close(struct expand *e,
                                         const struct uop **out_sink);

#endif
