/* Products of packed operands whose tiles are some halves of a vector wide.
 *
 * Lanes of the kernel's vectors fill half of a register, and a tile has any
 * number of those: neighbours of 56 columns of F32 lie in three registers of 64
 * bytes and one of 32. What two of them hold is loaded, multiplied and added as
 * one; the sums are taken apart behind the loop.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>

#define MAX_LANES 16 /* of a half */

static const union uop_arg no_arg = {.bits = 0};

struct halves {
    const struct expand_inst *inst; /* of the REDUCE */
    const struct uop *factors[2];   /* of its terms, in their order */
    uint32_t packed;                /* which of them: the columns */
    uint32_t range;                 /* that counts the halves of a tile */
};

/* Are sums of the group such a product's? */
static bool
find_halves(const struct expand *e, const struct kernel_group *group,
            struct halves *out)
{
    const struct kernel *k = e->k;
    const struct uop *reduce = group->members[0], *mul = reduce->src[0];
    uint32_t bytes = uop_dtype_infos[reduce->dtype].size_bytes, i;
    uint64_t copies;

    if (!e->n_packs || group->n_members != 1 || reduce->arg.i != UOP_ADD ||
        mul->op != UOP_MUL || group->bound & e->vectors)
        return false;
    out->inst = &e->inst[kernel_pos(k, reduce)];
    out->factors[0] = mul->src[0];
    out->factors[1] = mul->src[1];
    for (i = 0; i < 2; i++) {
        const struct expand_inst *inst = &e->inst[kernel_pos(k, mul->src[i])];
        if (!inst->pack || inst->vec < 0)
            continue;
        copies = e->packs[inst->pack - 1].ranges & e->copied;
        copies &= ~k->reduce_ranges;
        if (!copies || copies & (copies - 1) ||
            2u * inst->lanes * bytes != k->target->vector_bytes)
            return false;
        out->packed = i;
        out->range = (uint32_t)__builtin_ctzll(copies);
        return out->inst->vec == inst->vec && out->inst->copied & copies;
    }
    return false;
}

/* Lanes of the sums of which digit[] stands at the first half; 0: it stands at
 * a second one. */
static uint16_t
lanes_here(const struct expand *e, const struct halves *h)
{
    uint32_t digit = e->digit[h->range];

    if (digit % 2)
        return 0;
    return digit + 1 < (uint32_t)e->k->sizes[h->range]
               ? (uint16_t)(2 * h->inst->lanes)
               : h->inst->lanes;
}

/* What is added to these sums. */
static const struct uop *
make_term(struct expand *e, const struct halves *h, uint16_t lanes)
{
    const struct uop *src[2];

    src[h->packed] = expand_packed_value(
        e, &e->inst[kernel_pos(e->k, h->factors[h->packed])], lanes);
    src[1 - h->packed] = expand_value(e, h->factors[1 - h->packed], lanes);
    return uop_alu2(e->g, UOP_MUL, src[0], src[1]);
}

/* The sums of each copy, of which the loop has none or, `loops`, accumulators:
 * first halves alone. */
struct sums {
    const struct uop **acc, **sum;
    const struct uop *loops[KERNEL_MAX_RANGES];
    uint32_t n_loops;
};

static void
begin_sums(struct expand *e, const struct kernel_group *group,
           const struct halves *h, struct sums *s)
{
    uint32_t copy;

    s->n_loops = expand_add_loops(e, group->bound, s->loops, 0);
    for (copy = 0; copy < h->inst->n_copies && s->n_loops; copy++) {
        uint16_t lanes;
        expand_set_digits(e, h->inst->copied, copy);
        lanes = lanes_here(e, h);
        if (!lanes)
            continue;
        s->acc[copy] =
            expand_make_acc(e, group->members[0], lanes, group->context);
        s->sum[copy] = expand_get_acc(e, s->acc[copy], s->loops, s->n_loops);
    }
}

static void
add_terms(struct expand *e, const struct halves *h, const struct sums *s)
{
    uint32_t copy;

    for (copy = 0; copy < h->inst->n_copies; copy++) {
        const struct uop **sum = &s->sum[copy], *term;
        uint16_t lanes;
        expand_set_digits(e, h->inst->copied, copy);
        lanes = lanes_here(e, h);
        if (!lanes)
            continue;
        term = make_term(e, h, lanes);
        *sum = *sum ? expand_accumulate(e, UOP_ADD, *sum, term) : term;
    }
}

/* Behind the loop. */
static bell_status
end_sums(struct expand *e, const struct kernel_group *group,
         const struct halves *h, const struct sums *s)
{
    uint32_t copy, n = 0;
    const struct uop **src, *end;

    src = arena_alloc(&e->k->mem, (h->inst->n_copies + 1) * sizeof(*src));
    if (!src)
        return expand_no_memory(e);
    for (copy = 0; copy < h->inst->n_copies; copy++) {
        const struct uop *set[2] = {s->acc[copy], s->sum[copy]};
        if (set[0])
            src[++n] = uop_new(e->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, set, 2);
    }
    end = expand_close_loops(e, group->bound, src, n);
    for (copy = 0; copy < h->inst->n_copies; copy++) {
        if (s->acc[copy])
            s->sum[copy] = expand_get_acc(e, s->acc[copy], &end, 1);
    }
    return BELL_OK;
}

/* The sums of the copy at digit[]. */
static const struct uop *
take_half(struct expand *e, const struct halves *h, const struct sums *s)
{
    const struct uop *lane[MAX_LANES], *both;
    uint32_t half = e->digit[h->range] % 2, i;
    uint16_t lanes = h->inst->lanes;

    e->digit[h->range] -= half;
    both = s->sum[expand_copy(e, h->inst)];
    if (both->lanes == lanes)
        return both;
    assert(lanes <= MAX_LANES);
    for (i = 0; i < lanes; i++) {
        union uop_arg arg = {.i = half * lanes + i};
        lane[i] = uop_make(e->g, UOP_LANE, both->dtype, 1, arg, &both, 1);
    }
    return uop_make(e->g, UOP_LANES, both->dtype, lanes, no_arg, lane, lanes);
}

bell_status
expand_halves(struct expand *e, const struct kernel_group *group,
              bool *out_done)
{
    struct halves h;
    struct sums s;
    uint64_t unrolled = group->bound & e->copied;
    uint32_t i, n;

    *out_done = find_halves(e, group, &h);
    if (!*out_done)
        return BELL_OK;
    n = h.inst->n_copies;
    s.acc = arena_calloc(&e->k->mem, n, sizeof(*s.acc));
    s.sum = arena_calloc(&e->k->mem, n, sizeof(*s.sum));
    if (!s.acc || !s.sum)
        return expand_no_memory(e);
    begin_sums(e, group, &h, &s);
    for (i = 0; i < expand_count(e, unrolled); i++) {
        expand_set_digits(e, unrolled, i);
        add_terms(e, &h, &s);
    }
    if (s.n_loops)
        BELL_TRY(end_sums(e, group, &h, &s));
    for (i = 0; i < n; i++) {
        expand_set_digits(e, h.inst->copied, i);
        h.inst->vector[i] = take_half(e, &h, &s);
    }
    return uop_graph_status(e->g);
}
