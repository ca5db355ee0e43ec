/* Operands of matrix instructions out of LOCAL memory by ldmatrix.
 *
 * What a thread has of an operand are pairs of halves, register r of it at
 *     base + c[r] and, next to it or a row further on, its other half,
 * where base varies within the warp as 2 t + R g (rows of R elements) or, of
 * a matrix that lies the other way, as 2 R t + g. Of bytes it has fours, which
 * must lie side by side: they pass as two halves. ldmatrix takes those from
 * whole rows of 8, of which each thread names one: thread 8 j + i names row i
 * of the matrix that register j is from. So a thread's address is its own
 *     base + i R + (j & 1) (c[1] - c[0]) + (j / 2) (c[2] - c[0])
 * less what base has of t and g: a number of its own that is the same for
 * all addresses of an operand, made at the kernel's entry.
 *
 * All that is found out from the program before code is made: LOADs whose
 * values only go into such operands are left out then. src: hw/nv/PTX.md
 * section 7
 */
#include "render/ptx/ptx_internal.h"

#include <stdio.h>

#include "base/alloc.h"

#define MAX_LANES 16

/* The plan of an operand. */
struct plan {
    const struct uop *load, *base;
    int64_t first, d1, d2, rows; /* c[0], differences of c, R */
    int64_t per_t, per_g;
    uint32_t n_regs, pack; /* registers, elements in each */
    bool trans;
};

/* What is found out of the nodes. */
struct finder {
    struct ptx_emit *e;
    struct map index; /* ids -> places in forms */
    struct ptx_form *forms;
    struct map uses, taken; /* ids -> uses, and uses by operands planned */
    uint32_t n_plans;
};

static struct ptx_form
form_of(const struct finder *f, const struct uop *u)
{
    const uint64_t *at = map_get(&f->index, u->id);

    return at ? f->forms[*at] : ptx_form_of(f->e, u, NULL);
}

static bell_status
find_forms(struct finder *f)
{
    const struct lower_program *p = f->e->prog;
    struct ptx_form src[3];
    uint32_t i, j;

    f->forms = arena_alloc(&f->e->arena, (p->n_ops + 1) * sizeof(*f->forms));
    if (!f->forms)
        return ptx_no_memory(f->e);
    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];
        f->forms[i] = (struct ptx_form){.shift = -1};
        for (j = 0; j < u->n_src && j < 3; j++)
            src[j] = form_of(f, u->src[j]);
        if (u->n_src <= 3 && u->lanes == 1)
            f->forms[i] = ptx_form_of(f->e, u, src);
        if (map_put(&f->index, u->id, i) < 0)
            return ptx_no_memory(f->e);
    }
    return BELL_OK;
}

static bell_status
count(struct finder *f, struct map *map, const struct uop *u, uint64_t n)
{
    const uint64_t *old = map_get(map, u->id);

    return map_put(map, u->id, (old ? *old : 0) + n) < 0 ? ptx_no_memory(f->e)
                                                         : BELL_OK;
}

static uint64_t
get(const struct map *map, const struct uop *u)
{
    const uint64_t *n = map_get(map, u->id);

    return n ? *n : 0;
}

/* ---- plans ---- */

/* The LOAD behind a lane of an operand, and which element of it. */
static const struct uop *
load_of(const struct uop *lane, int64_t *out_element)
{
    *out_element = lane->op == UOP_LANE ? lane->arg.i : 0;
    if (lane->op == UOP_LANE)
        lane = lane->src[0];
    return lane->op == UOP_LOAD && lane->n_src == 2 ? lane : NULL;
}

/* Where the lanes lie, from a common base; false where there is none. */
static bool
find_places(const struct finder *f, const struct uop *u, struct plan *plan,
            int64_t at[MAX_LANES])
{
    const struct uop *load, *index, *memory = NULL;
    uint32_t i;

    for (i = 0; i < u->lanes; i++) {
        load = load_of(u->src[i], &at[i]);
        if (!load || load->src[1]->lanes != 1 ||
            ptx_place(f->e, load) != ptx_place(f->e, u))
            return false;
        index = load->src[1];
        if (index->op == UOP_ADD && index->src[1]->op == UOP_CONST) {
            at[i] += index->src[1]->arg.i;
            index = index->src[0];
        }
        if (i == 0) {
            plan->load = load;
            plan->base = index;
            memory = load->src[0];
        }
        if (index != plan->base || load->src[0] != memory)
            return false;
    }
    while (memory->op == UOP_AFTER)
        memory = memory->src[0];
    return memory->op == UOP_LOCAL && memory->dtype == u->dtype;
}

/* Do the lanes lie as ldmatrix gives them? */
static bool
fits(const struct finder *f, struct plan *plan, const int64_t *at)
{
    struct ptx_form base = form_of(f, plan->base);
    int64_t next = at[1] - at[0], all;
    uint32_t r, pack = plan->pack;

    for (r = 0; r < plan->n_regs * pack; r++) {
        if (at[r] - at[r / pack * pack] != r % pack * next)
            return false;
    }
    plan->first = at[0];
    plan->d1 = plan->n_regs > 1 ? at[pack] - at[0] : 0;
    plan->d2 = plan->n_regs > 2 ? at[2 * pack] - at[0] : 0;
    if (plan->n_regs == 4 && at[3 * pack] - at[0] != plan->d1 + plan->d2)
        return false;
    plan->per_t = base.per_t;
    plan->per_g = base.per_g;
    if (!base.is_known || base.per_t != pack * next)
        return false;
    plan->trans = next != 1;
    if (plan->trans && pack != 2)
        return false;
    plan->rows = plan->trans ? next : base.per_g;
    if (plan->trans && base.per_g != 1)
        return false;
    /* rows of 8 begin at multiples of 16 bytes */
    all = plan->rows | plan->d1 | plan->d2 | plan->first | (int64_t)base.align;
    return plan->rows > 0 && (all & (4 * pack - 1)) == 0;
}

static bool
make_plan(const struct finder *f, const struct uop *u, struct plan *plan)
{
    int64_t at[MAX_LANES];

    plan->pack = ptx_packed(u->dtype);
    plan->n_regs = u->lanes / plan->pack;
    return find_places(f, u, plan, at) && fits(f, plan, at);
}

/* A collected operand of halves or bytes that only matrix instructions take. */
static bool
is_operand(const struct finder *f, const struct uop *u)
{
    uint32_t pack = ptx_packed(u->dtype);

    return u->op == UOP_LANES && pack > 1 &&
           (u->lanes == pack || u->lanes == 2 * pack || u->lanes == 4 * pack) &&
           u->n_src == u->lanes && get(&f->uses, u) == get(&f->taken, u);
}

static bell_status
plan_operand(struct finder *f, const struct uop *u)
{
    struct ptx_emit *e = f->e;
    struct plan plan = {.n_regs = 0}, *copy;
    uint32_t i;

    if (!make_plan(f, u, &plan))
        return BELL_OK;
    copy = arena_copy(&e->arena, &plan, sizeof(plan));
    if (!copy || map_put(&e->matrices, u->id, (uintptr_t)copy) < 0)
        return ptx_no_memory(e);
    f->n_plans++;
    for (i = 0; i < u->n_src; i++)
        BELL_TRY(count(f, &f->taken, u->src[i], 1));
    return BELL_OK;
}

/* LANEs and LOADs that nobody else uses are left out. */
static bell_status
leave_out(struct finder *f)
{
    const struct lower_program *p = f->e->prog;
    uint32_t i;

    for (i = p->n_ops; i > 0; i--) {
        const struct uop *u = p->ops[i - 1];
        if ((u->op != UOP_LANE && u->op != UOP_LOAD) || !get(&f->taken, u) ||
            get(&f->uses, u) != get(&f->taken, u))
            continue;
        if (map_put(&f->e->left_out, u->id, 1) < 0)
            return ptx_no_memory(f->e);
        if (u->op == UOP_LANE)
            BELL_TRY(count(f, &f->taken, u->src[0], 1));
    }
    return BELL_OK;
}

static bell_status
find_all(struct finder *f)
{
    const struct lower_program *p = f->e->prog;
    bool any = false;
    uint32_t i, j;

    for (i = 0; i < p->n_ops; i++)
        any |= p->ops[i]->op == UOP_WMMA;
    if (!any)
        return BELL_OK;
    BELL_TRY(find_forms(f));
    for (i = 0; i < p->n_ops; i++) {
        for (j = 0; j < p->ops[i]->n_src; j++) {
            BELL_TRY(count(f, &f->uses, p->ops[i]->src[j], 1));
            if (p->ops[i]->op == UOP_WMMA && j < 2)
                BELL_TRY(count(f, &f->taken, p->ops[i]->src[j], 1));
        }
    }
    for (i = 0; i < p->n_ops; i++) {
        if (is_operand(f, p->ops[i]))
            BELL_TRY(plan_operand(f, p->ops[i]));
    }
    return f->n_plans ? leave_out(f) : BELL_OK;
}

bell_status
ptx_find_matrices(struct ptx_emit *e)
{
    struct finder f = {.e = e};
    bell_status status;

    map_init(&f.index);
    map_init(&f.uses);
    map_init(&f.taken);
    status = find_all(&f);
    map_fini(&f.taken);
    map_fini(&f.uses);
    map_fini(&f.index);
    return status;
}

/* ---- instructions ---- */

/* What a thread adds to its own address, in bytes; made once, at the kernel's
 * entry. */
static bell_status
own_offset(struct ptx_emit *e, const struct plan *p, struct ptx_opnd *out)
{
    const int64_t parts[] = {p->rows, p->d1, p->d2, p->per_t, p->per_g};
    int64_t bytes = 4 / p->pack;
    uint64_t key = (uint64_t)bytes << 1 | p->trans;
    const uint64_t *old;
    unsigned l, v, s;
    int i;

    for (i = 0; i < 5; i++)
        key = hash_add(key, (uint64_t)parts[i]);
    old = map_get(&e->matrix_offsets, key);
    if (old) {
        *out = (struct ptx_opnd){.cls = PTX_B32, .reg = (uint32_t)*old};
        return BELL_OK;
    }
    l = ptx_reg(e, PTX_B32).reg;
    v = ptx_reg(e, PTX_B32).reg;
    s = ptx_reg(e, PTX_B32).reg;
    ptx_put(&e->header,
            "\tmov.u32 %%r%u, %%laneid;\n\tand.b32 %%r%u, %%r%u, 7;\n", l, v,
            l);
    ptx_put(&e->header, "\tmul.lo.s32 %%r%u, %%r%u, %lld;\n", v, v,
            (long long)(p->rows * bytes));
    ptx_put(&e->header,
            "\tbfe.u32 %%r%u, %%r%u, 3, 1;\n\tmad.lo.s32 %%r%u, %%r%u, %lld, "
            "%%r%u;\n",
            s, l, v, s, (long long)(p->d1 * bytes), v);
    ptx_put(&e->header,
            "\tshr.u32 %%r%u, %%r%u, 4;\n\tmad.lo.s32 %%r%u, %%r%u, %lld, "
            "%%r%u;\n",
            s, l, v, s, (long long)(p->d2 * bytes), v);
    ptx_put(&e->header,
            "\tand.b32 %%r%u, %%r%u, 3;\n\tmad.lo.s32 %%r%u, %%r%u, %lld, "
            "%%r%u;\n",
            s, l, v, s, (long long)(p->per_t * -bytes), v);
    ptx_put(&e->header,
            "\tshr.u32 %%r%u, %%r%u, 2;\n\tmad.lo.s32 %%r%u, %%r%u, %lld, "
            "%%r%u;\n",
            s, l, v, s, (long long)(p->per_g * -bytes), v);
    *out = (struct ptx_opnd){.cls = PTX_B32, .reg = v};
    return map_put(&e->matrix_offsets, key, v) < 0 ? ptx_no_memory(e) : BELL_OK;
}

/* The address that a thread names; kept while its loop is open. */
static bell_status
row_address(struct ptx_emit *e, const struct plan *p, struct ptx_opnd *out)
{
    struct ptx_access a;
    struct ptx_fact unused;
    struct ptx_opnd own, base;
    uint64_t key;

    BELL_TRY(ptx_take_apart(e, p->load, &a));
    BELL_TRY(own_offset(e, p, &own));
    key = hash_add(hash_add(own.reg + 1, p->base->id), a.memory->id);
    if (ptx_kept_address(e, key, out, &unused))
        return BELL_OK;
    BELL_TRY(ptx_find_address(e, &a, p->base, 0, &base, &unused));
    *out = ptx_reg(e, PTX_B32);
    PTX_OP(e, "add.s32 %, %, %", *out, base, own);
    return ptx_keep_address(e, key, *out, (struct ptx_fact){0, 0, 1});
}

bool
ptx_is_matrix(const struct ptx_emit *e, const struct uop *u)
{
    return map_get(&e->matrices, u->id) != NULL;
}

bool
ptx_is_left_out(const struct ptx_emit *e, const struct uop *u)
{
    return map_get(&e->left_out, u->id) != NULL;
}

bell_status
ptx_emit_matrix(struct ptx_emit *e, const struct uop *u,
                struct ptx_value *out_value)
{
    const struct plan *p =
        (const struct plan *)(uintptr_t)*map_get(&e->matrices, u->id);
    struct ptx_opnd *lanes = arena_calloc(&e->arena, u->lanes, sizeof(*lanes));
    struct ptx_opnd o[5];
    char fmt[128], place[24] = "[%]";
    uint32_t i;

    if (!lanes)
        return ptx_no_memory(e);
    for (i = 0; i < p->n_regs; i++)
        o[i] = ptx_reg(e, PTX_B32);
    BELL_TRY(row_address(e, p, &o[p->n_regs]));
    if (p->first)
        snprintf(place, sizeof(place), "[%%+%lld]",
                 (long long)(p->first * (4 / p->pack)));
    snprintf(fmt, sizeof(fmt),
             "ldmatrix.sync.aligned.m8n8.x%u%s.shared.b16 {%s}, %s", p->n_regs,
             p->trans ? ".trans" : "",
             p->n_regs == 4   ? "%, %, %, %"
             : p->n_regs == 2 ? "%, %"
                              : "%",
             place);
    ptx_op(e, fmt, o);
    /* parts of words, with no registers of their own: a matrix instruction
     * takes the words */
    for (i = 0; i < u->lanes; i++)
        lanes[i] = (struct ptx_opnd){.cls = (uint8_t)ptx_class_of(u->dtype),
                                     .part = (uint8_t)(i % p->pack),
                                     .word = o[i / p->pack].reg + 1};
    *out_value =
        (struct ptx_value){.lanes = lanes, .fact = {INT64_MIN, INT64_MAX, 1}};
    return BELL_OK;
}
