/* The walk over a program: control flow, variables, lanes; the object. */
#include "render/ir3/ir3.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "render/ir3/ir3_emit.h"
#include "render/render_internal.h"

/* src: docs/hardware/adreno.md, "Chips" */
#define MAX_SHARED_BYTES 32768
#define MAX_CONSTS       1024 /* of a6xx; twice as many on a7xx */

static bell_status
no_memory(const struct ir3_emit *e)
{
    return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                     e->prog->name);
}

bell_status
ir3_refuse(const struct ir3_emit *e, const struct uop *u, const char *why)
{
    char text[160];

    return bell_fail(BELL_E_INTERNAL, "%s: %s: %s", e->prog->name,
                     uop_expr_str(u, text, sizeof(text)), why);
}

/* ---- values ---- */

static struct ir3_lane
ir3_constant(const struct uop *u)
{
    uint64_t bits =
        uop_is_float(u) ? uop_float_bits(u->dtype, u->arg.f) : u->arg.bits;

    return (struct ir3_lane){
        ir3_imm((uint32_t)bits),
        ir3_imm(ir3_is_64(u->dtype) ? (uint32_t)(bits >> 32) : 0)};
}

static bell_status
leaf(struct ir3_emit *e, const struct uop *u, const struct ir3_lane **out)
{
    struct ir3_lane *v = arena_alloc(&e->arena, sizeof(*v));
    uint32_t slot = (uint32_t)u->arg.i;

    assert(u->op == UOP_CONST || u->op == UOP_PARAM || u->op == UOP_VAR);
    if (!v)
        return no_memory(e);
    if (u->op == UOP_CONST) {
        *v = ir3_constant(u);
    } else {
        v->lo = ir3_arg_word(e, slot, 0);
        v->hi = u->op == UOP_VAR && !ir3_is_64(u->dtype)
                    ? ir3_imm(0)
                    : ir3_arg_word(e, slot, 1);
    }
    *out = v;
    return BELL_OK;
}

bell_status
ir3_value_of(struct ir3_emit *e, const struct uop *u,
             const struct ir3_lane **out)
{
    const uint64_t *at;

    if (u->op == UOP_CONST || u->op == UOP_PARAM || u->op == UOP_VAR)
        return leaf(e, u, out);
    at = map_get(&e->index, u->id);
    if (!at || !e->values[*at].lanes)
        return ir3_refuse(e, u, "it is used where it has no value");
    *out = e->values[*at].lanes;
    return BELL_OK;
}

static bell_status
set_ir3_value(struct ir3_emit *e, const struct uop *u, const struct ir3_lane *v)
{
    assert(e->n_values < e->prog->n_ops && !map_get(&e->index, u->id));
    e->values[e->n_values].lanes = v;
    if (map_put(&e->index, u->id, e->n_values) < 0)
        return no_memory(e);
    e->n_values++;
    return BELL_OK;
}

/* ---- loops and conditions ---- */

static void
deeper(struct ir3_emit *e)
{
    if (++e->depth > e->max_depth)
        e->max_depth = e->depth;
}

/* 0 or 1: is the loop's index below its extent? */
static struct ir3_opnd
goes_on(struct ir3_emit *e, const struct ir3_loop *loop)
{
    if (ir3_is_64(loop->range->dtype))
        return ir3_less64(e, true, loop->index, loop->extent);
    return ir3_compare(e, IR3_CMPS_S, IR3_LT, loop->index.lo, loop->extent.lo);
}

static bell_status
begin_ir3_loop(struct ir3_emit *e, const struct uop *u)
{
    struct ir3_loop *loop = &e->loops[e->n_loops++];
    struct ir3_lane *index = arena_alloc(&e->arena, sizeof(*index));
    bool is_64 = ir3_is_64(u->dtype);
    const struct ir3_lane *extent;

    assert(u->op == UOP_RANGE && u->src[0]->lanes == 1);
    if (!index)
        return no_memory(e);
    BELL_TRY(ir3_value_of(e, u->src[0], &extent));
    *loop = (struct ir3_loop){.range = u,
                              .counted = u->src[0]->op == UOP_CONST &&
                                         u->src[0]->arg.i > 0,
                              .top = ir3_label(e),
                              .done = ir3_label(e),
                              .extent = *extent};
    if (is_64 && u->src[0]->dtype != u->dtype)
        loop->extent = ir3_cast(e, u->src[0]->dtype, u->dtype, *extent);
    index->lo = ir3_vreg_new(e, 1, false);
    index->hi = is_64 ? ir3_vreg_new(e, 1, false) : ir3_imm(0);
    ir3_move(e, index->lo, ir3_imm(0));
    if (is_64)
        ir3_move(e, index->hi, ir3_imm(0));
    loop->index = *index;
    if (!loop->counted)
        ir3_branch(e, goes_on(e, loop), false, loop->done);
    ir3_place(e, loop->top);
    deeper(e);
    return set_ir3_value(e, u, index);
}

static bell_status
end_ir3_loop(struct ir3_emit *e, const struct uop *u)
{
    struct ir3_lane one = {ir3_imm(1), ir3_imm(0)}, next;
    struct ir3_loop *loop;

    if (e->n_loops == 0 || e->loops[e->n_loops - 1].range != u->src[0])
        return ir3_refuse(e, u, "loops do not nest");
    loop = &e->loops[--e->n_loops];
    if (ir3_is_64(loop->range->dtype)) {
        next = ir3_add64(e, loop->index, one);
        ir3_move(e, loop->index.hi, next.hi);
    } else {
        next.lo = ir3_op2(e, IR3_ADD_U, loop->index.lo, one.lo);
    }
    ir3_move(e, loop->index.lo, next.lo);
    ir3_branch(e, goes_on(e, loop), true, loop->top);
    ir3_place(e, loop->done);
    assert(e->depth > 0);
    e->depth--;
    return BELL_OK;
}

/* An IF's value is the label behind its ENDIF. */
static bell_status
begin_ir3_if(struct ir3_emit *e, const struct uop *u)
{
    struct ir3_lane *mark = arena_calloc(&e->arena, 1, sizeof(*mark));
    const struct ir3_lane *gate;

    if (!mark)
        return no_memory(e);
    BELL_TRY(ir3_value_of(e, u->src[0], &gate));
    mark->lo = ir3_imm(ir3_label(e));
    ir3_branch(e, gate->lo, false, mark->lo.v);
    deeper(e);
    return set_ir3_value(e, u, mark);
}

static bell_status
end_ir3_if(struct ir3_emit *e, const struct uop *u)
{
    const struct ir3_lane *mark;

    assert(u->src[0]->op == UOP_IF && e->depth > 0);
    BELL_TRY(ir3_value_of(e, u->src[0], &mark));
    assert(mark->lo.kind == IR3_IMM && mark->lo.v < e->n_labels);
    ir3_place(e, mark->lo.v);
    e->depth--;
    return BELL_OK;
}

/* ---- variables ---- */

static void
copy_lane(struct ir3_emit *e, bool is_64, struct ir3_lane *to,
          const struct ir3_lane *from)
{
    to->lo = ir3_vreg_new(e, 1, false);
    ir3_move(e, to->lo, from->lo);
    to->hi = is_64 ? ir3_vreg_new(e, 1, false) : ir3_imm(0);
    if (is_64)
        ir3_move(e, to->hi, from->hi);
}

/* A copy in new registers. */
static bell_status
copy_ir3_value(struct ir3_emit *e, const struct uop *u, const struct uop *from)
{
    struct ir3_lane *v = arena_alloc(&e->arena, u->lanes * sizeof(*v));
    const struct ir3_lane *src;
    uint32_t i;

    assert(from->dtype == u->dtype && from->lanes == u->lanes);
    if (!v)
        return no_memory(e);
    BELL_TRY(ir3_value_of(e, from, &src));
    for (i = 0; i < u->lanes; i++)
        copy_lane(e, ir3_is_64(u->dtype), &v[i], &src[i]);
    return set_ir3_value(e, u, v);
}

static bell_status
set_ir3_acc(struct ir3_emit *e, const struct uop *u)
{
    const struct uop *acc = uop_memory(u->src[0]);
    const struct ir3_lane *to, *from;
    uint32_t i;

    assert(acc->op == UOP_ACC && acc->lanes == u->src[1]->lanes);
    BELL_TRY(ir3_value_of(e, acc, &to));
    BELL_TRY(ir3_value_of(e, u->src[1], &from));
    for (i = 0; i < u->src[1]->lanes; i++) {
        ir3_move(e, to[i].lo, from[i].lo);
        if (ir3_is_64(acc->dtype))
            ir3_move(e, to[i].hi, from[i].hi);
    }
    return BELL_OK;
}

/* ---- sums ---- */

/* The sum of a loop is ACC_SET(acc, ... op(op(ACC_GET(acc)))), each used once:
 * it is computed in the variable's own registers, where nobody else looks. */

/* An op of the program under examination. */
struct link {
    const struct uop *acc; /* whose value this goes on from, or NULL */
    uint32_t n_uses, from; /* from: place of the source that does + 1 */
};

static void
find_links(const struct lower_program *p, const struct uop *const *ops,
           const struct map *place, struct link *links)
{
    uint32_t i, j, n;

    for (i = 0; i < p->n_ops; i++) {
        for (j = 0; j < ops[i]->n_src; j++) {
            const uint64_t *at = map_get(place, ops[i]->src[j]->id);
            if (at)
                links[*at].n_uses++;
        }
    }
    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = ops[i];
        if (u->op == UOP_ACC_GET && !ir3_is_64(u->dtype))
            links[i].acc = uop_memory(u->src[0]);
        if (!uop_has(u, UOP_FLAG_ALU))
            continue;
        for (j = n = 0; j < u->n_src; j++) {
            const uint64_t *at = map_get(place, u->src[j]->id);
            if (!at || !links[*at].acc || links[*at].n_uses != 1 ||
                u->src[j]->dtype != u->dtype || u->src[j]->lanes != u->lanes)
                continue;
            links[i].acc = links[*at].acc;
            links[i].from = (uint32_t)*at + 1;
            n++;
        }
        if (n != 1)
            links[i].acc = NULL;
    }
}

/* Does another ACC_GET of the variable lie between, or the beginning or end of
 * what is not always done? */
static bool
is_looked_at(const struct uop *const *ops, const struct uop *acc,
             uint32_t first, uint32_t last)
{
    uint32_t i;

    assert(acc->op == UOP_ACC && first <= last);
    for (i = first + 1; i < last; i++) {
        if (ops[i]->op == UOP_IF || ops[i]->op == UOP_ENDIF ||
            ops[i]->op == UOP_RANGE || ops[i]->op == UOP_END ||
            (ops[i]->op == UOP_ACC_GET && uop_memory(ops[i]->src[0]) == acc))
            return true;
    }
    return false;
}

static bell_status
find_sums(struct ir3_emit *e, const struct uop *const *ops)
{
    const struct lower_program *p = e->prog;
    struct link *links = arena_calloc(&e->arena, p->n_ops + 1, sizeof(*links));
    struct map place;
    uint32_t i, at;
    bool ok = true;

    e->accs = arena_alloc(&e->arena, (p->n_ops + 1) * sizeof(*e->accs));
    if (!links || !e->accs)
        return no_memory(e);
    map_init(&place);
    for (i = 0; i < p->n_ops && ok; i++)
        ok = map_put(&place, ops[i]->id, i) >= 0;
    if (ok)
        find_links(p, ops, &place, links);
    for (i = 0; i < p->n_ops && ok; i++) {
        const struct uop *u = ops[i];
        const uint64_t *last =
            u->op == UOP_ACC_SET ? map_get(&place, u->src[1]->id) : NULL;
        if (!last || links[*last].acc != uop_memory(u->src[0]) ||
            links[*last].n_uses != 1)
            continue;
        for (at = (uint32_t)*last; links[at].from; at = links[at].from - 1)
            ;
        if (is_looked_at(ops, links[at].acc, at, i))
            continue;
        assert(e->n_accs < p->n_ops);
        e->accs[e->n_accs] = links[at].acc;
        for (at = (uint32_t)*last + 1; at && ok; at = links[at - 1].from)
            ok = map_put(&e->sums, ops[at - 1]->id, e->n_accs) >= 0;
        e->n_accs++;
    }
    map_fini(&place);
    return ok ? BELL_OK : no_memory(e);
}

/* The lanes of the variable that `u` is computed in, or NULL. */
static const struct ir3_lane *
sum_of(struct ir3_emit *e, const struct uop *u)
{
    const uint64_t *at = map_get(&e->sums, u->id);
    const struct ir3_lane *lanes = NULL;

    if (at && ir3_value_of(e, e->accs[*at], &lanes) != BELL_OK)
        return NULL;
    return lanes;
}

/* Has the instruction before write the variable's register. */
static void
write_sum(struct ir3_emit *e, struct ir3_opnd to, struct ir3_opnd *value)
{
    struct ir3_insn *last = e->n_insns ? &e->insns[e->n_insns - 1] : NULL;

    assert(to.kind == IR3_REG);
    if (last && last->dst.kind == IR3_REG && value->kind == IR3_REG &&
        last->dst.v == value->v && last->op != IR3_OP_COUNT)
        last->dst = to;
    else
        ir3_move(e, to, *value);
    *value = to;
}

/* ---- ops ---- */

static bell_status
reduce_lanes(struct ir3_emit *e, const struct uop *u,
             const struct ir3_lane *src, struct ir3_lane *out)
{
    uint32_t n = u->src[0]->lanes, step, to, from;
    struct ir3_lane *v = arena_alloc(&e->arena, n * sizeof(*v)), next;
    const struct ir3_lane *pair[3] = {NULL, NULL, NULL};

    assert(u->op == UOP_LANES_REDUCE && u->lanes == 1);
    if (!v)
        return no_memory(e);
    memcpy(v, src, n * sizeof(*v));
    for (step = 0; step + 1 < n; step++) {
        render_join(n, step, &to, &from);
        pair[0] = &v[to];
        pair[1] = &v[from];
        next.lo = next.hi = ir3_imm(0);
        BELL_TRY(
            ir3_emit_alu(e, u, (enum uop_op)u->arg.i, u->dtype, pair, &next));
        v[to] = next;
    }
    *out = v[0];
    return BELL_OK;
}

static struct ir3_lane
ir3_bitcast(struct ir3_emit *e, unsigned from, unsigned to, struct ir3_lane a)
{
    assert(uop_dtype_infos[from].size_bytes == uop_dtype_infos[to].size_bytes);
    /* to bits, then as the dtype has them in a register */
    if (uop_dtype_infos[from].size_bytes < 4 &&
        uop_dtype_infos[from].is_signed && !uop_dtype_infos[from].is_float)
        a.lo = ir3_wrap(
            e, uop_dtype_infos[from].size_bytes == 1 ? UOP_U8 : UOP_U16, a.lo);
    if (uop_dtype_infos[to].size_bytes < 4 && !uop_dtype_infos[to].is_float)
        a.lo = ir3_wrap(e, to, a.lo);
    return a;
}

static bell_status
special(struct ir3_emit *e, const struct uop *u, struct ir3_lane *out)
{
    struct ir3_opnd from;

    if (u->arg.i < 0 || u->arg.i > 6 || u->arg.i == 3)
        return ir3_refuse(e, u, "no such coordinate");
    out->hi = ir3_imm(0);
    if (u->src[0]->op == UOP_CONST && u->src[0]->arg.i == 1) {
        out->lo = ir3_imm(0);
        return BELL_OK;
    }
    if (u->arg.i >= 4) {
        out->lo = ir3_part(e->tid, (unsigned)u->arg.i - 4);
        return BELL_OK;
    }
    from = (struct ir3_opnd){.kind = IR3_FIXED,
                             .v = IR3_REG_SHARED + (uint32_t)u->arg.i};
    out->lo = ir3_vreg_new(e, 1, false);
    ir3_move(e, out->lo, from);
    return BELL_OK;
}

static bell_status
lanes_of(struct ir3_emit *e, const struct uop *u, struct ir3_lane *out)
{
    const struct ir3_lane *src[3], *lane[3] = {NULL, NULL, NULL};
    const struct ir3_lane *sum = sum_of(e, u);
    uint32_t i, j, n = u->n_src < 3 ? u->n_src : 3;

    if (u->op == UOP_LANES) {
        for (i = 0; i < u->n_src; i++) {
            BELL_TRY(ir3_value_of(e, u->src[i], &src[0]));
            out[i] = *src[0];
        }
        return BELL_OK;
    }
    for (i = 0; i < n; i++)
        BELL_TRY(ir3_value_of(e, u->src[i], &src[i]));
    switch (u->op) {
    case UOP_SPECIAL:
        return special(e, u, out);
    case UOP_BROADCAST:
        for (i = 0; i < u->lanes; i++)
            out[i] = *src[0];
        return BELL_OK;
    case UOP_LANE:
        *out = src[0][u->arg.i];
        return BELL_OK;
    case UOP_RAMP:
        for (i = 0; i < u->lanes; i++)
            out[i] = (struct ir3_lane){ir3_imm(i), ir3_imm(0)};
        return BELL_OK;
    case UOP_LANES_REDUCE:
        return reduce_lanes(e, u, src[0], out);
    case UOP_CAST:
        for (i = 0; i < u->lanes; i++)
            out[i] = ir3_cast(e, u->src[0]->dtype, u->dtype, src[0][i]);
        return BELL_OK;
    case UOP_BITCAST:
        for (i = 0; i < u->lanes; i++)
            out[i] = ir3_bitcast(e, u->src[0]->dtype, u->dtype, src[0][i]);
        return BELL_OK;
    default:
        if (!uop_has(u, UOP_FLAG_ALU))
            return ir3_refuse(e, u, "these chips have no such thing");
        for (i = 0; i < u->lanes; i++) {
            for (j = 0; j < n; j++)
                lane[j] = &src[j][u->src[j]->lanes > 1 ? i : 0];
            out[i].hi = ir3_imm(0);
            BELL_TRY(ir3_emit_alu(e, u, (enum uop_op)u->op,
                                  u->src[u->op == UOP_WHERE]->dtype, lane,
                                  &out[i]));
            if (sum)
                write_sum(e, sum[i].lo, &out[i].lo);
        }
        return BELL_OK;
    }
}

/* Other instructions must not change a value that is made once: a value that is
 * a variable's register is a copy (ACC_GET). */
static bell_status
emit_value(struct ir3_emit *e, const struct uop *u)
{
    struct ir3_lane *v = arena_calloc(&e->arena, u->lanes, sizeof(*v));

    if (!v)
        return no_memory(e);
    if (u->op == UOP_INDEX)
        BELL_TRY(ir3_emit_index(e, u, v));
    else if (u->op == UOP_LOAD)
        BELL_TRY(ir3_emit_load(e, u, v));
    else
        BELL_TRY(lanes_of(e, u, v));
    return set_ir3_value(e, u, v);
}

static void
emit_ir3_barrier(struct ir3_emit *e)
{
    ir3_add(e, IR3_FENCE);
    ir3_add(e, IR3_BAR);
}

/* Float64 values are moved, and made float32; nothing else is computed with
 * them. */
static bool
computes_f64(const struct uop *u)
{
    unsigned i;

    switch (u->op) {
    case UOP_PARAM:
    case UOP_INDEX:
    case UOP_LOAD:
    case UOP_STORE:
        return false;
    case UOP_CAST:
        return u->dtype != UOP_F32 &&
               (u->dtype == UOP_F64 || u->src[0]->dtype == UOP_F64);
    default:
        break;
    }
    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->dtype == UOP_F64)
            return true;
    }
    return u->dtype == UOP_F64;
}

static bell_status
emit_ir3_one(struct ir3_emit *e, const struct uop *u)
{
    const struct ir3_lane *sum;

    if (computes_f64(u))
        return bell_fail(BELL_E_UNSUPPORTED, "%s: Adreno has no float64",
                         e->prog->name);
    switch (u->op) {
    case UOP_CONST:
    case UOP_PARAM:
    case UOP_VAR:
    case UOP_AFTER:
    case UOP_SINK:
    case UOP_LOCAL:
        return BELL_OK;
    case UOP_RANGE:
        return begin_ir3_loop(e, u);
    case UOP_END:
        return end_ir3_loop(e, u);
    case UOP_IF:
        return begin_ir3_if(e, u);
    case UOP_ENDIF:
        return end_ir3_if(e, u);
    case UOP_BARRIER:
        emit_ir3_barrier(e);
        return BELL_OK;
    case UOP_ACC:
        return copy_ir3_value(e, u, u->src[0]);
    case UOP_ACC_GET:
        sum = sum_of(e, u);
        return sum ? set_ir3_value(e, u, sum)
                   : copy_ir3_value(e, u, uop_memory(u->src[0]));
    case UOP_ACC_SET: /* what is a sum is there */
        return map_get(&e->sums, u->src[1]->id) ? BELL_OK : set_ir3_acc(e, u);
    case UOP_STORE:
        return ir3_emit_store(e, u);
    default:
        return emit_value(e, u);
    }
}

/* All that the program has are loaded before it begins: they are under way at
 * the same time then. */
static bell_status
load_arguments(struct ir3_emit *e)
{
    const struct lower_program *p = e->prog;
    uint32_t i, slot;
    unsigned n;

    if (e->gen != IR3_GEN_A7XX_3)
        return BELL_OK;
    e->args =
        arena_calloc(&e->arena, p->n_params + p->n_vars + 1, sizeof(*e->args));
    if (!e->args)
        return no_memory(e);
    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];
        slot = (uint32_t)u->arg.i;
        if ((u->op != UOP_PARAM && u->op != UOP_VAR) ||
            e->args[slot].kind != IR3_NONE)
            continue;
        assert(slot < p->n_params + p->n_vars);
        n = u->op == UOP_PARAM || ir3_is_64(u->dtype) ? 2 : 1;
        e->args[slot] = ir3_vreg_new(e, n, false);
        if (e->failed)
            return no_memory(e);
        e->vregs[e->args[slot].v].is_arg = true;
        e->vregs[e->args[slot].v].slot = 2 * slot;
        ir3_load_args(e, e->args[slot], 2 * slot, n);
    }
    return BELL_OK;
}

static bell_status
emit_ir3_body(struct ir3_emit *e)
{
    const struct lower_program *p = e->prog;
    const struct uop *const *ops = p->ops, *bad;
    uint32_t i, n_ranges = 0;

    if ((bad = render_bad_slot(p)) != NULL)
        return ir3_refuse(e, bad, "no such argument");
    if (2 * (p->n_params + p->n_vars) > MAX_CONSTS)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: %u arguments", p->name,
                         p->n_params + p->n_vars);
    for (i = 0; i < p->n_ops; i++)
        n_ranges += p->ops[i]->op == UOP_RANGE;
    BELL_TRY(render_order(p, false, &e->arena, &ops));
    e->values = arena_calloc(&e->arena, p->n_ops + 1, sizeof(*e->values));
    e->loops = arena_calloc(&e->arena, n_ranges + 1, sizeof(*e->loops));
    (void)ir3_vreg_new(e, 1, false); /* number 0 is none */
    e->tid = ir3_vreg_new(e, 3, false);
    if (!e->values || !e->loops || e->failed)
        return no_memory(e);
    e->vregs[e->tid.v].reg = 0;
    BELL_TRY(load_arguments(e));
    BELL_TRY(ir3_place_locals(e));
    BELL_TRY(find_sums(e, ops));
    BELL_TRY(ir3_order(e, &ops));
    for (i = 0; i < p->n_ops; i++) {
        BELL_TRY(emit_ir3_one(e, ops[i]));
        if (e->failed)
            return no_memory(e);
    }
    if (e->n_loops)
        return bell_fail(BELL_E_INTERNAL, "%s: %u loops are not closed",
                         p->name, e->n_loops);
    return BELL_OK;
}

/* ---- the object ---- */

static bell_status
make_object(struct ir3_emit *e, const uint64_t *words, uint32_t n,
            struct render_binary *out)
{
    const struct lower_program *p = e->prog;
    struct ir3_object head = {
        .magic = IR3_OBJECT_MAGIC,
        .version = IR3_OBJECT_VERSION,
        .gen = e->gen,
        .n_instrs = n,
        .n_full_vec4 = 1,
        .n_const_vec4 =
            e->args ? 0 : (uint32_t)align_up(p->n_params + p->n_vars, 2) / 2,
        .branch_depth = e->max_depth,
        .shared_bytes = e->shared_bytes,
        .private_bytes = e->private_bytes,
        .n_params = p->n_params,
        .n_vars = p->n_vars,
    };
    uint32_t i, last, k;
    char *data;

    assert(n > 0 && n % 16 == 0);
    for (i = 1; i < e->n_vregs; i++) {
        const struct ir3_vreg *v = &e->vregs[i];
        if (v->reg < 0)
            continue;
        for (k = 0; k < v->n; k++) {
            last = (uint32_t)v->reg + k;
            last = (v->is_half ? last / 2 : last) / 4 + 1;
            assert(last <= 48);
            if (last > head.n_full_vec4)
                head.n_full_vec4 = last;
        }
    }
    memcpy(head.local, p->local, sizeof(head.local));
    data = host_alloc(sizeof(head) + n * sizeof(*words));
    if (!data)
        return no_memory(e);
    memcpy(data, &head, sizeof(head));
    memcpy(data + sizeof(head), words, n * sizeof(*words));
    *out = (struct render_binary){data, sizeof(head) + n * sizeof(*words)};
    return BELL_OK;
}

static bell_status
ir3_compile(const struct lower_program *program, enum ir3_gen gen,
            bool is_narrow, struct render_binary *out_binary)
{
    struct ir3_emit e = {.prog = program, .gen = gen, .is_narrow = is_narrow};
    bell_status status;
    uint64_t *words;
    uint32_t n;

    arena_init(&e.arena);
    map_init(&e.index);
    map_init(&e.sums);
    map_init(&e.locals);
    status = emit_ir3_body(&e);
    if (status == BELL_OK)
        status = ir3_alloc(&e);
    if (status == BELL_OK)
        status = ir3_schedule(&e);
    if (status == BELL_OK)
        status = ir3_finish(&e, &words, &n);
    if (status == BELL_OK)
        status = make_object(&e, words, n, out_binary);
    map_fini(&e.locals);
    map_fini(&e.sums);
    map_fini(&e.index);
    arena_fini(&e.arena);
    return status;
}

/* Neighbours that find no room go one by one. */
bell_status
render_ir3(const struct lower_program *program, enum ir3_gen gen,
           struct render_binary *out_binary)
{
    bell_status status = ir3_compile(program, gen, false, out_binary);

    return status == BELL_E_COMPILE
               ? ir3_compile(program, gen, true, out_binary)
               : status;
}

bell_status
render_ir3_usage(const struct lower_program *program, enum ir3_gen gen,
                 struct render_usage *out_usage)
{
    const struct ir3_object *head;
    struct render_binary binary;

    BELL_TRY(render_ir3(program, gen, &binary));
    head = binary.data;
    *out_usage = (struct render_usage){.n_regs = 4 * head->n_full_vec4,
                                       .shared_bytes = head->shared_bytes,
                                       .stack_bytes = head->private_bytes,
                                       .spill_bytes = head->private_bytes};
    render_binary_fini(&binary);
    return BELL_OK;
}

void
render_ir3_count(const struct ir3_object *object, uint32_t *out_n_instrs,
                 uint32_t *out_n_idle)
{
    uint32_t n_instrs = 0, n_idle = 0, i;
    struct ir3_instr in = {.op = IR3_NOP};
    uint64_t word, unused;

    for (i = 0; i < object->n_instrs && in.op != IR3_END; i++) {
        memcpy(&word, (const char *)(object + 1) + 8 * i, 8);
        if (!ir3_decode((enum ir3_gen)object->gen, word, &in, &unused))
            continue;
        if (in.op == IR3_NOP)
            n_idle += 1 + in.f[IR3_F_REPEAT];
        else
            n_instrs++;
        if (ir3_op_has(in.op, IR3_F_SRC1_R) && ir3_op_has(in.op, IR3_F_SRC2_R))
            n_idle += in.f[IR3_F_SRC1_R] + 2 * in.f[IR3_F_SRC2_R];
    }
    *out_n_instrs = n_instrs;
    *out_n_idle = n_idle;
}

bell_status
render_ir3_text(const struct lower_program *program, enum ir3_gen gen,
                char **out_text)
{
    const struct ir3_object *head;
    struct render_binary binary;
    struct ir3_instr instr;
    uint64_t word, unused;
    size_t room, at = 0;
    uint32_t i, n_instrs, n_idle;
    char *text;

    BELL_TRY(render_ir3(program, gen, &binary));
    head = binary.data;
    render_ir3_count(head, &n_instrs, &n_idle);
    room = 256 + (size_t)head->n_instrs * (IR3_TEXT_MAX + 8);
    text = host_alloc(room);
    if (!text) {
        render_binary_fini(&binary);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for the text of %s",
                         program->name);
    }
    at += (size_t)snprintf(
        text, room,
        "// %.80s: %u registers, %u constants, %u bytes local, %u private; "
        "%u instructions, %u cycles of nop\n",
        program->name, 4 * head->n_full_vec4, 4 * head->n_const_vec4,
        head->shared_bytes, head->private_bytes, n_instrs, n_idle);
    for (i = 0; i < head->n_instrs; i++) {
        char line[IR3_TEXT_MAX];
        memcpy(&word, (const char *)binary.data + sizeof(*head) + 8 * i, 8);
        if (!ir3_decode(gen, word, &instr, &unused))
            continue;
        ir3_print(&instr, line);
        at += (size_t)snprintf(text + at, room - at, "%4u: %s\n", i, line);
    }
    render_binary_fini(&binary);
    *out_text = text;
    return BELL_OK;
}

bool
render_ir3_gen(const char *chip, enum ir3_gen *out_gen)
{
    static const enum ir3_gen gens[CHIP_ADRENO_GEN_COUNT] = {
        [CHIP_A6XX] = IR3_GEN_A6XX,
        [CHIP_A7XX] = IR3_GEN_A7XX,
        [CHIP_A7XX_FEW] = IR3_GEN_A7XX,
        [CHIP_A7XX_3] = IR3_GEN_A7XX_3,
    };
    const struct chip_arch *arch = chip_arch_find(chip);

    if (!arch || !arch->adreno.gen)
        return false;
    *out_gen = gens[arch->adreno.gen];
    return true;
}

void
render_ir3_lower_target(enum ir3_gen gen, struct lower_target *out_target)
{
    *out_target = (struct lower_target){
        .vector_bytes = 16,
        .lacks_f64 = true,
        .flushes_f32 = true,
        .is_gpu = true,
        .narrow_index = true,
        .warp_lanes = 64,
        .n_units = 2,
        .max_threads = 512,
        .max_regs = 64,
        .max_shared_bytes = MAX_SHARED_BYTES,
        .max_grid = {65535, 65535, 65535},
    };
    snprintf(out_target->name, sizeof(out_target->name), "ir3-%s",
             gen == IR3_GEN_A6XX   ? "a6xx"
             : gen == IR3_GEN_A7XX ? "a7xx"
                                   : "a7xx-3");
}
