/* Schedules near another one. */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "lower/opt/opt_told.h"
#include "lower/tune.h"

#define MAX_UNROLL 16

struct neighbour_list {
    const struct lower_made *made;
    const struct lower_target *target;
    struct lower_schedule *out;
    uint32_t n, cap;
};

/* ---- changes ---- */

static int32_t
number_of(const struct lower_schedule *s, enum lower_action_kind kind,
          uint32_t range)
{
    uint32_t i;

    for (i = 0; i < s->n_actions; i++) {
        if (s->actions[i].kind == kind && s->actions[i].n[0] == (int32_t)range)
            return s->actions[i].n[1];
    }
    return 1;
}

static void
remove_action(struct lower_schedule *s, uint32_t at)
{
    assert(at < s->n_actions);
    memmove(&s->actions[at], &s->actions[at + 1],
            (s->n_actions - at - 1) * sizeof(s->actions[0]));
    s->n_actions--;
}

/* Sets what a range is cut by; 1: it is not. */
static void
set_number(struct lower_schedule *s, enum lower_action_kind kind,
           uint32_t range, int64_t n)
{
    uint32_t i;

    for (i = 0; i < s->n_actions; i++) {
        if (s->actions[i].kind == kind && s->actions[i].n[0] == (int32_t)range)
            break;
    }
    if (n > 1 && i < LOWER_MAX_ACTIONS) {
        s->actions[i] =
            (struct lower_action){(uint8_t)kind, {(int32_t)range, (int32_t)n}};
        s->n_actions += i == s->n_actions;
    } else if (i < s->n_actions) {
        remove_action(s, i);
    }
}

/* The loops are what is left over: they are chosen anew where that changes. */
static void
drop_loops(struct lower_schedule *s)
{
    uint32_t i;

    for (i = s->n_actions; i-- > 0;) {
        unsigned kind = s->actions[i].kind;
        if (kind == LOWER_ORDER || kind == LOWER_GRID || kind == LOWER_PANELS ||
            kind == LOWER_PARTS || kind == LOWER_HEIGHT)
            remove_action(s, i);
    }
}

/* The next of the list: a copy of what was made, to be changed. NULL: there is
 * no room. */
static struct lower_schedule *
add_neighbour(struct neighbour_list *l)
{
    if (l->n == l->cap)
        return NULL;
    l->out[l->n] = l->made->schedule;
    return &l->out[l->n++];
}

static void
add_cut(struct neighbour_list *l, enum lower_action_kind kind, uint32_t range,
        int64_t n)
{
    struct lower_schedule *s;

    if (number_of(&l->made->schedule, kind, range) == n ||
        !(s = add_neighbour(l)))
        return;
    drop_loops(s);
    set_number(s, kind, range, n);
}

/* Changes the action's number `arg`. */
static void
add_number(struct neighbour_list *l, uint32_t action, uint32_t arg, int64_t n)
{
    struct lower_schedule *s;

    if (n < 0 || n > INT32_MAX ||
        l->made->schedule.actions[action].n[arg] == n ||
        !(s = add_neighbour(l)))
        return;
    s->actions[action].n[arg] = (int32_t)n;
}

/* ---- a CPU ---- */

/* A vector along r, in place of those that it may conflict with. */
static void
add_vectors(struct neighbour_list *l, uint32_t r)
{
    const struct lower_made *made = l->made;
    const struct lower_schedule *from = &made->schedule;
    uint8_t usual = made->lanes[r];
    struct lower_schedule *s;
    uint32_t other;

    if (number_of(from, LOWER_VECTOR, r) > 1) {
        add_cut(l, LOWER_VECTOR, r, 1);
        add_cut(l, LOWER_VECTOR, r, number_of(from, LOWER_VECTOR, r) / 2);
        return;
    }
    if (usual < 2)
        return;
    add_cut(l, LOWER_VECTOR, r, usual);
    for (other = 0; other < made->n_ranges; other++) {
        if (number_of(from, LOWER_VECTOR, other) < 2 || !(s = add_neighbour(l)))
            continue;
        drop_loops(s);
        set_number(s, LOWER_VECTOR, other, 1);
        set_number(s, LOWER_VECTOR, r, usual);
        if (!(s = add_neighbour(l))) /* as tall as it was wide */
            continue;
        drop_loops(s);
        set_number(s, LOWER_VECTOR, other, 1);
        set_number(s, LOWER_VECTOR, r, usual);
        set_number(s, LOWER_UPCAST, other, 4);
        set_number(s, LOWER_UPCAST, r, 1);
    }
}

static void
add_copies(struct neighbour_list *l, uint32_t r)
{
    static const uint8_t factors[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16};
    int64_t n = l->made->sizes[r];
    int32_t was = number_of(&l->made->schedule, LOWER_UPCAST, r);
    size_t i, at = 0;

    n /= number_of(&l->made->schedule, LOWER_VECTOR, r);
    for (i = 0; i < ARRAY_LEN(factors); i++) {
        if (factors[i] <= was)
            at = i;
    }
    for (i = 0; i < ARRAY_LEN(factors); i++) {
        bool near = i + 1 == at || i == at || i == at + 1 || i == at + 2 ||
                    i == 0 || factors[i] == n;
        if (near && factors[i] <= n)
            add_cut(l, LOWER_UPCAST, r, factors[i]);
    }
}

static void
add_unrolls(struct neighbour_list *l, uint32_t r)
{
    int64_t n = l->made->sizes[r] /
                number_of(&l->made->schedule, LOWER_VECTOR, r) /
                number_of(&l->made->schedule, LOWER_UPCAST, r);
    int32_t was = number_of(&l->made->schedule, LOWER_UNROLL, r);

    add_cut(l, LOWER_UNROLL, r, 1);
    if (was > 2)
        add_cut(l, LOWER_UNROLL, r, was / 2);
    add_cut(l, LOWER_UNROLL, r, was * 2);
    if (n <= MAX_UNROLL)
        add_cut(l, LOWER_UNROLL, r, n);
}

/* The same tile turned: fewer of one for more of another. */
static void
add_trades(struct neighbour_list *l, uint32_t r)
{
    int32_t was = number_of(&l->made->schedule, LOWER_UPCAST, r);
    struct lower_schedule *s;
    uint32_t other;

    for (other = 0; other < l->made->n_ranges && was > 1; other++) {
        int32_t has = number_of(&l->made->schedule, LOWER_UPCAST, other);
        if (other == r || l->made->sizes[other] < 2 * has ||
            !(s = add_neighbour(l)))
            continue;
        drop_loops(s);
        set_number(s, LOWER_UPCAST, r, was / 2);
        set_number(s, LOWER_UPCAST, other, has * 2);
    }
}

/* Order and work-groups. */
static void
add_loops(struct neighbour_list *l)
{
    const struct lower_schedule *from = &l->made->schedule;
    struct lower_schedule *s;
    uint32_t i, j, r;

    for (i = 0; i < from->n_actions; i++) {
        const struct lower_action *a = &from->actions[i];
        switch ((int)a->kind) {
        case LOWER_PANELS:
        case LOWER_PARTS:
        case LOWER_HEIGHT:
            add_number(l, i, 0, a->n[0] * 2);
            if (a->n[0] > 1)
                add_number(l, i, 0, a->n[0] / 2);
            break;
        case LOWER_GRID:
            add_number(l, i, 1, a->n[1] * 2);
            if (a->n[1] > 2)
                add_number(l, i, 1, a->n[1] / 2);
            for (r = 0; r < l->made->n_ranges; r++) {
                if (r != (uint32_t)a->n[0] &&
                    number_of(from, LOWER_GRID, r) == 1)
                    add_number(l, i, 0, r);
            }
            break;
        case LOWER_ORDER:
            for (j = 0; j < from->n_actions; j++) {
                const struct lower_action *b = &from->actions[j];
                if (b->kind != LOWER_ORDER || b->n[1] != a->n[1] + 1 ||
                    !(s = add_neighbour(l)))
                    continue;
                s->actions[i].n[1] = b->n[1];
                s->actions[j].n[1] = a->n[1];
            }
            break;
        default:
            break;
        }
    }
}

static void
add_for_cpu(struct neighbour_list *l)
{
    const struct lower_made *made = l->made;
    bool product = made->schedule.actions[0].kind == LOWER_PRODUCT;
    uint32_t r;

    for (r = 0; r < made->n_ranges; r++) {
        bool reduce = made->reduce_ranges >> r & 1;
        if (made->sizes[r] < 2)
            continue;
        if (!product)
            add_vectors(l, r);
        if (!product || r == made->row || r == made->column) {
            add_copies(l, r);
            add_trades(l, r);
        }
        if (reduce)
            add_unrolls(l, r);
    }
    if (product && made->schedule.actions[0].n[0] < 2)
        add_number(l, 0, 0, !made->schedule.actions[0].n[0]);
    add_loops(l);
}

/* ---- a GPU ---- */

static void
add_for_gpu(struct neighbour_list *l)
{
    const struct lower_action *a = &l->made->schedule.actions[0];
    struct lower_schedule *s;
    uint32_t i, j;

    for (i = 0; i < LOWER_ACTION_ARGS; i++) {
        if (!a->n[i] || (a->kind == LOWER_TEAM && i == 3))
            continue;
        add_number(l, 0, i, (int64_t)a->n[i] * 2);
        if (a->n[i] > 1)
            add_number(l, 0, i, a->n[i] / 2);
        for (j = 0; j < LOWER_ACTION_ARGS && a->n[i] > 1; j++) {
            if (j == i || !a->n[j] || !(s = add_neighbour(l)))
                continue;
            s->actions[0].n[i] /= 2;
            s->actions[0].n[j] *= 2;
        }
    }
    if (a->kind == LOWER_TEAM)
        add_number(l, 0, 3, !a->n[3]);
}

/* ---- all ---- */

uint32_t
lower_neighbours(const struct lower_made *made,
                 const struct lower_target *target, struct lower_schedule *list,
                 uint32_t cap)
{
    struct neighbour_list l = {made, target, list, 0, cap};

    if (!made->schedule.n_actions)
        return 0;
    if (target->is_gpu)
        add_for_gpu(&l);
    else
        add_for_cpu(&l);
    return l.n;
}

uint32_t
lower_alternatives(const struct lower_target *target,
                   struct lower_schedule *list, uint32_t cap)
{
    uint32_t most = target->is_gpu ? OPT_FORMS_GPU : OPT_FORMS_CPU, forms,
             n = 0;

    for (forms = 1; forms <= most && n < cap; forms = forms * 2 + 1) {
        list[n].n_actions = 1;
        list[n++].actions[0] =
            (struct lower_action){LOWER_WITHOUT, {(int32_t)forms}};
    }
    return n;
}
