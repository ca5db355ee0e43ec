/* Schedules: what is told, and what was made. */
#include "lower/opt/opt_told.h"

#include <assert.h>
#include <string.h>

#include "lower/opt/opt_rules.h"

#define MAX_COPIES 64
#define MAX_UNROLL 64
#define MAX_LANES  64
#define MAX_TILE   32                      /* registers of a product's tile */
#define MAX_RANGES (KERNEL_MAX_RANGES / 4) /* of a kernel that is told */

bool
opt_is_told(const struct kernel *k)
{
    return k->told && k->told->n_actions &&
           k->told->actions[0].kind != LOWER_WITHOUT;
}

bool
opt_told(const struct kernel *k, enum lower_action_kind kind, int32_t *n)
{
    uint32_t i;

    for (i = 0; k->told && i < k->told->n_actions; i++) {
        if (k->told->actions[i].kind != kind)
            continue;
        if (n)
            memcpy(n, k->told->actions[i].n, sizeof(k->told->actions[i].n));
        return true;
    }
    return false;
}

bool
opt_is_without(const struct kernel *k, uint32_t form)
{
    int32_t n[LOWER_ACTION_ARGS];

    return opt_told(k, LOWER_WITHOUT, n) && (uint32_t)n[0] & form;
}

bool
opt_may_try(const struct kernel *k, enum lower_action_kind kind, uint32_t form)
{
    return opt_is_told(k) ? opt_told(k, kind, NULL) : !opt_is_without(k, form);
}

void
opt_made(const struct kernel *k, enum lower_action_kind kind, int64_t n0,
         int64_t n1, int64_t n2, int64_t n3, int64_t n4)
{
    struct lower_schedule *s = k->made ? &k->made->schedule : NULL;

    if (!s || s->n_actions == UINT32_MAX)
        return;
    if (s->n_actions == LOWER_MAX_ACTIONS) { /* too many to be said */
        s->n_actions = UINT32_MAX;
        return;
    }
    s->actions[s->n_actions++] = (struct lower_action){
        (uint8_t)kind,
        {(int32_t)n0, (int32_t)n1, (int32_t)n2, (int32_t)n3, (int32_t)n4}};
}

void
opt_unmake(const struct kernel *k)
{
    if (k->made)
        k->made->schedule.n_actions = 0;
}

void
opt_made_of(const struct kernel *k, const struct opt_model *m)
{
    struct lower_made *made = k->made;
    uint32_t r;

    if (!made)
        return;
    made->n_ranges = k->n_ranges;
    made->reduce_ranges = k->reduce_ranges;
    for (r = 0; r < k->n_ranges; r++) {
        int64_t lanes = m ? opt_model_lanes(m, r, true) : 0;
        made->sizes[r] = k->sizes[r];
        made->lanes[r] = lanes <= MAX_LANES ? (uint8_t)lanes : MAX_LANES;
    }
}

/* ---- a CPU's choice ---- */

/* Takes the number over into the choice for a range. */
static bell_status
take_number(const struct opt_model *m, const struct lower_action *a,
            int64_t *list, int64_t most)
{
    if (a->n[0] < 0 || (uint32_t)a->n[0] >= m->k->n_ranges)
        return bell_fail(BELL_E_INVALID, "no range %d", a->n[0]);
    if (a->n[1] < 2 || a->n[1] > most || m->k->sizes[a->n[0]] < 2)
        return bell_fail(BELL_E_INVALID, "range %d cannot be cut by %d",
                         a->n[0], a->n[1]);
    list[a->n[0]] = a->n[1];
    return BELL_OK;
}

/* Can the range be cut as chosen? */
static bool
fits_range(struct kernel *k, const struct opt_choice *choice, uint32_t r)
{
    int64_t size = k->sizes[r], lanes = choice->lanes[r];
    int64_t copies = choice->copies[r], unroll = choice->unroll[r];

    assert(r < k->n_ranges);
    if (lanes * copies * unroll == 1)
        return true;
    if (k->reduce_ranges >> r & 1 && kernel_open(k, r))
        return false; /* its loop ends at the size */
    if (k->reduce_ranges >> r & 1)
        return lanes * copies <= size && size / lanes / copies % unroll == 0 &&
               (lanes * copies > 1 || size % unroll == 0);
    if (unroll > 1 || lanes > size || (size + lanes - 1) / lanes < copies)
        return false;
    return choice->overlap || size % (lanes * copies) == 0;
}

bell_status
opt_choose_told(const struct opt_model *m, struct opt_choice *choice)
{
    const struct kernel *k = m->k;
    int32_t form[LOWER_ACTION_ARGS];
    uint32_t i, r;

    if (k->n_ranges > MAX_RANGES ||
        (!opt_told(k, LOWER_LOOPS, NULL) && !opt_told(k, LOWER_PRODUCT, NULL)))
        return bell_fail(BELL_E_INVALID, "no schedule for this kernel");
    if (opt_told(k, LOWER_PRODUCT, form)) {
        opt_choose_product(m, choice);
        if (!choice->product.on || choice->product.tiled != (form[0] == 2))
            return bell_fail(BELL_E_INVALID, "no such product");
        if (!choice->product.tiled)
            choice->product.packs_rows = form[0] == 1;
        for (r = 0; r < k->n_ranges; r++) {
            if (k->reduce_ranges >> r & 1)
                choice->unroll[r] = 1;
        }
    }
    for (i = 0; i < k->told->n_actions; i++) {
        const struct lower_action *a = &k->told->actions[i];
        if (a->kind == LOWER_VECTOR)
            BELL_TRY(take_number(m, a, choice->lanes, MAX_LANES));
        else if (a->kind == LOWER_UPCAST)
            BELL_TRY(take_number(m, a, choice->copies, MAX_COPIES));
        else if (a->kind == LOWER_UNROLL)
            BELL_TRY(take_number(m, a, choice->unroll, MAX_UNROLL));
    }
    for (r = 0; r < k->n_ranges; r++) {
        if (!fits_range(m->k, choice, r))
            return bell_fail(BELL_E_INVALID,
                             "range %u of %lld values cannot be cut so", r,
                             (long long)k->sizes[r]);
    }
    if (choice->product.on && !opt_product_fits(k, choice, MAX_TILE))
        return bell_fail(BELL_E_INVALID, "no such tile of a product");
    return BELL_OK;
}

void
opt_made_choice(const struct kernel *k, const struct opt_choice *choice)
{
    const struct opt_product *p = &choice->product;
    uint32_t r;

    if (p->on)
        opt_made(k, LOWER_PRODUCT, p->tiled ? 2 : p->packs_rows, 0, 0, 0, 0);
    else
        opt_made(k, LOWER_LOOPS, 0, 0, 0, 0, 0);
    for (r = 0; r < choice->n_folds; r++)
        opt_made(k, LOWER_FOLD, choice->folds[r].a, choice->folds[r].b, 0, 0,
                 0);
    if (k->made) {
        k->made->row = p->on ? p->row : UINT32_MAX;
        k->made->column = p->on ? p->column : UINT32_MAX;
    }
    for (r = 0; r < k->n_ranges; r++) {
        if (choice->lanes[r] > 1)
            opt_made(k, LOWER_VECTOR, r, choice->lanes[r], 0, 0, 0);
        if (choice->copies[r] > 1)
            opt_made(k, LOWER_UPCAST, r, choice->copies[r], 0, 0, 0);
        if (k->reduce_ranges >> r & 1 && choice->unroll[r] > 1)
            opt_made(k, LOWER_UNROLL, r, choice->unroll[r], 0, 0, 0);
    }
}

/* ---- loops ---- */

bell_status
opt_tell_loops(struct opt_plan *plan, const uint32_t *loops, bool *out_told)
{
    const struct kernel *k = plan->k;
    uint32_t i, pass;

    *out_told = opt_told(k, LOWER_ORDER, NULL) || opt_told(k, LOWER_GRID, NULL);
    for (pass = 0; pass < 2 && *out_told; pass++) {
        for (i = 0; i < k->told->n_actions; i++) {
            const struct lower_action *a = &k->told->actions[i];
            int64_t n = a->n[1], size;
            uint32_t axis;
            if (a->kind != (pass ? LOWER_GRID : LOWER_ORDER))
                continue;
            if (a->n[0] < 0 || (uint32_t)a->n[0] >= k->n_ranges ||
                k->reduce_ranges >> a->n[0] & 1)
                return bell_fail(BELL_E_INVALID, "no loop %d", a->n[0]);
            axis = loops[a->n[0]];
            size = plan->axes[axis].size;
            if (!pass && n >= 0 && n < KERNEL_MAX_RANGES)
                plan->axes[axis].rank = (int32_t)n - KERNEL_MAX_RANGES;
            else if (!pass || n < 2 || n > size ||
                     !(n == size ? opt_retype(plan, axis, UOP_AXIS_GLOBAL)
                                 : opt_split(plan, axis, n, UOP_AXIS_GLOBAL,
                                             OPT_OUTER, NULL, NULL)))
                return bell_fail(BELL_E_INVALID, "loop %d of %lld: not %lld",
                                 a->n[0], (long long)size, (long long)n);
        }
    }
    return BELL_OK;
}

void
opt_made_loops(const struct opt_plan *plan, const uint32_t *loops)
{
    const struct kernel *k = plan->k;
    uint32_t r, other, place;

    for (r = 0; r < k->n_ranges; r++) {
        const struct opt_axis *a = &plan->axes[loops[r]];
        if (k->reduce_ranges >> r & 1)
            continue;
        if (a->rank < 0) {
            for (place = 0, other = 0; other < k->n_ranges; other++)
                place += !(k->reduce_ranges >> other & 1) &&
                         plan->axes[loops[other]].rank < a->rank;
            opt_made(k, LOWER_ORDER, r, place, 0, 0, 0);
        }
        if (a->outer >= 0)
            a = &plan->axes[a->outer];
        if (a->type == UOP_AXIS_GLOBAL && a->size > 1)
            opt_made(k, LOWER_GRID, r, a->size, 0, 0, 0);
    }
}
