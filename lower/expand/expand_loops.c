/* Accumulators of reductions, and the loops around stores. */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

static const union uop_arg no_arg = {.bits = 0};

/* One REDUCE being expanded. */
struct reduce {
    const struct uop *node;
    enum uop_op op;
    enum uop_dtype dtype;
    struct expand_inst *inst;
    uint16_t lanes;           /* of the accumulators */
    uint64_t parallel;        /* bound ranges with accumulators of their own */
    uint64_t unrolled;        /* bound ranges whose copies follow each other */
    uint32_t n_parallel;      /* accumulators of each copy */
    const struct uop **accs;  /* copy-major: ACC, or the value without loop */
    const struct uop **terms; /* room for those of one, unrolled */
};

bell_status
expand_no_memory(const struct expand *e)
{
    return bell_fail(BELL_E_NO_MEMORY, "expansion of %u nodes: out of memory",
                     e->k->n_nodes);
}

const struct uop *
expand_accumulate(struct expand *e, enum uop_op op, const struct uop *acc,
                  const struct uop *x)
{
    bool fused = e->k->target->has_fma && op == UOP_ADD && x->op == UOP_MUL &&
                 (x->dtype == UOP_F32 || x->dtype == UOP_F64);

    if (fused)
        return uop_alu3(e->g, UOP_MULACC, x->src[0], x->src[1], acc);
    return uop_alu2(e->g, op, acc, x);
}

uint32_t
expand_add_loops(const struct expand *e, uint64_t set, const struct uop **src,
                 uint32_t n)
{
    for (set &= e->loops; set; set &= set - 1)
        src[n++] = expand_loop(e, (uint32_t)__builtin_ctzll(set));
    return n;
}

const struct uop *
expand_make_acc(struct expand *e, const struct uop *reduce, uint16_t lanes,
                uint64_t context)
{
    const struct uop *src[1 + KERNEL_MAX_RANGES];
    union uop_arg arg = {.i = e->n_accs++};

    assert(lanes > 0);
    src[0] = uop_identity(e->g, (enum uop_op)reduce->arg.i, reduce->dtype);
    src[0] = expand_broadcast(e, src[0], lanes);
    return uop_new(e->g, UOP_ACC, reduce->dtype, lanes, arg, src,
                   expand_add_loops(e, context, src, 1));
}

const struct uop *
expand_get_acc(struct expand *e, const struct uop *acc,
               const struct uop *const *after, uint32_t n_after)
{
    const struct uop *src[1 + KERNEL_MAX_RANGES];

    src[0] = acc;
    memcpy(src + 1, after, n_after * sizeof(*after));
    return uop_new(e->g, UOP_ACC_GET, acc->dtype, acc->lanes, no_arg, src,
                   n_after + 1);
}

/* Factors of a product. */
struct factors {
    const struct uop *f[4];
    uint32_t n;
    bool has_int; /* one is a small integer */
};

static struct factors
factors_of(const struct expand *e, const struct uop *x)
{
    struct factors out = {.f = {x}, .n = 1};
    uint32_t i = 0;

    while (i < out.n) {
        const struct uop *f = out.f[i];
        if (f->op == UOP_MUL && out.n < ARRAY_LEN(out.f)) {
            out.f[i] = f->src[0];
            out.f[out.n++] = f->src[1];
            continue;
        }
        if (f->op == UOP_CAST && uop_dtype_infos[f->src[0]->dtype].is_int) {
            struct uop_bounds b = uop_bounds(e->g, f->src[0]);
            out.has_int |= b.min >= INT16_MIN && b.max <= INT16_MAX;
        }
        i++;
    }
    return out;
}

/* Takes `f` out of the factors; false: it is not one of them. */
static bool
drop_factor(struct factors *of, const struct uop *f)
{
    uint32_t i;

    for (i = 0; i < of->n && of->f[i] != f; i++)
        ;
    if (i == of->n)
        return false;
    of->f[i] = of->f[--of->n];
    return true;
}

/* The factor, no integer, that all n terms have: it may be multiplied by their
 * sum. In blocks of numbers that share a scale (a file's weights) it is that.
 * Such a sum grows by the integers alone, which are small: it is finite where
 * the terms are and far from the ends of F32. */
static const struct uop *
shared_factor(const struct expand *e, const struct uop *const *terms,
              uint32_t n)
{
    struct factors first = factors_of(e, terms[0]), other;
    uint32_t i, j;

    for (j = 0; j < first.n; j++) {
        const struct uop *f = first.f[j];
        if (f->op == UOP_CAST && !uop_is_float(f->src[0]))
            continue;
        for (i = 0; i < n; i++) {
            other = factors_of(e, terms[i]);
            if (!other.has_int || other.n < 3 || !drop_factor(&other, f))
                break;
        }
        if (i == n)
            return f;
    }
    return NULL;
}

/* `first` (may be NULL) with the unrolled copies of the body added, at
 * digit[] for all other ranges. */
static const struct uop *
add_loop_copies(struct expand *e, const struct reduce *r,
                const struct uop *first)
{
    uint32_t i, j, n = expand_count(e, r->unrolled);
    const struct uop *shared = NULL, *sum = NULL;

    assert(r->lanes > 0);
    for (i = 0; i < n; i++) {
        expand_set_digits(e, r->unrolled, i);
        r->terms[i] = expand_value(e, r->node->src[0], r->lanes);
    }
    if (n > 1 && r->op == UOP_ADD && r->dtype == UOP_F32 &&
        e->k->target->has_fma)
        shared = shared_factor(e, r->terms, n);
    for (i = 0; i < n && !shared; i++)
        first = first ? expand_accumulate(e, r->op, first, r->terms[i])
                      : r->terms[i];
    for (i = 0; i < n && shared; i++) {
        struct factors of = factors_of(e, r->terms[i]);
        (void)drop_factor(&of, shared);
        for (j = 1; j < of.n; j++)
            of.f[0] = uop_alu2(e->g, UOP_MUL, of.f[0], of.f[j]);
        sum = sum ? expand_accumulate(e, UOP_ADD, sum, of.f[0]) : of.f[0];
    }
    if (!shared)
        return first;
    sum = uop_alu2(e->g, UOP_MUL, shared, sum);
    return first ? expand_accumulate(e, UOP_ADD, first, sum) : sum;
}

/* Are the copies of all accumulators added step by step? A row of a product and
 * its columns are then needed one after the other, not those of all steps at
 * once, for which there are no registers. */
static bool
goes_by_steps(const struct expand *e, const struct reduce *r)
{
    return r->unrolled && !e->k->target->is_gpu &&
           !factors_of(e, r->node->src[0]).has_int; /* no shared_factor */
}

/* Adds the unrolled copies of the body to value[], one for each accumulator. */
static void
add_steps(struct expand *e, const struct reduce *r, const struct uop **value)
{
    uint32_t step, copy, i, n = expand_count(e, r->unrolled);

    for (step = 0; step < n; step++) {
        for (copy = 0; copy < r->inst->n_copies; copy++) {
            for (i = 0; i < r->n_parallel; i++) {
                const struct uop **to = &value[copy * r->n_parallel + i], *term;
                expand_set_digits(e, r->inst->copied, copy);
                expand_set_digits(e, r->parallel, i);
                expand_set_digits(e, r->unrolled, step);
                term = expand_value(e, r->node->src[0], r->lanes);
                *to = *to ? expand_accumulate(e, r->op, *to, term) : term;
            }
        }
    }
}

static bell_status
begin_reduce(struct expand *e, const struct kernel_group *group,
             const struct uop *u, struct reduce *r)
{
    struct kernel *k = e->k;
    uint64_t bound = group->bound & e->copied, rest;

    assert(u->op == UOP_REDUCE);
    memset(r, 0, sizeof(*r));
    r->node = u;
    r->op = u->arg.i;
    r->dtype = u->dtype;
    r->inst = &e->inst[kernel_pos(k, u)];
    r->lanes = e->inst[kernel_pos(k, u->src[0])].lanes;
    if (group->bound & e->vectors)
        r->lanes =
            (uint16_t)k->sizes[__builtin_ctzll(group->bound & e->vectors)];
    for (rest = bound; rest; rest &= rest - 1) {
        uint32_t range = (uint32_t)__builtin_ctzll(rest);
        if (uop_range_axis(k->ranges[range]) == UOP_AXIS_UPCAST)
            r->parallel |= (uint64_t)1 << range;
        else
            r->unrolled |= (uint64_t)1 << range;
    }
    r->n_parallel = expand_count(e, r->parallel);
    r->accs = arena_alloc(&k->mem, (size_t)r->inst->n_copies * r->n_parallel *
                                       sizeof(*r->accs));
    r->terms =
        arena_alloc(&k->mem, expand_count(e, r->unrolled) * sizeof(*r->terms));
    return r->accs && r->terms ? BELL_OK : expand_no_memory(e);
}

/* What an accumulator is after the body; without a loop it is that. */
static void
set_acc(struct expand *e, struct reduce *r, uint32_t at,
        const struct uop *value, bool loops, const struct uop **effect)
{
    const struct uop *set[2] = {r->accs[at], value};

    if (loops)
        *effect = uop_new(e->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, set, 2);
    else
        r->accs[at] = value;
}

/* The loop body of one REDUCE: its ACC_SETs, if any, go to effects[]. */
static bell_status
make_body(struct expand *e, const struct kernel_group *group, struct reduce *r,
          const struct uop **effects)
{
    const struct uop *loops[KERNEL_MAX_RANGES], **value;
    uint32_t n = r->inst->n_copies * r->n_parallel, at,
             n_loops = expand_add_loops(e, group->bound, loops, 0);
    bool by_steps = goes_by_steps(e, r);

    value = arena_calloc(&e->k->mem, n, sizeof(*value));
    if (!value)
        return expand_no_memory(e);
    for (at = 0; at < n; at++) {
        expand_set_digits(e, r->inst->copied, at / r->n_parallel);
        expand_set_digits(e, r->parallel, at % r->n_parallel);
        if (n_loops) {
            r->accs[at] = expand_make_acc(e, r->node, r->lanes, group->context);
            value[at] = expand_get_acc(e, r->accs[at], loops, n_loops);
        }
        if (by_steps)
            continue;
        value[at] = add_loop_copies(e, r, value[at]);
        set_acc(e, r, at, value[at], n_loops, &effects[at]);
    }
    if (!by_steps)
        return BELL_OK;
    add_steps(e, r, value);
    for (at = 0; at < n; at++)
        set_acc(e, r, at, value[at], n_loops, &effects[at]);
    return BELL_OK;
}

static const struct uop *
make_end(struct expand *e, uint32_t range, const struct uop **src,
         uint32_t n_effects)
{
    src[0] = expand_loop(e, range);
    return uop_new(e->g, UOP_END, UOP_VOID, 1, no_arg, src, n_effects + 1);
}

const struct uop *
expand_close_loops(struct expand *e, uint64_t set, const struct uop **src,
                   uint32_t n_effects)
{
    const struct uop *end = NULL;
    bool waits = expand_has_tile(e, set);

    for (set &= e->loops; set;) {
        uint32_t range = 63u - (uint32_t)__builtin_clzll(set);
        if (waits && !(e->staged >> range & 1)) {
            end = expand_end_tile(e, e->base[range], src + 1, n_effects);
            waits = false;
        } else {
            end = make_end(e, range, src, n_effects);
        }
        src[1] = end;
        n_effects = 1;
        set &= ~((uint64_t)1 << range);
    }
    return end;
}

const struct uop *
expand_join_values(struct expand *e, enum uop_op op, const struct uop **x,
                   uint32_t n)
{
    uint32_t i;

    assert(n > 0);
    for (; n > 1; n = (n + 1) / 2) {
        for (i = 0; i < n / 2; i++)
            x[i] = uop_alu2(e->g, op, x[2 * i], x[2 * i + 1]);
        if (n & 1)
            x[n / 2] = x[n - 1];
    }
    return x[0];
}

/* The values after the loop, one for each copy. */
static void
finish_reduce(struct expand *e, const struct kernel_group *group,
              struct reduce *r, const struct uop *end)
{
    struct expand_inst *inst = r->inst;
    union uop_arg arg = {.i = r->op};
    uint32_t copy, i;

    for (copy = 0; copy < inst->n_copies; copy++) {
        const struct uop **x = r->accs + (size_t)copy * r->n_parallel, *value;
        for (i = 0; end && i < r->n_parallel; i++)
            x[i] = expand_get_acc(e, x[i], &end, 1);
        value = expand_join_values(e, r->op, x, r->n_parallel);
        if (group->bound & e->vectors)
            value =
                uop_make(e->g, UOP_LANES_REDUCE, r->dtype, 1, arg, &value, 1);
        if (inst->vec >= 0)
            inst->vector[copy] = value;
        else
            inst->scalar[copy] = value;
    }
}

/* Makes wholes of the parts that the threads have. */
static bell_status
join_threads(struct expand *e, const struct kernel_group *group,
             const struct reduce *reduces)
{
    struct expand_part *parts;
    uint32_t i, copy, n = 0;

    if (!(group->bound & e->threads))
        return BELL_OK;
    for (i = 0; i < group->n_members; i++)
        n += reduces[i].inst->n_copies;
    parts = arena_alloc(&e->k->mem, n * sizeof(*parts));
    if (!parts)
        return expand_no_memory(e);
    for (n = 0, i = 0; i < group->n_members; i++) {
        struct expand_inst *inst = reduces[i].inst;
        for (copy = 0; copy < inst->n_copies; copy++, n++) {
            parts[n].op = reduces[i].op;
            parts[n].value =
                inst->vec >= 0 ? &inst->vector[copy] : &inst->scalar[copy];
        }
    }
    return expand_join_parts(e, group->bound, group->context, parts, n);
}

bell_status
expand_group(struct expand *e, const struct kernel_group *group)
{
    struct kernel *k = e->k;
    struct reduce *reduces;
    const struct uop **src, *end;
    uint32_t i, n = 0;
    size_t max = 1;
    bool done;

    assert(group->n_members > 0 && group->bound);
    if (k->matrix.on)
        return expand_matrix_group(e, group);
    if (k->tiled)
        return expand_tiles(e, group);
    if (k->digits)
        return expand_digits(e, group);
    if (k->by_rows)
        return expand_rows(e, group);
    BELL_TRY(expand_halves(e, group, &done));
    if (done)
        return expand_add_outside(e, group);
    reduces = arena_alloc(&k->mem, group->n_members * sizeof(*reduces));
    if (!reduces)
        return expand_no_memory(e);
    for (i = 0; i < group->n_members; i++) {
        BELL_TRY(begin_reduce(e, group, group->members[i], &reduces[i]));
        max += (size_t)reduces[i].inst->n_copies * reduces[i].n_parallel;
    }
    src = arena_alloc(&k->mem, (max + 1) * sizeof(*src));
    if (!src)
        return expand_no_memory(e);
    for (i = 0; i < group->n_members; i++) {
        BELL_TRY(make_body(e, group, &reduces[i], src + 1 + n));
        if (group->bound & e->loops)
            n += reduces[i].inst->n_copies * reduces[i].n_parallel;
    }
    end = expand_close_loops(e, group->bound, src, n);
    for (i = 0; i < group->n_members; i++)
        finish_reduce(e, group, &reduces[i], end);
    BELL_TRY(join_threads(e, group, reduces));
    return expand_add_outside(e, group);
}

/* ---- stores ---- */

static bell_status
add_effect(struct expand *e, uint64_t loops, const struct uop *node)
{
    struct expand_effect *effect = arena_alloc(&e->k->mem, sizeof(*effect));
    uint32_t at =
        loops ? 63u - (uint32_t)__builtin_clzll(loops) : KERNEL_MAX_RANGES;

    if (!effect)
        return expand_no_memory(e);
    effect->node = node;
    effect->next = e->effects[at];
    e->effects[at] = effect;
    return BELL_OK;
}

bell_status
expand_add_store(struct expand *e, uint64_t deps, const struct uop *store)
{
    uint64_t loops = deps & e->loops;

    assert(store->op == UOP_STORE || e->g->failed);
    if (loops) {
        uint32_t inner = 63u - (uint32_t)__builtin_clzll(loops);
        e->around[inner] |= loops & ~((uint64_t)1 << inner);
    }
    return add_effect(e, loops, store);
}

/* The effects of a list, in the order they were added, after src[0]. */
static bell_status
list_effects(struct expand *e, const struct expand_effect *first,
             const struct uop ***out_src, uint32_t *out_n)
{
    const struct expand_effect *effect;
    const struct uop **src;
    uint32_t n = 0, i;

    for (effect = first; effect; effect = effect->next)
        n++;
    src = arena_alloc(&e->k->mem, (n + 1) * sizeof(*src));
    if (!src)
        return expand_no_memory(e);
    for (effect = first, i = n; effect; effect = effect->next)
        src[i--] = effect->node;
    *out_src = src;
    *out_n = n;
    return BELL_OK;
}

bell_status
expand_close(struct expand *e, const struct uop **out_sink)
{
    const struct uop **src;
    uint32_t r, n;

    for (r = e->k->n_ranges; r-- > 0;) {
        uint64_t around = e->around[r];
        if (!e->effects[r])
            continue;
        BELL_TRY(list_effects(e, e->effects[r], &src, &n));
        if (e->barrier_ends >> r & 1) {
            src[1] =
                uop_new(e->g, UOP_BARRIER, UOP_VOID, 1, no_arg, src + 1, n);
            n = 1;
        }
        if (around) {
            uint32_t outer = 63u - (uint32_t)__builtin_clzll(around);
            e->around[outer] |= around & ~((uint64_t)1 << outer);
        }
        BELL_TRY(add_effect(e, around, make_end(e, r, src, n)));
    }
    BELL_TRY(list_effects(e, e->effects[KERNEL_MAX_RANGES], &src, &n));
    *out_sink = uop_new(e->g, UOP_SINK, UOP_VOID, 1, no_arg, src + 1, n);
    return uop_graph_status(e->g);
}
